"""One line for each thing that is wrong with a case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_LONGEST_VALUE = 80
# a key may be as long as its file
_LONGEST_LINE = 1000


class CaseError(ValueError):
    """A case that can't be run: one line with the file, the key, the value and what is allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(cut(one_line(message), _LONGEST_LINE))


class Fault(ValueError):
    """What is wrong, with its key and without its file."""


def one_line(text: str) -> str:
    r"""Return `text` on one line, with what can't be printed escaped.

    Examples
    --------
    >>> one_line("two\nlines, one\x1b[1m bell")
    'two lines, one\\x1b[1m bell'
    """
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in joined)


def shown(value: Any) -> str:
    """A value as a message shows it, cut where it is long."""
    return cut(repr(value))


def cut(text: str, longest: int = _LONGEST_VALUE) -> str:
    """A text that is not longer than a message allows."""
    return text if len(text) <= longest else f"{text[: longest - 2]} …"


@contextmanager
def located(where: str, keys: Iterable[str]) -> Iterator[None]:
    """Put the key in front of a ValueError whose message opens with one of `keys`, else `where`."""
    try:
        yield
    except Fault:
        raise
    except ValueError as error:
        message = str(error)
        dot = "." if message.partition(" ")[0] in keys else ": "
        raise Fault(f"{where}{dot}{message}") from None
