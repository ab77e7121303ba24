"""What SA and USA make of the degrees of a density."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import Dynamics
from meanfield.harmonics import (
    bandwidth,
    eigenvalues,
    eigenvalues_in_unit,
    relative_eigenvalues,
)
from meanfield.tendency.spectral import SMALL

Array = NDArray[np.float64]


class Factors:
    """Multipliers of X = ± ∇u (USA) or ± ∇u / (βu) (SA), u of coefficients Λ_k f_k / β.

    Numerator and denominator of X are in units of Λ_0, the size of G itself.

    Parameters
    ----------
    dynamics : SA or USA
    dim, kmax : int

    Attributes
    ----------
    slope : ndarray, shape (kmax + 1,)
        Of the numerator.
    potential : ndarray of the same shape, or None
        Of the denominator, where X has one: for SA unless β = 0.
    speed_unit : float
        X in units of the fields.
    energy_factor, log_unit : float
        e^{-log_unit} dissipation over ∫ f X · numerator dσ; log_unit is β, but log Λ_0 where
        e^{-β} Λ_0 underflows.
    energies : ndarray, shape (kmax + 1,)
        e^{-log_unit} E_β (at β = 0 its limit without 1/(2β)) over the power of each degree.
    log_first : float
        log Λ_0.
    can_be_small : bool
        Whether the denominator may fall below what its series has digits for.
    """

    def __init__(self, dynamics: Dynamics, dim: int, kmax: int) -> None:
        self.dynamics = dynamics
        beta = dynamics.beta
        # the limit of Λ_k/(β Λ_0)
        at_zero = np.where(np.arange(kmax + 1) == 1, 1.0 / dim, 0.0)
        kernel = relative_eigenvalues(beta, dim, kmax)
        first, self.log_unit = eigenvalues_in_unit(beta, dim, 0)
        self.energies = first[0] * kernel / (2.0 * beta) if beta > 0.0 else 0.5 * at_zero
        kernel[bandwidth(beta, dim) + 1 :] = 0.0
        self.slope = dynamics.sign * (kernel / beta if beta > 0.0 else at_zero)
        is_normalised = dynamics.normalised and beta > 0.0
        self.potential = kernel if is_normalised else None
        self.energy_factor = float(first[0])
        self.speed_unit = 1.0
        if not is_normalised and beta > 0.0:
            self.speed_unit = float(eigenvalues(beta, dim, 0)[0])
            self.energy_factor *= self.speed_unit
        self.log_first = self.log_unit + float(np.log(first[0]))
        self.can_be_small = bool(is_normalised and np.exp(-2.0 * beta) < SMALL)
