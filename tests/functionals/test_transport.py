"""Distances: brute force, closed forms, metrics, and each measure against the other kinds."""

import sys
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq, linprog, minimize_scalar

import meanfield as mf
from meanfield.functionals.transport import Bracket, circle
from meanfield.functionals.transport.quantiles import Atoms, quantiles
from validation.transport import PAIRS, by_search, own_law


def wasserstein(mu, nu, p=1, **asked):
    """The value of W_p."""
    return float(mf.wasserstein(mu, nu, p, **asked))


POWERS = [1, 1.5, 2, 3]
UNIFORM = mf.Density(mf.Circle(16), mf.Uniform(2))


def on_circle(angles, weights=None):
    return mf.Particles(np.column_stack([np.cos(angles), np.sin(angles)]), weights, unit_mass=True)


def dense(law, n=64):
    return mf.Density(mf.Circle(n), law)


def bump(angle, kappa):
    return mf.VonMisesFisher([np.cos(angle), np.sin(angle)], kappa)


def angle_between(x, y):
    return 2.0 * np.arctan2(
        np.linalg.norm(x[:, None] - y, axis=2), np.linalg.norm(x[:, None] + y, axis=2)
    )


def brute_force(mu, nu, p):
    """The linear programme over all plans."""
    costs = angle_between(mu.points, nu.points) ** p
    n, m = costs.shape
    marginals = np.concatenate([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    found = linprog(costs.ravel(), A_eq=marginals, b_eq=np.r_[mu.weights, nu.weights])
    assert found.status == 0
    return found.fun ** (1 / p)


def cloud(rng, n, dim=2):
    points = rng.standard_normal((n, dim))
    return mf.Particles(
        points / np.linalg.norm(points, axis=1)[:, None], rng.random(n), unit_mass=True
    )


# -- tokens on the circle ------------------------------------------------------------------------


@pytest.mark.parametrize("decades", [0, 3, 40])
def test_ranks_by_buckets_are_those_of_a_search(decades):
    # 40 decades of weights: nearly all starts share a bucket
    rng = np.random.default_rng(decades)
    atoms = Atoms(rng.random(3000), 10.0 ** (-decades * rng.random(3000)), 2.0 * np.pi)
    u = np.concatenate([rng.random(500), atoms.starts, np.nextafter(atoms.starts, 2.0), [0.0]])
    u = u[u <= 1.0]
    np.testing.assert_array_equal(atoms.rank(u), np.searchsorted(atoms.starts, u))
    assert atoms.rank(u.reshape(1, -1)).shape == (1, len(u))


def test_equal_angles_keep_their_order():
    angles = np.repeat(np.random.default_rng(0).permutation(100) / 16.0, 50)
    order = Atoms(angles, np.ones(5000), 2.0 * np.pi).order
    np.testing.assert_array_equal(order, np.argsort(angles, kind="stable"))


def test_w2_of_many_tokens_is_that_of_their_shift():
    # turned by an angle, the best plan takes each token there: W_p is the angle
    angles = np.sort(np.random.default_rng(3).random(30_000)) + 1.0
    weights = np.random.default_rng(4).random(30_000)
    mu = on_circle(angles, weights)
    for turn in 0.3, 1e-3:
        nu = on_circle(np.roll(angles, 777) + turn, np.roll(weights, 777))
        # rounding of angles, over 30,000 masses of one plan
        assert wasserstein(mu, nu, p=2) == pytest.approx(turn, abs=1e-14)


@pytest.mark.parametrize("light", [1e-1, 1e-3])
def test_w2_where_slopes_are_of_different_sizes(light):
    # one atom has most of the mass; the linear programme's masses are right to 1e-7 only
    rng = np.random.default_rng(8)
    weights = np.concatenate([[1.0], light * rng.random(60)])
    mu, nu = (on_circle(2.0 * np.pi * rng.random(61), weights) for _ in range(2))
    assert wasserstein(mu, nu, p=2) == pytest.approx(brute_force(mu, nu, 2), rel=1e-9)


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("seed", range(8))
def test_weighted_tokens_against_all_plans(p, seed):
    rng = np.random.default_rng(seed)
    mu, nu = cloud(rng, rng.integers(1, 9)), cloud(rng, rng.integers(1, 9))
    # both sum at most 16 terms; the programme stops where reduced costs are rounding
    assert wasserstein(mu, nu, p) == pytest.approx(brute_force(mu, nu, p), abs=1e-12)


@pytest.mark.parametrize("p", POWERS)
def test_many_tokens_against_pot(p):
    rng = np.random.default_rng(3)
    x, y = rng.random(2000) ** 2, rng.random(1777)
    a, b = np.full(2000, 1 / 2000), rng.random(1777)
    b /= b.sum()
    own = wasserstein(on_circle(2 * np.pi * x, a), on_circle(2 * np.pi * y, b), p)
    assert own > 0.1
    # 4000 sums of masses, each with rounding
    assert own == pytest.approx(by_search(x, y, a, b, p), abs=1e-11)


@pytest.mark.parametrize("p", POWERS)
def test_tokens_at_the_seam_that_coincide_or_weigh_nothing(p):
    wrapped = on_circle([0.1, 2 * np.pi - 0.1]), on_circle([2 * np.pi - 0.05, 0.15])
    assert wasserstein(*wrapped, p) == pytest.approx(0.05, abs=1e-14)
    assert wasserstein(on_circle([0.0]), on_circle([2 * np.pi]), p) < 1e-15
    doubled = on_circle([1.0, 1.0, 4.0, 4.0], [0.2, 0.3, 0.0, 0.5])
    assert wasserstein(doubled, on_circle([1.0, 4.0]), p) < 1e-15
    unseen = on_circle([1.0, 2.0, 4.0], [1.0, 0.0, 1.0])
    assert wasserstein(unseen, on_circle([1.25, 4.25]), p) == pytest.approx(0.25, abs=1e-14)


@pytest.mark.parametrize("p", POWERS)
def test_two_tokens_have_their_distance(p):
    for apart in 1e-12, 0.5, 3.0, np.pi, 4.0:
        distance = min(apart, 2 * np.pi - apart)
        measured = wasserstein(on_circle([6.0]), on_circle([6.0 + apart]), p)
        # an angle of 6 rad is stored within 1e-15
        assert measured == pytest.approx(distance, abs=4e-15)


@pytest.mark.slow
def test_a_million_tokens():
    """Their 10^12 pairs would fit into no memory."""
    rng = np.random.default_rng(0)
    mu, nu = (mf.Particles.sample(mf.FourierSeries(cos=[0.8]), 10**6, rng) for _ in range(2))
    for p in 1, 2:
        distance = wasserstein(mu, nu, p)
        # two samples are some n^{-1/2} apart
        assert 2e-4 < distance < 1e-2


# -- densities on the circle -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3, 8, 1000])
def test_equal_steps_and_the_uniform_law(n):
    steps = on_circle(0.3 + 2 * np.pi * np.arange(n) / n)
    for p in 1, 1.5, 2, 2.5, 3, 7.3:
        # each token takes what is within π/n of it
        exact = np.pi / n / (p + 1) ** (1 / p)
        assert wasserstein(steps, UNIFORM, p) == pytest.approx(exact, abs=1e-13)
        assert wasserstein(UNIFORM, steps, p) == pytest.approx(exact, abs=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("turn", [0.01, 0.4])
def test_a_turned_cosine_has_the_median_of_its_difference(turn):
    # F - G = (a/2π)(sin θ - sin(θ - α)) = (a/π) sin(α/2) cos(θ - α/2): W_1 = (4a/π) sin(α/2)
    mu = dense(mf.FourierSeries(cos=[0.7]))
    nu = dense(mf.FourierSeries(cos=[0.7 * np.cos(turn)], sin=[0.7 * np.sin(turn)]))
    expected = 4 * 0.7 / np.pi * np.sin(turn / 2)
    assert wasserstein(mu, nu) == pytest.approx(expected, abs=1e-13)


def test_places_where_a_series_makes_the_mass_fall():
    """1 + 1.02 cos(θ - a) is negative on an arc of 0.4: at its ends two places have one mass."""
    falls = 0
    for turn in np.linspace(0.0, 0.1, 7):
        coefficients = np.zeros(8, dtype=np.complex128)
        coefficients[:2] = 1.0, 0.51 * np.exp(-1j * turn)
        curve = quantiles(mf.Density.from_coefficients(mf.Circle(16), coefficients), None)
        falls += np.count_nonzero(np.diff(curve._masses_at_table, axis=0) < -1e-6)
        masses = np.linspace(0.0, 1.0, 20_001)
        # a few roundings of a mass of 1
        assert np.abs(curve.mass(*curve.place(masses)) - masses).max() < 1e-14
    assert falls > 7


@pytest.mark.slow
def test_zeros_of_a_density_by_their_quantiles():
    # f = 1 + cos θ has a zero of order 2 at π, where Q_f is a cube root
    mu = dense(mf.FourierSeries(cos=[1.0]))
    for p in POWERS:
        expected = float(
            mpmath.quad(
                lambda x, p=p: mpmath.sin(x) ** p * (1 + mpmath.cos(x)) / mpmath.pi,
                [0, mpmath.pi / 2, mpmath.pi],
            )
        )
        # either may be the one whose quantile function is inverted
        assert wasserstein(mu, UNIFORM, p) == pytest.approx(expected ** (1 / p), abs=1e-12)
        assert wasserstein(UNIFORM, mu, p) == pytest.approx(expected ** (1 / p), abs=1e-12)


@pytest.mark.slow
def test_a_density_and_some_tokens_by_cells():
    # each token's share of the mass is an interval: the best first end by a scan of its own
    law, angles = mf.FourierSeries(cos=[0.6], sin=[0.2]), np.array([0.4, 1.0, 2.9, 5.5])

    def cumulated(x):
        return (x + 0.6 * np.sin(x) - 0.2 * np.cos(x) + 0.2) / (2 * np.pi)

    weights = np.array([0.1, 0.2, 0.3, 0.4])

    def rate(s, y, p):
        return abs(s - y) ** p * law.pdf([[np.cos(s), np.sin(s)]])[0]

    def cost(first, p):
        targets = cumulated(first) + np.cumsum(weights[:-1])
        inner = [
            brentq(lambda x, u: cumulated(x) - u, first, first + 7, u, xtol=1e-15) for u in targets
        ]
        total = 0.0
        for (a, b), y in zip(pairwise([first, *inner, first + 2 * np.pi]), angles, strict=True):
            pieces = pairwise([a, np.clip(y, a, b), b])
            total += sum(quad(rate, *ends, (y, p))[0] for ends in pieces)
        return total / (2 * np.pi)

    for p in 1, 2, 3:
        best = minimize_scalar(cost, args=(p,), bounds=(-3.0, 3.0), method="bounded")
        expected = best.fun ** (1 / p)
        measured = wasserstein(dense(law), on_circle(angles, weights), p)
        assert measured > 0.1
        assert measured == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [1e-6, 1e-3, 3.0])
def test_near_diracs_are_as_far_apart_as_their_centres(apart):
    # kappa = 1e4: coefficients end at 2e-23 of the first; all of the mass is moved by `apart`
    mu, nu = dense(bump(0.0, 1e4), 2048), dense(bump(apart, 1e4), 2048)
    assert wasserstein(mu, nu) == pytest.approx(apart, abs=1e-13)
    # rounding of the mass, 1e-16, may cross what is moved by far less than the cell of 0.003
    assert wasserstein(mu, nu, 2) == pytest.approx(apart, abs=1e-8)


# W_1 and W_2 of the pairs of validation/transport.py, which prints them
THIRTY_DIGITS = [
    (0.9230930046128536, 1.054689913844061),
    (1.915089872508614, 1.960638396494801),
    (1.696686096768489, 1.854683378357909),
    (0.4203776891245939, 0.4626370337577015),
    (2.113658998073367, 2.132514558800254),
    (2.467634434656171, 2.471196812397169),
]


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "expected"), list(zip(PAIRS, THIRTY_DIGITS, strict=True)))
def test_peaks_against_thirty_digits(pair, expected):
    densities = [dense(own_law(*law), 128) for law in pair]
    flows = [mf.FlowMap(own_law(*law)) for law in pair]
    for p, value in zip((1, 2), expected, strict=True):
        for one, other in (densities, flows, (flows[1], densities[0])):
            # 16 Gauss nodes to a piece that a harmonic crosses in 2.4 rad
            assert wasserstein(one, other, p) == pytest.approx(value, abs=1e-12)


