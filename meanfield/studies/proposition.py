"""Proposition 3.4: uniform is the only minimiser of the energy, Diracs are its only maximisers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from meanfield._checks import generator, integer, is_single, number, shown, some_of
from meanfield.kernels.multipliers import bandwidth
from meanfield.studies import proposition_proof as proof
from meanfield.studies.proposition_evidence import flows, identity, search
from meanfield.studies.tasks import run_tasks, spawn_seeds

PARTS = ("coefficients", "identity", "search", "flows")
FAULT = "a fault of this package or its libraries, not of the proposition"
# those that ask the kernel only, neither measures nor runs of the package
_OF_KERNELS = ("coefficients", "search")
_LARGEST_BETA, _LARGEST_DIM = 1e3, 1024
# below it E(mu)/E(σ) has few digits, and degrees k >= 2 linger for times of order β^(1-k)
_LEAST_BETA = 1e-3


def proposition_3_4(
    beta: float | tuple[float, float] | None,
    dim: int,
    *,
    kernel: Any = None,
    kmax: int | None = None,
    samples: int = 1000,
    starts: int = 3,
    rng: np.random.Generator | None = None,
    parts: Sequence[str] = PARTS,
    executor: Executor | str | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Whether σ is the only minimiser of E_β, and Diracs its only maximisers (Proposition 3.4).

    E_β(mu) - E_β(σ) = 1/(2β) Σ_{k>=1} Λ_k |mu_k|², so it is, if and only if Λ_k > 0 for all k >= 1;
    and E_β(δ) is then the maximum, since r_k = |mu_k|²/N_k <= 1, with r_1 = |∫ x dmu|² = 1 for
    Diracs only. Each part looks at that in a way of its own:

    - coefficients: Λ_k > 0 over the whole interval of β, by sums of positive terms that are rounded
      down;
    - identity: the equation above against the double integral;
    - search: random measures, then gradients that try to beat either bound;
    - flows: the repulsive flow ends at σ, the attractive one at a Dirac.

    The verdict is about the statement, and says no more than was shown. It is 'proved' where
    Λ_k > 0 is, whatever floating point says: what differs there is the `note`, a fault of this
    package or its libraries. 'refuted' needs a `witness`: Λ_k <= 0 for a degree, exactly or beyond
    its rounding, or a measure beyond a bound by more than its error. All else is 'undecided', with
    the `reason`: parts without the coefficients, which can't but fail to refute; and kernels that
    are given as functions, since what is below rounding, or beyond kmax, may be 0.

    Polynomials have Λ_k = 0 beyond their degree, so 1 + P_k has the energy of σ: never unique.
    Below β = 1e-3 identity and flows are not looked at, below 1e-290 only the coefficients are.

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
        are taken as exact. For coefficients and search. Its largest value, without a_0, is between
        1e-100 and 1e100.
    kmax : int, optional
        Largest degree of the coefficients that is looked at one by one; the bandwidth of e^{βt} if
        omitted, to which other parts sum at least. Of a function, 48 if omitted: it must have no
        degrees beyond. Not used for a polynomial, which has its own.
    samples : int
        Random measures of the search.
    starts : int
        Of gradients and flows.
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
        Attributes: `verdict` ('proved', 'undecided' or 'refuted'), `statement`, what the verdict is
        about, and `witness`, `reason` or `note`, where there is one. Over (beta, part): `status`
        ('proved', 'holds', 'open' where it is not decided, 'differs' where numbers that must agree
        do not, 'fails') and `finding`. Over beta and an axis of its own what each part found;
        energies as shares of U = E(δ) - E(σ), of a kernel max |W - Λ_0|/2 (`share`, `defect`,
        `margin`), or as E/E(σ) (`energy_ratio`).

    Raises
    ------
    ValueError
        If an argument is out of range, or a kernel is constant or goes on beyond kmax.

    Examples
    --------
    >>> ds = proposition_3_4(None, 3, kernel=[0, -1, 0, 1], samples=20, parts=["search"])
    >>> ds.attrs["verdict"]
    'refuted'
    """
    dim = integer("dim", dim, low=2, high=_LARGEST_DIM)
    samples, starts = integer("samples", samples, low=1), integer("starts", starts, low=1)
    kmax = None if kmax is None else integer("kmax", kmax, low=1, high=4096)
    rng = np.random.default_rng(0) if rng is None else generator("rng", rng)
    given = some_of("parts", [parts] if is_single(parts) else parts, PARTS)
    chosen = [part for part in PARTS if part in given]
    if kernel is not None and beta is not None:
        raise ValueError(
            f"beta must be None with a kernel, which is in its place, got {shown(beta)}"
        )
    low, high = (np.nan, np.nan) if kernel is not None else _interval(beta)
    betas = [low]
    if kernel is not None or high == 0.0:
        # at β = 0 the energy is that of t
        energies = [proof.kernel_energy([0.0, 1.0] if kernel is None else kernel, dim, kmax)]
        chosen = [part for part in chosen if part in _OF_KERNELS]
    else:
        size = bandwidth(high, dim)
        kmax = kmax or size
        # neighbours have no mean between them
        betas = sorted({low, float(np.clip(np.sqrt(low) * np.sqrt(high), low, high)), high})
        energies = [proof.attention_energy(one, dim, max(size, kmax)) for one in betas]
    if not chosen:
        raise ValueError(f"parts must have one of {_OF_KERNELS} for a kernel, got {shown(parts)}")
    seeds = iter(spawn_seeds(rng, 16))
    tasks = [(part, energy, next(seeds)) for energy in energies for part in chosen]
    examine = partial(
        _examine, interval=(low, high), kmax=kmax or 0, samples=samples, starts=starts
    )
    found = run_tasks(executor, examine, tasks, "proposition 3.4", progress)
    rows = [found[i : i + len(chosen)] for i in range(0, len(found), len(chosen))]
    ds: xr.Dataset = xr.concat(
        [xr.merge([one.data for one in row], join="outer", compat="no_conflicts") for row in rows],
        xr.DataArray(betas, dims="beta", name="beta"),
        data_vars="all",
        coords="minimal",
        compat="override",
        join="outer",
    )
    ds["status"] = ("beta", "part"), [[one.status for one in row] for row in rows]
    ds["finding"] = ("beta", "part"), [[one.finding for one in row] for row in rows]
    ds.attrs |= {
        "statement": _statement((low, high), dim, kernel is not None),
        "dim": dim,
        "beta_low": low,
        "beta_high": high,
        **verdict([(task[0], one) for task, one in zip(tasks, found, strict=True)]),
    }
    return ds.assign_coords(part=chosen)


