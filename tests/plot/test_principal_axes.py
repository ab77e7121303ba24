"""Tokens in d > 3 are drawn on the principal axes of all saves, the same ones everywhere."""

import base64
import json
import re

import numpy as np
import pytest
from matplotlib.figure import Figure

import meanfield as mf
from meanfield.cli import explore, report
from meanfield.cli.case import overridden
from meanfield.cli.explore import Explorer
from meanfield.cli.report.document import part_of_page
from meanfield.plot import runs
from tests.handmade import solution
from tests.plot.drawn import animated, measure_panels, points

DIM, N, SAVES = 10, 60, 10
RNG = np.random.default_rng(11)
# tokens end at the pole, and before that half of them are on either side of it along the split
POLE, SPLIT = np.linalg.qr(RNG.normal(size=(DIM, 2)))[0].T
SIDES = np.repeat([1.0, -1.0], N // 2)
WEIGHTS = RNG.uniform(0.5, 1.5, N)


def cloud(tilt, spread):
    """Two clusters at this angle from the pole; spreads of rounding are those of a collapse."""
    places = np.cos(tilt) * POLE + np.sin(tilt) * np.outer(SIDES, SPLIT)
    places = places + spread * RNG.normal(size=(N, DIM))
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    return mf.Particles(places, WEIGHTS, unit_mass=True)


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
    views = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["views"]
    return [view for view in views if view["name"].startswith("measure")]


@pytest.mark.parametrize("count", [1, 2, SAVES])
def test_axes_are_those_of_all_saves(count):
    """However few are shown."""
    axes, shares = components(MEASURES)
    shown = measure_panels(mf.plot.solution(run(MEASURES), panels=count))
    chosen = MEASURES if count == SAVES else [MEASURES[0], MEASURES[-1]][-count:]
    for ax, measure in zip(shown, chosen, strict=True):
        assert points(ax) == pytest.approx(measure.points @ axes.T, abs=1e-12)
    assert labels(shown[0]) == named(shares)


def test_frames_have_the_axes_of_all_saves():
    axes, shares = components(MEASURES)
    ax = Figure().add_subplot()
    animated(run(MEASURES), ax, frames=2)
    assert points(ax) == pytest.approx(MEASURES[0].points @ axes.T, abs=1e-12)
    assert labels(ax) == named(shares)


def test_the_card_of_a_run_has_the_axes_of_its_figure(monkeypatch):
    seen = []
    monkeypatch.setattr(runs.panels, "draw", lambda _measure, ax, shared: seen.append(shared.plane))
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


@pytest.mark.slow
def test_two_runs_on_a_page_have_the_same_axes(monkeypatch):
    other = [cloud(tilt, 0.02) for tilt in TILTS]
    stills = []
    still = report.document.still
    monkeypatch.setattr(
        report.document, "still", lambda *asked: stills.append(still(*asked)) or stills[-1]
    )
    views = page_views(report.page(run(MEASURES), run(other)))
    axes, shares = components(MEASURES + other)
    for view, figure, measures in zip(views, stills, (MEASURES, other), strict=True):
        ax = measure_panels(figure)[0]
        assert page_dots(view, 0) == pytest.approx(measures[0].points @ axes.T, abs=1e-6)
        assert page_labels(view) == named(shares) == labels(ax)
        assert points(ax) == pytest.approx(measures[0].points @ axes.T, abs=1e-12)


def test_the_explorer_has_the_axes_of_the_figure():
    changes = {"measure": {"type": "Particles", "n": N}, "run.t_end": 2.0, "run.save_at": 4}
    law = {"law": explore.law_table(DIM, 3, 4.0)}
    case = mf.Case(overridden(part_of_page("explore/case.toml"), law, "case")).replace(changes)
    lines = []
    Explorer(case).run({}, lines.append, int)
    shown = json.loads(json.dumps(lines[-1]))
    view = next(view for view in shown["views"] if view["name"] == "measure0")
    sol = case.run()
    axes, shares = components(sol.measures)
    assert page_labels(view) == named(shares)
    assert page_dots(view, 0) == pytest.approx(sol.measures[0].points @ axes.T, abs=1e-6)


def few(dim):
    """Seven tokens, in whose span the axes are."""
    places = np.random.default_rng(3).normal(size=(7, dim))
    return mf.Particles(places / np.linalg.norm(places, axis=1, keepdims=True))


@pytest.mark.parametrize("measure", [MEASURES[0], few(4), few(9), few(300)])
def test_a_measure_alone_has_its_own_axes(measure):
    axes, shares = components([measure])
    ax = measure.plot()
    assert points(ax) == pytest.approx(measure.points @ axes.T, abs=1e-12)
    assert labels(ax) == named(shares)


@pytest.mark.parametrize("count", [1, 40])
def test_tokens_in_one_place_have_no_principal_axes(count):
    ax = mf.Particles(np.tile(POLE, (count, 1))).plot()
    assert points(ax) == pytest.approx(np.tile(POLE[:2], (count, 1)))
    assert labels(ax) == ["x₁\nno variance", "x₂\nno variance"]
