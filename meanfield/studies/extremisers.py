"""The measures of least and of largest energy E_{β,D}, for a symmetric matrix D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise, product
from typing import ClassVar

import numpy as np
import xarray as xr
from scipy.linalg import eigh
from scipy.optimize import brentq, minimize
from scipy.special import sph_harm_y

from meanfield import _checks
from meanfield._checks import EPS, number
from meanfield.kernels.direct import latitude_log_moment, log_moment, logs
from meanfield.kernels.multipliers import bandwidth, eigenvalues, log_eigenvalues, ratio_bound
from meanfield.laws.law import Uniform
from meanfield.measures import Density, Particles
from meanfield.spaces import Circle, Places, Space, Sphere, SphereAt, Zonal
from meanfield.spaces.gegenbauer import (
    gauss_gegenbauer,
    gegenbauer,
    multiplicities,
    multiplicity_growth,
)
from meanfield.spaces.geometry import axial_matrix, axial_part, circle_points, perpendicular
from meanfield.typing import Array, ArrayLike, Indices, Rng

# eigenvalues that differ by rounding only are one
_EQUAL = 1e-12
# for a larger β|D|, e^{β|D|} squared leaves double precision
_LARGEST_EXPONENT = 350.0
_LEAST_EXPONENT = 1e-12
# a series is complete if its last coefficients are below the first of these; a density may be
# below 0 by the second, by rounding
_COMPLETE, _ROUNDING = 1e-12, 1e-12
# rounding makes a density no more negative than this share of its maximum
_NEGATIVE = 1e-6
# a potential that varies by more than this shows that the density has lost its digits
_LARGEST_RESIDUAL = 1e-6
# a potential above 1/(2β) has this tail beyond its degree N; the cover is N times its radius
_TAIL, _COVER = 1e-17, 0.5
# a term is rounded, with e^x, Gauss weights and Λ_0, by so many eps
_OF_A_TERM = 500.0


@dataclass(frozen=True)
class Extremiser:
    """A measure of least or of largest energy, and why it is one.

    Attributes
    ----------
    measure : Density or Particles
    energy : float
        E_{β,D} = 1/(2β) ∬ e^{β<x,Dy>} dmu dmu.
    bound : float
        What no measure's energy can be below (above), rounding included.
    residual : float
        What the potential ∫ e^{β<x,Dy>} dmu(y) varies by where it should be constant, relative.
    kind : str
        'density', 'uniform', 'dirac' or 'pair'.
    """

    measure: Density | Particles
    energy: float
    bound: float
    residual: float
    kind: str


def energy_minimiser(matrix: ArrayLike, beta: float = 1.0) -> Extremiser:
    """The measure of least E_{β,D}, Burger et al., arXiv 2501.03096.

    D positive definite: E is strictly convex, and the least one has ∫ e^{β<x,Dy>} f(y) dσ(y) the
    same for all x, hence f = E Σ_n ψ_n <1,ψ_n>/λ_n in eigenfunctions of the kernel. They are found
    from the differential operator Δ + β²|Dx|², which commutes with the kernel, so the digits that
    the kernel's tiny eigenvalues would cost are kept. The bound is 2 min u - E of masses on a grid,
    f at its nodes, with their potential u on the whole sphere, less what rounding may be: some
    1e-12 of E below the energy, and more where eigenvalues that count as one differ.

    λ_min <= 0: E >= e^{β<m,Dm>}/(2β) >= e^{βλ_min}/(2β) by Jensen's inequality, m = ∫ x dmu; a
    Dirac at an eigenvector has that energy. If λ_min = 0 others in the kernel of D have it too.

    Parameters
    ----------
    matrix : array_like, shape (d, d)
        D, symmetric. Positive definite ones on the circle, S^2, or, in more dimensions, with two
        distinct eigenvalues of which one is simple.
    beta : float
        β > 0.

    Returns
    -------
    Extremiser
        A 'density' on `Circle`, `Sphere` or `Zonal`, 'uniform' where D is a multiple of the
        identity, or a 'dirac'.

    Raises
    ------
    ValueError
        If D is not of that kind, β |D| > 350, or the ratio of D's eigenvalues is so large that the
        density needs more than 1000 degrees (90 on S^2 without symmetry), or β(λ_max - λ_min) is
        beyond some 20: where the density is least, by rounding, e^{β<x,Dx>} is largest.
    ArithmeticError
        If the solution is not positive, which no case has shown yet.

    Examples
    --------
    >>> least = energy_minimiser([[1.0, 0.0], [0.0, 1.1]])
    >>> round(2 * least.energy, 12), round(2 * float(least.measure.coefficients[2].real), 12)
    (1.293037275191, 0.198481812055)
    """
    matrix, beta, values, vectors = _checked(matrix, beta)
    size = float(np.abs(values).max())
    margin = 1.0 - _rounding(len(values), beta * size)
    if values[0] <= _EQUAL * size:
        least = float(np.exp(beta * values[0])) / (2.0 * beta)
        bound = float(np.exp(beta * min(values[0], 0.0))) / (2.0 * beta)
        return Extremiser(Particles(vectors[:, :1].T), least, margin * bound, 0.0, "dirac")
    if np.ptp(values) <= _EQUAL * values[-1]:
        dim = len(values)
        space: Space = Circle(8) if dim == 2 else Sphere(3) if dim == 3 else Zonal(dim, 3)
        uniform = Density.from_coefficients(space, np.eye(1, space.n_coefficients)[0])
        energy = float(eigenvalues(beta * values.mean(), dim, 0)[0]) / (2.0 * beta)
        lowest = float(eigenvalues(beta * values[0], dim, 0)[0]) / (2.0 * beta)
        return Extremiser(uniform, energy, margin * lowest, 0.0, "uniform")
    return _positive_definite(matrix, beta, values, vectors)


def _positive_definite(matrix: Array, beta: float, values: Array, vectors: Array) -> Extremiser:
    basis = _basis(values, vectors, 2)
    if beta * values[-1] < basis.least_exponent:
        product, bound = _checks.tell_apart(beta * values[-1], basis.least_exponent)
        raise ValueError(
            f"beta |matrix| must be >= {bound} for three different eigenvalues, got {product}: "
            f"below, functions of one degree can't be told apart"
        )
    most = basis.most_degrees
    # beyond the bandwidth of the kernel, coefficients of degree k fall like ratio^{k/2}
    ratio = (values[-1] - values[0]) / (values[-1] + values[0])
    degree = 2.0 * np.log(_COMPLETE) / np.log(ratio)
    kmax = min(2 * int(0.5 * (degree + bandwidth(beta * values[-1], len(values)))), most)
    tail = np.inf
    while degree <= most:
        basis = _basis(values, vectors, kmax)
        coefficients = constant_preimage(basis, matrix, beta)
        tail = float(np.linalg.norm(coefficients[basis.degrees > kmax - 4]))
        tail /= float(np.linalg.norm(coefficients))
        if tail <= _COMPLETE or kmax == most:
            break
        kmax = min(2 * kmax, most)
    if not tail <= _COMPLETE:
        raise ValueError(
            f"matrix must have eigenvalues in a smaller ratio for a density of up to {most} "
            f"degrees, got {values}"
        )
    least = _certified(basis, coefficients, matrix, beta)
    density = basis.at(basis.nodes()[0]) @ coefficients
    lowest, highest = float(density.min()), float(density.max())
    if lowest <= -_NEGATIVE * highest:
        raise ArithmeticError(
            f"the measure of constant potential is not positive for {matrix}, beta = {beta:g}: "
            f"its least value is {lowest:.3g}"
        )
    if lowest < -_ROUNDING * highest:
        raise ValueError(
            f"beta or the ratio of matrix's eigenvalues must be smaller, got {beta:g} and "
            f"{matrix}: rounding of the density makes its least value {lowest:.3g}"
        )
    return least


def _basis(values: Array, vectors: Array, kmax: int) -> Basis:
    # if all eigenvalues but one are equal, the axis is its eigenvector; on the circle either
    # eigenvector
    for alone, others in ((0, slice(1, None)), (-1, slice(None, -1))):
        if np.ptp(values[others]) <= _EQUAL * values[-1]:
            return ZonalBasis(np.asarray(vectors[:, alone]), kmax)
    if len(values) == 3:
        return SphereBasis(np.ascontiguousarray(vectors.T), kmax)
    raise ValueError(
        f"matrix must have d <= 3, or two distinct eigenvalues of which one is simple, got {values}"
    )


def _certified(basis: Basis, coefficients: Array, matrix: Array, beta: float) -> Extremiser:
    """Return an extremiser with a bound that holds for any coefficients.

    Let ν be masses m_j >= 0 at nodes, of sum 1, and u its potential. E is convex, so E(mu) >=
    2 min u - E(ν) for all mu; how ν was found plays no part, nor does quadrature. Between the
    points at which u is known it is a polynomial of degree N, but for a tail that Λ_k bounds, so
    sup |u - c| cos(Nh) is at most its largest value there (Szegő), h their covering radius. All
    sums are of positive terms: the share of rounding is below eps times their number and size.
    """
    nodes, weights = basis.nodes()
    masses = weights * np.maximum(basis.at(nodes) @ coefficients, 0.0)
    masses /= masses.sum()
    largest = beta * float(np.linalg.norm(matrix, 2))
    lambda_0 = float(eigenvalues(largest, basis.dim, 0)[0])
    degree = bandwidth(largest, basis.dim, _TAIL / lambda_0)
    at_degree = np.array(degree + 0.5 * basis.dim - 1.0)
    falling = float(ratio_bound(largest, at_degree))
    falling *= float(multiplicity_growth(basis.dim, np.array(degree + 1.0)))
    points = basis.cover(_COVER / degree)
    at_points = basis.potential(masses, beta * points @ matrix) / (2.0 * beta)
    at_nodes = basis.potential(masses, beta * nodes @ matrix) / (2.0 * beta)
    energy = float(masses @ at_nodes)
    low, high = float(at_points.min()), float(at_points.max())
    residual = (high - low) / energy
    if not residual <= _LARGEST_RESIDUAL:
        raise ValueError(
            f"beta or the ratio of matrix's eigenvalues must be smaller, got {beta:g} and "
            f"{matrix}: rounding of the density lets its potential vary by {residual:.1e}"
        )
    rounding = EPS * (_OF_A_TERM + 8 * len(masses) + 8.0 * (basis.dim + 2) * largest)
    # between two points that the basis does not distinguish, exponents differ by at most this
    rounding += 2.0 * beta * basis.asymmetry(matrix)
    tail = _TAIL / (1.0 - falling) / (2.0 * beta)
    half_width = (0.5 * (high - low) + rounding * high + tail) / np.cos(_COVER)
    least = 0.5 * (low + high) - float(half_width) - tail
    bound = 2.0 * least - energy * (1.0 + rounding)
    return Extremiser(basis.density(coefficients), energy, bound, residual, "density")


def _rounding(dim: int, exponent: float) -> float:
    """The relative error of e^{βλ} from rounding of an eigenvalue λ, or of Λ_0 if β|λ| is large."""
    return EPS * (_OF_A_TERM + 8.0 * dim * exponent)


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
        """The degree of each function, ascending."""
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
        return np.asarray(np.exp(latitude_log_moment(self.axis, t, s, logs(masses), z)[0]))

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
    # for a smaller β|D| functions of one degree differ by (β|D|)², and errors are 1e-16 over that
    least_exponent: ClassVar[float] = 1e-3

    @cached_property
    def _orders(self) -> Indices:
        return np.concatenate([np.arange(0, k + 1, 2) for k in range(0, self.kmax + 1, 2)])

    @cached_property
    def degrees(self) -> Indices:
        """The degree of each function, ascending."""
        return np.concatenate([np.full(k // 2 + 1, k) for k in range(0, self.kmax + 1, 2)])

    def at(self, points: Array) -> Array:
        """Values at unit rows (N, 3), shape (N, number of functions)."""
        x, y, z = (points @ self.axes.T).T
        polar, azimuth = np.arctan2(np.hypot(x, y), z), np.arctan2(y, x)
        values = sph_harm_y(self.degrees, self._orders, polar[:, None], azimuth[:, None]).real
        return np.asarray(values * np.sqrt(4.0 * np.pi * np.where(self._orders > 0, 2.0, 1.0)))

    def asymmetry(self, matrix: Array) -> float:
        """The norm of what a matrix has beyond reflections of the axes."""
        rotated = self.axes @ matrix @ self.axes.T
        return float(np.linalg.norm(rotated - np.diag(np.diag(rotated)), 2))

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
        """Return images of points in all octants, shape (8 n, 3)."""
        signs = np.array(list(product((1.0, -1.0), repeat=3)))
        images = (points @ self.axes.T) * signs[:, None]
        return np.asarray(images.reshape(-1, 3) @ self.axes)

    def potential(self, masses: Array, z: Array) -> Array:
        """G(z) of masses >= 0 at the nodes, spread by the basis' symmetry, shape (len(z),)."""
        log_g, _ = log_moment(self._mirrored(self.nodes()[0]), np.tile(masses / 8.0, 8), z)
        return np.asarray(np.exp(log_g))

    def cover(self, radius: float) -> Array:
        """Points of an octant that leave no point of it farther away than a radius."""
        # a corner of a cell is nearer to its middle than half the diagonal of a cell at the equator
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
# an eigenvalue is seen at the best of so many points
_PROBES = 40


