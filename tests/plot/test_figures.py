"""All figures: axes say what is on them and end where their values do, theory is drawn smooth."""

from itertools import combinations

import pytest
from matplotlib import rc_context
from matplotlib.text import Text

import meanfield as mf
from meanfield.plot import __all__ as public
from meanfield.plot import frames
from tests.handmade import SERIES, run
from tests.plot.drawn import animated, masked_run
from tests.small_studies import SLOW, STUDIES, density_run, flow_run, phases, study
from tests.tiers import rows

AXIS = mf.VonMisesFisher([0.0, 0.0, 0.0, 1.0], 2.0)
TOKENS = mf.Particles.sample(AXIS, 40, rng=0)
PANELS = "heads", "fit", "energy", "parts", "clusters", "products", "means", "rank", "moves"


def swept(**grid):
    """A number of any sign over one that is not negative."""
    return mf.sweep(lambda beta, omega: beta + omega, grid)


def measured_layers():
    """The instruments on layers made by a flow."""
    start = mf.Particles.sample(mf.Uniform(4), 12, rng=0).points
    model = mf.trained.synthetic_layers(start, 3, beta=[2.0, 5.0], step=0.2, noise=0.3, rng=0)
    return mf.trained.measure_layers(model, beta=[2.0, 4.0], repeats=2, rng=0)


# each function with one figure or several
FIGURES = {
    "density": lambda: [mf.plot.density(make(2.0)) for make in SERIES.values()],
    "energy": lambda: mf.plot.energy(density_run()),
    "dissipation": lambda: mf.plot.dissipation(density_run()),
    "resolution": lambda: mf.plot.resolution(density_run()),
    "nodes": lambda: mf.plot.nodes(flow_run()),
    "distances": lambda: mf.plot.distances(flow_run()),
    "solution": lambda: [
        mf.plot.solution(flow_run()),
        mf.plot.solution(mf.evolve(TOKENS, mf.SA(2.0), 1.0, 4)),
        mf.plot.solution(run([SERIES["zonal"](kappa) for kappa in (0.5, 2.0)])),
        *(mf.plot.solution(masked_run(dim, energy=1.0)) for dim in (2, 3, 8)),
    ],
    "comparison": lambda: mf.plot.comparison(study("compare")),
    # all nine panels are for a page; one stands in a column by its name
    "layers": lambda: [mf.plot.layers(ds, panel) for ds in [measured_layers()] for panel in PANELS],
    "sweep": lambda: [
        mf.plot.sweep(swept(beta=[0.0, 1.0, 2.0], omega=[1.0])),
        mf.plot.sweep(swept(beta=[0.0, 1.0, 2.0], omega=[-1.0, 0.0, 1.0])),
    ],
    "inner_products": lambda: mf.plot.inner_products(
        {"a": [TOKENS, TOKENS], "b": [TOKENS, TOKENS]}
    ),
    **{
        name: lambda name=name: getattr(mf.plot, name)(study(name))
        for name in STUDIES
        if name != "compare"
    },
    "phase_diagram": lambda: [
        mf.plot.phase_diagram([study("phase_diagram")] * 4),
        mf.plot.phase_diagram(phases([mf.USA(0.0), mf.USA(1.0)])),
    ],
    "proposition_3_4, a part": lambda: mf.plot.proposition_3_4(
        mf.studies.proposition_3_4(1.0, 3, parts=["coefficients"])
    ),
    "animation": lambda: [
        animated(sol)._fig for sol in (density_run(), masked_run(2), masked_run(8, energy=1.0))
    ],
}
# what writes a file, and a movie is an animation
WRITERS = {"save", "movie"}
# lines of theory with their labels, which are no straight ones
THEORY = {"t*(β), (6.12)", "linear stage"}


def figures_of(name):
    drawn = FIGURES[name]()
    return [each.get_figure(root=True) for each in (drawn if isinstance(drawn, list) else [drawn])]


@pytest.fixture(scope="module", params=rows(FIGURES, *{*FIGURES} - SLOW))
def axes(request):
    """All axes of the figures that are seen."""
    axes = [ax for each in figures_of(request.param) for ax in each.axes]
    return [ax for ax in axes if ax.axison and ax.get_visible()]


