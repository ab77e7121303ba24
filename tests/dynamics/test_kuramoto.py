"""Interactions on the circle: closed forms, attention as one of them, energies, three measures."""

import numpy as np
import pytest

import meanfield as mf
from validation.circle_clusters import usa_as_interaction

TIGHT = {"rtol": 1e-12, "atol": 1e-14}
R0 = 0.4
# the Poisson kernel (1 - r²)/(1 - 2r cos θ + r²), its series to rounding
POISSON = mf.FourierSeries(cos=2.0 * R0 ** np.arange(1, 45))
LAW = mf.FourierSeries(cos=[0.5, 0.1], sin=[0.0, 0.3])
# no energy: cosines, and harmonics beyond the first
GENERAL = mf.CircleInteraction(sin=[1.0, -0.4], cos=[0.3, 0.0, 0.2], coupling=1.3)
ODD = mf.CircleInteraction(sin=[1.0, 0.0, -0.5], coupling=1.3)


def measures(law, n=240):
    return {
        "density": mf.Density(mf.Circle(128), law),
        "flow map": mf.FlowMap(law),
        "tokens": mf.Particles.quantise(law, n),
    }


def order(sol):
    return sol.dataset.order_parameter.values


@pytest.mark.parametrize("psi", [1e-3, 0.4, 2.0, 3.5, 5.0, 2.0 * np.pi - 1e-3])
def test_the_mean_phase_is_from_0_to_a_turn(psi):
    """r e^{iψ} = ∫ e^{iθ} dmu of a pair about ψ, and of 1 + cos(θ - ψ)."""
    pair = mf.Particles.from_angles(np.mod([psi - 0.7, psi + 0.7], 2.0 * np.pi))
    wave = mf.FourierSeries(cos=[np.cos(psi)], sin=[np.sin(psi)])
    for measure, r in (pair, np.cos(0.7)), (mf.Density(mf.Circle(16), wave), 0.5):
        assert mf.order_parameter(measure) == pytest.approx((r, psi), abs=1e-14)


def test_the_mean_phase_is_below_a_turn_however_small_it_is():
    assert mf.order_parameter(mf.Particles([[1.0, -1e-17]])) == (1.0, 0.0)
    opposite = mf.Particles([[1.0, 0.0], [-1.0, 0.0]])
    assert mf.order_parameter(opposite) == (0.0, 0.0)


@pytest.mark.parametrize("beta", [0.0, 1e-9, 1e-7, 0.5, 4.0, 30.0, 150.0])
def test_series_of_usa(beta):
    """Σ b_k sin kx = e^{β cos x} sin x; the sum of all |b_k| is a few sqrt(β) times its maximum."""
    usa, x = usa_as_interaction(beta), np.linspace(0.0, 2 * np.pi, 97)
    k = np.arange(1, usa._kmax + 1)
    series = np.sin(np.outer(x, k)) @ np.array(usa.sin)
    exact = np.exp(beta * (np.cos(x) - 1.0)) * np.sin(x)
    assert np.max(np.abs(series * np.exp(-beta) - exact)) < 3e-15 * np.sqrt(1.0 + beta)
    assert np.max(np.abs(exact)) > 0.01


