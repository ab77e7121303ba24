"""Weights in time: every measure against scipy on tokens, each other, and the balance of energy."""

from itertools import product

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import meanfield as mf
from meanfield.dynamics import adapt
from meanfield.dynamics.schedule import within
from meanfield.evolution.progress import DeferredInterrupt
from meanfield.evolution.run import advance
from meanfield.evolution.settings import Settings
from meanfield.evolution.token_system import NoisyTokenSystem
from tests.handmade import same_bits, slow, unit_points

TIMES = [0.0, 0.2, 0.5, 0.8]
BETA = mf.Schedule(TIMES, [1.0, 3.0, 2.0, 4.0])


def weights(shape, seed, size=1.0):
    values = np.random.default_rng(seed).normal(size=(len(TIMES), *shape))
    return mf.Schedule(TIMES, size * values)


def symmetric(dim, seed, size):
    values = np.asarray(weights((dim, dim), seed, size).values)
    return mf.Schedule(TIMES, values + np.swapaxes(values, 1, 2))


def drift(dim):
    rows = np.random.default_rng(5).normal(size=(4, dim))
    return mf.FeedForward.from_potential(
        weights((4,), 6, 0.3), rows, weights((4,), 7), activation="tanh"
    )


def swing(t):
    return 2.0 + np.sin(5.0 * t)


def turned(dim):
    """A matrix that is a function of t."""
    skew = np.random.default_rng(9).normal(size=(dim, dim))
    return lambda t: np.cos(2.0 * t) * np.eye(dim) + np.sin(3.0 * t) * (skew - skew.T)


def hill(dim):
    rows = np.random.default_rng(5).normal(size=(4, dim))
    return mf.FeedForward.from_potential(
        lambda t: 0.3 * np.cos(t + np.arange(4.0)), rows, activation="tanh"
    )


def cases(dim):
    form = symmetric(dim, 3, 0.3)
    return {
        "SA": mf.SA(BETA),
        "USA": mf.USA(BETA, sign=-1),
        "DoublyStochastic": mf.DoublyStochastic(BETA),
        "V": mf.Attention(1.5, [mf.Head(V=weights((dim, dim), 1))]),
        "M": mf.Attention(BETA, [mf.Head(Q=weights((dim, dim), 2, 0.5), V=weights((), 4))]),
        "form": mf.Attention(BETA, [mf.Head(Q=form, V=form)]),
        "drift": drift(dim),
        "Sum": mf.SA(BETA) + drift(dim),
        "weights": mf.Sum([mf.SA(2.0), drift(dim)], weights=weights((2,), 8)),
        "function": mf.SA(swing) + hill(dim),
        "functions": mf.Attention(swing, [mf.Head(Q=turned(dim), V=turned(dim))]),
    }


NAMES = list(cases(2))


def by_scipy(points, dynamics, t_end):
    n, d = points.shape

    def rate(t, state):
        rows = state.reshape(n, d)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return dynamics.velocity(mf.Particles(rows, sums="direct"), rows, t=t).ravel()

    found = solve_ivp(rate, (0.0, t_end), points.ravel(), "DOP853", rtol=1e-12, atol=1e-13)
    rows = found.y[:, -1].reshape(n, d)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_tokens_are_where_scipy_takes_them(name, dim):
    dynamics, points = cases(dim)[name], unit_points(dim, 6, 1)
    sol = mf.evolve(mf.Particles(points), dynamics, 0.8, [0.1, 0.6], rtol=1e-12, atol=1e-13)
    # both are right to their tolerances over rates of order 10
    assert np.abs(sol.final.points - by_scipy(points, dynamics, 0.8)).max() < 1e-10
    if adapt(within(dynamics, 0.0, 0.8)).energy_functional is None:
        assert "balance_error" not in sol.dataset
    else:
        assert np.abs(sol.dataset.balance_error).max() < 1e-10
        # and so it is by energies of the tokens
        energies = [mf.energy(mu, dynamics, t=t) for t, mu in sol]
        assert np.allclose(sol.dataset.energy, energies, rtol=1e-12, atol=1e-14)
        shares = [mf.energy_share(mu, dynamics, t=t) for t, mu in sol]
        assert np.allclose(sol.dataset.energy_share, shares, rtol=1e-12, atol=1e-14)
        gained = sol.dataset.work.values - (np.array(energies) - energies[0])
        assert np.abs(gained).max() < 1e-9 * max(1.0, np.abs(energies).max())


