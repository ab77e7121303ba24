"""What `meanfield.trained` offers, and where it is: types for checkers, homes for `__init__`."""

from .matrices import LayerMatrices, Norm, Rotary
from .states import LayerStates

__all__ = ["LayerMatrices", "LayerStates", "Norm", "Rotary"]
