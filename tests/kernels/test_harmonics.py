"""Sums over tokens through harmonics on S², where their series has lost its digits."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.kernels import harmonics
from meanfield.kernels.direct import log_moment
from meanfield.kernels.harmonics import SphereSums
from meanfield.kernels.kernel import Exponential
from meanfield.kernels.token_sums import score_sums
from meanfield.spaces.geometry import project
from tests.kernels.test_token_sums import cloud


def test_few_terms_first_where_g_is_smallest():
    """With a limit on terms, what is left of the small ones keeps nine digits here."""
    points, masses = cloud(3, n=1500)
    exact = project(points, log_moment(points, masses, 25.0 * points)[1])
    for most_pairs, limit in ({"most_pairs": 15_000}, 1e-9), ({}, 1e-12):
        pull, unit, log_g = SphereSums(Exponential(25.0)).pull_of_others(
            points, masses, **most_pairs
        )
        assert np.abs(pull * np.exp(unit - log_g)[:, None] - exact).max() < limit


@pytest.mark.slow
def test_tokens_that_have_lost_all_digits_are_summed_directly(monkeypatch):
    """On S^2 under a matrix that most tokens do not answer to, however many they are."""
    monkeypatch.setattr(harmonics, "_MOST_PAIRS", 1000)
    points = mf.Particles.quantise(mf.Uniform(3), 2000).points
    points = points[np.abs(points[:, 0]) < 0.3]
    matrix = np.diag([60.0, 1.0, 0.5])
    masses = np.full(len(points), 1.0 / len(points))
    [sums] = score_sums([matrix]).log_moments(points, masses, points)
    expected = mf.Particles(points, sums="direct").log_moment(points @ matrix.T)
    # shares below 1e-6 of the scale are summed; above, a series keeps 2e-13 of the scale
    assert np.abs(sums[1] - expected[1]).max() < 1e-6
