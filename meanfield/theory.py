"""Closed forms that runs are compared with; nothing that computes a run imports this module."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, overload

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import erfcx

from meanfield._checks import integer, is_of_package, is_single, number, real_array, shown
from meanfield.dynamics import SA, USA, AnyDynamics, Isotropic, Sum, adapt_any
from meanfield.dynamics.causal import refuse_mask
from meanfield.dynamics.facts import Dynamics, check_dim, multiplied_out
from meanfield.dynamics.own import layer_step
from meanfield.dynamics.schedule import refuse_schedules
from meanfield.kernels import multipliers
from meanfield.typing import Array, ArrayLike

__all__ = [
    "critical_noise",
    "dobrushin_constant",
    "eigenvalues",
    "energy_dirac",
    "energy_uniform",
    "gaussian_critical_coupling",
    "growth_rates",
    "kuramoto_critical_coupling",
    "log_eigenvalues",
    "lorentzian_critical_coupling",
    "orthogonal_arrival",
    "orthogonal_tokens",
    "ott_antonsen",
    "transition_beta",
    "wendel",
]


_MOST_DEGREES = 1 << 20
_OF_TIME = "what holds of constant weights is asked for"


def eigenvalues(beta: float | Array | Sequence[float], dim: int, kmax: int) -> Array:
    """Λ_k(β, d) = Γ(d/2) (2/β)^{d/2-1} I_{k+d/2-1}(β) > 0, for k = 0 … kmax.

    The Funk-Hecke multipliers of the kernel e^{β<x,y>} with respect to σ (proof of
    Proposition 3.4). Relative accuracy 1e-13 for β up to 1e4, d up to 1024 and k up to 2000.

    Parameters
    ----------
    beta : float or array_like
        Inverse temperature 0 <= β <= 1e9.
    dim : int
        Ambient dimension d >= 2.
    kmax : int
        Largest degree.

    Returns
    -------
    ndarray, shape (..., kmax + 1)
        After the shape of β. Values above 1.8e308 are inf, values below 1e-308 lose digits and then
        underflow to 0: see `log_eigenvalues`.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> eigenvalues(0.0, 5, 2)
    array([1., 0., 0.])
    """
    return np.asarray(_each("beta", lambda b: multipliers.eigenvalues(b, dim, kmax), beta))


def log_eigenvalues(beta: float | Array | Sequence[float], dim: int, kmax: int) -> Array:
    """log Λ_k(β, d) for k = 0 … kmax, finite where Λ_k itself over- or underflows.

    Parameters, shape and errors as in `eigenvalues`; at β = 0 the entries k >= 1 are -inf.
    The error is 1e-13, relative or absolute, whichever is larger; that of log Λ_0 is relative.

    Examples
    --------
    >>> bool(log_eigenvalues(1e-8, 3, 200)[200] < -4000)
    True
    """
    return np.asarray(_each("beta", lambda b: multipliers.log_eigenvalues(b, dim, kmax), beta))


def growth_rates(dynamics: AnyDynamics, dim: int, kmax: int) -> Array:
    """γ_k = ± k(k+d-2) Λ_k/β [/ Λ_0 for SA] - τ k(k+d-2): linear growth at the uniform measure.

    ± (k(k+d-2)/β) λ_k/(1 + λ_k), λ_k = Λ_k/Λ_0, for DoublyStochastic, ours: log u changes by
    -λ_k/(1 + λ_k) of the perturbation. At large β and given k that is half the rate of SA.

    A perturbation ε Y_k of σ grows like e^{γ_k t}; the degree with the largest γ_k decides how
    many clusters form first. For an interaction on the circle γ_k = K k b_k/2 - τk². For a kernel s
    with multipliers s_k, and S_k of its primitive, S_k [/ s_0] stands for Λ_k/β [/ Λ_0].
    The rates of a sum of such dynamics are the sum of theirs, times the weights.

    Parameters
    ----------
    dynamics : Dynamics
        With a kernel: SA, USA, DoublyStochastic, CircleInteraction and their like.
    dim : int
        Ambient dimension d >= 2.
    kmax : int
        Largest degree.

    Returns
    -------
    ndarray, shape (kmax + 1,)

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> int(np.argmax(growth_rates(SA(beta=5.0), dim=2, kmax=10)))
    3
    """
    adapted = _with_kernel(dynamics)
    kmax, dim = integer("kmax", kmax, low=0, high=_MOST_DEGREES), integer("dim", dim, low=2)
    if isinstance(adapted, Sum):
        each = [weight * growth_rates(term, dim, kmax) for weight, term in adapted.weighted_terms]
        return np.asarray(np.sum(each, axis=0))
    k = np.arange(kmax + 1)
    laplacian = k * (k + dim - 2.0)
    check_dim(adapted, dim)
    if adapted.pair_kernel.growth is not None:
        quotients = _divide_by_beta(adapted, dim, kmax)
    else:
        series = adapted.pair_kernel.series(dim, kmax)
        quotients = series.primitive.real / (series.potential[0] if adapted.normalised else 1.0)
    rates = laplacian * quotients
    return np.asarray(adapted.sign * rates - adapted.noise * laplacian)


def _with_kernel(dynamics: object) -> Dynamics:
    """Return the dynamics as equations know it; refuse one without a kernel."""
    adapted = _constant(dynamics)
    refuse_mask(adapted)
    # a class or a number is no dynamics, whatever attributes it has
    lacking: list[object] = [dynamics]
    if adapted is not None:
        lacking = [term for _, term in adapted.weighted_terms if term.pair_kernel is None]
    if adapted is None or lacking or layer_step(dynamics) is not None:
        raise ValueError(
            f"dynamics must have a kernel, as SA, USA, DoublyStochastic, Interaction or "
            f"CircleInteraction, since under others the uniform measure need not stay, got "
            f"{shown(lacking[0] if isinstance(adapted, Sum) else dynamics)}"
        )
    return adapted


def _divide_by_beta(dynamics: Dynamics, dim: int, kmax: int) -> Array:
    """Return Λ_k/β [/ Λ_0, / (Λ_0 + Λ_k)] for k = 0 … kmax; 0 for k = 0.

    Λ_k(β, d)/β = Λ_{k-1}(β, d+2)/d, which loses nothing where β is small.
    """
    beta, quotients = dynamics.pair_kernel.growth, np.zeros(kmax + 1)
    if kmax == 0:
        return quotients
    if not dynamics.normalised:
        quotients[1:] = multipliers.eigenvalues(beta, dim + 2, kmax - 1) / dim
        return quotients
    ratios = multipliers.relative_eigenvalues(beta, dim, kmax)
    # the ratio of degree 1 may be subnormal, and then has its limit
    slope_of_1 = ratios[1] / beta if beta > 1e-150 else 1.0 / dim
    quotients[1:] = slope_of_1 * multipliers.relative_eigenvalues(beta, dim + 2, kmax - 1)
    return quotients / (1.0 + ratios) if dynamics.is_balanced else quotients


def critical_noise(dynamics: AnyDynamics, dim: int, *, degree: int = 1) -> float:
    """τ_k = Λ_k/β (USA), Λ_k/(β Λ_0) (SA): above it degree k of the uniform state is damped.

    Λ_k/(β (Λ_0 + Λ_k)) for DoublyStochastic.

    Parameters
    ----------
    dynamics : SA, USA or DoublyStochastic
        Attractive (sign = +1); its own noise plays no part.
    dim : int
        Ambient dimension d >= 2.
    degree : int
        k >= 1.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is out of range, or the dynamics is repulsive.

    Examples
    --------
    >>> from meanfield.dynamics import USA
    >>> critical_noise(USA(beta=0.0), dim=3)
    0.3333333333333333
    """
    degree = integer("degree", degree, low=1)
    attention = _plain(dynamics, attracts=True)
    rates = growth_rates(type(attention)(attention.beta), dim, degree)
    return float(rates[degree] / (degree * (degree + dim - 2)))


def transition_beta(dim: int) -> float:
    """β*(d), I_{d/2+1}(β*)/I_{d/2}(β*) = 1/d: up to it noise breaks symmetry continuously (USA).

    Below β* the branch of degree 1 leaves the uniform state towards smaller noise, and the free
    energy's minimiser with it; beyond, the transition is of first order (arXiv 2606.05140). The
    ratio is Λ_2/Λ_1.

    Parameters
    ----------
    dim : int
        Ambient dimension 2 <= d <= 1024.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the dimension is out of range.

    Examples
    --------
    >>> round(transition_beta(2), 12)
    2.446918311289
    """
    dim = integer("dim", dim, low=2, high=1024)

    def excess(beta: float) -> float:
        ratios = multipliers.relative_eigenvalues(beta, dim, 2)
        return float(ratios[2] / ratios[1]) - 1.0 / dim

    # the root falls from 2.45 at d = 2 to 1
    return float(brentq(excess, 0.5, 4.0, xtol=1e-15, rtol=1e-15))


@overload
def energy_uniform(dynamics: float | AnyDynamics, dim: int) -> float: ...
@overload
def energy_uniform(dynamics: Array | Sequence[float], dim: int) -> Array: ...
def energy_uniform(dynamics: ArrayLike | AnyDynamics, dim: int) -> float | Array:
    """E(σ), of a number β that of SA and USA, Λ_0(β, d)/(2β), the minimum (Proposition 3.4).

    0 at β = 0. DoublyStochastic has log Λ_0(β, d)/(2β), a kernel s half the mean of its primitive,
    and sines on the circle have 0. A sum has the sum of those of its terms.

    Parameters
    ----------
    dynamics : float, array_like or Dynamics
        β >= 0, one or many, or a dynamics with a kernel and an `energy`.
    dim : int
        Ambient dimension d >= 2.

    Returns
    -------
    float or ndarray
        It has the shape of β.

    Raises
    ------
    ValueError
        If an argument is out of range, or the energy overflows.

    Examples
    --------
    >>> from meanfield.dynamics import DoublyStochastic
    >>> round(energy_uniform(2.0, 2), 12)
    0.569896325584
    >>> round(energy_uniform(DoublyStochastic(2.0), 2), 12)  # log I_0(2)/4
    0.205998385371
    """
    dim = integer("dim", dim, low=2)
    if not hasattr(dynamics, "noise"):
        return _each("beta", lambda beta: _uniform(beta, dim), dynamics)
    field = _with_kernel(dynamics)
    check_dim(field, dim)
    if (energy := field.energy_functional) is None:
        raise ValueError(f"dynamics must have an energy, got {shown(field)}: {field.why_no_energy}")
    if energy.parts:
        terms = zip(energy.parts, field.weighted_terms, strict=True)
        return sum(factor * energy_uniform(term, dim) for (factor, _), (_, term) in terms)
    if energy.entropic:
        return 0.5 * multipliers.log_first_over_beta(energy.beta, dim)
    if field.pair_kernel.growth is not None:
        return _uniform(field.pair_kernel.growth, dim)
    series = field.pair_kernel.series(dim, 0)
    return float(0.5 * series.unit * float(series.primitive[0].real) * math.exp(series.log_unit))


@overload
def energy_dirac(dynamics: float | AnyDynamics) -> float: ...
@overload
def energy_dirac(dynamics: Array | Sequence[float]) -> Array: ...
def energy_dirac(dynamics: ArrayLike | AnyDynamics) -> float | Array:
    """E(δ), of a number β that of SA and USA, e^β/(2β), the maximum (Proposition 3.4).

    1/2 at β = 0, and under DoublyStochastic at every β, where u² e^β = 1. A kernel s has half its
    primitive at 1, heads with a form D the Dirac mass where its energy is largest.

    Parameters
    ----------
    dynamics : float, array_like or Dynamics
        β >= 0, one or many, or a dynamics that has an `energy`.

    Returns
    -------
    float or ndarray
        It has the shape of β.

    Raises
    ------
    ValueError
        If β is out of range, there is no energy, or it overflows.

    Examples
    --------
    >>> energy_dirac(0.0)
    0.5
    >>> energy_dirac([0.0, 1.0]).round(12)
    array([0.5       , 1.35914091])
    """
    if not hasattr(dynamics, "noise"):
        return _each("beta", _dirac, dynamics)
    field = _constant(dynamics)
    if field is None:
        raise ValueError(f"dynamics must be a number or a dynamics, got {shown(dynamics)}")
    energy = field.energy_at_any_size
    if energy is None:
        raise ValueError(f"dynamics must have an energy, got {shown(field)}: {field.why_no_energy}")
    kernel = field.pair_kernel
    if kernel is not None and kernel.growth is not None and not field.is_balanced:
        return _dirac(kernel.growth)
    if not energy.has_bounds:
        raise ValueError(
            f"dynamics must have an energy with a largest value at a Dirac mass that is known, got "
            f"{shown(field)}"
        )
    value = multiplied_out(energy.dirac, energy.log_dirac)
    if not math.isfinite(value):
        raise ValueError(f"dynamics must be one whose energy fits float64, got {shown(field)}")
    return value


def _uniform(beta: float, dim: int) -> float:
    beta = number("beta", beta, low=0)
    return _over_2_beta(multipliers.eigenvalues(beta, dim, 0)[0], beta) if beta else 0.0


def _dirac(beta: float) -> float:
    beta = number("beta", beta, low=0)
    with np.errstate(over="ignore"):
        return _over_2_beta(np.exp(beta), beta) if beta else 0.5


def _each(name: str, function: Callable[[float], float | Array], numbers: Any) -> float | Array:
    """Return a function's value at a number, or at each of an array, along its first axes."""
    if is_single(numbers):
        return function(numbers)
    values = real_array(name, numbers, None)
    results = np.array([function(value) for value in values.ravel().tolist()])
    return results.reshape(values.shape + results.shape[1:])


