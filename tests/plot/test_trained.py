"""Figures of the layers of a trained model: each number at its place, none without its null."""

from itertools import pairwise

import numpy as np
import pytest

import meanfield as mf
from meanfield.plot.trained import panels_of
from tests.trained.layers import drawn


@pytest.fixture(scope="module")
def ds():
    model = mf.trained.synthetic_layers(
        drawn(12, 4), 3, beta=[2.0, 5.0], step=0.2, noise=0.3, rng=0
    )
    return mf.trained.measure_layers(model, beta=[2.0, 4.0], repeats=2, rng=0)


def heights(ax):
    return [np.asarray(line.get_ydata(), dtype=float) for line in ax.lines]


def drawn_on(ax, values):
    return any(line.shape == values.shape and np.array_equal(line, values) for line in heights(ax))


def test_all_panels_are_on_the_whole(ds):
    figure = mf.plot.layers(ds)
    # the scale of β and the axis of modes are axes, too
    assert len(figure.axes) == len(panels_of(ds)) + 2
    assert "12 tokens" in figure.get_suptitle()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_all_panels_fit_one_column_of_a_paper(ds):
    figure = mf.plot.layers(ds)
    figure.set_size_inches(3.4, 20.0)
    # a figure that does not fit warns
    figure.canvas.draw()
    panels = [ax for ax in figure.axes if ax.get_subplotspec()]
    boxes = sorted({ax.get_position().bounds for ax in panels}, key=lambda box: box[1])
    assert len(boxes) == len(panels_of(ds))
    assert len({left for left, *_ in boxes}) == 1
    for (_, low, _, height), (_, above, *_) in pairwise(boxes):
        assert low + height < above
    for ax in panels:
        if legend := ax.get_legend():
            # to the pixel
            part, whole = legend.get_window_extent(), ax.get_window_extent().padded(1.0)
            assert whole.x0 <= part.x0
            assert part.x1 <= whole.x1


def test_heads_that_no_beta_describes_are_crossed(ds):
    part = ds.copy(deep=True)
    part["r2"][{"layer": 1, "head": 0, "subset": 0}] = 0.099
    ax, bar = mf.plot.layers(part, "heads").axes
    image = ax.images[0].get_array()
    expected = part["effective_beta"].sel(subset="all tokens").values
    hidden = np.zeros((3, 2), dtype=bool)
    hidden[1, 0] = True
    assert np.array_equal(np.ma.getmaskarray(image), hidden)
    assert np.array_equal(np.asarray(image)[~hidden], expected[~hidden])
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[0.0, 1.0]]]
    assert "5 of 6 heads" in ax.get_title(loc="left")
    assert "no β describes" in bar.get_ylabel()


def test_curves_and_their_nulls(ds):
    everything = ds.sel(subset="all tokens")
    at_beta = everything.sel(beta=ds.attrs["model_beta"], method="nearest")
    for name, numbers in {
        "energy": [*everything["energy_share"].T, *everything["energy_share_drift"].T],
        "clusters": [at_beta["near_pairs"], at_beta["near_pairs_drift"]],
        "means": [
            ds["mean_cosine"][:, 0],
            everything["upper_cosine"],
            everything["upper_cosine_drift"],
        ],
        "rank": [everything["effective_rank"], everything["effective_rank_drift"]],
        "moves": [everything["own_distance"], everything["optimal_distance"]],
        "fit": [everything["r2"].mean("head")],
    }.items():
        ax = mf.plot.layers(ds, name).axes[0]
        for values in numbers:
            assert drawn_on(ax, values.values), name
    fit = mf.plot.layers(ds, "fit").axes[0]
    null = everything["r2_null"].sel(head_null="another layer").mean("head").values
    assert any(line == pytest.approx(null) for line in heights(fit) if line.shape == null.shape)


def test_energies_are_seen_between_their_bounds(ds):
    ax = mf.plot.layers(ds, "energy").axes[0]
    assert ax.get_ylim()[1] == 1.0
    for least in ds["energy_share_lower"].sel(subset="all tokens").values:
        assert drawn_on(ax, np.array([least, least]))


def test_bars_are_the_parts_of_the_energy(ds):
    ax = mf.plot.layers(ds, "parts").axes[0]
    part = ds.sel(subset="all tokens").sel(beta=ds.attrs["model_beta"], method="nearest")
    bars = [bar.get_height() for bar in ax.patches]
    assert bars == part["energy_change"].transpose("half", "layer").values.ravel().tolist()
    first = part["energy_change"] - part["energy_residual"]
    for half in first.transpose("half", "layer").values:
        assert drawn_on(ax, half)


def test_histograms_are_densities(ds):
    ax = mf.plot.layers(ds, "products").axes[0]
    assert len(ax.lines) == 4
    for line in heights(ax):
        assert line.sum() * 2.0 / 80 == pytest.approx(1.0, rel=1e-14)


def test_without_sinks_is_drawn_and_named_where_there_are_any(ds):
    with_sinks = ds.assign(is_sink=~ds["is_sink"])
    plain, more = (len(mf.plot.layers(each, "rank").axes[0].lines) for each in (ds, with_sinks))
    assert more == plain + 1
    assert "dashed without sinks, dotted nulls" in mf.plot.layers(with_sinks).get_suptitle()
    assert mf.plot.layers(ds).get_suptitle().endswith("tokens; dotted nulls")


def test_without_attention_there_are_no_heads(ds):
    names = ["effective_beta", "effective_beta_error", "r2", "r2_null"]
    bare = ds.drop_vars(names)
    assert {"heads", "fit"}.isdisjoint(panels_of(bare))
    with pytest.raises(ValueError, match="name must be one of"):
        mf.plot.layers(bare, "heads")


def test_no_head_that_a_beta_describes(ds):
    none = ds.copy(deep=True)
    none["r2"][...] = np.nan
    for name in ("heads", "fit"):
        assert mf.plot.layers(none, name)._repr_png_()


def test_what_is_no_dataset_of_layers_is_refused(ds):
    with pytest.raises(ValueError, match=r"ds must be a Dataset of studies\.trained"):
        mf.plot.layers(ds.drop_vars("own_distance"))
    with pytest.raises(ValueError, match="ds must be a Dataset"):
        mf.plot.layers({})


def test_one_layer_is_seen():
    """No line is drawn through a single point: it has a dot, and no ticks between layers."""
    model = mf.trained.synthetic_layers(drawn(12, 4), 1, beta=[2.0, 5.0], step=0.2, rng=0)
    ds = mf.trained.measure_layers(model, beta=[2.0, 4.0], repeats=2, rng=0)
    for name in "fit", "moves":
        (ax,) = mf.plot.layers(ds, name).axes
        curves = [line for line in ax.lines if len(line.get_xdata()) == 1]
        assert curves
        assert all(line.get_marker() == "." for line in curves)
        assert np.isfinite([line.get_ydata() for line in curves]).all()
        assert [t for t in ax.get_xticks() if t != round(t)] == []
