"""Causal tokens beside the density that moves without a mask: errors by position, slopes."""

from functools import cache

import numpy as np
import pytest

import meanfield as mf
from meanfield.studies.limit import density_run
from meanfield.studies.positions import (
    characteristic_steps,
    fitted_slope,
    follow_characteristics,
    window_ends,
    window_means,
)

LAW = mf.FourierSeries(cos=[0.5], sin=[0.2])
CAUSAL = mf.SA(1.0, mask=mf.Causal())


@cache
def study(decay=0.0, rng=0):
    """Of few tokens."""
    dynamics = mf.SA(1.0, mask=mf.Causal(decay))
    return mf.studies.causal_limit(LAW, dynamics, 0.5, [32, 100], repeats=4, save_at=2, rng=rng)


@pytest.mark.parametrize("n", [2, 3, 16, 20, 1000, 1025])
def test_windows_hold_all_tokens_once(n):
    ends = window_ends(n)
    sizes = np.diff(ends, prepend=0)
    assert ends[-1] == n
    # none but the first three are of one token
    assert sizes.min() >= 1
    assert np.all(sizes[3:] >= 2)
    tokens = np.arange(1.0, n + 1.0)
    means = window_means(ends, np.column_stack([tokens, tokens**2]))
    assert np.allclose(sizes @ means, [tokens.sum(), (tokens**2).sum()], rtol=1e-14)


@pytest.mark.parametrize(
    "plain",
    [
        mf.USA(1.0),
        mf.Sum([mf.SA(2.0), mf.SA(1.0, sign=-1)], weights=[1.0, 0.5]),
        pytest.param(mf.SA(mf.Schedule([0.0, 1.0, 2.0], [1.0, 3.0, 2.0])), marks=pytest.mark.slow),
    ],
    ids=["USA", "sum", "weights in time"],
)
def test_characteristics_are_those_of_a_flow_map(plain):
    """Nodes of a flow map are carried by its own steps, at 1e-11; the density's tail is 1e-10."""
    run = mf.evolve(mf.FlowMap(LAW), plain, 1.0, 2, rtol=1e-11, atol=1e-13)
    places = run.final.line.points(run.final._labels)
    for leg in characteristic_steps(LAW, plain, density_run(LAW, plain, 1.0, 2)):
        places = follow_characteristics(plain, leg, places)
    assert np.abs(places - run.final.points).max() < 1e-9


def test_slopes_of_exact_powers():
    tokens = 2.0 ** np.arange(4, 9)
    errors = 3.0 * tokens[None, :, None] ** np.array([-0.5, -2.0])
    slope, error = fitted_slope(tokens, np.repeat(errors, 3, axis=0))
    assert np.allclose(slope, [-0.5, -2.0], atol=1e-13)
    assert np.all(error < 1e-13)
    slope, error = fitted_slope(tokens, errors)
    assert np.allclose(slope, [-0.5, -2.0], atol=1e-13)
    assert np.isnan(error).all()
    for few in 0, 1:
        assert np.isnan(fitted_slope(tokens[:few], errors[:, :few])).all()
    assert np.isnan(fitted_slope(tokens, 0.0 * errors)[0]).all()


def test_errors_of_slopes_are_their_spread():
    """Windows of a run hang together: errors from windows taken apart would be too small."""
    rng, tokens, studies, repeats = np.random.default_rng(0), 2.0 ** np.arange(4, 12), 4000, 16
    steps = rng.normal(size=(2, repeats, len(tokens), studies))
    # x_j is the mean of j draws, a walk over j: what comes to it from window to window
    sizes = np.sqrt(np.diff(tokens, prepend=0.0))[None, None, :, None]
    walk = np.cumsum(sizes * steps, axis=2) / tokens[None, None, :, None]
    slope, error = fitted_slope(tokens, np.hypot(*walk))
    assert abs(slope.mean() + 0.5) < 0.01
    # the jackknife is known to be too large rather than too small
    assert 0.95 < np.sqrt((error**2).mean()) / slope.std() < 1.15


def test_variables():
    ds = study()
    assert dict(ds["error"].sizes) == {"n": 2, "repeat": 4, "window": 8, "t": 3}
    assert np.array_equal(ds.last_token[1], [1, 2, 4, 8, 16, 32, 64, 100])
    assert np.isnan(ds["error"][0, :, 6:]).all()
    assert np.isnan(ds.rms[0, 6:]).all()
    assert np.isfinite(ds.rms[1]).all()
    # harmonic mean of 3 and 4
    assert ds.token[1, 2] == pytest.approx(24 / 7)
    assert np.all(ds.rms[1, :, 0] == 0.0)
    assert np.allclose(ds.rms[1] ** 2, (ds["error"][1] ** 2).mean("repeat"))
    # two windows are needed for a slope
    assert np.isnan(ds.slope[0]).all()
    assert np.isfinite(ds.slope[1, 1:]).all()


