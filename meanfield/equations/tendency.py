"""d/dt of a measure's state under a dynamics: where data and physics meet, the one inner loop."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from meanfield._checks import shown
from meanfield.dynamics.facts import Dynamics, check_dim
from meanfield.dynamics.own import OwnDynamics, adapt
from meanfield.equations import density as densities
from meanfield.equations import line, sphere, tokens
from meanfield.kernels.kernel import Exponential
from meanfield.measures import AnyMeasure, check_measure
from meanfield.measures.density import Density
from meanfield.measures.flow_map import LineFlowMap, SphereFlowMap
from meanfield.measures.oscillators import OscillatorDensity
from meanfield.measures.particles import Particles

Tendency = (
    densities.DensityTendency
    | line.FlowTendency
    | sphere.SphereTendency
    | tokens.TokenTendency
    | densities.GridTendency
    | densities.OscillatorDensityTendency
)


def token_tendency(
    particles: Particles, dynamics: Dynamics, *, may_span: bool = True
) -> tokens.TokenTendency:
    """The right-hand side for tokens, by the sums of `particles.sums`, or chosen by their number.

    Parameters
    ----------
    particles : Particles
    dynamics : SA, USA, DoublyStochastic, CircleInteraction, Attention or FeedForward
    may_span : bool
        Whether noise lets tokens stay in the span of their starts.

    Raises
    ------
    ValueError
        If `sums` is 'gram' and tokens leave their span, see `check_sums`.
    """
    check_sums(particles, dynamics, may_span=may_span)
    field: tokens.TokenField
    chart: tokens.Points | tokens.Angles = tokens.Points()
    (n, d), kernel = particles.points.shape, dynamics._kernel
    if dynamics._balanced:
        field = tokens.BalancedField(particles, dynamics)
    elif dynamics._multipliers is not None:
        chart, field = tokens.Angles(), tokens.PhaseField(dynamics)
    elif kernel is None:
        field = tokens.OutputField(particles, dynamics)
    elif may_span and (particles.sums == "gram" or (particles.sums == "auto" and 4 * n <= d)):
        chart, field = tokens.Span(), tokens.KernelField(dynamics, kernel, "gram")
    elif particles.sums == "float32" and kernel.growth is not None:
        single = Exponential(kernel.growth, np.float32)
        field = tokens.KernelField(dynamics, single, particles.sums)
    elif (fast := particles._kernel_sums(kernel)) is None:
        field = tokens.KernelField(dynamics, kernel, "direct")
    elif d == 2:
        chart, field = tokens.Angles(), tokens.CellField(dynamics, fast)
    else:
        field = tokens.KernelField(dynamics, fast, "transforms")
    return tokens.TokenTendency(particles, chart, field)


def check_sums(particles: Particles, dynamics: Dynamics, *, may_span: bool = True) -> None:
    """Refuse tokens that shall move in their span, where the dynamics or its noise lets them leave.

    Raises
    ------
    ValueError
        Naming `sums`, and what is allowed.
    """
    if particles.sums == "gram" and not (may_span and dynamics._gram):
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
    check_dim(dynamics, measure.dim)
    multipliers = adapt(dynamics)._multipliers
    if multipliers is None:
        if measure._frequencies is not None:
            raise ValueError(
                f"dynamics must be a CircleInteraction for {shown(measure)}, got {shown(dynamics)}"
            )
    elif isinstance(measure, Density) and measure.axis is not None:
        raise ValueError(f"space must be a Circle for {shown(dynamics)}, got {measure.space}")
    elif isinstance(measure, OscillatorDensity) and measure.widths.any() and len(multipliers) > 2:
        raise ValueError(
            f"widths must be 0 under an interaction with harmonics beyond the first, "
            f"{shown(dynamics)}, got {measure.widths.max():g}"
        )


def tendency(measure: AnyMeasure, dynamics: Dynamics) -> Tendency:
    """The right-hand side f(state, out) that moves this kind of measure under the dynamics.

    Raises
    ------
    ValueError
        If the dynamics does not move this kind of measure.
    """
    check_measure("measure", measure)
    check_moved(measure, dynamics)
    return _tendency(measure, dynamics)


@singledispatch
def _tendency(measure: Any, dynamics: Dynamics) -> Tendency:
    """Of tokens, unless the measure is another."""
    return token_tendency(measure, dynamics)


_tendency.register(OscillatorDensity)(densities.OscillatorDensityTendency)


@_tendency.register
def _(measure: LineFlowMap, dynamics: Dynamics) -> Tendency:
    if not dynamics._isotropic:
        raise _not_moved(measure, dynamics, "have a kernel")
    return line.FlowTendency(measure, dynamics)


@_tendency.register
def _(measure: SphereFlowMap, dynamics: Dynamics) -> Tendency:
    return sphere.SphereTendency(measure, sphere.field_on_sphere(dynamics), dynamics)


@_tendency.register
def _(measure: Density, dynamics: Dynamics) -> Tendency:
    if dynamics._isotropic and not dynamics._balanced:
        return densities.DensityTendency(measure, dynamics)
    if not dynamics._scores and dynamics._sums != "none":
        raise _not_moved(measure, dynamics, "have a kernel or heads, or be a feed-forward layer,")
    return densities.GridTendency(measure, dynamics)


def _not_moved(measure: AnyMeasure, dynamics: Dynamics, must: str) -> ValueError:
    return ValueError(f"dynamics must {must} for {shown(measure)}, got {shown(dynamics)}")