def constant_preimage(basis: Basis, matrix: Array, beta: float) -> Array:
    """Coefficients of f of mass 1 with ∫ e^{β<x,Dy>} f(y) dσ(y) the same for all x.

    f = E Σ_n ψ_n <1,ψ_n>/λ_n in eigenfunctions of the kernel, and 1/E = Σ_n <1,ψ_n>²/λ_n. All up
    to the basis' degree are found, each coefficient right relative to its own size.

    Parameters
    ----------
    basis : Basis
    matrix : ndarray, shape (d, d)
        D, positive definite, of the basis' symmetry.
    beta : float
        > 0.
    """
    degrees, dim = basis.degrees.astype(np.float64), basis.dim
    points, weights = basis.nodes()
    values = basis.at(points)
    squares = np.einsum("ij,ij->i", points @ matrix, points @ matrix)
    operator = -(beta**2) * (values * (weights * squares)[:, None]).T @ values
    operator[np.diag_indices_from(operator)] += degrees * (degrees + dim - 2.0)
    # a product with x_i x_j reaches at most the next even degree
    operator[np.abs(degrees[:, None] - degrees) > 2.0] = 0.0
    starts = np.flatnonzero(np.diff(degrees, prepend=-1.0))
    vectors, logs = _chains(0.5 * (operator + operator.T), starts)
    logs_of_kernel = _log_values(basis, matrix, beta, starts, vectors, logs)
    # coefficients are multiplied by their eigenvalue in logarithms, so that none underflows
    log_share = logs[:, :1] - logs_of_kernel[:, None] + logs
    sizes = np.diff(np.append(starts, len(degrees)))
    with np.errstate(under="ignore"):
        terms = np.sign(vectors[:, :1]) * vectors * np.repeat(np.exp(log_share), sizes, axis=1)
    total = terms.sum(axis=0)
    return np.asarray(total / total[0])


