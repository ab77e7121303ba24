"""meanfield: spectral solvers for the mean-field limit of self-attention on circle and spheres.

Source of the model and of all equation numbers: Geshkovski, Letrouit, Polyanskiy, Rigollet,
"A mathematical perspective on Transformers", arXiv 2312.10794.
"""

import importlib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import TYPE_CHECKING, Any

from meanfield import exceptions, theory
from meanfield._shown import Shown
from meanfield.clustering import Clusters, clusters
from meanfield.dynamics import (
    SA,
    USA,
    Attention,
    CircleInteraction,
    DoublyStochastic,
    FeedForward,
    Head,
    Kuramoto,
    Layers,
)
from meanfield.free_tokens import FreeTokens, evolve_free
from meanfield.functionals import (
    dissipation,
    energy,
    interaction_energy,
    metric_speed,
    mmd,
    order_parameter,
    sinkhorn_energy,
    sinkhorn_scaling,
    slope,
    sobolev,
)
from meanfield.integrate import evolve, resume
from meanfield.laws import (
    FourierSeries,
    Mixture,
    PointCloud,
    Uniform,
    VonMisesFisher,
    ZonalSeries,
    gaussian_frequencies,
    lorentzian_frequencies,
)
from meanfield.measures import Density, FlowMap, OscillatorDensity, Oscillators, Particles
from meanfield.solution import Ending, Solution, load
from meanfield.spaces import Circle, Sphere, Zonal
from meanfield.transport import (
    Bracket,
    DistanceTo,
    SlicedDistance,
    sliced_wasserstein,
    transport_map,
    transport_plan,
    wasserstein,
)

if TYPE_CHECKING:
    from meanfield import plot, studies
    from meanfield.sweeps import sweep

try:
    __version__ = version("meanfield-attention")
except PackageNotFoundError:
    __version__ = "unknown"

__all__ = [
    "Attention",
    "Bracket",
    "Circle",
    "CircleInteraction",
    "Clusters",
    "Density",
    "DistanceTo",
    "DoublyStochastic",
    "Ending",
    "FeedForward",
    "FlowMap",
    "FourierSeries",
    "FreeTokens",
    "Head",
    "Kuramoto",
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
    "dissipation",
    "energy",
    "evolve",
    "resume",
    "evolve_free",
    "exceptions",
    "gaussian_frequencies",
    "interaction_energy",
    "load",
    "lorentzian_frequencies",
    "metric_speed",
    "mmd",
    "order_parameter",
    "plot",
    "sinkhorn_energy",
    "sinkhorn_scaling",
    "sliced_wasserstein",
    "slope",
    "sobolev",
    "studies",
    "sweep",
    "theory",
    "transport_map",
    "transport_plan",
    "wasserstein",
]


def _load_plot() -> ModuleType:
    return importlib.import_module("meanfield.plot")


Shown._plot = _load_plot


def __getattr__(name: str) -> ModuleType | Callable[..., Any]:
    """Import `plot`, and with it matplotlib, `studies`, or `sweep`, when asked for."""
    if name == "plot":
        return _load_plot()
    if name == "studies":
        return importlib.import_module("meanfield.studies")
    if name == "sweep":
        sweep: Callable[..., Any] = importlib.import_module("meanfield.sweeps").sweep
        return sweep
    raise AttributeError(f"module 'meanfield' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, without the rooms that importing them has opened."""
    return sorted([*__all__, "__version__"])
