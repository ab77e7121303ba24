"""Runs of tokens: the plain flow, layer by layer, and with noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from meanfield._checks import integer, shown
from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.isotropic import SA, USA, Isotropic
from meanfield.equations.tendency import Tendency, TokenTendency, token_tendency
from meanfield.equations.tokens import CircleTendency, ParticleTendency, TokenOutput, joined
from meanfield.evolution.arrays import Resumption
from meanfield.evolution.options import Options
from meanfield.evolution.recorder import Stop
from meanfield.evolution.run import Run, default_step
from meanfield.evolution.solution import Ending, Solution
from meanfield.functionals.energies import dissipation_in_unit
from meanfield.measures.particles import Particles
from meanfield.spaces.geometry import project
from meanfield.typing import Array

# of MT19937 and of Philox, in their arrays
_LARGEST_POSITIONS = {"pos": 624, "buffer_pos": 4}
_KINDS = {
    kind.__name__: kind
    for kind in (
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.Philox,
        np.random.SFC64,
        np.random.MT19937,
    )
}


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """Its kind, numbers and lists of numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> other = generator_from(generator_state(rng))
    >>> rng.random() == other.random()
    True
    """

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value

    return dict(plain(rng.bit_generator.state))


def generator_from(state: dict[str, Any]) -> np.random.Generator:
    """The Generator of a state.

    Raises
    ------
    ValueError
        If it is the state of none: numpy itself would read beyond its arrays.
    """

    def arrays(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: arrays(part) for name, part in value.items()}
        return np.array(value, dtype=np.uint64) if isinstance(value, list) else value

    kind = state.get("bit_generator") if isinstance(state, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"rng must be one of {sorted(_KINDS)}, got {kind!r:.80}")
    found = _KINDS[kind]()
    try:
        _check_positions(state, generator_state(np.random.Generator(found)))
        found.state = arrays(state)
        same = generator_state(np.random.Generator(found)) == state
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"rng must hold the state of a {kind}, got {shown(state)}") from error
    if not same:
        raise ValueError(f"rng must hold the state of a {kind}, got {shown(state)}")
    return np.random.Generator(found)


def _check_positions(state: dict[str, Any], like: dict[str, Any]) -> None:
    """Keys, lists of the same length, and positions inside them."""
    if not isinstance(state, dict) or state.keys() != like.keys():
        raise ValueError(f"state must have {sorted(like)}, got {shown(state)}")
    for name, own in like.items():
        given = state[name]
        if isinstance(own, dict):
            _check_positions(given, own)
        elif isinstance(own, list):
            if not isinstance(given, list) or len(given) != len(own):
                raise ValueError(f"{name} must be a list of {len(own)} numbers, got {given!r:.40}")
        elif name in _LARGEST_POSITIONS:
            integer(name, given, low=0, high=_LARGEST_POSITIONS[name])


# least relative tolerance that the solver takes
_LEAST_RTOL = 3e-14


class TokenRun(Run[Particles]):
    """The continuous flow of tokens under any dynamics, layer after layer where it has layers.

    Parameters
    ----------
    particles : Particles
    dynamics : Dynamics
    options : Options

    Attributes
    ----------
    step : float or None
        Of methods whose steps are fixed.
    """

    step: float | None = None

    def __init__(self, particles: Particles, dynamics: Dynamics, options: Options) -> None:
        self._sums: set[str] = set()
        # the right-hand side that goes on from the last save, and what it is there
        self._first: tuple[TokenTendency, Array] | None = None
        super().__init__(particles, dynamics, options)

    @property
    def sums(self) -> str:
        """How sums over tokens were done: 'direct', 'transforms', 'gram', several, or 'none'."""
        return joined(self._sums)

    def restart(self) -> None:
        """Go on from the tokens as they were saved, put back on the sphere."""
        rate = self._first[0] if self._first else self._tendency(self.measure())
        self._adopt(rate, work=float(self.state[-1]))

    def snapshot(self) -> Resumption:
        """How sums were done, too."""
        base = super().snapshot()
        return Resumption(base.numbers | {"sums": sorted(self._sums)}, base.arrays)

    def restore(self, saved: Solution, resumption: Resumption) -> None:
        """Go on where the run of a solution was when it was saved."""
        super().restore(saved, resumption)
        self._sums = set(resumption.numbers["sums"])

    @property
    def _has_balance(self) -> bool:
        """Whether dE/dt is the dissipation: not with noise or frequencies, nor for most heads."""
        return super()._has_balance and self.dynamics.noise == 0.0 and not self._rotates

    @property
    def _rotates(self) -> bool:
        return self.initial is not None and self.initial.frequencies is not None

    def _tendency(self, measure: Particles) -> Tendency:
        rate = self._token_tendency(measure)
        self._sums.add(rate.sums)
        return rate

    def _token_tendency(self, particles: Particles) -> TokenTendency:
        return token_tendency(particles, self.acting)

    def _evaluate(self, state: Array, out: Array) -> None:
        first, self._first = self._first, None
        if first is not None and first[0] is self.tendency:
            out[:] = first[1]
        else:
            super()._evaluate(state, out)

    def _dissipation(self, measure: Particles) -> float:
        """From the right-hand side that goes on from the tokens, whose first value it keeps."""
        rate = cast(TokenTendency, self.tendency if self.t == 0.0 else self._tendency(measure))
        field = np.empty_like(rate.initial_state)
        rate(rate.initial_state, field)
        self._first = rate, field
        return rate.scaled_dissipation()

    def _tolerances(self) -> tuple[float, Array]:
        rtol, atol = super()._tolerances()
        # angles that turn without end have errors of their own, none relative to their turns
        return (_LEAST_RTOL, atol + rtol) if self._rotates else (rtol, atol)

    def _balance(self, measure: Particles) -> dict[str, float]:
        numbers = super()._balance(measure)
        if isinstance(self.dynamics, Isotropic) and not self._has_balance:
            numbers["dissipation"] = dissipation_in_unit(measure, self.dynamics)[0]
        return numbers

    def _numbers(self, measure: Particles) -> dict[str, float]:
        return {"speed": self._speed(measure), **super()._numbers(measure)}

    def _output(self, measure: Particles) -> Array:
        rate = self.tendency
        if isinstance(rate, ParticleTendency) and not isinstance(rate.dynamics, (SA, USA)):
            return rate.output(measure)
        return self.acting.output(measure, measure.points)

    def _speed(self, measure: Particles) -> float:
        """Root mean square of |X| over the tokens, X of the layer that acted last."""
        velocity = project(measure.points, self._output(measure))
        # without softmax it may be too large to be squared
        unit = float(np.abs(velocity).max()) or 1.0
        velocity /= unit
        return unit * float(np.sqrt(measure.weights @ np.einsum("ij,ij->i", velocity, velocity)))


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