# -- flow maps ---------------------------------------------------------------------------------


LAWS = [
    mf.FourierSeries(cos=[0.5, 0.2], sin=[0.1]),
    bump(2.0, 30.0),
    mf.Mixture([bump(1.0, 50.0), bump(3.0, 5.0)], [0.1, 0.9]),
]


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=["series", "peak", "mixture"])
def test_a_flow_map_at_its_labels_is_its_density(law):
    flow, density = mf.FlowMap(law), dense(law, 256)
    for mu, nu in (flow, density), (density, flow), (flow, flow):
        assert wasserstein(mu, nu) < 1e-12
    for p in 1, 2:
        # the same distance to a third measure
        assert wasserstein(flow, UNIFORM, p) == pytest.approx(
            wasserstein(density, UNIFORM, p), abs=1e-12
        )
        tokens = on_circle([0.3, 2.0, 6.0])
        assert wasserstein(flow, tokens, p) == pytest.approx(
            wasserstein(tokens, density, p), abs=1e-12
        )


@pytest.mark.slow
def test_a_flow_map_that_has_become_atoms():
    law = mf.FourierSeries(cos=[0.5, 0.3], sin=[0.2])
    flow = mf.evolve(mf.FlowMap(law), mf.SA(5.0), 60.0, 1).final
    assert len(flow.atoms) > 0
    nodes = mf.Particles(flow.points, flow.weights)
    for p in 1, 2:
        # what lies between atoms is within the tolerance of 1e-12 in mass
        apart = wasserstein(flow, nodes, p)
        assert apart < (1e-10 if p == 1 else 1e-5)
        assert wasserstein(flow, UNIFORM, p) == pytest.approx(
            wasserstein(nodes, UNIFORM, p), abs=1e-10
        )


