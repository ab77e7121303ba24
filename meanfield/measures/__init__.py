"""Measures: what answers G(z) = ∫ e^{<z,y>} dmu(y) and its gradient."""

from __future__ import annotations

from typing import Any

from meanfield._checks import shown, suggest_measure
from meanfield.measures.density import Density
from meanfield.measures.flow_map import FlowMap, LineFlowMap, SphereFlowMap
from meanfield.measures.oscillators import OscillatorDensity
from meanfield.measures.particles import Oscillators, Particles

__all__ = [
    "AnyMeasure",
    "Density",
    "FlowMap",
    "LineFlowMap",
    "OscillatorDensity",
    "Oscillators",
    "Particles",
    "SphereFlowMap",
    "check_measure",
    "check_pair",
]


AnyMeasure = Density | FlowMap | Particles


def check_measure(name: str, value: Any) -> None:
    """Refuse what is no measure, a law above all.

    Parameters
    ----------
    name : str
        Of the argument.
    value : object

    Raises
    ------
    ValueError
        Naming the argument and its value, and for a law the measures that it makes.
    """
    if isinstance(value, Density | FlowMap | Particles):
        return
    raise ValueError(
        f"{name} must be a Density, FlowMap or Particles, got "
        f"{shown(value)}{suggest_measure(value)}"
    )


def check_pair(mu: Any, nu: Any) -> None:
    """Refuse two that are no measures of one dimension.

    Raises
    ------
    ValueError
        If they are not.
    """
    check_measure("mu", mu)
    check_measure("nu", nu)
    if mu.dim != nu.dim:
        raise ValueError(
            f"nu must have dim = {mu.dim} as mu has, got {shown(nu)} with dim = {nu.dim}"
        )
