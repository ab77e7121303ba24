"""Distances as monitors: what a run keeps is what `wasserstein` gives for its saved measures."""

import copy
import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import meanfield as mf
from meanfield.functionals.transport.distance import DistanceTo, wasserstein
from tests.evolution.interruptions import Interruption
from tests.handmade import interrupted

EAST = np.eye(10)[-1]
SERIES = mf.ZonalSeries(3, [0.5, 0.2])


def tokens(dim, n=40):
    return mf.Particles.sample(mf.Uniform(dim), n, np.random.default_rng(3))


STARTS = {
    "circle": lambda: mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.5], sin=[0.2])),
    "zonal d=3": lambda: mf.Density(mf.Zonal(3, 31), SERIES),
    "zonal d=10": lambda: mf.Density(mf.Zonal(10, 31), mf.VonMisesFisher(EAST, 2.0)),
    "flow map": lambda: mf.FlowMap(mf.FourierSeries(cos=[0.5], sin=[0.2])),
    "zonal flow map": lambda: mf.FlowMap(SERIES),
    "tokens": lambda: tokens(2),
}
# another space than the monitor's
UNIFORM = {
    "circle": mf.Density(mf.Circle(16), mf.Uniform(2)),
    "zonal d=3": mf.Density(mf.Zonal(3, 15), mf.Uniform(3)),
    "zonal d=10": mf.Density(mf.Zonal(10, 15), mf.Uniform(10)),
}
UNIFORM |= {"flow map": UNIFORM["circle"], "tokens": UNIFORM["circle"]}
UNIFORM |= {"zonal flow map": UNIFORM["zonal d=3"]}


@cache
def monitored(kind):
    """One run, with the distances to the uniform measure, the start and the centre."""
    monitors = {
        f"{to}{p}": DistanceTo(to, p=p) for p in (1, 2) for to in ("uniform", "start", "centre")
    }
    sol = mf.evolve(STARTS[kind](), mf.SA(2.0), 2.0, 2, monitors=monitors)
    assert sol.status == "finished", sol.message
    return sol


KINDS = [pytest.param(k, marks=() if k == "tokens" else pytest.mark.slow) for k in STARTS]


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_uniform_and_start_are_those_by_hand(kind, p):
    sol = monitored(kind)
    to_uniform, to_start = (sol.dataset[f"{to}{p}"].values for to in ("uniform", "start"))
    uniform = [float(wasserstein(m, UNIFORM[kind], p)) for m in sol.measures]
    start = [float(wasserstein(m, sol.measures[0], p)) for m in sol.measures]
    # two series of one density, each a distance to about 1e-13
    assert np.abs(to_uniform - uniform).max() < 1e-12
    assert np.array_equal(to_start, start)
    # of a measure and itself: rounding of masses, ε^{1/p}
    assert to_start[0] < 1e-14 ** (1 / p)
    assert np.ptp(to_uniform) > 0.05
    assert to_start[-1] > 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_centre_is_the_integral_of_the_distance_to_it(kind):
    sol = monitored(kind)
    for save, measure in enumerate(sol.measures):
        centre = measure.mean() / np.linalg.norm(measure.mean())
        if isinstance(measure, mf.Density):
            # the angle has a kink at the centre: an error of (2π/6144)²/12
            fine, tolerance = measure.resize(1023 if measure.dim > 2 else 4096), 1e-7
            points, masses = fine.space.points, fine.space.weights * fine.values
        else:
            # tokens are exact; in one of 8 panels is the kink, 16 nodes have an error of 16^{-2}/12
            points, masses = measure.points, measure.weights
            tolerance = 3e-4 if kind == "flow map" else 1e-13
        angles = 2.0 * np.arcsin(0.5 * np.linalg.norm(points - centre, axis=1))
        for p in 1, 2:
            expected = (masses @ angles**p) ** (1 / p)
            distance = float(sol.dataset[f"centre{p}"][save])
            assert distance == pytest.approx(expected, abs=tolerance)


