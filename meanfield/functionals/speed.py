"""How fast a measure moves, and how steep the energy is where it stands: equal along a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meanfield._checks import boolean, shown
from meanfield.dynamics import SA, USA, DoublyStochastic, Isotropic, adapt_any
from meanfield.equations.tendency import tendency
from meanfield.functionals.energies import dissipation, unscaled
from meanfield.kernels.multipliers import bandwidth, scaled_eigenvalues
from meanfield.measures import AnyMeasure, Density, Particles, check_measure
from meanfield.measures.flow_map import REACH
from meanfield.spaces.geometry import project

# on a grid twice as fine an integral has changed by rounding only
_CONVERGED, _ROUNDING = 1e-13, 1e-15


def metric_speed(
    measure: AnyMeasure, dynamics: Isotropic, weighted: bool = False, *, scaled: bool = False
) -> float:
    """|mu'| = (∫ |X|² dmu)^{1/2}, the speed in W_2: lim W_2(mu_t, mu_{t+h})/h, as X is a gradient.

    Weighted, for SA: (∫ |X|² G(βx) dmu)^{1/2}, the speed in the metric of section 3.4, whose
    gradient flow of E_β is (SA), (3.15). Its square is the dissipation (3.6).

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : SA, USA or DoublyStochastic
        Without noise.
    weighted : bool
        For SA only; the metric of USA is W_2 itself.
    scaled : bool
        Whether to return e^{-β/2} times it where it may overflow: under USA, and weighted.

    Returns
    -------
    float
        >= 0. Densities are integrated on a grid fine enough for rounding, flow maps on panels
        that resolve e^{β<x,y>}, meshes on S^2 as they are.

    Raises
    ------
    ValueError
        If an argument is not of that kind, no grid resolves |X|², or the value is too large for
        float64.

    Notes
    -----
    In the metric in which the dynamics is a gradient flow the speed equals the slope of the energy,
    and E(t) - E(0) = ± ∫ (|mu'|²/2 + slope²/2) dt. Both squares are then the dissipation, so
    `balance_error` in a run's dataset is the gap of that equality, over |E(δ)|. A run keeps the
    speed in W_2 at each save: as `metric_speed` for densities and flow maps, as `speed` for tokens;
    the weighted one is ``sqrt(dissipation)``. As a monitor of a run, `slope` is the other side:
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
    dynamics = _checked(measure, dynamics, (SA, USA, DoublyStochastic))
    weighted, scaled = boolean("weighted", weighted), boolean("scaled", scaled)
    if weighted and not isinstance(dynamics, SA):
        raise ValueError(
            f"weighted must be False for {shown(dynamics)}, whose metric is W_2, got True"
        )
    by_energy, beta = weighted or not dynamics.normalised, dynamics.beta
    number = _root_of_dissipation if by_energy else _speed
    value = _resolved(measure, dynamics, number, _unit(measure, dynamics) if by_energy else 1.0)
    if by_energy:
        return unscaled("metric speed", value, beta, beta, scaled, power=0.5)
    return value


def slope(measure: AnyMeasure, dynamics: Isotropic, *, scaled: bool = False) -> float:
    """The slope of E_β in the metric in which the dynamics is its gradient flow.

    USA: (∫ |∇ δE/δmu|² dmu)^{1/2}, in W_2; SA: (∫ |∇ δE/δmu|²/G(βx) dmu)^{1/2}, in the metric of
    section 3.4; δE/δmu = (1/β) ∫ e^{β<·,y>} dmu(y) (3.9), at β = 0 <x, ∫ y dmu>. From sums of
    positive terms over the measure, not from the velocity that runs use.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : SA or USA
        Without noise; its sign does not matter.
    scaled : bool
        Whether to return e^{-β/2} times it, which overflows for no β.

    Returns
    -------
    float
        >= 0, and 0 where the measure is stationary.

    Raises
    ------
    ValueError
        If an argument is not of that kind, no grid resolves the integrand, or the value is too
        large for float64.

    Examples
    --------
    >>> from meanfield.dynamics import SA
    >>> mu = Particles([[1.0, 0.0], [0.0, 1.0]])
    >>> bool(np.isclose(slope(mu, SA(3.0)), metric_speed(mu, SA(3.0), weighted=True)))
    True
    """
    dynamics = _checked(measure, dynamics, (SA, USA))
    scaled = boolean("scaled", scaled)
    potential, log_mass = _potential(measure, dynamics.beta)

    def steepness(part: AnyMeasure, dynamics: Isotropic) -> float:
        points, masses = part._quadrature
        log_g, mean = potential.log_moment(dynamics.beta * points)
        across = project(points, mean)
        squares = np.einsum("ij,ij->i", across, across)
        log_g = log_g + log_mass
        exponents = (log_g if dynamics.normalised else 2.0 * log_g) - dynamics.beta
        with np.errstate(under="ignore"):
            total = float(masses @ (squares * np.exp(exponents)))
        # a signed density may leave a sum of rounding below 0
        return float(np.sqrt(max(total, 0.0)))

    value = _resolved(measure, dynamics, steepness, _unit(measure, dynamics))
    beta = dynamics.beta
    return unscaled("slope", value, beta, beta, scaled, power=0.5)


def _checked(measure: AnyMeasure, dynamics: Any, allowed: tuple[type[Isotropic], ...]) -> Isotropic:
    """The dynamics as equations know it, one of these without noise."""
    check_measure("measure", measure)
    known = adapt_any(dynamics)
    if not isinstance(known, allowed) or known.noise > 0.0:
        *names, last = (kind.__name__ for kind in allowed)
        raise ValueError(
            f"dynamics must be {', '.join(names)} or {last} without noise, a gradient flow of an "
            f"energy, got {shown(dynamics)}"
        )
    return known


def _unit(measure: AnyMeasure, dynamics: Isotropic) -> float:
    """The size of e^{-β/2} G^{1/2}, of what is weighted with G (SA), or of e^{-β/2} G (USA)."""
    beta = dynamics.beta
    scaled_g = float(scaled_eigenvalues(beta, measure.dim, 0)[0])
    if dynamics.normalised:
        return float(np.sqrt(scaled_g))
    return scaled_g * float(np.exp(0.5 * beta))


def _root_of_dissipation(measure: AnyMeasure, dynamics: Isotropic) -> float:
    return float(np.sqrt(max(dissipation(measure, dynamics, scaled=True), 0.0)))


def _speed(measure: AnyMeasure, dynamics: Isotropic) -> float:
    """(∫ |X|² dmu)^{1/2} by the velocity that runs use."""
    if isinstance(measure, Particles):
        velocity = dynamics.velocity(measure, measure.points)
        return float(np.sqrt(measure.weights @ np.einsum("ij,ij->i", velocity, velocity)))
    # what moves densities and flow maps knows its speed
    rate: Any = tendency(measure, dynamics)
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    return float(rate.speed())


def _resolved(
    measure: AnyMeasure,
    dynamics: Isotropic,
    number: Callable[[AnyMeasure, Isotropic], float],
    unit: float,
) -> float:
    """A number of the measure, on nodes that resolve what it integrates.

    Under USA |X|² f is band-limited; SA divides by G, so there a density's grid is doubled until
    the number changes by rounding only.
    """
    if dynamics.beta > 0.0:
        measure = measure._refined(REACH / dynamics.beta)
    if not isinstance(measure, Density):
        return number(measure, dynamics)
    degree = measure.space.kmax + 2 * bandwidth(dynamics.beta, measure.dim)
    finer = _embedded(measure, degree)
    value, change = number(finer, dynamics), np.inf
    while dynamics.normalised and dynamics.beta > 0.0:
        space = finer.space
        if 2 * space.size + 1 > space._largest:
            raise ValueError(
                f"measure must have a speed that is resolved by a space of size "
                f"{space._largest}, got {shown(measure)}, where it still changes by {change:.1e}"
            )
        finer = finer._embedded(space._doubled())
        before, last = change, value
        value = number(finer, dynamics)
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
    """What answers G(βx) but for its mass, and the log of that.

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
    return Particles(points, masses), float(np.log(masses.sum()))
