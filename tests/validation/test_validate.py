"""`meanfield validate`: one table, exit status, errors of scripts, RESULTS.md, figures."""

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.figure import Figure

import validation.__main__ as scripts
from meanfield.cli.commands import main
from tests.children import LAST_RESORT, hearing_ctrl_c
from validation import record, runner
from validation.claims import Claim
from validation.processes import Died, side_by_side

ROOT = Path(__file__).parents[2]
GOOD = Claim("two is at most three", "arithmetic", 2.0, 3.0, "exact", "two", "2.0")
BAD = Claim("three is at most two", "arithmetic", 3.0, 2.0, "exact")


@pytest.fixture
def planted(monkeypatch, tmp_path):
    """Scripts: claims that hold, one that does not, one script that raises, one with none."""

    def script(name, check):
        module = ModuleType(f"validation.{name}")
        module.check = check
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return module

    def fails(quick):
        raise ValueError(f"quick must be a secret,\ngot {quick}")

    script("sound", lambda quick: [GOOD]).figure = lambda quick: Figure(figsize=(1, 1))
    script("unsound", lambda quick: [GOOD, BAD])
    script("broken", fails)
    script("silent", lambda quick: [])
    monkeypatch.setattr(scripts, "SCRIPTS", ["sound", "unsound", "broken", "silent"])
    for module in scripts, runner:
        monkeypatch.setattr(module, "about", lambda name: f"What {name} shows.")
    monkeypatch.setattr(record, "RESULTS", tmp_path / "RESULTS.md")
    monkeypatch.chdir(ROOT)
    return tmp_path


def run(*arguments):
    """In this process, which alone knows what is planted."""
    return main(["validate", "--workers", "1", *arguments])


def test_all_is_well(planted, capsys):
    assert run("sound", "--quick") == 0
    said = capsys.readouterr()
    assert said.err == ""
    heading, row, total, elapsed = said.out.splitlines()
    assert heading.split("  ")[0] == "script"
    assert row.split() == ["sound", "1/1", "0.67", "0"]
    assert total.split() == ["all", "1/1", "0"]
    assert elapsed == "0 s by 1 worker"


def test_what_is_not_met_is_told_and_the_others_still_run(planted, capsys):
    # in the order of the list, not of the names
    assert run("broken", "unsound", "silent", "sound") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:6]] == [*scripts.SCRIPTS, "all"]
    assert lines[2].split()[1:3] == ["1/2", "1.5"]
    assert lines[2].endswith("NOT MET")
    assert lines[3].endswith("ValueError: quick must be a secret, got False")
    assert lines[4].endswith("no claims")
    assert lines[6] == "unsound: three is at most two: 3.0e+00 > 2e+00"


def test_figures_and_results(planted, capsys):
    assert run("--write", "--figures", str(planted / "deep" / "er")) == 1
    assert [f.name for f in (planted / "deep" / "er").iterdir()] == ["sound.png"]
    text = (planted / "RESULTS.md").read_text(encoding="utf-8")
    assert "numpy" in text
    assert "ducc0" in text
    assert "cores" in text
    for name in scripts.SCRIPTS:
        assert f"## `{name}`\n\nWhat {name} shows.\n\nThe full form, with meanfield" in text
    assert "| two is at most three | arithmetic | two | 2.0 | 2.0e+00 |" in text
    assert "**ValueError: quick must be a secret, got False**" in text


def test_sections_of_others_are_kept(planted, capsys):
    run("--write")
    before = record.recorded()
    run("sound", "--write", "--quick")
    after = record.recorded()
    assert list(after) == list(before) == scripts.SCRIPTS
    assert "The quick form, with" in after.pop("sound").text
    assert "The full form, with" in before.pop("sound").text
    assert after == before
    # a script that is gone leaves no section
    scripts.SCRIPTS.remove("broken")
    run("sound", "--write")
    assert list(record.recorded()) == ["sound", "unsound", "silent"]


@pytest.mark.parametrize("spoilt", ["| unsound ", "The full form"])
def test_a_file_that_was_not_written_here_gets_no_sections(planted, capsys, spoilt):
    run("--write")
    capsys.readouterr()
    file = planted / "RESULTS.md"
    text = file.read_text(encoding="utf-8").replace(spoilt, "Something", 1 + (spoilt[0] != "|"))
    file.write_text(text, encoding="utf-8")
    assert run("silent", "--write") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("meanfield: RESULTS.md must have a row for each section")
    assert file.read_text(encoding="utf-8") == text
    assert run("--write") == 1
    assert spoilt in file.read_text(encoding="utf-8")


def test_seconds_of_the_last_time(planted):
    head = "| script | claims | worst | seconds | remark |\n| --- | --- | --- | --- | --- |\n"
    rows = "| sound | 1/1 | 0.1 | 37 |  |\n| unsound | - | - | ? |  |\n"
    record.RESULTS.write_text(head + rows + "\n## `sound`\n\n| silent | a | b | 1 |\n")
    assert record.last_seconds() == {"sound": 37.0}
    record.RESULTS.unlink()
    assert record.last_seconds() == {}


