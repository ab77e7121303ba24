"""Reports: a run, or the layers of a model, as one HTML page that needs no network."""

from meanfield.cli.report.document import page, save, source_of_page, write
from meanfield.cli.report.layers import page_of_layers

__all__ = ["page", "page_of_layers", "save", "source_of_page", "write"]