def _chains(matrix: Array, starts: Indices) -> tuple[Array, Array]:
    """Return eigenvectors in rows, by recurrence from both ends to their largest block.

    Each block of one degree, which has its first function at a start, is normalised; the logarithms
    of the norms are apart, so that no coefficient underflows.

    A routine for dense matrices leaves rounding of the largest coefficient in all; the recurrences
    run in the direction in which they are stable, and keep the digits of small ones.
    """
    # QR iterations keep small eigenvalues of a matrix that is graded from small to large
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
        # blocks are numbered from this end up to each eigenvector's peak
        place, ways = np.argsort(order)[peaks], list(pairwise(order))
        steps: list[tuple[Indices, Array]] = []
        for at, (i, onward) in enumerate(ways):
            # ψ_i = steps ψ_onward, for the eigenvectors whose largest block is still ahead
            ahead = np.asarray(np.flatnonzero(place > at), dtype=np.intp)
            diagonal, coupling = matrix[blocks[i], blocks[i]], -matrix[blocks[i], blocks[onward]]
            reduced = diagonal - energies[ahead, None, None] * np.eye(len(diagonal))
            if at > 0:
                rows_known, last_step = steps[-1]
                step_kept = last_step[np.searchsorted(rows_known, ahead)]
                reduced += matrix[blocks[i], blocks[order[at - 1]]] @ step_kept
            couplings = np.broadcast_to(coupling, (len(ahead), *coupling.shape))
            steps.append((ahead, np.asarray(np.linalg.solve(reduced, couplings), dtype=np.float64)))
        for (i, onward), (ahead, step) in zip(ways[::-1], steps[::-1], strict=True):
            onward_vectors = np.einsum("nij,nj->ni", step, vectors[ahead, blocks[onward]])
            size = np.linalg.norm(onward_vectors, axis=1)
            vectors[ahead, blocks[i]] = onward_vectors / size[:, None]
            logs[ahead, i] = logs[ahead, onward] + np.log(size)
    largest = logs.max(axis=1, keepdims=True)
    logs -= largest + 0.5 * np.log(np.exp(2.0 * (logs - largest)).sum(axis=1, keepdims=True))
    return vectors, logs


