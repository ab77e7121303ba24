"""One run a result file: a second is refused while the first goes on, and not after it."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import meanfield as mf
from meanfield.cli.commands import main
from meanfield.evolution.files import file_lock, is_being_written
from meanfield.exceptions import FileInUseError
from tests.children import child
from tests.evolution.interruptions import START, Interruption
from tests.handmade import CASE, interrupted, names

# as a run of another process holds it; to import the package there takes seconds
HOLDING = """
import fcntl, os, sys
lock = os.open(".run.nc.lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(folder):
    """A process that has the lock of run.nc."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with child([sys.executable, "-c", HOLDING], **pipes) as process:
        assert process.stdout.readline() == "holds\n"
        yield process


# other commands that write a file, and which
WRITERS = {
    "sweep": ("sweep case.toml --grid dynamics.beta=1,2 -o out.nc", "--output"),
    "study": ("study limits-without-normalisation --n 5 --t-end 0.1 -o out.nc", "--output"),
    "compare": ("compare a.nc b.nc -o out.nc", "--output"),
    "figure of compare": ("compare a.nc b.nc --figure out.png", "--figure"),
    "plot": ("plot a.nc --figure out.png", "--figure"),
    "movie": ("movie a.nc --frames 1 --figure out.gif", "--figure"),
    "report": ("report a.nc -o out.html", "--output"),
    "layers": ("layers states.npz --repeats 2 --beta 2 -o out.nc", "--output"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The file of a run, which is copied."""
    path = tmp_path_factory.mktemp("run") / "run.nc"
    mf.Case(CASE).run(progress=False).save(path)
    return path


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "compare" else pytest.mark.slow) for n in WRITERS]
)
def test_every_command_has_its_file_to_itself(name, run, folder, capsys):
    text, option = WRITERS[name]
    command, file = text.split(), Path(text.split()[-1])
    Path("case.toml").write_text(CASE)
    np.savez("states.npz", states=np.stack([np.eye(9)] * 2))
    for other in "a.nc", "b.nc":
        shutil.copy(run, other)
    before = {path.name for path in folder.rglob("*")}
    # what a process that was killed has left
    Path(f".{file}.lock").touch()
    Path(f".{file}.writing-x").mkdir()
    with file_lock(file):
        assert main(command) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err == (
            f"meanfield: {option} must be one that no other run writes, got '{file}', which "
            f"another process is writing: wait for it, or choose another name\n"
        )
        assert not file.exists()
        assert Path(f".{file}.writing-x").exists()
    assert {path.name for path in folder.rglob("*")} == before | {f".{file}.writing-x"}
    assert main(command) == 0
    assert file.exists()
    assert list(folder.glob(".*")) == []


@pytest.mark.usefixtures("holder")
def test_a_second_run_is_refused_and_the_file_stays(run, capsys):
    Path("case.toml").write_text(CASE)
    shutil.copy(run, "run.nc")
    before = Path("run.nc").read_bytes()
    beside = Path(".run.nc.writing-x")
    beside.mkdir()
    told = r"no other run writes, got '.*run\.nc', which another process is writing"
    with pytest.raises(FileInUseError, match=told):
        mf.evolve(START, mf.SA(4.0), 0.1, 1, checkpoint="run.nc")
    with pytest.raises(FileInUseError, match=told):
        mf.resume("run.nc")
    for command in ["run", "case.toml"], ["resume", "run.nc"]:
        assert main(command) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert lines[0].startswith("meanfield: output must be one that no other run writes")
        assert "which another process is writing: wait for it" in lines[0]
    assert Path("run.nc").read_bytes() == before
    # what the first is just writing is not taken away from it
    assert beside.exists()
    # another file is free
    assert mf.evolve(START, mf.SA(4.0), 0.1, 1, checkpoint="other.nc").status == "finished"


