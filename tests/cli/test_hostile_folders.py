"""A folder that somebody else has made chooses no program, whatever lies in it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import meanfield as mf
from tests.children import ENVIRONMENT, LAST_RESORT, MEANFIELD


@pytest.mark.slow
def test_matplotlib_takes_no_settings_from_the_folder(folder):
    """They would name the program that makes a movie."""
    start = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    mf.evolve(start, mf.SA(1.0), 0.1, 1).save("run.nc")
    Path("planted").write_text("#!/bin/sh\ntouch planted-was-run\ncat > planted.mp4\n")
    Path("planted").chmod(0o755)
    Path("matplotlibrc").write_text("animation.ffmpeg_path: ./planted\n")
    done = subprocess.run(
        [*MEANFIELD, "movie", "run.nc", "--frames", "1", "--figure", "run.mp4"],
        env=ENVIRONMENT | {"PATH": ""},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert re.fullmatch(
        r"meanfield: .*\.gif where ffmpeg, which writes \.mp4, is not installed.*\n", done.stderr
    )
    assert {path.name for path in folder.iterdir()} == {"run.nc", "planted", "matplotlibrc"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "link to nothing", "words"])
def test_nothing_called_matplotlibrc_stops_a_command(kind, folder):
    """Whatever it is, it is not read."""
    start = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    mf.evolve(start, mf.SA(1.0), 0.1, 1).save("run.nc")
    place = Path("matplotlibrc")
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "device":
            place.symlink_to("/dev/zero")
        case "folder":
            place.mkdir()
        case "link to nothing":
            place.symlink_to("nowhere")
        case "words":
            place.write_bytes(b"\xff\xfe: \x1b[2J\n")
    done = subprocess.run(
        [*MEANFIELD, "plot", "run.nc"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LAST_RESORT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("run.png").is_file()


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
