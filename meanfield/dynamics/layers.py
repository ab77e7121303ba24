"""Feed-forward layers, and a sequence of layers through depth, (2.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from scipy.special import erf

from meanfield import _checks
from meanfield._checks import freeze, number, shown, unit_rows
from meanfield._records import Record, key
from meanfield.dynamics import facts, schedule
from meanfield.dynamics.attention import ENSEMBLES, Attention, Head
from meanfield.dynamics.doubly_stochastic import DoublyStochastic
from meanfield.dynamics.facts import Dynamics, Energy, Sum
from meanfield.dynamics.interaction import Interaction
from meanfield.dynamics.isotropic import BETA, NOISE, SA, USA
from meanfield.dynamics.kuramoto import CircleInteraction
from meanfield.dynamics.own import OwnDynamics, adapt, adapt_any, layer_step, tells_facts
from meanfield.dynamics.schedule import TimeDependent, in_time
from meanfield.kernels.direct import blocks
from meanfield.typing import Array, ArrayLike, Rng, Steepness, Summable

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1.0 + erf(x / np.sqrt(2.0))),
    "tanh": np.tanh,
}
# the derivatives of the activations; that of relu is 0 at its kink
_SLOPES: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.where(x > 0.0, 1.0, 0.0),
    "gelu": lambda x: (
        0.5 * (1.0 + erf(x / np.sqrt(2.0))) + x * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    ),
    "tanh": lambda x: 1.0 - np.tanh(x) ** 2,
}
# the integrals φ of the activations σ, φ' = σ and φ(0) = 0
_PRIMITIVES: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: 0.5 * np.maximum(x, 0.0) ** 2,
    "gelu": lambda x: (
        0.25 * ((x * x - 1.0) * (1.0 + erf(x / np.sqrt(2.0))) + 1.0)
        + 0.5 * x * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    ),
    # log cosh x in a form that does not overflow
    "tanh": lambda x: np.abs(x) + np.log1p(np.exp(-2.0 * np.abs(x))) - np.log(2.0),
}
# a layer that ends this near to a time, as a share of its step, ends at that time
_ROUNDING = 1e-9
# this ensemble of `RandomLayers` draws V alone, no queries and keys
VALUES = "values"
# asking more layers for their largest reach takes minutes
MOST_LAYERS = 10**6
# β and V stay below this, so that all numbers that are drawn are finite
_LARGEST_FACTOR = 1e100
# a case file holds integers up to this
_LARGEST_SEED = (1 << 63) - 1
# the last drawn layers are kept: those of this step and the one before, and of other threads
KEPT = 4


@dataclass(frozen=True, eq=False)
class FeedForward(Record, Dynamics):
    """X(x) = P_x W σ(Ax + b): the perceptron of (2.8), which acts on each token alone.

    Parameters
    ----------
    W : array_like, shape (d, m), or a Schedule or callable of these
    A : array_like, shape (m, d), or a Schedule or callable of these
    b : array_like, shape (m,), or a Schedule or callable of these, optional
        Zero if omitted.
    activation : {'relu', 'gelu', 'tanh'}
        σ, entry by entry.
    noise : float
        τ >= 0 of the diffusion τ Δf.

    Raises
    ------
    ValueError
        If the matrices do not fit each other or hold a NaN, there is no such activation, or noise
        is negative.

    Notes
    -----
    Where W = Aᵀ diag(ω), X is the gradient in W_2 of the energy ∫ v dmu, v(x) = Σ_j ω_j φ(<a_j, x>
    + b_j), φ' = σ, φ(0) = 0 (arXiv 2601.21366), see `from_potential`; a row a_j = 0 of A, whose
    column w_j of W is free, adds σ(b_j) <w_j, x> to v. With noise a measure tends to the density
    e^{v/τ}/Z.

    Examples
    --------
    >>> import meanfield as mf
    >>> drift = FeedForward(W=[[0.0], [1.0]], A=[[2.0, 0.0]])
    >>> drift.velocity(mf.Particles([[0.0, 1.0]]), at=[[1.0, 0.0], [-1.0, 0.0]])
    array([[0., 2.],
           [0., 0.]])
    """

    _for_rooms = "coefficients", "potential_slope"

    W: ArrayLike = field(
        metadata=in_time(key("the outer matrix (d, m), a list of d rows", list[list[float]]))
    )
    A: ArrayLike = field(
        metadata=in_time(key("the inner matrix (m, d), a list of m rows", list[list[float]]))
    )
    b: ArrayLike | None = field(
        default=None, metadata=in_time(key("the shift, m numbers; zero if left out", list[float]))
    )
    activation: str = field(
        default="relu",
        kw_only=True,
        metadata=key("σ, entry by entry", Literal["relu", "gelu", "tanh"]),
    )
    noise: float = field(default=0.0, kw_only=True, metadata=NOISE)

    sum_method: ClassVar[str] = "none"
    why_no_gradient: ClassVar[str] = (
        "each column of W must be a multiple of that row of A, and is not"
    )
    why_no_energy: ClassVar[str] = why_no_gradient

    def __post_init__(self) -> None:
        outer, rows = _weights("W", self.W, 2), _weights("A", self.A, 2)
        width = rows.shape[0]
        biases = np.zeros(width) if self.b is None else _weights("b", self.b, 1)
        if outer.shape != rows.shape[::-1] or biases.shape != (width,) or outer.shape[0] < 2:
            raise ValueError(
                f"W must be (d, m), A (m, d) and b (m,) with d >= 2, got shapes {outer.shape}, "
                f"{rows.shape} and {biases.shape}"
            )
        _checks.one_of("activation", self.activation, list(_ACTIVATIONS))
        noise = number("noise", self.noise, low=0)
        freeze(self, W=outer, A=rows, b=biases, noise=noise)
        freeze(self, dim=outer.shape[0], is_smooth=self.activation != "relu")
        if not self.varies:
            freeze(self, axis_rows=(outer.T, rows))

    def __repr__(self) -> str:
        noise = f", noise={self.noise}" if self.noise else ""
        return f"FeedForward(dim={self.dim}, width={np.shape(self.A)[0]}, {self.activation}{noise})"

    @classmethod
    def from_potential(
        cls,
        coefficients: ArrayLike,
        A: ArrayLike,
        b: ArrayLike | None = None,
        *,
        activation: str = "relu",
        noise: float = 0.0,
    ) -> FeedForward:
        """X = P_x ∇v of v(x) = Σ_j ω_j φ(<a_j, x> + b_j), φ' = σ, φ(0) = 0: W = Aᵀ diag(ω).

        Parameters
        ----------
        coefficients : array_like, shape (m,), or a Schedule or callable of these
            ω.
        A : array_like, shape (m, d), or a Schedule or callable of these
            It must not vary in time if ω does: W would be no spline.
        b : array_like, shape (m,), or a Schedule or callable of these, optional
            Zero if omitted.
        activation, noise
            As of the constructor.

        Raises
        ------
        ValueError
            As the constructor, or if there is not one coefficient for each row of A.

        Examples
        --------
        >>> import meanfield as mf
        >>> hill = FeedForward.from_potential([0.5], [[0.0, 2.0]], activation="relu")
        >>> mf.energy(mf.Particles([[0.0, 1.0]]), hill)  # max(2 x_2, 0)²/4
        1.0
        """
        omega, rows = _weights("coefficients", coefficients, 1), _weights("A", A, 2)
        if omega.shape[0] != rows.shape[0]:
            raise ValueError(
                f"coefficients must be one for each of the {rows.shape[0]} rows of A, got "
                f"{omega.shape[0]}"
            )
        outer: Any
        if isinstance(omega, TimeDependent):
            schedule.refuse_schedules("A", (rows,), "coefficients do")
            outer = omega.map_linear(lambda values: values[..., None, :] * rows.T)
        elif isinstance(rows, TimeDependent):
            outer = rows.map_linear(lambda values: omega * np.swapaxes(values, -1, -2))
        else:
            outer = (omega[:, None] * rows).T
        return cls(W=outer, A=rows, b=b, activation=activation, noise=noise)

    @cached_property
    def energy_functional(self) -> Energy | None:
        """∫ v dmu, where there is a v."""
        if not self.is_gradient:
            return None
        lengths, biases = np.linalg.norm(self.A, axis=1), np.asarray(self.b)
        primitive, (omega, slopes) = _PRIMITIVES[self.activation], self.coefficients
        # φ is least at 0, where it is 0, so on an interval it is largest at an end
        largest = np.maximum(primitive(biases - lengths), primitive(biases + lengths))
        size = float(np.abs(omega) @ largest + np.linalg.norm(slopes, axis=1).sum())
        formula = "∫ v dmu, v(x) = Σ_j ω_j φ(<a_j, x> + b_j), φ' = σ"
        v, steepness = self._potential, self.steepness
        return Energy("E_v", formula, 1, dirac=size, potential=v, steepness=steepness)

    @property
    def steepness(self) -> Steepness | None:
        """How wide sets are against what X and v vary over; None where kinks are narrower."""
        return self._relative_widths if self.is_smooth else None

    def _relative_widths(self, sets: Array) -> Array:
        """Half the range of an activation's argument over sets (k, n, d), over its pole's distance.

        The largest of all rows of A, shape (k,). The poles of tanh next to the line are ± iπ/2, and
        gelu, which has none, varies no faster.
        """
        rows, widths = np.asarray(self.A), np.zeros(len(sets))
        for part in blocks(len(sets), sets.shape[1] * len(rows)):
            arguments = sets[part] @ rows.T + self.b
            low, high = arguments.min(axis=1), arguments.max(axis=1)
            relative = (high - low) / np.hypot(high + low, np.pi)
            widths[part] = relative.max(axis=1, initial=0.0)
        return widths

    @cached_property
    def coefficients(self) -> tuple[Array, Array]:
        """ω (m,), and σ(b_j) w_j (m, d) where a_j = 0, else 0."""
        outer, rows = np.asarray(self.W).T, np.asarray(self.A)
        squares = np.einsum("ij,ij->i", rows, rows)
        omega = np.einsum("ij,ij->i", outer, rows) / np.where(squares > 0.0, squares, 1.0)
        constant = np.where(squares > 0.0, 0.0, _ACTIVATIONS[self.activation](np.asarray(self.b)))
        return omega, constant[:, None] * outer

    def _potential(self, points: Array) -> Array:
        """Return v (n,) at unit rows (n, d)."""
        rows, (omega, slopes) = np.asarray(self.A), self.coefficients
        values = points @ slopes.sum(axis=0)
        for part in blocks(len(points), len(rows)):
            values[part] += _PRIMITIVES[self.activation](points[part] @ rows.T + self.b) @ omega
        return np.asarray(values)

    def potential_slope(self, t: float) -> Callable[[Array], Array]:
        """∂_t v at a time, Σ_j ω̇_j φ(z_j) + ω_j σ(z_j) (<ȧ_j, x> + ḃ_j), z_j = <a_j, x> + b_j.

        Where a_j = 0 at all times it is d/dt of σ(b_j) <w_j, x>.
        """
        now: FeedForward = schedule.at_time(self, t)
        outer, rows, biases = np.asarray(now.W).T, np.asarray(now.A), np.asarray(now.b)
        of_outer, of_inner = schedule.derivative_of(self.W, t).T, schedule.derivative_of(self.A, t)
        of_shift, (omega, _) = schedule.derivative_of(self.b, t), now.coefficients
        squares = np.einsum("ij,ij->i", rows, rows)
        is_constant = squares == 0.0
        gains = np.einsum("ij,ij->i", of_outer, rows) + np.einsum("ij,ij->i", outer, of_inner)
        gains -= 2.0 * omega * np.einsum("ij,ij->i", rows, of_inner)
        of_omega = gains / np.where(is_constant, 1.0, squares)
        primitive, activation, derivative = (
            table[self.activation] for table in (_PRIMITIVES, _ACTIVATIONS, _SLOPES)
        )
        of_constant = activation(biases)[:, None] * of_outer
        of_constant += (derivative(biases) * of_shift)[:, None] * outer
        constant_slopes = np.where(is_constant[:, None], of_constant, 0.0).sum(axis=0)

        def potential(points: Array) -> Array:
            z = points @ rows.T + biases
            moved = activation(z) * (points @ of_inner.T + of_shift)
            return np.asarray(primitive(z) @ of_omega + moved @ omega + points @ constant_slopes)

        return potential

    def opposite(self) -> FeedForward:
        return replace(self, W=schedule.opposite_of(self.W))

    @property
    def is_gradient(self) -> bool:
        """W has columns c_j a_j, a_j the rows of A: ψ = Σ_j c_j S(<a_j,x> + b_j), S' = σ."""
        pairs = zip(np.asarray(self.W).T, np.asarray(self.A), strict=True)
        return all(facts.is_multiple(column, row, self.rounding_size) for column, row in pairs)

    def output(self, measure: object, points: Array) -> Array:  # noqa: ARG002 (as for Attention)
        """W σ(Ax + b), shape (n, d), at rows (n, d)."""
        rows, outer, activation = np.asarray(self.A), np.asarray(self.W), self.activation
        drift = np.empty((len(points), len(outer)))
        for part in blocks(len(points), len(rows)):
            hidden = _ACTIVATIONS[activation](points[part] @ rows.T + self.b)
            np.matmul(hidden, outer.T, out=drift[part])
        return drift

    def divergence_at(self, measure: Summable | None, at: ArrayLike) -> Array:  # noqa: ARG002
        """div X on the sphere, shape (n,), at unit rows `at`; it jumps at the kinks of 'relu'.

        With v = W σ(Ax + b) it is tr(P_x Dv) - (d-1) <x, v>.

        Raises
        ------
        ValueError
            If the points are not unit rows of the layer's dimension.

        Examples
        --------
        >>> drift = FeedForward(W=[[0.0], [1.0]], A=[[2.0, 0.0]])
        >>> drift.divergence_at(None, [[0.6, 0.8]]).round(12)
        array([-1.92])
        """
        points = unit_rows("at", at, self.dim)
        outer, rows = np.asarray(self.W), np.asarray(self.A)
        with np.errstate(under="ignore"):
            slopes = _SLOPES[self.activation](points @ rows.T + self.b)
        across = np.einsum("ji,ij->j", rows, outer) - (points @ outer) * (points @ rows.T)
        along = np.einsum("ij,ij->i", points, self.output(None, points))
        return np.asarray(np.einsum("ij,ij->i", slopes, across) - (rows.shape[1] - 1) * along)


