"""Attention whose matrix is doubly stochastic: Sinkformers, Remark 3.5."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from meanfield.dynamics.facts import Energy
from meanfield.dynamics.isotropic import Isotropic
from meanfield.typing import Array, Summable


@dataclass(frozen=True, repr=False)
class DoublyStochastic(Isotropic):
    """X[mu](x) = ± P_x ∫ K(x,y) y dmu(y), K = u(x) e^{β<x,y>} u(y), ∫ K(x,y) dmu(y) = 1.

    The symmetric scaling u > 0 (Sinkhorn) makes rows and columns of the attention matrix sum to 1:
    Remark 3.5, Sander, Ablin, Blondel and Peyré (2022). Since 1/u(x) = G_{u mu}(βx), X is the field
    of SA for the measure u mu, and X = ∓ (1/β) ∇ log u is the gradient in W_2 of ± E_DS, E_DS(mu) =
    -(1/β) ∫ log u dmu: dE_DS/dt = ± ∫ |X|² dmu. At β = 0, log u / β tends to |m|²/2 - <x, m>, m =
    ∫ y dmu, so that X = ± P_x m is the field of SA and E_DS = |m|²/2 its energy.

    Parameters
    ----------
    beta : float
        Inverse temperature β >= 0.
    sign : int
        +1 attractive (V = I), -1 repulsive (V = -I).
    noise : float
        τ >= 0 of the diffusion τ Δf; then τ ∫ log f dmu ∓ E_DS falls.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> DoublyStochastic(1.0).velocity(Particles([[1.0, 0.0]]), at=[[0.0, 1.0]])
    array([[1., 0.]])
    """

    normalised = True
    is_balanced: ClassVar[bool] = True
    stays_in_span: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mask is not None:
            raise ValueError(
                f"mask must be None for DoublyStochastic, got {self.mask}: a triangular matrix "
                f"whose rows and columns sum to 1 is the identity, under which no token moves"
            )

    @cached_property
    def energy_functional(self) -> Energy:
        """E_DS."""
        formula = "E_DS(mu) = -(1/β) ∫ log u dmu of doubly stochastic attention"
        return Energy("E_DS", formula, self.sign, beta=self.beta, entropic=True)

    def output(self, measure: Summable, points: Array) -> Array:
        """± ∫ K(x,y) y dmu(y), shape (n, d): what attention adds to tokens at unit rows (n, d)."""
        _, mean = measure.balance(self.beta).log_moment(self.beta * points)
        return np.asarray(self.sign * mean)
