"""d/dt of n tokens: of their points, of coordinates in their span, or of their angles."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.kuramoto import Moments, phase_velocity, turned
from meanfield.equations.in_time import Steady
from meanfield.equations.rates import Rates, Tendency, added, check_finite
from meanfield.kernels.causal import CausalMeans
from meanfield.kernels.line import Line, LineSums
from meanfield.kernels.sinkhorn import scaling
from meanfield.kernels.sums import TokenSums
from meanfield.kernels.token_sums import score_sums
from meanfield.measures.particles import Particles
from meanfield.spaces.geometry import circle_angles, circle_points, exponential, project
from meanfield.typing import Array

# a field tells its time from so many tokens; up to so many products that time is not worth telling
_BLOCK, _MANY_PRODUCTS = 1024, 1e9
_OF_PAIRS = "direct", "float32"
_TURN = 0.5 * np.pi


def joined(ways: Iterable[str]) -> str:
    """Ways to sum in one phrase, each once.

    Examples
    --------
    >>> joined(["transforms", "direct", "none", "direct"]), joined(["none"])
    ('direct and transforms', 'none')
    """
    words = {word for way in ways for word in way.split(" and ")}
    return " and ".join(sorted(words - {"none"})) or "none"


class Points:
    """Tokens as rows of R^d, to which a field is extended as |x| X(x/|x|), so that |x_i| stays."""

    # fields are asked for along the circle
    has_angles = False

    def begin(self, particles: Particles) -> Array:
        """Start from these tokens: their state."""
        self._shape = particles.points.shape
        return self.state_of(particles.points)

    def state_of(self, points: Array) -> Array:
        """The state of tokens at unit rows (n, d)."""
        return points.flatten()

    def points(self, state: Array) -> Array:
        """Unit rows (n, d) of a state."""
        points = state.reshape(self._shape)
        return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))

    def move(self, state: Array, kicks: Array) -> Array:
        """The state after steps along geodesics, by the tangential parts of `kicks` (n, d)."""
        points = self.points(state)
        return self.state_of(exponential(points, project(points, kicks)))

    def places(self, state: Array) -> Array:
        """Unit rows (n, k) in these coordinates, at which the field is asked for."""
        points = state.reshape(self._shape[0], -1)
        self._radii = np.sqrt(np.vecdot(points, points))[:, None]
        return np.asarray(points / self._radii)

    def write(self, velocity: Array, out: Array) -> None:
        """Write d/dt of the last state from the field at its places."""
        np.multiply(velocity, self._radii, out=out.reshape(velocity.shape))


class Span(Points):
    """Tokens as combinations of an orthonormal basis of their span, which they never leave.

    There are at most n coordinates for each, whatever d is: a triangular factor of the Gram matrix.
    """

    def begin(self, particles: Particles) -> Array:
        """Start from these tokens, and from a basis of their span."""
        # the rows of the basis are orthonormal
        self._basis = np.linalg.qr(particles.points.T).Q.T
        return super().begin(particles)

    def state_of(self, points: Array) -> Array:
        """The state of tokens at unit rows (n, d)."""
        return super().state_of(points @ self._basis.T)

    def points(self, state: Array) -> Array:
        """Unit rows (n, d) of a state."""
        return super().points(state.reshape(self._shape[0], -1) @ self._basis)


class Angles:
    """Tokens on the circle as angles, which turn with their frequencies where they have any."""

    has_angles = True

    def begin(self, particles: Particles) -> Array:
        """Start from these tokens, `Oscillators` from their angles as they are."""
        self._frequencies = particles.natural_frequencies
        if self._frequencies is None:
            return self.state_of(particles.points)
        return np.array(particles.angles)  # type: ignore[attr-defined]

    def state_of(self, points: Array) -> Array:
        """The angles of tokens at unit rows (n, 2)."""
        return circle_angles(points)

    def points(self, state: Array) -> Array:
        """Unit rows (n, 2) of angles."""
        return circle_points(state)

    def move(self, state: Array, kicks: Array) -> Array:
        """The angles after steps along the circle, by the tangential parts of `kicks` (n, 2)."""
        return (state + (np.cos(state) * kicks[:, 1] - np.sin(state) * kicks[:, 0])) % (2.0 * np.pi)

    def places(self, state: Array) -> Array:
        """The angles, at which the field is asked for."""
        return state

    def write(self, velocity: Array, out: Array) -> None:
        """Write d/dt of the angles from the field at their places."""
        np.add(velocity, 0.0 if self._frequencies is None else self._frequencies, out=out)


Chart = Points | Angles


class FieldAtTokens(Steady, ABC):
    """X at tokens, at their own places.

    Parameters
    ----------
    dynamics : Dynamics
        Its noise is not part of the field.

    Attributes
    ----------
    sums : str
        How sums are done: 'direct', 'float32', 'transforms', 'gram', several joined by 'and',
        'none' for a feed-forward layer, or 'own' for a dynamics that is not of the package.
    """

    sums = "transforms"

    def __init__(self, dynamics: Dynamics) -> None:
        self.dynamics = dynamics

    @property
    def has_flow(self) -> bool:
        """Whether `pull` tells X, so that the way of phases is known where X stands still."""
        return False

    def pull(self, places: Array, masses: Array) -> complex:
        """The number a of X(θ) = Re(a e^{iθ}) along the circle."""
        raise TypeError(
            f"{self.dynamics!r} has no flow of {len(masses)} masses at {len(places)} places"
        )

    @abstractmethod
    def __call__(self, places: Array, masses: Array) -> Rates:
        """X and ∇ δE/δmu at unit rows (n, d), or along the circle at angles (n,)."""

    def output(self, measure: Particles) -> Array:
        """The output of the dynamics for tokens of this number, shape (n, d)."""
        return self.dynamics.output_from(measure, measure.points, None)

    def pairs(self, count: int) -> int:  # noqa: ARG002 (of sums in O(n))
        """How many terms are summed over pairs of so many tokens, 0 where no pairs are."""
        return 0

    def seconds(self, places: Array) -> float:
        """About how long the field takes at unit rows (n, d), by a block; 0 if it is short."""
        pairs = self.pairs(len(places))
        if pairs * places[0].size < _MANY_PRODUCTS:
            return 0.0
        block, seconds = places[:_BLOCK], np.inf
        # the first call is not timed, since libraries may start up in it
        for _ in range(2):
            start = time.perf_counter()
            self._sum(block, np.full(len(block), 1.0 / len(block)))
            seconds = min(seconds, time.perf_counter() - start)
            self.forget()
        return seconds * pairs / self.pairs(len(block))

    def _sum(self, places: Array, masses: Array) -> None:
        """Compute the sums over pairs."""
        self(places, masses)

    def forget(self) -> None:
        """Begin anew, as a run does at each save."""


class KernelAtTokens(FieldAtTokens):
    """X of a dynamics with a kernel, (3.1).

    Parameters
    ----------
    dynamics : Dynamics
    sums : TokenSums
        The sums of its kernel: in O(n) on S^2, in float32, or the kernel itself for all pairs.
    way : str
        How they are done.
    """

    def __init__(self, dynamics: Dynamics, sums: TokenSums, way: str) -> None:
        super().__init__(dynamics)
        self._sums, self.sums = sums, way

    def pairs(self, count: int) -> int:
        """How many terms are summed over pairs of so many tokens."""
        return 0 if self.sums == "transforms" else count * count

    def __call__(self, places: Array, masses: Array) -> Rates:
        """X and ∇ δE/δmu at unit rows (n, d)."""
        dynamics, kernel = self.dynamics, self.dynamics.pair_kernel
        pull, log_unit, log_g = self._sums.pull_of_others(places, masses)
        with np.errstate(under="ignore"):
            gradient = pull * np.exp(log_unit - kernel.log_unit)[:, None]
            exponents = log_unit - log_g if dynamics.normalised else log_unit
            pull *= (dynamics.sign * np.exp(exponents))[:, None]
        return Rates(pull, energy_gradients=(gradient,))


class OutputAtTokens(FieldAtTokens):
    """P_x output(mu, x) for any output: heads, a feed-forward layer, a dynamics of a user's own.

    Sums over heads are in O(n) where there are such sums.

    Parameters
    ----------
    particles : Particles
        Whose number and `sums` settle how sums are done.
    dynamics : Dynamics
    """

    dynamics: Any

    def __init__(self, particles: Particles, dynamics: Dynamics) -> None:
        super().__init__(dynamics)
        self._particles = particles
        # for each head with matrices: whether it is summed in O(n), by the sums that all heads
        # share
        self._is_fast: list[bool] = []
        if not dynamics.score_matrices:
            ways = [dynamics.sum_method]
        elif dynamics.is_isotropic:
            is_fast = particles.has_kernel_sums(dynamics.pair_kernel)
            is_scaled = dynamics.is_balanced and not is_fast
            ways = ["direct" if is_scaled else particles.way_of_sums(is_fast)]
        else:
            matrices = [m for m, _ in dynamics.matrices(particles.dim)]
            self._is_fast = [particles.has_score_sums(m) for m in matrices]
            ways = [
                particles.way_of_sums(fast or particles.sums_at(particles.points @ m.T) is not None)
                for m, fast in zip(matrices, self._is_fast, strict=True)
            ]
            if any(self._is_fast):
                self._sums = score_sums(list(compress(matrices, self._is_fast)))
        self.sums = joined(ways)
        self._slow = sum(way in _OF_PAIRS for way in ways)

    def pairs(self, count: int) -> int:
        """How many terms all heads sum over pairs of so many tokens; of a user's own, unknown."""
        return self._slow * count * count

    def _sum(self, places: Array, masses: Array) -> None:
        self.output(Particles(places, masses, sums=self._particles.sums))

    def output(self, measure: Particles) -> Array:
        """Σ_h V_h ∇G [/ G], what is added to tokens of this number, shape (n, d)."""
        if not self._is_fast:
            return np.asarray(self.dynamics.output_from(measure, measure.points, None))
        return np.asarray(self.dynamics.combine(self._moments(measure)))

    def _moments(self, particles: Particles) -> list[tuple[Array, Array]]:
        """Return log G and ∇G/G of attention at the tokens for each head."""
        points, moments = particles.points, []
        if any(self._is_fast):
            moments = self._sums.log_moments(points, particles.weights, points)
        together = iter(moments)
        return [
            next(together) if is_fast else particles.log_moment(z)
            for is_fast, z in zip(self._is_fast, self.dynamics.queries(points), strict=True)
        ]

    def __call__(self, places: Array, masses: Array) -> Rates:  # noqa: ARG002 (those of its tokens)
        """X and, of one head with an energy E_{β,D}, its gradient at unit rows (n, d)."""
        # a field that a user wrote may read more of the tokens than their places
        dynamics, here = self.dynamics, self._particles.moved_to(places)
        if not dynamics.score_matrices:
            output, gradients = dynamics.output_and_gradients(here, places)
            velocity, *others = (project(places, vectors) for vectors in (output, *gradients))
            rates = Rates(velocity, energy_gradients=tuple(others))
        elif (energy := dynamics.energy_functional) is None:
            rates = Rates(project(places, self.output(here)))
        else:
            moments = self._moments(here)
            velocity = project(places, dynamics.combine(moments))
            # the gradient of the energy is ± X, or with softmax ± G X
            log_g = moments[0][0] if dynamics.normalised else np.zeros(len(places))
            weights = energy.sign * np.exp(log_g - energy.log_unit)
            rates = Rates(velocity, energy_gradients=(velocity * weights[:, None],))
        check_finite(rates.velocity)
        return rates


