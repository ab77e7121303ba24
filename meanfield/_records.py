"""Records: a law, a space or a dynamics as a table of its arguments, and back.

Tables of case files, attributes of result files and pickles all keep such an object by the
arguments that make it.
"""

from __future__ import annotations

import copyreg
from collections.abc import Collection
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar

import numpy as np

from meanfield._checks import is_of_package, shown

T = TypeVar("T")


def key(about: str, hint: object, **limits: object) -> dict[str, object]:
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

    def __reduce__(self) -> tuple[object, ...]:
        """It travels as the call that makes it: tables are made anew, arrays are read-only.

        A class of a user's own may have another call, and travels with its attributes.
        """
        if not is_of_package(self):
            return copyreg.__newobj__, (type(self),), dict(vars(self))  # type: ignore[attr-defined]
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


def _content(thing: object) -> tuple[object, ...]:
    """Return the arguments of a thing as a tuple that can be compared and hashed."""
    values = arguments_of(thing).values()
    return tuple((v.shape, v.tobytes()) if hasattr(v, "tobytes") else v for v in values)


def to_record(
    thing: object, kinds: Collection[type], left_out: Collection[type] = ()
) -> dict[str, object]:
    """A table of numbers, words, arrays and tables that describes a dataclass of these kinds.

    Parameters
    ----------
    thing : object
    kinds : collection of type
    left_out : collection of type
        What is in it by its words alone.

    Raises
    ------
    ValueError
        If it, or a part of it, is of another kind.

    Examples
    --------
    >>> from meanfield.dynamics import Attention, Head
    >>> to_record(Head(V=-1.0), [Head])
    {'type': 'Head', 'Q': 1.0, 'K': 1.0, 'V': -1.0}
    """

    def table(part: object) -> dict[str, object]:
        if type(part) not in kinds:
            raise ValueError(f"what a file keeps must be of {_names(kinds)}, got {shown(part)}")
        arguments = {name: plain(value) for name, value in arguments_of(part).items()}
        return {"type": type(part).__name__} | arguments

    def plain(value: object) -> object:
        match value:
            case None | bool() | int() | float() | str() | np.ndarray():
                return value
            case tuple() | list():
                return [plain(part) for part in value]
        return repr(value) if type(value) in left_out else table(value)

    return table(thing)


def from_record(record: object, kinds: Collection[type[T]], parts: Collection[type] = ()) -> T:
    """The dataclass of a table that `to_record` made, whose arrays may be lists.

    Parameters
    ----------
    record : object
    kinds : collection of type
        What it may be.
    parts : collection of type
        What may be inside it only.

    Examples
    --------
    >>> from meanfield.laws import Uniform
    >>> from_record({"type": "Uniform", "dim": 3}, [Uniform])
    Uniform(dim=3)
    """
    wholes = {kind.__name__: kind for kind in kinds}
    classes = {**wholes, **{kind.__name__: kind for kind in parts}}

    def arguments(table: dict[str, object]) -> dict[str, Any]:
        return {name: made(part) for name, part in table.items() if name != "type"}

    def made(value: object) -> object:
        match value:
            case dict():
                return classes[value["type"]](**arguments(value))
            case list():
                return [made(part) for part in value]
        return value

    try:
        match record:
            case dict():
                return wholes[record["type"]](**arguments(record))
        raise TypeError("a record is a table")
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"record must be of {_names(kinds)} and its arguments, got {shown(record)}"
        ) from error


def _names(kinds: Collection[type]) -> str:
    return ", ".join(kind.__name__ for kind in kinds)
