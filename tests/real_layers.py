"""Files of trained models: the excerpts of this repository, and the whole ones where they are."""

from pathlib import Path

import pytest

from validation.trained import DATA, FOLDER


def excerpt(name: str) -> Path:
    """The file of the first layer of a model; a source distribution has none."""
    return _there(DATA / f"{name}_layer_0.npz")


def whole_file(name: str) -> Path:
    """The file of all layers of a model."""
    return _there(FOLDER / f"{name}_layers.npz")


def _there(path: Path) -> Path:
    if not path.is_file():
        pytest.skip(f"there is no {path.name}: validation/README.md says where it may be")
    return path
