"""How far a run has come, and Ctrl-C at a moment when its state is whole."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from meanfield._checks import shown

if TYPE_CHECKING:
    from meanfield.evolution.system import AnySystem

Progress = bool | str | Callable[[float], object]
LINES = "lines"
_FORMAT = "{l_bar}{bar}| t = {n:.4g}/{total:.4g} [{elapsed}<{remaining}]{postfix}"
_SECONDS_BETWEEN = 0.2
_SECONDS_BETWEEN_LINES = 60.0
# Ctrl-C waits so many seconds for a step, and again for a save
_PATIENCE = 1.0


def checked_progress(progress: Progress) -> Progress:
    """Return `progress` when there is such a way to show it."""
    is_word = isinstance(progress, (bool, str)) and progress in (True, False, LINES)
    if is_word or callable(progress):
        return progress
    allowed = f"True, False, {LINES!r} or a function of t"
    raise ValueError(f"progress must be {allowed}, got {shown(progress)}")


class ProgressBar:
    """t, energy and resolution of a run, a few times a second, or as a line a minute.

    Parameters
    ----------
    t, t_end : float
        Where it begins and ends.
    shown : bool, 'lines' or callable
    """

    def __init__(self, t: float, t_end: float, shown: Progress) -> None:
        self._t_end, self._shown = t_end, shown
        self._bar: Any = None
        # even a hidden bar of tqdm would create a lock between processes
        if shown is True:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=t_end, initial=t, bar_format=_FORMAT)
        self._start = time.monotonic()
        self._due = self._start + (_SECONDS_BETWEEN_LINES if shown == LINES else 0.0)

    def close(self) -> None:
        """Leave the last line standing."""
        if self._bar is not None:
            self._bar.close()

    def announce(self, text: str) -> None:
        """Say what is ahead, until the first report."""
        if self._bar is not None:
            self._bar.set_postfix_str(text)
        elif self._shown == LINES:
            self._write(text)

    def _write(self, text: str) -> None:
        from tqdm.auto import tqdm

        tqdm.write(text, file=sys.stderr)

    def report(self, system: AnySystem) -> None:
        """Show where a system is."""
        if callable(self._shown):
            self._shown(system.t)
            return
        if not self._shown:
            return
        now = time.monotonic()
        if now < self._due and (self._shown == LINES or system.t < self._t_end):
            return
        if self._bar is None:
            self._due = now + _SECONDS_BETWEEN_LINES
            came = f"t = {system.t:.6g} of {self._t_end:g} after {now - self._start:.0f} s"
            self._write(f"{came}, {_state(system)}")
            return
        self._due = now + _SECONDS_BETWEEN
        self._bar.set_postfix_str(_state(system), refresh=False)
        self._bar.n = system.t
        self._bar.refresh()


def _state(system: AnySystem) -> str:
    """The energy as a share of a Dirac's, if it has one, and the space or the flow map, as text."""
    measure, energy, share_text = system.measure(), system.energy, ""
    if energy is not None:
        share = energy.relative(system.scaled_energy(), system.log_unit)
        share_text = f"{energy.symbol}/|{energy.symbol}(δ)| = {share:.4f}, "
    return f"{share_text}{getattr(measure, 'space', measure)}"


class DeferredInterrupt:
    """Inside, Ctrl-C waits for the end of a step, or of what is inside; a second one does not.

    It waits a second at most where it is `interruptible`. So does SIGTERM where it means Ctrl-C.
    Each only where Python's own handler would have raised KeyboardInterrupt: in the main thread,
    and where it is not ignored, as Ctrl-C is by programs in the background.
    """

    def __init__(self) -> None:
        self._is_asked = self._is_late = self._is_reminded = self._is_interruptible = False
        self._is_over, self._reminder = threading.Event(), threading.Thread()
        in_main = threading.current_thread() is threading.main_thread()
        self._taken = [
            signal_number
            for signal_number in (signal.SIGINT, signal.SIGTERM)
            if in_main and signal.getsignal(signal_number) is signal.default_int_handler
        ]

    def __enter__(self) -> DeferredInterrupt:
        """Take Ctrl-C over."""
        for signal_number in self._taken:
            signal.signal(signal_number, self.note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Give Ctrl-C back, with one that came after the last check.

        Raises
        ------
        KeyboardInterrupt
            If there was one, and no error leaves as it is.
        """
        self._is_over.set()
        if self._reminder.is_alive():
            # the signal of the reminder must not reach another handler
            self._reminder.join()
        for signal_number in self._taken:
            signal.signal(signal_number, signal.default_int_handler)
        if kind is None:
            self.check()

    def note(self, *_: object) -> None:
        """Hear Ctrl-C, or that it has waited for long."""
        if self._is_reminded:
            self._is_reminded = False
            if self._is_interruptible:
                raise KeyboardInterrupt
        elif not self._is_asked:
            self._is_asked = True
            if self._taken:
                self._reminder = threading.Thread(target=self._remind, daemon=True)
                self._reminder.start()
        elif not self._is_over.is_set():
            # a Ctrl-C at the end does not raise: its handler has to be restored first
            raise KeyboardInterrupt

    def _remind(self) -> None:
        """Interrupt the main thread again and again: in a destructor an exception would be lost."""
        while not self._is_over.wait(_PATIENCE):
            self._is_late = self._is_reminded = True
            signal.raise_signal(self._taken[0])

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Inside is what may be dropped half-done, between any two lines, such as a sum over pairs.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C has waited for a second.
        """
        if self._is_late:
            raise KeyboardInterrupt
        self._is_interruptible = True
        try:
            yield
        finally:
            self._is_interruptible = False

    def check(self) -> None:
        """Stop here if that was asked for."""
        if self._is_asked:
            raise KeyboardInterrupt
