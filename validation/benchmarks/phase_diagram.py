"""The phase diagram of Figure 3 beside a PyTorch loop of Euler steps: time, and error over time.

`python -m validation.benchmarks.phase_diagram`: SA, n = 32 tokens, β from 0.1 to 9, t to 30 with an
eye on the inner products 150 times; float64, one thread on either side. Seconds are those of one
repeat at one β, of whole panels by `studies.phase_diagram`.

The loop moves points: x ← (x + h A x)/|x + h A x| with the attention matrix A and h = 0.1, as the
published scripts do. They keep all repeats in one array, 2048 of them; on a CPU such arrays
leave every cache. So three forms are measured: with 1024 repeats, from a few of its steps, all
of which cost the same; with 8, which stay in a cache and share the overhead; and one repeat
after the other. The goal is for the published form.

`ratio` is over our run at rtol = 1e-4: its inner products and its mean P are much nearer to the
truth than the loop's, so that it is the loosest run that may stand for it. `over the default` is
the same over our run at rtol = 1e-6, which is what `studies.phase_diagram` takes.

Errors are against steps of 1e-10, at eight starts and every β: the largest of an inner product, and
of P, the share of pairs that have met, as its mean over time, and its largest: P jumps from 0 to 1
within a step or two of the loop, so one look at the wrong side of the jump makes this error large.
The second table has the same errors. The loop is of order 1: halving h halves its error. From the
finest h measured the table says what h it would take to be as right as we are, and what that would
cost.

Where time goes: to its end the loop takes 300 steps, whose cost grows with d. Where d is not below
n ours moves inner products, so that a right-hand side takes as long in every dimension. In d = 512
a run takes some 85 of them at rtol = 1e-4 and 165 at 1e-6, on average over β, and about as long
again for sums of stages, the dense output and counting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf
from validation._inside import evolve_batch
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, peer, ratio
from validation.drawing import COLOURS, MARKERS, label, panels

Array = np.ndarray
Way = Callable[[Array, float], Array]
N, DELTA, T_END, EYES, STEP = 32, 1e-3, 30.0, 150, 0.1
TIMES = np.linspace(0.0, T_END, EYES + 1)
DIMS, CLOSELY, GOALS = (8, 128, 512, 1024), 512, {512: 50.0}
STEPS = STEP, STEP / 2.0, STEP / 4.0
OWN, LOOSE = "meanfield", "meanfield, rtol = 1e-4"
TOLERANCES = {OWN: 1e-6, LOOSE: 1e-4}
AT_ONCE, BY_EIGHT = "PyTorch, all at once", "PyTorch, eight at once"
ONE_BY_ONE = "PyTorch, one by one"
BATCH = {AT_ONCE: 1024, BY_EIGHT: 8, ONE_BY_ONE: 1}


def starts(count: int, dim: int) -> Array:
    """Uniform tokens, shape (count, n, d)."""
    points = np.random.default_rng(0).normal(size=(count, N, dim))
    return np.asarray(points / np.linalg.norm(points, axis=2, keepdims=True))


def near(gram: Any) -> Any:
    """How many inner products are as large as those of tokens that have met."""
    return (gram >= 1.0 - DELTA).sum()


def loop(
    points: Array, beta: float, steps: int, observe: Callable[[Any], Any], h: float = STEP
) -> list[Any]:
    """What the PyTorch loop shows at the times of the eye, in steps of h."""
    torch: Any = peer("torch")
    x, rows, every = torch.from_numpy(points.copy()), [], round(T_END / EYES / h)
    moved = torch.empty_like(x)
    # the last look is at the end of the run, which parts of it do not have
    looks = steps + 1 if steps == round(T_END / h) else steps
    with torch.no_grad():
        for step in range(looks):
            gram = torch.matmul(x, x.transpose(1, 2))
            if step % every == 0:
                rows.append(observe(gram))
            if step < steps:
                torch.matmul(torch.softmax(gram.mul_(beta), 2), x, out=moved)
                torch.nn.functional.normalize(moved.mul_(h).add_(x), dim=2, out=x)
    return rows


def errors(found: Array, exact: Array) -> dict[str, float]:
    """Of inner products (times, repeats, n, n), and of P."""
    met = [(one >= 1.0 - DELTA).mean(axis=(1, 2, 3)) for one in (found, exact)]
    off = np.abs(met[0] - met[1])
    return {
        "error": float(np.abs(found - exact).max()),
        "mean error of P": float(off.mean()),
        "error of P": float(off.max()),
    }


def ours(points: Array, beta: float, rtol: float) -> Array:
    """Inner products, by the steps that the study takes."""
    return evolve_batch(points, mf.SA(beta), TIMES, rtol=rtol, atol=1e-2 * rtol)


def euler(points: Array, beta: float, h: float) -> Array:
    """Inner products of the loop."""
    return np.array(loop(points, beta, round(T_END / h), lambda gram: gram.numpy().copy(), h))


def worst(dim: int, betas: Array, ways: Mapping[str, Way]) -> dict[str, dict[str, float]]:
    """The largest of each way's errors over β, at the same starts."""
    some = starts(8, dim)
    exact = {beta: ours(some, beta, 1e-10) for beta in betas}
    found = {}
    for name, way in ways.items():
        rows = [errors(way(some, beta), exact[beta]) for beta in betas]
        found[name] = {error: max(row[error] for row in rows) for error in rows[0]}
    return found


