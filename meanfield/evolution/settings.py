"""What a run may do, and what it must be given before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield._checks import generator, number, one_of, shown, tell_apart
from meanfield.dynamics import KNOWN, OwnDynamics
from meanfield.dynamics.facts import Dynamics
from meanfield.dynamics.own import Adapted, layer_step, tells_facts
from meanfield.dynamics.with_energy import adapt_energy, adapt_with
from meanfield.equations.sum_on_grid import check_on_space
from meanfield.equations.tendency import check_carried, check_moved, check_sums
from meanfield.kernels.direct import float32_error
from meanfield.measures import AnyMeasure, Density, FlowMap, LineFlowMap, Particles, check_measure
from meanfield.typing import Array

# a run does one of these with a density that its space does not resolve
STOP, FLOW_MAP = "stop", "flow-map"

# steps take no smaller relative tolerance
LEAST_RTOL = 3e-14
# the limits of the numbers of a run
_LIMITS: dict[str, dict[str, float]] = {
    "t_start": {"low": 0},
    "rtol": {"low": LEAST_RTOL, "high": 1e-2},
    "atol": {"above": 0},
}


@dataclass(frozen=True)
class Settings:
    """The tolerances, start and steps of a run: see the arguments of `evolve`."""

    rtol: float = 1e-9
    atol: float = 1e-12
    on_unresolved: str = STOP
    t_start: float = 0.0
    max_step: float | None = None


ON_UNRESOLVED = (FLOW_MAP, STOP)


def checked(given: Mapping[str, object]) -> Settings:
    """The settings that are given, each within its limits."""
    numbers = {name: number(name, given[name], **limits) for name, limits in _LIMITS.items()}
    choice = one_of("on_unresolved", given["on_unresolved"], ON_UNRESOLVED)
    max_step = given["max_step"]
    if max_step is not None:
        max_step = number("max_step", max_step, above=0)
    return Settings(**numbers, on_unresolved=choice, max_step=max_step)


# a time this near to a whole number of steps is one
ROUNDING = 1e-9


def checked_energy(measure: AnyMeasure, given: Any) -> OwnDynamics | None:
    """The dynamics whose energy is to be followed along a run of the measure, if there is one.

    Raises
    ------
    ValueError
        If it has no energy, or none of the measure.
    """
    check_measure("measure", measure)
    if given is None:
        return None
    adapted = adapt_energy("energy, if it is no dynamics,", given)
    rule = f"energy must be beta >= 0 or a dynamics that has one for {shown(measure)}"
    if adapted.energy_functional is None:
        raise ValueError(f"{rule}, got {shown(given)}: {adapted.why_no_energy}")
    if adapted.dim not in (None, measure.dim):
        raise ValueError(f"{rule}, got {shown(given)} of dim = {adapted.dim}")
    if measure.natural_frequencies is not None:
        allowed = "None where phases have frequencies, since these change it, too"
        raise ValueError(f"energy must be {allowed}, got {shown(given)}")
    # a dynamics that varies in time is kept as it was given, since a file stores it so
    return given if adapted.varies else adapted


def check_start(
    measure: AnyMeasure,
    dynamics: OwnDynamics,
    times: Array,
    *,
    rng: object,
    energy: OwnDynamics | None = None,
) -> Dynamics:
    """The dynamics that equations know; what can't be run is refused, before any work starts."""
    check_measure("measure", measure)
    if rng is not None:
        generator("rng", rng)
    _check_kind(dynamics)
    known, is_flow = adapt_with(dynamics, energy), layer_step(dynamics) is None
    layer: Any = dynamics
    if not is_flow:
        layer = layer.dynamics
        if not isinstance(measure, Particles) or measure.natural_frequencies is not None:
            subject = f"{shown(dynamics)}, which has no flow, got {shown(measure)}"
            raise ValueError(f"measure must be Particles under {subject}")
    if not tells_facts(layer):
        _check_name(layer)
    check_moved(measure, known)
    layers, t_start, t_end = known.representatives, float(times[0]), float(times[-1])
    instances = [instance for each in layers for instance in each.instances_from(t_start)]
    # an object that a user wrote is the same at all knots, and is checked once
    for term in {
        id(term): term for instance in instances for _, term in instance.weighted_terms
    }.values():
        if isinstance(term, Adapted):
            term.try_on(measure)
    if t_end > known.depth * (1.0 + ROUNDING):
        got, depth = tell_apart(t_end, known.depth)
        raise ValueError(f"t_end must be <= {depth}, the depth of {shown(known)}, got {got}")
    # an output may be undefined for this measure and says so; those that users wrote were tried
    # above
    for _, term in known.at(t_start).weighted_terms:
        if term.known_by_output and not isinstance(term, Adapted):
            term.output(measure, measure.points[:1])
    if isinstance(measure, Particles):
        for each in layers if is_flow else ():
            for instance in each.instances:
                check_sums(measure, instance, may_span=instance.noise == 0.0)
        if known.noise > 0.0:
            generator("rng, which noise needs,", rng)
        return known
    if isinstance(measure, FlowMap):
        _check_flow_layers(known)
        if known.noise > 0.0:
            fault = f"got {known.noise:g}: take a Density or Particles"
            raise ValueError(f"noise must be 0 to evolve {shown(measure)}, {fault}")
        if isinstance(measure, LineFlowMap):
            # this call refuses a β, or a drift, that these nodes can't resolve
            terms = (term for instance in known.instances for _, term in instance.weighted_terms)
            reach = known.reach if any(term.is_isotropic for term in terms) else 0.0
            measure.resolve(reach, known.steepness, measure.max_nodes)
    else:
        for _, term in (term for instance in instances for term in instance.weighted_terms):
            if not term.is_isotropic:
                check_on_space(measure.space, term)
    return known


