"""Tokens in R^d without layer normalisation: (9.1) to (9.6), Example 9.3, the limits of Table 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import meanfield as mf
from validation._inside import evolve_free
from validation.claims import Claim, main

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "without_normalisation.png"


def forms() -> list[Claim]:
    """x = e^{tV} z, the hardmax limit, Example 9.3."""
    rng = np.random.default_rng(0)
    start = rng.uniform(-1, 1, size=(8, 3))
    value = np.array([[1.0, 0.2, 0.0], [0.0, 0.7, -0.3], [0.1, 0.3, 0.7]])
    one = evolve_free(start, 2.0, 4, V=value, attention="softmax", rtol=1e-12, atol=1e-14)
    other = evolve_free(start, 2.0, 4, V=value, attention="rescaled", rtol=1e-12, atol=1e-14)
    from scipy.linalg import expm

    grown = np.array([z @ expm(t * value).T for t, z in zip(other.t, other.points, strict=True)])
    apart = float(np.abs(grown - one.points).max() / np.abs(one.points).max())
    flat = start[:, :2]
    soft = evolve_free(flat, 3.0, 3, attention="frozen", beta=1e6)
    hard = evolve_free(flat, 3.0, 3, attention="hardmax")
    limit = float(np.abs(soft.points - hard.points).max())
    three, example = [[1.0, 1.0], [-1.0, 1.0], [0.0, 0.0]], 0.0
    ends = {"average": (0.0, 1.0), "first": (1.0, 1.0), "last": (-1.0, 1.0)}
    for tie, end in ends.items():
        run = evolve_free(three, 2.0, 4, attention="hardmax", tie=tie)
        exact = (1.0 - np.exp(-run.t))[:, None] * np.array(end)
        example = max(example, float(np.abs(run.points[:, 2] - exact).max()))
        example = max(example, float(np.abs(run.points[:, :2] - np.array(three[:2])).max()))
    return [
        Claim("x = e^{tV} z: both forms, relative", "(9.1)-(9.3)", apart, 1e-10, "rtol = 1e-12"),
        Claim("softmax at β = 1e6 against hardmax", "(9.4), (9.5)", limit, 1e-4, "1/β at ties"),
        Claim("three selections of Example 9.3", "Example 9.3", example, 1e-8, "rtol = 1e-9"),
    ]


def limits(quick: bool) -> list[Claim]:
    """Table 1 from random starts."""
    seeds, found = range(2 if quick else 10), []
    off = {"polytope": 0.0, "hyperplanes": 0.0, "polytope × line": 0.0, "origin": 0.0}
    most = 0
    for seed in seeds:
        ds = mf.studies.limits_without_normalisation(rng=seed)
        off = {case: max(value, float(ds.off.sel(case=case))) for case, value in off.items()}
        most = max(most, int(ds.n_distinct.sel(case="hyperplanes")))
    bounds = {
        "polytope": (1e-4, "e^{-t} to go at t = 12"),
        "hyperplanes": (1e-4, "e^{-t} to go at t = 12"),
        "polytope × line": (1e-4, "e^{-t} to go at t = 12"),
        "origin": (0.2, "of order (2βt)^{-1/2} = 0.046 for each axis"),
    }
    for case, (bound, why) in bounds.items():
        name = f"{case}: distance from the limit set, {len(seeds)} starts"
        found.append(Claim(name, "Table 1", off[case], bound, why))
    found.append(Claim("hyperplanes: how many", "Table 1", most, 3, "at most three"))
    return found


def decay() -> list[Claim]:
    """V = -I: the covariance tends to I/(2βt)."""
    start = np.random.default_rng(1).uniform(-1, 1, size=(40, 2))
    run = evolve_free(start, 4000.0, 2, beta=2.0, V=-1.0, attention="softmax")
    eigenvalues = np.linalg.eigvalsh(np.cov(run.points[-1].T, bias=True))
    off = float(np.abs(eigenvalues * 2 * 2.0 * 4000.0 - 1.0).max())
    return [
        Claim("V = -I: 2βt times the covariance, less 1", "C' = -2βC²", off, 0.02, "order log t/t")
    ]


def check(quick: bool) -> list[Claim]:
    """All of the above."""
    if not quick:
        ds = mf.studies.limits_without_normalisation(rng=3)
        mf.plot.save(mf.plot.limits_without_normalisation(ds), FIGURE)
    return [*forms(), *limits(quick), *decay()]


if __name__ == "__main__":
    main(check)
