"""The matrices of the heads of a dynamics."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.dynamics import MEAN_FIELD, SA, AnyDynamics, Attention, Field, Layers

Array = NDArray[np.float64]


def head_matrices(dynamics: Field, dim: int) -> list[tuple[Array, Array]]:
    """M = β KᵀQ and V of each head, shape (d, d) each; those of SA and USA are multiples of I.

    Examples
    --------
    >>> from meanfield.dynamics import USA
    >>> head_matrices(USA(2.0, sign=-1), 2)[0][1]
    array([[-1., -0.],
           [-0., -1.]])
    """
    if isinstance(dynamics, Attention):
        pairs = [(dynamics.beta * head.bilinear, head.V) for head in dynamics.heads]
    elif isinstance(dynamics, MEAN_FIELD):
        pairs = [(dynamics.beta, dynamics.sign)]
    else:
        pairs = []
    return [(_matrix(m, dim), _matrix(v, dim)) for m, v in pairs]


def is_normalised(dynamics: Field) -> bool:
    """Whether heads are divided by G."""
    return dynamics.normalise if isinstance(dynamics, Attention) else isinstance(dynamics, SA)


def reach_of(dynamics: AnyDynamics, dim: int) -> float:
    """The largest |β KᵀQ| of the heads of a dynamics, of all its layers; 0 if there is none."""
    if isinstance(dynamics, Layers):
        return max(reach_of(layer, dim) for layer in dynamics.layers)
    return max((float(np.linalg.norm(m, 2)) for m, _ in head_matrices(dynamics, dim)), default=0.0)


def _matrix(given: ArrayLike, dim: int) -> Array:
    matrix = np.asarray(given, dtype=np.float64)
    return matrix if matrix.ndim else float(matrix) * np.eye(dim)
