"""What the spaces share: records whose tables are made once, by the constructor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from meanfield._records import Record
from meanfield.typing import Array, Coefficients, Indices, Integers, Listed


class Basis(ABC):
    """Harmonics up to a degree, and the layout of coefficients of series of them.

    Attributes
    ----------
    dim, kmax : int
        Ambient dimension d, and the largest degree.
    axis : ndarray, shape (d,), or None
        The axis about which all is symmetric; None on the whole sphere.
    degrees : ndarray, shape (n_coefficients,)
        The degree of each coefficient.
    n_real : int
        The first coefficients, so many, stand for one harmonic each, of order 0, the others for
        two.
    """

    dim: int
    kmax: int
    axis: Array | None
    degrees: Integers
    n_real: int

    def power(self, coefficients: Coefficients) -> Array:
        """Σ |f|² over the harmonics of each degree, (..., kmax + 1), as of the coefficients."""
        squares = coefficients.real**2 + coefficients.imag**2
        squares[..., self.n_real :] *= 2.0
        if len(self.degrees) == self.degrees[-1] + 1:
            return np.asarray(squares)
        return np.asarray(np.bincount(self.degrees, weights=squares), dtype=np.float64)


class Harmonics(Basis):
    """Harmonics at arbitrary points, against which masses are summed."""

    @abstractmethod
    def point_moments(self, points: Array, masses: Array) -> Coefficients:
        """∫ conj(Y) dmu for all Y, shape (n_coefficients,), of masses (n,) at points (n, d)."""

    @abstractmethod
    def resized(self, kmax: int, /) -> Self:
        """The same harmonics up to another degree."""


class Transforms(Protocol):
    """The transforms of a right-hand side: a series to its fields, and a flux to its weak form.

    They hold their buffers, and allocate none once they are made.

    Attributes
    ----------
    values : ndarray, shape (N,)
        The series at the nodes.
    gradient, flux : ndarray, shape (c, N)
        Components along the tangents of the grid: of ∇Σ S_k f_k Y_k with the factors `primitive` of
        the constructor, and of what is moved.
    potential : ndarray, shape (N,)
        Σ s_k f_k Y_k with its factors `potential`; empty where it is not asked for.
    """

    values: Array
    gradient: Array
    potential: Array
    flux: Array

    def evaluate(self, coefficients: Coefficients) -> None:
        """Fill `values`, `gradient` and `potential`."""

    def weak_divergence(self, out: Coefficients) -> None:
        """Write the coefficients of ∫ <flux, ∇Y> dσ, minus the divergence, into `out`."""

    def integral(self, field: Array) -> float:
        """∫ <flux, field> dσ of the components (c, N) of another vector field."""


class Grid(Record, Listed, Basis):
    """A space of spectral coefficients and its grid of N points; each is made once.

    Attributes
    ----------
    points, weights : ndarray, shape (N, d) and (N,)
        The grid, and its quadrature weights of σ.
    size : int
        The number of modes or the largest degree, with which the space was made.
    exactness : int
        The largest degree that the quadrature integrates exactly.
    n_coefficients : int
        The number of coefficients of a series.
    laplacian : ndarray, shape (n_coefficients,)
        k(k + d - 2) of each coefficient of degree k: the eigenvalues of -Δ.
    kind, size_name : str
        The word of case files, and the argument that `size` is.
    coefficient_type : type
        Real or complex.
    size_limit, largest_size : int
        Up to what size a run refines it by itself, and the largest that can be made.
    """

    _for_rooms: ClassVar[Sequence[str]] = (
        *("between_nodes", "coefficient_type", "double", "embed", "evaluate", "exact_size", "kind"),
        *("largest_size", "mean", "power", "resize", "size_limit", "size_name"),
        *("tangent_frame", "transforms"),
    )
    axis: Array | None = None

    size: int
    exactness: int
    n_coefficients: int
    weights: Array
    laplacian: Array
    kind: ClassVar[str]
    size_name: ClassVar[str]
    coefficient_type: ClassVar[type[np.generic]]
    size_limit: ClassVar[int]
    largest_size: ClassVar[int]

    @property
    @abstractmethod
    def points(self) -> Array:
        """The grid, unit rows (N, d)."""

    @abstractmethod
    def exact_size(self, degree: int) -> int:
        """A size whose quadrature integrates harmonics of this degree exactly."""

    @abstractmethod
    def analysis(self, values: Array) -> Coefficients:
        """Coefficients (n_coefficients,) of the values (N,) on the grid."""

    @abstractmethod
    def synthesis(self, coefficients: Coefficients) -> Array:
        """Values (N,) on the grid of the coefficients."""

    @abstractmethod
    def evaluate(self, coefficients: Coefficients, points: Array) -> Array:
        """Values (n,) of a series at arbitrary points (n, d)."""

    @abstractmethod
    def between_nodes(self, coefficients: Coefficients) -> tuple[Array, Array, Array]:
        """Points (M, d) between those of the grid, weights (M,) of about σ, and values there."""

    @abstractmethod
    def mean(self, coefficients: Coefficients) -> Array:
        """∫ x f dσ of a series, shape (d,)."""

    @abstractmethod
    def tangent_frame(self, index: Indices) -> Array:
        """Orthonormal tangents, those that symmetry leaves, at grid points: (c, len(index), d)."""

    @abstractmethod
    def transforms(self, primitive: Array, potential: Array | None = None) -> Transforms:
        """The transforms of one right-hand side, with their buffers."""

    def _keep(self, **tables: object) -> None:
        """Store checked arguments and tables as attributes."""
        vars(self).update(tables)

    def resize(self, size: int) -> Self:
        """The space of another size."""
        space: Any = self
        resized: Self = replace(space, **{self.size_name: size})
        return resized

    def double(self) -> Self:
        """The space with twice as many degrees: twice the modes, or the largest degree 2k + 1."""
        return self.resize(2 * self.size + (self.size == self.kmax))

    def embed(self, coefficients: Coefficients, space: Basis) -> Coefficients:
        """The same function on another space, or in harmonics, of its kind, cut where that ends.

        Shape (..., count), as of the coefficients.
        """
        shape = *coefficients.shape[:-1], len(space.degrees)
        embedded = np.zeros(shape, dtype=self.coefficient_type)
        # both layouts have the same order once degrees are cut at the smaller size
        embedded[..., space.degrees <= self.kmax] = coefficients[..., self.degrees <= space.kmax]
        return embedded
