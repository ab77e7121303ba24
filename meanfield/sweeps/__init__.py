"""Sweeps: one case over a grid of values, each cell a run of its own."""

from meanfield.sweeps.assembly import SWEEP, load_sweep
from meanfield.sweeps.grids import axis
from meanfield.sweeps.runs import Outcome
from meanfield.sweeps.sweeping import cells_beside, sweep

__all__ = ["SWEEP", "Outcome", "axis", "cells_beside", "load_sweep", "sweep"]
