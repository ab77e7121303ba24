"""Stationary states under noise: published numbers, the equation, thermodynamics, stability."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import meanfield as mf
from meanfield.equations.tendency import tendency
from meanfield.kernels.direct import latitude_log_moment
from meanfield.spaces.geometry import geodesic_distance
from meanfield.studies import stationary_density, stationary_states
from meanfield.studies.stationary import Equation, Linearisation, follow

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "reference_values.json").read_text())


@pytest.fixture(scope="module")
def first_order():
    return stationary_states(mf.USA(3.0), 2)


# ------------------------------------------------------------------------- published numbers


@pytest.mark.parametrize("dim", [2, 4, 8])
def test_published_limits_of_continuity(dim):
    found = mf.theory.transition_beta(dim)
    assert found == pytest.approx(float(REFERENCE["beta_star"][str(dim)]), rel=1e-14)


# ------------------------------------------------------------------------------ the equation


STATES = [
    (mf.USA(3.0, noise=1.32), 2, 1, 1),
    (mf.USA(3.0, noise=0.3), 3, 1, 1),
    (mf.USA(5.0, noise=0.8), 8, 1, 1),
    (mf.USA(4.0, noise=0.4), 4, 2, 1),
    (mf.USA(4.0, noise=0.4), 4, 2, -1),
    (mf.USA(5.0, noise=1.0), 2, 3, 1),
    (mf.SA(6.0, noise=0.08), 3, 1, 1),
    (mf.SA(9.0, noise=0.06), 3, 1, 1),
    (mf.SA(4.0, noise=0.05), 3, 2, -1),
]


@pytest.mark.parametrize(("dynamics", "dim", "degree", "direction"), STATES)
def test_state_is_at_rest(dynamics, dim, degree, direction):
    """The noisy equation's own right-hand side vanishes, of which each term is large."""
    mu = stationary_density(dynamics, dim, degree=degree, direction=direction)
    space = mf.Zonal(dim, 2 * mu.space.kmax)
    mu = mf.Density.from_coefficients(space, np.pad(mu.coefficients, (0, mu.space.kmax)))
    rhs = np.empty(space.n_coefficients)
    tendency(mu, dynamics)(mu.coefficients.copy(), rhs)
    laplacian = space.degrees * (space.degrees + dim - 2) * mu.coefficients * dynamics.noise
    size = np.linalg.norm(laplacian)
    assert size > 0.01
    # rounding 1e-16 of a coefficient of degree k counts k² times, up to 1e4
    assert np.linalg.norm(rhs - laplacian) < 1e-10 * size


# ---------------------------------------------------------------------------- thermodynamics


def free_energy(dim, beta, tau):
    mu = stationary_density(mf.USA(beta, noise=tau), dim)
    kept = mu.values > 0.0
    f, w = mu.values[kept], mu.space.weights[kept]
    entropy = w @ (f * np.log(f))
    return tau * entropy - mf.energy(mu, beta), entropy


def test_dataset_agrees_with_densities(first_order):
    one = first_order.isel(beta=0, branch=0)
    last = int(np.isfinite(one.noise).sum()) - 1
    mu = stationary_density(mf.USA(3.0, noise=one.noise.item(last)), 2)
    value, entropy = free_energy(2, 3.0, one.noise.item(last))
    for name, expected in {
        "order_parameter": mu.mean()[-1],
        "moment": mu.mean()[-1],
        "energy": mf.energy(mu, 3.0),
        "energy_share": mf.energy(mu, 3.0) / mf.theory.energy_dirac(3.0),
        "entropy": entropy,
        "free_energy": value,
        "free_energy_excess": value + mf.theory.energy_uniform(3.0, 2),
    }.items():
        assert one[name].item(last) == pytest.approx(expected, rel=1e-12), name


