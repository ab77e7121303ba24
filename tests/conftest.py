"""What every test shares: Hypothesis draws the same inputs on every machine, however slow it is."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.browser import started

settings.register_profile(
    "meanfield",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("meanfield")


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
