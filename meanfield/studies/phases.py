"""When random tokens have become one cluster: the phase diagram over t and β (Figures 3 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial

import numpy as np
import xarray as xr

from meanfield import _checks
from meanfield.dynamics import SA, USA, Attention
from meanfield.dynamics.causal import refuse_mask
from meanfield.dynamics.schedule import refuse_schedules
from meanfield.equations.batch import LARGEST_BETA
from meanfield.evolution.batch import evolve_batch
from meanfield.laws.law import Uniform, uniform_frame, uniform_in_span
from meanfield.studies.executors import labelled, run_tasks, spawn_seeds
from meanfield.theory import orthogonal_arrival
from meanfield.typing import Array, ArrayLike, Integers, Rng

AnyAttention = SA | USA | Attention

# a task has so many repeats, which are a few chunks of the integrator, under so many dynamics
_BLOCK, _DYNAMICS = 64, 4
# a step may err in an inner product by this share of δ, and by no more than the second number
_SHARE, _MOST = 1e-3, 1e-6
_ABOUT = {
    "probability": ("share of near pairs", "P(<x_i, x_j> >= 1 - δ)"),
    "arrival": ("arrival of orthogonal tokens", "t* of (6.12)"),
}


def phase_diagram(
    dynamics: AnyAttention | Sequence[AnyAttention],
    dim: int,
    n: int,
    t_end: float,
    *,
    repeats: int = 32,
    delta: float = 1e-3,
    save_at: int | ArrayLike = 100,
    rtol: float | None = None,
    rng: Rng = 0,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """P(<x_i(t), x_j(t)> >= 1 - δ) of n uniform tokens over t and β, and the time t*(β) of (6.12).

    For d much larger than n and e^β all pairs meet at the same time: uniform tokens are then nearly
    orthogonal, and inner products reach 1 - δ at t*(β) (Theorem 6.9). In low dimension and at
    larger β, tokens stay in several clusters for a long time.

    Parameters
    ----------
    dynamics : SA, USA or Attention, or a sequence of them
        Without noise, in ascending order of β; β <= 300 for USA. `Attention(beta, heads)` with
        `Head.random` is Figure 5, with β in other units: see there.
    dim : int
        Ambient dimension d >= 2.
    n : int
        Number of tokens, n >= 2.
    t_end : float
        > 0.
    repeats : int
        Independent starts, the same ones for every β.
    delta : float
        1e-9 <= δ < 1.
    save_at : int or array_like
        The number of equal intervals of [0, t_end], or the times themselves, ascending.
    rtol : float, optional
        Error of a step in an inner product; δ/1000, at most 1e-6, if omitted.
    rng : int or numpy Generator
        For the starts. They do not depend on the executor.
    executor : concurrent.futures.Executor or 'processes', optional
        It does the runs; without it and `workers` they are done here, one after the other.
    workers : int, optional
        How many processes of this machine; one for each core if omitted.
    progress : bool
        Whether to show a bar that counts blocks of runs.

    Returns
    -------
    xarray.Dataset
        Over (t, beta): `probability`, the mean over repeats and pairs i != j, and
        `standard_error`, of that mean over repeats (nan for one). Over beta: `arrival`, t* of
        tokens that start orthogonal; inf where it leaves double precision, nan where the dynamics
        is not attractive SA or USA.
        Coordinate `dim`; attributes n, delta, repeats and dynamics.

    Raises
    ------
    ValueError
        If an argument is out of range, before any run starts.
    ArithmeticError
        If a run can't continue.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> ds = phase_diagram([SA(1.0), SA(4.0)], 3, 4, 2.0, repeats=4, save_at=4)
    >>> dict(ds["probability"].sizes)
    {'t': 5, 'beta': 2}
    """
    dim, n = _checks.integer("dim", dim, low=2), _checks.integer("n", n, low=2)
    count = _checks.integer("repeats", repeats, low=1)
    delta = _checks.number("delta", delta)
    if not 1e-9 <= delta < 1.0:
        raise ValueError(f"delta must be in [1e-9, 1), got {delta:g}")
    times = _checks.times_until("save_at", save_at, _checks.number("t_end", t_end, above=0))
    runs = _checked(dynamics, dim)
    axis = _checks.ascending("dynamics' beta", [each.beta for each in runs])
    seeds = spawn_seeds(_checks.generator("rng", rng), count)
    groups = [tuple(runs[start : start + _DYNAMICS]) for start in range(0, len(runs), _DYNAMICS)]
    blocks = [seeds[start : start + _BLOCK] for start in range(0, count, _BLOCK)]
    if rtol is None:
        rtol = min(_SHARE * delta, _MOST)
    tolerance = _checks.number("rtol", rtol, low=3e-14, high=1e-2)
    count_pairs = partial(_count_pairs, dim=dim, n=n, times=times, delta=delta, rtol=tolerance)
    tasks = [(group, block) for group in groups for block in blocks]
    sums = run_tasks(executor, count_pairs, tasks, "phase diagram", progress, workers)
    # sums of whole numbers are the same in any order
    rows = [sum(sums[start : start + len(blocks)]) for start in range(0, len(sums), len(blocks))]
    met, pairs = np.concatenate(rows), n * (n - 1)
    mean = met[:, 0] / count
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = (met[:, 1] - count * mean**2) / (count - 1.0)
    # rounding may make the difference of two equal numbers negative
    error = np.sqrt(np.maximum(squares, 0.0) / count)
    arrival = [_arrival(each, n, delta) for each in runs]
    dims = ("t", "beta")
    ds = xr.Dataset(
        {
            "probability": (dims, mean.T / pairs),
            "standard_error": (dims, error.T / pairs),
            "arrival": ("beta", arrival),
        },
        coords={"t": ("t", times), "beta": ("beta", axis), "dim": dim},
        attrs={"n": n, "delta": delta, "repeats": count, "dynamics": runs[0].name},
    )
    return labelled(ds, _ABOUT)


def _checked(dynamics: AnyAttention | Sequence[AnyAttention], dim: int) -> list[AnyAttention]:
    runs: list[AnyAttention] = _checks.several("dynamics", dynamics)
    if len({type(candidate) for candidate in runs}) > 1:
        raise ValueError(f"dynamics must be of one class, got {_checks.shown(runs)}")
    refuse_schedules("dynamics", runs, "β is that of a row of the diagram")
    for candidate in runs:
        refuse_mask(candidate)
        if type(candidate) not in (SA, USA, Attention) or candidate.noise > 0.0:
            raise ValueError(
                f"dynamics must be SA, USA or Attention without noise, got "
                f"{_checks.shown(candidate)}"
            )
        if candidate.stays_in_span and not candidate.normalised and candidate.beta > LARGEST_BETA:
            beta_text, largest = _checks.tell_apart(candidate.beta, LARGEST_BETA)
            raise ValueError(f"dynamics must have beta <= {largest} for USA, got {beta_text}")
        if candidate.dim not in (None, dim):
            raise ValueError(f"dim must be that of {_checks.shown(candidate)}, got {dim}")
    return runs


def _count_pairs(
    task: tuple[tuple[AnyAttention, ...], list[np.random.SeedSequence]],
    dim: int,
    n: int,
    times: Array,
    delta: float,
    rtol: float,
) -> Integers:
    """Return sums over repeats of the number of near pairs and of its square.

    Of each dynamics, shape (dynamics, 2, times); a repeat starts from a seed of its own.
    """
    several, seeds = task
    in_span = several[0].stays_in_span
    starts = np.array([_start(n, dim, np.random.default_rng(seed), in_span) for seed in seeds])
    counts = []
    for tokens in several:
        near_pairs = evolve_batch(
            starts,
            tokens,
            times,
            rtol=rtol,
            atol=1e-2 * rtol,
            observe=partial(_near_pairs, delta=delta),
            settled=partial(_all_near, pairs=n * (n - 1)) if _is_attractive(tokens) else None,
        )
        counts.append([near_pairs.sum(axis=1), (near_pairs**2).sum(axis=1)])
    return np.array(counts)


def _start(n: int, dim: int, rng: np.random.Generator, in_span: bool) -> Array:
    """Draw uniform tokens; for n < d their inner products are those of the same seed's `in_span`.

    Inner products are all that SA and USA ask of their starts: coordinates in the span will do.
    """
    if n >= dim:
        return Uniform(dim).sample(n, rng)
    coordinates = uniform_in_span(n, dim, rng)
    return coordinates if in_span else coordinates @ uniform_frame(n, dim, rng)


def _is_attractive(dynamics: AnyAttention) -> bool:
    """Return whether this is SA or USA with sign 1."""
    return dynamics.stays_in_span and dynamics.sign == 1


def _near_pairs(gram: Array, delta: float) -> Integers:
    """Return the number of pairs i != j with <x_i, x_j> >= 1 - δ of each repeat."""
    is_near = gram >= 1.0 - delta
    (count, n, _), total = is_near.shape, np.count_nonzero(is_near)
    # mostly no pair is near, or all are; <x_i, x_i> = 1 counts, too
    if total in (count * n, is_near.size):
        return np.full(count, total // count - n, dtype=np.int64)
    # each matrix is counted by itself: counting along axes takes ten times as long
    return np.array([np.count_nonzero(matrix) - n for matrix in is_near], dtype=np.int64)


def _all_near(near: Integers, pairs: int) -> bool:
    """Return whether all pairs are near in all repeats, as they then remain.

    Under attraction the smallest inner product m = <x_i, x_j> >= 0 can't fall: its rate is a sum of
    positive multiples of <x_k, x_j> - m <x_k, x_i> >= m (1 - <x_k, x_i>) >= 0, and of the same
    with i and j exchanged.
    """
    return bool((near == pairs).all())


def _arrival(dynamics: AnyAttention, n: int, delta: float) -> float:
    if not _is_attractive(dynamics):
        return float("nan")
    try:
        return orthogonal_arrival(dynamics, n, delta)
    except ValueError:
        # all arguments were checked, so only t* itself can exceed double precision
        return float("inf")
