"""Studies of the mean-field limit: rates, seeds, bounds, fluctuations."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import t as student

import meanfield as mf
from meanfield.studies.limit import fitted_rates, normality

LAW = mf.FourierSeries(cos=[0.5], sin=[0.2])
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([1.0, 0.0, 0.0], 4.0), mf.VonMisesFisher([0.0, 0.6, 0.8], 2.0)], [0.4, 0.6]
)


@cache
def small(beta):
    """A study of few tokens, of which figures are drawn."""
    return mf.studies.mean_field_limit(LAW, mf.SA(beta), 0.5, [10, 100], repeats=4, save_at=2)


def test_rates_of_exact_powers():
    counts = np.array([10, 100, 1000])
    errors = 3.0 * counts[:, None, None] ** np.array([-0.5, -2.0])[None, None, :]
    assert np.allclose(fitted_rates(counts, errors)[0], [-0.5, -2.0])
    assert np.isnan(fitted_rates(counts, errors)[1:]).all()
    assert np.allclose(fitted_rates(counts, np.repeat(errors, 4, axis=1)), [[-0.5, -2.0]] * 3)
    assert np.isnan(fitted_rates(counts[:1], errors[:1])).all()
    assert np.isnan(fitted_rates(counts, 0.0 * errors)[0]).all()


# squares of distances are sums over modes, each a chi-square; some differ from n to n
SPREADS = {
    "one mode": lambda rng, shape: np.abs(rng.normal(size=shape)),
    "two modes": lambda rng, shape: np.sqrt(rng.exponential(size=shape)),
    "many modes": lambda rng, shape: np.sqrt(
        (rng.normal(size=(*shape, 6)) ** 2 * 0.5 ** np.arange(6)).sum(axis=-1)
    ),
    "more for more n": lambda rng, shape: np.sqrt(
        rng.chisquare(1 + 9 * np.arange(shape[0])[:, None, None], size=shape)
        / (1 + 9 * np.arange(shape[0]))[:, None, None]
    ),
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("sizes", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 6))])
@pytest.mark.parametrize("repeats", [2, 3, 8, 32])
def test_intervals_hold_the_true_rate(repeats, sizes, spread):
    """As often as they say, and hardly more: with five deviations of the count for chance."""
    rng, counts, studies = np.random.default_rng(repeats + sizes), 10 ** np.arange(1, 7), 4000
    counts = counts[:sizes]
    errors = SPREADS[spread](rng, (sizes, repeats, studies)) * counts[:, None, None] ** -0.5
    # what the mean of the logarithm of a mean square adds, which is no error of the interval
    bias = 0.0
    if spread == "more for more n":
        many = SPREADS[spread](rng, (sizes, repeats, 400_000 // repeats))
        bias = np.mean(fitted_rates(counts, many)[0])
    rate, low, high = fitted_rates(counts, errors)
    held = np.mean((low <= -0.5 + bias) & (-0.5 + bias <= high))
    # few degrees of freedom make intervals of two repeats too wide rather than too narrow
    fewest, most = 0.92, {2: 0.985, 3: 0.965}.get(repeats, 0.96)
    assert fewest - 5 * np.sqrt(fewest * (1 - fewest) / studies) < held
    assert held < most + 5 * np.sqrt(most * (1 - most) / studies)
    # and they are no wider than the slopes' own spread asks for
    assert np.median(high - low) < 2 * student.isf(0.025, repeats - 1) * 1.1 * rate.std()


def test_intervals_of_all_quantities_hold_jointly():
    """Five quantities of the same modes, as in a study: each at 95 % hold together too rarely."""
    rng, counts, studies, quantities = np.random.default_rng(9), np.array([1, 10, 100]), 1000, 5
    modes = rng.normal(size=(3, 32, studies, 6)) ** 2
    shares = rng.uniform(size=(6, quantities)) ** 4
    errors = np.sqrt(modes @ shares / counts[:, None, None, None])
    chance = 5 * np.sqrt(0.05 * 0.95 / studies)
    for confidence, is_joint in ((1 - 0.05 / quantities, True), (0.95, False)):
        flat = errors.reshape(3, 32, -1)
        _, low, high = fitted_rates(counts, flat, confidence).reshape(3, studies, quantities)
        held = np.mean(((low <= -0.5) & (high >= -0.5)).all(axis=1))
        assert (held > 0.95 - chance) == is_joint, held


@pytest.mark.slow
def test_the_default_finds_one_half():
    """All intervals hold it for each seed. They are those of Bonferroni, and narrow."""
    sizes = [40, 160, 640]
    for seed in range(2):
        ds = mf.studies.mean_field_limit(LAW, mf.SA(2.0), 0.2, sizes, save_at=1, rng=seed)
        assert ds.sizes["repeat"] == 32
        assert np.all((ds.rate_lower <= -0.5) & (ds.rate_upper >= -0.5)), seed
        assert float((ds.rate_upper - ds.rate_lower).sel(quantity="mmd").max()) < 0.35
    assert ds.attrs["confidence"] == 0.95
    assert "jointly 95 % for all quantities" in ds.rate_lower.attrs["comment"]
    for name in ds["quantity"].values:
        each = fitted_rates(np.array(sizes), ds[str(name)].values, 1.0 - 0.05 / 5)
        assert np.array_equal(ds.rate_lower.sel(quantity=name), each[1])


def test_normality_tells_what_is_not_normal():
    rng = np.random.default_rng(0)
    normal, other = rng.normal(size=(60, 1, 1)), rng.exponential(size=(60, 1, 1))
    assert normality(normal)[0, 0] > 0.05
    assert normality(other)[0, 0] < 1e-4
    assert np.isnan(normality(normal[:2])).all()
    assert np.isnan(normality(0.0 * normal)).all()


@pytest.mark.slow
def test_errors_fall_like_the_root_of_n():
    """Of all quantities; other dynamics, S^2, and n to 10⁶ with ± 0.03 are in validation."""
    ns, beta = [30, 300, 3000], 1.0
    ds = mf.studies.mean_field_limit(LAW, mf.USA(beta), 0.5, ns, repeats=10, save_at=1)
    assert np.all(np.abs(ds.rate + 0.5) < 0.2)
    first = ds.rate.sel(quantity="mmd")
    assert np.all(np.abs(first + 0.5) < 0.1)
    # E mmd² = (e^β - ∬ e^{β<x,y>} dmu dmu)/n at t = 0, with a spread of at most itself
    expected = (np.exp(beta) - 2 * beta * float(ds.energy[0])) / ds.n.values
    squares = (ds.mmd.values[:, :, 0] ** 2).mean(axis=1)
    assert np.all(np.abs(squares / expected - 1.0) < 4.0 / np.sqrt(10))
    assert ds.sizes["axis"] == LAW.dim
    assert np.all(ds.normal_p > 1e-4)


@pytest.mark.slow
def test_dobrushin_bound_and_fluctuations():
    ds = mf.studies.mean_field_limit(LAW, mf.USA(0.3), 0.4, [30, 300], repeats=40, save_at=1)
    assert ds.attrs["dobrushin_constant"] == pytest.approx(2 * np.exp(0.3))
    assert np.all(ds.w1.mean("repeat") <= ds.dobrushin * (1 + 1e-12))
    # √n (mean of n draws) has the law's covariance: diag E x² - (E x)²
    second = 0.5
    means = 0.5 * np.array([0.5, 0.2])
    variance = ds.fluctuation.values[:, :, 0].var(axis=1)
    assert np.all(np.abs(variance / (second - means**2) - 1.0) < 4 * np.sqrt(2 / 40))


@pytest.mark.slow
def test_beta_beyond_the_range_of_dobrushin_and_of_squares():
    """C is inf from β = 350 on, energies are of order e^β/(2β)."""
    law = mf.FourierSeries(cos=[0.5])
    ds = mf.studies.mean_field_limit(law, mf.SA(400.0), 5e-4, [4, 16], repeats=2, save_at=1)
    assert ds.attrs["dobrushin_constant"] == np.inf
    assert np.array_equal(ds.dobrushin[:, 0], ds.w1[:, :, 0].mean("repeat"))
    assert np.all(ds.dobrushin[:, 1] > 1e300)
    assert float(ds.energy_error.max()) > 1e160
    assert np.isfinite(ds.rate).all()
    mf.plot.mean_field_limit(ds)


def test_rates_see_no_factor():
    errors = (
        np.random.default_rng(0).uniform(1, 2, size=(3, 4, 2)) / np.array([1, 3, 10])[:, None, None]
    )
    counts = np.array([10, 100, 1000])
    plain = fitted_rates(counts, errors)
    assert np.allclose(fitted_rates(counts, 1e200 * errors), plain, rtol=1e-12)
    assert np.allclose(fitted_rates(counts, 1e-200 * errors), plain, rtol=1e-12)


def test_a_flow_map_takes_over_the_limit():
    ds = mf.studies.mean_field_limit(LAW, mf.USA(4.0), 0.6, [50], repeats=1, save_at=1)
    assert "a flow map took over" in ds.attrs["limit"]
    assert np.isfinite(ds.w1).all()


@pytest.mark.slow
def test_axis_in_many_dimensions():
    law = mf.VonMisesFisher([0.0, 0.6, 0.0, 0.8], 2.0)
    ds = mf.studies.mean_field_limit(law, mf.SA(1.0), 0.5, [50, 400], repeats=4, save_at=1)
    assert ds.attrs["sobolev_order"] == -2.0
    assert np.all(ds.mmd[1].mean("repeat") < ds.mmd[0].mean("repeat"))
    assert "w1" not in ds


def test_figure():
    ds = small(0.5)
    figure = mf.plot.mean_field_limit(ds)
    assert len(figure.axes) == 3
    *_, dashed = figure.axes[0].lines
    assert len(figure.axes[0].lines) == ds.sizes["quantity"] + 1
    assert dashed.get_linestyle() == "--"
    x, y = dashed.get_data()
    assert np.diff(np.log(y)) / np.diff(np.log(x)) == pytest.approx(-0.5)
    assert y[0] > max(float(mf.plot.studies.rms(ds[str(q)])[0, -1]) for q in ds["quantity"].values)
    legend = figure.axes[0].get_legend()
    assert legend.get_title().get_text() == "fitted powers, all jointly 95 %"
    assert figure.get_suptitle() == "SA, β = 0.5: tokens against the limit, 4 repeats"
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    rate, low = (float(ds[name].sel(quantity="w1")[-1]) for name in ("rate", "rate_lower"))
    assert rf"W₁: $n^{{{rate:.2f} \pm {rate - low:.2f}}}$" in labels
    with pytest.raises(ValueError, match=r"ds must be a Dataset"):
        mf.plot.mean_field_limit(ds.drop_vars("rate"))


@pytest.mark.parametrize("beta", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_legends_and_bounds_leave_the_figure_to_the_errors(beta):
    """C is 6.4 at β = 1/2, and 275 at β = 2: a bound of e^{275 t} says nothing beside 0.1."""
    ds = small(beta)
    figure = mf.plot.mean_field_limit(ds)
    figure.canvas.draw()
    for ax in figure.axes[:2]:
        legend = ax.get_legend().get_window_extent().transformed(ax.transData.inverted())
        lowest = min(line.get_ydata().min() for line in ax.lines if len(line.get_ydata()))
        assert legend.y1 < lowest
        assert ax.get_ylim()[1] < 1e4 * max(float(ds[str(q)].max()) for q in ds["quantity"].values)
    bounds = [line for line in figure.axes[1].lines if line.get_linestyle() == "--"]
    assert bool(bounds) == (beta < 1)
