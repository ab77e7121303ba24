"""Laws on the sphere: the data that a user starts from, as densities to evaluate and to sample.

All densities are with respect to σ, the uniform probability measure.

docs/decisions/laws.md says why its files are as they are.
"""

from meanfield.laws.law import Law, Mixture, Uniform
from meanfield.laws.point_cloud import PointCloud
from meanfield.laws.series import FourierSeries, ZonalSeries
from meanfield.laws.tabulated import Tabulated
from meanfield.laws.von_mises_fisher import VonMisesFisher

# cases and files know these laws
LAWS = (Uniform, VonMisesFisher, FourierSeries, ZonalSeries, PointCloud, Tabulated, Mixture)
