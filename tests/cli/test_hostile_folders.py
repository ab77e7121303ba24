"""A folder that somebody else has made chooses no program, whatever lies in it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import meanfield as mf
from tests.children import ENVIRONMENT, LAST_RESORT

PLOT, INFO = "plot run.nc", "info run.nc"
# what lies in a folder as matplotlibrc, and the command there
PLANTED = {
    "pipe": (os.mkfifo, PLOT),
    "folder": (Path.mkdir, INFO),
    "link to nothing": (lambda place: place.symlink_to("nowhere"), INFO),
    "words": (lambda place: place.write_bytes(b"\xff\xfe: \x1b[2J\n"), PLOT),
    "program": (
        lambda place: place.write_text("animation.ffmpeg_path: ./planted\n"),
        "movie run.nc --frames 1 --figure run.mp4",
    ),
}
# a process for each folder, which has imported all but matplotlib
COMMANDS = """
import os, sys
from pathlib import Path
import PIL.Image, pyparsing, xarray
import meanfield.cli.case, meanfield.cli.text
from meanfield.cli.commands import main
assert "matplotlib" not in sys.modules
for folder, command in zip(sys.argv[1::2], sys.argv[2::2]):
    if os.fork() == 0:
        os.chdir(folder)
        sys.stdout = sys.stderr = open("said", "w")
        status = main(command.split())
        sys.stdout.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Of each folder its path, and the status of the command that ran there."""
    root = tmp_path_factory.mktemp("hostile")
    start = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    sol = mf.evolve(start, mf.SA(1.0), 0.1, 1)
    folders, words = [root / name for name in PLANTED], []
    for folder, (plant, command) in zip(folders, PLANTED.values(), strict=True):
        folder.mkdir()
        sol.save(folder / "run.nc")
        (folder / "planted").write_text("#!/bin/sh\ntouch planted-was-run\ncat > planted.mp4\n")
        (folder / "planted").chmod(0o755)
        plant(folder / "matplotlibrc")
        words += [folder, command]
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, *words],
        env=ENVIRONMENT | {"PATH": ""},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LAST_RESORT,
    )
    return dict(zip(PLANTED, zip(folders, map(int, done.stdout.split()), strict=True), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_nothing_called_matplotlibrc_stops_a_command_or_names_a_program(name, answers):
    """Whatever it is, it is not read."""
    (folder, status), (_, command) = answers[name], PLANTED[name]
    said = (folder / "said").read_text()
    written = {path.name for path in folder.iterdir()} - {"run.nc", "planted", "matplotlibrc"}
    if name == "program":
        assert status == 2
        assert re.fullmatch(
            r"meanfield: .*\.gif where ffmpeg, which writes \.mp4, is not installed.*\n", said
        )
    else:
        assert status == 0, said
        line = "wrote run.png" if command == PLOT else "status +finished"
        assert re.search(f"^{line}$", said, re.MULTILINE)
    assert written == {"said"} | ({"run.png"} if command == PLOT else set())


@pytest.mark.slow
def test_a_figure_is_refused_where_matplotlib_would_wait_for_its_settings(folder):
    os.mkfifo("matplotlibrc")
    program = """
import meanfield as mf
try:
    mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5])).plot()
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
        timeout=LAST_RESORT,
    )
    assert re.fullmatch(
        r"matplotlibrc .* must be a regular file, got 1\d+ as its mode\n", done.stdout
    )