SERIES = mf.FourierSeries(cos=[0.5, 0.2], sin=[0.1])


@pytest.mark.parametrize("name", NAMES)
def test_densities_on_the_circle_are_those_of_flow_maps(name):
    dynamics, x = cases(2)[name], unit_points(2, 9, 2)
    density = mf.evolve(
        mf.Density(mf.Circle(128), SERIES), dynamics, 0.3, [0.2], rtol=1e-11, on_unresolved="stop"
    )
    flow = mf.evolve(mf.FlowMap(SERIES, tol=1e-10), dynamics, 0.3, [0.2])
    assert density.success
    assert flow.success
    # at a knot, between knots, and at the end
    for t in (0.2, 0.25, 0.3):
        assert np.abs(density.pdf(x, t) - flow.pdf(x, t)).max() < 1e-8
    assert np.abs(density.final.mean() - flow.final.mean()).max() < 1e-9
    if adapt(within(dynamics, 0.0, 0.8)).energy_functional is not None:
        assert np.abs(density.dataset.balance_error).max() < 1e-10
        # nodes move within the flow map's own tolerance
        assert np.abs(flow.dataset.balance_error).max() < 1e-9


@pytest.mark.parametrize("dim", [3, 5])
def test_densities_about_an_axis_are_those_of_flow_maps(dim):
    axis = np.eye(dim)[0]
    law = mf.Mixture([mf.VonMisesFisher(axis, 1.0), mf.VonMisesFisher(-axis, 2.0)], [0.6, 0.4])
    along = np.diag([1.0, *[0.5] * (dim - 1)])
    form = mf.Schedule(TIMES, [along, -along, 0.5 * along, along])
    x = unit_points(dim, 9, 2)
    for dynamics in (mf.SA(BETA), mf.Attention(1.0, [mf.Head(Q=form, V=form)])):
        density = mf.evolve(mf.Density(mf.Zonal(dim, 64, axis), law), dynamics, 0.3, 1, rtol=1e-11)
        flow = mf.evolve(mf.FlowMap(law, tol=1e-10), dynamics, 0.3, 1)
        for t in (0.2, 0.3):
            assert np.abs(density.pdf(x, t) - flow.pdf(x, t)).max() < 1e-8
        assert np.abs(density.dataset.balance_error).max() < 1e-10
        assert np.abs(flow.dataset.balance_error).max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SA", "DoublyStochastic", "V", "drift", "Sum", "weights"])
def test_densities_on_the_sphere_are_those_of_flow_maps(name):
    dynamics, x = cases(3)[name], unit_points(3, 9, 2)
    ends = [mf.VonMisesFisher([0.0, 0.6, 0.8], 1.0), mf.VonMisesFisher([1.0, 0.0, 0.0], 1.0)]
    law = mf.Mixture(ends, [0.5, 0.5])
    density = mf.evolve(mf.Density(mf.Sphere(63), law), dynamics, 0.3, [0.2], on_unresolved="stop")
    flow = mf.evolve(mf.FlowMap(law, tol=1e-8), dynamics, 0.3, [0.2])
    assert density.success
    assert flow.success
    assert np.abs(density.pdf(x, 0.3) - flow.pdf(x, 0.3)).max() < 1e-8
    if adapt(within(dynamics, 0.0, 0.8)).energy_functional is not None:
        # a drift's own grid, and the mesh's tolerance
        assert np.abs(density.dataset.balance_error).max() < 1e-9
        assert np.abs(flow.dataset.balance_error).max() < 1e-7


TOLERANCES = {2: [1e-6, 1e-8, 1e-11], 3: [1e-6, 1e-8, 1e-10]}
BALANCED = ["SA", "USA", "DoublyStochastic", "form", "Sum", "weights"]


