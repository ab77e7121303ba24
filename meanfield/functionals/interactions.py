"""Order parameter of phases, and the energy of an odd interaction on the circle."""

from __future__ import annotations

import numpy as np

from meanfield.arguments import shown
from meanfield.dynamics import CircleInteraction
from meanfield.measures import AnyMeasure, check_measure


def order_parameter(measure: AnyMeasure) -> tuple[float, float]:
    """r and ψ of r e^{iψ} = ∫ e^{iθ} dmu on the circle; ψ = 0 where r = 0.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
        On the circle; `OscillatorDensity` and `Oscillators` are among them.

    Returns
    -------
    r : float
        In [0, 1].
    psi : float
        In [0, 2π).

    Raises
    ------
    ValueError
        If the measure's dim is not 2.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> r, psi = order_parameter(Particles([[0.0, 1.0], [0.0, 1.0]]))
    >>> r, psi / np.pi
    (1.0, 0.5)
    """
    _check_circle(measure)
    x, y = (float(part) for part in measure.mean())
    return float(np.hypot(x, y)), float(np.arctan2(y, x) % (2.0 * np.pi))


def interaction_energy(measure: AnyMeasure, dynamics: CircleInteraction) -> float:
    """F = K/2 ∬ H(θ - φ) dmu dmu, H' = -h odd, which h's flow climbs; (7.3) is h = sin.

    F = K/2 Σ_k (b_k/k) |m_k|² with m_k = ∫ e^{-ikθ} dmu: H is without its mean.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
        On the circle.
    dynamics : CircleInteraction
        With sines alone.

    Raises
    ------
    ValueError
        If the dynamics has cosines, or is of another kind, or the measure's dim is not 2.

    Examples
    --------
    >>> from meanfield.dynamics import Kuramoto
    >>> from meanfield.measures import Particles
    >>> interaction_energy(Particles([[0.0, 1.0]]), Kuramoto(3.0))
    1.5
    """
    if not isinstance(dynamics, CircleInteraction) or not dynamics.is_odd:
        raise ValueError(
            f"dynamics must be a CircleInteraction of sines alone, got {shown(dynamics)}"
        )
    _check_circle(measure)
    moments = measure.trigonometric_moments(dynamics.kmax)
    return 0.5 * float(dynamics.potential @ (moments.real**2 + moments.imag**2))


def _check_circle(measure: AnyMeasure) -> None:
    check_measure("measure", measure)
    if measure.dim != 2:
        raise ValueError(f"measure must have dim = 2, that of the circle, got {shown(measure)}")
