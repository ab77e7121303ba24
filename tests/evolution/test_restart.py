"""A run that is interrupted goes on as if nothing had happened, bit for bit."""

import os
import signal
import warnings
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

import meanfield as mf
from meanfield.evolution.flow_system import SphereSystem
from meanfield.evolution.loop import save_times
from meanfield.evolution.restart import resume_from
from tests.children import hearing_ctrl_c
from tests.evolution.interruptions import (
    BUMPS,
    MASS,
    SAVED_AT_ENDS,
    SIX,
    START,
    Interruption,
    assert_same,
    checkpointed,
    flow_map,
)
from tests.handmade import interrupted, previous, tokens

COARSE = mf.Circle(16)
AXIS = [0.0, 0.6, 0.0, 0.8, 0.0]
NORTH, SLANTED = mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)
HEAD = mf.Head(*np.random.default_rng(3).normal(size=(3, 4, 4)))
HEADS = mf.Attention(1.0, [mf.Head(*np.random.default_rng(5).normal(size=(3, 2, 2)))])
DEPTH = mf.Layers([HEADS, mf.SA(2.0), mf.USA(0.5)], step=0.4)
SINES = mf.CircleInteraction(sin=[1.0, 0.3], coupling=2.0)
BALANCED = mf.DoublyStochastic(2.0)
ATTENTION = mf.Attention(1.0, [HEAD])
TWENTY = mf.Layers([mf.SA(1.0)] * 10 + [ATTENTION] * 10)


def turned(*values):
    """A new attention each time, equal to the others."""
    return mf.Attention(1.0, [mf.Head(V=np.diag(values))])


def oscillators(n):
    rng = np.random.default_rng(2)
    return mf.Oscillators(
        *rng.normal(scale=4.0, size=(2, n)), weights=rng.uniform(size=n), unit_mass=True
    )


def limited(max_size):
    return mf.Density(START.space, BUMPS, max_size=max_size)


def two_bumps():
    return mf.FlowMap(mf.Mixture([NORTH, SLANTED], [0.6, 0.4]), tol=1e-4)


CLOUD, UNDER_LAYERS, TO_FLOW_MAP = tokens(3, 40), tokens(4, 20), {"on_unresolved": "flow-map"}


def drawn(ensemble, dim, step):
    """More layers than a sequence of them keeps."""
    return mf.Layers.random(ensemble, beta=1.0, dim=dim, n_layers=20, step=step, rng=1, scale=1.0)


