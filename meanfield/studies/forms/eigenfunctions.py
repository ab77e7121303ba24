"""Eigenfunctions of the kernel e^{β<x,Dy>}, by the differential operator that it commutes with.

For L = Δ + β²|Dx|² on the sphere, L_x e^{β<x,Dy>} = L_y e^{β<x,Dy>}: both are e^{β<x,Dy>} times
β²|Dx|² + β²|Dy|² - β²<x,Dy>² - (d-1)β<x,Dy>. So the kernel's eigenfunctions are those of L, whose
matrix between harmonics couples neighbouring degrees only (on the circle they are Mathieu
functions, about an axis spheroidal ones). It is as well conditioned as the kernel is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from meanfield.harmonics import log_eigenvalues
from meanfield.studies.forms.basis import Basis

Array = NDArray[np.float64]
Index = NDArray[np.intp]

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
    starts: Index

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


def eigenfunctions(basis: Basis, form: Array, beta: float) -> Eigenfunctions:
    """All eigenfunctions up to the basis' degree, each coefficient right relative to its own size.

    Parameters
    ----------
    basis : Basis
    form : ndarray, shape (d, d)
        Positive definite, of the basis' symmetry.
    beta : float
        > 0.
    """
    degrees, dim = basis.degrees.astype(np.float64), basis.dim
    points, weights = basis.nodes()
    values = basis.at(points)
    squares = np.einsum("ij,ij->i", points @ form, points @ form)
    matrix = -(beta**2) * (values * (weights * squares)[:, None]).T @ values
    matrix[np.diag_indices_from(matrix)] += degrees * (degrees + dim - 2.0)
    # a product with x_i x_j reaches the next even degree at most
    matrix[np.abs(degrees[:, None] - degrees) > 2.0] = 0.0
    starts = np.flatnonzero(np.diff(degrees, prepend=-1.0))
    vectors, logs = _chains(0.5 * (matrix + matrix.T), starts)
    return Eigenfunctions(vectors, logs, _log_values(basis, form, beta, vectors, logs), starts)


def _chains(matrix: Array, starts: Index) -> tuple[Array, Array]:
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
        _sweep(matrix, energies, blocks, peaks, list(order), vectors, logs)
    largest = logs.max(axis=1, keepdims=True)
    logs -= largest + 0.5 * np.log(np.exp(2.0 * (logs - largest)).sum(axis=1, keepdims=True))
    return vectors, logs


def _sweep(
    matrix: Array,
    energies: Array,
    blocks: list[slice],
    peaks: Index,
    order: list[int],
    vectors: Array,
    logs: Array,
) -> None:
    """Fill the blocks from the end `order[0]` up to each eigenvector's peak."""
    place = np.argsort(order)[peaks]
    steps: list[tuple[Index, Array]] = []
    for at, (i, onward) in enumerate(pairwise(order)):
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
    for at in range(len(order) - 2, -1, -1):
        i, onward = order[at], order[at + 1]
        ahead, step = steps[at]
        found = np.einsum("nij,nj->ni", step, vectors[ahead, blocks[onward]])
        size = np.linalg.norm(found, axis=1)
        vectors[ahead, blocks[i]] = found / size[:, None]
        logs[ahead, i] = logs[ahead, onward] + np.log(size)


def _log_values(basis: Basis, form: Array, beta: float, vectors: Array, logs: Array) -> Array:
    """log λ_n = log (Kψ_n)(x)/ψ_n(x), at the point x where both sums cancel least.

    (Kψ)(x) = Σ_k Λ_k(β|Dx|) ψ_k(Dx/|Dx|) by Funk-Hecke. Where |Dx| is small, its terms have one
    sign; where it is large, they cancel.
    """
    points = basis.probes(_PROBES)
    images = points @ form
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
            loss = np.abs(above).sum(axis=1) / np.abs(image) + np.abs(below).sum(axis=1) / np.abs(
                value
            )
        best = int(np.argmin(np.where(np.isfinite(loss), loss, np.inf)))
        if not np.isfinite(loss[best]):
            raise ValueError(
                f"beta or the ratio of form's eigenvalues must be smaller, got {beta:g} and "
                f"{form}: an eigenvalue of e^(beta <x, form y>) has no digits left"
            )
        # apart, since the quotient may underflow
        found[n] = unit + np.log(abs(image[best])) - np.log(abs(value[best]))
    return found
