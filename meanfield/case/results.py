"""The case of a run from its result file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meanfield.case.faults import CaseError
from meanfield.case.provenance import CASE_FILE, CLOUD_FILES, ORIGIN, check_tokens, clouds
from meanfield.case.reading import Case, case_from_text
from meanfield.case.tables import OutputTable
from meanfield.solution import Solution


def case_of(solution: Solution, path: Path, settings: Mapping[str, Any] | None = None) -> Case:
    """The case that a solution, read from `path`, is a run of.

    Token files are looked for beside the case file that the run had, then beside `path`, and have
    to be the same to the byte. Files go where `settings` say and not where the run's went: a result
    from elsewhere names no file here.

    Raises
    ------
    CaseError
        If the run had no case file, or its token files are gone or have changed.
    """
    name = f"the case in {path}"
    if not solution.case:
        raise CaseError(f"{name} is missing: it must be of a run from a case file, to be run again")
    about = solution.dataset.attrs
    home = Path(str(about.get(CASE_FILE, path))).parent
    case = case_from_text(solution.case, name, path.parent, settings)
    folder = home if _has_all(case, home) or not _has_all(case, path.parent) else path.parent
    with case.errors("law"):
        check_tokens(case, folder, _recorded(about))
    carried = {key: about[key] for key in ORIGIN if key in about}
    return case.placed(folder, carried).with_output(_outputs(case, settings or {}))


def _outputs(case: Case, settings: Mapping[str, Any]) -> OutputTable:
    """Where files go by the settings alone."""
    if "output" in settings:
        return case.output
    keys = [key.removeprefix("output.") for key in settings if key.startswith("output.")]
    return OutputTable(**{key: getattr(case.output, key) for key in keys})


def _has_all(case: Case, folder: Path) -> bool:
    return all((folder / name).is_file() for _, name in clouds(case))


def _recorded(about: Mapping[str, Any]) -> dict[str, str]:
    try:
        recorded = json.loads(str(about.get(CLOUD_FILES, "{}")))
    except json.JSONDecodeError:
        return {}
    return recorded if isinstance(recorded, dict) else {}
