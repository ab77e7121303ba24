"""Ctrl-C at a moment when the state of a run is whole."""

from __future__ import annotations

import signal
import threading
from types import TracebackType


class Patience:
    """Inside, Ctrl-C waits for the end of a step, or of what is inside; a second one does not.

    So does SIGTERM where it means Ctrl-C. Each only where Python's own handler would have raised
    KeyboardInterrupt: in the main thread, and where it is not ignored, as Ctrl-C is by programs
    in the background.
    """

    def __init__(self) -> None:
        self._asked = False
        in_main = threading.current_thread() is threading.main_thread()
        self._taken = [
            number
            for number in (signal.SIGINT, signal.SIGTERM)
            if in_main and signal.getsignal(number) is signal.default_int_handler
        ]

    def __enter__(self) -> Patience:
        """Take Ctrl-C over."""
        for number in self._taken:
            signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give Ctrl-C back, with one that came after the last check.

        Raises
        ------
        KeyboardInterrupt
            If there was one, and no error leaves as it is.
        """
        for number in self._taken:
            signal.signal(number, signal.default_int_handler)
        if kind is None:
            self.check()

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
