"""The meshes that a flow map on S^2 moves through, and what clusters give to particles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meanfield.equations.atoms import absorbed_particles, gathered, stretch_error
from meanfield.equations.history import Absorption, History, transported
from meanfield.equations.sphere import SphereDepthField, SphereField, split_mass
from meanfield.measures.flow_map import SphereFlowMap
from meanfield.spaces.cubed_sphere import Mesh, lay
from meanfield.typing import Array

_LEAST_DENSITY = 1e-300
_LEAF_SHARE = 0.5
_STRETCH_SHARE = 10.0
# what nodes must have given to particles before a mesh is laid for it
_GATHERED_SHARE = 0.3
_LEAST_SHARE = 2e-2


class Meshes:
    """The meshes of a flow map on S^2: when a new one is due, and what it is laid on.

    When the flow has stretched the patches, a new mesh is laid on the present density, which one
    backward characteristic tells anywhere. What has gathered within `radius` of a point is handed
    over to particles with the same moments.

    Parameters
    ----------
    flow : SphereFlowMap
        At t = 0: its law, and the most nodes of a mesh.
    field : SphereField or SphereDepthField
    scale : float
        The kernel's width is 1/scale: a patch must be small against it.
    tol : float
        Error of the moments, in units of mass.
    radius : float
        0 for no particles.
    """

    def __init__(
        self,
        flow: SphereFlowMap,
        field: SphereField | SphereDepthField,
        *,
        scale: float,
        tol: float,
        radius: float,
    ) -> None:
        self.law, self.field, self.radius = flow.law, field, radius
        self.scale, self.tol, self.limit = scale, tol, flow.max_nodes
        self._coarsest = int(np.clip(np.ceil(np.log2(0.5 * np.pi * scale / 4.0)), 1, 6))

    def first(self, flow: SphereFlowMap) -> SphereFlowMap:
        """The flow map of the law on the first mesh.

        Raises
        ------
        ArithmeticError
            If `limit` nodes do not resolve the law.
        """
        mesh = lay(self.law.pdf, _LEAF_SHARE * self.tol, coarsest=self._coarsest, limit=self.limit)
        return _on_mesh(flow, mesh, (np.zeros((0, 3)), np.zeros(0)))

    def _mesh_tol(self, smooth_mass: float) -> float:
        """Error of mass allowed to a mesh; what is left outside clusters is wanted to 2 digits."""
        return min(self.tol, _LEAST_SHARE / _LEAF_SHARE * smooth_mass)

    def is_stretched(self, flow: SphereFlowMap) -> bool:
        """Whether the patches are too wide by now."""
        masses, _ = split_mass(flow)
        smooth_mass = float(masses.sum())
        # below the tolerance the nodes only move on: no mesh is worth its time
        if smooth_mass < self.tol:
            return False
        error = stretch_error(flow.points[: flow.n_nodes], masses, self.scale)
        return error > _STRETCH_SHARE * self._mesh_tol(smooth_mass)

    def absorption(self, flow: SphereFlowMap, divergence: Callable[[Array], Array]) -> Absorption:
        """What may be handed over to particles now: where X draws nodes together."""
        if self.radius == 0.0:
            return Absorption(flow.t, np.zeros((0, 3)), 1.0)
        n, (masses, _) = flow.n_nodes, split_mass(flow)
        nodes, particles = flow.points[:n], flow.points[n:]
        centres = gathered(nodes, masses, flow.log_density[:n], particles, self.radius)
        if len(centres):
            centres = centres[divergence(centres) < 0.0]
        return Absorption(flow.t, centres, self.radius)

    def is_worthwhile(self, flow: SphereFlowMap, absorption: Absorption) -> bool:
        """Whether an absorption takes a good part of what the nodes carry."""
        carried = float(split_mass(flow)[0].sum())
        return self._left(flow, absorption) < (1.0 - _GATHERED_SHARE) * carried

    def _left(self, flow: SphereFlowMap, absorption: Absorption) -> float:
        """The mass that nodes carry after an absorption."""
        return float(absorption.kept(flow.points[: flow.n_nodes]) @ split_mass(flow)[0])

    def renew(self, flow: SphereFlowMap, absorption: Absorption, history: History) -> SphereFlowMap:
        """The same measure on a new mesh, without what is absorbed, which particles carry.

        Raises
        ------
        ArithmeticError
            If `limit` nodes do not resolve the density.
        """
        n, (masses, particle_masses) = flow.n_nodes, split_mass(flow)
        nodes, particles = flow.points[:n], flow.points[n:]
        smooth_mass, left = float(masses.sum()), self._left(flow, absorption)
        within = self._mesh_tol(smooth_mass)
        # of what is left and of what is taken; the next mesh holds what is left against this one
        errors = np.full(1 + len(absorption.centres), _LEAF_SHARE * within)
        if left >= self.tol:
            errors[0] = _LEAF_SHARE * self._mesh_tol(left)

        def shares(points: Array) -> Array:
            now = transported(self.field, history, self.law.pdf, points, flow.t, absorbed=True)
            taken = [now * absorption.taken(points, j) for j in range(len(absorption.centres))]
            return np.stack([now * absorption.kept(points), *taken])

        # a finer mesh where its mass is not the nodes' mass
        for finer in (1.0, 0.1, 0.01):
            try:
                mesh = lay(
                    shares,
                    finer * errors,
                    mass=smooth_mass,
                    within=within,
                    seeds=(nodes, masses),
                    coarsest=self._coarsest,
                    limit=self.limit,
                )
                break
            except ArithmeticError as error:
                reason = error
        else:
            raise ArithmeticError(f"no new mesh at t = {flow.t:g}: {reason}") from reason
        atoms = particles, particle_masses
        atoms = absorbed_particles(mesh, absorption, atoms, self.scale, 1e-3 * self.tol)
        return _on_mesh(flow, mesh, atoms)


def _on_mesh(flow: SphereFlowMap, mesh: Mesh, particles: tuple[Array, Array]) -> SphereFlowMap:
    """The flow map on another mesh, with other particles."""
    points, masses = particles
    density = np.maximum(mesh.values[0], _LEAST_DENSITY)
    return flow._moved(
        flow.t,
        points=np.concatenate([mesh.points, points]),
        weights=np.concatenate([mesh.weights * mesh.values[0], masses]),
        log_density=np.concatenate([np.log(density), np.full(len(masses), np.inf)]),
    )
