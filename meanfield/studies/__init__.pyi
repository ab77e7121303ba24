"""What `meanfield.studies` offers, and where it is: types for checkers, homes for `__init__`."""

from .correlations import two_token_correlation
from .extremisers import energy_extremisers, energy_maximiser, energy_minimiser
from .free_tokens import limits_without_normalisation
from .limit import mean_field_limit
from .phases import phase_diagram
from .plateaus import metastability
from .positions import causal_limit
from .proposition import proposition_3_4
from .stationary import stationary_density, stationary_states

__all__ = [
    "causal_limit",
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
