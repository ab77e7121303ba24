"""Energies E_{β,D} of attention with a symmetric matrix D, and what its gradient flows dissipate.

Burger, Kabri, Korolev, Roith and Weigand, arXiv 2501.03096; their E_D is 2 E_{1,D}.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import shown, symmetric
from meanfield.dynamics import Attention, balanced_form
from meanfield.dynamics.forms import LARGEST_EXPONENT
from meanfield.exponential_sums import grid_log_moment
from meanfield.geometry import project
from meanfield.harmonics import bandwidth
from meanfield.measures import AnyMeasure, Density, Particles
from meanfield.spaces import Space
from meanfield.spaces.symmetry import asymmetry
from meanfield.tendency.spectral import ROUNDING

Array = NDArray[np.float64]

# of an energy, that rounding of a density may make
_LARGEST_SHARE = 1e-6


def form_energy_in_unit(measure: AnyMeasure, beta: float, form: ArrayLike) -> tuple[float, float]:
    """e^{-u} E_{β,D} and u, the log of the largest G(βDx) at a node; D = `form`.

    Raises
    ------
    ValueError
        If D is not symmetric with as many rows as the measure has dimensions, or a measure that
        is stored by latitudes has another axis than D.
    """
    matrix = _checked(measure, form)
    if beta == 0.0:
        mean = measure.mean()
        return 0.5 * float(mean @ matrix @ mean), 0.0
    largest = beta * float(np.linalg.norm(matrix, 2))
    if isinstance(measure, Density):
        return _density_energy(measure, beta, matrix, bandwidth(largest, measure.dim))
    measure = measure.resolving(largest)
    log_g, _ = _moments(measure, measure.points, beta * matrix)
    unit = float(log_g.max())
    return float(measure.weights @ np.exp(log_g - unit)) / (2.0 * beta), unit


def _density_energy(
    density: Density, beta: float, matrix: Array, degree: int
) -> tuple[float, float]:
    """As a double quadrature of the degrees that e^{β<x,Dy>} has, which is exact."""
    grid, masses = _on_grid(density, degree)
    z = beta * grid.points @ matrix
    # cut at a degree, f may be negative, and log G knows positive masses
    logs = [(s, grid_log_moment(grid, m, z)[0]) for s, m in _signed(masses / grid.weights)]
    unit = max(float(log_g.max()) for _, log_g in logs)
    g = sum((s * np.exp(log_g - unit) for s, log_g in logs), start=np.zeros(len(z)))
    total = float(masses @ g)
    _check_digits(density, grid, masses, z, total, unit)
    return total / (2.0 * beta), unit


def _check_digits(
    density: Density, grid: Space, masses: Array, z: Array, total: float, unit: float
) -> None:
    """Refuse ∫ G dmu, in units of e^{unit}, that the rounding of f makes, opposite to its mass.

    Raises
    ------
    ValueError
        If more than 1e-6 of it may be rounding.
    """
    # what is everywhere 1e-16 of max f looks to G like a uniform measure
    dust = ROUNDING * float(np.abs(masses / grid.weights).max())
    log_uniform, _ = grid_log_moment(grid, grid.weights, z)
    doubt = 2.0 * dust * float(np.abs(masses) @ np.exp(log_uniform - unit))
    if not doubt <= _LARGEST_SHARE * total:
        raise ValueError(
            f"beta |D| must be smaller for {shown(density)}, got {float(np.abs(z).max()):.3g}: "
            f"rounding "
            f"of f makes {doubt:.1e} of an energy of {total:.1e}, in units of 2 beta e^{unit:.4g}; "
            f"take a FlowMap or Particles"
        )


def _on_grid(density: Density, degree: int) -> tuple[Space, Array]:
    """A grid that is exact for three times this degree, and the masses of f up to it there."""
    space = density.space
    grid = space.resized(space.exact_size(3 * degree))
    values = grid.synthesis(space.embed(density.coefficients, grid))  # type: ignore[arg-type]
    return grid, grid.weights * values


def _signed(values: Array) -> list[tuple[int, Array]]:
    parts = [(sign, np.maximum(sign * values, 0.0)) for sign in (1, -1)]
    return [(sign, part) for sign, part in parts if part.any()]


def form_dissipation(measure: AnyMeasure, dynamics: Attention) -> float:
    """∫ |X|² dmu, or with `normalise` ∫ |X|² G(βDx) dmu, of a dynamics that has a `form`.

    Raises
    ------
    ValueError
        If the dynamics has none, or the value is too large for float64.
    """
    form = dynamics.form
    if form is None or form.exponent > LARGEST_EXPONENT:
        raise ValueError(
            f"dynamics must be SA, USA, or Attention of one head with KᵀQ = D = Dᵀ, V = ±D and "
            f"beta |D| <= {LARGEST_EXPONENT:g}, got {shown(dynamics)}"
        )
    matrix = _checked(measure, form.matrix)
    if isinstance(measure, Density):
        # |P_x D∇G|² has twice the degrees of G; over G it has more, but only where it is small
        grid, masses = _on_grid(measure, 2 * bandwidth(form.exponent, measure.dim) + 2)
        z = dynamics.beta * grid.points @ matrix
        log_g, _ = measure.log_moment(z)
        total = float(masses @ np.exp(log_g - log_g.max()))
        _check_digits(measure, grid, masses, z, total, float(log_g.max()))
        return _summed(measure, dynamics, matrix, grid.points, masses)
    measure = measure.resolving(form.exponent)
    return _summed(measure, dynamics, matrix, measure.points, measure.weights)


def _summed(
    measure: AnyMeasure, dynamics: Attention, matrix: Array, points: Array, masses: Array
) -> float:
    log_g, mean = _moments(measure, points, dynamics.beta * matrix)
    across = project(points, mean @ matrix)
    squares = np.einsum("ij,ij->i", across, across)
    return float(masses @ (squares * np.exp((1.0 if dynamics.normalise else 2.0) * log_g)))


def _moments(measure: AnyMeasure, points: Array, scores: Array) -> tuple[Array, Array]:
    """log G and ∇ log G at Mx for points x, over many tokens in O(n)."""
    if isinstance(measure, Particles):
        fast = measure.fast_score_sums(scores, len(points))
        if fast is not None:
            return fast.quick(measure.points, measure.weights, points)
    return measure.log_moment(points @ scores)


def balance(
    measure: AnyMeasure, dynamics: Attention, work: float, log_unit: float
) -> dict[str, float]:
    """What a run with a `balanced_form` keeps of its energy, in units of e^{log_unit}.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : Attention
    work : float
        ∫ dissipation dt since t = 0, in these units.
    log_unit : float
        That of the run's records: β for tokens.

    Raises
    ------
    ValueError
        If the dynamics has no such form.
    """
    form = balanced_form(dynamics)
    if form is None:
        raise ValueError(f"dynamics must have a form and no noise, got {shown(dynamics)}")
    value, unit = form_energy_in_unit(measure, dynamics.beta, form.matrix)
    return {
        "form_energy": value * float(np.exp(unit - log_unit)),
        "dissipation": form_dissipation(measure, dynamics) * float(np.exp(-log_unit)),
        "work": form.sign * work,
    }


def _checked(measure: AnyMeasure, form: ArrayLike) -> Array:
    """D as a matrix, refused where the measure's latitudes do not stay latitudes under it."""
    matrix = symmetric("form", form, measure.dim)
    if measure.axis is not None and asymmetry(matrix, measure.axis):
        raise ValueError(
            f"form must commute with rotations about the axis {measure.axis} of {shown(measure)}, "
            f"got {matrix}"
        )
    return matrix
