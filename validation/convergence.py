"""The error falls exponentially with the resolution, to 1e-12 (a figure)."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf
from validation.claims import Claim, main

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "convergence.png"
OPTIONS: dict[str, Any] = {"rtol": 1e-13, "atol": 1e-15, "on_unresolved": "stop"}
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)], [0.6, 0.4]
)
PROBLEMS: dict[str, tuple[Any, Any, list[int], int]] = {
    "circle, n": (
        mf.Circle,
        mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]),
        list(range(12, 104, 8)),
        256,
    ),
    "S², lmax": (mf.Sphere, BUMPS, list(range(9, 75, 6)), 127),
    "zonal d = 10, kmax": (
        lambda k: mf.Zonal(10, k),
        mf.VonMisesFisher(np.eye(10)[-1], 4.0),
        list(range(7, 67, 4)),
        95,
    ),
}


def errors(name: str, quick: bool) -> tuple[list[int], np.ndarray]:
    """Relative L² error of the density at t = 1, SA, β = 4, against a finer run."""
    make, law, sizes, finest = PROBLEMS[name]
    sizes = sizes[::2] if quick else sizes
    fine = _final(make(finest), law)
    found = []
    for size in sizes:
        coarse = _final(make(size), law)
        lifted = coarse.space.embed(coarse.coefficients, fine.space)
        miss = fine.space.power(lifted - fine.coefficients).sum() / fine.power.sum()
        found.append(float(np.sqrt(miss)))
    return sizes, np.array(found)


def _final(space: Any, law: Any) -> mf.Density:
    values = law.pdf(space.points)
    limits: dict[str, Any] = {"tail_tol": 1e-2, "max_size": space.size}
    start = mf.Density.from_coefficients(space, space.analysis(values), **limits)
    with warnings.catch_warnings():
        # the coarsest spaces are meant to lose it
        warnings.simplefilter("ignore", mf.exceptions.UnfinishedWarning)
        final = mf.evolve(start, mf.SA(4.0), 1.0, 1, **OPTIONS).final
    assert isinstance(final, mf.Density)
    return final


def check(quick: bool) -> list[Claim]:
    """The floor, and that equal steps divide the error by equal factors or more."""
    claims, curves = [], {}
    for name in PROBLEMS:
        sizes, found = errors(name, quick)
        curves[name] = sizes, found
        above = (found[:-1] < 1e-2) & (found[1:] > 1e-12)
        step = float(np.max(found[1:][above] / found[:-1][above]))
        claims += [
            Claim(
                f"{name}: smallest error",
                "spectral method",
                float(found.min()),
                1e-12,
                "time steps at 1e-13",
            ),
            Claim(
                f"{name}: largest quotient of errors a step of {sizes[1] - sizes[0]} apart",
                "exponential",
                step,
                0.1,
                "every step down to 1e-12 divides the error by ten or more",
            ),
        ]
    if not quick:
        draw(curves)
    return claims


def draw(curves: dict[str, tuple[list[int], np.ndarray]]) -> None:
    """Error against resolution, one line a space."""
    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    ax = figure.add_subplot()
    styles = zip(curves.items(), ("#0072b2", "#d55e00", "#009e73"), "os^", strict=True)
    for (name, (sizes, found)), colour, marker in styles:
        ax.semilogy(sizes, np.maximum(found, 1e-16), color=colour, marker=marker, ms=4, label=name)
    ax.axhline(1e-12, color="0.35", linestyle="--", linewidth=0.9)
    ax.set_xlabel("resolution")
    ax.set_ylabel("relative L² error of f at t = 1")
    ax.set_title("SA, β = 4", fontsize=10)
    ax.legend(frameon=False)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=160)


if __name__ == "__main__":
    main(check)
