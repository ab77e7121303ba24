"""Quantised tokens: equal masses at quantiles on the circle, lattices on S²."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.laws import quantisation

LAW = mf.FourierSeries(cos=[0.5], sin=[0.2])
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([1.0, 0.0, 0.0], 4.0), mf.VonMisesFisher([0.0, 0.6, 0.8], 2.0)], [0.4, 0.6]
)


@pytest.mark.parametrize("law", [LAW, mf.VonMisesFisher([0.6, 0.8], 200.0), mf.Uniform(2)])
def test_quantised_points_are_quantiles(law):
    """As many points as their share up to each angle, to one."""
    n = 400
    points = mf.Particles.quantise(law, n).points
    angles = np.sort(mf.spaces.geometry.circle_angles(points))
    nodes, weights = np.polynomial.legendre.leggauss(400)
    for end in (0.5, 2.0, 4.0, 6.0):
        at = mf.spaces.geometry.circle_points(0.5 * end * (nodes + 1.0))
        share = weights @ law.pdf(at) * end / (4 * np.pi)
        assert abs(np.sum(angles < end) - n * share) < 1.0


@pytest.mark.parametrize("law", [BUMPS, mf.VonMisesFisher([0.0, 0.6, 0.8], 5.0), mf.Uniform(3)])
def test_lattices_on_the_sphere(law):
    """Their energy and mean come nearer to the law's than those of random draws do."""
    density = mf.Density(mf.Sphere(63), law)
    rng = np.random.default_rng(1)
    drawn = mf.Particles.sample(law, 4000, rng)
    for lattice in mf.Particles.quantise(law, 4000), mf.Particles.quantise(law, 4000, rng):
        assert mf.mmd(lattice, density, 2.0) < 0.1 * mf.mmd(drawn, density, 2.0)
    coarse = mf.mmd(mf.Particles.quantise(law, 250), density, 2.0)
    fine = mf.mmd(mf.Particles.quantise(law, 4000), density, 2.0)
    assert fine < coarse / 8


def spread(points, centre):
    """Mean square distance of the points nearer to a centre than 0.8, and their share."""
    squares = np.sum((points - centre) ** 2, axis=1)
    near = squares < 0.8**2
    return squares[near].mean(), near.mean()


@pytest.mark.parametrize("kappa", [1e2, pytest.param(1e6, marks=pytest.mark.slow)])
def test_narrow_laws_keep_mass_and_width(kappa):
    """Two bumps in general position: shares as given, mean squares 2/κ of a tangent Gaussian."""
    centres = mf.spaces.geometry.sphere_points(np.array([1.0, 1.0]), np.array([0.3, 2.1234]))
    law = mf.Mixture([mf.VonMisesFisher(c, kappa) for c in centres], [0.3, 0.7])
    points = mf.Particles.quantise(law, 4000).points
    for centre, share in zip(centres, [0.3, 0.7], strict=True):
        square, found = spread(points, centre)
        assert found == pytest.approx(share, abs=1e-3)
        # as exactly as a lattice of thousands of points knows it
        assert kappa * square == pytest.approx(2.0, rel=0.04)


@pytest.mark.slow
def test_a_cloud_of_one_token_is_as_wide_as_its_bandwidth():
    token = np.array([1.0, 2.0, 0.5]) / np.sqrt(5.25)
    for bandwidth in (2e-5, 2e-3):
        cloud = mf.PointCloud(token[None], bandwidth=bandwidth)
        mean = mf.Particles.quantise(cloud, 5000).mean()
        assert 1 - mean @ token == pytest.approx(1 - np.exp(-2 * bandwidth), rel=2e-3)


class Leaking:
    """Nine tenths of a bump."""

    dim, bump = 3, mf.VonMisesFisher([0.0, 0.6, 0.8], 1.0)

    def pdf(self, points):
        return 0.9 * self.bump.pdf(points)

    def sample(self, n, rng):
        return self.bump.sample(n, rng)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mf.Particles.quantise(mf.Uniform(4), 10), "law must be one on the circle or S"),
        (lambda: mf.Particles.quantise(LAW, 0), "n must be an integer >= 1"),
        (
            lambda: mf.Particles.quantise(LAW, 5, -3),
            "rng must be an integer >= 0 or a numpy.random",
        ),
        (
            lambda: mf.Particles.quantise(Leaking(), 5),
            "the mass of .* was not found on 1536 rings",
        ),
    ],
)
def test_bad_input(call, message, monkeypatch):
    # the finest panels, four times these, take seconds
    monkeypatch.setattr(quantisation, "_STARTS", quantisation._STARTS[:2])
    with pytest.raises(ValueError, match=message):
        call()
