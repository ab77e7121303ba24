"""What a dynamics and a run are called in the titles of figures and pages."""

from __future__ import annotations

from meanfield.dynamics import AnyDynamics, CircleInteraction, FeedForward, adapt
from meanfield.plot.frames import heading
from meanfield.solution import Solution


def dynamics_title(dynamics: AnyDynamics) -> str:
    """The name of a dynamics with the numbers that tell it from others of its kind.

    Examples
    --------
    >>> from meanfield.dynamics import Kuramoto
    >>> dynamics_title(Kuramoto(2.0, noise=0.5))
    'Kuramoto, K = 2, τ = 0.5'
    """
    if isinstance(dynamics, CircleInteraction):
        # of the energy that runs keep, β is 0, and means nothing
        is_sine = dynamics.sin == (1.0,) and not any(dynamics.cos)
        name = "Kuramoto" if is_sine else dynamics.name
        noise = f", τ = {dynamics.noise:g}" if dynamics.noise > 0.0 else ""
        return f"{name}, K = {dynamics.coupling:g}{noise}"
    known = adapt(dynamics)
    if all(isinstance(layer, FeedForward) for layer in known.layers):
        return dynamics.name
    return heading(dynamics.name, dynamics.beta, known.sign, dynamics.noise)


def run_title(sol: Solution) -> str:
    """The dynamics of a run, and how and when it ended."""
    return f"{dynamics_title(sol.dynamics)}: {sol.status} at t = {sol.t[-1]:.4g}"
