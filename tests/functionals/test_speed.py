"""The metric side: speed against slope, W_2 over time, the dissipation, and closed forms."""

import numpy as np
import pytest
from scipy.special import iv, ive

import meanfield as mf
from meanfield.functionals.speed import (
    _root_of_dissipation,
    _without_noise,
    metric_speed,
    slope,
    slope_in_unit,
)
from tests.handmade import scaled_dissipation

SERIES = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0), mf.VonMisesFisher([0.0, 1.0, 0.0], 2.0)], [0.7, 0.3]
)
AXIS = np.array([0.6, 0.0, 0.8, *np.zeros(7)])
PEAK = mf.VonMisesFisher(AXIS, 4.0)


def drawn(law, n, sums="direct"):
    rng = np.random.default_rng(1)
    return mf.Particles(law.sample(n, rng), rng.random(n), sums=sums, unit_mass=True)


def own_speed(measure, dynamics, scaled=False):
    """The speed in the metric of the dynamics, or e^{-β/2} times it, on nodes that resolve it."""
    known, energy = _without_noise(measure, dynamics, 0.0)
    speed, log_unit = _root_of_dissipation(measure, known, energy)
    return speed * (1.0 if scaled else np.exp(log_unit))


def scaled_slope(measure, dynamics):
    """e^{-β/2} times the slope."""
    return slope_in_unit(measure, dynamics, dynamics.energy_functional)[0]


MEASURES = {
    "circle": lambda: mf.Density(mf.Circle(64), SERIES),
    "circle, zonal": lambda: mf.Density(mf.Zonal(2, 31), mf.VonMisesFisher([0.0, 1.0], 3.0)),
    "S^2": lambda: mf.Density(mf.Sphere(31), BUMPS),
    "zonal": lambda: mf.Density(mf.Zonal(10, 47, AXIS), PEAK),
    "series": lambda: mf.Density.from_coefficients(mf.Circle(16), np.r_[1.0, 0.3j, np.zeros(6)]),
    "flow map": lambda: mf.FlowMap(SERIES),
    "flow map about an axis": lambda: mf.FlowMap(PEAK),
    "mesh on S^2": lambda: mf.FlowMap(BUMPS, tol=1e-6),
    "atoms": lambda: mf.FlowMap(mf.PointCloud(drawn(SERIES, 6).points)),
    "tokens on the circle": lambda: drawn(SERIES, 30),
    "tokens by cells": lambda: drawn(SERIES, 30, "transforms"),
    "tokens on S^2": lambda: drawn(BUMPS, 30),
    "tokens by harmonics": lambda: drawn(BUMPS, 30, "transforms"),
    "tokens in d = 7": lambda: drawn(mf.Uniform(7), 20),
    "tokens by inner products": lambda: drawn(mf.Uniform(40), 8, "gram"),
}


@pytest.mark.parametrize(
    "beta", [1.0, *(pytest.param(beta, marks=pytest.mark.slow) for beta in (0.0, 4.0, 30.0))]
)
@pytest.mark.parametrize("kind", MEASURES)
def test_speed_is_slope(kind, beta):
    """Velocities that runs use against sums of positive terms."""
    measure = MEASURES[kind]()
    for dynamics in mf.SA(beta), mf.SA(beta, sign=-1), mf.USA(beta), mf.USA(beta, sign=-1):
        speed = own_speed(measure, dynamics)
        assert speed > 0.0
        # inner products of tokens far apart: |X| e^{-β} is 1e-10 there, found to rounding
        tolerance = 1e-7 if kind == "tokens by inner products" and beta == 30.0 else 1e-12
        # one of the two on a mesh that is laid anew for the kernel, each to its tolerance
        tolerance = 1e-11 if kind == "mesh on S^2" and beta == 30.0 else tolerance
        assert speed == pytest.approx(slope(measure, dynamics), rel=tolerance)


