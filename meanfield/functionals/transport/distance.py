"""W_p of two measures, its plans, maps and monitors, and the sliced distance of clouds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import numpy as np
import scipy

from meanfield import _checks
from meanfield._checks import check_measure, freeze, integer, number, shown
from meanfield._records import key
from meanfield.functionals.distances import mmd_with_error, sobolev
from meanfield.functionals.transport import ON_SPHERE, Bracket, exact
from meanfield.functionals.transport.circle import best_shift, distance_of_angles, sliver
from meanfield.functionals.transport.clouds import cloud_distance, cloud_plan
from meanfield.functionals.transport.quantiles import Atoms, quantiles
from meanfield.laws.law import Law, Uniform, checked_pdf, symmetry_axis, uniform_frame
from meanfield.laws.point_cloud import PointCloud
from meanfield.measures import AnyMeasure, Density, FlowMap, Particles, SphereFlowMap, check_pair
from meanfield.measures.density import spectral_tail
from meanfield.spaces import Circle, Places, Space, Sphere, SphereAt, Zonal, geometry
from meanfield.spaces.gegenbauer import gegenbauer
from meanfield.typing import Array, ArrayLike, Rng

# for larger p, p-th powers of small distances leave double precision
LARGEST_P = 20.0
LEAST_GAP = 1e-6
# for so many pairs of tokens on S^2 the network simplex takes less than a minute
_SIMPLEX_ON_SPHERE = 1 << 24
# a token may miss an axis by this
_ALIKE = 1e-12
# a gap this wide takes one attempt
_WIDE = 0.1
_POSSIBLE = (
    "both lie on the circle, both be symmetric about one axis, both be Particles, both lie on S^2, "
    "or be a single token and a Density (the points and weights of a flow map make Particles, too)"
)


def wasserstein(
    mu: AnyMeasure,
    nu: AnyMeasure,
    p: float = 1,
    *,
    gap: float | None = None,
    budget: int | None = None,
    progress: bool = False,
) -> Bracket:
    """W_p(mu, nu) = (inf ∫ dist(x, y)^p dπ)^{1/p} over plans π, dist the geodesic distance.

    The ends of the bracket are equal, to about 1e-12, for any two measures on the circle, for two
    that are symmetric about one axis, and for tokens in one point against tokens or a density. They
    are apart, each proven or an estimate, between tokens in any dimension and, for p = 1 or 2,
    between any measures on S^2. Two clouds beyond the circle need POT, and so does W_2 of densities
    on S^2.

    Parameters
    ----------
    mu, nu : Density, FlowMap or Particles
    p : float, optional
        1 <= p <= 20.
    gap : float, optional
        (upper - lower)/upper that a bracket on S^2 shall have, in [1e-6, 1]; default 0.01, for W_1
        of measures without tokens 0.002. Work ends when it is reached, or when more would not help.
    budget : int, optional
        The most attempts at the gap that a bracket on S^2 may take; by default up to 5. Each takes
        one to eight times the time of the one before.
    progress : bool, optional
        Whether to show a bar of these attempts, and the bracket that they have reached.

    Returns
    -------
    Bracket
        `float` takes its value.

    Raises
    ------
    ValueError
        If an argument is out of range, the dimensions differ, a density's mass is not 1, there is
        no way to compute this pair, or there is a budget for a pair that takes no attempts.
    ArithmeticError
        If a lower bound on S^2 is found to exceed an upper one, which is a bug.

    Notes
    -----
    The page docs/mathematics/transport.md has a table of pairs: how each is computed, which ends
    are proven, the time, and what the errors of the measures themselves add.

    Examples
    --------
    >>> from meanfield.laws import Uniform
    >>> from meanfield.spaces import Circle
    >>> uniform = Density(Circle(16), Uniform(2))
    >>> found = wasserstein(uniform, Particles([[1.0, 0.0]]), p=2)
    >>> round(float(found) ** 2 / np.pi**2, 12), found.lower == found.upper  # 1/3
    (0.333333333333, True)
    """
    p = number("p", p, low=1, high=LARGEST_P)
    gap = None if gap is None else number("gap", gap, low=LEAST_GAP, high=1)
    budget = None if budget is None else integer("budget", budget, low=1)
    progress = _checks.boolean("progress", progress)
    check_pair(mu, nu)
    for flow, other in (mu, nu), (nu, mu):
        point = _single_point(other)
        # a call with a budget is refused by the code that follows
        if isinstance(flow, SphereFlowMap) and point is not None and budget is None:
            return _to_point(flow, point, p)
    (first, off_mu), (second, off_nu) = mu.for_transport(p), nu.for_transport(p)
    own_error, least_gap = off_mu + off_nu, 0.0
    if min(off_mu, off_nu) > 0.0 and all(map(np.array_equal, mu.quadrature, nu.quadrature)):
        return exact(0.0)
    if own_error > 0.0 and None not in (first.degree, second.degree):
        # `sobolev` bounds W_1 from above, and so gives the gap below which the measures' own
        # error is larger than the bracket
        least_gap = own_error / max(sobolev(first, second), own_error)
    bracket = _without_attempts(first, second, p)
    if bracket is None:
        # the import is slow, and most runs have no such monitor
        from meanfield.functionals.transport.sphere import sphere_distance

        tries = 1 if least_gap > _WIDE else budget
        bracket = sphere_distance(first, second, p, gap, tries, progress, least_gap)
    elif budget is not None:
        raise ValueError(
            f"budget must be None but for measures on S^2 without a shared axis, got {budget} for "
            f"{shown(mu)} and {shown(nu)}"
        )
    if own_error == 0.0:
        return bracket
    return Bracket(bracket.value, max(bracket.lower - own_error, 0.0), bracket.upper + own_error)


def _without_attempts(mu: AnyMeasure, nu: AnyMeasure, p: float) -> Bracket | None:
    """Return W_p by one computation, None if only the bounds on S^2 are left."""
    for source, other in (mu, nu), (nu, mu):
        point = _single_point(source)
        if point is not None and other.is_ordered:
            return exact(_distance_to(point, other, p))
        if point is not None and isinstance(other, Density) and mu.dim > 2:
            angles = quantiles(source, point), quantiles(_average_about(other, point), point)
            return exact(distance_of_angles(*angles, p))
    axis = shared_axis(mu, nu)
    if mu.dim == 2 or axis is not None:
        return exact(distance_of_angles(quantiles(mu, axis), quantiles(nu, axis), p))
    if isinstance(mu, Particles) and isinstance(nu, Particles):
        pairs = len(mu.points) * len(nu.points)
        if mu.dim > 3 or pairs <= _SIMPLEX_ON_SPHERE or p not in ON_SPHERE:
            return cloud_distance(mu, nu, p)
    if mu.dim == 3:
        return None
    raise ValueError(f"mu and nu must {_POSSIBLE}; got {shown(mu)} and {shown(nu)}")


def _to_point(flow: SphereFlowMap, point: Array, p: float) -> Bracket:
    """W_p of a flow map to a point by quadrature over its nodes, with ends widened by its error."""
    nodes = Particles(flow.points, flow.weights, unit_mass=True)
    value = _distance_to(point, nodes, p)
    costs = (geometry.geodesic_distance(nodes.points, point) / np.pi) ** p
    # dist^p has a kink at one of these two points at least
    error = flow.unresolved_share(costs, np.stack([point, -point]))
    cost = (value / np.pi) ** p
    lower, upper = (np.pi * max(end, 0.0) ** (1.0 / p) for end in (cost - error, cost + error))
    return Bracket(value, min(lower, value), max(upper, value))


def _distance_to(point: Array, cloud: AnyMeasure, p: float) -> float:
    distances = geometry.geodesic_distance(cloud.points, point)
    farthest = max(float(distances.max()), 1e-300)
    return float(farthest * (cloud.weights @ (distances / farthest) ** p) ** (1.0 / p))


def _average_about(density: Density, point: Array) -> Density:
    """The density averaged over rotations about a point, whose distances to it have the same law.

    A harmonic Y_k has the average Y_k(point) P_k(<x, point>).
    """
    space = density.space
    if space.axis is None:
        basis = SphereAt(space.size)
        values = basis.moments(Places.of(point[None]), np.ones(1)).conj()
        # orders m > 0 stand for -m, too
        products = np.where(basis.orders > 0, 2.0, 1.0) * values * density.coefficients
        power = np.bincount(basis.degrees, products.real)
        norms = np.sqrt(2.0 * np.arange(space.size + 1) + 1.0)
        return Density.from_coefficients(Zonal(3, space.size, point), power / norms)
    along = np.array([np.clip(space.axis @ point, -1.0, 1.0)])
    averaged = density.coefficients * gegenbauer(space.dim, space.kmax, along)[:, 0]
    return Density.from_coefficients(Zonal(space.dim, space.kmax, point), averaged)


def shared_axis(mu: AnyMeasure, nu: AnyMeasure) -> Array | None:
    """The axis about which both are symmetric, if one of them is stored so; None on the circle.

    There polar angles would tell one half from the other.
    """
    if mu.dim == 2:
        return None
    axis = mu.axis if mu.axis is not None else nu.axis
    is_symmetric = axis is not None and all(each.is_about(axis, _ALIKE) for each in (mu, nu))
    return axis if is_symmetric else None


def _single_point(measure: AnyMeasure) -> Array | None:
    """Return the place of all tokens with mass if there is only one."""
    if not measure.is_ordered:
        return None
    heavy = np.flatnonzero(measure.weights)
    point, last_point = measure.points[heavy[[0, -1]]]
    # comparing two tokens settles it for nearly all clouds
    is_one = (point == last_point).all() and (measure.points[heavy] == point).all()
    return np.asarray(point) if is_one else None


# a plan is called optimal if its cost is within this relative distance of the least
_OPTIMAL = 1e-9


def transport_plan(mu: Particles, nu: Particles, p: float = 1) -> scipy.sparse.coo_array:
    """An optimal plan π of W_p between tokens: π[i, j] is the mass that goes from x_i to y_j.

    On the circle a monotone plan with at most n + m + 1 masses, of O((n + m) log(n + m)) work; in
    more dimensions that of POT's network simplex, n m <= 2^26, whose cost is the upper bound of
    `wasserstein`. Where several plans are optimal, one of them.

    Parameters
    ----------
    mu, nu : Particles
        n and m tokens.
    p : float, optional
        1 <= p <= 20.

    Returns
    -------
    scipy.sparse.coo_array, shape (n, m)
        Its rows have the sums `mu.weights`, its columns `nu.weights`.

    Warns
    -----
    RuntimeWarning
        If the cost ∫ dist^p dπ is not known to be within 1e-9 of the least one, relative. The
        warning says how far from it the plan may be.

    Raises
    ------
    ValueError
        If p is out of range, one is no Particles, the dimensions differ, there are too many
        tokens, or POT is needed and not installed.

    Examples
    --------
    >>> mu, nu = Particles([[1.0, 0.0], [0.0, 1.0]]), Particles([[0.0, -1.0]])
    >>> transport_plan(mu, nu).toarray()
    array([[0.5],
           [0.5]])
    """
    p = number("p", p, low=1, high=LARGEST_P)
    check_pair(mu, nu)
    for name, measure in ("mu", mu), ("nu", nu):
        if not measure.is_ordered:
            raise ValueError(f"{name} must be Particles to have a plan, got {shown(measure)}")
    if mu.dim > 2:
        best = cloud_plan(mu, nu, p)[1]
        if best.upper - best.lower > _OPTIMAL * best.upper:
            warnings.warn(
                f"the plan of W_{p:g} may cost up to {best.upper / best.lower - 1.0:.1e} more than "
                f"the best one, relative"
                if best.lower > 0.0
                else f"how far the plan of W_{p:g} is from the best one is not known: bounds of "
                f"the least cost, relative to the plan's, are 0 and 1",
                RuntimeWarning,
                stacklevel=2,
            )
        return best.plan
    first, second = Atoms.on_circle(*mu.quadrature), Atoms.on_circle(*nu.quadrature)
    shape = len(mu.points), len(nu.points)
    return _monotone(first, second, best_shift(first, second, p), shape)


def _monotone(mu: Atoms, nu: Atoms, shift: float, shape: tuple[int, int]) -> scipy.sparse.coo_array:
    """Return the plan from Q_mu(u) to Q_nu(u + s), atom by atom."""
    cuts = nu.starts - shift
    cuts -= np.floor(cuts)
    # a cut of nu that rounding separates from one of mu is the same cut
    place = np.searchsorted(mu.starts, cuts)
    distances = np.minimum(mu.starts[place] - cuts, np.abs(cuts - mu.starts[place - 1]))
    cuts = np.union1d(mu.starts, cuts[distances > sliver(len(mu.starts) + len(cuts))])
    middle = 0.5 * (cuts[1:] + cuts[:-1])
    rows = mu.order[np.searchsorted(mu.starts, middle) - 1]
    shifted = middle + shift
    columns = nu.order[np.searchsorted(nu.starts, shifted - np.floor(shifted)) - 1]
    plan = scipy.sparse.coo_array((np.diff(cuts), (rows, columns)), shape=shape)
    plan.sum_duplicates()
    return plan


def transport_map(mu: AnyMeasure, nu: AnyMeasure, at: ArrayLike, p: float = 1) -> Array:
    """The images of points under an optimal map of W_p from mu to nu.

    On the circle, or for two measures that are symmetric about one axis: the monotone map
    Q_nu(F_mu(x) + s), on the circle with the shift s of least cost (for p > 1 the only optimal
    map; for p = 1 one of them). To tokens it is a staircase.

    Parameters
    ----------
    mu, nu : Density, FlowMap or Particles
        mu must have a density.
    at : array_like, shape (n, d)
        Unit rows.
    p : float, optional
        1 <= p <= 20.

    Returns
    -------
    ndarray, shape (n, d)

    Raises
    ------
    ValueError
        If p is out of range, the dimensions differ, mu has atoms, the measures share no axis, or
        the points are no unit rows.

    Examples
    --------
    >>> from meanfield.laws import Uniform, VonMisesFisher
    >>> from meanfield.measures import Density
    >>> from meanfield.spaces import Circle
    >>> uniform = Density(Circle(16), Uniform(2))
    >>> transport_map(uniform, uniform, [[0.6, 0.8]], p=2).round(12)
    array([[0.6, 0.8]])
    """
    p = number("p", p, low=1, high=LARGEST_P)
    check_pair(mu, nu)
    points, axis = _checks.unit_rows("at", at, mu.dim), shared_axis(mu, nu)
    if mu.dim > 2 and axis is None:
        raise ValueError(
            f"mu and nu must lie on the circle or be symmetric about one axis, got {shown(mu)} and "
            f"{shown(nu)}"
        )
    first, second = quantiles(mu, axis), quantiles(nu, axis)
    if not first.is_smooth:
        raise ValueError(f"mu must have a density to have an optimal map, got {shown(mu)}")
    if axis is None:
        masses = first.cumulative(geometry.circle_angles(points))
        return geometry.circle_points(second.quantile(masses + best_shift(first, second, p)))
    angles = second.quantile(first.cumulative(geometry.polar_angles(points, axis)))
    across = points - np.outer(points @ axis, axis)
    length = np.linalg.norm(across, axis=1)
    across[length == 0.0] = geometry.perpendicular(axis)
    across /= np.where(length == 0.0, 1.0, length)[:, None]
    return np.asarray(np.cos(angles)[:, None] * axis + np.sin(angles)[:, None] * across)


@dataclass(frozen=True)
class SlicedDistance:
    """A mean over random great circles; `float` takes the value.

    Attributes
    ----------
    value : float
    standard_error : float
        Standard error of the value, from the scatter over the circles.

    Examples
    --------
    >>> import meanfield as mf
    >>> north, south = mf.Particles([[0.0, 0.0, 1.0]]), mf.Particles([[0.0, 0.0, -1.0]])
    >>> mean = mf.sliced_wasserstein(north, south, planes=20, rng=0)  # π on every great circle
    >>> round(float(mean) / np.pi, 12), round(mean.standard_error, 12)
    (1.0, 0.0)
    """

    value: float
    standard_error: float

    def __float__(self) -> float:
        return self.value


# so many independent frames of planes show how much they differ
_FRAMES = 16


def sliced_wasserstein(
    mu: Particles, nu: Particles, p: float = 2, *, planes: int = 256, rng: Rng
) -> SlicedDistance:
    """Spherical sliced Wasserstein distance (Bonet et al., ICLR 2023), which is not W_p.

    (mean of W_p^p)^{1/p} between the shadows x -> Ux/|Ux| of both clouds on the great circles of
    uniformly random planes U, each exact. It vanishes for equal measures only. It costs
    O((n + m) log(n + m)) for each plane in any dimension, also where W_p itself is too expensive.

    Planes come in 16 or more independent frames of at most d/2 that are orthogonal to one another:
    so the mean varies less than over independent planes. The standard error is that of frames.

    Parameters
    ----------
    mu, nu : Particles
        With dim >= 3.
    p : float, optional
        1 <= p <= 20.
    planes : int, optional
        Number of planes, >= 2, rounded up to whole frames.
    rng : int or numpy Generator

    Returns
    -------
    SlicedDistance

    Raises
    ------
    ValueError
        If p or planes is out of range, one is no Particles, or the dimensions differ or are 2.

    Examples
    --------
    >>> mu = Particles([[1.0, 0.0, 0.0]])
    >>> float(sliced_wasserstein(mu, mu, rng=0))
    0.0
    """
    p = number("p", p, low=1, high=LARGEST_P)
    planes, rng = integer("planes", planes, low=2), _checks.generator("rng", rng)
    check_pair(mu, nu)
    for name, measure in ("mu", mu), ("nu", nu):
        if not measure.is_ordered or measure.dim < 3:
            raise ValueError(f"{name} must be Particles with dim >= 3, got {shown(measure)}")
    per_frame = max(1, min(mu.dim // 2, planes // _FRAMES))
    frames = -(-planes // per_frame)
    powers = np.empty((frames, per_frame))
    for of_frame in powers:
        frame = uniform_frame(2 * per_frame, mu.dim, rng)
        for k in range(per_frame):
            plane = frame[2 * k : 2 * k + 2].T
            distance = distance_of_angles(_shadow(mu, plane), _shadow(nu, plane), p)
            # distances are divided by the largest one, π, so that no power overflows
            of_frame[k] = (distance / np.pi) ** p
    mean = float(powers.mean())
    error = float(powers.mean(axis=1).std(ddof=1) / np.sqrt(frames))
    value = float(np.pi * mean ** (1.0 / p))
    return SlicedDistance(value, value * error / (p * mean) if mean > 0.0 else 0.0)


def _shadow(measure: Particles, plane: Array) -> Atoms:
    return Atoms.on_circle(measure.points @ plane, measure.weights)


Distance = float | Bracket

TO = ("uniform", "centre", "start")
DISTANCES = ("wasserstein", "mmd", "sobolev")
# a mean shorter than this has a direction of rounding only
_SHORTEST_MEAN = 1e-8
# the sizes of spaces that hold the uniform law, and the tail and the error of mass at which another
# law is resolved
_MODES, _DEGREE = 64, 31
_TAIL, _MASS = 1e-12, 1e-10


@dataclass(frozen=True)
class DistanceTo:
    """A distance of mu_t to ν at the saves of a run, as a monitor of `evolve`.

    Use it as in `evolve(monitors={"w1": DistanceTo("start")})`.

    Parameters
    ----------
    to : {'uniform', 'centre', 'start'}, Law, Density, FlowMap or Particles
        The measure ν. 'uniform' is σ; 'centre' the Dirac at the direction of the present mean
        ∫ x dmu_t, there is none where that is shorter than 1e-8; 'start' the first measure of the
        run. A law becomes a flow map on the circle and about the axis of mu_t, or for tokens in
        d >= 4 about its own; else a density on S^2.
    distance : {'wasserstein', 'mmd', 'sobolev'}, optional
        Which one.
    p : float, optional
        The order of 'wasserstein', 1 <= p <= 20.
    gap : float, optional
        For 'wasserstein', the width of brackets on S^2.
    beta : float, optional
        For 'mmd', which needs it.
    s : float, optional
        The order of 'sobolev', -1 if left out.
    every : int, optional
        Computed at the first and at every so many-th save after it.

    Attributes
    ----------
    long_name : str
        A description of the number, in words.
    units : str

    Raises
    ------
    ValueError
        If an argument is out of range, or is one of another distance. When called, if the
        dimensions differ, no space resolves the law, or the distance can't be computed.

    Examples
    --------
    >>> from meanfield.laws import VonMisesFisher
    >>> w1, bump = DistanceTo("uniform"), VonMisesFisher([0.0, 0.0, 1.0], 500.0)
    >>> round(float(w1(Density(Zonal(3, 127), bump))), 4)  # a Dirac has π/2
    1.5147
    """

    to: str | Law | AnyMeasure = field(
        metadata=key(
            "the uniform measure, a Dirac at the present mean, the start, or a law's table", dict
        )
    )
    distance: Literal["wasserstein", "mmd", "sobolev"] = field(
        default="wasserstein",
        metadata=key(
            "W_p, or in the attention kernel, or in the norm of H^s",
            Literal["wasserstein", "mmd", "sobolev"],
        ),
    )
    _: KW_ONLY
    p: float = field(
        default=1.0, metadata=key('of "wasserstein", 1 to 20', float, minimum=1, maximum=20)
    )
    gap: float | None = field(
        default=None,
        metadata=key(
            'of "wasserstein": the relative width asked of a bracket, > 0',
            float,
            exclusiveMinimum=0,
        ),
    )
    beta: float | None = field(
        default=None,
        metadata=key('of "mmd", >= 0; that of the dynamics if left out', float, minimum=0),
    )
    s: float | None = field(
        default=None,
        metadata=key('of "sobolev", below -(d-1)/2; -1 if left out', float, exclusiveMaximum=0),
    )
    every: int = field(default=1, metadata=key("only every so many-th save, >= 1", int, minimum=1))

    def __post_init__(self) -> None:
        is_word = isinstance(self.to, str) and self.to in TO
        if not is_word and not isinstance(self.to, Density | FlowMap | Particles | Law):
            raise ValueError(f"to must be one of {TO}, a law or a measure, got {shown(self.to)}")
        if isinstance(self.to, Density | FlowMap | Particles):
            check_measure("to", self.to)
        _checks.one_of("distance", self.distance, list(DISTANCES))
        checked = {
            "every": integer("every", self.every, low=1),
            "p": number("p", self.p, low=1, high=LARGEST_P),
            "gap": None if self.gap is None else number("gap", self.gap, low=LEAST_GAP, high=1),
            "beta": None if self.beta is None else number("beta", self.beta, low=0),
            "s": None if self.s is None else number("s", self.s),
        }
        owners = {"p": "wasserstein", "gap": "wasserstein", "beta": "mmd", "s": "sobolev"}
        for name, owner in owners.items():
            if self.distance != owner and checked[name] != (1.0 if name == "p" else None):
                raise ValueError(
                    f"{name} must be left out for distance = {self.distance!r}, as it is one of "
                    f"{owner!r}, got {checked[name]}"
                )
        if self.distance == "mmd" and self.beta is None:
            raise ValueError(
                f"beta must be a finite number >= 0 for distance = {self.distance!r}, got None"
            )
        freeze(self, **checked)

    @property
    def long_name(self) -> str:
        """Words that say which distance this is."""
        is_wasserstein = self.distance == "wasserstein"
        name = f"Wasserstein distance W_{self.p:g}" if is_wasserstein else self.distance
        return f"{name} to {self.to if isinstance(self.to, str) else repr(self.to)}"

    @property
    def units(self) -> str:
        """Radian of a Wasserstein distance, which goes along the sphere; 1 of another."""
        return "radian" if self.distance == "wasserstein" else "1"

    def begin(
        self, start: AnyMeasure | None, calls: int
    ) -> Callable[[AnyMeasure], Distance | None]:
        """Make the function that a run calls at its saves, from its start or where it is resumed.

        Parameters
        ----------
        start : Density, FlowMap, Particles or None
            The first measure of the run; None if it is the next.
        calls : int
            How many saves there were.
        """
        return _Watch(self, start, calls)

    def __call__(self, measure: AnyMeasure) -> Distance | None:
        """The distance of one measure, None where there is no centre.

        Raises
        ------
        ValueError
            If `to` is 'start', which is known in a run alone.
        """
        if self.to == "start":
            raise ValueError(f"to must be no 'start' where no run began, got {self.to!r}")
        return _Watch(self, None, 0)(measure)


class _Watch:
    """A `DistanceTo` in a run; it knows the start and the number of calls, and makes laws measures.

    Parameters
    ----------
    monitor : DistanceTo
    start : Density, FlowMap, Particles or None
    calls : int
    """

    def __init__(self, monitor: DistanceTo, start: AnyMeasure | None, calls: int) -> None:
        self._monitor, self._start, self._calls = monitor, start, calls
        self._resolved: dict[bytes, AnyMeasure] = {}

    def __call__(self, measure: AnyMeasure) -> Distance | None:
        """The distance; None where there is no centre, and at calls that are not due."""
        monitor, is_due = self._monitor, self._calls % self._monitor.every == 0
        self._calls += 1
        if self._start is None:
            self._start = measure
        other = self._other(measure) if is_due else None
        if other is None:
            return None
        if monitor.distance == "mmd":
            value, error = mmd_with_error(measure, other, monitor.beta or 0.0, scaled=False)
            # a save that nodes do not resolve does not end a run: its distance is a bracket
            return Bracket(value, max(value - error, 0.0), value + error) if error else value
        if monitor.distance == "sobolev":
            return sobolev(measure, other, -1.0 if monitor.s is None else monitor.s)
        return wasserstein(measure, other, monitor.p, gap=monitor.gap)

    def _other(self, measure: AnyMeasure) -> AnyMeasure | None:
        """Return the measure to compare with, None if there is none yet."""
        to = self._monitor.to
        if to == "start":
            return self._start
        if to == "centre":
            return _centre(measure)
        if isinstance(to, Density | FlowMap | Particles):
            return to
        law = Uniform(measure.dim) if isinstance(to, str) else to
        if law.dim != measure.dim:
            raise ValueError(f"to must have dim = {measure.dim} as {measure} has, got {shown(law)}")
        axis = measure.axis
        place = b"" if axis is None else axis.tobytes()
        if place not in self._resolved:
            self._resolved[place] = _measure_of(law, axis)
        return self._resolved[place]


def _centre(measure: AnyMeasure) -> Particles | None:
    mean = measure.mean()
    length = float(np.linalg.norm(mean))
    return None if length < _SHORTEST_MEAN else Particles((mean / length)[None])


def _measure_of(law: Law, axis: Array | None) -> AnyMeasure:
    """Return a law as a measure to compare with one that may be symmetric about an axis.

    Flow maps hold laws of any sharpness; a series in many dimensions loses those of a few degrees.
    """
    if type(law) is PointCloud and not law.has_density:
        return Particles(law.points, law.weights)
    if axis is None and law.dim > 3:
        axis = symmetry_axis(law)
    if type(law) is Uniform:
        return Density(_smallest(law.dim, axis), law)
    if law.dim == 2:
        return FlowMap(law)
    law_axis = symmetry_axis(law)
    # a law that does not name its axis is tested for symmetry about this one by its values
    if axis is not None and (
        geometry.are_parallel(law_axis, axis) or (law_axis is None and law.dim > 3)
    ):
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
    """Return the law as a density on the smallest sphere, by doubling, that resolves it."""
    space = Sphere(_DEGREE)
    while True:
        coefficients = space.analysis(np.asarray(checked_pdf(law, space.points), dtype=np.float64))
        # a coarse grid that misses a narrow law altogether gives 0/0
        with np.errstate(invalid="ignore"):
            tail = spectral_tail(space.power(coefficients))
        if tail < _TAIL and abs(float(coefficients[0].real) - 1.0) < _MASS:
            return Density(space, law)
        if space.double().size > space.size_limit:
            raise ValueError(
                f"to must be a law that {space} resolves to a spectral tail < {_TAIL:g}, got "
                f"{shown(law)} with {_checks.tell_apart(tail, _TAIL)[0]}"
            )
        space = space.double()
