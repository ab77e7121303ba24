"""What a representation says of a case, how exact that is, and where two of them disagree.

The error of a number has three parts. Of the time steps: how far the number is from the same run
with tolerances 100 times as large and fewer restarts. Errors go with the tolerance, so what is left
is some hundredth of that, and it has grown, or not, just as the run made it. Of the start, whose
tail or quadrature is not exact: as large as the run's own tail, times what errors grow by at most,
exp(2 rate t), since the field turns with a point and follows the measure. Of rounding: likewise.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import meanfield as mf
from tests.agreement.differential import (
    FLOW_TOL,
    LARGEST,
    MESH_TOL,
    NOISY_RTOL,
    RTOL,
    SUMS,
    Case,
    Representation,
    kernel_norm,
    label_grid,
    representations,
    same_field,
)
from validation._inside import gegenbauer, multiplicities, spectral_tail

SPECTRAL = tuple(LARGEST)
# tolerances of the run whose difference tells the error, and restarts of the one that counts
LOOSE, PARTS = 100.0, 3
# a few steps of 12 stages and a sum over some hundred points: a unit each, the sum its root
ROUNDING = 200.0 * np.finfo(float).eps
# forms that are another method, not only another field
OWN_STEPS = "", "tiny noise", "oscillators"


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
        return mf.Layers(list(fields), step=t_end / len(fields))
    return same_field(way.form, case, way.name) if way.form else case.fields[0]


def tolerance(way: Representation, dynamics: Any) -> float:
    """The tolerance of a step: of coefficients relative to the L² norm, or of positions."""
    if way.name in ("flow", "mesh"):
        return FLOW_TOL if way.name == "flow" else MESH_TOL
    return NOISY_RTOL if dynamics.noise > 0.0 else RTOL


def run(case: Case, way: Representation, t_end: float, loose: float = 1.0) -> mf.Solution:
    """The run of a representation; it must come to its end."""
    start, dynamics = way.measure(loose), started(case, way, t_end)
    if way.form == "oscillators":
        still = [0.0]
        if way.name == "circle":
            limits = {"tail_tol": start.tail_tol, "max_size": start.max_size}
            start = mf.OscillatorDensity(start.space, start.law, still, **limits)
        else:
            angles = np.arctan2(start.points[:, 1], start.points[:, 0])
            start = mf.Oscillators(angles, still * len(angles), start.weights)
    tol = tolerance(way, dynamics) * loose
    how = {"rtol": max(tol, 3e-14), "atol": 1e-3 * tol}
    if way.name in SPECTRAL:
        how["on_unresolved"] = "stop"
    # a run of two steps takes the same ones at any tolerance: restarts make them shorter
    sol = mf.evolve(start, dynamics, t_end, 1 if loose > 1.0 else PARTS, **how)
    assert sol.status == "finished", f"{way}: {sol.message}"
    return sol


def quadrature_error(case: Case, final: mf.Particles) -> float:
    """The error of the law's masses at the nodes of a grid, for e^{β<x,Φ(label)>} f_0(label).

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
    """What errors of the start and of rounding are multiplied by, of the first representation.

    Attributes
    ----------
    growth, volumes : float
        exp(2 rate t) and exp((d - 1) rate t), for the larger rate of start and end.
    unit : float
        How much G(βx) moves with the measure: (1 + β) |e^{β<x,·>}|₂ |f|₂, (1 + β) e^β for atoms.
    at : ndarray or None
        |f|₂ (Σ_k≤K Y_k(x)²)^{1/2} at the probes, K the space's. By Cauchy and Schwarz it bounds
        what an error of the L² norm does there: much at the poles in high dimension.
    """

    growth: float
    volumes: float
    unit: float
    at: np.ndarray | None

    @classmethod
    def of(cls, case: Case, rate: float, sol: mf.Solution) -> Known:
        turned = max(rate, case.rate(sol.final)) * float(sol.t[-1])
        growth, volumes = np.exp(2.0 * turned), np.exp((case.dim - 1) * turned)
        if not isinstance(sol.final, mf.Density):
            return cls(growth, volumes, (1.0 + case.beta) * np.exp(case.beta), None)
        norm = float(np.sqrt(sol.final.power.sum()))
        unit = (1.0 + case.beta) * kernel_norm(case.beta, case.dim) * norm
        return cls(growth, volumes, unit, norm * peaks(sol.final, case.probes))


