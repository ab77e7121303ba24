"""Sizes of steps by the errors of those before."""

import pytest

from meanfield.evolution.steppers import StepSizes


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
