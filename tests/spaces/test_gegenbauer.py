"""Gegenbauer polynomials, multiplicities and Gauss nodes against closed forms and mpmath."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import eval_legendre

from meanfield.spaces.gegenbauer import (
    gauss_gegenbauer,
    gegenbauer,
    gegenbauer_derivative,
    multiplicities,
    multiplicity_growth,
)

EPS = np.finfo(float).eps
DIMS = [2, 3, 4, 5, 10, 50, 257, 1024]


def orthonormal(dim, kmax, t):
    norms = np.sqrt(multiplicities(dim, kmax))
    return norms[:, None] * gegenbauer(dim, kmax, t)


@pytest.mark.parametrize(
    ("dim", "formula"),
    [
        (2, lambda k: 1 if k == 0 else 2),
        (3, lambda k: 2 * k + 1),
        (4, lambda k: (k + 1) ** 2),
        (5, lambda k: (k + 1) * (k + 2) * (2 * k + 3) // 6),
        (6, lambda k: (k + 1) * (k + 2) ** 2 * (k + 3) // 12),
    ],
)
def test_multiplicities_in_closed_form(dim, formula):
    assert multiplicities(dim, 60).tolist() == [formula(k) for k in range(61)]


@pytest.mark.parametrize("dim", DIMS)
def test_multiplicity_growth_is_their_ratio(dim):
    n = multiplicities(dim, 50)
    growth = multiplicity_growth(dim, np.arange(1.0, 51))
    assert np.allclose(growth, n[1:] / n[:-1], rtol=8 * EPS, atol=0)


def test_multiplicities_beyond_double_precision():
    """N_303 of d = 1024 is the last one below 2^1023."""
    assert np.isfinite(multiplicities(1024, 303)).all()
    with pytest.raises(ValueError, match=r"^kmax = 304 is too large for dim = 1024"):
        multiplicities(1024, 304)


@pytest.mark.parametrize("dim", DIMS)
def test_polynomials_at_the_poles(dim):
    k = np.arange(101)
    ends = gegenbauer(dim, 100, np.array([1.0, -1.0, 0.0]))
    # in each step weights of sum 1 are rounded: at most 3 eps a degree at t = ±1
    assert np.max(np.abs(ends[:, 0] - 1)) < 300 * EPS
    assert np.max(np.abs(ends[:, 1] - (-1.0) ** k)) < 300 * EPS
    assert np.all(ends[1::2, 2] == 0)
    t = np.linspace(-1, 1, 201)
    assert np.max(np.abs(gegenbauer(dim, 100, t))) < 1 + 300 * EPS


def test_polynomials_in_closed_form():
    """Chebyshev for d = 2, Legendre for d = 3, sin((k+1)θ)/((k+1) sin θ) for d = 4."""
    theta, k = np.linspace(0.05, np.pi - 0.05, 60), np.arange(81)[:, None]
    t = np.cos(theta)
    # the recurrence is stable in [-1, 1], but a rounding of t moves P_k by up to k²·eps
    tolerance = 81**2 * EPS
    for dim, exact in [
        (2, np.cos(k * theta)),
        (3, eval_legendre(k, t)),
        (4, np.sin((k + 1) * theta) / ((k + 1) * np.sin(theta))),
    ]:
        assert np.max(np.abs(gegenbauer(dim, 80, t) - exact)) < tolerance


@pytest.mark.parametrize("dim", [5, 10, 50, 300, 1024])
def test_polynomials_against_mpmath(dim):
    t = np.array([-0.93, -0.2, 0.01, 0.35, 0.999])
    found = gegenbauer(dim, 40, t)
    for k in (2, 7, 40):
        with mpmath.workdps(80):
            order = mpmath.mpf(dim) / 2 - 1
            exact = [
                float(mpmath.gegenbauer(k, order, x) / mpmath.gegenbauer(k, order, 1)) for x in t
            ]
        # P_k falls to N_k^{-1/2} inside: errors are relative to that, times the k steps
        scale = np.abs(exact) + multiplicities(dim, k)[-1] ** -0.5
        assert np.max(np.abs(found[k] - exact) / scale) < 10 * k * EPS


def test_derivative_in_closed_form():
    """k sin kθ / sin θ on the circle; exact coefficients of Legendre's polynomials."""
    theta, k = np.linspace(0.05, np.pi - 0.05, 50), np.arange(31)
    found = gegenbauer_derivative(2, 30, np.cos(theta))
    exact = k[:, None] * np.sin(k[:, None] * theta) / np.sin(theta)
    # a rounding of t moves P_k' by up to k^4 eps, near t = 1
    assert np.max(np.abs(found - exact)) < 30**4 * EPS
    t = np.linspace(-1, 1, 50)
    for degree in (1, 2, 5, 12):
        exact = np.polynomial.Legendre.basis(degree).deriv()(t)
        found = gegenbauer_derivative(3, degree, t)[degree]
        assert np.max(np.abs(found - exact)) < degree**4 * EPS


