"""Moments of any measure, degree by degree, in one basis of harmonics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meanfield._checks import shown
from meanfield.measures import AnyMeasure
from meanfield.measures.density import Density
from meanfield.measures.flow_map import FREE, LineFlowMap, SphereFlowMap
from meanfield.measures.particles import Particles
from meanfield.spaces.circle import CircleAt
from meanfield.spaces.cubed_sphere import PER_LEAF
from meanfield.spaces.geometry import circle_angles, circle_points
from meanfield.spaces.sphere_fields import Places, SphereAt
from meanfield.spaces.symmetry import are_parallel
from meanfield.spaces.zonal import ZonalAt
from meanfield.typing import Array, Coefficients

Basis = CircleAt | SphereAt | ZonalAt

# points and density coefficients that differ by rounding only
_ROUNDING = 1e-14
# an atom this near a pole is there; elsewhere it stands for a latitude
_POLE = 1e-6
# a panel of 16 Gauss nodes resolves e^{ikθ} up to k = 8/length, with a margin for its density
_REACH = 8.0
_FIRST_DEGREE = 32
# half the waves on a side of a patch at which its error may take over: 1e-12 to 1e-4
_MESH_WAVES = 3.8, 10.0
# no squared norm is less, were it that of the uniform measure
_LEAST = 1e-300
# of a flow map, moments are right to a few times its tolerance
_TOLERANCES = 10.0


@dataclass(frozen=True)
class Atoms:
    """Points (n, d) and their masses (n,)."""

    points: Array
    masses: Array


def atoms_of(measure: AnyMeasure) -> Atoms:
    """What of a measure sits at points: tokens, and the clusters of a flow map held as atoms.

    Where d > 2, an atom of a `LineFlowMap` off the poles stands for a latitude and is none.
    """
    if isinstance(measure, Particles):
        return Atoms(measure.points, measure.weights)
    if isinstance(measure, SphereFlowMap):
        held = _is_atom(measure)
        return Atoms(measure.points[held], measure.weights[held])
    if isinstance(measure, LineFlowMap):
        if measure.axis is None:
            return Atoms(circle_points(measure.atoms), measure.atom_masses)
        polar = _at_pole(measure.atoms)
        ends = np.sign(np.cos(measure.atoms[polar]))
        return Atoms(np.outer(ends, measure.axis), measure.atom_masses[polar])
    return Atoms(np.zeros((0, measure.dim)), np.zeros(0))


def _at_pole(angles: Array) -> NDArray[np.bool_]:
    return np.abs(np.sin(angles)) < _POLE


def common_axis(mu: AnyMeasure, nu: AnyMeasure) -> Array | None:
    """An axis in d >= 3 about which both measures are symmetric, as far as they tell."""
    for one, other in ((mu, nu), (nu, mu)):
        axis = one.axis
        if axis is not None and _is_about(other, axis):
            return axis
    return None


def _is_about(measure: AnyMeasure, axis: Array) -> bool:
    if are_parallel(measure.axis, axis):
        return True
    if isinstance(measure, Density):
        return _is_uniform(measure)
    if isinstance(measure, Particles):
        across = measure.points - np.outer(measure.points @ axis, axis)
        return bool(np.abs(across).max() < _ROUNDING)
    return False


def _is_uniform(density: Density) -> bool:
    return bool(np.abs(density.coefficients[1:]).max() < _ROUNDING)


def common_basis(mu: AnyMeasure, nu: AnyMeasure, kmax: int) -> Basis | None:
    """Harmonics up to degree kmax that hold both measures; None if only their kernel does."""
    if mu.dim == 2:
        return CircleAt(kmax)
    axis = common_axis(mu, nu)
    if axis is not None:
        return ZonalAt(axis, kmax)
    return SphereAt(kmax) if mu.dim == 3 else None


def moments(measure: AnyMeasure, basis: Basis, multipliers: Array) -> tuple[Coefficients, float]:
    """∫ conj(Y) dmu for all Y of the basis, and the share of Σ multipliers · power not yet there.

    A flow map is a quadrature, which has no say on the degrees that its nodes don't resolve. Its
    part without atoms is taken up to the first degree past which the power is negligible, and is 0
    from there on. The share is that of its last half of degrees; all else is complete.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    basis : CircleAt, SphereAt or ZonalAt
    multipliers : ndarray, shape (kmax + 1,)
        What the power of each degree will be multiplied with.
    """
    if isinstance(measure, Density):
        return _of_density(measure, basis), 0.0
    atoms = atoms_of(measure)
    found = _of_points(atoms.points, atoms.masses, basis)
    if isinstance(measure, Particles):
        return found, 0.0
    if isinstance(measure, LineFlowMap):
        smooth, last = _of_line(measure, basis, multipliers)
    elif isinstance(measure, SphereFlowMap):
        smooth, last = _of_mesh(measure, basis, multipliers)
    else:
        raise ValueError(f"measure must be a LineFlowMap or SphereFlowMap, got {shown(measure)}")
    found += smooth
    return found, last / max(float(multipliers @ basis.power(found)), _LEAST)


def _of_line(measure: LineFlowMap, basis: Basis, multipliers: Array) -> tuple[Coefficients, float]:
    """Moments of the free nodes, up to twice the degree that tells that there is no more."""
    size, negligible = min(_FIRST_DEGREE, basis.kmax), (_TOLERANCES * measure.tol) ** 2
    while True:
        part = _resized(basis, size)
        smooth = _of_nodes(measure, part)
        power = part.power(smooth)
        weighted = multipliers[: size + 1] * power
        last = float(weighted[size // 2 + 1 :].sum())
        low = power[size // 2 + 1 :].sum() <= negligible
        if low or last <= negligible * weighted[1:].sum() or size == basis.kmax:
            break
        size = min(2 * size, basis.kmax)
    moments = np.zeros(len(basis.degrees), dtype=smooth.dtype)
    moments[basis.degrees <= size] = smooth
    return moments, 0.0 if low else last


def _of_mesh(
    measure: SphereFlowMap, basis: Basis, multipliers: Array
) -> tuple[Coefficients, float]:
    """Moments of the nodes of a mesh, cut where their error takes over.

    A patch of 10 × 10 Gauss nodes and side h gives degree l with an error of 1e-24 (lh/2)^20. So
    from some degree on the power that is found grows; up to the least of it, it is the measure's.
    """
    free = ~_is_atom(measure)
    points, masses = measure.points[free], measure.weights[free]
    patches = points.reshape(-1, PER_LEAF, 3)
    counted = masses.reshape(-1, PER_LEAF).sum(axis=1) > measure.tol
    if not counted.any():
        return _of_points(points, masses, basis), 0.0
    side = np.linalg.norm(patches[:, 0] - patches[:, -1], axis=1)[counted].max() / np.sqrt(2.0)
    first, last = (min(int(2.0 * waves / side), basis.kmax - 1) for waves in _MESH_WAVES)
    part = SphereAt(min(last + 1, basis.kmax))
    found = _of_points(points, masses, part)
    power = part.power(found)
    # two degrees at a time, since a symmetric measure has no odd ones
    pairs = (power[first:-1] + power[first + 1 :]) / np.arange(first + 1.0, len(power))
    cut = first + int(np.argmin(pairs))
    moments = np.zeros(len(basis.degrees), dtype=np.complex128)
    moments[basis.degrees <= cut] = found[part.degrees <= cut]
    weighted = (multipliers[: len(power)] * power)[1 : cut + 1]
    return moments, float(weighted[-2:].sum())


def _is_atom(measure: SphereFlowMap) -> NDArray[np.bool_]:
    return np.isinf(measure.log_density) & (measure.log_density > 0.0)


def _resized(basis: Basis, kmax: int) -> Basis:
    return ZonalAt(basis.axis, kmax) if isinstance(basis, ZonalAt) else type(basis)(kmax)


def _of_density(density: Density, basis: Basis) -> Coefficients:
    space, given = density.space, density.coefficients
    axis = space.axis
    if axis is not None and not isinstance(basis, ZonalAt):
        return _turned(given, axis, basis)
    moments = np.zeros(len(basis.degrees), dtype=given.dtype)
    if isinstance(basis, ZonalAt) and (axis is None or _is_uniform(density)):
        moments = moments.real.copy()
        moments[0] = given[0].real
        return moments
    # both layouts have the same order once degrees are cut at the smaller
    common = min(space.kmax, basis.kmax)
    moments[basis.degrees <= common] = given[space.degrees <= common]
    if axis is not None and isinstance(basis, ZonalAt) and axis @ basis.axis < 0.0:
        moments[1::2] *= -1.0
    return moments


def _turned(zonal: Array, axis: Array, basis: CircleAt | SphereAt) -> Coefficients:
    """Coefficients of Σ c_k p_k(<x, axis>), by the addition theorem, cut or filled with zeros."""
    factors = np.zeros(basis.kmax + 1)
    common = min(len(zonal), len(factors))
    factors[:common] = zonal[:common]
    if isinstance(basis, CircleAt):
        factors[1:] /= np.sqrt(2.0)
    else:
        factors /= np.sqrt(2.0 * np.arange(len(factors)) + 1.0)
    pole = _of_points(axis[None], np.ones(1), basis)
    return np.asarray(factors[basis.degrees] * pole)


def _of_points(points: Array, masses: Array, basis: Basis) -> Coefficients:
    if len(points) == 0:
        dtype = np.float64 if isinstance(basis, ZonalAt) else np.complex128
        return np.zeros(len(basis.degrees), dtype=dtype)
    if isinstance(basis, CircleAt):
        return basis.moments(circle_angles(points), masses)
    if isinstance(basis, SphereAt):
        return basis.moments(Places.of(points), masses)
    return basis.moments(np.clip(points @ basis.axis, -1.0, 1.0), masses)


def _of_nodes(measure: LineFlowMap, basis: Basis) -> Coefficients:
    """Moments of what is no atom of a flow map, its panels split until they resolve the basis."""
    finer = measure.refined(_REACH / basis.kmax) if measure.has_density else measure
    free = finer.owners == FREE
    if measure.axis is None or isinstance(basis, CircleAt):
        return CircleAt(basis.kmax).moments(finer.angles[free], finer.weights[free])
    off = np.flatnonzero(~_at_pole(finer.atoms))
    free |= np.isin(finer.owners, off)
    cosines = np.cos(finer.angles[free])
    if isinstance(basis, ZonalAt):
        side = np.sign(measure.axis @ basis.axis)
        return basis.moments(side * cosines, finer.weights[free])
    own = ZonalAt(measure.axis, basis.kmax).moments(cosines, finer.weights[free])
    return _turned(own, measure.axis, basis)