def test_interrupted(planted, capsys, monkeypatch):
    def interrupted(quick):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["validation.broken"], "check", interrupted)
    assert run("--write") == 130
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["sound", "unsound", "all"]
    assert lines[-1] == "interrupted: 2 of 4 scripts were finished"
    assert not (planted / "RESULTS.md").exists()
    assert run("broken") == 130
    assert "all             0/0" in capsys.readouterr().out


def test_side_by_side():
    """One that ends its process costs no other; the threads of each are its own."""
    count = "__import__('os').environ['DUCC0_NUM_THREADS']"
    names = ["6 * 7", "__import__('os')._exit(3)", "7 * 7", "1 / 0", count]
    ticks = list(side_by_side(eval, names, 2))
    found = {name: result for tick in ticks for name, result in tick.finished.items()}
    assert found == dict(zip(names, [42, Died(3), 49, Died(1), "1"], strict=True))
    assert all(len(tick.running) <= 2 for tick in ticks)
    assert ticks[-1].running == []
    assert "DUCC0_NUM_THREADS" not in os.environ


@pytest.mark.parametrize("wanted", [None, "2"])
def test_a_worker_has_one_thread(monkeypatch, wanted):
    """Unless the user says how many, by any of the names for it."""
    names = "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"
    for name in names:
        monkeypatch.delenv(name, raising=False)
    if wanted:
        monkeypatch.setenv("OMP_NUM_THREADS", wanted)
    asked = f"[__import__('os').environ.get(name) for name in {names}]"
    # a slow machine ticks before it begins
    *_, tick = side_by_side(eval, [asked], 1)
    assert tick.finished[asked] == ([None, wanted, None] if wanted else ["1", "1", "1"])


def test_ctrl_c_ends_what_runs_at_once(tmp_path):
    """With what that has started, here a sleep that holds a pipe open."""
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)

    def interrupt():
        # waits for the other end
        read.append(os.open(pipe, os.O_RDONLY))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    sleep = f"__import__('subprocess').run('exec sleep {2 * LAST_RESORT} > {pipe}', shell=True)"
    finished = []
    ticks = side_by_side(eval, ["6 * 7", sleep], 1)
    with hearing_ctrl_c(), pytest.raises(KeyboardInterrupt):
        finished.extend(name for tick in ticks for name in tick.finished)
    assert finished == ["6 * 7"]
    assert select.select(read, [], [], LAST_RESORT)[0] == read
    assert os.read(read[0], 1) == b""
    os.close(read[0])


@pytest.mark.parametrize("named", [[], ["sound"]])
def test_list_runs_nothing(planted, capsys, named):
    assert main(["validate", "--list", *named]) == 0
    assert capsys.readouterr().out.splitlines()[2] == "broken   What broken shows."


def test_unknown_names(planted, capsys):
    assert main(["validate", "sound", "nonsense"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    expected = "names must be among sound, unsound, broken, silent, got nonsense"
    assert said.err == f"meanfield: {expected}\n"


def test_options_of_the_scripts(planted, capsys):
    assert main(["validate", "--workers", "0"]) == 2
    assert "meanfield: Invalid value for '--workers'" in capsys.readouterr().err
    assert main(["validate", "--no-such"]) == 2
    assert "meanfield: No such option: --no-such" in capsys.readouterr().err
    assert main(["validate", "--help"]) == 0
    assert "--write" in capsys.readouterr().out


def test_help_outside_a_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["validate", "--help"]) == 0
    assert "run this in the folder of the" in capsys.readouterr().out
    assert main(["validate"]) == 2


def test_figures_is_a_file(planted, capsys):
    (planted / "file").write_text("")
    assert main(["validate", "sound", "--figures", str(planted / "file")]) == 2
    assert "--figures must be a folder" in capsys.readouterr().err


@pytest.mark.slow
def test_a_script_and_the_package_on_their_own(tmp_path):
    """As modules, in processes of their own: the table, the figure, the exit status."""
    picture = tmp_path / "growth.png"
    for arguments in (
        ["validation.linear_growth", "--quick", "--figure", str(picture)],
        ["validation", "--quick", "--workers", "1", "multipliers"],
    ):
        run = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        assert "measured" in run.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_every_script_is_listed():
    """A file with a check that nobody runs would claim nothing."""
    found = {
        path.stem
        for path in (ROOT / "validation").glob("*.py")
        if "\ndef check(" in path.read_text(encoding="utf-8")
    }
    assert found == set(scripts.SCRIPTS)
    for name in scripts.SCRIPTS:
        assert runner.about(name)


def test_worst_ratio_of_a_nan():
    claims = [GOOD, Claim("", "", float("nan"), 1.0, "")]
    assert runner.Outcome("x", "", claims, 0.0).worst == float("inf")
    assert not runner.Outcome("x", "", claims, 0.0).is_good
