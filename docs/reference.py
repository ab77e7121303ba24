"""The page of the API: every public name, in the room that it comes from."""

import ast
import inspect
from collections.abc import Iterable
from pathlib import Path

from rooms import ROOMS

import meanfield as mf

_STUB = Path(mf.__file__).with_suffix(".pyi")
_HEAD = """# API

`import meanfield as mf` gives every name below; `mf.theory`, `mf.studies`, `mf.trained`, `mf.plot`,
`mf.exceptions` and `mf.typing` are modules.
"""


def _homes() -> dict[str, list[str]]:
    """The names that the package offers by itself, by their rooms."""
    homes: dict[str, list[str]] = {}
    for node in ast.parse(_STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            homes.setdefault(node.module.partition(".")[0], []).extend(
                alias.name for alias in node.names
            )
    return homes


def _list_of(module: str, names: Iterable[str]) -> str:
    """A list of names of a module, each with a page of its own."""
    lines = [f".. currentmodule:: {module}", "", ".. autosummary::", "   :toctree: api", ""]
    return "\n".join(["```{eval-rst}", *lines, *(f"   {name}" for name in names), "```", ""])


def reference() -> str:
    """The text of the page."""
    parts, homes = [_HEAD], _homes()
    for room, about in ROOMS.items():
        here = homes.get(room, [])
        offered = getattr(mf, room).__all__ if room in mf.__all__ else ()
        others = [name for name in offered if name not in here]
        if here or others:
            parts.append(f"## {room}: {about}\n")
        if here:
            parts.append(_list_of("meanfield", here))
        if others:
            parts.append(_list_of(f"meanfield.{room}", others))
    parts.append("## exceptions: what may be caught\n")
    parts.append(_list_of("meanfield.exceptions", mf.exceptions.__all__))
    contracts = [name for name in mf.typing.__all__ if inspect.isclass(getattr(mf.typing, name))]
    parts.append("## typing: types of signatures\n")
    parts.append(_list_of("meanfield.typing", contracts))
    return "\n".join(parts)
