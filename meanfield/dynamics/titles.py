"""Titles of dynamics, for headings of figures and pages, and for summaries."""

from __future__ import annotations

from collections.abc import Sequence

from meanfield._checks import is_number
from meanfield.dynamics import AnyDynamics
from meanfield.dynamics.causal import Causal
from meanfield.dynamics.facts import Sum
from meanfield.dynamics.kuramoto import CircleInteraction
from meanfield.dynamics.layers import FeedForward, LayerMap
from meanfield.dynamics.own import ForgottenDynamics, adapt
from meanfield.dynamics.schedule import TimeDependent, walk_fields

_SYMBOLS = {"beta": "β", "weights": "w"}


def dynamics_title(dynamics: AnyDynamics) -> str:
    """The name of a dynamics with what tells it from others of its kind.

    Examples
    --------
    >>> from meanfield.dynamics import SA, Causal, Kuramoto
    >>> dynamics_title(Kuramoto(2.0, noise=0.5))
    'Kuramoto, K = 2, τ = 0.5'
    >>> dynamics_title(SA(lambda t: 1.0 + t, mask=Causal(decay=1.0)))
    'SA, β(t), causal mask with decay 1'
    """
    if isinstance(dynamics, CircleInteraction):
        noise = f", τ = {dynamics.noise:g}" if dynamics.noise > 0.0 else ""
        return f"{dynamics.name}, K = {dynamics.coupling:g}{noise}"
    if isinstance(dynamics, ForgottenDynamics):
        return dynamics.title
    if isinstance(dynamics, LayerMap):
        return f"{dynamics_title(dynamics.dynamics)}, layers of {dynamics.step:g}"
    adapted, values = adapt(dynamics), list(walk_fields(dynamics))
    varying = [name for name, part in values if isinstance(part, TimeDependent)]
    varying_names = [f"{_SYMBOLS.get(name, name)}(t)" for name in varying]
    varying_names += ["varies in time"] * (adapted.varies and not varying)
    varying_names += [_mask_title(part) for _, part in values if isinstance(part, Causal)]
    if all(isinstance(layer, FeedForward) for layer in adapted.representatives):
        return heading(dynamics.name, further=varying_names)
    beta = getattr(adapted, "beta", getattr(dynamics, "beta", None))
    beta = beta if is_number(beta) else None
    return heading(dynamics.name, beta, adapted.sign, dynamics.noise, varying_names)


def _mask_title(mask: Causal) -> str:
    return "causal mask" + (f" with decay {mask.decay:g}" if mask.decay > 0.0 else "")


def heading(
    name: str,
    beta: float | None = None,
    sign: int = 1,
    noise: float = 0.0,
    further: Sequence[str] = (),
) -> str:
    """The name of a dynamics in the title of a figure; further parts are said once.

    Examples
    --------
    >>> heading("SA", 4.0, -1)
    'SA, β = 4, repulsive'
    """
    words = [name, *([] if beta is None else [f"β = {beta:g}"]), *dict.fromkeys(further)]
    words += ["repulsive"] * (sign < 0) + [f"τ = {noise:g}"] * (noise > 0.0)
    return ", ".join(words)


def term_titles(dynamics: AnyDynamics) -> list[str]:
    """A title for each term of a sum, with its weight; none of what is no sum.

    Examples
    --------
    >>> from meanfield.dynamics import SA, USA
    >>> term_titles(SA(1.0) + 0.5 * USA(2.0))
    ['SA, β = 1', '0.5 USA, β = 2']
    """
    if not isinstance(dynamics, Sum):
        return []
    vary = isinstance(dynamics.weights, TimeDependent)
    weights = [
        "w(t) " if vary else "" if w == 1.0 else f"{w:g} " for w, _ in dynamics.weighted_terms
    ]
    titles = map(dynamics_title, dynamics.terms)
    return [weight + title for weight, title in zip(weights, titles, strict=True)]
