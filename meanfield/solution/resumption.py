"""What a run needs to go on from its last save, beside what its solution holds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.arguments import shown

Array = NDArray[np.float64]

ATTRIBUTE = "resumption"
# variables of the file that hold its arrays
PREFIX = "resume_"


@dataclass(frozen=True)
class Resumption:
    """Numbers and arrays of a run at its last save.

    Attributes
    ----------
    numbers : dict
        Numbers, words and lists of them, as JSON has them.
    arrays : dict of str to ndarray
        Of float64.
    """

    numbers: dict[str, Any]
    arrays: dict[str, Array] = field(default_factory=dict)

    def attributes(self) -> dict[str, str]:
        """The numbers as an attribute of a file; Python's floats come back to the bit."""
        return {ATTRIBUTE: json.dumps(self.numbers)}

    def variables(self) -> dict[str, Any]:
        """The arrays as variables of a dataset."""
        return {
            f"{PREFIX}{name}": (tuple(f"{PREFIX}{name}_{i}" for i in range(array.ndim)), array)
            for name, array in self.arrays.items()
        }


def names(stored: xr.Dataset) -> list[str]:
    """The names of the variables that hold the arrays."""
    return [str(name) for name in stored.variables if str(name).startswith(PREFIX)]


def resumption(stored: xr.Dataset) -> Resumption | None:
    """What a file keeps of this, None where there is nothing.

    Raises
    ------
    ValueError
        If it is not JSON, or a variable holds a NaN.
    """
    text = stored.attrs.get(ATTRIBUTE)
    if text is None:
        return None
    try:
        numbers = json.loads(text)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{ATTRIBUTE} must be JSON, got {shown(text)}") from error
    if not isinstance(numbers, dict):
        raise ValueError(f"{ATTRIBUTE} must be a JSON object, got {shown(text)}")
    arrays = {name.removeprefix(PREFIX): np.array(stored[name].values) for name in names(stored)}
    for name, array in arrays.items():
        if np.isnan(array).any():
            raise ValueError(f"{PREFIX}{name} must hold no NaN, got {shown(array)}")
    return Resumption(numbers, arrays)
