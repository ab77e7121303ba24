"""The tables of a case file: their keys and types, and one line for each thing that is wrong."""

from __future__ import annotations

import csv
import re
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from difflib import get_close_matches
from importlib.resources import files
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args

import numpy as np
import pydantic
from pydantic import Field

from meanfield._checks import integer, number, one_line, real_array, shown
from meanfield.dynamics import (
    KNOWN,
    SA,
    Attention,
    Causal,
    Head,
    LayerMap,
    Layers,
    RandomLayers,
    Sum,
)
from meanfield.dynamics.isotropic import LARGEST_BETA
from meanfield.dynamics.schedule import Schedule
from meanfield.functionals.transport.distance import DistanceTo
from meanfield.laws import LAWS, Mixture, PointCloud, VonMisesFisher
from meanfield.measures import AnyMeasure, Density, FlowMap, Particles
from meanfield.spaces import Circle, Sphere, Zonal
from meanfield.typing import Array


class Fault(ValueError):
    """A fault of a case, with its key and without its file."""


def wrong(name: str, must: str, value: object) -> ValueError:
    """The error of an argument or a key: what it must, and its value."""
    return ValueError(f"{name} must {must}, got {shown(value)}")


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


# a table as text and lists of numbers takes some ten times this in memory
_LARGEST_CLOUD = 1 << 28
# the endings of the files that are read
POINT_FILES = ".csv", ".npy", ".npz"
BUNDLED = {"tokens-s2": "tokens_s2.csv"}
_FILE = "a CSV, NPY or NPZ file"
_NAME = f"the name of {_FILE}"


def read_arrays(file: str, folder: Path, beside: str) -> dict[str, Array]:
    """`points` of a CSV, NPY or NPZ file, and what is `beside` them; `file` may be a bundled name.

    An NPZ file has arrays of these names. A table has values in its last column, weights in none.

    Raises
    ------
    ValueError
        If there is no such file, or it is no such table.
    """
    ending = Path(file).suffix.lower()
    if file in BUNDLED:
        table = _read((files("meanfield") / "data" / BUNDLED[file]).read_text("utf-8"))
    elif ending not in POINT_FILES:
        hint = "write the arrays of other files by numpy.save"
        raise ValueError(f"must be {_FILE} with the ending {', '.join(POINT_FILES)}: {hint}")
    else:
        path = _checked_file(folder / file)
        match ending:
            case ".npz":
                return _npz_arrays(path, beside)
            case ".npy":
                table = _npy_table(path)
            case _:
                with _readable(path, "a CSV file in UTF-8"):
                    text = path.read_text("utf-8-sig")
                table = _read(text)
    if beside == "weights":
        return {"points": table}
    rows = table[:, :-1]
    return {"points": rows[:, 0] if rows.shape[1] == 1 else rows, beside: table[:, -1]}


def _checked_file(path: Path) -> Path:
    state = "does not exist"
    try:
        # a device or a pipe may never end, so only a regular file is read
        if path.is_file():
            _check_size(path, path.stat().st_size)
            return path
        if path.exists():
            state = "is no regular file"
    except OSError as error:
        # the system refuses a name that is too long
        state = f"can't be read: {error.strerror}"
    raise ValueError(f"must be {_FILE} or {' or '.join(map(repr, BUNDLED))}, but {path} {state}")


def _check_size(path: Path, size: int) -> None:
    if size > _LARGEST_CLOUD:
        must = f"must be {_FILE} of at most {_LARGEST_CLOUD} bytes"
        raise ValueError(f"{must}, but {path} has {size}")


@contextmanager
def _readable(path: Path, what: str) -> Iterator[None]:
    """Inside, a file is read that must be such a one; the error says what is wrong."""
    try:
        yield
    except Exception as error:
        # libraries raise errors of their own for a damaged file; NumPy's error for an array of
        # objects suggests what is not allowed here
        reason = one_line(repr(error))
        if isinstance(error, ValueError) and "object" in str(error).lower():
            reason = "its dtype is object; numbers are allowed"
        raise ValueError(f"must be {what}, but {path}: {reason}") from None


