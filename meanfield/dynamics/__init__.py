"""The velocity fields of self-attention: what moves a measure, whatever stores it."""

from meanfield.dynamics.heads import Attention, Head
from meanfield.dynamics.interactions import CircleInteraction, Kuramoto
from meanfield.dynamics.isotropic import SA, USA, Dynamics, Measure
from meanfield.dynamics.layers import FeedForward, Layers
from meanfield.dynamics.records import AnyDynamics, Field, MeanField, from_record, to_record

__all__ = [
    "SA",
    "USA",
    "Attention",
    "Head",
    "CircleInteraction",
    "FeedForward",
    "Kuramoto",
    "Layers",
    "Dynamics",
    "Field",
    "MeanField",
    "AnyDynamics",
    "Measure",
    "from_record",
    "to_record",
]