def test_a_flow_map_of_tokens_is_tokens():
    points = on_circle([0.5, 2.0, 6.2]).points
    flow = mf.FlowMap(mf.PointCloud(points, [1.0, 2.0, 3.0], unit_mass=True))
    assert wasserstein(flow, mf.Particles(points, [1.0, 2.0, 3.0], unit_mass=True), 2) < 1e-12


# -- a shared axis -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("dim", [3, 10, 50])
def test_axes_may_point_either_way(dim, p):
    axis = np.eye(dim)[0]
    law, mirrored = mf.VonMisesFisher(axis, 4.0), mf.VonMisesFisher(-axis, 4.0)
    measures = mf.Density(mf.Zonal(dim, 47, axis), law), mf.FlowMap(law)
    mirrors = mf.Density(mf.Zonal(dim, 47, -axis), mirrored), mf.FlowMap(mirrored)
    found = [wasserstein(mu, nu, p) for mu in measures for nu in mirrors]
    assert found[0] > 0.05
    np.testing.assert_allclose(found, found[0], rtol=0, atol=1e-11)


def test_tokens_at_the_poles():
    poles = mf.Particles([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], [0.5, 0.5])
    uniform = mf.Density(mf.Zonal(3, 7), mf.Uniform(3))
    # each hemisphere to its pole: ∫_0^{π/2} θ sin θ dθ = 1
    assert wasserstein(poles, uniform) == pytest.approx(1.0, abs=1e-13)
    assert wasserstein(uniform, poles) == pytest.approx(1.0, abs=1e-13)


