"""Flow maps on a line under attention with matrices, feed-forward layers and `Layers`."""

from functools import partial

import numpy as np
import pytest

import meanfield as mf
from meanfield.equations.line import HeadsOnLine
from meanfield.equations.tendency import tendency
from meanfield.kernels import direct
from meanfield.kernels.line import Interpolation
from meanfield.spaces.geometry import circle_points
from tests.handmade import slow

LAW = mf.Mixture([mf.VonMisesFisher([1.0, 0.0], 2.0), mf.VonMisesFisher([-0.6, 0.8], 5.0)])
AXIS = np.array([2.0, -1.0, 2.0]) / 3.0
ZONAL = mf.VonMisesFisher(AXIS, 3.0)


def around(n):
    return 2 * np.pi * np.arange(n) / n


def heads(seed, dim=2, count=2, size=1.0):
    rng = np.random.default_rng(seed)
    return [mf.Head(*(size * rng.normal(size=(3, dim, dim)))) for _ in range(count)]


def perceptron(seed, activation="tanh", dim=2, width=5):
    rng = np.random.default_rng(seed)
    outer, inner = rng.normal(size=(dim, width)), rng.normal(size=(width, dim))
    return mf.FeedForward(outer, inner, rng.normal(size=width), activation=activation)


def axial_heads(seed, dim, axis):
    """Heads that are symmetric about an axis, in d = 3 with a turn about it."""
    rng = np.random.default_rng(seed)

    def matrix():
        about = rng.normal() * np.eye(dim) + rng.normal() * np.outer(axis, axis)
        if dim == 3:
            about = about + rng.normal() * np.cross(axis, np.eye(3)).T
        return about

    return [mf.Head(matrix(), matrix(), matrix()) for _ in range(2)]


ATTENTION = mf.Attention(1.0, heads(0))
TANH = perceptron(1)


# ---------------------------------------------------------------- the field


@pytest.mark.slow
def test_velocity_far_from_all_mass_keeps_its_digits():
    """G is e^{-2|M|} = 1e-35 of its maximum opposite to a narrow law."""
    matrix = np.array([[40.0, 5.0], [-5.0, 30.0]])
    dynamics = mf.Attention(1.0, [mf.Head(Q=matrix)])
    flow = mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], 200.0)).resolve(45.0)
    angles = around(64) + 0.01
    field = HeadsOnLine(dynamics, 2, None, dynamics.reach)
    charges = Interpolation(field.line, flow.angles).gather(flow.weights)
    velocity = field.from_charges(charges, angles).velocity
    tangents = np.column_stack([-np.sin(angles), np.cos(angles)])
    expected = np.einsum("ij,ij->i", dynamics.velocity(flow, at=circle_points(angles)), tangents)
    assert np.abs(velocity - expected).max() < 1e-12


def test_terms_share_what_is_gathered(monkeypatch):
    """The masses are gathered once for all terms, m u of each term that scales them once more."""
    sizes = []
    gather = Interpolation.gather

    def counted(self, masses):
        sizes.append(len(masses))
        return gather(self, masses)

    flow = mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], 4.0)).resolve(45.0)
    terms = mf.SA(1.0) + mf.SA(30.0) + mf.DoublyStochastic(2.0) + TANH + mf.USA(3.0)
    rate = tendency(flow, terms)
    state, out = rate.initial_state, np.empty_like(rate.initial_state)
    rate(state, out)
    monkeypatch.setattr(Interpolation, "gather", counted)
    # the scaling has sums of its own
    sources = rate._sources(state)
    monkeypatch.setattr(rate, "_sources", lambda _: sources)
    sizes.clear()
    rate(state, out)
    # coarser cells take their charges from the nodes of the finest
    assert sizes.count(len(flow.angles)) == 2
    assert sizes.count(rate.field.line.size) == len(sizes) - 2 == 3
    assert rate.charges(state).size == 2 * rate.field.line.size


