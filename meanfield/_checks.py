"""Checks of arguments: a ValueError names the argument, its value and what is allowed."""

from __future__ import annotations

import math
import numbers
import re
import reprlib
import warnings
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any, TypeVar, cast

import numpy as np

from meanfield.typing import Array, ArrayLike, NDArray

# EPS is the distance from 1 to the next float
EPS = float(np.finfo(np.float64).eps)
_NORM_TOLERANCE = 1e-6
# a norm or a sum this close to 1 differs from it by rounding alone
_LAST_BITS = 8.0 * EPS
# the transpose of a product of matrices may differ by this share of the largest entry
_SYMMETRIC = 1e-13
# a float holds every integer up to this number
_MOST = 1 << 53
# numpy raises one of these where it can't read an array of another library
_NO_ARRAY = TypeError, ValueError, RuntimeError
_LONGEST = 80
# where an object is in memory, at the end of a default repr
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")

Word = TypeVar("Word", bound=str)
AnyArray = TypeVar("AnyArray", bound=NDArray[np.generic])

_BRIEF = reprlib.Repr()
_BRIEF.maxlist = _BRIEF.maxtuple = _BRIEF.maxarray = _BRIEF.maxset = _BRIEF.maxfrozenset = 8
_BRIEF.maxdict, _BRIEF.maxlevel = 4, 3
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = _LONGEST


def shown(value: object) -> str:
    """Show a value in one short line of a message; an array by its shape and type.

    Addresses are left out, as they differ between runs.

    Examples
    --------
    >>> shown("4"), shown([1, 2]), shown(np.full((200, 2), np.nan))
    ("'4'", '[1, 2]', 'an array of shape (200, 2) and dtype float64, nan at index (0, 0)')
    >>> shown(object())
    '<object object>'
    """
    show: Callable[[object], str] = _BRIEF.repr
    if isinstance(value, np.ndarray):
        show = repr
        if value.size > 4:
            text = f"an array of shape {value.shape} and dtype {value.dtype}"
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                where = _first(~np.isfinite(value))
                text += f", {value[where]} at index {where}"
            return text
    try:
        text = show(value)
    except Exception:
        # the object's own repr may raise anything
        text = f"an object of {type(value).__name__}"
    return cut(" ".join(_ADDRESS.sub("", text).split()))


def counted(count: int, thing: str) -> str:
    """A number of things, whose plural has an s.

    Examples
    --------
    >>> counted(1, "layer"), counted(2, "layer")
    ('1 layer', '2 layers')
    """
    return f"{count} {thing}{'' if count == 1 else 's'}"


def one_line(text: str) -> str:
    r"""Return `text` on one line, with what can't be printed escaped.

    Examples
    --------
    >>> one_line("two\nlines, one\x1b[1m bell")
    'two lines, one\\x1b[1m bell'
    """
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in joined)


def cut(text: str, longest: int = _LONGEST) -> str:
    """A text that is not longer than a message allows."""
    return text if len(text) <= longest else f"{text[: longest - 2]} …"


def _first(where: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(where)[0])


def number_in(value: object) -> numbers.Real | None:
    """The real number that a value is, or that an array without axes holds; else None.

    The array may be of another library. True and False are no numbers, nor is what is masked, a
    date or a span of time, which numpy counts among integers. Infinity and nan are numbers.

    Examples
    --------
    >>> number_in(np.array(4)), number_in(4.5), number_in(np.ma.masked), number_in(True)
    (4, 4.5, None, None)
    """
    if getattr(value, "ndim", None) == 0:
        try:
            array = np.asanyarray(value)
        except _NO_ARRAY:
            return None
        is_known = array.dtype.kind in "iuf" and not np.ma.is_masked(array)
        value = array.item() if is_known else None
    return value if isinstance(value, numbers.Real) and not isinstance(value, bool) else None


def is_number(value: object) -> bool:
    """Whether there is a real number in a value, see `number_in`."""
    return number_in(value) is not None


def number(
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    above: float = -math.inf,
) -> float:
    """Return `value` as a float when it is finite, ``low <= value <= high`` and ``value > above``.

    Examples
    --------
    >>> number("beta", 4, low=0)
    4.0
    """
    allowed = "a finite number"
    if above > -math.inf:
        allowed += f" > {_exact(above)}"
    if low > -math.inf:
        allowed += f" >= {_exact(low)}"
    if high < math.inf:
        allowed += f"{' and' * (max(above, low) > -math.inf)} <= {_exact(high)}"
    real = number_in(value)
    try:
        converted = math.nan if real is None else float(real)
    except OverflowError:
        converted = math.inf
    if not math.isfinite(converted) or not low <= converted <= high or converted <= above:
        raise ValueError(f"{name} must be {allowed}, got {shown(value)}")
    return converted


