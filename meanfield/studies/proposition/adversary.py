"""The search with a will: gradients that try to beat either bound."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import minimize

from meanfield.harmonics import gauss_gegenbauer, gegenbauer, multiplicities
from meanfield.laws import Uniform
from meanfield.studies.proposition import direct
from meanfield.studies.proposition.evidence import DIFFERS, FAILS, FAULT, HOLDS, Evidence
from meanfield.studies.proposition.problem import Problem

Array = NDArray[np.float64]

_TOKENS, _DEGREE = 16, 12
# largest degree of a kernel whose double integrals are done beside sums over degrees
_INTEGRATED = 96
# a bound counts as beaten beyond so many errors of the kernel's values
_ERRORS = 10.0
_OPTIONS = {"maxiter": 500, "ftol": 1e-16, "gtol": 1e-14}


def adversary(problem: Problem, starts: int, rng: np.random.Generator) -> Evidence:
    """L-BFGS down to E(σ) and up to E(δ), from `starts` random starts each.

    Tokens: positions and masses of 16, with the kernel itself. Densities: g², g a series of degree
    12 about an axis, by degrees; where these end is held against a double integral.
    """
    attempts = {
        "tokens, down": [_tokens(problem, -1.0, rng) for _ in range(starts)],
        "tokens, up": [_tokens(problem, 1.0, rng) for _ in range(starts)],
        "density, down": [_density(problem, -1.0, rng) for _ in range(starts)],
        "density, up": [_density(problem, 1.0, rng) for _ in range(starts)],
    }
    margins = np.array([np.min(found) for found in attempts.values()])
    error = _ERRORS * problem.error + float(problem.unresolved[: 2 * _DEGREE + 1].sum())
    beaten = margins < -error
    told = ", ".join(f"{n} {m:.1e}" for n, m in zip(attempts, margins, strict=True))
    finding = f"nearest to a bound by gradients, in units of U: {told}"
    # of a density near σ, energy against squared distance is this, degree by degree
    with np.errstate(divide="ignore", invalid="ignore"):
        counts = _multiplicities(problem)
        forms = problem.weights / counts
    last = int(np.flatnonzero(forms)[-1])
    finding += (
        f"; (E - E(σ))/(U |f - 1|²) is {forms[1]:.1e} for degree 1 and {forms[last]:.1e} for {last}"
    )
    data = xr.Dataset(
        {
            "margin": ("attempt", margins, {"long_name": "distance from the bound, over U"}),
            "energy_per_square": (
                "degree",
                forms,
                {"long_name": "(E - E(σ))/(U |f - 1|²) of degree k alone"},
            ),
        },
        coords={"attempt": list(attempts), "degree": np.arange(problem.kmax + 1)},
    )
    if beaten.any():
        least = int(np.nanargmin(margins))
        quoted = (
            f"gradients ({[*attempts][least]}) end at a measure beyond the bound by "
            f"{-margins[least]:.6g} U, right to {error:.1g}"
        )
        return Evidence("adversary", FAILS, finding, data, witness=quoted)
    if not np.isfinite(margins).all():
        told = f"{finding}; what is nan is no double integral: {FAULT}"
        return Evidence("adversary", DIFFERS, told, data)
    return Evidence("adversary", HOLDS, finding, data)


def _multiplicities(problem: Problem) -> Array:
    """N_k as far as they are doubles, inf beyond."""
    last = problem.kmax
    while True:
        try:
            known = multiplicities(problem.dim, last)
        except ValueError:
            last //= 2
        else:
            return np.append(known, np.full(problem.kmax - last, np.inf))


def _tokens(problem: Problem, sign: float, rng: np.random.Generator) -> float:
    """The least distance from the bound below (sign -1) or above (+1) that tokens reach."""
    dim = problem.dim
    start = np.concatenate([Uniform(dim).sample(_TOKENS, rng).ravel(), rng.normal(size=_TOKENS)])

    def margin(x: Array) -> tuple[float, Array]:
        y, logits = x[:-_TOKENS].reshape(_TOKENS, dim), x[-_TOKENS:]
        lengths = np.linalg.norm(y, axis=1)[:, None]
        points = y / lengths
        masses = np.exp(logits - logits.max())
        masses /= masses.sum()
        apart = points[:, None] - points[None]
        squared = np.einsum("ijd,ijd->ij", apart, apart)
        cosines = 1.0 - 0.5 * squared
        values = problem.defect(squared) if sign > 0.0 else problem.excess(cosines)
        potential = 2.0 * values @ masses
        value = 0.5 * float(masses @ potential)
        # both margins change with the cosines by the kernel's slope, of opposite signs
        pull = -2.0 * sign * (masses[:, None] * problem.slope(cosines) * masses) @ points
        pull -= np.einsum("id,id->i", pull, points)[:, None] * points
        own = masses * (potential - 2.0 * value)
        return value, np.concatenate([(pull / lengths).ravel(), own])

    best = minimize(margin, start, jac=True, method="L-BFGS-B", options=_OPTIONS)
    return float(best.fun)


def _density(problem: Problem, sign: float, rng: np.random.Generator) -> float:
    """The same of densities g²/∫ g² dσ, g = Σ_{k <= 12} c_k p_k: positive whatever c is."""
    dim, kmax = problem.dim, min(problem.kmax, 2 * _DEGREE)
    nodes, weights = gauss_gegenbauer(dim, 2 * _DEGREE + kmax // 2 + 2)
    table = gegenbauer(dim, max(kmax, _DEGREE), nodes)
    norms = np.sqrt(multiplicities(dim, _DEGREE))[:, None]
    basis, own = table[: _DEGREE + 1] * norms, problem.weights[1 : kmax + 1]
    polynomials = table[1 : kmax + 1]
    # near σ the margin is a small number, for which the unit is its size at the start
    unit = float(np.abs(own).max())

    def value(c: Array) -> tuple[float, Array]:
        g = c @ basis
        density = weights * g * g
        mass = density.sum()
        moments = polynomials @ density / mass
        share = float(own @ moments**2)
        slope = 2.0 * ((own * moments) @ polynomials - share) / mass
        return -sign * share / unit, -sign * (basis @ (2.0 * weights * g * slope)) / unit

    start = rng.normal(size=_DEGREE + 1) / (1.0 + np.arange(_DEGREE + 1))
    start[0] += 1.0
    best = minimize(value, start, jac=True, method="L-BFGS-B", options=_OPTIONS)
    share = -sign * float(best.fun) * unit
    margin = problem.dirac - share if sign > 0.0 else share
    return margin if _is_double_integral(problem, best.x, share) else np.nan


def _is_double_integral(problem: Problem, c: Array, share: float) -> bool:
    """Whether a share by degrees is that of g²/∫ g² dσ by a double integral with the kernel itself.

    Kernels of many degrees, which take many nodes, are not asked.
    """
    dim, kmax = problem.dim, problem.kmax
    if kmax > _INTEGRATED:
        return True
    across = kmax // 2 + _DEGREE + 8
    nodes, weights = gauss_gegenbauer(dim, across)
    table = gegenbauer(dim, _DEGREE, nodes)
    g = (c * np.sqrt(multiplicities(dim, _DEGREE))) @ table
    density = weights * g * g / (weights @ (g * g))
    error = _ERRORS * problem.error + float(problem.unresolved[: 2 * _DEGREE + 1].sum())
    return abs(direct.of_profile(nodes, density, problem, across) - share) <= error
