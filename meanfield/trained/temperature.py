"""Effective β of attention heads: how well scores are a multiple of <x_i, x_j>."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsqr
from scipy.special import stdtrit

from meanfield._checks import EPS, number, real_array, unit_rows, unmasked
from meanfield.typing import Array, ArrayLike, Integers, NDArray

# below this share of the scores' variance no multiple of <x_i, x_j> describes a head
LEAST_R2 = 0.1
# the least squares of a form end at this relative residual, or after so many iterations
_FORM_TOL, _MOST_ITERATIONS = 1e-12, 2000


@dataclass(frozen=True, eq=False, repr=False)
class EffectiveBeta:
    """Fits of log A_ij = β <M x_i, x_j> + c_i, one for each head.

    Attributes
    ----------
    beta : ndarray, shape (...)
        Slopes within rows, of the leading axes of the attention; nan where no row has two entries
        that differ in <M x_i, x_j>.
    standard_error : ndarray, shape (...)
        Clustered by row; nan where fewer than two rows say anything.
    r2 : ndarray, shape (...)
        The share of the variance of log A within rows that the fit explains; nan where there is
        none to explain.
    freedom : ndarray, shape (...)
        Degrees of freedom of the standard error: 1/Σ_i h_i² − 1 of the rows' shares h_i of Σ s̃²,
        which is one less than the rows where all count alike.
    n_entries, n_rows, n_zero : ndarray of int, shape (...)
        Entries and rows of the fit, and the entries that are 0 where the mask allows more, which
        the fit leaves out.

    Examples
    --------
    >>> from meanfield.trained import effective_beta
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> fit = effective_beta(np.exp(2.0 * points @ points.T), points)
    >>> round(float(fit.beta), 12), round(float(fit.r2), 12), int(fit.n_entries)
    (2.0, 1.0, 9)
    """

    beta: Array
    standard_error: Array
    r2: Array
    freedom: Array
    n_entries: Integers
    n_rows: Integers
    n_zero: Integers

    @property
    def share_unexplained(self) -> Array:
        """1 − R²: the part of the scores, within rows, that no multiple explains."""
        return np.asarray(1.0 - self.r2)

    @property
    def describes(self) -> NDArray[np.bool_]:
        """Whether a β describes the head: R² is at least 0.1."""
        return np.asarray(self.r2 >= LEAST_R2)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Ends of the confidence interval of β, of Student's t with its degrees of freedom.

        Raises
        ------
        ValueError
            If the level is not in (0, 1).

        Examples
        --------
        >>> points = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
        >>> lower, upper = effective_beta(np.exp(2.0 * points @ points.T), points).interval()
        >>> bool(lower <= 2.0 <= upper)
        True
        """
        level = number("level", level, above=0.0, high=1.0 - EPS)
        half = stdtrit(self.freedom, 0.5 + 0.5 * level) * self.standard_error
        return self.beta - half, self.beta + half

    def __repr__(self) -> str:
        heads = zip(*map(np.ravel, (self.beta, self.standard_error, self.r2)), strict=True)
        return "\n".join(
            f"β = {beta:.4g} ± {error:.2g}, R² = {r2:.3f}"
            + ("" if r2 >= LEAST_R2 else f": below {LEAST_R2:g}, no β describes the head")
            for beta, error, r2 in heads
        )


