"""Closed forms against the reference numbers, and against what they are the closed forms of."""

import itertools
import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield import theory

REFERENCE = json.loads((Path(__file__).parent / "data" / "reference_values.json").read_text())
EPS = np.finfo(float).eps
KINDS = {"SA": mf.SA, "USA": mf.USA}
# the published numbers have 20 digits; the promise is 1e-12
PUBLISHED = 1e-12


def name(row):
    return "-".join(str(value) for key, value in row.items() if key in {"kind", "d", "n", "beta"})


# ---------------------------------------------------------------- growth at the uniform measure


@pytest.mark.parametrize("row", REFERENCE["growth"], ids=name)
def test_published_growth(row):
    for kind in ("SA", "USA"):
        rates = theory.growth_rates(KINDS[kind](row["beta"]), row["d"], row["k"])
        assert rates.shape == (row["k"] + 1,)
        assert rates[-1] == pytest.approx(float(row[kind]), rel=PUBLISHED)


@pytest.mark.parametrize("row", REFERENCE["argmax"], ids=name)
def test_published_number_of_clusters(row):
    for kind in KINDS.values():
        assert np.argmax(theory.growth_rates(kind(row["beta"]), row["d"], 40)) == row["kmax"]


@pytest.mark.parametrize("kind", KINDS.values())
@pytest.mark.parametrize("dim", [2, 3, 10, 50])
def test_growth_at_beta_zero(kind, dim):
    """γ_1 = (d-1)/d, the others vanish; and it is the limit."""
    rates = theory.growth_rates(kind(0.0), dim, 4)
    assert rates.tolist() == [0.0, (dim - 1.0) / dim, 0.0, 0.0, 0.0]
    near = theory.growth_rates(kind(1e-8), dim, 4)
    # γ_2 is of order β, γ_k is of order β^{k-1}
    assert np.max(np.abs(near - rates)) < 1e-8


def test_growth_at_large_beta():
    """SA: γ_k → k(k+d-2)/β, a backward heat flow, first order e^{-L/2β}; argmax near sqrt(2β)."""
    beta = 5000.0
    k = np.arange(151)
    rates = theory.growth_rates(mf.SA(beta), 2, 150)
    # next order of log(I_k/I_0): k²/(4β²) (1 + k²/(6β)), below
    assert np.allclose(rates[:30], (k**2 / beta * np.exp(-(k**2) / (2 * beta)))[:30], rtol=1e-4)
    assert abs(np.argmax(rates) - math.sqrt(2 * beta)) < 1
    # the maximum tends to 2/e
    assert rates.max() == pytest.approx(2 / math.e, rel=1e-3)


@given(
    st.sampled_from(list(KINDS.values())),
    st.floats(0.01, 50.0),
    st.sampled_from([2, 3, 20]),
    st.floats(0.0, 3.0),
)
def test_sign_and_noise(kind, beta, dim, noise):
    """γ = sign · attraction - τ k(k+d-2), and SA is USA over Λ_0."""
    k = np.arange(9)
    damping = noise * (k * (k + dim - 2.0))
    attraction = theory.growth_rates(kind(beta), dim, 8)
    assert attraction[0] == 0
    assert np.all(attraction[1:] > 0)
    for sign in (1, -1):
        found = theory.growth_rates(kind(beta, sign=sign, noise=noise), dim, 8)
        assert np.array_equal(found, sign * attraction - damping)
    ratio = (
        theory.growth_rates(mf.USA(beta), dim, 8)[1:] / theory.growth_rates(mf.SA(beta), dim, 8)[1:]
    )
    # e^β in eight factors, then two quotients
    assert np.allclose(ratio, theory.eigenvalues(beta, dim, 0)[0], rtol=40 * EPS, atol=0)


@pytest.mark.parametrize("row", REFERENCE["kappa_lin"], ids=name)
def test_published_critical_noise(row):
    noise = theory.critical_noise(mf.USA(row["beta"]), row["d"], degree=row["k"])
    assert 1 / noise == pytest.approx(float(row["kappa"]), rel=PUBLISHED)


