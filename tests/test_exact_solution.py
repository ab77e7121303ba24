"""β = 0: the Möbius orbit of the uniform measure solves the nonlinear equation exactly.

f = ((1-r²)/|x-r e|²)^{d-1} with r' = (1-r²) m/2 and
m = |∫ x dmu| = (2(d-1)/d) r ₂F₁(1, 1-d/2; 1+d/2; r²).
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import hyp2f1

import meanfield as mf


def moment(dim, r):
    return 2 * (dim - 1) / dim * r * hyp2f1(1.0, 1.0 - dim / 2, 1.0 + dim / 2, r * r)


def radius(dim, r0, times):
    run = solve_ivp(
        lambda t, r: 0.5 * (1 - r * r) * moment(dim, r),
        (0.0, times[-1]),
        [r0],
        t_eval=times,
        method="DOP853",
        rtol=3e-14,
        atol=1e-15,
    )
    return run.y[0]


class Orbit:
    """The law of the Möbius orbit; any object with dim, pdf and sample is one."""

    def __init__(self, dim, r):
        self.dim, self.r, self.axis = dim, r, np.eye(dim)[-1]

    def pdf(self, points):
        distance = 1 + self.r**2 - 2 * self.r * (points @ self.axis)
        return ((1 - self.r**2) / distance) ** (self.dim - 1)

    def sample(self, n, rng):
        raise NotImplementedError


CASES = [
    (space, r0)
    for r0 in (0.1, 0.3)
    for space in (mf.Circle(64), mf.Zonal(2, 31), mf.Zonal(3, 31), mf.Zonal(4, 31), mf.Zonal(8, 31))
    # r0 = 0.3 in d = 8 has a peak of 5e12 and takes 2047 degrees: it runs in validation
    if not (space.dim == 8 and r0 == 0.3)
] + [(mf.Sphere(31), 0.1)]


@pytest.mark.parametrize(("space", "r0"), CASES, ids=str)
def test_mobius_orbit(space, r0):
    dim = space.dim
    times = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    exact = radius(dim, r0, times)
    mu = mf.Density(space, Orbit(dim, r0))
    sol = mf.evolve(mu, mf.SA(0.0), 4.0, 4, rtol=1e-12, atol=1e-14, tail_tol=1e-11, largest=2047)
    assert sol.status == "finished"
    for r, mu in zip(exact, sol.measures, strict=True):
        m = mu.mean()[-1]
        f = Orbit(dim, r).pdf(mu.space.points)
        # the peak grows to 5e8 in d = 8, so the density's error is one relative to its peak
        assert np.max(np.abs(mu.values - f)) < 1e-9 * f.max()
        assert abs(m - moment(dim, r)) < 1e-9
        # r read off the density itself: its value at the pole is ((1+r)/(1-r))^{d-1}
        pole = mu.at(np.eye(dim)[-1:])[0] ** (1 / (dim - 1))
        assert abs((pole - 1) / (pole + 1) - r) < 1e-9
    assert exact[-1] > exact[0] + 0.2


def test_circle_is_ott_antonsen():
    # d = 2: r² = r0² e^t / (1 - r0² + r0² e^t), and c_k = r^k
    r0, t = 0.3, 2.0
    mu = mf.Density(mf.Circle(64), Orbit(2, r0))
    c = mf.evolve(mu, mf.USA(0.0), t, 1, rtol=1e-12, atol=1e-14, tail_tol=1e-12).final.coefficients
    r = np.sqrt(r0**2 * np.exp(t) / (1 - r0**2 + r0**2 * np.exp(t)))
    assert np.allclose(np.abs(c[:20]), r ** np.arange(20), rtol=0, atol=1e-12)
