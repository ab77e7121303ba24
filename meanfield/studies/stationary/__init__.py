"""Stationary states under noise: their equation, branches by continuation, stability, tables."""

from meanfield.studies.stationary.one import stationary_density
from meanfield.studies.stationary.states import stationary_states

__all__ = ["stationary_density", "stationary_states"]
