"""The tables of a case file: their keys and types, and one line for each thing that is wrong."""

from __future__ import annotations

import csv
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches
from importlib.resources import files
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Union, get_args

import numpy as np
import pydantic
from pydantic import Field

from meanfield._checks import integer, number, shown, unit_rows
from meanfield.dynamics import KNOWN, SA, Attention, Head, LayerMap
from meanfield.dynamics.isotropic import LARGEST_BETA
from meanfield.dynamics.layers import LAYERS
from meanfield.functionals.transport.distance import DistanceTo
from meanfield.laws import FourierSeries, Mixture, PointCloud, Uniform, VonMisesFisher, ZonalSeries
from meanfield.measures import AnyMeasure, Density, FlowMap, Particles
from meanfield.spaces import Circle, Sphere, Zonal
from meanfield.typing import Array


class Fault(ValueError):
    """What is wrong, with its key and without its file."""


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
        raise Fault(f"{where}{dot}{message}".lstrip(".")) from None


# as text and as lists of numbers it takes some ten times that in memory
_LARGEST_CLOUD = 1 << 28
BUNDLED = {"tokens-s2": "tokens_s2.csv"}


def read_points(file: str, folder: Path) -> Array:
    """The tokens of a CSV file, shape (n, d): unit rows; `file` may be a bundled name.

    Raises
    ------
    ValueError
        If there is no such file, it is no such table, or a row is no unit vector.
    """
    if file in BUNDLED:
        text = (files("meanfield") / "data" / BUNDLED[file]).read_text("utf-8")
    else:
        text = _cloud_text(folder / file)
    return unit_rows("points", _read(text))


def _cloud_text(path: Path) -> str:
    # a device or a pipe might never end
    if not path.is_file():
        state = "is no regular file" if path.exists() else "does not exist"
        raise ValueError(
            f"must be a CSV file or {' or '.join(map(repr, BUNDLED))}, but {path} {state}"
        )
    try:
        if (size := path.stat().st_size) > _LARGEST_CLOUD:
            raise ValueError(
                f"must be a CSV file of at most {_LARGEST_CLOUD} bytes, but {path} has {size}"
            )
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"must be a CSV file in UTF-8, but {path}: {error}") from None


def _read(text: str) -> Array:
    reader, rows = csv.reader(text.splitlines()), []
    try:
        header = next(reader, [])
        if len(header) < 2 or _numbers(header):
            raise ValueError(
                f"line 1 must be a header of d >= 2 names with commas between, got {shown(header)}"
            )
        for row in reader:
            rows.append(_numbers(row))
            if len(rows[-1]) != len(header):
                raise ValueError(
                    f"line {reader.line_num} must be {len(header)} numbers with commas between, "
                    f"got {','.join(row)!r:.80}"
                )
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} must be CSV, but {error}") from None
    if not rows:
        raise ValueError(f"must have at least one row below the header {','.join(header)!r:.80}")
    return np.array(rows)


def _numbers(row: list[str]) -> list[float]:
    """The numbers of a row, none where one field is none."""
    try:
        return [float(field) for field in row]
    except ValueError:
        return []


_AXIS = "a unit vector, dim numbers; the last unit vector if left out"
_DIM = "the ambient dimension d, 2 to 1024; that of the other table if left out"
# keys of a run that are the measure's
LIMITS = ("tail_tol", "max_size", "max_nodes", "atom_radius")
MOST_MONITORS, MOST_SAVES, MOST_NODES = 256, 10**7, 10**7
# coordinates of tokens, and numbers in matrices of heads: 2 GB
MOST_NUMBERS = 1 << 28
# tables of a kernel have some sqrt(β) entries a side
LARGEST_BETA_OF_TABLES = 1e5
_ROWS = {"type": "array", "minItems": 1, "items": {"type": "array", "items": {"type": "number"}}}


class KeyFault(ValueError):
    """A key that is missing, or unknown among those that are `here`; the message opens with it."""

    def __init__(self, key: str, problem: str, here: Iterable[str] = ()) -> None:
        self.key, self.here = key, list(here)
        super().__init__(f"{key} is {problem}{', '.join(self.here)}")


