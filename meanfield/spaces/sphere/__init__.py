"""S^2: its grid with the transforms on it, fields and second derivatives, arbitrary points."""

from meanfield.spaces.sphere.grid import Sphere, available
from meanfield.spaces.sphere.transforms import SphereTransforms

__all__ = ["Sphere", "SphereTransforms", "available"]
