"""Nulls: tokens and heads that share with a model all but what is claimed of it."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from meanfield._checks import generator, integer, number, unit_rows
from meanfield.functionals.energies import mean_cosine
from meanfield.measures import Particles
from meanfield.typing import Array, ArrayLike, Indices, Rng

# mean cosines nearer to 1 than this are reached to rounding only
_NEXT_TO_1 = 1e-9


def shuffle_coordinates(points: ArrayLike, rng: Rng) -> Array:
    """Tokens whose coordinates are exchanged between them, each by a permutation of its own.

    Each coordinate keeps its values, and so its mean and spread: what all tokens have in common
    stays, up to the lengths, which are made 1 again. What makes one token like some other is gone.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Unit rows.
    rng : int or numpy Generator

    Returns
    -------
    ndarray, shape (n, d)
        Unit rows.

    Raises
    ------
    ValueError
        If points are no unit rows, or rng is neither an integer >= 0 nor a Generator.

    Examples
    --------
    >>> shuffle_coordinates(np.full((3, 4), 0.5), rng=0)[0]
    array([0.5, 0.5, 0.5, 0.5])
    """
    mixed = generator("rng", rng).permuted(unit_rows("points", points), axis=0)
    lengths = np.linalg.norm(mixed, axis=1)[:, None]
    # a row may receive zeros only, and then any direction will do
    mixed[lengths[:, 0] == 0.0, 0] = 1.0
    return np.asarray(mixed / np.where(lengths > 0.0, lengths, 1.0))


def drift_to_mean(points: ArrayLike, cosine: float) -> Array:
    """Tokens that did nothing but go to their mean m, or from it, until they have a mean cosine.

    y_i is the direction of x_i − m + s m, s >= 0 the number for which the mean of <y_i, y_j> over
    pairs is `cosine`; for less than they have at s = 0 they stay there. So s = 1 are the tokens as
    they are, and the tokens keep what sets them apart from one another.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Unit rows, whose mean is not 0.
    cosine : float
        In [−1, 1].

    Returns
    -------
    ndarray, shape (n, d)
        Unit rows.

    Raises
    ------
    ValueError
        If points are no unit rows, the mean is 0 or a token is the mean, or the cosine is out of
        range.

    Examples
    --------
    >>> moved = drift_to_mean([[1.0, 0.0], [0.0, 1.0]], 0.5)
    >>> round(float(moved[0] @ moved[1]), 12)
    0.5
    """
    unit = unit_rows("points", points)
    cosine = number("cosine", cosine, low=-1, high=1)
    mean = unit.mean(axis=0)
    deviations = unit - mean
    if not (np.linalg.norm(deviations, axis=1) > 0.0).all() or not mean.any():
        raise ValueError(f"points must have a mean that is not 0 and no token, got mean {mean[:4]}")

    def moved(share: float) -> Array:
        rows = (1.0 - share) * deviations + share * mean
        return np.asarray(rows / np.linalg.norm(rows, axis=1)[:, None])

    def beyond(share: float) -> float:
        return mean_cosine(Particles(moved(share))) - cosine

    largest = 1.0 - _NEXT_TO_1
    if beyond(0.0) >= 0.0 or beyond(largest) <= 0.0:
        return moved(0.0 if beyond(0.0) >= 0.0 else largest)
    return moved(brentq(beyond, 0.0, largest, xtol=1e-14))


def other_layers(n_layers: int, rng: Rng) -> Indices:
    """For each layer another one, each the other of one: a random permutation without fixed points.

    Parameters
    ----------
    n_layers : int
        At least 2.
    rng : int or numpy Generator

    Returns
    -------
    ndarray of int, shape (n_layers,)

    Raises
    ------
    ValueError
        If there is only one layer, or rng is neither an integer >= 0 nor a Generator.

    Examples
    --------
    >>> other_layers(2, rng=0)
    array([1, 0])
    """
    order = generator("rng", rng).permutation(integer("n_layers", n_layers, low=2))
    partners = np.empty_like(order)
    partners[order] = np.roll(order, 1)
    return partners
