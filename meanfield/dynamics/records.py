"""All dynamics of the package, and unions of them for type hints."""

from __future__ import annotations

from meanfield.dynamics.attention import Attention
from meanfield.dynamics.doubly_stochastic import DoublyStochastic
from meanfield.dynamics.facts import OwnDynamics
from meanfield.dynamics.interactions import CircleInteraction
from meanfield.dynamics.isotropic import SA, USA, Isotropic
from meanfield.dynamics.layers import FeedForward, Layers

MeanField = Isotropic | CircleInteraction
Field = MeanField | Attention | FeedForward | OwnDynamics
AnyDynamics = Field | Layers
# all of the package
KNOWN = (SA, USA, DoublyStochastic, CircleInteraction, Attention, FeedForward, Layers)
