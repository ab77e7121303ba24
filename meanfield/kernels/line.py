"""Kernels between angles, and their sums over a measure, gathered into Chebyshev nodes of a line.

The angles are those of points of the circle, or of latitudes of a sphere S^{d-1}. Kernels return
three tables: with K = e^{β(<x,y>-1)}, averaged over both latitudes where d > 2, and ∂ and Δ the
derivative along the target's angle and the Laplacian on the sphere,

    K,   ∂K/β,   ΔK/β,

of which G, X and div X of a measure are sums. All three are finite at β = 0, and each is right
relative to the size of K at its own pair of points, however small that is. For a head of attention
with a = V∇K along the target's angle there are four, of which X = A/G and div X follow:

    K = e^{<Mx,y> - |M|},   A,   div A,   ∂K.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import NamedTuple, Self

import numpy as np
from scipy import fft

from meanfield._checks import tell_apart
from meanfield.typing import Array, Indices

_EPS = float(np.finfo(np.float64).eps)
# tables of a circle take 51 kB of memory for each unit of β while they are made, 1 GB in all
LARGEST_CIRCLE_BETA = 2e4
# for a larger β the factor e^{β} of a table leaves double precision
LARGEST_ZONAL_BETA = 150.0

Kernel = Callable[[Array, Array], Array]


class Rows(NamedTuple):
    """Which table of a line sums to what; some kernels have no table past the divergence.

    Attributes
    ----------
    potential, pull, divergence : int
        G, A, and div A.
    slope, primitive : int
        ∂G, and the potential of the kernel's primitive.
    """

    potential: int = 0
    pull: int = 1
    divergence: int = 2
    slope: int = 3
    primitive: int = 4


ROWS = Rows()

NODES = 16
ORDER = np.arange(NODES)
# on a cell of so many units of 1/β, e^{βx} is a polynomial of 16 terms to 1e-15
_CELL = 3.0
_RELATIVE_UP_TO = 100.0
_TURN = 2.0 * np.pi
# so many angles are handled at a time, whose Chebyshev polynomials stay in a cache; up to so many
# keep them
_BLOCK, _MOST_ANGLES = 1 << 13, 1 << 14

CHEBYSHEV = np.cos(np.pi * (ORDER + 0.5) / NODES)
# the Lagrange polynomials are ℓ_j(x) = Σ_k T_k(x) LAGRANGE[k, j]
LAGRANGE = np.cos(np.pi * np.outer(ORDER, ORDER + 0.5) / NODES) * (2.0 / NODES)
LAGRANGE[0] *= 0.5


def circle_kernel(beta: float, targets: Array, sources: Array) -> Array:
    """K, ∂K/β and ΔK/β for angles on the circle: e^{β(cos a - 1)}, a = target - source.

    Parameters
    ----------
    beta : float
    targets, sources : ndarray
        Angles, which broadcast against each other.

    Returns
    -------
    ndarray, shape (3, ...)

    Examples
    --------
    >>> circle_kernel(2.0, np.array(0.0), np.array(0.0)) + 0.0
    array([ 1.,  0., -1.])
    """
    differences = targets - sources
    sine, half = np.sin(differences), np.sin(0.5 * differences)
    with np.errstate(under="ignore"):
        kernel = np.exp(-2.0 * beta * half * half)
        laplacian = (beta * sine * sine - 1.0 + 2.0 * half * half) * kernel
        return np.stack([kernel, -sine * kernel, laplacian])


def zonal_kernel(beta: float, dim: int, targets: Array, sources: Array) -> Array:
    """K, ∂K/β and ΔK/β for polar angles about one axis of S^{d-1}, d >= 3, averaged over latitudes.

    With <x,y> = c + s u, c = cos φ cos ψ, s = sin φ sin ψ and u the cosine between the directions
    across the axis, a point of S^{n-1}, n = d - 1: ∫ e^{xu} = ₀F₁(n/2; x²/4) = A,
    ∫ u e^{xu} = x B/n and ∫ (1 - u²) e^{xu} = (n-1) B/n with B = ₀F₁(n/2 + 1; x²/4).

    Parameters
    ----------
    beta : float
        At most 150.
    dim : int
        d >= 3.
    targets, sources : ndarray
        Polar angles φ and ψ in [0, π], which broadcast against each other.

    Returns
    -------
    ndarray, shape (3, ...)

    Examples
    --------
    >>> zonal_kernel(0.0, 3, np.array(0.0), np.array(np.pi / 2)).round(15) + 0.0
    array([1., 0., 0.])
    """
    n = dim - 1
    cos_t, sin_t, cos_s, sin_s = np.cos(targets), np.sin(targets), np.cos(sources), np.sin(sources)
    c, s = cos_t * cos_s, sin_t * sin_s
    x = beta * s
    with np.errstate(under="ignore"):
        size = np.exp(beta * (c - 1.0))
        even, odd = size * _bessel_series(0.5 * n, x), size * _bessel_series(0.5 * n + 1.0, x)
        slope_of_mean = x / n * odd
        slope = cos_t * sin_s * slope_of_mean - sin_t * cos_s * even
        across = (cos_t * sin_s) ** 2 + (sin_t * cos_s) ** 2
        distance = across * even - 2.0 * c * s * slope_of_mean + s * s * (n - 1.0) / n * odd
        return np.stack([even, slope, beta * distance - n * (c * even + s * slope_of_mean)])


def circle_head_kernel(
    query: Array, value: Array, log_unit: float, targets: Array, sources: Array
) -> Array:
    """K = e^{<Mx,y> - u}, A = <∂x, Vy> K, ∂A and ∂K for angles on the circle.

    Parameters
    ----------
    query, value : ndarray, shape (2, 2)
        M and V.
    log_unit : float
        u, at least |M|.
    targets, sources : ndarray
        Angles, which broadcast against each other.

    Returns
    -------
    ndarray, shape (4, ...)

    Examples
    --------
    >>> circle_head_kernel(np.eye(2), np.eye(2), 1.0, np.array(0.0), np.array(0.0)) + 0.0
    array([ 1.,  0., -1.,  0.])
    """
    y = np.cos(sources), np.sin(sources)
    x, along = (np.cos(targets), np.sin(targets)), (-np.sin(targets), np.cos(targets))

    def paired(matrix: Array, left: tuple[Array, Array]) -> Array:
        """<left, matrix y>."""
        first = left[0] * matrix[0, 0] + left[1] * matrix[1, 0]
        return np.asarray(first * y[0] + (left[0] * matrix[0, 1] + left[1] * matrix[1, 1]) * y[1])

    with np.errstate(under="ignore"):
        kernel = np.exp(paired(query.T, x) - log_unit)
        slope, pull = paired(query.T, along), paired(value, along)
        spread = pull * slope - paired(value, x)
        return np.stack([kernel, pull * kernel, spread * kernel, slope * kernel])


def zonal_head_kernel(
    query: tuple[float, complex],
    value: tuple[float, complex],
    log_unit: float,
    dim: int,
    targets: Array,
    sources: Array,
) -> Array:
    """K = e^{<Mx,y> - u}, A, div A and ∂K for polar angles on S^{d-1}, averaged over latitudes.

    M and V are multiples of the identity along the axis and across it, where d = 3 complex ones: a
    turn about the axis. With k and a of M, p and q of V, ρ = Re(q a), s = sin φ sin ψ, and ₀F₁ as
    in `zonal_kernel` at |a| s,

        A = e^{k cos φ cos ψ - u} (-p sin φ cos ψ ₀F₁(n/2) + ρ cos φ sin ψ (s/n) ₀F₁(n/2 + 1)).

    What goes round the axis moves no latitude.

    Parameters
    ----------
    query, value : (float, complex)
        Multiples along the axis and across it.
    log_unit : float
        u, at least |M|.
    dim : int
        d >= 3.
    targets, sources : ndarray
        Polar angles φ and ψ in [0, π], which broadcast against each other.

    Returns
    -------
    ndarray, shape (4, ...)

    Examples
    --------
    >>> one = (1.0, 1.0 + 0.0j)
    >>> zonal_head_kernel(one, one, 1.0, 3, np.array(0.0), np.array(0.0)) + 0.0
    array([ 1.,  0., -2.,  0.])
    """
    n, (k, across), (p, value_across) = dim - 1, query, value
    rho, squared = float((value_across * across).real), float(abs(across) ** 2)
    cos_t, sin_t, cos_s, sin_s = np.cos(targets), np.sin(targets), np.cos(sources), np.sin(sources)
    s = sin_t * sin_s
    x = float(abs(across)) * s
    with np.errstate(under="ignore"):
        weight = np.exp(k * cos_t * cos_s - log_unit)
        even, odd, third = (weight * _bessel_series(0.5 * n + i, x) for i in range(3))
        slope, steep = -k * sin_t * cos_s, squared * s * cos_t * sin_s
        d_even = slope * even + steep / n * odd
        d_odd = slope * odd + steep / (n + 2.0) * third
        # A = sin φ · along, so that cot φ A needs no division
        along = -p * cos_s * even + rho / n * cos_t * sin_s**2 * odd
        d_along = -p * cos_s * d_even + rho / n * sin_s**2 * (cos_t * d_odd - sin_t * odd)
        spread = n * cos_t * along + sin_t * d_along
        return np.stack([even, sin_t * along, spread, d_even])


def _bessel_series(a: float, x: Array) -> Array:
    """Return ₀F₁(a; x²/4) = Σ_j (x²/4)^j / (j! (a)_j), whose terms are all positive."""
    quarter = 0.25 * x * x
    largest = float(np.max(quarter, initial=0.0))
    term, total, j = np.ones_like(quarter), np.ones_like(quarter), 0
    bound = peak = 1.0
    with np.errstate(under="ignore"):
        while bound > 0.1 * _EPS * peak or largest > 0.5 * (j + 1.0) * (a + j):
            factor = 1.0 / ((j + 1.0) * (a + j))
            term *= factor * quarter
            total += term
            bound *= factor * largest
            peak = max(peak, bound)
            j += 1
    return total


def node_count(dim: int, reach: float) -> int:
    """The nodes of all cells on the circle (dim 2), or on polar angles, for e^{reach · x}.

    Examples
    --------
    >>> node_count(2, 9.0) // NODES, node_count(3, 9.0) // NODES
    (23, 13)
    """
    cells = (4 if dim == 2 else 3) + int(np.ceil(_length(dim) * reach / _CELL))
    return cells * NODES


def _length(dim: int) -> float:
    return _TURN if dim == 2 else float(np.pi)


class Line(ABC):
    """Cells of a line of angles with 16 nodes each, and a kernel's tables between the nodes.

    Parameters
    ----------
    dim : int
        2 for the circle; else for the polar angles of S^{d-1}.
    reach : float
        The tables may vary like e^{reach · x} along the line.
    kernel : callable
        The tables between angles of targets and of sources, shape (number of tables, ...).

    Attributes
    ----------
    dim : int
    kernel : callable
    size : int
        Number of nodes of all cells.
    tables : int
        Number of tables.
    relative : bool
        Whether each potential is right relative to its own size.
    """

    tables: int
    relative: bool

    def __init__(self, dim: int, reach: float, kernel: Kernel) -> None:
        self.dim, self.size, self.kernel = dim, node_count(dim, reach), kernel
        self._cells = self.size // NODES
        self._width = _length(dim) / self._cells

    @abstractmethod
    def fields(self, charges: Array, tables: int | None = None) -> Array:
        """The (first) tables summed over charges (size,) at the nodes, shape (size, tables)."""

    @cached_property
    def nodes(self) -> Array:
        """The angles of the nodes, cell by cell, shape (size,)."""
        middles = self._width * (np.arange(self._cells) + 0.5)
        return (middles[:, None] + 0.5 * self._width * CHEBYSHEV).ravel()

    @cached_property
    def rooms(self) -> Array:
        """Buffers for the sums of a block of angles, which allocate nothing large."""
        return np.empty((3, NODES * _BLOCK))

    def cells(self, angles: Array) -> tuple[Indices, Array]:
        """The cell of each angle, and its place there in [-1, 1]."""
        if self.dim == 2:
            scaled = angles / _TURN
            scaled -= np.floor(scaled)
            scaled *= self._cells
        else:
            scaled = np.clip(angles, 0.0, np.pi) / self._width
        index = scaled.astype(np.intp)
        np.minimum(index, self._cells - 1, out=index)
        scaled -= index
        scaled *= 2.0
        scaled -= 1.0
        return index, scaled


class CircleLine(Line):
    """Cells on the circle, and a kernel of differences of angles as a block circulant product.

    Above a reach of 100 the product is taken by Fourier transforms of the cells; its error is then
    one of rounding relative to the largest potential.

    Parameters
    ----------
    reach : float
        At most 20000; β of e^{βt}.
    kernel : callable

    Raises
    ------
    ValueError
        If the reach is too large.
    """

    def __init__(self, reach: float, kernel: Kernel) -> None:
        if reach > LARGEST_CIRCLE_BETA:
            raise ValueError(
                f"beta, or reach of a kernel, must be <= {LARGEST_CIRCLE_BETA:g} for sums "
                f"over the circle, whose tables take 51 kB of memory for each unit of it, got "
                f"{tell_apart(reach, LARGEST_CIRCLE_BETA)[0]}: take Particles with sums='direct'"
            )
        super().__init__(2, reach, kernel)
        self.relative = reach <= _RELATIVE_UP_TO
        local = 0.5 * self._width * CHEBYSHEV
        sources = np.arange(self._cells)[:, None] * self._width + local
        tables = kernel(local, sources[..., None])
        self.tables = len(tables)
        # rows are source cell and node, columns table and target node
        blocks = tables.transpose(1, 2, 0, 3).reshape(self._cells, NODES, self.tables * NODES)
        if self.relative:
            self._around = (np.arange(self._cells)[:, None] + np.arange(self._cells)) % self._cells
            self._blocks = np.ascontiguousarray(blocks.reshape(self.size, -1))
        else:
            self._spectrum = fft.rfft(blocks, axis=0).conj()

    def fields(self, charges: Array, tables: int | None = None) -> Array:
        """See `Line`."""
        tables = self.tables if tables is None else tables
        cells = charges.reshape(self._cells, NODES)
        if self.relative:
            blocks = self._blocks[:, : tables * NODES]
            stacked = cells[self._around].reshape(self._cells, -1) @ blocks
        else:
            modes = fft.rfft(cells, axis=0)[:, None] @ self._spectrum[..., : tables * NODES]
            stacked = fft.irfft(modes[:, 0], n=self._cells, axis=0)
        fields: Array = stacked.reshape(self._cells, tables, NODES).transpose(0, 2, 1)
        return fields.reshape(self.size, tables)


class DenseLine(Line):
    """Any kernel between nodes on the circle or on the polar angles of S^{d-1}.

    Each sum of positive terms is right relative to its own size.

    Parameters
    ----------
    dim : int
    reach : float
    kernel : callable, optional
        If omitted there are no tables, as where no sums are asked for.
    """

    relative = True

    def __init__(self, dim: int, reach: float, kernel: Kernel | None = None) -> None:
        super().__init__(dim, reach, kernel or _no_kernel)
        self.tables = len(self.kernel(self.nodes[:1], self.nodes[:1]))

    @cached_property
    def _tables(self) -> Array:
        """The tables between the nodes, made when sums first use them, (tables · size, size)."""
        return self.kernel(self.nodes[:, None], self.nodes).reshape(-1, self.size)

    def fields(self, charges: Array, tables: int | None = None) -> Array:
        """See `Line`."""
        tables_used = self._tables if tables is None else self._tables[: tables * self.size]
        return np.asarray((tables_used @ charges).reshape(-1, self.size).T)


def _no_kernel(targets: Array, sources: Array) -> Array:
    """Return no tables, for a field without sums."""
    return np.zeros((0, *np.broadcast_shapes(targets.shape, sources.shape)))


class FinerLine(Line):
    """A kernel whose charges and sums are at the nodes of finer cells than it asks for.

    So kernels of several reaches share what was gathered once. Polynomials take the charges to the
    nodes of its own cells, and its sums back: both to rounding.

    Parameters
    ----------
    line : Line
    reach : float
        Of the finer cells.
    """

    def __init__(self, line: Line, reach: float) -> None:
        super().__init__(line.dim, reach, line.kernel)
        self.tables, self.relative = line.tables, line.relative
        self._line, self._between = line, Interpolation(line, self.nodes)

    def fields(self, charges: Array, tables: int | None = None) -> Array:
        """See `Line`."""
        fields = self._line.fields(self._between.gather(charges), tables)
        return self._between.evaluate(fields).T


def line(beta: float, dim: int) -> Line:
    """The cells for angles of the circle (dim 2) or polar angles of S^{dim-1}, and e^{βt} on them.

    Raises
    ------
    ValueError
        If β is too large.
    """
    if dim == 2:
        return CircleLine(beta, partial(circle_kernel, beta))
    return latitude_line(dim, beta, partial(zonal_kernel, beta, dim), "beta")


def latitude_line(
    dim: int, reach: float, kernel: Kernel, name: str, of: str = "flow maps"
) -> DenseLine:
    """Cells on the polar angles of S^{d-1}, and a kernel of this reach between them.

    Raises
    ------
    ValueError
        If it varies faster than tables between latitudes hold, naming what is too large.
    """
    if reach > LARGEST_ZONAL_BETA:
        raise ValueError(
            f"{name} must be <= {LARGEST_ZONAL_BETA:g} for {of} about an axis, in dim = {dim}, "
            f"got {tell_apart(reach, LARGEST_ZONAL_BETA)[0]}: take Particles"
        )
    # angles to an axis use the line of d = 3 also on the circle
    return DenseLine(max(dim, 3), reach, kernel)


# up to so many pairs a table of them is kept: in three tables each takes 24 bytes
_MOST_KEPT = 1 << 20
# a block has a slice of angles, their cells, and T_k at their places there, shape (16, n)
_Block = tuple[slice, Indices, Array]


class Interpolation:
    """Between angles of a line and the 16 nodes of the cell that each is in.

    Sums over masses at the angles take two steps. `gather` makes charges at the nodes, which hang
    on no kernel; `evaluate`, its adjoint, takes the sums of a kernel over charges from the nodes to
    the angles.

    The Chebyshev polynomials of up to 2^14 angles are kept; those of more are made again, in
    blocks, for each sum.

    Parameters
    ----------
    cells : Line
    angles : ndarray, shape (n,)
    """

    def __init__(self, cells: Line, angles: Array) -> None:
        self._cells, self._angles = cells, angles
        is_small = len(angles) <= _MOST_ANGLES
        self._kept = list(self._made(np.empty(NODES * len(angles)))) if is_small else None

    def _made(self, room: Array) -> Iterator[_Block]:
        """Yield the angles block by block.

        If `room` holds fewer than all blocks, the next overwrites the last.
        """
        for start in range(0, len(self._angles), _BLOCK):
            part = slice(start, start + _BLOCK)
            index, place = self._cells.cells(self._angles[part])
            room_start = NODES * start % max(len(room), 1)
            terms = room[room_start : room_start + NODES * len(index)].reshape(NODES, -1)
            chebyshev(place, terms)
            yield part, index, terms

    def gather(self, masses: Array) -> Array:
        """Masses at the first angles as charges at the nodes, shape (size,)."""
        size, (room, share, index) = self._cells.size, self._cells.rooms
        moments = np.zeros(size)
        # for each polynomial its moments in all cells
        row_starts = ORDER[:, None] * (size // NODES)
        for part, cell, terms in self._kept or self._made(room):
            part_masses = masses[part]
            count = NODES * len(part_masses)
            shares, near = share[:count], index.view(np.intp)[:count]
            np.multiply(terms[:, : len(part_masses)], part_masses, out=shares.reshape(NODES, -1))
            np.add(row_starts, cell[: len(part_masses)], out=near.reshape(NODES, -1))
            moments += np.bincount(near, shares, size)
        return np.asarray((moments.reshape(NODES, -1).T @ LAGRANGE).ravel())

    def evaluate(self, fields: Array) -> Array:
        """Values (tables, n) at the angles of what has values (size, tables) at the nodes."""
        # for each table the Chebyshev series of its cells side by side
        cells = LAGRANGE @ fields.reshape(len(fields) // NODES, NODES, fields.shape[1])
        series = np.ascontiguousarray(cells.transpose(2, 0, 1))
        values = np.empty((fields.shape[1], len(self._angles)))
        room, by_angle, near = self._cells.rooms
        for part, cell, terms in self._kept or self._made(room):
            each, there = (r[: terms.size].reshape(-1, NODES) for r in (by_angle, near))
            each[:] = terms.T
            for value, coefficients in zip(values[:, part], series, strict=True):
                np.vecdot(each, coefficients.take(cell, axis=0, out=there, mode="clip"), out=value)
        return values


class LineSums:
    """Sums over masses that sit at angles of a line, at these angles.

    Parameters
    ----------
    cells : Line
    angles : ndarray, shape (n,)
    gathered : int, optional
        So many of the first masses act through the cells' nodes, the others one by one; default n.
    nodes : Interpolation, optional
        Of these angles and as many cells, which several sums may share.
    """

    def __init__(
        self,
        cells: Line,
        angles: Array,
        gathered: int | None = None,
        nodes: Interpolation | None = None,
    ) -> None:
        self._cells, self._nodes = cells, nodes or Interpolation(cells, angles)
        self._gathered = len(angles) if gathered is None else gathered
        self._angles, self._places = angles, angles[self._gathered :]

    @cached_property
    def _kept(self) -> Array | None:
        """Return K, ∂K/β and ΔK/β of the atoms' places at all angles, shape (3, n, count).

        The answer is None for too many atoms.
        """
        is_small = len(self._angles) * len(self._places) <= _MOST_KEPT
        return self._cells.kernel(self._angles[:, None], self._places) if is_small else None

    @classmethod
    def repeated(cls, cells: Line, angles: Array, gathered: int | None = None) -> Self:
        """The sums for many sets of masses: one by one where that is less work."""
        # a table of pairs takes as long as some ten sums through the nodes of cells for this many
        # angles
        is_small = 2 * len(angles) <= cells.size and len(angles) ** 2 <= _MOST_KEPT
        if is_small and cells.dim == 2:
            return cls(cells, angles, 0)
        many = gathered is not None and len(angles) * (len(angles) - gathered) > _MOST_KEPT
        return cls(cells, angles, None if many else gathered)

    def gather(self, masses: Array) -> Array:
        """Charges (size,) at the nodes, of the masses (n,) that act through them."""
        mass = masses[: self._gathered]
        return self._nodes.gather(mass) if len(mass) else np.zeros(self._cells.size)

    def evaluate(self, charges: Array, masses: Array, tables: int | None = None) -> Array:
        """The (first) tables (tables, n) summed at the angles, over charges and single masses."""
        tables = self._cells.tables if tables is None else tables
        n_gathered, sums = self._gathered, np.zeros((tables, len(masses)))
        if n_gathered and tables:
            sums = self._nodes.evaluate(self._cells.fields(charges, tables))
        if n_gathered == len(masses) or not tables:
            return sums
        if self._kept is not None:
            return np.asarray(sums + self._kept[:tables] @ masses[n_gathered:])
        for place, mass in zip(self._places, masses[n_gathered:], strict=True):
            sums += mass * self._cells.kernel(self._angles, place)[:tables]
        return sums

    def __call__(self, masses: Array, tables: int | None = None) -> Array:
        """The (first) tables summed over the masses (n,), shape (tables, n); see `KernelOnLine`."""
        return self.evaluate(self.gather(masses), masses, tables)

    def potential(self, masses: Array) -> Array:
        """G at the angles, shape (n,), of masses (n,) >= 0."""
        potential = self(masses, 1)[0]
        # on the circle K = 1 at a mass itself, and a sum with errors is at least its own term
        return np.asarray(np.maximum(potential, masses) if self._cells.dim == 2 else potential)


def chebyshev(place: Array, terms: Array) -> None:
    """Write T_k(place), k = 0 … 15, into the rows of `terms`, shape (16, n)."""
    terms[0], terms[1] = 1.0, place
    twice = 2.0 * place
    for k in range(2, NODES):
        np.multiply(twice, terms[k - 1], out=terms[k])
        terms[k] -= terms[k - 2]
