"""The energies of Proposition 3.4, and the sign of each Λ_k: a proof, or a measure that refutes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import xarray as xr
from numpy.polynomial import Polynomial

from meanfield._checks import EPS, is_single, real_array, shown
from meanfield.kernels import multipliers
from meanfield.spaces.gegenbauer import gauss_gegenbauer, gegenbauer, multiplicities, multiplicity
from meanfield.typing import Array

# of a part: 'differs' says that numbers disagree that must not, 'fails' that there is a witness
PROVED, HOLDS, OPEN, DIFFERS, FAILS = "proved", "holds", "open", "differs", "fails"
# what rounding may hide, as a share of the sum of absolute terms
ROUNDING = 1e-13
# below it e^{βt} - 1 leaves double precision
LEAST_BETA = 1e-290
# digits of a bound of Λ_k
_DIGITS = 50
# of a potential: its coefficients, or its degrees if it is a function
_MOST, _DEGREES = 257, 48
# cosines at which potentials are compared
_POINTS = 4001
# half the step of the difference that stands for the slope of a potential
_STEP = 1e-6


@dataclass(frozen=True)
class Evidence:
    """What one part of the study found for one β.

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
    centre, spread : float
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
    spread: float
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
            return np.asarray(1.0 + np.expm1(self.beta * (t - 1.0)) / self.spread)
        return np.asarray((self.potential(t) - self.centre) / self.spread)

    def defect(self, squared: Array) -> Array:
        """(W(1) - W(t))/max |W - Λ_0|, t = 1 - |x-y|²/2, of the squares of distances."""
        if self.potential is None:
            return np.asarray(-np.expm1(-0.5 * self.beta * squared) / self.spread)
        t = np.maximum(1.0 - 0.5 * squared, -1.0)
        return np.asarray((self.potential(np.ones(1)) - self.potential(t)) / self.spread)

    def slope(self, t: Array) -> Array:
        """The derivative of `excess`."""
        if self.potential is None:
            return np.asarray(self.beta * np.exp(self.beta * (t - 1.0)) / self.spread)
        high, low = np.minimum(t + _STEP, 1.0), np.maximum(t - _STEP, -1.0)
        return np.asarray((self.potential(high) - self.potential(low)) / (high - low) / self.spread)


def attention_energy(beta: float, dim: int, kmax: int) -> PairEnergy:
    """E_β, W = e^{βt}/β, β > 0; below 1e-290 with the weights of β = 1e-290, to rounding."""
    least = max(beta, LEAST_BETA)
    # all degrees count in the gap, for any kmax
    most = max(kmax, 2 * multipliers.bandwidth(least, dim))
    shares = multipliers.degree_weights(least, dim, most)
    gap = float(shares[1:].sum())
    weights = np.append(0.0, shares[1 : kmax + 1] / gap)
    # an exponential rounds its argument, which is of order β where neither it nor 1 is alone
    error = ROUNDING + 8.0 * EPS * beta
    return PairEnergy(dim, weights, ROUNDING * weights, 1.0, float(shares[0]), gap, error, beta)


def enclose(beta: float, dim: int, kmax: int, rounding: str) -> list[Decimal]:
    """Bounds of Λ_0 … Λ_kmax at β >= 0, from below (ROUND_FLOOR) or above (ROUND_CEILING).

    Λ_k = β^k/(d (d+2) … (d+2k-2)) F_k with F_k = Σ_j (β²/4)^j/(j! (k+d/2)_j), and from the last
    two downwards F_k = F_{k+1} + β²/((2k+d)(2k+d+2)) F_{k+2}. Every number is positive and every
    operation is rounded one way, so that what comes out is a bound.
    """
    with localcontext(Context(_DIGITS, rounding, MIN_EMIN, MAX_EMAX)):
        exact = Decimal(beta)
        square = exact * exact
        sums = [_series(square, dim + 2 * k, rounding) for k in (kmax + 1, kmax)]
        for order in range(dim + 2 * kmax - 2, dim - 1, -2):
            sums.append(sums[-1] + square / (order * (order + 2)) * sums[-2])
        found, leading = [], Decimal(1)
        for k in range(kmax + 1):
            found.append(leading * sums[-1 - k])
            leading *= exact / (dim + 2 * k)
        return found