@pytest.mark.parametrize("kind", KINDS.values())
@pytest.mark.parametrize("degree", [1, 2, 5])
def test_critical_noise_stops_the_growth(kind, degree):
    noise = theory.critical_noise(kind(3.0, noise=7.0), 4, degree=degree)
    rates = theory.growth_rates(kind(3.0), 4, degree)
    assert rates[degree] > 0
    stopped = theory.growth_rates(kind(3.0, noise=noise), 4, degree)
    assert abs(stopped[degree]) < 4 * EPS * rates[degree]
    # Λ_k falls with k: at the noise critical for one degree the lower ones still grow
    assert np.all(stopped[1:degree] > 0)


# ---------------------------------------------------------------- energies


@pytest.mark.parametrize("row", REFERENCE["energy"], ids=name)
def test_published_energies(row):
    uniform = theory.energy_uniform(row["beta"], row["d"])
    assert uniform == pytest.approx(float(row["uniform"]), rel=PUBLISHED)
    assert theory.energy_dirac(row["beta"]) == pytest.approx(float(row["dirac"]), rel=PUBLISHED)


@pytest.mark.parametrize("dim", [2, 3, 10, 1024])
@pytest.mark.parametrize("beta", [1e-6, 0.3, 4.0, 100.0, 700.0])
def test_energy_of_the_sphere(beta, dim):
    """E(σ) < E(δ); both are those of the measures themselves."""
    low, high = theory.energy_uniform(beta, dim), theory.energy_dirac(beta)
    assert 0 < low < high
    token = mf.Particles(np.eye(dim)[:1])
    # e^β has the rounding of its exponent
    assert mf.energy(token, beta) == pytest.approx(high, rel=(4 + beta) * EPS)
    density = mf.Density(mf.Zonal(dim, 15), mf.Uniform(dim))
    assert mf.energy(density, beta) == pytest.approx(low, rel=(40 + 2 * beta) * EPS)


def test_energies_at_beta_zero():
    assert theory.energy_uniform(0.0, 3) == 0.0
    assert theory.energy_dirac(0.0) == 0.5
    # what the limit leaves out is the constant 1/(2β)
    assert theory.energy_dirac(1e-5) - 0.5e5 == pytest.approx(0.5, abs=1e-5)
    assert theory.energy_uniform(1e-5, 3) - 0.5e5 == pytest.approx(0.0, abs=1e-5)


def exact_log_first(beta, dim):
    """log Λ_0 = log 0F1(; d/2; β²/4)."""
    return mpmath.log(mpmath.hyp0f1(mpmath.mpf(dim) / 2, mpmath.mpf(beta) ** 2 / 4))


SMALL_AND_LARGE = [1e-300, 1e-160, 1e-12, 1e-6, 1e-3, 0.03, 0.3, 1.0, 4.0, 30.0, 1e3, 1e4]


@pytest.mark.parametrize("dim", [2, 3, 10, 50, 300, 1024])
def test_sinkhorn_energy_at_any_beta(dim):
    """log Λ_0/(2β) is β/(4d) at first, where log Λ_0 is far below the rounding of Λ_0."""
    for beta in [*SMALL_AND_LARGE, np.sqrt(dim) * (1 - 1e-9), np.sqrt(dim) * (1 + 1e-9)]:
        # enough digits for the logarithm of 1 + 1e-600
        with mpmath.workdps(640 if beta < 1e-100 else 60):
            exact = exact_log_first(beta, dim)
            energy = theory.energy_uniform(mf.DoublyStochastic(beta), dim)
            assert abs(energy / (exact / (2 * mpmath.mpf(beta))) - 1) < 1e-13
            # which is below the least double at β < 1e-154
            if beta > 1e-150:
                assert abs(theory.log_eigenvalues(beta, dim, 0)[0] / exact - 1) < 1e-13
    assert theory.energy_uniform(mf.DoublyStochastic(0.0), dim) == 0.0