def _over_2_beta(value: float, beta: float) -> float:
    quotient = float(value) / (2.0 * beta)
    if math.isfinite(quotient):
        return quotient
    raise ValueError(f"beta must be 0 or from 1e-307 to 709 for an energy in float64, got {beta:g}")


def _constant(dynamics: object) -> Dynamics | None:
    """Return a dynamics as equations know it, None for an object that is none.

    Refuse one that varies.

    Raises
    ------
    ValueError
        If its weights vary in time.
    """
    adapted = adapt_any(dynamics)
    if adapted is not None and adapted.varies:
        raise ValueError(f"dynamics must not vary in time, since {_OF_TIME}, got {shown(adapted)}")
    return adapted


def _plain(dynamics: AnyDynamics, **allowed: bool) -> Isotropic:
    """Return the attention without matrices that a dynamics is; see `check_attention`."""
    # the discrete layers of a dynamics are not its flow
    adapted = _constant(dynamics) if layer_step(dynamics) is None else None
    return check_attention(adapted or dynamics, **allowed)


def check_attention(
    dynamics: object,
    *,
    is_balanced: bool = True,
    attracts: bool = False,
    has_noise: bool | None = None,
) -> Isotropic:
    """Return a dynamics when it is attention without matrices.

    Parameters
    ----------
    dynamics : object
    is_balanced : bool
        Whether it may be doubly stochastic.
    attracts : bool
        Whether it must have sign 1.
    has_noise : bool, optional
        Whether it must, or must not, have noise.

    Raises
    ------
    ValueError
        Naming it.
    """
    refuse_schedules("dynamics", (dynamics,), _OF_TIME)
    refuse_mask(dynamics)
    kinds = Isotropic if is_balanced else (SA, USA)
    if (
        not isinstance(dynamics, kinds)
        or not is_of_package(dynamics)
        or (attracts and dynamics.sign != 1)
        or has_noise not in (None, dynamics.noise > 0.0)
    ):
        adjective = "attractive " * attracts
        adjective += "SA, USA or DoublyStochastic" if is_balanced else "SA or USA"
        noise = {None: "", True: " with noise > 0", False: " without noise"}[has_noise]
        raise ValueError(f"dynamics must be {adjective}{noise}, got {shown(dynamics)}")
    return dynamics


