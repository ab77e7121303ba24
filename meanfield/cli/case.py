"""Case files: TOML to a measure, a dynamics and a run; errors name file, key and value."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from meanfield._checks import integer, number, shown, unit_rows
from meanfield.cli.tables import (
    MOST_MONITORS,
    MOST_SAVES,
    AnyDynamicsTable,
    AnyLawTable,
    AnyLayerTable,
    AnySpaceTable,
    CaseError,
    Fault,
    FlowMapTable,
    MonitorTable,
    OutputTable,
    ParticlesTable,
    PointCloudTable,
    RunTable,
    Table,
    cut,
    kinds,
    located,
    schema_fault,
    shown_key,
    tables_in,
    union_fields,
)
from meanfield.dynamics.isotropic import LARGEST_BETA
from meanfield.dynamics.records import AnyDynamics
from meanfield.evolution.arrays import PREFIXES
from meanfield.evolution.files import SOURCE
from meanfield.evolution.netcdf import memory_of_machine
from meanfield.evolution.recorder import taken_names
from meanfield.evolution.solution import Solution
from meanfield.functionals.distances import mmd, sobolev
from meanfield.functionals.transport.monitors import DistanceTo
from meanfield.laws.law import Law
from meanfield.laws.point_cloud import PointCloud
from meanfield.laws.series import FourierSeries
from meanfield.laws.von_mises_fisher import VonMisesFisher
from meanfield.measures import AnyMeasure
from meanfield.measures.density import Density
from meanfield.measures.flow_map import FlowMap
from meanfield.measures.particles import Particles

# as text and as lists of numbers it takes some ten times that in memory
_LARGEST_CLOUD = 1 << 28
BUNDLED = {"tokens-s2": "tokens_s2.csv"}


def read_points(file: str, folder: Path) -> NDArray[np.float64]:
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
    return unit_rows("points", _table(text))


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


def _table(text: str) -> NDArray[np.float64]:
    reader = csv.reader(text.splitlines())
    try:
        header = next(reader, [])
        if len(header) < 2 or _numbers(header) is not None:
            raise ValueError(
                f"line 1 must be a header of d >= 2 names with commas between, got {shown(header)}"
            )
        rows = []
        for row in reader:
            values = _numbers(row)
            if values is None or len(values) != len(header):
                raise ValueError(
                    f"line {reader.line_num} must be {len(header)} numbers with commas between, "
                    f"got {','.join(row)!r:.80}"
                )
            rows.append(values)
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} must be CSV, but {error}") from None
    if not rows:
        raise ValueError(f"must have at least one row below the header {','.join(header)!r:.80}")
    return np.array(rows)


def _numbers(row: list[str]) -> list[float] | None:
    try:
        return [float(field) for field in row]
    except ValueError:
        return None


About = dict[str, str | int | float]
CLOUD_FILES = "token_files"
CASE_FILE = "case_file"
# what a case keeps when keys are set
ORIGIN = (CASE_FILE, "git_commit")
# of SHA-1 or SHA-256
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BRANCH, _ELSEWHERE = "ref: ", "gitdir: "
# bytes of a list of branches
_LARGEST_LIST = 1 << 24


def clouds(case: Table) -> Iterator[tuple[str, str]]:
    """The keys and names of the token files that a case refers to, bundled ones left out."""
    for where, table in tables_in(case):
        if isinstance(table, PointCloudTable) and table.file not in BUNDLED:
            yield f"{where}.file", table.file


def provenance(case: Table, space: Any, file: Path | None, folder: Path) -> About:
    """Attributes of a dataset that tell where the case of a run comes from.

    `seed` of tokens; `case_file`; `token_files`, JSON of names and SHA-256; `git_commit`
    where the case file lies in a work tree of git.
    """
    about: About = {"seed": space.seed} if isinstance(space, ParticlesTable) else {}
    digests = token_digests(case, folder)
    if digests:
        about[CLOUD_FILES] = json.dumps(digests)
    if file is not None:
        about[CASE_FILE] = str(file.resolve())
        if commit := git_commit(file.resolve()):
            about["git_commit"] = commit
    return about


def token_digests(case: Table, folder: Path) -> dict[str, str]:
    """SHA-256 of each token file that can be read."""
    files = {name: folder / name for _, name in clouds(case)}
    return {name: _digest(path) for name, path in files.items() if path.is_file()}


def check_tokens(case: Table, folder: Path, recorded: dict[str, str]) -> None:
    """Make sure that token files are those of the run that is repeated.

    Raises
    ------
    Fault
        If one is gone or has changed.
    """
    for key, name in clouds(case):
        path = folder / name
        if not path.is_file():
            raise Fault(
                f"{key} = {shown_key(name)} must be the file that the run had, but {path} is gone: "
                f"put it there, or set {key} to where it is"
            )
        if name in recorded and _digest(path) != recorded[name]:
            raise Fault(
                f"{key} = {shown_key(name)} must be the file that the run had, of SHA-256 "
                f"{recorded[name]:.12}…, but {path} has {_digest(path):.12}…"
            )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git_commit(file: Path) -> str:
    """The commit that the work tree of a file is at, "" where there is none.

    It is read from the files that git keeps. Git itself would run programs that a repository names
    in its settings, and a case may lie in a folder that somebody else has made.
    """
    for folder in file.parents:
        own = folder / ".git"
        elsewhere = _git_text(own)
        if own.is_dir() or elsewhere.startswith(_ELSEWHERE):
            return _head(folder / elsewhere.removeprefix(_ELSEWHERE) if elsewhere else own)
    return ""


def _head(own: Path) -> str:
    """The commit of a work tree whose own files are in `own`; branches may be in another."""
    head, shared = _git_text(own / "HEAD"), own / _git_text(own / "commondir")
    if head.startswith(_BRANCH):
        branch = head.removeprefix(_BRANCH)
        lines = _git_text(shared / "packed-refs").splitlines()
        packed = (line.partition(" ")[0] for line in lines if line.endswith(f" {branch}"))
        head = _git_text(own / branch) or _git_text(shared / branch) or next(packed, "")
    return head if _COMMIT.fullmatch(head) else ""


def _git_text(path: Path) -> str:
    """The text of a small file, "" where there is none."""
    try:
        # a device or a pipe might never end
        if not path.is_file() or path.stat().st_size > _LARGEST_LIST:
            return ""
        return path.read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""


_NAME = r"[A-Za-z0-9_-]+"
_KEY = re.compile(rf"{_NAME}(\[\d+\]|\.{_NAME})*")
_PART = re.compile(rf"\[(\d+)\]|({_NAME})")
# what needs no quotes to be taken for a string
_BARE_WORD = re.compile(r"[^\s\"'\[\]{}=,#]+")


def toml_value(text: str) -> Any:
    """The value that a text is in TOML; a bare word that is none counts as a string.

    Raises
    ------
    ValueError
        If it is neither.

    Examples
    --------
    >>> [toml_value(text) for text in ("5", "1e-3", "true", "SA", '"5"', "[1, 2]")]
    [5, 0.001, True, 'SA', '5', [1, 2]]
    """
    try:
        table = tomllib.loads(f"value = {text}")
        if list(table) == ["value"]:
            return table["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        if _BARE_WORD.fullmatch(text):
            return text
    raise ValueError(
        f'value must be one of TOML, as 5, true, [1, 2] or "a word", or a bare word, got '
        f"{shown_key(text)}"
    )


def as_toml(value: Any) -> str:
    """A value as TOML has it, on one line, cut where it is long.

    Examples
    --------
    >>> as_toml([1, 2.5, "SA", True])
    '[1, 2.5, "SA", true]'
    """
    if isinstance(value, list):
        text = f"[{', '.join(as_toml(one) for one in value)}]"
    elif isinstance(value, dict):
        text = f"{{{', '.join(f'{key} = {as_toml(one)}' for key, one in value.items())}}}"
    else:
        text = tomli_w.dumps({"value": value}).removeprefix("value = ").strip()
    return cut(text)


def setting(text: str) -> tuple[str, Any]:
    """Key and value of KEY=VALUE, the key with dots as in `dynamics.beta` or `law.laws[0].kappa`.

    Raises
    ------
    ValueError
        If it is no such text.

    Examples
    --------
    >>> setting("dynamics.beta=5")
    ('dynamics.beta', 5)
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ValueError(f"setting must be KEY=VALUE, as dynamics.beta=5, got {shown_key(text)}")
    return checked_key(key), toml_value(value)