def _series(square: Decimal, order: int, rounding: str) -> Decimal:
    """F_k for 2k + d = order and β²; what is left out is positive and less than the last term."""
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
    missed = [k for k, bound in enumerate(floors) if not bound > 0]
    if missed:
        return Evidence(OPEN, f"Λ_k > 0 is not shown for k in {missed}", xr.Dataset())
    with localcontext(Context(_DIGITS, None, MIN_EMIN, MAX_EMAX)):
        # logarithms are right to 50 digits
        lower = np.nextafter([float(bound.ln()) for bound in floors], -np.inf)
        upper = np.nextafter([float(bound.ln()) for bound in ceilings], np.inf)
        shrink = (-Decimal(beta)).exp()
        bounds = [float(bound * shrink) for bound in enclose(beta, dim, kmax, ROUND_FLOOR)]
    logs = multipliers.log_eigenvalues(beta, dim, kmax)
    own = multipliers.scaled_eigenvalues(beta, dim, kmax)
    held = own > LEAST_BETA
    errors = np.full(kmax + 1, np.nan)
    errors[held] = np.abs(np.array(bounds)[held] / own[held] - 1.0)
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
    data = xr.Dataset(
        {
            "log_eigenvalue": ("degree", logs),
            "log_eigenvalue_lower": ("degree", lower),
            "log_eigenvalue_upper": ("degree", upper),
            "share_of_degree": ("degree", energy.weights[: kmax + 1]),
            "evaluation_error": ("degree", errors),
        },
        coords={"degree": np.arange(kmax + 1)},
    )
    return Evidence(PROVED, finding, data, note=note)


def energy_of(potential: Any, dim: int, kmax: int | None) -> PairEnergy:
    """The energy of a callable of t, or of the polynomial of coefficients a_0, a_1, ….

    Λ_k of a polynomial are exact, those of a callable are right to 1e-13 ∫ |W P_k| dσ.

    Raises
    ------
    ValueError
        If it is neither, not finite on [-1, 1], constant, of a size beyond 1e±100, or has degrees
        beyond kmax.
    """
    exact: list[Fraction] = []
    if not callable(potential):
        given = _coefficients(potential)
        exact = exact_coefficients([Fraction(a) for a in given], dim)
        # a constant adds to all energies alike, and would drown the rest
        potential, kmax = Polynomial([0.0, *given[1:]]), len(given) - 1
    kmax = kmax or _DEGREES
    grid = np.concatenate([np.linspace(-1.0, 1.0, _POINTS), gauss_gegenbauer(dim, 64)[0]])
    on_grid = potential(grid)
    if getattr(on_grid, "shape", None) != grid.shape:
        raise ValueError(f"potential must give an array, a number for each t, got {shown(on_grid)}")
    on_grid = real_array("potential(t), t in [-1, 1],", on_grid, 1)
    largest = float(np.abs(on_grid).max())
    if largest and not 1e-100 <= largest <= 1e100:
        raise ValueError(
            f"potential must have its largest value in [1e-100, 1e100], got {largest:g}"
        )
    if exact:
        values = np.array([float(one) for one in exact])
        errors, centre = np.spacing(np.abs(values)), float(exact[0] - Fraction(given[0]))
        sizes = np.array([float(multiplicity(dim, k) * one) for k, one in enumerate(exact)])
        rounding = ROUNDING * np.abs(sizes)
        # Horner's rule rounds like the sum of absolute terms
        terms = float(np.abs(given[1:]).sum())
    else:
        nodes, weights = gauss_gegenbauer(dim, 2 * kmax + 64)
        # Λ_k = ∫ W(t) P_k(t) dσ, and the rounding of each
        parts = gegenbauer(dim, kmax, nodes) * (weights * potential(nodes))
        values, errors = parts.sum(axis=1), ROUNDING * np.abs(parts).sum(axis=1)
        counts = multiplicities(dim, kmax)
        sizes, rounding = np.where(np.abs(values) > errors, values, 0.0) * counts, errors * counts
        _check_end(dim, grid, on_grid, sizes, rounding)
        centre = float(values[0])
        terms = largest + abs(centre)
    sizes[0] = rounding[0] = 0.0
    spread = float(np.abs(on_grid - centre).max())
    if not spread > ROUNDING * largest or not sizes.any():
        raise ValueError(
            f"potential must not be constant on [-1, 1] to {ROUNDING:g}, got {values[0]:g}"
        )
    # W(1) is the last value before those at Gauss nodes
    dirac, error = (float(on_grid[_POINTS - 1]) - centre) / spread, ROUNDING * terms / spread
    own = (dirac, centre, spread, error, np.nan, potential, values, errors, exact)
    return PairEnergy(dim, sizes / spread, rounding / spread, *own)


