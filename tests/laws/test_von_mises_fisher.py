"""The von Mises-Fisher law: its density in closed form, far out and in high dimension."""

import math

import mpmath
import numpy as np
import pytest

from meanfield.kernels.multipliers import scaled_eigenvalues
from meanfield.laws import Mixture, Uniform, VonMisesFisher
from tests.laws.handmade import EPS, meridian

pytestmark = pytest.mark.usefixtures("floating_point_errors")


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


@pytest.mark.parametrize(
    ("dim", "kappa"), [(2, 1e4), (3, 1e6), (24, 300.0), (768, 1e4), (4096, 1e6)]
)
def test_log_densities_against_mpmath(dim, kappa):
    """They are finite where the pdf overflows, as at d = 768, and below where it underflows."""
    law, at = VonMisesFisher(np.eye(dim)[0], kappa), np.eye(dim)[:2]
    assert np.array_equal(law.logpdf(at.astype(np.float32)), law.logpdf(at))
    with mpmath.workdps(60):
        ν, κ = mpmath.mpf(dim) / 2 - 1, mpmath.mpf(kappa)
        norm = mpmath.loggamma(ν + 1) + ν * mpmath.log(2 / κ) + mpmath.log(mpmath.besseli(ν, κ))
        exact = [float(κ - norm), float(-norm)]
    assert np.allclose(law.logpdf(at), exact, rtol=1e-13, atol=EPS * (10.0 + kappa))
    if dim == 768:
        assert law.logpdf(at)[0] == pytest.approx(1375.952434, abs=1e-6)
        mixed = Mixture([law, VonMisesFisher(np.eye(dim)[1], kappa), Uniform(dim)])
        assert mixed.logpdf(at) == pytest.approx([exact[0] - np.log(3.0)] * 2, rel=1e-14)


@pytest.mark.parametrize("dim", [2, 3, 24, 768, 4096])
@pytest.mark.parametrize("kappa", [1e-3, 0.7, 30.0, 2e4, 9e5])
def test_the_concentration_of_a_fit_against_mpmath(dim, kappa):
    """Points at two angles ±φ from m in a plane, whose mean has length A_d(κ) = cos φ."""
    with mpmath.workdps(60):
        ν, κ = mpmath.mpf(dim) / 2, mpmath.mpf(kappa)
        cosine = mpmath.besseli(ν, κ) / mpmath.besseli(ν - 1, κ)
        sine = float(mpmath.sqrt(1 - cosine**2))
    points = np.zeros((2, dim))
    points[:, 0], points[:, 1] = float(cosine), [sine, -sine]
    fitted = VonMisesFisher.fit(points)
    assert np.allclose(fitted.mean, np.eye(dim)[0], rtol=0.0, atol=EPS)
    # rows are rounded: a small mean by ε, and of a small angle the sine by ε of itself
    assert fitted.kappa == pytest.approx(kappa, rel=8.0 * EPS * (2.0 + 1.0 / float(cosine)))


@pytest.mark.parametrize(("dim", "kappa"), [(2, 3.0), (24, 200.0), (768, 1e4), (4096, 2e4)])
def test_fits_of_draws(dim, kappa):
    """Of n draws log κ has the error sqrt((d - 1)/2 n)/(d - 1) or so; five of them are allowed."""
    law = VonMisesFisher(np.eye(dim)[-1], kappa)
    points = law.sample(2000, 1)
    fitted = VonMisesFisher.fit(points)
    assert fitted.kappa == pytest.approx(kappa, rel=5.0 * np.sqrt(2.0 / (2000 * (dim - 1))))
    # no law of the family is more likely
    best = fitted.logpdf(points).mean()
    for factor in 0.99, 1.01:
        assert VonMisesFisher(fitted.mean, factor * fitted.kappa).logpdf(points).mean() < best
    assert law.logpdf(points).mean() < best
    # rounding of 6e-8 in each coordinate
    single = VonMisesFisher.fit(points.astype(np.float32))
    assert single.kappa == pytest.approx(fitted.kappa, rel=1e-5)
    # a weight of 2/n counts a row twice
    weights = np.full(2000, 1.0 / 2001)
    weights[0] *= 2.0
    twice = VonMisesFisher.fit(np.vstack([points, points[:1]]))
    assert VonMisesFisher.fit(points, weights).kappa == pytest.approx(twice.kappa, rel=1e-12)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0.6, 0.8]] * 3, r"points must be spread so that kappa <= 1e\+06, got one beyond"),
        ([[1.0, 0.0], [1.0, 1e-4]], "points must be spread so that kappa"),
        (np.float32([[0.6, 0.8], [-0.6, -0.8]]), "points must have a mean that is longer than"),
        (np.vstack([np.eye(3), -np.eye(3)]), "the uniform law fits them"),
        ([[1.0, 1.0]], "points must have rows of norm 1"),
    ],
)
def test_what_no_law_of_the_family_fits_is_refused(points, message):
    with pytest.raises(ValueError, match=message):
        VonMisesFisher.fit(points)


def test_weights_of_a_fit_of_another_sum_are_refused_without_an_argument_that_it_lacks():
    with pytest.raises(ValueError, match=r"weights must have sum 1 .*, got 2: divide by it$"):
        VonMisesFisher.fit(np.eye(2), [1.0, 1.0])
