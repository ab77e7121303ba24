"""Roots of many functions of one variable at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

_MOST_STEPS = 100
_FINEST = 2.0 * float(np.finfo(np.float64).eps)


def bracketed_roots(
    function: Callable[[Indices, Array], Array],
    low: Array,
    high: Array,
    accuracy: float = _FINEST,
) -> Array:
    """A root of each of n functions between low and high, where its sign changes.

    Chandrupatla's method (1997): inverse quadratic interpolation where it is safe, else bisection.
    Where the sign does not change, the end with the smaller value.

    Parameters
    ----------
    function : callable
        function(index, x) is the value of the functions with these indices at x.
    low, high : ndarray, shape (n,)
    accuracy : float, optional
        Of the roots, where they are of order 1; what doubles can tell if omitted.

    Returns
    -------
    ndarray, shape (n,)

    Examples
    --------
    >>> targets = np.array([2.0, 9.0])
    >>> bracketed_roots(lambda i, x: x * x - targets[i], np.zeros(2), np.full(2, 5.0))
    array([1.41421356, 3.        ])
    """
    index = np.arange(len(low))
    a, b = high.astype(np.float64), low.astype(np.float64)
    fa, fb = function(index, a), function(index, b)
    found = np.where(np.abs(fa) < np.abs(fb), a, b)
    c, fc = a, fa
    step = np.full(len(a), 0.5)
    live = (np.sign(fa) * np.sign(fb)) < 0.0
    for _ in range(_MOST_STEPS):
        index, a, b, c, step = index[live], a[live], b[live], c[live], step[live]
        fa, fb, fc = fa[live], fb[live], fc[live]
        if len(index) == 0:
            break
        x = a + step * (b - a)
        fx = function(index, x)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        best = np.abs(fa) < np.abs(fb)
        found[index] = np.where(best, a, b)
        tolerance = accuracy * (np.abs(found[index]) + 0.5) / np.maximum(np.abs(b - a), 1e-300)
        live = (tolerance < 0.5) & (fa != 0.0)
        step = _steps(np.stack([a, b, c]), np.stack([fa, fb, fc]), np.minimum(tolerance, 0.5))
    return found


def _steps(x: Array, f: Array, tolerance: Array) -> Array:
    """Where to look next, as a fraction of the way from a to b."""
    (a, b, c), (fa, fb, fc) = x, f
    with np.errstate(all="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
        t = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    t = np.where(safe & np.isfinite(t), t, 0.5)
    return np.clip(t, tolerance, 1.0 - tolerance)
