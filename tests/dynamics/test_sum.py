"""Sums of dynamics: fields, energies and balances of all terms, on every measure."""

import operator
import re
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield.cli.text import closing, summary, table
from meanfield.equations.tendency import tendency
from meanfield.spaces import geometry
from tests.handmade import interrupted, same_bits, slow, unfinished

# a drift with a potential, its vectors along the last axis where a measure is symmetric about that
TILT = {d: mf.FeedForward.from_potential([0.4], [np.eye(d)[-1]], activation="tanh") for d in (2, 5)}
HILLS = {
    2: mf.FeedForward.from_potential([0.3, -0.2], [[1, 0.5], [-0.3, 1]], activation="tanh"),
    3: mf.FeedForward.from_potential(
        [0.3, -0.2], [[1, 0.5, 0.2], [-0.3, 1, 0.4]], [0.1, 0.2], activation="gelu"
    ),
    5: TILT[5],
}
FORMS = {
    2: [[1.0, 0.2], [0.2, 0.5]],
    3: np.diag([1.0, 0.5, 0.2]),
    5: np.diag([0.5, 0.5, 0.5, 0.5, 1.0]),
}
NORTH = {2: [0.0, 1.0], 3: [0.0, 0.0, 1.0], 5: [0.0, 0.0, 0.0, 0.0, 1.0]}
LAWS = {
    2: mf.VonMisesFisher(NORTH[2], 3.0),
    3: mf.Mixture(
        [mf.VonMisesFisher(NORTH[3], 3.0), mf.VonMisesFisher([1.0, 0.0, 0.0], 2.0)], [0.5, 0.5]
    ),
    5: mf.VonMisesFisher(NORTH[5], 3.0),
}
SPACES = {2: mf.Circle(64), 3: mf.Sphere(31), 5: mf.Zonal(5, 31)}


def form(dim, beta=2.0):
    return mf.Attention(beta, [mf.Head(Q=FORMS[dim], V=FORMS[dim])])


# each beside a drift, and pairs that both sum over the measure
SUMS = {
    "SA": lambda d: mf.SA(2.0) + HILLS[d],
    "-SA": lambda d: mf.SA(2.0, sign=-1) + HILLS[d],
    "USA": lambda d: mf.USA(1.5) + 0.5 * HILLS[d],
    "DoublyStochastic": lambda d: mf.DoublyStochastic(2.0) + HILLS[d],
    "Interaction": lambda d: mf.Interaction([3.0, 1.0, 0.2], normalised=True) - HILLS[d],
    "form": lambda d: form(d) + HILLS[d],
    "two kernels": lambda d: mf.SA(1.0) + 0.7 * mf.SA(6.0),
    "scaled beside plain": lambda d: mf.SA(1.0) + mf.DoublyStochastic(2.0),
    "scaled beside heads": lambda d: mf.DoublyStochastic(1.0) + form(d),
}


def density(dim):
    return mf.Density(SPACES[dim], LAWS[dim], tail_tol=1e-8 if dim == 3 else 1e-12)


def flow_map(dim):
    # the mesh of S^2 is coarser, as its runs are long
    return mf.FlowMap(LAWS[dim], tol=1e-6) if dim == 3 else mf.FlowMap(LAWS[dim])


def tokens(dim, n, sums="auto"):
    return mf.Particles.sample(LAWS[dim], n, rng=1, sums=sums)


def velocity(measure, dynamics, at):
    """Σ w_i X_i, each by the sums of the measure itself."""
    return sum(
        w * term.velocity(measure, at)
        for w, term in zip(dynamics.weights, dynamics.terms, strict=True)
    )


def rate(measure, dynamics):
    """The right-hand side of a run, after it was asked for the rate at its first state."""
    equation = tendency(measure, dynamics)
    out = np.empty_like(equation.initial_state)
    equation(equation.initial_state, out)
    return equation, out


@pytest.mark.parametrize("dim", SPACES)
@pytest.mark.parametrize("name", SUMS)
def test_field_of_a_density_is_the_sum_of_its_terms(name, dim):
    mu, dynamics = density(dim), SUMS[name](dim)
    equation, _ = rate(mu, dynamics)
    space = equation._grid
    frame = space.tangent_frame(np.arange(len(space.weights)))
    expected = np.einsum("ajd,jd->aj", frame, velocity(mu, dynamics, space.points))
    found = equation._rates.velocity[: len(expected)]
    # series of G keep 1e-9 where it is 1e-6 of its largest value; here it is more
    assert np.abs(found - expected).max() < 1e-11 * np.abs(expected).max()


