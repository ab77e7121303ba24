"""How fast a measure moves, and how steep the energy is where it stands: equal along a flow."""

from __future__ import annotations

from typing import Any

import numpy as np

from meanfield._checks import number, shown
from meanfield.dynamics import SA, USA, AnyDynamics, adapt, adapt_any
from meanfield.dynamics.facts import Dynamics, Energy, multiplied_out
from meanfield.equations.tendency import check_moved, tendency
from meanfield.functionals import energies
from meanfield.kernels.multipliers import bandwidth
from meanfield.measures import AnyMeasure, Density, Particles, check_measure
from meanfield.measures.line_flow_map import REACH
from meanfield.spaces.geometry import project
from meanfield.typing import Array


def rms_velocity(measure: AnyMeasure, dynamics: AnyDynamics, *, t: float = 0.0) -> float:
    """(∫ |X|² dmu)^{1/2}, the root mean square of the velocity X that a dynamics has.

    It bounds the speed in W_2 of what X moves, and is that speed where X is a gradient, see
    `metric_speed`: under a rotation a uniform density stands still. Noise and the frequencies of
    phases are no part of X.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : Dynamics
    t : float, optional
        The time at which the layer of `Layers` acts.

    Returns
    -------
    float
        >= 0. Densities are integrated on a grid fine enough for rounding, under relu on their own;
        flow maps on panels that resolve the kernel, meshes on S^2 as they are.

    Raises
    ------
    ValueError
        If the dynamics does not move the measure, no grid resolves |X|², or the value is too large
        for float64.

    Examples
    --------
    >>> import meanfield as mf
    >>> turned = mf.Attention(1.0, [mf.Head(V=[[0.0, -1.0], [1.0, 0.0]])])
    >>> mu = mf.Density(mf.Circle(16), mf.Uniform(2))
    >>> round(rms_velocity(mu, turned), 12)  # I_1(1)/I_0(1)
    0.446389965897
    """
    adapted = _moving(measure, dynamics, t)
    return energies.whole("rms velocity", adapted, _rms_velocity(measure, adapted), 0.0)


def metric_speed(measure: AnyMeasure, dynamics: AnyDynamics, *, t: float = 0.0) -> float:
    """|mu'|, the speed in W_2: lim W_2(mu_t, mu_{t+h})/h.

    For tokens it is `rms_velocity`, for phases with their frequencies. For densities and flow maps
    it is (∫ |X - τ ∇ log f|² dmu)^{1/2}, τ the noise, where X is the gradient of some function:
    under SA, USA, DoublyStochastic, Interaction that is not normalised, CircleInteraction, and
    where in each head V is a multiple of QᵀK. Otherwise a part of X may move no mass.

    Under SA, and all that is normalised, it is not the speed in the metric of section 3.4, whose
    gradient flow of E_β is (SA), (3.15): that is the square root of the `dissipation` (3.6).

    Parameters
    ----------
    measure : Density, FlowMap or Particles
        The noise of tokens is left out: paths of Brownian motion have no speed.
    dynamics : Dynamics
    t : float, optional
        The time at which the layer of `Layers` acts.

    Returns
    -------
    float
        >= 0, as exact as `rms_velocity`.

    Raises
    ------
    ValueError
        As `rms_velocity`; or if X is no gradient, phases of a density have frequencies, or a flow
        map has noise.

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
    adapted = _moving(measure, dynamics, t)
    if not has_metric_speed(measure, adapted):
        reason = adapted.why_no_gradient
        if measure.natural_frequencies is not None:
            reason = "phases of different frequencies pass each other"
        raise ValueError(
            f"dynamics must have a gradient for its velocity, so that {shown(measure)} has a speed "
            f"in W_2, got {shown(adapted)}: {reason}; rms_velocity is a bound from above"
        )
    if measure.is_ordered:
        velocity = with_frequencies(adapted.tangents(measure, measure.points), measure)
        value = root_mean_square(velocity, measure.weights)
    elif adapted.noise == 0.0:
        value = _rms_velocity(measure, adapted)
    elif measure.degree is not None:
        value = energies.resolved(measure, adapted, lambda part: _noisy_speed(part, adapted), 1.0)
    else:
        raise ValueError(
            f"noise must be 0 for {shown(measure)}, got {adapted.noise:g}: take a Density or "
            f"Particles"
        )
    return energies.whole("metric speed", adapted, value, 0.0)


def has_metric_speed(measure: AnyMeasure, dynamics: Dynamics) -> bool:
    """Whether (∫ |X - τ ∇ log f|² dmu)^{1/2}, or the like of tokens, is the speed in W_2.

    About an axis all that commutes with every rotation moves along meridians.
    """
    if measure.is_ordered:
        return True
    along_meridians = measure.axis is not None and dynamics.is_isotropic
    return measure.natural_frequencies is None and (dynamics.is_gradient or along_meridians)


def slope(measure: AnyMeasure, dynamics: AnyDynamics, *, t: float = 0.0) -> float:
    """The slope of the energy in the metric in which the dynamics is its gradient flow.

    USA: (∫ |∇ δE/δmu|² dmu)^{1/2}, in W_2; SA: (∫ |∇ δE/δmu|²/G(βx) dmu)^{1/2}, in the metric of
    section 3.4; δE/δmu = (1/β) ∫ e^{β<·,y>} dmu(y) (3.9), at β = 0 <x, ∫ y dmu>. These two are made
    of sums of positive terms over the measure, not of the velocity that runs use. Of any other
    energy it is the square root of the `dissipation`.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : Dynamics
        With an `energy`, without noise; its sign does not matter.
    t : float, optional
        The time at which the layer of `Layers` acts.

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
    adapted, energy = _without_noise(measure, dynamics, t)
    return energies.whole("slope", adapted, *slope_in_unit(measure, adapted, energy))


