"""The tables of a case file that say what moves the measure."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from meanfield.case.faults import shown
from meanfield.case.schema import Table, told
from meanfield.case.tables import LONGEST_LIST

# beyond it differences of e^{β<x,y>} between tokens are lost in rounding; tables of a kernel have
# some sqrt(β) entries a side
LARGEST_BETA, LARGEST_BETA_OF_TABLES = 1e8, 1e5
_BETA = "the inverse temperature, a number >= 0, at most 1e8 for tokens and 1e5 else"
_NOISE = "tau >= 0 of dx = X dt + sqrt(2 tau) dB"
_ROWS = {"type": "array", "minItems": 1, "items": {"type": "array", "items": {"type": "number"}}}


def _number_or_matrix(value: Any) -> Any:
    rows = value if isinstance(value, list) else [[value]]
    are_rows = all(isinstance(row, list) for row in rows)
    entries = [entry for row in rows for entry in row] if are_rows else [None]
    if (
        any(isinstance(entry, bool) or not isinstance(entry, (int, float)) for entry in entries)
        or len({len(row) for row in rows}) != 1
    ):
        raise ValueError(f"must be a number or a list of equal rows of numbers, got {shown(value)}")
    return value


Matrix = Annotated[
    Any,
    BeforeValidator(_number_or_matrix),
    WithJsonSchema({"anyOf": [{"type": "number"}, _ROWS]}),
]


class IsotropicTable(Table):
    """SA, USA or DoublyStochastic with a sign."""

    type: Literal["SA", "USA", "DoublyStochastic"] = told(
        "softmax self-attention, unnormalised, or with rows and columns of mass 1", "SA"
    )
    beta: float = Field(
        description=_BETA, json_schema_extra={"minimum": 0, "maximum": LARGEST_BETA}
    )
    sign: int | None = told("1 attractive (V = I), -1 repulsive (V = -I)", enum=[1, -1])
    noise: float = told(_NOISE, 0.0, minimum=0)


class HeadTable(Table):
    """One head; a number is that multiple of the identity."""

    Q: Matrix = told("the query matrix (m, d), a list of rows, or a number", 1.0)
    K: Matrix = told("the key matrix (m, d), a list of rows, or a number", 1.0)
    V: Matrix = told("the value matrix (d, d), a list of rows, or a number", 1.0)


class AttentionTable(Table):
    """Heads with matrices, with softmax or without."""

    type: Literal["Attention"] = Field(description="heads with queries, keys and values")
    beta: float = Field(
        description=_BETA, json_schema_extra={"minimum": 0, "maximum": LARGEST_BETA}
    )
    heads: list[HeadTable] = Field(
        description="a list of tables with Q, K or V",
        json_schema_extra={"minItems": 1, "maxItems": LONGEST_LIST},
    )
    normalise: bool = told("with softmax", True)
    noise: float = told(_NOISE, 0.0, minimum=0)


class FeedForwardTable(Table):
    """W σ(Ax + b), on each token by itself."""

    type: Literal["FeedForward"] = Field(description="a perceptron on each token by itself")
    W: list[list[float]] = Field(description="the outer matrix (d, m), a list of d rows")
    A: list[list[float]] = Field(description="the inner matrix (m, d), a list of m rows")
    b: list[float] | None = told("the shift, m numbers; zero if left out")
    activation: Literal["relu", "gelu", "tanh"] = told("σ, entry by entry", "relu")


LayerTable = IsotropicTable | AttentionTable | FeedForwardTable
_ISOTROPIC = ("SA", "USA", "DoublyStochastic")


def _kind(data: Any) -> str:
    """Which table it is, by its type; SA has none to give."""
    kind = data.get("type", "SA") if isinstance(data, dict) else getattr(data, "type", "SA")
    return "SA" if kind in _ISOTROPIC else str(kind)


AnyLayerTable = Annotated[
    Annotated[IsotropicTable, Tag("SA")]
    | Annotated[AttentionTable, Tag("Attention")]
    | Annotated[FeedForwardTable, Tag("FeedForward")],
    Discriminator(_kind),
]


class LayersTable(Table):
    """One dynamics after another, each for a time `step`."""

    type: Literal["Layers"] = Field(description="one dynamics after another")
    layers: list[AnyLayerTable] = Field(
        description="a list of tables, each a dynamics without noise",
        json_schema_extra={"minItems": 1, "maxItems": LONGEST_LIST},
    )
    step: float = told("the time that each layer acts, > 0", 1.0, exclusiveMinimum=0)


DynamicsTable = LayerTable | LayersTable
AnyDynamicsTable = Annotated[
    Annotated[IsotropicTable, Tag("SA")]
    | Annotated[AttentionTable, Tag("Attention")]
    | Annotated[FeedForwardTable, Tag("FeedForward")]
    | Annotated[LayersTable, Tag("Layers")],
    Discriminator(_kind),
]
