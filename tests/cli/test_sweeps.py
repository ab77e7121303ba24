"""Sweeps: every cell is a run of its own, kept, skipped, and no other's trouble."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.cli.case import case_from_text, read_case
from meanfield.cli.commands import main
from meanfield.cli.sweeps import (
    Cell,
    axis,
    cells_beside,
    checked_grid,
    dimension_names,
    load_sweep,
)
from meanfield.evolution import netcdf, solve
from meanfield.exceptions import CaseError
from meanfield.studies import executors
from meanfield.studies.executors import mapped_by
from tests.children import (
    ENVIRONMENT,
    LAST_RESORT,
    MEANFIELD,
    Travelling,
    child,
    hearing_ctrl_c,
    kill_worker,
    until,
)
from tests.handmade import CASE, previous, stopped_by_checkpoint, unfinished

TOKENS = CASE.replace(
    '"Density", space = {type = "Circle", n = 32}', '"Particles", n = 10'
).replace("save_at = 2}", "save_at = 2, rng = 1}")
# none of the checkpoints before the last
_FILES = "?" * 20 + ".nc"
# no such run is done within a test
ENDLESS = "{t_end = 1e6, save_at = 1000000}"


@pytest.fixture
def folder(folder):
    (folder / "case.toml").write_text(f'{CASE}[output]\nfile = "a.nc"\n')
    (folder / "tokens.toml").write_text(TOKENS)
    return folder


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=1:10:19", [1 + i / 2 for i in range(19)]),
        ("a.b=1:3:3", [1, 2, 3]),
        ("a.b=0.5:0.5:1", [0.5]),
        ("a.b=1e-3:1:2", [1e-3, 1.0]),
        ("a.b=SA,USA", ["SA", "USA"]),
        ("a.b=SA, 'a b' ,3", ["SA", "a b", 3]),
        ("a.b=1,2.5,-3", [1, 2.5, -3]),
        ("a.b=true", [True]),
        ("a.b=[1, 2],[3]", [[1, 2], [3]]),
        ('a.b={type = "Circle", n = 8},{type = "Sphere"}', [{"type": "Circle", "n": 8}, ...]),
        ('a.b="x:y",z:w', ["x:y", "z:w"]),
    ],
)
def test_axis(text, values):
    key, found = axis(text)
    assert key == "a.b"
    assert len(found) == len(values)
    for one, expected in zip(found, values, strict=True):
        assert expected is ... or (one == expected and type(one) is type(expected))


def test_no_grid():
    for grid, message in [
        ({}, "at least one key"),
        ({"a": []}, "at least one value"),
        ({"a": "SA"}, "at least one value, got 'SA'"),
        ({"a": np.ma.array([1, 2], mask=[0, 1])}, r"grid of a .* no masked values, .* \(1,\)"),
        ({"a": [1.0, np.ma.masked]}, r"grid of a must have no masked values, got one at .*\(1,\)"),
        ({"a": [1, 1]}, "each value of a once, got 1 twice"),
        ({"a": range(1001), "b": range(1001)}, "at most 1000000 cells, got 1002001"),
    ]:
        with pytest.raises(ValueError, match=message):
            checked_grid(grid)
    for key in "a b", "", 1:
        with pytest.raises(ValueError, match="key must be names"):
            mf.sweep(case_from_text(CASE, "mine"), {key: [1]})


def test_dimensions_are_last_parts_where_these_differ():
    assert dimension_names(["a.b", "c.d"]) == {"a.b": "b", "c.d": "d"}
    assert dimension_names(["a.b.0", "a.W.0.1"]) == {"a.b.0": "b_0", "a.W.0.1": "W_0_1"}
    assert dimension_names(["a.b", "c.b"]) == {"a.b": "a_b", "c.b": "c_b"}
    assert dimension_names(["run.t", "x"], {"t", "x"}) == {"run.t": "run_t", "x": "grid_x"}


@pytest.mark.slow
def test_cells_are_the_runs_of_their_cases(folder):
    grid = {"dynamics.beta": [0.5, 2.0], "dynamics.type": ["SA", "USA"]}
    ds = mf.sweep("case.toml", grid, overrides={"run.t_end": 0.3})
    assert ds.energy.dims == ("beta", "type", "t")
    assert ds.attrs["case_file"] == str(folder / "case.toml")
    for beta in 0.5, 2.0:
        for kind in mf.SA, mf.USA:
            mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
            sol = mf.evolve(mu, kind(beta), 0.3, 2, on_unresolved="flow-map")
            one = ds.sel(beta=beta, type=kind.__name__)
            assert one.status.item() == "finished"
            assert one.message.item() == sol.message
            for name in ("t", *sol.dataset.data_vars):
                assert np.array_equal(one[name].values, sol.dataset[name].values), name
                assert one[f"final_{name}"].item() == sol.dataset[name].values[-1]
                assert ds[name].attrs.items() <= sol.dataset[name].attrs.items()
    assert len(np.unique(ds.final_energy)) == 4


@pytest.mark.usefixtures("folder")
def test_a_sweep_over_the_energy_that_is_followed():
    asked = {"run.energy": {"type": "DoublyStochastic", "beta": 1.0}, "dynamics.type": "USA"}
    table = mf.sweep("case.toml", {"run.energy.beta": [1.0, 3.0]}, overrides=asked)
    number = mf.sweep("case.toml", {"run.energy": [1.0, 3.0]}, overrides={"dynamics.type": "USA"})
    mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    beta = read_case("case.toml").build()[1].beta
    for i, one in enumerate((1.0, 3.0)):
        for ds, energy in ((table, mf.DoublyStochastic(one)), (number, one)):
            end = mf.evolve(mu, mf.USA(beta), 0.2, 2, energy=energy).dataset.energy[-1]
            assert ds.final_energy.values[i] == end


@pytest.mark.parametrize("kept_in", [None, "kept"])
@pytest.mark.parametrize("key", ["dynamics", "run.energy"])
def test_terms_keep_their_places_where_a_weight_passes_zero(folder, key, kept_in):
    """The first and the last cell have one term each, and these are different ones."""
    terms = [{"type": "SA", "beta": 1.0}, {"type": "USA", "beta": 2.0}]
    given = {key: {"type": "Sum", "terms": terms, "weights": [1.0, 1.0]}}
    grid = {f"{key}.weights": [[1.0, 0.0], [1.0, 0.5], [0.0, 0.5]]}
    ds = mf.sweep("case.toml", grid, overrides=given, folder=kept_in)
    assert ds.term.values.tolist() == [0, 1]
    assert ds.term.attrs == {"long_name": "term of the energy"}
    known = np.isfinite(ds.term_energy.isel(t=-1)).values
    assert known.tolist() == [[True, False], [True, True], [False, True]]
    np.testing.assert_allclose(ds.term_energy.sum("term"), ds.energy, rtol=1e-14)
    assert np.array_equal(ds.final_term_energy, ds.term_energy.isel(t=-1), equal_nan=True)
    ds = mf.sweep("case.toml", {"law.cos": [[0.1], [0.2]]}, overrides=given)
    assert ds.term.attrs["comment"].startswith("0: 1 ")


def _of_terms(count):
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    return mf.evolve(mu, mf.Sum([mf.SA(1.0 + i) for i in range(count)]), 0.1)


def test_runs_of_a_function_with_different_terms_have_totals_and_say_so():
    ds = mf.sweep(_of_terms, {"count": [1, 2]})
    assert np.isfinite(ds.final_energy).all()
    assert "term" not in ds.dims
    assert ds.attrs["comment"] == (
        "numbers of terms are left out: runs have different numbers of them"
    )
    assert "comment" not in mf.sweep(_of_terms, {"count": [2]}).attrs


def test_series_are_filled_up(folder):
    ds = mf.sweep("case.toml", {"run.save_at": [1, 3], "measure.space.n": [32, 64]})
    assert ds.sizes == {"save_at": 2, "n": 2, "t": 4}
    np.testing.assert_allclose(ds.t, [0.0, 0.2 / 3, 0.4 / 3, 0.2])
    assert np.isnan(ds.energy[0, :, 1:3]).all()
    assert np.isfinite(ds.energy[0, :, [0, 3]]).all()
    assert np.isfinite(ds.energy[1]).all()
    np.testing.assert_array_equal(ds.final_t, 0.2)
    np.testing.assert_array_equal(ds.final_energy[0], ds.energy[0, :, 3])
    assert ds.energy.to_dataframe().index.names == ["save_at", "n", "t"]


@pytest.mark.slow
def test_a_cell_that_fails_is_recorded(folder, capsys):
    """One is refused when it is built, one can't be resolved, and the others are as ever."""
    grid = [
        "--grid",
        "dynamics.noise=-1,0",
        "--grid",
        "measure.space.n=32,8",
        "--set",
        "measure.max_size=32",
    ]
    law = ["--set", "law.cos=[0.4, 0.2, 0.1, 0.0, 0.0, 0.1]"]
    assert main(["sweep", "case.toml", *grid, *law]) == 1
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("meanfield: 3 of 4 cells failed, the first of them: case.toml with")
    with xr.open_dataset("sweep.nc", engine="h5netcdf") as ds:
        assert ds.status.values.tolist()[0] == ["error", "error"]
        assert ds.status.sel(noise=0, n=32).item() == "finished"
        assert ds.status.sel(noise=0, n=8).item() == "error"
        assert "dynamics.noise must be a finite number >= 0, got -1" in ds.message[0, 0].item()
        assert "--grid dynamics.noise=-1 --grid measure.space.n=32: dyn" in ds.message[0, 0].item()
        assert "law" in ds.message.sel(noise=0, n=8).item()
        assert np.isnan(ds.final_energy[0]).all()
        assert np.isfinite(ds.final_energy.sel(noise=0, n=32))
        same = {"law.cos": [0.4, 0.2, 0.1, 0.0, 0.0, 0.1], "measure.max_size": 32}
        measure, dynamics, keywords = read_case("case.toml", same).build()
        sol = solve(measure, dynamics, **keywords)
        assert ds.final_energy.sel(noise=0, n=32).item() == sol.dataset.energy.values[-1]


