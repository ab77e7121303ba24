"""What `meanfield.trained` offers, and where it is: types for checkers, homes for `__init__`."""

from .clusters import Couplings, Modes, couplings, effective_rank, inner_products, modes
from .energy import Attribution, attribute_energy, energy_gradient, energy_shares, least_shares
from .matrices import LayerMatrices, Norm, Rotary
from .measure import Claim, claims, measure_layers
from .nulls import drift_to_mean, other_layers, shuffle_coordinates
from .sinks import Sinks, find_sinks
from .states import LayerStates
from .synthetic import SyntheticLayers, synthetic_layers
from .temperature import EffectiveBeta, SymmetricForm, effective_beta, symmetric_form

__all__ = [
    "Attribution",
    "Claim",
    "Couplings",
    "EffectiveBeta",
    "LayerMatrices",
    "LayerStates",
    "Modes",
    "Norm",
    "Rotary",
    "Sinks",
    "SymmetricForm",
    "SyntheticLayers",
    "attribute_energy",
    "claims",
    "couplings",
    "drift_to_mean",
    "effective_beta",
    "effective_rank",
    "energy_gradient",
    "energy_shares",
    "find_sinks",
    "inner_products",
    "least_shares",
    "measure_layers",
    "modes",
    "other_layers",
    "shuffle_coordinates",
    "symmetric_form",
    "synthetic_layers",
]