# -- one token -----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", POWERS)
def test_one_token_against_a_density_on_the_sphere(p):
    token = mf.Particles([[0.6, 0.0, 0.8]])
    # E dist^p = 1/2 ∫ γ^p sin γ dγ, whatever the token
    sines, cosines = (
        float(mpmath.quad(lambda x, g=g: x**p * mpmath.sin(x) * g(x), [0, 1, mpmath.pi]))
        for g in (lambda x: 1, mpmath.cos)
    )
    expected = (0.5 * sines) ** (1 / p)
    flat = mf.Density(mf.Sphere(8), mf.Uniform(3))
    assert wasserstein(token, flat, p) == pytest.approx(expected, abs=1e-12)
    # f = 1 + a <x, e> has the average 1 + a <y, e> cos γ about y
    moment = sines + 0.5 * 0.8 * cosines
    tilted = mf.ZonalSeries(3, [0.5])
    for space in mf.Sphere(8), mf.Zonal(3, 8):
        assert wasserstein(mf.Density(space, tilted), token, p) == pytest.approx(
            (0.5 * moment) ** (1 / p), abs=1e-12
        )


@pytest.mark.slow
def test_one_token_off_the_axis_sees_sphere_and_zonal_alike():
    law = mf.VonMisesFisher([0.0, 0.0, 1.0], 8.0)
    sphere, zonal = mf.Density(mf.Sphere(47), law), mf.Density(mf.Zonal(3, 47), law)
    for point in [0.6, 0.0, 0.8], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]:
        token = mf.Particles([point])
        for p in 1, 2.5:
            apart = wasserstein(token, sphere, p)
            assert apart > 0.5
            assert apart == pytest.approx(wasserstein(token, zonal, p), abs=1e-12)


