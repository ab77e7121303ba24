"""What SA and USA make of the degrees of a density."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import Dynamics
from meanfield.harmonics import (
    bandwidth,
    eigenvalues_in_unit,
    relative_eigenvalues,
)
from meanfield.tendency.spectral import SMALL

Array = NDArray[np.float64]

# up to this β fields as large as e^β have squares in double precision
_LARGEST_BETA = 200.0


class Factors:
    """Multipliers of X = ± ∇u (USA) or ± ∇u / (βu) (SA), u of coefficients Λ_k f_k / β.

    Numerator and denominator of X are in units of Λ_0, the size of G itself. Where there is no
    denominator the numerator is X, up to β = 200.

    Parameters
    ----------
    dynamics : SA or USA
    dim : int
    kernel : ndarray, shape (kmax + 1,)
        Λ_k/Λ_0.
    width : int
        The bandwidth.
    first : tuple of float
        e^{-log_unit} Λ_0 and log_unit.

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

    def __init__(
        self, dynamics: Dynamics, dim: int, kernel: Array, width: int, first: tuple[float, float]
    ) -> None:
        self.dynamics = dynamics
        beta, (size, self.log_unit) = dynamics.beta, first
        # the limit of Λ_k/(β Λ_0)
        at_zero = np.where(np.arange(len(kernel)) == 1, 1.0 / dim, 0.0)
        self.energies = size * kernel / (2.0 * beta) if beta > 0.0 else 0.5 * at_zero
        kernel = np.where(np.arange(len(kernel)) <= width, kernel, 0.0)
        self.slope = dynamics.sign * (kernel / beta if beta > 0.0 else at_zero)
        is_normalised = dynamics.normalised and beta > 0.0
        self.potential = kernel if is_normalised else None
        self.energy_factor = size
        self.speed_unit = 1.0
        if not is_normalised and beta > 0.0:
            lead = float(size * np.exp(self.log_unit))
            if beta <= _LARGEST_BETA:
                self.slope *= lead
                self.energy_factor /= lead
            else:
                self.speed_unit = lead
                self.energy_factor *= lead
        self.log_first = self.log_unit + float(np.log(size))
        self.can_be_small = bool(is_normalised and np.exp(-2.0 * beta) < SMALL)

    @classmethod
    def of(cls, dynamics: Dynamics, dim: int, kmax: int) -> Factors:
        """Those of a dynamics."""
        beta = dynamics.beta
        kernel = relative_eigenvalues(beta, dim, kmax)
        first, log_unit = eigenvalues_in_unit(beta, dim, 0)
        return cls(dynamics, dim, kernel, bandwidth(beta, dim), (float(first[0]), log_unit))
