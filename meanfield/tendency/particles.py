"""d/dt of the points of n tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import SA, USA, Field
from meanfield.exponential_sums import log_moment
from meanfield.geometry import project
from meanfield.measures import Particles

Array = NDArray[np.float64]

# terms that a right-hand side may sum one by one where its transforms lose digits
_MOST_PAIRS = 1 << 24


class ParticleTendency:
    """dx_i/dt = X[mu](x_i) for the points of a `Particles` measure, (3.1).

    The field is extended to R^d as |x| X(x/|x|), which leaves each |x_i| where it is.

    Parameters
    ----------
    particles : Particles
        Its `sums` tells how sums over tokens are done.
    dynamics : SA, USA, Attention or FeedForward
        Its noise is not part of the tendency.

    Attributes
    ----------
    initial_state : ndarray
        The points as one vector.
    sums : str
        How sums are done: 'transforms' or 'direct'.
    """

    def __init__(self, particles: Particles, dynamics: Field) -> None:
        self.dynamics = dynamics
        self.initial_state = particles.points.ravel().copy()
        self._particles = particles
        self._weights, self._shape = particles.weights, particles.points.shape
        isotropic = isinstance(dynamics, (SA, USA))
        self._fast = particles.fast_sums(dynamics.beta) if isotropic else None
        self.sums = "direct" if self._fast is None else "transforms"
        self._dissipation = 0.0

    def measure(self, state: Array) -> Particles:
        """The particles of a vector, put back on the sphere."""
        points = state.reshape(self._shape)
        return self._at(points / np.linalg.norm(points, axis=1, keepdims=True))

    def _at(self, points: Array) -> Particles:
        return Particles(points, self._weights, sums=self._particles.sums)

    def scale(self, state: Array) -> Array:
        """1 for each coordinate, what a tolerance is relative to."""
        return np.ones_like(state)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        points = state.reshape(self._shape)
        radii = np.linalg.norm(points, axis=1)
        points = points / radii[:, None]
        if isinstance(self.dynamics, (SA, USA)):
            velocity = self._isotropic(self.dynamics, points)
        else:
            velocity = project(points, self.dynamics.output(self._at(points), points))
            squares = np.einsum("ij,ij->i", velocity, velocity)
            self._dissipation = float(self._weights @ squares)
        np.multiply(velocity, radii[:, None], out=out.reshape(self._shape))

    def _isotropic(self, dynamics: SA | USA, points: Array) -> Array:
        beta = dynamics.beta
        if self._fast is not None:
            log_g, pull = self._fast.pull(points, self._weights, points, most_pairs=_MOST_PAIRS)
        else:
            log_g, mean = log_moment(points, self._weights, beta * points)
            pull = project(points, mean)
        pull *= dynamics.sign
        squares = np.einsum("ij,ij->i", pull, pull)
        log_speed = 0.5 * log_g if dynamics.normalised else log_g
        self._dissipation = float(self._weights @ (squares * np.exp(2.0 * log_speed - beta)))
        if not dynamics.normalised:
            pull *= np.exp(log_g)[:, None]
        return pull

    def scaled_dissipation(self) -> float:
        """e^{-β} Σ w |X|² (USA), e^{-β} Σ w |X|² G(βx) (SA), at the last state; else Σ w |X|²."""
        return self._dissipation
