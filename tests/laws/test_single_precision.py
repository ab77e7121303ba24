"""Numbers in less than double precision are taken within their rounding, and made exact."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import meanfield as mf
from meanfield import _checks

KINDS = [np.float16, np.float32]
CIRCLE = mf.Circle(64)
SPHERE = mf.Sphere(15)
TURN = np.arange(64) * 2.0 * np.pi / 64


def rows(n, dim, kind, seed=0):
    """Unit rows, normalised in that precision."""
    points = np.random.default_rng(seed).normal(size=(n, dim)).astype(kind)
    return points / np.sqrt((points * points).sum(axis=1, dtype=kind))[:, None]


def shares(n, kind, seed=1):
    """Weights of sum 1, divided by their sum in that precision."""
    weights = np.random.default_rng(seed).random(n).astype(kind)
    return weights / weights.sum(dtype=kind)


def values(heights, weights, kind):
    """Values of mass 1, divided by it in that precision."""
    heights = heights.astype(kind)
    return heights / (weights.astype(kind) * heights).sum(dtype=kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [2, 3, 50, 768, 4096])
def test_rows_are_normalised(kind, dim):
    given = rows(20, dim, kind)
    exact = given.astype(float) / np.linalg.norm(given.astype(float), axis=1, keepdims=True)
    found = {
        "Particles": mf.Particles(given).points,
        "PointCloud": mf.PointCloud(given).points,
        "VonMisesFisher": [mf.VonMisesFisher(row, 1.0).mean for row in given],
    }
    if dim <= 1024:
        found["Zonal"] = [mf.Zonal(dim, 7, axis=row).axis for row in given]
    for name, points in found.items():
        # a norm of d squares, a root and a division, and sums of either sign
        off = 4.0 * np.sqrt(dim) * _checks.EPS
        assert np.abs(np.linalg.norm(points, axis=1) - 1.0).max() < off, name
        np.testing.assert_allclose(points, exact, atol=off, err_msg=name)
    assert mf.Uniform(dim).pdf(given).tolist() == [1.0] * 20


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 1000, 30_000])
def test_weights_are_normalised(kind, n):
    given = shares(n, kind)
    points = rows(n, 2, np.float64)
    normalised = [mf.Particles(points, given).weights, mf.PointCloud(points, given).weights]
    normalised.append(mf.Oscillators(np.zeros(n), np.zeros(n), given).weights)
    if n <= 1000:
        # each law is looked at
        normalised.append(mf.Particles(points, list(given)).weights)
        normalised.append(mf.Mixture([mf.Uniform(2)] * n, given).weights)
        density = mf.OscillatorDensity(CIRCLE, mf.Uniform(2), np.zeros(n), given)
        normalised.append(density.frequency_weights)
    for weights in normalised:
        # a sum of n roundings, each of them a share of its weight
        assert abs(weights.sum() - 1.0) < 4 * np.sqrt(n) * _checks.EPS
        np.testing.assert_allclose(weights, given / given.astype(float).sum(), rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_further_off_is_refused(kind):
    """In these kinds as much as in double precision: by twice what rounding may do."""
    n = 100
    points, off = rows(n, 2, np.float64), 2.0 * _checks.rounding(kind(1.0), n)
    with pytest.raises(ValueError, match="weights must have sum 1 within"):
        mf.Particles(points, ((1.0 + off) * np.full(n, 0.01)).astype(kind))
    with pytest.raises(ValueError, match="points must have rows of norm 1"):
        mf.Particles(((1.0 + off) * np.full((2, n), 0.1)).astype(kind))
    with pytest.raises(ValueError, match=r"the density must have mass 1 within"):
        mf.Density(CIRCLE, ((1.0 + off) * np.ones(len(CIRCLE.weights))).astype(kind))
    with pytest.raises(ValueError, match="values must have mass 1 within"):
        mf.Tabulated(TURN, ((1.0 + off) * np.ones(64)).astype(kind))
    with pytest.raises(ValueError, match="matrix must be symmetric"):
        mf.studies.energy_minimiser(np.array([[1.0, 0.5], [0.5 + off, 2.0]], dtype=kind), 1.0)


def test_double_precision_is_as_strict_as_it_was():
    weights = np.full(1000, 1e-3).astype(np.float32).astype(float)
    weights[0] += 2e-8
    with pytest.raises(ValueError, match="weights must have sum 1 within 1e-08"):
        mf.Particles(rows(1000, 2, np.float64), weights)
    with pytest.raises(ValueError, match=r"rows of norm 1 \(within 1e-06\)"):
        mf.Particles([[1.000002, 0.0]])
    with pytest.raises(ValueError, match="matrix must be symmetric"):
        mf.studies.energy_minimiser([[1.0, 0.5], [0.5 + 1e-7, 2.0]], 1.0)
    # integers and numbers of more digits have no rounding of their own
    assert _checks.rounding([1, 2], 4) == _checks.rounding(np.longdouble(1), 4)


SPACES = {
    "circle": (CIRCLE, CIRCLE.points[:, 0]),
    "sphere": (SPHERE, SPHERE.points[:, 2]),
    "zonal": (mf.Zonal(5, 31), mf.Zonal(5, 31).points[:, -1]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("touches", [False, True])
def test_densities(name, kind, touches):
    space, height = SPACES[name]
    exact = 1.0 + height if touches else 1.0 + 0.5 * height
    given = values(exact, space.weights, kind)
    mu = mf.Density(space, given)
    assert abs(mu.mass() - 1.0) < 1e-14
    # a rounding of each value and of the mass
    assert np.abs(mu.values - exact).max() < 4.0 * np.finfo(kind).eps * exact.max()
    if kind is np.float32:
        # what rounding has put into the last degrees takes one larger space
        sol = mf.evolve(mu, mf.SA(1.0), 0.2, 1)
        assert sol.status == "finished"
        assert sol.final.space.size <= 2 * space.size + 1


@dataclass
class Law:
    """One of a user's own, whose pdf has single precision."""

    dim: int = 2

    def pdf(self, points):
        return (1.0 + points[:, 0]).astype(np.float32)

    def sample(self, n, rng):
        return mf.Uniform(self.dim).sample(n, rng).astype(np.float32)


