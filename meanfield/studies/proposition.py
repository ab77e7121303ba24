"""Proposition 3.4: uniform is the only minimiser of the energy, Diracs are its only maximisers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import xarray as xr
from numpy.polynomial import Polynomial
from scipy.optimize import minimize

from meanfield import _checks
from meanfield._checks import EPS, generator, integer, is_single, number, real_array, several, shown
from meanfield.dynamics.isotropic import SA
from meanfield.evolution.loop import solve
from meanfield.kernels import multipliers
from meanfield.kernels.direct import blocks
from meanfield.laws import FourierSeries, Law, Mixture, Uniform, VonMisesFisher, ZonalSeries
from meanfield.measures import AnyMeasure, Density, FlowMap, Particles
from meanfield.spaces import Circle, Zonal
from meanfield.spaces.gegenbauer import gauss_gegenbauer, gegenbauer, multiplicities, multiplicity
from meanfield.spaces.geometry import circle_points
from meanfield.studies.executors import labelled, pad, run_tasks, spawn_seeds
from meanfield.theory import growth_rates
from meanfield.typing import Array, ArrayLike, Integers, Rng

PARTS = ("coefficients", "identity", "search", "flows")
FAULT = "a fault of this package or its libraries, not of the proposition"
# these parts use the potential only, neither measures nor runs of the package
_OF_POTENTIALS = ("coefficients", "search")
_LARGEST_BETA, _LARGEST_DIM = 1e3, 1024
# for a smaller β E(mu)/E(σ) has few digits, and degrees k >= 2 linger for times of order β^(1-k)
_LEAST_BETA = 1e-3
_ABOUT = {
    "log_eigenvalue": ("logarithm of the multiplier", "log Λ_k"),
    "log_eigenvalue_lower": ("proved lower bound", "of log Λ_k"),
    "log_eigenvalue_upper": ("proved upper bound", "of log Λ_k"),
    "evaluation_error": ("relative error", "of Λ_k in floating point"),
    "eigenvalue": ("multiplier of the potential", "Λ_k"),
    "energy_ratio": ("energy over the uniform one", "E(mu)/E(σ), double integral"),
    "share": ("energy above the uniform one", "(E(mu) - E(σ))/U"),
    "defect": ("energy below a Dirac's", "(E(δ) - E(mu))/U"),
    "margin": ("distance from the bound", "over U"),
    "flow_gap": ("gap to the bound", ""),
}
# verdicts of a part: 'differs' if numbers disagree that must agree, 'fails' if there is a witness
PROVED, HOLDS, OPEN, DIFFERS, FAILS = "proved", "holds", "open", "differs", "fails"


def proposition_3_4(
    beta: float | tuple[float, float] | None,
    dim: int,
    *,
    potential: Callable[[Array], Array] | ArrayLike | None = None,
    kmax: int | None = None,
    n_measures: int = 1000,
    repeats: int = 3,
    parts: Sequence[str] = PARTS,
    rng: Rng = 0,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> xr.Dataset:
    """Whether σ is the only minimiser of E_β, and Diracs its only maximisers (Proposition 3.4).

    They are if and only if Λ_k > 0 for all k >= 1. Four parts look at that: the coefficients prove
    it or not; the identity of the energy with its series, a search for measures beyond a bound, and
    flows to both bounds try to refute it.

    The verdict claims no more than was shown: 'proved', 'refuted' with a `witness`, or 'undecided'
    with the `reason`. The page docs/studies.md says when it is which.

    Parameters
    ----------
    beta : float or (float, float)
        β >= 0, up to 1000; or an interval 0 < low < high over which Λ_k > 0 is proved, while the
        other parts look at its ends and at their geometric mean. None with a potential.
    dim : int
        Ambient dimension, 2 <= d <= 1024.
    potential : callable or array_like, optional
        W in E(mu) = ½ ∬ W(<x,y>) dmu dmu in place of e^{βt}/β: a function of an array t in
        [-1, 1], right to 1e-13 of its size, or coefficients a_0, a_1, … of Σ a_m t^m, at most 257,
        which are taken as exact. For coefficients and search.
    kmax : int, optional
        Largest degree of the coefficients that is looked at one by one; the bandwidth of e^{βt} if
        omitted, to which other parts sum at least. Of a function, 48 if omitted: it must have no
        degrees beyond. Not used for a polynomial, which has its own.
    n_measures : int
        Random measures of the search.
    repeats : int
        Random starts of gradients and of flows.
    parts : sequence of str
        Which parts.
    rng : int or numpy Generator
        The result does not depend on the executor.
    executor : concurrent.futures.Executor or 'processes', optional
        It does the parts; without it and `workers` they are done here, one after the other.
    workers : int, optional
        How many processes of this machine; one for each core if omitted.
    progress : bool
        Whether to show a bar that counts the parts.

    Returns
    -------
    xarray.Dataset
        Attributes: `verdict` ('proved', 'undecided' or 'refuted'), `statement`, what the verdict is
        about, and `witness`, `reason` or `note`, where there is one. Over (beta, part): `status`
        ('proved', 'holds', 'open' where it is not decided, 'differs' where numbers that must agree
        do not, 'fails') and `finding`. Over beta and an axis of its own what each part found;
        energies as shares of U = E(δ) - E(σ), of a potential max |W - Λ_0|/2 (`share`, `defect`,
        `margin`), or as E/E(σ) (`energy_ratio`).

    Raises
    ------
    ValueError
        If an argument is out of range, or a potential is constant or has degrees beyond kmax.

    Examples
    --------
    >>> ds = proposition_3_4(None, 3, potential=[0, -1, 0, 1], n_measures=20, parts=["search"])
    >>> ds.attrs["verdict"]
    'refuted'
    """
    dim = integer("dim", dim, low=2, high=_LARGEST_DIM)
    n_measures = integer("n_measures", n_measures, low=1)
    repeats = integer("repeats", repeats, low=1)
    kmax = None if kmax is None else integer("kmax", kmax, low=1, high=4096)
    parts_chosen = _checks.some_of("parts", [parts] if is_single(parts) else parts, PARTS)
    chosen = [part for part in PARTS if part in parts_chosen]
    if potential is not None and beta is not None:
        raise ValueError(
            f"beta must be None with a potential, which is in its place, got {shown(beta)}"
        )
    low, high = (np.nan, np.nan) if potential is not None else _interval(beta)
    betas = [low]
    if potential is not None or high == 0.0:
        # at β = 0 the energy is that of the potential t
        energies = [energy_of([0.0, 1.0] if potential is None else potential, dim, kmax)]
        chosen = [part for part in chosen if part in _OF_POTENTIALS]
    else:
        size = multipliers.bandwidth(high, dim)
        kmax = kmax or size
        # two neighbouring floats have no mean between them
        betas = sorted({low, float(np.clip(np.sqrt(low) * np.sqrt(high), low, high)), high})
        energies = [attention_energy(value, dim, max(size, kmax)) for value in betas]
    if not chosen:
        raise ValueError(
            f"parts must have one of {_OF_POTENTIALS} for a potential, got {shown(parts)}"
        )
    seeds = iter(spawn_seeds(generator("rng", rng), 16))
    tasks = [(part, energy, next(seeds)) for energy in energies for part in chosen]
    examine = partial(
        _examine, interval=(low, high), kmax=kmax or 0, n_measures=n_measures, repeats=repeats
    )
    results = run_tasks(executor, examine, tasks, "proposition 3.4", progress, workers)
    rows = [results[i : i + len(chosen)] for i in range(0, len(results), len(chosen))]
    each_beta = [
        xr.merge([evidence.data for evidence in row], join="outer", compat="no_conflicts")
        for row in rows
    ]
    over_beta = xr.DataArray(betas, dims="beta", name="beta")
    ds: xr.Dataset = xr.concat(
        each_beta, over_beta, data_vars="all", coords="minimal", compat="override", join="outer"
    )
    ds["status"] = ("beta", "part"), [[evidence.status for evidence in row] for row in rows]
    ds["finding"] = ("beta", "part"), [[evidence.finding for evidence in row] for row in rows]
    ds.attrs |= {
        "statement": _statement((low, high), dim, potential is not None),
        "dim": dim,
        "beta_lower": low,
        "beta_upper": high,
        **verdict([(task[0], evidence) for task, evidence in zip(tasks, results, strict=True)]),
    }
    return labelled(ds.assign_coords(part=chosen), _ABOUT)


def _examine(
    task: tuple[str, PairEnergy, np.random.SeedSequence],
    interval: tuple[float, float],
    kmax: int,
    n_measures: int,
    repeats: int,
) -> Evidence:
    """Examine one part for one β, or for the potential."""
    part, energy, seed = task
    beta, rng = energy.beta, np.random.default_rng(seed)
    if part == "coefficients":
        return refute(energy) if energy.potential else prove(energy, interval, kmax)
    least = _SMALLEST_BETA if part in _OF_POTENTIALS else _LEAST_BETA
    if beta < least:
        return Evidence(OPEN, f"not looked at for β = {beta:g} < {least:g}", xr.Dataset())
    if part == "search":
        return search(energy, n_measures, repeats, rng)
    return identity(energy, rng) if part == "identity" else flows(energy, repeats, rng)


def _interval(beta: float | tuple[float, float] | None) -> tuple[float, float]:
    if is_single(beta):
        point = number("beta", beta, low=0, high=_LARGEST_BETA)
        return point, point
    ends = several("beta", beta)
    if len(ends) != 2:
        raise ValueError(f"beta must be one number or two, low and high, got {shown(beta)}")
    low = number("beta", ends[0], above=0, high=_LARGEST_BETA)
    return low, number("beta", ends[1], above=low, high=_LARGEST_BETA)


def verdict(findings: Sequence[tuple[str, Evidence]]) -> dict[str, str]:
    """`verdict`, and `witness`, `reason` or `note` beside it: no more than was shown.

    The statement is that Λ_k > 0 for all k >= 1, so that the coefficients decide. A proof beats all
    floating point. Without it a measure beyond a bound refutes, and all else is undecided.
    """
    proofs = [evidence for part, evidence in findings if part == "coefficients"]
    faults = [f"coefficients: {evidence.note}: {FAULT}" for evidence in proofs if evidence.note]
    faults += [
        f"{part}: {evidence.witness or evidence.finding}: {FAULT}"
        for part, evidence in findings
        if part != "coefficients" and evidence.status in (FAILS, DIFFERS)
    ]
    witnesses = [evidence.witness for _, evidence in findings if evidence.status == FAILS]
    if proofs and all(evidence.status == PROVED for evidence in proofs):
        name, outcome, notes = "note", PROVED, faults
    elif witnesses:
        name, outcome, notes = "witness", "refuted", witnesses
    else:
        reasons = [
            f"coefficients: {evidence.finding}" for evidence in proofs if evidence.status == OPEN
        ]
        missing = "coefficients: not among the parts, and all others only fail to refute"
        name, outcome, notes = "reason", "undecided", (reasons or [missing]) + faults
    notes = list(dict.fromkeys(notes))
    return {"verdict": outcome} | ({name: "; ".join(notes)} if notes else {})


def _statement(interval: tuple[float, float], dim: int, is_potential: bool) -> str:
    """Return the statement that the verdict is about."""
    text = (
        f"σ is the only minimiser and Diracs are the only maximisers of the energy on S^{dim - 1}"
    )
    low, high = interval
    if is_potential:
        return f"{text}, E(mu) = 1/2 ∬ W(<x,y>) dmu dmu with the potential W that was given"
    if high == 0.0:
        return (
            f"{text} at β = 0, where E_0 = |∫ x dmu|²/2: every measure of mean 0 is a minimiser, "
            "and σ one of many. Proposition 3.4 is about β > 0"
        )
    return f"{text}, β = {low!r}" if low == high else f"{text}, β in [{low!r}, {high!r}]"


@dataclass(frozen=True)
class Evidence:
    """The findings of one part of the study for one β.

    Attributes
    ----------
    status : str
        'proved', 'holds' (within the error that the part states), 'open' (not decided), 'differs'
        (numbers that must agree do not, which says nothing of the proposition) or 'fails' (there is
        a witness).
    finding : str
        A sentence with the numbers.
    data : xarray.Dataset
    witness : str
        A measure whose energy is beyond a bound, or at it, with the error; where 'fails'.
    note : str
        What differs although the statement is proved.
    """

    status: str
    finding: str
    data: xr.Dataset
    witness: str = ""
    note: str = ""


# rounding may hide this share of the sum of absolute terms
ROUNDING = 1e-13
# for a smaller β, e^{βt} - 1 underflows
_SMALLEST_BETA = 1e-290
# bounds of Λ_k have so many digits
_DIGITS = 50
# a potential has at most so many coefficients, or degrees if it is a function
_MOST, _DEGREES = 257, 48
# potentials are compared at so many cosines
_COSINES = 4001
# a difference over twice this step stands for the derivative of a potential
_STEP = 1e-6


@dataclass(frozen=True)
class PairEnergy:
    """E(mu) = ½ ∬ W(<x,y>) dmu dmu; numbers are (E(mu) - E(σ))/U, U = max |W - Λ_0|/2.

    For W = e^{βt}/β, U = E(δ) - E(σ), so the *share* of a measure is 0 for σ, 1 for a Dirac, and
    Σ_{k>=1} p_k r_k with r_k = ∬ P_k(<x,y>) dmu dmu in [0, 1] and p_k > 0 of sum 1.

    Attributes
    ----------
    dim : int
    weights, unresolved : ndarray, shape (kmax + 1,)
        p_k = N_k Λ_k/(2U) with the Λ_k of W, p_0 = 0, and the error of each.
    dirac : float
        The share of a Dirac.
    centre, deviation : float
        Λ_0 and max |W - Λ_0| of a potential; e^{-β} Λ_0 and 1 - e^{-β} Λ_0 of e^{βt}.
    error : float
        Of `excess` and `defect`, and so of the share of any measure that is summed in pairs.
    beta : float
        nan for another potential.
    potential : callable or None
        W, where it is not e^{βt}/β.
    values, errors : ndarray, shape (kmax + 1,)
        Λ_k of a potential, and their errors.
    exact : list of Fraction
        Λ_k of a polynomial, k = 0 … degree; empty for others.
    """

    dim: int
    weights: Array
    unresolved: Array
    dirac: float
    centre: float
    deviation: float
    error: float
    beta: float = np.nan
    potential: Callable[[Array], Array] | None = None
    values: Array = field(default_factory=lambda: np.zeros(0))
    errors: Array = field(default_factory=lambda: np.zeros(0))
    exact: Sequence[Fraction] = ()

    @property
    def kmax(self) -> int:
        """The last degree that is looked at."""
        return len(self.weights) - 1

    def excess(self, t: Array) -> Array:
        """(W(t) - Λ_0)/max |W - Λ_0|: its double integral over a measure is the share."""
        if self.potential is None:
            return np.asarray(1.0 + np.expm1(self.beta * (t - 1.0)) / self.deviation)
        return np.asarray((self.potential(t) - self.centre) / self.deviation)

    def defect(self, squared: Array) -> Array:
        """(W(1) - W(t))/max |W - Λ_0|, t = 1 - |x-y|²/2, of the squares of distances."""
        if self.potential is None:
            return np.asarray(-np.expm1(-0.5 * self.beta * squared) / self.deviation)
        t = np.maximum(1.0 - 0.5 * squared, -1.0)
        return np.asarray((self.potential(np.ones(1)) - self.potential(t)) / self.deviation)

    def derivative(self, t: Array) -> Array:
        """The derivative of `excess`."""
        if self.potential is None:
            return np.asarray(self.beta * np.exp(self.beta * (t - 1.0)) / self.deviation)
        high, low = np.minimum(t + _STEP, 1.0), np.maximum(t - _STEP, -1.0)
        difference = self.potential(high) - self.potential(low)
        return np.asarray(difference / (high - low) / self.deviation)


def attention_energy(beta: float, dim: int, kmax: int) -> PairEnergy:
    """E_β, W = e^{βt}/β, β > 0; below 1e-290 with the weights of β = 1e-290, to rounding."""
    least = max(beta, _SMALLEST_BETA)
    # the gap sums all degrees, whatever kmax is
    highest = max(kmax, 2 * multipliers.bandwidth(least, dim))
    shares = multipliers.degree_weights(least, dim, highest)
    gap = float(shares[1:].sum())
    weights = np.append(0.0, shares[1 : kmax + 1] / gap)
    # an exponential rounds its argument, which is of order β where neither it nor 1 dominates
    error = ROUNDING + 8.0 * EPS * beta
    return PairEnergy(dim, weights, ROUNDING * weights, 1.0, float(shares[0]), gap, error, beta)


def energy_of(
    potential: Callable[[Array], Array] | ArrayLike, dim: int, kmax: int | None
) -> PairEnergy:
    """The energy of a callable of t, or of the polynomial of coefficients a_0, a_1, ….

    Λ_k of a polynomial are exact, those of a callable are right to 1e-13 ∫ |W P_k| dσ.

    Raises
    ------
    ValueError
        If it is neither, not finite on [-1, 1], constant, of a size beyond 1e±100, or has degrees
        beyond kmax.
    """
    exact: list[Fraction] = []
    if callable(potential):
        function: Callable[[Array], Array] = potential
    else:
        coefficients = _coefficients(potential)
        exact = exact_coefficients([Fraction(a) for a in coefficients], dim)
        # a constant adds to all energies alike, and would drown the rest
        function, kmax = Polynomial([0.0, *coefficients[1:]]), len(coefficients) - 1
    kmax = kmax or _DEGREES
    grid = np.concatenate([np.linspace(-1.0, 1.0, _COSINES), gauss_gegenbauer(dim, 64)[0]])
    on_grid = function(grid)
    if getattr(on_grid, "shape", None) != grid.shape:
        raise ValueError(f"potential must give an array, a number for each t, got {shown(on_grid)}")
    on_grid = real_array("potential(t), t in [-1, 1],", on_grid, 1)
    largest = float(np.abs(on_grid).max())
    if largest and not 1e-100 <= largest <= 1e100:
        raise ValueError(
            f"potential must have its largest value in [1e-100, 1e100], got {largest:g}"
        )
    if exact:
        values = np.array([float(coefficient) for coefficient in exact])
        errors, centre = np.spacing(np.abs(values)), float(exact[0] - Fraction(coefficients[0]))
        sizes = np.array(
            [float(multiplicity(dim, k) * coefficient) for k, coefficient in enumerate(exact)]
        )
        rounding = ROUNDING * np.abs(sizes)
        # Horner's rule rounds like the sum of absolute terms
        terms = float(np.abs(coefficients[1:]).sum())
    else:
        nodes, weights = gauss_gegenbauer(dim, 2 * kmax + 64)
        # Λ_k = ∫ W(t) P_k(t) dσ, and the rounding error of each
        products = gegenbauer(dim, kmax, nodes) * (weights * function(nodes))
        values, errors = products.sum(axis=1), ROUNDING * np.abs(products).sum(axis=1)
        counts = multiplicities(dim, kmax)
        sizes, rounding = np.where(np.abs(values) > errors, values, 0.0) * counts, errors * counts
        _check_end(dim, grid, on_grid, sizes, rounding)
        centre = float(values[0])
        terms = largest + abs(centre)
    sizes[0] = rounding[0] = 0.0
    largest_gap = float(np.abs(on_grid - centre).max())
    if not largest_gap > ROUNDING * largest or not sizes.any():
        raise ValueError(
            f"potential must not be constant on [-1, 1] to {ROUNDING:g}, got {values[0]:g}"
        )
    # W(1) is the last value before those at Gauss nodes
    dirac = (float(on_grid[_COSINES - 1]) - centre) / largest_gap
    error = ROUNDING * terms / largest_gap
    weights, unresolved = sizes / largest_gap, rounding / largest_gap
    numbers = dirac, centre, largest_gap, error, np.nan
    return PairEnergy(dim, weights, unresolved, *numbers, function, values, errors, exact)


def _coefficients(potential: ArrayLike) -> Array:
    """Return a_0, a_1, … without the zeros at the end."""
    if is_single(potential):
        raise ValueError(
            f"potential must be a callable of t or coefficients a_0, a_1, …, got {shown(potential)}"
        )
    coefficients = real_array("potential", potential, 1)
    if len(coefficients) > _MOST:
        raise ValueError(
            f"potential must have at most {_MOST} coefficients, got {len(coefficients)}"
        )
    return np.append(coefficients[:1], np.trim_zeros(coefficients[1:], "b"))


def _check_end(dim: int, grid: Array, values: Array, terms: Array, errors: Array) -> None:
    """Refuse values that miss Σ_{k <= kmax} N_k Λ_k P_k by more than the errors of the Λ_k."""
    kmax, largest = len(terms) - 1, float(np.abs(values).max())
    table = gegenbauer(dim, kmax, grid)
    allowed = (errors + ROUNDING * np.abs(terms)) @ np.abs(table) + 10.0 * ROUNDING * largest
    differences = np.abs(values - terms @ table)
    if not (differences <= allowed).all():
        worst = int(np.argmax(differences - allowed))
        raise ValueError(
            f"potential must have no degrees beyond kmax = {kmax}, but W differs from "
            f"Σ_(k <= kmax) N_k Λ_k P_k by {differences[worst] / largest:.2g} of its largest "
            f"value at t = {grid[worst]:g}"
        )


def exact_coefficients(polynomial: Sequence[Fraction], dim: int) -> list[Fraction]:
    """Λ_k = Σ_m a_m ∫ t^m P_k dσ of Σ a_m t^m, k = 0 … degree.

    ∫ t^m P_k dσ = m!/(2^j j! d (d+2) … (d + 2(k+j) - 2)), m = k + 2j: the coefficient of β^m/m! in
    the power series of Λ_k(β, d).

    Examples
    --------
    >>> [str(value) for value in exact_coefficients([Fraction(a) for a in (0, -1, 0, 1)], 3)]
    ['0', '-2/15', '0', '2/35']
    """
    coefficients, moment_k = [], Fraction(1)
    for k in range(len(polynomial)):
        # the moment is ∫ t^k P_k dσ first, and then two powers on at a time
        moment, total = moment_k, Fraction(0)
        for m in range(k, len(polynomial), 2):
            total += polynomial[m] * moment
            moment *= Fraction((m + 1) * (m + 2), (m + 2 - k) * (dim + m + k))
        coefficients.append(total)
        moment_k *= Fraction(k + 1, dim + 2 * k)
    return coefficients


def enclose(beta: float, dim: int, kmax: int, rounding: str) -> list[Decimal]:
    """Bounds of Λ_0 … Λ_kmax at β >= 0, from below (ROUND_FLOOR) or above (ROUND_CEILING).

    Λ_k = β^k/(d (d+2) … (d+2k-2)) F_k with F_k = Σ_j (β²/4)^j/(j! (k+d/2)_j), and from the last
    two downwards F_k = F_{k+1} + β²/((2k+d)(2k+d+2)) F_{k+2}. Every number is positive and every
    operation is rounded one way, so that what comes out is a bound.
    """
    with localcontext(Context(_DIGITS, rounding, MIN_EMIN, MAX_EMAX)):
        exact = Decimal(beta)
        square = exact * exact
        sums = [_power_series(square, dim + 2 * k, rounding) for k in (kmax + 1, kmax)]
        for order in range(dim + 2 * kmax - 2, dim - 1, -2):
            sums.append(sums[-1] + square / (order * (order + 2)) * sums[-2])
        enclosures, leading = [], Decimal(1)
        for k in range(kmax + 1):
            enclosures.append(leading * sums[-1 - k])
            leading *= exact / (dim + 2 * k)
        return enclosures


def _power_series(square: Decimal, order: int, rounding: str) -> Decimal:
    """Return F_k for 2k + d = order and β²; the rest is positive and less than the last term."""
    term = total = Decimal(1)
    for j in count(1):
        ratio = square / (2 * j * (order + 2 * j - 2))
        term *= ratio
        total += term
        if 2 * ratio < 1 and term <= total.scaleb(-_DIGITS):
            break
    return total + term if rounding == ROUND_CEILING else total


def prove(energy: PairEnergy, interval: tuple[float, float], kmax: int) -> Evidence:
    """Λ_k(β, d) > 0, k <= kmax, for all β of an interval; and the package's Λ_k at one of them.

    Λ_k grows with β >= 0, as each term of its series does, so a lower bound at the lower end that
    is positive proves it. Numbers of the package that are not within the bounds are a note.
    """
    (low, high), dim, beta = interval, energy.dim, energy.beta
    floors, ceilings = enclose(low, dim, kmax, ROUND_FLOOR), enclose(high, dim, kmax, ROUND_CEILING)
    degrees_missed = [k for k, bound in enumerate(floors) if not bound > 0]
    if degrees_missed:
        return Evidence(OPEN, f"Λ_k > 0 is not shown for k in {degrees_missed}", xr.Dataset())
    with localcontext(Context(_DIGITS, None, MIN_EMIN, MAX_EMAX)):
        # logarithms are right to 50 digits
        lower = np.nextafter([float(bound.ln()) for bound in floors], -np.inf)
        upper = np.nextafter([float(bound.ln()) for bound in ceilings], np.inf)
        shrink = (-Decimal(beta)).exp()
        bounds = [float(bound * shrink) for bound in enclose(beta, dim, kmax, ROUND_FLOOR)]
    logs = multipliers.log_eigenvalues(beta, dim, kmax)
    scaled = multipliers.scaled_eigenvalues(beta, dim, kmax)
    is_held = scaled > _SMALLEST_BETA
    errors = np.full(kmax + 1, np.nan)
    errors[is_held] = np.abs(np.array(bounds)[is_held] / scaled[is_held] - 1.0)
    worst = float(np.nanmax(errors))
    slack = ROUNDING * np.maximum(1.0, np.abs(logs))
    agree = worst <= ROUNDING and ((lower - slack <= logs) & (logs <= upper + slack)).all()
    note = "" if agree else "Λ_k of the package is not within its bounds"
    where = f"β = {low!r}" if low == high else f"all β in [{low!r}, {high!r}]"
    finding = (
        f"Λ_k > 0 for {where}, k <= {kmax} by sums that are rounded down"
        f"{'' if low == high else ' at the lower end, from where Λ_k grows'}, k > {kmax} by "
        f"0 < Λ_(k+1)/Λ_k < β/(2k+d); at β = {beta:g} Λ_k is right to {worst:.1e}"
    )
    columns = {
        "log_eigenvalue": logs,
        "log_eigenvalue_lower": lower,
        "log_eigenvalue_upper": upper,
        "share_of_degree": energy.weights[: kmax + 1],
        "evaluation_error": errors,
    }
    return Evidence(PROVED, finding, _over("degree", np.arange(kmax + 1), columns), note=note)


def _over(axis: str, labels: Sequence[str] | Integers, columns: dict[str, Array]) -> xr.Dataset:
    """Return a dataset of arrays over one axis with these labels."""
    return xr.Dataset({name: (axis, values) for name, values in columns.items()}, {axis: labels})


def refute(energy: PairEnergy) -> Evidence:
    """Λ_k <= 0 for some k >= 1 refutes: a polynomial has Λ_k = 0 beyond its degree.

    Of a polynomial exactly. Of a function beyond 1e-13 ∫ |W P_k| dσ; what is below it, and beyond
    kmax, may be 0, so that no function is shown to have Λ_k > 0 throughout.
    """
    kmax = energy.kmax
    # a fraction has its sign, which no rounding hides
    values = energy.exact or energy.values
    errors = np.zeros(kmax + 1) if energy.exact else energy.errors
    negative = [k for k in range(1, kmax + 1) if values[k] < -errors[k]]
    hidden = [k for k in range(1, kmax + 1) if abs(values[k]) <= errors[k]]
    k = (negative or hidden or [kmax + 1])[0]
    witnesses, density = [], f"the density 1 + P_{k}(<x, e>) has E"
    if negative:
        # the share of 1 + P_k >= 0 is p_k/N_k² (Funk and Hecke)
        square = multiplicity(energy.dim, k) ** 2
        share, error = energy.weights[k] / square, energy.unresolved[k] / square
        finding = f"Λ_{k} = {float(values[k]):.6g} < 0"
        witnesses.append(f"{density} < E(σ): (E - E(σ))/U = {share:.6g}, right to {error:.1g}")
    elif energy.exact:
        finding = f"Λ_{k} = 0, exactly: the minimiser is not unique"
        witnesses.append(f"{density} = E(σ), as Λ_{k} = 0")
    else:
        finding = (
            f"Λ_k > 0 for {kmax - len(hidden)} degrees k <= {kmax} in floating point, |Λ_k| is "
            f"below rounding for {len(hidden)}: where Λ_k = 0, as it may be for k = {k}, 1 + P_k "
            "has E = E(σ)"
        )
    if energy.exact and not any(energy.exact[1::2]):
        witnesses.append("(δ_x + δ_-x)/2 has E = E(δ)")
    # where W is largest at a cosine that is not 1, two equal masses there have more energy
    cosines = np.linspace(-1.0, 1.0, _COSINES)
    defects = energy.defect(2.0 * (1.0 - cosines))
    least = int(np.argmin(defects))
    # W(t) and W(1) have an error each, and equal masses halve their difference
    if defects[least] < -2.0 * energy.error - ROUNDING:
        witnesses.append(
            f"(δ_x + δ_y)/2 with <x, y> = {cosines[least]:g} has E > E(δ): "
            f"(E - E(δ))/U = {-0.5 * defects[least]:.6g}, right to {energy.error:.1g}"
        )
    columns = {
        "eigenvalue": energy.values,
        "eigenvalue_rounding": energy.errors,
        "share_of_degree": energy.weights,
    }
    data = _over("degree", np.arange(kmax + 1), columns)
    return Evidence(FAILS if witnesses else OPEN, finding, data, witness="; ".join(witnesses))


# a random measure has so many tokens, a random law such degrees, its space those of the last
TOKENS, _LAW, _BASIS = 24, 3, 8
# for a larger β in the identity, or a larger β or d in runs, flow maps take minutes
_MOST_BETA, _RUN_BETA, _RUN_DIM = 100.0, 32.0, 64
# errors relative to E(mu), beside what e^{βt} rounds; a flow map has a tolerance of its own
_TOLERANCES = {"density": 1e-13, "particles": 1e-13, "flow map": 2e-12}

KINDS = ("atoms", "near a Dirac", "mixture", "series", "near uniform")
# a measure has so many points, drawn from so many bumps, and so many are summed at once
_POINTS, _BUMPS, _BLOCK = 8, 48, 100
# gradients move so many tokens, and beat a bound where they are beyond it by so many errors of W
_MOVED, _ERRORS = 16, 10.0
_OPTIONS = {"maxiter": 500, "ftol": 1e-16, "gtol": 1e-14}

# a run has arrived within the first of its bound, and shows nothing if it begins within the second
ARRIVED, _BEGUN = 1e-10, 1e-6
# steps and rounding may move an energy the wrong way by this share of E
_ASTRAY = 1e-11
_SAVES = 40
# repulsive runs last so many lifetimes of the start's slowest degree, and then grow by a factor
# up to the longest
_LIFETIMES, _FACTOR, _LONGEST = 14.0, 3.0, 2e4
# in attractive runs the far mass decays at rate (d-1) >= 1 (SA), and E(δ) - E with it
_UPWARDS, _NARROWEST = 40.0, 6e5


def powers(cosines: Array, masses: Array, dim: int, kmax: int) -> Array:
    """r_k = ∬ P_k(<x,y>) dmu dmu, k = 0 … kmax, of n points or bumps: |mu_k|² = N_k r_k.

    Parameters
    ----------
    cosines : ndarray, shape (..., n, n)
        <x_i, x_j>, of one cloud or of many.
    masses : ndarray, shape (..., n, 1) or (..., n, kmax + 1)
        Masses of the points; or masses times the Λ_k(κ)/Λ_0(κ) of bumps about the points, by Funk
        and Hecke.

    Returns
    -------
    ndarray, shape (..., kmax + 1)
    """
    masses = np.broadcast_to(masses, (*masses.shape[:-1], kmax + 1))
    power = np.empty((*cosines.shape[:-2], kmax + 1))
    for k, values in enumerate(gegenbauer(dim, kmax, cosines)):
        part = masses[..., k]
        power[..., k] = np.einsum("...i,...ij,...j->...", part, values, part, optimize=True)
    # r_k is at least 0, so a value below 0 within rounding is 0; anything more negative is kept to
    # be seen
    allowed = ROUNDING * np.abs(masses).sum(axis=-2) ** 2
    return np.where((power < 0.0) & (power >= -allowed), 0.0, power)


def identity(energy: PairEnergy, rng: np.random.Generator) -> Evidence:
    """E(mu) - E(σ) = 1/(2β) Σ_{k>=1} Λ_k |mu_k|² for a random measure of each kind, as E(mu)/E(σ).

    Left: ∬ e^{β<x,y>} dmu dmu/Λ_0 by positive terms. Right: 1 + Σ_{k>=1} (Λ_k/Λ_0) |mu_k|². A
    measure that double precision can't hold at this β and d is nan.
    """
    beta, dim = energy.beta, energy.dim
    rows = {}
    for name, measure in _measures(energy, rng).items():
        points, masses = measure.points, measure.weights
        if name == "particles" or dim == 2:
            cosines, kmax = points @ points.T, energy.kmax if name == "particles" else _LAW
            r = powers(np.clip(cosines, -1.0, 1.0), masses[:, None], dim, kmax)
        else:
            r = (gegenbauer(dim, _LAW, points[:, -1]) @ masses) ** 2
        try:
            log_g, _ = measure.log_moment(beta * points)
        except ValueError:
            rows[name] = np.nan, np.nan
        else:
            weights = energy.weights[: len(r)] * (energy.deviation / energy.centre)
            double = masses @ np.exp(log_g - multipliers.log_eigenvalues(beta, dim, 0))
            rows[name] = float(double), 1.0 + float(weights @ r[: len(weights)])
    left, right = np.array([*rows.values()]).T
    errors = np.abs(right / left - 1.0)
    # an exponential rounds its argument, and polynomials add an error for each degree
    rounding = 8.0 * EPS * (beta + energy.kmax)
    allowed = np.array([_TOLERANCES[name] for name in rows]) + rounding
    errors_text = ", ".join(f"{name} {error:.1e}" for name, error in zip(rows, errors, strict=True))
    finding = (
        f"E - E(σ) = Σ Λ_k |mu_k|²/2β against the double integral, relative to E: {errors_text}"
    )
    columns = {"energy_ratio": left, "energy_ratio_by_degrees": right, "identity_error": errors}
    data = _over("measure", [*rows], columns)
    return Evidence(DIFFERS if (errors > allowed).any() else HOLDS, finding, data)


def _measures(energy: PairEnergy, rng: np.random.Generator) -> dict[str, AnyMeasure]:
    """Return a measure of each kind."""
    dim, law = energy.dim, random_law(energy.dim, rng)
    space = Circle(32) if dim == 2 else Zonal(dim, _BASIS)
    measures: dict[str, AnyMeasure] = {"density": Density(space, law)}
    if energy.beta <= _MOST_BETA:
        measures["flow map"] = FlowMap(law)
    masses = rng.exponential(size=TOKENS)
    measures["particles"] = Particles(Uniform(dim).sample(TOKENS, rng), masses, unit_mass=True)
    return measures


def random_law(dim: int, rng: np.random.Generator) -> Law:
    """1 + Σ_{k <= 3} a_k P_k about the last axis, on the circle with sines too, positive."""
    sizes = rng.dirichlet(np.ones(2 * _LAW)) * 0.9 * rng.choice([-1.0, 1.0], 2 * _LAW)
    if dim == 2:
        return FourierSeries(cos=sizes[:_LAW], sin=sizes[_LAW:])
    return ZonalSeries(dim, sizes[:_LAW])


def search(energy: PairEnergy, n_measures: int, repeats: int, rng: np.random.Generator) -> Evidence:
    """Random measures, the five kinds in turn, and gradients, in search of one beyond a bound.

    Atoms are summed over pairs, with the potential itself; a defect as a sum of W(1) - W(t) >= 0,
    so that it keeps its digits next to a Dirac. All else by degrees: mixtures of von Mises-Fisher
    bumps, of 1 + a P_j about several axes, and both mixed with much of σ. These can be below E(σ)
    for potentials with p_k < 0 only. Gradients move 16 tokens and their masses towards either
    bound.
    """
    # Λ_k(κ)/Λ_0(κ) of bumps e^{κ<x,c>}, κ from a tenth to thousands of β
    kappas = np.fmax(1.0, energy.beta) * 10.0 ** rng.uniform(-1.0, 3.5, _BUMPS)
    bumps = np.array([multipliers.relative_eigenvalues(k, energy.dim, energy.kmax) for k in kappas])
    kinds = np.arange(n_measures) % len(KINDS)
    share, defect, error = np.empty((3, n_measures))
    for block in blocks(n_measures, 1, _BLOCK):
        for kind in np.unique(kinds[block]):
            where = block.start + np.flatnonzero(kinds[block] == kind)
            shares_drawn = _drawn(energy, KINDS[kind], len(where), bumps, rng)
            share[where], defect[where], error[where] = shares_drawn
    ends = [[_moved(energy, sign, rng) for _ in range(repeats)] for sign in (-1.0, 1.0)]
    margins = np.array([min(of_sign) for of_sign in ends])
    finding = (
        f"{n_measures} random measures, atoms by pairs and others by degrees: "
        f"least (E - E(σ))/U {share.min():.2e}, least (E(δ) - E)/U {defect.min():.2e}; "
        f"gradients end {margins[0]:.1e} above E(σ) and {margins[1]:.1e} below E(δ)"
    )
    witnesses = []
    # the energy of a Dirac mass is one value of the potential and has its error
    bounds = ("below E(σ)", share, error), ("above E(δ)", defect, error + energy.error)
    for name, left, allowed in bounds:
        if (left < -allowed).any():
            worst = int(np.nanargmin(left / allowed))
            witnesses.append(
                f"random measure {worst} ({KINDS[kinds[worst]]}) is {name} by "
                f"{-left[worst]:.6g} U, right to {allowed[worst]:.1g}"
            )
            finding += f"; {int((left < -allowed).sum())} {name}"
    for way, margin in zip(("down", "up"), margins, strict=True):
        if margin < -_ERRORS * energy.error:
            witnesses.append(
                f"gradients (tokens, {way}) end at a measure beyond the bound by {-margin:.6g} U, "
                f"right to {_ERRORS * energy.error:.1g}"
            )
    status = FAILS if witnesses else HOLDS
    if not witnesses and not np.isfinite([*share + defect + error, *margins]).all():
        status, finding = DIFFERS, f"{finding}; energies are not finite"
    data = xr.Dataset(
        {
            "share": ("random_measure", share),
            "defect": ("random_measure", defect),
            "margin": ("attempt", margins),
        },
        coords={
            "kind": ("random_measure", np.array(KINDS)[kinds]),
            "attempt": ["tokens, down", "tokens, up"],
        },
    )
    return Evidence(status, finding, data, witness="; ".join(witnesses))


def _drawn(
    energy: PairEnergy, kind: str, count: int, bumps: Array, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Shares of measures Σ_i w_i b_i(<., c_i>), what they lack of a Dirac's, and the errors."""
    dim = energy.dim
    masses = rng.dirichlet(np.full(_POINTS, 0.5), count)
    centres = Uniform(dim).sample(count * _POINTS, rng).reshape(count, _POINTS, dim)
    if kind == "near a Dirac":
        # centres are within 1e-5 to 1 of the first
        away = 10.0 ** rng.uniform(-5.0, 0.0, (count, 1, 1))
        centres = centres[:, :1] + away * centres
        centres /= np.linalg.norm(centres, axis=-1, keepdims=True)
    if kind in ("atoms", "near a Dirac"):
        return share_of_atoms(energy, centres, masses)
    if kind == "series":
        profiles = _series(energy, count, rng)
    else:
        profiles = bumps[rng.integers(_BUMPS, size=(count, _POINTS))].copy()
    if kind == "near uniform":
        # the rest of the mass is uniform, and has power in degree 0 only
        profiles[..., 1:] *= 10.0 ** rng.uniform(-4.0, -1.0, (count, 1, 1))
    cosines = np.clip(np.einsum("...id,...jd->...ij", centres, centres), -1.0, 1.0)
    power = powers(cosines, masses[..., None] * profiles, dim, energy.kmax)
    share = power @ energy.weights
    # r_k rounds like the sum of its absolute terms; the share of a Dirac is rounded separately
    absolute_power = np.einsum("...i,...ik->...k", masses, np.abs(profiles)) ** 2
    error = ROUNDING * (absolute_power @ np.abs(energy.weights)) + power @ energy.unresolved
    return share, energy.dirac - share, np.maximum(error, 1e-300)


