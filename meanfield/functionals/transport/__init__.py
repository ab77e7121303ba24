"""Distances between measures: a distance is between two measures, and never runs.

Where it is not known to rounding it lies in a `Bracket`.
"""

from __future__ import annotations

from dataclasses import dataclass

from meanfield._checks import boolean, freeze, number_in, shown
from meanfield._shown import Shown

# sums in double precision may be off by this share of their terms; bounds are widened by it
ROUNDING = 1e-12
# on S^2 W_p exists for these p, with these relative gaps if the caller asks for none
ON_SPHERE = {1.0: 2e-3, 2.0: 1e-2}


@dataclass(frozen=True)
class Bracket(Shown):
    """A distance with a lower and an upper end, between which it lies; `float` takes the value.

    Attributes
    ----------
    value, lower, upper : float
        lower <= value <= upper; the value is the best estimate, on S^2 often one of the ends. Three
        that are equal are exact to rounding, about 1e-12, an absolute error.
    proved : bool
        True if both ends are proven, quadrature and rounding included, or equal. Otherwise at
        least one end is an estimate.

    Raises
    ------
    ValueError
        If the three are not in this order.

    Examples
    --------
    >>> float(Bracket(0.5, 0.4, 0.6))
    0.5
    """

    value: float
    lower: float
    upper: float
    proved: bool = False

    def __post_init__(self) -> None:
        boolean("proved", self.proved)
        for name in ("value", "lower", "upper"):
            # a bound may be infinite
            value = number_in(getattr(self, name))
            if value is None:
                raise ValueError(f"{name} must be a number, got {shown(getattr(self, name))}")
            freeze(self, **{name: value})
        # this comparison is also false if one of the numbers is NaN
        if not self.lower <= self.value <= self.upper:
            raise ValueError(
                f"value must lie between lower and upper, got {shown(self.value)} with lower = "
                f"{shown(self.lower)} and upper = {shown(self.upper)}"
            )

    def __float__(self) -> float:
        return self.value


def exact(value: float) -> Bracket:
    """A distance that is known to rounding."""
    return Bracket(value, value, value, proved=True)


def check_order(lower: float, upper: float) -> None:
    """A lower bound of W_p^p must not exceed an upper one.

    Raises
    ------
    ArithmeticError
        If it does: one of them is no bound.
    """
    if not lower <= upper:
        raise ArithmeticError(
            f"a lower bound of W_p^p must be <= an upper one, got {lower!r} and {upper!r}: one of "
            f"the two is no bound, please report the measures"
        )
