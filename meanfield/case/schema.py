"""What every table of a case file has in common: strict keys and types, one line for a fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from meanfield.case.faults import shown


class KeyFault(ValueError):
    """A key that is unknown or missing in a table; the message opens with it."""


class UnknownKey(KeyFault):
    """A key that is unknown among those of its table."""

    def __init__(self, key: str, here: Iterable[str]) -> None:
        self.key, self.here = key, list(here)
        super().__init__(f"{key} is an unknown key: the keys here are {', '.join(self.here)}")


class Table(BaseModel):
    """A table with these keys and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

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
        kind = shown(fault["input"]["type"])
        return f"{path}.type must be one of {kinds[_last_name(fault)]}, got {kind}"
    if fault["type"] == "value_error":
        reason = fault["ctx"]["error"]
        dot = ("." if path else "") if isinstance(reason, KeyFault) else " "
        hint = nearest(reason, path, keys) if isinstance(reason, UnknownKey) else ""
        return f"{path}{dot}{reason}{hint}"
    if fault["type"] in {"model_type", "model_attributes_type", "dict_type"}:
        return f"{path} must be a table, got {shown(fault['input'])}"
    allowed = fault["msg"].replace("Input should be ", "must be ")
    return f"{path} {allowed}, got {shown(fault['input'])}"


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