def share_of_atoms(energy: PairEnergy, centres: Array, masses: Array) -> tuple[Array, Array, Array]:
    """The same of atoms at centres (..., n, d) with masses (..., n)."""
    differences = centres[:, :, None] - centres[:, None]
    squared = np.einsum("...d,...d->...", differences, differences)
    pairs = masses[:, :, None] * masses[:, None]
    share = (pairs * energy.excess(1.0 - 0.5 * squared)).sum(axis=(1, 2))
    # for e^{βt} this is a sum of terms of one sign, down to the smallest
    lacking = (pairs * energy.defect(squared)).sum(axis=(1, 2))
    return share, lacking, np.full(len(share), energy.error)


def _series(energy: PairEnergy, count: int, rng: np.random.Generator) -> Array:
    """Return a_j/N_j of 1 + a_j P_j, |a_j| <= 1, a degree j for each centre, and 1 at degree 0."""
    highest = max(1, min(energy.kmax, 6))
    sizes = multiplicities(energy.dim, highest)
    degrees = rng.integers(1, highest + 1, (count, _POINTS))
    profiles = np.zeros((count, _POINTS, energy.kmax + 1))
    profiles[..., 0] = 1.0
    amplitudes = rng.uniform(-1.0, 1.0, degrees.shape) / sizes[degrees]
    np.put_along_axis(profiles, degrees[..., None], amplitudes[..., None], axis=-1)
    return profiles


