"""The right-hand side of (8.1), with the law of the third token closed in one of three ways."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.spaces import Circle

Array = NDArray[np.float64]

CLOSURES = ("independent", "cumulant", "kirkwood")


class PairEquation:
    """d/dt of the cosine coefficients c_k = E cos kx of f = 2πψ, x = θ_2 - θ_1.

    From θ_i' = -(1/n) Σ_j h(θ_i - θ_j), h(x) = e^{β cos x} sin x, and uniform starts, (8.1):
    ∂_t f = ∂_x(((2/n) h + ((2n-4)/n) H) f) with H(x) = E[h(θ_3) | θ_1 = 0, θ_2 = x]. The reflection
    that exchanges 0 and x makes H the pull of third tokens on either end. H f = ∫ h ρ₃ dσ(θ_3),
    ρ₃ the density of (θ_2, θ_3) at θ_1 = 0, which a closure makes of f:

    - independent: ρ₃ = f(x), so H = 0;
    - cumulant: ρ₃ = f(x) + f(θ) + f(θ-x) - 2, no three-token cumulant, so H f = h * f;
    - kirkwood: ρ₃ = f(x) f(θ) f(θ-x)/(f * f)(x), so H = (hf * f)/(f * f).

    Without f * f Kirkwood's ρ₃ has a mass (f * f)(x) of third tokens beside each pair: more than
    one, and without bound as tokens gather. With it there is one, and its law is a probability;
    both agree to second order in f - 1.

    Parameters
    ----------
    closure : str
        Of `CLOSURES`.
    beta : float
    n : int
        n = 2 has no third token, and no closure.
    space : Circle
        h has no coefficients beyond its degrees.
    """

    def __init__(self, closure: str, beta: float, n: int, space: Circle) -> None:
        self._closure, self._space = closure, space
        h = np.exp(beta * np.cos(space.angles)) * np.sin(space.angles)
        self._own, self._others = 2.0 / n, (2.0 * n - 4.0) / n
        self._h, self._h_modes = h, space.analysis(h)
        self._degrees = space.degrees.astype(np.float64)

    def __call__(self, t: float, c: Array) -> Array:  # noqa: ARG002 (the field has no clock)
        """dc/dt, shape (kmax + 1,); that of c_0 is 0."""
        space, f = self._space, self._space.synthesis(c)
        pulled = self._h * f
        flux = self._own * pulled
        if self._closure == "cumulant":
            flux += self._others * space.synthesis(self._h_modes * c)
        elif self._closure == "kirkwood":
            with_third = space.synthesis(space.analysis(pulled) * c)
            # f * f > 0 where f >= 0 is; elsewhere a nan ends the run
            with np.errstate(divide="ignore", invalid="ignore"):
                flux += self._others * f * with_third / space.synthesis(c * c)
        # ∂_x of an odd series: its coefficients are imaginary
        return np.asarray(-self._degrees * space.analysis(flux).imag)
