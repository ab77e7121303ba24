"""Laws: densities against closed forms and quadrature, samples against moments, and refusals."""

import math
import pickle
import re
import tracemalloc

import mpmath
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
from meanfield.laws.point_cloud import heat_kernel, least_bandwidth
from meanfield.laws.series import Pieces
from meanfield.measures import Density
from meanfield.spaces import Circle, Sphere
from meanfield.spaces.circle import horner
from meanfield.spaces.gegenbauer import gauss_gegenbauer, gegenbauer, multiplicities
from meanfield.spaces.geometry import circle_points, sphere_points

EPS = np.finfo(float).eps
DRAWS = 20_000
DIMS = [2, 3, 5, 20]


@pytest.fixture(autouse=True)
def _no_silent_floating_point_errors():
    with np.errstate(all="raise"):
        yield


def unit(dim, seed=0):
    vector = np.random.default_rng(seed).normal(size=dim)
    return vector / np.linalg.norm(vector)


def meridian(axis, t):
    """Points with <x, axis> = t, in a plane in general position."""
    across = np.cos(1.0 + np.arange(axis.size) ** 1.5)
    for _ in range(2):
        across -= (across @ axis) * axis
        across /= np.linalg.norm(across)
    return np.outer(t, axis) + np.outer(np.sqrt((1.0 - t) * (1.0 + t)), across)


def rotation(dim, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0]


def sphere_rule(n=60):
    """Points and weights on S^2, exact for polynomials of degree 2n - 1."""
    t, w = gauss_gegenbauer(3, n)
    lon = np.arange(2 * n) * np.pi / n
    points = sphere_points(np.repeat(np.arccos(t), 2 * n), np.tile(lon, n))
    return points, np.repeat(w, 2 * n) / (2 * n)


def within_five_errors(samples, expected):
    """Whether sample means differ from `expected` by less than 5 standard errors (1 in 1.7e6)."""
    samples = np.asarray(samples)
    error = samples.std(axis=0) / math.sqrt(len(samples))
    return bool(np.all(np.abs(samples.mean(axis=0) - expected) <= 5.0 * error + 1e-14))


CLOUD = np.array([[0.0, 0.0, 1.0], [0.6, 0.0, 0.8], [0.0, -1.0, 0.0]])
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


@pytest.mark.parametrize("kappa", [0.0, 1e-8, 0.5, 5.0, 300.0])
def test_von_mises_fisher_closed_forms(kappa):
    """d = 2: e^{κt}/I_0(κ); d = 3: κ e^{κt}/sinh κ, in 30 digits, where e^{-2κ} = 1e-260 too."""
    t = np.array([-1.0, -0.6, 0.0, 0.8, 1.0])
    sine = np.array([0.0, 0.8, 1.0, 0.6, 0.0])
    with mpmath.workdps(30):
        κ = mpmath.mpf(kappa)
        norms = {2: mpmath.besseli(0, κ), 3: mpmath.sinh(κ) / κ if kappa else mpmath.mpf(1)}
        for dim, norm in norms.items():
            points = np.zeros((5, dim))
            points[:, 0], points[:, -1] = t, sine
            exact = [float(mpmath.exp(κ * mpmath.mpf(a)) / norm) for a in t]
            pdf = VonMisesFisher(np.eye(dim)[0], kappa).pdf(points)
            # 0.6 and 0.8 are rounded, which moves κ t by κ ε; so are κ t, κ t - κ, which is up to
            # 2κ, and the logarithm of the norm, by as much
            assert np.allclose(pdf, exact, rtol=4.0 * EPS * (10.0 + kappa), atol=0.0)


def test_von_mises_fisher_is_relative_in_the_tail_at_kappa_1e4():
    kappa, angle = 1e4, 0.3
    point = np.array([[math.sin(angle), 0.0, math.cos(angle)]])
    pdf = VonMisesFisher([0.0, 0.0, 1.0], kappa).pdf(point)[0]
    with mpmath.workdps(40):
        x, _, z = (mpmath.mpf(float(c)) for c in point[0])
        cosine = z / mpmath.sqrt(x * x + z * z)
        exact = 2 * kappa * mpmath.exp(kappa * (cosine - 1)) / (1 - mpmath.exp(-2 * kappa))
        assert exact < 1e-180
        # the exponent is 447, so its own rounding is 447 ε; the factor 4 is for |x - m|²
        assert abs(pdf / exact - 1) < 4.0 * EPS * 447.0
    assert VonMisesFisher([0.0, 0.0, 1.0], kappa).pdf([[0.0, 0.0, -1.0]])[0] == 0.0


