"""Pictures of runs: panels, marks, curves and bounds are those of the run, and legible."""

import re

import numpy as np
import pytest
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

import meanfield as mf
from tests.handmade import DENSITIES, PROJECTIONS, SERIES, bump, curve, run, texts

KAPPAS = 0.5, 2.0, 5.0, 30.0


@pytest.fixture(scope="module", params=SERIES)
def drawn(request):
    sol = run([SERIES[request.param](kappa) for kappa in KAPPAS])
    figure = mf.plot.solution(sol, panels=3)
    figure.canvas.draw()
    return request.param, sol, figure


def panels(figure):
    return [ax for ax in figure.axes if re.match(r"\([a-l]\)", ax.get_title())]


@pytest.mark.slow
def test_panels_at_saved_times_from_first_to_last(drawn):
    kind, sol, figure = drawn
    axes = panels(figure)
    times = [float(ax.get_title().split("=")[1]) for ax in axes]
    assert [ax.name for ax in axes] == 3 * [PROJECTIONS[kind]]
    assert times[0] == sol.t[0]
    assert times[-1] == sol.t[-1]
    assert times[1] in sol.t[1:-1]
    bars = kind == "sphere"
    assert len(figure.axes) == 3 + bars + (3 if kind in DENSITIES else 2)


@pytest.mark.slow
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
            assert overlap < 2.0, (name, other)


@pytest.mark.slow
def test_every_text_lies_on_the_figure(drawn):
    _, _, figure = drawn
    width, height = figure.canvas.get_width_height()
    for ax in figure.axes:
        for text in (*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label):
            if text.get_visible() and text.get_text():
                box = text.get_window_extent()
                assert -1 < box.x0 < box.x1 < width + 1
                assert -1 < box.y0 < box.y1 < height + 1


@pytest.mark.slow
def test_marks_on_the_energy_are_the_panels(drawn):
    _, sol, figure = drawn
    ax = next(ax for ax in figure.axes if ax.get_title(loc="left").startswith("energy"))
    marks = curve(ax, "#d55e00")
    assert [f"{t:.4g}" for t in marks.get_xdata()] == [
        ax.get_title().split("= ")[1] for ax in panels(figure)
    ]
    assert set(marks.get_ydata()) <= set(sol.dataset.energy.values)
    assert {"a", "b", "c"} <= set(texts(ax))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("energies", "times", "expected"),
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
def test_times_are_at_equal_steps_of_energy(energies, times, expected):
    sol = run(7 * [SERIES["circle"](1.0)])
    sol.dataset["energy"][:] = np.array(energies, float)
    shown = [
        float(ax.get_title().split("=")[1]) for ax in panels(mf.plot.solution(sol, panels=times))
    ]
    assert shown == list(sol.t[expected])


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERIES)
def test_a_run_that_saved_once(kind):
    figure = mf.plot.solution(run([SERIES[kind](2.0)], status="under-resolved"))
    figure.canvas.draw()
    assert len(panels(figure)) == 1
    assert figure.get_suptitle() == "SA, β = 4: under-resolved at t = 0"


@pytest.mark.slow
def test_one_scale_for_all_panels():
    figure = mf.plot.solution(run([SERIES["sphere"](kappa) for kappa in KAPPAS]))
    norms = {image.norm for ax in panels(figure) for image in ax.findobj(AxesImage)}
    assert len(norms) == 1
    assert isinstance(next(iter(norms)), LogNorm)
    highest = max(SERIES["sphere"](kappa).values.max() for kappa in KAPPAS)
    assert next(iter(norms)).vmax == highest > 20
    bar = next(ax for ax in figure.axes if ax.get_ylabel() == "density f")
    assert bar.get_ylim() == pytest.approx((0.1, highest))


def test_curves_are_the_dataset():
    sol = run([SERIES["zonal"](kappa) for kappa in KAPPAS], mf.USA(2.0))
    for draw, name in (
        (mf.plot.energy, "energy"),
        (mf.plot.dissipation, "dissipation"),
        (mf.plot.resolution, "tail"),
    ):
        x, y = curve(draw(sol)).get_data()
        assert np.array_equal(x, sol.t)
        assert np.array_equal(y, sol.dataset[name])


