"""Tokens in R^d without layer normalisation: closed forms, both variables, switches, Table 1."""

import os
import signal

import numpy as np
import pytest

import meanfield as mf
from meanfield.evolution.progress import DeferredInterrupt
from meanfield.studies.free_tokens import evolve_free
from tests.children import hearing_ctrl_c
from tests.handmade import interrupted, unfinished

TIGHT = {"rtol": 1e-12, "atol": 1e-14}


def box(n, dim, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, size=(n, dim))


def matrices(dim, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, dim)), rng.normal(size=(2, dim)), rng.normal(size=(dim, dim)) / dim


def test_equation_9_1_by_loops():
    """The velocity at t = 0 from a step so short that nothing else is left."""
    start, (query, key, value) = box(5, 3), matrices(3)
    h = 1e-6
    run = evolve_free(start, h, 1, beta=0.7, Q=query, K=key, V=value, attention="softmax", **TIGHT)
    found = (run.points[1] - start) / h
    for x, velocity in zip(start, found, strict=True):
        shares = np.exp([0.7 * (query @ x) @ (key @ y) for y in start])
        expected = sum(s * value @ y for s, y in zip(shares, start, strict=True)) / shares.sum()
        assert np.abs(velocity - expected).max() < 1e-5
    assert np.abs(found).max() > 0.1


def test_without_scores_all_tokens_go_to_the_mean():
    """β = 0, V = I: z_i = m + e^{-t} (z_i(0) - m), and the mean stays."""
    start = box(6, 2)
    run = evolve_free(start, 3.0, 3, beta=0.0, **TIGHT)
    for t, z in zip(run.t, run.points, strict=True):
        mean = start.mean(axis=0)
        assert np.abs(z - mean - np.exp(-t) * (start - mean)).max() < 1e-11


def test_permutation_and_rotation():
    start, rng = box(7, 3), np.random.default_rng(2)
    order = rng.permutation(7)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    plain = evolve_free(start, 1.5, 2, **TIGHT).points[-1]
    assert (
        np.abs(evolve_free(start[order], 1.5, 2, **TIGHT).points[-1] - plain[order]).max() < 1e-12
    )
    turned = evolve_free(start @ turn.T, 1.5, 2, **TIGHT).points[-1]
    assert np.abs(turned - plain @ turn.T).max() < 1e-11


def test_a_switch_is_found_where_it_is():
    """A leader that moves: with V = I token 0 follows 1 until 2 has grown past it along its way.

    Q turns by a quarter, so that the token that 0 follows and what it moves along differ.
    """
    start = box(12, 2, seed=5)
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    hard = evolve_free(start, 4.0, 8, Q=turn, attention="hardmax", rtol=1e-11)
    assert len(hard.switches) > 0
    gaps = []
    for beta in (1e3, 1e4, 1e5):
        soft = evolve_free(start, 4.0, 8, beta=beta, Q=turn, attention="frozen", rtol=1e-9)
        gaps.append(np.abs(soft.points - hard.points).max())
    # switches come a time of order 1/β apart
    assert gaps[2] < 1e-3
    assert gaps[2] < gaps[1] < gaps[0]


def test_hull_never_grows():
    """V = I: each velocity points into the hull (largest coordinate in any direction falls)."""
    run = evolve_free(box(10, 2, seed=3), 6.0, 60, beta=4.0)
    angles = np.linspace(0, 2 * np.pi, 40)
    support = (run.points @ np.array([np.cos(angles), np.sin(angles)])).max(axis=1)
    assert np.diff(support, axis=0).max() < 1e-9
    assert support[0].max() > 0.5


def test_table_1():
    ds = mf.studies.limits_without_normalisation()
    off = {str(case): float(ds.off.sel(case=case)) for case in ds.case.values}
    assert off["polytope"] < 1e-4
    assert off["polytope × line"] < 1e-4
    assert off["hyperplanes"] < 1e-4
    assert off["origin"] < 0.2
    assert 2 <= int(ds.n_distinct.sel(case="hyperplanes")) <= 3
    assert 3 <= int(ds.n_distinct.sel(case="polytope")) < 20
    assert np.all(ds.moved.values[:3] < 1e-3)
    figure = mf.plot.limits_without_normalisation(ds)
    assert len(figure.axes) == 4
    with pytest.raises(ValueError, match=r"ds must be a Dataset"):
        mf.plot.limits_without_normalisation(ds.drop_vars("off"))


