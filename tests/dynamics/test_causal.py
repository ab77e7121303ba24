"""Causal masks: fields and runs against loops over each token and those before it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

import meanfield as mf
from meanfield import studies, theory
from meanfield.dynamics import adapt
from meanfield.equations.tendency import tendency
from meanfield.spaces.geometry import project
from tests.evolution.interruptions import Interruption, assert_same
from tests.handmade import interrupted, slow, unit_points

DECAYS = [0.0, 1.0, 30.0]
TIGHT = {"rtol": 1e-11, "atol": 1e-13}


def tokens(dim, n, sums="auto", seed=1):
    """Tokens of unequal weights, one of them half of all."""
    weights = np.random.default_rng(seed).uniform(0.2, 1.0, n)
    weights[n // 2] = weights.sum()
    return mf.Particles(unit_points(dim, n, seed), weights, unit_mass=True, sums=sums)


def loop(measure, at, position, heads, function, *, normalised, decay):
    """Σ_h V_h Σ_k m_k f(<M_h x, y_k>) y_k [/ Σ_k m_k f] over the tokens k at positions <= p."""
    places, out = np.cumsum(measure.weights), np.zeros(at.shape)
    for i, (x, p) in enumerate(zip(at, np.broadcast_to(position, len(at)), strict=True)):
        seen = places <= p
        masses = measure.weights[seen] * np.exp(-decay * (p - places[seen]))
        masses /= masses.sum()
        for matrix, value in heads:
            terms = masses * function(measure.points[seen] @ (matrix @ x))
            total = terms.sum() if normalised else 1.0
            out[i] += value @ (terms @ measure.points[seen]) / total
    return out


def kinds(dim, decay):
    """Dynamics under a mask, each with its loop."""
    rng, unit, mask = np.random.default_rng(dim), np.eye(dim), mf.Causal(decay)
    first, second, value = rng.normal(size=(3, dim, dim)) / np.sqrt(dim)

    def taylor(t):
        return 2.0 + 2.0 * t + t**2

    for beta in (0.0, 1.0, 100.0):
        yield mf.SA(beta, mask=mask), [(beta * unit, unit)], np.exp, True
    yield mf.SA(4.0, sign=-1, mask=mask), [(4.0 * unit, -unit)], np.exp, True
    yield mf.USA(2.0, mask=mask), [(2.0 * unit, unit)], np.exp, False
    for normalised in (True, False):
        kernel = mf.Interaction([2.0, 2.0, 1.0], normalised=normalised, mask=mask)
        yield kernel, [(unit, unit)], taylor, normalised
        heads = [mf.Head(Q=first, V=value), mf.Head(K=second)]
        attention = mf.Attention(3.0, heads, normalised=normalised, mask=mask)
        yield attention, [(3.0 * first, value), (3.0 * second.T, unit)], np.exp, normalised
    # where the own term is the smallest
    yield mf.Attention(9.0, [mf.Head(Q=-1.0)], mask=mask), [(-9.0 * unit, unit)], np.exp, True


def velocity_in_a_run(measure, dynamics):
    """X at tokens, as the right-hand side of a run has it, from its chart."""
    equation = tendency(measure, adapt(dynamics))
    change = np.empty_like(equation.initial_state)
    equation(equation.initial_state, change)
    if change.size == len(measure.points):
        return change[:, None] * measure.points[:, ::-1] * [-1.0, 1.0]
    change = change.reshape(len(measure.points), -1)
    # of a run in the span of its tokens these are coordinates
    return change @ getattr(equation._chart, "_basis", np.eye(change.shape[1]))


@pytest.mark.parametrize("sums", ["auto", "direct", "transforms", "gram"])
@pytest.mark.parametrize(
    ("dim", "n"), [(2, 40), slow(2, 300), (3, 40), slow(3, 300), (5, 30), (64, 9)]
)
@pytest.mark.parametrize("decay", DECAYS)
def test_field_and_velocity_are_those_of_loops(dim, n, decay, sums):
    """In a run, by `velocity` at the tokens, and at places that are none."""
    mu = tokens(dim, n, sums)
    own, at, by_transforms = (
        np.cumsum(mu.weights),
        unit_points(dim, 7, 3),
        (dim, sums) == (3, "transforms"),
    )
    between = np.linspace(own[0], 1.0, 7)
    for dynamics, heads, function, normalised in kinds(dim, decay):
        about = {"normalised": normalised, "decay": decay}
        exact = loop(mu, mu.points, own, heads, function, **about)
        # rounding of sums of n terms relative to the largest, and of exponents of 100
        allowed = {"rtol": 0, "atol": 1e-13 * max(1.0, np.abs(exact).max())}
        # what a place sees is a measure, summed on S^2 by the transforms of all, to 3e-13; heads
        # divide by G at its smallest
        at_places = allowed | {"atol": allowed["atol"] * (5.0 if by_transforms else 1.0)}
        there = loop(mu, at, between, heads, function, **about)
        got = dynamics.velocity(mu, at, position=between)
        np.testing.assert_allclose(got, project(at, there), **at_places)
        tangents = project(mu.points, exact)
        got = dynamics.velocity(mu, mu.points, position=own)
        np.testing.assert_allclose(got, tangents, **at_places)
        if sums == "gram" and not adapt(dynamics).stays_in_span:
            continue
        np.testing.assert_allclose(velocity_in_a_run(mu, dynamics), tangents, **allowed)
        output = tendency(mu, adapt(dynamics)).output(mu)
        np.testing.assert_allclose(project(mu.points, output), tangents, **allowed)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("sums", ["direct", "transforms"])
def test_terms_have_masks_of_their_own(dim, sums):
    mu, unit = tokens(dim, 30, sums), np.eye(dim)
    own = np.cumsum(mu.weights)
    whole = mf.SA(4.0, mask=mf.Causal(2.0)) - 0.5 * mf.USA(1.0) + mf.SA(2.0, mask=mf.Causal())
    first = loop(mu, mu.points, own, [(4.0 * unit, unit)], np.exp, normalised=True, decay=2.0)
    plain = loop(mu, mu.points, 1.0, [(unit, unit)], np.exp, normalised=False, decay=0.0)
    last = loop(mu, mu.points, own, [(2.0 * unit, unit)], np.exp, normalised=True, decay=0.0)
    exact = project(mu.points, first - 0.5 * plain + last)
    # the term without a mask has the transforms of S^2 that all runs have, to 3e-13
    allowed = {"rtol": 0, "atol": 1e-13 if dim == 2 else 5e-13}
    np.testing.assert_allclose(velocity_in_a_run(mu, whole), exact, **allowed)
    np.testing.assert_allclose(whole.velocity(mu, mu.points, position=own), exact, **allowed)


@pytest.mark.parametrize("dim", [2, 3, 10])
@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
def test_a_far_token_is_not_lost_beside_the_own_pull(kind, dim):
    """The second is pulled by e^{-54} of what it pulls itself with; the first stays to the bit."""
    points = np.zeros((2, dim))
    points[:, :2] = [1.0, 0.0], [np.cos(2.5), np.sin(2.5)]
    points = points @ np.linalg.qr(unit_points(dim, dim, 1))[0]
    mu = mf.Particles(points / np.linalg.norm(points, axis=1, keepdims=True))
    got = velocity_in_a_run(mu, kind(30.0, mask=mf.Causal()))
    assert not got[0].any()
    share = np.exp(30.0 * np.cos(2.5) - (30.0 if kind is mf.SA else 0.0))
    exact = share * np.sin(2.5) / (1.0 + share if kind is mf.SA else 2.0)
    # an exponent of 54 is right to some roundings of it
    assert np.linalg.norm(got[1]) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("beta", [1.0, 9.0])
@pytest.mark.parametrize("dim", [2, 3])
def test_two_tokens_meet_as_a_quadrature_has_it(beta, dim):
    """θ' = -sin θ / (1 + e^{β(1 - cos θ)}): the first stands, the second comes to it."""
    start, end = 2.0, 0.3

    def seconds(angle):
        return (1.0 + np.exp(beta * (1.0 - np.cos(angle)))) / np.sin(angle)

    t_end = quad(seconds, end, start, epsabs=0.0, epsrel=1e-13)[0]
    points = np.zeros((2, dim))
    points[:, :2] = [1.0, 0.0], [np.cos(start), np.sin(start)]
    sol = mf.evolve(mf.Particles(points), mf.SA(beta, mask=mf.Causal()), t_end, **TIGHT)
    assert (sol.final.points[0] == points[0]).all()
    angle = np.arctan2(sol.final.points[1, 1], sol.final.points[1, 0])
    # an error of the angle over that of the time is the speed, at most 1
    assert quad(seconds, angle, start, epsrel=1e-13)[0] == pytest.approx(t_end, rel=1e-8)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("repeats", [5, slow(100)])
