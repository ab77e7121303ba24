"""A density on S^2 carried by its own characteristics, from a law to clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import integer, number, shown, unit_rows
from meanfield.dynamics import Dynamics
from meanfield.history import step_times
from meanfield.laws import Law
from meanfield.patches import PER_LEAF, Mesh, lay
from meanfield.sphere_flow.absorbing import absorbed_particles, gathered, stretch_error
from meanfield.sphere_flow.carried import Carried
from meanfield.sphere_flow.characteristics import transported
from meanfield.sphere_flow.history import CLENSHAW_CURTIS, Absorption, History
from meanfield.sphere_flow.stepping import LargestErrorDOP853, allowed_errors
from meanfield.tendency.sphere_heads import ActingField, field_on_sphere

Array = NDArray[np.float64]

_LEAF_SHARE = 0.5
_STRETCH_SHARE = 10.0
_STEP_SHARE = 0.3
_LEAST_STEP_TOL = 1e-13
_REGATHER_AFTER = 1.0
_REGATHER_LATE = 2.5
_MASS_OF_LATE = 1e-4
_GATHERED_SHARE = 0.3
# the dissipation of USA, which is not divided by G, sees errors of high moments more
_USA_SHARE = 0.3
_LEAST_SHARE = 2e-2


class SphereFlow(Carried):
    """mu_t = Φ_t # mu_0 on S^2: nodes of a mesh of patches, moved by the velocity of (3.4), (3.8).

    The moments of the measure, kept as polynomials in time, fix the velocity field at all times,
    so the density anywhere at any time follows from one backward characteristic. When the flow has
    stretched the patches, a new mesh is laid on the present density. What has gathered within
    `cluster_radius` of a point is handed over to particles with the same moments.

    Parameters
    ----------
    law : Law
        With a density on S^2.
    dynamics : Dynamics
        Without noise.
    tol : float
        Error of the moments, in units of mass, that each mesh and the steps are chosen for.
    limit : int
        Most nodes of a mesh.
    cluster_radius : float, optional
        1 over the larger of 4 and β if omitted; 0 turns absorption off. Without it where the
        dynamics is not isotropic: what contracts may be pulled apart later.

    Attributes
    ----------
    t : float
    points : ndarray, shape (n, 3)
        Nodes and then particles.
    weights : ndarray, shape (n,)
        Their masses.
    n_nodes : int
        How many of them are nodes of the mesh.
    density_at_nodes : ndarray, shape (n_nodes,)
        The density there of what the nodes carry.
    history : History
    rates : list of list of float
        The dissipation at the eight times of each step, of isotropic attention only.
    dim : int
        3.

    Raises
    ------
    ValueError
        If an argument is out of range, or the dynamics has noise.
    ArithmeticError
        If the law is not resolved by `limit` nodes.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> from meanfield.laws import VonMisesFisher
    >>> flow = SphereFlow(VonMisesFisher([0.0, 0.0, 1.0], 2.0), SA(1.0), tol=1e-8)
    >>> flow.advance(0.5)
    >>> bool(abs(flow.mass() - 1.0) < 1e-8)
    True
    """

    dim = 3

    def __init__(
        self,
        law: Law,
        dynamics: Dynamics,
        *,
        tol: float = 1e-9,
        limit: int = 400_000,
        cluster_radius: float | None = None,
    ) -> None:
        if law.dim != self.dim:
            raise ValueError(f"law must have dim = {self.dim}, got {shown(law)}")
        if dynamics.noise != 0.0:
            raise ValueError(f"noise must be 0 for a flow, got {dynamics.noise:g}")
        self.law, self.dynamics = law, dynamics
        self.tol = number("tol", tol, low=1e-13, high=1e-2)
        if dynamics.fast:
            self.tol *= _USA_SHARE
        self.limit = integer("limit", limit, low=6 * PER_LEAF)
        self._scale = max(1.0, dynamics.reach, dynamics.beta)
        radius = 1.0 / max(4.0, self._scale) if cluster_radius is None else cluster_radius
        radius = radius if dynamics.isotropic else 0.0
        self.cluster_radius = number("cluster_radius", radius, low=0.0, high=1.0)
        self.t, self.evaluations = 0.0, 0
        self.history = History(0.0)
        self.rates: list[list[float]] = []
        self.step: float | None = None
        self.since = 0.0
        # a patch must be small against the kernel's width
        self._coarsest = int(np.clip(np.ceil(np.log2(0.5 * np.pi * self._scale / 4.0)), 1, 6))
        mesh = lay(law.pdf, _LEAF_SHARE * self.tol, coarsest=self._coarsest, limit=self.limit)
        super().__init__(field_on_sphere(dynamics), mesh)
        self._acting: ActingField = self.field.during(0.0, 0.0)

    def velocity(self) -> Array:
        """X at `points`, shape (n, 3), of the layer that acts."""
        masses, _ = self.field.attracting(self.points, self.weights)
        moments = self.field.moments(self.points, masses)
        return self._acting.velocity(moments, self.points, (self.points, masses))

    def density(self, points: ArrayLike, t: float | None = None) -> Array:
        """f_t at unit rows (n, 3), shape (n,), by backward characteristics; t is now if omitted.

        Raises
        ------
        ValueError
            If the points are no unit rows, or the time is outside the run.
        """
        points = unit_rows("points", points, 3)
        t = self.t if t is None else number("t", t, low=0.0, high=self.t)
        return transported(self.field, self.history, self.law.pdf, points, t)

    def advance(self, t_end: float, report: Callable[[], None] = lambda: None) -> None:
        """Go on to a later time, layer after layer; `report` is called after every step.

        Raises
        ------
        ValueError
            If t_end is not later than the present time.
        ArithmeticError
            If `limit` nodes do not resolve the density, or steps become too small.
        """
        t_end = number("t_end", t_end, above=self.t)
        for _, until in self.dynamics.between(self.t, t_end):
            self._acting = self.field.during(self.t, until)
            while self.t < until:
                self._leg(until, report)

    def _leg(self, t_end: float, report: Callable[[], None]) -> None:
        """Steps up to the next mesh or the end."""
        step_tol = max(_LEAST_STEP_TOL, _STEP_SHARE * self.tol)
        first = None if self.step is None else min(self.step, t_end - self.t)
        state = self._state()
        allowed = allowed_errors(step_tol, self.smooth_mass, len(self.points), self.n_nodes)
        solver = LargestErrorDOP853(
            self._rate, self.t, state, t_end, rtol=1e-13, atol=allowed, first_step=first
        )
        while solver.status == "running":
            message = solver.step()
            if solver.status == "failed":
                raise ArithmeticError(f"no step from t = {self.t:g} is small enough: {message}")
            self._record(solver)
            self._accept(solver)
            report()
            if self._is_stretched() or self._has_gathered():
                self.relay()
                return

    def _state(self) -> Array:
        return np.concatenate([self.points.ravel(), self.log_density])

    def _rate(self, _: float, state: Array) -> Array:
        self.evaluations += 1
        points = state[: self.points.size].reshape(-1, 3)
        sources = self._sources(points)
        moments = self.field.moments(*sources)
        velocity, divergence = self._acting.velocity_and_divergence(moments, points, sources)
        return np.concatenate([velocity.ravel(), -divergence[: self.n_nodes]])

    def _record(self, solver: Any) -> None:
        """Moments and the dissipation at the Lobatto points of the last step."""
        dense = solver.dense_output()
        moments, rates = [], []
        for t in step_times(solver.t_old, solver.t):
            points = dense(t)[: self.points.size].reshape(-1, 3)
            sources = self._sources(points)
            now = self.field.moments(*sources)
            moments.append(now)
            if self.dynamics.isotropic:
                velocity = self._acting.velocity(now, points, sources)
                rates.append(self.field.dissipation(now, points, self.weights, velocity))
        if rates:
            self.rates.append(rates)
        self.history.append(float(solver.t), np.asarray(moments))

    def dissipated(self) -> float:
        """∫ dissipation dt over the run so far: the change of the energy, times the sign."""
        if not self.rates:
            return 0.0
        steps = np.diff(self.history.edges)
        return float(steps @ (np.asarray(self.rates) @ CLENSHAW_CURTIS))

    def _accept(self, solver: Any) -> None:
        # the field depends on directions only, so lengths may be reset within a solver's run
        points = solver.y[: self.points.size].reshape(-1, 3)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        self.points = points.copy()
        self.log_density = solver.y[self.points.size :].copy()
        self.t, self.step = float(solver.t), float(solver.h_abs)

    def _mesh_tol(self) -> float:
        """Error of mass allowed to a mesh; what is left outside clusters is wanted to 2 digits."""
        return min(self.tol, _LEAST_SHARE / _LEAF_SHARE * self.smooth_mass)

    def _is_stretched(self) -> bool:
        # below the tolerance the nodes only move on: no mesh is worth its time
        if self.smooth_mass < self.tol:
            return False
        error = stretch_error(self.nodes, self.node_masses, self._scale)
        return error > _STRETCH_SHARE * self._mesh_tol()

    def _has_gathered(self) -> bool:
        """Whether a good part of what the nodes carry may be handed over to particles."""
        wait = _REGATHER_AFTER if self.smooth_mass > _MASS_OF_LATE else _REGATHER_LATE
        if self.t - self.since < wait or self.smooth_mass < self.tol:
            return False
        kept = float(self._absorption().kept(self.nodes) @ self.node_masses)
        return kept < (1.0 - _GATHERED_SHARE) * self.smooth_mass

    def _absorption(self) -> Absorption:
        if self.cluster_radius == 0.0:
            return Absorption(self.t, np.zeros((0, 3)), 1.0)
        centres = gathered(
            self.nodes,
            self.node_masses,
            self.log_density,
            self.atoms[0],
            self.cluster_radius,
        )
        if len(centres):
            sources = self._sources(self.points)
            _, divergence = self._acting.velocity_and_divergence(
                self.field.moments(*sources), centres, sources
            )
            centres = centres[divergence < 0.0]
        return Absorption(self.t, centres, self.cluster_radius)

    def _relaid(self, shares: Callable[[Array], Array]) -> Mesh:
        """A mesh of the present density; a finer one where its mass is not the nodes' mass."""
        for finer in (1.0, 0.1, 0.01):
            try:
                return lay(
                    shares,
                    finer * _LEAF_SHARE * self._mesh_tol(),
                    mass=self.smooth_mass,
                    within=self._mesh_tol(),
                    seeds=(self.nodes, self.node_masses),
                    coarsest=self._coarsest,
                    limit=self.limit,
                )
            except ArithmeticError as error:
                reason = error
        raise ArithmeticError(f"no new mesh at t = {self.t:g}: {reason}") from reason

    def relay(self) -> None:
        """Lay a new mesh on the present density, and hand over to particles what has gathered.

        Raises
        ------
        ArithmeticError
            If `limit` nodes do not resolve the density.
        """
        absorption = self._absorption()

        def shares(points: Array) -> Array:
            now = transported(self.field, self.history, self.law.pdf, points, self.t, absorbed=True)
            taken = [now * absorption.taken(points, j) for j in range(len(absorption.centres))]
            return np.stack([now * absorption.kept(points), *taken])

        mesh = self._relaid(shares)
        atoms = absorbed_particles(mesh, absorption, self.atoms, self._scale, 1e-3 * self.tol)
        self._set_mesh(mesh, *atoms)
        self.since = self.t
        if len(absorption.centres):
            self.history.absorptions.append(absorption)
