"""Random queries, keys and values: the four ensembles of Figure 5."""

from __future__ import annotations

import numpy as np

from meanfield._checks import generator, integer, one_of
from meanfield.dynamics.attention import Head
from meanfield.typing import Array

ENSEMBLES = ("ginibre", "wigner-positive", "ginibre-product", "wigner-product")


def random_heads(kind: str, dim: int, rng: np.random.Generator) -> Head:
    """Random Q, K and V of one head, with singular values of order 1.

    A Ginibre matrix has independent entries N(0, 1/d), and the Wigner matrix (GOE) is
    (G + Gᵀ)/√2 of one: off its diagonal entries are N(0, 1/d), and its eigenvalues fill [-2, 2].
    In Figure 5 entries of QᵀK are √d times as large, so its β is that of these heads over √d; V of
    (a) and (b) is √d times as large there too, and times are √d times as short.

    Parameters
    ----------
    kind : str
        'ginibre': Q, K, V Ginibre, (a); 'wigner-positive': QᵀK Wigner, V = GGᵀ with G Ginibre,
        (b); 'ginibre-product': Q, K Ginibre, V = QᵀK, (c); 'wigner-product': QᵀK Wigner,
        V = QᵀK, (d) of Figure 5.
    dim : int
        d >= 2.
    rng : numpy Generator

    Returns
    -------
    Head
        For `Attention(beta, [head])`.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> random_heads("wigner-product", 16, np.random.default_rng(0))
    Head(Q=(16, 16), K=1.0, V=(16, 16))
    """
    one_of("kind", kind, ENSEMBLES)
    dim, rng = integer("dim", dim, low=2), generator("rng", rng)
    if kind == "ginibre":
        return Head(Q=_ginibre(dim, rng), K=_ginibre(dim, rng), V=_ginibre(dim, rng))
    if kind == "ginibre-product":
        queries, keys = _ginibre(dim, rng), _ginibre(dim, rng)
        return Head(Q=queries, K=keys, V=queries.T @ keys)
    square = _ginibre(dim, rng)
    wigner = (square + square.T) / np.sqrt(2.0)
    if kind == "wigner-product":
        return Head(Q=wigner, V=wigner)
    square = _ginibre(dim, rng)
    return Head(Q=wigner, V=square @ square.T)


def _ginibre(dim: int, rng: np.random.Generator) -> Array:
    return rng.normal(scale=1.0 / np.sqrt(dim), size=(dim, dim))
