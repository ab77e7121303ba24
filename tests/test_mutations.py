"""Faults on purpose, validation/mutations.py: what can't be shown is an error."""

from dataclasses import replace

import pytest

from validation import mutations
from validation.mutations import FAULTS, NEEDED, ROOT, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_faults_can_be_applied(fault, tmp_path):
    copy = tmp_path / fault.file
    copy.parent.mkdir(parents=True)
    right = (ROOT / fault.file).read_text(encoding="utf-8")
    copy.write_text(right, encoding="utf-8")
    fault.apply(tmp_path)
    assert copy.read_text(encoding="utf-8") != right
    # not twice: what was right is gone
    with pytest.raises(ValueError, match="got it 0 times"):
        replace(fault, right="no such line").apply(tmp_path)
    assert len(set(fault.targets)) >= NEEDED


def test_a_fault_that_is_not_noticed_fails_its_claim(monkeypatch):
    unnoticed = Fault("nothing", "README.md", "a", "b", ("tests/a.py::one",) * NEEDED)
    monkeypatch.setattr(mutations, "FAULTS", (unnoticed,))
    counts = {None: [], unnoticed: ["tests/a.py::one"] * (NEEDED - 1)}
    monkeypatch.setattr(mutations, "failing", lambda targets, fault=None: counts[fault])
    claims = mutations.check(True)
    assert [claim.holds for claim in claims] == [False, True]
    counts[None] = ["tests/a.py::one"]
    assert not mutations.check(False)[-1].holds


def test_a_target_that_does_not_run_is_an_error(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text('<testsuite><testcase classname="tests.a" name="one[2]"/></testsuite>')
    assert mutations._failed(report, ["tests/a.py::one"]) == []
    with pytest.raises(RuntimeError, match="two"):
        mutations._failed(report, ["tests/a.py::one", "tests/a.py::two"])
