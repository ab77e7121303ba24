"""Flow maps: panels, agreement with densities, concentration, atoms, and what a run keeps."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield.spaces.geometry import circle_points
from tests.handmade import scaled_dissipation, slow, unfinished
from tests.properties import examples

EPS = np.finfo(float).eps
LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])


def balance(sol):
    """The largest gap of E(t) - E(0) = ∫ dissipation."""
    energy, work = sol.dataset.energy.values, sol.dataset.work.values
    return np.max(np.abs(energy - energy[0] - work))


# ---------------------------------------------------------------- panels


def test_a_narrow_peak_is_found():
    """Between the first panels' nodes no one sees it: its missing mass tells."""
    law = mf.VonMisesFisher(circle_points([0.3])[0], 1e6)
    mu = mf.FlowMap(law)
    assert mu.mass() == pytest.approx(1, abs=4 * EPS)
    assert np.linalg.norm(mu.mean()) == pytest.approx(1 - 0.5e-6, abs=1e-9)


def test_a_bump_of_next_to_no_mass_is_found():
    """1e-10 of the mass, 1e-3 wide, between the first nodes: the mass tells, at 1e-12."""
    centre = circle_points(np.array([1.234]))[0]
    bump = mf.VonMisesFisher(centre, 1e6)
    law = mf.Mixture([mf.Uniform(2), bump], [1 - 1e-10, 1e-10])
    assert mf.FlowMap(law).mean() @ centre == pytest.approx(1e-10, rel=1e-4)


class Own:
    """A user's own law."""

    dim = 2

    def __init__(self, pdf):
        self.pdf = pdf

    def sample(self, n, rng):
        raise NotImplementedError


def test_a_law_whose_own_mass_is_off_is_taken():
    # a run is to 1e-9: less than that is divided out
    own = mf.FlowMap(Own(lambda x: (1.0 + 1e-10) * LAW.pdf(x)))
    assert len(own.edges) == len(mf.FlowMap(LAW).edges)
    with pytest.raises(ValueError, match="law must be a probability density"):
        mf.FlowMap(Own(lambda x: (1.0 + 1e-8) * LAW.pdf(x)))


def test_a_law_with_a_jump_is_refused():
    with pytest.raises(ValueError, match=r"law must be .* that 1600 nodes resolve"):
        mf.FlowMap(Own(lambda x: np.where(x[:, 0] > 0.1234, 2.0, 0.0) * 1.0857), max_nodes=1600)


@pytest.mark.parametrize("tilt", [1e-8, 1e-7, 1e-5])
def test_axes_that_nearly_are_one(tilt):
    """Two: neither is one about which the law is symmetric."""
    tilted = np.array([np.sin(tilt), 0.0, np.cos(tilt)])
    law = mf.Mixture([mf.VonMisesFisher(axis, 10.0) for axis in ([0.0, 0.0, 1.0], tilted)])
    flow = mf.FlowMap(law, tol=1e-7)
    assert type(flow).__name__ == "SphereFlowMap"
    # the mean is tilted by half of it; the mesh is right to 1e-8
    exact = mf.VonMisesFisher([0.0, 0.0, 1.0], 10.0)
    assert np.abs(flow.mean() - mf.FlowMap(exact).mean()).max() < tilt + 1e-7
    opposite = mf.Mixture([mf.VonMisesFisher([0.0, 0.0, s], 10.0) for s in (1.0, -1.0)])
    assert type(mf.FlowMap(opposite)).__name__ == "LineFlowMap"


# ---------------------------------------------------------------- steep drifts


def bump(dim, width, activation):
    """∇v of a plateau of this half-width where a coordinate is 0.3."""
    along = circle_points([0.7])[0] if dim == 2 else np.eye(dim)[-1 if dim > 3 else 0]
    inner, shifts = [along / width] * 2, [1.0 - 0.3 / width, -1.0 - 0.3 / width]
    weights = [0.3 * width, -0.3 * width]
    return mf.FeedForward.from_potential(weights, inner, shifts, activation=activation)


STEEP_LAWS = {
    2: mf.VonMisesFisher([0.0, 1.0], 2.0),
    3: mf.Mixture(
        [mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0), mf.VonMisesFisher([0.0, 1.0, 0.0], 1.5)]
    ),
    5: mf.VonMisesFisher(np.eye(5)[-1], 2.0),
}


