"""Natural frequencies: Ott–Antonsen, critical couplings, tokens against densities, files."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import meanfield as mf
from meanfield.dynamics.kuramoto import turned
from meanfield.equations.tendency import tendency
from meanfield.evolution.steppers import FlowSteps
from meanfield.evolution.token_system import default_max_step
from tests.handmade import slow, unfinished
from validation.circle_clusters import usa_as_interaction

R0 = 0.4
POISSON = mf.FourierSeries(cos=2.0 * R0 ** np.arange(1, 45))
LAW = mf.FourierSeries(cos=[0.5, 0.1], sin=[0.0, 0.3])
CIRCLE = mf.Circle(64)


def order(sol):
    return sol.dataset.order_parameter.values


def lorentzian(law, width, space=CIRCLE):
    """One node that stands for all frequencies."""
    return mf.OscillatorDensity(space, law, [0.0], widths=[width])


def angles_of(law, n):
    points = mf.Particles.quantise(law, n).points
    return np.arctan2(points[:, 1], points[:, 0])


def test_the_limit_of_the_closed_solution():
    limit = mf.theory.ott_antonsen(3.0, 0.1, [200.0], width=0.5)[0]
    critical = mf.theory.kuramoto_critical_coupling(1.0 / (0.5 * np.pi))
    assert critical == mf.theory.lorentzian_critical_coupling(0.5) == 1.0
    assert np.isclose(limit, np.sqrt(1.0 - critical / 3.0), rtol=1e-14)
    decayed = mf.theory.ott_antonsen(0.5, 0.1, [1e4], width=0.5)[0]
    assert decayed == 0.0


@pytest.mark.parametrize("width", [0.0, 1e-9, 1.0, 2.0])
def test_the_closed_solution_at_its_ends(width):
    """1/r² is linear: nothing is lost for r_0 at 0 or 1, at late times, or under repulsion."""
    times = [0.0, 1e-3, 1.0, 30.0, 1e3]
    for coupling in (-1e3, -4.0, -1e-8, 0.0, 1.0, 4.0, 1e3):
        assert np.array_equal(
            mf.theory.ott_antonsen(coupling, 0.0, times, width=width), np.zeros(5)
        )
        for start in (1e-200, 1e-8, 1 - 1e-9, 1.0):
            solution = mf.theory.ott_antonsen(coupling, start, times, width=width)
            if start == 1.0 and width == 0.0:
                assert np.array_equal(solution, np.ones(5))
                continue
            with mpmath.workdps(1000):
                half = mpmath.mpf(coupling) / 2
                rate, first = half - mpmath.mpf(width), mpmath.mpf(start) ** -2
                for r, t in zip(solution, times, strict=True):
                    gained = mpmath.expm1(-2 * rate * t) / rate if rate else mpmath.mpf(-2 * t)
                    left = 1 / (first * mpmath.exp(-2 * rate * t) - half * gained)
                    exact = mpmath.sqrt(left)
                    # the exponent has its own rounding
                    error = (10 + abs(float(rate) * t)) * 2.3e-16
                    assert abs(r - exact) <= error * exact + mpmath.mpf("1e-307")


def test_a_width_is_a_quadrature_over_its_frequencies():
    """Off the manifold: e^{-iωt} has no limit at the ends of the rule, whose error is n^{-3/4}.

    That power is of the aliases, coefficients L_n of a Laguerre series; they oscillate with n.
    """
    dynamics, options = mf.Kuramoto(1.5), {"atol": 1e-9, "rtol": 1e-7}
    exact = order(mf.evolve(lorentzian(LAW, 0.5), dynamics, 1.0, 10))
    assert abs(exact[-1] - exact[0]) > 0.02
    errors = []
    for n in (12, 48):
        nodes = mf.lorentzian_frequencies(0.5, n)
        density = mf.OscillatorDensity(mf.Circle(32), LAW, *nodes, tail_tol=1e-6)
        orders = order(mf.evolve(density, dynamics, 1.0, 10, **options))
        errors.append(np.sqrt(np.mean((orders - exact) ** 2)))
    assert errors[0] < 0.2 * 12**-0.75
    assert 0.5 < np.log(errors[0] / errors[1]) / np.log(4.0) < 1.0


@pytest.mark.parametrize("kind", ["density", "tokens"])
def test_sharp_frequencies_are_on_the_manifold(kind):
    """z_j' = iω_j z_j + K/2 (z - conj(z) z_j²), z = Σ w_j z_j, solved on its own."""
    frequencies, weights = mf.gaussian_frequencies(0.8, 9, centre=0.3)

    def rate(_, z):
        mean = weights @ z
        return 1j * frequencies * z + 0.7 * (mean - np.conj(mean) * z * z)

    times = np.linspace(0.0, 2.0, 5)
    start = np.full(9, R0, dtype=complex)
    exact = weights @ solve_ivp(rate, (0, 2), start, t_eval=times, rtol=1e-12, atol=1e-13).y
    if kind == "density":
        mu = mf.OscillatorDensity(CIRCLE, POISSON, frequencies, weights, unit_mass=True)
    else:
        # their error is |z_j|^n, and the largest |z_j| comes to 0.8
        angles = angles_of(POISSON, 200)
        mu = mf.Oscillators(
            np.tile(angles, 9), np.repeat(frequencies, 200), np.repeat(weights / 200, 200)
        )
    sol = mf.evolve(mu, mf.Kuramoto(1.4), 2.0, times, rtol=1e-11)
    assert abs(abs(exact[-1]) - R0) > 0.02
    moments = order(sol) * np.exp(1j * sol.dataset.mean_phase.values)
    assert np.max(np.abs(moments - exact)) < 1e-9


