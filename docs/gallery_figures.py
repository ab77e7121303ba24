"""The gallery's pictures: pyplot, where others are looked for, does not know those of `mf.plot`."""

from collections.abc import Mapping
from typing import Any

from sphinx_gallery.scrapers import figure_rst


def figure_of(_: object, block_vars: Mapping[str, Any], gallery_conf: Mapping[str, Any]) -> str:
    """Save what an example calls `figure`, once, and return what shows it."""
    figure = block_vars["example_globals"].pop("figure", None)
    if figure is None:
        return ""
    path = next(block_vars["image_path_iterator"])
    figure.savefig(path, dpi=110)
    return str(figure_rst([path], gallery_conf["src_dir"]))
