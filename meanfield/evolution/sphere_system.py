"""A run of a flow map on S^2: what `SphereFlow` does, with its records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from meanfield._checks import shown, tell_apart
from meanfield.dynamics.facts import Dynamics
from meanfield.equations.history import History
from meanfield.equations.sphere_flow import SphereFlow, restore
from meanfield.evolution.arrays import Resumption
from meanfield.evolution.options import Options
from meanfield.evolution.recorder import Stop
from meanfield.evolution.solution import Ending, Solution
from meanfield.functionals.energies import sinkhorn_energy
from meanfield.measures.clusters import clusters
from meanfield.measures.flow_map import SphereFlowMap
from meanfield.typing import Array

# patches must be small against the kernel's width: more of them would start a run than may end it
_LARGEST_REACH = 40.0
# time steps have order 2 only where X has kinks
_LEAST_TOL_AT_KINKS = 1e-6
# nodes are some 0.1 rad apart where the density is smooth, and a ball must hold many
CLUSTER_SIZE = 0.3


class SphereSystem:
    """Time, counters and records of a run of a flow map on S^2, with the methods of `Run`.

    At the kinks of relu the flow map's `tol` counts as 1e-6 at least.

    Parameters
    ----------
    flow : SphereFlowMap
        At t = 0.
    dynamics : Dynamics
    options : Options
        `most_nodes` counts; tolerances in time are the flow map's own.

    Raises
    ------
    ValueError
        If the flow map has moved, or |β KᵀQ| of a head is too large.
    """

    def __init__(
        self,
        flow: SphereFlowMap,
        dynamics: Dynamics,
        options: Options,
    ) -> None:
        if flow.t > 0.0:
            raise ValueError(
                f"measure must be a flow map at t = 0 on S^2, got one of t = {flow.t:g}: evolve "
                f"it from its law to a later t_end"
            )
        if dynamics.reach > _LARGEST_REACH:
            name = "beta" if dynamics.isotropic else "beta |KᵀQ|"
            raise ValueError(
                f"{name} must be <= {_LARGEST_REACH:g} for a flow map on S^2, got "
                f"{tell_apart(dynamics.reach, _LARGEST_REACH)[0]}: take Particles"
            )
        self.dynamics, self.options = dynamics, options
        self.log_unit = dynamics.beta
        self.collapses: list[Any] = []
        self._law = flow.law
        self._tol = flow.tol if dynamics.smooth else max(flow.tol, _LEAST_TOL_AT_KINKS)
        # on S^2 a cluster is carried by particles of the same moments long before it is a point
        radius = None if dynamics.isotropic and options.cluster_radius > 0.0 else 0.0
        limit = options.most_nodes
        try:
            self.carried = SphereFlow(
                flow.law, dynamics, tol=self._tol, limit=limit, cluster_radius=radius
            )
        except ArithmeticError as error:
            raise ValueError(f"measure {shown(flow)} can't be run: {error}") from error

    @property
    def t(self) -> float:
        """The present time."""
        return self.carried.t

    @property
    def steps(self) -> int:
        """Accepted time steps since t = 0."""
        return len(self.carried.history.pieces)

    kept: Any = ()

    def begin(self) -> None:
        """Begin."""

    def rebase(self, measure: Any) -> None:  # noqa: ARG002
        """Every advance begins with the nodes as they are, and no scaling that is known."""
        if self.t > 0.0:
            self.carried.forget()

    def measure(self) -> SphereFlowMap:
        """The measure at the present time."""
        carried = self.carried
        logs = np.full(len(carried.points), np.inf)
        logs[: carried.n_nodes] = np.log(carried.density_at_nodes)
        return SphereFlowMap.from_arrays(
            self._law,
            self._tol,
            self.t,
            points=carried.points.copy(),
            weights=carried.weights.copy(),
            log_density=logs,
        )

    def advance(self, t_bound: float, report: Callable[[Any], None]) -> None:
        """Step from the present time to `t_bound`.

        Raises
        ------
        Stop
            If no mesh within the limit resolves the density, or steps become too small.
        """
        if t_bound <= self.t:
            return
        try:
            self.carried.advance(t_bound, lambda: report(self))
        except ArithmeticError as error:
            raise Stop(
                Ending.UNDER_RESOLVED,
                f"under-resolved at t = {self.t:.6g}: {error}; try a larger `largest`, a larger "
                f"`tol` of the flow map or a smaller `t_end`",
            ) from error

    def restore(self, saved: Solution, resumption: Resumption) -> None:
        """Go on where the run of a solution was when it was saved."""
        history = cast(History | None, saved.history)
        restore(self.carried, resumption.numbers, resumption.arrays, history)

    def scaled_energy(self) -> float:
        """e^{-β} E_β at the present time."""
        return float(self.carried.field.energy(self.carried.moments, scaled=True))

    def history(self) -> History | None:
        """The moments of the run so far, and what was absorbed."""
        return self.carried.history if self.carried.history.pieces else None

    def finished(self) -> tuple[Ending, str]:
        """How a run that came to its end ended, and the sentence that says so."""
        return Ending.FINISHED, f"finished at t = {self.t:g} after {self.steps} steps"

    def row(self, measure: Any) -> dict[str, float]:
        """The numbers of a save."""
        carried = self.carried
        velocity, energy = carried.velocity(), self.dynamics.energy
        row = {"t": self.t, "energy": self.scaled_energy()}
        if self.dynamics.isotropic and energy is not None:
            row["dissipation"] = carried.field.dissipation(
                carried.moments, carried.points, carried.weights, velocity, scaled=True
            )
            row["work"] = energy.sign * float(np.exp(-energy.log_unit)) * carried.dissipated()
        row |= {
            "mass": measure.mass(),
            "metric_speed" if self.dynamics.isotropic else "speed": root_mean_square(
                velocity, carried.weights
            ),
            "size": measure.n_nodes,
            "steps": self.steps,
            "evaluations": carried.evaluations,
        }
        if self.dynamics.isotropic:
            row["particles"] = len(measure.points) - measure.n_nodes
            row["smooth_mass"] = carried.smooth_mass
        row["clusters"] = len(clusters(measure, CLUSTER_SIZE))
        if measure.n_nodes == len(measure.points):
            density = carried.density_at_nodes
            row |= {
                "min_density": float(density.min()),
                "max_density": float(density.max()),
                "entropy": measure.entropy(),
            }
        if self.dynamics.balanced:
            row["sinkhorn_energy"] = sinkhorn_energy(measure, self.dynamics.beta)
        return row


def root_mean_square(vectors: Array, masses: Array) -> float:
    """(Σ m |v|²)^{1/2} of rows (n, 3) with masses (n,)."""
    return float(np.sqrt(masses @ np.einsum("ij,ij->i", vectors, vectors)))
