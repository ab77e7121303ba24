"""Case files: TOML to objects, with errors that name file, key, value and what is allowed."""

from meanfield.case.faults import CaseError, one_line
from meanfield.case.overriding import as_toml, checked_key, setting, toml_value
from meanfield.case.provenance import About
from meanfield.case.reading import (
    Case,
    case_from_text,
    case_of,
    default_case_text,
    json_schema,
    json_schema_text,
    read_case,
)

__all__ = [
    "About",
    "Case",
    "CaseError",
    "as_toml",
    "case_from_text",
    "case_of",
    "checked_key",
    "default_case_text",
    "json_schema",
    "json_schema_text",
    "one_line",
    "read_case",
    "setting",
    "toml_value",
]
