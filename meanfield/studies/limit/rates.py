"""Rates in n with their intervals, and whether fluctuations are Gaussian."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_RESAMPLINGS = 1000
_SEED = 0
_FEWEST_FOR_A_TEST = 3


def fitted_rates(counts: NDArray[np.int64], errors: Array) -> Array:
    """Slope of the root mean square error in logarithms and its 95 % interval, shape (3, t).

    Parameters
    ----------
    counts : ndarray of int, shape (n,)
    errors : ndarray, shape (n, repeat, t)
        >= 0. The interval is that of slopes when repeats are drawn anew from those there are, for
        each n by itself; nan for a single repeat, and all three for a single n or an error of 0.

    Examples
    --------
    >>> counts = np.array([10, 1000])
    >>> fitted_rates(counts, 1 / counts[:, None, None] ** 0.5).ravel()
    array([-0.5,  nan,  nan])
    """
    # slopes see no factor, and squares might leave double precision
    largest = errors.max(axis=(0, 1))
    squares = (errors / np.where(largest > 0.0, largest, 1.0)) ** 2
    repeats = errors.shape[1]
    rate = _slopes(counts, squares.mean(axis=1))
    if repeats == 1:
        return np.array([rate, np.full_like(rate, np.nan), np.full_like(rate, np.nan)])
    rng = np.random.default_rng(_SEED)
    drawn = rng.integers(repeats, size=(_RESAMPLINGS, len(counts), repeats))
    times = _times_drawn(drawn, repeats)
    means = np.matmul(times.transpose(1, 0, 2), squares) / repeats
    slopes = _slopes(counts, means.reshape(len(counts), -1)).reshape(_RESAMPLINGS, -1)
    return np.array([rate, *np.quantile(slopes, [0.025, 0.975], axis=0)])


def _times_drawn(drawn: NDArray[np.int64], repeats: int) -> Array:
    """How often each repeat was drawn (resampling, n, draw), shape (resampling, n, repeat)."""
    cells = np.arange(drawn[..., 0].size).reshape(*drawn.shape[:2], 1)
    found = np.bincount((drawn + cells * repeats).ravel(), minlength=cells.size * repeats)
    return found.reshape(*drawn.shape[:2], repeats).astype(np.float64)


def _slopes(counts: NDArray[np.int64], mean_squares: Array) -> Array:
    """Of log √(mean square) over log n by least squares, for each time."""
    x = np.log(counts) - np.log(counts).mean()
    if len(counts) < 2:
        return np.full(mean_squares.shape[1], np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = 0.5 * np.log(mean_squares)
        slopes = x @ logs / (x @ x)
    return np.where(np.isfinite(logs).all(axis=0), slopes, np.nan)


def normality(fluctuations: Array) -> Array:
    """p of Shapiro and Wilk's test over the repeats (repeat, t, axis), shape (t, axis).

    nan for fewer than three repeats, or where they are all equal.
    """
    from scipy.stats import shapiro  # slow to import, and workers need none

    repeats, *shape = fluctuations.shape
    flat = fluctuations.reshape(repeats, -1)
    if repeats < _FEWEST_FOR_A_TEST:
        return np.full(shape, np.nan)
    spread = np.ptp(flat, axis=0)
    found = [
        shapiro(column).pvalue if width > 0.0 else np.nan
        for column, width in zip(flat.T, spread, strict=True)
    ]
    return np.reshape(found, shape)
