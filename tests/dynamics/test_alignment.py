"""Alignment: closed forms about an axis, on the circle and under noise, on every measure."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ive

import meanfield as mf
from meanfield.spaces.gegenbauer import gauss_gegenbauer
from meanfield.spaces.geometry import project
from tests.handmade import slow, unit_points

LAST = {dim: np.eye(dim)[-1] for dim in (2, 3, 5)}
SLANTED = np.array([0.48, 0.6, 0.64])
WAVES = mf.FourierSeries(cos=[0.5, 0.2], sin=[0.1])
TWO_BUMPS = mf.Mixture(
    [mf.VonMisesFisher(SLANTED, 2.0), mf.VonMisesFisher([1.0, 0.0, 0.0], 3.0)], [0.6, 0.4]
)
TIGHT = {"rtol": 1e-11, "atol": 1e-13}
EXPONENTS = [0.0, 0.5, 1.0, 2.5]
KAPPA = 1.5


def mean_length(dim, kappa):
    """|J| of the law of von Mises and Fisher, a ratio of Bessel functions."""
    return ive(0.5 * dim, kappa) / ive(0.5 * dim - 1.0, kappa)


def about_an_axis(dim):
    """The same law as every measure that it may start."""
    law = mf.VonMisesFisher(LAST[dim], KAPPA)
    space = {2: mf.Circle(64), 3: mf.Sphere(32)}.get(dim, mf.Zonal(dim, 48))
    return [mf.Density(space, law), mf.Density(mf.Zonal(dim, 48), law), mf.FlowMap(law)]


@pytest.mark.parametrize("dim", LAST)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_field_energy_and_dissipation_of_von_mises_and_fisher(dim, exponent):
    """J has the length A, and ∫ |X|² dmu is A^{2p} (1 - <u²>), 1 - <u²> = (d - 1) A/κ."""
    length, dynamics = mean_length(dim, KAPPA), mf.Alignment(exponent)
    at = unit_points(dim, 4, 5)
    exact = project(at, np.tile(length**exponent * LAST[dim], (4, 1)))
    for mu in about_an_axis(dim):
        # each is rounding of a sum of at most 2,000 terms
        np.testing.assert_allclose(dynamics.velocity(mu, at), exact, rtol=0, atol=1e-13)
        energy = length ** (exponent + 1.0) / (exponent + 1.0)
        assert mf.energy(mu, dynamics) == pytest.approx(energy, rel=1e-13)
        assert mf.energy_share(mu, dynamics) == pytest.approx(length ** (exponent + 1.0), rel=1e-13)
        rate = length ** (2.0 * exponent) * (dim - 1) * length / KAPPA
        assert mf.dissipation(mu, dynamics) == pytest.approx(rate, rel=1e-12)
        assert mf.metric_speed(mu, dynamics) == pytest.approx(np.sqrt(rate), rel=1e-12)


@pytest.mark.parametrize("dim", LAST)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_about_an_axis_each_latitude_is_a_hyperbolic_tangent(dim, exponent):
    """u(t) = tanh(artanh u(0) + s), s' = |J|^p: under p = 0 it is s = t."""
    cosines, masses = gauss_gegenbauer(dim, 200)
    masses = masses * np.exp(KAPPA * cosines)
    masses /= masses.sum()

    def length(s):
        return masses @ np.tanh(np.arctanh(cosines) + s)

    s = solve_ivp(lambda _, s: length(s) ** exponent, (0.0, 0.7), [0.0], rtol=1e-13, atol=1e-14)
    end = length(s.y[0, -1])
    if exponent == 0.0:
        assert s.y[0, -1] == pytest.approx(0.7, rel=1e-14)
    for mu in about_an_axis(dim):
        sol = mf.evolve(mu, mf.Alignment(exponent), t_end=0.7, **TIGHT)
        # some 20 steps, each to 1e-11 of its change
        np.testing.assert_allclose(sol.final.mean(), end * LAST[dim], rtol=0, atol=2e-11)
        assert np.abs(sol.dataset.balance_error).max() < 1e-12
        assert (np.diff(sol.dataset.energy) > 0.0).all()
        if isinstance(mu, mf.FlowMap):
            # f(u(0)) over the stretching of latitudes and their rings
            latitudes = np.clip(sol.final.points @ LAST[dim], -1.0, 1.0)
            before = np.tanh(np.arctanh(latitudes[1:-1]) - s.y[0, -1])
            stretching = np.log((1.0 - before**2) / (1.0 - latitudes[1:-1] ** 2))
            shift = mf.VonMisesFisher(LAST[dim], KAPPA).logpdf([LAST[dim]])[0] - KAPPA
            exact = shift + KAPPA * before + 0.5 * (dim - 1) * stretching
            np.testing.assert_allclose(sol.final.log_density[1:-1], exact, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "mu",
    [
        *(mf.Density(mf.Circle(64), WAVES), mf.FlowMap(WAVES)),
        *(mf.Density(mf.Sphere(32), TWO_BUMPS), mf.Particles(unit_points(5, 40, 3))),
        mf.FlowMap(mf.VonMisesFisher(SLANTED, 2.0)),
    ],
    ids=repr,
)
def test_the_exponent_1_is_the_kernel_1(mu):
    here, there = (
        mf.evolve(mu, dynamics, t_end=1.0, **TIGHT)
        for dynamics in (mf.Alignment(1.0), mf.Interaction([1.0]))
    )
    # both have the same steps but for rounding
    np.testing.assert_allclose(here.final.mean(), there.final.mean(), rtol=0, atol=1e-13)
    for name in "energy", "dissipation", "work", "rms_velocity":
        np.testing.assert_allclose(here.dataset[name], there.dataset[name], rtol=0, atol=1e-13)


