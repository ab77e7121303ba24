"""Formulas as MathML: every browser draws it by itself, without a script or a network."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

_BAR = '<mo stretchy="false">&#x0007C;</mo>'
# what TeX knows and MathML has to be told: a norm's bars stand close, and a log keeps its distance
_SPACING = {_BAR: _BAR.replace("<mo", '<mo lspace="0" rspace="0"')}
_SPACING |= {
    f"<mi>{f}</mi>": f'<mi>{f}</mi><mspace width="0.167em"/>' for f in ("cos", "log", "sin")
}


def mathml(formula: str, display: str = "inline") -> str:
    """Translate a formula in LaTeX."""
    text: str = convert(formula, display=display)
    for plain, spaced in _SPACING.items():
        text = text.replace(plain, spaced)
    return text


def inline(page: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a sentence."""
    page.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def displayed(page: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, which scrolls where it is wider than the page."""
    page.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register `html_math_renderer = "mathml"`."""
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