def test_von_mises_fisher_in_dimension_1024():
    """e^{-κ} Λ_0 underflows there; the density does so, or overflows and is refused."""
    axis = np.eye(1024)[0]
    law = VonMisesFisher(axis, 1e4)
    with np.errstate(under="ignore"):
        assert scaled_eigenvalues(1e4, 1024, 0)[0] == 0.0
    with pytest.raises(ValueError, match=r"kappa must be smaller .* dim = 1024.* e\^1691"):
        law.pdf(axis[None, :])
    with mpmath.workdps(40):
        κ, ν = mpmath.mpf(10_000), mpmath.mpf(511)
        log_norm = mpmath.loggamma(512) + ν * mpmath.log(2 / κ) + mpmath.log(mpmath.besseli(ν, κ))
        for t in (0.8, 0.88):
            exact = mpmath.exp(κ * mpmath.mpf(t) - log_norm)
            # exponents of 1e4 are rounded to 1e4 ε
            assert abs(law.pdf(meridian(axis, np.array([t])))[0] / exact - 1) < 4e4 * EPS


@pytest.mark.parametrize("bandwidth", [0.002, 0.05, 0.4, 3.0])
def test_heat_kernel_closed_forms(bandwidth):
    """d = 2: wrapped Gaussians; d = 4: their derivative over sin φ. Sums of positive terms."""
    φ = np.linspace(1e-3, np.pi - 1e-3, 101)
    images = φ[:, None] + 2.0 * np.pi * np.arange(-6, 7)
    with np.errstate(under="ignore"):
        bumps = np.exp(-(images**2) / (4.0 * bandwidth))
        circle = math.sqrt(np.pi / bandwidth) * bumps.sum(axis=1)
        three = (images * bumps).sum(axis=1) / np.sin(φ)
        three *= math.exp(bandwidth) * math.sqrt(np.pi) / (4.0 * bandwidth**1.5)
    for dim, exact in ((2, circle), (4, three)):
        axis = np.eye(dim)[0]
        values = PointCloud(axis[None, :], bandwidth=bandwidth).pdf(meridian(axis, np.cos(φ)))
        # rounding of terms as large as the peak, and of t = <x, x_i>: ε/(2 bandwidth) of h
        with np.errstate(under="ignore"):
            relative = EPS / bandwidth * exact
        tolerance = 1e-14 * heat_kernel(bandwidth, dim)(np.zeros(1))[0] + relative
        if dim == 4:
            # the closed form divides a difference by sin φ >= 1e-3
            tolerance = tolerance + 1e-11 * (bandwidth > 1.0)
        assert np.all(np.abs(values - exact) <= tolerance)


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


@given(
    st.lists(st.floats(-0.2, 0.2), max_size=4),
    st.lists(st.floats(-0.05, 0.05), max_size=3),
    st.floats(0.0, 6.3),
)
def test_fourier_series_is_its_sum(cos, sin, angle):
    exact = 1.0 + sum(a * math.cos(k * angle) for k, a in enumerate(cos, 1))
    exact += sum(b * math.sin(k * angle) for k, b in enumerate(sin, 1))
    # Horner's rule: K + 1 roundings of a sum below 2
    assert abs(FourierSeries(cos, sin).pdf(circle_points([angle]))[0] - exact) < 20.0 * EPS


@pytest.mark.parametrize("dim", DIMS)
def test_zonal_series_is_its_sum(dim):
    t = np.linspace(-1.0, 1.0, 41)
    law = ZonalSeries(dim, [0.3, -0.2, 0.1])
    exact = 1.0 + np.array([0.3, -0.2, 0.1]) @ gegenbauer(dim, 3, t)[1:]
    assert np.allclose(law.pdf(meridian(np.eye(dim)[-1], t)), exact, rtol=0.0, atol=20.0 * EPS)
    assert np.array_equal(law.axis, np.eye(dim)[-1])


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


def test_many_tokens_go_in_blocks():
    """More tokens than a block holds, against a plain sum; unequal weights in each block."""
    rng = np.random.default_rng(5)
    tokens, points = Uniform(3).sample(70_000, rng), Uniform(3).sample(3, rng)
    weights = rng.uniform(size=70_000)
    law = PointCloud(tokens, weights, bandwidth=0.1, unit_mass=True)
    kernel = heat_kernel(0.1, 3)
    plain = [kernel(np.arccos(np.clip(tokens @ x, -1, 1))) @ law.weights for x in points]
    # sums of positive terms in another order
    assert np.allclose(law.pdf(points), plain, rtol=1e-13, atol=0.0)
    assert np.ptp(plain) > 1e-4


