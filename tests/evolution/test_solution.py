"""Solutions: round trips to the bit, and files that are written whole or not at all."""

import json
import os
import re
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.evolution import arrays, netcdf
from tests.handmade import AXIS, SPACES, densities, names, particles, same_bits, solution


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPACES)
def test_densities_come_back_to_the_bit(kind, tmp_path):
    sol = solution(densities(kind))
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    assert len({measure.space.size for measure in sol.measures}) == 3
    for a, b in zip(sol.measures, again.measures, strict=True):
        assert a.space == b.space
        assert np.ptp(a.values) > 1
        assert same_bits(a.coefficients, b.coefficients)
        assert same_bits(a.values, b.values)
        assert same_bits(a.pdf(np.eye(a.dim)), b.pdf(np.eye(a.dim)))
    assert again.measures[0].space is again.measures[1].space
    xr.testing.assert_identical(sol.dataset, again.dataset)
    assert same_bits(sol.t, again.t)
    assert sol.dynamics == again.dynamics
    assert (sol.status, sol.message, sol._case) == (again.status, again.message, again._case)
    assert repr(sol) == repr(again)


def test_particles_come_back_to_the_bit(tmp_path):
    sol = solution(particles(), mf.SA(beta=0.1, noise=0.2))
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    for a, b in zip(sol.measures, again.measures, strict=True):
        assert same_bits(a.points, b.points)
        assert same_bits(a.weights, b.weights)
        assert not b.points.flags.writeable
        assert not b.weights.flags.writeable
    xr.testing.assert_identical(sol.dataset, again.dataset)
    assert sol.dynamics == again.dynamics


@pytest.mark.slow
def test_a_loaded_solution_saves_the_same_file(tmp_path):
    solution(densities("circle")).save(tmp_path / "a.nc")
    mf.load(tmp_path / "a.nc").save(tmp_path / "b.nc")
    a, b = (xr.load_dataset(tmp_path / name, engine="h5netcdf") for name in ("a.nc", "b.nc"))
    xr.testing.assert_identical(a, b)


def many(kind):
    """Some 10 MB of measures that do not repeat themselves, so that their file is as large."""
    rng = np.random.default_rng(3)
    if kind == "tokens":
        return [
            mf.Particles(x / np.linalg.norm(x, axis=1)[:, None])
            for x in rng.normal(size=(30, 6000, 7))
        ]
    space = mf.Sphere(127)
    found = []
    for _ in range(80):
        coefficients = 1e-3 * rng.normal(size=(2, space.n_coefficients)).T
        coefficients[space.orders == 0, 1] = 0.0
        coefficients[0] = 1.0, 0.0
        found.append(mf.Density.from_coefficients(space, coefficients.copy().view(complex)[:, 0]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "names"), [("tokens", ["points", "weights"]), ("sphere", ["coefficients"])]
)
def test_a_file_is_read_with_little_more_memory_than_its_own_size(kind, names, tmp_path):
    path = tmp_path / "run.nc"
    saved = solution(many(kind))
    saved.save(path)
    # libraries that are loaded once
    mf.load(path)
    tracemalloc.start()
    try:
        again = mf.load(path)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = path.stat().st_size
    # all is in memory, once, with one block of all arrays and one measure in the making
    assert size > 9e6
    assert size <= kept <= 1.25 * size
    assert peak <= 1.5 * size
    for a, b in zip(saved.measures, again.measures, strict=True):
        assert all(same_bits(getattr(a, name), getattr(b, name)) for name in names)
    assert again.dataset.energy.size == len(saved)