@pytest.mark.slow
def test_lowest_free_energy(first_order):
    """Beyond τ_c the uniform state, below it the outer part of the branch, and nothing else."""
    one = first_order.isel(beta=0, branch=0)
    known = np.isfinite(one.noise.values)
    place = np.flatnonzero(one.event.values == "equal free energy")[0]
    assert np.all(one.lowest.values[known][1 : place - 1] == 0)
    assert np.all(one.lowest.values[known][place + 1 :] == 1)
    assert one.noise.values[place] == first_order.transition_noise.item()
    # several branches: degree 1 stays the lowest
    ds = stationary_states(mf.USA(5.0), 3, kmax=3).isel(beta=0)
    lowest = ds.lowest.values == 1
    assert lowest[0].sum() > 10
    for branch in (1, 2, 3):
        assert not lowest[branch, 1:].any()


def test_antisymmetric_work_along_a_loop(first_order):
    """τ_c by Maxwell's rule: ∫ S dτ from the uniform state through the fold to τ_c vanishes."""
    one = first_order.isel(beta=0, branch=0)
    place = int(np.flatnonzero(one.event.values == "equal free energy")[0])
    tau, entropy = one.noise.values[: place + 1], one.entropy.values[: place + 1]
    steps = np.diff(tau) * 0.5 * (entropy[1:] + entropy[:-1])
    assert np.abs(steps).sum() > 1e-4
    # trapezoidal rule on some twenty points
    assert abs(steps.sum()) < 0.05 * np.abs(steps).sum()


# --------------------------------------------------------------------------------- stability


# states that are nowhere next to 0, so that differences of a series in f see all modes
SPREAD = [
    (mf.USA(3.0, noise=1.32), 2, 1, 1),
    (mf.USA(5.0, noise=3.3), 3, 1, 1),
    (mf.USA(4.0, noise=0.3), 4, 2, -1),
    (mf.USA(5.0, noise=1.7), 2, 3, 1),
    (mf.SA(4.0, noise=0.16), 2, 1, 1),
    (mf.SA(6.0, noise=0.11), 3, 1, 1),
    (mf.SA(9.0, noise=0.09), 3, 1, 1),
]


@pytest.mark.parametrize(("dynamics", "dim", "degree", "direction"), SPREAD)
def test_growth_is_that_of_the_equation(dynamics, dim, degree, direction):
    """Eigenvalues against differences of the right-hand side that runs use."""
    mu = stationary_density(dynamics, dim, degree=degree, direction=direction)
    space, tau = mu.space, dynamics.noise
    rate = tendency(mu, dynamics)
    c, step = mu.coefficients.copy(), 1e-6
    up, down = np.empty((2, len(c)))
    jacobian = np.zeros((len(c), len(c)))
    for k in range(1, len(c)):
        change = step * np.eye(1, len(c), k)[0]
        rate(c + change, up)
        rate(c - change, down)
        jacobian[:, k] = (up - down) / (2 * step)
    jacobian -= np.diag(tau * space.degrees * (space.degrees + dim - 2.0))
    expected = np.linalg.eigvals(jacobian[1:, 1:])
    expected = expected[np.argsort(-expected.real)][:4]
    equation = Equation(dynamics, dim)
    tau_1 = mf.theory.critical_noise(dynamics, dim)
    b = (np.sqrt(equation.kappa) * np.pad(c, (0, equation.kmax))[1 : equation.kmax + 1]).real
    nodes = len(space.nodes)
    rates = tau * Linearisation(equation).rates(b, tau_1 / tau, nodes)[:4]
    # differences of this step have errors of 1e-10, and eigenvalues of high degrees magnify them
    assert np.max(np.abs(rates - expected)) < 1e-6 * np.max(np.abs(expected))


def concentrated(beta, power, dim):
    """A state of SA with βτ = 1/power, in moments, and what it belongs to."""
    equation = Equation(mf.SA(beta), dim)
    last = float(np.log(power * equation.lam))
    return equation, follow(equation, 1, last, {})[0][-1]


