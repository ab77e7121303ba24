"""Phase oscillators on the circle: Kuramoto's dynamics (7.2) and general interactions (7.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from meanfield._checks import freeze, is_empty, number, real_array, shown
from meanfield._records import key
from meanfield.dynamics.facts import Dynamics, Energy
from meanfield.dynamics.isotropic import NOISE
from meanfield.kernels.kernel import Phases
from meanfield.spaces.circle import horner
from meanfield.typing import Array, ArrayLike, NDArray, Summable

Moments = NDArray[np.complex128]

_COUPLING = key("the coupling K, of either sign", float)


@dataclass(frozen=True)
class CircleInteraction(Dynamics):
    """X[mu](θ) = K ∫ h(φ - θ) dmu(φ), h(x) = Σ_k a_k cos kx + b_k sin kx on the circle, (7.5).

    If h is odd (sines alone) X is the gradient of K ∫ H(φ - θ) dmu(φ), H' = -h, and
    F = K/2 ∬ H(θ - φ) dmu dmu, as (7.3) for Kuramoto, grows like dF/dt = ∫ |X|² dmu without
    noise. No energy is claimed where there are cosines. A constant a_0, and a frequency that all
    share, only turn the circle and are left out; frequencies that differ belong to the measure,
    an `OscillatorDensity` or `Oscillators`, which any other dynamics moves, too.

    Parameters
    ----------
    sin : sequence of float
        b_1, b_2, …; may be empty if `cos` is not.
    cos : sequence of float, optional
        a_1, a_2, …
    coupling : float
        K, of either sign.
    noise : float
        τ >= 0 of the diffusion τ ∂_θ² f.

    Raises
    ------
    ValueError
        If there is no coefficient at all, one is not finite, or noise is negative.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> CircleInteraction(sin=[1.0]).velocity(Particles([[1.0, 0.0]]), at=[[0.0, 1.0]]) + 0.0
    array([[1., 0.]])
    """

    _for_rooms = ("lipschitz",)

    sin: Sequence[float] = field(
        metadata=key("b_1, b_2, … of the sines, a list of numbers", list[float])
    )
    cos: Sequence[float] = field(
        default=(), metadata=key("a_1, a_2, … of the cosines, a list of numbers", list[float])
    )
    coupling: float = field(default=1.0, kw_only=True, metadata=_COUPLING)
    noise: float = field(default=0.0, kw_only=True, metadata=NOISE)

    dim = 2
    is_isotropic: ClassVar[bool] = True
    sum_method: ClassVar[str] = "transforms"
    why_no_energy: ClassVar[str] = (
        "with cosines its field is no gradient of an energy, of sines alone it is"
    )

    def __post_init__(self) -> None:
        for name in ("sin", "cos"):
            freeze(self, **{name: _coefficients(name, getattr(self, name))})
        if not self.sin and not self.cos:
            raise ValueError(
                f"sin and cos must hold at least one coefficient, got {shown(self.sin)}"
            )
        coupling, noise = number("coupling", self.coupling), number("noise", self.noise, low=0)
        # multipliers c_k = K (a_k + i b_k)/2, k = 0 … kmax: X(θ) = 2 Re Σ_k c_k m_k e^{ikθ}
        factors = np.zeros(self._kmax + 1, dtype=np.complex128)
        factors[1 : len(self.cos) + 1] += np.array(self.cos)
        factors[1 : len(self.sin) + 1] += 1j * np.array(self.sin)
        freeze(self, coupling=coupling, noise=noise, multipliers=0.5 * coupling * factors)

    @property
    def _kmax(self) -> int:
        """Return the largest k of the series."""
        return max(len(self.sin), len(self.cos))

    @cached_property
    def energy_functional(self) -> Energy | None:
        """F where h is odd."""
        if any(self.cos):
            return None
        formula = "F = K/2 ∬ H(θ - φ) dmu dmu, H' = -h, as (7.3)"
        degrees = np.maximum(np.arange(self._kmax + 1), 1)
        dirac = float((self.multipliers.imag / degrees).sum())
        return Energy("F", formula, 1, dirac=dirac, kernel=self.pair_kernel)

    @property
    def is_gradient(self) -> bool:
        """X has no mean over the circle, so it has a primitive there, with cosines too."""
        return True

    @property
    def reach(self) -> float:
        """The largest k."""
        return float(self._kmax)

    @cached_property
    def pair_kernel(self) -> Phases:
        """h, by its multipliers."""
        return Phases(tuple(self.multipliers.tolist()))

    @property
    def lipschitz(self) -> float:
        """|K| Σ_k k |h_k|, which |∂X/∂θ| does not exceed."""
        return float(2.0 * np.abs(self.multipliers) @ np.arange(self._kmax + 1))

    def opposite(self) -> CircleInteraction:
        return replace(self, coupling=-self.coupling)

    def tangents(self, measure: Summable, points: Array, position: object = None) -> Array:  # noqa: ARG002 (of masks)
        # the output of an interaction of angles is tangential already
        return self.output(measure, points)

    def output(self, measure: Summable, points: Array) -> Array:
        """X as vectors of the plane, shape (n, 2), at unit rows (n, 2)."""
        moments = measure.trigonometric_moments(self._kmax)
        speed = phase_velocity(self.multipliers * moments, points[:, 0] + 1j * points[:, 1])
        return np.column_stack([-speed * points[:, 1], speed * points[:, 0]])


def phase_velocity(series: Moments, waves: Moments) -> Array:
    """X, shape (n,), at e^{iθ} (n,), from c_k m_k, k = 0 … kmax, by Horner's rule."""
    return np.asarray(2.0 * horner(series[1:], waves).real)