def test_shapes_follow_t():
    t = np.full((2, 3), 0.5)
    assert gegenbauer(3, 4, t).shape == (5, 2, 3)
    assert gegenbauer_derivative(3, 4, t).shape == (5, 2, 3)
    assert gegenbauer(3, 0, np.array(0.5)).shape == (1,)


# ---------------------------------------------------------------- Gauss nodes


def exact_moment(dim, degree):
    """∫ <x,e>^{2m} dσ = Π_{j=1}^m (2j-1)/(d+2j-2)."""
    return math.prod((2 * j - 1) / (dim + 2 * j - 2) for j in range(1, degree // 2 + 1))


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 65])
def test_gauss_nodes_integrate_powers(dim, n):
    t, w = gauss_gegenbauer(dim, n)
    assert t.shape == w.shape == (n,)
    assert np.all(np.diff(t) > 0)
    assert np.all(np.abs(t) < 1)
    assert w.min() > 0
    for degree in range(2 * n):
        moment = w @ t**degree
        if degree % 2:
            # nodes and weights are symmetric: only the sum is rounded
            assert abs(moment) <= n * EPS * (w @ np.abs(t) ** degree)
        else:
            # t^degree multiplies a node's relative rounding by its degree
            assert moment == pytest.approx(exact_moment(dim, degree), rel=(20 + 4 * degree) * EPS)


@pytest.mark.parametrize("dim", [2, 3, 4, 10, 50, 300, 1024])
@pytest.mark.parametrize("kmax", [8, 47])
def test_polynomials_are_orthonormal(dim, kmax):
    t, w = gauss_gegenbauer(dim, kmax + 1)
    p = orthonormal(dim, kmax, t)
    # kmax steps of the recurrence, each relative to sqrt(p_k² summed), and kmax terms
    assert np.max(np.abs((p * w) @ p.T - np.eye(kmax + 1))) < 20 * kmax * EPS


@pytest.mark.parametrize(("dim", "n"), [(50, 40), (1024, 24)])
def test_small_gauss_weights_keep_their_digits(dim, n):
    t, w = gauss_gegenbauer(dim, n)
    assert w[0] < 1e-9 * w[n // 2]
    with mpmath.workdps(60):
        order = mpmath.mpf(dim) / 2 - 1
        node = mpmath.findroot(
            lambda x: mpmath.gegenbauer(n, order, x) / mpmath.gegenbauer(n, order, t[0] + 1e-6),
            (t[0] - 1e-9, t[0] + 1e-9),
            solver="anderson",
        )
        total = mpmath.fsum(
            mpmath.mpf(math.comb(k + dim - 2, k) + (math.comb(k + dim - 3, k - 1) if k else 0))
            * (mpmath.gegenbauer(k, order, node) / mpmath.gegenbauer(k, order, 1)) ** 2
            for k in range(n)
        )
        assert abs(t[0] / node - 1) < 8 * EPS
        # the relative slope of Σ p_k² at a node is about n + d
        assert abs(w[0] * total - 1) < 4 * (n + dim) * EPS


def test_too_many_gauss_nodes_are_refused():
    assert np.isfinite(gauss_gegenbauer(1024, 300)[1]).all()
    with pytest.raises(ValueError, match=r"^n = 900 Gauss nodes are too many for dim = 1024"):
        gauss_gegenbauer(1024, 900)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: multiplicities(1, 3), "dim must be an integer >= 2, got 1"),
        (lambda: multiplicities(3, -1), "kmax must be an integer >= 0, got -1"),
        (lambda: gauss_gegenbauer(3, 0), "n must be an integer >= 1, got 0"),
        (lambda: gauss_gegenbauer(1, 3), "dim must be an integer >= 2, got 1"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
