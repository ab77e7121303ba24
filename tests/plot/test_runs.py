"""Pictures of runs: panels, marks and titles are those of the run, and legible; their files."""

import re

import numpy as np
import pytest
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

import meanfield as mf
from meanfield.plot import runs
from tests.handmade import DENSITIES, PROJECTIONS, SERIES, curve, names, run, texts
from tests.plot.drawn import (
    masked_run,
    measure_panels,
    mixed_run,
    points,
    position_panels,
    stems,
    times,
    titled,
)
from tests.tiers import rows

KAPPAS = 0.5, 2.0, 5.0, 30.0


@pytest.fixture(scope="module", params=rows(SERIES, "circle", "sphere"))
def drawn(request):
    sol = run([SERIES[request.param](kappa) for kappa in KAPPAS])
    figure = mf.plot.solution(sol, panels=3)
    figure.draw_without_rendering()
    return request.param, sol, figure


def test_panels_at_saved_times_from_first_to_last(drawn):
    """Beside them curves, but for distances that were not monitored."""
    kind, sol, figure = drawn
    assert [ax.name for ax in measure_panels(figure)] == 3 * [PROJECTIONS[kind]]
    first, middle, last = times(figure)
    assert (first, last) == (sol.t[0], sol.t[-1])
    assert middle in sol.t[1:-1]
    bars = kind == "sphere"
    assert len(figure.axes) == 3 + bars + (3 if kind in DENSITIES else 2)
    assert titled(figure, "distance") == []


