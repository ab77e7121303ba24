"""Output of the command line, in which texts of files can't steer a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_MAYBE_STEERING = re.compile(r"[^\n\t\x20-\x7e]")
# a progress bar writes these to return to its line
_MOVES = re.compile(r"(?:\r|\n|\x1b\[A)*")


def visible(text: str) -> str:
    r"""The text with what can't be printed escaped, but for ends of lines and tabs.

    So are controls of the direction in which a terminal writes.

    Examples
    --------
    >>> visible("a\x1b[2J\u202eb\n")
    'a\\x1b[2J\\u202eb\n'
    """
    return _MAYBE_STEERING.sub(
        lambda sign: sign[0] if sign[0].isprintable() else ascii(sign[0])[1:-1], text
    )


class VisibleStream:
    """A stream of text that writes only what can be seen, and the moves of progress bars.

    Parameters
    ----------
    stream : text stream
        It is asked for all else.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text; a bar begins its line with a carriage return."""
        start = "\r" if text[:1] == "\r" else ""
        is_move = _MOVES.fullmatch(text) is not None
        self._stream.write(text if is_move else start + visible(text[len(start) :]))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts, one after the other."""
        for line in lines:
            self.write(line)


@contextmanager
def visible_output() -> Iterator[None]:
    """Inside, all that is written to the terminal can be seen, whoever writes it."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(VisibleStream, streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