def _npy_table(path: Path) -> Array:
    with _readable(path, "an NPY file of numbers"):
        table = np.lib.format.open_memmap(path, mode="r")
    if table.ndim != 2 or table.shape[1] < 2:
        raise ValueError(f"must hold a table of d >= 2 columns, but {path} has shape {table.shape}")
    return real_array("table", table, 2)


def _npz_arrays(path: Path, beside: str) -> dict[str, Array]:
    with _readable(path, "an NPZ file of numbers"):
        with zipfile.ZipFile(path) as packed:
            # a compressed array may be far larger than its file
            _check_size(path, sum(member.file_size for member in packed.infolist()))
        with np.load(path, allow_pickle=False) as arrays:
            members = {name: arrays[name] for name in ("points", beside) if name in arrays}
            names = list(arrays)
    if "points" not in members:
        raise ValueError(f"must hold an array points, but {path} has {shown(names)}")
    return {name: real_array(name, member, None) for name, member in members.items()}


def _read(text: str) -> Array:
    reader, rows = csv.reader(text.splitlines()), []
    try:
        header = next(reader, [])
        if len(header) < 2 or _numbers(header):
            raise wrong("line 1", "be a header of d >= 2 names with commas between", header)
        for row in reader:
            rows.append(_numbers(row))
            if len(rows[-1]) != len(header):
                must = f"line {reader.line_num} must be {len(header)} numbers with commas between"
                raise ValueError(f"{must}, got {','.join(row)!r:.80}")
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} must be CSV, but {error}") from None
    if not rows:
        raise ValueError(f"must have at least one row below the header {','.join(header)!r:.80}")
    return np.array(rows)


def _numbers(row: list[str]) -> list[float]:
    """Return the numbers of a row, none if a field is no number."""
    try:
        return [float(field) for field in row]
    except ValueError:
        return []


MOST_MONITORS, MOST_SAVES, MOST_NODES = 256, 10**7, 10**7
# the coordinates of tokens, or matrices of heads, have at most so many numbers: 2 GB
MOST_NUMBERS = 1 << 28
# tables of a kernel have some sqrt(β) entries along each side
LARGEST_BETA_OF_TABLES = 1e5


class KeyFault(ValueError):
    """A key that is missing, or unknown among those that are `here`; the message opens with it."""

    def __init__(self, key: str, problem: str, here: Iterable[str] = ()) -> None:
        self.key, self.here = key, list(here)
        super().__init__(f"{key} is {problem}{', '.join(self.here)}")


class Table(pydantic.BaseModel):
    """A table with these keys and no others."""

    model_config = pydantic.ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True
    )

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: object) -> object:
        if isinstance(data, dict):
            fields = cls.model_fields
            for key in data:
                if key not in fields:
                    raise KeyFault(str(key), "an unknown key: the keys here are ", fields)
            for key, field in fields.items():
                if field.is_required() and key not in data:
                    only = map(repr, get_args(field.annotation)) if key == "type" else ()
                    must = next(iter(only), field.description)
                    raise KeyFault(key, f"missing: it must be {must}")
        return data

    def told_dim(self) -> int | None:
        """The dimension, if the table determines one."""
        return None

    @property
    def token_file(self) -> str:
        """The file of tokens beside the case that the table refers to, "" if there is none."""
        return ""

    def check(self, case: CaseTable) -> None:  # noqa: ARG002
        """Check the sizes of a case, before anything is built.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        for key, field in type(self).model_fields.items():
            limits: Any = field.json_schema_extra or {}
            value, longest = getattr(self, key), limits.get("maxItems", limits.get("maxProperties"))
            if longest is not None and isinstance(value, (list, dict)) and len(value) > longest:
                raise ValueError(f"{key} must have at most {longest} entries, got {len(value)}")
            if key in ("dim", "max_nodes", "save_at") and isinstance(value, int):
                integer(key, value, low=limits["minimum"], high=limits["maximum"])
            if key == "t_end":
                number(key, value, above=limits["exclusiveMinimum"])


class MadeTable(Table):
    """A table of which an object is made by its keys, the arguments of a constructor.

    Attributes
    ----------
    made : type
        Of the object.
    """

    made: ClassVar[type]

    def told_dim(self) -> int | None:
        """The dimension, if the table determines one, or if all objects have it."""
        if (tell := _TOLD_DIM.get(self.made)) is not None:
            return tell(self)
        of_all = getattr(self.made, "dim", None)
        return getattr(self, "dim", of_all if isinstance(of_all, int) else None)

    def build(self, where: str, dim: int | None = None, folder: Path = Path()) -> Any:
        """The object of the table `where`, in `dim` where the table leaves it open.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        with located(where, type(self).model_fields):
            dim = self.told_dim() if dim is None else dim
            arguments = {
                name: _built(value, f"{where}.{name}", dim, folder)
                for name, value in self
                if name != "type"
            }
            if "dim" in arguments and arguments["dim"] is None:
                if dim is None:
                    raise KeyFault("dim", "missing: it must be an integer >= 2")
                arguments["dim"] = dim
            return self.made(**arguments)


