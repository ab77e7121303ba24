"""The facts of a dynamics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from meanfield._checks import check_measure, number, shown, unit_rows
from meanfield._shown import ShownFields
from meanfield.spaces.geometry import project
from meanfield.typing import Array, ArrayLike, Summable

# beyond it e^x leaves double precision
LARGEST_LOG = 709.0
# rounding of a product of matrices, as a share of it
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Energy:
    """The functional that a dynamics climbs or falls along, and of which it is a gradient flow.

    It is ½ ∬ S(<x,y>) dmu dmu where it has a `kernel` s, S' = s; or E_{β,D}(mu) = 1/(2β) ∬
    e^{β<x,Dy>} dmu dmu where it has a `form` D; or E_DS(mu) = -(1/β) ∫ log u dmu where it is
    `entropic`. `functionals.energies` computes it.

    Attributes
    ----------
    symbol, formula : str
        As figures and files print them.
    sign : int
        +1 where it grows along the flow, -1 where it falls.
    in_w2 : bool
        Whether the gradient is that of W_2; if not, the metric has the weight G of (3.12).
    beta : float
        β of a form, or of what is entropic; 0 for the limit without 1/(2β).
    dirac, log_dirac : float
        E(δ) = dirac · e^{log_dirac}, of a Dirac mass where it is largest.
    log_unit : float
        Runs keep the energy in units of e^{log_unit}.
    form : ndarray (d, d), float or None
        D, symmetric.
    kernel : Kernel or None
        s.
    entropic : bool
    """

    symbol: str
    formula: str
    sign: int
    in_w2: bool = True
    beta: float = 0.0
    dirac: float = 0.5
    log_dirac: float = 0.0
    log_unit: float = 0.0
    form: Any = None
    kernel: Any = None
    entropic: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether right-hand sides of densities and flow maps have what it is made of."""
        return self.kernel is not None and self.kernel.primitive_row is not None

    def relative(self, value: float, log_unit: float) -> float:
        """A value in units of e^{log_unit} over |E(δ)|; as it is where E(δ) = 0."""
        size = abs(self.dirac) or 1.0
        return value * float(np.exp(log_unit - self.log_dirac)) / size


def multiplied_out(value: float, log_unit: float) -> float:
    """A value in units of e^{log_unit} as it is, infinite where it overflows."""
    if value == 0.0:
        return 0.0
    if log_unit <= LARGEST_LOG:
        return value * float(np.exp(log_unit))
    # the exponential in two factors, since it may overflow where the product does not
    with np.errstate(over="ignore"):
        half = np.exp(0.5 * log_unit)
        return float(value * half * half)


