"""Interaction by any kernel of inner products: what SA and USA are of e^{βt}."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from meanfield._checks import boolean, freeze, number, plus_or_minus, shown
from meanfield._records import key
from meanfield.dynamics.causal import MASK, Causal, check_mask
from meanfield.dynamics.facts import Energy
from meanfield.dynamics.isotropic import NOISE, SIGN, KernelDynamics
from meanfield.kernels.kernel import PotentialKernel, kernel_of

_KERNEL = key("the Taylor coefficients of s, a list of numbers", list[float], minItems=1)


@dataclass(frozen=True, repr=False)
class Interaction(KernelDynamics):
    """X[mu](x) = ± P_x ∫ s(<x,y>) y dmu(y) [/ ∫ s(<x,y>) dmu(y)].

    With E = ½ ∬ S(<x,y>) dmu dmu, S' = s and S(0) = 0, dE/dt = ± ∫ |X|² dmu, or where X is
    normalised ± ∫ |X|² (∫ s dmu) dmu. s(t) = e^{βt} is USA, normalised SA, with E_β less 1/(2β).

    Parameters
    ----------
    kernel : sequence of float, or (callable, callable)
        The Taylor coefficients of s, or s and its derivative as functions of arrays in [-1, 1].
        Functions are sampled until their Chebyshev series ends. No file can keep them: such a run
        is resumed with its dynamics.
    normalised : bool
        Whether to divide by ∫ s(<x,y>) dmu(y). Then s must be positive on [-1, 1].
    sign : int
        +1 attractive where s > 0, -1 repulsive.
    noise : float
        τ >= 0 of the diffusion τ Δf.
    mask : Causal, optional
        It says which tokens each token attends to; to all if omitted.

    Raises
    ------
    ValueError
        If an argument is of another kind, a function is not smooth or not the derivative, or a
        kernel that is divided by is not positive.

    Examples
    --------
    >>> import meanfield as mf
    >>> dynamics = Interaction([1.0, 1.0, 0.25], normalised=True)  # (1 + t/2)²
    >>> dynamics.velocity(mf.Particles([[1.0, 0.0]]), at=[[0.0, 1.0]])
    array([[1., 0.]])
    """

    kernel: Any = field(metadata=_KERNEL)
    normalised: bool = field(
        default=False, kw_only=True, metadata=key("whether to divide by the potential", bool)
    )
    sign: int = field(default=1, kw_only=True, metadata=SIGN)
    noise: float = field(default=0.0, kw_only=True, metadata=NOISE)
    mask: Causal | None = field(default=None, kw_only=True, metadata=MASK)

    def __post_init__(self) -> None:
        check_mask(self.mask)
        kernel, normalised = kernel_of(self.kernel), boolean("normalised", self.normalised)
        sign, noise = plus_or_minus("sign", self.sign), number("noise", self.noise, low=0)
        freeze(self, kernel=kernel, normalised=normalised, sign=sign, noise=noise)
        if self.normalised and not self.kernel.least_share > 0.0:
            t, value = self.kernel.least
            raise ValueError(
                f"kernel must be positive on [-1, 1], beyond rounding, where normalised is True, "
                f"got s({t:.6g}) = {value:.3g} of {shown(self.kernel)}: take normalised=False, or "
                f"functions if rounding of coefficients hides a small positive value"
            )

    @property
    def pair_kernel(self) -> PotentialKernel:  # type: ignore[override]
        """s."""
        kernel: PotentialKernel = self.kernel
        return kernel

    @cached_property
    def energy_functional(self) -> Energy:
        """E; X is its gradient in W_2, where it is normalised in the metric of (3.12)."""
        formula = "E(mu) = ½ ∬ S(<x,y>) dmu dmu, S' = s, S(0) = 0"
        dirac = 0.5 * float(self.kernel.primitive(np.ones(1))[0])
        # energies are not divided by the value S(1) at coinciding tokens if it is 0 to rounding
        if abs(dirac) <= 1e-13 * max(map(abs, self.kernel.energy_bounds()[:2])):
            dirac = 0.0
        in_w2 = not self.normalised
        return Energy("E", formula, self.sign, in_w2, dirac=dirac, kernel=self.kernel)
