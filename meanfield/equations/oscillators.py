"""d/dt of the spectral coefficients of densities of oscillators, one for each frequency."""

from __future__ import annotations

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.equations.rates import Tendency
from meanfield.measures.density import spectral_tail
from meanfield.measures.oscillators import OscillatorDensity
from meanfield.typing import Array, NDArray

Complex = NDArray[np.complex128]


class OscillatorDensityTendency(Tendency[OscillatorDensity]):
    """d/dt of the coefficients of f(θ|ω_j), each in the frame that turns with ω_j.

    y_jk = e^{ikω_j s} c_jk, s the time since the frames were at rest, obeys

        dy_jk/dt = e^{ikω_j s} N_jk - (|k| γ_j + τk²) y_jk,

    N the weak form of -∂_θ (f(θ|ω_j) X). X is a short series, so that each product with it is a
    sum over its terms, without aliasing.

    Parameters
    ----------
    density : OscillatorDensity
    dynamics : CircleInteraction

    Attributes
    ----------
    initial_state : ndarray
        The coefficients as a real vector.
    elapsed : float
        s.
    """

    def __init__(self, density: OscillatorDensity, dynamics: Dynamics) -> None:
        self.density, self.dynamics, self.space = density, dynamics, density.space
        self.initial_state: Array = density.parts.flatten().view(np.float64)
        self.elapsed = 0.0
        degrees = np.arange(self.space.kmax + 1)
        self._decay = np.multiply.outer(density.widths, degrees) + dynamics.noise * degrees**2.0
        self._turn_rates = 1j * np.multiply.outer(density.frequencies, degrees)
        self._reach = min(int(dynamics.reach), self.space.kmax)
        self._multipliers = np.asarray(dynamics.multipliers)[: self._reach + 1]
        self._divergence = -1j * degrees
        # c_k for k = -reach … kmax + reach; those beyond kmax are 0
        self._wide = np.zeros((len(density.parts), len(degrees) + 2 * self._reach), np.complex128)

    def _parts(self, state: Array) -> Complex:
        return state.view(np.complex128).reshape(self._decay.shape)

    def at_rest(self, state: Array) -> Array:
        """The state in frames that are at rest, those of the coefficients."""
        modes = self._parts(state) * np.exp(-self.elapsed * self._turn_rates)
        return np.asarray(modes.ravel().view(np.float64))

    def measure(self, state: Array) -> OscillatorDensity:
        """The density of a real vector."""
        start, modes = self.density, self._parts(self.at_rest(state))
        nodes = start.frequencies, start.frequency_weights, start.widths
        return OscillatorDensity.from_parts(self.space, modes, *nodes, **start.run_limits)

    def tail(self, state: Array) -> float:
        """The largest spectral tail of the parts of a real vector."""
        return max(spectral_tail(self.space.power(part)) for part in self._parts(state))

    def allowed_errors(self, state: Array, tol: float) -> Array:
        """The tolerance times ‖f_{<=k}(·|ω_j)‖ / sqrt(n), n entries of one j."""
        modes = self._parts(state)
        norms = np.sqrt(np.cumsum(self.space.power(modes), axis=1) / (2 * modes.shape[1]))
        return tol * np.asarray(np.repeat(norms, 2))

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        turn, rotated = np.exp(self.elapsed * self._turn_rates), self._parts(state)
        modes, reach, padded = rotated * np.conj(turn), self._reach, self._wide
        count = len(self._divergence)
        field = self._multipliers * (self.density.frequency_weights @ modes[:, : reach + 1])
        padded[:, :reach] = np.conj(modes[:, reach:0:-1])
        padded[:, reach : reach + count] = modes
        total = self._parts(out)
        total[:] = 0.0
        for k in range(1, reach + 1):
            total += field[k] * padded[:, reach - k : reach - k + count]
            total += np.conj(field[k]) * padded[:, reach + k : reach + k + count]
        total *= self._divergence
        total *= turn
        total -= self._decay * rotated