@pytest.mark.parametrize("kind", ["circle", "S^2", "zonal", "flow map", "tokens in d = 7"])
def test_square_of_the_own_speed_is_the_dissipation(kind):
    measure = MEASURES[kind]()
    for beta in 0.0, 1.0, 4.0:
        for dynamics in mf.SA(beta), mf.USA(beta):
            lost = mf.dissipation(measure, dynamics)
            # the dissipation of a density is that on its own grid
            assert own_speed(measure, dynamics) ** 2 == pytest.approx(lost, rel=1e-11)
            if not dynamics.normalised:
                # both on the same nodes, by the velocity and by sums in the unit of the energy
                own = own_speed(measure, dynamics)
                assert metric_speed(measure, dynamics) == pytest.approx(own, rel=1e-13)


def test_speed_of_sa_by_the_nodes_of_other_measures():
    """Unweighted speeds of SA are tied to no slope: density, flow map and mesh agree instead."""
    for beta in 0.0, 1.0, 4.0, 30.0:
        circle, flow = (metric_speed(MEASURES[k](), mf.SA(beta)) for k in ("circle", "flow map"))
        assert circle == pytest.approx(flow, rel=1e-12)
        zonal, about = (MEASURES[k]() for k in ("zonal", "flow map about an axis"))
        assert metric_speed(zonal, mf.SA(beta)) == pytest.approx(
            metric_speed(about, mf.SA(beta)), rel=1e-11
        )
    mesh = mf.FlowMap(BUMPS, tol=1e-9)
    # the mesh has the moments of the law to its tolerance
    assert metric_speed(mesh, mf.SA(4.0)) == pytest.approx(
        metric_speed(MEASURES["S^2"](), mf.SA(4.0)), rel=1e-8
    )


# -- closed forms --------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("beta", [0.5, 4.0, 30.0])
def test_one_cosine_on_the_circle(beta, k):
    # u = (I_0 + a I_k cos kθ)/β; with A + B cos below, S = sqrt(A² - B²): the mean of sin² is
    # 1/(A + S), that of sin² cos is -B/(2 (A + S)²)
    a, zeroth, kth = 0.6, iv(0, beta), iv(k, beta)
    measure = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[*np.zeros(k - 1), a]))
    steep = (a * k * kth / beta) ** 2
    assert metric_speed(measure, mf.USA(beta)) == pytest.approx(np.sqrt(steep / 2), rel=1e-13)
    b = a * kth
    whole = zeroth + np.sqrt(zeroth**2 - b**2)
    expected = np.sqrt(steep * (1.0 / whole - 0.5 * a * b / whole**2))
    assert own_speed(measure, mf.SA(beta)) == pytest.approx(expected, rel=1e-13)
    # at β = 0.5 the slope for k = 3 is 5e-3 of G, which has 1e-15
    assert slope(measure, mf.SA(beta)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("beta", [1.0, 4.0, 1000.0])
def test_two_tokens(beta):
    # masses b and 1 - b at an angle γ: |X_1| = (1 - b) e^{β cos γ} sin γ / G
    b, angle = 0.3, 1.0 / np.sqrt(beta)
    tokens = mf.Particles([[1.0, 0.0], [np.cos(angle), np.sin(angle)]], [b, 1.0 - b])
    far, sine = np.exp(-2.0 * beta * np.sin(0.5 * angle) ** 2), np.sin(angle)
    g = np.array([b + (1 - b) * far, (1 - b) + b * far])
    pull = far * sine * np.array([1 - b, b])
    weights = np.array([b, 1 - b])
    plain = np.sqrt(weights @ (pull / g) ** 2)
    assert metric_speed(tokens, mf.SA(beta)) == pytest.approx(plain, rel=1e-12)
    weighted = np.sqrt(weights @ (pull**2 / g))
    assert weighted > 0.0
    assert own_speed(tokens, mf.SA(beta), scaled=True) == pytest.approx(weighted, rel=1e-12)
    assert scaled_slope(tokens, mf.SA(beta)) == pytest.approx(weighted, rel=1e-12)
    if beta < 700:
        steep = np.sqrt(weights @ pull**2) * np.exp(beta)
        assert metric_speed(tokens, mf.USA(beta)) == pytest.approx(steep, rel=1e-12)


@pytest.mark.slow
def test_stationary_measures_have_no_speed():
    for beta in 0.0, 4.0, 1000.0:
        for measure in (
            mf.Density(mf.Circle(16), mf.Uniform(2)),
            mf.Density(mf.Sphere(7), mf.Uniform(3)),
            mf.Particles([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]),
        ):
            assert metric_speed(measure, mf.SA(beta)) < 1e-14
            assert scaled_slope(measure, mf.SA(beta)) < 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["circle", "S^2", "zonal", "flow map", "tokens on S^2"])
