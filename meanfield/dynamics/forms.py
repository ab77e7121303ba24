"""Symmetric matrices D of attention whose flow is a gradient flow of E_{β,D}."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# of a product of matrices
_ROUNDING = 1e-13
# beyond it |X|², of order e^{2β|D|}, leaves double precision
LARGEST_EXPONENT = 350.0


class Form(NamedTuple):
    """D, a matrix or a number, and ±1 for a gradient flow of ±E_{β,D}; β|D| of its kernel."""

    matrix: Any
    sign: int
    exponent: float


def common_form(beta: float, bilinear: Any, value: Any) -> Form | None:
    """D = KᵀQ and ±1 where KᵀQ is symmetric and V = ±KᵀQ, each a matrix or a number; else None.

    Examples
    --------
    >>> common_form(2.0, 3.0, -3.0), common_form(2.0, 3.0, 1.0)
    (Form(matrix=3.0, sign=-1, exponent=6.0), None)
    """
    shape = np.shape(bilinear) or np.shape(value)
    if shape:
        eye = np.eye(shape[0])
        bilinear, value = (m if np.ndim(m) else m * eye for m in (bilinear, value))
    size = np.abs(bilinear).max()
    if np.abs(bilinear - np.transpose(bilinear)).max() > _ROUNDING * size:
        return None
    matrix = 0.5 * (bilinear + np.transpose(bilinear)) if shape else bilinear
    exponent = beta * (float(np.linalg.norm(matrix, 2)) if shape else abs(matrix))
    for sign in (1, -1):
        if np.abs(value - sign * matrix).max() <= _ROUNDING * size:
            return Form(matrix, sign, exponent)
    return None


def balanced_form(dynamics: Any) -> Form | None:
    """The form of attention that a run can keep in balance: without noise, β|D| <= 350."""
    form: Form | None = getattr(dynamics, "form", None)
    if form is None or dynamics.noise > 0.0 or form.exponent > LARGEST_EXPONENT:
        return None
    return form