def checked_key(key: str) -> str:
    """Return `key` if it is one with dots.

    Raises
    ------
    ValueError
        If it is not.
    """
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ValueError(
            f"key must be names with dots between, as dynamics.beta or law.laws[0].kappa, got "
            f"{shown_key(key)}"
        )
    return key


def overridden(
    text: str,
    settings: Mapping[str, Any],
    name: str,
    fields: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
) -> str:
    r"""The TOML of a case with these keys set; comments are lost where there are any.

    A table that gets another type keeps the keys that the new type has, by `fields`: the keys of
    each type of table, by the name of the table.

    Raises
    ------
    CaseError
        If the text is not TOML, or a key leads through what is no table or no list.

    Examples
    --------
    >>> overridden("[dynamics]\nbeta = 4.0", {"dynamics.beta": 5, "run.t_end": 1.0}, "a.toml")
    '[dynamics]\nbeta = 5\n\n[run]\nt_end = 1.0\n'
    """
    if not settings:
        return text
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CaseError(f"{name}: must be TOML, but {error}") from None
    for key, value in settings.items():
        table, _, last = key.rpartition(".")
        if last == "type" and fields is not None:
            kinds = fields.get(re.sub(r"\[\d+\]$", "", table).rpartition(".")[2], {})
            _drop(raw, table, kinds.get(value) if isinstance(value, str) else None, settings)
        _set(raw, key, value, name)
    return tomli_w.dumps(raw)


