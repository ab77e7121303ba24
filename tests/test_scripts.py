"""The short scripts of docs/scripts, each in a process and a folder of its own."""

import os
import subprocess
import sys
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
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short_and_runs(path, tmp_path):
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(lines) <= MOST_LINES
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", str(path)]
    asked = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    found = subprocess.run(command, check=False, timeout=600, **asked)
    assert (found.returncode, found.stderr) == (0, "")
    assert "nan" not in found.stdout
    assert len(found.stdout) > 40
