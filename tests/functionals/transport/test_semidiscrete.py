"""Tokens beside a density on S^2: a weight for each of them proves W_p, up to a gap."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.functionals.transport import semidiscrete
from meanfield.functionals.transport import sphere as distance
from meanfield.functionals.transport.clouds import pair_distances
from meanfield.functionals.transport.semidiscrete import _cost as plan_cost
from meanfield.functionals.transport.semidiscrete import dual_value
from meanfield.functionals.transport.sphere_masses import series, spread_of
from meanfield.spaces.geometry import geodesic_distance, sphere_points
from meanfield.spaces.lattice import Lattice, cell_bulges
from tests.functionals.drawn import bumps, mean_power, power, unit

VERTICES = np.concatenate([np.eye(3), -np.eye(3)])


def to_the_nearest_vertex(p):
    """W_p^p of an octahedron's vertices and the uniform density: dist^p over a face of the cube."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    nodes, weights = 0.5 * (1.0 + nodes), 0.5 * weights
    tangent = np.hypot(nodes[:, None], nodes)
    density = np.outer(weights, weights) * (1.0 + tangent**2) ** -1.5
    return 24.0 / (4.0 * np.pi) * float(np.sum(density * np.arctan(tangent) ** p))


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_an_octahedron_beside_the_uniform_density(p):
    truth = to_the_nearest_vertex(p)
    tokens, uniform = mf.Particles(VERTICES), mf.Density(mf.Sphere(15), mf.Uniform(3))
    bracket = mf.wasserstein(tokens, uniform, p, gap=2e-4)
    assert bracket.proved
    assert bracket.lower <= truth ** (1.0 / p) <= bracket.upper
    assert 0.0 < bracket.upper - bracket.lower <= 2e-4 * bracket.upper
    # weights of 0 are the best: the bound misses what interpolation does, of order 2
    spreads = spread_of(tokens), spread_of(uniform)
    missed = [truth - dual_value(*spreads, np.zeros(6), float(p), n) for n in (64, 128, 256)]
    assert 0.0 < missed[-1] < 1e-4
    orders = np.log2(np.array(missed[:-1]) / missed[1:])
    assert np.all(np.abs(orders - 2.0) < 0.15)
    # any others prove less
    rng = np.random.default_rng(4)
    for size in 1e-2, 0.1, 1.0:
        assert dual_value(*spreads, size * rng.standard_normal(6), float(p), 64) < truth - 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_tokens_beside_their_own_law(p, monkeypatch):
    """Smooth potentials leave brackets of 6 % and more here, of some 25 % for 2,000 tokens."""
    rng = np.random.default_rng(31)
    law = bumps(rng, 2, 5.0)
    tokens, density = mf.Particles.sample(law, 150, rng), mf.Density(mf.Sphere(31), law)
    narrow = mf.wasserstein(density, tokens, p)
    assert narrow.proved
    assert 0.0 < narrow.upper - narrow.lower <= 1e-2 * narrow.upper
    assert narrow.lower <= float(narrow) <= narrow.upper
    monkeypatch.setattr(distance, "is_semidiscrete", lambda *given: False)
    wide = mf.wasserstein(density, tokens, p, budget=1)
    assert wide.upper - wide.lower > 5.0 * (narrow.upper - narrow.lower)
    assert max(wide.lower, narrow.lower) <= min(wide.upper, narrow.upper)


@pytest.mark.parametrize("p", [1, 2])
def test_tokens_on_an_axis_and_where_no_mass_is(p):
    """W_p of polar angles, of which S^2 knows nothing; cells that begin without mass."""
    axis = np.array([0.36, 0.48, 0.8])
    for law, masses in (
        (mf.VonMisesFisher(axis, 5.0), [0.7, 0.3]),
        (
            mf.Mixture([mf.VonMisesFisher(axis, 60.0), mf.Uniform(3)], [1 - 1e-9, 1e-9]),
            [1e-3, 0.999],
        ),
        (mf.Uniform(3), [1e-12, 1.0 - 1e-12]),
    ):
        tokens = mf.Particles([axis, -axis], masses)
        truth = float(mf.wasserstein(tokens, mf.Density(mf.Zonal(3, 47, axis), law), p))
        bracket = mf.wasserstein(tokens, mf.Density(mf.Sphere(47), law), p)
        assert bracket.lower <= truth * (1.0 + 1e-9)
        assert truth * (1.0 - 1e-9) <= bracket.upper
        assert bracket.upper - bracket.lower <= 1e-2 * bracket.upper


