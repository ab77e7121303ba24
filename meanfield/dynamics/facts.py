"""The facts of a dynamics: what runs and equations ask it, its energy, and the sum of several."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, singledispatch
from operator import attrgetter
from typing import Any, ClassVar, TypeGuard

import numpy as np

from meanfield import _checks
from meanfield._checks import freeze, number, real_array, shown
from meanfield._records import key
from meanfield._shown import ShownFields
from meanfield.dynamics import schedule
from meanfield.dynamics.schedule import Schedule, TimeDependent, at_time, in_time
from meanfield.spaces.geometry import project
from meanfield.typing import Array, ArrayLike, NDArray, OwnDynamics, Steepness, Summable

# for a larger x, e^x leaves double precision
LARGEST_LOG = 709.0
# a product of matrices has a rounding error of at most this share of its largest entry
_ROUNDING = 1e-13
# a weight that varies in time and passes through 0 is replaced by this one there
_NO_WEIGHT = 1e-300


@dataclass(frozen=True, eq=False)
class Energy:
    """The functional that a dynamics climbs or falls along, and of which it is a gradient flow.

    It is ½ ∬ S(<x,y>) dmu dmu where it has a `kernel` s, S' = s; or E_{β,D}(mu) = 1/(2β) ∬
    e^{β<x,Dy>} dmu dmu where it has a `form` D; or E_DS(mu) = -(1/β) ∫ log u dmu where it is
    `entropic`; or ∫ v dmu where it has a `potential` v; or what a `functional` says; or a sum of
    these where it has `parts`. `functionals.energies` computes it.

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
        E(δ) = dirac · e^{log_dirac}, of a Dirac mass where it is largest; of what has parts the
        sum of their sizes.
    log_unit : float
        Runs keep the energy in units of e^{log_unit}.
    form : ndarray (d, d), float or None
        D, symmetric.
    kernel : Kernel or None
        s.
    entropic : bool
    potential : callable or None
        v (n,) of unit rows (n, d).
    steepness : callable or None
        Of v, as that of a dynamics; None where v has kinks.
    functional : callable or None
        E of a measure, where nothing else is known of it; its `dirac` is then a size that a user
        gave, or 0.
    parts : sequence of (float, Energy)
        The energies that it is a sum of, each with its factor; none where it is of one kind.
    is_own : bool
        Whether it is that of the dynamics that moves the measure; if not, X may raise or lower it.
    """

    symbol: str
    formula: str
    sign: int
    in_w2: bool = True
    beta: float = 0.0
    dirac: float = 0.5
    log_dirac: float = 0.0
    log_unit: float = 0.0
    form: Array | float | None = None
    kernel: Any = None
    entropic: bool = False
    potential: Callable[[Array], Array] | None = None
    steepness: Steepness | None = None
    functional: Callable[[Summable], float] | None = None
    parts: Sequence[tuple[float, Energy]] = ()
    is_own: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether right-hand sides of densities and flow maps have what it is made of."""
        return self.kernel is not None and self.kernel.primitive_table is not None

    @property
    def has_bounds(self) -> bool:
        """Whether uniform and Dirac measures, or its kernel, tell between what values it lies."""
        return not self.parts and self.potential is None and self.functional is None

    @property
    def has_size(self) -> bool:
        """Whether a value is known that its errors are relative to, beside those of a run."""
        return self.functional is None or self.dirac != 0.0

    def relative(self, value: float, log_unit: float) -> float:
        """A value in units of e^{log_unit} over |E(δ)|; as it is where E(δ) = 0."""
        size = abs(self.dirac) or 1.0
        return value * float(np.exp(log_unit - self.log_dirac)) / size

    @property
    def each(self) -> Sequence[tuple[float, Energy]]:
        """The energies that it is a sum of, each with its factor; itself where it has no parts."""
        return self.parts or ((1.0, self),)

    def total(self, values: Iterable[float], log_units: Sequence[float]) -> tuple[float, float]:
        """e^{-u} times the energy, or its gain, and u, of those of its parts and their units."""
        largest = max(log_units)
        rows = zip(self.each, log_units, values, strict=True)
        shares = (
            factor * float(np.exp(u - largest)) * float(value) for (factor, _), u, value in rows
        )
        return sum(shares), largest