def _drop(
    raw: dict[str, Any], path: str, kept: Sequence[str] | None, settings: Mapping[str, Any]
) -> None:
    """Drop the keys of a table that are not among `kept`, the keys of its type to be, nor set."""
    here: Any = raw
    for index, word in _PART.findall(path):
        part: Any = int(index) if index else word
        is_there = part in here if isinstance(here, dict) else isinstance(here, list)
        if not is_there or (isinstance(here, list) and part >= len(here)):
            return
        here = here[part]
    if kept is None or not isinstance(here, dict):
        return
    for key in list(here):
        if key not in kept and f"{path}.{key}" not in settings:
            del here[key]


def _set(raw: dict[str, Any], key: str, value: Any, name: str) -> None:
    parts = [word or int(index) for index, word in _PART.findall(key)]
    here: Any = raw
    path = ""
    for depth, part in enumerate(parts):
        if isinstance(part, int):
            allowed = f"a list of more than {part}"
            fits = isinstance(here, list) and part < len(here)
        else:
            allowed = "a table"
            fits = isinstance(here, dict)
        if not fits:
            raise CaseError(f"{name}: {path} must be {allowed} for {key}, got {shown_key(here)}")
        if depth == len(parts) - 1:
            here[part] = value
        elif isinstance(part, int):
            here = here[part]
        else:
            # only a table may be new
            here = here.setdefault(part, {})
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part


# tables of a kernel have some sqrt(β) entries a side
LARGEST_BETA_OF_TABLES = 1e5
MOST_NODES = 10**7
# coordinates of tokens, and numbers in matrices of heads: 2 GB
MOST_NUMBERS = 1 << 28
# of the machine's memory, what the measures at all saves may take
SHARE_OF_MEMORY = 0.5
# which distance a key belongs to
_OWNER = {"p": "wasserstein", "gap": "wasserstein", "beta": "mmd", "s": "sobolev"}