@pytest.mark.slow
def test_a_second_call_runs_what_is_missing(folder):
    def written():
        return {file.name: file.stat().st_mtime_ns for file in Path("kept").iterdir()}

    first = mf.sweep("case.toml", {"dynamics.beta": [1, 2]}, folder="kept")
    before = written()
    again = mf.sweep("case.toml", {"dynamics.beta": [1, 2]}, folder="kept")
    assert again.identical(first)
    assert written() == before
    more = mf.sweep("case.toml", {"dynamics.beta": [2, 3]}, folder="kept")
    after = written()
    assert before.items() < after.items()
    assert (len(before), len(after)) == (2, 3)
    assert more.final_energy[0].item() == first.final_energy[1].item()
    # neither comments nor outputs change a cell, values do
    (folder / "case.toml").write_text(f'# mine\n{CASE}[output]\nfile = "b.nc"\n')
    mf.sweep("case.toml", {"dynamics.beta": [1, 2]}, folder="kept")
    assert written() == after
    (folder / "case.toml").write_text(CASE.replace("0.5", "0.25"))
    mf.sweep("case.toml", {"dynamics.beta": [1, 2]}, folder="kept")
    assert len(written()) == 5


@pytest.mark.slow
def test_a_cell_is_a_result(folder):
    ds = mf.sweep("tokens.toml", {"dynamics.beta": [1, 2]}, folder="kept")
    file = Path("kept", ds.cell.sel(beta=2).item())
    sol = mf.load(file)
    assert sol.dynamics == mf.SA(2.0)
    assert sol.dataset.attrs["case_file"] == str(folder / "tokens.toml")
    assert sol.dataset.attrs["rng"] == 1
    assert main(["run", str(file), "-q", "-o", "again.nc"]) == 0
    assert np.array_equal(mf.load("again.nc").final.points, sol.final.points)