def test_far_nodes_come_in_blocks(monkeypatch):
    """Where G is small pairs of nodes are compared, a row at a time where there are many."""
    flow = mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], 200.0))
    rate = tendency(flow.resolve(150.0), mf.SA(150.0))
    whole, rows = np.empty_like(rate.initial_state), np.empty_like(rate.initial_state)
    rate(rate.initial_state, whole)
    monkeypatch.setattr(direct, "blocks", partial(direct.blocks, most=1))
    rate(rate.initial_state, rows)
    assert np.isfinite(whole).all()
    # a product with one row is summed in another order
    np.testing.assert_allclose(rows, whole, rtol=1e-12, atol=1e-13)


def test_far_nodes_move_as_positive_sums_tell():
    """X against sums over all nodes, div X against differences, where G is tiny."""
    flow = mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], 200.0)).resolve(150.0)
    for dynamics in mf.SA(150.0), mf.SA(150.0, sign=-1):
        rate = tendency(flow, dynamics)
        out = np.empty_like(rate.initial_state)
        rate(rate.initial_state, out)
        count = len(flow.angles)

        def speed(angles, dynamics=dynamics):
            at = np.column_stack([np.cos(angles), np.sin(angles)])
            along = np.column_stack([-np.sin(angles), np.cos(angles)])
            return np.sum(dynamics.velocity(flow, at) * along, axis=1)

        np.testing.assert_allclose(out[:count], speed(flow.angles), atol=1e-9)
        slope = (speed(flow.angles + 1e-6) - speed(flow.angles - 1e-6)) / 2e-6
        np.testing.assert_allclose(out[count:], slope, atol=1e-6 * np.abs(slope).max())


# ---------------------------------------------------------------- runs


DYNAMICS = {
    "attention": ATTENTION,
    "unnormalised": mf.Attention(0.5, heads(2), normalised=False),
    "tanh": TANH,
    "gelu": perceptron(7, "gelu"),
    "layers": mf.Layers([ATTENTION, TANH, mf.SA(1.0), mf.USA(0.5, sign=-1)], step=0.125),
}


def test_given_tokens_move_one_by_one():
    angles = np.array([0.3, 1.1, 4.0])
    cloud = mf.PointCloud(circle_points(angles))
    dynamics = DYNAMICS["layers"]
    flow = mf.evolve(mf.FlowMap(cloud), dynamics, 0.5, 1).final
    tokens = mf.evolve(
        mf.Particles(circle_points(angles)), dynamics, 0.5, 1, rtol=1e-12, atol=1e-14
    ).final
    assert np.abs(flow.atoms.centres - tokens.points).max() < 1e-10


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("dim", [2, 6])
def test_a_feed_forward_layer_of_one_direction_has_a_closed_form(activation, dim):
    """X = P_x e c: tan(θ/2) falls like e^{-ct}."""
    axis = np.eye(dim)[0]
    drift = mf.FeedForward(axis[:, None], np.zeros((1, dim)), [0.7], activation=activation)
    c = np.tanh(0.7) if activation == "tanh" else 0.7
    law = mf.FourierSeries(cos=[0.3], sin=[0.4]) if dim == 2 else mf.ZonalSeries(dim, [0.5], axis)
    sol = mf.evolve(mf.FlowMap(law), drift, 1.0, 1)
    angles = np.linspace(-3.0, 3.0, 40)
    feet = 2 * np.arctan(np.tan(angles / 2) * np.exp(c))
    slope = np.exp(c) / (np.cos(angles / 2) ** 2 + np.exp(2 * c) * np.sin(angles / 2) ** 2)
    slope *= (np.sin(feet) / np.sin(angles)) ** (dim - 2)
    points, from_where = (
        np.pad(circle_points(each), ((0, 0), (0, dim - 2))) for each in (angles, feet)
    )
    tol = 1e-10 if activation == "tanh" else 1e-5
    assert np.abs(sol.pdf(points, 1.0) - law.pdf(from_where) * slope).max() < tol


