"""A run that is killed goes on as if nothing had happened, bit for bit."""

import os
import re
import signal
import sys
import warnings
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from itertools import count

import numpy as np
import pytest

import meanfield as mf
from meanfield.evolution import loaded
from meanfield.evolution.flow_system import SphereSystem
from meanfield.evolution.loop import save_times
from meanfield.evolution.steppers import ExplicitSteps
from tests.children import ENVIRONMENT, child, hearing_ctrl_c, until
from tests.handmade import interrupted, previous, tokens, unfinished

BUMPS = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
START, COARSE = mf.Density(mf.Circle(32), BUMPS), mf.Density(mf.Circle(16), BUMPS)
SLANTED = mf.VonMisesFisher([0.0, 0.6, 0.8], 2.0)
AXIS = [0.0, 0.6, 0.0, 0.8, 0.0]
HEAD = mf.Head(*np.random.default_rng(3).normal(size=(3, 4, 4)))
HEADS = mf.Attention(1.0, [mf.Head(*np.random.default_rng(5).normal(size=(3, 2, 2)))])
DEPTH = mf.Layers([HEADS, mf.SA(2.0), mf.USA(0.5)], step=0.4)
SINES = mf.CircleInteraction(sin=[1.0, 0.3], coupling=2.0)
BALANCED = mf.DoublyStochastic(2.0)
ATTENTION = mf.Attention(1.0, [HEAD])


def attention():
    return mf.Attention(1.0, [mf.Head(V=np.diag([1.0, -1.0]))])


LAYERS = mf.Layers([mf.SA(1.0), mf.Attention(1.0, [HEAD]), mf.USA(0.5)], step=0.7)
# 0.35 k is at no save but for rounding
SIX = mf.Layers([mf.SA(1.0), mf.SA(2.0), mf.USA(0.5)] * 2, step=0.35)
SAVED_AT_ENDS = {"t_end": 2.1, "save_at": 6}
DISCRETE = mf.LayerMap(mf.Layers([one for one in LAYERS.layers for _ in range(7)]), step=0.1)


def oscillators(n):
    rng = np.random.default_rng(2)
    return mf.Oscillators(
        *rng.normal(scale=4.0, size=(2, n)), weights=rng.uniform(size=n), unit_mass=True
    )


def a_flow():
    return mf.FlowMap(BUMPS, tol=1e-6)


def two_bumps():
    other = mf.VonMisesFisher([0.0, 1.0, 0.0], 2.0)
    return mf.FlowMap(mf.Mixture([SLANTED, other], [0.3, 0.7]), tol=1e-5)


