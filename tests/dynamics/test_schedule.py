"""Cubic splines in place of numbers and matrices: values, bounds, and what is refused."""

import pickle

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import meanfield as mf
from meanfield._records import from_record, to_record
from meanfield.dynamics.schedule import Schedule, at_time, derivative_of, schedules, varying, within

TIMES = np.array([0.0, 0.4, 1.0, 1.7, 2.0])


def random_schedule(shape, seed):
    return Schedule(TIMES, np.random.default_rng(seed).normal(size=(len(TIMES), *shape)))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_it_is_the_spline_through_its_values_with_its_derivative(shape):
    schedule = random_schedule(shape, 0)
    spline = CubicSpline(TIMES, schedule.values)
    for t in (0.0, 0.3, 0.4, 1.2, 2.0):
        assert np.array_equal(schedule(t), spline(t))
        assert np.array_equal(schedule.derivative(t), spline(t, 1))
    assert np.shape(schedule(0.5)) == shape == schedule.shape


def test_between_two_values_it_is_a_line():
    # a product of three numbers: a few roundings
    line = Schedule([1.0, 3.0], [2.0, -2.0])
    assert abs(line(1.5) - 1.0) < 1e-15
    assert abs(line.derivative(2.9) + 2.0) < 1e-15


def test_a_time_outside_is_refused_but_for_rounding():
    schedule = random_schedule((), 1)
    assert schedule(2.0 * (1.0 + 4e-16)) == schedule(2.0)
    for t in (-1e-9, 2.0 + 1e-9, np.nan):
        with pytest.raises(ValueError, match="t must be"):
            schedule(t)


@pytest.mark.parametrize("seed", range(5))
def test_extrema_are_those_of_the_spline_and_not_of_its_knots(seed):
    schedule = random_schedule((), seed)
    fine = CubicSpline(TIMES, schedule.values)(np.linspace(0.0, 2.0, 20001))
    least, largest = schedule.extrema
    # a parabola at an extremum, of a curvature below 1e3, lies 1e-6 off at most between the points
    assert least <= fine.min() <= least + 1e-5
    assert largest - 1e-5 <= fine.max() <= largest
    assert schedule.largest == max(abs(least), abs(largest))
    assert fine.max() > np.max(schedule.values) or fine.min() < np.min(schedule.values)


@pytest.mark.parametrize("shape", [(4,), (3, 2)])
def test_no_value_is_larger_than_the_bound_which_is_near(shape):
    for seed in range(5):
        schedule = random_schedule(shape, seed)
        values = CubicSpline(TIMES, schedule.values)(np.linspace(0.0, 2.0, 2001))
        largest = max(np.linalg.norm(value, 2) for value in values)
        # control points of an eighth of a piece are off by its curvature times h²/8
        assert largest <= schedule.largest <= 1.1 * largest


def test_beta_is_checked_on_the_spline():
    # a spline that falls below 0 between values that do not
    dipping = Schedule([0.0, 1.0, 2.0, 3.0], [4.0, 0.1, 0.1, 4.0])
    assert dipping.extrema[0] < 0.0 < np.min(dipping.values)
    for make in (mf.SA, mf.USA, mf.DoublyStochastic, lambda b: mf.Attention(b, [mf.Head()])):
        with pytest.raises(
            ValueError, match=r"beta.* must be a Schedule or a function that is > 0"
        ):
            make(dipping)
    assert mf.SA(Schedule([0.0, 1.0], [0.0, 0.0])).velocity(*axes()).shape == (2, 2)
    with pytest.raises(ValueError, match="<= 700"):
        mf.USA(Schedule([0.0, 1.0, 1.1, 2.0], [1.0, 700.0, 700.0, 1.0]))