class Dynamics(ShownFields, ABC):
    """A dynamics with its facts: what holds of it unless it says otherwise.

    It is the same at all times; what acts at a time is one of its layers.

    Attributes
    ----------
    name : str
        A word for figures and files.
    dim : int or None
        Ambient dimension d, None if any fits.
    noise : float
        τ >= 0 of dx = X dt + sqrt(2τ) dB.
    _isotropic : bool
        Whether X commutes with every rotation.
    _fast : bool
        Whether X is of the size of its kernel: at large β runs count time in units of e^{-β}.
    _balanced : bool
        Whether the sources are rescaled such that the attention matrix is doubly stochastic.
    sign : int
        -1 of what repels with V = -I.
    normalised : bool
        Whether heads are divided by G.
    _smooth : bool
        Whether X has derivatives of all orders.
    _keeps_clusters : bool
        Whether neighbours attract each other, so that what has gathered at a point stays: where it
        has a kernel with ± s(1) > 0.
    _energy : Energy or None
        None where X is the gradient of none.
    _no_energy : str
        Why there is none.
    _is_gradient : bool
        Whether X of every measure is ∇ψ for some function ψ on the sphere.
    _no_gradient : str
        Why it is none.
    _reach : float
        The largest |z| of the e^{<z,y>} that X asks a measure for, or k of e^{ikθ}.
    _kernel : Kernel or None
        s, where X is ± P_x ∫ s(<x,y>) y dmu(y) [/ ∫ s(<x,y>) dmu(y)], or that of an interaction on
        the circle.
    _gram : bool
        Whether inner products alone move tokens, so that a run may keep to their span.
    _scores, _values : sequence of ndarray (d, d) or float
        β KᵀQ and V of each head; none where there are no heads.
    _multipliers : ndarray, shape (kmax + 1,), or None
        c_k of X(θ) = 2 Re Σ_k c_k m_k e^{ikθ} on the circle, m_k = ∫ e^{-ikθ} dmu; None where X is
        made of e^{<z,y>}.
    _layer_step : float or None
        Of discrete layers the time that each counts for; None of a flow.
    _sums : str
        How a sum over tokens is done where there are no heads: 'own' as it likes, 'transforms', or
        'none' where the measure does not count.
    """

    _isotropic: ClassVar[bool] = False
    _balanced: ClassVar[bool] = False
    _gram: ClassVar[bool] = False
    _sums: ClassVar[str] = "own"
    _no_energy: ClassVar[str] = "nothing is known of it but its output"
    _no_gradient: ClassVar[str] = _no_energy
    noise: float = 0.0
    sign: int = 1
    normalised: bool = False
    dim: int | None = None
    _smooth: bool = True
    _scores: Sequence[Any] = ()
    _values: Sequence[Any] = ()
    _multipliers: Any = None
    _layer_step: float | None = None

    @property
    def name(self) -> str:  # noqa: D102
        return type(self).__name__

    @property
    def _energy(self) -> Energy | None:
        return None

    @property
    def _is_gradient(self) -> bool:
        return False

    @property
    def _reach(self) -> float:
        return 0.0

    @property
    def _kernel(self) -> Any:
        return None

    @property
    def _fast(self) -> bool:
        return False

    @property
    def _keeps_clusters(self) -> bool:
        return self._kernel is not None and self.sign * self._kernel.at_one > 0.0

    def _matrices(self, dim: int) -> list[tuple[Array, Array]]:
        """M = β KᵀQ and V of each head, shape (d, d) each; none where there are no heads."""
        heads = zip(self._scores, self._values, strict=True)
        return [(_matrix(m, dim), _matrix(v, dim)) for m, v in heads]

    def velocity(self, measure: Summable, at: ArrayLike, *, t: float = 0.0) -> Array:
        """Tangent vectors X[mu](x), shape (n, d), at unit rows `at`.

        Parameters
        ----------
        measure : Density, FlowMap or Particles
        at : array_like, shape (n, d)
        t : float
            Of `Layers`, the time that tells which one acts.

        Raises
        ------
        ValueError
            If `measure` is none, its dimension is not that of the dynamics, the points are not unit
            rows of it, or t < 0.
        """
        check_measure("measure", measure)
        check_dim(self, measure.dim)
        points = unit_rows("at", at, measure.dim)
        return self._at(number("t", t, low=0))._tangents(measure, points)

    @abstractmethod
    def output(self, measure: Any, points: Array) -> Array:
        """What is added to tokens at unit rows (n, d), shape (n, d); only P_x of it counts."""

    def _tangents(self, measure: Summable, points: Array) -> Array:
        """X, shape (n, d), at unit rows (n, d)."""
        return project(points, self.output(measure, points))

    @property
    def _layers(self) -> Sequence[Dynamics]:
        """What acts, one after the other: this alone."""
        return (self,)

    def _between(self, start: float, end: float) -> Iterator[tuple[Dynamics, float]]:  # noqa: ARG002
        """The layers that act from `start` to `end`, and when each ends: this one, at the end."""
        yield self, end

    @property
    def _depth(self) -> float:
        """The time from which on it is not known: none."""
        return float("inf")

    def _at(self, t: float) -> Dynamics:  # noqa: ARG002
        """The layer that acts at a time, of two the later: this one."""
        return self


def check_dim(dynamics: Any, dim: int) -> None:
    """Check that a measure has the dimension of a dynamics.

    Raises
    ------
    ValueError
        Naming both.
    """
    if dynamics.dim not in (None, dim):
        raise ValueError(
            f"measure must have dim = {dynamics.dim}, that of {shown(dynamics)}, got one of dim "
            f"{dim}"
        )


def is_multiple(given: Array, of: Array) -> bool:
    """Whether an array is a multiple of another, to rounding; any is where the other is 0.

    Examples
    --------
    >>> is_multiple(np.array([2.0, -4.0]), np.array([-1.0, 2.0]))
    True
    >>> is_multiple(np.array([1.0, 0.0]), np.array([0.0, 3.0]))
    False
    """
    size = float(np.abs(of).max())
    if size == 0.0:
        return True
    unit = of / size
    factor = float(np.sum(given * unit) / np.sum(unit * unit))
    gap = float(np.abs(given - factor * unit).max())
    return gap <= _ROUNDING * float(np.abs(given).max())


def parts_of(given: Any) -> tuple[Any, ...]:
    """What a sequence holds, or a thing itself alone."""
    return tuple(given) if isinstance(given, Sequence) else (given,)


def _matrix(given: Any, dim: int) -> Array:
    """A matrix as it is, or a number as that multiple of the identity, shape (d, d)."""
    matrix = np.asarray(given, dtype=np.float64)
    return matrix if matrix.ndim else float(matrix) * np.eye(dim)
