"""SA and USA: self-attention whose queries, keys and values are the tokens themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import number, plus_or_minus, shown, suggest_measure, unit_rows
from meanfield.geometry import project

Array = NDArray[np.float64]


class Moments(Protocol):
    """What answers the moments G(z) = ∫ e^{<z,y>} dmu(y)."""

    def log_moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """log G (n,) and ∇ log G (n, d) at rows z (n, d) of any length."""


class Measure(Moments, Protocol):
    """What a velocity field asks of a measure: log G and ∇ log G, of itself or rescaled."""

    @property
    def dim(self) -> int:
        """Ambient dimension d."""

    def balanced(self, beta: float) -> Moments:
        """The measure u mu, with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1: for `DoublyStochastic`."""


@dataclass(frozen=True)
class SA:
    """X[mu](x) = ± P_x ∇G(βx) / G(βx) = ± (1/β) ∇ log ∫ e^{β<x,y>} dmu(y), (SA) and (3.7).

    Parameters
    ----------
    beta : float
        Inverse temperature β >= 0.
    sign : int
        +1 attractive (V = I), -1 repulsive (V = -I).
    noise : float
        τ >= 0 of the diffusion τ Δf.

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

    beta: float
    sign: int = 1
    noise: float = 0.0

    name: ClassVar[str] = "SA"
    dim: ClassVar[None] = None
    normalised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_isotropic(self)

    def velocity(self, measure: Measure, at: ArrayLike) -> Array:
        """Tangent vectors X[mu](x), shape (n, d), at unit rows `at`.

        Raises
        ------
        ValueError
            If `measure` is none, or the points are not unit rows of its dimension.
        """
        check_moments(measure)
        points = unit_rows("at", at, measure.dim)
        return project(points, self.output(measure, points))

    def output(self, measure: Measure, points: Array) -> Array:
        """± ∇G/G at βx, shape (n, d): what attention adds to tokens at unit rows (n, d)."""
        _, mean = measure.log_moment(self.beta * points)
        return self.sign * mean


@dataclass(frozen=True)
class USA:
    """X[mu](x) = ± P_x ∇G(βx) = ± ∇ (1/β) ∫ e^{β<x,y>} dmu(y), (USA) and (3.9).

    Parameters
    ----------
    beta : float
        Inverse temperature, 0 <= β <= 700: velocities are of order e^β.
    sign : int
        +1 attractive (V = I), -1 repulsive (V = -I).
    noise : float
        τ >= 0 of the diffusion τ Δf.

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

    beta: float
    sign: int = 1
    noise: float = 0.0

    name: ClassVar[str] = "USA"
    dim: ClassVar[None] = None
    normalised: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_isotropic(self)
        number("beta of USA, whose velocities are of order exp(beta),", self.beta, low=0, high=700)

    def velocity(self, measure: Measure, at: ArrayLike) -> Array:
        """Tangent vectors X[mu](x), shape (n, d), at unit rows `at`.

        Raises
        ------
        ValueError
            If `measure` is none, or the points are not unit rows of its dimension.
        """
        check_moments(measure)
        points = unit_rows("at", at, measure.dim)
        return project(points, self.output(measure, points))

    def output(self, measure: Measure, points: Array) -> Array:
        """± ∇G at βx, shape (n, d): what attention adds to tokens at unit rows (n, d)."""
        log_g, mean = measure.log_moment(self.beta * points)
        return self.sign * np.exp(log_g)[:, None] * mean


def check_moments(measure: Any) -> None:
    """Refuse what has no moments.

    Raises
    ------
    ValueError
        If it is no measure.
    """
    if isinstance(measure, type) or not callable(getattr(measure, "balanced", None)):
        raise ValueError(
            f"measure must be a Density, FlowMap or Particles, got "
            f"{shown(measure)}{suggest_measure(measure)}"
        )


def check_isotropic(dynamics: Any) -> None:
    """Check β, sign and noise, and put them into one form.

    Raises
    ------
    ValueError
        If one is out of range.
    """
    beta = number("beta", dynamics.beta, low=0)
    # below 1e-300 the limit β = 0 is exact, and 1/β is not
    object.__setattr__(dynamics, "beta", beta if beta >= 1e-300 else 0.0)
    object.__setattr__(dynamics, "noise", number("noise", dynamics.noise, low=0))
    object.__setattr__(dynamics, "sign", plus_or_minus("sign", dynamics.sign))
