"""Runs of flow maps on S^2: endings, records, files and hand-over."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.measures import LineFlowMap, SphereFlowMap
from tests.handmade import unfinished

BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)], [0.6, 0.4]
)
POINTS = mf.Uniform(3).sample(200, np.random.default_rng(0))


@pytest.fixture(scope="module")
def sol():
    return mf.evolve(mf.FlowMap(BUMPS, tol=1e-8), mf.SA(4.0), 1.8, [0.6, 0.9, 1.8])


def test_the_form_follows_the_law():
    assert isinstance(mf.FlowMap(BUMPS, tol=1e-4), SphereFlowMap)
    for law in (mf.Uniform(3), mf.VonMisesFisher([0.6, 0.0, 0.8], 3.0), mf.ZonalSeries(3, [0.5])):
        assert isinstance(mf.FlowMap(law), LineFlowMap)
    assert isinstance(mf.FlowMap(mf.FourierSeries(cos=[0.5])), LineFlowMap)


@pytest.mark.slow
def test_records(sol):
    data = sol.dataset
    assert sol.status == "finished"
    gap = np.abs(data.energy - data.energy[0] - data.work)
    # the tolerance of the flow map, as of its mass and density below
    assert np.max(gap) < 1e-8 * mf.theory.energy_dirac(4.0)
    assert np.max(np.abs(data.mass - 1)) < 1e-8
    assert float(data.energy[-1]) > 1.2 * float(data.energy[0])
    assert np.all(np.diff(data["size"]) >= 0)
    assert len(mf.clusters(sol.final)) == data.n_clusters.values[-1] == 2
    assert data.max_density[3] > 10
    for t, flow in zip(sol.t, sol.measures, strict=True):
        assert flow.t == t
        assert flow.mass() == pytest.approx(1, abs=1e-8)


BALANCED = [mf.DoublyStochastic(4.0, sign=sign) for sign in (1, -1)]


@pytest.mark.parametrize(
    "dynamics",
    [mf.SA(2.0, sign=-1)]
    + [pytest.param(f, marks=pytest.mark.slow) for f in (mf.USA(1.0, sign=-1), *BALANCED)],
    ids=str,
)
def test_energy_changes_by_the_work(dynamics):
    run = mf.evolve(mf.FlowMap(BUMPS, tol=1e-6), dynamics, 0.3, 1)
    assert isinstance(run.final, SphereFlowMap)
    # the tolerance of the flow map
    energy, work = run.dataset.energy, run.dataset.work
    assert dynamics.sign * float(work[-1]) > 1e-3
    assert np.max(np.abs(energy - energy[0] - work)) < 1e-6 * abs(float(work[-1]))


@pytest.mark.slow
def test_dissipation_and_entropy(sol):
    for i, flow in enumerate(sol.measures):
        rate = float(sol.dataset.dissipation[i])
        assert mf.dissipation(flow, mf.SA(4.0)) == pytest.approx(rate, rel=1e-12)
        assert mf.energy(flow, 4.0) == pytest.approx(float(sol.dataset.energy[i]), rel=1e-12)
    assert sol.dataset.entropy.values[1] == pytest.approx(sol.measures[1].entropy())


def late_run(**limits):
    return mf.evolve(mf.FlowMap(BUMPS, tol=1e-4, **limits), mf.SA(4.0), 3.5, 1)


@pytest.mark.slow
def test_clusters_become_particles():
    """Their density is that of no measure, and without a radius there are none."""
    late = late_run()
    final, data = late.final, late.dataset
    assert data.n_atoms.values.tolist() == [0, len(final.atoms)]
    held = final.weights[np.isposinf(final.log_density)]
    assert 0.01 < final.atoms.masses.sum() == pytest.approx(held.sum(), rel=1e-12)
    assert np.isnan(data.entropy.values[-1])
    with pytest.raises(ValueError, match="measure must have no particles"):
        final.entropy()
    assert late_run(atom_radius=0).dataset.n_atoms[-1] == 0


@pytest.mark.slow
def test_density_at_nodes(sol):
    flow = sol.measures[2]
    f = sol.pdf(flow.points[: flow.n_nodes][::40], sol.t[2])
    # the foot of a node is off by the tolerance of 1e-8, log f by its slope of some ten times that
    assert np.max(np.abs(np.exp(flow.log_density)[: flow.n_nodes][::40] / f - 1)) < 1e-6


@pytest.mark.slow
def test_a_file_keeps_it(sol, tmp_path):
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    assert np.array_equal(again.pdf(POINTS, 1.7), sol.pdf(POINTS, 1.7))
    assert again.dataset.equals(sol.dataset)
    for mu, other in zip(sol.measures, again.measures, strict=True):
        for name in ("points", "weights", "log_density"):
            assert np.array_equal(getattr(mu, name), getattr(other, name))


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_hand_over(known, sol, tmp_path):
    """The density of a law, or of a series, ends as the flow map that was there from the start."""
    mu = mf.Density(mf.Sphere(31), BUMPS, max_size=31)
    if not known:
        mu = mf.Density.from_coefficients(mu.space, mu.coefficients, max_size=31)
    run = mf.evolve(mu, mf.SA(4.0), 0.9, [0.6], on_unresolved="flow-map")
    assert run.status == "finished"
    assert isinstance(run.measures[0], mf.Density)
    assert isinstance(run.final, SphereFlowMap)
    # that of the flow map's tolerance
    assert np.max(np.abs(run.dataset.energy.values - sol.dataset.energy.values[:3])) < 1e-8
    run.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    assert np.array_equal(again.pdf(POINTS, 0.8), run.pdf(POINTS, 0.8))
    assert [type(m) for m in again.measures] == [type(m) for m in run.measures]


@pytest.mark.slow
def test_a_limit_on_nodes_ends_the_run():
    mu = mf.FlowMap(BUMPS, tol=1e-4, max_nodes=len(mf.FlowMap(BUMPS, tol=1e-4).weights))
    sol = unfinished(mf.evolve, mu, mf.SA(4.0), 6.0, 6)
    assert sol.status == "under-resolved"
    assert "nodes" in sol.message
    assert 0 < sol.t[-1] < 6


@pytest.mark.slow
def test_what_can_not_be_run_is_refused(sol):
    with pytest.raises(ValueError, match=r"measure must be a flow map at t = 0 on S\^2, got one"):
        mf.evolve(sol.final, mf.SA(4.0), 1.0)
    with pytest.raises(ValueError, match=r"beta must be <= 40 .* got 41"):
        mf.evolve(sol.measures[0], mf.SA(41.0), 1.0)
    with pytest.raises(ValueError, match=r"law .* is not resolved"):
        mf.FlowMap(BUMPS, tol=1e-10, max_nodes=600)
    with pytest.raises(ValueError, match=r"law must have a density on S\^2"):
        mf.FlowMap(mf.PointCloud(np.eye(3)))


def test_log_density_on_s2_is_log_f_where_f_is_no_float_at_every_save():
    """It starts as the law's, and |div X| <= 2 + β, as a covariance has no trace above 1."""
    means, kappas = ([0.0, 0.0, 1.0], [0.0, 1.0, 0.0]), (500.0, 400.0)
    law = mf.Mixture([mf.VonMisesFisher(m, k) for m, k in zip(means, kappas, strict=True)])
    sol = mf.evolve(mf.FlowMap(law, tol=1e-3), mf.SA(2.0), 0.25, 1)
    start, end = sol.measures
    assert start.log_density.min() < np.log(1e-308)
    # κ times the rounding of a unit vector
    np.testing.assert_allclose(start.log_density, law.logpdf(start.points), rtol=0, atol=1e-12)
    assert np.abs(end.log_density - start.log_density).max() <= (2.0 + 2.0) * 0.25


def test_nodes_without_density_on_s2_move():
    """Log of f is -inf there at every save, on the first mesh and a later one with particles."""
    north = np.array([0.6, 0.0, 0.8])

    class Half:
        """8 z³ where z = <x, north> > 0, of mass ½ ∫ 8 z³ dz = 1."""

        dim, axis = 3, None

        def pdf(self, points):
            return 8.0 * np.maximum(np.asarray(points) @ north, 0.0) ** 3

        def sample(self, n, rng):
            raise NotImplementedError

    sol = mf.evolve(mf.FlowMap(Half(), tol=1e-3), mf.SA(4.0), 3.0, 2)
    assert sol.status == "finished"
    assert len(sol.final.point_masses[0]) > 0
    for flow in sol.measures:
        empty = flow.weights == 0.0
        assert empty.any()
        assert np.array_equal(np.isneginf(flow.log_density), empty)