def dobrushin_constant(dynamics: AnyDynamics) -> float:
    """C in W_1(mu_t, nu_t) <= e^{Ct} W_1(mu_0, nu_0), Remark 3.3, in geodesic distance; ours.

    C bounds how fast the field varies with x and, in units of W_1, with the measure. USA: both
    are e^β, the largest derivative of P_x y e^{β<x,y>}. SA: its gradient is β Cov(y) - <x, ∇ log
    G>, of norm at most β + 1/(4β) (1 below β = 1/2), and e^{β<x,y>}/G varies by at most (1 + 2β)
    e^{2β}. Both signs alike. Runs do far better: see `studies.mean_field_limit`.

    Parameters
    ----------
    dynamics : SA or USA
        Without noise.

    Returns
    -------
    float
        inf where it leaves double precision.

    Raises
    ------
    ValueError
        If there is noise, or the dynamics is another.

    Examples
    --------
    >>> from meanfield.dynamics import USA
    >>> dobrushin_constant(USA(0.0))
    2.0
    """
    attention = _plain(dynamics, is_balanced=False, has_noise=False)
    beta = float(attention.beta)
    if not attention.normalised:
        return 2.0 * math.exp(beta)
    in_x = beta + 0.25 / beta if beta > 0.5 else 1.0
    return in_x + (1.0 + 2.0 * beta) * (math.exp(2.0 * beta) if beta < 350.0 else math.inf)