def multiplied_out(value: float, log_unit: float) -> float:
    """A value in units of e^{log_unit} as it is, infinite where it overflows."""
    if value == 0.0:
        return 0.0
    with np.errstate(over="ignore"):
        if log_unit <= LARGEST_LOG:
            return float(value * np.exp(log_unit))
        # the exponential is split in two, since it may overflow where the product does not
        half = np.exp(0.5 * log_unit)
        return float(value * half * half)


class Dynamics(ShownFields, ABC):
    """A dynamics with its facts: what holds of it unless it says otherwise.

    It is the same at all times, unless it has a `Schedule`; what acts at one is one of its layers.

    Attributes
    ----------
    name : str
        A word for figures and files.
    dim : int or None
        Ambient dimension d, None if any fits.
    noise : float
        τ >= 0 of dx = X dt + sqrt(2τ) dB.
    is_isotropic : bool
        Whether X commutes with every rotation by its `pair_kernel`, or as what is balanced; False
        of what is known by its output.
    has_kernel_unit : bool
        Whether X is of the size of its kernel: at large β runs count time in units of e^{-β}.
    is_balanced : bool
        Whether the sources are rescaled such that the attention matrix is doubly stochastic.
    sign : int
        -1 of what repels with V = -I.
    normalised : bool
        Whether heads are divided by G.
    is_smooth : bool
        Whether X has derivatives of all orders.
    keeps_clusters : bool
        Whether neighbours attract each other, so that what has gathered at a point stays: where it
        has a kernel with ± s(1) > 0.
    energy_functional : Energy or None
        None where X is the gradient of none.
    energy_at_any_size : Energy or None
        The same, also where it is too large for a run to keep it in balance.
    simplest : Dynamics
        The SA or USA that it is, or the layers of a map; else itself.
    weights_vary : bool
        Whether the weights of its terms vary in time, so that they may change their sign.
    mask : Causal or None
        It says which tokens each token sees; None where each sees all.
    why_no_energy : str
        Why there is none.
    is_gradient : bool
        Whether X of every measure is ∇ψ for some function ψ on the sphere.
    why_no_gradient : str
        Why it is none.
    reach : float
        The largest |z| of the e^{<z,y>} that X asks a measure for, or k of e^{ikθ}.
    pair_kernel : Kernel or None
        s, where X is ± P_x ∫ s(<x,y>) y dmu(y) [/ ∫ s(<x,y>) dmu(y)], or that of an interaction on
        the circle.
    stays_in_span : bool
        Whether inner products alone move tokens, so that a run may keep to their span.
    score_matrices, value_matrices : sequence of ndarray (d, d) or float
        β KᵀQ and V of each head of weights e^{β<Qx,Ky>}, of which runs are made; none where there
        are no heads.
    axis_rows : sequence of ndarray (m, d)
        Rows that must lie along an axis for X to be symmetric about it: Wᵀ and A of a feed-forward
        layer, at most two. Nothing else checks the symmetry of what is known by its output.
    multipliers : ndarray, shape (kmax + 1,), or None
        c_k of X(θ) = 2 Re Σ_k c_k m_k e^{ikθ} on the circle, m_k = ∫ e^{-ikθ} dmu; None where X is
        made of e^{<z,y>}.
    layer_step : float or None
        Of discrete layers the time that each counts for; None of a flow.
    known_by_output : bool
        Whether nothing but its output at points tells X, as of a feed-forward layer.
    known_by_moments : bool
        Whether moments of the measure fix X: not where its output is all, and reads the measure.
    divergence_at : callable or None
        div X (n,) on the sphere of a measure at unit rows (n, d), of what runs can ask for nothing
        but its output.
    knots : ndarray
        The times that steps end at, of what equations know with weights in time.
    rounding_size : float
        Of weights in time, to which rounding is relative; 0 where there are none.
    sum_method : str
        How a sum over tokens is done where there are no heads: 'own' as it likes, 'transforms', or
        'none' where the measure does not count.
    """

    _for_users = "dim", "mask", "name", "noise", "normalised", "output", "sign", "velocity"
    is_isotropic: ClassVar[bool] = False
    is_balanced: ClassVar[bool] = False
    stays_in_span: ClassVar[bool] = False
    sum_method: ClassVar[str] = "own"
    why_no_energy: ClassVar[str] = "nothing is known of it but its output"
    why_no_gradient: ClassVar[str] = why_no_energy
    # an array times a dynamics is an error: numpy would make an array of dynamics
    __array_ufunc__: ClassVar[None] = None
    noise: float = 0.0
    sign: int = 1
    normalised: bool = False
    dim: int | None = None
    mask: Any = None
    is_smooth: bool = True
    axis_rows: Sequence[Array] = ()
    score_matrices: Sequence[ArrayLike] = ()
    value_matrices: Sequence[ArrayLike] = ()
    multipliers: Any = None
    layer_step: float | None = None
    divergence_at: Any = None
    rounding_size: float = 0.0
    knots: Array = np.empty(0)

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def energy_functional(self) -> Energy | None:
        return None

    @property
    def energy_at_any_size(self) -> Energy | None:
        return self.energy_functional

    @property
    def simplest(self) -> Dynamics:
        return self

    @property
    def weights_vary(self) -> bool:
        return False

    def energy_between(self, start: float, end: float) -> Energy | None:  # noqa: ARG002
        """The energy of a run, whose E(δ) is the largest from one time to another."""
        return self.energy_functional

    @property
    def is_gradient(self) -> bool:
        return False

    @property
    def reach(self) -> float:
        return 0.0

    @property
    def pair_kernel(self) -> Any:
        return None

    @property
    def has_kernel_unit(self) -> bool:
        return False

    @property
    def keeps_clusters(self) -> bool:
        return self.pair_kernel is not None and self.sign * self.pair_kernel.at_one > 0.0

    def matrices(self, dim: int) -> list[tuple[Array, Array]]:
        """M = β KᵀQ and V of each head, shape (d, d) each; none where there are no heads."""
        heads = zip(self.score_matrices, self.value_matrices, strict=True)
        return [(as_matrix(m, dim), as_matrix(v, dim)) for m, v in heads]

    def velocity(
        self, measure: Summable, at: ArrayLike, *, t: float = 0.0, position: ArrayLike = 1.0
    ) -> Array:
        """Tangent vectors X[mu](x), shape (n, d), at unit rows `at`.

        Parameters
        ----------
        measure : Density, FlowMap or Particles
        at : array_like, shape (n, d)
        t : float
            The time that tells which of `Layers` acts, and the values of a `Schedule`.
        position : float or array_like, shape (n,)
            Under a mask, where in the order of tokens the places are, in (0, 1]: they see the
            tokens up to there, and themselves only if they are one of them. Tokens' own positions
            are ``np.cumsum(weights)``. 1.0 sees all, and is the only one without a mask.

        Raises
        ------
        ValueError
            If `measure` is none, its dimension is not that of the dynamics, the points are not unit
            rows of it, t < 0, a schedule does not know t, or no token is at a position or before.
        """
        _checks.check_measure("measure", measure)
        check_dim(self, measure.dim)
        points = _checks.unit_rows("at", at, measure.dim)
        now = self.at(number("t", t, low=0)).under_mask
        return now.tangents(measure, points, now._checked_position(position, len(points)))

    def _checked_position(self, position: ArrayLike, count: int) -> Array:
        """Return positions in (0, 1], one number or one for each of so many places.

        Without a mask the position is 1.0.
        """
        places = real_array("position", position, None)
        if (
            places.shape not in ((), (count,))
            or not ((places > 0.0) & (places <= 1.0 + 1e-9)).all()
        ):
            raise ValueError(
                f"position must be a number in (0, 1], or one for each of {count} places, got "
                f"{shown(position)}"
            )
        if not self.has_mask and (places != 1.0).any():
            raise ValueError(f"position must be 1.0 without a mask, got {shown(position)}")
        return places

    @abstractmethod
    def output(self, measure: Summable, points: Array) -> Array:
        """The output added to tokens at unit rows (n, d), shape (n, d); only P_x of it counts."""

    def output_and_gradients(
        self,
        measure: Any,
        points: Array,
        axis: Array | None = None,  # noqa: ARG002 (of own ones)
    ) -> tuple[Array, Sequence[Array]]:
        """The output at unit rows (n, d), and what has the gradients of its energy along them.

        Parameters
        ----------
        measure : Density, FlowMap or Particles; None where it does not count
        points : ndarray, shape (n, d)
        axis : ndarray, shape (d,), optional
            Where the points stand for their latitudes: those of a meridian.
        """
        output = self.output(measure, points)
        return output, (output,) if self.energy_functional else ()

    def tangents(
        self, measure: Summable, points: Array, position: ArrayLike | None = None
    ) -> Array:
        """X, shape (n, d), at unit rows (n, d); see `output_from`."""
        return project(points, self.output_from(measure, points, position))

    def output_from(
        self,
        measure: Summable,
        points: Array,
        position: ArrayLike | None,  # noqa: ARG002 (of masks)
    ) -> Array:
        """The output at unit rows (n, d), of which a mask asks where they are.

        Parameters
        ----------
        measure : Density, FlowMap or Particles
        points : ndarray, shape (n, d)
        position : float, ndarray (n,) or None
            In (0, 1]; None of tokens at their own.
        """
        return self.output(measure, points)

    @property
    def has_mask(self) -> bool:
        """Whether a term has one."""
        return self.mask is not None

    @property
    def under_mask(self) -> Dynamics:
        """The dynamics as equations know it under its mask: itself, without one."""
        return self

    @property
    def known_by_output(self) -> bool:
        return not (self.is_isotropic or self.score_matrices)

    @property
    def known_by_moments(self) -> bool:
        return not self.known_by_output or self.sum_method == "none"

    @property
    def log_unit(self) -> float:
        """X is in units of e^{log_unit}: those of its kernel where it is not divided by one."""
        return float(self.pair_kernel.log_unit) if self.has_kernel_unit else 0.0

    @property
    def gathers_clusters(self) -> bool:
        """Whether clusters of a flow map on S^2 may be carried by particles: where it commutes."""
        return self.is_isotropic

    @property
    def weighted_terms(self) -> Sequence[tuple[float, Dynamics]]:
        """The dynamics that act at once, each with its weight: this one alone.

        A term of weight 0 does not act: a run follows its energy, and no other's.
        """
        return ((1.0, self),)

    @property
    def mover(self) -> Dynamics:
        """The dynamics that moves the measure, without an energy that is only followed: this."""
        return self

    @property
    def all_layers(self) -> Sequence[Dynamics]:
        """The dynamics that act one after the other: this one alone."""
        return (self,)

    @property
    def representatives(self) -> Sequence[Dynamics]:
        """The layers of which one at least refuses whatever any layer refuses: this alone."""
        return (self,)

    @property
    def steepness(self) -> Steepness | None:
        """The largest of all terms of all layers; None where X is only what the measure makes."""
        layers = self.representatives
        terms = [term for layer in layers for _, term in layer.weighted_terms if term is not self]
        each = [term.steepness for term in terms if term.steepness is not None]
        return (
            (lambda sets: np.max([steepness(sets) for steepness in each], axis=0)) if each else None
        )

    @cached_property
    def varies(self) -> bool:
        """Whether it has weights in time; equations then know it as one that is `Varying`."""
        return next(schedule.schedules(self), None) is not None

    @property
    def own_terms(self) -> Sequence[Dynamics]:
        """The terms as they vary, each of which has an energy of its own: this alone."""
        return (self,)

    @property
    def own_weights(self) -> Sequence[float] | TimeDependent:
        """The weights of these terms as they vary."""
        return (1.0,)

    @property
    def instances(self) -> Sequence[Dynamics]:
        """The dynamics at the times at which what varies is checked: this one alone."""
        return (self,)

    def instances_from(self, t: float) -> Sequence[Dynamics]:
        """The dynamics at a time, and at the `knots` after it."""
        if not self.varies:
            return (self,)
        return [self.at(float(time)) for time in (t, *self.knots[self.knots > t])]

    def opposite(self) -> Dynamics | None:
        """The dynamics of its own kind that has -X, if there is one."""
        return None

    def __add__(self, other: object) -> Dynamics:
        """Both at once."""
        return _single([self, other]) if _may_be_term(other) else NotImplemented

    def __radd__(self, other: object) -> Dynamics:
        """Both at once; nothing is added by 0, with which `sum` begins."""
        if _checks.is_number(other) and other == 0:
            return self
        return _single([other, self]) if _may_be_term(other) else NotImplemented

    def __sub__(self, other: object) -> Dynamics:
        """Both at once, the other with -X."""
        return _single([self, other], [1.0, -1.0]) if _may_be_term(other) else NotImplemented

    def __rsub__(self, other: object) -> Dynamics:
        """Both at once, this one with -X."""
        return _single([other, self], [1.0, -1.0]) if _may_be_term(other) else NotImplemented

    def __mul__(self, factor: float) -> Dynamics:
        """X and the noise, a number of times."""
        return _single([self], [factor]) if _checks.is_number(factor) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, divisor: object) -> Dynamics:
        """X and the noise, divided by a number."""
        if not _checks.is_number(divisor):
            return NotImplemented
        value = number(f"divisor of {shown(self)}", divisor)
        if value == 0.0:
            raise ValueError(f"divisor of {shown(self)} must not be 0, got {divisor!r}")
        return _single([self], [1.0 / value])

    def __neg__(self) -> Dynamics:
        """The dynamics with -X."""
        return _single([self], [-1.0])

    def between(self, start: float, end: float) -> Iterator[tuple[int, float]]:  # noqa: ARG002
        """Numbers of layers that act from `start` to `end`, and when each ends: 0, at the end."""
        yield 0, end

    @property
    def depth(self) -> float:
        """The time from which on it is not known: none."""
        return float("inf")

    def layer_number(self, t: float) -> int:  # noqa: ARG002
        """Which layer acts at a time, of two the later: the first and only."""
        return 0

    def at(self, t: float) -> Dynamics:
        """The layer that acts at a time, of two the later, with the weights of then."""
        return at_time(self, t) if self.varies else self.all_layers[self.layer_number(t)]