@pytest.mark.parametrize("dim", SPACES)
def test_all_terms_are_on_the_grid_that_a_scaling_takes(dim):
    """It is finer than the space, and no term asks for a still finer one."""
    space = {2: mf.Circle(12), 3: mf.Sphere(7), 5: mf.Zonal(5, 12)}[dim]
    mu = mf.Density(space, mf.VonMisesFisher(NORTH[dim], 0.3), tail_tol=1e-6)
    scaled = mf.DoublyStochastic(3.0)
    alone, _ = rate(mu, scaled)
    for others, tolerance in ((scaled, 1e-14), (mf.SA(2.0), 1e-9), (TILT.get(dim, HILLS[3]), 1e-9)):
        equation, _ = rate(mu, scaled + others)
        grid = equation._grid
        assert len(grid.weights) > len(space.weights)
        frame = grid.tangent_frame(np.arange(len(grid.weights)))
        expected = np.einsum("ajd,jd->aj", frame, others.velocity(mu, grid.points))
        if others is scaled:
            expected = alone._rates.velocity
        found = equation._rates.velocity - alone._rates.velocity
        assert np.abs(found - expected).max() < tolerance


@pytest.mark.parametrize(
    ("dim", "sums"),
    [(d, s) for d in SPACES for s in ("direct", "transforms") if (d, s) != (5, "transforms")],
)
@pytest.mark.parametrize("name", SUMS)
def test_field_of_tokens_is_the_sum_of_its_terms(name, sums, dim):
    check_field_of_tokens(SUMS[name](dim), tokens(dim, 40, sums))


def test_tokens_stay_in_their_span_where_all_terms_let_them():
    dynamics, mu = mf.SA(2.0) - 0.5 * mf.USA(1.0), tokens(5, 4, "gram")
    assert mf.evolve(mu, dynamics, 0.1, 1).to_dataset().attrs["sums"] == "gram"
    check_field_of_tokens(dynamics, mu)


def check_field_of_tokens(dynamics, mu):
    slow = mf.Particles(mu.points, mu.weights, sums="direct")
    equation, out = rate(mu, dynamics)
    step = 1e-6
    moved = equation.measure(equation.initial_state + step * out).points
    back = equation.measure(equation.initial_state - step * out).points
    # differences along geodesics: h² of the third derivative, and rounding over h
    assert np.abs((moved - back) / (2 * step) - velocity(slow, dynamics, slow.points)).max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("dim", SPACES)
@pytest.mark.parametrize("name", SUMS)
def test_measures_agree_and_every_term_keeps_its_balance(name, dim):
    """A density and a flow map at t = 0.25, their characteristics, and tokens."""
    dynamics = SUMS[name](dim)
    runs = [
        mf.evolve(mu, dynamics, 0.25, 2) for mu in (density(dim), flow_map(dim), tokens(dim, 60))
    ]
    for sol in runs:
        data = sol.to_dataset()
        assert sol.status == "finished"
        assert np.abs(data.term_balance_error).max() < 1e-10
        assert abs(data.balance_error).max() == np.abs(data.term_balance_error).max()
        np.testing.assert_allclose(data.term_energy.sum("term"), data.energy, rtol=1e-13)
        total = data.term_dissipation.sum("term")
        np.testing.assert_allclose(total, data.dissipation, rtol=0, atol=1e-13)
        np.testing.assert_allclose(data.energy, [mf.energy(m, dynamics) for m in sol.measures])
    z = 3.0 * np.eye(dim)
    one, other = (sol.final.log_moment(z)[0] for sol in runs[:2])
    assert np.abs(one - other).max() < 1e-8
    at = tokens(dim, 5).points
    one, other = (sol.pdf(at, 0.25) for sol in runs[:2])
    # the mesh of S^2 has a tolerance of 1e-6 of mass
    assert np.abs(one - other).max() < (1e-8 if dim == 3 else 1e-9) * one.max()


def test_a_run_says_whose_balance_it_gives():
    sol = mf.evolve(density(2), mf.SA(2.0) + HILLS[2], 0.1, save_at=1)
    (told,) = [line for line in closing(sol).splitlines() if "work" in line]
    largest = np.abs(sol.dataset.term_balance_error).max()
    # whichever term it is
    turned = mf.evolve(density(2), HILLS[2] + mf.SA(2.0), 0.1, save_at=1).dataset
    worst = np.abs(turned.term_balance_error[-1]).values
    assert worst[0] != worst[1]
    assert abs(turned.balance_error[-1]) == worst.max()
    assert told.startswith(f"of each term |E(t) - E(0) - work|/size <= {largest:.1e}, where")
    assert "largest" in sol.dataset.balance_error.comment
    assert sol.dataset.dissipation.comment.startswith("± ∫ <∇ δE/δmu, X> dmu, ")


