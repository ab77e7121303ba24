"""Oscillators and their densities as arrays over time, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.arguments import integer, real_array
from meanfield.measures import AnyMeasure, OscillatorDensity, Oscillators
from meanfield.solution.flows import about
from meanfield.spaces import Circle

Array = NDArray[np.float64]

TOKENS, DENSITY = "oscillators", "oscillator-density"
_OF_NODES = ("frequencies", "frequency_weights", "frequency_widths")
# names that a file needs for itself
VARIABLES = ("phases", "parts", *_OF_NODES)
_LARGEST = 1 << 20


def space_of(measure: AnyMeasure) -> str | None:
    """The word for measures of this kind, None for others."""
    if isinstance(measure, Oscillators):
        return TOKENS
    return DENSITY if isinstance(measure, OscillatorDensity) else None


def variables(measures: Sequence[AnyMeasure], size_name: str) -> dict[str, Any]:
    """The measures as variables of a dataset.

    Angles are `phases` (t, frequency); coefficients, as `parts` (t, frequency, coefficient, part),
    those of the largest space in use, and `size` (t) tells each time's own.

    Raises
    ------
    ValueError
        If frequencies or weights differ between times.
    """
    first: Any = measures[0]
    names: tuple[str, ...] = ("frequencies", "weights")
    if space_of(first) == DENSITY:
        names = (*names, "widths")
    for name in names:
        if not all(np.array_equal(getattr(first, name), getattr(m, name)) for m in measures):
            raise ValueError(f"measures must have the same {name} at all times, got {measures[0]}")
    found: dict[str, Any] = {
        own: ("frequency", getattr(first, name), about(text))
        for own, name, text in zip(
            _OF_NODES,
            names,
            ("natural frequencies", "their masses", "widths of Lorentzians about them"),
            strict=False,
        )
    }
    if space_of(first) == TOKENS:
        phases = np.array([m.angles for m in measures if isinstance(m, Oscillators)])
        return found | {"phases": (("t", "frequency"), phases, about("angles"))}
    densities = [m for m in measures if isinstance(m, OscillatorDensity)]
    sizes = np.array([density.space.size for density in densities])
    rows = np.zeros(
        (len(densities), len(first.frequencies), int(sizes.max()) // 2), dtype=np.complex128
    )
    for row, density in zip(rows, densities, strict=True):
        row[:, : density.parts.shape[1]] = density.parts
    axes = ("t", "frequency", "coefficient", "part")
    text = "spectral coefficients (real and imaginary part) of the density at each frequency"
    parts = rows.view(np.float64).reshape(*rows.shape, 2)
    return found | {
        "parts": (axes, parts, about(text)),
        "size": ("t", sizes, {"long_name": size_name}),
    }


def measures(stored: xr.Dataset) -> tuple[list[AnyMeasure], list[str]]:
    """The measures of a file, and the names of the variables that they were made from.

    Raises
    ------
    ValueError
        If an array is missing, has another shape than the sizes tell, or holds a NaN.
    """
    found: list[AnyMeasure]
    frequencies, weights = (_array(stored, name, ("frequency",)) for name in _OF_NODES[:2])
    if stored.attrs["space"] == TOKENS:
        phases = _array(stored, "phases", ("t", "frequency"))
        found = [_weighted(Oscillators(row, frequencies), weights) for row in phases]
        return found, ["phases", *_OF_NODES[:2]]
    widths = _array(stored, _OF_NODES[2], ("frequency",))
    parts = _array(stored, "parts", ("t", "frequency", "coefficient", "part"))
    if "size" not in stored or stored["size"].dims != ("t",):
        raise ValueError(f"size must be a variable over t, got {list(stored.variables)}")
    sizes = [integer("size", size, low=8, high=_LARGEST) for size in stored["size"].values]
    if parts.shape[2:] != (max(sizes) // 2, 2):
        raise ValueError(
            f"parts must have shape {(max(sizes) // 2, 2)} for size {max(sizes)}, got "
            f"{parts.shape[2:]}"
        )
    spaces = {size: Circle(size) for size in sorted(set(sizes))}
    rows = parts.view(np.complex128)[..., 0]
    found = [
        _weighted(
            OscillatorDensity.from_parts(
                spaces[size], row[:, : size // 2], frequencies, weights, widths
            ),
            weights,
        )
        for size, row in zip(sizes, rows, strict=True)
    ]
    return found, ["parts", *_OF_NODES]


def _weighted(measure: Any, weights: Array) -> Any:
    """The measure with these very weights, which normalising again may turn in last bits."""
    if weights.min() < 0.0 or not np.isclose(weights.sum(), 1.0, rtol=0.0, atol=1e-14):
        raise ValueError(f"frequency_weights must be >= 0 of sum 1, got {weights.sum()!r}")
    measure.weights = weights.copy()
    measure.weights.flags.writeable = False
    if isinstance(measure, OscillatorDensity):
        measure.coefficients = measure.weights @ measure.parts
        measure.coefficients.flags.writeable = False
    return measure


def _array(stored: xr.Dataset, name: str, dims: tuple[str, ...]) -> Array:
    if name not in stored.variables or stored[name].dims != dims:
        raise ValueError(f"{name} must be a variable over {dims}, got {list(stored.variables)}")
    return real_array(name, np.ascontiguousarray(stored[name].values), len(dims))
