"""SA and USA: self-attention whose queries, keys and values are the tokens themselves."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from meanfield._checks import freeze, number, plus_or_minus
from meanfield._records import key
from meanfield.dynamics.causal import MASK, Causal, Maskable, check_mask
from meanfield.dynamics.facts import Energy
from meanfield.dynamics.schedule import TimeDependent, coefficient, in_time, largest_of
from meanfield.kernels.kernel import Exponential, PotentialKernel
from meanfield.typing import Array, Summable

# for a larger β, differences of e^{β<x,y>} between tokens are lost in rounding
LARGEST_BETA = 1e8
BETA = key(
    "the inverse temperature, a number >= 0, at most 1e8 for tokens and 1e5 else",
    float,
    minimum=0,
    maximum=LARGEST_BETA,
)
SIGN = key("1 attractive (V = I), -1 repulsive (V = -I)", int, enum=[1, -1])
NOISE = key("tau >= 0 of dx = X dt + sqrt(2 tau) dB", float, minimum=0)


class KernelDynamics(Maskable):
    """X = ± P_x ∫ s(<x,y>) y dmu(y) [/ ∫ s(<x,y>) dmu(y)], whose values are ± the tokens.

    Without the division X is the gradient in W_2 of ± E, E = ½ ∬ S(<x,y>) dmu dmu, S' = s; with it
    in the metric of (3.12), whose weight is ∫ s(<x,y>) dmu(y). Densities and flow maps are moved by
    `pair_kernel`, whatever a subclass has as its `output`, unless it `is_balanced`.
    """

    is_isotropic: ClassVar[bool] = True
    stays_in_span: ClassVar[bool] = True
    sum_method: ClassVar[str] = "direct"
    why_no_gradient: ClassVar[str] = "divided by ∫ s(<x,y>) dmu(y), only that of s = e^{βt} is one"
    pair_kernel: PotentialKernel

    @property
    def is_gradient(self) -> bool:
        """∇U divided by G is a gradient only where G is a function of U, as with s = e^{βt}."""
        return not self.normalised or self.pair_kernel.is_exponential

    @property
    def reach(self) -> float:
        """The reach of the kernel."""
        return self.pair_kernel.reach

    @property
    def has_kernel_unit(self) -> bool:
        """Without a denominator."""
        return not self.normalised

    def opposite(self) -> Self:
        # mypy can't see that every subclass is a dataclass with a sign
        dynamics: Any = self
        return replace(dynamics, sign=-self.sign)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        # the mask is shown only if there is one
        dynamics: Any = self
        names = [f.name for f in fields(dynamics) if f.name != "mask" or self.mask is not None]
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    def output(self, measure: Summable, points: Array) -> Array:
        """± ∫ s y dmu [/ ∫ s dmu], shape (n, d): what is added to tokens at unit rows (n, d)."""
        if self.mask is not None:
            return self.under_mask.output(measure, points)
        log_unit, potential, pull = self.pair_kernel.attention(measure, points)
        unit = 1.0 / potential if self.normalised else np.exp(log_unit) * np.ones(len(points))
        return np.asarray(self.sign * unit[:, None] * pull)


@dataclass(frozen=True, repr=False)
class Isotropic(KernelDynamics):
    """Attention with s = e^{βt}, whose queries and keys are the tokens themselves.

    Parameters
    ----------
    beta : float, Schedule or callable
        Inverse temperature β >= 0.
    sign : int
        +1 attractive (V = I), -1 repulsive (V = -I).
    noise : float
        τ >= 0 of the diffusion τ Δf.
    mask : Causal, optional
        It says which tokens each token attends to; to all if omitted.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    beta: Any = field(metadata=in_time(BETA))
    sign: int = field(default=1, kw_only=True, metadata=SIGN)
    noise: float = field(default=0.0, kw_only=True, metadata=NOISE)
    mask: Causal | None = field(default=None, kw_only=True, metadata=MASK)

    def __post_init__(self) -> None:
        check_mask(self.mask)
        beta = coefficient("beta", self.beta)
        noise, sign = number("noise", self.noise, low=0), plus_or_minus("sign", self.sign)
        freeze(self, beta=beta, noise=noise, sign=sign)
        if not isinstance(beta, TimeDependent):
            # below 1e-300 the limit β = 0 is exact, while 1/β would overflow
            beta = beta if beta >= 1e-300 else 0.0
            freeze(self, beta=beta, score_matrices=[beta], value_matrices=[sign])

    @property
    def reach(self) -> float:
        """The largest β."""
        return largest_of(self.beta)

    @cached_property
    def pair_kernel(self) -> PotentialKernel:  # type: ignore[override]
        """e^{βt}."""
        return Exponential(number("beta of a kernel", self.beta))

    @cached_property
    def energy_functional(self) -> Energy:
        """E_β; X is its gradient in W_2, under SA in the metric of (3.12)."""
        return Energy(
            "E_β",
            "E_β(mu) = 1/(2β) ∬ e^{β<x,y>} dmu dmu, (3.5)",
            self.sign,
            in_w2=not self.normalised,
            kernel=self.pair_kernel,
            dirac=0.5 / (self.beta or 1.0),
            log_dirac=self.beta,
            log_unit=self.beta,
        )


@dataclass(frozen=True, repr=False)
class SA(Isotropic):
    """X[mu](x) = ± P_x ∇G(βx) / G(βx) = ± (1/β) ∇ log ∫ e^{β<x,y>} dmu(y), (SA) and (3.7).

    Parameters
    ----------
    beta : float, Schedule or callable
        Inverse temperature β >= 0.
    sign : int
        +1 attractive (V = I), -1 repulsive (V = -I).
    noise : float
        τ >= 0 of the diffusion τ Δf.
    mask : Causal, optional
        It says which tokens each token attends to; to all if omitted.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> SA(1.0).velocity(Particles([[1.0, 0.0]]), at=[[0.0, 1.0]])
    array([[1., 0.]])
    """

    normalised = True


@dataclass(frozen=True, repr=False)
class USA(Isotropic):
    """X[mu](x) = ± P_x ∇G(βx) = ± ∇ (1/β) ∫ e^{β<x,y>} dmu(y), (USA) and (3.9).

    Parameters
    ----------
    beta : float, Schedule or callable
        Inverse temperature, 0 <= β <= 700: velocities are of order e^β.
    sign : int
        +1 attractive (V = I), -1 repulsive (V = -I).
    noise : float
        τ >= 0 of the diffusion τ Δf.
    mask : Causal, optional
        It says which tokens each token attends to; to all if omitted.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> USA(1.0).velocity(Particles([[1.0, 0.0]]), at=[[0.0, 1.0]])
    array([[1., 0.]])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        coefficient("beta of USA, whose velocities are of order exp(beta),", self.beta, high=700)
