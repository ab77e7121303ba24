"""Λ_k > 0: proved in balls, and evaluated three times, each in a way of its own."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import ive

from meanfield.harmonics import (
    gauss_gegenbauer,
    gegenbauer,
    log_eigenvalues,
    multiplicity_growth,
    scaled_eigenvalues,
)
from meanfield.studies.proposition import balls
from meanfield.studies.proposition.evidence import DIFFERS, FAULT, HOLDS, OPEN, PROVED, Evidence
from meanfield.studies.proposition.problem import LEAST_BETA, Problem

Array = NDArray[np.float64]

EVALUATIONS = ("bessel", "quadrature", "series")
# relative difference of products of ratios: a few hundred roundings
TOLERANCE = 1e-13
# quadrature stops at this degree, where polynomials of the next ones leave double precision in
# high dimension
_MOST_QUADRATURE = 256
_LEAST = 1e-290


def coefficients(problem: Problem, interval: tuple[float, float], kmax: int = 0) -> Evidence:
    """Λ_k(β, d), k <= kmax, of one β, and the proof over an interval of β that holds it.

    A proof in balls stands whatever floating point says: numbers that differ from each other, or
    from the balls, are a note beside it. Without python-flint nothing is proved, and numbers that
    agree are evidence, as long as β >= 1e-290.
    """
    beta, dim, kmax = problem.beta, problem.dim, kmax or problem.kmax
    found = balls.prove(*interval, dim, kmax) if balls.available() else None
    lower = upper = np.full(kmax + 1, np.nan)
    if found is not None:
        lower, upper = found.lower, found.upper
    logs, errors = np.full(kmax + 1, np.nan), _nothing(kmax)
    ratios, differ = np.full(kmax, np.nan), []
    if beta >= LEAST_BETA:
        logs, errors = log_eigenvalues(beta, dim, kmax), evaluations(beta, dim, kmax)
        slack = TOLERANCE * np.maximum(1.0, np.abs(logs))
        ratios = np.exp(np.diff(logs)) * (2.0 * np.arange(kmax) + dim) / beta
        differ = _differences(beta, dim, errors)
        if not np.isfinite(logs).all():
            differ.append("log Λ_k is not finite")
        # logarithms are right to 1e-13, relative or absolute
        if found is not None and not ((lower - slack <= logs) & (logs <= upper + slack)).all():
            differ.append("log Λ_k is not in its balls")
        # the bound of ratios is strict, but nearer than rounding where k is large
        if not (ratios[1:] < 1.0 + 1e-10 + 4.0 * slack[2:]).all():
            differ.append("Λ_(k+1)/Λ_k exceeds its bound")
    finding = _proof(found, interval, kmax) + _told(beta, errors)
    note = f"{', '.join(differ)}: {FAULT}" if differ else ""
    if note:
        finding += f"; {note}"
    data = xr.Dataset(
        {
            "log_eigenvalue": ("degree", logs, {"long_name": "log Λ_k"}),
            "log_lower": ("degree", lower, {"long_name": "proved lower bound of log Λ_k"}),
            "log_upper": ("degree", upper, {"long_name": "proved upper bound of log Λ_k"}),
            "share_of_degree": ("degree", problem.weights[: kmax + 1]),
            "ratio_to_bound": ("degree", np.append(ratios, np.nan)),
            "evaluation_error": (("evaluation", "degree"), np.array([*errors.values()])),
        },
        coords={"degree": np.arange(kmax + 1), "evaluation": list(EVALUATIONS)},
    )
    return Evidence("coefficients", _status(beta, found, differ), finding, data, note=note)


def _status(beta: float, found: balls.Balls | None, differ: list[str]) -> str:
    if found is not None and found.positive.all():
        return PROVED
    if differ:
        return DIFFERS
    return OPEN if found is not None or beta < LEAST_BETA else HOLDS


def _nothing(kmax: int) -> dict[str, Array]:
    return {name: np.full(kmax + 1, np.nan) for name in EVALUATIONS}


def _worst(values: Array) -> float:
    return float(np.max(values[np.isfinite(values)], initial=0.0))


def _differences(beta: float, dim: int, errors: dict[str, Array]) -> list[str]:
    """What differs from Λ_k by more than its method rounds."""
    return [
        f"{name} differs by {_worst(one):.1e}"
        for name, one in errors.items()
        if _worst(one) > tolerance(name, beta, dim, len(one) - 1)
    ]


def _told(beta: float, errors: dict[str, Array]) -> str:
    if beta < LEAST_BETA:
        return f"; β = {beta:g} is below double precision: no evaluations"
    told = ", ".join(
        f"{name} {_worst(one):.1e}" if np.isfinite(one).any() else f"{name} out of range"
        for name, one in errors.items()
    )
    return f"; at β = {beta:g} evaluations differ by: {told}"


def _proof(found: balls.Balls | None, interval: tuple[float, float], kmax: int) -> str:
    if found is None:
        return "python-flint is missing (install the extra 'proof'): checked, not proved"
    low, high = interval
    where = f"β = {low:g}" if low == high else f"all β in [{low:g}, {high:g}]"
    count = int(found.positive.sum())
    how = f"{found.count} balls" + ("" if found.whole else ", some at the lower end only")
    text = f"Λ_k > 0 for {where}, {count} of the degrees k <= {kmax} in ball arithmetic ({how})"
    if found.positive.all():
        text += ", k > kmax by 0 < Λ_(k+1)/Λ_k < β/(2k+d)"
    else:
        text += f", not shown for k = {np.flatnonzero(~found.positive)[:8].tolist()}"
    return text + f", which hold < {found.tail:.1e} of E(δ) - E(σ)"


def tolerance(name: str, beta: float, dim: int, kmax: int) -> float:
    """How much an evaluation may differ: 1e-13, and what its method rounds beyond.

    Bessel functions of order ν are exponentials of sums that hold log Γ(ν + 1) and β, each of which
    is rounded to ε of its size a few times. Quadratures round βt, and polynomials degree by degree;
    sums and nodes each do so again. The series rounds e^{-β}.
    """
    eps = float(np.finfo(float).eps)
    return {
        "bessel": TOLERANCE + 4.0 * eps * (beta + math.lgamma(kmax + 0.5 * dim)),
        "quadrature": TOLERANCE + 16.0 * eps * (beta + min(kmax, _MOST_QUADRATURE)),
        "series": TOLERANCE + eps * beta,
    }[name]


def evaluations(beta: float, dim: int, kmax: int) -> dict[str, Array]:
    """Relative differences of three evaluations from Λ_k as the package has it, k = 0 … kmax.

    Of the quadrature relative to ∫ e^{βt} |P_k| dσ, since it sums terms of both signs. nan where an
    evaluation leaves double precision.
    """
    own = scaled_eigenvalues(beta, dim, kmax)
    with np.errstate(invalid="ignore", divide="ignore"):
        closed = np.abs(_bessel(beta, dim, kmax) / own - 1.0)
        summed = np.abs(_series(beta, dim, kmax) / own - 1.0)
    small = own < _LEAST
    closed[small] = summed[small] = np.nan
    found, size = _quadrature(beta, dim, kmax)
    integrated = np.full(kmax + 1, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        integrated[: len(found)] = np.abs(found - own[: len(found)]) / size
    integrated[: len(found)][size < _LEAST] = np.nan
    return {"bessel": closed, "quadrature": integrated, "series": summed}


def _bessel(beta: float, dim: int, kmax: int) -> Array:
    """e^{-β} Γ(d/2) (2/β)^{d/2-1} I_{k+d/2-1}(β) in closed form; nan where I underflows."""
    order, odd = 0.5 * dim - 1.0, dim % 2
    values = ive(np.arange(kmax + 1) + order, beta)
    values[values < _LEAST] = np.nan
    # Γ(d/2) (2/β)^{d/2-1}, exact but for sqrt(π/2β) where d is odd
    steps = [Fraction(2 * j + odd, 2) for j in range(1, (dim - 2 + odd) // 2 + (1 - odd))]
    factor = math.prod((2 * step / Fraction(beta) for step in steps), start=Fraction(1))
    exponent = factor.numerator.bit_length() - factor.denominator.bit_length()
    mantissa = float(factor / Fraction(2) ** exponent)
    if odd:
        mantissa *= math.sqrt(0.5 * math.pi / beta)
    with np.errstate(under="ignore", over="ignore"):
        return np.asarray(np.ldexp(values * mantissa, exponent))


def _series(beta: float, dim: int, kmax: int) -> Array:
    """e^{-β} (β/2)^k/(d/2)_k Σ_j (β²/4)^j/(j! (k+d/2)_j), positive terms, exponents apart."""
    k, quarter = np.arange(kmax + 1.0), 0.25 * beta * beta
    term, total = np.ones(kmax + 1), np.ones(kmax + 1)
    exponent, j = 0, 0
    while True:
        j += 1
        term *= quarter / (j * (k + 0.5 * dim + j - 1.0))
        total += term
        if total.max() > 2.0**500:
            term, total, exponent = term * 2.0**-500, total * 2.0**-500, exponent + 500
        if (term <= 1e-18 * total).all():
            break
    # the leading factor and e^{-β}, a mantissa and an exponent each
    mantissa, power = np.ones(kmax + 1), np.zeros(kmax + 1, dtype=np.int64)
    for degree in range(1, kmax + 1):
        mantissa[degree], shift = np.frexp(
            mantissa[degree - 1] * 0.5 * beta / (degree - 1 + 0.5 * dim)
        )
        power[degree] = power[degree - 1] + shift
    shrink, fold = np.frexp(np.exp(-0.5 * beta))
    with np.errstate(under="ignore"):
        scaled = total * mantissa * shrink * shrink
        return np.asarray(np.ldexp(scaled, exponent + power + 2 * fold))


def _quadrature(beta: float, dim: int, kmax: int) -> tuple[Array, Array]:
    """∫ e^{β(t-1)} P_k dσ by Gauss's rule, and ∫ e^{β(t-1)} |P_k| dσ, up to some degree.

    Degree j adds Λ_j (N_j/N_k)^{1/2} to degree k if the rule takes the one for the other, so the
    rule has to be exact up to where that is rounding. Nothing where it leaves double precision.
    """
    size = 64
    while True:
        k = np.arange(1.0, size + 1)
        logs = log_eigenvalues(beta, dim, size)
        logs[1:] += 0.5 * np.cumsum(np.log(multiplicity_growth(dim, k)))
        last = min(kmax, _MOST_QUADRATURE, int(np.flatnonzero(logs > logs.max() - 30.0)[-1]))
        beyond = np.flatnonzero(logs[last:] < logs[: last + 1].min() - 37.0)
        if len(beyond):
            break
        size *= 2
    try:
        t, w = gauss_gegenbauer(dim, last + int(beyond[0]) // 2 + 8)
    except ValueError:
        return np.zeros(0), np.zeros(0)
    terms = gegenbauer(dim, last, t) * (w * np.exp(beta * (t - 1.0)))
    return terms.sum(axis=1), np.abs(terms).sum(axis=1)
