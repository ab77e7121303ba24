"""n nodes that stand for a law better than random draws: points on the sphere, frequencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.legendre import leggauss, legint, legval, legvander

from meanfield._checks import generator, integer, number, shown
from meanfield.laws.law import Law, checked_pdf, symmetry_axis
from meanfield.spaces.geometry import circle_points, line_points, perpendicular, sphere_points
from meanfield.spaces.panels import invert
from meanfield.typing import Array, Drawable, Integers, Rng

ORDER = 12
NODES, _WEIGHTS = leggauss(ORDER)
TO_COEFFICIENTS = (legvander(NODES, ORDER - 1) * (_WEIGHTS[:, None] * (np.arange(ORDER) + 0.5))).T
_LAST = 3
# the tail of a panel may have this share of the whole distribution; a sharp pdf has rounding errors
# of some 1e-10 of it
_SHARE = 1e-9
_MASS_TOLERANCE = 1e-6
# the numbers of panels in polar angle and longitude that are tried until the mass is found
_STARTS = ((32, 24), (128, 96), (512, 384))
# the numbers of panels that are tried on a ring whose mass is known
_RING_PANELS = (24, 96, 384, 1536)
_ALIKE = 1e-5
# a density of polar angles below this hardly matters: its mean is 1/π
_LITTLE = 1e-6
_DEEPEST = 40
_MOST_PANELS = 1 << 20
_RINGS = 256


@dataclass(frozen=True)
class Pieces:
    """Polynomials on panels of one or several lines, in the order of lines and places.

    Attributes
    ----------
    line : ndarray of int, shape (p,)
        Which line a panel is on.
    middle, half : ndarray, shape (p,)
        Its middle, and half of its width.
    values : ndarray, shape (p, 12)
        The density at its Gauss nodes.
    """

    line: Integers
    middle: Array
    half: Array
    values: Array

    @property
    def masses(self) -> Array:
        """∫ of the density over each panel, shape (p,)."""
        return np.asarray(self.half * (self.values @ _WEIGHTS))

    def totals(self, lines: int) -> Array:
        """∫ of the density over each line, shape (lines,)."""
        totals = np.bincount(self.line, weights=self.masses, minlength=lines)
        return np.asarray(totals, dtype=np.float64)

    def quantiles(self, line: Integers, levels: Array) -> tuple[Array, Array]:
        """The places where lines (n,) reach shares `levels` (n,) of their mass; density there."""
        masses = self.masses
        ends = np.cumsum(masses)
        first_piece = np.searchsorted(self.line, line)
        last_piece = np.searchsorted(self.line, line, side="right") - 1
        begun = ends[first_piece] - masses[first_piece]
        wanted = begun + levels * (ends[last_piece] - begun)
        panel = np.clip(np.searchsorted(ends, wanted), first_piece, last_piece)
        slopes = TO_COEFFICIENTS @ self.values[panel].T
        shares = np.asarray(legint(slopes, lbnd=-1.0), dtype=np.float64)
        rest = (wanted - ends[panel] + masses[panel]) / self.half[panel]
        place = invert(shares, slopes, rest)
        density = np.asarray(legval(place, slopes, tensor=False), dtype=np.float64)
        return self.middle[panel] + self.half[panel] * place, density


def resolved(
    density: Callable[[Integers, Array], Array], lines: int, end: float, panels: int
) -> Pieces | None:
    """Panels of [0, end] on which densities are resolved, or None if they are too many.

    Parameters
    ----------
    density : callable
        From lines (p,) and places (p, 12) on them to values (p, 12).
    lines : int
    end : float
    panels : int
        On each line at first; a panel splits while the tail of its expansion, times its width,
        exceeds 1e-9 of the mass of its line.
    """
    line = np.repeat(np.arange(lines), panels)
    half = np.full(len(line), 0.5 * end / panels)
    middle = np.tile((2.0 * np.arange(panels) + 1.0) * half[0], lines)
    done: list[Pieces] = []
    totals, count = np.zeros(lines), 0
    for _ in range(_DEEPEST):
        values = density(line, middle[:, None] + half[:, None] * NODES)
        new = Pieces(line, middle, half, values)
        tails = np.abs(values @ TO_COEFFICIENTS[-_LAST:].T).max(axis=1) * 2.0 * half
        split = tails > _SHARE * (_LITTLE + totals + new.totals(lines))[line]
        pieces_kept = Pieces(line[~split], middle[~split], half[~split], values[~split])
        totals += pieces_kept.totals(lines)
        done.append(pieces_kept)
        count += len(pieces_kept.line) + 2 * int(split.sum())
        if not split.any() or count > _MOST_PANELS:
            break
        line = np.repeat(line[split], 2)
        half = 0.5 * np.repeat(half[split], 2)
        middle = np.repeat(middle[split], 2) + half * np.tile([-1.0, 1.0], len(half) // 2)
    if split.any():
        return None
    columns = [np.concatenate([getattr(p, name) for p in done]) for name in Pieces.__annotations__]
    order = np.lexsort((columns[1], columns[0]))
    return Pieces(*(part[order] for part in columns))


def ring_points(law: Law, levels: Array, turns: Array) -> Array:
    """Points (n, 3) at these shares of the mass in polar angle, and given it in longitude, (n,).

    Raises
    ------
    ValueError
        If the law's mass is not found, or too narrow to be resolved.
    """
    for polar_panels, ring_panels in _STARTS:
        polar = resolved(_latitudes(law, ring_panels), 1, np.pi, polar_panels)
        if polar is None or not abs(float(polar.masses.sum()) - 1.0) <= _MASS_TOLERANCE:
            continue
        angles, density = polar.quantiles(np.zeros(len(levels), dtype=np.int64), levels)
        longitudes = _longitudes(law, angles, density, turns)
        if longitudes is not None:
            return sphere_points(angles, longitudes)
    raise ValueError(
        f"law must be a probability density on S^2 that rings resolve, but the mass of "
        f"{shown(law)} was "
        f"not found on {_STARTS[-1][0] * ORDER} rings of {_STARTS[-1][1] * ORDER} points"
    )


def _rings(law: Law, polar: Array, panels: int) -> Pieces | None:
    """Return the density over polar angle and longitude on rings at polar angles (n,)."""

    def density(line: Integers, longitudes: Array) -> Array:
        angles = np.repeat(polar[line], ORDER)
        values = checked_pdf(law, sphere_points(angles, longitudes.ravel()))
        return (values * np.sin(angles) / (4.0 * np.pi)).reshape(-1, ORDER)

    return resolved(density, len(polar), 2.0 * np.pi, panels)


def _latitudes(law: Law, panels: int) -> Callable[[Integers, Array], Array]:
    """Return the density of polar angles."""

    def density(_: Integers, places: Array) -> Array:
        polar = places.ravel()
        totals = np.full(len(polar), np.nan)
        for start in range(0, len(polar), _RINGS):
            part = polar[start : start + _RINGS]
            rings = _rings(law, part, panels)
            if rings is not None:
                totals[start : start + _RINGS] = rings.totals(len(part))
        return totals.reshape(places.shape)

    return density


def _longitudes(law: Law, polar: Array, density: Array, turns: Array) -> Array | None:
    """Return longitudes (n,) at shares of rings.

    The answer is None if the mass of a ring misses the density of polar angles.
    """
    longitudes = np.empty(len(polar))
    for start in range(0, len(polar), _RINGS):
        left = np.arange(start, min(start + _RINGS, len(polar)))
        for panels in _RING_PANELS:
            rings = _rings(law, polar[left], panels)
            if rings is None:
                return None
            gap = np.abs(rings.totals(len(left)) - density[left])
            good = np.flatnonzero(gap <= _ALIKE * (density[left] + _LITTLE))
            if len(good):
                longitudes[left[good]], _ = rings.quantiles(good, turns[left[good]])
                left = np.delete(left, good)
            if not len(left):
                break
        if len(left):
            return None
    return longitudes


_PANELS = 4096
# neighbours of a Fibonacci lattice are apart by this share of a turn, the golden section
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


def quantised_points(law: Drawable, n: int, rng: Rng | None = None) -> Array:
    """n points with equal shares of a law's mass: on the circle its quantiles, on S^2 a lattice.

    Circle: the quantiles at (i + u)/n, so that means of smooth functions converge faster than any
    power of n. S^2: a Fibonacci lattice carried over by the law's distribution of polar angles
    (about its axis, if it has one) and, given those, of longitudes.

    Parameters
    ----------
    law : Law
        With a density, on the circle or on S^2.
    n : int
    rng : int or numpy Generator, optional
        For the shift u of the lattice, uniform in [0, 1); 1/2 without one.

    Returns
    -------
    ndarray, shape (n, d)

    Raises
    ------
    ValueError
        If the law lives elsewhere, has no density or one too narrow to be resolved, n < 1, or rng
        is no Generator.

    Examples
    --------
    >>> from meanfield.laws import Uniform
    >>> quantised_points(Uniform(2), 2).round(12) + 0.0
    array([[ 0.,  1.],
           [ 0., -1.]])
    """
    n = integer("n", n, low=1)
    if not isinstance(law, Law) or law.dim not in (2, 3):
        raise ValueError(f"law must be one on the circle or S^2 to be quantised, got {shown(law)}")
    levels, turns = lattice(n, rng)
    if law.dim == 2:
        angles = _quantiles(lambda a: checked_pdf(law, circle_points(a)), 2.0 * np.pi, levels)
        return circle_points(angles)
    axis = symmetry_axis(law)
    if axis is None:
        return ring_points(law, levels, turns)
    polar = _quantiles(lambda a: checked_pdf(law, line_points(a, axis)) * np.sin(a), np.pi, levels)
    return lattice_points(axis, polar, turns)


def lattice(n: int, rng: Rng | None) -> tuple[Array, Array]:
    """Shares (n,) of the mass and turns (n,) of a Fibonacci lattice; with a random shift of each.

    Raises
    ------
    ValueError
        If n < 1, or rng is neither an integer >= 0 nor a numpy Generator.
    """
    n = integer("n", n, low=1)
    shifts = np.array([0.5, 0.5]) if rng is None else generator("rng", rng).random(2)
    return (np.arange(n) + shifts[0]) / n, np.mod(np.arange(n) * _GOLDEN + shifts[1], 1.0)


def lattice_points(axis: Array, polar: Array, turns: Array) -> Array:
    """Points (n, 3) of S^2 at polar angles (n,) and longitudes (n,) about an axis, in turns."""
    across = perpendicular(axis)
    frame = np.array([across, np.cross(axis, across), axis])
    return np.asarray(sphere_points(polar, 2.0 * np.pi * turns) @ frame)


def _quantiles(density: Callable[[Array], Array], end: float, levels: Array) -> Array:
    """Return x in [0, end] with ∫_0^x density / ∫_0^end density = level, to rounding."""
    half = 0.5 * end / _PANELS
    middles = half * (2.0 * np.arange(_PANELS) + 1.0)
    values = density((middles[:, None] + half * NODES).ravel()).reshape(_PANELS, -1)
    # each column has the Legendre coefficients of the mass from the left end of a panel
    slopes: Array = TO_COEFFICIENTS @ values.T
    shares: Array = np.asarray(legint(slopes, lbnd=-1.0), dtype=np.float64)
    cumulative = np.append(0.0, np.cumsum(shares.sum(axis=0)))
    wanted = levels * cumulative[-1]
    panel = np.clip(np.searchsorted(cumulative, wanted, side="right") - 1, 0, _PANELS - 1)
    place = invert(shares[:, panel], slopes[:, panel], wanted - cumulative[panel])
    return np.asarray(middles[panel] + half * place)


# for more nodes weights of the Gauss rule leave double precision
_MOST_NODES = 180


def lorentzian_frequencies(width: float, n: int, centre: float = 0.0) -> tuple[Array, Array]:
    """ω_j = centre + γ tan φ_j at the middles φ_j of n equal parts of (-π/2, π/2).

    These are quantiles of g(ω) = (γ/π)/((ω - centre)² + γ²), for `Oscillators`. As a quadrature
    for an `OscillatorDensity` they are poor: e^{-iωt} has no limit in φ at ±π/2, so that errors
    fall like n^{-3/4} only. There a node of this width is exact: see its `widths`.

    Parameters
    ----------
    width : float
        γ > 0, half the width at half the maximum.
    n : int
        >= 1.
    centre : float

    Returns
    -------
    frequencies, weights : ndarray, shape (n,)

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> lorentzian_frequencies(1.0, 2)[0].round(12)
    array([-1.,  1.])
    """
    width, centre = number("width", width, above=0), number("centre", centre)
    n = integer("n", n, low=1)
    levels = (np.arange(n) + 0.5) / n - 0.5
    return centre + width * np.tan(np.pi * levels), np.full(n, 1.0 / n)


def gaussian_frequencies(deviation: float, n: int, centre: float = 0.0) -> tuple[Array, Array]:
    """Gauss–Hermite nodes and weights of g(ω) = e^{-(ω - centre)²/(2 s²)}/(s sqrt(2π)).

    Up to times of order sqrt(n)/s means over them are those over g: beyond, e^{-iωt} turns faster
    than the nodes can tell, and phases come back together that would not.

    Parameters
    ----------
    deviation : float
        s > 0.
    n : int
        1 to 180.
    centre : float

    Returns
    -------
    frequencies, weights : ndarray, shape (n,)

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> frequencies, weights = gaussian_frequencies(2.0, 5)
    >>> round(float(weights @ frequencies**2), 12)
    4.0
    """
    deviation, centre = number("deviation", deviation, above=0), number("centre", centre)
    nodes, weights = hermegauss(integer("n", n, low=1, high=_MOST_NODES))
    return centre + deviation * nodes, weights / weights.sum()
