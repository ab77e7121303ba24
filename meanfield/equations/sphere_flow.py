"""A density on S^2 carried by its own characteristics, from a law to clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import DOP853

from meanfield._checks import integer, number, rows, shown, unit_rows
from meanfield.dynamics.facts import Dynamics
from meanfield.equations.atoms import absorbed_particles, gathered, stretch_error
from meanfield.equations.characteristics import transported
from meanfield.equations.history import CLENSHAW_CURTIS, Absorption, History, step_times
from meanfield.equations.sphere_field import (
    ActingField,
    SphereDepthField,
    SphereField,
    field_on_sphere,
)
from meanfield.kernels.direct import log_moment
from meanfield.laws.law import Law
from meanfield.spaces.cubed_sphere import PER_LEAF, Mesh, lay
from meanfield.spaces.geometry import geodesic_distance
from meanfield.typing import Array

_LOG_DENSITY_SHARE = 100.0
_LITTLE_MASS = 1e-2
_NO_MASS = 1e-15
_LOOSEST_STEP_TOL = 1e-5


def allowed_errors(step_tol: float, smooth_mass: float, count: int, n_nodes: int) -> Array:
    """Of a step: for coordinates of `count` points, nodes first, and log densities at the nodes."""
    # what carries little need not be where it should to the same number of digits
    carried = max(smooth_mass, _NO_MASS)
    loose = max(step_tol, min(_LOOSEST_STEP_TOL, step_tol * _LITTLE_MASS / carried))
    allowed = np.full(3 * count + n_nodes, step_tol)
    allowed[: 3 * n_nodes] = loose
    allowed[3 * count :] = _LOG_DENSITY_SHARE * loose
    return allowed


class LargestErrorDOP853(DOP853):  # type: ignore[misc]
    """The method of Dormand and Prince of order 8(5, 3), accurate at every component.

    A root mean square over 50,000 points hides the few where the field is steep.
    """

    def _estimate_error_norm(self, K: Array, h: float, scale: Array) -> Any:
        fifth = np.abs(K.T @ self.E5) / scale
        third = np.abs(K.T @ self.E3) / scale
        size = np.hypot(fifth, 0.1 * third)
        safe = np.where(size > 0.0, size, 1.0)
        return np.abs(h) * float(np.max(fifth * fifth / safe))


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


def snapshot(flow: SphereFlow) -> tuple[dict[str, Any], dict[str, Array]]:
    """What the next step depends on, but for the history of moments."""
    numbers = {
        "t": flow.t,
        "step": flow.step,
        "since": flow.since,
        "evaluations": flow.evaluations,
        "n_nodes": flow.n_nodes,
        "pieces": len(flow.history.pieces),
    }
    state = {
        "points": flow.points.copy(),
        "weights": flow.weights.copy(),
        "log_density": flow.log_density.copy(),
    }
    return numbers, state | {"dissipation": np.array(flow.rates, dtype=np.float64)}


def restore(
    flow: SphereFlow, numbers: dict[str, Any], arrays: dict[str, Array], history: History | None
) -> None:
    """Put a flow of the same law and dynamics where another was."""
    flow.t, flow.since = float(numbers["t"]), float(numbers["since"])
    flow.step = None if numbers["step"] is None else float(numbers["step"])
    flow.evaluations, flow.n_nodes = int(numbers["evaluations"]), int(numbers["n_nodes"])
    flow.points, flow.weights = arrays["points"], arrays["weights"]
    flow.log_density, flow.node_masses = arrays["log_density"], flow.weights[: flow.n_nodes]
    flow.rates = arrays["dissipation"].tolist()
    if history is not None:
        count = int(numbers["pieces"])
        flow.history = History(history.edges[0])
        flow.history.edges, flow.history.pieces = history.edges[: count + 1], history.pieces[:count]
        flow.history.absorptions = [a for a in history.absorptions if a.time <= flow.t]
