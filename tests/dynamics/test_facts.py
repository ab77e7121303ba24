"""What each dynamics answers about its energy, and what it refuses and why, in one table."""

from types import SimpleNamespace

import numpy as np
import pytest

import meanfield as mf
from meanfield.dynamics.own import adapt
from meanfield.equations.tendency import tendency

BENT = np.array([[1.0, 0.4], [0.4, -0.3]])
SERIES = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
OWN = SimpleNamespace(name="square", noise=0.0, kernel=[1.0, 1.0, 0.25])
DYNAMICS = {
    "SA": mf.SA(2.0),
    "SA, repulsive": mf.SA(2.0, sign=-1),
    "USA": mf.USA(1.0),
    "DoublyStochastic": mf.DoublyStochastic(2.0),
    "one head of identities": mf.Attention(2.0, [mf.Head()]),
    "a form": mf.Attention(1.5, [mf.Head(Q=BENT, V=-BENT)]),
    "a form, not normalised": mf.Attention(1.5, [mf.Head(Q=BENT, V=BENT)], normalised=False),
    "Interaction": mf.Interaction([1.0, 1.0, 0.25]),
    "Interaction, normalised": mf.Interaction([1.0, 1.0, 0.25], normalised=True, sign=-1),
    "sines": mf.CircleInteraction([1.0, -0.4], coupling=1.3),
    "Kuramoto, repulsive": mf.Kuramoto(-1.0),
    "own": OWN,
    "Layers": mf.Layers([mf.USA(1.0), mf.SA(2.0)], step=0.5),
}
POTENTIALS = {
    "a potential": mf.FeedForward.from_potential([0.4, -0.7], BENT, [0.2, 0.0], activation="gelu"),
    "two potentials": mf.USA(1.0) + 0.5 * mf.DoublyStochastic(2.0),
}
ENERGIES = mf.energy, mf.energy_share, mf.dissipation, mf.slope
NUMBERS = *ENERGIES, mf.metric_speed, mf.rms_velocity


def tokens():
    rng = np.random.default_rng(0)
    return mf.Particles(SERIES.sample(12, rng), rng.uniform(0.5, 1.5, 12), unit_mass=True)


@pytest.mark.parametrize("name", DYNAMICS | POTENTIALS)
def test_each_dynamics_with_an_energy_answers(name):
    """By differences of the energy along X, and by sums over tokens."""
    dynamics, mu, t = (DYNAMICS | POTENTIALS)[name], tokens(), 0.7 if name == "Layers" else 0.0
    known = adapt(adapt(dynamics).at(t))
    own = known.energy_at_any_size
    numbers = {number.__name__: number(mu, dynamics, t=t) for number in NUMBERS}
    velocity, step = known.velocity(mu, mu.points), 1e-4

    def moved(h):
        points = mu.points + h * velocity
        points /= np.linalg.norm(points, axis=1)[:, None]
        return mf.energy(mf.Particles(points, mu.weights), dynamics, t=t)

    # of fourth order: h⁴ and rounding over h
    rate = (8 * (moved(step) - moved(-step)) - moved(2 * step) + moved(-2 * step)) / (12 * step)
    assert abs(rate) > 1e-3
    assert own.sign * numbers["dissipation"] == pytest.approx(rate, rel=1e-9)
    speed = np.sqrt(mu.weights @ np.sum(velocity**2, axis=1))
    assert numbers["metric_speed"] == pytest.approx(speed, rel=1e-12)
    assert numbers["rms_velocity"] == numbers["metric_speed"]
    assert numbers["slope"] ** 2 == pytest.approx(numbers["dissipation"], rel=1e-11)
    if name in POTENTIALS:
        # shares are of sums of sizes, not of one Dirac mass
        assert 0.0 < abs(numbers["energy_share"]) < 1.0
        return
    axes = np.linalg.eigh(own.form if np.ndim(own.form) else np.eye(2))[1]
    dirac = mf.energy(mf.Particles(axes[:, -1:].T), dynamics, t=t)
    assert numbers["energy_share"] == pytest.approx(numbers["energy"] / dirac, rel=1e-12)
    assert 0.0 < numbers["energy_share"] < 1.0


@pytest.mark.parametrize("name", DYNAMICS)
def test_densities_and_flow_maps_answer_alike(name):
    dynamics = DYNAMICS[name]
    # under a softmax of another kernel than e^{βt} X is no gradient, and moves less than it says
    lacks = {mf.metric_speed} if name == "Interaction, normalised" else set()
    measures = mf.Density(mf.Circle(64), SERIES), mf.FlowMap(SERIES)
    for number in set(NUMBERS) - lacks:
        density, flow = (number(measure, dynamics) for measure in measures)
        assert abs(density) > 1e-3
        assert density == pytest.approx(flow, rel=1e-11)