def build_measure(law: Table, space: Table, folder: Path) -> AnyMeasure:
    """The measure at t = 0; where one table leaves the dimension open, the other settles it.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    if isinstance(space, ParticlesTable):
        return _particles(law, space, folder)
    if isinstance(space, FlowMapTable):
        moving = _made(law, "law", None, folder)
        with located("space", ("tol", "axis")):
            return FlowMap(moving, space.tol, axis=space.axis)
    grid = _made(space, "space", _law_dim(law), folder)
    return Density(grid, _made(law, "law", grid.dim, folder))


def build_law(law: Table, space: Table, folder: Path) -> Law:
    """The law by itself.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    dim = None if space.made is None else _made(space, "space", _law_dim(law), folder).dim
    found: Law = _made(law, "law", dim, folder)
    return found


def noise_rng(space: Table) -> dict[str, np.random.Generator]:
    """The random numbers of a noisy run of tokens, apart from those of its start."""
    if not isinstance(space, ParticlesTable):
        return {}
    return {"rng": np.random.default_rng(np.random.SeedSequence(space.seed, spawn_key=(1,)))}


def build_dynamics(table: Table) -> AnyDynamics:
    """The dynamics.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    found: AnyDynamics = _made(table, "dynamics")
    return found


def _made(table: Table, where: str, dim: int | None = None, folder: Path = Path()) -> Any:
    """The law, space or dynamics of the table `where`, in `dim` where the table leaves it open."""
    with located(where, type(table).model_fields):
        if isinstance(table, PointCloudTable):
            return PointCloud(_points(table, where, folder), bandwidth=table.bandwidth)
        dim = _law_dim(table) if dim is None else dim
        arguments = {}
        for name in type(table).model_fields.keys() - {"type"}:
            value = getattr(table, name)
            match value:
                case [Table(), *_]:
                    parts = enumerate(value)
                    value = [_made(one, f"{where}.{name}[{i}]", dim, folder) for i, one in parts]
            if name == "dim":
                value = _settled(value, dim, where)
            arguments[name] = value
        return table.made(**arguments)


def _particles(law: Table, table: ParticlesTable, folder: Path) -> Particles:
    if table.n is not None:
        drawn_from, rng = _made(law, "law", None, folder), np.random.default_rng(table.seed)
        start = Particles.sample if table.start == "iid" else Particles.quantised
        return start(drawn_from, table.n, rng, sums=table.sums)
    if isinstance(law, PointCloudTable) and law.bandwidth is None:
        return Particles(_points(law, "law", folder), sums=table.sums)
    raise Fault("space.n is missing: it must be the number of tokens to draw from the law, >= 1")


def _law_dim(table: Any) -> int | None:
    """The dimension that a law's table itself settles."""
    if table.made is FourierSeries:
        return 2
    if table.made is VonMisesFisher:
        return len(table.mean)
    parts = (_law_dim(law) for law in getattr(table, "laws", ()))
    return getattr(table, "dim", next((dim for dim in parts if dim is not None), None))


def _points(table: PointCloudTable, where: str, folder: Path) -> NDArray[np.float64]:
    try:
        return read_points(table.file, folder)
    except ValueError as error:
        raise Fault(f"{where}.file = {shown_key(table.file)}: {error}") from None


def _settled(own: int | None, other: int | None, where: str) -> int:
    settled = other if own is None else own
    if settled is None:
        raise Fault(f"{where}.dim is missing: it must be an integer >= 2")
    return settled