def _log_values(
    basis: Basis, matrix: Array, beta: float, starts: Indices, vectors: Array, logs: Array
) -> Array:
    """Return log λ_n = log (Kψ_n)(x)/ψ_n(x), at the point x where both sums cancel least.

    (Kψ)(x) = Σ_k Λ_k(β|Dx|) ψ_k(Dx/|Dx|) by Funk-Hecke. Where |Dx| is small, its terms have one
    sign; where it is large, they cancel.
    """
    points = basis.probes(_PROBES)
    images = points @ matrix
    lengths = np.linalg.norm(images, axis=1)
    at_points, at_images = basis.at(points), basis.at(images / lengths[:, None])
    multipliers = np.array(
        [log_eigenvalues(beta * length, basis.dim, basis.kmax)[::2] for length in lengths]
    )
    log_values = np.empty(len(vectors))
    for n, (vector, log) in enumerate(zip(vectors, logs, strict=True)):
        exponents = multipliers + log
        unit = float(exponents.max())
        with np.errstate(under="ignore"):
            numerators = np.add.reduceat(at_images * vector, starts, axis=1) * np.exp(
                exponents - unit
            )
            denominators = np.add.reduceat(at_points * vector, starts, axis=1) * np.exp(log)
        image, value = numerators.sum(axis=1), denominators.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            loss = np.abs(numerators).sum(axis=1) / np.abs(image)
            loss += np.abs(denominators).sum(axis=1) / np.abs(value)
        best = int(np.argmin(np.where(np.isfinite(loss), loss, np.inf)))
        if not np.isfinite(loss[best]):
            raise ValueError(
                f"beta or the ratio of matrix's eigenvalues must be smaller, got {beta:g} and "
                f"{matrix}: an eigenvalue of e^(beta <x, matrix y>) has no digits left"
            )
        # logarithms are taken apart, since the quotient may underflow
        log_values[n] = unit + np.log(abs(image[best])) - np.log(abs(value[best]))
    return log_values