def texts_seen(figure):
    """The texts of a figure that are drawn, without numbers beyond the ends of their axes."""
    hidden = set()
    for ax in figure.axes:
        if not (ax.axison and ax.get_visible()):
            hidden |= {*ax.findobj(Text)}
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            margin = 1e-9 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low - margin <= tick.get_loc() <= high + margin:
                    hidden |= {tick.label1, tick.label2}
    shown = (text for text in figure.findobj(Text) if text not in hidden)
    return [text for text in shown if text.get_visible() and text.get_text().strip()]


def faults(figure):
    """Texts that are small, beyond the edge, or on each other by more than 1.5 points."""
    figure.draw_without_rendering()
    point = figure.dpi / 72
    width, height = figure.get_size_inches() * figure.dpi
    drawn = [(text, text.get_window_extent()) for text in texts_seen(figure)]
    found = [text.get_text() for text, _ in drawn if text.get_fontsize() < 6.0]
    for text, box in drawn:
        if min(box.x0, box.y0, width - box.x1, height - box.y1) < -point:
            found.append(f"{text.get_text()} is beyond the edge")
    for (text, a), (other, b) in combinations(drawn, 2):
        shared = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        if min(shared) > 1.5 * point:
            found.append(f"{text.get_text()} on {other.get_text()}")
    return found


@pytest.mark.parametrize("name", rows(FIGURES, *{*FIGURES} - SLOW))
def test_figures_are_legible_as_they_are_and_in_one_column(name, tmp_path):
    """A column is 3.4 inches wide; panels of some figures stand in it one below the other."""
    for figure in figures_of(name):
        assert faults(figure) == []
        if name == "animation":
            # its frames are laid out once, so that nothing moves but the measure
            continue
        panels = {ax.get_subplotspec() for ax in figure.axes if ax.axison} - {None}
        figure.set_size_inches(3.4, 1.9 * max(len(panels), 1) + 0.5)
        assert faults(figure) == []
        with rc_context({"pdf.fonttype": 42}):
            mf.plot.save(figure, tmp_path / "figure.pdf")
        written = (tmp_path / "figure.pdf").read_bytes()
        # a map of tokens has no text
        assert (b"/CIDFontType2" in written) == bool(texts_seen(figure))
        assert b"/Type3" not in written


def test_faults_are_seen():
    figure = frames.new_figure(3.4, 1.0)
    figure.text(0.5, 0.5, "one", fontsize=8)
    assert faults(figure) == []
    figure.text(0.52, 0.5, "two", fontsize=8)
    figure.text(0.95, 0.1, "a long name", fontsize=5)
    assert faults(figure) == ["a long name", "a long name is beyond the edge", "one on two"]


def test_every_figure_is_here():
    assert {name.partition(",")[0] for name in FIGURES} | WRITERS == set(public)


def named(ax, along):
    """The name of an axis: its own, or that of the panels below it, or beside it in its row."""
    get = f"get_{along}label"
    place = ax.get_subplotspec()
    others = [ax]
    if place is not None:
        rows, columns = place.rowspan, place.colspan
        for other in ax.figure.axes:
            spot = other.get_subplotspec()
            if spot is not None and other.axison and spot.get_gridspec() is place.get_gridspec():
                near = spot.colspan == columns if along == "x" else spot.rowspan == rows
                others += [other] * near
    return next((getattr(each, get)() for each in others if getattr(each, get)()), "")


def test_axes_are_named(axes):
    """Maps and rings have a graticule. A title at the left names what is on the axis below it."""
    for ax in axes:
        if ax.name in ("mollweide", "polar"):
            continue
        names = named(ax, "x"), named(ax, "y") or ax.get_title(loc="left") or ax.get_title()
        # a scale of colours has one axis
        assert any(names) if ax.get_label() == "<colorbar>" else all(names), ax


def test_axes_have_no_times_and_no_beta_below_those_that_were_run(axes):
    for ax in axes:
        for along in "xy":
            name = named(ax, along)
            if name.startswith("time t") or name in ("t", "β", "beta"):
                low, high = getattr(ax, f"get_{along}lim")()
                assert 0.0 <= low < high, (name, low)


def test_theory_is_smooth(axes):
    """Where a curve of theory bends, it does so over many pieces."""
    for ax in axes:
        for line in ax.lines:
            if line.get_label() in THEORY:
                assert len(line.get_xdata()) >= 100
