"""The moments that fixed the velocity at every time of a run, and characteristics through them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import DOP853

from meanfield.dynamics.facts import Dynamics
from meanfield.equations.line import FieldOnLine, field_on_line
from meanfield.equations.sphere import FieldOnSphere, KernelOnSphere, LayersOnSphere
from meanfield.kernels.direct import blocks
from meanfield.measures.line_flow_map import LabelLine
from meanfield.spaces.cubed_sphere import PER_LEAF, Patches
from meanfield.spaces.geometry import circle_angles, polar_angles
from meanfield.spaces.sphere_fields import Places
from meanfield.typing import Array, Coefficients, NDArray

# numbers of any kind, as files have them
AnyArray = NDArray[Any]
NODES = 8
# Chebyshev–Lobatto points of a time step, from 0 to 1, and their barycentric weights
_LOBATTO = 0.5 * (1.0 - np.cos(np.pi * np.arange(NODES) / (NODES - 1)))
_BARYCENTRIC = (-1.0) ** np.arange(NODES)
_BARYCENTRIC[[0, -1]] *= 0.5


def between(values: Coefficients, share: float) -> Coefficients:
    """The polynomial through values (8, …) at the Lobatto points of a step, a share of it on.

    Examples
    --------
    >>> between(step_times(0.0, 1.0)[:, None] ** 7, 0.5).round(12)
    array([0.0078125])
    """
    differences = share - _LOBATTO
    nearest = int(np.argmin(np.abs(differences)))
    if abs(differences[nearest]) < 1e-15:
        return np.asarray(values[nearest])
    shares = _BARYCENTRIC / differences
    return np.asarray(shares @ values / shares.sum())


def step_times(start: float, end: float) -> Array:
    """The eight times of a step at which its moments are kept.

    Examples
    --------
    >>> step_times(0.0, 1.0)[[0, -1]]
    array([0., 1.])
    """
    times: Array = start + (end - start) * _LOBATTO
    times[-1] = end
    return times


@dataclass(frozen=True)
class Absorption:
    """At a time, the share χ of the smooth part that went over to particles.

    1 - χ = Π_j (1 - exp(-(|x - c_j|/r)^8)).

    Attributes
    ----------
    time : float
    centres : ndarray, shape (k, 3)
    radius : float
    """

    time: float
    centres: Array
    radius: float

    def kept(self, points: Array) -> Array:
        """1 - χ at points (n, 3), shape (n,), without cancellation near the centres."""
        return self._left(points, self.centres)

    def taken(self, points: Array, index: int) -> Array:
        """The share of centre `index`, shape (n,); all shares and `kept` sum to 1."""
        left = self._left(points, self.centres[:index])
        with np.errstate(under="ignore"):
            return left * np.exp(-self._eighth(points, self.centres[index]))

    def _left(self, points: Array, centres: Array) -> Array:
        left = np.ones(len(points))
        with np.errstate(under="ignore"):
            for centre in centres:
                left *= -np.expm1(-self._eighth(points, centre))
        return left

    def _eighth(self, points: Array, centre: Array) -> Array:
        offsets = (points - centre) / self.radius
        squared = np.einsum("ij,ij->i", offsets, offsets)
        with np.errstate(over="ignore"):
            return np.asarray(np.minimum(squared, 1e3) ** 4)


@dataclass(frozen=True)
class LabelMap:
    """The labels of the points of a time, interpolated on patches.

    Attributes
    ----------
    time : float
    patches : Patches
        Five functions: the label in R^3, ∫ div X dt from `time` to the start, and the share that
        absorptions before `time` have left.
    """

    time: float
    patches: Patches


class History:
    """Moments as a polynomial of degree 7 on each step of a run, and what was absorbed when.

    Attributes
    ----------
    edges : list of float
        The times of the steps, ascending.
    pieces : list of ndarray, shape (8, q)
        Moments at the Chebyshev-Lobatto points of each step: mu_lm on S^2, the measure at the
        nodes of the cells on a line.
    absorptions : list of Absorption
        On S^2; none on a line.
    labels : list of LabelMap
        On S^2 those that a restart may ask for; none on a line.

    Examples
    --------
    >>> history = History(0.0)
    >>> history.append(2.0, step_times(0.0, 2.0)[:, None] ** 3)
    >>> history.at(1.5).round(12)
    array([3.375])
    """

    def __init__(self, start: float) -> None:
        self.edges: list[float] = [start]
        self.pieces: list[Coefficients] = []
        self.absorptions: list[Absorption] = []
        self.labels: list[LabelMap] = []

    def __len__(self) -> int:
        return len(self.pieces)

    def append(self, end: float, moments: Coefficients) -> None:
        """A further step with moments (8, q) at its `step_times`."""
        self.edges.append(end)
        self.pieces.append(np.array(moments))

    def piece(self, t: float) -> int:
        """The step that holds a time; of two the earlier, beyond the run its nearest."""
        return max(0, min(bisect_left(self.edges, t) - 1, len(self.pieces) - 1))

    def at(self, t: float, piece: int | None = None) -> Coefficients:
        """The moments at a time, by barycentric interpolation."""
        piece = self.piece(t) if piece is None else piece
        start, end = self.edges[piece], self.edges[piece + 1]
        return between(self.pieces[piece], (t - start) / (end - start))

    def until(self, count: int) -> History:
        """The history after so many steps."""
        past = History(self.edges[0])
        past.edges, past.pieces = self.edges[: count + 1], self.pieces[:count]
        past.absorptions = [a for a in self.absorptions if a.time <= past.edges[-1]]
        past.labels = [label_map for label_map in self.labels if label_map.time <= past.edges[-1]]
        return past

    def arrays(self) -> dict[str, AnyArray]:
        """All of it as arrays, to be saved."""
        absorptions, maps = self.absorptions, self.labels
        centres = [np.zeros((0, 3)), *(each.centres for each in absorptions)]
        squares = [np.zeros((0, 4), dtype=np.int64), *(each.patches.squares for each in maps)]
        values = [np.zeros((0, 5, PER_LEAF)), *(each.patches.values for each in maps)]

        def repeated(numbers: Iterable[float], parts: Sequence[Sized]) -> Array:
            # the first part is empty and gets no number
            return np.repeat([0.0, *numbers], [len(part) for part in parts])

        return {
            "edges": np.asarray(self.edges),
            "moments": np.asarray(self.pieces),
            "absorption_times": repeated((each.time for each in absorptions), centres),
            "absorption_radii": repeated((each.radius for each in absorptions), centres),
            "absorption_centres": np.concatenate(centres),
            "label_times": repeated((each.time for each in maps), squares),
            "label_squares": np.concatenate(squares),
            "label_values": np.concatenate(values),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, AnyArray]) -> History:
        """The inverse of `arrays`."""
        history = cls(float(arrays["edges"][0]))
        history.edges = [float(t) for t in arrays["edges"]]
        history.pieces = list(arrays["moments"])
        for time, centres, radii in _by_time(arrays, "absorption", "centres", "radii"):
            history.absorptions.append(Absorption(time, centres, float(radii[0])))
        for time, squares, values in _by_time(arrays, "label", "squares", "values"):
            history.labels.append(LabelMap(time, Patches(squares.astype(np.int64), values)))
        return history


def _by_time(
    arrays: dict[str, AnyArray], what: str, one: str, other: str
) -> Iterator[tuple[float, AnyArray, AnyArray]]:
    """Yield each time at which rows of this kind exist, with its rows of two arrays."""
    times = arrays.get(f"{what}_times", np.zeros(0))
    for time in np.unique(times):
        is_now = times == time
        yield float(time), arrays[f"{what}_{one}"][is_now], arrays[f"{what}_{other}"][is_now]


AnyField = KernelOnSphere | LayersOnSphere

# a block has at most the first number of points; up to the second number they stay one block
_BLOCK, _LEAST = 8192, 1024
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
    field : KernelOnSphere or LayersOnSphere
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
    shares_kept = np.ones(len(points))
    steps = _steps(history, start, end)
    share = -(-len(points) // _WORKERS)
    slices = list(blocks(len(points), 1, min(_BLOCK, max(_LEAST, share))))

    def block(part: slice) -> tuple[Array, Array]:
        return _follow_block(field, history, state[part], steps, absorbed)

    # blocks are independent, so the order in which they end changes no bit
    with ThreadPoolExecutor(_WORKERS) as pool:
        for part, (moved, left) in zip(slices, pool.map(block, slices), strict=True):
            state[part], shares_kept[part] = moved, left
    return state[:, :3], state[:, 3], shares_kept


def _steps(history: History, start: float, end: float) -> list[tuple[int, float, float]]:
    """Return pieces of the history with the times between which each is passed."""
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
    state, shares_kept = state.copy(), np.ones(len(state))
    live = np.arange(len(state))
    at_time = {a.time: a for a in history.absorptions}
    for piece, a, b in steps:
        moments = [history.at(a + c * (b - a), piece) for c in DOP853.C]
        moving = state[live]
        _step(field.at_shares(a, b, DOP853.C), moments, moving, b - a, absorbed)
        state[live] = moving
        if absorbed and b in at_time:
            shares_kept[live] *= at_time[b].kept(moving[:, :3])
            live = live[shares_kept[live] > 0.0]
    return state, shares_kept


def _step(
    fields: Sequence[FieldOnSphere],
    moments: list[Coefficients],
    state: Array,
    h: float,
    loose: bool,
) -> None:
    """Make one step of length h in place, and put the positions back on the sphere."""
    start = state[:, :3].copy()
    velocities: list[Array] = []
    stage_points, part = np.empty_like(start), np.empty_like(start)
    stages = zip(DOP853.A, DOP853.B, fields, moments, strict=False)
    for row, weight, field, stage_moments in stages:
        stage_points[:] = start
        for coefficient, velocity in zip(row, velocities, strict=False):
            if coefficient != 0.0:
                stage_points += np.multiply(h * coefficient, velocity, out=part)
        places = Places.of(stage_points)
        if weight == 0.0:
            velocities.append(field.velocity(stage_moments, places, loose))
            continue
        velocity, divergence, _ = field.rates(stage_moments, places, None, loose)
        velocities.append(velocity)
        state[:, :3] += np.multiply(h * weight, velocity, out=part)
        state[:, 3] += (h * weight) * divergence
    state[:, :3] /= np.linalg.norm(state[:, :3], axis=1, keepdims=True)


def origins(
    field: AnyField, history: History, points: Array, t: float
) -> tuple[Array, Array, Array]:
    """The labels of points at a time, as far as absorptions have left anything of them.

    They are followed to the time of the last label map, which tells the rest.

    Returns
    -------
    labels : ndarray, shape (n, 3)
    stretch : ndarray, shape (n,)
        ∫ div X dt from t to the start.
    kept : ndarray, shape (n,)
        The share that absorptions before t have left.
    """
    if not history.labels:
        return follow(field, history, points, t, history.edges[0], absorbed=True)
    label_map = history.labels[-1]
    feet, stretch, shares_kept = follow(field, history, points, t, label_map.time, absorbed=True)
    *labels, earlier, left = label_map.patches.at(feet)
    labels_of_points = np.stack(labels, axis=1)
    labels_of_points /= np.linalg.norm(labels_of_points, axis=1, keepdims=True)
    return labels_of_points, stretch + earlier, shares_kept * np.maximum(left, 0.0)


def transported(
    field: AnyField,
    history: History,
    pdf: Callable[[Array], Array],
    points: Array,
    t: float,
) -> Array:
    """f_t(x) = f_0(label) exp(-∫ div X dt), shape (n,)."""
    if t == history.edges[0]:
        return np.asarray(pdf(points))
    labels, stretch, _ = follow(field, history, points, t, history.edges[0])
    # backwards in time the integral of the divergence has the other sign
    with np.errstate(under="ignore"):
        return np.asarray(pdf(labels) * np.exp(stretch))


_RTOL = 3e-14
_TOLERANCE = 1e-13


def density_on_line(
    line: LabelLine,
    dynamics: Dynamics,
    history: History,
    points: Array,
    t: float,
    tol: float,
) -> Array:
    """f_t at unit rows (n, d) from a law on a line of labels, shape (n,).

    Parameters
    ----------
    line : LabelLine
    dynamics : Dynamics
        Of the run: layers are passed one by one, from the last to the first.
    history : History
        Of charges at the nodes of the field's line.
    points : ndarray, shape (n, d)
    t : float
        In the history's range.
    tol : float
        Of feet and of ∫ div X dt where X has kinks; elsewhere it is 1e-13.

    Raises
    ------
    ArithmeticError
        If a characteristic can't be followed.
    """
    tol = _TOLERANCE if dynamics.is_smooth else tol
    angles = circle_angles(points) if line.axis is None else polar_angles(points, line.axis)
    feet, expansions = angles, np.zeros(len(angles))
    passed = list(dynamics.between(history.edges[0], t))
    starts = [history.edges[0], *(end for _, end in passed[:-1])]
    for start, (number, end) in reversed(list(zip(starts, passed, strict=True))):
        field_at = _fields_of(line, dynamics, dynamics.all_layers[number])
        feet, expansion = feet_of(field_at, history, feet, (end, start), tol)
        expansions += expansion
    if line.axis is not None:
        # rounding may take a foot of a characteristic past a pole
        feet = np.clip(feet, 0.0, np.pi)
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(line.pdf(feet) * np.exp(-expansions))


def _fields_of(
    line: LabelLine, dynamics: Dynamics, layer: Dynamics
) -> Callable[[float], FieldOnLine]:
    """A function of t: the field of a layer, which is one and the same unless the layer varies."""
    moving = layer.mover
    if moving.varies:
        return lambda t: field_on_line(dynamics, line.dim, line.axis, moving.at(t))
    field = field_on_line(dynamics, line.dim, line.axis, moving)
    return lambda _: field


def feet_of(
    field_at: Callable[[float], FieldOnLine],
    history: History,
    angles: Array,
    times: tuple[float, float],
    tol: float,
) -> tuple[Array, Array]:
    """Follow characteristics from `angles` at times[0] to times[1], with ∫ div X dt along them.

    Raises
    ------
    ArithmeticError
        If a characteristic can't be followed.
    """
    count, (t, start) = len(angles), times

    def backwards(elapsed: float, state: Array) -> Array:
        now = t - elapsed
        rates = field_at(now).from_charges(history.at(now), state[:count])
        return -np.concatenate([rates.velocity, rates.divergence])

    state = np.concatenate([angles, np.zeros(count)])
    # the solver bounds the mean square; divided by sqrt(count) its tolerance bounds the largest
    # error
    atol = tol / np.sqrt(count)
    solver: Any = DOP853(backwards, 0.0, state, t - start, rtol=_RTOL, atol=atol)
    while solver.status == "running":
        reason = solver.step()
    if solver.status == "failed":
        raise ArithmeticError(f"a characteristic is lost {solver.t:g} before t = {t:g}: {reason}")
    return solver.y[:count], -solver.y[count:]