@pytest.mark.parametrize(
    ("dim", "name"),
    [
        *(pytest.param(2, name, id=f"2-{name}") for name in BALANCED),
        pytest.param(3, "SA", id="3-SA"),
        *(pytest.param(3, n, id=f"3-{n}", marks=pytest.mark.slow) for n in BALANCED[1:]),
    ],
)
def test_the_balance_of_a_flow_map_is_as_good_as_its_tol(dim, name):
    ends = [mf.VonMisesFisher([0.0, 0.6, 0.8], 1.0), mf.VonMisesFisher([1.0, 0.0, 0.0], 1.0)]
    law, dynamics = SERIES if dim == 2 else mf.Mixture(ends, [0.5, 0.5]), cases(dim)[name]
    errors = []
    for tol in TOLERANCES[dim]:
        sol = mf.evolve(mf.FlowMap(law, tol=tol), dynamics, 0.3, [0.2])
        errors.append(float(np.abs(sol.dataset.balance_error).max()))
    # steps err by tol each, up to 20 of them in a run, and E is a smooth function of the nodes
    assert all(np.less(errors, np.multiply(20.0, TOLERANCES[dim])))
    # in proportion to tol, as that of steps is
    orders = np.diff(np.log(errors)) / np.diff(np.log(TOLERANCES[dim]))
    assert min(orders) > 0.75
    assert errors[-1] < 1e-10


@pytest.mark.parametrize("name", ["SA", "USA", "DoublyStochastic"])
def test_what_noise_and_weights_in_time_do_to_the_energy_is_balanced(name):
    kind = type(cases(2)[name])
    start = mf.Density(mf.Circle(64), SERIES)
    sol = mf.evolve(start, kind(BETA, noise=0.2), 0.3, [0.2], rtol=1e-12, atol=1e-15)
    # ∂_t E is integrated with order 4, to some ten times rtol
    assert np.abs(sol.dataset.balance_error).max() < 1e-10


MEASURES = {
    "density": lambda: mf.Density(mf.Circle(64), SERIES),
    "flow map": lambda: mf.FlowMap(SERIES, tol=1e-11),
    "tokens": lambda: mf.Particles(unit_points(2, 6, 1)),
}
TURNED = mf.Attention(1.5, [mf.Head(V=weights((2, 2), 1))])
FOLLOWED = {
    "constant along weights in time": (TURNED, mf.SA(3.0)),
    "in time along weights in time": (TURNED, mf.SA(BETA, sign=-1)),
    "scaled": (TURNED, mf.DoublyStochastic(BETA)),
    "in time along constant weights": (mf.USA(1.0, sign=-1), mf.SA(BETA)),
    "in time along layers": (mf.Layers([mf.SA(1.0), mf.USA(1.0)], step=0.4), mf.SA(BETA)),
    "a function of t": (TURNED, mf.SA(swing)),
    "a sum": (mf.Sum([mf.SA(2.0), mf.USA(1.0)], weights=weights((2,), 8)), mf.SA(1.0) - drift(2)),
    "weights in time": (TURNED, mf.Sum([mf.SA(2.0), mf.USA(BETA)], weights=weights((2,), 8))),
}


def falling(t):
    return np.exp(-40.0 * t) * FORM


FORM = np.diag([1.0, -0.5])
ZERO = {
    "through 0": (mf.Schedule([0.0, 1.0], [-FORM, FORM]), mf.Schedule([0.0, 1.0], [FORM, -FORM])),
    "0 at a knot": tuple(
        mf.Schedule([0.0, 0.5, 1.0], [sign * FORM, 0.0 * FORM, -sign * FORM]) for sign in (1, -1)
    ),
    "from 0 on": tuple(
        mf.Schedule([0.0, 0.5, 1.0], [0.0 * FORM, sign * FORM, sign * FORM]) for sign in (1, -1)
    ),
    "to rounding": (falling, lambda t: -falling(t)),
}