def test_evidence_of_table_1_is_measured():
    """At the start nothing has come true: tokens are where they were drawn."""
    n = 40
    ds = mf.studies.limits_without_normalisation(n=n, t_end=1e-6)
    assert np.all(ds.n_distinct > 0.8 * n)
    ends = np.sort(ds.trajectory.sel(case="hyperplanes").values[-1], axis=0)
    # three values have room for the widest of three gaps, of coordinates in a box of width 2
    assert 0.1 < float(ds.off.sel(case="hyperplanes")) < np.ptp(ends, axis=0).max()
    assert float(ds.off.sel(case="origin")) > 1
    flat = {"n": 4, "beta": 1e-300, "t_end": 400.0}
    with pytest.raises(ValueError, match="t_end must be smaller for 'polytope', got 400"):
        mf.studies.limits_without_normalisation(**flat)


def test_overflow_is_an_ending():
    run = unfinished(evolve_free, box(3, 2), 1000.0, 10, attention="softmax")
    assert run.status == "overflow"
    assert len(run.t) == len(run.points) < 11
    assert np.isfinite(run.points).all()
    assert evolve_free(box(3, 2), 1.0, 2, attention="softmax").status == "finished"


def test_overflow_of_the_scores_is_an_ending():
    """z_i stay in their hull while e^{tV} z_i, in the scores, leave double precision."""
    tight = {"V": 1.0, "rtol": 1e-11, "atol": 1e-13}
    run = unfinished(evolve_free, box(3, 2), 1000.0, 10, **tight)
    assert run.status == "overflow"
    # e^t = 1e150 at t = 345
    assert np.array_equal(run.t, [0.0, 100.0, 200.0, 300.0])
    assert np.abs(run.points).max() <= 1.0
    plain = evolve_free(box(3, 2), 300.0, 3, **tight)
    assert plain.status == "finished"
    # steps that end elsewhere, in a field that explicit ones find stiff by then
    assert np.abs(plain.points - run.points).max() < 1e-8


@pytest.mark.parametrize("attention", ["rescaled", "hardmax"])
def test_ctrl_c_raises_with_the_tokens_so_far(attention, monkeypatch):
    start, calls = box(20, 3), []
    whole = evolve_free(start, 8.0, 16, attention=attention)
    check = DeferredInterrupt.check

    def strike(self):
        calls.append(self)
        if len(calls) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        check(self)

    monkeypatch.setattr(DeferredInterrupt, "check", strike)
    with hearing_ctrl_c():
        run = interrupted(evolve_free, start, 8.0, 16, attention=attention)
    assert run.status == "interrupted"
    assert 1 <= len(run.t) < 17
    assert np.array_equal(run.points, whole.points[: len(run.t)])
    assert np.array_equal(run.t, whole.t[: len(run.t)])


@pytest.mark.parametrize("attention", ["rescaled", "hardmax"])
def test_ctrl_c_in_the_last_step_is_heard(attention, monkeypatch):
    from meanfield.studies import free_tokens

    step = free_tokens.DOP853.step

    def strike(self):
        reason = step(self)
        if self.t == 1.0:
            os.kill(os.getpid(), signal.SIGINT)
        return reason

    monkeypatch.setattr(free_tokens.DOP853, "step", strike)
    with hearing_ctrl_c():
        run = interrupted(evolve_free, box(20, 3), 1.0, 2, attention=attention)
    assert run.t[-1] == 1.0


def sliding():
    """Starts and matrices of five tokens, one of which ends between two targets."""
    rng = np.random.default_rng(0)
    rng.normal(size=(5, 2)), rng.normal(size=(6, 2)), rng.normal(size=(2, 2))
    start = rng.normal(size=(5, 2))
    query, key = rng.normal(size=(2, 3, 2))
    return start, {"Q": query, "K": key, "V": 0.5 * rng.normal(size=(2, 2))}


@pytest.mark.parametrize("twice", [False, True])
def test_sliding_along_a_tie_is_an_ending(twice):
    start, given = sliding()
    if twice:
        start[1] = start[0]
    run = unfinished(evolve_free, start, 1.0, 10, attention="hardmax", **given)
    assert run.status == "stalled"
    assert len(run.switches) < 250
    assert 0.5 < run.t[-1] < 0.7
    assert run.t[-1] == run.switches[-1]
    assert np.array_equal(run.t[:-1], np.linspace(0.0, 1.0, 11)[: len(run.t) - 1])
    # scores of one token are tied there
    ranked = (run.points[-1] @ given["Q"].T) @ (run.points[-1] @ given["K"].T).T
    highest = np.sort(ranked, axis=1)
    distinct = highest[:, -1] - highest[:, -3 if twice else -2]
    assert distinct.min() < 1e-9
    before = evolve_free(start, 0.5, 5, attention="hardmax", **given)
    assert before.status == "finished"
    assert np.array_equal(before.t, run.t[:6])
    assert np.abs(before.points - run.points[:6]).max() < 1e-8
