"""Ctrl-C where a right-hand side takes long, and what a run says of that before it begins."""

import logging
import os
import signal
import threading
import time
from itertools import count

import numpy as np
import pytest

import meanfield as mf
from meanfield.cli.commands import main
from meanfield.equations import tokens
from meanfield.evolution import progress
from meanfield.evolution.run import Plan, Run
from meanfield.evolution.settings import Settings
from meanfield.kernels import direct
from tests.children import handled, hearing_ctrl_c
from tests.handmade import interrupted


def cloud(n, dim, **asked):
    return mf.Particles.sample(mf.Uniform(dim), n, rng=0, **asked)


HEADS = [mf.Head(Q=np.diag([1.0, 2.0, 3.0, 1.0, 1.0])), mf.Head(V=np.diag([1.0, 1.0, -1.0, 1, 1]))]
# each sums over pairs of tokens in many blocks
KINDS = {
    "SA": (cloud(700, 5), mf.SA(2.0)),
    "many dimensions": (cloud(1100, 260), mf.SA(2.0)),
    "steep": (cloud(1100, 5), mf.SA(400.0)),
    "float32": (cloud(1100, 64, sums="float32"), mf.USA(2.0)),
    "heads": (cloud(700, 5), mf.Attention(1.0, HEADS)),
    "kernel": (cloud(700, 5), mf.Interaction([1.0, 1.0, 0.25])),
    "doubly stochastic": (cloud(4200, 5), mf.DoublyStochastic(1.0)),
    "layers": (cloud(700, 5), mf.LayerMap(mf.SA(1.0), step=0.25)),
    "noise": (cloud(700, 5), mf.SA(2.0, noise=0.1)),
}


class Blocks:
    """Blocks of sums over pairs; one, once it is armed, hears Ctrl-C and ends by nothing else."""

    def __init__(self):
        self.is_armed = False
        self.count, self.struck = 0, 0

    def __call__(self, rows, columns, most=1 << 20):
        for part in self.whole(rows, columns, most):
            self.count += 1
            if self.is_armed:
                if not self.struck:
                    # before, since it may be heard at once
                    self.struck = self.count
                    os.kill(os.getpid(), signal.SIGINT)
                # long enough for any reminder: where none comes, the count goes on
                for _ in range(300):
                    time.sleep(0.01)
            yield part

    whole = staticmethod(direct.blocks)


@pytest.fixture
def blocks(monkeypatch):
    found = Blocks()
    monkeypatch.setattr(direct, "blocks", found)
    monkeypatch.setattr(progress, "_PATIENCE", 0.01)
    with hearing_ctrl_c():
        yield found


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_does_not_wait_for_a_first_right_hand_side(kind, blocks):
    start, dynamics = KINDS[kind]
    blocks.is_armed = True
    asked = {"rng": 0} if kind == "noise" else {}
    sol = interrupted(mf.evolve, start, dynamics, 0.5, 2, rtol=1e-4, atol=1e-4, **asked)
    assert blocks.count == blocks.struck == 1
    assert sol.t.tolist() == [0.0]
    assert sol.final is start
    assert sol.message == (
        "interrupted at t = 0: what was computed so far is kept, the last measure without most of "
        "its numbers"
    )


@pytest.mark.parametrize("kind", ["SA", "layers"])
def test_ctrl_c_drops_a_step_and_keeps_what_was_before_it(kind, blocks, tmp_path):
    start, dynamics = KINDS[kind]
    times = []

    def arm(t):
        times.append(t)
        blocks.is_armed = len(times) == 1

    path = tmp_path / "run.nc"
    asked = {"t_end": 1.0, "save_at": 1, "rtol": 1e-2, "atol": 1e-2}
    sol = interrupted(mf.evolve, start, dynamics, progress=arm, checkpoint=path, **asked)
    # one block of the step, and one of the save of the step before
    assert blocks.count == blocks.struck + 1
    assert sol.t.tolist() == [0.0, times[-1]]
    blocks.is_armed = False
    # the present state is that of the last whole step, and a resumed run knows of no other
    again, whole = mf.resume(path), mf.evolve(start, dynamics, **asked)
    assert again.dataset.identical(whole.dataset)
    between = mf.evolve(start, dynamics, **asked | {"save_at": [times[-1]]})
    if kind == "layers":
        assert np.array_equal(between.at(times[-1]).points, sol.final.points)
    assert np.abs(between.at(times[-1]).points - sol.final.points).max() < 1e-2


