"""What a run keeps of the energy that its dynamics climbs, and of the order of phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from meanfield.dynamics import Attention, CircleInteraction, Dynamics
from meanfield.functionals import balance, interaction_energy, order_parameter, sinkhorn_energy
from meanfield.functionals.energies import dissipation_in_unit
from meanfield.measures import AnyMeasure
from meanfield.tendency import IsotropicTendency, tendency


def own_energy(measure: AnyMeasure, dynamics: Dynamics) -> float | None:
    """E_DS of doubly stochastic attention, F of an odd interaction; None where it is E_β."""
    if dynamics.balanced:
        return sinkhorn_energy(measure, dynamics.beta)
    if isinstance(dynamics, CircleInteraction) and dynamics.is_odd:
        return interaction_energy(measure, dynamics)
    return None


def balance_of(
    measure: AnyMeasure,
    dynamics: Dynamics,
    dissipation: Callable[[], float],
    work: float,
    log_unit: float,
) -> dict[str, float]:
    """The rate at which an energy changes and its integral, in units of e^{log_unit}.

    Parameters
    ----------
    measure : Density, FlowMap or Particles
    dynamics : Dynamics
        With an energy.
    dissipation : callable
        As `dissipation_of` the measure; attention that has a form computes its own.
    work : float
        ∫ dissipation dt since t = 0, in these units.
    log_unit : float
        That of the run's records; 0 for interactions.
    """
    if isinstance(dynamics, Attention):
        return balance(measure, dynamics, work, log_unit)
    if isinstance(dynamics, CircleInteraction):
        return {
            "interaction_energy": interaction_energy(measure, dynamics),
            "interaction_dissipation": dissipation(),
            "interaction_work": work,
        }
    sign = energy.sign if (energy := dynamics.energy) else 1
    return {"dissipation": dissipation(), "work": sign * work}


def dissipation_of(measure: AnyMeasure, dynamics: Dynamics) -> float:
    """The rate at which an energy changes, of an interaction ∫ |X|² dmu."""
    if not isinstance(dynamics, CircleInteraction):
        return dissipation_in_unit(measure, dynamics)[0]
    flow = measure.resolving(dynamics.reach)
    rate = cast(IsotropicTendency, tendency(flow, dynamics))
    rate(rate.initial_state, np.empty_like(rate.initial_state))
    return rate.scaled_dissipation()


def order_numbers(measure: AnyMeasure, dynamics: Dynamics) -> dict[str, float]:
    """r and ψ of r e^{iψ} = ∫ e^{iθ} dmu, as variables, under an interaction of phases."""
    if not isinstance(dynamics, CircleInteraction):
        return {}
    return dict(zip(("order_parameter", "mean_phase"), order_parameter(measure), strict=True))
