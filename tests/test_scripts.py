"""The short scripts of docs/scripts, each in a folder of its own."""

import os
import runpy
from pathlib import Path

import pytest

from tests.tiers import rows

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "scripts"
SCRIPTS = sorted(FOLDER.glob("*.py"))
MOST_LINES = 12
QUICK = "own_density", "own_kernel", "phase_diagram", "plot_sweep"


def test_the_page_shows_them_all():
    page = (ROOT / "docs" / "howto" / "scripts.md").read_text(encoding="utf-8")
    assert len(SCRIPTS) >= 10
    assert [path.name for path in SCRIPTS if path.name not in page] == []


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", rows([path.stem for path in SCRIPTS], *QUICK))
def test_a_script_is_short_and_runs(name, capsys, monkeypatch):
    path = FOLDER / f"{name}.py"
    # one worker does what one on each core would do
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(lines) <= MOST_LINES
    runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr()
    assert said.err == ""
    assert "nan" not in said.out
    assert len(said.out) > 40
