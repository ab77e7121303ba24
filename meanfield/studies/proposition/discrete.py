"""n repulsive tokens: configurations with energies above E(σ), which they approach with n (9.1)."""

from __future__ import annotations

from typing import cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import minimize

from meanfield.dynamics import SA
from meanfield.integrate import solve
from meanfield.laws import Uniform
from meanfield.measures import Particles
from meanfield.studies.proposition.configurations import inner_products, known
from meanfield.studies.proposition.evidence import DIFFERS, FAILS, FAULT, HOLDS, OPEN, Evidence
from meanfield.studies.proposition.problem import Problem

Array = NDArray[np.float64]

# inner products of a configuration that is recognised differ by less
_ALIKE = 1e-4
# log ∬ e^{β<x,y>} over pairs, relative to its spread 2β: below an optimum by rounding only
_ROUNDING = 1e-12
# a share below E(σ) is so beyond so many errors of the kernel's values
_ERRORS = 10.0
# and a share that L-BFGS, which stops where its value does, still tells from 0
_RESOLVED = 1e-10
# from this number on a search starts next to the known optimum
_MANY = 100
_PERTURBED = 0.1
_LADDER = (4, 8, 16, 32, 64)
_OPTIONS = {"maxiter": 3000, "ftol": 1e-17, "gtol": 1e-13, "maxcor": 30}


def discrete(problem: Problem, starts: int, most: int, rng: np.random.Generator) -> Evidence:
    """Known optima found again, and how fast n tokens come near E(σ).

    The best of `starts` searches, each along the repulsive flow and then by L-BFGS on
    log Σ_{i≠j} e^{β<x_i,x_j>}, which feels nearest pairs at large β. A configuration is recognised
    by its inner products, to 1e-4; at small β many are equal in energy, so what must hold is that
    none is found below the known optimum. Configurations of more than `most` points are left out.
    """
    optima = {name: points for name, points in known(problem.dim).items() if len(points) <= most}
    gaps, errors = [], []
    for points in optima.values():
        best = _best(problem, points, starts, rng)
        gaps.append((_pairs(problem, best) - _pairs(problem, points)) / (2.0 * problem.beta))
        errors.append(float(np.abs(inner_products(best) - inner_products(points)).max()))
    ladder = np.array([n for n in _LADDER if n <= most])
    shares = np.array([_lowest(problem, int(n), rng) for n in ladder])
    rates = np.diff(np.log(np.maximum(shares, 1e-300))) / np.diff(np.log(ladder))
    gap, error = np.array(gaps), np.array(errors)
    recognised = error < _ALIKE
    # at small β a search can't tell configurations that are equal in energy
    reached = recognised | (gap < _ROUNDING)
    undercut = not bool((gap >= -_ROUNDING).all())
    # a search may end in a local minimum, and energies below what it resolves have no rate
    seen = shares[1:] > _RESOLVED
    falls = bool(seen.any() and (rates[seen] < 0.0).all())
    status = HOLDS if falls and reached.all() else OPEN
    finding = (
        f"{int(recognised.sum())} of {len(optima)} known optima recognised, "
        f"{'one' if undercut else 'none'} undercut "
        f"(least gap {gap.min():.1e}); n = {ladder[0]} … {ladder[-1]} tokens: (E - E(σ))/U "
        f"{shares[0]:.1e} … {shares[-1]:.1e}"
    )
    if not seen.any():
        finding += f", none above {_RESOLVED:g} past the first, which shows no fall"
    allowed, quoted = _ERRORS * problem.error, ""
    if (shares < -allowed).any():
        n, below = ladder[np.argmin(shares)], -shares.min()
        status = FAILS
        quoted = f"{n} tokens are below E(σ) by {below:.6g} U, right to {allowed:.1g}"
    elif undercut or not np.isfinite(shares).all():
        status, finding = DIFFERS, f"{finding}: {FAULT}"
    data = xr.Dataset(
        {
            "optimum_gap": ("optimum", gap),
            "inner_product_error": ("optimum", error),
            "token_share": ("tokens", shares, {"long_name": "(E - E(σ))/U of the best found"}),
            "token_rate": ("tokens", np.append(rates, np.nan)),
        },
        coords={"optimum": list(optima), "tokens": ladder},
    )
    return Evidence("discrete", status, finding, data, witness=quoted)


def _best(problem: Problem, target: Array, starts: int, rng: np.random.Generator) -> Array:
    """The lowest of some searches from random starts; of one next to a target of many points."""
    n, dim = target.shape
    if n >= _MANY:
        return _polished(problem, target + _PERTURBED * rng.normal(size=target.shape))
    found = []
    for _ in range(starts):
        tokens = Particles(Uniform(dim).sample(n, rng))
        flown = solve(tokens, SA(problem.beta, sign=-1), 2.0, 1, rtol=1e-3, atol=1e-4).final
        found.append(_polished(problem, cast(Particles, flown).points))
    return min(found, key=lambda points: _pairs(problem, points))


def _pairs(problem: Problem, points: Array) -> float:
    """log of the mean of e^{β<x_i,x_j>} over pairs i ≠ j, to the digits that β leaves."""
    t = problem.beta * inner_products(points)
    return float(t.max() + np.log1p(np.expm1(t - t.max()).mean()))


def _polished(problem: Problem, start: Array) -> Array:
    """Down to a minimum of log Σ_{i≠j} e^{β<x_i,x_j>}/β."""
    n, dim = start.shape
    beta = problem.beta

    def value(x: Array) -> tuple[float, Array]:
        y = x.reshape(n, dim)
        lengths = np.linalg.norm(y, axis=1)[:, None]
        points = y / lengths
        exponents = beta * (points @ points.T)
        np.fill_diagonal(exponents, -np.inf)
        top = exponents.max()
        shifted = np.exp(exponents - top)
        np.fill_diagonal(exponents, top)
        # a mean of small numbers minus 1, which keeps digits where β is small
        off = np.expm1(exponents - top)
        mean = off.sum() / (n * (n - 1))
        pull = 2.0 * (shifted / shifted.sum()) @ points
        pull -= np.einsum("id,id->i", pull, points)[:, None] * points
        return (top + float(np.log1p(mean))) / beta, (pull / lengths).ravel()

    found = minimize(value, start.ravel(), jac=True, method="L-BFGS-B", options=_OPTIONS)
    points = found.x.reshape(n, dim)
    return np.asarray(points / np.linalg.norm(points, axis=1)[:, None])


def _lowest(problem: Problem, n: int, rng: np.random.Generator) -> float:
    """The share of n tokens of equal mass after one search: 1/n in the mean for random ones."""
    points = _polished(problem, Uniform(problem.dim).sample(n, rng))
    return float(problem.excess(np.clip(points @ points.T, -1.0, 1.0)).mean())
