"""Studies: one question each, answered as a dataset by runs that may share an executor."""

from meanfield.studies.correlations import two_token_correlation
from meanfield.studies.extremisers import energy_extremisers, energy_maximiser, energy_minimiser
from meanfield.studies.free_tokens import limits_without_normalisation
from meanfield.studies.limit import mean_field_limit
from meanfield.studies.phases import phase_diagram
from meanfield.studies.plateaus import metastability
from meanfield.studies.proposition import proposition_3_4
from meanfield.studies.stationary import stationary_density, stationary_states

__all__ = [
    "energy_extremisers",
    "energy_maximiser",
    "energy_minimiser",
    "limits_without_normalisation",
    "mean_field_limit",
    "metastability",
    "phase_diagram",
    "proposition_3_4",
    "stationary_density",
    "stationary_states",
    "two_token_correlation",
]
