"""The contract of right-hand sides, and what every field answers them at its places."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.equations.in_time import Steady
from meanfield.typing import Array

_NOTHING = np.empty(0)
# fields of so many random layers or stages of steps are kept; on S^2 each takes some megabytes
_KEPT = 24

# a run whose numbers leave the range of float64 ends with this message; no tolerance helps
NOT_FINITE = (
    "the field is not finite, its numbers are too large: try a smaller beta or smaller matrices"
)


def check_finite(velocity: Array) -> None:
    """Refuse a velocity that has left the range of float64.

    Raises
    ------
    ArithmeticError
        Saying what may help, and how many numbers are lost.
    """
    n_lost = velocity.size - np.count_nonzero(np.isfinite(velocity))
    if n_lost:
        raise ArithmeticError(f"{NOT_FINITE}; {n_lost} of {velocity.size} numbers of X are lost")


class Rates(NamedTuple):
    """X, div X and the gradients of energies at n places.

    Attributes
    ----------
    velocity : ndarray, shape (n,), (n, d) or (c, n)
        X along a line of angles, in R^d, or its components along the c tangents of a grid.
    divergence : ndarray, shape (n,)
        div X; empty in fields of densities and tokens, whose runs do not ask for it.
    energy_gradients : tuple of ndarray, each of the velocity's shape
        ∇ δE/δmu of each energy, in units of its own e^{log_unit}; none where there is no energy.
    """

    velocity: Array
    divergence: Array = _NOTHING
    energy_gradients: tuple[Array, ...] = ()

    def energy_rates(self, masses: Array, axis: int = -1) -> Array:
        """dE/dt = ∫ <∇ δE/δmu, X> dmu of each energy, of masses (n,) at the places.

        Components are along an axis, the first one on a grid.

        Examples
        --------
        >>> Rates(np.array([2.0, 1.0]), energy_gradients=(np.ones(2),)).energy_rates(np.ones(2))
        array([3.])
        """
        return np.array([self._gain(gradient, masses, axis) for gradient in self.energy_gradients])

    def _gain(self, gradient: Array, masses: Array, axis: int) -> float:
        gains = gradient * self.velocity
        return float(masses @ (gains if gains.ndim == 1 else gains.sum(axis=axis)))


M_co = TypeVar("M_co", covariant=True)


class Tendency(Steady, ABC, Generic[M_co]):
    """d/dt of the state of a measure: a real vector, whose meaning this tells.

    It is asked at a time (`at`), and what it tells of the last state is of the last call.

    Attributes
    ----------
    initial_state : ndarray
        The state of the measure that it was made for.
    """

    initial_state: Array
    # the last rates of the field, and the masses where they were asked; empty without an energy
    _rates = Rates(_NOTHING)
    _masses: Array = _NOTHING

    @abstractmethod
    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""

    @abstractmethod
    def measure(self, state: Array) -> M_co:
        """The measure of a state."""

    @abstractmethod
    def allowed_errors(self, state: Array, tol: float) -> Array:
        """The errors that a step may make in each entry of a state, for a tolerance."""

    def energy_rates(self) -> Array | float:
        """dE/dt of each energy in units of e^{log_unit}, at the last state."""
        return self._rates.energy_rates(self._masses)


def added(parts: Iterable[tuple[float, Rates]]) -> Rates:
    """The rates of a sum of weighted terms at the same places, with the gradients of each energy.

    Where components differ in number those that one lacks are 0. Where terms have weight 0 their
    energies alone are followed.

    Examples
    --------
    >>> added([(2.0, Rates(np.ones((1, 2)))), (1.0, Rates(np.ones((2, 2))))]).velocity
    array([[3., 3.],
           [1., 1.]])
    """
    parts, gradients = list(parts), []
    is_following = any(weight == 0.0 for weight, _ in parts)
    widest = max((rates.velocity for _, rates in parts), key=lambda each: each.shape[0])
    velocity = np.zeros_like(widest)
    divergence = np.zeros_like(parts[0][1].divergence)
    for weight, rates in parts:
        rows = slice(len(rates.velocity))
        if weight:
            velocity[rows] += weight * rates.velocity
            divergence += weight * rates.divergence
            if is_following:
                continue
        for gradient in rates.energy_gradients:
            total = np.zeros_like(widest)
            total[rows] = gradient
            gradients.append(total)
    return Rates(velocity, divergence, tuple(gradients))


F = TypeVar("F")


def fields_of_layers(dynamics: Dynamics, make: Callable[[Dynamics], F]) -> Callable[[Dynamics], F]:
    """The field of a layer, made when it is asked for, of equal layers once.

    Those of layers that are listed are kept, and the last few of layers that are drawn, or of
    weights at a time.

    Raises
    ------
    ValueError
        If there is none for a layer.
    """
    instances = [acting for layer in dynamics.representatives for acting in layer.instances]
    field_of = lru_cache(max(_KEPT, len(instances)))(make)
    for instance in instances:
        field_of(instance)
    return field_of
