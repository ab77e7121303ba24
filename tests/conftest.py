"""What every test shares: Hypothesis draws the same inputs on every machine, however slow it is."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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
def undrawn(monkeypatch):
    """Commands write an empty file for the picture of a run: for tests that look at its numbers."""
    monkeypatch.setattr("meanfield.plot.solution", lambda solution: None)
    monkeypatch.setattr("meanfield.plot.save", lambda figure, path: Path(path).touch())
