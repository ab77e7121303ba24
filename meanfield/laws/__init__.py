"""Laws on the sphere: the data that a user starts from, as densities to evaluate and to sample.

All densities are with respect to σ, the uniform probability measure.
"""

from __future__ import annotations

from meanfield.laws.law import Law, Uniform, symmetry_axis, uniform_frame, uniform_in_span
from meanfield.laws.mixture import Mixture
from meanfield.laws.point_cloud import PointCloud
from meanfield.laws.quantisation import (
    gaussian_frequencies,
    lorentzian_frequencies,
    quantised_points,
)
from meanfield.laws.series import FourierSeries, ZonalSeries
from meanfield.laws.von_mises_fisher import VonMisesFisher

__all__ = [
    "LAWS",
    "FourierSeries",
    "Law",
    "Mixture",
    "PointCloud",
    "Uniform",
    "VonMisesFisher",
    "ZonalSeries",
    "gaussian_frequencies",
    "lorentzian_frequencies",
    "quantised_points",
    "symmetry_axis",
    "uniform_frame",
    "uniform_in_span",
]


# those that a case and a file can tell
LAWS = (Uniform, VonMisesFisher, FourierSeries, ZonalSeries, PointCloud, Mixture)
