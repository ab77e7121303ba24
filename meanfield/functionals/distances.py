"""Distances of two measures as sums over harmonics: in the attention kernel, and in H^s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.polynomial import legendre
from scipy.special import gammaln

from meanfield._checks import boolean, number, tell_apart
from meanfield.dynamics.facts import LARGEST_LOG, multiplied_out
from meanfield.functionals.transport.quantiles import TURN, quantiles
from meanfield.kernels.direct import blocks
from meanfield.kernels.multipliers import bandwidth, eigenvalues_in_unit, scaled_eigenvalues
from meanfield.measures import AnyMeasure, Density, check_pair
from meanfield.spaces import CircleAt, Harmonics, SphereAt, ZonalAt
from meanfield.spaces.gegenbauer import multiplicities, zonal_sum
from meanfield.typing import Array

Kernel = Callable[[Array], Array]

# points nearer than this count as one
_COINCIDING = 1e-12
# tokens and coefficients within this of each other differ by rounding only
_ROUNDING = 1e-14
# beyond this degree the leading terms of N_k (k(k+d-2))^s are exact to rounding
_FAR = 1 << 17


def merged(points: Array, masses: Array) -> tuple[Array, Array]:
    """Distinct points (m, d) of n, and the sums of their masses, which may be of either sign."""
    if len(points) == 0:
        return points, masses
    # points are sorted along a direction in general position, where coinciding points are
    # neighbours
    order = np.argsort(points @ np.cos(1.0 + np.arange(points.shape[1]) ** 1.5), kind="stable")
    points, masses = points[order], masses[order]
    new = np.abs(np.diff(points, axis=0)).max(axis=1) > _COINCIDING
    group = np.concatenate([[0], np.cumsum(new)])
    starts = np.concatenate([[0], np.flatnonzero(new) + 1])
    return points[starts], np.asarray(np.bincount(group, masses), dtype=np.float64)


def pair_sum(points: Array, masses: Array, kernel: Kernel) -> float:
    """Σ_ij m_i m_j kernel(|x_i - x_j|²), in blocks of 2^21 pairs."""
    total = 0.0
    for part in blocks(len(points), len(points), 1 << 21):
        values = kernel(scipy.spatial.distance.cdist(points[part], points, "sqeuclidean"))
        total += float(masses[part] @ (values @ masses))
    return total


def attention_kernel(beta: float) -> Kernel:
    """e^{β(<x,y> - 1)} - 1 as a function of |x - y|², right relative to its own size."""
    return lambda squared: np.asarray(np.expm1(-0.5 * beta * squared))


def log_sobolev_terms(dim: int, s: float, k: Array) -> Array:
    """log of N_k (k(k+d-2))^s, k >= 1."""
    d = float(dim)
    log_n = np.log(2 * k + d - 2) + gammaln(k + d - 2) - gammaln(k + 1) - gammaln(d - 1)
    return np.asarray(log_n + s * np.log(k * (k + d - 2)))


def sobolev_tail(dim: int, s: float, kmax: int) -> float:
    """Σ_{k > kmax} N_k (k(k+d-2))^s, for s < -(d-1)/2: one Dirac's power past degree kmax.

    Past degree M = max(2^17, 2 kmax) the terms are u^p, p = d - 2 + 2s, u = k + d/2 - 1, but for a
    factor 1 + O(u^-2), and the midpoint rule turns their sum into an integral: the error is 1e-10
    d² of that remainder.

    Examples
    --------
    >>> sobolev_tail(2, -1.0, 1)  # 2 (π²/6 - 1)
    1.289868133696
    """
    far = max(_FAR, 2 * kmax)
    near_terms = np.exp(log_sobolev_terms(dim, s, np.arange(kmax + 1.0, far + 1.0))).sum()
    start = far + 0.5
    last_term = np.exp(log_sobolev_terms(dim, s, np.array(start)))
    return float(near_terms + last_term * (start + 0.5 * dim - 1.0) / -(dim - 1.0 + 2.0 * s))


def sobolev_kernel(dim: int, s: float, kmax: int) -> Kernel:
    """Σ_{1 <= k <= kmax} N_k (k(k+d-2))^s P_k as a function of |x - y|²."""
    terms = np.exp(log_sobolev_terms(dim, s, np.arange(1.0, kmax + 1.0)))
    return lambda squared: zonal_sum(dim, np.append(0.0, terms), 1.0 - 0.5 * squared)


# Gauss rules with so many nodes are exact to the last digit up to these lengths times the
# wavenumber
_WAVES_BELOW, _NODES = np.array([3e-4, 0.06, 1.2]), np.array([2, 4, 8, 16])
_LONGEST = 7.5
# a panel is cut into so many parts, and a part holds at most so many waves
_PARTS, _WAVES = 4, 5.0


@dataclass(frozen=True)
class Distribution:
    """F(θ) = mu of an arc up to θ, up to a constant: smooth between breaks.

    Attributes
    ----------
    breaks : ndarray, shape (m,)
        Angles in [0, 2π), ascending.
    wavenumbers : ndarray, shape (m,)
        Of F after each break (before the first, that of the last): 0 where it is constant.
    at : callable
        F at angles (n,) in [0, 2π).
    """

    breaks: Array
    wavenumbers: Array
    at: Callable[[Array], Array]


def sobolev_circle(mu: AnyMeasure, nu: AnyMeasure) -> float:
    """2π times the standard deviation over the circle of D = F_mu - F_nu.

    D has Fourier coefficients Δ_k/(2πik), hence Σ_{k≠0} |Δ_k|²/k² = (2π)² Var D. D² is integrated
    by Gauss nodes between the breaks of both, tokens or ends of panels: no series is cut.
    """
    first, second = distribution(mu), distribution(nu)
    breaks = np.concatenate([[0.0], first.breaks, second.breaks])
    starts = np.unique(breaks)
    lengths = np.diff(starts, append=TURN)
    waves = np.maximum(_after(first, starts), _after(second, starts)) * lengths
    angles, shares = _gauss(starts, lengths, waves)
    difference = first.at(angles) - second.at(angles)
    shares /= TURN
    difference -= shares @ difference
    return TURN * float(np.sqrt(shares @ difference**2))


def _after(distribution: Distribution, angles: Array) -> Array:
    # angles before the first break lie on the stretch of the last, whose index is -1
    return distribution.wavenumbers[np.searchsorted(distribution.breaks, angles, "right") - 1]


def _gauss(starts: Array, lengths: Array, waves: Array) -> tuple[Array, Array]:
    """Return Gauss nodes and weights on all intervals, as many as the waves in each require."""
    counts = np.where(waves == 0.0, 1, _NODES[np.searchsorted(_WAVES_BELOW, waves, "right")])
    angles, shares = [], []
    for count in np.unique(counts):
        chosen = counts == count
        nodes, weights = legendre.leggauss(count)
        half = 0.5 * lengths[chosen, None]
        angles.append((starts[chosen, None] + half * (1.0 + nodes)).ravel())
        shares.append((half * weights).ravel())
    return np.concatenate(angles), np.concatenate(shares)


def distribution(measure: AnyMeasure) -> Distribution:
    """The distribution function of a measure on the circle."""
    if isinstance(measure, Density):
        return _of_density(measure)
    quantile = quantiles(measure, None)
    if not quantile.is_smooth:
        return Distribution(quantile.angles, np.zeros(len(quantile.angles)), quantile.cumulative)
    # each piece is cut into parts; where parts meet they agree to rounding and to the tolerance
    pieces = np.arange(len(quantile.starts) - 1)
    cuts = np.linspace(-1.0, 1.0, _PARTS, endpoint=False)
    ends = quantile.angle(*np.broadcast_arrays(pieces[:, None], cuts)).ravel()
    edges = np.maximum.accumulate(ends)
    lengths = np.diff(edges, append=edges[0] + TURN)
    with np.errstate(divide="ignore"):
        waves = np.where(lengths > 0.0, _WAVES / lengths, 0.0)
    reduced = np.remainder(edges, TURN)
    order = np.argsort(reduced, kind="stable")
    return Distribution(reduced[order], waves[order], quantile.cumulative)


def _of_density(density: Density) -> Distribution:
    """Return θ/2π + Σ_{k≠0} f_k e^{ikθ}/(2πik)."""
    basis = CircleAt(density.space.kmax)
    coefficients, _ = density.harmonic_moments(basis, np.ones(basis.kmax + 1))
    waves = np.zeros_like(coefficients)
    waves[1:] = coefficients[1:] / (1j * basis.degrees[1:] * TURN)
    count = int(np.ceil(TURN * basis.kmax / _LONGEST)) + 1
    breaks = np.asarray(TURN / count * np.arange(count), dtype=np.float64)
    return Distribution(
        breaks, np.full(count, float(basis.kmax)), lambda a: a / TURN + basis.values(waves, a)
    )


# degrees that add less than this to a squared distance are lost in the rounding of the others
_NEGLIGIBLE = 1e-32
# the degrees of H^s norms of measures without a density: on the circle, on S^2, about one axis, and
# by pairs
_CIRCLE, _SPHERE, _AXIS, _PAIRS = (1 << 16) - 1, 1023, 2047, 255
# at most this share of a flow map's squared norm may lie beyond the last degree
_MISSING = 1e-10
# the nodes of a flow map may miss this much of an mmd: as a share of e^{β/2}, and of the mmd itself
_UNRESOLVED, _LARGEST_SHARE = 1e-6, 1e-3


def mmd(mu: AnyMeasure, nu: AnyMeasure, beta: float, *, scaled: bool = False) -> float:
    """(∬ e^{β<x,y>} dΔ dΔ)^{1/2} = (Σ_{k>=1} Λ_k |Δ_k|²)^{1/2}, Δ = mu - nu.

    The maximum mean discrepancy in the attention kernel, a metric for β > 0 (Proposition 3.4).
    mmd(mu, σ)² = 2β (E_β(mu) - E_β(σ)).

    Parameters
    ----------
    mu, nu : Density, FlowMap or Particles
        On one sphere S^{d-1}.
    beta : float
        Inverse temperature β >= 0; the distance vanishes at β = 0.
    scaled : bool
        Whether to return e^{-β/2} times it, which overflows for no β.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If β is negative or not finite, the dimensions differ, the distance is too large for
        float64, d >= 4 and the measures are symmetric about different axes, or β is so large in
        high dimension that the kernel's degrees have multiplicities beyond float64, or for the
        nodes of a flow map.

    Notes
    -----
    On the circle, on S^2 and for measures about one axis the moments are subtracted before they
    are squared, O(n): the error is 1e-14 e^{β/2}, and of a flow map some `tol` e^{β/2} more. Beyond
    the β of its run a flow map on S^2 may lack degrees: where they may be more than 1e-6 of e^{β/2}
    and more than a thousandth of the distance, that is refused; `compare` and `DistanceTo` give it
    with its error. In d >= 4 tokens are compared pair by pair, O(n²), with an error of 1e-8 times
    the spread |x - y| of the tokens, at most 1e-8 e^{β/2}.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> a, b = Particles([[1.0, 0.0]]), Particles([[0.0, 1.0]])
    >>> mmd(a, b, 2.0) ** 2  # 2 (e^2 - 1)
    12.77811219786
    """
    beta, scaled = number("beta", beta, low=0), boolean("scaled", scaled)
    value, error = mmd_with_error(mu, nu, beta, scaled=scaled)
    unit = 1.0 if scaled else multiplied_out(1.0, 0.5 * beta)
    if error > max(_UNRESOLVED * unit, _LARGEST_SHARE * value):
        raise ValueError(
            f"beta must be smaller for {mu} and {nu}, got {beta:g}: it takes degrees that the "
            f"nodes of a flow map do not resolve, so that the mmd is {value:.2e} up to "
            f"{error:.1e}; take a smaller `tol` of the flow map, or a Density"
        )
    return value


def mmd_with_error(
    mu: AnyMeasure, nu: AnyMeasure, beta: float, *, scaled: bool
) -> tuple[float, float]:
    """The mmd, and an estimate of what nodes of flow maps on S^2 make it lack.

    Raises
    ------
    ValueError
        As `mmd`, but for the nodes of a flow map.
    """
    check_pair(mu, nu)
    if beta == 0.0:
        return 0.0, 0.0
    kmax = _kernel_degree(mu, nu, beta)
    multipliers, log_unit = scaled_eigenvalues(beta, mu.dim, kmax), beta
    if len(_degrees(mu, nu)) == 2:
        multipliers, log_unit = eigenvalues_in_unit(beta, mu.dim, kmax)
    squared, missing = _difference(mu, nu, multipliers)
    if squared is None:
        # a constant is subtracted from the kernel, its value at x = y: no difference of measures
        # sees it
        offset = float(multipliers[0]) - 1.0
        squared = _by_pairs(mu, nu, multipliers, attention_kernel(beta), offset, 0.0)
    value, exponent = float(np.sqrt(squared)), 0.5 * (log_unit - beta if scaled else log_unit)
    if value > 0.0 and np.log(value) + exponent > LARGEST_LOG:
        raise ValueError(f"beta = {beta:g} makes the mmd overflow: ask for it with scaled=True")
    # a measure has a norm of at most e^{β/2}, and each of the two may miss this share of it
    error = multiplied_out(2.0 * float(np.sqrt(missing)), 0.0 if scaled else 0.5 * beta)
    return multiplied_out(value, exponent), error


def sobolev(mu: AnyMeasure, nu: AnyMeasure, s: float = -1.0) -> float:
    """(Σ_{k>=1} (k(k+d-2))^s |Δ_k|²)^{1/2}, Δ = mu - nu: the homogeneous norm of H^s(S^{d-1}).

    At s = -1 it is the dual of |∇φ|_{L²}, at s = 0 the L²(σ) distance of two densities.

    Parameters
    ----------
    mu, nu : Density, FlowMap or Particles
        On one sphere S^{d-1}.
    s : float
        Any for densities and flow maps without atoms. A Dirac lies in H^s for s < -(d-1)/2 only.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the dimensions differ, the distance is infinite, the nodes of a flow map are too coarse,
        or d >= 4 and the measures are symmetric about different axes.

    Notes
    -----
    Exact, to rounding, for two densities and, at s = -1, on the circle, where the norm is
    2π times the standard deviation of the difference of the distribution functions.
    Otherwise degrees end at K = 65535 on the circle, 1023 on S^2, 2047 about an axis, 255 in pairs;
    beyond it every atom counts as if it stood alone. Squared, that is off by up to about
    2 K^{2s}/sin(a/2) times m m' for two atoms at angle a on the circle; on S^2 by up to about
    1.6 K^{2s+1/2} sin(a)^{-1/2}/sin(a/2) times m m' (1e-10 for two Diracs at a = 1, s = -2), and
    for antipodes, where P_k = ±1, by 2 K^{2s+1} m m' (2e-9). So atoms nearer than 1/K seem apart,
    and distances of tokens below K^{s + (d-1)/2} n^{-1/2} can't be distinguished from it.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> a, b = Particles([[1.0, 0.0]]), Particles([[-1.0, 0.0]])
    >>> sobolev(a, b) / np.pi
    1.0
    """
    check_pair(mu, nu)
    s = number("s", s)
    _check_finite(mu, nu, s)
    if len(_degrees(mu, nu)) < 2 and mu.dim == 2 and s == -1.0:
        return sobolev_circle(mu, nu)
    kmax = _largest_degree(mu, nu)
    k = np.arange(1.0, kmax + 1)
    multipliers = np.concatenate([[0.0], (k * (k + mu.dim - 2)) ** s])
    squared, missing = _difference(mu, nu, multipliers)
    if missing > _MISSING:
        raise ValueError(
            f"s = {s:g} takes degrees beyond {kmax} for measures as concentrated as {mu} and {nu}: "
            f"take a smaller s"
        )
    points, masses = _signed_atoms(mu, nu)
    tail = sobolev_tail(mu.dim, s, kmax) if len(points) > 0 else 0.0
    if squared is None:
        kernel = sobolev_kernel(mu.dim, s, kmax)
        squared = _by_pairs(mu, nu, multipliers, kernel, 0.0, tail)
    else:
        squared += tail * float(masses @ masses)
    return float(np.sqrt(squared))


def _check_finite(mu: AnyMeasure, nu: AnyMeasure, s: float) -> None:
    bound = -0.5 * (mu.dim - 1)
    for name, measure in (("mu", mu), ("nu", nu)):
        if len(measure.point_masses[0]) > 0 and s >= bound:
            raise ValueError(
                f"s must be < -(d-1)/2 = {bound:g} for measures with atoms in d = {mu.dim}, since "
                f"their distance is infinite else, got s = "
                f"{tell_apart(s, bound)[0]} with {name} = {measure}"
            )


def _degrees(mu: AnyMeasure, nu: AnyMeasure) -> list[int]:
    """Return the degrees of the measures that are finite series."""
    return [measure.degree for measure in (mu, nu) if measure.degree is not None]


def common_basis(mu: AnyMeasure, nu: AnyMeasure, kmax: int) -> Harmonics | None:
    """Harmonics up to degree kmax that hold both measures; None if only their kernel does."""
    if mu.dim == 2:
        return CircleAt(kmax)
    for axis, other in (mu.axis, nu), (nu.axis, mu):
        if axis is not None and (other.is_about(axis, _ROUNDING) or other.is_uniform):
            return ZonalAt(axis, kmax)
    return SphereAt(kmax) if mu.dim == 3 else None


def _kernel_degree(mu: AnyMeasure, nu: AnyMeasure, beta: float) -> int:
    """Return the degree up to which moments of the measures are compared in the kernel."""
    degrees_known, has_basis = _degrees(mu, nu), common_basis(mu, nu, 1) is not None
    if len(degrees_known) == 2 or (degrees_known and not has_basis):
        # beyond the degree of the density only pairs of tokens count
        return max(degrees_known)
    kmax = bandwidth(beta, mu.dim, _NEGLIGIBLE)
    by_degrees = has_basis or mu.has_density or nu.has_density
    if by_degrees and _within_double(mu.dim, kmax) < kmax:
        raise ValueError(
            f"beta must be smaller in dim = {mu.dim} for {mu} and {nu}, got {beta:g}: its kernel "
            f"takes degrees up to {kmax}, whose multiplicities leave double precision"
        )
    return kmax


def _largest_degree(mu: AnyMeasure, nu: AnyMeasure) -> int:
    """Return the degree up to which the measures are compared in H^s."""
    degrees_known, basis = _degrees(mu, nu), common_basis(mu, nu, 1)
    if len(degrees_known) == 2:
        return max(degrees_known)
    if basis is None:
        return max([_within_double(mu.dim, _PAIRS), *degrees_known])
    if basis.axis is not None:
        return max([_within_double(mu.dim, _AXIS), *degrees_known])
    return max([_CIRCLE if mu.dim == 2 else _SPHERE, *degrees_known])


def _within_double(dim: int, kmax: int) -> int:
    """Return the largest degree up to kmax whose multiplicity is a finite double."""
    while True:
        try:
            multiplicities(dim, kmax)
        except ValueError:
            kmax //= 2
        else:
            return kmax


def _difference(mu: AnyMeasure, nu: AnyMeasure, multipliers: Array) -> tuple[float | None, float]:
    """Return Σ multipliers · |Δ_k|², None without a common basis; and what it misses."""
    basis = common_basis(mu, nu, len(multipliers) - 1)
    if basis is None:
        return None, 0.0
    of_mu, missing_mu = mu.harmonic_moments(basis, multipliers)
    of_nu, missing_nu = nu.harmonic_moments(basis, multipliers)
    power = basis.power(of_mu - of_nu)
    return float(multipliers[1:] @ power[1:]), max(missing_mu, missing_nu)


def _signed_atoms(mu: AnyMeasure, nu: AnyMeasure) -> tuple[Array, Array]:
    """Return the distinct points at which mu or nu has an atom, and the masses of mu - nu there."""
    (mu_points, masses), (nu_points, nu_masses) = mu.point_masses, nu.point_masses
    return merged(np.concatenate([mu_points, nu_points]), np.concatenate([masses, -nu_masses]))


def _by_pairs(
    mu: AnyMeasure, nu: AnyMeasure, multipliers: Array, kernel: Kernel, offset: float, tail: float
) -> float:
    """The squared distance in d >= 4 of tokens from other tokens, or from a measure with an axis.

    Σ_{k>=1} multipliers · power is that of the kernel less an offset, plus a tail on the diagonal.
    Of tokens beside an axis, what is symmetric about it is compared degree by degree.
    """
    points, masses = _signed_atoms(mu, nu)
    if not mu.has_density and not nu.has_density:
        pairs = pair_sum(points, masses, kernel) + tail * float(masses @ masses)
        return max(0.0, pairs)
    tokens, other = (nu, mu) if mu.has_density else (mu, nu)
    axis = other.axis
    if tokens.has_density or axis is None:
        raise ValueError(
            f"mu and nu must share an axis in d = {mu.dim}, or one of them be Particles, got {mu} "
            f"and {nu} with axes {mu.axis} and {nu.axis}"
        )
    basis = ZonalAt(axis, len(multipliers) - 1)
    token_moments, _ = tokens.harmonic_moments(basis, multipliers)
    theirs, _ = other.harmonic_moments(basis, multipliers)
    pairs = pair_sum(*tokens.point_masses, kernel) - offset
    pairs -= float(multipliers[1:] @ (token_moments**2)[1:])
    alone = float(multipliers[1:] @ ((token_moments - theirs) ** 2)[1:])
    return alone + max(0.0, pairs) + tail * float(masses @ masses)
