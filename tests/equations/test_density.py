"""Densities with noise, ∂_t f = -div(f X) + τ Δf: the method, closed forms, balances, agreement."""

from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad

import meanfield as mf
from meanfield.cli.case import case_from_text
from meanfield.cli.commands import main
from meanfield.evolution.steppers import ExponentialSteps, phi_functions
from tests.handmade import free_dissipation, free_energy

EPS = np.finfo(float).eps
TIGHT = {"rtol": 1e-11, "atol": 1e-13}
AXIS = np.array([0.48, 0.6, 0.64])
SERIES = mf.ZonalSeries(3, [0.5, 0.2], axis=AXIS)
CIRCLE = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
STARTS = {
    "circle": lambda: mf.Density(mf.Circle(64), CIRCLE),
    "sphere": lambda: mf.Density(mf.Sphere(31), SERIES),
    "zonal": lambda: mf.Density(mf.Zonal(7, 31), mf.ZonalSeries(7, [0.5, 0.2])),
}


@pytest.fixture(params=STARTS)
def mu(request):
    return STARTS[request.param]()


def order_parameter(measure):
    return float(np.linalg.norm(measure.mean()))


def gap(first, second):
    return float(np.abs(first.coefficients - second.coefficients).max())


# ------------------------------------------------------------------------------- the method itself


def test_phi_functions_have_all_their_digits():
    z = np.concatenate([[0.0, -1.0], -np.geomspace(1e-20, 1e7, 200), [-1.0 - EPS, -700.0]])
    exact = []
    # three divisions by 1e-20 take 60 digits
    with mpmath.workdps(100):
        for x in map(mpmath.mpf, z.tolist()):
            row = [mpmath.exp(x)]
            for k in range(3):
                step = 1 / mpmath.factorial(k)
                row.append((row[-1] - step) / x if x else 1 / mpmath.factorial(k + 1))
            exact.append([float(number) for number in row])
    for found, expected in zip(phi_functions(z), np.array(exact).T, strict=True):
        assert np.allclose(found, expected, rtol=4 * EPS, atol=0)


@pytest.mark.slow
def test_tolerance_bounds_the_error_by_a_method_of_order_four(mu):
    dynamics = mf.SA(2.0, noise=0.1)
    exact = mf.evolve(mu, dynamics, 1.0, 1, rtol=1e-13, atol=1e-15).final
    gaps, steps = [], []
    for rtol in (1e-4, 1e-6, 1e-8):
        sol = mf.evolve(mu, dynamics, 1.0, 1, rtol=rtol, atol=1e-3 * rtol)
        gaps.append(gap(sol.final, exact))
        steps.append(float(sol.dataset.steps[-1]))
        assert gaps[-1] < rtol
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2] > 0
    assert np.log(gaps[1] / gaps[2]) / np.log(steps[2] / steps[1]) > 3.5


def squares(start, t_bound, first_step):
    """Steps of y' = y², without decay."""
    return ExponentialSteps(
        lambda t, y: y**2,
        *(0.0, np.full(1, start), t_bound),
        decay=np.zeros(1),
        which=np.zeros(1, dtype=int),
        first_step=first_step,
        rtol=1e-9,
        atol=np.full(1, 1e-12),
    )


def test_a_first_step_that_is_far_too_long_is_taken_back():
    """It leaves double precision; tried again it does not."""
    steps = squares(1e-3, 999.0, 1e300)
    while steps.status == "running":
        assert steps.step() is None
    assert steps.y[0] == pytest.approx(1.0, rel=1e-5)


def test_rates_whose_squares_overflow():
    """y' = -1e200 (y - 1) from 0, by stages or as decay."""
    for decay, rate in (1e200, lambda t, y: np.array([1e200])), (0.0, lambda t, y: 1e200 * (1 - y)):
        steps = ExponentialSteps(
            rate,
            *(0.0, np.zeros(1), 3e-200),
            decay=np.array([decay]),
            which=np.zeros(1, dtype=int),
            first_step=None,
            rtol=1e-9,
            atol=np.full(1, 1e-12),
        )
        while steps.status == "running":
            assert steps.step() is None
        # what steps promise
        assert steps.y[0] == pytest.approx(-np.expm1(-3.0), rel=1e-9)


@pytest.mark.slow
def test_a_step_that_can_not_be_taken_says_so():
    """The solution 1/(1-t) ends at t = 1."""
    steps, reason = squares(1.0, 2.0, None), None
    while reason is None:
        reason = steps.step()
    assert steps.status == "failed"
    assert "spacing of floats" in reason
    assert steps.t == pytest.approx(1.0, abs=1e-4)