@singledispatch
def known_term(term: object) -> Dynamics:
    """The dynamics that a term is; `own` has it of a user's own."""
    raise TypeError(f"terms must be dynamics, got {type(term)}")


@known_term.register
def _(term: Dynamics) -> Dynamics:
    return term.under_mask


def fact_of(path: str) -> Any:
    """A fact, or a method, that a dynamics has from another one: the names that lead there."""
    return property(attrgetter(path))


def fact_of_each(name: str, combine: Callable[..., object]) -> Any:
    """A fact that several dynamics have if `all`, or `any`, have it; or the `max` of theirs."""
    return property(lambda whole: combine(getattr(part, name) for part in whole._each))


# a dynamics has at most so many layers, heads or terms
MOST_PARTS = 4096


def _may_be_term(other: object) -> TypeGuard[OwnDynamics]:
    return not isinstance(other, type) and hasattr(other, "noise")


def _single(terms: Sequence[object], weights: Sequence[float] | None = None) -> Dynamics:
    """Return the sum of terms, or its only term if that has weight 1."""
    total = Sum(terms, weights=weights)
    (weight, term), *others = total.weighted_terms
    return total if others or weight != 1.0 else term


class Several(Dynamics):
    """Several dynamics together, at once or over time, with the facts that hold of all of them.

    Attributes
    ----------
    _each : sequence of Dynamics
    """

    @property
    @abstractmethod
    def _each(self) -> Sequence[Dynamics]:
        """Return the dynamics that this one consists of."""

    gathers_clusters = fact_of_each("gathers_clusters", all)
    is_gradient = fact_of_each("is_gradient", all)
    is_isotropic = fact_of_each("is_isotropic", all)
    keeps_clusters = fact_of_each("keeps_clusters", all)
    stays_in_span = fact_of_each("stays_in_span", all)
    is_smooth = fact_of_each("is_smooth", all)
    known_by_moments = fact_of_each("known_by_moments", all)
    is_balanced = fact_of_each("is_balanced", any)
    has_kernel_unit = fact_of_each("has_kernel_unit", any)


