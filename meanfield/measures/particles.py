"""A measure of n weighted points, and of points of the circle with frequencies of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from meanfield import _checks
from meanfield.kernels import token_sums
from meanfield.kernels.direct import PairSums, Precision, log_moment
from meanfield.kernels.harmonics import SphereSums
from meanfield.kernels.kernel import Exponential, SmoothKernel
from meanfield.kernels.line import Line
from meanfield.kernels.sinkhorn import Balanced, point_sums
from meanfield.kernels.sums import NodeSums
from meanfield.laws.law import check_law
from meanfield.laws.quantisation import quantised_points
from meanfield.measures.measure import Measure
from meanfield.spaces import Harmonics
from meanfield.spaces.geometry import circle_angles, circle_points
from meanfield.typing import Array, ArrayLike, Coefficients, Drawable, Rng

SUMS = ("auto", "direct", "transforms", "gram", "float32")
# lengths |z| that differ by less than this share are one β
_ONE_LENGTH = 1e-14


class Particles(Measure):
    """The measure Σ_i w_i δ_{x_i} of n tokens on S^{d-1}.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Unit rows: within 1e-6, of less than double precision within its rounding; then normalised.
    weights : array_like, shape (n,), optional
        Non-negative, of sum 1 within 1e-8, or such rounding; equal if omitted.
    sums : {'auto', 'direct', 'transforms', 'gram', 'float32'}
        How sums over tokens are done. 'direct': over all pairs, in blocks, any d. 'transforms':
        in O(n), on the circle (β <= 100) and S^2, for the kernel e^{β<x,y>} and any kernel of an
        `Interaction`, and in runs for any heads (β |KᵀQ| <= 100, on S^2 128); elsewhere direct.
        'gram': a run moves coordinates in the span of the tokens, which their Gram matrix tells, of
        at most n dimensions whatever d is; for SA, USA and `Interaction` without noise only.
        'float32': over all pairs, in any d, with products in single precision and sums in double,
        where the kernel is e^{<z,y>}: about half the time in many dimensions, with a proven error
        of at most 1e-2, see `kernels.direct.float32_error`, often some 1e-7; elsewhere direct. Runs
        need rtol and atol >= 1e-6. 'auto' takes transforms where they take less time
        (`kernels.token_sums`), and the span in runs with n <= d/4, else direct sums.
    unit_mass : bool
        Whether weights are divided by their sum.

    Attributes
    ----------
    points : ndarray, shape (n, d)
    weights : ndarray, shape (n,)
    dim : int
    axis : None
        Tokens stand for no latitudes.
    sums : str

    Raises
    ------
    ValueError
        If points or weights are not of that kind, or there is no such way to sum.

    Examples
    --------
    >>> Particles([[1.0, 0.0], [0.0, 1.0]]).mean()
    array([0.5, 0.5])
    """

    _for_rooms = (
        *("first", "has_kernel_sums", "has_score_sums", "kernel_sums", "moved_to", "node_sums"),
        *("sums_at", "way_of_sums"),
    )

    has_density = False
    is_ordered = True

    def __init__(
        self,
        points: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        sums: str = "auto",
        unit_mass: bool = False,
    ) -> None:
        _checks.one_of("sums", sums, SUMS)
        self.sums = sums
        unit_points = _checks.unmasked("points", points)
        if unit_points.ndim == 1 and unit_points.size:
            raise ValueError(
                f"points must be unit rows (n, d), got shape {unit_points.shape}: of angles take "
                f"Particles.from_angles"
            )
        self.points = _checks.read_only(_checks.unit_rows("points", unit_points))
        masses = _checks.weights("weights", weights, len(self.points), unit_mass)
        self.weights = _checks.read_only(masses)
        self.dim = self.points.shape[1]

    @classmethod
    def from_angles(
        cls,
        angles: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        sums: str = "auto",
        unit_mass: bool = False,
    ) -> Particles:
        """Tokens on the circle at angles (n,) in radians.

        Raises
        ------
        ValueError
            If angles or weights are not of that kind, or there is no such way to sum.

        Warns
        -----
        UserWarning
            If an angle is beyond a turn and none has more than two decimals, as in degrees.

        Examples
        --------
        >>> Particles.from_angles([0.0, np.pi / 2]).mean().round(15)
        array([0.5, 0.5])
        """
        points = circle_points(_checks.angles("angles", angles))
        return cls._of_points(points, weights, sums, unit_mass)

    @classmethod
    def _of_points(
        cls, points: Array, weights: ArrayLike | None, sums: str, unit_mass: bool = False
    ) -> Particles:
        return cls(points, weights, sums=sums, unit_mass=unit_mass)

    @classmethod
    def sample(cls, law: Drawable, n: int, rng: Rng, *, sums: str = "auto") -> Particles:
        """n tokens drawn independently from a law, a `Density` or a `FlowMap`.

        Raises
        ------
        ValueError
            If law is none, n < 1 or rng is neither an integer >= 0 nor a numpy Generator.

        Examples
        --------
        >>> import meanfield as mf
        >>> tokens = mf.Particles.sample(mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), 400, rng=0)
        >>> tokens.dim, bool(np.linalg.norm(tokens.mean() - [0.0, 0.0, 0.8]) < 0.1)  # coth 5 - 1/5
        (3, True)
        """
        _check_no_tokens(law)
        if not isinstance(law, Measure):
            check_law("law", law, ": take Particles.sample(law, n, rng)")
        points = law.sample(_checks.integer("n", n, low=1), _checks.generator("rng", rng))
        return cls._of_points(points, None, sums)

    @classmethod
    def quantise(
        cls, law: Drawable, n: int, rng: Rng | None = None, *, sums: str = "auto"
    ) -> Particles:
        """n tokens with equal shares of the mass of a law or a measure, on the circle or S^2.

        Measures are a `Density` or a `FlowMap`. The tokens are nearer to the law than independent
        draws: see `laws.quantised_points`.

        Parameters
        ----------
        law : Law, Density or FlowMap
        n : int
        rng : int or numpy Generator, optional
            For a random shift of the lattice; without one it is fixed.
        sums : str

        Raises
        ------
        ValueError
            If the law lives elsewhere or has no density, n < 1, or rng is neither an integer >= 0
            nor a numpy Generator.

        Examples
        --------
        >>> import meanfield as mf
        >>> mf.Particles.quantise(mf.FourierSeries(cos=[0.5]), 400).mean().round(6)
        array([0.25, 0.  ])
        """
        _check_no_tokens(law)
        # a density, whose series may be negative, and a flow map have methods of their own
        quantise = getattr(law, "quantise", None)
        points = quantised_points(law, n, rng) if quantise is None else quantise(n, rng)
        return cls._of_points(points, None, sums)

    def __repr__(self) -> str:
        return f"Particles(n={len(self.points)}, dim={self.dim})"

    def moved_to(self, points: Array) -> Particles:
        """The same tokens at other unit rows (n, d)."""
        return Particles(points, self.weights, sums=self.sums)

    def first(self, masses: Array) -> Particles:
        """The first tokens, as many as there are masses, with these masses over their sum."""
        return Particles(self.points[: len(masses)], masses, sums=self.sums, unit_mass=True)

    @property
    def point_masses(self) -> tuple[Array, Array]:
        """The points (n, d) and weights (n,)."""
        return self.points, self.weights

    def is_about(self, axis: Array, within: float) -> bool:
        """Whether all tokens with mass lie on the axis, see `Measure.is_about`."""
        across = self.points - np.outer(self.points @ axis, axis)
        return bool(np.all(np.abs(across[self.weights > 0.0]) < within))

    def harmonic_moments(self, basis: Harmonics, multipliers: Array) -> tuple[Coefficients, float]:  # noqa: ARG002
        """Σ_i w_i conj(Y(x_i)) for all Y of the basis: see `Measure.moments`."""
        return basis.point_moments(self.points, self.weights), 0.0

    def log_moment_at(self, z: Array) -> tuple[Array, Array]:
        if not z.any():
            return np.zeros(len(z)), np.tile(self.mean(), (len(z), 1))
        fast = self.sums_at(z)
        if fast is None:
            return log_moment(self.points, self.weights, z, self._precision)
        directions = z / np.linalg.norm(z, axis=1)[:, None]
        log_g, mean = fast.log_moment(self.points, self.weights, directions)
        return log_g, mean

    def score_moment(self, points: Array, scores: Array) -> tuple[Array, Array]:
        """log G and ∇ log G at Mx for points x (m, d), M = `scores`, over many tokens in O(n)."""
        if not self.has_score_sums(scores, len(points)):
            return super().score_moment(points, scores)
        sums = token_sums.score_sums([scores])
        return sums.log_moments(self.points, self.weights, points)[0]

    @property
    def _precision(self) -> Precision:
        """Return the precision of sums of e^{<z,y>} over all pairs."""
        return np.float32 if self.sums == "float32" else np.float64

    def way_of_sums(self, is_fast: bool) -> str:
        """How sums of e^{<z,y>} are done, which are in O(n) or not."""
        if self.sums == "float32":
            return self.sums
        return "transforms" if is_fast else "direct"

    def sums_at(self, z: Array) -> token_sums.CircleSums | SphereSums | None:
        """The sums in O(n) that `log_moment` takes at rows z (m, d), None for direct sums."""
        lengths = np.linalg.norm(z, axis=1)
        beta = float(lengths.mean())
        if beta == 0.0 or np.ptp(lengths) > _ONE_LENGTH * beta:
            return None
        fewest = token_sums.fewest_pairs(beta, self.dim, once=True)
        return token_sums.moment_sums(beta, self.dim) if self._is_fast(fewest, len(z)) else None

    def has_kernel_sums(self, kernel: Exponential | SmoothKernel) -> bool:
        """Whether a run sums a kernel in O(n)."""
        return self._is_fast(token_sums.fewest_kernel_pairs(kernel, self.dim))

    def kernel_sums(self, kernel: Exponential | SmoothKernel) -> Any:
        """The sums in O(n) that a run takes of a kernel, None for direct sums."""
        return token_sums.kernel_sums(kernel, self.dim) if self.has_kernel_sums(kernel) else None

    def series_sums(self, kernel: SmoothKernel, targets: int) -> token_sums.SeriesSums | None:
        """Sums of a kernel over the tokens at so many points in O(n), None for direct sums."""
        fewest = token_sums.fewest_series_pairs(kernel, self.dim)
        return token_sums.series_sums(kernel, self.dim) if self._is_fast(fewest, targets) else None

    def has_score_sums(self, matrix: Array, targets: int | None = None) -> bool:
        """Whether sums of e^{<Mx,y>} for a matrix (d, d) are done in O(n).

        At the tokens, time and again, or once at so many targets.
        """
        fewest = token_sums.fewest_score_pairs(matrix, once=targets is not None)
        return self._is_fast(fewest, targets)

    def _is_fast(self, fewest: float, targets: int | None = None) -> bool:
        if fewest == np.inf or self.sums in ("direct", "gram", "float32"):
            return False
        pairs = len(self.points) * (len(self.points) if targets is None else targets)
        return self.sums == "transforms" or pairs >= fewest

    def node_sums(self, beta: float, tables: Line | SphereSums | None = None) -> NodeSums:
        """Sums over masses at the tokens, at the tokens, to be asked for many masses.

        With these tables of e^{βt}, if they are made already.
        """
        if tables is not None or self.has_kernel_sums(Exponential(beta)):
            return point_sums(self.points, beta, tables)
        return PairSums(self.points, beta)

    def balance(self, beta: float) -> Balanced:
        """The measure u mu with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1, in O(n) where sums are.

        Raises
        ------
        ValueError
            If β is negative or not finite.
        """
        beta = _checks.number("beta", beta, low=0)
        counted = self.weights > 0.0
        support = self
        if not counted.all():
            # at a token without mass u may overflow, and it scales nothing there
            support = Particles(self.points[counted], self.weights[counted], sums=self.sums)
        balanced = Balanced.of(support.points, support.weights, beta, support.node_sums(beta))
        return _BalancedTokens(balanced.points, balanced.masses, balanced.log_u, sums=self.sums)


@dataclass(frozen=True, eq=False)
class _BalancedTokens(Balanced):
    """Tokens with masses scaled by u, whose sums are computed in the way of the tokens."""

    sums: str = "auto"

    def log_moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """As of `Balanced`, in O(n) where sums over tokens are."""
        weighted, log_unit = self._weighted
        tokens = Particles(self.points, weighted, sums=self.sums, unit_mass=True)
        log_g, mean = tokens.log_moment(z)
        return log_g + (log_unit + float(np.log(weighted.sum()))), mean


class Oscillators(Particles):
    """Σ_i w_i δ_{(θ_i, ω_i)}: tokens on the circle, each with its natural frequency, (7.2).

    As `Particles` it is the measure of the θ_i, and its distances, clusters and energies are those.
    A run moves them by θ_i' = ω_i + X(θ_i), X of any dynamics; an output of your own gets the
    `Oscillators`, so that X may depend on the frequencies, too. Where these have heavy tails, take
    `rtol=1e-5`: see docs/howto/oscillators.md.

    Parameters
    ----------
    angles : array_like, shape (n,)
        θ_i in radians, reduced to [0, 2π).
    frequencies : array_like, shape (n,)
        ω_i.
    weights : array_like, shape (n,), optional
        Non-negative, of sum 1; equal if omitted.
    unit_mass : bool
        Whether weights are divided by their sum.

    Attributes
    ----------
    angles, frequencies : ndarray, shape (n,)
    points : ndarray, shape (n, 2)
    weights : ndarray, shape (n,)

    Raises
    ------
    ValueError
        If lengths differ or a value is not finite.

    Examples
    --------
    >>> Oscillators([0.0, np.pi / 2], frequencies=[-1.0, 1.0])
    Oscillators(n=2)
    """

    def __init__(
        self,
        angles: ArrayLike,
        frequencies: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        unit_mass: bool = False,
    ) -> None:
        turns = np.mod(_checks.real_array("angles", angles, 1), 2.0 * np.pi)
        # rounding turns an angle just below 0 into a whole turn
        turns[turns >= 2.0 * np.pi] = 0.0
        self.frequencies: Array = _checks.real_array("frequencies", frequencies, 1)
        self.natural_frequencies = _checks.read_only(self.frequencies)
        if self.frequencies.shape != turns.shape:
            raise ValueError(
                f"frequencies must have length {len(turns)}, one for each of angles, got "
                f"{len(self.frequencies)}"
            )
        super().__init__(circle_points(turns), weights, unit_mass=unit_mass)
        self.angles: Array = _checks.read_only(turns)

    def __repr__(self) -> str:
        return f"Oscillators(n={len(self.points)})"

    def moved_to(self, points: Array) -> Oscillators:
        return Oscillators(circle_angles(points), self.frequencies, self.weights)

    @classmethod
    def _of_points(cls, points: Array, *_: object) -> NoReturn:
        raise ValueError(
            f"law must be drawn from by Particles, whose angles to take, since it tells no "
            f"frequencies, got {len(points)} points"
        )


def _check_no_tokens(law: object) -> None:
    """Refuse tokens as a law, since they draw no points.

    Raises
    ------
    ValueError
        Saying how to draw from them.
    """
    if isinstance(law, Particles):
        raise ValueError(
            f"law must be a law, a Density or a FlowMap, got {_checks.shown(law)}: draw rows of "
            f"its points with the probabilities weights"
        )
