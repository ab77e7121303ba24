"""The values that a density starts from, and how far its space resolves them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import real_array, shown
from meanfield.laws import Law
from meanfield.spaces import Space, Zonal
from meanfield.spaces.symmetry import difference_of_meridians

Array = NDArray[np.float64]

FIT_TOLERANCE = 1e-8
# of a law's series, before a run finds the space that it needs
_COARSEST_FIT = 1e-2
_MASS_TOLERANCE = 1e-8
SIGN_TOLERANCE = 1e-12


def checked_space(space: Any) -> Space:
    """Return `space` when it is one.

    Raises
    ------
    ValueError
        Naming what it is.
    """
    if not isinstance(space, Space):
        raise ValueError(
            f"space must be a Circle, Sphere or Zonal, got {shown(space)}: take Density(space, law)"
        )
    return space


def law_values(space: Space, law: Law) -> Array:
    """The pdf of a law on the grid.

    Raises
    ------
    ValueError
        If dimensions differ, or the law is not axisymmetric about the axis of a `Zonal` space.
    """
    if law.dim != space.dim:
        raise ValueError(f"law must have dim = {space.dim} on {space}, got {shown(law)}")
    values = np.asarray(law.pdf(space.points))
    if isinstance(space, Zonal):
        gap = difference_of_meridians(law.pdf, space.axis, space.nodes, space.sines, values)
        if gap:
            raise ValueError(
                f"law must be axisymmetric about the axis of {space}, but {shown(law)} differs by "
                f"{gap:.2g} between two meridians: take Sphere for d = 3, Circle for d = 2"
            )
    return values


def checked_values(space: Space, values: ArrayLike) -> Array:
    """Values of a density on the grid.

    Raises
    ------
    ValueError
        If they are no finite numbers >= 0, one for each point.
    """
    array = real_array("values", values, 1)
    count = len(space.weights)
    if array.shape != (count,):
        raise ValueError(
            f"values must have shape ({count},), one for each row of space.points on {space}, "
            f"got {array.shape}"
        )
    lowest = float(array.min())
    if lowest < -SIGN_TOLERANCE * float(np.abs(array).max()):
        raise ValueError(f"values must be >= 0, got {lowest:.6g} at index {int(array.argmin())}")
    return array


def checked_mass(space: Space, mass: float, law: Law | None = None) -> float:
    """The mass of a density, by which it is divided.

    Raises
    ------
    ValueError
        If it is not 1.
    """
    if not abs(mass - 1.0) <= _MASS_TOLERANCE:
        # values are as many as the space has points, which a larger one does not take
        remedy = "divide the values by it" if law is None else "take a larger space"
        raise ValueError(
            f"the density must have mass 1 within {_MASS_TOLERANCE:g} on {space}, got mass "
            f"{mass:.9g}: {remedy}"
        )
    return mass


def checked_fit(
    space: Space, coefficients: NDArray[Any], values: Array, law: Law | None = None
) -> float:
    """What a series misses of the values on its grid and of the law between, relative in L².

    Raises
    ------
    ValueError
        If that is more than 1e-8 of values, 1e-2 of a law.
    """
    misfit = _misfit(space, coefficients, values, law)
    if law is None and not misfit <= FIT_TOLERANCE:
        raise ValueError(
            f"values must be resolved by {space}, but its series misses {misfit:.2g} of "
            f"their L² norm: smooth them, or take values at more points, those of a larger space"
        )
    if law is not None and not misfit <= _COARSEST_FIT:
        raise ValueError(
            f"law must be one that {space} resolves, but its series misses {misfit:.2g} of the "
            f"L² norm of {shown(law)}: take {_larger(space, law)}"
        )
    return misfit


def _misfit(space: Space, coefficients: NDArray[Any], values: Array, law: Law | None) -> float:
    square = space.weights @ (space.synthesis(coefficients) - values) ** 2
    if law is not None:
        points, weights, series = space.between(coefficients)
        square = max(square, weights @ (series - law.pdf(points)) ** 2)
    return float(np.sqrt(square / space.power(coefficients).sum()))


def _larger(space: Space, law: Law) -> str:
    """The space that resolves a law, in words."""
    # a space that is too large for double precision can't be made
    with suppress(ValueError):
        finer: Space = space.doubled()
        while finer.size <= finer.size_limit:
            values = law_values(finer, law)
            if _misfit(finer, finer.analysis(values), values, law) <= FIT_TOLERANCE:
                return repr(finer)
            finer = finer.doubled()
    return f"a FlowMap, since no size up to {space.size_limit} resolves it"