def test_relu_leaves_a_kink_in_the_density():
    """Half of the circle moves; the density jumps in slope where it begins to."""
    drift = mf.FeedForward([[0.0], [1.0]], [[1.0, 0.0]], activation="relu")
    sol = mf.evolve(mf.FlowMap(mf.Uniform(2)), drift, 0.5, 1)
    # on the left nothing moves
    assert sol.pdf(circle_points(np.array([2.0, 3.0, 4.0])), 0.5) == pytest.approx(1.0, abs=1e-12)
    # on the right θ' = cos² θ: tan θ grows by t
    angles = np.linspace(-1.4, 1.4, 15)
    feet = np.arctan(np.tan(angles) - 0.5)
    expected = (np.cos(feet) / np.cos(angles)) ** 2
    assert np.abs(sol.pdf(circle_points(angles), 0.5) - expected).max() < 1e-5
    assert sol.final.tol == 1e-7


# ---------------------------------------------------------------- layers


@pytest.mark.parametrize("law", [LAW, ZONAL], ids=["circle", "axis"])
def test_layers_are_one_run_after_another(law):
    if law is LAW:
        parts = [ATTENTION, TANH, mf.SA(2.0)]
    else:
        ahead = mf.FeedForward(AXIS[:, None], AXIS[None], activation="gelu")
        parts = [mf.Attention(1.0, axial_heads(1, 3, AXIS)), ahead, mf.USA(1.0, sign=-1)]
    whole = mf.evolve(mf.FlowMap(law), mf.Layers(parts, step=0.2), 0.5, 1)
    flow = mf.FlowMap(law)
    for part, span in zip(parts, (0.2, 0.2, 0.1), strict=True):
        flow = mf.evolve(flow, part, span, 1).final
    assert np.abs(whole.final.mean() - flow.mean()).max() < 3e-12
    assert whole.final.entropy() == pytest.approx(flow.entropy(), abs=1e-9)
    # inside a layer, at its border and behind it characteristics meet the nodes
    for t in 0.1, 0.2, 0.45:
        here = mf.evolve(mf.FlowMap(law), mf.Layers(parts, step=0.2), t, 1).final
        held = here.weights > 1e-4
        density = whole.pdf(here.points[held], t)
        assert np.abs(density / np.exp(here.log_density[held]) - 1).max() < 1e-9


@pytest.mark.parametrize(
    "dynamics", [DYNAMICS["layers"], slow(ATTENTION)], ids=["layers", "attention"]
)
def test_a_saved_run_knows_its_density(tmp_path, dynamics):
    sol = mf.evolve(mf.FlowMap(LAW), dynamics, 0.5, 2)
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    points = circle_points(around(16))
    for t in 0.1, 0.125, 0.5:
        assert np.array_equal(sol.pdf(points, t), again.pdf(points, t))
    assert np.array_equal(again.final.points, sol.final.points)
    assert set(again.dataset) == set(sol.dataset)


@pytest.mark.slow
def test_nothing_is_held_as_an_atom():
    """A layer gathers all to within 1e-9 rad, the next parts it again: the density is not lost."""
    gather = mf.FeedForward([[1.0], [0.0]], [[0.0, 0.0]], [1.0])
    part = mf.FeedForward([[-1.0], [0.0]], [[0.0, 0.0]], [1.0])
    law = mf.VonMisesFisher([1.0, 0.0], 4.0)
    sol = mf.evolve(mf.FlowMap(law), mf.Layers([gather, part], step=20.0), 40.0, 2)
    assert len(sol.measures[1].atoms) == 0
    # angles are kept to some 1e-12, which the way back multiplies by e^20 = 5e8: that much the mean
    # and the entropy are off, though for some sizes of steps a hundred times less
    assert np.abs(sol.final.mean() - mf.FlowMap(law).mean()).max() < 5e-4
    assert sol.final.entropy() == pytest.approx(mf.FlowMap(law).entropy(), abs=5e-4)


