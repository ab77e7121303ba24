"""A run of a flow map on S^2 under any attention, feed-forward layers and `Layers`."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import tell_apart
from meanfield.clustering import clusters
from meanfield.dynamics import AnyDynamics, FeedForward, Isotropic, Layers
from meanfield.integrate.options import Options
from meanfield.integrate.records import Records
from meanfield.integrate.sphere_run import CLUSTER_SIZE, SphereRun, root_mean_square
from meanfield.measures import SphereFlowMap
from meanfield.sphere_flow import DrivenSphereFlow, SphereFlow
from meanfield.tendency import reach_of

Array = NDArray[np.float64]

# patches must be small against the kernel's width: more of them would start a run than may end it
_LARGEST_REACH = 40.0
_LEAST_TOL_AT_KINKS = 1e-6


class DrivenSphereRun(SphereRun):
    """Time, counters and records of a run on S^2 that keeps its density on nodes.

    At the kinks of relu time steps have order 2 only: with such a layer the flow map's `tol` counts
    as 1e-6 at least.

    Parameters
    ----------
    flow : SphereFlowMap
        At t = 0.
    dynamics : Attention, FeedForward or Layers
    options : Options
        `cluster_radius` does not count.
    records : Records, optional
        Those of the run that this one takes over from.

    Raises
    ------
    ValueError
        If the flow map has moved, or |β KᵀQ| of a head is too large.
    """

    def __init__(
        self,
        flow: SphereFlowMap,
        dynamics: AnyDynamics,
        options: Options,
        records: Records | None = None,
    ) -> None:
        self.moved_by = dynamics
        reach = reach_of(dynamics, flow.dim)
        if reach > _LARGEST_REACH:
            raise ValueError(
                f"beta |KᵀQ| must be <= {_LARGEST_REACH:g} for a flow map on S^2, got "
                f"{tell_apart(reach, _LARGEST_REACH)[0]}: "
                f"take Particles"
            )
        # a plain run knows SA and USA only; what it does with others is done here
        super().__init__(flow, cast(Isotropic, dynamics), options, records)

    def _carried(self, flow: SphereFlowMap) -> SphereFlow:
        if isinstance(self.moved_by, (FeedForward, Layers)) and not self.moved_by.is_smooth:
            self._tol = max(flow.tol, _LEAST_TOL_AT_KINKS)
        limit = self.options.most_nodes
        return DrivenSphereFlow(flow.law, self.moved_by, tol=self._tol, limit=limit)

    def save(self) -> None:
        """Keep the measure and its numbers at the present time.

        Raises
        ------
        Stop
            If one of the numbers is not finite; it is kept all the same.
        """
        carried, measure = cast(DrivenSphereFlow, self.carried), self.measure()
        velocity, _ = carried.velocity(carried.moments, carried.points)
        density = carried.density_at_nodes
        row = {
            "t": self.t,
            "energy": self.scaled_energy(),
            "mass": measure.mass(),
            "speed": root_mean_square(velocity, carried.weights),
            "size": measure.n_nodes,
            "steps": self.steps,
            "evaluations": carried.evaluations,
            "clusters": len(clusters(measure, CLUSTER_SIZE)),
            "min_density": float(density.min()),
            "max_density": float(density.max()),
            "entropy": measure.entropy(),
        }
        self.records.save(measure, row)
