"""Tokens that draw the attention of all heads, or whose norm stands out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from meanfield._checks import real_array
from meanfield.typing import Array, ArrayLike, NDArray

# at most nine tokens can draw more than a tenth of the attention, however many there are
DRAWS_MUCH = 0.1
# among few tokens a tenth is no more than anyone's share, but so many times 1/n is
_TIMES_EVEN = 5.0
# norms of independent coordinates differ by 1/√(2d), those of ordinary tokens by less than this
# factor
STANDS_OUT = 3.0


@dataclass(frozen=True, eq=False, repr=False)
class Sinks:
    """Which tokens of a layer are sinks, and why.

    Attributes
    ----------
    attention_share : ndarray, shape (n,), or None
        The share of what other tokens attend to elsewhere than themselves that goes to this token,
        the median over heads; None without attention.
    norm_ratio : ndarray, shape (n,)
        Norms of the states over their median.

    Examples
    --------
    >>> from meanfield.trained import find_sinks
    >>> attention = np.full((2, 60, 60), 0.5 / 59)
    >>> attention[:, :, 3] = 0.5  # all attend to the token 3
    >>> find_sinks(np.ones((60, 2)), attention).attention_share[[2, 3]].round(3)
    array([0.009, 0.5  ])
    """

    attention_share: Array | None
    norm_ratio: Array

    @property
    def by_attention(self) -> NDArray[np.bool_]:
        """Tokens that in half of the heads draw more than a tenth, and 5/n, of the attention."""
        if self.attention_share is None:
            return np.zeros(len(self.norm_ratio), dtype=bool)
        least = max(DRAWS_MUCH, _TIMES_EVEN / len(self.norm_ratio))
        return np.asarray(self.attention_share > least)

    @property
    def by_norm(self) -> NDArray[np.bool_]:
        """Tokens whose norm is more than three times the median."""
        return np.asarray(self.norm_ratio > STANDS_OUT)

    @property
    def is_sink(self) -> NDArray[np.bool_]:
        """Tokens that are one or the other."""
        return self.by_attention | self.by_norm

    def __repr__(self) -> str:
        return f"Sinks(tokens {np.flatnonzero(self.is_sink).tolist()} of {len(self.norm_ratio)})"


def find_sinks(states: ArrayLike, attention: ArrayLike | None = None) -> Sinks:
    """Find the tokens that draw much of the attention of all heads, or whose norm stands out.

    The attention that tokens give to themselves is left out, and a token's share in a head is
    that of what is left: Σ_{i≠j} A_ij/Σ_{i≠k} A_ik. The shares of all tokens have sum 1. The median
    over heads does not see what a minority of heads does, as those that look at the token before.
    Both thresholds are conventions: at a tenth at most nine tokens can be sinks, and norms of
    ordinary tokens differ by less than a factor of 3 in the models that were looked at.

    Parameters
    ----------
    states : array_like, shape (n, d)
        As the model has them, of any length.
    attention : array_like, shape (H, n, n), optional

    Returns
    -------
    Sinks

    Raises
    ------
    ValueError
        If shapes do not fit, or a number is not finite.

    Examples
    --------
    >>> attention = np.full((2, 60, 60), 0.5 / 59)
    >>> attention[:, :, 3] = 0.5
    >>> np.flatnonzero(find_sinks(np.ones((60, 2)), attention).is_sink)
    array([3])
    """
    rows = real_array("states", states, 2)
    if attention is None:
        return sinks_of(rows, [])
    weights, n = real_array("attention", attention, 3), len(rows)
    if weights.shape[1:] != (n, n):
        raise ValueError(f"attention must have shape (H, {n}, {n}), got {weights.shape}")
    return sinks_of(rows, weights)


def sinks_of(states: Array, heads: Iterable[Array]) -> Sinks:
    """Sinks of states (n, d) and heads (n, n), of which no two need be there at once.

    Raises
    ------
    ValueError
        If most states are 0.
    """
    norms = np.linalg.norm(states, axis=1)
    median = float(np.median(norms))
    if median == 0.0:
        raise ValueError(f"states must have a median norm > 0, got {median:g}")
    drawn = [np.where(np.eye(len(head), dtype=bool), 0.0, head).sum(axis=0) for head in heads]
    if not drawn:
        return Sinks(None, norms / median)
    totals = np.sum(drawn, axis=1, keepdims=True)
    # a head in which each token sees only itself draws nothing anywhere
    shares = np.divide(drawn, totals, out=np.zeros_like(drawn), where=totals > 0.0)
    return Sinks(np.median(shares, axis=0), norms / median)