@dataclass(frozen=True)
class Sum(Several):
    """Several dynamics at once: X = Σ_i w_i X_i, and τ = Σ_i w_i τ_i.

    ``a + b``, ``2.0 * a``, ``a / 2.0``, ``a - b``, ``-a`` and ``sum([a, b])`` make one. Attention
    and a feed-forward layer at once are (2.8) itself, of which `Layers` is the splitting. Sums in
    sums are taken apart, and a weight of 0 drops a term.

    If each term has an energy E_i, the sum has F = Σ_i ± w_i E_i, + where its term climbs E_i,
    and X climbs F if it is a gradient flow; where all signs are the same, it is Σ_i w_i E_i. A sum
    of SA and of a gradient in W_2 is no gradient flow: each term has a metric of its own.

    Parameters
    ----------
    terms : sequence of dynamics
        They have one dimension. `Layers` and `LayerMap` can't be among them.
    weights : sequence of float, Schedule or callable, optional
        1 for each if omitted. A negative one is the dynamics with the other sign. Those in time are
        one for each term at each time, which may have no noise.

    Attributes
    ----------
    dim : int or None
    noise : float

    Raises
    ------
    ValueError
        If there is nothing to add, a term is no dynamics, or one of layers, dimensions differ, or a
        weight is negative where there is noise.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.SA(1.0) + 2.0 * mf.SA(3.0)
    Sum(SA(beta=1.0, sign=1, noise=0.0) + 2 SA(beta=3.0, sign=1, noise=0.0))
    >>> mf.SA(1.0) - mf.USA(0.0)
    Sum(SA(beta=1.0, sign=1, noise=0.0) + USA(beta=0.0, sign=-1, noise=0.0))
    >>> sum([mf.SA(1.0)]) == mf.SA(1.0)
    True
    """

    terms: Sequence[Any] = field(
        metadata=key("a list of tables, each a dynamics", list, minItems=1, maxItems=MOST_PARTS)
    )
    weights: Sequence[float] | Schedule | None = field(
        default=None,
        kw_only=True,
        metadata=in_time(
            key("the factor of each term, 1 if left out, a list of numbers", list[float])
        ),
    )

    own_terms = fact_of("terms")
    _each = fact_of("terms")

    def __post_init__(self) -> None:
        stated: Any = self.weights
        whole = as_tuple(self.terms)
        if (varied := schedule.varying("weights", stated)) is not None:
            self._weigh_in_time(whole, varied)
            return
        weights = np.ones(len(whole)) if stated is None else real_array("weights", stated, 1)
        if not whole:
            raise ValueError(f"terms must be at least one dynamics, got {shown(self.terms)}")
        if len(weights) != len(whole):
            raise ValueError(
                f"weights must be one for each of the {len(whole)} terms, got {shown(stated)}"
            )
        pairs = zip(weights.tolist(), whole, strict=True)
        parts = [part for weight, term in pairs for part in _taken_apart(weight, term)]
        if not parts:
            raise ValueError(
                f"terms must add up to something, got {shown(self.terms)} with weights "
                f"{shown(stated)}"
            )
        noise = sum(weight * float(term.noise) for weight, term in parts)
        factors, terms = zip(*parts, strict=True)
        self._keep(terms, factors, noise)

    def _keep(self, terms: Sequence[object], weights: object, noise: float) -> None:
        dim = common_dim("terms", terms)
        freeze(self, terms=terms, weights=weights, dim=dim, noise=noise)
        freeze(self, normalised=any(getattr(term, "normalised", False) for term in terms))

    def _weigh_in_time(self, given: Sequence[object], weights: TimeDependent) -> None:
        """Keep terms with weights that vary in time; none is dropped or reversed by its sign."""
        if not given or weights.shape != (len(given),):
            raise ValueError(
                f"weights must be one for each of the {len(given)} terms at each time, got "
                f"{shown(weights)}"
            )
        parts = [(i, *part) for i, each in enumerate(given) for part in _taken_apart(1.0, each)]
        which, factors, terms = map(list, zip(*parts, strict=True))
        for term in terms:
            if term.noise > 0.0:
                raise ValueError(f"terms must have no noise where weights vary, got {term!r}")
        if len(terms) != len(given):
            weights = weights.map_linear(lambda values: values[..., which] * factors)
        self._keep(tuple(terms), weights, 0.0)

    def at(self, t: float) -> Dynamics:
        """The sum with its terms and weights at a time, of which none is dropped or turned."""
        known = [(term, known_term(term)) for term in self.terms]
        terms = tuple(known_form.at(t) if known_form.varies else term for term, known_form in known)
        is_constant = all(map(operator.is_, terms, self.terms))
        if is_constant and not self.weights_vary:
            return self
        sum_at_t: Sum = object.__new__(Sum)
        # a term of weight 0 is dropped, and the terms must be the same at all times
        values = np.asarray(at_time(self.weights, t)).tolist()
        weights = tuple(weight or _NO_WEIGHT for weight in values)
        sum_at_t._keep(terms, weights, self.noise)
        return sum_at_t

    @property
    def weights_vary(self) -> bool:
        return isinstance(self.weights, TimeDependent)

    @cached_property
    def varies(self) -> bool:
        """Whether a weight or a term does."""
        return self.weights_vary or any(getattr(term, "varies", False) for term in self.terms)

    @property
    def name(self) -> str:
        """The names of the terms."""
        return " + ".join(term.name for term in self.terms)

    def __repr__(self) -> str:
        if self.weights_vary:
            return f"Sum({', '.join(map(repr, self.terms))}, weights={self.weights})"
        return f"Sum({' + '.join(term_names(self))})"

    @property
    def weighted_terms(self) -> Sequence[tuple[Any, Dynamics]]:
        """The terms that act at once, each with its weight."""
        weights = self.own_weights
        all_weights = len(self.terms) * [weights] if isinstance(weights, TimeDependent) else weights
        return tuple(zip(all_weights, self.terms, strict=True))

    @property
    def own_weights(self) -> Sequence[float] | TimeDependent:
        """The weights of these terms as they vary."""
        return () if self.weights is None else self.weights

    @property
    def sum_method(self) -> str:  # type: ignore[override]
        return "none" if all(term.sum_method == "none" for term in self.terms) else "own"

    @cached_property
    def multipliers(self) -> NDArray[np.complex128] | None:
        """Σ_i w_i c_k of what are all interactions on the circle."""
        weighted = [(weight, term.multipliers) for weight, term in self.weighted_terms]
        if any(factors is None for _, factors in weighted):
            return None
        total = np.zeros(max(len(factors) for _, factors in weighted), dtype=np.complex128)
        for weight, factors in weighted:
            total[: len(factors)] += weight * factors
        return total

    @property
    def log_unit(self) -> float:
        return float(max(term.log_unit for term in self.terms))

    @property
    def reach(self) -> float:
        return float(max(term.reach for term in self.terms))

    @property
    def gathers_clusters(self) -> bool:
        return bool(super().gathers_clusters and self.keeps_clusters)

    @property
    def why_no_gradient(self) -> str:  # type: ignore[override]
        return str(next(term.why_no_gradient for term in self.terms if not term.is_gradient))

    @property
    def why_no_energy(self) -> str:  # type: ignore[override]
        lacking = next(term for term in self.terms if term.energy_functional is None)
        return f"{shown(lacking)} has none: {lacking.why_no_energy}"

    @cached_property
    def energy_functional(self) -> Energy | None:
        """Σ w_i E_i where all signs are equal, else Σ ± w_i E_i."""
        each = [(weight, term.energy_functional) for weight, term in self.weighted_terms]
        names = (f", of {term!r}" for term in self.terms)
        energies = [
            (weight, replace(energy, formula=energy.formula + name))
            for (weight, energy), name in zip(each, names, strict=True)
            if energy is not None
        ]
        if len(energies) < len(each):
            return None
        signs = {energy.sign for _, energy in energies}
        sign = signs.pop() if len(signs) == 1 else 1
        parts = [(weight * energy.sign * sign, energy) for weight, energy in energies]
        symbol = "E" if min(factor for factor, _ in parts) > 0.0 else "F"
        summands = [f"{factor:g} {energy.symbol}" for factor, energy in parts]
        return energy_of(parts, sign, symbol, " + ".join(summands).replace("+ -", "- "))

    @property
    def has_mask(self) -> bool:
        return any(known_term(term).has_mask for term in self.terms)

    def output(self, measure: Summable, points: Array) -> Array:
        """Σ_i w_i times what each term adds to tokens, shape (n, d), at unit rows (n, d)."""
        return self.output_from(measure, points, 1.0)

    def output_from(self, measure: Summable, points: Array, position: ArrayLike | None) -> Array:
        terms = [(weight, known_term(term)) for weight, term in self.weighted_terms]
        outputs = (weight * term.output_from(measure, points, position) for weight, term in terms)
        return np.asarray(sum(outputs))


