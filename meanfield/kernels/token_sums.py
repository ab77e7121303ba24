"""Sums over n tokens at once, in O(n): cells on the circle, harmonics on S^2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from meanfield.kernels.bilinear import SphereBilinear, largest_score
from meanfield.kernels.harmonics import SphereScoreSums, SphereSums, small_places
from meanfield.kernels.kernel import Exponential, SmoothKernel
from meanfield.kernels.line import CircleLine, DenseLine, Interpolation, Line, node_count
from meanfield.spaces import FINEST
from meanfield.spaces.circle import MOST_MODES, CircleAt
from meanfield.spaces.geometry import circle_angles
from meanfield.typing import Array


def fewest_pairs(beta: float, dim: int, *, once: bool = False) -> float:
    """Pairs from which sums of e^{β<x,y>} are taken in O(n); inf where there are no such sums.

    Parameters
    ----------
    beta : float
    dim : int
    once : bool
        Whether tables are built for one call, as for a single measure, not for a run.

    Examples
    --------
    >>> [round(fewest_pairs(beta, 2) ** 0.5) for beta in (1.0, 100.0)], fewest_pairs(1.0, 4)
    ([259, 1237], inf)
    """
    largest = {2: CircleSums.largest_beta, 3: SphereSums.largest_beta}
    if beta > largest.get(dim, -1.0):
        return np.inf
    tables = float(once << 18)
    if dim == 2:
        return tables + 2**16 + node_count(2, beta) ** 2 / 8
    return tables + 2**17 + 100 * _harmonics(beta)


def fewest_score_pairs(matrix: Array, *, once: bool = False) -> float:
    """Pairs from which sums of e^{<Mx,y>}, M (d, d), are taken in O(n); inf where there are none.

    Examples
    --------
    >>> [round(fewest_score_pairs(np.eye(dim)) ** 0.5) for dim in (2, 3)]
    [279, 649]
    """
    largest = {2: CircleScoreSums.largest_score, 3: SphereBilinear.largest_score}
    size = largest_score(matrix)
    if size > largest.get(len(matrix), -1.0):
        return np.inf
    if len(matrix) == 2:
        nodes = node_count(2, size)
        return float(2**18 + 40 * nodes**2 if once else 2**16 + nodes**2)
    entries = _harmonics(size) ** 2
    return 2**22 + 15 * entries if once else 3 * 2**17 + entries / 3


def _harmonics(beta: float) -> float:
    """Return about the square of `harmonics.bandwidth(beta, 3)`.

    The function itself takes longer than a thousand pairs.

    Λ_k is e^{-k²/2β} Λ_0 or so, hence k² grows like β.
    """
    return 200.0 + 92.0 * beta


# the highest degree that transforms at arbitrary points take; on the circle the moments of y need
# one more
_HIGHEST = {2: MOST_MODES - 1, 3: 2047}


def fewest_kernel_pairs(kernel: Exponential | SmoothKernel, dim: int) -> float:
    """Pairs from which a run sums a kernel in O(n); inf where there are no such sums.

    Examples
    --------
    >>> [round(fewest_kernel_pairs(Exponential(1.0), dim) ** 0.5) for dim in (2, 3)]
    [259, 400]
    """
    if kernel.degree(dim) > _HIGHEST.get(dim, -1):
        return np.inf
    return fewest_pairs(kernel.reach, dim)


def fewest_series_pairs(kernel: SmoothKernel, dim: int) -> float:
    """Pairs from which a kernel is summed once through its multipliers; inf where there are none.

    Examples
    --------
    >>> from meanfield.kernels.kernel import kernel_of
    >>> [round(fewest_series_pairs(kernel_of([1, 1]), dim) ** 0.5) for dim in (2, 3)]
    [512, 512]
    """
    degree = kernel.degree(dim)
    if degree > _HIGHEST.get(dim, -1):
        return np.inf
    return 2.0**18 + (2.0**8 * degree if dim == 2 else 25.0 * degree**2)


class CircleSums:
    """log G(βx) and ∇ log G(βx), G(z) = Σ_j m_j e^{<z,y_j>}, for tokens on the circle.

    Masses are gathered into Chebyshev moments of the cells of a `CircleLine`, and the potential of
    the cells is a Chebyshev series in each: relative to G itself, errors are about 1e-14, however
    far a point is from all tokens.

    Parameters
    ----------
    beta : float
        At most 100.

    Examples
    --------
    >>> sums = CircleSums(1.0)
    >>> points = np.array([[1.0, 0.0]])
    >>> log_g, mean = sums.log_moment(points, np.ones(1), np.array([[0.0, 1.0]]))
    >>> log_g.round(12) + 0.0, mean.round(12) + 0.0
    (array([0.]), array([[1., 0.]]))
    """

    largest_beta = 100.0

    def __init__(self, beta: float) -> None:
        self._beta, self._line = beta, CircleLine(beta, partial(_kernel, beta))

    def log_moment(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """log G(βx), shape (m,), and ∇ log G(βx), shape (m, 2), at unit rows `at` (m, 2)."""
        potential, along, across = _tables(self._line, points, masses, at)
        mean = (across / potential)[:, None] * at
        mean += (along / potential)[:, None] * np.column_stack([-at[:, 1], at[:, 0]])
        return np.log(potential) + self._beta, mean


class CircleScoreSums:
    """log G(Mx) and ∇ log G(Mx) of heads M, G(z) = Σ_j m_j e^{<z,y_j>}, for tokens on the circle.

    As `CircleSums`, with a dense product between the cells. Heads with as many cells share them.

    Parameters
    ----------
    matrices : sequence of ndarray, shape (2, 2)
        |M|_2 <= 100.

    Examples
    --------
    >>> sums = CircleScoreSums([np.diag([1.0, 2.0])])
    >>> points = np.array([[0.0, 1.0]])
    >>> [(log_g, mean)] = sums.log_moments(points, np.ones(1), points)
    >>> log_g.round(12), mean.round(12) + 0.0
    (array([2.]), array([[0., 1.]]))
    """

    largest_score = 100.0

    def __init__(self, matrices: Sequence[Array]) -> None:
        self._log_units = [largest_score(matrix) for matrix in matrices]
        alike: dict[int, list[int]] = {}
        for head, log_unit in enumerate(self._log_units):
            alike.setdefault(node_count(2, log_unit), []).append(head)
        self._lines: list[tuple[list[int], DenseLine]] = []
        for heads in alike.values():
            log_units = [self._log_units[head] for head in heads]
            tables = partial(_scores, [matrices[head] for head in heads], log_units)
            self._lines.append((heads, DenseLine(2, max(log_units), tables)))

    def log_moments(self, points: Array, masses: Array, at: Array) -> list[tuple[Array, Array]]:
        """log G(Mx) (m,) and ∇ log G(Mx) (m, 2) of each head at unit rows `at` (m, 2).

        All digits are there, however small G is.
        """
        by_degree = {}
        for heads, line in self._lines:
            tables = _tables(line, points, masses, at).reshape(len(heads), 3, -1)
            for head, (potential, first, second) in zip(heads, tables, strict=True):
                mean = np.column_stack([first, second]) / potential[:, None]
                by_degree[head] = np.log(potential) + self._log_units[head], mean
        return [by_degree[head] for head in range(len(by_degree))]


def _tables(line: Line, points: Array, masses: Array, at: Array) -> Array:
    """Return a kernel's tables on a line, summed over masses at points of the circle.

    They are returned at other points, shape (tables, m).
    """
    nodes = Interpolation(line, circle_angles(points))
    targets = nodes if at is points else Interpolation(line, circle_angles(at))
    return targets.evaluate(line.fields(nodes.gather(masses)))


def _scores(
    matrices: Sequence[Array], log_units: Sequence[float], targets: Array, sources: Array
) -> Array:
    """e^{<Mx,y>} of each M and its products with y, x and y at angles, in units of e^{log_unit}."""
    x, y = (np.stack([np.cos(angles), np.sin(angles)]) for angles in (targets, sources))
    tables = np.empty((len(log_units), 3, *np.broadcast_shapes(targets.shape, sources.shape)))
    for table, matrix, log_unit in zip(tables, matrices, log_units, strict=True):
        z = np.tensordot(matrix, x, axes=1)
        with np.errstate(under="ignore"):
            np.exp(z[0] * y[0] + z[1] * y[1] - log_unit, out=table[0])
            np.multiply(table[0], y[0], out=table[1])
            np.multiply(table[0], y[1], out=table[2])
    return tables.reshape(-1, *tables.shape[2:])


def _kernel(beta: float, targets: Array, sources: Array) -> Array:
    """K = e^{β(cos a - 1)}, -sin(a) K and cos(a) K, a = target - source: they give G and ∇G."""
    differences = targets - sources
    half = np.sin(0.5 * differences)
    with np.errstate(under="ignore"):
        kernel = np.exp(-2.0 * beta * half * half)
        return np.stack([kernel, -np.sin(differences) * kernel, np.cos(differences) * kernel])


class FourierSums:
    """∫ s dmu and ∫ s y dmu of a kernel s(<x,y>) on the circle, through its multipliers.

    With moments m_k of e^{-ikθ}, the point y = e^{iφ} has ∫ s y dmu = Σ_k Λ_k m_{k-1} e^{ikθ}.
    Errors are 1e-13 of the largest potential. Where that may be divided by and is below 1e-3 of its
    scale, the sum over all tokens is taken instead.

    Parameters
    ----------
    kernel : SmoothKernel

    Attributes
    ----------
    kernel : SmoothKernel

    Examples
    --------
    >>> from meanfield.kernels.kernel import kernel_of
    >>> sums = FourierSums(kernel_of([1.0, 1.0]))
    >>> points = np.array([[1.0, 0.0]])
    >>> _, potential, pull = sums.sums(points, np.ones(1), np.array([[0.6, 0.8]]))
    >>> potential.round(12), pull.round(12) + 0.0
    (array([1.6]), array([[1.6, 0. ]]))
    """

    def __init__(self, kernel: SmoothKernel) -> None:
        self.kernel = kernel
        # the moments of y need one more degree
        self._at = CircleAt(kernel.degree(2) + 1)
        self._series = kernel.series(2, self._at.kmax)

    def sums(self, points: Array, masses: Array, at: Array) -> tuple[float, Array, Array]:
        """0, Σ m_j s (m,) and Σ m_j s y_j (m, 2) at unit rows `at` (m, 2)."""
        moments, angles = self._at.point_moments(points, masses), circle_angles(at)
        multipliers = self._series.potential
        below, above = np.roll(moments, 1), np.roll(moments, -1)
        # the moment beyond the last one has no multiplier
        below[0], above[-1] = moments[1].conj(), 0.0
        rows = moments, 0.5 * (below + above), -0.5j * (below - above)
        potential, *pull = (self._at.values(multipliers * row, angles) for row in rows)
        sums = np.column_stack(pull)
        mean = float(multipliers @ self._at.power(moments)) / float(masses.sum())
        small = small_places(self.kernel, potential, mean, len(points))
        if len(small):
            _, potential[small], sums[small] = self.kernel.sums(points, masses, at[small])
        return 0.0, potential, sums

    def energy(self, points: Array, masses: Array) -> float:
        """½ Σ m_i m_j S(<x_i,x_j>), S' = s."""
        return self._series.energy(self._at.power(self._at.point_moments(points, masses)))