@pytest.mark.slow
def test_memory_of_a_cloud_is_bounded():
    rng = np.random.default_rng(6)
    law = PointCloud(Uniform(3).sample(470, rng), bandwidth=0.02)
    points = Uniform(3).sample(20_000, rng)
    tracemalloc.start()
    law.pdf(points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # all inner products at once would take 75 MB; points and result take 1 MB
    assert peak < 8e6


# Positivity


def named_minimum(error):
    return float(re.search(r"minimum (\S+) at", str(error.value))[1])


@pytest.mark.parametrize("n", [1, 2, 5, 20, 50])
def test_exact_zeros_are_accepted(n):
    """((1 + cos θ)/2)^n, normalised: a zero of order 2n at π. A little more of it is refused."""
    a = np.array([2.0 * math.comb(2 * n, n - k) / math.comb(2 * n, n) for k in range(1, n + 1)])
    law = FourierSeries(cos=a)
    at_zero = law.pdf([[-1.0, 0.0]])[0]
    assert 0.0 <= at_zero < 4.0 * EPS * (n + 1) * (1.0 + a.sum())
    with pytest.raises(ValueError, match="must give a density >= 0") as error:
        FourierSeries(cos=a * (1.0 + 1e-10))
    assert named_minimum(error) == pytest.approx(-1e-10, rel=1e-3)


@pytest.mark.parametrize("dim", DIMS)
def test_zonal_zeros_are_accepted(dim):
    """(1 + t)² / (1 + 1/d), in Gegenbauer polynomials: t² = 1/d + (1 - 1/d) P_2."""
    norm = 1.0 + 1.0 / dim
    a = np.array([2.0, 1.0 - 1.0 / dim]) / norm
    assert ZonalSeries(dim, a).pdf(-np.eye(dim)[-1:])[0] < 20.0 * EPS
    with pytest.raises(ValueError, match=r"at t = <x, axis> = -(1|0\.9999\d*)$") as error:
        ZonalSeries(dim, a * (1.0 + 1e-10))
    assert named_minimum(error) == pytest.approx(-1e-10, rel=1e-3)


@given(st.integers(1, 12), st.integers(0, 2**31))
def test_minimum_is_the_true_one(degree, seed):
    """Between the least value on a grid of step h and K² h² Σ|c_k|/8 less, by Bernstein."""
    rng = np.random.default_rng(seed)
    c = rng.normal(size=degree) + 1j * rng.normal(size=degree)
    angles = np.linspace(0.0, 2.0 * np.pi, 20_001)

    def function(a):
        return 1.0 + horner(c, np.exp(1j * a)).real

    lowest, where = Pieces(function, degree, 2.0 * np.pi).minimum()
    size = np.abs(c).sum()
    on_grid = function(angles).min()
    gap = size * (degree * angles[1]) ** 2 / 8.0
    assert on_grid - gap <= lowest <= on_grid + 1e-14 * (1.0 + size)
    assert abs(function(np.array([where]))[0] - lowest) < 1e-14 * (1.0 + size)


def test_a_dip_between_the_points_of_a_grid_is_seen():
    """1 + a cos kθ + … with a dip of width 1/200 where no small grid has a point."""
    k = np.arange(1, 201)
    a = -2.0 * (1.0 - k / 201.0) * 0.006
    turn = k * 1.2345
    cos, sin = a * np.cos(turn), a * np.sin(turn)
    depth = 1.0 + a.sum()
    assert depth < -0.1
    with pytest.raises(ValueError, match=rf"minimum {depth:.6g} at θ = 1\.2345$"):
        FourierSeries(cos, sin)
    share = 1.0 / -a.sum()
    FourierSeries(cos * share, sin * share)


def test_pieces_reproduce_and_bound_a_function():
    rng = np.random.default_rng(7)
    c = (rng.normal(size=300) + 1j * rng.normal(size=300)) / np.arange(1.0, 301.0) ** 2

    def function(a):
        return 1.0 + horner(c, np.exp(1j * a)).real

    pieces, angles = Pieces(function, 300, 2.0 * np.pi), rng.uniform(0.0, 2.0 * np.pi, 20_000)
    size = 1.0 + np.abs(c).sum()
    # 6e-16 of interpolation; e^{iθ} to the power 300 carries 300 ε; sums of ten terms
    assert np.max(np.abs(pieces(angles) - function(angles))) < 400.0 * EPS * size
    assert abs(pieces(np.array([2.0 * np.pi]))[0] - function(np.zeros(1))[0]) < 2e3 * EPS * size


@pytest.mark.parametrize("power", [0, 1, 18])
def test_envelope_bounds_the_density(power):
    """Without the bound, rejection would cut off peaks; and a loose one would waste draws."""
    kernel = heat_kernel(0.02, power + 2)
    upper, steepest = kernel.envelope(power)
    angles = np.linspace(0.0, np.pi, 100_001)[1:-1]
    cell = np.minimum((angles / kernel.width).astype(int), upper.size - 1)
    density = kernel(angles) * np.sin(angles) ** power
    bound = upper[cell] * steepest[cell] ** power
    # the sum of ten terms in the one and the other order; the peak is what terms cancel from
    assert np.all(density <= bound * (1.0 + 1e-13) + 1e-15 * kernel(np.zeros(1))[0])
    assert bound.mean() < 2.0 * density.mean()


def test_minimum_at_the_edge_of_a_cell_beats_one_near_a_centre():
    """Least at θ_0 between two cells, by 1.5e-4 below the dips at θ_0 ± 2π/3 inside of cells."""
    edge = 2.0 * np.pi * 10 / 64

    def function(a):
        return 1.0 - 0.5 * np.cos(3.0 * (a - edge)) - 1e-4 * np.cos(a - edge)

    pieces = Pieces(function, 3, 2.0 * np.pi)
    assert edge / pieces.width == pytest.approx(10.0)
    lowest, where = pieces.minimum()
    # five roundings of numbers up to 1 or their half
    assert lowest == pytest.approx(0.4999, abs=4.0 * EPS)
    # f'' = 4.5 turns an error of 4 ε in f into one of 2e-8 in θ
    assert where == pytest.approx(edge, abs=1e-7)


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


def test_fourier_series_moments():
    cos, sin = np.array([0.5, 0.0, -0.2]), np.array([0.0, 0.3])
    x = FourierSeries(cos, sin).sample(DRAWS, np.random.default_rng(13))
    k = np.arange(1, 5)
    angles = np.arctan2(x[:, 1], x[:, 0])[:, None] * k
    assert within_five_errors(np.cos(angles), [0.25, 0.0, -0.1, 0.0])
    assert within_five_errors(np.sin(angles), [0.0, 0.15, 0.0, 0.0])


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


def test_without_bandwidth_draws_are_tokens():
    law = PointCloud(CLOUD, [1, 2, 0], unit_mass=True)
    x = law.sample(DRAWS, np.random.default_rng(18))
    hits = np.all(x[:, None, :] == law.points[None, :, :], axis=2).astype(float)
    assert np.array_equal(hits.sum(axis=1), np.ones(DRAWS))
    assert within_five_errors(hits[:, :2], [1 / 3, 2 / 3])
    assert hits[:, 2].sum() == 0.0


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


def test_empty_series_is_uniform():
    points = circle_points([0.3, 2.0])
    for law in (FourierSeries(), FourierSeries([], []), ZonalSeries(2, [])):
        assert np.array_equal(law.pdf(points), [1.0, 1.0])
        assert law.sample(5, np.random.default_rng(0)).shape == (5, 2)


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


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 8, 100, 1000])
def test_the_bandwidth_that_a_refusal_names_is_allowed(dim):
    tokens = np.eye(dim)[:2]
    with pytest.raises(ValueError, match="bandwidth must be >= ") as error:
        PointCloud(tokens, bandwidth=1e-9)
    named = float(re.search(r">= (\S+) for", str(error.value))[1])
    pdf = PointCloud(tokens, bandwidth=named).pdf(tokens)
    # the highest peak that is allowed, shared by two tokens
    assert np.all((pdf > 1.0) & (pdf < 1e10))
    with pytest.raises(ValueError, match="bandwidth must be >= "):
        PointCloud(tokens, bandwidth=0.98 * named)


