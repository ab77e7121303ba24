"""The line of labels of a flow map: angles of the circle, or polar angles about an axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from meanfield.arguments import shown, unit_vector
from meanfield.geometry import circle_points, perpendicular
from meanfield.laws import Law, symmetry_axis
from meanfield.laws.protocol import brief, checked_pdf
from meanfield.spaces.symmetry import difference_of_meridians

Array = NDArray[np.float64]

_TURN = 2.0 * np.pi
# points of a meridian at which a law is compared
_COMPARED = 64


@dataclass(frozen=True, eq=False, repr=False)
class LabelLine:
    """Labels of the circle (angles in [0, 2π)) or of latitudes (polar angles in [0, π]).

    Parameters
    ----------
    law : Law
        The measure of the labels.
    axis : ndarray, shape (d,), or None
        Axis of symmetry; None on the circle.
    scale : float
        What the law's pdf is multiplied with, so that the mass is 1 to rounding.
    """

    law: Law
    axis: Array | None
    scale: float = 1.0

    @property
    def dim(self) -> int:
        """Ambient dimension d."""
        return self.law.dim

    @property
    def length(self) -> float:
        """Length of the line of labels."""
        return _TURN if self.axis is None else float(np.pi)

    def points(self, angles: Array) -> Array:
        """Points (n, d) at angles: of the circle, or on one meridian."""
        if self.axis is None:
            return circle_points(angles)
        across = perpendicular(self.axis)
        return np.asarray(np.outer(np.cos(angles), self.axis) + np.outer(np.sin(angles), across))

    def pdf(self, labels: Array) -> Array:
        """f_0 at labels, shape (n,)."""
        return np.asarray(self.scale * checked_pdf(self.law, self.points(labels)))

    def label_density(self, labels: Array) -> Array:
        """The law's density of labels with respect to their Lebesgue measure, shape (n,)."""
        return self.pdf(labels) * self.latitude(labels)

    def latitude(self, angles: Array) -> Array:
        """dσ over the Lebesgue measure of angles, shape (n,)."""
        if self.axis is None:
            return np.full(len(angles), 1.0 / _TURN)
        log_total = gammaln(0.5 * (self.dim - 1)) - gammaln(0.5 * self.dim) + 0.5 * np.log(np.pi)
        with np.errstate(divide="ignore", under="ignore"):
            log_sine = np.log(np.sin(np.clip(angles, 0.0, np.pi)))
            # at a pole of S^2 and higher there is no mass; 0 · log 0 is meant to be 0 where d = 2
            return np.asarray(np.exp((self.dim - 2) * log_sine - log_total))


def axis_of_labels(law: Law, axis: ArrayLike | None) -> Array | None:
    """The axis about which the labels of a law are polar angles; None on the circle.

    Raises
    ------
    ValueError
        If there is none.
    """
    if law.dim == 2:
        if axis is not None:
            raise ValueError(f"axis must be None on the circle, got {shown(axis)}")
        return None
    if axis is not None:
        given = unit_vector("axis", axis, law.dim)
        _check_axisymmetric(law, given)
        return given
    found = symmetry_axis(law)
    if found is None:
        raise ValueError(
            f"law must be symmetric about an axis that its class tells, or axis be given, got "
            f"{shown(law)}"
        )
    return found


def _check_axisymmetric(law: Law, axis: Array) -> None:
    """Compare the law on one meridian with others."""
    polar = np.pi * (np.arange(_COMPARED) + 0.5) / _COMPARED
    cosines, sines = np.cos(polar), np.sin(polar)
    values = law.pdf(np.outer(cosines, axis) + np.outer(sines, perpendicular(axis)))
    if gap := difference_of_meridians(law.pdf, axis, cosines, sines, values):
        raise ValueError(
            f"axis must be one about which the law is symmetric, got {brief(axis)}, but "
            f"{shown(law)} differs by {gap:.2g} between two meridians"
        )