def test_tables_and_sweeps_show_each_term(tmp_path):
    """Two terms of one kind are told apart; a sweep has them at their places in the case."""
    sol = mf.evolve(tokens(2, 10), mf.SA(1.0) + 0.5 * mf.SA(9.0), 0.1, save_at=1)
    data, told = sol.dataset, summary(sol, tmp_path / "run.nc")
    for i, name in enumerate(("SA(beta=1.0, sign=1, noise=0.0)", "0.5 SA(beta=9.0, sign=1")):
        start, end = data.term_energy.values[:, i]
        assert told[f"term {i}"].startswith(name)
        worst = np.abs(data.term_balance_error.values[:, i]).max()
        expected = f"energy {start:.12g} to {end:.12g}, balance error {worst:.1e}"
        assert told[f"term {i}"].endswith(expected)
        assert f"{end:.6g}" in table(sol).splitlines()[-1]
        assert name.removeprefix("0.5 ") in data.term.comment
    case = tmp_path / "case.toml"
    case.write_text(
        """
        law = {type = "VonMisesFisher", mean = [0.0, 1.0], kappa = 3.0}
        measure = {type = "Particles", n = 10}
        dynamics = {type = "Sum", terms = [{type = "SA", beta = 1.0}, {type = "SA", beta = 9.0}]}
        run = {t_end = 0.1, save_at = 1}
        """
    )
    ds = mf.sweep(case, {"dynamics.terms.0.beta": [1.0, 2.0]})
    assert ds.term_energy.dims == ("beta", "t", "term")
    np.testing.assert_allclose(ds.final_term_energy.sum("term"), ds.final_energy, rtol=1e-13)
    assert "comment" not in ds.term.attrs
    ds = mf.sweep(case, {"dynamics.weights": [[0.0, 1.0], [1.0, 1.0]]})
    # a weight of 0 leaves its term's place empty
    assert np.isnan(ds.final_term_energy.values[0, 0])
    np.testing.assert_allclose(ds.final_term_energy.sum("term"), ds.final_energy, rtol=1e-13)


@pytest.mark.parametrize("dim", [2, 3])
def test_rates_at_the_uniform_density_add(dim):
    """Those of the right-hand side itself at 1 + ε Y_2, to O(ε) of quadratic terms."""
    dynamics = mf.SA(2.0, noise=0.1) - 0.5 * mf.USA(1.0) + 0.3 * mf.DoublyStochastic(2.0)
    rates = mf.theory.growth_rates(dynamics, dim, 4)
    each = [w * mf.theory.growth_rates(one, dim, 4) for w, one in dynamics.weighted_terms]
    np.testing.assert_allclose(rates, sum(each), rtol=1e-14)
    law = mf.ZonalSeries(dim, [0.0, 1e-6], NORTH[dim])
    found = mf.evolve(mf.Density(SPACES[dim], law), dynamics, 0.1, 1)
    start, end = (m.pdf([NORTH[dim]])[0] - 1.0 for m in found.measures)
    assert np.log(end / start) / 0.1 == pytest.approx(rates[2], abs=1e-4)
    uniform = mf.energy(mf.Density(SPACES[dim], mf.Uniform(dim)), dynamics)
    assert mf.theory.energy_uniform(dynamics, dim) == pytest.approx(uniform, rel=1e-12)
    with pytest.raises(ValueError, match=r"must have a kernel, .* got FeedForward\("):
        mf.theory.growth_rates(mf.SA(1.0) + HILLS[dim], dim, 4)


def test_runs_of_unequal_noise_compare_one_energy():
    noisy = mf.FeedForward(HILLS[2].W, HILLS[2].A, activation="tanh", noise=0.1)
    for one, other in ((HILLS[2], noisy), (mf.SA(1.0) + HILLS[2], mf.SA(1.0) + noisy)):
        runs = [mf.evolve(density(2), dynamics, 0.1, 1) for dynamics in (one, other)]
        assert "energy_difference" in mf.compare(*runs, distances=["mmd"])


def test_a_small_energy_beside_a_large_one_keeps_its_own_balance():
    """E_60 is 1e23 times ∫ v dmu: the balance of the whole says nothing of v."""
    data = mf.evolve(flow_map(2), mf.SA(60.0) + 2.0 * HILLS[2], 0.2, 2).to_dataset()
    large, small = np.abs(data.term_energy[-1])
    assert large > 1e22 * small
    assert np.abs(data.term_balance_error[:, 1]).max() < 1e-10
    gained = data.term_energy[-1, 1] - data.term_energy[0, 1]
    assert abs(gained) > 0.01


LARGE = {
    "SA on S^2": (3, lambda: mf.SA(1.0) + mf.SA(30.0), 0.25),
    "USA on S^2": (3, lambda: mf.USA(30.0) + HILLS[3], 3e-12),
    "SA on S^2, stretched": (3, lambda: mf.SA(38.0) + HILLS[3], 2.0),
    "USA about an axis": (5, lambda: mf.USA(100.0) + TILT[5], 1e-42),
}


