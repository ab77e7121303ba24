"""Sums of exponentials over weighted points, right to rounding however small they are.

A truncated series of G has an absolute error of rounding times max G, but min G / max G can be
e^{-2β}, and SA divides by G. A sum of positive terms has no such loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from meanfield._checks import tell_apart
from meanfield.kernels.multipliers import bandwidth
from meanfield.spaces import Space, Zonal
from meanfield.spaces.gegenbauer import gauss_gegenbauer
from meanfield.spaces.geometry import polar_angles, project
from meanfield.typing import Array, Indices, NDArray

Precision = type[np.float64 | np.float32]
Reals = NDArray[np.float64 | np.float32]

# a block of so many exponents stays in a core's cache; it has at least so many rows, if they have
# at most so many exponents
_BLOCK, _ROWS, _MOST = 1 << 18, 16, 1 << 21
# in so many dimensions products take more time than exponentials, and longer blocks are faster
_MANY_DIMENSIONS, _LONG_BLOCK = 32, 1 << 19
# for exponents up to this size no largest one is subtracted: their terms span e^600, or e^40
_PLAIN = {np.float64: 300.0, np.float32: 20.0}
# blocks are squares of pairs if exponents are larger, or if the sources would leave the caches
# between two rows
_SQUARES, _SIDE = 256, 512
# exponents are raised to this one, since smaller exponentials are slow; its exponential is then
# subtracted
_NOTHING = {np.float64: -600.0, np.float32: -80.0}
# a number below every exponent, which float32 can hold
_NO_EXPONENT = float(np.finfo(np.float32).min)
# so many products are summed before they are added to others, which bounds the rounding
_DEPTH = 256
# a sum in float32 may have at most this error
_LARGEST_ERROR = 1e-2
# below this share of its scale a series of G has no digits at all
_NO_DIGITS = 1e-14


def blocks(rows: int, columns: int, most: int = 1 << 20) -> Iterator[slice]:
    """Parts of the rows, one after the other, which have at most so many entries each."""
    step = max(1, most // max(1, columns))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


class Lost(NamedTuple):
    """The places where G, as a series, has no digits for a softmax to divide by; their remedy.

    Attributes
    ----------
    below : float
        The share of its scale below which G counts as lost.
    most_pairs : float
        So many terms may be summed in its place, at the smallest G first.
    always : float
        The share below which they are summed however many they are.
    """

    below: float
    most_pairs: float = np.inf
    always: float = 0.0

    def places(self, potential: Array, scale: float | Array, sources: int = 0) -> Indices:
        """The places where G (n,) is lost; `sources` terms would be summed for each."""
        below = np.flatnonzero(potential < self.below * scale)
        if len(below) * sources > self.most_pairs:
            below = below[np.argsort(potential[below], kind="stable")]
            least = int(np.count_nonzero(potential[below] < self.always * scale))
            below = below[: max(int(self.most_pairs // sources), least)]
        return below

    def settle(self, potential: Array, scale: float | Array, then: str, where: str) -> Indices:
        """Make the potential one to divide by, and return the places where G is lost.

        Parameters
        ----------
        potential : ndarray, shape (n,)
        scale : float or ndarray, shape (n,)
        then : {'sum', 'floor', 'refuse'}
            Whether the caller sums positive terms there, G is held at 1e-14 of its scale and
            nothing is lost, or neither can be done.
        where : str
            What the scale is.

        Raises
        ------
        ArithmeticError
            If G is lost somewhere, and the verdict is 'refuse'.
        """
        if then == "floor":
            np.maximum(potential, _NO_DIGITS * scale, out=potential)
            return np.zeros(0, dtype=np.intp)
        places = self.places(potential, scale)
        if len(places) and then == "refuse":
            raise ArithmeticError(
                f"at {len(places)} points G is down to {np.min(potential / scale):.3g} of its "
                f"{where}: give the measure itself as sources"
            )
        potential[places] = 1.0
        return places


def logs(masses: Array) -> Array:
    """log of masses >= 0, -inf of those that are 0.

    Examples
    --------
    >>> logs(np.array([1.0, 0.0]))
    array([  0., -inf])
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(masses))


