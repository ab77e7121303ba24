"""Keys of a case set from outside, before it is checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import tomli_w

from meanfield.case.faults import CaseError, cut, shown

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
        f"{shown(text)}"
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
        raise ValueError(f"setting must be KEY=VALUE, as dynamics.beta=5, got {shown(text)}")
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
            f"{shown(key)}"
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
            raise CaseError(f"{name}: {path} must be {allowed} for {key}, got {shown(here)}")
        if depth == len(parts) - 1:
            here[part] = value
        elif isinstance(part, int):
            here = here[part]
        else:
            # only a table may be new
            here = here.setdefault(part, {})
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
