"""Curves over the time of a run are its numbers, between bounds and on scales that show them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

import meanfield as mf
from meanfield.plot import curves
from tests.handmade import SERIES, bump, curve, run, texts
from tests.plot.drawn import animated, flow, held, mixed_run, titled
from tests.small_studies import density_run
from tests.tiers import rows

KAPPAS = 0.5, 2.0, 5.0, 30.0
# the energy of a Dirac at β = 4, e^4/8
DIRAC = 6.824768754143027


def dashed(ax):
    """How high the dashed lines are."""
    return [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"]


def test_curves_are_the_dataset():
    sol = run([SERIES["zonal"](kappa) for kappa in KAPPAS], mf.USA(2.0))
    for draw, name in (
        (mf.plot.energy, "energy"),
        (mf.plot.dissipation, "dissipation"),
        (mf.plot.resolution, "tail"),
    ):
        t, values = curve(draw(sol)).get_data()
        assert np.array_equal(t, sol.t)
        assert np.array_equal(values, sol.dataset[name])


def test_runs_draw_on_the_axes_that_are_given():
    sol = run([SERIES["circle"](kappa) for kappa in (0.5, 2.0)])
    sol.dataset["w1"] = "t", [1.0, 2.0]
    for name in ("energy", "dissipation", "resolution", "distances", "size"):
        ax = Figure().add_subplot()
        assert sol.plot(name, ax) is ax
        assert ax.lines
    assert sol.plot().get_title(loc="left").startswith("energy, ")
    own = sol.plot("size").lines[0].get_xydata()
    assert np.array_equal(own, np.column_stack([sol.t, [128, 128]]))


@pytest.mark.parametrize("beta", [0.0, 1e-6, 4.0, 600.0, 5000.0])
@pytest.mark.parametrize("kind", rows(["circle", "tokens d=10"], "circle"))
def test_bounds_of_the_energy(beta, kind):
    sol = run([SERIES[kind](kappa) for kappa in (0.1, 30.0)], mf.SA(beta))
    ax = mf.plot.energy(sol)
    dim = sol.final.dim
    if beta < 700:
        expected = mf.theory.energy_uniform(beta, dim), mf.theory.energy_dirac(beta)
    else:
        log_uniform = mf.kernels.multipliers.log_eigenvalues(beta, dim, 0)[0] - beta
        expected = np.exp(log_uniform), 1.0
    assert dashed(ax) == pytest.approx(expected, rel=1e-12)
    name, symbol = ("energy", "E$_{β}$") if beta < 700 else ("energy_share", "share")
    values = sol.dataset[name].values
    assert expected[0] * (1 - 1e-12) <= values.min() < values.max() <= expected[1] * (1 + 1e-12)
    low, high = (f"{level:.4g}" for level in expected)
    words = name.replace("_", " ")
    assert ax.get_title(loc="left") == f"{words}, {low} ≤ {symbol} ≤ {high}"


@pytest.mark.parametrize("kappas", [(0.5, 1.0), (0.5, 50.0), (1.0, 1.0), (3.0, 3.1)])
def test_the_energy_fills_its_panel(kappas):
    sol = run([SERIES["zonal"](kappa) for kappa in kappas])
    bottom, top = mf.plot.energy(sol).get_ylim()
    values, ends = sol.dataset.energy.values, (mf.theory.energy_uniform(4.0, 10), DIRAC)
    if kappas[0] == kappas[1]:
        assert bottom < ends[0] < ends[1] < top
        return
    moved = np.ptp(values)
    assert moved > 0.45 * (top - bottom)
    for end, nearest in zip(ends, (values.min(), values.max()), strict=True):
        assert (bottom < end < top) == (abs(end - nearest) <= 0.3 * moved)


def test_resolution_names_tolerance_and_sizes():
    pairs = zip([128, 128, 256, 256], (2.0, 4.0, 8.0, 16.0), strict=True)
    sol = run([mf.Density(mf.Circle(n), bump(2, kappa)) for n, kappa in pairs])
    ax = mf.plot.resolution(sol)
    assert dashed(ax) == [1e-8]
    assert texts(ax) == ["tolerance", "n = 128", "256"]


@pytest.mark.parametrize("dim", [2, 10])
def test_nodes_are_those_of_the_flow_maps(dim):
    sol = mixed_run(dim)
    ax = mf.plot.nodes(sol)
    counts = [len(measure.angles) for measure in sol.measures[2:]]
    assert list(curve(ax).get_ydata()[2:]) == counts
    assert np.isnan(curve(ax).get_ydata()[:2]).all()
    series = [measure.space.size for measure in sol.measures[:2]]
    assert list(curve(ax, "0.45").get_ydata()) == series
    _, right = ax.figure.axes
    assert right.lines[0].get_ydata() == pytest.approx([0.0, 70.0 / (dim - 1) / np.log(10)])
    ax = Figure().add_subplot()
    assert mf.plot.nodes(sol, ax) is ax


def test_numbers_that_a_time_does_not_have():
    _, rates = curve(mf.plot.dissipation(mixed_run(2))).get_data()
    assert np.array_equal(np.isnan(rates), [False, False, True, False])
    sol = run([flow(), flow(), held()])
    sol.dataset["energy"][1] = np.nan
    assert np.isfinite(mf.plot.energy(sol).get_ylim()).all()
    mf.plot.solution(sol).draw_without_rendering()


def with_distances(kind="circle", **columns):
    """A run of four saves with these numbers over its time."""
    sol = run([SERIES[kind](kappa) for kappa in KAPPAS])
    for name, values in columns.items():
        sol.dataset[name] = "t", np.array(values)
    return sol


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
    (ax,) = titled(mf.plot.solution(sol), "distance")
    assert ax.get_title(loc="left") == "distances"
    assert [line.get_label() for line in ax.lines] == ["w1", "w2_centre"]
    assert np.array_equal(ax.lines[0].get_ydata(), sol.dataset.w1)
    assert np.array_equal(ax.lines[1].get_xdata(), sol.t[[0, 2]])
    assert np.array_equal(ax.lines[1].get_ydata(), [1.5, 0.5])
    (band,) = ax.collections
    reach = band.get_paths()[0].vertices[:, 1]
    assert (reach.min(), reach.max()) == (0.1, 1.1)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["w1", "w2_centre"]


@pytest.mark.parametrize(
    ("values", "scale"),
    [([1.0, 1e-1, 1e-2, 1e-3], "log"), ([0.0, 1.0, 1.0, 2.0], "linear"), (4 * [np.nan], "linear")],
)
def test_the_scale_of_distances(values, scale):
    assert mf.plot.distances(with_distances(w1=values)).get_yscale() == scale


def test_distances_say_what_they_are_to():
    monitors = {"w": mf.DistanceTo("uniform"), "w_c": mf.DistanceTo("centre", p=1.5)}
    monitors |= {"w_law": mf.DistanceTo(mf.Uniform(2))}
    sol = with_distances(w=4 * [1.0], w_c=4 * [2.0], w_law=4 * [3.0])

    def label(name, monitor):
        sol.dataset[name].attrs |= {"long_name": monitor.long_name, "units": monitor.units}

    for name, monitor in monitors.items():
        label(name, monitor)
    ax = mf.plot.distances(sol)
    assert ax.get_title(loc="left") == "distances in radians"
    labels = [line.get_label() for line in ax.lines]
    assert labels == ["$W_{1}$ to σ", "$W_{1.5}$ to δ(mean)", "w_law"]
    sol.dataset["w_m"] = "t", np.ones(4)
    label("w_m", mf.DistanceTo("start", "mmd", beta=2.0))
    ax = mf.plot.distances(sol)
    assert ax.get_title(loc="left") == "distances"
    assert ax.lines[-1].get_label() == "w_m"


def test_a_density_under_attention_with_a_form():
    """Its own energy, between bounds of |<x, Dy>| <= |D|, and beside it the dissipation."""
    heads = [mf.Head(Q=np.diag([1.0, -0.5]), V=np.diag([1.0, -0.5]))]
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    sol = mf.evolve(mu, mf.Attention(1.0, heads), 0.1, save_at=3)
    figure = mf.plot.solution(sol)
    (ax,) = titled(figure, "dissipation |dE$_{D}$/dt|")
    rates = curve(ax).get_ydata()
    assert np.array_equal(rates, sol.dataset.dissipation)
    assert rates == pytest.approx([mf.dissipation(m, sol.dynamics) for m in sol.measures])
    # up to e^{β|D|}/(2β), from e^{-β|D|}/(2β)
    (ax,) = titled(figure, "energy, 0.1839 ≤ E$_{D}$ ≤ 1.359")
    assert np.array_equal(curve(ax).get_ydata(), sol.dataset.energy)


def test_a_run_without_an_energy_has_no_panel_of_it():
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    turned = mf.Attention(1.0, [mf.Head(V=[[0.0, -1.0], [1.0, 0.0]])])
    sol = mf.evolve(mu, turned, 0.1, save_at=3)
    figure = mf.plot.solution(sol)
    assert titled(figure, "rms velocity")
    assert not titled(figure, "energy")
    reason = "only attention of one head .* has one; follow one with energy=, in a case run.energy"
    with pytest.raises(ValueError, match=f"sol must be of a dynamics with an energy, .*{reason}"):
        mf.plot.energy(sol)


def test_an_energy_that_is_followed_is_shown_with_its_own_beta():
    """Beside the β of the dynamics its symbol E_β alone would be taken for that."""
    mu = mf.Density(mf.Circle(32), mf.VonMisesFisher([0.0, 1.0], 2.0))
    sol = mf.evolve(mu, mf.SA(4.0), 0.2, energy=2.0)
    assert mf.plot.energy(sol).get_title(loc="left").startswith("energy of β = 2, ")
    assert mf.plot.dissipation(sol).get_title(loc="left") == "dissipation |dE$_{β}$/dt| of β = 2"
    assert curves.title(sol, "energy") == "energy E_β of β = 2"
    own = mf.evolve(mu, mf.SA(4.0), 0.2)
    assert "of β" not in mf.plot.energy(own).get_title(loc="left")
    sol = mf.evolve(mu, mf.SA(4.0), 0.2, energy=mf.Kuramoto(1.0))
    assert "of β" not in mf.plot.energy(sol).get_title(loc="left")


def test_a_sum_that_is_no_gradient_flow_shows_its_fall_and_its_terms():
    """Its energy falls and then rises: no part of the curve is cut off, and none is called |.|."""
    hill = mf.FeedForward.from_potential([-2.0], [[0.0, 1.0]], activation="tanh")
    mu = mf.Density(mf.Circle(64), mf.VonMisesFisher([0.0, 1.0], 3.0))
    sol = mf.evolve(mu, mf.SA(2.0) + hill, 1.0, save_at=4)
    rates = sol.dataset.dissipation.values
    assert rates.min() < 0.0 < rates.max()
    ax = mf.plot.dissipation(sol)
    assert ax.get_title(loc="left") == "dissipation ±dE/dt"
    low, high = ax.get_ylim()
    assert low < rates.min() < rates.max() < high
    names = [f"0: {mf.SA(2.0)}", f"1: {hill}"]
    ax = mf.plot.energy(sol)
    heights = np.array([line.get_ydata() for line in ax.lines])
    data = sol.dataset
    assert np.array_equal(heights[0], data.energy - data.energy[0])
    assert np.array_equal(heights[1:].T, data.term_energy - data.term_energy[0])
    assert ax.get_title(loc="left") == f"energy E(t) - E(0), E(0) = {data.energy[0]:.4g}"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["E, the sum", *names]
    # the legend and nothing else lies below all curves
    ax.figure.canvas.draw()
    top = ax.get_legend().get_window_extent().transformed(ax.transData.inverted()).y1
    assert top < heights.min()
    assert ax.get_yticks().min() > top
    ax = sol.plot("term_energy")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == names
    drawn = np.array([line.get_ydata() for line in ax.lines])
    assert np.array_equal(drawn.T, sol.dataset.term_energy)


def test_terms_are_those_of_the_energy_that_is_followed():
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    asked = mf.SA(1.0) + mf.USA(3.0)
    ax = mf.plot.energy(mf.evolve(mu, mf.SA(2.0), 0.1, 1, energy=asked))
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["E, the sum", f"0: {mf.SA(1.0)}", f"1: {mf.USA(3.0)}"]
    # of seven terms there is the whole alone
    many = mf.Sum([mf.SA(float(beta)) for beta in range(1, 8)])
    ax = mf.plot.energy(mf.evolve(mu, mf.SA(2.0), 0.1, 1, energy=many))
    assert ax.get_legend() is None
    assert len([line for line in ax.lines if line.get_linestyle() == "-"]) == 1


def test_numbers_that_a_run_does_not_have_are_refused():
    sol, tokens = with_distances(w1=4 * [1.0]), run([SERIES["tokens d=2"](1.0)])
    names = ["dissipation", "distances", "energy", "energy_share", "resolution", "size"]
    for call, message in [
        (lambda: mf.plot.nodes(sol), "sol must hold flow maps, got Solution(finished"),
        (lambda: mf.plot.distances(with_distances()), "sol must have monitors named w"),
        (lambda: mf.plot.resolution(tokens), "sol must hold densities and their tail"),
        (lambda: sol.plot("mass"), f"name must be one of {[*names, 'tail', 'w1']}, got 'mass'"),
        (lambda: sol.plot("t"), "got 't'"),
        (lambda: sol.plot(3), "got 3"),
        (lambda: sol.plot("nodes"), "sol must hold flow maps"),
        (lambda: sol.plot("beta"), "sol must be of a dynamics whose β varies in time"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            call()


def test_time_is_logarithmic_where_saves_span_decades():
    """The first save, at 0, is marked at the left end; saves at equal steps keep a linear axis."""
    t = np.append(0.0, np.geomspace(0.01, 100.0, 7))
    sol = replace(run([SERIES["circle"](kappa) for kappa in np.linspace(0.5, 4.0, 8)]), t=t)
    ax = mf.plot.energy(sol)
    assert ax.get_xscale() == "log"
    assert ax.get_xlim() == pytest.approx((0.01, 100.0))
    assert mf.plot.energy(density_run()).get_xscale() == "linear"
    (energy,) = titled(mf.plot.solution(sol, panels=2), "energy")
    assert energy.lines[-1].get_xdata()[0] == pytest.approx(0.01)
    moving = animated(sol)
    moving._func(0)
    (mark,) = (line.get_xdata() for line in moving._fig.axes[1].lines if line.get_marker() == "o")
    assert mark == pytest.approx([0.01])


TURN = mf.FeedForward(W=np.eye(2)[::-1], A=np.eye(2))


@pytest.mark.parametrize("kind", ["circle", "tokens d=2"])
def test_a_run_without_an_energy_draws_the_first_curve_of_its_figure(kind):
    sol = mf.evolve(SERIES[kind](2.0), TURN, 0.1, 3)
    drawn, panel = sol.plot(), titled(mf.plot.solution(sol), "rms velocity")[0]
    assert drawn.get_title(loc="left") == "rms velocity"
    assert np.array_equal(curve(drawn).get_xydata(), curve(panel).get_xydata())
    with pytest.raises(ValueError, match=r"energy, got FeedForward\(.*follow one with energy="):
        sol.plot("energy")
    # what is offered can be drawn
    with pytest.raises(ValueError, match="name must be one of") as refusal:
        sol.plot("")
    offered = re.findall("'([^']+)'", str(refusal.value).partition("]")[0])
    assert "rms_velocity" in offered
    for name in offered:
        assert sol.plot(name).lines


BETA = mf.Schedule([0.0, 0.5, 1.0], [1.0, 4.0, 2.0])


@pytest.mark.parametrize(
    ("dynamics", "energy", "names"),
    [
        (mf.SA(BETA), None, ("energy E$_{β}$", "dissipation")),
        (mf.SA(1.0), mf.SA(BETA), ("energy E$_{β}$ of β(t)", "dissipation")),
        (mf.SA(1.0), mf.SA(lambda t: 1.0 + t), ("energy E$_{β}$ of β(t)", "dissipation")),
        (mf.SA(BETA), 2.0, (None, "dissipation |dE$_{β}$/dt| of β = 2")),
    ],
    ids=["own", "followed", "function", "constant"],
)
def test_an_energy_in_time_has_its_titles(dynamics, energy, names):
    """Where it varies itself, dE/dt has a part that X does not make."""
    start = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    sol = mf.evolve(start, dynamics, 1.0, 4, energy=energy)
    shown = [ax.get_title(loc="left") for ax in mf.plot.solution(sol).axes]
    assert {*names} - {None} <= {*shown}


def test_a_file_that_keeps_no_function_has_no_rate_in_its_titles(tmp_path):
    """It may have varied, and then what X does is not all of dE/dt."""
    start = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    mf.evolve(start, mf.SA(lambda t: 1.0 + t), 1.0, 4).save(tmp_path / "run.nc")
    read = mf.plot.solution(mf.load(tmp_path / "run.nc"))
    assert "dissipation" in [ax.get_title(loc="left") for ax in read.axes]


@pytest.mark.parametrize("beta", [BETA, lambda t: 1.0 + t * t], ids=["schedule", "function"])
def test_a_beta_in_time_has_its_panel(beta):
    start = mf.Particles.from_angles([0.0, 1.0])
    sol = mf.evolve(start, mf.SA(beta, mask=mf.Causal()), 1.0, 2)
    (panel,) = titled(mf.plot.solution(sol), "β(t)")
    assert panel.get_legend() is None
    t, values = curve(panel).get_data()
    assert len(t) > 100
    # the series of a function is right to 1e-13 of its size
    assert values == pytest.approx([beta(time) for time in t], rel=1e-12)
    assert not titled(mf.plot.solution(density_run()), "β(t)")


def test_each_beta_in_time_has_a_line():
    """An energy with the β of a term adds none."""
    start, other = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5])), lambda t: 2.0 - t
    for energy, further in (mf.SA(BETA), []), (mf.SA(other), ["2: energy of SA"]):
        sol = mf.evolve(start, mf.SA(BETA) + mf.USA(other), 0.1, 1, energy=energy)
        labels = [text.get_text() for text in sol.plot("beta").get_legend().get_texts()]
        assert labels == ["0: SA", "1: USA", *further]
