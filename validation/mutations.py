"""Faults on purpose: each makes every test that is named for it fail.

What passes shows something only if it would not pass where the code is wrong. Each fault of
`faults` is a change of one place (a factor, a sign, a degree, a weight, a bound by 1 %), applied to
a copy of this tree in a temporary folder. Its tests, or scripts in their quick form, then run
there; on a copy without a fault all must pass, so that a failure is the fault's. The tolerances are
exact: none passes with its fault, none fails without. A fault whose place is no longer in the file,
or a target that does not run, is an error and no failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from validation.claims import Claim, main
from validation.faults import FAULTS, Fault

ROOT = Path(__file__).parent.parent
# pytest's exit statuses of a run that came to its end
PASSED, FAILED = 0, 1


def copied(root: Path) -> None:
    """A copy of what tests need, without what they leave behind."""
    litter = shutil.ignore_patterns("__pycache__", ".*", "*.nc")
    for name in ("meanfield", "tests", "validation"):
        shutil.copytree(ROOT / name, root / name, ignore=litter)
    shutil.copy(ROOT / "pyproject.toml", root)


def failing(targets: Iterable[str], fault: Fault | None = None) -> list[str]:
    """Which of the targets fail on a copy, with a fault or without.

    Raises
    ------
    ValueError
        If the fault can't be applied.
    RuntimeError
        If the tests did not run to their end, or there is no such target.
    """
    targets = list(dict.fromkeys(targets))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        copied(root)
        if fault is not None:
            fault.apply(root)
        report = root / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n0", f"--junitxml={report}"]
        command += ["-p", "no:cacheprovider", "--tb=no", *targets]
        # nothing but the copy is imported, and nothing is compiled into it
        own = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command, cwd=root, env=os.environ | own, capture_output=True, text=True, check=False
        )
        if done.returncode not in (PASSED, FAILED):
            raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout[-500:]}")
        return _failed(report, targets)


def _failed(report: Path, targets: list[str]) -> list[str]:
    wanted, ran, failed = {_case_of(target): target for target in targets}, set(), set()
    # written by the line above
    for case in ElementTree.parse(report).iter("testcase"):
        home, name = case.get("classname", ""), case.get("name", "")
        of_all = wanted.get((home, name.partition("[")[0]))
        target = of_all or wanted[home, name]
        ran.add(target)
        if case.find("failure") is not None:
            failed.add(target)
    if missing := set(targets) - ran:
        raise RuntimeError(f"targets must run, got none of {sorted(missing)}")
    return [target for target in targets if target in failed]


def _case_of(target: str) -> tuple[str, str]:
    """The module or class, and the name, that a report has for a target."""
    file, *classes, name = target.split("::")
    return ".".join([file.removesuffix(".py").replace("/", "."), *classes]), name


def check(quick: bool) -> list[Claim]:
    """All faults, one in the quick form; then none."""
    faults = FAULTS[:1] if quick else FAULTS
    claims = []
    for fault in faults:
        caught, all_of_them = len(failing(fault.targets, fault)), len(fault.targets)
        claims.append(
            Claim(
                f"{fault.name}: tests that pass",
                fault.file,
                all_of_them - caught,
                0.0,
                "a count",
                f"{all_of_them} fail",
                f"{caught} fail",
            )
        )
    every = [target for fault in faults for target in fault.targets]
    without = len(failing(every))
    claims.append(
        Claim(
            "without a fault: tests that fail",
            "this tree",
            without,
            0.0,
            "a count",
            "0 fail",
            f"{without} fail",
        )
    )
    return claims


if __name__ == "__main__":
    main(check)
