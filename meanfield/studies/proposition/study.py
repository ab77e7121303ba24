"""Proposition 3.4, part by part, and what follows from the parts."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from tqdm import tqdm

from meanfield.arguments import boolean, generator, integer, number, shown
from meanfield.executors import mapped_by
from meanfield.harmonics import bandwidth
from meanfield.studies.proposition.adversary import adversary
from meanfield.studies.proposition.coefficients import coefficients
from meanfield.studies.proposition.discrete import discrete
from meanfield.studies.proposition.evidence import OPEN, Evidence
from meanfield.studies.proposition.flows import flows
from meanfield.studies.proposition.identity import identity
from meanfield.studies.proposition.kernels import Kernel, checked_kernel
from meanfield.studies.proposition.problem import LEAST_BETA, Problem, attention
from meanfield.studies.proposition.search import search
from meanfield.studies.proposition.signs import signs
from meanfield.studies.proposition.verdict import statement, verdict

PARTS = ("coefficients", "identity", "search", "flows", "discrete")
# those that ask the kernel only, not the dynamics
_OF_KERNELS = PARTS[:3]
_LARGEST_BETA, _LARGEST_DIM = 1e3, 1024
# below it degrees k >= 2 linger for times of order β^(1-k), and optima are alike in energy
_LEAST_BETA_OF_RUNS = 1e-3


@dataclass(frozen=True)
class _Task:
    """One part for one β."""

    part: str
    problem: Problem
    interval: tuple[float, float]
    # in place of e^{βt}
    kernel: Kernel | None
    # of the coefficients; sums over degrees go to the bandwidth at least
    kmax: int
    samples: int
    starts: int
    most_tokens: int
    seed: np.random.SeedSequence


def proposition_3_4(
    beta: float | tuple[float, float] | None,
    dim: int,
    *,
    kernel: Any = None,
    kmax: int | None = None,
    samples: int = 1000,
    starts: int = 3,
    most_tokens: int = 240,
    rng: np.random.Generator | None = None,
    parts: Sequence[str] = PARTS,
    executor: Executor | str | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Whether σ is the only minimiser of E_β, and Diracs its only maximisers (Proposition 3.4).

    E_β(mu) - E_β(σ) = 1/(2β) Σ_{k>=1} Λ_k |mu_k|², so it is, if and only if Λ_k > 0 for all k >= 1;
    and E_β(δ) is then the maximum, since r_k = |mu_k|²/N_k <= 1, with r_1 = |∫ x dmu|² = 1 for
    Diracs only. Each part looks at that in a way of its own:

    - coefficients: Λ_k > 0 in ball arithmetic, over the whole interval of β (python-flint, the
      extra `proof`), and three evaluations of Λ_k;
    - identity: the equation above against the double integral;
    - search: random measures, then gradients that try to beat either bound;
    - flows: the repulsive flow ends at σ, the attractive one at a Dirac;
    - discrete: n repulsive tokens stay above E(σ) in the optima that are known (section 9.1).

    The verdict is about the statement, and says no more than was shown. It is 'proved' where balls
    prove Λ_k > 0, whatever floating point says: what differs there is the `note`, a fault of this
    package or its libraries. 'refuted' needs a `witness`: Λ_k <= 0 for a degree, exactly or beyond
    its rounding, or a measure beyond a bound by more than its error. 'holds numerically' is said of
    evaluations of Λ_k that agree. All else is 'undecided', with the `reason`: parts without the
    coefficients, which can't but fail to refute; numbers that differ; and kernels that are given as
    functions, since what is below rounding, or beyond kmax, may be 0.

    Polynomials have Λ_k = 0 beyond their degree, so 1 + P_k has the energy of σ: never unique.
    Below β = 1e-3 flows and discrete are not looked at, below 1e-290 only the coefficients are.

    Parameters
    ----------
    beta : float or (float, float)
        β >= 0, up to 1000; or an interval 0 < low < high over which Λ_k > 0 is proved, while the
        other parts look at its ends and at their geometric mean. None with a kernel.
    dim : int
        Ambient dimension, 2 <= d <= 1024.
    kernel : callable or array_like, optional
        W in E(mu) = ½ ∬ W(<x,y>) dmu dmu in place of e^{βt}/β: a function of an array t in [-1, 1],
        right to 1e-13 of its size, or coefficients a_0, a_1, … of Σ a_m t^m, at most 257, which
        are taken as exact. For coefficients, identity and search.
    kmax : int, optional
        Largest degree of the coefficients that is looked at one by one; the bandwidth of e^{βt} if
        omitted, to which other parts sum at least. Of a function, 48 if omitted: it must have no
        degrees beyond. Not used for a polynomial, which has its own.
    samples : int
        Random measures of the search.
    starts : int
        Of gradients, flows, and searches for configurations.
    most_tokens : int
        Largest number of tokens of a configuration.
    rng : numpy Generator, optional
        `default_rng(0)` if omitted. What is found does not depend on the executor.
    parts : sequence of str
        Which parts.
    executor : concurrent.futures.Executor or 'processes', optional
        Where the parts are done; here, one after the other, without one.
    progress : bool
        Whether to show a bar that counts the parts.

    Returns
    -------
    xarray.Dataset
        Attributes: `verdict` ('proved', 'holds numerically', 'undecided' or 'refuted'),
        `statement`, what the verdict is about, and `witness`, `reason` or `note`, where there is
        one. Over (beta, part): `status` ('proved', 'holds', 'open' where it is not decided,
        'differs' where numbers that must agree do not, 'fails') and `finding`. Over beta and an
        axis of its own what each part found; energies as shares of U = E(δ) - E(σ), of a
        kernel max |W - Λ_0|/2 (`share`, `defect`, `margin`, `token_share`), or as E/E(σ)
        (`energy_ratio`).

    Raises
    ------
    ValueError
        If an argument is out of range, or a kernel is constant, not smooth, or goes on beyond kmax.

    Examples
    --------
    >>> ds = proposition_3_4(None, 3, kernel=[0, -1, 0, 1], samples=20, parts=["search"])
    >>> ds.attrs["verdict"]
    'refuted'
    """
    dim = integer("dim", dim, low=2, high=_LARGEST_DIM)
    counts = (
        integer("samples", samples, low=1),
        integer("starts", starts, low=1),
        integer("most_tokens", most_tokens, low=4),
    )
    kmax = None if kmax is None else integer("kmax", kmax, low=1, high=4096)
    rng = np.random.default_rng(0) if rng is None else generator("rng", rng)
    chosen = _parts(parts)
    interval = _interval(beta, kernel)
    given = None
    if kernel is not None or interval[1] == 0.0:
        # at β = 0 the energy is that of t
        given = checked_kernel([0.0, 1.0] if kernel is None else kernel, dim, kmax)
        problems = [given.problem]
        chosen = [part for part in chosen if part in _OF_KERNELS]
    else:
        size = bandwidth(interval[1], dim)
        problems = [attention(one, dim, max(size, kmax or 0)) for one in _betas(interval)]
        kmax = kmax or size
    if not chosen:
        raise ValueError(f"parts must have one of {_OF_KERNELS} for a kernel, got {shown(parts)}")
    seeds = iter(np.random.SeedSequence(rng.integers(1 << 32, size=8).tolist()).spawn(64))
    tasks = [
        _Task(part, problem, interval, given, kmax or problem.kmax, *counts, next(seeds))
        for problem in problems
        for part in chosen
    ]
    bar = tqdm(
        mapped_by(executor, _examined, tasks),
        total=len(tasks),
        disable=not boolean("progress", progress),
        desc="proposition 3.4",
    )
    return _joined(tasks, list(bar), interval, kernel is not None)


