"""Doubly stochastic attention: the scaling u, its field, its energy, and runs on every measure."""

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ive, logsumexp

import meanfield as mf
from meanfield.equations.tendency import tendency
from meanfield.evolution import solve
from meanfield.kernels.direct import PairSums
from meanfield.kernels.sinkhorn import scaling
from meanfield.spaces.geometry import project
from tests.handmade import CASE, free_dissipation, free_energy, slow, unit_points

E2 = np.exp(2.0)
BETAS = [0.1, 1.0, 4.0, 9.0, 25.0, 100.0]
SLANTED = np.array([0.48, 0.6, 0.64])
WAVES = mf.FourierSeries(cos=[0.5, 0.2], sin=[0.1])


def bump(axis, kappa=4.0):
    return mf.VonMisesFisher(axis, kappa)


TWO_BUMPS = mf.Mixture([bump(SLANTED), bump([1.0, 0.0, 0.0], 3.0)], [0.6, 0.4])
LAST = {dim: np.eye(dim)[-1] for dim in (2, 3, 10)}
UNEVEN = mf.Particles(unit_points(3, 9, 23), weights=10.0 ** -np.arange(9), unit_mass=True)
MEASURES = {
    "circle": lambda: mf.Density(mf.Circle(64), WAVES),
    "sphere": lambda: mf.Density(mf.Sphere(23), TWO_BUMPS),
    "zonal 2": lambda: mf.Density(mf.Zonal(2, 47), bump(LAST[2])),
    "zonal 3": lambda: mf.Density(mf.Zonal(3, 47), bump(LAST[3])),
    "zonal 10": lambda: mf.Density(mf.Zonal(10, 31), bump(LAST[10])),
    "flow 2": lambda: mf.FlowMap(WAVES),
    "flow 3": lambda: mf.FlowMap(bump(SLANTED)),
    "flow 10": lambda: mf.FlowMap(bump(LAST[10])),
    "flow on S2": lambda: mf.FlowMap(TWO_BUMPS, tol=1e-8),
    "tokens 2": lambda: mf.Particles(unit_points(2, 40, 3)),
    "tokens 3": lambda: UNEVEN,
    "tokens 5": lambda: mf.Particles(unit_points(5, 40, 3)),
    "many tokens 2": lambda: mf.Particles(unit_points(2, 900, 3), sums="transforms"),
    "many tokens 3": lambda: mf.Particles.quantise(TWO_BUMPS, 900, sums="transforms"),
}


