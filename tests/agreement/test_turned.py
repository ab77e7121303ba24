"""One problem turned, and as tokens: the answers agree. See also test_differential.py."""

import numpy as np
import pytest

import meanfield as mf

TIGHT = {"rtol": 1e-12, "atol": 1e-14, "on_unresolved": "stop"}


@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
def test_rotation_on_the_circle(kind):
    angle = 1.234
    c, s = np.cos(angle), np.sin(angle)
    laws = [
        mf.Mixture([mf.VonMisesFisher(m, 3.0), mf.VonMisesFisher(n, 5.0)], [0.5, 0.5])
        for m, n in [([1.0, 0.0], [0.6, 0.8]), ([c, s], [0.6 * c - 0.8 * s, 0.6 * s + 0.8 * c])]
    ]
    first, second = (
        mf.evolve(mf.Density(mf.Circle(128), law, tail_tol=1e-11), kind(2.0), 0.3, 2, **TIGHT)
        for law in laws
    )
    assert np.allclose(first.dataset.energy, second.dataset.energy, rtol=0, atol=1e-12)
    points = mf.spaces.geometry.circle_points(np.linspace(0, 6, 60))
    turned = points @ np.array([[c, s], [-s, c]])
    assert np.max(np.abs(first.final.pdf(points) - second.final.pdf(turned))) < 1e-11
