"""Tokens in R^d without layer normalisation, (9.1) to (9.6), and the limits of Table 1."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import DOP853
from scipy.linalg import expm
from scipy.optimize import brentq
from scipy.spatial import ConvexHull
from scipy.special import softmax

from meanfield import _checks
from meanfield._checks import integer, is_single, number, real_array, shown
from meanfield.evolution.progress import DeferredInterrupt
from meanfield.exceptions import Interrupted, UnfinishedWarning
from meanfield.typing import Array, ArrayLike, NDArray, Rng

ATTENTIONS = ("softmax", "rescaled", "frozen", "hardmax")
TIES = ("average", "first", "last")
# scores that differ by this share of the largest are tied
_TIED = 1e-12
_LARGEST = 1e150
# of a step, unless a caller asks for others
_RTOL, _ATOL = 1e-9, 1e-12
# so many switches within this share of the time, or of each token: tokens slide along a tie
_QUICK_SWITCHES, _NO_TIME = 200, 1e-6
_SWITCHES_PER_TOKEN = 1000


@dataclass(frozen=True, repr=False, eq=False)
class FreeTokens:
    """n tokens in R^d over t.

    Attributes
    ----------
    t : ndarray, shape (m,)
        The saves that were reached, and where a run stalled.
    points : ndarray, shape (m, n, d)
        x_i(t), or z_i(t) = e^{-tV} x_i(t) but for 'softmax'.
    status : str
        'finished'; 'interrupted'; 'overflow' where tokens, or e^{tV} z in their scores, left double
        precision first; 'stalled' where 'hardmax' switched 200 times within 1e-6 of `t_end`, to and
        fro between targets whose scores stay tied: one of Filippov's solutions slides there along
        the tie, with weights that no choice of `tie` gives.
    switches : ndarray
        Times at which a token's set of largest scores changed, for 'hardmax'.
    """

    t: Array
    points: Array
    status: str
    switches: Array = field(default_factory=lambda: np.zeros(0))

    def __repr__(self) -> str:
        _, n, dim = self.points.shape
        return f"FreeTokens({self.status}, n={n}, dim={dim}, to t = {self.t[-1]:g})"


def evolve_free(
    points: ArrayLike,
    t_end: float,
    save_at: int | ArrayLike = 20,
    *,
    beta: float = 1.0,
    Q: ArrayLike | float = 1.0,
    K: ArrayLike | float = 1.0,
    V: ArrayLike | float = 1.0,
    attention: str = "rescaled",
    tie: str = "average",
    rtol: float = _RTOL,
    atol: float = _ATOL,
) -> FreeTokens:
    """Tokens that attention moves freely in R^d: no sphere, no normalisation.

    With A_ij = softmax_j s_ij, 'softmax' is (9.1), x_i' = Σ_j A_ij V x_j, s_ij = β<Qx_i, Kx_j>.
    The others move z_i = e^{-tV} x_i by z_i' = Σ_j A_ij V (z_j - z_i): 'rescaled' is (9.2)-(9.3),
    s_ij = β<Q e^{tV} z_i, K e^{tV} z_j>; 'frozen' is (9.4), s_ij = β<Qz_i, Kz_j>; 'hardmax' is its
    limit β → ∞, (9.5)-(9.6), where A_i is even on the set C_i of largest scores.

    Parameters
    ----------
    points : array_like, shape (n, d)
        n >= 2 rows of any length, at t = 0.
    t_end : float
    save_at : int or array_like
        That many equal intervals of [0, t_end], or the times themselves, ascending; the start and
        the end are kept, too.
    beta : float
        β >= 0; does not count for 'hardmax'.
    Q, K : array_like, shape (m, d), or float
        A number stands for that multiple of the identity.
    V : array_like, shape (d, d), or float
    attention : {'softmax', 'rescaled', 'frozen', 'hardmax'}
    tie : {'average', 'first', 'last'}
        What a token does whose largest score is tied, where Filippov's theory allows any average:
        go to the mean of C_i, or to its first or last token.
    rtol, atol : float
        Of a step, for each coordinate.

    Returns
    -------
    FreeTokens

    Raises
    ------
    ValueError
        If an argument is out of range or the matrices do not fit.
    ArithmeticError
        If steps become too small.
    meanfield.exceptions.Interrupted
        On Ctrl-C, a KeyboardInterrupt whose `solution` is the FreeTokens so far.

    Warns
    -----
    meanfield.exceptions.UnfinishedWarning
        If tokens overflow or stall before `t_end`.

    Examples
    --------
    >>> run = evolve_free([[1.0, 1.0], [-1.0, 1.0], [0.0, 0.0]], 1.0, 1, attention="hardmax")
    >>> run.points[-1, 2].round(6) + 0.0  # (1 - 1/e) (z_1 + z_2)/2
    array([0.      , 0.632121])
    """
    start = _checks.rows("points", points)
    if len(start) < 2:
        raise ValueError(f"points must be at least 2 tokens, got shape {start.shape}")
    _checks.one_of("attention", attention, ATTENTIONS)
    _checks.one_of("tie", tie, TIES)
    t_end = number("t_end", t_end, above=0)
    times = np.union1d([0.0, t_end], _checks.times_until("save_at", save_at, t_end))
    scores = _Scores(start.shape[1], number("beta", beta, low=0), Q, K, V)
    rtol, atol = number("rtol", rtol, low=3e-14, high=1e-2), number("atol", atol, above=0)
    run = _Run(start, times, scores, rtol, atol).solve(attention, tie)
    if run.status != "finished":
        warnings.warn(
            f"the tokens came to t = {run.t[-1]:.6g} of {t_end:g}: {run.status}",
            UnfinishedWarning,
            stacklevel=2,
        )
    return run


class _Run:
    """Tokens on their way: what is saved of them, and when their targets switched."""

    def __init__(
        self, start: Array, times: Array, scores: _Scores, rtol: float = _RTOL, atol: float = _ATOL
    ) -> None:
        self._saved, self._points, self._switches = [0.0], [start], list[float]()
        self._times, self._scores, self._rtol, self._atol = times, scores, rtol, atol

    def solve(self, attention: str, tie: str = "average") -> FreeTokens:
        """Go to the last time; the caller says how the run ended."""
        try:
            with DeferredInterrupt() as interrupt:
                if attention == "hardmax":
                    return self._so_far(self._to_targets(tie, interrupt))
                return self._so_far(self._softly(attention, interrupt))
        except KeyboardInterrupt:
            text = f"interrupted: saves to t = {self._saved[-1]:g} are kept"
            raise Interrupted(text, self._so_far("interrupted")) from None

    def _so_far(self, status: str) -> FreeTokens:
        t, switches = np.array(self._saved), np.array(self._switches)
        return FreeTokens(t, np.array(self._points), status, switches)

    def _solver(self, rate: Any, t: float, points: Array) -> Any:
        end = self._times[-1]
        return DOP853(rate, t, points.ravel(), end, rtol=self._rtol, atol=self._atol)

    def _save(self, dense: Any, end: float) -> None:
        """Save what was passed on the way to this time."""
        for t in self._times[len(self._saved) :]:
            if t > end:
                break
            self._saved.append(t)
            self._points.append(dense(t).reshape(self._points[0].shape))

    def _softly(self, attention: str, interrupt: DeferredInterrupt) -> str:
        """(9.1), (9.3) or (9.4)."""
        start, scores = self._points[0], self._scores

        def rate(t: float, state: Array) -> Array:
            z = state.reshape(start.shape)
            grown = z @ scores.growth(t).T if attention == "rescaled" else z
            if not np.abs(grown).max() < _LARGEST:
                raise OverflowError(f"e^(tV) z is no longer finite at t = {t:g}")
            shares = softmax(scores(grown), axis=1)
            mean = shares @ z
            if attention != "softmax":
                mean -= z
            return np.asarray((mean @ scores.value.T).ravel())

        solver = self._solver(rate, 0.0, start)
        while solver.status == "running":
            interrupt.check()
            try:
                _step(solver)
                dense = solver.dense_output()
            except OverflowError:
                return "overflow"
            self._save(dense, solver.t)
            if not np.abs(solver.y).max() < _LARGEST:
                return "overflow"
        return "finished"

    def _to_targets(self, tie: str, interrupt: DeferredInterrupt) -> str:
        """(9.5) from switch to switch of the sets C_i, between which it is linear."""
        t, z, scores = 0.0, self._points[0], self._scores
        tied, t_end, shape = _largest(scores, z), self._times[-1], z.shape
        while t < t_end:
            weights = _weights(tied, tie)

            def rate(_: float, state: Array, weights: Array = weights) -> Array:
                here = state.reshape(shape)
                return np.asarray(((weights @ here - here) @ scores.value.T).ravel())

            solver = self._solver(rate, t, z)
            while solver.status == "running":
                interrupt.check()
                _step(solver)
                dense = solver.dense_output()
                t = _switch(solver, dense, scores, weights, shape)
                self._save(dense, t)
                z = dense(t).reshape(shape)
                # nearer than where the switch was seen, so that what fell behind is left out
                after = _largest(scores, z, 0.1 * _TIED)
                # or where a token goes to one that is in its C_i no more
                if t < solver.t or not np.all(after[weights > 0.0]):
                    self._switches.append(t)
                    tied = after
                    if _stalls(self._switches, len(z), t_end):
                        if t > self._saved[-1]:
                            self._saved.append(t)
                            self._points.append(z)
                        return "stalled"
                    break
        return "finished"


class _Scores:
    """β<Qx_i, Kx_j> less each row's largest, and e^{tV}."""

    def __init__(self, dim: int, beta: float, query: Any, key: Any, value: Any) -> None:
        self._beta, self._query = beta, _matrix("Q", query, dim)
        self._key, self.value = _matrix("K", key, dim), _matrix("V", value, dim)
        if len(self._query) != len(self._key) or len(self.value) != dim:
            raise ValueError(
                f"Q and K must be (m, {dim}) and V ({dim}, {dim}), got shapes "
                f"{self._query.shape}, {self._key.shape} and {self.value.shape}"
            )

    def __call__(self, points: Array) -> Array:
        raw = self.ranked(points)
        return np.asarray(self._beta * (raw - raw.max(axis=1, keepdims=True)))

    def growth(self, t: float) -> Array:
        """e^{tV}; not finite where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(expm(t * self.value))

    def ranked(self, points: Array) -> Array:
        """<Qz_i, Kz_j>, for 'hardmax'."""
        return np.asarray((points @ self._query.T) @ (points @ self._key.T).T)


def _matrix(name: str, given: Any, dim: int) -> Array:
    if is_single(given):
        return number(name, given) * np.eye(dim)
    matrix = real_array(name, given, 2)
    if matrix.shape[1] != dim:
        raise ValueError(f"{name} must have d = {dim} columns, got shape {matrix.shape}")
    return matrix


def _step(solver: Any) -> None:
    reason = solver.step()
    if solver.status == "failed" or not np.isfinite(solver.y).all():
        raise ArithmeticError(f"the run stopped at t = {solver.t:.6g}: {reason or 'not finite'}")


def _stalls(switches: list[float], n: int, t_end: float) -> bool:
    """Whether the last switches took next to no time, or there were too many."""
    if len(switches) < _QUICK_SWITCHES:
        return False
    quick = switches[-1] - switches[-_QUICK_SWITCHES] < _NO_TIME * t_end
    return quick or len(switches) > _SWITCHES_PER_TOKEN * n


def _largest(scores: _Scores, z: Array, tolerance: float = _TIED) -> NDArray[np.bool_]:
    """Whether j is in C_i; a token is in its own only where no other is.

    Beside a tie with others its own score is the one that falls behind as soon as it moves.
    """
    ranked = scores.ranked(z)
    scale = np.maximum(np.abs(ranked).max(axis=1, keepdims=True), 1.0)
    tied = ranked >= ranked.max(axis=1, keepdims=True) - tolerance * scale
    others = tied & ~np.eye(len(z), dtype=bool)
    return np.asarray(np.where(others.any(axis=1, keepdims=True), others, tied))


def _weights(tied: NDArray[np.bool_], tie: str) -> Array:
    if tie == "average":
        return np.asarray(tied / tied.sum(axis=1, keepdims=True))
    n = tied.shape[1]
    chosen = tied.argmax(axis=1) if tie == "first" else n - 1 - tied[:, ::-1].argmax(axis=1)
    return np.asarray(np.eye(n)[chosen])


def _switch(
    solver: Any, dense: Any, scores: _Scores, weights: Array, shape: tuple[int, ...]
) -> float:
    """When in the last step a token's target first falls behind another one; else its end."""

    def ahead(t: float) -> float:
        ranked = scores.ranked(dense(t).reshape(shape))
        chosen = np.where(weights > 0.0, ranked, np.inf).min(axis=1)
        scale = np.maximum(np.abs(ranked).max(axis=1), 1.0)
        return float(np.min((chosen - ranked.max(axis=1)) / scale)) + _TIED

    if ahead(solver.t) >= 0.0:
        return float(solver.t)
    if ahead(solver.t_old) < 0.0:
        return float(solver.t_old + 1e-3 * (solver.t - solver.t_old))
    return float(brentq(ahead, solver.t_old, solver.t, xtol=1e-14 * max(1.0, solver.t)))


