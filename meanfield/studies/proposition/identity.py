"""E(mu) - E(σ) = 1/(2β) Σ_{k>=1} Λ_k |mu_k|², held against the double integral."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.functionals.moments import common_basis, moments
from meanfield.harmonics import (
    gauss_gegenbauer,
    gegenbauer,
    log_eigenvalues,
    relative_eigenvalues,
)
from meanfield.laws import FourierSeries, Law, Mixture, Uniform, VonMisesFisher, ZonalSeries
from meanfield.measures import AnyMeasure, Density, FlowMap, Particles
from meanfield.spaces import Circle, Sphere, Zonal
from meanfield.studies.proposition import direct
from meanfield.studies.proposition.evidence import DIFFERS, FAULT, HOLDS, OPEN, Evidence
from meanfield.studies.proposition.powers import powers
from meanfield.studies.proposition.problem import Problem

Array = NDArray[np.float64]

# degrees of the random laws, and of the basis in which their measures are developed
_LAW, _BASIS = 3, 8
_TOKENS = 24
# largest degree of a kernel for which all pairs of nodes on S^2 are few enough
_ON_SPHERE = 48
# beyond this β sums over the nodes of a flow map take minutes
_FLOW_MAPS = 100.0
# below it E(mu)/E(σ) - 1 has few digits left
_RELATIVE = 1e-3
# relative to E(mu), beside what e^{βt} rounds; the second is the tolerance of a flow map
_TOLERANCES = {"density": 1e-13, "particles": 1e-13, "flow map": 2e-12}


def identity(problem: Problem, rng: np.random.Generator) -> Evidence:
    """Both sides of the identity for random measures of each kind, as E(mu)/E(σ).

    Left: ∬ e^{β<x,y>} dmu dmu by positive terms. Right: 1 + Σ_{k>=1} (Λ_k/Λ_0) |mu_k|², of the
    moments of the measure. A measure that double precision can't hold at this β and d is nan.
    """
    if not problem.beta >= _RELATIVE:
        return of_shares(problem, rng)
    names, rows = [], []
    for name, measure in _measures(problem, rng):
        names.append(name)
        try:
            rows.append((_double_integral(measure, problem), _by_degrees(measure, problem)))
        except ValueError:
            # nodes or multiplicities beyond double precision
            rows.append((np.nan, np.nan))
    left, right = np.array(rows).T
    errors = np.abs(right / left - 1.0)
    allowed = np.array([_tolerance(name, problem.beta, problem.kmax) for name in names])
    known = np.isfinite(errors)
    worst = ", ".join(
        f"{name} {error:.1e}" if np.isfinite(error) else f"{name} out of range"
        for name, error in zip(names, errors, strict=True)
    )
    finding = f"E - E(σ) = Σ Λ_k |mu_k|²/2β against the double integral, relative to E: {worst}"
    status = _status(errors[known], allowed[known])
    if status == DIFFERS:
        finding += f": {FAULT}"
    data = xr.Dataset(
        {
            "energy_ratio": ("measure", left, {"long_name": "E(mu)/E(σ), double integral"}),
            "energy_ratio_by_degrees": ("measure", right),
            "identity_error": ("measure", errors),
        },
        coords={"measure": names},
    )
    return Evidence("identity", status, finding, data)


def _status(errors: Array, allowed: Array) -> str:
    """Both sides are one number in mathematics: what differs is no counterexample."""
    if not len(errors):
        return OPEN
    return HOLDS if bool((errors <= allowed).all()) else DIFFERS


def _tolerance(name: str, beta: float, kmax: int) -> float:
    # an exponential rounds its argument, polynomials degree by degree
    rounding = 8.0 * float(np.finfo(float).eps) * (beta + kmax)
    return _TOLERANCES[name.partition(",")[0]] + rounding


def _measures(problem: Problem, rng: np.random.Generator) -> list[tuple[str, AnyMeasure]]:
    dim, law = problem.dim, random_law(problem.dim, rng)
    found: list[tuple[str, AnyMeasure]] = []
    if dim == 2:
        found.append(("density", Density(Circle(32), law)))
    else:
        found.append(("density, zonal", Density(Zonal(dim, _BASIS), law)))
    if dim == 3 and problem.kmax <= _ON_SPHERE:
        centres = Uniform(3).sample(2, rng)
        bumps = Mixture([VonMisesFisher(centre, 2.0) for centre in centres], [0.7, 0.3])
        found.append(("density, S^2", Density(Sphere(31), bumps)))
    if problem.beta <= _FLOW_MAPS:
        found.append(("flow map", FlowMap(law)))
    masses = rng.exponential(size=_TOKENS)
    found.append(("particles", Particles(Uniform(dim).sample(_TOKENS, rng), masses)))
    return found


def random_law(dim: int, rng: np.random.Generator) -> Law:
    """1 + Σ_{k <= 3} a_k P_k about the last axis, on the circle with sines too, positive."""
    sizes = rng.dirichlet(np.ones(2 * _LAW)) * 0.9 * rng.choice([-1.0, 1.0], 2 * _LAW)
    if dim == 2:
        return FourierSeries(cos=sizes[:_LAW], sin=sizes[_LAW:])
    return ZonalSeries(dim, sizes[:_LAW])


def _double_integral(measure: AnyMeasure, problem: Problem) -> float:
    """∬ e^{β<x,y>} dmu dmu/Λ_0."""
    beta = problem.beta
    if isinstance(measure, Density):
        points, masses = measure.space.points, measure.space.weights * measure.values
    elif isinstance(measure, FlowMap):
        # G has the law's degrees only, so the law's own nodes do outside
        points, masses = measure.points, measure.weights
    else:
        points, masses = measure.points, measure.weights
    log_g, _ = measure.log_moment(beta * points)
    first = float(log_eigenvalues(beta, problem.dim, 0)[0])
    return float(masses @ np.exp(log_g - first))


def _by_degrees(measure: AnyMeasure, problem: Problem) -> float:
    """1 + Σ_{k>=1} (Λ_k/Λ_0) |mu_k|²."""
    dim = problem.dim
    if isinstance(measure, Particles):
        cosines = np.clip(measure.points @ measure.points.T, -1.0, 1.0)
        found = powers(cosines, measure.weights, dim, problem.kmax)
        return 1.0 + float(problem.weights @ found) / problem.level
    if isinstance(measure, Density):
        power = measure.power
    else:
        basis = common_basis(measure, measure, _BASIS)
        if basis is None:
            raise ValueError(
                f"measure must have a basis of harmonics in dim = {dim}, got {measure}"
            )
        power = basis.power(moments(measure, basis, np.ones(_BASIS + 1))[0])
    multipliers = relative_eigenvalues(problem.beta, dim, len(power) - 1)
    return 1.0 + float(multipliers[1:] @ power[1:])


def of_shares(problem: Problem, rng: np.random.Generator) -> Evidence:
    """The same in units of U: for other kernels, and where β is small and E(mu)/E(σ) nearly 1."""
    dim, kmax = problem.dim, problem.kmax
    points, masses = Uniform(dim).sample(_TOKENS, rng), rng.dirichlet(np.ones(_TOKENS))
    cosines = np.clip(points @ points.T, -1.0, 1.0)
    tokens = direct.of_tokens(points, masses, problem)
    found = powers(cosines, masses, dim, kmax)
    by_degrees = float(problem.weights @ found)
    # a density of the kernel's own degrees, on nodes that are exact for both
    nodes, weights = gauss_gegenbauer(dim, kmax + 16)
    basis = gegenbauer(dim, max(kmax, _LAW), nodes)
    sizes = np.concatenate([[1.0], 0.9 * rng.dirichlet(np.ones(_LAW))])
    own = weights * (sizes @ basis[: _LAW + 1])
    profile = direct.of_profile(nodes, own, problem, kmax + 16)
    moments_of = basis[: kmax + 1] @ own
    left = np.array([profile, tokens])
    right = np.array([float(problem.weights @ moments_of**2), by_degrees])
    errors = np.abs(left - right)
    # sums of rounded products, values of the kernel, and degrees that are below rounding
    rounding = 1e-12 * max(1.0, float(np.abs(problem.weights).sum())) + problem.error
    hidden = np.array([problem.unresolved @ moments_of**2, problem.unresolved @ found])
    finding = (
        f"(E - E(σ))/U = Σ p_k r_k against the double integral: "
        f"density {errors[0]:.1e}, particles {errors[1]:.1e}"
    )
    status = _status(errors, rounding + hidden)
    if status == DIFFERS:
        finding += f": {FAULT}"
    data = xr.Dataset(
        {"share_direct": ("measure", left), "identity_error": ("measure", errors)},
        coords={"measure": ["density, zonal", "particles"]},
    )
    return Evidence("identity", status, finding, data)
