"""What a law is, and what all laws share: frozen attributes and the arguments of `sample`."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import generator, integer, shown
from meanfield.records import key

Array = NDArray[np.float64]

# limits of what a case file may ask for
LARGEST_DIM, LONGEST_LIST = 4096, 4096
DIM = key(
    "the ambient dimension d, 2 to 4096; that of the other table if left out",
    int,
    minimum=2,
    maximum=LARGEST_DIM,
)
# a pdf may fall below 0 by this share of its maximum
_ROUNDING = 1e-10


@runtime_checkable
class Law(Protocol):
    """A probability law f dσ on S^{d-1}, σ the uniform probability measure.

    Whatever has these three is a law; `meanfield` needs no common base class.
    """

    @property
    def dim(self) -> int:
        """Ambient dimension d."""

    def pdf(self, points: ArrayLike) -> Array:
        """f >= 0 at unit rows (n, d), shape (n,), with respect to σ."""

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent draws, unit rows (n, d)."""


def checked_pdf(law: Law, points: Array) -> Array:
    """f at unit rows (n, d) of a law that may be a user's own, rounding below 0 cut off.

    Raises
    ------
    ValueError
        If the values are no finite numbers >= 0 of shape (n,).
    """
    values = np.asarray(law.pdf(points))
    if values.shape != (len(points),) or values.dtype.kind not in "fiu":
        raise ValueError(
            f"law must have a pdf of shape (n,) = ({len(points)},), got {shown(law)} with shape "
            f"{values.shape} of {values.dtype}"
        )
    lowest = float(values.min(initial=0.0))
    if not np.isfinite(values).all() or lowest < -_ROUNDING * float(values.max(initial=0.0)):
        raise ValueError(
            f"law must have a finite pdf >= 0, got {shown(law)} with values from {lowest:.6g} to "
            f"{float(values.max()):.6g}"
        )
    return np.maximum(values, 0.0)


def freeze(law: object, **attributes: Any) -> None:
    """Set attributes of a frozen dataclass, its arrays read-only."""
    for name, value in attributes.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(law, name, value)


def brief(array: Array) -> str:
    """An array for a repr: at most six numbers of three digits.

    Examples
    --------
    >>> brief(np.array([0.5, 1 / 3]))
    '[0.5  , 0.333]'
    """
    return np.array2string(array, precision=3, separator=", ", threshold=6, edgeitems=2)


def checked_draw(n: int, rng: np.random.Generator) -> int:
    """Return n >= 1, the number of draws.

    Raises
    ------
    ValueError
        If n < 1 or rng is no numpy Generator.
    """
    generator("rng", rng)
    return integer("n", n, low=1)
