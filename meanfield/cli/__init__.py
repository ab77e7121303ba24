"""The command line: commands parse, call once and print; every error is one line."""

from meanfield.cli import limit as _limit  # noqa: F401 (a command)
from meanfield.cli import validate as _validate  # noqa: F401 (a command)
from meanfield.cli.commands import main

__all__ = ["main"]
