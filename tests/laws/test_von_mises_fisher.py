"""The von Mises-Fisher law: its density in closed form, far out and in high dimension."""

import math

import mpmath
import numpy as np
import pytest

from meanfield.kernels.multipliers import scaled_eigenvalues
from meanfield.laws import VonMisesFisher
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