def test_false_weights_and_false_plans_are_found(monkeypatch):
    """Without its nearest token a point's least slack is too large; a plan may miss a part."""
    tokens, density = mf.Particles(VERTICES), mf.Density(mf.Sphere(15), mf.Uniform(3))
    pair = spread_of(tokens), spread_of(density)
    honest = dual_value(*pair, np.zeros(6), 2.0, 64)

    class Blind(semidiscrete.Nearest):
        def __init__(self, points, weights, p, rows, margin=0.0):
            super().__init__(
                points, weights - (2.0 if margin == 0.0 else 0.0) * points[:, 0], p, rows, margin
            )

    with monkeypatch.context() as patch:
        patch.setattr(semidiscrete, "Nearest", Blind)
        assert dual_value(*pair, np.zeros(6), 2.0, 64) > 1.05 * honest
        with pytest.raises(ArithmeticError, match=r"one of the two is no bound"):
            mf.wasserstein(tokens, density, 2)
    monkeypatch.setattr(semidiscrete, "_cost", lambda *given: 0.98 * plan_cost(*given))
    for p in 1, 2:
        with pytest.raises(ArithmeticError, match=r"one of the two is no bound"):
            mf.wasserstein(tokens, density, p)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_the_nearest_tokens_of_a_cell_are_in_its_list(p):
    rng = np.random.default_rng(32)
    tokens, points = unit(rng, 40), unit(rng, 3000)
    distances = pair_distances(points, tokens)
    for size in 0.0, 0.2, 2.0:
        weights = size * rng.standard_normal(40)
        slack = distances**p / p - weights
        for margin in 0.0, 0.3:
            nearest = semidiscrete.Nearest(tokens, weights, p, 32, margin)
            arcs = semidiscrete.Arcs(points, tokens, nearest)
            listed = np.zeros(slack.shape, dtype=bool)
            listed[arcs.point, arcs.token] = True
            assert np.all(listed[slack <= slack.min(axis=1)[:, None] + margin])
            assert not listed.all()
            np.testing.assert_allclose(arcs.distance, distances[arcs.point, arcs.token], atol=1e-14)
            cell = nearest.lattice.cell_of(points)[arcs.point]
            assert np.all(nearest.near[cell] <= arcs.distance)
            assert np.all(arcs.distance <= nearest.far[cell])


def test_interpolation_about_a_token_is_bounded_to_its_size():
    """Near a token on the equator dist²/2 bends by 1 along meridians and parallels alike.

    Then the bound of what interpolation adds is what it adds: next to nothing is left between W_2²,
    which goes to the only token, and its bound.
    """
    token, rows = np.array([1.0, 0.0, 0.0]), 256
    density = power(token, 127)
    spreads = spread_of(mf.Particles(token[None])), spread_of(density)
    bulges = cell_bulges(Lattice(rows), series(density, 127), 127)
    missed = mean_power(127, 2) - dual_value(*spreads, np.zeros(1), 2.0, rows)
    assert 0.0 <= missed < 0.01 * 2.0 * float(sum(bulge.sum() for bulge in bulges))


def test_parallels_turn():
    """Along them the slack of a token beyond 90° is convex, though its second derivative is not."""
    at, token = sphere_points(np.array([np.pi / 4, 5 * np.pi / 6]), np.array([0.1, 0.1]))
    density, fine = power(at, 15), mf.Sphere(255)
    lengths = geodesic_distance(fine.points, token)
    truth = fine.weights @ (16.0 * (0.5 + 0.5 * fine.points @ at) ** 15 * lengths)
    spreads = spread_of(mf.Particles(token[None])), spread_of(density)
    assert truth - 0.02 < dual_value(*spreads, np.zeros(1), 1.0, 16) < truth - 1e-5
