"""Laws as plain tables of numbers and words, which a file can keep, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meanfield.arguments import shown
from meanfield.laws.mixture import Mixture
from meanfield.laws.point_cloud import PointCloud
from meanfield.laws.protocol import Law
from meanfield.laws.series import FourierSeries, ZonalSeries
from meanfield.laws.uniform import Uniform
from meanfield.laws.vonmises_fisher import VonMisesFisher


def to_record(law: Law) -> dict[str, Any]:
    """A table of numbers, words and tables that tells the law.

    Raises
    ------
    ValueError
        If the law, or a part of it, is of no class of `meanfield.laws`.

    Examples
    --------
    >>> to_record(Uniform(3))
    {'type': 'Uniform', 'dim': 3}
    """
    name = {"type": type(law).__name__}
    match law:
        case Uniform():
            return name | {"dim": law.dim}
        case VonMisesFisher():
            return name | {"mean": law.mean.tolist(), "kappa": law.kappa}
        case FourierSeries():
            return name | {"cos": law.cos.tolist(), "sin": law.sin.tolist()}
        case ZonalSeries():
            about = {"dim": law.dim, "coefficients": law.coefficients.tolist()}
            return name | about | {"axis": law.axis.tolist()}
        case PointCloud():
            about = {"points": law.points.tolist(), "weights": law.weights.tolist()}
            return name | about | {"bandwidth": law.bandwidth}
        case Mixture():
            parts = [to_record(part) for part in law.laws]
            return name | {"laws": parts, "weights": law.weights.tolist()}
    raise ValueError(f"law must be of a class of meanfield to be kept in a file, got {shown(law)}")


def from_record(record: Mapping[str, Any]) -> Law:
    """The law of a table that `to_record` made.

    Raises
    ------
    ValueError
        If it is no such table.

    Examples
    --------
    >>> from_record({"type": "Uniform", "dim": 3})
    Uniform(dim=3)
    """
    classes: dict[str, Any] = {
        cls.__name__: cls
        for cls in (Uniform, VonMisesFisher, FourierSeries, ZonalSeries, PointCloud)
    }
    if not isinstance(record, Mapping):
        raise ValueError(f"law must be a table, got {shown(record)}")
    arguments = {name: value for name, value in record.items() if name != "type"}
    kind = record.get("type")
    if kind == "Mixture":
        parts = arguments.get("laws")
        if not isinstance(parts, list) or set(arguments) != {"laws", "weights"}:
            raise ValueError(f"law must be a mixture of laws with weights, got {sorted(arguments)}")
        return Mixture([from_record(part) for part in parts], arguments["weights"])
    if kind not in classes:
        raise ValueError(f"law must be one of {[*classes, 'Mixture']}, got {kind!r:.80}")
    try:
        law: Law = classes[kind](**arguments)
    except TypeError as error:
        raise ValueError(
            f"law {kind} must have other arguments than {sorted(arguments)}"
        ) from error
    return law