def _moved(energy: PairEnergy, sign: float, rng: np.random.Generator) -> float:
    """The least distance from the bound below (sign -1) or above (+1) that L-BFGS reaches."""
    points = Uniform(energy.dim).sample(_MOVED, rng)
    start = np.append(points, rng.normal(size=_MOVED))
    best = minimize(margin, start, (energy, sign), jac=True, method="L-BFGS-B", options=_OPTIONS)
    return float(best.fun)


def margin(x: Array, energy: PairEnergy, sign: float) -> tuple[float, Array]:
    """Distance from a bound, and its gradient by 16 points of any length and 16 logits."""
    y, logits = x[:-_MOVED].reshape(_MOVED, energy.dim), x[-_MOVED:]
    lengths = np.linalg.norm(y, axis=1)[:, None]
    points = y / lengths
    masses = np.exp(logits - logits.max())
    masses /= masses.sum()
    differences = points[:, None] - points[None]
    squared = np.einsum("ijd,ijd->ij", differences, differences)
    cosines = 1.0 - 0.5 * squared
    potential = 2.0 * (energy.defect(squared) if sign > 0.0 else energy.excess(cosines)) @ masses
    value = 0.5 * float(masses @ potential)
    # the derivative of the potential moves both margins with the cosines, in opposite directions
    pull = -2.0 * sign * (masses[:, None] * energy.derivative(cosines) * masses) @ points
    pull -= np.einsum("id,id->i", pull, points)[:, None] * points
    by_logits = masses * (potential - 2.0 * value)
    return value, np.concatenate([(pull / lengths).ravel(), by_logits])


