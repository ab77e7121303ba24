"""Energies as double integrals, with no harmonics: what sums over degrees are held against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.harmonics import gauss_gegenbauer
from meanfield.studies.proposition.problem import Problem

Array = NDArray[np.float64]


def of_tokens(points: Array, masses: Array, problem: Problem) -> float:
    """The share of n tokens, a sum over all pairs; its error is rounding of 1."""
    cosines = np.clip(points @ points.T, -1.0, 1.0)
    return float(masses @ problem.excess(cosines) @ masses)


def of_profile(nodes: Array, masses: Array, problem: Problem, across: int) -> float:
    """The share of a measure that is symmetric about an axis, of masses at t = <x, axis>.

    The kernel is averaged over rotations about the axis: <x,y> = t s + (1-t²)^{1/2} (1-s²)^{1/2} u,
    u the first coordinate of a uniform point of S^{d-2}, by `across` nodes.
    """
    sines = np.sqrt((1.0 - nodes) * (1.0 + nodes))
    if problem.dim == 2:
        u, v = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    else:
        u, v = gauss_gegenbauer(problem.dim - 1, across)
    total = 0.0
    along, aside = np.outer(nodes, nodes), np.outer(sines, sines)
    for cosine, weight in zip(u, v, strict=True):
        values = problem.excess(np.clip(along + aside * cosine, -1.0, 1.0))
        total += weight * float(masses @ values @ masses)
    return total
