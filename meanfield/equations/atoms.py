"""Clusters of a flow map that have shrunk to a point become atoms."""

from __future__ import annotations

import numpy as np

from meanfield.equations.history import Absorption
from meanfield.measures.line_flow_map import FREE, LineFlowMap
from meanfield.spaces.cubed_sphere import PER_LEAF, Mesh, quadrature_error
from meanfield.spaces.geometry import perpendicular
from meanfield.typing import Array, Indices, Integers

_TURN = 2.0 * np.pi
# a cluster has at least as many nodes as a panel
_FEWEST = 16


def collapsed(flow: LineFlowMap, divergence: Array, radius: float) -> LineFlowMap:
    """The flow map with what lies within `radius` of an atom held by it, and new atoms.

    Parameters
    ----------
    flow : LineFlowMap
    divergence : ndarray, shape (n,)
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
    owners, atoms = _with_new_atoms(flow, divergence, owners, atoms, radius)
    if np.array_equal(owners, flow.owners):
        return flow
    is_owned = owners != FREE
    masses = np.bincount(owners[is_owned], flow.weights[is_owned], minlength=len(atoms))
    offsets, turns = _offsets(flow, flow.angles[is_owned], atoms[owners[is_owned]])
    shifts = np.bincount(owners[is_owned], flow.weights[is_owned] * offsets, minlength=len(atoms))
    atoms = atoms + shifts / np.maximum(masses, np.finfo(np.float64).tiny)
    if flow.axis is not None:
        # the mean of a cap about the axis lies on the axis
        atoms = np.where(atoms < radius, 0.0, np.where(atoms > np.pi - radius, np.pi, atoms))
    angles = flow.angles.copy()
    angles[is_owned] = atoms[owners[is_owned]] + turns
    return flow.moved_to(angles=angles, owners=owners, atoms=atoms)


def _offsets(flow: LineFlowMap, angles: Array, places: Array) -> tuple[Array, Array]:
    """Angles relative to places, on the circle the short way round, and the whole turns between."""
    gaps = angles - places
    turns = np.zeros_like(gaps) if flow.axis is not None else _TURN * np.round(gaps / _TURN)
    return gaps - turns, turns


def _merged(flow: LineFlowMap, radius: float) -> tuple[Integers, Array]:
    """Return owners and atoms after atoms closer than the radius have merged."""
    owners, atoms = flow.owners, flow.atom_angles
    for atom in range(len(atoms) - 1, 0, -1):
        offsets, _ = _offsets(flow, atoms[:atom], np.full(atom, atoms[atom]))
        nearest = int(np.argmin(np.abs(offsets)))
        if abs(offsets[nearest]) < radius:
            owners = np.where(owners == atom, nearest, owners)
            owners = np.where(owners > atom, owners - 1, owners)
            atoms = np.delete(atoms, atom)
    return owners, atoms


def _held(flow: LineFlowMap, owners: Integers, atoms: Array, radius: float) -> Integers:
    """Return owners after atoms have taken the free nodes within the radius."""
    free = owners == FREE
    if not len(atoms) or not free.any():
        return owners
    owners = owners.copy()
    for index, place in enumerate(atoms):
        offsets, _ = _offsets(flow, flow.angles, np.full(len(flow.angles), place))
        owners[(owners == FREE) & (np.abs(offsets) < radius)] = index
    return owners


def _with_new_atoms(
    flow: LineFlowMap, divergence: Array, owners: Integers, atoms: Array, radius: float
) -> tuple[Integers, Array]:
    """Return owners and atoms with an atom for every run of contracting free nodes.

    It takes those within the radius.
    """
    free = np.flatnonzero((owners == FREE) & (divergence < 0.0))
    if len(free) < _FEWEST:
        return owners, atoms
    place = flow.angles[free] if flow.axis is not None else np.mod(flow.angles[free], _TURN)
    order = np.argsort(place, kind="stable")
    free, place = free[order], place[order]
    starts = np.flatnonzero(np.diff(place, prepend=-np.inf) > radius)
    ends = np.append(starts[1:], len(place))
    # a run across the seam of the circle is cut there, and its halves soon merge
    owners, all_atoms = owners.copy(), list(atoms)
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
            owners[members[inside]] = len(all_atoms)
            all_atoms.append(centre)
    return owners, np.array(all_atoms)


_HIGHEST_DEGREE = 16


def compressed(points: Array, masses: Array, reach: float, tol: float) -> tuple[Array, Array]:
    """Some of the points, with masses >= 0 of the same moments up to the degree that tol requires.

    A kernel e^{<z,y>}, |z| <= β, over a patch of radius ρ has a Taylor remainder of
    (βρ)^{p+1}/(p+1)!, so moments up to degree p suffice where that is below tol (Tchakaloff). A
    patch so small that p = 1 will do becomes a single point at its mean.

    Parameters
    ----------
    points : ndarray, shape (n, 3)
        Unit rows in one patch.
    masses : ndarray, shape (n,)
        Not negative.
    reach : float
        β, or 1 where that is larger.
    tol : float
        Relative error allowed.

    Returns
    -------
    points : ndarray, shape (m, 3)
        m <= (p + 1)(p + 2)/2.
    masses : ndarray, shape (m,)

    Examples
    --------
    >>> points = np.array([[np.sin(a), 0.0, np.cos(a)] for a in (-1e-9, 1e-9)])
    >>> compressed(points, np.ones(2), 1.0, 1e-12)
    (array([[0., 0., 1.]]), array([2.]))
    """
    has_mass = masses > 0.0
    points, masses = points[has_mass], masses[has_mass]
    if len(points) < 2:
        return points, masses
    mean = masses @ points
    centre = mean / np.linalg.norm(mean)
    distances = np.linalg.norm(points - centre, axis=1)
    degree = _degree(points, masses, distances, reach, tol)
    if degree <= 1:
        return centre[None], np.array([masses.sum()])
    across = perpendicular(centre)
    frame = np.stack([across, np.cross(centre, across)], axis=1)
    local = points @ frame / distances.max()
    basis = _polynomials(local, degree)
    if len(points) <= basis.shape[1]:
        return points, masses
    index, new_masses = _recombined(basis, masses)
    return points[index], new_masses


def _degree(points: Array, masses: Array, apart: Array, reach: float, tol: float) -> int:
    """Return the least p whose remainder Σ m (βρ)^{p+1}/(p+1)! is below tol · Σ m."""
    term = np.ones(len(points))
    total = float(masses.sum())
    for degree in range(_HIGHEST_DEGREE):
        term = term * (reach * apart / (degree + 1))
        if float(masses @ term) <= tol * total:
            return degree
    return _HIGHEST_DEGREE


def _polynomials(local: Array, degree: int) -> Array:
    """Return products of Legendre polynomials of total degree <= p at rows (n, 2), shape (n, m)."""
    legendre = np.polynomial.legendre.legvander
    u, v = legendre(local[:, 0], degree), legendre(local[:, 1], degree)
    pairs = [(j, k) for j in range(degree + 1) for k in range(degree + 1 - j)]
    return np.stack([u[:, j] * v[:, k] for j, k in pairs], axis=1)


def _recombined(basis: Array, masses: Array) -> tuple[Indices, Array]:
    """Fewer rows with masses of the same Σ m · basis: groups of rows are halved again and again."""
    index, masses = np.arange(len(masses)), masses.copy()
    size = basis.shape[1]
    while len(index) > size:
        groups = np.array_split(np.arange(len(index)), min(len(index), 2 * size))
        starts = np.array([group[0] for group in groups])
        weighted = masses[:, None] * basis[index]
        sums = np.add.reduceat(weighted, starts, axis=0)
        totals = np.add.reduceat(masses, starts)
        factors = _eliminated(sums, totals)
        factor = np.repeat(factors, [len(group) for group in groups])
        masses = masses * factor
        alive = masses > 0.0
        index, masses = index[alive], masses[alive]
    return index, masses


def _eliminated(sums: Array, totals: Array) -> Array:
    """Factors >= 0 of groups, at most `size` of them not 0, that keep the sum over groups."""
    scaled = sums / totals[:, None]
    current = totals.copy()
    alive = np.arange(len(totals))
    while len(alive) > sums.shape[1]:
        # null vectors of the moments of the remaining groups
        _, _, right = np.linalg.svd(scaled[alive].T)
        null = right[sums.shape[1] :]
        for _ in range(min(len(null), 8)):
            direction = null[0]
            if direction.max() <= 0.0:
                direction = -direction
            positive = direction > 1e-14 * np.abs(direction).max()
            ratios = np.where(positive, current[alive] / np.where(positive, direction, 1.0), np.inf)
            gone = int(np.argmin(ratios))
            current[alive] -= ratios[gone] * direction
            current[alive[gone]] = 0.0
            np.maximum(current, 0.0, out=current)
            if len(null) == 1:
                break
            null = null[1:] - np.outer(null[1:, gone] / direction[gone], direction)
        alive = alive[current[alive] > 0.0]
    return current / totals


_MOST = 64
_LEAST_MASS = 1e-3
_LARGEST_HALO = 0.3


def stretch_error(nodes: Array, masses: Array, reach: float) -> float:
    """Estimated quadrature error of the moments of nodes that have moved, in units of mass.

    Parameters
    ----------
    nodes : ndarray, shape (100 n, 3)
        Leaf by leaf.
    masses : ndarray, shape (100 n,)
    reach : float
        β, or 1 where that is larger: what a displacement counts for in the kernel.
    """
    places = nodes.reshape(-1, PER_LEAF, 3)
    places = (places - places.mean(axis=1, keepdims=True)).transpose(2, 0, 1)
    error = quadrature_error(places).max(axis=0)
    return reach * float(error @ masses.reshape(-1, PER_LEAF).sum(axis=1))


def absorbed_particles(
    mesh: Mesh, absorption: Absorption, atoms: tuple[Array, Array], reach: float, tol: float
) -> tuple[Array, Array]:
    """Particles (m, 3) and masses (m,) after an absorption: the old ones and what was taken.

    Parameters
    ----------
    mesh : Mesh
        Its channel 1 + j is the density taken over at centre j.
    absorption : Absorption
    atoms : (ndarray, ndarray)
        The old particles and masses.
    reach, tol : float
        As in `compressed`.
    """
    points, masses = atoms
    if not len(absorption.centres):
        return points, masses
    distances = np.linalg.norm(points[:, None] - absorption.centres, axis=2)
    nearest = np.argmin(distances, axis=1)
    close = distances.min(axis=1) < 2.0 * absorption.radius
    remaining = [(points[~close], masses[~close])]
    for j in range(len(absorption.centres)):
        absorbed_masses = mesh.weights * mesh.values[1 + j]
        is_near = (absorbed_masses > 0.0) & (
            np.linalg.norm(mesh.points - absorption.centres[j], axis=1) < 2.0 * absorption.radius
        )
        is_member = close & (nearest == j)
        remaining.append(
            compressed(
                np.concatenate([mesh.points[is_near], points[is_member]]),
                np.concatenate([absorbed_masses[is_near], masses[is_member]]),
                reach,
                tol,
            )
        )
    return np.concatenate([f[0] for f in remaining]), np.concatenate([f[1] for f in remaining])


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
        is_near = np.linalg.norm(atoms - centre, axis=1) < 1.5 * radius
        is_near[int(np.argmax(left))] = True
        left &= ~is_near
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
        distances = np.linalg.norm(points - centre, axis=1)
        apart_from_start = np.linalg.norm(points - start, axis=1)
        core = float(masses[distances < 0.5 * radius].sum())
        mass_around = float(masses[distances < 2.0 * radius].sum())
        if core > _LEAST_MASS * total and mass_around - core < _LARGEST_HALO * core:
            centres.append(centre)
        free &= (distances > 2.0 * radius) & (apart_from_start > 2.0 * radius)
    return np.array(centres).reshape(-1, 3)


def _settled(points: Array, masses: Array, centre: Array, radius: float) -> Array:
    """Return the fixed point near a first guess: the mean of the mass within a radius of itself."""
    for _ in range(20):
        is_near = np.linalg.norm(points - centre, axis=1) < radius
        mean = masses[is_near] @ points[is_near]
        size = float(np.linalg.norm(mean))
        if size == 0.0:
            break
        moved = mean / size
        if np.linalg.norm(moved - centre) < 1e-3 * radius:
            return np.asarray(moved)
        centre = moved
    return centre