def flows(energy: PairEnergy, repeats: int, rng: np.random.Generator) -> Evidence:
    """SA from random starts: repulsive to E(σ), attractive to E(δ).

    Repulsive: a random series of degree 3 as a density; the gap is E - E(σ) over the smaller of U
    and E(σ), a sum of Λ_k |f_k|²/Λ_0 that keeps its digits. Degree k decays at rate
    k(k+d-2) Λ_k/(β Λ_0), so degrees of tiny Λ_k linger as they are invisible in E. Attractive: two
    bumps as narrow as the kernel, as a flow map (as tokens where β > 32 or d > 64); the gap is
    (E(δ) - E)/U, from energies right to 1e-14 of E(δ).

    A run that ends beyond a bound, or goes the wrong way, differs from what the equations do; one
    that has not arrived within 1e-10, or began there, is open.
    """
    runs = {}
    for start in range(repeats):
        runs[f"down {start}"] = _down(energy, rng)
        runs[f"up {start}"] = _up(energy, rng)
    times, gaps = (pad([run[i] for run in runs.values()]) for i in range(2))
    # energies are right relative to E, which is 1/deviation of U at a Dirac
    allowed = _ASTRAY * max(1.0, 1e-3 / energy.deviation)
    astray, arrived, ends = [], 0, {"down": 0.0, "up": 0.0}
    for name, (_, gap) in runs.items():
        allowed_error = allowed * max(1.0, float(gap[0]))
        # the condition is such that nan goes the wrong way, too
        if not (gap.min() >= -allowed_error and np.diff(gap).max(initial=0.0) <= allowed_error):
            astray.append(name)
        arrived += bool(gap[0] > _BEGUN and abs(gap[-1]) <= ARRIVED)
        direction = name.partition(" ")[0]
        ends[direction] = max(ends[direction], float(gap[-1]))
    finding = (
        f"{arrived} of {len(runs)} runs end within {ARRIVED:g} of their bound: "
        f"repulsive (E - E(σ))/min(U, E(σ)) <= {ends['down']:.1e}, "
        f"attractive (E(δ) - E)/U <= {ends['up']:.1e}"
    )
    status = HOLDS if arrived == len(runs) else OPEN
    if astray:
        status, finding = DIFFERS, f"{finding}; energies go the wrong way in {astray}"
    data = xr.Dataset(
        {"flow_time": (("flow", "save"), times), "flow_gap": (("flow", "save"), gaps)},
        coords={"flow": [*runs], "save": np.arange(times.shape[1])},
    )
    return Evidence(status, finding, data)


