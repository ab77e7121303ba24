"""Fixtures that tests of several rooms share."""

from pathlib import Path

import pytest

from tests.browser import started


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The present folder is an empty one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def undrawn(monkeypatch):
    """Commands write no picture of a run, but what it is made from: for tests of its numbers."""
    monkeypatch.setattr("meanfield.plot.solution", lambda solution: None)

    def save(figure, path, *, source):
        Path(path).write_text(source)

    monkeypatch.setattr("meanfield.plot.save", save)


@pytest.fixture(scope="module")
def browser():
    """Chromium; of one module, since its event loop would be in the way of others' loops."""
    with started() as found:
        yield found
