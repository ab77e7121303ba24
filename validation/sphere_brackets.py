"""Brackets of W_1 and W_2 on S² of random pairs whose distance is known: none misses it.

`python -m validation.sphere_brackets FIRST LAST` computes pairs with these numbers and prints their
rows; 2,000 of them are kept in data/sphere_brackets.csv.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import meanfield as mf
from validation._inside import sphere_distance
from validation.claims import Claim, main

Array = NDArray[np.float64]
Pair = tuple[mf.Bracket, float]

TABLE = Path(__file__).parent / "data" / "sphere_brackets.csv"
SEED = 19
LMAX = 31
# relative gaps that are asked for: where the bounds lie is the claim, not how near
GAPS = {1: 1e-2, 2: 3e-2}
# of the quick form: every kind at p = 2 and at p = 1, and no pair that takes seconds
QUICK = 0, 1, 4, 7, 15, 16, 17, 19
# of distances by quantiles and plans, over the distance
EXACT = 1e-10


def unit(rng: np.random.Generator, n: int) -> Array:
    """Uniformly random points of S², shape (n, 3)."""
    points = rng.standard_normal((n, 3))
    return np.asarray(points / np.linalg.norm(points, axis=1)[:, None])


def on_axis(rng: np.random.Generator, axis: Array) -> mf.Mixture:
    """Bumps at both ends of an axis, and a uniform part."""
    kappas = rng.uniform(0.5, 12.0, 2)
    bumps = [mf.VonMisesFisher(s * axis, k) for s, k in zip((1.0, -1.0), kappas, strict=True)]
    return mf.Mixture([*bumps, mf.Uniform(3)], rng.random(3) + 1e-3, unit_mass=True)


def densities(law: mf.Mixture, axis: Array) -> tuple[mf.Density, mf.Density]:
    """One series about the axis, on a space that knows it and on one that does not."""
    return mf.Density(mf.Zonal(3, LMAX, axis), law), mf.Density(mf.Sphere(LMAX), law)


def two_tokens(rng: np.random.Generator, p: int) -> Pair:
    """Two antipodal tokens and bumps on their axis."""
    axis = unit(rng, 1)[0]
    share = rng.uniform(0.02, 0.98)
    tokens = mf.Particles(np.array([axis, -axis]), np.array([share, 1.0 - share]))
    zonal, sphere = densities(on_axis(rng, axis), axis)
    return sphere_distance(tokens, sphere, p, GAPS[p]), float(mf.wasserstein(tokens, zonal, p))


def two_densities(rng: np.random.Generator, p: int) -> Pair:
    """Densities about one axis."""
    axis = unit(rng, 1)[0]
    (zonal, sphere), (other, on_sphere) = (densities(on_axis(rng, axis), axis) for _ in range(2))
    return sphere_distance(sphere, on_sphere, p, GAPS[p]), float(mf.wasserstein(zonal, other, p))


def point(rng: np.random.Generator, p: int) -> Pair:
    """One token and bumps at any places."""
    laws = [mf.VonMisesFisher(mean, rng.uniform(0.5, 12.0)) for mean in unit(rng, 3)]
    density = mf.Density(mf.Sphere(LMAX), mf.Mixture(laws, rng.random(3) + 1e-3, unit_mass=True))
    token = mf.Particles(unit(rng, 1))
    return sphere_distance(token, density, p, GAPS[p]), float(mf.wasserstein(token, density, p))


def clouds(rng: np.random.Generator, p: int) -> Pair:
    """Tokens of any masses, in one place or in two clusters, beside their exact plan.

    The upper end is that plan's cost, so what is tested is the lower end.
    """
    pair = []
    for _ in range(2):
        points = unit(rng, int(rng.integers(2, 40)))
        if rng.random() < 0.5:
            points = np.sign(points[:, :1]) * unit(rng, 1) + 10.0 ** rng.uniform(-3, 0) * points
        points /= np.linalg.norm(points, axis=1)[:, None]
        masses = rng.random(len(points)) + 1e-3
        pair.append(mf.Particles(points, masses / masses.sum()))
    return sphere_distance(*pair, p, GAPS[p]), float(mf.wasserstein(*pair, p))


KINDS: tuple[Callable[[np.random.Generator, int], Pair], ...] = (
    two_tokens,
    clouds,
    two_densities,
    clouds,
    point,
)


def row(number: int) -> dict[str, object]:
    """The pair with this number: kind and power alternate, and each has a seed of its own."""
    kind, p = KINDS[number % len(KINDS)], 2 - (number // len(KINDS)) % 4 // 3
    bracket, truth = kind(np.random.default_rng([SEED, number]), p)
    ends = {"lower": bracket.lower, "truth": truth, "upper": bracket.upper}
    return {
        "number": number,
        "kind": kind.__name__,
        "p": p,
        **{name: f"{value:.12g}" for name, value in ends.items()},
        "proved": int(bracket.proved),
    }


def outside(rows: list[dict[str, object]]) -> int:
    """How many brackets miss the truth by more than that is known to."""
    ends = np.array([[float(str(one[k])) for k in ("lower", "truth", "upper")] for one in rows])
    lower, truth, upper = ends.T
    return int(np.count_nonzero(np.maximum(lower - truth, truth - upper) > EXACT * truth))


def kept() -> list[dict[str, object]]:
    """The rows of the table."""
    with TABLE.open(newline="") as file:
        return [dict(one) for one in csv.DictReader(file)]


def check(quick: bool) -> list[Claim]:
    """None outside, among pairs that are computed and those that are kept."""
    rows = [row(number) for number in (QUICK if quick else range(100))]
    table = kept()
    claims = []
    for name, found in (f"{len(rows)} random pairs", rows), (f"{len(table)} kept pairs", table):
        proved = sum(int(str(one["proved"])) for one in found)
        what = f"{name}, {proved} of them with proven ends: outside of their bracket"
        source = "quantiles, plans, distances to a point"
        claims.append(Claim(what, source, outside(found), 0.0, "a bound is a bound"))
    return claims


def write(numbers: Iterator[int] | range) -> None:
    """Print the rows with these numbers as they come."""
    writer = None
    for number in numbers:
        one = row(number)
        if writer is None:
            writer = csv.DictWriter(sys.stdout, list(one), lineterminator="\n")
            writer.writeheader()
        writer.writerow(one)
        sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) == 3 and all(argument.isdigit() for argument in sys.argv[1:]):
        write(range(int(sys.argv[1]), int(sys.argv[2])))
    else:
        main(check)
