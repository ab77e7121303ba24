"""Rates in n with their intervals, and whether fluctuations are Gaussian."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Array = NDArray[np.float64]

_CONFIDENCE = 0.95
_FEWEST_FOR_A_TEST = 3


def fitted_rates(counts: NDArray[np.int64], errors: Array) -> Array:
    """Slope of the root mean square error in logarithms and its 95 % interval, shape (3, t).

    Logarithms of few repeats are skewed and curved, and their spread is itself known from few. So
    the slope's variance is that of the jackknife, which leaves each repeat out, and its quantile
    Student's, with the degrees of freedom of Welch and Satterthwaite, since each n has a variance
    of its own.

    Parameters
    ----------
    counts : ndarray of int, shape (n,)
    errors : ndarray, shape (n, repeat, t)
        >= 0. The interval is nan for a single repeat, and all three for a single n or an error
        of 0.

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
    if repeats == 1 or len(counts) == 1:
        return np.array([rate, np.full_like(rate, np.nan), np.full_like(rate, np.nan)])
    # apart, since a total less one repeat would lose the digits of small ones
    others = np.stack([np.delete(squares, r, axis=1).sum(axis=1) for r in range(repeats)], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = 0.5 * np.log(others)
        gaps = logs - logs.mean(axis=1, keepdims=True)
        variances = (gaps**2).sum(axis=1) * (repeats - 1) / repeats
        shares = _weights(counts)[:, None] ** 2 * variances
        total = shares.sum(axis=0)
        freedom = (repeats - 1) * total**2 / (shares**2).sum(axis=0)
    quantile = stdtrit(np.where(total > 0.0, freedom, 1.0), 0.5 + 0.5 * _CONFIDENCE)
    half = np.asarray(quantile * np.sqrt(total))
    return np.array([rate, rate - half, rate + half])


def _weights(counts: NDArray[np.int64]) -> Array:
    """What each value over n counts for in the slope over log n, of two n at least."""
    x = np.log(counts) - np.log(counts).mean()
    return np.asarray(x / (x @ x))


def _slopes(counts: NDArray[np.int64], mean_squares: Array) -> Array:
    """Of log √(mean square) over log n by least squares, for each time."""
    if len(counts) < 2:
        return np.full(mean_squares.shape[1], np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = 0.5 * np.log(mean_squares)
        slopes = _weights(counts) @ logs
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