# the start of a run or what makes a new one, the dynamics and the arguments of evolve; first a
# quick run of each kind of measure
QUICK = {
    "circle": (START, mf.SA(4.0), {"t_end": 1.5}),
    "flow map": (flow_map, mf.SA(4.0), {"t_end": 15.0}),
    "density of many points": (
        mf.Density(mf.Circle(64), mf.PointCloud(tokens(2, 400).points, bandwidth=0.4)),
        *(mf.SA(4.0), {"t_end": 1.0} | TO_FLOW_MAP),
    ),
    "tokens": (CLOUD, mf.SA(4.0), {"t_end": 3.0}),
    "noisy tokens": (tokens(3, 20), mf.SA(1.0, noise=0.1), {"t_end": 1.0, "rng": 7}),
    "hand-over where layers end": (limited(32), SIX, TO_FLOW_MAP | SAVED_AT_ENDS),
}
KINDS = QUICK | {
    "sphere": (mf.Density(mf.Sphere(15), SLANTED), mf.USA(1.0), {"t_end": 0.5}),
    "zonal": (
        mf.Density(mf.Zonal(5, 31, AXIS), mf.ZonalSeries(5, [0.5], AXIS)),
        *(mf.SA(2.0), {"t_end": 1.0}),
    ),
    "noise": (START, mf.USA(1.0, noise=0.3), {"t_end": 1.0}),
    "about an axis": (lambda: mf.FlowMap(mf.VonMisesFisher(AXIS, 2.0)), mf.USA(1.0), {"t_end": 2}),
    # meshes are laid anew at 1.459 and 2.404, before and after the save that a restart begins at
    "on S^2": (two_bumps, mf.SA(4.0), {"t_end": 3.2, "save_at": [0.0, 1.0, 2.0, 3.2]}),
    "hand-over": (limited(256), mf.SA(4.0), TO_FLOW_MAP | {"t_end": 6.0}),
    "tokens on the circle": (tokens(2, 3000), mf.SA(4.0), {"t_end": 3.0}),
    "gram": (tokens(64, 8), mf.SA(4.0), {"t_end": 3.0}),
    "discrete": (UNDER_LAYERS, mf.LayerMap(TWENTY, step=0.1), {"t_end": 2.0}),
    "balanced density": (START, BALANCED, {"t_end": 1.0}),
    "balanced flow map": (flow_map, BALANCED, {"t_end": 1.0}),
    "balanced tokens": (CLOUD, BALANCED, {"t_end": 1.0}),
    "balanced on S^2": (two_bumps, BALANCED, {"t_end": 0.2, "save_at": 2}),
    "layers on a density": (START, DEPTH, {"t_end": 1.1}),
    "layers on a flow map": (flow_map, DEPTH, {"t_end": 1.1}),
    # each save is where a layer ends but for rounding
    "layers on S^2": (
        two_bumps,
        mf.Layers([mf.SA(1.0), turned(1.0, -1.0, 0.5), mf.USA(0.5)], step=0.35),
        {"t_end": 1.05, "save_at": 3},
    ),
    "kuramoto density": (mf.Density(COARSE, BUMPS), SINES, {"t_end": 2.0}),
    "kuramoto noise": (mf.Density(COARSE, BUMPS), mf.Kuramoto(3.0, noise=0.3), {"t_end": 1.0}),
    "kuramoto flow map": (flow_map, SINES, {"t_end": 12.0}),
    "kuramoto tokens": (tokens(2, 40), SINES, {"t_end": 3.0}),
    "oscillator density": (
        mf.OscillatorDensity(COARSE, BUMPS, *mf.gaussian_frequencies(1.0, 5, centre=7.0)),
        *(SINES, {"t_end": 1.5}),
    ),
    "oscillator density with widths": (
        mf.OscillatorDensity(COARSE, BUMPS, [-5.0, 1.0], [1, 2], [0.5, 0.2], unit_mass=True),
        *(mf.Kuramoto(2.0, noise=0.1), {"t_end": 2.0}),
    ),
    "oscillators": (oscillators(60), SINES, {"t_end": 3.0}),
    "noisy oscillators": (oscillators(20), mf.Kuramoto(1.0, noise=0.2), {"t_end": 1.0, "rng": 7}),
    "tied layers": (UNDER_LAYERS, mf.Layers([ATTENTION] * 4, step=0.5), {"t_end": 2.0}),
    "equal layers": (
        tokens(2, 20),
        mf.Layers([mf.SA(1.0), mf.SA(1.0), turned(1, -1), turned(1, -1)], step=0.5),
        {"t_start": 0.3, "t_end": 2.0},
    ),
    # saves on the ends of layers but for rounding
    "flow map saved where layers end": (flow_map, SIX, SAVED_AT_ENDS),
    "tokens saved where layers end": (UNDER_LAYERS, SIX, SAVED_AT_ENDS),
    "saved where discrete layers end": (UNDER_LAYERS, mf.LayerMap(SIX, step=0.35), SAVED_AT_ENDS),
    "saved where layers end after a start": (
        *(START, mf.Layers([mf.SA(1.0 + k % 3) for k in range(10)], step=0.3)),
        {"t_start": 0.3, "t_end": 2.7, "save_at": 8},
    ),
    # saves are within layers: each acts on from where the run was killed
    "random layers": (UNDER_LAYERS, drawn("values", 4, 0.3), {"t_end": 2.0}),
    "random discrete layers": (
        UNDER_LAYERS,
        *(mf.LayerMap(drawn("ginibre", 4, 0.1), step=0.1), {"t_end": 2.0}),
    ),
    "random layers on a density": (START, drawn("ginibre", 2, 0.3), {"t_end": 2.0}),
    "random layers on a flow map": (flow_map, drawn("ginibre", 2, 0.3), {"t_end": 2.0}),
    "random layers on S^2": (two_bumps, drawn("ginibre", 3, 0.35), {"t_end": 0.5}),
    "density saved where random layers end": (START, drawn("values", 2, 0.35), SAVED_AT_ENDS),
    "tokens saved where random layers end": (UNDER_LAYERS, drawn("values", 4, 0.35), SAVED_AT_ENDS),
    "USA at large beta": (START, mf.USA(300.0), {"t_end": 1e-131}),
    "an energy along a density": (START, HEADS, {"t_end": 1.0, "energy": BALANCED}),
    "an energy along layers": (UNDER_LAYERS, TWENTY, {"t_end": 2.0, "energy": 4.0}),
    "an energy along a flow map": (flow_map, DEPTH, {"t_end": 1.1, "energy": mf.SA(3.0) - SINES}),
    "an energy on S^2": (
        *(two_bumps, turned(1.0, -1.0, 0.5)),
        {"t_end": 0.2, "save_at": 2, "energy": BALANCED},
    ),
    "an energy along a hand-over": (limited(64), mf.SA(4.0), {"t_end": 6.0, "energy": 2.0}),
    "an energy under noise": (
        *(START, mf.SA(2.0, noise=0.1)),
        {"t_end": 0.5, "energy": mf.DoublyStochastic(1.0)},
    ),
    "balanced noisy tokens": (
        *(tokens(3, 12), mf.DoublyStochastic(2.0, noise=0.05)),
        {"t_start": 0.1, "t_end": 0.4, "max_step": 0.02, "rng": 7},
    ),
}


