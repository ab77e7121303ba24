"""Distances as monitors: what a run keeps is what `wasserstein` gives for its saved measures."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

import meanfield as mf
from meanfield.functionals.transport import Bracket
from meanfield.functionals.transport.distance import DistanceTo, wasserstein
from tests.handmade import unfinished

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


def evolved(kind, monitors, t_end=2.0, saves=4):
    sol = mf.evolve(STARTS[kind](), mf.SA(2.0), t_end, saves, monitors=monitors)
    assert sol.status == "finished", sol.message
    return sol


# -- against the distance by hand ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("kind", STARTS)
def test_uniform_and_start_are_those_by_hand(kind, p):
    monitors = {"wu": DistanceTo("uniform", p=p), "ws": DistanceTo("start", p=p)}
    sol = evolved(kind, monitors)
    uniform = [float(wasserstein(m, UNIFORM[kind], p)) for m in sol.measures]
    start = [float(wasserstein(m, sol.measures[0], p)) for m in sol.measures]
    # two series of one density, each a distance to about 1e-13
    assert np.abs(sol.dataset.wu - uniform).max() < 1e-12
    assert np.array_equal(sol.dataset.ws, start)
    # of a measure and itself: rounding of masses, ε^{1/p}
    assert sol.dataset.ws[0] < 1e-14 ** (1 / p)
    assert np.ptp(sol.dataset.wu.values) > 0.05
    assert sol.dataset.ws[-1] > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", STARTS)
def test_centre_is_the_integral_of_the_distance_to_it(kind):
    sol = evolved(kind, {"w1": DistanceTo("centre"), "w2": DistanceTo("centre", p=2)})
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
            assert float(sol.dataset[f"w{p}"][save]) == pytest.approx(expected, abs=tolerance)


def mean_angle(dim, kappa):
    """∫ θ of exp(κ cos θ) sin^{d-2} θ, by 400 Gauss nodes where it is not below rounding."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    reach = min(np.pi, 12.0 * np.sqrt(dim / kappa))
    angles = 0.5 * reach * (nodes + 1.0)
    masses = weights * np.exp(kappa * (np.cos(angles) - 1.0)) * np.sin(angles) ** (dim - 2)
    return float(masses @ angles / masses.sum())


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [3.0, 300.0, 1e4, 1e6])
@pytest.mark.parametrize("dim", [2, 3, 10, 50])
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
    found, expected = DistanceTo(Own())(measure), wasserstein(measure, same)
    assert float(found) == pytest.approx(float(expected), abs=1e-12)


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
    for distance, told in (mf.mmd, {"beta": 3.0}), (mf.sobolev, {"s": -3.0}):
        found = DistanceTo(other.law, distance.__name__, **told)(measure)
        # a series and a flow map of one law differ by the latter's tolerance of 1e-12
        assert found == pytest.approx(distance(measure, other, **told), rel=1e-10)
        assert found > 0.01


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


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 2, 3, 7, 100])
def test_every(every):
    kept = {"w": DistanceTo("uniform", every=every), "all": DistanceTo("uniform")}
    sol = evolved("circle", kept, saves=7)
    is_due = np.arange(8) % every == 0
    assert np.array_equal(np.isfinite(sol.dataset.w), is_due)
    assert np.array_equal(sol.dataset.w[is_due], sol.dataset["all"][is_due])


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


# -- brackets, and what is kept --------------------------------------------------------------------


def test_clouds_have_brackets():
    sol = mf.evolve(tokens(3), mf.SA(1.0), 1.0, 2, monitors={"w": DistanceTo("start", every=2)})
    expected = wasserstein(sol.final, sol.measures[0])
    assert isinstance(expected, Bracket)
    data = sol.dataset
    last = [float(data[name][-1]) for name in ("w", "w_lower", "w_upper")]
    assert last == [expected.value, expected.lower, expected.upper]
    assert last[0] > 0.05
    for name in "w", "w_lower", "w_upper":
        assert np.isfinite(data[name]).values.tolist() == [True, False, True]
    assert data.w.long_name == "Wasserstein distance W_1 to start"
    assert data.w_lower.long_name == "lower bound of Wasserstein distance W_1 to start"
    assert np.array_equal(data.w_proved, [expected.proved, np.nan, expected.proved], equal_nan=True)
    assert data.w_proved.long_name == "bounds of Wasserstein distance W_1 to start are proved"
    assert [data[n].attrs.get("units") for n in ("w", "w_lower", "w_proved")] == [
        *("radian", "radian", None)
    ]


@pytest.mark.slow
def test_a_loaded_run_has_them_too(tmp_path):
    def bracketed(measure):
        size = float(np.linalg.norm(measure.mean()))
        return Bracket(size, 0.9 * size, 1.1 * size, size > 0.5) if size > 0.3 else None

    monitors = {"w": DistanceTo("uniform", every=2), "mine": bracketed}
    sol = evolved("circle", monitors)
    sol.save(tmp_path / "run.nc")
    loaded = mf.load(tmp_path / "run.nc").dataset
    names = {"w", "mine", "mine_lower", "mine_upper", "mine_proved"}
    assert names <= set(loaded)
    for name in names:
        assert np.array_equal(loaded[name], sol.dataset[name], equal_nan=True)
        assert loaded[name].attrs == sol.dataset[name].attrs
    assert np.isfinite(loaded.mine).values.tolist() == [False, True, True, True, True]
    assert loaded.mine_upper.long_name == "upper bound of mine"


