"""W_p of two measures: which representation they share, and what cannot be had."""

from __future__ import annotations

import numpy as np

from meanfield._checks import number, shown
from meanfield.functionals.transport.bracket import Bracket
from meanfield.functionals.transport.circle import circle_distance, cost
from meanfield.functionals.transport.clouds import cloud_distance
from meanfield.functionals.transport.quantiles import average_about, quantiles
from meanfield.functionals.transport.sphere import ON_SPHERE, sphere_distance
from meanfield.measures import AnyMeasure, check_pair
from meanfield.measures.density import Density
from meanfield.measures.flow_map import SphereFlowMap
from meanfield.measures.particles import Particles
from meanfield.spaces.geometry import geodesic_distance
from meanfield.typing import Array

# beyond it p-th powers of small distances leave double precision
LARGEST_P = 20.0
LEAST_GAP = 1e-6
# pairs of tokens on S^2 for which the network simplex takes less than a minute
_SIMPLEX_ON_SPHERE = 1 << 24
# by how much a token may miss an axis
_ALIKE = 1e-12
_POSSIBLE = (
    "both lie on the circle, both be symmetric about one axis, both be Particles, both lie on S^2, "
    "or be a single token and a Density (the points and weights of a flow map make Particles, too)"
)


def wasserstein(
    mu: AnyMeasure, nu: AnyMeasure, p: float = 1, *, gap: float | None = None
) -> float | Bracket:
    """W_p(mu, nu) = (inf ∫ dist(x, y)^p dπ)^{1/p} over plans π, dist the geodesic distance.

    A float, exact to about 1e-12 (an absolute error: angles are doubles), for

    - any two measures on the circle (Delon, Salomon and Sobolevski 2010);
    - two measures that are symmetric about one axis (densities on `Zonal` spaces, flow maps,
      tokens on the axis): the distance of their polar angles;
    - tokens in one point against tokens or a density.

    A `Bracket` with a lower and an upper end, for

    - tokens in any dimension, n m <= 2^26 of them (2^24 on S^2 if p is 1 or 2): the network
      simplex method of POT, refined until the bounds agree to 1e-12, however small the distances
      of tokens that belong together. Both are proven. Where the mass that crosses a gap is
      rounding of the weights, they may stay apart;
    - other measures on S^2 and p = 1 or 2: see `transport.sphere`; flow maps count by their nodes.
      Up to lmax = 63 W_1 of densities takes a second or so. W_2 needs POT and takes a few to ten
      seconds of one core for a few bumps, up to lmax = 255 too, and longer where the first of its
      three potentials misses the gap.
      W_1 is proven. So are the lower ends of W_2; where a plan between cells does not reach the
      gap, the upper end is an estimate, and the bracket is not `proved`: a larger gap gets a
      proven one.
      Measures that are much nearer to each other than the scale of their features, such as tokens
      and their own law, have wide brackets, and take up to a minute.

    The error of a density or a flow map as such
    comes on top: distances are those of the series, and of the panels. A mass error ε, of rounding
    too, moves W_p by ε^{1/p} if it has to cross a gap without mass; where a truncated series is
    negative, its mass there counts as ε. About an axis a pole of little density is such a gap, a
    small one: W_14 of laws that differ by 1e-11 may be 1e-8.

    Parameters
    ----------
    mu, nu : Density, FlowMap or Particles
    p : float, optional
        1 <= p <= 20.
    gap : float, optional
        (upper - lower)/upper that a bracket on S^2 shall have, in [1e-6, 1]; default 0.002 for W_1
        and 0.01 for W_2. Work ends when it is reached, or when more would not help: ask the
        bracket what it has.

    Returns
    -------
    float or Bracket

    Raises
    ------
    ValueError
        If p or gap is out of range, the dimensions differ, a density's mass is not 1, or there is
        no way to compute this pair.
    ArithmeticError
        If a lower bound on S^2 is found to exceed an upper one, which is a fault of ours.

    Examples
    --------
    >>> from meanfield.laws import Uniform
    >>> from meanfield.spaces import Circle
    >>> uniform = Density(Circle(16), Uniform(2))
    >>> round(float(wasserstein(uniform, Particles([[1.0, 0.0]]), p=2) ** 2 / np.pi**2), 12)  # 1/3
    0.333333333333
    """
    p = number("p", p, low=1, high=LARGEST_P)
    gap = None if gap is None else number("gap", gap, low=LEAST_GAP, high=1)
    check_pair(mu, nu)
    # a mesh on S^2 by its nodes
    mu, nu = _as_tokens(mu), _as_tokens(nu)
    for one, other in (mu, nu), (nu, mu):
        point = _single_point(one)
        if point is not None and isinstance(other, Particles):
            return _distance_to(point, other, p)
        if point is not None and isinstance(other, Density) and mu.dim > 2:
            return _line_distance(one, average_about(other, point), point, p)
    if mu.dim == 2:
        return circle_distance(quantiles(mu, None), quantiles(nu, None), p)
    if isinstance(mu, Particles) and isinstance(nu, Particles):
        pairs = len(mu.points) * len(nu.points)
        if mu.dim > 3 or pairs <= _SIMPLEX_ON_SPHERE or p not in ON_SPHERE:
            return cloud_distance(mu, nu, p)
        return sphere_distance(mu, nu, p, gap)
    axis = shared_axis(mu, nu)
    if axis is not None:
        return _line_distance(mu, nu, axis, p)
    if mu.dim == 3:
        return sphere_distance(mu, nu, p, gap)
    raise ValueError(f"mu and nu must {_POSSIBLE}; got {shown(mu)} and {shown(nu)}")


def _distance_to(point: Array, cloud: Particles, p: float) -> float:
    distances = geodesic_distance(cloud.points, point)
    farthest = max(float(distances.max()), 1e-300)
    return float(farthest * (cloud.weights @ (distances / farthest) ** p) ** (1.0 / p))


def _line_distance(mu: AnyMeasure, nu: AnyMeasure, axis: Array, p: float) -> float:
    first, second = quantiles(mu, axis), quantiles(nu, axis)
    if first.same_as(second):
        return 0.0
    return float(cost(first, second, 0.0, p) ** (1.0 / p))


def shared_axis(mu: AnyMeasure, nu: AnyMeasure) -> Array | None:
    """The axis about which both are symmetric, if one of them is stored so."""
    axis = mu.axis if mu.axis is not None else nu.axis
    about = axis is not None and all(each.is_about(axis, _ALIKE) for each in (mu, nu))
    return axis if about else None


def _as_tokens(measure: AnyMeasure) -> AnyMeasure:
    if isinstance(measure, SphereFlowMap):
        return Particles(measure.points, measure.weights / measure.weights.sum())
    return measure


def _single_point(measure: AnyMeasure) -> Array | None:
    """The place of all tokens with mass, if it is one."""
    if not isinstance(measure, Particles):
        return None
    heavy = np.flatnonzero(measure.weights)
    first, last = measure.points[heavy[[0, -1]]]
    if np.any(first != last) or np.any(measure.points[heavy] != first):
        return None
    return np.asarray(first)
