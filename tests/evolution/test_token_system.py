"""Runs of tokens: published and closed forms, any attention, layers, noise."""

import numpy as np
import pytest
from scipy.stats import chi

import meanfield as mf
from meanfield.evolution.settings import Settings
from meanfield.evolution.token_system import NoisyTokenSystem
from tests.handmade import unfinished

TIGHT = {"rtol": 1e-12, "atol": 1e-14}


def some(n, dim, seed=0, **kind):
    return mf.Particles.sample(mf.Uniform(dim), n, np.random.default_rng(seed), **kind)


@pytest.mark.parametrize(
    "dynamics",
    [mf.SA(3.0), mf.USA(2.0), mf.SA(3.0, sign=-1), mf.USA(2.0, sign=-1), mf.SA(0.0)],
    ids=str,
)
def test_gram_matrix_moves_points(dynamics):
    """Also where tokens coincide, are dependent, or have unequal weights."""
    points = some(9, 40, seed=3).points.copy()
    points[3] = points[4]
    points[5] = points[6] + points[7]
    points[5] /= np.linalg.norm(points[5])
    weights = np.arange(1.0, 10.0)
    runs = [
        mf.evolve(
            mf.Particles(points, weights, sums=sums, unit_mass=True), dynamics, 1.5, 3, **TIGHT
        )
        for sums in ("direct", "gram")
    ]
    for one, other in zip(runs[0].measures, runs[1].measures, strict=True):
        # a hundred times the rtol, as of the sums of layers below
        assert np.abs(one.points - other.points).max() < 1e-10
    for name in "energy", "dissipation", "work":
        one, other = (run.dataset[name].values for run in runs)
        assert np.abs(one - other).max() < 1e-9 * np.abs(one).max()
    assert np.abs(runs[0].final.points - points).max() > 0.1


TOKENS, FIELD = some(4, 3), mf.Attention(1.0, [mf.Head(np.eye(3))])