def test_all_come_to_the_first_token(dim, repeats):
    """20 uniform tokens at β = 1: the first never moves, all others end there."""
    for seed in range(repeats):
        start = mf.Particles.sample(mf.Uniform(dim), 20, np.random.default_rng(seed))
        sol = mf.evolve(start, mf.SA(1.0, mask=mf.Causal()), t_end=600.0, save_at=1)
        first = start.points[0]
        # points are put back on the sphere, to a rounding
        np.testing.assert_allclose(sol.final.points[0], first, rtol=0, atol=1e-15)
        assert np.linalg.norm(sol.final.points - first, axis=1).max() < 1e-6


@pytest.mark.parametrize("mask", [mf.Causal(), mf.Causal(3.0)])
def test_any_energy_may_be_followed(mask):
    """d/dt E is <∇E, X>, which a run integrates; a mask has no energy of its own."""
    start, dynamics = tokens(3, 12), mf.SA(3.0, mask=mask)
    plain = mf.evolve(start, dynamics, 1.0, 5, **TIGHT)
    assert "energy" not in plain.dataset
    for asked in (2.0, mf.SA(2.0), mf.DoublyStochastic(1.0)):
        sol = mf.evolve(start, dynamics, 1.0, 5, energy=asked, **TIGHT)
        np.testing.assert_allclose(sol.final.points, plain.final.points, rtol=0, atol=1e-10)
        assert np.abs(sol.dataset.balance_error).max() < 1e-10
        own = mf.SA(2.0) if asked == 2.0 else asked
        for t, mu in sol:
            assert sol.dataset.energy.sel(t=t).item() == pytest.approx(mf.energy(mu, own))
    with pytest.raises(ValueError, match=r"must have an energy.*under a causal mask tokens do not"):
        mf.energy(start, dynamics)


