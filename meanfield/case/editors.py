"""The JSON schema of case files, by which editors complete and check them."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from meanfield.case.reading import Case

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Schema(GenerateJsonSchema):
    """TOML has no null: a key that may be left out is not one that may be null."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 (as it is called)
        return False

    def nullable_schema(self, schema: Any) -> Any:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> Any:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def json_schema() -> dict[str, Any]:
    """The schema: all tables with their keys, types, ranges and descriptions.

    Ranges that depend on other keys are not in it; a case that fits it may still be refused.

    Examples
    --------
    >>> schema = json_schema()
    >>> schema["required"]
    ['law', 'space', 'dynamics', 'run']
    """
    schema = Case.model_json_schema(schema_generator=_Schema)
    about = {"title": "A case of meanfield", "description": "What `meanfield run` evolves."}
    return {"$schema": _DIALECT, **schema, **about}


def json_schema_text() -> str:
    """The schema as the text of a file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
