"""Sharp configurations, which minimise e^{β<x,y>} for every β > 0 (Theorem 9.2, Cohn and Kumar)."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def polygon(n: int) -> Array:
    """n equally spaced points of the circle, (n, 2)."""
    angles = 2.0 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angles), np.sin(angles)])


def simplex(dim: int) -> Array:
    """d + 1 points with inner products -1/d, (d + 1, d)."""
    centred = np.eye(dim + 1) - 1.0 / (dim + 1)
    # coordinates in the hyperplane of vectors of sum 0
    basis = np.linalg.svd(centred)[2][:dim]
    points = centred @ basis.T
    return np.asarray(points / np.linalg.norm(points, axis=1)[:, None])


def icosahedron() -> Array:
    """12 points with inner products ±1/sqrt(5) and -1, (12, 3)."""
    golden = 0.5 * (1.0 + np.sqrt(5.0))
    corners = [(0.0, a, b * golden) for a, b in product((-1.0, 1.0), repeat=2)]
    points = np.array([np.roll(corner, turn) for corner in corners for turn in range(3)])
    return np.asarray(points / np.linalg.norm(points[0]))


def e8() -> Array:
    """The 240 roots of E8 at length 1, (240, 8)."""
    roots = []
    for i, j in combinations(range(8), 2):
        for a, b in product((-1.0, 1.0), repeat=2):
            root = np.zeros(8)
            root[[i, j]] = a, b
            roots.append(root)
    halves = [np.array(signs) for signs in product((-0.5, 0.5), repeat=8)]
    roots += [half for half in halves if round(half.sum()) % 2 == 0]
    return np.asarray(np.array(roots) / np.sqrt(2.0))


def inner_products(points: Array) -> Array:
    """<x_i, x_j> of all pairs i < j, ascending: what tells a configuration up to rotation."""
    first, second = np.triu_indices(len(points), 1)
    return np.sort(np.einsum("ij,ij->i", points[first], points[second]))