# -- a metric ------------------------------------------------------------------------------------


@st.composite
def circle_measures(draw):
    kind = draw(st.sampled_from(["tokens", "density", "flow"]))
    if kind == "tokens":
        n = draw(st.integers(1, 12))
        angles = draw(st.lists(st.floats(0, 2 * np.pi), min_size=n, max_size=n))
        return on_circle(angles, draw(st.lists(st.floats(0.01, 1), min_size=n, max_size=n)))
    amplitude, phase = draw(st.floats(0, 0.95)), draw(st.floats(0, 6.28))
    mode = draw(st.integers(1, 3))
    cos, sin = np.zeros(mode), np.zeros(mode)
    cos[-1], sin[-1] = amplitude * np.cos(phase), amplitude * np.sin(phase)
    law = mf.FourierSeries(cos=cos, sin=sin)
    return dense(law, 16) if kind == "density" else mf.FlowMap(law)


@pytest.mark.slow
@settings(max_examples=20)
@given(circle_measures(), circle_measures(), circle_measures(), st.sampled_from([1, 2, 2.5]))
def test_a_metric_on_the_circle(mu, nu, third, p):
    apart = wasserstein(mu, nu, p)
    assert 0 <= apart <= np.pi
    # pth roots of a cost of rounding differ where the measures are nearly the same
    assert wasserstein(nu, mu, p) == pytest.approx(apart, abs=1e-11)
    assert apart <= wasserstein(mu, third, p) + wasserstein(third, nu, p) + 1e-11
    assert wasserstein(mu, nu) <= apart + 1e-11
    assert wasserstein(mu, mu, p) < 1e-9


# -- clouds in any dimension, and what is refused --------------------------------------------------


