"""Flow maps on S² under attention with matrices, feed-forward layers and `Layers`."""

from contextlib import nullcontext

import numpy as np
import pytest

import meanfield as mf
from meanfield.equations.sphere import field_on_sphere
from meanfield.measures import SphereFlowMap
from meanfield.spaces import Places
from meanfield.spaces.geometry import perpendicular
from tests.handmade import unit_points

LAW = mf.Mixture(
    [mf.VonMisesFisher([1.0, 0.0, 0.0], 1.5), mf.VonMisesFisher([0.0, -0.6, 0.8], 2.0)], [0.4, 0.6]
)


def heads(seed, size=0.7):
    rng = np.random.default_rng(seed)
    return [mf.Head(*(size * rng.normal(size=(3, 3, 3)))) for _ in range(2)]


def perceptron(seed):
    rng = np.random.default_rng(seed)
    outer, inner = 0.7 * rng.normal(size=(2, 3, 3))
    return mf.FeedForward(outer, inner, rng.normal(size=3), activation="tanh")


ATTENTION, TANH = mf.Attention(1.0, heads(0)), perceptron(1)
LAYERS = mf.Layers([ATTENTION, TANH, mf.SA(1.0), mf.USA(0.5, sign=-1)], step=0.125)
POINTS = unit_points(3, 20, 0)


def rule(n):
    """Gauss points in z times equal steps in longitude: weights of σ."""
    z, weights = np.polynomial.legendre.leggauss(n)
    phi = np.pi * np.arange(2 * n) / n
    z, phi = (each.ravel() for each in np.meshgrid(z, phi, indexing="ij"))
    across = np.sqrt(1 - z * z)
    points = np.column_stack([across * np.cos(phi), across * np.sin(phi), z])
    return points, np.repeat(weights, 2 * n) / (4 * n)


def divergence_by_differences(velocity, points, h=1e-3):
    """Derivatives of order 4 along two geodesics through each point."""
    total = np.zeros(len(points))
    first = np.array([perpendicular(point) for point in points])
    for tangent in first, np.cross(points, first):

        def along(a, tangent=tangent):
            ahead = np.cos(a) * tangent - np.sin(a) * points
            return np.einsum("ij,ij->i", velocity(np.cos(a) * points + np.sin(a) * tangent), ahead)

        total += 8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))
    return total / (12 * h)


# ---------------------------------------------------------------- the field


MATRIX = np.array([[30.0, 12.0, 0.0], [-12.0, 30.0, 0.0], [0.0, 0.0, -36.0]])
# at the poles and next to them, where angles are degenerate
POLES = [[0, 0, 1], [-0.0, 0, -1], [1e-9, 2e-9, 1], [1e-200, -1e-200, -1], [-1e-12, 0, -1]]
STEEP = mf.Interaction(
    (lambda t: np.exp(25.0 * t), lambda t: 25.0 * np.exp(25.0 * t)), normalised=True
)


@pytest.mark.parametrize(
    ("dynamics", "off"),
    # digits are lost where G is 1e-6, or for SA 1e-9, of its scale
    [
        (mf.Attention(1.0, [mf.Head(Q=MATRIX, V=MATRIX / 30.0)]), 3e-9),
        (mf.SA(25.0), 5e-7),
        (STEEP, 5e-7),
    ],
    ids=["heads", "SA", "kernel"],
)
def test_where_the_series_has_no_digits_the_sources_are_summed(dynamics, off):
    """All mass in a cap, |M| = 36 or 25: G falls to e^{-50} = 1e-22 of its maximum and less."""
    rng = np.random.default_rng(0)
    points, masses = rng.normal(size=(200, 3)), rng.dirichlet(np.ones(200))
    points = 0.2 * points / np.linalg.norm(points, axis=1)[:, None] + np.array([0.0, 0.6, 0.8])
    points /= np.linalg.norm(points, axis=1)[:, None]
    tokens, targets = (
        mf.Particles(points, masses, unit_mass=True),
        np.vstack([unit_points(3, 60, 1), POLES]),
    )
    depth = field_on_sphere(dynamics)
    moments, field = depth.moments(points, masses), depth.during(0.0, 1.0)
    velocity, divergence, _ = field.rates(moments, Places.of(targets), (points, masses))
    expected = dynamics.velocity(tokens, at=targets)
    assert np.abs(velocity - expected).max() < off
    assert np.abs(np.sum(velocity * targets, axis=1)).max() < 1e-12
    numerical = divergence_by_differences(lambda x: dynamics.velocity(tokens, at=x), targets)
    assert np.abs(divergence - numerical).max() < 1e-6 * np.abs(numerical).max()
    with pytest.raises(ArithmeticError, match="where its series has no digits"):
        field.rates(moments, Places.of(targets))
    # the velocity alone is the same, bit for bit, and refused where both are
    velocity, *_ = field.rates(moments, Places.of(targets), loose=True)
    assert np.array_equal(field.velocity(moments, Places.of(targets), loose=True), velocity)
    with pytest.raises(ArithmeticError, match="where its series has no digits"):
        field.velocity(moments, Places.of(targets))