@pytest.mark.parametrize(
    ("dim", "width"),
    [(2, 0.08), (2, 0.05), (5, 0.05), (3, 0.3), slow(3, 0.15), slow(3, 0.08), slow(2, 1e-3)],
)
@pytest.mark.parametrize("activation", ["tanh", "gelu"])
@pytest.mark.parametrize("beside", [False, True])
def test_a_steep_drift_keeps_its_balance(dim, width, activation, beside):
    """Sums over nodes gain what the work says, so what a split or a new mesh changes is seen."""
    drift = bump(dim, width, activation)
    dynamics = mf.SA(4.0) + drift if beside else drift
    data = mf.evolve(mf.FlowMap(STEEP_LAWS[dim]), dynamics, 0.5, 2).to_dataset()
    # S^2: 1e-9 of the mesh, of which a patch may miss 1e-3, and later a hundred times that
    tolerance = 1e-10 if dim == 3 else 1e-12
    assert np.abs(data.balance_error).max() < tolerance
    if beside:
        assert np.abs(data.term_balance_error).max() < tolerance


@pytest.mark.parametrize("dim", [2, 5])
@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_a_density_moves_as_a_flow_map_under_a_steep_drift(dim, activation):
    dynamics = mf.SA(2.0) + bump(dim, 0.15, activation)
    space = mf.Circle(256) if dim == 2 else mf.Zonal(5, 255)
    dense = mf.evolve(mf.Density(space, STEEP_LAWS[dim]), dynamics, 0.5, 1, on_unresolved="stop")
    flow = mf.evolve(mf.FlowMap(STEEP_LAWS[dim]), dynamics, 0.5, 1)
    assert (dense.status, type(dense.final)) == ("finished", mf.Density)
    z = 3.0 * np.eye(dim)
    one, other = (sol.final.log_moment(z)[0] for sol in (dense, flow))
    assert np.abs(one - other).max() < 1e-8


@pytest.mark.parametrize("dim", STEEP_LAWS)
@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_numbers_of_a_steep_drift_are_those_of_a_density(dim, activation):
    """Of a law, whose own nodes are too far apart."""
    space = {2: mf.Circle(64), 3: mf.Sphere(31), 5: mf.Zonal(5, 31)}[dim]
    pair = mf.FlowMap(STEEP_LAWS[dim]), mf.Density(space, STEEP_LAWS[dim])
    for number in mf.energy, mf.dissipation:
        one, other = (number(measure, bump(dim, 0.1, activation)) for measure in pair)
        assert one == pytest.approx(other, rel=1e-9 if dim == 3 else 1e-11)


def test_a_drift_between_all_nodes_is_found():
    """Its half-width is 1e-5, and the nodes of the law are 5e-3 apart at least."""
    drift, width = bump(2, 1e-5, "tanh"), 1e-5
    angles = 0.7 + np.arccos(0.3) + np.array([-40.0, 40.0]) * width
    flow, fine = mf.FlowMap(mf.Uniform(2)), np.linspace(*angles, 20001)
    slope = np.einsum(
        "ij,ij->i", circle_points(fine + np.pi / 2), drift.output(None, circle_points(fine))
    )
    # the other edge of the bump has as much
    expected = 2.0 * np.trapezoid(slope**2, fine) / (2.0 * np.pi)
    assert mf.dissipation(flow, drift) == pytest.approx(expected, rel=1e-6)
    assert len(flow.resolve(0.0, drift.steepness).angles) < 3000


def test_what_has_no_smooth_drift_keeps_its_nodes():
    flow = mf.FlowMap(LAW)
    for dynamics in mf.SA(4.0), mf.Layers([mf.USA(1.0), mf.SA(1.0)]), bump(2, 0.05, "relu"):
        assert dynamics.steepness is None
        assert flow.resolve(0.0, dynamics.steepness) is flow


def test_a_drift_that_takes_too_many_nodes():
    law, drift = STEEP_LAWS[2], bump(2, 0.02, "tanh")
    with pytest.raises(ValueError, match="dynamics must have a drift that 300 nodes resolve for"):
        mf.evolve(mf.FlowMap(law, max_nodes=300), drift, 0.1)
    ended = unfinished(mf.evolve, mf.FlowMap(law, max_nodes=700), mf.SA(1.0) + drift, 3.0)
    assert ended.status == "under-resolved"
    assert "nodes, more than the 700 allowed" in ended.message
    flow = mf.FlowMap(STEEP_LAWS[3], max_nodes=5000)
    with pytest.raises(ValueError, match="5000 nodes do not resolve the density and the drift to"):
        mf.evolve(flow, bump(3, 0.05, "tanh"), 0.1)


# ---------------------------------------------------------------- long z


def log_moment_of_sigma(dim, length):
    """log of Γ(d/2) (2/r)^{d/2-1} I_{d/2-1}(r)."""
    with mpmath.workdps(30):
        order, r = mpmath.mpf(dim) / 2 - 1, mpmath.mpf(length)
        factor = mpmath.loggamma(order + 1) + order * mpmath.log(2 / r)
        return float(factor + mpmath.log(mpmath.besseli(order, r)))