# what a run begins with, and the arguments of evolve
KINDS = {
    "circle": lambda: (START, mf.SA(4.0), {"t_end": 1.5}),
    "sphere": lambda: (mf.Density(mf.Sphere(15), SLANTED), mf.USA(1.0), {"t_end": 0.5}),
    "zonal": lambda: (
        mf.Density(mf.Zonal(5, 31, AXIS), mf.ZonalSeries(5, [0.5], AXIS)),
        mf.SA(2.0),
        {"t_end": 1.0},
    ),
    "noise": lambda: (START, mf.USA(1.0, noise=0.3), {"t_end": 1.0}),
    "flow map": lambda: (a_flow(), mf.SA(4.0), {"t_end": 15.0}),
    "about an axis": lambda: (
        mf.FlowMap(mf.VonMisesFisher(AXIS, 2.0)),
        mf.USA(1.0),
        {"t_end": 2.0},
    ),
    "on S^2": lambda: (two_bumps(), mf.SA(2.0), {"t_end": 1.5}),
    "hand-over": lambda: (
        mf.Density(START.space, START.law, max_size=256),
        mf.SA(4.0),
        {"t_end": 6.0, "on_unresolved": "flow-map"},
    ),
    "tokens": lambda: (tokens(3, 40), mf.SA(4.0), {"t_end": 3.0}),
    "tokens on the circle": lambda: (tokens(2, 3000), mf.SA(4.0), {"t_end": 3.0}),
    "gram": lambda: (tokens(64, 8), mf.SA(4.0), {"t_end": 3.0}),
    "layers": lambda: (tokens(4, 20), LAYERS, {"t_end": 2.0}),
    "discrete": lambda: (tokens(4, 20), DISCRETE, {"t_end": 2.1}),
    "balanced density": lambda: (START, BALANCED, {"t_end": 1.0}),
    # at the default tolerance, with more meshes
    "flow map, finer": lambda: (mf.FlowMap(BUMPS), mf.SA(4.0), {"t_end": 15.0}),
    "balanced flow map": lambda: (a_flow(), BALANCED, {"t_end": 1.0}),
    "balanced tokens": lambda: (tokens(3, 40), BALANCED, {"t_end": 1.0}),
    "balanced on S^2": lambda: (two_bumps(), BALANCED, {"t_end": 0.4}),
    "heads on a density": lambda: (START, HEADS, {"t_end": 1.0}),
    "layers on a density": lambda: (START, DEPTH, {"t_end": 1.1}),
    "layers on a flow map": lambda: (a_flow(), DEPTH, {"t_end": 1.1}),
    "layers on S^2": lambda: (
        two_bumps(),
        mf.Layers(
            [mf.SA(1.0), mf.Attention(1.0, [mf.Head(V=np.diag([1.0, -1.0, 0.5]))])], step=0.5
        ),
        {"t_end": 0.8},
    ),
    "kuramoto density": lambda: (COARSE, SINES, {"t_end": 2.0}),
    "kuramoto noise": lambda: (COARSE, mf.Kuramoto(3.0, noise=0.3), {"t_end": 1.0}),
    "kuramoto flow map": lambda: (a_flow(), SINES, {"t_end": 12.0}),
    "kuramoto tokens": lambda: (tokens(2, 40), SINES, {"t_end": 3.0}),
    "oscillator density": lambda: (
        mf.OscillatorDensity(mf.Circle(16), BUMPS, *mf.gaussian_frequencies(1.0, 5, centre=7.0)),
        SINES,
        {"t_end": 1.5},
    ),
    "oscillator density with widths": lambda: (
        mf.OscillatorDensity(mf.Circle(16), BUMPS, [-5.0, 1.0], [1, 2], [0.5, 0.2], unit_mass=True),
        mf.Kuramoto(2.0, noise=0.1),
        {"t_end": 2.0},
    ),
    "oscillators": lambda: (oscillators(60), SINES, {"t_end": 3.0}),
    "noisy oscillators": lambda: (
        oscillators(20),
        mf.Kuramoto(1.0, noise=0.2),
        {"t_end": 1.0, "rng": np.random.default_rng(7)},
    ),
    "tied layers": lambda: (tokens(4, 20), mf.Layers([ATTENTION] * 4, step=0.5), {"t_end": 2.0}),
    "equal layers": lambda: (
        tokens(2, 20),
        mf.Layers([mf.SA(1.0), mf.SA(1.0), attention(), attention()], step=0.5),
        {"t_start": 0.3, "t_end": 2.0},
    ),
    # saves on the ends of layers but for rounding
    "density saved where layers end": lambda: (START, SIX, SAVED_AT_ENDS),
    "flow map saved where layers end": lambda: (a_flow(), SIX, SAVED_AT_ENDS),
    "tokens saved where layers end": lambda: (tokens(4, 20), SIX, SAVED_AT_ENDS),
    "saved where layers end on S^2": lambda: (two_bumps(), SIX, SAVED_AT_ENDS),
    "hand-over where layers end": lambda: (
        mf.Density(START.space, START.law, max_size=32),
        SIX,
        {"on_unresolved": "flow-map", **SAVED_AT_ENDS},
    ),
    "saved where discrete layers end": lambda: (
        tokens(4, 20),
        mf.LayerMap(SIX, step=0.35),
        SAVED_AT_ENDS,
    ),
    "saved where layers end after a start": lambda: (
        START,
        mf.Layers([mf.SA(1.0 + k % 3) for k in range(10)], step=0.3),
        {"t_start": 0.3, "t_end": 2.7, "save_at": 8},
    ),
    "USA at large beta": lambda: (START, mf.USA(300.0), {"t_end": 1e-131}),
    "noisy tokens": lambda: (
        tokens(3, 20),
        mf.SA(1.0, noise=0.1),
        {"t_end": 1.0, "rng": np.random.default_rng(7)},
    ),
    "balanced noisy tokens": lambda: (
        tokens(3, 12),
        mf.DoublyStochastic(2.0, noise=0.05),
        {"t_start": 0.1, "t_end": 0.4, "max_step": 0.02, "rng": np.random.default_rng(7)},
    ),
}


