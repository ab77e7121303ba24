"""The command line: commands parse, call once and print; every error is one line."""

from meanfield.cli import check as _check  # noqa: F401 (a command)
from meanfield.cli import limit as _limit  # noqa: F401 (a command)
from meanfield.cli import movie as _movie  # noqa: F401 (a command)
from meanfield.cli import report as _report  # noqa: F401 (a command)
from meanfield.cli import schema as _schema  # noqa: F401 (a command)
from meanfield.cli import sweep as _sweep  # noqa: F401 (a command)
from meanfield.cli import validate as _validate  # noqa: F401 (a command)
from meanfield.cli.commands import main

__all__ = ["main"]
