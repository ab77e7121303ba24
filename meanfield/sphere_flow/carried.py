"""A measure on S^2 at one instant of a flow: nodes of a mesh with their masses, and particles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import rows
from meanfield.exponential_sums import log_moment
from meanfield.geometry import geodesic_distance
from meanfield.patches import Mesh
from meanfield.tendency.sphere_field import SphereField
from meanfield.tendency.sphere_heads import SphereDepthField

Array = NDArray[np.float64]

_LEAST_DENSITY = 1e-300


class Carried:
    """Σ_i m_i δ_{x_i} over nodes and particles: a quadrature of mu_t.

    Parameters
    ----------
    field : SphereField or SphereDepthField
    mesh : Mesh
        Its first channel is what the nodes carry.

    Attributes
    ----------
    points : ndarray, shape (n, 3)
        Nodes and then particles.
    weights : ndarray, shape (n,)
    n_nodes : int
    node_masses, log_density : ndarray, shape (n_nodes,)
        Of the nodes: masses, and log f of what they carry.
    """

    def __init__(self, field: SphereField | SphereDepthField, mesh: Mesh) -> None:
        self.field: Any = field
        self.t = 0.0
        self._set_mesh(mesh, np.zeros((0, 3)), np.zeros(0))

    def __repr__(self) -> str:
        return f"SphereFlow(t={self.t:g}, nodes={self.n_nodes}, particles={len(self.atoms[1])})"

    def _set_mesh(self, mesh: Mesh, atoms: Array, atom_masses: Array) -> None:
        self.n_nodes = len(mesh.points)
        self.node_masses = mesh.weights * mesh.values[0]
        self.points = np.concatenate([mesh.points, atoms])
        self.weights = np.concatenate([self.node_masses, atom_masses])
        self.log_density = np.log(np.maximum(mesh.values[0], _LEAST_DENSITY))
        self._log_u: Array | None = None

    def forget(self) -> None:
        """Forget what the next step begins with beside the nodes: the last scaling, if any."""
        self._log_u = None

    def _sources(self, points: Array) -> tuple[Array, Array]:
        """Nodes and particles at points, with the masses that make the field."""
        masses, self._log_u = self.field.attracting(points, self.weights, self._log_u)
        return points, masses

    @property
    def nodes(self) -> Array:
        """Positions of the mesh's nodes, shape (n_nodes, 3)."""
        return self.points[: self.n_nodes]

    @property
    def atoms(self) -> tuple[Array, Array]:
        """Positions (m, 3) and masses (m,) of the particles."""
        return self.points[self.n_nodes :], self.weights[self.n_nodes :]

    @property
    def density_at_nodes(self) -> Array:
        """The density with respect to σ of what the nodes carry, at `nodes`, shape (n_nodes,)."""
        return np.asarray(np.exp(self.log_density))

    @property
    def moments(self) -> NDArray[Any]:
        """mu_lm at the present time."""
        return np.asarray(self.field.moments(self.points, self.weights))

    def mass(self) -> float:
        """Σ of all masses."""
        return float(self.weights.sum())

    def mean(self) -> Array:
        """∫ x dmu, shape (3,)."""
        return np.asarray(self.weights @ self.points)

    def energy(self) -> float:
        """E_β(mu_t), (3.5)."""
        return float(self.field.energy(self.moments))

    @property
    def smooth_mass(self) -> float:
        """The mass that the nodes carry; the rest is in particles."""
        return float(self.node_masses.sum())

    def log_moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """log G(z), shape (n,), and ∇ log G(z), shape (n, 3), at rows z by direct sums.

        Raises
        ------
        ValueError
            If z is not finite or has the wrong length.
        """
        return log_moment(self.points, self.weights, rows("z", z, 3))

    def clusters(self, radius: float) -> tuple[Array, Array, float]:
        """Atoms that the measure is near to, and how near.

        Parameters
        ----------
        radius : float
            Points within it of a heavier one belong to the same atom.

        Returns
        -------
        centres : ndarray, shape (k, 3)
            Each the direction of its particles' mean.
        masses : ndarray, shape (k,)
            What is in no particle counts for the nearest centre.
        distance : float
            An upper bound of W_2 between the measure and these atoms.

        Raises
        ------
        ValueError
            If there are no particles yet.
        """
        points, masses = self.atoms
        if not len(masses):
            raise ValueError(f"clusters at t = {self.t:g} need particles, got none: go on longer")
        left, centres = masses.copy(), []
        while left.any():
            near = np.linalg.norm(points - points[int(np.argmax(left))], axis=1) <= radius
            mean = (left * near) @ points
            centres.append(mean / np.linalg.norm(mean))
            left[near] = 0.0
        atoms = np.array(centres)
        nearest = np.argmax(self.points @ atoms.T, axis=1)
        gathered = np.zeros(len(atoms))
        np.add.at(gathered, nearest, self.weights)
        far = geodesic_distance(self.points, atoms[nearest])
        return atoms, gathered, float(np.sqrt(self.weights @ far**2))