@pytest.mark.parametrize("name", list(ZERO))
def test_a_form_that_is_0_keeps_the_sign_of_its_energy(name):
    """Of V = -KᵀQ = 0 both signs are right; a sum whose energy changed its sign would jump."""
    query, value = ZERO[name]
    head = mf.Attention(1.5, [mf.Head(Q=query, V=value)])
    points = unit_points(2, 5, 3)
    for dynamics in head, head + mf.USA(1.0, sign=-1):
        start = mf.Particles(points)
        sol = mf.evolve(start, dynamics, 1.0, [0.25, 0.5, 0.75], rtol=1e-11, atol=1e-13)
        assert np.abs(sol.dataset.balance_error).max() < 1e-10
    # E = 1/(2β) ∬ e^{β<x,Dy>} of the head, and E_1 of USA, both of which fall
    for t, mu in sol:
        form = np.asarray(query(t))
        pairs = [
            np.exp(b * mu.points @ m @ mu.points.T).mean() / (2 * b)
            for b, m in ((1.5, form), (1.0, np.eye(2)))
        ]
        assert sol.dataset.energy.sel(t=t) == pytest.approx(sum(pairs), rel=1e-12)


@pytest.mark.parametrize(
    "asked", [mf.SA(swing), mf.SA(mf.Schedule([0.3, 2.0], [1.0, 2.0]))], ids=["function", "later"]
)
def test_an_energy_in_time_is_followed_from_a_later_start_on(asked):
    """Nobody is asked for times before the start."""
    start = mf.Density(mf.Circle(64), SERIES)
    sol = mf.evolve(start, mf.SA(2.0), 1.1, [0.7], t_start=0.4, rtol=1e-11, energy=asked)
    assert np.allclose(sol.dataset.energy, [mf.energy(mu, asked, t=t) for t, mu in sol], rtol=1e-12)
    assert np.abs(sol.dataset.balance_error).max() < 1e-10


@pytest.mark.parametrize("measure", list(MEASURES))
@pytest.mark.parametrize("name", list(FOLLOWED))
def test_an_energy_is_followed_where_it_or_what_moves_varies_in_time(name, measure):
    dynamics, asked = FOLLOWED[name]
    sol = mf.evolve(MEASURES[measure](), dynamics, 0.7, [0.3], rtol=1e-11, energy=asked)
    energies = [mf.energy(mu, asked, t=t) for t, mu in sol]
    assert np.allclose(sol.dataset.energy, energies, rtol=1e-12, atol=1e-14)
    # steps of relative errors 1e-11, or the tolerance of the map
    assert np.abs(sol.dataset.balance_error).max() < 1e-9 * (0.1 if measure != "flow map" else 1.0)
    assert np.ptp(energies) > 1e-2
    # X alone makes the dissipation: the derivative of E along tokens that it moves
    if measure == "tokens":
        (t, mu), h = (0.3, sol.measures[1]), 1e-4
        x = mu.points
        velocity = dynamics.velocity(mu, x, t=t)
        near = [
            (x + s * velocity) / np.linalg.norm(x + s * velocity, axis=1)[:, None] for s in (h, -h)
        ]
        up, down = (mf.energy(mf.Particles(rows), asked, t=t) for rows in near)
        rate = adapt(asked).energy_functional.sign * (up - down) / (2.0 * h)
        assert sol.dataset.dissipation.values[1] == pytest.approx(rate, rel=1e-5)


@pytest.mark.parametrize("measure", list(MEASURES))
def test_a_sum_whose_weights_vary_has_an_energy_in_balance(measure):
    # one weight passes through 0, and both have either sign
    through = mf.Schedule(TIMES, [[1.0, -1.0], [-1.0, 0.5], [0.5, 2.0], [-1.0, -1.0]])
    dynamics = mf.Sum([mf.SA(BETA), mf.USA(1.0, sign=-1), drift(2)], weights=columns(through))
    sol = mf.evolve(MEASURES[measure](), dynamics, 0.7, [0.2, 0.3, 0.5], rtol=1e-11)
    each = [mf.SA(BETA), mf.USA(1.0, sign=-1), drift(2)]
    for save, (t, mu) in enumerate(sol):
        # F = Σ ± w E, + where the term climbs its own
        parts = columns(through)(t) * [1.0, -1.0, 1.0] * [mf.energy(mu, one, t=t) for one in each]
        assert sol.dataset.energy.values[save] == pytest.approx(parts.sum(), rel=1e-12, abs=1e-14)
        assert np.allclose(sol.dataset.term_energy.values[save], parts, rtol=1e-12, atol=1e-14)
        assert mf.energy(mu, dynamics, t=t) == pytest.approx(parts.sum(), rel=1e-12, abs=1e-14)
    assert np.abs(sol.dataset.balance_error).max() < 1e-9 * (0.1 if measure != "flow map" else 1.0)
    assert sol.dataset.energy.attrs["symbol"] == "F"