def attention(dim, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (3, dim), (3, dim), (dim, dim)
    heads = [mf.Head(*(rng.normal(size=s) for s in shapes)) for _ in range(2)]
    return mf.Attention(0.5, heads), mf.FeedForward(
        rng.normal(size=(dim, 6)) / 2,
        rng.normal(size=(6, dim)),
        rng.normal(size=6),
        activation="gelu",
    )


@pytest.mark.parametrize(
    "field",
    [attention(5)[0], pytest.param(mf.DoublyStochastic(3.0), marks=pytest.mark.slow)],
    ids=str,
)
def test_layers_are_euler_steps(field):
    """x ← N(x + h V A x) is the flow to first order in h."""
    tokens = some(8, 5)
    exact = mf.evolve(tokens, field, 1.0, 1, **TIGHT).final.points
    maps = [mf.LayerMap(field, step=h) for h in (0.02, 0.01, 0.005)]
    runs = [mf.evolve(tokens, layers, 1.0, 1) for layers in maps]
    off = np.array([np.abs(run.final.points - exact).max() for run in runs])
    assert np.all(np.abs(np.log2(off[:-1] / off[1:]) - 1.0) < 0.1)
    assert off[0] > 1e-3


def test_layers_hand_over_where_they_should():
    """Three layers in one run are three runs, saved in between or not."""
    tokens, (field, perceptron) = some(6, 5), attention(5)
    layers = mf.Layers([field, perceptron, mf.DoublyStochastic(2.0)], step=0.3)
    whole = mf.evolve(tokens, layers, layers.depth, [0.1, 0.3, 0.45, 0.6], **TIGHT)
    state = tokens
    for layer in layers.layers:
        state = mf.evolve(state, layer, 0.3, 1, **TIGHT).final
    assert np.abs(whole.final.points - state.points).max() < 1e-10
    half = mf.evolve(tokens, layers, 0.45, 1, **TIGHT).final.points
    assert np.abs(whole.measures[3].points - half).max() < 1e-10
    discrete = mf.evolve(tokens, mf.LayerMap(layers, step=0.3), layers.depth, 1)
    points = tokens.points
    for layer in layers.layers:
        points = points + 0.3 * layer.output(mf.Particles(points), points)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    assert np.abs(discrete.final.points - points).max() < 1e-14
    assert discrete.dataset.steps.values.tolist() == [0, 3]


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_a_step_of_noise_has_the_generator_to_third_order(dim, degree):
    """E P_k(<x, x_h>) over the lengths of kicks against e^{-k(k+d-2)τh}, by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    lengths = 10.0 * (nodes + 1.0)
    shares = chi(dim - 1).pdf(lengths) * 10.0 * weights
    start = np.tile(np.eye(1, dim), (200, 1))

    class Kicks(np.random.Generator):
        def normal(self, size):
            return lengths[:, None] * np.eye(1, dim, 1) * np.ones(size)

    settings = Settings(max_step=1.0)
    rng = Kicks(np.random.PCG64(0))
    system = NoisyTokenSystem(mf.Particles(start), mf.SA(0.0, noise=0.5), settings, rng)

    def off(h):
        moved = system.equation.measure(system._diffuse(system.state, h)[:-1]).points
        cosines = moved[:, 0]
        zonal = cosines if degree == 1 else (dim * cosines**2 - 1) / (dim - 1)
        return shares @ zonal - np.exp(-0.5 * degree * (degree + dim - 2) * h)

    small = 0.2 / (degree * (degree + dim - 2))
    one, other = off(small), off(0.5 * small)
    if dim == 2:
        # on the circle it is exact: roundings of 200 weights
        assert abs(one) < 1e-13
    else:
        assert abs(one) > 1e-8
        assert abs(np.log2(one / other) - 3.0) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_noise_alone_is_brownian_motion(dim):
    """E P_k(<x_t, x_0>) = e^{-k(k+d-2)τt}, in few large steps, within four standard errors."""
    n, noise = 40_000, 0.3
    start = mf.Particles(np.tile(np.eye(dim)[0], (n, 1)))
    still = mf.Attention(0.0, [mf.Head(V=0.0)], noise=noise)
    t_end = 1.0 / ((dim - 1) * noise)
    rng = np.random.default_rng(4)
    final = mf.evolve(start, still, t_end, 1, max_step=t_end / 8, rng=rng).final.points[:, 0]
    for values, rate in ((final, dim - 1), ((dim * final**2 - 1) / (dim - 1), 2 * dim)):
        error = values.std() / np.sqrt(n)
        assert abs(values.mean() - np.exp(-rate * noise * t_end)) < 4 * error
        assert error < 0.01


@pytest.mark.parametrize("step", [0.1, 0.3, 0.35, 0.7])
def test_discrete_layers_are_saved_at_the_very_times(step):
    """Whole numbers of steps but for rounding stay as they are; others go to the nearest."""
    for n in (3, 7, 9):
        t_end = float(f"{n * step:.12g}")
        passes, times = mf.LayerMap(FIELD, step=step), np.linspace(0.0, t_end, n + 1)
        whole = mf.evolve(TOKENS, passes, t_end, n)
        assert whole.t.tolist() == times.tolist()
        assert whole.dataset.attrs["t_end"] == t_end
        asked = [0.9 * times[1], times[1], 1.1 * times[1], t_end * (1.0 - 1e-11), t_end]
        few = mf.evolve(TOKENS, passes, t_end, asked)
        assert few.t.tolist() == [0.0, times[1], t_end]
        # a run that begins there, and times between the saves or within rounding of them
        late = mf.evolve(few[1], passes, t_end, 1, t_start=few.t[1])
        assert np.array_equal(late.final.points, whole.final.points)
        for t, measure in whole:
            for near in (t * (1.0 - 1e-10), t, min(t * (1.0 + 1e-10), t_end)):
                assert np.array_equal(few.at(near).points, measure.points)


def test_a_field_that_is_not_finite_ends_the_run():
    huge = mf.FeedForward(1e200 * np.eye(3)[::-1], 1e200 * np.eye(3))
    with np.errstate(all="ignore"):
        solution = unfinished(mf.evolve, TOKENS, huge, 1.0)
    assert solution.status == "failed"
    assert "failed at t = 0: metric_speed is nan" in solution.message
    assert len(solution.measures) == 1
