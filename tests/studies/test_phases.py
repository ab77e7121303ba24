"""Batches of repeats, and the phase diagram that they draw."""

import json
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import meanfield as mf
from meanfield.dynamics.attention import ENSEMBLES
from meanfield.equations.batch import PointsBatch
from meanfield.evolution import batch, evolve_batch
from meanfield.exceptions import Interrupted

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "reference_values.json").read_text())
KINDS = {"SA": mf.SA, "USA": mf.USA}
EPS = np.finfo(float).eps


def starts(count, n, dim, seed=0):
    points = np.random.default_rng(seed).normal(size=(count, n, dim))
    return points / np.linalg.norm(points, axis=2, keepdims=True)


def sa(*betas):
    return [mf.SA(beta) for beta in betas]


def gram_of(points):
    return points @ np.swapaxes(points, -1, -2)


def head(dim, seed, **given):
    rng = np.random.default_rng(seed)
    return mf.Head(**{name: rng.normal(size=(dim, dim)) / dim**0.5 for name in "QKV"} | given)


HEADS = {
    "one": [head(3, 0)],
    "two": [head(3, 1), head(3, 2, V=-0.5)],
    "numbers": [mf.Head(Q=0.7, K=-1.2, V=2.0)],
    "low rank": [mf.Head(Q=[[1.0, 0.5, 0.0]], K=[[0.3, 0.0, 2.0]], V=-1.0)],
}

# ---------------------------------------------------------------- right-hand sides


@pytest.mark.parametrize("dynamics", [mf.USA(300.0), mf.USA(200.0)], ids=str)
def test_steep_usa(dynamics):
    """Speeds of e^{300} among equal tokens, and of 1 among orthogonal ones."""
    half = mf.theory.orthogonal_arrival(dynamics, 3, 0.99)
    found = evolve_batch(np.eye(3)[None], dynamics, [half])[0, 0, 0, 1]
    # steps of 1e-9, and γ' grows with e^{300 γ}
    assert found == pytest.approx(0.01, rel=1e-6)


def test_symmetries():
    """Rotations leave inner products as they are; permutations and repeats move along."""
    points = starts(3, 5, 4)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))
    order = np.array([3, 0, 4, 1, 2])
    times = [0.5, 2.0]
    for form in "points", "gram":
        found = evolve_batch(points, mf.SA(2.0), times, form=form)
        turned = evolve_batch(points @ turn.T, mf.SA(2.0), times, form=form)
        # coordinates have errors of their own, inner products are the same but for rounding
        assert np.abs(turned - found).max() < (1e-8 if form == "points" else 1e-12)
        # lengths within 1e-6 of 1 are made 1
        longer = evolve_batch(points * (1 + 5e-7), mf.SA(2.0), times, form=form)
        assert np.abs(longer - found).max() < 1e-12
        moved = evolve_batch(points[:, order], mf.SA(2.0), times, form=form)
        assert np.abs(moved - found[:, :, order][:, :, :, order]).max() < 1e-12
        shuffled = evolve_batch(points[[2, 0, 1]], mf.SA(2.0), times, form=form)
        assert np.abs(shuffled - found[:, [2, 0, 1]]).max() < 1e-12


def test_what_is_observed_is_nobody_elses():
    """Not even where it is the very array that was given to look at."""
    points, times = starts(3, 4, 8), np.linspace(0.0, 3.0, 31)
    whole = evolve_batch(points, mf.SA(2.0), times)
    given = evolve_batch(points, mf.SA(2.0), times, observe=lambda gram: gram)
    np.testing.assert_array_equal(given, whole)
    assert np.abs(np.diff(whole, axis=0)).max() > 1e-3


def test_ctrl_c_raises_with_the_repeats_so_far():
    """Chunks of four of 64 tokens; the second is struck."""
    points, times, chunks = starts(9, 64, 3), [0.0, 0.5], []

    def observe(gram):
        chunks.append(len(gram))
        if len(chunks) == at:
            raise KeyboardInterrupt
        return gram.mean(axis=(1, 2))

    at = 0
    whole = evolve_batch(points, mf.SA(2.0), times, observe=observe)
    first = chunks[0]
    assert 1 < first < 9
    chunks.clear()
    at = 4
    with pytest.raises(Interrupted, match=f"{first} of 9 repeats") as stopped:
        evolve_batch(points, mf.SA(2.0), times, observe=observe)
    np.testing.assert_array_equal(stopped.value.solution, whole[:, :first])
    chunks.clear()
    at = 1
    with pytest.raises(Interrupted, match="0 of 9 repeats") as stopped:
        evolve_batch(points, mf.SA(2.0), times, observe=observe)
    assert stopped.value.solution is None