class Table(pydantic.BaseModel):
    """A table with these keys and no others."""

    model_config = pydantic.ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False
    )

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            fields = cls.model_fields
            for key in data:
                if key not in fields:
                    raise KeyFault(str(key), "an unknown key: the keys here are ", fields)
            for key, field in fields.items():
                if field.is_required() and key not in data:
                    raise KeyFault(key, f"missing: it must be {field.description}")
        return data

    @property
    def token_file(self) -> str:
        """The file beside the case that it refers to, "" if there is none."""
        return ""

    def check(self, case: Any) -> None:  # noqa: ARG002
        """Check the sizes that it asks for in a case, before anything is built.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        for key, field in type(self).model_fields.items():
            limits: Any = field.json_schema_extra or {}
            found, most = getattr(self, key), limits.get("maxItems")
            if most is not None and found is not None and len(found) > most:
                raise ValueError(f"{key} must have at most {most} entries, got {len(found)}")
            if key == "dim" and found is not None:
                integer(key, found, low=limits["minimum"], high=limits["maximum"])


class MadeTable(Table):
    """A table of which an object is made by its keys.

    Attributes
    ----------
    made : type
        Of the object.
    lists : list of str
        The keys that have lists of such tables.
    parts : list of str
        The keys that have one such table.
    """

    made: ClassVar[Any]
    lists: ClassVar[list[str]] = []
    parts: ClassVar[list[str]] = []

    def told_dim(self) -> int | None:
        """The dimension that it settles by itself."""
        return getattr(self, "dim", None)

    def build(self, where: str, dim: int | None = None, folder: Path = Path()) -> Any:
        """The object of the table `where`, in `dim` where the table leaves it open.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        with located(where, type(self).model_fields):
            dim = self.told_dim() if dim is None else dim
            arguments = {name: value for name, value in self if name != "type"}
            for name in self.lists:
                parts = enumerate(arguments[name])
                arguments[name] = [
                    one.build(f"{where}.{name}[{i}]", dim, folder) for i, one in parts
                ]
            for name in self.parts:
                arguments[name] = arguments[name].build(f"{where}.{name}", dim, folder)
            if "dim" in arguments and arguments["dim"] is None:
                if dim is None:
                    raise KeyFault("dim", "missing: it must be an integer >= 2")
                arguments["dim"] = dim
            return self.made(**arguments)

    def check(self, case: Any) -> None:
        """Check β and the matrices of heads, too.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        super().check(case)
        if (beta := getattr(self, "beta", None)) is not None:
            number("beta", beta, low=0, high=case.space.largest_beta)
        if heads := getattr(self, "heads", None):
            side = max(len(np.atleast_1d(m)) for head in heads for m in (head.Q, head.K, head.V))
            _check_product("heads", len(heads), side**2, "heads")


def _check_product(key: str, count: int, numbers: int, what: str) -> None:
    most = MOST_NUMBERS // numbers
    if count > most:
        raise ValueError(
            f"{key} must be at most {most} {what} of {numbers} numbers each, got {count}"
        )


def told(description: str, default: Any = None, **limits: Any) -> Any:
    """A key that may be left out, with what the JSON schema says of it."""
    return Field(default=default, description=description, json_schema_extra=limits or None)


def _number_or_matrix(value: Any) -> Any:
    rows = value if type(value) is list else [[value]]
    # a truth is no number
    are_rows = [
        type(row) is list and len(row) == len(rows[0]) and {*map(type, row)} <= {int, float}
        for row in rows
    ]
    if not (are_rows and all(are_rows)):
        raise ValueError(f"must be a number or a list of equal rows of numbers, got {shown(value)}")
    return value


# one message for a union of two types, and not one for each
_AS_READ = {
    float | list[list[float]]: Annotated[
        Any,
        pydantic.BeforeValidator(_number_or_matrix),
        pydantic.WithJsonSchema({"anyOf": [{"type": "number"}, _ROWS]}),
    ]
}


def _table(
    made: Any,
    name: str = "",
    *,
    default: Any = ...,
    parts: Any = None,
    told_dim: Callable[[Any], int | None] = MadeTable.told_dim,
) -> Any:
    """The table whose keys are the arguments of a dataclass.

    Parameters
    ----------
    made : type
        A dataclass whose fields have metadata by `meanfield._record.key`.
    name : str
        That of its type, if there are tables of several.
    default : str, optional
        The type of a table that tells none.
    parts : type, optional
        Of the tables inside.
    told_dim : callable, optional
        The dimension that a table settles by itself.
    """
    about = (made.__doc__ or "").partition("\n")[0]
    keys: dict[str, Any] = {}
    if name:
        keys["type"] = (Literal[name], Field(default=default, description=about))
    arguments = signature(made).parameters
    for field in (field for field in fields(made) if field.init):
        note, given = field.metadata, arguments[field.name].default
        hint = note["hint"]
        hint = {list: list[parts], dict: parts}.get(hint, _AS_READ.get(hint, hint))
        # the dimension may be told by another table
        given = None if field.name == "dim" else ... if given is Parameter.empty else given
        keys[field.name] = (
            hint if given is not None else hint | None,
            told(note["about"], list(given) if given == () else given, **note["limits"]),
        )
    model: Any = pydantic.create_model(
        f"{made.__name__}Table", __base__=MadeTable, __module__=__name__, __doc__=about, **keys
    )
    model.made, model.told_dim = made, told_dim
    hints = {field.name: field.metadata.get("hint") for field in fields(made)}
    model.lists = [name for name, hint in hints.items() if hint is list]
    model.parts = [name for name, hint in hints.items() if hint is dict]
    return model


def _one_of(tables: Iterable[Any], told_by: Any = "type") -> Any:
    return Annotated[Union[tuple(tables)], Field(discriminator=told_by)]  # noqa: UP007


class PointCloudTable(MadeTable):
    """Tokens from a CSV file, smoothed by the heat kernel if there is a bandwidth."""

    made: ClassVar[Any] = PointCloud
    type: Literal["point-cloud"] = Field(description="tokens from a CSV file")
    file: str = Field(description='the name of a CSV file, or "tokens-s2"')
    bandwidth: float | None = told(
        "the time of the heat kernel that smooths the tokens, > 0", exclusiveMinimum=0
    )

    @property
    def token_file(self) -> str:
        """Its file, but for a bundled one."""
        return "" if self.file in BUNDLED else self.file

    def points(self, where: str, folder: Path) -> Array:
        """The tokens in its file.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        try:
            return read_points(self.file, folder)
        except ValueError as error:
            raise Fault(f"{where}.file = {shown(self.file)}: {error}") from None

    def build(self, where: str, dim: int | None = None, folder: Path = Path()) -> Any:  # noqa: ARG002
        """The law of the tokens, whose dimension their file tells.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        with located(where, type(self).model_fields):
            return PointCloud(self.points(where, folder), bandwidth=self.bandwidth)


def _first_told(table: Any) -> int | None:
    return next((dim for dim in (law.told_dim() for law in table.laws) if dim is not None), None)


_LAWS: list[Any] = [
    _table(Uniform, "uniform"),
    _table(VonMisesFisher, "von-mises-fisher", told_dim=lambda table: len(table.mean)),
    _table(FourierSeries, "fourier-series", told_dim=lambda _: 2),
    _table(ZonalSeries, "zonal-series"),
    PointCloudTable,
    _table(Mixture, "mixture", parts="AnyLawTable", told_dim=_first_told),
]
AnyLawTable: Any = _one_of(_LAWS)
_LAWS[-1].model_rebuild()


def _type(data: Any) -> str:
    """Which dynamics a table is; SA has no type to give."""
    return str(data.get("type", "SA") if isinstance(data, dict) else getattr(data, "type", "SA"))


def _dynamics(tables: Iterable[Any]) -> Any:
    tagged = [Annotated[table, pydantic.Tag(table.made.__name__)] for table in tables]
    return _one_of(tagged, pydantic.Discriminator(_type))


def _dynamics_table(made: Any, parts: Any = None) -> Any:
    default = made.__name__ if made is SA else ...
    return _table(made, made.__name__, default=default, parts=_HEAD if made is Attention else parts)


_HEAD = _table(Head)
# those whose arguments are told as keys
_TOLD = [made for made in KNOWN if fields(made)[0].metadata]
_LAYERS = [_dynamics_table(made) for made in _TOLD if made in LAYERS]
_DYNAMICS = [_dynamics_table(made, _dynamics(_LAYERS)) for made in _TOLD if made is not LayerMap]
_DYNAMICS.append(_dynamics_table(LayerMap, _dynamics(_DYNAMICS)))
AnyDynamicsTable: Any = _dynamics(_DYNAMICS)


class SpaceTable(Table):
    """What a measure is stored on, be it nodes or tokens."""

    largest_beta: ClassVar[float] = LARGEST_BETA_OF_TABLES
    # what a run of its measure may do
    limits: ClassVar[tuple[str, ...]] = ()

    def dim_with(self, law: MadeTable) -> int | None:  # noqa: ARG002
        """The dimension that it has beside this law; None where only the law settles it."""
        return None

    @abstractmethod
    def measure(self, law: MadeTable, folder: Path, limits: dict[str, Any]) -> AnyMeasure:
        """The measure at t = 0; where one table leaves the dimension open, the other settles it.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """

    def rng(self) -> dict[str, np.random.Generator]:
        """The random numbers of a noisy run, as `evolve` takes them."""
        return {}


class GridTable(MadeTable, SpaceTable):
    """A space of spectral coefficients."""

    limits: ClassVar[tuple[str, ...]] = ("tail_tol", "max_size")

    def dim_with(self, law: MadeTable) -> int | None:
        """That of the grid."""
        return int(self.build("space", law.told_dim()).dim)

    def measure(self, law: MadeTable, folder: Path, limits: dict[str, Any]) -> AnyMeasure:
        """A density."""
        grid = self.build("space", law.told_dim())
        given = law.build("law", grid.dim, folder)
        return Density(grid, given, **limits)


class CircleTable(GridTable):
    """Fourier series of n modes."""

    made: ClassVar[Any] = Circle
    type: Literal["circle"] = Field(description="S^1: Fourier series")
    n: int = told(
        "the number of modes, even, 8 to 2^20", 256, minimum=8, maximum=2**20, multipleOf=2
    )


class SphereTable(GridTable):
    """Spherical harmonics of degree up to lmax."""

    made: ClassVar[Any] = Sphere
    type: Literal["sphere"] = Field(description="S^2: spherical harmonics")
    lmax: int = told("the largest degree, 3 to 2047", 63, minimum=3, maximum=2047)


class ZonalTable(GridTable):
    """Gegenbauer series of degree up to kmax about an axis."""

    made: ClassVar[Any] = Zonal
    type: Literal["zonal"] = Field(description="S^{d-1}: functions of <x, axis> alone")
    dim: int | None = told(_DIM, minimum=2, maximum=1024)
    kmax: int = told("the largest degree, 3 to 4095", 63, minimum=3, maximum=4095)
    axis: list[float] | None = told(_AXIS, minItems=2)


class ParticlesTable(SpaceTable):
    """n tokens of the law, by a seed for draws and noise; without n, those of a point cloud."""

    largest_beta: ClassVar[float] = LARGEST_BETA
    type: Literal["particles"] = Field(description="tokens instead of a density")
    n: int | None = Field(
        default=None, ge=1, le=10**7, description="how many are drawn; all of a cloud if left out"
    )
    seed: int = Field(default=0, ge=0, description="of draws and noise, >= 0")
    start: Literal["iid", "quantised"] = told("how they are drawn", "iid")
    sums: Literal["auto", "direct", "transforms", "gram"] = told("how they are summed", "auto")

    def measure(self, law: MadeTable, folder: Path, limits: dict[str, Any]) -> AnyMeasure:  # noqa: ARG002
        """Tokens."""
        if self.n is not None:
            drawn_from, rng = law.build("law", None, folder), np.random.default_rng(self.seed)
            start = Particles.sample if self.start == "iid" else Particles.quantise
            return start(drawn_from, self.n, rng, sums=self.sums)
        if isinstance(law, PointCloudTable) and law.bandwidth is None:
            return Particles(law.points("law", folder), sums=self.sums)
        raise Fault(
            "space.n is missing: it must be the number of tokens to draw from the law, >= 1"
        )

    def rng(self) -> dict[str, np.random.Generator]:
        """Those of the noise, apart from those of the start."""
        return {"rng": np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(1,)))}

    def check(self, case: Any) -> None:
        """Check how many numbers they are.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        dims = [table.told_dim() or 2 for _, table in tables_in(case.law)]
        _check_product("n", self.n or 0, max(dims), "tokens")


