"""Figures of measures, runs and studies; the only door to matplotlib.

Figures are returned, never shown.

docs/decisions/plot.md says why its files are as they are.
"""

# this module looks at the present folder before matplotlib is imported
import meanfield.plot._door
from meanfield.plot.curves import dissipation, distances, energy, nodes, resolution
from meanfield.plot.datasets import comparison, sweep
from meanfield.plot.movies import animation, movie
from meanfield.plot.panels import density
from meanfield.plot.runs import save, solution
from meanfield.plot.studies import (
    causal_limit,
    energy_extremisers,
    inner_products,
    limits_without_normalisation,
    mean_field_limit,
    metastability,
    phase_diagram,
    proposition_3_4,
    stationary_states,
    two_token_correlation,
)
from meanfield.plot.trained import layers

__all__ = [
    "animation",
    "causal_limit",
    "comparison",
    "density",
    "dissipation",
    "distances",
    "energy",
    "energy_extremisers",
    "inner_products",
    "layers",
    "limits_without_normalisation",
    "mean_field_limit",
    "metastability",
    "movie",
    "nodes",
    "phase_diagram",
    "proposition_3_4",
    "resolution",
    "save",
    "solution",
    "stationary_states",
    "sweep",
    "two_token_correlation",
]