@pytest.mark.parametrize("dim", [3, 10, 50, 150])
@pytest.mark.parametrize("length", [1.0, 150.0, 400.0, 1e3, slow(1e4), slow(1e5)])
@pytest.mark.parametrize("angle", [0.0, 0.7, np.pi / 2])
def test_log_moment_is_right_where_there_is_next_to_no_mass(dim, length, angle):
    """In 50 dimensions G(1000 e) is made within 0.3 of the pole, where 1e-28 of the mass is."""
    flow = mf.FlowMap(mf.Uniform(dim), axis=np.eye(dim)[0])
    z = length * (np.cos(angle) * np.eye(dim)[:1] + np.sin(angle) * np.eye(dim)[1:2])
    # off the axis each latitude takes nodes of its own, of which there may be 5e7 in all
    if angle > 0.0 and (length == 1e5 or (length == 1e4 and dim >= 50)):
        with pytest.raises(ValueError, match=r"z must be shorter for .* rows of lengths up to 1"):
            flow.log_moment(z)
        return
    (found,), _ = flow.log_moment(z)
    # rounding of masses, and of exponents of size r
    assert found == pytest.approx(log_moment_of_sigma(dim, length), rel=1e-12)


def test_log_moment_in_the_tail_of_a_law():
    """On the circle vMF(300 e) is 1e-260 opposite to e, and z = -290 e makes it vMF(10 e)."""
    flow = mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], 300.0))
    lengths = np.array([-290.0, -500.0, 300.0])
    found, _ = flow.log_moment(np.outer(lengths, [1.0, 0.0]))
    sums = np.array([log_moment_of_sigma(2, abs(300.0 + length)) for length in lengths])
    np.testing.assert_allclose(found, sums - log_moment_of_sigma(2, 300.0), rtol=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 8])
@pytest.mark.parametrize("kappa", [400.0, slow(1e3)])
def test_log_moment_where_the_law_is_too_small_for_a_float(dim, kappa):
    """Opposite to m the law has e^{-2κ} of its peak, and z = -κ m + 20 e makes it vMF(20 e)."""
    pole, across = np.eye(dim)[:2]
    flow = mf.FlowMap(mf.VonMisesFisher(pole, kappa))
    z = np.outer([-1.0, -1.5, -0.9], kappa * pole) + np.outer([20.0, 0.0, 20.0], across)
    found, mean = flow.log_moment(z)
    tilted = kappa * pole + z
    lengths = np.linalg.norm(tilted, axis=1)
    sums = np.array([log_moment_of_sigma(dim, length) for length in lengths])
    # rounding of exponents of size κ, a few times
    tol = 20.0 * EPS * kappa
    np.testing.assert_allclose(found, sums - log_moment_of_sigma(dim, kappa), rtol=0, atol=tol)
    # A_d(|κm + z|) in the direction of κm + z, by a difference of log Λ_0
    steps = 1e-3 * np.array([1.0, -1.0])
    slopes = [
        np.diff([log_moment_of_sigma(dim, abs(length - step)) for step in steps])[0] / 2e-3
        for length in lengths
    ]
    directions = tilted / lengths[:, None]
    # third derivatives of log Λ_0 are below 1
    np.testing.assert_allclose(mean, np.array(slopes)[:, None] * directions, rtol=0, atol=1e-6)


def test_density_at_nodes_is_known_where_it_is_too_small_for_a_float():
    flow = mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], 400.0))
    exact = 400.0 * np.cos(flow.angles) - log_moment_of_sigma(2, 400.0)
    assert exact.min() < -790.0
    np.testing.assert_allclose(flow.log_density, exact, rtol=0, atol=20.0 * EPS * 400.0)


def test_a_logpdf_that_is_not_that_of_its_pdf_is_refused():
    class Half(mf.VonMisesFisher):
        """The parent's logpdf, with a pdf of its own."""

        def pdf(self, points):
            return super().pdf(points) * (1.0 + np.tanh(np.asarray(points)[:, 1]))

    flow = mf.FlowMap(Half([1.0, 0.0], 400.0))
    with pytest.raises(ValueError, match="law must have a logpdf that is log of its pdf"):
        flow.log_moment([[-400.0, 0.0]])


