"""Flow maps on S^2 without symmetry: new meshes, particles for clusters, moments that are kept."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from meanfield._checks import shown, tell_apart
from meanfield.dynamics.facts import Dynamics
from meanfield.equations.meshes import Meshes
from meanfield.equations.sphere import SphereTendency, field_on_sphere, split_mass
from meanfield.evolution.options import Options
from meanfield.evolution.recorder import Stop
from meanfield.evolution.steppers import LargestErrorSteps, Stepper
from meanfield.evolution.system import Kept, System, Verdict, density_numbers, moments_of_step
from meanfield.measures.clusters import clusters
from meanfield.measures.flow_map import SphereFlowMap
from meanfield.typing import Array

# patches must be small against the kernel's width: more of them would start a run than may end it
_LARGEST_REACH = 40.0
# time steps have order 2 only where X has kinks
_LEAST_TOL_AT_KINKS = 1e-6
# errors of single steps add up: this share of the tolerance for each
_STEP_SHARE = 0.3
_LEAST_STEP_TOL = 1e-13
_RTOL = 1e-13
# the dissipation of USA, which is not divided by G, sees errors of high moments more
_USA_SHARE = 0.3
# from one mesh to the next for clusters alone, while there is mass and when little is left
_REGATHER_AFTER, _REGATHER_LATE, _MASS_OF_LATE = 1.0, 2.5, 1e-4


def _attribute_of_meshes(name: str) -> Any:
    """A property of a system that is this attribute of its meshes."""
    return property(
        lambda system: getattr(system._meshes, name),
        lambda system, value: setattr(system._meshes, name, value),
    )


class SphereSystem(System[SphereFlowMap]):
    """A flow map on S^2 whose mesh is made anew when the flow has stretched it.

    The moments of the measure, kept as polynomials in time, fix the velocity at all times, so the
    density anywhere at any time follows from one backward characteristic. At the kinks of relu the
    flow map's `tol` counts as 1e-6 at least.

    Parameters
    ----------
    flow : SphereFlowMap
        At t = 0.
    dynamics : Dynamics
        Without noise.
    options : Options
        Its tolerances in time do not count: they are the flow map's own.

    Attributes
    ----------
    since : float
        When the last mesh was laid.
    has_maps : bool
        Whether label maps are laid.
    label_error : float
        The largest mass that a label map misplaced.

    Raises
    ------
    ValueError
        If the flow map has moved, |β KᵀQ| of a head is too large, or the law is not resolved.
    """

    kept: ClassVar[Kept] = {**System.kept, "since": float, "has_maps": bool, "label_error": float}
    integrator = LargestErrorSteps
    has_maps, label_error = _attribute_of_meshes("has_maps"), _attribute_of_meshes("label_error")

    def __init__(self, flow: SphereFlowMap, dynamics: Dynamics, options: Options) -> None:
        if flow.t > 0.0:
            raise ValueError(
                f"measure must be a flow map at t = 0 on S^2, got one of t = {flow.t:g}: evolve "
                f"it from its law to a later t_end"
            )
        if dynamics._reach > _LARGEST_REACH:
            name = "beta" if dynamics._isotropic else "beta |KᵀQ|"
            raise ValueError(
                f"{name} must be <= {_LARGEST_REACH:g} for a flow map on S^2, got "
                f"{tell_apart(dynamics._reach, _LARGEST_REACH)[0]}: take Particles"
            )
        tol = flow.tol if dynamics._smooth else max(flow.tol, _LEAST_TOL_AT_KINKS)
        scale = max(1.0, dynamics._reach)
        # a cluster is carried by particles of the same moments long before it is a point; where
        # the dynamics is not isotropic, what contracts may be pulled apart later
        absorbs = dynamics._isotropic and flow.atom_radius > 0.0
        self._meshes = Meshes(
            flow,
            field_on_sphere(dynamics),
            scale=scale,
            tol=tol * _USA_SHARE if dynamics._fast else tol,
            radius=1.0 / max(4.0, scale) if absorbs else 0.0,
        )
        self.since = self._saved = options.t_start
        try:
            first = self._meshes.first(flow)
        except ArithmeticError as error:
            raise ValueError(f"measure {shown(flow)} can't be run: {error}") from error
        first.tol = tol
        super().__init__(first, dynamics, options)

    def _equation(self, measure: SphereFlowMap) -> SphereTendency:
        return SphereTendency(measure, self._meshes.field, self.acting)

    def measure(self) -> SphereFlowMap:
        """The measure at the present time."""
        flow = super().measure()
        flow.t = self.t
        return flow

    def tolerances(self) -> tuple[float, Array]:
        """Relative tolerance, and absolute ones of each entry of the state."""
        tol = max(_LEAST_STEP_TOL, _STEP_SHARE * self._meshes.tol)
        return _RTOL, np.append(self.equation.errors(tol), tol)

    def failed(self, reason: str | None) -> Stop:
        """What ends the run where there is no next step, no rate or no mesh."""
        what = reason or "the state is no longer finite"
        return self.out_of_room(what, "`max_nodes` or `tol` of the flow map")

    def after(self, stepper: Stepper) -> Verdict:
        """Put the points back on the sphere, and lay a new mesh where that is due."""
        self._history.append(float(stepper.t), moments_of_step(stepper, self.equation.moments))
        points = self.equation.points(stepper.y)
        # the field depends on directions only, so the slope stays what it is
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        self.count(stepper)
        flow = self.measure()
        is_stretched = self._meshes.is_stretched(flow)
        if not is_stretched and not self._may_gather(flow):
            return Verdict.GO_ON
        try:
            divergence = partial(self.equation.divergence, self.state[:-1])
            absorption = self._meshes.absorption(flow, divergence)
            if not is_stretched and not self._meshes.is_worthwhile(flow, absorption):
                return Verdict.GO_ON
            renewed = self._meshes.renew(flow, absorption, self._history)
        except ArithmeticError as error:
            raise self.fault(error) from error
        self.adopt(self._equation(renewed), work=self.work)
        self.since = self.t
        if len(absorption.centres):
            self._history.absorptions.append(absorption)
        return Verdict.RESTART

    def _may_gather(self, flow: SphereFlowMap) -> bool:
        """Whether it is time to look for clusters."""
        smooth_mass = float(split_mass(flow)[0].sum())
        wait = _REGATHER_AFTER if smooth_mass > _MASS_OF_LATE else _REGATHER_LATE
        return self.t - self.since >= wait and smooth_mass >= self._meshes.tol

    def rebase(self, measure: SphereFlowMap) -> None:
        """Go on from a measure as it is saved, with the label maps that a restart may ask for.

        A run that is interrupted saves once more, but is restarted from the save before.
        """
        super().rebase(measure)
        if self.t > self._saved:
            labels = self._history.labels
            earlier = sum(one.time <= self._saved for one in labels)
            del labels[: max(0, earlier - 1)]
            self._saved = self.t

    def _numbers(self, measure: SphereFlowMap) -> dict[str, float]:
        particles = len(measure.points) - measure.n_nodes
        numbers = {"size": measure.n_nodes, **super()._numbers(measure)}
        numbers["label_error"] = self.label_error
        if self.dynamics._isotropic:
            numbers["n_atoms"] = len(measure.atoms)
            numbers["smooth_mass"] = float(split_mass(measure)[0].sum())
        numbers["n_clusters"] = len(clusters(measure))
        return numbers if particles else numbers | density_numbers(measure)
