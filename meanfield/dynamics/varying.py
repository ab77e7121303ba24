"""A dynamics with weights in time, as equations know it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np

from meanfield.dynamics.facts import Dynamics, Energy, Several, energy_of, fact_of, fact_of_each
from meanfield.dynamics.schedule import schedules
from meanfield.typing import Array, Steepness

# relations between weights are products of three; so many times of a piece show whether they hold
# on all of it
_FACTORS, _MOST_POINTS = 3, 100
# the dynamics of so many times are kept
KEPT_TIMES = 16
# a knot this near to a time, as a share of a step, is that time
_ROUNDING = 1e-9


def _log_largest(factor: float, energy: Energy) -> float:
    """Return log |w E(δ)|; log |w| if the energy of a Dirac mass is 0."""
    return energy.log_dirac + float(np.log(abs(factor * (energy.dirac or 1.0))))


class Varying(Several):
    """A dynamics that varies: the one that acts at each time, and facts that hold at all times.

    It has no kernel, no heads and no matrices of its own: those are what `at` gives. What is the
    same at all times is taken from the instances at the knots.

    Parameters
    ----------
    dynamics : Dynamics
        With schedules, or a user's own that gets the time.

    Attributes
    ----------
    knots : ndarray
        The times of all schedules, as far as all of them go; 0 where there are none.

    Raises
    ------
    ValueError
        If schedules have no time in common.
    """

    name = ""
    varies = True
    own_terms = fact_of("_own.own_terms")
    own_weights = fact_of("_own.own_weights")
    reach = fact_of("_own.reach")
    weights_vary = fact_of("_own.weights_vary")
    known_by_output = fact_of_each("known_by_output", any)

    def __init__(self, dynamics: Dynamics) -> None:
        all_times = [np.asarray(schedule.times) for schedule in schedules(dynamics)]
        # a user's object has no times of its own and holds at all times
        start = max((own_times[0] for own_times in all_times), default=0.0)
        end = min((own_times[-1] for own_times in all_times), default=np.inf)
        if not start < end:
            raise ValueError(f"schedules must have times in common, got {dynamics!r}")
        times = np.unique(np.concatenate([[start], *all_times]))
        times = times[np.isfinite(times)]
        self._own, self.knots = dynamics, times[(times >= start) & (times <= end)]
        self._last = float(end)
        self.name, self.dim, self.noise = dynamics.name, dynamics.dim, dynamics.noise
        self.sign, self.normalised = dynamics.sign, dynamics.normalised
        # several callers ask for the same time; the value depends on the time alone, so threads may
        # share it
        self._of = lru_cache(maxsize=KEPT_TIMES)(dynamics.at)

    def __repr__(self) -> str:
        return repr(self._own)

    def output(self, measure: object, points: Array) -> Array:
        """Refuse.

        Raises
        ------
        TypeError
            Always: of which time is not told.
        """
        raise TypeError(f"{self!r} has an output at a time only, not of {measure} at {points}")

    def at(self, t: float) -> Dynamics:
        """The dynamics with the weights of a time."""
        return self._of(float(t))

    @cached_property
    def instances(self) -> Sequence[Dynamics]:
        """The dynamics at the knots."""
        return [self.at(t) for t in self.knots]

    @cached_property
    def _samples(self) -> Sequence[Dynamics]:
        """Return the dynamics at enough times of each piece.

        A relation that holds at all of these times holds always.

        Relations between weights are polynomials on each piece, which are 0 if they are so at more
        points than their degree. A series of a high degree is smooth, and looked at at 100.
        """
        return self._samples_between(self.knots)

    def _samples_between(self, times: Array) -> Sequence[Dynamics]:
        """Return the dynamics at enough times of the pieces that end at these times."""
        degree = max((each.degree for each in schedules(self._own)), default=0)
        shares = np.linspace(0.0, 1.0, min(_FACTORS * degree + 1, _MOST_POINTS))
        starts, steps = times[:-1, None], np.diff(times)[:, None]
        times_inside = np.minimum(starts + shares * steps, times[-1]).ravel()
        return [self.at(t) for t in np.append(times_inside, times[-1])]

    @property
    def _each(self) -> Sequence[Dynamics]:
        """Return the dynamics at the knots."""
        return self.instances

    @property
    def sum_method(self) -> str:  # type: ignore[override]
        return self.instances[0].sum_method

    @property
    def steepness(self) -> Steepness | None:
        """The largest of all samples, which the parts of a flow map are to resolve."""
        each = [sample.steepness for sample in self._samples if sample.steepness is not None]
        return (lambda sets: np.max([sample(sets) for sample in each], axis=0)) if each else None

    @property
    def log_unit(self) -> float:
        return self.reach if self.has_kernel_unit else 0.0

    @property
    def keeps_clusters(self) -> bool:
        return not self.weights_vary and bool(super().keeps_clusters)

    @property
    def gathers_clusters(self) -> bool:
        return not self.weights_vary and bool(super().gathers_clusters)

    @cached_property
    def is_gradient(self) -> bool:
        return all(sample.is_gradient for sample in self._samples)

    @property
    def why_no_gradient(self) -> str:  # type: ignore[override]
        return next(sample.why_no_gradient for sample in self._samples if not sample.is_gradient)

    @property
    def why_no_energy(self) -> str:  # type: ignore[override]
        lacking = [sample for sample in self._samples if sample.energy_functional is None]
        return lacking[0].why_no_energy if lacking else "its sign changes"

    @cached_property
    def energy_functional(self) -> Energy | None:
        """The one of a sample at which a Dirac mass has the largest, where all samples have one."""
        return self._largest_energy(self._samples)

    def energy_between(self, start: float, end: float) -> Energy | None:
        """The same of the samples from one time to another."""
        inside = self.knots[(self.knots > start) & (self.knots < end)]
        return self._largest_energy(self._samples_between(np.array([start, *inside, end])))

    def _largest_energy(self, samples: Sequence[Dynamics]) -> Energy | None:
        energies = [sample.energy_functional for sample in samples]
        energies_known = [energy for energy in energies if energy is not None]
        if (
            len(energies_known) < len(energies)
            or len({energy.sign for energy in energies_known}) > 1
        ):
            return None
        first = energies_known[0]
        if not first.parts:
            return max(energies_known, key=lambda energy: _log_largest(1.0, energy))
        # each part is taken at the knot where it is largest
        each = zip(*(energy.parts for energy in energies_known), strict=True)
        parts = [max(same_part, key=lambda part: _log_largest(*part)) for same_part in each]
        if not self.weights_vary:
            return energy_of(parts, first.sign, first.symbol, first.formula)
        summands = [f"w_{i}(t) {energy.symbol}" for i, (_, energy) in enumerate(parts)]
        parts = [
            (factor, replace(energy, formula=f"{energy.formula}, with the largest w_{i}(t)"))
            for i, (factor, energy) in enumerate(parts)
        ]
        return energy_of(parts, first.sign, "F", " + ".join(summands))

    @property
    def depth(self) -> float:
        """The last time that all schedules know."""
        return self._last

    def between(self, start: float, end: float) -> Iterator[tuple[int, float]]:
        """Itself, piece by piece: the steps of a run end at knots, and at the end."""
        slack = _ROUNDING * float(np.diff(self.knots, append=np.inf).min())
        for knot in self.knots[(self.knots > start + slack) & (self.knots < end - slack)]:
            yield 0, float(knot)
        yield 0, end
