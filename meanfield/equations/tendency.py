"""d/dt of a measure's state: the right-hand side for each kind of measure, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, singledispatch

import numpy as np

from meanfield._checks import shown
from meanfield.dynamics.causal import check_ordered
from meanfield.dynamics.facts import Dynamics, check_dim
from meanfield.dynamics.own import OwnDynamics, adapt
from meanfield.equations import density as densities
from meanfield.equations import line, sphere, tokens
from meanfield.equations.heads_on_grid import ScoreTables
from meanfield.equations.in_time import InTime
from meanfield.equations.oscillators import OscillatorDensityTendency
from meanfield.equations.rates import Tendency
from meanfield.kernels.causal import causal_means
from meanfield.kernels.kernel import Exponential
from meanfield.measures import AnyMeasure, check_measure
from meanfield.measures.density import Density
from meanfield.measures.line_flow_map import LineFlowMap
from meanfield.measures.oscillators import OscillatorDensity
from meanfield.measures.particles import Particles
from meanfield.measures.sphere_flow_map import SphereFlowMap

AnyTendency = Tendency[AnyMeasure]
# a run keeps the tables of so many heads on a grid
_MOST_TABLES = 16


def token_tendency(
    particles: Particles, dynamics: Dynamics, *, may_span: bool = True, t: float = 0.0
) -> tokens.TokenTendency | InTime[tokens.TokenTendency]:
    """The right-hand side for tokens, by the sums of `particles.sums`, or chosen by their number.

    Parameters
    ----------
    particles : Particles
    dynamics : Dynamics
    may_span : bool
        Whether noise lets tokens stay in the span of their starts.

    Raises
    ------
    ValueError
        If `sums` is 'gram' and tokens leave their span, see `check_sums`.
    """
    check_sums(particles, dynamics, may_span=may_span)
    # tokens may use the chart of their span only if all terms keep them in it
    may_span = may_span and dynamics.stays_in_span

    def of_terms(acting: Dynamics) -> list[tuple[tokens.Chart, tokens.FieldAtTokens]]:
        return [_chart_and_field(particles, term, may_span) for _, term in acting.weighted_terms]

    # tokens turn as angles where they have frequencies of their own
    charts: list[tokens.Chart] = []
    if particles.natural_frequencies is not None:
        charts.append(tokens.Angles())
    if dynamics.varies:
        charts += [chart for instance in dynamics.instances for chart, _ in of_terms(instance)]
        if particles.dim == 2 and particles.sums != "gram":
            # β decides whether sums go along the circle, and β varies
            terms = [term for instance in dynamics.instances for _, term in instance.weighted_terms]
            kernels = [term for term in terms if term.pair_kernel and not term.is_balanced]
            charts += [tokens.Angles() for _ in kernels]

    def make(acting: Dynamics) -> tokens.TokenTendency:
        fields = of_terms(acting)
        # all fields can be asked for on one chart
        candidates = [*charts, *(chart for chart, _ in fields)]
        chart = next((chart for chart in candidates if chart.has_angles), candidates[0])
        parts = [
            (weight, field if near.has_angles == chart.has_angles else tokens.AlongCircle(field))
            for (weight, _), (near, field) in zip(acting.weighted_terms, fields, strict=True)
        ]
        is_single = len(parts) == 1 and parts[0][0] == 1.0
        field = parts[0][1] if is_single else tokens.SumAtTokens(acting, parts)
        return tokens.TokenTendency(particles, chart, field)

    return InTime(lambda time: make(dynamics.at(time)), t) if dynamics.varies else make(dynamics)


def _chart_and_field(
    particles: Particles, dynamics: Dynamics, may_span: bool
) -> tuple[tokens.Chart, tokens.FieldAtTokens]:
    """Return the chart and the field of one term."""
    (n, d), kernel = particles.points.shape, dynamics.pair_kernel
    spans = may_span and (particles.sums == "gram" or (particles.sums == "auto" and 4 * n <= d))
    if dynamics.mask is not None:
        if kernel is not None and particles.has_kernel_sums(kernel):
            means, chart = causal_means(kernel, d), tokens.Angles() if d == 2 else tokens.Points()
            if means.holds(particles.weights, dynamics.mask.decay):
                return chart, tokens.MaskedKernelAtTokens(dynamics, means)
        return tokens.Span() if spans else tokens.Points(), tokens.MaskedAtTokens(dynamics)
    if dynamics.is_balanced:
        return tokens.Points(), tokens.BalancedAtTokens(particles, dynamics)
    if dynamics.multipliers is not None:
        return tokens.Angles(), tokens.PhasesAtTokens(dynamics)
    if kernel is None:
        return tokens.Points(), tokens.OutputAtTokens(particles, dynamics)
    if spans:
        return tokens.Span(), tokens.KernelAtTokens(dynamics, kernel, "gram")
    if particles.sums == "float32" and kernel.growth is not None:
        single = Exponential(kernel.growth, np.float32)
        return tokens.Points(), tokens.KernelAtTokens(dynamics, single, particles.sums)
    if (fast := particles.kernel_sums(kernel)) is None:
        return tokens.Points(), tokens.KernelAtTokens(dynamics, kernel, "direct")
    if d == 2:
        return tokens.Angles(), tokens.KernelAtAngles(dynamics, fast)
    return tokens.Points(), tokens.KernelAtTokens(dynamics, fast, "transforms")


def check_sums(particles: Particles, dynamics: Dynamics, *, may_span: bool = True) -> None:
    """Refuse tokens that shall move in their span, where the dynamics or its noise lets them leave.

    Raises
    ------
    ValueError
        Naming `sums`, and what is allowed.
    """
    if particles.sums == "gram" and not (may_span and dynamics.stays_in_span):
        raise ValueError(
            f"sums must be 'auto', 'direct' or 'transforms' for {shown(particles)} under "
            f"{shown(dynamics)}, got 'gram': inner products alone move tokens under SA, USA and "
            f"Interaction without noise"
        )


def check_moved(measure: AnyMeasure, dynamics: OwnDynamics) -> None:
    """Refuse a measure that this dynamics does not move.

    Raises
    ------
    ValueError
        Naming what does not fit.
    """
    adapted = adapt(dynamics)
    check_dim(adapted, measure.dim)
    for _, term in _terms_of(adapted):
        _check_moved(measure, term)
    if isinstance(measure, LineFlowMap | SphereFlowMap):
        check_carried(measure, adapted)


def check_carried(measure: AnyMeasure, dynamics: Dynamics) -> None:
    """Refuse a flow map, or a density that shall become one, whose nodes this does not carry.

    Raises
    ------
    ValueError
        Naming what it lacks.
    """
    for _, term in _terms_of(dynamics):
        if not term.known_by_output:
            continue
        if term.divergence_at is None:
            raise ValueError(
                f"dynamics must have a kernel or heads, or divergence(measure, points), for a flow "
                f"map, got {shown(term)}"
            )
        if measure.dim == 3 and measure.axis is None and not term.known_by_moments:
            raise ValueError(
                f"dynamics must have a kernel or heads, or reads_measure = False, for a flow map "
                f"on S^2, got {shown(term)}: fields there are not told the measure, since meshes "
                f"that are laid anew need them at earlier times"
            )


def _terms_of(dynamics: Dynamics) -> list[tuple[float, Dynamics]]:
    """Return the terms of all layers; a layer that varies in time has those at its knots."""
    instances = [instance for layer in dynamics.representatives for instance in layer.instances]
    return [term for instance in instances for term in instance.weighted_terms]


def _check_moved(measure: AnyMeasure, dynamics: Dynamics) -> None:
    if dynamics.mask is not None:
        check_ordered(measure, dynamics.mask)
    if isinstance(measure, OscillatorDensity):
        _check_phases(measure, dynamics)
    elif dynamics.multipliers is None or measure.axis is None:
        return
    elif isinstance(measure, Density):
        raise ValueError(f"space must be a Circle for {shown(dynamics)}, got {measure.space}")


def _check_phases(measure: OscillatorDensity, dynamics: Dynamics) -> None:
    if dynamics.multipliers is None:
        raise ValueError(
            f"dynamics must be a CircleInteraction for {shown(measure)}, got {shown(dynamics)}"
        )
    if measure.widths.any() and len(dynamics.multipliers) > 2:
        raise ValueError(
            f"widths must be 0 under an interaction with harmonics beyond the first, "
            f"{shown(dynamics)}, got {measure.widths.max():g}"
        )


def tendency(
    measure: AnyMeasure, dynamics: Dynamics, t: float = 0.0
) -> AnyTendency | InTime[AnyTendency]:
    """The right-hand side f(state, out) that moves this kind of measure under the dynamics.

    Where the dynamics varies in time, `at` has the right-hand side of each time; t is now.

    Raises
    ------
    ValueError
        If the dynamics does not move this kind of measure.
    """
    check_measure("measure", measure)
    check_moved(measure, dynamics)
    if isinstance(measure, Particles):
        return token_tendency(measure, dynamics, t=t)
    make = _maker(measure)
    return InTime(lambda time: make(dynamics.at(time)), t) if dynamics.varies else make(dynamics)


_Maker = Callable[[Dynamics], AnyTendency]


@singledispatch
def _maker(measure: object) -> _Maker:
    """The right-hand side for a measure, as a function of the dynamics that acts."""
    raise TypeError(f"no right-hand side moves {measure!r}")


@_maker.register
def _(measure: OscillatorDensity) -> _Maker:
    return partial(OscillatorDensityTendency, measure)


@_maker.register
def _(measure: LineFlowMap) -> _Maker:
    return lambda dynamics: line.LineTendency(
        measure, dynamics, line.field_on_line(dynamics, measure.dim, measure.axis, dynamics)
    )


@_maker.register
def _(measure: SphereFlowMap) -> _Maker:
    def make(dynamics: Dynamics) -> AnyTendency:
        field = sphere.field_on_sphere(dynamics)
        return sphere.SphereTendency(measure, field, field.of(dynamics))

    return make


@_maker.register
def _(measure: Density) -> _Maker:
    # heads whose scores stay the same keep their tables
    tables: ScoreTables = {}

    def make(dynamics: Dynamics) -> AnyTendency:
        if len(tables) > _MOST_TABLES:
            tables.clear()
        has_series = dynamics.is_isotropic and not dynamics.is_balanced
        if has_series and dynamics.pair_kernel is not None:
            return densities.SeriesTendency(measure, dynamics)
        return densities.GridTendency(measure, dynamics, tables)

    return make
