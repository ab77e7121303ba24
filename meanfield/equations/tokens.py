"""d/dt of n tokens: of their points, of their angles, or through their Gram matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.kuramoto import phase_velocity
from meanfield.kernels.sinkhorn import scaling
from meanfield.kernels.token_sums import ScoreSums
from meanfield.measures.particles import Oscillators, Particles
from meanfield.spaces.geometry import circle_angles, circle_points, exponential, project
from meanfield.typing import Array, NDArray

# e^{-β} G and e^{-β} <∇G, tangent> of tokens at angles, by masses, at their own places
AngleSums = Callable[[Array, Array], tuple[Array, Array]]


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
        # of heads with matrices of their own
        self._fast: list[ScoreSums | None] = []
        if not dynamics._scores:
            ways = [dynamics._sums]
        elif dynamics._isotropic:
            fast = particles._fast_sums(dynamics._kernel.beta)
            is_scaled = dynamics._balanced and fast is None
            ways = ["direct" if is_scaled else particles._way(fast)]
        else:
            ways = [self._choose(particles, m) for m, _ in dynamics._matrices(particles.dim)]
        self.sums = joined(ways)

    def _choose(self, particles: Particles, matrix: Array) -> str:
        fast = particles._fast_score_sums(matrix)
        self._fast.append(fast)
        return particles._way(fast or particles._sums_at(particles.points @ matrix.T))

    def __call__(self, particles: Particles) -> Array:
        """Σ_h V_h ∇G [/ G] at the tokens, shape (n, d)."""
        if not self._fast:
            return np.asarray(self.dynamics.output(particles, particles.points))
        return np.asarray(self.dynamics._combined(self.moments(particles)))

    def moments(self, particles: Particles) -> list[tuple[Array, Array]]:
        """log G and ∇G/G of attention at the tokens, head by head."""
        points = particles.points
        return [
            particles.log_moment(z)
            if fast is None
            else fast.quick(points, particles.weights, points)
            for fast, z in zip(self._fast, self.dynamics._queries(points), strict=True)
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
        self.dynamics, self._particles = dynamics, particles
        self._weights, self._shape = particles.weights, particles.points.shape
        self.initial_state = self.state_of(particles.points)
        self._dissipation = 0.0

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
    fast : SphereSums, SphereKernelSums or Exponential, optional
        The sums for its kernel in O(n) on S^2, or in float32; over all pairs if omitted.
    """

    def __init__(self, particles: Particles, dynamics: Dynamics, fast: Any = None) -> None:
        super().__init__(particles, dynamics)
        self._sums = fast or dynamics._kernel
        self.sums = "direct" if fast is None else particles._way(fast)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        points = state.reshape(self._shape)
        radii = np.linalg.norm(points, axis=1)
        points = points / radii[:, None]
        np.multiply(self._velocity(points), radii[:, None], out=out.reshape(self._shape))

    def _velocity(self, points: Array) -> Array:
        dynamics, kernel = self.dynamics, self.dynamics._kernel
        pull, log_unit, log_g = self._sums.pull_of_others(points, self._weights)
        pull *= dynamics.sign
        # |X|² G for SA, |X|² for USA; X itself may be too large to be squared
        log_share = log_unit - 0.5 * log_g if dynamics.normalised else log_unit
        with np.errstate(under="ignore"):
            shares = pull * np.exp(log_share - 0.5 * kernel.log_unit)[:, None]
            self._dissipation = float(self._weights @ np.einsum("ij,ij->i", shares, shares))
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
        super().__init__(particles, dynamics)
        self._sums = sums

    def state_of(self, points: Array) -> Array:
        """The state of tokens at these points."""
        return circle_angles(points)

    def moved(self, state: Array, kicks: Array) -> Array:
        """The angles after steps along the circle, by the tangential parts of `kicks` (n, 2)."""
        return (state + (np.cos(state) * kicks[:, 1] - np.sin(state) * kicks[:, 0])) % (2.0 * np.pi)

    def measure(self, state: Array) -> Particles:
        """The particles at these angles."""
        return self._at(circle_points(state))

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        masses, dynamics = self._weights, self.dynamics
        potential, slope = self._sums(state, masses)
        if dynamics.normalised:
            np.divide(slope, potential, out=out)
            self._dissipation = float(np.dot(masses * slope, out))
            out *= dynamics.sign
        else:
            self._dissipation = float(
                np.dot(masses * slope, slope) * np.exp(dynamics._kernel.log_unit)
            )
            np.multiply(slope, dynamics.sign * np.exp(dynamics._kernel.log_unit), out=out)


class GramTendency(TokenTendency):
    """dC/dt for tokens x_i(t) = Σ_j C_ij x_j(0), whose Gram matrix is C G(0) Cᵀ.

    A velocity P_x ∇G(βx) is a combination of tokens, so they stay in the span of their starts, and
    with the attention matrix A, dC/dt = ± (A - diag(A G)) C: n³ work, for any d. A token's own
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
        super().__init__(particles, dynamics)
        n = self._n = len(particles.points)
        self._gram = particles.points @ particles.points.T
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(particles.weights)
        # the starts in coordinates of their span, where velocities have lengths
        self._in_span = np.linalg.qr(particles.points.T).R.T
        self.initial_state = np.eye(n).ravel()
        self._work = np.empty((3, n, n))
        self._velocities = np.empty_like(self._in_span)

    def measure(self, state: Array) -> Particles:
        """The particles of a state, put back on the sphere."""
        return super().measure(state.reshape(self._n, self._n) @ self._particles.points)

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
        beta = self.dynamics._kernel.beta
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


class BalancedParticleTendency(OutputTendency):
    """dx_i/dt = X[mu](x_i) for tokens under `DoublyStochastic`.

    Parameters
    ----------
    particles : Particles
    dynamics : DoublyStochastic
    """

    _log_u: Array | None = None

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
        super().__init__(particles, dynamics, self._potential_and_slope)
        self._multipliers = multipliers
        self._frequencies: Array | float = 0.0
        if isinstance(particles, Oscillators):
            self._frequencies, self.initial_state = particles.frequencies, particles.angles.copy()

    def measure(self, state: Array) -> Particles:
        """The tokens at these angles."""
        if (frequencies := self._particles._frequencies) is not None:
            return Oscillators(state, frequencies, self._weights)
        return super().measure(state)

    def _potential_and_slope(self, angles: Array, masses: Array) -> tuple[Array, Array]:
        """1, which an interaction does not divide by, and X from moments, in O(n kmax)."""
        moments = np.empty(len(self._multipliers), dtype=np.complex128)
        moments[0] = masses.sum()
        turn = np.exp(-1j * angles)
        power = np.ones_like(turn)
        for k in range(1, len(moments)):
            power *= turn
            moments[k] = masses @ power
        return np.ones_like(angles), phase_velocity(self._multipliers, moments, angles)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        super().__call__(state, out)
        out += self._frequencies