def effective_beta(
    attention: ArrayLike,
    points: ArrayLike,
    allowed: ArrayLike | None = None,
    *,
    matrix: ArrayLike | None = None,
) -> EffectiveBeta:
    """β of log A_ij = β <M x_i, x_j> + c_i, by least squares within rows.

    The softmax of row i adds the same -log Σ_j e^{...} to all its entries. So entries are compared
    within their row only: log A and s = <M x_i, x_j> less their means over the row's entries, and
    β = Σ s̃ l̃/Σ s̃². Pooled rows, whose normalisation hangs on the point, give another number.
    Entries that the mask forbids are left out, and those that are 0, of which the logarithm says
    nothing; a row with fewer than two entries left says nothing either.

    Parameters
    ----------
    attention : array_like, shape (..., n, n)
        Entries >= 0; row i is what token i attends to. A factor of a row does not matter.
    points : array_like, shape (n, d)
        Unit rows.
    allowed : array_like of bool, shape (n, n), optional
        Which entries the mask allows; all if omitted.
    matrix : array_like, shape (d, d) or (..., d, d), optional
        M = KᵀQ of all heads or of each; the identity if omitted.

    Returns
    -------
    EffectiveBeta
        Never β alone: its R² and standard error beside it.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is not finite or negative, or attention is > 0 where the mask
        forbids.

    Notes
    -----
    The standard error is the sandwich clustered by row: (Σ_i u_i²/(1 − h_i))^{1/2}/Σ s̃² with
    u_i = Σ_j s̃_ij e_ij of the residuals e, and h_i the row's share of Σ s̃² (Bell and McCaffrey
    2002, CR2, unbiased where residuals are alike and independent). It allows for any dependence
    within a row. What residuals of one key have in common over rows, as those of a token that all
    attend to, it does not see. And small entries count as much as large ones: β is that of the
    scores, not of where the attention goes.

    Examples
    --------
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> scores = 2.0 * points @ points.T
    >>> effective_beta(np.tril(np.exp(scores)), points, np.tri(3, dtype=bool)).beta.round(12)
    np.float64(2.0)
    """
    weights, unit, mask = _checked(attention, points, allowed)
    scores = _bilinear(unit, matrix)
    is_entry = mask & (weights > 0.0)
    scores, logs, n_rows = _within_rows(scores, weights, is_entry)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_rows = np.einsum("...ij,...ij->...i", scores, scores)
        total = of_rows.sum(axis=-1)
        beta = np.einsum("...ij,...ij->...", scores, logs) / total
        residuals = logs - beta[..., None, None] * scores
        moments = np.einsum("...ij,...ij->...i", scores, residuals)
        shares = of_rows / total[..., None]
        # a row that is alone in the fit shows no error
        doubt = moments**2 / np.where(shares < 1.0 - EPS, 1.0 - shares, np.nan)
        error = np.sqrt(doubt.sum(axis=-1)) / total
        variance = np.einsum("...ij,...ij->...", logs, logs)
        r2 = 1.0 - np.einsum("...ij,...ij->...", residuals, residuals) / variance
    return EffectiveBeta(
        beta,
        error,
        np.where(np.isfinite(r2), r2, np.nan),
        1.0 / (shares**2).sum(axis=-1) - 1.0,
        _fitted(is_entry).sum(axis=(-2, -1)),
        n_rows,
        (mask & (weights == 0.0)).sum(axis=(-2, -1)),
    )


@dataclass(frozen=True, eq=False)
class SymmetricForm:
    """The symmetric D of which <x_i, D x_j> + c_i is nearest to log A.

    Attributes
    ----------
    form : ndarray, shape (d, d), or None
        The D of least norm: it is 0 across the span of the points. None where there are as many
        parameters as entries.
    r2 : float or None
        The share of the variance within rows that D explains.
    adjusted_r2 : float or None
        1 − (1 − R²) (degrees of freedom of the data)/(those of the residuals): 0 on average where
        scores are nothing but noise, where R² itself is about parameters/entries.
    n_parameters, n_entries : int
        r(r + 1)/2 of D on the span of the points, of dimension r, less those that a constant of
        each row has already, and the entries of the fit less one for each row.
    reason : str
        Why there is no form, "" if there is one.

    Examples
    --------
    >>> from meanfield.trained import symmetric_form
    >>> points = np.stack([np.cos(np.arange(5.0)), np.sin(np.arange(5.0))], axis=1)
    >>> nearest = symmetric_form(np.exp(points @ np.diag([1.0, -2.0]) @ points.T), points)
    >>> nearest.form.round(8), nearest.reason
    (array([[ 1.,  0.],
           [ 0., -2.]]), '')
    """

    form: Array | None
    r2: float | None
    adjusted_r2: float | None
    n_parameters: int
    n_entries: int
    reason: str