@pytest.mark.parametrize(
    "name", [name if "axis" in name else slow(name) for name in LARGE if "stretched" not in name]
)
def test_field_of_a_flow_map_is_the_sum_of_its_terms_up_to_its_limits(name):
    """X at every 97th node against sums of positive terms over all nodes, term by term."""
    dim, make, _ = LARGE[name]
    dynamics, some = make(), slice(None, None, 97)
    flow = flow_map(dim).resolve(dynamics.reach)
    _, out = rate(flow, dynamics)
    expected = velocity(flow, dynamics, flow.points[some])
    if dim == 3:
        found = out[: flow.points.size].reshape(-1, 3)[some]
    else:
        along = geometry.line_points(flow.angles[some] + 0.5 * np.pi, flow.axis)
        found = out[: len(flow.angles)][some]
        expected = np.einsum("ij,ij->i", along, expected)
    assert np.abs(found - expected).max() < 1e-11 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_flow_maps_run_up_to_their_limits(name):
    """Where patches are stretched until they miss the kernel, a new mesh is laid."""
    dim, make, t_end = LARGE[name]
    sol = mf.evolve(flow_map(dim), make(), t_end, 2)
    assert sol.status == "finished"
    assert np.abs(sol.to_dataset().term_balance_error).max() < 1e-10


@pytest.mark.parametrize(
    ("dim", "dynamics"),
    [
        (3, mf.SA(1.0) + mf.SA(40.5)),
        (3, mf.USA(40.5) + HILLS[3]),
        (5, mf.USA(150.5) + TILT[5]),
        (5, mf.SA(1.0) + mf.SA(150.5)),
    ],
)
def test_beyond_their_limits_flow_maps_are_refused_in_one_line(dim, dynamics):
    limit = 40 if dim == 3 else 150
    with pytest.raises(ValueError, match=f"must be <= {limit} for ") as refusal:
        mf.evolve(flow_map(dim), dynamics, 1e-3)
    assert "\n" not in str(refusal.value)


def test_what_overflows_leaves_the_other_numbers_of_terms():
    """The energy of SA(800) overflows, and of USA(500) the dissipation, of order e^{1000}."""
    mu = tokens(2, 20)
    sol = mf.evolve(mu, mf.SA(800.0) + 2.0 * HILLS[2], 0.02, 2)
    data = sol.to_dataset()
    for name in ("term_energy", "term_dissipation", "term_work"):
        assert np.isnan(data[name][:, 0]).all()
        assert data[name].comment.endswith("too large for float64, and nan, of 0")
    expected = [2.0 * mf.energy(measure, HILLS[2]) for measure in sol.measures]
    np.testing.assert_allclose(data.term_energy[:, 1], expected, rtol=1e-13)
    shares = [mf.energy_share(measure, mf.SA(800.0)) for measure in sol.measures]
    np.testing.assert_allclose(data.term_energy_share[:, 0], shares, rtol=1e-13)
    # a weight is a factor of both
    shares = [mf.energy_share(measure, HILLS[2]) for measure in sol.measures]
    np.testing.assert_allclose(data.term_energy_share[:, 1], shares, rtol=1e-13)
    gained = data.term_energy[:, 1] - data.term_energy[0, 1]
    assert abs(gained[-1]) > 1e-3
    # rounding of sums of 20 tokens
    np.testing.assert_allclose(data.term_work[:, 1], gained, atol=1e-10)
    largest = np.abs(data.term_balance_error).max()
    assert 0.0 < largest == np.abs(data.balance_error).max() < 1e-9
    data = mf.evolve(mu, mf.USA(500.0) + HILLS[2], np.exp(-500.0), 2).to_dataset()
    assert np.isfinite(data.term_energy).all()
    assert np.isnan(data.term_dissipation[:, 0]).all()
    assert np.isfinite(data.term_dissipation[:, 1]).all()


def test_the_unit_of_a_balance_may_overflow_where_the_energy_does_not():
    """E_718(δ) is e^718/1436; steps of rtol = 1e-3 leave a balance that is far from rounding."""
    options = {"rtol": 1e-3, "atol": 1e-3}
    data = mf.evolve(tokens(2, 20), mf.SA(718.0) - HILLS[2], 1.0, 2, **options).to_dataset()
    error = data.term_energy - data.term_energy[0] - data.term_work
    size = np.exp(np.longdouble(718.0)) / (2 * 718)
    expected = (error.values[:, 0].astype(np.longdouble) / size).astype(float)
    assert np.abs(expected).max() > 1e-10
    np.testing.assert_allclose(data.term_balance_error[:, 0], expected, rtol=1e-4, atol=1e-16)


