"""Solutions: round trips to the bit, and files that are trusted in nothing."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import h5netcdf
import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.solution import MissingFileError

AXIS = np.array([0.48, -0.6, 0.64])
SPACES = {
    "circle": lambda size: mf.Circle(32 * size),
    "sphere": lambda size: mf.Sphere(16 * size - 1),
    "zonal": lambda size: mf.Zonal(3, 16 * size - 1, AXIS),
}


def solution(measures, dynamics=None, **changes):
    """A run as evolve would leave it, with numbers that need all their bits."""
    t = np.cumsum(1.0 / np.arange(3.0, 3.0 + len(measures)))
    numbers = {"energy": np.sqrt(1 + t), "dissipation": np.exp(-t), "mass": np.ones(len(t))}
    columns = {name: ("t", column, {"long_name": name}) for name, column in numbers.items()}
    if all(isinstance(measure, mf.Density) for measure in measures):
        about = {"long_name": "size of the space in use (n, lmax or kmax)"}
        columns["size"] = "t", [measure.space.size for measure in measures], about
    attributes = {"energy_unit": "1", "rtol": 1e-9, "tail_tol": 0.1}
    given = {
        "t": t,
        "measures": measures,
        "dynamics": dynamics or mf.USA(beta=1 / 3, sign=-1),
        "ending": mf.Ending.UNDER_RESOLVED,
        "message": "under-resolved at t = 1: β is σharp",
        "dataset": xr.Dataset(columns, coords={"t": ("t", t)}, attrs=attributes),
        "case": "# β\n[dynamics]\nbeta = 0.3\n" * 3000,
    }
    return mf.Solution(**given | changes)


def densities(kind, sizes=(1, 1, 2, 4)):
    """Random series of mass 1 on growing spaces."""
    rng = np.random.default_rng(7)
    found = []
    for size in sizes:
        space = SPACES[kind](size)
        coefficients = rng.normal(size=2 * space.n_coefficients).view(np.complex128)
        coefficients = (
            coefficients.astype(space.coefficient_type)
            if kind != "zonal"
            else (coefficients.real.copy())
        )
        if kind == "sphere":
            coefficients[: space.size + 1] = coefficients[: space.size + 1].real
        coefficients[0] = 1.0
        found.append(mf.Density.from_coefficients(space, coefficients))
    return found


def particles(count=3):
    rng = np.random.default_rng(8)
    clouds = rng.normal(size=(count, 50, 7))
    clouds /= np.linalg.norm(clouds, axis=-1, keepdims=True)
    return [mf.Particles(cloud, rng.uniform(size=50)) for cloud in clouds]


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("kind", SPACES)
def test_densities_come_back_to_the_bit(kind, tmp_path):
    sol = solution(densities(kind))
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    assert len({measure.space.size for measure in sol.measures}) == 3
    for a, b in zip(sol.measures, again.measures, strict=True):
        assert repr(a.space) == repr(b.space) and type(a.space) is type(b.space)
        assert np.ptp(a.values) > 1 and same_bits(a.coefficients, b.coefficients)
        assert same_bits(a.values, b.values)
        assert same_bits(a.at(np.eye(a.dim)), b.at(np.eye(a.dim)))
    assert again.measures[0].space is again.measures[1].space
    xr.testing.assert_identical(sol.dataset, again.dataset)
    assert same_bits(sol.t, again.t) and sol.dynamics == again.dynamics
    assert (sol.ending, sol.message, sol.case) == (again.ending, again.message, again.case)
    assert repr(sol) == repr(again)


def test_particles_come_back_to_the_bit(tmp_path):
    sol = solution(particles(), mf.SA(beta=0.1, noise=0.2))
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    for a, b in zip(sol.measures, again.measures, strict=True):
        assert same_bits(a.points, b.points) and same_bits(a.weights, b.weights)
        assert not b.points.flags.writeable and not b.weights.flags.writeable
    xr.testing.assert_identical(sol.dataset, again.dataset)
    assert sol.dynamics == again.dynamics


def test_a_loaded_solution_saves_the_same_file(tmp_path):
    solution(densities("circle")).save(tmp_path / "a.nc")
    mf.load(tmp_path / "a.nc").save(tmp_path / "b.nc")
    a, b = (xr.load_dataset(tmp_path / name, engine="h5netcdf") for name in ("a.nc", "b.nc"))
    xr.testing.assert_identical(a, b)


def test_a_run_comes_back(tmp_path):
    mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))
    sol = mf.evolve(mu, mf.SA(4.0), 0.5, 3, case="[run]", monitors={"up": lambda m: m.mean()[1]})
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    xr.testing.assert_identical(sol.dataset, again.dataset)
    assert again.status == "finished" and again.case == "[run]"
    assert same_bits(sol.final.values, again.final.values)
    assert abs(mf.energy(again.final, 4.0) - float(sol.dataset.energy[-1])) < 1e-15


def test_the_file_tells_what_it_is(tmp_path):
    sol = solution(densities("zonal"))
    sol.save(tmp_path / "run.nc")
    file = xr.load_dataset(tmp_path / "run.nc", engine="h5netcdf")
    assert file.attrs["format"] == "meanfield-solution" and file.attrs["format_version"] == 1
    assert file.attrs["status"] == "under-resolved" and file.attrs["case"] == sol.case
    assert (file.attrs["dynamics"], file.attrs["beta"], file.attrs["sign"]) == ("USA", 1 / 3, -1)
    assert (file.attrs["space"], file.attrs["dim"]) == ("zonal", 3)
    assert np.array_equal(file.attrs["axis"], AXIS)
    assert file.attrs["numpy_version"] == np.__version__ and file.attrs["ducc0_version"]
    assert file.coefficients.dims == ("t", "coefficient", "part")
    assert file.coefficients.shape == (4, 64, 1) and file.coefficients.dtype == np.float64
    assert list(file["size"]) == [15, 15, 31, 63]
    for variable in file.data_vars.values():
        assert variable.attrs["long_name"]


def test_what_is_printed_is_short():
    text = repr(solution(densities("sphere")))
    assert len(text) < 160
    assert "under-resolved" in text and "USA(beta=0.33" in text and "4 saves to t = 0.95" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"t": [0.0, 2.0, 1.0, 3.0]}, "t must ascend, got"),
        ({"t": [0.0, 1.0]}, r"must be of one length, got \(2, 4, 4\)"),
        ({"t": [0.0, np.nan, 1.0, 2.0]}, "t must be finite, got nan"),
        ({"ending": "exhausted"}, "'exhausted' is not a valid Ending"),
        ({"dataset": xr.Dataset()}, r"got \(4, 4, None\)"),
    ],
)
def test_inconsistent_solution_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        solution(densities("circle"), **changes)


def test_measures_of_two_kinds_are_not_saved(tmp_path):
    circle, zonal = densities("circle")[:1], densities("zonal")[:1]
    turned = mf.Density.from_coefficients(mf.Zonal(3, 15), zonal[0].coefficients)
    few = mf.Particles(np.eye(7)[:3])
    for mixed in (circle + zonal, zonal + [turned], particles(1) + [few], zonal + particles(1)):
        with pytest.raises(ValueError, match="measures must .*, got "):
            solution(mixed).save(tmp_path / "run.nc")
    assert os.listdir(tmp_path) == []


def test_a_variable_of_the_files_own_name_is_not_lost(tmp_path):
    sol = solution(particles())
    sol.dataset["weights"] = sol.dataset.mass
    with pytest.raises(ValueError, match=r"variables \['weights'\]: rename them"):
        sol.save(tmp_path / "run.nc")


# Writing


def test_a_file_is_replaced_by_a_whole_one(tmp_path):
    path = tmp_path / "run.nc"
    path.write_text("the last good one")
    sol = solution(densities("circle"))
    sol.dataset["no number"] = "t", np.array([object()] * 4)
    with pytest.raises((TypeError, ValueError)):
        sol.save(path)
    assert path.read_text() == "the last good one" and os.listdir(tmp_path) == ["run.nc"]
    solution(densities("circle")).save(path)
    assert mf.load(path).status == "under-resolved" and os.listdir(tmp_path) == ["run.nc"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    sol = solution(densities("circle", [1]))
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for name, reason in {
        "missing/run.nc": "No such file or directory",
        "file/run.nc": "Not a directory",
        "folder": "it is there already, and is not a file",
        "x" * 300: "File name too long",
    }.items():
        with pytest.raises(OSError, match=f"can't write .*{re.escape(name)}: .*{reason}"):
            sol.save(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device that is always full")
def test_a_device_is_not_replaced():
    with pytest.raises(OSError, match="is not a file"):
        solution(densities("circle", [1])).save("/dev/full")


def test_a_disk_that_fills_up_leaves_nothing(tmp_path):
    """Files may not grow beyond 20 kB in a process of their own."""
    script = f"""
