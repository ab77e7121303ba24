"""A model whose truth is known: layers made by self-attention on the sphere itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from meanfield import _checks
from meanfield.dynamics import FeedForward
from meanfield.measures import Particles
from meanfield.typing import Array, ArrayLike, NDArray, Rng

MASKS = "none", "causal"


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticLayers:
    """Layers with known β, masks, matrices and noise; it answers as `LayerStates` does.

    Attributes
    ----------
    states : ndarray, shape (L + 1, n, d)
        Unit rows.
    after_attention : ndarray, shape (L, n, d)
        Unit rows between the halves of a layer.
    attention : ndarray, shape (L, H, n, n)
    allowed : ndarray of bool, shape (n, n)
        Which entries the mask allows.
    beta : ndarray, shape (H,)
        The truth that `effective_beta` is to find.

    Examples
    --------
    >>> from meanfield.trained import synthetic_layers
    >>> layers = synthetic_layers([[1.0, 0.0], [0.0, 1.0]], 3, beta=[1.0, 2.0], step=0.1, rng=0)
    >>> layers.states.shape, layers.attention.shape, layers.beta
    ((4, 2, 2), (3, 2, 2, 2), array([1., 2.]))
    """

    states: Array
    after_attention: Array
    attention: Array
    allowed: NDArray[np.bool_]
    beta: Array

    norm = tokens = None

    def __repr__(self) -> str:
        return (
            f"SyntheticLayers({self.n_layers} layers, {self.n_tokens} tokens of dimension "
            f"{self.dim}, beta={self.beta.tolist()})"
        )

    @property
    def n_layers(self) -> int:
        """L."""
        return len(self.attention)

    @property
    def n_heads(self) -> int:
        """H."""
        return int(self.attention.shape[1])

    @property
    def n_tokens(self) -> int:
        """How many tokens n."""
        return int(self.states.shape[1])

    @property
    def dim(self) -> int:
        """Ambient dimension d."""
        return int(self.states.shape[2])

    def state(self, layer: int) -> Array:
        """The states before a layer, or after the last, shape (n, d)."""
        return np.asarray(self.states[layer])

    def points(self, layer: int) -> Array:
        """The same: they are unit rows."""
        return self.state(layer)

    def after_attention_at(self, layer: int) -> Array:
        """The states between the halves of a layer, shape (n, d)."""
        return np.asarray(self.after_attention[layer])

    def attention_at(self, layer: int) -> Array:
        """The attention of a layer, shape (H, n, n)."""
        return np.asarray(self.attention[layer])

    def heads_at(self, layer: int) -> Iterator[Array]:
        """The same, one head after the other."""
        return iter(self.attention_at(layer))

    def matrices_at(self, layer: int) -> None:  # noqa: ARG002
        """None: of these layers the truth is known without."""
        return


def synthetic_layers(
    start: ArrayLike,
    n_layers: int,
    *,
    beta: float | ArrayLike,
    step: float,
    rng: Rng,
    mask: str = "none",
    matrices: ArrayLike | None = None,
    noise: float = 0.0,
    feed_forward: FeedForward | None = None,
) -> SyntheticLayers:
    """Layers x_i ← (x_i + h mean_h Σ_j A^h_ij x_j)/|…|, A^h_ij = softmax_j(β_h<M_h x_i, x_j> + ε).

    This is (SA) with V = I by steps of h, and with noise ε of the scores that is drawn for each
    layer, head and pair. Feed-forward, where there is one, follows by x_i ← (x_i + h X(x_i))/|…|.

    Parameters
    ----------
    start : array_like, shape (n, d)
        Unit rows.
    n_layers : int
    beta : float or array_like, shape (H,)
        β of each head.
    step : float
        h > 0.
    rng : int or numpy Generator
        For the noise.
    mask : {'none', 'causal'}
    matrices : array_like, shape (H, d, d), optional
        M = KᵀQ of each head; the identity if omitted.
    noise : float
        Standard deviation of ε.
    feed_forward : FeedForward, optional

    Returns
    -------
    SyntheticLayers

    Raises
    ------
    ValueError
        If an argument is out of range or does not fit.

    Examples
    --------
    >>> layers = synthetic_layers([[1.0, 0.0], [0.0, 1.0]], 1, beta=1.0, step=1.0, rng=0)
    >>> layers.attention_at(0)[0, 0].round(3)  # e/(e + 1) and 1/(e + 1)
    array([0.731, 0.269])
    """
    points = _checks.unit_rows("start", start)
    n_layers = _checks.integer("n_layers", n_layers, low=1)
    n, dim = points.shape
    betas = np.array([_checks.number("beta", value) for value in _checks.several("beta", beta)])
    step, noise = _checks.number("step", step, above=0), _checks.number("noise", noise, low=0)
    _checks.one_of("mask", mask, MASKS)
    random = _checks.generator("rng", rng)
    if feed_forward is not None:
        _checks.check_type("feed_forward", feed_forward, FeedForward, "a FeedForward")
    forms = np.eye(dim)[None] if matrices is None else _checks.real_array("matrices", matrices, 3)
    if forms.shape[1:] != (dim, dim) or len(forms) not in (1, len(betas)):
        raise ValueError(
            f"matrices must have shape ({len(betas)}, {dim}, {dim}), got {forms.shape}"
        )
    allowed = np.tri(n, dtype=bool) if mask == "causal" else np.ones((n, n), dtype=bool)
    states, middles, attention = [points], [], []
    for _ in range(n_layers):
        scores = betas[:, None, None] * (points @ forms.swapaxes(1, 2) @ points.T)
        scores = scores + noise * random.standard_normal(scores.shape)
        weights = softmax(np.where(allowed, scores, -np.inf), axis=2)
        points = _unit(points + step * (weights @ points).mean(axis=0))
        attention.append(weights)
        middles.append(points)
        if feed_forward is not None:
            drift = feed_forward.velocity(Particles(points), points)
            points = _unit(points + step * drift)
        states.append(points)
    return SyntheticLayers(np.array(states), np.array(middles), np.array(attention), allowed, betas)


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1)[:, None])
