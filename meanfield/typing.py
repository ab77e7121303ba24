"""Types of signatures: arrays, and what a law, a space, a measure and a dynamics answer users."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Array",
    "ArrayLike",
    "Coefficients",
    "Dynamics",
    "Indices",
    "Integers",
    "Law",
    "Measure",
    "NDArray",
    "OwnDynamics",
    "Rng",
    "Space",
]

Array = NDArray[np.float64]
# coefficients are real or complex, as their space has them
Coefficients = NDArray[Any]
Indices = NDArray[np.intp]
Integers = NDArray[np.int64]
# how wide sets of points (k, n, d) are, over the width on which a function varies there, shape (k,)
Steepness = Callable[[Array], Array]
# randomness comes from a seed, or from a generator, which goes on
Rng = int | np.random.Generator


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


class Drawable(Protocol):
    """A law, a density or a flow map, from which points are drawn."""

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent draws, unit rows (n, d)."""


class Space(Protocol):
    """A grid on S^{d-1} and its series: `Circle`, `Sphere` and `Zonal`."""

    @property
    def dim(self) -> int:
        """Ambient dimension d."""

    @property
    def axis(self) -> Array | None:
        """The unit vector (d,) about which all is symmetric; None on the whole sphere."""

    @property
    def weights(self) -> Array:
        """Quadrature weights of σ, shape (N,)."""

    def analysis(self, values: Array) -> Coefficients:
        """Coefficients of the values (N,) on the grid."""

    def synthesis(self, coefficients: Coefficients) -> Array:
        """Values (N,) on the grid of the coefficients."""


class Measure(Protocol):
    """A probability measure on S^{d-1}: `Density`, `FlowMap`, `Particles` and oscillators."""

    @property
    def dim(self) -> int:
        """Ambient dimension d."""

    def mean(self) -> Array:
        """∫ x dmu, shape (d,)."""

    def log_moment(self, z: ArrayLike) -> tuple[Array, Array]:
        """log G (n,) and ∇ log G (n, d) at rows z (n, d), G(z) = ∫ e^{<z,y>} dmu(y)."""


class Summable(Measure, Protocol):
    """A measure over which a kernel can be summed."""

    @property
    def axis(self) -> Array | None:
        """The axis, shape (d,), if points stand for latitudes about one."""

    @property
    def quadrature(self) -> tuple[Array, Array]:
        """Points (n, d) and masses (n,) that integrate over the measure; see `points`."""

    @property
    def points(self) -> Array:
        """Places that integrate over the measure, unit rows (n, d); about an axis one meridian."""

    @property
    def weights(self) -> Array:
        """Their masses, shape (n,)."""

    def trigonometric_moments(self, kmax: int) -> NDArray[np.complex128]:
        """∫ e^{-ikθ} dmu on the circle, k = 0 … kmax."""

    def kernel_nodes(self, degree: int | None, reach: float) -> tuple[Array, Array]:
        """Points (n, d) and masses (n,) that integrate polynomials of this degree over it."""

    def series_sums(self, kernel: Any, targets: int) -> Any:
        """Sums of a kernel over it at so many points in O(n); None where all pairs are summed."""

    def balance(self, beta: float) -> Any:
        """The measure u mu, with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1: for `DoublyStochastic`."""


class Dynamics(Protocol):
    """A velocity field of the package: what `evolve` takes, beside an `OwnDynamics`."""

    @property
    def name(self) -> str:
        """A word for figures and files."""

    @property
    def dim(self) -> int | None:
        """Ambient dimension d, None if any fits."""

    @property
    def noise(self) -> float:
        """τ >= 0 of dx = X dt + sqrt(2τ) dB."""

    def velocity(self, measure: Any, at: ArrayLike, *, t: float = 0.0) -> Array:
        """Tangent vectors X[mu](x), shape (n, d), at unit rows `at`."""

    def output(self, measure: Any, points: Array) -> Array:
        """The velocity of tokens at unit rows (n, d), shape (n, d), before projection."""


@runtime_checkable
class OwnDynamics(Protocol):
    """An object of any class with a name, a noise, and one of `kernel`, `heads()` and `output`.

    With a `kernel`, Taylor coefficients or a pair of functions, it acts as an `Interaction`. With
    `heads()`, a list of `Head`, it acts as an `Attention` of β = 1. Both move every measure. It may
    have `normalised` (default True for heads, False for a kernel) and, with a kernel, `sign`.

    With `output(measure, points)`, the velocity at unit rows, shape (n, d) both, it moves
    `Density` and `Particles`, and flow maps if it has `divergence(measure, points)`, shape (n,),
    that of P_x output on the sphere; on S^2 without an axis only with `reads_measure = False`, and
    then the measure is None. With `energy(measure)` and `energy_gradient(measure, points)`, of
    which only P_x counts, shape (n, d), runs have its balance; `energy_dirac` is what its errors
    are relative to, else the largest value so far. If there is an output, kernel and heads are
    ignored. An output or a divergence with an argument `t` gets the time by that name; runs have no
    balance then.

    Examples
    --------
    >>> import meanfield as mf
    >>> class Mean:  # the tangent of half the angle between two tokens decays like e^{-t}
    ...     name, noise = "mean", 0.0
    ...
    ...     def output(self, measure, points):
    ...         return np.broadcast_to(measure.mean(), points.shape)
    >>> tokens = mf.Particles([[1.0, 0.0], [0.0, 1.0]])
    >>> x, y = mf.evolve(tokens, Mean(), 1.0).final.points
    >>> round(float(np.tan(np.arccos(x @ y) / 2.0) * np.e), 8)
    1.0
    """

    @property
    def name(self) -> str:
        """A word for figures and files; none of the package's."""

    @property
    def noise(self) -> float:
        """τ >= 0 of dx = X dt + sqrt(2τ) dB."""


class Listed:
    """An object whose completion lists what users need, and not what rooms ask each other.

    A class that states a contract between rooms names in `_for_users` what users need of it; all
    else that it states is for rooms. Another class names in `_for_rooms` what it adds for them.
    """

    _for_rooms: ClassVar[Sequence[str]] = ()
    _for_users: ClassVar[Sequence[str] | None] = None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - names_for_rooms(type(self)))


def names_for_rooms(cls: type) -> set[str]:
    """The public names of a class that rooms ask each other for, and users do not need.

    Examples
    --------
    >>> class Law(Listed):
    ...     _for_rooms = ("table",)
    >>> names_for_rooms(Law)
    {'table'}
    """
    names: set[str] = set()
    for base in cls.__mro__:
        stated = vars(base)
        names.update(stated.get("_for_rooms", ()))
        if (users := stated.get("_for_users")) is not None:
            names |= {*stated, *stated.get("__annotations__", ())} - {*users}
    return {name for name in names if not name.startswith("_")}