class Interruption:
    """A monitor that stands for Ctrl-C at its n-th call."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, measure):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return measure.mass()


def mass(measure):
    return measure.mass()


def run(kind, monitor=mass, path=None):
    measure, dynamics, asked = KINDS[kind]()
    asked = {"save_at": 4, "monitors": {"m": monitor}, "checkpoint": path} | asked
    return mf.evolve(measure, dynamics, **asked)


@cache
def whole_run(kind):
    """One that nothing interrupts, and that no test changes."""
    return run(kind)


def arrays(measure):
    names = ["coefficients", "angles", "expansion", "log_density", "frequencies", "widths", "parts"]
    if not isinstance(measure, mf.Density):
        # those of a density are its values, and a file keeps its coefficients, not its law
        names += ["points", "weights"]
    return [x for x in (getattr(measure, name, None) for name in names) if x is not None]


def assert_same(one, other):
    assert one.status == other.status
    assert one.message == other.message
    assert one.dataset.identical(other.dataset)
    assert len(one.measures) == len(other.measures)
    for a, b in zip(one.measures, other.measures, strict=True):
        assert type(a) is type(b)
        for x, y in zip(arrays(a), arrays(b), strict=True):
            np.testing.assert_array_equal(x, y)
    assert (one._history is None) == (other._history is None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_is_the_uninterrupted_one(kind, tmp_path):
    path = tmp_path / "run.nc"
    whole, (_, _, asked) = whole_run(kind), KINDS[kind]()
    times = save_times(asked.get("t_start", 0.0), asked["t_end"], asked.get("save_at", 4))
    if kind != "discrete":
        assert whole.t.tolist() == times.tolist()
    # at the first save after t = 0, and once more on the way
    part = interrupted(run, kind, Interruption(2), path)
    assert part.status == "interrupted"
    again = interrupted(mf.resume, path, monitors={"m": Interruption(3)})
    assert again.status == "interrupted"
    assert len(again.t) < len(whole.t)
    resumed = mf.resume(path, monitors={"m": mass})
    assert_same(resumed, whole)
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
    assert_same(mf.resume(path, monitors={"m": mass}), whole)


@pytest.mark.slow
def test_a_density_that_no_flow_map_follows_is_resumed(tmp_path, monkeypatch):
    """Its limit is the larger one from the leg on in which the flow map was refused."""

    def refuse(*_, **__):
        raise ValueError("no flow map holds it")

    monkeypatch.setattr(mf.FlowMap, "__new__", refuse)
    path, start = tmp_path / "run.nc", mf.Density(mf.Circle(8), BUMPS)
    asked = {"t_end": 3.0, "save_at": 12}
    whole = mf.evolve(start, mf.SA(4.0), monitors={"m": mass}, **asked)
    sizes = whole.dataset["size"].values
    for at in 1 + int(np.argmax(sizes > 32)), 2 + int(np.argmax(sizes > 64)):
        asked |= {"monitors": {"m": Interruption(at)}, "checkpoint": path}
        interrupted(mf.evolve, start, mf.SA(4.0), **asked)
        assert_same(mf.resume(path, monitors={"m": mass}), whole)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["circle", "flow map", "gram", "noisy tokens"])
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
    assert_same(mf.resume(path, monitors={"m": mass}), whole_run(kind))


@pytest.mark.slow
@pytest.mark.parametrize("tol", [1e-5, 1e-6])
def test_label_maps_between_the_saves_do_not_count(tol, tmp_path, monkeypatch):
    """A restart has the label map of the last save that was due, not of meshes laid since."""
    laws = [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)]
    path, start = tmp_path / "run.nc", mf.FlowMap(mf.Mixture(laws, [0.6, 0.4]), tol=tol)
    asked = {"t_end": 3.0, "save_at": [0.0, 1.2, 3.0]}
    whole = mf.evolve(start, mf.SA(4.0), **asked)
    after = SphereSystem.after

    def struck(system, stepper):
        verdict = after(system, stepper)
        if sum(one.time > 1.2 for one in system._history.labels) == 2:
            raise KeyboardInterrupt
        return verdict

    monkeypatch.setattr(SphereSystem, "after", struck)
    part = interrupted(mf.evolve, start, mf.SA(4.0), checkpoint=path, **asked)
    assert 1.2 < part.t[-1] < 3.0
    monkeypatch.undo()
    assert_same(mf.resume(path), whole)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["circle", "flow map", "on S^2", "gram", "noisy tokens"])
def test_a_run_that_is_interrupted_in_its_first_save_begins_again(kind, tmp_path):
    path = tmp_path / "run.nc"
    part = interrupted(run, kind, Interruption(1), path)
    assert (part.status, part.t.tolist()) == ("interrupted", [0.0])
    assert_same(mf.resume(path, monitors={"m": mass}), whole_run(kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["circle", "flow map"])
def test_a_run_that_is_interrupted_before_it_has_gone_on_is_not_lost(kind, tmp_path):
    """Ctrl-C in the first save after `resume`, twice."""
    path = tmp_path / "run.nc"
    interrupted(run, kind, Interruption(3), path)
    for _ in range(2):
        again = interrupted(mf.resume, path, monitors={"m": Interruption(1)})
        assert again.status == "interrupted"
    assert_same(mf.resume(path, monitors={"m": mass}), whole_run(kind))


@pytest.mark.slow
def test_a_run_may_change_its_folder(folder):
    (folder / "elsewhere").mkdir()

    def wander(measure):
        os.chdir(folder / "elsewhere")
        return measure.mass()

    mf.evolve(START, mf.SA(4.0), 1.0, 4, monitors={"m": wander}, checkpoint="run.nc")
    assert mf.load(folder / "run.nc").status == "finished"
    assert list((folder / "elsewhere").iterdir()) == []


# of variables, and of dimensions, with which a file could not be read again
NAMES = ["resume_score", "dynamics_matrix_0", "points", "t"]
DIMENSIONS = ["point", "axis", "held", "panel", "frequency", "history_node", "collapse"]
# of groups of variables, and of none
GROUPS = ["a/b", "/", ".", ""]


@pytest.mark.parametrize("name", NAMES + DIMENSIONS + GROUPS)
def test_names_that_files_need_are_no_monitors(name):
    with pytest.raises(ValueError, match=f"monitors must map new names .* got '{name}'"):
        mf.evolve(START, mf.SA(4.0), 1.0, monitors={name: mass})


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


def noisy(kind):
    """A run of noisy tokens up to Ctrl-C, and the whole of it."""
    for monitor in Interruption(3), mass:
        rng = np.random.Generator(getattr(np.random, kind)(3))
        rng.integers(2, size=3, dtype=np.int32)
        asked = {"save_at": 4, "rng": rng, "max_step": 0.1, "monitors": {"m": monitor}}
        run = mf.evolve if monitor is mass else partial(interrupted, mf.evolve)
        yield run(tokens(3, 5), mf.SA(1.0, noise=0.1), 1.0, **asked)


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD_STATES)
def test_a_state_of_no_generator_is_refused(case, tmp_path):
    """Numpy believes what it is given, and reads beyond its arrays."""
    kind, spoil = BAD_STATES[case]
    part = next(noisy(kind))
    state = part._resumption.numbers["run"]
    state["rng"] = spoil(state["rng"])
    part.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"run\.nc can't be resumed: rng must "):
        mf.resume(tmp_path / "run.nc", monitors={"m": mass})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"])
def test_every_generator_comes_back(kind, tmp_path):
    part, whole = noisy(kind)
    part.save(tmp_path / "run.nc")
    assert_same(mf.resume(tmp_path / "run.nc", monitors={"m": mass}), whole)


@pytest.mark.slow
def test_a_finished_run_is_given_back(tmp_path):
    path = tmp_path / "run.nc"
    whole = mf.evolve(START, mf.SA(4.0), 1.0, checkpoint=path)
    assert whole._resumption is None
    assert_same(mf.resume(path), whole)
    # the checkpoint before the last may be all that there is, and is not taken away
    path.rename(previous(path))
    assert mf.resume(path).status == "finished"
    assert previous(path).exists()


def checkpointed(path, at=4):
    asked = {"monitors": {"m": Interruption(at)}, "checkpoint": path}
    interrupted(mf.evolve, START, mf.SA(4.0), 1.0, save_at=8, **asked)


@pytest.mark.slow
def test_monitors_must_be_those_of_the_run(tmp_path):
    checkpointed(tmp_path / "run.nc")
    for monitors in None, {"other": mass}, {"m": mass, "other": mass}:
        with pytest.raises(ValueError, match=r"monitors must be those of the run, \['m'\]"):
            mf.resume(tmp_path / "run.nc", monitors=monitors)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut short", "a flipped byte", "missing"])
def test_where_the_last_checkpoint_is_damaged_the_one_before_is_used(damage, tmp_path):
    path = tmp_path / "run.nc"
    whole = mf.evolve(START, mf.SA(4.0), 1.0, save_at=8, monitors={"m": mass})
    checkpointed(path, at=3)
    before = path.read_bytes()
    interrupted(mf.resume, path, monitors={"m": Interruption(3)})
    previous(path).write_bytes(before)
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "cut short":
        path.write_bytes(content[: len(content) // 2])
    else:
        content[content.rindex(b"interrupted at")] ^= 1
        path.write_bytes(content)
    # killed between two renamings there is none for an instant, which is no damage
    told = nullcontext() if damage == "missing" else pytest.warns(UserWarning, match="before it")
    with told:
        resumed = mf.resume(path, monitors={"m": mass})
    assert_same(resumed, whole)
    assert not previous(path).exists()


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


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A checkpoint that is read and never changed."""
    path = tmp_path_factory.mktemp("stopped") / "run.nc"
    checkpointed(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_file_that_is_not_what_it_was_is_refused(damage, stopped, tmp_path):
    path, solution = tmp_path / "run.nc", mf.load(stopped)
    numbers = solution._resumption.numbers
    for key, value in damage.items():
        *of_run, name = key.split(".")
        table = numbers["run"] if of_run else numbers
        table[name] = value
        if value is LOST:
            del table[name]
    solution.save(path)
    message = r"run\.nc can't be resumed: |monitors must be those of the run"
    with pytest.raises(ValueError, match=message):
        mf.resume(path, monitors={"m": mass})


@pytest.mark.slow
@pytest.mark.parametrize("times", [[0.0, 1.0], [[0.0, 1.0]], [], [0.0, 2.0, 1.0], [0.0, np.inf]])
def test_times_that_are_not_the_runs_are_refused(times, stopped, tmp_path):
    path, solution = tmp_path / "run.nc", mf.load(stopped)
    solution._resumption = replace(solution._resumption, times=np.array(times))
    solution.save(path)
    with pytest.raises(ValueError, match=r"run\.nc can't be resumed: times must"):
        mf.resume(path, monitors={"m": mass})


class Bump:
    """A law of the user's own."""

    dim = 2

    def pdf(self, points):
        return 1.0 + 0.5 * np.asarray(points)[:, 0]

    def sample(self, n, rng):
        raise NotImplementedError


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flow map", "hand-over"])
def test_a_law_that_no_file_can_keep_is_asked_for(kind, tmp_path):
    path = tmp_path / "run.nc"
    start, asked = mf.FlowMap(Bump(), tol=1e-6), {}
    if kind == "hand-over":
        start = mf.Density(mf.Circle(32), Bump(), max_size=64)
        asked = {"on_unresolved": "flow-map"}
    whole = mf.evolve(start, mf.SA(4.0), 4.0, 6, monitors={"m": mass}, **asked)
    asked |= {"monitors": {"m": Interruption(4)}, "checkpoint": path}
    with pytest.warns(UserWarning, match="no file can keep .*Bump.* give it to `resume` as law="):
        interrupted(mf.evolve, start, mf.SA(4.0), 4.0, 6, **asked)
    if kind == "flow map":
        with pytest.raises(ValueError, match="law must be given, that of the start"):
            mf.resume(path, monitors={"m": mass})
    assert_same(mf.resume(path, monitors={"m": mass}, law=Bump()), whole)


@pytest.mark.slow
def test_a_run_does_not_go_on_from_another_ones_checkpoint(tmp_path):
    path = tmp_path / "run.nc"
    checkpointed(path)
    path.rename(previous(path))
    asked = {"monitors": {"m": Interruption(2)}, "checkpoint": path}
    interrupted(mf.evolve, START, mf.SA(1.0), 1.0, **asked)
    path.unlink()
    with pytest.raises(ValueError, match="there is no file"):
        mf.resume(path, monitors={"m": mass})


@pytest.mark.slow
def test_a_nan_does_not_replace_a_good_checkpoint(tmp_path, monkeypatch):
    path, written = tmp_path / "run.nc", []
    save = mf.Solution.save

    def remembered(self, where):
        written.append(self.dataset["m"].values.copy())
        save(self, where)

    monkeypatch.setattr(mf.Solution, "save", remembered)
    values = iter([1.0, 1.0, np.nan, 1.0])
    monitors = {"m": lambda _: next(values)}
    asked = {"save_at": 3, "monitors": monitors, "checkpoint": path}
    solution = unfinished(mf.evolve, START, mf.SA(4.0), 1.0, **asked)
    assert solution.status == "failed"
    # the last is the whole solution of the run that failed
    assert all(np.isfinite(numbers).all() for numbers in written[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["circle", "sphere", "zonal", "flow map", "tokens"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_state_that_is_no_number_does_not_replace_a_good_one(kind, number, tmp_path, monkeypatch):
    path, (mu, dynamics, options) = tmp_path / "run.nc", KINDS[kind]()
    right, taken, last = ExplicitSteps.step, [], np.inf

    def step(self):
        reason = right(self)
        taken.append(self.t)
        if len(taken) >= last:
            self.y[len(self.y) // 3] = number
        return reason

    monkeypatch.setattr(ExplicitSteps, "step", step)
    whole = mf.evolve(mu, dynamics, save_at=8, **options)
    last = 1 + 2 * len(taken) // 3
    taken.clear()
    failed = unfinished(mf.evolve, mu, dynamics, save_at=8, checkpoint=path, **options)
    assert failed.status == "failed"
    assert re.match(r"failed at t = [0-9.]+ .*: the state is no longer finite", failed.message)
    kept = mf.load(path)
    assert 0.0 < kept.t[-1] < whole.t[-1]
    assert all(np.isfinite(x).all() for measure in kept.measures for x in arrays(measure))
    # the last is that of the step before
    for measure, good in zip(kept.measures[:-1], whole.measures, strict=False):
        for x, y in zip(arrays(measure), arrays(good), strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.slow
def test_a_write_that_fails_leaves_the_last_good_checkpoint_in_its_place(tmp_path, monkeypatch):
    path, saves = tmp_path / "run.nc", []
    save = mf.Solution.save

    def full_after_two(self, where):
        saves.append(where)
        if len(saves) > 2:
            raise OSError(f"can't write {where}: no space left on device")
        save(self, where)

    monkeypatch.setattr(mf.Solution, "save", full_after_two)
    # no time goes by, so that each save has a checkpoint
    monkeypatch.setattr("time.monotonic", lambda: 1.0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        whole = mf.evolve(START, mf.SA(4.0), 1.0, 4, checkpoint=path)
    said = [str(one.message).partition(": can't write")[0] for one in told]
    assert said == [
        # of those at 0.5 and 0.75, which a long run would have thousands of
        "no checkpoint at t = 0.5",
        "the solution is not saved",
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["run.nc"]
    assert mf.load(path).t[-1] == 0.25
    monkeypatch.setattr(mf.Solution, "save", save)
    resumed = mf.resume(path)
    assert_same(resumed, whole)
    assert (whole._file, resumed._file) == (None, path)


@pytest.mark.slow
def test_other_versions_than_the_checkpoints_are_told(tmp_path):
    path = tmp_path / "run.nc"
    checkpointed(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = interrupted(mf.resume, path, monitors={"m": Interruption(2)})
    assert again.status == "interrupted"
    solution = mf.load(path)
    here = solution._versions["scipy"]
    solution._versions["scipy"] = "0.1"
    solution.save(path)
    told = rf"run\.nc was written with scipy 0\.1 \(here {here}\): .* may differ .* last bits"
    with pytest.warns(UserWarning, match=told):
        assert mf.resume(path, monitors={"m": mass}).status == "finished"


@pytest.mark.parametrize("checkpoint", [3, "", "no/such/folder/run.nc"])
def test_a_checkpoint_must_have_a_place(checkpoint):
    with pytest.raises(ValueError, match="checkpoint must be the name of a file in a folder"):
        mf.evolve(START, mf.SA(4.0), 1.0, checkpoint=checkpoint)


REFUSED = {
    "t_end": {"t_end": -1.0},
    "rtol": {"rtol": 2.0},
    "save_at": {"save_at": [2.0]},
    "monitors": {"monitors": {"energy": mass}},
    "max_step": {"max_step": 0.1},
    "dynamics of tokens": {"dynamics": mf.Attention(1.0, [HEAD])},
    "dynamics of the sphere": {"dynamics": mf.Layers([mf.Attention(1.0, [mf.Head(np.eye(3))])])},
    "dynamics of the circle": {"measure": tokens(3, 5), "dynamics": SINES},
    "noise": {"measure": mf.FlowMap(BUMPS), "dynamics": mf.SA(1.0, noise=0.1)},
    "rng": {"measure": tokens(3, 5), "dynamics": mf.SA(1.0, noise=0.1)},
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_run_leaves_the_file_as_it_was(name, tmp_path):
    path = tmp_path / "run.nc"
    path.write_bytes(b"a run before")
    previous(path).write_bytes(b"its checkpoint before")
    asked = {"measure": START, "dynamics": mf.SA(4.0), "t_end": 1.0} | REFUSED[name]
    with pytest.raises(ValueError, match="must"):
        mf.evolve(checkpoint=path, **asked)
    assert path.read_bytes() == b"a run before"
    assert previous(path).read_bytes() == b"its checkpoint before"
    assert sorted(tmp_path.iterdir()) == sorted([path, previous(path)])


# 143 of 150 saves are at the ends of layers but for rounding, and not to the bit
DEEP = mf.Layers([mf.SA(1.0), mf.SA(2.0), mf.USA(0.5)] * 50, step=0.009)
# what is killed after some of its saves, and how many it has
KILLED = {
    "density": (mf.Density(START.space, BUMPS, max_size=2048), mf.SA(4.0), 2.2, 800),
    "density saved where layers end": (START, DEEP, 1.35, 150),
    "flow map saved where layers end": (a_flow(), DEEP, 1.35, 150),
    "tokens saved where layers end": (tokens(4, 50), DEEP, 1.35, 150),
}
KILLING = """
import sys
from tests.evolution.test_resume import KILLED, mf
mf.evolve(*KILLED[sys.argv[1]], checkpoint="run.nc")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KILLED)
def test_a_killed_process_leaves_what_can_be_resumed(kind, tmp_path):
    path, program = tmp_path / "run.nc", [sys.executable, "-c", KILLING, kind]
    with child(program, cwd=tmp_path, env=ENVIRONMENT) as process:
        # the second is there, which is not that at t = 0
        until(lambda: path.exists() and previous(path).exists(), process)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    whole = mf.evolve(*KILLED[kind])
    assert 1 < len(loaded(path).t) < len(whole.t)
    assert_same(mf.resume(path), whole)
    assert [file.name for file in tmp_path.iterdir()] == ["run.nc"]


def test_lines_of_progress(capsys, monkeypatch):
    # two minutes pass at each look at the clock
    monkeypatch.setattr("time.monotonic", count(0.0, 120.0).__next__)
    mf.evolve(START, mf.SA(4.0), 0.1, progress="lines")
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("t = ") and "E_β/|E_β(δ)| = " in line for line in lines)