def columns(schedule):
    """A third weight that is 1."""
    return mf.Schedule(TIMES, [[*row, 1.0] for row in np.asarray(schedule.values)])


# lines between 1 and 4 on the run, [0.1, 0.5], and beyond these outside
RISING, FALLING = mf.Schedule([0.0, 1.0], [0.25, 7.75]), mf.Schedule([0.0, 0.5], [4.75, 1.0])
RUN = {"t_end": 0.5, "save_at": [0.2, 0.3, 0.4], "t_start": 0.1}
LOOSE = {
    "density": (mf.Density(mf.Circle(64), SERIES), {"rtol": 1e-4, "atol": 1e-6}),
    "flow map": (mf.FlowMap(SERIES, tol=1e-5), {}),
    "tokens": (mf.Particles(unit_points(2, 6, 1)), {"rtol": 1e-4, "atol": 1e-6}),
}


def e_dirac(beta):
    return np.exp(beta) / (2.0 * beta)


@pytest.mark.parametrize("measure", list(LOOSE))
@pytest.mark.parametrize("beta", [RISING, FALLING], ids=["rising", "falling"])
def test_shares_are_of_the_dirac_at_a_time_and_errors_of_the_largest_of_the_run(measure, beta):
    # steps so long that the balance has an error far above rounding
    start, options = LOOSE[measure]
    saved = mf.evolve(start, mf.SA(beta), **RUN, **options).dataset
    now = np.array([e_dirac(beta(t)) for t in saved.t.values])
    assert np.allclose(saved.energy_share, saved.energy / now, rtol=1e-13, atol=0.0)
    errors = (saved.energy - saved.energy[0] - saved.work) / e_dirac(4.0)
    assert np.abs(errors).max() > 1e-9
    # rounding of shares of order 1
    assert np.allclose(saved.balance_error, errors, rtol=0.0, atol=1e-14)


@pytest.mark.parametrize("measure", list(LOOSE))
def test_errors_of_a_sum_are_of_the_largest_diracs_of_its_terms(measure):
    start, options = LOOSE[measure]
    # from (0.5, -2) to (-1, 1) on the run
    weights = mf.Schedule([0.0, 1.0], [[0.875, -2.75], [-2.875, 4.75]])
    dynamics = mf.Sum([mf.SA(RISING), mf.USA(2.0)], weights=weights)
    saved = mf.evolve(start, dynamics, **RUN, **options).dataset
    largest = np.array([1.0 * e_dirac(4.0), 2.0 * e_dirac(2.0)])
    shares = saved.term_energy.values / largest
    assert np.allclose(saved.term_energy_share, shares, rtol=1e-13, atol=1e-16)
    errors = (saved.term_energy - saved.term_energy[0] - saved.term_work).values / largest
    assert np.abs(errors).max() > 1e-9
    assert np.allclose(saved.term_balance_error, errors, rtol=0.0, atol=1e-14)
    worst = np.take_along_axis(errors, np.abs(errors).argmax(axis=1)[:, None], axis=1)[:, 0]
    assert np.allclose(saved.balance_error, worst, rtol=0.0, atol=1e-14)


def stop_after(time):
    def progress(t):
        if t > time:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        (mf.Particles(unit_points(3, 6, 1)), "M"),
        (mf.Density(mf.Circle(32), SERIES), "SA"),
        (mf.Density(mf.Circle(32), SERIES), "DoublyStochastic"),
        (mf.FlowMap(SERIES), "form"),
    ],
)
def test_a_run_goes_on_from_a_save_at_a_knot_and_between_knots(measure, name, tmp_path):
    dynamics, saves = cases(measure.dim)[name], [0.1, 0.2, 0.3]
    whole = mf.evolve(measure, dynamics, 0.4, saves)
    for after in (0.25, 0.35):
        path = tmp_path / f"{after}.nc"
        with pytest.raises(mf.exceptions.Interrupted):
            mf.evolve(measure, dynamics, 0.4, saves, checkpoint=path, progress=stop_after(after))
        again = mf.resume(path)
        for name in whole.dataset.data_vars:
            assert same_bits(whole.dataset[name], again.dataset[name])
        for mu, nu in zip(whole.measures, again.measures, strict=True):
            assert all(map(same_bits, mu.quadrature, nu.quadrature))
    assert mf.load(path).dynamics == dynamics