def energy_maximiser(matrix: ArrayLike, beta: float = 1.0) -> Extremiser:
    """The measure of largest E_{β,D}: a Dirac at an eigenvector, or two opposite ones.

    Let N be the span of the eigenvectors of negative λ, R the reflection of N. Averaging mu with
    R#mu takes -∬ sinh(β<x_N,|D|y_N>) e^{β<x_P,Dy_P>} dmu dmu <= 0 away, so it raises E. Among
    measures that are symmetric under R, E is convex, so it is largest at pairs (δ_x + δ_Rx)/2:
    cosh(β<x_N,|D|x_N>) e^{β<x_P,Dx_P>}/(2β), whose log is convex in the squares of x's components,
    hence largest at an eigenvector. So the largest value is e^{βλ_max} or cosh(βλ_min), over 2β.

    Parameters
    ----------
    matrix : array_like, shape (d, d)
        D, symmetric, any d >= 2.
    beta : float
        β > 0.

    Returns
    -------
    Extremiser
        It has the kind 'dirac' at an eigenvector of λ_max, or 'pair' at ± one of λ_min.

    Raises
    ------
    ValueError
        If an argument is not of that kind, or β |D| > 350.

    Examples
    --------
    >>> [energy_maximiser([[-1.0, 0.0], [0.0, last]]).kind for last in (0.4, 0.5)]
    ['pair', 'dirac']
    """
    _, beta, values, vectors = _checked(matrix, beta)
    dirac = float(np.exp(beta * values[-1])) / (2.0 * beta)
    pair = float(np.cosh(beta * values[0])) / (2.0 * beta) if values[0] < 0.0 else 0.0
    margin = 1.0 + _rounding(len(values), beta * float(np.abs(values).max()))
    if dirac >= pair:
        return Extremiser(Particles(vectors[:, -1:].T), dirac, margin * dirac, 0.0, "dirac")
    ends = Particles(np.array([vectors[:, 0], -vectors[:, 0]]))
    return Extremiser(ends, pair, margin * pair, 0.0, "pair")