# the integral over s = -log(1 - γ) is split here
_EDGES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# while γ (n + β) is below this, γ grows in proportion to t, up to rounding
_LINEAR = 1e-17
# from this s on γ is 1
_LONGEST = 36.0
# beyond this β, e^β is taken out of an integral
_LARGEST_UNSCALED = 600.0
_LARGEST_LOG = math.log(1.7e308)


@overload
def orthogonal_tokens(dynamics: AnyDynamics, n: int, t: float) -> float: ...
@overload
def orthogonal_tokens(dynamics: AnyDynamics, n: int, t: Array | Sequence[float]) -> Array: ...
def orthogonal_tokens(dynamics: AnyDynamics, n: int, t: ArrayLike) -> float | Array:
    """γ(t) = <x_i, x_j> of n tokens that start orthogonal: (6.9) for SA, (6.10) for USA.

    For DoublyStochastic (6.9), too: tokens of equal inner products have equal rows of attention.
    The separable equation is inverted: t(γ) is an integral, whose root in 1 - γ is sought in
    logarithmic scale, so that γ keeps its digits near 1.

    Parameters
    ----------
    dynamics : SA, USA or DoublyStochastic
        Attractive and without noise.
    n : int
        Number of tokens, n >= 2.
    t : float or array_like
        Times t >= 0.

    Returns
    -------
    float or ndarray
        In [0, 1], of the shape of t.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> round(orthogonal_tokens(SA(beta=0.0), n=2, t=0.5), 14)  # tanh(t)
    0.46211715726001
    """
    n = integer("n", n, low=2)
    attention = _plain(dynamics, attracts=True, has_noise=False)
    return _each("t", lambda time: _orthogonal_tokens(attention, n, time), t)


