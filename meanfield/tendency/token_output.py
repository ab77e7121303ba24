"""What any attention adds to tokens, by sums that their number asks for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from meanfield.bilinear import score_matrix
from meanfield.dynamics import Attention, CircleInteraction, Dynamics, FeedForward, Isotropic
from meanfield.measures import Particles
from meanfield.token_sums import ScoreSums

Array = NDArray[np.float64]


class TokenOutput:
    """`dynamics.output` of tokens at the tokens, head by head in O(n) where there are such sums.

    Parameters
    ----------
    particles : Particles
        Whose number and `sums` settle how it is done.
    dynamics : SA, USA, DoublyStochastic, CircleInteraction, Attention or FeedForward

    Attributes
    ----------
    sums : str
        'direct', 'transforms', 'direct and transforms', 'none' for a feed-forward layer, or 'own'
        for a dynamics that is not of the package.
    """

    def __init__(self, particles: Particles, dynamics: Dynamics) -> None:
        self.dynamics = dynamics
        self._fast: list[ScoreSums | None] = []
        if isinstance(dynamics, Isotropic):
            ways = ["direct" if particles.fast_sums(dynamics.beta) is None else "transforms"]
        elif isinstance(dynamics, Attention):
            ways = [self._choose(particles, scores) for scores in dynamics.scores]
        elif isinstance(dynamics, CircleInteraction):
            ways = ["transforms"]
        else:
            ways = ["none" if isinstance(dynamics, FeedForward) else "own"]
        self.sums = joined(ways)

    def _choose(self, particles: Particles, scores: Array | float) -> str:
        fast = particles.fast_score_sums(score_matrix(scores, particles.dim))
        self._fast.append(fast)
        if fast is not None:
            return "transforms"
        z = particles.points @ score_matrix(scores, particles.dim).T
        return "direct" if particles.sums_at(z) is None else "transforms"

    def __call__(self, particles: Particles) -> Array:
        """Σ_h V_h ∇G [/ G] at the tokens, shape (n, d)."""
        dynamics, points = self.dynamics, particles.points
        if not isinstance(dynamics, Attention):
            return dynamics.output(particles, points)
        return dynamics.combined(self.moments(particles))

    def moments(self, particles: Particles) -> list[tuple[Array, Array]]:
        """log G and ∇G/G of attention at the tokens, head by head."""
        points = particles.points
        return [
            particles.log_moment(z)
            if fast is None
            else fast.quick(points, particles.weights, points)
            for fast, z in zip(self._fast, self.dynamics.queries(points), strict=True)  # type: ignore[attr-defined]
        ]


def joined(ways: Iterable[str]) -> str:
    """Ways to sum in one phrase, each once.

    Examples
    --------
    >>> joined(["transforms", "direct", "none", "direct"]), joined(["none"])
    ('direct and transforms', 'none')
    """
    each = {word for way in ways for word in way.split(" and ")}
    return " and ".join(sorted(each - {"none"})) or "none"
