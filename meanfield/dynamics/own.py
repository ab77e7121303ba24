"""A dynamics of a user's own: an object from outside the package with a kernel or heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any, ClassVar, TypeGuard

import numpy as np

from meanfield import _checks
from meanfield._checks import boolean, is_of_package, number, shown, unmasked
from meanfield.dynamics.attention import Attention
from meanfield.dynamics.facts import Dynamics, Energy, Sum, known_term
from meanfield.dynamics.interaction import Interaction
from meanfield.dynamics.schedule import FunctionOfTime, schedules
from meanfield.dynamics.varying import Varying
from meanfield.spaces.geometry import project, turn_about
from meanfield.typing import Array, Summable
from meanfield.typing import OwnDynamics as OwnDynamics  # noqa: PLC0414 (for others)


@dataclass(frozen=True)
class ForgottenDynamics:
    """The dynamics of a file that could keep no more of it: of a user's own class or functions.

    Parameters
    ----------
    name : str
    text : str
        Its repr.
    noise : float
    title : str
        Its name in headings.
    has_mask : bool
        Whether tokens were seen under a mask.
    """

    name: str
    text: str
    noise: float
    title: str
    has_mask: bool = False

    dim: ClassVar[None] = None

    def __post_init__(self) -> None:
        for name in ("name", "text", "title"):
            _checks.check_type(f"{name} of a dynamics", getattr(self, name), str, "a text")
        _checks.check_type("has_mask of a dynamics", self.has_mask, bool, "true or false")

    def __repr__(self) -> str:
        return self.text

    # the argument t marks that the forgotten field may have varied in time
    def output(self, measure: object, points: Array, t: float = 0.0) -> Array:  # noqa: ARG002
        """Refuse.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            f"dynamics {self.name!r} is not known any more at t = {t:g} on {shown(measure)}: the "
            "file could keep its name only, and mf.resume goes on with a dynamics that it is given"
        )


class OutputError(ValueError, ArithmeticError):
    """A user's own dynamics returned something of the wrong kind, which ends a run."""


class AsymmetryError(ValueError, ArithmeticError):
    """The field is not symmetric about the axis of a measure."""


# X may differ between two meridians by the first share of its maximum, or by the second if it is 0
_EVEN, _ROUNDING = 1e-9, 1e-12
# a divergence is compared at so many points with differences over this step, to this share
_TRIED, _STEP, _ALIKE = 3, 1e-6, 1e-3


_METHODS = ("output", "divergence", "energy", "energy_gradient")


def _takes_time(method: Callable[..., object], name: str) -> bool:
    """Return whether a method has an argument t; a callable without a signature has none.

    Raises
    ------
    ValueError
        If it can't be called with a measure, and but for an energy with points.
    """
    try:
        known = signature(method)
    except ValueError:
        return False
    arguments = ("measure",) if name == "energy" else ("measure", "points")
    time = {"t": 0.0} if "t" in known.parameters else {}
    try:
        known.bind(*arguments, **time)
    except TypeError:
        allowed = f"{name}({', '.join(arguments)}), with t as one more if it varies in time"
        raise ValueError(f"{name} of a dynamics must be {allowed}, got {name}{known}") from None
    return bool(time)