@pytest.mark.parametrize(
    ("omega", "rise"),
    [(-0.5, 0.160), (-1.0, 0.028), (-1.5, -0.062), (-2.0, -0.112), (-3.0, -0.087)],
)
def test_attention_beside_a_potential_is_no_gradient_flow(omega, rise):
    """d/dt (E_2 + ∫ v dmu), v = ω log cosh x_2, may be negative; known to three digits."""
    hill = mf.FeedForward.from_potential([omega], [[0.0, 1.0]], activation="tanh")
    assert abs(mf.dissipation(density(2), mf.SA(2.0) + hill) - rise) < 5e-4
    with pytest.raises(ValueError, match="must be a gradient flow in one metric"):
        mf.slope(density(2), mf.SA(2.0) + hill)


def test_steps_of_layers_by_turns_tend_to_the_sum_at_first_order():
    """(2.8): layers a and b of T/m each, m times, at 2T are a + b at T but for O(1/m)."""
    a, b = mf.SA(3.0), HILLS[2]
    end = mf.evolve(flow_map(2), a + b, 1.0, 1).final.mean()
    counts = 8, 16, 32
    ends = [mf.evolve(flow_map(2), mf.Layers([a, b] * m, step=1 / m), 2.0, 1) for m in counts]
    gaps = [np.abs(sol.final.mean() - end).max() for sol in ends]
    order = -np.polyfit(np.log(counts), np.log(gaps), 1)[0]
    assert abs(order - 1.0) < 0.1


def test_sums_are_layers():
    layers = mf.Layers([mf.SA(2.0) + HILLS[2], HILLS[2], mf.SA(1.0) + 2.0 * HILLS[2]], step=0.2)
    one, other = (mf.evolve(mu, layers, 0.6, 3) for mu in (density(2), flow_map(2)))
    at = tokens(2, 5).points
    assert np.abs(one.final.mean() - other.final.mean()).max() < 1e-12
    np.testing.assert_allclose(one.pdf(at, 0.5), other.pdf(at, 0.5), rtol=1e-9)


@pytest.mark.parametrize("dim", [2, slow(3)])
def test_noise_and_a_potential_tend_to_gibbs(dim):
    """The density of drift ∇v and noise τ tends to e^{v/τ}/Z, and lowers τS - ∫ v dmu."""
    hill = mf.FeedForward.from_potential([0.6], [np.eye(dim)[0]], [0.3], activation="tanh")
    dynamics = hill + 0.3 * mf.FeedForward(hill.W, hill.A, hill.b, activation="tanh", noise=1.0)
    sol = mf.evolve(density(dim), dynamics, 120.0, 4)
    end = sol.final
    heights = [mf.energy(mf.Particles([point]), hill) for point in end.space.points]
    weights = np.exp(1.3 * np.array(heights) / 0.3)
    assert np.abs(end.values - weights / (end.space.weights @ weights)).max() < 1e-8
    data = sol.to_dataset()
    assert np.abs(data.term_balance_error).max() < 1e-9
    gained = data.free_energy - data.free_energy[0]
    # Simpson's rule of steps of 1e-9
    np.testing.assert_allclose(gained, data.free_work, rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3])
def test_noise_beside_an_energy_that_is_no_sum_over_degrees(dim):
    """Heat's part of each dE/dt, -τ ∫ <∇ δE/δmu, ∇f> dσ, for a scaling, a form and a potential."""
    sums = [mf.SA(1.0, noise=0.1) + mf.DoublyStochastic(2.0), form(dim) + mf.USA(0.5, noise=0.2)]
    noisy = mf.FeedForward(HILLS[dim].W, HILLS[dim].A, activation="tanh", noise=0.1)
    for dynamics in (*sums, noisy + mf.SA(1.0)):
        sol = mf.evolve(density(dim), dynamics, 0.2, 2)
        data = sol.to_dataset()
        assert np.abs(data.term_balance_error).max() < 1e-10
        np.testing.assert_allclose(data.energy, [mf.energy(m, dynamics) for m in sol.measures])


RESUMED = {
    "density": (lambda: density(2), mf.SA(1.0) + mf.DoublyStochastic(2.0) + HILLS[2], 1.0),
    "flow map": (lambda: flow_map(2), mf.DoublyStochastic(2.0) + mf.SA(1.0) + HILLS[2], 1.0),
    "flow map on S^2": (lambda: flow_map(3), mf.DoublyStochastic(1.0) + HILLS[3], 0.4),
    "tokens": (lambda: tokens(2, 50), mf.DoublyStochastic(2.0) + mf.Kuramoto(0.5) + HILLS[2], 1.0),
    "noisy tokens": (lambda: tokens(3, 50), mf.SA(2.0) + mf.USA(0.5, noise=0.1), 0.4),
    # E of its tokens is 1.3 % more than float64 holds at the start, and less from the next save on
    "too large at first": (
        lambda: tokens(2, 50),
        mf.SA(720.14, sign=-1) + 0.01 * HILLS[2],
        1.0,
    ),
    "too large": (lambda: tokens(2, 50), mf.SA(720.0) - 2.0 * HILLS[2] + mf.SA(1.0), 1.0),
}