def test_a_run_under_functions_of_t_goes_on_with_them_handed_in(tmp_path):
    turn, other = turned(2), mf.Schedule(TIMES, np.ones(4))

    def made(score=1.5, beta=swing):
        return mf.Attention(beta, [mf.Head(Q=score, V=turn)]) + mf.SA(swing)

    start, saves = mf.Density(mf.Circle(32), SERIES), [0.1, 0.3]
    whole = mf.evolve(start, made(), 0.4, saves)
    path = tmp_path / "run.nc"
    with pytest.raises(mf.exceptions.Interrupted):
        mf.evolve(start, made(), 0.4, saves, checkpoint=path, progress=stop_after(0.25))
    for given in (None, made(score=1.6), made(beta=other), mf.SA(swing)):
        with pytest.raises(
            ValueError, match=r"dynamics must be that of the run, .*a function of t"
        ):
            mf.resume(path, dynamics=given)
    with pytest.raises(ValueError, match="hand it in as dynamics="):
        mf.resume(path)
    again = mf.resume(path, dynamics=made())
    for name in whole.dataset.data_vars:
        assert same_bits(whole.dataset[name], again.dataset[name])
    x = unit_points(2, 5, 1)
    assert same_bits(whole.pdf(x, 0.35), again.pdf(x, 0.35))
    # a finished run is told its functions, too
    whole.save(path)
    assert same_bits(mf.resume(path, dynamics=made()).pdf(x, 0.35), again.pdf(x, 0.35))
    assert again.dynamics.velocity(again.final, x, t=0.4).shape == x.shape


class Quadrature(NoisyTokenSystem):
    """Noise by nodes of its normal law on the circle, so that weights make means exact."""

    def __init__(self, law, dynamics, steps, t_end):
        nodes, shares = np.polynomial.hermite_e.hermegauss(3)
        angles = 2.0 * np.pi * np.arange(24) / 24
        start = np.column_stack([np.cos(angles), np.sin(angles)])
        masses = law.pdf(start) / 24
        kicks = np.array(list(product(range(3), repeat=2 * steps)))
        probabilities = (shares / shares.sum())[kicks].prod(axis=1)
        self._kicks = iter(np.tile(nodes[kicks], (24, 1)).T)
        tokens = mf.Particles(
            np.repeat(start, len(kicks), axis=0), np.outer(masses, probabilities).ravel()
        )
        super().__init__(tokens, adapt(dynamics), Settings(max_step=t_end / steps), 0)

    def _diffuse(self, state, h):
        points = self.equation.at(self.t).measure(state[: self._size]).points
        tangents = np.column_stack([-points[:, 1], points[:, 0]])
        kicks = next(self._kicks)[:, None] * tangents
        self.rng = type("Nodes", (), {"normal": lambda *_, size: kicks})()
        return super()._diffuse(state, h)


@pytest.mark.parametrize("counts", [(3, 4), slow((4, 5))])
def test_noisy_tokens_have_weak_order_2(counts):
    # no knot within the run, so that steps are equal
    beta, t_end = mf.Schedule([0.0, 0.5, 1.0], [1.0, 6.0, 1.0]), 0.1
    dynamics = mf.SA(beta, noise=0.1)
    fine = mf.evolve(mf.Density(mf.Circle(64), SERIES), dynamics, t_end, 1, rtol=1e-11).final
    errors = []
    for steps in counts:
        system = Quadrature(SERIES, dynamics, steps, t_end)
        advance(system, t_end, lambda _: None, DeferredInterrupt())
        errors.append(float(np.linalg.norm(system.measure().mean() - fine.mean())))
    # three nodes have the moments of a normal law up to the fifth: 1e-9 of errors of 1e-6
    order = np.log(errors[0] / errors[1]) / np.log(counts[1] / counts[0])
    assert errors[1] > 1e-7
    assert abs(order - 2.0) < 0.2