def test_tokens_of_another_content_are_other_cells(folder):
    def written(seed):
        points = mf.Uniform(3).sample(6, np.random.default_rng(seed))
        np.savetxt("my.csv", points, delimiter=",", header="x,y,z", comments="")

    law = {
        "law": {"type": "PointCloud", "points": "my.csv"},
        "measure": {"type": "Particles"},
    }
    found = []
    for seed in 1, 2:
        written(seed)
        ds = mf.sweep("case.toml", {"dynamics.beta": [1]}, overrides=law, folder="kept")
        found.append(ds.final_energy.item())
    assert found[0] != found[1]


def numbers(ds):
    return ds.drop_vars(["message", "cell"], errors="ignore").drop_attrs()


# two of these cells end before their time
EARLY = {"dynamics.beta": [1.0, 2.0], "run.on_unresolved": ["stop", "flow-map"]}
LONG = {"run.t_end": 20.0, "measure.space.n": 16, "measure.max_size": 32}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    file = tmp_path_factory.mktemp("here") / "case.toml"
    file.write_text(CASE)
    return unfinished(mf.sweep, file, EARLY, overrides=LONG)


@pytest.mark.slow
def test_one_warning_tells_of_all_cells_that_ended_early(here, folder, capfd):
    ds = unfinished(mf.sweep, "case.toml", EARLY, overrides=LONG)
    assert ds.status.sel(on_unresolved="stop").values.tolist() == ["under-resolved"] * 2
    assert ds.status.sel(on_unresolved="flow-map").values.tolist() == ["finished"] * 2
    assert capfd.readouterr().err == ""