def tell_apart(value: float, limit: float) -> tuple[str, str]:
    """Two numbers as texts, with the digits that show which of them is larger.

    Examples
    --------
    >>> tell_apart(1.04e-8, 1e-8), tell_apart(1.0000004, 1.0)
    (('1.04e-08', '1e-08'), ('1.0000004', '1'))
    """
    # a number that `%g` shows exactly keeps all its digits
    least = 6 if _exact(value) == f"{value:g}" else 3
    for digits in range(least, 18):
        text, limit_text = f"{value:.{digits}g}", f"{limit:.{max(digits, 6)}g}"
        rounded = float(text), float(limit_text)
        if (rounded[0] > rounded[1], rounded[0] < rounded[1]) == (value > limit, value < limit):
            break
    return text, limit_text


def _exact(number: float) -> str:
    short = f"{number:g}"
    return short if float(short) == number else repr(float(number))


def integer(name: str, value: object, *, low: int, high: int | None = None) -> int:
    """Return `value` as an int when it is an integer with ``low <= value <= high``.

    Examples
    --------
    >>> integer("dim", 3, low=2)
    3
    """
    allowed = f"an integer >= {low}" + ("" if high is None else f" and <= {high}")
    count = number_in(value)
    most = _MOST if high is None else high
    if isinstance(count, numbers.Integral) and low <= int(count) <= most:
        return int(count)
    raise ValueError(f"{name} must be {allowed}, got {shown(value)}")


def boolean(name: str, value: object) -> bool:
    """Return `value` when it is True or False.

    Raises
    ------
    ValueError
        Otherwise: a word would count as True, "False" and "no" among them.
    """
    check_type(name, value, (bool, np.bool_), "True or False")
    return bool(value)


def plus_or_minus(name: str, value: object) -> int:
    """Return `value` as an int when it is +1 or -1."""
    sign = number_in(value)
    if sign not in (1, -1):
        raise ValueError(f"{name} must be +1 or -1, got {shown(value)}")
    return 1 if sign == 1 else -1


def one_of(name: str, value: object, allowed: Collection[Word]) -> Word:
    """Return `value` when it is one of these words.

    Examples
    --------
    >>> one_of("start", "wild", ("sample", "quantise"))
    Traceback (most recent call last):
        ...
    ValueError: start must be one of ('sample', 'quantise'), got 'wild'
    """
    if not isinstance(value, str) or value not in allowed:
        meant = did_you_mean(str(value), allowed)
        raise ValueError(f"{name} must be one of {allowed}, got {shown(value)}{meant}")
    return cast(Word, value)


def did_you_mean(word: str, words: Collection[str]) -> str:
    """The word that another may have stood for, as the end of a message; "" if none is like it.

    Examples
    --------
    >>> did_you_mean("beat", ["beta", "sign"])
    '; did you mean beta?'
    """
    matches = get_close_matches(word, words, 1)
    return f"; did you mean {matches[0]}?" if matches else ""


def some_of(name: str, values: Any, allowed: Collection[str]) -> list[str]:
    """Return `values` as a list when they are some of these words."""
    members = [] if is_single(values) else list(values)
    if not members or not all(isinstance(member, str) and member in allowed for member in members):
        raise ValueError(f"{name} must be among {allowed}, at least one, got {shown(values)}")
    return members


def is_single(value: Any) -> bool:
    """Whether a value is no array and no sequence that could be one."""
    if isinstance(value, (list, tuple)):
        return False
    try:
        return bool(np.ndim(value) == 0)
    except (TypeError, ValueError):
        return False


def is_empty(values: Any) -> bool:
    """Whether a value is a sequence, or an array with one axis, of nothing."""
    try:
        return bool(np.shape(values) == (0,))
    except (TypeError, ValueError):
        return False


def several(name: str, values: Any) -> list[Any]:
    """Return one value as a list of it, and at least one in a sequence as a list of them.

    Examples
    --------
    >>> several("n", 4), several("n", (4, 8))
    ([4], [4, 8])
    """
    members = [values] if is_single(values) else list(values)
    if not members:
        raise ValueError(f"{name} must be one or a sequence of at least one, got {shown(values)}")
    return members


