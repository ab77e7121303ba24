"""The tables of a case file: their keys and types, and one line for each thing that is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Annotated, Any, ClassVar, Literal, Union, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)

from meanfield.dynamics.attention import Attention, Head
from meanfield.dynamics.doubly_stochastic import DoublyStochastic
from meanfield.dynamics.isotropic import SA, USA
from meanfield.dynamics.layers import FeedForward, Layers
from meanfield.laws.mixture import Mixture
from meanfield.laws.series import FourierSeries, ZonalSeries
from meanfield.laws.uniform import Uniform
from meanfield.laws.von_mises_fisher import VonMisesFisher
from meanfield.spaces.circle import Circle
from meanfield.spaces.sphere import Sphere
from meanfield.spaces.zonal import Zonal

_LONGEST_VALUE = 80
# a key may be as long as its file
_LONGEST_LINE = 1000


class CaseError(ValueError):
    """A case that can't be run: one line with the file, the key, the value and what is allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(cut(one_line(message), _LONGEST_LINE))


class Fault(ValueError):
    """What is wrong, with its key and without its file."""


def one_line(text: str) -> str:
    r"""Return `text` on one line, with what can't be printed escaped.

    Examples
    --------
    >>> one_line("two\nlines, one\x1b[1m bell")
    'two lines, one\\x1b[1m bell'
    """
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in joined)


def shown_key(value: Any) -> str:
    """A value as a message shows it, cut where it is long."""
    return cut(repr(value))


def cut(text: str, longest: int = _LONGEST_VALUE) -> str:
    """A text that is not longer than a message allows."""
    return text if len(text) <= longest else f"{text[: longest - 2]} …"


@contextmanager
def located(where: str, keys: Iterable[str]) -> Iterator[None]:
    """Put the key in front of a ValueError whose message opens with one of `keys`, else `where`."""
    try:
        yield
    except Fault:
        raise
    except ValueError as error:
        message = str(error)
        dot = "." if message.partition(" ")[0] in keys else ": "
        raise Fault(f"{where}{dot}{message}") from None


_AXIS = "a unit vector, dim numbers; the last unit vector if left out"
_DIM = "the ambient dimension d, 2 to 1024; that of the other table if left out"
MOST_MONITORS, MOST_SAVES = 256, 10**7
_ROWS = {"type": "array", "minItems": 1, "items": {"type": "array", "items": {"type": "number"}}}


class KeyFault(ValueError):
    """A key that is unknown or missing in a table; the message opens with it."""


class UnknownKey(KeyFault):
    """A key that is unknown among those of its table."""

    def __init__(self, key: str, here: Iterable[str]) -> None:
        self.key, self.here = key, list(here)
        super().__init__(f"{key} is an unknown key: the keys here are {', '.join(self.here)}")


