"""Frozen dataclasses as plain records, which a file can keep, and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from meanfield._checks import shown
from meanfield.typing import Array


def key(about: str, hint: Any, **limits: Any) -> dict[str, Any]:
    """The metadata of a field that is a key of case files.

    Parameters
    ----------
    about : str
        What its value must be.
    hint : type
        The type of the value as TOML has it; `list` for a list of tables.
    **limits
        Those of the value in a JSON schema.
    """
    return {"about": about, "hint": hint, "limits": limits}


class Record:
    """A dataclass that holds arrays: two are equal if what they were made of is, to the bit."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash(_content(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """It travels as the call that makes it: tables are made anew, arrays are read-only."""
        return partial(type(self), **arguments_of(self)), ()


def arguments_of(thing: Any) -> dict[str, Any]:
    """The arguments of the constructor of a dataclass, as the object has them.

    Examples
    --------
    >>> from meanfield.laws import Uniform
    >>> arguments_of(Uniform(3))
    {'dim': 3}
    """
    return {field.name: getattr(thing, field.name) for field in fields(thing) if field.init}


def _content(thing: Any) -> tuple[Any, ...]:
    """The arguments as what can be compared and hashed."""
    values = arguments_of(thing).values()
    return tuple((v.shape, v.tobytes()) if hasattr(v, "tobytes") else v for v in values)


def to_record(
    thing: Any, kinds: Collection[type], arrays: list[Array] | None = None
) -> dict[str, Any]:
    """A table of numbers, words, lists and tables that tells a dataclass of one of these kinds.

    Its arrays become lists. Where a list `arrays` is given they are put there, and the table has
    their numbers.

    Raises
    ------
    ValueError
        If it, or a part of it, is of another kind.

    Examples
    --------
    >>> from meanfield.dynamics import Attention, Head
    >>> matrices = []
    >>> to_record(Head(V=np.eye(2)), [Head], matrices)
    {'type': 'Head', 'Q': 1.0, 'K': 1.0, 'V': {'matrix': 0}}
    """

    def plain(value: Any) -> Any:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case tuple() | list():
                return [plain(one) for one in value]
            case np.ndarray():
                if arrays is None:
                    return value.tolist()
                arrays.append(value)
                return {"matrix": len(arrays) - 1}
        if type(value) not in kinds:
            raise ValueError(f"what a file keeps must be of {_names(kinds)}, got {shown(value)}")
        about = {name: plain(one) for name, one in arguments_of(value).items()}
        return {"type": type(value).__name__} | about

    record: dict[str, Any] = plain(thing)
    return record


def from_record(
    record: Any, kinds: Collection[type], arrays: Sequence[Array] = (), parts: Collection[type] = ()
) -> Any:
    """The dataclass of a table that `to_record` made, and its arrays.

    Parameters
    ----------
    record : object
    kinds : collection of type
        What it may be.
    arrays : sequence of ndarray
        Those that it has numbers of.
    parts : collection of type
        What may be inside it only.

    Raises
    ------
    ValueError
        If it is no such table.

    Examples
    --------
    >>> from meanfield.laws import Uniform
    >>> from_record({"type": "Uniform", "dim": 3}, [Uniform])
    Uniform(dim=3)
    """
    classes = {kind.__name__: kind for kind in (*kinds, *parts)}

    def made(value: Any) -> Any:
        match value:
            case {"matrix": number} if type(number) is int and number >= 0:
                return arrays[number]
            case dict():
                about = {name: made(one) for name, one in value.items()}
                return classes[about.pop("type")](**about)
            case list():
                return [made(one) for one in value]
        return value

    try:
        # a list or a word has none
        if record["type"] in [kind.__name__ for kind in kinds]:
            return made(record)
        raise KeyError(record["type"])
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"record must be of {_names(kinds)} and its arguments, got {shown(record)}"
        ) from error


def _names(kinds: Collection[type]) -> str:
    return ", ".join(kind.__name__ for kind in kinds)