# ---------------------------------------------------------------- runs


@pytest.mark.parametrize(
    ("dynamics", "dim"),
    [
        (mf.SA(3.0), 3),
        (mf.SA(0.0), 2),
        (mf.SA(3.0, sign=-1), 5),
        (mf.USA(1.0), 40),
        (mf.USA(2.0, sign=-1), 3),
        # exponents of 1e4 overflow nothing
        (mf.SA(1e4), 3),
        (mf.Attention(1e4, HEADS["two"]), 3),
        (mf.Attention(2.0, HEADS["numbers"]), 3),
        (mf.Attention(2.0, HEADS["low rank"]), 3),
        (mf.Attention(2.0, HEADS["two"]), 3),
        (mf.Attention(1.0, HEADS["one"], normalised=False), 3),
    ],
    ids=str,
)
def test_batch_is_single_runs(dynamics, dim):
    points, times = starts(3, 10, dim), np.array([0.5, 1.0, 3.0])
    if dynamics.beta > 1e3:
        times /= 1e3
    found = evolve_batch(points, dynamics, times, rtol=1e-10, atol=1e-12)
    for number, x in enumerate(points):
        sol = _single(x, dynamics, times)
        # errors of some 1e-10 a step in either run
        assert np.abs(gram_of(sol) - found[:, number]).max() < 1e-8


def _single(x, dynamics, times):
    """The points of one repeat at the times, by evolve or, for heads, by a plain solver."""
    if isinstance(dynamics, (mf.SA, mf.USA)):
        sol = mf.evolve(mf.Particles(x), dynamics, times[-1], times, rtol=1e-10, atol=1e-12)
        return np.array([mu.points for mu in sol.measures[1:]])
    from scipy.integrate import solve_ivp

    def field(_, state):
        y = state.reshape(x.shape)
        y = y / np.linalg.norm(y, axis=1, keepdims=True)
        return dynamics.velocity(mf.Particles(y), at=y).ravel()

    run = solve_ivp(field, (0, times[-1]), x.ravel(), "DOP853", times, rtol=1e-10, atol=1e-12)
    return run.y.T.reshape(len(times), *x.shape)


def test_dense_output_is_of_high_order():
    """Tightening the tolerance a hundredfold shrinks the error between steps by much."""
    points, times = starts(2, 6, 10), np.linspace(0.1, 3.0, 30)
    exact = evolve_batch(points, mf.SA(2.0), times, rtol=1e-13, atol=1e-14)
    errors = [
        np.abs(evolve_batch(points, mf.SA(2.0), times, rtol=tol, atol=tol) - exact).max()
        for tol in (1e-5, 1e-7, 1e-9)
    ]
    assert errors[0] > 1e-8
    # the local error is of order 8, interpolation of order 7: a factor 100^{7/8} = 56 each
    assert errors[1] < errors[0] / 15
    assert errors[2] < errors[1] / 15


@pytest.mark.parametrize("form", ["points", "gram"])
@pytest.mark.parametrize("rtol", [1e-6, 1e-4])
def test_loose_tolerances_are_kept(rtol, form):
    """Between steps and at their ends, some dozens of rtol off while tokens come together."""
    points, times = starts(3, 6, 10), np.linspace(0.0, 10.0, 60)
    exact = evolve_batch(points, mf.SA(4.0), times, rtol=1e-12, atol=1e-14)
    found = evolve_batch(points, mf.SA(4.0), times, rtol=rtol, atol=1e-2 * rtol, form=form)
    assert 1e-3 * rtol < np.abs(found - exact).max() < 30 * rtol