def energy_of(
    parts: Sequence[tuple[float, Energy]], sign: int, symbol: str, formula: str
) -> Energy:
    """The sum of energies, each with its factor."""
    log_dirac = max(energy.log_dirac for _, energy in parts)
    return Energy(
        symbol,
        formula,
        sign,
        in_w2=all(energy.in_w2 for _, energy in parts),
        dirac=sum(
            abs(factor * energy.dirac) * float(np.exp(energy.log_dirac - log_dirac))
            for factor, energy in parts
        ),
        log_dirac=log_dirac,
        log_unit=max(energy.log_unit for _, energy in parts),
        parts=parts,
    )


def term_names(dynamics: object) -> list[str]:
    """The terms of a sum as it prints them, with their weights; none of what is no sum."""
    terms = dynamics.weighted_terms if isinstance(dynamics, Sum) else ()
    return [f"{term!r}" if weight == 1.0 else f"{weight:g} {term!r}" for weight, term in terms]


def _taken_apart(weight: float, term: object) -> Iterator[tuple[float, OwnDynamics]]:
    """Yield the terms of a dynamics, which may be a sum, with their weights; none with weight 0.

    Raises
    ------
    ValueError
        If it can't be a term.
    """
    if not _may_be_term(term):
        raise ValueError(f"terms must be a sequence of dynamics, got {shown(term)}")
    noise = number("noise of a term", term.noise, low=0)
    if weight < 0.0 < noise:
        raise ValueError(f"weights must be >= 0 where there is noise, got {weight:g} {term!r}")
    layers = getattr(term, "all_layers", (term,))
    if layers[0] is not term or getattr(term, "layer_step", None) is not None:
        raise ValueError(f"terms must act at once, got {shown(term)}: take layers that are sums")
    if weight == 0.0:
        return
    if isinstance(term, Sum):
        if term.weights_vary:
            raise ValueError(
                f"terms must be no Sum whose weights vary, got {shown(term)}: take one Sum of all, "
                f"with the weights of all"
            )
        for factor, part in term.weighted_terms:
            yield from _taken_apart(weight * factor, part)
        return
    # the negative of a user's subclass need not be the subclass with the other sign
    opposite = None
    if weight < 0.0 and isinstance(term, Dynamics) and _checks.is_of_package(term):
        opposite = term.opposite()
    yield (weight, term) if opposite is None else (-weight, opposite)


