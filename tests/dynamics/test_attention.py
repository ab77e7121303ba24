"""Heads and feed-forward layers: the field of tokens, any heads on densities, case files."""

import re
from contextlib import nullcontext

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import erf, iv

import meanfield as mf
from meanfield.cli.case import case_from_text
from meanfield.cli.commands import main
from meanfield.equations.density import GridTendency, LostDigitsError
from meanfield.equations.tendency import tendency
from meanfield.evolution import solve
from meanfield.exceptions import UnfinishedWarning
from tests.dynamics.weighted import heads, tokens

SPACES = {
    "circle": lambda: mf.Circle(64),
    "sphere": lambda: mf.Sphere(31),
    "zonal, d = 3": lambda: mf.Zonal(3, 31),
    "zonal, d = 4": lambda: mf.Zonal(4, 31),
    "zonal, d = 8": lambda: mf.Zonal(8, 31),
}
# off the axes, but about the axis of the zonal spaces
PLACES = {2: [0.6, 0.8], 3: [0.48, 0.6, 0.64]}


def density(space, kappa=1.5):
    place = np.eye(space.dim)[-1] if isinstance(space, mf.Zonal) else PLACES[space.dim]
    return mf.Density(space, mf.VonMisesFisher(place, kappa))


def from_series(density):
    """The density that its coefficients are of, which a law may miss by its tail."""
    return mf.Density.from_coefficients(density.space, density.coefficients)


def scored(dim, score):
    """Heads with |KᵀQ| = score and |V| of order 1."""
    rng, made = np.random.default_rng(5), []
    for _ in range(2):
        query, key, value = rng.normal(size=(3, dim, dim)) / np.sqrt(dim)
        query *= score / np.linalg.norm(key.T @ query, 2)
        made.append(mf.Head(query, key, value))
    return made


def velocity(density, dynamics):
    """X on the grid by the right-hand side that a run takes, as vectors (N, d)."""
    rate = GridTendency(density, dynamics)
    frame = rate.field._frame
    components = rate.field(density.coefficients, density.values).velocity
    return np.einsum("cj,cjr,dr->jd", components, frame.tangents, frame.basis)


def gap(density, other):
    return float(np.abs(density.coefficients - other.coefficients).max())


# ----------------------------------------------------------------------------------- on tokens


def by_loops(particles, x, beta, heads, normalised):
    """(2.7) as it stands in the paper, token by token."""
    total = np.zeros_like(x)
    for head in heads:
        scores = [beta * (head.Q @ x) @ (head.K @ y) for y in particles.points]
        shares = particles.weights * np.exp(scores)
        if normalised:
            shares /= shares.sum()
        total += sum(s * head.V @ y for s, y in zip(shares, particles.points, strict=True))
    return total - (total @ x) * x


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize(("dim", "rank"), [(2, 1), (5, 3), (5, 7)])
def test_attention_is_equation_2_7(dim, rank, normalised):
    particles, three = tokens(6, dim), heads(dim, 3, rank)
    field = mf.Attention(0.7, three, normalised=normalised)
    velocities = field.velocity(particles, particles.points)
    for x, velocity in zip(particles.points, velocities, strict=True):
        expected = by_loops(particles, x, 0.7, three, normalised)
        assert np.abs(velocity - expected).max() < 1e-13 * max(1.0, np.abs(expected).max())
    assert np.abs(velocities).max() > 0.1


def test_a_number_times_a_matrix_is_that_multiple():
    rng = np.random.default_rng(4)
    key = rng.normal(size=(3, 3))
    assert np.array_equal(mf.Head(2.0, key).matrix, 2.0 * key.T)
    assert np.array_equal(mf.Head(key, 0.5).matrix, 0.5 * key)
    assert mf.Head(2.0, 3.0).matrix == 6.0
    assert mf.Head().dim is None


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
def test_feed_forward(activation):
    rng = np.random.default_rng(2)
    W, A, b = rng.normal(size=(3, 5)), rng.normal(size=(5, 3)), rng.normal(size=5)
    particles = tokens(4, 3)

    def output(x):
        hidden = A @ x + b
        if activation == "relu":
            return W @ np.where(hidden > 0, hidden, 0.0)
        if activation == "gelu":
            return W @ (hidden * (1 + erf(hidden / 2**0.5)) / 2)
        return W @ ((np.exp(2 * hidden) - 1) / (np.exp(2 * hidden) + 1))

    layer = mf.FeedForward(W, A, b, activation=activation)
    velocity = layer.velocity(particles, particles.points)
    divergence = layer.divergence_at(particles, particles.points)
    for i, x in enumerate(particles.points):
        drift = output(x)
        assert np.abs(velocity[i] - (drift - (drift @ x) * x)).max() < 1e-13
        slopes = [(output(x + h) - output(x - h)) / 2e-4 for h in 1e-4 * np.eye(3)]
        spread = np.trace(slopes) - x @ slopes @ x - 2.0 * (drift @ x)
        # a third derivative times h²/6
        assert divergence[i] == pytest.approx(spread, abs=1e-6)


