"""Distances on the circle against POT, exact rational arithmetic and 30 digits; the triangle."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import meanfield as mf
from meanfield.functionals.transport import wasserstein
from meanfield.spaces.geometry import circle_angles
from validation.transport import PAIRS, by_search, by_simplex, own_law, random_pair, tokens

POWERS = [1, 1.5, 2, 3]
TURN = 2.0 * np.pi


# -- POT -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", POWERS)
def test_two_hundred_pairs_of_clouds(p):
    rng = np.random.default_rng(11)
    for _ in range(200):
        x, y, a, b = random_pair(rng, 60)
        own = wasserstein(tokens(x, a), tokens(y, b), p)
        # sums of at most 120 terms, and the p-th root of what is some 0.1 or more
        assert own == pytest.approx(by_simplex(x, y, a, b, p), abs=1e-12)
        assert own == pytest.approx(by_search(x, y, a, b, p), abs=1e-12)


@pytest.mark.parametrize("p", POWERS)
def test_clouds_of_many_tokens(p):
    rng = np.random.default_rng(3)
    x, y = rng.random(2000) ** 2, rng.random(1777)
    a, b = np.full(2000, 1 / 2000), rng.random(1777)
    b /= b.sum()
    own = wasserstein(tokens(x, a), tokens(y, b), p)
    assert own > 0.1
    # 4000 sums of masses, each with rounding
    assert own == pytest.approx(by_search(x, y, a, b, p), abs=1e-11)


# -- exact rational arithmetic -----------------------------------------------------------------


def exact_power(mu, nu, p):
    """W_p^p of two clouds for an integer p, without any rounding after angles and weights.

    The cost of the monotone plan is linear in the shift between those at which two sums of masses
    meet, so the least of these is the minimum.
    """
    turn = Fraction(TURN)
    x, a = _sorted(mu)
    y, b = _sorted(nu)
    ends, others = _sums(a), _sums(b)
    shifts = {other - end + k for end in ends[:-1] for other in others[:-1] for k in (-1, 0, 1)}

    def quantile(places, sums, u):
        turns = u.numerator // u.denominator
        place = next(i for i in range(len(places)) if u - turns < sums[i + 1])
        return places[place] + turn * turns

    def cost(shift):
        cuts = {*ends, *(other - shift + k for other in others for k in range(-3, 4))}
        cuts = sorted(cut for cut in cuts if 0 <= cut <= 1)
        total = Fraction(0)
        for low, high in pairwise(cuts):
            middle = (low + high) / 2
            apart = quantile(x, ends, middle) - quantile(y, others, middle + shift)
            total += (high - low) * abs(apart) ** p
        return total

    return min(cost(shift) for shift in shifts)


def _sorted(measure):
    angles = circle_angles(measure.points)
    order = np.argsort(angles, kind="stable")
    weights = [Fraction(w) for w in measure.weights[order]]
    return [Fraction(angle) for angle in angles[order]], [w / sum(weights) for w in weights]


def _sums(masses):
    sums = [Fraction(0)]
    for mass in masses:
        sums.append(sums[-1] + mass)
    return sums


@pytest.mark.parametrize("p", [1, 2, 3])
def test_weights_over_fifteen_orders(p):
    rng = np.random.default_rng(7)
    for _ in range(12):
        x, y = rng.random(6), rng.random(5)
        a, b = (10.0 ** -rng.uniform(0, 15, n) for n in (6, 5))
        mu, nu = tokens(x, a), tokens(y, b)
        expected = float(exact_power(mu, nu, p)) ** (1 / p)
        assert expected > 1e-3
        # cumulated masses have rounding of 1e-16, which moves W_p by 1e-16 π^p / W_p^{p-1}
        rounding = 1e-15 * np.pi * (np.pi / expected) ** (p - 1)
        assert wasserstein(mu, nu, p) == pytest.approx(expected, abs=rounding)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_one_token_that_hardly_weighs_anything(p):
    apart = wasserstein(tokens(np.array([0.1, 0.5]), [1.0, 1e-13]), tokens(np.array([0.1])), p)
    # a mass of 1e-13 beside 1 is known to 1e-16
    assert apart == pytest.approx(0.4 * TURN * 1e-13 ** (1 / p), rel=1e-2)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_ties(p, seed):
    """Tokens of both in the same places, equal sums of masses, and several tokens in one place."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 8, 6) / 8, rng.integers(0, 8, 6) / 8
    a, b = rng.integers(1, 4, 6), rng.integers(1, 4, 6)
    mu, nu = tokens(x, a.astype(float)), tokens(y, b.astype(float))
    a, b = a / a.sum(), b / b.sum()
    found = wasserstein(mu, nu, p)
    assert found > 0.1
    # masses that should be equal differ by rounding, which may move that much by π
    rounding = 1e-14 * (np.pi / found) ** (p - 1)
    assert found == pytest.approx(by_simplex(x, y, a, b, p), abs=rounding)
    assert found == pytest.approx(float(exact_power(mu, nu, p)) ** (1 / p), abs=rounding)