def test_the_first_token_stays_and_its_characteristic_does_not():
    """Its error is how far the density carries it: one of SA moves all but few."""
    ds = study()
    run = density_run(LAW, mf.SA(1.0), 0.5, 2)
    steps = characteristic_steps(LAW, mf.SA(1.0), run)
    for r in range(4):
        rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(1, r)))
        first = mf.Particles.sample(LAW, 100, rng).points[:1]
        place = first
        for leg in steps:
            place = follow_characteristics(mf.SA(1.0), leg, place)
        angle = np.arccos(np.clip(place @ first.T, -1.0, 1.0)).item()
        # arccos loses half the digits near 1
        assert float(ds["error"][1, r, 0, -1]) == pytest.approx(angle, abs=1e-7)


def test_the_generator_tells_all():
    def again(rng):
        return mf.studies.causal_limit(LAW, CAUSAL, 0.5, [32, 100], repeats=4, save_at=2, rng=rng)

    assert again(0).identical(study())
    assert not again(1)["error"].equals(study()["error"])
    assert again(np.random.default_rng(3)).identical(again(np.random.default_rng(3)))


def test_decay_tells():
    assert not study(30.0)["error"].equals(study()["error"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
def test_errors_fall_like_the_root_of_the_position(kind):
    """-1/2 ± 0.1, and within three of the slope's own errors, which must be smaller than that."""
    dynamics = kind(1.0, mask=mf.Causal())
    ds = mf.studies.causal_limit(LAW, dynamics, 1.0, [256, 1024, 4096], repeats=24, save_at=2)
    slope, error = (ds[name].values[-1, 1:] for name in ("slope", "slope_error"))
    assert np.all(np.abs(slope + 0.5) < 0.1)
    assert np.all(np.abs(slope + 0.5) < 3.0 * error)
    assert np.all(error < 0.04)
    assert np.all(np.abs(ds.rate[1:] + 0.5) < 0.1)
    assert np.all((ds.rate_lower <= -0.5) & (ds.rate_upper >= -0.5))


@pytest.mark.slow
def test_with_decay_errors_fall_with_the_number_of_tokens():
    """Each sees about n/λ at most: late windows have one error, which falls like n^{-1/2}."""
    dynamics = mf.SA(1.0, mask=mf.Causal(30.0))
    ds = mf.studies.causal_limit(LAW, dynamics, 1.0, [512, 8192], repeats=16, save_at=1)
    few, many = ds.rms.values[0, :, -1], ds.rms.values[1, :, -1]
    errors = ds.standard_error.values[:, :, -1] / ds.rms.values[:, :, -1]
    last, before = many[13], many[12]
    assert abs(last / before - 1.0) < 3.0 * np.hypot(errors[1, 13], errors[1, 12])
    spread = np.hypot(errors[0, 9], errors[1, 13]) / np.log(16)
    assert abs(np.log(last / few[9]) / np.log(16) + 0.5) < 0.1
    assert spread < 0.04


@pytest.mark.slow
def test_on_the_sphere():
    law = mf.VonMisesFisher([0.0, 0.6, 0.8], 2.0)
    dynamics = mf.SA(1.0, mask=mf.Causal())
    ds = mf.studies.causal_limit(law, dynamics, 0.5, 1024, repeats=8, save_at=1)
    assert abs(float(ds.slope[0, -1]) + 0.5) < 0.1
    assert "w1" not in ds


def test_figure():
    ds = study()
    figure = mf.plot.causal_limit(ds)
    over_j, over_n = figure.axes
    assert figure.get_suptitle() == "SA: causal tokens against the limit, 4 repeats"
    labels = [text.get_text() for text in over_j.get_legend().get_texts()]
    slope, error = float(ds.slope[1, -1]), float(ds.slope_error[1, -1])
    # 32 tokens have no slope
    assert labels[1:] == ["n = 32", rf"n = 100: $j^{{{slope:.2f} \pm {error:.2f}}}$"]
    assert np.array_equal(over_n.lines[0].get_xdata(), ds.n)
    # of one n there is no rate
    assert len(mf.plot.causal_limit(ds.isel(n=[1])).axes) == 1
    with pytest.raises(ValueError, match=r"ds must be a Dataset"):
        mf.plot.causal_limit(ds.drop_vars("slope"))


@pytest.mark.parametrize(
    ("dynamics", "message"),
    [
        (mf.SA(1.0), r"dynamics must have a mask, or be a Sum of which a term has one, got SA"),
        (mf.Sum([mf.SA(1.0), mf.USA(1.0)]), r"dynamics must have a mask, or be a Sum"),
        (mf.SA(1.0, noise=0.1, mask=mf.Causal()), r"dynamics must be without noise, got SA"),
        (mf.Layers([CAUSAL, CAUSAL]), r"dynamics must have a mask, or be a Sum"),
    ],
)
def test_refusals(dynamics, message):
    with pytest.raises(ValueError, match=message):
        mf.studies.causal_limit(LAW, dynamics, 0.5, 8)


def test_a_sum_with_one_mask():
    """The limit is that of both terms."""
    dynamics = mf.Sum([CAUSAL, mf.USA(0.5)], weights=[1.0, 0.5])
    ds = mf.studies.causal_limit(LAW, dynamics, 0.2, 64, repeats=2, save_at=1)
    assert np.all(ds["error"][0, :, :, -1] < 0.5)
