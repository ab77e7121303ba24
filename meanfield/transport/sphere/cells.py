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
        Mean square of the distance to the centre, and what the centre may be off: 2π times the
        length of the mean of log_centre, which is 0 at the Riemannian centre itself.
    """

    centres: Array
    masses: Array
    spreads: Array


def cells_of(points: Array, masses: Array, most: int, blurs: Array | None = None) -> Cells:
    """At most so many cells, each the half of another across its widest direction.

    Where the points stand for parts of a measure, `blurs` (n,) are added to their squares.

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
    return _cells(points, masses, blurs, [inside for _, _, inside, _ in heap])


_Part = tuple[float, int, Indices, Array]


def _part(number: int, points: Array, masses: Array, inside: Indices) -> _Part:
    """Rank (the largest mass times spread first), number, members and offsets from the mean."""
    own, mass = points[inside], masses[inside]
    offsets = own - (mass @ own) / mass.sum()
    squares = np.einsum("ij,ij->i", offsets, offsets)
    # a cell of points that differ by rounding is not halved
    rank = -float(mass @ squares) if squares.max() > _ROUNDING else 0.0
    return rank, number, inside, offsets


def _cells(points: Array, masses: Array, blurs: Array | None, parts: list[Indices]) -> Cells:
    """The cells with these members: each its Riemannian centre of mass, mass and spread."""
    sizes = np.array([len(inside) for inside in parts])
    starts, cell = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(parts)), sizes)
    members = np.concatenate(parts)
    points, masses = points[members], masses[members]
    total = np.add.reduceat(masses, starts)
    share = (masses / total[cell])[:, None]
    centres = np.add.reduceat(share * points, starts, axis=0)
    lengths = np.linalg.norm(centres, axis=1)[:, None]
    centres = np.where(
        lengths > 0.0, centres / np.where(lengths > 0.0, lengths, 1.0), points[starts]
    )
    for _ in range(_STEPS_TO_THE_CENTRE):
        towards = np.add.reduceat(share * logarithm(centres[cell], points), starts, axis=0)
        centres = exponential(centres, towards)
        centres /= np.linalg.norm(centres, axis=1)[:, None]
    squares = geodesic_distance(points, centres[cell]) ** 2
    if blurs is not None:
        squares += blurs[members]
    spreads = np.add.reduceat(share[:, 0] * squares, starts)
    off = np.add.reduceat(share * logarithm(centres[cell], points), starts, axis=0)
    alone = sizes == 1
    spreads += np.where(alone, 0.0, 2.0 * np.pi * np.linalg.norm(off, axis=1))
    return Cells(centres, total, spreads)