def float32_error(reach: float, dim: int, masses: Array, name: str = "|z|") -> float:
    """A bound of the error of ∇ log G and log G by products of matrices in float32.

    With u = 2^-24 and k = min(d, 256) + ⌈d/256⌉ - 1, rounding of z and y and the k roundings of a
    product of at most 256 terms at a time, in any order, change <z,y> by (k + 2) u |z| at most
    (Higham 2002, section 3.1); log m less its largest, its sum with <z,y> and the difference to the
    largest exponent of a row add (3|z| + 3Λ) u, Λ = log (max m/min m) of masses > 0. With an
    exponential right to 4 units in the last place a term has the relative error
    η = e^{((k+5)|z| + 3Λ + 10)u} - 1. Terms sum to G in float64. Their products with y are summed
    in float32 512 at a time, then in float64, which adds 514 u (1 + η) G. All terms being positive,
    log G is right to η/(1-η) and ∇ log G to (2η + 514 u (1+η))/(1-η). What is of second order in
    u, and below e^-80 beside the largest term, is in a factor 1.01.

    Parameters
    ----------
    reach : float
        The largest |z|.
    dim : int
        d.
    masses : ndarray, shape (m,)
        >= 0, not all zero, of unit vectors y.
    name : str, optional
        What a message calls the reach.

    Raises
    ------
    ValueError
        If it is above 1e-2.

    Examples
    --------
    >>> [round(float32_error(8.0, dim, np.ones(2)), 5) for dim in (3, 768, 4096)]
    [4e-05, 0.00029, 0.0003]
    """
    rounding = 2.0**-24
    roundings = min(dim, _DEPTH) - (-dim // _DEPTH) + 4
    logs = np.log(masses[masses > 0.0])
    exponent = (roundings * reach + 3.0 * float(np.ptp(logs)) + 10.0) * rounding
    share = float(np.expm1(min(1.01 * exponent, 0.4)))
    error = (2.0 * share + 1.01 * (_SIDE + 2) * rounding * (1.0 + share)) / (1.0 - share)
    if not error <= _LARGEST_ERROR:
        raise ValueError(
            f"{name} = {reach:.6g} is too large for sums='float32' in d = {dim}: no error <= "
            f"{_LARGEST_ERROR:g} is proven; take 'direct'"
        )
    return error


def log_moment(
    sources: Array, masses: Array, z: Array, precision: Precision = np.float64
) -> tuple[Array, Array]:
    """log G(z) and ∇ log G(z) for G(z) = Σ_j m_j e^{<z, y_j>}.

    ∇ log G = Σ_j m_j e^{<z, y_j>} y_j / G is the attention output at the query z. The largest
    exponent is subtracted where e^{|z|} may overflow; every term is positive, so G is right to
    rounding.

    Parameters
    ----------
    sources : ndarray, shape (m, d)
        The points y_j.
    masses : ndarray, shape (m,)
        Their masses m_j >= 0, not all zero.
    z : ndarray, shape (n, d)
        Rows of any length.
    precision : {np.float64, np.float32}
        Of products and exponentials; of unit vectors if float32, see `float32_error`.

    Returns
    -------
    log_g : ndarray, shape (n,)
    mean : ndarray, shape (n, d)
        ∇ log G(z), a convex combination of the sources.

    Raises
    ------
    ValueError
        If float32 has no proven error <= 1e-2.

    Notes
    -----
    O(n m) work in blocks of some 2^18 exponents, so memory stays flat.

    Examples
    --------
    >>> log_g, mean = log_moment(np.eye(2), np.array([0.5, 0.5]), np.array([[1000.0, 0.0]]))
    >>> round(float(log_g[0]), 12), mean
    (999.30685281944, array([[1., 0.]]))
    """
    if precision is np.float32:
        float32_error(float(np.linalg.norm(z, axis=1).max(initial=0.0)), z.shape[1], masses)
    return _log_moment(sources, logs(masses), z, precision)


def _log_moment(
    sources: Array, log_masses: Array, z: Array, precision: Precision = np.float64
) -> tuple[Array, Array]:
    """Return log G and the mean for masses given by logarithms.

    The masses may be too small for a float.
    """
    has_mass = log_masses > -np.inf
    if not has_mass.all():
        sources, log_masses = sources[has_mass], log_masses[has_mass]
    # |<z, y>| is at most this
    largest = float(np.abs(z).max(initial=0.0)) * float(np.abs(sources).sum(axis=1).max())
    # the mean of a single token is the token itself, to the last bit
    if len(log_masses) > 1 and _is_plain(largest, z, precision):
        sums, log_unit = _plain_sums(sources, log_masses, z)
        return log_unit + np.log(sums[:, -1]), sums[:, :-1] / sums[:, -1:]
    mean, totals, log_units = _shifted_sums(sources, log_masses, z, precision=precision)
    mean /= totals[:, None]
    return log_units + np.log(totals), mean


def _is_plain(largest: float, z: Array, precision: Precision) -> bool:
    return largest <= _PLAIN[precision] and z.shape[1] < _SQUARES and precision is np.float64


def _rows_at_once(n: int, m: int, dim: int) -> int:
    block = _BLOCK if dim < _MANY_DIMENSIONS else _LONG_BLOCK
    return max(1, min(n, max(block // m, min(_ROWS, _MOST // m))))


def _plain_sums(
    sources: Array, log_masses: Array, z: Array, *, of_others: bool = False
) -> tuple[Array, float]:
    """Σ_j m_j e^{<z, y_j>} (y_j, 1), shape (n, d + 1), in units of e^{log_unit}, and log_unit.

    Without the terms j = i, if `of_others`. Masses are exponents, and 1 a coordinate of all y, so
    that two products of matrices do all but the exponential.
    """
    n, (m, dim) = len(z), sources.shape
    log_unit = float(log_masses.max())
    keys, queries, values = np.empty((dim + 1, m)), np.ones((n, dim + 1)), np.ones((m, dim + 1))
    keys[:-1], keys[-1] = sources.T, log_masses - log_unit
    queries[:, :-1], values[:, :-1] = z, sources
    sums = np.empty((n, dim + 1))
    step = _rows_at_once(n, m, dim)
    buffer = np.empty((step, m))
    for part in blocks(n, 1, step):
        terms = buffer[: part.stop - part.start]
        np.matmul(queries[part], keys, out=terms)
        with np.errstate(under="ignore"):
            np.exp(terms, out=terms)
            if of_others:
                terms.ravel()[part.start :: m + 1] = 0.0
            np.matmul(terms, values, out=sums[part])
    return sums, log_unit


def _shifted_sums(
    sources: Array,
    log_masses: Array,
    z: Array,
    *,
    of_others: bool = False,
    precision: Precision = np.float64,
) -> tuple[Array, Array, Array]:
    """Sums of m_j e^{<z, y_j>} y_j (n, d) and of m_j e^{<z, y_j>} (n,) over the largest term.

    Its log is the third array. Without the terms j = i, if `of_others`. Products are made in
    squares of pairs, whose sums are added in float64; what was summed before shrinks where a
    larger term is found (Milakov & Gimelshein, arXiv 1805.02867).
    """
    sums, totals = np.zeros(z.shape), np.zeros(len(z))
    log_unit = np.full(len(z), _NO_EXPONENT)
    log_largest = float(log_masses.max())
    log_shares: Reals = (log_masses - log_largest).astype(precision)
    nothing = precision(_NOTHING[precision])
    of_nothing = np.exp(np.full(1, nothing))
    for rows in blocks(len(z), 1, _SIDE):
        queries: Reals = z[rows].astype(precision, copy=False)
        earlier_unit = log_unit[rows]
        for part in blocks(len(sources), 1, _SIDE):
            keys: Reals = sources[part].astype(precision, copy=False)
            terms = _products(queries, keys)
            terms += log_shares[part]
            if of_others and part == rows:
                np.fill_diagonal(terms, -np.inf)
            largest = np.maximum(earlier_unit, terms.max(axis=1))
            terms -= largest[:, None].astype(precision)
            np.maximum(terms, nothing, out=terms)
            with np.errstate(under="ignore"):
                np.exp(terms, out=terms)
                terms -= of_nothing
                shrunk = np.exp(earlier_unit - largest)
                totals[rows] = shrunk * totals[rows] + terms.sum(axis=1, dtype=np.float64)
                if (shrunk != 1.0).any():
                    sums[rows] *= shrunk[:, None]
                sums[rows] += terms @ keys
            earlier_unit[:] = largest
    # no other token has mass beside this one
    log_unit[log_unit == _NO_EXPONENT] = 0.0
    return sums, totals, log_unit + log_largest


def _symmetric_sums(
    points: Array, masses: Array, beta: float, precision: Precision
) -> tuple[Array, Array]:
    """Sums over j ≠ i of m_j e^{β(<x_i, x_j> - 1)} x_j (n, d), and without x_j (n,), over max m.

    In squares of pairs, as `_shifted_sums`; <x_i, x_j> and its exponential are made once for both.
    """
    sums, totals = np.zeros(points.shape), np.zeros(len(points))
    shares: Reals = (masses / masses.max()).astype(precision)
    for rows in blocks(len(points), 1, _SIDE):
        row_points: Reals = points[rows].astype(precision, copy=False)
        queries: Reals = (beta * points[rows]).astype(precision, copy=False)
        for part in blocks(rows.stop, 1, _SIDE):
            part_points: Reals = points[part].astype(precision, copy=False)
            terms = _products(queries, part_points)
            terms -= precision(beta)
            np.exp(terms, out=terms)
            if part == rows:
                np.fill_diagonal(terms, 0.0)
            else:
                weighted = terms.T * shares[rows]
                totals[part] += weighted.sum(axis=1, dtype=np.float64)
                sums[part] += weighted @ row_points
            terms *= shares[part]
            totals[rows] += terms.sum(axis=1, dtype=np.float64)
            sums[rows] += terms @ part_points
    return sums, totals


def _products(queries: Reals, keys: Reals) -> Reals:
    """<z,y> of rows z (n, d) and y (m, d), at most 256 products at a time, in their precision."""
    first, *others = blocks(keys.shape[1], 1, _DEPTH)
    total: Reals = queries[:, first] @ keys[:, first].T
    for part in others:
        total += queries[:, part] @ keys[:, part].T
    return total


def pull_of_others(
    points: Array, masses: Array, beta: float, precision: Precision = np.float64
) -> tuple[Array, Array, Array]:
    """The pull of the others on each token, P_x Σ_{j≠i} m_j e^{β<x_i, x_j>} x_j.

    A token's pull on itself is radial and P_x removes it, up to rounding of 1e-16 e^β, which
    is more than all others pull with where these are far.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        Unit rows.
    masses : ndarray, shape (n,)
        >= 0, not all zero.
    beta : float
    precision : {np.float64, np.float32}
        As of `log_moment`, without its check.

    Returns
    -------
    pull : ndarray, shape (n, d)
        In units of e^{log_unit}.
    log_unit : ndarray, shape (n,)
        Such that pulls are held.
    log_g : ndarray, shape (n,)
        log G(βx_i), own terms included.

    Examples
    --------
    >>> pull, log_unit, log_g = pull_of_others(np.eye(2), np.array([0.5, 0.5]), 1000.0)
    >>> pull, log_unit.round(12), log_g.round(9)
    (array([[0., 1.],
           [1., 0.]]), array([-0.69314718, -0.69314718]), array([999.306852819, 999.306852819]))
    """
    with np.errstate(divide="ignore", under="ignore"):
        log_masses = np.log(masses)
        if _is_plain(beta, points, precision):
            sums, u = _plain_sums(points, log_masses, beta * points, of_others=True)
            pull, totals, log_unit = sums[:, :-1].copy(), sums[:, -1], np.full(len(points), u)
        elif beta <= _PLAIN[precision]:
            pull, totals = _symmetric_sums(points, masses, beta, precision)
            log_unit = np.full(len(points), beta + float(log_masses.max()))
        else:
            pull, totals, log_unit = _shifted_sums(
                points, log_masses, beta * points, of_others=True, precision=precision
            )
        log_of_others = log_unit + np.log(totals)
    pull -= np.vecdot(pull, points)[:, None] * points
    return pull, log_unit, np.logaddexp(log_of_others, beta + log_masses)


# a table of up to so many pairs is kept
_MOST_PAIRS = 1 << 24


class PairSums:
    """Sums of e^{β(<x,y>-1)} over masses at points, at these points, for many masses.

    They are over all pairs, in any dimension; a table of up to 2^24 pairs is kept.

    Parameters
    ----------
    points : ndarray, shape (n, d)
    beta : float

    Examples
    --------
    >>> sums = PairSums(np.eye(2), 1.0)
    >>> sums.potential(np.array([0.0, 1.0])).round(6)
    array([0.367879, 1.      ])
    """

    def __init__(self, points: Array, beta: float) -> None:
        self._points, self._beta = points, beta
        n = len(points)
        self._table = self._rows(slice(0, n)) if n * n <= _MOST_PAIRS else None

    def _rows(self, part: slice) -> Array:
        with np.errstate(under="ignore"):
            exponents = self._points[part] @ (self._beta * self._points).T
            return np.asarray(np.exp(np.minimum(exponents - self._beta, 0.0)))

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        n = len(self._points)
        if self._table is not None:
            yield slice(0, n), self._table
            return
        for part in blocks(n, n, 1 << 21):
            yield part, self._rows(part)

    def potential(self, masses: Array) -> Array:
        """G = Σ_j k_ij m_j, shape (n,)."""
        with np.errstate(under="ignore"):
            return np.concatenate([rows @ masses for _, rows in self._blocks()])

    def pull(self, masses: Array) -> tuple[Array, Array]:
        """G (n,) and P_x Σ_j k_ij m_j y_j, shape (n, d), without a node's pull on itself."""
        weighted, pull = masses[:, None] * self._points, np.empty_like(self._points)
        potential = np.empty(len(masses))
        with np.errstate(under="ignore"):
            for part, rows in self._blocks():
                potential[part] = rows @ masses
                rows_of_others = rows.copy()
                rows_of_others[np.arange(len(rows)), np.arange(part.start, part.stop)] = 0.0
                pull[part] = rows_of_others @ weighted
        return potential, project(self._points, pull)


def latitude_log_moment(
    axis: Array, cosines: Array, sines: Array, log_masses: Array, z: Array
) -> tuple[Array, Array]:
    """log G(z) and ∇ log G(z) of masses spread evenly over circles of latitude about an axis.

    The integral over each latitude is a Gauss sum over u = <y', z'>, where y' and z' are the
    directions of y and z across the axis; the sum then lives in two dimensions.

    Parameters
    ----------
    axis : ndarray, shape (d,)
    cosines, sines : ndarray, shape (m,)
        Of the polar angle of each latitude.
    log_masses : ndarray, shape (m,)
        -inf where there is no mass.
    z : ndarray, shape (n, d)
    """
    latitudes = Latitudes(axis, np.column_stack([cosines, sines]), z)
    u, shares = latitude_rule(axis.size, float(latitudes.queries[:, 1].max()))
    spread = np.add.outer(log_masses, logs(shares)).ravel()
    log_g, reduced = _log_moment(latitudes.sources(u), spread, latitudes.queries)
    return log_g, latitudes.vectors(reduced)


def point_log_moment(
    points: Array, log_masses: Array, z: Array, axis: Array | None
) -> tuple[Array, Array]:
    """log G(z) and ∇ log G(z) of masses at points, or on the latitudes of points about an axis.

    Masses are told by their logarithms, since they may be too small for a float.
    """
    if axis is None:
        return _log_moment(points, log_masses, z)
    polar = polar_angles(points, axis)
    return latitude_log_moment(axis, np.cos(polar), np.sin(polar), log_masses, z)


class Latitudes:
    """Sums over latitudes, each with its mass spread evenly, in two dimensions.

    Parameters
    ----------
    axis : ndarray, shape (d,)
    places : ndarray, shape (m, 2)
        Cosine and sine of the polar angle of each latitude.
    at : ndarray, shape (n, d)

    Attributes
    ----------
    queries : ndarray, shape (n, 2)
        The parts of `at` along the axis and across it.
    """

    def __init__(self, axis: Array, places: Array, at: Array) -> None:
        self._axis, self._places = axis, places
        along = at @ axis
        across = at - np.outer(along, axis)
        radius = np.linalg.norm(across, axis=1)
        self.queries = np.column_stack([along, radius])
        self._direction = across / np.where(radius > 0.0, radius, 1.0)[:, None]

    def sources(self, u: Array) -> Array:
        """Points (m · len(u), 2) that stand for the latitudes, by the nodes u of a rule on each."""
        cosines, sines = self._places.T
        return np.column_stack([np.repeat(cosines, len(u)), np.outer(sines, u).ravel()])

    def vectors(self, reduced: Array) -> Array:
        """Vectors (n, d) of sums (n, 2) of the sources at the queries."""
        return np.outer(reduced[:, 0], self._axis) + reduced[:, 1:] * self._direction


def means(z: Array, sources: tuple[Array, Array]) -> tuple[Array, Array]:
    """Means of y (n, d) and of y yᵀ (n, d, d) under p ∝ m e^{<z,y>} at rows z, by positive sums."""
    has_mass = sources[1] > 0.0
    y, log_masses = sources[0][has_mass], np.log(sources[1][has_mass])
    dim = y.shape[1]
    pairs = np.einsum("ij,ik->ijk", y, y).reshape(-1, dim * dim)
    features = np.column_stack([np.ones(len(y)), y, pairs])
    sums = np.empty((len(z), features.shape[1]))
    for part in blocks(len(z), len(y)):
        terms = z[part] @ y.T + log_masses
        terms -= terms.max(axis=1)[:, None]
        with np.errstate(under="ignore"):
            np.exp(terms, out=terms)
            sums[part] = terms @ features
    sums /= sums[:, :1].copy()
    return sums[:, 1 : dim + 1], sums[:, dim + 1 :].reshape(-1, dim, dim)


def grid_log_moment(space: Space, values: Array, z: Array) -> tuple[Array, Array]:
    """log G(z) and ∇ log G(z) of the density with these values on the grid of a space.

    Parameters
    ----------
    space : Circle, Sphere or Zonal
    values : ndarray, shape (N,)
        At ``space.points``, all >= 0.
    z : ndarray, shape (n, d)

    Examples
    --------
    >>> from meanfield.spaces import Circle
    >>> grid_log_moment(Circle(8), np.ones(12), np.zeros((1, 2)))[0].round(15) + 0.0
    array([0.])
    """
    masses = space.weights * values
    if isinstance(space, Zonal):
        return latitude_log_moment(space.axis, space.nodes, space.sines, logs(masses), z)
    return log_moment(space.points, masses, z)


def latitude_rule(dim: int, radius: float) -> tuple[Array, Array]:
    """Nodes u and shares that integrate e^{ru}, r <= radius, over a latitude of S^{d-1}.

    u is the cosine of the angle across the axis.

    Examples
    --------
    >>> latitude_rule(2, 1.0)
    (array([-1.,  1.]), array([0.5, 0.5]))
    """
    if dim == 2:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    return gauss_gegenbauer(dim - 1, bandwidth(radius, dim - 1) // 2 + 2)


def moment(log_g: Array, mean: Array) -> tuple[Array, Array]:
    """G and ∇G from log G and ∇ log G.

    Raises
    ------
    ValueError
        If G overflows.

    Examples
    --------
    >>> moment(np.zeros(1), np.ones((1, 2)))
    (array([1.]), array([[1., 1.]]))
    """
    if log_g.max() > 709.0:
        raise ValueError(
            f"z must have rows with log G(z) <= 709, got "
            f"{tell_apart(log_g.max(), 709.0)[0]}: ask for log_moment"
        )
    g = np.exp(log_g)
    return g, g[:, None] * mean