def test_info_tells_a_run_that_goes_on(holder, capsys):
    sol = interrupted(mf.evolve, START, mf.SA(4.0), 0.1, 1, monitors={"m": Interruption(1)})
    assert sol.status == "interrupted"
    sol.save("run.nc")
    assert main(["info", "run.nc"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^status +running$", printed, re.MULTILINE)
    assert "resume" not in printed
    assert Path(".run.nc.lock").exists()
    # to look is not to hold
    assert is_being_written(Path("run.nc"))
    assert not is_being_written(Path("other.nc"))
    assert not Path(".other.nc.lock").exists()
    holder.kill()
    holder.wait()
    assert main(["info", "run.nc"]) == 0
    printed = capsys.readouterr().out
    assert "running" not in printed
    assert "interrupted" in printed


def test_a_run_holds_its_file_until_it_ends(tmp_path):
    path, refused = tmp_path / "run.nc", []

    def again(measure):
        with pytest.raises(FileInUseError, match="which another process is writing"):
            mf.evolve(START, mf.SA(4.0), 0.1, checkpoint=path)
        refused.append(measure)
        return 0.0

    mf.evolve(START, mf.SA(4.0), 0.1, 2, monitors={"m": again}, checkpoint=path)
    assert len(refused) == 3
    assert names(tmp_path) == ["run.nc"]


def test_a_dead_run_holds_nothing(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / ".run.nc.lock").exists()
    mf.evolve(START, mf.SA(4.0), 0.1, 1, checkpoint=tmp_path / "run.nc")
    assert names(tmp_path) == ["run.nc"]


def test_a_run_that_is_still_dying_is_waited_for(holder, tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: (holder.kill(), holder.wait()))
    with file_lock(tmp_path / "run.nc"):
        assert (tmp_path / ".run.nc.lock").read_bytes() == b""
    assert not (tmp_path / ".run.nc.lock").exists()


def test_a_name_that_was_removed_is_no_lock(tmp_path, monkeypatch):
    """Between opening the name and locking it, its holder may have removed it."""
    real, calls = fcntl.flock, []

    def late(descriptor, how):
        if not calls:
            (tmp_path / ".run.nc.lock").unlink()
        calls.append(descriptor)
        real(descriptor, how)

    monkeypatch.setattr("fcntl.flock", late)
    with file_lock(tmp_path / "run.nc"):
        assert (tmp_path / ".run.nc.lock").exists()
        with pytest.raises(FileInUseError), file_lock(tmp_path / "run.nc"):
            pass
    assert len(calls) > 2


PLANTED = {
    "linked": lambda lock, target: lock.symlink_to(target),
    "linked twice": lambda lock, target: os.link(target, lock),
    "linked to nothing": lambda lock, target: lock.symlink_to(target.with_name("new.txt")),
    "piped": lambda lock, _: os.mkfifo(lock),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_a_lock_that_leads_elsewhere_is_refused(plant, tmp_path):
    """As an unpacked or shared folder may have it: what it leads to keeps its content."""
    (tmp_path / "target.txt").write_text("precious")
    plant(tmp_path / ".run.nc.lock", tmp_path / "target.txt")
    before = names(tmp_path)
    told = r"must be a file that can be locked, got '.*run\.nc', .*\.run\.nc\.lock, which"
    with pytest.raises(FileInUseError, match=told):
        mf.evolve(START, mf.SA(4.0), 0.1, 1, checkpoint=tmp_path / "run.nc")
    assert not is_being_written(tmp_path / "run.nc")
    assert (tmp_path / "target.txt").read_text() == "precious"
    assert names(tmp_path) == before


def test_a_file_with_the_name_of_the_lock_keeps_its_content(tmp_path):
    (tmp_path / ".run.nc.lock").write_text("precious")
    with file_lock(tmp_path / "run.nc"):
        with pytest.raises(FileInUseError), file_lock(tmp_path / "run.nc"):
            pass
        assert is_being_written(tmp_path / "run.nc")
    assert (tmp_path / ".run.nc.lock").read_text() == "precious"


def test_a_link_that_takes_the_place_of_the_lock_is_not_followed(tmp_path, monkeypatch):
    """Between the look at the name and its opening; O_NOFOLLOW is not everywhere."""
    lock, target = tmp_path / ".run.nc.lock", tmp_path / "target.txt"
    target.write_text("precious")
    lock.touch()
    monkeypatch.setattr("meanfield.evolution.files._ITSELF", 0)
    real = os.open

    def late(path, how, *more):
        if Path(path) == lock and not how & os.O_CREAT and not lock.is_symlink():
            lock.unlink()
            lock.symlink_to(target)
        return real(path, how, *more)

    monkeypatch.setattr("os.open", late)
    with pytest.raises(FileInUseError, match="is a link"), file_lock(tmp_path / "run.nc"):
        pass
    assert target.read_text() == "precious"