def axes():
    return mf.Particles(np.eye(2)), np.eye(2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: mf.SA(1.0, noise=s), "noise must be a finite number"),
        (lambda s: mf.SA(1.0, sign=s), "sign must be"),
        (lambda s: mf.Layers([mf.SA(1.0)], step=s), "step must be a finite number"),
        (lambda s: mf.LayerMap(mf.SA(1.0), step=s), "step must be a finite number"),
        (lambda s: mf.Layers([mf.SA(s)]), "layers must not vary in time"),
        (lambda s: mf.LayerMap(mf.SA(s), step=1.0), "LayerMap must not vary in time"),
        (mf.Kuramoto, "coupling must be a finite number"),
        (lambda _: mf.SA(float), "beta must be a finite number"),
        (lambda _: mf.SA(lambda: 1.0), "beta must be a function of t, got .*: too many positional"),
        (lambda _: mf.Head(V=lambda t, x: t * x), "V must be a function of t, got .*: missing a"),
        (lambda _: mf.Sum([mf.SA(1.0)], weights=lambda: [1.0]), "weights must be a function of t"),
        (lambda _: mf.SA(lambda _: "a"), "a function of t must return a number, vector or"),
        (lambda _: mf.SA(random_schedule((2,), 0)), "beta must be a Schedule or a function of num"),
        (lambda _: mf.SA(lambda _: [1.0, 2.0]), "beta must be a Schedule or a function of numbers"),
        (lambda _: mf.Head(V=random_schedule((2,), 0)), "V must be a Schedule or a function of"),
        (lambda _: mf.Head(V=lambda _: [1.0, 2.0]), r"V must be .* matrices, got a function of t"),
        (lambda s: mf.FeedForward(s, np.eye(2)), "W must have 2 axes"),
        (lambda s: mf.Head(Q=s).matrix, "Q and K must not vary"),
        (
            lambda _: mf.FeedForward.from_potential(
                random_schedule((2,), 0), random_schedule((2, 2), 0)
            ),
            "A must not vary in time, since coefficients do",
        ),
        (lambda s: mf.Sum([mf.SA(1.0)], weights=s), "weights must be one for each of the 1"),
        (
            lambda _: mf.Sum([mf.SA(1.0), mf.SA(2.0, noise=0.1)], weights=random_schedule((2,), 0)),
            "terms must have no noise where weights vary",
        ),
    ],
)
def test_what_may_not_vary_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(Schedule(TIMES, 1.0 + TIMES))


def test_it_travels_in_records_and_pickles():
    head = mf.Head(Q=random_schedule((3, 3), 0), V=random_schedule((), 1))
    dynamics = mf.Attention(Schedule(TIMES, 1.0 + TIMES), [head])
    record = to_record(dynamics, [mf.Attention, mf.Head, Schedule])
    again = from_record(record, [mf.Attention], parts=[mf.Head, Schedule])
    assert again == dynamics == pickle.loads(pickle.dumps(dynamics))
    assert len({again, dynamics}) == 1
    assert dynamics != mf.Attention(Schedule(TIMES, 1.0 + TIMES), [mf.Head()])


def test_what_has_schedules_is_the_same_at_a_time_as_what_has_their_values():
    matrix, shift = random_schedule((3, 2), 2), random_schedule((3,), 3)
    layer = mf.FeedForward(np.ones((2, 3)), matrix, shift, activation="tanh")
    assert list(schedules(layer)) == [matrix, shift]
    then = at_time(layer, 0.9)
    assert then == mf.FeedForward(np.ones((2, 3)), matrix(0.9), shift(0.9), activation="tanh")
    assert at_time(then, 0.1) is then
    assert np.array_equal(derivative_of(matrix, 0.9), matrix.derivative(0.9))
    assert np.array_equal(derivative_of(np.eye(2), 0.9), np.zeros((2, 2)))
    assert np.array_equal((-matrix)(0.9), -matrix(0.9))


def ramp(t):
    return 2.0 + np.sin(3.0 * t) + 0.1 * np.exp(-t)