@pytest.mark.parametrize("dynamics", [GENERAL, ODD], ids=["general", "odd"])
def test_field_is_the_double_sum(dynamics):
    """X(θ) = K Σ_j w_j h(θ_j - θ), h summed term by term."""
    rng = np.random.default_rng(5)
    angles, weights, at = rng.uniform(0, 7, 9), rng.uniform(0, 1, 9), rng.uniform(0, 7, 5)
    weights /= weights.sum()
    x = angles - at[:, None]
    h = sum(b * np.sin(k * x) for k, b in enumerate(dynamics.sin, 1))
    h = h + sum(a * np.cos(k * x) for k, a in enumerate(dynamics.cos, 1))
    exact = dynamics.coupling * h @ weights
    tokens = mf.Particles(mf.spaces.geometry.circle_points(angles), weights, unit_mass=True)
    velocity = dynamics.velocity(tokens, mf.spaces.geometry.circle_points(at))
    tangents = np.column_stack([-np.sin(at), np.cos(at)])
    assert np.min(np.abs(exact)) > 1e-3
    assert np.allclose(velocity, exact[:, None] * tangents, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", ["density", "flow map", "tokens"])
@pytest.mark.parametrize("coupling", [1.3, -1.3])
def test_energy_balance(kind, coupling):
    """F(t) - F(0) = ∫ ∫|X|² dmu dt, of either sign of K, and F is the double sum."""
    odd = mf.CircleInteraction(ODD.sin, coupling=coupling)
    ds = mf.evolve(measures(LAW)[kind], odd, 1.0, 4).dataset
    gained = ds.energy - ds.energy[0]
    assert float(gained[-1]) > 0.01
    assert np.all(np.diff(ds.energy) > 0.0)
    # steps have relative errors of 1e-9
    assert np.max(np.abs(gained - ds.work)) < 1e-9
    tokens = measures(LAW, 40)["tokens"]
    apart = np.subtract.outer(*2 * [np.arctan2(tokens.points[:, 1], tokens.points[:, 0])])
    h = sum(b / k * np.cos(k * apart) for k, b in enumerate(odd.sin, 1))
    assert np.isclose(mf.energy(tokens, odd), 0.5 * coupling * h.mean(), atol=1e-14)


def test_no_energy_is_claimed_with_cosines():
    ds = mf.evolve(measures(LAW)["density"], GENERAL, 0.1, 1).dataset
    assert not [name for name in ds if "energy" in name or "work" in name]
    assert "dissipation" not in ds
    with pytest.raises(ValueError, match=r"must have an energy, got .*: with cosines"):
        mf.energy(measures(LAW)["density"], GENERAL)


def test_free_energy_with_noise():
    """τ ∫ f log f - F falls by its dissipation, and F by its own balance with the noise's part."""
    noisy = mf.CircleInteraction(ODD.sin, coupling=1.3, noise=0.1)
    ds = mf.evolve(measures(LAW)["density"], noisy, 1.0, 4).dataset
    gained = ds.free_energy - ds.free_energy[0]
    assert float(gained[-1]) < -0.01
    # Simpson's rule of steps whose errors are 1e-9
    assert np.max(np.abs(gained - ds.free_work)) < 1e-7
    own = ds.energy - ds.energy[0] - ds.work
    assert np.max(np.abs(own)) < 1e-9


def test_growth_at_the_uniform_measure():
    """Each mode by itself, 1e-6 high: nonlinear terms are 1e-6 of it."""
    dynamics = mf.CircleInteraction([1.0, -0.4], [0.3, 0.0, 0.2], coupling=1.3, noise=0.05)
    rates = mf.theory.growth_rates(dynamics, 2, 4)
    assert np.allclose(rates, [0.0, 0.6, -0.72, -0.45, -0.8])
    for k in range(1, 5):
        law = mf.FourierSeries(cos=[*[0.0] * (k - 1), 1e-6])
        start = mf.Density(mf.Circle(32), law, tail_tol=1e-11)
        final = mf.evolve(start, dynamics, 1.0, 1, **TIGHT).final
        mode = final.trigonometric_moments(k)[k]
        assert abs(np.log(abs(mode) / 5e-7) - rates[k]) < 1e-5
        # cosines turn it: c_k' = -ik K (a_k + i b_k)/2 c_k
        turned = [0.0, *dynamics.cos, 0.0][k] * 1.3 * k / 2
        assert abs(np.angle(mode) + turned) < 1e-5


@pytest.mark.slow
def test_a_flow_map_clusters_and_repulsion_makes_no_atoms():
    sol = mf.evolve(mf.FlowMap(POISSON), mf.Kuramoto(1.0), 60.0, 4)
    assert sol.status == "clustered"
    assert abs(order(sol)[-1] - 1.0) < 1e-12
    ds = mf.evolve(mf.FlowMap(POISSON), mf.Kuramoto(-1.0), 60.0, 4).dataset
    assert float(ds.n_atoms.max()) == 0.0
    assert abs(float(ds.order_parameter[-1])) < 1e-10


@pytest.mark.slow
def test_a_flow_map_takes_over():
    mu = mf.Density(mf.Circle(64), POISSON, max_size=256)
    sol = mf.evolve(mu, mf.Kuramoto(1.0), 8.0, 4, on_unresolved="flow-map", rtol=1e-11)
    assert "a flow map took over" in sol.message
    assert np.max(np.abs(order(sol) - mf.theory.ott_antonsen(1.0, R0, sol.t))) < 1e-8


@pytest.mark.slow
def test_noisy_tokens_are_noisy_densities():
    """r of 4000 tokens: a standard error of at most 1/sqrt(n), steps of 0.02 an error of 1e-4."""
    noisy = mf.Kuramoto(1.0, noise=0.2)
    exact = mf.evolve(measures(LAW)["density"], noisy, 2.0, 2)
    tokens = mf.Particles.quantise(LAW, 4000)
    noisy_run = mf.evolve(tokens, noisy, 2.0, 2, rng=np.random.default_rng(4))
    assert abs(order(exact)[-1] - order(exact)[0]) > 0.1
    assert np.max(np.abs(order(noisy_run) - order(exact))) < 4.0 / np.sqrt(4000)
    assert "work" not in noisy_run.dataset
