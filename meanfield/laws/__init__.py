"""Probability laws on S^{d-1}, the data that a user starts from; densities are with respect to σ."""

from meanfield.laws.basic import Law, Mixture, Uniform, VonMisesFisher
from meanfield.laws.cloud import PointCloud
from meanfield.laws.series import FourierSeries, ZonalSeries

__all__ = [
    "FourierSeries",
    "Law",
    "Mixture",
    "PointCloud",
    "Uniform",
    "VonMisesFisher",
    "ZonalSeries",
]
