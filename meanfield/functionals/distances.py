"""Distances of two measures as sums over harmonics: in the attention kernel, and in H^s."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import boolean, number, shown, tell_apart
from meanfield.functionals.atoms import (
    Kernel,
    attention_kernel,
    merged,
    pair_sum,
    sobolev_kernel,
    sobolev_tail,
)
from meanfield.functionals.circle_cdf import sobolev_circle
from meanfield.functionals.energies import unscaled
from meanfield.functionals.moments import atoms_of, common_basis, moments
from meanfield.harmonics import (
    bandwidth,
    eigenvalues_in_unit,
    multiplicities,
    scaled_eigenvalues,
)
from meanfield.measures import AnyMeasure, Density, Particles, check_measure
from meanfield.spaces.zonal_at import ZonalAt

Array = NDArray[np.float64]

# degrees that add less than this to a squared distance are less than rounding of the others
_NEGLIGIBLE = 1e-32
# degrees of H^s norms of measures that are no densities: circle, S^2, series about one axis, pairs
_CIRCLE, _SPHERE, _AXIS, _PAIRS = (1 << 16) - 1, 1023, 2047, 255
# share of a flow map's squared norm that may lie beyond the last degree
_MISSING = 1e-10


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
        high dimension that the kernel's degrees have multiplicities beyond float64.

    Notes
    -----
    On the circle, on S^2 and for measures about one axis the moments are subtracted before they
    are squared, O(n): the error is 1e-14 e^{β/2}. In d >= 4 tokens are compared pair by pair,
    O(n²), with an error of 1e-8 times the spread |x - y| of the tokens, at most 1e-8 e^{β/2}.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> a, b = Particles([[1.0, 0.0]]), Particles([[0.0, 1.0]])
    >>> mmd(a, b, 2.0) ** 2  # 2 (e^2 - 1)
    12.77811219786
    """
    _check(mu, nu)
    beta, scaled = number("beta", beta, low=0), boolean("scaled", scaled)
    if beta == 0.0:
        return 0.0
    kmax = _density_degree(mu, nu) or _kernel_degree(mu, nu, beta)
    multipliers, log_unit = scaled_eigenvalues(beta, mu.dim, kmax), beta
    if isinstance(mu, Density) and isinstance(nu, Density):
        multipliers, log_unit = eigenvalues_in_unit(beta, mu.dim, kmax)
    squared, _ = _difference(mu, nu, multipliers)
    if squared is None:
        # less its value at x = y, which no difference of measures sees
        offset = float(multipliers[0]) - 1.0
        kernel = attention_kernel(beta)
        squared = _by_pairs(mu, nu, multipliers, kernel, offset, 0.0)
    return unscaled("mmd", float(np.sqrt(squared)), log_unit, beta, scaled, power=0.5)


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
        If the dimensions differ, the distance is infinite, the nodes of a flow map don't tell it,
        or d >= 4 and the measures are symmetric about different axes.

    Notes
    -----
    Exact, but for rounding, for two densities and, at s = -1, on the circle, where the norm is
    2π times the standard deviation of the difference of the distribution functions.
    Otherwise degrees end at K = 65535 on the circle, 1023 on S^2, 2047 about an axis, 255 in pairs;
    beyond it every atom counts as if it stood alone. Squared, that is off by up to about
    2 K^{2s}/sin(a/2) times m m' for two atoms at angle a on the circle; on S^2 by up to about
    1.6 K^{2s+1/2} sin(a)^{-1/2}/sin(a/2) times m m' (1e-10 for two Diracs at a = 1, s = -2), and
    for antipodes, where P_k = ±1, by 2 K^{2s+1} m m' (2e-9). So atoms nearer than 1/K seem apart,
    and distances of tokens below K^{s + (d-1)/2} n^{-1/2} aren't told from it.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> a, b = Particles([[1.0, 0.0]]), Particles([[-1.0, 0.0]])
    >>> sobolev(a, b) / np.pi
    1.0
    """
    _check(mu, nu)
    s = number("s", s)
    _check_finite(mu, nu, s)
    kmax = _density_degree(mu, nu)
    if kmax is None and mu.dim == 2 and s == -1.0:
        return sobolev_circle(mu, nu)
    if kmax is None:
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


def _check(mu: AnyMeasure, nu: AnyMeasure) -> None:
    for name, measure in (("mu", mu), ("nu", nu)):
        check_measure(name, measure)
    if mu.dim != nu.dim:
        raise ValueError(
            f"nu must have dim = {mu.dim} as mu has, got {shown(nu)} with dim = {nu.dim}"
        )


def _check_finite(mu: AnyMeasure, nu: AnyMeasure, s: float) -> None:
    bound = -0.5 * (mu.dim - 1)
    for name, measure in (("mu", mu), ("nu", nu)):
        if len(atoms_of(measure).points) > 0 and s >= bound:
            raise ValueError(
                f"s must be < -(d-1)/2 = {bound:g} for measures with atoms in d = {mu.dim}, since "
                f"their distance is infinite else, got s = "
                f"{tell_apart(s, bound)[0]} with {name} = {measure}"
            )


def _density_degree(mu: AnyMeasure, nu: AnyMeasure) -> int | None:
    """The degree at which the series of two densities end."""
    if isinstance(mu, Density) and isinstance(nu, Density):
        return max(mu.space.kmax, nu.space.kmax)
    return None


def _kernel_degree(mu: AnyMeasure, nu: AnyMeasure, beta: float) -> int:
    """The degree up to which moments of the measures are compared in the kernel."""
    densities = [m for m in (mu, nu) if isinstance(m, Density)]
    has_basis = common_basis(mu, nu, 1) is not None
    if densities and not has_basis:
        # beside tokens: degrees that the density does not have are all in their pairs
        return densities[0].space.kmax
    kmax = bandwidth(beta, mu.dim, _NEGLIGIBLE)
    alone = isinstance(mu, Particles) and isinstance(nu, Particles)
    if (has_basis or not alone) and _within_double(mu.dim, kmax) < kmax:
        raise ValueError(
            f"beta must be smaller in dim = {mu.dim} for {mu} and {nu}, got {beta:g}: its kernel "
            f"takes degrees up to {kmax}, whose multiplicities leave double precision"
        )
    return kmax


def _largest_degree(mu: AnyMeasure, nu: AnyMeasure) -> int:
    known = max([m.space.kmax for m in (mu, nu) if isinstance(m, Density)], default=1)
    basis = common_basis(mu, nu, 1)
    if basis is None:
        return max(_within_double(mu.dim, _PAIRS), known)
    if isinstance(basis, ZonalAt):
        return max(known, _within_double(mu.dim, _AXIS))
    return max(known, _CIRCLE if mu.dim == 2 else _SPHERE)


def _within_double(dim: int, kmax: int) -> int:
    """The largest degree up to kmax whose multiplicity is a double."""
    while True:
        try:
            multiplicities(dim, kmax)
        except ValueError:
            kmax //= 2
        else:
            return kmax


def _difference(mu: AnyMeasure, nu: AnyMeasure, multipliers: Array) -> tuple[float | None, float]:
    """Σ multipliers · power of Δ, None without a common basis; and what of it is missing."""
    basis = common_basis(mu, nu, len(multipliers) - 1)
    if basis is None:
        return None, 0.0
    of_mu, missing_mu = moments(mu, basis, multipliers)
    of_nu, missing_nu = moments(nu, basis, multipliers)
    power = basis.power(of_mu - of_nu)
    return float(multipliers[1:] @ power[1:]), max(missing_mu, missing_nu)


def _signed_atoms(mu: AnyMeasure, nu: AnyMeasure) -> tuple[Array, Array]:
    """Distinct points at which mu or nu has an atom, and the masses of mu - nu there."""
    one, other = atoms_of(mu), atoms_of(nu)
    return merged(
        np.concatenate([one.points, other.points]), np.concatenate([one.masses, -other.masses])
    )


def _by_pairs(
    mu: AnyMeasure, nu: AnyMeasure, multipliers: Array, kernel: Kernel, offset: float, tail: float
) -> float:
    """The squared distance in d >= 4 of tokens from other tokens, or from a measure with an axis.

    Σ_{k>=1} multipliers · power is that of the kernel less an offset, plus a tail on the diagonal.
    Of tokens beside an axis, what is symmetric about it is compared degree by degree.
    """
    points, masses = _signed_atoms(mu, nu)
    if isinstance(mu, Particles) and isinstance(nu, Particles):
        pairs = pair_sum(points, masses, kernel) + tail * float(masses @ masses)
        return max(0.0, pairs)
    tokens, other = (mu, nu) if isinstance(mu, Particles) else (nu, mu)
    axis = other.axis
    if not isinstance(tokens, Particles) or axis is None:
        raise ValueError(
            f"mu and nu must share an axis in d = {mu.dim}, or one of them be Particles, got {mu} "
            f"and {nu} with axes {mu.axis} and {nu.axis}"
        )
    basis = ZonalAt(axis, len(multipliers) - 1)
    about = basis.moments(np.clip(tokens.points @ axis, -1.0, 1.0), tokens.weights)
    theirs, _ = moments(other, basis, multipliers)
    pairs = pair_sum(tokens.points, tokens.weights, kernel) - offset
    pairs -= float(multipliers[1:] @ (about**2)[1:])
    alone = float(multipliers[1:] @ ((about - theirs) ** 2)[1:])
    return alone + max(0.0, pairs) + tail * float(masses @ masses)