# ----------------------------------------------------------------------------------- on densities


@pytest.mark.parametrize("normalised", [True, False])
def test_potential_that_vanishes_where_no_mass_is(normalised):
    """The largest <Mx,y> is met nowhere: G is e^{-s} of what its harmonics are made of."""
    mu = from_series(mf.Density(mf.Circle(256), mf.VonMisesFisher([0.0, 1.0], 200.0)))
    dynamics = mf.Attention(40.0, [mf.Head(Q=[[1.0, 0.0]], K=[[1.0, 0.0]])], normalised=normalised)
    expected = dynamics.velocity(mu, at=mu.space.points)
    speeds = velocity(mu, dynamics)
    off = np.abs(speeds - expected).max()
    assert off < (1e-9 * np.abs(expected).max() if normalised else 1e-13 * np.exp(40.0))


def test_potential_far_below_its_largest_about_an_axis():
    """Rounding of f, times an exponential, is more than G where G is small."""
    mu = from_series(mf.Density(mf.Zonal(4, 63), mf.VonMisesFisher(np.eye(4)[-1], 60.0)))
    dynamics = mf.Attention(30.0, [mf.Head()])
    expected = dynamics.velocity(mu, at=mu.space.points)
    assert np.ptp(mu.log_moment(30.0 * mu.space.points)[0]) > 30.0
    assert np.abs(velocity(mu, dynamics) - expected).max() < 1e-9 * np.abs(expected).max()


# -------------------------------------------------------------------------------------- runs


def test_what_a_run_records(tmp_path):
    mu, dynamics = density(mf.Circle(64)), mf.Attention(1.0, scored(2, 2.0))
    for noise, further in ((0.0, set()), (0.1, {"entropy"})):
        moving = mf.Attention(1.0, dynamics.heads, noise=noise)
        sol = mf.evolve(mu, moving, 0.2, 2)
        names = {"mass", "rms_velocity", "min_density", "tail", "size", "steps", "evaluations"}
        assert set(sol.dataset.data_vars) == names | further
        squares = np.sum(moving.velocity(mu, at=mu.space.points) ** 2, axis=1)
        speed = np.sqrt(mu.space.weights @ (squares * mu.values))
        assert abs(float(sol.dataset.rms_velocity[0]) - speed) < 1e-12
        sol.save(tmp_path / "run.nc")
        again = mf.load(tmp_path / "run.nc")
        assert gap(again.final, sol.final) == 0.0
        assert np.array_equal(again.dynamics.heads[1].Q, moving.heads[1].Q)


# ------------------------------------------------------------------------------ what is refused


