"""Transforms between a Gauss-Legendre grid and coefficients, by ducc0 or by SHTns."""

from __future__ import annotations

import contextlib
import ctypes
import io
from collections.abc import Callable, Iterator
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import ducc0
import numpy as np
from numpy.typing import NDArray

from meanfield.typing import Array, Coefficients, Integers

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
    """Where c_lm stands in the layout of degree lmax."""
    return np.asarray(orders * (2 * lmax + 1 - orders) // 2 + degrees)


def rings(colatitudes: Array, n_lon: int, first: float | Array = 0.0) -> dict[str, Any]:
    """Rings one after another, as ducc0 takes them: n_lon points on each, from a longitude on."""
    count = len(colatitudes)
    return {
        "theta": colatitudes,
        "nphi": np.full(count, n_lon, dtype=np.uint64),
        "phi0": np.full(count, first),
        "ringstart": np.arange(count, dtype=np.uint64) * np.uint64(n_lon),
    }


def power_by_degree(coefficients: Coefficients, degrees: Integers) -> Array:
    """Σ_m |c_lm|² of each degree, shape (lmax + 1,), of all coefficients of that layout."""
    squares = coefficients.real**2 + coefficients.imag**2
    # orders m > 0 stand for -m, too
    squares[int(degrees[-1]) + 1 :] *= 2.0
    return np.asarray(np.bincount(degrees, weights=squares), dtype=np.float64)


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
    """

    def __init__(self, lmax: int, grid: dict[str, Any], ring_weights: Array) -> None:
        self._lmax, self._grid = lmax, grid
        ones = np.full(len(ring_weights), SQRT_4PI)
        self._forth = {"lmax": lmax, "ringfactor": ones, **grid}
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

    def weak_divergence(self, field: Array, out: Coefficients) -> None:
        """out_lm = ∫ field · ∇ conj(Y_lm) dσ, that is minus the divergence."""
        ducc0.sht.adjoint_synthesis(map=field, alm=out[None], spin=1, mode="DERIV1", **self._back)

    def adjoint(self, flux: Array) -> Callable[[Coefficients], None]:
        """The weak divergence of an array that keeps its place."""
        return partial(self.weak_divergence, flux)

    def filtered(self, factors: Array, last: int) -> DuccFilter:
        """Transforms of Λ f, each degree times its factor (lmax + 1,), 0 beyond the last."""
        starts = positions(np.zeros(1, np.intp), np.arange(last + 1), self._lmax)
        band = {"lmax": last, "mstart": starts.astype(np.uint64)}
        return DuccFilter(factors[layout(self._lmax)[0]] * SQRT_4PI, band | self._grid)


class DuccFilter:
    """f ↦ Λ f and ∇Λ f on the grid, which read no degree beyond the last factor that is not 0."""

    def __init__(self, factors: Array, band: dict[str, Any]) -> None:
        # complex, since numpy would make them so at each call
        self._factors, self._band = factors.astype(np.complex128), band
        self._filtered = np.zeros((1, len(factors)), dtype=np.complex128)

    def values(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with Λ f."""
        np.multiply(self._factors, coefficients, out=self._filtered[0])
        ducc0.sht.synthesis(alm=self._filtered, map=out[None], spin=0, **self._band)

    def gradient(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with ∇Λ f."""
        np.multiply(self._factors, coefficients, out=self._filtered[0])
        ducc0.sht.synthesis(alm=self._filtered, map=out, spin=1, mode="DERIV1", **self._band)


# fewer rings may be too few for its vectors, and it then ends the process
_LEAST_RINGS = 32
# where it was seen to be the faster one
_LARGEST = 127
# those of OpenMP wait by turning, which is slow beside other processes, and do not survive a fork
_THREADS = 1
# bytes to which its arrays must lie
_ALIGNMENT = 16


def suits(lmax: int, n_lat: int) -> bool:
    """Whether a grid for this degree is transformed by SHTns where that is the library."""
    return n_lat >= _LEAST_RINGS and lmax <= _LARGEST


def importable() -> bool:
    """Whether SHTns is there."""
    return _imported() is not None


@cache
def _imported() -> Any:
    """The module, None where it can't be imported."""
    try:
        # it prints a line when imported
        with contextlib.redirect_stdout(io.StringIO()):
            import shtns
    except ImportError:
        return None
    return shtns


@contextlib.contextmanager
def _one_thread(library: Any) -> Iterator[None]:
    """One thread of OpenMP where no number is asked for, as when SHTns makes its tables.

    Others would keep a process that is forked later from ever making any.
    """
    openmp = ctypes.CDLL(library._shtns.__file__)
    if not hasattr(openmp, "omp_set_num_threads"):
        yield
        return
    before = openmp.omp_get_max_threads()
    openmp.omp_set_num_threads(1)
    try:
        yield
    finally:
        openmp.omp_set_num_threads(before)


# its tables take it longer than many a transform
@lru_cache(maxsize=32)
def _made(lmax: int, n_lat: int, n_lon: int) -> Any:
    library = _imported()
    # sht_quick_init: no timing; 0.0: no m is left out near the poles
    flags = library.sht_quick_init | library.SHT_PHI_CONTIGUOUS
    with _one_thread(library):
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
    """

    def __init__(self, lmax: int, n_lat: int, n_lon: int) -> None:
        self._arguments = lmax, n_lat, n_lon
        self._degrees, self._orders = layout(lmax)
        # complex, since numpy would make it so at each call
        self._laplacian = (self._degrees * (self._degrees + 1.0)).astype(np.complex128)

    def __reduce__(self) -> tuple[type[ShtnsPlan], tuple[int, ...]]:
        return type(self), self._arguments

    @cached_property
    def _transforms(self) -> Any:
        """SHTns' own object."""
        return _made(*self._arguments)

    def values(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with f."""
        self._transforms.SH_to_spat(_aligned(coefficients, np.complex128), out)

    def gradient(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with ∇f."""
        self._transforms.SHsph_to_spat(_aligned(coefficients, np.complex128), out[0], out[1])

    def analysis(self, field: Array, out: Coefficients) -> None:
        """out_lm = ∫ field conj(Y_lm) dσ."""
        found = np.empty_like(out)
        self._transforms.spat_to_SH(_aligned(field, np.float64), found)
        out[:] = found

    def weak_divergence(self, field: Array, out: Coefficients) -> None:
        """out_lm = ∫ field · ∇ conj(Y_lm) dσ, that is minus the divergence."""
        self.adjoint(_aligned(field, np.float64))(out)

    def adjoint(self, flux: Array) -> Callable[[Coefficients], None]:
        """The weak divergence of an array that keeps its place."""
        return ShtnsAdjoint(self, flux)

    def filtered(self, factors: Array, last: int) -> ShtnsFilter:
        """Transforms of Λ f, each degree times its factor (lmax + 1,), 0 beyond the last."""
        lmax, n_lat, n_lon = self._arguments
        return ShtnsFilter(ShtnsPlan(last, n_lat, n_lon), factors, lmax)


class ShtnsFilter:
    """f ↦ Λ f and ∇Λ f on the grid, which read no degree beyond that of their plan.

    Parameters
    ----------
    plan : ShtnsPlan
        Of the last degree whose factor is not 0.
    factors : ndarray, shape (lmax + 1,)
    lmax : int
        Degree of f.
    """

    def __init__(self, plan: ShtnsPlan, factors: Array, lmax: int) -> None:
        self._plan = plan
        self._factors = factors[plan._degrees].astype(np.complex128)
        self._places = positions(plan._degrees, plan._orders, lmax)
        self._filtered = np.zeros(len(self._places), dtype=np.complex128)

    def values(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with Λ f."""
        self._plan._transforms.SH_to_spat(self._filter(coefficients), out)

    def gradient(self, coefficients: Coefficients, out: Array) -> None:
        """Fill `out` with ∇Λ f."""
        self._plan._transforms.SHsph_to_spat(self._filter(coefficients), out[0], out[1])

    def _filter(self, coefficients: Coefficients) -> Coefficients:
        np.take(coefficients, self._places, out=self._filtered, mode="clip")
        self._filtered *= self._factors
        return self._filtered


class ShtnsAdjoint:
    """out_lm = ∫ flux · ∇ conj(Y_lm) dσ of one array, with buffers of its own."""

    def __init__(self, plan: ShtnsPlan, flux: Array) -> None:
        self._plan = plan
        self._south, self._east = flux
        self._found, self._rest = np.empty((2, len(plan._degrees)), dtype=np.complex128)

    def __call__(self, out: Coefficients) -> None:
        """Fill `out`."""
        transforms = self._plan._transforms
        transforms.spat_to_SHsphtor(self._south, self._east, self._found, self._rest)
        np.multiply(self._plan._laplacian, self._found, out=out)


def _aligned(given: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """The array, or a copy that lies as SHTns needs it."""
    lies = given.ctypes.data % _ALIGNMENT == 0 and given.flags.c_contiguous
    return given if lies and given.dtype == dtype else np.array(given, dtype=dtype, order="C")
