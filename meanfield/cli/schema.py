"""The command that tells editors what a case file may hold."""

from __future__ import annotations

import typer

from meanfield.case import json_schema_text
from meanfield.cli.commands import app


@app.command()
def schema() -> None:
    """Print the JSON schema of case files, for editors that complete and check them.

    Write it beside a case (meanfield schema > case.schema.json) and open the case with the line
    "#:schema case.schema.json", which Even Better TOML and taplo understand.
    """
    typer.echo(json_schema_text(), nl=False)
