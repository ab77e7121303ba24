"""Sums of e^{<Mx,y>} with any matrix M over tokens on S^2."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.bilinear import SphereBilinear
from meanfield.exponential_sums import log_moment
from meanfield.spaces.sphere.at import Places, SphereAt

Array = NDArray[np.float64]

# shares of the largest G: below the first, positive terms are summed instead of a series, whose
# errors are 1e-15 to 2e-13 of it; below the second, always
_SMALL, _LOST = 1e-3, 1e-6
# terms that may be summed one by one where the series still has most digits
_MOST_PAIRS = 1 << 24


class SphereScoreSums:
    """log G(Mx) and ∇ log G(Mx), G(z) = Σ_j m_j e^{<z,y_j>}, for tokens on S^2.

    Moments mu_lm by a non-uniform transform, through the kernel's matrix to harmonics in x
    (`SphereBilinear`), which are evaluated by another. Where G is below 1e-3 of its scale, the sum
    over all tokens is taken instead: errors of G itself are 1e-12 of it.

    Parameters
    ----------
    matrix : ndarray, shape (3, 3)
        M, |M|_2 <= 128.

    Raises
    ------
    ValueError
        If |M|_2 > 128.

    Examples
    --------
    >>> sums = SphereScoreSums(np.diag([1.0, 2.0, 3.0]))
    >>> points = np.array([[0.0, 1.0, 0.0]])
    >>> log_g, mean = sums.log_moment(points, np.ones(1), points)
    >>> log_g.round(11), mean.round(11) + 0.0
    (array([2.]), array([[0., 1., 0.]]))
    """

    largest_score = SphereBilinear.largest_score

    def __init__(self, matrix: Array) -> None:
        self._bilinear = SphereBilinear(matrix)
        self._sources = SphereAt(self._bilinear.source_degree)
        self._targets = SphereAt(self._bilinear.degree)

    def log_moment(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """log G(Mx), shape (m,), and ∇ log G(Mx), shape (m, 3), at unit rows `at` (m, 3)."""
        return self._log_moment(points, masses, at, np.inf)

    def quick(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """As `log_moment`, with 2^24 terms at most where G is 1e-6 to 1e-3 of its scale.

        Smallest first; the error may grow there to about 1e-14 over that share.
        """
        return self._log_moment(points, masses, at, _MOST_PAIRS)

    def _log_moment(
        self, points: Array, masses: Array, at: Array, most_pairs: float
    ) -> tuple[Array, Array]:
        places = Places.of(at)
        sources = places if at is points else Places.of(points)
        moments = self._sources.moments(sources, masses)
        series = self._bilinear.coefficients(moments)
        potential, *parts = (self._targets.values(row, places) for row in series)
        scale = max(float(potential.max()), self._bilinear.scale(moments) / float(masses.sum()))
        # what is negative by rounding is summed anew
        np.maximum(potential, 1e-300, out=potential)
        mean = np.stack(parts, axis=1) / potential[:, None]
        small = np.flatnonzero(potential < _SMALL * scale)
        if len(small) * len(points) > most_pairs:
            small = small[np.argsort(potential[small], kind="stable")]
            lost = int(np.count_nonzero(potential[small] < _LOST * scale))
            small = small[: max(int(most_pairs // len(points)), lost)]
        log_g = np.log(potential) + self._bilinear.log_unit
        if len(small):
            z = at[small] @ self._bilinear.matrix.T
            log_g[small], mean[small] = log_moment(points, masses, z)
        return log_g, mean
