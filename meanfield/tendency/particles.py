"""d/dt of the points of n tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import Dynamics
from meanfield.exponential_sums import log_moment
from meanfield.geometry import project
from meanfield.measures import Particles

Array = NDArray[np.float64]


class ParticleTendency:
    """dx_i/dt = X[mu](x_i) for the points of a `Particles` measure, (3.1).

    The field is extended to R^d as |x| X(x/|x|), which leaves each |x_i| where it is.

    Parameters
    ----------
    particles : Particles
    dynamics : SA or USA
        Its noise is not part of the tendency.

    Attributes
    ----------
    initial_state : ndarray
        The points as one vector.
    """

    def __init__(self, particles: Particles, dynamics: Dynamics) -> None:
        self.dynamics = dynamics
        self.initial_state = particles.points.ravel().copy()
        self._weights, self._shape = particles.weights, particles.points.shape
        self._dissipation = 0.0

    def measure(self, state: Array) -> Particles:
        """The particles of a vector, put back on the sphere."""
        points = state.reshape(self._shape)
        return Particles(points / np.linalg.norm(points, axis=1, keepdims=True), self._weights)

    def scale(self, state: Array) -> Array:
        """1 for each coordinate, what a tolerance is relative to."""
        return np.ones_like(state)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        beta, normalised = self.dynamics.beta, self.dynamics.normalised
        points = state.reshape(self._shape)
        radii = np.linalg.norm(points, axis=1)
        points = points / radii[:, None]
        log_g, mean = log_moment(points, self._weights, beta * points)
        velocity = self.dynamics.sign * project(points, mean)
        squares = np.einsum("ij,ij->i", velocity, velocity)
        log_speed = 0.5 * log_g if normalised else log_g
        self._dissipation = float(self._weights @ (squares * np.exp(2.0 * log_speed - beta)))
        if not normalised:
            velocity *= np.exp(log_g)[:, None]
        np.multiply(velocity, radii[:, None], out=out.reshape(self._shape))

    def scaled_dissipation(self) -> float:
        """e^{-β} Σ w |X|² (USA), e^{-β} Σ w |X|² G(βx) (SA), at the last state."""
        return self._dissipation