def unmasked(name: str, values: object) -> NDArray[Any]:
    """Return `values` as an array, of the type that they have, if nothing in them is masked.

    All arrays of users go through here: `np.asarray` would take what stands below a mask.

    Raises
    ------
    ValueError
        Naming the argument and the first masked value, or if no array can be made of them.

    Examples
    --------
    >>> unmasked("weights", np.ma.array([0.5, 0.5], mask=[False, True]))
    Traceback (most recent call last):
        ...
    ValueError: weights must have no masked values, got one at index (1,)
    """
    check_unmasked(name, values)
    try:
        array = np.asanyarray(values)
    except _NO_ARRAY as error:
        raise ValueError(f"{name} must be an array of numbers, got {error}") from None
    # a lazy variable of a file becomes an array here, and may be a masked one
    check_unmasked(name, array)
    return np.asarray(array)


def check_unmasked(name: str, values: object) -> None:
    """Check that nothing is masked in an array, or in arrays in lists."""
    where = _masked_at(values)
    if where is not None:
        place = f" at index {where}" if where else ""
        raise ValueError(f"{name} must have no masked values, got one{place}")


_MAY_BE_MASKED = list, tuple, np.ma.MaskedArray


def _masked_at(values: object) -> tuple[int, ...] | None:
    """Return the index of the first masked value in an array or in nested lists.

    The index is None if no value is masked.
    """
    if isinstance(values, (list, tuple)):
        # a list has few types, so the types are looked at instead of all entries
        if not any(issubclass(kind, _MAY_BE_MASKED) for kind in {*map(type, values)}):
            return None
        entries = ((i, _masked_at(part)) for i, part in enumerate(values))
        return next(((i, *where) for i, where in entries if where is not None), None)
    # a structured array is refused elsewhere, with a better message
    if isinstance(values, np.ma.MaskedArray) and values.dtype.names is None and values.mask.any():
        return _first(np.asarray(values.mask))
    return None


def rounding(values: object, terms: int) -> float:
    """By how much sums of so many terms may be off, relative, in the type of the values.

    Of numbers whose sum, or whose squares' sum, was made 1 in single precision it is that much off
    1. A sum of n terms has n roundings of eps/2 at most and of either sign, which add up to about
    sqrt(n) eps/2, twice of which is allowed; so is the eps/2 by which each value is rounded, and
    by which the quotient is. numpy's sums of blocks err by less. Values that are no floating-point
    numbers, or have more digits than float64, count as float64.

    Examples
    --------
    >>> rounding([0.5, 0.5], 4) == 3 * EPS, rounding(np.float32(0.5), 4) == 3 * 2.0**-23
    (True, True)
    """
    dtype = np.asanyarray(values).dtype
    eps = float(np.finfo(dtype).eps) if dtype.kind == "f" else EPS
    return max(eps, EPS) * (1.0 + math.sqrt(terms))


def snap_to_ends(array: Array, values: object, low: float, high: float) -> Array:
    """An array with what is outside of an interval by the rounding of `values` put on its ends.

    Examples
    --------
    >>> snap_to_ends(np.array([-1.0, 3.0, 4.0]), np.float32(1.0), 0.0, 3.0 - 1e-7).tolist()
    [-1.0, 2.9999999, 4.0]
    """
    inside, tolerance = np.clip(array, low, high), rounding(values, 1) * max(-low, high)
    return np.where(np.abs(array - inside) <= tolerance, inside, array)


def real_array(name: str, values: object, ndim: int | None) -> Array:
    """Return `values` as a finite, non-empty float64 array with `ndim` axes, None for any.

    Raises
    ------
    ValueError
        Naming the argument, its shape, or the first value that is masked or not finite.
    """
    array = unmasked(name, values)
    if array.dtype.kind not in "iuf":
        raise ValueError(
            f"{name} must be an array of real numbers, got dtype {array.dtype}{_stranger(array)}"
        )
    # numbers beyond float64 become infinite, and infinite numbers are refused later
    with np.errstate(over="ignore"):
        # rows are contiguous as in files: the rounding of a sum depends on the order in memory
        array = array.astype(np.float64, order="C")
    if ndim not in (None, array.ndim) or array.size == 0:
        axes = "" if ndim is None else f" with {ndim} axes"
        raise ValueError(
            f"{name} must be a non-empty array{axes}, got shape {array.shape}{_alone(array)}"
        )
    if not np.isfinite(array).all():
        where = _first(~np.isfinite(array))
        raise ValueError(f"{name} must be finite, got {array[where]} at index {where}")
    return array


