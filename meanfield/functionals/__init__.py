"""Numbers of one instant: energies, dissipation and speed of a measure, distances of two."""

from meanfield.functionals.distances import mmd, sobolev
from meanfield.functionals.energies import dissipation, energy
from meanfield.functionals.forms import balance
from meanfield.functionals.free_energies import entropy, free_dissipation, free_energy
from meanfield.functionals.interactions import interaction_energy, order_parameter
from meanfield.functionals.sinkhorn import sinkhorn_energy, sinkhorn_scaling
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
