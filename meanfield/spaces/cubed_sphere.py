"""Quadtrees of patches on the cubed sphere: meshes that integrate, and maps that interpolate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from meanfield.spaces.panels import missed
from meanfield.typing import Array, Indices, Integers, NDArray, Steepness

ORDER = 10
PER_LEAF = ORDER * ORDER

_DEEPEST = 40
_TAIL_FROM = ORDER - 2
_SEEDS_TO_COUNT = 16
# so many points are computed at a time; the second number is that of whole leaves
_BLOCK = 4096
_LEAVES_BLOCK = 40 * PER_LEAF
_SAFETY = 10.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(ORDER)
# the weights with which values at the nodes of a leaf make their mean over the leaf
LEAF_SHARES = 0.25 * np.outer(_WEIGHTS, _WEIGHTS).ravel()
# a matrix from values at the nodes to Legendre coefficients, a row for each degree
_TO_LEGENDRE = np.polynomial.legendre.legvander(_NODES, ORDER - 1).T * _WEIGHTS
_TO_LEGENDRE *= np.arange(ORDER)[:, None] + 0.5
# a drift on a leaf may miss this share of the tolerance of its density
DRIFT_SHARE = 2e-3
# each node has a cell about it, as wide as its weight, with a few Gauss points each way
_IN_CELL = 3
_CELL_NODES, _CELL_WEIGHTS = np.polynomial.legendre.leggauss(_IN_CELL)
_CELL_EDGES = np.append(-1.0, np.cumsum(_WEIGHTS) - 1.0)
_CELL_MIDDLES = 0.5 * (_CELL_EDGES[:-1] + _CELL_EDGES[1:])
_CELL_POINTS = (_CELL_MIDDLES[:, None] + 0.5 * _WEIGHTS[:, None] * _CELL_NODES).ravel()
_TO_CELLS = np.polynomial.legendre.legvander(_CELL_POINTS, ORDER - 1) @ _TO_LEGENDRE
# for each face its directions a, b and its outward normal
_FACES = np.array(
    [
        [[0, 1, 0], [0, 0, 1], [1, 0, 0]],
        [[-1, 0, 0], [0, 0, 1], [0, 1, 0]],
        [[0, -1, 0], [0, 0, 1], [-1, 0, 0]],
        [[1, 0, 0], [0, 0, 1], [0, -1, 0]],
        [[0, 1, 0], [-1, 0, 0], [0, 0, 1]],
        [[0, 1, 0], [1, 0, 0], [0, 0, -1]],
    ],
    dtype=np.float64,
)


@dataclass(frozen=True)
class Leaves:
    """Squares of one level: face 0 … 5, and the place (i, j) among 2^level each way.

    The face is the square |a|, |b| <= π/4 of the equiangular cubed sphere: the point
    normal + tan(a) e_a + tan(b) e_b, normalised.

    Attributes
    ----------
    level : int
    face, i, j : ndarray of int, shape (n,)
    """

    level: int
    face: Integers
    i: Integers
    j: Integers

    @classmethod
    def uniform(cls, level: int) -> Leaves:
        """All 6 · 4^level squares of one level."""
        side = np.arange(2**level)
        face, i, j = np.meshgrid(np.arange(6), side, side, indexing="ij")
        return cls(level, face.ravel(), i.ravel(), j.ravel())

    def __len__(self) -> int:
        return len(self.face)

    def take(self, kept: NDArray[np.bool_] | Integers) -> Leaves:
        """Some of the leaves."""
        return Leaves(self.level, self.face[kept], self.i[kept], self.j[kept])

    def children(self) -> Leaves:
        """The four quarters of each leaf."""
        return Leaves(
            self.level + 1,
            np.repeat(self.face, 4),
            np.repeat(2 * self.i, 4) + np.tile([0, 0, 1, 1], len(self)),
            np.repeat(2 * self.j, 4) + np.tile([0, 1, 0, 1], len(self)),
        )

    @property
    def width(self) -> float:
        """The side of each square in the angles a, b."""
        return float(np.ldexp(0.5 * np.pi, -self.level))

    def nodes(self) -> tuple[Array, Array]:
        """Nodes, shape (100 n, 3), and the weights of σ there, shape (100 n,), leaf by leaf."""
        half = 0.5 * self.width
        x = np.tan(half * (2 * self.i[:, None] + 1 + _NODES) - 0.25 * np.pi)
        y = np.tan(half * (2 * self.j[:, None] + 1 + _NODES) - 0.25 * np.pi)
        x = np.repeat(x, ORDER, axis=1).ravel()
        y = np.tile(y, (1, ORDER)).ravel()
        squared = 1.0 + x * x + y * y
        local = np.column_stack([x, y, np.ones_like(x)]) / np.sqrt(squared)[:, None]
        points = np.einsum("lnk,lkc->lnc", local.reshape(len(self), -1, 3), _FACES[self.face])
        element = (1.0 + x * x) * (1.0 + y * y) / (squared * np.sqrt(squared))
        shares = np.tile(half**2 * np.outer(_WEIGHTS, _WEIGHTS).ravel(), len(self))
        return points.reshape(-1, 3), element * shares / (4.0 * np.pi)

    def holding(self, points: Array, masses: Array) -> tuple[Array, Integers]:
        """Mass (n,) and number (n,) of the points (m, 3) of masses (m,) inside each leaf."""
        target, inside, _ = self.find(*angles_on_faces(points))
        mass = np.bincount(target, weights=masses[inside], minlength=len(self))
        return np.asarray(mass, dtype=np.float64), np.bincount(target, minlength=len(self))

    def find(self, face: Indices, angles: Array) -> tuple[Indices, Indices, Array]:
        """The leaves that hold some of the places, which places these are, and where in the leaf.

        Parameters
        ----------
        face : ndarray of int, shape (m,)
        angles : ndarray, shape (2, m)
            See `angles_on_faces`.

        Returns
        -------
        leaf, place : ndarray of int, shape (k,)
        local : ndarray, shape (2, k)
            In [-1, 1].
        """
        keys = _key(self.face, self.level, self.i, self.j)
        order = np.argsort(keys)
        side = 2**self.level
        scaled = (angles / (0.5 * np.pi) + 0.5) * side
        square = np.clip(np.floor(scaled), 0, side - 1)
        wanted = _key(face, self.level, *square.astype(np.int64))
        places = np.minimum(np.searchsorted(keys[order], wanted), len(self) - 1)
        place = np.flatnonzero(keys[order][places] == wanted)
        local = np.asarray(2.0 * (scaled - square)[:, place] - 1.0)
        return order[places[place]], place, local


def angles_on_faces(points: Array) -> tuple[Indices, Array]:
    """The face of each point (m, 3), and its angles a and b there, shape (2, m)."""
    heights = np.einsum("mc,fc->mf", points, _FACES[:, 2])
    face = np.argmax(heights, axis=1)
    frame = _FACES[face]
    height = heights[np.arange(len(points)), face]
    across = (np.einsum("mc,mc->m", points, frame[:, axis]) for axis in (0, 1))
    return face, np.stack([np.arctan2(part, height) for part in across])


def _key(face: Integers, level: int, i: Integers, j: Integers) -> Integers:
    return (face << 58) | (i << 29) | j if level <= 28 else face * 7 + i * 1000003 + j


@dataclass(frozen=True)
class Mesh:
    """Nodes of leaves, with densities there.

    `points` (n, 3), their `weights` of σ (n,), the densities `values` (channels, n) and the sum
    `error` of the estimated errors of the leaves.
    """

    points: Array
    weights: Array
    values: Array
    error: float

    @property
    def mass(self) -> float:
        """∫ of the sum of all channels."""
        return float(self.weights @ self.values.sum(axis=0))


def without_light_leaves(mesh: Mesh, mass: float) -> Mesh:
    """The mesh without its lightest leaves, which have at most this mass in the first channel."""
    masses = (mesh.weights * mesh.values[0]).reshape(-1, PER_LEAF).sum(axis=1)
    order = np.argsort(masses, kind="stable")
    stays = np.ones(len(masses), dtype=bool)
    stays[order[np.cumsum(masses[order]) <= mass]] = False
    is_kept = np.repeat(stays, PER_LEAF)
    return Mesh(mesh.points[is_kept], mesh.weights[is_kept], mesh.values[:, is_kept], mesh.error)


def parts(points: Array, masses: Array, count: int) -> tuple[Array, Array]:
    """Nodes and masses of count × count equal parts of each leaf, interpolated from its own.

    Parameters
    ----------
    points : ndarray, shape (n, 100, c)
    masses : ndarray, shape (n, 100)
        Densities times the weights of nodes; Σ masses of each leaf stays.

    Returns
    -------
    points : ndarray, shape (n, 100 count², c)
    masses : ndarray, shape (n, 100 count²)
    """
    middles = (2.0 * np.arange(count) + 1.0) / count - 1.0
    places = (middles[:, None] + _NODES / count).ravel()
    to_parts = np.polynomial.legendre.legvander(places, ORDER - 1) @ _TO_LEGENDRE
    # a mass is the density in the leaf times a weight of Gauss
    weights = np.tile(_WEIGHTS / count, count)
    to_masses = weights[:, None] * to_parts / _WEIGHTS
    leaves, width = len(points), points.shape[-1]
    grid, shares = points.reshape(-1, ORDER, ORDER, width), masses.reshape(-1, ORDER, ORDER)
    finer = np.einsum("ai,bj,nijc->nabc", to_parts, to_parts, grid, optimize=True)
    lighter = np.einsum("ai,bj,nij->nab", to_masses, to_masses, shares, optimize=True)
    return finer.reshape(leaves, -1, width), lighter.reshape(leaves, -1)


def quadrature_error(values: Array) -> Array:
    """Estimate of the mean of the values missed by Gauss quadrature, shape (...).

    Coefficients that fall like r^k from A to a tail T = A r^8 leave the quadrature, exact to
    degree 19, an error of about A r^20 = A (T/A)^2.5. A factor 10 allows for uneven falls. The
    tail is the largest coefficient of degree 8 or 9 in either direction.

    Parameters
    ----------
    values : ndarray, shape (..., 100)
        Values on the nodes of leaves.
    """
    return _extrapolated(np.abs(_legendre(values)), 1.5)


def interpolation_error(values: Array) -> Array:
    """Estimate of what the polynomial through values misses between the nodes, shape (...).

    As in `quadrature_error`, but with the first term that is left out, A r^10 = T (T/A)^0.25. A
    constant makes no error.
    """
    size = np.abs(_legendre(values))
    size[..., 0, 0] = 0.0
    return _extrapolated(size, 0.25)


def tails(values: Array) -> Array:
    """The largest Legendre coefficient of degree 8 or 9 in either direction, shape (...)."""
    return _extrapolated(np.abs(_legendre(values)), 0.0)


def spreads(points: Array, p: float) -> Array:
    """Means of dist^p from the nodes of leaves (100 n, 3) to the cells about them, shape (100 n,).

    Cells are as wide as the weights of their nodes. Wherever the nodes have moved to, what lies
    between them is where the polynomials through them say.
    """
    widths = np.empty(len(points))
    for start in range(0, len(points), _LEAVES_BLOCK):
        nodes = points[start : start + _LEAVES_BLOCK].reshape(-1, ORDER, ORDER, 3)
        inside = np.einsum("ai,nijc,bj->nabc", _TO_CELLS, nodes, _TO_CELLS, optimize=True)
        inside /= np.linalg.norm(inside, axis=-1, keepdims=True)
        inside = inside.reshape(-1, ORDER, _IN_CELL, ORDER, _IN_CELL, 3)
        chords = np.linalg.norm(inside - nodes[:, :, None, :, None, :], axis=-1)
        costs = (2.0 * np.arcsin(np.minimum(0.5 * chords, 1.0))) ** p
        share = 0.5 * _CELL_WEIGHTS
        means = np.einsum("niajb,a,b->nij", costs, share, share)
        widths[start : start + _LEAVES_BLOCK] = means.ravel()
    return widths


def _legendre(values: Array) -> Array:
    """Return Legendre coefficients (..., 10, 10) of values (..., 100) on leaves."""
    grid = values.reshape(*values.shape[:-1], ORDER, ORDER)
    return np.asarray(_TO_LEGENDRE @ grid @ _TO_LEGENDRE.T)


def _extrapolated(size: Array, power: float) -> Array:
    """10 T (T/A)^power, at most T: the tail T and the largest A of coefficients (..., 10, 10)."""
    either = size[..., _TAIL_FROM:, :], size[..., :, _TAIL_FROM:]
    tail = np.maximum(*(part.max(axis=(-2, -1)) for part in either))
    largest = size.max(axis=(-2, -1))
    safe = np.where(largest > 0.0, largest, 1.0)
    return np.asarray(tail * np.minimum(1.0, _SAFETY * (tail / safe) ** power))


# from leaves, their nodes, weights and values it tells which leaves split, and their errors
Judge = Callable[[Leaves, Array, Array, Array], tuple[NDArray[np.bool_], Array]]


def refined(
    values: Callable[[Array], Array], judge: Judge, *, coarsest: int, limit: int, goal: str
) -> Iterator[tuple[Leaves, Array, Array, Array, Array]]:
    """Leaves that are to stay, level by level, with nodes, weights, values and errors.

    Raises
    ------
    ArithmeticError
        If there are more than `limit` nodes; the message ends with the goal.
    """
    current, count = Leaves.uniform(coarsest), 0
    while len(current):
        count += len(current) * PER_LEAF
        if count > limit:
            raise ArithmeticError(f"limit = {limit} nodes do not resolve {goal}")
        points, weights = current.nodes()
        samples = np.atleast_2d(values(points))
        split, error = judge(current, points, weights, samples)
        split = np.asarray(split & (current.level < _DEEPEST))
        whole = np.repeat(~split, PER_LEAF)
        count -= int(split.sum()) * PER_LEAF
        yield current.take(~split), points[whole], weights[whole], samples[:, whole], error[~split]
        current = current.take(split).children()


class Patches:
    """Functions on the sphere as polynomials of degree 9 in both angles of each leaf.

    Parameters
    ----------
    squares : ndarray of int, shape (n, 4)
        Level, face and place (i, j) of the leaves, which cover the sphere.
    values : ndarray, shape (n, channels, 100)
        At their nodes.
    """

    def __init__(self, squares: Integers, values: Array) -> None:
        self.squares, self.values = squares, values
        self._coefficients = _legendre(values)

    @classmethod
    def of(cls, levels: list[tuple[Leaves, Array]]) -> Patches:
        """The patches of leaves with values (channels, 100 n)."""
        squares = [
            np.stack([np.full(len(leaves), leaves.level), leaves.face, leaves.i, leaves.j], axis=1)
            for leaves, _ in levels
        ]
        values = [v.reshape(len(v), -1, PER_LEAF).transpose(1, 0, 2) for _, v in levels]
        return cls(np.concatenate(squares), np.concatenate(values))

    def at(self, points: Array) -> Array:
        """The functions at unit rows (m, 3), shape (channels, m)."""
        interpolated = np.empty((self.values.shape[1], len(points)))
        face, angles = angles_on_faces(points)
        for level in np.unique(self.squares[:, 0]):
            rows = np.flatnonzero(self.squares[:, 0] == level)
            leaves = Leaves(int(level), *self.squares[rows, 1:].T)
            leaf, place, local = leaves.find(face, angles)
            for start in range(0, len(place), _BLOCK):
                part = slice(start, start + _BLOCK)
                a, b = np.polynomial.legendre.legvander(local[:, part], ORDER - 1)
                leaf_rows = self._coefficients[rows[leaf[part]]] @ b[:, None, :, None]
                interpolated[:, place[part]] = (a[:, None, None] @ leaf_rows)[..., 0, 0].T
        return interpolated


def lay(
    pdf: Callable[[Array], Array],
    tol: float | Array,
    *,
    mass: float = 1.0,
    within: float | None = None,
    seeds: tuple[Array, Array] | None = None,
    coarsest: int = 1,
    limit: int = 1_000_000,
    steepness: Steepness | None = None,
) -> Mesh:
    """Refine patches until each integrates pdf · area element within tol, see `quadrature_error`.

    A leaf also splits while it holds more than 15 seeds of twice the mass that it sees itself:
    a coarse leaf may miss a narrow peak between its nodes without any tail.

    Parameters
    ----------
    pdf : callable
        Points (n, 3) to one or several densities, shape (n,) or (channels, n).
    tol : float or ndarray, shape (channels,)
        Largest error of a leaf, in units of mass.
    mass, within : float
        What the mesh must find in all, and how closely: 4 tol if omitted.
    seeds : (ndarray, ndarray), optional
        Points (m, 3) and masses (m,) which show where the mass is.
    coarsest : int
        Level that refinement starts from.
    limit : int
        Most nodes.
    steepness : callable, optional
        That of a drift, of which a leaf may miss 2e-3 of `tol`.

    Returns
    -------
    Mesh

    Raises
    ------
    ArithmeticError
        If the limit is reached, or the mass found is not the one asked for.

    Examples
    --------
    >>> mesh = lay(lambda x: 1.0 + x[:, 2], 1e-10)
    >>> abs(mesh.mass - 1.0) < 1e-12
    True
    """
    tol = np.atleast_1d(tol)
    largest = float(tol.max())

    def judge(
        leaves: Leaves, points: Array, weights: Array, values: Array
    ) -> tuple[NDArray[np.bool_], Array]:
        errors, masses = _leaf_errors(leaves, weights, values), weights * values.sum(axis=0)
        split = np.asarray((errors > tol[:, None]).any(axis=0))
        if seeds is not None:
            split |= is_missed(leaves, masses, seeds, largest)
        if steepness is not None:
            split[drift_missed(steepness, DRIFT_SHARE * largest, points, masses)] = True
        return split, errors.max(axis=0)

    resolved = "the density" if steepness is None else "the density and the drift"
    remedy = f"{resolved} to tol = {tol.min():g}: take a larger limit or tol"
    levels = refined(pdf, judge, coarsest=coarsest, limit=limit, goal=remedy)
    _, nodes, shares, densities, errors = zip(*levels, strict=True)
    points, weights = np.concatenate(nodes), np.concatenate(shares)
    error = float(sum(part.sum() for part in errors))
    mesh = Mesh(points, weights, np.concatenate(densities, axis=1), error)
    within = 4.0 * largest if within is None else within
    if not abs(mesh.mass - mass) <= within:
        raise ArithmeticError(
            f"the mesh has mass {mesh.mass:.12g}, not {mass:.12g} within {within:g}: "
            f"the density is not what its mass says, or is missed between nodes"
        )
    return mesh


def _leaf_errors(leaves: Leaves, weights: Array, values: Array) -> Array:
    """Return the estimated quadrature error of each channel on each leaf, shape (channels, n)."""
    cells = leaves.width**2
    # weights over Gauss weights are the area element up to a factor for each leaf
    element = weights.reshape(-1, PER_LEAF) / LEAF_SHARES / cells
    integrand = values.reshape(len(values), -1, PER_LEAF) * element
    return np.asarray(quadrature_error(integrand) * cells)


def drift_missed(steepness: Steepness, allowed: float, nodes: Array, masses: Array) -> Indices:
    """Leaves whose nodes (100 n, 3) and masses (100 n,) miss more than is allowed of a drift."""
    widths = steepness(nodes.reshape(-1, PER_LEAF, 3))
    errors = missed(widths, ORDER) * masses.reshape(-1, PER_LEAF).sum(axis=1)
    return np.flatnonzero(errors > allowed)


def is_missed(
    leaves: Leaves, masses: Array, seeds: tuple[Array, Array], tol: float
) -> NDArray[np.bool_]:
    """Whether many seeds tell of twice the mass that the nodes of a leaf have, if above tol.

    A coarse leaf may miss a narrow peak between its nodes.
    """
    seen = masses.reshape(-1, PER_LEAF).sum(axis=1)
    mass, count = leaves.holding(*seeds)
    return np.asarray((count >= _SEEDS_TO_COUNT) & (mass > tol) & (np.abs(seen) < 0.5 * mass))