CIRCLE, SPHERE, ZONAL = (density(SPACES[name]()) for name in ("circle", "sphere", "zonal, d = 4"))
SKEW = np.eye(4) + np.diag([1.0, 0.0, 0.0], 1)
DRIFT = mf.FeedForward(np.eye(4), np.eye(4))
BAD = [
    (
        (ZONAL, mf.Attention(1.0, [mf.Head(), mf.Head(Q=SKEW)])),
        r"KᵀQ of heads\[1\] must commute with rotations about the axis of Zonal.*take Particles",
    ),
    (
        (density(mf.Zonal(3, 31)), mf.Attention(1.0, [mf.Head(V=SKEW[:3, :3])])),
        r"V of heads\[0\] must commute with rotations .*take a Sphere or Particles",
    ),
    ((ZONAL, DRIFT), "dynamics must commute .*take a Sphere"),
    (
        (SPHERE, mf.Attention(130.0, [mf.Head(np.eye(3))])),
        r"beta \|KᵀQ\| must be <= 128 .*dim = 3, got 130: take Particles",
    ),
    (
        (CIRCLE, mf.Attention(11_000.0, [mf.Head(np.eye(2))])),
        r"beta \|KᵀQ\| must be <= 10000 .*got 11000",
    ),
    (
        (density(mf.Zonal(200, 15)), mf.Attention(1e5, [mf.Head(np.eye(200))])),
        r"beta \|KᵀQ\| must be smaller on Zonal.*got 100000",
    ),
    ((CIRCLE, mf.Attention(1.0, scored(3, 1.0))), "measure must have dim = "),
    (
        (CIRCLE, mf.Layers([mf.SA(1.0), mf.Attention(11_000.0, [mf.Head(np.eye(2))])])),
        r"beta \|KᵀQ\| must be <= 10000",
    ),
    ((CIRCLE, mf.Layers([mf.SA(1.0)], step=0.1)), "t_end must be <= 0.1"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_what_no_density_can_be_moved_by_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        mf.evolve(*arguments, 0.5)


@pytest.mark.slow
def test_a_flow_map_takes_over_from_a_density_under_heads():
    """At once where rounding would move the density, else where its space ends."""
    law = mf.VonMisesFisher([1.0, 0.0], 20.0)
    opposite = mf.Attention(15.0, [mf.Head(Q=-1.0)])
    for dynamics, size, t_end in (
        (opposite, 256, 0.02),
        (mf.Attention(4.0, [mf.Head(np.eye(2))]), 64, 1.5),
    ):
        start = mf.Density(mf.Circle(size), law, max_size=size)
        sol = mf.evolve(start, dynamics, t_end, 2, on_unresolved="flow-map")
        moved = mf.evolve(mf.FlowMap(law), dynamics, t_end, 2)
        assert sol.status == "finished"
        assert "a flow map took over" in sol.message
        np.testing.assert_allclose(sol.final.mean(), moved.final.mean(), atol=1e-11)
    layers = mf.Layers([mf.DoublyStochastic(1.0)])
    with pytest.raises(ValueError, match="layers must be no DoublyStochastic for a flow map"):
        mf.evolve(CIRCLE, layers, 0.5, on_unresolved="flow-map")


# --------------------------------------------------------------------------------------- case files


CASE = """
law = {type = "VonMisesFisher", mean = [0.6, 0.8], kappa = 1}
measure = {type = "Density", space = {type = "Circle", n = 64}}
run = {t_end = 0.1, save_at = 1}
[dynamics]
type = "Attention"
beta = 2
heads = [{ Q = [[1, 0], [0, 2.0]], V = -1 }, { K = 0.5 }]
normalised = false
"""


def test_case_with_heads(capsys, tmp_path, undrawn):
    measure, dynamics, keywords = case_from_text(CASE, "a.toml").build()
    assert np.array_equal(dynamics.heads[0].Q, [[1.0, 0.0], [0.0, 2.0]])
    assert (dynamics.heads[0].V, dynamics.heads[1].K, dynamics.normalised) == (-1.0, 0.5, False)
    assert "on_unresolved" not in keywords
    heads_of_it = [mf.Head(Q=np.diag([1.0, 2.0]), V=-1.0), mf.Head(K=0.5)]
    expected = mf.evolve(measure, mf.Attention(2.0, heads_of_it, normalised=False), 0.1, 1)
    assert gap(solve(measure, dynamics, **keywords).final, expected.final) == 0.0
    (tmp_path / "a.toml").write_text(CASE + f'[output]\nfile = "{tmp_path / "a.nc"}"\n')
    assert main(["run", str(tmp_path / "a.toml")]) == 0
    assert "rms_velocity" in capsys.readouterr().out


@pytest.mark.parametrize("normalised", [True, False])
def test_heads_that_look_at_rounding_end_the_run(normalised):
    """Negative scores opposite to a concentrated mass: 1e-16 of f counts e^{2β} times."""
    law = mf.VonMisesFisher([1.0, 0.0], 20.0)
    start = mf.Density(mf.Circle(256), law)
    for beta, ending in (5.0, "finished"), (15.0, "under-resolved"):
        head = mf.Attention(beta, [mf.Head(Q=-1.0)], normalised=normalised)
        t_end = 0.02 if normalised else 1e-3 * np.exp(-beta)
        is_good = ending == "finished"
        warned = nullcontext() if is_good else pytest.warns(UnfinishedWarning)
        with warned:
            sol = mf.evolve(start, head, t_end, 1, on_unresolved="stop")
        assert sol.status == ending
        if is_good:
            moved = mf.evolve(mf.FlowMap(law), head, t_end, 1).final.mean()
            np.testing.assert_allclose(sol.final.mean(), moved, atol=1e-12)
        else:
            assert re.search(
                "rounding of f, 2e-16 .* take a FlowMap or Particles, or try `on_unres", sol.message
            )
            assert sol.t.tolist() == [0.0]


@pytest.mark.parametrize(
    ("query", "status"), [(np.diag([1.0, 0.0]), "under-resolved"), (-1.0, "finished")]
)
def test_scores_that_leave_double_precision_are_no_warning(query, status):
    """G underflows where there is mass: X is not known there; a flow map is refused in words."""
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[1.0]))
    sol = solve(mu, mf.Attention(1e4, [mf.Head(Q=query)]), 1e-3, 1)
    assert sol.status == status


