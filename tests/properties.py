"""What tests of properties share: how many examples they draw, and what they draw."""

import re

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

# of the profile "same", in the root's conftest.py
USUAL = 40
EPS = np.finfo(float).eps

seeds = st.integers(0, 2**32 - 1)


def scaled(count):
    """A number of examples: `count`, under --random as many times more as the profile draws."""
    return max(1, round(count * settings.default.max_examples / USUAL))


def examples(count, **others):
    """Settings of a test that draws `count` examples, or 50 times as many under --random.

    A test without them draws 40, or 2,000.
    """
    return settings(max_examples=scaled(count), **others)


def powers_of_ten(low, high):
    """Numbers from 10^low to 10^high, as many of each size."""
    return st.floats(low, high).map(lambda x: 10.0**x)


def unit_points(dim, n, seed):
    """Uniform unit rows (n, d)."""
    points = np.random.default_rng(seed).normal(size=(n, dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def rotation(dim, seed):
    """A uniform orthogonal matrix of determinant 1, right to rounding."""
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))
    q = q * np.sign(np.diag(r))
    if np.linalg.det(q) < 0:
        q[:, 0] = -q[:, 0]
    return q


def made_or_refused(make, *arguments):
    """What a call makes, or None where a ValueError says in a sentence what must be otherwise."""
    try:
        return make(*arguments)
    except ValueError as error:
        message = str(error)
    assert re.search(r"\bmust\b|too (large|many) for dim", message), message
    return None