def _checked(matrix: ArrayLike, beta: float) -> tuple[Array, float, Array, Array]:
    """Return D, β, and D's eigenvalues, ascending, with eigenvectors in columns."""
    matrix, beta = _checks.symmetric("matrix", matrix), number("beta", beta, above=0)
    values, vectors = np.linalg.eigh(matrix)
    largest = beta * float(np.abs(values).max())
    # below the least exponent all energies are 1/(2β) to rounding
    if not _LEAST_EXPONENT <= largest <= _LARGEST_EXPONENT:
        bound = _LARGEST_EXPONENT if largest > 1.0 else _LEAST_EXPONENT
        raise ValueError(
            f"beta |matrix| must be >= {_LEAST_EXPONENT:g} and <= {_LARGEST_EXPONENT:g}, got "
            f"{_checks.tell_apart(largest, bound)[0]}"
        )
    return matrix, beta, values, vectors


_ATOMS = 4


def search_largest(matrix: Array, beta: float, repeats: int, rng: np.random.Generator) -> float:
    """The largest E_{β,D} among measures of four atoms, by ascent from random ones.

    Positions and weights all move; weights are squares, so that they can reach 0.

    Parameters
    ----------
    matrix : ndarray, shape (d, d)
    beta : float
    repeats : int
    rng : numpy Generator
    """
    dim = len(matrix)

    def descent(variables: Array) -> tuple[float, Array]:
        """-log ∬ e^{β<x,Dy>} dmu dmu, and its gradient."""
        # variables are rows along the atoms, of any length, and roots of weights, to any factor
        rows, roots = variables[:-_ATOMS].reshape(_ATOMS, dim), variables[-_ATOMS:]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        points, total = rows / lengths, roots @ roots
        weights = roots**2 / total
        exponents = beta * points @ matrix @ points.T
        unit = exponents.max()
        kernel = np.exp(exponents - unit)
        potential = kernel @ weights
        energy = weights @ potential
        pulls = 2.0 * beta / energy * weights[:, None] * (kernel @ (weights[:, None] * points))
        pulls = pulls @ matrix
        pulls -= np.einsum("ij,ij->i", pulls, points)[:, None] * points
        shares = 4.0 * roots / total * (potential / energy - 1.0)
        return -float(np.log(energy) + unit), -np.append(pulls / lengths, shares)

    starts = rng.normal(size=(repeats, _ATOMS * (dim + 1)))
    search = partial(minimize, descent, jac=True, method="BFGS", options={"gtol": 1e-10})
    energies = [search(start).fun for start in starts]
    return float(np.exp(-min(energies))) / (2.0 * beta)


