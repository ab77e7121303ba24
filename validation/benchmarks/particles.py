"""Right-hand sides of n tokens: in O(n), in pairs, by KeOps and by PyTorch's attention.

`python -m validation.benchmarks.particles`: SA, β = 4, of uniform tokens on the circle, on S² and
in d = 16; all ways have double precision. KeOps: a reduction of exp(β(⟨x,y⟩ − 1)) (y, 1) that is
compiled and set up beforehand. PyTorch: `scaled_dot_product_attention` of x with scale β, whose
kernel for CPUs never holds the n × n matrix. Errors are those of the velocity over its largest
length, at 16 tokens, against sums in long double; all ways sum what they are given to rounding, so
time is what tells them apart.

Where n² pairs take too long, `measured` says what was done: our right-hand side over pairs is that
of the largest n at which it was measured, times the ratio of the squares; peers are timed at fewer
targets, and their seconds multiplied by n over their number. Ratios are over the faster of our two
ways. All run on one thread, to which `python -m validation.benchmarks` holds ours on S², too: from
n = 20,000 on it has two otherwise. In d = 16 there is nothing but pairs, of which PyTorch's kernel
takes less time than our two products of matrices: its ratios are below 1.

The second table is where sums in O(n) take over: the n at which both take the same time, and the n
that is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf
from validation._inside import GREY, fewest_pairs, tendency
from validation.benchmarks.form import Row, Tables, main
from validation.benchmarks.timing import interleaved, median, peer, ratio
from validation.drawing import COLOURS, MARKERS, label, panels, sparse_ticks

Array = np.ndarray
Ways = dict[str, Callable[[], Array]]

NAMES = {2: "circle", 3: "S²", 16: "d = 16"}
BETA = 4.0
# pairs that a call may sum, and tokens whose velocity is checked
MOST_PAIRS, CHECKED = 3 * 10**8, 16
GOALS = {(2, 10**5, "KeOps"): 300.0}
CROSSED = {2: (1.0, 9.0, 25.0, 100.0), 3: (1.0, 9.0, 25.0, 100.0, 1000.0)}
OWN, PAIRS = "O(n)", "pairs"


def tangential(at: Array, mean: Array) -> Array:
    """P_x of rows."""
    return mean - np.einsum("ij,ij->i", mean, at)[:, None] * at


def own(points: Array, beta: float, sums: str) -> Callable[[], Array]:
    """Our right-hand side, as velocities."""
    rate = tendency(mf.Particles(points, sums=sums), mf.SA(beta))
    state = rate.initial_state
    out = np.empty_like(state)

    def run() -> Array:
        rate(state, out)
        if len(out) == len(points):
            return out[:, None] * np.column_stack([-points[:, 1], points[:, 0]])
        return out.reshape(points.shape)

    return run


def keops(points: Array, at: Array, beta: float) -> Callable[[], Array] | None:
    """G and ∇G in one reduction, set up; None without KeOps."""
    library = peer("pykeops.numpy")
    if library is None:
        return None
    lazy = library.LazyTensor
    scores = lazy(beta * at[:, None, :]) | lazy(points[None])
    values = lazy(np.column_stack([points, np.ones(len(points))])[None])
    reduction = ((scores - beta).exp() * values).sum(axis=1, call=False)

    def run() -> Array:
        sums = reduction()
        return tangential(at, sums[:, :-1] / sums[:, -1:])

    return run


def attention(points: Array, at: Array, beta: float) -> Callable[[], Array] | None:
    """The attention of PyTorch with its fused kernel; None without PyTorch."""
    torch = peer("torch")
    if torch is None:
        return None
    queries, keys = (torch.from_numpy(np.array(x))[None, None] for x in (at, points))
    fused = torch.nn.attention.SDPBackend.FLASH_ATTENTION

    def run() -> Array:
        with torch.no_grad(), torch.nn.attention.sdpa_kernel(fused):
            mean = torch.nn.functional.scaled_dot_product_attention(queries, keys, keys, scale=beta)
        return tangential(at, mean[0, 0].numpy())

    return run


def exact(points: Array, beta: float) -> Array:
    """Velocities of the first tokens, by plain sums in long double."""
    x = points.astype(np.longdouble)
    at = x[:CHECKED]
    weights = np.exp(beta * (at @ x.T - 1.0))
    return np.asarray(tangential(at, weights @ x / weights.sum(axis=1)[:, None]))


def ways_to_sum(points: Array, beta: float, peers: bool) -> tuple[Ways, int]:
    """Every way that is to be measured, and at how many targets the peers are asked."""
    n, dim = points.shape
    targets = min(n, max(CHECKED, MOST_PAIRS // n))
    at = points[:targets]
    ways: dict[str, Callable[[], Array] | None] = {}
    if dim <= 3:
        ways[OWN] = own(points, beta, "transforms")
    if targets == n:
        ways[PAIRS] = own(points, beta, "direct")
    if peers:
        ways |= {"KeOps": keops(points, at, beta), "PyTorch": attention(points, at, beta)}
    return {name: way for name, way in ways.items() if way is not None}, targets


def beside_peers(
    dim: int, n: int, repeats: int, peers: bool, paired: Row | None
) -> list[dict[str, Any]]:
    """How many times as long as our faster way each takes, and its error.

    `paired` is the row of pairs at the largest n at which they were measured.
    """
    points = mf.Uniform(dim).sample(n, np.random.default_rng(0))
    ways, targets = ways_to_sum(points, BETA, peers)
    expected = exact(points, BETA)
    size = float(np.linalg.norm(expected, axis=1).max())
    calls = {name: max(1, int(3e5 / (n if name == OWN else n * targets))) for name in ways}
    times = interleaved(ways, repeats, calls=calls)
    share = {name: 1.0 if name == OWN else n / targets for name in ways}
    rows: dict[str, dict[str, Any]] = {}
    for name, way in ways.items():
        rows[name] = {
            "seconds": median(times, name) * share[name],
            "error": float(np.abs(way()[:CHECKED] - expected).max()) / size,
            "measured": f"at {targets} targets" if share[name] > 1.0 else "whole",
        }
    if PAIRS not in rows and paired is not None:
        told = f"extrapolated from n = {paired['n']}"
        rows[PAIRS] = {"seconds": paired["seconds"] * (n / paired["n"]) ** 2, "measured": told}
    best = min((name for name in (OWN, PAIRS) if name in rows), key=lambda x: rows[x]["seconds"])

    def over(name: str) -> float:
        if name in ways and best in ways:
            return ratio(times, name, best) * share[name] / share[best]
        return float(rows[name]["seconds"] / rows[best]["seconds"])

    return [
        {
            "ratio": over(name),
            "goal": GOALS.get((dim, n, name)),
            "space": NAMES[dim],
            "n": n,
            "way": name,
            **rows[name],
        }
        for name in (OWN, PAIRS, "KeOps", "PyTorch")
        if name in rows
    ]


def over_n(dim: int, counts: tuple[int, ...], repeats: int, peers: int) -> list[dict[str, Any]]:
    """Rows of every n, with the peers at the first `peers` of them."""
    rows: list[dict[str, Any]] = []
    for place, n in enumerate(counts):
        measured = [row for row in rows if row["way"] == PAIRS and row["measured"] == "whole"]
        paired = measured[-1] if measured else None
        rows += beside_peers(dim, n, repeats, place < peers, paired)
    return rows


def crossover(dim: int, beta: float, repeats: int, around: Array) -> dict[str, Any]:
    """The n at which pairs take as long as O(n), between those tried, and the n that is used."""
    used = float(np.sqrt(fewest_pairs(beta, dim)))
    counts = (used * around).astype(int)
    found = []
    for n in counts:
        points = mf.Uniform(dim).sample(n, np.random.default_rng(0))
        ways = {OWN: own(points, beta, "transforms"), PAIRS: own(points, beta, "direct")}
        calls = dict.fromkeys(ways, max(1, int(2e6 * repeats / n**2)))
        found.append(ratio(interleaved(ways, repeats, calls=calls), PAIRS, OWN))
    slope, height = np.polyfit(np.log(counts), np.log(found), 1)
    return {
        "space": NAMES[dim],
        "β": beta,
        "n of equal times": round(float(np.exp(-height / slope))),
        "n used": round(used),
        "pairs over O(n) there": float(np.exp(height + slope * np.log(used))),
    }


def measure(quick: bool) -> Tables:
    """Every way at every n, and where ways change."""
    counts = (100, 1000) if quick else (10**2, 10**3, 10**4, 10**5, 10**6)
    repeats, around = (1, np.array([0.7, 1.4])) if quick else (5, np.array([0.6, 0.8, 1.2, 1.7]))
    # a short form waits for KeOps' compiler once
    peers = {dim: int(dim == 2) if quick else len(counts) for dim in NAMES}
    beside = [over_n(dim, counts, 1 if quick else 3, peers[dim]) for dim in NAMES]
    return {
        "a right-hand side": [row for rows in beside for row in rows],
        "where O(n) takes over": [
            crossover(dim, beta, repeats, around)
            for dim, betas in CROSSED.items()
            for beta in (betas[:1] if quick else betas)
        ],
    }


def figure(tables: Tables) -> Figure:
    """Seconds against n on every space, and errors against seconds for one n."""
    rows = tables["a right-hand side"]
    drawn, (*axes, last) = panels(len(NAMES) + 1, "Right-hand sides of n tokens, SA, β = 4")
    ways = list(dict.fromkeys(row["way"] for row in rows))
    whole = max(row["n"] for row in rows if row["way"] == PAIRS and row["measured"] == "whole")
    for way, colour, marker in zip(ways, COLOURS, MARKERS, strict=False):
        look = {"color": colour, "marker": marker, "label": way, "markersize": 4}
        for ax, space in zip(axes, NAMES.values(), strict=True):
            some = [row for row in rows if (row["way"], row["space"]) == (way, space)]
            if some:
                ax.loglog([row["n"] for row in some], [row["seconds"] for row in some], **look)
    for ax, space in zip(axes, NAMES.values(), strict=True):
        label(ax, "n", "seconds", space)
    _draw_errors(last, [row for row in rows if row["n"] == whole], ways)
    label(last, "seconds", "error of the velocity", f"n = {whole:,}, colours as before")
    sparse_ticks(last)
    return drawn


def _draw_errors(ax: Any, rows: list[Row], ways: list[str]) -> None:
    """Colours tell the way, markers the space."""
    for space, marker in zip(NAMES.values(), MARKERS, strict=False):
        some = [row for row in rows if row["space"] == space]
        across, up = ([row[name] for row in some] for name in ("seconds", "error"))
        colours = [COLOURS[ways.index(row["way"])] for row in some]
        ax.scatter(across, up, c=colours, marker=marker, s=16)
        ax.plot([], [], marker, color=GREY, markersize=4, label=space)
    ax.set_xscale("log")
    ax.set_yscale("log")


if __name__ == "__main__":
    main(measure, figure, packages=("ducc0", "pykeops", "torch"))
