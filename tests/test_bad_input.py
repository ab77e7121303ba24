"""Bad input: one line on standard error that names the key, exit status 2, nothing on disk.

The first test drives the command line, the second one the Python names.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.cli import main

NORTH = "mean = [0.0, 0.0, 1.0]"
BASE = {
    "law": 'type = "fourier-series"\ncos = [0.5]',
    "space": 'type = "circle"\nn = 32',
    "dynamics": "beta = 1.0",
    "run": "t_end = 0.1\nsave_at = 2",
}
SPHERE = 'type = "sphere"\nlmax = 7'
FOURIER = 'type = "fourier-series"\n'
ZONAL = {"space": 'type = "zonal"\nkmax = 15', "law": 'type = "uniform"\ndim = 4'}
CSV = {"space": 'type = "particles"', "law": 'type = "point-cloud"\nfile = "tokens.csv"'}
TOKENS = 'type = "point-cloud"\nfile = "tokens-s2"'
BUMP = 'type = "von-mises-fisher"\n'

# name: the sections that differ from BASE, and what the line must say
CASES: dict[str, tuple[dict[str, str], str]] = {
    "beta negative": ({"dynamics": "beta = -1.0"}, "dynamics.beta must be a finite number >= 0"),
    "beta nan": ({"dynamics": "beta = nan"}, "dynamics.beta must be a finite number, got nan"),
    "beta inf": ({"dynamics": "beta = inf"}, "dynamics.beta must be a finite number, got inf"),
    "beta 1e999": ({"dynamics": "beta = 1e999"}, "dynamics.beta must be a finite number"),
    "beta a string": ({"dynamics": 'beta = "4"'}, "dynamics.beta must be a valid number, got '4'"),
    "beta a truth": ({"dynamics": "beta = true"}, "dynamics.beta must be a valid number, got True"),
    "beta missing": ({"dynamics": 'type = "SA"'}, "dynamics.beta is missing: it must be the inve"),
    "beta too large": ({"dynamics": 'type = "USA"\nbeta = 800.0'}, "dynamics.beta of USA"),
    "sign 0": ({"dynamics": "beta = 1\nsign = 0"}, "dynamics.sign must be +1 or -1, got 0"),
    "sign 0.5": ({"dynamics": "beta = 1\nsign = 0.5"}, "dynamics.sign must be a valid integer"),
    "noise negative": ({"dynamics": "beta = 1\nnoise = -0.1"}, "dynamics.noise must be a finite"),
    "noise nan": ({"dynamics": "beta = 1\nnoise = nan"}, "dynamics.noise must be a finite number"),
    "noise in a run": ({"dynamics": "beta = 1\nnoise = 0.1"}, "dynamics.noise must be 0"),
    "dynamics unknown": ({"dynamics": 'type = "GPT"\nbeta = 1'}, "dynamics.type must be 'SA' or"),
    "dynamics not a table": ({"dynamics": ""}, "dynamics.beta is missing"),
    "d 1": ({"space": 'type = "zonal"\ndim = 1'}, "space.dim must be an integer >= 2"),
    "d 0 of a law": (ZONAL | {"law": 'type = "uniform"\ndim = 0'}, "dim must be an integer >= 2"),
    "d no integer": ({"law": 'type = "uniform"\ndim = 2.0'}, "law.dim must be a valid integer"),
    "d nowhere": ({"space": 'type = "zonal"', "law": 'type = "uniform"'}, "space.dim is missing"),
    "d nowhere, tokens": (
        {"space": 'type = "particles"\nn = 3', "law": 'type = "uniform"'},
        "law.dim is missing: it must be an integer >= 2",
    ),
    "n odd": ({"space": 'type = "circle"\nn = 33'}, "space.n must be even, got 33"),
    "n small": ({"space": 'type = "circle"\nn = 4'}, "space.n must be an integer >= 8"),
    "n huge": ({"space": f'type = "circle"\nn = 1{"0" * 30}'}, "space.n must be an integer >= 8"),
    "n a float": ({"space": 'type = "circle"\nn = 32.5'}, "space.n must be a valid integer"),
    "lmax 0": ({"space": 'type = "sphere"\nlmax = 0'}, "space.lmax must be an integer >= 3"),
    "kmax 0": (ZONAL | {"space": 'type = "zonal"\nkmax = 0'}, "space.kmax must be an integer"),
    "kmax negative": (ZONAL | {"space": 'type = "zonal"\nkmax = -5'}, "space.kmax must be an int"),
    "axis not of norm 1": (
        ZONAL | {"space": 'type = "zonal"\naxis = [1.0, 1.0, 0.0, 0.0]'},
        "space.axis must have rows of norm 1",
    ),
    "axis too short": (
        ZONAL | {"space": 'type = "zonal"\naxis = [0.0, 1.0]\ndim = 4'},
        "space.axis must have rows of length",
    ),
    "no tokens": (
        {"space": 'type = "particles"\nn = 0'},
        "space.n must be greater than or equal to 1, got 0",
    ),
    "tokens not counted": ({"space": 'type = "particles"'}, "space.n is missing"),
    "seed negative": ({"space": 'type = "particles"\nn = 2\nseed = -1'}, "space.seed must be"),
    "space unknown": ({"space": 'type = "torus"'}, "space.type must be one of circle, sphere, zon"),
    "space without type": ({"space": "n = 32"}, "space.type is missing: it must be one of circle"),
    "another space's key": (
        {"space": f"{SPHERE}\nn = 3"},
        "space.n is an unknown key: the keys he",
    ),
    "dims don't fit": ({"space": SPHERE}, "law must have dim = 3 on Sphere(7)"),
    "axes don't fit": (
        {"space": 'type = "zonal"\nkmax = 15', "law": f"{BUMP}mean = [1.0, 0.0, 0.0]\nkappa = 2.0"},
        "law must be axisymmetric about the axis",
    ),
    "series negative": (
        {"law": f"{FOURIER}cos = [1.5]"},
        "law.cos and sin must give a density >= 0",
    ),
    "series nan": ({"law": f"{FOURIER}sin = [0.1, nan]"}, "law.sin[1] must be a finite number"),
    "series a number": ({"law": f"{FOURIER}cos = 0.5"}, "law.cos must be a valid list, got 0.5"),
    "zonal series negative": (
        ZONAL | {"law": 'type = "zonal-series"\ndim = 4\ncoefficients = [1.1]'},
        "law.coefficients must give a density >= 0",
    ),
    "zonal series without": (
        ZONAL | {"law": 'type = "zonal-series"\ndim = 4'},
        "law.coefficients is missing: it must be the list a_1, a_2, … of numbers",
    ),
    "law unknown": (
        {"law": 'type = "cauchy"'},
        "law.type must be one of uniform, von-mises-fisher",
    ),
    "law without type": ({"law": "dim = 2"}, "law.type is missing: it must be one of uniform"),
    "kappa negative": (
        {"law": f"{BUMP}mean = [0, 1]\nkappa = -1"},
        "law.kappa must be a finite nu",
    ),
    "kappa missing": ({"law": f"{BUMP}mean = [0, 1]"}, "law.kappa is missing: it must be the conc"),
    "mean not of norm 1": (
        {"law": f"{BUMP}mean = [3, 4]\nkappa = 1"},
        "law.mean must have rows of",
    ),
    "mean empty": ({"law": f"{BUMP}mean = []\nkappa = 1"}, "law.mean must be a non-empty array"),
    "mean nested": (
        {"law": f"{BUMP}mean = [[0, 1]]\nkappa = 1"},
        "law.mean[0] must be a valid num",
    ),
    "not resolved": (
        {"space": SPHERE, "law": f"{BUMP}{NORTH}\nkappa = 1e4"},
        "the density must have mass 1 within 1e-08 on Sphere(7)",
    ),
    "weights too many": (
        {"law": 'type = "mixture"\nlaws = [{type = "uniform"}]\nweights = [0.5, 0.5]'},
        "law.weights must have length 1, got 2",
    ),
    "weights negative": (
        {"law": 'type = "mixture"\nlaws = [{type = "uniform"}]\nweights = [-1.0]'},
        "law.weights must be >= 0, got -1",
    ),
    "weights zero": (
        {"law": 'type = "mixture"\nlaws = [{type = "uniform"}]\nweights = [0.0]'},
        "law.weights must have a positive sum",
    ),
    "mixture empty": (
        {"law": 'type = "mixture"\nlaws = []'},
        "law.laws must be a non-empty sequence",
    ),
    "mixture of dims": (
        {"law": 'type = "mixture"\nlaws = [{type="uniform", dim=2}, {type="uniform", dim=3}]'},
        "law.laws must have one dim, got dim = 2 at index 0",
    ),
    "mixture's key": (
        {"law": 'type = "mixture"\nlaws = [{type = "uniform"}, {type = "uniform", kappa = 1}]'},
        "law.laws[1].kappa is an unknown key: the keys here are type, dim",
    ),
    "mixture's value": (
        {"law": 'type = "mixture"\nlaws = [{type="von-mises-fisher", mean=[0, 1], kappa=-2}]'},
        "law.laws[0].kappa must be a finite number >= 0",
    ),
    "mixture's type": (
        {"law": 'type = "mixture"\nlaws = [{type = "delta"}]'},
        "law.laws[0].type must be one of uniform",
    ),
    "mixture of numbers": (
        {"law": 'type = "mixture"\nlaws = [1]'},
        "law.laws[0] must be a table, got 1",
    ),
    "bandwidth 0": (
        {"law": f"{TOKENS}\nbandwidth = 0"},
        "law.bandwidth must be a finite numbe",
    ),
    "bandwidth tiny": (
        {"space": SPHERE, "law": f"{TOKENS}\nbandwidth = 1e-9"},
        "law.bandwidth must be >= ",
    ),
    "no bandwidth": (
        {"space": SPHERE, "law": TOKENS},
        "law.bandwidth must be a number > 0 for a density",
    ),
    "t_end 0": ({"run": "t_end = 0"}, "run.t_end must be a finite number > 0, got 0"),
    "t_end negative": ({"run": "t_end = -1.0"}, "run.t_end must be a finite number > 0, got -1"),
    "t_end nan": ({"run": "t_end = nan"}, "run.t_end must be a finite number, got nan"),
    "t_end a date": ({"run": "t_end = 2026-11-20"}, "run.t_end must be a valid number"),
    "t_end missing": ({"run": "save_at = 2"}, "run.t_end is missing: it must be the final time"),
    "save_at 0": ({"run": "t_end = 1\nsave_at = 0"}, "run.save_at must be an integer >= 1"),
    "save_at a float": ({"run": "t_end = 1\nsave_at = 2.5"}, "run.save_at must be an integer >= 1"),
    "save_at a string": (
        {"run": 't_end = 1\nsave_at = "2"'},
        "run.save_at must be an integer >= 1",
    ),
    "save_at late": ({"run": "t_end = 1\nsave_at = [2.0]"}, "run.save_at must be an integer >= 1"),
    "save_at unordered": ({"run": "t_end = 1\nsave_at = [0.5, 0.2]"}, "run.save_at must be"),
    "save_at empty": ({"run": "t_end = 1\nsave_at = []"}, "run.save_at must be a non-empty"),
    "save_at nan": ({"run": "t_end = 1\nsave_at = [nan]"}, "run.save_at"),
    "rtol negative": ({"run": "t_end = 1\nrtol = -1e-9"}, "run.rtol must be a finite number >= "),
    "rtol large": ({"run": "t_end = 1\nrtol = 0.5"}, "run.rtol must be a finite number >= 3e-14 <"),
    "rtol a string": ({"run": 't_end = 1\nrtol = "1e-9"'}, "run.rtol must be a valid number"),
    "atol 0": ({"run": "t_end = 1\natol = 0"}, "run.atol must be a finite number > 0, got 0"),
    "tail_tol 1": ({"run": "t_end = 1\ntail_tol = 1"}, "run.tail_tol must be a finite number"),
    "largest below n": ({"run": "t_end = 1\nlargest = 16"}, "run.largest must be an integer >= 32"),
    "key of run unknown": (
        {"run": "t_end = 1\nstep = 0.1"},
        "run.step is an unknown key: the keys",
    ),
    "key of output unknown": ({"output": 'movie = "a.mp4"'}, "output.movie is an unknown key"),
    "section unknown": (
        {"plot": "style = 1"},
        "plot is an unknown key: the keys here are law, spac",
    ),
    "key with a line break": ({"run": '"a\\nb" = 1'}, "run.a b is an unknown key"),
    "output a folder": ({"output": 'file = "there.nc"'}, "output.file must be a file name that e"),
    "output no .nc": (
        {"output": 'file = "run.h5"'},
        "output.file must be a file name that ends in",
    ),
    "output a number": ({"output": "file = 3"}, "output.file must be a valid string, got 3"),
    "output with a null": (
        {"output": 'file = "a\\u0000.nc"'},
        "output.file must be a file name th",
    ),
    "figure no picture": ({"output": 'figure = "a.txt"'}, "output.figure must be a file name that"),
    "figure nowhere": ({"output": 'figure = "no/a.png"'}, "output.figure must be a file name that"),
}

GOOD_ROWS = "x,y,z\n0,0,1\n"
# name: the text of tokens.csv, and what the line must say
CLOUDS: dict[str, tuple[str, str]] = {
    "not of norm 1": (f"{GOOD_ROWS}1,1,1\n", "points must have rows of norm 1 (within 1e-06), got"),
    "nan": (f"{GOOD_ROWS}nan,0,1\n", "points must be finite, got nan"),
    "inf": (f"{GOOD_ROWS}inf,0,1\n", "points must be finite, got inf"),
    "ragged": (f"{GOOD_ROWS}0,1\n", "line 3 must be 3 numbers with commas between, got '0,1'"),
    "words": (f"{GOOD_ROWS}0,one,0\n", "line 3 must be 3 numbers with commas between"),
    "no rows": ("x,y,z\n", "must have at least one row below the header 'x,y,z'"),
    "nothing": ("", "line 1 must be a header of d >= 2 names"),
    "no header": ("0,0,1\n0,1,0\n", "line 1 must be a header of d >= 2 names"),
    "one column": (
        "x\n1\n",
        "line 1 must be a header of d >= 2 names with commas between, got ['x']",
    ),
    "semicolons": ("x;y;z\n0;0;1\n", "line 1 must be a header of d >= 2 names"),
    "two dims in a sphere": ("x,y\n0,1\n", "law must have dim = 3 on Sphere(7)"),
    "latin": ("x,y,\xe9\n0,0,1\n", "must be a CSV file in UTF-8"),
}

FUTURE = "can't read future.nc: this file has version 99; this meanfield reads up to 1"
# name: the command line in a folder with good.toml, good.nc and other things, and the line
COMMANDS: dict[str, tuple[list[str], str]] = {
    "no such case": (["run", "none.toml"], "none.toml: can't be read as a case file: No such file"),
    "a folder as a case": (["run", "there.nc"], "there.nc: can't be read as a case file: Is a dir"),
    "not TOML": (["run", "words.toml"], "words.toml: must be TOML, but Expected '=' after a key"),
    "not text": (["run", "good.nc"], "good.nc: must be TOML in UTF-8"),
    "deep": (["run", "deep.toml"], "deep.toml: must be TOML"),
    "endless": (["run", "/dev/zero"], "/dev/zero: must be a case file of at most 1048576 bytes"),
    "empty": (["run", "/dev/null"], "/dev/null: law is missing: it must be a table"),
    "a bad case, printed": (["run", "words.toml", "--print-case"], "words.toml: must be TOML"),
    "output in no folder": (
        ["run", "good.toml", "-o", "no/run.nc"],
        "--output must be a file name",
    ),
    "output below a file": (["run", "good.toml", "-o", "good.nc/a.nc"], "Not a directory"),
    "output a folder": (["run", "good.toml", "-o", "there.nc"], "it is no regular file"),
    "output no .nc": (
        ["run", "good.toml", "-o", "run.txt"],
        "--output must be a file name that end",
    ),
    "output empty": (
        ["run", "good.toml", "-o", ""],
        "--output must be a file name that ends in .nc",
    ),
    "output too long": (["run", "good.toml", "-o", f"{'a' * 300}.nc"], "File name too long"),
    "output in /proc": (["run", "good.toml", "-o", "/proc/run.nc"], "--output must be a file name"),
    "figure no picture": (
        ["run", "good.toml", "--figure", "a.doc"],
        "--figure must be a file name",
    ),
    "figure below a file": (["run", "--figure", "good.nc/a.png"], "--figure must be a file name"),
    "figure beside": (
        ["run", "good.toml", "-o", "folder.nc"],
        "the figure beside --output must be",
    ),
    "option unknown": (["run", "--speed", "9"], "No such option: --speed"),
    "option without value": (["run", "-o"], "Option '-o' requires an argument"),
    "too many cases": (["run", "good.toml", "b.toml"], "unexpected extra argument"),
    "command unknown": (["walk"], "No such command 'walk'"),
    "top option unknown": (["--loud"], "No such option: --loud"),
    "plot of nothing": (["plot"], "Missing argument 'RUN.nc'"),
    "plot of no file": (["plot", "none.nc"], "there is no file none.nc"),
    "plot of a folder": (["plot", "there.nc"], "can't read there.nc: Is a directory"),
    "plot of a case": (["plot", "good.toml"], "can't read good.toml: it is no NetCDF-4 file"),
    "plot of an empty name": (["plot", ""], "can't read .: Is a directory"),
    "plot of the future": (["plot", "future.nc"], FUTURE),
    "plot of a foreign file": (["plot", "foreign.nc"], "can't read foreign.nc: its format must be"),
    "plot of a damaged file": (
        ["plot", "damaged.nc"],
        "can't read damaged.nc: coefficients must be",
    ),
    "plot of a short file": (
        ["plot", "short.nc"],
        "can't read short.nc: it is cut short or damaged",
    ),
    "plot to nowhere": (["plot", "good.nc", "-o", "no/a.png"], "--output must be a file name that"),
    "plot to no picture": (
        ["plot", "good.nc", "-o", "good.nc"],
        "--output must be a file name that",
    ),
    "info of the future": (["info", "future.nc"], FUTURE),
    "info of no file": (["info", "none.nc"], "there is no file none.nc"),
    "info of a damaged file": (
        ["info", "damaged.nc"],
        "can't read damaged.nc: coefficients must be",
    ),
}


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
    contents["deep.toml"] = b"a = " + b"[" * 5000
    return contents


@pytest.fixture
def folder(tmp_path, monkeypatch, files):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "there.nc").mkdir()
    (tmp_path / "folder.png").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def assert_refused(folder, status, said, expected, before):
    lines = said.splitlines()
    assert status == 2, said
    assert len(lines) == 1, said
    assert said.endswith("\n")
    assert expected in lines[0]
    assert lines[0].startswith("meanfield: ")
    assert "Traceback" not in said
    assert contents(folder) == before


def commands():
    for name, (changes, expected) in CASES.items():
        yield pytest.param(toml(changes), None, ["run", "bad.toml"], expected, id=f"case, {name}")
    for name, (rows, expected) in CLOUDS.items():
        space = {"space": SPHERE} if "sphere" in name else {}
        smooth = {"law": f"{CSV['law']}\nbandwidth = 0.5"} if "sphere" in name else {}
        text, file = toml(CSV | space | smooth), rows
        told = expected if "sphere" in name else f"law.file = 'tokens.csv': {expected}"
        yield pytest.param(text, file, ["run", "bad.toml"], told, id=f"points, {name}")
    told = "law.file = 'tokens.csv': must be a CSV file or 'tokens-s2', but tokens.csv does not ex"
    yield pytest.param(toml(CSV), None, ["run", "bad.toml"], told, id="points, no file")
    for name, (argv, expected) in COMMANDS.items():
        yield pytest.param(None, None, argv, expected, id=f"command, {name}")


ALL = list(commands())


def test_there_are_enough():
    assert len(ALL) >= 60
    assert len({case.id for case in ALL}) == len(ALL)


@pytest.mark.parametrize(("text", "rows", "argv", "expected"), ALL)
def test_command_refuses(folder, capsys, text, rows, argv, expected):
    if text is not None:
        (folder / "bad.toml").write_text(text, "utf-8")
    if rows is not None:
        encoding = "latin-1" if "\xe9" in rows else "utf-8"
        (folder / "tokens.csv").write_text(rows, encoding)
    before = contents(folder)
    status = main(argv)
    said = capsys.readouterr().err
    assert_refused(folder, status, said, expected, before)
    assert text is None or said.startswith("meanfield: bad.toml: ")


IN_A_PROCESS = [
    case
    for case in ALL
    if case.id
    in {
        "case, beta negative",
        "points, not of norm 1",
        "command, option unknown",
        "command, plot of the future",
        "command, output below a file",
    }
]


@pytest.mark.parametrize(("text", "rows", "argv", "expected"), IN_A_PROCESS)
def test_process_refuses(folder, text, rows, argv, expected):
    for name, content in ("bad.toml", text), ("tokens.csv", rows):
        if content is not None:
            (folder / name).write_text(content, "utf-8")
    before = contents(folder)
    code = "import sys; from meanfield.cli import main; sys.exit(main())"
    root = Path(mf.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code, *argv],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
        check=False,
    )
    assert_refused(folder, done.returncode, done.stderr, expected, before)


CIRCLE = mf.Circle(16)
EAST = [[1.0, 0.0]]
UNIFORM = mf.Density(CIRCLE, np.ones(24))
RNG = np.random.default_rng(0)
WAVE = np.cos(CIRCLE.angles)

# name: what is called, and how the message begins
CALLS = {
    "values negative": (
        lambda: mf.Density(CIRCLE, 1 + 1.5 * WAVE),
        "values must be >= 0, got -0.5",
    ),
    "mass 2": (lambda: mf.Density(CIRCLE, np.full(24, 2.0)), "the density must have mass 1 within"),
    "mass 0": (
        lambda: mf.Density(CIRCLE, np.zeros(24)),
        "the density must have mass 1 within 1e-0",
    ),
    "values too few": (
        lambda: mf.Density(CIRCLE, np.ones(16)),
        "values must have shape (24,), one ",
    ),
    "values a matrix": (lambda: mf.Density(CIRCLE, np.ones((24, 1))), "values must be a non-empty"),
    "values empty": (lambda: mf.Density(CIRCLE, []), "values must be a"),
    "values nan": (lambda: mf.Density(CIRCLE, WAVE / 0.0 * 0.0), "values must be finite, got nan"),
    "values inf": (
        lambda: mf.Density(CIRCLE, np.full(24, np.inf)),
        "values must be finite, got inf",
    ),
    "values complex": (
        lambda: mf.Density(CIRCLE, WAVE + 0j),
        "values must be an array of real numb",
    ),
    "values words": (
        lambda: mf.Density(CIRCLE, ["a"] * 24),
        "values must be an array of real numb",
    ),
    "values jump": (
        lambda: mf.Density(CIRCLE, 2.0 * (np.arange(24) < 12)),
        "values must be resolved",
    ),
    "dims differ": (
        lambda: mf.Density(CIRCLE, mf.Uniform(3)),
        "law must have dim = 2 on Circle(16)",
    ),
    "points not of norm 1": (
        lambda: UNIFORM.at([[1.0, 1.0]]),
        "points must have rows of norm 1 (wit",
    ),
    "points of dim 3": (
        lambda: UNIFORM.at([[1.0, 0.0, 0.0]]),
        "points must have rows of length = 2",
    ),
    "one point": (lambda: UNIFORM.at([1.0, 0.0]), "points must be a non-empty array with 2 axes"),
    "tokens not of norm 1": (
        lambda: mf.Particles([[3.0, 4.0]]),
        "points must have rows of norm 1 (",
    ),
    "tokens nan": (
        lambda: mf.Particles([[np.nan, 1.0]]),
        "points must be finite, got nan at index",
    ),
    "tokens empty": (
        lambda: mf.Particles(np.zeros((0, 2))),
        "points must be a non-empty array with",
    ),
    "tokens of dim 1": (
        lambda: mf.Particles([[1.0]]),
        "points must have rows of length >= 2, got s",
    ),
    "tokens ragged": (
        lambda: mf.Particles([[1.0, 0.0], [1.0]]),
        "points must be an array of real nu",
    ),
    "weights negative": (
        lambda: mf.Particles(EAST, [-1.0]),
        "weights must be >= 0, got -1 at index",
    ),
    "weights too many": (
        lambda: mf.Particles(EAST, [1.0, 1.0]),
        "weights must have length 1, got 2",
    ),
    "a seed for rng": (
        lambda: mf.Particles.sample(mf.Uniform(2), 3, 0),
        "rng must be a numpy.random",
    ),
    "no sample": (lambda: mf.Particles.sample(mf.Uniform(2), 0, RNG), "n must be an integer >= 1"),
    "z nan": (lambda: UNIFORM.moment([[np.nan, 0.0]]), "z must be finite, got nan at index (0, 0)"),
    "z far": (lambda: UNIFORM.moment([[800.0, 0.0]]), "z must have rows with log G(z) <= 709, got"),
    "beta negative": (lambda: mf.SA(-1.0), "beta must be a finite number >= 0, got -1.0"),
    "beta a string": (lambda: mf.USA("1"), "beta must be a finite number >= 0, got '1'"),
    "sign 2": (lambda: mf.SA(1.0, sign=2), "sign must be +1 or -1, got 2"),
    "noise nan": (lambda: mf.SA(1.0, noise=np.nan), "noise must be a finite number >= 0, got nan"),
    "at": (
        lambda: mf.SA(1.0).velocity(UNIFORM, at=[[2.0, 0.0]]),
        "at must have rows of norm 1 (with",
    ),
    "energy's beta": (lambda: mf.energy(UNIFORM, np.inf), "beta must be a finite number >= 0, got"),
    "energy's size": (
        lambda: mf.energy(mf.Particles(EAST), 800.0),
        "beta = 800 makes the energy ove",
    ),
    "t_end 0": (
        lambda: mf.evolve(UNIFORM, mf.SA(1.0), 0),
        "t_end must be a finite number > 0, got 0",
    ),
    "t_end a list": (
        lambda: mf.evolve(UNIFORM, mf.SA(1.0), [1.0]),
        "t_end must be a finite number",
    ),
    "save_at": (
        lambda: mf.evolve(UNIFORM, mf.SA(1.0), 1.0, [2.0]),
        "save_at must be an integer >= 1",
    ),
    "rtol": (
        lambda: mf.evolve(UNIFORM, mf.SA(1.0), 1.0, rtol=0),
        "rtol must be a finite number >= ",
    ),
    "a law": (
        lambda: mf.evolve(mf.Uniform(2), mf.SA(1.0), 1.0),
        "measure must be a Density or Parti",
    ),
    "no dynamics": (lambda: mf.evolve(UNIFORM, "SA", 1.0), "dynamics must be SA or USA, got 'SA'"),
    "n odd": (lambda: mf.Circle(17), "n must be even, got 17"),
    "lmax a float": (lambda: mf.Sphere(7.0), "lmax must be an integer >= 3"),
    "d 1": (lambda: mf.Zonal(1, 8), "dim must be an integer >= 2"),
    "d of a law": (lambda: mf.Uniform(1), "dim must be an integer >= 2"),
    "kappa nan": (
        lambda: mf.VonMisesFisher([0.0, 1.0], np.nan),
        "kappa must be a finite number >= 0",
    ),
    "series negative": (
        lambda: mf.FourierSeries(sin=[2.0]),
        "cos and sin must give a density >= 0",
    ),
    "bandwidth 0": (
        lambda: mf.PointCloud(EAST, bandwidth=0.0),
        "bandwidth must be a finite number >",
    ),
    "pdf of tokens": (
        lambda: mf.PointCloud(EAST).pdf(EAST),
        "bandwidth must be a number > 0 for a d",
    ),
    "mixture of nothing": (lambda: mf.Mixture([], []), "laws must be a non-empty sequence of laws"),
    "no file": (lambda: mf.load("none.nc"), "there is no file none.nc"),
}


@pytest.mark.parametrize(("call", "begins"), CALLS.values(), ids=CALLS)
def test_name_refuses(folder, call, begins):
    before = contents(folder)
    with pytest.raises(ValueError, match=r".") as caught, np.errstate(all="ignore"):
        call()
    message = str(caught.value)
    assert message.startswith(begins)
    assert len(message.splitlines()) == 1
    assert contents(folder) == before
