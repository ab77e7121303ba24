"""What `meanfield.trained` offers, and where it is: types for checkers, homes for `__init__`."""

from .matrices import LayerMatrices, Norm, Rotary
from .states import LayerStates
from .temperature import EffectiveBeta, SymmetricForm, effective_beta, symmetric_form

__all__ = [
    "EffectiveBeta",
    "LayerMatrices",
    "LayerStates",
    "Norm",
    "Rotary",
    "SymmetricForm",
    "effective_beta",
    "symmetric_form",
]
