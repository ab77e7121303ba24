"""Laws on the sphere: the data that a user starts from, as densities to evaluate and to sample.

All densities are with respect to σ, the uniform probability measure.
"""

from meanfield.laws.directions import uniform_frame, uniform_in_span
from meanfield.laws.frequencies import gaussian_frequencies, lorentzian_frequencies
from meanfield.laws.mixture import Mixture
from meanfield.laws.point_cloud import PointCloud
from meanfield.laws.protocol import Law
from meanfield.laws.quantised import quantised_points
from meanfield.laws.series import FourierSeries, ZonalSeries
from meanfield.laws.symmetry import symmetry_axis
from meanfield.laws.uniform import Uniform
from meanfield.laws.vonmises_fisher import VonMisesFisher

# those that a case and a file can tell
LAWS = (Uniform, VonMisesFisher, FourierSeries, ZonalSeries, PointCloud, Mixture)

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
