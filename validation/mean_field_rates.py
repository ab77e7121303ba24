"""A density's W_p to its limit falls slower than tokens gather; two-atom limits and their masses.

Where f_0 is positive near the antipode of the limit, mass leaves the antipode at the linear rate 1
(SA) or e^{-β} (USA), so what is left there falls like e^{-(d-1)t} or e^{-(d-1)e^{-β}t}, and

    W_p(mu_t, δ) ~ e^{-rt},  r = min{1, (d-1)/p} (SA),  min{e^β, (d-1) e^{-β}/p} (USA),

with a factor t^{1/p} where both are equal: never faster than n tokens, which gather at the rate 1
or e^β. And f_0 = 1 + cos(θ)/2 on the circle need not end in one Dirac: symmetry keeps π at rest,
and for some β mass stays there.

Measured: flow maps from 1 + <x, e>/2, whose nodes reach the antipode by its logarithm; the rate is
that over the last tenth of a run, from ∫ dist^p dmu. What is left of transients there falls with
the end of the run, and the nodes' 1e-12 of mass counts more: ends are chosen where both are about
1e-5 of W_p^p. Where the two rates are equal e^{prt} W_p^p has to be linear in t: its second
difference is held against the first. The masses at π are known to 2e-3 from two quadratures of
other kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import meanfield as mf
from validation._inside import LineFlowMap
from validation.claims import Claim, main
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels
from validation.metastability import surviving_atom

Array = NDArray[np.float64]

# mass near π at the end, 0 where the limit is one Dirac
FAR = {
    ("USA", 1.0): 0.0,
    ("USA", 2.0): 0.079,
    ("USA", 3.0): 0.165,
    ("USA", 5.0): 0.0,
    ("SA", 1.0): 0.0,
    ("SA", 3.0): 0.0,
    ("SA", 5.0): 0.0117,
}
KINDS = {"SA": mf.SA, "USA": mf.USA}


@dataclass(frozen=True)
class Case:
    """Dynamics, dimension, power, and how long."""

    kind: str
    beta: float
    dim: int
    p: int
    t_end: float

    @property
    def rates(self) -> tuple[float, float]:
        """Of the cluster, and of what is left at the antipode."""
        if self.kind == "SA":
            return 1.0, (self.dim - 1) / self.p
        return float(np.exp(self.beta)), (self.dim - 1) * float(np.exp(-self.beta)) / self.p

    @property
    def told(self) -> str:
        """Its name."""
        return f"{self.kind}, β = {self.beta:g}, d = {self.dim}, W_{self.p}"


PLAIN = [
    Case("SA", 1.0, 2, 2, 15.0),
    Case("SA", 1.0, 5, 2, 12.0),
    Case("USA", 0.5, 10, 2, 10.0),
    Case("SA", 1.0, 3, 4, 12.0),
    Case("USA", 0.5, 2, 1, 26.0),
    Case("USA", 0.5, 2, 2, 26.0),
    Case("USA", 1.0, 2, 1, 44.0),
    Case("USA", 1.0, 2, 2, 44.0),
    Case("USA", 1.0, 3, 1, 26.0),
    Case("USA", 1.0, 3, 2, 26.0),
]
EQUAL = [Case("SA", 1.0, 2, 1, 20.0), Case("SA", 1.0, 3, 2, 14.0)]


@cache
def run(kind: str, beta: float, dim: int, t_end: float) -> tuple[Array, list[LineFlowMap]]:
    """A flow map at 20 times."""
    law = mf.FourierSeries(cos=[0.5]) if dim == 2 else mf.ZonalSeries(dim, [0.5])
    sol = mf.evolve(mf.FlowMap(law), KINDS[kind](beta), t_end, 20)
    return np.asarray(sol.t), [cast(LineFlowMap, mu) for mu in sol.measures]


@cache
def powers(case: Case) -> tuple[Array, Array]:
    """W_p^p to the limit, over time."""
    times, flows = run(case.kind, case.beta, case.dim, case.t_end)
    found = []
    for mu in flows:
        away = np.abs(np.remainder(mu.angles + np.pi, 2.0 * np.pi) - np.pi)
        found.append(float(mu.weights @ away**case.p))
    return times, np.array(found)


def fall(case: Case) -> Claim:
    """The rate over the last tenth of a run."""
    times, found = powers(case)
    rate = float(np.log(found[-3] / found[-1]) / (case.p * (times[-1] - times[-3])))
    claimed = min(case.rates)
    return Claim(
        f"{case.told}: rate",
        "(d-1)/p, (d-1) e^{-β}/p" if case.rates[1] < case.rates[0] else "1, e^β",
        abs(rate - claimed),
        1e-4,
        "transients and nodes, 1e-5 of W_p^p each",
        f"{claimed:.8g}",
        f"{rate:.8g}",
    )


def equal(case: Case) -> Claim:
    """Linear growth of e^{prt} W_p^p."""
    times, found = powers(case)
    grown = np.exp(case.p * case.rates[0] * times) * found
    first, second = grown[-1] - grown[-9], grown[-1] - 2.0 * grown[-5] + grown[-9]
    name = f"{case.told}, equal rates: second over first difference of e^(prt) W_p^p"
    # a factor t^0 or t² would give 1 or 0.3
    off = float(abs(second / first)) if first > 0.0 else float("inf")
    return Claim(name, "t^{1/p}", off, 1e-3, "transients, some times e^(-10)", "0", f"{off:.1e}")


@cache
def far() -> dict[tuple[str, float], float]:
    """Mass near π at t = 40."""
    return {(kind, beta): surviving_atom(KINDS[kind](beta), 40.0)[0] for kind, beta in FAR}


def atoms() -> list[Claim]:
    """End masses."""
    return [
        Claim(
            f"{kind}, β = {beta:g}: mass near π at t = 40",
            "two quadratures",
            abs(mass - FAR[kind, beta]),
            2e-3,
            "known to 2e-3",
            f"{FAR[kind, beta]:g}",
            f"{mass:.6f}",
        )
        for (kind, beta), mass in far().items()
    ]


def check(quick: bool) -> list[Claim]:
    """Rates and equal rates; atoms in the full form only."""
    if quick:
        return [*map(fall, PLAIN[:3]), equal(EQUAL[0])]
    return [*map(fall, PLAIN), *map(equal, EQUAL), *atoms()]


def figure(quick: bool) -> Figure:
    """W_p over t beside the rates, and the masses at the antipode."""
    title = "Densities on their way, from $1 + \\langle x, e\\rangle/2$"
    drawn, (left, *others) = panels(1 if quick else 2, title)
    for case, colour, marker in zip(PLAIN[:5], COLOURS, MARKERS, strict=False):
        if quick and case not in PLAIN[:3]:
            break
        times, found = powers(case)
        distance = found ** (1.0 / case.p)
        slope = np.exp(-min(case.rates) * (times - times[-1]))
        left.semilogy(times, distance, marker, color=colour, ms=3, label=case.told)
        left.semilogy(times, distance[-1] * slope, **CLAIMED)
    label(left, "t", "$W_p$ to the limit", "marks: runs; dashed: rate claimed")
    for right in others:
        for kind, colour, marker in zip(KINDS, COLOURS, MARKERS, strict=False):
            betas = [beta for name, beta in FAR if name == kind]
            right.plot(betas, [FAR[kind, beta] for beta in betas], "_", color="0.4", ms=16)
            found = np.array([far()[kind, beta] for beta in betas])
            right.plot(betas, found, marker, color=colour, ms=5, label=kind)
        label(right, "β", "mass near θ = π at t = 40", "circle; bars: known to 2e-3")
    return drawn


if __name__ == "__main__":
    main(check)
