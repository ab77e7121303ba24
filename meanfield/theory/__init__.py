"""Closed forms that runs are held against; nothing that computes a run imports this room."""

from meanfield.harmonics import eigenvalues, log_eigenvalues
from meanfield.theory.measures import (
    critical_noise,
    dobrushin_constant,
    energy_dirac,
    energy_uniform,
    growth_rates,
    sinkhorn_energy_dirac,
    sinkhorn_energy_uniform,
    transition_beta,
)
from meanfield.theory.oscillators import (
    gaussian_critical_coupling,
    kuramoto_critical_coupling,
    lorentzian_critical_coupling,
    ott_antonsen,
)
from meanfield.theory.tokens import orthogonal_arrival, orthogonal_tokens, wendel

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
    "sinkhorn_energy_dirac",
    "sinkhorn_energy_uniform",
    "transition_beta",
    "wendel",
]