def run(kind, monitor=MASS["m"], path=None):
    start, dynamics, asked = KINDS[kind]
    asked = {"save_at": 4, "monitors": {"m": monitor}, "checkpoint": path} | asked
    return mf.evolve(start() if callable(start) else start, dynamics, **asked)


@cache
def whole_run(kind):
    """The run that nothing interrupts, and that no test changes."""
    return run(kind)


def rows(quick, *others):
    """Names of kinds, of which all but some are for the slow tier."""
    return [*quick, *(pytest.param(kind, marks=pytest.mark.slow) for kind in others)]


@pytest.mark.parametrize("kind", rows(QUICK, *(kind for kind in KINDS if kind not in QUICK)))
def test_a_resumed_run_is_the_uninterrupted_one(kind, tmp_path):
    """It goes on from the save before the last, in which Ctrl-C comes."""
    path = tmp_path / "run.nc"
    whole, (_, _, asked) = whole_run(kind), KINDS[kind]
    times = save_times(asked.get("t_start", 0.0), asked["t_end"], asked.get("save_at", 4))
    assert whole.t.tolist() == times.tolist()
    if "hand-over" in kind:
        # first from before it, then from after it
        interrupted(run, kind, Interruption(2), path)
        part = interrupted(mf.resume, path, monitors={"m": Interruption(4)})
        assert part.dataset.attrs["hand_over_t"] == whole.dataset.attrs["hand_over_t"] < part.t[-2]
    else:
        part = interrupted(run, kind, Interruption(len(whole)))
        assert part.status == "interrupted"
        part.save(path)
    assert_same(mf.resume(path, monitors=MASS), whole)
    assert_same(mf.load(path), whole)
    assert [file.name for file in tmp_path.iterdir()] == ["run.nc"]


def test_a_resumed_run_keeps_its_collapses(tmp_path):
    """Nodes were held at times before the interruption, and are again after it."""
    path, kind = tmp_path / "run.nc", "kuramoto flow map"
    whole = whole_run(kind)
    # in the last save: the run goes on from the one before
    interrupted(run, kind, Interruption(5), path)
    times = whole.dataset.collapse_time.values
    assert np.count_nonzero(times < whole.t[-2]) > 3
    assert np.count_nonzero(times > whole.t[-2]) > 3
    assert_same(mf.resume(path, monitors=MASS), whole)


@pytest.mark.slow
def test_a_density_that_no_flow_map_follows_is_resumed(tmp_path, monkeypatch):
    """Its limit is the larger one from the leg on in which the flow map was refused."""

    def refuse(*_, **__):
        raise ValueError("no flow map holds it")

    monkeypatch.setattr(mf.FlowMap, "__new__", refuse)
    path, start = tmp_path / "run.nc", mf.Density(mf.Circle(8), BUMPS)
    asked = {"t_end": 3.0, "save_at": 12}
    whole = mf.evolve(start, mf.SA(4.0), monitors=MASS, **asked)
    sizes = whole.dataset["size"].values
    for at in 1 + int(np.argmax(sizes > 32)), 2 + int(np.argmax(sizes > 64)):
        part = interrupted(mf.evolve, start, mf.SA(4.0), monitors={"m": Interruption(at)}, **asked)
        part.save(path)
        assert_same(mf.resume(path, monitors=MASS), whole)


@pytest.mark.parametrize(
    "kind", rows(["circle", "noisy tokens"], "flow map", "gram", "random layers")
)
def test_what_is_between_the_saves_does_not_count(kind, tmp_path):
    """Ctrl-C keeps the present state, but stepping goes on from the last save that was due."""
    path, calls = tmp_path / "run.nc", []

    def strike(measure):
        calls.append(measure)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return measure.mass()

    with hearing_ctrl_c():
        stopped = interrupted(run, kind, strike, path)
    assert stopped.t[-1] not in whole_run(kind).t
    assert_same(mf.resume(path, monitors=MASS), whole_run(kind))


