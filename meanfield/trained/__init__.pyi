"""What `meanfield.trained` offers, and where it is: types for checkers, homes for `__init__`."""

from .energy import Attribution, attribute_energy, energy_gradient, energy_shares, least_shares
from .matrices import LayerMatrices, Norm, Rotary
from .states import LayerStates
from .synthetic import SyntheticLayers, synthetic_layers
from .temperature import EffectiveBeta, SymmetricForm, effective_beta, symmetric_form

__all__ = [
    "Attribution",
    "EffectiveBeta",
    "LayerMatrices",
    "LayerStates",
    "Norm",
    "Rotary",
    "SymmetricForm",
    "SyntheticLayers",
    "attribute_energy",
    "effective_beta",
    "energy_gradient",
    "energy_shares",
    "least_shares",
    "symmetric_form",
    "synthetic_layers",
]