def _built(value: object, where: str, dim: int | None, folder: Path) -> object:
    """Return the objects of a table or of a list of tables; any other value as it is."""
    match value:
        case MadeTable():
            return value.build(where, dim, folder)
        case [MadeTable(), *_]:
            return [_built(part, f"{where}[{i}]", dim, folder) for i, part in enumerate(value)]
    return value


def _check_product(key: str, count: int, numbers: int, what: str) -> None:
    most_rows = MOST_NUMBERS // numbers
    if count > most_rows:
        must = f"{key} must be at most {most_rows} {what} of {numbers} numbers each"
        raise ValueError(f"{must}, got {count}")


def told(description: str, default: object = None, **limits: pydantic.JsonValue) -> Any:
    """A key that may be left out, with what the JSON schema says of it."""
    return Field(default=default, description=description, json_schema_extra=limits or None)


def _in_words(allowed: str) -> pydantic.WrapValidator:
    """One message for whatever is not of the type that is annotated."""

    def checked(value: object, read: Callable[[object], object]) -> object:
        try:
            return read(value)
        except pydantic.ValidationError:
            raise ValueError(f"must be {allowed}, got {shown(value)}") from None

    return pydantic.WrapValidator(checked)


def _read_as(hint: object) -> pydantic.GetPydanticSchema:
    """A value is read as of this type, which is made here, so that type checkers can't know it."""
    return pydantic.GetPydanticSchema(lambda _, handler: handler.generate_schema(hint))


def _or_table(value: object, table: object) -> pydantic.GetPydanticSchema:
    """A value is read as a table of this kind where it is one, else as of the other type."""

    def kind(data: object) -> str:
        return "a table" if isinstance(data, (dict, Table)) else "a value"

    # the tags are no keys
    tagged = [Annotated[value, pydantic.Tag("a value")], Annotated[table, pydantic.Tag("a table")]]
    return _read_as(Annotated[Union[*tagged], pydantic.Discriminator(kind)])


def _equal(rows: list[list[float]]) -> list[list[float]]:
    if len({len(row) for row in rows}) > 1:
        raise wrong("rows", "be equally long", rows)
    return rows


# the object itself says where a number is not finite
_Number = Annotated[float, Field(allow_inf_nan=True)]
_Rows = Annotated[list[list[_Number]], Field(min_length=1), pydantic.AfterValidator(_equal)]
_IN_WORDS: dict[object, tuple[object, str]] = {
    float | list[float]: (_Number | list[_Number], "an angle or a list of numbers"),
    float | Literal["likelihood"]: (_Number | Literal["likelihood"], 'a number or "likelihood"'),
    float | list[list[float]]: (_Number | _Rows, "a number or a list of equal rows of numbers"),
    str | list[list[float]]: (str | _Rows, f"{_NAME} or a list of equal rows of numbers"),
    str | list[float] | list[list[float]]: (
        str | list[_Number] | _Rows,
        f"{_NAME}, a list of angles or a list of equal rows of numbers",
    ),
}
_AS_READ = {
    hint: Annotated[as_read, _in_words(words)] for hint, (as_read, words) in _IN_WORDS.items()
}
_AS_READ[Causal] = Annotated["CausalTable", pydantic.Tag("mask")]


