"""The file of a run that goes on: when it is written, and what is in it when the run is killed."""

import os
import re
import signal
import subprocess
import sys
import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import meanfield as mf
from meanfield.evolution import loaded
from meanfield.evolution.steppers import ExplicitSteps
from tests.children import ENVIRONMENT, child, until
from tests.evolution.interruptions import (
    BUMPS,
    MASS,
    START,
    Interruption,
    arrays,
    assert_same,
    assert_same_measures,
    checkpointed,
    flow_map,
)
from tests.handmade import interrupted, names, previous, tokens, unfinished


def test_a_run_may_change_its_folder(folder):
    (folder / "elsewhere").mkdir()

    def wander(measure):
        os.chdir(folder / "elsewhere")
        return measure.mass()

    mf.evolve(START, mf.SA(4.0), 1.0, 4, monitors={"m": wander}, checkpoint="run.nc")
    assert mf.load(folder / "run.nc").status == "finished"
    assert list((folder / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("checkpoint", [3, "", "no/such/folder/run.nc"])
def test_a_checkpoint_must_have_a_place(checkpoint):
    with pytest.raises(ValueError, match="checkpoint must be the name of a file in a folder"):
        mf.evolve(START, mf.SA(4.0), 1.0, checkpoint=checkpoint)


TOKENS = tokens(3, 5)
EYES = mf.Attention(1.0, [mf.Head(np.eye(4))])
REFUSED = {
    "t_end": {"t_end": -1.0},
    "rtol": {"rtol": 2.0},
    "save_at": {"save_at": [2.0]},
    "monitors": {"monitors": {"energy": MASS["m"]}},
    "max_step": {"max_step": -0.1},
    "dynamics of tokens": {"dynamics": EYES},
    "dynamics of the sphere": {"dynamics": mf.Layers([mf.Attention(1.0, [mf.Head(np.eye(3))])])},
    "dynamics of the circle": {"measure": TOKENS, "dynamics": mf.Kuramoto(2.0)},
    "noise": {"measure": mf.FlowMap(BUMPS), "dynamics": mf.SA(1.0, noise=0.1)},
    "rng": {"measure": TOKENS, "dynamics": mf.SA(1.0, noise=0.1)},
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
    assert names(tmp_path) == sorted(["run.nc", previous(path).name])


@pytest.fixture(scope="module")
def two_checkpoints(tmp_path_factory):
    """The run that nothing interrupts, and its file after one and after two interruptions."""
    path = tmp_path_factory.mktemp("checkpoints") / "run.nc"
    whole = mf.evolve(START, mf.SA(4.0), 1.0, save_at=8, monitors=MASS)
    checkpointed(path, at=3)
    before = path.read_bytes()
    interrupted(mf.resume, path, monitors={"m": Interruption(3)})
    return whole, before, path.read_bytes()


@pytest.mark.parametrize("damage", ["cut short", "a flipped byte", "missing"])
def test_where_the_last_checkpoint_is_damaged_the_one_before_is_used(
    damage, two_checkpoints, tmp_path
):
    path, (whole, before, last) = tmp_path / "run.nc", two_checkpoints
    previous(path).write_bytes(before)
    content = bytearray(last)
    content[content.rindex(b"interrupted at")] ^= 1
    # killed between two renamings there is none for an instant, which is no damage
    warned = nullcontext()
    if damage != "missing":
        path.write_bytes(last[: len(last) // 2] if damage == "cut short" else content)
        warned = pytest.warns(UserWarning, match="before it")
    with warned:
        resumed = mf.resume(path, monitors=MASS)
    assert_same(resumed, whole)
    assert not previous(path).exists()


def test_a_run_does_not_go_on_from_another_ones_checkpoint(two_checkpoints, tmp_path):
    path = tmp_path / "run.nc"
    previous(path).write_bytes(two_checkpoints[1])
    asked = {"monitors": {"m": Interruption(2)}, "checkpoint": path}
    interrupted(mf.evolve, START, mf.SA(1.0), 1.0, **asked)
    path.unlink()
    with pytest.raises(ValueError, match="there is no file"):
        mf.resume(path, monitors=MASS)


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


SPOILT = {
    "circle": lambda: (START, mf.SA(4.0), 1.5),
    "sphere": lambda: (
        mf.Density(mf.Sphere(15), mf.VonMisesFisher([0, 0.6, 0.8], 2)),
        mf.USA(1.0),
        0.5,
    ),
    "zonal": lambda: (mf.Density(mf.Zonal(5, 31), mf.ZonalSeries(5, [0.5])), mf.SA(2.0), 1.0),
    "flow map": lambda: (flow_map(), mf.SA(4.0), 15.0),
    "tokens": lambda: (tokens(3, 40), mf.SA(4.0), 3.0),
}


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("circle", np.inf),
        ("tokens", np.nan),
        *(
            pytest.param(kind, np.nan, marks=pytest.mark.slow)
            for kind in SPOILT
            if kind != "tokens"
        ),
    ],
)
def test_a_state_that_is_no_number_does_not_replace_a_good_one(kind, number, tmp_path, monkeypatch):
    path, (start, dynamics, t_end) = tmp_path / "run.nc", SPOILT[kind]()
    right, steps, last = ExplicitSteps.step, [], np.inf

    def step(self):
        reason = right(self)
        steps.append(self.t)
        if len(steps) >= last:
            self.y[len(self.y) // 3] = number
        return reason

    monkeypatch.setattr(ExplicitSteps, "step", step)
    whole = mf.evolve(start, dynamics, t_end, save_at=8)
    last = 1 + 2 * len(steps) // 3
    steps.clear()
    failed = unfinished(mf.evolve, start, dynamics, t_end, save_at=8, checkpoint=path)
    assert failed.status == "failed"
    assert re.match(
        r"failed at t = [0-9.]+ .*: the field is not finite, its numbers are too large",
        failed.message,
    )
    kept = mf.load(path)
    assert 0.0 < kept.t[-1] < whole.t[-1]
    assert all(np.isfinite(x).all() for measure in kept.measures for x in arrays(measure))
    # the last is that of the step before
    assert_same_measures(kept[:-1], whole[: len(kept) - 1])


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
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        whole = mf.evolve(START, mf.SA(4.0), 1.0, 4, checkpoint=path)
    assert [str(each.message).partition(": can't write")[0] for each in warned] == [
        # of those at 0.5 and 0.75, which a long run would have thousands of
        "no checkpoint at t = 0.5",
        "the solution is not saved",
    ]
    assert names(tmp_path) == ["run.nc"]
    assert mf.load(path).t[-1] == 0.25
    monkeypatch.setattr(mf.Solution, "save", save)
    resumed = mf.resume(path)
    assert_same(resumed, whole)
    assert (whole.file, resumed.file) == (None, path)


# 143 of 150 saves are at the ends of layers but for rounding, and not to the bit
DEEP = mf.Layers([mf.SA(1.0), mf.SA(2.0), mf.USA(0.5)] * 50, step=0.009)
# runs that are killed after some of their saves, and how many they have
KILLED = {
    "density": lambda: (mf.Density(START.space, BUMPS, max_size=2048), mf.SA(4.0), 2.2, 400),
    "flow map saved where layers end": lambda: (flow_map(), DEEP, 1.35, 150),
}
# one process imports the package, and each run has a copy of it
KILLING = """
import os
from tests.evolution.test_checkpoint import KILLED, mf
for kind, arguments in KILLED.items():
    if not (pid := os.fork()):
        mf.evolve(*arguments(), checkpoint=f"{kind}.nc")
        os._exit(0)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def kill_one(kind, process, folder):
    """Kill the next run as soon as it has two checkpoints, the second of which is not at t = 0."""
    path, pid = folder / f"{kind}.nc", int(process.stdout.readline())
    until(lambda: path.exists() and previous(path).exists(), process)
    os.kill(pid, signal.SIGKILL)
    assert process.stdout.readline() == f"{-signal.SIGKILL}\n"


@pytest.mark.slow
def test_a_killed_process_leaves_what_can_be_resumed(tmp_path):
    options = {"cwd": tmp_path, "env": ENVIRONMENT, "stdout": subprocess.PIPE, "text": True}
    with child([sys.executable, "-c", KILLING], **options) as process:
        for kind in KILLED:
            kill_one(kind, process, tmp_path)
    for kind, arguments in KILLED.items():
        path, whole = tmp_path / f"{kind}.nc", mf.evolve(*arguments())
        assert 1 < len(loaded(path).t) < len(whole.t)
        assert_same(mf.resume(path), whole)
    assert names(tmp_path) == sorted(f"{kind}.nc" for kind in KILLED)
