"""Distances in the attention kernel and in H^s, against closed forms and each other."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ive

import meanfield as mf
from meanfield.functionals.distances import merged, mmd, sobolev, sobolev_kernel, sobolev_tail
from meanfield.kernels.multipliers import counted, scaled_eigenvalues
from tests.functionals import drawn
from tests.functionals.drawn import exact_multiplier
from tests.properties import examples

BETAS = [0.1, 1.0, 9.0, 100.0]
TILT = np.array([0.48, -0.6, 0.64])
WAVES = mf.FourierSeries(cos=[0.5, 0.2], sin=[0.1])
BUMP = mf.VonMisesFisher([0.6, 0.8], 20.0)
CAP = mf.VonMisesFisher(TILT, 5.0)
CAPS = mf.Mixture([CAP, mf.VonMisesFisher([0.0, 1.0, 0.0], 3.0)], [0.4, 0.6])


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def pair(dim, angle):
    """Two points this far apart, in general position."""
    x, y = unit(np.cos(1.0 + np.arange(2.0 * dim).reshape(2, dim) ** 1.5))
    y = unit(y - (x @ y) * x)
    return mf.Particles([x]), mf.Particles([np.cos(angle) * x + np.sin(angle) * y])


def cloud(dim, n, seed):
    return drawn.cloud(np.random.default_rng(seed), n, dim)


def uniform(dim):
    space = {2: mf.Circle(8), 3: mf.Sphere(3)}.get(dim)
    return mf.Density(space or mf.Zonal(dim, 3), mf.Uniform(dim))


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("angle", [1e-6, 1e-2, 0.7, np.pi])
@pytest.mark.parametrize("dim", [2, 3, 5, 64])
def test_two_diracs(dim, angle, beta):
    """2 (e^β - e^{β cos a}); a moment is right to 1e-14 on S^2 and to rounding elsewhere."""
    exact = np.sqrt(-2 * np.expm1(-2 * beta * np.sin(angle / 2) ** 2))
    found = mmd(*pair(dim, angle), beta, scaled=True)
    assert found == pytest.approx(exact, rel=1e-9, abs=2e-14)
    assert mmd(*pair(dim, angle), beta) == pytest.approx(found * np.exp(beta / 2), rel=1e-13)


@pytest.mark.parametrize("beta", [1e6, 1e9])
def test_densities_at_a_large_beta(beta):
    """(Λ_2 a²/2)^{1/2} of 1 + a cos 2θ; so many degrees count as a Gaussian of width √β has."""
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.0, 0.5]))
    exact = np.sqrt(ive(2, beta) / 8.0)
    assert mmd(mu, uniform(2), beta, scaled=True) == pytest.approx(exact, rel=1e-12)
    for dim in 2, 3, 64:
        assert counted(beta, dim, 0)[0] < 20.0 * np.sqrt(beta)
    # (1 - e^{-2β})/2β
    assert scaled_eigenvalues(beta, 3, 0)[0] == pytest.approx(0.5 / beta, rel=1e-12)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("dim", [2, 3, 5, 30])
def test_dirac_from_uniform(dim, beta):
    """e^β - Λ_0, at a pole of the axis and elsewhere; the uniform law as a flow map too."""
    exact = np.sqrt(1.0 - np.exp(mf.kernels.multipliers.log_eigenvalues(beta, dim, 0)[0] - beta))
    for x in (np.eye(dim)[-1], unit(np.cos(np.arange(dim) ** 1.5))):
        for sigma in (
            uniform(dim),
            mf.FlowMap(mf.Uniform(dim), axis=None if dim == 2 else np.eye(dim)[-1]),
        ):
            assert mmd(mf.Particles([x]), sigma, beta, scaled=True) == pytest.approx(
                exact, rel=1e-12
            )


@pytest.mark.parametrize("beta", BETAS)
def test_densities_against_series(beta):
    """Δ = a cos 2θ has Σ |Δ_2|² = a²/2; a zonal one, a P_1, has a²/d."""
    mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5, 0.4]))
    nu = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.5, 0.1]))
    eigenvalue = np.exp(mf.kernels.multipliers.log_eigenvalues(beta, 2, 2)[2] - beta)
    assert mmd(mu, nu, beta, scaled=True) == pytest.approx(0.3 * np.sqrt(eigenvalue / 2), rel=1e-12)
    assert sobolev(mu, nu, -1.5) == pytest.approx(0.3 * 2**-1.5 / np.sqrt(2), rel=1e-12)
    for dim in (3, 10):
        axis = unit(np.cos(np.arange(dim) ** 1.5))
        f = mf.Density(mf.Zonal(dim, 7, axis), mf.ZonalSeries(dim, [0.5], axis))
        g = mf.Density(mf.Zonal(dim, 15, -axis), mf.ZonalSeries(dim, [0.2], axis))
        eigenvalue = np.exp(mf.kernels.multipliers.log_eigenvalues(beta, dim, 1)[1] - beta)
        assert mmd(f, g, beta, scaled=True) == pytest.approx(
            0.3 * np.sqrt(eigenvalue / dim), rel=1e-12
        )
        assert sobolev(f, g, 0.5) == pytest.approx(0.3 * (dim - 1) ** 0.25 / dim**0.5, rel=1e-12)


REPRESENTED = {
    "circle": (2, WAVES, mf.Density(mf.Circle(64), WAVES), mf.Density(mf.Circle(256), BUMP)),
    "sphere": (3, CAPS, mf.Density(mf.Sphere(47), CAPS), mf.Density(mf.Zonal(3, 47, TILT), CAP)),
}


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("case", REPRESENTED)
def test_representations_of_one_measure_agree(case, beta):
    """A density, its flow map, and the nodes of its grid as particles (a quadrature of it)."""
    _dim, law, density, other = REPRESENTED[case]
    # on S^2 a mesh is laid to its tolerance
    flow, tolerance = mf.FlowMap(law), 1e-13 if case == "circle" else 5e-9
    fine = density.resize(160)
    nodes = mf.Particles(fine.space.points, fine.space.weights * fine.values)
    value = mmd(density, other, beta, scaled=True)
    assert value > 1e-2
    # the grid of 3/2 · 160 integrates degrees up to 150 beyond those of the density
    for measure in (flow, nodes):
        assert mmd(measure, other, beta, scaled=True) == pytest.approx(value, abs=tolerance)
        assert mmd(measure, density, beta, scaled=True) < tolerance


def test_cosines_about_an_axis_of_the_circle():
    """The same law as a series about its mean and as a Fourier series."""
    zonal = mf.Density(mf.Zonal(2, 63, [0.6, 0.8]), BUMP)
    fourier, other = mf.Density(mf.Circle(128), BUMP), mf.Density(mf.Circle(64), WAVES)
    assert mmd(zonal, fourier, 4.0) < 1e-13 < 1e-2 < mmd(zonal, other, 4.0)
    tokens = cloud(2, 9, 4)
    assert sobolev(tokens, zonal) == pytest.approx(sobolev(tokens, fourier), rel=1e-12)


@pytest.mark.slow
def test_axisymmetric_representations_agree():
    """Zonal density, line flow map and density on S^2, in each pairing; also with sign of axis."""
    law = mf.ZonalSeries(3, [0.5, 0.2], TILT)
    zonal, turned = mf.Density(mf.Zonal(3, 15, TILT), law), mf.Density(mf.Zonal(3, 31, -TILT), law)
    full, flow = mf.Density(mf.Sphere(31), law), mf.FlowMap(law)
    other = mf.Density(mf.Sphere(47), CAPS)
    for s in (-2.0, -1.0, 0.0, 1.0):
        value = sobolev(zonal, other, s)
        for one in (turned, full, flow):
            assert sobolev(one, other, s) == pytest.approx(value, rel=1e-12)
            # rounding at high degrees, which s > 0 weighs most
            assert sobolev(one, zonal, s) < 1e-12
    cap = mf.VonMisesFisher(np.eye(10)[-1], 5.0)
    zonal = mf.Density(mf.Zonal(10, 47), cap)
    for s in (-3.0, -1.0, 0.0):
        assert sobolev(mf.FlowMap(cap), zonal, s) < 1e-11 < 1e-2 < sobolev(zonal, uniform(10), s)


@pytest.mark.parametrize("dim", [2, 3, 6])
def test_tokens_and_a_density_by_quadrature(dim):
    """∬ e^{β<x,y>} dΔ dΔ with the density's part by G at the tokens: another way to the number."""
    beta, tokens = 3.0, cloud(dim, 20, 1)
    law = mf.VonMisesFisher(unit(np.cos(np.arange(dim) ** 1.5)), 4.0)
    space = mf.Circle(64) if dim == 2 else mf.Zonal(dim, 47, law.mean)
    for nu in (mf.Density(space, law), mf.FlowMap(law)):
        cross = tokens.weights @ nu.moment(beta * tokens.points)[0]
        own = tokens.weights @ tokens.moment(beta * tokens.points)[0]
        exact = own - 2 * cross + 2 * beta * mf.energy(nu, beta)
        # three sums of size e^β, of which a part is left
        assert mmd(tokens, nu, beta) ** 2 == pytest.approx(exact, rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("dim", [2, 3, 7])
def test_distance_from_uniform_is_energy(dim, beta):
    """mmd² = 2β (E - E(σ)), for tokens and for a law (d = 7: half the digits of pairs, squared)."""
    sigma = uniform(dim)
    law = mf.ZonalSeries(dim, [0.7]) if dim > 2 else WAVES
    for mu in (cloud(dim, 30, 2), mf.FlowMap(law)):
        gap = (mf.energy_share(mu, beta) - mf.energy_share(sigma, beta)) / (2 * beta)
        assert mmd(mu, sigma, beta, scaled=True) ** 2 == pytest.approx(2 * beta * gap, rel=1e-9)


@pytest.mark.slow
@examples(8)
@given(st.sampled_from([2, 3, 5]), st.integers(0, 50))
def test_it_is_a_metric(dim, seed):
    """Zero for equal measures, however listed; symmetric; triangle; unchanged by rotations."""
    a, b, c = (cloud(dim, 3 + seed % 5 + i, 7 * seed + i) for i in range(3))
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    order = rng.permutation(len(a.points))
    doubled = np.concatenate([order, order])
    listed = mf.Particles(a.points[doubled], a.weights[doubled], unit_mass=True)
    s = -0.5 * dim - 0.5
    for distance in (lambda x, y: mmd(x, y, 4.0), lambda x, y: sobolev(x, y, s)):
        assert distance(a, a) == 0.0
        assert distance(a, listed) < 1e-13 * (10 if dim == 3 else 1)
        apart = distance(a, b)
        assert apart == pytest.approx(distance(b, a), rel=1e-13)
        assert 1e-2 < distance(a, c) <= apart + distance(b, c)
        turned = [mf.Particles(m.points @ turn.T, m.weights) for m in (a, b)]
        # off-diagonal tails of H^s, 1e-6 on S^2
        assert distance(*turned) == pytest.approx(apart, rel=1e-5 if dim > 2 else 1e-9)


def test_equal_measures_of_other_kinds():
    for mu in (mf.Density(mf.Circle(32), WAVES), mf.FlowMap(WAVES), uniform(4)):
        assert mmd(mu, mu, 9.0) == 0.0
        assert sobolev(mu, mu) == 0.0
    assert mmd(cloud(3, 5, 1), cloud(3, 4, 2), 0.0) == 0.0


@pytest.mark.slow
def test_poles_and_coinciding_tokens():
    """Nothing happens where coordinates of S^2 are singular, and tokens of one place add up."""
    poles = mf.Particles([[0, 0, 1.0], [0, 0, -1.0], [1e-300, 0, 1.0]], [0.25, 0.5, 0.25])
    equator = mf.Particles([[1.0, 0, 0], [-1.0, 0, 0]])
    beta = 4.0
    exact = np.sqrt(2 * np.cosh(beta) - 2.0)
    assert mmd(poles, equator, beta) == pytest.approx(exact, rel=1e-13)
    assert sobolev(poles, mf.Particles([[0, 0, 1.0], [0, 0, -1.0]]), -2.0) < 1e-14
    points, masses = merged(np.array([[1.0, 0], [0, 1.0], [1.0, 1e-16]]), np.array([1.0, 2, -1]))
    assert len(points) == 2
    assert sorted(masses) == [0.0, 2.0]


def exact_circle(angle, s):
    """Two Diracs: Σ_{k≠0} |k|^{2s} |1 - e^{ika}|² = 4 (ζ(-2s) - Re Li_{-2s}(e^{ia}))."""
    with mpmath.workdps(40):
        order = mpmath.mpf(-2 * s)
        gap = mpmath.zeta(order) - mpmath.re(mpmath.polylog(order, mpmath.expj(angle)))
        return float(mpmath.sqrt(4 * gap))


@pytest.mark.parametrize("angle", [1e-3, 0.1, 1.0, np.pi])
@pytest.mark.parametrize("s", [-1.0, -1.25, -2.0, -3.0])
def test_diracs_on_the_circle(s, angle):
    """Exact at s = -1, else but for |Σ_{k>K} k^{2s} cos ka| < K^{2s} / sin(a/2), K = 65535.

    The angle between two points is right to rounding, whatever it is.
    """
    exact, left = exact_circle(angle, s), 0.0 if s == -1.0 else 65535 ** (2 * s) / np.sin(angle / 2)
    found = sobolev(*pair(2, angle), s)
    assert abs(found**2 - exact**2) < 4 * left + (1e-13 + 4e-15 / angle) * exact**2


@pytest.mark.slow
@pytest.mark.parametrize("angle", [0.1, 1.0, 3.0])
def test_diracs_on_the_sphere(angle):
    """Σ (2l+1)/(l(l+1))² P_l(t) = 1 - π²/6 + Li_2((1+t)/2): it solves Δκ = log((1-t)/2) + 1.

    The degrees l > K = 1023 leave out 2K^{-3} |P_K|/sin(a/2), |P_K| < (2/(πK sin a))^{1/2}.
    """
    exact = 2 * float(mpmath.polylog(2, 1) - mpmath.polylog(2, mpmath.cos(angle / 2) ** 2))
    left = 2 * 1023**-3.5 * np.sqrt(2 / np.pi / np.sin(angle)) / np.sin(angle / 2)
    assert abs(sobolev(*pair(3, angle), -2.0) ** 2 - exact) < 2 * left + 1e-13


@pytest.mark.slow
def test_antipodal_diracs_on_the_sphere():
    """Σ_{l odd} 4 (2l+1)/(l(l+1))² = π²/3, and beyond K alternating terms leave 2 K^{-3}."""
    gap = sobolev(*pair(3, np.pi), -2.0) ** 2 - np.pi**2 / 3
    assert abs(gap) == pytest.approx(2 * 1023**-3.0, rel=0.01)


def test_tail_of_a_dirac():
    """On the circle a Hurwitz zeta; on S^2 at s = -2 it telescopes; N_k = (k+1)² in d = 4."""
    for s in (-0.51, -1.0, -2.5):
        assert sobolev_tail(2, s, 100) == pytest.approx(
            float(2 * mpmath.zeta(-2 * s, 101)), rel=1e-9
        )
    assert sobolev_tail(3, -2.0, 100) == pytest.approx(101**-2, rel=1e-11)
    # ((k+1)/(k(k+2)))² = (1/k + 1/(k+2))²/4, and 2/(k(k+2)) telescopes
    exact = (mpmath.zeta(2, 101) + mpmath.zeta(2, 103) + 1 / 101 + 1 / 102) / 4
    assert sobolev_tail(4, -2.0, 100) == pytest.approx(float(exact), rel=1e-9)
    assert sobolev_kernel(4, -2.0, 2)(np.zeros(1))[0] == pytest.approx(4 / 9 + 9 / 64, rel=1e-12)


@pytest.mark.parametrize("dim", [4, 5])
def test_diracs_in_high_dimension(dim):
    """Pairs stop at degree 255; from the kernel that stops at 2047 they differ by K^{-3}."""
    a, b = pair(dim, 1.0)
    s = -0.5 * dim
    kernel = sobolev_kernel(dim, s, 2047)
    exact = 2 * (kernel(np.zeros(1)) - kernel(np.array([4 * np.sin(0.5) ** 2])))[0]
    exact += 2 * sobolev_tail(dim, s, 2047)
    assert sobolev(a, b, s) ** 2 == pytest.approx(exact, abs=255**-2.0)


def test_circle_with_flow_maps_that_have_run():
    """s = -1 from distribution functions against a series; near s = -1 from moments."""
    law, dynamics = WAVES, mf.SA(4.0)
    flow = mf.evolve(mf.FlowMap(law), dynamics, 1.0, save_at=1).final
    density = mf.evolve(mf.Density(mf.Circle(256), law), dynamics, 1.0, save_at=1).final
    start = mf.Density(mf.Circle(64), law)
    value = sobolev(density, start)
    assert value > 0.1
    # both runs keep 1e-10
    assert sobolev(flow, start) == pytest.approx(value, rel=1e-10)
    assert sobolev(flow, density) < 1e-10
    tokens = mf.Particles.sample(law, 500, np.random.default_rng(1))
    assert sobolev(tokens, flow) == pytest.approx(sobolev(tokens, density), rel=1e-9)
    # d/ds log of the norm is below log K
    assert sobolev(tokens, flow, -1 - 1e-9) == pytest.approx(sobolev(tokens, flow), rel=1e-7)


@pytest.mark.slow
def test_mmd_of_a_flow_map_beyond_what_its_nodes_resolve():
    """A mesh is made for the kernel of its run: at a larger β mmd says so, and is right below."""
    kernel = mf.Interaction([1.0, 1.0, 0.25], normalised=True)
    bumps = [mf.VonMisesFisher([0.0, 0.0, 1.0], 3.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 2.0)]
    law = mf.Mixture(bumps, [0.55, 0.45])
    flow = mf.evolve(mf.FlowMap(law), kernel, 1.0, 1).final
    density = mf.evolve(mf.Density(mf.Sphere(63), law), kernel, 1.0, 1).final
    # some roots of moments that are right to tol = 1e-9
    assert 0.0 < mf.mmd(flow, density, 2.0, scaled=True) < 1e-7
    with pytest.raises(ValueError, match=r"beta must be smaller for FlowMap.*, got 40: .*nodes"):
        mf.mmd(flow, density, 40.0)
    sharp = mf.FlowMap(law, tol=1e-12)
    assert mf.mmd(sharp, mf.Density(mf.Sphere(63), law), 10.0, scaled=True) < 1e-8


MANY = mf.ZonalSeries(1024, [0.5])
SPACE = mf.Zonal(1024, 8)


def test_distance_beyond_the_range_of_its_square():
    uniform, other = mf.Density(SPACE, mf.Uniform(1024)), mf.Density(SPACE, MANY)
    exact = mpmath.sqrt(exact_multiplier(1, 1400, 1024) / 4096)
    assert mf.mmd(uniform, other, 1400.0) == pytest.approx(float(exact), rel=1e-11)
    scaled = float(exact * mpmath.exp(-700))
    assert 1e-169 < scaled < 1e-167
    assert mf.mmd(uniform, other, 1400.0, scaled=True) == pytest.approx(scaled, rel=1e-11, abs=0.0)


@pytest.mark.parametrize("beta", [20.0, 700.0])
def test_distance_of_tokens_off_the_axis(beta):
    """mmd² of one token and 1 + c <x, e>: e^β - 2 (Λ_0 + c s Λ_1) + Λ_0 + c² Λ_1/d, s = <x, e>."""
    density = mf.Density(SPACE, MANY)
    token = np.eye(1024)[0] * 0.6 + np.eye(1024)[-1] * 0.8
    with mpmath.workdps(50):
        first, second = (exact_multiplier(k, beta, 1024) for k in range(2))
        share = mpmath.mpf("0.4") * second
        squared = mpmath.exp(beta) - first - 2 * share + second / 4096
        exact = float(mpmath.sqrt(squared * mpmath.exp(-mpmath.mpf(beta))))
    found = mf.mmd(mf.Particles([token]), density, beta, scaled=True)
    assert found == pytest.approx(exact, rel=1e-12)
