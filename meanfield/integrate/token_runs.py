"""Runs of tokens beyond the plain flow: any attention, layer by layer, and with noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import SA, USA, AnyDynamics, CircleInteraction, Field, Layers, MeanField
from meanfield.functionals import dissipation
from meanfield.geometry import exponential, project
from meanfield.integrate.pace import default_step
from meanfield.integrate.records import Stop
from meanfield.integrate.run import Options, Run, order_numbers
from meanfield.measures import AnyMeasure, Oscillators, Particles
from meanfield.solution import Ending
from meanfield.tendency import (
    CircleTendency,
    ParticleTendency,
    Tendency,
    TokenTendency,
    joined,
    sums_done,
    token_tendency,
)

Array = NDArray[np.float64]

# least relative tolerance that the solver takes
_LEAST_RTOL = 3e-14
# a time within rounding of a whole number of steps is one
_ROUNDING = 1e-9


class TokenRun(Run):
    """The continuous flow of tokens under any dynamics, layer after layer where it has layers.

    Parameters
    ----------
    particles : Particles
    dynamics : SA, USA, Attention, FeedForward or Layers
    options : Options

    Attributes
    ----------
    moved_by : the dynamics
    step : float or None
        Of methods whose steps are fixed.
    """

    step: float | None = None

    def __init__(self, particles: Particles, dynamics: AnyDynamics, options: Options) -> None:
        self.moved_by = dynamics
        self._field: Field = dynamics.layers[0] if isinstance(dynamics, Layers) else dynamics
        self._sums: set[str] = set()
        # a plain run knows SA and USA only; what it does with others is done here
        super().__init__(particles, cast(MeanField, dynamics), options)

    @property
    def sums(self) -> str:
        """How sums over tokens were done: 'direct', 'transforms', 'gram', several, or 'none'."""
        return joined(self._sums)

    @property
    def _is_gradient_flow(self) -> bool:
        """Whether the dissipation is the gain of an energy: SA, USA and interactions, unforced."""
        has_energy = isinstance(self.moved_by, (SA, USA, CircleInteraction))
        return has_energy and self.moved_by.noise == 0.0 and not self._rotates

    @property
    def _rotates(self) -> bool:
        return isinstance(self.initial, Oscillators)

    def _tendency(self, measure: AnyMeasure) -> Tendency:
        rate = self._token_tendency(cast(Particles, measure))
        self._sums.add(rate.sums)
        return rate

    def _token_tendency(self, particles: Particles) -> TokenTendency:
        return token_tendency(particles, self._field)

    def _rate(self, t: float, state: Array) -> Array:
        rate = super()._rate(t, state)
        if not self._is_gradient_flow:
            rate[-1] = 0.0
        return rate

    def advance(self, t_bound: float, report: Callable[[Run], None]) -> None:
        """Step from the present time to `t_bound`.

        Raises
        ------
        Stop
            If the run can't go on; the state is the last good one.
        """
        if not isinstance(self.moved_by, Layers):
            super().advance(t_bound, report)
            return
        for layer, until in self.moved_by.between(self.t, t_bound):
            if layer is not self._field:
                measure, self._field = self.measure(), layer
                self._adopt(self._tendency(measure), work=0.0)
            super().advance(until, report)

    def _tolerances(self) -> tuple[float, Array]:
        rtol, atol = super()._tolerances()
        # angles that turn without end have errors of their own, none relative to their turns
        return (_LEAST_RTOL, atol + rtol) if self._rotates else (rtol, atol)

    def _balance(self, measure: AnyMeasure) -> dict[str, float]:
        if self._is_gradient_flow:
            return super()._balance(measure)
        if isinstance(self.moved_by, CircleInteraction):
            return order_numbers(measure)
        if isinstance(self.moved_by, (SA, USA)):
            return {"dissipation": dissipation(measure, self.moved_by, scaled=True)}
        return {}

    def _numbers(self, measure: AnyMeasure) -> dict[str, float]:
        return {"speed": self._speed(cast(Particles, measure)), **super()._numbers(measure)}

    def _speed(self, measure: Particles) -> float:
        """Root mean square of |X| over the tokens, X of the layer that acted last."""
        velocity = project(measure.points, self._field.output(measure, measure.points))
        # without softmax it may be too large to be squared
        unit = float(np.abs(velocity).max()) or 1.0
        velocity /= unit
        return unit * float(np.sqrt(measure.weights @ np.einsum("ij,ij->i", velocity, velocity)))


class LayeredRun(TokenRun):
    """Tokens through discrete layers, x ← N(x + h Σ A V x): no flow, but what a Transformer does.

    N puts each token back on the sphere.

    Parameters
    ----------
    particles : Particles
    dynamics : SA, USA, Attention, FeedForward or Layers
    options : Options
    step : float
        h > 0.
    """

    def __init__(
        self, particles: Particles, dynamics: AnyDynamics, options: Options, step: float
    ) -> None:
        self._particles, self.step, self._h = particles, step, step
        super().__init__(particles, dynamics, options)

    @property
    def _is_gradient_flow(self) -> bool:
        return False

    def _tendency(self, measure: AnyMeasure) -> Tendency:
        # layers ask for their sums themselves, and the Gram matrix knows none of one layer
        given = cast(Particles, measure)
        self._sums.add(sums_done(given, self._field))
        plain = Particles(given.points, given.weights, sums="direct")
        return token_tendency(plain, self._field)

    def measure(self) -> Particles:
        """The tokens at the present time."""
        return self._particles

    def advance(self, t_bound: float, report: Callable[[Run], None]) -> None:
        """Layer after layer to `t_bound`.

        Raises
        ------
        Stop
            If a token is no longer finite, or vanishes before it is normalised.
        """
        for layer in range(self.steps, round(t_bound / self._h)):
            self._particles = self._after(layer)
            self.steps = self.evaluations = layer + 1
            self.t = self.steps * self._h
            report(self)

    def _after(self, layer: int) -> Particles:
        if isinstance(self.moved_by, Layers):
            at = int(layer * self._h / self.moved_by.step + _ROUNDING)
            if self.moved_by.layers[at] is not self._field:
                self._field = self.moved_by.layers[at]
                self._sums.add(sums_done(self._particles, self._field))
        given = self._particles
        points = given.points + self._h * self._field.output(given, given.points)
        norms = np.linalg.norm(points, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or norms.min() == 0.0:
            raise Stop(Ending.FAILED, self._failed("a token is no longer finite, or is 0"))
        return Particles(points / norms, given.weights, sums=given.sums)


class NoisyRun(TokenRun):
    """dx_i = X[mu](x_i) dt + sqrt(2τ) dB_i on the sphere, by a scheme of weak order 2.

    Each step is Strang's: noise for half the time, the flow by the midpoint rule, noise again.
    Noise moves a token along the geodesic of a normal tangent vector; with variance s/(1 +
    (d-2)s/6) in each direction instead of s = 2τh it has the generator of Brownian motion to
    third order: E Y_k(x_h) = e^{-k(k+d-2)τh} Y_k(x) + O(h³).

    Parameters
    ----------
    particles : Particles
    dynamics : SA, USA or Attention
        With noise τ > 0.
    options : Options
    step : float
        Largest time step > 0; between saves steps are equal.
    rng : numpy Generator
    """

    def __init__(
        self,
        particles: Particles,
        dynamics: AnyDynamics,
        options: Options,
        step: float,
        rng: np.random.Generator,
    ) -> None:
        self.step, self._h, self._rng = step, step, rng
        super().__init__(particles, dynamics, options)

    def _token_tendency(self, particles: Particles) -> TokenTendency:
        # noise leaves the span of the tokens, so no Gram matrix
        return token_tendency(particles, self._field, may_span=False)

    def advance(self, t_bound: float, report: Callable[[Run], None]) -> None:
        """Steps of equal length to `t_bound`.

        Raises
        ------
        Stop
            If a token is no longer finite.
        """
        start, span = self.t, t_bound - self.t
        count = max(1, int(np.ceil(span / self._h - _ROUNDING)))
        self.step_size = h = span / count
        self._check_pace(float(count))
        rate = np.empty_like(self.state[:-1])
        for done in range(1, count + 1):
            here = self._diffused(self.state[:-1], 0.5 * h)
            self.tendency(here, rate)
            self.tendency(here + 0.5 * h * rate, rate)
            here += h * rate
            if not np.isfinite(here).all():
                raise Stop(Ending.FAILED, self._failed("a token is no longer finite"))
            self.state[:-1] = self._diffused(here, 0.5 * h)
            self.t, self.steps = start + done * h, self.steps + 1
            self.evaluations += 2
            report(self)
        self.t = t_bound

    def _diffused(self, state: Array, h: float) -> Array:
        """The state after Brownian motion for the time h."""
        rate = cast(ParticleTendency | CircleTendency, self.tendency)
        points = rate.measure(state).points
        s = 2.0 * self.moved_by.noise * h
        deviation = np.sqrt(s / (1.0 + (points.shape[1] - 2) * s / 6.0))
        kicks = project(points, deviation * self._rng.normal(size=points.shape))
        return rate.state_of(exponential(points, kicks))


def token_run(
    particles: Particles,
    dynamics: AnyDynamics,
    options: Options,
    *,
    method: str,
    step: float | None,
    rng: Any,
) -> TokenRun:
    """The run of tokens that a method, a step and noise ask for."""
    if method == "layers":
        return LayeredRun(particles, dynamics, options, cast(float, step))
    if dynamics.noise > 0.0:
        step = step or default_step(particles, dynamics)
        return NoisyRun(particles, dynamics, options, step, rng)
    return TokenRun(particles, dynamics, options)