def four_points(values: Array, beta: float) -> tuple[float, float]:
    """The x_1² of least energy, and that energy, of points (±x_1, ±x_2) in the circle's eigenframe.

    E = cosh(βλ_1 x_1²) cosh(βλ_2 x_2²)/(2β) is least where λ_1 tanh(βλ_1 x_1²) = λ_2 tanh(βλ_2
    x_2²), Burger et al., arXiv 2501.03096.

    Examples
    --------
    >>> four_points(np.array([1.0, 1.0]), 1.0)[0]
    0.5
    """
    first, second = (float(value) for value in values)

    def derivative(share: float) -> float:
        rest = 1.0 - share
        rising = first * np.tanh(beta * first * share) - second * np.tanh(beta * second * rest)
        return float(rising)

    if derivative(0.0) < 0.0 < derivative(1.0):
        share = float(brentq(derivative, 0.0, 1.0, xtol=1e-16, rtol=1e-15))
    else:
        share = 0.0 if derivative(0.0) >= 0.0 else 1.0
    products = np.cosh(beta * first * share) * np.cosh(beta * second * (1.0 - share))
    return share, float(products) / (2.0 * beta)


_ANGLES = 361


def energy_extremisers(
    matrices: ArrayLike, beta: float = 1.0, *, repeats: int = 0, rng: Rng = 0
) -> xr.Dataset:
    """The measures of least and of largest E_{β,D}, for one matrix D or several.

    Parameters
    ----------
    matrices : array_like, shape (d, d) or (m, d, d)
        Symmetric, see `energy_minimiser`.
    beta : float
        β > 0.
    repeats : int
        Random starts of a search for the largest energy among measures of four atoms.
    rng : int or numpy Generator
        For `repeats` > 0.

    Returns
    -------
    xarray.Dataset
        Over index: `matrix` and `eigenvalue`; `least_energy`, `least_energy_lower`, what no
        measure's energy can be below, `residual` and `least_kind` of `energy_minimiser`;
        `largest_energy` and `largest_kind` of `energy_maximiser`, with the two candidates,
        `dirac_energy` (of an eigenvector of λ_max) and `pair_energy` (of ± one of λ_min), and with
        repeats `searched_energy`. On the circle also `density`, `potential` and
        `uniform_potential` over angle, the coefficients `cos` and `sin` over degree
        of the density 1 + Σ a_k cos kθ + b_k sin kθ (nan for a Dirac), and `four_point_share` and
        `four_point_energy`, x_1² and the least energy of points (±x_1, ±x_2) in the frame of the
        eigenvectors.

    Raises
    ------
    ValueError
        If an argument is not of that kind, before any work starts.
    ArithmeticError
        See `energy_minimiser`.

    Examples
    --------
    >>> import numpy as np
    >>> ds = energy_extremisers(np.diag([1.0, -2.0]))
    >>> str(ds["least_kind"].values[0]), round(float(ds["least_energy"][0]), 6)
    ('dirac', 0.067668)
    """
    raw = _checks.unmasked("matrices", matrices)
    raw = raw[None] if raw.ndim == 2 else raw
    _checks.real_array("matrices", raw, 3)
    forms = np.array([_checks.symmetric(f"matrices[{i}]", matrix) for i, matrix in enumerate(raw)])
    beta = number("beta", beta, above=0)
    repeats, rng = _checks.integer("repeats", repeats, low=0), _checks.generator("rng", rng)
    largest = [energy_maximiser(matrix, beta) for matrix in forms]
    least = [energy_minimiser(matrix, beta) for matrix in forms]
    values = np.array([np.linalg.eigvalsh(matrix) for matrix in forms])
    columns = {
        "least_energy": [extremum.energy for extremum in least],
        "least_energy_lower": [extremum.bound for extremum in least],
        "residual": [extremum.residual for extremum in least],
        "least_kind": [extremum.kind for extremum in least],
        "largest_energy": [extremum.energy for extremum in largest],
        "largest_kind": [extremum.kind for extremum in largest],
        "dirac_energy": np.exp(beta * values[:, -1]) / (2.0 * beta),
        "pair_energy": np.cosh(beta * values[:, 0]) / (2.0 * beta),
    }
    if repeats:
        columns["searched_energy"] = [search_largest(form, beta, repeats, rng) for form in forms]
    is_circle = forms.shape[1] == 2
    if is_circle:
        shares = np.array([four_points(pair, beta) for pair in values])
        columns |= {"four_point_share": shares[:, 0], "four_point_energy": shares[:, 1]}
    ds = xr.Dataset(
        {
            "matrix": (("index", "row", "column"), forms, {"comment": "D"}),
            "eigenvalue": (("index", "row"), values, {"long_name": "eigenvalue of D"}),
            **{name: ("index", np.asarray(column)) for name, column in columns.items()},
        },
        attrs={"beta": beta},
    )
    return ds.assign(_curves(least, forms, beta)) if is_circle else ds


