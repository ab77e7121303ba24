"""Tokens in d > 3 are drawn on the principal axes of all saves, the same ones everywhere."""

import base64
import json
import re

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

import meanfield as mf
from meanfield.cli import explore, report
from meanfield.cli.explore import Explorer
from meanfield.cli.report.document import part_of_page
from meanfield.plot import runs
from tests.handmade import solution

DIM, N, SAVES = 10, 60, 10
RNG = np.random.default_rng(11)
# tokens end at the pole, and before that half of them are on either side of it along the split
POLE, SPLIT = np.linalg.qr(RNG.normal(size=(DIM, 2)))[0].T
SIDES = np.repeat([1.0, -1.0], N // 2)
WEIGHTS = RNG.uniform(0.5, 1.5, N)


def cloud(tilt, spread):
    """Two clusters at this angle from the pole; spreads of rounding are those of a collapse."""
    points = np.cos(tilt) * POLE + np.sin(tilt) * np.outer(SIDES, SPLIT)
    points = points + spread * RNG.normal(size=(N, DIM))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return mf.Particles(points, WEIGHTS, unit_mass=True)


TILTS = [0.9, 0.3, *(SAVES - 2) * [0.0]]
MEASURES = [cloud(tilt, 0.05 if tilt else 1e-9) for tilt in TILTS]


def run(measures):
    return solution(measures, mf.SA(4.0), status="finished", message="finished")


def components(measures):
    """Axes of the largest variance of all rows together, and their shares, in percent."""
    rows = np.concatenate([measure.points for measure in measures])
    shares = np.concatenate([measure.weights for measure in measures]) / len(measures)
    rows = np.sqrt(shares)[:, None] * (rows - shares @ rows)
    _, lengths, axes = np.linalg.svd(rows, full_matrices=False)
    axes = axes[:2] * np.sign(axes[np.arange(2), np.abs(axes[:2]).argmax(axis=1)])[:, None]
    return axes, 100.0 * lengths[:2] ** 2 / np.sum(lengths**2)


def dots(ax):
    (scatter,) = ax.findobj(PathCollection)
    return np.asarray(scatter.get_offsets())


def labels(ax):
    return [ax.get_xlabel(), ax.get_ylabel()]


def named(shares):
    first, second = (f"principal axis\n{share:.3g} % of variance" for share in shares)
    return [f"1st {first}", f"2nd {second}"]


def numbers(packed):
    return np.frombuffer(base64.b64decode(packed["bdata"]), "<" + packed["dtype"])


def page_dots(view, frame):
    trace = view["frames"][frame]["1"]
    return np.column_stack([numbers(trace[x]) for x in "xy"])


def page_labels(view):
    titles = (view["layout"][axis]["title"]["text"] for axis in ("xaxis", "yaxis"))
    return [title.replace("<br>", "\n") for title in titles]


def page_views(page):
    found = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["views"]
    return [view for view in found if view["name"].startswith("measure")]


def panels(figure):
    """The panels of measures, each with its time."""
    return [ax for ax in figure.axes if ax.get_title().startswith("(")]


def test_axes_are_those_of_all_saves():
    axes, shares = components(MEASURES)
    figure = mf.plot.solution(run(MEASURES), panels=SAVES)
    for ax, measure in zip(panels(figure), MEASURES, strict=True):
        assert dots(ax) == pytest.approx(measure.points @ axes.T, abs=1e-12)
    assert labels(panels(figure)[0]) == named(shares)


def test_an_early_split_is_seen_on_the_first_axis():
    """The clusters are as far apart as they are in space, although all but two saves hide them."""
    ax = panels(mf.plot.solution(run(MEASURES)))[0]
    x = dots(ax)[:, 0]
    first, second = x[SIDES > 0].mean(), x[SIDES < 0].mean()
    assert abs(first - second) == pytest.approx(2.0 * np.sin(TILTS[0]), rel=0.05)


def test_few_panels_and_frames_have_the_axes_of_all_saves():
    axes, shares = components(MEASURES)
    sol = run(MEASURES)
    for figure in (mf.plot.solution(sol, panels=2), mf.plot.solution(sol, panels=1)):
        last = panels(figure)[-1]
        assert dots(last) == pytest.approx(MEASURES[-1].points @ axes.T, abs=1e-12)
    ax = Figure().add_subplot()
    moving = sol.animate(ax, frames=2)
    assert dots(ax) == pytest.approx(MEASURES[0].points @ axes.T, abs=1e-12)
    assert labels(ax) == named(shares)
    moving._draw_was_started = True


def test_the_card_of_a_run_has_the_axes_of_its_figure(monkeypatch):
    seen = []
    monkeypatch.setattr(runs, "draw", lambda _measure, ax, shared: seen.append(shared.plane))
    runs.card(run(MEASURES))
    axes, shares = components(MEASURES)
    (plane,) = seen
    assert plane.axes == pytest.approx(axes, abs=1e-12)
    assert list(plane.names) == named(shares)


def test_a_page_has_the_axes_of_the_figure(monkeypatch):
    """Coordinates on a page are in single precision."""
    monkeypatch.setattr(report.document, "_MOST_TIMES", 3)
    axes, shares = components(MEASURES)
    page = report.page(run(MEASURES))
    (view,) = page_views(page)
    assert len(view["frames"]) == 3
    assert page_dots(view, 0) == pytest.approx(MEASURES[0].points @ axes.T, abs=1e-6)
    assert page_labels(view) == named(shares)
    assert "The principal axes are those of all saves together." in page


def test_two_runs_on_a_page_have_the_same_axes(monkeypatch):
    other = [cloud(tilt, 0.02) for tilt in TILTS]
    stills = []
    still = report.document.still
    monkeypatch.setattr(
        report.document, "still", lambda *given: stills.append(still(*given)) or stills[-1]
    )
    views = page_views(report.page(run(MEASURES), run(other)))
    axes, shares = components(MEASURES + other)
    for view, figure, measures in zip(views, stills, (MEASURES, other), strict=True):
        assert page_dots(view, 0) == pytest.approx(measures[0].points @ axes.T, abs=1e-6)
        assert page_labels(view) == named(shares) == labels(panels(figure)[0])
        assert dots(panels(figure)[0]) == pytest.approx(measures[0].points @ axes.T, abs=1e-12)


def test_the_explorer_has_the_axes_of_the_figure():
    changes = {"measure": {"type": "Particles", "n": N}}
    changes |= {"law": explore.law_table(DIM, 3, 4.0), "run.t_end": 2.0, "run.save_at": 4}
    case = mf.Case(part_of_page("explore/case.toml")).replace(changes)
    lines = []
    Explorer(case).run({}, lines.append, int)
    shown = json.loads(json.dumps(lines[-1]))
    view = next(one for one in shown["views"] if one["name"] == "measure0")
    sol = case.run()
    axes, shares = components(sol.measures)
    assert page_labels(view) == named(shares)
    assert page_dots(view, 0) == pytest.approx(sol.measures[0].points @ axes.T, abs=1e-6)


def test_a_measure_alone_has_its_own_axes():
    axes, shares = components(MEASURES[:1])
    ax = MEASURES[0].plot()
    assert dots(ax) == pytest.approx(MEASURES[0].points @ axes.T, abs=1e-12)
    assert labels(ax) == named(shares)


@pytest.mark.parametrize("dim", [4, 9, 300])
def test_few_tokens_in_many_dimensions(dim):
    """In the span of all rows, whose axes are those of the space."""
    points = np.random.default_rng(3).normal(size=(7, dim))
    some = mf.Particles(points / np.linalg.norm(points, axis=1, keepdims=True))
    axes, shares = components([some])
    ax = some.plot()
    assert dots(ax) == pytest.approx(some.points @ axes.T, abs=1e-12)
    assert labels(ax) == named(shares)


def test_the_order_of_tokens_turns_no_axis():
    order = np.random.default_rng(4).permutation(N)
    turned = [mf.Particles(one.points[order], one.weights[order]) for one in MEASURES]
    seen, again = (dots(panels(mf.plot.solution(run(some)))[0]) for some in (MEASURES, turned))
    assert again == pytest.approx(seen[order], abs=1e-12)


@pytest.mark.parametrize("count", [1, 40])
def test_tokens_in_one_place_have_no_principal_axes(count):
    ax = mf.Particles(np.tile(POLE, (count, 1))).plot()
    assert dots(ax) == pytest.approx(np.tile(POLE[:2], (count, 1)))
    assert labels(ax) == ["x₁\nno variance", "x₂\nno variance"]
