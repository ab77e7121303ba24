"""Measures on a line or a circle by their quantile functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.polynomial import chebyshev, legendre
from scipy.fft import irfft, next_fast_len

from meanfield._checks import EPS, shown
from meanfield.measures import AnyMeasure, Density, LineFlowMap
from meanfield.spaces import Circle
from meanfield.spaces.geometry import circle_angles, latitude_density, line_points, polar_angles
from meanfield.spaces.panels import GAUSS, GAUSS_WEIGHTS, NODES, to_legendre
from meanfield.typing import Array, Coefficients, Indices

_MOST_STEPS = 100
_FINEST = 2.0 * EPS


def bracketed_roots(
    function: Callable[[Indices, Array], Array], low: Array, high: Array, accuracy: float = _FINEST
) -> Array:
    """A root of each of n functions between low and high, where its sign changes.

    Chandrupatla's method (1997): inverse quadratic interpolation where it is safe, else bisection.
    Where the sign does not change, the end with the smaller value.

    Parameters
    ----------
    function : callable
        function(index, x) is the value of the functions with these indices at x.
    low, high : ndarray, shape (n,)
    accuracy : float, optional
        Of the roots, where they are of order 1; what doubles can tell if omitted.

    Returns
    -------
    ndarray, shape (n,)

    Examples
    --------
    >>> targets = np.array([2.0, 9.0])
    >>> bracketed_roots(lambda i, x: x * x - targets[i], np.zeros(2), np.full(2, 5.0))
    array([1.41421356, 3.        ])
    """
    index = np.arange(len(low))
    a, b = high.astype(np.float64), low.astype(np.float64)
    fa, fb = function(index, a), function(index, b)
    roots = np.where(np.abs(fa) < np.abs(fb), a, b)
    c, fc = a, fa
    step = np.full(len(a), 0.5)
    live = (np.sign(fa) * np.sign(fb)) < 0.0
    for _ in range(_MOST_STEPS):
        index, a, b, c, step = index[live], a[live], b[live], c[live], step[live]
        fa, fb, fc = fa[live], fb[live], fc[live]
        if len(index) == 0:
            break
        x = a + step * (b - a)
        fx = function(index, x)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        best = np.abs(fa) < np.abs(fb)
        roots[index] = np.where(best, a, b)
        tolerance = accuracy * (np.abs(roots[index]) + 0.5) / np.maximum(np.abs(b - a), 1e-300)
        live = (tolerance < 0.5) & (fa != 0.0)
        step = _steps(np.stack([a, b, c]), np.stack([fa, fb, fc]), np.minimum(tolerance, 0.5))
    return roots


def _steps(x: Array, f: Array, tolerance: Array) -> Array:
    """The next place to look at, as a fraction of the way from a to b (Chandrupatla's method)."""
    (a, b, c), (fa, fb, fc) = x, f
    with np.errstate(all="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
        t = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    t = np.where(safe & np.isfinite(t), t, 0.5)
    return np.clip(t, tolerance, 1.0 - tolerance)


TURN = 2.0 * np.pi
_TO_CHEBYSHEV = np.linalg.inv(chebyshev.chebvander(GAUSS, NODES - 1))
_CHUNK = 1 << 18
_SAME = 1e-15
# rounding of sums up to 1, and of shifted sums up to 4, may hide a mass of this size
_LEAST_MASS = 4.0 * EPS
# up to so many starts in a bucket are compared one by one
_FEW_STARTS = 4
# the mass of a piece is tabulated at so many places
_TABLE = 64
_TABLE_AT = np.linspace(-1.0, 1.0, _TABLE + 1)


def _ascending(angles: Array) -> Indices:
    """Return the indices that sort values and keep the order of equal ones."""
    # numpy's fastest sort orders equal values differently on different processors
    order = np.argsort(angles)
    ties = np.any(np.diff(angles[order]) == 0.0)
    return np.argsort(angles, kind="stable") if ties else order


class Atoms:
    """Σ_i m_i δ_{x_i}: the quantile function is a staircase.

    Parameters
    ----------
    angles, masses : ndarray, shape (n,)
        Any angles, masses >= 0; those without mass are dropped, and the sum is made 1.
    turn : float
        2π on the circle, where the quantile function satisfies Q(u + 1) = Q(u) + 2π; 0 on a line.

    Attributes
    ----------
    angles, masses : ndarray, shape (n,)
        Ascending angles.
    order : ndarray of int, shape (n,)
        Where they stood among those given.
    starts : ndarray, shape (n + 1,)
        The mass before each atom, and 1.
    """

    is_smooth: Literal[False] = False

    def __init__(self, angles: Array, masses: Array, turn: float) -> None:
        order = _ascending(angles)
        order = order[masses[order] > 0.0]
        self.turn, self.order = turn, order
        self.angles, self.masses = angles[order], masses[order] / masses.sum()
        self.starts = np.concatenate([[0.0], np.cumsum(self.masses)])
        self.starts /= self.starts[-1]

    @classmethod
    def on_circle(cls, points: Array, masses: Array) -> Atoms:
        """Make it from masses (n,) at points (n, 2) of any length but 0."""
        return cls(circle_angles(points), masses, TURN)

    @property
    def ends(self) -> tuple[Array, Array]:
        """The least and the largest angle of each atom."""
        return self.angles, self.angles

    @cached_property
    def stairs(self) -> tuple[Array, Array]:
        """The starts of the steps of Q, apart beyond rounding, and its values there.

        An atom so light that its step may have no length leaves its mass to the one before, or
        to the first that is not.
        """
        has_mass = self.masses > _LEAST_MASS
        if has_mass.all():
            return self.starts[:-1], self.angles
        starts = self.starts[:-1][has_mass]
        starts[0] = 0.0
        return starts, self.angles[has_mass]

    def same_as(self, other: Quantiles) -> bool:
        """Whether the other has the same angles, and masses up to rounding of their sum."""
        return (
            not other.is_smooth
            and np.array_equal(self.angles, other.angles)
            and np.allclose(self.masses, other.masses, rtol=_SAME, atol=0.0)
        )

    def quantile(self, u: Array) -> Array:
        """Q(u) = inf{x : F(x) >= u}, any shape; on the circle for any u."""
        if not self.turn:
            place = np.clip(self.rank(np.clip(u, 0.0, 1.0)) - 1, 0, len(self.angles) - 1)
            return np.asarray(self.angles[place])
        turns = np.floor(u)
        # at u = 0 the quantile is the first atom
        place = np.maximum(self.rank(u - turns) - 1, 0)
        return np.asarray(self.angles[place] + self.turn * turns)

    def cumulative(self, angles: Array) -> Array:
        """F(x), the mass up to each angle (n,); F(x + 2π) = F(x) + 1 on the circle."""
        turns = np.floor(angles / self.turn) if self.turn else np.zeros_like(angles)
        inside = angles - self.turn * turns
        return np.asarray(turns + self.starts[np.searchsorted(self.angles, inside, side="right")])

    def rank(self, u: Array) -> Indices:
        """How many of `starts` are below u, any shape with values in [0, 1].

        A bucket tells it except for the few starts that share it; where these are many, a search.
        """
        shape, u = u.shape, u.ravel()
        rank = self._before[self._bucket(u)]
        behind = np.flatnonzero(self.starts[rank] < u)
        for _ in range(_FEW_STARTS):
            if len(behind) == 0:
                return np.asarray(rank.reshape(shape))
            rank[behind] += 1
            behind = behind[self.starts[rank[behind]] < u[behind]]
        rank[behind] = np.searchsorted(self.starts, u[behind])
        return np.asarray(rank.reshape(shape))

    @cached_property
    def _before(self) -> Indices:
        """Return how many starts lie in the buckets before each bucket of [0, 1]."""
        filled = np.bincount(self._bucket(self.starts), minlength=len(self.starts) + 1)
        return np.asarray(np.cumsum(filled) - filled)

    def _bucket(self, u: Array) -> Indices:
        """Return the bucket of u, which never falls as u grows, rounding included."""
        return np.asarray((u * len(self.starts)).astype(np.intp))


class Curve:
    """Angle x(σ) and mass m(σ) as polynomials of σ in [-1, 1] on each of P pieces.

    The quantile function is x(m^{-1}(u)). No mass lies between pieces.

    Parameters
    ----------
    angles, masses : ndarray, shape (P, 16)
        Angles at Gauss nodes of each piece, and the masses of the nodes.
    turn : float
        2π on the circle, 0 on a line.
    least : float
        Pieces with no more than this mass are dropped; the sum of the others is made 1.

    Attributes
    ----------
    starts : ndarray, shape (P + 1,)
        The mass before each piece, and 1.
    ends : ndarray, shape (2, P)
        x(-1) and x(1).
    """

    is_smooth: Literal[True] = True

    def __init__(self, angles: Array, masses: Array, turn: float, least: float = 0.0) -> None:
        has_mass = masses.sum(axis=1) > least
        angles, masses = angles[has_mass], masses[has_mass] / masses[has_mass].sum()
        self.turn = turn
        self.starts = np.concatenate([[0.0], np.cumsum(masses.sum(axis=1))])
        self.starts /= self.starts[-1]
        self._angles = _contiguous(_TO_CHEBYSHEV @ angles.T)
        self._slopes = _contiguous(chebyshev.chebder(self._angles))
        self._density = _contiguous(_TO_CHEBYSHEV @ (masses / GAUSS_WEIGHTS).T)
        self._masses = _contiguous(chebyshev.chebint(self._density, lbnd=-1.0))
        self._masses_at_table = chebyshev.chebvander(_TABLE_AT, NODES) @ self._masses
        self._table = (self.starts[:-1] + self._masses_at_table[:-1]).T.ravel()
        signs = (-1.0) ** np.arange(NODES)
        self.ends = np.stack([signs @ self._angles, self._angles.sum(axis=0)])

    def same_as(self, other: Quantiles) -> bool:
        """Whether the other has the same pieces, bit by bit."""
        return (
            other.is_smooth
            and np.array_equal(self._angles, other._angles)
            and np.array_equal(self._masses, other._masses)
        )

    def angle(self, piece: Indices, sigma: Array) -> Array:
        """x(σ)."""
        return _series(self._angles, piece, sigma)

    def slope(self, piece: Indices, sigma: Array) -> Array:
        """dx/dσ."""
        return _series(self._slopes, piece, sigma)

    def density(self, piece: Indices, sigma: Array) -> Array:
        """dm/dσ."""
        return _series(self._density, piece, sigma)

    def mass(self, piece: Indices, sigma: Array) -> Array:
        """The mass up to σ of the piece and in all pieces before it."""
        return np.asarray(self.starts[piece] + _series(self._masses, piece, sigma))

    def place(self, u: Array) -> tuple[Indices, Array]:
        """Piece and σ with mass(piece, σ) = u, for u (n,) in [0, 1].

        Where a truncated series makes the mass fall, one of the places that have it.
        """
        count = len(self.starts) - 1
        piece = np.clip(np.searchsorted(self.starts, u, side="right") - 1, 0, count - 1)
        target = u - self.starts[piece]
        # a table of every piece narrows the search where masses ascend
        step = np.searchsorted(self._table, u, side="right") - 1 - _TABLE * piece
        step = np.clip(step, 0, _TABLE - 1)
        low, high = _TABLE_AT[step], _TABLE_AT[step + 1]
        masses = self._masses_at_table
        astray = (masses[step, piece] > target) | (masses[step + 1, piece] < target)
        low[astray], high[astray] = -1.0, 1.0
        sigma = np.empty_like(u)
        for first in range(0, len(u), _CHUNK):
            part = slice(first, first + _CHUNK)

            def missed(i: Indices, x: Array, first: int = first) -> Array:
                return np.asarray(_series(self._masses, piece[first + i], x) - target[first + i])

            sigma[part] = bracketed_roots(missed, low[part], high[part])
        return piece, sigma

    def cumulative(self, angles: Array) -> Array:
        """F(x), the mass from the first piece on up to each angle (n,); F(x + 2π) = F(x) + 1."""
        (lowest, highest), turns = self.ends, np.zeros_like(angles)
        if self.turn:
            turns = np.floor((angles - lowest[0]) / self.turn)
            angles = angles - self.turn * turns
        piece = np.clip(np.searchsorted(lowest, angles, side="right") - 1, 0, len(lowest) - 1)
        inside = np.clip(angles, lowest[piece], highest[piece])

        def missed(i: Indices, x: Array) -> Array:
            return self.angle(piece[i], x) - inside[i]

        sigma = bracketed_roots(missed, np.full(len(angles), -1.0), np.ones(len(angles)))
        return np.asarray(turns + np.clip(self.mass(piece, sigma), 0.0, 1.0))

    def quantile(self, u: Array) -> Array:
        """Q(u), any shape; on the circle for any u."""
        turns = np.floor(u) if self.turn else np.zeros_like(u)
        piece, sigma = self.place(np.clip(u - turns, 0.0, 1.0).ravel())
        return np.asarray(self.angle(piece, sigma).reshape(u.shape) + self.turn * turns)


Quantiles = Atoms | Curve


def _contiguous(coefficients: Coefficients) -> Array:
    return np.ascontiguousarray(coefficients, dtype=np.float64)


def _series(coefficients: Array, piece: Indices, sigma: Array) -> Array:
    """Return the Chebyshev series of pieces at σ by Clenshaw's rule."""
    double = 2.0 * sigma
    ahead, following = np.zeros_like(sigma), np.zeros_like(sigma)
    for row in coefficients[:0:-1]:
        ahead, following = row[piece] + double * ahead - following, ahead
    return np.asarray(coefficients[0][piece] + sigma * ahead - following)


# on a piece the harmonic of the largest degree turns by at most so many radians: error (0.6)^16/16!
_PHASE = 2.4
_FEWEST_PIECES = 64
# a piece with less than this share of the largest mass holds only rounding of the series
_ROUNDING = 16.0 * EPS
_MASS_TOLERANCE = 1e-6
_CHUNK_OF_VALUES = 1 << 22
# a matrix from values at the nodes of a panel to slopes at 33 points, its ends among them
_TO_SLOPES = legendre.legval(
    -np.cos(np.pi / 32 * np.arange(33)), legendre.legder(to_legendre(GAUSS))
)
_SWING = 1e-8


def quantiles(measure: AnyMeasure, axis: Array | None) -> Quantiles:
    """Angles of a measure on the circle, or polar angles of one that is symmetric about an axis."""
    turn = TURN if axis is None else 0.0
    if isinstance(measure, Density):
        return _of_density(measure, axis)
    if isinstance(measure, LineFlowMap):
        along = axis is None or measure.is_along(axis)
        return _of_flow(measure, measure.angles if along else np.pi - measure.angles, turn)
    points, masses = measure.quadrature
    angles = circle_angles(points) if axis is None else polar_angles(points, axis)
    return Atoms(angles, masses, turn)


def _of_flow(flow: LineFlowMap, angles: Array, turn: float) -> Quantiles:
    """Return the quantiles of a flow map: on panels of labels masses and angles are polynomials."""
    if turn:
        angles = angles - turn * np.floor(angles.min() / turn)
    if not flow.has_density:
        return Atoms(angles % TURN if turn else angles, flow.weights, turn)
    angles, masses = angles.reshape(-1, NODES), flow.weights.reshape(-1, NODES)
    if angles[0, 0] > angles[-1, -1]:
        angles, masses = angles[::-1, ::-1], masses[::-1, ::-1]
    # atoms on both sides tear a panel, whose polynomial then oscillates; its mass is below tol
    torn = (angles @ _TO_SLOPES < -_SWING).any(axis=1) & (masses.sum(axis=1) <= flow.tol)
    return Curve(angles[~torn], masses[~torn], turn)


def _of_density(density: Density, axis: Array | None) -> Curve:
    """Return pieces of equal length that resolve the degrees of f and of the area of latitudes."""
    dim, kmax, space = density.dim, density.degree, density.space
    length = TURN if axis is None else np.pi
    count = max(_FEWEST_PIECES, int(np.ceil(length * (kmax + dim - 2) / _PHASE)))
    if isinstance(space, Circle):
        return _of_fourier_series(density, next_fast_len(count, real=True))
    half = 0.5 * length / count
    angles = ((2.0 * np.arange(count) + 1.0)[:, None] + GAUSS) * half
    flat, values = angles.ravel(), np.empty(angles.size)
    step = max(NODES, _CHUNK_OF_VALUES // (dim + kmax))
    for start in range(0, len(flat), step):
        part = slice(start, start + step)
        values[part] = space.evaluate(density.coefficients, line_points(flat[part], axis))
    shares = (values * latitude_density(flat, dim)).reshape(angles.shape) * (2.0 * half)
    return _of_values(density, angles, shares, TURN if axis is None else 0.0)


def _of_fourier_series(density: Density, count: int) -> Curve:
    degrees, middle = np.arange(density.degree + 1), (np.arange(count) + 0.5) * (TURN / count)
    offsets = np.pi / count * GAUSS
    shifted = density.coefficients * np.exp(1j * degrees * (np.pi / count + offsets)[:, None])
    values = count * irfft(shifted, count, axis=1).T
    return _of_values(density, middle[:, None] + offsets, values / count, TURN)


def _of_values(density: Density, angles: Array, shares: Array, turn: float) -> Curve:
    """Return the curve of a density from shares (P, 16).

    A share is the mass of a piece if all of it were as at a node.
    """
    masses = 0.5 * GAUSS_WEIGHTS * shares
    pieces = masses.sum(axis=1)
    check_mass(density, float(pieces.sum()))
    return Curve(angles, masses, turn, _ROUNDING * float(pieces.max()))


def check_mass(measure: Density, mass: float) -> None:
    """A density that has a distance has the mass 1.

    Raises
    ------
    ValueError
        If it has not, within 1e-6.
    """
    if not abs(mass - 1.0) < _MASS_TOLERANCE:
        raise ValueError(
            f"a density must have mass 1 within {_MASS_TOLERANCE:g} to have a distance, got "
            f"{shown(measure)} of mass {mass:.9g}"
        )
