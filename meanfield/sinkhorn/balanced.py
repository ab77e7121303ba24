"""The measure u mu, whose moments G make e^{β<x,y>}/(G(βx) G(βy)) doubly stochastic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import rows
from meanfield.exponential_sums import latitude_log_moment, log_moment
from meanfield.geometry import polar_angles
from meanfield.sinkhorn.iteration import scaling
from meanfield.sinkhorn.sums import NodeSums

Array = NDArray[np.float64]

# E_DS by its expansion below it
_SMALL = 3e-5


@dataclass(frozen=True, eq=False)
class Balanced:
    """u mu at the nodes of mu, with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1.

    Parameters
    ----------
    points : ndarray, shape (n, d)
        Nodes of mu; with an axis, one for each latitude.
    masses : ndarray, shape (n,)
        Of mu.
    log_u : ndarray, shape (n,)
    axis : ndarray, shape (d,), optional
        About which the masses are spread evenly.
    """

    points: Array
    masses: Array
    log_u: Array
    axis: Array | None = None

    @classmethod
    def of(
        cls,
        points: Array,
        masses: Array,
        beta: float,
        sums: NodeSums,
        axis: Array | None = None,
    ) -> Balanced:
        """That of masses >= 0 at points, by the sums over them."""
        if beta == 0.0:
            return cls(points, masses, np.zeros(len(masses)), axis)
        # sums are in units of e^β
        log_u = scaling(sums.potential, masses / masses.sum()) - 0.5 * beta
        return cls(points, masses, log_u - 0.5 * np.log(masses.sum()), axis)

    @property
    def dim(self) -> int:
        """Ambient dimension d."""
        return int(self.points.shape[1])

    @cached_property
    def _weighted(self) -> tuple[Array, float]:
        """Masses of u mu in units of their largest, and its log."""
        logs = np.full(len(self.masses), -np.inf)
        np.log(self.masses, out=logs, where=self.masses > 0.0)
        logs += self.log_u
        largest = float(logs.max())
        with np.errstate(under="ignore"):
            return np.exp(logs - largest), largest

    def log_moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """log G (n,) and ∇ log G (n, d) of u mu at rows z (n, d), from positive terms.

        Raises
        ------
        ValueError
            If z is not finite or has the wrong length.
        """
        z = rows("z", z, self.dim)
        weighted, log_unit = self._weighted
        if self.axis is None:
            log_g, mean = log_moment(self.points, weighted, z)
        else:
            polar = polar_angles(self.points, self.axis)
            log_g, mean = latitude_log_moment(self.axis, np.cos(polar), np.sin(polar), weighted, z)
        return log_g + log_unit, mean

    def energy(self, beta: float) -> float:
        """E_DS = -(1/β) ∫ log u dmu of mu, a probability measure, at β > 0.

        Rounding of log u costs 1e-15/β. Below β = 3e-5 E_DS is |m|²/2 + β |C|²/4 to 1e-10, with
        the mean m and the covariance C of mu.
        """
        if beta > _SMALL:
            return -float(self.masses @ self.log_u) / beta
        if self.axis is None:
            mean = self.masses @ self.points
            gaps = self.points - mean
            covariance = gaps.T @ (gaps * self.masses[:, None])
            return 0.5 * float(mean @ mean) + 0.25 * beta * float(np.sum(covariance**2))
        cosines = self.points @ self.axis
        along = float(self.masses @ cosines)
        squares = float(self.masses @ (cosines - along) ** 2) ** 2
        squares += float(self.masses @ (1.0 - cosines**2)) ** 2 / (self.dim - 1)
        return 0.5 * along**2 + 0.25 * beta * squares
