"""What commands print of a run."""

import re
import shutil
from pathlib import Path

import pytest

import meanfield as mf
from meanfield.cli.text import summary, table
from meanfield.evolution import solution


def test_the_table_of_interactions_has_their_order_parameter():
    mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    sol = mf.evolve(mu, mf.Kuramoto(1.0), 0.2, 1)
    head, first, *_ = table(sol).splitlines()
    assert head.split()[:3] == ["t", "energy", "order_parameter"]
    assert float(first.split()[2]) == pytest.approx(0.25, abs=1e-12)


@pytest.mark.parametrize(("saves", "stride"), [(1, 1), (10, 1), (11, 2), (20, 2), (99, 10)])
def test_rows_of_a_table_are_at_equal_strides(saves, stride):
    measure = mf.Density(mf.Circle(16), mf.Uniform(2))
    header, *rows = table(mf.evolve(measure, mf.SA(1.0), 1.0, saves)).splitlines()
    shown = [*range(0, saves, stride), saves]
    if stride > 1:
        assert rows.pop() == f"{len(shown)} of {saves + 1} saves shown, the file has all"
    found = [float(row.split()[0]) * saves for row in rows]
    # the table has five digits of t, here below 1, and so 1e-5 of up to 99 saves
    assert found == pytest.approx(shown, abs=1e-3)
    assert header.split()[0] == "t"


def test_a_result_names_the_code_that_made_it(tmp_path, monkeypatch):
    """A changed line of a module makes another version, and `info` says so."""
    sol = mf.evolve(mf.Density(mf.Circle(8), mf.Uniform(2)), mf.SA(1.0), 0.1, 1)
    sol.save(tmp_path / "run.nc")
    made = mf.load(tmp_path / "run.nc")
    assert summary(made, tmp_path / "run.nc")["made by"] == "this code, these libraries"
    version = made.versions["meanfield"]
    assert re.fullmatch(r".+\+[0-9a-f]{12}", version)

    room = Path(solution.__file__).parent.parent
    copied = tmp_path / "meanfield"
    shutil.copytree(room, copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(solution, "__file__", str(copied / "evolution" / "solution.py"))
    monkeypatch.setattr(solution, "version_of", solution.version_of.__wrapped__)
    assert solution.version_of("meanfield") == version
    with (copied / "theory.py").open("a") as module:
        module.write("# one more line\n")
    told = summary(made, tmp_path / "run.nc")["made by"]
    assert told == f"meanfield {version} (here {solution.version_of('meanfield')})"
    assert solution.version_of("meanfield") != version
