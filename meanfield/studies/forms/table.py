"""Least and largest energies of several matrices D, as a dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import generator, integer, real_array, symmetric
from meanfield.laws import Uniform
from meanfield.measures import Density
from meanfield.spaces import Circle
from meanfield.studies.forms.discrete import four_points, search_largest
from meanfield.studies.forms.extremisers import Extremiser, form_maximiser, form_minimiser

Array = NDArray[np.float64]

_ANGLES = 361


def form_extremisers(
    forms: ArrayLike,
    beta: float = 1.0,
    *,
    starts: int = 0,
    rng: np.random.Generator | None = None,
) -> xr.Dataset:
    """The measures of least and of largest E_{β,D}, for one matrix D or several.

    Parameters
    ----------
    forms : array_like, shape (d, d) or (m, d, d)
        Symmetric, see `form_minimiser`.
    beta : float
        β > 0.
    starts : int
        Random starts of a search for the largest energy among measures of four atoms.
    rng : numpy Generator, optional
        For `starts` > 0.

    Returns
    -------
    xarray.Dataset
        Over form: `matrix` and `eigenvalue`; `least_energy`, `least_bound`, `residual` and
        `least_kind` of `form_minimiser`; `largest_energy` and `largest_kind` of `form_maximiser`,
        with the two candidates, `dirac_energy` (of an eigenvector of λ_max) and `pair_energy` (of
        ± one of λ_min), and with starts `searched_energy`. On the circle also `density`,
        `potential` and `uniform_potential` over angle, the coefficients `cos` and `sin` over degree
        of the density 1 + Σ a_k cos kθ + b_k sin kθ (nan for a Dirac), and `four_point_share` and
        `four_point_energy`, x_1² and the least energy of points (±x_1, ±x_2) in the frame of the
        eigenvectors.

    Raises
    ------
    ValueError
        If an argument is not of that kind, before any work starts.
    ArithmeticError
        See `form_minimiser`.
    """
    matrices = _matrices(forms)
    starts = integer("starts", starts, low=0)
    rng = generator("rng", rng) if starts else None
    largest = [form_maximiser(matrix, beta) for matrix in matrices]
    least = [form_minimiser(matrix, beta) for matrix in matrices]
    values = np.array([np.linalg.eigvalsh(matrix) for matrix in matrices])
    columns: dict[str, Any] = {
        "matrix": (("form", "row", "column"), matrices, {"long_name": "D"}),
        "eigenvalue": (("form", "row"), values, {"long_name": "eigenvalue of D"}),
        "least_energy": [one.energy for one in least],
        "least_bound": [one.bound for one in least],
        "residual": [one.residual for one in least],
        "least_kind": [one.kind for one in least],
        "largest_energy": [one.energy for one in largest],
        "largest_kind": [one.kind for one in largest],
        "dirac_energy": np.exp(beta * values[:, -1]) / (2.0 * beta),
        "pair_energy": np.cosh(beta * values[:, 0]) / (2.0 * beta),
    }
    if rng is not None:
        found = [search_largest(matrix, beta, starts, rng)[1] for matrix in matrices]
        columns["searched_energy"] = found
    coords: dict[str, Any] = {}
    if matrices.shape[1] == 2:
        shares = np.array([four_points(pair, beta) for pair in values])
        columns |= {"four_point_share": shares[:, 0], "four_point_energy": shares[:, 1]}
        curves, coords = _curves(least, matrices, beta)
        columns |= curves
    named = {
        name: column if isinstance(column, tuple) else ("form", np.asarray(column))
        for name, column in columns.items()
    }
    return xr.Dataset(named, coords=coords, attrs={"beta": float(beta)})


def _curves(
    least: list[Extremiser], matrices: Array, beta: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Densities, potentials and coefficients on the circle."""
    angles = np.linspace(0.0, 2.0 * np.pi, _ANGLES)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    densities = [one.measure if isinstance(one.measure, Density) else None for one in least]
    last = max((mu.space.kmax for mu in densities if mu is not None), default=0)
    values, potentials, flat = np.full((3, len(least), _ANGLES), np.nan)
    uniform = Density(Circle(8), Uniform(2))
    modes = np.full((len(least), last + 1), np.nan, dtype=np.complex128)
    for i, (one, mu) in enumerate(zip(least, densities, strict=True)):
        log_g, _ = one.measure.log_moment(beta * points @ matrices[i])
        potentials[i] = np.exp(log_g)
        flat[i] = np.exp(uniform.log_moment(beta * points @ matrices[i])[0])
        if mu is not None:
            values[i] = mu.at(points)
            modes[i] = 0.0
            modes[i, : mu.space.kmax + 1] = mu.coefficients
    columns = {
        "density": (("form", "angle"), values, {"long_name": "density of least energy"}),
        "potential": (("form", "angle"), potentials, {"long_name": "∫ e^{β<x,Dy>} dmu(y)"}),
        "uniform_potential": (("form", "angle"), flat, {"long_name": "that of the uniform mu"}),
        "cos": (("form", "degree"), 2.0 * modes.real[:, 1:], {"long_name": "a_k"}),
        "sin": (("form", "degree"), -2.0 * modes.imag[:, 1:], {"long_name": "b_k"}),
    }
    return columns, {"angle": angles, "degree": np.arange(1, last + 1)}


def _matrices(forms: Any) -> Array:
    """Symmetric matrices of one dimension, shape (m, d, d)."""
    given = real_array("forms", forms, 2 if _is_one(forms) else 3)
    several = given if given.ndim == 3 else given[None]
    return np.array([symmetric(f"forms[{i}]", one) for i, one in enumerate(several)])


def _is_one(forms: Any) -> bool:
    """Whether this is one matrix; what is ragged is refused later."""
    try:
        return np.ndim(forms) == 2
    except (TypeError, ValueError):
        return False
