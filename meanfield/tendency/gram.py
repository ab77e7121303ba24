"""d/dt of few tokens in a space of many dimensions, through their Gram matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import Dynamics
from meanfield.measures import Particles

Array = NDArray[np.float64]


class GramTendency:
    """dC/dt for tokens x_i(t) = Σ_j C_ij x_j(0), whose Gram matrix is C G(0) Cᵀ.

    A velocity P_x ∇G(βx) is a combination of tokens, so they stay in the span of their starts, and
    with the attention matrix A, dC/dt = ± (A - diag(A G)) C: n³ work, whatever d is. A token's own
    term is left out of A, since P_x x = 0, and rounding would leave 1e-16 e^β of it. The field is
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

    def __init__(self, particles: Particles, dynamics: Dynamics) -> None:
        self.dynamics, self._particles = dynamics, particles
        n = len(particles.points)
        self._n, self._weights = n, particles.weights
        self._gram = particles.points @ particles.points.T
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(particles.weights)
        # the starts in coordinates of their span, where velocities have lengths
        self._in_span = np.linalg.qr(particles.points.T).R.T
        self.initial_state = np.eye(n).ravel()
        self._work = np.empty((3, n, n))
        self._velocities = np.empty_like(self._in_span)
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
        with np.errstate(under="ignore", over="ignore"):
            log_unit, share = self._attend(gram, attention)
        along = np.einsum("ij,ij->i", attention, gram)
        attention /= radii
        np.matmul(attention, combined, out=rate)
        along /= radii
        rate -= along[:, None] * combined
        with np.errstate(under="ignore"):
            np.matmul(rate, self._in_span, out=self._velocities)
            self._velocities *= share[:, None]
            squares = np.einsum("ij,ij->i", self._velocities, self._velocities)
        self._dissipation = float(self._weights @ squares)
        radii *= dynamics.sign * (1.0 if dynamics.normalised else np.exp(log_unit))
        rate *= radii[:, None]

    def _attend(self, gram: Array, attention: Array) -> tuple[Array, Array]:
        """Fill the attention matrix without own terms, for USA row by row in units of e^{u_i}.

        Returns u and e^{-β/2} e^{u} for USA, e^{-β/2} sqrt(G(βx)) for SA: with what |X| counts.
        """
        beta = self.dynamics.beta
        np.multiply(gram, beta, out=attention)
        attention += self._log_weights
        np.fill_diagonal(attention, -np.inf)
        largest = attention.max(axis=1)
        # a token beside which no other has mass
        largest[np.isneginf(largest)] = 0.0
        attention -= largest[:, None]
        np.exp(attention, out=attention)
        if not self.dynamics.normalised:
            return largest, np.exp(largest - 0.5 * beta)
        # where the own term is more than e^709 times all others, they pull by nothing
        others = attention.sum(axis=1)
        attention /= (others + np.exp(beta + self._log_weights - largest))[:, None]
        return largest, np.sqrt(np.exp(largest - beta) * others + self._weights)

    def scaled_dissipation(self) -> float:
        """e^{-β} Σ w |X|² (USA), e^{-β} Σ w |X|² G(βx) (SA), at the last state."""
        return self._dissipation
