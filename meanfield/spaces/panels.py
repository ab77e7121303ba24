"""Gauss panels on a line of labels: nodes, expansions, and the split into halves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import legendre

from meanfield.typing import Array

Masses = Callable[[Array], Array]


def to_legendre(nodes: Array) -> Array:
    """The matrix (n, n) that takes values at nodes (n,) in [-1, 1] to Legendre coefficients."""
    return np.asarray(np.linalg.inv(legendre.legvander(nodes, len(nodes) - 1)), dtype=np.float64)


NODES = 16
GAUSS, GAUSS_WEIGHTS = legendre.leggauss(NODES)
_TO_LEGENDRE = to_legendre(GAUSS)
# a matrix from values at the nodes of a panel to values at the nodes of its two halves
_TO_HALVES = np.concatenate(
    [legendre.legvander(0.5 * (GAUSS + side), NODES - 1) @ _TO_LEGENDRE for side in (-1.0, 1.0)]
)
_LAST = 3
_FIRST_PANELS = 8
_MOST_HALVINGS = 60
# a mass is 1 to rounding if it is within the first number; the second is the largest error of
# a law's own mass, which finer panels do not change
_MASS_ROUNDING = 3e-12
_MASS_ERROR = 1e-9
# even if all of Newton's steps fail, so many halvings end below rounding
_STEPS = 60


def nodes(edges: Array) -> Array:
    """Labels of the Gauss nodes, shape (P, 16), of panels with these edges, shape (P, 2)."""
    middle, half = 0.5 * (edges[:, 0] + edges[:, 1]), 0.5 * (edges[:, 1] - edges[:, 0])
    return np.asarray(middle[:, None] + half[:, None] * GAUSS)


def weights(edges: Array) -> Array:
    """Weights of the labels' Lebesgue measure at the nodes, shape (P, 16)."""
    return np.asarray(0.5 * (edges[:, 1] - edges[:, 0])[:, None] * GAUSS_WEIGHTS)


def width_for(radius: float, dim: int) -> float:
    """The width of panels of latitudes whose nodes are near to one another in a ball.

    One radius: nodes are a tenth of it apart at most, and what ends at a node is off by that. In
    d > 3 dimensions less, since most of a ball lies at latitudes of radius/sqrt(d).
    """
    return float(radius / np.sqrt(max(1.0, dim / 3.0)))


def tails(values: Array) -> Array:
    """Largest of the last three Legendre coefficients on each panel, shape (P,)."""
    return np.asarray(np.abs(values @ _TO_LEGENDRE[-_LAST:].T).max(axis=1))


def missed(widths: Array, count: int) -> Array:
    """The share of a function that so many Gauss nodes miss, where it is analytic but for a pole.

    Parameters
    ----------
    widths : ndarray
        Half the width of a panel over the distance of the pole from its middle.
    count : int
        Nodes, which integrate polynomials up to degree 2 count - 1.

    Examples
    --------
    >>> missed(np.array([0.0, 0.6, 1.0]), 10)
    array([0.00000000e+00, 2.86797199e-10, 1.00000000e+00])
    """
    inside = np.minimum(widths, 1.0)
    # the pole lies on or outside the ellipse about [-1, 1] with these half-axes
    return np.asarray((inside / (1.0 + np.sqrt(1.0 - inside**2))) ** (2 * count))


def expansions(values: Array) -> Array:
    """Legendre coefficients (P, 16) on each panel, of values at its nodes."""
    return np.asarray(values @ _TO_LEGENDRE.T)


def halves(edges: Array) -> Array:
    """Edges (2P, 2) of the two halves of each panel, in their order."""
    middle = 0.5 * (edges[:, 0] + edges[:, 1])
    return np.stack([edges[:, 0], middle, middle, edges[:, 1]], axis=1).reshape(-1, 2)


def halved(values: Array) -> Array:
    """Values (2P, 16) on the halves' nodes, interpolated from those (P, 16) on the wholes'."""
    return np.asarray((values @ _TO_HALVES.T).reshape(-1, NODES))


