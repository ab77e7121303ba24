"""The velocity fields of self-attention: what moves a measure, whatever stores it."""

from __future__ import annotations

from meanfield.dynamics.attention import Attention, Form, Head, balanced_form
from meanfield.dynamics.doubly_stochastic import DoublyStochastic
from meanfield.dynamics.facts import Dynamics, Energy, Facts, ForgottenDynamics, OwnDynamics, adapt
from meanfield.dynamics.interactions import CircleInteraction, Kuramoto
from meanfield.dynamics.isotropic import SA, USA, Isotropic, Measure, Moments
from meanfield.dynamics.layers import FeedForward, Layer, Layers
from meanfield.dynamics.records import KNOWN, AnyDynamics, Field, MeanField

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
