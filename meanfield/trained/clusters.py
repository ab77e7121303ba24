"""How the tokens of a layer lie (modes, inner products, rank), and how far a layer moves them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from meanfield._checks import integer, number, unit_rows
from meanfield.measures.clusters import Clusters, grouped
from meanfield.typing import Array, ArrayLike, Indices, Integers

# inner products that change by less than this are at rest; so many steps may lead there
_AT_REST, _MOST_STEPS = 1e-9, 4000
# ends nearer than this share of the kernel's width 1/√β are one mode: the ascent errs by far less
_ONE_MODE = 0.05
# a mean shorter than this is 0 to rounding
_NO_DIRECTION = 1e-12
_ROWS = 1024


@dataclass(frozen=True, eq=False, repr=False)
class Modes(Clusters):
    """Modes of log G_β with the tokens that ascend to each: `labels` has the mode of each token.

    Attributes
    ----------
    n_moving : int
        How many tokens had not come to rest when the ascent ended: their ends are not yet modes.

    Examples
    --------
    >>> from meanfield.trained import modes
    >>> found = modes([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]], 4.0)
    >>> found.labels, found.n_moving
    (array([0, 0, 1]), 0)
    """

    n_moving: int


def modes(points: ArrayLike, beta: float) -> Modes:
    """Modes of x ↦ log G(βx) = log (1/n) Σ_j e^{β<x,x_j>} that tokens reach by ascent.

    The ascent is x ← m/|m| with m = ∇ log G(βx) = Σ_j w_j x_j, w the softmax of β<x, x_j>: the
    mean shift on the sphere. log G is convex in R^d, and at least log G(βx) + β<m, y − x> at y; of
    all unit y the next x has the largest such bound. So no step descends, and there is no step
    length to choose. β sets the scale: distances of 1/√β are told apart; as β → 0 all tokens ascend
    to the direction of their mean, as β → ∞ each is a mode of its own.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Unit rows.
    beta : float
        β > 0.

    Returns
    -------
    Modes
        The heaviest first. Its number, `len`, is of those modes that a token reaches; where
        `n_moving` is not 0, of flat ridges, it is an upper estimate.

    Raises
    ------
    ValueError
        If β is not > 0 or points are no unit rows.

    Examples
    --------
    >>> points = [[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]]
    >>> modes(points, 4.0).labels, len(modes(points, 400.0)), len(modes(points, 0.1))
    (array([0, 0, 1]), 3, 1)
    """
    unit, beta = unit_rows("points", points), number("beta", beta, above=0)
    gram, n = unit @ unit.T, len(unit)
    products, coefficients, moving = gram.copy(), np.eye(n), np.arange(n)
    for _ in range(_MOST_STEPS):
        inner_now = products[moving]
        weights = np.exp(beta * (inner_now - inner_now.max(axis=1, keepdims=True)))
        weights /= weights.sum(axis=1, keepdims=True)
        means = weights @ gram
        lengths = np.sqrt(np.maximum(np.einsum("ij,ij->i", means, weights), 0.0))
        # a token whose mean has no direction stays
        goes = lengths > _NO_DIRECTION
        moving, after = moving[goes], means[goes] / lengths[goes, None]
        coefficients[moving] = weights[goes] / lengths[goes, None]
        products[moving] = after
        moving = moving[np.abs(after - inner_now[goes]).max(axis=1, initial=0.0) >= _AT_REST]
        if not len(moving):
            break
    ends = coefficients @ unit
    ends /= np.linalg.norm(ends, axis=1)[:, None]
    groups = grouped(ends, np.full(n, 1.0 / n), np.arange(n), _ONE_MODE / max(beta, 1.0) ** 0.5)
    return Modes(groups.masses, groups.centres, groups.radii, groups.labels, len(moving))


def inner_products(points: ArrayLike, bins: int = 80) -> tuple[Integers, Array]:
    """Histogram of <x_i, x_j> over pairs i < j, in equal bins of [−1, 1]: Figure 1.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Unit rows.
    bins : int

    Returns
    -------
    counts : ndarray of int, shape (bins,)
        Pairs in each bin, of sum n(n − 1)/2.
    edges : ndarray, shape (bins + 1,)

    Raises
    ------
    ValueError
        If points are no unit rows or bins < 1.

    Examples
    --------
    >>> inner_products([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], 3)[0]
    array([1, 2, 0])
    """
    unit = unit_rows("points", points)
    edges = np.linspace(-1.0, 1.0, integer("bins", bins, low=1) + 1)
    counts = np.zeros(len(edges) - 1, dtype=np.int64)
    for start in range(0, len(unit), _ROWS):
        block = unit[start : start + _ROWS] @ unit[start:].T
        is_pair = np.triu(np.ones(block.shape, dtype=bool), 1)
        # rounding takes products of equal rows beyond 1
        counts += np.histogram(np.clip(block[is_pair], -1.0, 1.0), edges)[0]
    return counts, edges


def effective_rank(points: ArrayLike) -> float:
    """e^{S}, S = −Σ p_k log p_k the entropy of the singular values p_k = σ_k/Σσ of the points.

    It is 1 where all tokens lie on one axis, and min(n, d) where all singular values are equal (Roy
    and Vetterli 2007).

    Raises
    ------
    ValueError
        If points are no unit rows.

    Examples
    --------
    >>> round(effective_rank(np.eye(4)), 12), round(effective_rank([[1.0, 0.0], [-1.0, 0.0]]), 12)
    (4.0, 1.0)
    """
    shares = np.linalg.svd(unit_rows("points", points), compute_uv=False)
    shares = shares[shares > 0.0] / shares.sum()
    return float(np.exp(-np.sum(shares * np.log(shares))))


@dataclass(frozen=True, eq=False)
class Couplings:
    """How far tokens moved in W_2 under two couplings.

    Attributes
    ----------
    own : float
        (1/n Σ_i dist(x_i, y_i)²)^{1/2}: each token goes where the layer takes it.
    optimal : float
        The least of that over permutations, which is W_2 of the two measures: never above `own`.
    targets : ndarray of int, shape (n,)
        The best permutation: x_i goes to y_{targets[i]}.

    Examples
    --------
    >>> from meanfield.trained import couplings
    >>> layer = couplings([[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]])
    >>> layer.targets, layer.own > layer.optimal  # the tokens change places
    (array([1, 0]), True)
    """

    own: float
    optimal: float
    targets: Indices

    @property
    def gap(self) -> float:
        """own − optimal: what the layer moves tokens beyond what it moves their measure."""
        return self.own - self.optimal


def couplings(before: ArrayLike, after: ArrayLike) -> Couplings:
    """W_2 between the tokens before and after a layer, under its own coupling and the optimal one.

    Tokens have equal weights, so an optimal plan is a permutation (Birkhoff), which the assignment
    problem solves exactly in O(n³). A gradient flow has no gap between small steps; a layer that
    exchanges tokens has one, however little their measure moves. Distances are geodesic, by chords:
    right to rounding but near π, where that takes half of the digits.

    Parameters
    ----------
    before, after : array_like, shape (n, d)
        Unit rows.

    Returns
    -------
    Couplings

    Raises
    ------
    ValueError
        If the points are no unit rows or do not fit each other.

    Examples
    --------
    >>> exchange = couplings([[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]])
    >>> round(exchange.own / np.pi, 12), exchange.optimal, exchange.targets
    (0.5, 0.0, array([1, 0]))
    """
    start = unit_rows("before", before)
    end = unit_rows("after", after, start.shape[1])
    if end.shape != start.shape:
        raise ValueError(f"after must have shape {start.shape}, as before, got {end.shape}")
    costs = (2.0 * np.arcsin(np.minimum(0.5 * cdist(start, end), 1.0))) ** 2
    tokens = np.arange(len(start))
    targets = linear_sum_assignment(costs)[1]
    # rounding of sums must not distinguish two optimal couplings
    least = min(costs[tokens, targets].mean(), costs[tokens, tokens].mean())
    return Couplings(float(np.sqrt(costs[tokens, tokens].mean())), float(np.sqrt(least)), targets)
