"""Clusters of a flow map that have shrunk to a point become atoms.

Inside a cluster nodes contract at rates of order 1 (SA) or e^β (USA) for ever; nothing can be seen
of it once the cluster is a point to the eye of the kernel, yet it would set the time step. An atom
has the cluster's mass and mean angle, so the energy changes by no more than β · mass · radius².
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.measures import LineFlowMap
from meanfield.measures.flow.line import FREE

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_TURN = 2.0 * np.pi
# a cluster has at least as many nodes as a panel
_FEWEST = 16


def collapsed(flow: LineFlowMap, spread: Array, radius: float) -> LineFlowMap:
    """The flow map with what lies within `radius` of an atom held by it, and new atoms.

    Parameters
    ----------
    flow : LineFlowMap
    spread : ndarray, shape (n,)
        div X at the nodes: only where it is negative nodes are drawn together.
    radius : float
        In radians.

    Returns
    -------
    LineFlowMap
        The same object if nothing has collapsed.
    """
    owners, atoms = _merged(flow, radius)
    owners = _held(flow, owners, atoms, radius)
    owners, atoms = _with_new_atoms(flow, spread, owners, atoms, radius)
    if np.array_equal(owners, flow.owners):
        return flow
    held = owners != FREE
    masses = np.bincount(owners[held], flow.weights[held], minlength=len(atoms))
    offsets, turns = _offsets(flow, flow.angles[held], atoms[owners[held]])
    shifts = np.bincount(owners[held], flow.weights[held] * offsets, minlength=len(atoms))
    atoms = atoms + shifts / np.maximum(masses, np.finfo(np.float64).tiny)
    if flow.axis is not None:
        # the mean of a cap about the axis lies on the axis
        atoms = np.where(atoms < radius, 0.0, np.where(atoms > np.pi - radius, np.pi, atoms))
    angles = flow.angles.copy()
    angles[held] = atoms[owners[held]] + turns
    return flow.moved(angles=angles, owners=owners, atoms=atoms)


def _offsets(flow: LineFlowMap, angles: Array, places: Array) -> tuple[Array, Array]:
    """Angles relative to places, on the circle the short way round, and the whole turns left."""
    apart = angles - places
    turns = np.zeros_like(apart) if flow.axis is not None else _TURN * np.round(apart / _TURN)
    return apart - turns, turns


def _merged(flow: LineFlowMap, radius: float) -> tuple[Integers, Array]:
    """Owners and atoms, where atoms closer than the radius have become one."""
    owners, atoms = flow.owners, flow.atoms
    for first in range(len(atoms) - 1, 0, -1):
        offsets, _ = _offsets(flow, atoms[:first], np.full(first, atoms[first]))
        near = int(np.argmin(np.abs(offsets)))
        if abs(offsets[near]) < radius:
            owners = np.where(owners == first, near, owners)
            owners = np.where(owners > first, owners - 1, owners)
            atoms = np.delete(atoms, first)
    return owners, atoms


def _held(flow: LineFlowMap, owners: Integers, atoms: Array, radius: float) -> Integers:
    """Owners, where free nodes within the radius of an atom are held by it."""
    free = owners == FREE
    if not len(atoms) or not free.any():
        return owners
    owners = owners.copy()
    for index, place in enumerate(atoms):
        offsets, _ = _offsets(flow, flow.angles, np.full(len(flow.angles), place))
        owners[(owners == FREE) & (np.abs(offsets) < radius)] = index
    return owners


def _with_new_atoms(
    flow: LineFlowMap, spread: Array, owners: Integers, atoms: Array, radius: float
) -> tuple[Integers, Array]:
    """Owners and atoms with an atom for every run of free, contracting nodes within the radius."""
    free = np.flatnonzero((owners == FREE) & (spread < 0.0))
    if len(free) < _FEWEST:
        return owners, atoms
    place = flow.angles[free] if flow.axis is not None else np.mod(flow.angles[free], _TURN)
    order = np.argsort(place, kind="stable")
    free, place = free[order], place[order]
    starts = np.flatnonzero(np.diff(place, prepend=-np.inf) > radius)
    ends = np.append(starts[1:], len(place))
    # the run across the seam of the circle is cut there: its halves soon merge
    owners, found = owners.copy(), list(atoms)
    for start, end in zip(starts, ends, strict=True):
        if end - start < _FEWEST:
            continue
        members = free[start:end]
        mass = flow.weights[members]
        if mass.sum() <= 0.0:
            continue
        centre = float(np.average(place[start:end], weights=mass))
        inside = np.abs(place[start:end] - centre) < radius
        if inside.sum() >= _FEWEST and mass[inside].sum() > 0.5 * mass.sum():
            owners[members[inside]] = len(found)
            found.append(centre)
    return owners, np.array(found)