@pytest.mark.parametrize(
    ("dynamics", "size", "share"),
    [
        (mf.Attention(1.0, [mf.Head(Q=MATRIX, V=MATRIX / 30.0)]), 36.0, 1e-6),
        (mf.SA(25.0), 25.0, 1e-9),
        (STEEP, 25.0, 1e-8),
    ],
    ids=["heads", "SA", "kernel"],
)
def test_the_share_of_its_largest_value_at_which_g_is_lost(dynamics, size, share):
    """G of one token is e^{-|M|(1 - cos α)} of its maximum, at an angle α from where that is."""
    pole = np.array([[0.0, 0.0, 1.0]])
    depth = field_on_sphere(dynamics)
    moments, field = depth.moments(pole, np.ones(1)), depth.during(0.0, 1.0)
    # a head with -36 looks the other way
    side = -1.0 if size == 36.0 else 1.0
    for part in 0.5, 2.0:
        cosine = 1.0 + np.log(part * share) / size
        targets = np.array([[0.0, 0.0, side], [np.sqrt(1.0 - cosine**2), 0.0, side * cosine]])
        with pytest.raises(ArithmeticError, match="no digits") if part < 1.0 else nullcontext():
            field.velocity(moments, Places.of(targets))


# ---------------------------------------------------------------- runs


@pytest.mark.slow
def test_density_has_mass_one_and_is_that_of_the_nodes():
    sol = mf.evolve(mf.FlowMap(LAW, tol=1e-7), LAYERS, 0.5, 1)
    points, weights = rule(48)
    # the mesh is laid to 1e-7 in mass, densities to ten times that
    assert sol.pdf(points, 0.5) @ weights == pytest.approx(1.0, abs=1e-6)
    flow = sol.final
    assert flow.mass() == pytest.approx(1.0, abs=1e-6)
    nodes = sol.pdf(flow.points[::97], 0.5)
    assert nodes == pytest.approx(np.exp(flow.log_density[::97]), rel=1e-6)


@pytest.mark.slow
def test_a_new_mesh_is_laid_through_the_layers_passed():
    """The density on it comes from characteristics back through the layers before."""
    layers = mf.Layers((mf.SA(4.0), TANH, mf.SA(4.0)), step=0.9)
    run = mf.evolve(mf.FlowMap(LAW, tol=1e-5), layers, 2.7, 3)
    series = mf.evolve(mf.Density(mf.Sphere(63), LAW), layers, 2.7, 1).final
    # nodes only move where no mesh is laid
    assert run.dataset["size"].values[-1] > run.dataset["size"].values[0]
    assert run.final.mass() == pytest.approx(1.0, abs=1e-5)
    assert np.abs(run.final.mean() - series.mean()).max() < 1e-5
    # nodes of a mesh are laid for errors of mass: those of a density may be ten times larger
    assert run.pdf(POINTS, 2.7) == pytest.approx(series.pdf(POINTS), rel=1e-4)


