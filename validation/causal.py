"""Causal tokens on the circle: N iid ones follow today's density as N^-1/2, token j as j^-1/2."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import meanfield as mf
from validation.claims import Claim, main

Array = NDArray[np.float64]

LAW, BETA, T_END = mf.FourierSeries(cos=[0.5]), 4.0, 0.5
# of the Runge–Kutta steps along the density's velocity, whose errors are 1e-7
STEPS = 16
# octaves of j from 32 on: before, fluctuations are no longer small
FIRST = 5


def slope(size: Array, errors: Array) -> tuple[float, float]:
    """That of log rms over log size, and its jackknife error; errors (repeats, sizes) are rms."""

    def fitted(rows: Array) -> float:
        return float(np.polyfit(np.log(size), 0.5 * np.log((rows**2).mean(axis=0)), 1)[0])

    count = len(errors)
    each = np.array([fitted(np.delete(errors, i, axis=0)) for i in range(count)])
    spread = np.sqrt((count - 1) * np.mean((each - each.mean()) ** 2))
    return fitted(errors), float(spread)


def characteristics(densities: mf.Solution, start: Array) -> Array:
    """Where today's density carries points, by steps of fourth order between every other save."""
    plain, angles = mf.SA(BETA), start.copy()
    h = T_END / STEPS

    def speed(k: int, at: Array) -> Array:
        points = np.column_stack([np.cos(at), np.sin(at)])
        velocity = plain.velocity(densities.measures[k], points)
        return np.asarray(points[:, 0] * velocity[:, 1] - points[:, 1] * velocity[:, 0])

    for k in range(0, 2 * STEPS, 2):
        first = speed(k, angles)
        second = speed(k + 1, angles + 0.5 * h * first)
        third = speed(k + 1, angles + 0.5 * h * second)
        last = speed(k + 2, angles + h * third)
        angles += h / 6.0 * (first + 2.0 * second + 2.0 * third + last)
    return angles


def errors(n: int, seed: int, densities: mf.Solution) -> tuple[float, Array]:
    """W_1 to the density at the end, and each token's distance from its characteristic."""
    start = mf.Particles.sample(LAW, n, np.random.default_rng(seed))
    dynamics = mf.SA(BETA, mask=mf.Causal())
    final = mf.evolve(start, dynamics, T_END, 1, rtol=1e-6, atol=1e-9).final
    angles = np.arctan2(start.points[:, 1], start.points[:, 0])
    limit = characteristics(densities, angles)
    points = np.column_stack([np.cos(limit), np.sin(limit)])
    return mf.wasserstein(final, densities.final).value, np.linalg.norm(
        final.points - points, axis=1
    )


def check(quick: bool) -> list[Claim]:
    """Slopes over N and over j, each with its error over the repeats."""
    repeats, largest = (24, 10) if quick else (48, 13)
    start = mf.Density(mf.Circle(128), LAW, tail_tol=1e-11)
    densities = mf.evolve(start, mf.SA(BETA), T_END, 2 * STEPS)
    sizes = np.exp2(np.arange(6, largest + 1))
    distances, by_position = np.empty((repeats, len(sizes))), np.empty((repeats, largest - FIRST))
    for k in range(repeats):
        for i, n in enumerate(sizes):
            distances[k, i], moved = errors(int(n), k + 1000 * i, densities)
        octaves = np.split(moved, 2 ** np.arange(FIRST, largest))[1:]
        by_position[k] = [np.sqrt(np.mean(octave**2)) for octave in octaves]
    found = slope(sizes, distances), slope(np.exp2(np.arange(FIRST, largest)), by_position)
    names = "W_1 of N iid tokens to the density", "distance of token j from its characteristic"
    return [
        Claim(
            f"{name}: slope, {repeats} repeats",
            "mean-field limit",
            abs(value + 0.5),
            0.1,
            "a power of large N and j, off by 0.05 where they are few; errors to 0.04",
            "-1/2",
            f"{value:.3f} ± {error:.3f}",
        )
        for name, (value, error) in zip(names, found, strict=True)
    ]


if __name__ == "__main__":
    main(check)
