"""d/dt of many independent sets of n tokens at once, by their points or by their inner products."""

from __future__ import annotations

import numpy as np

from meanfield._checks import one_of, shown, tell_apart
from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.own import OwnDynamics, adapt
from meanfield.typing import Array

FORMS = ("auto", "points", "gram")
# up to this β neither e^β nor its square over a tolerance overflows
LARGEST_BETA = 300.0


class TangentAttention:
    """M = ± (A - diag(AG)/diag(G)) of each repeat: velocities are X_i = Σ_j M_ij x_j.

    A is the attention matrix e^{β G_ij}, over its row sums for SA and over n for USA.

    Parameters
    ----------
    dynamics : SA or USA
    shape : tuple
        (r, n, n).
    """

    def __init__(self, dynamics: Dynamics, shape: tuple[int, int, int]) -> None:
        self._dynamics, self._n = dynamics, shape[1]
        self._shifted = dynamics.pair_kernel.beta > LARGEST_BETA
        self._matrix = np.empty(shape)
        self._diagonal = self._matrix.reshape(shape[0], -1)[:, :: self._n + 1]
        self._factor = np.full(shape[:2], dynamics.sign / self._n)
        self._along = np.empty(shape[:2])
        self._ones = np.ones(self._n)

    def transposed(self, gram: Array) -> Array:
        """Mᵀ at inner products (r, n, n), in a buffer that the caller may use up."""
        matrix, factor, along, n = self._matrix, self._factor, self._along, self._n
        if self._shifted:
            np.subtract(gram, 1.0, out=matrix)
            matrix *= self._dynamics.pair_kernel.beta
        else:
            np.multiply(gram, self._dynamics.pair_kernel.beta, out=matrix)
        np.exp(matrix, out=matrix)
        # the matrix is symmetric up to here, so its rows are scaled as columns, which is faster in
        # memory
        if self._dynamics.normalised:
            np.matmul(matrix.reshape(-1, n), self._ones, out=factor.reshape(-1))
            np.divide(self._dynamics.sign, factor, out=factor)
        # P_x x = 0, but rounding would leave 1e-16 e^β of it
        self._diagonal[...] = 0.0
        np.vecdot(matrix, gram, out=along)
        matrix *= factor[:, None, :]
        along *= factor
        along /= gram.reshape(len(gram), -1)[:, :: n + 1]
        np.negative(along, out=self._diagonal)
        return matrix


class GramBatch:
    """dG/dt = M G + G Mᵀ for the inner products G of tokens under SA or USA.

    The velocities are combinations of tokens, so the matrices G close: 2n³ operations each,
    whatever d is. G_ii stays where it is, but for rounding.

    Parameters
    ----------
    points : ndarray, shape (r, n, d)
        Unit rows.
    dynamics : SA or USA

    Attributes
    ----------
    initial_state : ndarray, shape (r n²,)
    """

    def __init__(self, points: Array, dynamics: Dynamics) -> None:
        gram = points @ points.transpose(0, 2, 1)
        self._shape = gram.shape
        self.initial_state = gram.ravel()
        self._attention = TangentAttention(dynamics, gram.shape)
        self._product = np.empty_like(gram)
        self._mirrored = self._product.transpose(0, 2, 1)

    def gram(self, state: Array) -> Array:
        """<x_i, x_j>, shape (r, n, n)."""
        return state.reshape(self._shape)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        gram = state.reshape(self._shape)
        matrix = self._attention.transposed(gram)
        np.matmul(gram, matrix, out=self._product)
        # a transposed copy first is faster than a sum of arrays in two memory orders
        np.copyto(matrix, self._mirrored)
        np.add(self._product, matrix, out=out.reshape(self._shape))


class _PointsBatch:
    """A right-hand side whose state is the points (r, n, d) of tokens."""

    def __init__(self, points: Array) -> None:
        self._shape = points.shape
        self.initial_state = points.ravel()

    def gram(self, state: Array) -> Array:
        """<x_i, x_j>/(|x_i| |x_j|), shape (r, n, n)."""
        points = state.reshape(self._shape)
        unit = points / np.linalg.norm(points, axis=2, keepdims=True)
        return np.asarray(unit @ unit.transpose(0, 2, 1))