def test_log_moment_in_the_tail_of_two_bumps():
    """Without an axis patches reach far enough, or say that they do not."""
    bumps = [mf.VonMisesFisher(mean, 100.0) for mean in np.eye(3)[1:]]
    flow = mf.FlowMap(mf.Mixture(bumps), tol=1e-3)
    z = np.array([[0.0, -100.0, -100.0], [-150.0, 0.0, 0.0]])
    parts = [
        [log_moment_of_sigma(3, np.linalg.norm(100.0 * bump.mean + row)) for bump in bumps]
        for row in z
    ]
    exact = np.logaddexp(*np.transpose(parts)) - np.log(2.0) - log_moment_of_sigma(3, 100.0)
    # what 10 × 10 nodes miss of e^{β<x,y>}
    np.testing.assert_allclose(flow.log_moment(z)[0], exact, rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match=r"beta, the length of z, .* must be smaller"):
        flow.log_moment(2.0 * z)


def test_z_that_takes_too_many_nodes():
    flow = mf.FlowMap(mf.Uniform(150), axis=np.eye(150)[0])
    with pytest.raises(ValueError, match=r"z must be shorter for .* nodes > 50000000"):
        flow.log_moment(1e5 * np.eye(150)[1:2])


# ---------------------------------------------------------------- against densities


def agree(flow, dense, beta, at, tol):
    """Energy, dissipation and velocity of a flow map and of a density, relative."""
    assert flow.weights.size < 3000
    # the square of USA's velocities overflows beyond
    for dynamics in (mf.SA(beta), mf.USA(min(beta, 300.0))):
        pair = [scaled_dissipation(m, dynamics) for m in (flow, dense)]
        assert pair[0] == pytest.approx(pair[1], rel=tol, abs=0)
        velocities = [dynamics.velocity(m, at=at) for m in (flow, dense)]
        assert np.allclose(*velocities, rtol=0, atol=tol * np.abs(velocities[1]).max())
    pair = [mf.energy_share(m, beta) for m in (flow, dense)]
    assert pair[0] == pytest.approx(pair[1], rel=tol, abs=0)


@pytest.mark.parametrize(
    "beta",
    [
        30.0,
        150.0,
        slow(700.0),
        slow(3000.0),
    ],
)
def test_a_sharp_kernel_is_resolved_on_the_circle(beta):
    """The law's own nodes are 0.05 apart, the kernel is β^{-1/2} wide."""
    # exponents of size β are rounded by β eps, and the velocity is a difference of such
    agree(
        mf.FlowMap(LAW), mf.Density(mf.Circle(64), LAW), beta, circle_points(np.arange(6.0)), 1e-10
    )


@pytest.mark.slow
def test_a_sharp_kernel_is_resolved_about_an_axis():
    law, at = mf.ZonalSeries(5, [0.5]), mf.Uniform(5).sample(5, np.random.default_rng(0))
    pair = [
        mf.SA(2000.0).velocity(m, at) for m in (mf.FlowMap(law), mf.Density(mf.Zonal(5, 7), law))
    ]
    assert np.allclose(*pair, rtol=0, atol=1e-9 * np.abs(pair[1]).max())


@pytest.mark.parametrize("beta", [30.0, slow(120.0)])
def test_a_sharp_kernel_is_resolved_on_the_sphere(beta):
    axes = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    law = mf.Mixture([mf.VonMisesFisher(axis, 1.0) for axis in axes])
    at = mf.Uniform(3).sample(5, np.random.default_rng(0))
    # the tolerance of the mesh is 1e-9 in mass
    agree(mf.FlowMap(law), mf.Density(mf.Sphere(40), law), beta, at, 1e-8)


def test_a_flow_that_has_moved_is_resolved_too():
    """Its panels are split where they stand, with the masses of the law."""
    flow = mf.evolve(mf.FlowMap(LAW), mf.SA(2.0), 0.7, 1).final
    dense = mf.evolve(mf.Density(mf.Circle(256), LAW), mf.SA(2.0), 0.7, 1, rtol=1e-12).final
    agree(flow, dense, 300.0, circle_points(np.arange(6.0)), 1e-7)


@pytest.mark.slow
def test_a_kernel_that_no_nodes_resolve_is_refused():
    bumps = [mf.VonMisesFisher(axis, 1.0) for axis in np.eye(3)[:2]]
    flow = mf.FlowMap(mf.Mixture(bumps), tol=1e-6)
    with pytest.raises(
        ValueError, match=r"beta, .* must be smaller for .* got 1e\+08, which takes"
    ):
        mf.energy_share(mf.FlowMap(LAW), 1e8)
    with pytest.raises(
        ValueError, match=r"beta, .* must be smaller for .* got 400: limit = 1000000"
    ):
        mf.SA(400.0).velocity(flow, at=np.eye(3))
    moved = mf.evolve(flow, mf.SA(2.0), 0.3, 1).final
    assert mf.energy(moved, 4.0) > 0
    for call in (mf.energy, lambda m, beta: mf.dissipation(m, mf.SA(beta))):
        with pytest.raises(ValueError, match=r"beta, .* must be <= 1\d.* at t = 0.3.* got 100"):
            call(moved, 100.0)


