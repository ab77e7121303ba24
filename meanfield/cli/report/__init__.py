"""Reports: a run as one HTML page that needs no network and no server."""

from meanfield.cli.report.document import page, save, source_of_page

__all__ = ["page", "save", "source_of_page"]
