"""The density anywhere, at any time of a run, by following characteristics back to t = 0.

With the history of the moments the velocity is known for all times, so any point's path can be
followed by itself: f_t(x) = f_0(foot) · exp(-∫ div X dt) along it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853

from meanfield.dynamics import Dynamics
from meanfield.geometry import circle_angles, polar_angles
from meanfield.history import MomentHistory
from meanfield.labels import LabelLine
from meanfield.tendency import AngularField, line_field

Array = NDArray[np.float64]

_RTOL = 3e-14
_TOLERANCE = 1e-13


def density_on_line(
    line: LabelLine,
    dynamics: Dynamics,
    history: MomentHistory,
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
    history : MomentHistory
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
    tol = _TOLERANCE if dynamics.smooth else tol
    angles = circle_angles(points) if line.axis is None else polar_angles(points, line.axis)
    feet, expansions = angles, np.zeros(len(angles))
    passed = list(dynamics.between(0.0, t))
    starts = [0.0, *(end for _, end in passed[:-1])]
    for start, (layer, end) in reversed(list(zip(starts, passed, strict=True))):
        field = line_field(dynamics, line.dim, line.axis, layer)
        feet, expansion = feet_of(field, history, feet, (end, start), tol)
        expansions += expansion
    if line.axis is not None:
        # rounding may take a foot past a pole
        feet = np.clip(feet, 0.0, np.pi)
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(line.pdf(feet) * np.exp(-expansions))


def feet_of(
    field: AngularField,
    history: MomentHistory,
    angles: Array,
    times: tuple[float, float],
    tol: float = _TOLERANCE,
) -> tuple[Array, Array]:
    """Where characteristics that are at `angles` at times[0] were at times[1], and ∫ div X dt.

    Raises
    ------
    ArithmeticError
        If a characteristic can't be followed.
    """
    count, (t, start) = len(angles), times

    def backwards(elapsed: float, state: Array) -> Array:
        velocity, spread = field.from_charges(history.at(t - elapsed), state[:count])
        return -np.concatenate([velocity, spread])

    state = np.concatenate([angles, np.zeros(count)])
    # the solver bounds the mean square: this bounds the largest error of the many
    atol = tol / np.sqrt(count)
    solver: Any = DOP853(backwards, 0.0, state, t - start, rtol=_RTOL, atol=atol)
    while solver.status == "running":
        reason = solver.step()
    if solver.status == "failed":
        raise ArithmeticError(f"a characteristic is lost {solver.t:g} before t = {t:g}: {reason}")
    return solver.y[:count], -solver.y[count:]