def symmetric_form(
    attention: ArrayLike, points: ArrayLike, allowed: ArrayLike | None = None
) -> SymmetricForm:
    """The symmetric form D of log A_ij = <x_i, D x_j> + c_i, by least squares within rows.

    For n points in general position in d >= n dimensions <x_i, D x_j> may be any symmetric matrix.
    So R² says there how symmetric the scores are, and nothing about the points; and with a causal
    mask, which shows each pair once, a form fits whatever is there. Such a fit is not made: where
    there are as many parameters as entries, the answer is the reason.

    Parameters
    ----------
    attention : array_like, shape (n, n)
        One head.
    points : array_like, shape (n, d)
        Unit rows.
    allowed : array_like of bool, shape (n, n), optional
        Which entries the mask allows; all if omitted.

    Returns
    -------
    SymmetricForm

    Raises
    ------
    ValueError
        As `effective_beta`, or if there is more than one head.
    ArithmeticError
        If the least squares do not converge.

    Examples
    --------
    >>> angles = np.arange(5.0)
    >>> points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    >>> D = np.array([[1.0, 0.5], [0.5, -2.0]])
    >>> symmetric_form(np.exp(points @ D @ points.T), points).form.round(8)
    array([[ 1. ,  0.5],
           [ 0.5, -2. ]])
    """
    weights, unit, mask = _checked(attention, points, allowed)
    if weights.ndim != 2:
        raise ValueError(f"attention must be (n, n), that of one head, got shape {weights.shape}")
    is_entry = mask & (weights > 0.0)
    left, singular, right = np.linalg.svd(unit, full_matrices=False)
    rank = int((singular > max(unit.shape) * EPS * singular[0]).sum())
    # the basis of the scores is orthonormal: without a penalty the fit is the same in any
    left, singular, right = left[:, :rank], singular[:rank], right[:rank]
    upper = np.triu_indices(rank)
    _, logs, n_rows = _within_rows(np.zeros_like(weights), weights, is_entry)
    n_entries = int(_fitted(is_entry).sum() - n_rows)
    # a D with <x_i, D x_j> = 1 for all pairs is the same as constants of rows, and no further
    # parameter
    ones = np.ones(len(left))
    has_constant = np.linalg.norm(ones - left @ (left.T @ ones)) < 1e-9 * np.sqrt(len(left))
    n_parameters = len(upper[0]) - int(has_constant)
    if n_parameters >= n_entries:
        reason = (
            f"{n_parameters} parameters of a symmetric form against {n_entries} entries within "
            f"rows: it would fit any scores"
        )
        return SymmetricForm(None, None, None, n_parameters, n_entries, reason)
    if not logs.any():
        reason = "the entries of each row are alike: there is nothing to fit"
        return SymmetricForm(None, None, None, n_parameters, n_entries, reason)
    # entries above the diagonal count twice, so that the parametrisation keeps lengths
    factors = np.where(upper[0] == upper[1], 1.0, np.sqrt(0.5))

    def form_of(parameters: Array) -> Array:
        form = np.zeros((rank, rank))
        form[upper] = factors * parameters
        form += np.triu(form, 1).T
        return form

    def scores(parameters: Array) -> Array:
        return np.asarray(_demeaned(left @ form_of(parameters) @ left.T, is_entry).ravel())

    def transposed(values: Array) -> Array:
        form = left.T @ _demeaned(values.reshape(weights.shape), is_entry) @ left
        form += form.T
        return np.asarray(np.where(upper[0] == upper[1], 0.5, factors) * form[upper])

    shape = (weights.size, len(upper[0]))
    operator = LinearOperator(shape, matvec=scores, rmatvec=transposed, dtype=np.float64)
    parameters, status, iterations = lsqr(
        operator, logs.ravel(), atol=_FORM_TOL, btol=_FORM_TOL, iter_lim=_MOST_ITERATIONS
    )[:3]
    if status == 7:
        raise ArithmeticError(f"the least squares of a form did not end in {iterations} iterations")
    rest = float(np.sum((logs.ravel() - scores(parameters)) ** 2))
    unexplained = rest / float(np.sum(logs**2))
    back, form = right.T / singular, form_of(parameters)
    adjusted = 1.0 - unexplained * n_entries / (n_entries - n_parameters)
    return SymmetricForm(
        back @ form @ back.T, 1.0 - unexplained, adjusted, n_parameters, n_entries, ""
    )


