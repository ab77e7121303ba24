"""Pictures of metastability: curves, clusters and plateaus stand where they are."""

import re

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from tests.handmade import curve, texts
from tests.plot.drawn import PathCollection, points

ORANGE = "#d55e00"


def study(**changes):
    """Two runs with three clusters, then two, then one; the second without any end."""
    t = np.geomspace(0.1, 1e3, 50)
    counts = np.where(t < 1, 0, np.where(t < 10, 3, np.where(t < 100, 2, 1)))
    cluster = np.arange(3)
    there = cluster < counts[:, None]
    mass = np.where(there, 1.0 / np.maximum(counts, 1)[:, None], np.nan)
    angle = np.where(there, 1.0 + 2.0 * cluster, np.nan)
    nan = np.nan
    by_run = {
        "growth_rate_predicted": [0.5, 0.7],
        "grown_degree": [3, 4],
        "predicted_degree": [3, 5],
        "largest_growth_rate": [0.5, 0.8],
    }
    return xr.Dataset(
        {
            "energy_share": (("run", "t"), np.stack([0.2 + 0.25 * counts, 0.1 + 0 * t])),
            "n_clusters": (("run", "t"), np.stack([counts, 0 * counts])),
            "cluster_angle": (("run", "t", "cluster"), np.stack([angle, nan * angle])),
            "cluster_mass": (("run", "t", "cluster"), np.stack([mass, nan * mass])),
            "plateau_start": (("run", "plateau"), [[1, 10, 100], 3 * [nan]]),
            "plateau_end": (("run", "plateau"), [[9, 90, 1000], 3 * [nan]]),
            "plateau_n_clusters": (("run", "plateau"), [[3, 2, 1], 3 * [nan]]),
            "merging_time": (("run", "merger"), [[10.0, 100.0], [nan, nan]]),
            **{name: ("run", values) for name, values in by_run.items()},
        },
        coords={"beta": ("run", [9.0, 16.0]), "dynamics": ("run", ["SA", "USA"]), "t": t},
    ).assign(changes)


def test_metastability_shows_plateaus_clusters_and_mergers():
    ds = study()
    figure = mf.plot.metastability(ds)
    figure.draw_without_rendering()
    upper, lower = figure.axes
    assert figure.get_suptitle() == "SA, β = 9: degree 3 grew, as predicted (γ$_{3}$ = 0.5)"
    assert upper.get_xscale() == lower.get_xscale() == "log"
    assert texts(upper) == ["3 clusters", "2 clusters", "1 cluster"]
    assert [patch.get_x() for patch in upper.patches] == [1, 10, 100]
    assert [line.get_xdata()[0] for line in lower.lines] == [10, 100]
    assert np.array_equal(curve(upper).get_ydata(), ds.energy_share[0])
    assert len(points(lower)) == ds.n_clusters[0].sum()
    assert set(np.round(points(lower)[:, 1], 12)) == {1.0, 3.0, 5.0}
    sizes = np.asarray(lower.findobj(PathCollection)[0].get_sizes())
    # a third of the mass in each of three; 0.8 is the area of a dot without mass
    assert sizes.max() - 0.8 == pytest.approx(3.0 * (sizes.min() - 0.8))


def test_metastability_of_a_run_without_clusters():
    figure = mf.plot.metastability(study(status=("run", ["finished", "failed"])), 1)
    figure.draw_without_rendering()
    degrees = "degree 4 grew (γ$_{4}$ = 0.7), degree 5 predicted (γ$_{5}$ = 0.8)"
    assert figure.get_suptitle() == f"USA, β = 16, failed: {degrees}"
    assert figure._suptitle.get_color() == ORANGE
    assert texts(figure.axes[0]) == ["E(δ) ↑"]
    assert len(figure.axes[1].lines) == 0


def test_metastability_where_nothing_grew():
    rates = {"grown_degree": ("run", [0, 4]), "growth_rate_predicted": ("run", [0.0, 0.7])}
    title = mf.plot.metastability(study(**rates)).get_suptitle()
    assert title == "SA, β = 9: no degree grew, degree 3 predicted (γ$_{3}$ = 0.5)"


def test_metastability_is_drawn_over_the_time_of_its_run():
    times = np.stack([study().t, 7.0 * study().t])
    ax = mf.plot.metastability(study(time=(("run", "t"), times)), run=1).axes[0]
    assert ax.get_xlim() == pytest.approx((0.7, 7e3))


@pytest.mark.parametrize(
    ("ds", "run", "message"),
    [
        (study().drop_vars("merging_time"), 0, "with ['merging_time'], got <xarray"),
        (study(), 2, "run must be an integer >= 0 and <= 1, got 2"),
        (study().assign_coords(t=-study().t), 0, "ds must have times t > 0 in run 0, got ["),
    ],
)
def test_datasets_of_other_things_are_refused(ds, run, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        mf.plot.metastability(ds, run)
