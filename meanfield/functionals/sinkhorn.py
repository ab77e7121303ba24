"""The scaling that makes attention doubly stochastic, and the energy that its flow raises."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import number
from meanfield.measures import AnyMeasure, Density, check_measure

Array = NDArray[np.float64]


def sinkhorn_scaling(measure: AnyMeasure, beta: float) -> Array:
    """log u at the measure's points, u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1, Remark 3.5.

    By Anderson's acceleration of the symmetric Sinkhorn iteration, some 20 sums over the measure
    at any β, until |log u(x) + log ∫ e^{β<x,y>} u(y) dmu(y)| is rounding at every point. Sums by
    transforms have errors of their own: then as small as these let it be, below 1e-7.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    beta : float
        β >= 0; at most 150 for latitudes (`Zonal` spaces, flow maps about an axis).

    Returns
    -------
    ndarray, shape (n,)
        At the grid of a density's space, else at ``measure.points``.

    Raises
    ------
    ValueError
        If β is out of range, or the measure can't resolve the kernel.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> sinkhorn_scaling(Particles([[1.0, 0.0]]), 2.0)
    array([-1.])
    """
    check_measure("measure", measure)
    balanced = measure.balanced(number("beta", beta, low=0))
    points = measure.space.points if isinstance(measure, Density) else measure.points
    if balanced.points is points:
        return balanced.log_u
    return -balanced.log_moment(beta * points)[0]


def sinkhorn_energy(measure: AnyMeasure, beta: float) -> float:
    """E_DS(mu) = -(1/β) ∫ log u dmu, whose gradient flow in W_2 `DoublyStochastic` is, Remark 3.5.

    Minus half the entropic transport cost of mu to itself, for the cost -<x,y> and temperature
    1/β. At β = 0 its limit |∫ x dmu|²/2. The error is about 1e-15/β at β > 3e-5, 1e-10 at most
    below.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    beta : float
        As in `sinkhorn_scaling`.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If β is out of range, or the measure can't resolve the kernel.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> sinkhorn_energy(Particles([[1.0, 0.0]]), 2.0)
    0.5
    """
    check_measure("measure", measure)
    beta = number("beta", beta, low=0)
    if beta == 0.0:
        return 0.5 * float(np.sum(measure.mean() ** 2))
    return measure.balanced(beta).energy(beta)
