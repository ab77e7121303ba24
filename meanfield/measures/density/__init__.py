"""Densities: their series, and the values that they start from."""

from meanfield.measures.density.oscillators import OscillatorDensity
from meanfield.measures.density.spectral import Density, SeriesLaw, on_space
from meanfield.measures.density.tails import spectral_tail
from meanfield.measures.density.values import FIT_TOLERANCE

__all__ = [
    "FIT_TOLERANCE",
    "Density",
    "OscillatorDensity",
    "SeriesLaw",
    "on_space",
    "spectral_tail",
]
