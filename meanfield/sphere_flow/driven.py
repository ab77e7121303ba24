"""A density on S^2 carried through any attention, feed-forward layers and `Layers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import number
from meanfield.dynamics import AnyDynamics, Isotropic, Layers
from meanfield.history import step_times
from meanfield.laws import Law
from meanfield.sphere_flow.run import SphereFlow
from meanfield.tendency import SphereDepthField, reach_of

Array = NDArray[np.float64]


class DrivenSphereFlow(SphereFlow):
    """mu_t on S^2 under fields that need not draw clusters together, layer after layer.

    Nothing is handed over to particles: what contracts now may be pulled apart later, by another
    layer or at another place. The monitors know no dissipation.

    Parameters
    ----------
    law : Law
        With a density on S^2.
    dynamics : SA, USA, Attention, FeedForward or Layers
        Without noise.
    tol, limit
        As of `SphereFlow`.

    Examples
    --------
    >>> from meanfield.dynamics import FeedForward
    >>> from meanfield.laws import Uniform
    >>> drift = FeedForward(W=[[0.0], [0.0], [1.0]], A=[[0.0, 0.0, 1.0]], activation="tanh")
    >>> flow = DrivenSphereFlow(Uniform(3), drift, tol=1e-6)
    >>> flow.advance(0.5)
    >>> bool(abs(flow.mass() - 1.0) < 1e-6)
    True
    """

    def __init__(
        self, law: Law, dynamics: AnyDynamics, *, tol: float = 1e-9, limit: int = 400_000
    ) -> None:
        self.moved_by = dynamics
        # the plain flow knows SA and USA only; what it does with others is done here
        plain = cast(Isotropic, dynamics)
        super().__init__(law, plain, tol=tol, limit=limit, cluster_radius=0.0)
        self._depth = cast(SphereDepthField, self.field)
        self._acting = self._depth.during(0.0, 0.0)

    def _start(self) -> tuple[Any, float]:
        steepness = max(reach_of(self.moved_by, self.dim), self.moved_by.beta)
        return SphereDepthField(self.moved_by), steepness

    def advance(self, t_end: float, report: Callable[[], None] = lambda: None) -> None:
        """Go on to a later time, through the layers on the way; `report` as in `SphereFlow`.

        Raises
        ------
        ValueError
            If t_end is not later than the present time.
        ArithmeticError
            If `limit` nodes do not resolve the density, or steps become too small.
        """
        t_end = number("t_end", t_end, above=self.t)
        ends = [t_end]
        if isinstance(self.moved_by, Layers):
            ends = [until for _, until in self.moved_by.between(self.t, t_end)]
        for until in ends:
            self._acting = self._depth.during(self.t, until)
            super().advance(until, report)

    def _rate(self, _: float, state: Array) -> Array:
        self.evaluations += 1
        points = state[: self.points.size].reshape(-1, 3)
        moments = self.field.moments(points, self.weights)
        velocity, divergence = self.velocity(moments, points)
        return np.concatenate([velocity.ravel(), -divergence[: self.n_nodes]])

    def velocity(self, moments: NDArray[Any], points: Array) -> tuple[Array, Array]:
        """X (n, 3) and div X (n,) of the layer that acts, where its nodes are at points (n, 3)."""
        return self._acting.velocity_and_divergence(moments, points, (points, self.weights))

    def _record(self, solver: Any) -> None:
        """Moments at the Lobatto points of the last step."""
        dense = solver.dense_output()
        states = (dense(t)[: self.points.size] for t in step_times(solver.t_old, solver.t))
        moments = [self.field.moments(state.reshape(-1, 3), self.weights) for state in states]
        self.history.append(float(solver.t), np.asarray(moments))
