"""The potential of a measure on a line of angles, from sources gathered into Chebyshev nodes."""

from meanfield.line_potential.cells import (
    LAGRANGE,
    NODES,
    CircleLine,
    DenseLine,
    Line,
    ZonalLine,
    line,
    node_count,
)
from meanfield.line_potential.sums import Interpolation, LineSums, chebyshev

__all__ = [
    "LAGRANGE",
    "NODES",
    "CircleLine",
    "DenseLine",
    "Interpolation",
    "Line",
    "LineSums",
    "ZonalLine",
    "chebyshev",
    "line",
    "node_count",
]
