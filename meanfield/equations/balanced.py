"""d/dt under doubly stochastic attention: the field of SA for the measure u mu, u by Sinkhorn.

Each right-hand side finds u from that of the one before; E_DS is what the flow raises, so the
dissipation is ∫|X|² dmu in units of 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.equations.density import DensityTendency
from meanfield.equations.line import FlowTendency
from meanfield.equations.tokens import OutputTendency
from meanfield.kernels.line import LineSums
from meanfield.kernels.sinkhorn import grid_sums, scaling, working_grid
from meanfield.measures.density import Density
from meanfield.spaces.geometry import project
from meanfield.typing import Array, NDArray

# below this share of its maximum a density is rounding, which may be negative
_EMPTY = 1e-16


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
            sums = here.node_sums(dynamics.kernel.beta)
            self._log_u = scaling(sums.potential, self._weights, self._log_u)
            potential, velocity = sums.pull(self._weights * np.exp(self._log_u))
            velocity *= (dynamics.sign / potential)[:, None]
        else:
            velocity = project(points, dynamics.output(here, points))
        squares = np.einsum("ij,ij->i", velocity, velocity)
        self._dissipation = float(self._weights @ squares)
        return velocity


class BalancedFlowTendency(FlowTendency):
    """dθ/dt = X[mu](θ) and d/dt ∫ div X for a flow map on a line under `DoublyStochastic`.

    Parameters
    ----------
    flow : LineFlowMap
    dynamics : DoublyStochastic
    field : AngularField, optional
    """

    _log_u: Array | None = None
    _sums_of = LineSums.repeated

    def _attracting(self, sums: LineSums) -> Array:
        self._log_u = scaling(sums.potential, self._masses, self._log_u)
        return np.asarray(self._masses * np.exp(self._log_u))

    def scaled_dissipation(self) -> float:
        """∫ |X|² dmu at the last state."""
        return float(self._masses @ self._speed**2)


class BalancedDensityTendency(DensityTendency):
    """dc/dt = ∫ f X · ∇Y dσ for the coefficients c of f under `DoublyStochastic`.

    On a grid that holds f and twice the kernel's bandwidth, finer than the space's own if need be.

    Parameters
    ----------
    density : Density
    dynamics : DoublyStochastic
    """

    def __init__(self, density: Density, dynamics: Dynamics) -> None:
        super().__init__(density, dynamics)
        self._grid = working_grid(density.space, dynamics.kernel.beta)
        self._sums = grid_sums(self._grid, dynamics.kernel.beta)
        self._transforms = self._grid.transforms(np.zeros(self._grid.kmax + 1))
        self._log_u = np.zeros(len(self._grid.weights))

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        self._evaluate(self._coefficients(state))
        rate = np.empty(self._grid.n_coefficients, dtype=self.space.coefficient_type)
        self._transforms.weak_divergence(rate)
        embed: Any = self._grid.embed
        self._coefficients(out)[:] = embed(rate, self.space)

    def _on_grid(self, coefficients: NDArray[Any]) -> NDArray[Any]:
        embed: Any = self.space.embed
        return np.asarray(embed(coefficients, self._grid))

    def _evaluate(self, coefficients: NDArray[Any]) -> None:
        """Fill the transforms' values with f, and their flux with f X."""
        transforms = self._transforms
        transforms.evaluate(self._on_grid(coefficients))
        values = np.maximum(transforms.values, _EMPTY * transforms.values.max())
        masses = self._grid.weights * values
        masses /= masses.sum()
        self._log_u = scaling(self._sums.potential, masses, self._log_u)
        potential, self._velocity = self._sums.components(masses * np.exp(self._log_u))
        self._velocity *= self.dynamics.sign / potential
        np.multiply(self._velocity, transforms.values, out=transforms.flux)

    def scaled_dissipation(self) -> float:
        """∫ |X|² dmu at the last state."""
        return self._transforms.integral(self._velocity)

    def heating(self, state: Array) -> float:
        """-(1/β) ∫ log u Δf dσ, what heat does to E_DS, with u of the last state, which this is."""
        grid = self._grid
        if self.dynamics.kernel.beta == 0.0:
            mean = self.space.mean(self._coefficients(state))
            return -(self.space.dim - 1.0) * float(mean @ mean)
        coefficients = self._on_grid(self._coefficients(state))
        spread = grid.synthesis(-grid.laplacian * coefficients)
        return -float((grid.weights * self._log_u) @ spread / self.dynamics.kernel.beta)

    def forget(self) -> None:
        """Begin the next scaling from 1, not from the last."""
        self._log_u = np.zeros(len(self._grid.weights))

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        return float(np.sqrt(max(self.scaled_dissipation(), 0.0)))