_VALUES = {
    "polytope": np.eye(2),
    "hyperplanes": np.array([[1.0, 0.0], [0.4, -0.5]]),
    "polytope × line": np.diag([1.0, 1.0, -0.5]),
    "origin": -np.eye(2),
}
# limits nearer than this are one, beside starts in [-1, 1]
_SAME = 1e-2


def limits_without_normalisation(
    *, n: int = 40, beta: float = 20.0, t_end: float = 12.0, rng: Rng = 0
) -> xr.Dataset:
    """The four rows of Table 1, run from random tokens in a box, Q = K = I.

    'polytope', V = I: z_i = e^{-t} x_i tend to vertices of a convex polytope (and few other points
    of its boundary). 'hyperplanes', V with one largest eigenvalue λ_1 > 0: the coordinate of z_i
    along its eigenvector takes at most three values in the end. 'polytope × line', V = diag(1, 1,
    -1/2): so do the leading two coordinates as in the first. 'origin', V = -I: x_i → 0; with C the
    tokens' covariance C' = -2βC² in the end, so that each of its eigenvalues is 1/(2βt).

    Parameters
    ----------
    n : int
        Number of tokens, n >= 4.
    beta : float
        > 0.
    t_end : float
    rng : int or numpy Generator
        For the starts, uniform in [-1, 1]^d.

    Returns
    -------
    xarray.Dataset
        Over (case, t, token, axis): `trajectory`, the first two coordinates of z_i (of x_i for
        'origin'). Over case: `n_distinct`, how many of the last tokens (of their coordinates along
        the eigenvector for 'hyperplanes') are 1e-2 apart; `off`, how far they are from the claim:
        the distance from the boundary of their convex hull; half of the widest group when
        coordinates are cut into three at their two largest gaps; the largest |x_i|; and `moved`,
        how far they went in the last tenth of the time.

    Raises
    ------
    ValueError
        If an argument is out of range, or tokens overflow before t_end.
    """
    rng = _checks.generator("rng", rng)
    n, beta = integer("n", n, low=4), number("beta", beta, above=0)
    times = np.linspace(0.0, number("t_end", t_end, above=0), 201)
    runs = []
    for case, value in _VALUES.items():
        start = rng.uniform(-1.0, 1.0, size=(n, len(value)))
        scores = _Scores(len(value), beta, 1.0, 1.0, value)
        run = _Run(start, times, scores).solve("softmax" if case == "origin" else "rescaled")
        if run.status != "finished":
            raise ValueError(f"t_end must be smaller for {shown(case)}, got {t_end:g}: {run}")
        runs.append(run)
    found = [_evidence(case, run) for case, run in zip(_VALUES, runs, strict=True)]
    names, over = ("n_distinct", "off", "moved"), ("case", "t", "token", "axis")
    return xr.Dataset(
        {
            "trajectory": (over, np.array([run.points[:, :, :2] for run in runs])),
            **{name: ("case", [row[i] for row in found]) for i, name in enumerate(names)},
        },
        coords={"case": list(_VALUES), "t": runs[0].t},
        attrs={"beta": beta},
    )