def ascending(name: str, values: ArrayLike, high: float = math.inf) -> Array:
    """Return `values` as a strictly ascending array from 0 to `high`."""
    array = real_array(name, values, 1)
    if array[0] < 0.0 or array[-1] > high or (np.diff(array) <= 0.0).any():
        allowed = f"in [0, {high:g}]" if high < np.inf else ">= 0"
        raise ValueError(f"{name} must be strictly ascending and {allowed}, got {array[:4]}")
    return array


def times_until(name: str, given: ArrayLike, t_end: float) -> Array:
    """The ends of so many equal intervals of [0, t_end], or the times that are given.

    Raises
    ------
    ValueError
        If it is no number >= 1, or the times don't ascend within [0, t_end].
    """
    if is_single(given):
        return np.linspace(0.0, t_end, integer(name, given, low=1) + 1)
    times = real_array(name, given, 1)
    times[np.abs(times - t_end) <= time_tolerance(given) * t_end] = t_end
    return ascending(name, times, t_end)


def time_tolerance(times: object) -> float:
    """The most by which two times that count as one differ, relative to the last of a run."""
    return 8.0 * rounding(times, 1)


def _alone(array: NDArray[np.generic]) -> str:
    """Return ", which is VALUE" for a message if the array is a single value, else ""."""
    return "" if array.ndim else f", which is {shown(array.item())}"


def _stranger(array: NDArray[np.generic]) -> str:
    """Return ", VALUE at index I" for a message: the first entry of an array that is no number."""
    for where, value in np.ndenumerate(array) if array.ndim and array.dtype.kind == "O" else ():
        if not is_number(value):
            return f", {shown(value)} at index {where}"
    return _alone(array)


def symmetric(name: str, matrix: ArrayLike, dim: int | None = None) -> Array:
    """Return `matrix` as a symmetric (d, d) array; a number is that multiple of the identity.

    What differs from the transpose by rounding only is averaged with it.

    Raises
    ------
    ValueError
        If it is not symmetric, holds a NaN, or d is < 2 or not `dim`; a number needs `dim`.

    Examples
    --------
    >>> symmetric("form", [[0, 1], [2, 0]])
    Traceback (most recent call last):
        ...
    ValueError: form must be symmetric, got 1 at index (0, 1) and 2 at index (1, 0)
    """
    if is_single(matrix) and dim is not None:
        return number(name, matrix) * np.eye(dim)
    array = real_array(name, matrix, 2)
    if array.shape != 2 * (dim or max(2, len(array)),):
        allowed = "(d, d) with d >= 2" if dim is None else f"({dim}, {dim})"
        raise ValueError(f"{name} must have shape {allowed}, got {array.shape}")
    gap = np.abs(array - array.T)
    if gap.max() > max(_SYMMETRIC, rounding(matrix, len(array))) * np.abs(array).max():
        i, j = (int(index) for index in np.unravel_index(np.argmax(gap), gap.shape))
        entries = (f"{array[at]:g} at index {at}" for at in ((i, j), (j, i)))
        raise ValueError(f"{name} must be symmetric, got {' and '.join(entries)}")
    return 0.5 * (array + array.T)


def read_only(array: AnyArray) -> AnyArray:
    """An array that nobody can change from now on."""
    array.flags.writeable = False
    return array


def freeze(thing: object, **attributes: object) -> None:
    """Set attributes of an object, be it a frozen dataclass: its arrays are read-only."""
    for name, value in attributes.items():
        if isinstance(value, np.ndarray):
            read_only(value)
        object.__setattr__(thing, name, value)


def rows(name: str, points: ArrayLike, dim: int | None = None) -> Array:
    """Return `points` as a finite float64 array (n, d) with n >= 1, and d = `dim` or d >= 2."""
    array = real_array(name, points, 2)
    if array.shape[1] < 2 or (dim is not None and array.shape[1] != dim):
        allowed = ">= 2" if dim is None else f"= {dim}"
        remedy = f": take {name}.T" if len(array) == dim else ""
        fault = f"got shape {array.shape}{remedy}"
        raise ValueError(f"{name} must have rows of length {allowed}, {fault}")
    return array


