"""Harmonic analysis of zonal functions on S^{d-1}: polynomials, Gauss nodes, multipliers."""

from meanfield.harmonics.multipliers import (
    bandwidth,
    degree_weights,
    eigenvalues,
    eigenvalues_in_unit,
    log_eigenvalues,
    log_first_over_beta,
    relative_eigenvalues,
    scaled_eigenvalues,
)
from meanfield.harmonics.polynomials import (
    gauss_gegenbauer,
    gegenbauer,
    gegenbauer_derivative,
    multiplicities,
    multiplicity_growth,
)

__all__ = [
    "bandwidth",
    "degree_weights",
    "eigenvalues",
    "eigenvalues_in_unit",
    "gauss_gegenbauer",
    "gegenbauer",
    "gegenbauer_derivative",
    "log_eigenvalues",
    "log_first_over_beta",
    "multiplicities",
    "multiplicity_growth",
    "relative_eigenvalues",
    "scaled_eigenvalues",
]
