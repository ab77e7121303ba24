"""Bad input: one line on standard error that names the key, exit status 2, nothing on disk.

The tables are below, of command lines, and in bad_cases.py, of case files and files of points.
"""

import shlex
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.cli.commands import main
from tests.refusals.bad_cases import (
    BEYOND_A_SCHEMA,
    CLOUDS,
    CSV,
    SECTIONS,
    SEVERAL,
    SPHERE,
    cases,
    toml,
)

FUTURE = "can't read future.nc: this file has version 99; this meanfield reads 3"
LIMIT = "study mean-field-limit good.toml"
SWEEP = "sweep good.toml --grid dynamics.beta="
# the command line in a folder with good.toml, good.nc and other things, and the line
COMMANDS = [
    ("run none.toml", "there is no file none.toml"),
    ("run there.nc", "can't read there.nc: Is a directory"),
    ("run words.toml", "words.toml: must be TOML, but Expected '=' after a key"),
    ("run number.toml", "number.toml: law must be a table, got 3"),
    ("run bytes.toml", "bytes.toml: must be TOML in UTF-8"),
    ("run good.nc", "the case in good.nc is missing: it must be"),
    ("run short.nc", "can't read short.nc: it is cut short"),
    ("run deep.toml", "deep.toml: must be TOML"),
    ("run /dev/zero", "/dev/zero: must be a case file of at most 1048576 bytes"),
    ("run /dev/null", "/dev/null: law is missing: it must be a table"),
    ("run words.toml --print-case", "words.toml: must be TOML"),
    ("run good.toml -o no/run.nc", "--output must be a file name"),
    ("run good.toml -o good.nc/a.nc", "Not a directory"),
    ("run good.toml -o there.nc", "it is no regular file"),
    ("run good.toml -o run.txt", "--output must be a file name that end"),
    ("run good.toml -o ''", "--output must be a file name that ends in .nc"),
    (f"run good.toml -o {'a' * 300}.nc", "File name too long"),
    ("run good.toml -o /proc/run.nc", "--output must be a file name"),
    ("run good.toml --figure a.doc", "--figure must be a file name"),
    ("run --figure good.nc/a.png", "--figure must be a file name"),
    ("run good.toml -o folder.nc", "the figure beside --output must be"),
    ("run --speed 9", "No such option: --speed"),
    ("run -o", "Option '-o' requires an argument"),
    ("run good.toml b.toml", "unexpected extra argument"),
    ("walk", "No such command 'walk'"),
    ("--loud", "No such option: --loud"),
    ("plot", "Missing argument 'RUN.nc|SWEEP.nc|LAYERS.nc'"),
    ("plot none.nc", "there is no file none.nc"),
    ("plot there.nc", "can't read there.nc: Is a directory"),
    ("plot good.toml", "can't read good.toml: it is no NetCDF-4 file"),
    ("info good.toml", "a case file? meanfield run good.toml"),
    ("plot ''", "can't read .: Is a directory"),
    ("plot future.nc", FUTURE),
    ("plot foreign.nc", "can't read foreign.nc: its format must be 'meanfield-solution', got none"),
    ("run points.npy", "points.npy: must be a case file (TOML), but holds points"),
    ("plot damaged.nc", "can't read damaged.nc: coefficients must be"),
    ("plot short.nc", "can't read short.nc: it is cut short or damaged"),
    ("plot good.nc --figure no/a.png", "--figure must be a file name that"),
    ("plot good.nc --figure good.nc", "--figure must be a file name that"),
    ("info future.nc", FUTURE),
    ("info none.nc", "there is no file none.nc"),
    ("info damaged.nc", "can't read damaged.nc: coefficients must be"),
    ("resume none.nc", "there is no file none.nc"),
    ("resume no/run.nc", "there is no file no/run.nc"),
    ("resume good.toml", "meanfield run good.toml makes a result of it"),
    ("report none.nc", "there is no file none.nc"),
    ("report damaged.nc", "can't read damaged.nc: coefficients must be"),
    ("report good.nc -o run.txt", "--output must be a file name that ends in .html"),
    ("validate --quick", "validate must be run in a checkout"),
    (
        "movie good.nc --figure a.avi",
        "--figure must be a file name that ends in .mp4 or .gif, got",
    ),
    ("movie good.nc --figure a.gif --frames 9", "frames must be an integer >= 1 and <= 2, got 9"),
    ("movie good.nc --figure a.gif --fps 60", "fps must be a finite number > 0 and <= 50, got 60"),
    (f"{LIMIT} --repeats 0", "Invalid value for '--repeats'"),
    (f"{LIMIT} --rng -1", "Invalid value for '--rng'"),
    (f"{LIMIT} -o l.txt", "--output must be a file name that ends in .nc"),
    (f"{LIMIT} --figure l.txt", "--figure must be a file name that ends in .png or .pdf or .svg"),
    (f"{LIMIT} --ns 20", "No such option: --ns"),
    (f"{LIMIT} --workers 0", "Invalid value for '--workers'"),
    (f"{LIMIT} --executor dusk", "--executor must be one of processes, dask, mpi, got 'dusk'"),
    ("study causal-limit good.toml --n 4", "dynamics must have a mask, or be a Sum"),
    ("study phase-diagram --beta 1 --dim 3 --n 4", "Missing option '--t-end'"),
    (
        "study metastability --beta 1 --dynamics Kuramoto",
        "--dynamics must be one of SA, USA, got 'Kuramoto'",
    ),
    ("study stationary-states --beta=-1 --dim 3", "beta must be a finite number >= 0"),
    (
        "study two-token-correlation --beta 1 --n 1 --t-end 1",
        "n must be an integer >= 2",
    ),
    ("study energy-extremisers --eigenvalue a", "--eigenvalue must be numbers with commas"),
    ("study energy-extremisers --eigenvalue=-1", "--eigenvalue must have a value > 0, got '-1'"),
    ("study limits-without-normalisation --n 3", "n must be an integer >= 4"),
    ("study prop-3.4", "No such command 'prop-3.4'"),
    *(
        (f"{LIMIT} --n '{n}'", f"--n must be {rule} with commas between them{also}, got {n!r}")
        for rule, also, wrong in [
            ("numbers", ", or START:STOP:COUNT", ("a,b", "")),
            ("ascending integers >= 2", "", ("1,2", "20,20", "200,20", "2.5", "20,inf", "20,nan")),
        ]
        for n in wrong
    ),
    ("sweep good.toml", "--grid must be given, as in --grid dynamics.beta=1:10:19"),
    ("compare a.nc", "Missing argument 'B.nc'"),
    (
        "sweep good.toml --grid dynamics.bta=1,2",
        "good.toml with --grid dynamics.bta=1: dynamics.bta is an unknown key: the keys here",
    ),
    *(
        (f"sweep good.toml --grid '{grid}'", f"--grid {grid}: ")
        for grid in (
            *("a", "a=", "=1", "a b=1", "a=a b,c"),
            *("a=1:2:0", "a=1:2:x", "a=x:2:3", "a=1:2:1.5", "a=1:2:9e9"),
        )
    ),
    (f"{SWEEP}1,abc", "dynamics.beta must be a valid number, got 'abc'"),
    ("sweep good.toml --grid dynamics.beta", "--grid dynamics.beta: grid must be KEY=START:STOP"),
    ("sweep good.toml --grid a=1 --grid a=2", "--grid must have each key once, got a twice"),
    (f"{SWEEP}1,1", "grid must have each value of dynamics.beta once"),
    (
        "sweep good.toml --grid dynamics.beta.x=1",
        "dynamics.beta must be a table for dynamics.beta.x",
    ),
    (f"{SWEEP}1 --executor dusk", "--executor must be one of processes, dask, mpi, got 'dusk'"),
    (
        f"{SWEEP}1 --scheduler tcp://x:1",
        "--scheduler must be left out unless executor is 'dask', got 'tcp://x:1'",
    ),
    (
        f"{SWEEP}1 --executor dask --scheduler nowhere://x",
        "--scheduler must be the address of a dask scheduler that answers",
    ),
    (
        f"{SWEEP}1 --workers 2 --executor mpi",
        "--workers must be left out with a scheduler or 'mpi', which have their own, got 2",
    ),
    (f"{SWEEP}1 -o a.txt", "--output must be a file name that ends in .nc"),
    (f"{SWEEP}1 --set x", "--set x: setting must be KEY=VALUE"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of files that commands are given; refusals leave it as it is."""
    folder = tmp_path_factory.mktemp("files")
    density = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    mf.evolve(density, mf.SA(1.0), 0.1, 1).save(folder / "good.nc")
    good = xr.load_dataset(folder / "good.nc", engine="h5netcdf")
    broken = {
        "future": good.assign_attrs(format_version=99),
        "foreign": xr.Dataset({"a": ("t", np.zeros(3))}),
        "damaged": good.drop_vars("coefficients"),
    }
    for name, dataset in broken.items():
        dataset.to_netcdf(folder / f"{name}.nc", engine="h5netcdf")
    whole = (folder / "good.nc").read_bytes()
    texts = {
        "short.nc": whole[: len(whole) // 2],
        "good.toml": toml({}).encode(),
        "words.toml": b"beta is four\n",
        "number.toml": b"run = 4\nlaw = 3\n",
        "bytes.toml": b"\xff\xfe",
        "points.npy": b"\x93NUMPY\x01\x00",
        "deep.toml": b"a = " + b"[" * 5000,
    }
    for name, content in texts.items():
        (folder / name).write_bytes(content)
    (folder / "there.nc").mkdir()
    (folder / "folder.png").mkdir()
    return folder, contents(folder)


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def check_refused(files, monkeypatch, capsys):
    """A check that a command says this in one line, with these files written, and changes none."""
    folder, before = files
    monkeypatch.chdir(folder)

    def check(command, beginning, message, written):
        for name, content in written.items():
            (folder / name).write_bytes(content)
        try:
            assert main(shlex.split(command)) == 2
            assert contents(folder) == before | written
        finally:
            for name in written:
                (folder / name).unlink()
        said = capsys.readouterr().err
        assert said.endswith("\n")
        assert len(said.splitlines()) == 1, said
        assert said.startswith(f"meanfield: {beginning}")
        assert message in said

    return check


@pytest.mark.parametrize(("command", "message"), COMMANDS, ids=[row[0][:60] for row in COMMANDS])
def test_command_lines(check_refused, command, message):
    check_refused(command, "", message, {})


CASES = [*cases(SECTIONS), *cases(BEYOND_A_SCHEMA), *SEVERAL]


@pytest.mark.parametrize(("changes", "message"), CASES, ids=[str(row[0])[:60] for row in CASES])
def test_cases(check_refused, changes, message):
    written = {"bad.toml": toml(changes).encode()}
    check_refused("run bad.toml", "bad.toml: ", message, written)


@pytest.mark.parametrize(("rows", "message"), CLOUDS.items())
def test_points(check_refused, rows, message):
    encoded = rows.encode("latin-1" if "\xe9" in rows else "utf-8")
    written = {"bad.toml": toml(CSV).encode(), "tokens.csv": encoded}
    check_refused("run bad.toml", "bad.toml: law.points = 'tokens.csv': ", message, written)


def test_points_that_are_not_there_or_do_not_fit(check_refused):
    missing = "law.points = 'tokens.csv': must be a CSV, NPY or NPZ file or 'tokens-s2', but to"
    written = {"bad.toml": toml(CSV).encode()}
    check_refused("run bad.toml", "bad.toml: ", missing, written)
    plane = {"law": f"{CSV['law']}\nbandwidth = 0.5", "measure.space": SPHERE}
    written = {"bad.toml": toml(plane).encode(), "tokens.csv": b"x,y\n0,1\n"}
    check_refused("run bad.toml", "bad.toml: ", "law must have dim = 3 on Sphere(7)", written)
