"""A distance between clouds in many dimensions from their shadows on great circles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meanfield._checks import generator, integer, number, shown
from meanfield.functionals.transport.circle import circle_distance
from meanfield.functionals.transport.distance import LARGEST_P
from meanfield.functionals.transport.quantiles import Atoms
from meanfield.measures import check_pair
from meanfield.measures.particles import Particles
from meanfield.typing import Array


@dataclass(frozen=True)
class SlicedDistance:
    """A mean over random great circles; `float` takes the value.

    Attributes
    ----------
    value : float
    standard_error : float
        Of the value, from the scatter over the circles.
    """

    value: float
    standard_error: float

    def __float__(self) -> float:
        return self.value


def sliced_wasserstein(
    mu: Particles, nu: Particles, p: float = 2, *, planes: int = 256, rng: np.random.Generator
) -> SlicedDistance:
    """Spherical sliced Wasserstein distance (Bonet et al., ICLR 2023), which is not W_p.

    (mean of W_p^p)^{1/p} between the shadows x -> Ux/|Ux| of both clouds on the great circles of
    uniformly random planes U, each exact. It vanishes for equal measures only, costs
    O((n + m) log(n + m)) a plane in any dimension, and is there where W_p itself is out of reach.

    Parameters
    ----------
    mu, nu : Particles
        With dim >= 3.
    p : float, optional
        1 <= p <= 20.
    planes : int, optional
        Number of planes, >= 2.
    rng : numpy Generator

    Returns
    -------
    SlicedDistance

    Raises
    ------
    ValueError
        If p or planes is out of range, one is no Particles, or the dimensions differ or are 2.

    Examples
    --------
    >>> mu = Particles([[1.0, 0.0, 0.0]])
    >>> float(sliced_wasserstein(mu, mu, rng=np.random.default_rng(0)))
    0.0
    """
    p = number("p", p, low=1, high=LARGEST_P)
    planes, rng = integer("planes", planes, low=2), generator("rng", rng)
    check_pair(mu, nu)
    for name, measure in ("mu", mu), ("nu", nu):
        if not isinstance(measure, Particles) or measure.dim < 3:
            raise ValueError(f"{name} must be Particles with dim >= 3, got {shown(measure)}")
    powers = np.empty(planes)
    for k in range(planes):
        plane = np.linalg.qr(rng.standard_normal((mu.dim, 2)))[0]
        # in units of the largest distance, so that no p overflows
        powers[k] = (circle_distance(_shadow(mu, plane), _shadow(nu, plane), p) / np.pi) ** p
    mean = float(powers.mean())
    error = float(powers.std(ddof=1) / np.sqrt(planes))
    value = float(np.pi * mean ** (1.0 / p))
    return SlicedDistance(value, value * error / (p * mean) if mean > 0.0 else 0.0)


def _shadow(measure: Particles, plane: Array) -> Atoms:
    return Atoms.on_circle(measure.points @ plane, measure.weights)