def _parts(parts: Sequence[str]) -> list[str]:
    several = isinstance(parts, Sequence) and not isinstance(parts, str)
    given = list(parts) if several else [parts]
    if not given or not all(isinstance(part, str) and part in PARTS for part in given):
        raise ValueError(f"parts must be among {PARTS}, at least one, got {shown(parts)}")
    return [part for part in PARTS if part in given]


def _interval(beta: Any, kernel: Any) -> tuple[float, float]:
    if kernel is not None:
        if beta is not None:
            raise ValueError(
                f"beta must be None with a kernel, which is in its place, got {shown(beta)}"
            )
        return np.nan, np.nan
    if not isinstance(beta, Sequence | np.ndarray) or isinstance(beta, str):
        point = number("beta", beta, low=0, high=_LARGEST_BETA)
        return point, point
    if len(beta) != 2:
        raise ValueError(f"beta must be one number or two, low and high, got {shown(beta)}")
    low = number("beta", beta[0], above=0, high=_LARGEST_BETA)
    return low, number("beta", beta[1], above=low, high=_LARGEST_BETA)


def _betas(interval: tuple[float, float]) -> list[float]:
    low, high = interval
    middle = float(np.sqrt(low) * np.sqrt(high))
    # neighbours have no mean between them
    return [low, middle, high] if low < middle < high else sorted({low, high})