def _curves(least: list[Extremiser], matrices: Array, beta: float) -> xr.Dataset:
    """Return densities, potentials and coefficients on the circle."""
    angles = np.linspace(0.0, 2.0 * np.pi, _ANGLES)
    points = circle_points(angles)
    measures = [extremiser.measure for extremiser in least]
    densities = [mu if isinstance(mu, Density) else None for mu in measures]
    kmax = max((mu.space.kmax for mu in densities if mu is not None), default=0)
    values = np.full((len(least), _ANGLES), np.nan)
    modes = np.full((len(least), kmax + 1), np.nan + 0j)
    for i, mu in enumerate(densities):
        if mu is not None:
            values[i] = mu.pdf(points)
            modes[i] = np.pad(mu.coefficients, (0, kmax - mu.space.kmax))

    def potentials(measures: Sequence[Density | Particles]) -> list[Array]:
        pairs = zip(measures, matrices, strict=True)
        return [np.exp(mu.log_moment(beta * points @ matrix)[0]) for mu, matrix in pairs]

    of_uniform = potentials([Density(Circle(8), Uniform(2))] * len(least))
    least_potentials = potentials(measures)
    dims, over_degrees = ("index", "angle"), ("index", "degree")
    columns = {
        "density": (dims, values, {"long_name": "density of least energy"}),
        "potential": (dims, least_potentials, {"comment": "∫ e^{β<x,Dy>} dmu(y)"}),
        "uniform_potential": (dims, of_uniform, {"long_name": "potential of the uniform measure"}),
        "cos": (over_degrees, 2.0 * modes.real[:, 1:], {"comment": "a_k"}),
        "sin": (over_degrees, -2.0 * modes.imag[:, 1:], {"comment": "b_k"}),
    }
    coords = {"angle": ("angle", angles, {"units": "radian"}), "degree": np.arange(1, kmax + 1)}
    return xr.Dataset(columns, coords)