def turned(angles: Array, frequencies: Array, pull: complex, h: float) -> Array:
    """The angles (n,) after a time h of θ' = ω + Re(a e^{iθ}), at once for any ω h.

    With a fixed the flow of e^{iθ} is a Möbius map, the exponential of a matrix of trace 0 whose
    square is -κ², κ² = (ω² - |a|²)/4 (Watanabe & Strogatz 1994; Marvel, Mirollo & Strogatz 2009).

    Parameters
    ----------
    angles, frequencies : ndarray, shape (n,)
    pull : complex
        a.
    h : float

    Examples
    --------
    >>> turned(np.array([1.0, 2.0]), np.array([3.0, -2.0]), 0.0, 0.5).round(15)
    array([2.5, 1. ])
    >>> ahead = turned(np.array([0.1]), np.array([0.0]), 1j, 2.0)  # tan(θ/2) decays like e^{-t}
    >>> bool(abs(np.tan(ahead[0] / 2) - np.tan(0.05) * np.exp(-2.0)) < 1e-15)
    True
    """
    square = 0.25 * (frequencies * frequencies - abs(pull) ** 2)
    phase = np.sqrt(np.abs(square)) * h
    # cos κh and sin κh/(κh); of locked phases both are divided by cosh
    cosine, sine = np.cos(phase), np.sinc(phase / np.pi)
    locked = np.flatnonzero(square < 0.0)
    cosine[locked], sine[locked] = 1.0, np.tanh(phase[locked]) / phase[locked]
    waves = pull * np.exp(1j * angles)
    sine *= 0.5 * h
    half = np.arctan2(sine * (frequencies + waves.real), cosine + sine * waves.imag)
    return np.asarray(angles + 2.0 * half)


@dataclass(frozen=True)
class Kuramoto(CircleInteraction):
    """θ_i' = ω_i + (K/n) Σ_j sin(θ_j - θ_i), (7.2): the `CircleInteraction` h = sin.

    Parameters
    ----------
    coupling : float
        K.
    noise : float
        τ >= 0.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> Kuramoto(2.0)
    Kuramoto(coupling=2.0, noise=0.0)
    """

    sin: Sequence[float] = field(default=(1.0,), init=False, repr=False)
    cos: Sequence[float] = field(default=(), init=False, repr=False)
    coupling: float = field(metadata=_COUPLING)


def _coefficients(name: str, values: ArrayLike) -> tuple[float, ...]:
    """Return finite numbers as a tuple, which may be empty."""
    if is_empty(values):
        return ()
    return tuple(real_array(name, values, 1).tolist())