def test_ctrl_c_does_not_wait_for_a_monitor(monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.01)
    calls = []

    def long(measure):
        calls.append(measure)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(300):
                time.sleep(0.01)
            calls.append("the end")
        return 1.0

    start = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    with hearing_ctrl_c():
        sol = interrupted(mf.evolve, start, mf.SA(1.0), 1.0, 2, monitors={"long": long})
    assert len(calls) == 2
    assert sol.t.tolist() == [0.0, 0.5]
    assert np.isfinite(sol.dataset.energy).all()
    assert sol.dataset.long[0] == 1.0
    assert np.isnan(sol.dataset.long[1])


def test_a_reminder_never_meets_the_handler_of_others(monkeypatch):
    """Whatever ends first, Ctrl-C is given back with nothing on its way."""
    monkeypatch.setattr(progress, "_PATIENCE", 1e-4)
    heard = []

    def deaf():
        with progress.DeferredInterrupt():
            os.kill(os.getpid(), signal.SIGINT)
            # what is not interruptible is waited for
            time.sleep(1e-3)
            heard.append("whole")

    with hearing_ctrl_c():
        for _ in range(50):
            with pytest.raises(KeyboardInterrupt):
                deaf()
            with handled(signal.SIGINT, lambda *_: heard.append("late")):
                time.sleep(1e-3)
    assert heard == ["whole"] * 50


class Late(threading.Event):
    """Ctrl-C comes when it is set."""

    def set(self):
        super().set()
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_is_given_back_whenever_a_second_one_comes():
    def twice():
        with progress.DeferredInterrupt() as interrupt:
            interrupt._is_over = Late()
            interrupt.note()

    with hearing_ctrl_c():
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            twice()
        assert signal.getsignal(signal.SIGINT) is before


class Once(threading.Event):
    """There is one reminder, at once."""

    count = 0

    def wait(self, timeout=None):
        self.count += 1
        return self.count > 1


def test_after_a_reminder_nothing_is_begun_and_a_second_ctrl_c_is_none():
    begun = []

    def work():
        with progress.DeferredInterrupt() as interrupt:
            interrupt._is_over = Once()
            interrupt.note()
            interrupt._reminder.join()
            with pytest.raises(KeyboardInterrupt), interrupt.interruptible():
                begun.append("late")
            signal.raise_signal(signal.SIGINT)
            begun.append("deaf")

    with hearing_ctrl_c(), pytest.raises(KeyboardInterrupt):
        work()
    assert begun == []


def test_a_lost_reminder_is_not_the_last(monkeypatch):
    """What is raised in a destructor is lost."""
    monkeypatch.setattr(progress, "_PATIENCE", 0.01)
    lost, ended = [], []
    monkeypatch.setattr("sys.unraisablehook", lost.append)

    def work():
        with progress.DeferredInterrupt() as interrupt, interrupt.interruptible():
            held = object.__new__(Slow)
            del held
            for _ in range(300):
                time.sleep(0.01)
            ended.append(True)

    class Slow:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(300):
                time.sleep(0.01)

    with hearing_ctrl_c(), pytest.raises(KeyboardInterrupt):
        work()
    assert (len(lost), ended) == (1, [])


CASE = """
[law]
type = "Uniform"
dim = 5
[measure]
type = "Particles"
n = 700
[dynamics]
type = "SA"
beta = 1.0
[run]
t_end = 0.1
save_at = 1
rng = 0
[output]
file = "run.nc"
"""