def _coefficients(potential: Any) -> Array:
    """a_0, a_1, … without the zeros at the end."""
    if is_single(potential):
        raise ValueError(
            f"potential must be a callable of t or coefficients a_0, a_1, …, got {shown(potential)}"
        )
    given = real_array("potential", potential, 1)
    if len(given) > _MOST:
        raise ValueError(f"potential must have at most {_MOST} coefficients, got {len(given)}")
    return np.append(given[:1], np.trim_zeros(given[1:], "b"))


def _check_end(dim: int, grid: Array, values: Array, terms: Array, errors: Array) -> None:
    """Refuse what differs from Σ_{k <= kmax} N_k Λ_k P_k by more than the errors of the Λ_k."""
    kmax, largest = len(terms) - 1, float(np.abs(values).max())
    table = gegenbauer(dim, kmax, grid)
    allowed = (errors + ROUNDING * np.abs(terms)) @ np.abs(table) + 10.0 * ROUNDING * largest
    apart = np.abs(values - terms @ table)
    if not (apart <= allowed).all():
        at = int(np.argmax(apart - allowed))
        raise ValueError(
            f"potential must have no degrees beyond kmax = {kmax}, but W differs from "
            f"Σ_(k <= kmax) N_k Λ_k P_k by {apart[at] / largest:.2g} of its largest value at "
            f"t = {grid[at]:g}"
        )


def exact_coefficients(given: Sequence[Fraction], dim: int) -> list[Fraction]:
    """Λ_k = Σ_m a_m ∫ t^m P_k dσ of Σ a_m t^m, k = 0 … degree.

    ∫ t^m P_k dσ = m!/(2^j j! d (d+2) … (d + 2(k+j) - 2)), m = k + 2j: the coefficient of β^m/m! in
    the power series of Λ_k(β, d).

    Examples
    --------
    >>> [str(one) for one in exact_coefficients([Fraction(a) for a in (0, -1, 0, 1)], 3)]
    ['0', '-2/15', '0', '2/35']
    """
    found, first = [], Fraction(1)
    for k in range(len(given)):
        # ∫ t^k P_k dσ, then two powers on at a time
        moment, total = first, Fraction(0)
        for m in range(k, len(given), 2):
            total += given[m] * moment
            moment *= Fraction((m + 1) * (m + 2), (m + 2 - k) * (dim + m + k))
        found.append(total)
        first *= Fraction(k + 1, dim + 2 * k)
    return found


def refute(energy: PairEnergy) -> Evidence:
    """Λ_k <= 0 for some k >= 1 refutes: a polynomial has Λ_k = 0 beyond its degree.

    Of a polynomial exactly. Of a function beyond 1e-13 ∫ |W P_k| dσ; what is below it, and beyond
    kmax, may be 0, so that no function is shown to have Λ_k > 0 throughout.
    """
    kmax = energy.kmax
    # rounding hides no sign of a fraction
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
    # two equal masses at the cosine at which W is largest, if that is not 1
    cosines = np.linspace(-1.0, 1.0, _POINTS)
    defects = energy.defect(2.0 * (1.0 - cosines))
    least = int(np.argmin(defects))
    # W(t) and W(1) have an error each, and equal masses take half of their difference
    if defects[least] < -2.0 * energy.error - ROUNDING:
        witnesses.append(
            f"(δ_x + δ_y)/2 with <x, y> = {cosines[least]:g} has E > E(δ): "
            f"(E - E(δ))/U = {-0.5 * defects[least]:.6g}, right to {energy.error:.1g}"
        )
    data = xr.Dataset(
        {
            "eigenvalue": ("degree", energy.values),
            "eigenvalue_rounding": ("degree", energy.errors),
            "share_of_degree": ("degree", energy.weights),
        },
        coords={"degree": np.arange(kmax + 1)},
    )
    return Evidence(FAILS if witnesses else OPEN, finding, data, witness="; ".join(witnesses))
