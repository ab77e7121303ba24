"""Energies of a measure and what its flow dissipates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from meanfield._checks import check_measure, number, shown, symmetric
from meanfield.dynamics import AnyDynamics, adapt, adapt_any, facts
from meanfield.dynamics.attention import LARGEST_EXPONENT
from meanfield.dynamics.facts import LARGEST_LOG, Dynamics, Energy, check_dim, multiplied_out
from meanfield.dynamics.schedule import derivative_of
from meanfield.dynamics.with_energy import adapt_energy
from meanfield.equations.density import ROUNDING, LostDigitsError
from meanfield.equations.tendency import check_moved, tendency
from meanfield.kernels.direct import grid_log_moment
from meanfield.kernels.kernel import Kernel
from meanfield.kernels.line import LineSums
from meanfield.kernels.multipliers import bandwidth, eigenvalues_in_unit
from meanfield.measures import AnyMeasure, Density, LineFlowMap, Particles, SphereFlowMap
from meanfield.measures.line_flow_map import REACH
from meanfield.spaces import Space, SphereAt
from meanfield.spaces.geometry import asymmetry, circle_angles
from meanfield.typing import Array, ArrayLike

# the rounding of a density may make at most this share of an energy
_LARGEST_SHARE = 1e-6
# a number has converged if a grid twice as fine changes it by at most the first share of itself or
# the second of its unit, or if the change no longer falls and is below the third
_CONVERGED, _ROUNDING, _NEAR = 1e-13, 1e-15, 1e-11


class LostEnergyError(LostDigitsError, ValueError):
    """An energy of a density that rounding makes."""


def energy_in_unit(measure: AnyMeasure, energy: Energy) -> tuple[float, float]:
    """e^{-u} E(mu), and u, of the energy that a dynamics has: the one place that computes it.

    u is β for E_β, but log Λ_0 for a density where e^{-β} Λ_0 underflows.

    Raises
    ------
    ValueError
        If the nodes of a flow map can't resolve the kernel, or a density of its form.
    """
    beta, kernel = energy.beta, energy.kernel
    if energy.parts:
        values, log_units = zip(*(energy_in_unit(measure, p) for _, p in energy.parts), strict=True)
        return energy.total(values, log_units)
    if energy.functional is not None:
        return energy.functional(measure), 0.0
    if energy.potential is not None:
        return _potential_energy(measure, energy), 0.0
    if kernel is None and beta == 0.0 and energy.form is None:
        return 0.5 * float(np.sum(measure.mean() ** 2)), 0.0
    if energy.form is not None:
        return _form_energy(measure, beta, energy.form)
    if energy.entropic:
        return measure.balance(beta).energy(beta), 0.0
    if energy.is_plain and isinstance(measure, LineFlowMap):
        flow, (row, factor) = measure.resolve(kernel.reach), kernel.primitive_table
        potential = LineSums(kernel.line(flow.dim), flow.angles)(flow.weights, row + 1)[row]
        return 0.5 * factor * float(flow.weights @ potential), kernel.log_unit
    if not energy.is_plain or not isinstance(measure, Density | SphereFlowMap):
        return kernel.energy(measure), kernel.log_unit
    power = _power(measure, kernel)
    series = kernel.series(measure.dim, len(power) - 1)
    return series.energy(power), series.log_unit


def _power(measure: Density | SphereFlowMap, kernel: Kernel) -> Array:
    """Return the power of the measure by degree, up to the degree of the kernel."""
    if isinstance(measure, Density):
        return measure.power
    nodes, basis = measure.resolve(kernel.reach).quadrature, SphereAt(kernel.degree(3))
    return basis.power(basis.point_moments(*nodes))


def _potential_energy(measure: AnyMeasure, energy: Energy) -> float:
    """Return ∫ v dmu on a grid, or nodes, that resolve v.

    No grid resolves kinks, as those of relu.
    """

    def value_on(part: AnyMeasure) -> float:
        points, masses = part.quadrature
        return float(masses @ energy.potential(points))  # type: ignore[misc]

    if isinstance(measure, Density) and energy.steepness is not None:
        return _settled(measure, value_on, energy.dirac, _NEAR)
    return value_on(measure.resolve(0.0, energy.steepness))


def _settled(
    density: Density, value_on: Callable[[Density], float], unit: float, near: float
) -> float:
    """A number of a density on a grid that is doubled until the number changes by rounding only.

    Changes fall geometrically until they are rounding; those of a drift fall once a grid sees it,
    so that they must be `near` rounding, too.

    Raises
    ------
    ValueError
        If no grid is fine enough.
    """
    finer, value, change = density, value_on(density), np.inf
    while True:
        space = finer.space
        if 2 * space.size + 1 > space.largest_size:
            raise ValueError(
                f"dynamics must be resolved by a space of size {space.largest_size} under "
                f"{shown(density)}, where numbers still change by {change:.1e}"
            )
        finer = finer.embed(space.double())
        last_change, last_value, value = change, value, value_on(finer)
        change, size = abs(value - last_value), abs(value)
        if change <= max(_CONVERGED * size, _ROUNDING * unit):
            return value
        if change >= last_change and change <= near * max(size, unit):
            return value


def resolved(
    measure: AnyMeasure, dynamics: Dynamics, value_on: Callable[[AnyMeasure], float], unit: float
) -> float:
    """A number of the measure, on nodes that resolve what it integrates.

    Sums without division by G are band-limited. With it, with activations or with noise a density's
    grid is doubled until the number changes by rounding only; kinks, as relu has, no grid resolves.
    """
    reach = dynamics.reach
    measure = measure.refine(REACH / max(1.0, reach), dynamics.steepness)
    if not isinstance(measure, Density) or not dynamics.is_smooth:
        return value_on(measure)
    kernel, dim = dynamics.pair_kernel, measure.dim
    width = kernel.degree(dim) if kernel is not None else bandwidth(reach, dim) + 1
    finer = embedded(measure, measure.space.kmax + 2 * width)
    is_divided = dynamics.normalised and reach > 0.0
    has_drift = any(term.known_by_output for _, term in dynamics.weighted_terms)
    if is_divided or has_drift or dynamics.noise > 0.0:
        return _settled(finer, value_on, unit, _NEAR if has_drift else np.inf)
    return value_on(finer)


def embedded(density: Density, degree: int) -> Density:
    """The series of a density on a space whose quadrature is exact up to this degree."""
    space = density.space
    return density.embed(space.resize(max(space.size, space.exact_size(degree))))


def _form_energy(measure: AnyMeasure, beta: float, form: ArrayLike) -> tuple[float, float]:
    """Return e^{-u} E_{β,D} and u, the log of the largest G(βDx) at a node; D = `form`.

    Raises
    ------
    ValueError
        If D is not symmetric with as many rows as the measure has dimensions, or a measure that
        is stored by latitudes has another axis than D.
    """
    matrix = _checked(measure, form)
    if beta == 0.0:
        mean = measure.mean()
        return 0.5 * float(mean @ matrix @ mean), 0.0
    largest = beta * float(np.linalg.norm(matrix, 2))
    if isinstance(measure, Density):
        return _density_energy(measure, beta, matrix, bandwidth(largest, measure.dim))
    measure = measure.resolve(largest)
    log_g, _ = measure.score_moment(measure.points, beta * matrix)
    log_unit = float(log_g.max())
    return float(measure.weights @ np.exp(log_g - log_unit)) / (2.0 * beta), log_unit


def _density_energy(
    density: Density, beta: float, matrix: Array, degree: int
) -> tuple[float, float]:
    """Return E_{β,D} of a density by an exact double quadrature over the degrees of e^{β<x,Dy>}."""
    grid, masses, parts = _signed_moments(density, degree, beta * matrix)
    log_unit = max(float(log_g.max()) for _, log_g, _ in parts)
    g = sum(sign * np.exp(log_g - log_unit) for sign, log_g, _ in parts)
    total = float(masses @ g)
    _check_digits(density, grid, masses, beta * grid.points @ matrix, total, log_unit)
    return total / (2.0 * beta), log_unit


def _check_digits(
    density: Density, grid: Space, masses: Array, z: Array, total: float, log_unit: float
) -> None:
    """Refuse ∫ G dmu, in units of e^{log_unit}, that the rounding of f makes, opposite to its mass.

    Raises
    ------
    LostEnergyError
        If more than 1e-6 of it may be rounding.
    """
    # values of 1e-16 max f everywhere contribute to G like a uniform measure
    dust = ROUNDING * float(np.abs(masses / grid.weights).max())
    log_uniform, _ = grid_log_moment(grid, np.ones(len(grid.weights)), z)
    doubt = 2.0 * dust * float(np.abs(masses) @ np.exp(log_uniform - log_unit))
    if not doubt <= _LARGEST_SHARE * total:
        raise LostEnergyError(
            f"beta |D| must be smaller for {shown(density)}, got {float(np.abs(z).max()):.3g}: "
            f"rounding of f makes {doubt:.1e} of an energy of {total:.1e}, in units of 2 beta "
            f"e^{log_unit:.4g}; take a FlowMap or Particles"
        )


def energy_drifts(
    measure: AnyMeasure, dynamics: Dynamics, t: float, log_units: Sequence[float]
) -> Array:
    """∂_t of w E(mu), mu at rest, of each energy of a dynamics with weights in time, in its unit.

    With M = βD, D = 1 of a kernel, ∂_t E_{β,D} = ∬ (<x,Ṁy>/(2β) - β̇/(2β²)) e^{<x,My>} dmu dmu.
    """
    then = dynamics.at(t)
    energy = _required(then, then.energy_functional)
    changes = derivative_of(dynamics.own_weights, t)
    terms = zip(energy.each, dynamics.own_terms, changes, log_units, strict=True)
    drifts = []
    for (factor, part), term, change, u in terms:
        value, log_unit = _drift(measure, term, t)
        drift = factor * value * float(np.exp(log_unit - u))
        if change:
            value, log_unit = energy_in_unit(measure, part)
            drift += part.sign * energy.sign * change * value * float(np.exp(log_unit - u))
        drifts.append(drift)
    return np.array(drifts)


def _drift(measure: AnyMeasure, dynamics: Any, t: float) -> tuple[float, float]:
    functional_at_t = dynamics.at(t)
    energy: Energy | None = functional_at_t.energy_functional
    if functional_at_t is dynamics or energy is None:
        return 0.0, 0.0
    if energy.potential is not None:
        part = replace(energy, potential=dynamics.potential_slope(t))
        return _potential_energy(measure, part), 0.0
    beta, beta_rate = functional_at_t.beta, float(derivative_of(dynamics.beta, t))
    if energy.form is None:
        return _drift_of_beta(measure, energy, beta, beta_rate)
    (head,) = dynamics.heads
    change = facts.as_matrix(head.matrix_slope(t), measure.dim)
    matrix = _checked(measure, facts.as_matrix(energy.form, measure.dim))
    if beta == 0.0:
        mean = measure.mean()
        return 0.5 * float(mean @ change @ mean), 0.0
    form_rate, largest = beta_rate * matrix + beta * change, beta * float(np.linalg.norm(matrix, 2))

    def weighted(points: Array, mean: Array) -> Array:
        along = np.einsum("ij,ij->i", points @ form_rate, mean)
        return np.asarray(along / (2.0 * beta) - beta_rate / (2.0 * beta * beta))

    if isinstance(measure, Density):
        degree = bandwidth(largest, measure.dim) + 1
        grid, masses, parts = _signed_moments(measure, degree, beta * matrix)
        log_unit = max(float(log_g.max()) for _, log_g, _ in parts)
        integrand = sum(
            sign * np.exp(log_g - log_unit) * weighted(grid.points, mean)
            for sign, log_g, mean in parts
        )
        return float(masses @ integrand), log_unit
    measure = measure.resolve(largest)
    log_g, mean = measure.score_moment(measure.points, beta * matrix)
    log_unit = float(log_g.max())
    shares = measure.weights * np.exp(log_g - log_unit)
    return float(shares @ weighted(measure.points, mean)), log_unit


def _drift_of_beta(
    measure: AnyMeasure, energy: Energy, beta: float, beta_rate: float
) -> tuple[float, float]:
    """Return β̇ ∂_β of E_β or E_DS; β is positive unless it is constant."""
    if beta_rate == 0.0:
        return 0.0, 0.0
    if energy.entropic:
        balanced = measure.balance(beta)
        points, masses = balanced.points, balanced.masses
        _, mean = balanced.log_moment(beta * points)
        # the scaling u(x) is 1 over G of u mu
        along = 0.5 * float(masses @ np.einsum("ij,ij->i", points, mean)) / beta
        return beta_rate * (along + float(masses @ balanced.log_u) / beta**2), 0.0
    kernel = energy.kernel
    if isinstance(measure, Density | SphereFlowMap):
        power, dim = _power(measure, kernel), measure.dim
        degrees = np.arange(len(power))
        series = kernel.series(dim, len(power))
        # the recurrence of Gegenbauer polynomials gives the series of t e^{βt}
        above, here = series.potential[1:], series.potential[:-1]
        below = np.append(0.0, here[:-1])
        both = (degrees + dim - 2.0) * above + degrees * below
        steep = both / np.maximum(2.0 * degrees + dim - 2.0, 1e-300)
        if dim == 2:
            steep[0] = above[0]
        change = steep / beta - here / beta**2
        return 0.5 * beta_rate * series.unit * float(change @ power), series.log_unit
    measure = measure.resolve(beta)
    points, masses = measure.quadrature
    log_g, mean = measure.log_moment(beta * points)
    along = np.einsum("ij,ij->i", points, mean) / beta - 1.0 / beta**2
    return 0.5 * beta_rate * float(masses @ (np.exp(log_g - beta) * along)), beta


def _signed_moments(
    density: Density, degree: int, scores: Array
) -> tuple[Space, Array, list[tuple[int, Array, Array]]]:
    """Return a grid and the masses of f there.

    The two parts of f of one sign follow: ±1, log G and ∇ log G.
    """
    space = density.space
    # the grid is exact for three times the degree
    grid = space.resize(space.exact_size(3 * degree))
    masses = grid.weights * grid.synthesis(density.coefficients_on(grid))
    # a truncated series may be negative, and log G needs positive masses
    f, z = masses / grid.weights, grid.points @ scores
    parts = [(sign, np.maximum(sign * f, 0.0)) for sign in (1, -1)]
    moments = [(sign, *grid_log_moment(grid, part, z)) for sign, part in parts if part.any()]
    return grid, masses, moments


def _checked(measure: AnyMeasure, form: ArrayLike) -> Array:
    """Return D as a matrix; refuse it if the measure has an axis that D does not keep."""
    matrix = symmetric("KᵀQ", form, measure.dim)
    if measure.axis is not None and asymmetry(matrix, measure.axis):
        raise ValueError(
            f"KᵀQ must commute with rotations about the axis {measure.axis} of {shown(measure)}, "
            f"got {matrix}"
        )
    return matrix


def order_parameter(measure: AnyMeasure) -> tuple[float, float]:
    """r and ψ of r e^{iψ} = ∫ e^{iθ} dmu on the circle; ψ = 0 where r = 0.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
        On the circle; `OscillatorDensity` and `Oscillators` are among them.

    Returns
    -------
    r : float
        In [0, 1].
    psi : float
        In [0, 2π).

    Raises
    ------
    ValueError
        If the measure's dim is not 2.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> r, psi = order_parameter(Particles([[0.0, 1.0], [0.0, 1.0]]))
    >>> r, psi / np.pi
    (1.0, 0.5)
    """
    check_measure("measure", measure)
    if measure.dim != 2:
        raise ValueError(f"measure must have dim = 2, that of the circle, got {shown(measure)}")
    # adding 0 turns -0 into 0, whose angle is 0
    mean = measure.mean() + 0.0
    return float(np.hypot(*mean)), float(circle_angles(mean[None])[0])


def mean_cosine(measure: Particles) -> float:
    """The mean of <x_i, x_j> over pairs i ≠ j of tokens, in any d, from their mean in O(n d).

    It is Σ w_i w_j <x_i, x_j> / Σ w_i w_j, both over i ≠ j, so (|∫ x dmu|² - Σ w²)/(1 - Σ w²):
    of equal weights (n |∫ x dmu|² - 1)/(n - 1). As n grows it comes to |∫ x dmu|², by some 1/n.

    Parameters
    ----------
    measure : Particles

    Returns
    -------
    float
        From -1/(n - 1), of equal weights, to 1.

    Raises
    ------
    ValueError
        If the measure is none of tokens, or one token has all the mass.

    Examples
    --------
    >>> round(mean_cosine(Particles([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])), 12)
    -0.333333333333
    """
    check_measure("measure", measure)
    if not measure.is_ordered:
        raise ValueError(f"measure must be Particles, got {shown(measure)}")
    itself = float(measure.weights @ measure.weights)
    if not itself < 1.0:
        raise ValueError(f"measure must be at least 2 tokens with mass, got {shown(measure)}")
    mean = measure.mean()
    return (float(mean @ mean) - itself) / (1.0 - itself)


def sinkhorn_scaling(measure: AnyMeasure, beta: float) -> Array:
    """log u at the measure's points, u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1, Remark 3.5.

    By Anderson's acceleration of the symmetric Sinkhorn iteration: about 20 sums over the measure
    at any β, until |log u(x) + log ∫ e^{β<x,y>} u(y) dmu(y)| is rounding at every point. If sums
    are done by transforms, their own errors remain, below 1e-7.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    beta : float
        β >= 0; at most 150 for latitudes (`Zonal` spaces, flow maps about an axis).

    Returns
    -------
    ndarray, shape (n,)
        At the grid of a density's space, else at ``measure.points``.

    Raises
    ------
    ValueError
        If β is out of range, or the measure can't resolve the kernel.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> sinkhorn_scaling(Particles([[1.0, 0.0]]), 2.0)
    array([-1.])
    """
    check_measure("measure", measure)
    beta = number("beta", beta, low=0)
    balanced = measure.balance(beta)
    points, _ = measure.quadrature
    if balanced.points is points:
        return balanced.log_u
    return -balanced.log_moment(beta * points)[0]


def energy(measure: AnyMeasure, dynamics: float | AnyDynamics, *, t: float = 0.0) -> float:
    """The energy that a dynamics increases or decreases; for a number β that of SA and USA, (3.5).

    - SA and USA: E_β(mu) = 1/(2β) ∬ e^{β<x,y>} dmu dmu, at β = 0 its limit |∫ x dmu|²/2 without
      1/(2β). For densities 1/(2β) Σ_k Λ_k |mu_k|², for flow maps and particles the double sum.
    - DoublyStochastic: E_DS(mu) = -(1/β) ∫ log u dmu, Remark 3.5: minus half the entropic transport
      cost of mu to itself, for the cost -<x,y> and temperature 1/β; at β = 0 |∫ x dmu|²/2. The
      error is about 1e-15/β at β > 3e-5, 1e-10 at most below.
    - Attention of one head with KᵀQ = D = Dᵀ and V = ±D: E_{β,D}(mu) = 1/(2β) ∬ e^{β<x,Dy>} dmu dmu
      (Burger et al., arXiv 2501.03096, whose E_D is 2 E_{1,D}); at β = 0 <m, Dm>/2, m = ∫ x dmu.
    - Interaction: ½ ∬ S(<x,y>) dmu dmu, S' = s, S(0) = 0.
    - CircleInteraction of sines: F = K/2 ∬ H(θ - φ) dmu dmu = K/2 Σ_k (b_k/k) |m_k|² with
      m_k = ∫ e^{-ikθ} dmu, H' = -h without its mean; (7.3) is h = sin.
    - FeedForward with W = Aᵀ diag(ω): ∫ v dmu, v(x) = Σ_j ω_j φ(<a_j, x> + b_j), φ' = σ, φ(0) = 0.
      For densities on a grid that resolves v, under relu on their own; flow maps on their nodes.
    - Sum: Σ w_i E_i where all terms have one and the same sign, else Σ ± w_i E_i, which X climbs if
      it is a gradient flow.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : float or Dynamics
        β >= 0, or a dynamics that has an energy.
    t : float, optional
        The time at which the layer of `Layers` acts.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If β is negative or not finite, the dynamics has no energy, or it is too large for float64,
        or the measure is of another dimension, or does not resolve the kernel.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> round(energy(Particles([[1.0, 0.0]]), 2.0), 12)  # e^2/4
    1.847264024733
    >>> from meanfield.dynamics import Interaction, Kuramoto
    >>> energy(Particles([[1.0, 0.0]]), Interaction([0.0, 1.0]))  # S(t) = t²/2
    0.25
    >>> energy(Particles([[0.0, 1.0]]), Kuramoto(3.0))
    1.5
    """
    adapted, stated = with_energy(measure, dynamics, t)
    value, log_unit = energy_in_unit(measure, stated)
    return whole("energy", adapted, value, log_unit, ": energy_share does not")


def energy_share(measure: AnyMeasure, dynamics: float | AnyDynamics, *, t: float = 0.0) -> float:
    """E(mu)/E(δ), the energy as a share of that of a Dirac mass; it does not overflow for any β.

    Parameters and errors as in `energy`. Of a form D the Dirac mass is at an eigenvector with the
    largest eigenvalue. The denominator of ∫ v dmu is Σ |ω_j| max |φ_j|, that of a sum of energies
    the sum of their own.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        As `energy`, or if E(δ) = 0.

    Examples
    --------
    >>> from meanfield.measures import Particles
    >>> energy_share(Particles([[1.0, 0.0], [-1.0, 0.0]]), 1e4)
    0.5
    """
    known, stated = with_energy(measure, dynamics, t)
    if not stated.dirac:
        raise ValueError(
            f"dynamics must have an energy whose value at a Dirac mass is not 0, got {shown(known)}"
        )
    sign = float(np.copysign(1.0, stated.dirac))
    return sign * stated.relative(*energy_in_unit(measure, stated))


def with_energy(
    measure: AnyMeasure, given: float | AnyDynamics, t: float
) -> tuple[Dynamics, Energy]:
    """The dynamics that acts at t as equations know it, and its energy.

    Raises
    ------
    ValueError
        If it has none, or does not fit the measure.
    """
    check_measure("measure", measure)
    known = adapt_energy("beta, or a dynamics,", given)
    dynamics_at_t = known.at(number("t", t, low=0))
    # the sign of a sum may change with its weights
    known = dynamics_at_t if known.weights_vary else adapt(dynamics_at_t)
    stated = _required(known, known.energy_at_any_size)
    check_dim(known, measure.dim)
    return known, stated


def _required(dynamics: Dynamics, energy: Energy | None) -> Energy:
    if energy is None:
        why = dynamics.why_no_energy
        raise ValueError(f"dynamics must have an energy, got {shown(dynamics)}: {why}")
    return energy


def dissipation(measure: AnyMeasure, dynamics: AnyDynamics, *, t: float = 0.0) -> float:
    """± dE/dt for the `energy` of a dynamics, without noise: + where X climbs it, - where it falls.

    It is ± ∫ <∇ δE/δmu, X> dmu. For USA, DoublyStochastic and other gradient flows in W_2 this is
    ∫ |X|² dmu (Lemma 3.7). For a normalised dynamics such as SA it is ∫ |X|² G dmu (3.6), with
    G(βx) = ∫ e^{β<x,y>} dmu(y), or the same with the dynamics' own kernel. A sum of terms with
    different metrics is no gradient flow: SA beside a feed-forward layer may lower their energy,
    and the number is then negative.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : Dynamics
        With an energy.
    t : float, optional
        The time at which the layer of `Layers` acts.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the dynamics has no energy, the value is too large for float64, phases have frequencies
        of their own, or a flow map can't resolve the kernel.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> from meanfield.measures import Particles
    >>> dissipation(Particles([[1.0, 0.0]]), SA(2.0))
    0.0
    """
    adapted, _ = with_flow(measure, dynamics, t)
    return whole("dissipation", adapted, *dissipation_in_unit(measure, adapted))


def with_flow(measure: AnyMeasure, dynamics: AnyDynamics, t: float) -> tuple[Dynamics, Energy]:
    """The dynamics of `with_energy` that the gradient of the energy alone moves.

    Raises
    ------
    ValueError
        If it is not.
    """
    check_measure("measure", measure)
    if adapt_any(dynamics) is None:
        raise ValueError(f"dynamics must be a dynamics with an energy, got {shown(dynamics)}")
    if measure.natural_frequencies is not None:
        raise ValueError(
            f"measure must have no frequencies, since with them no energy drives its phases, got "
            f"{shown(measure)}"
        )
    adapted, stated = with_energy(measure, dynamics, t)
    check_moved(measure, adapted)
    if adapted.energy_functional is None:
        raise ValueError(
            f"dynamics must have, lest |X|² overflow, beta |D| <= {LARGEST_EXPONENT:g}, got "
            f"{shown(adapted)}"
        )
    return adapted, stated


def dissipation_in_unit(measure: AnyMeasure, dynamics: Dynamics) -> tuple[float, float]:
    """e^{-u} times what dE/dt is of where X alone acts, and u, of a dynamics with an energy."""
    log_unit = max(gain_log_units(measure, _required(dynamics, dynamics.energy_functional)))
    if measure.degree is not None and not dynamics.is_isotropic:
        # X of heads and drifts has more degrees than the density
        return resolved(measure, dynamics, lambda part: gain(part, dynamics), 0.0), log_unit
    return gain(measure, dynamics), log_unit


def gain(measure: AnyMeasure, dynamics: Dynamics) -> float:
    """The `dissipation` by a run's right-hand side, in units of the largest of `gain_log_units`.

    That of a density is on its own grid, that of a flow map on nodes that resolve kernel and drift.

    Raises
    ------
    ValueError
        If rounding of a density makes the velocity, or nodes can't resolve the kernel.
    """
    measure = measure.resolve(dynamics.reach, dynamics.steepness)
    rate = tendency(measure, dynamics).at(0.0)
    energy = _required(dynamics, dynamics.energy_functional)
    with more_than_rounding(measure):
        rate(rate.initial_state, np.empty_like(rate.initial_state))
    total, _ = energy.total(np.atleast_1d(rate.energy_rates()), gain_log_units(measure, energy))
    return float(energy.sign * total)


@contextmanager
def more_than_rounding(measure: AnyMeasure) -> Iterator[None]:
    """Inside, a velocity that is made of rounding is refused.

    Raises
    ------
    ValueError
        With the measure, and the reason.
    """
    try:
        yield
    except LostDigitsError as error:
        raise ValueError(f"dynamics must have a velocity under {measure}: {error}") from error


def gain_log_units(measure: AnyMeasure, energy: Energy) -> list[float]:
    """The logs of the units in which right-hand sides have what each energy gains."""
    log_units = [part.log_unit for _, part in energy.each]
    if measure.degree is not None:
        return [eigenvalues_in_unit(log_unit, measure.dim, 0)[1] for log_unit in log_units]
    return log_units


def whole(name: str, dynamics: Dynamics, value: float, log_unit: float, instead: str = "") -> float:
    """A value in units of e^{log_unit} as it is.

    Raises
    ------
    ValueError
        If it overflows.
    """
    if value > 0.0 and np.log(value) + log_unit > LARGEST_LOG:
        raise ValueError(
            f"dynamics must be one whose {name} fits float64, got {shown(dynamics)}{instead}"
        )
    return multiplied_out(value, log_unit)