def slope_in_unit(measure: AnyMeasure, dynamics: Dynamics, energy: Energy) -> tuple[float, float]:
    """e^{-u} times the slope, and u."""
    if energy.entropic:
        return _rms_velocity(measure, dynamics), 0.0
    if not isinstance(dynamics, (SA, USA)):
        return _root_of_dissipation(measure, dynamics, energy)
    beta = dynamics.beta
    potential, log_mass = _potential(measure, beta)

    def root(part: AnyMeasure) -> float:
        points, masses = part.quadrature
        log_g, mean = potential.log_moment(beta * points)
        across = project(points, mean)
        squares = np.einsum("ij,ij->i", across, across)
        log_g = log_g + log_mass
        exponents = (log_g if dynamics.normalised else 2.0 * log_g) - beta
        with np.errstate(under="ignore"):
            total = float(masses @ (squares * np.exp(exponents)))
        # a density that is negative somewhere may make the sum negative by rounding
        return float(np.sqrt(max(total, 0.0)))

    unit = _unit(measure, dynamics, energy)
    return energies.resolved(measure, dynamics, root, unit), 0.5 * beta


def root_mean_square(velocity: Array, masses: Array) -> float:
    """(Σ m |v|²)^{1/2} of vectors (n, d), which may be too large to be squared."""
    largest = float(np.abs(velocity).max()) or 1.0
    shares = velocity / largest
    return largest * float(np.sqrt(masses @ np.einsum("ij,ij->i", shares, shares)))


def with_frequencies(velocity: Array, particles: AnyMeasure) -> Array:
    """The velocity of tokens, shape (n, d): X, and on the circle the frequencies of phases."""
    if particles.natural_frequencies is None:
        return velocity
    x, y = particles.points.T
    return np.asarray(velocity + particles.natural_frequencies[:, None] * np.column_stack([-y, x]))


def _moving(measure: AnyMeasure, dynamics: AnyDynamics, t: float) -> Dynamics:
    """Return the dynamics that acts at t in the form that equations know.

    Raises
    ------
    ValueError
        If there is none, or it does not move the measure.
    """
    check_measure("measure", measure)
    adapted = adapt_any(dynamics)
    if adapted is None:
        raise ValueError(f"dynamics must be a dynamics, got {shown(dynamics)}")
    adapted = adapt(adapted.at(number("t", t, low=0)))
    check_moved(measure, adapted)
    return adapted


