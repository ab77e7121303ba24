"""Measures that refute: with an energy not above that of σ, or not below that of a Dirac."""

from __future__ import annotations

import math

import numpy as np

from meanfield.studies.proposition.kernels import Kernel
from meanfield.studies.proposition.polynomials import exact_multiplicities
from meanfield.studies.proposition.problem import ROUNDING


def of_degree(kernel: Kernel, k: int) -> str:
    """1 + P_k >= 0 for a degree with Λ_k <= 0: (E - E(σ))/U = p_k/N_k² by Funk and Hecke."""
    problem = kernel.problem
    density = f"the density 1 + P_{k}(<x, e>)"
    if k > problem.kmax or (kernel.exact is not None and kernel.exact[k] == 0):
        return f"{density} has E = E(σ), as Λ_{k} = 0"
    count = exact_multiplicities(problem.dim, k)[k]
    share, error = (one / count / count for one in (problem.weights[k], problem.unresolved[k]))
    return f"{density} has E < E(σ): (E - E(σ))/U = {share:.6g}, right to {error:.1g}"


def of_maximisers(kernel: Kernel) -> tuple[str, str]:
    """What can be said of Diracs, and a measure that is no Dirac and has no less energy."""
    above = _of_pairs(kernel)
    if above:
        return "", above
    exact = kernel.exact
    if exact is None:
        t = np.array([4.0])
        if abs(float(kernel.problem.defect(t)[0])) <= 2.0 * kernel.problem.error:
            return "W(-1) = W(1) to rounding, so that (δ_x + δ_-x)/2 may have E = E(δ)", ""
        return "", ""
    if any(one < 0 for one in exact[1:]):
        return "", ""
    # r_k = 1 on the sphere at angles 0 and π, k even; on the circle at the multiples of 2π/k
    common = math.gcd(*(k for k, one in enumerate(exact) if k and one > 0))
    if kernel.problem.dim > 2:
        common = 2 - common % 2
    if common == 1:
        return "Diracs alone are the maximisers", ""
    other = "(δ_x + δ_-x)/2" if common == 2 else f"the regular {common}-gon"
    told = f"Diracs are maximisers, and {other} is one as well"
    return told, f"{other} has E = E(δ)"


def _of_pairs(kernel: Kernel) -> str:
    """Two equal masses at the cosine at which W is largest, if that is not 1."""
    problem = kernel.problem
    cosines = np.linspace(-1.0, 1.0, 4001)
    defects = problem.defect(2.0 * (1.0 - cosines))
    least = int(np.argmin(defects))
    # W(t) and W(1) have an error each, and equal masses take half of their difference
    if not defects[least] < -2.0 * problem.error - ROUNDING:
        return ""
    return (
        f"(δ_x + δ_y)/2 with <x, y> = {cosines[least]:g} has E > E(δ): "
        f"(E - E(δ))/U = {-0.5 * defects[least]:.6g}, right to {problem.error:.1g}"
    )