@pytest.mark.parametrize("exponent", [0.0, slow(2.5)])
def test_without_an_axis_a_density_is_the_tokens_of_its_grid(exponent):
    """Tokens at Gauss points, with the masses there, by code of this test and by the package."""
    density = mf.Density(mf.Sphere(40), TWO_BUMPS)
    tokens = mf.Particles(
        density.space.points, density.space.weights * density.values, unit_mass=True
    )
    weights = tokens.weights

    def velocity(_, flat):
        points = flat.reshape(-1, 3)
        mean = weights @ points
        vectors = np.linalg.norm(mean) ** (exponent - 1.0) * mean
        return (vectors - (points @ vectors)[:, None] * points).ravel()

    start = tokens.points.ravel()
    end = solve_ivp(velocity, (0.0, 0.5), start, method="DOP853", rtol=1e-11, atol=1e-13)
    exact = weights @ end.y[:, -1].reshape(-1, 3)
    for mu in density, tokens:
        sol = mf.evolve(mu, mf.Alignment(exponent), t_end=0.5, **TIGHT)
        # the map of the sphere has harmonics beyond the grid's of less than 1e-10
        np.testing.assert_allclose(sol.final.mean(), exact, rtol=0, atol=1e-10)
        assert np.abs(sol.dataset.balance_error).max() < 1e-12


@pytest.mark.parametrize("exponent", [0.0, 2.0])
def test_poisson_kernels_keep_their_form(exponent):
    """With f = (1 - r²)/(1 - 2 r cos θ + r²) on the circle r' = r^p (1 - r²)/2, by Ott-Antonsen."""
    start = 0.4
    law = mf.FourierSeries(cos=2.0 * start ** np.arange(1, 60))
    end = np.tanh(0.25 + np.arctanh(start))
    if exponent:
        path = solve_ivp(
            lambda _, r: 0.5 * r**exponent * (1.0 - r * r), (0.0, 0.5), [start], rtol=1e-13
        )
        end = path.y[0, -1]
    for mu in mf.Density(mf.Circle(128), law), mf.FlowMap(law):
        final = mf.evolve(mu, mf.Alignment(exponent), t_end=0.5, **TIGHT).final
        waves = final.points @ [1.0, 1.0j]
        for k in 1, 3:
            # some 20 steps, each to 1e-11
            assert final.weights @ waves**k == pytest.approx(end**k, abs=2e-10)


@pytest.mark.parametrize("dim", [2, 3, 9])
def test_two_tokens_meet_like_half_tangents(dim):
    """At the half angle h of two equal tokens h' = -sin h under p = 0."""
    points = np.zeros((2, dim))
    points[:, 0], points[:, 1] = np.cos(1.2), [np.sin(1.2), -np.sin(1.2)]
    tokens = mf.evolve(mf.Particles(points), mf.Alignment(), t_end=2.0, **TIGHT).final
    half = 2.0 * np.arctan(np.tan(0.6) * np.exp(-2.0))
    # 20 steps of 1e-11
    np.testing.assert_allclose(tokens.points[0, :2], [np.cos(half), np.sin(half)], atol=2e-10)


@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("exponent", [0.0, 2.0])
def test_von_mises_and_fisher_is_stationary_under_noise(dim, exponent):
    """With κ = |J|^p/τ about J the drift is that of ∇ log f."""
    kappa = 3.0
    noise = mean_length(dim, kappa) ** exponent / kappa
    space = mf.Circle(64) if dim == 2 else mf.Zonal(dim, 40)
    start = mf.Density(space, mf.VonMisesFisher(LAST[dim], kappa))
    dynamics = mf.Alignment(exponent, noise=noise)
    sol = mf.evolve(start, dynamics, t_end=0.5, save_at=2)
    # steps under noise have rtol 1e-8 by default, and rates are rounding times the degree squared
    np.testing.assert_allclose(sol.final.values, start.values, rtol=0, atol=1e-9)
    assert np.abs(sol.dataset.free_dissipation).max() < 1e-10


