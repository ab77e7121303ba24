"""Case files: TOML to a measure, a dynamics and a run; errors name file, key and value."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import pydantic
import tomli_w
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from meanfield._checks import check_type, cut, shown
from meanfield.cli import tables
from meanfield.cli.tables import Fault, Table, located, tables_in, wrong
from meanfield.dynamics import KNOWN, AnyDynamics, adapt
from meanfield.equations.tendency import check_moved
from meanfield.evolution.arrays import PREFIXES
from meanfield.evolution.checkpoint import new_checkpoint
from meanfield.evolution.files import SOURCE
from meanfield.evolution.loop import save_times, solve
from meanfield.evolution.netcdf import memory_of_machine
from meanfield.evolution.progress import Progress, checked_progress
from meanfield.evolution.recorder import taken_names
from meanfield.evolution.solution import Solution
from meanfield.exceptions import CaseError, UnfinishedWarning
from meanfield.functionals.transport.distance import DistanceTo
from meanfield.laws import Law
from meanfield.measures import AnyMeasure, Particles
from meanfield.typing import Listed

About = dict[str, str | int | float]
CLOUD_FILES = "token_files"
CASE_FILE = "case_file"
# these entries of a case stay when `--set` changes its keys
ORIGIN = (CASE_FILE, "git_commit")
# a commit is a digest of SHA-1 or SHA-256
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BRANCH, _ELSEWHERE = "ref: ", "gitdir: "
# a list of branches with more bytes than this is not read
_LARGEST_LIST = 1 << 24


def clouds(case: Table) -> Iterator[tuple[str, str]]:
    """The keys and names of the token files that a case refers to, bundled ones left out."""
    for where, table in tables_in(case):
        if table.token_file:
            yield f"{where}.points", table.token_file


def _is_file(path: Path) -> bool:
    """Return whether a path is a regular file; False if the system refuses the name."""
    with suppress(OSError):
        return path.is_file()
    return False


def token_digests(case: Table, folder: Path) -> dict[str, str]:
    """SHA-256 of each token file that can be read."""
    files = {name: folder / name for _, name in clouds(case)}
    return {name: _digest(path) for name, path in files.items() if _is_file(path)}


def check_tokens(case: Table, folder: Path, recorded: dict[str, str]) -> None:
    """Make sure that token files are those of the run that is repeated.

    Raises
    ------
    Fault
        If one is gone or has changed.
    """
    digests = token_digests(case, folder)
    for key, name in clouds(case):
        path, rule = folder / name, f"{key} = {shown(name)} must be the file that the run had"
        if name not in digests:
            raise Fault(f"{rule}, but {path} is gone: put it there, or set {key} to where it is")
        if digests[name] != recorded.get(name, digests[name]):
            was, now = f"{recorded[name]:.12}…", f"{digests[name]:.12}…"
            raise Fault(f"{rule}, of SHA-256 {was}, but {path} has {now}")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git_commit(file: Path) -> str:
    """The commit that the work tree of a file is at, "" where there is none.

    It is read from the files that git keeps. Git itself would run programs that a repository names
    in its settings, and a case may lie in a folder that somebody else has made.
    """
    for folder in file.parents:
        git_folder = folder / ".git"
        # in a further work tree it is a file that names the folder
        named = _git_text(git_folder)
        if git_folder.is_dir() or named.startswith(_ELSEWHERE):
            return _head(folder / named.removeprefix(_ELSEWHERE) if named else git_folder)
    return ""


def _head(git_folder: Path) -> str:
    """The commit of the work tree that a folder of git belongs to; branches may be in another."""
    head, shared = _git_text(git_folder / "HEAD"), git_folder / _git_text(git_folder / "commondir")
    if head.startswith(_BRANCH):
        branch = head.removeprefix(_BRANCH)
        lines = _git_text(shared / "packed-refs").splitlines()
        packed = (line.partition(" ")[0] for line in lines if line.endswith(f" {branch}"))
        loose = _git_text(git_folder / branch) or _git_text(shared / branch)
        head = loose or next(packed, "")
    return head if _COMMIT.fullmatch(head) else ""


def _git_text(path: Path) -> str:
    """Return the text of a small file of git, "" if there is none."""
    with suppress(OSError, ValueError):
        # a device or a pipe may never end, so only a regular file is read
        if path.is_file() and path.stat().st_size <= _LARGEST_LIST:
            return path.read_text("utf-8").strip()
    return ""


_NAME = r"[A-Za-z0-9_-]+"
_KEY = re.compile(rf"{_NAME}(\[\d+\]|\.{_NAME})*")
_PART = re.compile(rf"\[(\d+)\]|({_NAME})")
# a value that consists of these characters alone is a string without quotes
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
    raise wrong("value", 'be one of TOML, as 5, true, [1, 2] or "a word", or a bare word', text)


def as_toml(value: object) -> str:
    """A value as TOML has it, on one line, cut where it is long.

    Examples
    --------
    >>> as_toml([1, 2.5, "SA", True])
    '[1, 2.5, "SA", true]'
    """
    match value:
        case list():
            text = f"[{', '.join(map(as_toml, value))}]"
        case dict():
            text = f"{{{', '.join(f'{key} = {as_toml(part)}' for key, part in value.items())}}}"
        case _:
            text = tomli_w.dumps({"value": value}).removeprefix("value = ").strip()
    return cut(text)


def setting(text: str) -> tuple[str, object]:
    """Key and value of KEY=VALUE, the key with dots: `dynamics.beta`, `law.laws.0.kappa`.

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
        raise wrong("setting", "be KEY=VALUE, as dynamics.beta=5", text)
    return checked_key(key), toml_value(value)


