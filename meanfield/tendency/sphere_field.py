"""The velocity field on S^2 and its divergence at arbitrary points, from moments of the measure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import Dynamics
from meanfield.geometry import project
from meanfield.harmonics import (
    bandwidth,
    eigenvalues,
    relative_eigenvalues,
    scaled_eigenvalues,
)
from meanfield.sinkhorn import SphereNodes, scaling
from meanfield.spaces.sphere.at import Places, SphereAt

Array = NDArray[np.float64]
Coefficients = NDArray[Any]
Sources = tuple[Array, Array]

# below this share of its maximum a series of G has too few digits left for SA to divide by
SMALL = 1e-9
# and below this share none
NO_DIGITS = 1e-14
_BLOCK = 1 << 20


class SphereField:
    """X = ± ∇u (USA), ± ∇u/(βu) (SA), u = (1/β) Σ Λ_l mu_lm Y_lm, and div X, on S^2.

    Along a characteristic x' = X, d(log f)/dt = -div X. At β = 0 both are X = ± P_x ∫ y dmu. The
    field of DoublyStochastic is that of SA for the measure u mu, see `attracting`.
    Numerator and denominator of SA are in units of Λ_0, so that nothing overflows.

    Parameters
    ----------
    dynamics : SA, USA or DoublyStochastic
        Its noise is not part of the field.

    Attributes
    ----------
    at : SphereAt
        The transforms, up to the degree where Λ_l no longer counts.
    needs_sources : bool
        Whether G may be too small for its series somewhere: e^{-2β} < 1e-9 and SA.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> field = SphereField(SA(1.0))
    >>> moments = field.moments(np.array([[1.0, 0.0, 0.0]]), np.ones(1))
    >>> field.velocity(moments, np.array([[0.0, 1.0, 0.0]])).round(12) + 0.0
    array([[1., 0., 0.]])
    """

    def __init__(self, dynamics: Dynamics) -> None:
        self.dynamics = dynamics
        beta = dynamics.beta
        self.at = SphereAt(bandwidth(beta, 3))
        degrees = self.at.degrees
        kernel = relative_eigenvalues(beta, 3, self.at.lmax)
        self._normalised = dynamics.normalised and beta > 0.0
        self._kernel = kernel[degrees]
        self._slope = kernel / beta if beta > 0.0 else np.eye(1, self.at.lmax + 1, 1)[0] / 3.0
        if not self._normalised and beta > 0.0:
            self._slope = self._slope * float(eigenvalues(beta, 3, 0)[0])
        self._slope = dynamics.sign * self._slope[degrees]
        self._energy_factors = scaled_eigenvalues(beta, 3, self.at.lmax)
        self.needs_sources = self._normalised and bool(np.exp(-2.0 * beta) < SMALL)

    def during(self, start: float, end: float) -> SphereField:  # noqa: ARG002
        """The field that acts from one time to another: this one always."""
        return self

    def moments(self, points: Array, masses: Array) -> Coefficients:
        """mu_lm = Σ_j m_j conj(Y_lm(x_j)) of masses (n,) at points (n, 3)."""
        return self.at.moments(Places.of(points), masses)

    def attracting(
        self, points: Array, masses: Array, log_u: Array | None = None
    ) -> tuple[Array, Array | None]:
        """The masses that make the field, and log u: m u under DoublyStochastic, else m and None.

        Parameters
        ----------
        points : ndarray, shape (n, 3)
            Only their directions count.
        masses : ndarray, shape (n,)
        log_u : ndarray, shape (n,), optional
            A guess, such as that of the last time.
        """
        if not self.dynamics.balanced:
            return masses, None
        units = points / np.linalg.norm(points, axis=1, keepdims=True)
        # G at a node is no less than sqrt(m), so series keep what counts for mass
        sums = SphereNodes(units, self.dynamics.beta, most_pairs=0)
        log_u = scaling(sums.potential, masses / masses.sum(), log_u)
        return masses * np.exp(log_u), log_u

    def at_nodes(self, points: Array, masses: Array) -> tuple[Array, Coefficients]:
        """X (n, 3) at the masses of a measure themselves, and the moments of the measure."""
        sources = points, self.attracting(points, masses)[0]
        velocity = self.velocity(self.moments(*sources), points, sources)
        return velocity, self.moments(points, masses)

    def velocity(
        self, moments: Coefficients, points: Array, sources: Sources | None = None
    ) -> Array:
        """X at rows (n, 3), shape (n, 3).

        Parameters
        ----------
        moments : ndarray
            Coefficients of the measure, see `moments`.
        points : ndarray, shape (n, 3)
            Only their directions count.
        sources : (ndarray, ndarray), optional
            Points (m, 3) and masses (m,) of the measure, summed where G is below 1e-9 of its
            maximum: the series loses its digits there, some seven of them at 1e-9.

        Raises
        ------
        ArithmeticError
            If G is below 1e-9 of its maximum at a point, and no sources are given.
        """
        return self._evaluate(moments, Places.of(points), points, sources, False)[0]

    def velocity_and_divergence(
        self,
        moments: Coefficients,
        points: Array,
        sources: Sources | None = None,
        *,
        loose: bool = False,
    ) -> tuple[Array, Array]:
        """X (n, 3) and div X (n,) at rows (n, 3); parameters as in `velocity`.

        With `loose` the series is used however small G is: what lies there has less than 1e-9 of
        the mass, and a mesh that is laid with it needs no more.
        """
        return self._evaluate(moments, Places.of(points), points, sources, True, loose)

    def _evaluate(
        self,
        moments: Coefficients,
        places: Places,
        points: Array,
        sources: Sources | None,
        with_divergence: bool,
        loose: bool = False,
    ) -> tuple[Array, Array]:
        slope = self._slope * moments
        velocity = self.at.gradient(slope, places)
        divergence = self.at.laplacian(slope, places) if with_divergence else np.zeros(0)
        if not self._normalised:
            return velocity, divergence
        potential = self.at.values(self._kernel * moments, places)
        small = self._small(potential, moments, sources, loose)
        potential[small] = 1.0
        velocity /= potential[:, None]
        if with_divergence:
            divergence /= potential
            factor = self.dynamics.sign * self.dynamics.beta
            divergence -= factor * np.einsum("ij,ij->i", velocity, velocity)
        if len(small) and sources is not None:
            units = points[small] / np.linalg.norm(points[small], axis=1, keepdims=True)
            there = _direct(units, sources, self.dynamics.beta)
            velocity[small] = self.dynamics.sign * there[0]
            if with_divergence:
                divergence[small] = self.dynamics.sign * there[1]
        return velocity, divergence

    def _small(
        self, potential: Array, moments: Coefficients, sources: Sources | None, loose: bool
    ) -> NDArray[np.intp]:
        if not self.needs_sources:
            return np.zeros(0, dtype=np.intp)
        # G <= e^β mass; its maximum over the sphere is at least its mean Λ_0 · mass
        largest = max(float(potential.max()), float(moments[0].real))
        if loose:
            np.maximum(potential, NO_DIGITS * largest, out=potential)
            return np.zeros(0, dtype=np.intp)
        small = np.flatnonzero(potential < SMALL * largest)
        if len(small) and sources is None:
            raise ArithmeticError(
                f"at {len(small)} points G is down to {potential.min() / largest:.3g} of its "
                f"maximum, where its series has no digits at beta = {self.dynamics.beta:g}: "
                f"give the measure itself as sources"
            )
        return small

    def energy(self, moments: Coefficients, *, scaled: bool = False) -> float:
        """E = 1/(2β) Σ Λ_l |mu_lm|² (3.5), at β = 0 |∫ x dmu|²/2; times e^{-β} if scaled."""
        beta, power = self.dynamics.beta, self.at.power(moments)
        if beta == 0.0:
            return float(power[1]) / 6.0
        energy = float(self._energy_factors @ power) / (2.0 * beta)
        return energy if scaled else energy * float(np.exp(beta))

    def dissipation(
        self,
        moments: Coefficients,
        points: Array,
        masses: Array,
        velocity: Array,
        *,
        scaled: bool = False,
    ) -> float:
        """∫ |X|² G dmu (SA), ∫ |X|² dmu (USA), from X (n, 3) at masses (n,); or e^{-β} times it.

        ∫ |X|² dmu under DoublyStochastic, scaled or not.
        """
        beta = self.dynamics.beta
        if self.dynamics.balanced:
            return float(masses @ np.einsum("ij,ij->i", velocity, velocity))
        if not self._normalised:
            # X = e^β ∇u: its square alone may leave double precision
            velocity = velocity * float(np.exp(-0.5 * beta)) if scaled else velocity
            return float(masses @ np.einsum("ij,ij->i", velocity, velocity))
        squares = masses * np.einsum("ij,ij->i", velocity, velocity)
        potential = self.at.values(self._kernel * moments, Places.of(points))
        unit = float(self._energy_factors[0]) * (1.0 if scaled else float(np.exp(beta)))
        return unit * float(squares @ potential)


def _direct(points: Array, sources: Sources, beta: float) -> tuple[Array, Array]:
    """P_x mean and div = β tr(P_x Cov) - 2<x, mean>, under p ∝ m e^{β<x,y>}, by positive sums."""
    mean, second = means(beta * points, sources)
    along = np.einsum("ij,ij->i", points, mean)
    along_squared = np.einsum("ij,ijk,ik->i", points, second, points)
    across = project(points, mean)
    trace = 1.0 - along_squared - np.einsum("ij,ij->i", across, across)
    return across, beta * trace - 2.0 * along


def means(z: Array, sources: Sources) -> tuple[Array, Array]:
    """Means of y (n, 3) and of y yᵀ (n, 3, 3) under p ∝ m e^{<z,y>} at rows z, by positive sums."""
    kept = sources[1] > 0.0
    y, log_masses = sources[0][kept], np.log(sources[1][kept])
    pairs = np.einsum("ij,ik->ijk", y, y).reshape(-1, 9)
    features = np.column_stack([np.ones(len(y)), y, pairs])
    sums = np.empty((len(z), 13))
    step = max(1, _BLOCK // len(y))
    for start in range(0, len(z), step):
        part = slice(start, start + step)
        terms = z[part] @ y.T + log_masses
        terms -= terms.max(axis=1)[:, None]
        with np.errstate(under="ignore"):
            np.exp(terms, out=terms)
            sums[part] = terms @ features
    sums /= sums[:, :1].copy()
    return sums[:, 1:4], sums[:, 4:].reshape(-1, 3, 3)
