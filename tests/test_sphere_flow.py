"""Flow maps on S^2 against series, other solvers, dense sums and identities."""

import numpy as np
import pytest
from scipy.special import sph_harm_y

import meanfield as mf
from meanfield.equations.atoms import compressed
from meanfield.equations.characteristics import follow
from meanfield.equations.history import History, step_times
from meanfield.equations.sphere_field import SphereField, field_on_sphere
from meanfield.measures import SphereFlowMap
from meanfield.spaces.cubed_sphere import Leaves, lay
from meanfield.spaces.sphere_fields import Places, SphereAt

AWKWARD = [
    [0.0, 0.0, 1.0],
    [-0.0, 0.0, -1.0],
    [1e-9, 2e-9, 1.0],
    [1e-200, -1e-200, -1.0],
    [-1e-12, 0.0, -1.0],
    [0.0, -1.0, 0.0],
]


def bumps():
    colatitude, longitude = 2.0, 0.7
    second = [
        np.sin(colatitude) * np.cos(longitude),
        np.sin(colatitude) * np.sin(longitude),
        np.cos(colatitude),
    ]
    laws = [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher(second, 3.0)]
    return mf.Mixture(laws, [0.6, 0.4])


def unit(rng, n):
    points = rng.normal(size=(n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def places(rng, n):
    points = np.concatenate([np.array(AWKWARD), unit(rng, n)])
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def dense_harmonics(at, there):
    theta, phi = there.angles.T
    pairs = zip(at.degrees, at.orders, strict=True)
    return np.sqrt(4.0 * np.pi) * np.stack([sph_harm_y(l, m, theta, phi) for l, m in pairs])


@pytest.mark.parametrize("lmax", [1, 24, 50])
def test_moments_and_values_are_dense_sums(lmax):
    rng = np.random.default_rng(1)
    at, there = SphereAt(lmax), Places.of(places(rng, 200))
    harmonics = dense_harmonics(at, there)
    masses = rng.uniform(size=harmonics.shape[1])
    moments = at.moments(there, masses)
    # harmonics are at most sqrt(2l+1) in size
    allowed = 1e-13 * masses.sum()
    assert np.abs(moments - harmonics.conj() @ masses).max() < allowed
    # two sums of 200 terms
    assert moments[0].real == pytest.approx(masses.sum(), rel=len(masses) * np.finfo(float).eps)
    twice = np.where(at.orders == 0, 1.0, 2.0)
    expected = ((twice * moments) @ harmonics).real
    # transforms of so few degrees reach no more than this
    accuracy = 4e-13 if lmax < 10 else 1.5e-13
    assert np.abs(at.values(moments, there) - expected).max() < accuracy * np.abs(expected).max()
    factors = -at.degrees * (at.degrees + 1.0)
    expected = ((twice * factors * moments) @ harmonics).real
    error = np.abs(at.laplacian(moments, there) - expected).max()
    assert error < accuracy * np.abs(expected).max()


def test_weights_of_a_mesh_integrate_polynomials():
    points, weights = Leaves.uniform(2).nodes()
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert weights @ points[:, 0] ** 2 == pytest.approx(1 / 3, abs=1e-14)
    assert np.abs(np.linalg.norm(points, axis=1) - 1.0).max() < 1e-15


def test_every_node_is_in_its_leaf():
    coarse = Leaves.uniform(1)
    leaves = Leaves.joined([coarse.take(np.arange(20)), coarse.take(np.array([20])).children()])
    points, weights = leaves.nodes()
    mass, count = leaves.holding(points, weights)
    assert (count == 100).all()
    assert np.abs(mass - weights.reshape(-1, 100).sum(axis=1)).max() < 1e-16


def test_narrow_peak_is_found_by_seeds_and_missed_with_an_error():
    axis = np.array([0.6, 0.1, 0.79])
    axis /= np.linalg.norm(axis)
    law = mf.VonMisesFisher(axis, 1e6)
    with pytest.raises(ArithmeticError, match="missed between nodes"):
        lay(law.pdf, 1e-9)
    seeds = law.sample(300, np.random.default_rng(3))
    mesh = lay(law.pdf, 1e-9, seeds=(seeds, np.full(300, 1 / 300)))
    assert mesh.mass == pytest.approx(1.0, abs=1e-9)
    with pytest.raises(ArithmeticError, match="limit = 1000 nodes"):
        lay(law.pdf, 1e-9, limit=1000)


def test_compression_keeps_every_exponential():
    rng = np.random.default_rng(5)
    points = np.array([0.6, 0.0, 0.8]) + 0.03 * rng.normal(size=(4000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    masses = rng.exponential(size=4000)
    fewer, weights = compressed(points, masses, 4.0, 1e-12)
    assert len(fewer) <= 153
    assert weights.min() > 0.0
    z = 4.0 * unit(rng, 100)
    expected = np.exp(z @ points.T) @ masses
    assert np.abs(np.exp(z @ fewer.T) @ weights / expected - 1.0).max() < 1e-11


def test_history_is_exact_on_polynomials_and_survives_saving():
    history = History(0.0)
    for start, end in ((0.0, 0.3), (0.3, 1.0)):
        times = step_times(start, end)
        history.append(end, np.stack([1.0 + times**7, 1j * times], axis=1))
    copy = History.from_arrays(history.arrays())
    for t in (0.0, 0.1, 0.3, 0.7, 1.0):
        assert np.abs(copy.at(t) - np.array([1.0 + t**7, 1j * t])).max() < 1e-14
    with pytest.raises(ValueError, match="t must be a finite number >= 0"):
        history.at(1.1)


@pytest.mark.parametrize("dynamics", [mf.SA(4.0), mf.SA(25.0)])
def test_velocity_and_divergence_of_points(dynamics):
    rng = np.random.default_rng(4)
    # half the sphere: at β = 25 the series of G has no digits on the other half
    sources = unit(rng, 300)
    sources[:, 2] = np.abs(sources[:, 2])
    masses = rng.uniform(size=300) / 150.0
    points = places(rng, 50)
    field = SphereField(dynamics)
    moments = field.moments(sources, masses)
    velocity, divergence = field.velocity_and_divergence(moments, points, (sources, masses))
    beta = dynamics.beta

    def exact(at):
        terms = masses * np.exp(beta * (at @ sources.T))
        pull = terms @ sources
        pull /= terms.sum(axis=1, keepdims=True)
        return dynamics.sign * (pull - np.sum(at * pull, axis=1, keepdims=True) * at)

    size = np.abs(velocity).max()
    assert size > 0.1
    # digits of G left at 1e-6 of its maximum
    allowed = 1e-6 if beta == 25.0 else 1e-11
    assert np.abs(velocity - exact(points)).max() < allowed * size
    assert np.abs(np.sum(velocity * points, axis=1)).max() < 1e-12 * size
    step, total = 1e-4, np.zeros(len(points))
    for axis in np.eye(3):
        for k, c in ((1, 2 / 3), (2, -1 / 12)):
            ahead, behind = points + k * step * axis, points - k * step * axis
            ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
            behind /= np.linalg.norm(behind, axis=1, keepdims=True)
            total += c * ((exact(ahead) - exact(behind)) @ axis) / step
    assert np.abs(divergence - total).max() < 1e-7 * max(1.0, np.abs(total).max())


def test_there_and_back():
    sol = mf.evolve(mf.FlowMap(bumps(), tol=1e-9), mf.SA(4.0), 0.5, 1)
    field, points = field_on_sphere(sol.dynamics), places(np.random.default_rng(7), 100)
    there, stretch, _ = follow(field, sol.history, points, 0.0, 0.45)
    again, back, _ = follow(field, sol.history, there, 0.45, 0.0)
    assert np.abs(there - points).max() > 0.1
    assert np.abs(again - points).max() < 1e-9
    assert np.abs(stretch + back).max() < 1e-8


# a law about an axis, followed as if it had none
BUMP = SphereFlowMap(mf.VonMisesFisher([0.6, 0.0, 0.8], 10.0), tol=1e-6)


def test_clusters_become_particles():
    sol = mf.evolve(BUMP, mf.SA(4.0), 6.0, 1)
    found = mf.clusters(sol.final, 0.3)
    assert np.abs(found.centres - [[0.6, 0.0, 0.8]]).max() < 1e-6
    assert found.masses == pytest.approx([1.0], abs=1e-6)
    assert 1e-4 < found.radii[0] < 1e-2
    assert sol.dataset.smooth_mass[-1] < 1e-5
    assert np.exp(4.0) / 8.0 - sol.dataset.energy[-1] < 1e-3


def test_particles_stand_for_what_they_replaced():
    alone, both = (
        mf.evolve(BUMP, mf.SA(4.0), 2.2, 1, cluster_radius=radius) for radius in (0.0, 1e-8)
    )
    assert both.dataset.particles[-1] > 0
    assert both.dataset.smooth_mass[-1] < 0.1
    assert alone.dataset.particles[-1] == 0
    energies = [float(run.dataset.energy[-1]) for run in (alone, both)]
    assert energies[1] == pytest.approx(energies[0], abs=1e-8)
    # the density of the whole measure is still known
    nodes = both.density([[0.6, 0.0, 0.8], [0.0, 0.0, 1.0]], 2.2)
    assert nodes[0] > 100.0 > nodes[1] > 0.0