@pytest.mark.parametrize("dim", [2, 3, 9])
def test_far_masses_are_right_however_small(dim):
    """f = (W * f)^{1/(βτ)}/Z over a factor e^{25} and more, W * f by the package's other sums."""
    equation, point = concentrated(100.0, 1.1, dim)
    nodes = equation.grid(point.nodes).nodes
    state = equation.state(point.b, point.rho, equation.grid(point.nodes))
    linearisation = Linearisation(equation)
    masses = linearisation._far_masses(state.masses, state.slope, point.rho, point.nodes)
    sines = np.sqrt(1 - nodes**2)
    axis, across = np.eye(dim)[-1], np.eye(dim)[0]
    points = np.outer(nodes, axis) + np.outer(sines, across)
    log_g, _ = latitude_log_moment(axis, nodes, sines, np.log(masses), 100 * points)
    held = masses > 1e-200
    logs = np.log(masses[held]) - equation.grid(point.nodes).log_weights[held]
    assert np.ptp(logs) > 25
    expected = 1.1 * log_g[held]
    error = (logs - logs.max()) - (expected - expected[np.argmax(logs)])
    # where the series is trusted, down to 1e-8 of its maximum, it has 1e-8 of itself
    assert np.max(np.abs(error)) < 1e-6


@pytest.mark.parametrize(
    "power", [3.0, *(pytest.param(power, marks=pytest.mark.slow) for power in (1.2, 1.5))]
)
def test_growth_near_a_gaussian(power):
    """SA, large β: a Gaussian of variance v = τ/(1 - βτ), whose width is restored.

    The conditional mean of W * (fψ)/(W * f) takes r² to (βτ)² r², and diffusion r² to -2/v r²: the
    rate over τ is -(2/v)(1 - βτ).
    """
    equation, point = concentrated(300.0, power, 3)
    rates = Linearisation(equation).rates(point.b, point.rho, point.nodes)
    tau = 1 / (300 * power)
    variance = tau / (1 - 1 / power)
    # curvature of the sphere is a correction of the order of the variance, at most 0.02
    assert rates[0].real == pytest.approx(-2 / variance * (1 - 1 / power), rel=2 * variance)


@pytest.mark.slow
def test_two_clusters_exchange_mass():
    """USA, two opposite caps at small noise: F falls if one takes all, though over a barrier."""
    ds = stationary_states(mf.USA(5.0), 3, kmax=2).isel(beta=0, branch=1)
    place = int(np.isfinite(ds.noise).sum()) - 1
    assert ds.moment.item(place) > 0.9
    assert ds.n_unstable.item(place) == 1
    assert abs(ds.growth_rate.item(place)) < 1e-6


@pytest.mark.slow
def test_stability_on_other_branches():
    """Degree k bifurcates with the modes below it unstable: k - 1 of them."""
    ds = stationary_states(mf.USA(5.0), 2, kmax=3).isel(beta=0)
    for k in (1, 2, 3):
        one = ds.isel(branch=k - 1)
        assert one.n_unstable.values[0] == k - 1
        rates = mf.theory.growth_rates(mf.USA(5.0, noise=one.noise.item(0)), 2, 8)
        assert one.growth_rate.item(0) == pytest.approx(rates[1:].max(), abs=1e-8)
        assert one.noise.item(0) == pytest.approx(
            mf.theory.critical_noise(mf.USA(5.0), 2, degree=k), rel=1e-14
        )


def test_supercritical_branches_are_stable():
    for kind in (mf.USA, mf.SA):
        ds = stationary_states(kind(1.0), 3).isel(beta=0, branch=0)
        unstable = ds.n_unstable.values[np.isfinite(ds.noise.values)]
        assert len(unstable) > 20
        assert np.all(unstable == 0)


# ----------------------------------------------------------------------------------- extremes


def test_residual_is_that_of_finer_nodes(first_order):
    residual = first_order.residual.values[np.isfinite(first_order.residual.values)]
    assert np.all(residual < 1e-13)
    assert residual.max() > 0


@pytest.mark.slow
def test_large_beta_overflows_nothing():
    ds = stationary_states(mf.SA(1000.0), 2, until=0.9).isel(beta=0, branch=0)
    assert ds.status.item() == "complete"
    known = np.isfinite(ds.noise.values)
    assert np.isnan(ds.energy.values[known]).all()
    assert np.all(np.diff(ds.energy_share.values[known]) > 0)
    assert np.all(ds.n_unstable.values[known] == 0)
    # near the pole f is Gaussian of variance τ/(1 - βτ), up to its fourth moment
    variance = ds.noise.values[known][-1] / (1 - 1000 * ds.noise.values[known][-1])
    assert -2 * np.log(ds.order_parameter.values[known][-1]) == pytest.approx(variance, rel=0.02)
    ds = stationary_states(mf.USA(100.0), 3, until=0.9).isel(beta=0)
    assert np.isfinite(ds.free_energy_excess.values[np.isfinite(ds.noise.values)]).all()
    assert ds.critical_noise < ds.transition_noise < ds.fold_noise[0]


