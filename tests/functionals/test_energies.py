"""Energy, dissipation and distance where e^β, or e^{-β} Λ_0, leaves double precision."""

import mpmath
import numpy as np
import pytest

import meanfield as mf
from meanfield.cli.text import table
from meanfield.kernels.multipliers import eigenvalues_in_unit
from tests.handmade import scaled_dissipation

EPS = np.finfo(float).eps
MANY = mf.ZonalSeries(1024, [0.5])
SPACE = mf.Zonal(1024, 8)


def exact_multiplier(k, beta, dim):
    """Λ_k(β, d) with 50 digits."""
    with mpmath.workdps(50):
        order = mpmath.mpf(dim) / 2 - 1
        bessel = mpmath.besseli(order + k, beta)
        return mpmath.gamma(order + 1) * (mpmath.mpf(2) / beta) ** order * bessel


def test_eigenvalues_in_unit():
    for beta, dim in [(2.0, 3), (700.0, 1024), (1400.0, 1024), (1e4, 512)]:
        values, log_unit = eigenvalues_in_unit(beta, dim, 3)
        assert (log_unit == beta) == (beta <= 700.0)
        with mpmath.workdps(50):
            exact = [exact_multiplier(k, beta, dim) * mpmath.exp(-log_unit) for k in range(4)]
        # the logarithm of the unit has the rounding of some 1e4
        assert np.allclose(values, np.array(exact, dtype=float), rtol=5e-12, atol=0)


def test_energy_beyond_the_range_of_the_scaled_one():
    density = mf.Density(SPACE, MANY)
    with mpmath.workdps(50):
        first, second = (exact_multiplier(k, 1400, 1024) for k in range(2))
        exact = first + second * mpmath.mpf("0.25") / 1024
    power = density._power
    assert power[1] == pytest.approx(0.25 / 1024, rel=1e-12)
    assert mf.energy(density, 1400.0) == pytest.approx(float(exact / 2800), rel=1e-11)
    assert mf.energy_share(density, 1400.0) == 0.0
    uniform = mf.Density(mf.Zonal(512, 5), mf.Uniform(512))
    with pytest.raises(ValueError, match=r"energy fits float64, got SA.*: energy_share does"):
        mf.energy(uniform, 1e4)


def test_distance_beyond_the_range_of_its_square():
    uniform, other = mf.Density(SPACE, mf.Uniform(1024)), mf.Density(SPACE, MANY)
    exact = mpmath.sqrt(exact_multiplier(1, 1400, 1024) / 4096)
    assert mf.mmd(uniform, other, 1400.0) == pytest.approx(float(exact), rel=1e-11)
    scaled = float(exact * mpmath.exp(-700))
    assert 1e-169 < scaled < 1e-167
    assert mf.mmd(uniform, other, 1400.0, scaled=True) == pytest.approx(scaled, rel=1e-11, abs=0.0)


def test_run_where_the_uniform_energy_is_far_below_a_diracs():
    """E rises from near Λ_0/(2β), by the work, at the rate that `dissipation` tells."""
    density, beta = mf.Density(SPACE, MANY), 1400.0
    run = mf.evolve(density, mf.SA(beta), 0.1, 4, rtol=1e-12, atol=1e-14)
    assert run.status == "finished"
    energies, rates = run.dataset.energy.values, run.dataset.dissipation.values
    assert energies[0] == pytest.approx(mf.energy(density, beta), rel=1e-11)
    assert rates[0] == pytest.approx(mf.dissipation(density, mf.SA(beta)), rel=1e-11)
    gained = energies - energies[0]
    assert gained[-1] > 1e-5 * energies[0]
    assert np.abs(gained - run.dataset.work.values).max() < 1e-10 * gained[-1]
    # Simpson's rule
    step = run.t[1]
    simpson = step / 3 * (rates[0] + 4 * rates[1] + 2 * rates[2] + 4 * rates[3] + rates[4])
    assert gained[-1] == pytest.approx(simpson, rel=1e-4, abs=0.0)


@pytest.mark.parametrize("sign", [1, -1])
def test_pictures_and_tables_of_such_a_run(sign):
    """Also of a state at rest, with E(δ) beyond double precision."""
    for law in MANY, mf.Uniform(1024):
        run = mf.evolve(mf.Density(SPACE, law), mf.SA(1400.0, sign=sign), 0.1, 2)
        assert table(run).split()[:3] == ["t", "energy", "dissipation"]
        ax = mf.plot.energy(run)
        uniform = f"{mf.theory.energy_uniform(1400.0, 1024):.4g}"
        assert ax.get_title(loc="left") == f"energy, {uniform} ≤ E$_{{β}}$"
        low, high = ax.get_ylim()
        assert low < run.dataset.energy.min() <= run.dataset.energy.max() < high


@pytest.mark.slow
@pytest.mark.parametrize("beta", [300.0, 500.0, 700.0])
def test_dissipation_of_usa_squares_no_large_velocity(beta):
    """Circle(64) against sums of positive terms on its grid; X alone is e^700."""
    density = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.9]))
    # e^{β cos} of 700 has no digit beyond degree 240
    angles = 2 * np.pi * np.arange(1024) / 1024
    apart = angles[:, None] - angles
    values = 1.0 + 0.9 * np.cos(angles)
    slope = -(np.exp(beta * (np.cos(apart) - 1.0)) * np.sin(apart)) @ values / len(angles)
    exact = np.mean(values * slope**2) * np.exp(beta)
    found = scaled_dissipation(density, mf.USA(beta))
    # e^β has the rounding of its exponent
    assert found == pytest.approx(exact, rel=1e-12 + 4 * beta * EPS)
    if beta > 360.0:
        with pytest.raises(ValueError, match="whose dissipation fits float64, got USA"):
            mf.dissipation(density, mf.USA(beta))


