"""Sums over what each token sees under a causal mask: itself and the tokens before it.

Token j is at the position s_j = Σ_{k<=j} m_k, and sees token k <= j with the mass m_k e^{-λ(s_j -
s_k)} over the sum of all such masses (Karagodin, Polyanskiy and Rigollet, arXiv 2411.04990; λ > 0
is ALiBi, Press, Smith and Lewis, arXiv 2108.12409). Sums over pairs take rows of the triangle. On
the circle and on S^2 moments are carried along the order, from block to block of tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from meanfield.kernels.direct import Lost, blocks
from meanfield.kernels.harmonics import SphereSums
from meanfield.kernels.kernel import Exponential, PotentialKernel, SmoothKernel
from meanfield.spaces import FINEST
from meanfield.spaces.geometry import circle_points, project
from meanfield.spaces.sphere_fields import Places
from meanfield.typing import Array, Indices

# so many pairs are summed at a time, which fit in a core's cache
_PAIRS = 1 << 17
# the moments of a chunk of tokens are made at once; blocks of a chunk are summed pair by pair
_CHUNK, _BLOCK = 4096, 16
# on S^2 a chunk is summed pair by pair, and its transforms take some milliseconds
_SPHERE_CHUNK = 1024
_EARLIER = np.tri(_BLOCK, k=-1)
# within a chunk e^{λ(s_j - s_k)} of two tokens stays within e^{500}
_LARGEST_DECAY = 500.0
# below this share of s(1) a series has lost digits; up to so many pairs are summed instead
_LOST = Lost(1e-3, most_pairs=float(1 << 24))


def positions(masses: Array) -> Array:
    """s_j = Σ_{k<=j} m_k of tokens in their order, shape (n,).

    Examples
    --------
    >>> positions(np.array([0.25, 0.25, 0.5]))
    array([0.25, 0.5 , 1.  ])
    """
    return np.cumsum(masses)


def _triangle(masses: Array, decay: float, rows: Indices) -> Iterator[tuple[slice, Indices, Array]]:
    """Yield parts of ascending rows, the rows, and the masses that each of them sees.

    Masses beyond its own position are 0.
    """
    places = positions(masses)
    for part in blocks(len(rows), len(masses), _PAIRS):
        part_rows = rows[part]
        seen_slice = slice(0, int(part_rows[-1]) + 1)
        columns = np.arange(seen_slice.stop)
        shares = np.where(columns <= part_rows[:, None], masses[seen_slice], 0.0)
        if decay:
            with np.errstate(under="ignore"):
                shares *= np.exp(
                    -decay * np.maximum(places[part_rows, None] - places[seen_slice], 0.0)
                )
        yield part, part_rows, shares


def kernel_means(
    kernel: PotentialKernel, points: Array, masses: Array, decay: float, rows: Indices | None = None
) -> tuple[Array, Array, Array]:
    """Means of s and of s y over what tokens see, in units of e^{log_unit} of the kernel.

    A token's own term in the second is radial. It may be more than all others, and is left out.

    Parameters
    ----------
    kernel : PotentialKernel
    points : ndarray, shape (n, d)
        Unit rows, in their order.
    masses : ndarray, shape (n,)
        > 0.
    decay : float
        λ >= 0.
    rows : ndarray of int, optional
        The tokens that see, ascending; all if omitted.

    Returns
    -------
    potential : ndarray, shape (m,)
    pull : ndarray, shape (m, d)
        Without each token's own.
    own : ndarray, shape (m,)
        The share of its own mass in what each sees.

    Examples
    --------
    >>> from meanfield.kernels.kernel import Exponential
    >>> kernel_means(Exponential(0.0), np.eye(2), np.array([0.5, 0.5]), 0.0)[1:]
    (array([[0. , 0. ],
           [0.5, 0. ]]), array([1. , 0.5]))
    """
    rows = np.arange(len(points)) if rows is None else rows
    potential, own_share = np.empty(len(rows)), np.empty(len(rows))
    pull = np.empty((len(rows), points.shape[1]))
    for part, part_rows, shares in _triangle(masses, decay, rows):
        shares /= shares.sum(axis=1)[:, None]
        sources, itself = points[: shares.shape[1]], (np.arange(len(part_rows)), part_rows)
        own_share[part] = shares[itself]
        with np.errstate(under="ignore"):
            shares *= kernel.values(points[part_rows] @ sources.T)
            shares[itself] = 0.0
            potential[part] = shares.sum(axis=1) + kernel.at_one * own_share[part]
            pull[part] = shares @ sources
    return potential, pull, own_share


def log_moment(points: Array, masses: Array, decay: float, z: Array) -> tuple[Array, Array]:
    """log G(z_j), shape (n,), and ∇ log G(z_j), shape (n, d), of what each token sees.

    G(z) = Σ_k m_k e^{<z,y_k>} over its masses, of sum 1. Each row is summed relative to its largest
    term, so that it is right relative to its own size.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        Unit rows, in their order.
    masses : ndarray, shape (n,)
        > 0.
    decay : float
        λ >= 0.
    z : ndarray, shape (n, d)

    Examples
    --------
    >>> log_g, mean = log_moment(np.eye(2), np.array([0.5, 0.5]), 0.0, np.zeros((2, 2)))
    >>> log_g, mean
    (array([0., 0.]), array([[1. , 0. ],
           [0.5, 0.5]]))
    """
    log_g, mean = np.empty(len(z)), np.empty(z.shape)
    for part, part_rows, shares in _triangle(masses, decay, np.arange(len(z))):
        sources = points[: shares.shape[1]]
        exponents = z[part_rows] @ sources.T
        with np.errstate(divide="ignore", under="ignore"):
            exponents += np.log(shares)
            largest = exponents.max(axis=1)
            terms = np.exp(exponents - largest[:, None])
            sums = terms.sum(axis=1)
            mean[part] = terms @ sources / sums[:, None]
            log_g[part] = largest + np.log(sums) - np.log(shares.sum(axis=1))
    return log_g, mean


class Before:
    """Sums over all tokens before a chunk: moments of their masses, and the masses.

    Parameters
    ----------
    count : int
        How many moments there are.
    """

    def __init__(self, count: int) -> None:
        self.moments, self.mass = np.zeros(count, dtype=np.complex128), 0.0


class CausalMeans(ABC):
    """`kernel_means` at the tokens through moments, which are carried along their order.

    Within a block of tokens pairs are summed. Masses that decay are taken relative to the start of
    each chunk. Errors are those of the moments relative to s(1); where the potential is below 1e-3
    of that, its row is summed over pairs, up to 2^24 of them in one sum.

    Parameters
    ----------
    kernel : PotentialKernel
    moments : int
        How many there are.
    chunk : int
        So many tokens are summed at once.
    """

    def __init__(self, kernel: PotentialKernel, moments: int, chunk: int) -> None:
        self._kernel, self._moments, self._chunk = kernel, moments, chunk

    def holds(self, masses: Array, decay: float) -> bool:
        """Whether the masses of a chunk that decay stay in double precision."""
        steps = range(0, len(masses), self._chunk)
        largest = max(float(masses[start : start + self._chunk].sum()) for start in steps)
        return decay * largest <= _LARGEST_DECAY

    def __call__(self, places: Array, masses: Array, decay: float) -> tuple[Array, Array]:
        """Means of s (n,) and of P_x s y over what tokens see, along the circle (n,) or (n, 3)."""
        potential, pull = np.empty(len(places)), np.empty_like(places)
        carried = Before(self._moments)
        for start in range(0, len(places), self._chunk):
            part = slice(start, start + self._chunk)
            shares, growth = masses[part], 1.0
            if decay:
                growth_factors = np.exp(decay * positions(shares))
                shares, growth = shares * growth_factors, float(growth_factors[-1])
            potential[part], pull[part] = self._means(places[part], shares, carried)
            carried.moments /= growth
            carried.mass /= growth
        lost = _LOST.places(potential, self._kernel.largest, len(places))
        if len(lost) and self._kernel.least_share > 0.0:
            rows, points = np.sort(lost), self._points(places)
            means = kernel_means(self._kernel, points, masses, decay, rows)
            potential[rows], pull[rows] = means[0], self._tangential(points[rows], means[1])
        return potential, pull

    @abstractmethod
    def _means(self, places: Array, masses: Array, before: Before) -> tuple[Array, Array]:
        """Both means over the tokens of a chunk and all before it, whose sums are carried on."""

    @abstractmethod
    def _points(self, places: Array) -> Array:
        """Return unit rows (n, d) of the places."""

    @abstractmethod
    def _tangential(self, points: Array, vectors: Array) -> Array:
        """Return the tangential part of vectors (n, d) at unit rows, in the form of the pull."""


class CircleMeans(CausalMeans):
    """On the circle at angles, in O(n) for each mode of the kernel.

    With c_k(j) = Σ_{i<=j} m_i e^{-ikθ_i} the potential at θ_j is Re Σ_k Λ_k c_k(j) e^{ikθ_j}.

    Parameters
    ----------
    kernel : PotentialKernel

    Examples
    --------
    >>> from meanfield.kernels.kernel import Exponential
    >>> means = CircleMeans(Exponential(1.0))
    >>> potential, pull = means(np.array([0.0, np.pi / 2]), np.array([0.5, 0.5]), 0.0)
    >>> potential.round(9), pull.round(9) + 0.0
    (array([1.       , 0.68393972]), array([ 0.        , -0.18393972]))
    """

    def __init__(self, kernel: PotentialKernel) -> None:
        degree = max(1, kernel.degree(2))
        super().__init__(kernel, degree, _CHUNK)
        series = kernel.series(2, degree)
        unit = series.unit * float(np.exp(series.log_unit - kernel.log_unit))
        # modes k and -k of a real series count together; the pull is d/dθ of the primitive
        self._mean = unit * float(series.potential[0])
        self._potential = 2.0 * unit * series.potential[1:]
        self._pull = 2.0j * unit * np.arange(1, degree + 1) * series.primitive[1:]
        self._powers = np.empty((degree, _CHUNK), dtype=np.complex128)

    def _points(self, places: Array) -> Array:
        return circle_points(places)

    def _tangential(self, points: Array, vectors: Array) -> Array:
        return points[:, 0] * vectors[:, 1] - points[:, 1] * vectors[:, 0]

    def _means(self, places: Array, masses: Array, before: Before) -> tuple[Array, Array]:
        n = len(places)
        if filled := -n % _BLOCK:
            # tokens without mass fill up the last block
            places, masses = np.pad(places, (0, filled)), np.pad(masses, (0, filled))
        degree, count = self._moments, len(places) // _BLOCK
        powers = self._powers[:, : len(places)]
        powers[0].real, powers[0].imag = np.cos(places), np.sin(places)
        n_done = 1
        while n_done < degree:
            more = min(n_done, degree - n_done)
            np.multiply(powers[:more], powers[n_done - 1], out=powers[n_done : n_done + more])
            n_done += more
        modes = powers.reshape(degree, count, _BLOCK).transpose(1, 0, 2)
        by_block = masses.reshape(count, _BLOCK)
        # row i has the moments of e^{ikθ} of all tokens before block i, the conjugates of c_k
        moments = np.empty((count + 1, degree), dtype=np.complex128)
        moments[0] = before.moments
        np.matmul(modes, by_block[..., None].astype(np.complex128), out=moments[1:, :, None])
        np.cumsum(moments, axis=0, out=moments)
        before.moments = moments[-1].copy()
        np.conjugate(moments, out=moments)
        factors = np.stack([self._potential * moments[:-1], self._pull * moments[:-1]], axis=1)
        sums = np.matmul(factors, modes).real
        mass = np.cumsum(masses)
        mass += before.mass
        sums[:, 0] += self._mean * np.append(before.mass, mass[_BLOCK - 1 : -1 : _BLOCK])[:, None]
        before.mass = float(mass[-1])
        # pairs of tokens of the same block are summed one by one
        points = np.ascontiguousarray(powers[0]).view(np.float64).reshape(count, _BLOCK, 2)
        terms = self._kernel.values(np.matmul(points, points.transpose(0, 2, 1)))
        terms *= _EARLIER
        sources = np.empty((count, _BLOCK, 3))
        sources[..., 0] = by_block
        np.multiply(points, by_block[..., None], out=sources[..., 1:])
        block_sums = np.matmul(terms, sources)
        sums[:, 0] += block_sums[..., 0] + self._kernel.at_one * by_block
        sums[:, 1] += points[..., 0] * block_sums[..., 2] - points[..., 1] * block_sums[..., 1]
        potential, pull = (sums.transpose(1, 0, 2).reshape(2, -1) / mass)[:, :n]
        return potential, pull


class SphereMeans(CausalMeans):
    """On S^2 at unit rows, through harmonics: in O(n) blocks of pairs and of transforms.

    Parameters
    ----------
    kernel : PotentialKernel

    Examples
    --------
    >>> from meanfield.kernels.kernel import Exponential
    >>> potential, pull = SphereMeans(Exponential(1.0))(np.eye(3), np.full(3, 1 / 3), 0.0)
    >>> potential.round(9), pull[1].round(9)
    (array([1.        , 0.68393972, 0.57858628]), array([0.18393972, 0.        , 0.        ]))
    """

    def __init__(self, kernel: Exponential | SmoothKernel) -> None:
        # for so few tokens at once the finest transforms take no longer than the usual ones,
        # whose errors are 3e-13
        self._sums = SphereSums(kernel, FINEST)
        super().__init__(kernel, len(self._sums.potential_factors), _SPHERE_CHUNK)
        series = self._sums.series
        self._unit = series.unit * float(np.exp(series.log_unit - kernel.log_unit))

    def _points(self, places: Array) -> Array:
        return places

    def _tangential(self, points: Array, vectors: Array) -> Array:
        return project(points, vectors)

    def _means(self, places: Array, masses: Array, before: Before) -> tuple[Array, Array]:
        chunk_potential, pull, _ = kernel_means(self._kernel, places, masses, 0.0)
        in_chunk = np.cumsum(masses)
        mass, sphere_places = in_chunk + before.mass, Places.of(places)
        far = self._unit * self._sums.potential(before.moments, sphere_places)
        far_pull = self._unit * self._sums.pull(before.moments, sphere_places)
        before.moments += self._sums.at.moments(sphere_places, masses)
        before.mass = float(mass[-1])
        shares = (in_chunk / mass)[:, None]
        pull = shares * pull + far_pull / mass[:, None]
        return shares[:, 0] * chunk_potential + far / mass, project(places, pull)


def causal_means(kernel: Exponential | SmoothKernel, dim: int) -> CausalMeans:
    """The means of a kernel through moments, on the circle at angles or on S^2 at unit rows."""
    return CircleMeans(kernel) if dim == 2 else SphereMeans(kernel)
