"""Growth of axisymmetric perturbations of a stationary state under noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, hyp0f1, ive

from meanfield.studies.stationary.equation import Equation

Array = NDArray[np.float64]

# eigenvalues this near to 0 are 0 but for rounding
_NEUTRAL = 1e-8
# perturbations are polynomials of at most this degree, orthonormal under the state
_MODES = 48
# below e^{-2β} = 1e-6 the series of W * f has too few digits to divide by
_LARGEST_BETA = 6.9
# it is trusted down to this share of its maximum; the rest is iterated to this change
_TRUSTED, _CHANGE, _ITERATIONS = 1e-8, 1e-10, 200
# Bessel functions below it have lost digits, or all; masses
_UNDERFLOW, _NO_MASS = 1e-280, 1e-260


class Linearisation:
    """The noisy flow linearised at stationary states of one equation.

    A perturbation fψ obeys ∂_t ψ = (1/f) ∇·(f ∇(τψ - Tψ)), Tψ = W * (fψ)/β, for SA over W * f.
    In polynomials that are orthonormal under f dσ this is -τ D (1 - ρT), D the form ∫ f ∇ψ·∇χ.
    Mass, which can't change, is left out.

    Parameters
    ----------
    equation : Equation
        With step 1: perturbations need not have the symmetry of the state.
    """

    def __init__(self, equation: Equation) -> None:
        self.equation = equation
        beta = equation.dynamics.beta
        # else a series has digits enough
        self._by_sums = equation.lam > 0.0 and beta > _LARGEST_BETA
        self._kernels: dict[int, Array] = {}

    def rates(self, b: Array, rho: float, count: int) -> NDArray[Any]:
        """Eigenvalues over τ of the state with moments b (K,) on so many nodes, fastest first."""
        grid = self.equation.grid(count)
        state = self.equation.state(b, rho, grid)
        masses = state.masses
        with np.errstate(under="ignore"):
            if self._by_sums:
                masses = self._far_masses(masses, state.slope, rho, count)
            # nodes without mass would be a boundary of their own
            held = masses > _NO_MASS
            masses = masses[held]
            modes = min(_MODES, len(masses) // 2)
            values, slopes = _orthonormal(grid.nodes[held], masses, modes)
            if self._by_sums:
                shares = self._kernel(count)[np.ix_(held, held)] * masses
                pull = shares @ values / (self.equation.lam * shares.sum(axis=1)[:, None])
            else:
                basis = grid.basis[held]
                moments = basis.T @ (masses[:, None] * values)
                pull = state.slope[held, None] * (basis @ moments)
            form = slopes.T @ (masses[:, None] * slopes)
            drawn = values.T @ (masses[:, None] * pull)
        rates = np.linalg.eigvals(form @ (rho * drawn - np.eye(len(form))))
        return np.asarray(rates[np.argsort(-rates.real)])

    def unstable(self, b: Array, rho: float, count: int, rates: NDArray[Any]) -> int:
        """Number of axisymmetric perturbations that grow, where these are the rates.

        Newton's Jacobian 1 - ρT has as many negative eigenvalues as growth is positive: under USA
        it has the inertia of F's second variation. So growth like e^{-1/τ}, as of two equal
        clusters that exchange mass, is seen though rounding hides the rate, as long as the
        Jacobian's eigenvalue is below -1e-8. Under SA complex rates may cross without it, and
        count too.
        """
        _, jacobian, _ = self.equation.linearised(b, rho, self.equation.grid(count))
        negative = int(np.sum(np.linalg.eigvals(jacobian).real < -_NEUTRAL))
        if self.equation.lam == 0.0:
            return negative
        return max(negative, int(np.sum(rates.real > _NEUTRAL)))

    def _far_masses(self, masses: Array, slope: Array, rho: float, count: int) -> Array:
        """Masses, those where a series of W * f has no digits from sums of positive terms.

        f = (W * f)^{ρ/λ}/Z is iterated there only: a state itself may be an unstable fixed point.
        """
        near = slope * _TRUSTED < slope.min()
        if near.all():
            return masses
        peak = int(np.argmax(masses))
        masses = np.where(near, masses, 0.0)
        rows = np.append(np.flatnonzero(~near), peak)
        kernel, weights = self._kernel(count)[rows], np.exp(self.equation.grid(count).log_weights)
        for _ in range(_ITERATIONS):
            sums = kernel @ masses
            # in units of the peak, where f is known
            grown = (sums / sums[-1]) ** (rho / self.equation.lam) * weights[rows] / weights[peak]
            new = grown[:-1] * masses[peak]
            old, masses[rows[:-1]] = masses[rows[:-1]], new
            if np.all(np.abs(new - old) <= _CHANGE * new + _NO_MASS):
                break
        return masses

    def _kernel(self, count: int) -> Array:
        """e^{β(<x,y> - 1)} averaged over the latitudes of both, shape (N, N).

        <x,y> = c + s u, u the cosine between directions across the axis: ∫ e^{βsu} is
        ₀F₁(n/2; x²/4) = Γ(n/2) (2/x)^{n/2-1} I_{n/2-1}(x), x = βs and n = d - 1.
        """
        if count not in self._kernels:
            beta, half = self.equation.dynamics.beta, 0.5 * (self.equation.dim - 1)
            nodes = self.equation.grid(count).nodes
            sines = np.sqrt((1.0 - nodes) * (1.0 + nodes))
            x = beta * np.outer(sines, sines)
            with np.errstate(all="ignore"):
                bessel = ive(half - 1.0, x)
                large = np.log(bessel) + x + gammaln(half) - (half - 1.0) * np.log(0.5 * x)
                small = np.log(hyp0f1(half, 0.25 * np.minimum(x, 4.0 * half) ** 2))
                few = (x < 1e-3) | (bessel < _UNDERFLOW)
                logs = beta * (np.outer(nodes, nodes) - 1.0)
                self._kernels[count] = np.exp(logs + np.where(few, small, large))
        return self._kernels[count]


def _orthonormal(nodes: Array, masses: Array, count: int) -> tuple[Array, Array]:
    """Polynomials of degrees 1 … count-1 orthonormal under the masses, and sqrt(1-t²) times p'."""
    sines = np.sqrt((1.0 - nodes) * (1.0 + nodes))
    values, slopes = np.ones((count, len(nodes))), np.zeros((count, len(nodes)))
    for j in range(1, count):
        new, slope = nodes * values[j - 1], values[j - 1] + nodes * slopes[j - 1]
        # three terms would do, but for rounding
        for _ in range(2):
            shares = values[:j] @ (masses * new)
            new, slope = new - shares @ values[:j], slope - shares @ slopes[:j]
        size = float(np.sqrt(masses @ new**2))
        values[j], slopes[j] = new / size, slope / size
    return values[1:].T, (slopes[1:] * sines).T
