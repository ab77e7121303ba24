"""C-transforms on S^2 are bounded from below and above, and the dual functional with them."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.functionals.transport import sphere_dual
from meanfield.functionals.transport.clouds import pair_distances
from meanfield.functionals.transport.sphere_dual import Minima, Potential, RingSearch, dual
from meanfield.functionals.transport.sphere_masses import series, spread_of
from meanfield.spaces.geometry import geodesic_distance
from meanfield.spaces.lattice import Lattice, hats
from tests.functionals.drawn import cosine, power, random_series, unit


@pytest.mark.parametrize("steps", [0, 30])
def test_the_conjugate_of_zero_is_zero(steps, monkeypatch):
    """The c-transform of φ = 0 is the least dist²/2, also where Newton's iteration does not move.

    Then the slack δ²/2 and the slope δ at the centre of a cell are all that is known, and the bound
    is δ²/2 - δ²/2λ: second derivatives are at least λ > 1 - 1e-4 in the ball around it.
    """
    monkeypatch.setattr(sphere_dual, "_MOST_NEWTON_STEPS", steps)
    potential = Potential(3, np.zeros(10, dtype=np.complex128))
    finest = potential.lattices[-1]
    targets = np.concatenate([unit(np.random.default_rng(4), 100), finest.corners[[0, 5, -1]]])
    found = potential.conjugate(targets, 1e-12)
    assert np.all(found.lower <= 0.0)
    assert np.all(found.upper >= 0.0)
    widest = 0.5 * float(finest.radii.max()) ** 2
    assert found.lower.min() > -2e-4 * widest - 2e-12
    assert (found.upper.max() > 0.5 * widest) == (steps == 0)


@pytest.mark.slow
def test_the_conjugate_is_bounded_by_the_least_slack():
    rng = np.random.default_rng(11)
    _, coefficients = random_series(rng, 10, 0.5)
    targets = unit(rng, 50)
    grid = mf.Sphere(200)
    costs = 0.5 * pair_distances(targets, grid.points) ** 2
    for size in 0.02, 0.2, 2.0:
        potential = Potential(10, size * coefficients)
        values = grid.synthesis(mf.Sphere(10).embed(size * coefficients, grid))
        least = (costs - values).min(axis=1)
        for tolerance in 1e-3, 1e-6:
            found = potential.conjugate(targets, tolerance)
            # the grid's least value lies above the true one, by at most curvature · spacing²
            assert np.all(found.lower <= least)
            # next to -x the distance of two doubles is right to 2e-8
            assert np.all(found.upper <= least + 2e-7)
            assert np.all(least - found.upper < 5e-3 * max(size, 0.2))
            assert np.all(found.lower <= found.upper)
            assert np.median(found.upper - found.lower) <= tolerance + 2e-7


@pytest.mark.parametrize("bend", [0.0, 0.5])
def test_the_margins_of_cells_are_reached(bend):
    """φ = -bend cos θ and the south pole, where -φ bends most: a corner of all cells around it.

    What the slack at a centre exceeds the least by is (1 + bend)/2 times the square of the radius,
    but for r⁴ and for what φ might do between corners.
    """
    pole = np.array([0.0, 0.0, -1.0])
    potential = Potential(3, -bend * cosine())
    for lattice, margins in zip(potential.lattices, potential.margins, strict=True):
        centres = lattice.points[-lattice.n_lon :]
        slack = 0.5 * geodesic_distance(centres, pole) ** 2 - potential.values(centres)
        excess = slack + potential.values(pole[None])
        assert np.all(excess <= margins[-1] * (1.0 + 1e-12))
        assert np.all(excess >= 0.995 * margins[-1])


def test_the_conjugate_holds_wherever_newton_ends(monkeypatch):
    """A wide tolerance leaves no cell open beside the start, and the iteration may go uphill."""
    rng = np.random.default_rng(3)
    potential, targets = Potential(10, 0.2 * random_series(rng, 10, 0.5)[1]), unit(rng, 100)
    honest = potential.conjugate(targets, 1e-6)

    def astray(self, sources, targets):
        turned = np.roll(sources, 1, axis=1)
        slack, _ = self.slack(turned, targets)
        values = 0.5 * slack.distance**2 - self.values(turned)
        return Minima(values, turned, slack, np.zeros(len(targets), dtype=bool))

    monkeypatch.setattr(Potential, "_descend", astray)
    for tolerance in 0.1, 1e-3, 1e-6:
        found = potential.conjugate(targets, tolerance)
        assert np.all(found.lower <= honest.upper)
        assert np.all(found.upper >= honest.lower)


def test_the_rings_that_are_looked_at_hold_the_least_slack():
    rng = np.random.default_rng(17)
    grid = mf.Sphere(31)
    targets = unit(rng, 200)
    targets = targets[RingSearch.order(targets)]
    costs = 0.5 * pair_distances(targets, grid.points) ** 2
    looked_at = []
    for size in 0.0, 0.1, 1.0:
        coefficients = size * random_series(rng, 10, 0.5)[1]
        values = grid.synthesis(mf.Sphere(10).embed(coefficients, grid)).astype(np.float32)
        slack, seen = costs - values, np.full(len(targets), np.inf)
        for rows, columns in RingSearch(grid, targets).parts(values):
            seen[rows] = slack[rows, columns].min(axis=1)
            looked_at.append(len(grid.colatitudes) * (columns.stop - columns.start))
        assert np.array_equal(seen, slack.min(axis=1))
    # the flatter the potential, the fewer rings
    each = np.reshape(looked_at, (3, -1)).mean(axis=1) / len(grid.points)
    assert each[0] < each[1] < each[2] <= len(grid.colatitudes)


def test_interpolation_of_a_conjugate_is_bounded():
    """A sharp φ has ψ = dist²/2 - max φ, nearly, which bends by 1 both ways near its top.

    Of distances to the source only their bounds in a row are known: half as much as interpolation
    adds along a meridian is taken off in vain, a fifth of all.
    """
    top, degree, rows = np.array([1.0, 0.0, 0.0]), 31, 64
    density, space, grid = power(top, degree), mf.Sphere(degree), mf.Sphere(47)
    potential = Potential(degree, space.analysis((0.5 + 0.5 * space.points @ top) ** degree))
    token, smooth = spread_of(mf.Particles(top[None])), spread_of(density)
    masses = grid.weights * density.pdf(grid.points)
    # φ is 1 at its top
    exact = 1.0 + float(masses @ potential.conjugate(grid.points, 1e-8).lower)
    missed = exact - dual(token, smooth, potential, 1e-8, rows)[0]
    between = hats(Lattice(rows), series(density, degree), degree).between
    assert 0.0 < missed < 0.5 * between