class MaskedAtTokens(FieldAtTokens):
    """X of a dynamics under a mask, over pairs.

    Parameters
    ----------
    dynamics : Masked
    """

    sums = "direct"
    dynamics: Any

    def pairs(self, count: int) -> int:
        """How many terms are summed over pairs of so many tokens."""
        return count * count // 2

    def __call__(self, places: Array, masses: Array) -> Rates:
        """X at unit rows (n, d)."""
        velocity = self.dynamics.tangents_of_tokens(places, masses)
        check_finite(velocity)
        return Rates(velocity)


class MaskedKernelAtTokens(FieldAtTokens):
    """X of a kernel under a mask through moments that are carried along the order of tokens.

    Parameters
    ----------
    dynamics : Masked
    means : CausalMeans
        On the circle it is asked at angles, and X is along it.
    """

    dynamics: Any

    def __init__(self, dynamics: Dynamics, means: CausalMeans) -> None:
        super().__init__(dynamics)
        self._means = means

    def __call__(self, places: Array, masses: Array) -> Rates:
        """X at angles (n,) or unit rows (n, 3)."""
        means = self._means(places, masses, self.dynamics.mask.decay)
        return Rates(self.dynamics.velocity_of(*means))

    def output(self, measure: Particles) -> Array:
        """X at tokens of this number, shape (n, d)."""
        points = measure.points
        if measure.dim == 3:
            return self(points, measure.weights).velocity
        speed = self(circle_angles(points), measure.weights).velocity
        return speed[:, None] * np.column_stack([-points[:, 1], points[:, 0]])


