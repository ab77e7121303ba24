"""Right-hand sides of densities; noise, ∂_t f = -div(f X) + τ Δf: balances, closed forms."""

import numpy as np
import pytest
from scipy.integrate import quad

import meanfield as mf
from meanfield.cli.commands import main
from meanfield.equations.tendency import tendency
from tests.handmade import CASE, free_dissipation, free_energy, slow

AXIS = np.array([0.48, 0.6, 0.64])
CIRCLE = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
STARTS = {
    "circle": mf.Density(mf.Circle(64), CIRCLE),
    "sphere": mf.Density(mf.Sphere(15), mf.ZonalSeries(3, [0.5, 0.2], axis=AXIS)),
    "zonal": mf.Density(mf.Zonal(7, 31), mf.ZonalSeries(7, [0.5, 0.2])),
}


# ---------------------------------------------------------------- right-hand sides


# at 4 the series of G has its digits everywhere, and is all there is
@pytest.mark.parametrize("beta", [4, 16, 25, 100])
@pytest.mark.parametrize("space", [mf.Circle(256), mf.Zonal(3, 95), mf.Zonal(10, 95)], ids=str)
def test_right_hand_side_has_the_same_velocity(space, beta):
    """The right-hand side switches to positive sums by itself: flux / f is X on the grid."""
    bump = mf.VonMisesFisher(np.eye(space.dim)[-1], 50.0)
    mu = mf.Density(space, mf.Mixture([bump, mf.Uniform(space.dim)], [1 - 1e-8, 1e-8]))
    rate = tendency(mu, mf.SA(float(beta)))
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    transforms = rate._transforms
    index = np.arange(len(space.weights))
    expected = np.einsum(
        "aid,id->ai", space.tangent_frame(index), mf.SA(float(beta)).velocity(mu, at=space.points)
    )
    # f has lost its small values in the coefficients, so only where f is resolved is X the law's
    resolved = mu.values > 1e-4 * mu.values.max()
    speed = transforms.flux[:, resolved] / transforms.values[resolved]
    assert np.max(np.abs(expected[:, resolved])) > 0.01
    assert np.max(np.abs(speed - expected[:, resolved])) < 1e-9
    assert np.isfinite(transforms.flux).all()
    # a convex combination of unit vectors is no longer than 1, with room for rounding
    assert np.max(np.abs(transforms.flux)) <= (1 + 1e-9) * np.max(np.abs(transforms.values))


@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
@pytest.mark.parametrize("beta", [1e-30, 1e-12, 1e-9, 1e-4, 1.0, 6.0])
@pytest.mark.parametrize("space", [mf.Circle(64), mf.Zonal(10, 31), mf.Zonal(100, 31)], ids=str)
def test_right_hand_side_keeps_every_degree_that_counts(space, beta, kind):
    """Series against positive sums, relative to the velocity, from tiny β and in high dimension."""
    mu = mf.Density(space, mf.VonMisesFisher(np.eye(space.dim)[-1], 2.0))
    rate = tendency(mu, kind(beta))
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    speed = rate.unit * rate._transforms.flux / rate._transforms.values
    index = np.arange(len(space.weights))
    velocity = kind(beta).velocity(mu, at=space.points)
    expected = np.einsum("aid,id->ai", space.tangent_frame(index), velocity)
    size = np.max(np.abs(expected))
    assert size > 1e-3
    assert np.max(np.abs(speed - expected)) < 1e-12 * size


def test_products_on_the_circle_do_not_alias():
    """A full spectrum moves on its own grid as on one four times as fine, to rounding."""
    rates = []
    for space in mf.Circle(32), mf.Circle(128):
        coefficients = np.zeros(space.kmax + 1, dtype=complex)
        coefficients[:16] = 0.02 * np.exp(1j * np.arange(16.0))
        coefficients[0] = 1.0
        rate = tendency(mf.Density.from_coefficients(space, coefficients), mf.USA(4.0))
        out = np.empty_like(rate.initial_state)
        rate(rate.initial_state, out)
        rates.append(out.view(complex)[:16])
    size = np.abs(rates[1]).max()
    assert size > 1e-3
    assert np.abs(rates[0] - rates[1]).max() < 1e-14 * size


# ---------------------------------------------------------------- noise


