"""The energy E_β of the tokens of a layer, and what each half of a layer did to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meanfield._checks import integer, number, several, unit_rows
from meanfield.functionals.energies import energy_share
from meanfield.measures import Particles
from meanfield.spaces.geometry import project
from meanfield.theory import log_eigenvalues
from meanfield.typing import Array, ArrayLike

# so many rows of pairs are summed at once
_ROWS = 1024


def energy_shares(points: ArrayLike, beta: float | ArrayLike) -> Array:
    """E_β/E_β(δ) of tokens at each of several β, E_β = 1/(2β n²) Σ_ij e^{β<x_i,x_j>}, (3.5).

    It is 1 where all tokens are one (Proposition 3.4), and never below `least_shares`. The share
    does not overflow; E_β itself is `mf.energy`.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Unit rows.
    beta : float or array_like, shape (k,)
        β >= 0.

    Returns
    -------
    ndarray, shape (k,)

    Raises
    ------
    ValueError
        If a β is negative or points are no unit rows.

    Examples
    --------
    >>> energy_shares([[1.0, 0.0], [-1.0, 0.0]], [1e3])  # both are alone
    array([0.5])
    """
    tokens = Particles(points)
    return np.array([energy_share(tokens, value) for value in several("beta", beta)])


def least_shares(beta: float | ArrayLike, n: int, dim: int) -> Array:
    """A lower bound of E_β/E_β(δ) for n tokens in dim dimensions, at each β.

    The larger of the share of the uniform measure, e^{-β} Λ_0(β, d) (Proposition 3.4), and of
    (1 + (n − 1) e^{-β n/(n − 1)})/n: the mean of <x_i, x_j> over pairs is at least −1/(n − 1), and
    e^{βt} is convex; where d >= n − 1 a simplex has it.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> least_shares([0.0, 800.0], 4, 3)
    array([0.  , 0.25])
    """
    n, dim = integer("n", n, low=1), integer("dim", dim, low=2)
    betas = np.array([number("beta", value, low=0) for value in several("beta", beta)])
    uniform = np.exp(log_eigenvalues(betas, dim, 0)[:, 0] - betas)
    simplex = (1.0 + (n - 1) * np.exp(-betas * n / max(n - 1, 1))) / n
    # at β = 0 the limit is the share of |∫ x dmu|², which is 0
    return np.where(betas > 0.0, np.maximum(uniform, simplex), 0.0)


def energy_gradient(points: ArrayLike, beta: float) -> Array:
    """∇_i of E_β/E_β(δ) on the sphere: P_i (2β/n²) Σ_j e^{β(<x_i,x_j> − 1)} x_j.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Unit rows.
    beta : float
        β > 0.

    Returns
    -------
    ndarray, shape (n, d)
        Tangent vectors.

    Raises
    ------
    ValueError
        If β is not > 0 or points are no unit rows.

    Examples
    --------
    >>> energy_gradient([[1.0, 0.0], [0.0, 1.0]], 1.0).round(4)
    array([[0.    , 0.1839],
           [0.1839, 0.    ]])
    """
    unit, beta = unit_rows("points", points), number("beta", beta, above=0)
    sums = np.empty_like(unit)
    for start in range(0, len(unit), _ROWS):
        rows = slice(start, start + _ROWS)
        sums[rows] = np.exp(beta * (unit[rows] @ unit.T - 1.0)) @ unit
    return project(unit, (2.0 * beta / len(unit) ** 2) * sums)


@dataclass(frozen=True, eq=False)
class Attribution:
    """The effect of a move of the tokens on E_β/E_β(δ): change = Σ of_tokens + residual.

    Attributes
    ----------
    change : float
        The change of the energy, as a share of that of a Dirac mass.
    of_tokens : ndarray, shape (n,)
        <∇_i E, Δx_i>, to first order in the move.
    residual : float
        The part that first order leaves: it is of order |Δx|².

    Examples
    --------
    >>> from meanfield.trained import attribute_energy
    >>> move = attribute_energy([[1.0, 0.0], [0.0, 1.0]], [[0.8, 0.6], [0.0, 1.0]], 1.0)
    >>> bool(abs(move.change - move.of_tokens.sum() - move.residual) < 1e-15)
    True
    """

    change: float
    of_tokens: Array
    residual: float


def attribute_energy(before: ArrayLike, after: ArrayLike, beta: float) -> Attribution:
    """The effect of each token's move on E_β/E_β(δ), to first order, and the residual.

    Δx_i is after − before, of which the gradient sees the tangent part: to first order the geodesic
    between them. Each half of a layer is attributed by itself, so that attention and feed-forward
    have their own changes, which add up to that of the layer, each with its residual. The residual
    is second order: where the move is long (a layer of a trained model turns tokens by 0.1 to 1) it
    may be as large as the rest, and what tokens did is then no more than a direction.

    Parameters
    ----------
    before, after : array_like, shape (n, d)
        Unit rows.
    beta : float
        β > 0.

    Returns
    -------
    Attribution

    Raises
    ------
    ValueError
        If β is not > 0, or the points are no unit rows or do not fit each other.

    Examples
    --------
    >>> some = attribute_energy([[1.0, 0.0], [0.0, 1.0]], [[0.8, 0.6], [0.0, 1.0]], 1.0)
    >>> bool(some.change > 0.0), some.of_tokens.round(3)
    (True, array([0.11, 0.  ]))
    """
    start = unit_rows("before", before)
    end = unit_rows("after", after, start.shape[1])
    if end.shape != start.shape:
        raise ValueError(f"after must have shape {start.shape}, as before, got {end.shape}")
    gradient = energy_gradient(start, beta)
    of_tokens = np.einsum("ij,ij->i", gradient, end - start)
    change = float(np.diff([energy_shares(points, beta)[0] for points in (start, end)])[0])
    return Attribution(change, of_tokens, change - float(of_tokens.sum()))