@pytest.mark.slow
def test_a_command_that_is_interrupted_in_its_first_save(folder, blocks, capsys):
    (folder / "case.toml").write_text(CASE)
    blocks.is_armed = True
    assert main(["run", "case.toml", "-q"]) == 130
    assert capsys.readouterr().err.startswith("meanfield: interrupted at t = 0: ")
    blocks.is_armed = False
    for command in (["info"], ["report", "-q"], ["plot"]):
        assert main([command[0], "run.nc", *command[1:]]) == 0, command
    assert main(["resume", "run.nc", "-q"]) == 0
    assert mf.load("run.nc").status == "finished"


@pytest.fixture
def counted(monkeypatch):
    """Pairs whose products were formed; the clock of the fields goes on by 1 ms for each."""
    counted, products = [], direct._products

    def counting(queries, keys):
        counted.append(len(queries) * len(keys))
        return products(queries, keys)

    monkeypatch.setattr(direct, "_products", counting)
    monkeypatch.setattr(tokens.time, "perf_counter", lambda: 1e-3 * sum(counted))
    return counted


# exponents beyond 300, and dimensions from 256 on, are summed in squares
LONG = {
    "steep": (cloud(4000, 64), mf.SA(400.0)),
    "heads": (cloud(2100, 260), mf.Attention(1.0, [mf.Head(), mf.Head(Q=2.0 * np.eye(260))])),
    "layers": (cloud(2100, 260), mf.LayerMap(mf.SA(1.0), step=0.5)),
    "transforms": (cloud(4000, 3), mf.SA(2.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG)
def test_a_block_tells_how_long_a_right_hand_side_takes(kind, counted):
    start, dynamics = LONG[kind]
    system = Plan(dynamics, np.array([0.0, 1.0]), Settings(1e-9, 1e-12), {}).system(start, None)
    field, seconds = system._cost()
    # twice a block of 1024 tokens
    assert sum(counted) == 2 * field.pairs(1024) * (kind != "transforms")
    counted.clear()
    field._sum(start.points, start.weights)
    assert seconds == pytest.approx(1e-3 * sum(counted), rel=1e-12)
    assert field.pairs(len(start.points)) == sum(counted)


@pytest.mark.parametrize("shown", [True, "lines"])
def test_a_long_right_hand_side_is_told_before_it_begins(shown, monkeypatch, caplog, capsys):
    """On the bar and in the log."""
    told = "a right-hand side sums 9e+06 pairs of tokens in d = 120 and takes about 1.8e+03 s"
    seen = []

    def begin(run, interrupt):
        seen.append((told in caplog.text, told in capsys.readouterr().err))
        raise KeyboardInterrupt

    ticks = iter(range(0, 9**9, 210))
    monkeypatch.setattr(tokens.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(Run, "begin", begin)
    with caplog.at_level(logging.INFO, logger="meanfield"):
        interrupted(mf.evolve, cloud(3000, 120), mf.SA(1.0), 1.0, progress=shown)
    assert seen == [(True, True)]


def test_a_short_right_hand_side_is_not_measured(monkeypatch, caplog):
    monkeypatch.delattr(tokens.time, "perf_counter")
    with caplog.at_level(logging.INFO, logger="meanfield"):
        mf.evolve(cloud(100, 20), mf.SA(1.0), 0.1, 1)
    assert "right-hand side" not in caplog.text


@pytest.mark.slow
def test_a_flow_map_under_a_steep_kernel_says_what_it_does(caplog, capsys):
    start = mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], 2.0))
    with caplog.at_level(logging.INFO, logger="meanfield"):
        sol = mf.evolve(start, mf.SA(1500.0), 1e-4, 1, progress="lines")
    tables, nodes = (record.getMessage() for record in caplog.records[:2])
    assert tables == "tables of the kernel for a reach of 1500"
    assert nodes == f"{len(sol.measures[0])} nodes, for a reach of 1500"
    assert nodes in capsys.readouterr().err


def test_lines_of_progress(capsys, monkeypatch):
    # two minutes pass at each look at the clock
    monkeypatch.setattr("time.monotonic", count(0.0, 120.0).__next__)
    start = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    mf.evolve(start, mf.SA(4.0), 0.1, progress="lines")
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("t = ") and "E_β/|E_β(δ)| = " in line for line in lines)
