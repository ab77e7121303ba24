"""Files of trained models: the excerpts of this repository, and the whole ones where they are."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# validation/README.md says where whole files may be
FOLDER = Path(os.environ.get("MEANFIELD_DATA", ROOT.parent / "shared" / "data"))


def excerpt(name: str) -> Path:
    """The file of the first layer of a model; a source distribution has none."""
    return _there(ROOT / f"validation/data/{name}_layer_0.npz")


def whole_file(name: str) -> Path:
    """The file of all layers of a model."""
    return _there(FOLDER / f"{name}_layers.npz")


def _there(path: Path) -> Path:
    if not path.is_file():
        pytest.skip(f"there is no {path.name}: validation/README.md says where it may be")
    return path