@pytest.mark.parametrize("dim", [2, 3, 50, 1024])
def test_growth_at_any_beta(dim):
    """Λ_k/β of small β, where Λ_k itself is below the least double."""
    for beta in SMALL_AND_LARGE:
        with mpmath.workdps(60):
            half, b = mpmath.mpf(dim) / 2, mpmath.mpf(beta)
            multipliers = [
                (b / 2) ** k / mpmath.rf(half, k) * mpmath.hyp0f1(k + half, b * b / 4)
                for k in range(5)
            ]
            for k in range(1, 5):
                usa = k * (k + dim - 2) * multipliers[k] / b
                wanted = {mf.SA: usa / multipliers[0]}
                wanted[mf.DoublyStochastic] = usa / (multipliers[0] + multipliers[k])
                if beta <= 300:
                    wanted[mf.USA] = usa
                for kind, exact in wanted.items():
                    if exact > 1e-300:
                        found = theory.growth_rates(kind(beta), dim, 4)[k]
                        assert abs(found / exact - 1) < 1e-13


# ---------------------------------------------------------------- tokens that start orthogonal


@pytest.mark.parametrize("row", REFERENCE["gamma_t"], ids=name)
def test_published_inner_product(row):
    found = theory.orthogonal_tokens(KINDS[row["kind"]](row["beta"]), row["n"], row["t"])
    assert found == pytest.approx(float(row["value"]), rel=PUBLISHED)


@pytest.mark.parametrize("kind", KINDS.values())
def test_inner_product_at_beta_zero(kind):
    """dγ/dt = (2/n)(1-γ)((n-1)γ+1): γ = (e^{2t} - 1)/(e^{2t} + n - 1)."""
    for n, t in itertools.product([2, 7, 1000], [1e-8, 0.3, 4.0, 15.0]):
        grown = math.expm1(2 * t)
        exact = grown / (grown + n)
        # the root is sought to 1e-15 in -log(1-γ)
        assert theory.orthogonal_tokens(kind(0.0), n, t) == pytest.approx(
            exact, rel=1e-12, abs=2e-15
        )


@pytest.mark.parametrize(
    ("beta", "t"), [(700.0, 1e-3), (705.0, 1.0), (800.0, 1e300), (800.0, 1e308), (1e3, 1e308)]
)
def test_inner_product_beyond_overflow(beta, t):
    """SA: at first γ = 2 t e^{-β}, however large e^β is."""
    exact = mpmath.mpf(2) * mpmath.mpf(t) * mpmath.exp(-mpmath.mpf(beta))
    gamma = theory.orthogonal_tokens(mf.SA(beta), 4, t)
    assert 0.0 < gamma < 1e-10
    # the next term is of relative size β γ, below 1e-10 here
    assert gamma == pytest.approx(float(exact), rel=1e-10 if gamma > 1e-20 else 2e-13, abs=0.0)


def test_inner_product_that_is_over_in_no_time():
    assert theory.orthogonal_tokens(mf.USA(700.0), 4, 1.0) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beta", "n", "delta"), [(599, 32, 1e-3), (601, 32, 1e-3), (705, 5, 0.5), (716, 5, 0.5)]
)
def test_arrival_at_large_beta(beta, n, delta):
    """(6.12) by mpmath, on both sides of where e^β is taken out of the integral."""
    with mpmath.workdps(30):

        def slowness(gamma):
            above = mpmath.exp(beta * (1 - gamma)) + n - 1
            return above / (2 * (1 - gamma) * ((n - 1) * gamma + 1))

        edges = [mpmath.mpf(x) / beta for x in (0, 1, 3, 10, 30, 100, 250)] + [1 - delta]
        exact = float(mpmath.quad(slowness, edges))
    assert theory.orthogonal_arrival(mf.SA(float(beta)), n, delta) == pytest.approx(
        exact, rel=2e-13
    )


