"""Sums over tokens in O(n) against sums over all pairs."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield.equations.tendency import tendency
from meanfield.kernels import direct
from meanfield.kernels.harmonics import SphereScoreSums, SphereSums
from meanfield.kernels.kernel import Exponential
from meanfield.kernels.line import CircleLine, LineSums
from meanfield.kernels.token_sums import (
    CircleScoreSums,
    CircleSums,
    FourierSums,
    fewest_pairs,
    fewest_score_pairs,
    kernel_sums,
)
from tests.handmade import slow

BETAS = [0.0, 0.1, 1.0, 9.0, 25.0, 100.0]


def cloud(dim, n, seed=0):
    """A bump, with some tokens at the poles, some at one place, and masses over three decades."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, dim))
    points[:, 0] += 3.0
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[0], points[1], points[2] = np.eye(dim)[-1], -np.eye(dim)[-1], np.eye(dim)[-1]
    points[3] = points[4]
    masses = 10.0 ** rng.uniform(-3, 0, size=n)
    return points, masses / masses.sum()


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1), beta=st.sampled_from(BETAS), dim=st.sampled_from([2, 3]))
def test_rotation_and_permutation(seed, beta, dim):
    points, masses = cloud(dim, n=60, seed=seed)
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    order = rng.permutation(len(points))
    dynamics = mf.SA(beta)

    def velocity(x, w):
        return dynamics.velocity(mf.Particles(x, w, sums="transforms", unit_mass=True), x)

    plain = velocity(points, masses)
    assert np.abs(velocity(points @ turn.T, masses) - plain @ turn.T).max() < 1e-12
    assert np.abs(velocity(points[order], masses[order]) - plain[order]).max() < 1e-12


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("beta", [0.0, 9.0, 25.0, 100.0])
def test_sums_change_at_the_crossover(dim, beta):
    """Pairs of fast sums are counted, no time is taken: one token less, and all are direct."""
    law, rng = mf.Uniform(dim), np.random.default_rng(0)
    n = int(np.ceil(fewest_pairs(beta, dim) ** 0.5))
    for count, way in ((n, "transforms"), (n - 1, "direct")):
        tokens = mf.Particles.sample(law, count, rng)
        assert tendency(tokens, mf.SA(beta)).sums == way
        assert (tokens.kernel_sums(Exponential(beta)) is None) == (way == "direct")
    tokens = mf.Particles.sample(law, 100, rng)
    targets = int(np.ceil(fewest_pairs(beta, dim, once=True) / 100))
    places = beta * tokens.points[np.arange(targets) % 100]
    if beta > 0.0:
        assert tokens.sums_at(places) is not None
    assert tokens.sums_at(places[1:]) is None


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_crossovers_grow_with_the_tables(dim):
    """There is one exactly where there are fast sums; it grows with β, and with tables for once."""
    grid = [0.0, 0.5, 4.0, 25.0, 100.0, 101.0]
    runs = [fewest_pairs(beta, dim) for beta in grid]
    assert runs == sorted(runs)
    assert [n < np.inf for n in runs] == [
        kernel_sums(Exponential(beta), dim) is not None for beta in grid
    ]
    assert all(fewest_pairs(beta, dim, once=True) >= n for beta, n in zip(grid, runs, strict=True))
    scores = [fewest_score_pairs(size * np.eye(dim)) for size in grid]
    assert scores == sorted(scores)
    for size, n, kernel in list(zip(grid, scores, runs, strict=True))[:3]:
        assert fewest_score_pairs(size * np.eye(dim), once=True) >= n
        # tables between all cells, or all harmonics
        assert n >= kernel


def test_there_are_no_sums_beyond_the_largest_beta():
    assert fewest_pairs(1e4, 3) < fewest_pairs(1.1e4, 3) == np.inf