def _weights(name: str, value: ArrayLike, ndim: int) -> Any:
    """Return a finite float64 array with so many axes, or a schedule of such arrays.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if (weight := schedule.varying(name, value)) is None:
        return _checks.real_array(name, value, ndim)
    if weight.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes at each time, got {weight}")
    return weight


Layer = (
    SA | USA | DoublyStochastic | Interaction | Attention | FeedForward | CircleInteraction | Sum
)


class InTurn(Dynamics):
    """Layers, one after the other, each of which acts for the time `step`."""

    step: float

    @property
    def depth(self) -> float:
        """Time at which the last layer ends."""
        return len(self.all_layers) * self.step

    @property
    def has_mask(self) -> bool:
        """Whether a layer has one."""
        return any(layer.has_mask for layer in self.representatives)

    def output(self, measure: Summable, points: Array) -> Array:
        """The output of the first layer, shape (n, d), at unit rows (n, d)."""
        return self.all_layers[0].output(measure, points)

    def between(self, start: float, end: float) -> Iterator[tuple[int, float]]:
        """Numbers of layers that act from `start` to `end`, and when each ends, the last at `end`.

        So a run comes to the very times that are asked for, where a layer ends but for rounding.
        """
        last_layer = len(self.all_layers) - 1
        for index in range(self.layer_number(start), last_layer + 1):
            until = (index + 1) * self.step
            if index == last_layer or until >= end - _ROUNDING * self.step:
                yield index, end
                return
            yield index, until

    def at(self, t: float) -> Dynamics:
        """The layer that acts at a time, of two the later; the last at its own end.

        Raises
        ------
        ValueError
            If t is beyond the last.
        """
        if t > self.depth * (1.0 + _ROUNDING):
            t_text, depth = _checks.tell_apart(t, self.depth)
            raise ValueError(f"t must be <= {depth}, the depth of {shown(self)}, got {t_text}")
        return super().at(t)

    def layer_number(self, t: float) -> int:
        """Which layer acts at a time: of two the later, the last at its own end and beyond."""
        return min(int(t / self.step + _ROUNDING), len(self.all_layers) - 1)


@dataclass(frozen=True)
class Layers(InTurn):
    """One dynamics after another: layer i acts from t = i·step to (i + 1)·step.

    Attention layers give heads that change with depth, as trained models have them. Attention and
    feed-forward layers by turns are the Lie–Trotter splitting of (2.8): 2N layers of one step are
    time N·step of (2.8).

    Parameters
    ----------
    layers : sequence of dynamics
        Without noise: whatever moves a measure at all times, sums and objects of your own among
        them. A run takes the measures that each of them moves; flow maps take no DoublyStochastic
        in turn with others.
    step : float
        > 0, the time that each layer acts.

    Attributes
    ----------
    dim : int or None

    Raises
    ------
    ValueError
        If there is no layer, one is no dynamics, has noise or layers itself, or dimensions differ.

    Examples
    --------
    >>> Layers([SA(1.0), SA(2.0)], step=0.5).depth
    1.0
    """

    why_no_energy: ClassVar[str] = "each of its layers may have one of its own"

    layers: Sequence[Layer | OwnDynamics] = field(
        metadata=key(
            "a list of tables, each a dynamics without noise",
            list,
            minItems=1,
            maxItems=facts.MOST_PARTS,
        )
    )
    step: float = field(
        default=1.0,
        kw_only=True,
        metadata=key("the time that each layer acts, > 0", float, exclusiveMinimum=0),
    )

    def __post_init__(self) -> None:
        layers = facts.as_tuple(self.layers)
        if not layers:
            raise ValueError(f"layers must hold at least one layer, got {shown(self.layers)}")
        for layer in layers:
            adapted = adapt_any(layer) if layer_step(layer) is None else None
            if adapted is None or adapted.noise > 0.0 or adapted.all_layers[0] is not adapted:
                raise ValueError(
                    f"layers must be dynamics but Layers and LayerMap, without noise, in a "
                    f"sequence, got {shown(layer)}"
                )
            if adapted.varies:
                raise ValueError(
                    f"layers must not vary in time, since each acts for a time of its own, got "
                    f"{shown(layer)}"
                )
        # equal layers become one object here, since layers from a file can hardly be recognised as
        # equal later
        unique: dict[object, object] = {}
        layers = tuple(
            unique.setdefault(layer, layer) if tells_facts(layer) else layer for layer in layers
        )
        freeze(self, layers=layers, step=number("step", self.step, above=0))
        is_smooth = all(layer.is_smooth for layer in self.all_layers)
        freeze(self, dim=facts.common_dim("layers", self.all_layers), is_smooth=is_smooth)

    def __repr__(self) -> str:
        count = _checks.counted(len(self.layers), "layer")
        return f"Layers({count}, step={self.step}, dim={self.dim})"

    @cached_property
    def all_layers(self) -> Sequence[Dynamics]:
        """The layers that act one after the other, as equations know them: one for each object."""
        adapted_layers = {id(layer): adapt(layer) for layer in self.layers}
        return tuple(adapted_layers[id(layer)] for layer in self.layers)

    @property
    def representatives(self) -> Sequence[Dynamics]:
        """Each once."""
        return list({id(layer): layer for layer in self.all_layers}.values())

    @property
    def reach(self) -> float:
        """The largest |β KᵀQ| of a layer."""
        return max(layer.reach for layer in self.all_layers)

    @classmethod
    def random(
        cls,
        ensemble: str,
        *,
        beta: float,
        dim: int,
        n_layers: int,
        step: float,
        rng: Rng,
        scale: float | None = None,
    ) -> RandomLayers:
        """Softmax attention with one head, whose weights are drawn anew at each layer.

        All tokens of a layer see the same weights. As a flow each layer acts for the time `step`;
        under ``LayerMap(layers, step=step)`` a token moves by √step V m, m the mean of softmax. A
        layer is drawn when it acts, so there may be any number of them.

        Parameters
        ----------
        ensemble : str
            One of `Head.random`, or 'values': Q = K = I, and V with independent entries N(0, 1).
        beta : float
            Inverse temperature β >= 0.
        dim : int
            d >= 2.
        n_layers : int
            1 to 10^6.
        step : float
            > 0, the time that each layer acts.
        rng : int or numpy Generator
            The seed, 0 to 2^63 - 1, which files keep; of a Generator one integer is drawn.
        scale : float, optional
            Factor of V; 1/√step if omitted, for which tokens have a limit in law as step → 0.

        Returns
        -------
        RandomLayers
            In case files it is a table of this type, with these arguments as keys.

        Raises
        ------
        ValueError
            If an argument is out of range.

        Notes
        -----
        Layer i is drawn by `numpy.random.Philox` with the seed as its key and i as the highest word
        of its counter; draws count up the lowest, so streams of two layers never meet.

        Examples
        --------
        >>> Layers.random("values", beta=1.0, dim=4, n_layers=1000, step=1e-3, rng=0)
        RandomLayers('values', beta=1.0, dim=4, n_layers=1000, step=0.001, rng=0, scale=None)
        """
        _checks.generator("rng", rng)
        if isinstance(rng, np.random.Generator):
            rng = int(rng.integers(_LARGEST_SEED))
        return RandomLayers(
            ensemble, beta=beta, dim=dim, n_layers=n_layers, step=step, rng=rng, scale=scale
        )


D = TypeVar("D", bound=Dynamics)


class Drawn(Sequence[D]):
    """Layers that are made when they are asked for; the last few are kept.

    Parameters
    ----------
    draw : callable
        The layer of a number.
    count : int
    """

    def __init__(self, draw: Callable[[int], D], count: int) -> None:
        self._draw, self._count = lru_cache(KEPT)(draw), count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        return self._draw(range(self._count)[number])


@dataclass(frozen=True, eq=False)
class RandomLayers(Record, InTurn):
    """The layers of `Layers.random`, whose arguments these are; the seed is an integer.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """

    ensemble: str = field(
        metadata=key(
            "the law of the weights, Q = K = I in 'values'",
            Literal["ginibre", "wigner-positive", "ginibre-product", "wigner-product", "values"],
        )
    )
    beta: float = field(kw_only=True, metadata=BETA)
    dim: int = field(
        kw_only=True,
        metadata=key("the ambient dimension d, 2 to 4096", int, minimum=2, maximum=4096),
    )
    n_layers: int = field(
        kw_only=True,
        metadata=key("how many layers there are, 1 to 10^6", int, minimum=1, maximum=MOST_LAYERS),
    )
    step: float = field(
        kw_only=True, metadata=key("the time that each layer acts, > 0", float, exclusiveMinimum=0)
    )
    rng: int = field(kw_only=True, metadata=key("the seed of the weights, >= 0", int, minimum=0))
    scale: float | None = field(
        default=None, kw_only=True, metadata=key("the factor of V, 1/√step if left out", float)
    )

    def __post_init__(self) -> None:
        _checks.one_of("ensemble", self.ensemble, [*ENSEMBLES, VALUES])
        beta = number("beta", self.beta, low=0, high=_LARGEST_FACTOR)
        n_layers = _checks.integer("n_layers", self.n_layers, low=1, high=MOST_LAYERS)
        seed = _checks.integer("rng", self.rng, low=0, high=_LARGEST_SEED)
        freeze(self, beta=beta, dim=_checks.integer("dim", self.dim, low=2), n_layers=n_layers)
        freeze(self, step=number("step", self.step, above=0), rng=seed)
        if self.scale is not None:
            low, high = -_LARGEST_FACTOR, _LARGEST_FACTOR
            freeze(self, scale=number("scale", self.scale, low=low, high=high))

    def __repr__(self) -> str:
        numbers = ("beta", "dim", "n_layers", "step", "rng", "scale")
        arguments = ", ".join(f"{name}={getattr(self, name)}" for name in numbers)
        return f"RandomLayers({self.ensemble!r}, {arguments})"

    @cached_property
    def all_layers(self) -> Sequence[Attention]:
        return Drawn(self._draw, self.n_layers)

    def _draw(self, layer: int) -> Attention:
        """Draw the layer with this number."""
        # each layer has its own upper word of the counter: the lower words count the numbers of a
        # layer
        draws = np.random.Generator(np.random.Philox(key=self.rng, counter=[0, 0, 0, layer]))
        if self.ensemble == VALUES:
            head = Head(V=draws.normal(size=(self.dim, self.dim)))
        else:
            head = Head.random(self.ensemble, self.dim, draws)
        factor = self.step**-0.5 if self.scale is None else self.scale
        return Attention(self.beta, [replace(head, V=factor * np.asarray(head.V))])

    @cached_property
    def representatives(self) -> Sequence[Attention]:
        """The layer of the largest reach: layers differ in numbers alone."""
        same = self.ensemble == VALUES
        return (
            self.all_layers[0] if same else max(self.all_layers, key=lambda layer: layer.reach),
        )

    @property
    def reach(self) -> float:
        """The largest |β KᵀQ| of a layer."""
        return self.representatives[0].reach


@dataclass(frozen=True)
class LayerMap(Dynamics):
    """x ← N(x + step · Σ A V x): the discrete layers of a Transformer, which move tokens.

    N puts each token back on the sphere. It tends to the flow with first order in the step.

    Parameters
    ----------
    dynamics : SA, USA, DoublyStochastic, Attention, FeedForward, a Sum or Layers
        Without noise; or an object of your own. Each of `Layers` acts once, one after the other,
        and for the step of this map.
    step : float
        > 0, the time that a layer counts for; of `Layers.random` their own step.

    Raises
    ------
    ValueError
        If the dynamics is none, has noise or is a `LayerMap`, or step is out of range, or another
        than that of random layers.

    Examples
    --------
    >>> import meanfield as mf
    >>> tokens = mf.Particles([[1.0, 0.0], [0.0, 1.0]])
    >>> after = mf.evolve(tokens, LayerMap(SA(0.0), step=1.0), t_end=1.0)
    >>> after.final.points.round(6)
    array([[0.948683, 0.316228],
           [0.316228, 0.948683]])
    """

    dynamics: Layer | Layers | RandomLayers | OwnDynamics = field(
        metadata=key("a table, the dynamics without noise whose layers are passed", dict)
    )
    step: float = field(
        kw_only=True,
        metadata=key("the time that a layer counts for, > 0", float, exclusiveMinimum=0),
    )

    has_mask = facts.fact_of("simplest.has_mask")

    def __post_init__(self) -> None:
        adapted = None if isinstance(self.dynamics, LayerMap) else adapt_any(self.dynamics)
        if adapted is None or adapted.noise > 0.0:
            raise ValueError(
                f"dynamics must be one without noise, and no LayerMap, got {shown(self.dynamics)}"
            )
        if adapted.varies:
            raise ValueError(
                f"dynamics of a LayerMap must not vary in time, since it has no flow: take Layers, "
                f"whose weights are those of each layer, got {shown(self.dynamics)}"
            )
        step = number("step", self.step, above=0)
        if isinstance(adapted, RandomLayers) and abs(step - adapted.step) > _ROUNDING * step:
            step_text, needed = _checks.tell_apart(step, adapted.step)
            raise ValueError(
                f"step must be that of the random layers, {needed}, on which the scale of their "
                f"values hangs, got {step_text}"
            )
        freeze(self, step=step, layer_step=step, dim=adapted.dim)

    @cached_property
    def simplest(self) -> Dynamics:
        """Return the layers as the equations know them, each of which acts for one step."""
        known = adapt(self.dynamics)
        if isinstance(self.dynamics, Layers):
            known = adapt(replace(self.dynamics, step=self.step))
        return known

    def output(self, measure: Summable, points: Array) -> Array:
        """The output of the first layer, shape (n, d), at unit rows (n, d)."""
        return self.simplest.output(measure, points)

    def at(self, t: float) -> Dynamics:
        """The layer that acts at a time, of two the later."""
        return self.simplest.at(t)
