"""Measures as arrays over time, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.arguments import integer, real_array, shown
from meanfield.history import MomentHistory
from meanfield.measures import AnyMeasure, Density, FlowMap, LineFlowMap, Particles, SphereFlowMap
from meanfield.measures.density import SeriesLaw
from meanfield.solution import flows, oscillators, sphere_flows
from meanfield.spaces import Circle, Space, Sphere, Zonal, available
from meanfield.sphere_flow import History

Array = NDArray[np.float64]
AnyHistory = MomentHistory | History
# names that a file needs for itself
RESERVED = (
    *("t", "coefficients", "points", "weights", *oscillators.VARIABLES),
    *(*flows.VARIABLES, *flows.HISTORY, *sphere_flows.VARIABLES, *sphere_flows.HISTORY),
)

SIZE_NAME = "size of the space in use (n, lmax or kmax), or number of nodes"
PARTICLES, FLOW_MAP, SPHERE_FLOW = "particles", "flow-map", "flow-map-sphere"
_LAST_BITS = 1e-15
_LARGEST = 1 << 20


def kind(measure: AnyMeasure) -> dict[str, Any]:
    """What all measures of a run have in common: the space's name, dimension and axis, if any."""
    if (space := oscillators.space_of(measure)) is not None:
        return {"space": space, "dim": measure.dim}
    if isinstance(measure, Particles):
        sums = {} if measure.sums == "auto" else {"particle_sums": measure.sums}
        return {"space": PARTICLES, "dim": measure.dim} | sums
    if isinstance(measure, SphereFlowMap):
        return {"space": SPHERE_FLOW, "dim": measure.dim} | sphere_flows.attributes(measure)
    if isinstance(measure, LineFlowMap):
        return {"space": FLOW_MAP, "dim": measure.dim} | flows.attributes(measure)
    if not isinstance(measure, Density):
        raise ValueError(f"measures must be of a kind that a file can keep, got {measure}")
    found = {"space": measure.space.name, "dim": measure.dim}
    if isinstance(measure.space, Sphere):
        return found | {"library": measure.space.library}
    return found if measure.axis is None else found | {"axis": measure.axis}


def about(measures: list[AnyMeasure]) -> dict[str, Any]:
    """The attributes that tell the kind of a run's measures, of both kinds after a hand-over."""
    return kind(measures[-1]) | kind(measures[0])


def variables(measures: list[AnyMeasure], history: AnyHistory | None = None) -> dict[str, Any]:
    """The measures as variables of a dataset.

    Coefficients (t, coefficient, part) are those of the largest space in use, and `size` (t)
    tells each time's own; particles are `points` (t, token, axis) and `weights` (t, token). Flow
    maps, which may take over from densities, are as in `flows`; coefficients at their times are 0.

    Raises
    ------
    ValueError
        If the measures are not of one kind.
    """
    if oscillators.space_of(measures[0]) is not None:
        _check_kinds(measures)
        return oscillators.variables(measures, SIZE_NAME)
    particles = [measure for measure in measures if isinstance(measure, Particles)]
    densities = [measure for measure in measures if isinstance(measure, Density)]
    moving = [measure if isinstance(measure, LineFlowMap) else None for measure in measures]
    relaid = [measure if isinstance(measure, SphereFlowMap) else None for measure in measures]
    _check_kinds(measures[: len(densities)] or measures)
    _check_kinds(measures[len(densities) :] or measures)
    found: dict[str, Any] = {}
    if len(particles) not in (0, len(measures)):
        raise ValueError(f"measures must be of one kind, got {measures[0]} and {measures[-1]}")
    if particles:
        return _of_particles(particles)
    if any(moving):
        found |= flows.variables(moving, cast(MomentHistory | None, history))
    if any(relaid):
        found |= sphere_flows.variables(relaid, cast(History | None, history))
    if densities:
        counts = [len(m.weights) if isinstance(m, FlowMap) else 0 for m in measures]
        found |= _of_densities(densities, np.array(counts))
    return found


def _check_kinds(measures: list[AnyMeasure]) -> None:
    first = kind(measures[0])
    for other in map(kind, measures):
        # an axis normalised again may differ in a last bit
        same = np.allclose(first.get("axis", 0.0), other.get("axis", 0.0), rtol=0, atol=_LAST_BITS)
        if (first["space"], first["dim"]) != (other["space"], other["dim"]) or not same:
            raise ValueError(f"measures must be of one kind, got {first} and {other}")


def _of_particles(measures: list[Particles]) -> dict[str, Any]:
    numbers = {len(measure.weights) for measure in measures}
    if len(numbers) > 1:
        raise ValueError(f"measures must have equally many tokens, got {sorted(numbers)}")
    ways = {measure.sums for measure in measures}
    if len(ways) > 1:
        raise ValueError(f"measures must be summed in one way, got sums {sorted(ways)}")
    points = np.array([measure.points for measure in measures])
    masses = np.array([measure.weights for measure in measures])
    return {
        "points": (("t", "token", "axis"), points, flows.about("tokens on the unit sphere")),
        "weights": (("t", "token"), masses, flows.about("masses of the tokens")),
    }


def _of_densities(measures: list[Density], sizes: NDArray[np.int64]) -> dict[str, Any]:
    largest: Any = max((measure.space for measure in measures), key=lambda space: space.size)
    rows: NDArray[Any] = np.zeros(
        (len(sizes), largest.n_coefficients), dtype=largest.coefficient_type
    )
    for row, measure in zip(rows, measures, strict=False):
        space: Any = measure.space
        row[:] = space.embed(measure.coefficients, largest)
    parts = rows.view(np.float64).reshape(*rows.shape, -1)
    sizes[: len(measures)] = [measure.space.size for measure in measures]
    text = "spectral coefficients (real and imaginary part) in the largest space"
    return {
        "coefficients": (("t", "coefficient", "part"), parts, flows.about(text)),
        "size": ("t", sizes, {"long_name": SIZE_NAME}),
    }