def test_what_is_chosen():
    rng = np.random.default_rng(0)
    uniform = {dim: mf.Uniform(dim) for dim in (2, 3, 4, 64)}

    def chosen(dim, n, way="auto", dynamics=None):
        particles = mf.Particles.sample(uniform[dim], n, rng, sums=way)
        return tendency(particles, dynamics or mf.SA(1.0)).sums

    assert chosen(2, 100) == chosen(3, 100) == chosen(4, 1000) == "direct"
    assert chosen(2, 1000) == chosen(3, 1000) == "transforms"
    assert chosen(2, 10, "transforms") == chosen(3, 10, "transforms") == "transforms"
    assert chosen(2, 1000, "direct") == "direct"
    assert chosen(64, 16) == "gram"
    assert chosen(64, 17) == "direct"
    assert chosen(4, 9, "gram") == "gram"
    # no cells on the circle beyond β = 100
    assert chosen(2, 1000, dynamics=mf.SA(101.0)) == "direct"
    assert chosen(3, 2000, dynamics=mf.SA(101.0)) == "transforms"
    # nor beyond β |KᵀQ| = 100
    head, wide = mf.Head(), mf.Head(Q=np.diag([1.0, 101.0]))
    turned = mf.Head(K=[[0.0, -1.0], [1.0, 0.0]], V=2.0)
    assert chosen(2, 1000, dynamics=mf.Attention(1.0, [head])) == "transforms"
    assert chosen(2, 1000, dynamics=mf.Attention(1.0, [head, turned])) == "transforms"
    assert chosen(2, 1000, dynamics=mf.Attention(1.0, [wide])) == "direct"
    assert chosen(2, 1000, dynamics=mf.Attention(1.0, [head, wide])) == "direct and transforms"
    assert chosen(2, 100, dynamics=mf.Attention(1.0, [head])) == "direct"
    assert chosen(2, 1000, dynamics=mf.FeedForward(np.eye(2), np.eye(2))) == "none"
    assert chosen(2, 1000, "direct", mf.Attention(1.0, [head])) == "direct"
    assert kernel_sums(Exponential(1e5), 3) is None


@pytest.mark.parametrize("dynamics", [mf.SA(1.0), mf.Attention(1.0, [mf.Head(V=0.5)])], ids=str)
def test_what_is_said_is_what_is_done(dynamics, monkeypatch):
    """The transforms are asked for, at every evaluation, where `sums` says so, and else not."""
    calls = []
    for kind in LineSums, SphereSums, CircleSums, CircleScoreSums, SphereScoreSums:
        for name in "__call__", "log_moment", "log_moments", "pull_of_others":
            if plain := vars(kind).get(name):

                def counted(self, *args, plain=plain, **options):
                    calls.append(type(self))
                    return plain(self, *args, **options)

                monkeypatch.setattr(kind, name, counted)
    for dim, way in [(2, "transforms"), (3, "transforms"), (4, "transforms"), (3, "direct")]:
        particles = mf.Particles(np.eye(dim), sums=way)
        rate = tendency(particles, dynamics)
        rate(rate.initial_state, np.empty_like(rate.initial_state))
        assert bool(calls) == (rate.sums == "transforms") == (way == "transforms" and dim < 4)
        calls.clear()


@pytest.mark.parametrize(
    ("dim", "dynamics"),
    [
        (2, mf.SA(101.0)),
        (4, mf.SA(1.0)),
        (3, mf.Attention(1.0, [mf.Head(Q=np.diag([1.0, 2.0, 130.0]))])),
        (3, mf.FeedForward(np.eye(3), np.eye(3))),
        (2, mf.Layers([mf.SA(1.0), mf.SA(101.0)], step=0.5)),
    ],
    ids=str,
)
def test_elsewhere_transforms_are_direct_sums(dim, dynamics):
    points = np.random.default_rng(0).normal(size=(5, dim))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    ways = "transforms", "direct"
    one, other = (mf.evolve(mf.Particles(points, sums=way), dynamics, 1.0, 2) for way in ways)
    assert other.status == "finished"
    # angles and points are stepped with a tolerance of 1e-9 each
    assert np.abs(one.final.points - other.final.points).max() < 1e-8
    said = (
        "direct and transforms" if isinstance(dynamics, mf.Layers) else other.dataset.attrs["sums"]
    )
    assert one.dataset.attrs["sums"] == said


