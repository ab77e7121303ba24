"""The velocity fields of self-attention: what moves a measure, whatever stores it."""

from meanfield.dynamics.forms import Form, balanced_form
from meanfield.dynamics.heads import Attention, Head
from meanfield.dynamics.isotropic import SA, USA, Dynamics, Measure
from meanfield.dynamics.layers import FeedForward, Layers
from meanfield.dynamics.records import AnyDynamics, Field, from_record, to_record

__all__ = [
    "SA",
    "USA",
    "Attention",
    "Head",
    "Form",
    "balanced_form",
    "FeedForward",
    "Layers",
    "Dynamics",
    "Field",
    "AnyDynamics",
    "Measure",
    "from_record",
    "to_record",
]
