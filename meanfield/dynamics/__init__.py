"""The velocity fields of self-attention: what moves a measure, whatever stores it."""

from __future__ import annotations

from meanfield.dynamics.attention import Attention, Head
from meanfield.dynamics.doubly_stochastic import DoublyStochastic
from meanfield.dynamics.facts import OwnDynamics, adapt
from meanfield.dynamics.interactions import CircleInteraction, Kuramoto
from meanfield.dynamics.isotropic import SA, USA, Isotropic
from meanfield.dynamics.layers import FeedForward, Layers
from meanfield.dynamics.records import KNOWN, AnyDynamics

__all__ = [
    "KNOWN",
    "SA",
    "USA",
    "AnyDynamics",
    "Attention",
    "CircleInteraction",
    "DoublyStochastic",
    "FeedForward",
    "Head",
    "Isotropic",
    "Kuramoto",
    "Layers",
    "OwnDynamics",
    "adapt",
]