def check_limits(tables: Table) -> None:
    """Check the sizes that the tables of a case ask for, before anything is built.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    case: Any = tables
    for where, table in tables_in(case):
        _check_table(where, table, case.space)
    _check_run(case.run, case.space)
    if len(case.monitors) > MOST_MONITORS:
        raise Fault(f"monitors must be at most {MOST_MONITORS} tables, got {len(case.monitors)}")
    if isinstance(case.space, ParticlesTable) and case.space.n is not None:
        _check_product("space.n", case.space.n, max(_dims(case.law), default=2), "tokens")


def check_saves(measure: AnyMeasure, save_at: int | list[float]) -> None:
    """Check that memory holds the measures of a run at all its saves.

    Raises
    ------
    ValueError
        Naming the number of saves and how many are allowed.
    """
    count = save_at if isinstance(save_at, int) else len(save_at)
    names = ("coefficients", "points", "weights", "angles", "expansion", "log_density")
    held = (getattr(measure, name, None) for name in names)
    size = sum(one.nbytes for one in held if isinstance(one, np.ndarray))
    most = int(SHARE_OF_MEMORY * min(memory_of_machine(), 1e18) / max(size, 1))
    if count > most:
        raise Fault(
            f"run.save_at must be at most {most} saves of {measure}, {size} bytes each, on this "
            f"machine, got {count}"
        )


def _check_table(where: str, table: Any, space: Table) -> None:
    for key, field in type(table).model_fields.items():
        limits: Any = field.json_schema_extra or {}
        found, most = getattr(table, key), limits.get("maxItems")
        if most is not None and found is not None and len(found) > most:
            raise Fault(f"{where}.{key} must have at most {most} entries, got {len(found)}")
        if key == "dim" and found is not None:
            low, high = limits["minimum"], limits["maximum"]
            _bounded(integer, f"{where}.dim", found, low=low, high=high)
    if table.made is not None and "beta" in type(table).model_fields:
        high = LARGEST_BETA if isinstance(space, ParticlesTable) else LARGEST_BETA_OF_TABLES
        _bounded(number, f"{where}.beta", table.beta, low=0, high=high)
    if heads := getattr(table, "heads", None):
        given = [m for head in heads for m in (head.Q, head.K, head.V)]
        side = max((len(m) for m in given if isinstance(m, list)), default=1)
        _check_product(f"{where}.heads", len(heads), side**2, "heads")


def _check_run(run: Any, space: Table) -> None:
    _bounded(number, "run.t_end", run.t_end, above=0)
    if isinstance(run.save_at, int):
        _bounded(integer, "run.save_at", run.save_at, low=1, high=MOST_SAVES)
    if run.largest is not None and isinstance(space, FlowMapTable):
        _bounded(integer, "run.largest", run.largest, low=1, high=MOST_NODES)


def _bounded(check: Any, key: str, value: Any, **bounds: Any) -> None:
    try:
        check(key, value, **bounds)
    except ValueError as error:
        raise Fault(str(error)) from None


def _check_product(key: str, count: int, numbers: int, what: str) -> None:
    most = MOST_NUMBERS // numbers
    if count > most:
        raise Fault(f"{key} must be at most {most} {what} of {numbers} numbers each, got {count}")


def _dims(law: Table) -> list[int]:
    """The dimensions that the parts of a law tell."""
    found = (_law_dim(table) for _, table in tables_in(law, "law"))
    return [dim for dim in found if dim is not None]


def build_monitors(
    tables: Mapping[str, MonitorTable], measure: AnyMeasure, dynamics: AnyDynamics, folder: Path
) -> dict[str, DistanceTo]:
    """The monitors of a run that starts with the measure, each tried on it.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    monitors = {}
    taken = taken_names(tables)
    for name, table in tables.items():
        if not name.isidentifier() or name in taken or name.startswith(PREFIXES):
            raise Fault(
                f"monitors must have names of letters, digits and _ that are no variables of a run "
                f"or bounds of another monitor, got {shown_key(name)}"
            )
        where = f"monitors.{name}"
        arguments = _arguments(table, where, measure, dynamics, folder)
        with located(where, type(table).model_fields):
            # what can't be computed is refused now; a monitor remembers its calls, so it is another
            DistanceTo(**arguments)(measure)
            monitors[name] = DistanceTo(**arguments)
    return monitors