@pytest.mark.parametrize("factor", [1.2, 2.0])
def test_rate_with_gaussian_frequencies(factor):
    """λ + τ is the noise of which K is the critical coupling; other modes decay like Gaussians.

    100 Gauss–Hermite nodes of deviation 1/2 tell e^{-iωt} apart up to t of order 20.
    """
    critical = mf.theory.gaussian_critical_coupling(0.5, noise=0.1)
    coupling = factor * critical
    rate = brentq(
        lambda x: mf.theory.gaussian_critical_coupling(0.5, noise=0.1 + x) - coupling, 0.0, 5.0
    )
    assert rate > 0.05
    nodes = mf.gaussian_frequencies(0.5, 100)
    density = mf.OscillatorDensity(mf.Circle(8), mf.FourierSeries(cos=[1e-6]), *nodes)
    options = {"atol": 1e-11, "rtol": 1e-7}
    sol = mf.evolve(density, mf.Kuramoto(coupling, noise=0.1), 14.0, [10.0], **options)
    assert abs(np.log(order(sol)[2] / order(sol)[1]) / 4.0 - rate) < 1e-4


def test_critical_couplings_without_noise():
    # 2τ where the frequencies count for nothing
    assert mf.theory.gaussian_critical_coupling(1e-300, noise=1e300) == 2e300
    gaussian = mf.theory.gaussian_critical_coupling(2.0)
    centre = 1.0 / (2.0 * np.sqrt(2.0 * np.pi))
    assert np.isclose(gaussian, mf.theory.kuramoto_critical_coupling(centre), rtol=1e-14)
    # noise by itself: K_c = 2τ
    assert np.isclose(mf.theory.gaussian_critical_coupling(1e-3, noise=0.5), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    "dynamics",
    [mf.Kuramoto(1.4), mf.CircleInteraction([1.0, -0.4], [0.3, 0.0, 0.2], coupling=1.3)],
    ids=["Kuramoto", "general"],
)
def test_densities_and_tokens_agree(dynamics):
    """Different laws at different frequencies; moments of quantiles are right to rounding."""
    laws, frequencies, weights = [LAW, POISSON, mf.Uniform(2)], [-1.0, 0.2, 3.0], [1.0, 2.0, 3.0]
    density = mf.OscillatorDensity(CIRCLE, laws, frequencies, weights, unit_mass=True)
    angles = [angles_of(law, 200) for law in laws]
    tokens = mf.Oscillators(
        np.concatenate(angles), np.repeat(frequencies, 200), np.repeat(weights, 200), unit_mass=True
    )
    runs = [mf.evolve(mu, dynamics, 1.0, 4, rtol=1e-11) for mu in (density, tokens)]
    first, second = (sol.final.trigonometric_moments(5) for sol in runs)
    assert np.max(np.abs(first - density.trigonometric_moments(5))) > 0.05
    assert np.max(np.abs(first - second)) < 1e-9
    assert np.max(np.abs(order(runs[0]) - order(runs[1]))) < 1e-9