def test_chunks_do_not_matter(monkeypatch):
    points, times = starts(7, 6, 3), np.array([0.0, 1.0, 2.5])
    whole = evolve_batch(points, mf.SA(2.0), times)
    monkeypatch.setattr(batch, "_CHUNK", 80)
    parts = evolve_batch(points, mf.SA(2.0), times)
    assert np.array_equal(parts[0], whole[0])
    # the start is neither stepped nor interpolated
    assert np.array_equal(evolve_batch(points, mf.SA(2.0), [0.0])[0], whole[0])
    # five roundings of an inner product of unit vectors, in either order
    assert np.abs(whole[0] - gram_of(points)).max() < 4 * EPS
    # other steps, each within 1e-9
    assert 0 < np.abs(parts - whole).max() < 1e-8


def test_what_is_settled_is_not_followed():
    """The rows after the settled one are the same as it, and no field is asked for them."""
    points, times = starts(3, 4, 20), np.linspace(0.0, 40.0, 21)
    seen = []

    def observe(gram):
        seen.append(len(gram))
        return np.count_nonzero(gram >= 0.999, axis=(1, 2))

    found = evolve_batch(
        points, mf.SA(1.0), times, observe=observe, settled=lambda r: np.all(r > 15)
    )
    assert len(seen) < 10
    assert found.shape == (21, 3)
    assert np.array_equal(found, evolve_batch(points, mf.SA(1.0), times, observe=observe))
    assert found[0].tolist() == [4, 4, 4]


@pytest.mark.parametrize("first", [0, 1, 30])
def test_failure_tells_when(monkeypatch, first):
    """A field that is no number from its first, second or 31st evaluation on."""

    class Breaking(PointsBatch):
        calls = 0

        def __call__(self, state, out):
            super().__call__(state, out)
            self.calls += 1
            if self.calls > first:
                out[0] = np.nan

    monkeypatch.setattr(batch, "batch_tendency", lambda x, one, _: Breaking(x, one))
    with pytest.raises(
        ArithmeticError, match=r"failed at t = \S+: the field is not finite"
    ) as told:
        evolve_batch(starts(1, 3, 3), mf.SA(1.0), [9.0])
    t = float(re.search(r"t = (\S+):", str(told.value))[1])
    assert 0 < t < 9 if first == 30 else t == 0


# ---------------------------------------------------------------- (6.12)


@pytest.mark.parametrize(
    "row", REFERENCE["tstar"], ids=lambda r: f"{r['kind']}-{r['n']}-{r['beta']}"
)
def test_published_arrival(row):
    found = mf.theory.orthogonal_arrival(
        KINDS[row["kind"]](row["beta"]), row["n"], float(row["delta"])
    )
    assert found == pytest.approx(float(row["value"]), rel=1e-12)


# ---------------------------------------------------------------- the diagram


@pytest.fixture(scope="module")
def high():
    """d = 512: all pairs arrive together."""
    times = np.linspace(4.0, 8.0, 161)
    return mf.studies.phase_diagram(sa(0.0, 1.0, 2.0, 3.0), 512, 32, 8.0, repeats=64, save_at=times)