def test_a_large_beta(kind):
    measure, dynamics = MEASURES[kind](), mf.SA(1000.0)
    if kind == "zonal":
        # a series of G has no digits far from the peak; there positive terms are summed
        measure = mf.Density(mf.Zonal(10, 95, AXIS), PEAK)
    speed = own_speed(measure, dynamics, scaled=True)
    assert 0.0 < speed < 1.0
    # Λ_k of 1000 are right to 1e-13, and exponents of 1000 have rounding of 1e-13
    assert scaled_slope(measure, dynamics) == pytest.approx(speed, rel=1e-11)
    assert 0.0 < metric_speed(measure, dynamics) < 1.0


def test_a_beta_that_is_too_large():
    measure, dynamics = MEASURES["tokens on S^2"](), mf.SA(2000.0)
    for number in slope, mf.dissipation:
        with pytest.raises(ValueError, match=rf"{number.__name__} fits float64, got SA.*2000"):
            number(measure, dynamics)


@pytest.mark.slow
def test_squares_that_overflow():
    """USA at β = 700: e^β can be held, its square can't."""
    law, beta = mf.FourierSeries(cos=[0.5]), 700.0
    # (a I_1/β)/sqrt(2)
    scaled = 0.5 * ive(1, beta) / beta / np.sqrt(2.0)
    density = mf.Density(mf.Circle(16), law)
    for measure in density, mf.FlowMap(law):
        for number in metric_speed, slope:
            found = number(measure, mf.USA(beta))
            assert found / np.exp(beta) == pytest.approx(scaled, rel=1e-11)
    lost = scaled_dissipation(density, mf.USA(beta))
    assert lost / np.exp(beta) == pytest.approx(scaled**2, rel=1e-11)


def test_far_tokens_do_not_gain_energy_by_rounding():
    """|X|² of tokens by inner products, 1e-18 beside weights of 1, is no negative number."""
    tokens = MEASURES["tokens by inner products"]()
    direct = mf.Particles(tokens.points, tokens.weights, sums="direct")
    for dynamics in mf.SA(30.0), mf.USA(30.0):
        expected = mf.dissipation(direct, dynamics)
        # differences of inner products keep half of their digits
        assert mf.dissipation(tokens, dynamics) == pytest.approx(expected, rel=1e-6)


