"""d/dt of a measure's state under a dynamics: where data and physics meet, the one inner loop."""

from __future__ import annotations

from meanfield.dynamics import SA, USA, Field
from meanfield.measures import AnyMeasure, Density, LineFlowMap, Particles
from meanfield.tendency.batch import LARGEST_BETA, BatchTendency, GramBatch, batch_tendency
from meanfield.tendency.density import DensityTendency
from meanfield.tendency.flow import FlowTendency, LineField
from meanfield.tendency.gram import GramTendency
from meanfield.tendency.particles import CircleTendency, ParticleTendency
from meanfield.tendency.sphere_field import SphereField
from meanfield.token_sums import CircleSums

__all__ = [
    "SphereField",
    "DensityTendency",
    "FlowTendency",
    "LineField",
    "CircleTendency",
    "GramTendency",
    "ParticleTendency",
    "LARGEST_BETA",
    "BatchTendency",
    "GramBatch",
    "Tendency",
    "batch_tendency",
    "tendency",
    "token_tendency",
]

TokenTendency = ParticleTendency | CircleTendency | GramTendency
Tendency = DensityTendency | FlowTendency | TokenTendency


def token_tendency(
    particles: Particles, dynamics: Field, *, may_span: bool = True
) -> TokenTendency:
    """The right-hand side for tokens, by the sums that `particles.sums` or their number asks for.

    Parameters
    ----------
    particles : Particles
    dynamics : SA, USA, Attention or FeedForward
    may_span : bool
        Whether tokens stay in the span of their starts, so that a Gram matrix can move them.

    Raises
    ------
    ValueError
        If the sums that are asked for can't be done for these tokens or this dynamics.
    """
    if isinstance(dynamics, (SA, USA)):
        n, d = particles.points.shape
        gram = particles.sums == "gram" or (particles.sums == "auto" and 4 * n <= d)
        if gram and may_span:
            return GramTendency(particles, dynamics)
        fast = particles.fast_sums(dynamics.beta)
        if isinstance(fast, CircleSums):
            return CircleTendency(particles, dynamics, fast)
        if fast is not None or particles.sums in ("auto", "direct"):
            return ParticleTendency(particles, dynamics, fast)
    elif particles.sums in ("auto", "direct"):
        return ParticleTendency(particles, dynamics)
    raise ValueError(
        f"sums must be 'auto' or 'direct' for {dynamics!r} and {particles!r}, got "
        f"{particles.sums!r}: transforms are for SA and USA on the circle (beta <= 100) and S^2, "
        f"the Gram matrix for SA and USA without noise"
    )


def tendency(measure: AnyMeasure, dynamics: Field) -> Tendency:
    """The right-hand side f(state, out) that moves this kind of measure under the dynamics.

    Raises
    ------
    ValueError
        If the dynamics does not move this kind of measure.
    """
    if isinstance(measure, Particles):
        return token_tendency(measure, dynamics)
    if not isinstance(dynamics, (SA, USA)):
        raise ValueError(f"dynamics must be SA or USA for {measure!r}, got {dynamics!r}")
    if isinstance(measure, LineFlowMap):
        return FlowTendency(measure, dynamics)
    if isinstance(measure, Density):
        return DensityTendency(measure, dynamics)
    raise ValueError(f"measure must be a Density, FlowMap or Particles, got {measure!r}")
