"""Tokens: the plain flow, layer by layer, and with noise."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np

from meanfield._checks import integer, one_of, shown
from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.kuramoto import CircleInteraction
from meanfield.equations.tendency import token_tendency
from meanfield.equations.tokens import FieldAtTokens, OutputAtTokens, joined
from meanfield.evolution.settings import LEAST_RTOL, ROUNDING, Settings
from meanfield.evolution.steppers import EqualSteps, FlowSteps, Stepper
from meanfield.evolution.system import MOST_STEPS, Kept, System
from meanfield.functionals.energies import dissipation_in_unit
from meanfield.functionals.speed import root_mean_square, with_frequencies
from meanfield.measures.particles import Particles
from meanfield.spaces.geometry import project
from meanfield.typing import Array, Rng

# a step under noise in units of the fastest rate, and the share of a frequency that counts as a
# rate
_SHARE, _TURNED = 0.02, 0.1
# from this tolerance on phases take steps of order 4, which rotate exactly
_LOOSE = 1e-5
# a right-hand side that takes so many seconds is announced before a run
_LONG = 3.0
# numpy would read beyond the arrays of MT19937 and Philox at positions larger than these
_LARGEST_POSITIONS = {"pos": 624, "buffer_pos": 4}
_KINDS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")


def generator_state(rng: np.random.Generator) -> dict[str, object]:
    """Its kind, numbers and lists of numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> other = generator_from(generator_state(rng))
    >>> rng.random() == other.random()
    True
    """
    text = json.dumps(rng.bit_generator.state, default=lambda array: array.tolist())
    return dict(json.loads(text))


def generator_from(state: dict[str, Any]) -> np.random.Generator:
    """The Generator of a state."""
    kind_of_bits = state.get("bit_generator") if isinstance(state, dict) else None
    kind = one_of("rng", kind_of_bits, _KINDS)
    generator = np.random.Generator(getattr(np.random, kind)())
    try:
        generator.bit_generator.state = state
        if generator_state(generator) != state:
            raise ValueError(f"state must be that of a {kind}, got {generator_state(generator)}")
        for name, value in (state | state["state"]).items():
            if name in _LARGEST_POSITIONS:
                integer(name, value, low=0, high=_LARGEST_POSITIONS[name])
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"rng must hold the state of a {kind}, got {shown(state)}") from error
    return generator


def default_max_step(particles: Particles, dynamics: Dynamics) -> float:
    """The largest time step, with weak errors of about 1e-4: short against the flow and the noise.

    Raises
    ------
    ValueError
        If the dynamics has no rates known beforehand.
    """
    dynamics = dynamics.mover
    if dynamics.varies:
        return min(default_max_step(particles, instance) for instance in dynamics.instances)
    # a rotation is exact, and the field is averaged over it
    omega, multipliers = particles.natural_frequencies, dynamics.multipliers
    turning = 0.0 if omega is None else float(np.abs(omega).max())
    if isinstance(dynamics, CircleInteraction):
        if len(multipliers) == 2:
            # with a single harmonic the average is exact, too
            turning = 0.0
        return _SHARE / float(max(dynamics.lipschitz, dynamics.noise, _TURNED * turning))
    if (kernel := dynamics.pair_kernel) is None:
        raise ValueError(f"max_step must be given for {shown(dynamics)}, got None")
    rate = 1.0 + kernel.reach
    if not dynamics.normalised:
        rate *= kernel.largest * float(np.exp(kernel.log_unit))
    return float(_SHARE / max(rate, (particles.dim - 1) * dynamics.noise, _TURNED * turning))


class TokenSystem(System[Particles]):
    """The continuous flow of tokens under any dynamics, layer after layer where it has layers.

    Parameters
    ----------
    particles : Particles
    dynamics : Dynamics
    settings : Settings

    Attributes
    ----------
    max_step : float, optional
        Under noise; elsewhere steps follow the tolerance.
    sums : set of str
        How sums over tokens were done: 'direct', 'transforms', 'gram', several, or 'none'.
    """

    kept: ClassVar[Kept] = {**System.kept, "sums": set}
    max_step: float | None = None

    def __init__(self, particles: Particles, dynamics: Dynamics, settings: Settings) -> None:
        self.sums: set[str] = set()
        self._rotates = particles.natural_frequencies is not None
        super().__init__(particles, dynamics, settings)

    def _equation(self, measure: Particles) -> Any:
        equation = getattr(self, "equation", None)
        if equation is not None and getattr(equation, "dynamics", None) is self.acting:
            # tables of the sums may take longer than steps, so they are made once
            equation.begin(measure)
            return equation
        # noise leaves the span of the tokens
        may_span = self.dynamics.noise == 0.0
        equation = token_tendency(measure, self.acting, may_span=may_span, t=self.t)
        self.sums.add(equation.sums)
        return equation

    @property
    def attributes(self) -> dict[str, str | float]:
        """How sums were done, and the largest step under noise."""
        steps = {} if self.max_step is None else {"max_step": self.max_step}
        return {"sums": joined(self.sums), **steps}

    def outlook(self) -> str:
        """How long a right-hand side over many pairs takes, by one block of the tokens."""
        try:
            field, seconds = self._cost()
        except self.faults:
            # the first step of the run will say why there is no field
            return ""
        if seconds < _LONG:
            return ""
        n, d = self.measure().points.shape
        return (
            f"a right-hand side sums {field.pairs(n):.3g} pairs of tokens in d = {d} and takes "
            f"about {seconds:.3g} s"
        )

    def _cost(self) -> tuple[FieldAtTokens, float]:
        """Return the field at the tokens, and its time in seconds if that is long."""
        now = self.equation.at(self.t)
        return now.field, now.seconds()

    @property
    def has_balance(self) -> bool:
        """Whether dE/dt is the dissipation: not with noise or frequencies, nor for most heads."""
        return self.has_dissipation and self.dynamics.noise == 0.0

    @property
    def has_dissipation(self) -> bool:
        """Whether a save records what X does to the energy, also between layers and under noise."""
        return self.energy is not None and not self._rotates

    def tolerances(self) -> tuple[float, Array]:
        """Relative tolerance, and absolute ones of each entry of the state."""
        rtol, atol = super().tolerances()
        # angles that turn for ever have absolute errors only
        return (LEAST_RTOL, atol + rtol) if self._rotates else (rtol, atol)

    def _stepper(self, start: float, end: float) -> Stepper:
        if not (self._has_flow and self.settings.rtol >= _LOOSE):
            return super()._stepper(start, end)
        h, tol = min(self.step_size, end - start), self.settings.rtol + self.settings.atol
        flow = self._pull, self._flow
        return FlowSteps(*flow, start, self.state, end, first_step=h or None, tolerance=tol)

    @property
    def _has_flow(self) -> bool:
        """Whether phases have frequencies and a field.

        While the field stands still, its flow is known exactly.
        """
        return self._rotates and bool(self.equation.at(self.t).field.has_flow)

    def _pull(self, t: float, state: Array) -> complex:
        """Return the moments that determine X at a time, see `TokenTendency`."""
        self.evaluations += 1
        pull: complex = self.equation.at(t).pull(state[: self._size])
        return pull

    def _flow(self, state: Array, pull: complex, h: float) -> Array:
        """Return the state after a time h under a field that is held still."""
        angles = self.equation.at(self.t).flow(state[: self._size], pull, h)
        return np.append(angles, state[self._size :])

    def dissipation(self, measure: Particles) -> float | None:
        if self.has_balance:
            return super().dissipation(measure)
        # under noise the right-hand side of the run would start the next step from the scaling of
        # this save
        value, log_unit = dissipation_in_unit(measure, self.acting.at(self.t))
        return value * float(np.exp(log_unit - self.log_unit))

    def _output(self, measure: Particles) -> Array:
        try:
            return np.asarray(self.equation.at(self.t).output(measure))
        except self.faults as error:
            raise self.fault(error) from error

    def speeds(self, measure: Particles) -> dict[str, float]:
        """Root mean squares over the tokens, X of the layer that acted last."""
        velocity = project(measure.points, self._output(measure))
        return {
            "metric_speed": root_mean_square(with_frequencies(velocity, measure), measure.weights),
            "rms_velocity": root_mean_square(velocity, measure.weights),
        }


class LayerSystem(TokenSystem):
    """Tokens through discrete layers, x ← N(x + h Σ A V x): no flow, but what a Transformer does.

    N puts each token back on the sphere.

    Parameters
    ----------
    particles : Particles
    dynamics : Dynamics
    settings : Settings
    step : float
        h > 0.
    """

    # layers have no time between them: nothing is integrated, and there is no unit of time
    has_balance = False
    unit = 1.0
    remedy: ClassVar[str] = "a smaller step of the layers"

    def __init__(
        self, particles: Particles, dynamics: Dynamics, settings: Settings, step: float
    ) -> None:
        self.step = step
        super().__init__(particles, dynamics, settings)

    def _equation(self, measure: Particles) -> OutputAtTokens:
        self._particles = self._passed = measure
        equation: OutputAtTokens | None = getattr(self, "equation", None)
        if equation is None or equation.dynamics is not self.acting.mover:
            equation = OutputAtTokens(measure, self.acting.mover)
            self.sums.add(equation.sums)
        return equation

    def _cost(self) -> tuple[FieldAtTokens, float]:
        return self.equation, self.equation.seconds(self._particles.points)

    def adopt(self, equation: object, works: Array | float) -> None:
        """Go on with another layer from the tokens as they are."""
        self.equation, self._known = equation, None
        self._size = self._particles.points.size
        self.state = np.append(self._particles.points, works)

    def measure(self) -> Particles:
        """The tokens at the present time."""
        return self._particles

    def _stepper(self, start: float, end: float) -> Stepper:  # noqa: ARG002 (layers are counted)
        layers_done = round(self.settings.t_start / self.step) + self.steps
        last_layer, failure = round(end / self.step), "a token is no longer finite, or is 0"
        return EqualSteps(self._pass, self.state, 0.0, self.step, layers_done, last_layer, failure)

    def count(self, stepper: Stepper) -> None:
        """Be where a layer has come to."""
        super().count(stepper)
        self._particles = self._passed

    def _pass(self, state: Array, step: float) -> Array | None:
        """Return the state after the next layer, None if a token has no direction any more."""
        particles = self._particles
        points = particles.points + step * self._output(particles)
        self.evaluations += 1
        norms = np.linalg.norm(points, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or norms.min() == 0.0:
            return None
        self._passed = particles.moved_to(points / norms)
        return np.append(self._passed.points, state[self._size :])


class NoisyTokenSystem(TokenSystem):
    """dx_i = X[mu](x_i) dt + sqrt(2τ) dB_i on the sphere, by a scheme of weak order 2.

    Each step is Strang's: noise for half the time, the flow by the midpoint rule, noise again.
    Phases with frequencies under one harmonic follow the flow in the field of the middle exactly.
    Noise moves a token along the geodesic of a normal tangent vector; with variance s/(1 +
    (d-2)s/6) in each direction instead of s = 2τh it has the generator of Brownian motion to
    third order: E Y_k(x_h) = e^{-k(k+d-2)τh} Y_k(x) + O(h³).

    Parameters
    ----------
    particles : Particles
    dynamics : Dynamics
        With noise τ > 0.
    settings : Settings
        Between saves steps are equal, the largest of `max_step`.
    rng : int or numpy Generator
    """

    kept: ClassVar[Kept] = {**TokenSystem.kept, "rng": generator_from}
    remedy: ClassVar[str] = "a smaller max_step"

    def __init__(
        self, particles: Particles, dynamics: Dynamics, settings: Settings, rng: Rng | None
    ) -> None:
        self.max_step: float = settings.max_step or default_max_step(particles, dynamics)
        self.rng = np.random.default_rng(rng)
        self._shape = particles.points.shape
        super().__init__(particles, dynamics, settings)

    def _stepper(self, start: float, end: float) -> Stepper:
        count = max(1, int(np.ceil((end - start) / self.max_step - ROUNDING)))
        self.step_size = (end - start) / count
        if count > MOST_STEPS:
            raise self.too_far(float(count))
        failure = "a token is no longer finite"
        return EqualSteps(self._split, self.state, start, self.step_size, 0, count, failure)

    def _split(self, state: Array, h: float) -> Array | None:
        """Return the state after noise for half a step, the midpoint rule, and noise again."""
        diffused = self._diffuse(state, 0.5 * h)
        if self._has_flow:
            middle = self._flow(diffused, self._pull(self.t, diffused), 0.5 * h)
            diffused = self._flow(diffused, self._pull(self.t + 0.5 * h, middle), h)
            return self._diffuse(diffused, 0.5 * h) if np.isfinite(diffused).all() else None
        rate = self.rate(self.t, diffused)
        self.rate(self.t + 0.5 * h, diffused + 0.5 * h * rate, rate)
        diffused += h * rate
        return self._diffuse(diffused, 0.5 * h) if np.isfinite(diffused).all() else None

    def _diffuse(self, state: Array, h: float) -> Array:
        """Return the state after Brownian motion for the time h."""
        s = 2.0 * self.dynamics.noise * h
        deviation = np.sqrt(s / (1.0 + (self._shape[1] - 2) * s / 6.0))
        kicks = deviation * self.rng.normal(size=self._shape)
        return np.append(self.equation.move(state[: self._size], kicks), state[self._size :])