def _down(energy: PairEnergy, rng: np.random.Generator) -> tuple[Array, Array]:
    """Times and gaps of a repulsive run, until gaps are small or the longest time is over."""
    beta, dim, unit = energy.beta, energy.dim, max(1.0, energy.centre / energy.deviation)
    space = Circle(64) if dim == 2 else Zonal(dim, 12)
    # high degrees linger, invisible in E; and a start that does not spread is not followed far
    most = 4 * (space.size + 1)
    measure: AnyMeasure = Density(space, random_law(dim, rng), tail_tol=1e-4, max_size=most)
    # the start has these degrees; higher ones come from products
    slowest = float(growth_rates(SA(beta), dim, _LAW)[1:].min())
    t, stage = 0.0, min(_LONGEST, _LIFETIMES / slowest)
    times, gaps = [np.zeros(1)], [np.array([_above_uniform(measure, beta)])]
    while unit * gaps[-1][-1] > 0.3 * ARRIVED and t < _LONGEST:
        saves = np.geomspace(1e-2, 1.0, _SAVES) * stage
        solution = solve(measure, SA(beta, sign=-1), stage, saves, on_unresolved="stop")
        measure = solution.final
        times.append(t + solution.t[1:])
        gaps.append(np.array([_above_uniform(density, beta) for density in solution.measures[1:]]))
        t, stage = times[-1][-1], _FACTOR * stage
        if solution.status != "finished":
            break
    return np.concatenate(times), unit * np.concatenate(gaps)


