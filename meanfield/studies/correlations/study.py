"""Correlation of two tokens among n, and how long closures of (8.1) follow it."""

from __future__ import annotations

from concurrent.futures import Executor

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from meanfield.arguments import boolean, generator, integer, is_single, number, real_array
from meanfield.executors import mapped_by
from meanfield.studies.correlations.closed import solved
from meanfield.studies.correlations.equation import CLOSURES
from meanfield.studies.correlations.tables import correlations
from meanfield.studies.correlations.tokens import BLOCK, Task, followed
from meanfield.tendency import LARGEST_BETA

Array = NDArray[np.float64]

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
        Independent starts, >= 2; some hundred to tell a closure that breaks from chance.
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
        while small (nan where above 1). Over (closure, t, k): `closed`, right to 1e-11, nan beyond
        what was reached. Over (closure, t, x): `psi`, with respect to dx, even in x, right
        to 1e-9 of its largest value. Over (t, bin): `histogram` of |x| in 36 bins as values of ψ,
        and `histogram_error`. Over (closure, t): `least_density`, the least ψ, and `tail` of the
        spectrum. Over closure: `status`, one of
        'finished', 'under-resolved' on 8192 modes, 'impossible' where some |E cos kx| > 1, and
        'failed'; `reached`, the last time; and `breaks`, the first time at which some mode is off
        by more than 0.02, and than chance alone makes in one study of 10⁴ (`break_errors`
        standard errors), nan if it was followed to no such time; `mode_breaks` over (closure, k).
        `linear_break` is that of `linear`.

    Raises
    ------
    ValueError
        If an argument is out of range, before any run starts.
    ArithmeticError
        If a run of tokens can't go on.

    Notes
    -----
    For β = 1 and 4 and n = 5, 20, 100, independent breaks near a third of ln(n)/(2 max γ_k), at
    correlations of 0.04 to 0.15. For n = 20 and 100 both others break near one half of it, at
    correlations near 0.1; for n = 5 kirkwood holds longer. No closure reaches the clusters, but
    kirkwood stays a law, and its first mode stays near that of tokens for longer.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ds = two_token_correlation(0.0, 2, 2.0, realisations=64, save_at=2, rng=rng)
    >>> ds.closed.sel(closure="kirkwood", k=2).values.round(6)  # tanh^k(t/2), exact for n = 2
    array([0.      , 0.213552, 0.580026])
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
    bar = tqdm(
        mapped,
        total=len(tasks),
        disable=not boolean("progress", progress),
        desc="two_token_correlation",
    )
    found = np.concatenate(list(bar), axis=1)
    places = np.linspace(0.0, np.pi, _PLACES)
    closed = [solved(closure, beta, n, times, kmax, places) for closure in CLOSURES]
    return correlations(tasks[0], count, found, closed, places)


def _times(save_at: int | ArrayLike, t_end: float) -> Array:
    if is_single(save_at):
        return np.linspace(0.0, t_end, integer("save_at", save_at, low=1) + 1)
    times = real_array("save_at", save_at, 1)
    if times[0] < 0.0 or times[-1] > t_end or (np.diff(times) <= 0.0).any():
        raise ValueError(
            f"save_at must be strictly ascending and in [0, {t_end:g}], got {times[:4]}"
        )
    return times
