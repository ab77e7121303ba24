"""Programs that tests start: waited for by what they do, and gone when the test is over.

Tasks of studies, too, which kill workers, or travel as to one.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import meanfield as mf

# the command line as a program, and where programs find this package and its tests
MEANFIELD = [
    *(sys.executable, "-c"),
    "import sys; from meanfield.cli.commands import main; sys.exit(main())",
]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(mf.__file__).parent.parent)}
# seconds after which a program is given up: no test waits so long unless something is wrong
LAST_RESORT = 600.0


@contextmanager
def handled(number: int, handler: Any) -> Iterator[None]:
    """Inside, a signal of this process has this handler."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def hearing_ctrl_c() -> AbstractContextManager[None]:
    """Inside, Ctrl-C is heard here and by what is started: in the background it is ignored."""
    return handled(signal.SIGINT, signal.default_int_handler)


@contextmanager
def child(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen]:
    """A program in a group of its own, which is killed with all that it has started."""
    with hearing_ctrl_c():
        process = subprocess.Popen(command, start_new_session=True, **options)
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_for(happened: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    give_up = time.monotonic() + LAST_RESORT
    while not happened():
        assert time.monotonic() < give_up, f"not within {LAST_RESORT:g} s"
        time.sleep(0.05)


def until(happened: Callable[[], bool], process: subprocess.Popen) -> None:
    """Wait for what a program does, as long as it runs."""
    seen = False

    def is_over() -> bool:
        nonlocal seen
        # what was there once may be gone, as a file while it is replaced
        seen = seen or happened()
        return seen or process.poll() is not None

    wait_for(is_over)
    assert seen, f"it ended first: {process.communicate()}"


def count_alive(group: int) -> int:
    """How many processes of a group there are, without those that have ended."""
    alive = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # it may have gone since
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, number, *_ = stat.read_text().rpartition(")")[2].split()
            alive += state not in "ZX" and int(number) == group
    return alive


class Travelling(Executor):
    """A task goes to it as bytes, as to a process, and so does its result come back."""

    def submit(self, call: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        """The result, which is there at once."""
        call, given, named = pickle.loads(pickle.dumps((call, given, named)))
        future: Future[Any] = Future()
        future.set_result(pickle.loads(pickle.dumps(call(*given, **named))))
        return future


def kill_worker(task: tuple[str, Path]) -> str:
    """A task of a study, by its name; a worker imports little to do it.

    The one beside a bomb lasts until the endless one has begun, so that this is at the worker that
    is made anew.
    """
    name, folder = task
    (folder / f"{name}, {os.getpid()} at {time.monotonic_ns()}").touch()
    match name:
        case "bomb":
            wait_for(lambda: any(folder.glob("beside, *")))
            os.kill(os.getpid(), signal.SIGKILL)
        case "beside":
            wait_for(lambda: any(folder.glob("endless, *")))
        case "endless":
            threading.Event().wait(LAST_RESORT)
    return name