class Open:
    """A bracket of which one end is missing."""

    def __init__(self, value, lower, upper):
        self.value, self.lower, self.upper = value, lower, upper

    def __float__(self):
        return self.value


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (float("nan"), "w is nan; is its monitor right?"),
        (float("inf"), "w is inf; is its monitor right?"),
        (Open(1.0, float("nan"), 2.0), "w_lower is nan; is its monitor right?"),
        (Open(1.0, 0.0, float("inf")), "w_upper is inf; is its monitor right?"),
        (Open(float("nan"), 0.0, 1.0), "w is nan; is its monitor right?"),
    ],
)
def test_what_is_no_number_ends_a_run(given, told):
    monitors = {"w": lambda _: given}
    sol = unfinished(mf.evolve, STARTS["circle"](), mf.SA(1.0), 1.0, 2, monitors=monitors)
    assert sol.status == "failed"
    assert told in sol.message


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("far", "'far'"),
        ([1.0, 2.0], r"\[1.0, 2.0\]"),
        (np.array([0.1, 0.2]), r"array\(\[0.1, 0.2\]\)"),
        (1j, "1j"),
    ],
)
def test_a_monitor_that_returns_no_number_at_the_start_raises(given, told):
    """Before any step there is nothing to keep, and the note leads to the monitor."""
    monitors = {"w": lambda _: given}
    must = "^the monitor w must return a number, a Bracket or None, got "
    with pytest.raises(ValueError, match=must + told) as raised:
        mf.evolve(STARTS["circle"](), mf.SA(1.0), 1.0, 2, monitors=monitors)
    (note,) = raised.value.__notes__
    assert note.startswith("in the monitor w at t = 0, for Density(Circle")


def test_a_monitor_that_raises_later_keeps_the_run():
    def late(measure):
        if np.hypot(*measure.mean()) > 0.3:
            raise RuntimeError("too far")
        return 1.0

    start = STARTS["circle"]()
    sol = unfinished(mf.evolve, start, mf.SA(1.0), 4.0, 40, monitors={"late": late})
    assert sol.status == "failed"
    assert "the monitor late raised RuntimeError('too far') for Density(" in sol.message
    assert 0.0 < sol.t[-1] < 4.0
    assert np.all(sol.dataset.late[:-1] == 1.0)


@pytest.mark.parametrize(
    "names", [("w", "w_lower"), ("w_upper", "w"), ("w", "w_proved"), ("energy",), ("t",)]
)
def test_names_of_bounds_are_no_monitors(names):
    monitors = dict.fromkeys(names, abs)
    with pytest.raises(ValueError, match=r"monitors must map new names .* to callables, got '"):
        mf.evolve(STARTS["circle"](), mf.SA(1.0), 1.0, monitors=monitors)


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
    sol = mf.evolve(measure, mf.SA(1.0), 0.1, 2, monitors=own)
    assert sol.status == "finished"
    uniform = mf.Density(mf.Sphere(15), mf.Uniform(3))
    for state, low, high in zip(
        sol.measures, sol.dataset.u_lower.values, sol.dataset.u_upper.values, strict=True
    ):
        bracket = mf.wasserstein(state, uniform)
        assert low == pytest.approx(bracket.lower, rel=1e-12)
        assert high == pytest.approx(bracket.upper, rel=1e-12)
    assert np.isnan(sol.dataset.b.values).tolist() == [False, True, False]
    width = 1.0 - (sol.dataset.b_lower / sol.dataset.b_upper).values[[0, 2]]
    assert np.all(width <= 0.05)
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


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 2])
def test_one_monitor_in_two_runs_begins_anew(every):
    """The second run is compared with its own start, at its own saves."""
    monitor = DistanceTo("start", every=every)
    for kappa in 1.0, 4.0:
        start = mf.Density(mf.Circle(64), mf.VonMisesFisher([1.0, 0.0], kappa))
        # under two names, which count by themselves
        both = {"w1": monitor, "w2": monitor}
        sol = mf.evolve(start, mf.SA(2.0), 0.3, 3, monitors=both)
        by_hand = [float(wasserstein(mu, start)) for mu in sol.measures]
        by_hand = np.where(np.arange(4) % every == 0, by_hand, np.nan)
        assert float(sol.dataset.w1[0]) == 0.0
        np.testing.assert_array_equal(sol.dataset.w1, by_hand)
        np.testing.assert_array_equal(sol.dataset.w1, sol.dataset.w2)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_run_that_goes_on_remembers_its_start(tmp_path):
    """The start and the count of saves, so that the numbers are those of a run left alone."""
    path, start, calls = tmp_path / "run.nc", tokens(2), []

    def stop(measure):
        calls.append(measure)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return 0.0

    own = {"w": DistanceTo("start", every=2), "stop": lambda _: 0.0}
    whole = mf.evolve(start, mf.SA(2.0), 1.0, 6, monitors=own)
    with pytest.raises(mf.exceptions.Interrupted):
        mf.evolve(start, mf.SA(2.0), 1.0, 6, monitors=own | {"stop": stop}, checkpoint=path)
    resumed = mf.resume(path, monitors=own)
    assert len(calls) == 4
    assert np.isfinite(resumed.dataset.w).values.tolist() == [True, False] * 3 + [True]
    assert np.array_equal(resumed.dataset.w, whole.dataset.w, equal_nan=True)
