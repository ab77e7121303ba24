"""How fast a measure moves, and how steep the energy is where it stands: equal along a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meanfield._checks import shown
from meanfield.dynamics import SA, USA, AnyDynamics, Attention
from meanfield.dynamics.facts import Dynamics, Energy, multiplied_out
from meanfield.equations.tendency import tendency
from meanfield.functionals.energies import dissipation_in_unit, whole, with_flow
from meanfield.kernels.multipliers import bandwidth
from meanfield.measures import AnyMeasure, Density, Particles
from meanfield.measures.flow_map import REACH
from meanfield.spaces.geometry import project

# on a grid twice as fine an integral has changed by rounding only
_CONVERGED, _ROUNDING = 1e-13, 1e-15


def metric_speed(measure: AnyMeasure, dynamics: AnyDynamics, *, t: float = 0.0) -> float:
    """|mu'| = (∫ |X|² dmu)^{1/2}, the speed in W_2: lim W_2(mu_t, mu_{t+h})/h, as X is a gradient.

    Under SA, and all that is normalised, it is not the speed in the metric of section 3.4, whose
    gradient flow of E_β is (SA), (3.15): that is the square root of the `dissipation` (3.6).

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : Dynamics
        With an `energy`, without noise.
    t : float, optional
        Of `Layers`, the time at which the layer acts.

    Returns
    -------
    float
        >= 0. Densities are integrated on a grid fine enough for rounding, flow maps on panels
        that resolve the kernel, meshes on S^2 as they are.

    Raises
    ------
    ValueError
        If the dynamics has no energy or noise, no grid resolves |X|², or the value is too large
        for float64.

    Notes
    -----
    In the metric in which the dynamics is a gradient flow the speed equals the slope of the energy,
    and E(t) - E(0) = ± ∫ (|mu'|²/2 + slope²/2) dt. Both squares are then the dissipation, so
    `balance_error` in a run's dataset is the gap of that equality, over |E(δ)|. A run keeps the
    speed in W_2 at each save. As a monitor of a run, `slope` is the other side:
    ``evolve(..., monitors={"slope": lambda mu: slope(mu, dynamics)})``.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> from meanfield.laws import FourierSeries
    >>> from meanfield.spaces import Circle
    >>> mu = Density(Circle(16), FourierSeries(cos=[0.5]))  # at β = 0: 0.5/sqrt(8)
    >>> round(metric_speed(mu, SA(0.0)), 12)
    0.176776695297
    """
    known, energy = _without_noise(measure, dynamics, t)
    return whole("metric speed", known, *_metric_speed(measure, known, energy))


def slope(measure: AnyMeasure, dynamics: AnyDynamics, *, t: float = 0.0) -> float:
    """The slope of the energy in the metric in which the dynamics is its gradient flow.

    USA: (∫ |∇ δE/δmu|² dmu)^{1/2}, in W_2; SA: (∫ |∇ δE/δmu|²/G(βx) dmu)^{1/2}, in the metric of
    section 3.4; δE/δmu = (1/β) ∫ e^{β<·,y>} dmu(y) (3.9), at β = 0 <x, ∫ y dmu>. These two are made
    of sums of positive terms over the measure, not of the velocity that runs use. Of any other
    energy it is the `metric_speed`, or where the dynamics is normalised the square root of the
    `dissipation`.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : Dynamics
        With an `energy`, without noise; its sign does not matter.
    t : float, optional
        Of `Layers`, the time at which the layer acts.

    Returns
    -------
    float
        >= 0, and 0 where the measure is stationary.

    Raises
    ------
    ValueError
        If the dynamics has no energy or noise, no grid resolves the integrand, or the value is too
        large for float64.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> from meanfield.functionals.energies import dissipation
    >>> mu = Particles([[1.0, 0.0], [0.0, 1.0]])
    >>> bool(np.isclose(slope(mu, SA(3.0)) ** 2, dissipation(mu, SA(3.0))))
    True
    """
    known, energy = _without_noise(measure, dynamics, t)
    return whole("slope", known, *slope_in_unit(measure, known, energy))


def slope_in_unit(measure: AnyMeasure, dynamics: Dynamics, energy: Energy) -> tuple[float, float]:
    """e^{-u} times the slope, and u."""
    if not isinstance(dynamics, (SA, USA)):
        if energy.in_w2:
            return _metric_speed(measure, dynamics, energy)
        return _root_of_dissipation(measure, dynamics, energy)
    beta = dynamics.beta
    potential, log_mass = _potential(measure, beta)

    def steepness(part: AnyMeasure) -> float:
        points, masses = part._quadrature
        log_g, mean = potential.log_moment(beta * points)
        across = project(points, mean)
        squares = np.einsum("ij,ij->i", across, across)
        log_g = log_g + log_mass
        exponents = (log_g if dynamics.normalised else 2.0 * log_g) - beta
        with np.errstate(under="ignore"):
            total = float(masses @ (squares * np.exp(exponents)))
        # a signed density may leave a sum of rounding below 0
        return float(np.sqrt(max(total, 0.0)))

    return _resolved(measure, dynamics, steepness, _unit(measure, dynamics, energy)), 0.5 * beta


def _without_noise(measure: AnyMeasure, dynamics: AnyDynamics, t: float) -> tuple[Dynamics, Energy]:
    known, energy = with_flow(measure, dynamics, t)
    if known.noise > 0.0:
        raise ValueError(
            f"dynamics must be without noise, since with it the energy alone drives no measure, "
            f"got {shown(known)}"
        )
    return known, energy


def _metric_speed(measure: AnyMeasure, dynamics: Dynamics, energy: Energy) -> tuple[float, float]:
    """e^{-u} (∫ |X|² dmu)^{1/2}, and u: where X is not normalised by what the energy loses."""
    if not dynamics.normalised:
        return _root_of_dissipation(measure, dynamics, energy)
    return _resolved(measure, dynamics, lambda part: _speed(part, dynamics), 1.0), 0.0


def _root_of_dissipation(
    measure: AnyMeasure, dynamics: Dynamics, energy: Energy
) -> tuple[float, float]:
    """e^{-u} times the square root of the dissipation, and u."""

    def root(part: AnyMeasure) -> float:
        value, log_unit = dissipation_in_unit(part, dynamics)
        return float(np.sqrt(max(multiplied_out(value, log_unit - energy.log_unit), 0.0)))

    if isinstance(dynamics, Attention):
        # on nodes of its own
        return root(measure), 0.5 * energy.log_unit
    unit = _unit(measure, dynamics, energy)
    return _resolved(measure, dynamics, root, unit), 0.5 * energy.log_unit


def _unit(measure: AnyMeasure, dynamics: Dynamics, energy: Energy) -> float:
    """The size of e^{-u/2} G^{1/2}, of what is weighted with G."""
    series = dynamics._kernel.series(measure.dim, 0)
    size = series.size * abs(series.potential[0])
    return float(np.sqrt(multiplied_out(size, series.log_unit - energy.log_unit)))


def _speed(measure: AnyMeasure, dynamics: Any) -> float:
    """(∫ |X|² dmu)^{1/2} by the velocity that runs use."""
    is_moved_by_itself = isinstance(measure, Density) or dynamics._isotropic
    if isinstance(measure, Particles) or not is_moved_by_itself:
        measure = measure._resolving(dynamics._reach)
        points, masses = measure._quadrature
        velocity = dynamics.velocity(measure, points)
        return float(np.sqrt(masses @ np.einsum("ij,ij->i", velocity, velocity)))
    # what moves densities and flow maps knows its speed
    rate: Any = tendency(measure, dynamics)
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    return float(rate.speed())


def _resolved(
    measure: AnyMeasure, dynamics: Dynamics, number: Callable[[AnyMeasure], float], unit: float
) -> float:
    """A number of the measure, on nodes that resolve what it integrates.

    Without division by G |X|² f is band-limited; with it a density's grid is doubled until the
    number changes by rounding only.
    """
    reach = dynamics._reach
    if reach > 0.0:
        measure = measure._refined(REACH / reach)
    if not isinstance(measure, Density):
        return number(measure)
    kernel, dim = dynamics._kernel, measure.dim
    width = kernel.degree(dim) if kernel is not None else bandwidth(reach, dim)
    finer = _embedded(measure, measure.space.kmax + 2 * width)
    value, change = number(finer), np.inf
    while dynamics.normalised and reach > 0.0:
        space = finer.space
        if 2 * space.size + 1 > space._largest:
            raise ValueError(
                f"measure must have a speed that is resolved by a space of size "
                f"{space._largest}, got {shown(measure)}, where it still changes by {change:.1e}"
            )
        finer = finer._embedded(space._doubled())
        before, last = change, value
        value = number(finer)
        change = abs(value - last)
        # changes fall geometrically, until they are rounding
        if change <= max(_CONVERGED * value, _ROUNDING * unit) or change >= before:
            break
    return value


def _embedded(density: Density, degree: int) -> Density:
    """The series of a density on a space whose quadrature is exact up to this degree."""
    space = density.space
    return density._embedded(space._resized(max(space.size, space._exact_size(degree))))


def _potential(measure: AnyMeasure, beta: float) -> tuple[AnyMeasure, float]:
    """What gives G(βx) up to its mass, and the log of the mass.

    Points that integrate f e^{β<x,y>} exactly, which are summed as tokens are, in O(n) on the
    circle and on S^2; a measure that is stored by its latitudes itself.
    """
    if isinstance(measure, Density):
        measure = _embedded(measure, measure.space.kmax + bandwidth(beta, measure.dim))
    if isinstance(measure, Particles) or measure.axis is not None:
        return measure, 0.0
    if beta > 0.0:
        measure = measure._refined(REACH / beta)
    points, masses = measure._quadrature
    masses = np.maximum(masses, 0.0)
    return Particles(points, masses, unit_mass=True), float(np.log(masses.sum()))
