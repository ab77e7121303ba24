"""Two-token correlation: the equation (8.1), its closures, tokens, and where closures break."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import iv
from scipy.stats import t as student

import meanfield as mf
from meanfield.spaces import Circle
from meanfield.studies import correlations
from meanfield.studies.correlations import (
    CLOSURES,
    TAIL_TOL,
    PairEquation,
    break_errors,
    solved,
)

EPS = np.finfo(float).eps
PLACES = np.linspace(0.0, np.pi, 17)


def h(x, beta):
    return np.exp(beta * np.cos(x)) * np.sin(x)


# ---------------------------------------------------------------- the equation


@pytest.mark.parametrize("closure", CLOSURES)
def test_flux_by_sums_over_third_tokens(closure):
    """d/dt E cos kx = E[k sin kx ((2/n) h + ((2n-4)/n) H)], H by quadrature at any x in (-π, π)."""
    beta, n, modes = 1.3, 7, np.array([1.0, 0.3, 0.25, -0.1, 0.05])
    space = Circle(128)
    c = np.zeros(space.kmax + 1)
    c[:5] = modes

    def f(x):
        return 1.0 + 2.0 * sum(modes[k] * np.cos(k * x) for k in range(1, 5))

    # the trapezoidal rule is exact up to degree 255
    x = -np.pi + 2 * np.pi / 256 * np.arange(256)
    third = x[None, :]
    joint = {
        "independent": f(x)[:, None] + 0 * third,
        "cumulant": f(x)[:, None] + f(third) + f(third - x[:, None]) - 2.0,
        "kirkwood": f(x)[:, None] * f(third) * f(third - x[:, None]),
    }[closure]
    if closure == "kirkwood":
        joint = joint * (f(x) / joint.mean(axis=1))[:, None]
    # given the pair there is one third token
    assert np.abs(joint.mean(axis=1) - f(x)).max() < 1e-14
    pull = (h(third, beta) * joint).mean(axis=1)
    # H is odd: ψ stays even
    assert np.abs(pull[1:] + pull[:0:-1]).max() < 1e-14
    flux = 2 / n * h(x, beta) * f(x) + (2 * n - 4) / n * pull
    found = PairEquation(closure, beta, n, space)(0.0, c)
    k = np.arange(20)
    expected = (k[:, None] * np.sin(np.outer(k, x)) * flux).mean(axis=1)
    assert np.abs(expected).max() > 0.1
    assert np.abs(found[:20] - expected).max() < 1e-13


# ---------------------------------------------------------------- two tokens: exact


@pytest.mark.parametrize("n", [2, 9])
def test_beta_zero_is_a_poisson_kernel(n):
    """Without third tokens tan(x/2) shrinks like e^{-2t/n}: E cos kx = tanh^k(t/n)."""
    times = np.array([0.0, 1.0, 2.5])
    found = solved("independent", 0.0, n, times, 4, PLACES)
    expected = np.tanh(times[:, None] / n) ** np.arange(1, 5)
    assert found.modes == pytest.approx(expected, abs=1e-11)


# ---------------------------------------------------------------- the solver


def test_what_is_not_resolved_is_told(monkeypatch):
    times = np.linspace(0.0, 3.0, 31)
    whole = solved("kirkwood", 1.0, 20, times, 6, PLACES)
    monkeypatch.setattr(correlations, "LAST_SIZE", 256)
    short = solved("kirkwood", 1.0, 20, times, 6, PLACES)
    assert whole.status == "finished"
    assert short.status == "under-resolved"
    known = np.isfinite(short.tail)
    assert 5 < known.sum() < 31
    assert not known[known.sum() :].any()
    assert np.isnan(short.modes[~known]).all()
    assert np.isnan(short.psi[~known]).all()
    assert short.tail[known].max() <= TAIL_TOL
    assert short.modes[known] == pytest.approx(whole.modes[known], abs=1e-11)


def test_no_law_has_correlations_above_one():
    times = np.linspace(0.0, 5.0, 51)
    found = solved("cumulant", 1.0, 20, times, 6, PLACES)
    assert found.status == "impossible"
    known = np.isfinite(found.tail)
    assert 0.7 < found.modes[known].max() <= 1.0
    # a linear equation keeps no sign
    assert found.least[known].min() < 0.0


def test_linear_stage_of_many_tokens():
    """(e^{2γ_1 t} - 1)/(n - 1) up to a share of order 1/n, of both orders in the bounds."""
    beta, times = 1.0, np.array([0.0, 1.5])
    growth = np.expm1(2 * iv(1, beta) / beta * times[1])
    for closure in ("cumulant", "kirkwood"):
        shares = [
            solved(closure, beta, n, times, 3, PLACES).modes[1, 0] * (n - 1) / growth - 1
            for n in (200, 400, 800)
        ]
        assert 1e-4 < abs(shares[0]) < 0.05
        orders = np.log2(np.abs(shares[:-1]) / np.abs(shares[1:]))
        assert np.abs(orders - 1).max() < 0.1


# ---------------------------------------------------------------- the study


@pytest.fixture(scope="module")
def ds():
    return mf.studies.two_token_correlation(1.0, 8, 3.0, repeats=1024, kmax=4, save_at=30, rng=0)


@pytest.mark.slow
def test_closures_break_in_order(ds):
    first, second, third = ds.breaks.values
    assert 0 < first < second <= third < ds.reached.values[2]
    assert ds.status.values.tolist() == ["finished", "impossible", "under-resolved"]
    assert float(ds.linear_break) <= second
    assert np.array_equal(ds.breaks, ds.mode_breaks.min("degree"))


def test_breaks_are_first_times_off(ds):
    for closure in CLOSURES:
        off = np.abs(ds.closed.sel(closure=closure) - ds.correlation)
        limit = np.maximum(ds.attrs["break_errors"] * ds.standard_error, 0.02)
        bad = (off > limit).any("degree").values
        # at the start all closures are right
        bad[0] = False
        t = float(ds.breaks.sel(closure=closure))
        assert bad[ds.t.values == t].all()
        assert not bad[ds.t.values < t].any()
    # chance alone, since all start at 0
    assert np.abs(ds.correlation.values[0]).max() < 5 * ds.standard_error.values[0].max()


def test_break_errors_are_those_of_students_t():
    # once in ten thousand studies, on both sides: of one number, of many repeats, of two
    assert break_errors(10**6, 1) == pytest.approx(3.8906, abs=1e-3)
    assert break_errors(1024, 240) == pytest.approx(student.isf(5e-5 / 240, 1023), rel=1e-9)
    # one degree of freedom: tan of the angle, cot(π α/2)
    assert break_errors(2, 1) == pytest.approx(1.0 / np.tan(np.pi * 5e-5), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "repeats", "kmax"), [(2, 2, 3), (2, 1024, 64)])
def test_chance_is_no_break(n, repeats, kmax):
    """Two tokens have no closure to break."""
    for seed in range(6):
        ds = mf.studies.two_token_correlation(
            1.0, n, 1.0, repeats=repeats, kmax=kmax, save_at=4, rng=seed
        )
        assert np.isnan(ds.breaks.values).all()


def test_all_closures_are_exact_at_the_start():
    ds = mf.studies.two_token_correlation(1.0, 20, 0.1, repeats=8, kmax=256, save_at=[0.0], rng=0)
    assert np.isnan(ds.breaks.values).all()


@pytest.mark.slow
def test_a_closure_that_left_before_the_next_save_has_broken():
    """At β = 1 the cumulant closure passes 1 between two saves: that is its break."""
    ds = mf.studies.two_token_correlation(1.0, 20, 5.0, repeats=64, save_at=[0.0, 5.0], rng=0)
    one = ds.sel(closure="cumulant")
    assert str(one.status.values) == "impossible"
    assert float(one.breaks) == 5.0
    assert float(ds.linear_break) == 5.0
    assert np.isnan(one.closed.values[1]).all()
    # beyond what was resolved nothing is claimed
    assert np.isnan(float(ds.breaks.sel(closure="kirkwood")))
    alone = mf.studies.two_token_correlation(1.0, 20, 5.0, repeats=8, save_at=[5.0], rng=0)
    assert alone.reached.values.tolist() == [5.0, 0.0, 0.0]


def test_histogram_is_psi(ds):
    width = np.pi / 36
    assert (2 * width * ds.histogram.sum("bin")).values == pytest.approx(np.ones(31), abs=1e-13)
    # at t = 0.5 kirkwood is right: bins against ψ, chance alone, and ψ'' width²/24
    early = ds.isel(t=5)
    psi = early.psi.sel(closure="kirkwood").interp(x=ds["bin"])
    gaps = np.abs(early.histogram - psi)
    assert (gaps < 5 * early.histogram_error + 1e-3).all()


@pytest.mark.slow
def test_two_tokens_need_no_closure():
    ds = mf.studies.two_token_correlation(2.0, 2, 0.5, repeats=4096, save_at=5, rng=4)
    assert np.isnan(ds.breaks.values).all()
    assert np.ptp(ds.closed.values, axis=0).max() < 1e-12
    gaps = np.abs(ds.correlation - ds.closed.sel(closure="kirkwood"))
    assert (gaps < 5 * ds.standard_error).all()


def test_the_same_seed_gives_the_same_bits():
    def study(seed, executor=None):
        return mf.studies.two_token_correlation(
            1.0, 4, 0.5, repeats=130, save_at=2, rng=seed, executor=executor
        )

    here = study(0)
    assert here.identical(study(0))
    with ThreadPoolExecutor(2) as pool:
        assert here.identical(study(0, pool))
    assert here.identical(study(np.random.default_rng(0)))
    assert not np.array_equal(here.correlation, study(1).correlation)


@pytest.mark.parametrize("beta", [0.0, 300.0])
def test_ends_of_the_range_of_beta(beta):
    ds = mf.studies.two_token_correlation(
        beta, 5, 0.5 * np.exp(-beta), repeats=16, save_at=4, rng=0
    )
    assert (ds.status == "finished").all()
    assert np.isfinite(ds.correlation).all()
    assert np.isfinite(ds.closed).all()


GOOD = {
    "beta": 1.0,
    "n": 5,
    "t_end": 1.0,
    "repeats": 4,
    "kmax": 2,
    "save_at": 2,
    "rng": 0,
}


# ---------------------------------------------------------------- the figure


def test_figure(ds):
    figure = mf.plot.two_token_correlation(ds)
    upper, lower = figure.axes[:3], figure.axes[3:]
    assert [ax.get_title() for ax in upper] == ["k = 1", "k = 2", "k = 3"]
    assert "independent broken" in lower[0].get_title()
    assert "broken" in lower[1].get_title()
    assert "last of kirkwood" in lower[2].get_title()
    for ax, k in zip(upper, (1, 2, 3), strict=True):
        lines = {line.get_label(): line for line in ax.lines}
        for closure in CLOSURES:
            drawn = lines[closure].get_ydata()
            assert np.array_equal(drawn, ds.closed.sel(closure=closure, degree=k), equal_nan=True)
        marks = {tuple(line.get_xdata()) for line in ax.lines if len(line.get_xdata()) == 1}
        breaks = ds.mode_breaks.sel(degree=k).values
        assert {mark[0] for mark in marks} == set(breaks[np.isfinite(breaks)])


def test_figure_of_one_mode():
    ds = mf.studies.two_token_correlation(**GOOD | {"kmax": 1})
    figure = mf.plot.two_token_correlation(ds)
    assert not figure.axes[1].axison


def test_figure_of_a_dataset_that_misses_something(ds):
    for bad in (ds.drop_vars("breaks"), ds.assign_attrs({}).drop_attrs()):
        with pytest.raises(ValueError, match=r"with \['(breaks|beta)'"):
            mf.plot.two_token_correlation(bad)
