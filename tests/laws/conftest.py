"""Fixtures of tests of laws."""

import numpy as np
import pytest


@pytest.fixture
def floating_point_errors():
    """Floating-point errors of any kind are raised: nothing may divide by 0, over- or underflow."""
    with np.errstate(all="raise"):
        yield