@pytest.mark.slow
def test_under_noise_every_start_comes_to_von_mises_and_fisher():
    """For p = 0 the length of J tends to coth(1/τ) - τ on S², and the free energy falls."""
    noise = 0.5
    sol = mf.evolve(
        mf.Density(mf.Sphere(24), TWO_BUMPS), mf.Alignment(noise=noise), t_end=20.0, save_at=10
    )
    length = np.linalg.norm(sol.final.mean())
    # the spectral gap is beyond 1, and steps have rtol 1e-8
    assert length == pytest.approx(1.0 / np.tanh(2.0) - 0.5, abs=1e-7)
    assert (np.diff(sol.dataset.free_energy)[:4] < 0.0).all()
    assert np.abs(sol.dataset.balance_error).max() < 1e-8


def test_without_a_mean_direction_it_is_refused_below_1():
    pair = mf.Particles([[1.0, 0.0], [-1.0, 0.0]])
    for exponent in 0.0, 0.9:
        with pytest.raises(ValueError, match=r"mean direction.*\|J\| = 0 .*exponent >= 1"):
            mf.Alignment(exponent).velocity(pair, pair.points)
    for exponent in 1.0, 2.0:
        assert not mf.Alignment(exponent).velocity(pair, [[0.0, 1.0]]).any()
    assert mf.energy(pair, mf.Alignment()) == 0.0


@pytest.mark.parametrize(
    "mu",
    [
        mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.0, 0.5])),
        mf.Density(mf.Zonal(5, 8), mf.Uniform(5)),
        mf.FlowMap(mf.FourierSeries(cos=[0.0, 0.5])),
        mf.Particles([[1.0, 0.0], [-1.0, 0.0]]),
    ],
    ids=repr,
)
def test_a_run_is_refused_where_what_acts_first_has_no_direction(mu):
    for dynamics in mf.Alignment(), mf.SA(1.0) + mf.Alignment(), mf.Layers([mf.Alignment()]):
        with pytest.raises(ValueError, match="measure must have a mean direction"):
            mf.evolve(mu, dynamics, t_end=1.0)
    with pytest.raises(ValueError, match="measure must have a mean direction"):
        mf.evolve(mu, mf.SA(1.0), t_end=1.0, energy=mf.Alignment())
    later = mf.Layers([mf.SA(1.0), mf.Alignment()], step=0.5)
    with pytest.warns(mf.exceptions.UnfinishedWarning, match="mean direction"):
        sol = mf.evolve(mu, later, t_end=1.0)
    assert sol.t[-1] == 0.5
    with pytest.raises(ValueError, match="measure must have a mean direction"):
        mf.evolve(mu, later, t_end=1.0, t_start=0.5)


def test_a_repelling_run_ends_where_the_mean_is_lost():
    """Under p = 0 and -X of a Poisson kernel, tanh(artanh r(0) - t/2) is 0 at t = 2 artanh r(0)."""
    law = mf.FourierSeries(cos=2.0 * 0.1 ** np.arange(1, 16))
    with pytest.warns(mf.exceptions.UnfinishedWarning, match="mean direction"):
        sol = mf.evolve(mf.Density(mf.Circle(32), law), -mf.Alignment(), t_end=1.0)
    assert sol.status == "failed"
    assert sol.t[-1] == pytest.approx(2.0 * np.arctanh(0.1), abs=1e-8)
    assert np.abs(sol.dataset.balance_error).max() < 1e-10


def test_no_flow_map_on_the_sphere_without_an_axis():
    with pytest.raises(ValueError, match=r"flow map on S\^2.*Alignment"):
        mf.evolve(mf.FlowMap(TWO_BUMPS, tol=1e-4), mf.Alignment(), t_end=1.0)


def test_sums_layers_and_other_energies():
    start = mf.Density(mf.Circle(64), WAVES)
    both = mf.evolve(start, mf.Alignment() + mf.SA(2.0), t_end=1.0).dataset
    assert np.abs(both.term_balance_error).max() < 1e-12
    layers = mf.Layers([mf.Alignment(), mf.SA(2.0)], step=0.5)
    middle = mf.evolve(start, mf.Alignment(), t_end=0.5, **TIGHT).final
    final = mf.evolve(middle, mf.SA(2.0), t_end=0.5, **TIGHT).final
    sol = mf.evolve(start, layers, t_end=1.0, **TIGHT)
    np.testing.assert_allclose(sol.final.mean(), final.mean(), rtol=0, atol=1e-10)
    followed = mf.evolve(start, mf.SA(2.0), t_end=1.0, energy=mf.Alignment()).dataset
    assert np.abs(followed.balance_error).max() < 1e-12


CASE = """
[law]
type = "VonMisesFisher"
mean = [0.0, 1.0]
kappa = 1.0
[measure]
type = "Density"
[measure.space]
type = "Circle"
n = 32
[dynamics]
type = "Alignment"
exponent = 2.0
noise = 0.1
[run]
t_end = 0.1
"""


def test_a_case_file_and_its_result(tmp_path):
    sol = mf.Case(CASE).run()
    assert sol.dynamics == mf.Alignment(2.0, noise=0.1)
    sol.save(tmp_path / "run.nc")
    assert mf.load(tmp_path / "run.nc").dynamics == sol.dynamics