def _examined(task: _Task) -> list[Evidence]:
    problem, rng = task.problem, np.random.default_rng(task.seed)
    if task.part == "coefficients":
        if task.kernel is not None:
            return [signs(task.kernel)]
        return [coefficients(problem, task.interval, task.kmax)]
    if problem.beta < (LEAST_BETA if task.part in _OF_KERNELS else _LEAST_BETA_OF_RUNS):
        names = ("search", "adversary") if task.part == "search" else (task.part,)
        return [_not_looked_at(name, problem.beta) for name in names]
    if task.part == "identity":
        return [identity(problem, rng)]
    if task.part == "search":
        return [search(problem, task.samples, rng), adversary(problem, task.starts, rng)]
    if task.part == "flows":
        return [flows(problem, task.starts, rng)]
    return [discrete(problem, task.starts, task.most_tokens, rng)]


def _not_looked_at(part: str, beta: float) -> Evidence:
    why = "e^{βt} - 1 leaves double precision below 1e-290"
    if part not in _OF_KERNELS and beta >= LEAST_BETA:
        why = (
            "below 0.001 degrees k >= 2 linger for times of order β^(1-k), and configurations of "
            "mean 0 are alike in energy"
        )
    return Evidence(part, OPEN, f"not looked at for β = {beta:g}: {why}", xr.Dataset())


def _joined(
    tasks: list[_Task],
    found: list[list[Evidence]],
    interval: tuple[float, float],
    is_kernel: bool,
) -> xr.Dataset:
    """All evidence as one dataset, with the verdict."""
    rows: dict[float, list[Evidence]] = {}
    for task, evidence in zip(tasks, found, strict=True):
        rows.setdefault(task.problem.beta, []).extend(evidence)
    betas = [interval[0]] if interval[1] == 0.0 else list(rows)
    whole = [
        xr.merge([one.data for one in row], join="outer", compat="no_conflicts")
        for row in rows.values()
    ]
    ds: xr.Dataset = xr.concat(
        whole,
        xr.DataArray(betas, dims="beta", name="beta"),
        data_vars="all",
        coords="minimal",
        compat="override",
        join="outer",
    )
    every = [one for row in rows.values() for one in row]
    names = list(dict.fromkeys(one.part for one in every))
    for name in ("status", "finding"):
        table = [[getattr(one, name) for one in row] for row in rows.values()]
        ds[name] = (("beta", "part"), np.array(table))
    problem = tasks[0].problem
    ds.attrs |= {
        "statement": statement(interval, problem.dim, is_kernel),
        "dim": problem.dim,
        "beta_low": interval[0],
        "beta_high": interval[1],
        **verdict(every),
    }
    return ds.assign_coords(part=names)