# ------------------------------------------------------------------------------------ closed forms


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
    assert order_parameter(mu) < 1e-15
    sol = mf.evolve(mu, kind(0.0, noise=0.7), 0.6, 3)
    decay = space.degrees * (space.degrees + space.dim - 2.0)
    for t, measure in zip(sol.t, sol.measures, strict=True):
        expected = mu.coefficients * np.exp(-0.7 * decay * t)
        assert np.abs(measure.coefficients - expected).max() < 1e-13
    assert sol.dataset.steps[-1] == 3
    assert np.abs(mu.coefficients[space.degrees > 1]).max() > 0.01


# ------------------------------------------------------------------------------- stationary states


# ---------------------------------------------------------------------------- balances of every run


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", [mf.SA, mf.USA, mf.DoublyStochastic])
def test_the_noise_has_its_share_of_the_work(dynamics):
    """E(t) - E(0) = ± ∫ dissipation dt + noise_work, the integral by Gauss's rule over saves."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    mu = mf.Density(mf.Circle(48), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))
    sol = mf.evolve(mu, dynamics(2.0, sign=-1, noise=0.3), 1.0, 0.5 + 0.5 * nodes)
    data = sol.dataset
    lost = 0.5 * float(weights @ data.dissipation.values[1:-1])
    share = float(data.noise_work[-1])
    # Gauss's rule is exact to rounding here, the work and its share to rtol = 1e-9 a step
    assert float(data.energy[-1] - data.energy[0]) == pytest.approx(share - lost, abs=3e-9)
    assert share < -1e-3


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_balances(mu, kind, beta, sign):
    """E(t) - E(0) = work for both, F(t) - F(0) = -∫ free dissipation for USA, to the tolerance."""
    dynamics = kind(beta, sign=sign, noise=0.3)
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


# --------------------------------------------------------------------------- agreement and the rest


@pytest.mark.parametrize(
    ("coarse", "fine"),
    [(mf.Circle(32), mf.Circle(4096)), (mf.Zonal(3, 15), mf.Zonal(3, 255))],
    ids=str,
)
@pytest.mark.parametrize("rtol", [1e-4, 1e-9])
def test_noise_on_high_degrees_costs_no_steps(coarse, fine, rtol):
    law = mf.ZonalSeries(coarse.dim, [0.5])
    steps = [
        int(
            mf.evolve(
                mf.Density(space, law), mf.USA(1.0, noise=1.0), 1.0, 1, rtol=rtol
            ).dataset.steps[-1]
        )
        for space in (coarse, fine)
    ]
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
    figure = mf.plot.solution(mf.evolve(STARTS["circle"](), mf.USA(1.0, noise=0.25), 0.5, 2))
    titles = [ax.get_title(loc="left") + ax.get_title() for ax in figure.axes]
    assert "dissipation" in titles
    assert not any("dE/dt" in title for title in titles)


CASE = """
[law]
type = "FourierSeries"
cos = [0.5]
[measure]
type = "Density"
space = { type = "Circle", n = 32 }
[dynamics]
type = "USA"
beta = 1.0
noise = 0.2
[run]
t_end = 0.5
save_at = 2
"""


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_case_with_noise_runs(tmp_path, monkeypatch, capsys):
    """Its density stops where no space holds it, since no flow map can take over."""
    assert "on_unresolved" not in case_from_text(CASE, "my.toml")._build()[2]
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(CASE)
    assert main(["run", "my.toml"]) == 0
    out = capsys.readouterr().out
    assert "work is the integral of the dissipation and of the noise" in out
    assert mf.load("run.nc").dynamics == mf.USA(1.0, noise=0.2)


def test_refusals():
    dynamics = mf.SA(1.0, noise=0.1)
    flow = mf.FlowMap(CIRCLE)
    with pytest.raises(ValueError, match=r"noise must be 0 to evolve .*got 0.1: take a Density"):
        mf.evolve(flow, dynamics, 1.0)
    mu = STARTS["circle"]()
    for name, value in ("max_step", 0.1), ("rng", np.random.default_rng(0)):
        with pytest.raises(ValueError, match=rf"{name} must be .* but for Particles"):
            mf.evolve(mu, dynamics, 1.0, **{name: value})
    with pytest.raises(
        ValueError, match=r"on_unresolved must be 'stop' with noise, got 'flow-map'"
    ):
        mf.evolve(mu, dynamics, 1.0, on_unresolved="flow-map")