class FlowMapTable(SpaceTable):
    """Nodes that move with the flow: the circle, or a law that is symmetric about an axis."""

    limits: ClassVar[tuple[str, ...]] = ("max_nodes", "atom_radius")
    type: Literal["flow-map"] = Field(description="nodes that move with the flow")
    tol: float | None = told("the error in units of mass, > 0", exclusiveMinimum=0)
    axis: list[float] | None = told(
        "of the symmetry, where the law does not tell it: a unit vector", minItems=2
    )

    def measure(self, law: MadeTable, folder: Path, limits: dict[str, Any]) -> AnyMeasure:
        """A flow map."""
        moving = law.build("law", None, folder)
        with located("space", ("tol", "axis")):
            return FlowMap(moving, tol=self.tol, axis=self.axis, **limits)

    def check(self, case: Any) -> None:
        """Check the largest number of nodes.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        if case.run.max_nodes is not None:
            with located("run", ("max_nodes",)):
                integer("max_nodes", case.run.max_nodes, low=1, high=MOST_NODES)


_SPACES = [CircleTable, SphereTable, ZonalTable, FlowMapTable, ParticlesTable]
AnySpaceTable: Any = _one_of(_SPACES)


def _count_or_times(value: Any) -> Any:
    times = type(value) is list
    if not {*map(type, value if times else [value])} <= ({int, float} if times else {int}):
        raise ValueError(f"must be an integer >= 1 or a list of times, got {shown(value)}")
    return value


class RunTable(Table):
    """What `evolve` takes; what is left out is as evolve has it."""

    t_end: float = Field(
        description="the final time, a number > 0", json_schema_extra={"exclusiveMinimum": 0}
    )
    save_at: Annotated[int | list[float], pydantic.BeforeValidator(_count_or_times)] = told(
        "that many equal intervals, at most 10^7, or a list of ascending times up to t_end",
        20,
        minimum=1,
        maximum=MOST_SAVES,
        minItems=1,
    )
    max_step: float | None = told(
        "of tokens: the largest time step under noise, > 0", exclusiveMinimum=0
    )
    rtol: float | None = told(
        "the relative tolerance of a time step, 3e-14 to 1e-2; a flow map has a tol of its own",
        minimum=3e-14,
        maximum=1e-2,
    )
    atol: float | None = told("the absolute tolerance of a time step, > 0", exclusiveMinimum=0)
    tail_tol: float | None = told(
        "the spectral tail beyond which the space doubles, 1e-15 to 1e-2",
        minimum=1e-15,
        maximum=1e-2,
    )
    max_size: int | None = told("the largest n, lmax or kmax of a density", minimum=1)
    max_nodes: int | None = told("the largest number of nodes of a flow map", minimum=1)
    atom_radius: float | None = told(
        "the radius in radians at which a flow map's cluster becomes an atom, 0 to 1e-2",
        minimum=0,
        maximum=1e-2,
    )
    on_unresolved: Literal["stop", "flow-map"] | None = told(
        'what a density does that outgrows its space: "flow-map" goes on with nodes'
    )

    def check(self, case: Any) -> None:
        """Check the final time and the number of saves.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        super().check(case)
        number("t_end", self.t_end, above=0)
        if isinstance(self.save_at, int):
            integer("save_at", self.save_at, low=1, high=MOST_SAVES)


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

    def build(self, where: str, measure: AnyMeasure, beta: float, folder: Path) -> DistanceTo:
        """The monitor of a run that starts with the measure, tried on it.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        if (self.to is None) == (self.law is None):
            given = "neither" if self.law is None else f"both, to = {self.to!r}"
            raise Fault(f"{where} must have either to or a table law, got {given}")
        with located(where, type(self).model_fields):
            arguments = self._arguments(beta) | {"to": self.to, "every": self.every}
            if self.law is not None:
                law = arguments["to"] = self.law.build(f"{where}.law", measure.dim, folder)
                if law.dim != measure.dim:
                    raise ValueError(
                        f"law must have dim = {measure.dim} beside {measure}, got {law!r} with "
                        f"dim = {law.dim}"
                    )
            monitor = DistanceTo(**arguments)
            # what can't be computed is refused now
            monitor.begin(None, 0)(measure)
            return monitor

    def _arguments(self, beta: float) -> dict[str, Any]:
        """The keys of its distance, and of no other."""
        owners = {"p": "wasserstein", "gap": "wasserstein", "beta": "mmd", "s": "sobolev"}
        given = {key: getattr(self, key) for key in owners if getattr(self, key) is not None}
        for key, value in given.items():
            if owners[key] != self.distance:
                raise ValueError(
                    f"{key} must be left out for distance = {self.distance!r}, as it is one of "
                    f"{owners[key]!r}, got {value!r}"
                )
        own = {"beta": beta} if self.distance == "mmd" else {}
        return {"distance": self.distance} | own | given


class OutputTable(Table):
    """Where results go, relative to the present folder; the figure beside the file if left out."""

    file: str = told("the result, a name that ends in .nc", "run.nc", pattern=r"\.nc$")
    figure: str | None = told(
        "a name that ends in .png, .pdf or .svg; beside the file if left out",
        pattern=r"\.(png|pdf|svg)$",
    )


def tables_in(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Each table of a case, or of a part of it, with its dotted key; that of the case is empty."""
    parts: Iterable[tuple[str, Any]] = ()
    match value:
        case Table():
            yield where, value
            parts = ((f"{where}.{name}".lstrip("."), one) for name, one in value)
        case dict():
            parts = ((f"{where}.{name}", one) for name, one in value.items())
        case list():
            parts = ((f"{where}[{i}]", one) for i, one in enumerate(value))
    for name, one in parts:
        yield from tables_in(one, name)


