"""d/dt of n tokens: of their points, of coordinates in their span, or of their angles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import compress
from typing import Any

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.kuramoto import phase_velocity
from meanfield.kernels.line import Line, LineSums
from meanfield.kernels.sinkhorn import scaling
from meanfield.kernels.token_sums import score_sums
from meanfield.measures.particles import Oscillators, Particles
from meanfield.spaces.geometry import circle_angles, circle_points, exponential, project
from meanfield.typing import Array, NDArray


class TokenOutput:
    """`dynamics.output` of tokens at the tokens, head by head in O(n) where there are such sums.

    Parameters
    ----------
    particles : Particles
        Whose number and `sums` settle how it is done.
    dynamics : SA, USA, DoublyStochastic, CircleInteraction, Attention or FeedForward

    Attributes
    ----------
    sums : str
        'direct', 'float32', 'transforms', several joined by 'and', 'none' for a feed-forward layer,
        or 'own' for a dynamics that is not of the package.
    """

    def __init__(self, particles: Particles, dynamics: Any) -> None:
        self.dynamics = dynamics
        # which heads with matrices of their own are summed in O(n), by sums of them all
        self._is_fast: list[bool] = []
        if not dynamics._scores:
            ways = [dynamics._sums]
        elif dynamics._isotropic:
            is_fast = particles._kernel_sums(dynamics._kernel) is not None
            is_scaled = dynamics._balanced and not is_fast
            ways = ["direct" if is_scaled else particles._way(is_fast)]
        else:
            matrices = [m for m, _ in dynamics._matrices(particles.dim)]
            self._is_fast = [particles._has_score_sums(m) for m in matrices]
            ways = [
                particles._way(fast or particles._sums_at(particles.points @ m.T) is not None)
                for m, fast in zip(matrices, self._is_fast, strict=True)
            ]
            if any(self._is_fast):
                self._sums = score_sums(list(compress(matrices, self._is_fast)))
        self.sums = joined(ways)

    def __call__(self, particles: Particles) -> Array:
        """Σ_h V_h ∇G [/ G] at the tokens, shape (n, d)."""
        if not self._is_fast:
            return np.asarray(self.dynamics.output(particles, particles.points))
        return np.asarray(self.dynamics._combined(self.moments(particles)))

    def moments(self, particles: Particles) -> list[tuple[Array, Array]]:
        """log G and ∇G/G of attention at the tokens, head by head."""
        points, found = particles.points, []
        if any(self._is_fast):
            found = self._sums.log_moments(points, particles.weights, points)
        together = iter(found)
        return [
            next(together) if is_fast else particles.log_moment(z)
            for is_fast, z in zip(self._is_fast, self.dynamics._queries(points), strict=True)
        ]


def joined(ways: Iterable[str]) -> str:
    """Ways to sum in one phrase, each once.

    Examples
    --------
    >>> joined(["transforms", "direct", "none", "direct"]), joined(["none"])
    ('direct and transforms', 'none')
    """
    each = {word for way in ways for word in way.split(" and ")}
    return " and ".join(sorted(each - {"none"})) or "none"


class TokenTendency(ABC):
    """d/dt of tokens; a state holds their points, if nothing else is said.

    The sums over tokens stay for a whole run, wherever the tokens come to.

    Parameters
    ----------
    particles : Particles
    dynamics : Dynamics
        Its noise is not part of the tendency.

    Attributes
    ----------
    initial_state : ndarray
        The points as one vector.
    sums : str
        How sums are done, see `TokenOutput`.
    """

    sums: str

    def __init__(self, particles: Particles, dynamics: Dynamics) -> None:
        self.dynamics = dynamics
        self.begin(particles)

    def begin(self, particles: Particles) -> None:
        """Start from these tokens, of the number, weights and way to sum of those before."""
        self._particles, self._dissipation = particles, 0.0
        self._weights, self._shape = particles.weights, particles.points.shape
        self.initial_state = self.state_of(particles.points)

    @abstractmethod
    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""

    def state_of(self, points: Array) -> Array:
        """The state of tokens at these points."""
        return points.flatten()

    def measure(self, state: Array) -> Particles:
        """The particles of a state, put back on the sphere."""
        points = state.reshape(self._shape)
        return self._at(points / np.linalg.norm(points, axis=1, keepdims=True))

    def _at(self, points: Array) -> Particles:
        return Particles(points, self._weights, sums=self._particles.sums)

    def moved(self, state: Array, kicks: Array) -> Array:
        """The state after steps along geodesics, by the tangential parts of `kicks` (n, d)."""
        points = self.measure(state).points
        return self.state_of(exponential(points, project(points, kicks)))

    def output(self, measure: Particles) -> Array:
        """What the dynamics adds to tokens of this number, shape (n, d)."""
        return self.dynamics.output(measure, measure.points)

    def scale(self, state: Array) -> Array:
        """1 for each entry, what a tolerance is relative to."""
        return np.ones_like(state)

    def scaled_dissipation(self) -> float:
        """Σ w |X|², Σ w |X|² G where X is normalised, in units of e^{log_unit} of the kernel.

        For attention that has an energy like USA, or like SA with G(βDx).
        """
        return self._dissipation


class ParticleTendency(TokenTendency):
    """dx_i/dt = X[mu](x_i) for the points of a `Particles` measure, (3.1).

    The field is extended to R^d as |x| X(x/|x|), which leaves each |x_i| where it is.

    Parameters
    ----------
    particles : Particles
    dynamics : Dynamics
        With a kernel. Its noise is not part of the tendency.
    fast : SphereSums or Exponential, optional
        The sums for its kernel in O(n) on S^2, or in float32; over all pairs if omitted.
    in_span : bool
        Whether a state holds coordinates in the span of the tokens, which they never leave: at
        most n for each, whatever d is. They are a triangular factor of the Gram matrix.
    """

    _basis: Array | None = None

    def __init__(
        self,
        particles: Particles,
        dynamics: Dynamics,
        fast: Any = None,
        *,
        in_span: bool = False,
    ) -> None:
        self._in_span = in_span
        super().__init__(particles, dynamics)
        self._sums = fast or dynamics._kernel
        self.sums = "gram" if in_span else "direct" if fast is None else particles._way(True)

    def begin(self, particles: Particles) -> None:
        """Start from these tokens, see `TokenTendency`."""
        if self._in_span:
            # orthonormal rows
            self._basis = np.linalg.qr(particles.points.T).Q.T
        super().begin(particles)

    def state_of(self, points: Array) -> Array:
        """The state of tokens at these points."""
        return super().state_of(points if self._basis is None else points @ self._basis.T)

    def measure(self, state: Array) -> Particles:
        """The particles of a state, put back on the sphere."""
        if self._basis is None:
            return super().measure(state)
        return super().measure(state.reshape(len(self._weights), -1) @ self._basis)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        points = state.reshape(len(self._weights), -1)
        radii = np.sqrt(np.vecdot(points, points))[:, None]
        np.multiply(self._velocity(points / radii), radii, out=out.reshape(points.shape))

    def _velocity(self, points: Array) -> Array:
        dynamics, kernel = self.dynamics, self.dynamics._kernel
        pull, log_unit, log_g = self._sums.pull_of_others(points, self._weights)
        pull *= dynamics.sign
        # |X|² G for SA, |X|² for USA; X itself may be too large to be squared
        log_share = log_unit - 0.5 * log_g if dynamics.normalised else log_unit
        with np.errstate(under="ignore"):
            shares = pull * np.exp(log_share - 0.5 * kernel.log_unit)[:, None]
            self._dissipation = float(self._weights @ np.vecdot(shares, shares))
            pull *= np.exp(log_unit - log_g if dynamics.normalised else log_unit)[:, None]
        return np.asarray(pull)


class OutputTendency(ParticleTendency):
    """dx_i/dt = P_x output(mu, x_i) for the points of tokens, for any output.

    Parameters
    ----------
    particles : Particles
    dynamics : DoublyStochastic, Attention, FeedForward or one of a user's own
        Its noise is not part of the tendency.
    """

    def __init__(self, particles: Particles, dynamics: Dynamics) -> None:
        super().__init__(particles, dynamics)
        self._output = TokenOutput(particles, dynamics)
        self.sums = self._output.sums

    def output(self, measure: Particles) -> Array:
        """What the dynamics adds to tokens of this number, shape (n, d)."""
        return self._output(measure)

    def _velocity(self, points: Array) -> Array:
        here, dynamics = self._at(points), self._output.dynamics
        log_share: Array | float = 0.0
        if dynamics._energy is not None:
            moments = self._output.moments(here)
            velocity = project(points, dynamics._combined(moments))
            # a gradient flow of E_{β,D}: |X|², or with softmax |X|² G
            log_g = moments[0][0] if dynamics.normalised else 0.0
            log_share = log_g - dynamics._energy.log_unit
        else:
            velocity = project(points, self._output(here))
        if not np.isfinite(velocity).all():
            raise ArithmeticError("the field is not finite")
        squares = np.einsum("ij,ij->i", velocity, velocity)
        self._dissipation = float(self._weights @ (squares * np.exp(log_share)))
        return velocity


class CircleTendency(TokenTendency):
    """dθ_i/dt for the angles of tokens on the circle, with sums in O(n).

    Parameters
    ----------
    particles : Particles
        On the circle.
    dynamics : SA, USA or CircleInteraction
        Its noise is not part of the tendency.
    cells : Line
        Of its kernel.

    Attributes
    ----------
    initial_state : ndarray, shape (n,)
        The angles.
    sums : str
        'transforms'.
    """

    sums = "transforms"

    def __init__(self, particles: Particles, dynamics: Dynamics, cells: Line | None) -> None:
        super().__init__(particles, dynamics)
        self._cells: Any = cells

    def state_of(self, points: Array) -> Array:
        """The state of tokens at these points."""
        return circle_angles(points)

    def moved(self, state: Array, kicks: Array) -> Array:
        """The angles after steps along the circle, by the tangential parts of `kicks` (n, 2)."""
        return (state + (np.cos(state) * kicks[:, 1] - np.sin(state) * kicks[:, 0])) % (2.0 * np.pi)

    def measure(self, state: Array) -> Particles:
        """The particles at these angles."""
        return self._at(circle_points(state))

    def _potential_and_slope(self, angles: Array, masses: Array) -> Array:
        """e^{-u} ∫ s dmu and e^{-u} <∫ s y dmu, tangent> at the tokens, shape (2, n)."""
        return LineSums(self._cells, angles)(masses, 2)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        masses, dynamics = self._weights, self.dynamics
        potential, slope = self._potential_and_slope(state, masses)
        if dynamics.normalised:
            np.divide(slope, potential, out=out)
            self._dissipation = float(np.dot(masses * slope, out))
            out *= dynamics.sign
        else:
            self._dissipation = float(
                np.dot(masses * slope, slope) * np.exp(dynamics._kernel.log_unit)
            )
            np.multiply(slope, dynamics.sign * np.exp(dynamics._kernel.log_unit), out=out)


class BalancedParticleTendency(OutputTendency):
    """dx_i/dt = X[mu](x_i) for tokens under `DoublyStochastic`.

    Parameters
    ----------
    particles : Particles
    dynamics : DoublyStochastic
    """

    _log_u: Array | None = None

    def begin(self, particles: Particles) -> None:
        """Start from these tokens, and the scaling from 1."""
        super().begin(particles)
        self._log_u = None

    def _velocity(self, points: Array) -> Array:
        here, dynamics = self._at(points), self.dynamics
        if self._weights.all():
            sums = here._node_sums(dynamics._kernel.beta)
            self._log_u = scaling(sums.potential, self._weights, self._log_u)
            potential, velocity = sums.pull(self._weights * np.exp(self._log_u))
            velocity *= (dynamics.sign / potential)[:, None]
        else:
            velocity = project(points, dynamics.output(here, points))
        squares = np.einsum("ij,ij->i", velocity, velocity)
        self._dissipation = float(self._weights @ squares)
        return velocity


Complex = NDArray[np.complex128]


class OscillatorTendency(CircleTendency):
    """dθ_i/dt = ω_i + X(θ_i) for tokens on the circle, (7.5); ω = 0 where they have none.

    Parameters
    ----------
    particles : Particles
        On the circle; `Oscillators` have frequencies.
    dynamics : CircleInteraction
        Its noise is not part of the tendency.
    multipliers : ndarray, shape (kmax + 1,)
        Of the dynamics.
    """

    def __init__(self, particles: Particles, dynamics: Dynamics, multipliers: Complex) -> None:
        super().__init__(particles, dynamics, None)
        self._multipliers = multipliers

    def begin(self, particles: Particles) -> None:
        """Start from these tokens, `Oscillators` from their angles as they are."""
        super().begin(particles)
        self._frequencies: Array | float = 0.0
        if isinstance(particles, Oscillators):
            self._frequencies, self.initial_state = particles.frequencies, particles.angles.copy()

    def measure(self, state: Array) -> Particles:
        """The tokens at these angles."""
        if (frequencies := self._particles._frequencies) is not None:
            return Oscillators(state, frequencies, self._weights)
        return super().measure(state)

    def _potential_and_slope(self, angles: Array, masses: Array) -> Array:
        """1, which an interaction does not divide by, and X from moments, in O(n kmax)."""
        moments = np.empty(len(self._multipliers), dtype=np.complex128)
        moments[0] = masses.sum()
        turn = np.exp(-1j * angles)
        power = np.ones_like(turn)
        for k in range(1, len(moments)):
            power *= turn
            moments[k] = masses @ power
        slope = phase_velocity(self._multipliers, moments, angles)
        return np.stack([np.ones_like(angles), slope])

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        super().__call__(state, out)
        out += self._frequencies
