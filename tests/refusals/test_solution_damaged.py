"""Solutions from files that are missing, damaged, too large, foreign or hostile: one line each."""

import functools
import json
import os
import re
import tempfile
from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.evolution import netcdf
from meanfield.evolution.solution import FORMAT_VERSION
from tests.handmade import densities, particles, solution


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "good.nc"
    solution(densities("sphere"), case="[run]").save(path)
    return path


def refusal(path):
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        mf.load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return str(caught.value)


def test_missing_file(tmp_path):
    assert refusal(tmp_path / "run.nc") == f"there is no file {tmp_path / 'run.nc'}"
    with pytest.raises(FileNotFoundError):
        mf.load(tmp_path / "run.nc")


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


def test_a_flipped_bit_anywhere_is_seen(good, tmp_path):
    path, content, rng = tmp_path / "run.nc", good.read_bytes(), np.random.default_rng(1)
    length = len(content)
    of_seal = np.arange(length - 50, length)
    for place in [*rng.integers(length, size=150), *of_seal]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        assert re.search("damaged|no NetCDF-4 file", refusal(path))


def without_seal(path):
    return path.read_bytes()[: -len(netcdf.seal(b""))]


def test_what_other_tools_write_anew_has_no_seal(good, tmp_path):
    path, unsealed = tmp_path / "run.nc", without_seal(good)
    path.write_bytes(unsealed)
    np.testing.assert_array_equal(mf.load(path).t, mf.load(good).t)
    # but nothing may stand where a seal was
    path.write_bytes(unsealed + b"?")
    assert f"must end with a seal, or after {len(unsealed)} bytes" in refusal(path)


def test_numbers_beyond_the_memory_are_refused(good, monkeypatch):
    monkeypatch.setattr(netcdf, "memory_of_machine", lambda: 1e4)
    assert re.search(r"it holds \d+ bytes of numbers, of which .* at most 2500", refusal(good))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "run.nc")
    assert "it must be a regular file" in refusal(tmp_path / "run.nc")


def test_another_file_of_netcdf(tmp_path):
    xr.Dataset({"x": ("t", [1.0])}).to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    assert "got none, as in a dataset of a study" in refusal(tmp_path / "run.nc")


BUMPS = mf.Mixture([mf.VonMisesFisher(v, 2.0) for v in np.eye(3)[:2]])
NODES = [-1.0, 0.0, 2.0]
RUNS = {
    "circle": lambda: solution(densities("circle"), case="[run]"),
    "zonal": lambda: solution(densities("zonal")),
    "particles": lambda: solution(particles()),
    "line": lambda: mf.evolve(mf.FlowMap(mf.FourierSeries(cos=[0.5])), mf.SA(1.0), 0.1, 2),
    "sphere": lambda: mf.evolve(mf.FlowMap(BUMPS, tol=1e-4), mf.SA(1.0), 0.1, 1),
    "oscillators": lambda: solution([mf.Oscillators([0.0, 1.0, 2.0], NODES)] * 2),
    "oscillator densities": lambda: solution(
        [mf.OscillatorDensity(mf.Circle(16), mf.FourierSeries(cos=[0.4]), NODES)] * 2
    ),
    "heads": lambda: solution(
        particles(), mf.Attention(1.0, [mf.Head(np.diag(np.arange(1.0, 8.0)))] * 21)
    ),
}