def invert(series: Array, derivatives: Array, values: Array) -> Array:
    """x in [-1, 1] where Legendre series that ascend take values, by Newton's steps in a bracket.

    Parameters
    ----------
    series, derivatives : ndarray, shape (m, n)
        Coefficients of the series and of their derivatives, one a column.
    values : ndarray, shape (n,)

    Returns
    -------
    ndarray, shape (n,)
        Next to an end, within 1e-13 of it, where a series does not take its value.

    Examples
    --------
    >>> invert(np.array([[1.0], [2.0]]), np.array([[2.0]]), np.array([2.0]))
    array([0.5])
    """
    low, high = np.full(len(values), -1.0), np.full(len(values), 1.0)
    x = np.zeros(len(values))
    for _ in range(_STEPS):
        excess = legendre.legval(x, series, tensor=False) - values
        low, high = np.where(excess < 0.0, x, low), np.where(excess > 0.0, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            trial = x - excess / legendre.legval(x, derivatives, tensor=False)
        new = np.where((trial >= low) & (trial <= high), trial, 0.5 * (low + high))
        moved, x = float(np.abs(new - x).max()), new
        if moved < 1e-13:
            break
    return x


def quantiles(masses: Array, values: Array, levels: Array) -> tuple[Array, Array]:
    """The values of functions on panels where shares of the whole mass are reached, and the panels.

    Parameters
    ----------
    masses : ndarray, shape (P, 16)
        Of the nodes.
    values : ndarray, shape (P, 16)
        Of the functions at the nodes.
    levels : ndarray, shape (n,)
        In [0, 1).

    Returns
    -------
    values, panels : ndarray, shape (n,)

    Examples
    --------
    >>> masses, labels = GAUSS_WEIGHTS[None] / 2.0, GAUSS[None]
    >>> quantiles(masses, labels, np.array([0.25]))[0].round(12)
    array([-0.5])
    """
    densities = expansions(masses / GAUSS_WEIGHTS).T
    shares = np.asarray(legendre.legint(densities, lbnd=-1.0), dtype=np.float64)
    ends = np.cumsum(masses.sum(axis=1))
    wanted = levels * ends[-1]
    # panels without mass are passed over: they have no share of the levels
    panel = np.minimum(np.searchsorted(ends, wanted, side="right"), len(ends) - 1)
    begun = np.append(0.0, ends)[panel]
    place = invert(shares[:, panel], densities[:, panel], wanted - begun)
    angles = legendre.legval(place, expansions(values).T[:, panel], tensor=False)
    return np.asarray(angles, dtype=np.float64), panel


def lay(density: Masses, length: float, tol: float, largest: int) -> Array:
    """Edges (P, 2) of panels on [0, length] on which a probability density of labels is resolved.

    A panel splits while the tail of the density's expansion, times the panel's length, or the
    difference between its mass and that of its halves exceeds `tol`. Where a narrow peak fell
    between all nodes, the mass is not 1, and everything is tried again from smaller panels. A
    mass within 1e-9 of 1 that all smaller panels find too is the law's own error.

    Raises
    ------
    ValueError
        If that takes more than `largest` nodes.
    """
    n_panels = _FIRST_PANELS
    panels: list[tuple[Array, float]] = []
    while NODES * n_panels <= largest:
        steps = np.linspace(0.0, length, n_panels + 1)
        edges = _refined(density, np.stack([steps[:-1], steps[1:]], axis=1), tol, largest)
        if edges is None:
            break
        mass = float((density(nodes(edges).ravel()) * weights(edges).ravel()).sum())
        if abs(mass - 1.0) < _MASS_ROUNDING:
            return edges
        panels.append((edges, mass))
        n_panels *= 8
    for edges, mass in panels:
        if abs(mass - 1.0) < _MASS_ERROR and abs(mass - panels[-1][1]) < _MASS_ROUNDING:
            return edges
    raise ValueError(
        f"law must be a probability density that {largest} nodes resolve, but it is not: its mass "
        f"or its detail was not found on panels of {length / n_panels:.2g}"
    )


def _refined(density: Masses, waiting: Array, tol: float, largest: int) -> Array | None:
    finished, count = [], 0
    for _ in range(_MOST_HALVINGS):
        values = density(nodes(waiting).ravel()).reshape(-1, NODES)
        finer = halves(waiting)
        parts = density(nodes(finer).ravel()).reshape(-1, NODES) * weights(finer)
        masses = (values * weights(waiting)).sum(axis=1)
        gap = np.abs(parts.reshape(len(waiting), -1).sum(axis=1) - masses)
        split = (tails(values) * (waiting[:, 1] - waiting[:, 0]) > tol) | (gap > tol)
        finished.append(waiting[~split])
        count += len(finished[-1])
        if not split.any():
            edges = np.concatenate(finished)
            return np.asarray(edges[np.argsort(edges[:, 0])])
        waiting = halves(waiting[split])
        if NODES * (count + len(waiting)) > largest:
            break
    return None