def test_noisy_tokens_are_noisy_densities():
    """400 tokens at each of 9 frequencies: a standard error of at most 1/sqrt(n)."""
    nodes, noisy = mf.gaussian_frequencies(0.5, 9), mf.Kuramoto(2.0, noise=0.2)
    exact = mf.evolve(mf.OscillatorDensity(CIRCLE, LAW, *nodes), noisy, 2.0, 2, atol=1e-10)
    angles, (frequencies, weights) = angles_of(LAW, 400), nodes
    tokens = mf.Oscillators(
        np.tile(angles, 9), np.repeat(frequencies, 400), np.repeat(weights / 400, 400)
    )
    noisy_run = mf.evolve(tokens, noisy, 2.0, 2, rng=np.random.default_rng(7))
    effective = 1.0 / np.sum(tokens.weights**2)
    assert abs(order(exact)[-1] - order(exact)[0]) > 0.1
    assert np.max(np.abs(order(noisy_run) - order(exact))) < 4.0 / np.sqrt(effective)


@pytest.mark.parametrize("kind", ["density", "tokens"])
def test_a_common_frequency_turns_the_circle(kind):
    """r is the same in the turning frame, and the phase ahead by Ωt."""
    frequencies = np.array([-0.7, 0.1, 1.0])
    runs = []
    for common in (0.0, 50.0):
        if kind == "density":
            mu = mf.OscillatorDensity(CIRCLE, LAW, frequencies + common)
        else:
            mu = mf.Oscillators([0.3, 2.0, 2.5], frequencies + common)
        runs.append(mf.evolve(mu, mf.Kuramoto(1.5), 0.5, 5, rtol=1e-11))
    assert np.allclose(order(runs[0]), order(runs[1]), rtol=0, atol=1e-9)
    phases = [sol.dataset.mean_phase.values for sol in runs]
    ahead = phases[1] - phases[0] - 50.0 * runs[0].t
    assert np.max(np.abs(np.sin(ahead))) + np.max(np.abs(np.cos(ahead) - 1.0)) < 1e-9


def test_rotation_takes_no_steps():
    """Without coupling, ω = 1e6: steps are those of the decay, phases right to rounding of ωt."""
    mu = mf.OscillatorDensity(CIRCLE, POISSON, [-1e6, 1e6], widths=[0.0, 0.3])
    sol = mf.evolve(mu, mf.Kuramoto(0.0, noise=0.01), 2.0, 4)
    assert int(sol.dataset.steps[-1]) < 40
    k = np.arange(5)
    decay = np.exp(-2.0 * np.multiply.outer([-1e6j, 1e6j + 0.3], k) - 0.02 * k**2)
    assert np.max(np.abs(sol.final.parts[:, :5] - mu.parts[:, :5] * decay)) < 1e-8
    assert np.min(np.abs(sol.final.parts[0, :3])) > 1e-2


