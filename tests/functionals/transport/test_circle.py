"""Distances on the circle: brute force, closed forms, and each measure against the other kinds."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq, linprog, minimize_scalar

import meanfield as mf
from meanfield.functionals.transport import circle
from meanfield.spaces.geometry import geodesic_distance
from tests.functionals.drawn import cloud, cost_of
from tests.properties import examples
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


def brute_force(mu, nu, p):
    """The linear programme over all plans."""
    costs = geodesic_distance(mu.points[:, None], nu.points) ** p
    n, m = costs.shape
    marginals = np.concatenate([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    found = linprog(costs.ravel(), A_eq=marginals, b_eq=np.r_[mu.weights, nu.weights])
    assert found.status == 0
    return found.fun ** (1 / p)


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


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3, 8, 1000])
def test_equal_steps_and_the_uniform_law(n):
    steps = on_circle(0.3 + 2 * np.pi * np.arange(n) / n)
    for p in 1, 1.5, 2, 2.5, 3, 7.3:
        # each token takes what is within π/n of it
        exact = np.pi / n / (p + 1) ** (1 / p)
        assert wasserstein(steps, UNIFORM, p) == pytest.approx(exact, abs=1e-13)
        assert wasserstein(UNIFORM, steps, p) == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize("turn", [0.01, 0.4])
def test_a_turned_cosine_has_the_median_of_its_difference(turn):
    # F - G = (a/2π)(sin θ - sin(θ - α)) = (a/π) sin(α/2) cos(θ - α/2): W_1 = (4a/π) sin(α/2)
    mu = dense(mf.FourierSeries(cos=[0.7]))
    nu = dense(mf.FourierSeries(cos=[0.7 * np.cos(turn)], sin=[0.7 * np.sin(turn)]))
    expected = 4 * 0.7 / np.pi * np.sin(turn / 2)
    assert wasserstein(mu, nu) == pytest.approx(expected, abs=1e-13)


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
@examples(12)
@given(circle_measures(), circle_measures(), circle_measures(), st.sampled_from([1, 2, 2.5]))
def test_a_metric_on_the_circle(mu, nu, third, p):
    apart = wasserstein(mu, nu, p)
    assert 0 <= apart <= np.pi
    # pth roots of a cost of rounding differ where the measures are nearly the same
    assert wasserstein(nu, mu, p) == pytest.approx(apart, abs=1e-11)
    assert apart <= wasserstein(mu, third, p) + wasserstein(third, nu, p) + 1e-11
    assert wasserstein(mu, nu) <= apart + 1e-11
    assert wasserstein(mu, mu, p) < 1e-9


@pytest.mark.parametrize("p", [1, 4])
def test_the_best_shift_is_near_its_guess(p, monkeypatch):
    """A search from afar would take hundreds of slopes where two measures are almost one."""
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
        # the programme's masses are right to 1e-7 only
        assert wasserstein(mu, nu, p) == pytest.approx(plans, rel=1e-6)
        plan = mf.transport_plan(mu, nu, p)
        assert cost_of(plan, mu, nu, p) == pytest.approx(plans, rel=1e-6)
