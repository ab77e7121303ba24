"""A dynamics of a user's own: an object from outside the package with a kernel or heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

from meanfield._checks import boolean, is_of_package, number, shown, shown_class, unmasked
from meanfield.dynamics.attention import Attention
from meanfield.dynamics.facts import Dynamics, Sum, output_of
from meanfield.dynamics.interaction import Interaction
from meanfield.typing import Array
from meanfield.typing import OwnDynamics as OwnDynamics  # noqa: PLC0414 (for others)


@dataclass(frozen=True)
class ForgottenDynamics:
    """The dynamics of a file that could keep no more of it: one of a user's own class.

    Parameters
    ----------
    name : str
    text : str
        Its repr.
    noise : float
    """

    name: str
    text: str
    noise: float

    dim: ClassVar[None] = None

    def __repr__(self) -> str:
        return self.text

    def output(self, measure: Any, points: Array) -> Array:
        """Refuse.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            f"dynamics {self.name!r} is not known any more on {shown(measure)} at {len(points)} "
            f"points: the file could keep its name only"
        )


class Adapted(Dynamics):
    """A user's own dynamics of which nothing is known but its output.

    Parameters
    ----------
    own : OwnDynamics
    """

    name = ""

    def __init__(self, own: Any) -> None:
        self._own, self.name, self.noise = own, own.name, own.noise
        self._told = f"output of {shown(own)}"
        # a dynamics without a dimension fits any
        self.dim = getattr(own, "dim", None)

    def output(self, measure: Any, points: Array) -> Array:
        """What the user's own adds to tokens."""
        return unmasked(self._told, self._own.output(measure, points))

    def __repr__(self) -> str:
        return repr(self._own)


def tells_facts(dynamics: object) -> TypeGuard[Dynamics]:
    """Whether its class is one of `Dynamics`: a wrapper that hands on all names has them, too."""
    return Dynamics in type(dynamics).__mro__


def layer_step(dynamics: Any) -> float | None:
    """What each of its discrete layers counts for in time; None of a flow."""
    step: float | None = getattr(dynamics, "_layer_step", None)
    return step


def describe(dynamics: Any) -> str:
    """What a file keeps of a dynamics that it can't write down, to tell it from others."""
    text = repr(dynamics)
    if text == object.__repr__(dynamics):
        text = f"{type(dynamics).__name__}()"
    if tells_facts(dynamics) or callable(getattr(dynamics, "output", None)):
        return text
    return f"{text}, that is {adapt(dynamics)!r}"


def adapt_any(given: Any) -> Dynamics | None:
    """The dynamics that equations know of what may be none, as a class or a number: then None."""
    is_one = not isinstance(given, type) and hasattr(given, "noise")
    return adapt(given) if is_one else None


def adapt(dynamics: Any) -> Dynamics:
    """The dynamics that equations know: itself, the SA or USA that it is, or what an own one tells.

    Raises
    ------
    ValueError
        If it has none of them, its values are out of range, or its class is made from one of the
        package, as which it would run.

    Examples
    --------
    >>> class Square:
    ...     name, noise, kernel = "square", 0.0, [1.0, 2.0, 1.0]
    >>> adapt(Square())
    Interaction(kernel=(1.0, 2.0, 1.0), normalised=False, sign=1, noise=0.0)
    """
    if tells_facts(dynamics):
        if not is_of_package(dynamics):
            raise ValueError(
                f"dynamics must not be of a class made from one of the package, got "
                f"{shown_class(dynamics)}: a class of your own needs no parent"
            )
        if isinstance(dynamics, Sum):
            return Sum([adapt(term) for term in dynamics.terms], weights=dynamics.weights)
        return getattr(dynamics, "_plain", None) or dynamics
    noise = number("noise of the dynamics", dynamics.noise, low=0)
    if callable(getattr(dynamics, "output", None)):
        return Adapted(dynamics)
    kernel, heads = getattr(dynamics, "kernel", None), getattr(dynamics, "heads", None)
    for name, instead in ("normalise", "normalised"), ("sign", "the sign of V in its heads"):
        if hasattr(dynamics, name) and (name == "normalise" or kernel is None):
            raise ValueError(
                f"dynamics must give {instead}, got {shown(dynamics)} with {name} = "
                f"{shown(getattr(dynamics, name))}"
            )
    names = [name for name in ("normalised", "sign") if hasattr(dynamics, name)]
    told = {name: getattr(dynamics, name) for name in names}
    if kernel is not None:
        return Interaction(kernel, noise=noise, **told)
    if callable(heads):
        normalised = boolean("normalised", told.get("normalised", True))
        return Attention(1.0, heads(), normalised=normalised, noise=noise)
    raise ValueError(
        f"dynamics must have a kernel, heads() or output(measure, points), got {shown(dynamics)}"
    )


@output_of.register(object)
def _(term: Any, measure: Any, points: Array) -> Array:
    return adapt(term).output(measure, points)
