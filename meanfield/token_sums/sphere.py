"""Sums over tokens on S^2, through spherical harmonics at the tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.exponential_sums import log_moment
from meanfield.geometry import project
from meanfield.harmonics import bandwidth, log_eigenvalues, relative_eigenvalues
from meanfield.spaces.sphere.at import Places, SphereAt

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

# a series of G has errors of some 1e-15 of its maximum (2e-13 at small β, where G varies little):
# below this share of it, sum positive terms
_SMALL = 1e-3


class SphereSums:
    """log G(βx) and ∇ log G(βx), G(z) = Σ_j m_j e^{<z,y_j>}, for tokens on S^2.

    Moments mu_lm up to the kernel's bandwidth, times Λ_l, evaluated by non-uniform transforms,
    whose errors are relative to the largest G. Where G is below 1e-3 of that, the sum over all
    tokens is taken instead, whose error is one of rounding. Both keep 1e-12 of G itself.

    Parameters
    ----------
    beta : float
        At most 10000.

    Examples
    --------
    >>> sums = SphereSums(1.0)
    >>> points = np.array([[1.0, 0.0, 0.0]])
    >>> log_g, mean = sums.log_moment(points, np.ones(1), np.array([[0.0, 1.0, 0.0]]))
    >>> log_g.round(12) + 0.0, mean.round(12) + 0.0
    (array([0.]), array([[1., 0., 0.]]))
    """

    largest_beta = 1e4

    def __init__(self, beta: float) -> None:
        self.beta = beta
        self._at = SphereAt(bandwidth(beta, 3))
        degrees, lmax = self._at.degrees, self._at.lmax
        kernel = relative_eigenvalues(beta, 3, lmax + 1)
        # at β = 0, G = 1 and ∇G is the mean: Λ_1/β → 1/3
        share = kernel[:-1] / beta if beta > 0.0 else np.eye(1, lmax + 1, 1)[0] / 3.0
        # dΛ_l/dβ = Λ_{l+1} + (l/β) Λ_l
        radial = kernel[1:] + np.arange(lmax + 1) * share
        self._degree_shares = kernel[:-1]
        self._kernel, self._slope = kernel[degrees], share[degrees]
        self._radial = radial[degrees]
        self._log_unit = float(log_eigenvalues(beta, 3, 0)[0])

    def log_moment(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """log G(βx), shape (m,), and ∇ log G(βx), shape (m, 3), at unit rows `at` (m, 3)."""
        places = Places.of(at)
        moments, potential, mean = self._tangential(points, masses, at, places)
        mean += (self._at.values(self._radial * moments, places) / potential)[:, None] * at
        return self._with_small(points, masses, at, moments, potential, mean, np.inf)

    def pull(
        self, points: Array, masses: Array, at: Array, *, most_pairs: float = np.inf
    ) -> tuple[Array, Array]:
        """log G(βx) and P_x ∇ log G(βx), as `log_moment`.

        With `most_pairs` no more than that many terms are summed, at the smallest G first. Then
        the error where G is a share s < 1e-3 of the largest may grow to about 1e-15/s.
        """
        places = Places.of(at)
        moments, potential, pull = self._tangential(points, masses, at, places)
        log_g, pull = self._with_small(points, masses, at, moments, potential, pull, most_pairs)
        return log_g, project(at, pull)

    def _tangential(
        self, points: Array, masses: Array, at: Array, places: Places
    ) -> tuple[Coefficients, Array, Array]:
        """Moments, G/Λ_0 and P_x ∇ log G."""
        sources = places if at is points else Places.of(points)
        moments = self._at.moments(sources, masses)
        potential = self._at.values(self._kernel * moments, places)
        # what is negative by rounding is summed anew
        np.maximum(potential, 1e-300, out=potential)
        pull = self._at.gradient(self._slope * moments, places)
        pull /= potential[:, None]
        return moments, potential, pull

    def _with_small(
        self,
        points: Array,
        masses: Array,
        at: Array,
        moments: Coefficients,
        potential: Array,
        mean: Array,
        most_pairs: float,
    ) -> tuple[Array, Array]:
        """log G and ∇ log G, with positive sums where G is small."""
        # the mean of G over the measure is no larger than its maximum, and no point need be near it
        inside = float(self._degree_shares @ self._at.power(moments)) / float(masses.sum())
        small = np.flatnonzero(potential < _SMALL * max(float(potential.max()), inside))
        if len(small) * len(points) > most_pairs:
            count = int(most_pairs // len(points))
            small = small[np.argsort(potential[small], kind="stable")[:count]]
        log_g = np.log(potential) + self._log_unit
        if len(small):
            log_g[small], mean[small] = log_moment(points, masses, self.beta * at[small])
        return log_g, mean
