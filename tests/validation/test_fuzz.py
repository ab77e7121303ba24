"""The fuzzer sees what a reader must not do; what readers do is in validation/fuzz.py."""

import os
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from validation import fuzz_children
from validation.fuzz_children import Watch, outcomes, tried


def refuse(message):
    raise ValueError(message)


def raise_other(_):
    raise KeyError("x")


def overflow(_):
    overflow(_)


TRIALS = {
    "a case": (lambda _: None, ""),
    "a refusal": (partial(refuse), ""),
    "two lines": (lambda _: refuse("one\ntwo"), "no one line"),
    "no line": (lambda _: refuse(""), "no one line"),
    "another error": (raise_other, "KeyError"),
    "endless depth": (overflow, "RecursionError"),
    "no memory": (lambda _: bytearray(1 << 60), "MemoryError"),
    "a written file": (lambda _: Path("x").write_text("x"), "open .*x.* to write"),
    "a folder": (lambda _: Path("y").mkdir(), "os.mkdir"),
    "a program": (lambda _: subprocess.run([sys.executable, "-V"], check=True), "subprocess.Popen"),
    "what is evaluated": (lambda _: eval("1 + 1"), "exec"),
}


@pytest.fixture(scope="module")
def watch():
    return Watch()


@pytest.mark.parametrize("name", TRIALS)
@pytest.mark.usefixtures("folder")
def test_what_a_reader_does_is_seen(name, watch):
    trial, fault = TRIALS[name]
    found = tried(trial, "no", watch)
    if fault:
        assert re.search(fault, found.fault)
    else:
        assert found.fault == ""
    assert found.message == ("no" if name == "a refusal" else found.message)


def number(given):
    return given


def die_or_hang(given):
    if given == 1:
        os._exit(3)
    if given == 3:
        time.sleep(1000.0)


@pytest.mark.slow
def test_an_input_that_kills_or_stops_a_process_is_told(monkeypatch):
    monkeypatch.setattr(fuzz_children, "PATIENCE", 5.0)
    found = dict(outcomes(number, die_or_hang, 5))
    assert sorted(found) == [0, 1, 2, 3, 4]
    faults = {which: trial.fault for which, trial in found.items() if trial.fault}
    assert faults == {1: "the process died (exit 3)", 3: "no answer within 5 s (exit -9)"}