import resource, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_solution
sol = test_solution.solution(test_solution.densities("sphere"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    sol.save({str(tmp_path / "run.nc")!r})
except OSError as error:
    print(error)
"""
    pytest.importorskip("resource")
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(mf.__file__).parents[1])
    assert f"can't write {tmp_path / 'run.nc'}: " in done.stdout, done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["", None, 3, b""])
def test_no_path(path):
    with pytest.raises(ValueError, match="path must be the name of a file, got"):
        mf.load(path)
    with pytest.raises(ValueError, match="path must be the name of a file, got"):
        solution(densities("circle", [1])).save(path)


# Reading


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "good.nc"
    solution(densities("sphere"), case="[run]").save(path)
    return path


def refusal(path):
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        mf.load(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    return str(caught.value)


def test_missing_file(tmp_path):
    assert refusal(tmp_path / "run.nc") == f"there is no file {tmp_path / 'run.nc'}"
    with pytest.raises(FileNotFoundError):
        mf.load(tmp_path / "run.nc")
    assert issubclass(MissingFileError, ValueError)


@pytest.mark.parametrize("content", [b"", b"CDF\x01", b"[run]\nt_end = 1\n", b"\x89HDF"])
def test_no_netcdf(content, tmp_path):
    (tmp_path / "run.nc").write_bytes(content)
    assert "it is no NetCDF-4 file" in refusal(tmp_path / "run.nc")


def test_a_folder_is_no_file(tmp_path):
    assert refusal(tmp_path).endswith(": Is a directory")


def test_cut_short_anywhere(good, tmp_path):
    whole = good.read_bytes()
    path = tmp_path / "cut.nc"
    for length in np.linspace(8, len(whole) - 1, 25).astype(int):
        path.write_bytes(whole[:length])
        assert "cut short or damaged" in refusal(path)


def test_a_flipped_byte_never_goes_unseen(good, tmp_path):
    """Every array has a checksum: what still loads has the same numbers."""
    whole, expected = good.read_bytes(), mf.load(good)
    rng, seen = np.random.default_rng(3), 0
    for place in rng.integers(0, len(whole), 60):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "run.nc").write_bytes(bytes(flipped))
        try:
            found = mf.load(tmp_path / "run.nc")
        except ValueError:
            seen += 1
            continue
        for a, b in zip(expected.measures, found.measures, strict=True):
            assert same_bits(a.coefficients, b.coefficients)
    assert seen > 30


def test_another_file_of_netcdf(tmp_path):
    xr.Dataset({"x": ("t", [1.0])}).to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    assert "its format must be 'meanfield-solution', got None" in refusal(tmp_path / "run.nc")


def written(path, sol, change):
    """A file of ours with a change to its dataset."""
    sol.save(path)
    file = xr.load_dataset(path, engine="h5netcdf", mask_and_scale=False)
    changed = change(file)
    changed.to_netcdf(path, engine="h5netcdf")
    return path


def attribute(**changes):
    return lambda file: file.assign_attrs(changes)


def without(name):
    def change(file):
        file = file.drop_vars(name, errors="ignore")
        file.attrs.pop(name, None)
        return file

    return change


def put(name, index, value, kind=None):
    def change(file):
        values = file[name].values.astype(kind or file[name].dtype)
        values[index] = value
        return file.assign({name: (file[name].dims, values)})

    return change


def future(file):
    """A version to come may drop and rename everything but these two."""
    return xr.Dataset(attrs={"format": "meanfield-solution", "format_version": 7})


FAULTS = {
    "future": (future, "this file has version 7; this meanfield reads up to 1"),
    "version 0": (attribute(format_version=0), "format_version must be an integer >= 1, got"),
    "version 1.5": (attribute(format_version=1.5), "format_version must be an integer >= 1, got"),
    "version none": (without("format_version"), "format_version must be .*, got None"),
    "format": (attribute(format="dedalus"), "its format must be .*, got 'dedalus'"),
    "format a number": (attribute(format=[1, 2]), "its format must be 'meanfield-solution', got"),
    "dynamics": (
        attribute(dynamics="__import__('os')"),
        r"dynamics must be one of \['SA', 'USA'\]",
    ),
    "no dynamics": (without("dynamics"), "attribute dynamics must be of type str, got None"),
    "beta": (attribute(beta=-1.0), "beta must be a finite number >= 0, got .*-1.0"),
    "beta NaN": (attribute(beta=np.nan), "beta must be a finite number >= 0, got .*nan"),
    "beta a word": (attribute(beta="four"), "attribute beta must be of type Real, got 'four'"),
    "beta an array": (attribute(beta=[1.0, 2.0]), "attribute beta must be of type Real"),
    "sign": (attribute(sign=2), "sign must be .1 or -1, got .*2"),
    "noise": (attribute(noise=-2.0), "noise must be a finite number >= 0"),
    "status": (attribute(status="bored"), "'bored' is not a valid Ending"),
    "no message": (without("message"), "attribute message must be of type str, got None"),
    "case": (attribute(case=5), "attribute case must be of type str, got .*5"),
    "space": (attribute(space="torus"), "space must be one of .*'particles'.*, got 'torus'"),
    "space a number": (attribute(space=3), "space must be one of .*, got .*3"),
    "other space": (
        attribute(space="circle"),
        r"coefficients must have shape \(31, 2\) .*\(2080, 2\)",
    ),
    "no tokens": (attribute(space="particles"), "points must be a variable over"),
    "no coefficients": (without("coefficients"), "coefficients must be a variable over"),
    "no size": (without("size"), "size must be a variable over t"),
    "no t": (without("t"), "t must be a variable over"),
    "NaN": (
        put("coefficients", (1, 5, 0), np.nan),
        r"coefficients must be finite, got nan at .*\(1, 5, 0\)",
    ),
    "infinity": (put("coefficients", (0, 0, 0), np.inf), "coefficients must be finite, got inf"),
    "t NaN": (put("t", 1, np.nan), "t must be finite, got nan"),
    "t backwards": (put("t", 1, -1.0), "t must ascend"),
    "huge size": (
        put("size", 3, 10**9),
        "size must be an integer >= 3 and <= 1048576, got .*1000000000",
    ),
    "larger size": (
        put("size", 3, 127),
        r"must have shape \(8256, 2\) .* size 127, got \(2080, 2\)",
    ),
    "smaller size": (put("size", 3, 62), r"must have shape \(2016, 2\)"),
    "size -5": (put("size", 0, -5), "size must be an integer >= 3 .*, got .*-5"),
    "size 15.5": (put("size", 0, 15.5, float), "size must be an integer >= 3 .*, got .*15.5"),
    "t cut": (lambda file: file.isel(part=[0]), "coefficients must have shape .*, got"),
    "words": (lambda file: file.assign(x=("t", list("abcd"))), "x must hold numbers, got"),
    "turned": (lambda file: file.transpose("part", ...), "coefficients must be a variable over"),
    "complex": (
        lambda file: file.assign(coefficients=file.coefficients.astype(str)),
        "coefficients must hold numbers",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_file_with_a_fault(name, tmp_path):
    change, message = FAULTS[name]
    path = written(tmp_path / "run.nc", solution(densities("sphere")), change)
    assert re.search(message, refusal(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("points", (0, 3, 0), 5.0), "points must have rows of norm 1"),
        (put("weights", (1, 2), -1.0), "weights must be >= 0, got -1"),
        (put("weights", 0, 0.0), "weights must have a positive sum"),
        (lambda file: file.isel(token=[]), "points must be a non-empty array"),
    ],
)
def test_particles_with_a_fault(change, message, tmp_path):
    path = written(tmp_path / "run.nc", solution(particles()), change)
    assert re.search(message, refusal(path))


@pytest.mark.parametrize("axis", [None, "up", [1.0], [1.0, 1.0, 0.0], [np.nan, 0.0, 1.0], 10**9])
def test_axis_with_a_fault(axis, tmp_path):
    change = without("axis") if axis is None else attribute(axis=axis)
    path = written(tmp_path / "run.nc", solution(densities("zonal")), change)
    assert "axis must" in refusal(path)


def test_numbers_that_are_not_there_take_no_memory(good, tmp_path):
    """An array of 10^15 numbers that was never written takes no room on disk."""
    path = tmp_path / "run.nc"
    with h5netcdf.File(path, "w") as file:
        file.attrs["format"], file.attrs["format_version"] = "meanfield-solution", 1
        file.dimensions = {"t": 10**9, "coefficient": 10**6}
        file.create_variable("t", ("t",), float, chunks=(1000,))
        file.create_variable("coefficients", ("t", "coefficient"), float, chunks=(1, 1000))
    assert path.stat().st_size < 100_000
    assert re.search(r"claims to hold 80000080000+ bytes", refusal(path))


def test_attributes_of_the_dataset_are_kept_apart(tmp_path):
    sol = solution(particles())
    sol.dataset.attrs = {"energy_unit": "exp(beta)", "steps": [1, 2], "beta": 9.0}
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    assert again.dataset.attrs["energy_unit"] == "exp(beta)"
    assert list(again.dataset.attrs["steps"]) == [1, 2]
    assert again.dynamics.beta == 1 / 3 and "beta" not in again.dataset.attrs


def test_nothing_in_a_case_is_run(tmp_path):
    text = json.dumps("__import__('os').system('touch ran')")
    sol = solution(particles(), case=text, message=text)
    sol.save(tmp_path / "run.nc")
    assert mf.load(tmp_path / "run.nc").case == text
