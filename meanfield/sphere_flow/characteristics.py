"""Single characteristics through a moment history, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853

from meanfield.sphere_flow.history import History
from meanfield.tendency.sphere_field import SphereField
from meanfield.tendency.sphere_heads import ActingField, SphereDepthField

Array = NDArray[np.float64]
AnyField = SphereField | SphereDepthField

_BLOCK = 8192
_WORKERS = 2


def follow(
    field: AnyField,
    history: History,
    points: Array,
    start: float,
    end: float,
    *,
    absorbed: bool = False,
) -> tuple[Array, Array, Array]:
    """Characteristics of points from one time to another, with ∫ div X dt along them.

    Each step of the run is one step of the eighth-order method of Dormand and Prince, so a point's
    result does not depend on the points beside it.

    Parameters
    ----------
    field : SphereField or SphereDepthField
    history : History
    points : ndarray, shape (n, 3)
        Unit rows, at time `start`.
    start, end : float
        Either order.
    absorbed : bool
        Whether to follow, backwards, only what absorptions have left: a point that keeps nothing
        is left where it is. For meshes, which need no more digits of the field than it has.

    Returns
    -------
    positions : ndarray, shape (n, 3)
        At time `end`.
    stretch : ndarray, shape (n,)
        ∫ div X dt from start to end.
    kept : ndarray, shape (n,)
        The product of 1 - χ over the absorptions passed, 1 unless `absorbed`.
    """
    state = np.column_stack([points, np.zeros(len(points))])
    kept = np.ones(len(points))
    steps = _steps(history, start, end)
    parts = [slice(first, first + _BLOCK) for first in range(0, len(points), _BLOCK)]

    def block(part: slice) -> tuple[Array, Array]:
        return _follow_block(field, history, state[part], steps, absorbed)

    # blocks do not know of each other, so the order in which they end changes nothing
    with ThreadPoolExecutor(_WORKERS) as pool:
        for part, (moved, left) in zip(parts, pool.map(block, parts), strict=True):
            state[part], kept[part] = moved, left
    return state[:, :3], state[:, 3], kept


def _steps(history: History, start: float, end: float) -> list[tuple[int, float, float]]:
    """Pieces of the history with the times between which each is passed."""
    low, high = min(start, end), max(start, end)
    steps = []
    for piece in range(history.piece(low), history.piece(high) + 1):
        a, b = max(low, history.edges[piece]), min(high, history.edges[piece + 1])
        if b > a:
            steps.append((piece, a, b))
    return steps if end >= start else [(piece, b, a) for piece, a, b in reversed(steps)]


def _follow_block(
    field: AnyField,
    history: History,
    state: Array,
    steps: list[tuple[int, float, float]],
    absorbed: bool,
) -> tuple[Array, Array]:
    state, kept = state.copy(), np.ones(len(state))
    live = np.arange(len(state))
    at_time = {a.time: a for a in history.absorptions}
    for piece, a, b in steps:
        moments = [history.at(a + c * (b - a), piece) for c in DOP853.C]
        moving = state[live]
        _step(field.during(a, b), moments, moving, b - a, absorbed)
        state[live] = moving
        if absorbed and b in at_time:
            kept[live] *= at_time[b].kept(moving[:, :3])
            live = live[kept[live] > 0.0]
    return state, kept


def _step(
    field: ActingField, moments: list[NDArray[Any]], state: Array, h: float, loose: bool
) -> None:
    """One step of length h, in place; the positions are put back on the sphere."""
    stages = np.empty((DOP853.n_stages, *state.shape))
    for s, row in enumerate(DOP853.A[: DOP853.n_stages]):
        at = state[:, :3].copy()
        for coefficient, stage in zip(row[:s], stages, strict=False):
            if coefficient != 0.0:
                at += (h * coefficient) * stage[:, :3]
        velocity, divergence = field.velocity_and_divergence(moments[s], at, loose=loose)
        stages[s, :, :3], stages[s, :, 3] = velocity, divergence
    for coefficient, stage in zip(DOP853.B, stages, strict=True):
        if coefficient != 0.0:
            state += (h * coefficient) * stage
    state[:, :3] /= np.linalg.norm(state[:, :3], axis=1, keepdims=True)


def transported(
    field: AnyField,
    history: History,
    pdf: Callable[[Array], Array],
    points: Array,
    t: float,
    *,
    absorbed: bool = False,
) -> Array:
    """f_t(x) = f_0(foot) exp(-∫ div X dt), shape (n,), times 1 - χ if `absorbed`."""
    if t == history.edges[0]:
        return np.asarray(pdf(points))
    feet, stretch, kept = follow(field, history, points, t, history.edges[0], absorbed=absorbed)
    # backwards in time the integral has the other sign
    with np.errstate(under="ignore"):
        return np.asarray(pdf(feet) * np.exp(stretch) * kept)
