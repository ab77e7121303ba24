"""What the scripts, benchmarks and tests take from inside the package, in this one place."""

from __future__ import annotations

from meanfield.cli import commands
from meanfield.cli.case import case_from_text, default_case_text, read_case
from meanfield.cli.runs import Refusal, refusals
from meanfield.dynamics import adapt
from meanfield.equations.batch import batch_tendency
from meanfield.equations.density import GridTendency
from meanfield.equations.line import KernelOnLine
from meanfield.equations.tendency import tendency
from meanfield.equations.tokens import OutputAtTokens
from meanfield.evolution import checkpoint as checkpoints
from meanfield.evolution import evolve_batch
from meanfield.evolution.density_system import NoisyDensitySystem
from meanfield.evolution.netcdf import Contents, seal
from meanfield.evolution.restart import restart
from meanfield.evolution.settings import Settings
from meanfield.evolution.solution import version_of
from meanfield.functionals.transport.sphere import sphere_distance
from meanfield.kernels.direct import float32_error, log_moment
from meanfield.kernels.kernel import Exponential
from meanfield.kernels.line import NODES, Line, LineSums, line
from meanfield.kernels.multipliers import (
    bandwidth,
    eigenvalues,
    log_eigenvalues,
    relative_eigenvalues,
)
from meanfield.kernels.token_sums import fewest_pairs, moment_sums
from meanfield.measures import AnyMeasure, LineFlowMap
from meanfield.measures.density import spectral_tail
from meanfield.plot.frames import BLUE, GREY, NORMAL, ORANGE, SMALL, new_figure
from meanfield.spaces import Library
from meanfield.spaces.gegenbauer import gauss_gegenbauer, gegenbauer, multiplicities
from meanfield.spaces.geometry import circle_points, geodesic_distance, project, sphere_points
from meanfield.studies.free_tokens import evolve_free

__all__ = [
    "AnyMeasure",
    "GridTendency",
    "BLUE",
    "Contents",
    "Exponential",
    "GREY",
    "Library",
    "KernelOnLine",
    "LineFlowMap",
    "Line",
    "LineSums",
    "line",
    "NODES",
    "NORMAL",
    "NoisyDensitySystem",
    "ORANGE",
    "Refusal",
    "Settings",
    "SMALL",
    "OutputAtTokens",
    "adapt",
    "bandwidth",
    "batch_tendency",
    "case_from_text",
    "checkpoints",
    "circle_points",
    "commands",
    "default_case_text",
    "eigenvalues",
    "evolve_batch",
    "evolve_free",
    "fewest_pairs",
    "geodesic_distance",
    "float32_error",
    "gauss_gegenbauer",
    "gegenbauer",
    "log_eigenvalues",
    "log_moment",
    "moment_sums",
    "multiplicities",
    "new_figure",
    "read_case",
    "project",
    "relative_eigenvalues",
    "seal",
    "spectral_tail",
    "sphere_distance",
    "sphere_points",
    "refusals",
    "restart",
    "tendency",
    "version_of",
]
