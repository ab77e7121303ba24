"""The equation of stationary states under noise, in the few moments that the kernel sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from meanfield.dynamics import Isotropic
from meanfield.harmonics import (
    bandwidth,
    gauss_gegenbauer,
    gegenbauer,
    multiplicities,
    relative_eigenvalues,
)

Array = NDArray[np.float64]

# where W * mu has no digits left, and its density far fewer than none
_SMALLEST = 1e-300
# points of a cap, and the logarithm of the factor by which a density may rise in it
_IN_CAP, _STEEP = 16, 3.0
# what is no mass, likewise
_NEGLIGIBLE = -35.0


@dataclass(frozen=True)
class Grid:
    """Gauss-Gegenbauer nodes t with log-weights, and B_k(t).

    Of the caps beyond the last nodes, end node first: log of sin^{d-2}, and B_k, each (2, n, …).
    """

    nodes: Array
    log_weights: Array
    basis: Array
    cap_measure: Array
    cap_basis: Array


@dataclass(frozen=True)
class State:
    """What f = e^{ρφ(h)}/Z is on a grid: masses f·w, potential φ, φ'(h), log Z."""

    masses: Array
    potential: Array
    slope: Array
    log_mass: float


class Equation:
    """b = ∫ B f dσ with f = e^{ρ φ(h)}/Z and h = Σ b_k B_k: zonal stationary states.

    B_k = sqrt(κ_k) p_k, κ_k = Λ_k/Λ_1, so that b_k = sqrt(κ_k) c_k, and ρ = τ_1/τ with τ_1 =
    Λ_1/β (USA), Λ_1/(β Λ_0) (SA). φ = h for USA, log(1 + λ h)/λ with λ = Λ_1/Λ_0 for SA: the
    potential (W * mu)/Λ_0 is 1 + λ h. All is finite at every β, and β = 0 is no special case.
    The uniform state b = 0 branches where ρ κ_k = 1. Degrees beyond the kernel's bandwidth don't
    reach the potential, so these moments are all the unknowns that there are.

    Parameters
    ----------
    dynamics : SA or USA
    dim : int
    step : int
        Only degrees that are multiples of it: f(kθ) on the circle, even functions elsewhere.
    """

    def __init__(self, dynamics: Isotropic, dim: int, step: int = 1) -> None:
        self.dynamics, self.dim, self.step = dynamics, dim, step
        beta = dynamics.beta
        self.kmax = bandwidth(beta, dim)
        ratios = relative_eigenvalues(beta, dim, self.kmax)
        self.lam = float(ratios[1]) if dynamics.normalised else 0.0
        self.degrees = np.arange(step, self.kmax + 1, step)
        with np.errstate(invalid="ignore", divide="ignore", under="ignore"):
            kappa = ratios[1:] / ratios[1] if ratios[1] > 0.0 else np.eye(1, self.kmax)[0]
        self.kappa = kappa[step - 1 :: step]
        # b = scales · sqrt(κ_k) ∫ P_k dmu
        self.scales = np.sqrt(multiplicities(dim, self.kmax)[step::step])
        self._grids: dict[int, Grid] = {}

    def grid(self, count: int) -> Grid:
        """The grid of so many nodes."""
        if count not in self._grids:
            nodes, weights = gauss_gegenbauer(self.dim, count)
            # angles from the poles, which stay out where the measure is 0
            angles = np.arccos(nodes[-1]) * np.linspace(1.0, 0.0, _IN_CAP, endpoint=False)
            cosines = np.stack([-np.cos(angles), np.cos(angles)])
            measure = np.tile((self.dim - 2.0) * np.log(np.sin(angles)), (2, 1))
            with np.errstate(divide="ignore"):
                logs = np.log(weights)
            self._grids[count] = Grid(
                nodes, logs, self._basis(nodes), measure, self._basis(cosines)
            )
        return self._grids[count]

    def _basis(self, t: Array) -> Array:
        values = gegenbauer(self.dim, self.kmax, t)[self.step :: self.step]
        return np.asarray(np.moveaxis(values, 0, -1) * (np.sqrt(self.kappa) * self.scales))

    def state(self, b: Array, rho: float, grid: Grid) -> State:
        """The density that the moments b make, right or not."""
        potential, slope = self._potential(grid.basis @ b)
        logits = grid.log_weights + rho * potential
        log_mass = float(logsumexp(logits))
        with np.errstate(under="ignore"):
            masses = np.exp(logits - log_mass)
        return State(masses, potential, slope, log_mass)

    def _potential(self, h: Array) -> tuple[Array, Array]:
        """φ and φ' at h."""
        if self.lam > 0.0:
            # the series of W * mu may fall below 0 by rounding, where it is next to nothing
            kernel = np.maximum(1.0 + self.lam * h, _SMALLEST)
            small = np.log1p(np.maximum(self.lam * h, -0.5))
            potential = np.where(kernel > 0.5, small, np.log(kernel)) / self.lam
            slope = 1.0 / kernel
        else:
            potential, slope = h, np.ones_like(h)
        return potential, slope

    def residual(self, b: Array, rho: float, grid: Grid) -> tuple[float, float]:
        """Largest residual, in units of moments ∫ P_k dmu, and what log f loses by rounding."""
        state = self.state(b, rho, grid)
        missed = float(np.max(np.abs(b - state.masses @ grid.basis) / self.scales))
        lost = rho * float(np.max(np.abs(state.potential[state.masses > 0.0]))) + self.kmax
        if self._hides_mass(b, rho, grid, state):
            missed = np.inf
        return missed, float(np.finfo(float).eps) * lost

    def _hides_mass(self, b: Array, rho: float, grid: Grid, state: State) -> bool:
        """Whether f rises steeply beyond the last nodes, which are far from the poles in high d."""
        # logarithms of the density of the polar angle
        caps = grid.cap_measure + rho * self._potential(grid.cap_basis @ b)[0]
        inside = (0.5 * self.dim - 1.0) * np.log1p(-(grid.nodes**2)) + rho * state.potential
        peaks = caps.max(axis=1)
        steep = peaks > caps[:, 0] + _STEEP
        return bool(np.any(steep & (peaks > inside.max() + _NEGLIGIBLE)))

    def linearised(self, b: Array, rho: float, grid: Grid) -> tuple[Array, Array, Array]:
        """The residual, its Jacobian in b, and its derivative in log ρ."""
        state = self.state(b, rho, grid)
        with np.errstate(under="ignore"):
            means = state.masses @ grid.basis
            weighted = state.masses * state.slope
            jacobian = grid.basis.T @ (weighted[:, None] * grid.basis)
            jacobian -= np.outer(means, weighted @ grid.basis)
            mixed = (state.masses * state.potential) @ grid.basis
        drift = mixed - means * float(state.masses @ state.potential)
        return b - means, np.eye(len(b)) - rho * jacobian, -rho * drift

    def numbers(self, b: Array, rho: float, grid: Grid) -> dict[str, float]:
        """∫ f log f dσ, and (F - F(σ))/τ = ∫ f log f dσ - ρ|b|²/2 of USA."""
        state = self.state(b, rho, grid)
        entropy = rho * float(state.masses @ state.potential) - state.log_mass
        return {"entropy": entropy, "excess": 0.5 * rho * float(b @ b) - state.log_mass}
