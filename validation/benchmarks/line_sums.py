"""What moves the nodes of a flow map on the circle: G, ∂G and ΔG by cells or by dense products.

`python -m validation.benchmarks.line_sums`: n nodes, their mass a bump, so that G is e^{−2β} of its
maximum behind it. Cells: the way that flow maps go. Products: e^{β(⟨x,y⟩ − 1)} of all pairs from
one product of matrices, the sums from another with the six columns 1, y, y yᵀ. Errors are those of
G relative to G itself, against sums in long double. `fewest nodes`: how many a flow map has at
least at that β, whose panels are shorter than 8/β.

Products are faster where the ratio is below 1, that is for few nodes. A flow map has more than
`fewest nodes` as soon as its law asks for them, and several times as many once its measure gathers:
most runs are beyond the crossing, and flow maps do without products. At β = 4 those of some hundred
nodes pay for that: products would take a fifth to a third off this part of their time.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from validation._inside import NODES, Line, LineSums, line
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, ratio
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels, sparse_ticks

Array = np.ndarray
BETAS, COUNTS = (4.0, 25.0, 100.0), (128, 256, 512, 1024, 2048, 4096)
# units of 1/β that a panel may be long
PANEL = 8.0
CELLS, PRODUCTS = "cells", "products"


def by_cells(cells: Line, angles: Array, masses: Array) -> Array:
    """The three sums, as a right-hand side takes them."""
    return LineSums(cells, angles)(masses)


def by_products(beta: float, angles: Array, masses: Array) -> Array:
    """The same sums over all pairs."""
    y = np.column_stack([np.cos(angles), np.sin(angles)])
    c, s = y.T
    ones = np.ones(len(angles))
    kernel = np.column_stack([beta * y, -beta * ones]) @ np.column_stack([y, ones]).T
    np.exp(kernel, out=kernel)
    total, cc, ss, c2, cs, s2 = (
        kernel @ (masses[:, None] * np.column_stack([ones, y, c * c, c * s, s * s]))
    ).T
    bend = beta * (c * c * s2 - 2.0 * c * s * cs + s * s * c2) - c * cc - s * ss
    return np.stack([total, c * ss - s * cc, bend])


def row(beta: float, n: int, repeats: int) -> dict[str, Any]:
    """Products over cells, their times and errors."""
    rng = np.random.default_rng(0)
    angles = np.sort(rng.uniform(0.0, 2.0 * np.pi, n))
    masses = np.exp(300.0 * (np.cos(angles) - 1.0))
    masses /= masses.sum()
    ways = {
        CELLS: partial(by_cells, line(beta, 2), angles, masses),
        PRODUCTS: partial(by_products, beta, angles, masses),
    }
    calls = dict.fromkeys(ways, max(1, int(2e6 / n**2)))
    times = interleaved(ways, repeats, calls=calls)
    apart = angles.astype(np.longdouble)[:, None] - angles
    exact = np.exp(-2.0 * beta * np.sin(0.5 * apart) ** 2) @ masses
    errors = {name: float(np.abs(way()[0] / exact - 1.0).max()) for name, way in ways.items()}
    return {
        "ratio": ratio(times, PRODUCTS, CELLS),
        "β": beta,
        "fewest nodes": NODES * int(np.ceil(2.0 * np.pi * beta / PANEL)),
        "n": n,
        **{f"{name}, s": median(times, name) for name in ways},
        **{f"error by {name}": error for name, error in errors.items()},
    }


def measure(quick: bool) -> Tables:
    """Every β at every n."""
    betas, counts, repeats = (BETAS[:1], COUNTS[:2], 1) if quick else (BETAS, COUNTS, 9)
    return {"": [row(beta, n, repeats) for beta in betas for n in counts]}


def figure(tables: Tables) -> Figure:
    """Products over cells against n."""
    drawn, (ax,) = panels(1, "Sums of a flow map")
    rows = tables[""]
    betas = dict.fromkeys(row["β"] for row in rows)
    for beta, colour, marker in zip(betas, COLOURS, MARKERS, strict=False):
        some = [row for row in rows if row["β"] == beta]
        nodes, ratios = ([row[name] for row in some] for name in ("n", "ratio"))
        ax.loglog(nodes, ratios, marker + "-", color=colour, label=f"β = {beta:g}", markersize=4)
    ax.axhline(1.0, **CLAIMED)
    label(ax, "nodes", "time of dense products over cells")
    sparse_ticks(ax)
    return drawn


if __name__ == "__main__":
    main(measure, figure)
