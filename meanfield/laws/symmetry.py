"""The axis about which a law is symmetric."""

from __future__ import annotations

import numpy as np

from meanfield.laws.law import Law
from meanfield.laws.mixture import Mixture
from meanfield.laws.series import ZonalSeries
from meanfield.laws.uniform import Uniform
from meanfield.laws.von_mises_fisher import VonMisesFisher
from meanfield.spaces.symmetry import are_parallel
from meanfield.typing import Array


def symmetry_axis(law: Law) -> Array | None:
    """A unit vector (d,) about which the law is symmetric, as far as its class tells; or None.

    Uniform laws have the last unit vector; mixtures need parallel axes.

    Examples
    --------
    >>> symmetry_axis(VonMisesFisher([0.0, 1.0, 0.0], 2.0))
    array([0., 1., 0.])
    """
    if isinstance(law, Uniform):
        return np.asarray(np.eye(law.dim)[-1])
    if isinstance(law, VonMisesFisher):
        return law.mean
    if isinstance(law, ZonalSeries):
        return law.axis
    if not isinstance(law, Mixture):
        return None
    parts = [part for part in law.laws if not isinstance(part, Uniform)]
    axes = [symmetry_axis(part) for part in parts] or [np.eye(law.dim)[-1]]
    return axes[0] if all(are_parallel(axis, axes[0]) for axis in axes) else None
