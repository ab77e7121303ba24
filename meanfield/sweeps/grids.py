"""The values that a sweep goes through."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from meanfield.arguments import shown
from meanfield.case import checked_key, toml_value

_MOST_CELLS = 10**6


def axis(text: str) -> tuple[str, list[Any]]:
    """Key and values of KEY=START:STOP:COUNT, both ends included, or KEY=VALUE,VALUE,….

    Raises
    ------
    ValueError
        If it is neither.

    Examples
    --------
    >>> axis("dynamics.beta=1:3:5"), axis("dynamics.type=SA,USA")
    (('dynamics.beta', [1.0, 1.5, 2.0, 2.5, 3.0]), ('dynamics.type', ['SA', 'USA']))
    >>> axis("space.n=64:256:4")
    ('space.n', [64, 128, 192, 256])
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not values:
        raise ValueError(
            f"grid must be KEY=START:STOP:COUNT or KEY=VALUE,VALUE,…, as dynamics.beta=1:10:19, "
            f"got {shown(text)}"
        )
    return checked_key(key), _interval(values) if _is_interval(values) else _listed(values)


def _is_interval(values: str) -> bool:
    # a quoted word or a list may hold colons, too
    return ":" in values and not set("\"'[{,") & set(values)


def _interval(text: str) -> list[Any]:
    try:
        start, stop, count = (toml_value(part) for part in text.split(":"))
        is_counted = type(count) is int and 1 <= count <= _MOST_CELLS
        numbers = np.linspace(start, stop, count) if is_counted else np.array([np.nan])
    except (ValueError, TypeError):
        numbers = np.array([np.nan])
    if isinstance(numbers[0], np.str_) or not np.isfinite(numbers).all():
        raise ValueError(
            f"grid must be START:STOP:COUNT of two finite numbers and an integer from 1 to "
            f"{_MOST_CELLS}, got {shown(text)}"
        )
    is_whole = type(start) is int and type(stop) is int and (numbers == numbers.round()).all()
    return [int(x) for x in numbers] if is_whole else numbers.tolist()


def _listed(text: str) -> list[Any]:
    try:
        return list(toml_value(f"[{text}]"))
    except ValueError:
        return [toml_value(part.strip()) for part in text.split(",")]


def checked_grid(grid: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The axes as lists of plain values, none of them twice.

    Raises
    ------
    ValueError
        If there is no axis or no value, or there are too many cells.
    """
    if not isinstance(grid, Mapping) or not grid:
        raise ValueError(f"grid must map at least one key to its values, got {shown(grid)}")
    axes = {}
    for key, values in grid.items():
        listed = values.tolist() if isinstance(values, np.ndarray) else values
        if not isinstance(listed, (list, tuple, range)) or len(listed) == 0:
            raise ValueError(f"grid must map {key} to at least one value, got {shown(values)}")
        plain = [one.item() if isinstance(one, np.generic) else one for one in listed]
        seen = set()
        for one in plain:
            if repr(one) in seen:
                raise ValueError(f"grid must have each value of {key} once, got {shown(one)} twice")
            seen.add(repr(one))
        axes[checked_key(key)] = plain
    count = int(np.prod([len(values) for values in axes.values()], dtype=object))
    if count > _MOST_CELLS:
        raise ValueError(f"grid must have at most {_MOST_CELLS} cells, got {count}")
    return axes


def cells(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """The settings of each cell, the last axis fastest."""
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def dimension_names(keys: Sequence[str], taken: Container[str] = ()) -> dict[str, str]:
    """The dimension of each key: its last part, or all of it where something else is called that.

    Examples
    --------
    >>> dimension_names(["dynamics.beta", "law.laws[0].kappa", "law.laws[1].kappa"])
    {'dynamics.beta': 'beta', 'law.laws[0].kappa': 'law_laws_0_kappa', ...}
    """
    last = [key.rpartition(".")[2] for key in keys]
    return {
        key: _variable(one if last.count(one) == 1 and one not in taken else key)
        for key, one in zip(keys, last, strict=True)
    }


def _variable(key: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in key.replace("]", ""))
