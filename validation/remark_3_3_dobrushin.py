"""Remark 3.3, Dobrushin: W_1(mu^n_t, mu_t) ≤ e^{Ct} W_1(mu^n_0, mu_0), on the circle.

For two measures μ and ν the fields of (SA) differ by X_ν(x) - X_μ(x) = ∫ k(x, y) d(ν - μ)(y),
k = e^{β cos(y-x)} (sin(y-x) - X_μ(x))/G_ν(x), exactly; for (USA) k = e^{β cos(y-x)} sin(y-x). So
W_1 grows at the rate C(t) = max |∂_x X_μ| + max |∂_y k| at most, which is computed here from the
fields at the saved times, on a grid, as the largest value between neighbouring times. Measured is
W_1 of n independent tokens from the density, over e^{∫C dt} W_1(0); a constant that holds for all
measures, `theory.dobrushin_constant`, is larger and must hold, too. The bound by the field is no
empty one if the ratio of distances passes 1: there has to be growth to be bounded.

Independent tokens come near the density like n^{-1/2} in W_1 on the circle, at t = 0 and after: the
exponent is fitted to means over draws, and held to -1/2 within three of its standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

import meanfield as mf
from validation.claims import Claim, main
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
MODELS: list[tuple[mf.SA | mf.USA, float]] = [
    (mf.SA(2.0), 1.5),
    (mf.USA(1.0), 0.8),
    (mf.SA(4.0), 1.5),
    (mf.USA(2.0), 0.3),
]
GRID = 2.0 * np.pi * np.arange(240) / 240
SAVES = 4
# maxima on the grid are short by (spacing)²/8 of the second derivative, some β² of the value
SLACK = 1e-2


@dataclass(frozen=True)
class Runs:
    """W_1 over (n, draw) at both ends; over (draw, t), with ∫ C dt, for the fewest tokens."""

    name: str
    times: Array
    numbers: list[int]
    ends: Array
    path: Array
    exponents: Array


def steepness(model: mf.SA | mf.USA, mu: mf.Density, nu: mf.Particles) -> float:
    """C of two measures."""
    beta = model.beta
    x = np.column_stack([np.cos(GRID), np.sin(GRID)])
    along = np.column_stack([-np.sin(GRID), np.cos(GRID)])
    field = np.sum(model.velocity(mu, at=x) * along, axis=1)
    ks = np.fft.rfftfreq(len(GRID), 1.0 / len(GRID))
    slope = np.fft.irfft(1j * ks * np.fft.rfft(field), len(GRID))
    apart = GRID[None, :] - GRID[:, None]
    shift, mass = np.zeros((len(GRID), 1)), np.ones((len(GRID), 1))
    if model.normalised:
        shift, mass = field[:, None], nu.moment(beta * x)[0][:, None]
    bend = np.cos(apart) - beta * np.sin(apart) * (np.sin(apart) - shift)
    kernel = np.exp(beta * np.cos(apart)) * bend / mass
    return float(np.abs(slope).max() + np.abs(kernel).max())


@cache
def runs(index: int, quick: bool) -> Runs:
    """Independent tokens beside their density."""
    model, t_end = MODELS[index]
    numbers = [50, 150, 450] if quick else [50, 200, 800, 3200]
    repeats = 6 if quick else 12
    rng = np.random.default_rng(index)
    dense = mf.evolve(mf.Density(mf.Circle(64), LAW), model, t_end, SAVES, rtol=1e-10)
    ends = np.empty((len(numbers), repeats, 2))
    path = np.empty((repeats, SAVES + 1))
    exponents = np.zeros((repeats, SAVES + 1))
    for i, n in enumerate(numbers):
        for draw in range(repeats):
            start = mf.Particles.sample(LAW, n, rng)
            tokens = mf.evolve(start, model, t_end, SAVES, rtol=1e-8)
            pairs = list(zip(dense.measures, tokens.measures, strict=True))
            if i == 0:
                path[draw] = [float(mf.wasserstein(nu, mu, 1)) for mu, nu in pairs]
                rates = np.array([steepness(model, *pair) for pair in pairs])  # type: ignore[arg-type]
                largest = np.maximum(rates[1:], rates[:-1]) * t_end / SAVES
                exponents[draw, 1:] = np.cumsum(largest)
            ends[i, draw] = [float(mf.wasserstein(nu, mu, 1)) for mu, nu in pairs[::SAVES]]
    name = f"{model.name}, β = {model.beta:g}"
    return Runs(name, np.asarray(dense.t), numbers, ends, path, exponents)


def fitted(numbers: list[int], distances: Array) -> tuple[float, float]:
    """Exponent of the means over draws, and its standard error from their spread."""
    logs = np.log(numbers) - np.mean(np.log(numbers))
    means = distances.mean(axis=1)
    errors = distances.std(axis=1, ddof=1) / means / np.sqrt(distances.shape[1])
    weights = logs / (logs @ logs)
    return float(weights @ np.log(means)), float(np.sqrt(weights**2 @ errors**2))


def claims_of(index: int, quick: bool) -> list[Claim]:
    """Bounds and exponents of one dynamics."""
    one, (model, _) = runs(index, quick), MODELS[index]
    growth = one.path / one.path[:, :1]
    bounded = float((growth / np.exp(one.exponents))[:, 1:].max())
    constant = mf.theory.dobrushin_constant(model)
    # e^{Ct} leaves double precision where SA has a large β: rates are compared
    rate = float(np.log(one.ends[:, :, 1] / one.ends[:, :, 0]).max()) / one.times[-1]
    found = [
        Claim(
            f"{one.name}: W_1 over e^(∫C dt) W_1(0), less 1, C from the fields",
            "Remark 3.3",
            bounded - 1.0,
            SLACK,
            "maxima on 240 angles",
            "≤ 1",
            f"{bounded:.3g} of e^{one.exponents.max():.1f}, growth ≤ {growth.max():.2f}",
        ),
        Claim(
            f"{one.name}: largest rate log(W_1(t)/W_1(0))/t, under C for all measures",
            "Remark 3.3",
            rate,
            constant,
            "a bound, at the end of all runs",
        ),
    ]
    for place in (0, -1):
        exponent, error = fitted(one.numbers, one.ends[:, :, place])
        found.append(
            Claim(
                f"{one.name}: exponent of E W_1 in n at t = {one.times[place]:g}, in its errors",
                "n^(-1/2) on the circle",
                abs(exponent + 0.5) / error,
                3.0,
                "three standard errors",
                "-0.5",
                f"{exponent:.3f} ± {error:.3f}",
            )
        )
    return found


def check(quick: bool) -> list[Claim]:
    """Bounds and exponents; that W_1 grows at all."""
    chosen = [1] if quick else range(len(MODELS))
    found = [claim for index in chosen for claim in claims_of(index, quick)]
    grown = min(
        float((one.path[:, -1] / one.path[:, 0]).max())
        for one in (runs(index, quick) for index in chosen)
    )
    name = "1 over the largest growth of W_1 in any draw, least of all dynamics"
    return [*found, Claim(name, "Remark 3.3", 1.0 / grown, 1.0, "something to be bounded")]


def figure(quick: bool) -> Figure:
    """Growth of W_1 beside the bound, and W_1 over n."""
    drawn, (left, right) = panels(2, "n independent tokens and their density, circle")
    for index, colour, marker in zip([1] if quick else [0, 1], COLOURS, MARKERS, strict=False):
        one = runs(index, quick)
        growth = one.path / one.path[:, :1]
        left.semilogy(one.times, growth.T, "-", color=colour, lw=0.6, alpha=0.6)
        left.semilogy([], [], color=colour, label=one.name)
        left.semilogy(one.times, np.exp(one.exponents.max(axis=0)), "--", color=colour, lw=1.2)
        means = one.ends[:, :, -1].mean(axis=1)
        errors = one.ends[:, :, -1].std(axis=1, ddof=1) / np.sqrt(one.ends.shape[1])
        name = f"{one.name}, t = {one.times[-1]:g}"
        right.errorbar(one.numbers, means, errors, fmt=marker, color=colour, ms=4, label=name)
    guide = means[0] * np.sqrt(one.numbers[0] / np.array(one.numbers))
    right.plot(one.numbers, guide, **CLAIMED, label="$n^{-1/2}$")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xticks(one.numbers, labels=[str(n) for n in one.numbers])
    right.xaxis.set_minor_locator(NullLocator())
    label(left, "t", "$W_1(t)/W_1(0)$", f"n = {one.numbers[0]}; dashed: $e^{{\\int C\\,dt}}$")
    label(right, "n", "mean of $W_1$", "with standard errors")
    return drawn


if __name__ == "__main__":
    main(check)