# -- along runs ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", [mf.SA(2.0), mf.USA(1.0, sign=-1)], ids=["SA", "USA"])
@pytest.mark.parametrize("kind", ["circle", "flow map", "tokens on the circle"])
def test_speed_is_the_limit_of_distances(kind, dynamics):
    measure = MEASURES[kind]()
    speed, errors = metric_speed(measure, dynamics), []
    steps = [0.02, 0.01, 0.005]
    for h in steps:
        moved = mf.evolve(measure, dynamics, h, 1, rtol=1e-12, atol=1e-14).final
        errors.append(float(mf.wasserstein(measure, moved, 2)) / h - speed)
    assert abs(errors[0]) > 1e-5
    orders = np.log2(np.abs(errors[:-1]) / np.abs(errors[1:]))
    # W_2/h is right to 1e-9, and the next term of the error is of second order
    np.testing.assert_allclose(orders, 1.0, atol=0.1)
    # without the first order, what is left of the second: h²
    assert 2.0 * errors[2] - errors[1] == pytest.approx(0.0, abs=1e-4 * speed)


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", [mf.SA(2.0), mf.SA(2.0, sign=-1), mf.USA(1.0)])
@pytest.mark.parametrize("kind", ["circle", "flow map", "tokens on S^2"])
def test_energy_dissipation_equality(kind, dynamics):
    """E(t) - E(0) = ± ∫ (|mu'|²/2 + slope²/2) dt, by Gauss nodes in time."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    is_sa = isinstance(dynamics, mf.SA)
    sol = mf.evolve(
        MEASURES[kind](),
        dynamics,
        0.5,
        0.25 * (nodes + 1.0),
        rtol=1e-12,
        atol=1e-14,
        monitors={
            "own_speed": lambda mu: own_speed(mu, dynamics),
            "slope": lambda mu: slope(mu, dynamics),
        },
    )
    ds = sol.dataset
    rate = 0.5 * ds.own_speed.values[1:-1] ** 2 + 0.5 * ds.slope.values[1:-1] ** 2
    gained = float(ds.energy[-1] - ds.energy[0])
    assert abs(gained) > 1e-3
    # 12 nodes on an interval of 0.5, where rates change by a factor of a few; steps of 1e-12
    assert dynamics.sign * 0.25 * float(weights @ rate) == pytest.approx(gained, abs=1e-10)
    np.testing.assert_allclose(ds.energy - ds.energy[0] - ds.work, 0.0, atol=1e-11)
    if is_sa:
        np.testing.assert_allclose(ds.own_speed, np.sqrt(ds.dissipation), rtol=1e-9)
    kept = ds.metric_speed
    speeds = [metric_speed(mu, dynamics) for mu in sol.measures]
    # the run's own grid resolves its density to 1e-8
    np.testing.assert_allclose(kept, speeds, rtol=1e-9)


@pytest.mark.slow
def test_mesh_runs_keep_their_speed():
    sol = mf.evolve(mf.FlowMap(BUMPS, tol=1e-6), mf.SA(2.0), 0.2, 1)
    expected = [metric_speed(mu, mf.SA(2.0)) for mu in sol.measures]
    np.testing.assert_allclose(sol.dataset.metric_speed, expected, rtol=1e-12)


# -- velocities that move no mass ------------------------------------------------------------------

TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
SKEW = np.array([[1.0, 0.5], [0.0, 1.0]])
SQUARE = [1.0, 1.0, 0.25]
# whether X is a gradient for every measure
ON_CIRCLE = {
    "a rotation": (mf.Attention(1.0, [mf.Head(V=TURN)]), False),
    "one head of two turned": (mf.Attention(1.0, [mf.Head(), mf.Head(V=TURN)]), False),
    "symmetric V beside KᵀQ = I": (mf.Attention(1.0, [mf.Head(V=np.diag([1.0, 2.0]))]), False),
    "V of KᵀQ, not of QᵀK": (mf.Attention(1.0, [mf.Head(Q=SKEW, V=SKEW)]), False),
    "V of QᵀK": (mf.Attention(1.0, [mf.Head(Q=SKEW, V=-2.0 * SKEW.T)]), True),
    "V of QᵀK, not normalised": (
        mf.Attention(1.0, [mf.Head(Q=SKEW, V=SKEW.T)], normalised=False),
        True,
    ),
    "a rotation at β = 0": (mf.Attention(0.0, [mf.Head(V=TURN)]), True),
    "SA": (mf.SA(2.0, sign=-1), True),
    "USA": (mf.USA(1.0), True),
    "DoublyStochastic": (mf.DoublyStochastic(2.0), True),
    "Interaction": (mf.Interaction(SQUARE), True),
    "Interaction, normalised": (mf.Interaction(SQUARE, normalised=True), False),
    "exponential, normalised": (
        mf.Interaction(
            (lambda t: np.exp(2.0 * t), lambda t: 2.0 * np.exp(2.0 * t)), normalised=True
        ),
        True,
    ),
    "cosines": (mf.CircleInteraction([0.3], [1.0, 0.5]), True),
    "a perceptron": (mf.FeedForward(SKEW, np.eye(2), [0.3, 0.0], activation="gelu"), False),
    "a potential": (mf.FeedForward(SKEW.T, 2.0 * SKEW, [0.3, 0.0], activation="tanh"), True),
}


@pytest.mark.parametrize("name", ON_CIRCLE)
def test_a_gradient_has_no_circulation(name):
    """On the circle X is ∂_θ ψ for some ψ where ∫ X dθ = 0, of which the dynamics knows nothing."""
    dynamics, is_gradient = ON_CIRCLE[name]
    circle = mf.Circle(256)
    angles, points = circle.angles, circle.points
    velocity = dynamics.velocity(mf.Density(mf.Circle(64), SERIES), points)
    along = velocity[:, 1] * np.cos(angles) - velocity[:, 0] * np.sin(angles)
    # X has degrees below 100, of which as many nodes have the mean to rounding
    assert abs(along.mean()) < 1e-14 if is_gradient else abs(along.mean()) > 1e-4
    assert np.abs(along).max() > 0.1
    for start in mf.Density(mf.Circle(64), SERIES), mf.FlowMap(SERIES):
        data = mf.evolve(start, dynamics, 0.1, 1).dataset
        rms = mf.rms_velocity(start, dynamics)
        assert rms == pytest.approx(np.sqrt(squares(start, dynamics)), rel=1e-12)
        # the run's own grid resolves its density to 1e-8
        assert float(data.rms_velocity[0]) == pytest.approx(rms, rel=1e-9)
        assert ("metric_speed" in data) == is_gradient
        if is_gradient:
            assert metric_speed(start, dynamics) == rms
            assert np.array_equal(data.metric_speed, data.rms_velocity)
        else:
            with pytest.raises(ValueError, match="must have a gradient for its velocity"):
                metric_speed(start, dynamics)


def squares(measure, dynamics):
    """∫ |X|² dmu of a measure of `SERIES`, by velocities at 2000 nodes of its own quadrature."""
    angles = np.arange(2000) * (2.0 * np.pi / 2000)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    return SERIES.pdf(points) @ np.sum(dynamics.velocity(measure, points) ** 2, axis=1) / 2000


def test_a_rotation_moves_no_uniform_density():
    turned = mf.Attention(1.0, [mf.Head(V=TURN)])
    start = mf.Density(mf.Circle(32), mf.Uniform(2))
    sol = mf.evolve(start, turned, 1.0, 2)
    assert float(mf.wasserstein(start, sol.final, 2)) < 1e-12
    # G = I_0(β) and ∇G = I_1(β) x, turned a quarter
    assert np.allclose(sol.dataset.rms_velocity, iv(1, 1.0) / iv(0, 1.0), rtol=1e-13, atol=0)
    assert "metric_speed" not in sol.dataset
    with pytest.raises(ValueError, match=r"got Attention.*: V of each head must be a multiple of"):
        mf.metric_speed(start, turned)


@pytest.mark.parametrize("kind", ["tokens on the circle", "tokens in d = 7"])
def test_tokens_have_both(kind):
    tokens = MEASURES[kind]()
    rng = np.random.default_rng(2)
    for dynamics in (
        mf.Attention(1.0, [mf.Head(V=rng.normal(size=(tokens.dim, tokens.dim)))]),
        mf.Interaction(SQUARE, normalised=True),
        mf.SA(2.0, noise=0.3),
    ):
        velocity = dynamics.velocity(tokens, tokens.points)
        expected = np.sqrt(tokens.weights @ np.sum(velocity**2, axis=1))
        for number in mf.metric_speed, mf.rms_velocity:
            assert number(tokens, dynamics) == pytest.approx(expected, rel=1e-13)
        noisy = {"rng": 0, "max_step": 0.1} if dynamics.noise else {}
        data = mf.evolve(tokens, dynamics, 0.1, 1, **noisy).dataset
        for name in "metric_speed", "rms_velocity":
            assert float(data[name][0]) == pytest.approx(expected, rel=1e-12)


def test_layers_have_a_speed_where_one_that_acts_has():
    layers = mf.Layers([mf.SA(1.0), mf.Attention(1.0, [mf.Head(V=TURN)])], step=0.5)
    data = mf.evolve(mf.Density(mf.Circle(64), SERIES), layers, 1.0, 4).dataset
    assert np.isfinite(data.rms_velocity).all()
    # a save where one layer ends has the speed of the one that acted
    assert np.array_equal(np.isfinite(data.metric_speed), [True, True, True, False, False])


def test_about_an_axis_all_move_along_meridians():
    dynamics = mf.Interaction(SQUARE, normalised=True)
    for start in (
        mf.Density(mf.Zonal(3, 31), mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0)),
        mf.FlowMap(mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0)),
    ):
        data = mf.evolve(start, dynamics, 0.1, 1).dataset
        assert np.array_equal(data.metric_speed, data.rms_velocity)
    on_sphere = mf.Density(mf.Sphere(31), BUMPS)
    assert "metric_speed" not in mf.evolve(on_sphere, dynamics, 0.1, 1).dataset
    # V turns each latitude in itself, which moves no mass
    swirl = np.eye(3) + np.array([[0.0, -2.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    turned = mf.Attention(1.0, [mf.Head(V=swirl)])
    about = mf.Density(mf.Zonal(3, 31), mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0))
    assert "metric_speed" not in mf.evolve(about, turned, 0.1, 1).dataset
    whole = mf.Density(mf.Sphere(31), about.law)
    expected = mf.rms_velocity(whole, turned)
    assert mf.rms_velocity(about, turned) == pytest.approx(expected, rel=1e-12)
    assert expected > 1.2 * mf.rms_velocity(whole, mf.SA(1.0))


def test_numbers_of_densities_are_of_a_grid_that_resolves_them():
    """|X|² of an activation and |∇f|²/f have no last degree, and neither is divided by G."""
    law = mf.FourierSeries(cos=[0.9])
    # the poles of 1/f are 0.47 from the real line
    theta = 2.0 * np.pi * np.arange(256) / 256
    f, tangents = 1.0 + 0.9 * np.cos(theta), np.stack([-np.sin(theta), np.cos(theta)])
    points = np.stack([np.cos(theta), np.sin(theta)])
    mu = mf.Density(mf.Circle(8), law)
    slopes = -0.9 * np.sin(theta) / f
    # X of USA at β = 0 is minus sin θ times the mean, 0.45
    velocity = -0.45 * np.sin(theta) - 0.3 * slopes
    expected = np.sqrt(np.mean(velocity**2 * f))
    assert metric_speed(mu, mf.USA(0.0, noise=0.3)) == pytest.approx(expected, rel=1e-13)
    kernel = np.exp(2.0 * np.cos(theta[:, None] - theta))
    velocity = np.mean(-np.sin(theta[:, None] - theta) * kernel * f, axis=1) - 0.3 * slopes
    expected = np.sqrt(np.mean(velocity**2 * f))
    assert metric_speed(mu, mf.USA(2.0, noise=0.3)) == pytest.approx(expected, rel=1e-13)
    perceptron = mf.FeedForward(np.eye(2), 3.0 * SKEW, [0.3, 0.0], activation="tanh")
    added = np.tanh(3.0 * SKEW @ points + [[0.3], [0.0]])
    expected = np.sqrt(np.mean((added * tangents).sum(axis=0) ** 2 * f))
    assert mf.rms_velocity(mu, perceptron) == pytest.approx(expected, rel=1e-13)


def test_noise_belongs_to_the_speed_of_densities():
    """V = QᵀK without an energy: X - τ ∇ log f on 2000 nodes, with f known."""
    dynamics = mf.Attention(1.0, [mf.Head(Q=SKEW, V=SKEW.T)], noise=0.2)
    start = mf.Density(mf.Circle(64), SERIES)
    angles = np.arange(2000) * (2.0 * np.pi / 2000)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    f = 1.0 + 0.5 * np.cos(angles) + 0.3 * np.sin(2.0 * angles)
    slope_of_f = -0.5 * np.sin(angles) + 0.6 * np.cos(2.0 * angles)
    velocity = dynamics.velocity(start, points)
    along = velocity[:, 1] * np.cos(angles) - velocity[:, 0] * np.sin(angles)
    expected = np.sqrt(np.mean(f * (along - 0.2 * slope_of_f / f) ** 2))
    assert metric_speed(start, dynamics) == pytest.approx(expected, rel=1e-12)
    data = mf.evolve(start, dynamics, 0.1, 1).dataset
    # the run's own grid resolves its density to 1e-8
    assert float(data.metric_speed[0]) == pytest.approx(expected, rel=1e-9)
    plain = np.sqrt(np.mean(f * along**2))
    assert float(data.rms_velocity[0]) == pytest.approx(plain, rel=1e-9)
    assert abs(plain - expected) > 0.01
    with pytest.raises(ValueError, match=r"noise must be 0 for FlowMap.*, got 0.2: take a Density"):
        metric_speed(mf.FlowMap(SERIES), dynamics)


def test_phases_turn_with_their_frequencies():
    """W_2 of tokens that turn, whatever couples them; a density of them has no such velocity."""
    angles, omegas = np.array([0.1, 1.0, 2.5, 4.0]), np.array([-1.0, 0.5, 2.0, 0.3])
    dynamics = mf.Kuramoto(0.7)
    tokens = mf.Oscillators(angles, omegas)
    pull = 0.7 * np.mean(np.sin(angles[None, :] - angles[:, None]), axis=1)
    turning = np.sqrt(np.mean((omegas + pull) ** 2))
    sol = mf.evolve(tokens, dynamics, 1e-4, 1)
    assert float(sol.dataset.metric_speed[0]) == pytest.approx(turning, rel=1e-14)
    assert float(sol.dataset.rms_velocity[0]) == pytest.approx(np.sqrt(np.mean(pull**2)), rel=1e-14)
    assert metric_speed(tokens, dynamics) == pytest.approx(turning, rel=1e-14)
    # of first order in the time between
    apart = float(mf.wasserstein(tokens, sol.final, 2))
    assert apart / 1e-4 == pytest.approx(turning, rel=1e-3)
    start = mf.OscillatorDensity(mf.Circle(64), SERIES, [-1.0, 1.0], widths=[0.1, 0.1])
    data = mf.evolve(start, dynamics, 0.1, 1).dataset
    # f has the moment 1/4 at k = 1: X = K/4 sin(0 - θ)
    expected = 0.7 * 0.25 * np.sqrt(np.mean(SERIES.pdf(mf.Circle(64).points) * SINES**2))
    assert float(data.rms_velocity[0]) == pytest.approx(expected, rel=1e-13)
    assert mf.rms_velocity(start, dynamics) == pytest.approx(expected, rel=1e-13)
    assert "metric_speed" not in data
    with pytest.raises(ValueError, match="phases of different frequencies pass each other"):
        metric_speed(start, dynamics)


SINES = np.sin(mf.Circle(64).angles)


def test_heads_on_the_sphere_by_nodes_of_other_measures():
    rng = np.random.default_rng(5)
    law = mf.Density(mf.Sphere(31), BUMPS)
    for normalised in True, False:
        head = mf.Head(Q=rng.normal(size=(3, 3)), V=rng.normal(size=(3, 3)))
        dynamics = mf.Attention(0.7, [head], normalised=normalised)
        mesh = mf.FlowMap(BUMPS, tol=1e-9)
        # the mesh has the moments of the law to its tolerance
        expected = mf.rms_velocity(law, dynamics)
        assert mf.rms_velocity(mesh, dynamics) == pytest.approx(expected, rel=1e-8)


def test_a_kink_is_integrated_on_the_grid_that_a_density_has():
    """relu: X² has a kink, of which a grid of n nodes has an error of order n^{-2}."""
    dynamics = mf.FeedForward(np.eye(2), np.eye(2), [0.3, 0.0])
    points = mf.Circle(1 << 16).points
    uniform = mf.Density(mf.Circle(16), mf.Uniform(2))
    squares = np.sum(dynamics.velocity(uniform, points) ** 2, axis=1)
    expected = np.sqrt(np.mean(SERIES.pdf(points) * squares))
    for n in 64, 1024:
        found = mf.rms_velocity(mf.Density(mf.Circle(n), SERIES), dynamics)
        assert found == pytest.approx(expected, abs=10.0 / n**2)


# -- what is refused -----------------------------------------------------------------------------


def test_what_has_no_speed():
    mu = MEASURES["circle"]()
    for number in metric_speed, mf.rms_velocity, slope:
        with pytest.raises(ValueError, match=r"measure must have dim = 3, that of .*, got one of"):
            number(mu, mf.Attention(1.0, [mf.Head(Q=np.eye(3), V=np.eye(3))]))
    with pytest.raises(ValueError, match=r"dynamics must be without noise, since .*got SA"):
        slope(mu, mf.SA(1.0, noise=0.1))
    with pytest.raises(ValueError, match=r"dynamics must have an energy, got .* one head with"):
        slope(mu, mf.Attention(1.0, [mf.Head(np.eye(2), V=2.0)]))


def test_a_velocity_of_rounding_is_refused():
    """Negative scores look where f is 1e-16 of its maximum."""
    peak = mf.Density(mf.Circle(256), mf.VonMisesFisher([1.0, 0.0], 100.0))
    with pytest.raises(ValueError, match=r"rounding of f, .* take a FlowMap or Particles"):
        mf.rms_velocity(peak, mf.Attention(60.0, [mf.Head(Q=-1.0, V=np.eye(2))]))


# steeper than the grid of eight modes resolves, which holds the density
STEEP = mf.FeedForward.from_potential([1.0], [[12.0, 3.0]], [4.0], activation="tanh")


@pytest.mark.parametrize("dynamics", [STEEP, mf.USA(1.0) + STEEP, mf.SA(1.0) + STEEP])
def test_drifts_are_resolved_beside_other_terms_too(dynamics):
    """On a grid finer than the density's own, whatever stands beside the drift."""
    uniform = mf.Density(mf.Circle(8), mf.Uniform(2))
    angles = 2.0 * np.pi * np.arange(4096) / 4096
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    squares = (dynamics.velocity(uniform, points) ** 2).sum(axis=1)
    # the periodic trapezoidal rule of what is analytic
    exact = np.sqrt(squares.mean())
    assert mf.rms_velocity(uniform, dynamics) == pytest.approx(exact, rel=1e-12)
    if dynamics is not STEEP:
        return
    assert mf.slope(uniform, dynamics) == pytest.approx(exact, rel=1e-12)
    assert mf.metric_speed(uniform, dynamics) == pytest.approx(exact, rel=1e-12)


def test_the_slope_of_a_multiple_is_that_multiple():
    """w X is the gradient flow of w E in the same metric."""
    mu = mf.Density(mf.Circle(32), SERIES)
    for dynamics in (mf.SA(3.0), mf.SA(3.0, sign=-1), mf.USA(2.0), mf.DoublyStochastic(2.0)):
        whole = mf.slope(mu, 2.5 * dynamics)
        assert whole == pytest.approx(2.5 * mf.slope(mu, dynamics), rel=1e-12)