def _examine(
    task: tuple[str, proof.KernelEnergy, np.random.SeedSequence],
    interval: tuple[float, float],
    kmax: int,
    samples: int,
    starts: int,
) -> proof.Evidence:
    """One part for one β, or for the kernel."""
    part, energy, seed = task
    beta, rng = energy.beta, np.random.default_rng(seed)
    if part == "coefficients":
        return proof.refute(energy) if energy.kernel else proof.prove(energy, interval, kmax)
    least = proof.LEAST_BETA if part in _OF_KERNELS else _LEAST_BETA
    if beta < least:
        return proof.Evidence(
            proof.OPEN, f"not looked at for β = {beta:g} < {least:g}", xr.Dataset()
        )
    if part == "identity":
        return identity(energy, rng)
    return search(energy, samples, starts, rng) if part == "search" else flows(energy, starts, rng)


def _interval(beta: Any) -> tuple[float, float]:
    if is_single(beta):
        point = number("beta", beta, low=0, high=_LARGEST_BETA)
        return point, point
    if len(beta) != 2:
        raise ValueError(f"beta must be one number or two, low and high, got {shown(beta)}")
    low = number("beta", beta[0], above=0, high=_LARGEST_BETA)
    return low, number("beta", beta[1], above=low, high=_LARGEST_BETA)


def verdict(found: Sequence[tuple[str, proof.Evidence]]) -> dict[str, str]:
    """`verdict`, and `witness`, `reason` or `note` beside it: no more than was shown.

    The statement is that Λ_k > 0 for all k >= 1, so that the coefficients decide. A proof beats all
    floating point. Without it a measure beyond a bound refutes, and all else is undecided.
    """
    proofs = [one for part, one in found if part == "coefficients"]
    faults = [f"coefficients: {one.note}: {FAULT}" for one in proofs if one.note]
    faults += [
        f"{part}: {one.witness or one.finding}: {FAULT}"
        for part, one in found
        if part != "coefficients" and one.status in (proof.FAILS, proof.DIFFERS)
    ]
    witnesses = [one.witness for _, one in found if one.status == proof.FAILS]
    if proofs and all(one.status == proof.PROVED for one in proofs):
        name, outcome, told = "note", proof.PROVED, faults
    elif witnesses:
        name, outcome, told = "witness", "refuted", witnesses
    else:
        reasons = [f"coefficients: {one.finding}" for one in proofs if one.status == proof.OPEN]
        missing = "coefficients: not among the parts, and all others only fail to refute"
        name, outcome, told = "reason", "undecided", (reasons or [missing]) + faults
    told = list(dict.fromkeys(told))
    return {"verdict": outcome} | ({name: "; ".join(told)} if told else {})


def _statement(interval: tuple[float, float], dim: int, is_kernel: bool) -> str:
    """What the verdict is about."""
    text = (
        f"σ is the only minimiser and Diracs are the only maximisers of the energy on S^{dim - 1}"
    )
    low, high = interval
    if is_kernel:
        return f"{text}, E(mu) = 1/2 ∬ W(<x,y>) dmu dmu with the kernel W that was given"
    if high == 0.0:
        return (
            f"{text} at β = 0, where E_0 = |∫ x dmu|²/2: every measure of mean 0 is a minimiser, "
            "and σ one of many. Proposition 3.4 is about β > 0"
        )
    return f"{text}, β = {low!r}" if low == high else f"{text}, β in [{low!r}, {high!r}]"