@pytest.mark.slow
def test_label_maps_between_the_saves_do_not_count(tmp_path, monkeypatch):
    """A restart has the label map of the last save that was due, not of meshes laid since."""
    path, after, whole = tmp_path / "run.nc", SphereSystem.after, whole_run("on S^2")

    def struck(system, stepper):
        verdict = after(system, stepper)
        if sum(labels.time > 2.0 for labels in system._history.labels) == 1:
            raise KeyboardInterrupt
        return verdict

    monkeypatch.setattr(SphereSystem, "after", struck)
    part = interrupted(run, "on S^2", path=path)
    assert 2.0 < part.t[-1] < 3.2
    monkeypatch.undo()
    assert_same(mf.resume(path, monitors=MASS), whole)


@pytest.mark.parametrize("kind", rows(["circle"], "flow map", "layers on S^2", "noisy tokens"))
def test_a_run_that_is_interrupted_in_its_first_save_begins_again(kind, tmp_path):
    path = tmp_path / "run.nc"
    part = interrupted(run, kind, Interruption(1), path)
    assert (part.status, part.t.tolist()) == ("interrupted", [0.0])
    assert_same(mf.resume(path, monitors=MASS), whole_run(kind))


@pytest.mark.parametrize("kind", rows(["noisy tokens"], "circle", "flow map"))
def test_a_run_may_be_interrupted_again_and_again(kind, tmp_path):
    """In the first save after `resume`, before it has gone on, and in the next."""
    path = tmp_path / "run.nc"
    interrupted(run, kind, Interruption(3), path)
    for at in 1, 1, 2:
        again = interrupted(mf.resume, path, monitors={"m": Interruption(at)})
        assert again.status == "interrupted"
    assert len(again) < len(whole_run(kind))
    assert_same(mf.resume(path, monitors=MASS), whole_run(kind))


def noisy_tokens(kind, monitor):
    """A run whose generator of some kind holds half of a draw."""
    rng = np.random.Generator(getattr(np.random, kind)(3))
    rng.integers(2, size=3, dtype=np.int32)
    asked = {"save_at": 4, "rng": rng, "max_step": 0.1, "monitors": {"m": monitor}}
    return mf.evolve(tokens(3, 5), mf.SA(1.0, noise=0.1), 1.0, **asked)


@cache
def part_of_noisy_tokens(kind):
    return interrupted(noisy_tokens, kind, Interruption(3))


GENERATORS = "PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"


@pytest.mark.parametrize("kind", rows(GENERATORS[:1], *GENERATORS[1:]))
def test_every_generator_comes_back(kind, tmp_path):
    part_of_noisy_tokens(kind).save(tmp_path / "run.nc")
    resumed = mf.resume(tmp_path / "run.nc", monitors=MASS)
    assert_same(resumed, noisy_tokens(kind, MASS["m"]))


def _with(**changes):
    return lambda rng: rng | {"state": rng["state"] | changes}


# generators, and what makes their states none
BAD_STATES = {
    "no table": ("PCG64", lambda rng: []),
    "a word": ("PCG64", lambda rng: "PCG64"),
    "no kind": ("PCG64", lambda rng: {}),
    "a list of kinds": ("PCG64", lambda rng: rng | {"bit_generator": ["PCG64"]}),
    "another kind": ("PCG64", lambda rng: rng | {"bit_generator": "random"}),
    "a position far beyond": ("MT19937", _with(pos=10**9)),
    "a position before": ("MT19937", _with(pos=-1)),
    "a short key": ("MT19937", _with(key=[1, 2, 3])),
    "a buffer's position": ("Philox", lambda rng: rng | {"buffer_pos": 10**9}),
    "half a position": ("Philox", lambda rng: rng | {"buffer_pos": 3.5}),
    "no state": ("PCG64", lambda rng: rng | {"state": []}),
    "a huge number": ("PCG64", _with(state=1 << 200)),
}


def refused(solution, path, change):
    """What is said of a file whose resumption was changed."""
    spoilt = replace(solution, resumption=deepcopy(solution.resumption))
    change(spoilt.resumption)
    with pytest.raises(ValueError, match=r"run\.nc can't be resumed: |must be those") as error:
        resume_from(spoilt, path / "run.nc", monitors=MASS)
    return str(error.value)