def mass(measure):
    return measure.mass()


@pytest.mark.slow
@pytest.mark.parametrize("kind", RESUMED)
def test_a_resumed_run_has_the_same_bits(kind, tmp_path):
    make, dynamics, t_end = RESUMED[kind]
    asked = {"rng": 3, "max_step": 0.01} if kind == "noisy tokens" else {}
    whole = mf.evolve(make(), dynamics, t_end, 4, monitors={"m": mass}, **asked)
    path, calls = tmp_path / "run.nc", count()

    def strike(measure):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return measure.mass()

    asked |= {"monitors": {"m": strike}, "checkpoint": path}
    part = interrupted(mf.evolve, make(), dynamics, t_end, 4, **asked)
    assert 0.0 < part.t[-1] < t_end
    again = mf.resume(path, monitors={"m": strike})
    assert again.dynamics == dynamics
    one, other = whole.to_dataset(), again.to_dataset()
    assert one.variables.keys() == other.variables.keys()
    assert [name for name in one.variables if not same_bits(one[name], other[name])] == []


def test_a_flow_map_takes_over_from_a_density():
    start = mf.Density(mf.Circle(32), LAWS[2])
    dynamics = mf.SA(8.0) + 0.5 * HILLS[2]
    sol = mf.evolve(start, dynamics, 3.0, 3)
    assert isinstance(sol.final, mf.measures.LineFlowMap)
    data = sol.to_dataset()
    # the density's tail_tol, squared, and what its last steps lost
    assert np.abs(data.term_balance_error).max() < 1e-9


def test_sums_are_taken_apart():
    a, b = mf.SA(1.0), HILLS[2]
    assert (a + b + a).terms == (a, b, a)
    assert (2.0 * (a + 0.5 * b)).weights == (2.0, 1.0)
    assert sum([a]) == a
    assert 1 * a == a
    assert (a + b) / 2.0 == a / 2 + b / np.array(2) == 0.5 * a + 0.5 * b
    assert np.float64(2.0) * a == a * np.float64(2.0) == np.array(2.0) * a == mf.Sum([2.0 * a])
    assert sum([a, b]) == a + b == mf.Sum([a, b])
    assert (a - b) == a + (-b)
    assert mf.Sum([a, b], weights=[1.0, 0.0]) == mf.Sum([a])
    assert -mf.Sum([a, b], weights=[0.0, -1.0]) == b
    assert mf.Sum([a, b], weights=[1.0, 2.0]) != a + b


def test_symbols_of_sums():
    """E = Σ w_i E_i where all signs are equal, also where all fall; else F."""
    repulsive = mf.SA(1.0, sign=-1)
    assert (repulsive + mf.SA(2.0, sign=-1)).energy_functional.symbol == "E"
    assert (mf.SA(1.0) + mf.SA(2.0)).energy_functional.symbol == "E"
    assert (repulsive + mf.SA(2.0)).energy_functional.symbol == "F"


@pytest.mark.parametrize(
    "one",
    [
        mf.SA(2.0),
        mf.USA(2.0, sign=-1),
        mf.DoublyStochastic(2.0),
        mf.Interaction([1.0, 2.0]),
        mf.CircleInteraction([1.0], [0.5]),
        mf.Kuramoto(2.0),
        form(2),
        HILLS[2],
    ],
    ids=lambda one: one.name,
)
def test_minus_a_dynamics_is_one_of_its_kind(one):
    mu, at = density(2), tokens(2, 7).points
    assert type(-one) is type(one)
    np.testing.assert_allclose((-one).velocity(mu, at), -one.velocity(mu, at), atol=1e-14)
    np.testing.assert_allclose((one - one).velocity(mu, at), 0.0, atol=1e-14)


@given(
    weights=st.lists(st.floats(0.01, 10.0), min_size=1, max_size=4),
    betas=st.lists(st.floats(0.0, 20.0), min_size=4, max_size=4),
    turn=st.floats(0.0, 6.28),
)
def test_a_sum_turns_and_adds_as_its_terms_do(weights, betas, turn):
    terms = [mf.SA(b) if i % 2 else mf.USA(0.1 * b, sign=-1) for i, b in enumerate(betas)]
    whole = mf.Sum(terms[: len(weights)], weights=weights)
    mu = tokens(2, 6)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    turned = mf.Particles(mu.points @ rotation.T, mu.weights)
    field = whole.velocity(mu, mu.points)
    scale = 1e-13 * (1.0 + np.abs(field).max())
    assert np.abs(whole.velocity(turned, turned.points) - field @ rotation.T).max() < scale
    order = np.random.default_rng(0).permutation(len(weights))
    again = mf.Sum([terms[i] for i in order], weights=np.array(weights)[order])
    assert np.abs(again.velocity(mu, mu.points) - field).max() < scale
    assert mf.energy(mu, 2.0 * whole) == pytest.approx(2.0 * mf.energy(mu, whole), rel=1e-12)