def _orthogonal_tokens(dynamics: Isotropic, n: int, t: float) -> float:
    t = number("t", t, low=0)
    if t == 0.0:
        return 0.0
    # with s = -log(1 - γ) the equation is dt/ds = slowness(γ(s))
    latest, log_unit = _arrival(dynamics, n, _LONGEST)
    # the exponential is in two factors, since it may underflow where the product does not
    t = t * math.exp(-0.5 * log_unit) * math.exp(-0.5 * log_unit)
    if latest <= t:
        return 1.0
    # at first γ grows in proportion to t
    linear_gamma = t / _slowness(dynamics, n, 0.0, log_unit)
    if linear_gamma * (n + dynamics.beta) < _LINEAR:
        return linear_gamma
    tolerances = {"xtol": 1e-300, "rtol": 1e-14, "maxiter": 500}
    late = brentq(lambda s: _arrival(dynamics, n, s)[0] - t, 0.0, _LONGEST, **tolerances)
    return -math.expm1(-late)


def orthogonal_arrival(dynamics: AnyDynamics, n: int, delta: float) -> float:
    """t* at which n tokens that start orthogonal have inner products 1 - δ: Γ_{∞,δ} of (6.12).

    t* = ∫_0^{1-δ} (e^{β(1-γ)} + n - 1) / (2(1-γ)((n-1)γ + 1)) dγ for SA, and with n e^{-βγ} for
    the numerator under USA.

    Parameters
    ----------
    dynamics : SA, USA or DoublyStochastic
        Attractive and without noise.
    n : int
        Number of tokens, n >= 2.
    delta : float
        δ, 1e-15 <= δ < 1.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is out of range, or t* is too large for float64 (SA from about β = 710 on).

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> round(orthogonal_arrival(SA(beta=0.0), n=2, delta=0.5), 14)  # artanh(1/2)
    0.54930614433405
    """
    n = integer("n", n, low=2)
    delta = number("delta", delta)
    if not 1e-15 <= delta < 1.0:
        raise ValueError(f"delta must be in [1e-15, 1), got {delta:g}")
    attention = _plain(dynamics, attracts=True, has_noise=False)
    time, log_unit = _arrival(attention, n, -math.log(delta))
    if math.log(time) + log_unit > _LARGEST_LOG:
        raise ValueError(
            f"beta must be such that t*, of order exp(beta)/beta, fits float64, got "
            f"{attention.beta:g} with n = {n} and delta = {delta:g}"
        )
    # the exponential is in two factors, since it may overflow where the product does not
    half = math.exp(0.5 * log_unit)
    return time * half * half


