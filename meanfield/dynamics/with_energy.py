"""The energy of one dynamics along the flow of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np

from meanfield._checks import number, shown
from meanfield.dynamics.facts import Dynamics, Energy, Several, fact_of, fact_of_each
from meanfield.dynamics.isotropic import SA
from meanfield.dynamics.layers import KEPT, Drawn
from meanfield.dynamics.own import adapt, adapt_any
from meanfield.dynamics.varying import KEPT_TIMES
from meanfield.typing import Array


class WithEnergy(Several):
    """A dynamics and the energy of another one, which does not move the measure.

    Its terms are those that move the measure, and with weight 0 those whose energies are followed:
    of these right-hand sides ask for ∇ δE/δmu, and of no others.

    Parameters
    ----------
    moving : Dynamics
    asked : Dynamics
        With an energy.
    """

    name = fact_of("mover.name")
    noise = fact_of("mover.noise")
    sign = fact_of("mover.sign")
    normalised = fact_of("mover.normalised")
    is_isotropic = fact_of("mover.is_isotropic")
    has_kernel_unit = fact_of("mover.has_kernel_unit")
    log_unit = fact_of("mover.log_unit")
    is_smooth = fact_of("mover.is_smooth")
    keeps_clusters = fact_of("mover.keeps_clusters")
    gathers_clusters = fact_of("mover.gathers_clusters")
    is_gradient = fact_of("mover.is_gradient")
    why_no_gradient = fact_of("mover.why_no_gradient")
    multipliers = fact_of("mover.multipliers")
    known_by_moments = fact_of("mover.known_by_moments")
    layer_number = fact_of("mover.layer_number")
    output = fact_of("mover.output")
    output_from = fact_of("mover.output_from")
    varies = fact_of_each("varies", any)
    depth = fact_of_each("depth", min)
    reach = fact_of_each("reach", max)
    own_terms = fact_of("_asked.own_terms")
    own_weights = fact_of("_asked.own_weights")
    weights_vary = fact_of("_asked.weights_vary")

    def __init__(self, moving: Dynamics, asked: Dynamics) -> None:
        self._moves, self._asked = moving, asked
        self.dim = moving.dim or asked.dim
        self._of = lru_cache(KEPT_TIMES)(lambda t: WithEnergy(moving.at(t), asked.at(t)))

    def __repr__(self) -> str:
        return f"{self._moves!r} with the energy of {self._asked!r}"

    @property
    def mover(self) -> Dynamics:
        """The dynamics that moves the measure."""
        return self._moves

    @property
    def _each(self) -> Sequence[Dynamics]:
        """The dynamics that moves the measure, and the one with the energy."""
        return self._moves, self._asked

    @cached_property
    def instances(self) -> Sequence[Dynamics]:
        """The instances at the times at which either is checked."""
        if not self.varies:
            return (self,)
        return [self.at(t) for t in self.knots]

    @property
    def knots(self) -> Array:  # type: ignore[override]
        """The times of all schedules of both, as far as all of them go."""
        knots = [part.knots for part in self._each if part.varies]
        times, start = np.unique(np.concatenate(knots)), max(part[0] for part in knots)
        return np.asarray(times[(times >= start) & (times <= self.depth)])

    @cached_property
    def energy_functional(self) -> Energy | None:
        """The energy of the other dynamics; none if that is a user's own and comes from a file."""
        energy = self._asked.energy_functional
        return None if energy is None else replace(energy, is_own=False)

    def energy_between(self, start: float, end: float) -> Energy | None:
        energy = self._asked.energy_between(start, end)
        return None if energy is None else replace(energy, is_own=False)

    @cached_property
    def weighted_terms(self) -> Sequence[tuple[float, Dynamics]]:
        return (
            *self._moves.weighted_terms,
            *((0.0, term) for _, term in self._asked.weighted_terms),
        )

    @cached_property
    def all_layers(self) -> Sequence[Dynamics]:
        """Each layer with the same energy, made when it is asked for; equal ones are one object."""
        layers = self._moves.all_layers
        if layers[0] is self._moves:
            return (self,)
        return Drawn(lambda number: self._with_energy(layers[number]), len(layers))

    @cached_property
    def representatives(self) -> Sequence[Dynamics]:
        if self.all_layers[0] is self:
            return (self,)
        return list(map(self._with_energy, self._moves.representatives))

    @cached_property
    def _with_energy(self) -> Callable[[Dynamics], Dynamics]:
        """Return a cached function that adds the energy to a layer.

        It keeps all layers of a list.
        """
        count = max(KEPT, len(self._moves.representatives))
        return lru_cache(count)(lambda layer: WithEnergy(layer, self._asked))

    def at(self, t: float) -> Dynamics:
        # this call refuses a t beyond the last layer
        self._moves.at(t)
        return self._of(float(t)) if self.varies else super().at(t)

    def between(self, start: float, end: float) -> Iterator[tuple[int, float]]:
        for layer, until in self._moves.between(start, end):
            for _, knot in self._asked.between(start, until):
                yield layer, knot
            start = until


def why_no_energy(dynamics: object, energy: object = None) -> str:
    """Why a dynamics has no energy and what to do, empty if there is one or one is followed.

    Examples
    --------
    >>> from meanfield.dynamics import FeedForward
    >>> print(why_no_energy(FeedForward([[1.0], [0.0]], [[0.0, 1.0]], [0.0])))
    FeedForward(...): each column of W must ...; follow one with energy=, in a case run.energy
    """
    field = adapt_with(dynamics, energy)
    if field.energy_functional is not None:
        return ""
    return f"{shown(field)}: {field.why_no_energy}; follow one with energy=, in a case run.energy"


def adapt_with(dynamics: object, energy: object) -> Dynamics:
    """The dynamics that equations know, with the energy of another that is followed, if any.

    Raises
    ------
    ValueError
        As `adapt`.

    Examples
    --------
    >>> from meanfield.dynamics.isotropic import SA
    >>> adapt_with(SA(1.0), SA(2.0)).energy_functional.symbol
    'E_β'
    """
    adapted = adapt(dynamics)
    if energy is None:
        return adapted
    return WithEnergy(adapted, adapt(energy))


def adapt_energy(name: str, given: object) -> Dynamics:
    """The dynamics whose energy is meant, of a number β SA.

    Raises
    ------
    ValueError
        As `adapt`; or if it is neither.

    Examples
    --------
    >>> adapt_energy("energy", 2.0)
    SA(beta=2.0, sign=1, noise=0.0)
    """
    if (adapted := adapt_any(given)) is not None:
        return adapted
    if callable(given) and not isinstance(given, type):
        raise ValueError(
            f"{name} must be a finite number >= 0, got {shown(given)}: where it varies in time "
            f"take mf.SA(schedule), or the dynamics whose energy is meant"
        )
    return SA(number(name, given, low=0))
