"""What brackets of W_1 and W_2 on S² cost, and how wide they are; POT's simplex beside them.

`OPENBLAS_NUM_THREADS=1 python -m validation.benchmarks.sphere_transport`: pairs of densities at
lmax = 47 without symmetry, medians over repeats in one process. POT's network simplex has the
masses of the densities at the points of a coarser grid; its distance is that of these atoms, with
an error that it does not tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import meanfield as mf
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median
from validation.sphere_transport import GAPS, pairs_without_symmetry, width

REPEATS, COARSE = 3, mf.Sphere(15)


def on_coarse_grid(density: mf.Density) -> mf.Particles:
    """Atoms at the points of a grid with 24 rings."""
    masses = COARSE.weights * np.maximum(density.at(COARSE.points), 0.0)
    return mf.Particles(COARSE.points, masses / masses.sum())


def row(pair: tuple[mf.Density, mf.Density], p: int, repeats: int) -> dict[str, Any]:
    """The bracket with its width, the distance of the atoms, and the seconds of either."""
    clouds = [on_coarse_grid(density) for density in pair]
    times = interleaved(
        {
            "bracket": lambda: mf.wasserstein(*pair, p=p),
            "atoms": lambda: mf.wasserstein(*clouds, p=p),
        },
        repeats,
    )
    bracket = mf.wasserstein(*pair, p=p)
    assert isinstance(bracket, mf.Bracket)
    return {
        "W_p": bracket.value,
        "relative width": width(bracket),
        "seconds": median(times, "bracket"),
        "atoms: W_p": float(mf.wasserstein(*clouds, p=p)),
        "atoms: seconds": median(times, "atoms"),
    }


def measure(quick: bool) -> Tables:
    """Every pair and exponent; the short form takes the first pair once."""
    pairs = list(pairs_without_symmetry(np.random.default_rng(5)).items())
    found = [
        {"pair": name, "p": p} | row(pair, p, 1 if quick else REPEATS)
        for name, pair in (pairs[:1] if quick else pairs)
        for p in (list(GAPS)[:1] if quick else GAPS)
    ]
    return {"": found}


if __name__ == "__main__":
    main(measure, packages=("ducc0", "POT"))
