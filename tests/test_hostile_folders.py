"""A folder that somebody else has made chooses no program, whatever lies in it."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from children import ENVIRONMENT, MEANFIELD
from handmade import CASE

import meanfield as mf
from meanfield.cli.commands import main


@pytest.mark.slow
def test_workers_import_nothing_from_the_folder(folder):
    """A new process of Python would look for its own library there first."""
    Path("case.toml").write_text(CASE)
    planted = "open('planted-was-run', 'w')"
    for name in "multiprocessing", "numpy", "meanfield", "signal":
        Path(f"{name}.py").write_text(planted)
    sweep = ["sweep", "case.toml", "--grid", "dynamics.beta=1,2", "-q"]
    assert main([*sweep, "--executor", "processes", "--workers", "1"]) == 0
    assert not (folder / "planted-was-run").exists()
    assert "PYTHONSAFEPATH" not in os.environ


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
