"""Laws to build others from: uniform, von Mises-Fisher, mixtures; and what a law is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import vonmises_fisher

from meanfield import arguments
from meanfield.arguments import generator, integer, number, unit_rows, unit_vector
from meanfield.harmonics import scaled_eigenvalues

Array = NDArray[np.float64]


@runtime_checkable
class Law(Protocol):
    """A probability law with a density with respect to σ; any object with these three is one."""

    dim: int

    def pdf(self, points: ArrayLike) -> Array:
        """Density (n,) at unit rows (n, d)."""

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent points, shape (n, d)."""


class Uniform:
    """σ itself: f = 1.

    Parameters
    ----------
    dim : int
        Ambient dimension d >= 2.

    Raises
    ------
    ValueError
        If d is no such integer.

    Examples
    --------
    >>> Uniform(3).pdf([[0.0, 0.0, 1.0]])
    array([1.])
    """

    def __init__(self, dim: int) -> None:
        self.dim = integer("dim", dim, low=2)

    def __repr__(self) -> str:
        return f"Uniform({self.dim})"

    def pdf(self, points: ArrayLike) -> Array:
        """Density (n,) at unit rows (n, d)."""
        return np.ones(len(unit_rows("points", points, self.dim)))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent points, shape (n, d)."""
        normals = generator("rng", rng).normal(size=(integer("n", n, low=1), self.dim))
        return np.asarray(normals / np.linalg.norm(normals, axis=1, keepdims=True))


class VonMisesFisher:
    """f(x) = e^{κ<x,m>} / Λ_0(κ, d): the bump around m of angular width 1/sqrt(κ).

    Parameters
    ----------
    mean : array_like, shape (d,)
        Unit vector m, d >= 2.
    kappa : float
        Concentration κ >= 0.

    Raises
    ------
    ValueError
        If m is no unit vector or κ is negative.

    Examples
    --------
    >>> VonMisesFisher([0.0, 1.0], 0.0).pdf([[1.0, 0.0]])
    array([1.])
    """

    def __init__(self, mean: ArrayLike, kappa: float) -> None:
        self.mean = unit_vector("mean", mean)
        self.mean.flags.writeable = False
        self.kappa = number("kappa", kappa, low=0)
        self.dim = len(self.mean)

    def __repr__(self) -> str:
        return f"VonMisesFisher(mean={self.mean.round(4).tolist()}, kappa={self.kappa:g})"

    def pdf(self, points: ArrayLike) -> Array:
        """Density (n,) at unit rows (n, d), with relative accuracy in the tails."""
        points = unit_rows("points", points, self.dim)
        # <x,m> - 1 = -|x-m|²/2 keeps its digits at the peak
        gaps = points - self.mean
        exponents = -0.5 * self.kappa * np.einsum("ij,ij->i", gaps, gaps)
        with np.errstate(under="ignore"):
            return np.asarray(np.exp(exponents) / scaled_eigenvalues(self.kappa, self.dim, 0)[0])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent points, shape (n, d)."""
        n = integer("n", n, low=1)
        if self.kappa == 0.0:
            return Uniform(self.dim).sample(n, rng)
        drawn = vonmises_fisher(self.mean, self.kappa).rvs(n, random_state=generator("rng", rng))
        return np.asarray(drawn, dtype=np.float64).reshape(n, self.dim)


class Mixture:
    """f = Σ_i w_i f_i.

    Parameters
    ----------
    laws : sequence of Law
        All of one dimension.
    weights : array_like
        One for each law, non-negative, normalised to sum 1; equal if omitted.

    Raises
    ------
    ValueError
        If there is no law, dimensions differ, or weights are not of that kind.

    Examples
    --------
    >>> Mixture([Uniform(2), VonMisesFisher([1.0, 0.0], 0.0)], [1, 3]).pdf([[1.0, 0.0]])
    array([1.])
    """

    def __init__(self, laws: Sequence[Law], weights: ArrayLike | None = None) -> None:
        self.laws = tuple(laws)
        if not self.laws or not all(isinstance(law, Law) for law in self.laws):
            raise ValueError(f"laws must be one or more laws, got {laws!r}")
        self.dim = self.laws[0].dim
        dims = [law.dim for law in self.laws]
        if set(dims) != {self.dim}:
            raise ValueError(f"laws must have one dimension, got {dims}")
        self.weights = arguments.weights("weights", weights, len(self.laws))
        self.weights.flags.writeable = False

    def __repr__(self) -> str:
        return f"Mixture({list(self.laws)}, weights={self.weights.round(4).tolist()})"

    def pdf(self, points: ArrayLike) -> Array:
        """Density (n,) at unit rows (n, d)."""
        points = unit_rows("points", points, self.dim)
        parts = np.array([law.pdf(points) for law in self.laws])
        return np.asarray(self.weights @ parts)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent points, shape (n, d)."""
        chosen = generator("rng", rng).choice(
            len(self.laws), size=integer("n", n, low=1), p=self.weights
        )
        points = np.empty((n, self.dim))
        for i, law in enumerate(self.laws):
            places = np.nonzero(chosen == i)[0]
            if len(places) > 0:
                points[places] = law.sample(len(places), rng)
        return points
