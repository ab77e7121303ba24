"""The potential of a measure on a line of angles, from sources gathered into Chebyshev nodes."""

from meanfield.line_potential.cells import (
    LAGRANGE,
    NODES,
    CircleLine,
    DenseLine,
    Line,
    ZonalLine,
    line,
)
from meanfield.line_potential.sums import LineSums, chebyshev, interpolation

__all__ = [
    "LAGRANGE",
    "NODES",
    "CircleLine",
    "DenseLine",
    "Line",
    "LineSums",
    "ZonalLine",
    "chebyshev",
    "interpolation",
    "line",
]