def _check_flow_layers(dynamics: Dynamics) -> None:
    for layer in dynamics.representatives:
        if layer.mover.is_balanced and layer is not dynamics:
            fault = f"got {shown(layer)}: take Particles or a Density"
            raise ValueError(f"layers must be no DoublyStochastic for a flow map, {fault}")


def check_float32(measure: AnyMeasure, dynamics: Dynamics, tolerances: Mapping[str, float]) -> None:
    """Refuse tokens in float32 whose sums have no proven error, or whose steps would follow theirs.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : Dynamics
    tolerances : mapping of str to float
        Those that steps follow, by name.

    Raises
    ------
    ValueError
        Naming `sums`, or the tolerance, and what is allowed.
    """
    if getattr(measure, "sums", None) != "float32":
        return
    if dynamics.varies:
        raise ValueError(f"sums must not be 'float32' where weights vary in time, got {dynamics}")
    for _, layer in (term for each in dynamics.representatives for term in each.weighted_terms):
        if layer.score_matrices and not layer.is_balanced:
            name = "β" if layer.reach == getattr(layer, "beta", None) else "|z|"
            float32_error(layer.reach, measure.dim, measure.weights, name)
            for name, value in tolerances.items():
                number(f"{name} of tokens with sums='float32'", value, low=1e-6)


def choose_on_unresolved(measure: AnyMeasure, dynamics: Dynamics, choice: str | None) -> str:
    """Choose what an unresolved density does: as asked for, else as it can.

    Raises
    ------
    ValueError
        Naming the argument, if a flow map is asked for where none is possible.
    """
    if choice is not None:
        one_of("on_unresolved", choice, ON_UNRESOLVED)
    if choice == STOP or not isinstance(measure, Density):
        return STOP
    try:
        _check_flow_map(measure, dynamics)
    except ValueError:
        if choice is None:
            return STOP
        raise
    return FLOW_MAP


def _check_flow_map(density: Density, dynamics: Dynamics) -> None:
    _check_flow_layers(dynamics)
    check_carried(density, dynamics)
    if density.natural_frequencies is not None:
        raise ValueError(f"on_unresolved must be 'stop' for {shown(density)}, got {FLOW_MAP!r}")
    if dynamics.noise > 0.0:
        got = f"{FLOW_MAP!r} and noise = {dynamics.noise:g}"
        raise ValueError(f"on_unresolved must be 'stop' with noise, got {got}")


def _check_kind(dynamics: object) -> None:
    attributes = [name for name in ("kernel", "heads", "output") if hasattr(dynamics, name)]
    lacking = [name for name in ("name", "noise") if not hasattr(dynamics, name)]
    lacking += [] if attributes else ["a kernel, heads() or output()"]
    if isinstance(dynamics, type) or lacking:
        names = ", ".join(kind.__name__ for kind in KNOWN)
        # if all three are missing, the rule itself says it
        without = f" without {' and '.join(lacking)}" if 0 < len(lacking) < 3 else ""
        raise ValueError(
            f"dynamics must be {names}, or have name, "
            f"noise and a kernel, heads() or output(), got {shown(dynamics)}{without}"
        )


def _check_name(dynamics: OwnDynamics) -> None:
    taken = [kind.__name__ for kind in KNOWN]
    if not isinstance(dynamics.name, str) or dynamics.name in ("", *taken):
        raise ValueError(
            f"name of {shown(dynamics)} must be a word but {taken}, got {shown(dynamics.name)}"
        )


def layer_times(times: Array, step: float, names: tuple[str, str] = ("t_start", "t_end")) -> Array:
    """The whole numbers of steps nearest to the times, of which the first and last have names.

    Those that are one but for rounding stay as they are.

    Raises
    ------
    ValueError
        If the first or the last time is none.
    """
    counts = np.round(times / step)
    off = np.abs(times / step - counts)
    is_whole = off <= ROUNDING * counts
    for name, time, whole in zip(names, times[[0, -1]], is_whole[[0, -1]], strict=True):
        if not whole:
            raise ValueError(f"{name} must be a whole number of steps of {step:g}, got {time:g}")
    # the start and the end count as themselves even if another time is as near
    off[[0, -1]] = -1.0
    nearest = np.lexsort((off, counts))
    nearest = nearest[np.unique(counts[nearest], return_index=True)[1]]
    return np.where(is_whole, times, counts * step)[nearest]


def checked_about(about: Mapping[str, str | int | float] | None) -> dict[str, str | int | float]:
    """Return `about` as a dictionary of words and numbers."""
    entries = dict(about or {})
    for name, value in entries.items():
        if not isinstance(value, (str, int, float)):
            known = f"{name!r}: {shown(value)}"
            raise ValueError(f"about must map names to words and numbers, got {known}")
    return entries
