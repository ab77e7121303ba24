"""W_1 and W_2 of flow maps on S^2, which a density, their nodes or particles stand for."""

import numpy as np
import pytest

import meanfield as mf
from tests.functionals.drawn import TILTED


def two_bumps(kappa):
    return mf.Mixture([mf.VonMisesFisher(TILTED, kappa), mf.VonMisesFisher([1.0, 0.0, 0.0], 2.0)])


def with_three_particles(apart):
    """A mesh of which three particles are left, two of them so far from the axis on both sides."""
    points = np.array([[apart, 0.0, 1.0], [-apart, 0.0, 1.0], [0.0, 1.0, 0.0]])
    points /= np.linalg.norm(points, axis=1)[:, None]
    shares, logs = np.array([0.3, 0.3, 0.4]), np.full(3, np.inf)
    mesh = nearly_round(2.0, 1e-3)
    return mesh.moved_to(1.0, points=points, weights=shares, log_density=logs)


@pytest.mark.slow
@pytest.mark.parametrize(("kappa", "tol"), [(2.0, 1e-5), (2.0, 1e-9), (20.0, 1e-5), (20.0, 1e-9)])
def test_a_density_stands_for_a_mesh(kappa, tol):
    """Its error in W_1 is below its estimate, which is of the size of the error."""
    law = two_bumps(kappa)
    flow, density = mf.FlowMap(law, tol=tol), mf.Density(mf.Sphere(63), law)
    series, off = flow.for_transport(1.0)
    # W_1 is at most the norm of H^{-1}
    missed = mf.sobolev(series, density)
    assert 0.0 < missed <= off < 10.0 * (missed + tol)
    # what is beyond the last degree counts
    assert kappa == 2.0 or missed > 100.0 * 1e-9
    apart = mf.wasserstein(flow, density)
    assert apart.lower == 0.0
    assert apart.upper <= (missed + off) * (1.0 + 1e-9)
    assert not apart.proved
    uniform = mf.Density(mf.Sphere(31), mf.Uniform(3))
    ours, theirs = mf.wasserstein(flow, uniform), mf.wasserstein(density, uniform)
    assert ours.lower + off <= theirs.upper
    assert theirs.lower <= ours.upper - off + missed
    # both flows are those of attempts that end within a gap of 1e-2
    assert ours.upper == pytest.approx(theirs.upper, rel=2e-3)
    assert theirs.proved
    assert not ours.proved


def test_meshes_near_to_each_other():
    """The value is that of the densities, also where `off` leaves little of it."""

    def turned(angle):
        cos, sin = np.cos(angle), np.sin(angle)
        bumps = [mf.VonMisesFisher([cos, sin, 0.0], 3.0), mf.VonMisesFisher([0.0, sin, cos], 2.0)]
        return mf.Mixture(bumps)

    def mesh(angle):
        return mf.FlowMap(turned(angle), tol=3e-4)

    off = 2.0 * mesh(0.0).for_transport(1.0)[1]
    for angle, least in (1e-3, 0.0), (0.01, off), (0.015, off):
        theirs = mf.wasserstein(*(mf.Density(mf.Sphere(31), turned(a)) for a in (0.0, angle)))
        assert least <= theirs.lower <= theirs.upper < 10.0 * off
        ours = mf.wasserstein(mesh(0.0), mesh(angle))
        assert abs(ours.value - theirs.value) < off
        assert ours.value > 0.5 * theirs.value
        assert ours.lower <= theirs.upper
        assert theirs.lower <= ours.upper < theirs.upper + 3.0 * off
        assert (ours.lower > 0.0) == (least > 0.0)
        assert not ours.proved
    for p in 1, 2:
        same = mf.wasserstein(mesh(0.0), mesh(0.0), p)
        assert same.lower == same.upper == 0.0
        assert same.proved


def test_a_density_stands_for_a_mesh_with_the_symmetry_of_an_icosahedron():
    """Degrees 1 to 5, 7 to 9, 13 and 14 are empty, and the series goes on."""
    golden = 0.5 * (1.0 + np.sqrt(5.0))
    some = np.array([[0.0, a, b * golden] for a in (1.0, -1.0) for b in (1.0, -1.0)])
    corners = np.concatenate([np.roll(some, k, axis=1) for k in range(3)])
    law = mf.Mixture([mf.VonMisesFisher(x / np.linalg.norm(x), 18.0) for x in corners])
    flow, density = mf.FlowMap(law, tol=1e-6), mf.Density(mf.Sphere(63), law)
    series, off = flow.for_transport(1.0)
    assert mf.sobolev(series, density) <= off < 1e-5
    bracket = mf.wasserstein(flow, density, budget=1)
    assert bracket.lower == 0.0
    assert bracket.upper <= 3.0 * off