def test_laws_of_ones_own():
    assert mf.Density(CIRCLE, Law()).mean()[0] == pytest.approx(0.5, abs=1e-7)
    tokens = mf.Particles.quantise(Law(), 100), mf.Particles.sample(Law(), 100, rng=0)
    for mu in tokens:
        assert np.abs(np.linalg.norm(mu.points, axis=1) - 1.0).max() < 4 * _checks.EPS


@pytest.mark.slow
def test_what_needs_more_digits_than_a_law_has_says_so():
    """Series of laws without an axis are resolved to 1e-12, and flow maps to their `tol`."""
    far = mf.DistanceTo(Law(3), distance="mmd", beta=1.0)
    with pytest.raises(ValueError, match=r"^to must be a law that Sphere\(511\) resolves to a"):
        mf.evolve(mf.Particles(np.eye(3)), mf.SA(1.0), 0.1, 1, monitors={"far": far})
    with pytest.raises(ValueError, match=r"^law must be a probability density that 200000 nodes"):
        mf.FlowMap(Law())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("touches", [False, True])
def test_tables(kind, touches):
    """They travel as what they were made into, which double precision takes."""
    exact = 1.0 + (1.0 if touches else 0.5) * np.cos(TURN)
    law = mf.Tabulated(TURN, values(exact, np.full(64, 1.0 / 64), kind))
    assert np.abs(law.values - exact).max() < 8.0 * np.finfo(kind).eps * exact.max()
    again = pickle.loads(pickle.dumps(law))
    assert again == law
    angles = rows(9, 2, np.float64)
    assert np.array_equal(again.pdf(angles), law.pdf(angles))


@pytest.mark.parametrize("kind", KINDS)
def test_symmetric_matrices(kind):
    query = np.random.default_rng(3).normal(size=(40, 3)).astype(kind)
    product = query.T @ query
    # as where the sums are done in another order
    product[0, 1] = np.nextafter(product[1, 0], kind(np.inf))
    assert product[0, 1] > product[1, 0]
    matrix = _checks.symmetric("matrix", product)
    assert np.array_equal(matrix, matrix.T)
    if kind is np.float32:
        # the studies take what this check takes
        return
    assert mf.studies.energy_maximiser(product, 0.01).kind
    ds = mf.studies.energy_extremisers([product], 0.01, repeats=0, rng=0)
    assert np.array_equal(ds.matrix[0], ds.matrix[0].T)


def test_times():
    times = np.linspace(0.0, 0.6, 4, dtype=np.float32)
    assert float(times[-1]) > 0.6
    flow = mf.FlowMap(mf.FourierSeries(cos=[0.5]))
    sol = mf.evolve(flow, mf.SA(1.0), 0.6, times)
    assert sol.t[-1] == 0.6
    for save, t in enumerate(times):
        assert sol.at(t) is sol[save]
    at = [[1.0, 0.0]]
    assert np.array_equal(sol.pdf(at, times[-1]), sol.pdf(at, 0.6))
    free = mf.evolve_free(np.eye(3), beta=1.0, t_end=0.6, save_at=times)
    assert free.t[-1] == 0.6


@pytest.mark.parametrize("kind", KINDS)
def test_ends_of_intervals(kind):
    """A turn and half a turn may be a little more."""
    turn = np.linspace(0.0, 2.0 * np.pi, 9).astype(kind)
    half = np.linspace(0.0, np.pi, 9).astype(np.float32)
    assert float(half[-1]) > np.pi
    sol = mf.evolve(mf.Density(CIRCLE, mf.FourierSeries(cos=[0.5])), mf.SA(1.0), 0.1, 1)
    assert sol.to_dataset({"angle": turn}).angle[-1] == min(float(turn[-1]), 2.0 * np.pi)
    law = mf.Tabulated(half, np.ones(9), axis=[0.0, 0.0, 1.0])
    assert law.points[-1] == np.pi
    # by twice the rounding
    further = turn * kind(1.0 + 6.0 * np.finfo(kind).eps)
    with pytest.raises(ValueError, match=r"grid\['angle'\] must hold values in"):
        sol.to_dataset({"angle": further})
    with pytest.raises(ValueError, match=r"angles to the axis, in \[0, π\]"):
        mf.Tabulated(half * np.float32(1.0 + 1e-6), np.ones(9), axis=[0.0, 0.0, 1.0])