def sweep_elsewhere(capfd, *options):
    """The sweep of cells that end early by the command: what it says, and its dataset."""
    grid = ["--grid", "dynamics.beta=1.0,2.0", "--grid", "run.on_unresolved=stop,flow-map"]
    settings = [word for key, value in LONG.items() for word in ("--set", f"{key}={value}")]
    assert main(["sweep", "case.toml", *grid, *settings, *options]) == 1
    with xr.open_dataset("sweep.nc", engine="h5netcdf") as ds:
        return capfd.readouterr(), ds.load()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["processes", "dask"])
def test_executors_of_the_command(here, folder, capfd, name):
    """A worker says nothing, is a new process and imports nothing from the present folder."""
    for module in "multiprocessing", "numpy", "meanfield", "signal":
        Path(f"{module}.py").write_text("open('planted-was-run', 'w')")
    said, ds = sweep_elsewhere(capfd, "--executor", name, "--workers", "1")
    early = "meanfield: 2 of 4 cells failed, the first of them: under-resolved at t = "
    assert said.err.startswith(early)
    assert said.err.count("\n") == 1
    assert said.out.splitlines() == [
        "4 cells: 2 under-resolved, 2 finished",
        "wrote sweep.nc, its cells are in sweep.nc.cells",
    ]
    for variable in "energy", "final_energy", "t", "status":
        np.testing.assert_array_equal(ds[variable], here[variable])
    files = sorted(ds.cell.values.ravel().tolist())
    assert sorted(file.name for file in Path("sweep.nc.cells").iterdir()) == files
    assert not Path("planted-was-run").exists()
    assert "PYTHONSAFEPATH" not in os.environ


def test_a_report_of_a_sweep_points_to_its_figure(folder, capsys):
    assert main(["sweep", "case.toml", "--grid", "dynamics.beta=1,2", "-q"]) == 0
    assert main(["report", "sweep.nc"]) == 2
    assert "got sweep.nc: meanfield plot draws a sweep" in capsys.readouterr().err