@pytest.mark.slow
def test_a_beta_beyond_memory_is_refused_before_work_starts():
    """At 10^6 nodes and tables would take tens of gigabytes."""
    flow = mf.FlowMap(LAW)
    for dynamics in mf.SA(1e6), mf.DoublyStochastic(1e6):
        with pytest.raises(ValueError, match=r"beta, .* got 1e\+06, which takes .* > 200000"):
            mf.evolve(flow, dynamics, 1.0)
    with pytest.raises(ValueError, match=r"beta, .* must be <= 20000 .* got 100000: take"):
        mf.evolve(mf.FlowMap(LAW, max_nodes=1 << 22), mf.SA(1e5), 1.0)


@pytest.fixture(scope="module")
def clustering():
    """A run until its clusters are held as atoms."""
    return mf.evolve(mf.FlowMap(LAW), mf.SA(4.0), 40.0, [*range(1, 9), 40])


@pytest.mark.slow
def test_density_at_nodes_is_the_density_there(clustering):
    flow = clustering.measures[2]
    error = clustering.pdf(flow.points, 2.0) / np.exp(flow.log_density) - 1
    # positions and densities are right by mass: the sum is what the tolerance bounds
    assert flow.weights @ np.abs(error) < 20 * flow.tol
    assert flow.entropy() > 0.3


@pytest.mark.slow
def test_density_has_mass_one_at_any_time(clustering):
    points = circle_points(2 * np.pi / 1024 * np.arange(1024))
    for t in np.random.default_rng(3).uniform(0, 3.5, 10):
        f = clustering.pdf(points, t)
        assert f.max() > f.min() >= 0
        # the trapezoidal rule, of a density whose nodes are laid to 1e-12
        assert f.mean() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("t", [-1.0, 40.1, np.nan])
def test_density_outside_the_run_is_refused(clustering, t):
    with pytest.raises(ValueError, match="t must be a finite number"):
        clustering.pdf([[1.0, 0.0]], t)


# ---------------------------------------------------------------- reference runs


@pytest.mark.parametrize("dim", [2, 3])
def test_a_symmetric_start_stays_symmetric(dim):
    law = mf.FourierSeries(cos=[0.5]) if dim == 2 else mf.ZonalSeries(3, [0.0, 0.5])
    sol = mf.evolve(mf.FlowMap(law), mf.SA(2.0), 5.0, 5)
    for mu in sol.measures:
        across = [mu.mean()[1], 0.0] if dim == 2 else mu.mean()
        assert np.max(np.abs(across)) < 1e-12


# ---------------------------------------------------------------- atoms


def atoms(angles, masses=None):
    return mf.FlowMap(mf.PointCloud(circle_points(np.asarray(angles)), masses, unit_mass=True))


def test_forces_between_far_clusters_keep_their_digits():
    """Of relative size e^{-40}: hidden beside the force within a cluster, but not here."""
    mu = atoms([0.0, np.pi / 2], [0.25, 0.75])
    sol = mf.evolve(mu, mf.SA(40.0), 1.0, 1)
    rate = scaled_dissipation(mu, mf.SA(40.0))
    # Σ a X² G with X = -(1-a)/a e^{-β} and G ~ a e^β
    a = np.array([0.25, 0.75])
    expected = np.sum(a * ((1 - a) / a * np.exp(-40.0)) ** 2 * a)
    assert rate == pytest.approx(expected, rel=1e-13)
    assert float(sol.dataset.work[-1]) > 0


@pytest.mark.slow
def test_atoms_across_the_seam():
    """Clusters at angle 0 hold labels of both ends of the line."""
    sol = mf.evolve(mf.FlowMap(mf.FourierSeries(cos=[0.9])), mf.SA(1.0), 60.0, 2)
    assert sol.status == "clustered"
    assert np.abs(sol.final.atoms.centres - [1.0, 0.0]).max() < 1e-8
    assert np.ptp(sol.final.angles) == pytest.approx(2 * np.pi)


def test_atoms_are_clusters():
    cloud = mf.PointCloud([[0.0, 1.0], [1.0, 0.0]], weights=[0.25, 0.75])
    atoms = mf.FlowMap(cloud).atoms
    assert atoms.masses == pytest.approx([0.75, 0.25])
    assert atoms.centres == pytest.approx(np.eye(2), abs=1e-15)
    assert atoms.radii.tolist() == [0.0, 0.0]
    assert len(mf.FlowMap(LAW).atoms) == 0


