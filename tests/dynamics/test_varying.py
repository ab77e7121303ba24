"""Weights in time: the dynamics of each time, and the facts that hold at all of them."""

import numpy as np
import pytest
from scipy.linalg import expm

import meanfield as mf
from meanfield.dynamics import adapt
from meanfield.dynamics.schedule import Schedule, within
from meanfield.equations.batch import batch_tendency

TIMES = np.array([0.0, 0.4, 1.0, 2.0])
BETA = Schedule(TIMES, [1.0, 3.0, 2.0, 4.0])
RNG = np.random.default_rng(0)
MATRIX = Schedule(TIMES, RNG.normal(size=(4, 3, 3)))
SYMMETRIC = Schedule(TIMES, [m + m.T for m in np.asarray(MATRIX.values)])
TOKENS = mf.Particles(np.eye(3))


@pytest.mark.parametrize(
    ("dynamics", "then"),
    [
        (mf.SA(BETA), lambda t: mf.SA(BETA(t))),
        (mf.USA(BETA, sign=-1), lambda t: mf.USA(BETA(t), sign=-1)),
        (mf.DoublyStochastic(BETA), lambda t: mf.DoublyStochastic(BETA(t))),
        (
            mf.Attention(BETA, [mf.Head(V=MATRIX), mf.Head(Q=SYMMETRIC)]),
            lambda t: mf.Attention(BETA(t), [mf.Head(V=MATRIX(t)), mf.Head(Q=SYMMETRIC(t))]),
        ),
        (mf.SA(BETA) - 2.0 * mf.SA(1.0), lambda t: mf.SA(BETA(t)) - 2.0 * mf.SA(1.0)),
    ],
)
def test_velocity_energy_and_speed_are_those_of_the_dynamics_at_a_time(dynamics, then):
    for t in (0.0, 0.7, 2.0):
        now = then(t)
        velocity = dynamics.velocity(TOKENS, TOKENS.points, t=t)
        assert np.array_equal(velocity, now.velocity(TOKENS, TOKENS.points))
        assert mf.rms_velocity(TOKENS, dynamics, t=t) == mf.rms_velocity(TOKENS, now)
        assert mf.metric_speed(TOKENS, dynamics, t=t) == mf.metric_speed(TOKENS, now)
        if now.energy_functional is not None:
            for number in (mf.energy, mf.energy_share, mf.dissipation):
                assert number(TOKENS, dynamics, t=t) == number(TOKENS, now)
    with pytest.raises(ValueError, match="t must be in"):
        dynamics.velocity(TOKENS, TOKENS.points, t=2.1)


def test_the_reach_bounds_all_times():
    known = adapt(mf.Attention(BETA, [mf.Head(Q=MATRIX, K=2.0)]))
    largest = max(known.at(t).reach for t in np.linspace(0.0, 2.0, 501))
    assert largest <= known.reach
    # of one spline alone, with little to spare
    alone = adapt(mf.Attention(1.5, [mf.Head(Q=MATRIX)]))
    largest = max(alone.at(t).reach for t in np.linspace(0.0, 2.0, 501))
    assert largest <= alone.reach <= 1.1 * largest
    assert adapt(mf.SA(BETA)).reach == BETA.largest > 4.0 - 1e-12


def test_heads_have_an_energy_only_where_one_of_k_and_q_is_constant_and_v_is_their_product():
    key = RNG.normal(size=(3, 3))
    products = Schedule(TIMES, [key.T @ key @ np.diag([1.0, 1.0, 1.0]) * (1.0 + t) for t in TIMES])
    queries = Schedule(TIMES, [key * (1.0 + t) for t in TIMES])
    assert (
        adapt(mf.Attention(1.0, [mf.Head(Q=SYMMETRIC, V=SYMMETRIC)])).energy_functional is not None
    )
    assert (
        adapt(mf.Attention(1.0, [mf.Head(Q=queries, K=key, V=products)])).energy_functional
        is not None
    )
    # not where V is no spline of the product, or is it at the knots alone
    squares = Schedule(TIMES, [key.T @ key * (1.0 + t) ** 2 for t in TIMES])
    cubes = Schedule(TIMES, [key * (1.0 + np.sin(9.0 * t)) for t in TIMES])
    fourth = Schedule(TIMES, [k.T @ k for k in np.asarray(cubes.values)])
    assert adapt(mf.Attention(1.0, [mf.Head(Q=cubes, K=cubes, V=fourth)])).energy_functional is None
    assert (
        adapt(mf.Attention(1.0, [mf.Head(Q=queries, K=key, V=squares)])).energy_functional is None
    )
    assert adapt(mf.Attention(1.0, [mf.Head(Q=MATRIX, V=MATRIX)])).energy_functional is None