@pytest.mark.parametrize("name", DYNAMICS)
def test_growth_rates_are_those_of_a_small_wave(name):
    dynamics = DYNAMICS[name]
    if "form" in name or name == "Layers":
        with pytest.raises(ValueError, match=r"dynamics must have a kernel, .*since under others"):
            mf.theory.growth_rates(dynamics, 2, 5)
        return
    rates = mf.theory.growth_rates(dynamics, 2, 5)
    for k in range(1, 6):
        wave = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[*np.zeros(k - 1), 1e-7]))
        rate = tendency(wave, adapt(dynamics))
        out = np.empty_like(rate.initial_state)
        rate(rate.initial_state, out)
        growth = out.view(complex)[k].real / wave.coefficients[k].real
        # the next order is the wave itself, 1e-7
        assert growth == pytest.approx(rates[k], rel=1e-6, abs=1e-9)


def test_identities_are_sa():
    head, sa, mu = mf.Attention(2.0, [mf.Head()]), mf.SA(2.0), tokens()
    for number in NUMBERS:
        assert number(mu, head) == number(mu, sa)
    theory = mf.theory
    assert np.array_equal(theory.growth_rates(head, 3, 9), theory.growth_rates(sa, 3, 9))
    assert theory.energy_dirac(head) == theory.energy_dirac(2.0)
    assert theory.energy_uniform(head, 3) == theory.energy_uniform(2.0, 3)
    assert theory.critical_noise(head, 3) == theory.critical_noise(sa, 3)
    assert theory.dobrushin_constant(head) == theory.dobrushin_constant(sa)
    assert theory.orthogonal_tokens(head, 3, 1.0) == theory.orthogonal_tokens(sa, 3, 1.0)
    assert theory.orthogonal_arrival(head, 3, 0.1) == theory.orthogonal_arrival(sa, 3, 0.1)


def output(measure, points):
    return points


REFUSED = {
    "with cosines its field is no gradient": mf.CircleInteraction([1.0], [0.5]),
    "each column of W must be a multiple": mf.FeedForward(np.eye(2)[::-1], np.eye(2)),
    "only attention of one head": mf.Attention(1.0, [mf.Head(V=BENT)]),
    "nothing is known of it but its output": SimpleNamespace(name="o", noise=0.0, output=output),
    "of one head": mf.Layers([mf.Attention(1.0, [mf.Head(), mf.Head()])]),
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("number", ENERGIES)
def test_what_has_no_energy_is_told_why(number, why):
    with pytest.raises(ValueError, match=rf"^dynamics must have an energy, got .*: .*{why}"):
        number(tokens(), REFUSED[why])


def test_noise_and_frequencies_are_no_gradient():
    with pytest.raises(ValueError, match="dynamics must be without noise, since"):
        mf.slope(tokens(), mf.USA(1.0, noise=0.1))
    turning = mf.Oscillators([0.0, 1.0], [0.5, -0.5])
    assert mf.energy(turning, mf.Kuramoto(1.0)) == pytest.approx(0.25 * (1.0 + np.cos(1.0)))
    for number in mf.dissipation, mf.slope:
        with pytest.raises(ValueError, match="measure must have no frequencies, since"):
            number(turning, mf.Kuramoto(1.0))


def test_arrays_of_beta_and_t():
    theory, beta = mf.theory, np.array([[0.0, 1.0], [3.0, 9.0]])
    for whole, one in (
        (theory.energy_dirac(beta), theory.energy_dirac),
        (theory.energy_uniform(beta, 3), lambda b: theory.energy_uniform(b, 3)),
        (theory.eigenvalues(beta, 3, 4), lambda b: theory.eigenvalues(b, 3, 4)),
        (theory.orthogonal_tokens(mf.SA(1.0), 4, beta), orthogonal),
        (theory.ott_antonsen(2.0, 0.5, beta), lambda t: theory.ott_antonsen(2.0, 0.5, t)),
    ):
        assert np.array_equal(whole, [[one(float(b)) for b in row] for row in beta])
        assert np.ptp(whole) > 0.1


def orthogonal(t):
    return mf.theory.orthogonal_tokens(mf.SA(1.0), 4, t)


@pytest.mark.parametrize("name", DYNAMICS)
def test_energies_of_theory(name):
    dynamics = DYNAMICS[name]
    uniform = mf.Density(mf.Circle(64), mf.Uniform(2))
    if "form" not in name and name != "Layers":
        energy = mf.theory.energy_uniform(dynamics, 2)
        assert energy == pytest.approx(mf.energy(uniform, dynamics), rel=1e-12, abs=1e-15)
    if name != "Layers":
        axes = np.linalg.eigh(BENT)[1]
        dirac = mf.energy(mf.Particles(axes[:, -1:].T), dynamics)
        assert mf.theory.energy_dirac(dynamics) == pytest.approx(dirac, rel=1e-12)