def checked_key(key: str) -> str:
    """Return `key` if it is one with dots.

    Raises
    ------
    ValueError
        If it is not.
    """
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        must = "be names with dots between, as dynamics.beta or law.laws[0].kappa"
        raise wrong("key", must, key)
    return key


def check_mapping(name: str, settings: object) -> None:
    """Check that what is to be set maps keys to values.

    Raises
    ------
    ValueError
        Naming the argument.
    """
    if not isinstance(settings, Mapping):
        raise wrong(name, "map keys to values", settings)


def overridden(text: str, settings: Mapping[str, object], name: str) -> str:
    r"""The TOML of a case with these keys set; comments are lost where there are any.

    A table that gets another type keeps the keys that the new type has.

    Raises
    ------
    CaseError
        If the text is not TOML, or a key leads through a value that is neither table nor list.

    Examples
    --------
    >>> overridden("[dynamics]\nbeta = 4.0", {"dynamics.beta": 5, "run.t_end": 1.0}, "a.toml")
    '[dynamics]\nbeta = 5\n\n[run]\nt_end = 1.0\n'
    """
    if not settings:
        return text
    raw = _parsed(text, name)
    for key, value in settings.items():
        table, last = _place(raw, key, name)
        path = key.rpartition(".")[0]
        if last == "type" and (kind := tables.TYPES.get(str(value))):
            for unknown in table.keys() - kind.model_fields.keys():
                if not any(setting.startswith(f"{path}.{unknown}") for setting in settings):
                    del table[unknown]
        table[last] = value
    return tomli_w.dumps(raw)


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CaseError(f"{name}: must be TOML, but {error}") from None


def _place(raw: Any, key: str, name: str) -> tuple[Any, int | str]:
    """Return the table or list that holds a key, and the last part of the key.

    Tables are made if missing.
    """
    words = (word or index for index, word in _PART.findall(key))
    # a part of a key that is a number is an index of a list: no key of a case is a number
    table, parts = raw, [int(word) if word.isdecimal() else word for word in words]
    for depth, part in enumerate(parts):
        allowed, fits = "a table", type(table) is dict
        if type(part) is int:
            allowed, fits = f"a list of more than {part}", type(table) is list and part < len(table)
        if not fits:
            # a table that was made for this key is empty, and is called "none" in the message
            path, content = tables.dotted(parts[:depth]), shown(table) if table != {} else "none"
            raise CaseError(f"{name}: {path} must be {allowed} for {key}, got {content}")
        if depth < len(parts) - 1:
            # a missing table is made, but a list gets no new entries
            table = table.setdefault(part, {}) if type(table) is dict else table[part]
    return table, parts[-1]


