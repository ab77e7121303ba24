"""The short scripts of docs/scripts, each in a folder of its own."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "docs" / "scripts").glob("*.py"))
MOST_LINES = 12


def test_the_page_shows_them_all():
    page = (ROOT / "docs" / "howto" / "scripts.md").read_text(encoding="utf-8")
    assert len(SCRIPTS) >= 10
    assert [path.name for path in SCRIPTS if path.name not in page] == []


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short_and_runs(path, capsys):
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(lines) <= MOST_LINES
    runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr()
    assert said.err == ""
    assert "nan" not in said.out
    assert len(said.out) > 40
