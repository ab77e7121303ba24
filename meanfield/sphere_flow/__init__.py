"""Flow maps on S^2: the measure as nodes moved by its own velocity, from a law to clusters."""

from meanfield.sphere_flow.absorbing import gathered, stretch_error
from meanfield.sphere_flow.characteristics import follow, transported
from meanfield.sphere_flow.compression import compressed
from meanfield.sphere_flow.history import Absorption, History
from meanfield.sphere_flow.run import SphereFlow
from meanfield.sphere_flow.saved import restore, snapshot

__all__ = [
    "Absorption",
    "History",
    "SphereFlow",
    "compressed",
    "follow",
    "gathered",
    "restore",
    "snapshot",
    "stretch_error",
    "transported",
]