class BalancedAtTokens(FieldAtTokens):
    """X of `DoublyStochastic`, scaled from the last u.

    Parameters
    ----------
    particles : Particles
        Whose number and `sums` settle how sums are done.
    dynamics : DoublyStochastic
    """

    def __init__(self, particles: Particles, dynamics: Dynamics) -> None:
        super().__init__(dynamics)
        self._asked, self._tables = particles.sums, particles.kernel_sums(dynamics.pair_kernel)
        self.sums = "direct" if self._tables is None else "transforms"
        self._log_u: Array | None = None

    def pairs(self, count: int) -> int:
        """How many terms one sweep sums over pairs of so many tokens."""
        return count * count if self._tables is None else 0

    def forget(self) -> None:
        """Begin the next scaling from 1."""
        self._log_u = None

    def __call__(self, places: Array, masses: Array) -> Rates:
        """X and ∇ δE/δmu = ± X at unit rows (n, d)."""
        velocity, self._log_u = self._balanced(places, masses, self._log_u)
        return Rates(velocity, energy_gradients=(self.dynamics.sign * velocity,))

    def output(self, measure: Particles) -> Array:
        """X at tokens of this number, scaled from 1: the next step begins as it would have."""
        return self._balanced(measure.points, measure.weights, None)[0]

    def _balanced(
        self, places: Array, masses: Array, start: Array | None
    ) -> tuple[Array, Array | None]:
        """Return X at unit rows (n, d), and log u found from a first guess."""
        here, dynamics = Particles(places, masses, sums=self._asked), self.dynamics
        if not masses.all():
            return project(places, dynamics.output(here, places)), None
        sums = here.node_sums(dynamics.pair_kernel.beta, self._tables)
        log_u = scaling(sums.potential, masses, start)
        potential, velocity = sums.pull(masses * np.exp(log_u))
        velocity *= (dynamics.sign / potential)[:, None]
        return velocity, log_u


