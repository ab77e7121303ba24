"""What brackets of W_1 and W_2 on S² cost, and how wide they are; POT's simplex beside them.

`OPENBLAS_NUM_THREADS=1 python -m validation.benchmarks.sphere_transport`: pairs of densities at
lmax = 47 without symmetry, medians over repeats in one process. POT's network simplex has the
masses of the densities at the points of a coarser grid; its distance is that of these atoms, with
an error that it does not tell. Writes results/sphere_transport.json.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import meanfield as mf
from validation.sphere_transport import GAPS, pairs_without_symmetry, width

RESULTS = Path(__file__).parent / "results" / "sphere_transport.json"
REPEATS, COARSE = 3, mf.Sphere(15)


def on_coarse_grid(density: mf.Density) -> mf.Particles:
    """Atoms at the points of a grid with 24 rings."""
    masses = COARSE.weights * np.maximum(density.at(COARSE.points), 0.0)
    return mf.Particles(COARSE.points, masses / masses.sum())


def measured(pair: tuple[mf.Density, mf.Density], p: int) -> dict[str, float]:
    """Medians of seconds, the bracket and the distance of the atoms."""
    clouds = [on_coarse_grid(density) for density in pair]
    seconds: dict[str, list[float]] = {"bracket": [], "atoms": []}
    for _ in range(REPEATS):
        start = time.perf_counter()
        bracket = mf.wasserstein(*pair, p=p)
        seconds["bracket"].append(time.perf_counter() - start)
        start = time.perf_counter()
        atoms = float(mf.wasserstein(*clouds, p=p))
        seconds["atoms"].append(time.perf_counter() - start)
    assert isinstance(bracket, mf.Bracket)
    return {
        "value": bracket.value,
        "width": width(bracket),
        "seconds": statistics.median(seconds["bracket"]),
        "atoms": atoms,
        "seconds of atoms": statistics.median(seconds["atoms"]),
    }


def main() -> None:
    """Print and write the table."""
    table: dict[str, Any] = {}
    print("| pair | p | W_p | relative bracket | seconds | atoms: W_p | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name, pair in pairs_without_symmetry(np.random.default_rng(5)).items():
        for p in GAPS:
            row = measured(pair, p)
            table[f"{name}, p = {p}"] = row
            print(
                f"| {name} | {p} | {row['value']:.5f} | {row['width']:.1e} | {row['seconds']:.2f} "
                f"| {row['atoms']:.5f} | {row['seconds of atoms']:.2f} |",
                flush=True,
            )
    RESULTS.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