def unit_rows(name: str, points: ArrayLike, dim: int | None = None) -> Array:
    """Return `points` as rows of length 1; rows within 1e-6 of it are normalised exactly.

    In less than double precision they may be further from it, see `rounding`. Where they are on the
    circle, one number is the point at that angle.

    Raises
    ------
    ValueError
        Naming the first row that is no unit vector, and its norm.

    Examples
    --------
    >>> unit_rows("points", [[3.0, 4.0]])
    Traceback (most recent call last):
        ...
    ValueError: points must have rows of norm 1 (within 1e-06), got norm 5 in row 0
    """
    if dim == 2 and is_number(points):
        return _at_angle(name, points)
    array = rows(name, points, dim)
    norms = np.sqrt(np.einsum("ij,ij->i", array, array))
    tolerance = norm_tolerance(points, array.shape[1])
    is_off = np.abs(norms - 1.0) > tolerance
    if is_off.any():
        row = int(np.argmax(is_off))
        columns = np.sqrt(np.einsum("ij,ij->j", array, array))
        remedy = ""
        if len(array) > 1 and not (np.abs(columns - 1.0) > tolerance).any():
            remedy = f": columns of shape {array.shape} have it, take {name}.T"
        raise ValueError(
            f"{name} must have rows of norm 1 (within {tolerance:.2g}), "
            f"got norm {_told_norm(norms[row], tolerance)} in row {row}{remedy}"
        )
    _normalise(array, norms)
    return array


def norm_tolerance(points: ArrayLike, dim: int) -> float:
    """The most by which norms of rows of this length may differ from 1."""
    return max(_NORM_TOLERANCE, rounding(points, dim))


def _normalise(array: Array, norms: Array) -> None:
    """Divide rows by their norms, in place.

    What is normalised already keeps its bits, so that a file gives back what it was given.
    """
    norms[np.abs(norms - 1.0) <= _LAST_BITS] = 1.0
    array /= norms[..., None]


def unit_vector(name: str, vector: ArrayLike, dim: int | None = None) -> Array:
    """Return `vector` as a unit vector (d,), like a row of `unit_rows`; a number is an angle.

    Examples
    --------
    >>> unit_vector("mean", 0.5 * np.pi).round(15)
    array([0., 1.])
    """
    if is_number(vector) and dim in (None, 2):
        rows = _at_angle(name, vector)
    else:
        entries = real_array(name, vector, 1)
        if len(entries) < 2 or dim not in (None, len(entries)):
            allowed = ">= 2" if dim is None else f"= {dim}"
            raise ValueError(f"{name} must have length {allowed}, got shape {entries.shape}")
        norms = np.sqrt(np.einsum("ij,ij->i", entries[None], entries[None]))
        tolerance = norm_tolerance(vector, len(entries))
        if abs(norms[0] - 1.0) > tolerance:
            norm = _told_norm(norms[0], tolerance)
            raise ValueError(f"{name} must have norm 1 (within {tolerance:.2g}), got norm {norm}")
        rows = entries[None]
        _normalise(rows, norms)
    unit: Array = rows[0]
    return unit


def _told_norm(norm: float, tolerance: float) -> str:
    """Return a norm that is not 1 as text, with enough digits to tell it from the tolerance."""
    return tell_apart(norm, 1.0 + np.copysign(tolerance, norm - 1.0))[0]


def _at_angle(name: str, angle: object) -> Array:
    """Return the point of the circle at an angle, shape (1, 2)."""
    (turn,) = angles(name, [number(name, angle)], stacklevel=5)
    return np.array([[math.cos(turn), math.sin(turn)]])


# two numbers in single precision are equal to this relative error
_DECIMALS_RTOL = 1e-7


def angles(name: str, values: ArrayLike, stacklevel: int = 3) -> Array:
    """Return `values` as angles (n,) in radians; a warning names those that may be degrees.

    Warns
    -----
    UserWarning
        If one is beyond a turn and all have two decimals at most, as degrees that were read
        have. Phases that wound beyond a turn have more digits.
    """
    array = real_array(name, values, 1)
    largest = array[np.argmax(np.abs(array))]
    # 2π in single precision is a little more than 2π
    if abs(largest) > 2.0 * math.pi + 1e-6 and np.allclose(
        100.0 * array, np.round(100.0 * array), rtol=_DECIMALS_RTOL, atol=0.0
    ):
        warnings.warn(
            f"{name} holds an angle of {largest:g} radians, more than a turn, and none has more "
            f"than two decimals: of degrees take np.deg2rad",
            stacklevel=stacklevel,
        )
    return array


# sums and masses may differ from 1 by this; numbers in single precision may differ by `rounding`
MASS_TOLERANCE = 1e-8
UNIT_MASS = "divide by it, or set unit_mass=True"