def _above_uniform(density: Any, beta: float) -> float:
    """Return E/E(σ) - 1 = Σ_{k>=1} (Λ_k/Λ_0) |f_k|²."""
    ratios = multipliers.relative_eigenvalues(beta, density.dim, len(density.power) - 1)
    return float(ratios[1:] @ density.power[1:])


def _up(energy: PairEnergy, rng: np.random.Generator) -> tuple[Array, Array]:
    """Times and (E(δ) - E)/U of an attractive run from two bumps within reach of each other."""
    beta, dim = energy.beta, energy.dim
    kappas = rng.uniform(0.5, 1.5, 2) * min(_NARROWEST, dim * max(1.0, beta))
    weight = rng.uniform(0.2, 0.8)
    centres = np.eye(dim)[[-1, -1]]
    if dim == 2:
        angle = rng.uniform(0.1, 0.5) / np.sqrt(max(1.0, beta))
        centres = circle_points(rng.uniform(0.0, 2.0 * np.pi) + np.array([0.0, angle]))
    bumps = [VonMisesFisher(c, float(k)) for c, k in zip(centres, kappas, strict=True)]
    law = Mixture(bumps, [weight, 1.0 - weight])
    is_easy = beta <= _RUN_BETA and dim <= _RUN_DIM
    start: AnyMeasure = FlowMap(law) if is_easy else Particles.sample(law, TOKENS, rng)
    solution = solve(start, SA(beta), _UPWARDS, np.geomspace(1e-2, 1.0, _SAVES) * _UPWARDS)
    return solution.t, (1.0 - solution.dataset["energy_share"].values) / energy.deviation