def test_a_tight_law_is_an_atom_after_a_step():
    law = mf.VonMisesFisher(circle_points([1.0])[0], 1e6)
    sol = mf.evolve(mf.FlowMap(law, atom_radius=1e-2), mf.SA(1.0), 20.0, 1)
    assert sol.status == "clustered"
    assert sol.final.atoms.centres == pytest.approx(circle_points([1.0]), abs=1e-12)
    # held after a step, a cluster of variance v = 1e-6 e^{-2t} gains β v e^β/2, which is recorded
    variance = 1e-6 * np.exp(-2.0 * float(sol.dataset.collapse_time[0]))
    assert float(sol.dataset.adaptation[-1]) == pytest.approx(0.5 * np.e * variance, rel=1e-5)


# ---------------------------------------------------------------- rates near the end


@pytest.mark.slow
@pytest.mark.parametrize(("dynamics", "rate"), [(mf.SA(1.0), 1.0), (mf.USA(1.0), np.e)])
def test_a_label_nears_the_limit_at_the_rate_of_the_linearisation(dynamics, rate):
    law = mf.VonMisesFisher([1.0, 0.0], 5.0)
    times = np.array([8.0, 11.0]) / rate
    sol = mf.evolve(mf.FlowMap(law), dynamics, times[1], times)
    near = [mu.angles[np.argmin(np.abs(mu._labels - 0.3))] for mu in sol.measures[1:]]
    assert 0 < near[1] < near[0] < 1e-2
    # mass that has not arrived yet slows it by its share
    assert np.log(near[0] / near[1]) / (times[1] - times[0]) == pytest.approx(rate, rel=2e-2)


# ---------------------------------------------------------------- endings, hand-over, files


def test_a_limit_on_nodes_ends_the_run():
    sol = unfinished(mf.evolve, mf.FlowMap(LAW, max_nodes=600), mf.SA(4.0), 20.0, 4)
    assert sol.status == "under-resolved"
    assert "more than the 600 allowed" in sol.message
    assert 0 < sol.t[-1] < 10
    assert sol.dataset["size"][-1] <= 600
    assert balance(sol) < 1e-11


def test_hand_over_goes_on(clustering, caplog):
    mu = mf.Density(mf.Circle(64), LAW, max_size=256)
    sol = mf.evolve(mu, mf.SA(4.0), 8.0, 8, on_unresolved="flow-map")
    assert sol.status == "finished"
    assert sol.t[-1] == 8.0
    assert isinstance(sol.measures[0], mf.Density)
    assert isinstance(sol.final, mf.FlowMap)
    # the default tolerance of either run
    energies = clustering.dataset.energy[:9]
    assert np.allclose(sol.dataset.energy, energies, rtol=0, atol=1e-9)
    assert abs(sol.dataset.attrs["hand_over_energy_gap"]) < 1e-9
    assert 2 < sol.dataset.attrs["hand_over_t"] < 4
    assert balance(sol) < 1e-9
    assert "a flow map took over at t = " in sol.message
    first, second, over, end = (record.getMessage() for record in caplog.records)
    assert "Circle(64) grows to Circle(128), tail " in first
    assert "Circle(128) grows to Circle(256), tail " in second
    assert "a flow map takes over: under-resolved" in over
    assert end == sol.message
    stopped = unfinished(mf.evolve, mu, mf.SA(4.0), 8.0, 8, on_unresolved="stop")
    assert stopped.status == "under-resolved"


def test_hand_over_at_the_start():
    """The law is sharper than any space allowed: the flow map has the whole run."""
    law = mf.VonMisesFisher([1.0, 0.0], 20.0)
    mu = mf.Density(mf.Circle(32), law, max_size=32)
    sol = mf.evolve(mu, mf.SA(2.0), 1.0, 2, on_unresolved="flow-map")
    assert sol.dataset.attrs["hand_over_t"] == 0.0
    assert np.all(np.diff(sol.history.edges) > 0)
    alone = mf.evolve(mf.FlowMap(law), mf.SA(2.0), 1.0, 2)
    points = circle_points(np.linspace(-1, 1, 9))
    assert np.allclose(sol.pdf(points, 0.3), alone.pdf(points, 0.3), rtol=1e-11)


def test_a_monitor_that_fails_keeps_the_run():
    """One made for densities does not know what follows a hand-over."""
    mu = mf.Density(mf.Circle(32), LAW, max_size=64)
    monitors = {"first": lambda measure: abs(measure.coefficients[1])}
    options = {"on_unresolved": "flow-map", "monitors": monitors}
    sol = unfinished(mf.evolve, mu, mf.SA(4.0), 8.0, 8, **options)
    assert sol.status == "failed"
    assert "the monitor first raised AttributeError" in sol.message
    assert len(sol.t) > 2
    assert np.isfinite(sol.dataset["first"].values[:-1]).all()


