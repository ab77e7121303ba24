"""Correlation of two tokens among n, and how long closures of (8.1) follow it."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from meanfield.arguments import generator, integer, number, real_array
from meanfield.dynamics import USA
from meanfield.executors import mapped_by
from meanfield.studies.correlations.closed import Closed, solved
from meanfield.studies.correlations.equation import CLOSURES
from meanfield.studies.correlations.tokens import BLOCK, Task, followed
from meanfield.tendency import LARGEST_BETA
from meanfield.theory import growth_rates

Array = NDArray[np.float64]

# a closure has broken where it is off by more than both
_ERRORS, _AMOUNT = 3.0, 0.02
_BINS, _PLACES = 36, 145
_MOST_MODES = 256


def two_token_correlation(
    beta: float,
    n: int,
    t_end: float,
    *,
    realisations: int = 1024,
    kmax: int = 6,
    save_at: int | ArrayLike = 40,
    rng: np.random.Generator,
    executor: Executor | str | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """E cos k(θ_1 - θ_2) of n tokens under USA on the circle, by tokens and by closures of (8.1).

    From independent uniform starts ρ^(2)(t, θ_1, θ_2) = ψ(t, θ_2 - θ_1)/2π, and
    ∂_t ψ + ∂_x(g ψ) = (2/n) ∂_x(h ψ), h(x) = e^{β cos x} sin x (Problem 4). The drift
    g = ((2n-4)/n) E[-h(θ_3) | θ_1 = 0, θ_2 = x] needs three tokens; three closures replace it:

    - 'independent', a third token independent of the pair: g = 0. Two tokens on their own;
    - 'cumulant', no three-token cumulant, ρ₃ = f(x) + f(θ) + f(θ-x) - 2 with f = 2πψ: linear;
    - 'kirkwood', Kirkwood's superposition f(x) f(θ) f(θ-x), divided by (f * f)(x) so that the third
      token's law given the pair is a probability.

    All start with the exact slope (2/n) k² I_k(β)/β; cumulant and kirkwood with the exact second
    derivative, too. For n = 2 all are exact. SA has no such equation for a pair, since it
    divides by a sum over all tokens.

    Parameters
    ----------
    beta : float
        0 <= β <= 300.
    n : int
        Number of tokens, n >= 2.
    t_end : float
        > 0. Pairs correlate within some ln(n)/(2 max_k γ_k), γ_k = k² I_k(β)/β.
    realisations : int
        Independent starts, >= 2.
    kmax : int
        Largest k, 1 <= kmax <= 256.
    save_at : int or array_like
        That many equal intervals of [0, t_end], or the times themselves, ascending.
    rng : numpy Generator
        For the starts; they do not depend on the executor.
    executor : concurrent.futures.Executor or 'processes', optional
        Where the tokens' runs are done; here, one after the other, without one.
    progress : bool
        Whether to show a bar that counts blocks of runs.

    Returns
    -------
    xarray.Dataset
        Over (t, k): `correlation`, the mean of cos k(θ_i - θ_j) over pairs and realisations, its
        `standard_error` over realisations, and `linear`, (e^{2γ_k t} - 1)/(n - 1), for large n
        while small (nan where above 1). Over (closure, t, k): `closed`, right to 1e-9, nan beyond
        what was reached. Over (closure, t, x): `psi`, with respect to dx, even in x. Over (t, bin):
        `histogram` of |x| in 36 bins as values of ψ, and `histogram_error`. Over (closure, t):
        `least_density`, the least ψ, and `tail` of the spectrum. Over closure: `status`, one of
        'finished', 'under-resolved' on 8192 modes, 'impossible' where some |E cos kx| > 1, and
        'failed'; `reached`, the last time; and `breaks`, the first time at which some mode is off
        by more than 3 standard errors and more than 0.02, nan if it was followed to no such time;
        `mode_breaks` over (closure, k). `linear_break` is that of `linear`.

    Raises
    ------
    ValueError
        If an argument is out of range, before any run starts.
    ArithmeticError
        If a run of tokens can't go on.
    """
    beta = number("beta", beta, low=0, high=LARGEST_BETA)
    n, count = integer("n", n, low=2), integer("realisations", realisations, low=2)
    kmax = integer("kmax", kmax, low=1, high=_MOST_MODES)
    times = _times(save_at, number("t_end", t_end, above=0))
    rng = generator("rng", rng)
    seeds = np.random.SeedSequence(rng.integers(1 << 32, size=8).tolist()).spawn(count)
    tasks = [
        Task(beta, n, times, kmax, _BINS, seeds[first : first + BLOCK])
        for first in range(0, count, BLOCK)
    ]
    mapped = mapped_by(executor, followed, tasks)
    bar = tqdm(mapped, total=len(tasks), disable=not progress, desc="two_token_correlation")
    found = np.concatenate(list(bar), axis=1)
    means, errors = found.mean(axis=1), found.std(axis=1, ddof=1) / np.sqrt(count)
    places = np.linspace(0.0, np.pi, _PLACES)
    closed = [solved(closure, beta, n, times, kmax, places) for closure in CLOSURES]
    data = {
        **_of_tokens(means, errors, kmax),
        **_of_closures(closed, times),
        **_breaks(closed, _linear(beta, n, times, kmax), times, means, errors),
    }
    return xr.Dataset(
        data,
        coords={
            "t": times,
            "k": np.arange(1, kmax + 1),
            "closure": list(CLOSURES),
            "x": places,
            "bin": np.pi / _BINS * (np.arange(_BINS) + 0.5),
        },
        attrs={
            "dynamics": repr(USA(beta)),
            "beta": beta,
            "n": n,
            "realisations": count,
            "break_errors": _ERRORS,
            "break_amount": _AMOUNT,
        },
    )


def _times(save_at: int | ArrayLike, t_end: float) -> Array:
    if np.ndim(save_at) == 0:
        return np.linspace(0.0, t_end, integer("save_at", save_at, low=1) + 1)
    times = real_array("save_at", save_at, 1)
    if times[0] < 0.0 or times[-1] > t_end or (np.diff(times) <= 0.0).any():
        raise ValueError(f"save_at must be ascending and in [0, {t_end:g}], got {times[:8]}")
    return times


def _linear(beta: float, n: int, times: Array, kmax: int) -> Array:
    """(e^{2γ_k t} - 1)/(n - 1), shape (times, kmax), nan where above 1."""
    rates = growth_rates(USA(beta), 2, kmax)[1:]
    # e^{2γt} = n gives 1
    exponents = np.minimum(2.0 * np.outer(times, rates), 2.0 * np.log(n))
    values = np.expm1(exponents) / (n - 1.0)
    return np.where(values <= 1.0, values, np.nan)


def _of_tokens(means: Array, errors: Array, kmax: int) -> dict[str, Any]:
    # from shares of |x| in [0, π] to the even density on a whole turn
    density = 0.5 * _BINS / np.pi
    name = "mean of cos k(θ_i - θ_j)"
    return {
        "correlation": (("t", "k"), means[:, :kmax], {"long_name": name}),
        "standard_error": (("t", "k"), errors[:, :kmax]),
        "histogram": (("t", "bin"), density * means[:, kmax:], {"long_name": "ψ of tokens"}),
        "histogram_error": (("t", "bin"), density * errors[:, kmax:]),
    }


def _of_closures(closed: list[Closed], times: Array) -> dict[str, Any]:
    over = ("closure", "t")
    reached = [times[np.isfinite(one.tail)][-1] for one in closed]
    return {
        "closed": ((*over, "k"), np.array([one.modes for one in closed])),
        "psi": ((*over, "x"), np.array([one.psi for one in closed])),
        "least_density": (over, np.array([one.least for one in closed])),
        "tail": (over, np.array([one.tail for one in closed])),
        "status": ("closure", np.array([one.status for one in closed])),
        "reached": ("closure", np.array(reached), {"long_name": "last time that was resolved"}),
    }


def _breaks(
    closed: list[Closed], linear: Array, times: Array, means: Array, errors: Array
) -> dict[str, Any]:
    """First times at which modes are off, and the linear formula itself."""
    kmax = linear.shape[1]
    allowed = np.maximum(_ERRORS * errors[:, :kmax], _AMOUNT)

    def first(values: Array, off_at_the_end: bool) -> Array:
        off = np.abs(values - means[:, :kmax]) > allowed
        if off_at_the_end:
            off |= np.isnan(values)
        return np.where(off.any(axis=0), times[off.argmax(axis=0)], np.nan)

    each = np.array([first(one.modes, one.status == "impossible") for one in closed])
    any_mode = np.where(np.isnan(each), np.inf, each).min(axis=1)
    # beyond 1 the formula is no correlation
    last = np.where(np.isnan(first(linear, True)), np.inf, first(linear, True)).min()
    return {
        "linear": (("t", "k"), linear, {"long_name": "(e^{2γ_k t} - 1)/(n - 1)"}),
        "breaks": ("closure", np.where(np.isinf(any_mode), np.nan, any_mode)),
        "mode_breaks": (("closure", "k"), each),
        "linear_break": ((), float(last) if np.isfinite(last) else np.nan),
    }
