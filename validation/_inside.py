"""What the scripts, benchmarks and tests take from inside the package, in this one place."""

from __future__ import annotations

from meanfield.case import case_from_text, default_case_text, read_case
from meanfield.cli import commands
from meanfield.cli.text import version
from meanfield.exponential_sums import log_moment
from meanfield.free_tokens import evolve_free
from meanfield.geometry import circle_points, geodesic_distance, sphere_points
from meanfield.harmonics import (
    bandwidth,
    eigenvalues,
    gauss_gegenbauer,
    gegenbauer,
    log_eigenvalues,
    multiplicities,
    relative_eigenvalues,
)
from meanfield.integrate import checkpoints, evolve_batch
from meanfield.integrate.noisy_density import NoisyDensityRun
from meanfield.integrate.options import Options
from meanfield.integrate.resuming import taken_up
from meanfield.line_potential import NODES, CircleLine, LineSums
from meanfield.measures import AnyMeasure, LineFlowMap
from meanfield.measures.density.spectral import spectral_tail
from meanfield.plot.frames import BLUE, GREY, NORMAL, ORANGE, SMALL, new_figure
from meanfield.solution import loading
from meanfield.solution.seals import seal
from meanfield.spaces import Library
from meanfield.tendency import AttentionTendency, LineField, TokenOutput, batch_tendency, tendency
from meanfield.token_sums import CircleSums, SphereSums, fewest_pairs
from meanfield.transport.sphere import sphere_distance

__all__ = [
    "AnyMeasure",
    "AttentionTendency",
    "BLUE",
    "CircleLine",
    "CircleSums",
    "GREY",
    "Library",
    "LineField",
    "LineFlowMap",
    "LineSums",
    "NODES",
    "NORMAL",
    "NoisyDensityRun",
    "ORANGE",
    "Options",
    "SMALL",
    "SphereSums",
    "TokenOutput",
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
    "gauss_gegenbauer",
    "gegenbauer",
    "log_eigenvalues",
    "loading",
    "log_moment",
    "multiplicities",
    "new_figure",
    "read_case",
    "relative_eigenvalues",
    "seal",
    "spectral_tail",
    "sphere_distance",
    "sphere_points",
    "taken_up",
    "tendency",
    "version",
]
