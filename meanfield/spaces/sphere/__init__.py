"""S^2: its grid with the transforms on it, fields and second derivatives, arbitrary points."""

from meanfield.spaces.sphere.grid import Library, Sphere, available
from meanfield.spaces.sphere.transforms import SphereTransforms

__all__ = ["Library", "Sphere", "SphereTransforms", "available"]