def _without_noise(measure: AnyMeasure, dynamics: AnyDynamics, t: float) -> tuple[Dynamics, Energy]:
    adapted, energy = energies.with_flow(measure, dynamics, t)
    if (len(energy.parts) > 1 or energy.functional) and not energy.in_w2:
        raise ValueError(
            f"dynamics must be a gradient flow in one metric that is known, got {shown(adapted)}"
        )
    if adapted.noise > 0.0:
        raise ValueError(
            f"dynamics must be without noise, since with it the energy alone drives no measure, "
            f"got {shown(adapted)}"
        )
    return adapted, energy


def _root_of_dissipation(
    measure: AnyMeasure, dynamics: Dynamics, energy: Energy
) -> tuple[float, float]:
    """Return e^{-u} times the square root of the dissipation, and u."""
    log_unit = max(energies.gain_log_units(measure, energy)) - energy.log_unit

    def root(part: AnyMeasure) -> float:
        return float(np.sqrt(max(multiplied_out(energies.gain(part, dynamics), log_unit), 0.0)))

    unit = _unit(measure, dynamics, energy)
    return energies.resolved(measure, dynamics, root, unit), 0.5 * energy.log_unit


def _unit(measure: AnyMeasure, dynamics: Dynamics, energy: Energy) -> float:
    """Return the size of e^{-u/2} G^{1/2}, u the log unit; 1 for drifts, 0 if it is unknown."""
    if dynamics.pair_kernel is None:
        return 0.0 if dynamics.score_matrices else 1.0
    series = dynamics.pair_kernel.series(measure.dim, 0)
    size = series.unit * abs(series.potential[0])
    return float(np.sqrt(multiplied_out(size, series.log_unit - energy.log_unit)))


def _rms_velocity(measure: AnyMeasure, dynamics: Dynamics) -> float:
    """Return (∫ |X|² dmu)^{1/2} on nodes that resolve it."""
    return energies.resolved(measure, dynamics, lambda part: _speed(part, dynamics), 1.0)


def _noisy_speed(density: AnyMeasure, dynamics: Dynamics) -> float:
    """Return (∫ |X - τ ∇ log f|² dmu)^{1/2} on the density's own grid."""
    rate: Any = tendency(density, dynamics)
    with energies.more_than_rounding(density):
        return float(rate.noisy_speed(rate.initial_state))


def _speed(measure: AnyMeasure, dynamics: Dynamics) -> float:
    """Return (∫ |X|² dmu)^{1/2} by the velocity that runs use."""
    is_moved_by_itself = measure.degree is not None or dynamics.is_isotropic
    if measure.is_ordered or not is_moved_by_itself:
        measure = measure.resolve(dynamics.reach)
        points, masses = measure.quadrature
        return root_mean_square(dynamics.tangents(measure, points), masses)
    # the right-hand sides of densities and flow maps compute their speed
    rate: Any = tendency(measure, dynamics)
    with energies.more_than_rounding(measure):
        rate(rate.initial_state, np.empty_like(rate.initial_state))
    return float(rate.speed())


def _potential(measure: AnyMeasure, beta: float) -> tuple[AnyMeasure, float]:
    """Return the measure that gives G(βx) up to a factor, and the log of that factor.

    Points that integrate f e^{β<x,y>} exactly, which are summed as tokens are, in O(n) on the
    circle and on S^2; a measure that is stored by its latitudes itself.
    """
    if isinstance(measure, Density):
        measure = energies.embedded(measure, measure.space.kmax + bandwidth(beta, measure.dim))
    if measure.is_ordered or measure.axis is not None:
        return measure, 0.0
    if beta > 0.0:
        measure = measure.refine(REACH / beta)
    points, masses = measure.quadrature
    masses = np.maximum(masses, 0.0)
    return Particles(points, masses, unit_mass=True), float(np.log(masses.sum()))