NODES = [-1.0, 0.0, 2.0]
BUMPS = mf.Mixture([mf.VonMisesFisher(v, 2.0) for v in np.eye(3)[:2]])
RUNS = {
    "tokens": lambda: solution(particles(7)),
    "densities": lambda: solution(densities("sphere")),
    "oscillators": lambda: solution([mf.Oscillators([0.0, 1.0, k], NODES) for k in range(5)]),
    "oscillator densities": lambda: solution(
        [mf.OscillatorDensity(mf.Circle(n), mf.FourierSeries(cos=[0.4]), NODES) for n in (16, 32)]
    ),
    "flow maps on a line": lambda: mf.evolve(mf.FlowMap(mf.Uniform(2)), mf.SA(1.0), 0.1, 3),
    "flow maps on S²": lambda: mf.evolve(mf.FlowMap(BUMPS, tol=1e-4), mf.SA(1.0), 0.1, 2),
    "density, then flow maps": lambda: mf.evolve(
        mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5])), mf.SA(4.0), 12.0, 8
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 100, 3000])
@pytest.mark.parametrize("kind", RUNS)
def test_what_is_read_in_parts_is_the_same(kind, block, tmp_path, monkeypatch):
    """Blocks of one time, of some, and with a remainder; the checksum has all that is written."""
    sol = RUNS[kind]()
    assert (kind == "density, then flow maps") == ("hand_over_t" in sol.dataset.attrs)
    monkeypatch.setattr(netcdf, "_PACKED", max(1, block // 3))
    sol.save(tmp_path / "run.nc")
    whole = mf.load(tmp_path / "run.nc")
    for name, value in {"BLOCK": block, "_SMALL": 0}.items():
        monkeypatch.setattr(netcdf, name, value)
    monkeypatch.setattr(arrays, "BLOCK", block)
    parts = mf.load(tmp_path / "run.nc")
    assert len(parts) == len(sol) > 1
    assert parts._to_file().checksum() == whole._to_file().checksum() == sol._to_file().checksum()


# what a process prints after each stage of a run: whether it has imported xarray
STAGES = """
import sys
import meanfield as mf
import meanfield.cli.sweeps
from meanfield.cli import text

told = lambda: print("xarray" in sys.modules)
mu = mf.Particles([[1.0, 0.0], [0.0, 1.0]])
sol = mf.evolve(mu, mf.SA(1.0), 0.5, 2)
text.table(sol), text.closing(sol), mf.plot.solution(sol)
told()
sol.save("run.nc")
again = mf.load("run.nc")
told()
again.dataset
told()
"""


@pytest.mark.slow
def test_a_dataset_is_made_when_it_is_asked_for(tmp_path):
    """A run, its table, figure and file are plain arrays: xarray takes longer than a short run."""
    command = [sys.executable, "-c", STAGES]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False", "True"]
    sol = mf.load(tmp_path / "run.nc")
    assert sol.dataset is sol.dataset
    with pytest.raises(TypeError, match="a Solution must be given a dataset"):
        mf.Solution(sol.t, sol.measures, sol.dynamics, sol.status, sol.message)
    # what is changed in it is what is saved
    sol.dataset.attrs["note"] = "mine"
    sol.dataset["twice"] = 2.0 * sol.dataset.energy
    sol.save(tmp_path / "changed.nc")
    xr.testing.assert_identical(mf.load(tmp_path / "changed.nc").dataset, sol.dataset)


@pytest.mark.slow
def test_files_have_what_xarray_would_write(tmp_path):
    """Numbers of all kinds, words, truth values, bare and shared coordinates, and attributes."""
    ds = xr.Dataset(
        {
            "double": (("t", "word"), np.array([[0.1, np.nan], [-0.0, np.inf]]), {"units": "1"}),
            "single": ("t", np.array([0.1, 2], "f4")),
            "small": ("t", np.array([-1, 2], "i2")),
            "holds": ("t", [True, False]),
            "said": ("t", np.array(["β\n", ""], dtype=object)),
            "none": ("empty", np.zeros(0)),
            "count": ((), 3),
            "name": ((), "one"),
        },
        coords={"t": [1, 2], "word": ["a", "b"], "label": ("t", ["p", "q"]), "at": ((), 0.5)},
        attrs={"title": "σ", "beta": 0.1, "axis": np.eye(3)[0], "version": 1, "case": ""},
    )
    encoding = {name: {"_FillValue": None, "zlib": True} for name in ds.variables if ds[name].ndim}
    encoding["at"] = {"_FillValue": None}
    ours, theirs = tmp_path / "ours.nc", tmp_path / "theirs.nc"
    netcdf.write(ds, ours)
    ds.to_netcdf(theirs, engine="h5netcdf", encoding=encoding)
    assert dump(ours) == dump(theirs)
    found = xr.load_dataset(ours, engine="h5netcdf")
    xr.testing.assert_identical(found, ds)
    assert found.dtypes == xr.load_dataset(theirs, engine="h5netcdf").dtypes
    with pytest.raises(ValueError, match="z must hold numbers or words, got complex128"):
        netcdf.write(xr.Dataset({"z": ("t", [1j])}), ours)


def dump(path):
    """All that HDF5 keeps of a file, apart from where it keeps it."""
    with h5py.File(path, "r") as file:
        found = {"": attributes(file)}
        for name, one in file.items():
            plan = one.id.get_create_plist()
            filters = [plan.get_filter(i) for i in range(plan.get_nfilters())]
            kind = (one.dtype, one.shape, one.maxshape, one.chunks, filters)
            found[name] = repr((kind, one.fillvalue, one[()], attributes(one)))
    return found


def attributes(of):
    """References are other ones in each file."""
    ids = {name: of.attrs.get_id(name) for name in of.attrs}
    is_list = {name: name in ("DIMENSION_LIST", "REFERENCE_LIST") for name in ids}
    return [
        (name, one.dtype.kind, one.shape, None if is_list[name] else repr(of.attrs[name]))
        for name, one in ids.items()
    ]


def test_the_file_tells_what_it_is(tmp_path):
    sol = solution(densities("zonal"))
    sol.save(tmp_path / "run.nc")
    file = xr.load_dataset(tmp_path / "run.nc", engine="h5netcdf")
    assert file.attrs["format"] == "meanfield-solution"
    assert file.attrs["format_version"] == 2
    assert file.attrs["status"] == "under-resolved"
    assert file.attrs["case"] == sol._case
    told = {"type": "USA", "beta": 1 / 3, "sign": -1, "noise": 0.0}
    assert json.loads(file.attrs["dynamics"]) == told
    (measure,) = json.loads(file.attrs["measures"])
    assert (measure["type"], measure["space"]["type"], file.attrs["dim"]) == ("Density", "Zonal", 3)
    assert np.array_equal(measure["space"]["axis"], AXIS)
    assert file.attrs["numpy_version"] == np.__version__
    assert file.attrs["ducc0_version"]
    assert file.coefficients.dims == ("t", "degree")
    assert file.coefficients.shape == (4, 64)
    assert file.coefficients.dtype == np.float64
    assert list(file["size"]) == [15, 15, 31, 63]
    for variable in file.data_vars.values():
        assert variable.attrs["long_name"]


def test_coefficients_are_found_by_degree_and_order(tmp_path):
    sol = solution(densities("sphere"))
    sol.save(tmp_path / "run.nc")
    file = xr.load_dataset(tmp_path / "run.nc", engine="h5netcdf")
    assert file.coefficients.dims == ("t", "degree", "order", "part")
    assert file.part.attrs["flag_meanings"] == "real imaginary"
    last = sol.final
    for degree, order in (2, 0), (7, 3), (63, 63):
        index = np.flatnonzero((last.space.degrees == degree) & (last.space.orders == order))
        found = file.coefficients.sel(degree=degree, order=order)[-1]
        (kept,) = last.coefficients[index]
        assert found.values.tolist() == [kept.real, kept.imag]
        assert kept.real != 0.0
    assert (file.coefficients.sel(degree=2, order=slice(3, None)) == 0.0).all()


@pytest.mark.slow
def test_tokens_are_a_contiguous_ragged_array(tmp_path):
    """As the CF conventions have it; there may be another number of tokens at each time."""
    first, second, _ = particles()
    sol = solution([first, mf.Particles(second.points[:7], second.weights[:7], unit_mass=True)])
    sol.save(tmp_path / "run.nc")
    file = xr.load_dataset(tmp_path / "run.nc", engine="h5netcdf")
    assert file["count"].values.tolist() == [50, 7]
    assert file.points.dims == (file["count"].attrs["sample_dimension"], "axis")
    assert same_bits(file.points[50:], sol.final.points)
    assert same_bits(mf.load(tmp_path / "run.nc").final.weights, sol.final.weights)


def test_what_is_printed_is_short():
    text = repr(solution(densities("sphere")))
    assert len(text) < 160
    assert "under-resolved" in text
    assert "USA(beta=0.33" in text
    assert "4 saves to t = 0.95" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"t": [0.0, 2.0, 1.0, 3.0]}, "t must ascend, got"),
        ({"t": [0.0, 1.0]}, r"must be of one length, got \(2, 4, 4\)"),
        ({"t": [0.0, np.nan, 1.0, 2.0]}, "t must be finite, got nan"),
        ({"status": "exhausted"}, "status must be one of .*, got 'exhausted'"),
        ({"dataset": xr.Dataset()}, r"got \(4, 4, None\)"),
    ],
)
def test_inconsistent_solution_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        solution(densities("circle"), **changes)


