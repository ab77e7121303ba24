"""Random measures of many kinds, in search of one below E(σ) or above E(δ)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.harmonics import multiplicities, relative_eigenvalues
from meanfield.laws import Uniform
from meanfield.studies.proposition.evidence import DIFFERS, FAILS, FAULT, HOLDS, Evidence
from meanfield.studies.proposition.powers import powers
from meanfield.studies.proposition.problem import ROUNDING, Problem

Array = NDArray[np.float64]

KINDS = ("atoms", "near a Dirac", "mixture", "series", "near uniform")
# points of one measure, bumps to draw from, and measures at once
_POINTS, _BUMPS, _BLOCK = 8, 48, 100


@dataclass(frozen=True)
class _Draws:
    """Measures Σ_i w_i b_i(<., c_i>): shares, what they lack of a Dirac's, and the errors."""

    share: Array
    defect: Array
    error: Array


def search(problem: Problem, samples: int, rng: np.random.Generator) -> Evidence:
    """`samples` measures, the five kinds in turn: 0 < share and 0 < defect of each, to rounding.

    Atoms are summed over pairs, with the kernel itself; a defect as a sum of W(1) - W(t) >= 0, so
    that it keeps its digits next to a Dirac. All else by degrees: mixtures of von Mises-Fisher
    bumps, of 1 + a P_j about several axes, and both mixed with much of σ. These can be below E(σ)
    for kernels with p_k < 0 only; that energies are sums over degrees is what `identity` shows.
    """
    bumps = _bumps(problem, rng)
    kinds = np.arange(samples) % len(KINDS)
    share, defect, error = np.empty((3, samples))
    for first in range(0, samples, _BLOCK):
        block = slice(first, first + _BLOCK)
        for kind in np.unique(kinds[block]):
            where = first + np.flatnonzero(kinds[block] == kind)
            drawn = _drawn(problem, KINDS[kind], len(where), bumps, rng)
            share[where], defect[where], error[where] = drawn.share, drawn.defect, drawn.error
    # a Dirac's share has the error of the kernel's values
    beyond = np.minimum(share / error, defect / (error + problem.error))
    below, above = share < -error, defect < -error - problem.error
    finding = (
        f"{samples} random measures, atoms by pairs and others by degrees: "
        f"least (E - E(σ))/U {share.min():.2e}, least (E(δ) - E)/U {defect.min():.2e}"
    )
    status, quoted = HOLDS, ""
    if below.any() or above.any():
        status, quoted = FAILS, _witness(share, defect, kinds, beyond)
        finding += f"; {int(below.sum())} below E(σ), {int(above.sum())} above E(δ)"
    elif not np.isfinite(share + defect + error).all():
        status, finding = DIFFERS, f"{finding}; energies are not finite: {FAULT}"
    data = xr.Dataset(
        {
            "share": ("sample", share, {"long_name": "(E(mu) - E(σ))/U"}),
            "defect": ("sample", defect, {"long_name": "(E(δ) - E(mu))/U"}),
        },
        coords={"kind": ("sample", np.array(KINDS)[kinds])},
    )
    return Evidence("search", status, finding, data, witness=quoted)


def _witness(share: Array, defect: Array, kinds: NDArray[np.int_], beyond: Array) -> str:
    """The measure that is farthest beyond a bound, over its error."""
    one = int(np.nanargmin(beyond))
    bound, sign = ("E(σ)", "below") if share[one] < defect[one] else ("E(δ)", "above")
    margin = -min(share[one], defect[one])
    return (
        f"random measure {one} ({KINDS[kinds[one]]}) is {sign} {bound} by {margin:.6g} U, "
        f"right to {margin / -beyond[one]:.1g}"
    )


def _bumps(problem: Problem, rng: np.random.Generator) -> Array:
    """Λ_k(κ)/Λ_0(κ) of bumps e^{κ<x,c>}, κ from a tenth to thousands of β, (bumps, kmax + 1)."""
    scale = 1.0 if np.isnan(problem.beta) else max(1.0, problem.beta)
    kappas = scale * 10.0 ** rng.uniform(-1.0, 3.5, _BUMPS)
    return np.array([relative_eigenvalues(k, problem.dim, problem.kmax) for k in kappas])


def _drawn(
    problem: Problem, kind: str, count: int, bumps: Array, rng: np.random.Generator
) -> _Draws:
    dim = problem.dim
    masses = rng.dirichlet(np.full(_POINTS, 0.5), count)
    centres = Uniform(dim).sample(count * _POINTS, rng).reshape(count, _POINTS, dim)
    if kind == "near a Dirac":
        # within 1e-5 to 1 of the first centre
        away = 10.0 ** rng.uniform(-5.0, 0.0, (count, 1, 1))
        centres = centres[:, :1] + away * centres
        centres /= np.linalg.norm(centres, axis=-1, keepdims=True)
    if kind in ("atoms", "near a Dirac"):
        return _of_atoms(problem, centres, masses)
    if kind == "series":
        profiles = _series(problem, count, rng)
    else:
        profiles = bumps[rng.integers(_BUMPS, size=(count, _POINTS))].copy()
    if kind == "near uniform":
        # the rest of the mass is uniform: no power but in degree 0
        profiles[..., 1:] *= 10.0 ** rng.uniform(-4.0, -1.0, (count, 1, 1))
    cosines = np.clip(np.einsum("...id,...jd->...ij", centres, centres), -1.0, 1.0)
    found = powers(cosines, masses[..., None] * profiles, dim, problem.kmax)
    share = found @ problem.weights
    # r_k rounds like the sum of its absolute terms, and a Dirac's share by itself
    most = np.einsum("...i,...ik->...k", masses, np.abs(profiles)) ** 2
    error = ROUNDING * (most @ np.abs(problem.weights)) + found @ problem.unresolved
    defect = problem.dirac - share
    return _Draws(share, defect, np.maximum(error, 1e-300))


def _of_atoms(problem: Problem, centres: Array, masses: Array) -> _Draws:
    apart = centres[:, :, None] - centres[:, None]
    squared = np.einsum("...d,...d->...", apart, apart)
    pairs = masses[:, :, None] * masses[:, None]
    share = (pairs * problem.excess(1.0 - 0.5 * squared)).sum(axis=(1, 2))
    # a sum of terms of one sign for e^{βt}, down to the smallest
    lacking = (pairs * problem.defect(squared)).sum(axis=(1, 2))
    return _Draws(share, lacking, np.full(len(share), problem.error))


def _series(problem: Problem, count: int, rng: np.random.Generator) -> Array:
    """a_j/N_j of 1 + a_j P_j, |a_j| <= 1, one degree j for each centre, and 1 at degree 0."""
    most = max(1, min(problem.kmax, 6))
    sizes = multiplicities(problem.dim, most)
    degrees = rng.integers(1, most + 1, (count, _POINTS))
    profiles = np.zeros((count, _POINTS, problem.kmax + 1))
    profiles[..., 0] = 1.0
    amplitudes = rng.uniform(-1.0, 1.0, degrees.shape) / sizes[degrees]
    np.put_along_axis(profiles, degrees[..., None], amplitudes[..., None], axis=-1)
    return profiles