@pytest.mark.slow
def test_what_repels_does_not_merge():
    mu = atoms([0.0, 5e-9])
    sol = mf.evolve(mu, mf.SA(1.0, sign=-1), 40.0, 2)
    tokens = mf.evolve(mf.Particles(circle_points([0.0, 5e-9])), mf.SA(1.0, sign=-1), 40.0, 2)
    assert len(sol.final.atoms) == 2
    # the angle of 5e-9 grows by 1e8: of its 1e-16 of rounding no more than 1e-7 may come
    assert abs(float(sol.dataset.energy[-1] - tokens.dataset.energy[-1])) < 1e-6
    assert sol.dataset.energy[-1] < 0.6 * sol.dataset.energy[0]


@pytest.mark.parametrize(
    "pdf",
    [
        lambda x: 1 + 1.5 * x[:, 0],
        lambda x: np.full(len(x), np.nan),
        lambda x: np.ones((len(x), 1)),
        lambda x: 1.0,
        lambda x: np.full(len(x), "1"),
    ],
)
def test_a_law_that_is_no_density_is_refused(pdf):
    with pytest.raises(ValueError, match=r"law must have a .*pdf .*got <"):
        mf.FlowMap(Own(pdf))


@pytest.mark.slow
def test_a_handed_over_law_of_ones_own_is_not_replaced(tmp_path):
    """The series of the first density is right to its tail only: a file does not pass it off."""
    mu = mf.Density(mf.Circle(32), Own(LAW.pdf), max_size=64)
    sol = mf.evolve(mu, mf.SA(4.0), 5.0, 5, on_unresolved="flow-map")
    assert isinstance(sol.final, mf.FlowMap)
    sol.save(tmp_path / "own.nc")
    again = mf.load(tmp_path / "own.nc")
    with pytest.raises(ValueError, match="law is not known any more"):
        again.pdf([[1.0, 0.0]], 1.0)


@pytest.mark.slow
def test_hand_over_of_a_given_series():
    law = mf.ZonalSeries(10, [0.8])
    space = mf.Zonal(10, 31)
    coefficients = mf.Density(space, law).coefficients
    mu = mf.Density.from_coefficients(space, coefficients, max_size=63)
    sol = mf.evolve(mu, mf.SA(4.0), 8.0, 4, on_unresolved="flow-map")
    assert isinstance(sol.final, mf.FlowMap)
    flow = mf.evolve(mf.FlowMap(law), mf.SA(4.0), 8.0, 4)
    assert np.allclose(sol.dataset.energy, flow.dataset.energy, rtol=0, atol=1e-9)


@pytest.mark.parametrize("handed", [False, slow(True)])
def test_a_file_keeps_flow_map_and_history(clustering, tmp_path, handed):
    sol = clustering
    if handed:
        start = mf.Density(mf.Circle(64), LAW, max_size=128)
        sol = mf.evolve(start, mf.SA(4.0), 4.0, 4, on_unresolved="flow-map")
    sol.save(tmp_path / "flow.nc")
    again = mf.load(tmp_path / "flow.nc")
    assert again.status == sol.status
    assert (tmp_path / "flow.nc").stat().st_size < 5e6
    for mu, other in zip(sol.measures, again.measures, strict=True):
        assert type(mu) is type(other)
        assert np.array_equal(mu.mean(), other.mean())
    for name in ("points", "weights", "log_density", "atom_angles", "owners"):
        assert np.array_equal(getattr(sol.final, name), getattr(again.final, name))
    points = circle_points(np.linspace(0, 6, 50))
    assert np.array_equal(sol.pdf(points, 3.3), again.pdf(points, 3.3))
    assert again.dataset.equals(sol.dataset)


def test_a_file_without_its_law_says_so(tmp_path):
    sol = mf.evolve(mf.FlowMap(Own(LAW.pdf)), mf.SA(4.0), 1.0, 1)
    sol.save(tmp_path / "own.nc")
    again = mf.load(tmp_path / "own.nc")
    assert np.array_equal(again.final.log_density, sol.final.log_density)
    with pytest.raises(ValueError, match=r"law is not known any more .* points"):
        again.pdf([[1.0, 0.0]], 0.5)


def test_a_run_may_be_gone_on_with(clustering):
    """From a moved flow map, but then characteristics do not lead back to the law."""
    half = mf.evolve(mf.FlowMap(LAW), mf.SA(4.0), 1.5, 1)
    whole = mf.evolve(half.final, mf.SA(4.0), 1.5, 1)
    energy = float(clustering.dataset.energy[3])
    # steps of other sizes, each to 1e-12
    assert float(whole.dataset.energy[-1]) == pytest.approx(energy, abs=1e-11)
    assert whole.final.entropy() == pytest.approx(clustering.measures[3].entropy(), abs=1e-10)
    with pytest.raises(ValueError, match="pdf needs densities, or the moments of a flow map"):
        whole.pdf([[1.0, 0.0]], 1.0)