def _arguments(
    table: MonitorTable, where: str, measure: AnyMeasure, dynamics: AnyDynamics, folder: Path
) -> dict[str, Any]:
    for key, owner in _OWNER.items():
        if getattr(table, key) is not None and table.distance != owner:
            raise Fault(
                f"{where}.{key} must be left out for distance = {table.distance!r}, as it is one "
                f"of {owner!r}, got {getattr(table, key)!r}"
            )
    if (table.to is None) == (table.law is None):
        given = "neither" if table.law is None else f"both, to = {table.to!r}"
        raise Fault(f"{where} must have either to or a table law, got {given}")
    arguments: dict[str, Any] = {"to": table.to, "every": table.every}
    if table.law is not None:
        law = _made(table.law, f"{where}.law", measure.dim, folder)
        if law.dim != measure.dim:
            raise Fault(
                f"{where}.law must have dim = {measure.dim} beside {measure}, got {law!r} with "
                f"dim = {law.dim}"
            )
        arguments["to"] = law
    if table.distance == "mmd":
        beta = dynamics.beta if table.beta is None else table.beta
        arguments["distance"] = partial(mmd, beta=beta)
    elif table.distance == "sobolev":
        arguments["distance"] = partial(sobolev, s=-1.0 if table.s is None else table.s)
    else:
        arguments |= {"p": 1.0 if table.p is None else table.p, "gap": table.gap}
    return arguments


_LARGEST_FILE = 1 << 20
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_WITH = " with --"
_KINDS = {
    "law": kinds(AnyLawTable),
    "laws": kinds(AnyLawTable),
    "space": kinds(AnySpaceTable),
    "dynamics": kinds(AnyDynamicsTable),
    "layers": kinds(AnyLayerTable),
}


_FIELDS = {
    "law": union_fields(AnyLawTable),
    "laws": union_fields(AnyLawTable),
    "space": union_fields(AnySpaceTable),
    "dynamics": union_fields(AnyDynamicsTable),
    "layers": union_fields(AnyLayerTable),
}


