"""Sums over what each token sees under a causal mask: itself and the tokens before it.

Token j is at the position s_j = Σ_{k<=j} m_k, and sees token k <= j with the mass m_k e^{-λ(s_j -
s_k)} over the sum of all such masses (Karagodin, Polyanskiy and Rigollet, arXiv 2411.04990; λ > 0
is ALiBi, Press, Smith and Lewis, arXiv 2108.12409). Sums over pairs take rows of the triangle. On
the circle a kernel's sums are cumulative sums of moments, in O(n) for each mode.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from meanfield.kernels.direct import Lost, blocks
from meanfield.kernels.kernel import PotentialKernel
from meanfield.typing import Array, Indices

# pairs at a time, which stay in a core's cache
_PAIRS = 1 << 17
# tokens whose moments are made at once, and those of them that are summed pair by pair
_CHUNK, _BLOCK = 2048, 32
_EARLIER = np.tri(_BLOCK, k=-1)
# e^{λ(s_j - s_k)} of two tokens of a chunk stays within e^{500}
_LARGEST_DECAY = 500.0
# below this share of s(1) a series has lost digits; so many pairs may replace it in one sum
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
    """Parts of ascending rows, the rows, and the masses that each of them sees, 0 beyond it."""
    places = positions(masses)
    for part in blocks(len(rows), len(masses), _PAIRS):
        here = rows[part]
        seen = slice(0, int(here[-1]) + 1)
        columns = np.arange(seen.stop)
        shares = np.where(columns <= here[:, None], masses[seen], 0.0)
        if decay:
            with np.errstate(under="ignore"):
                shares *= np.exp(-decay * np.maximum(places[here, None] - places[seen], 0.0))
        yield part, here, shares


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
    potential, own = np.empty(len(rows)), np.empty(len(rows))
    pull = np.empty((len(rows), points.shape[1]))
    for part, here, shares in _triangle(masses, decay, rows):
        shares /= shares.sum(axis=1)[:, None]
        sources, itself = points[: shares.shape[1]], (np.arange(len(here)), here)
        own[part] = shares[itself]
        with np.errstate(under="ignore"):
            shares *= kernel.values(points[here] @ sources.T)
            shares[itself] = 0.0
            potential[part] = shares.sum(axis=1) + kernel.at_one * own[part]
            pull[part] = shares @ sources
    return potential, pull, own


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
    for part, here, shares in _triangle(masses, decay, np.arange(len(z))):
        sources = points[: shares.shape[1]]
        exponents = z[here] @ sources.T
        with np.errstate(divide="ignore", under="ignore"):
            exponents += np.log(shares)
            largest = exponents.max(axis=1)
            terms = np.exp(exponents - largest[:, None])
            sums = terms.sum(axis=1)
            mean[part] = terms @ sources / sums[:, None]
            log_g[part] = largest + np.log(sums) - np.log(shares.sum(axis=1))
    return log_g, mean


class CircleMeans:
    """`kernel_means` on the circle in O(n) for each mode of the kernel, along it.

    With c_k(j) = Σ_{i<=j} m_i e^{-ikθ_i} the potential at θ_j is Re Σ_k Λ_k c_k(j) e^{ikθ_j}. The
    sums c_k are carried from block to block of tokens; within a block pairs are summed. Masses that
    decay are taken relative to the start of each chunk of blocks. Errors are those of rounding
    relative to s(1); where the potential is below 1e-3 of that, its row is summed over pairs, up to
    2^24 of them in one sum.

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
        self._kernel, self._degree = kernel, max(1, kernel.degree(2))
        series = kernel.series(2, self._degree)
        unit = series.size * float(np.exp(series.log_unit - kernel.log_unit))
        orders = np.arange(1, self._degree + 1)
        # a real series has its modes ±k; d/dθ of the primitive is the pull along the circle
        self._mean = unit * float(series.potential[0])
        self._potential = 2.0 * unit * series.potential[1:]
        self._pull = 2.0j * unit * orders * series.primitive[1:]

    @staticmethod
    def holds(masses: Array, decay: float) -> bool:
        """Whether the masses of a chunk that decay stay in double precision."""
        steps = range(0, len(masses), _CHUNK)
        largest = max(float(masses[start : start + _CHUNK].sum()) for start in steps)
        return decay * largest <= _LARGEST_DECAY

    def __call__(self, angles: Array, masses: Array, decay: float) -> tuple[Array, Array]:
        """Means of s (n,) and of the pull along the circle (n,) over what tokens at angles see."""
        # tokens without mass fill up the last block
        filled = 0, -len(angles) % _BLOCK
        places, shares = np.pad(angles, filled), np.pad(masses, filled)
        sums, before = np.empty((2, len(places))), _Before(self._degree)
        for start in range(0, len(places), _CHUNK):
            part = slice(start, start + _CHUNK)
            scaled, growth = shares[part], 1.0
            if decay:
                grown = np.exp(decay * positions(scaled))
                scaled, growth = scaled * grown, float(grown[-1])
            self._sum(places[part], scaled, before, sums[:, part])
            before.decay(growth)
        potential, pull = sums[:, : len(angles)]
        small = _LOST.places(potential, self._kernel.largest, len(angles))
        if len(small) and self._kernel.least_share > 0.0:
            points = np.column_stack([np.cos(angles), np.sin(angles)])
            rows = np.sort(small)
            potential[rows], vectors, _ = kernel_means(self._kernel, points, masses, decay, rows)
            tangents = np.column_stack([-points[rows, 1], points[rows, 0]])
            pull[rows] = np.vecdot(vectors, tangents)
        return potential, pull

    def _sum(self, angles: Array, masses: Array, before: _Before, out: Array) -> None:
        """Write means of s and of the pull, shape (2, n), and carry on what came before."""
        count = len(angles) // _BLOCK
        powers = before.powers[:, : len(angles)]
        powers[0].real, powers[0].imag = np.cos(angles), np.sin(angles)
        done = 1
        while done < self._degree:
            more = min(done, self._degree - done)
            np.multiply(powers[:more], powers[done - 1], out=powers[done : done + more])
            done += more
        modes = powers.reshape(self._degree, count, _BLOCK).transpose(1, 0, 2)
        each = masses.reshape(count, _BLOCK)
        # moments of blocks by e^{ikθ} are the conjugates of c_k; row i has those before block i
        moments = np.empty((count + 1, self._degree), dtype=np.complex128)
        moments[0] = before.moments
        np.matmul(modes, each[..., None].astype(np.complex128), out=moments[1:, :, None])
        np.cumsum(moments, axis=0, out=moments)
        before.moments = moments[-1].copy()
        np.conjugate(moments, out=moments)
        factors = np.stack([self._potential * moments[:-1], self._pull * moments[:-1]], axis=1)
        far = np.matmul(factors, modes).real
        total = np.cumsum(masses)
        total += before.total
        starts = np.append(before.total, total[_BLOCK - 1 : -1 : _BLOCK])
        far[:, 0] += self._mean * starts[:, None]
        before.total = float(total[-1])
        # pairs of the same block
        points = np.ascontiguousarray(powers[0]).view(np.float64).reshape(count, _BLOCK, 2)
        terms = self._kernel.values(np.matmul(points, points.transpose(0, 2, 1)))
        terms *= _EARLIER
        sources = np.empty((count, _BLOCK, 3))
        sources[..., 0] = each
        np.multiply(points, each[..., None], out=sources[..., 1:])
        near = np.matmul(terms, sources)
        far[:, 0] += near[..., 0] + self._kernel.at_one * each
        far[:, 1] += points[..., 0] * near[..., 2] - points[..., 1] * near[..., 1]
        np.divide(far.transpose(1, 0, 2).reshape(2, -1), total, out=out)


class _Before:
    """The sums over all tokens before a chunk: Σ m e^{ikθ} and Σ m, and a room for powers."""

    def __init__(self, degree: int) -> None:
        self.moments, self.total = np.zeros(degree, dtype=np.complex128), 0.0
        self.powers = np.empty((degree, _CHUNK), dtype=np.complex128)

    def decay(self, growth: float) -> None:
        """Be relative to the end of a chunk over which masses grew."""
        self.moments /= growth
        self.total /= growth
