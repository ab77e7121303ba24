"""d/dt of few tokens in a space of many dimensions, through their Gram matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import SA, USA
from meanfield.measures import Particles

Array = NDArray[np.float64]


class GramTendency:
    """dC/dt for tokens x_i(t) = Σ_j C_ij x_j(0), whose Gram matrix is C G(0) Cᵀ.

    A velocity P_x ∇G(βx) is a combination of tokens, so they stay in the span of their starts, and
    with the attention matrix A, dC/dt = ± (A - diag(A G)) C: n³ work, whatever d is. The field is
    extended to rows of any length as in `ParticleTendency`.

    Parameters
    ----------
    particles : Particles
    dynamics : SA or USA
        Its noise is not part of the tendency.

    Attributes
    ----------
    initial_state : ndarray, shape (n²,)
        The identity.
    sums : str
        'gram'.
    """

    sums = "gram"

    def __init__(self, particles: Particles, dynamics: SA | USA) -> None:
        self.dynamics, self._particles = dynamics, particles
        n = len(particles.points)
        self._n, self._weights = n, particles.weights
        self._gram = particles.points @ particles.points.T
        self.initial_state = np.eye(n).ravel()
        self._work = np.empty((3, n, n))
        self._dissipation = 0.0

    def gram(self, state: Array) -> Array:
        """<x_i, x_j>, shape (n, n), the tokens put back on the sphere."""
        combined = state.reshape(self._n, self._n)
        gram = combined @ self._gram @ combined.T
        radii = np.sqrt(gram.diagonal())
        return np.asarray(gram / np.outer(radii, radii))

    def measure(self, state: Array) -> Particles:
        """The particles of a state, put back on the sphere."""
        given = self._particles
        points = state.reshape(self._n, self._n) @ given.points
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        return Particles(points, given.weights, sums=given.sums)

    def scale(self, state: Array) -> Array:
        """1 for each coefficient, what a tolerance is relative to."""
        return np.ones_like(state)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        dynamics, n = self.dynamics, self._n
        combined, rate = state.reshape(n, n), out.reshape(n, n)
        gram, attention, product = self._work
        np.matmul(combined, self._gram, out=product)
        np.matmul(product, combined.T, out=gram)
        radii = np.sqrt(gram.diagonal())
        gram /= radii
        gram /= radii[:, None]
        # e^{-β} G(βx): 1 is the largest inner product but for rounding
        np.subtract(gram, 1.0, out=attention)
        attention *= dynamics.beta
        with np.errstate(under="ignore"):
            np.exp(attention, out=attention)
        attention *= self._weights
        potential = attention.sum(axis=1)
        if dynamics.normalised:
            attention /= potential[:, None]
        along = np.einsum("ij,ij->i", attention, gram)
        # <X_i, x_j>, of which |X_i|² is a mean over j without cancellation of 1 against 1
        np.matmul(attention, gram, out=product)
        gram *= along[:, None]
        product -= gram
        # <X_i, x_i> = 0 would leave rounding, at the largest weight of all
        np.fill_diagonal(product, 0.0)
        squares = np.einsum("ij,ij->i", product, attention)
        share = potential if dynamics.normalised else np.exp(dynamics.beta)
        self._dissipation = float(self._weights @ (squares * share))
        attention *= radii[:, None]
        attention /= radii
        np.matmul(attention, combined, out=rate)
        rate -= along[:, None] * combined
        rate *= dynamics.sign * (1.0 if dynamics.normalised else np.exp(dynamics.beta))

    def scaled_dissipation(self) -> float:
        """e^{-β} Σ w |X|² (USA), e^{-β} Σ w |X|² G(βx) (SA), at the last state."""
        return self._dissipation
