"""The density of phases given their natural frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from meanfield import _checks
from meanfield._checks import check_measure, integer, is_single, read_only, real_array, shown
from meanfield.laws.law import Law, check_law
from meanfield.measures.density import Density, DensityLimits, spectral_tail
from meanfield.spaces.circle import Circle
from meanfield.typing import Array, ArrayLike, Coefficients


class OscillatorDensity(Density):
    """Σ_j w_j f(θ|ω_j) dσ(θ) δ_{ω_j}: phases on the circle with natural frequencies, (7.2).

    As a `Density` it is that of θ, f = Σ_j w_j f(·|ω_j), and its energy and distances are those.
    A `CircleInteraction` moves it, no other dynamics does.
    Without noise and width, locked oscillators contract to Diracs, which no series can represent.
    Such runs end as 'under-resolved'. Use noise, `widths`, or `Oscillators`.

    Parameters
    ----------
    space : Circle
    laws_or_values : Law or array_like, shape (N,), or J of them
        The density of θ at each frequency, as `Density` takes it; one for all, or J.
    frequencies : array_like, shape (J,)
        ω_j, nodes of a quadrature of the law of frequencies.
    frequency_weights : array_like, shape (J,), optional
        Non-negative, of sum 1; equal if omitted.
    widths : array_like, shape (J,), optional
        γ_j >= 0: node j stands for all frequencies of a Lorentzian about ω_j, with f(θ|ω_j) their
        mean. Its mode e^{ikθ} then decays at the rate |k| γ_j, exactly, if at t = 0 phases don't
        depend on the frequency within the node, and h has one harmonic only (Kuramoto).
    tail_tol, max_size : float, int, optional
        As for a `Density`, for the largest tail of the parts.
    unit_mass : bool
        Whether the weights of frequencies, and values, are divided by their sum and mass.

    Attributes
    ----------
    parts : ndarray, shape (J, n/2)
        Coefficients of f(·|ω_j).
    frequencies, frequency_weights, widths : ndarray, shape (J,)

    Raises
    ------
    ValueError
        If the space is no `Circle`, numbers differ, or an argument is out of range.

    Notes
    -----
    A node of width γ is exact since the modes k >= 1 of f(θ|ω) are analytic in the lower half
    plane of ω, and their mean over the Lorentzian is their value at ω_j - iγ_j (Ott & Antonsen
    2008, here for all modes and not on their manifold alone).

    Examples
    --------
    >>> import meanfield as mf
    >>> OscillatorDensity(mf.Circle(16), mf.FourierSeries(cos=[0.5]), [-1.0, 1.0])
    OscillatorDensity(Circle(16), 2 frequencies)
    """

    _for_rooms = "from_parts", "lowest"

    def __init__(
        self,
        space: Circle,
        laws_or_values: Law | ArrayLike | Sequence[Law | ArrayLike],
        frequencies: ArrayLike,
        frequency_weights: ArrayLike | None = None,
        widths: ArrayLike | None = None,
        *,
        tail_tol: float = 1e-8,
        max_size: int | None = None,
        unit_mass: bool = False,
    ) -> None:
        if type(space) is not Circle:
            raise ValueError(f"space must be a Circle, got {shown(space)}")
        self.space: Circle = space
        self.with_limits(space, tail_tol, max_size)
        self._set_nodes(frequencies, frequency_weights, widths, unit_mass=unit_mass)
        each_law = _one_each(laws_or_values, len(self.frequencies))
        # a law that stands for several frequencies is expanded once
        densities = {id(each): Density(space, each, unit_mass=unit_mass) for each in each_law}
        self._set_parts([densities[id(each)] for each in each_law])

    @classmethod
    def from_parts(
        cls, space: Circle, parts: Coefficients, *nodes: Array, **limits: Unpack[DensityLimits]
    ) -> OscillatorDensity:
        """The density with these coefficients (J, n/2) at the frequencies; nothing is normalised.

        Raises
        ------
        ValueError
            If the shape does not fit, or a value is not finite.
        """
        density = cls.__new__(cls)
        density.with_limits(space, **limits)
        density._set_nodes(*nodes)
        if len(parts) != (count := len(density.frequencies)):
            raise ValueError(f"parts must be {count}, one for each frequency, got {len(parts)}")
        density._set_parts([Density.from_coefficients(space, part) for part in parts])
        return density

    def _set_nodes(
        self,
        frequencies: ArrayLike,
        weights: ArrayLike | None = None,
        widths: ArrayLike | None = None,
        *,
        unit_mass: bool = False,
    ) -> None:
        self.frequencies = self.natural_frequencies = real_array("frequencies", frequencies, 1)
        count = len(self.frequencies)
        self.frequency_weights = _checks.weights("frequency_weights", weights, count, unit_mass)
        self.widths = np.zeros(count) if widths is None else real_array("widths", widths, 1)
        if self.widths.shape != (count,) or self.widths.min() < 0.0:
            raise ValueError(
                f"widths must be {count} numbers >= 0, one for each frequency, got "
                f"{shown(self.widths)}"
            )
        for array in (self.frequencies, self.frequency_weights, self.widths):
            read_only(array)

    def _set_parts(self, densities: Sequence[Density]) -> None:
        self.law = None
        self._laws = [density.law for density in densities if density.law is not None]
        self.misfit = max(density.misfit for density in densities)
        self.parts = read_only(np.array([density.coefficients for density in densities]))
        self.coefficients = read_only(self.frequency_weights @ self.parts)

    def __repr__(self) -> str:
        return f"OscillatorDensity({self.space}, {len(self.frequencies)} frequencies)"

    @property
    def tail(self) -> float:
        """The largest of the spectral tails of f(·|ω_j)."""
        return max(spectral_tail(self.space.power(part)) for part in self.parts)

    @property
    def lowest(self) -> float:
        """The least value of f(·|ω_j) on the grid, over all j."""
        return min(float(self.space.synthesis(part).min()) for part in self.parts)

    def resize(self, size: int) -> OscillatorDensity:
        """The same density on a circle with another number of modes, see `Density.resize`.

        Raises
        ------
        ValueError
            If the size is out of range, smaller than the present one or larger than `max_size`.
        """
        check_measure("the density", self)
        space = self.space.resize(integer("size", size, low=self.space.size, high=self.max_size))
        nodes = self.frequencies, self.frequency_weights, self.widths
        if len(self._laws) == len(self.parts):
            return OscillatorDensity(space, self._laws, *nodes, **self.run_limits)
        coefficients = self.space.embed(self.parts, space)
        return OscillatorDensity.from_parts(space, coefficients, *nodes, **self.run_limits)


def _one_each(given: Any, count: int) -> list[Law | ArrayLike]:
    """Return a law, or the values of a density, for each of the frequencies."""
    if is_single(given):
        remedy = ": take one, or values at space.points"
        return [check_law("laws_or_values", given, remedy)] * count
    try:
        values = np.asanyarray(given)
    except (TypeError, ValueError):
        # numpy refuses laws among numbers, and entries that are neither
        values = np.empty(0, dtype=object)
    is_numeric = values.dtype.kind in "iuf"
    if is_numeric and values.ndim == 1:
        return [given] * count
    # `Density` refuses what is neither a law nor values
    several = list(given if isinstance(given, Sequence) else values)
    if len(several) != count:
        raise ValueError(
            f"laws_or_values must be one, or {count} as there are frequencies, got {len(several)}"
        )
    return several
