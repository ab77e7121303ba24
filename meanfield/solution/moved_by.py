"""The dynamics of a run as attributes and variables of its file, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.arguments import shown
from meanfield.dynamics import KNOWN, AnyDynamics, ForgottenDynamics, Head
from meanfield.records import from_record, to_record

Array = NDArray[np.float64]
_KINDS = (*KNOWN, ForgottenDynamics, Head)
# variables that hold the matrices of a dynamics
PREFIX = "dynamics_matrix_"


def attributes(dynamics: AnyDynamics) -> dict[str, Any]:
    """What a file says of the dynamics."""
    about = {"dynamics": dynamics.name, "beta": dynamics.beta, "noise": dynamics.noise}
    record, _ = _record(dynamics)
    if "sign" in record:
        return about | {"sign": record["sign"]}
    return about | {"dynamics_record": json.dumps(record)}


def variables(dynamics: AnyDynamics) -> dict[str, Any]:
    """The matrices of a dynamics as variables of a dataset; none for those without."""
    _, matrices = _record(dynamics)
    return {
        f"{PREFIX}{i}": (tuple(f"{PREFIX}{i}_axis_{axis}" for axis in range(m.ndim)), m)
        for i, m in enumerate(matrices)
    }


def _record(dynamics: AnyDynamics) -> tuple[dict[str, Any], list[Array]]:
    matrices: list[Array] = []
    if type(dynamics) not in _KINDS:
        # of a user's own class this is all that can be kept
        about = dynamics.name, repr(dynamics), float(dynamics.beta), float(dynamics.noise)
        dynamics = ForgottenDynamics(*about)
    return to_record(dynamics, _KINDS, matrices), matrices


def variable_names(stored: xr.Dataset) -> list[str]:
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
    text = about.get("dynamics_record")
    record = _numbers(name, about) if text is None else _parsed(text)
    if "text" in record:
        # of a user's own class; earlier files have its name as the type
        record |= {"type": ForgottenDynamics.__name__, "name": name}
    present = variable_names(stored)
    expected = [f"{PREFIX}{i}" for i in range(len(present))]
    if set(expected) != set(present):
        raise ValueError(f"matrices of the dynamics must be {expected}, got {present}")
    found: AnyDynamics = from_record(
        record, _KINDS, [np.array(stored[each].values) for each in expected]
    )
    return found


def _numbers(name: str, about: Mapping[Any, Any]) -> dict[str, Any]:
    """The record of attention without matrices, whose numbers are attributes."""
    names = [kind.name for kind in KNOWN]
    if name not in names:
        raise ValueError(f"dynamics must be one of {names}, got {name!r:.80}")
    return {"type": name} | {key: attribute(about, key, Real) for key in ("beta", "sign", "noise")}


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"dynamics_record must be JSON, got {shown(text)}") from error


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
