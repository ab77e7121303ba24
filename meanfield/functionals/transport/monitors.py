"""Distances as monitors of runs: what a run's measure is compared with, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meanfield._checks import integer, number, shown, tell_apart
from meanfield.functionals.transport.bracket import Bracket
from meanfield.functionals.transport.distance import LARGEST_P, LEAST_GAP, wasserstein
from meanfield.laws.law import Law, Uniform, checked_pdf, symmetry_axis
from meanfield.laws.point_cloud import PointCloud
from meanfield.measures import AnyMeasure, Density, FlowMap, Particles, SphereFlowMap
from meanfield.measures.density import spectral_tail
from meanfield.spaces import Circle, Space, Sphere, Zonal
from meanfield.spaces.geometry import are_parallel
from meanfield.typing import Array

Distance = Callable[[Any, Any], float | Bracket]

TO = ("uniform", "centre", "start")
# a mean shorter than this has no direction that is more than rounding
_SHORTEST_MEAN = 1e-8
# spaces that hold the uniform law, and what makes another law resolved
_MODES, _DEGREE = 64, 31
_TAIL, _MASS = 1e-12, 1e-10


class DistanceTo:
    """W_p(mu_t, ν) at the saves of a run, for `evolve(monitors={"w1": DistanceTo("uniform")})`.

    It remembers how often it was called, and the start: one run needs one of its own.

    Parameters
    ----------
    to : {'uniform', 'centre', 'start'}, Law, Density, FlowMap or Particles
        What ν is. 'uniform' is σ; 'centre' the Dirac at the direction of the present mean
        ∫ x dmu_t, there is none where that is shorter than 1e-8; 'start' the measure of the first
        call. A law becomes a flow map on the circle and about the axis of mu_t, or for tokens in
        d >= 4 about its own; else a density on S^2.
    p : float, optional
        1 <= p <= 20.
    every : int, optional
        Computed at the first and at every so many-th call after it.
    gap : float, optional
        Of brackets on S^2, see `wasserstein`.
    distance : callable, optional
        Another distance (mu, nu) -> float or Bracket, such as `functools.partial(mmd, beta=4.0)`.

    Attributes
    ----------
    long_name : str
        What it measures, in words.

    Raises
    ------
    ValueError
        If an argument is out of range. When called, if the dimensions differ, no space resolves
        the law, or the distance can't be computed.

    Examples
    --------
    >>> from meanfield.laws import VonMisesFisher
    >>> w1, bump = DistanceTo("uniform"), VonMisesFisher([0.0, 0.0, 1.0], 500.0)
    >>> round(w1(Density(Zonal(3, 127), bump)), 4)  # a Dirac has π/2
    1.5147
    """

    def __init__(
        self,
        to: str | Law | AnyMeasure,
        p: float = 1,
        every: int = 1,
        *,
        gap: float | None = None,
        distance: Distance | None = None,
    ) -> None:
        is_word = isinstance(to, str) and to in TO
        if not is_word and not isinstance(to, Density | FlowMap | Particles | Law):
            raise ValueError(f"to must be one of {TO}, a law or a measure, got {shown(to)}")
        self.to = to
        self.p = number("p", p, low=1, high=LARGEST_P)
        self.every = integer("every", every, low=1)
        self.gap = None if gap is None else number("gap", gap, low=LEAST_GAP, high=1)
        if distance is not None and (not callable(distance) or self.p != 1.0 or gap is not None):
            raise ValueError(
                "distance must be a callable, and p and gap then be left out, got "
                f"{shown(distance)} with p = {self.p:g} and gap = {gap}"
            )
        self.distance = distance
        self._calls = 0
        self._start: AnyMeasure | None = None
        self._resolved: dict[bytes, AnyMeasure] = {}

    def __repr__(self) -> str:
        own = f"p={self.p:g}" if self.distance is None else f"distance={self.distance!r}"
        return f"DistanceTo({self.to!r}, every={self.every}, {own})"

    @property
    def long_name(self) -> str:
        """What it measures, in words."""
        name = f"Wasserstein distance W_{self.p:g}"
        if self.distance is not None:
            name = getattr(getattr(self.distance, "func", self.distance), "__name__", "distance")
        return f"{name} to {self.to if self.to in TO else repr(self.to)}"

    def take_up(self, start: AnyMeasure, calls: int) -> None:
        """Stand where a run is resumed: what the first call was about, and how many there were."""
        self._calls = calls
        if self.to == "start":
            self._start = start

    def __call__(self, measure: AnyMeasure) -> float | Bracket | None:
        """The distance; None where there is no centre, and at calls that are not due."""
        is_due = self._calls % self.every == 0
        self._calls += 1
        if self.to == "start" and self._start is None:
            self._start = measure
        other = self._other(measure) if is_due else None
        if other is None:
            return None
        if self.distance is not None:
            return self.distance(measure, other)
        if self.to == "centre" and isinstance(measure, SphereFlowMap):
            # nothing but the distances of its nodes to a point
            measure = Particles(measure.points, measure.weights)
        return wasserstein(measure, other, self.p, gap=self.gap)

    def _other(self, measure: AnyMeasure) -> AnyMeasure | None:
        """What the measure is compared with, if there is one."""
        if self.to == "start":
            return self._start
        if self.to == "centre":
            return _centre(measure)
        if isinstance(self.to, Density | FlowMap | Particles):
            return self.to
        law = Uniform(measure.dim) if isinstance(self.to, str) else self.to
        if law.dim != measure.dim:
            raise ValueError(f"to must have dim = {measure.dim} as {measure} has, got {shown(law)}")
        axis = measure.axis
        key = b"" if axis is None else axis.tobytes()
        if key not in self._resolved:
            self._resolved[key] = _measure_of(law, axis)
        return self._resolved[key]


def _centre(measure: AnyMeasure) -> Particles | None:
    mean = measure.mean()
    length = float(np.linalg.norm(mean))
    return None if length < _SHORTEST_MEAN else Particles((mean / length)[None])


def _measure_of(law: Law, axis: Array | None) -> AnyMeasure:
    """The law as a measure beside one that is symmetric about the axis, if it has one.

    Flow maps hold laws of any sharpness; a series in many dimensions loses those of a few degrees.
    """
    if isinstance(law, PointCloud) and not law.has_density:
        return Particles(law.points, law.weights)
    if axis is None and law.dim > 3:
        axis = symmetry_axis(law)
    if isinstance(law, Uniform):
        return Density(_smallest(law.dim, axis), law)
    if law.dim == 2:
        return FlowMap(law)
    own = symmetry_axis(law)
    # whether a law that does not tell its axis is symmetric about this one, its values tell
    if axis is not None and (are_parallel(own, axis) or (own is None and law.dim > 3)):
        return FlowMap(law, axis=axis)
    if law.dim > 3:
        raise ValueError(
            f"to must be a law that is symmetric about an axis in d = {law.dim} > 3, about that "
            f"of the measure if it has one, got {shown(law)} beside the axis {axis}"
        )
    return _density(law)


def _smallest(dim: int, axis: Array | None) -> Space:
    if dim == 2:
        return Circle(_MODES)
    return Sphere(_DEGREE) if axis is None else Zonal(dim, _DEGREE, axis)


def _density(law: Law) -> Density:
    """The law on the least sphere, by doubling, that resolves it."""
    space = Sphere(_DEGREE)
    while True:
        coefficients = space.analysis(checked_pdf(law, space.points))
        # where a coarse grid misses a narrow law altogether, 0/0
        with np.errstate(invalid="ignore"):
            tail = spectral_tail(space.power(coefficients))
        if tail < _TAIL and abs(float(coefficients[0].real) - 1.0) < _MASS:
            return Density(space, law)
        if space.doubled().size > space.size_limit:
            raise ValueError(
                f"to must be a law that {space} resolves to a spectral tail < {_TAIL:g}, got "
                f"{shown(law)} with {tell_apart(tail, _TAIL)[0]}"
            )
        space = space.doubled()