def test_no_two_texts_overlap(drawn):
    _, _, figure = drawn
    boxes = []
    for ax in figure.axes:
        (x0, x1), (y0, y1) = sorted(ax.get_xlim()), sorted(ax.get_ylim())
        shown = [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        for ticks, low, high in (
            (ax.xaxis.get_major_ticks(), x0, x1),
            (ax.yaxis.get_major_ticks(), y0, y1),
        ):
            shown += [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
        boxes += [
            (text.get_text(), text.get_window_extent())
            for text in shown
            if text.get_visible() and text.get_text().strip()
        ]
    assert len(boxes) > 20
    for number, (name, box) in enumerate(boxes):
        for other, other_box in boxes[:number]:
            overlap = min(box.x1, other_box.x1) - max(box.x0, other_box.x0)
            overlap = min(overlap, min(box.y1, other_box.y1) - max(box.y0, other_box.y0))
            # pixels: boxes have a margin around their letters
            assert overlap < 2.0, (name, other)


def test_every_text_lies_on_the_figure(drawn):
    _, _, figure = drawn
    width, height = figure.canvas.get_width_height()
    for ax in figure.axes:
        for text in (*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label):
            if text.get_visible() and text.get_text():
                box = text.get_window_extent()
                assert -1 < box.x0 < box.x1 < width + 1
                assert -1 < box.y0 < box.y1 < height + 1


def test_marks_on_the_energy_are_the_panels(drawn):
    _, sol, figure = drawn
    (ax,) = titled(figure, "energy")
    marks = curve(ax, "#d55e00")
    # titles have four digits
    assert [float(f"{t:.4g}") for t in marks.get_xdata()] == times(figure)
    assert set(marks.get_ydata()) <= set(sol.dataset.energy.values)
    assert {"a", "b", "c"} <= set(texts(ax))


@pytest.mark.parametrize(
    ("energies", "panels", "expected"),
    [
        ([0, 1, 2, 3, 4, 5, 6], 3, [0, 3, 6]),
        ([0, 0, 0, 0, 1, 2, 2], 3, [0, 4, 6]),
        ([0, 9, 9, 9, 9, 9, 9], 4, [0, 1, 2, 6]),
        ([9, 9, 9, 9, 9, 9, 0], 4, [0, 1, 5, 6]),
        ([5, 4, 3, 2, 1, 0, 0], 2, [0, 6]),
        ([0, 2, 0, 2, 0, 2, 0], 3, [0, 3, 6]),
        ([1, 1, 1, 1, 1, 1, 1], 3, [0, 3, 6]),
        ([0, 1, 2, 3, 4, 5, 6], 1, [6]),
        ([0, 1, 2, 3, 4, 5, 6], 12, [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_times_are_at_equal_steps_of_energy(energies, panels, expected):
    """Those that are chosen; the panels of the figure are those chosen, as above."""
    sol = run(7 * [SERIES["circle"](1.0)])
    sol.dataset["energy"][:] = np.array(energies, float)
    assert runs.instants(sol, panels) == expected


@pytest.mark.parametrize("kind", rows(SERIES, "tokens d=10"))
def test_a_run_that_saved_once(kind):
    """Its monitored distance has a panel, for every kind of measure."""
    sol = run([SERIES[kind](2.0)], status="under-resolved")
    sol.dataset["w"] = "t", [1.0]
    figure = mf.plot.solution(sol)
    figure.draw_without_rendering()
    assert times(figure) == [0.0]
    assert figure.get_suptitle() == "SA, β = 4: under-resolved at t = 0"
    assert len(titled(figure, "distance")) == 1


@pytest.mark.parametrize("dim", rows([2, 10], 2))
def test_a_run_from_density_to_flow_map(dim):
    figure = mf.plot.solution(mixed_run(dim))
    figure.draw_without_rendering()
    measures = figure.axes[:4]
    assert len(figure.axes) == 7
    assert len({ax.name for ax in measures}) == 1
    assert len({ax.get_ylim() for ax in measures}) == 1
    assert stems(measures[-1]).shape == (2, 2)
    assert titled(figure, "number of nodes")
    assert "clustered" in figure.get_suptitle()
    assert figure._suptitle.get_color() == "black"


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_tokens_under_a_mask_are_seen_at_their_positions(dim):
    """By angle on the circle, else along the first principal axis, at the times of the panels."""
    sol = masked_run(dim)
    figure = mf.plot.solution(sol, panels=3)
    panels = position_panels(figure)
    shown = [float(ax.get_title().removeprefix("t = ")) for ax in panels]
    assert shown == times(figure)
    cloud = np.concatenate([mu.points for mu in sol.measures])
    masses = np.concatenate([mu.weights for mu in sol.measures]) / len(sol)
    cloud = np.sqrt(masses)[:, None] * (cloud - masses @ cloud)
    _, lengths, axes = np.linalg.svd(cloud, full_matrices=False)
    axis = axes[0] * np.sign(axes[0, np.abs(axes[0]).argmax()])
    share = 100.0 * lengths[0] ** 2 / np.sum(lengths**2)
    for t, ax in zip(shown, panels, strict=True):
        mu = sol.measures[list(sol.t).index(t)]
        x, s = points(ax).T
        np.testing.assert_allclose(s, np.cumsum(mu.weights), rtol=0, atol=1e-15)
        if dim == 2:
            np.testing.assert_allclose(np.exp(1j * x), mu.points @ [1, 1j], rtol=0, atol=1e-14)
            assert ax.get_xlabel() == "angle θ"
            assert ax.get_xlim() == (0.0, 2.0 * np.pi)
        else:
            np.testing.assert_allclose(x, mu.points @ axis, rtol=0, atol=1e-12)
            assert ax.get_xlabel() == f"1st principal axis\n{share:.3g} % of variance"


@pytest.mark.parametrize(
    ("dynamics", "count"),
    [
        (mf.SA(1.0), 0),
        (mf.SA(1.0) + mf.USA(1.0, mask=mf.Causal()), 1),
        (mf.Layers([mf.SA(1.0), mf.SA(2.0, mask=mf.Causal())]), 1),
        (mf.LayerMap(mf.SA(2.0, mask=mf.Causal()), step=1.0), 1),
        (mf.SA(mf.Schedule([0.0, 1.0], [1.0, 2.0]), mask=mf.Causal()), 1),
    ],
    ids=str,
)
def test_positions_are_seen_where_any_part_has_a_mask(dynamics, count):
    sol = mf.evolve(mf.Particles(np.eye(3)), dynamics, 1.0, 1)
    assert len(position_panels(mf.plot.solution(sol, panels=1))) == count


def test_a_file_that_keeps_no_function_keeps_that_tokens_had_positions(tmp_path):
    dynamics = mf.SA(lambda t: 1.0 + t, mask=mf.Causal())
    mf.evolve(mf.Particles(np.eye(3)), dynamics, 1.0, 1).save(tmp_path / "run.nc")
    sol = mf.load(tmp_path / "run.nc")
    assert len(position_panels(mf.plot.solution(sol, panels=1))) == 1


def test_one_scale_for_all_panels():
    figure = mf.plot.solution(run([SERIES["sphere"](kappa) for kappa in KAPPAS]))
    norms = {image.norm for ax in measure_panels(figure) for image in ax.findobj(AxesImage)}
    (norm,) = norms
    assert isinstance(norm, LogNorm)
    highest = max(SERIES["sphere"](kappa).values.max() for kappa in KAPPAS)
    assert norm.vmax == highest > 20
    bar = next(ax for ax in figure.axes if ax.get_ylabel() == "density f")
    assert bar.get_ylim() == pytest.approx((0.1, highest))


RISING, FALLING, BOTH = (1, 2, 4, 5), (5, 4, 2, 1), (1, 5, 5, 1)


@pytest.mark.parametrize("values", rows([RISING, FALLING, BOTH], BOTH))
def test_no_letter_lies_on_the_curve(values):
    sol = run([SERIES["zonal"](kappa) for kappa in KAPPAS])
    sol.dataset["energy"][:] = np.array(values, float)
    figure = mf.plot.solution(sol)
    figure.draw_without_rendering()
    (ax,) = titled(figure, "energy")
    x, y = ax.transData.transform(ax.lines[0].get_xydata()).T
    letters = [text for text in ax.texts if len(text.get_text()) == 1]
    assert len(letters) == 4
    for letter in letters:
        box = letter.get_window_extent()
        across = np.linspace(box.x0, box.x1, 20)
        inside = (across >= x[0]) & (across <= x[-1])
        on_curve = np.interp(across, x, y)
        assert not (inside & (on_curve > box.y0) & (on_curve < box.y1)).any(), letter.get_text()


@pytest.mark.parametrize(
    ("dynamics", "title"),
    [
        (mf.Kuramoto(-2.0, noise=0.5), "Kuramoto, K = -2, τ = 0.5"),
        (mf.CircleInteraction([1.0, 0.5], coupling=3.0), "CircleInteraction, K = 3"),
        (mf.SA(4.0, sign=-1), "SA, β = 4, repulsive"),
    ],
)
def test_titles_name_what_tells_a_dynamics(dynamics, title):
    sol = run([SERIES["circle"](1.0)])
    sol.dynamics = dynamics
    sol.dataset["order_parameter"] = "t", [0.5]
    assert mf.plot.solution(sol).get_suptitle() == f"{title}: finished at t = 0"


def test_a_figure_without_panels_is_refused():
    with pytest.raises(ValueError, match="panels must be an integer >= 1 and <= 12, got 0"):
        mf.plot.solution(run([SERIES["circle"](1.0)]), panels=0)


def test_a_link_with_a_foreseeable_name_is_not_written_through(tmp_path):
    target = tmp_path / "target.txt"
    target.write_text("precious")
    for name in ".run.png.writing", "run.png":
        (tmp_path / name).symlink_to(target)
    mf.plot.save(Figure(), tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "run.png").is_symlink()
    assert target.read_text() == "precious"


def test_what_is_saved_is_the_whole_figure_under_any_suffix(folder):
    ax = run([SERIES["circle"](1.0), SERIES["circle"](2.0)]).plot("energy")
    # a suffix may be in capitals
    mf.plot.save(ax, "energy.SVG")
    written = (folder / "energy.SVG").read_text()
    assert written.startswith("<?xml")
    assert len(written) > 1000
    ax.remove()
    for figure, path, message in [
        (ax, "none.png", "figure must be a matplotlib Figure or Axes, got"),
        (Figure(), "run.bmp", "path must end in .png, .pdf, .svg, got 'run.bmp'"),
        (Figure(), "run", "got 'run'"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            mf.plot.save(figure, path)
    with pytest.raises(OSError, match="No such file or directory"):
        mf.plot.save(Figure(), folder / "no" / "run.png")
    assert names(folder) == ["energy.SVG"]
