"""Dynamics as plain records and arrays, and back: what a file keeps of them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import shown
from meanfield.dynamics.doubly_stochastic import DoublyStochastic
from meanfield.dynamics.heads import Attention, Head
from meanfield.dynamics.interactions import CircleInteraction
from meanfield.dynamics.isotropic import SA, USA
from meanfield.dynamics.layers import FeedForward, Layer, Layers
from meanfield.dynamics.own import ForgottenDynamics, OwnDynamics

Array = NDArray[np.float64]
Isotropic = SA | USA | DoublyStochastic
MeanField = Isotropic | CircleInteraction
Field = MeanField | Attention | FeedForward | OwnDynamics
AnyDynamics = Field | Layers
# attention without matrices, which commutes with rotations
ISOTROPIC = (SA, USA, DoublyStochastic)
# all without matrices, which move every kind of measure
MEAN_FIELD = (*ISOTROPIC, CircleInteraction)
# all of the package
KNOWN = (*MEAN_FIELD, Attention, FeedForward, Layers)


def to_record(dynamics: AnyDynamics) -> tuple[dict[str, Any], list[Array]]:
    """A dynamics as a record of numbers, words and lists, and the matrices that it refers to.

    Examples
    --------
    >>> to_record(Attention(2.0, [Head(V=np.eye(2))]))[0]["heads"]
    [{'Q': 1.0, 'K': 1.0, 'V': {'matrix': 0}}]
    """
    matrices: list[Array] = []

    def kept(value: Any) -> Any:
        if np.ndim(value) == 0:
            return float(value)
        matrices.append(np.asarray(value))
        return {"matrix": len(matrices) - 1}

    def record(one: AnyDynamics) -> dict[str, Any]:
        if isinstance(one, Layers):
            parts = [record(layer) for layer in one.layers]
            return {"type": one.name, "step": one.step, "layers": parts}
        if isinstance(one, Attention):
            heads = [{k: kept(getattr(head, k)) for k in ("Q", "K", "V")} for head in one.heads]
            numbers = {"beta": one.beta, "normalise": one.normalise, "noise": one.noise}
            return {"type": one.name, "heads": heads} | numbers
        if isinstance(one, FeedForward):
            parts_of = {k: kept(getattr(one, k)) for k in ("W", "A", "b")}
            return {"type": one.name, "activation": one.activation} | parts_of
        if isinstance(one, CircleInteraction):
            series = {"sin": list(one.sin), "cos": list(one.cos)}
            return {"type": one.name, "coupling": one.coupling, "noise": one.noise} | series
        # of a user's own this is all that can be kept
        last = {"sign": one.sign} if isinstance(one, ISOTROPIC) else {"text": repr(one)}
        return {"type": one.name, "beta": one.beta, "noise": one.noise} | last

    return record(dynamics), matrices


def from_record(record: Any, matrices: list[Array]) -> AnyDynamics:
    """The dynamics of a record and its matrices.

    Raises
    ------
    ValueError
        If the record is not one of `to_record`.

    Examples
    --------
    >>> from_record({"type": "SA", "beta": 1.0, "sign": -1, "noise": 0.0}, [])
    SA(beta=1.0, sign=-1, noise=0.0)
    """

    def given(value: Any) -> Any:
        return matrices[value["matrix"]] if isinstance(value, dict) else value

    try:
        kind = record["type"]
        fields = {name: value for name, value in record.items() if name != "type"}
        if kind == "Layers":
            parts = [from_record(part, matrices) for part in fields["layers"]]
            return Layers(cast(list[Layer], parts), fields["step"])
        if kind == "Attention":
            heads = [Head(**{k: given(v) for k, v in head.items()}) for head in fields.pop("heads")]
            return Attention(heads=heads, **fields)
        if kind == "FeedForward":
            return FeedForward(**{k: given(v) for k, v in fields.items()})
        if "text" in fields:
            return ForgottenDynamics(kind, **fields)
        kinds: dict[str, type[MeanField]] = {kind.name: kind for kind in MEAN_FIELD}
        return kinds[kind](**fields)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"record of a dynamics must be one of to_record, got {shown(record)}"
        ) from error
