"""Series of spherical harmonics on rings of any colatitudes."""

from __future__ import annotations

from typing import Any

import ducc0
import numpy as np
from numpy.typing import NDArray

from meanfield.geometry import sphere_points

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

_SQRT_4PI = float(np.sqrt(4.0 * np.pi))
# of a cell: the golden section, so that no alias comes back to where it was
_SHIFT = 0.5 * (np.sqrt(5.0) - 1.0)


def on_rings(
    coefficients: Coefficients,
    lmax: int,
    colatitudes: Array,
    first: Array,
    n_lon: int,
    threads: int,
) -> Array:
    """Values, ring by ring, at n_lon longitudes of each ring from its `first` on."""
    rings = len(colatitudes)
    values = ducc0.sht.synthesis(
        alm=coefficients[None],
        lmax=lmax,
        spin=0,
        theta=colatitudes,
        phi0=first,
        nphi=np.full(rings, n_lon, dtype=np.uint64),
        ringstart=np.arange(rings, dtype=np.uint64) * np.uint64(n_lon),
        nthreads=threads,
    )
    return np.asarray(values[0] * _SQRT_4PI)


def between_rings(
    coefficients: Coefficients,
    lmax: int,
    colatitudes: Array,
    weights: Array,
    threads: int,
) -> tuple[Array, Array, Array]:
    """Points, approximate weights and values between the rings and longitudes of a grid.

    `weights` (N,) are the quadrature weights of the grid.
    """
    n_lon = len(weights) // len(colatitudes)
    between = _inner(colatitudes)
    shift = 2.0 * np.pi / n_lon * _SHIFT
    values = on_rings(coefficients, lmax, between, np.full(len(between), shift), n_lon, threads)
    longitudes = shift + 2.0 * np.pi / n_lon * np.arange(n_lon)
    points = sphere_points(np.repeat(between, n_lon), np.tile(longitudes, len(between)))
    return points, np.repeat(_inner(weights[::n_lon]), n_lon), values


def _inner(values: Array) -> Array:
    return np.asarray((1.0 - _SHIFT) * values[:-1] + _SHIFT * values[1:])