def panel(dim: int, betas: Array, count: int, repeats: int, peers: bool) -> list[dict[str, Any]]:
    """Seconds of every way, over ours, and errors at the same starts."""
    asked = {"repeats": count, "delta": DELTA, "save_at": TIMES}
    dynamics = [mf.SA(float(beta)) for beta in betas]
    study = partial(mf.studies.phase_diagram, dynamics, dim, N, T_END, **asked)
    ways: dict[str, Callable[[], Any]] = {
        name: partial(study, rtol=rtol) for name, rtol in TOLERANCES.items()
    }
    units: dict[str, float] = dict.fromkeys(ways, count * len(betas))
    found: dict[str, Way] = {name: partial(ours, rtol=rtol) for name, rtol in TOLERANCES.items()}
    if peers:
        for name, batch in BATCH.items():
            # the whole run of one repeat, or a few steps of all of them
            steps = max(4, round(T_END / STEP / batch))
            ways[name] = partial(loop, starts(batch, dim), 3.0, steps, near)
            units[name] = batch * steps * STEP / T_END
            found[name] = partial(euler, h=STEP)
    times = interleaved(ways, repeats)
    off = worst(dim, betas, found)

    def over(name: str, own: str) -> float:
        return ratio(times, name, own) * units[own] / units[name]

    return [
        {
            "ratio": over(name, LOOSE),
            "over the default": over(name, OWN),
            "goal": GOALS.get(dim) if name == AT_ONCE else None,
            "d": dim,
            "way": name,
            "seconds": median(times, name) / units[name],
            **off[name],
        }
        for name in ways
    ]


def precision(dim: int, betas: Array, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What errors cost, and what the loop would cost with steps that are as right as ours."""
    cost = {row["way"]: row["seconds"] for row in rows}
    error = {row["way"]: row["error"] for row in rows}
    table: list[dict[str, Any]] = []

    def add(way: str, setting: str, off: float, seconds: float) -> None:
        over = {"ratio": seconds / cost[LOOSE], "over the default": seconds / cost[OWN]}
        row = {"way": way, "setting": setting, "error": off, "seconds": seconds}
        table.append(over | row)

    if AT_ONCE in cost:
        finer = worst(dim, betas, {f"{h}": partial(euler, h=h) for h in STEPS[1:]})
        by_step = [error[AT_ONCE], *(one["error"] for one in finer.values())]
        for h, off in zip(STEPS, by_step, strict=True):
            add(AT_ONCE, f"h = {h:g}", off, cost[AT_ONCE] * STEP / h)
    for name, rtol in TOLERANCES.items():
        add(name, f"rtol = {rtol:g}", error[name], cost[name])
        if AT_ONCE in cost:
            # of order 1 from the finest step
            h = STEPS[-1] * error[name] / by_step[-1]
            told = f"{AT_ONCE}, extrapolated", f"h = {h:.1e}"
            add(*told, error[name], cost[AT_ONCE] * STEP / h)
    return table


def measure(quick: bool) -> Tables:
    """Panels in several dimensions, and error against time in one."""
    betas = np.array([0.1, 5.0]) if quick else np.linspace(0.1, 9.0, 8)
    count, repeats = (2, 1) if quick else (64, 5)
    peers = peer("torch") is not None
    dims, closely = (DIMS[:1], DIMS[0]) if quick else (DIMS, CLOSELY)
    panels = {dim: panel(dim, betas, count, repeats, peers) for dim in dims}
    return {
        "a repeat at one β": [row for rows in panels.values() for row in rows],
        f"error against time, d = {closely}": precision(closely, betas, panels[closely]),
    }


def figure(tables: Tables) -> Figure:
    """Seconds in each dimension, and errors against seconds."""
    drawn, (left, right) = panels(2, "A phase diagram's runs of n = 32 tokens to t = 30")
    (over_dims, over_errors), (_, name) = tables.values(), tables
    rows = [*over_dims, *over_errors]
    looks = dict(
        zip(
            dict.fromkeys(row["way"] for row in rows),
            zip(COLOURS, MARKERS, strict=True),
            strict=False,
        )
    )
    for ax, part, x, y in (
        (left, over_dims, "d", "seconds"),
        (right, over_errors, "seconds", "error"),
    ):
        for way in dict.fromkeys(row["way"] for row in part):
            colour, marker = looks[way]
            some = [row for row in part if row["way"] == way]
            across, up = ([row[name] for row in some] for name in (x, y))
            line = "-" if ax is left else ""
            ax.loglog(across, up, marker + line, color=colour, label=way, markersize=4)
    left.set_ylim(top=2.0)
    label(left, "d", "seconds of a repeat at one β")
    label(right, "seconds", "largest error of an inner product", name.split(", ")[1])
    return drawn


if __name__ == "__main__":
    main(measure, figure, packages=("torch",))
