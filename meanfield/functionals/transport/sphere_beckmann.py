"""W_1 on S^2 by Beckmann's flow of least length, min ∫|m| dσ over div m = ρ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import fft

from meanfield.functionals.transport.bracket import ROUNDING, check_order
from meanfield.spaces.lattice import Lattice, cell_integrals, largest_corner
from meanfield.spaces.sphere import Sphere
from meanfield.spaces.sphere_fields import SphereFields
from meanfield.typing import Array, Coefficients

_RELAXATION = 1.6
# share of the gap at which the steps end; the proof takes the rest
_ENOUGH = 0.9
# threshold of the shrinkage over the mean of |ρ|
_THRESHOLD = 2.0
_STEPS = 50
_FEWEST_STEPS, _MOST_STEPS = 150, 800
# bounds that gained less than this share in the last steps need more degrees instead
_STALLED = 0.8
# smoothing times of the heat kernel, in units of 1/lmax²
# rows a degree of the lattice of a proof, for degrees up to these
_ROWS = ((255, 8), (np.inf, 4))
_SMOOTHING = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True)
class BeckmannFlow:
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


def beckmann_flow(difference: Coefficients, lmax: int, gap: float, largest: int) -> BeckmannFlow:
    """Bounds of sup ∫ φ ρ dσ = min ∫|m| dσ, φ 1-Lipschitz and div m + ρ = 0, |ρ| with total > 0.

    Douglas-Rachford splitting: the shrinkage of m at each point of the grid, and the projection
    onto div m + ρ = 0 by two transforms. A fixed point is m with the gradient of φ as its
    direction. From an iterate

    - m = -∇Δ^{-1}ρ + (turned gradient of the iterate's stream function) is a flow, its length is
      the upper bound;
    - φ over the largest |∇φ| is 1-Lipschitz, and ∫ φ ρ dσ the lower bound.

    Both are smoothed by the heat kernel, whose average over rotations makes no field longer: it
    takes away the ripples that truncation at lmax leaves, and the time that gives the best bound
    is taken. Degrees are doubled where more steps no longer help. The steps are watched by lengths
    and maxima on a grid; those of the result are proven, see `steepest_of` and `length_of`.

    Parameters
    ----------
    difference : ndarray
        Coefficients of ρ in the layout of Sphere(lmax), the first one 0.
    lmax : int
    gap : float
        (upper - lower)/upper that is asked for; the best bounds are returned if it is not reached.
    largest : int
        Largest degree of the flow.
    """
    best: BeckmannFlow | None = None
    while best is None or (best.upper - best.lower > gap * best.upper and 2 * lmax < largest):
        if best is not None:
            finer = Sphere(2 * lmax + 1)
            difference, lmax = Sphere(lmax).embed(difference, finer), finer.size
        found = _Splitting(Sphere(lmax), difference).solve(gap)
        best = found if best is None else _better(best, found)
    return best


def _better(one: BeckmannFlow, other: BeckmannFlow) -> BeckmannFlow:
    potential = max(one, other, key=lambda flow: flow.lower)
    upper = min(one.upper, other.upper)
    return BeckmannFlow(potential.lower, upper, potential.potential, potential.lmax)


class _Splitting:
    """The best bounds of the splitting so far, and their smoothing times."""

    def __init__(self, space: Sphere, difference: Coefficients) -> None:
        self._space, self._difference = space, difference
        self._fields = SphereFields(space)
        self._eigenvalues = np.maximum(space.degrees * (space.degrees + 1.0), 1.0)
        self._grid = SphereFields(Sphere(2 * space.size + 1), space.size)
        self._straight = self._grid.gradient(difference / self._eigenvalues)
        self.lower, self.upper = 0.0, np.inf
        self._potential = self._stream = np.zeros_like(difference)
        self._place_of_potential, self._place_of_stream = 2, 4

    def solve(self, gap: float) -> BeckmannFlow:
        """Steps until the bounds have the gap, or no longer come nearer."""
        threshold = _THRESHOLD * float(
            self._space.weights @ np.abs(self._space.synthesis(self._difference))
        )
        z = np.zeros((2, len(self._space.weights)))
        before = np.inf
        for step in range(1, _MOST_STEPS + 1):
            potential = self._fields.weak_divergence(z) - self._difference
            potential /= -self._eigenvalues
            potential[0] = 0.0
            correction = self._fields.gradient(potential)
            flow = z + correction
            aim = flow + correction
            length = np.hypot(aim[0], aim[1])
            aim *= np.maximum(1.0 - threshold / np.maximum(length, 1e-300), 0.0)
            z += _RELAXATION * (aim - flow)
            if step % _STEPS == 0:
                self._look(potential, flow)
                apart = self.upper - self.lower
                slow = apart > _STALLED * before and step >= _FEWEST_STEPS
                if apart <= _ENOUGH * gap * self.upper or slow:
                    break
                before = apart
        return self._proved()

    def _look(self, iterate: Coefficients, flow: Array) -> None:
        """Bounds from the iterate, at the last best smoothing times and their neighbours."""
        turning = self._fields.weak_divergence(np.stack([flow[1], -flow[0]]))
        turning /= self._eigenvalues
        turning[0] = 0.0
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
        """A series after the smoothing time at this place, and after those beside it."""
        near = range(max(place - 1, 0), min(place + 2, len(_SMOOTHING)))
        rate = self._eigenvalues / self._space.size**2
        return {k: np.asarray(np.exp(-_SMOOTHING[k] * rate) * coefficients) for k in near}

    def _drop(self, potential: Coefficients) -> float:
        """∫ φ ρ dσ."""
        return self._fields.inner(potential, self._difference)

    def _steepest(self, potential: Coefficients) -> float:
        gradient = self._grid.gradient(potential)
        return float(np.hypot(gradient[0], gradient[1]).max())

    def _length(self, stream: Coefficients) -> float:
        turned = self._grid.gradient(stream)
        along, across = self._straight[0] - turned[1], self._straight[1] + turned[0]
        return float(self._grid.space.weights @ np.hypot(along, across))

    def _proved(self) -> BeckmannFlow:
        """The best bounds, with what lies between the points of a grid."""
        potential, size = self._potential, self._space.size
        steepest = steepest_of(potential, size)
        upper = length_of(self._difference / self._eigenvalues, self._stream, size)
        # of sums in double precision
        lower = self._drop(potential) / steepest * (1.0 - ROUNDING) if steepest > 0.0 else 0.0
        check_order(lower, upper * (1.0 + ROUNDING))
        scaled = potential / max(steepest, 1e-300)
        return BeckmannFlow(lower, upper * (1.0 + ROUNDING), scaled, size)


def steepest_of(potential: Coefficients, lmax: int) -> float:
    """A bound of |∇φ| from above.

    |∇φ|² is a series of degree 2 lmax + 2. Within a cell it exceeds its corners by no more than
    Δ²/8 times -∂²/∂θ² - ∂²/∂φ² of it, where these are positive. They exceed theirs at the corners
    by the like, with fourth derivatives, which Bernstein's inequality bounds.
    """
    lattice, degree = _lattice(lmax), 2 * lmax + 2
    square = np.sum(lattice.gradient_at_corners(potential, lmax) ** 2, axis=0)
    wave = fft.rfft2(np.concatenate([square, np.roll(square[-2:0:-1], lattice.n, axis=1)]))
    along = 1j * fft.fftfreq(lattice.n_lon, 1.0 / lattice.n_lon)[:, None]
    across = 1j * np.arange(lattice.n + 1.0)

    def derivative(of_theta: int, of_phi: int) -> Array:
        """At the corners; the lattice, as a torus, has a Fourier series."""
        torus = fft.irfft2(
            wave * along**of_theta * across**of_phi, s=(2 * lattice.n, lattice.n_lon)
        )
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
    highest = within(square, *(np.maximum(second, 0.0) for second in seconds)).max()
    return float(np.sqrt(highest * (1.0 + ROUNDING)))


def length_of(straight: Coefficients, stream: Coefficients, lmax: int) -> float:
    """A bound of ∫|m| dσ from above, m = ∇a + turned ∇b.

    The mean of |m| over a cell is at most the root of the mean of |m|², a series of degree
    2 lmax + 2, whose means are known but for rounding.
    """
    square, degree = _square_of(straight, stream, lmax)
    lattice = _lattice(lmax)
    highest = lattice.overshoot(degree) * float(np.abs(lattice.at_corners(square, degree)).max())
    squares, error = cell_integrals(lattice, square, degree, highest)
    areas = 0.5 * -np.diff(np.cos(lattice.edges)) / lattice.n_lon
    return float(np.sum(np.sqrt(areas[:, None] * np.maximum(squares + error[:, None], 0.0))))


def _square_of(straight: Coefficients, stream: Coefficients, lmax: int) -> tuple[Coefficients, int]:
    """|∇a + turned ∇b|² as a series, and its degree."""
    space = Sphere(2 * lmax + 2)
    fields = SphereFields(space, lmax)
    gradient, turned = fields.gradient(straight), fields.gradient(stream)
    gradient[0] -= turned[1]
    gradient[1] += turned[0]
    return space.analysis(np.sum(gradient**2, axis=0)), space.size


def _lattice(lmax: int) -> Lattice:
    """The more rows a degree, the less lies between them; fewer where there are many degrees."""
    return Lattice((lmax + 1) * next(rows for most, rows in _ROWS if lmax <= most))
