"""Multipliers of e^{β<x,y>} against closed forms, published values and mpmath."""

import json
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meanfield.kernels import multipliers
from meanfield.spaces.gegenbauer import gegenbauer, multiplicities, multiplicity_growth

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "reference_values.json").read_text())
EPS = np.finfo(float).eps
BETAS = [1e-8, 1e-3, 0.3, 1.0, 4.0, 9.0, 25.0, 100.0, 700.0, 1000.0, 1e4]
DIMS = [2, 3, 4, 5, 10, 50, 257, 1024]
betas = st.floats(-8.0, 4.0).map(lambda x: 10.0**x)
dims = st.sampled_from(DIMS)


def exact_eigenvalue(beta, dim, k):
    half, beta = mpmath.mpf(dim) / 2, mpmath.mpf(beta)
    power = (beta / 2) ** k * mpmath.gammaprod([half], [half + k])
    return power * mpmath.hyp0f1(half + k, beta**2 / 4)


@pytest.mark.slow
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("dim", DIMS)
def test_eigenvalues_against_mpmath(dim, beta):
    """The promise: 1e-13, for β to 1e4, d to 1024, k to 2000."""
    kmax = 2000
    logs = multipliers.log_eigenvalues(beta, dim, kmax)
    values = multipliers.eigenvalues(beta, dim, kmax)
    scaled = multipliers.scaled_eigenvalues(beta, dim, kmax)
    relative = multipliers.relative_eigenvalues(beta, dim, kmax)
    with mpmath.workdps(40):
        first = exact_eigenvalue(beta, dim, 0)
        # and where log Λ_k passes through zero, hardest to know against β
        for k in (0, 1, 7, 60, int(np.argmin(np.abs(logs))), 2000):
            exact = exact_eigenvalue(beta, dim, k)
            log = mpmath.log(exact)
            assert abs(logs[k] - log) < 1e-13 * max(1, abs(log))
            if abs(log) < 708:
                # a logarithm of 708 is rounded by 6e-14
                assert abs(values[k] - exact) < 1e-13 * exact
            if abs(log - beta) < 708:
                assert abs(scaled[k] * mpmath.exp(beta) - exact) < 1e-13 * exact
            if exact > 1e-307 * first:
                assert abs(relative[k] * first - exact) < 1e-13 * exact


@pytest.mark.parametrize(
    "row", REFERENCE["Lambda"], ids=lambda r: f"d{r['d']}-b{r['beta']}-{r['k']}"
)
def test_published_eigenvalues(row):
    found = multipliers.eigenvalues(row["beta"], row["d"], row["k"])[-1]
    assert found == pytest.approx(float(row["value"]), rel=1e-12)


@pytest.mark.parametrize("dim", DIMS)
def test_beta_zero_is_the_limit(dim):
    assert multipliers.eigenvalues(0.0, dim, 3).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert multipliers.scaled_eigenvalues(0, dim, 3).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert multipliers.relative_eigenvalues(0.0, dim, 3).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert multipliers.log_eigenvalues(0.0, dim, 3).tolist() == [0.0, -np.inf, -np.inf, -np.inf]
    # Λ_k = β^k / (d (d+2) … (d+2k-2)) · (1 + O(β²))
    beta, k = 1e-9, np.arange(1, 6)
    leading = np.cumprod(beta / (dim + 2.0 * k - 2))
    assert np.allclose(multipliers.eigenvalues(beta, dim, 5)[1:], leading, rtol=20 * EPS, atol=0)


def test_values_that_over_or_underflow():
    assert multipliers.eigenvalues(1000.0, 3, 0)[0] == np.inf
    assert multipliers.eigenvalues(1.0, 3, 400)[400] == 0.0
    with np.errstate(all="raise"):
        assert multipliers.scaled_eigenvalues(1.0, 3, 400)[400] == 0.0
        assert multipliers.relative_eigenvalues(1.0, 3, 400)[400] == 0.0
        assert multipliers.log_eigenvalues(1.0, 3, 400)[400] == pytest.approx(-2280.876398773366)