def common_dim(name: str, parts: Iterable[object]) -> int | None:
    """The dimension of those that have one; None if any fits all of them.

    Raises
    ------
    ValueError
        If two have different ones.
    """
    dims = {getattr(part, "dim", None) for part in parts} - {None}
    if len(dims) > 1:
        raise ValueError(f"{name} must be of one dimension, got {sorted(dims, key=str)}")
    return next(iter(dims), None)


def check_dim(dynamics: OwnDynamics, dim: int) -> None:
    """Check that a measure has the dimension of a dynamics; without one it fits any.

    Raises
    ------
    ValueError
        Naming both.
    """
    needed = getattr(dynamics, "dim", None)
    if needed not in (None, dim):
        raise ValueError(
            f"measure must have dim = {needed}, that of {shown(dynamics)}, got one of dim {dim}"
        )


def is_multiple(given: Array, of: Array, least: float = 0.0) -> bool:
    """Whether an array is a multiple of another, to rounding; any is where the other is 0.

    Rounding is relative to the array, or to a size that is larger.

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
    return gap <= _ROUNDING * max(float(np.abs(given).max()), least)


def as_tuple(given: object) -> tuple[Any, ...]:
    """The members of a sequence, or a thing alone as the only one."""
    return tuple(given) if isinstance(given, Sequence) else (given,)


def as_matrix(given: object, dim: int) -> Array:
    """Return a matrix as it is, and a number as a multiple of the identity, shape (d, d)."""
    matrix = np.asarray(given, dtype=np.float64)
    return matrix if matrix.ndim else float(matrix) * np.eye(dim)
