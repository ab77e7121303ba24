"""Tokens in R^d without layer normalisation, (9.1) to (9.6), and the limits of Table 1."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

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
from meanfield.typing import Array, ArrayLike, Rng

ATTENTIONS = ("softmax", "rescaled", "frozen", "hardmax")
TIES = ("average", "first", "last")
# scores that differ by this share of the largest are tied
_TIED = 1e-12
_LARGEST = 1e150
# a step has these tolerances unless a caller gives others
_RTOL, _ATOL = 1e-9, 1e-12
# so many switches within this share of the time, or so many for each token, mean that tokens slide
# along a tie
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

    Examples
    --------
    >>> import meanfield as mf
    >>> tokens = mf.evolve_free([[1.0, 0.0], [0.0, 1.0]], 1.0, attention="frozen", save_at=2)
    >>> tokens.status, tokens.points.shape[1:]
    ('finished', (2, 2))
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
        The number of equal intervals of [0, t_end], or the times themselves, ascending; the start
        and the end are kept, too.
    beta : float
        β >= 0; does not count for 'hardmax'.
    Q, K : array_like, shape (m, d), or float
        A number stands for that multiple of the identity.
    V : array_like, shape (d, d), or float
    attention : {'softmax', 'rescaled', 'frozen', 'hardmax'}
    tie : {'average', 'first', 'last'}
        The move of a token whose largest score is tied, where Filippov's theory allows any average:
        go to the mean of C_i, or to its first or last token.
    rtol, atol : float
        Tolerances of a step, for each coordinate.

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
    run = _solve(start, times, scores, attention, tie, rtol, atol)
    if run.status != "finished":
        text = f"the tokens came to t = {run.t[-1]:.6g} of {t_end:g}: {run.status}"
        warnings.warn(text, UnfinishedWarning, stacklevel=2)
    return run


def _solve(
    start: Array,
    times: Array,
    scores: _Scores,
    attention: str,
    tie: str = "average",
    rtol: float = _RTOL,
    atol: float = _ATOL,
) -> FreeTokens:
    """Move tokens from save to save and from switch to switch.

    The caller says how the run ended.
    """
    t, z, saved, points, switches = 0.0, start, [0.0], [start], list[float]()
    targets = _Targets(scores, z, tie) if attention == "hardmax" else None

    def so_far(status: str) -> FreeTokens:
        return FreeTokens(np.array(saved), np.array(points), status, np.array(switches))

    def rate(t: float, state: Array) -> Array:
        """(9.1), (9.3), (9.4), or (9.5), which is linear between switches of the sets C_i."""
        places = state.reshape(start.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            rescaled = places @ expm(t * scores.value).T if attention == "rescaled" else places
        if not np.abs(rescaled).max() < _LARGEST:
            raise OverflowError(f"e^(tV) z is no longer finite at t = {t:g}")
        shares = targets.weights if targets else softmax(scores(rescaled), axis=1)
        mean = shares @ places - (0.0 if attention == "softmax" else places)
        return np.asarray((mean @ scores.value.T).ravel())

    def lead(t: float) -> float:
        return targets(dense(t)) if targets else 0.0

    try:
        with DeferredInterrupt() as interrupt:
            while t < times[-1]:
                solver = DOP853(rate, t, z.ravel(), times[-1], rtol=rtol, atol=atol)
                # steps go on until a switch
                while solver.status == "running" and t == solver.t:
                    interrupt.check()
                    with interrupt.interruptible():
                        reason = solver.step()
                    if solver.status == "failed":
                        raise ArithmeticError(f"the run stopped at t = {solver.t:.6g}: {reason}")
                    dense, t = solver.dense_output(), solver.t
                    if lead(t) < 0.0:
                        # rounding may have made the lead 0 at the beginning of the step
                        begin, time_tol = solver.t_old, 1e-14 * max(1.0, t)
                        t = brentq(lead, begin, t, xtol=time_tol) if lead(begin) > 0.0 else begin
                    passed = times[len(saved) : np.searchsorted(times, t, "right")]
                    saved += passed.tolist()
                    points += [dense(save).reshape(start.shape) for save in passed]
                if t < solver.t:
                    z = dense(t).reshape(start.shape)
                    switches.append(t)
                    targets = _Targets(scores, z, tie)
                    if _stalls(switches, len(z), times[-1]):
                        if t > saved[-1]:
                            saved.append(t)
                            points.append(z)
                        return so_far("stalled")
            return so_far("finished")
    except OverflowError:
        return so_far("overflow")
    except KeyboardInterrupt:
        text = f"interrupted: saves to t = {saved[-1]:g} are kept"
        raise Interrupted(text, so_far("interrupted")) from None


class _Scores:
    """The scores β<Qx_i, Kx_j> less the largest of each row."""

    def __init__(
        self, dim: int, beta: float, query: ArrayLike, key: ArrayLike, value: ArrayLike
    ) -> None:
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

    def ranked(self, points: Array) -> Array:
        """<Qz_i, Kz_j>, for 'hardmax'."""
        return np.asarray((points @ self._query.T) @ (points @ self._key.T).T)


def _matrix(name: str, values: ArrayLike, dim: int) -> Array:
    if is_single(values):
        return number(name, values) * np.eye(dim)
    matrix = real_array(name, values, 2)
    if matrix.shape[1] != dim:
        raise ValueError(f"{name} must have d = {dim} columns, got shape {matrix.shape}")
    return matrix


def _stalls(switches: list[float], n: int, t_end: float) -> bool:
    """Return whether the last switches took almost no time, or there were too many."""
    if len(switches) < _QUICK_SWITCHES:
        return False
    quick = switches[-1] - switches[-_QUICK_SWITCHES] < _NO_TIME * t_end
    return quick or len(switches) > _SWITCHES_PER_TOKEN * n


class _Targets:
    """The points that attract tokens z under 'hardmax'; how far their scores are ahead of others.

    Parameters
    ----------
    scores : _Scores
    z : ndarray, shape (n, d)
    tie : str

    Attributes
    ----------
    weights : ndarray, shape (n, n)
        Row i is even on C_i, or 1 at its first or last token. A token is in its own C_i only where
        no other is: beside a tie its own score falls behind as soon as it moves.
    """

    def __init__(self, scores: _Scores, z: Array, tie: str) -> None:
        self._scores, self._shape, n = scores, z.shape, len(z)
        # ties are nearer than where a switch is seen, so that what fell behind is left out
        tied = self._behind(z) <= 0.1 * _TIED
        tied_others = tied & ~np.eye(n, dtype=bool)
        tied = np.where(tied_others.any(axis=1, keepdims=True), tied_others, tied)
        self.weights = tied / tied.sum(axis=1, keepdims=True)
        if tie != "average":
            last_target = n - 1 - tied[:, ::-1].argmax(axis=1)
            self.weights = np.eye(n)[tied.argmax(axis=1) if tie == "first" else last_target]

    def _behind(self, z: Array) -> Array:
        """By what share of their size scores are below the largest one of the token, (n, n)."""
        ranked = self._scores.ranked(z)
        sizes = np.maximum(np.abs(ranked).max(axis=1, keepdims=True), 1.0)
        return np.asarray((ranked.max(axis=1, keepdims=True) - ranked) / sizes)

    def __call__(self, state: Array) -> float:
        """Below 0 where a token's target has fallen behind another one."""
        return _TIED - float(self._behind(state.reshape(self._shape))[self.weights > 0.0].max())