def _evidence(case: str, run: FreeTokens) -> tuple[int, float, float]:
    last, before = run.points[-1], run.points[-len(run.t) // 10]
    if case == "origin":
        off = float(np.linalg.norm(last, axis=1).max())
    elif case == "hyperplanes":
        # the left eigenvector: it gives the coordinate along the right one
        along = np.linalg.eig(_VALUES[case].T)[1][:, 0].real
        last, before = last @ along[:, None], before @ along[:, None]
        off = _from_three_values(last[:, 0])
    else:
        last, before = last[:, :2], before[:, :2]
        hull = ConvexHull(last)
        off = float(-(last @ hull.equations[:, :2].T + hull.equations[:, 2]).max(axis=1).min())
    return len(_distinct(last)), off, float(np.linalg.norm(last - before, axis=1).max())


def _from_three_values(values: Array) -> float:
    """Largest distance from three values, the middles of the groups between the largest gaps."""
    ordered = np.sort(values)
    cuts = np.sort(np.argsort(np.diff(ordered))[-2:]) + 1
    return 0.5 * max(float(np.ptp(group)) for group in np.split(ordered, cuts))


def _distinct(points: Array) -> Array:
    """One of each group of points nearer than `_SAME`, shape (k, d)."""
    kept: list[Array] = []
    for point in points:
        if all(np.linalg.norm(point - other) > _SAME for other in kept):
            kept.append(point)
    return np.array(kept)
