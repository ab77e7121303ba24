"""All dynamics of the package, and unions of them for type hints."""

from __future__ import annotations

from meanfield.dynamics.doubly_stochastic import DoublyStochastic
from meanfield.dynamics.heads import Attention
from meanfield.dynamics.interactions import CircleInteraction
from meanfield.dynamics.isotropic import SA, USA, Isotropic
from meanfield.dynamics.layers import FeedForward, Layers
from meanfield.dynamics.own import OwnDynamics

MeanField = Isotropic | CircleInteraction
Field = MeanField | Attention | FeedForward | OwnDynamics
AnyDynamics = Field | Layers
# attention without matrices, which commutes with rotations
ISOTROPIC = (SA, USA, DoublyStochastic)
# all without matrices, which move every kind of measure
MEAN_FIELD = (*ISOTROPIC, CircleInteraction)
# all of the package
KNOWN = (*MEAN_FIELD, Attention, FeedForward, Layers)
