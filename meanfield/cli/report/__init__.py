"""Reports: a run as one HTML page that needs no network and no server."""

from __future__ import annotations

from meanfield.cli.report.document import page, save

__all__ = ["page", "save"]