_VALUES = {
    "polytope": np.eye(2),
    "hyperplanes": np.array([[1.0, 0.0], [0.4, -0.5]]),
    "polytope × line": np.diag([1.0, 1.0, -0.5]),
    "origin": -np.eye(2),
}
# limits nearer than this are one; tokens start in [-1, 1]
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

    Examples
    --------
    >>> ds = limits_without_normalisation(n=5, t_end=1.0)
    >>> dict(ds["trajectory"].sizes)
    {'case': 4, 't': 201, 'token': 5, 'axis': 2}
    """
    rng = _checks.generator("rng", rng)
    n, beta = integer("n", n, low=4), number("beta", beta, above=0)
    times = np.linspace(0.0, number("t_end", t_end, above=0), 201)
    runs = []
    for case, value in _VALUES.items():
        start = rng.uniform(-1.0, 1.0, size=(n, len(value)))
        scores = _Scores(len(value), beta, 1.0, 1.0, value)
        run = _solve(start, times, scores, "softmax" if case == "origin" else "rescaled")
        if run.status != "finished":
            raise ValueError(f"t_end must be smaller for {shown(case)}, got {t_end:g}: {run}")
        runs.append(run)
    evidence = [_evidence(case, run) for case, run in zip(_VALUES, runs, strict=True)]
    names, dims = ("n_distinct", "off", "moved"), ("case", "t", "token", "axis")
    return xr.Dataset(
        {
            "trajectory": (dims, np.array([run.points[:, :, :2] for run in runs])),
            **{name: ("case", [row[i] for row in evidence]) for i, name in enumerate(names)},
        },
        coords={"case": list(_VALUES), "t": runs[0].t},
        attrs={"beta": beta},
    )


def _evidence(case: str, run: FreeTokens) -> tuple[int, float, float]:
    end, earlier = run.points[-1], run.points[-len(run.t) // 10]
    if case == "origin":
        distance = float(np.linalg.norm(end, axis=1).max())
    elif case == "hyperplanes":
        # the left eigenvector gives the coordinate along the right one
        along = np.linalg.eig(_VALUES[case].T)[1][:, 0].real
        end, earlier = end @ along[:, None], earlier @ along[:, None]
        distance = _from_three_values(end[:, 0])
    else:
        end, earlier = end[:, :2], earlier[:, :2]
        hull = ConvexHull(end)
        distance = float(-(end @ hull.equations[:, :2].T + hull.equations[:, 2]).max(axis=1).min())
    return len(_distinct(end)), distance, float(np.linalg.norm(end - earlier, axis=1).max())


def _from_three_values(values: Array) -> float:
    """Return the largest distance from three values; each is the middle of a group between gaps."""
    ordered = np.sort(values)
    cuts = np.sort(np.argsort(np.diff(ordered))[-2:]) + 1
    return 0.5 * max(float(np.ptp(group)) for group in np.split(ordered, cuts))


def _distinct(points: Array) -> Array:
    """Return one of each group of points nearer than `_SAME`, shape (k, d)."""
    representatives: list[Array] = []
    for point in points:
        if all(np.linalg.norm(point - other) > _SAME for other in representatives):
            representatives.append(point)
    return np.array(representatives)
