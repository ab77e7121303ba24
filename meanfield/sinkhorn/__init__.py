"""Symmetric Sinkhorn scaling: u with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1, for masses at nodes."""

from meanfield.sinkhorn.balanced import Balanced
from meanfield.sinkhorn.grids import GridSums, LatitudeSums, grid_sums, working_grid
from meanfield.sinkhorn.iteration import scaling
from meanfield.sinkhorn.sums import (
    DenseSums,
    LineNodes,
    NodeSums,
    SphereNodes,
    latitude_sums,
    point_sums,
)

__all__ = [
    "Balanced",
    "DenseSums",
    "GridSums",
    "LatitudeSums",
    "LineNodes",
    "NodeSums",
    "SphereNodes",
    "grid_sums",
    "latitude_sums",
    "point_sums",
    "scaling",
    "working_grid",
]
