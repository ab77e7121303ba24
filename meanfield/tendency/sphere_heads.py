"""The velocity field on S^2 under any attention and feed-forward layers, and its divergence."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from meanfield.bilinear import SphereBilinear
from meanfield.bilinear.legendre import Coordinates
from meanfield.dynamics import SA, Dynamics, FeedForward
from meanfield.geometry import project
from meanfield.harmonics import bandwidth
from meanfield.spaces.sphere.at import Places, SphereAt
from meanfield.tendency.sphere_field import NO_DIGITS, Sources, SphereField, means

Array = NDArray[np.float64]
Coefficients = NDArray[Any]
Pulled = tuple[Array, Array]

# below this share of its scale a series of G has too few digits left to divide by
_SMALL = 1e-6


class ActingField(Protocol):
    """X and div X at points of S^2, from moments of the measure."""

    def velocity(
        self, moments: Coefficients, points: Array, sources: Sources | None = None
    ) -> Array:
        """X (n, 3) at rows (n, 3), see `SphereField`."""

    def velocity_and_divergence(
        self,
        moments: Coefficients,
        points: Array,
        sources: Sources | None = None,
        *,
        loose: bool = False,
    ) -> Pulled:
        """X (n, 3) and div X (n,) at rows (n, 3), see `SphereField`."""


class SphereHead:
    """v = V ∇G(Mx) [/ G(Mx)] of one head, and div P_x v, from moments, at points of S^2.

    With w = V ∇G as three series of harmonics, div P_x w = (Δ(x·w) - x·Δw)/2 - x·w is one more, and
    div P_x v = (div P_x w)/G - w·∇G/G².

    Parameters
    ----------
    query, value : ndarray, shape (3, 3)
        M, |M| <= 128, and V.

    Attributes
    ----------
    log_unit : float
        |M|: without normalisation v is in units of e^{|M|}.
    source_degree : int
        Largest degree of the moments asked for.
    """

    def __init__(self, query: Array, value: Array, normalised: bool) -> None:
        self.query, self.value, self._normalised = query, value, normalised
        self._bilinear = SphereBilinear(query)
        self.log_unit, degree = self._bilinear.log_unit, self._bilinear.degree
        self.source_degree = self._bilinear.source_degree
        self._at = SphereAt(degree + 1)
        self._inside = np.flatnonzero(self._at.degrees <= degree)
        self._wide = np.flatnonzero(SphereAt(degree + 2).degrees <= degree + 1)
        self._coordinates = Coordinates(degree + 1)
        self._laplacian = -(self._at.degrees * (self._at.degrees + 1.0))
        self.needs_sources = normalised and bool(np.exp(-2.0 * self.log_unit) < _SMALL)

    def pulled(
        self,
        moments: Coefficients,
        places: Places,
        units: Array,
        sources: Sources | None,
        loose: bool,
        with_divergence: bool,
    ) -> Pulled:
        """v (n, 3), and div P_x v (n,) if asked for, at unit rows."""
        found = self._bilinear.coefficients(moments)
        series = np.zeros((4, len(self._laplacian)), dtype=np.complex128)
        series[0, self._inside] = found[0]
        series[1:, self._inside] = self.value @ found[1:]
        pull = np.stack([self._at.values(one, places) for one in series[1:]], axis=1)
        spread = np.zeros(0)
        if with_divergence:
            spread = self._at.values(self._divergence(series[1:]), places)
        if not self._normalised:
            return pull, spread
        potential = self._at.values(series[0], places)
        small = self._small(potential, self._bilinear.scale(moments), sources, loose)
        pull /= potential[:, None]
        if with_divergence:
            slope = self._at.gradient(series[0], places)
            spread = (spread - np.einsum("ij,ij->i", pull, slope)) / potential
        if len(small) and sources is not None:
            pull[small], there = self._direct(units[small], sources)
            if with_divergence:
                spread[small] = there
        return pull, spread

    def _divergence(self, series: Coefficients) -> Coefficients:
        """Coefficients of div P_x w, of those of w (3, n)."""
        products = []
        for parts in (series, self._laplacian * series):
            wide = np.zeros((3, self._wide_count), dtype=np.complex128)
            wide[:, self._wide] = parts
            products.append(sum(self._coordinates(wide[i])[1 + i] for i in range(3)))
        along, of_laplacian = products
        return np.asarray(0.5 * (self._laplacian * along - of_laplacian) - along)

    @property
    def _wide_count(self) -> int:
        return (self._at.lmax + 2) * (self._at.lmax + 3) // 2

    def _small(
        self, potential: Array, scale: float, sources: Sources | None, loose: bool
    ) -> NDArray[np.intp]:
        """Where G has too few digits, once G is made safe to divide by there."""
        if not self.needs_sources:
            return np.zeros(0, dtype=np.intp)
        small = np.flatnonzero(potential < _SMALL * scale)
        if loose:
            np.maximum(potential, NO_DIGITS * scale, out=potential)
            return np.zeros(0, dtype=np.intp)
        if len(small) and sources is None:
            raise ArithmeticError(
                f"at {len(small)} points G is down to {potential.min() / scale:.3g} of its mean "
                f"over the measure, where its series has no digits at beta |KᵀQ| = "
                f"{self.log_unit:g}: give the measure itself as sources"
            )
        potential[small] = 1.0
        return small

    def _direct(self, units: Array, sources: Sources) -> Pulled:
        """v = V mean and div P_x v = tr(P_x V Cov M) - 2<x, v>, by positive sums."""
        mean, second = means(units @ self.query.T, sources)
        pull = mean @ self.value.T
        spread = second - np.einsum("ij,ik->ijk", mean, mean)
        change = self.value @ spread @ self.query
        trace = np.trace(change, axis1=1, axis2=2)
        trace -= np.einsum("ij,ijk,ik->i", units, change, units)
        return pull, trace - 2.0 * np.einsum("ij,ij->i", units, pull)


class SphereHeadsField:
    """X and div X of attention with any heads on S^2, from moments up to a degree.

    Parameters
    ----------
    dynamics : SA, USA or Attention
    lmax : int
        Of the moments.

    Examples
    --------
    >>> moments = SphereAt(20).moments(Places.of(np.array([[1.0, 0.0, 0.0]])), np.ones(1))
    >>> field = SphereHeadsField(SA(1.0), 20)
    >>> field.velocity(moments, np.array([[0.0, 1.0, 0.0]])).round(12) + 0.0
    array([[1., 0., 0.]])
    """

    def __init__(self, dynamics: Dynamics, lmax: int) -> None:
        self._normalised = dynamics.normalised
        self._heads = [SphereHead(m, v, self._normalised) for m, v in dynamics.matrices(3)]
        degrees = SphereAt(lmax).degrees
        self._rows = [np.flatnonzero(degrees <= head.source_degree) for head in self._heads]

    def velocity(
        self, moments: Coefficients, points: Array, sources: Sources | None = None
    ) -> Array:
        """X at rows (n, 3), shape (n, 3), see `SphereField`."""
        return self._evaluate(moments, points, sources, loose=False, with_divergence=False)[0]

    def velocity_and_divergence(
        self,
        moments: Coefficients,
        points: Array,
        sources: Sources | None = None,
        *,
        loose: bool = False,
    ) -> Pulled:
        """X (n, 3) and div X (n,) at rows (n, 3), see `SphereField`."""
        return self._evaluate(moments, points, sources, loose=loose, with_divergence=True)

    def _evaluate(
        self,
        moments: Coefficients,
        points: Array,
        sources: Sources | None,
        *,
        loose: bool,
        with_divergence: bool,
    ) -> Pulled:
        places = Places.of(points)
        units = points / np.linalg.norm(points, axis=1, keepdims=True)
        total = np.zeros((len(points), 3))
        spread = np.zeros(len(points) if with_divergence else 0)
        for head, rows in zip(self._heads, self._rows, strict=True):
            pull, there = head.pulled(moments[rows], places, units, sources, loose, with_divergence)
            unit = 1.0 if self._normalised else float(np.exp(head.log_unit))
            total += unit * pull
            spread += unit * there
        return project(units, total), spread


class SphereDriftField:
    """X and div X of a feed-forward layer on S^2: no measure counts.

    Parameters
    ----------
    dynamics : FeedForward
    """

    def __init__(self, dynamics: FeedForward) -> None:
        self.dynamics = dynamics

    def velocity(
        self,
        moments: Coefficients,
        points: Array,
        sources: Sources | None = None,
    ) -> Array:
        """X (n, 3) at rows (n, 3)."""
        return self.velocity_and_divergence(moments, points, sources)[0]

    def velocity_and_divergence(
        self,
        moments: Coefficients,  # noqa: ARG002 (as for attention)
        points: Array,
        sources: Sources | None = None,  # noqa: ARG002
        *,
        loose: bool = False,  # noqa: ARG002
    ) -> Pulled:
        """X (n, 3) and div X (n,) at rows (n, 3)."""
        units = points / np.linalg.norm(points, axis=1, keepdims=True)
        output = self.dynamics.output(None, units)  # type: ignore[arg-type]
        return project(units, output), self.dynamics.divergence(units)


class SphereDepthField:
    """The fields of all layers of a dynamics on S^2, on the same moments.

    Parameters
    ----------
    dynamics : SA, USA, Attention, FeedForward or Layers

    Attributes
    ----------
    at : SphereAt
        The moments that some layer or the energy asks for.

    Raises
    ------
    ValueError
        If |β KᵀQ| > 128 for a head.

    Examples
    --------
    >>> from meanfield.dynamics import USA, Layers
    >>> depth = SphereDepthField(Layers([SA(1.0), USA(1.0)], step=0.5))
    >>> depth.during(0.0, 0.5) is depth.during(0.5, 1.0)
    False
    """

    def __init__(self, dynamics: Dynamics) -> None:
        self.dynamics = dynamics
        self._energy = SphereField(SA(dynamics.beta))
        lmax = max(self._energy.at.lmax, bandwidth(dynamics.reach, 3) + 1)
        self.at = SphereAt(lmax)
        self._of_energy = np.flatnonzero(self.at.degrees <= self._energy.at.lmax)
        self._fields: dict[int, ActingField] = {}
        for layer in dynamics.layers:
            if id(layer) not in self._fields:
                self._fields[id(layer)] = (
                    SphereDriftField(layer)
                    if isinstance(layer, FeedForward)
                    else SphereHeadsField(layer, lmax)
                )

    def during(self, start: float, end: float) -> ActingField:
        """The field of the layer that acts from one time to another."""
        return self._fields[id(self.dynamics.at(0.5 * (start + end)))]

    def attracting(
        self,
        points: Array,  # noqa: ARG002 (as of `SphereField`)
        masses: Array,
        log_u: Array | None = None,  # noqa: ARG002
    ) -> tuple[Array, None]:
        """The masses that make the field, see `SphereField`: those of the measure."""
        return masses, None

    def moments(self, points: Array, masses: Array) -> Coefficients:
        """mu_lm = Σ_j m_j conj(Y_lm(x_j)) of masses (n,) at points (n, 3)."""
        return self.at.moments(Places.of(points), masses)

    def energy(self, moments: Coefficients, *, scaled: bool = False) -> float:
        """E_β (3.5), times e^{-β} if scaled."""
        return self._energy.energy(moments[self._of_energy], scaled=scaled)


def field_on_sphere(dynamics: Dynamics) -> SphereField | SphereDepthField:
    """The field on S^2 of any dynamics: `SphereField` where it is isotropic."""
    return SphereField(dynamics) if dynamics.isotropic else SphereDepthField(dynamics)