@pytest.mark.parametrize("p", POWERS)
def test_tokens_on_both_sides_of_the_seam(p):
    last = np.nextafter(1.0, 0.0)
    # half a unit in the last place of 2π apart; places of points are right to one or two
    assert wasserstein(tokens(np.array([0.0])), tokens(np.array([last])), p) < 2e-15
    mu = tokens(np.array([0.0, last, 0.5]), [0.25, 0.25, 0.5])
    assert wasserstein(mu, tokens(np.array([0.0, 0.5])), p) < 1e-15
    apart = wasserstein(mu, tokens(np.array([0.25, 0.75])), p)
    # a quarter of a turn each; with masses that differ no plan does better
    assert apart == pytest.approx(0.25 * TURN, abs=1e-14)
    skew = wasserstein(tokens(np.array([last, 0.0]), [0.2, 0.8]), tokens(np.array([0.125])), p)
    assert skew == pytest.approx(0.125 * TURN, abs=1e-14)


# -- a metric ------------------------------------------------------------------------------------


def some_measures():
    rng = np.random.default_rng(5)
    laws = [
        mf.FourierSeries(cos=[0.5, 0.2], sin=[0.1]),
        mf.FourierSeries(cos=[0.0, 0.9]),
        own_law(8.0, 1.0),
        mf.Mixture([own_law(12.0, 1.0), own_law(5.0, 3.0)], [0.2, 0.8]),
    ]
    runs = [mf.evolve(mf.FlowMap(law), mf.SA(3.0), 0.5, 1).final for law in laws[:2]]
    clouds = [tokens(rng.random(n), rng.random(n)) for n in (1, 2, 5, 20)]
    return [*(mf.Density(mf.Circle(64), law) for law in laws), *runs, *clouds]


@pytest.mark.parametrize("p", POWERS)
def test_the_triangle_inequality_for_triples_of_all_kinds(p):
    measures, rng = some_measures(), np.random.default_rng(6)
    kinds = np.array([type(measure).__name__ for measure in measures])
    count = len(measures)
    apart = np.zeros((count, count))
    for i in range(count):
        for j in range(i):
            apart[i, j] = apart[j, i] = wasserstein(measures[i], measures[j], p)
    assert apart[~np.eye(count, dtype=bool)].min() > 1e-2
    done = 0
    while done < 500:
        i, j, k = rng.choice(count, 3, replace=False)
        if len({kinds[i], kinds[j], kinds[k]}) < 2:
            continue
        done += 1
        assert apart[i, j] <= apart[i, k] + apart[k, j] + 1e-12
    assert len(set(kinds)) == 3


@pytest.mark.parametrize("p", POWERS)
def test_equal_measures(p):
    rng = np.random.default_rng(8)
    for n in 1, 2, 17, 400:
        weights = 10.0 ** -rng.uniform(0, 15, n)
        mu, order = tokens(rng.random(n), weights), rng.permutation(n)
        assert wasserstein(mu, mu, p) == 0.0
        # in another order masses are summed to one with other rounding
        other = mf.Particles(mu.points[order], mu.weights[order])
        assert wasserstein(mu, other, p) < 4e-15
    for measure in some_measures()[::2]:
        # a mass error of rounding that crosses the circle
        assert wasserstein(measure, measure, p) < np.pi * (1e-15) ** (1 / p)


# -- von Mises-Fisher laws in 30 digits ------------------------------------------------------------

# W_1 and W_2 of the pairs of validation/transport.py, which prints them
THIRTY_DIGITS = [
    (0.9230930046128536, 1.054689913844061),
    (1.915089872508614, 1.960638396494801),
    (1.696686096768489, 1.854683378357909),
    (0.4203776891245939, 0.4626370337577015),
    (2.113658998073367, 2.132514558800254),
    (2.467634434656171, 2.471196812397169),
]


@pytest.mark.parametrize(("pair", "expected"), list(zip(PAIRS, THIRTY_DIGITS, strict=True)))
def test_peaks_against_thirty_digits(pair, expected):
    dense = [mf.Density(mf.Circle(128), own_law(*law)) for law in pair]
    flows = [mf.FlowMap(own_law(*law)) for law in pair]
    for p, value in zip((1, 2), expected, strict=True):
        for one, other in (dense, dense[::-1], flows, (dense[0], flows[1])):
            # 16 Gauss nodes to a piece that a harmonic crosses in 2.4 rad
            assert wasserstein(one, other, p) == pytest.approx(value, abs=1e-12)