SPOILT = {
    "missing": (Path.unlink, r"there is no file .*\.nc"),
    "cut short": (lambda file: os.truncate(file, 1000), "it is cut short or damaged"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("spoil", "reason"), SPOILT.values(), ids=SPOILT)
def test_a_cell_without_its_file_is_not_finished(folder, capsys, monkeypatch, spoil, reason):
    """As where the folder that a worker writes to is not the one that is seen here."""

    right = Cell.run

    def run(cell):
        found = right(cell)
        if "beta=2" in cell.name:
            spoil(cell.file)
        return found

    argv = ["sweep", "case.toml", "--grid", "dynamics.beta=1,2"]
    with monkeypatch.context() as patch:
        patch.setattr(Cell, "run", run)
        assert main(argv) == 1
    said = capsys.readouterr()
    assert said.out.startswith("2 cells: 1 finished, 1 error\n")
    assert re.fullmatch(
        rf"meanfield: 1 of 2 cells failed, the first of them: case\.toml with --grid "
        rf"dynamics\.beta=2: the run is done, but .*{reason}.*\n",
        said.err,
    )
    assert main(argv) == 0


def test_a_cell_that_can_not_be_written_is_not_finished(folder, capsys, monkeypatch):
    def full(solution, path):
        raise OSError(f"can't write {path}: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(mf.Solution, "save", full)
        with pytest.warns(UserWarning, match="No space left"):
            ds = mf.sweep("case.toml", {"dynamics.beta": [1]}, folder="kept")
    assert ds.status.item() == "error"
    assert ds.message.item().endswith("No space left on device")
    again = mf.sweep("case.toml", {"dynamics.beta": [1]}, folder="kept")
    assert again.status.item() == "finished"


CLUSTER = """
from distributed import LocalCluster
place = {"host": "127.0.0.1", "protocol": "tcp://", "dashboard_address": None}
with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, **place) as cluster:
    print(cluster.scheduler_address, flush=True)
    input()
"""


@pytest.mark.slow
def test_a_scheduler_that_is_there_and_then_killed(here, folder, capfd, monkeypatch):
    """One line, status 1; the cell that was done by then is kept."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with child([sys.executable, "-c", CLUSTER], env=ENVIRONMENT, **pipes) as process:
        scheduler = ["--executor", "dask", "--scheduler", process.stdout.readline().strip()]
        _, ds = sweep_elsewhere(capfd, *scheduler)
        np.testing.assert_array_equal(ds.final_energy, here.final_energy)
        shutil.rmtree("sweep.nc.cells")
        read = Cell.seen

        def killed(cell, found):
            process.kill()
            process.wait()
            return read(cell, found)

        monkeypatch.setattr(Cell, "seen", killed)
        # nobody starts another in its place
        monkeypatch.setattr(executors, "_PATIENCE", "5s")
        grid = "run={t_end = 0.1}," + ENDLESS
        assert main(["sweep", "tokens.toml", "--force", "--grid", grid, *scheduler]) == 1
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err == (
        "meanfield: task 1 of the study was cancelled by its executor: its scheduler is gone, or "
        "has dropped it; finished cells are kept in sweep.nc.cells, and the same command "
        "continues\n"
    )
    assert "finished" in [mf.load(file).status for file in Path("sweep.nc.cells").glob(_FILES)]


@pytest.mark.slow
def test_a_task_that_kills_its_workers_costs_no_other_and_ctrl_c_ends_those_made_anew(tmp_path):
    tasks = [(name, tmp_path) for name in ("beside", "bomb", "endless")]

    def lost(task, reason):
        return f"{task[0]}: {reason}"

    with hearing_ctrl_c():
        results = mapped_by("processes", kill_worker, tasks, workers=2, lost=lost)
        assert next(results) == "beside"
        assert re.match(r"bomb: task 1 of the study lost its worker twice", next(results))
        # it was done once
        assert len(list(tmp_path.glob("beside, *"))) == 1
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            next(results)


@pytest.mark.slow
def test_a_second_sweep_is_refused_while_the_first_goes_on_and_is_interrupted(folder, capsys):
    """It harms no cell and no dataset; of the first it takes over all that is done.

    Ctrl-C ends the first, as a terminal sends it to all processes: what is done is not run again.
    """
    short, cells = "run={t_end = 0.1},{t_end = 0.2}", cells_beside(Path("sweep.nc"))
    assert main(["sweep", "tokens.toml", "--grid", "run={t_end = 0.1}", "-q"]) == 0
    before = Path("sweep.nc").read_bytes()
    argv = ["sweep", "tokens.toml", "--grid", f"{short},{ENDLESS}", "--workers", "1"]
    with child([*MEANFIELD, *argv], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        # two that are finished, and the checkpoint of the third
        until(lambda: len(list(cells.glob(_FILES))) == 3, process)
        for grid in f"{short},{ENDLESS}", short:
            assert main(["sweep", "tokens.toml", "--grid", grid]) == 2
            said = capsys.readouterr()
            assert said.out == ""
            assert said.err == (
                "meanfield: --output must be one that no other run writes, got 'sweep.nc', which "
                "another process is writing: wait for it, or choose another name\n"
            )
        with pytest.raises(ValueError, match=r"folder must be one that no other run writes, got"):
            mf.sweep("tokens.toml", {"run.t_end": [0.3]}, folder=cells)
        assert len(list(cells.glob(_FILES))) == 3
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=LAST_RESORT)
    assert process.returncode == 130, said
    assert said == (
        "meanfield: interrupted: finished cells are kept in sweep.nc.cells, and the same command "
        "continues\n"
    )
    assert Path("sweep.nc").read_bytes() == before
    # a worker may be ended just before its last checkpoint has its name
    files = [*cells.glob(f".{_FILES}.previous"), *cells.glob(_FILES)]
    states = {file.name.strip(".")[: len(_FILES)]: mf.load(file).status for file in files}
    assert sorted(states.values()) == ["finished", "finished", "interrupted"]
    assert main(["sweep", "tokens.toml", "--grid", short]) == 0
    assert capsys.readouterr().out.startswith("2 cells: 2 finished\n")
    assert load_sweep("sweep.nc").status.values.tolist() == ["finished", "finished"]
    assert list(folder.glob(".*")) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*the checkpoint before it is used")
@pytest.mark.parametrize("spoil", [None, Path.unlink, lambda file: os.truncate(file, 1000)])
def test_an_interrupted_cell_goes_on(spoil, folder, monkeypatch):
    """The next call takes it up where it was, to the same bits: by the checkpoint before, too."""
    whole = mf.sweep("tokens.toml", {"run.rng": [1, 2]})
    with stopped_by_checkpoint(0.05), pytest.raises(KeyboardInterrupt):
        mf.sweep("tokens.toml", {"run.rng": [1, 2]}, folder="kept")
    (file,) = Path("kept").glob(_FILES)
    assert mf.load(file).status == "interrupted"
    if spoil is not None:
        shutil.copy(file, previous(file))
        spoil(file)
    save, saved = mf.Solution.save, []
    monkeypatch.setattr(mf.Solution, "save", lambda sol, path: (saved.append(sol), save(sol, path)))
    found = mf.sweep("tokens.toml", {"run.rng": [1, 2]}, folder="kept")
    assert numbers(found).identical(numbers(whole))
    # one that begins again has a checkpoint at t = 0
    assert [sol.t[-1] for sol in saved if sol.dataset.attrs["rng"] == 1] == [0.2]
    assert mf.load(file).status == "finished"
    assert mf.load(file).dataset.attrs["rng"] == 1
    assert not previous(file).exists()


@pytest.mark.parametrize(("name", "package"), [("dask", "distributed"), ("mpi", "mpi4py.futures")])
def test_a_missing_extra(folder, capsys, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["sweep", "case.toml", "--grid", "dynamics.beta=1", "--executor", name]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(
        rf"meanfield: --executor '{name}' must be installed \(pip install 'meanfield-attention"
        r"\[\w+\]'\), got: .*\n",
        said,
    )


def test_mpi_without_others(folder, capsys, monkeypatch):
    """Alone it would wait for processes that nobody starts."""
    world = SimpleNamespace(COMM_WORLD=SimpleNamespace(Get_size=lambda: 1))
    futures = SimpleNamespace(MPIPoolExecutor=None)
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=world, futures=futures))
    monkeypatch.setitem(sys.modules, "mpi4py.futures", futures)
    assert main(["sweep", "case.toml", "--grid", "dynamics.beta=1", "--executor", "mpi"]) == 2
    said = capsys.readouterr().err
    assert "--executor 'mpi' must have at least two processes, got 1: start it as mpiexec" in said


def test_cells_that_can_not_be_kept(folder):
    (folder / "kept").write_text("")
    with pytest.raises(ValueError, match="folder must be one that is there or can be made, got"):
        mf.sweep("case.toml", {"dynamics.beta": [1]}, folder="kept")


def test_no_case(folder):
    with pytest.raises(CaseError, match=r"there is no file no\.toml"):
        mf.sweep("no.toml", {"dynamics.beta": [1]})
    case = case_from_text(CASE, "mine")
    ds = mf.sweep(case, {"dynamics.beta": [1]}, overrides={"run.save_at": 1})
    assert ds.sizes["t"] == 2


def product(x, y, z=1.0):
    if x == 3:
        raise ArithmeticError("no such number")
    return {"xy": x * y, "z": z}


@pytest.mark.parametrize("executor", [None, Travelling()], ids=["here", "travelling"])
def test_a_function_over_a_grid(executor):
    grid = {"x": [1, 2, 3], "y": np.array([0.5, 4.0])}
    ds = unfinished(mf.sweep, product, grid, overrides={"z": 2}, executor=executor)
    assert ds.xy.dims == ("x", "y")
    np.testing.assert_array_equal(ds.xy, [[0.5, 4.0], [1.0, 8.0], [np.nan] * 2])
    assert ds.status.values[:, 0].tolist() == ["finished", "finished", "error"]
    assert ds.message.values[2, 0] == "with z=2, x=3, y=0.5: ArithmeticError: no such number"
    assert ds.to_dataframe().loc[(2, 4.0)].xy == 8.0
    assert "cell" not in ds


def test_what_a_function_may_return():
    mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    dynamics = [mf.SA(1.0), mf.USA(2.0)]

    def run(dynamics):
        return mf.evolve(mu, dynamics, 0.2, 2)

    def data(dynamics):
        return run(dynamics).dataset.assign(status="theirs").assign_coords(place=3.0)

    found = mf.sweep(lambda dynamics: dynamics.beta, {"dynamics": dynamics})
    assert found.dynamics.values.tolist() == [repr(one) for one in dynamics]
    np.testing.assert_array_equal(found.value, [1.0, 2.0])
    runs, datasets = (mf.sweep(one, {"dynamics": dynamics}) for one in (run, data))
    for row, one in enumerate(dynamics):
        sol = run(one)
        np.testing.assert_array_equal(runs.energy[row], sol.dataset.energy)
        np.testing.assert_array_equal(datasets.energy[row], sol.dataset.energy)
        assert runs.final_energy[row] == sol.dataset.energy[-1]
        assert runs.message[row] == sol.message
    assert datasets.value_status.values.tolist() == ["theirs"] * 2
    named = mf.sweep(lambda x: {"status": x, "cell": 2.0 * x}, {"x": [1, 2]})
    assert named.status.values.tolist() == ["finished"] * 2
    assert named.value_status.values.tolist() == [1.0, 2.0]
    assert named.value_cell.values.tolist() == [2.0, 4.0]
    np.testing.assert_array_equal(datasets.place, 3.0)
    told = unfinished(mf.sweep, lambda x: [x], {"x": [1]}).message.item()
    assert told == (
        "with x=1: ValueError: the function must return a number, a mapping of numbers, a Solution "
        "or a Dataset, got [1]"
    )


def test_results_of_several_sizes_are_put_together():
    def data(t, size):
        parts = {"part": ["c", "b", "a"][:size]}
        return xr.Dataset({"a": (("part", "k"), np.full((size, size), t))}, coords=parts)

    ds = mf.sweep(data, {"t": [1.0, 2.0], "size": [1, 2]})
    assert ds.a.dims == ("t", "size", "part", "k")
    one = ds.sel(t=2.0, size=1).a
    assert one.sel(part="c", k=0) == 2.0
    assert np.isfinite(one).sum() == 1
    assert np.isfinite(ds.a.sel(size=2)).all()
    # a grid may be over what a result calls a dimension, too
    assert mf.sweep(lambda t: data(t, 1).rename(k="t"), {"t": [1.0]}).a.dims == (
        "grid_t",
        "part",
        "t",
    )


def test_a_result_may_be_called_as_a_dimension_of_another(tmp_path):
    def data(x):
        of_points = xr.Dataset({"y": ("point", [1.0, 2.0, 3.0])})
        return {"point": 4.0, "value_point": 5.0} if x == 1 else of_points

    ds = mf.sweep(data, {"x": [1, 2]})
    np.testing.assert_array_equal(ds.value_point, [5.0, np.nan])
    np.testing.assert_array_equal(ds.value_value_point, [4.0, np.nan])
    np.testing.assert_array_equal(ds.y.sel(x=2), [1.0, 2.0, 3.0])
    # a function of one number over t, beside a dimension of its name
    ds = mf.sweep(lambda x: data(x + 1).assign(z=("t", [x, 5.0])).rename(z="point"), {"x": [1]})
    np.testing.assert_array_equal(ds.value_point, [[1.0, 5.0]])
    netcdf.write(ds, tmp_path / "sweep.nc")
    assert load_sweep(tmp_path / "sweep.nc").identical(ds)


def test_the_name_of_a_dimension_is_read_as_others_write_it(tmp_path):
    """NetCDF-4 keeps what has it, but is along another, under a name of its own."""
    ds = mf.sweep(lambda x: xr.Dataset({"y": ("point", [x, 2.0, 3.0])}), {"x": [1, 2]})
    other = ds.drop_vars("point").assign_coords(point=("x", [7.0, 8.0]))
    other.to_netcdf(tmp_path / "sweep.nc", engine="h5netcdf")
    found = load_sweep(tmp_path / "sweep.nc")
    np.testing.assert_array_equal(found.point, [7.0, 8.0])
    with pytest.raises(ValueError, match="point must be along the dimension of its name"):
        netcdf.write(other, tmp_path / "again.nc")
    assert not (tmp_path / "again.nc").exists()


def test_no_function():
    for given, keywords, message in [
        ((product, {"x": [1]}), {}, "keywords of product, but missing a required argument: 'y'"),
        ((product, {"x": [1], "beta": [1]}), {}, "the keywords of product, but "),
        ((product, {"x": [1], "y": [1]}), {"folder": "kept"}, "left out with a function, got "),
        ((3, {"x": [1]}), {}, "must be the name of a case file, a Case or a function, got 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            mf.sweep(*given, **keywords)


def test_random_layers_are_swept():
    """Over their seed and their number, each with the layers that it draws."""
    case = mf.Case(TOKENS).replace(
        {
            "dynamics": {"type": "RandomLayers", "ensemble": "values", "beta": 1.0, "dim": 2}
            | {"n_layers": 4, "step": 0.05, "rng": 0},
            "run.t_end": 0.2,
        }
    )
    table = mf.sweep(case, {"dynamics.rng": [0, 1], "dynamics.n_layers": [4, 8]})
    speeds = table.final_rms_velocity.values
    assert len(np.unique(speeds[:, 0])) == 2
    assert np.array_equal(speeds[:, 0], speeds[:, 1])
    assert mf.Case(case.to_toml()).run().dynamics == mf.Layers.random(
        "values", beta=1.0, dim=2, n_layers=4, step=0.05, rng=0
    )


def test_a_weight_beside_a_schedule_is_swept():
    schedule = {"type": "Schedule", "times": [0.0, 0.5], "values": [1.0, 3.0]}
    drift = {"type": "FeedForward", "W": [[0.5], [0.0]], "A": [[1.0, 0.0]]}
    terms = [{"type": "SA", "beta": schedule}, drift]
    dynamics = {"type": "Sum", "weights": [1.0, 1.0], "terms": terms}
    case = mf.Case(TOKENS).replace({"dynamics": dynamics, "run.t_end": 0.2})
    table = mf.sweep(case, {"dynamics.weights.1": [0.5, 2.0]})
    for weight, speed in zip([0.5, 2.0], table.final_rms_velocity.values, strict=True):
        alone = case.replace({"dynamics.weights.1": weight}).run()
        assert alone.dataset.rms_velocity.values[-1] == speed
    assert np.ptp(table.final_rms_velocity.values) > 1e-3
