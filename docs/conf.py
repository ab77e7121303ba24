"""How Sphinx builds these pages: `sphinx-build -W docs OUTPUT`, with the extra `docs` installed."""

import contextlib
import inspect
import io
import logging
import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.application import Sphinx

import meanfield as mf
from meanfield.typing import names_for_rooms

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from benchmark_tables import benchmark_tables  # noqa: E402 (beside this file)
from moving_measure import moving_measure  # noqa: E402
from page_blocks import inside, run_page  # noqa: E402
from reference import reference  # noqa: E402
from rooms import rooms  # noqa: E402

# everything that a build makes for itself; git ignores it
GENERATED = HERE / "generated"
# pages that show what their own code draws, and the folders of their figures
DRAWING = {
    "tutorial.md": "tutorial",
    "howto/any_kernel.md": "howto",
    "howto/new_dynamics.md": "howto",
    "howto/own_density.md": "howto",
}

project = "meanfield"
author = copyright = "the meanfield developers"  # noqa: A001 (Sphinx's name for it)
release = mf.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "mathml",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery", "generated/gallery/*.ipynb", "generated/benchmarks.md"]
default_role = "code"  # `name` in a docstring

html_theme = "furo"
html_title = "meanfield"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_show_sphinx = False

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # numpydoc's "Parameters" say them
autodoc_member_order = "bysource"
autosummary_generate = ["generated/api.md"]
napoleon_google_docstring = False
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "image_scrapers": ("gallery_figures.figure_of",),
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r".*\.py",
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "plot_gallery": True,
}


def to_files() -> None:
    """Let autodoc read the files that public classes and functions are written in."""
    for thing in (getattr(mf, name) for name in mf.__all__):
        parts = [*vars(thing).values()] if inspect.isclass(thing) else [thing]
        functions = (inspect.unwrap(part) for part in parts if inspect.isfunction(part))
        if found := next(functions, None):
            thing.__module__ = found.__globals__["__name__"]


def draw(page: str, folder: Path) -> None:
    """Run a page in a scratch folder and keep its figures."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, inside(Path(scratch)):
        with contextlib.redirect_stdout(io.StringIO()):
            run_page((HERE / page).read_text(encoding="utf-8"), page)
        for figure in [*Path().glob("*.png"), *Path().glob("*.gif")]:
            shutil.copy(figure, folder)


def write_reference(*_: object) -> None:
    """Write the page of the API before Sphinx looks which pages there are."""
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / "api.md").write_text(reference(), encoding="utf-8")


def generate(app: Sphinx) -> None:
    """Draw what pages show, and print the benchmarks' tables."""
    for library in "matplotlib", "meanfield":  # the gallery's own logger would print all
        logging.getLogger(library).setLevel("WARNING")
    to_files()
    if (
        app.config.plot_gallery != "0"
    ):  # sphinx-build -D plot_gallery=0 makes a draft without pictures
        for page, folder in DRAWING.items():
            draw(page, GENERATED / folder)
        moving_measure(GENERATED / "moving_measure.gif")
        rooms(GENERATED / "rooms.png")
    results = HERE.parent / "validation" / "benchmarks" / "results"
    (GENERATED / "benchmarks.md").write_text(benchmark_tables(results), encoding="utf-8")
    (GENERATED / "benchmarks").mkdir(exist_ok=True)
    for figure in results.glob("*.png"):
        shutil.copy(figure, GENERATED / "benchmarks")


def follow(_: Sphinx, __: str, ___: str, content: list[str]) -> None:
    """Let pages of validation/ refer to each other where they are included."""
    for file, page in ("README.md", "validation.md"), ("RESULTS.md", "results.md"):
        content[0] = content[0].replace(f"]({file})", f"]({page})")


def plain(_: Sphinx, __: str, ___: str, ____: object, _____: object, lines: list[str]) -> None:
    """Let |x| in a docstring be a norm, not a substitution; doctests stay as they are."""
    in_doctest = False
    for number, line in enumerate(lines):
        in_doctest = bool(line.strip()) and (in_doctest or line.lstrip().startswith(">>>"))
        if not in_doctest:
            # outside of `code`, that is in every second part
            parts = line.split("`")
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[number] = "`".join(parts)


def is_for_rooms(
    _: Sphinx, __: str, name: str, part: object, ___: bool, ____: object
) -> bool | None:
    """Leave out of the reference what rooms ask each other, as completion does."""
    maker = getattr(part, "fget", None) or getattr(part, "func", part)
    owner = str(getattr(maker, "__qualname__", "")).rpartition(".")[0]
    kinds = [
        thing for thing in (getattr(mf, each) for each in mf.__all__) if inspect.isclass(thing)
    ]
    own = [base for kind in kinds for base in kind.__mro__ if base.__name__ == owner] or kinds
    return True if any(name in names_for_rooms(kind) for kind in own) else None


def setup(app: Sphinx) -> None:
    """Have generated parts made before anything reads them, and texts read as they are meant."""
    app.connect("config-inited", write_reference)
    app.connect("builder-inited", generate, priority=100)
    app.connect("include-read", follow)
    app.connect("autodoc-skip-member", is_for_rooms)
    app.connect("autodoc-process-docstring", plain, priority=100)
