"""Numbers of one instant: energies, dissipation and speed of a measure, distances of two."""

from __future__ import annotations

from meanfield.functionals.distances import mmd, sobolev
from meanfield.functionals.energies import (
    balance,
    dissipation,
    energy,
    entropy,
    free_dissipation,
    free_energy,
    interaction_energy,
    order_parameter,
    sinkhorn_energy,
    sinkhorn_scaling,
)
from meanfield.functionals.speed import metric_speed, slope

__all__ = [
    "balance",
    "dissipation",
    "energy",
    "entropy",
    "free_dissipation",
    "free_energy",
    "interaction_energy",
    "metric_speed",
    "mmd",
    "order_parameter",
    "sinkhorn_energy",
    "sinkhorn_scaling",
    "slope",
    "sobolev",
]
