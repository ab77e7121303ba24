"""meanfield: spectral solvers for the mean-field limit of self-attention on circle and spheres.

Source of the model and of all equation numbers: Geshkovski, Letrouit, Polyanskiy, Rigollet,
"A mathematical perspective on Transformers", arXiv 2312.10794.
"""

from __future__ import annotations

import importlib
import logging
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import TYPE_CHECKING, Any

from meanfield import exceptions, theory, typing
from meanfield._shown import Shown
from meanfield.dynamics.attention import Attention, Head
from meanfield.dynamics.doubly_stochastic import DoublyStochastic
from meanfield.dynamics.interaction import Interaction
from meanfield.dynamics.isotropic import SA, USA
from meanfield.dynamics.kuramoto import CircleInteraction, Kuramoto
from meanfield.dynamics.layers import FeedForward, LayerMap, Layers
from meanfield.evolution import Solution, evolve, load, resume
from meanfield.functionals.distances import mmd, sobolev
from meanfield.functionals.energies import (
    dissipation,
    energy,
    energy_share,
    order_parameter,
    sinkhorn_scaling,
)
from meanfield.functionals.speed import metric_speed, slope
from meanfield.functionals.transport import Bracket
from meanfield.functionals.transport.distance import (
    DistanceTo,
    SlicedDistance,
    sliced_wasserstein,
    transport_map,
    transport_plan,
    wasserstein,
)
from meanfield.laws import FourierSeries, Mixture, PointCloud, Uniform, VonMisesFisher, ZonalSeries
from meanfield.laws.quantisation import gaussian_frequencies, lorentzian_frequencies
from meanfield.measures import Density, FlowMap, OscillatorDensity, Oscillators, Particles
from meanfield.measures.clusters import Clusters, clusters
from meanfield.spaces import Circle, Sphere, Zonal

if TYPE_CHECKING:
    from meanfield import plot, studies
    from meanfield.cli.case import Case
    from meanfield.cli.sweeps import sweep
    from meanfield.studies.comparison import compare
    from meanfield.studies.free_tokens import FreeTokens, evolve_free

__all__ = [
    "Attention",
    "Bracket",
    "Case",
    "Circle",
    "CircleInteraction",
    "Clusters",
    "Density",
    "DistanceTo",
    "DoublyStochastic",
    "FeedForward",
    "FlowMap",
    "FourierSeries",
    "FreeTokens",
    "Head",
    "Interaction",
    "Kuramoto",
    "LayerMap",
    "Layers",
    "Mixture",
    "OscillatorDensity",
    "Oscillators",
    "Particles",
    "PointCloud",
    "SA",
    "SlicedDistance",
    "Solution",
    "Sphere",
    "USA",
    "Uniform",
    "VonMisesFisher",
    "Zonal",
    "ZonalSeries",
    "clusters",
    "compare",
    "dissipation",
    "energy",
    "energy_share",
    "evolve",
    "resume",
    "evolve_free",
    "exceptions",
    "gaussian_frequencies",
    "load",
    "lorentzian_frequencies",
    "metric_speed",
    "mmd",
    "order_parameter",
    "plot",
    "sinkhorn_scaling",
    "sliced_wasserstein",
    "slope",
    "sobolev",
    "studies",
    "sweep",
    "theory",
    "transport_map",
    "transport_plan",
    "typing",
    "wasserstein",
]


try:
    __version__ = version("meanfield-attention")
except PackageNotFoundError:
    __version__ = "unknown"


# records are for programs that ask for them: what a user must see is a warning
logging.getLogger(__name__).addHandler(logging.NullHandler())

# what is public is at home here: pickles and tracebacks survive a move
for _name in __all__:
    if hasattr(globals().get(_name), "__module__"):
        globals()[_name].__module__ = __name__


def _load_plot() -> ModuleType:
    return importlib.import_module("meanfield.plot")


Shown._plot = _load_plot


def _at_home(name: str, module: ModuleType) -> Any:
    """What a module has that no run needs, from now on at home here."""
    found = getattr(module, name)
    found.__module__ = __name__
    return globals().setdefault(name, found)


def __getattr__(name: str) -> Any:
    """Import what no run needs, and its libraries with it, when it is asked for."""
    if name == "plot":
        return _load_plot()
    if name == "studies":
        return importlib.import_module("meanfield.studies")
    if name == "compare":
        return _at_home(name, importlib.import_module("meanfield.studies.comparison"))
    if name in ("FreeTokens", "evolve_free"):
        return _at_home(name, importlib.import_module("meanfield.studies.free_tokens"))
    if name == "Case":
        return _at_home(name, importlib.import_module("meanfield.cli.case"))
    if name == "sweep":
        return _at_home(name, importlib.import_module("meanfield.cli.sweeps"))
    raise AttributeError(f"module 'meanfield' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, without the rooms that importing them has opened."""
    return sorted([*__all__, "__version__"])
