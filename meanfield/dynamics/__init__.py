"""The velocity fields of self-attention: what moves a measure of any kind.

docs/decisions/dynamics.md says why its files are as they are.
"""

from __future__ import annotations

from meanfield.dynamics.alignment import Alignment
from meanfield.dynamics.attention import Attention, Head
from meanfield.dynamics.causal import Causal
from meanfield.dynamics.doubly_stochastic import DoublyStochastic
from meanfield.dynamics.facts import Sum
from meanfield.dynamics.interaction import Interaction
from meanfield.dynamics.isotropic import SA, USA, Isotropic
from meanfield.dynamics.kuramoto import CircleInteraction, Kuramoto
from meanfield.dynamics.layers import FeedForward, LayerMap, Layers, RandomLayers
from meanfield.dynamics.own import OwnDynamics, adapt, adapt_any

MeanField = Isotropic | Interaction | CircleInteraction
Field = MeanField | Attention | FeedForward | Sum | OwnDynamics
AnyDynamics = Field | Layers | RandomLayers | LayerMap
# all dynamics of the package, in the order of the tables of a case
KNOWN = (
    *(SA, USA, DoublyStochastic, Interaction, Attention, FeedForward, Alignment),
    *(CircleInteraction, Kuramoto, Sum, Layers, RandomLayers, LayerMap),
)