@pytest.mark.parametrize(
    ("fast", "coupling"),
    [
        (5.0, 1e-3),
        (5.0, 0.1),
        (5.0, 1.4),
        *(slow(500.0, coupling) for coupling in (1e-3, 1.4)),
    ],
)
def test_frequencies_far_apart(coupling, fast):
    """Weak coupling moves phases by K/ω only, at the rate at which they turn."""
    frequencies = np.array([-fast, 0.0, fast])

    def rate(_, z):
        mean = np.mean(z)
        return 1j * frequencies * z + 0.5 * coupling * (mean - np.conj(mean) * z * z)

    start = np.full(3, R0, dtype=complex)
    exact = solve_ivp(rate, (0, 1), start, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    mu = mf.OscillatorDensity(CIRCLE, POISSON, frequencies)
    final = mf.evolve(mu, mf.Kuramoto(coupling), 1.0, 2).final
    ends = np.conj(final.parts[:, 1])
    moved = np.max(np.abs(exact - R0 * np.exp(1j * frequencies)))
    assert moved > 0.02 * coupling
    assert np.max(np.abs(ends - exact)) < 1e-8 * max(coupling, 0.1)


def test_mass_is_exact_at_each_frequency():
    mu = mf.OscillatorDensity(CIRCLE, LAW, [-1.0, 2.0], [1.0, 3.0], unit_mass=True)
    final = mf.evolve(mu, mf.Kuramoto(1.5), 1.0, 1, atol=1e-9).final
    assert np.array_equal(final.parts[:, 0], [1.0, 1.0])
    assert np.allclose(final.coefficients, [0.25, 0.75] @ final.parts, rtol=0, atol=1e-16)


def test_values_of_another_mass_are_divided_by_it():
    """3 (1 + cos θ/2) at one frequency and 5 (1 + sin θ) at the other, weights 1 and 3."""
    (x, y), asked = CIRCLE.points.T, ([-1.0, 2.0], [1.0, 3.0])
    values = [3.0 + 1.5 * x, 5.0 + 5.0 * y]
    mu = mf.OscillatorDensity(CIRCLE, values, *asked, unit_mass=True)
    assert np.allclose(mu.parts[:, :2], [[1.0, 0.25], [1.0, -0.5j]], rtol=0, atol=1e-15)
    assert np.allclose(mu.frequency_weights, [0.25, 0.75], rtol=0, atol=1e-16)
    with pytest.raises(ValueError, match=r"mass 1 .* got mass 3: .*unit_mass=True"):
        mf.OscillatorDensity(CIRCLE, values, asked[0])


def test_refinement_goes_on_in_the_same_frames():
    """From 64 to 128 modes within a save, against 256 all along; tolerances of 1e-12 and 1e-8."""
    frequencies, dynamics = [-3.0, 0.5, 3.0], mf.Kuramoto(2.0)
    start = [mf.OscillatorDensity(mf.Circle(n), POISSON, frequencies) for n in (64, 256)]
    refined, exact = (mf.evolve(mu, dynamics, 2.0, 1) for mu in start)
    assert [mu.space.size for mu in refined.measures] == [64, 128]
    gap = refined.final.parts[:, :20] - exact.final.parts[:, :20]
    assert np.max(np.abs(exact.final.parts[:, 1] - start[1].parts[:, 1])) > 0.1
    assert np.max(np.abs(gap)) < 1e-9


def test_locked_densities_end_as_under_resolved():
    mu = mf.OscillatorDensity(mf.Circle(32), POISSON, [0.0, 0.1], max_size=128)
    asked = {"atol": 1e-9, "rtol": 1e-7}
    sol = unfinished(mf.evolve, mu, mf.Kuramoto(4.0), 20.0, 4, **asked)
    assert sol.status == "under-resolved"
    assert sol.final.space.size == 128
    # a start that its space does not resolve is laid out anew from its law
    assert sol.measures[0].tail < 1e-8
    assert np.max(np.abs(sol.measures[0].parts[0, :20] - R0 ** np.arange(20))) < 1e-15
    assert 0.0 < sol.t[-1] < 20.0


def test_marginals_are_measures_of_angles():
    """Distances and energies are those of θ."""
    mu = mf.OscillatorDensity(CIRCLE, [LAW, POISSON], [0.0, 1.0], [1.0, 3.0], unit_mass=True)
    plain = mf.Density(CIRCLE, mf.Mixture([LAW, POISSON], [0.25, 0.75]))
    assert np.allclose(mu.coefficients, plain.coefficients, rtol=0, atol=1e-15)
    assert float(mf.wasserstein(mu, plain, p=1)) < 1e-14
    assert np.isclose(mf.energy(mu, 2.0), mf.energy(plain, 2.0), rtol=1e-14)
    values = np.array([each.values for each in (mf.Density(CIRCLE, LAW), plain)])
    of_values = mf.OscillatorDensity(CIRCLE, values, [0.0, 1.0])
    assert np.allclose(of_values.parts[1], plain.coefficients, rtol=0, atol=1e-15)
    finer = of_values.resize(128)
    assert np.allclose(finer.parts[:, :32], of_values.parts, rtol=0, atol=1e-15)


def test_frequencies_are_quadratures():
    frequencies, weights = mf.lorentzian_frequencies(0.5, 101, centre=2.0)
    # the distribution function at the quantiles
    levels = 0.5 + np.arctan((frequencies - 2.0) / 0.5) / np.pi
    assert np.allclose(levels, (np.arange(101) + 0.5) / 101, rtol=0, atol=1e-14)
    assert np.allclose(weights, 1 / 101)
    frequencies, weights = mf.gaussian_frequencies(0.5, 180, centre=2.0)
    for t in (0.3, 5.0):
        mean = weights @ np.exp(1j * frequencies * t)
        assert np.isclose(mean, np.exp(2j * t - 0.125 * t * t), rtol=0, atol=1e-13)


FREQUENCIES = [-2.0, 0.3, 1.0, 4.0, 0.0]
PHASES = mf.Oscillators([0.3, 2.0, 2.5, 4.0, 5.5], FREQUENCIES, [0.3, 0.1, 0.2, 0.1, 0.3])


class Sines:
    """K sin(θ_j - θ_i) as an output at points, K larger for phases that turn fast."""

    name, noise = "sines", 0.0

    def __init__(self, gain=0.0):
        self.gain = gain

    def output(self, measure, points):
        factors = 1.0 + self.gain * np.abs(measure.frequencies)
        return factors[:, None] * (measure.weights @ measure.points)


OTHERS = {
    "SA at β = 0": (mf.SA(0.0), mf.Kuramoto(1.0)),
    "USA": (mf.USA(4.0), usa_as_interaction(4.0)),
    "heads": (mf.Attention(0.0, [mf.Head()]), mf.Kuramoto(1.0)),
    "doubly stochastic": (mf.DoublyStochastic(0.0), mf.Kuramoto(1.0)),
    "sum": (mf.SA(0.0) + mf.USA(4.0), usa_as_interaction(4.0) + mf.Kuramoto(1.0)),
    "own": (Sines(), mf.Kuramoto(1.0)),
    "layers": (
        mf.Layers([mf.SA(0.0), mf.USA(4.0)], step=0.3),
        mf.Layers([mf.Kuramoto(1.0), usa_as_interaction(4.0)], step=0.3),
    ),
    "in time": (
        mf.Sum([mf.SA(0.0)], weights=mf.Schedule([0.0, 1.0], [[1.0], [2.0]])),
        mf.Sum([mf.Kuramoto(1.0)], weights=mf.Schedule([0.0, 1.0], [[1.0], [2.0]])),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_phases_turn_under_any_dynamics(name):
    """The same X by an interaction of phases, and by what knows of points: (7.1), (7.2)."""
    runs = [mf.evolve(PHASES, one, 0.6, 3, rtol=1e-11) for one in OTHERS[name]]
    ends = [sol.final.angles for sol in runs]
    moved = np.array(FREQUENCIES) * 0.6 + PHASES.angles
    assert np.max(np.abs(np.exp(1j * ends[1]) - np.exp(1j * moved))) > 0.05
    assert np.max(np.abs(np.exp(1j * ends[0]) - np.exp(1j * ends[1]))) < 1e-9
    for number in ("order_parameter", "mean_phase", "rms_velocity", "metric_speed"):
        one, other = (sol.dataset[number].values for sol in runs)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-8)
    assert "balance_error" not in runs[0].dataset


def test_an_output_of_ones_own_sees_the_frequencies():
    """θ_i' = ω_i + (1 + |ω_i|) r sin(ψ - θ_i), against scipy."""

    def rate(_, angles):
        moment = PHASES.weights @ np.exp(1j * angles)
        pull = (moment * np.exp(-1j * angles)).imag
        return PHASES.frequencies + (1.0 + np.abs(PHASES.frequencies)) * pull

    exact = solve_ivp(rate, (0, 1), PHASES.angles, rtol=1e-12, atol=1e-13).y[:, -1]
    final = mf.evolve(PHASES, Sines(gain=1.0), 1.0, 3, rtol=1e-11).final
    assert np.max(np.abs(np.exp(1j * final.angles) - np.exp(1j * exact))) < 1e-9


def test_noisy_phases_turn_under_attention():
    """The same kicks move phases under SA at β = 0 and under K = 1, by two rules of order 2."""
    pair = mf.SA(0.0, noise=0.1), mf.Kuramoto(1.0, noise=0.1)
    assert {default_max_step(PHASES, one) for one in pair} == {0.02}
    gaps = []
    for step in (0.02, 0.005):
        one, other = (mf.evolve(PHASES, d, 0.5, 2, rng=5, max_step=step).final for d in pair)
        gaps.append(np.max(np.abs(one.points - other.points)))
    assert gaps[0] < 1e-3
    assert 8.0 < gaps[0] / gaps[1] < 32.0
    assert np.max(np.abs(one.points - PHASES.points)) > 0.1


def test_fast_phases_shorten_steps_under_noise_where_their_way_is_not_known():
    fast = mf.Oscillators([0.0, 1.0], [0.0, 500.0])
    steps = [
        default_max_step(fast, one)
        for one in (
            mf.SA(0.0, noise=0.1),
            mf.CircleInteraction([0.0, 0.5], noise=0.1),
            mf.Kuramoto(1.0, noise=0.1),
        )
    ]
    assert steps == [0.02 / 50.0, 0.02 / 50.0, 0.02]


@pytest.mark.parametrize("pull", [0.0, 0.7 - 1.1j, 3.0j])
def test_the_way_in_a_field_that_stands_still(pull):
    """Locked phases, those at the edge of it, and fast ones, in frames that turn with them."""
    size = abs(pull)
    frequencies = np.array([0.0, 0.5 * size, size, 1.01 * size, -2.0 * size, 40.0, -300.0])
    angles = np.array([0.1, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])

    def rate(t, theta):
        return (pull * np.exp(1j * (theta + frequencies * t))).real

    found = solve_ivp(rate, (0, 2), angles, "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    exact = found + 2.0 * frequencies
    ends = turned(angles, frequencies, pull, 2.0)
    assert np.max(np.abs(np.exp(1j * ends) - np.exp(1j * exact))) < 1e-9
    halves = turned(turned(angles, frequencies, pull, 0.5), frequencies, pull, 1.5)
    assert np.max(np.abs(np.exp(1j * ends) - np.exp(1j * halves))) < 1e-12
    # κh, too large for a cosh, and back again
    there = turned(angles[:2], frequencies[:2], pull, 1e4)
    assert np.isfinite(there).all()


def test_steps_through_flows_have_order_four():
    """By 8, 16 and 32 equal steps against DOP853."""
    dynamics = mf.CircleInteraction([1.0], [0.4], coupling=2.0)
    equation = tendency(PHASES, dynamics)

    def rate(_, state):
        out = np.empty_like(state)
        equation(state, out)
        return out

    exact = solve_ivp(rate, (0, 1), PHASES.angles, "DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    errors = []
    for count in (8, 16, 32):
        y = PHASES.angles
        for _ in range(count):
            steps = FlowSteps(
                lambda _, state: equation.pull(state),
                equation.flow,
                0.0,
                y,
                1.0 / count,
                first_step=1.0,
                tolerance=np.inf,
            )
            assert steps.step() is None
            y = steps.y
        errors.append(np.max(np.abs(np.exp(1j * y) - np.exp(1j * exact))))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 4.0) < 0.4)


@pytest.mark.parametrize("rtol", [1e-3, 1e-4, 1e-5])
def test_loose_steps_are_as_right_as_asked(rtol):
    """Phases and r(t), also through layers: errors of steps add up to a few tolerances."""
    layers = mf.Layers([mf.Kuramoto(3.0), mf.CircleInteraction([0.5], [1.0])], step=0.5)
    loose, exact = (mf.evolve(PHASES, layers, 1.0, 4, rtol=tol) for tol in (rtol, 1e-11))
    gap = np.abs(np.exp(1j * loose.final.angles) - np.exp(1j * exact.final.angles))
    assert 0.0 < np.max(gap) < 5.0 * rtol
    assert np.max(np.abs(order(loose) - order(exact))) < 5.0 * rtol


@pytest.mark.parametrize(("t_end", "least"), [(1.0, 10), slow(20.0, 12)])
def test_heavy_tails_do_not_set_the_steps_of_all(t_end, least):
    """The fastest of 4,000 Lorentzian phases turns 405 times per time, and counts 1/4,000.

    Steps that resolve its turns take 14,000 right-hand sides per time; those of 1e-5 take 900. The
    errors of these add up at random, and grow with r, by a factor of 30.
    """
    frequencies, _ = mf.lorentzian_frequencies(1.0, 4000)
    angles = np.random.default_rng(3).uniform(0.0, 2.0 * np.pi, 4000)
    phases = mf.Oscillators(angles, frequencies)
    loose, exact = (mf.evolve(phases, mf.Kuramoto(4.0), t_end, 20, rtol=r) for r in (1e-5, 1e-9))
    assert np.max(np.abs(order(loose) - order(exact))) < 1e-3
    assert np.ptp(order(exact)) > 0.05
    counts = [int(sol.dataset.evaluations[-1]) for sol in (loose, exact)]
    assert counts[0] < 1000 * t_end
    assert counts[1] > least * counts[0]


def test_many_lorentzian_phases_come_to_the_order_of_the_limit():
    """√(1 - 2Δ/K), by 4,000 phases up to t = 20; r(t) fluctuates by n^{-1/2}."""
    frequencies, _ = mf.lorentzian_frequencies(1.0, 4000)
    angles = angles_of(POISSON, 4000)[np.random.default_rng(3).permutation(4000)]
    times = np.linspace(10.0, 20.0, 41)
    sol = mf.evolve(mf.Oscillators(angles, frequencies), mf.Kuramoto(4.0), 20.0, times, rtol=1e-4)
    assert int(sol.dataset.evaluations[-1]) < 20_000
    limit = mf.theory.ott_antonsen(4.0, R0, [20.0], width=1.0)[0]
    assert np.isclose(limit, np.sqrt(0.5), atol=1e-8)
    assert abs(order(sol)[1:].mean() - limit) < 4000**-0.5
    assert np.max(np.abs(order(sol)[1:] - limit)) < 4.0 * 4000**-0.5