# the measures of all saves may take this share of the memory of the machine
SHARE_OF_MEMORY = 0.5


def check_saves(measure: AnyMeasure, save_at: int | list[float]) -> None:
    """Check that memory holds the measures of a run at all its saves.

    Raises
    ------
    ValueError
        Naming the number of saves and how many are allowed.
    """
    count = save_at if isinstance(save_at, int) else len(save_at)
    further = "points", "weights", "angles", "expansion", "log_density"
    # a density has no points of its own: its points are those of the grid
    names = ("coefficients",) if hasattr(measure, "coefficients") else further
    size = sum(getattr(getattr(measure, name, None), "nbytes", 0) for name in names)
    most_saves = int(SHARE_OF_MEMORY * min(memory_of_machine(), 1e18) / max(size, 1))
    if count > most_saves:
        allowed = f"at most {most_saves} saves of {measure}, {size} bytes each, on this machine"
        raise Fault(f"run.save_at must be {allowed}, got {count}")


_LARGEST_FILE = 1 << 20
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_WITH = " with "


class Case(Listed):
    """A law, a measure, a dynamics and the times of a run, as a case file has them.

    Two cases are equal if their tables and the files of tokens that they name are.

    Parameters
    ----------
    toml : str
        The text of a case file.
    folder : str or path-like, optional
        The folder in which its files of tokens are looked for.
    name : str, optional
        The name of the case in errors.

    Raises
    ------
    meanfield.exceptions.CaseError
        A ValueError of one line, if the text is not TOML or no case.

    Examples
    --------
    >>> case = Case('''
    ... law = { type = "FourierSeries", cos = [0.5] }
    ... measure = { type = "Density", space = { type = "Circle", n = 32 } }
    ... dynamics = { type = "SA", beta = 1.0 }
    ... run = { t_end = 0.5, save_at = 2 }
    ... ''')
    >>> round(float(case.run().dataset.energy[-1]), 6)
    0.687653
    >>> case.replace({"dynamics.beta": 2.0}).run().dynamics
    SA(beta=2.0, sign=1, noise=0.0)
    """

    _for_rooms = (
        *("build", "build_law", "build_monitors", "content", "digest", "errors", "folder", "name"),
        *("origin", "provenance", "solve", "tables", "text", "with_keys"),
    )

    def __init__(
        self, toml: str, *, folder: str | os.PathLike[str] = ".", name: str = "the case"
    ) -> None:
        check_type("name", name, str, "a word")
        check_type("toml", toml, str, "the text of a case file")
        check_type("folder", folder, (str, os.PathLike), "the name of a folder")
        raw = _parsed(toml, name)
        try:
            self.tables = tables.CaseTable.model_validate(raw)
        except pydantic.ValidationError as error:
            raise CaseError(f"{name}: {tables.schema_fault(error, raw)}") from None
        self.name, self.text, self.folder = name, toml, Path(folder)
        self.origin: About = {}
        with self.errors("run"):
            for where, table in tables_in(self.tables):
                with located(where, type(table).model_fields):
                    table.check(self.tables)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Case:
        """The case in a TOML file; files of tokens are looked for beside it.

        Raises
        ------
        meanfield.exceptions.CaseError
            If the file can't be read, is not TOML, or is no case.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> text = '''
        ... law = {type = "FourierSeries", cos = [0.5]}
        ... measure = {type = "Density", space = {type = "Circle", n = 32}}
        ... dynamics = {beta = 1.0}
        ... run = {t_end = 0.5, save_at = 2}
        ... '''
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "case.toml"
        ...     _ = path.write_text(text)
        ...     case = Case.from_file(path)
        >>> round(float(case.run().dataset.energy[-1]), 6)
        0.687653
        """
        check_type("path", path, (str, os.PathLike), "the name of a case file")
        return read_case(path)

    def __init_subclass__(cls) -> None:
        # a sweep or a file rebuilds a case from its text, which does not name a subclass
        raise TypeError(f"Case can't be the base of a class, got {cls.__name__}")

    def __repr__(self) -> str:
        return f"<Case {self.name}>"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Case)
            and self.tables == other.tables
            and self.content() == other.content()
        )

    def __hash__(self) -> int:
        return hash(self.digest())

    def __reduce__(self) -> tuple[object, ...]:
        # pickle can't store the classes that are made at run time, so the text of the case is
        # stored
        return case_from_text, (self.text, self.name, self.folder, None, "", self.origin)

    def to_toml(self) -> str:
        """The text of a case file with the same tables."""
        return self.text

    def replace(self, changes: Mapping[str, object]) -> Case:
        """The case with other values of some keys, such as {"dynamics.beta": 5.0}.

        A table that gets another type keeps the keys that the new type has.

        Raises
        ------
        meanfield.exceptions.CaseError
            If that is no case.
        """
        check_mapping("changes", changes)
        return self.with_keys(
            {checked_key(key): _plain(key, value) for key, value in changes.items()}
        )

    def run(
        self, *, progress: Progress = False, checkpoint: str | os.PathLike[str] | None = None
    ) -> Solution:
        """Evolve the measure; no file is written but a `checkpoint`, see `evolve`.

        Raises
        ------
        meanfield.exceptions.CaseError
            If the tables don't fit each other or a value is out of range.
        meanfield.exceptions.Interrupted
            On Ctrl-C, a KeyboardInterrupt whose `solution` is what the run has so far.

        Warns
        -----
        meanfield.exceptions.UnfinishedWarning
            If the run ends before `t_end`, with its `message`.
        """
        solution = self.solve(progress=checked_progress(progress), checkpoint=checkpoint)
        if not solution.success:
            warnings.warn(solution.message, UnfinishedWarning, stacklevel=2)
        return solution

    def with_keys(self, settings: Mapping[str, object] | None, option: str = "") -> Case:
        """The case with these keys set, which errors name with the option that they came by."""
        return case_from_text(self.text, self.name, self.folder, settings, option, self.origin)

    def content(self) -> dict[str, object]:
        """The content that a run depends on: all tables but `output`, and the token files.

        A key that has its default is as good as left out.
        """
        tables = self.tables.model_dump(mode="json", exclude={"output"}, exclude_defaults=True)
        return {"case": tables, "tokens": token_digests(self.tables, self.folder)}

    def digest(self) -> str:
        """SHA-256 of what a run depends on."""
        return hashlib.sha256(json.dumps(self.content(), sort_keys=True).encode()).hexdigest()

    def provenance(self) -> About:
        """Attributes of a dataset that tell where the case comes from.

        `rng` of tokens; `case_file`; `token_files`, JSON of names and SHA-256; `git_commit`
        where the case file lies in a work tree of git.
        """
        is_drawn = self.tables.measure.made is Particles
        provenance: About = {"rng": self.tables.run.rng} if is_drawn else {}
        if digests := token_digests(self.tables, self.folder):
            provenance[CLOUD_FILES] = json.dumps(digests)
        return provenance | self.origin

    def build(self) -> tuple[AnyMeasure, AnyDynamics, dict[str, Any]]:
        """The measure at t = 0, the dynamics, and the keyword arguments of `evolve`.

        Raises
        ------
        CaseError
            If a value is out of range or the tables don't fit each other.
        """
        run = self.tables.run
        with self.errors("run"):
            save_times(0.0, run.t_end, run.save_at)
        with self.errors("law"):
            dynamics = self.tables.dynamics.build("dynamics")
            measure = self.tables.measure.build(self.tables.law, self.folder, run.rng)
            check_saves(measure, run.save_at)
        keywords = run.model_dump(exclude_none=True, exclude={"rng", "energy"})
        keywords |= {"case": self.text, "about": {SOURCE: self.digest(), **self.provenance()}}
        if dynamics.noise > 0.0 and self.tables.measure.made is Particles:
            keywords["rng"] = run.noise()
        if self.tables.monitors:
            keywords["monitors"] = self.build_monitors(measure)
        with self.errors("run"):
            if run.energy is not None:
                keywords["energy"] = run.followed()
            check_moved(measure, dynamics)
        return measure, dynamics, keywords

    def solve(
        self, *, checkpoint: str | os.PathLike[str] | None = None, **further: Any
    ) -> Solution:
        """The run of the case, with further keywords of `evolve`.

        Raises
        ------
        CaseError
            If a value is out of range or the tables don't fit each other.
        """
        with self.errors("run"), new_checkpoint(checkpoint) as checkpoint_of_run:
            measure, dynamics, keywords = self.build()
            return solve(measure, dynamics, **keywords | further, checkpoint=checkpoint_of_run)

    def build_monitors(self, measure: AnyMeasure) -> dict[str, DistanceTo]:
        """The monitors of a run that starts with the measure, each tried on it.

        Raises
        ------
        CaseError
            If one can't be computed.
        """
        monitors = self.tables.monitors
        layers = adapt(self.tables.dynamics.build("dynamics")).representatives
        beta = next((layer.beta for layer in layers if hasattr(layer, "beta")), None)
        reserved = taken_names(monitors)
        with self.errors("monitors"):
            for name in monitors:
                if not name.isidentifier() or name in reserved or name.startswith(PREFIXES):
                    must = "have names of letters, digits and _ that are no variables of a run"
                    must += " or bounds of another monitor"
                    raise Fault(f"monitors must {must}, got {shown(name)}")
            return {
                name: table.tried(f"monitors.{name}", measure, beta, self.folder)
                for name, table in monitors.items()
            }

    def build_law(self) -> tuple[Law, AnyDynamics]:
        """The law and the dynamics.

        Raises
        ------
        CaseError
            If a value is out of range.
        """
        with self.errors("law"):
            dim = self.tables.measure.told_dim()
            law = self.tables.law.build("law", dim, self.folder)
            return law, self.tables.dynamics.build("dynamics")

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
            raise CaseError(f"{self.name}: {fault}") from None
        except ValueError as error:
            raise CaseError(f"{self.name}: {self._laid(section, str(error))}") from None

    def _laid(self, section: str, message: str) -> str:
        word = message.partition(" ")[0]
        sections = tables.CaseTable.model_fields
        for name in (section, *sections):
            if word in getattr(type(getattr(self.tables, name)), "model_fields", ()):
                return f"{name}.{message}"
        return message if word in sections else f"{section}: {message}"