class KernelAtAngles(FieldAtTokens):
    """X of a dynamics with a kernel along the circle, through its cells.

    Parameters
    ----------
    dynamics : Dynamics
    cells : Line
        Of its kernel.
    """

    def __init__(self, dynamics: Dynamics, cells: Line) -> None:
        super().__init__(dynamics)
        self._cells = cells

    def __call__(self, places: Array, masses: Array) -> Rates:
        """X and ∇ δE/δmu along the circle at angles (n,)."""
        dynamics = self.dynamics
        potential, pull = LineSums(self._cells, places)(masses, 2)
        unit = 1.0 / potential if dynamics.normalised else np.exp(dynamics.pair_kernel.log_unit)
        return Rates(dynamics.sign * unit * pull, energy_gradients=(pull,))


class PhasesAtTokens(FieldAtTokens):
    """X of an interaction of phases, (7.5), from moments in O(n kmax)."""

    def __call__(self, places: Array, masses: Array) -> Rates:
        """X and ∇ δE/δmu = X, where there is an energy, along the circle at angles (n,)."""
        waves = np.exp(1j * places)
        speed = phase_velocity(self._series(waves, masses), waves)
        return Rates(speed, energy_gradients=(speed,) if self.dynamics.energy_functional else ())

    @property
    def has_flow(self) -> bool:
        """Whether there is one harmonic only."""
        return len(self.dynamics.multipliers) == 2

    def pull(self, places: Array, masses: Array) -> complex:
        """The number a of X(θ) = Re(a e^{iθ}), where there is one harmonic only."""
        return complex(2.0 * self._series(np.exp(1j * places), masses)[1])

    def _series(self, waves: Moments, masses: Array) -> Moments:
        """Return the coefficients c_k m_k of X, from e^{iθ} (n,)."""
        moments = np.empty(len(self.dynamics.multipliers), dtype=np.complex128)
        moments[0] = masses.sum()
        power = np.ones_like(waves)
        for k in range(1, len(moments)):
            power *= waves
            moments[k] = masses @ power
        return np.asarray(self.dynamics.multipliers * np.conj(moments))