@pytest.mark.parametrize("normalised", [True, False])
def test_fields_of_which_rounding_makes_a_billionth_are_refused(normalised):
    """f = e^{κ cos θ}/I_0(κ) and a head of score -β, which sees rounding of f as uniform mass.

    Rounding moves f X by its share I_0(β)/G of |V|; without softmax it is compared with the largest
    f X.
    """
    kappa, circle = 20.0, mf.Circle(256)
    law, angles = mf.VonMisesFisher([1.0, 0.0], kappa), np.linspace(0.0, 2.0 * np.pi, 4001)
    density = np.exp(kappa * np.cos(angles)) / iv(0, kappa)

    def share(beta):
        apart = np.sqrt(kappa**2 + beta**2 - 2.0 * kappa * beta * np.cos(angles))
        potential, uniform = iv(0, apart) / iv(0, kappa), iv(0, beta)
        if normalised:
            return 2e-16 * np.max(density * uniform / potential)
        return 2e-16 * density.max() ** 2 * uniform / np.max(density * potential)

    for wanted in 0.5e-9, 2e-9:
        beta = brentq(lambda b, s=wanted: np.log(share(b) / s), 1.0, 20.0)
        head = mf.Attention(beta, [mf.Head(Q=-1.0)], normalised=normalised)
        rate = tendency(mf.Density(circle, law), head)
        with pytest.raises(LostDigitsError) if wanted > 1e-9 else nullcontext():
            rate(rate.initial_state, np.empty_like(rate.initial_state))


# ------------------------------------------------------------------------- heads of numbers


NUMBERS = [
    (mf.Attention(2.0, [mf.Head()]), mf.SA(2.0)),
    (
        mf.Attention(2.0, [mf.Head(Q=-1.0, K=-1.5, V=-1.0)], noise=0.1),
        mf.SA(3.0, sign=-1, noise=0.1),
    ),
    (mf.Attention(0.5, [mf.Head(K=4.0)], normalised=False), mf.USA(2.0)),
]


@pytest.mark.parametrize(("attention", "plain"), NUMBERS, ids=str)
@pytest.mark.parametrize("space", [mf.Circle(48), mf.Sphere(23), mf.Zonal(5, 31)], ids=str)
def test_one_head_of_numbers_runs_as_sa_and_usa(space, attention, plain):
    """To the bit, by the same sums; the dynamics of the solution is the one that was given."""
    start = mf.Density(space, mf.VonMisesFisher(np.eye(space.dim)[-1], 1.0))
    own, known = (mf.evolve(start, dynamics, 0.2, 1) for dynamics in (attention, plain))
    np.testing.assert_array_equal(own.final.coefficients, known.final.coefficients)
    assert own.dynamics == attention
    assert set(own.dataset) == set(known.dataset)


def test_other_heads_do_not():
    """More heads, matrices, a negative KᵀQ, or a V that is not ±1."""
    for other in (
        [mf.Head()] * 2,
        [mf.Head(np.eye(2))],
        [mf.Head(Q=-1.0)],
        [mf.Head(V=0.5)],
        [mf.Head(V=np.eye(2))],
    ):
        dynamics = mf.Attention(1.0, other)
        assert dynamics.simplest is dynamics