def _plain(key: str, value: object) -> object:
    """Return a value of a case as Python's plain types, which TOML can hold."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    try:
        tomli_w.dumps({"value": plain})
    except (TypeError, ValueError):
        must = "be a number, a word, a truth, or a list or mapping of them"
        raise wrong(key, must, value) from None
    return plain


def read_case(path: str | os.PathLike[str], settings: Mapping[str, object] | None = None) -> Case:
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
    if path.suffix in tables.POINT_FILES and _is_file(path):
        hint = "a case names them as law.points, begin with meanfield run --print-case"
        raise CaseError(f"{path}: must be a case file (TOML), but holds points: {hint}")
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        if len(content) > _LARGEST_FILE:
            raise CaseError(f"{path}: must be a case file of at most {_LARGEST_FILE} bytes")
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise CaseError(f"there is no file {path}") from None
    except OSError as error:
        raise CaseError(f"can't read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CaseError(f"{path}: must be TOML in UTF-8, but {error}") from None
    text, origin = text.replace("\r\n", "\n"), {CASE_FILE: str(path.resolve())}
    if commit := git_commit(path.resolve()):
        origin["git_commit"] = commit
    return case_from_text(text, str(path), path.parent, settings, origin=origin)


def case_from_text(
    text: str,
    name: str,
    folder: str | Path = ".",
    settings: Mapping[str, object] | None = None,
    option: str = "--set",
    origin: Mapping[str, str | int | float] | None = None,
) -> Case:
    r"""The case in a TOML text; `name` is what errors call it, `folder` holds its point clouds.

    With `settings` its text is written anew, without comments, and errors name them and the
    `option` that they were given by. Of its `origin` the attributes of a run tell.

    Raises
    ------
    CaseError
        If the text is not TOML or no case.

    Examples
    --------
    >>> case_from_text("[law]\ntype = 'Uniform'", "my.toml")
    Traceback (most recent call last):
        ...
    meanfield.exceptions.CaseError: my.toml: measure is missing: it must be a table...
    """
    if settings:
        text = overridden(text, settings, name)
        name += " " if _WITH in name else _WITH
        name += " ".join(f"{option} {key}={as_toml(settings[key])}".lstrip() for key in settings)
    case = Case(text, folder=folder, name=name)
    case.origin = dict(origin or {})
    return case


def default_case_text() -> str:
    """The bundled case, a commented template, with all dynamics that its text does not name."""
    text = (files("meanfield") / "data" / "default.toml").read_text("utf-8")
    head, run, tail = text.partition("[run]\n")
    others = [kind.__name__ for kind in KNOWN if f'"{kind.__name__}"' not in text]
    return head + "".join("".join(_commented(name)) + "\n" for name in others) + run + tail


def _commented(name: str) -> Iterator[str]:
    """Lines of a template for this type of table; … stands where the user has to say a value."""
    for key, field in tables.TYPES[name].model_fields.items():
        default = name if key == "type" else None if field.is_required() else field.default
        value = "…" if default is None else as_toml(default)
        yield f"# {key} = {value}".ljust(40) + f" # {field.description}\n"


def case_of(solution: Solution, path: Path, settings: Mapping[str, object] | None = None) -> Case:
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
    attributes = solution.dataset.attrs
    home = Path(str(attributes.get(CASE_FILE, path))).parent
    origin = {key: attributes[key] for key in ORIGIN if key in attributes}
    case = case_from_text(solution.case, name, path.parent, settings, origin=origin)
    folder = home if _has_all(case, home) or not _has_all(case, path.parent) else path.parent
    with case.errors("law"):
        recorded: dict[str, str] = {}
        with suppress(ValueError, TypeError):
            recorded = dict(json.loads(str(attributes.get(CLOUD_FILES, "{}"))))
        check_tokens(case.tables, folder, recorded)
    case.folder = folder
    if "output" not in (settings := settings or {}):
        output = {key: value for key, value in case.tables.output if f"output.{key}" in settings}
        case.tables = case.tables.model_copy(update={"output": tables.OutputTable(**output)})
    return case


def _has_all(case: Case, folder: Path) -> bool:
    return all(_is_file(folder / name) for _, name in clouds(case.tables))


class _Schema(GenerateJsonSchema):
    """The JSON schema of a case without null, which TOML lacks: a key may be left out instead."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 (as it is called)
        return False

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def json_schema() -> JsonSchemaValue:
    """The schema: all tables with their keys, types, ranges and descriptions.

    Ranges that depend on other keys are not in it; a case that fits it may still be refused.

    Examples
    --------
    >>> schema = json_schema()
    >>> schema["required"]
    ['law', 'measure', 'dynamics', 'run']
    """
    schema = tables.CaseTable.model_json_schema(schema_generator=_Schema)
    header = "A measure and a dynamics, with how `meanfield run` evolves them."
    return {"$schema": _DIALECT, **schema, "title": "A case of meanfield", "description": header}


def json_schema_text() -> str:
    """The schema as the text of a file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