def test_measures_of_two_kinds_are_not_saved(tmp_path):
    circle, zonal = densities("circle")[:1], densities("zonal")[:1]
    turned = mf.Density.from_coefficients(mf.Zonal(3, 15), zonal[0].coefficients)
    few = mf.Particles(np.eye(6)[:3])
    for mixed in (circle + zonal, [*zonal, turned], [*particles(1), few], zonal + particles(1)):
        with pytest.raises(ValueError, match=r"measures must .*, got "):
            solution(mixed).save(tmp_path / "run.nc")
    assert names(tmp_path) == []


def test_a_variable_of_the_files_own_name_is_not_lost(tmp_path):
    sol = solution(particles())
    sol.dataset["weights"] = sol.dataset.mass
    with pytest.raises(ValueError, match=r"variables \['weights'\]: rename them"):
        sol.save(tmp_path / "run.nc")


def test_a_file_is_replaced_by_a_whole_one(tmp_path):
    path = tmp_path / "run.nc"
    path.write_text("the last good one")
    sol = solution(densities("circle"))
    sol.dataset["words"] = "t", list("abcd")
    with pytest.raises(ValueError, match="words must hold numbers, got <U1"):
        sol.save(path)
    assert path.read_text() == "the last good one"
    assert names(tmp_path) == ["run.nc"]
    solution(densities("circle")).save(path)
    assert mf.load(path).status == "under-resolved"
    assert names(tmp_path) == ["run.nc"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@pytest.mark.slow
def test_a_place_that_cannot_be_written_is_told(tmp_path):
    sol = solution(densities("circle", [1]))
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.nc").mkdir()
    (tmp_path / "device.nc").symlink_to("/dev/null")
    for name, reason in {
        "missing/run.nc": "No such file or directory",
        "file/run.nc": "Not a directory",
        "folder.nc": "it is there already, and is not a file",
        "device.nc": "it is there already, and is not a file",
        "x" * 300 + ".nc": "File name too long",
    }.items():
        with pytest.raises(OSError, match=f"can't write .*{re.escape(name)}: .*{reason}"):
            sol.save(tmp_path / name)
    assert names(tmp_path) == ["device.nc", "file", "folder.nc"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.txt", "run", "run.nc.gz", ".nc"])
def test_a_file_is_called_what_it_is(name, folder):
    sol = solution(densities("circle", [1]))
    told = f"must end in .nc, .nc4, .h5 or .hdf5, got '{name}'"
    with pytest.raises(ValueError, match=f"^path {re.escape(told)}$"):
        sol.save(name)
    with pytest.raises(ValueError, match=f"^checkpoint {re.escape(told)}$"):
        mf.evolve(sol.final, mf.SA(1.0), 0.1, checkpoint=name)
    assert names(folder) == []
    for suffix in ".nc", ".NC", ".nc4", ".h5", ".hdf5":
        sol.save(f"run{suffix}")
        assert mf.load(f"run{suffix}").status == sol.status


@pytest.mark.slow
def test_a_disk_that_fills_up_leaves_nothing(tmp_path):
    """Files may not grow beyond 20 kB in a process of their own."""
    script = f"""
import resource, signal
from tests import handmade
sol = handmade.solution(handmade.densities("sphere"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    sol.save({str(tmp_path / "run.nc")!r})
except OSError as error:
    print(error)
"""
    pytest.importorskip("resource")
    here = Path(mf.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, cwd=here, text=True
    )
    assert f"can't write {tmp_path / 'run.nc'}: " in done.stdout, done.stderr
    # HDF5 itself would end the process
    assert done.returncode == 0
    assert names(tmp_path) == []


@pytest.mark.parametrize("path", ["", None, 3, b""])
def test_no_path(path):
    with pytest.raises(ValueError, match="path must be the name of a file, got"):
        mf.load(path)
    with pytest.raises(ValueError, match="path must be the name of a file, got"):
        solution(densities("circle", [1])).save(path)


def test_attributes_of_the_dataset_are_kept_apart(tmp_path):
    sol = solution(particles())
    sol.dataset.attrs = {"remark": "β is sharp", "steps": [1, 2], "dynamics": 9.0}
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    assert again.dataset.attrs["remark"] == "β is sharp"
    assert list(again.dataset.attrs["steps"]) == [1, 2]
    assert again.dynamics == sol.dynamics
    assert "dynamics" not in again.dataset.attrs


def test_a_solution_is_a_sequence_of_measures():
    sol = solution(densities("circle"), status="clustered")
    assert len(sol) == len(sol.measures) == 4
    assert sol[1] is sol.measures[1]
    assert sol[-1] is sol.final
    assert list(sol[1:3]) == list(sol.measures[1:3])
    assert [t for t, _ in sol] == list(sol.t)
    assert all(mu is sol.at(t) for t, mu in sol)
    assert sol.success
    assert not solution(densities("circle")).success


def test_a_density_is_told_at_saved_times():
    sol, points = solution(densities("circle")), np.eye(2)
    assert np.ptp(sol.pdf(points, sol.t[1])) > 0.0
    assert same_bits(sol.pdf(points, sol.t[1]), sol[1].pdf(points))
    for ask in (sol.at, lambda t: sol.pdf(points, t)):
        with pytest.raises(ValueError, match="t must be a finite number >= "):
            ask(1.1 * sol.t[-1])
    with pytest.raises(ValueError, match="t must be a finite number, got nan"):
        sol.at(np.nan)
    tokens = solution(particles())
    with pytest.raises(ValueError, match="pdf needs densities, or the moments of a flow map"):
        tokens.pdf(np.eye(tokens.final.dim), 1.0)