class Case(Table):
    """The tables of a case file.

    Attributes
    ----------
    law, space, dynamics, run, output
        The tables.
    monitors : dict of str to table
    name : str
        The file that they come from.
    text : str
        Its TOML.
    """

    law: AnyLawTable = Field(description="a table, the measure at t = 0")
    space: AnySpaceTable = Field(description="a table, what the measure is stored on")
    dynamics: AnyDynamicsTable = Field(  # type: ignore[valid-type]
        description="a table with beta"
    )
    run: RunTable = Field(description="a table with t_end")
    output: OutputTable = Field(default=OutputTable(), description="a table, where results go")
    monitors: dict[str, MonitorTable] = Field(
        default_factory=dict,
        description="tables of distances at the saves, each under its name",
        json_schema_extra={"maxProperties": MOST_MONITORS},
    )

    _name: str = PrivateAttr(default="")
    _text: str = PrivateAttr(default="")
    _folder: Path = PrivateAttr(default=Path())
    _file: Path | None = PrivateAttr(default=None)
    _carried: About = PrivateAttr(default_factory=dict)

    @property
    def name(self) -> str:
        """The file that the tables come from."""
        return self._name

    @property
    def text(self) -> str:
        """Its TOML."""
        return self._text

    @property
    def folder(self) -> Path:
        """Where its token files are looked for."""
        return self._folder

    def placed(self, folder: Path, about: About) -> Case:
        """The case with its token files in `folder`, and what is known of where it comes from."""
        case = self.model_copy()
        case._folder, case._carried = folder, dict(about)
        return case

    def with_output(self, output: OutputTable) -> Case:
        """The case whose results go elsewhere."""
        return self.model_copy(update={"output": output})

    def digest(self) -> str:
        """SHA-256 of what a run depends on: all tables but `output`, and the token files.

        A key that has its default is as good as left out.
        """
        tables = self.model_dump(mode="json", exclude={"output"}, exclude_defaults=True)
        parts = {"case": tables, "tokens": token_digests(self, self._folder)}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def provenance(self) -> About:
        """Attributes of a dataset that tell where the case comes from."""
        return self._carried | provenance(self, self.space, self._file, self._folder)

    def origin(self) -> About:
        """The part of that which is not of its tables."""
        return {key: value for key, value in self.provenance().items() if key in ORIGIN}

    def build(self) -> tuple[AnyMeasure, AnyDynamics, dict[str, Any]]:
        """The measure at t = 0, the dynamics, and the keyword arguments of `evolve`.

        Raises
        ------
        CaseError
            If a value is out of range or the tables don't fit each other.
        """
        with self.errors("law"):
            dynamics = build_dynamics(self.dynamics)
            measure = build_measure(self.law, self.space, self._folder)
            check_saves(measure, self.run.save_at)
        keywords = self.run.model_dump(exclude_none=True) | {"case": self._text}
        keywords["about"] = {SOURCE: self.digest(), **self.provenance()}
        if dynamics.noise > 0.0:
            keywords |= noise_rng(self.space)
        if self.monitors:
            keywords["monitors"] = self.build_monitors(measure)
        return measure, dynamics, keywords

    def build_monitors(self, measure: AnyMeasure) -> dict[str, DistanceTo]:
        """The monitors of a run that starts with the measure.

        Raises
        ------
        CaseError
            If one can't be computed.
        """
        dynamics = build_dynamics(self.dynamics)
        with self.errors("monitors"):
            return build_monitors(self.monitors, measure, dynamics, self._folder)

    def build_law(self) -> tuple[Law, AnyDynamics]:
        """The law and the dynamics.

        Raises
        ------
        CaseError
            If a value is out of range.
        """
        with self.errors("law"):
            return build_law(self.law, self.space, self._folder), build_dynamics(self.dynamics)

    @contextmanager
    def errors(self, section: str) -> Iterator[None]:
        """Turn a ValueError into a CaseError that names the file and the key.

        Raises
        ------
        CaseError
            For a ValueError inside; a message that opens with no key is laid to `section`.
        """
        try:
            yield
        except CaseError:
            raise
        except Fault as fault:
            raise CaseError(f"{self._name}: {fault}") from None
        except ValueError as error:
            raise CaseError(f"{self._name}: {self._placed(section, str(error))}") from None

    def _placed(self, section: str, message: str) -> str:
        word = message.partition(" ")[0]
        sections = type(self).model_fields
        for name in (section, *sections):
            if word in getattr(type(getattr(self, name)), "model_fields", ()):
                return f"{name}.{message}"
        return message if word in sections else f"{section}: {message}"


