"""Laws: densities against closed forms and quadrature, samples against moments, and refusals."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meanfield.kernels.multipliers import eigenvalues, scaled_eigenvalues
from meanfield.laws import (
    FourierSeries,
    Law,
    Mixture,
    PointCloud,
    Uniform,
    VonMisesFisher,
    ZonalSeries,
)
from meanfield.laws.law import uniform_frame, uniform_in_span
from meanfield.laws.point_cloud import least_bandwidth
from meanfield.spaces.gegenbauer import gauss_gegenbauer, gegenbauer, multiplicities
from meanfield.spaces.geometry import sphere_points
from tests.laws.handmade import CLOUD, DIMS, DRAWS, EPS, meridian, unit, within_five_errors

pytestmark = pytest.mark.usefixtures("floating_point_errors")


def rotation(dim, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0]


def sphere_rule(n=60):
    """Points and weights on S^2, exact for polynomials of degree 2n - 1."""
    t, w = gauss_gegenbauer(3, n)
    lon = np.arange(2 * n) * np.pi / n
    points = sphere_points(np.repeat(np.arccos(t), 2 * n), np.tile(lon, n))
    return points, np.repeat(w, 2 * n) / (2 * n)


LAWS = {
    "uniform": Uniform(4),
    "von Mises-Fisher": VonMisesFisher(unit(5), 7.0),
    "mixture": Mixture([VonMisesFisher(unit(3), 5.0), Uniform(3)], [3, 1], unit_mass=True),
    "Fourier": FourierSeries(cos=[0.5], sin=[0.0, 0.3]),
    "zonal": ZonalSeries(4, [0.8, 0.1], axis=unit(4)),
    "tokens": PointCloud(CLOUD, [1, 2, 1], unit_mass=True),
    "cloud": PointCloud(CLOUD, [1, 2, 1], bandwidth=0.1, unit_mass=True),
}
every_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


# Densities


def zonal_laws(axis, kappas, bandwidths):
    """Laws about an axis and their ∫ f P_k dσ, k <= 6: a_k/N_k, Λ_k/Λ_0 and e^{-b k(k+d-2)}.

    A bandwidth that is too small for the dimension becomes 1.5 times the least one.
    """
    dim, k, series = axis.size, np.arange(7), [0.5, -0.3, 0.15]
    yield Uniform(dim), np.eye(7)[0]
    yield ZonalSeries(dim, series, axis), np.array([1.0, *series, 0, 0, 0]) / multiplicities(dim, 6)
    for kappa in kappas:
        multipliers = scaled_eigenvalues(kappa, dim, 6)
        yield VonMisesFisher(axis, kappa), multipliers / multipliers[0]
    for bandwidth in bandwidths:
        bandwidth = max(bandwidth, 1.5 * least_bandwidth(dim))
        law = PointCloud(axis[None], bandwidth=bandwidth)
        yield law, np.exp(-bandwidth * k * (k + dim - 2))


@pytest.mark.parametrize("dim", DIMS)
def test_coefficients_of_zonal_laws(dim):
    axis = unit(dim, seed=dim)
    t, w = gauss_gegenbauer(dim, 150)
    polynomials, points = gegenbauer(dim, 6, t), meridian(axis, t)
    for law, coefficients in zonal_laws(axis, [6.0], [0.01]):
        # weights times values are positive and sum to 1; nodes and P_k are right to some 10 ε,
        # which f' of up to 10 f and P_k' of up to k² amplify
        assert np.allclose(polynomials @ (w * law.pdf(points)), coefficients, atol=3e-13), law


def test_mass_and_mean_on_the_sphere():
    """Laws without an axis: Σ w_i Λ_1/Λ_0 m_i and Σ w_i e^{-2 b} x_i."""
    points, w = sphere_rule()
    means = [unit(3, 1), unit(3, 2)]
    first, second = (float(np.divide(*eigenvalues(k, 3, 1)[::-1])) for k in (5.0, 3.0))
    mixture = Mixture(
        [VonMisesFisher(means[0], 5.0), VonMisesFisher(means[1], 3.0)], [6, 4], unit_mass=True
    )
    cloud = PointCloud(CLOUD, [1, 2, 1], bandwidth=0.05, unit_mass=True)
    expected = {
        mixture: 0.6 * first * means[0] + 0.4 * second * means[1],
        cloud: math.exp(-2 * 0.05) * np.array([0.25, 0.5, 0.25]) @ CLOUD,
    }
    for law, mean in expected.items():
        masses = w * law.pdf(points)
        # 7200 positive terms of sum 1, each right to 1e-15 of a peak of 20
        assert abs(masses.sum() - 1.0) < 1e-13
        assert np.allclose(masses @ points, mean, rtol=0.0, atol=1e-13)
        assert np.linalg.norm(mean) > 0.1


@pytest.mark.slow
@given(st.integers(2, 6), st.integers(0, 2**31))
def test_rotating_law_and_points_changes_nothing(dim, seed):
    turn, axis, other = rotation(dim, seed), unit(dim, seed + 1), unit(dim, seed + 2)

    def laws(m, n):
        yield VonMisesFisher(m, 6.0)
        yield ZonalSeries(dim, [0.5, 0.2], axis=m)
        yield PointCloud([m, n], [2, 1], bandwidth=0.2, unit_mass=True)
        yield Mixture([VonMisesFisher(m, 3.0), ZonalSeries(dim, [0.4], axis=n)], [0.3, 0.7])

    points = np.random.default_rng(seed).normal(size=(5, dim))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    for law, turned in zip(laws(axis, other), laws(turn @ axis, turn @ other), strict=True):
        before, after = law.pdf(points), turned.pdf(points @ turn.T)
        # a rotation moves t = <x, m> by a few ε, which f'/f < 10 and the kernel's peak amplify
        assert np.allclose(after, before, rtol=1e-13, atol=1e-13)
        assert before.max() - before.min() > 1e-6


def test_mixture_is_the_weighted_sum():
    laws = [VonMisesFisher(unit(3), 4.0), ZonalSeries(3, [0.5]), Uniform(3)]
    mixture, points = (
        Mixture(laws, [2.0, 5.0, 1.0], unit_mass=True),
        Uniform(3).sample(50, np.random.default_rng(0)),
    )
    expected = 0.25 * laws[0].pdf(points) + 0.625 * laws[1].pdf(points) + 0.125
    # the mixture normalises points once more, by ε, which moves e^{4t} by 4 ε or so
    assert np.allclose(mixture.pdf(points), expected, rtol=20.0 * EPS, atol=0.0)
    assert np.allclose(mixture.weights, [0.25, 0.625, 0.125], rtol=4.0 * EPS, atol=0.0)
    assert np.allclose(Mixture(laws).weights, 1.0 / 3.0, rtol=4.0 * EPS, atol=0.0)


def test_a_law_of_weight_zero_needs_no_density():
    mixture = Mixture([Uniform(3), PointCloud(CLOUD)], [1, 0])
    assert np.array_equal(mixture.pdf(CLOUD), np.ones(3))
    with pytest.raises(ValueError, match="bandwidth"):
        Mixture([Uniform(3), PointCloud(CLOUD)], [1, 1], unit_mass=True).pdf(CLOUD)


# Samples


@pytest.mark.slow
@pytest.mark.parametrize("dim", [*DIMS, 50])
def test_samples_have_the_moments_of_their_law(dim):
    """E P_k(<x, m>) is ∫ f P_k dσ, and nothing is across."""
    axis, rng = unit(dim, seed=dim), np.random.default_rng(11)
    for law, coefficients in zonal_laws(axis, [0.0, 0.5, 10.0, 1e4], [2e-4, 0.05, 2.0]):
        x = law.sample(DRAWS, rng)
        t = np.clip(x @ axis, -1.0, 1.0)
        assert within_five_errors(gegenbauer(dim, 5, t).T, coefficients[:6]), law
        assert within_five_errors(x - np.outer(t, axis), 0.0), law


def test_samples_are_isotropic_around_the_axis():
    """Across the axis the second moments are (1 - E t²)/(d-1) times the identity."""
    axis = np.eye(4)[1]
    for law in (VonMisesFisher(axis, 3.0), PointCloud(axis[None, :], bandwidth=0.1)):
        across = np.delete(law.sample(DRAWS, np.random.default_rng(15)), 1, axis=1)
        expected = np.eye(3) * np.mean(np.sum(across**2, axis=1)) / 3.0
        products = across[:, :, None] * across[:, None, :]
        assert within_five_errors(products.reshape(-1, 9), expected.ravel())


def test_mixture_and_cloud_moments():
    rng = np.random.default_rng(16)
    mixture = Mixture(
        [VonMisesFisher(unit(3, 1), 1e5), VonMisesFisher(unit(3, 2), 1e5)], [3, 1], unit_mass=True
    )
    near_first = mixture.sample(DRAWS, rng) @ unit(3, 1) > 0.99
    assert within_five_errors(near_first.astype(float), 0.75)
    # draws of either law must not come in order
    assert abs(np.corrcoef(near_first[1:], near_first[:-1])[0, 1]) < 5.0 / math.sqrt(DRAWS)
    cloud = PointCloud(CLOUD, [1, 2, 1], bandwidth=0.05, unit_mass=True)
    mean = math.exp(-0.1) * np.array([0.25, 0.5, 0.25]) @ CLOUD
    assert within_five_errors(cloud.sample(DRAWS, rng), mean)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [3, 50])
def test_uniform_points_in_their_span(dim):
    """Moments of the inner products of three of them, up to 3/(d(d + 2)) of the fourth power."""
    rng, count = np.random.default_rng(3), 20_000
    points = np.array([uniform_in_span(3, dim, rng) for _ in range(count)])
    # roundings of a quotient, of three squares and of their sum
    np.testing.assert_allclose(np.linalg.norm(points, axis=2), 1.0, rtol=4 * EPS)
    gram = points @ points.transpose(0, 2, 1)
    one, other, third = gram[:, 0, 1], gram[:, 0, 2], gram[:, 1, 2]
    for seen, exact in (
        (one, 0.0),
        (third, 0.0),
        (one**2, 1 / dim),
        (other**2, 1 / dim),
        (third**2, 1 / dim),
        (third**4, 3 / (dim * (dim + 2))),
        (one * other * third, 1 / dim**2),
        ((one * other) ** 2, 1 / dim**2),
    ):
        assert abs(seen.mean() - exact) < 4.5 * seen.std() / np.sqrt(count)


@pytest.mark.slow
def test_uniform_frames():
    """Orthonormal rows; each has the moments of a uniform point, whatever the signs of qr are."""
    rng, count, dim = np.random.default_rng(4), 20_000, 3
    frames = np.array([uniform_frame(2, dim, rng) for _ in range(count)])
    grams = frames @ frames.transpose(0, 2, 1)
    # two reflections of d entries, and a sum of d products
    np.testing.assert_allclose(grams, np.broadcast_to(np.eye(2), grams.shape), atol=10 * EPS)
    for seen, exact in (
        (frames, 0.0),
        (frames**2, 1 / dim),
        (frames**4, 3 / (dim * (dim + 2))),
        (frames[:, :, 0] * frames[:, :, 1], 0.0),
    ):
        assert (abs(seen.mean(axis=0) - exact) < 4.5 * seen.std(axis=0) / np.sqrt(count)).all()


@every_law
def test_sample_is_of_unit_rows_and_repeats(law):
    first, again, other = (law.sample(40, np.random.default_rng(s)) for s in (1, 1, 2))
    assert first.shape == (40, law.dim)
    # one division by the norm
    assert np.max(np.abs(np.linalg.norm(first, axis=1) - 1.0)) < 4.0 * EPS
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


# What all laws share


@every_law
def test_law_is_a_law(law):
    assert isinstance(law, Law)
    assert repr(law).startswith(type(law).__name__)
    assert len(repr(law)) < 80
    x = law.sample(3, np.random.default_rng(0))
    copy = pickle.loads(pickle.dumps(law))
    assert np.array_equal(copy.sample(3, np.random.default_rng(0)), x)
    if law is not LAWS["tokens"]:
        assert np.array_equal(copy.pdf(x), law.pdf(x))


@every_law
def test_law_is_frozen(law):
    with pytest.raises(AttributeError):
        law.dim = 7
    for value in vars(law).values():
        if isinstance(value, np.ndarray):
            assert not value.flags.writeable


def test_the_callers_arrays_stay_his():
    points, mean, cos = CLOUD.copy(), np.array([0.0, 1.0]), np.array([0.5])
    cloud, bump, series = PointCloud(points), VonMisesFisher(mean, 2.0), FourierSeries(cos)
    points[0, 0], mean[0], cos[0] = 9.0, 9.0, 9.0
    assert cloud.points[0, 0] == 0.0
    assert bump.mean[0] == 0.0
    assert series.cos[0] == 0.5


def test_no_law():
    class Half:
        dim = 3

        def pdf(self, points):
            return np.ones(len(points))

    for thing in (Half(), Uniform, 3, None, CLOUD):
        assert not isinstance(thing, Law)


# Refusals


@every_law
def test_bad_points_and_draws_are_refused(law):
    too_long = np.full((1, law.dim), 2.0)
    if law is not LAWS["tokens"]:
        with pytest.raises(ValueError, match=r"points must have rows of norm 1 .* got norm"):
            law.pdf(too_long)
    with pytest.raises(ValueError, match=rf"points .* length = {law.dim}, got shape \(1, 7\)"):
        law.pdf(np.eye(7)[:1])
    for n in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match=rf"n must be an integer >= 1, got {n}"):
            law.sample(n, np.random.default_rng(0))
    for rng in (None, -3, np.random.RandomState(0)):
        with pytest.raises(ValueError, match=r"rng must be an integer >= 0 or a numpy\.random"):
            law.sample(1, rng)


@every_law
def test_an_integer_stands_for_its_generator(law):
    drawn = law.sample(3, 1)
    assert np.array_equal(drawn, law.sample(3, np.random.default_rng(1)))
    assert not np.array_equal(drawn, law.sample(3, 2))
