"""A density on the circle beside a first-order Lax–Friedrichs scheme: error over time.

SA, β = 4, from f0 = 1 + cos(θ)/2 + 0.3 sin 2θ to t = 0.5. The scheme is what one would write first,
plainly in numpy: up to 9,999 cells, a dense convolution, steps of 0.9 of its stability limit. The
convolution is Σ_k K(θ_k) f(θ_j - θ_k): a cross-correlation, Σ_k K(θ_k) f(θ_j + θ_k),
moves tokens as if the density were its mirror image, which a symmetric start hides. With FFTs in
place of the dense sums the scheme has its strongest form.

Errors are ∫|f - f_ref| dσ, the reference a flow map with tol = 1e-13. Ratios are of the time of the
scheme to that of the first of our runs whose error is no larger, medians over interleaved rounds.
Where the error of the fewest cells will do, the scheme takes less time than our run, most of which
goes into starting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

import meanfield as mf
from validation._inside import circle_points
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, ratio
from validation.drawing import COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]
Convolution = Callable[[Array], Array]

BETA, T_END = 4.0, 0.5
LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
COURANT = 0.9
CELLS, QUICK_CELLS = (625, 1250, 2500, 5000, 9999), (100, 200)
REPEATS = 5
# modes, and the tolerance of steps that goes with them
OURS = ((24, 1e-3), (32, 1e-4), (48, 1e-5), (64, 1e-9), (96, 1e-12))
OWN, DENSE, BY_FFT = "meanfield", "Lax–Friedrichs, dense", "Lax–Friedrichs, FFT"


def dense(kernel: Array) -> Convolution:
    """f to Σ_k K(θ_k) f(θ_j - θ_k), indices modulo N, in N² multiplications."""
    return lambda f: np.convolve(np.concatenate([f[1:], f]), kernel, "valid")


def by_fft(kernel: Array) -> Convolution:
    """The same in O(N log N)."""
    modes = rfft(kernel)
    return lambda f: np.asarray(irfft(modes * rfft(f), len(f)))


FORMS = {DENSE: dense, BY_FFT: by_fft}


def centres(cells: int) -> Array:
    """Angles of the cells' centres."""
    return 2.0 * np.pi / cells * np.arange(cells)


def lax_friedrichs(cells: int, convolution: Callable[[Array], Convolution] = dense) -> Array:
    """f at t = 0.5 at the centres: f_j ← (f_{j-1} + f_{j+1})/2 - (F_{j+1} - F_{j-1}) Δt/(2Δθ)."""
    theta = centres(cells)
    weight = np.exp(BETA * (np.cos(theta) - 1.0)) / cells
    pull, total = convolution(-np.sin(theta) * weight), convolution(weight)
    f, t, width = LAW.pdf(circle_points(theta)), 0.0, 2.0 * np.pi / cells
    while t < T_END:
        velocity = pull(f) / total(f)
        step = min(COURANT * width / float(np.abs(velocity).max()), T_END - t)
        flux = f * velocity
        ahead, behind = np.roll(flux, -1), np.roll(flux, 1)
        f = 0.5 * (np.roll(f, -1) + np.roll(f, 1)) - 0.5 * step / width * (ahead - behind)
        t += step
    return np.asarray(f)


def own(n: int, rtol: float) -> mf.Density:
    """The density at t = 0.5 in a space that is not refined."""
    start = mf.Density(mf.Circle(n), LAW, tail_tol=1e-2, max_size=n)
    tolerances = {"rtol": rtol, "atol": 1e-2 * rtol}
    sol = mf.evolve(start, mf.SA(BETA), T_END, 1, on_unresolved="stop", **tolerances)
    assert isinstance(sol.final, mf.Density)
    assert sol.t[-1] == T_END
    return sol.final


def reference() -> Callable[[Array], Array]:
    """f at t = 0.5 at angles, by another representation."""
    sol = mf.evolve(mf.FlowMap(LAW, tol=1e-13), mf.SA(BETA), T_END, 1, rtol=1e-12, atol=1e-14)
    return lambda angles: np.asarray(sol.pdf(circle_points(angles), T_END))


def own_rows(
    chosen: tuple[tuple[int, float], ...], truth: Any, rounds: int
) -> list[dict[str, Any]]:
    """Time and error of our runs."""
    ways = {f"N = {n}": lambda n=n, rtol=rtol: own(n, rtol) for n, rtol in chosen}
    times, angles = interleaved(ways, rounds), centres(1000)
    at, exact = circle_points(angles), truth(angles)
    return [
        {
            "way": OWN,
            "cells": n,
            "rtol": rtol,
            "error": float(np.abs(own(n, rtol).pdf(at) - exact).mean()),
            "seconds": median(times, f"N = {n}"),
        }
        for n, rtol in chosen
    ]


def scheme_row(
    way: str, cells: int, truth: Any, rounds: int, ours: list[dict[str, Any]]
) -> dict[str, Any]:
    """Time and error of the scheme, over the first of our runs that is as exact."""
    ways: dict[str, Callable[[], Any]] = {way: lambda: lax_friedrichs(cells, FORMS[way])}
    error = float(np.abs(ways[way]() - truth(centres(cells))).mean())
    match = next((row for row in ours if row["error"] <= error), None)
    if match:
        ways[OWN] = lambda: own(match["cells"], match["rtol"])
    times = interleaved(ways, rounds)
    return {
        "ratio": ratio(times, way, OWN) if match else None,
        "way": way,
        "cells": cells,
        "error": error,
        "seconds": median(times, way),
        "our N": match["cells"] if match else None,
        "our error": match["error"] if match else None,
    }


def measure(quick: bool) -> Tables:
    """The scheme's runs with their ratios, and ours."""
    truth = reference()
    rounds = 1 if quick else REPEATS
    ours = own_rows(OURS[:3] if quick else OURS, truth, rounds)
    schemes = [
        scheme_row(way, cells, truth, rounds, ours)
        for way in FORMS
        for cells in (QUICK_CELLS if quick else CELLS)
    ]
    return {"the scheme over meanfield": schemes, "meanfield": ours}


def figure(tables: Tables) -> Figure:
    """Error against time of all three."""
    drawing, (ax,) = panels(1, "Circle, SA, β = 4, t = 0.5")
    rows = [row for part in tables.values() for row in part]
    for way, colour, marker in zip((OWN, DENSE, BY_FFT), COLOURS, MARKERS, strict=False):
        points = [(row["seconds"], row["error"]) for row in rows if row["way"] == way]
        ax.loglog(*zip(*points, strict=True), marker + "-", color=colour, label=way, markersize=3)
    label(ax, "seconds", "∫|f - f_ref| dσ")
    return drawing


if __name__ == "__main__":
    main(measure, figure)
