"""The velocity fields of self-attention: what moves a measure, whatever stores it."""

from meanfield.dynamics.doubly_stochastic import DoublyStochastic
from meanfield.dynamics.facts import Dynamics, Energy, Facts, adapt
from meanfield.dynamics.forms import Form, balanced_form
from meanfield.dynamics.heads import Attention, Head
from meanfield.dynamics.interactions import CircleInteraction, Kuramoto
from meanfield.dynamics.isotropic import SA, USA, Isotropic, Measure, Moments
from meanfield.dynamics.layers import FeedForward, Layer, Layers
from meanfield.dynamics.own import ForgottenDynamics, OwnDynamics
from meanfield.dynamics.records import (
    KNOWN,
    AnyDynamics,
    Field,
    MeanField,
)

__all__ = [
    "SA",
    "USA",
    "DoublyStochastic",
    "KNOWN",
    "Attention",
    "Head",
    "Form",
    "balanced_form",
    "CircleInteraction",
    "FeedForward",
    "ForgottenDynamics",
    "OwnDynamics",
    "Kuramoto",
    "Layer",
    "Layers",
    "Isotropic",
    "adapt",
    "Dynamics",
    "Energy",
    "Facts",
    "Field",
    "MeanField",
    "AnyDynamics",
    "Measure",
    "Moments",
]
