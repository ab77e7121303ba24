"""Which energy a run balances, and what is known of energies of a form."""

from __future__ import annotations

import numpy as np

from meanfield.dynamics import USA, Attention, DoublyStochastic, Isotropic
from meanfield.harmonics import log_eigenvalues
from meanfield.solution import Solution

OWN = ("sinkhorn_energy", "form_energy")


def balanced_energy(sol: Solution) -> str:
    """The variable whose gain is the run's `work`."""
    return next((name for name in OWN if name in sol.dataset), "energy")


def monotone_energy(sol: Solution) -> tuple[str, int] | None:
    """The energy that can't turn back and the sign of its way, None where there is none.

    Without noise that of SA and USA (Lemma 3.7, (3.6)), of doubly stochastic attention and of
    attention with a form; with noise USA and doubly stochastic attention lower their free energy,
    and SA has none.
    """
    dynamics = sol.dynamics
    if dynamics.noise > 0.0:
        is_flow = isinstance(dynamics, (USA, DoublyStochastic)) and "free_energy" in sol.dataset
        return ("free_energy", -1) if is_flow else None
    if isinstance(dynamics, Isotropic) and "work" in sol.dataset:
        return balanced_energy(sol), dynamics.sign
    if isinstance(dynamics, Attention) and dynamics.form and "form_energy" in sol.dataset:
        return "form_energy", dynamics.form.sign
    return None


def form_bounds(sol: Solution) -> tuple[float, float]:
    """e^{±β|D|}/(2β), in the unit of the dataset; the lower one is 1/(2β) where D >= 0.

    |<x, Dy>| <= |D|; and of a form D >= 0 each term <x, Dy>^m/m! of the exponential is a positive
    kernel.
    """
    form = getattr(sol.dynamics, "form", None)
    if form is None:
        return -np.inf, np.inf
    beta, dim = sol.dynamics.beta, sol.final.dim
    matrix = form.matrix * np.eye(dim) if np.ndim(form.matrix) == 0 else np.asarray(form.matrix)
    values = np.linalg.eigvalsh(matrix)
    norm, positive = float(np.abs(values).max()), values[0] >= 0.0
    if beta == 0.0:
        return (0.0 if positive else -0.5 * norm), 0.5 * norm
    log_unit = {"1": 0.0, "exp(beta)": beta}.get(str(sol.dataset.attrs.get("energy_unit", "1")))
    if log_unit is None:
        log_unit = float(log_eigenvalues(beta, dim, 0)[0])
    ends = np.array([0.0 if positive else -beta * norm, beta * norm])
    with np.errstate(over="ignore", under="ignore"):
        low, high = np.exp(ends - log_unit) / (2.0 * beta)
    return float(low), float(high)
