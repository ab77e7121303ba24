"""Ctrl-C at a moment when the state of a run is whole."""

from __future__ import annotations

import signal
import threading
from types import TracebackType


class Patience:
    """Inside, Ctrl-C waits for the end of a step; a second one does not.

    Only where Python's own handler would have raised KeyboardInterrupt: in the main thread.
    """

    def __init__(self) -> None:
        self._asked = False
        in_main = threading.current_thread() is threading.main_thread()
        self._is_on = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def __enter__(self) -> Patience:
        """Take Ctrl-C over."""
        if self._is_on:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give Ctrl-C back."""
        if self._is_on:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, *_: object) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def check(self) -> None:
        """Stop here if that was asked for.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C.
        """
        if self._asked:
            raise KeyboardInterrupt
