"""A notebook shows what a cell ends with: one picture, with and without an inline backend."""

import base64
import io
import re
import sys
from pathlib import Path

import nbformat
import pytest
from matplotlib import rcParams
from nbclient import NotebookClient
from PIL import Image

import meanfield as mf
from tests.children import LAST_RESORT
from tests.small_studies import density_run

ROOT = Path(mf.__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from page_blocks import blocks  # noqa: E402 (beside the pages)

START = """
import meanfield as mf
mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
sol = mf.evolve(mu, mf.SA(1.0), 1.0, 1)
mu.mean(), sol.t
"""
# what a cell ends with, and the type of its picture
SHOWN = {
    "mu.plot()": "image/png",
    "mf.Density(mf.Sphere(7), mf.Uniform(3)).plot()": "image/png",
    "mf.Particles([[1.0, 0.0, 0.0, 0.0]]).plot()": "image/png",
    "sol.plot('tail')": "image/png",
    "ax = sol.plot()\nax.set_title('mine')\nax": "image/png",
    "mf.plot.solution(sol, panels=1)": "image/png",
    "sol.animate()": "image/gif",
    "mu": "image/png",
    "sol": "image/png",
    "mf.Bracket(0.5, 0.4, 0.6)": "svg",
}
# again, in the backend of notebooks: axes, a figure, a movie, a card
INLINE = "mu.plot()", "ax.figure", "sol.animate()", "mu"
LAST = """
import matplotlib.pyplot as plt
mu.plot(), mf.plot.solution(sol)
plt.get_fignums()
"""
OWN_AXES = """
figure, ax = plt.subplots(subplot_kw={"projection": "polar"})
mu.plot(ax)
"""
# the cells of a page, and what each shows
PAGE = blocks((ROOT / "docs/howto/scripts.md").read_text(encoding="utf-8"))
CELLS = [block.text for block in PAGE if block.language == "py"]
PICTURES = {
    **SHOWN,
    "ax.figure": "image/png",
    OWN_AXES: "image/png",
    **dict(zip(CELLS, ["image/gif", "image/png"], strict=True)),
}


def pictures(cell):
    """The type and the content of every picture in the outputs of a cell."""
    for output in cell.outputs:
        data = output.get("data", {})
        yield from ((kind, data[kind]) for kind in data if kind.startswith("image/"))
        html = data.get("text/html", "")
        yield from re.findall(r'src="data:(image/\w+);base64,([^"]+)"', html)
        yield from (("svg", each) for each in re.findall(r"<svg.*?</svg>", html, re.DOTALL))


@pytest.mark.slow
def test_cells_show_one_picture(tmp_path, monkeypatch):
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    sources = [START, *SHOWN, LAST, "%matplotlib inline", *INLINE, LAST, OWN_AXES, *CELLS]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    patience = {"timeout": None, "startup_timeout": int(LAST_RESORT)}
    NotebookClient(notebook, kernel_name="python3", **patience).execute(cwd=tmp_path)
    for source, cell in zip(sources, notebook.cells, strict=True):
        if source == LAST:
            # pyplot knows none of them, so that nothing keeps them
            assert cell.outputs[0].data["text/plain"] == "[]"
            continue
        wanted, shown = PICTURES.get(source), [*pictures(cell)]
        assert [kind for kind, _ in shown] == ([wanted] if wanted else []), source
        for kind, data in shown:
            if kind != "svg":
                with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
                    assert min(picture.size) > 100
                    if source in SHOWN:
                        assert getattr(picture, "n_frames", 1) == (2 if kind == "image/gif" else 1)


def test_a_movie_shows_as_the_user_asks(monkeypatch):
    monkeypatch.setitem(rcParams, "animation.html", "jshtml")
    assert "<script" in density_run().animate(frames=1)._repr_html_()