class AlongCircle(FieldAtTokens):
    """The field at unit rows of the plane, asked for along the circle at angles.

    Parameters
    ----------
    field : FieldAtTokens
        At unit rows (n, 2).
    """

    def __init__(self, field: FieldAtTokens) -> None:
        super().__init__(field.dynamics)
        self._field, self.sums = field, field.sums
        self.output, self.pairs, self.forget = field.output, field.pairs, field.forget  # type: ignore[method-assign]

    def __call__(self, places: Array, masses: Array) -> Rates:
        """X and the gradients along the circle at angles (n,)."""
        rates, along = self._field(circle_points(places), masses), circle_points(places + _TURN)
        gradients = tuple(np.vecdot(along, g) for g in rates.energy_gradients)
        return Rates(np.vecdot(along, rates.velocity), energy_gradients=gradients)


class SumAtTokens(FieldAtTokens):
    """The weighted fields of several terms at the same places.

    Parameters
    ----------
    dynamics : Dynamics
    parts : sequence of (float, FieldAtTokens)
    """

    def __init__(self, dynamics: Dynamics, parts: Sequence[tuple[float, FieldAtTokens]]) -> None:
        super().__init__(dynamics)
        self._parts, self.sums = parts, joined(field.sums for _, field in parts)

    def __call__(self, places: Array, masses: Array) -> Rates:
        """X and the gradients of the energies of all terms."""
        return added((weight, field(places, masses)) for weight, field in self._parts)

    def output(self, measure: Particles) -> Array:
        """The output of all terms for tokens of this number, shape (n, d)."""
        return np.asarray(sum(weight * field.output(measure) for weight, field in self._parts))

    def pairs(self, count: int) -> int:
        """How many terms all fields sum over pairs of so many tokens."""
        return sum(field.pairs(count) for _, field in self._parts)

    def forget(self) -> None:
        """Begin anew, as a run does at each save."""
        for _, field in self._parts:
            field.forget()


class TokenTendency(Tendency[Particles]):
    """d/dt of tokens in a chart of their places, by a field.

    The field with its sums stays for a whole run, wherever the tokens come to.

    Parameters
    ----------
    particles : Particles
    chart : Points, Span or Angles
    field : FieldAtTokens

    Attributes
    ----------
    initial_state : ndarray
        The tokens as one vector.
    field : FieldAtTokens
    dynamics : Dynamics
    sums : str
        How sums are done, see `FieldAtTokens`.
    """

    def __init__(self, particles: Particles, chart: Chart, field: FieldAtTokens) -> None:
        self._chart, self.field = chart, field
        self.dynamics, self.sums, self.output = field.dynamics, field.sums, field.output
        self.begin(particles)

    def begin(self, particles: Particles) -> None:
        """Start from these tokens, of the number, weights and way to sum of those before."""
        self._particles, self._masses = particles, particles.weights
        self.field.forget()
        self.initial_state = self._chart.begin(particles)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        self._rates = self.field(self._chart.places(state), self._masses)
        self._chart.write(self._rates.velocity, out)

    def pull(self, state: Array) -> complex:
        """The number a of X(θ) = Re(a e^{iθ}), where the field has a flow."""
        return self.field.pull(state, self._masses)

    def flow(self, state: Array, pull: complex, h: float) -> Array:
        """The angles after a time h in which the pull stays as it is."""
        frequencies: Any = self._particles.natural_frequencies
        return turned(state, frequencies, pull, h)

    def seconds(self) -> float:
        """About how long d/dt takes where it sums over many pairs, see `FieldAtTokens`."""
        return self.field.seconds(self._chart.places(self.initial_state))

    def measure(self, state: Array) -> Particles:
        """The particles of a state, put back on the sphere."""
        return self._particles.moved_to(self._chart.points(state))

    def move(self, state: Array, kicks: Array) -> Array:
        """The state after steps along geodesics, by the tangential parts of `kicks` (n, d)."""
        return self._chart.move(state, kicks)

    def allowed_errors(self, state: Array, tol: float) -> Array:
        """The tolerance for each entry."""
        return np.full_like(state, tol)
