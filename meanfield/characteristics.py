"""The density anywhere, at any time of a run, by following characteristics back to t = 0.

With the history of the moments the velocity is known for all times, so any point's path can be
followed by itself: f_t(x) = f_0(foot) · exp(-∫ div X dt) along it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853

from meanfield.geometry import circle_angles, polar_angles
from meanfield.history import MomentHistory
from meanfield.labels import LabelLine
from meanfield.tendency import LineField

Array = NDArray[np.float64]

_RTOL = 3e-14
_TOLERANCE = 1e-13


def density_on_line(
    line: LabelLine, field: LineField, history: MomentHistory, points: Array, t: float
) -> Array:
    """f_t at unit rows (n, d) from a law on a line of labels, shape (n,).

    Parameters
    ----------
    line : LabelLine
    field : LineField
    history : MomentHistory
        Of charges at the nodes of the field's line.
    points : ndarray, shape (n, d)
    t : float
        In the history's range.

    Raises
    ------
    ArithmeticError
        If a characteristic can't be followed.
    """
    angles = circle_angles(points) if line.axis is None else polar_angles(points, line.axis)
    feet, expansions = feet_of(field, history, angles, t)
    if line.axis is not None:
        # rounding may take a foot past a pole
        feet = np.clip(feet, 0.0, np.pi)
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(line.pdf(feet) * np.exp(-expansions))


def feet_of(
    field: LineField, history: MomentHistory, angles: Array, t: float
) -> tuple[Array, Array]:
    """Where characteristics that are at `angles` at time t began, and ∫ div X dt along each.

    Raises
    ------
    ArithmeticError
        If a characteristic can't be followed.
    """
    count = len(angles)

    def backwards(elapsed: float, state: Array) -> Array:
        velocity, spread = field.from_charges(history.at(t - elapsed), state[:count])
        return -np.concatenate([velocity, spread])

    start = np.concatenate([angles, np.zeros(count)])
    # the solver bounds the mean square: this bounds the largest error of the many
    solver: Any = DOP853(backwards, 0.0, start, t, rtol=_RTOL, atol=_TOLERANCE / np.sqrt(count))
    while solver.status == "running":
        reason = solver.step()
    if solver.status == "failed":
        raise ArithmeticError(f"a characteristic is lost {solver.t:g} before t = {t:g}: {reason}")
    return solver.y[:count], -solver.y[count:]