def test_the_diagram_is_that_of_single_runs():
    """The same starts by evolve, one at a time: the same share of pairs but for a threshold."""
    betas, times = [0.5, 4.0], np.array([1.0, 5.0, 9.0])
    found = []

    def keeping(*given, **named):
        found.append(given[0])
        return evolve_batch(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("meanfield.studies.phases.evolve_batch", keeping)
        patch.setattr("meanfield.studies.phases._BLOCK", 2)
        ds = mf.studies.phase_diagram(sa(*betas), 3, 8, 9.0, repeats=5, delta=1e-2, save_at=times)
    assert [len(block) for block in found] == [2, 2, 2, 2, 1, 1]
    points = np.concatenate(found[::2])
    assert np.array_equal(points, np.concatenate(found[1::2]))
    for beta in betas:
        share = np.empty((3, 5))
        for number, x in enumerate(points):
            grams = gram_of(_single(x, mf.SA(beta), times))
            share[:, number] = ((grams >= 0.99).sum(axis=(1, 2)) - 8) / 56
        one = ds.sel(beta=beta)
        assert np.ptp(share) > 0.1
        assert np.allclose(one.probability, share.mean(axis=1), rtol=0, atol=1e-14)
        error = share.std(axis=1, ddof=1) / 5**0.5
        assert np.allclose(one.standard_error, error, rtol=1e-12, atol=1e-9)


def test_tolerance_of_the_study():
    """A coarse one shows in what is counted; the default counts what a fine one does."""
    given = {"dynamics": mf.SA(1.0), "dim": 64, "n": 8, "t_end": 6.0, "repeats": 4, "delta": 0.3}
    counts = {
        rtol: mf.studies.phase_diagram(**given, save_at=400, rtol=rtol).probability
        for rtol in (1e-2, 1e-9, None)
    }
    coarse, fine, default = counts.values()
    # a pair that comes late by one of 400 times
    assert np.abs(coarse - fine).max() > 0.0
    assert np.array_equal(default, fine)


def test_executors_and_seeds():
    given = {"dynamics": sa(0.0, 3.0), "dim": 2, "n": 6, "t_end": 4.0, "repeats": 70}
    here = mf.studies.phase_diagram(**given, save_at=8)
    with ProcessPoolExecutor(2) as pool:
        there = mf.studies.phase_diagram(**given, save_at=8, executor=pool)
    assert here.identical(there)
    again = mf.studies.phase_diagram(**given, save_at=8, rng=np.random.default_rng(0))
    assert here.identical(again)
    other = mf.studies.phase_diagram(**given, save_at=8, rng=1)
    gap = np.abs(other.probability - here.probability)
    assert gap.max() > 0
    # two independent samples
    assert np.all(gap <= 5 * np.hypot(here.standard_error, other.standard_error) + 1e-12)


@pytest.mark.parametrize("kind", ENSEMBLES)
def test_random_heads(kind):
    """Figure 5 in small: d = 16; what the ensembles promise of their matrices."""
    dim = 16
    one = mf.Head.random(kind, dim, np.random.default_rng(0))
    bilinear = np.asarray(one.matrix)
    assert bilinear.shape == one.V.shape == (dim, dim)
    symmetric = kind.startswith("wigner")
    assert np.allclose(bilinear, bilinear.T, atol=1e-15) is symmetric
    if kind == "wigner-positive":
        assert np.linalg.eigvalsh(one.V).min() > 0
    if kind.endswith("product"):
        # V = QᵀK, where the scores have KᵀQ
        assert np.allclose(one.V, bilinear.T, atol=1e-15)
    draws = [mf.Head.random(kind, dim, np.random.default_rng(seed)).matrix for seed in range(40)]
    off = np.array(draws)[:, ~np.eye(dim, dtype=bool)]
    # 40 · 240 entries of variance 1/d, pairs of which may be one: within 5 deviations
    assert off.var() == pytest.approx(1 / dim, rel=5 * 3 * (2 / off.size) ** 0.5)
    ds = mf.studies.phase_diagram(
        [mf.Attention(beta, [one]) for beta in (1.0, 4.0)], dim, 8, 10.0, repeats=8, save_at=4
    )
    values = ds.probability.values
    assert np.isfinite(values).all()
    assert values.max() <= 1
    assert np.isnan(ds.arrival).all()
    if kind == "wigner-positive":
        assert values[-1].min() > values[0].max()


def test_usa():
    ds = mf.studies.phase_diagram([mf.USA(1.0), mf.USA(4.0)], 64, 8, 4.0, repeats=16, save_at=80)
    for beta in ds.beta.values:
        one = ds.sel(beta=beta)
        half = float(np.interp(0.5, one.probability.values, one.t.values))
        # inner products at the start are of order 1/8
        assert half == pytest.approx(float(one.arrival), rel=0.2)
    assert ds.attrs["dynamics"] == "USA"


# ---------------------------------------------------------------- its picture


@pytest.mark.slow
def test_picture(high):
    low = mf.studies.phase_diagram(sa(0.0, 2.0), 2, 4, 8.0, repeats=4, save_at=5)
    figure = mf.plot.phase_diagram([low, high])
    figure.canvas.draw()
    panels = [ax for ax in figure.axes if ax.get_title().startswith("d = ")]
    assert [ax.get_title() for ax in panels] == ["d = 2", "d = 512"]
    mesh = panels[1].collections[0]
    assert np.array_equal(np.asarray(mesh.get_array()).T, high.probability.values)
    assert mesh.get_clim() == (0, 1)
    curve = panels[1].lines[0]
    # t* of many β between those of the cells, the first and the last among them
    assert len(curve.get_xdata()) == 100
    for beta, t in curve.get_xydata()[[0, 33, 99], ::-1]:
        assert t == mf.theory.orthogonal_arrival(mf.SA(beta), 32, high.attrs["delta"])
    ends = high.beta.values[[0, -1]]
    assert np.array_equal(curve.get_ydata()[[0, -1]], ends)
    assert np.array_equal(panels[1].get_ylim(), ends)
    assert np.array_equal(panels[1].get_xlim(), high.t.values[[0, -1]])
    # from about β = 710 on t* is no double
    beyond = mf.plot.phase_diagram(high.assign_coords(beta=[0.0, 300.0, 600.0, 900.0]))
    beyond.canvas.draw()
    t, beta = beyond.axes[0].lines[0].get_data()
    assert np.array_equal(np.isnan(t), beta > beta[np.isfinite(t)].max())
    assert 690.0 < beta[np.isfinite(t)].max() < 720.0
    assert panels[1].get_xlabel() == "time t"
    # the two differ in n
    assert figure.get_suptitle() == "SA"
    alone = mf.plot.phase_diagram(high.assign(arrival=np.nan * high.arrival))
    assert alone.get_suptitle() == "SA, n = 32 uniform tokens, 64 repeats"
    assert not alone.legends
    for bad in ([], "diagram", high.drop_vars("arrival"), high.isel(beta=[0])):
        with pytest.raises(ValueError, match="ds must"):
            mf.plot.phase_diagram(bad)


# ---------------------------------------------------------------- bad input

POINTS = starts(1, 3, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evolve_batch(POINTS[0], mf.SA(1.0), [1.0]), "points must be .* 3 axes"),
        (lambda: evolve_batch(POINTS[:, :1], mf.SA(1.0), [1.0]), "points must be .* n, d >= 2"),
        (lambda: evolve_batch(2 * POINTS, mf.SA(1.0), [1.0]), "unit rows .* one of norm 2$"),
        (lambda: evolve_batch(POINTS, mf.SA(1.0), [1.0, 1.0]), "times must be strictly ascending"),
        (lambda: evolve_batch(POINTS, mf.SA(1.0), [-1.0, 1.0]), "times must be .* >= 0, got"),
        (lambda: evolve_batch(POINTS, mf.SA(1.0, noise=1.0), [1.0]), "noise must be 0 .* got 1"),
        (lambda: evolve_batch(POINTS, "SA", [1.0]), "dynamics must be .* got 'SA'"),
        (lambda: evolve_batch(POINTS, mf.SA(1.0), [1.0], form="x"), "form must be one of .* 'x'"),
        (
            lambda: evolve_batch(POINTS, mf.USA(301.0), [1.0]),
            "beta must be <= 300 for USA, got 301",
        ),
        (
            lambda: evolve_batch(POINTS, mf.Attention(1.0, [mf.Head(V=0.5)]), [1.0], form="gram"),
            "form must be 'points' for Attention",
        ),
        (
            lambda: evolve_batch(POINTS, mf.Attention(1.0, [head(4, 0)]), [1.0]),
            "points must be of the dim of Attention",
        ),
        (lambda: evolve_batch(POINTS, mf.SA(1.0), [1.0], observe=3), "observe .* callable, got 3"),
        (lambda: evolve_batch(POINTS, mf.SA(1.0), [1.0], settled=3), "settled .* callable, got 3"),
        (
            lambda: evolve_batch(POINTS, mf.SA(1.0), [1.0], observe=lambda _: np.ones(7)),
            r"observe must give .* got shape \(7,\)",
        ),
        (
            lambda: evolve_batch(POINTS, mf.SA(1.0), [0.0], observe=np.max),
            r"observe must give .* got shape \(\)",
        ),
        (lambda: evolve_batch(POINTS, mf.SA(1.0), [1.0], rtol=1.0), "rtol must be"),
        (lambda: evolve_batch(POINTS, mf.SA(1.0), [1.0], atol=0.0), "atol must be"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_arrival_beyond_double_precision_is_inf():
    """The runs themselves go on: at β = 800 nothing moves."""
    diagram = mf.studies.phase_diagram(sa(1.0, 800.0), 3, 2, 1.0, repeats=4, save_at=2)
    assert np.isfinite(diagram.arrival.values[0])
    assert np.isposinf(diagram.arrival.values[1])