# ---------------------------------------------------------------- the scaling


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("angle", [0.3, 1.0, np.pi])
def test_two_tokens(beta, angle):
    """u² (e^β + e^{β cos θ})/2 = 1; equal rows of attention make the field that of SA."""
    mu = mf.Particles([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    exact = -0.5 * (np.logaddexp(beta, beta * np.cos(angle)) - np.log(2.0))
    np.testing.assert_allclose(mf.sinkhorn_scaling(mu, beta), exact, rtol=1e-14, atol=1e-14)
    assert mf.energy(mu, mf.DoublyStochastic(beta)) == pytest.approx(-exact / beta, rel=1e-14)
    field = mf.DoublyStochastic(beta).velocity(mu, mu.points)
    np.testing.assert_allclose(field, mf.SA(beta).velocity(mu, mu.points), rtol=0, atol=1e-14)


def by_plain_iteration(points, masses, beta):
    """log u by the damped iteration in logarithms, one exponential after the other."""
    exponents = beta * points @ points.T + np.log(masses)
    log_u = np.zeros(len(masses))
    for _ in range(60):
        log_u = 0.5 * (log_u - logsumexp(exponents + log_u, axis=1))
    return log_u


@pytest.mark.slow
@pytest.mark.parametrize("beta", [25.0, 100.0])
def test_concentrated_measures_keep_their_digits_far_away(beta):
    """G is e^{-2β} of its maximum at the antipode of a bump: only positive sums know it there."""
    law, far = bump([0.0, 1.0], 300.0), np.array([[0.0, -1.0], [0.6, -0.8], [1.0, 0.0]])
    grid = mf.Density(mf.Circle(512), law)
    points, masses = grid.space.points, grid.space.weights * law.pdf(grid.space.points)
    log_u = by_plain_iteration(points, masses, beta)
    shares = beta * far @ points.T + np.log(masses) + log_u
    shares = np.exp(shares - logsumexp(shares, axis=1, keepdims=True))
    exact = project(far, shares @ points)
    assert np.linalg.norm(exact[1:], axis=1).min() > 0.1
    for mu in grid, mf.FlowMap(law), mf.Density(mf.Zonal(2, 255), law):
        field = mf.DoublyStochastic(beta).velocity(mu, far)
        # 16-node panels and series with values down to e^{-600} of the peak
        np.testing.assert_allclose(field, exact, rtol=0, atol=1e-11)


# ---------------------------------------------------------------- the field


def differences(balanced, beta, points, h=1e-3):
    """-(1/β) ∇ log u = (1/β) ∇ log G(βx) by central differences of order 6 along great circles."""
    gradient = np.zeros_like(points)
    for row, x in zip(gradient, points, strict=True):
        tangents = np.linalg.qr(np.column_stack([x, np.eye(len(x))]))[0][:, 1 : len(x)]
        for tangent in tangents.T:
            steps = h * np.array([-3, -2, -1, 1, 2, 3])
            at = np.outer(np.cos(steps), x) + np.outer(np.sin(steps), tangent)
            log_g = balanced.log_moment(beta * at)[0]
            row += (np.array([-1, 9, -45, 45, -9, 1]) @ log_g / (60 * h)) * tangent
    return gradient / beta


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("beta", [4.0, *map(slow, (0.1, 25.0))])
def test_the_field_is_the_gradient_of_log_u(name, beta):
    mu = MEASURES[name]()
    points = unit_points(mu.dim, 3, 11)
    field = mf.DoublyStochastic(beta, sign=-1).velocity(mu, points)
    assert np.abs(field).max() > 1e-3
    # h^6 β^7/140 of the next term at β = 25, and rounding of log G over β h
    tolerance = 1e-3**6 * beta**6 / 140 + 2e-15 * (10 + beta) / (beta * 1e-3)
    exact = -differences(mu.balance(beta), beta, points)
    np.testing.assert_allclose(field, exact, rtol=0, atol=tolerance)


@pytest.mark.parametrize("beta", [0.0, 0.1, 4.0, *map(slow, (25.0, 100.0))])
def test_measures_agree_on_field_and_energy(beta):
    """Densities on two spaces and a flow map of one law; each is resolved to 1e-13 or so."""
    points, dynamics = unit_points(3, 5, 2), mf.DoublyStochastic(beta)
    law = bump(SLANTED)
    mus = [mf.Density(mf.Zonal(3, 47, axis=SLANTED), law), mf.Density(mf.Sphere(31), law)]
    if beta < 100.0:
        mus.append(mf.FlowMap(law))
    fields = [dynamics.velocity(mu, points) for mu in mus]
    energies = [mf.energy(mu, mf.DoublyStochastic(beta)) for mu in mus]
    losses = [mf.dissipation(mu, dynamics) for mu in mus]
    assert losses[0] > 1e-5
    # transforms on S^2 have errors of 1e-13 in G, of which β divides the log
    tolerance = 1e-13 * (1.0 + 1.0 / max(beta, 0.1))
    for other in range(1, len(mus)):
        np.testing.assert_allclose(fields[other], fields[0], rtol=0, atol=1e-12)
        assert energies[other] == pytest.approx(energies[0], abs=tolerance)
        assert losses[other] == pytest.approx(losses[0], rel=1e-11)
        assert mf.metric_speed(mus[other], dynamics) ** 2 == pytest.approx(losses[0], rel=1e-10)


@pytest.mark.parametrize("beta", [25.0, 100.0])
def test_a_coarse_space_takes_a_finer_grid(beta):
    """24 points on the circle, a quarter of a radian apart, and a kernel of width β^{-1/2}."""
    law, dynamics = mf.FourierSeries(cos=[0.5]), mf.DoublyStochastic(beta)
    coarse, flow = mf.Density(mf.Circle(16), law), mf.FlowMap(law)
    assert len(coarse.space.weights) < len(coarse.balance(beta).points)
    assert mf.energy(coarse, mf.DoublyStochastic(beta)) == pytest.approx(
        mf.energy(flow, mf.DoublyStochastic(beta)), abs=1e-13
    )
    exact = mf.dissipation(flow, dynamics)
    assert exact > 1e-7
    assert mf.dissipation(coarse, dynamics) == pytest.approx(exact, rel=1e-10)
    series = mf.Density.from_coefficients(coarse.space, coarse.coefficients)
    assert mf.energy(series, mf.DoublyStochastic(beta)) == pytest.approx(
        mf.energy(flow, mf.DoublyStochastic(beta)), abs=1e-13
    )
    assert len(mf.sinkhorn_scaling(coarse, beta)) == len(coarse.space.points)


@pytest.mark.parametrize("size", [8, 128])
def test_the_scaling_of_the_uniform_measure(size):
    """u² Λ_0 = 1, with I_0(β) on the circle and sinh β/β on S²; a coarse space takes a finer grid.

    What transforms on S² are off by, 1e-13 of G or so, is in log u.
    """
    beta = 9.0
    exact = {2: np.log(ive(0, beta)) + beta, 3: np.log(np.sinh(beta) / beta)}
    for space in mf.Circle(size), mf.Zonal(3, size), mf.Sphere(min(size, 31)):
        uniform = mf.Density(space, mf.Uniform(space.dim))
        assert size > 8 or len(uniform.balance(beta).points) > len(space.points)
        log_u = mf.sinkhorn_scaling(uniform, beta)
        np.testing.assert_allclose(log_u, -0.5 * exact[space.dim], rtol=0, atol=1e-12)


def test_a_series_counts_as_zero_where_it_is_negative():
    """1 + 1.2 cos(3θ - π/4) is positive at the twelve points of its space, and not between them."""
    space, beta = mf.Circle(8), 9.0
    coefficients = np.zeros(space.size // 2, dtype=np.complex128)
    coefficients[[0, 3]] = 1.0, 0.6 * np.exp(-0.25j * np.pi)
    series = mf.Density.from_coefficients(space, coefficients)
    assert series.values.min() > 0.1
    grid = series.balance(beta).points
    angles = np.arctan2(grid[:, 1], grid[:, 0])
    values = 1.0 + 1.2 * np.cos(3.0 * angles - 0.25 * np.pi)
    assert values.min() < -0.19
    masses = np.maximum(values, 0.0) / len(grid)
    log_u, own = scaling(PairSums(grid, beta).potential, masses), series.balance(beta)
    # sums of pairs are in units of e^β
    np.testing.assert_allclose(own.log_u, log_u - 0.5 * beta, rtol=0, atol=1e-12)
    np.testing.assert_allclose(own.masses, masses, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", ["circle", "sphere", "zonal 3", "flow 2", "tokens 3"])
def test_beta_zero_is_the_limit(name):
    mu, points = MEASURES[name](), unit_points(MEASURES[name]().dim, 4, 3)
    limit, near = mf.DoublyStochastic(0.0), mf.DoublyStochastic(1e-7)
    exact = mf.SA(0.0).velocity(mu, points)
    assert np.abs(exact).max() > 0.01
    np.testing.assert_allclose(limit.velocity(mu, points), exact, rtol=0, atol=1e-14)
    np.testing.assert_allclose(near.velocity(mu, points), exact, rtol=0, atol=1e-6)
    assert mf.energy(mu, mf.DoublyStochastic(0.0)) == mf.energy(mu, 0.0)
    # the next term is β times the squared covariance over 4
    assert mf.energy(mu, mf.DoublyStochastic(1e-7)) == pytest.approx(mf.energy(mu, 0.0), abs=2.5e-8)


def sinkhorn_energy_by_mpmath(mu, beta):
    """The fixed point of the damped iteration in multiple precision."""
    points = mpmath.matrix(mu.points.tolist())
    kernel = (points * points.T).apply(lambda c: mpmath.exp(beta * c))
    masses = [mpmath.mpf(m) for m in mu.weights]
    masses = mpmath.matrix([m / mpmath.fsum(masses) for m in masses])
    log_u = mpmath.zeros(len(mu.weights), 1)
    while True:
        weighted = mpmath.matrix([m * mpmath.exp(a) for m, a in zip(masses, log_u, strict=True)])
        residual = log_u + (kernel * weighted).apply(mpmath.log)
        if mpmath.norm(residual, mpmath.inf) < mpmath.eps * 1e3:
            return -(masses.T * log_u)[0] / beta
        log_u -= residual / 2


@pytest.mark.parametrize("dim", [2, 6])
def test_energy_at_small_beta(dim):
    """Where rounding of log u would be all that is left of log u."""
    mu = mf.Particles(unit_points(dim, 3, dim), weights=[1.0, 2.0, 3.0], unit_mass=True)
    for beta in (1e-12, 1e-6, 2.9e-5, 3.1e-5):
        with mpmath.workdps(45):
            exact = float(sinkhorn_energy_by_mpmath(mu, mpmath.mpf(beta)))
        assert exact > 0.01
        assert mf.energy(mu, mf.DoublyStochastic(beta)) == pytest.approx(exact, abs=1e-10, rel=0)


@pytest.mark.parametrize("name", ["zonal 2", "zonal 3", "zonal 10", "flow 3"])
def test_energy_of_a_bump_at_small_beta(name):
    """E_DS = |m|²/2 + β |C|²/4, with the mean and the covariance of von Mises and Fisher."""
    mu, beta = MEASURES[name](), 1e-6
    dim, kappa = mu.dim, 4.0
    along = float(np.exp(np.diff(mf.kernels.multipliers.log_eigenvalues(kappa, dim, 1))[0]))
    across = along / kappa
    variance = 1.0 - along**2 - (dim - 1) * across
    exact = along**2 / 2 + beta / 4 * (variance**2 + (dim - 1) * across**2)
    # the second term is 1e-8 or more of the first
    assert mf.energy(mu, mf.DoublyStochastic(beta)) == pytest.approx(exact, rel=1e-12)


# ---------------------------------------------------------------- closed forms


def test_orthogonal_tokens():
    """Equal inner products make all u equal, so (6.9) holds as for SA."""
    sol = mf.evolve(mf.Particles(np.eye(4)), mf.DoublyStochastic(3.0), 1.0, 1, rtol=1e-11)
    exact = mf.theory.orthogonal_tokens(mf.DoublyStochastic(3.0), 4, 1.0)
    assert exact > 0.1
    assert sol.final.points[0] @ sol.final.points[1] == pytest.approx(exact, rel=1e-10)


# ---------------------------------------------------------------- runs


def gap(sol):
    """|E_DS(t) - E_DS(0) - work|, without what panels and atoms changed."""
    data = sol.dataset
    off = data.energy - data.energy[0] - data.work
    return float(np.abs(off - data.get("adaptation", 0.0)).max())


@pytest.mark.slow
def test_repulsion_leads_to_the_uniform_measure():
    dynamics = mf.DoublyStochastic(2.0, sign=-1)
    slowest = -mf.theory.growth_rates(dynamics, 2, 2)[1:].max()
    sol = mf.evolve(mf.Density(mf.Circle(64), WAVES), dynamics, 12.0 / slowest, 4)
    uniform = mf.theory.energy_uniform(mf.DoublyStochastic(2.0), 2)
    assert float(sol.dataset.energy[0]) > uniform + 1e-2
    # e^{-24} of degrees 1 and 2; higher ones are slow, and count by λ_k only
    assert sol.final.power[1:3].max() < 1e-9
    assert float(sol.dataset.energy[-1]) == pytest.approx(uniform, abs=1e-8)


@pytest.mark.slow
def test_attraction_leads_to_clusters_held_as_atoms():
    """A symmetric bump leaves a twentieth of its mass at the antipode, as under SA at larger β."""
    # at t = 40 some 1e-11 of the mass is still on its way
    sol = mf.evolve(mf.FlowMap(bump([1.0, 0.0], 1.0), tol=1e-9), mf.DoublyStochastic(2.0), 60.0, 2)
    flow = sol.final
    assert len(flow.atoms) == 2
    assert flow.atoms.masses.sum() == pytest.approx(1.0, abs=1e-14)
    assert flow.atoms.masses.min() == pytest.approx(0.0488, abs=1e-3)
    # with p and q of the two masses: u (e^β p u + e^{-β} q v) = 1 = v (e^β q v + e^{-β} p u)
    p, q = flow.atoms.masses
    ratio = brentq(lambda r: E2 * p + q * r / E2 - r * (E2 * q * r + p / E2), 1e-9, 1e9)
    u = (E2 * p + q * ratio / E2) ** -0.5
    exact = -0.5 * (p * np.log(u) + q * np.log(ratio * u))
    assert float(sol.dataset.energy[-1]) == pytest.approx(exact, abs=1e-12)
    # holding a cluster of radius 1e-8 changes the energy by less than β r²
    assert gap(sol) < 1e-10


@pytest.mark.slow
def test_large_beta_in_units():
    """E_DS and its balance are of order 1 where e^β overflows."""
    law = bump([1.0, 0.0], 3.0)
    sol = mf.evolve(mf.Density(mf.Circle(512), law), mf.DoublyStochastic(800.0), 0.5, 1)
    assert 0.0 < float(sol.dataset.energy[0]) < 0.5
    assert gap(sol) < 1e-12
    assert float(sol.dataset.energy[1] - sol.dataset.energy[0]) > 1e-8


# ---------------------------------------------------------------- noise


@pytest.mark.parametrize("name", ["circle", "zonal 3", slow("sphere")])
@pytest.mark.parametrize("beta", [0.0, 3.0])
def test_noise_keeps_both_balances(name, beta):
    law = {"circle": WAVES, "zonal 3": bump(LAST[3], 1.0), "sphere": bump(SLANTED, 1.0)}[name]
    space = {"circle": mf.Circle(48), "zonal 3": mf.Zonal(3, 15), "sphere": mf.Sphere(9)}[name]
    dynamics = mf.DoublyStochastic(beta, noise=0.1)
    sol = mf.evolve(mf.Density(space, law, tail_tol=1e-4), dynamics, 0.3, 2)
    data = sol.dataset
    assert gap(sol) < 1e-9
    lost = data.free_energy - data.free_energy[0]
    # Simpson's rule on the steps
    np.testing.assert_allclose(lost, data.free_work, rtol=0, atol=1e-7)
    assert lost[-1] < -1e-5
    assert free_energy(sol.final, dynamics) == pytest.approx(float(data.free_energy[-1]), abs=1e-9)
    rate = free_dissipation(sol.final, dynamics)
    assert rate == pytest.approx(float(data.free_dissipation[-1]), rel=1e-6)


@pytest.mark.slow
def test_noisy_tokens_follow_the_density():
    dynamics, rng = mf.DoublyStochastic(2.0, noise=0.2), np.random.default_rng(1)
    density = mf.evolve(mf.Density(mf.Circle(64), WAVES), dynamics, 0.5, 1)
    start = mf.Particles.quantise(WAVES, 4000)
    tokens = mf.evolve(start, dynamics, 0.5, 1, max_step=0.1, rng=rng)
    # a mean over n tokens has a deviation of at most 1/sqrt(2n) = 0.011 here
    np.testing.assert_allclose(tokens.final.mean(), density.final.mean(), rtol=0, atol=0.04)
    assert "work" not in tokens.dataset
    assert {"energy", "dissipation"} <= set(tokens.dataset)


# ---------------------------------------------------------------- what goes around it


def test_a_case_and_its_figure():
    repelling = 'type = "DoublyStochastic", beta = 2.0, sign = -1'
    measure, dynamics, keywords = mf.Case(CASE.replace("beta = 1.0", repelling)).build()
    assert dynamics == mf.DoublyStochastic(2.0, sign=-1)
    sol = solve(measure, dynamics, **keywords)
    axes = mf.plot.energy(sol)
    least, most = mf.theory.energy_uniform(dynamics, 2), mf.theory.energy_dirac(dynamics)
    assert axes.get_title(loc="left") == f"energy, {least:.4g} ≤ E$_{{DS}}$ ≤ {most:.4g}"
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), sol.dataset.energy)
    assert mf.plot.dissipation(sol).get_title(loc="left") == "dissipation |dE$_{DS}$/dt|"
    assert "DoublyStochastic" in mf.plot.solution(sol).get_suptitle()


def test_what_is_refused():
    zonal = MEASURES["zonal 3"]()
    with pytest.raises(ValueError, match=r"beta must be <= 150 .* got 200"):
        mf.energy(zonal, mf.DoublyStochastic(200.0))
    with pytest.raises(ValueError, match=r"beta must be <= 150 .* got 200"):
        tendency(zonal, mf.DoublyStochastic(200.0))
    with pytest.raises(ValueError, match=r"dynamics must be SA or USA without noise.* got Doub"):
        mf.theory.dobrushin_constant(mf.DoublyStochastic(1.0))
    with pytest.raises(ValueError, match=r"sums must be .* got 'gram'"):
        mf.evolve(mf.Particles(np.eye(4), sums="gram"), mf.DoublyStochastic(1.0), 1.0)


@pytest.mark.parametrize(
    ("beta", "sums"), [(1.0, "auto"), (1.0, "transforms"), slow(1000.0, "auto")]
)
def test_tokens_without_mass_are_moved_and_scale_nothing(beta, sums):
    """Opposite to all mass u is e^{β} and more: it is found from the others, in logarithms."""
    points, weights = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [1.0, 0.0, 1.0]
    tokens = mf.Particles(points, weights, sums=sums if beta <= 100.0 else "auto", unit_mass=True)
    rest = mf.Particles([points[0], points[2]])
    log_u = mf.sinkhorn_scaling(tokens, beta)
    # u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1
    log_terms = beta * tokens.points @ tokens.points.T + log_u
    log_g = logsumexp(log_terms, b=tokens.weights, axis=1)
    np.testing.assert_allclose(log_u + log_g, 0.0, atol=1e-12 * beta)
    sol = mf.evolve(tokens, mf.DoublyStochastic(beta), 0.5, 2)
    alone = mf.evolve(rest, mf.DoublyStochastic(beta), 0.5, 2)
    assert sol.status == "finished"
    np.testing.assert_allclose(sol.final.points[[0, 2]], alone.final.points, atol=1e-8)


@pytest.mark.slow
def test_beta_beyond_tables_is_summed_by_pairs_or_refused():
    """At 10^8 moments on S^2 and tables of the circle would take tens of gigabytes."""
    for dim in 2, 3:
        points = np.eye(dim)
        tokens = mf.Particles(points)
        # e^{-β} of other tokens is 0, so that each sees itself alone
        velocity = mf.DoublyStochastic(1e8).velocity(tokens, at=points)
        assert np.array_equal(velocity, np.zeros((dim, dim)))
    for space in mf.Sphere(7), mf.Zonal(5, 7):
        density = mf.Density(space, mf.Uniform(space.dim))
        with pytest.raises(ValueError, match=r"beta must be smaller .* got 1e\+06, which takes"):
            mf.evolve(density, mf.DoublyStochastic(1e6), 1.0)