@pytest.mark.slow
def test_layers_meet_at_their_borders():
    """A density in a later layer is that of the shorter run, followed through both."""
    layers = mf.Layers([ATTENTION, TANH], step=0.2)
    whole = mf.evolve(mf.FlowMap(LAW, tol=1e-7), layers, 0.4, 1)
    first = mf.evolve(mf.FlowMap(LAW, tol=1e-7), ATTENTION, 0.2, 1)
    assert whole.pdf(POINTS, 0.2) == pytest.approx(first.pdf(POINTS, 0.2), rel=1e-7)
    # the second layer moves each point by itself: its law is the density of the first
    inverse = mf.FeedForward(-TANH.W, TANH.A, TANH.b, activation="tanh")
    back = mf.evolve(mf.Particles(POINTS), inverse, 0.2, 1, rtol=1e-12).final.points
    density = whole.pdf(POINTS, 0.4)
    shifted = first.pdf(back, 0.2)
    drift = mf.evolve(SphereFlowMap(mf.Uniform(3), tol=1e-7), TANH, 0.2, 1)
    assert density == pytest.approx(shifted * drift.pdf(POINTS, 0.2), rel=1e-6)


@pytest.mark.slow
def test_relu_has_a_closed_form():
    """X = P_x e_3 relu(c): tan(θ/2) falls like e^{-ct} everywhere."""
    drift = mf.FeedForward([[0.0], [0.0], [1.0]], [[0.0, 0.0, 0.0]], [0.6])
    sol = mf.evolve(mf.FlowMap(LAW, tol=1e-6), drift, 0.5, 1)
    grown = np.exp(0.3)
    half = np.arctan2(np.hypot(POINTS[:, 0], POINTS[:, 1]), POINTS[:, 2]) / 2
    foot = 2 * np.arctan(np.tan(half) * grown)
    slope = grown / (np.cos(half) ** 2 + grown**2 * np.sin(half) ** 2)
    ring = POINTS[:, :2] / np.sin(2 * half)[:, None]
    feet = np.column_stack([ring * np.sin(foot)[:, None], np.cos(foot)])
    expected = LAW.pdf(feet) * slope * np.sin(foot) / np.sin(2 * half)
    assert sol.pdf(POINTS, 0.5) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_a_saved_run_knows_its_density(tmp_path):
    sol = mf.evolve(mf.FlowMap(LAW, tol=1e-4), LAYERS, 0.3, 1)
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    for t in 0.1, 0.125, 0.3:
        assert np.array_equal(sol.pdf(POINTS, t), again.pdf(POINTS, t))
    assert np.array_equal(again.final.points, sol.final.points)
    assert set(again.dataset) == set(sol.dataset)


def test_what_can_not_be_run_is_refused():
    flow = mf.FlowMap(LAW, tol=1e-4)
    with pytest.raises(ValueError, match=r"beta \|KᵀQ\| must be <= 40 .* got 41"):
        mf.evolve(flow, mf.Layers([mf.SA(1.0), mf.SA(41.0)]), 1.0)
    moved = mf.evolve(flow, TANH, 0.1, 1).final
    with pytest.raises(ValueError, match="measure must be a flow map at t = 0"):
        mf.evolve(moved, TANH, 0.1)


@pytest.mark.slow
def test_a_flow_map_about_an_axis_loses_it_where_the_heads_have_none():
    """Three representations of one law, which only matrices without its axis tell apart."""
    law = mf.VonMisesFisher([0.48, 0.6, 0.64], 1.5)
    attention = mf.Attention(1.0, heads(5, size=0.5))
    moved = mf.evolve(mf.FlowMap(law), attention, 0.2, 1).final
    series = mf.evolve(mf.Density(mf.Sphere(31), law), attention, 0.2, 1).final
    assert isinstance(moved, mf.measures.SphereFlowMap)
    assert np.abs(moved.mean() - series.mean()).max() < 3e-9
    # those of a later time have no way back to the law
    late = mf.evolve(mf.FlowMap(law), mf.SA(1.0), 0.2, 1).final
    with pytest.raises(ValueError, match="must be a multiple of the identity along the axis"):
        mf.evolve(late, attention, 0.2, 1)