def _by_type(tables: Iterable[Any]) -> dict[str, type[Table]]:
    return {get_args(one.model_fields["type"].annotation)[0]: one for one in tables}


# the tables of each type, by the last name of the key that has one of them
KINDS = {
    "law": _by_type(_LAWS),
    "laws": _by_type(_LAWS),
    "space": _by_type(_SPACES),
    "dynamics": _by_type(_DYNAMICS),
    "layers": _by_type(_LAYERS),
}


def kinds(key: str) -> dict[str, type[Table]]:
    """The tables that the one at a dotted key may be, by their types.

    Examples
    --------
    >>> list(kinds("dynamics.layers[0]"))
    ['SA', 'USA', 'DoublyStochastic', 'Attention', 'FeedForward']
    """
    return KINDS.get(re.sub(r"\[\d+\]$", "", key).rpartition(".")[2], {})


def dotted(parts: Iterable[int | str]) -> str:
    """The key of these names and indices.

    Examples
    --------
    >>> dotted(["law", "laws", 1, "kappa"])
    'law.laws[1].kappa'
    """
    text = "".join(f"[{part}]" if type(part) is int else f".{part}" for part in parts)
    return text.removeprefix(".")


def nearest(fault: KeyFault, path: str, keys: Iterable[str]) -> str:
    """The dotted keys that an unknown one in the table `path` may have meant, for a message.

    Examples
    --------
    >>> fault = KeyFault("beta", "an unknown key: the keys here are ", ["law", "run"])
    >>> nearest(fault, "", ["dynamics.beta", "run.rtol"])
    '; did you mean dynamics.beta?'
    """
    found = [f"{path}.{name}".lstrip(".") for name in get_close_matches(fault.key, fault.here, 1)]
    if not found and not path and fault.here:
        last = {one: one.rpartition(".")[2] for one in keys}
        near = get_close_matches(fault.key, last.values(), 1)
        found = [one for one in last if last[one] in near]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def schema_fault(error: pydantic.ValidationError, raw: Any, sections: Iterable[str]) -> str:
    """The first thing that a schema finds wrong, as a sentence that opens with the dotted key.

    Parameters
    ----------
    error : ValidationError
    raw : dict
        What was validated.
    sections : iterable of str
        The keys of a case.
    """
    fault: Any = error.errors(include_url=False)[0]
    path, value = _path(fault["loc"], raw), fault["input"]
    match fault["type"]:
        case "union_tag_not_found":
            return f"{path}.type is missing: it must be one of {', '.join(kinds(path))}"
        case "union_tag_invalid":
            given = shown(value["type"])
            return f"{path}.type must be one of {', '.join(kinds(path))}, got {given}"
        case "value_error":
            reason = fault["ctx"]["error"]
            if not isinstance(reason, KeyFault):
                return f"{path} {reason}"
            return f"{path}.{reason}".lstrip(".") + nearest(reason, path, _keys(sections))
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"{path} must be a table, got {shown(value)}"
    return f"{path} {fault['msg'].replace('Input should be ', 'must be ')}, got {shown(value)}"


def _path(loc: Iterable[int | str], raw: Any) -> str:
    """law.laws[1].kappa of ('law', 'mixture', 'laws', 1, 'von-mises-fisher', 'kappa')."""
    parts: list[int | str] = []
    here = raw
    for part in loc:
        match here:
            # the name of a member of a union is no key
            case dict() if part in here and here.get("type") != part:
                parts, here = [*parts, part], here[part]
            case list() if type(part) is int:
                parts, here = [*parts, part], here[part]
    return dotted(parts)


def _keys(sections: Iterable[str]) -> list[str]:
    """All keys of a case, with dots."""
    tables = {name: [*KINDS[name].values()] for name in ("law", "space", "dynamics")}
    tables |= {"run": [RunTable], "output": [OutputTable]}
    found = [f"{name}.{key}" for name in tables for one in tables[name] for key in one.model_fields]
    return list(dict.fromkeys([*sections, *found]))
