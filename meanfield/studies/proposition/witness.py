"""A measure that refutes: its energy is not above that of σ, or is above that of a Dirac."""

from __future__ import annotations

import numpy as np

from meanfield.harmonics import gauss_gegenbauer, gegenbauer
from meanfield.studies.proposition import direct
from meanfield.studies.proposition.problem import Problem


def witness(problem: Problem) -> str:
    """1 + P_k >= 0 for a degree with Λ_k <= 0, and its share by a double integral.

    P_k >= -1, so this is a density, and by Funk and Hecke (E - E(σ))/U = p_k/N_k².
    """
    weights = problem.weights[1:]
    lowest = int(np.argmin(weights)) + 1
    # without a negative one, a degree that the kernel does not see
    k = lowest if weights[lowest - 1] < 0.0 else problem.kmax + 1
    nodes, masses = gauss_gegenbauer(problem.dim, problem.kmax + k + 16)
    density = 1.0 + gegenbauer(problem.dim, k, nodes)[k]
    share = direct.of_profile(nodes, masses * density, problem, problem.kmax + 16)
    relation = "=" if abs(share) < 1e-14 else "<" if share < 0.0 else ">"
    return (
        f"the density 1 + P_{k}(<x, e>) has E {relation} E(σ): "
        f"(E - E(σ))/U = {0.0 if relation == '=' else share:.6g}"
    )