@pytest.mark.parametrize("space", [mf.Sphere(15), mf.Zonal(3, 15), mf.Zonal(50, 15)], ids=str)
def test_dissipation_of_usa_on_other_spaces(space):
    """X = e^{-β} ∇u scales it by the square: at β = 300 both ways fit."""
    density = mf.Density(space, mf.ZonalSeries(space.dim, [0.5]))
    for beta in 300.0, 500.0, 700.0:
        multiplier = exact_multiplier(1, beta, space.dim)
        # u = 1 + c <x, e>, ∫ (1 - <x, e>²) (1 + 0.5 <x, e>) dσ = (d-1)/d
        slope = multiplier / beta / 2
        share = (space.dim - 1) / mpmath.mpf(space.dim)
        exact = float(slope**2 * share * mpmath.exp(-mpmath.mpf(beta)))
        found = scaled_dissipation(density, mf.USA(beta))
        assert found == pytest.approx(exact, rel=1e-11, abs=0.0)


@pytest.mark.parametrize("beta", [200.0, 400.0])
def test_usa_moves_a_narrow_law_in_high_dimension(beta):
    """X is of order e^β, which Λ_0 is far below: squares of X must not overflow on the way."""
    law = mf.VonMisesFisher(np.eye(200)[-1], 1500.0)
    start = mf.Density(mf.Zonal(200, 500), law, tail_tol=1e-2)
    t_end = 1e-3 * np.exp(-beta)
    run = mf.evolve(start, mf.USA(beta), t_end, 1)
    assert run.status == "finished", run.message
    speed = np.log(mf.metric_speed(start, mf.USA(beta)))
    assert speed > 0.8 * beta
    # ∫ |X|² dmu is left out where it overflows; e^β has the rounding of its exponent
    assert ("dissipation" in run.dataset) == (2.0 * speed < 709.0)
    found = np.log(scaled_dissipation(start, mf.USA(beta))) + beta
    if "dissipation" in run.dataset:
        found = np.log(run.dataset.dissipation.values[0])
    assert found == pytest.approx(2.0 * speed, rel=1e-13)


TWO_BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0, 0, 1], 1.0), mf.VonMisesFisher([1, 0, 0], 1.0)], [0.5, 0.5]
)


@pytest.mark.parametrize("dynamics", [mf.SA(1000.0), mf.USA(700.0)], ids=str)
def test_a_kernel_that_patches_do_not_resolve_is_refused(dynamics):
    with pytest.raises(ValueError, match=r"beta.* must be smaller .* try a Density on a Sphere"):
        mf.dissipation(mf.FlowMap(TWO_BUMPS), dynamics)


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", [mf.SA(30.0), mf.USA(30.0)], ids=str)
def test_dissipation_of_a_flow_map_on_the_sphere(dynamics):
    """Against velocities and G by sums of positive terms over the same nodes."""
    flow, beta = mf.FlowMap(TWO_BUMPS), dynamics.beta
    log_g, mean = flow.log_moment(beta * flow.points)
    pull = mean - np.einsum("ij,ij->i", mean, flow.points)[:, None] * flow.points
    log_share = log_g - beta if dynamics.normalised else 2.0 * log_g - beta
    exact = flow.weights @ (np.sum(pull**2, axis=1) * np.exp(log_share))
    # the series of X leaves out what is below rounding of its largest
    assert scaled_dissipation(flow, dynamics) == pytest.approx(exact, rel=1e-7, abs=0.0)


@pytest.mark.parametrize(
    "dynamics",
    [
        mf.Attention(2.0, [mf.Head(V=2.0)]),
        mf.FeedForward([[0.0], [1.0]], [[2.0, 0.0]]),
        mf.Layers([mf.Attention(2.0, [mf.Head(V=2.0)])]),
        "SA",
    ],
    ids=str,
)
def test_dissipation_is_of_what_has_an_energy(dynamics):
    with pytest.raises(ValueError, match=r"must (have|be a dynamics with) an energy, got"):
        mf.dissipation(mf.Particles(np.eye(2)), dynamics)


@pytest.mark.slow
def test_kernel_that_no_space_of_many_dimensions_holds():
    """Its degrees end where their multiplicities leave double precision: 303 in d = 1024."""
    density = mf.Density(SPACE, MANY)
    with pytest.raises(
        ValueError, match=r"z must be shorter .* dim = 1024, got length 700, beta for SA and USA"
    ):
        mf.SA(700.0).velocity(density, np.eye(1024)[:2])
    tokens = mf.Particles([SPACE.axis])
    with pytest.raises(ValueError, match=r"beta must be smaller in dim = 1024 .* got 700"):
        mf.mmd(tokens, density, 700.0)


@pytest.mark.parametrize("beta", [20.0, 700.0])
def test_distance_of_tokens_off_the_axis(beta):
    """mmd² of one token and 1 + c <x, e>: e^β - 2 (Λ_0 + c s Λ_1) + Λ_0 + c² Λ_1/d, s = <x, e>."""
    density = mf.Density(SPACE, MANY)
    token = np.eye(1024)[0] * 0.6 + np.eye(1024)[-1] * 0.8
    with mpmath.workdps(50):
        first, second = (exact_multiplier(k, beta, 1024) for k in range(2))
        share = mpmath.mpf("0.4") * second
        squared = mpmath.exp(beta) - first - 2 * share + second / 4096
        exact = float(mpmath.sqrt(squared * mpmath.exp(-mpmath.mpf(beta))))
    found = mf.mmd(mf.Particles([token]), density, beta, scaled=True)
    assert found == pytest.approx(exact, rel=1e-12)
