"""When patches are stretched too far, and what gathers so closely that particles stand for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.patches import PER_LEAF, Mesh, quadrature_error
from meanfield.sphere_flow.compression import compressed
from meanfield.sphere_flow.history import Absorption

Array = NDArray[np.float64]

_MOST = 64
_LEAST_MASS = 1e-3
_LARGEST_HALO = 0.3


def stretch_error(nodes: Array, masses: Array, scale: float) -> float:
    """Estimated quadrature error of the moments of nodes that have moved, in units of mass.

    Parameters
    ----------
    nodes : ndarray, shape (100 n, 3)
        Leaf by leaf.
    masses : ndarray, shape (100 n,)
    scale : float
        β, or 1 where that is larger: what a displacement counts for in the kernel.
    """
    places = nodes.reshape(-1, PER_LEAF, 3)
    places = (places - places.mean(axis=1, keepdims=True)).transpose(2, 0, 1)
    error = quadrature_error(places).max(axis=0)
    return scale * float(error @ masses.reshape(-1, PER_LEAF).sum(axis=1))


def absorbed_particles(
    mesh: Mesh, absorption: Absorption, atoms: tuple[Array, Array], scale: float, tol: float
) -> tuple[Array, Array]:
    """Particles (m, 3) and masses (m,) after an absorption: the old ones and what was taken.

    Parameters
    ----------
    mesh : Mesh
        Its channel 1 + j is the density taken over at centre j.
    absorption : Absorption
    atoms : (ndarray, ndarray)
        The old particles and masses.
    scale, tol : float
        As in `compressed`.
    """
    points, masses = atoms
    if not len(absorption.centres):
        return points, masses
    apart = np.linalg.norm(points[:, None] - absorption.centres, axis=2)
    nearest = np.argmin(apart, axis=1)
    close = apart.min(axis=1) < 2.0 * absorption.radius
    found = [(points[~close], masses[~close])]
    for j in range(len(absorption.centres)):
        taken = mesh.weights * mesh.values[1 + j]
        near = (taken > 0.0) & (
            np.linalg.norm(mesh.points - absorption.centres[j], axis=1) < 2.0 * absorption.radius
        )
        own = close & (nearest == j)
        found.append(
            compressed(
                np.concatenate([mesh.points[near], points[own]]),
                np.concatenate([taken[near], masses[own]]),
                scale,
                tol,
            )
        )
    return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])


def gathered(points: Array, masses: Array, densities: Array, atoms: Array, radius: float) -> Array:
    """Centres, shape (k, 3), of the places where most of the mass within 2r lies within r/2.

    Which places are chosen decides only what a run costs: taking part of the mass over to
    particles is exact wherever it is done.

    Parameters
    ----------
    points : ndarray, shape (n, 3)
    masses : ndarray, shape (n,)
    densities : ndarray, shape (n,)
        With respect to σ; the search starts from the densest points.
    atoms : ndarray, shape (m, 3)
        Particles that are there already: each is within 1.5 r of a centre.
    radius : float
        r.

    Examples
    --------
    >>> north = np.array([[0.0, 0.0, 1.0]])
    >>> gathered(north, np.ones(1), np.ones(1), np.zeros((0, 3)), 0.1)
    array([[0., 0., 1.]])
    """
    centres: list[Array] = []
    left = np.ones(len(atoms), dtype=bool)
    while left.any():
        centre = _settled(atoms, np.where(left, 1.0, 0.0), atoms[int(np.argmax(left))], radius)
        near = np.linalg.norm(atoms - centre, axis=1) < 1.5 * radius
        near[int(np.argmax(left))] = True
        left &= ~near
        centres.append(centre)
    free = masses > 0.0
    for centre in centres:
        free &= np.linalg.norm(points - centre, axis=1) > 2.0 * radius
    total = float(masses.sum())
    for _ in range(_MOST):
        if not free.any() or float(masses[free].sum()) < _LEAST_MASS * total:
            break
        rows = np.flatnonzero(free)
        start = points[rows[int(np.argmax(densities[rows]))]]
        centre = _settled(points, np.where(free, masses, 0.0), start, radius)
        apart = np.linalg.norm(points - centre, axis=1)
        apart_from_start = np.linalg.norm(points - start, axis=1)
        core = float(masses[apart < 0.5 * radius].sum())
        around = float(masses[apart < 2.0 * radius].sum())
        if core > _LEAST_MASS * total and around - core < _LARGEST_HALO * core:
            centres.append(centre)
        free &= (apart > 2.0 * radius) & (apart_from_start > 2.0 * radius)
    return np.array(centres).reshape(-1, 3)


def _settled(points: Array, masses: Array, centre: Array, radius: float) -> Array:
    """The mean of the mass within r of itself, from a first guess."""
    for _ in range(20):
        near = np.linalg.norm(points - centre, axis=1) < radius
        mean = masses[near] @ points[near]
        size = float(np.linalg.norm(mean))
        if size == 0.0:
            break
        moved = mean / size
        if np.linalg.norm(moved - centre) < 1e-3 * radius:
            return np.asarray(moved)
        centre = moved
    return centre