def weights(
    name: str, values: ArrayLike | None, n: int, unit_mass: bool = False, remedy: str = UNIT_MASS
) -> Array:
    """Return `values` as n non-negative weights of sum 1; None means equal weights.

    The sum must be 1 within 1e-8, in less than double precision within `rounding`, and is made
    exact; with `unit_mass` weights are divided by it. The remedy says what to do about another sum.

    Raises
    ------
    ValueError
        If the length is not n, a weight is negative, all are zero, or their sum is not 1.

    Examples
    --------
    >>> weights("weights", [1, 3], 2, unit_mass=True)
    array([0.25, 0.75])
    >>> weights("weights", [1, 3], 2)
    Traceback (most recent call last):
        ...
    ValueError: weights must have sum 1 within 1e-08, got 4: divide by it, or set unit_mass=True
    """
    is_scaled = boolean("unit_mass", unit_mass)
    if values is None:
        return np.full(n, 1.0 / n)
    array = real_array(name, values, 1)
    if array.shape != (n,):
        raise ValueError(f"{name} must have length {n}, got {array.size}")
    if array.min() < 0.0:
        index = int(np.argmax(array < 0.0))
        raise ValueError(f"{name} must be >= 0, got {array[index]:g} at index {index}")
    largest = array.max()
    if largest <= 0.0:
        raise ValueError(f"{name} must have a positive sum, got {array.sum():g}")
    with np.errstate(over="ignore"):
        total = float(array.sum())
    if abs(total - 1.0) <= _LAST_BITS:
        return array
    tolerance = max(MASS_TOLERANCE, rounding(values, n))
    if not is_scaled and abs(total - 1.0) > tolerance:
        raise ValueError(
            f"{name} must have sum 1 within {tolerance:.2g}, got {total:.9g}: {remedy}"
        )
    array /= largest
    return np.asarray(array / array.sum())


def is_of_package(value: object) -> bool:
    """Whether the class of a value is one of the package, and not one that a user made from it.

    Of another class nobody knows what it has of its own: what moves, sums or keeps the one of the
    package would take it for its parent.

    Examples
    --------
    >>> from meanfield.laws import Uniform
    >>> is_of_package(Uniform(2)), is_of_package(type("Mine", (Uniform,), {"__module__": "my"})(2))
    (True, False)
    """
    package, _, _ = __name__.partition(".")
    return type(value).__module__.partition(".")[0] == package


def shown_class(value: object) -> str:
    """A value and its class, for a message: it may look like one of the parent of its class."""
    return f"{shown(value)} of class {type(value).__name__}"


def check_measure(name: str, value: object) -> None:
    """Check that this is a measure of the package, and not an array or a law.

    Raises
    ------
    ValueError
        Naming the argument and its value, and of tokens and laws the measures that they make.

    Examples
    --------
    >>> check_measure("mu", 1.0)
    Traceback (most recent call last):
        ...
    ValueError: mu must be a Density, FlowMap or Particles, got 1.0
    """
    is_class, remedy = isinstance(value, type), ""
    if callable(getattr(value, "balance", None)) and not is_class:
        if is_of_package(value):
            return
        mine = f"not of a class made from one, got {shown_class(value)}"
        raise ValueError(f"{name} must be a Density, FlowMap or Particles, {mine}")
    if isinstance(value, (np.ndarray, list)):
        remedy = ": wrap unit rows X as mf.Particles(X)"
    elif callable(getattr(value, "pdf", None)) and not is_class:
        made = "Density(space, law), FlowMap(law) or Particles.sample(law, n, rng)"
        remedy = f", a law: wrap it as {made}"
    raise ValueError(f"{name} must be a Density, FlowMap or Particles, got {shown(value)}{remedy}")


def check_type(name: str, value: object, kinds: type | tuple[type, ...], allowed: str) -> None:
    """Check that a value is of one of these types."""
    if not isinstance(value, kinds):
        raise ValueError(f"{name} must be {allowed}, got {shown(value)}")


def generator(name: str, rng: object) -> np.random.Generator:
    """Return `rng` when it is a numpy Generator, or that of an integer >= 0.

    Examples
    --------
    >>> generator("rng", 1).random() == np.random.default_rng(1).random()
    True
    """
    if isinstance(rng, np.random.Generator):
        return rng
    seed = number_in(rng)
    if not isinstance(seed, numbers.Integral) or seed < 0:
        allowed = "an integer >= 0 or a numpy.random.Generator"
        raise ValueError(f"{name} must be {allowed}, got {shown(rng)}")
    return np.random.default_rng(int(seed))
