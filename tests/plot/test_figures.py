"""All figures: axes say what is on them and end where their values do, theory is drawn smooth."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.plot import __all__ as public
from tests.handmade import SERIES, run

# its studies are run once
pytestmark = pytest.mark.slow
LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
AXIS = mf.VonMisesFisher([0.0, 0.0, 0.0, 1.0], 2.0)
TOKENS = mf.Particles.sample(AXIS, 40, rng=0)


def flow_run():
    monitors = {"w1": mf.DistanceTo("uniform")}
    return mf.evolve(mf.FlowMap(LAW, tol=1e-4), mf.SA(4.0), 1.0, 4, monitors=monitors)


def density_run():
    return mf.evolve(mf.Density(mf.Circle(64), LAW), mf.SA(2.0), 1.0, 4)


def total(beta, omega):
    """A number of any sign over one that is not negative."""
    return beta + omega


def swept(**grid):
    return mf.sweep(total, grid)


def phases(dynamics):
    return mf.studies.phase_diagram(dynamics, 3, 4, 6.0, repeats=2, save_at=3)


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
    ],
    "comparison": lambda: mf.plot.comparison(mf.compare(density_run(), flow_run())),
    "sweep": lambda: [
        mf.plot.sweep(swept(beta=[0.0, 1.0, 2.0], omega=[1.0])),
        mf.plot.sweep(swept(beta=[0.0, 1.0, 2.0], omega=[-1.0, 0.0, 1.0])),
    ],
    "inner_products": lambda: mf.plot.inner_products(
        {"a": [TOKENS, TOKENS], "b": [TOKENS, TOKENS]}
    ),
    "mean_field_limit": lambda: mf.plot.mean_field_limit(
        mf.studies.mean_field_limit(LAW, mf.USA(0.5), 0.1, [4, 8], repeats=4, save_at=2)
    ),
    "phase_diagram": lambda: [
        mf.plot.phase_diagram([phases([mf.SA(0.0), mf.SA(2.0), mf.SA(4.0)])] * 4),
        mf.plot.phase_diagram(phases([mf.USA(0.0), mf.USA(1.0)])),
    ],
    "metastability": lambda: mf.plot.metastability(
        mf.studies.metastability(mf.SA(5.0), t_end=20.0, save_at=20)
    ),
    "stationary_states": lambda: mf.plot.stationary_states(
        mf.studies.stationary_states([mf.USA(1.0)], 2)
    ),
    "proposition_3_4": lambda: mf.plot.proposition_3_4(
        mf.studies.proposition_3_4(1.0, 3, n_measures=20, repeats=1)
    ),
    "two_token_correlation": lambda: mf.plot.two_token_correlation(
        mf.studies.two_token_correlation(1.0, 4, 2.0, repeats=64, save_at=4, rng=0)
    ),
    "energy_extremisers": lambda: mf.plot.energy_extremisers(
        mf.studies.energy_extremisers([np.diag([1.0, 2.0])], 1.0)
    ),
    "limits_without_normalisation": lambda: mf.plot.limits_without_normalisation(
        mf.studies.limits_without_normalisation(n=8, t_end=2.0)
    ),
    "animation": lambda: animated(density_run()),
}
# what writes a file, and a movie is an animation
WRITERS = {"save", "movie"}
# lines of theory with their labels, which are no straight ones
THEORY = {"t*(β), (6.12)", "linear stage"}


def animated(sol):
    moving = sol.animate()
    moving._draw_was_started = True
    return moving._fig


def panels(drawn):
    """All axes that are seen."""
    several = drawn if isinstance(drawn, list) else [drawn]
    axes = [ax for one in several for ax in one.get_figure(root=True).axes]
    return [ax for ax in axes if ax.axison and ax.get_visible()]


@pytest.fixture(scope="module", params=FIGURES)
def axes(request):
    return panels(FIGURES[request.param]())


def test_every_figure_is_here():
    assert {*FIGURES, *WRITERS} == set(public)


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
    return next((getattr(one, get)() for one in others if getattr(one, get)()), "")


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