def test_high_dimension_says_where_it_ends():
    """d = 50, β = 5 needs nodes near the pole; where there are too few the branch ends."""
    ds = stationary_states(mf.USA(1.0), 50, until=0.5).isel(beta=0, branch=0)
    assert ds.status.item() in {"complete", "under-resolved"}
    assert np.nanmax(ds.residual.values) < 1e-11


def test_executor_changes_nothing(first_order):
    with ThreadPoolExecutor(2) as pool:
        ds = stationary_states([mf.USA(3.0), mf.USA(1.0)], 2, executor=pool)
    one = ds.isel(beta=0, point=slice(first_order.sizes["point"]))
    assert np.array_equal(one.noise, first_order.isel(beta=0).noise, equal_nan=True)
    assert ds.sizes == {"beta": 2, "branch": 1, "point": ds.sizes["point"]}


@pytest.mark.parametrize(("degree", "direction"), [(1, 1), (2, -1), (3, 1)])
def test_states_just_below_the_bifurcation(degree, direction):
    """τ = τ_k (1 - δ): the moment is of order sqrt(δ) for odd degrees, δ for even ones."""
    found = []
    for share in (1e-4, 1e-6):
        tau = mf.theory.critical_noise(mf.USA(1.5), 3, degree=degree) * (1 - share)
        mu = stationary_density(mf.USA(1.5, noise=tau), 3, degree=degree, direction=direction)
        found.append(mu.coefficients[degree])
    order = np.log(found[0] / found[1]) / np.log(100)
    # the next term is of relative order 1e-2, the moment, at most
    assert order == pytest.approx(1.0 if degree == 2 else 0.5, abs=0.01)
    assert direction * found[0] > 0


def test_axis():
    axis = np.array([0.6, 0.0, 0.8])
    mu = stationary_density(mf.USA(3.0, noise=0.3), 3, axis=axis)
    assert geodesic_distance(mu.mean() / np.linalg.norm(mu.mean()), axis) < 1e-12


# -------------------------------------------------------------------------------------- figure


def test_figure_shows_the_branch(first_order):
    figure = mf.plot.stationary_states(first_order)
    upper, lower = figure.axes
    one = first_order.isel(beta=0, branch=0)
    folds = one.event.values == "fold"
    (fold,) = [line for line in upper.lines if line.get_marker() == "s"]
    assert fold.get_xdata() == one.noise.values[folds]
    assert fold.get_ydata() == one.moment.values[folds]
    dashed, solid = (line for line in upper.lines if line.get_color() == "#0072b2"), None
    curves = {line.get_linestyle(): line for line in dashed if line.get_marker() == "None"}
    dashed, solid = (np.asarray(curves[style].get_ydata()) for style in ("--", "-"))
    # the unstable part ends at the fold and the stable one begins there
    assert np.nanmax(dashed) == one.moment.values[folds]
    assert np.nanmin(solid) == one.moment.values[folds]
    assert "first order" in figure.get_suptitle()
    assert np.allclose(lower.get_xlim(), upper.get_xlim())


@pytest.mark.slow
def test_figure_of_sa_has_no_free_energy():
    ds = stationary_states([mf.SA(4.0), mf.SA(1.0)], 3, kmax=2)
    assert "free_energy" not in ds
    assert "transition_noise" not in ds
    assert len(mf.plot.stationary_states(ds, 1).axes) == 1
    with pytest.raises(ValueError, match=r"index must be .* got 2"):
        mf.plot.stationary_states(ds, 2)
    with pytest.raises(ValueError, match=r"ds must be .* with \['noise'\]"):
        mf.plot.stationary_states(ds.drop_vars("noise"))
