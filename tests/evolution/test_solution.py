"""Solutions: what they are, what they say of themselves in a file, and where they are saved."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from tests.children import ENVIRONMENT
from tests.handmade import AXIS, densities, names, particles, same_bits, solution

# a process prints after each stage of a run whether it has imported xarray; then files may not
# grow beyond 5 kB in it
STAGES = """
import resource, signal, sys
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

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
try:
    sol.save("full.nc")
except OSError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    """The folder of that process, and what it has printed."""
    pytest.importorskip("resource")
    here, command = tmp_path_factory.mktemp("stages"), [sys.executable, "-c", STAGES]
    # HDF5 itself would end the process where the disk is full
    done = subprocess.run(
        command, cwd=here, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return here, done.stdout.splitlines()


@pytest.mark.slow
def test_a_dataset_is_made_when_it_is_asked_for(stages):
    """A run, its table, figure and file are plain arrays: xarray takes longer than a short run."""
    folder, printed = stages
    assert printed[:3] == ["False", "False", "True"]
    sol = mf.load(folder / "run.nc")
    assert sol.dataset is sol.dataset


@pytest.mark.slow
def test_a_disk_that_fills_up_leaves_nothing(stages):
    folder, printed = stages
    (message,) = printed[3:]
    assert re.match(r"can't write (.*/)?full\.nc: ", message)
    assert names(folder) == ["run.nc"]
    assert (folder / "run.nc").stat().st_size > 10_000


def test_a_flow_map_on_the_sphere_is_had_again_from_a_later_start(tmp_path):
    """Within its first interval, and from a file: it has not moved, whenever it began."""
    ends = [mf.VonMisesFisher([0.0, 0.6, 0.8], 1.0), mf.VonMisesFisher([1.0, 0.0, 0.0], 1.0)]
    start = mf.FlowMap(mf.Mixture(ends, [0.5, 0.5]), tol=1e-4)
    whole, few = (mf.evolve(start, mf.SA(2.0), 0.7, s, t_start=0.5) for s in ([0.55, 0.6], [0.6]))
    few.save(tmp_path / "run.nc")
    for sol in few, mf.load(tmp_path / "run.nc"):
        again = sol.at(0.55)
        assert again.t == 0.55
        # steps err by the tolerance of the map
        assert again.points == pytest.approx(whole.measures[1].points, abs=1e-4)


def test_what_is_changed_in_a_dataset_is_what_is_saved(tmp_path):
    sol = solution(particles())
    with pytest.raises(TypeError, match="a Solution must be given a dataset"):
        mf.Solution(sol.t, sol.measures, sol.dynamics, sol.status, sol.message)
    sol.save(tmp_path / "run.nc")
    sol = mf.load(tmp_path / "run.nc")
    sol.dataset.attrs["note"] = "mine"
    sol.dataset["twice"] = 2.0 * sol.dataset.energy
    sol.save(tmp_path / "changed.nc")
    xr.testing.assert_identical(mf.load(tmp_path / "changed.nc").dataset, sol.dataset)


def test_a_loaded_solution_saves_the_same_file(tmp_path):
    solution(densities("circle")).save(tmp_path / "a.nc")
    mf.load(tmp_path / "a.nc").save(tmp_path / "b.nc")
    a, b = (xr.load_dataset(tmp_path / name, engine="h5netcdf") for name in ("a.nc", "b.nc"))
    xr.testing.assert_identical(a, b)


def test_the_file_tells_what_it_is(tmp_path):
    sol = solution(densities("zonal"))
    sol.save(tmp_path / "run.nc")
    file = xr.load_dataset(tmp_path / "run.nc", engine="h5netcdf")
    assert file.attrs["format"] == "meanfield-solution"
    assert file.attrs["format_version"] == 3
    assert file.attrs["status"] == "under-resolved"
    assert file.attrs["case"] == sol.case
    told = {"type": "USA", "beta": 1 / 3, "sign": -1, "noise": 0.0, "mask": None}
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


@pytest.mark.parametrize("name", ["run.txt", "run", "run.nc.gz", ".nc"])
def test_a_file_is_called_what_it_is(name, folder):
    sol = solution(densities("circle", [1]))
    message = re.escape(f"must end in .nc, .nc4, .h5 or .hdf5, got '{name}'")
    with pytest.raises(ValueError, match=f"^path {message}$"):
        sol.save(name)
    with pytest.raises(ValueError, match=f"^checkpoint {message}$"):
        mf.evolve(sol.final, mf.SA(1.0), 0.1, checkpoint=name)
    assert names(folder) == []


def test_every_suffix_is_of_a_file(tmp_path):
    sol = solution(densities("circle", [1]))
    for suffix in ".nc", ".NC", ".nc4", ".h5", ".hdf5":
        sol.save(tmp_path / f"run{suffix}")
        assert mf.load(tmp_path / f"run{suffix}").status == sol.status


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
