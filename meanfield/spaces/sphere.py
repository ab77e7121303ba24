"""Spherical harmonics on S^2: the grid, its transforms by ducc0 or SHTns, and series on rings."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import ducc0
import numpy as np

from meanfield._checks import integer, shown
from meanfield._records import key
from meanfield.spaces.geometry import GOLDEN, sphere_angles, sphere_points
from meanfield.spaces.grid import Grid
from meanfield.typing import Array, Coefficients, Indices, Integers

SQRT_4PI = float(np.sqrt(4.0 * np.pi))


def layout(lmax: int) -> tuple[Integers, Integers]:
    """Degrees and orders of coefficients: m = 0 … lmax, for each l = m … lmax.

    Examples
    --------
    >>> layout(1)
    (array([0, 1, 1]), array([0, 0, 1]))
    """
    size = lmax + 1
    orders = np.repeat(np.arange(size), size - np.arange(size))
    return np.concatenate([np.arange(m, size) for m in range(size)]), orders


def positions(degrees: Integers, orders: Integers, lmax: int) -> Integers:
    """The index of c_lm in the layout of degree lmax."""
    return np.asarray(orders * (2 * lmax + 1 - orders) // 2 + degrees)


# rings as keyword arguments of ducc0
Rings = dict[str, object]


def rings(colatitudes: Array, n_lon: int, first: float | Array = 0.0) -> Rings:
    """Rings one after another, as ducc0 takes them: n_lon points on each, from a longitude on."""
    count = len(colatitudes)
    return {
        "theta": colatitudes,
        "nphi": np.full(count, n_lon, dtype=np.uint64),
        "phi0": np.full(count, first),
        "ringstart": np.arange(count, dtype=np.uint64) * np.uint64(n_lon),
    }


class DuccPlan:
    """Transforms of one degree on a grid; fields are (N,), vector fields (2, N) along θ and φ.

    Parameters
    ----------
    lmax : int
        Degree of the coefficients, which may be less than the grid resolves.
    grid : dict
        What ducc0 calls a grid.
    ring_weights : ndarray, shape (n_lat,)
        The quadrature weight of σ at each point of a ring.
    unit : float
        What values and gradients are multiplied by: ducc0's harmonics are orthonormal in area.
    """

    def __init__(self, lmax: int, grid: Rings, ring_weights: Array, unit: float = SQRT_4PI) -> None:
        self._grid, self._ring_weights = grid, ring_weights
        self.unit = unit
        self._forth = {"lmax": lmax, "ringfactor": np.full(len(ring_weights), unit), **grid}
        self._back = {"lmax": lmax, "ringfactor": ring_weights * SQRT_4PI, **grid}

    def values(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with f."""
        ducc0.sht.synthesis(alm=coefficients[None], map=out[None], spin=0, **self._forth)

    def gradient(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with ∇f."""
        ducc0.sht.synthesis(alm=coefficients[None], map=out, spin=1, mode="DERIV1", **self._forth)

    def analysis(self, field: Array, out: Coefficients) -> None:
        """out_lm = ∫ field conj(Y_lm) dσ."""
        ducc0.sht.adjoint_synthesis(map=field[None], alm=out[None], spin=0, **self._back)

    def weak_divergence(self, field: Array, out: Coefficients, room: object = None) -> None:  # noqa: ARG002 (of SHTns)
        """out_lm = ∫ field · ∇ conj(Y_lm) dσ, that is minus the divergence."""
        ducc0.sht.adjoint_synthesis(map=field, alm=out[None], spin=1, mode="DERIV1", **self._back)

    def of_degree(self, lmax: int) -> DuccPlan:
        """Transforms of a lower degree on the same grid, for coefficients times `unit`."""
        return DuccPlan(lmax, self._grid, self._ring_weights, 1.0)


# SHTns ends the process if there are too few rings for its vector instructions
_LEAST_RINGS = 32
# measurements showed SHTns to be faster up to this degree
_LARGEST = 127
# threads of OpenMP wait in a loop, are slow beside other processes, and do not survive a fork
_THREADS = 1
# arrays of SHTns begin at a multiple of this many bytes
_ALIGNMENT = 16
# this lock is held while settings of the whole process change: each of two threads would restore
# the settings of the other
_ALONE = threading.Lock()


@cache
def _imported() -> Any:
    """Return the module of SHTns, None if it can't be imported."""
    try:
        # SHTns prints a line when it is imported
        with _ALONE, contextlib.redirect_stdout(io.StringIO()):
            import shtns
    except ImportError:
        return None
    return shtns


# SHTns takes longer to make its tables than for many a transform, so they are kept
@lru_cache(maxsize=32)
def _made(lmax: int, n_lat: int, n_lon: int) -> Any:
    from threadpoolctl import threadpool_limits

    library = _imported()
    # sht_quick_init takes no timings; 0.0 leaves out no order near the poles
    flags = library.sht_quick_init | library.SHT_PHI_CONTIGUOUS
    # with more threads of OpenMP a process that is forked later could never make tables
    with _ALONE, threadpool_limits(1, "openmp"):
        made = library.sht(lmax, lmax, 1, library.sht_fourpi, _THREADS)
        made.set_grid(n_lat, n_lon, flags, 0.0, 1)
    return made


class ShtnsPlan:
    """Transforms of one degree on a grid; fields are (N,), vector fields (2, N) along θ and φ.

    Nothing is chosen by timing, so results repeat to the bit.

    Parameters
    ----------
    lmax : int
        Degree of the coefficients, which may be less than the grid resolves.
    n_lat, n_lon : int
        Rings, at least 32, and points on each.
    filtered : bool
        Whether coefficients are those of a `Filter`, which lie as SHTns needs them.
    """

    unit = 1.0

    def __init__(self, lmax: int, n_lat: int, n_lon: int, *, filtered: bool = False) -> None:
        self._arguments, self._filtered = (lmax, n_lat, n_lon), filtered
        degrees, _ = layout(lmax)
        # the factors are complex, since numpy would convert them at each call
        self._laplacian = (degrees * (degrees + 1.0)).astype(np.complex128)

    @cached_property
    def _transforms(self) -> Any:
        """Return the object of SHTns."""
        return _made(*self._arguments)

    def values(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with f."""
        self._transforms.SH_to_spat(self._lying(coefficients), out)

    def gradient(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with ∇f."""
        self._transforms.SHsph_to_spat(self._lying(coefficients), out[0], out[1])

    def _lying(self, coefficients: Coefficients) -> Coefficients:
        return coefficients if self._filtered else _aligned(coefficients, np.complex128)

    def analysis(self, field: Array, out: Coefficients) -> None:
        """out_lm = ∫ field conj(Y_lm) dσ."""
        modes = np.empty_like(out)
        self._transforms.spat_to_SH(_aligned(field, np.float64), modes)
        out[:] = modes

    def weak_divergence(
        self, field: Array, out: Coefficients, room: Coefficients | None = None
    ) -> None:
        """out_lm = ∫ field · ∇ conj(Y_lm) dσ, minus the divergence, by way of a room (2, n)."""
        # callers that give a room give a field of their own, which lies as SHTns needs it
        south, east = _aligned(field, np.float64) if room is None else field
        size = 2, len(self._laplacian)
        modes, rest = np.empty(size, dtype=np.complex128) if room is None else room
        self._transforms.spat_to_SHsphtor(south, east, modes, rest)
        np.multiply(self._laplacian, modes, out=out)

    def of_degree(self, lmax: int) -> ShtnsPlan:
        """Transforms of a lower degree on the same grid, for coefficients times `unit`."""
        return ShtnsPlan(lmax, *self._arguments[1:], filtered=True)


def _aligned(array: Coefficients, dtype: type[np.generic]) -> Coefficients:
    """Return the array, or a copy that is aligned as SHTns needs it."""
    lies = array.ctypes.data % _ALIGNMENT == 0 and array.flags.c_contiguous
    return array if lies and array.dtype == dtype else np.array(array, dtype=dtype, order="C")


Plan = DuccPlan | ShtnsPlan


class Filter:
    """f ↦ A f and ∇A f on the grid, which read no degree beyond the last factor that is not 0.

    Parameters
    ----------
    plan : DuccPlan or ShtnsPlan
        Of f on the grid.
    factors : ndarray, shape (lmax + 1,)
        Of A, one for each degree of f.
    """

    def __init__(self, plan: Plan, factors: Array) -> None:
        last_degree = max(1, int(np.max(np.nonzero(factors)[0], initial=0)))
        degrees, orders = layout(last_degree)
        self._plan = plan.of_degree(last_degree)
        self._places = positions(degrees, orders, len(factors) - 1)
        # the factors are complex, since numpy would convert them at each call
        self._factors = (factors[degrees] * plan.unit).astype(np.complex128)
        self._filtered = np.zeros(len(degrees), dtype=np.complex128)

    def values(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with A f."""
        self._plan.values(self._filter(coefficients), out)

    def gradient(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with ∇A f."""
        self._plan.gradient(self._filter(coefficients), out)

    def _filter(self, coefficients: Coefficients) -> Coefficients:
        return np.multiply(coefficients[self._places], self._factors, out=self._filtered)


class SphereTransforms:
    """f, the gradient of S f and, if wanted, a potential s f on the grid; and the adjoint of ∇.

    S and s multiply each degree by a factor; their transforms stop at the last factor that is not
    zero. No field is allocated after construction.

    Parameters
    ----------
    plan : DuccPlan or ShtnsPlan
        Plan for the space's degree on its grid.
    weights : ndarray, shape (n_lat, n_lon)
        Quadrature weights of σ on the grid, the same at all points of a ring.
    primitive : ndarray, shape (lmax + 1,)
        The factors S_k.
    potential : ndarray, shape (lmax + 1,), optional
        The factors s_k.

    Attributes
    ----------
    values : ndarray, shape (N,)
    gradient, flux : ndarray, shape (2, N)
        Components along the colatitude θ and the longitude φ.
    potential : ndarray, shape (N,)
        Its values on the grid; of length 0 where none is wanted.
    """

    def __init__(
        self, plan: Plan, weights: Array, primitive: Array, potential: Array | None = None
    ) -> None:
        self._plan, self._weights = plan, weights
        count = weights.size
        self.values: Array = np.empty(count)
        self.gradient: Array = np.empty((2, count))
        self.flux: Array = np.empty((2, count))
        self.potential: Array = np.empty(0 if potential is None else count)
        self._room = np.empty((2, len(primitive) * (len(primitive) + 1) // 2), dtype=np.complex128)
        self._primitive_filter = Filter(plan, primitive)
        self._potential_filter = None if potential is None else Filter(plan, potential)

    def evaluate(self, coefficients: Coefficients) -> None:
        """Fill `values`, `gradient` and `potential`."""
        self._plan.values(coefficients, self.values)
        self._primitive_filter.gradient(coefficients, self.gradient)
        if self._potential_filter is not None:
            self._potential_filter.values(coefficients, self.potential)

    def weak_divergence(self, out: Coefficients) -> None:
        """out_lm = ∫ `flux` · ∇ conj(Y_lm) dσ, that is minus the divergence."""
        self._plan.weak_divergence(self.flux, out, self._room)

    def integral(self, field: Array) -> float:
        """∫ `flux` · field dσ over the components of two vector fields, shape (2, N)."""
        flux, second = (each.reshape(2, *self._weights.shape) for each in (self.flux, field))
        return float((np.vecdot(flux, second) @ self._weights[:, 0]).sum())


def _inner(values: Array) -> Array:
    return np.asarray((1.0 - GOLDEN) * values[:-1] + GOLDEN * values[1:])


Library = Literal["ducc0", "shtns"]

_TWO_THREADS_FROM = 127


@dataclass(frozen=True, repr=False, eq=False)
class Sphere(Grid):
    """f = Σ_{l <= lmax} Σ_m c_lm Y_lm on a Gauss-Legendre grid of S^2.

    The Y_lm are orthonormal with respect to σ (c_00 = 1 for the uniform density) with the
    Condon-Shortley phase; c_{l,-m} = (-1)^m conj(c_lm) is not stored. The grid has at least
    3(lmax + 1)/2 rings, on which the product of two such series has no aliasing error in the
    degrees kept.

    Parameters
    ----------
    lmax : int
        Largest degree, 3 <= lmax <= 2047.
    library : {"shtns", "ducc0"}, optional
        The library of transforms on the grid for 20 <= lmax <= 127; beyond, and at other points, it
        is ducc0. The default is SHTns where it can be imported, else ducc0. Both are right to
        rounding and repeat to the bit; a larger or smaller space made of this one keeps it.

    Attributes
    ----------
    dim, axis : 3, None
        Grids of all of S^2 have no axis.
    library : str
        "shtns" or "ducc0".
    size, kmax : int
        lmax.
    colatitudes : ndarray, shape (n_lat,)
        Colatitude of each ring.
    n_lon : int
        Points on each ring, longitudes 2πj/n_lon.
    points : ndarray, shape (N, 3)
        Ring by ring from the north pole, N = n_lat · n_lon.
    weights : ndarray, shape (N,)
        Quadrature weights of σ.
    degrees, orders : ndarray of int, shape (n_coefficients,)
        l and m of each coefficient: m = 0 … lmax, for each l = m … lmax.
    laplacian : ndarray, shape (n_coefficients,)
        l(l+1) of each coefficient, the eigenvalues of -Δ.
    exactness : int
        Largest degree whose harmonics the quadrature integrates exactly.

    Raises
    ------
    ValueError
        If lmax is out of range, or the library is another one or can't be imported.

    Examples
    --------
    >>> space = Sphere(3)
    >>> space.analysis(np.ones(len(space.weights))).real.round(14)[:2] + 0.0
    array([1., 0.])
    """

    lmax: int = field(metadata=key("the largest degree, 3 to 2047", int, minimum=3, maximum=2047))
    library: Library | None = field(
        default=None,
        metadata=key("what transforms on the grid; SHTns where it is if left out", Library),
    )

    _for_rooms: ClassVar[Sequence[str]] = ("make_plan",)
    dim = 3
    kind = "sphere"
    size_name = "lmax"
    coefficient_type = np.complex128
    largest_size = 2047
    size_limit = 511

    if TYPE_CHECKING:
        # annotated as class variables, tables are no fields of the dataclass
        n_lon: ClassVar[int]
        colatitudes: ClassVar[Array]
        orders: ClassVar[Integers]
        grid: ClassVar[Rings]
        _plan: ClassVar[Plan]

    def __post_init__(self) -> None:
        size = integer("lmax", self.lmax, low=3, high=self.largest_size)
        self._keep(lmax=size, size=size, kmax=size, library=_checked_library(self.library))
        n_lat = (3 * (size + 1) + 1) // 2
        n_lon = 2 * int(ducc0.fft.good_size(3 * (size + 1) // 2, True))
        colatitudes = ducc0.misc.GL_thetas(n_lat)
        ring_weights = ducc0.misc.GL_weights(n_lat, n_lon) / (4.0 * np.pi)
        self._keep(n_lon=n_lon, exactness=min(2 * n_lat - 1, n_lon - 1), colatitudes=colatitudes)
        self._keep(weights=np.repeat(ring_weights, n_lon))
        degrees, orders = layout(size)
        self._keep(degrees=degrees, orders=orders, laplacian=degrees * (degrees + 1.0))
        self._keep(n_real=size + 1, n_coefficients=len(degrees))
        threads = 2 if size >= _TWO_THREADS_FROM else 1
        self._keep(grid=rings(colatitudes, n_lon) | {"nthreads": threads})
        self._keep(_plan=self.make_plan(size))

    def __repr__(self) -> str:
        return f"Sphere({self.lmax})"

    def make_plan(self, lmax: int) -> Plan:
        """Transforms of coefficients of this degree on the grid; beyond its own by ducc0."""
        rings = len(self.colatitudes)
        is_quick = rings >= _LEAST_RINGS and lmax <= self.size <= _LARGEST
        if self.library == "shtns" and is_quick:
            return ShtnsPlan(lmax, rings, self.n_lon)
        return DuccPlan(lmax, self.grid, self.weights[:: self.n_lon])

    @cached_property
    def points(self) -> Array:
        """The grid as points, shape (N, 3)."""
        longitudes = 2.0 * np.pi / self.n_lon * np.arange(self.n_lon)
        return sphere_points(
            np.repeat(self.colatitudes, self.n_lon), np.tile(longitudes, len(self.colatitudes))
        )

    def tangent_frame(self, index: Indices) -> Array:
        """Unit vectors along θ and φ at the grid points `index`, shape (2, len(index), 3)."""
        theta = self.colatitudes[index // self.n_lon]
        phi = 2.0 * np.pi / self.n_lon * (index % self.n_lon)
        cosine = np.cos(theta)
        south = np.column_stack([cosine * np.cos(phi), cosine * np.sin(phi), -np.sin(theta)])
        east = np.column_stack([-np.sin(phi), np.cos(phi), np.zeros(len(index))])
        return np.stack([south, east])

    def analysis(self, values: Array) -> Coefficients:
        """Coefficients c_lm = ∫ f conj(Y_lm) dσ of the values (N,) on the grid."""
        coefficients = np.empty(self.n_coefficients, dtype=np.complex128)
        self._plan.analysis(np.ascontiguousarray(values), coefficients)
        return coefficients

    def synthesis(self, coefficients: Coefficients) -> Array:
        """Values (N,) on the grid of the coefficients."""
        values = np.empty(len(self.weights))
        self._plan.values(coefficients, values)
        return values

    def evaluate(self, coefficients: Coefficients, points: Array) -> Array:
        """Values (n,) at arbitrary points (n, 3); each point is a ring of its own, O(n lmax²)."""
        colatitudes, longitudes = sphere_angles(points)
        return self._on_rings(coefficients, colatitudes, longitudes, 1)

    def _on_rings(
        self, coefficients: Coefficients, colatitudes: Array, first: float | Array, n_lon: int
    ) -> Array:
        """Return values ring by ring, at n_lon longitudes of each ring from its `first` on."""
        grid = rings(colatitudes, n_lon, first) | {"nthreads": self.grid["nthreads"]}
        values = ducc0.sht.synthesis(alm=coefficients[None], lmax=self.size, spin=0, **grid)
        return np.asarray(values[0] * SQRT_4PI)

    def between_nodes(self, coefficients: Coefficients) -> tuple[Array, Array, Array]:
        """Points (M, 3) between those of the grid, weights (M,) of about σ, and values there."""
        n_lon, rings = self.n_lon, _inner(self.colatitudes)
        angle = 2.0 * np.pi / n_lon * GOLDEN
        values = self._on_rings(coefficients, rings, angle, n_lon)
        longitudes = angle + 2.0 * np.pi / n_lon * np.arange(n_lon)
        points = sphere_points(np.repeat(rings, n_lon), np.tile(longitudes, len(rings)))
        return points, np.repeat(_inner(self.weights[::n_lon]), n_lon), values

    def mean(self, coefficients: Coefficients) -> Array:
        """∫ x f dσ, shape (3,)."""
        polar, across = coefficients[1].real, np.sqrt(2.0 / 3.0) * coefficients[self.size + 1]
        return np.array([-across.real, across.imag, polar / np.sqrt(3.0)])

    def exact_size(self, degree: int) -> int:
        """The least size whose quadrature integrates harmonics of this degree exactly."""
        return max(3, (integer("degree", degree, low=0) + 1) // 3)

    def transforms(self, primitive: Array, potential: Array | None = None) -> SphereTransforms:
        """Transforms of one right-hand side with their buffers, see `SphereTransforms`."""
        weights = self.weights.reshape(-1, self.n_lon)
        return SphereTransforms(self._plan, weights, primitive, potential)


def available(library: object) -> Library:
    """The library if it can be imported, else ducc0: what a file's series are looked at with.

    Raises
    ------
    ValueError
        If it is neither "shtns" nor "ducc0".
    """
    if not isinstance(library, str) or library not in ("shtns", "ducc0"):
        raise ValueError(f'library must be "shtns" or "ducc0", got {shown(library)}')
    return "shtns" if library == "shtns" and _imported() else "ducc0"


def _checked_library(library: Library | None) -> Library:
    name = available("shtns" if library is None else library)
    if library is not None and name != library:
        raise ValueError(
            f'library must be "ducc0" or None where SHTns is not installed, got {shown(library)}: '
            f'pip install "meanfield-attention[shtns]"'
        )
    return name
