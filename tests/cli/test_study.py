"""Studies from the command line: a table, a dataset and a figure."""

import numpy as np
import pytest
import xarray as xr

from meanfield.cli.commands import main
from meanfield.studies import executors
from tests.children import Travelling
from tests.cli.test_commands import CIRCLE, PNG

LIMIT = ["study", "mean-field-limit", "case.toml"]


@pytest.mark.slow
def test_mean_field_limit(folder, capsys):
    (folder / "case.toml").write_text(CIRCLE)
    assert main([*LIMIT, "--n", "20,200", "--repeats", "3", "-o", "l.nc"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["quantity", "error,", "n", "="]
    assert lines[0].endswith("interval (all jointly 95 %)")
    assert [line.split()[0] for line in lines[1:4]] == ["mmd", "sobolev", "w1"]
    assert lines[-1] == "wrote l.nc, l.png"
    assert (folder / "l.png").read_bytes().startswith(PNG)
    with xr.open_dataset(folder / "l.nc", engine="h5netcdf") as found:
        assert found.sizes == {"n": 2, "repeat": 3, "t": 5, "axis": 2, "quantity": 5}
        rate = float(found.rate.sel(quantity="w1")[-1])
    # the table has three decimals
    assert float(lines[3].split()[2]) == pytest.approx(rate, abs=1e-3)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "options", [["--n", "20", "--repeats", "2"], ["--n", "20,40", "--repeats", "1"]]
)
def test_a_limit_without_a_rate_or_an_interval_prints_no_nan(folder, capsys, options):
    (folder / "case.toml").write_text(CIRCLE)
    assert main([*LIMIT, *options, "-o", "l.nc"]) == 0
    out = capsys.readouterr().out
    assert "nan" not in out
    row = out.splitlines()[1].split()
    assert row[0] == "mmd"
    assert row[-1] == "-"
    # a rate needs two numbers of tokens, an interval two starts
    assert (row[2] == "-") == ("20" in options)


@pytest.mark.slow
def test_causal_limit(folder, capsys):
    mask = "dynamics.mask={type='Causal', decay=2.0}"
    (folder / "case.toml").write_text(CIRCLE)
    argv = ["study", "causal-limit", "case.toml", "--set", mask, "--n", "20,40", "-o", "c.nc"]
    assert main([*argv, "--repeats", "3"]) == 0
    head, *rows, slope, wrote = capsys.readouterr().out.splitlines()
    assert head.split() == ["tokens", "rms", "standard_error"]
    assert [row.split()[:3] for row in rows[-2:]] == [["9", "to", "16"], ["17", "to", "40"]]
    assert wrote == "wrote c.nc, c.png"
    assert (folder / "c.png").read_bytes().startswith(PNG)
    with xr.open_dataset(folder / "c.nc", engine="h5netcdf") as found:
        assert found.attrs["dynamics"].endswith("mask=Causal(decay=2.0))")
        # the table has four digits
        assert float(rows[-1].split()[3]) == pytest.approx(float(found.rms[-1, 5, -1]), rel=5e-4)
    # two windows are needed for a slope
    assert slope == "slope after token 32: -"


STUDIES = {
    "phase-diagram": (["--beta", "1:4:2", "--dim", "3", "--n", "4", "--t-end", "2"], "arrival"),
    "metastability": (["--beta", "3", "--t-end", "2"], "grown_degree"),
    "stationary-states": (["--beta", "3,1", "--dim", "2", "--kmax", "1"], "critical_noise"),
    "two-token-correlation": (["--beta", "1", "--n", "2", "--t-end", "0.5"], "breaks"),
    "energy-extremisers": (["--eigenvalue", "1.1,-0.5"], "least_kind"),
    "limits-without-normalisation": (["--n", "8", "--t-end", "2"], "n_distinct"),
}
ALONE = {"energy-extremisers", "limits-without-normalisation"}
FEW = {"phase-diagram": ["--repeats", "4"], "two-token-correlation": ["--repeats", "8"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_studies(folder, capsys, monkeypatch, request, name):
    """A table, the dataset and its figure; the same again replaces them, another does not.

    Tasks of a study travel to a worker, which is a process for one of the studies.
    """
    options, variable = STUDIES[name]
    argv = ["study", name, *options, *FEW.get(name, [])]
    assert main([*argv, "-o", "a.nc"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    head, *rows, last = said.out.splitlines()
    assert {"arrival": "t* (6.12)"}.get(variable, variable) in head
    assert last == "wrote a.nc, a.png"
    assert (folder / "a.png").read_bytes().startswith(PNG)
    with xr.open_dataset("a.nc", engine="h5netcdf") as found:
        table = found[variable].values.ravel()
    assert len(rows) == len(table)
    rng = [] if name in {"stationary-states", "energy-extremisers"} else ["--rng", "1"]
    workers = [] if name in ALONE else ["--workers", "1"]
    if name != "phase-diagram":
        monkeypatch.setattr(executors, "_Processes", lambda count: Travelling())
    request.getfixturevalue("undrawn")
    assert main([*argv, "-o", "a.nc", "--figure", "a.png", "-q", *workers]) == 0
    assert capsys.readouterr().out == ""
    with xr.open_dataset("a.nc", engine="h5netcdf") as found:
        np.testing.assert_array_equal(found[variable].values.ravel(), table)
    assert main([*argv, "-o", "a.nc", *rng, "--beta", "2"]) == 2
    assert "--output must be a new file or one of the same case" in capsys.readouterr().err