@functools.cache
def on_file(kind):
    """The bytes of a file of this run without its seal, and its dataset."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.nc")
        RUNS[kind]().save(path)
        dataset = xr.load_dataset(path, engine="h5netcdf", mask_and_scale=False)
        return without_seal(path), dataset


def rows(table):
    """Rows with their kind of run; a density and tokens are quick."""
    marks = dict.fromkeys(table.keys() - {"circle", "particles"}, pytest.mark.slow)
    return [
        pytest.param(kind, *row, marks=marks.get(kind, ()))
        for kind, of_kind in table.items()
        for row in of_kind
    ]


def attribute(**changes):
    return lambda file: file.attrs.update(changes)


def put(name, index, value):
    def edit(file):
        file[name][index] = value

    return edit


def changed(name, changes):
    def edit(file):
        record = json.loads(file.attrs[name])
        (record[0] if isinstance(record, list) else record).update(changes)
        file.attrs[name] = json.dumps(record)

    return edit


def of_dynamics(**changes):
    """A change of the record of the dynamics."""
    return changed("dynamics", changes)


def of_measures(**changes):
    """A change of the record of the measures."""
    return changed("measures", changes)


def placed_at(first, shape):
    """The record of heads, of which one has its matrix at a place among the numbers of the file."""
    return [{"type": "Head", "Q": {"first_number": first, "shape": shape}}]


ZONAL = {"type": "Zonal", "dim": 3, "kmax": 15}
AXES = "up", [1.0], [1.0, 1.0, 0.0], [np.nan, 0.0, 1.0], 10**9
NO_AXIS = "axis must|axis, shape|its checksum must"
# kind of run: what is changed in its file where it stands, and what the line must say
EDITS = {
    "circle": [
        (attribute(format_version=1), "has version 1; .* reads 3, in which names are other"),
        (attribute(format_version=1.5), "format_version must be an integer >= 1, got"),
        (attribute(format="dedalus"), "its format must be .*, got 'dedalus'"),
        (attribute(format=[1, 2]), "its format must be 'meanfield-solution', got"),
        (attribute(dynamics="__import__('os')"), "dynamics must be JSON, got .__import__"),
        (of_dynamics(type="Head"), "record must be of SA, USA, DoublyStochastic"),
        (attribute(energy="["), r"energy must be JSON, got '\['"),
        (attribute(energy='{"type": "Head"}'), "record must be of SA, USA, DoublyStochastic"),
        (attribute(energy='{"type": "SA", "beta": 2.0}'), "changed: its checksum must be"),
        (attribute(energy=5), "attribute energy must be of type str, got .*5"),
        (of_dynamics(beta=-1.0), "beta must be a finite number >= 0, got .*-1.0"),
        (of_dynamics(beta=0.25), "it was damaged or changed: its checksum must be"),
        (put("coefficients", slice(None), 0.0), "it was damaged or changed: its checksum"),
        (put("energy", 1, 0.0), "it was damaged or changed: its checksum must be"),
        (of_dynamics(beta=np.nan), "beta must be a finite number >= 0, got .*nan"),
        (of_dynamics(beta="four"), "beta must be a finite number >= 0, got 'four'"),
        (of_dynamics(sign=2), "sign must be .1 or -1, got .*2"),
        (of_dynamics(noise=-2.0), "noise must be a finite number >= 0"),
        (attribute(dynamics="[" * 5000), r"damaged: .*recursion|dynamics must be JSON"),
        (attribute(status="bored"), r"status must be one of \('finished', .*\), got 'bored'"),
        (attribute(case=5), "attribute case must be of type str, got .*5"),
        (of_measures(type="Torus"), r"must be records of .*, got \('Torus', 'Circle'\)"),
        (of_measures(space={"type": "Torus"}), "measures must be records of .*, got"),
        (of_measures(space={"type": "Sphere"}), "coefficients must be .* over t, degree, order"),
        (of_measures(type="Particles", space=""), "count must be a variable over"),
        (attribute(measures="[]"), "must be one record, or two where flow maps follow, got"),
        (attribute(measures="3"), r"measures must be records of .*, got \(3,\)"),
        (put("coefficients", (1, 5, 0), np.nan), r"must be finite, got nan at .*\(1, 5, 0\)"),
        (put("coefficients", (0, 0, 0), np.inf), "coefficients must be finite, got inf"),
        (put("t", 1, np.nan), "t must be finite, got nan"),
        (put("t", 1, -1.0), "t must ascend"),
        (put("size", 3, 10**9), "size must be an integer >= 3 and <= 1048576, got .*1000000000"),
        (put("size", 3, 254), r"must have shape \(127, 2\) .* size 254, got \(64, 2\)"),
        (of_measures(tail_tol=2.0), "tail_tol must be a finite number >= 1e-15 and <= 0.01"),
    ],
    "particles": [
        (put("points", (3, 0), 5.0), "points must have rows of norm 1"),
        (put("weights", 52, -1.0), "weights must be >= 0, got -1"),
        (put("weights", slice(50), 0.0), "weights must have a positive sum"),
        (put("count", 1, 49), r"points must have 149 rows, got 150"),
        (put("count", 0, -1), "count must be an integer >= 0"),
    ],
    "line": [
        (put("count", slice(2), [100, 156]), "count must be multiples of 16"),
        (put("count", 1, -16), "count must be an integer >= 0"),
        (put("count", 0, 0), "there must be one measure at each t, got count"),
        (put("count", 0, 16), r"(points|panel_edges) must have \d+ rows, got \d+"),
        (put("atom_count", 0, 3), "atom_angle must have 3 rows, got 0"),
        (put("atom", 5, 0), "atom must be -1 or the number of one of 0 atoms"),
        (put("atom", 5, -2), "atom must be -1 or the number of one of 0 atoms"),
        (put("angle", 5, np.nan), "angle must hold no NaN, got one at"),
        (put("history_moments", (0, 0, 0), np.nan), "history_moments must hold no NaN"),
        (of_measures(tol=0.0), "tol of a flow map must be a finite number > 0"),
        (of_measures(max_nodes=0), "max_nodes must be an integer >= 1"),
        (of_measures(atom_radius=2.0), "atom_radius must be a finite number >= 0 and <= 0.01"),
        (of_measures(dim=1), "dim of a flow map must be an integer >= 2"),
        (of_measures(scale="a"), "scale of a flow map must be a finite number > 0"),
        (of_measures(law={"type": "Head"}), "record must be of Uniform, "),
        (of_measures(law="{"), "record must be of Uniform, "),
        (of_measures(type="Density", space={"type": "Circle"}), "coefficients must be a variable"),
        (attribute(measures="[{"), "measures must be JSON, got"),
    ],
    "sphere": [
        (put("points", (3, 0), 5.0), "points must have rows of norm 1"),
        (put("count", 1, 7), r"points must have \d+ rows, got \d+"),
    ],
    "oscillators": [
        (put("weights", 0, 0.5), "weights must have sum 1 within"),
        (put("angle", 5, np.inf), "angles must be finite, got inf"),
    ],
    "oscillator densities": [
        (put("frequency_weights", 0, -1.0), "weights must be >= 0"),
        (put("widths", 0, -1.0), "widths must be 3 numbers >= 0"),
        (put("size", 1, 64), r"coefficients must have shape \(32, 2\)"),
    ],
    "heads": [
        (of_dynamics(heads=[{"type": "Head", "V": {"matrix": 1}}]), "record must be of SA, USA"),
        (of_dynamics(heads=placed_at(-1, [7, 7])), "first_number must be an integer >= 0, got -1"),
        (of_dynamics(heads=placed_at(True, [7, 7])), "first_number must be an integer >= 0, got T"),
        (of_dynamics(heads=placed_at(0, [-7, 7])), "shape must be an integer >= 0, got -7"),
        (of_dynamics(heads=placed_at(0, 49)), "not iterable"),
        (of_dynamics(heads=placed_at(981, [7, 7])), "record_dynamics must be .* 1030 numbers, got"),
        (of_dynamics(heads=placed_at(0, [10**9, 10**9])), "at least 10{18} numbers, got 1029"),
        (of_dynamics(heads=placed_at(980, [7, 7])), "its checksum must be"),
        (put("record_dynamics", 8, 3.0), "its checksum must be"),
        (put("record_dynamics", 8, np.nan), "record_dynamics must hold no NaN, got one at .8."),
        (of_dynamics(type="Head", V=2.0), "record must be of SA, USA"),
    ],
    "zonal": [
        (of_measures(space=ZONAL), NO_AXIS),
        *((of_measures(space=ZONAL | {"axis": axis}), NO_AXIS) for axis in AXES),
    ],
}


@pytest.mark.parametrize(("kind", "edit", "message"), rows(EDITS))
def test_what_was_changed_in_a_file(kind, edit, message, tmp_path):
    path = tmp_path / "run.nc"
    path.write_bytes(on_file(kind)[0])
    with h5py.File(path, "r+") as file:
        edit(file)
    assert re.search(message, refusal(path))


def without(name):
    def change(file):
        file = file.drop_vars(name, errors="ignore")
        file.attrs.pop(name, None)
        return file

    return change


def turned(name):
    return lambda file: file.assign({name: (file[name].dims[::-1], file[name].values.T)})


def cut(name, dim):
    """A row less, along a dimension of this array alone."""
    return lambda file: file.assign({name: file[name].isel({dim: slice(-1)}).rename({dim: "cut"})})


def numbers(name, make):
    """Other numbers of a run; `make` has the array of xarray."""
    return lambda file: file.assign({name: make(file[name])})


# a version to come may drop and rename everything but these two
FUTURE = xr.Dataset(attrs={"format": "meanfield-solution", "format_version": 7})
# kind of run: with which variables or dimensions another file is written
REWRITTEN = {
    "circle": [
        (lambda _: FUTURE, "this file has version 7; this meanfield reads 3$"),
        (without("format_version"), "format_version must be .*, got None"),
        (without("dynamics"), "attribute dynamics must be of type str, got None"),
        (without("checksum"), "its checksum must be .*, got None"),
        (without("message"), "attribute message must be of type str, got None"),
        (without("measures"), "attribute measures must be of type str, got None"),
        (without("coefficients"), "coefficients must be a variable over"),
        (without("size"), "size must be a variable over t"),
        (without("t"), "t must be a variable over"),
        (numbers("size", lambda sizes: sizes + 0.5), "size must be an integer >= 3 .*, got .*32.5"),
        (lambda file: file.isel(part=[0]), "coefficients must have shape .*, got"),
        (lambda file: file.isel(degree=slice(-1)), "coefficients must have shape .*, got"),
        (lambda file: file.assign(x=("t", list("abcd"))), "x must hold numbers, got"),
        (numbers("energy", lambda row: row[0]), r"energy must be numbers over t, got .*\(\)"),
        (numbers("mass", lambda row: row.expand_dims(two=2)), "mass must be numbers over t, got"),
        (numbers("mass", lambda row: row.rename(t="saves")), r"mass must be .* over t, .*saves"),
        (numbers("energy", lambda row: row.assign_attrs(role=[1.0, 1.0])), "role of energy must"),
        (numbers("mass", lambda row: row.assign_attrs(units=3)), "units of mass must be a word"),
        (lambda file: file.transpose("part", ...), "coefficients must be a variable over"),
        (numbers("coefficients", lambda rows: rows.astype(str)), "coefficients must hold numbers"),
    ],
    "particles": [
        (lambda file: file.isel(point=[]), "points must have 150 rows, got 0"),
    ],
    "line": [
        (without("weights"), "weights must be a variable over point, got"),
        (turned("panel_edges"), "panel_edges must be a variable over panel, side"),
        (cut("history_time", "history_end"), "history_time must be a variable over history_e"),
        (lambda file: file.isel(history_node=slice(7)), "history_moments must have shape"),
    ],
    "sphere": [
        (lambda file: file.isel(part=[0]), "history_moments must have 2 parts"),
        (lambda file: file.isel(history_step=[]), "history_moments must have shape"),
    ],
    "oscillators": [
        (without("frequencies"), "frequencies must be a variable over point"),
    ],
    "oscillator densities": [
        (without("size"), "size must be a variable over t"),
    ],
    "heads": [
        (without("record_dynamics"), "must be a variable of at least 49 numbers, got 0"),
        (
            cut("record_dynamics", "record_dynamics_number"),
            "must be a variable over record_dynamic",
        ),
        (
            lambda file: file.isel(record_dynamics_number=slice(-1)),
            "record_dynamics must be a variable of at least 1029 numbers, got 1028",
        ),
    ],
}


@pytest.mark.parametrize(("kind", "change", "message"), rows(REWRITTEN))
def test_variables_that_are_missing_or_of_another_shape(kind, change, message, tmp_path):
    netcdf.write(change(on_file(kind)[1]), tmp_path / "run.nc")
    assert re.search(message, refusal(tmp_path / "run.nc"))


def test_numbers_that_are_not_there_take_no_memory(tmp_path):
    """An array of 10^15 numbers that was never written takes no room on disk."""
    path = tmp_path / "run.nc"
    with h5netcdf.File(path, "w") as file:
        file.attrs["format"], file.attrs["format_version"] = "meanfield-solution", FORMAT_VERSION
        file.dimensions = {"t": 10**9, "coefficient": 10**6}
        file.create_variable("t", ("t",), float, chunks=(1000,))
        file.create_variable("coefficients", ("t", "coefficient"), float, chunks=(1, 1000))
    assert path.stat().st_size < 100_000
    assert re.search(r"it holds 80\d+ bytes of numbers, of which this machine's", refusal(path))


def test_ctrl_c_is_no_damage(good, monkeypatch):
    """h5py makes it a SystemError where it holds its lock: a sweep would drop the checkpoint."""

    def struck(*_, **__):
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(h5netcdf, "File", struck)
    with pytest.raises(KeyboardInterrupt):
        mf.load(good)