def test_functions_of_t_are_looked_at_at_more_times_than_their_degree():
    form, turn = np.diag([1.0, 2.0]), np.array([[0.0, 1.0], [-1.0, 0.0]])
    # symmetric at all ninths of a run, as a cubic would be always
    scores = (lambda _: form, lambda t: form + np.sin(9.0 * np.pi * t) * turn)
    runs = (within(mf.Attention(1.0, [mf.Head(Q=f, V=f)]), 0.0, 1.0) for f in scores)
    assert [adapt(one).energy_functional is None for one in runs] == [False, True]


def test_weights_that_change_their_sign_keep_all_terms():
    terms = [mf.SA(1.0), mf.Attention(1.0, [mf.Head(V=MATRIX)])]
    whole = adapt(mf.Sum(terms, weights=Schedule([0.0, 2.0], [[1.0, -1.0], [-1.0, 1.0]])))
    # a weight of 0 is that of a term which does not move the measure
    assert [weight for weight, _ in whole.at(1.0).weighted_terms] == [1e-300, 1e-300]
    assert [type(term) for _, term in whole.at(2.0).weighted_terms] == [mf.SA, mf.Attention]
    assert whole.energy_functional is None
    assert "only attention of one head" in whole.why_no_energy
    # repulsion at late times pulls clusters apart
    assert not whole.keeps_clusters
    inner = mf.Sum([mf.SA(1.0) + 2.0 * mf.SA(2.0), mf.SA(3.0)], weights=Schedule([0, 1], np.eye(2)))
    assert np.array_equal(inner.weights.values, [[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])


def test_schedules_without_a_common_time_are_refused():
    late = Schedule([3.0, 4.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="schedules must have times in common"):
        adapt(mf.Attention(BETA, [mf.Head(V=late)]))


def test_what_knows_no_time_refuses_it():
    for asked in (
        lambda: batch_tendency(np.eye(2)[None], mf.SA(BETA)),
        lambda: adapt(mf.SA(BETA)).output(TOKENS, np.eye(3)),
        lambda: mf.SA(BETA).output(TOKENS, np.eye(3)),
        lambda: mf.evolve(mf.Particles(np.eye(3), sums="float32"), mf.SA(BETA), 1.0, rtol=1e-5),
    ):
        with pytest.raises((ValueError, TypeError)):
            asked()


LAW = mf.FourierSeries(cos=[0.5])


@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
@pytest.mark.parametrize(
    "asked",
    [
        mf.theory.energy_dirac,
        lambda dynamics: mf.theory.energy_uniform(dynamics, 2),
        lambda dynamics: mf.theory.growth_rates(dynamics, 2, 3),
        lambda dynamics: mf.theory.critical_noise(dynamics, 2),
        mf.theory.dobrushin_constant,
        lambda dynamics: mf.theory.orthogonal_tokens(dynamics, 3, 0.1),
        lambda dynamics: mf.studies.mean_field_limit(LAW, dynamics, 0.4, [8]),
        mf.studies.metastability,
        lambda dynamics: mf.studies.phase_diagram(dynamics, 2, 4, 0.4),
        lambda dynamics: mf.studies.stationary_states(dynamics, 2),
        lambda dynamics: mf.studies.stationary_density(dynamics, 2),
    ],
)
def test_theory_and_studies_of_constant_weights_refuse_weights_in_time(asked, kind):
    with pytest.raises(ValueError, match="dynamics must not vary in time, since"):
        asked(kind(BETA))


class Heads:
    """An own dynamics whose heads have weights in time."""

    name, noise = "heads", 0.0

    def heads(self):
        return [mf.Head(V=MATRIX)]


RATE = Schedule(TIMES, [0.5, 1.0, -0.3, 0.2])
TURN = np.array([[0.7, -0.3, 0.1], [0.4, 0.9, 0.0], [0.0, -0.5, 0.3]])


class Drift:
    """X = r(t) P_x W x, whose flow is that of W for the time ∫ r dt."""

    name, noise, reads_measure = "drift", 0.0, False

    def output(self, measure, points, t):
        return RATE(t) * points @ TURN[: points.shape[1], : points.shape[1]].T

    def divergence(self, measure, points, *, t):
        d = points.shape[1]
        along = np.einsum("ij,jk,ik->i", points, TURN[:d, :d], points)
        return RATE(t) * (np.trace(TURN[:d, :d]) - d * along)


def test_own_heads_may_have_weights_in_time():
    inside = mf.Attention(1.0, [mf.Head(V=MATRIX)])
    for own, then in ((Heads(), inside), (Heads() + mf.SA(1.0), inside + mf.SA(1.0))):
        velocities = [adapt(one).velocity(TOKENS, np.eye(3), t=0.7) for one in (own, then)]
        assert np.array_equal(*velocities)
        ends = [mf.evolve(TOKENS, one, 0.7, 1).final.points for one in (own, then)]
        assert np.array_equal(*ends)
    # a sum of the user's own tells the time on as it is, too
    whole = Heads() + mf.SA(1.0)
    assert np.array_equal(whole.velocity(TOKENS, np.eye(3), t=0.7), velocities[0])


def test_an_own_output_gets_the_time():
    dim, t_end = 2, 0.7
    starts = np.array([[1.0, 0.0], [0.6, -0.8], [0.0, 1.0]])
    rate = RATE._spline.integrate(0.0, t_end)
    there = starts @ expm(rate * TURN[:dim, :dim]).T
    there /= np.linalg.norm(there, axis=1, keepdims=True)
    tokens = mf.evolve(mf.Particles(starts), Drift(), t_end, 1, rtol=1e-12, atol=1e-13)
    assert np.abs(tokens.final.points - there).max() < 1e-11
    assert "energy" not in tokens.dataset
    with pytest.raises(ValueError, match="it varies in time"):
        mf.energy(mf.Particles(starts), Drift(), t=0.3)


@pytest.mark.parametrize("others", [[], [mf.SA(1.0)], [mf.SA(BETA)]])
def test_densities_under_an_own_output_in_time_are_those_of_flow_maps(others):
    dynamics, x = sum([Drift(), *others], mf.SA(0.0)), np.array([[0.6, 0.8], [-1.0, 0.0]])
    density = mf.evolve(mf.Density(mf.Circle(64), LAW), dynamics, 0.7, [0.4], rtol=1e-11)
    flow = mf.evolve(mf.FlowMap(LAW, tol=1e-10), dynamics, 0.7, [0.4])
    for t in (0.4, 0.5, 0.7):
        assert np.abs(density.pdf(x, t) - flow.pdf(x, t)).max() < 1e-8
    here = dynamics.velocity(flow.final, x, t=0.5)
    assert np.abs(here - adapt(dynamics).at(0.5).velocity(flow.final, x)).max() < 1e-14


def test_own_terms_beside_weights_in_time_are_tried_before_a_run():
    class Wrong(Drift):
        def divergence(self, measure, points, *, t):
            return np.full(len(points), 7.0)

    for dynamics in (Wrong(), Wrong() + mf.SA(1.0), Wrong() + mf.SA(BETA)):
        with pytest.raises(ValueError, match=r"divergence of .* must be that of P_x output"):
            mf.evolve(mf.FlowMap(LAW), dynamics, 0.1)


class Late(Drift):
    """A drift that is known from t = 1 on."""

    def output(self, measure, points, t):
        assert t >= 1.0
        return points @ TURN[: points.shape[1], : points.shape[1]].T / t


@pytest.mark.parametrize(
    "measure", [mf.Density(mf.Circle(32), LAW), mf.Particles(np.eye(2)), mf.FlowMap(LAW)]
)
def test_an_own_output_is_asked_from_the_start_of_the_run_on(measure):
    class Known(Late):
        def divergence(self, measure, points, *, t):
            assert t >= 1.0
            return super().divergence(measure, points, t=0.0) / (RATE(0.0) * t)

    for dynamics in (Known(), Known() + mf.SA(1.0)):
        assert mf.evolve(measure, dynamics, 1.2, 1, t_start=1.0).success
    function = mf.SA(lambda t: 1.0 / t)
    assert mf.evolve(measure, function, 1.2, 1, t_start=1.0).success


def test_layers_refuse_what_varies_in_time():
    for layer in (mf.SA(BETA), Heads(), Drift(), Drift() + mf.SA(1.0)):
        with pytest.raises(ValueError, match="layers must not vary in time, since"):
            mf.Layers([mf.SA(1.0), layer])
        with pytest.raises(ValueError, match="LayerMap must not vary in time, since"):
            mf.LayerMap(layer, step=0.1)


def test_its_pieces_end_at_knots_and_at_the_end_itself():
    known = adapt(mf.SA(BETA))
    assert [end for _, end in known.between(0.1, 1.5)] == [0.4, 1.0, 1.5]
    assert [end for _, end in known.between(0.4, 1.0 + 1e-12)] == [1.0 + 1e-12]
    assert known.depth == 2.0
