"""W_p of clouds on spheres, whose costs may differ by many decades, against exact programmes."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from scipy.optimize import linear_sum_assignment

import meanfield as mf
from meanfield.functionals.transport import clouds as network
from meanfield.functionals.transport.clouds import best_plan, pair_distances
from meanfield.spaces.geometry import circle_angles, geodesic_distance
from tests.functionals.drawn import cost_of
from tests.properties import examples
from validation.transport import tokens

POWERS = [1.0, 1.5, 2.0, 4.0, 14.0, 20.0]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def least_cost(a, b, costs):
    """The least cost of a plan as a fraction, by shortest paths from what is left to send.

    Masses are divided by their sums; paths that take mass back count, too.
    """
    a, b = ([Fraction(mass) for mass in masses] for masses in (a, b))
    a, b = [mass / sum(a) for mass in a], [mass / sum(b) for mass in b]
    costs = [[Fraction(cost) for cost in row] for row in costs]
    n, m = len(a), len(b)
    flow = [[Fraction(0)] * m for _ in a]
    while any(a):
        far, back = [Fraction(0) if mass else None for mass in a] + [None] * m, {}
        shorter = True
        while shorter:
            shorter = False
            for i, j in np.ndindex(n, m):
                ways = [(i, n + j, costs[i][j])]
                if flow[i][j]:
                    ways.append((n + j, i, -costs[i][j]))
                for start, end, length in ways:
                    if far[start] is not None and (
                        far[end] is None or far[start] + length < far[end]
                    ):
                        far[end], back[end], shorter = far[start] + length, start, True
        node = min((n + j for j in range(m) if b[j]), key=lambda end: far[end])
        end, mass, path = node - n, b[node - n], []
        while node in back:
            path.append((back[node], node))
            node = back[node]
            if path[-1][0] >= n:
                mass = min(mass, flow[path[-1][1]][path[-1][0] - n])
        mass = min(mass, a[node])
        for start, stop in path:
            if start < n:
                flow[start][stop - n] += mass
            else:
                flow[stop][start - n] -= mass
        a[node] -= mass
        b[end] -= mass
    return sum(flow[i][j] * costs[i][j] for i, j in np.ndindex(n, m))


def exact_distance(mu, nu, p):
    """W_p of the stored points in 60 digits."""

    def length(rows):
        return mpmath.sqrt(mpmath.fsum(mp.mpf(float(x)) ** 2 for x in rows))

    def power(x, y):
        apart = [mp.mpf(float(s)) - mp.mpf(float(t)) for s, t in zip(x, y, strict=True)]
        together = [mp.mpf(float(s)) + mp.mpf(float(t)) for s, t in zip(x, y, strict=True)]
        norms = [
            mpmath.sqrt(mpmath.fsum(s**2 for s in difference)) for difference in (apart, together)
        ]
        cost = (2 * mpmath.atan2(*norms)) ** mp.mpf(p)
        mantissa, exponent = cost.man_exp
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)

    with mp.workdps(60):
        costs = [[power(x, y) for y in nu.points] for x in mu.points]
        least = least_cost(mu.weights.tolist(), nu.weights.tolist(), costs)
        return (mp.mpf(least.numerator) / mp.mpf(least.denominator)) ** (1 / mp.mpf(p))


def assert_holds(bracket, exact, width):
    assert bracket.proved
    assert mp.mpf(bracket.lower) <= exact <= mp.mpf(bracket.upper)
    assert bracket.upper - bracket.lower <= width * bracket.upper


def two_clusters(rng, n, spread):
    """Two clouds of n tokens, each with half of them near one of two points."""
    centres = unit(rng.standard_normal((2, 3)))[np.arange(n) % 2]
    return [mf.Particles(unit(centres + spread * rng.standard_normal((n, 3)))) for _ in range(2)]


@pytest.mark.parametrize(
    ("spread", "p"), [(1e-8, 2), (1e-7, 2), (1e-5, 4), (1e-8, 14), (1e-8, 20), (1e-10, 1)]
)
def test_tight_clusters_far_apart(spread, p):
    for seed in range(4):
        mu, nu = two_clusters(np.random.default_rng(seed), 6, spread)
        exact = exact_distance(mu, nu, p)
        assert exact < 10 * spread
        assert_holds(mf.wasserstein(mu, nu, p), exact, 1e-11)
        assert_holds(mf.DistanceTo(nu, p=p)(mu), exact, 1e-11)
        plan = mf.transport_plan(mu, nu, p)
        assert cost_of(plan, mu, nu, p) == pytest.approx(float(exact), rel=1e-11)


@pytest.mark.slow
def test_a_large_power_without_clusters():
    """Costs of neighbours are 1e-20 of the largest; the assignment of scipy is a plan."""
    for seed in 0, 1:
        rng = np.random.default_rng(seed)
        mu, nu = (mf.Particles(unit(rng.standard_normal((800, 3)))) for _ in range(2))
        costs = (pair_distances(mu.points, nu.points) / np.pi) ** 14
        assigned = np.pi * costs[linear_sum_assignment(costs)].mean() ** (1 / 14)
        found = mf.wasserstein(mu, nu, 14)
        assert found.value <= assigned * (1.0 + 1e-14)
        assert_holds(found, mp.mpf(found.value), 1e-12)
        plan = mf.transport_plan(mu, nu, 14)
        np.testing.assert_allclose(plan.sum(axis=1), mu.weights, rtol=1e-15)
        np.testing.assert_allclose(plan.sum(axis=0), nu.weights, rtol=1e-15)
        assert cost_of(plan, mu, nu, 14) == pytest.approx(found.value, rel=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [1, 2, 14])
def test_tight_clusters_of_many_tokens_by_their_clusters(p, weighted):
    """Between clusters no mass pays, so W_p^p is the mean of that of the clusters."""
    rng = np.random.default_rng(5)
    n, spread = 120, 1e-9
    centres = unit(rng.standard_normal((4, 3)))[np.arange(n) % 4]
    x, y = (unit(centres + spread * rng.standard_normal((n, 3))) for _ in range(2))
    weights = rng.random(n) if weighted else np.ones(n)
    total = mf.wasserstein(
        mf.Particles(x, weights, unit_mass=True), mf.Particles(y, weights, unit_mass=True), p
    )
    parts = 0.0
    for k in range(4):
        own = slice(k, None, 4)
        share = weights[own].sum() / weights.sum()
        pair = (
            mf.Particles(x[own], weights[own], unit_mass=True),
            mf.Particles(y[own], weights[own], unit_mass=True),
        )
        parts += share * (float(mf.wasserstein(*pair, p)) / spread) ** p
    assert float(total) == pytest.approx(spread * parts ** (1 / p), rel=1e-11)
    assert total.upper - total.lower < 1e-11 * total.upper


def points(kind, n, rng, centres, spreads):
    chosen = centres[rng.integers(0, len(centres), n)]
    away = 10.0 ** -rng.uniform(0.0, spreads, (n if kind == "mixed" else 1, 1))
    found = unit(chosen + away * rng.standard_normal((n, 3)))
    return found[rng.integers(0, n, n)] if kind == "repeated" else found


@pytest.mark.slow
@examples(150)
@given(
    seed=st.integers(0, 2**32),
    p=st.sampled_from(POWERS),
    kind=st.sampled_from(["mixed", "clusters", "repeated"]),
    masses=st.sampled_from(["equal", "random", "counts", "shuffled", "mixed"]),
    sizes=st.tuples(st.integers(2, 5), st.integers(2, 5)),
    spreads=st.floats(0.0, 12.0),
)
def test_the_bracket_holds_the_exact_distance(seed, p, kind, masses, sizes, spreads):
    rng = np.random.default_rng(seed)
    centres = unit(rng.standard_normal((rng.integers(1, 4), 3)))
    n, m = sizes if masses != "shuffled" else (sizes[0], sizes[0])
    x, y = (points(kind, count, rng, centres, spreads) for count in (n, m))
    if kind == "repeated":
        y[: min(n, m) // 2] = x[: min(n, m) // 2]
    a, b = {
        "equal": lambda: (np.ones(n), np.ones(m)),
        "random": lambda: (rng.random(n), rng.random(m)),
        "counts": lambda: (rng.integers(1, 4, n), rng.integers(1, 4, m)),
        "shuffled": lambda: (weights := rng.random(n), rng.permutation(weights)),
        "mixed": lambda: (10.0 ** -rng.uniform(0, 12, n), 10.0 ** -rng.uniform(0, 12, m)),
    }[masses]()
    mu, nu = mf.Particles(x, a, unit_mass=True), mf.Particles(y, b, unit_mass=True)
    found = mf.wasserstein(mu, nu, p)
    exact = exact_distance(mu, nu, p)
    if found.lower == found.upper:
        assert found.value == pytest.approx(float(exact), rel=1e-13)
        return
    # where masses that rounding leaves over cross a gap, they are not all of the width
    assert_holds(found, exact, 1e-11 if masses == "equal" else 1.0)


def test_masses_of_many_decades_against_the_exact_programme():
    rng = np.random.default_rng(11)
    narrow = 0
    for _ in range(60):
        n, m = rng.integers(2, 7, 2)
        a, b = 10.0 ** -rng.uniform(0, 18, n), 10.0 ** -rng.uniform(0, 18, m)
        a, b = a / a.sum(), b / b.sum()
        costs = 10.0 ** -rng.uniform(0, 40, (n, m))
        best, exact = best_plan(a, b, costs), least_cost(a, b, costs)
        assert Fraction(best.lower) <= exact <= Fraction(best.upper)
        narrow += best.upper - best.lower <= 1e-11 * best.upper
    assert narrow >= 50


def test_a_token_without_weight_and_tokens_in_one_place():
    x = np.eye(3)
    mu = mf.Particles(x, [0.5, 0.5, 0.0])
    nu = mf.Particles(x[[0, 0, 2]], [0.25, 0.25, 0.5])
    found = mf.wasserstein(mu, nu, 2)
    assert_holds(found, mp.mpf(np.pi / 2) * mpmath.sqrt(0.5), 3e-14)
    plan = mf.transport_plan(mu, nu, 2).toarray()
    np.testing.assert_allclose(plan[2], 0.0)
    np.testing.assert_allclose(plan.sum(axis=0), nu.weights, rtol=1e-15)


def test_equal_clouds_whose_weights_differ_by_rounding():
    """Mass of 1e-17 that crosses the sphere costs 1e-8 of W_2: it is in the bracket."""
    rng = np.random.default_rng(3)
    x, weights = unit(rng.standard_normal((50, 3))), rng.random(50)
    order = rng.permutation(50)
    mu = mf.Particles(x, weights, unit_mass=True)
    assert mf.wasserstein(mu, mf.Particles(x[order], mu.weights[order]), 2).upper == 0.0
    moved = mu.weights.copy()
    moved[[0, 1]] += [1e-17, -1e-17]
    nu = mf.Particles(x[order], moved[order], unit_mass=True)
    assert not np.array_equal(mu.weights[order], nu.weights)
    found = mf.wasserstein(mu, nu, 2)
    assert found.value == found.lower == 0.0
    exact_mass = float(np.abs(mu.weights[order] - nu.weights).sum()) / 2
    assert found.upper >= np.sqrt(exact_mass) * geodesic_distance(x[0], x[1])


def test_costs_that_are_raised_stay_below_the_least():
    """Most of the mass goes 2^-50, next to none goes far: (dist/π)^20 of both is below 2^-900."""
    near, light = 2.0**-50, 1e-290
    mu = mf.Particles([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [1.0, light])
    nu = mf.Particles([[1.0, near, 0.0], [0.0, 1.0, 0.0]], [1.0, light])
    found, exact = mf.wasserstein(mu, nu, 20), exact_distance(mu, nu, 20)
    assert found.lower <= float(exact) <= found.upper


# -- the circle, by the same plans ----------------------------------------------------------------


def exact_on_circle(mu, nu, p):
    """W_p of the stored angles for an integer p, in fractions up to the p-th root."""
    turn = Fraction(2.0 * np.pi)
    x, y = ([Fraction(a) for a in circle_angles(measure.points)] for measure in (mu, nu))
    costs = [[min(abs(a - b), turn - abs(a - b)) ** p for b in y] for a in x]
    return float(least_cost(mu.weights, nu.weights, costs)) ** (1 / p)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_weights_over_fifteen_orders(p):
    rng = np.random.default_rng(7)
    for _ in range(12):
        x, y = rng.random(6), rng.random(5)
        a, b = (10.0 ** -rng.uniform(0, 15, n) for n in (6, 5))
        mu, nu = tokens(x, a), tokens(y, b)
        expected = exact_on_circle(mu, nu, p)
        assert expected > 1e-3
        # cumulated masses have rounding of 1e-16, which moves W_p by 1e-16 π^p / W_p^{p-1}
        rounding = 1e-15 * np.pi * (np.pi / expected) ** (p - 1)
        assert float(mf.wasserstein(mu, nu, p)) == pytest.approx(expected, abs=rounding)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_ties(p, seed):
    """Tokens of both in the same places, equal sums of masses, and several tokens in one place."""
    rng = np.random.default_rng(seed)
    mu, nu = (tokens(rng.integers(0, 8, 6) / 8, rng.integers(1.0, 4.0, 6)) for _ in range(2))
    expected = exact_on_circle(mu, nu, p)
    assert expected > 0.1
    # masses that should be equal differ by rounding, which may move that much by π
    rounding = 1e-14 * (np.pi / expected) ** (p - 1)
    assert float(mf.wasserstein(mu, nu, p)) == pytest.approx(expected, abs=rounding)


@pytest.mark.slow
@pytest.mark.parametrize("p", POWERS)
def test_tokens_on_the_circle_against_the_same_in_three_dimensions(p):
    """Angles are doubles up to 2π, so distances are right to 1e-15, however small they are."""
    rng = np.random.default_rng(7)
    for trial in range(30):
        n, m = rng.integers(2, 12, 2)
        centres, spread = 2 * np.pi * rng.random(rng.integers(1, 4)), 10.0 ** -(trial % 13)
        clouds = []
        for count in n, m:
            angles = centres[np.arange(count) % len(centres)] + spread * rng.random(count)
            x = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(count)])
            clouds.append((x, rng.random(count)))
        flat = [mf.Particles(x[:, :2], weights, unit_mass=True) for x, weights in clouds]
        bracket = mf.wasserstein(
            *[mf.Particles(x, weights, unit_mass=True) for x, weights in clouds], p
        )
        found = float(mf.wasserstein(*flat, p))
        assert bracket.lower - 2e-15 <= found <= bracket.upper + 2e-15
        plan = mf.transport_plan(*flat, p)
        assert cost_of(plan, *flat, p) == pytest.approx(found, abs=4e-15)


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 14])
@pytest.mark.parametrize("apart", [1e-2, 1e-5, 1e-8, 1e-11])
def test_nearly_equal_densities_on_the_circle(apart, p):
    """∫ |x - y|^p dmu with F_mu(x) = F_nu(y) by the trapezoidal rule in 40 digits."""
    with mp.workdps(40):
        total, a, b = mp.mpf(0), mp.mpf(0.5), mp.mpf(0.5 + apart)
        for k in range(128):
            x = y = 2 * mp.pi * k / 128
            for _ in range(6):
                y -= (y - x + b * mp.sin(y) - a * mp.sin(x)) / (1 + b * mp.cos(y))
            total += abs(x - y) ** p * (1 + a * mp.cos(x)) / 128
        exact = float(total ** (mp.mpf(1) / p))
    mu, nu = (mf.FourierSeries(cos=[cos]) for cos in (0.5, 0.5 + apart))
    circle = mf.Circle(64)
    for pair in (mf.Density(circle, mu), mf.Density(circle, nu)), (mf.FlowMap(mu), mf.FlowMap(nu)):
        # rounding of masses moves angles by as much
        assert float(mf.wasserstein(*pair, p)) == pytest.approx(exact, abs=3e-15)


# -- when it must say no ---------------------------------------------------------------------------


def spoiled(kind, rng):
    """A simplex method whose plan is the worst, or whose potentials are random."""
    own = network._network_simplex

    def solve(a, b, costs):
        plan, u = own(a, b, costs)
        if kind == "plan":
            return own(a, b, 1.0 - costs)[0], u
        return plan, rng.standard_normal(len(u))

    return solve


@pytest.mark.parametrize("p", [1, 2, 14])
@pytest.mark.parametrize("kind", ["plan", "potentials"])
def test_a_bad_plan_or_bad_potentials_widen_the_bracket(kind, p, monkeypatch):
    rng = np.random.default_rng(1)
    for spread in 1.0, 1e-6:
        mu, nu = two_clusters(rng, 6, spread)
        exact = exact_distance(mu, nu, p)
        monkeypatch.setattr(network, "_network_simplex", spoiled(kind, rng))
        found = mf.wasserstein(mu, nu, p)
        assert mp.mpf(found.lower) <= exact <= mp.mpf(found.upper)
        if kind == "plan":
            assert found.upper > 1.01 * float(exact)
            with pytest.warns(RuntimeWarning, match="best one"):
                mf.transport_plan(mu, nu, p)
        monkeypatch.undo()


def test_potentials_that_are_not_feasible_are_lowered():
    costs = np.array([[0.0, 1.0], [1.0, 0.0]])
    masses = network._Masses.of(np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    assert masses == ([1, 1], [1, 1])
    dual = network._Dual([], costs).plus(costs, np.ones(2), np.zeros(2), 0.25)
    # potentials of 1 leave costs of -1: rows are lowered until none is negative
    assert dual.reduced.min() == 0.0
    np.testing.assert_array_equal(dual.reduced, costs)
