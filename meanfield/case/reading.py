"""A whole case: read, checked, and turned into a measure, a dynamics and a run."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from meanfield.case.building import (
    build_dynamics,
    build_law,
    build_measure,
    build_monitors,
    check_limits,
    check_saves,
    noise_rng,
)
from meanfield.case.faults import CaseError, Fault
from meanfield.case.overriding import as_toml, overridden
from meanfield.case.provenance import (
    CASE_FILE,
    CLOUD_FILES,
    ORIGIN,
    About,
    check_tokens,
    clouds,
    provenance,
    token_digests,
)
from meanfield.case.tables import (
    MOST_MONITORS,
    AnyDynamicsTable,
    AnyLawTable,
    AnyLayerTable,
    AnySpaceTable,
    MonitorTable,
    OutputTable,
    RunTable,
    Table,
    kinds,
    schema_fault,
    union_fields,
)
from meanfield.dynamics import AnyDynamics
from meanfield.files import SOURCE
from meanfield.laws import Law
from meanfield.measures import AnyMeasure
from meanfield.solution import Solution
from meanfield.transport import DistanceTo

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
    meanfield.case.faults.CaseError: my.toml: space is missing: it must be a table...
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
