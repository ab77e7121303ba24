"""Bad input: one line on standard error that names the key, exit status 2, nothing on disk."""

import shlex
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.cli.commands import main
from tests.refusals.bad_cases import BASE, CASES, CLOUDS, CSV, SPHERE

FUTURE = "can't read future.nc: this file has version 99; this meanfield reads 2"
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
    ("plot", "Missing argument 'RUN.nc|SWEEP.nc'"),
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
    ("report good.nc --page run.txt", "--page must be a file name that ends in .html"),
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


def toml(changes: dict[str, str]) -> str:
    return "\n".join(f"[{name}]\n{body}\n" for name, body in (BASE | changes).items())


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Contents of the files that commands are given."""
    folder = tmp_path_factory.mktemp("good")
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
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    contents["short.nc"] = contents["good.nc"][: len(contents["good.nc"]) // 2]
    contents["good.toml"] = toml({}).encode()
    contents["words.toml"] = b"beta is four\n"
    contents["number.toml"] = b"run = 4\nlaw = 3\n"
    contents["bytes.toml"] = b"\xff\xfe"
    contents["points.npy"] = b"\x93NUMPY\x01\x00"
    contents["deep.toml"] = b"a = " + b"[" * 5000
    return contents


@pytest.fixture
def folder(folder, files):
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "there.nc").mkdir()
    (folder / "folder.png").mkdir()
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def commands():
    for name, (changes, expected) in CASES.items():
        yield pytest.param(toml(changes), None, "run bad.toml", expected, id=f"case, {name}")
    for name, (rows, expected) in CLOUDS.items():
        space = {"measure": SPHERE} if "sphere" in name else {}
        smooth = {"law": f"{CSV['law']}\nbandwidth = 0.5"} if "sphere" in name else {}
        text, file = toml(CSV | space | smooth), rows
        told = expected if "sphere" in name else f"law.points = 'tokens.csv': {expected}"
        yield pytest.param(text, file, "run bad.toml", told, id=f"points, {name}")
    told = "law.points = 'tokens.csv': must be a CSV, NPY or NPZ file or 'tokens-s2', but to"
    yield pytest.param(toml(CSV), None, "run bad.toml", told, id="points, no file")
    for command, expected in COMMANDS:
        yield pytest.param(None, None, command, expected, id=command[:60])


ALL = list(commands())


def test_there_are_enough():
    assert len(ALL) >= 60
    assert len({case.id for case in ALL}) == len(ALL)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "rows", "command", "expected"), ALL)
def test_command_refuses(folder, capsys, text, rows, command, expected):
    if text is not None:
        (folder / "bad.toml").write_text(text, "utf-8")
    if rows is not None:
        encoding = "latin-1" if "\xe9" in rows else "utf-8"
        (folder / "tokens.csv").write_text(rows, encoding)
    before = contents(folder)
    assert main(shlex.split(command)) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1, said
    assert said.endswith("\n")
    assert expected in said
    assert said.startswith("meanfield: bad.toml: " if text else "meanfield: ")
    assert contents(folder) == before