def measures(stored: xr.Dataset) -> tuple[list[AnyMeasure], list[str]]:
    """The measures of a file, and the names of the variables that they were made from.

    Raises
    ------
    ValueError
        If an array is missing, has another shape than the sizes tell, or holds a NaN.
    """
    if stored.attrs.get("space") in (oscillators.TOKENS, oscillators.DENSITY):
        return oscillators.measures(stored)
    if stored.attrs.get("space") == PARTICLES:
        return _to_particles(stored), ["points", "weights"]
    found: list[AnyMeasure] = []
    if "coefficients" in stored.variables or not _counts_of_flows(stored):
        found = _to_densities(stored)
    moving = _to_flow_maps(stored, _first_law(found))
    found += [flow for flow in moving[len(found) :] if flow is not None]
    if len(found) != stored.sizes["t"]:
        raise ValueError(
            f"there must be a measure at each of {stored.sizes['t']} t, got {len(found)}"
        )
    own = ("coefficients", *flows.VARIABLES, *flows.HISTORY)
    others = (*sphere_flows.VARIABLES, *sphere_flows.HISTORY)
    return found, [name for name in (*own, *others) if name in stored.variables]


def _counts_of_flows(stored: xr.Dataset) -> list[str]:
    return [name for name in ("node_count", "flow_count") if name in stored.variables]


def _to_flow_maps(stored: xr.Dataset, first_law: SeriesLaw | None) -> Sequence[FlowMap | None]:
    """The flow maps of either form, None at times without one."""
    names = _counts_of_flows(stored)
    if not names:
        return []
    if names == ["node_count"]:
        return flows.flow_maps(stored, first_law)
    return sphere_flows.flow_maps(stored, first_law)


def history(stored: xr.Dataset) -> AnyHistory | None:
    """The moments that a file keeps, if any.

    Raises
    ------
    ValueError
        If they don't fit.
    """
    names = _counts_of_flows(stored)
    if not names:
        return None
    return flows.history(stored) if names == ["node_count"] else sphere_flows.history(stored)


def _to_particles(stored: xr.Dataset) -> list[AnyMeasure]:
    points = array(stored, "points", ("t", "token", "axis"))
    masses = array(stored, "weights", ("t", "token"))
    found: list[AnyMeasure] = []
    for x, w in zip(points, masses, strict=True):
        particles = Particles(x, w, sums=stored.attrs.get("particle_sums", "auto"))
        particles.points = _unturned(x, particles.points)
        particles.weights = _unturned(w, particles.weights)
        found.append(particles)
    return found


def _unturned(given: Array, normalised: Array) -> Array:
    """What was given, if normalising it again only turned last bits."""
    same = np.allclose(given, normalised, rtol=_LAST_BITS, atol=_LAST_BITS)
    kept = given.copy() if same else normalised
    kept.flags.writeable = False
    return kept


def _to_densities(stored: xr.Dataset) -> list[AnyMeasure]:
    parts = array(stored, "coefficients", ("t", "coefficient", "part"))
    if "size" not in stored or stored["size"].dims != ("t",):
        raise ValueError(f"size must be a variable over t, got {list(stored.variables)}")
    counts = stored["size"].values
    for name in _counts_of_flows(stored):
        counts = counts[stored[name].values == 0]
    sizes = [integer("size", size, low=3, high=_LARGEST) for size in counts]
    if not sizes:
        raise ValueError(f"size must tell a density at the first t, got {stored['size'].values}")
    expected = _shape(stored.attrs.get("space"), max(sizes))
    if parts.shape[1:] != expected:
        raise ValueError(
            f"coefficients must have shape {expected} at each t for size {max(sizes)}, "
            f"got {parts.shape[1:]}"
        )
    spaces = {size: _space(stored.attrs, size) for size in sorted(set(sizes))}
    largest: Any = spaces[max(sizes)]
    rows = parts.view(largest.coefficient_type)[..., 0]
    return [
        Density.from_coefficients(spaces[size], largest.embed(row, spaces[size]))
        for size, row in zip(sizes, rows, strict=False)
    ]


def _first_law(found: list[AnyMeasure]) -> SeriesLaw | None:
    first = found[0] if found else None
    return SeriesLaw(first) if isinstance(first, Density) else None


def _shape(space: Any, size: int) -> tuple[int, int]:
    """Shape (coefficient, part) of a space, told without making it."""
    if space == Circle.name:
        return size // 2, 2
    if space == Sphere.name:
        return (size + 1) * (size + 2) // 2, 2
    if space == Zonal.name:
        return size + 1, 1
    names = [Circle.name, Sphere.name, Zonal.name, PARTICLES]
    raise ValueError(f"space must be one of {names}, got {shown(space)}")


def _space(attributes: dict[Any, Any], size: int) -> Space:
    if attributes["space"] == Circle.name:
        return Circle(size)
    if attributes["space"] == Sphere.name:
        return Sphere(size, available(attributes.get("library", "ducc0")))
    axis = real_array("axis", attributes.get("axis", 0.0), 1)
    space = Zonal(len(axis), size, axis)
    space.axis = _unturned(axis, space.axis)
    return space


def array(stored: xr.Dataset, name: str, dims: tuple[str, ...]) -> Array:
    """The finite numbers of a variable.

    Raises
    ------
    ValueError
        If there is no such variable over these dimensions, or it holds a NaN.
    """
    if name not in stored.variables or stored[name].dims != dims:
        raise ValueError(f"{name} must be a variable over {dims}, got {list(stored.variables)}")
    return real_array(name, stored[name].values, len(dims))