def test_clouds_without_pot(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"transport\].*3 and 3 of them"):
        wasserstein(cloud(rng, 3, 3), cloud(rng, 3, 3))


def test_a_bracket_is_in_order():
    assert float(Bracket(2.0, 1.0, 3.0)) == 2.0
    for wrong in (2.0, 2.5, 3.0), (2.0, 1.0, 1.5), (np.nan, 0.0, 1.0):
        with pytest.raises(ValueError, match="between lower and upper"):
            Bracket(*wrong)


@pytest.mark.parametrize("p", [0.5, 0, -1, np.nan, np.inf, 101, "2", None])
def test_powers_out_of_range(p):
    with pytest.raises(ValueError, match=r"p must be a finite number >= 1 and <= 20, got"):
        wasserstein(UNIFORM, UNIFORM, p)


@pytest.mark.slow
def test_pairs_that_cannot_be_had():
    east = [1.0, 0.0, 0.0, 0.0]
    zonal = mf.Density(mf.Zonal(4, 8), mf.ZonalSeries(4, [0.5]))
    other = mf.Density(mf.Zonal(4, 8, east), mf.ZonalSeries(4, [0.5], east))
    flow = mf.FlowMap(mf.VonMisesFisher([0.0, 0.0, 0.0, 1.0], 2.0))
    token, some = mf.Particles([east]), cloud(np.random.default_rng(0), 3, 4)
    for pair in (zonal, other), (flow, other), (flow, token), (zonal, some):
        with pytest.raises(ValueError, match=r"both be symmetric about one axis.*got"):
            wasserstein(*pair)
    zonal = mf.Density(mf.Zonal(3, 8), mf.ZonalSeries(3, [0.5]))
    long = mf.Density(mf.Zonal(3, 1100, [1.0, 0.0, 0.0]), mf.Uniform(3))
    with pytest.raises(ValueError, match=r"degrees <= 1023 on S\^2 .* got Density\(Zonal"):
        wasserstein(zonal, long)
    sphere = mf.Density(mf.Sphere(8), mf.ZonalSeries(3, [0.5]))
    with pytest.raises(ValueError, match=r"p must be 1 or 2 .* got p = 3"):
        wasserstein(sphere, zonal, 3)
    for gap in (0.0, 1.5, np.nan):
        with pytest.raises(ValueError, match=r"gap must be a finite number >= 1e-06 and <= 1, got"):
            wasserstein(sphere, zonal, 1, gap=gap)
    with pytest.raises(ValueError, match="nu must have dim"):
        wasserstein(UNIFORM, zonal)
    with pytest.raises(ValueError, match="nu must be a Density"):
        wasserstein(UNIFORM, mf.Uniform(2))
    light = mf.Density.from_coefficients(mf.Circle(8), 0.9 * np.eye(4)[0])
    with pytest.raises(ValueError, match="mass 1 within 1e-06"):
        wasserstein(light, UNIFORM)


def test_equal_measures_are_at_distance_zero():
    """Exactly, at any p, and however tokens are numbered."""
    rng = np.random.default_rng(3)
    law, turned = bump(0.3, 30.0), [0.0, 0.6, 0.8]
    zonal = mf.VonMisesFisher(turned, 30.0)
    pairs = [(dense(law), dense(law)), (mf.FlowMap(law), mf.FlowMap(law))]
    space = mf.Zonal(3, 40, turned)
    pairs += [(mf.Density(space, zonal), mf.Density(space, zonal))]
    pairs += [(mf.FlowMap(zonal), mf.FlowMap(zonal))]
    for dim in 2, 3:
        some, order = cloud(rng, 30, dim), rng.permutation(30)
        pairs.append((some, mf.Particles(some.points[order], some.weights[order])))
    for mu, nu in pairs:
        for p in 1, 2, 3.5:
            assert float(wasserstein(mu, nu, p)) == 0.0
            assert float(wasserstein(nu, mu, p)) == 0.0


