"""The parts of a model's layer: its norm, rotary angles, and the matrices of its attention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from meanfield._checks import check_type, freeze, integer, number, one_of, real_array, shown
from meanfield._records import Record
from meanfield.typing import Array, NDArray

KINDS = "layer", "rms", "none"
POSITIONS = "before", "after"
PAIRINGS = "adjacent", "halves"


@dataclass(frozen=True, eq=False)
class Norm(Record):
    """How a model normalises its tokens.

    Parameters
    ----------
    kind : {"layer", "rms", "none"}
        LayerNorm subtracts the mean of a token's coordinates and divides by their standard
        deviation; RMSNorm divides by their root mean square.
    position : {"before", "after"}
        Before each half layer, where states are the residual stream; or after it, where states are
        normalised.
    eps : float
        >= 0, added to the mean of squares.
    gain, shift : ndarray, shape (d,), optional
        Gain and shift of the norm after the last layer, if there is one.

    Raises
    ------
    ValueError
        If a word is another one, a number is negative, or an array is not finite.

    Examples
    --------
    >>> Norm("layer", eps=0.0).normalise(np.array([[1.0, 3.0]]))
    array([[-1.,  1.]])
    """

    kind: str = "rms"
    position: str = "before"
    eps: float = 1e-5
    gain: Array | None = None
    shift: Array | None = None

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        one_of("position", self.position, POSITIONS)
        freeze(self, eps=number("eps", self.eps, low=0))
        for name in ("gain", "shift"):
            if getattr(self, name) is not None:
                freeze(self, **{name: real_array(name, getattr(self, name), 1)})

    def __repr__(self) -> str:
        gains = "" if self.gain is None else ", with gains"
        return f"Norm({self.kind!r}, {self.position!r}, eps={self.eps:g}{gains})"

    def normalise(self, states: Array) -> Array:
        """Rows of states (n, d) through the norm, without gain and shift."""
        if self.kind == "none":
            return states.copy()
        rows = states - states.mean(axis=1, keepdims=True) if self.kind == "layer" else states
        squares = np.einsum("ij,ij->i", rows, rows) / states.shape[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse_sizes = 1.0 / np.sqrt(squares + self.eps)
            return np.asarray(rows * inverse_sizes[:, None])

    def directions(self, rows: Array, name: str) -> Array:
        """Rows of states (n, d) on the sphere, as the norm has them; they are changed in place.

        Raises
        ------
        ValueError
            If one has no direction, with the name of the states.
        """
        if self.kind == "layer":
            rows -= rows.mean(axis=1, keepdims=True)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        if not (lengths > 0.0).all():
            raise ValueError(
                f"{name} must have a direction, got length 0 of token {int(np.argmin(lengths))}, "
                f"through the norm of kind {self.kind!r}"
            )
        rows /= lengths[:, None]
        return rows


@dataclass(frozen=True, eq=False)
class Rotary(Record):
    """Angles pos · base^(−2i/dim) by which pairs of a query's and a key's coordinates are turned.

    Parameters
    ----------
    base : float
        > 0.
    pairing : {"adjacent", "halves"}
        Pairs (2i, 2i + 1), or (i, i + dim/2) as in the library transformers.
    dim : int, optional
        How many of the coordinates are turned, the first ones; even. All if omitted.

    Raises
    ------
    ValueError
        If one of them is out of range.

    Examples
    --------
    >>> Rotary(10000.0, "halves").turn(np.ones((2, 2))).round(4)
    array([[ 1.    ,  1.    ],
           [-0.3012,  1.3818]])
    """

    base: float = 10000.0
    pairing: str = "halves"
    dim: int | None = None

    def __post_init__(self) -> None:
        freeze(self, base=number("base", self.base, above=0))
        one_of("pairing", self.pairing, PAIRINGS)
        if self.dim is not None and integer("dim", self.dim, low=2) % 2:
            raise ValueError(f"dim must be even, got {self.dim}")

    def turn(self, vectors: Array) -> Array:
        """Vectors (…, n, k) of the tokens at positions 0 … n − 1, turned."""
        n, width = vectors.shape[-2:]
        dim = self.dim or width
        pairs = np.arange(dim // 2)
        angles = np.arange(n)[:, None] * self.base ** (-2.0 * pairs / dim)
        is_adjacent = self.pairing == "adjacent"
        first_index = 2 * pairs if is_adjacent else pairs
        second_index = first_index + (1 if is_adjacent else dim // 2)
        x, y, result = vectors[..., first_index], vectors[..., second_index], vectors.copy()
        result[..., first_index] = x * np.cos(angles) - y * np.sin(angles)
        result[..., second_index] = x * np.sin(angles) + y * np.cos(angles)
        return result


@dataclass(frozen=True, eq=False)
class LayerMatrices(Record):
    """Matrices of the attention of one layer, head by head.

    H heads share G groups of keys and values: head h uses group h // (H/G).

    Parameters
    ----------
    query : ndarray, shape (H, k, d)
    key, value : ndarray, shape (G, k, d)
    output : ndarray, shape (H, d, k)
        Without `value` or `output` the output of attention is not known.
    query_bias : ndarray, shape (H, k), optional
    key_bias, value_bias : ndarray, shape (G, k), optional
    output_bias : ndarray, shape (d,), optional
    gain, shift : ndarray, shape (d,), optional
        Gain and shift of the norm before this attention, or after it if the model normalises after.
    scale : float
        The factor of the scores, >= 0; 0 stands for 1/√k.
    rotary : Rotary, optional

    Raises
    ------
    ValueError
        If the shapes do not fit each other, or an array is not finite.

    Examples
    --------
    >>> eye = np.eye(2)[None]
    >>> LayerMatrices(eye, eye, scale=3.0).scores(np.eye(2))
    array([[[3., 0.],
            [0., 3.]]])
    """

    query: Array
    key: Array
    value: Array | None = None
    output: Array | None = None
    query_bias: Array | None = None
    key_bias: Array | None = None
    value_bias: Array | None = None
    output_bias: Array | None = None
    gain: Array | None = None
    shift: Array | None = None
    scale: float = 0.0
    rotary: Rotary | None = None

    def __post_init__(self) -> None:
        query, key = real_array("query", self.query, 3), real_array("key", self.key, 3)
        heads, width, dim = query.shape
        groups = len(key)
        if key.shape[1:] != (width, dim) or heads % groups:
            raise ValueError(
                f"key must have shape (G, {width}, {dim}) with G a divisor of {heads}, "
                f"got {key.shape}"
            )
        shapes: dict[str, tuple[int, ...]] = {
            "value": (groups, width, dim),
            "output": (heads, dim, width),
            "query_bias": (heads, width),
            "key_bias": (groups, width),
            "value_bias": (groups, width),
            "output_bias": (dim,),
            "gain": (dim,),
            "shift": (dim,),
        }
        for name, shape in shapes.items():
            if getattr(self, name) is not None:
                array = real_array(name, getattr(self, name), len(shape))
                check_shape(name, array.shape, shape)
                freeze(self, **{name: array})
        scale = number("scale", self.scale, low=0) or width**-0.5
        freeze(self, query=query, key=key, scale=scale)
        if self.rotary is not None:
            check_type("rotary", self.rotary, Rotary, "a Rotary")
            if (self.rotary.dim or width) > width:
                raise ValueError(f"rotary must turn at most {width} coordinates, got {self.rotary}")
            if (self.rotary.dim or width) % 2:
                raise ValueError(f"rotary must turn an even number of coordinates, got {width}")

    def __repr__(self) -> str:
        return (
            f"LayerMatrices(query={self.query.shape}, key={self.key.shape}, rotary={self.rotary})"
        )

    def inputs(self, states: Array, norm: Norm) -> Array:
        """The input of attention for states (n, d): through the norm, if it is before attention."""
        return states if norm.position == "after" else self.with_gains(norm.normalise(states))

    def with_gains(self, states: Array) -> Array:
        """Normalised states (n, d) with gain and shift."""
        if self.gain is not None:
            states = states * self.gain
        return states if self.shift is None else states + self.shift

    def queries_and_keys(self, inputs: Array) -> tuple[Array, Array]:
        """Queries (H, n, k) and keys (G, n, k) of inputs (n, d), turned by the rotary angles."""
        queries = _by_head(inputs, self.query, self.query_bias)
        keys = _by_head(inputs, self.key, self.key_bias)
        if self.rotary is None:
            return queries, keys
        return self.rotary.turn(queries), self.rotary.turn(keys)

    def scores(self, inputs: Array) -> Array:
        """Scores (H, n, n) of inputs (n, d): rows are those that look, columns are seen."""
        of_heads = np.dtype((float, (len(inputs), len(inputs))))
        return np.fromiter(self.head_scores(inputs), of_heads, len(self.query))

    def head_scores(self, inputs: Array) -> Iterator[Array]:
        """The same (n, n) of one head after the other, of which no two are kept."""
        queries, keys = self.queries_and_keys(inputs)
        for head, rows in enumerate(queries):
            scores = rows @ keys[head * len(keys) // len(queries)].T
            scores *= self.scale
            yield scores

    def attend(self, attention: Iterable[Array], inputs: Array) -> Array:
        """The output (n, d) of heads (n, n) of attention over inputs (n, d), with its bias."""
        if self.value is None or self.output is None:
            raise ValueError(f"matrices must have value and output, got {shown(self)}")
        values = _by_head(inputs, self.value, self.value_bias)
        total = np.zeros_like(inputs)
        for head, (weights, output) in enumerate(zip(attention, self.output, strict=True)):
            total += weights @ values[head * len(values) // len(self.output)] @ output.T
        return total if self.output_bias is None else total + self.output_bias


def softmax(scores: Array, allowed: NDArray[np.bool_]) -> Array:
    """Attention of scores (..., n, n) over the entries that the mask allows.

    Examples
    --------
    >>> softmax(np.zeros((1, 2, 2)), np.tri(2, dtype=bool))
    array([[[1. , 0. ],
            [0.5, 0.5]]])
    """
    attention = np.where(allowed, scores, -np.inf)
    attention -= attention.max(axis=-1, keepdims=True)
    np.exp(attention, out=attention)
    attention /= attention.sum(axis=-1, keepdims=True)
    return attention


def _by_head(inputs: Array, matrices: Array, biases: Array | None) -> Array:
    """Return rows (n, d) through each of the matrices (H, k, d), shape (H, n, k)."""
    vectors = inputs @ matrices.swapaxes(1, 2)
    return np.asarray(vectors if biases is None else vectors + biases[:, None])


def check_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Check that an array has the shape that others ask for.

    Raises
    ------
    ValueError
        Naming both.
    """
    if shape != wanted:
        raise ValueError(f"{name} must have shape {wanted}, got {shape}")
