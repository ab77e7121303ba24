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
from meanfield.studies.proposition.evidence import FAILS, HOLDS, PROVED, Evidence
from meanfield.studies.proposition.problem import Problem, quadrature

Array = NDArray[np.float64]

EVALUATIONS = ("bessel", "quadrature", "series")
# relative difference of evaluations: a few hundred roundings of products of ratios
TOLERANCE = 1e-13
# quadrature stops at this degree, where polynomials of the next ones leave double precision in
# high dimension
_MOST_QUADRATURE = 256
_LEAST = 1e-290


def coefficients(problem: Problem, interval: tuple[float, float]) -> Evidence:
    """Λ_k(β, d) of one β, and the proof over an interval of β that holds it.

    Without python-flint nothing is proved, and the signs are those of floating point.
    """
    beta, dim, kmax = problem.beta, problem.dim, problem.kmax
    errors = evaluations(beta, dim, kmax)
    logs = log_eigenvalues(beta, dim, kmax)
    ratios = np.exp(np.diff(logs)) * (2.0 * np.arange(kmax) + dim) / beta
    worst = {name: float(np.max(one[np.isfinite(one)], initial=0)) for name, one in errors.items()}
    agree = all(worst[name] <= tolerance(name, beta) for name in EVALUATIONS)
    positive, proof, proved = np.isfinite(logs), "", False
    lower = upper = np.full(kmax + 1, np.nan)
    if balls.available():
        found = balls.prove(*interval, dim, kmax)
        lower, upper, positive = found.lower, found.upper, found.positive
        # logarithms are right to 1e-13, relative or absolute
        slack = TOLERANCE * np.maximum(1.0, np.abs(logs))
        agree &= bool(((lower - slack <= logs) & (logs <= upper + slack)).all())
        proved, proof = bool(positive.all()), _proof(found, interval, kmax)
    else:
        proof = "python-flint is missing (install the extra 'proof'): checked, not proved"
    # the bound of ratios is strict, but nearer than rounding where k is large
    bounded = bool((ratios[1:] < 1.0 + 1e-10).all()) if kmax > 1 else True
    good = bool(positive.all()) and agree and bounded
    status = FAILS if not good else PROVED if proved else HOLDS
    told = ", ".join(
        f"{name} {worst[name]:.1e}" if np.isfinite(errors[name]).any() else f"{name} out of range"
        for name in EVALUATIONS
    )
    finding = f"{proof}; at β = {beta:g} evaluations differ by: {told}"
    if not good:
        finding += f"; {_fault(positive, agree)}"
    data = xr.Dataset(
        {
            "log_eigenvalue": ("degree", logs, {"long_name": "log Λ_k"}),
            "log_lower": ("degree", lower, {"long_name": "proved lower bound of log Λ_k"}),
            "log_upper": ("degree", upper, {"long_name": "proved upper bound of log Λ_k"}),
            "share_of_degree": ("degree", problem.weights),
            "ratio_to_bound": ("degree", np.append(ratios, np.nan)),
            "evaluation_error": (("evaluation", "degree"), np.array([*errors.values()])),
        },
        coords={"degree": np.arange(kmax + 1), "evaluation": list(EVALUATIONS)},
    )
    return Evidence("coefficients", status, finding, data)


def _proof(found: balls.Balls, interval: tuple[float, float], kmax: int) -> str:
    low, high = interval
    where = f"β = {low:g}" if low == high else f"all β in [{low:g}, {high:g}]"
    count = int(found.positive.sum())
    how = f"{found.count} balls" + ("" if found.whole else ", some at the lower end only")
    text = f"Λ_k > 0 for {where}, {count} of the degrees k <= {kmax} in ball arithmetic ({how})"
    if found.positive.all():
        text += ", k > kmax by 0 < Λ_(k+1)/Λ_k < β/(2k+d)"
    return text + f", which hold < {max(found.tail, 0.0):.1e} of E(δ) - E(σ)"


def _fault(positive: NDArray[np.bool_], agree: bool) -> str:
    if not positive.all():
        return f"Λ_k > 0 is not shown for k = {np.flatnonzero(~positive)[:8].tolist()}"
    return "evaluations disagree" if not agree else "Λ_(k+1)/Λ_k exceeds its bound"


def tolerance(name: str, beta: float) -> float:
    """How much an evaluation may differ: 1e-13, and what its method rounds.

    A quadrature rounds βt, and degree by degree. A Bessel function of large order or argument is
    the exponential of its rounded logarithm, which is 668 where it is dropped as too small.
    """
    rounding = {
        "bessel": max(beta, -math.log(_LEAST)),
        "quadrature": 4.0 * (beta + _MOST_QUADRATURE),
        "series": 0.0,
    }
    return TOLERANCE + float(np.finfo(float).eps) * rounding[name]


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


def of_kernel(problem: Problem, exact: bool) -> Evidence:
    """The signs of the Λ_k of another kernel than e^{βt}; a negative one refutes.

    Parameters
    ----------
    problem : Problem
        With a kernel.
    exact : bool
        Whether the kernel is a polynomial of degree kmax, so that Λ_k = 0 beyond.
    """
    if problem.kernel is None:
        raise ValueError(f"problem must have a kernel of its own, got {problem!r:.200}")
    values, rounding = quadrature(problem.kernel, problem.dim, problem.kmax)
    negative = np.flatnonzero(values[1:] < -rounding[1:]) + 1
    positive = np.flatnonzero(values[1:] > rounding[1:]) + 1
    hidden = problem.kmax - len(negative) - len(positive)
    if len(negative):
        k = int(negative[0])
        status, finding = FAILS, f"Λ_{k} = {values[k]:.6g} < 0"
    elif exact:
        # a polynomial sees no degree beyond its own
        status, finding = FAILS, f"Λ_k = 0 for k > {problem.kmax}: the minimiser is not unique"
    else:
        status = HOLDS
        finding = f"Λ_k > 0 for {len(positive)} degrees k <= {problem.kmax} in floating point"
        if hidden:
            finding += f", |Λ_k| is below rounding for {hidden} others"
    data = xr.Dataset(
        {
            "eigenvalue": ("degree", values, {"long_name": "Λ_k of the kernel"}),
            "eigenvalue_rounding": ("degree", rounding),
            "share_of_degree": ("degree", problem.weights),
        },
        coords={"degree": np.arange(problem.kmax + 1)},
    )
    return Evidence("coefficients", status, finding, data)