@pytest.mark.parametrize("beta", [717.0, 800.0, 1e4])
def test_arrival_that_no_float_holds(beta):
    with pytest.raises(ValueError, match=rf"beta must be .* got {beta:g} with n = 5"):
        theory.orthogonal_arrival(mf.SA(beta), 5, 0.5)


# ---------------------------------------------------------------- stability (Remark 3.3)


def quotients(dynamics):
    """How fast X varies with x and, in units of W_1, with the measure, where it does so most."""
    beta, step = dynamics.beta, 1e-4
    north, turned = np.array([0.0, 1.0]), np.array([np.sin(step), np.cos(step)])

    def velocity(points, weights, at):
        return dynamics.velocity(
            mf.Particles(points, weights, sums="direct", unit_mass=True), at=[at]
        )[0]

    if isinstance(dynamics, mf.USA):
        near, far = velocity([north], [1.0], turned), velocity([turned], [1.0], north)
        return np.linalg.norm(near) / step, np.linalg.norm(far) / step
    # two points on both sides, a little below: β (1 - c²) + c at c = 1/(2β)
    c = min(1.0, 0.5 / beta) if beta > 0.0 else 1.0
    pair = [[np.sqrt(1 - c * c), -c], [-np.sqrt(1 - c * c), -c]]
    # half a step to each side, in one chart
    sides = [velocity(pair, None, [np.sin(s), np.cos(s)]) for s in (-step, step)]
    along = [side @ [np.cos(s), -np.sin(s)] for side, s in zip(sides, (-step, step), strict=True)]
    in_x = (along[1] - along[0]) / (2 * step)
    # a small mass at x while all else is at its antipode
    mass = 1e-3 * np.exp(-2 * beta)
    in_mu = velocity([turned, -north], [mass, 1.0 - mass], north)
    return abs(in_x), np.linalg.norm(in_mu) / (mass * step)


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 3.0, 5.0])
def test_dobrushin_constant_is_reached_but_for_its_estimate(beta):
    """Both parts for USA, the first for SA; its second lies between e^{2β} and (1 + 2β) e^{2β}."""
    for sign in 1, -1:
        in_x, in_mu = quotients(mf.USA(beta, sign=sign))
        assert theory.dobrushin_constant(mf.USA(beta, sign=sign)) == pytest.approx(
            in_x + in_mu, rel=1e-6
        )
        in_x, in_mu = quotients(mf.SA(beta, sign=sign))
        constant = theory.dobrushin_constant(mf.SA(beta, sign=sign))
        # the mass itself takes 1e-3 of the quotient, the step 1e-8 (1 + β)²
        assert in_mu == pytest.approx(np.exp(2 * beta), rel=2e-3)
        assert in_x + in_mu <= constant * (1 + 1e-6)
        assert constant - in_x == pytest.approx((1 + 2 * beta) * np.exp(2 * beta), rel=1e-6)


# ---------------------------------------------------------------- Wendel's theorem (6.7)


def test_wendel_in_closed_form():
    for n in range(1, 60):
        # on the circle n/2^{n-1}, all others being in the half circle after one of the points
        assert theory.wendel(n, 2) == (1.0 if n <= 2 else n / 2 ** (n - 1))
        if n > 1:
            assert theory.wendel(2 * n, n) == 0.5
            assert theory.wendel(n, n) == theory.wendel(n - 1, n) == 1.0
    assert theory.wendel(4, 3) == 7 / 8
    assert theory.wendel(5, 3) == 11 / 16
    # complementary: W(n, d) + W(n, n - d) = 1
    assert theory.wendel(30, 12) + theory.wendel(30, 18) == pytest.approx(1, abs=EPS)
    # far out of the range of a float's factorials
    assert 0 < theory.wendel(3000, 1024) < 1e-50
    assert theory.wendel(5000, 2) < 1e-300
