"""What `meanfield` offers, and where it is: types for checkers, homes for `__init__`."""

from . import exceptions, plot, studies, theory, trained, typing
from .cli.case import Case
from .cli.sweeps import sweep
from .dynamics.alignment import Alignment
from .dynamics.attention import Attention, Head
from .dynamics.causal import Causal
from .dynamics.doubly_stochastic import DoublyStochastic
from .dynamics.facts import Sum
from .dynamics.interaction import Interaction
from .dynamics.isotropic import SA, USA
from .dynamics.kuramoto import CircleInteraction, Kuramoto
from .dynamics.layers import FeedForward, LayerMap, Layers
from .dynamics.schedule import Schedule
from .evolution import Solution, evolve, load, resume
from .functionals.distances import mmd, sobolev
from .functionals.energies import (
    dissipation,
    energy,
    energy_share,
    mean_cosine,
    order_parameter,
    sinkhorn_scaling,
)
from .functionals.speed import metric_speed, rms_velocity, slope
from .functionals.transport import Bracket
from .functionals.transport.distance import (
    DistanceTo,
    SlicedDistance,
    sliced_wasserstein,
    transport_map,
    transport_plan,
    wasserstein,
)
from .laws import (
    FourierSeries,
    Mixture,
    PointCloud,
    Tabulated,
    Uniform,
    VonMisesFisher,
    ZonalSeries,
)
from .laws.quantisation import gaussian_frequencies, lorentzian_frequencies
from .measures import Density, FlowMap, OscillatorDensity, Oscillators, Particles
from .measures.clusters import Clusters, clusters
from .spaces import Circle, Sphere, Zonal
from .studies.comparison import compare
from .studies.free_tokens import FreeTokens, evolve_free
from .trained.states import LayerStates

__version__: str

__all__ = [
    "Alignment",
    "Attention",
    "Bracket",
    "Case",
    "Causal",
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
    "LayerStates",
    "Layers",
    "Mixture",
    "OscillatorDensity",
    "Oscillators",
    "Particles",
    "PointCloud",
    "SA",
    "Schedule",
    "SlicedDistance",
    "Solution",
    "Sphere",
    "Sum",
    "Tabulated",
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
    "mean_cosine",
    "lorentzian_frequencies",
    "metric_speed",
    "mmd",
    "order_parameter",
    "plot",
    "rms_velocity",
    "sinkhorn_scaling",
    "sliced_wasserstein",
    "slope",
    "sobolev",
    "studies",
    "sweep",
    "theory",
    "trained",
    "transport_map",
    "transport_plan",
    "typing",
    "wasserstein",
]