def test_discrete_layers_are_those_of_loops():
    """x ← N(x + h output), whose radial part counts; layers may have masks or none."""
    mu, step, unit = tokens(2, 25, "transforms"), 0.5, np.eye(2)
    own, points = np.cumsum(mu.weights), mu.points
    layers = mf.Layers([mf.SA(4.0, mask=mf.Causal(2.0)), mf.SA(1.0)], step=step)
    for beta, position, decay in ((4.0, own, 2.0), (1.0, 1.0, 0.0)):
        now = mf.Particles(points, mu.weights)
        heads = [(beta * unit, unit)]
        points = points + step * loop(
            now, points, position, heads, np.exp, normalised=True, decay=decay
        )
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    sol = mf.evolve(mu, mf.LayerMap(layers, step=step), 2 * step)
    np.testing.assert_allclose(sol.final.points, points, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dim", [2, 3])
def test_layers_act_one_after_the_other(dim):
    mu, masked = tokens(dim, 20), mf.USA(0.5, mask=mf.Causal(1.0))
    sol = mf.evolve(mu, mf.Layers([masked, mf.SA(1.0)], step=0.5), 1.0, **TIGHT)
    middle = mf.evolve(mu, masked, 0.5, **TIGHT).final
    last = mf.evolve(middle, mf.SA(1.0), 0.5, **TIGHT).final
    np.testing.assert_allclose(sol.final.points, last.points, rtol=0, atol=1e-10)
    layers = mf.Layers([masked, mf.SA(1.0)], step=0.5)
    at = unit_points(dim, 2, 5)
    got = layers.velocity(mu, at, t=0.1, position=0.7)
    np.testing.assert_array_equal(got, masked.velocity(mu, at, position=0.7))
    with pytest.raises(ValueError, match=r"position must be 1\.0 without a mask, got 0\.7"):
        layers.velocity(mu, at, t=0.7, position=0.7)


@pytest.mark.parametrize("sums", ["direct", "transforms"])
def test_weights_in_time_act_under_a_mask(sums):
    """A schedule of β that is constant is that β; one that is not ends elsewhere."""
    mu, mask = tokens(2, 20, sums), mf.Causal(1.0)
    exact = mf.evolve(mu, mf.SA(2.0, mask=mask), 1.0, **TIGHT).final.points
    steady = mf.SA(mf.Schedule([0.0, 1.0], [2.0, 2.0]), mask=mask)
    np.testing.assert_allclose(
        mf.evolve(mu, steady, 1.0, **TIGHT).final.points, exact, rtol=0, atol=1e-10
    )
    rising = replace(steady, beta=mf.Schedule([0.0, 1.0], [1.0, 5.0]))
    at, own = mu.points, np.cumsum(mu.weights)
    np.testing.assert_array_equal(
        rising.velocity(mu, at, t=0.5, position=own),
        mf.SA(3.0, mask=mask).velocity(mu, at, position=own),
    )
    equation = tendency(mu, adapt(rising)).at(0.5)
    np.testing.assert_allclose(
        project(at, equation.output(mu)),
        mf.SA(3.0, mask=mask).velocity(mu, at, position=own),
        rtol=0,
        atol=1e-13,
    )


def test_noise_is_that_of_the_generator():
    """The same noise with and without a mask: the last token of two sees all, so both agree."""
    start = tokens(3, 2)
    asked = {"t_end": 0.5, "max_step": 0.05}
    sol = mf.evolve(start, mf.SA(0.0, noise=0.1, mask=mf.Causal()), **asked, rng=3)
    again = mf.evolve(start, mf.SA(0.0, noise=0.1, mask=mf.Causal()), **asked, rng=3)
    np.testing.assert_array_equal(sol.final.points, again.final.points)
    # the first token sees itself alone, and is moved by its noise only
    alone = mf.evolve(start, mf.SA(0.0, noise=0.1, mask=mf.Causal(1e3)), **asked, rng=3)
    np.testing.assert_allclose(alone.final.points[0], sol.final.points[0], rtol=0, atol=1e-14)
    assert np.abs(sol.final.points - start.points).max() > 0.1


RUNS = {
    "circle": (tokens(2, 60, "transforms"), mf.SA(4.0, mask=mf.Causal(1.0))),
    "S^2": (tokens(3, 60, "transforms"), mf.USA(1.0, mask=mf.Causal())),
    "pairs": (tokens(5, 20), mf.SA(4.0, mask=mf.Causal(30.0))),
    "span": (tokens(64, 6), mf.SA(4.0, mask=mf.Causal())),
    "heads": (tokens(3, 12), mf.Attention(2.0, [mf.Head(V=np.diag([1, -1, 2]))], mask=mf.Causal())),
    "sum": (tokens(2, 20), mf.SA(1.0, mask=mf.Causal()) + mf.USA(0.5)),
    "layers": (tokens(3, 20), mf.Layers([mf.SA(1.0, mask=mf.Causal()), mf.SA(2.0)], step=0.4)),
    "discrete": (tokens(3, 20), mf.LayerMap(mf.SA(1.0, mask=mf.Causal(2.0)), step=0.05)),
    "noise": (tokens(3, 20), mf.SA(1.0, noise=0.1, mask=mf.Causal())),
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_resumed_run_is_the_uninterrupted_one(kind, tmp_path):
    """Bit for bit, and files give back the mask."""
    start, dynamics = RUNS[kind]
    path, asked = tmp_path / "run.nc", {"t_end": 0.8, "save_at": 4, "rng": 5}
    asked = asked if kind == "noise" else {k: v for k, v in asked.items() if k != "rng"}
    monitors = {"m": lambda mu: float(mu.mass())}
    whole = mf.evolve(start, dynamics, **asked, monitors=monitors)
    part = interrupted(
        mf.evolve, start, dynamics, **asked, monitors={"m": Interruption(4)}, checkpoint=path
    )
    assert part.status == "interrupted"
    assert_same(mf.resume(path, monitors=monitors), whole)
    assert mf.load(path).dynamics == dynamics


def test_records_and_case_files_have_the_mask(tmp_path):
    text = """
    law = {type = "Uniform", dim = 2}
    measure = {type = "Particles", n = 8}
    dynamics = {beta = 2.0, mask = {type = "Causal", decay = 1.5}}
    run = {t_end = 0.2, save_at = 2, rng = 0}
    """
    path = tmp_path / "case.toml"
    path.write_text(text)
    case = mf.Case.from_file(path)
    sol = case.run()
    assert sol.dynamics == mf.SA(2.0, mask=mf.Causal(1.5))
    other = case.replace({"dynamics.mask.decay": 4.0}).run()
    assert other.dynamics.mask == mf.Causal(4.0)
    assert not np.array_equal(other.final.points, sol.final.points)
    ds = mf.sweep(case, {"dynamics.mask.decay": [0.0, 1.5]})
    assert "decay" in ds.dims
    assert repr(mf.SA(1.0)) == "SA(beta=1.0, sign=1, noise=0.0)"
    assert mf.SA(1.0) != mf.SA(1.0, mask=mf.Causal()) != mf.SA(1.0, mask=mf.Causal(1.0))


MASKED = mf.SA(2.0, mask=mf.Causal(1.0))
AROUND = mf.VonMisesFisher([0.0, 0.0, 1.0], 1.0)
ONLY_TOKENS = "measure must be Particles, whose rows are in an order, under mask=mf.Causal"
EXCHANGEABLE = "dynamics must have no mask, since tokens must be exchangeable, got SA"
REFUSED = {
    "density": (lambda: mf.evolve(mf.Density(mf.Sphere(15), AROUND), MASKED, 1.0), ONLY_TOKENS),
    "zonal": (lambda: mf.evolve(mf.Density(mf.Zonal(3, 15), AROUND), MASKED, 1.0), ONLY_TOKENS),
    "flow map": (lambda: mf.evolve(mf.FlowMap(AROUND), MASKED, 1.0), ONLY_TOKENS),
    "a term": (lambda: mf.evolve(mf.FlowMap(AROUND), mf.SA(1.0) + MASKED, 1.0), ONLY_TOKENS),
    "a layer": (
        lambda: mf.evolve(mf.FlowMap(AROUND), mf.Layers([mf.SA(1.0), MASKED]), 1.0),
        ONLY_TOKENS,
    ),
    "velocity": (lambda: MASKED.velocity(mf.FlowMap(AROUND), [[1.0, 0.0, 0.0]]), ONLY_TOKENS),
    "speed": (lambda: mf.rms_velocity(mf.FlowMap(AROUND), MASKED), ONLY_TOKENS),
    "weight": (
        lambda: mf.evolve(mf.Particles(np.eye(3), [0.5, 0.0, 0.5]), MASKED, 1.0),
        "weights must be > 0 under mask=mf.Causal",
    ),
    "weight of velocity": (
        lambda: MASKED.velocity(mf.Particles(np.eye(3), [0.0, 0.5, 0.5]), np.eye(3)),
        "weights must be > 0 under mask=mf.Causal",
    ),
    "balanced": (
        lambda: mf.DoublyStochastic(1.0, mask=mf.Causal()),
        "mask must be None for DoublyStochastic, got Causal.*the identity, under which no token",
    ),
    "mask": (
        lambda: mf.SA(1.0, mask="causal"),
        r"mask must be mf.Causal\(\) or None, got 'causal'",
    ),
    "decay": (lambda: mf.Causal(-1.0), "decay must be a finite number >= 0, got -1"),
    "no mask": (
        lambda: mf.SA(1.0).velocity(tokens(3, 4), np.eye(3), position=0.5),
        "position must be 1.0 without a mask, got 0.5",
    ),
    "before": (
        lambda: MASKED.velocity(mf.Particles(np.eye(3)), np.eye(3), position=0.3),
        "position must be >= 0.333333, that of the first token, got 0.3",
    ),
    **{
        f"position {value}": (
            lambda value=value: MASKED.velocity(mf.Particles(np.eye(3)), np.eye(3), position=value),
            "position must be",
        )
        for value in (0.0, -0.5, 1.5, np.nan, np.inf, "last", None, True, [0.5, 1.0], [[0.5]])
    },
    "slope": (lambda: mf.slope(tokens(3, 4), MASKED), "must have an energy.*under a causal mask"),
    "dissipation": (lambda: mf.dissipation(tokens(3, 4), MASKED), "must have an energy"),
    "energy of a run": (
        lambda: mf.evolve(tokens(3, 4), mf.SA(1.0), 1.0, energy=MASKED),
        "energy must be beta >= 0 or a dynamics that has one.*under a causal mask",
    ),
    "growth": (lambda: theory.growth_rates(MASKED, 3, 4), EXCHANGEABLE),
    "uniform": (lambda: theory.energy_uniform(MASKED, 3), EXCHANGEABLE),
    "Dirac": (lambda: theory.energy_dirac(MASKED), "must have an energy.*under a causal mask"),
    "noise": (lambda: theory.critical_noise(MASKED, 3), EXCHANGEABLE),
    "orthogonal": (lambda: theory.orthogonal_tokens(MASKED, 4, 1.0), EXCHANGEABLE),
    "arrival": (lambda: theory.orthogonal_arrival(MASKED, 4, 1e-3), EXCHANGEABLE),
    "Dobrushin": (lambda: theory.dobrushin_constant(MASKED), EXCHANGEABLE),
    "limit": (
        lambda: studies.mean_field_limit(AROUND, MASKED, 0.1, [4], repeats=2),
        "dynamics must have no mask|measure must be Particles",
    ),
    "phases": (lambda: studies.phase_diagram(MASKED, 3, 4, 1.0), EXCHANGEABLE),
    "plateaus": (lambda: studies.metastability(MASKED), EXCHANGEABLE),
    "stationary": (
        lambda: studies.stationary_states(replace(MASKED, noise=0.1), 3),
        EXCHANGEABLE,
    ),
    "stationary density": (
        lambda: studies.stationary_density(replace(MASKED, noise=0.01), 3),
        EXCHANGEABLE,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_order_is_refused(name):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_speeds_are_those_of_each_token():
    """Tokens have a path in W_2, whose speed is the root mean square of their own."""
    mu = tokens(3, 20)
    velocity = MASKED.velocity(mu, mu.points, position=np.cumsum(mu.weights))
    exact = np.sqrt(mu.weights @ np.vecdot(velocity, velocity))
    assert mf.rms_velocity(mu, MASKED) == pytest.approx(exact, rel=1e-13)
    assert mf.metric_speed(mu, MASKED) == pytest.approx(exact, rel=1e-13)
    sol = mf.evolve(mu, MASKED, 0.1, 1)
    assert sol.dataset.rms_velocity[0].item() == pytest.approx(exact, rel=1e-13)


def test_the_exact_meaning_of_a_position():
    """A place sees the tokens up to its position, of which it need not be one."""
    mu = mf.Particles(np.eye(3), [0.5, 0.25, 0.25])
    at, dynamics = unit_points(3, 1, 2), mf.USA(0.0, mask=mf.Causal())
    for position, mean in (
        (0.5, [1.0, 0.0, 0.0]),
        (0.7499, [1.0, 0.0, 0.0]),
        (0.75, [2.0 / 3.0, 1.0 / 3.0, 0.0]),
        (1.0, [0.5, 0.25, 0.25]),
    ):
        got = dynamics.velocity(mu, at, position=position)
        np.testing.assert_allclose(got, project(at, np.array([mean])), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(dynamics.velocity(mu, at), got)
