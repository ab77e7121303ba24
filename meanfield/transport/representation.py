"""The quantile functions of measures: of angles on the circle, or of polar angles about an axis."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len
from scipy.special import gammaln

from meanfield.arguments import shown
from meanfield.geometry import circle_angles, circle_points, perpendicular, polar_angles
from meanfield.harmonics import gegenbauer
from meanfield.measures import Density, LineFlowMap, Particles
from meanfield.spaces import Circle, Sphere, Zonal
from meanfield.transport.quantiles import GAUSS, GAUSS_WEIGHTS, NODES, Atoms, Curve, Quantiles

Array = NDArray[np.float64]

TURN = 2.0 * np.pi
# by how many radians a harmonic of the largest degree may turn on a piece: error (0.6)^16/16!
_PHASE = 2.4
_FEWEST_PIECES = 64
# pieces with less mass than this share of the largest hold only rounding of the series
_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)
_MASS_TOLERANCE = 1e-6
_CHUNK = 1 << 22
# slopes at 33 points of a panel, its ends among them, from values at its nodes
_TO_SLOPES = legendre.legval(
    -np.cos(np.pi / 32 * np.arange(33)),
    legendre.legder(np.linalg.inv(legendre.legvander(GAUSS, NODES - 1))),
)
_SWING = 1e-8


def on_circle(measure: Density | LineFlowMap | Particles) -> Quantiles:
    """Angles of a measure with dim = 2."""
    if isinstance(measure, Particles):
        return Atoms(circle_angles(measure.points), measure.weights, TURN)
    if isinstance(measure, LineFlowMap):
        return _of_flow(measure, measure.angles, TURN)
    space = measure.space
    if not isinstance(space, Circle):
        return _of_series(measure, TURN, circle_points)
    count = next_fast_len(max(_FEWEST_PIECES, int(np.ceil(TURN * space.kmax / _PHASE))), real=True)
    degrees, middle = np.arange(space.kmax + 1), (np.arange(count) + 0.5) * (TURN / count)
    offsets = np.pi / count * GAUSS
    turned = measure.coefficients * np.exp(1j * degrees * (np.pi / count + offsets)[:, None])
    values = count * irfft(turned, count, axis=1).T
    return _of_values(measure, middle[:, None] + offsets, values / count, TURN)


def about_axis(measure: Density | LineFlowMap | Particles, axis: Array) -> Quantiles:
    """Polar angles of a measure that is symmetric about the axis."""
    if isinstance(measure, Particles):
        return Atoms(polar_angles(measure.points, axis), measure.weights, 0.0)
    if isinstance(measure, LineFlowMap):
        along = measure.axis is not None and float(measure.axis @ axis) > 0.0
        return _of_flow(measure, measure.angles if along else np.pi - measure.angles, 0.0)
    across = perpendicular(axis)

    def points(angles: Array) -> Array:
        return np.asarray(np.outer(np.cos(angles), axis) + np.outer(np.sin(angles), across))

    return _of_series(measure, np.pi, points)


def average_about(density: Density, point: Array) -> Density:
    """The density averaged over rotations about a point: of all distances to it, the same law.

    A harmonic Y_k has the average Y_k(point) P_k(<x, point>).
    """
    space = density.space
    if isinstance(space, Sphere):
        power = np.zeros(max(space.size, 3) + 1)
        for degree in range(space.size + 1):
            part = np.where(space.degrees == degree, density.coefficients, 0.0)
            power[degree] = space.at(part, point[None])[0] / np.sqrt(2 * degree + 1)
        return Density.from_coefficients(Zonal(3, len(power) - 1, point), power)
    space = cast(Zonal, space)
    along = np.array([np.clip(space.axis @ point, -1.0, 1.0)])
    averaged = density.coefficients * gegenbauer(space.dim, space.kmax, along)[:, 0]
    return Density.from_coefficients(Zonal(space.dim, space.kmax, point), averaged)


def _of_flow(flow: LineFlowMap, angles: Array, turn: float) -> Quantiles:
    """Panels of labels are pieces: there masses and angles are polynomials."""
    if turn:
        angles = angles - turn * np.floor(angles.min() / turn)
    if not flow.has_density:
        return Atoms(angles % TURN if turn else angles, flow.weights, turn)
    angles, masses = angles.reshape(-1, NODES), flow.weights.reshape(-1, NODES)
    if angles[0, 0] > angles[-1, -1]:
        angles, masses = angles[::-1, ::-1], masses[::-1, ::-1]
    # where atoms on both sides have torn a panel, its polynomial swings; its mass is below tol
    torn = (angles @ _TO_SLOPES < -_SWING).any(axis=1) & (masses.sum(axis=1) <= flow.tol)
    return Curve(angles[~torn], masses[~torn], turn)


def _of_series(density: Density, length: float, points: Any) -> Curve:
    """Pieces of equal length, resolved for the degrees of f and of the latitudes' size."""
    dim, kmax = density.dim, density.space.kmax
    count = max(_FEWEST_PIECES, int(np.ceil(length * (kmax + dim - 2) / _PHASE)))
    half = 0.5 * length / count
    angles = ((2.0 * np.arange(count) + 1.0)[:, None] + GAUSS) * half
    flat, values = angles.ravel(), np.empty(angles.size)
    step = max(NODES, _CHUNK // (dim + kmax))
    for first in range(0, len(flat), step):
        part = slice(first, first + step)
        values[part] = density.space.at(density.coefficients, points(flat[part]))
    latitude = np.full(len(flat), 1.0 / TURN)
    if dim > 2:
        log_total = gammaln(0.5 * (dim - 1)) - gammaln(0.5 * dim) + 0.5 * np.log(np.pi)
        with np.errstate(under="ignore"):
            latitude = np.exp((dim - 2) * np.log(np.sin(flat)) - log_total)
    shares = (values * latitude).reshape(angles.shape) * (2.0 * half)
    return _of_values(density, angles, shares, TURN if length == TURN else 0.0)


def _of_values(density: Density, angles: Array, shares: Array, turn: float) -> Curve:
    """Shares (P, 16) of the mass, if all of a piece were like at the node."""
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