def _arrival(dynamics: Isotropic, n: int, s_end: float) -> tuple[float, float]:
    """Return e^{-u} times the time at which 1 - γ = e^{-s}, (6.9) or (6.10), and u: β if large."""
    beta = dynamics.beta
    log_unit = beta if dynamics.normalised and beta > _LARGEST_UNSCALED else 0.0

    # at large β the integrand changes within 1/β of the start
    fine_edges = [5.0**k / max(beta, 1.0) for k in range(6)]
    middle = [edge for edge in (*fine_edges, *_EDGES) if edge < s_end]
    edges = [0.0, *sorted(middle), s_end]
    pieces = [
        quad(lambda s: _slowness(dynamics, n, s, log_unit), a, b, epsabs=0.0, epsrel=1e-13)[0]
        for a, b in itertools.pairwise(edges)
    ]
    return math.fsum(pieces), log_unit


def _slowness(dynamics: Isotropic, n: int, s: float, log_unit: float) -> float:
    """Return e^{-u} dt/ds at 1 - γ = e^{-s}."""
    beta, gamma = dynamics.beta, -math.expm1(-s)
    if dynamics.normalised:
        factor = math.exp(beta * (1.0 - gamma) - log_unit) + (n - 1) * math.exp(-log_unit)
    else:
        factor = n * math.exp(-beta * gamma)
    return 0.5 * factor / ((n - 1) * gamma + 1)


def wendel(n: int, dim: int) -> float:
    """P(n uniform points of S^{d-1} lie in a hemisphere) = 2^{-(n-1)} Σ_{k<d} C(n-1, k).

    Theorem 6.7; 1 for n <= d. In exact rational arithmetic, rounded once.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> wendel(4, 3)
    0.875
    """
    n, dim = integer("n", n, low=1), integer("dim", dim, low=2)
    if n <= dim:
        return 1.0
    ways = sum(math.comb(n - 1, k) for k in range(dim))
    return float(Fraction(ways, 2 ** (n - 1)))


def kuramoto_critical_coupling(density_at_centre: float) -> float:
    """K_c = 2/(π g(0)): from it on phases synchronise, for g even and falling away from 0.

    Parameters
    ----------
    density_at_centre : float
        g(0) > 0 of the frequencies' density, ∫ g dω = 1.

    Raises
    ------
    ValueError
        If it is not positive.

    Examples
    --------
    >>> kuramoto_critical_coupling(1.0 / np.pi)  # a Lorentzian of width 1
    2.0
    """
    return 2.0 / (math.pi * number("density_at_centre", density_at_centre, above=0))


def lorentzian_critical_coupling(width: float, *, noise: float = 0.0) -> float:
    """K_c = 2(γ + τ) of Lorentzian frequencies of width γ under noise τ.

    Above it r grows from the uniform state at the rate K/2 - γ - τ.

    Parameters
    ----------
    width, noise : float
        >= 0.

    Raises
    ------
    ValueError
        If one is negative.

    Examples
    --------
    >>> lorentzian_critical_coupling(1.0, noise=0.5)
    3.0
    """
    return 2.0 * (number("width", width, low=0) + number("noise", noise, low=0))