class PointsBatch(_PointsBatch):
    """dx_i/dt = Σ_j M_ij x_j for the points of tokens under SA or USA, (3.1).

    The field is extended off the sphere such that each |x_i| stays where it is.

    Parameters
    ----------
    points : ndarray, shape (r, n, d)
        Unit rows.
    dynamics : SA or USA

    Attributes
    ----------
    initial_state : ndarray, shape (r n d,)
    """

    def __init__(self, points: Array, dynamics: Dynamics) -> None:
        super().__init__(points)
        r, n, _ = points.shape
        self._attention = TangentAttention(dynamics, (r, n, n))
        self._gram = np.empty((r, n, n))

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        points = state.reshape(self._shape)
        np.matmul(points, points.transpose(0, 2, 1), out=self._gram)
        matrix = self._attention.transposed(self._gram).transpose(0, 2, 1)
        np.matmul(matrix, points, out=out.reshape(self._shape))


class HeadsBatch(_PointsBatch):
    """dx_i/dt = P_x Σ_h V_h ∇G [/ G] for the points of tokens under `Attention`, (2.3) and (2.7).

    The field is extended off the sphere such that each |x_i| stays where it is.

    Parameters
    ----------
    points : ndarray, shape (r, n, d)
        Unit rows.
    dynamics : Attention
        Of dimension d, or of any.

    Attributes
    ----------
    initial_state : ndarray, shape (r n d,)
    """

    def __init__(self, points: Array, dynamics: Dynamics) -> None:
        super().__init__(points)
        r, n, _ = points.shape
        self._normalise = dynamics.normalised
        heads = zip(dynamics.score_matrices, dynamics.value_matrices, strict=True)
        self._heads = [(np.asarray(scores), np.asarray(value)) for scores, value in heads]
        self._matrix = np.empty((r, n, n))
        self._mean, self._turned = np.empty((2, *points.shape))

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        points, total = state.reshape(self._shape), out.reshape(self._shape)
        matrix, mean, outputs = self._matrix, self._mean, self._turned
        total.fill(0.0)
        for bilinear, value in self._heads:
            _times(points, bilinear, outputs)
            np.matmul(outputs, points.transpose(0, 2, 1), out=matrix)
            if self._normalise:
                matrix -= matrix.max(axis=2, keepdims=True)
            np.exp(matrix, out=matrix)
            matrix /= matrix.sum(axis=2, keepdims=True) if self._normalise else len(matrix[0])
            np.matmul(matrix, points, out=mean)
            _times(mean, value, outputs)
            total += outputs
        along = np.einsum("rij,rij->ri", total, points)
        along /= np.einsum("rij,rij->ri", points, points)
        np.multiply(points, along[:, :, None], out=mean)
        total -= mean


def _times(rows: Array, factor: Array, out: Array) -> None:
    """Multiply each row by a matrix or a number, into `out`."""
    if factor.ndim == 0:
        np.multiply(rows, factor, out=out)
    else:
        dim = rows.shape[2]
        np.matmul(rows.reshape(-1, dim), factor.T, out=out.reshape(-1, dim))


BatchTendency = GramBatch | PointsBatch | HeadsBatch


def batch_tendency(points: Array, dynamics: OwnDynamics, form: str = "auto") -> BatchTendency:
    """The right-hand side for r repeats of n tokens in R^d, by `form`; auto: gram if n <= d.

    Raises
    ------
    ValueError
        If the form is none, the dynamics is not moved in it, or β > 300 for USA.
    """
    one_of("form", form, FORMS)
    facts = adapt(dynamics)
    if facts.varies:
        raise ValueError(f"dynamics must not vary in time for many repeats, got {facts}")
    if facts.score_matrices and not facts.is_isotropic:
        if form == "gram":
            raise ValueError(f"form must be 'points' for {shown(dynamics)}, got {shown(form)}")
        return HeadsBatch(points, facts)
    if facts.has_kernel_unit and facts.pair_kernel.beta > LARGEST_BETA:
        beta_text, largest = tell_apart(facts.pair_kernel.beta, LARGEST_BETA)
        raise ValueError(f"beta must be <= {largest} for USA, got {beta_text}")
    _, n, dim = points.shape
    if form == "gram" or (form == "auto" and n <= dim):
        return GramBatch(points, facts)
    return PointsBatch(points, facts)
