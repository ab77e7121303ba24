"""Eigenfunctions of the kernel e^{β<x,Dy>}, in harmonics that share the symmetries of D."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh
from scipy.special import sph_harm_y

from meanfield.kernels.direct import latitude_log_moment, log_moment
from meanfield.kernels.multipliers import log_eigenvalues
from meanfield.measures.density import Density
from meanfield.spaces import Circle, Places, Sphere, SphereAt, Zonal
from meanfield.spaces.gegenbauer import gauss_gegenbauer, gegenbauer, multiplicities
from meanfield.spaces.geometry import axial_matrix, axial_part, perpendicular
from meanfield.typing import Array, Indices


@dataclass(frozen=True)
class ZonalBasis:
    """p_k(<x, axis>), k = 0, 2, …, kmax, orthonormal under σ; on the circle cosines about the axis.

    Parameters
    ----------
    axis : ndarray, shape (d,)
    kmax : int
        Even.
    """

    axis: Array
    kmax: int
    most_degrees: ClassVar[int] = 1000
    least_exponent: ClassVar[float] = 0.0

    @property
    def dim(self) -> int:
        """Ambient dimension d."""
        return len(self.axis)

    @cached_property
    def degrees(self) -> Indices:
        """Of each function, ascending."""
        return np.arange(0, self.kmax + 1, 2)

    def at(self, points: Array) -> Array:
        """Values at unit rows (N, d), shape (N, number of functions)."""
        t = np.clip(points @ self.axis, -1.0, 1.0)
        values = gegenbauer(self.dim, self.kmax, t)[::2]
        norms = np.sqrt(multiplicities(self.dim, self.kmax)[::2])
        return np.ascontiguousarray((values * norms[:, None]).T)

    def asymmetry(self, matrix: Array) -> float:
        """The norm of what a matrix has beyond the symmetry about the axis."""
        along, across = axial_part(matrix, self.axis)
        symmetric = axial_matrix(along, across.real, self.axis)
        return float(np.linalg.norm(matrix - symmetric, 2))

    def _meridian(self, cosines: Array) -> Array:
        sines = np.sqrt((1.0 - cosines) * (1.0 + cosines))
        return np.asarray(np.outer(cosines, self.axis) + np.outer(sines, perpendicular(self.axis)))

    def nodes(self) -> tuple[Array, Array]:
        """Points and weights of σ that integrate products of two functions and x_i²."""
        t, weights = gauss_gegenbauer(self.dim, self.kmax + 2)
        return self._meridian(t), weights

    def probes(self, n: int) -> Array:
        """Points (n, d) from the equator to the axis."""
        return self._meridian(np.cos(np.linspace(0.0, 0.5 * np.pi, n)))

    def potential(self, masses: Array, z: Array) -> Array:
        """G(z) of masses >= 0 at the nodes, spread by the basis' symmetry, shape (len(z),)."""
        t = np.clip(self.nodes()[0] @ self.axis, -1.0, 1.0)
        s = np.sqrt((1.0 - t) * (1.0 + t))
        return np.asarray(np.exp(latitude_log_moment(self.axis, t, s, masses, z)[0]))

    def cover(self, radius: float) -> Array:
        """Points of the meridian that leave no point of it farther away than a radius."""
        n = int(np.ceil(0.5 * np.pi / radius)) + 1
        return self._meridian(np.cos(np.linspace(0.0, np.pi, n)))

    def density(self, coefficients: Array) -> Density:
        """The density with these coefficients on the space of its symmetry."""
        is_circle = self.dim == 2
        space = (
            Circle(2 * self.kmax + 8) if is_circle else Zonal(self.dim, self.kmax + 3, self.axis)
        )
        values = self.at(space.points) @ coefficients
        return Density.from_coefficients(space, space.analysis(values))