class Adapted(Dynamics):
    """A user's own dynamics of which nothing is known but what it answers.

    Parameters
    ----------
    dynamics : OwnDynamics
    t : float, optional
        The time, which its methods with an argument t get; without it, it varies if one has that.
    """

    name = ""

    def __init__(self, dynamics: Any, t: float | None = None) -> None:
        self._own, self.name, self.noise, self._t = dynamics, dynamics.name, dynamics.noise, t
        # a dynamics without a dimension fits any
        self.dim = getattr(dynamics, "dim", None)
        reads = getattr(dynamics, "reads_measure", True)
        self._reads = boolean(f"reads_measure of {shown(dynamics)}", reads)

    @cached_property
    def _timed(self) -> frozenset[str]:
        """Return the names of the methods that have an argument t."""
        methods = ((name, getattr(self._own, name, None)) for name in _METHODS)
        return frozenset(
            name for name, method in methods if callable(method) and _takes_time(method, name)
        )

    @property
    def varies(self) -> bool:
        return self._t is None and bool(self._timed)

    def at(self, t: float) -> Adapted:
        return Adapted(self._own, t) if self.varies else self

    @property
    def why_no_energy(self) -> str:  # type: ignore[override]
        if isinstance(self._own, ForgottenDynamics):
            return "its file could keep no more of it than this text"
        if self._timed:
            return "it varies in time, and how its energy does is not known"
        return (
            "nothing is known of it but its output, without energy(measure) and "
            "energy_gradient(measure, points)"
        )

    @property
    def sum_method(self) -> str:  # type: ignore[override]
        return "own" if self._reads else "none"

    @property
    def divergence_at(self) -> Callable[[Summable, Array], Array] | None:
        return self._divergence if callable(getattr(self._own, "divergence", None)) else None

    def _divergence(self, measure: object, points: Array) -> Array:
        return self._asked("divergence", measure, points, points.shape[:1])

    @cached_property
    def energy_functional(self) -> Energy | None:
        """The energy that a user states, if its gradient is stated, too, and nothing varies."""
        dynamics = self._own
        methods = (getattr(dynamics, name, None) for name in ("energy", "energy_gradient"))
        if self._timed or not all(map(callable, methods)):
            return None
        size = number(f"energy_dirac of {shown(dynamics)}", getattr(dynamics, "energy_dirac", 0.0))
        formula = f"energy(mu) of {self.name}"
        return Energy("E", formula, 1, in_w2=False, dirac=size, functional=self._functional)

    def _functional(self, measure: object) -> float:
        value = self._own.energy(measure)
        if not _checks.is_number(value) or not np.isfinite(value):
            raise OutputError(
                f"energy of {shown(self._own)} must be a finite number, got {shown(value)}"
            )
        return float(value)

    def output(self, measure: object, points: Array) -> Array:
        """The output of the user's own dynamics."""
        return self._asked("output", measure, points, points.shape)

    def _asked(self, name: str, measure: object, points: Array, shape: tuple[int, ...]) -> Array:
        """Return the checked answer of a method that a user wrote.

        Raises
        ------
        OutputError
            If it is not of this shape, not real or not finite.
        """
        method = f"{name} of {shown(self._own)}"
        time = {"t": self._t} if name in self._timed else {}
        answer = getattr(self._own, name)(measure if self._reads else None, points, **time)
        values = unmasked(method, answer)
        if values.dtype.kind not in "iuf" or values.shape != shape or not np.isfinite(values).all():
            raise OutputError(
                f"{method} must be real, finite and of shape {shape} at {len(points)} points, got "
                f"shape {values.shape}: {values.ravel()[:4]}"
            )
        return values

    def output_and_gradients(
        self, measure: object, points: Array, axis: Array | None = None
    ) -> tuple[Array, Sequence[Array]]:
        """See `Dynamics`; about an axis it is asked on two meridians.

        Raises
        ------
        AsymmetryError
            If they do not agree.
        """
        names = ["output", "energy_gradient"] if self.energy_functional else ["output"]
        vectors = [self._asked(name, measure, points, points.shape) for name in names]
        if axis is not None:
            turn = turn_about(axis)
            for name, vectors_here in zip(names, vectors, strict=True):
                rotated_points = points @ turn.T
                rotated_vectors = self._asked(name, measure, rotated_points, points.shape)
                expected = _along_meridian(points, project(points, vectors_here), axis) @ turn.T
                gap = float(np.abs(project(rotated_points, rotated_vectors) - expected).max())
                if gap > max(_EVEN * float(np.abs(vectors_here).max()), _ROUNDING):
                    raise AsymmetryError(
                        f"{name} of {self.name} must be symmetric about the axis of "
                        f"{shown(measure)}, whose points lie on one meridian, but it differs by "
                        f"{gap:.2g} between two meridians: take "
                        f"{'a Sphere or ' if len(axis) == 3 else ''}Particles"
                    )
        return vectors[0], vectors[1:]

    def try_on(self, measure: Summable) -> None:
        """Ask it for all that it has at the points of a measure.

        Raises
        ------
        ValueError
            If an answer is none of its kind, or the divergence is not that of X.
        """
        # a field that does not read the measure may break its symmetry: in d = 3 a run then goes on
        # with a flow map without symmetry
        self.output_and_gradients(measure, measure.points, measure.axis if self._reads else None)
        if self.energy_functional is not None:
            self._functional(measure)
        if self.divergence_at is None:
            return
        points = measure.points[:: max(1, len(measure.points) // _TRIED)][:_TRIED]
        divergence, dim = self.divergence_at(measure, points), points.shape[1]
        # the field is continued along rays from 0 and stays tangential
        steps = _STEP * np.concatenate([np.eye(dim), -np.eye(dim)])
        neighbours = (points[:, None] + steps).reshape(-1, dim)
        neighbours /= np.linalg.norm(neighbours, axis=1, keepdims=True)
        output = self.output(measure, neighbours)
        field = project(neighbours, output).reshape(len(points), 2, dim, dim)
        change = np.einsum("nsii,s->n", field, [0.5 / _STEP, -0.5 / _STEP])
        gap = float(np.abs(divergence - change).max())
        if gap > _ALIKE * (np.abs(divergence).max() + dim * np.abs(output).max()):
            raise ValueError(
                f"divergence of {shown(self._own)} must be that of P_x output on the sphere, "
                f"tr(P_x Dv) - (d-1) <x, v>, but differs from its differences by {gap:.2g}"
            )

    def __repr__(self) -> str:
        # the default repr holds an address, which differs between runs
        return describe(self._own)


def _along_meridian(points: Array, vectors: Array, axis: Array) -> Array:
    """Return the part of tangents (n, d) that rotations about the axis keep.

    In d = 3 it is all of them, else the part along the meridian.
    """
    if len(axis) == 3:
        return vectors
    north = project(points, np.broadcast_to(axis, points.shape))
    lengths = np.linalg.norm(north, axis=1, keepdims=True)
    north = north / np.where(lengths > 0.0, lengths, 1.0)
    return np.asarray(np.einsum("ij,ij->i", vectors, north)[:, None] * north)


def tells_facts(dynamics: object) -> TypeGuard[Dynamics]:
    """Whether its class is one of `Dynamics`: a wrapper that hands on all names has them, too."""
    return Dynamics in type(dynamics).__mro__


def _has_own_output(dynamics: Dynamics) -> bool:
    """Return whether a user's subclass of a class of the package defines its own output."""
    made = (kind for kind in type(dynamics).__mro__ if "output" in vars(kind))
    return next(made).__module__.partition(".")[0] != __name__.partition(".")[0]


def layer_step(dynamics: object) -> float | None:
    """The time that each of its discrete layers counts for; None of a flow."""
    step: float | None = getattr(dynamics, "layer_step", None)
    return step


def describe(dynamics: object) -> str:
    """Describe a dynamics that a file can't write down, so as to tell it from others."""
    text = repr(dynamics)
    if text == object.__repr__(dynamics):
        text = f"{type(dynamics).__name__}()"
    if tells_facts(dynamics) and len(dynamics.all_layers) > 1:
        return f"{text}, that is {', '.join(map(repr, dynamics.all_layers))}"
    if tells_facts(dynamics) or callable(getattr(dynamics, "output", None)):
        return text
    return f"{text}, that is {adapt(dynamics)!r}"


def adapt_any(given: object) -> Dynamics | None:
    """The dynamics that equations know of what may be none, as a class or a number: then None."""
    is_one = not isinstance(given, type) and hasattr(given, "noise")
    return adapt(given) if is_one else None


def adapt(dynamics: object) -> Dynamics:
    """The dynamics that equations know: itself, the SA or USA that it is, or what an own one tells.

    Raises
    ------
    ValueError
        If it has none of them, its values are out of range, or its class is made from one of the
        package, as which it would run, without an output of its own.

    Examples
    --------
    >>> class Square:
    ...     name, noise, kernel = "square", 0.0, [1.0, 2.0, 1.0]
    >>> adapt(Square())
    Interaction(kernel=(1.0, 2.0, 1.0), normalised=False, sign=1, noise=0.0)
    """
    adapted = _as_told(dynamics)
    if adapted.mover is not adapted:
        # if an energy is followed, the dynamics and the energy are adapted already
        return adapted
    if isinstance(adapted, Sum):
        # terms of a sum that varies in time are not adapted further: each keeps its kind at all
        # times
        terms = [_as_told(term) for term in adapted.terms]
        adapted = Sum(terms, weights=adapted.weights)
        if not adapted.varies:
            adapted = Sum([adapt(term) for term in terms], weights=adapted.weights)
    if adapted.varies:
        return adapted if isinstance(adapted, Varying) else Varying(adapted)
    return adapted.simplest


def _as_told(dynamics: Any) -> Dynamics:
    """Return a dynamics of the package as it is, or a user's object as one."""
    if tells_facts(dynamics):
        if not is_of_package(dynamics):
            if not _has_own_output(dynamics):
                raise ValueError(
                    f"dynamics must not be of a class made from one of the package, without an "
                    f"output of its own, got {_checks.shown_class(dynamics)}: a class of your own "
                    f"needs no parent"
                )
            return Adapted(dynamics)
        return dynamics.under_mask
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
    attributes = {name: getattr(dynamics, name) for name in names}
    if kernel is not None:
        return Interaction(kernel, noise=noise, **attributes)
    if callable(heads):
        normalised = boolean("normalised", attributes.get("normalised", True))
        attention = Attention(1.0, heads(), normalised=normalised, noise=noise)
        if any(isinstance(weight, FunctionOfTime) for weight in schedules(attention)):
            raise ValueError(
                f"heads() of {shown(dynamics)} must have a Schedule where they vary, got a function"
            )
        return attention
    raise ValueError(
        f"dynamics must have a kernel, heads() or output(measure, points), got {shown(dynamics)}"
    )


known_term.register(object, adapt)