# the tables that may stand inside others
_PARTS: dict[type, dict[object, object]] = {
    Mixture: {list: list["AnyLawTable"]},
    Attention: {list: list["HeadTable"]},
    Sum: {list: list["AnyTermTable"]},
    Layers: {list: list["AnyLayerTable"]},
    LayerMap: {dict: "AnyPassedTable"},
    DistanceTo: {dict: "AnyTarget"},
}
# laws without a key `dim` know their dimension; a mixture has that of its first part that knows one
_TOLD_DIM: dict[type, Callable[[Any], int | None]] = {
    VonMisesFisher: lambda table: len(table.mean) if np.ndim(table.mean) else 2,
    Mixture: lambda table: next(filter(None, (law.told_dim() for law in table.laws)), None),
}


def _table(
    made: type, *, default: object = ..., base: type[MadeTable] | None = None
) -> type[MadeTable]:
    """Return the table whose keys are the arguments of a dataclass.

    Parameters
    ----------
    made : type
        A dataclass whose fields have metadata by `meanfield._records.key`.
    default : str, optional
        The type of a table without the key; None if there is only one type.
    base : type, optional
        The class of the table, if it is no other than its arguments ask for.
    """
    name, summary = made.__name__, (made.__doc__ or "").partition("\n")[0]
    keys: dict[str, Any] = {}
    if default is not None:
        keys["type"] = (Literal[name], Field(default=default, description=summary))
    arguments = signature(made).parameters
    base = base or (TokenFileTable if "points" in arguments else MadeTable)
    for field in (field for field in fields(made) if field.init):
        note, initial = field.metadata, arguments[field.name].default
        hint = _AS_READ.get(note["hint"], note["hint"])
        hint = _PARTS.get(made, {}).get(hint, hint)
        if "varies" in note:
            hint = Annotated[hint, _or_table(hint, "ScheduleTable")]
        # another table may set the dimension, and the file of the points the values
        if field.name in ("dim", "values"):
            initial = None
        elif initial is Parameter.empty:
            initial = ...
        keys[field.name] = (
            hint if initial is not None else hint | None,
            told(note["about"], list(initial) if initial == () else initial, **note["limits"]),
        )
    if "unit_mass" in arguments:
        keys["unit_mass"] = bool, told("true where they are to be divided by their mass", False)
    model = pydantic.create_model(
        f"{name}Table", __base__=base, __module__=__name__, __doc__=summary, **keys
    )
    model.made = made
    return model


def _one_of(tables: Iterable[type[MadeTable | MeasureTable]], default: str = "") -> object:
    """A table is read as that of its type, or else of the default type."""

    def type_of(data: object) -> str:
        table = data if isinstance(data, dict) else getattr(data, "__dict__", {})
        return str(table.get("type", default))

    tagged = [Annotated[table, pydantic.Tag(table.made.__name__)] for table in tables]
    return _read_as(Annotated[Union[*tagged], pydantic.Discriminator(type_of)])


class TokenFileTable(MadeTable):
    """A law of points, which a file may have, and their weights or values, the key after them."""

    if TYPE_CHECKING:
        points: str | list[float] | list[list[float]]

    @property
    def token_file(self) -> str:
        """The file of tokens beside the case that the table refers to, "" if there is none."""
        return "" if isinstance(self.points, list) or self.points in BUNDLED else self.points

    def build(self, where: str, dim: int | None = None, folder: Path = Path()) -> Any:
        """The law of the points, in the table or in its file, which tell the dimension.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        second_key = fields(self.made)[1].name
        if isinstance(self.points, list):
            if second_key == "values" and getattr(self, second_key) is None:
                must = f"{type(self).model_fields[second_key].description}"
                raise Fault(f"{where}.{second_key} is missing: it must be {must}")
            return super().build(where, dim, folder)
        arrays: dict[str, Array] = {}
        try:
            arrays |= read_arrays(self.points, folder, second_key)
            if second_key in arrays and getattr(self, second_key) is not None:
                raise ValueError(f"has {second_key}: {where}.{second_key} must be left out")
            arguments = {name: value for name, value in self if name != "type"}
            return self.made(**arguments | arrays)
        except ValueError as error:
            if str(error).partition(" ")[0] in {*type(self).model_fields} - {*arrays}:
                raise Fault(f"{where}.{error}") from None
            raise Fault(f"{where}.points = {shown(self.points)}: {error}") from None


_LAWS = [_table(made) for made in LAWS]
AnyLawTable = Annotated[MadeTable, _one_of(_LAWS)]
_SPACES = [_table(Circle), _table(Sphere), _table(Zonal)]
AnySpaceTable = Annotated[MadeTable, _one_of(_SPACES)]


class DynamicsTable(MadeTable):
    """The dynamics that moves the measure."""

    def check(self, case: CaseTable) -> None:
        """Check β and the matrices of heads, too.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        super().check(case)
        if (beta := getattr(self, "beta", None)) is not None:
            number("beta", max(_at_knots(beta)), low=0, high=case.measure.largest_beta)
        if heads := getattr(self, "heads", None):
            matrices = [matrix for head in heads for matrix in (head.Q, head.K, head.V)]
            side = max(len(np.atleast_1d(_at_knots(matrix)[0])) for matrix in matrices)
            _check_product("heads", len(heads), side**2, "heads")


