"""Causal masks: token j attends to the tokens k <= j."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeGuard

import numpy as np

from meanfield._checks import freeze, number, shown
from meanfield._records import key
from meanfield.dynamics.facts import Dynamics, fact_of
from meanfield.kernels import causal
from meanfield.spaces.geometry import project
from meanfield.typing import Array, ArrayLike, Summable

# a token this near to a position, as a share of it, counts as there: cumulative sums round by it
_ROUNDING = 1e-12


class Tokens(Summable, Protocol):
    """A measure whose points are tokens in an order, of which the first see no others."""

    def first(self, masses: Array) -> Summable:
        """The first tokens, as many as there are masses, with these masses over their sum."""


@dataclass(frozen=True)
class Causal:
    """A causal mask: each token attends to itself and to the tokens before it.

    Token k of n is at the position s_k = Σ_{i<=k} w_i in (0, 1], k/n where weights are equal. A
    token at s_j sees token k <= j with the mass w_k e^{-λ(s_j - s_k)} over the sum of all such
    masses (Karagodin, Polyanskiy and Rigollet, arXiv 2411.04990). So where starts do not depend on
    positions, all positions follow the density of tokens without a mask, as n grows.

    It is the `mask` of `SA`, `USA`, `Interaction` and `Attention`, and tells rows of `Particles`
    apart; no other measure has positions.

    Parameters
    ----------
    decay : float
        λ >= 0: 0 is the plain mask, λ > 0 is ALiBi with the slope λ/n for each token.

    Raises
    ------
    ValueError
        If `decay` is negative or not finite.

    Examples
    --------
    >>> import meanfield as mf
    >>> tokens = mf.Particles([[1.0, 0.0], [0.0, 1.0]])
    >>> dynamics = mf.SA(0.0, mask=mf.Causal())
    >>> dynamics.velocity(tokens, tokens.points, position=[0.5, 1.0])
    array([[0. , 0. ],
           [0.5, 0. ]])
    """

    decay: float = field(
        default=0.0,
        metadata=key(
            "lambda >= 0, by which masses decay with the distance of positions", float, minimum=0
        ),
    )

    def __post_init__(self) -> None:
        freeze(self, decay=number("decay", self.decay, low=0))

    def _seen(self, tokens: Tokens, position: float) -> Summable:
        """Return the tokens up to a position in (0, 1], with their masses: a place there sees them.

        Raises
        ------
        ValueError
            If no token is there or before.
        """
        places = causal.positions(tokens.weights)
        count = int(np.count_nonzero(places <= position * (1.0 + _ROUNDING)))
        if count == 0:
            raise ValueError(
                f"position must be >= {places[0]:g}, that of the first token, got {position:g}"
            )
        masses = tokens.weights[:count] * np.exp(-self.decay * (places[count - 1] - places[:count]))
        return tokens.first(masses)


MASK = key("a table, Causal, for tokens that attend to those before them", Causal)


def check_mask(mask: object) -> None:
    """Refuse what is no mask.

    Raises
    ------
    ValueError
        If it is neither a `Causal` nor None.
    """
    if mask is not None and not isinstance(mask, Causal):
        raise ValueError(f"mask must be mf.Causal() or None, got {shown(mask)}")


def _is_ordered(measure: object) -> TypeGuard[Tokens]:
    return getattr(measure, "is_ordered", False) is True


def check_ordered(measure: object, mask: Causal) -> Tokens:
    """Return `measure` when its tokens have positions.

    Raises
    ------
    ValueError
        If it is no `Particles`, or has a weight of 0.
    """
    if not _is_ordered(measure):
        raise ValueError(
            f"measure must be Particles, whose rows are in an order, under mask=mf.{mask}, got "
            f"{shown(measure)}"
        )
    if not (measure.weights > 0.0).all():
        raise ValueError(
            f"weights must be > 0 under mask=mf.{mask}, since positions are their sums, got "
            f"{measure.weights.min():g}"
        )
    return measure


def has_mask(dynamics: object) -> bool:
    """Whether a dynamics, one of its terms or one of its layers has a mask."""
    # an object that a user wrote may lack this attribute
    return getattr(dynamics, "has_mask", False) is True


def refuse_mask(dynamics: object) -> None:
    """Refuse a dynamics with a mask where tokens must be exchangeable.

    Raises
    ------
    ValueError
        If it, one of its terms or one of its layers has one.
    """
    if has_mask(dynamics):
        raise ValueError(
            f"dynamics must have no mask, since tokens must be exchangeable, got {shown(dynamics)}"
        )


@dataclass(frozen=True, repr=False)
class Masked(Dynamics):
    """A dynamics under a mask, as equations know it: each token has a measure of its own.

    Parameters
    ----------
    plain : Dynamics
        With a kernel or heads.
    mask : Causal
    """

    plain: Any
    mask: Causal

    sum_method: ClassVar[str] = "direct"
    why_no_energy: ClassVar[str] = "under a causal mask tokens do not act on those that act on them"
    why_no_gradient: ClassVar[str] = why_no_energy
    name = fact_of("plain.name")
    # a kernel and a series have no β
    beta = fact_of("plain.beta")
    noise = fact_of("plain.noise")
    dim = fact_of("plain.dim")
    sign = fact_of("plain.sign")
    normalised = fact_of("plain.normalised")
    is_isotropic = fact_of("plain.is_isotropic")
    stays_in_span = fact_of("plain.stays_in_span")
    pair_kernel = fact_of("plain.pair_kernel")
    reach = fact_of("plain.reach")
    has_kernel_unit = fact_of("plain.has_kernel_unit")

    def __repr__(self) -> str:
        return repr(replace(self.plain, mask=self.mask))

    def opposite(self) -> Masked:
        return Masked(self.plain.opposite(), self.mask)

    @property
    def simplest(self) -> Masked:
        """Return SA or USA under the mask if the dynamics is one of them."""
        simplest = self.plain.simplest
        return self if simplest is self.plain else Masked(simplest, self.mask)

    def output(self, measure: Summable, points: Array) -> Array:
        """The output at unit rows (n, d) that see all tokens, shape (n, d)."""
        return self.output_from(measure, points, 1.0)

    def output_from(self, measure: Summable, points: Array, position: ArrayLike | None) -> Array:
        """See `Dynamics`.

        Raises
        ------
        ValueError
            See `check_ordered`; or if a position is before all tokens.
        """
        tokens = check_ordered(measure, self.mask)
        if position is None:
            return self._output_of_tokens(tokens.points, tokens.weights)
        positions, output = np.broadcast_to(position, len(points)), np.empty_like(points)
        for place in np.unique(positions):
            is_here = positions == place
            output[is_here] = self.plain.output(self.mask._seen(tokens, place), points[is_here])
        return output

    def _output_of_tokens(self, points: Array, masses: Array) -> Array:
        """Return the output at each token for its own position, shape (n, d)."""
        kernel = self.pair_kernel
        if kernel is None:
            queries = self.plain.queries(points)
            moments = [causal.log_moment(points, masses, self.mask.decay, z) for z in queries]
            return np.asarray(self.plain.combine(moments))
        potential, pull, own_share = causal.kernel_means(kernel, points, masses, self.mask.decay)
        pull += (kernel.at_one * own_share)[:, None] * points
        return self.velocity_of(potential, pull)

    def tangents_of_tokens(self, points: Array, masses: Array) -> Array:
        """X at each token, shape (n, d), at its own position."""
        if self.pair_kernel is None:
            return project(points, self._output_of_tokens(points, masses))
        # the rounding error of a token's pull on itself may exceed all other pulls
        potential, pull, _ = causal.kernel_means(self.pair_kernel, points, masses, self.mask.decay)
        return project(points, self.velocity_of(potential, pull))

    def velocity_of(self, potential: Array, pull: Array) -> Array:
        """± ∫ s y dmu [/ ∫ s dmu] of both integrals over what each token sees."""
        unit = 1.0 / potential if self.normalised else np.exp(self.pair_kernel.log_unit)
        return np.asarray((self.sign * unit * pull.T).T)


class Maskable(Dynamics):
    """A dynamics of sums over the measure, which a mask may let each token see in part."""

    @property
    def under_mask(self) -> Dynamics:
        if self.mask is None:
            return self
        dynamics: Any = self
        return Masked(replace(dynamics, mask=None), self.mask)
