"""Benchmarks: each runs in its short form, and what they share says what it should."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import meanfield as mf
from meanfield.equations.tendency import tendency
from validation.benchmarks import densities, form, trees
from validation.benchmarks.__main__ import BENCHMARKS, listing, main, redraw
from validation.benchmarks.right_hand_side import allocated
from validation.benchmarks.timing import interleaved, median, peer, ratio

FOLDER = Path(form.__file__).parent


def test_every_script_is_listed():
    shared = {"__init__", "__main__", "form", "timing"}
    scripts = {path.stem for path in FOLDER.glob("*.py") if "main(measure" in path.read_text()}
    assert scripts == set(BENCHMARKS)
    assert not scripts & shared
    assert all(name in listing() for name in BENCHMARKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_short_form(name):
    module = importlib.import_module(f"validation.benchmarks.{name}")
    tables = module.measure(True)
    rows = [row for part in tables.values() for row in part]
    assert rows
    times = [row[key] for row in rows for key in row if key == "ratio" or key.startswith("seconds")]
    assert all(time is None or time > 0.0 for time in times)

    if hasattr(module, "figure"):
        assert all(ax.has_data() for ax in module.figure(tables).axes if ax.axison)


def test_ways_are_taken_in_turn():
    called = []
    ways = {name: lambda name=name: called.append(name) for name in "ab"}
    times = interleaved(ways, 3, calls={"b": 2})
    assert "".join(called) == "ab" + 3 * "abb"
    assert {name: len(found) for name, found in times.items()} == {"a": 3, "b": 3}


def test_ratio_is_of_the_rounds():
    times = {"slow": [2.0, 30.0, 400.0], "fast": [1.0, 10.0, 100.0]}
    assert ratio(times, "slow", "fast") == 3.0
    assert median(times, "slow") == 30.0


def test_what_is_not_installed_is_no_peer_and_is_told_once(capsys):
    assert peer("json") is json
    assert peer("no_such_library") is None
    assert peer("no_such_library") is None
    assert capsys.readouterr().out == "no_such_library is not installed: left out\n"


def test_goals_are_counted():
    rows = [
        {"way": "a", "ratio": 3.0, "goal": 2.0},
        {"way": "b", "ratio": 1.5, "goal": 2.0},
        {"way": "c", "ratio": 1.5, "goal": 2.0, "goal is": "at most"},
        {"way": "d", "ratio": 1.0, "goal": None},
        {"way": "e", "n": 8, "ratio": 5.0, "goal": 2.0, "goal is": "at most"},
    ]
    text = form.reached({"": rows})
    assert text.startswith("2 of 4 goals reached")
    assert "not reached: ratio 1.5, goal 2: b" in text
    assert "not reached: ratio 5, goal at most 2: e, n = 8" in text
    assert form.reached({"": rows[3:4]}) == ""


def test_results_are_kept_with_their_machine(tmp_path):
    form.keep("some", {"": [{"ratio": 1.0}]}, ("numpy", "no-such"), None, tmp_path)
    content = json.loads((tmp_path / "some.json").read_text(encoding="utf-8"))
    assert content[""] == [{"ratio": 1.0}]
    assert content["machine"]["no-such"] == "not installed"
    assert content["machine"]["cores"] == os.cpu_count()


def test_figures_are_drawn_anew(tmp_path, capsys):
    rows = [{"β": 4.0, "n": n, "ratio": 0.01 * n} for n in (64, 128)]
    form.keep("line_sums", {"": rows}, (), None, tmp_path)
    for name in ("line_sums", "flow_map", "batches"):
        redraw(name, tmp_path)
    assert (tmp_path / "line_sums.png").is_file()
    told = capsys.readouterr().out
    assert told == f"flow_map: no {tmp_path / 'flow_map.json'}\nbatches: no figure\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nothing"], "names must be among"),
        (["tokens", "--all-threads"], "--all-threads must come with --quick or --out"),
    ],
)
def test_wrong_options_are_told(options, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_missing_peer_of_densities_is_told(monkeypatch):
    for library in ("dedalus", "pde"):
        monkeypatch.setattr(densities, library, lambda: None)
    circle = densities.problems(True)[0]
    rows, bare, _ = densities.measured(circle, True)
    assert [row["ratio"] for row in rows] == [None, None]
    assert all("not installed" in row["peer"] for row in rows)
    assert bare[0]["ratio"] > 0.0


@pytest.mark.slow
def test_two_trees_are_timed_in_turn(capsys):
    root = FOLDER.parent.parent
    assert trees.compare(root, "energy: tokens", 1) in (0, 1)
    printed = capsys.readouterr().out
    assert "energy: tokens, n = 2000" in printed
    assert printed.splitlines()[-1].startswith("1 tasks, ")


def test_a_slower_tree_is_told(monkeypatch, capsys):
    times = iter([1.0, 1.2, 1.01] * 3)
    monkeypatch.setattr(trees, "server", lambda tree: subprocess.Popen([sys.executable, "-c", ""]))
    monkeypatch.setattr(trees, "ask", lambda process, name: next(times))
    assert trees.compare(FOLDER, "energy: tokens", 3) == 1
    assert "1.200    1.010  SLOWER" in capsys.readouterr().out


def test_a_right_hand_side_takes_no_arrays():
    """A right-hand side allocates less than one array over its grid, on every space."""
    for space in (mf.Circle(1024), mf.Sphere(63), mf.Zonal(10, 255)):
        law = mf.VonMisesFisher(np.eye(space.dim)[-1], 3.0)
        for dynamics in (mf.SA(4.0), mf.USA(4.0)):
            rate = tendency(mf.Density(space, law), dynamics)
            out = np.empty_like(rate.initial_state)
            peak = allocated(lambda r=rate, o=out: r(r.initial_state, o))
            assert peak < 8 * len(space.weights), (space, dynamics, peak)
