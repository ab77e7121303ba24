"""Grids and coefficients: each space owns its transforms and knows no measure, no β and no time."""

from __future__ import annotations

from meanfield.spaces.circle import Circle, CircleTransforms
from meanfield.spaces.sphere import Library, Sphere, SphereTransforms, available
from meanfield.spaces.zonal import Zonal, ZonalTransforms

__all__ = [
    "Circle",
    "Library",
    "Space",
    "Sphere",
    "Transforms",
    "Zonal",
    "available",
]


Space = Circle | Sphere | Zonal
Transforms = CircleTransforms | SphereTransforms | ZonalTransforms
