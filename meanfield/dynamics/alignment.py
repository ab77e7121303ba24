"""Alignment with the mean direction: the mean field of Vicsek's model on the sphere."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from meanfield._checks import freeze, number, shown
from meanfield._records import key
from meanfield.dynamics.facts import Dynamics, Energy
from meanfield.dynamics.isotropic import NOISE
from meanfield.typing import Array, Summable

# a mean |J| up to this has no direction: rounding turns it by more than 1e-4
_NO_DIRECTION = 1e-12
# beyond this exponent |J|^p keeps fewer than 14 digits
_LARGEST_EXPONENT = 100.0


class DirectionError(ValueError, ArithmeticError):
    """A measure has no mean direction; a run ends by it."""


@dataclass(frozen=True)
class Alignment(Dynamics):
    """X[mu](x) = P_x |J|^p J/|J|, J = ∫ y dmu(y): each token turns to the mean direction.

    X is the gradient in W_2 of E(mu) = |J|^{p+1}/(p+1), so that dE/dt = ∫ |X|² dmu. p = 0 is the
    mean field of Vicsek's model with unit speed (Degond and Motsch 2008; Figalli, Kang and Morales
    2018, who have this gradient flow), p = 1 is `Interaction([1.0])`, and on the circle Kuramoto's
    model with a coupling r^{p-1} (Filatrella, Pedersen and Wiesenfeld 2007). With noise a density
    is stationary if it is that of von Mises and Fisher with κ = |J|^p/τ about J (Degond, Frouvelle
    and Liu 2015): for p = 0 one is at every τ, for p = 1 below τ = 1/d only, and for p > 1 the
    transition is of first order.

    Parameters
    ----------
    exponent : float
        p, from 0 to 100.
    noise : float
        τ >= 0 of the diffusion τ Δf; then τ ∫ log f dmu - E falls.

    Raises
    ------
    ValueError
        If an argument is out of range. Where p < 1, X has no limit or no derivative at J = 0, and a
        measure with |J| < 1e-12 is refused; where p >= 1, X = 0 there.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> Alignment().velocity(Particles([[1.0, 0.0], [0.0, 1.0]]), at=[[0.0, -1.0]]).round(12)
    array([[0.70710678, 0.        ]])
    """

    exponent: float = field(
        default=0.0,
        metadata=key(
            "p of the speed |J|^p, J the mean of the tokens: 0 for Vicsek's model",
            float,
            minimum=0,
            maximum=_LARGEST_EXPONENT,
        ),
    )
    noise: float = field(default=0.0, kw_only=True, metadata=NOISE)

    is_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        exponent = number("exponent", self.exponent, low=0, high=_LARGEST_EXPONENT)
        freeze(self, exponent=exponent, noise=number("noise", self.noise, low=0))

    @cached_property
    def energy_functional(self) -> Energy:
        """|J|^{p+1}/(p+1), of which X is the gradient in W_2."""
        formula = "E(mu) = |J|^{p+1}/(p+1), J = ∫ y dmu"
        return Energy("E_J", formula, 1, dirac=self._of_length(1.0), functional=self._of_measure)

    def _of_length(self, length: float) -> float:
        order = self.exponent + 1.0
        return float(length**order) / order

    def _of_measure(self, measure: Summable) -> float:
        return self._of_length(float(np.linalg.norm(measure.mean())))

    def output(self, measure: Summable, points: Array) -> Array:
        """|J|^{p-1} J at each of n points, shape (n, d).

        Raises
        ------
        ValueError
            If p < 1 and J = 0 to rounding.
        """
        mean = measure.mean()
        length = float(np.linalg.norm(mean))
        if self.exponent < 1.0 and length < _NO_DIRECTION:
            raise DirectionError(
                f"measure must have a mean direction under {self!r}, got |J| = {length:.2g} of "
                f"{shown(measure)}: take exponent >= 1, for which X = 0 there"
            )
        return np.tile(length ** (self.exponent - 1.0) * mean, (len(points), 1))

    def divergence_at(self, measure: Summable, points: Array) -> Array:
        """div P_x v = -(d - 1) <x, v>, shape (n,), where v is the same at all points."""
        along = np.einsum("ij,ij->i", points, self.output(measure, points))
        return np.asarray((1 - points.shape[1]) * along)
