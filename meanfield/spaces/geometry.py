"""Points, angles, tangents and geodesics on the unit sphere S^{d-1} in R^d; symmetry about axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

from meanfield.typing import Array, ArrayLike

# series are compared at this irrational share of the way between two points of a grid, for there
# functions differ that agree on the grid
GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


def project(points: Array, vectors: Array) -> Array:
    """P_x v = v - <x, v> x, the orthogonal projection onto the tangent space at x.

    Parameters
    ----------
    points, vectors : ndarray, shape (n, d)
        Unit rows x and any rows v.

    Returns
    -------
    ndarray, shape (n, d)

    Examples
    --------
    >>> project(np.array([[1.0, 0.0]]), np.array([[3.0, 2.0]]))
    array([[0., 2.]])
    """
    along = np.einsum("ij,ij->i", points, vectors)
    return np.asarray(vectors - along[:, None] * points)


def circle_points(angles: ArrayLike) -> Array:
    """(cos θ, sin θ) for angles θ in radians, shape (n,) to (n, 2).

    Examples
    --------
    >>> circle_points([0.0])
    array([[1., 0.]])
    """
    angles = np.asarray(angles, dtype=np.float64)
    # the sine of a subnormal number is subnormal
    with np.errstate(under="ignore"):
        return np.column_stack([np.cos(angles), np.sin(angles)])


def circle_angles(points: Array) -> Array:
    """θ in [0, 2π) of points (n, 2) on the circle.

    Examples
    --------
    >>> float(circle_angles(np.array([[0.0, 1.0]]))[0] / np.pi)
    0.5
    """
    angles = np.arctan2(points[:, 1], points[:, 0])
    angles[angles < 0.0] += 2.0 * np.pi
    # a negative angle near 0 may round to a whole turn
    angles[angles >= 2.0 * np.pi] = 0.0
    return np.asarray(angles)


def line_points(angles: Array, axis: Array | None) -> Array:
    """Points (n, d) at angles (n,) of the circle, or at polar angles on one meridian of an axis.

    Examples
    --------
    >>> line_points(np.array([0.0]), np.array([0.0, 0.0, 1.0]))
    array([[0., 0., 1.]])
    """
    if axis is None:
        return circle_points(angles)
    across = perpendicular(axis)
    return np.asarray(np.outer(np.cos(angles), axis) + np.outer(np.sin(angles), across))


def latitude_density(angles: Array, dim: int) -> Array:
    """dσ over the Lebesgue measure of polar angles (n,) in [0, π]; for d = 2 of the circle's.

    Examples
    --------
    >>> latitude_density(np.array([0.5 * np.pi]), 3)
    array([0.5])
    """
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(log_latitude_density(angles, dim)))


def log_latitude_density(angles: Array, dim: int) -> Array:
    """The logarithm of `latitude_density`, also where that is too small for a float.

    Examples
    --------
    >>> log_latitude_density(np.array([1e-5]), 100).round(3)
    array([-1126.891])
    """
    if dim == 2:
        return np.full(len(angles), -np.log(2.0 * np.pi))
    log_total = gammaln(0.5 * (dim - 1)) - gammaln(0.5 * dim) + 0.5 * np.log(np.pi)
    with np.errstate(divide="ignore"):
        # σ has no mass at a pole, where its log density is -inf
        log_sine = np.log(np.sin(np.clip(angles, 0.0, np.pi)))
    return np.asarray((dim - 2) * log_sine - log_total)


def polar_angles(points: Array, axis: Array) -> Array:
    """Angle in [0, π] of each point (n, d) from a unit vector, right to rounding at both poles.

    Examples
    --------
    >>> float(polar_angles(np.array([[1e-20, 0.0, 1.0]]), np.array([0.0, 0.0, 1.0]))[0])
    1e-20
    """
    along = points @ axis
    return np.asarray(np.arctan2(np.linalg.norm(points - np.outer(along, axis), axis=1), along))


def sphere_points(colatitudes: ArrayLike, longitudes: ArrayLike) -> Array:
    """Points (n, 3) on S^2 at colatitude θ (from the north pole) and longitude φ, in radians.

    Examples
    --------
    >>> sphere_points([0.0], [0.7])
    array([[0., 0., 1.]])
    """
    theta = np.asarray(colatitudes, dtype=np.float64)
    phi = np.asarray(longitudes, dtype=np.float64)
    sine = np.sin(theta)
    return np.column_stack([sine * np.cos(phi), sine * np.sin(phi), np.cos(theta)])


def sphere_angles(points: Array) -> tuple[Array, Array]:
    """Colatitude in [0, π] and longitude in [0, 2π) of points (n, 3) on S^2.

    The colatitude comes from arctan2, since arccos loses half the digits near a pole.

    Examples
    --------
    >>> colatitude, longitude = sphere_angles(np.array([[1e-9, 0.0, 1.0]]))
    >>> float(colatitude[0])
    1e-09
    """
    colatitudes = np.arctan2(np.hypot(points[:, 0], points[:, 1]), points[:, 2])
    return colatitudes, circle_angles(points[:, :2])


def geodesic_distance(x: Array, y: Array) -> Array:
    """dist(x, y) = 2 arctan(|x - y|/|x + y|), right to rounding near 0 and near π.

    Parameters
    ----------
    x, y : ndarray, shape (..., d)
        Unit vectors; leading axes broadcast.

    Examples
    --------
    >>> float(geodesic_distance(np.array([1.0, 0.0]), np.array([-1.0, 0.0])) / np.pi)
    1.0
    """
    chord = np.linalg.norm(x - y, axis=-1)
    together = np.linalg.norm(x + y, axis=-1)
    return np.asarray(2.0 * np.arctan2(chord, together))


def exponential(points: Array, vectors: Array) -> Array:
    """exp_x(v) = cos|v| x + (sin|v|/|v|) v, the geodesic from x with velocity v at time 1.

    Parameters
    ----------
    points, vectors : ndarray, shape (n, d)
        Unit rows x and rows v tangent at x.

    Examples
    --------
    >>> exponential(np.array([[1.0, 0.0]]), np.array([[0.0, np.pi / 2]])).round(15)
    array([[0., 1.]])
    """
    speed = np.linalg.norm(vectors, axis=1, keepdims=True)
    moved: Array = np.cos(speed) * points + np.sinc(speed / np.pi) * vectors
    return moved


def perpendicular(axis: Array) -> Array:
    """A unit vector perpendicular to `axis`, shape (d,), d >= 2; on the circle, the turn by +π/2.

    Examples
    --------
    >>> perpendicular(np.array([0.0, 1.0]))
    array([-1.,  0.])
    """
    if axis.size == 2:
        return np.array([-axis[1], axis[0]])
    start = np.zeros(axis.size)
    start[int(np.argmin(np.abs(axis)))] = 1.0
    across = start - (axis @ start) * axis
    return np.asarray(across / np.linalg.norm(across))


def logarithm(points: Array, targets: Array) -> Array:
    """log_x(y), the velocity at x of the shortest geodesic that is at y at time 1.

    Parameters
    ----------
    points, targets : ndarray, shape (n, d)
        Unit rows x and y; for y = -x the result is some vector of length π.

    Examples
    --------
    >>> logarithm(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])).round(15) + 0.0
    array([[0.        , 1.57079633]])
    """
    # y - x near x, and y + x near -x, keep the digits of y; y - <x, y> x would be rounding there
    side = np.where(np.sum(points * targets, axis=1) < 0.0, -1.0, 1.0)
    across = project(points, targets - side[:, None] * points)
    length = np.linalg.norm(across, axis=1)
    opposite = (length == 0.0) & (side < 0.0)
    if opposite.any():
        across[opposite] = [perpendicular(point) for point in points[opposite]]
        length[opposite] = 1.0
    factors = geodesic_distance(points, targets) / np.where(length > 0.0, length, 1.0)
    return np.asarray(factors[:, None] * across)


# unit vectors nearer than this are equal; a cosine could not show an angle below 1e-8
_PARALLEL = 1e-14
# a matrix may miss its symmetry by this share of itself
_ALIKE = 1e-12
# a function may differ between two meridians by this share of its maximum
_EVEN = 1e-9


def are_parallel(one: Array | None, other: Array | None) -> bool:
    """Whether there are two unit vectors (d,), and they agree up to rounding and sign.

    Examples
    --------
    >>> are_parallel(np.array([0.0, 1.0]), np.array([0.0, -1.0]))
    True
    """
    if one is None or other is None:
        return False
    return bool(min(np.linalg.norm(one - other), np.linalg.norm(one + other)) < _PARALLEL)


def difference_of_meridians(
    function: Callable[[Array], Array], axis: Array, cosines: Array, sines: Array, values: Array
) -> float:
    """By how much a function differs between two meridians; 0 where that is rounding.

    Parameters
    ----------
    function : callable
        Values (n,) of points (n, d).
    axis : ndarray, shape (d,)
    cosines, sines : ndarray, shape (n,)
        Of polar angles.
    values : ndarray, shape (n,)
        The function there on a meridian; the others are in general position.
    """
    direction = np.cos(1.0 + np.arange(len(axis)) ** 1.5)
    direction -= (direction @ axis) * axis
    direction /= np.linalg.norm(direction)
    along, across = np.outer(cosines, axis), np.outer(sines, direction)
    gap = max(float(np.abs(function(along + s * across) - values).max()) for s in (1.0, -1.0))
    return 0.0 if gap <= _EVEN * float(values.max()) else gap


def turn_about(axis: Array) -> Array:
    """A rotation (d, d), d >= 3, in general position but for the axis, which it leaves as it is.

    Examples
    --------
    >>> axis = np.array([0.6, 0.0, 0.0, 0.8])
    >>> turn = turn_about(axis)
    >>> np.allclose(turn @ axis, axis), np.allclose(turn @ turn.T, np.eye(4))
    (True, True)
    """
    turn = np.eye(len(axis))
    for power in (1.5, 2.5):
        mirror = np.cos(1.0 + np.arange(len(axis)) ** power)
        mirror -= (mirror @ axis) * axis
        turn -= np.outer(turn @ mirror, 2.0 * mirror / (mirror @ mirror))
    return np.asarray(turn)


def axial_part(matrix: Array, axis: Array) -> tuple[float, complex]:
    """The multiples of the identity that a matrix (d, d) is along an axis and across it.

    Across it is a complex one in d = 3: with a turn about the axis.

    Examples
    --------
    >>> axial_part(np.diag([2.0, 2.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    (1.0, (2+0j))
    """
    along = float(axis @ matrix @ axis)
    across = (float(np.trace(matrix)) - along) / (len(axis) - 1)
    turn = 0.5 * float((_turn(axis) * matrix).sum()) if len(axis) == 3 else 0.0
    return along, complex(across, turn)


def axial_matrix(along: float, across: complex, axis: Array) -> Array:
    """The matrix (d, d) of which `axial_part` is given; it commutes with turns about the axis."""
    matrix = across.real * np.eye(len(axis)) + (along - across.real) * np.outer(axis, axis)
    if across.imag:
        matrix += across.imag * _turn(axis)
    return np.asarray(matrix)


def asymmetry(matrix: Array, axis: Array) -> float:
    """By how much a matrix (d, d) differs from `axial_part`; 0 if it commutes with turns.

    Examples
    --------
    >>> asymmetry(np.diag([2.0, 3.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    0.5
    """
    gap = float(np.abs(axial_matrix(*axial_part(matrix, axis), axis) - matrix).max())
    return 0.0 if gap <= _ALIKE * np.abs(matrix).max() else gap


def lie_along(rows: Array, axis: Array) -> bool:
    """Whether all rows (m, d) of a matrix are multiples of an axis."""
    gap = np.abs(rows - np.outer(rows @ axis, axis)).max()
    return bool(gap <= _ALIKE * np.abs(rows).max(initial=1e-300))


def _turn(axis: Array) -> Array:
    """Return the generator of rotations about an axis in d = 3."""
    return np.cross(axis, np.eye(3)).T
