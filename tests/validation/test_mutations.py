"""Faults on purpose, validation/mutations.py: what can't be shown is an error."""

import ast
import re
from dataclasses import replace
from functools import cache

import pytest

from validation import mutations
from validation.faults import BROAD, FAULTS, Fault
from validation.mutations import ROOT


@cache
def is_slow_by_name(path):
    """The functions of a file of tests: whether they, or all of the file, are marked as slow."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    all_are = any("pytestmark = pytest.mark.slow" in ast.unparse(node) for node in tree.body)
    return {
        node.name: all_are or any("mark.slow" in ast.unparse(mark) for mark in node.decorator_list)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_faults_can_be_applied(fault, tmp_path):
    copy = tmp_path / fault.file
    copy.parent.mkdir(parents=True)
    right = (ROOT / fault.file).read_text(encoding="utf-8")
    copy.write_text(right, encoding="utf-8")
    fault.apply(tmp_path)
    wrong = copy.read_text(encoding="utf-8")
    assert wrong != right
    # a fault of the code, not of its grammar
    ast.parse(wrong)
    # not twice: what was right is gone
    with pytest.raises(ValueError, match="got it 0 times"):
        replace(fault, right="no such line").apply(tmp_path)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_targets_are_there(fault):
    """So that a test that is renamed is renamed there, too."""
    for target in fault.targets:
        file, _, name = target.partition("::")
        assert name.partition("[")[0].rpartition("::")[2] in is_slow_by_name(ROOT / file)


def test_faults_have_names_of_their_own_and_targets():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert all(fault.targets for fault in FAULTS)
    assert all(len(set(fault.targets)) >= 3 for fault in BROAD)


def test_certificates_have_the_tests_that_their_table_names():
    text = (ROOT / "validation" / "README.md").read_text(encoding="utf-8")
    table = [row for row in text.splitlines() if re.search(r"test_\w+\.py`: `", row)]
    assert len(table) > 15
    for row in table:
        are_slow = []
        for file, names in re.findall(r"`((?:\w+/)?test_\w+\.py)`: ((?:`test_\w+`(?:, )?)+)", row):
            (path,) = (ROOT / "tests").rglob(file)
            are_slow += [is_slow_by_name(path)[name] for name in re.findall(r"`(\w+)`", names)]
        # what is no bound is no certificate
        assert not all(are_slow) or "| no bound" in row, row


def test_a_fault_that_is_not_noticed_fails_its_claim(monkeypatch):
    unnoticed = Fault("nothing", "README.md", "a", "b", ("tests/a.py::one", "tests/a.py::two"))
    monkeypatch.setattr(mutations, "FAULTS", (unnoticed,))
    counts = {None: [], unnoticed: ["tests/a.py::one"]}
    monkeypatch.setattr(mutations, "failing", lambda targets, fault=None: counts[fault])
    claims = mutations.check(True)
    assert [claim.holds for claim in claims] == [False, True]
    counts[None] = ["tests/a.py::one"]
    assert not mutations.check(False)[-1].holds


def test_a_target_that_does_not_run_is_an_error(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text('<testsuite><testcase classname="tests.a" name="one[2]"/></testsuite>')
    assert mutations._failed(report, ["tests/a.py::one"]) == []
    assert mutations._failed(report, ["tests/a.py::one[2]"]) == []
    with pytest.raises(RuntimeError, match="two"):
        mutations._failed(report, ["tests/a.py::one", "tests/a.py::two"])


def test_a_failure_is_that_of_its_target(tmp_path):
    report = tmp_path / "report.xml"
    cases = [
        ("tests.a", "one[1]"),
        ("tests.a", "one[2]"),
        ("tests.a.TestOf", "one"),
        ("tests.b", "one"),
    ]
    told = ['<testcase classname="{}" name="{}"/>'.format(*case) for case in cases]
    told[1] = told[1].replace("/>", "><failure/></testcase>")
    told[2] = told[2].replace("/>", "><failure/></testcase>")
    report.write_text(f"<testsuite>{''.join(told)}</testsuite>")
    targets = ["tests/a.py::one", "tests/a.py::TestOf::one", "tests/b.py::one"]
    assert mutations._failed(report, targets) == targets[:2]