def ramp_slope(t):
    return 3.0 * np.cos(3.0 * t) - 0.1 * np.exp(-t)


def wave(t):
    return [[np.cos(t), 0.5 * t], [0.2, np.sin(40.0 * t)]]


def wave_slope(t):
    return [[-np.sin(t), 0.5], [0.0, 40.0 * np.cos(40.0 * t)]]


def hump(t):
    return 1.0 / (1.0 + (t - 1.75) ** 2)


def hump_slope(t):
    return -2.0 * (t - 1.75) * hump(t) ** 2


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (ramp, ramp_slope),
        (wave, wave_slope),
        # coefficients fall by 2.08 each: the 32nd is 1e-10, so that 64 values do not tell it
        (hump, hump_slope),
        (lambda _: 1.5, lambda _: 0.0),
        (lambda t: t, np.ones),
    ],
)
def test_the_series_of_a_function_has_its_values_and_its_derivative(function, slope):
    slope = slope if slope is not np.ones else (lambda _: 1.0)
    series = varying("beta", function).on_interval(0.5, 3.0)
    for t in np.linspace(0.5, 3.0, 37):
        assert np.abs(series(t) - function(t)).max() < 2e-13
        # rounding of k terms grows by k² in the derivative: some 70 of them at sin 40t
        assert np.abs(series.derivative(t) - slope(t)).max() < 5e-11
    with pytest.raises(ValueError, match="t must be in"):
        series(0.4)
    assert np.array_equal((-series)(1.0), -np.asarray(series(1.0)))


def test_bounds_of_a_series_hold_and_are_near():
    times = np.linspace(0.5, 3.0, 20001)
    numbers, matrices = (
        varying("beta", ramp).on_interval(0.5, 3.0),
        varying("beta", wave).on_interval(0.5, 3.0),
    )
    values = np.array([ramp(t) for t in times])
    least, largest = numbers.extrema
    # some 30 terms at 512 points each, and a parabola between 20001 points
    assert abs(least - values.min()) < 1e-5
    assert abs(largest - values.max()) < 1e-5
    assert values.max() <= numbers.largest < values.max() + 1e-4
    norms = max(np.linalg.norm(wave(t), 2) for t in times[::10])
    assert norms <= matrices.largest <= 1.03 * norms


def test_a_constant_and_a_polynomial_are_series_of_their_degree():
    assert varying("beta", lambda _: 2.0).on_interval(1.0, 2.0).degree == 0
    assert varying("beta", lambda t: t**3 - t).on_interval(1.0, 2.0).degree == 3
    assert mf.SA(varying("beta", lambda _: 0.0).on_interval(0.0, 1.0)).beta.extrema == (0.0, 0.0)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t: abs(t - 0.3) + 1.0, r"must be smooth on the times of the run, \[0, 1\]"),
        (lambda t: 1.0 + (t > 0.5), "must be smooth on the times"),
        (lambda t: np.random.default_rng().uniform() + t, "must be smooth on the times"),
        # the first 64 points see nothing of such a pulse
        (lambda t: 1.0 + np.exp(-(((t - 0.5123) / 0.002) ** 2)), "must be smooth on the times"),
        (lambda t: 1.0 / t, "must be finite, got inf"),
        (lambda t: [1.0, 2.0][: 1 + (t > 0.5)] if t > 0.0 else 1.0, "must be of shape"),
        (lambda t: 1.0 - 1.5 * t, "beta must be a Schedule or a function that is > 0"),
        # below 0 between the points that it is asked for first
        (lambda t: (t - 0.4) ** 2 - 1e-5, "beta must be a Schedule or a function that is > 0"),
    ],
)
def test_functions_that_no_run_can_take_are_refused(function, message):
    with pytest.raises(ValueError, match=message):
        within(mf.SA(function), 0.0, 1.0)
    with pytest.raises(ValueError, match=message):
        mf.evolve(mf.Particles(np.eye(2)), mf.SA(function), 1.0)