@pytest.mark.parametrize(
    "dynamics",
    [
        mf.Attention(1.0, [mf.Head(np.eye(3))]),
        mf.FeedForward(np.eye(3), np.eye(3)),
        mf.Layers([mf.SA(1.0), mf.FeedForward(np.eye(3), np.eye(3))]),
        mf.SA(1.0, noise=0.1),
    ],
    ids=str,
)
def test_gram_matrix_that_can_not_move_tokens(dynamics):
    particles = mf.Particles(np.eye(3), sums="gram")
    rng = np.random.default_rng(0) if dynamics.noise else None
    with pytest.raises(ValueError, match=r"sums must be 'auto', 'direct' or 'transforms' .*'gram'"):
        mf.evolve(particles, dynamics, 1.0, rng=rng)


@pytest.mark.slow
def test_tables_of_sums_are_made_once_for_a_run_and_each_layer(monkeypatch):
    """They take longer than steps, and do not depend on where tokens are."""
    made = []
    for kind in CircleScoreSums, SphereScoreSums:
        plain = kind.__init__

        def noted(self, matrices, plain=plain):
            made.append(type(self))
            plain(self, matrices)

        monkeypatch.setattr(kind, "__init__", noted)
    heads = [mf.Attention(1.0, [mf.Head(Q=np.diag([1.0, scale, 1.0]))]) for scale in (2.0, 3.0)]
    tokens = mf.Particles(np.eye(3), sums="transforms")
    for dynamics, layers in (heads[0], 1), (mf.Layers([*heads, heads[1]], step=0.1), 2):
        for moving in dynamics, mf.LayerMap(dynamics, step=0.1):
            made.clear()
            mf.evolve(tokens, moving, 0.3, 3)
            assert made == [SphereScoreSums] * layers


@pytest.mark.parametrize("dim", [2, 3])
def test_scaled_attention_makes_its_tables_once_for_a_run(dim, monkeypatch):
    made, kind = [], {2: CircleLine, 3: SphereSums}[dim]
    plain = kind.__init__

    def noted(self, *given):
        made.append(type(self))
        plain(self, *given)

    monkeypatch.setattr(kind, "__init__", noted)
    tokens = mf.Particles.quantise(mf.VonMisesFisher(np.eye(dim)[0], 1.0), 12, sums="transforms")
    run = mf.evolve(tokens, mf.DoublyStochastic(2.0), 0.2, 3)
    assert run.dataset.evaluations[-1] > 20
    # at a save the energy is that of a measure by itself
    assert made.count(kind) == 1 + len(run)


def test_layers_tell_all_of_their_sums():
    points = np.random.default_rng(0).normal(size=(800, 2))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    layers = mf.Layers([mf.FeedForward(np.eye(2), np.eye(2)), mf.SA(1.0), mf.SA(101.0)], step=1e-3)
    for moving in layers, mf.LayerMap(layers, step=layers.step):
        for n, said in (800, "direct and transforms"), (8, "direct"):
            run = mf.evolve(mf.Particles(points[:n]), moving, layers.depth, 1)
            assert run.dataset.attrs["sums"] == said
    alone = mf.evolve(mf.Particles(points[:8]), layers.layers[0], 1.0, 1)
    assert alone.dataset.attrs["sums"] == "none"


@pytest.mark.parametrize("sums", [slow("auto"), slow("direct"), slow("transforms"), "gram"])
def test_files_keep_how_tokens_are_summed(sums, tmp_path):
    run = mf.evolve(mf.Particles(np.eye(3), sums=sums), mf.SA(1.0), 1.0, 2)
    run.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    assert {measure.sums for measure in again.measures} == {sums}
    assert again.dataset.attrs == run.dataset.attrs
    again.save(tmp_path / "again.nc")
    assert mf.load(tmp_path / "again.nc").final.sums == sums


def test_no_such_sums():
    with pytest.raises(ValueError, match=r"sums must be one of .* got 'fast'"):
        mf.Particles(np.eye(2), sums="fast")


def sharp(t):
    return 1.0 / (1.0 + (80.0 * t) ** 2)


def sharp_slope(t):
    return -12800.0 * t / (1.0 + (80.0 * t) ** 2) ** 2


def steep(t):
    return np.exp(8.0 * t)


def steep_slope(t):
    return 8.0 * np.exp(8.0 * t)


