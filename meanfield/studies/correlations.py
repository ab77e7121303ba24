"""Two-token correlations from uniform starts: tokens, and closures of the hierarchy (8.1)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp
from scipy.special import stdtrit

from meanfield._checks import generator, integer, number, times_until
from meanfield.dynamics.isotropic import USA
from meanfield.equations.batch import LARGEST_BETA
from meanfield.evolution.batch import evolve_batch
from meanfield.kernels.multipliers import bandwidth
from meanfield.laws.law import Uniform
from meanfield.spaces.circle import Circle
from meanfield.spaces.geometry import circle_points
from meanfield.studies.executors import labelled, run_tasks, spawn_seeds
from meanfield.theory import growth_rates
from meanfield.typing import Array, ArrayLike, Rng

CLOSURES = ("independent", "cumulant", "kirkwood")
# a histogram cuts [0, π] into so many equal parts
_BINS = 36


class PairEquation:
    """d/dt of the cosine coefficients c_k = E cos kx of f = 2πψ, x = θ_2 - θ_1.

    From θ_i' = -(1/n) Σ_j h(θ_i - θ_j), h(x) = e^{β cos x} sin x, and uniform starts, (8.1):
    ∂_t f = ∂_x(((2/n) h + ((2n-4)/n) H) f) with H(x) = E[h(θ_3) | θ_1 = 0, θ_2 = x]. The reflection
    that exchanges 0 and x makes H the pull of third tokens on either end. H f = ∫ h ρ₃ dσ(θ_3),
    ρ₃ the density of (θ_2, θ_3) at θ_1 = 0, which a closure makes of f:

    - independent: ρ₃ = f(x), so H = 0;
    - cumulant: ρ₃ = f(x) + f(θ) + f(θ-x) - 2, no three-token cumulant, so H f = h * f;
    - kirkwood: ρ₃ = f(x) f(θ) f(θ-x)/(f * f)(x), so H = (hf * f)/(f * f).

    Without f * f Kirkwood's ρ₃ has a mass (f * f)(x) of third tokens beside each pair: more than
    one, and without bound as tokens gather. With it there is one, and its law is a probability;
    both agree to second order in f - 1.

    Parameters
    ----------
    closure : str
        Of `CLOSURES`.
    beta : float
    n : int
        n = 2 has no third token, and no closure.
    space : Circle
        h has no coefficients beyond its degrees.
    """

    def __init__(self, closure: str, beta: float, n: int, space: Circle) -> None:
        self._closure, self._space = closure, space
        h = np.exp(beta * np.cos(space.angles)) * np.sin(space.angles)
        self._of_pair, self._of_third = 2.0 / n, (2.0 * n - 4.0) / n
        self._h, self._h_modes = h, space.analysis(h)
        self._degrees = space.degrees.astype(np.float64)

    def __call__(self, t: float, c: Array) -> Array:  # noqa: ARG002 (the field has no clock)
        """dc/dt, shape (kmax + 1,); that of c_0 is 0."""
        space, f = self._space, self._space.synthesis(c)
        pulled = self._h * f
        flux = self._of_pair * pulled
        if self._closure == "cumulant":
            flux += self._of_third * space.synthesis(self._h_modes * c)
        elif self._closure == "kirkwood":
            with_third = space.synthesis(space.analysis(pulled) * c)
            # f * f is positive where f >= 0 is; elsewhere a nan ends the run
            with np.errstate(divide="ignore", invalid="ignore"):
                flux += self._of_third * f * with_third / space.synthesis(c * c)
        # the flux is an odd series, whose coefficients are imaginary
        return np.asarray(-self._degrees * space.analysis(flux).imag)


# a task has so many repeats, which are a few chunks of the integrator
BLOCK = 64
# these tolerances are far below what repeats leave open
_RTOL, _ATOL = 1e-8, 1e-10


def followed(
    seeds: list[np.random.SeedSequence], beta: float, n: int, times: Array, kmax: int
) -> Array:
    """`pairs_of` of a repeat for each seed, shape (times, repeats, kmax + bins)."""
    starts = np.array([Uniform(2).sample(n, np.random.default_rng(seed)) for seed in seeds])
    observe = partial(pairs_of, kmax=kmax)
    correlations = evolve_batch(starts, USA(beta), times, rtol=_RTOL, atol=_ATOL, observe=observe)
    return np.asarray(correlations)


def pairs_of(gram: Array, kmax: int) -> Array:
    """Means over the pairs i < j of each repeat: cos kx, k = 1 … kmax, and shares of |x| in bins.

    Parameters
    ----------
    gram : ndarray, shape (r, n, n)
        Inner products, cos x of x = θ_j - θ_i.
    kmax : int

    Returns
    -------
    ndarray, shape (r, kmax + bins)
    """
    count, n, _ = gram.shape
    first, second = np.triu_indices(n, 1)
    cosines = np.clip(gram[:, first, second], -1.0, 1.0)
    means = np.empty((count, kmax + _BINS))
    previous, present = np.ones_like(cosines), cosines
    for k in range(kmax):
        means[:, k] = present.mean(axis=1)
        previous, present = present, 2.0 * cosines * present - previous
    # |x| = π is in the last bin
    part = np.minimum((np.arccos(cosines) * (_BINS / np.pi)).astype(np.intp), _BINS - 1)
    part += _BINS * np.arange(count)[:, None]
    counts = np.bincount(part.ravel(), minlength=count * _BINS).reshape(count, _BINS)
    means[:, kmax:] = counts / len(first)
    return means


# each of a thousand coefficients has this error, and their errors may add up in f
RTOL, ATOL = 1e-12, 1e-14
# the coefficient of degree 0 is 1, and rounding in 8192 values of f stays below this
TAIL_TOL = 1e-11
FIRST_SIZE, LAST_SIZE = 128, 1 << 13
# a law has |E cos kx| <= 1, up to rounding
_LARGEST = 1.0 + 1e-9
# a run begins with this step, and adapts it
_FIRST_STEP = 1e-3


class _Limit:
    """An event that ends a leg when a size of the coefficients reaches its limit."""

    terminal, direction = True, -1.0

    def __init__(self, size: Callable[[Array], float], limit: float) -> None:
        self._size, self._limit = size, limit

    def __call__(self, t: float, c: Array) -> float:  # noqa: ARG002 (scipy gives the time)
        return self._limit - self._size(c)


@dataclass(frozen=True)
class Closed:
    """The solution of a closed equation at the times that it reached.

    Attributes
    ----------
    status : str
        'finished', 'under-resolved', 'impossible' or 'failed'.
    modes : ndarray, shape (times, kmax)
        E cos kx, k = 1 … kmax; nan where it did not arrive.
    psi : ndarray, shape (times, places)
        With respect to dx.
    least : ndarray, shape (times,)
        The least ψ on the grid.
    tail : ndarray, shape (times,)
        The largest coefficient of the last tenth of the spectrum.
    """

    status: str
    modes: Array
    psi: Array
    least: Array
    tail: Array


def solved(closure: str, beta: float, n: int, times: Array, kmax: int, places: Array) -> Closed:
    """Follow one closure from ψ = 1/2π, (8.1).

    Steps are those of DOP853, and end at each time. Where `TAIL_TOL` is reached in the last tenth
    of the spectrum the run goes on with twice the modes, up to `LAST_SIZE`; past that it is
    under-resolved. It ends as impossible where some |E cos kx| > 1, which no law has.
    """
    size = FIRST_SIZE
    while size < 2 * (max(bandwidth(beta, 2), kmax) + 1):
        size *= 2
    space, status, t, step = Circle(size), "finished", 0.0, _FIRST_STEP
    c = np.eye(1, space.kmax + 1)[0]
    limits = _Limit(_tail, TAIL_TOL), _Limit(lambda c: float(np.abs(c).max()), _LARGEST)
    modes, psi = np.full((len(times), kmax), np.nan), np.full((len(times), len(places)), np.nan)
    least, tail = np.full((2, len(times)), np.nan)
    for row, time in enumerate(times):
        while t < time and status == "finished":
            equation, step = PairEquation(closure, beta, n, space), min(step, time - t)
            settings = {"rtol": RTOL, "atol": ATOL, "first_step": step, "events": limits}
            with np.errstate(over="ignore", invalid="ignore"):
                leg = solve_ivp(equation, (t, time), c, "DOP853", **settings)
            # the last step of a leg was cut short, so the next leg begins with twice its longest
            # step
            t, c, step = leg.t[-1], leg.y[:, -1], 2.0 * np.diff(leg.t).max(initial=step)
            is_rough, is_impossible = map(len, leg.t_events)
            if leg.status < 0:
                status = "failed"
            elif is_impossible:
                status = "impossible"
            elif is_rough and space.size >= LAST_SIZE:
                status = "under-resolved"
            elif is_rough:
                c, space = space.embed(c, space.double()).real, space.double()
        if status != "finished":
            break
        modes[row] = c[1 : kmax + 1]
        psi[row] = space.evaluate(c, circle_points(places)) / (2.0 * np.pi)
        least[row] = space.synthesis(c).min() / (2.0 * np.pi)
        tail[row] = _tail(c)
    return Closed(status, modes, psi, least, tail)


def _tail(c: Array) -> float:
    return float(np.abs(c[-(len(c) // 10) :]).max())


# a closure has broken if it is off by more than chance makes one study in ten thousand, over all
# times and modes, and by more than the second number
CHANCE, AMOUNT = 1e-4, 0.02
_ABOUT = {
    "correlation": ("correlation", "mean of cos k(θ_i - θ_j)"),
    "histogram": ("histogram of tokens", "as values of ψ"),
    "linear": ("linear stage", "(e^{2γ_k t} - 1)/(n - 1)"),
    "reached": ("last time that was resolved", ""),
}


def linear_stage(beta: float, n: int, times: Array, kmax: int) -> Array:
    """(e^{2γ_k t} - 1)/(n - 1), shape (times, kmax), nan where above 1."""
    rates = growth_rates(USA(beta), 2, kmax)[1:]
    # values above 1, beyond e^{2γt} = n, are left out
    exponents = np.minimum(2.0 * np.outer(times, rates), 2.0 * np.log(n))
    values = np.expm1(exponents) / (n - 1.0)
    return np.where(values <= 1.0, values, np.nan)


def break_errors(repeats: int, numbers: int) -> float:
    """How many standard errors one of so many means is off by chance, once in 10⁴ studies.

    By Student's t of R - 1 degrees of freedom, and Bonferroni's bound over times and modes.
    """
    return float(-stdtrit(repeats - 1, 0.5 * CHANCE / numbers))


def _breaks(
    closed: list[Closed], linear: Array, times: Array, means: Array, errors: Array
) -> dict[str, tuple[str | tuple[str, ...], Array]]:
    """Return the first times at which modes are off; all of them are exact at t = 0."""
    allowed = np.maximum(errors, AMOUNT)

    def first(values: Array, is_impossible: bool) -> Array:
        is_off = np.abs(values - means) > allowed
        # a value above 1 is off, too
        is_off |= np.isnan(values) & is_impossible
        is_off &= (times > 0.0)[:, None]
        return np.where(is_off.any(axis=0), times[is_off.argmax(axis=0)], np.nan)

    # a closure breaks with the first of its modes, and never where all are nan
    modes = np.array([first(closure.modes, closure.status == "impossible") for closure in closed])
    return {
        "breaks": ("closure", np.fmin.reduce(modes, axis=-1)),
        "mode_breaks": (("closure", "degree"), modes),
        "linear_break": ((), np.fmin.reduce(first(linear, True))),
    }


_PLACES = 145
_MOST_MODES = 256


def two_token_correlation(
    beta: float,
    n: int,
    t_end: float,
    *,
    repeats: int = 1024,
    kmax: int = 6,
    save_at: int | ArrayLike = 40,
    rng: Rng = 0,
    executor: Executor | str | None = None,
    workers: int | None = None,
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
    repeats : int
        Independent starts, >= 2; some hundred to tell a closure that breaks from chance.
    kmax : int
        Largest k, 1 <= kmax <= 256.
    save_at : int or array_like
        The number of equal intervals of [0, t_end], or the times themselves, ascending.
    rng : int or numpy Generator
        For the starts; they do not depend on the executor.
    executor : concurrent.futures.Executor or 'processes', optional
        It does the tokens' runs; without it and `workers` they are done here, one by one.
    workers : int, optional
        How many processes of this machine; one for each core if omitted.
    progress : bool
        Whether to show a bar that counts blocks of runs.

    Returns
    -------
    xarray.Dataset
        Over (t, degree): `correlation` of the tokens, its `standard_error`, and `linear`, the
        correlation for large n while it is small. Over (closure, t, degree): `closed`, right to
        1e-11. Over (closure, t, x): `psi`, right to 1e-9 of its largest value. Over (t, bin):
        `histogram` of |x|, with `histogram_error`. Over closure: `status`, `reached` and `breaks`,
        the first time at which some mode is off. The page docs/studies.md has all of them.

    Raises
    ------
    ValueError
        If an argument is out of range, before any run starts.
    ArithmeticError
        If a run of tokens can't continue.

    Notes
    -----
    No closure reaches the clusters; docs/studies.md says when each breaks.

    Examples
    --------
    >>> ds = two_token_correlation(0.0, 2, 2.0, repeats=64, save_at=2)
    >>> ds.closed.sel(closure="kirkwood", degree=2).values.round(6)  # tanh^k(t/2), exact for n = 2
    array([0.      , 0.213552, 0.580026])
    """
    beta = number("beta", beta, low=0, high=LARGEST_BETA)
    n, count = integer("n", n, low=2), integer("repeats", repeats, low=2)
    kmax = integer("kmax", kmax, low=1, high=_MOST_MODES)
    times = times_until("save_at", save_at, number("t_end", t_end, above=0))
    seeds = spawn_seeds(generator("rng", rng), count)
    tasks = [seeds[start : start + BLOCK] for start in range(0, count, BLOCK)]
    run = partial(followed, beta=beta, n=n, times=times, kmax=kmax)
    blocks = run_tasks(executor, run, tasks, "two_token_correlation", progress, workers)
    values = np.concatenate(blocks, axis=1)
    places = np.linspace(0.0, np.pi, _PLACES)
    closed = [solved(closure, beta, n, times, kmax, places) for closure in CLOSURES]
    means, errors = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(count)
    allowed_errors = break_errors(count, kmax * len(times))
    linear = linear_stage(beta, n, times, kmax)
    reached = [times[np.isfinite(solution.tail)].max(initial=0.0) for solution in closed]
    # shares of |x| in [0, π] become the even density on a whole turn
    density = 0.5 * _BINS / np.pi
    dims = "closure", "t"
    ds = xr.Dataset(
        {
            "correlation": (("t", "degree"), means[:, :kmax]),
            "standard_error": (("t", "degree"), errors[:, :kmax]),
            "histogram": (("t", "bin"), density * means[:, kmax:]),
            "histogram_error": (("t", "bin"), density * errors[:, kmax:]),
            "linear": (("t", "degree"), linear),
            "closed": ((*dims, "degree"), np.array([solution.modes for solution in closed])),
            "psi": ((*dims, "x"), np.array([solution.psi for solution in closed])),
            "least_density": (dims, np.array([solution.least for solution in closed])),
            "tail": (dims, np.array([solution.tail for solution in closed])),
            "status": ("closure", np.array([solution.status for solution in closed])),
            "reached": ("closure", np.array(reached)),
            **_breaks(closed, linear, times, means[:, :kmax], allowed_errors * errors[:, :kmax]),
        },
        coords={
            "t": times,
            "degree": np.arange(1, kmax + 1),
            "closure": list(CLOSURES),
            "x": places,
            "bin": np.pi / _BINS * (np.arange(_BINS) + 0.5),
        },
        attrs={
            "dynamics": repr(USA(beta)),
            "beta": beta,
            "n": n,
            "repeats": count,
            "break_errors": allowed_errors,
            "break_amount": AMOUNT,
        },
    )
    return labelled(ds, _ABOUT)