def _checked(
    attention: ArrayLike, points: ArrayLike, allowed: ArrayLike | None
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Attention, points and mask, if they fit each other."""
    unit = unit_rows("points", points)
    weights, n = real_array("attention", attention, None), len(unit)
    if weights.shape[-2:] != (n, n):
        raise ValueError(
            f"attention must have shape (..., {n}, {n}), as there are {n} points, got "
            f"{weights.shape}"
        )
    mask = np.ones((n, n), dtype=bool) if allowed is None else unmasked("allowed", allowed)
    if mask.dtype != np.bool_ or mask.shape != (n, n):
        raise ValueError(
            f"allowed must be boolean of shape ({n}, {n}), got {mask.dtype} of {mask.shape}"
        )
    for is_bad, rule in (
        (weights < 0.0, ">= 0"),
        ((weights > 0.0) & ~mask, "0 where allowed is not"),
    ):
        if is_bad.any():
            where = tuple(int(i) for i in np.argwhere(is_bad)[0])
            raise ValueError(f"attention must be {rule}, got {weights[where]:g} at index {where}")
    return weights, unit, mask


def _bilinear(points: Array, matrix: ArrayLike | None) -> Array:
    """<M x_i, x_j>, shape (..., n, n), of a matrix that fits the points."""
    if matrix is None:
        return points @ points.T
    form, dim = real_array("matrix", matrix, None), points.shape[1]
    if form.shape[-2:] != (dim, dim):
        raise ValueError(f"matrix must have shape (..., {dim}, {dim}), got {form.shape}")
    return np.asarray(points @ np.swapaxes(form, -1, -2) @ points.T)


def _fitted(is_entry: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the entries of rows that have at least two."""
    return np.asarray(is_entry & (is_entry.sum(axis=-1, keepdims=True) >= 2))


def _demeaned(values: Array, is_entry: NDArray[np.bool_]) -> Array:
    """Return values less the mean of their row's entries.

    They are 0 elsewhere and where they are rounding.
    """
    fitted = _fitted(is_entry)
    entries = np.where(fitted, values, 0.0)
    means = entries.sum(axis=-1, keepdims=True) / np.maximum(fitted.sum(axis=-1, keepdims=True), 1)
    least = 8.0 * EPS * np.abs(entries).max(axis=-1, keepdims=True)
    return np.where(fitted & (np.abs(entries - means) > least), entries - means, 0.0)


def _within_rows(
    scores: Array, weights: Array, is_entry: NDArray[np.bool_]
) -> tuple[Array, Array, Integers]:
    """Return scores and log weights less the means of rows.

    The number of rows with two or more entries follows.
    """
    logs = np.log(np.where(is_entry, weights, 1.0))
    n_rows = (is_entry.sum(axis=-1) >= 2).sum(axis=-1)
    shape = np.broadcast_shapes(scores.shape, weights.shape)
    scores, logs = np.broadcast_to(scores, shape), np.broadcast_to(logs, shape)
    return _demeaned(scores, is_entry), _demeaned(logs, is_entry), n_rows
