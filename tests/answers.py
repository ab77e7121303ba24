"""What a representation says of a case, how exact that is, and where two of them disagree."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from differential import (
    FLOW_TOL,
    MESH_TOL,
    NOISY_RTOL,
    ROUNDING,
    RTOL,
    Case,
    Representation,
    kernel_norm,
    label_grid,
    representations,
    same_field,
)

import meanfield as mf
from meanfield.measures.density.spectral import spectral_tail

# what a run may need, after doubling twice or thrice
LARGEST = {"circle": 512, "sphere": 95, "zonal": 255}
SPECTRAL = tuple(LARGEST)


@dataclass(frozen=True)
class Answer:
    """Numbers of the final measure, each an array, and the bounds of their errors."""

    who: str
    numbers: dict[str, np.ndarray]
    errors: dict[str, np.ndarray]


def started(case: Case, way: Representation, t_end: float) -> Any:
    """The dynamics of a representation; layers share the time."""
    if way.form == "layers" or (not way.form and len(case.fields) > 1):
        fields = case.fields * 2 if len(case.fields) == 1 else case.fields
        if way.form:
            fields = [f for f in fields for _ in range(2)]
        return mf.Layers(list(fields), t_end / len(fields))
    return same_field(way.form, case, way.name) if way.form else case.fields[0]


def tolerance(way: Representation, dynamics: Any) -> float:
    """Of a time step: of coefficients relative to the L² norm, or of positions."""
    if way.name in ("flow", "mesh"):
        return FLOW_TOL if way.name == "flow" else MESH_TOL
    return NOISY_RTOL if dynamics.noise > 0.0 else RTOL


def run(case: Case, way: Representation, t_end: float) -> mf.Solution:
    """The run of a representation; it must come to its end."""
    start, dynamics = way.measure(), started(case, way, t_end)
    if way.form == "oscillators":
        still = [0.0]
        if way.name == "circle":
            start = mf.OscillatorDensity(start.space, start.law, still)
        else:
            angles = np.arctan2(start.points[:, 1], start.points[:, 0])
            start = mf.Oscillators(angles, still * len(angles), start.weights)
    tol = tolerance(way, dynamics)
    # the tail counts like the tolerance, and clusters stay nodes
    how = {"rtol": max(tol, 3e-14), "atol": 1e-3 * tol, "tail_tol": RTOL, "cluster_radius": 0.0}
    if way.name in SPECTRAL:
        how["largest"] = LARGEST[way.name]
    sol = mf.evolve(start, dynamics, t_end, 1, **how)
    assert sol.status == "finished", f"{way}: {sol.message}"
    return sol


def quadrature_error(case: Case, final: mf.Particles) -> float:
    """Of the law's masses at the nodes of a grid, for e^{β<x,Φ(label)>} f_0(label).

    The grid integrates degrees up to 3 kmax exactly; a tail that falls geometrically up to kmax
    has its square left at 2 kmax.
    """
    space = label_grid(case.dim)
    masses = final.weights / space.weights
    scores = case.beta * (case.probes[:3] @ final.points.T)
    tails = [
        spectral_tail(space.power(space.analysis(masses * np.exp(s - s.max())))) for s in scores
    ]
    return max(tails) ** 2


@dataclass(frozen=True)
class Known:
    """What errors are multiplied by, of the first representation.

    Attributes
    ----------
    growth, volumes : float
        exp(2 rate t) and exp((d - 1) rate t), for the larger rate of start and end.
    unit : float
        How much G(βx) moves with the measure: (1 + β) |e^{β<x,·>}|₂ |f|₂, (1 + β) e^β for atoms.
    at : ndarray or None
        (K + 1) |f|₂ (Σ_k≤K Y_k(x)²)^{1/2} at the probes. By Cauchy and Schwarz it bounds what an
        error of the L² norm does there and, with its factor K + 1 (Bernstein), one of positions.
    """

    growth: float
    volumes: float
    unit: float
    at: np.ndarray | None

    @classmethod
    def of(cls, case: Case, start: Any, sol: mf.Solution) -> Known:
        turned = max(map(case.rate, (start, sol.final))) * float(sol.t[-1])
        growth, volumes = np.exp(2.0 * turned), np.exp((case.dim - 1) * turned)
        if not isinstance(sol.final, mf.Density):
            return cls(growth, volumes, (1.0 + case.beta) * np.exp(case.beta), None)
        norm = float(np.sqrt(sol.final.power.sum()))
        unit = (1.0 + case.beta) * kernel_norm(case.beta, case.dim) * norm
        return cls(growth, volumes, unit, norm * peaks(sol.final, case.probes))


def peaks(mu: mf.Density, probes: np.ndarray) -> np.ndarray:
    """(K + 1) (Σ_k≤K Y_k(x)²)^{1/2}, K the last degree that counts: spaces are larger than f."""
    kmax = int(np.max(np.nonzero(mu.power > RTOL**2 * mu.power.sum())[0], initial=1))
    if isinstance(mu.space, mf.Zonal):
        basis = mf.harmonics.gegenbauer(mu.dim, kmax, np.clip(probes @ mu.space.axis, -1, 1))
        sizes = mf.harmonics.multiplicities(mu.dim, kmax)[:, None] * basis**2
        return (kmax + 1) * np.sqrt(sizes.sum(axis=0))
    harmonics = 2 * kmax + 1 if mu.dim == 2 else (kmax + 1) ** 2
    return np.full(len(probes), (kmax + 1) * np.sqrt(harmonics))


def answered(case: Case, way: Representation, sol: mf.Solution, known: Known) -> Answer:
    """The numbers of a run and their errors."""
    final, beta, probes = sol.final, case.beta, case.probes
    steps = float(sol.dataset["steps"][-1])
    error = (steps * tolerance(way, sol.dynamics) + RTOL) * known.growth
    if way.name == "nodes":
        error += quadrature_error(case, final)
    if case.law_kind == "tokens":
        # a step's error is a mean over coordinates, and one token may have it all
        error *= np.sqrt(final.points.size)
    log_g, _ = final.log_moment(beta * probes)
    numbers = {
        "mass": final.mass(),
        "mean": final.mean(),
        "energy": mf.energy(final, beta),
        "potential": np.exp(log_g),
    }
    potential = known.unit * (error + ROUNDING)
    errors = {"mass": ROUNDING, "mean": error * known.unit / (1 + beta) + ROUNDING}
    errors |= {"energy": potential / max(beta, 1.0), "potential": potential}
    if way.name in SPECTRAL:
        numbers["density"] = final.at(probes)
    elif way.name in ("flow", "mesh") and known.at is not None:
        numbers["density"] = sol.density(probes, t=float(sol.t[-1]))
    if "density" in numbers:
        errors["density"] = known.at * known.volumes * (error + ROUNDING)
    if case.law_kind == "tokens" and way.name != "flow":
        numbers["points"], errors["points"] = final.points, error + ROUNDING
    return Answer(
        str(way),
        {name: np.asarray(number) for name, number in numbers.items()},
        {name: np.asarray(bound) for name, bound in errors.items()},
    )


def answers(case: Case) -> list[Answer]:
    """Of all representations."""
    ways = representations(case)
    start = ways[0].measure()
    t_end = case.t_end(start)
    runs = [run(case, way, t_end) for way in ways]
    known = Known.of(case, start, runs[0])
    return [answered(case, way, sol, known) for way, sol in zip(ways, runs, strict=True)]


def ratio(a: Answer, b: Answer, name: str) -> float:
    """The gap of one number over both errors."""
    gap = np.abs(a.numbers[name] - b.numbers[name])
    return float(np.max(gap / (a.errors[name] + b.errors[name])))


def disagreements(given: list[Answer]) -> list[str]:
    """Every pair and number that are further apart than their errors, in words."""
    return [
        f"{a.who} against {b.who}: {name} is off by {ratio(a, b, name):.3g} of both errors"
        for a, b in itertools.combinations(given, 2)
        for name in a.numbers.keys() & b.numbers.keys()
        if not ratio(a, b, name) <= 1.0
    ]