def gaussian_critical_coupling(deviation: float, *, noise: float = 0.0) -> float:
    """K_c of Gaussian frequencies of deviation s under noise τ (Sakaguchi 1988).

    2/K_c = ∫ τ/(τ² + ω²) g(ω) dω = sqrt(π/2)/s · e^{x²} erfc(x), x = τ/(s sqrt 2).

    Parameters
    ----------
    deviation : float
        s > 0.
    noise : float
        τ >= 0.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> round(gaussian_critical_coupling(1.0), 12)  # 2 sqrt(2/π)
    1.595769121606
    """
    deviation, noise = number("deviation", deviation, above=0), number("noise", noise, low=0)
    ratio = noise / deviation
    if ratio > 1e100:
        return 2.0 * noise
    share = float(erfcx(ratio / math.sqrt(2.0)))
    return 2.0 * deviation / (math.sqrt(math.pi / 2.0) * share)


@overload
def ott_antonsen(coupling: float, start: float, t: float, *, width: float = 0.0) -> float: ...
@overload
def ott_antonsen(
    coupling: float, start: float, t: Array | Sequence[float], *, width: float = 0.0
) -> Array: ...
def ott_antonsen(
    coupling: float, start: float, t: ArrayLike, *, width: float = 0.0
) -> float | Array:
    """r(t) of Kuramoto's dynamics on the Ott–Antonsen manifold, r' = (K/2 - γ) r - (K/2) r³.

    There the density at t = 0 is the Poisson kernel (1 - r²)/(1 - 2r cos θ + r²), at every
    frequency, with respect to σ. With a = K/2 - γ,

        r² = r_0² e^{2at} / (1 + (K/2) r_0² (e^{2at} - 1)/a).

    Parameters
    ----------
    coupling : float
        K.
    start : float
        r_0 = r(0), 0 to 1.
    t : float or array_like
        Times >= 0.
    width : float
        γ >= 0 of the Lorentzian frequencies; 0 for identical ones.

    Returns
    -------
    float or ndarray
        It has the shape of t.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    E. Ott & T. M. Antonsen, Chaos 18 (2008) 037113. For large t above K_c = 2γ it is
    sqrt(1 - K_c/K).

    Examples
    --------
    >>> ott_antonsen(4.0, 0.5, [0.0, 100.0], width=1.0)  # sqrt(1/2)
    array([0.5       , 0.70710678])
    """
    coupling, width = number("coupling", coupling), number("width", width, low=0)
    modulus_0 = number("start", start, low=0, high=1)
    times = real_array("t", t, None)
    if times.min() < 0.0:
        raise ValueError(f"t must be >= 0, got {times.min():g}")
    rate, half = 0.5 * coupling - width, 0.5 * coupling
    # all terms of each sum are positive
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        left, modulus = np.exp(-abs(rate) * times), np.full(times.shape, modulus_0)
        # r = 0 stays, and r = 1 where nothing pulls phases apart but repulsion
        if modulus_0 == 0.0 or (modulus_0 == 1.0 and width == 0.0):
            pass
        elif rate == 0.0:
            modulus = modulus_0 / np.sqrt(1.0 + 2.0 * half * modulus_0**2 * times)
        elif rate > 0.0:
            gained = -half * np.expm1(-2.0 * rate * times) / rate
            modulus = 1.0 / np.hypot(left / modulus_0, np.sqrt(gained))
        elif half >= 0.0:
            growth = np.expm1(2.0 * rate * times) / rate
            modulus = modulus_0 * left / np.sqrt(1.0 + half * modulus_0**2 * growth)
        else:
            decrease = (1.0 - modulus_0) * (1.0 + modulus_0) - modulus_0**2 * width / rate
            ratio = half / rate * modulus_0**2
            modulus = modulus_0 * left / np.hypot(math.sqrt(decrease), math.sqrt(ratio) * left)
    return modulus if times.ndim else float(modulus)
