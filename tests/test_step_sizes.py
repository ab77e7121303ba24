"""Sizes of steps by the errors of those before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield.integrate.step_sizes import ManyStepSizes, StepSizes

ERRORS = st.one_of(st.floats(1e-12, 1e6), st.sampled_from([0.0, 1.0, float("nan"), float("inf")]))


def test_sizes_by_hand():
    """Order 4: a quarter of an exponent, and a tenth of that of the error before."""
    sizes = StepSizes(4, most=5.0)
    # nothing is before the first
    assert sizes.next(2.0, 0.5) == pytest.approx(2.0 * 0.9 * 0.5**-0.25, rel=1e-15)
    assert sizes.next(2.0, 0.5) == pytest.approx(2.0 * 0.9 * 0.5**-0.25 * 0.5**0.1, rel=1e-15)
    # what is refused shrinks, by 5 at most, and what follows does not grow
    assert sizes.next(2.0, 16.0) == pytest.approx(0.9, rel=1e-15)
    assert sizes.next(2.0, 1e9) == pytest.approx(0.4, rel=1e-15)
    assert sizes.next(2.0, 1e-9) == 2.0
    # a small error counts for a hundredth
    assert sizes.next(2.0, 0.5) == pytest.approx(2.0 * 0.9 * 0.5**-0.25 * 0.01**0.1, rel=1e-15)
    assert sizes.next(2.0, 0.0) == 10.0
    # an error that is none is refused
    assert sizes.next(2.0, float("nan")) == pytest.approx(0.4, rel=1e-15)


@given(st.lists(st.tuples(ERRORS, ERRORS), min_size=1, max_size=12))
def test_many_are_sized_as_each_alone(errors):
    alone = [StepSizes(8, 10.0), StepSizes(8, 10.0)]
    both, h = ManyStepSizes(8, 10.0, 2), np.array([0.3, 7.0])
    for pair in errors:
        found = np.array(pair)
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = both.next(h, found, found < 1.0)
        expected = [one.next(size, error) for one, size, error in zip(alone, h, pair, strict=True)]
        np.testing.assert_allclose(sizes, expected, rtol=1e-14)


def test_some_of_many_go_on_or_begin_anew():
    h, errors = np.ones(3), np.array([1e-4, 0.5, 3.0])
    many = ManyStepSizes(8, 10.0, 3)
    many.next(h, errors, errors < 1.0)
    some = many.of(np.array([2, 0]))
    following = many.next(h, np.full(3, 1e-9), np.ones(3, dtype=bool))
    # the one that was refused does not grow
    assert following[2] == 1.0
    again = some.next(h[:2], np.full(2, 1e-9), np.ones(2, dtype=bool))
    np.testing.assert_array_equal(again, following[[2, 0]])
    many.forget(np.array([True, False, False]))
    last = many.next(h, np.full(3, 0.5), np.ones(3, dtype=bool))
    assert last[0] == pytest.approx(0.9 * 0.5**-0.125, rel=1e-15)
    assert last[1] == pytest.approx(last[0] * 0.01**0.05, rel=1e-15)


def test_what_gets_faster_is_refused_less(monkeypatch):
    """A density that concentrates takes a tenth less right-hand sides."""
    mu = mf.Density(mf.Circle(192), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))
    exact = mf.evolve(mu, mf.USA(4.0), 0.165, 1, rtol=1e-12, atol=1e-14).final.coefficients
    calls, errors = [], []
    for before in (0.0, 0.4):
        monkeypatch.setattr("meanfield.integrate.step_sizes._BEFORE", before)
        sol = mf.evolve(mu, mf.USA(4.0), 0.165, 1, rtol=1e-6, atol=1e-9)
        calls.append(int(sol.dataset.evaluations[-1]))
        errors.append(np.abs(sol.final.coefficients - exact).max())
    assert calls[1] < 0.9 * calls[0]
    # a dozen steps of 1e-6 each
    assert max(errors) < 1e-5
