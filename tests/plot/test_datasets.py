"""Figures of two runs compared and of sweeps, and the commands that draw them."""

import matplotlib.collections
import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.cli.commands import main

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
CASE = """
law = { type = "FourierSeries", cos = [0.5] }
measure = { type = "Density", space = { type = "Circle", n = 32 } }
dynamics = { type = "SA", beta = 1.0 }
run = { t_end = 0.5, save_at = 2 }
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with two runs of other spaces, and a sweep over numbers and words."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "case.toml").write_text(CASE)
    a = mf.Case.from_file(folder / "case.toml")
    b = a.replace({"measure.space.n": 64, "run.save_at": 4})
    a.run().save(folder / "a.nc")
    b.run().save(folder / "b.nc")
    grid = ["--grid", "dynamics.beta=1,2,4", "--grid", "dynamics.type=SA,USA", "-q"]
    command = ["sweep", str(folder / "case.toml"), "-o", str(folder / "sweep.nc"), *grid]
    assert main(command) == 0
    return folder


def curves(ax):
    return [np.array(line.get_data()) for line in ax.lines]


@pytest.mark.slow
def test_a_figure_of_two_runs_has_their_energies_and_distances(files):
    density = mf.evolve(mf.Density(mf.Circle(64), LAW), mf.SA(2.0), 1.0, 4)
    tokens = mf.evolve(mf.Particles.quantise(LAW, 40), mf.SA(2.0), 1.0, 2)
    ds = mf.compare(density, tokens)
    figure = mf.plot.comparison(ds)
    energies, apart = figure.axes
    title = ds.attrs["verdict"].partition(":")[0].replace("W_1", "W$_{1}$")
    assert figure.get_suptitle() == title
    for (t, values), name in zip(curves(energies), "ab", strict=True):
        assert t.tolist() == [0.0, 0.5, 1.0]
        assert np.array_equal(values, ds.energy.sel(run=name))
    drawn = dict(zip(("w1", "mmd", "mean_difference"), curves(apart), strict=True))
    assert all(np.array_equal(values, ds[name]) for name, (_, values) in drawn.items())
    # distances of many sizes have a logarithmic axis, which one of 0 does not stretch
    assert apart.get_yscale() == "log"
    near = ds.drop_vars("mmd").assign(mean_difference=0.5 * ds.w1)
    assert mf.plot.comparison(near).axes[1].get_yscale() == "linear"
    far = ds.assign(w1=ds.w1 * [0.0, 1.0, 1e4])
    ax = mf.plot.comparison(far).axes[1]
    assert ax.get_yscale() == "log"
    assert ax.get_ylim()[0] > 0.1 * min(far[name].values[far[name] > 0.0].min() for name in drawn)
    assert not apart.collections
    labels = [text.get_text() for text in apart.get_legend().get_texts()]
    assert labels == ["$W_1$", "mmd", "distance of the means"]
    # nothing is logarithmic of a run and itself; brackets are a band
    same = mf.plot.comparison(mf.compare(density, density))
    assert same.axes[1].get_yscale() == "linear"
    wide = mf.plot.comparison(ds.assign(w1_lower=0.5 * ds.w1)).axes[1]
    assert isinstance(wide.collections[0], matplotlib.collections.PolyCollection)


def test_a_sweep_over_one_key_is_a_curve():
    ds = mf.sweep(lambda x: {"value": x**2, "other": -x}, {"x": [1.0, 2.0, 100.0]})
    ax = mf.plot.sweep(ds)
    assert np.array_equal(curves(ax)[0], [[1.0, 2.0, 100.0], [1.0, 4.0, 1e4]])
    assert (ax.get_xlabel(), ax.get_title(loc="left"), ax.get_xscale()) == ("x", "value", "log")
    other = mf.plot.sweep(ds, "other", mf.plot.sweep(ds))
    assert np.array_equal(curves(other)[1][1], [-1.0, -2.0, -100.0])
    # a key with one value is no axis
    ds = mf.sweep(lambda x, y: x + y, {"y": [3], "x": [1.0, 2.0]})
    assert np.array_equal(curves(mf.plot.sweep(ds))[0], [[1.0, 2.0], [4.0, 5.0]])


def test_a_sweep_without_energies_shows_velocities():
    ds = mf.sweep(
        lambda x: {"final_mass": 1.0, "final_n_clusters": 2.0, "final_rms_velocity": x},
        {"x": [1.0, 2.0]},
    )
    assert mf.plot.sweep(ds).get_title(loc="left") == "final rms velocity"
    ax = mf.plot.sweep(ds.drop_vars("final_rms_velocity"))
    assert ax.get_title(loc="left") == "final n clusters"


def test_a_sweep_over_two_keys_is_a_map_or_a_curve_for_each_word(files):
    def product(x, y):
        return x * y if x * y != 6 else 1 / 0

    with pytest.warns(mf.exceptions.UnfinishedWarning):
        ds = mf.sweep(product, {"x": [1, 2, 3], "y": [2, 4]})
    ax = mf.plot.sweep(ds)
    meshes = ax.findobj(matplotlib.collections.QuadMesh)
    assert meshes[0].get_array().tolist() == [[2.0, 4.0], [4.0, 8.0], [None, 12.0]]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("y", "x")
    ds = xr.load_dataset(files / "sweep.nc", engine="h5netcdf")
    ax = mf.plot.sweep(ds)
    assert ax.get_legend().get_title().get_text() == "dynamics.type"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["SA", "USA"]
    for (beta, share), kind in zip(curves(ax), ("SA", "USA"), strict=True):
        assert beta.tolist() == [1.0, 2.0, 4.0]
        assert np.array_equal(share, ds.final_energy_share.sel(type=kind))
    over_t = mf.plot.sweep(ds.isel(type=0), "energy")
    assert (over_t.get_xlabel(), over_t.get_ylabel()) == ("time t", "dynamics.beta")


def test_what_is_no_figure_is_refused(files):
    ds = xr.load_dataset(files / "sweep.nc", engine="h5netcdf")
    for call, message in [
        (lambda: mf.plot.sweep(ds, "energy"), "ds must have several values along one or two of"),
        (lambda: mf.plot.sweep(ds, "message"), r"name must be one of \[(?!.*'energy')"),
        (lambda: mf.plot.sweep(xr.Dataset()), r"ds must be a Dataset of studies\.sweep"),
        (lambda: mf.plot.sweep(ds[["status", "message"]]), "ds must have a number over"),
        (lambda: mf.plot.sweep(ds, ax=3), "ax must be matplotlib Axes"),
        (lambda: mf.plot.comparison(ds), r"ds must be a Dataset of studies\.compare"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_plot_draws_sweeps_and_single_numbers(files, capsys):
    assert main(["plot", str(files / "sweep.nc")]) == 0
    assert main(["plot", str(files / "a.nc"), "--name", "dissipation"]) == 0
    said = capsys.readouterr().out.split()
    assert said == ["wrote", f"{files}/sweep.png", "wrote", f"{files}/a-dissipation.png"]
    # the same case replaces its figure, another does not
    assert main(["plot", str(files / "sweep.nc"), "--name", "final_mass", "-q"]) == 0
    again = ["plot", str(files / "sweep.nc"), "--figure", str(files / "sweep.png"), "-q"]
    assert main(again) == 0
    assert main(["plot", str(files / "a.nc"), "--figure", str(files / "sweep.png")]) == 2
    assert "--force replaces what is there" in capsys.readouterr().err
    assert main(["plot", str(files / "a.nc"), "--name", "colour"]) == 2
    assert "name must be one of" in capsys.readouterr().err
    assert main(["plot", str(files / "a.nc"), "--name", "enrgy"]) == 2
    assert "; did you mean energy?" in capsys.readouterr().err


@pytest.mark.slow
def test_compare_prints_writes_and_draws(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    before = {path.name for path in files.iterdir()}
    assert main(["compare", "a.nc", "b.nc"]) == 0
    head, *rows, verdict = capsys.readouterr().out.splitlines()
    assert head.split() == ["t", "energy", "a", "energy", "b", "means", "mmd", "W_1"]
    assert [float(row.split()[0]) for row in rows] == [0.0, 0.25, 0.5]
    assert verdict.startswith("the same to ")
    assert {path.name for path in files.iterdir()} == before
    asked = ["-o", "ab.nc", "--figure", "ab.png", "--save-at", "12"]
    assert main(["compare", "a.nc", "b.nc", *asked]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-3:-2] == ["7 of 13 times shown, --output keeps all"]
    assert said[-1] == "wrote ab.nc, ab.png"
    with xr.open_dataset(files / "ab.nc", engine="h5netcdf") as ds:
        assert ds.run.values.tolist() == ["a", "b"]
        assert ds.sizes["t"] == 13
        assert float(ds.mmd.max()) < 1e-9
    assert (files / "ab.png").read_bytes().startswith(b"\x89PNG")
    assert main(["compare", "a.nc", "b.nc", "-o", "ab.nc", "-q"]) == 0
    assert capsys.readouterr() == ("", "")
    for refused, message in [
        (["a.nc", "sweep.nc"], "got 'meanfield-sweep': `meanfield info` tells what it holds"),
        (["a.nc", "none.nc"], "there is no file none.nc"),
        (["a.nc", "b.nc", "-o", "a.nc"], "--output must be a new file"),
        (["a.nc", "b.nc", "--gap", "2"], "gap must be a finite number >= 1e-06 and <= 1, got 2"),
    ]:
        assert main(["compare", *refused]) == 2
        assert message in capsys.readouterr().err
