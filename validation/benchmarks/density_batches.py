"""Many densities in one batch beside a loop of `evolve` over them: runs a second, and errors.

SA with β from 0.5 to 6 and either sign, laws of three random harmonics, to t = 1 at tolerances
1e-9, saved 20 times or once; each member of a batch has its own β. `ratio` is the time of the
loop over that of the batch; a loop takes 64 members at most, a sample of a larger batch. Errors
are those of the last coefficients, over the largest, of eight members against runs at tolerances
of 1e-13. Batches are stepped some lanes at a time: the last table shows what a run takes, in
microseconds, by the number of lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import meanfield as mf
from meanfield.integrate import density_batch
from meanfield.plot.frames import SMALL
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, ratio
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels, sparse_ticks

Array = NDArray[Any]

T_END, GOAL, REPEATS, LOOPED, TOLD = 1.0, 5.0, 5, 64, 8
SPACES: dict[str, list[mf.Circle | mf.Zonal]] = {
    "circle": [mf.Circle(64), mf.Circle(256), mf.Circle(1024)],
    "d = 10": [mf.Zonal(10, 31), mf.Zonal(10, 127)],
}
COUNTS, LANES = (1, 16, 256), (1, 4, 16, 32, 64, 128)


@dataclass
class Problem:
    """Densities on one space, a dynamics for each, and how often they are saved."""

    densities: list[mf.Density]
    dynamics: list[mf.SA]
    saves: int

    @classmethod
    def random(cls, space: mf.Circle | mf.Zonal, count: int, saves: int) -> Problem:
        """So many, always the same."""
        rng = np.random.default_rng(9)
        sizes, betas = rng.uniform(-0.2, 0.2, (count, 3)), rng.uniform(0.5, 6.0, count)
        if isinstance(space, mf.Circle):
            laws = [mf.FourierSeries(cos=row[:2], sin=row[2:]) for row in sizes]
        else:
            laws = [mf.ZonalSeries(space.dim, row) for row in sizes]
        signs = rng.choice([-1, 1], count)
        fields = [mf.SA(b, sign=int(s)) for b, s in zip(betas, signs, strict=True)]
        return cls([mf.Density(space, law) for law in laws], fields, saves)

    def batch(self) -> Array:
        """The last coefficients of all, by one batch."""
        found = mf.evolve_densities(self.densities, self.dynamics, T_END, self.saves)
        if (found.status != "finished").any():
            raise RuntimeError(f"every run must finish, got {found.message.values}")
        return np.asarray(found.coefficients[:, -1])

    def loop(self, **tolerances: float) -> Array:
        """The same by `evolve`."""
        runs = zip(self.densities, self.dynamics, strict=True)
        solutions = [mf.evolve(mu, each, T_END, self.saves, **tolerances) for mu, each in runs]
        return np.array([sol.final.coefficients for sol in solutions])  # type: ignore[union-attr]

    def row(self, repeats: int, goal: float | None = None) -> dict[str, Any]:
        """How long both take, and how far off they are."""
        space, count = self.densities[0].space, len(self.densities)
        some, few = (
            Problem(self.densities[:n], self.dynamics[:n], self.saves) for n in (LOOPED, TOLD)
        )
        times = interleaved({"loop": some.loop, "batch": self.batch}, repeats)
        share = len(some.densities) / count
        truth = few.loop(rtol=1e-13, atol=1e-15)
        largest = np.abs(truth).max()
        return {
            "ratio": ratio(times, "loop", "batch") / share,
            "goal": goal,
            "space": str(space),
            "members": count,
            "saves": self.saves,
            "seconds of the loop": median(times, "loop") / share,
            "seconds of the batch": median(times, "batch"),
            "runs a second": count / median(times, "batch"),
            "error of the loop": np.abs(few.loop() - truth).max() / largest,
            "error of the batch": np.abs(few.batch() - truth).max() / largest,
        }


def lane_rows(spaces: list[mf.Circle], count: int, repeats: int) -> list[dict[str, Any]]:
    """Microseconds of a run for numbers of lanes, taken in turn."""
    rows = []
    for space in spaces:
        problem = Problem.random(space, count, 1)

        def in_lanes(lanes: int, problem: Problem = problem, space: mf.Circle = space) -> None:
            with patch.object(density_batch, "_CHUNK", 2 * lanes * space.n_coefficients):
                problem.batch()

        chosen = [lanes for lanes in LANES if lanes <= count]
        ways = {str(n): lambda n=n, run=in_lanes: run(n) for n in chosen}
        times = interleaved(ways, repeats)
        rows += [
            {"space": str(space), "lanes": n, "microseconds": median(times, str(n)) / count * 1e6}
            for n in chosen
        ]
    return rows


def measure(quick: bool) -> Tables:
    """Batches of several sizes on several spaces, and lanes."""
    if quick:
        spaces = [mf.Circle(64), mf.Zonal(10, 31)]
        tables = {"batches": [Problem.random(space, 4, 1).row(1) for space in spaces]}
        return tables | {"lanes": lane_rows([mf.Circle(64)], 4, 1)}
    rows = []
    for part in SPACES.values():
        for space in part:
            for count in COUNTS:
                is_goal = count == 256 and str(space) == "Circle(256)"
                goal = GOAL if is_goal else None
                rows.append(Problem.random(space, count, 20).row(REPEATS, goal))
                if space.size >= 127:
                    rows.append(Problem.random(space, count, 1).row(REPEATS, goal))
    return {"batches": rows, "lanes": lane_rows([mf.Circle(256), mf.Circle(1024)], 128, REPEATS)}


def figure(tables: Tables) -> Figure:
    """Ratios over the members of a batch, and a run's time over lanes."""
    drawing, (left, right) = panels(2, "Densities in batches, SA, t = 1")
    rows = tables["batches"]
    kinds = list(dict.fromkeys((row["space"], row["saves"]) for row in rows))
    spaces = list(dict.fromkeys(space for space, _ in kinds))
    for kind in kinds:
        place, line = spaces.index(kind[0]), "-" if kind[1] > 1 else "--"
        own = [row for row in rows if (row["space"], row["saves"]) == kind]
        counts, ratios = ([row[name] for row in own] for name in ("members", "ratio"))
        told = f"{kind[0]}, {kind[1]} saves" if kind[1] > 1 else f"{kind[0]}, 1 save"
        left.loglog(counts, ratios, MARKERS[place] + line, color=COLOURS[place], label=told, ms=4)
    left.axhline(1.0, **CLAIMED)
    label(left, "members", "time of a loop / time of the batch")
    left.set_ylim(top=200.0)
    left.legend(loc="upper left", fontsize=SMALL, frameon=False, handlelength=3.5)
    lanes = tables["lanes"]
    for name in dict.fromkeys(row["space"] for row in lanes):
        own, place = [row for row in lanes if row["space"] == name], spaces.index(name)
        counts, times = ([row[key] for row in own] for key in ("lanes", "microseconds"))
        right.loglog(counts, times, MARKERS[place] + "-", color=COLOURS[place], label=name)
    label(right, "lanes", "microseconds of a run")
    sparse_ticks(right)
    return drawing


if __name__ == "__main__":
    main(measure, figure, ["pyfftw"])
