"""The meshes that a flow map on S^2 moves through, and what clusters give to particles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from meanfield.equations.atoms import absorbed_particles, gathered, stretch_error
from meanfield.equations.history import Absorption, History, LabelMap, follow, origins
from meanfield.equations.sphere import KernelOnSphere, LayersOnSphere, split_mass
from meanfield.kernels.direct import logs
from meanfield.laws.law import LEAST_HELD, checked_logpdf
from meanfield.measures.sphere_flow_map import SphereFlowMap
from meanfield.spaces.cubed_sphere import (
    DRIFT_SHARE,
    PER_LEAF,
    Leaves,
    Mesh,
    Patches,
    drift_missed,
    interpolation_error,
    is_missed,
    lay,
    refined,
    without_light_leaves,
)
from meanfield.typing import Array, NDArray

_LEAF_SHARE = 0.5
_STRETCH_SHARE = 10.0
# a patch may miss this many times more of a drift than when it was laid
_DRIFT_STRETCH = 100.0
# a mesh is laid for particles once the nodes have given this share of their mass to them
_GATHERED_SHARE = 0.3
_LEAST_SHARE = 2e-2
# a mesh leaves out leaves whose mass is this share of its error
_LEFT_OUT = 1e-3
# a patch of a label map may miss this share of the error of a mesh, and this share of its own mass,
# which may later be all the mass that is left: ten maps miss 3 % of it, a mesh may miss 4 %
_LABEL_SHARE, _LABEL_DIGITS = 0.1, 3e-3
# a patch whose mass is this share of the tolerance never matters
_NEGLIGIBLE = 1e-4
# a label map has at most so many nodes for each node of the mesh before it
_LABEL_NODES = 16
# a label map is checked at so many points
_CHECKED = 16


class Meshes:
    """The meshes of a flow map on S^2: when a new one is due, and what it is laid on.

    When the flow has stretched the patches, a new mesh is laid on the present density, which one
    backward characteristic tells anywhere. Characteristics go back to the time of the last mesh,
    where a label map tells where they came from: what a mesh costs does not grow with t. What has
    gathered within `radius` of a point is handed over to particles with the same moments. From then
    on the lightest patches, with a thousandth of the mass that a mesh may miss, are left out of it:
    late they are most of the nodes. The next mesh sees them again, so losses do not add up.

    Parameters
    ----------
    flow : SphereFlowMap
        At t = 0: its law, and the most nodes of a mesh.
    field : KernelOnSphere or LayersOnSphere
    reach : float
        The kernel's width is 1/reach: a patch must be small against it.
    tol : float
        Error of the moments, in units of mass.
    radius : float
        0 for no particles.

    Attributes
    ----------
    has_maps : bool
        Whether label maps are laid: where X is smooth, until one takes too many nodes.
    label_error : float
        The largest mass that a label map misplaced, estimated by 16 points of the mesh that are
        followed back to the start.
    """

    def __init__(
        self,
        flow: SphereFlowMap,
        field: KernelOnSphere | LayersOnSphere,
        *,
        reach: float,
        tol: float,
        radius: float,
    ) -> None:
        self.law, self.field, self.radius = flow.law, field, radius
        self.reach, self.tol, self.limit = reach, tol, flow.max_nodes
        self.has_maps, self.label_error = bool(field.dynamics.is_smooth), 0.0
        self._coarsest = int(np.clip(np.ceil(np.log2(0.5 * np.pi * reach / 4.0)), 1, 6))

    def first(self, flow: SphereFlowMap) -> SphereFlowMap:
        """The flow map of the law on the first mesh.

        Raises
        ------
        ArithmeticError
            If `limit` nodes do not resolve the law.
        """
        mesh = lay(
            self.law.pdf,
            _LEAF_SHARE * self.tol,
            coarsest=self._coarsest,
            limit=self.limit,
            steepness=self.field.dynamics.steepness,
        )
        particles = np.zeros((0, 3)), np.zeros(0)
        return _on_mesh(flow, mesh, particles, partial(checked_logpdf, self.law))

    def _mesh_tol(self, smooth_mass: float) -> float:
        """Return the error of mass that a mesh may have.

        Mass outside of clusters keeps 2 digits.
        """
        return min(self.tol, _LEAST_SHARE / _LEAF_SHARE * smooth_mass)

    def is_stretched(self, flow: SphereFlowMap) -> bool:
        """Whether the patches are too wide by now."""
        masses, _ = split_mass(flow)
        smooth_mass = float(masses.sum())
        # if the mass of the nodes is below the tolerance, no mesh is worth its time
        if smooth_mass < self.tol:
            return False
        nodes, steepness = flow.points[: flow.n_nodes], self.field.dynamics.steepness
        allowed = _DRIFT_STRETCH * DRIFT_SHARE * _LEAF_SHARE * self.tol
        # a mesh must resolve at least the energy that each save records
        if flow.largest_beta < self.reach:
            return True
        if steepness is not None and len(drift_missed(steepness, allowed, nodes, masses)):
            return True
        error = stretch_error(nodes, masses, self.reach)
        return error > _STRETCH_SHARE * self._mesh_tol(smooth_mass)

    def absorption(self, flow: SphereFlowMap, divergence: Callable[[Array], Array]) -> Absorption:
        """The nodes that may be handed over to particles now: those that X draws together."""
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
        """Return the mass that nodes carry after an absorption."""
        return float(absorption.kept(flow.points[: flow.n_nodes]) @ split_mass(flow)[0])

    def renew(self, flow: SphereFlowMap, absorption: Absorption, history: History) -> SphereFlowMap:
        """The same measure on a new mesh, without what is absorbed, which particles carry.

        Raises
        ------
        ArithmeticError
            If `limit` nodes do not resolve the density.
        """
        n, (masses, particle_masses) = flow.n_nodes, split_mass(flow)
        nodes, atoms = flow.points[:n], (flow.points[n:], particle_masses)
        smooth_mass, left = float(masses.sum()), self._left(flow, absorption)
        mesh_tol = self._mesh_tol(smooth_mass)
        # the allowed errors: first of the mass that stays, in which the next mesh is compared with
        # this one, then of each absorbed mass
        errors = np.full(1 + len(absorption.centres), _LEAF_SHARE * mesh_tol)
        if left >= self.tol:
            errors[0] = _LEAF_SHARE * self._mesh_tol(left)
            if self.has_maps:
                self._lay_labels(flow, absorption, history, errors)

        def shares(points: Array) -> Array:
            labels, stretch, share = origins(self.field, history, points, flow.t)
            with np.errstate(under="ignore"):
                now = self.law.pdf(labels) * np.exp(stretch) * share
            absorbed = [now * absorption.taken(points, j) for j in range(len(absorption.centres))]
            return np.stack([now * absorption.kept(points), *absorbed])

        def log_left(points: Array) -> Array:
            labels, stretch, share = origins(self.field, history, points, flow.t)
            return (
                checked_logpdf(self.law, labels) + stretch + logs(share * absorption.kept(points))
            )

        def laid() -> Mesh:
            # a finer mesh is tried if the mass of this one differs from that of the nodes
            for finer in (1.0, 0.1, 0.01):
                try:
                    return lay(
                        shares,
                        finer * errors,
                        mass=smooth_mass,
                        within=mesh_tol,
                        seeds=(nodes, masses),
                        coarsest=self._coarsest,
                        limit=self.limit,
                        steepness=self.field.dynamics.steepness,
                    )
                except ArithmeticError as error:
                    reason = error
            raise ArithmeticError(f"no new mesh at t = {flow.t:g}: {reason}") from reason

        if history.labels:
            try:
                mesh = laid()
                error = self._label_error(mesh, flow.t, history)
            except ArithmeticError:
                error = np.inf
            if error <= mesh_tol:
                self.label_error = max(self.label_error, error)
            else:
                # characteristics are followed back to the start again
                history.labels.clear()
        if not history.labels:
            mesh = laid()
        atoms = absorbed_particles(mesh, absorption, atoms, self.reach, 1e-3 * self.tol)
        if len(atoms[0]):
            # without particles the nodes give the entropy and the least density, so no leaf is left
            # out
            mesh = without_light_leaves(mesh, _LEFT_OUT * self._mesh_tol(left))
        return _on_mesh(flow, mesh, atoms, log_left)

    def _lay_labels(
        self, flow: SphereFlowMap, absorption: Absorption, history: History, errors: Array
    ) -> None:
        """Keep the label map of a time, unless it takes too many nodes.

        What it misses of the density is, patch by patch, a small part of `errors`: of what is left
        after the absorption, and of what is taken.
        """
        t, seeds = flow.t, (flow.points[: flow.n_nodes], split_mass(flow)[0])

        def origins_and_pdf(points: Array) -> Array:
            labels, stretch, kept = origins(self.field, history, points, t)
            return np.stack([*labels.T, stretch, kept, self.law.pdf(labels)])

        def judge(
            leaves: Leaves, points: Array, weights: Array, values: Array
        ) -> tuple[NDArray[np.bool_], Array]:
            *_, stretch, kept, first_pdf = values
            by_leaf = values.reshape(len(values), -1, PER_LEAF)
            *of_labels, of_stretch, of_kept, _ = interpolation_error(by_leaf)
            *label_changes, _, _, pdf_change = np.ptp(by_leaf, axis=-1)
            # the rate at which f_0 changes with the label
            steepness = pdf_change / np.maximum(np.max(label_changes, axis=0), 1e-300)
            with np.errstate(under="ignore"):
                masses_now = weights * np.exp(stretch)
            left, masses = absorption.kept(points), masses_now * kept * first_pdf

            def on_leaves(part: Array) -> Array:
                both_parts = np.stack([left * part, (1.0 - left) * part])
                return np.asarray(both_parts.reshape(2, -1, PER_LEAF).sum(axis=2))

            error = steepness * np.max(of_labels, axis=0) * on_leaves(masses_now * kept)
            error += of_stretch * on_leaves(masses) + of_kept * on_leaves(masses_now * first_pdf)
            remaining = np.maximum(on_leaves(masses)[0], _NEGLIGIBLE * self.tol)
            allowed_errors = np.full_like(error, _LABEL_SHARE * errors[-1])
            allowed_errors[0] = np.minimum(_LABEL_SHARE * errors[0], _LABEL_DIGITS * remaining)
            split = (error > allowed_errors).any(axis=0)
            return split | is_missed(leaves, masses, seeds, errors[-1]), error.sum(axis=0)

        limit = _LABEL_NODES * flow.n_nodes
        subject = "where points came from"
        levels = refined(origins_and_pdf, judge, coarsest=self._coarsest, limit=limit, goal=subject)
        try:
            patches = Patches.of([(leaves, values[:-1]) for leaves, _, _, values, _ in levels])
        except ArithmeticError:
            # the map before gives the same labels by a longer way back
            self.has_maps = False
        else:
            history.labels.append(LabelMap(t, patches))

    def _label_error(self, mesh: Mesh, t: float, history: History) -> float:
        """The mass misplaced by label maps, from points that stand for equal masses of a mesh."""
        density = mesh.values.sum(axis=0)
        masses = np.cumsum(mesh.weights * density)
        shares = (np.arange(_CHECKED) + 0.5) / _CHECKED
        chosen = np.searchsorted(masses, shares * masses[-1])
        labels, stretch, share = follow(
            self.field, history, mesh.points[chosen], t, history.edges[0], absorbed=True
        )
        exact = self.law.pdf(labels) * np.exp(stretch) * share
        return float(masses[-1] * np.mean(np.abs(exact / density[chosen] - 1.0)))


def _on_mesh(
    flow: SphereFlowMap,
    mesh: Mesh,
    particles: tuple[Array, Array],
    log_pdf: Callable[[Array], Array],
) -> SphereFlowMap:
    """Return the flow map on another mesh with other particles.

    The logarithm of f is stored where f underflows.
    """
    points, masses = particles
    log_density, underflows = logs(mesh.values[0]), mesh.values[0] < LEAST_HELD
    if underflows.any():
        log_density[underflows] = log_pdf(mesh.points[underflows])
    return flow.moved_to(
        flow.t,
        points=np.concatenate([mesh.points, points]),
        weights=np.concatenate([mesh.weights * mesh.values[0], masses]),
        log_density=np.concatenate([log_density, np.full(len(masses), np.inf)]),
    )
