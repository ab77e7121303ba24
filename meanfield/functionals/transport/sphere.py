"""W_1 and W_2 on S^2 without symmetry; W_1 of densities by Beckmann's flow of least length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import fft
from tqdm.auto import tqdm

from meanfield._checks import shown
from meanfield.functionals.transport import ON_SPHERE, ROUNDING, Bracket, check_order
from meanfield.functionals.transport.clouds import best_plan, pair_distances
from meanfield.functionals.transport.quantiles import check_mass
from meanfield.functionals.transport.semidiscrete import Semidiscrete, is_semidiscrete, rows_for
from meanfield.functionals.transport.sphere_dual import DualAscent, Minima, Potential, dual
from meanfield.functionals.transport.sphere_masses import (
    Cells,
    DensitySpread,
    Spread,
    cells_of,
    series,
    spread_of,
)
from meanfield.measures import AnyMeasure, Density
from meanfield.spaces import Sphere, SphereFields
from meanfield.spaces.lattice import Lattice, cell_integrals, largest_corner
from meanfield.typing import Array, Coefficients

_RELAXATION = 1.6
# the steps end at this share of the gap, and the proof takes the rest
_ENOUGH = 0.9
# the threshold of the shrinkage over the mean of |ρ|
_THRESHOLD = 2.0
_STEPS = 50
_FEWEST_STEPS, _MOST_STEPS = 100, 800
# if the last steps gained less than this share, more degrees are needed instead
_STALLED = 0.8
# the degree of the first splitting, and the rows for each degree of the lattices of proofs; a finer
# lattice follows if the first fails
_FIRST_LMAX, _ROWS_A_DEGREE = 31, (4, 6)
# the smoothing times of the heat kernel in units of 1/lmax²
_SMOOTHING = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


class BeckmannFlow(NamedTuple):
    """Bounds of W_1 and what proves them.

    Attributes
    ----------
    lower, upper : float
    potential : ndarray
        Coefficients of the 1-Lipschitz φ with ∫ φ ρ dσ = lower, in the layout of Sphere(lmax).
    lmax : int
    """

    lower: float
    upper: float
    potential: Coefficients
    lmax: int


def beckmann_flow(
    difference: Coefficients,
    lmax: int,
    gap: float,
    largest: int,
    budget: int | None = None,
    progress: bool = False,
) -> BeckmannFlow:
    """Bounds of sup ∫ φ ρ dσ = min ∫|m| dσ, φ 1-Lipschitz and div m + ρ = 0, |ρ| with total > 0.

    Douglas-Rachford splitting: the shrinkage of m at each point of the grid, and the projection
    onto div m + ρ = 0 by two transforms. A fixed point is m with the gradient of φ as its
    direction. From an iterate

    - m = -∇Δ^{-1}ρ + (turned gradient of the iterate's stream function) is a flow, its length is
      the upper bound;
    - φ over the largest |∇φ| is 1-Lipschitz, and ∫ φ ρ dσ the lower bound.

    Both are smoothed by the heat kernel, whose average over rotations makes no field longer: it
    takes away the ripples that truncation leaves, and the time that gives the best bound is taken.
    Degrees are few at first, and doubled where more steps no longer help; the splitting goes on
    from the one before. φ does not see the degrees of ρ beyond its own, and -∇Δ^{-1} of these is
    a flow no longer than its root mean square. The steps are watched by lengths and maxima on a
    grid; those of the result are proven, see `steepest_of` and `length_of`.

    Parameters
    ----------
    difference : ndarray
        Coefficients of ρ in the layout of Sphere(lmax), the first one 0.
    lmax : int
    gap : float
        (upper - lower)/upper that is asked for; the best bounds are returned if it is not reached.
    largest : int
        Largest degree of the flow, but for that of ρ if it is larger.
    budget : int, optional
        The most times that degrees are tried.
    progress : bool
        Whether to show these.
    """
    space, degrees = Sphere(lmax), np.arange(1.0, lmax + 1.0)
    squares = space.power(difference)[1:] / (degrees * (degrees + 1.0))
    sizes = [_FIRST_LMAX]
    while sizes[-1] < max(lmax, largest):
        sizes.append(2 * sizes[-1] + 1)
    # a degree that misses most of ρ is not tried
    sizes = [size for size in sizes if 2.0 * squares[size:].sum() <= squares.sum()]
    best = BeckmannFlow(-np.inf, np.inf, difference, lmax)
    tries, coarser = attempts(sizes, budget, progress), None
    for size in tries:
        splitting = _Splitting(size, space.embed(difference, Sphere(size)), coarser)
        flow, coarser = splitting.solve(gap), splitting
        beyond = float(np.sqrt(squares[size:].sum())) * (1.0 + ROUNDING)
        upper = min(best.upper, flow.upper + beyond)
        best = max(best, flow, key=lambda each: each.lower)._replace(upper=upper)
        check_order(best.lower, best.upper)
        show_ends(tries, best.lower, best.upper)
        if best.upper - best.lower <= gap * best.upper:
            break
    return best


class _Splitting:
    """The best bounds of the splitting so far, and their smoothing times.

    Parameters
    ----------
    lmax : int
    difference : ndarray
        Coefficients of ρ in the layout of Sphere(lmax).
    coarser : _Splitting or None
        One with fewer degrees, from whose last iterate this one starts.
    """

    def __init__(self, lmax: int, difference: Coefficients, coarser: _Splitting | None) -> None:
        space = self._space = Sphere(lmax)
        self._difference, self._fields = difference, SphereFields(space)
        self._eigenvalues = np.maximum(space.degrees * (space.degrees + 1.0), 1.0)
        self._grid = SphereFields(Sphere(2 * lmax + 1), lmax)
        self._straight = self._grid.gradient(difference / self._eigenvalues)
        self.lower, self.upper = 0.0, np.inf
        self._potential = self._stream = np.zeros_like(difference)
        self._place_of_potential, self._place_of_stream = 2, 4
        if coarser is None:
            density = np.abs(space.synthesis(difference))
            self._threshold = _THRESHOLD * float(space.weights @ density)
            self._last = [self._potential, self._stream]
        else:
            self._threshold = coarser._threshold
            self._last = [coarser._space.embed(each, space) for each in coarser._last]

    def solve(self, gap: float) -> BeckmannFlow:
        """Steps until the bounds have the gap, or no longer come nearer."""
        potential, stream = self._last
        # at a fixed point this is the flow minus ∇φ
        z = self._fields.gradient(self._difference / self._eigenvalues - potential)
        curl = self._fields.gradient(stream)
        z += np.stack([-curl[1], curl[0]])
        last_gap = np.inf
        for step in range(1, _MOST_STEPS + 1):
            potential = self._fields.weak_divergence(z) - self._difference
            potential /= -self._eigenvalues
            potential[0] = 0.0
            correction = self._fields.gradient(potential)
            flow = z + correction
            aim = flow + correction
            length = np.hypot(aim[0], aim[1])
            aim *= np.maximum(1.0 - self._threshold / np.maximum(length, 1e-300), 0.0)
            z += _RELAXATION * (aim - flow)
            if step % _STEPS == 0:
                self._look(potential, flow)
                gap_now = self.upper - self.lower
                slow = gap_now > _STALLED * last_gap and step >= _FEWEST_STEPS
                if gap_now <= _ENOUGH * gap * self.upper or slow:
                    break
                last_gap = gap_now
        return self._proved(gap)

    def _look(self, iterate: Coefficients, flow: Array) -> None:
        """Compute bounds from the iterate at the last best smoothing times and their neighbours."""
        turning = self._fields.weak_divergence(np.stack([flow[1], -flow[0]]))
        turning /= self._eigenvalues
        turning[0] = 0.0
        self._last = [iterate, turning]
        potentials = self._smooth(iterate, self._place_of_potential)
        drops = {k: self._drop(each) / self._steepest(each) for k, each in potentials.items()}
        streams = self._smooth(turning, self._place_of_stream)
        lengths = {k: self._length(each) for k, each in streams.items()}
        low = self._place_of_potential = max(drops, key=drops.__getitem__)
        high = self._place_of_stream = min(lengths, key=lengths.__getitem__)
        if drops[low] > self.lower:
            self.lower, self._potential = drops[low], potentials[low]
        if lengths[high] < self.upper:
            self.upper, self._stream = lengths[high], streams[high]

    def _smooth(self, coefficients: Coefficients, place: int) -> dict[int, Coefficients]:
        """Return a series after the smoothing time of this index and after those beside it."""
        indexes = range(max(place - 1, 0), min(place + 2, len(_SMOOTHING)))
        rate = self._eigenvalues / self._space.size**2
        return {k: np.asarray(np.exp(-_SMOOTHING[k] * rate) * coefficients) for k in indexes}

    def _drop(self, potential: Coefficients) -> float:
        """Return ∫ φ ρ dσ."""
        return self._fields.inner(potential, self._difference)

    def _steepest(self, potential: Coefficients) -> float:
        gradient = self._grid.gradient(potential)
        return float(np.hypot(gradient[0], gradient[1]).max())

    def _length(self, stream: Coefficients) -> float:
        curl = self._grid.gradient(stream)
        along, across = self._straight[0] - curl[1], self._straight[1] + curl[0]
        return float(self._grid.space.weights @ np.hypot(along, across))

    def _proved(self, gap: float) -> BeckmannFlow:
        """Return the best bounds, proved also between the points of a grid."""
        potential, size = self._potential, self._space.size
        straight, drop = self._difference / self._eigenvalues, self._drop(potential)
        for rows_a_degree in _ROWS_A_DEGREE:
            lattice = Lattice(rows_a_degree * (size + 1))
            steepest = steepest_of(potential, size, lattice)
            upper = length_of(straight, self._stream, size, lattice) * (1.0 + ROUNDING)
            # the bound is lowered by the rounding error of sums
            lower = drop / steepest * (1.0 - ROUNDING) if steepest > 0.0 else 0.0
            if self.upper - self.lower > gap * self.upper or upper - lower <= gap * upper:
                break
        check_order(lower, upper)
        return BeckmannFlow(lower, upper, potential / max(steepest, 1e-300), size)


def steepest_of(potential: Coefficients, lmax: int, lattice: Lattice) -> float:
    """A bound of |∇φ| from above.

    |∇φ|² is a series of degree 2 lmax + 2. Within a cell it exceeds its corners by no more than
    Δ²/8 times -∂²/∂θ² - ∂²/∂φ² of it, where these are positive. They exceed theirs at the corners
    by the like, with fourth derivatives, which Bernstein's inequality bounds.
    """
    degree = 2 * lmax + 2
    square = np.sum(lattice.gradient_at_corners(potential, lmax) ** 2, axis=0)
    wave = fft.rfft2(np.concatenate([square, np.roll(square[-2:0:-1], lattice.n, axis=1)]))
    along = 1j * fft.fftfreq(lattice.n_lon, 1.0 / lattice.n_lon)[:, None]
    across = 1j * np.arange(lattice.n + 1.0)

    def derivative(of_theta: int, of_phi: int) -> Array:
        """At the corners; the lattice, as a torus, has a Fourier series."""
        modes = wave * along**of_theta * across**of_phi
        torus = fft.irfft2(modes, s=(2 * lattice.n, lattice.n_lon))
        return np.asarray(torus[: lattice.n + 1])

    def within(values: Array, *seconds: Array) -> Array:
        """The largest value in each cell, from corners and second derivatives in cells."""
        return largest_corner(values) + lattice.step**2 / 8.0 * sum(seconds)

    share = 0.25 * (degree * lattice.step) ** 2 * lattice.overshoot(degree)
    fourth = {}
    for of_theta in (4, 2, 0):
        size = np.abs(derivative(of_theta, 4 - of_theta))
        fourth[of_theta] = largest_corner(size) + share * size.max()
    seconds = [
        within(-derivative(2, 0), fourth[4], fourth[2]),
        within(-derivative(0, 2), fourth[2], fourth[0]),
    ]
    highest = within(square, *(np.maximum(hessian, 0.0) for hessian in seconds)).max()
    return float(np.sqrt(highest * (1.0 + ROUNDING)))


def length_of(straight: Coefficients, stream: Coefficients, lmax: int, lattice: Lattice) -> float:
    """A bound of ∫|m| dσ from above, m = ∇a + turned ∇b.

    The mean of |m| over a cell is at most the root of the mean of |m|², a series of degree
    2 lmax + 2, whose means are known but for rounding.
    """
    degree = 2 * lmax + 2
    space = Sphere(degree)
    fields = SphereFields(space, lmax)
    flow, curl = fields.gradient(straight), fields.gradient(stream)
    flow[0] -= curl[1]
    flow[1] += curl[0]
    square = space.analysis(np.sum(flow**2, axis=0))
    highest = lattice.overshoot(degree) * float(np.abs(lattice.at_corners(square, degree)).max())
    squares, error = cell_integrals(lattice, square, degree, highest)
    areas = 0.5 * -np.diff(np.cos(lattice.edges)) / lattice.n_lon
    return float(np.sum(np.sqrt(areas[:, None] * np.maximum(squares + error[:, None], 0.0))))


def cells_cost(mu: Cells, nu: Cells, p: float) -> float:
    """A bound of ∫ dist^p dπ for the best plan π between measures in cells, 1 <= p <= 2.

    Masses of two cells are paired without regard to where they are in them. The square of the
    distance has second derivatives of at most 2 on a sphere, and first ones that cancel at the
    Riemannian centre of mass, so the mean of dist² is at most its value at the centres plus
    both spreads; for p < 2 by Jensen's inequality. The total masses must be equal.
    """
    squares = pair_distances(mu.centres, nu.centres) ** 2 + mu.spreads[:, None] + nu.spreads
    total = float(mu.masses.sum())
    costs = (squares / np.pi**2) ** (0.5 * p)
    plan = best_plan(mu.masses / total, nu.masses / float(nu.masses.sum()), costs)
    return float(total * plan.upper * np.pi**p)


# the slack of a point at its own target is below this, by rounding
_IN_CONTACT = 1e-8


def map_cost(mu: Spread, nu: Spread, potential: Potential, cells: int) -> float:
    """An estimate of ∫ dist² dπ for the plan of S(x) = exp_x(-∇φ(x)) and its inverse T.

    By the change of variables, S takes the mass min(f, g(S) |det DS|) of mu to nu's points; what
    is left of both goes by a plan between cells. It is computed twice, by quadrature over
    mu's points and over nu's, and widened by what the two differ, in cost and in the mass that is
    left. That is no proof: it may miss what both quadratures miss.

    Parameters
    ----------
    mu, nu : Spread
        With densities f and g.
    potential : Potential
    cells : int
        Cells of what is left.
    """
    at_nu = potential.minima(nu.points)
    moved_mu, distance_mu = _kept_by_mu(mu, nu, potential)
    moved_nu = nu.masses * _kept_by_nu(mu, nu, at_nu)
    left_mu, left_nu = mu.masses - moved_mu, nu.masses - moved_nu
    left = 0.0
    if left_mu.any() and left_nu.any():
        first, second = cells_of(mu.points, left_mu, cells), cells_of(nu.points, left_nu, cells)
        left = cells_cost(first, second, 2.0) / float(left_mu.sum())
    by_mu = float(moved_mu @ distance_mu**2 + left * left_mu.sum())
    by_nu = float(moved_nu @ at_nu.slack.distance**2 + left * left_nu.sum())
    unsure = abs(by_mu - by_nu) + 2.0 * left * abs(float(left_mu.sum() - left_nu.sum()))
    return max(by_mu, by_nu) + unsure


def _kept_by_nu(mu: Spread, nu: Spread, at_nu: Minima) -> Array:
    """Return min(1, f(T y) / (g(y) |det DS(T y)|)), the share of mass at y that S brings there."""
    slack = at_nu.slack
    brought = nu.density(nu.points) * slack.jacobian
    safe = np.where(at_nu.converged & (brought > 0.0), brought, np.inf)
    return np.asarray(np.minimum(mu.density(at_nu.sources) / safe, 1.0))


def _kept_by_mu(mu: Spread, nu: Spread, potential: Potential) -> tuple[Array, Array]:
    """Return the masses at mu's points that the map S moves onto nu, and the distances moved."""
    targets, slack = potential.map(mu.points)
    density = mu.density(mu.points)
    brought = nu.density(targets) * slack.jacobian
    share = np.minimum(brought / np.maximum(density, 1e-300), 1.0)
    share[(slack.least_curvature <= 0.0) | (slack.distance >= np.pi)] = 0.0
    # S may bring mass of two places to one place, and only that with the least slack counts
    with_share = np.flatnonzero(share > 0.0)
    excess = 0.5 * slack.distance[with_share] ** 2 - potential.values(mu.points[with_share])
    share[with_share[excess - potential.minima(targets[with_share]).values > _IN_CONTACT]] = 0.0
    return mu.masses * share, slack.distance


_LARGEST_LMAX = 511
# tokens have moments of all degrees; their W_1 is bounded by a potential of this degree
_LMAX_OF_TOKENS = 127
Attempt = tuple[int, int, int]
# the degree of the potential, the most steps and the most cells of each attempt at W_2
_ATTEMPTS = ((31, 80, 700), (31, 120, 2500), (63, 150, 4000))
# the rows of the lattices on which c-transforms are bounded; the next is taken if one fails
_ROWS = (64, 128, 256)
# the tolerance of c-transforms over the gap of W_2²
_SHARE = 0.02
_MOST_TARGETS = 8_000
_LARGEST_DENSITY = 1023
_ROUNDING = 1e-13


T = TypeVar("T")


def attempts(given: Sequence[T], budget: int | None, progress: bool) -> tqdm[T]:
    """The attempts of a solver, each larger than the last, for which a budget has room."""
    return tqdm(given[:budget], desc="wasserstein", unit="attempt", disable=not progress)


def show_ends(tries: tqdm[T], lower: float, upper: float) -> None:
    """Both ends of a bracket beside the bar of attempts."""
    tries.set_postfix_str(f"between {lower:.5g} and {upper:.5g}")


def sphere_distance(
    mu: AnyMeasure,
    nu: AnyMeasure,
    p: float,
    gap: float | None,
    budget: int | None = None,
    progress: bool = False,
    least_gap: float = 0.0,
) -> Bracket:
    """Bounds of W_1 or W_2 between measures with dim = 3, at best (upper - lower)/upper <= gap.

    A gap below `least_gap` is not looked for.

    W_1 of densities comes from Beckmann's flow, and a distance between tokens and a density from a
    weight for each token, unless they are too many or too far apart. Otherwise the upper bound is a
    plan between cells or, for densities, a potential's map, and the lower one the dual functional
    of a potential.

    Raises
    ------
    ValueError
        If p is neither 1 nor 2, or POT is needed and not installed.
    """
    if p not in ON_SPHERE:
        raise ValueError(
            f"p must be 1 or 2 for measures on S^2 without a shared axis, unless both are "
            f"Particles with at most 2^26 pairs; got p = {p:g}"
        )
    narrow = max(ON_SPHERE[p] if gap is None else gap, least_gap)
    for measure in mu, nu:
        if (measure.degree or 0) > _LARGEST_DENSITY:
            raise ValueError(
                f"mu and nu must have degrees <= {_LARGEST_DENSITY} on S^2 without a shared axis, "
                f"got {shown(measure)}"
            )
    if isinstance(mu, Density) and isinstance(nu, Density):
        for density in mu, nu:
            check_mass(density, float(density.coefficients[0].real))
        rounding_distance = _flow_of_rounding(mu, nu)
        if rounding_distance is not None:
            upper = rounding_distance if p == 1.0 else float(np.sqrt(np.pi * rounding_distance))
            return Bracket(0.0, 0.0, upper, proved=True)
        if p == 1.0:
            flow = beckmann_flow(*_difference(mu, nu), narrow, _LARGEST_LMAX, budget, progress)
            # flows are more accurate than potentials, whose error is of first order in the kinks
            # that they smooth
            return Bracket(flow.upper, flow.lower, flow.upper, proved=True)
    first, second = spread_of(mu), spread_of(nu)
    for tokens, smooth in (first, second), (second, first):
        if isinstance(smooth, DensitySpread) and is_semidiscrete(tokens, smooth):
            wanted = ON_SPHERE[2.0] if gap is None else gap
            solver = Semidiscrete(tokens, smooth, p, wanted)
            lattices = attempts(rows_for(smooth), budget, progress)
            for rows in lattices:
                bracket = solver.refine(rows)
                show_ends(lattices, bracket.lower, bracket.upper)
                if bracket.lower >= (1.0 - wanted) * bracket.upper:
                    break
            return bracket
    tries = attempts(_ATTEMPTS, budget, progress)
    return (_first_power if p == 1.0 else _second_power)(first, second, narrow, tries)


def _difference(mu: Density, nu: Density) -> tuple[Coefficients, int]:
    """Return the coefficients of mu - nu in the layout of Sphere(lmax), and lmax.

    Both have mass 1.
    """
    lmax = max(_FIRST_LMAX, mu.degree, nu.degree)
    difference = series(mu, lmax) - series(nu, lmax)
    difference[0] = 0.0
    return difference, lmax


def _flow_of_rounding(mu: Density, nu: Density) -> float | None:
    """(∫|∇Δ^{-1}ρ|² dσ)^{1/2} >= W_1 >= W_2²/π if it is rounding of the coefficients, else None."""
    difference, lmax = _difference(mu, nu)
    power, degrees = Sphere(lmax).power(difference), np.arange(1, lmax + 1)
    length = float(np.sqrt(np.sum(power[1:] / (degrees * (degrees + 1.0)))))
    return length if length <= _ROUNDING else None


def _first_power(first: Spread, second: Spread, gap: float, tries: tqdm[Attempt]) -> Bracket:
    space = Sphere(_LMAX_OF_TOKENS)
    difference = first.moments(space.size) - second.moments(space.size)
    difference[0] = 0.0
    heat = np.exp(-2.0 * space.degrees * (space.degrees + 1.0) / space.size**2)
    flow = beckmann_flow(heat * difference, space.size, max(gap, ON_SPHERE[1.0]), space.size)
    # φ is a series, so moments give its mean under tokens, too
    potential = Sphere(flow.lmax).embed(flow.potential, space)
    lower = SphereFields(space).inner(potential, difference)
    lower = max(lower - _ROUNDING - 2.0 * np.pi * (first.negative + second.negative), 0.0)
    upper = np.inf
    for _, _, cells in tries:
        upper = min(upper, _between_cells(first, second, cells, 1.0))
        show_ends(tries, lower, upper)
        if lower >= (1.0 - gap) * upper:
            break
    check_order(lower, upper)
    return Bracket(0.5 * (lower + upper), lower, upper, proved=True)


def _second_power(first: Spread, second: Spread, gap: float, tries: tqdm[Attempt]) -> Bracket:
    # the potential of the more concentrated measure has fewer kinks
    if first.concentration < second.concentration:
        first, second = second, first
    # all four numbers are bounds or estimates of W_2²
    lower, best, upper, by_map = 0.0, 0.0, np.inf, np.inf
    both_have_densities = first.has_density and second.has_density
    targets, masses = second.gathered(_MOST_TARGETS)
    ascent = DualAscent(first, targets, masses, _ATTEMPTS[0][0])
    coefficients = np.zeros(len(Sphere(ascent.lmax).degrees), dtype=np.complex128)
    for degree, steps, cells in tries:
        if degree != ascent.lmax:
            coefficients = Sphere(ascent.lmax).embed(coefficients, Sphere(degree))
            ascent = DualAscent(first, targets, masses, degree)
        upper = min(upper, _between_cells(first, second, cells, 2.0))
        coefficients = ascent.climb(coefficients, steps, 0.5 * upper)
        potential = Potential(degree, coefficients)
        for rows in _ROWS:
            bound, estimate = dual(first, second, potential, _SHARE * gap * upper, rows)
            lower, best = max(lower, 2.0 * bound), max(best, 2.0 * estimate)
            check_order(lower, upper)
            if rows == _ROWS[0] and not _close(best, upper, gap) and both_have_densities:
                cost = map_cost(first, second, potential, cells)
                # no plan costs less than the dual, unless its quadrature fails
                by_map = min(by_map, cost if cost >= lower else np.inf)
            # a lattice with more rows moves the bound towards the estimate
            least = min(upper, by_map)
            if _close(lower, least, gap) or not (second.has_density and _close(best, least, gap)):
                break
        show_ends(tries, *np.sqrt([max(lower, 0.0), min(upper, by_map)]))
        if _close(lower, min(upper, by_map), gap):
            break
    proved = upper <= by_map or _close(lower, upper, gap)
    low, high = (float(np.sqrt(max(end, 0.0))) for end in (lower, upper if proved else by_map))
    # the error of the dual functional is of second order in the potential, that of plans of first
    # order
    return Bracket(float(np.clip(np.sqrt(max(best, 0.0)), low, high)), low, high, proved)


def _between_cells(first: Spread, second: Spread, most: int, p: float) -> float:
    """A bound of W_p^p from above: the cost of a plan between cells, and of the mass elsewhere."""
    cost = cells_cost(first.cells(most), second.cells(most), p)
    return float((1.0 + _ROUNDING) * cost + (first.lost + second.lost) * np.pi**p)


def _close(lower: float, upper: float, gap: float) -> bool:
    """Return whether the square roots are within the gap."""
    return bool(np.sqrt(max(lower, 0.0)) >= (1.0 - gap) * np.sqrt(upper))