# ---------------------------------------------------------------- any law


coefficients = st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=4)


@pytest.mark.slow
@examples(6)
@given(coefficients, coefficients, st.sampled_from([2, 3, 10]), st.floats(0.0, 8.0), st.booleans())
def test_any_law_runs_uphill_to_an_ending(cos, sin, dim, beta, normalised):
    scale = 0.9 / max(1.0, np.abs(cos).sum() + (np.abs(sin).sum() if dim == 2 else 0.0))
    cos, sin = scale * np.array(cos), scale * np.array(sin)
    law = mf.FourierSeries(cos, sin) if dim == 2 else mf.ZonalSeries(dim, cos)
    dynamics = mf.SA(beta) if normalised else mf.USA(beta)
    t_end = 20.0 if normalised else 20.0 * np.exp(-0.7 * beta)
    sol = mf.evolve(mf.FlowMap(law), dynamics, t_end, 5)
    assert sol.status in {"finished", "clustered"}
    energy = sol.dataset.energy.values
    # at β = 0 a law without mean has an energy of rounding squared
    assert np.all(np.diff(energy) >= -1e-10 * energy[-1] - 1e-30)
    assert balance(sol) < 1e-9 * max(1.0, energy[-1])
    assert np.max(np.abs(sol.dataset.mass - 1)) < 1e-14


@pytest.fixture(scope="module")
def unturned():
    return mf.evolve(mf.FlowMap(mf.FourierSeries([0.5], [0, -0.3])), mf.SA(4.0), 5.0, 1)


@pytest.mark.slow
@examples(3)
@given(st.floats(0.0, 7.0))
def test_turning_the_law_turns_the_run(unturned, turn):
    """A rotation of the circle moves every panel across the law, and changes nothing."""
    z = 0.5 * np.exp(-1j * turn), 0.3j * np.exp(-2j * turn)
    law = mf.FourierSeries(cos=np.real(z), sin=-np.imag(z))
    unturned_law = mf.FourierSeries([0.5], [0, -0.3])
    there, here = law.pdf(circle_points([turn + 0.4])), unturned_law.pdf(circle_points([0.4]))
    assert np.allclose(there, here)
    mine = mf.evolve(mf.FlowMap(law), mf.SA(4.0), 5.0, 1)
    other = unturned
    c, s = np.cos(turn), np.sin(turn)
    turned = np.array([[c, -s], [s, c]]) @ other.final.mean()
    assert np.max(np.abs(mine.final.mean() - turned)) < 1e-10
    assert abs(float(mine.dataset.energy[-1] - other.dataset.energy[-1])) < 1e-10


@pytest.mark.parametrize("space", [mf.Circle(64), mf.Zonal(4, 31)], ids=str)
def test_a_flow_map_of_a_density_is_that_of_its_law_or_series(space):
    law = LAW if space.dim == 2 else mf.ZonalSeries(4, [0.5])
    mu, points = mf.Density(space, law), mf.Uniform(space.dim).sample(9, np.random.default_rng(0))
    series = mf.Density.from_coefficients(space, mu.coefficients)
    exact = mf.FlowMap(law).log_moment(2.0 * points)[0]
    assert np.array_equal(mf.FlowMap(mu).log_moment(2.0 * points)[0], exact)
    assert mf.FlowMap(series).log_moment(2.0 * points)[0] == pytest.approx(exact, abs=1e-12)


def test_log_density_on_s2_is_that_of_the_law_where_f_is_no_float():
    """log Σ_i κ_i e^{κ_i(<x, m_i> - 1)}/(1 - e^{-2κ_i}), with 50 digits."""
    kappas, means = (500.0, 400.0), np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    law = mf.Mixture([mf.VonMisesFisher(m, k) for m, k in zip(means, kappas, strict=True)])
    flow = mf.FlowMap(law, tol=1e-4)
    lowest = int(np.argmin(flow.log_density))
    assert flow.log_density[lowest] < np.log(1e-308)
    assert np.exp(flow.log_density[lowest]) == pytest.approx(flow.node_density[lowest], abs=0.0)
    with mpmath.workdps(50):
        cosines = [mpmath.fdot(m.tolist(), flow.points[lowest].tolist()) for m in means]
        parts = [
            k * mpmath.exp(k * (c - 1)) / (1 - mpmath.exp(-2 * k))
            for k, c in zip(map(mpmath.mpf, kappas), cosines, strict=True)
        ]
        expected = float(mpmath.log(mpmath.fsum(parts)))
    # κ times the rounding of a unit vector
    assert flow.log_density[lowest] == pytest.approx(expected, abs=1e-12)
