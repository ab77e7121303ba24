"""Faults on purpose: each of eight makes at least three scripts or tests fail.

What passes shows something only if it would not pass where the code is wrong. Each fault is a
change of one place (a factor, a sign, a degree, a weight), applied to a copy of this tree in a
temporary folder. Scripts, in their quick form, and tests then run there, and those that fail are
counted; on a copy without a fault all must pass, so that a failure is the fault's. The tolerances
are exact: three at least with a fault, none without. A fault whose place is no longer in the file,
or a target that does not run, is an error and no failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from validation.claims import Claim, main

ROOT = Path(__file__).parent.parent
NEEDED = 3
# pytest's exit statuses of a run that came to its end
PASSED, FAILED = 0, 1
QUICK = "tests/test_validation_quick.py::test_claims_hold[{}]"
GROWTH, MULTIPLIERS = map(QUICK.format, ("linear_growth", "multipliers"))
ENERGIES = "tests/test_energies.py::"
TRANSPORT = "tests/test_transport.py::"
GRIDS = "tests/generic/test_spaces.py::"


@dataclass(frozen=True)
class Fault:
    """One line changed in one file, and what should notice."""

    name: str
    file: str
    right: str
    wrong: str
    targets: tuple[str, ...]

    def apply(self, root: Path) -> None:
        """Change the line in a copy of the tree.

        Raises
        ------
        ValueError
            If it is not there exactly once.
        """
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.right) != 1:
            raise ValueError(
                f"{self.file} must hold {self.right!r} once for the fault {self.name!r}, got it "
                f"{text.count(self.right)} times"
            )
        path.write_text(text.replace(self.right, self.wrong), encoding="utf-8")


FAULTS = (
    Fault(
        "Gauss weights of mass 2",
        "meanfield/spaces/gegenbauer.py",
        "return nodes, weights / weights.sum()",
        "return nodes, 2.0 * weights / weights.sum()",
        (
            "tests/test_harmonics.py::test_gauss_nodes_integrate_powers",
            "tests/test_harmonics.py::test_polynomials_are_orthonormal",
            GRIDS + "test_grid",
        ),
    ),
    Fault(
        "Λ_k shifted by one degree",
        "meanfield/kernels/multipliers.py",
        "def _binary_eigenvalues(beta: float, dim: int, kmax: int)",
        "def _binary_eigenvalues(beta, dim, kmax):\n"
        "    return tuple(a[1:] for a in _right(beta, dim, kmax + 1))\n\n\n"
        "def _right(beta: float, dim: int, kmax: int)",
        (
            "tests/test_harmonics.py::test_published_eigenvalues",
            "tests/test_harmonics.py::test_eigenvalues_against_mpmath",
            "tests/test_harmonics.py::test_bandwidth_is_enough_for_the_kernel",
            MULTIPLIERS,
        ),
    ),
    Fault(
        "SA's velocity twice as large",
        "meanfield/equations/density.py",
        "multiply(transforms.gradient, potential, out=transforms.flux)\n        if lost",
        "multiply(2.0 * transforms.gradient, potential, out=transforms.flux)\n        if lost",
        (
            GROWTH,
            "tests/test_between_saves.py::test_pdf_between_saves_is_that_of_the_measure",
            "tests/test_velocity.py::test_right_hand_side_has_the_same_velocity",
        ),
    ),
    Fault(
        "no dealiasing on the circle",
        "meanfield/spaces/circle.py",
        "count = size // 2 - 1, 3 * size // 2",
        "count = size // 2 - 1, size",
        (
            GRIDS + "test_grid",
            GRIDS + "test_exact_size_is_exact_and_no_larger_than_needed",
            "tests/test_velocity.py::test_products_on_the_circle_do_not_alias",
        ),
    ),
    Fault(
        "half of the noise",
        "meanfield/evolution/density_system.py",
        "decay=np.append(dynamics.noise * laplacian",
        "decay=np.append(0.5 * dynamics.noise * laplacian",
        (
            "tests/test_noisy_density.py::test_heat_flow_alone",
            GROWTH,
            QUICK.format("noisy_densities"),
        ),
    ),
    Fault(
        "USA without its 1/β",
        "meanfield/equations/density.py",
        "lead = float(",
        "lead = beta * float(",
        (
            GROWTH,
            "tests/test_agreement.py::test_rotation_on_the_circle",
            ENERGIES + "test_dissipation_of_usa_on_other_spaces",
        ),
    ),
    Fault(
        "dissipation of the other sign",
        "meanfield/equations/density.py",
        "return self._energy_factor * self",
        "return -self._energy_factor * self",
        (
            QUICK.format("lemma_3_7_energy_identity"),
            ENERGIES + "test_dissipation_of_usa_on_other_spaces",
            ENERGIES + "test_dissipation_of_usa_squares_no_large_velocity[300.0]",
        ),
    ),
    Fault(
        "W_1 by the mean, not the median",
        "meanfield/functionals/transport/circle.py",
        "median = excess[ranked[min(int(half), len(ranked) - 1)]]",
        "median = lengths @ excess / mu.turn",
        (
            TRANSPORT + "test_weighted_tokens_against_all_plans",
            "tests/test_clouds.py::test_weights_over_fifteen_orders",
            TRANSPORT + "test_tokens_at_the_seam_that_coincide_or_weigh_nothing",
        ),
    ),
)


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
    ran, failed = set(), set()
    # written by the line above
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        whole = f"{file}::{case.get('name')}"
        target = next(t for t in targets if t in (whole, whole.partition("[")[0]))
        ran.add(target)
        if case.find("failure") is not None:
            failed.add(target)
    if missing := set(targets) - ran:
        raise RuntimeError(f"targets must run, got none of {sorted(missing)}")
    return [target for target in targets if target in failed]


def check(quick: bool) -> list[Claim]:
    """Eight faults, one in the quick form; then none."""
    faults = FAULTS[:1] if quick else FAULTS
    claims = []
    for fault in faults:
        caught = len(failing(fault.targets, fault))
        claims.append(
            Claim(
                f"{fault.name}: too few scripts and tests fail, by",
                fault.file,
                max(NEEDED - caught, 0),
                0.0,
                "a count",
                f"{NEEDED} or more",
                f"{caught} of {len(fault.targets)}",
            )
        )
    every = [target for fault in faults for target in fault.targets]
    without = len(failing(every))
    claims.append(
        Claim("without a fault: fail", "this tree", without, 0.0, "a count", "0", f"{without}")
    )
    return claims


if __name__ == "__main__":
    main(check)