def read_case(path: str | Path, settings: Mapping[str, Any] | None = None) -> Case:
    """The case in a TOML file; point clouds in it are looked for beside it.

    Parameters
    ----------
    path : str or Path
    settings : mapping of str to value, optional
        Keys with dots, as "dynamics.beta", that are set before the case is checked.

    Raises
    ------
    CaseError
        If the file can't be read, is not TOML, or is no case.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        if len(content) > _LARGEST_FILE:
            raise CaseError(f"{path}: must be a case file of at most {_LARGEST_FILE} bytes")
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise CaseError(f"{path}: can't be read as a case file: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CaseError(f"{path}: must be TOML in UTF-8, but {error}") from None
    case = case_from_text(text.replace("\r\n", "\n"), str(path), path.parent, settings)
    case._file = path
    return case


def case_from_text(
    text: str,
    name: str,
    folder: str | Path = ".",
    settings: Mapping[str, Any] | None = None,
    option: str = "--set",
) -> Case:
    r"""The case in a TOML text; `name` is what errors call it, `folder` holds its point clouds.

    With `settings` its text is written anew, without comments, and errors name them and the
    `option` that they were given by.

    Raises
    ------
    CaseError
        If the text is not TOML or no case.

    Examples
    --------
    >>> case_from_text("[law]\nkind = 'uniform'", "my.toml")
    Traceback (most recent call last):
        ...
    meanfield.cli.tables.CaseError: my.toml: space is missing: it must be a table...
    """
    if settings:
        text = overridden(text, settings, name, _FIELDS)
        name += "" if _WITH in name else " with"
        name += "".join(f" {option} {key}={as_toml(settings[key])}" for key in settings)
    try:
        raw = tomllib.loads(text)
        case = Case.model_validate(raw)
    except ValidationError as error:
        raise CaseError(f"{name}: {schema_fault(error, raw, _KINDS, _keys())}") from None
    except (ValueError, RecursionError) as error:
        raise CaseError(f"{name}: must be TOML, but {error}") from None
    case._name, case._text, case._folder = name, text, Path(folder)
    with case.errors("run"):
        check_limits(case)
    return case


def _keys() -> list[str]:
    """All keys of a case, with dots."""
    found = list(Case.model_fields)
    for name in ("law", "space", "dynamics"):
        fields = (field for keys in _FIELDS[name].values() for field in keys)
        found += [f"{name}.{field}" for field in dict.fromkeys(fields)]
    for name, table in (("run", RunTable), ("output", OutputTable)):
        found += [f"{name}.{field}" for field in table.model_fields]
    return found


def default_case_text() -> str:
    """The bundled case, a commented template."""
    return (files("meanfield") / "data" / "default.toml").read_text("utf-8")


def case_of(solution: Solution, path: Path, settings: Mapping[str, Any] | None = None) -> Case:
    """The case that a solution, read from `path`, is a run of.

    Token files are looked for beside the case file that the run had, then beside `path`, and have
    to be the same to the byte. Files go where `settings` say and not where the run's went: a result
    from elsewhere names no file here.

    Raises
    ------
    CaseError
        If the run had no case file, or its token files are gone or have changed.
    """
    name = f"the case in {path}"
    if not solution.case:
        raise CaseError(f"{name} is missing: it must be of a run from a case file, to be run again")
    about = solution.dataset.attrs
    home = Path(str(about.get(CASE_FILE, path))).parent
    case = case_from_text(solution.case, name, path.parent, settings)
    folder = home if _has_all(case, home) or not _has_all(case, path.parent) else path.parent
    with case.errors("law"):
        check_tokens(case, folder, _recorded(about))
    carried = {key: about[key] for key in ORIGIN if key in about}
    return case.placed(folder, carried).with_output(_outputs(case, settings or {}))


def _outputs(case: Case, settings: Mapping[str, Any]) -> OutputTable:
    """Where files go by the settings alone."""
    if "output" in settings:
        return case.output
    keys = [key.removeprefix("output.") for key in settings if key.startswith("output.")]
    return OutputTable(**{key: getattr(case.output, key) for key in keys})


def _has_all(case: Case, folder: Path) -> bool:
    return all((folder / name).is_file() for _, name in clouds(case))


def _recorded(about: Mapping[str, Any]) -> dict[str, str]:
    try:
        recorded = json.loads(str(about.get(CLOUD_FILES, "{}")))
    except json.JSONDecodeError:
        return {}
    return recorded if isinstance(recorded, dict) else {}


class _Schema(GenerateJsonSchema):
    """TOML has no null: a key that may be left out is not one that may be null."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 (as it is called)
        return False

    def nullable_schema(self, schema: Any) -> Any:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> Any:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def json_schema() -> dict[str, Any]:
    """The schema: all tables with their keys, types, ranges and descriptions.

    Ranges that depend on other keys are not in it; a case that fits it may still be refused.

    Examples
    --------
    >>> schema = json_schema()
    >>> schema["required"]
    ['law', 'space', 'dynamics', 'run']
    """
    schema = Case.model_json_schema(schema_generator=_Schema)
    about = {"title": "A case of meanfield", "description": "What `meanfield run` evolves."}
    return {"$schema": _DIALECT, **schema, **about}


def json_schema_text() -> str:
    """The schema as the text of a file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