@pytest.mark.parametrize("case", BAD_STATES)
def test_a_state_of_no_generator_is_refused(case, tmp_path):
    """Numpy believes what it is given, and reads beyond its arrays."""
    kind, spoil = BAD_STATES[case]

    def change(resumption):
        state = resumption.numbers["run"]
        state["rng"] = spoil(state["rng"])

    assert "rng must " in refused(part_of_noisy_tokens(kind), tmp_path, change)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A checkpoint that is read and never changed."""
    path = tmp_path_factory.mktemp("stopped") / "run.nc"
    checkpointed(path)
    return path


LOST = ...
# what becomes of the numbers of a file, of those of its run with a point between
DAMAGES = [
    {"run": LOST},
    {"saves": LOST},
    {"records": LOST},
    {"saves": -1},
    {"saves": 99},
    {"saves": float("inf")},
    {"rtol": "a"},
    {"rtol": 1e300},
    {"on_unresolved": "boo"},
    {"run.t": float("nan")},
    {"run.t": -5.0},
    {"run.step_size": -1.0},
    {"run.work": None, "run.t": "a"},
    {"records": {"monitors": ["m"], "collapses": [[1]], "hand_over": None}},
    {"law": {"type": "Nothing"}},
]


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_file_that_is_not_what_it_was_is_refused(damage, stopped, tmp_path):
    def change(resumption):
        for key, value in damage.items():
            *of_run, name = key.split(".")
            table = resumption.numbers["run"] if of_run else resumption.numbers
            table[name] = value
            if value is LOST:
                del table[name]

    assert refused(mf.load(stopped), tmp_path, change)


@pytest.mark.parametrize("times", [[0.0, 1.0], [[0.0, 1.0]], [], [0.0, 2.0, 1.0], [0.0, np.inf]])
def test_times_that_are_not_the_runs_are_refused(times, stopped, tmp_path):
    path, solution = tmp_path / "run.nc", mf.load(stopped)
    solution.resumption = replace(solution.resumption, times=np.array(times))
    solution.save(path)
    with pytest.raises(ValueError, match=r"run\.nc can't be resumed: times must"):
        mf.resume(path, monitors=MASS)


def test_monitors_must_be_those_of_the_run(stopped):
    for monitors in None, {"other": MASS["m"]}, MASS | {"other": MASS["m"]}:
        with pytest.raises(ValueError, match=r"monitors must be those of the run, \['m'\]"):
            mf.resume(stopped, monitors=monitors)


@pytest.mark.slow
def test_other_versions_than_the_checkpoints_are_told(stopped, tmp_path):
    path, solution = tmp_path / "run.nc", mf.load(stopped)
    solution.save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = interrupted(mf.resume, path, monitors={"m": Interruption(2)})
    assert again.status == "interrupted"
    here = solution.versions["scipy"]
    solution.versions["scipy"] = "0.1"
    solution.save(path)
    told = rf"run\.nc was written with scipy 0\.1 \(here {here}\): .* may differ .* last bits"
    with pytest.warns(UserWarning, match=told):
        assert mf.resume(path, monitors=MASS).status == "finished"


def test_a_finished_run_is_given_back(tmp_path):
    path = tmp_path / "run.nc"
    whole = mf.evolve(START, mf.SA(4.0), 1.0, checkpoint=path)
    assert whole.resumption is None
    assert_same(mf.resume(path), whole)
    # the checkpoint before the last may be all that there is, and is not taken away
    path.rename(previous(path))
    assert mf.resume(path).status == "finished"
    assert previous(path).exists()


class Bump:
    """A law of the user's own."""

    dim = 2

    def pdf(self, points):
        return 1.0 + 0.5 * np.asarray(points)[:, 0]

    def sample(self, n, rng):
        raise NotImplementedError


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hand-over", "flow map"])
def test_a_law_that_no_file_can_keep_is_asked_for(kind, tmp_path):
    path = tmp_path / "run.nc"
    start, asked = mf.FlowMap(Bump(), tol=1e-6), {}
    if kind == "hand-over":
        start = mf.Density(mf.Circle(32), Bump(), max_size=64)
        asked = {"on_unresolved": "flow-map"}
    evolve = partial(mf.evolve, start, mf.SA(4.0), 4.0, 6, **asked)
    whole = evolve(monitors=MASS)
    with pytest.warns(UserWarning, match="no file can keep .*Bump.* give it to `resume` as law="):
        interrupted(evolve, monitors={"m": Interruption(4)}, checkpoint=path)
    if kind == "flow map":
        with pytest.raises(ValueError, match="law must be given, that of the start"):
            mf.resume(path, monitors=MASS)
    assert_same(mf.resume(path, monitors=MASS, law=Bump()), whole)
