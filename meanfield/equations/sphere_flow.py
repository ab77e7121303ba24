"""d/dt of a flow map on S^2 without symmetry, and the meshes that it moves through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meanfield.equations.atoms import absorbed_particles, gathered, stretch_error
from meanfield.equations.characteristics import transported
from meanfield.equations.history import Absorption, History
from meanfield.equations.sphere_field import SphereDepthField, SphereField
from meanfield.laws.law import Law
from meanfield.measures.flow_map import SphereFlowMap
from meanfield.spaces.cubed_sphere import Mesh, lay
from meanfield.typing import Array, Coefficients

_LEAST_DENSITY = 1e-300
# errors of a log density may be this much larger than those of a coordinate
_LOG_DENSITY_SHARE = 100.0
_LITTLE_MASS = 1e-2
_NO_MASS = 1e-15
_LOOSEST_STEP_TOL = 1e-5
_LEAF_SHARE = 0.5
_STRETCH_SHARE = 10.0
# what nodes must have given to particles before a mesh is laid for it
_GATHERED_SHARE = 0.3
_LEAST_SHARE = 2e-2


def split_mass(flow: SphereFlowMap) -> tuple[Array, Array]:
    """The masses of the nodes, and those of the particles."""
    return flow.weights[: flow.n_nodes], flow.weights[flow.n_nodes :]


class SphereTendency:
    """x' = X at nodes and particles, (log f)' = -div X at the nodes.

    The state holds the points (n, 3), nodes and then particles, and log f at the nodes. X is
    extended to R^3 by directions alone, so points may be put back on the sphere at any time.

    Parameters
    ----------
    flow : SphereFlowMap
    field : SphereField or SphereDepthField
    layer : Dynamics
        The one that acts.

    Attributes
    ----------
    initial_state : ndarray
    flow : SphereFlowMap
    """

    def __init__(
        self, flow: SphereFlowMap, field: SphereField | SphereDepthField, layer: Any
    ) -> None:
        self.flow, self._acting = flow, field.of(layer)
        self._field: Any = field
        self._n_nodes = flow.n_nodes
        logs = flow.log_density[: self._n_nodes]
        self.initial_state = np.concatenate([flow.points.ravel(), logs])
        self._log_u: Array | None = None
        self._velocity = np.zeros_like(flow.points)
        self._dissipation = 0.0

    def points(self, state: Array) -> Array:
        """The points of a state, a view of shape (n, 3)."""
        return state[: self.flow.points.size].reshape(-1, 3)

    def measure(self, state: Array) -> SphereFlowMap:
        """The flow map of a state, at the time of the one that this began from."""
        flow = self.flow
        logs = np.full(len(flow.weights), np.inf)
        logs[: self._n_nodes] = state[flow.points.size :]
        return SphereFlowMap.from_arrays(
            flow.law,
            flow.tol,
            flow.t,
            points=self.points(state).copy(),
            weights=flow.weights,
            log_density=logs,
        )

    def errors(self, tol: float) -> Array:
        """What a step may miss each entry by, where it may miss a unit of mass by `tol`."""
        # what carries little need not be where it should to the same number of digits
        carried = max(float(split_mass(self.flow)[0].sum()), _NO_MASS)
        loose = max(tol, min(_LOOSEST_STEP_TOL, tol * _LITTLE_MASS / carried))
        allowed = np.full(len(self.initial_state), tol)
        allowed[: 3 * self._n_nodes] = loose
        allowed[self.flow.points.size :] = _LOG_DENSITY_SHARE * loose
        return allowed

    def _sources(self, points: Array) -> tuple[Array, Array]:
        """Nodes and particles, with the masses that make the field."""
        masses, self._log_u = self._field.attracting(points, self.flow.weights, self._log_u)
        return points, masses

    def moments(self, state: Array) -> Coefficients:
        """mu_lm of the masses that make the field."""
        found: Coefficients = self._field.moments(*self._sources(self.points(state)))
        return found

    def divergence(self, state: Array, points: Array) -> Array:
        """div X at unit rows (k, 3), shape (k,)."""
        sources = self._sources(self.points(state))
        moments = self._field.moments(*sources)
        return self._acting.velocity_and_divergence(moments, points, sources)[1]

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        points = self.points(state)
        sources = self._sources(points)
        moments = self._field.moments(*sources)
        velocity, divergence = self._acting.velocity_and_divergence(moments, points, sources)
        self.points(out)[:] = velocity
        np.negative(divergence[: self._n_nodes], out=out[velocity.size :])
        self._velocity = velocity
        if self._field.dynamics.isotropic:
            self._dissipation = self._field.scaled_dissipation(
                moments, points, self.flow.weights, velocity
            )

    def scaled_dissipation(self) -> float:
        """e^{-β} ∫ |X|² dmu (USA), e^{-β} ∫ |X|² G(βx) dmu (SA), (3.6), at the last state.

        ∫ |X|² dmu under DoublyStochastic; 0 where X is no gradient.
        """
        return self._dissipation

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        squares = np.einsum("ij,ij->i", self._velocity, self._velocity)
        return float(np.sqrt(self.flow.weights @ squares))

    def scaled_energy(self, state: Array) -> float:
        """e^{-β} E_β."""
        moments = self._field.moments(self.points(state), self.flow.weights)
        return float(self._field.scaled_energy(moments))


class Meshes:
    """The meshes of a flow map on S^2: when a new one is due, and what it is laid on.

    When the flow has stretched the patches, a new mesh is laid on the present density, which one
    backward characteristic tells anywhere. What has gathered within `radius` of a point is handed
    over to particles with the same moments.

    Parameters
    ----------
    law : Law
    field : SphereField or SphereDepthField
    scale : float
        The kernel's width is 1/scale: a patch must be small against it.
    tol : float
        Error of the moments, in units of mass.
    limit : int
        Most nodes of a mesh.
    radius : float
        0 for no particles.
    """

    def __init__(
        self,
        law: Law,
        field: SphereField | SphereDepthField,
        *,
        scale: float,
        tol: float,
        limit: int,
        radius: float,
    ) -> None:
        self.law, self.field, self.radius = law, field, radius
        self.scale, self.tol, self.limit = scale, tol, limit
        self._coarsest = int(np.clip(np.ceil(np.log2(0.5 * np.pi * scale / 4.0)), 1, 6))

    def first(self, tol: float) -> SphereFlowMap:
        """The flow map of the law, which counts as one of this `tol`.

        Raises
        ------
        ArithmeticError
            If `limit` nodes do not resolve the law.
        """
        mesh = lay(self.law.pdf, _LEAF_SHARE * self.tol, coarsest=self._coarsest, limit=self.limit)
        return self._flow_map(mesh, tol, 0.0, (np.zeros((0, 3)), np.zeros(0)))

    def _flow_map(
        self, mesh: Mesh, tol: float, t: float, particles: tuple[Array, Array]
    ) -> SphereFlowMap:
        points, masses = particles
        density = np.maximum(mesh.values[0], _LEAST_DENSITY)
        return SphereFlowMap.from_arrays(
            self.law,
            tol,
            t,
            points=np.concatenate([mesh.points, points]),
            weights=np.concatenate([mesh.weights * mesh.values[0], masses]),
            log_density=np.concatenate([np.log(density), np.full(len(masses), np.inf)]),
        )

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
        return self._flow_map(mesh, flow.tol, flow.t, atoms)
