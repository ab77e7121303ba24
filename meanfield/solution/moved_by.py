"""The dynamics of a run as attributes and variables of its file, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import xarray as xr

from meanfield.arguments import shown
from meanfield.dynamics import (
    ISOTROPIC,
    AnyDynamics,
    Attention,
    CircleInteraction,
    FeedForward,
    Layers,
    from_record,
    to_record,
)

_PLAIN = [kind.name for kind in ISOTROPIC]
_NAMES = [*_PLAIN, *(kind.name for kind in (Attention, CircleInteraction, FeedForward, Layers))]
# variables that hold the matrices of a dynamics
PREFIX = "dynamics_matrix_"


def attributes(dynamics: AnyDynamics) -> dict[str, Any]:
    """What a file says of the dynamics."""
    about = {"dynamics": dynamics.name, "beta": dynamics.beta, "noise": dynamics.noise}
    if isinstance(dynamics, ISOTROPIC):
        return about | {"sign": dynamics.sign}
    return about | {"dynamics_record": json.dumps(to_record(dynamics)[0])}


def variables(dynamics: AnyDynamics) -> dict[str, Any]:
    """The matrices of a dynamics as variables of a dataset; none for those without."""
    if isinstance(dynamics, ISOTROPIC):
        return {}
    _, matrices = to_record(dynamics)
    return {
        f"{PREFIX}{i}": (tuple(f"{PREFIX}{i}_axis_{axis}" for axis in range(m.ndim)), m)
        for i, m in enumerate(matrices)
    }


def names(stored: xr.Dataset) -> list[str]:
    """The names of the variables that hold matrices of the dynamics."""
    return [str(name) for name in stored.variables if str(name).startswith(PREFIX)]


def dynamics(stored: xr.Dataset) -> AnyDynamics:
    """The dynamics of a file.

    Raises
    ------
    ValueError
        If an attribute is missing, of another type or inconsistent with the matrices.
    """
    about: Mapping[Any, Any] = stored.attrs
    name = attribute(about, "dynamics", str)
    if name not in _NAMES and "dynamics_record" not in about:
        raise ValueError(f"dynamics must be one of {_NAMES}, got {name!r:.80}")
    if name in _PLAIN:
        numbers = {key: attribute(about, key, Real) for key in ("beta", "sign", "noise")}
        return from_record({"type": name} | numbers, [])
    text = attribute(about, "dynamics_record", str)
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"dynamics_record must be JSON, got {shown(text)}") from error
    count = len(names(stored))
    found = [f"{PREFIX}{i}" for i in range(count)]
    if not set(found) <= {str(each) for each in stored.variables}:
        raise ValueError(f"matrices of the dynamics must be {found}, got {names(stored)}")
    return from_record(record, [np.array(stored[each].values) for each in found])


def attribute(attributes: Mapping[Any, Any], name: str, kind: type) -> Any:
    """An attribute of a file.

    Raises
    ------
    ValueError
        If it is missing or of another type.
    """
    value = attributes.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"attribute {name} must be of type {kind.__name__}, got {shown(value)}")
    return value
