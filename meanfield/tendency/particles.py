"""d/dt of the points of n tokens."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import Attention, Dynamics
from meanfield.exponential_sums import pull_of_others
from meanfield.geometry import circle_angles, circle_points, exponential, project
from meanfield.measures import Particles
from meanfield.tendency.token_output import TokenOutput
from meanfield.token_sums import SphereSums

Array = NDArray[np.float64]

# terms that a right-hand side may sum one by one where its transforms lose digits
_MOST_PAIRS = 1 << 24


class ParticleTendency:
    """dx_i/dt = X[mu](x_i) for the points of a `Particles` measure, (3.1).

    The field is extended to R^d as |x| X(x/|x|), which leaves each |x_i| where it is.

    Parameters
    ----------
    particles : Particles
    dynamics : SA, USA, DoublyStochastic, Attention or FeedForward
        Its noise is not part of the tendency.
    fast : SphereSums, optional
        The sums in O(n) for its β on S^2; over all pairs if omitted.

    Attributes
    ----------
    initial_state : ndarray
        The points as one vector.
    sums : str
        How sums are done, see `TokenOutput`.
    """

    def __init__(
        self, particles: Particles, dynamics: Dynamics, fast: SphereSums | None = None
    ) -> None:
        self.dynamics = dynamics
        self.initial_state = self.state_of(particles.points)
        self._particles = particles
        self._weights, self._shape = particles.weights, particles.points.shape
        self._fast = fast
        self._is_plain = dynamics.isotropic and not dynamics.balanced
        if self._is_plain:
            self.sums = "direct" if fast is None else "transforms"
        else:
            self.output = TokenOutput(particles, dynamics)
            self.sums = self.output.sums
        self._dissipation = 0.0

    def state_of(self, points: Array) -> Array:
        """The state of tokens at these points."""
        return points.flatten()

    def measure(self, state: Array) -> Particles:
        """The particles of a vector, put back on the sphere."""
        points = state.reshape(self._shape)
        return self._at(points / np.linalg.norm(points, axis=1, keepdims=True))

    def moved(self, state: Array, kicks: Array) -> Array:
        """The state after steps along geodesics, by the tangential parts of `kicks` (n, d)."""
        points = self.measure(state).points
        return self.state_of(exponential(points, project(points, kicks)))

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
        np.multiply(self._velocity(points), radii[:, None], out=out.reshape(self._shape))

    def _velocity(self, points: Array) -> Array:
        if self._is_plain:
            return self._isotropic(points)
        return self._of_output(points)

    def _of_output(self, points: Array) -> Array:
        here, dynamics = self._at(points), self.dynamics
        log_share: Array | float = 0.0
        if isinstance(dynamics, Attention) and dynamics.energy is not None:
            moments = self.output.moments(here)
            velocity = project(points, dynamics.combined(moments))
            # a gradient flow of E_{β,D}: |X|², or with softmax |X|² G
            log_share = (moments[0][0] if dynamics.normalise else 0.0) - dynamics.beta
        else:
            velocity = project(points, self.output(here))
        if not np.isfinite(velocity).all():
            raise ArithmeticError("the field is not finite")
        squares = np.einsum("ij,ij->i", velocity, velocity)
        self._dissipation = float(self._weights @ (squares * np.exp(log_share)))
        return velocity

    def _isotropic(self, points: Array) -> Array:
        dynamics, beta = self.dynamics, self.dynamics.beta
        if self._fast is not None:
            log_g, pull = self._fast.pull(points, self._weights, points, most_pairs=_MOST_PAIRS)
            log_unit = log_g
        else:
            pull, log_unit, log_g = pull_of_others(points, self._weights, beta)
        pull *= dynamics.sign
        # |X|² G for SA, |X|² for USA; X itself may be too large to be squared
        log_share = log_unit - 0.5 * log_g if dynamics.normalised else log_unit
        with np.errstate(under="ignore"):
            shares = pull * np.exp(log_share - 0.5 * beta)[:, None]
            self._dissipation = float(self._weights @ np.einsum("ij,ij->i", shares, shares))
            pull *= np.exp(log_unit - log_g if dynamics.normalised else log_unit)[:, None]
        return pull

    def scaled_dissipation(self) -> float:
        """e^{-β} Σ w |X|² (USA), e^{-β} Σ w |X|² G(βx) (SA), at the last state; else Σ w |X|².

        For attention that has a `balanced_form` like USA, or like SA with G(βDx).
        """
        return self._dissipation


class AngleSums(Protocol):
    """Sums over tokens at their own angles, in O(n)."""

    def potential_and_slope(self, angles: Array, masses: Array) -> tuple[Array, Array]:
        """e^{-β} G and e^{-β} <∇G, tangent>, shape (n,) each."""


class CircleTendency:
    """dθ_i/dt for the angles of tokens on the circle, with sums in O(n).

    Parameters
    ----------
    particles : Particles
        On the circle.
    dynamics : SA, USA or CircleInteraction
        Its noise is not part of the tendency.
    sums : AngleSums
        For the dynamics.

    Attributes
    ----------
    initial_state : ndarray, shape (n,)
        The angles.
    sums : str
        'transforms'.
    """

    sums = "transforms"

    def __init__(self, particles: Particles, dynamics: Dynamics, sums: AngleSums) -> None:
        self.dynamics, self._sums, self._particles = dynamics, sums, particles
        self.initial_state = self.state_of(particles.points)
        self._dissipation = 0.0

    def state_of(self, points: Array) -> Array:
        """The state of tokens at these points."""
        return circle_angles(points)

    def moved(self, state: Array, kicks: Array) -> Array:
        """The angles after steps along the circle, by the tangential parts of `kicks` (n, 2)."""
        return (state + (np.cos(state) * kicks[:, 1] - np.sin(state) * kicks[:, 0])) % (2.0 * np.pi)

    def measure(self, state: Array) -> Particles:
        """The particles at these angles."""
        given = self._particles
        return Particles(circle_points(state), given.weights, sums=given.sums)

    def scale(self, state: Array) -> Array:
        """1 for each angle, what a tolerance is relative to."""
        return np.ones_like(state)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        masses, dynamics = self._particles.weights, self.dynamics
        potential, slope = self._sums.potential_and_slope(state, masses)
        if dynamics.normalised:
            np.divide(slope, potential, out=out)
            self._dissipation = float(np.dot(masses * slope, out))
            out *= dynamics.sign
        else:
            self._dissipation = float(np.dot(masses * slope, slope) * np.exp(dynamics.beta))
            np.multiply(slope, dynamics.sign * np.exp(dynamics.beta), out=out)

    def scaled_dissipation(self) -> float:
        """e^{-β} Σ w |X|² (USA), e^{-β} Σ w |X|² G(βx) (SA), at the last state."""
        return self._dissipation