def _at_knots(value: object) -> list[Any]:
    """The values of a schedule, or one value that holds at all times."""
    return dict(value)["values"] if isinstance(value, ScheduleTable) else [value]


CausalTable = _table(Causal, default=Causal.__name__)
ScheduleTable = _table(Schedule)
HeadTable = Annotated[MadeTable, _read_as(_table(Head, default=None))]
# SA is the default, so its table needs no type
_DEFAULT = SA.__name__
_DYNAMICS = {
    made: _table(made, default=_DEFAULT if made is SA else ..., base=DynamicsTable)
    for made in KNOWN
}
_LAYERS = [made for made in KNOWN if made not in (Layers, RandomLayers, LayerMap)]
AnyTermTable = Annotated[
    MadeTable, _one_of((_DYNAMICS[made] for made in _LAYERS if made is not Sum), _DEFAULT)
]
AnyLayerTable = Annotated[MadeTable, _one_of((_DYNAMICS[made] for made in _LAYERS), _DEFAULT)]
AnyPassedTable = Annotated[
    MadeTable, _one_of((_DYNAMICS[made] for made in KNOWN if made is not LayerMap), _DEFAULT)
]
AnyDynamicsTable = Annotated[MadeTable, _one_of(_DYNAMICS.values(), _DEFAULT)]
_Beta = Annotated[
    _Number,
    _in_words("a number beta or a table, a dynamics"),
    Field(json_schema_extra={"minimum": 0}),
]
AnyEnergy = Annotated[float | MadeTable, _or_table(_Beta, AnyLayerTable)]


class MeasureTable(Table):
    """The measure that holds the law: a density, nodes or tokens."""

    made: ClassVar[type]
    largest_beta: ClassVar[float] = LARGEST_BETA_OF_TABLES

    @abstractmethod
    def build(self, law: MadeTable, folder: Path, rng: int) -> AnyMeasure:
        """The measure at t = 0; where one table leaves the dimension open, the other settles it.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """

    def arguments(self) -> dict[str, Any]:
        """The keys that are not left out and no tables: arguments of the measure."""
        return {
            key: value for key, value in self if value is not None and key not in ("type", "space")
        }


class DensityTable(MeasureTable):
    """The coefficients of a density on a space, which doubles where it has to."""

    made: ClassVar[type] = Density
    type: Literal["Density"] = Field(description="a density, as its coefficients on a space")
    space: AnySpaceTable = Field(description="a table, the space at t = 0")
    tail_tol: float | None = told(
        "the spectral tail beyond which the space doubles, 1e-15 to 1e-2",
        minimum=1e-15,
        maximum=1e-2,
    )
    max_size: int | None = told("the largest n, lmax or kmax of the space", minimum=1)

    def told_dim(self) -> int | None:
        """The dimension of the space."""
        return self.space.told_dim()

    def build(self, law: MadeTable, folder: Path, rng: int) -> AnyMeasure:  # noqa: ARG002
        """A density."""
        space = self.space.build("measure.space", law.told_dim())
        start = law.build("law", space.dim, folder)
        return Density(space, start, **self.arguments())