ScoreSums = CircleScoreSums | SphereScoreSums


def score_sums(matrices: Sequence[Array]) -> ScoreSums:
    """The fast sums of the kernels e^{<Mx,y>} of matrices (d, d), d = 2 or 3, of all together."""
    return CircleScoreSums(matrices) if len(matrices[0]) == 2 else SphereScoreSums(matrices)


def moment_sums(beta: float, dim: int) -> CircleSums | SphereSums:
    """The fast sums that make log G(βx) and its gradient, d = 2 or 3, at any points."""
    return CircleSums(beta) if dim == 2 else SphereSums(Exponential(beta))


def kernel_sums(kernel: Exponential | SmoothKernel, dim: int) -> Line | SphereSums | None:
    """The fast sums that move tokens by a kernel, on the circle its cells; None if there are none.

    Examples
    --------
    >>> kernel_sums(Exponential(1.0), 4) is None
    True
    """
    if fewest_kernel_pairs(kernel, dim) == np.inf:
        return None
    return kernel.line(2) if dim == 2 else SphereSums(kernel)


SeriesSums = FourierSums | SphereSums


def series_sums(kernel: SmoothKernel, dim: int) -> SeriesSums:
    """The sums of a kernel through its multipliers, d = 2 or 3, at any points."""
    # for polynomials of low degree the usual transforms have errors of 2e-13
    return FourierSums(kernel) if dim == 2 else SphereSums(kernel, FINEST)