def peaks(mu: mf.Density, probes: np.ndarray) -> np.ndarray:
    """(Σ_k≤K Y_k(x)²)^{1/2} of the harmonics that the space holds."""
    kmax = mu.space.kmax
    if isinstance(mu.space, mf.Zonal):
        basis = gegenbauer(mu.dim, kmax, np.clip(probes @ mu.space.axis, -1, 1))
        sizes = multiplicities(mu.dim, kmax)[:, None] * basis**2
        return np.sqrt(sizes.sum(axis=0))
    harmonics = 2 * kmax + 1 if mu.dim == 2 else (kmax + 1) ** 2
    return np.full(len(probes), np.sqrt(harmonics))


def numbers_of(case: Case, way: Representation, sol: mf.Solution) -> dict[str, np.ndarray]:
    """The numbers of the final measure that are compared."""
    final, probes = sol.final, case.probes
    numbers = {
        "mass": final.mass(),
        "mean": final.mean(),
        "energy": mf.energy(final, case.beta),
        "potential": np.exp(final.log_moment(case.beta * probes)[0]),
    }
    if way.name in SPECTRAL:
        numbers["density"] = final.pdf(probes)
    elif way.name in ("flow", "mesh") and case.law_kind != "tokens":
        numbers["density"] = sol.pdf(probes, t=float(sol.t[-1]))
    elif case.law_kind == "tokens" and way.name != "flow":
        numbers["points"] = final.points
    return {name: np.asarray(number) for name, number in numbers.items()}


def steps_of(case: Case, way: Representation, t_end: float, fine: dict) -> dict[str, float]:
    """The errors of the time steps, from the same run at larger tolerances."""
    coarse = numbers_of(case, way, run(case, way, t_end, LOOSE))
    found = {name: float(np.max(np.abs(coarse[name] - fine[name]))) for name in fine}
    # one number may agree by chance: dE = (1/β) ∫ dG dmu, and dE = <m, dm> at β = 0
    beta = case.beta
    of_field = found["potential"] / beta if beta > 0.0 else found["mean"]
    return found | {"energy": max(found["energy"], of_field)}


def errors_of(
    case: Case, way: Representation, sol: mf.Solution, steps: dict[str, float], known: Known
) -> dict[str, np.ndarray]:
    """The errors of the numbers of a run: of the start, of rounding and of the steps."""
    start = ROUNDING
    if way.name in SPECTRAL:
        start += float(sol.dataset["tail"].max())
    elif way.name == "nodes":
        start += quadrature_error(case, sol.final)
    start *= known.growth
    others = {"mass": ROUNDING, "mean": start * known.unit / (1.0 + case.beta), "points": start}
    # that of the mass, too, is divided by β
    others |= {"potential": start * known.unit, "energy": start * known.unit / (case.beta or 1.0)}
    if known.at is not None:
        others["density"] = known.at * known.volumes * start
    return {name: np.asarray(others[name] + steps[name]) for name in steps}


def answers(case: Case) -> list[Answer]:
    """The answers of all representations."""
    ways = representations(case)
    rate = case.rate(ways[0].measure())
    t_end = case.t_end(rate)
    known, steps, given = None, {}, []
    for way in ways:
        sol = run(case, way, t_end)
        known = known or Known.of(case, rate, sol)
        numbers = numbers_of(case, way, sol)
        # sums of every kind make the same steps
        name = "sums" if way.name in SUMS else way.name
        method = name, way.form if way.form in OWN_STEPS else ""
        if method not in steps:
            steps[method] = steps_of(case, way, t_end, numbers)
        own = steps[method]
        given.append(Answer(str(way), numbers, errors_of(case, way, sol, own, known)))
    return given


def ratio(a: Answer, b: Answer, name: str) -> float:
    """The gap of one number over both errors."""
    gap = np.abs(a.numbers[name] - b.numbers[name])
    return float(np.max(gap / (a.errors[name] + b.errors[name])))


def noticed(given: list[Answer], name: str, relative: float) -> bool:
    """Whether the first answer, with one of its numbers off by so much, would disagree."""
    wrong = given[0].numbers | {name: given[0].numbers[name] * (1.0 + relative)}
    return bool(disagreements([replace(given[0], numbers=wrong), *given[1:]]))


def disagreements(given: list[Answer]) -> list[str]:
    """Every pair and number that are further apart than their errors, in words."""
    return [
        f"{a.who} against {b.who}: {name} is off by {ratio(a, b, name):.3g} of both errors"
        for a, b in itertools.combinations(given, 2)
        for name in a.numbers.keys() & b.numbers.keys()
        if not ratio(a, b, name) <= 1.0
    ]