# ---------------------------------------------------------------- about an axis


def test_what_turns_about_the_axis_moves_no_latitude():
    about = np.cross(AXIS, np.eye(3)).T
    still = mf.evolve(mf.FlowMap(ZONAL), mf.Attention(1.0, [mf.Head(V=about)]), 1.0, 1)
    assert np.abs(still.final.angles - still.final._labels).max() < 1e-14
    # turned queries and values turn back
    turn = np.cos(0.7) * np.eye(3) + np.sin(0.7) * about + (1 - np.cos(0.7)) * np.outer(AXIS, AXIS)
    head = mf.Head(Q=turn, V=turn.T)
    turned = mf.evolve(mf.FlowMap(ZONAL), mf.Attention(2.0, [head]), 0.5, 1).final
    plain = mf.evolve(mf.FlowMap(ZONAL), mf.SA(2.0), 0.5, 1).final
    assert np.abs(turned.mean() - plain.mean()).max() < 3e-12


# ---------------------------------------------------------------- bad input

FLOW = mf.FlowMap(LAW)
# in d = 3 a flow map without symmetry would take over
HIGH = mf.FlowMap(mf.VonMisesFisher([0.0, 0.0, 0.6, 0.8], 3.0))
CROOKED_4 = np.diag([1.0, 2.0, 3.0, 4.0])
BAD = [
    (FLOW, mf.Attention(101.0, [mf.Head(np.eye(2))]), r"beta \|KᵀQ\| must be <= 100"),
    (
        FLOW,
        mf.Layers([mf.SA(1.0), mf.Attention(101.0, [mf.Head(np.eye(2))])]),
        r"beta \|KᵀQ\| must be <= 100 .* got 101",
    ),
    (FLOW, mf.Attention(99.0, [mf.Head()] * 4), "heads must be fewer"),
    (
        HIGH,
        mf.Attention(1.0, [mf.Head(), mf.Head(Q=CROOKED_4)]),
        "KᵀQ of head 1 must be a multiple of the identity along the axis",
    ),
    (HIGH, mf.Attention(1.0, [mf.Head(V=CROOKED_4)]), "V of head 0 must be"),
    (HIGH, perceptron(0, dim=4), "W must be made of multiples of the axis"),
    (
        HIGH,
        mf.Layers([mf.SA(1.0), perceptron(0, dim=4)]),
        "W must be made of multiples of the axis",
    ),
]


@pytest.mark.parametrize(("flow", "dynamics", "message"), BAD)
def test_what_can_not_be_run_is_refused(flow, dynamics, message):
    with pytest.raises(ValueError, match=message):
        mf.evolve(flow, dynamics, 1.0)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("axis", [None, [0.0, 0.0, 0.6, 0.8]])
def test_a_flow_map_keeps_the_balance_of_a_form(normalised, sign, axis):
    """E_{β,D}(t) - E_{β,D}(0) = ± ∫ dissipation, to the flow map's tolerance in time."""
    law = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
    form = np.array([[1.0, 0.3], [0.3, -0.5]])
    if axis is not None:
        law = mf.ZonalSeries(4, [0.5], axis)
        form = 0.5 * np.eye(4) + 0.7 * np.outer(axis, axis)
    head = mf.Head(Q=form, V=sign * form)
    sol = mf.evolve(
        mf.FlowMap(law, axis=axis), mf.Attention(1.5, [head], normalised=normalised), 0.5, 4
    )
    energy, work = sol.dataset.energy.values, sol.dataset.work.values
    assert sign * (energy[-1] - energy[0]) > 1e-3
    np.testing.assert_allclose(energy - energy[0], work, atol=1e-11)
    rate = mf.dissipation(sol.final, sol.dynamics)
    assert sol.dataset.dissipation.values[-1] == pytest.approx(rate, rel=1e-10)