def mean_angle(dim, kappa):
    """∫ θ of exp(κ cos θ) sin^{d-2} θ, by 400 Gauss nodes where it is not below rounding."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    reach = min(np.pi, 12.0 * np.sqrt(dim / kappa))
    angles = 0.5 * reach * (nodes + 1.0)
    masses = weights * np.exp(kappa * (np.cos(angles) - 1.0)) * np.sin(angles) ** (dim - 2)
    return float(masses @ angles / masses.sum())


@pytest.mark.parametrize("kappa", [3.0, 1e4, 1e6])
@pytest.mark.parametrize("dim", [pytest.param(2, marks=pytest.mark.slow), 3, 10, 50])
def test_a_law_of_any_sharpness(dim, kappa):
    """W_1(σ, law) of a bump is π/2 less its mean angle."""
    axis = np.eye(dim)[-1]
    law, expected = mf.VonMisesFisher(axis, kappa), np.pi / 2 - mean_angle(dim, kappa)
    space = mf.Circle(16) if dim == 2 else mf.Zonal(dim, 15, -axis)
    for uniform in mf.Density(space, mf.Uniform(dim)), mf.FlowMap(mf.Uniform(dim)):
        # the distance's own accuracy
        assert float(DistanceTo(law)(uniform)) == pytest.approx(expected, abs=1e-12)


def test_a_law_without_density_is_its_tokens():
    cloud = mf.PointCloud(np.eye(2), [0.3, 0.7])
    measure = STARTS["circle"]()
    expected = wasserstein(measure, mf.Particles(np.eye(2), [0.3, 0.7]))
    assert DistanceTo(cloud)(measure) == expected
    assert expected.value > 0.5


def test_a_law_of_a_users_own_class():
    class Own:
        dim = 5

        def pdf(self, points):
            return 1.0 + np.asarray(points)[:, 0]

        def sample(self, n, rng):
            raise NotImplementedError

    axis = np.eye(5)[0]
    measure = mf.Density(mf.Zonal(5, 15, axis), mf.Uniform(5))
    same = mf.Density(mf.Zonal(5, 15, axis), mf.ZonalSeries(5, [1.0], axis=axis))
    distance, expected = DistanceTo(Own())(measure), wasserstein(measure, same)
    assert float(distance) == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("kind", ["circle", "zonal d=3"])
def test_a_measure_is_taken_as_it_is(kind):
    other, measure = tokens(2) if kind == "circle" else mf.FlowMap(SERIES), STARTS[kind]()
    assert DistanceTo(other, p=2)(measure) == wasserstein(measure, other, 2)


# -- other distances -------------------------------------------------------------------------------

BUMP3 = mf.VonMisesFisher([0.6, 0.0, 0.8], 5.0)
ON_SPHERES = {
    "sphere": (mf.Density(mf.Sphere(31), SERIES), mf.Density(mf.Sphere(47), BUMP3)),
    "zonal": (mf.Density(mf.Zonal(3, 31), SERIES), mf.Density(mf.Sphere(47), BUMP3)),
    "tokens": (tokens(3), mf.Density(mf.Sphere(47), BUMP3)),
    "tokens d=5": (tokens(5), mf.Density(mf.Zonal(5, 47), mf.VonMisesFisher(np.eye(5)[4], 5.0))),
}


@pytest.mark.parametrize("kind", ON_SPHERES)
def test_mmd_and_sobolev(kind):
    measure, other = ON_SPHERES[kind]
    for distance, parameter in (mf.mmd, {"beta": 3.0}), (mf.sobolev, {"s": -3.0}):
        value = DistanceTo(other.law, distance.__name__, **parameter)(measure)
        # a series and a flow map of one law differ by the latter's tolerance of 1e-12
        assert value == pytest.approx(distance(measure, other, **parameter), rel=1e-10)
        assert value > 0.01


# -- the centre ------------------------------------------------------------------------------------


def test_on_a_mesh_the_centre_has_the_distance_of_the_density():
    law = mf.Mixture([BUMP3, mf.VonMisesFisher([0.0, 1.0, 0.0], 2.0)], [0.5, 0.5])
    measure, mesh = mf.Density(mf.Sphere(47), law), mf.FlowMap(law)
    # the kink of the distance at the centre lies within a patch of side 1/4: error below h³/100
    for p in 1, 2:
        expected = float(DistanceTo("centre", p=p)(measure))
        assert float(DistanceTo("centre", p=p)(mesh)) == pytest.approx(expected, abs=1e-4)
        assert expected > 0.5


SYMMETRIC = {
    "circle": mf.Density(mf.Circle(16), mf.Uniform(2)),
    "two bumps": mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.0, 0.5])),
    "zonal": mf.Density(mf.Zonal(10, 15), mf.Uniform(10)),
    "tokens": mf.Particles([[1.0, 0.0], [-1.0, 0.0]]),
}


@pytest.mark.parametrize("measure", SYMMETRIC.values(), ids=SYMMETRIC)
def test_a_symmetric_measure_has_no_centre(measure):
    assert DistanceTo("centre")(measure) is None
    assert DistanceTo("uniform")(measure) is not None or measure.dim > 2
    sol = mf.evolve(measure, mf.SA(1.0), 0.5, 2, monitors={"w": DistanceTo("centre")})
    assert sol.status == "finished"
    assert np.isnan(sol.dataset.w).all()
    assert sol.dataset.w.dims == ("t",)


# -- when ------------------------------------------------------------------------------------------


def test_every():
    """At every n-th save of eight."""
    kept = {f"w{every}": DistanceTo("uniform", every=every) for every in (1, 2, 3, 7, 100)}
    sol = mf.evolve(STARTS["zonal d=3"](), mf.SA(2.0), 0.2, 7, monitors=kept)
    assert np.isfinite(sol.dataset.w1).all()
    for every in 2, 3, 7, 100:
        expected = np.where(np.arange(8) % every == 0, sol.dataset.w1, np.nan)
        np.testing.assert_array_equal(sol.dataset[f"w{every}"], expected)


@pytest.mark.slow
def test_a_density_that_hands_over_is_monitored_on():
    law = mf.FourierSeries(cos=[0.5])
    monitors = {"w": DistanceTo("uniform"), "s": DistanceTo("start"), "c": DistanceTo("centre")}
    sol = mf.evolve(
        mf.Density(mf.Circle(64), law, max_size=64),
        mf.SA(4.0),
        8.0,
        8,
        on_unresolved="flow-map",
        monitors=monitors,
    )
    flow = mf.evolve(mf.FlowMap(law), mf.SA(4.0), 8.0, [8.0])
    assert isinstance(sol.measures[0], mf.Density)
    assert isinstance(sol.final, mf.FlowMap)
    for name, other in ("w", UNIFORM["circle"]), ("s", sol.measures[0]):
        # two runs, each within 1e-9
        assert float(sol.dataset[name][-1]) == pytest.approx(
            float(wasserstein(flow.final, other)), abs=1e-8
        )
    assert np.isfinite(sol.dataset.c).all()


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_laws_that_do_not_fit():
    measure = STARTS["zonal d=10"]()
    with pytest.raises(ValueError, match="to must have dim = 10 as Density"):
        DistanceTo(mf.Uniform(3))(measure)
    with pytest.raises(ValueError, match="to must be a law that is symmetric about an axis"):
        DistanceTo(mf.VonMisesFisher(np.eye(10)[0], 2.0))(measure)
    # a bump of the width 1/50 of a spacing at lmax = 511, between its nodes
    sharp = mf.VonMisesFisher([0.6, 0.0, 0.8], 1e6)
    with pytest.raises(ValueError, match=r"to must be a law that Sphere\(511\) resolves"):
        DistanceTo(sharp)(STARTS["zonal d=3"]())


def test_a_distance_that_cannot_be_had_is_refused():
    with pytest.raises(ValueError, match="mu and nu must"):
        mf.evolve(tokens(5), mf.SA(1.0), 0.1, 1, monitors={"w": DistanceTo("uniform")})


@pytest.mark.slow
def test_without_symmetry_two_densities_on_the_sphere_have_brackets():
    law = mf.Mixture([BUMP3, mf.Uniform(3)], [0.5, 0.5])
    measure = mf.Density(mf.Sphere(15), law, tail_tol=1e-2)
    own = {"u": DistanceTo("uniform"), "b": DistanceTo(BUMP3, p=2, every=2, gap=0.05)}
    sol = mf.evolve(measure, mf.SA(1.0), 0.1, 1, monitors=own)
    assert sol.status == "finished"
    uniform = mf.Density(mf.Sphere(15), mf.Uniform(3))
    for state, low, high in zip(
        sol.measures, sol.dataset.u_lower.values, sol.dataset.u_upper.values, strict=True
    ):
        bracket = mf.wasserstein(state, uniform)
        assert low == pytest.approx(bracket.lower, rel=1e-12)
        assert high == pytest.approx(bracket.upper, rel=1e-12)
    assert np.isnan(sol.dataset.b.values).tolist() == [False, True]
    assert 1.0 - float(sol.dataset.b_lower[0] / sol.dataset.b_upper[0]) <= 0.05
    # the bump and the uniform part are apart by half of what the bump and the uniform law are
    zonal = mf.Zonal(3, 31, BUMP3.mean)
    exact = 0.5 * float(mf.wasserstein(mf.Density(zonal, BUMP3), mf.Density(zonal, mf.Uniform(3))))
    assert sol.dataset.u_lower[0] <= exact <= sol.dataset.u_upper[0]


@pytest.mark.slow
def test_a_law_about_an_axis_that_is_nearly_the_measures():
    """1e-7 apart are two axes: no flow map about the one holds a law about the other."""
    measure = mf.Density(mf.Zonal(3, 63), mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0))
    near = mf.VonMisesFisher([np.sin(1e-7), 0.0, np.cos(1e-7)], 20.0)
    bracket = DistanceTo(near)(measure)
    zonal = mf.Density(mf.Zonal(3, 63), mf.VonMisesFisher([0.0, 0.0, 1.0], 20.0))
    assert bracket.lower <= float(mf.wasserstein(measure, zonal)) + 1e-7
    assert bracket.upper >= float(mf.wasserstein(measure, zonal)) - 1e-7


def test_one_monitor_in_two_runs_begins_anew():
    """The second run is compared with its own start, at its own saves."""
    # under several names, which count by themselves
    both = {
        f"w{k}{every}": monitor
        for every, monitor in ((every, DistanceTo("start", every=every)) for every in (1, 2))
        for k in (0, 1)
    }
    for kappa in 1.0, 4.0:
        start = mf.Particles.sample(mf.VonMisesFisher([1.0, 0.0], kappa), 30, rng=0)
        sol = mf.evolve(start, mf.SA(2.0), 0.3, 3, monitors=both)
        by_hand = np.array([float(wasserstein(mu, start)) for mu in sol.measures])
        assert by_hand[0] == 0.0
        for every in 1, 2:
            expected = np.where(np.arange(4) % every == 0, by_hand, np.nan)
            for k in 0, 1:
                np.testing.assert_array_equal(sol.dataset[f"w{k}{every}"], expected)


def test_runs_within_runs_have_monitors_of_their_own():
    monitor = DistanceTo("start")
    starts = [mf.Density(mf.Circle(64), mf.VonMisesFisher([1.0, 0.0], k)) for k in (1.0, 4.0)]

    def inner(measure):
        sol = mf.evolve(starts[1], mf.SA(2.0), 0.1, 1, monitors={"w1": monitor})
        return float(sol.dataset.w1[-1])

    outer = mf.evolve(starts[0], mf.SA(2.0), 0.1, 1, monitors={"inner": inner, "w1": monitor})
    alone = mf.evolve(starts[0], mf.SA(2.0), 0.1, 1, monitors={"w1": monitor})
    assert np.array_equal(outer.dataset.w1, alone.dataset.w1)
    assert float(outer.dataset.w1[-1]) != float(outer.dataset.inner[-1])


@pytest.mark.parametrize(
    "monitor",
    [
        DistanceTo("start", every=3),
        DistanceTo(BUMP3, p=2, gap=0.05),
        DistanceTo("centre", "mmd", beta=4.0),
        DistanceTo(mf.Uniform(3), "sobolev", s=-2),
    ],
)
def test_a_monitor_is_its_arguments(monitor):
    for same in (
        pickle.loads(pickle.dumps(monitor)),
        copy.copy(monitor),
        copy.deepcopy(monitor),
        replace(monitor),
    ):
        assert same == monitor
        assert repr(same) == repr(monitor)
    assert replace(monitor, every=7) != monitor
    assert replace(monitor, every=7).every == 7
    with pytest.raises(AttributeError):
        monitor.every = 2


def test_the_start_is_known_in_a_run_alone():
    with pytest.raises(ValueError, match="to must be no 'start' where no run began"):
        DistanceTo("start")(STARTS["circle"]())


def test_a_run_that_goes_on_remembers_its_start(tmp_path):
    """The start and the count of saves, so that the numbers are those of a run left alone."""
    path, start = tmp_path / "run.nc", tokens(2)
    own = {"w": DistanceTo("start", every=2), "stop": lambda _: 0.0}
    whole = mf.evolve(start, mf.SA(2.0), 1.0, 6, monitors=own)
    stopped = own | {"stop": Interruption(4)}
    interrupted(mf.evolve, start, mf.SA(2.0), 1.0, 6, monitors=stopped, checkpoint=path)
    resumed = mf.resume(path, monitors=own)
    assert np.isfinite(resumed.dataset.w).values.tolist() == [True, False] * 3 + [True]
    assert np.array_equal(resumed.dataset.w, whole.dataset.w, equal_nan=True)