class Table(BaseModel):
    """A table with these keys and no others.

    Attributes
    ----------
    made : type, optional
        What is made of it by its keys.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    made: ClassVar[Any] = None

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            fields = cls.model_fields
            for key in data:
                if key not in fields:
                    raise UnknownKey(str(key), fields)
            for key, field in fields.items():
                if field.is_required() and key not in data:
                    raise KeyFault(f"{key} is missing: it must be {field.description}")
        return data


def told(description: str, default: Any = None, **limits: Any) -> Any:
    """A key that may be left out, with what the JSON schema says of it."""
    return Field(default=default, description=description, json_schema_extra=limits or None)


def _number_or_matrix(value: Any) -> Any:
    rows = value if isinstance(value, list) else [[value]]
    are_rows = all(isinstance(row, list) for row in rows)
    entries = [entry for row in rows for entry in row] if are_rows else [None]
    if (
        any(isinstance(entry, bool) or not isinstance(entry, (int, float)) for entry in entries)
        or len({len(row) for row in rows}) != 1
    ):
        raise ValueError(
            f"must be a number or a list of equal rows of numbers, got {shown_key(value)}"
        )
    return value


# one message for a union of two types, and not one for each
_AS_READ = {
    float | list[list[float]]: Annotated[
        Any,
        BeforeValidator(_number_or_matrix),
        WithJsonSchema({"anyOf": [{"type": "number"}, _ROWS]}),
    ]
}


def _table(made: Any, name: str = "", default: Any = ..., parts: Any = None) -> Any:
    """The table whose keys are the arguments of a dataclass.

    Parameters
    ----------
    made : type
        A dataclass whose fields have metadata by `meanfield.laws.record.key`.
    name : str
        That of its type, if there are tables of several.
    default : str, optional
        The type of a table that tells none.
    parts : type, optional
        Of the tables in lists of tables.
    """
    about = (made.__doc__ or "").partition("\n")[0]
    keys: dict[str, Any] = {}
    if name:
        keys["type"] = (Literal[name], Field(default=default, description=about))
    arguments = signature(made).parameters
    for field in (field for field in fields(made) if field.init):
        note, given = field.metadata, arguments[field.name].default
        hint = list[parts] if note["hint"] is list else _AS_READ.get(note["hint"], note["hint"])
        # the dimension may be told by another table
        given = None if field.name == "dim" else ... if given is Parameter.empty else given
        keys[field.name] = (
            hint if given is not None else hint | None,
            told(note["about"], list(given) if given == () else given, **note["limits"]),
        )
    model = create_model(
        f"{made.__name__}Table", __base__=Table, __module__=__name__, __doc__=about, **keys
    )
    model.made = made
    return model


class PointCloudTable(Table):
    """Tokens from a CSV file, smoothed by the heat kernel if there is a bandwidth."""

    type: Literal["point-cloud"] = Field(description="tokens from a CSV file")
    file: str = Field(description='the name of a CSV file, or "tokens-s2"')
    bandwidth: float | None = told(
        "the time of the heat kernel that smooths the tokens, > 0", exclusiveMinimum=0
    )


MixtureTable = _table(Mixture, "mixture", parts="AnyLawTable")
_LAWS = [
    _table(Uniform, "uniform"),
    _table(VonMisesFisher, "von-mises-fisher"),
    _table(FourierSeries, "fourier-series"),
    _table(ZonalSeries, "zonal-series"),
    PointCloudTable,
    MixtureTable,
]
AnyLawTable: Any = Annotated[Union[tuple(_LAWS)], Field(discriminator="type")]  # noqa: UP007
MixtureTable.model_rebuild()

HeadTable = _table(Head)
_LAYERS = [
    _table(SA, "SA", default="SA"),
    _table(USA, "USA"),
    _table(DoublyStochastic, "DoublyStochastic"),
    _table(Attention, "Attention", parts=HeadTable),
    _table(FeedForward, "FeedForward"),
]


def _type(data: Any) -> str:
    """Which dynamics a table is; SA has no type to give."""
    return str(data.get("type", "SA") if isinstance(data, dict) else getattr(data, "type", "SA"))


def _one_of(tables: list[Any]) -> Any:
    tagged = [Annotated[table, Tag(table.made.name)] for table in tables]
    return Annotated[Union[tuple(tagged)], Discriminator(_type)]  # noqa: UP007


AnyLayerTable = _one_of(_LAYERS)
AnyDynamicsTable = _one_of([*_LAYERS, _table(Layers, "Layers", parts=AnyLayerTable)])


class CircleTable(Table):
    """Fourier series of n modes."""

    made: ClassVar[Any] = Circle
    type: Literal["circle"] = Field(description="S^1: Fourier series")
    n: int = told(
        "the number of modes, even, 8 to 2^20", 256, minimum=8, maximum=2**20, multipleOf=2
    )


class SphereTable(Table):
    """Spherical harmonics of degree up to lmax."""

    made: ClassVar[Any] = Sphere
    type: Literal["sphere"] = Field(description="S^2: spherical harmonics")
    lmax: int = told("the largest degree, 3 to 2047", 63, minimum=3, maximum=2047)


class ZonalTable(Table):
    """Gegenbauer series of degree up to kmax about an axis."""

    made: ClassVar[Any] = Zonal
    type: Literal["zonal"] = Field(description="S^{d-1}: functions of <x, axis> alone")
    dim: int | None = told(_DIM, minimum=2, maximum=1024)
    kmax: int = told("the largest degree, 3 to 4095", 63, minimum=3, maximum=4095)
    axis: list[float] | None = told(_AXIS, minItems=2)


class ParticlesTable(Table):
    """n tokens of the law, by a seed for draws and noise; without n, those of a point cloud."""

    type: Literal["particles"] = Field(description="tokens instead of a density")
    n: int | None = Field(
        default=None, ge=1, le=10**7, description="how many are drawn; all of a cloud if left out"
    )
    seed: int = Field(default=0, ge=0, description="of draws and noise, >= 0")
    start: Literal["iid", "quantised"] = told("how they are drawn", "iid")
    sums: Literal["auto", "direct", "transforms", "gram"] = told("how they are summed", "auto")


class FlowMapTable(Table):
    """Nodes that move with the flow: the circle, or a law that is symmetric about an axis."""

    type: Literal["flow-map"] = Field(description="nodes that move with the flow")
    tol: float | None = told("the error in units of mass, > 0", exclusiveMinimum=0)
    axis: list[float] | None = told(
        "of the symmetry, where the law does not tell it: a unit vector", minItems=2
    )


SpaceTable = CircleTable | SphereTable | ZonalTable
AnySpaceTable = Annotated[SpaceTable | FlowMapTable | ParticlesTable, Field(discriminator="type")]


def _count_or_times(value: Any) -> Any:
    items, types = (value, (int, float)) if isinstance(value, list) else ([value], (int,))
    if any(isinstance(item, bool) or not isinstance(item, types) for item in items):
        raise ValueError(f"must be an integer >= 1 or a list of times, got {shown_key(value)}")
    return value


class RunTable(Table):
    """What `evolve` takes; what is left out is as evolve has it."""

    t_end: float = Field(
        description="the final time, a number > 0", json_schema_extra={"exclusiveMinimum": 0}
    )
    save_at: Annotated[int | list[float], BeforeValidator(_count_or_times)] = told(
        "that many equal intervals, at most 10^7, or a list of ascending times up to t_end",
        20,
        minimum=1,
        maximum=MOST_SAVES,
        minItems=1,
    )
    method: Literal["flow", "layers"] | None = told(
        'of tokens: "flow", the differential equation, or "layers", discrete steps'
    )
    step: float | None = told(
        'of tokens: of "layers", or the largest time step under noise, > 0', exclusiveMinimum=0
    )
    rtol: float | None = told(
        "the relative tolerance of a time step, 3e-14 to 1e-2", minimum=3e-14, maximum=1e-2
    )
    atol: float | None = told("the absolute tolerance of a time step, > 0", exclusiveMinimum=0)
    tail_tol: float | None = told(
        "the spectral tail beyond which the space doubles, 1e-15 to 1e-2",
        minimum=1e-15,
        maximum=1e-2,
    )
    largest: int | None = told("the largest n, lmax, kmax or number of nodes", minimum=1)
    cluster_radius: float | None = told(
        "the radius in radians at which a flow map's cluster becomes an atom, 0 to 1e-2",
        minimum=0,
        maximum=1e-2,
    )
    on_unresolved: Literal["stop", "flow-map"] | None = told(
        'what a density does that outgrows its space: "flow-map" goes on with nodes'
    )


class MonitorTable(Table):
    """A distance at the saves; p and gap, beta, and s are keys of one distance each."""

    distance: Literal["wasserstein", "mmd", "sobolev"] = told(
        "W_p, or in the attention kernel, or in the norm of H^s", "wasserstein"
    )
    p: float | None = told('of "wasserstein", 1 to 20', minimum=1, maximum=20)
    gap: float | None = told(
        'of "wasserstein": the relative width asked of a bracket, > 0', exclusiveMinimum=0
    )
    beta: float | None = told('of "mmd", >= 0; that of the dynamics if left out', minimum=0)
    s: float | None = told('of "sobolev", below -(d-1)/2; -1 if left out', exclusiveMaximum=0)
    to: Literal["uniform", "centre", "start"] | None = told(
        "the uniform measure, a Dirac at the present mean, or the start"
    )
    law: AnyLawTable | None = told("another law instead of `to`, a table")
    every: int = told("only every so many-th save, >= 1", 1, minimum=1)


class OutputTable(Table):
    """Where results go, relative to the present folder; the figure beside the file if left out."""

    file: str = told("the result, a name that ends in .nc", "run.nc", pattern=r"\.nc$")
    figure: str | None = told(
        "a name that ends in .png, .pdf or .svg; beside the file if left out",
        pattern=r"\.(png|pdf|svg)$",
    )


def tables_in(value: Any, where: str = "") -> Iterator[tuple[str, Table]]:
    """Each table of a case, or of a part of it, with its dotted key; that of the case is empty."""
    if isinstance(value, Table):
        yield where, value
        for name in type(value).model_fields:
            yield from tables_in(getattr(value, name), f"{where}.{name}" if where else name)
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from tables_in(one, f"{where}.{name}")
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from tables_in(one, f"{where}[{i}]")


def kinds(annotated: Any) -> str:
    """The types that a union of tables allows, as a message lists them."""
    tables = [getattr(one, "__origin__", one) for one in get_args(get_args(annotated)[0])]
    return ", ".join(
        kind for table in tables for kind in get_args(table.model_fields["type"].annotation)
    )


def union_fields(annotated: Any) -> dict[str, list[str]]:
    """The keys of each type of table in a union."""
    tables = [getattr(one, "__origin__", one) for one in get_args(get_args(annotated)[0])]
    return {
        kind: list(table.model_fields)
        for table in tables
        for kind in get_args(table.model_fields["type"].annotation)
    }


def nearest(fault: UnknownKey, path: str, keys: Iterable[str]) -> str:
    """The dotted keys that an unknown one in the table `path` may have meant, for a message.

    Examples
    --------
    >>> nearest(UnknownKey("beta", ["law", "run"]), "", ["dynamics.beta", "run.rtol"])
    '; did you mean dynamics.beta?'
    """
    found = [f"{path}.{name}".lstrip(".") for name in get_close_matches(fault.key, fault.here, 1)]
    if not found and not path:
        by_last: dict[str, list[str]] = {}
        for one in keys:
            by_last.setdefault(one.rpartition(".")[2], []).append(one)
        near = get_close_matches(fault.key, by_last, 1)
        found = [one for name in near for one in by_last[name]]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def schema_fault(
    error: ValidationError, raw: Any, kinds: Mapping[str, str], keys: Iterable[str]
) -> str:
    """The first thing that a schema finds wrong, as a sentence that opens with the dotted key.

    Parameters
    ----------
    error : ValidationError
    raw : dict
        What was validated.
    kinds : mapping of str to str
        The allowed types of each table that comes in several.
    keys : iterable of str
        All keys of a case, with dots.
    """
    fault: Any = error.errors(include_url=False)[0]
    path = _path(fault["loc"], raw)
    if fault["type"] == "union_tag_not_found":
        return f"{path}.type is missing: it must be one of {kinds[_last_name(fault)]}"
    if fault["type"] == "union_tag_invalid":
        kind = shown_key(fault["input"]["type"])
        return f"{path}.type must be one of {kinds[_last_name(fault)]}, got {kind}"
    if fault["type"] == "value_error":
        reason = fault["ctx"]["error"]
        dot = ("." if path else "") if isinstance(reason, KeyFault) else " "
        hint = nearest(reason, path, keys) if isinstance(reason, UnknownKey) else ""
        return f"{path}{dot}{reason}{hint}"
    if fault["type"] in {"model_type", "model_attributes_type", "dict_type"}:
        return f"{path} must be a table, got {shown_key(fault['input'])}"
    allowed = fault["msg"].replace("Input should be ", "must be ")
    return f"{path} {allowed}, got {shown_key(fault['input'])}"


def _path(loc: tuple[int | str, ...], raw: Any) -> str:
    """law.laws[1].kappa of ('law', 'mixture', 'laws', 1, 'von-mises-fisher', 'kappa')."""
    path, here = "", raw
    for item in loc:
        # the name of a member of a union is no key
        if isinstance(item, str) and not (isinstance(here, dict) and item in here):
            continue
        if isinstance(here, dict) and here.get("type") == item:
            continue
        path += f"[{item}]" if isinstance(item, int) else f".{item}" if path else item
        if isinstance(here, dict):
            here = here.get(str(item))
        elif isinstance(here, list) and isinstance(item, int):
            here = here[item]
    return path


def _last_name(fault: Any) -> str:
    name: str = next(item for item in reversed(fault["loc"]) if isinstance(item, str))
    return name