KERNELS = {
    "square": [1.0, 1.0, 0.25],
    "two signs": [0.0, 1.0, 0.0, -2.0],
    "long": [0.9**j for j in range(60)],
    "function": (steep, steep_slope),
}


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("spread", [0.0, 50.0])
@pytest.mark.parametrize("name", KERNELS)
def test_any_kernel_through_its_multipliers_against_all_pairs(name, spread, dim):
    """At tokens and elsewhere: velocity, what layers add, energy; small potentials, too."""
    law, rng = mf.VonMisesFisher(np.eye(dim)[0], spread), np.random.default_rng(0)
    tokens = mf.Particles.sample(law, 400, rng, sums="transforms")
    pairs = mf.Particles(tokens.points, sums="direct")
    others = mf.Uniform(dim).sample(100, np.random.default_rng(1))
    for normalised in (False, True) if name in ("square", "function") else (False,):
        dynamics = mf.Interaction(KERNELS[name], normalised=normalised)
        kernel = dynamics.kernel
        assert tokens.series_sums(kernel, 400) is not None
        scale = 1.0 if normalised else kernel.largest
        # rounding of the largest term
        for at, asked in product((tokens.points, others), (dynamics.velocity, dynamics.output)):
            assert np.abs(asked(tokens, at) - asked(pairs, at)).max() < 1e-12 * scale
        largest = max(map(abs, kernel.energy_bounds()[:2]))
        gap = mf.energy(tokens, dynamics) - mf.energy(pairs, dynamics)
        assert abs(gap) < 1e-12 * largest


@pytest.mark.parametrize("dim", [2, slow(3)])
@pytest.mark.parametrize(
    "dynamics",
    [
        mf.SA(1.0),
        mf.USA(1.0),
        mf.DoublyStochastic(1.0),
        mf.Attention(1.0, [mf.Head(Q=-1.0)]),
        slow(mf.Interaction(KERNELS["function"])),
        mf.Interaction(KERNELS["square"], normalised=True),
        mf.Layers([mf.DoublyStochastic(1.0), mf.SA(1.0)], step=0.05),
        mf.LayerMap(mf.Interaction(KERNELS["square"]), step=0.05),
        mf.LayerMap(mf.DoublyStochastic(1.0), step=0.05),
    ],
    ids=repr,
)
def test_a_run_of_many_tokens_sums_no_pairs(dynamics, dim, monkeypatch):
    """All terms of sums over pairs are counted, those of saves among them."""
    counted, plain = [], direct.blocks

    def noted(rows, columns, *most):
        counted.append(rows * columns)
        return plain(rows, columns, *most)

    monkeypatch.setattr(direct, "blocks", noted)
    tokens = mf.Particles.sample(mf.Uniform(dim), 2000, np.random.default_rng(0))
    mf.evolve(tokens, dynamics, 0.1, 2, rtol=1e-4, atol=1e-6)
    dynamics.velocity(tokens, tokens.points[::2])
    if not isinstance(dynamics, mf.Layers | mf.LayerMap):
        mf.energy(tokens, dynamics)
        mf.metric_speed(tokens, dynamics)
        mf.dissipation(tokens, dynamics)
    assert counted == []
    dynamics.velocity(mf.Particles(tokens.points[:9], sums="direct"), tokens.points[:4])
    assert counted


def test_a_kernel_of_too_many_degrees_is_summed_over_pairs():
    """2594 of them on S², where transforms take 2047; on the circle they take all."""
    dynamics = mf.Interaction((sharp, sharp_slope))
    assert dynamics.kernel.degree(3) > 2047
    for dim, way in (2, FourierSums), (3, type(None)):
        points = mf.Uniform(dim).sample(60, np.random.default_rng(0))
        tokens = mf.Particles(points, sums="transforms")
        assert type(tokens.series_sums(dynamics.kernel, 60)) is way
        assert tendency(tokens, dynamics).sums == "direct"
        pairs = mf.Particles(tokens.points, sums="direct")
        gap = mf.energy(tokens, dynamics) - mf.energy(pairs, dynamics)
        # as a share of the largest, that of tokens at one place
        assert abs(gap) < 1e-12 * np.arctan(80.0) / 160.0
