"""W_1 and W_2 on S^2 without symmetry: brackets from a feasible plan or flow and a potential."""

from meanfield.transport.sphere.distance import ON_SPHERE, sphere_distance

__all__ = ["ON_SPHERE", "sphere_distance"]
