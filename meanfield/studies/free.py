"""Where tokens go without layer normalisation: the limits of Table 1 of the paper."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from meanfield.arguments import generator, integer, number, shown
from meanfield.free_tokens import FreeTokens, solve_free

Array = NDArray[np.float64]

CASES = ("polytope", "hyperplanes", "polytope × line", "origin")
_VALUES = {
    "polytope": np.eye(2),
    "hyperplanes": np.array([[1.0, 0.0], [0.4, -0.5]]),
    "polytope × line": np.diag([1.0, 1.0, -0.5]),
    "origin": -np.eye(2),
}
# limits nearer than this are one, beside starts in [-1, 1]
_SAME = 1e-2


def limits_without_normalisation(
    rng: np.random.Generator, *, n: int = 40, beta: float = 20.0, t_end: float = 12.0
) -> xr.Dataset:
    """The four rows of Table 1, run from random tokens in a box, Q = K = I.

    'polytope', V = I: z_i = e^{-t} x_i tend to vertices of a convex polytope (and few other points
    of its boundary). 'hyperplanes', V with one largest eigenvalue λ_1 > 0: the coordinate of z_i
    along its eigenvector takes at most three values in the end. 'polytope × line', V = diag(1, 1,
    -1/2): so do the leading two coordinates as in the first. 'origin', V = -I: x_i → 0; with C the
    tokens' covariance C' = -2βC² in the end, so that each of its eigenvalues is 1/(2βt).

    Parameters
    ----------
    rng : numpy Generator
        For the starts, uniform in [-1, 1]^d.
    n : int
        Number of tokens, n >= 4.
    beta : float
        > 0.
    t_end : float

    Returns
    -------
    xarray.Dataset
        Over (case, t, token, axis): `trajectory`, the first two coordinates of z_i (of x_i for
        'origin'). Over case: `distinct`, how many of the last tokens (of their coordinates along
        the eigenvector for 'hyperplanes') are 1e-2 apart; `off`, how far they are from the claim:
        the distance from the boundary of their convex hull; half of the widest group when
        coordinates are cut into three at their two largest gaps; the largest |x_i|; and `moved`,
        how far they went in the last tenth of the time.

    Raises
    ------
    ValueError
        If an argument is out of range, or tokens overflow before t_end.
    """
    generator("rng", rng)
    n, beta = integer("n", n, low=4), number("beta", beta, above=0)
    runs = [_run(case, rng, n, beta, number("t_end", t_end, above=0)) for case in CASES]
    found = [_evidence(case, run) for case, run in zip(CASES, runs, strict=True)]
    names = ("distinct", "off", "moved")
    return xr.Dataset(
        {
            "trajectory": (
                ("case", "t", "token", "axis"),
                np.array([run.points[:, :, :2] for run in runs]),
            ),
            **{name: ("case", [row[i] for row in found]) for i, name in enumerate(names)},
        },
        coords={"case": list(CASES), "t": runs[0].t},
        attrs={"beta": beta},
    )


def _run(case: str, rng: np.random.Generator, n: int, beta: float, t_end: float) -> FreeTokens:
    value = _VALUES[case]
    start = rng.uniform(-1.0, 1.0, size=(n, len(value)))
    kernel = "softmax" if case == "origin" else "rescaled"
    run = solve_free(start, t_end, 200, beta=beta, value=value, kernel=kernel)
    if run.status != "finished":
        raise ValueError(f"t_end must be smaller for {shown(case)}, got {t_end:g}: {run}")
    return run


def _evidence(case: str, run: FreeTokens) -> tuple[int, float, float]:
    last, before = run.points[-1], run.points[-len(run.t) // 10]
    if case == "origin":
        largest = float(np.linalg.norm(last, axis=1).max())
        return len(_distinct(last)), largest, _moved(last, before)
    if case == "hyperplanes":
        # the left eigenvector: it gives the coordinate along the right one
        along = np.linalg.eig(_VALUES[case].T)[1][:, 0].real
        last, before = last @ along[:, None], before @ along[:, None]
        return len(_distinct(last)), _from_three_values(last[:, 0]), _moved(last, before)
    last, before = last[:, :2], before[:, :2]
    hull = ConvexHull(last)
    depths = -(last @ hull.equations[:, :2].T + hull.equations[:, 2]).max(axis=1)
    return len(_distinct(last)), float(depths.max()), _moved(last, before)


def _from_three_values(values: Array) -> float:
    """Largest distance from three values, the middles of the groups between the largest gaps."""
    ordered = np.sort(values)
    cuts = np.sort(np.argsort(np.diff(ordered))[-2:]) + 1
    return 0.5 * max(float(np.ptp(group)) for group in np.split(ordered, cuts))


def _moved(last: Array, before: Array) -> float:
    return float(np.linalg.norm(last - before, axis=1).max())


def _distinct(points: Array) -> Array:
    """One of each group of points nearer than `_SAME`, shape (k, d)."""
    kept: list[Array] = []
    for point in points:
        if all(np.linalg.norm(point - other) > _SAME for other in kept):
            kept.append(point)
    return np.array(kept)
