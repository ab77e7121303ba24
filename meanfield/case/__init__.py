"""Case files: TOML to objects, with errors that name file, key, value and what is allowed."""

from meanfield.case.faults import CaseError, one_line
from meanfield.case.reading import Case, case_from_text, default_case_text, read_case

__all__ = ["Case", "CaseError", "case_from_text", "default_case_text", "one_line", "read_case"]
