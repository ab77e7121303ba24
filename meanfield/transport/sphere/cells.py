"""Masses gathered in cells, and what is known of a distance from cells alone."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from meanfield.geometry import exponential, geodesic_distance, logarithm

Array = NDArray[np.float64]

Indices = NDArray[np.intp]

_STEPS_TO_THE_CENTRE = 2
_ROUNDING = 1e-28


@dataclass(frozen=True)
class Cells:
    """Parts of a measure in any dimension, each with its Riemannian centre of mass.

    Attributes
    ----------
    centres : ndarray, shape (K, d)
    masses : ndarray, shape (K,)
    spreads : ndarray, shape (K,)
        Mean square of the distance to the centre.
    """

    centres: Array
    masses: Array
    spreads: Array


def cells_of(points: Array, masses: Array, most: int) -> Cells:
    """At most so many cells, each the half of another across its widest direction.

    The cell with the largest mass times spread is halved next, so that cells are small where mass
    is together.
    """
    number = count()
    heap = [_part(next(number), points, masses, np.flatnonzero(masses > 0.0))]
    while len(heap) < most and heap[0][0] < 0.0:
        _, _, inside, offsets = heapq.heappop(heap)
        widest = np.linalg.eigh((masses[inside, None] * offsets).T @ offsets)[1][:, -1]
        side = offsets @ widest > 0.0
        if side.all() or not side.any():
            # all but rounding of the mass is in one place
            heapq.heappush(heap, (0.0, next(number), inside, offsets))
            continue
        for part in inside[side], inside[~side]:
            heapq.heappush(heap, _part(next(number), points, masses, part))
    parts = [_centre(points[inside], masses[inside]) for _, _, inside, _ in heap]
    return Cells(
        np.stack([centre for centre, _ in parts]),
        np.array([masses[inside].sum() for _, _, inside, _ in heap]),
        np.array([spread for _, spread in parts]),
    )


_Part = tuple[float, int, Indices, Array]


def _part(number: int, points: Array, masses: Array, inside: Indices) -> _Part:
    """Rank (the largest mass times spread first), number, members and offsets from the mean."""
    own, mass = points[inside], masses[inside]
    offsets = own - (mass @ own) / mass.sum()
    squares = np.einsum("ij,ij->i", offsets, offsets)
    # a cell of points that differ by rounding is not halved
    rank = -float(mass @ squares) if squares.max() > _ROUNDING else 0.0
    return rank, number, inside, offsets


def _centre(points: Array, masses: Array) -> tuple[Array, float]:
    """The Riemannian centre of mass, and the mean square of the distance to it."""
    share = masses / masses.sum()
    centre = share @ points
    length = float(np.linalg.norm(centre))
    centre = centre / length if length > 0.0 else points[0]
    for _ in range(_STEPS_TO_THE_CENTRE):
        towards = share @ logarithm(centre[None], points)
        centre = exponential(centre[None], towards[None])[0]
        centre /= np.linalg.norm(centre)
    return centre, float(share @ geodesic_distance(points, centre) ** 2)