@pytest.mark.parametrize("beta", [0.0, 1e-6, 4.0, 600.0, 5000.0])
@pytest.mark.parametrize("kind", ["circle", "tokens d=10"])
def test_bounds_of_the_energy(beta, kind):
    sol = run([SERIES[kind](kappa) for kappa in (0.1, 30.0)], mf.SA(beta))
    ax = mf.plot.energy(sol)
    dim = sol.final.dim
    if beta < 700:
        expected = mf.theory.energy_uniform(beta, dim), mf.theory.energy_dirac(beta)
    else:
        log_uniform = mf.kernels.multipliers.log_eigenvalues(beta, dim, 0)[0] - beta
        expected = np.exp(log_uniform), 1.0
    lines = [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    assert lines == pytest.approx(expected, rel=1e-12)
    name, called = ("energy", "E$_{β}$") if beta < 700 else ("energy_share", "share")
    values = sol.dataset[name].values
    assert expected[0] * (1 - 1e-12) <= values.min() < values.max() <= expected[1] * (1 + 1e-12)
    low, high = (f"{level:.4g}" for level in expected)
    words = name.replace("_", " ")
    assert ax.get_title(loc="left") == f"{words}, {low} ≤ {called} ≤ {high}"


@pytest.mark.parametrize("kappas", [(0.5, 1.0), (0.5, 50.0), (1.0, 1.0), (3.0, 3.1)])
def test_the_energy_fills_its_panel(kappas):
    sol = run([SERIES["zonal"](kappa) for kappa in kappas])
    bottom, top = mf.plot.energy(sol).get_ylim()
    values, ends = sol.dataset.energy.values, (mf.theory.energy_uniform(4.0, 10), 6.824768754143027)
    if kappas[0] == kappas[1]:
        assert bottom < ends[0] < ends[1] < top
        return
    moved = np.ptp(values)
    assert moved > 0.45 * (top - bottom)
    for end, nearest in zip(ends, (values.min(), values.max()), strict=True):
        assert (bottom < end < top) == (abs(end - nearest) <= 0.3 * moved)


@pytest.mark.slow
@pytest.mark.parametrize("values", [(1, 2, 4, 5), (5, 4, 2, 1), (1, 5, 5, 1)])
def test_no_letter_lies_on_the_curve(values):
    sol = run([SERIES["zonal"](kappa) for kappa in KAPPAS])
    sol.dataset["energy"][:] = np.array(values, float)
    figure = mf.plot.solution(sol)
    figure.canvas.draw()
    (ax,) = (ax for ax in figure.axes if ax.get_title(loc="left").startswith("energy"))
    x, y = ax.transData.transform(ax.lines[0].get_xydata()).T
    letters = [text for text in ax.texts if len(text.get_text()) == 1]
    assert len(letters) == 4
    for letter in letters:
        box = letter.get_window_extent()
        across = np.linspace(box.x0, box.x1, 20)
        inside = (across >= x[0]) & (across <= x[-1])
        on_curve = np.interp(across, x, y)
        assert not (inside & (on_curve > box.y0) & (on_curve < box.y1)).any(), letter.get_text()


def test_resolution_names_tolerance_and_sizes():
    space = mf.Circle(128), mf.Circle(128), mf.Circle(256), mf.Circle(256)
    pairs = zip(space, (2.0, 4.0, 8.0, 16.0), strict=True)
    ax = mf.plot.resolution(run([mf.Density(s, bump(2, kappa)) for s, kappa in pairs]))
    dashed = [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    assert dashed == [1e-8]
    assert texts(ax) == ["tolerance", "n = 128", "256"]


def with_distances(kind="circle", **columns):
    sol = run([SERIES[kind](kappa) for kappa in KAPPAS])
    for name, values in columns.items():
        sol.dataset[name] = "t", np.array(values)
    return sol


def distance_panels(figure):
    return [ax for ax in figure.axes if ax.get_title(loc="left").startswith("distance")]


@pytest.mark.slow
def test_monitored_distances_have_a_panel():
    nan = np.nan
    sol = with_distances(
        w1=[1.0, 0.5, 0.2, 0.1],
        w2_centre=[1.5, nan, 0.5, nan],
        w1_lower=[0.9, 0.4, 0.1, nan],
        w1_upper=[1.1, 0.6, 0.3, nan],
        work=[0.0, 1.0, 2.0, 3.0],
        width=[9.0, 9.0, 9.0, 9.0],
    )
    (ax,) = distance_panels(mf.plot.solution(sol))
    assert ax.get_title(loc="left") == "distances"
    assert [line.get_label() for line in ax.lines] == ["w1", "w2_centre"]
    assert np.array_equal(ax.lines[0].get_ydata(), sol.dataset.w1)
    assert np.array_equal(ax.lines[1].get_xdata(), sol.t[[0, 2]])
    assert np.array_equal(ax.lines[1].get_ydata(), [1.5, 0.5])
    (band,) = ax.collections
    reach = band.get_paths()[0].vertices[:, 1]
    assert (reach.min(), reach.max()) == (0.1, 1.1)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["w1", "w2_centre"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERIES)
def test_a_run_without_monitored_distances_has_no_such_panel(kind):
    assert distance_panels(mf.plot.solution(with_distances(kind, work=4 * [0.0]))) == []
    assert len(distance_panels(mf.plot.solution(with_distances(kind, w=4 * [1.0])))) == 1


@pytest.mark.parametrize(
    ("values", "scale"),
    [([1.0, 1e-1, 1e-2, 1e-3], "log"), ([0.0, 1.0, 1.0, 2.0], "linear"), (4 * [np.nan], "linear")],
)
def test_the_scale_of_distances(values, scale):
    assert mf.plot.distances(with_distances(w1=values)).get_yscale() == scale


def test_distances_say_what_they_are_to():
    told = {"w": mf.DistanceTo("uniform"), "wc": mf.DistanceTo("centre", p=1.5)}
    told |= {"w_law": mf.DistanceTo(mf.Uniform(2)), "w_m": mf.DistanceTo("start", "mmd", beta=2.0)}
    sol = with_distances(w=4 * [1.0], w_c=4 * [2.0], w_law=4 * [3.0])
    for name, monitor in zip(["w", "w_c", "w_law", "w_m"], told.values(), strict=True):
        if name in sol.dataset:
            sol.dataset[name].attrs |= {"long_name": monitor.long_name, "units": monitor.units}
    ax = mf.plot.distances(sol)
    assert ax.get_title(loc="left") == "distances in radians"
    labels = [line.get_label() for line in ax.lines]
    assert labels == ["$W_{1}$ to σ", "$W_{1.5}$ to δ(mean)", "w_law"]
    sol.dataset["w_m"] = "t", np.ones(4), {"long_name": told["w_m"].long_name, "units": "1"}
    ax = mf.plot.distances(sol)
    assert ax.get_title(loc="left") == "distances"
    assert ax.lines[-1].get_label() == "w_m"
    with pytest.raises(ValueError, match="sol must have monitors named w"):
        mf.plot.distances(with_distances())


@pytest.mark.slow
def test_a_density_under_attention_with_a_form():
    """Its own energy, between bounds of |<x, Dy>| <= |D|, and beside it the dissipation."""
    heads = [mf.Head(Q=np.diag([1.0, -0.5]), V=np.diag([1.0, -0.5]))]
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    sol = mf.evolve(mu, mf.Attention(1.0, heads), 0.1, save_at=3)
    drawn = {ax.get_title(loc="left"): ax for ax in mf.plot.solution(sol).axes}
    rates = curve(drawn["dissipation |dE$_{D}$/dt|"]).get_ydata()
    assert np.array_equal(rates, sol.dataset.dissipation)
    assert rates == pytest.approx([mf.dissipation(m, sol.dynamics) for m in sol.measures])
    # up to e^{β|D|}/(2β), from e^{-β|D|}/(2β)
    energies = drawn["energy, 0.1839 ≤ E$_{D}$ ≤ 1.359"]
    assert np.array_equal(curve(energies).get_ydata(), sol.dataset.energy)


@pytest.mark.slow
def test_a_run_without_an_energy_has_no_panel_of_it():
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    turned = mf.Attention(1.0, [mf.Head(V=[[0.0, -1.0], [1.0, 0.0]])])
    sol = mf.evolve(mu, turned, 0.1, save_at=3)
    titles = [ax.get_title(loc="left") for ax in mf.plot.solution(sol).axes]
    assert "rms velocity" in titles
    assert not [title for title in titles if "energy" in title]
    with pytest.raises(ValueError, match="sol must be of a dynamics with an energy"):
        mf.plot.energy(sol)


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


@pytest.mark.slow
def test_nodes_on_a_map_have_a_colour_bar():
    sol = run([SERIES["tokens d=3"](1.0)])
    sol.measures = [mf.FlowMap(bump(3, 2.0), tol=1e-4)]
    sol.dataset["nodes"] = "t", [len(sol.final.weights)]
    figure = mf.plot.solution(sol)
    assert [ax.get_ylabel() for ax in figure.axes].count("density f") == 1
    (dots,) = (each for each in panels(figure)[0].collections if each.get_array() is not None)
    bar = next(ax for ax in figure.axes if ax.get_ylabel() == "density f")
    assert bar.get_ylim() == pytest.approx((dots.norm.vmin, dots.norm.vmax))


def test_a_link_with_a_foreseeable_name_is_not_written_through(tmp_path):
    target = tmp_path / "target.txt"
    target.write_text("precious")
    for name in ".run.png.writing", "run.png":
        (tmp_path / name).symlink_to(target)
    mf.plot.save(Figure(), tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "run.png").is_symlink()
    assert target.read_text() == "precious"


def test_axes_are_saved_with_their_whole_figure(tmp_path):
    sol = mf.evolve(mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5])), mf.SA(1.0), 0.1, 2)
    ax = sol.plot("energy")
    mf.plot.save(ax, tmp_path / "energy.png")
    assert (tmp_path / "energy.png").stat().st_size > 1000
    ax.remove()
    with pytest.raises(ValueError, match="figure must be a matplotlib Figure or Axes, got"):
        mf.plot.save(ax, tmp_path / "none.png")
