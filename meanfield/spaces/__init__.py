"""Grids and coefficients: each space owns its transforms and knows no measure, no β and no time.

docs/decisions/spaces.md says why its files are as they are.
"""

from meanfield.spaces.circle import Circle, CircleAt, CircleTransforms
from meanfield.spaces.grid import Harmonics, Transforms
from meanfield.spaces.sphere import Library, Sphere, SphereTransforms, available
from meanfield.spaces.sphere_fields import FINEST, Places, SphereAt, SphereFields
from meanfield.spaces.zonal import Zonal, ZonalAt, ZonalTransforms

Space = Circle | Sphere | Zonal