@pytest.mark.parametrize("name", ["zonal", *map(slow, ("circle", "sphere"))])
def test_tolerance_bounds_the_error_by_a_method_of_order_four(name):
    mu, dynamics = STARTS[name], mf.SA(2.0, noise=0.1)
    exact = mf.evolve(mu, dynamics, 1.0, 1, rtol=1e-13, atol=1e-15).final
    gaps, steps = [], []
    for rtol in (1e-4, 1e-6, 1e-8):
        sol = mf.evolve(mu, dynamics, 1.0, 1, rtol=rtol, atol=1e-3 * rtol)
        gaps.append(np.abs(sol.final.coefficients - exact.coefficients).max())
        steps.append(float(sol.dataset.steps[-1]))
        assert gaps[-1] < rtol
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2] > 0
    assert np.log(gaps[1] / gaps[2]) / np.log(steps[2] / steps[1]) > 3.5


@pytest.mark.parametrize(
    ("space", "law"),
    [
        (mf.Circle(32), mf.FourierSeries(cos=[0.0, 0.5, 0.1], sin=[0.0, 0.0, 0.2])),
        (mf.Sphere(15), mf.ZonalSeries(3, [0.0, 0.5, 0.3], axis=AXIS)),
        (mf.Zonal(20, 15), mf.ZonalSeries(20, [0.0, 0.5, 0.01])),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [mf.SA, mf.USA, mf.DoublyStochastic])
def test_heat_flow_alone(space, law, kind):
    """β = 0 and mean 0: no drift, so f_k e^{-τ k(k+d-2) t} to rounding, in one step a save."""
    mu = mf.Density(space, law)
    assert np.linalg.norm(mu.mean()) < 1e-15
    sol = mf.evolve(mu, kind(0.0, noise=0.7), 0.6, 3)
    decay = space.degrees * (space.degrees + space.dim - 2.0)
    for t, measure in zip(sol.t, sol.measures, strict=True):
        expected = mu.coefficients * np.exp(-0.7 * decay * t)
        assert np.abs(measure.coefficients - expected).max() < 1e-13
    assert sol.dataset.steps[-1] == 3
    assert np.abs(mu.coefficients[space.degrees > 1]).max() > 0.01


@pytest.mark.parametrize("dynamics", [mf.SA, mf.USA, slow(mf.DoublyStochastic)])
def test_the_noise_has_its_share_of_the_work(dynamics):
    """E(t) - E(0) = ± ∫ dissipation dt + noise_work, the integral by Gauss's rule over saves."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    mu = mf.Density(mf.Circle(48), CIRCLE)
    sol = mf.evolve(mu, dynamics(2.0, sign=-1, noise=0.3), 1.0, 0.5 + 0.5 * nodes)
    data = sol.dataset
    lost = 0.5 * float(weights @ data.dissipation.values[1:-1])
    share = float(data.noise_work[-1])
    # Gauss's rule is exact to rounding here, the work and its share to rtol = 1e-9 a step
    assert float(data.energy[-1] - data.energy[0]) == pytest.approx(share - lost, abs=3e-9)
    assert share < -1e-3


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
@pytest.mark.parametrize(
    ("name", "beta"),
    [
        ("circle", 2.0),
        slow("sphere", 2.0),
        ("zonal", 2.0),
        ("zonal", 0.0),
    ],
)
def test_balances(name, kind, beta, sign):
    """E(t) - E(0) = work for both, F(t) - F(0) = -∫ free dissipation for USA, to the tolerance."""
    mu, dynamics = STARTS[name], kind(beta, sign=sign, noise=0.3)
    sol = mf.evolve(mu, dynamics, 1.0, 5)
    data = sol.dataset
    assert sol.status == "finished"
    assert np.abs(data.energy - data.energy[0] - data.work).max() < 1e-9
    assert np.abs(data.energy - data.energy[0]).max() > 1e-3
    # mass is the first coefficient, which nothing changes; its quadrature rounds
    assert np.abs(data.mass - 1.0).max() < 1e-14
    assert all(measure.coefficients[0] == mu.coefficients[0] for measure in sol.measures)
    expected = [measure.entropy() for measure in sol.measures]
    assert np.array_equal(data.entropy, expected)
    if kind is mf.SA:
        assert "free_energy" not in data
        return
    assert np.abs(data.free_energy - data.free_energy[0] - data.free_work).max() < 3e-9
    assert (np.diff(data.free_energy) < 0).all()
    assert np.allclose(data.metric_speed**2, data.free_dissipation, rtol=1e-12, atol=0)
    for name, number in ("free_energy", free_energy), ("free_dissipation", free_dissipation):
        expected = [number(measure, dynamics) for measure in sol.measures]
        assert np.allclose(data[name], expected, rtol=1e-12, atol=1e-14)


def test_entropy_of_a_law():
    """∫ f log f dσ of f = e^{κ t}/Λ_0(κ) is κ L - log Λ_0, L = ∫ t f dσ; and of 1 + a cos θ."""
    mu = mf.Density(mf.Sphere(47), mf.VonMisesFisher(AXIS, 4.0))
    mean, log_norm = 1.0 / np.tanh(4.0) - 0.25, np.log(np.sinh(4.0) / 4.0)
    assert mu.entropy() == pytest.approx(4.0 * mean - log_norm, abs=1e-13)
    touching = mf.Density(mf.Circle(256), mf.FourierSeries(cos=[1.0]))
    exact = quad(lambda x: (f := 1.0 + np.cos(x)) * np.log(f) / np.pi, 0.0, np.pi - 1e-9)[0]
    # f has a zero of second order, so the trapezoidal rule is of third
    assert touching.entropy() == pytest.approx(exact, abs=384.0**-3 * 10)


def test_large_beta():
    """USA at β = 300: energies of size e^300, dissipations of e^600, all in units of e^300."""
    mu = mf.Density(mf.Circle(128), mf.FourierSeries(cos=[0.3]))
    critical = mf.theory.critical_noise(mf.USA(300.0), 2)
    sol = mf.evolve(mu, mf.USA(300.0, noise=2.0 * critical), 0.1 / critical, 2)
    assert sol.status == "finished"
    data = sol.dataset
    change = data.free_energy[0] - data.free_energy[-1]
    assert float(data.free_work[-1]) == pytest.approx(-float(change), rel=1e-7)
    assert float(change) > 1e-3 * abs(float(data.free_energy[0]))


@pytest.mark.parametrize(
    ("coarse", "fine"),
    [(mf.Circle(32), mf.Circle(4096)), (mf.Zonal(3, 15), mf.Zonal(3, 255))],
    ids=str,
)
@pytest.mark.parametrize("rtol", [1e-4, 1e-9])
def test_noise_on_high_degrees_costs_no_steps(coarse, fine, rtol):
    law = mf.ZonalSeries(coarse.dim, [0.5])
    runs = (
        mf.evolve(mf.Density(space, law), mf.USA(1.0, noise=1.0), 1.0, 1, rtol=rtol)
        for space in (coarse, fine)
    )
    steps = [int(run.dataset.steps[-1]) for run in runs]
    # the tolerance is shared by more coefficients on the finer space
    assert abs(steps[0] - steps[1]) <= max(3, 0.2 * steps[0])


def test_a_start_that_touches_zero():
    """Noise fills it at once; the free energy's balance is right to what f near 0 is known to."""
    mu = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[1.0]))
    sol = mf.evolve(mu, mf.USA(1.0, noise=0.3), 1.0, 4)
    assert sol.status == "finished"
    assert sol.dataset.min_density[-1] > 0.1
    data = sol.dataset
    assert np.abs(data.energy - data.energy[0] - data.work).max() < 1e-10
    # the quadrature of f log f at t = 0, where f has a zero of second order, is of third order
    assert np.abs(data.free_energy - data.free_energy[0] - data.free_work).max() < 96.0**-3 * 10


@pytest.mark.slow
def test_figure_tells_no_slope_of_the_energy():
    figure = mf.plot.solution(mf.evolve(STARTS["circle"], mf.USA(1.0, noise=0.25), 0.5, 2))
    titles = [ax.get_title(loc="left") + ax.get_title() for ax in figure.axes]
    assert "dissipation" in titles
    assert not any("dE/dt" in title for title in titles)


@pytest.mark.usefixtures("undrawn")
def test_a_case_with_noise_runs(folder, capsys):
    """Its density stops where no space holds it, since no flow map can take over."""
    case = CASE.replace("beta = 1.0", 'type = "USA", beta = 1.0, noise = 0.2')
    assert "on_unresolved" not in mf.Case(case).build()[2]
    (folder / "my.toml").write_text(case)
    assert main(["run", "my.toml"]) == 0
    assert "work is the integral of the dissipation and of the noise" in capsys.readouterr().out
    assert mf.load("run.nc").dynamics == mf.USA(1.0, noise=0.2)
