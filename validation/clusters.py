"""Clusters of flow maps are those of their nodes: 100 random laws, on the circle and about an axis.

On the circle a flow map counts by its nodes, as `Particles` of their weights do. About an axis in
d = 3 it has the clusters of its nodes, each copied to 256 longitudes: in number, and in mass once
all are narrow. Under attraction none vanishes: what was inside one is inside one at the next save.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import meanfield as mf
from meanfield.typing import Array
from validation.claims import Claim, main

ON_CIRCLE, ABOUT_AXIS = 70, 30
LONGITUDES = 256
# clusters of which all are narrower than this have their masses, in radians
NARROW = 0.02
BETAS = 2.0, 4.0, 5.0, 9.0


@dataclass
class Seen:
    """Largest differences over the saves of some runs, and how many saves there were."""

    saves: int = 0
    of_other_number: int = 0
    mass: float = 0.0
    lost: float = 0.0

    def compare(self, some: mf.Clusters, tokens: mf.Particles) -> None:
        """Count one save, of whose clusters those of the tokens are the right ones."""
        right = mf.clusters(tokens)
        self.saves += 1
        if len(some) != len(right):
            self.of_other_number += 1
        elif some.radii.max(initial=0.0) < NARROW:
            self.mass = max(self.mass, float(np.abs(some.masses - right.masses).max(initial=0.0)))


def laws(
    count: int, dim: int, rng: np.random.Generator
) -> Iterator[mf.FourierSeries | mf.ZonalSeries]:
    """Random laws near the uniform one, of five modes."""
    for _ in range(count):
        if dim == 2:
            yield mf.FourierSeries(cos=0.07 * rng.normal(size=5), sin=0.07 * rng.normal(size=5))
        else:
            yield mf.ZonalSeries(dim, 0.08 * rng.normal(size=5))


def meridians(flow: mf.FlowMap) -> mf.Particles:
    """The nodes of a flow map about the last axis in d = 3, each at equal longitudes."""
    turns = 2.0 * np.pi / LONGITUDES * np.arange(LONGITUDES)
    heights = flow.points[:, -1]
    sines = np.sqrt(1.0 - heights**2)[:, None]
    columns = sines * np.cos(turns), sines * np.sin(turns), np.repeat(heights, LONGITUDES)
    points = np.column_stack([column.ravel() for column in columns])
    return mf.Particles(points, np.repeat(flow.weights / LONGITUDES, LONGITUDES), unit_mass=True)


def lost_mass(earlier: list[tuple[Array, Array]], names: Array, labels: Array) -> float:
    """The largest share of a cluster that is outside all clusters at the next save.

    The mass up to each node is its name, since panels split, but nodes keep their order.
    """
    shares = [0.0]
    for inside, masses in earlier:
        nearest = np.clip(np.searchsorted(names, inside), 0, len(names) - 1)
        shares.append(float(masses[labels[nearest] < 0].sum() / masses.sum()))
    return max(shares)


def on_circle(count: int) -> Seen:
    """Runs on the circle, at every save."""
    rng, seen = np.random.default_rng(34), Seen()
    for index, law in enumerate(laws(count, 2, rng)):
        dynamics = mf.SA(BETAS[index % len(BETAS)])
        sol = mf.evolve(mf.FlowMap(law, tol=1e-9), dynamics, 30.0, 30)
        earlier: list[tuple[Array, Array]] = []
        for flow in sol.measures:
            some = mf.clusters(flow)
            seen.compare(some, mf.Particles(flow.points, flow.weights, unit_mass=True))
            names = np.cumsum(flow.weights) - 0.5 * flow.weights
            seen.lost = max(seen.lost, lost_mass(earlier, names, some.labels))
            members = [some.labels == label for label in range(len(some))]
            earlier = [(names[rows], flow.weights[rows]) for rows in members]
    return seen


def about_axis(count: int, saves: int) -> Seen:
    """Runs about an axis in d = 3."""
    rng, seen = np.random.default_rng(5), Seen()
    for index, law in enumerate(laws(count, 3, rng)):
        dynamics = mf.SA(BETAS[index % len(BETAS)])
        sol = mf.evolve(mf.FlowMap(law, tol=1e-9), dynamics, 12.0, saves)
        for flow in sol.measures:
            seen.compare(mf.clusters(flow), meridians(flow))
    return seen


def check(quick: bool) -> list[Claim]:
    """Both kinds of runs, fewer of them in the quick form."""
    circle = on_circle(2 if quick else ON_CIRCLE)
    axis = about_axis(*((1, 4) if quick else (ABOUT_AXIS, 8)))
    return [
        Claim(
            f"on the circle, {circle.saves} saves: clusters of another number than the nodes have",
            "the rule for points",
            circle.of_other_number,
            0.0,
            "none: the same points",
        ),
        Claim(
            "their masses, off those of the nodes",
            "the rule for points",
            circle.mass,
            1e-12,
            "sums",
        ),
        Claim(
            "largest share of a cluster that is outside all at the next save",
            "attraction",
            circle.lost,
            1e-3,
            "nodes at the edge of a cluster as broad as the radius",
        ),
        Claim(
            f"about an axis, {axis.saves} saves: clusters of another number than {LONGITUDES} "
            f"meridians have",
            "the mean of the kernel over a ring",
            axis.of_other_number,
            0.0,
            "none: copies are 0.025 rad apart",
        ),
        Claim(
            f"their masses once all are narrower than {NARROW} rad, off those of the meridians",
            "the mean of the kernel over a ring",
            axis.mass,
            1e-3,
            "copies are 0.025 rad apart",
        ),
    ]


if __name__ == "__main__":
    main(check)
