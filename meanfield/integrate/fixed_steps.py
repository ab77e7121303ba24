"""Runs of tokens whose steps are fixed: discrete layers, and noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import Dynamics
from meanfield.integrate.options import Options
from meanfield.integrate.pace import default_step
from meanfield.integrate.random_state import generator_from, generator_state
from meanfield.integrate.records import Stop
from meanfield.integrate.token_runs import TokenRun
from meanfield.measures import Particles
from meanfield.solution import Ending, Resumption, Solution
from meanfield.tendency import (
    CircleTendency,
    ParticleTendency,
    Tendency,
    TokenOutput,
    TokenTendency,
    token_tendency,
)

Array = NDArray[np.float64]

# a time within rounding of a whole number of steps is one
_ROUNDING = 1e-9


class LayeredRun(TokenRun):
    """Tokens through discrete layers, x ← N(x + h Σ A V x): no flow, but what a Transformer does.

    N puts each token back on the sphere.

    Parameters
    ----------
    particles : Particles
    dynamics : SA, USA, DoublyStochastic, Attention, FeedForward or Layers
    options : Options
    step : float
        h > 0.
    """

    def __init__(
        self, particles: Particles, dynamics: Dynamics, options: Options, step: float
    ) -> None:
        self._particles, self.step, self._h = particles, step, step
        super().__init__(particles, dynamics, options)

    @property
    def _has_balance(self) -> bool:
        return False

    def _tendency(self, measure: Particles) -> Tendency:
        # layers ask for their sums themselves, and the Gram matrix knows none of one layer
        self._layer = TokenOutput(measure, self.acting)
        self._sums.add(self._layer.sums)
        plain = Particles(measure.points, measure.weights, sums="direct")
        return token_tendency(plain, self.acting)

    def _output(self, measure: Particles) -> Array:
        return self._layer(measure)

    def measure(self) -> Particles:
        """The tokens at the present time."""
        return self._particles

    def advance(self, t_bound: float, report: Callable[[Any], None]) -> None:
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
        acting = self.dynamics.at((layer + 0.5) * self._h)
        if acting is not self.acting:
            self.acting = acting
            self._layer = TokenOutput(self._particles, acting)
            self._sums.add(self._layer.sums)
        given = self._particles
        points = given.points + self._h * self._output(given)
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
    dynamics : SA, USA, DoublyStochastic or Attention
        With noise τ > 0.
    options : Options
    step : float
        Largest time step > 0; between saves steps are equal.
    rng : numpy Generator
    """

    def __init__(
        self,
        particles: Particles,
        dynamics: Dynamics,
        options: Options,
        step: float,
        rng: np.random.Generator,
    ) -> None:
        self.step, self._h, self._rng = step, step, rng
        self._shape = particles.points.shape
        super().__init__(particles, dynamics, options)

    def _token_tendency(self, particles: Particles) -> TokenTendency:
        # noise leaves the span of the tokens, so no Gram matrix
        return token_tendency(particles, self.acting, may_span=False)

    def advance(self, t_bound: float, report: Callable[[Any], None]) -> None:
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
            try:
                self.tendency(here, rate)
                self.tendency(here + 0.5 * h * rate, rate)
            except ArithmeticError as error:
                raise Stop(Ending.FAILED, self._failed(str(error))) from error
            here += h * rate
            if not np.isfinite(here).all():
                raise Stop(Ending.FAILED, self._failed("a token is no longer finite"))
            self.state[:-1] = self._diffused(here, 0.5 * h)
            self.t, self.steps = start + done * h, self.steps + 1
            self.evaluations += 2
            report(self)
        self.t = t_bound

    def snapshot(self) -> Resumption:
        """The state of the random numbers, too."""
        base = super().snapshot()
        return Resumption(base.numbers | {"rng": generator_state(self._rng)}, base.arrays)

    def restore(self, saved: Solution, resumption: Resumption) -> None:
        """Go on where the run of a solution was when it was saved."""
        super().restore(saved, resumption)
        self._rng = generator_from(resumption.numbers["rng"])

    def _diffused(self, state: Array, h: float) -> Array:
        """The state after Brownian motion for the time h."""
        rate = cast(ParticleTendency | CircleTendency, self.tendency)
        s = 2.0 * self.dynamics.noise * h
        deviation = np.sqrt(s / (1.0 + (self._shape[1] - 2) * s / 6.0))
        return rate.moved(state, deviation * self._rng.normal(size=self._shape))


def token_run(
    particles: Particles,
    dynamics: Dynamics,
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