@pytest.mark.parametrize("p", [1, 2])
def test_a_mesh_beside_a_token(p):
    """The nodes are a quadrature."""
    law = two_bumps(2.0)
    density, token = mf.Density(mf.Sphere(47), law), mf.Particles([[0.0, 0.0, 1.0]])
    theirs = float(mf.wasserstein(density, token, p))
    for tol in 1e-2, 1e-9:
        flow = mf.FlowMap(law, tol=tol)
        ours = mf.wasserstein(flow, token, p)
        # any mesh resolves the law far better than a kink of dist
        assert float(ours) == pytest.approx(theirs, abs=1e-5)
        assert ours.lower < theirs < ours.upper
        assert not ours.proved
        # dist² has a kink opposite to the token, in a patch with a hundredth of the mass
        assert ours.upper - ours.lower < max(20.0 * tol, 1e-3)


def nearly_round(kappa, tol, height=1.0):
    """A mesh of a law that is symmetric about the axis but for 1e-9, which it does not tell."""
    axis = np.array([0.0, 0.0, height])
    bumps = [mf.VonMisesFisher(x, kappa) for x in (axis, [1e-9, 0.0, height])]
    return mf.FlowMap(mf.Mixture(bumps), tol=tol)


def round_law(kappa, height=1.0):
    return mf.VonMisesFisher([0.0, 0.0, height], kappa)


@pytest.mark.slow
def test_w2_of_meshes_has_an_honest_width():
    """The distance of polar angles lies within, and the nodes alone miss it."""
    laws = {height: round_law(2.0 if height < 0.0 else 2.5, height) for height in (1.0, -1.0)}
    about, mesh = mf.FlowMap(round_law(2.0)), nearly_round(2.0, 1e-3)
    truths = {height: float(mf.wasserstein(about, mf.FlowMap(laws[height]), 2)) for height in laws}
    ours = mf.wasserstein(mesh, nearly_round(2.5, 1e-3), 2)
    assert ours.lower < truths[1.0] < ours.upper
    assert not ours.proved
    # the law is off by 1e-9, clouds are matched to 1e-12
    assert abs(ours.value - truths[1.0]) > 1e-4
    # both have nodes some 0.04 apart
    assert 0.02 < ours.upper - ours.value < 0.1
    for height, law in laws.items():
        beside = mf.wasserstein(mesh, mf.Density(mf.Sphere(31), law), 2, gap=0.1)
        assert beside.lower < truths[height] < beside.upper
        assert not beside.proved


def test_w2_of_a_mesh_and_tokens_has_an_honest_width():
    """The bracket holds that of a density of the same law, which is proven."""
    tokens = mf.Particles.sample(round_law(4.0), 40, 1)
    theirs = mf.wasserstein(mf.Density(mf.Sphere(31), round_law(2.0)), tokens, 2)
    ours = mf.wasserstein(nearly_round(2.0, 1e-6), tokens, 2)
    assert theirs.proved
    assert ours.lower < theirs.lower < theirs.upper < ours.upper
    assert not ours.proved


@pytest.mark.slow
def test_how_far_nodes_are_from_their_measure():
    """Against proven brackets of the nodes and the density, where the flow has drawn them."""
    flow = mf.evolve(nearly_round(2.0, 1e-4), mf.SA(2.0), 1.0, 1).final
    series, off = flow.for_transport(1.0)
    nodes, spacing = flow.for_transport(2.0)
    apart = mf.wasserstein(nodes, series, 2, gap=0.05)
    assert apart.proved
    # W_2 of nodes to their own measure is at most that of the plan that it is an estimate of
    assert apart.lower - off < spacing < 1.1 * apart.upper


def test_a_halved_patch_halves_what_nodes_are_off():
    flow = nearly_round(2.0, 1e-3)
    coarse = flow._spacing(2.0)
    assert flow._spacing(1.0) < coarse < flow._spacing(20.0)
    # level 1 to level 2, in parts of equal size but for the corners of the cube
    fine = flow.resolve(20.0)._spacing(2.0)
    assert fine == pytest.approx(0.5 * coarse, rel=0.03)