@dataclass(frozen=True)
class SphereBasis:
    """Harmonics on S^2 that are even in each of three axes: √2 Re Y_lm, l and m even.

    Parameters
    ----------
    axes : ndarray, shape (3, 3)
        Orthonormal rows.
    kmax : int
        Even.
    """

    axes: Array
    kmax: int
    dim: ClassVar[int] = 3
    most_degrees: ClassVar[int] = 90
    # functions of one degree differ by (β|D|)² there: errors are 1e-16 over that
    least_exponent: ClassVar[float] = 1e-3

    @cached_property
    def _orders(self) -> Indices:
        return np.concatenate([np.arange(0, k + 1, 2) for k in range(0, self.kmax + 1, 2)])

    @cached_property
    def degrees(self) -> Indices:
        """Of each function, ascending."""
        return np.concatenate([np.full(k // 2 + 1, k) for k in range(0, self.kmax + 1, 2)])

    def at(self, points: Array) -> Array:
        """Values at unit rows (N, 3), shape (N, number of functions)."""
        x, y, z = (points @ self.axes.T).T
        polar, azimuth = np.arctan2(np.hypot(x, y), z), np.arctan2(y, x)
        values = sph_harm_y(self.degrees, self._orders, polar[:, None], azimuth[:, None]).real
        return np.asarray(values * np.sqrt(4.0 * np.pi * np.where(self._orders > 0, 2.0, 1.0)))

    def asymmetry(self, matrix: Array) -> float:
        """The norm of what a matrix has beyond reflections of the axes."""
        turned = self.axes @ matrix @ self.axes.T
        return float(np.linalg.norm(turned - np.diag(np.diag(turned)), 2))

    def _octant(self, cosines: Array, azimuths: Array) -> Array:
        t, phi = (a.ravel() for a in np.meshgrid(cosines, azimuths, indexing="ij"))
        s = np.sqrt((1.0 - t) * (1.0 + t))
        return np.asarray(np.column_stack([s * np.cos(phi), s * np.sin(phi), t]) @ self.axes)

    def nodes(self) -> tuple[Array, Array]:
        """Points of an octant, and weights of σ that integrate products of two functions and x²."""
        t, weights = gauss_gegenbauer(3, 2 * ((self.kmax + 3) // 2))
        upper = t > 0.0
        n = self.kmax // 2 + 2
        azimuths = 0.5 * np.pi * (np.arange(n) + 0.5) / n
        masses = np.repeat(2.0 * weights[upper] / n, n)
        return self._octant(t[upper], azimuths), masses

    def probes(self, n: int) -> Array:
        """Some n points of an octant with its corners and edges."""
        side = int(np.ceil(np.sqrt(n)))
        angles = np.linspace(0.0, 0.5 * np.pi, side)
        return self._octant(np.cos(angles), angles)

    def _mirrored(self, points: Array) -> Array:
        """Their images in all octants, shape (8 n, 3)."""
        signs = np.array(list(product((1.0, -1.0), repeat=3)))
        images = (points @ self.axes.T) * signs[:, None]
        return np.asarray(images.reshape(-1, 3) @ self.axes)

    def potential(self, masses: Array, z: Array) -> Array:
        """G(z) of masses >= 0 at the nodes, spread by the basis' symmetry, shape (len(z),)."""
        log_g, _ = log_moment(self._mirrored(self.nodes()[0]), np.tile(masses / 8.0, 8), z)
        return np.asarray(np.exp(log_g))

    def cover(self, radius: float) -> Array:
        """Points of an octant that leave no point of it farther away than a radius."""
        # a cell's corner is nearer to its middle than half its diagonal at the equator
        angles = np.linspace(0.0, 0.5 * np.pi, int(np.ceil(np.sqrt(0.125) * np.pi / radius)) + 1)
        return self._octant(np.cos(angles), angles)

    def density(self, coefficients: Array) -> Density:
        """The density with these coefficients, by quadrature over all octants."""
        points, weights = self.nodes()
        masses = weights * (self.at(points) @ coefficients) / 8.0
        kmax = max(3, self.kmax)
        moments = SphereAt(kmax).moments(Places.of(self._mirrored(points)), np.tile(masses, 8))
        return Density.from_coefficients(Sphere(kmax), moments)


Basis = ZonalBasis | SphereBasis

_PROBES = 40


@dataclass(frozen=True)
class Eigenfunctions:
    """Coefficients of the eigenfunctions of a kernel, block by block of one degree.

    Attributes
    ----------
    vectors : ndarray, shape (n, n)
        Row by row an eigenfunction, each block normalised.
    logs : ndarray, shape (n, number of blocks)
        Log of the norm of each block, so that no coefficient underflows.
    log_eigenvalues : ndarray, shape (n,)
        Log of the kernel's eigenvalues, all positive where D is.
    starts : ndarray of int
        First function of each block.
    """

    vectors: Array
    logs: Array
    log_eigenvalues: Array
    starts: Indices

    def constant_preimage(self) -> tuple[Array, float]:
        """f of mass 1 with ∫ e^{β<x,Dy>} f(y) dσ(y) = E for all x, and E = ∬ e^{β<x,Dy>} f f.

        f = E Σ_n ψ_n <1,ψ_n>/λ_n, 1/E = Σ_n <1,ψ_n>²/λ_n.
        """
        log_first, sign = self.logs[:, :1], np.sign(self.vectors[:, :1])
        log_share = log_first - self.log_eigenvalues[:, None] + self.logs
        sizes = np.diff(np.append(self.starts, self.vectors.shape[1]))
        with np.errstate(under="ignore"):
            terms = sign * self.vectors * np.repeat(np.exp(log_share), sizes, axis=1)
        total = terms.sum(axis=0)
        return total / total[0], 1.0 / float(total[0])


def eigenfunctions(basis: Basis, matrix: Array, beta: float) -> Eigenfunctions:
    """All eigenfunctions up to the basis' degree, each coefficient right relative to its own size.

    Parameters
    ----------
    basis : Basis
    matrix : ndarray, shape (d, d)
        Positive definite, of the basis' symmetry.
    beta : float
        > 0.
    """
    degrees, dim = basis.degrees.astype(np.float64), basis.dim
    points, weights = basis.nodes()
    values = basis.at(points)
    squares = np.einsum("ij,ij->i", points @ matrix, points @ matrix)
    operator = -(beta**2) * (values * (weights * squares)[:, None]).T @ values
    operator[np.diag_indices_from(operator)] += degrees * (degrees + dim - 2.0)
    # a product with x_i x_j reaches the next even degree at most
    operator[np.abs(degrees[:, None] - degrees) > 2.0] = 0.0
    starts = np.flatnonzero(np.diff(degrees, prepend=-1.0))
    vectors, logs = _chains(0.5 * (operator + operator.T), starts)
    return Eigenfunctions(vectors, logs, _log_values(basis, matrix, beta, vectors, logs), starts)


def _chains(matrix: Array, starts: Indices) -> tuple[Array, Array]:
    """Eigenvectors by recurrence from both ends to their largest block.

    A routine for dense matrices leaves rounding of the largest coefficient in all; the recurrences
    run in the direction in which they are stable, and keep the digits of small ones.
    """
    # of a matrix graded from small to large, QR iterations keep the digits of small eigenvalues
    energies, dense = eigh(matrix, driver="ev")
    stops = np.append(starts[1:], len(matrix))
    blocks = [slice(a, b) for a, b in zip(starts, stops, strict=True)]
    norms = np.sqrt(np.add.reduceat(dense**2, starts, axis=0)).T
    peaks = np.argmax(norms, axis=1)
    vectors, logs = np.zeros_like(dense), np.full(norms.shape, -np.inf)
    for n, peak in enumerate(peaks):
        vectors[n, blocks[peak]] = dense[blocks[peak], n] / norms[n, peak]
        logs[n, peak] = 0.0
    for order in (range(len(blocks)), range(len(blocks) - 1, -1, -1)):
        # the blocks from this end up to each eigenvector's peak
        place, ways = np.argsort(order)[peaks], list(pairwise(order))
        steps: list[tuple[Indices, Array]] = []
        for at, (i, onward) in enumerate(ways):
            # ψ_i = steps ψ_onward, for the eigenvectors whose peak is still ahead
            ahead = np.asarray(np.flatnonzero(place > at), dtype=np.intp)
            diagonal, coupling = matrix[blocks[i], blocks[i]], -matrix[blocks[i], blocks[onward]]
            own = diagonal - energies[ahead, None, None] * np.eye(len(diagonal))
            if at > 0:
                known, before = steps[-1]
                kept = before[np.searchsorted(known, ahead)]
                own += matrix[blocks[i], blocks[order[at - 1]]] @ kept
            given = np.broadcast_to(coupling, (len(ahead), *coupling.shape))
            steps.append((ahead, np.asarray(np.linalg.solve(own, given), dtype=np.float64)))
        for (i, onward), (ahead, step) in zip(ways[::-1], steps[::-1], strict=True):
            found = np.einsum("nij,nj->ni", step, vectors[ahead, blocks[onward]])
            size = np.linalg.norm(found, axis=1)
            vectors[ahead, blocks[i]] = found / size[:, None]
            logs[ahead, i] = logs[ahead, onward] + np.log(size)
    largest = logs.max(axis=1, keepdims=True)
    logs -= largest + 0.5 * np.log(np.exp(2.0 * (logs - largest)).sum(axis=1, keepdims=True))
    return vectors, logs


def _log_values(basis: Basis, matrix: Array, beta: float, vectors: Array, logs: Array) -> Array:
    """log λ_n = log (Kψ_n)(x)/ψ_n(x), at the point x where both sums cancel least.

    (Kψ)(x) = Σ_k Λ_k(β|Dx|) ψ_k(Dx/|Dx|) by Funk-Hecke. Where |Dx| is small, its terms have one
    sign; where it is large, they cancel.
    """
    points = basis.probes(_PROBES)
    images = points @ matrix
    lengths = np.linalg.norm(images, axis=1)
    here, there = basis.at(points), basis.at(images / lengths[:, None])
    starts = np.flatnonzero(np.diff(basis.degrees, prepend=-1))
    multipliers = np.array(
        [log_eigenvalues(beta * length, basis.dim, basis.kmax)[::2] for length in lengths]
    )
    found = np.empty(len(vectors))
    for n, (vector, log) in enumerate(zip(vectors, logs, strict=True)):
        exponents = multipliers + log
        unit = float(exponents.max())
        with np.errstate(under="ignore"):
            above = np.add.reduceat(there * vector, starts, axis=1) * np.exp(exponents - unit)
            below = np.add.reduceat(here * vector, starts, axis=1) * np.exp(log)
        image, value = above.sum(axis=1), below.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            loss = np.abs(above).sum(axis=1) / np.abs(image)
            loss += np.abs(below).sum(axis=1) / np.abs(value)
        best = int(np.argmin(np.where(np.isfinite(loss), loss, np.inf)))
        if not np.isfinite(loss[best]):
            raise ValueError(
                f"beta or the ratio of matrix's eigenvalues must be smaller, got {beta:g} and "
                f"{matrix}: an eigenvalue of e^(beta <x, matrix y>) has no digits left"
            )
        # apart, since the quotient may underflow
        found[n] = unit + np.log(abs(image[best])) - np.log(abs(value[best]))
    return found