@pytest.mark.parametrize("kind", ["density", "tokens"])
def test_interactions_of_phases_add(kind):
    """Phases of any frequencies under K_1 sin and K_2 sin move as under (K_1 + K_2) sin."""
    frequencies = [-0.5, 0.7]
    if kind == "density":
        start = mf.OscillatorDensity(mf.Circle(32), LAWS[2], frequencies)
    else:
        start = mf.Oscillators([0.3, 2.0], frequencies)
    both = mf.Kuramoto(1.0) + 0.5 * mf.CircleInteraction([4.0])
    one, other = (mf.evolve(start, dynamics, 0.5, 2) for dynamics in (both, mf.Kuramoto(3.0)))
    expected, found = other.to_dataset(), one.to_dataset()
    for name in ("order_parameter", "mean_phase", "energy", "rms_velocity"):
        # rtol = 1e-9 of each step
        np.testing.assert_allclose(found[name], expected[name], atol=1e-8)


LAYERS = mf.Layers([mf.SA(1.0)], step=0.5)
REFUSED = {
    "nothing": (lambda: mf.Sum([]), r"terms must be at least one dynamics, got \[\]"),
    "weights": (
        lambda: mf.Sum([mf.SA(1.0)], weights=[1.0, 2.0]),
        r"weights must be one for each of the 1 terms, got \[1.0, 2.0\]",
    ),
    "only zeros": (lambda: 0.0 * mf.SA(1.0), "must add up to something"),
    "a number": (lambda: mf.Sum([1.0]), "terms must be a sequence of dynamics, got 1.0"),
    "a class": (lambda: mf.Sum([mf.SA]), "terms must be a sequence of dynamics"),
    "a generator": (
        lambda: mf.Sum(mf.SA(beta) for beta in (1.0, 2.0)),
        "terms must be a sequence of dynamics, got <generator",
    ),
    "an array": (
        lambda: mf.Sum(np.array([mf.SA(1.0), mf.SA(2.0)])),
        r"terms must be a sequence of dynamics, got array\(",
    ),
    "a generator of layers": (
        lambda: mf.Layers(mf.SA(beta) for beta in (1.0, 2.0)),
        "without noise, in a sequence, got <generator",
    ),
    "divided by 0": (lambda: mf.SA(1.0) / 0, r"divisor of SA\(.*\) must not be 0"),
    "divided by nan": (lambda: mf.SA(1.0) / np.nan, r"divisor of SA\(.*\) must be a finite"),
    "layers": (lambda: mf.SA(1.0) + LAYERS, "terms must act at once"),
    "a map": (lambda: mf.LayerMap(mf.SA(1.0), step=0.1) + mf.SA(1.0), "terms must act at once"),
    "nodes": (
        lambda: mf.evolve(mf.FlowMap(LAWS[2], max_nodes=400), mf.SA(2000.0) + HILLS[2], 0.1),
        "which takes some 32768 nodes > 400",
    ),
    "dim": (lambda: HILLS[2] + HILLS[3], r"of one dimension, got \[2, 3\]"),
    "noise": (lambda: -mf.SA(1.0, noise=0.1), "weights must be >= 0 where there is noise"),
    "nan": (lambda: mf.Sum([mf.SA(1.0)], weights=[np.nan]), "weights must be finite"),
    "S^2": (
        lambda: mf.evolve(flow_map(3), mf.SA(1.0) + mf.SA(41.0), 0.1),
        "must be <= 40 for a flow map on S",
    ),
    "own axis": (
        lambda: mf.evolve(density(5), mf.SA(1.0) + mf.FeedForward(np.eye(5), np.eye(5)), 0.1),
        "must commute with rotations about the axis",
    ),
    "gram": (
        lambda: mf.evolve(tokens(3, 4, "gram"), mf.SA(1.0) + HILLS[3], 0.1),
        "sums must be 'auto', 'direct' or 'transforms'",
    ),
    "no energy": (
        lambda: mf.energy(tokens(2, 3), mf.SA(1.0) + mf.FeedForward(np.eye(2)[::-1], np.eye(2))),
        "each column of W must be a multiple",
    ),
    "a Dirac mass": (lambda: mf.theory.energy_dirac(mf.SA(1.0) + HILLS[2]), "is known"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_nothing_else_is_added():
    with pytest.raises(TypeError, match="unsupported operand"):
        mf.SA(1.0) + 3
    with pytest.raises(TypeError, match="can't multiply"):
        mf.SA(1.0) * "3"
    for numbers in (np.array([1.0, 2.0]), np.array([2.0]), np.array([mf.SA(1.0)])):
        for operate in (operator.add, operator.sub, operator.mul, operator.truediv):
            for pair in ((numbers, mf.SA(1.0)), (mf.SA(1.0), numbers)):
                # an array that begins takes + for a concatenation
                with pytest.raises(TypeError, match=r"operand|Concatenation"):
                    operate(*pair)


class Turn:
    """A rotation, which is a dynamics of a user's own."""

    name, noise = "turn", 0.0

    def output(self, measure, points):
        return points[:, ::-1] * [-1.0, 1.0]


def test_an_own_dynamics_is_a_term():
    start, end = tokens(2, 10), mf.evolve(tokens(2, 10), Turn() + 0.5 * mf.SA(2.0), 1.0, 1).final
    assert (Turn() - mf.SA(2.0)).terms[1] == mf.SA(2.0, sign=-1)
    alone = mf.evolve(start, 0.5 * mf.SA(2.0), 1.0, 1).final
    turned = alone.points @ np.array([[np.cos(1), np.sin(1)], [-np.sin(1), np.cos(1)]])
    # rtol = 1e-9 of each step
    np.testing.assert_allclose(end.points, turned, atol=1e-7)
    with pytest.raises(ValueError, match=r"or divergence\(measure, points\), for a flow map"):
        mf.evolve(mf.FlowMap(mf.Uniform(2)), Turn() + mf.SA(1.0), 0.1)


class Square:
    """An interaction of a user's own."""

    name, noise, kernel = "square", 0.0, (1.0, 2.0, 1.0)


class Pair:
    """Heads of a user's own."""

    name, noise = "pair", 0.0

    def heads(self):
        return [mf.Head(V=2.0), mf.Head(V=-0.5)]


NUMBERS = mf.energy, mf.energy_share, mf.dissipation, mf.rms_velocity, mf.metric_speed, mf.slope
OWN = {
    "kernel": (Square(), mf.Interaction([1.0, 2.0, 1.0])),
    "heads": (Pair(), mf.Attention(1.0, Pair().heads())),
    "output": (
        Turn(),
        mf.FeedForward([[0, 0, -1, 1], [1, -1, 0, 0]], [[1, 0], [-1, 0], [0, 1], [0, -1]]),
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_all_numbers_of_an_own_term_are_those_of_what_it_is(name):
    own, known = OWN[name]
    mu = tokens(2, 12)
    for other in (mf.USA(1.0), mf.SA(2.0), -HILLS[2]):
        one, same = own + 0.5 * other, known + 0.5 * other
        expected = same.velocity(mu, mu.points)
        np.testing.assert_allclose(one.velocity(mu, mu.points), expected, atol=1e-14)
        for number in NUMBERS:
            try:
                value = number(mu, same)
            except ValueError as error:
                # an own term is not known by the name of what it is
                with pytest.raises(ValueError, match=re.escape(str(error).partition(", got")[0])):
                    number(mu, one)
            else:
                assert number(mu, one) == pytest.approx(value, rel=1e-13)


# a bump of half-width 0.02, which no point of 32 is in
BUMP = mf.FeedForward(
    W=[[0.5, -0.5], [0.0, 0.0]],
    A=np.array([[1.0, 0.0]] * 2) / 0.02,
    b=[1.0, -1.0],
    activation="tanh",
)


@pytest.mark.parametrize("dynamics", [BUMP, slow(mf.SA(0.5) + BUMP)], ids=["alone", "beside SA"])
def test_a_velocity_that_is_narrower_than_the_grid_is_seen(dynamics):
    law = mf.VonMisesFisher([0.0, 1.0], 1.0)
    flow = mf.evolve(mf.FlowMap(law), dynamics, 0.5, 1)
    sol = mf.evolve(mf.Density(mf.Circle(32), law), dynamics, 0.5, 1)
    assert np.abs(sol.final.mean() - flow.final.mean()).max() < 1e-8
    stop = {"on_unresolved": "stop"}
    small = mf.Density(mf.Circle(32), law, max_size=64)
    stopped = unfinished(mf.evolve, small, dynamics, 0.5, 1, **stop)
    assert stopped.status == "under-resolved"
    assert "the share of the velocity that its grid misses reached" in stopped.message
    # a wide one is seen as it is
    wide = mf.evolve(mf.Density(mf.Circle(64), law), HILLS[2], 0.1, 1)
    assert wide.final.space == mf.Circle(64)
