"""Flow maps: panels split on a line, meshes are laid anew on S^2, clusters are held as points.

The moments of the measure, kept as polynomials in time, fix the velocity at all times, so the
density anywhere at any time follows from one backward characteristic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np

from meanfield._checks import shown, tell_apart
from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.own import AsymmetryError, OutputError
from meanfield.equations.atoms import collapsed
from meanfield.equations.history import step_times
from meanfield.equations.in_time import InTime
from meanfield.equations.line import LineTendency, field_on_line
from meanfield.equations.meshes import Meshes
from meanfield.equations.rates import fields_of_layers
from meanfield.equations.sphere import SphereTendency, field_on_sphere, split_mass
from meanfield.evolution.settings import LEAST_RTOL, Settings
from meanfield.evolution.steppers import LargestErrorSteps, Stepper
from meanfield.evolution.system import AnySystem, Kept, Stop, System, Verdict
from meanfield.exceptions import Status
from meanfield.measures.clusters import clusters
from meanfield.measures.flow_map import FlowMap
from meanfield.measures.line_flow_map import FREE, REACH, LineFlowMap
from meanfield.measures.sphere_flow_map import SphereFlowMap
from meanfield.typing import Array

_log = logging.getLogger(__name__)

# errors of single steps add up, so each step has this share of the tolerance
_SHARE_ON_LINE, _SHARE_ON_S2 = 0.1, 0.3
# time steps have order 2 and panels order 3 where X has kinks, so tolerances are no smaller than
# these
_KINKS_ON_LINE, _KINKS_ON_S2 = 1e-7, 1e-6
# from this reach of a kernel on, a run says beforehand how many nodes it takes
_LARGE_REACH = 1000.0
# a flow map made for an axis with a smaller tol continues on S² with this one
_TOL_ON_S2 = 1e-9
# for a larger reach more patches would be needed at the start than a run may have at its end
_LARGEST_REACH = 40.0
_RTOL_ON_S2 = _LEAST_ON_S2 = 1e-13
# the dissipation of USA, which is not divided by G, is more sensitive to errors of high moments
_USA_SHARE = 0.3
# the times between two meshes that are laid for clusters alone: while there is mass, and once
# little is left
_REGATHER_AFTER, _REGATHER_LATE, _MASS_OF_LATE = 1.0, 2.5, 1e-4


def system_for(flow: FlowMap, dynamics: Dynamics, settings: Settings) -> AnySystem:
    """The system of a flow map of either form."""
    if isinstance(flow, SphereFlowMap):
        return SphereSystem(flow, dynamics, settings)
    line = cast(LineFlowMap, flow)
    try:
        return LineSystem(line, dynamics, settings)
    except AsymmetryError:
        if line.dim != 3 or not line.is_at_labels:
            raise
    # the law has an axis, but the dynamics will not keep it
    sphere_map = SphereFlowMap(line.law, tol=max(line.tol, _TOL_ON_S2), **line.run_limits)
    return SphereSystem(sphere_map, dynamics, settings)


def moments_of_step(stepper: Any, moments: Callable[[float, Array], Array], size: int) -> Array:
    """The moments that a history keeps of a step: so many entries at eight times."""
    dense = stepper.dense_output()
    return np.array([moments(t, dense(t)[:size]) for t in step_times(stepper.t_old, stepper.t)])


def density_numbers(flow: FlowMap) -> dict[str, float]:
    """The numbers of a save that the density at the nodes of a flow map has."""
    density = flow.node_density
    extremes = {"min_density": float(density.min()), "max_density": float(density.max())}
    return extremes | {"entropy": flow.entropy()}


class LineSystem(System[LineFlowMap]):
    """A flow map on a line that is kept resolved, with the moments of every step.

    A cluster becomes an atom only where the dynamics keeps clusters: elsewhere it may be pulled
    apart later, and its density would be lost. At the kinks of relu the flow map's `tol` counts as
    1e-7 at least.

    Parameters
    ----------
    flow : LineFlowMap
    dynamics : Dynamics
    settings : Settings
        Its tolerances in time do not count: they are the flow map's own.

    Attributes
    ----------
    adaptation : float
        What the energy gained by splits and atoms.
    keeps_history : bool
        Whether characteristics lead back to the law.

    Raises
    ------
    ValueError
        If a layer can't move the flow map.
    """

    remedy: ClassVar[str] = "a larger `tol` of the flow map"
    kept: ClassVar[Kept] = {**System.kept, "adaptation": float, "keeps_history": bool}

    def __init__(self, flow: LineFlowMap, dynamics: Dynamics, settings: Settings) -> None:
        if dynamics.reach > _LARGE_REACH:
            _log.info("tables of the kernel for a reach of %g", dynamics.reach)
        # a layer that can't be run is refused before any work starts
        make = partial(field_on_line, dynamics, flow.dim, flow.axis)
        self._field = fields_of_layers(dynamics, make)
        if not dynamics.is_smooth:
            flow = flow.moved_to(tol=max(flow.tol, _KINKS_ON_LINE))
        self._reach = REACH / max(1.0, dynamics.reach)
        self._radius = flow.atom_radius if dynamics.keeps_clusters else 0.0
        self.adaptation = 0.0
        instances = [instance for layer in dynamics.representatives for instance in layer.instances]
        lines = (part.line for instance in instances for part in self._field(instance).parts)
        fixed = all(instance.known_by_moments for instance in instances)
        self.keeps_history = fixed and flow.is_at_labels and all(line.relative for line in lines)
        super().__init__(flow.refine(self._reach, dynamics.steepness), dynamics, settings)

    def outlook(self) -> str:
        """How many nodes a kernel of large reach makes."""
        reach, count = self.dynamics.reach, len(self.equation.flow.angles)
        return f"{count} nodes, for a reach of {reach:g}" if reach > _LARGE_REACH else ""

    def _equation(self, flow: LineFlowMap) -> LineTendency | InTime[LineTendency]:
        def under(layer: Dynamics) -> LineTendency:
            return LineTendency(flow, layer, self._field(layer))

        acting = self.acting
        return InTime(lambda t: under(acting.at(t)), self.t) if acting.varies else under(acting)

    def tolerances(self) -> tuple[float, Array]:
        """Relative tolerance, and absolute ones of each entry of the state."""
        tol = _SHARE_ON_LINE * self.equation.flow.tol
        allowed = self.equation.allowed_errors(self.state[: self._size], tol)
        return LEAST_RTOL, np.append(allowed, np.full(len(self.works), tol))

    def after(self, stepper: Stepper) -> Verdict:
        """Split panels and hold clusters as atoms where that is due."""
        if self.keeps_history:
            # without a unit of time: where β gives one, no line keeps a history
            equation = self.equation
            charges = moments_of_step(stepper, lambda t, y: equation.at(t).charges(y), self._size)
            self._history.append(float(stepper.t), charges)
        self.count(stepper)
        flow = self.equation.measure(self.state[: self._size])
        divergence = np.zeros(len(flow.angles))
        rate = stepper.f[: self._size] / self.unit
        divergence[flow.owners == FREE] = self.equation.divergence_at_nodes(rate)
        held = collapsed(flow, divergence, self._radius)
        if held is not flow:
            gap = self._change_to(held)
            self.collapses.append((self.t, len(held.atom_angles), gap))
        finer = held.refine(self._reach, self.dynamics.steepness, flow.max_nodes)
        if finer is not held:
            if (count := len(finer.angles)) > flow.max_nodes:
                allowed = f"more than the {flow.max_nodes} allowed"
                reason = f"the flow map would take {count} nodes, {allowed}"
                raise self.out_of_room(reason, "`max_nodes` or `tol` of the flow map")
            self._change_to(finer)
        return Verdict.GO_ON if finer is flow else Verdict.RESTART

    def _change_to(self, flow: LineFlowMap) -> float:
        """Continue with another flow map of the same measure.

        Return what the energy gained by it.
        """
        before = self.scaled_energy() if self._is_adapted else 0.0
        self.adopt(self._equation(flow), works=self.works)
        gap = self.scaled_energy() - before if self._is_adapted else 0.0
        self.adaptation += gap
        return gap

    @property
    def _is_adapted(self) -> bool:
        """Return whether splits and atoms may change the energy by more than the nodes' tolerance.

        Not where the dynamics has heads: no atoms are made.
        """
        return self.energy is not None and self.dynamics.is_isotropic

    def finished(self) -> tuple[Status, str]:
        """How the run ended: clustered if all mass is one atom at rest."""
        flow = self.equation.flow
        is_one_atom = len(flow.atom_angles) == 1 and (flow.owners != FREE).all()
        if self.dynamics.is_isotropic and is_one_atom:
            after = f"at t = {self.t:g} after {self.steps} steps"
            return "clustered", f"clustered {after}: all mass is one atom"
        return super().finished()

    def numbers(self, flow: LineFlowMap) -> dict[str, float]:
        numbers = {
            "tail": flow.tail,
            "size": len(flow.angles),
            **super().numbers(flow),
            "n_atoms": len(flow.atom_angles),
            "n_clusters": len(clusters(flow)),
        }
        if self._is_adapted:
            numbers["adaptation"] = self.adaptation
        if flow.has_density:
            numbers |= density_numbers(flow)
        return numbers


def _attribute_of_meshes(name: str) -> Any:
    """Return a property that reads and sets this attribute of the meshes of a system."""
    return property(
        lambda system: getattr(system.meshes, name),
        lambda system, value: setattr(system.meshes, name, value),
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
    settings : Settings
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

    remedy: ClassVar[str] = LineSystem.remedy
    kept: ClassVar[Kept] = {**System.kept, "since": float, "has_maps": bool, "label_error": float}
    integrator = LargestErrorSteps
    has_maps, label_error = _attribute_of_meshes("has_maps"), _attribute_of_meshes("label_error")

    def __init__(self, flow: SphereFlowMap, dynamics: Dynamics, settings: Settings) -> None:
        if flow.t > 0.0:
            fault = f"got one of t = {flow.t:g}: evolve it from its law to a later t_end"
            raise ValueError(f"measure must be a flow map at t = 0 on S^2, {fault}")
        if dynamics.reach > _LARGEST_REACH:
            name = "beta" if dynamics.is_isotropic else "beta |KᵀQ|"
            fault = f"got {tell_apart(dynamics.reach, _LARGEST_REACH)[0]}: take Particles"
            raise ValueError(f"{name} must be <= {_LARGEST_REACH:g} for a flow map on S^2, {fault}")
        tol = flow.tol if dynamics.is_smooth else max(flow.tol, _KINKS_ON_S2)
        reach = max(1.0, dynamics.reach)
        # particles with the same moments carry a cluster long before it is a point; a dynamics that
        # is not isotropic may pull a cluster apart later
        absorbs = dynamics.gathers_clusters and flow.atom_radius > 0.0
        self.meshes = Meshes(
            flow,
            field_on_sphere(dynamics),
            reach=reach,
            tol=tol * _USA_SHARE if dynamics.has_kernel_unit else tol,
            radius=1.0 / max(4.0, reach) if absorbs else 0.0,
        )
        self.since = self._saved = settings.t_start
        try:
            start = self.meshes.first(flow)
        except ArithmeticError as error:
            raise ValueError(f"measure {shown(flow)} can't be run: {error}") from error
        start.tol = tol
        super().__init__(start, dynamics, settings)

    def _equation(self, measure: SphereFlowMap) -> SphereTendency | InTime[SphereTendency]:
        field, acting = self.meshes.field, self.acting
        if not acting.varies:
            return SphereTendency(measure, field, field.of(acting))
        return InTime(lambda t: SphereTendency(measure, field, field.at_time(t)), self.t)

    def measure(self) -> SphereFlowMap:
        """The measure at the present time."""
        flow = super().measure()
        flow.t = self.t
        return flow

    def measure_of(self, state: Array, t: float) -> SphereFlowMap:
        # only at t = 0 may the patches of the law be made anew
        flow = super().measure_of(state, t)
        flow.t = t
        return flow

    def tolerances(self) -> tuple[float, Array]:
        """Relative tolerance, and absolute ones of each entry of the state."""
        tol = max(_LEAST_ON_S2, _SHARE_ON_S2 * self.meshes.tol)
        allowed = self.equation.allowed_errors(self.state[: self._size], tol)
        return _RTOL_ON_S2, np.append(allowed, np.full(len(self.works), tol))

    def fault(self, error: Exception) -> Stop:
        """The message of a run that has no mesh, or that a user's own dynamics ends."""
        if isinstance(error, OutputError):
            return super().fault(error)
        return self.out_of_room(str(error), "`max_nodes` or `tol` of the flow map")

    def after(self, stepper: Stepper) -> Verdict:
        """Put the points back on the sphere, and lay a new mesh where that is due."""
        equation = self.equation
        moments = moments_of_step(stepper, lambda t, y: equation.at(t).moments(y), self._size)
        self._history.append(float(stepper.t), moments)
        points = self.equation.points(stepper.y)
        # the field depends on directions only, so normalising the points leaves the rate as it is
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        self.count(stepper)
        flow = self.measure()
        is_stretched = self.meshes.is_stretched(flow)
        if not is_stretched and not self._may_gather(flow):
            return Verdict.GO_ON
        try:
            divergence = partial(self.equation.at(self.t).divergence, self.state[: self._size])
            absorption = self.meshes.absorption(flow, divergence)
            if not is_stretched and not self.meshes.is_worthwhile(flow, absorption):
                return Verdict.GO_ON
            renewed = self.meshes.renew(flow, absorption, self._history)
        except ArithmeticError as error:
            raise self.fault(error) from error
        self.adopt(self._equation(renewed), works=self.works)
        self.since = self.t
        if len(absorption.centres):
            self._history.absorptions.append(absorption)
        return Verdict.RESTART

    def _may_gather(self, flow: SphereFlowMap) -> bool:
        """Return whether it is time to look for clusters."""
        smooth_mass = float(split_mass(flow)[0].sum())
        wait = _REGATHER_AFTER if smooth_mass > _MASS_OF_LATE else _REGATHER_LATE
        return self.t - self.since >= wait and smooth_mass >= self.meshes.tol

    def rebase(self, measure: SphereFlowMap) -> None:
        """Go on from a measure as it is saved, with the label maps that a restart may ask for.

        A run that is interrupted saves once more, but is restarted from the save before.
        """
        super().rebase(measure)
        if self.t > self._saved:
            labels = self._history.labels
            earlier = sum(label_map.time <= self._saved for label_map in labels)
            del labels[: max(0, earlier - 1)]
            self._saved = self.t

    def numbers(self, measure: SphereFlowMap) -> dict[str, float]:
        particles = len(measure.points) - measure.n_nodes
        numbers = {"size": measure.n_nodes, **super().numbers(measure)}
        numbers["label_error"] = self.label_error
        if self.dynamics.gathers_clusters:
            numbers["n_atoms"] = len(measure.atoms)
            numbers["smooth_mass"] = float(split_mass(measure)[0].sum())
        numbers["n_clusters"] = len(clusters(measure))
        return numbers if particles else numbers | density_numbers(measure)
