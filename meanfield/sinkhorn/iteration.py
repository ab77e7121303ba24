"""The fixed point of the symmetric Sinkhorn iteration, by Anderson's acceleration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# steps whose residuals are combined; more of them gain nothing where the best rate is 0.17 a step
_MEMORY = 6
_MOST = 200
# of the eigenvalues 1 … 2 of the linearised equation, the step that damps all by 1/3
_STEP = 2.0 / 3.0
_ROUNDING = 5e-15
# sums may have errors of their own: the iteration ends where it has ceased to gain
_STALLED, _GOOD = 6, 1e-7


def scaling(
    potential: Callable[[Array], Array], masses: Array, start: Array | None = None
) -> Array:
    """a = log u with u_i Σ_j k_ij m_j u_j = 1, shape (n,), for a positive semi-definite kernel k.

    The residual F(a) = a + log Σ_j k_ij m_j e^{a_j} has the derivative I + P, P_ij ∝ k_ij m_j
    e^{a_j} with rows of sum 1. P is self-adjoint and >= 0 with eigenvalues in [0, 1], so I + P has
    a condition of at most 2 at any β and for any masses: the damped iteration a - (2/3) F gains a
    factor of 3 a step, Anderson's (1965) combination of the last six some 6 (√2 - 1 over √2 + 1, as
    for conjugate gradients).

    Parameters
    ----------
    potential : callable
        Σ_j k_ij m_j, shape (n,), of masses (n,).
    masses : ndarray, shape (n,)
        >= 0, of sum 1. Since k_ii m_i u_i² <= 1, no u is large where there is mass.
    start : ndarray, shape (n,), optional
        A first guess.

    Raises
    ------
    ArithmeticError
        If sums are not finite, or too inexact for the iteration to converge.

    Examples
    --------
    >>> kernel = np.exp(np.eye(2) - 1.0)
    >>> a = scaling(kernel.__matmul__, np.array([0.5, 0.5]))
    >>> np.exp(-2.0 * a) * 2.0 - np.exp(-1.0)  # u² (1 + e^{-1})/2 = 1
    array([1., 1.])
    """
    log_u = -0.5 * np.log(np.maximum(potential(masses), 1e-300)) if start is None else start
    best, least, since = log_u, np.inf, 0
    path: list[tuple[Array, Array]] = []
    for _ in range(_MOST):
        residual = _residual(potential, masses, log_u)
        size = float(np.abs(residual).max())
        if not np.isfinite(size):
            raise ArithmeticError(f"the Sinkhorn iteration came to a residual of {size}")
        since = 0 if size < 0.5 * least else since + 1
        if size < least:
            best, least = log_u, size
        if least <= _ROUNDING * (1.0 + 0.2 * float(np.abs(best).max())):
            return best
        if since > _STALLED:
            break
        path = [*path[-_MEMORY:], (log_u, residual)]
        log_u = _combined(path)
    if least > _GOOD:
        raise ArithmeticError(
            f"the Sinkhorn iteration stands still at a residual of {least:.1e}: the sums that it "
            f"is given are not those of a positive kernel to that accuracy"
        )
    return best


def _residual(potential: Callable[[Array], Array], masses: Array, log_u: Array) -> Array:
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        weighted = masses * np.exp(log_u)
        weighted[masses == 0.0] = 0.0
        return np.asarray(log_u + np.log(np.maximum(potential(weighted), 1e-300)))


def _combined(path: list[tuple[Array, Array]]) -> Array:
    """The next point: a step from the combination of the last ones with the least residual."""
    log_u, residual = path[-1]
    if len(path) == 1:
        return log_u - _STEP * residual
    points = np.diff([p for p, _ in path], axis=0)
    residuals = np.diff([r for _, r in path], axis=0)
    shares = np.linalg.lstsq(residuals.T, residual, rcond=1e-12)[0]
    return np.asarray(
        log_u - shares @ points - _STEP * (residual - shares @ residuals), dtype=np.float64
    )