@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("p", [1, 5, 20])
def test_small_distances_at_large_powers(dim, p):
    """A turn by a small angle in a plane moves every token by it, or less off the plane."""
    rng = np.random.default_rng(4)
    for angle in 1e-2, 1e-6, 1e-9:
        turn = np.eye(dim)
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        token = np.eye(dim)[:1]
        near = float(wasserstein(mf.Particles(token), mf.Particles(token @ turn.T), p))
        assert near == pytest.approx(angle, rel=1e-6)
        some = cloud(rng, 12, dim)
        found = wasserstein(some, mf.Particles(some.points @ turn.T, some.weights), p)
        assert float(found) <= angle * (1.0 + 1e-6)
        if dim == 2 and angle < 1e-3:
            assert float(found) == pytest.approx(angle, rel=1e-6)


@pytest.mark.parametrize("p", [5, 20])
def test_bounds_of_clouds_agree_at_large_powers(p):
    rng = np.random.default_rng(5)
    found = mf.wasserstein(cloud(rng, 20, 5), cloud(rng, 25, 5), p)
    assert found.upper - found.lower < 1e-6 * found.upper


@pytest.mark.parametrize("p", [1, 2, 4])
def test_the_best_shift_is_near_its_guess(p, monkeypatch):
    """Of measures that are almost one, a search from afar would take hundreds of slopes."""
    real, shifts = circle.cost_slope, []

    def slope(mu, nu, shift, p):
        shifts.append(shift)
        return real(mu, nu, shift, p)

    monkeypatch.setattr(circle, "cost_slope", slope)
    law = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
    assert wasserstein(dense(law), mf.FlowMap(law), p) < 1e-12
    assert 0 < len(shifts) < 15
    turned = wasserstein(dense(bump(0.3, 20.0), 128), dense(bump(0.7, 20.0), 128), p)
    # W_1 moves the lightest of the mass the other way round
    assert turned == pytest.approx(0.4, rel=1e-8 if p == 1 else 1e-12)
    assert len(shifts) < 60


@pytest.mark.slow
@pytest.mark.parametrize("p", [5, 10, 20])
def test_circle_at_large_powers_against_all_plans(p):
    """The shift ends at a kink: a sliver beside it would go round, at (2π)^p."""
    rng = np.random.default_rng(6)
    for _ in range(40):
        n, m = rng.integers(1, 9, 2)
        mu, nu = (on_circle(rng.uniform(0, 2 * np.pi, k), rng.random(k)) for k in (n, m))
        plans = brute_force(mu, nu, p)
        assert wasserstein(mu, nu, p) == pytest.approx(plans, rel=1e-6)
        plan = mf.transport_plan(mu, nu, p)
        apart = angle_between(mu.points, nu.points)[plan.row, plan.col]
        assert (plan.data @ apart**p) ** (1 / p) == pytest.approx(plans, rel=1e-6)


def test_densities_about_an_axis_of_the_circle_are_those_of_the_circle():
    """Cosines on half a circle stand for both halves."""
    laws, axis = (mf.FourierSeries(cos=[0.5]), mf.FourierSeries(cos=[-0.3, 0.2])), [1.0, 0.0]
    about = [mf.Density(mf.Zonal(2, 32, axis=axis), law) for law in laws]
    around = [mf.Density(mf.Circle(64), law) for law in laws]
    for p in 1, 2:
        exact = float(mf.wasserstein(*around, p))
        assert exact > 0.1
        assert float(mf.wasserstein(*about, p)) == pytest.approx(exact, abs=1e-12)
    centre = mf.Particles([axis])
    assert float(mf.wasserstein(about[0], centre)) == pytest.approx(
        float(mf.wasserstein(around[0], centre)), abs=1e-12
    )
    at = around[0].space.points[:5]
    moved = [mf.transport_map(*pair, at, 2) for pair in (about, around)]
    np.testing.assert_allclose(*moved, atol=1e-12)