@pytest.mark.parametrize("mean", [None, 100.0], ids=["spread", "bump"])
@pytest.mark.parametrize("space", [Circle(256), Sphere(63)], ids=repr)
def test_many_tokens_are_smoothed_by_a_series(space, mean):
    """100 tokens on a grid of many points against the heat kernel about each of them."""
    dim, bandwidth = space.dim, 0.01
    bump = Uniform(dim) if mean is None else VonMisesFisher(np.eye(dim)[0], mean)
    tokens = bump.sample(100, np.random.default_rng(0))
    weights = np.random.default_rng(1).dirichlet(np.ones(100))
    law, kernel = PointCloud(tokens, weights, bandwidth=bandwidth), heat_kernel(bandwidth, dim)
    angles = np.arccos(np.clip(space.points @ tokens.T, -1.0, 1.0))
    values = kernel(angles) @ weights
    # both have errors of some 1e-14 of a token's peak, of which f is a share
    assert np.abs(law.pdf(space.points) - values).max() < 3e-14 * values.max()
    assert np.abs(Density(space, law).coefficients - space.analysis(values)).max() < 3e-14


def test_a_density_of_many_tokens_asks_the_kernel_of_no_pair(monkeypatch):
    asked, plain = [], Pieces.__call__

    def noted(self, angles):
        asked.append(angles.size)
        return plain(self, angles)

    monkeypatch.setattr(Pieces, "__call__", noted)
    rng = np.random.default_rng(0)
    for space, points in (Sphere(63), 0), (Circle(256), 2):
        law = PointCloud(Uniform(space.dim).sample(12_288, rng), bandwidth=0.01)
        asked.clear()
        Density(space, law)
        # on the circle the series, on the grid and between its points
        assert sum(asked) == points * len(space.weights)
