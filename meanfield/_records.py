"""Records: a law, a space or a dynamics as a table of its arguments, and back.

Tables of case files, attributes of result files and pickles all keep such an object by the
arguments that make it.
"""

from __future__ import annotations

import copyreg
from collections.abc import Collection
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from meanfield._checks import is_of_package, shown


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


def _content(thing: Any) -> tuple[Any, ...]:
    """The arguments as what can be compared and hashed."""
    values = arguments_of(thing).values()
    return tuple((v.shape, v.tobytes()) if hasattr(v, "tobytes") else v for v in values)


def to_record(
    thing: Any, kinds: Collection[type], left_out: Collection[type] = ()
) -> dict[str, Any]:
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

    def plain(value: Any) -> Any:
        match value:
            case None | bool() | int() | float() | str() | np.ndarray():
                return value
            case tuple() | list():
                return [plain(part) for part in value]
        if type(value) in left_out:
            return repr(value)
        if type(value) not in kinds:
            raise ValueError(f"what a file keeps must be of {_names(kinds)}, got {shown(value)}")
        about = {name: plain(part) for name, part in arguments_of(value).items()}
        return {"type": type(value).__name__} | about

    record: dict[str, Any] = plain(thing)
    return record


def from_record(record: Any, kinds: Collection[type], parts: Collection[type] = ()) -> Any:
    """The dataclass of a table that `to_record` made, whose arrays may be lists.

    Parameters
    ----------
    record : object
    kinds : collection of type
        What it may be.
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
            case dict():
                about = {name: made(part) for name, part in value.items()}
                return classes[about.pop("type")](**about)
            case list():
                return [made(part) for part in value]
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