class FlowMapTable(MeasureTable):
    """Nodes that move with the flow: the circle, S^2, or a law that is symmetric about an axis."""

    made: ClassVar[type] = FlowMap
    type: Literal["FlowMap"] = Field(description="nodes that move with the flow")
    tol: float | None = told("the error in units of mass, > 0", exclusiveMinimum=0)
    axis: list[float] | None = told(
        "of the symmetry, if the law does not give it: a unit vector", minItems=2
    )
    max_nodes: int | None = told("the largest number of nodes", minimum=1, maximum=MOST_NODES)
    atom_radius: float | None = told(
        "the radius in radians at which a cluster becomes an atom, 0 to 1e-2",
        minimum=0,
        maximum=1e-2,
    )

    def build(self, law: MadeTable, folder: Path, rng: int) -> AnyMeasure:  # noqa: ARG002
        """A flow map."""
        moving = law.build("law", None, folder)
        with located("measure", type(self).model_fields):
            return FlowMap(moving, **self.arguments())


class ParticlesTable(MeasureTable):
    """n tokens of the law; without n, those of a point cloud."""

    made: ClassVar[type] = Particles
    largest_beta: ClassVar[float] = LARGEST_BETA
    type: Literal["Particles"] = Field(description="tokens instead of a density")
    n: int | None = Field(
        default=None, ge=1, le=10**7, description="how many are drawn; all of a cloud if left out"
    )
    start: Literal["sample", "quantise"] = told("how they are drawn", "sample")
    sums: Literal["auto", "direct", "transforms", "gram", "float32"] = told(
        "how they are summed", "auto"
    )

    def build(self, law: MadeTable, folder: Path, rng: int) -> AnyMeasure:
        """Tokens."""
        if self.n is not None:
            drawn_from, draws = law.build("law", None, folder), np.random.default_rng(rng)
            start = Particles.sample if self.start == "sample" else Particles.quantise
            return start(drawn_from, self.n, draws, sums=self.sums)
        if law.made is PointCloud and getattr(law, "bandwidth", None) is None:
            cloud = law.build("law", None, folder)
            return Particles(cloud.points, cloud.weights, sums=self.sums)
        raise Fault(
            "measure.n is missing: it must be the number of tokens to draw from the law, >= 1"
        )

    def check(self, case: CaseTable) -> None:
        """Check how many numbers they are.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        dims = [table.told_dim() or 2 for _, table in tables_in(case.law)]
        _check_product("n", self.n or 0, max(dims), "tokens")


_MEASURES: list[type[MeasureTable]] = [DensityTable, FlowMapTable, ParticlesTable]
AnyMeasureTable = Annotated[MeasureTable, _one_of(_MEASURES)]


_CountOrTimes = Annotated[int | list[_Number], _in_words("an integer >= 1 or a list of times")]


class RunTable(Table):
    """The arguments of `evolve`, whose defaults hold for keys that are left out."""

    t_end: float = Field(
        description="the final time, a number > 0", json_schema_extra={"exclusiveMinimum": 0}
    )
    save_at: _CountOrTimes = told(
        "that many equal intervals, at most 10^7, or a list of ascending times up to t_end",
        20,
        minimum=1,
        maximum=MOST_SAVES,
        minItems=1,
    )
    rtol: float | None = told(
        "the relative tolerance of a time step, 3e-14 to 1e-2; a flow map has a tol of its own",
        minimum=3e-14,
        maximum=1e-2,
    )
    atol: float | None = told("the absolute tolerance of a time step, > 0", exclusiveMinimum=0)
    max_step: float | None = told(
        "of tokens with noise: the largest time step, > 0", exclusiveMinimum=0
    )
    on_unresolved: Literal["stop", "flow-map"] | None = told(
        'what a density does that outgrows its space: "flow-map" continues with nodes'
    )
    rng: int = Field(default=0, ge=0, description="the seed of tokens' draws and noise, >= 0")
    energy: AnyEnergy | None = told(
        "an energy to follow instead of the dynamics' own: beta, that of SA and USA, or a table, a "
        "dynamics that has one"
    )

    def check(self, case: CaseTable) -> None:
        """Check β of an energy, too.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        super().check(case)
        if isinstance(self.energy, float):
            number("energy", self.energy, low=0, high=case.measure.largest_beta)

    def followed(self) -> object:
        """The energy to follow: β, or the dynamics of the table.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        return _built(self.energy, "run.energy", None, Path())

    def noise(self) -> np.random.Generator:
        """The random numbers of the noise, apart from those of the start."""
        return np.random.default_rng(np.random.SeedSequence(self.rng, spawn_key=(1,)))


_Place = Annotated[
    Literal["uniform", "centre", "start"],
    _in_words("'uniform', 'centre', 'start' or a law, a table"),
]
AnyTarget = Annotated[str | MadeTable, _or_table(_Place, AnyLawTable)]


class WatchTable(MadeTable):
    """A distance at the saves of a run."""

    def tried(
        self, where: str, measure: AnyMeasure, beta: float | None, folder: Path
    ) -> DistanceTo:
        """The monitor of a run that starts with the measure, tried on it, with β where it has none.

        Raises
        ------
        ValueError
            Naming key, value and what is allowed.
        """
        keys = dict(self)
        distance, is_open = keys["distance"], keys["beta"] is None
        table = self.model_copy(update={"beta": beta}) if distance == "mmd" and is_open else self
        with located(where, type(self).model_fields):
            # `DistanceTo` refuses p as well, but it can't tell p = 1 from the default
            if "p" in self.model_fields_set and distance != "wasserstein":
                must = f"p must be left out for distance = {distance!r}, as it is one of"
                raise ValueError(f"{must} 'wasserstein', got {keys['p']:g}")
            if distance == "mmd" and dict(table)["beta"] is None:
                raise ValueError(f"beta must be given, as the dynamics has none, got {beta}")
            monitor: DistanceTo = table.build(where, measure.dim, folder)
            # a distance that can't be computed at any gap is refused now
            widest = 1.0 if distance == "wasserstein" else None
            replace(monitor, gap=widest).begin(None, 0)(measure)
            return monitor


MonitorTable = Annotated[WatchTable, _read_as(_table(DistanceTo, default=None, base=WatchTable))]


class OutputTable(Table):
    """The files of results, relative to the present folder; the figure is beside by default."""

    file: str = told("the result, a name that ends in .nc", "run.nc", pattern=r"\.nc$")
    figure: str | None = told(
        "a name that ends in .png, .pdf or .svg; beside the file if left out",
        pattern=r"\.(png|pdf|svg)$",
    )


class CaseTable(Table):
    """All of a case file."""

    law: AnyLawTable = Field(description="a table, the measure at t = 0")
    measure: AnyMeasureTable = Field(description="a table, what the law is held as")
    dynamics: AnyDynamicsTable = Field(description="a table, what moves the measure")
    run: RunTable = Field(description="a table with t_end")
    output: OutputTable = Field(default=OutputTable(), description="a table, where results go")
    monitors: dict[str, MonitorTable] = Field(
        default_factory=dict,
        description="tables of distances at the saves, each under its name",
        json_schema_extra={"maxProperties": MOST_MONITORS},
    )

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_tables(cls, data: dict[str, object]) -> dict[str, object]:
        for key in cls.model_fields:
            if not isinstance(table := data.get(key, {}), dict):
                raise wrong(key, "be a table", table)
        return data


def tables_in(value: object, where: str = "") -> Iterator[tuple[str, Table]]:
    """Each table of a case, or of a part of it, with its dotted key; that of the case is empty."""
    tables: Iterable[tuple[str, object]] = ()
    match value:
        case Table():
            yield where, value
            tables = ((f"{where}.{name}".lstrip("."), part) for name, part in value)
        case dict():
            tables = ((f"{where}.{name}", part) for name, part in value.items())
        case list():
            tables = ((f"{where}[{i}]", part) for i, part in enumerate(value))
    for name, part in tables:
        yield from tables_in(part, name)


# tables with a key `type`, by the names of their classes
_TYPED: list[type[MadeTable | MeasureTable]] = [*_LAWS, *_SPACES, *_MEASURES, *_DYNAMICS.values()]
TYPES: dict[str, type[Table]] = {table.made.__name__: table for table in _TYPED}


def dotted(parts: Iterable[int | str]) -> str:
    """The key of these names and indices.

    Examples
    --------
    >>> dotted(["law", "laws", 1, "kappa"])
    'law.laws[1].kappa'
    """
    text = "".join(f"[{part}]" if type(part) is int else f".{part}" for part in parts)
    return text.removeprefix(".")


def _keys(raw: object) -> list[str]:
    """Return all keys of a case, with dots; a table with a type has the keys of that type only."""
    tables: dict[str, Iterable[type[Table]]] = {
        "law": _LAWS,
        "measure": _MEASURES,
        "measure.space": _SPACES,
        "dynamics": _DYNAMICS.values(),
        "run": [RunTable],
        "output": [OutputTable],
    }
    keys = [*CaseTable.model_fields]
    for name, kinds in tables.items():
        type_name = _type_told(raw, name.split("."))
        here = [kind for kind in kinds if kind is TYPES.get(type_name)] or kinds
        if "." not in name or name in keys:
            keys += [f"{name}.{key}" for kind in here for key in kind.model_fields]
    return keys


def _type_told(raw: object, path: list[str]) -> str:
    """Return the type of the table at a path as text; a text that is no type if there is none."""
    for name in [*path, "type"]:
        match raw:
            case dict():
                raw = raw.get(name)
    return str(raw)


def nearest(fault: KeyFault, path: str, keys: Iterable[str]) -> str:
    """The dotted keys that an unknown one in the table `path` may have meant, for a message.

    Examples
    --------
    >>> fault = KeyFault("beta", "an unknown key: the keys here are ", ["law", "run"])
    >>> nearest(fault, "", ["dynamics.beta", "run.rtol"])
    '; did you mean dynamics.beta?'
    """
    if not fault.here:
        return ""
    names = {key: key.rpartition(".")[2] for key in keys if "." in key}
    # the nearest key: the same name in another table, else a similar one in this table, else
    # anywhere
    own_key = f"{path}.{fault.key}"
    matches = [key for key in names if names[key] == fault.key and key != own_key] or [
        f"{path}.{name}".lstrip(".") for name in get_close_matches(fault.key, fault.here, 1)
    ]
    if not matches and not path:
        similar = get_close_matches(fault.key, names.values(), 1)
        matches = [key for key in names if names[key] in similar]
    return _meant(matches)


def _meant(words: Iterable[str]) -> str:
    text = " or ".join(words)
    return f"; did you mean {text}?" if text else ""


def _type_fault(value: dict[str, object], types: str) -> str:
    """The fault in the type of a table that must be one of `types`, as pydantic lists them."""
    known = types.replace("'", "")
    if "type" not in value:
        return f".type is missing: it must be one of {known}"
    # the type may be written in lower case or with dashes
    plain = {word.lower(): word for word in known.split(", ")}
    matches = get_close_matches(re.sub(r"\W|_", "", str(value["type"])).lower(), plain, 1)
    got = shown(value["type"])
    return f".type must be one of {known}, got {got}{_meant(plain[word] for word in matches)}"


def schema_fault(error: pydantic.ValidationError, raw: object) -> str:
    """The first thing that a schema finds wrong, as a sentence that opens with the dotted key.

    Parameters
    ----------
    error : ValidationError
    raw : dict
        What was validated.
    """
    fault = error.errors(include_url=False)[0]
    path, value, context = _path(fault["loc"], raw), fault["input"], fault.get("ctx", {})
    match fault["type"], value:
        case "union_tag_invalid", dict():
            return path + _type_fault(value, context["expected_tags"])
        case "value_error", _:
            reason = context["error"]
            if not isinstance(reason, KeyFault):
                return f"{path} {reason}".lstrip()
            return f"{path}.{reason}".lstrip(".") + nearest(reason, path, _keys(raw))
        case "union_tag_invalid" | "model_type" | "model_attributes_type" | "dict_type", _:
            return f"{path} must be a table, got {shown(value)}"
    return f"{path} {fault['msg'].replace('Input should be ', 'must be ')}, got {shown(value)}"


def _path(loc: Iterable[int | str], raw: object) -> str:
    """Return law.laws[1].kappa for ('law', 'Mixture', 'laws', 1, 'VonMisesFisher', 'kappa')."""
    path: list[int | str] = []
    table = raw
    for part in loc:
        match table:
            # pydantic adds the name of a member of a union, which is no key
            case dict() if part in table and table.get("type") != part:
                path, table = [*path, part], table[part]
            case list() if type(part) is int:
                path, table = [*path, part], table[part]
    return dotted(path)