def test_nodes_at_one_place_are_no_estimate_apart():
    """A cluster that is held as particles is as wide as the space between them."""
    held = with_three_particles(1e-3)
    # two stand for 0.6 of the mass, 2e-3 apart; one has no other beside it
    assert held._spacing(2.0) == pytest.approx(2e-3 * np.sqrt(0.6), rel=1e-5)
    token = mf.Particles([[0.0, 1.0, 0.0]])
    assert mf.wasserstein(held, token, 2).value == pytest.approx(
        0.5 * np.pi * np.sqrt(0.6), rel=1e-5
    )


@pytest.mark.parametrize("particles", [100, None])
def test_a_mesh_with_particles_beside_a_token(particles):
    """No density stands for particles, which may carry all of the mass."""
    law = two_bumps(2.0)
    flow = mf.FlowMap(law, tol=1e-3)
    logs = flow.log_density.copy()
    logs[-(particles or len(logs)) :] = np.inf
    flow = flow.moved_to(1.0, points=flow.points, weights=flow.weights, log_density=logs)
    token = mf.Particles([[0.0, 0.0, 1.0]])
    nodes = mf.Particles(flow.points, flow.weights, unit_mass=True)
    assert float(mf.wasserstein(flow, token)) == float(mf.wasserstein(nodes, token))


@pytest.fixture(scope="module")
def clusters():
    """A cluster that particles hold on S², and the same one about its axis."""
    flows = nearly_round(5.0, 1e-8), mf.FlowMap(round_law(5.0))
    held, about = (mf.evolve(flow, mf.SA(4.0), 4.0, 1).final for flow in flows)
    assert held.weights[held.n_nodes :].sum() > 0.99
    return held, about


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 1.5, 2])
@pytest.mark.parametrize("tilt", [0.0, 0.02, 0.4, 0.5 * np.pi, np.pi])
def test_particles_beside_a_token_in_their_cluster(clusters, tilt, p):
    """dist has a kink at the token, and at its antipode, which no moments of particles tell."""
    held, about = clusters
    token = np.array([np.sin(tilt), 0.0, np.cos(tilt)])
    turn = 2.0 * np.pi * (np.arange(2000) + 0.5) / 2000
    points, masses = about.quadrature
    along, across = points[:, 2:], np.hypot(*points[:, :2].T)[:, None]
    around = np.stack([across * np.cos(turn), across * np.sin(turn), along + 0.0 * turn], axis=-1)
    # half the chord tells small angles
    angles = 2.0 * np.arcsin(0.5 * np.linalg.norm(around - token, axis=-1).clip(max=2.0))
    truth = float(masses @ (angles**p).mean(axis=1)) ** (1.0 / p)
    ours = mf.wasserstein(held, mf.Particles(token[None]), p)
    assert ours.lower < truth < ours.upper
    # the cluster is 0.02 wide
    assert ours.upper - ours.lower < (2e-2 if abs(np.sin(tilt)) < 0.1 else 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("height", [1.0, -1.0])
def test_w1_of_a_drawn_mesh_and_a_token(height):
    """The density with its moments is negative somewhere, and mass of it would count elsewhere."""
    flows = nearly_round(5.0, 1e-6), mf.FlowMap(round_law(5.0))
    drawn, about = (mf.evolve(flow, mf.SA(4.0), 1.0, 1).final for flow in flows)
    token = mf.Particles([[0.0, 0.0, height]])
    ours, truth = mf.wasserstein(drawn, token), float(mf.wasserstein(about, token))
    assert drawn._series is not None
    assert ours.lower < truth < ours.upper
    # any mesh resolves the law far better than a kink of dist
    assert float(ours) == pytest.approx(truth, abs=1e-5)
    with pytest.raises(ValueError, match="budget must be None"):
        mf.wasserstein(drawn, token, budget=1)


def test_particles_miss_what_no_polynomial_meets():
    """By hand: two particles have a mean, and one has none to be off from."""
    held = with_three_particles(0.1)
    # twice the mass times half of what values differ by, and the tolerance
    missed = held.unresolved_share(np.array([0.2, 0.5, 7.0]), np.array([[0.0, 0.0, 1.0]]))
    assert missed == pytest.approx(2.0 * 0.6 * 0.15 + 7e-3, rel=1e-12)
