"""Figures of measures, runs and studies; the only door to matplotlib.

Figures are returned, never shown.
"""

from __future__ import annotations

from meanfield.plot.cards import card as card
from meanfield.plot.correlations import two_token_correlation
from meanfield.plot.curves import curve as curve
from meanfield.plot.curves import dissipation, distances, energy, nodes, resolution
from meanfield.plot.forms import form_extremisers
from meanfield.plot.free import limits_without_normalisation
from meanfield.plot.histograms import inner_products
from meanfield.plot.limits import mean_field_limit
from meanfield.plot.movies import animation, movie
from meanfield.plot.panels import density
from meanfield.plot.phases import phase_diagram
from meanfield.plot.plateaus import metastability
from meanfield.plot.proposition import proposition_3_4
from meanfield.plot.runs import save, solution
from meanfield.plot.stationary import stationary_states

__all__ = [
    "animation",
    "density",
    "dissipation",
    "distances",
    "energy",
    "form_extremisers",
    "inner_products",
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
    "two_token_correlation",
]
