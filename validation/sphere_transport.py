"""Brackets of W_1 and W_2 on S²: they hold the truth of axisymmetric pairs, and are narrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import meanfield as mf
from validation.claims import Claim, main

Array = NDArray[np.float64]

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "brackets.png"
SPACE = mf.Sphere(47)
GAPS = {1: 2e-3, 2: 1e-2}
# which axisymmetric pairs the quick form takes: none whose W_2 is an estimate, which takes seconds
QUICK = {1: [0, 1, 2], 2: [3]}
# errors of values
VALUES = {1: 2e-4, 2: 1e-3}
# of the von Mises-Fisher law with κ = 5 and the uniform one: ∫|F - G| of the polar angles
W_1_OF_KAPPA_5 = 0.99430231356564


def unit(rng: np.random.Generator) -> Array:
    """A uniformly random point of S²."""
    point = rng.standard_normal(3)
    return np.asarray(point / np.linalg.norm(point))


def axisymmetric_law(rng: np.random.Generator, axis: Array) -> mf.Mixture:
    """Two bumps at the poles of the axis and a uniform part."""
    kappas = rng.uniform(0.5, 30.0, 2)
    bumps = [mf.VonMisesFisher(s * axis, k) for s, k in zip((1.0, -1.0), kappas, strict=True)]
    return mf.Mixture([*bumps, mf.Uniform(3)], rng.random(3), unit_mass=True)


def bumps(rng: np.random.Generator, count: int, kappa: float) -> mf.Density:
    """Bumps at random places, of random masses."""
    laws = [mf.VonMisesFisher(unit(rng), kappa) for _ in range(count)]
    return mf.Density(SPACE, mf.Mixture(laws, rng.random(count) + 0.2, unit_mass=True))


def pairs_without_symmetry(rng: np.random.Generator) -> dict[str, tuple[mf.Density, mf.Density]]:
    """Smooth, concentrated, near and far."""
    bump, other = unit(rng), unit(rng)
    one = mf.VonMisesFisher(bump, 10.0)
    near = mf.Mixture([one, mf.VonMisesFisher(other, 30.0)], [0.99, 0.01])
    return {
        "3 and 4 bumps, κ = 3": (bumps(rng, 3, 3.0), bumps(rng, 4, 3.0)),
        "3 and 4 bumps, κ = 20": (bumps(rng, 3, 20.0), bumps(rng, 4, 20.0)),
        "3 and 2 bumps, κ = 50": (bumps(rng, 3, 50.0), bumps(rng, 2, 50.0)),
        "3 bumps, κ = 50, and uniform": (bumps(rng, 3, 50.0), mf.Density(SPACE, mf.Uniform(3))),
        "1 % of the mass elsewhere": (mf.Density(SPACE, near), mf.Density(SPACE, one)),
    }


def width(bracket: mf.Bracket) -> float:
    """(upper - lower)/upper."""
    return (bracket.upper - bracket.lower) / bracket.upper


def axisymmetric(numbers: Sequence[int], p: int) -> Array:
    """Lower end, truth, upper end, value and whether it is proven of these pairs, (…, 5)."""
    rng = np.random.default_rng(p)
    found = []
    for number in range(max(numbers) + 1):
        axis = unit(rng)
        laws = axisymmetric_law(rng, axis), axisymmetric_law(rng, axis)
        if number not in numbers:
            continue
        zonal = [mf.Density(mf.Zonal(3, 63, axis), law) for law in laws]
        bracket = mf.wasserstein(*[mf.Density(SPACE, law) for law in laws], p=p)
        assert isinstance(bracket, mf.Bracket)
        truth = float(mf.wasserstein(*zonal, p=p))
        found.append((bracket.lower, truth, bracket.upper, bracket.value, bracket.proved))
    return np.array(found)


def check(quick: bool) -> list[Claim]:
    """Brackets beside the truth, and their gaps."""
    claims = []
    axes = [[0.6, 0.0, 0.8], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    for axis in axes[:1] if quick else axes:
        law = mf.Density(SPACE, mf.VonMisesFisher(axis, 5.0))
        bracket = mf.wasserstein(law, mf.Density(SPACE, mf.Uniform(3)))
        assert isinstance(bracket, mf.Bracket)
        outside = max(bracket.lower - W_1_OF_KAPPA_5, W_1_OF_KAPPA_5 - bracket.upper)
        what = f"W_1 of κ = 5 about {axis} to uniform, {W_1_OF_KAPPA_5:.14f}, outside its bracket"
        claims.append(Claim(what, "1-D integral", max(outside, 0.0), 0.0, "a true bracket"))
    everything = {p: axisymmetric(QUICK[p] if quick else range(100), p) for p in GAPS}
    for p, found in everything.items():
        lower, truth, upper, value, proved = found.T
        misses = np.count_nonzero((truth < lower) | (truth > upper))
        what = (
            f"{len(truth)} axisymmetric pairs, {proved.sum():.0f} proven: W_{p} outside its bracket"
        )
        claims.append(Claim(what, "1-D W_p of polar angles", misses, 0.0, "true brackets"))
        what = f"{len(truth)} axisymmetric pairs: widest relative bracket of W_{p}"
        claims.append(Claim(what, "-", float(np.max(1.0 - lower / upper)), GAPS[p], "default gap"))
        what = f"{len(truth)} axisymmetric pairs: relative error of the value of W_{p}"
        error = float(np.max(np.abs(value / truth - 1.0)))
        claims.append(
            Claim(what, "1-D W_p of polar angles", error, VALUES[p], "a tenth of the gap")
        )
    plain = list(pairs_without_symmetry(np.random.default_rng(5)).items())
    for name, pair in plain[1::2] if quick else plain:
        for p in (1,) if quick else GAPS:
            bracket = mf.wasserstein(*pair, p=p)
            assert isinstance(bracket, mf.Bracket)
            what = f"{name}: W_{p} = {bracket.value:.4g}, relative bracket"
            claims.append(Claim(what, "-", width(bracket), GAPS[p], "default gap"))
    if not quick:
        draw(everything)
    return claims


def draw(everything: dict[int, Array]) -> None:
    """The ends of each bracket over the truth, from the narrowest to the widest."""
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    for axes, (p, found) in zip(figure.subplots(1, 2), everything.items(), strict=True):
        _draw_ends(axes, p, found)
    # of W_2, which has both kinds of ends
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
    )
    figure.savefig(FIGURE, dpi=120)


def _draw_ends(axes: Axes, p: int, found: Array) -> None:
    lower, truth, upper, value, proved = found[np.argsort(found[:, 2] / found[:, 0])].T
    number = np.arange(1, len(truth) + 1)
    low, high = 1e3 * (lower / truth - 1.0), 1e3 * (upper / truth - 1.0)
    for sure, label in (1.0, "bracket with proven ends"), (0.0, "its upper end an estimate"):
        if np.any(proved == sure):
            some = proved == sure
            axes.vlines(number[some], low[some], high[some], f"C{1 - int(sure)}", label=label)
    axes.plot(number, 1e3 * (value / truth - 1.0), "k.", ms=3, label="its value")
    axes.axhline(0.0, color="black", lw=0.8, label="exact, by polar angles")
    axes.set(
        xlabel="pair, from the narrowest bracket to the widest",
        ylabel="relative difference from the exact one, ‰",
        title=f"$W_{p}$ of {len(truth)} axisymmetric pairs on $S^2$",
    )
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main(check)