@pytest.mark.parametrize(
    ("beta", "dim", "k"),
    [
        *[(829.37, 2, 461), (1e3, 3, 782), (850.0, 4, 500)],
        *[(1e4, 10**6, 0), (1e4, 2 * 10**5, 0), (2e4, 10**6, 0)],
    ],
)
def test_values_within_double_precision_of_factors_beyond(beta, dim, k):
    """Λ_k < 1e308 while e^{β/pieces} times it is not, or e^β is not: no factor may overflow."""
    with mpmath.workdps(40):
        expected = exact_eigenvalue(beta, dim, k)
        assert mpmath.log(expected) < 709.0 < beta
    value = multipliers.eigenvalues(beta, dim, k)[k]
    # exponents of size β, each with a rounding error of its own
    assert abs(value / float(expected) - 1.0) < EPS * beta
    log_value = multipliers.log_eigenvalues(beta, dim, k)[k]
    assert abs(log_value - float(mpmath.log(expected))) < EPS * beta


@pytest.mark.parametrize("beta", [5e-324, 1e-305, 1e-301, 1e-160, 1e-149])
def test_multipliers_of_tiny_beta(beta):
    """β^k/(d (d+2) …), down to the least double, and their logarithms below it."""
    for dim in (2, 3, 1024):
        leading = [mpmath.mpf(1), mpmath.mpf(beta) / dim]
        leading.append(leading[1] * beta / (dim + 2))
        for call in (
            multipliers.eigenvalues,
            multipliers.scaled_eigenvalues,
            multipliers.relative_eigenvalues,
        ):
            # below 1e-308 the last digits go
            assert abs(call(beta, dim, 2)[1] / leading[1] - 1) < 4 * EPS + 5e-324 / leading[1]
        weights = multipliers.degree_weights(beta, dim, 2)
        assert abs(weights[1] / beta - 1) < 4 * EPS
        logs = multipliers.log_eigenvalues(beta, dim, 2)
        for k in (1, 2):
            assert abs(logs[k] / mpmath.log(leading[k]) - 1) < 4 * EPS


@given(beta=betas, dim=dims)
def test_bandwidth_keeps_its_promise(beta, dim):
    """N_k Λ_k < 1e-17 min(Λ_0, N_1 Λ_1) for all k beyond it, and not for itself."""
    band = multipliers.bandwidth(beta, dim)
    logs = multipliers.log_eigenvalues(beta, dim, band + 200)
    logs += np.concatenate(
        [[0.0], np.cumsum(np.log(multiplicity_growth(dim, np.arange(1.0, band + 201))))]
    )
    assert band >= 1
    negligible = logs - logs[:2].min() < np.log(1e-17)
    assert negligible[band + 1 :].all()
    assert not negligible[band]


@pytest.mark.parametrize("dim", [2, 3, 10, 50])
def test_bandwidth_is_enough_for_the_kernel(dim):
    """e^{βt} = Σ_{k <= K} N_k Λ_k P_k(t) (proof of Proposition 3.4) to rounding."""
    t = np.linspace(-1, 1, 31)
    assert multipliers.bandwidth(0.0, dim) == 1
    for beta in (0.5, 4.0, 25.0):
        band = multipliers.bandwidth(beta, dim)
        terms = multiplicities(dim, band) * multipliers.eigenvalues(beta, dim, band)
        series = terms @ gegenbauer(dim, band, t)
        # Σ N_k Λ_k = e^β bounds the terms, and each P_k has k roundings
        assert np.max(np.abs(series - np.exp(beta * t))) < 4 * band * EPS * np.exp(beta)
        # one degree in eight less, and the promise is broken
        short = band - band // 8 - 1
        series = terms[: short + 1] @ gegenbauer(dim, short, t)
        assert np.max(np.abs(series - np.exp(beta * t))) > 10 * 1e-17 * terms[0]


def test_bad_arguments():
    with pytest.raises(ValueError, match="beta must be a finite number >= 0, got -1"):
        multipliers.bandwidth(-1.0, 3)
    with pytest.raises(ValueError, match="dim must be an integer >= 2, got 0"):
        multipliers.bandwidth(1.0, 0)


@pytest.mark.parametrize("name", ["scaled_eigenvalues", "relative_eigenvalues", "log_eigenvalues"])
def test_what_no_recurrence_ends_for_is_refused(name):
    with pytest.raises(ValueError, match=r"beta must be at most 1e\+09 .*, got 1e\+308"):
        getattr(multipliers, name)(1e308, 3, 4)
