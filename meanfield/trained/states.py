"""Hidden states of a trained model, layer by layer, and whether they are what they seem."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Self

import numpy as np
import xarray as xr

from meanfield._checks import check_type, counted, integer, one_of, real_array, shown, unmasked
from meanfield.evolution.netcdf import refusals
from meanfield.trained.conventions import compare_attention, compare_residual
from meanfield.trained.files import AnyArray, Stored, as_stored, open_arrays
from meanfield.trained.matrices import LayerMatrices, Norm, check_shape, softmax
from meanfield.trained.names import Arrays, arguments_from
from meanfield.typing import Array, ArrayLike, NDArray

# rounding of a row to bfloat16 moves its sum by half of this
_SUM_TOLERANCE = 2.0**-8
# the root mean square of a normalised row is 1 up to this, after rounding to bfloat16
_UNIT_TOLERANCE = 1e-2


class LayerStates:
    """Hidden states of a trained model, layer by layer, with its attention and matrices.

    Arrays in memory are looked at when they are given; those of a file layer by layer, when a layer
    is asked for.

    Parameters
    ----------
    states : array_like, shape (L + 1, n, d) or (L + 1, B, n, d)
        The states before layer 0 to after layer L - 1, of one prompt or of B.
    after_attention : array_like, shape (L, n, d) or (L, B, n, d), optional
        The states between the halves of each layer.
    attention : array_like, shape (L, H, n, n) or (L, B, H, n, n), optional
        Rows are tokens that look, and sum to 1; columns are tokens that are seen.
    matrices : sequence of LayerMatrices, optional
        One for each layer, or None for a layer whose matrices are not known.
    norm : Norm, optional
        How the model normalises its tokens; without it nothing is taken to.
    mask : "causal" or array_like of bool, optional
        Which tokens (second axis) a token (first axis) may see, shape (n, n); all, without it. With
        prompts a padding mask, shape (B, n), True where a token is, or both together, (B, n, n):
        ``padding[:, None, :] & np.tri(n, dtype=bool)``.
    tokens : array_like of str, shape (n,) or (B, n), optional

    Attributes
    ----------
    n_layers, n_prompts, dim : int
        L; B, 1 without an axis of prompts; d.
    norm : Norm or None

    Raises
    ------
    ValueError
        If shapes do not fit each other, a number is not finite, a row of the attention does not sum
        to 1, or attention is above 0 where the mask forbids it.

    Examples
    --------
    >>> states = LayerStates(np.ones((3, 4, 2)), mask="causal")
    >>> states
    LayerStates(2 layers, 4 tokens of dimension 2)
    >>> states.points(2)[0]
    array([0.70710678, 0.70710678])
    """

    def __init__(
        self,
        states: ArrayLike | Stored,
        *,
        after_attention: ArrayLike | Stored | None = None,
        attention: ArrayLike | Stored | None = None,
        matrices: Sequence[LayerMatrices | None] | None = None,
        norm: Norm | None = None,
        mask: ArrayLike | None = None,
        tokens: ArrayLike | None = None,
    ) -> None:
        self._states = as_stored("states", states)
        shape = self._states.shape
        if len(shape) not in (3, 4) or shape[0] < 2 or min(shape) < 1 or shape[-1] < 2:
            raise ValueError(
                "states must have shape (L + 1, n, d) or (L + 1, B, n, d) with L >= 1 and d >= 2, "
                f"got {shape}"
            )
        self.n_layers, self.dim, self.norm = shape[0] - 1, shape[-1], norm
        self._prompts, self._n = shape[1:-2], shape[-2]
        self.n_prompts, self._prompt = math.prod(self._prompts), 0
        self._after = self._attention = self._tokens = None
        if after_attention is not None:
            self._after = as_stored("after_attention", after_attention)
            check_shape("after_attention", self._after.shape, (self.n_layers, *shape[1:]))
        if attention is not None:
            self._attention = as_stored("attention", attention)
            heads = (*self._attention.shape[-3:-2], 1)[0]
            wanted = self.n_layers, *self._prompts, heads, self._n, self._n
            check_shape("attention", self._attention.shape, wanted)
        if norm is not None:
            check_type("norm", norm, Norm, "a Norm")
            for name in ("gain", "shift"):
                values = getattr(norm, name)
                if values is not None:
                    check_shape(f"{name} of norm", values.shape, (self.dim,))
        self._norm = norm or Norm("none")
        self._mask = self._checked_mask(mask)
        if tokens is not None:
            self._tokens = unmasked("tokens", tokens)
            check_shape("tokens", self._tokens.shape, (*self._prompts, self._n))
            # numpy turns a list of words and numbers into words
            if not all(isinstance(word, str) for word in np.ravel(np.array(tokens, dtype=object))):
                raise ValueError(f"tokens must be words, got {shown(tokens)}")
        self._matrices = matrices
        if matrices is not None:
            check_type("matrices", matrices, Sequence, "a sequence of LayerMatrices")
            if len(matrices) != self.n_layers:
                raise ValueError(
                    f"matrices must be {self.n_layers}, one for each layer, got {len(matrices)}"
                )
        self._look_at_memory()

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """The states in a file, of which a layer is read when it is asked for.

        Parameters
        ----------
        path : str or path-like
            An npz or safetensors file with the names of `from_mapping`, or an npy file of states.

        Returns
        -------
        LayerStates

        Raises
        ------
        ValueError
            If the file is none of these, does not hold what its headers say, or is a pickle: the
            message then has the line that writes what can be read.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/model.npz", states=np.ones((3, 4, 2)), mask="causal")
        ...     LayerStates.from_file(f"{folder}/model.npz").n_tokens
        4
        """
        arrays = open_arrays(path)
        with refusals(Path(path)):
            return cls.from_mapping(arrays)

    @classmethod
    def from_mapping(cls, arrays: Arrays) -> Self:
        """The states in a mapping of arrays and words by name.

        Parameters
        ----------
        arrays : mapping
            With "states" and what else the constructor takes by its names there; of layer l
            "query_l", "key_l", "value_l" and "output_l", shape (out, in), each with "…_bias_l",
            "gain_l" and "shift_l"; "norm" ("layer", "rms" or "none"), "norm_position", "norm_eps",
            "norm_gain", "norm_shift", "mask" ("causal", "none" or an array), "n_heads", "scale",
            "rotary_base", "rotary_pairing", "rotary_dim". Or with the names of TransformerLens,
            "blocks.0.hook_resid_pre" …; or with Llama's, "attn_q_0" …

        Returns
        -------
        LayerStates

        Raises
        ------
        ValueError
            If an array is missing or does not fit.

        Examples
        --------
        >>> LayerStates.from_mapping({"states": np.ones((3, 4, 2)), "norm": "rms"}).norm.kind
        'rms'
        """
        return cls(**arguments_from(arrays))

    def __repr__(self) -> str:
        prompts = f"{self.n_prompts} prompts, " if self.n_prompts > 1 else ""
        heads = "" if self.n_heads is None else f", {self.n_heads} heads"
        return (
            f"LayerStates({self.n_layers} layers{heads}, {prompts}{self._states.shape[-2]} tokens "
            f"of dimension {self.dim})"
        )

    def prompt(self, index: int) -> LayerStates:
        """One of the prompts, without its padding.

        Parameters
        ----------
        index : int
            0 <= index < B.

        Returns
        -------
        LayerStates

        Examples
        --------
        >>> padding = np.array([[True, True, False], [True, True, True]])
        >>> LayerStates(np.ones((2, 2, 3, 4)), mask=padding).prompt(0).n_tokens
        2
        """
        chosen = copy.copy(self)
        chosen._prompt = integer("index", index, low=0, high=self.n_prompts - 1)
        chosen.n_prompts = 1
        return chosen

    @property
    def n_tokens(self) -> int:
        """How many tokens there are, without padding."""
        return int(np.count_nonzero(self._masks()[1]))

    @property
    def tokens(self) -> tuple[str, ...] | None:
        """The words of the tokens, None if they are not known."""
        if self._tokens is None:
            return None
        return tuple(str(word) for word in self._tokens[self._place()][self._masks()[1]])

    @property
    def n_heads(self) -> int | None:
        """How many heads each layer has, None without attention and matrices."""
        if self._attention is not None:
            return self._attention.shape[-3]
        matrices = map(self.matrices_at, range(self.n_layers))
        return next((len(layer.query) for layer in matrices if layer is not None), None)

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Which entries of the attention the mask allows, shape (n, n)."""
        mask, is_token = self._masks()
        return mask[np.ix_(is_token, is_token)]

    def state(self, layer: int) -> Array:
        """The states before a layer, or after the last.

        Parameters
        ----------
        layer : int
            0 <= layer <= L.

        Returns
        -------
        ndarray, shape (n, d)
        """
        layer = integer("layer", layer, low=0, high=self.n_layers)
        return self._rows("states", self._states, layer)

    def after_attention_at(self, layer: int) -> Array | None:
        """The states between the halves of a layer, None if they are not known.

        Parameters
        ----------
        layer : int
            0 <= layer < L.

        Returns
        -------
        ndarray, shape (n, d), or None
        """
        layer = integer("layer", layer, low=0, high=self.n_layers - 1)
        return None if self._after is None else self._rows("after_attention", self._after, layer)

    def attention_at(self, layer: int) -> Array | None:
        """The attention of a layer, None if it is not known.

        Parameters
        ----------
        layer : int
            0 <= layer < L.

        Returns
        -------
        ndarray, shape (H, n, n), or None

        Raises
        ------
        ValueError
            If a row does not sum to 1, an entry is below 0, or above where the mask forbids it.
        """
        layer = integer("layer", layer, low=0, high=self.n_layers - 1)
        if self._attention is None:
            return None
        shape = self._attention.shape[-3], self.n_tokens, self.n_tokens
        return np.fromiter(self.heads_at(layer), np.dtype((float, shape[1:])), shape[0])

    def heads_at(self, layer: int) -> Iterator[Array]:
        """The attention of a layer, one head after the other; no head if it is not known.

        All heads of many tokens may need more memory than there is.

        Parameters
        ----------
        layer : int
            0 <= layer < L.

        Returns
        -------
        iterator of ndarray, shape (n, n)

        Raises
        ------
        ValueError
            As `attention_at`, when it comes to the head in question.

        Examples
        --------
        >>> attention = np.full((1, 2, 3, 3), 1 / 3)
        >>> states = LayerStates(np.ones((2, 3, 4)), attention=attention)
        >>> [head.shape for head in states.heads_at(0)]
        [(3, 3), (3, 3)]
        """
        layer = integer("layer", layer, low=0, high=self.n_layers - 1)
        if self._attention is None:
            return iter(())
        heads = self._attention.parts((layer, *self._place()))
        return map(partial(self._checked_head, layer), heads, count())

    def _checked_head(self, layer: int, rows: AnyArray, head: int) -> Array:
        mask, is_token = self._masks()
        name = f"attention of head {head} in layer {layer}"
        # attention of padding belongs to no token, and may be nan
        weights = _finite(name, rows if is_token.all() else rows[is_token])
        _check_attention(name, weights, mask[is_token], np.flatnonzero(is_token))
        return weights if is_token.all() else weights[:, is_token]

    def matrices_at(self, layer: int) -> LayerMatrices | None:
        """The matrices of a layer, None if they are not known.

        Parameters
        ----------
        layer : int
            0 <= layer < L.

        Returns
        -------
        LayerMatrices or None
        """
        layer = integer("layer", layer, low=0, high=self.n_layers - 1)
        matrices = None if self._matrices is None else self._matrices[layer]
        if matrices is None:
            return None
        name = f"matrices of layer {layer}"
        check_type(name, matrices, LayerMatrices, "LayerMatrices")
        heads = len(matrices.query) if self._attention is None else self._attention.shape[-3]
        wanted = heads, matrices.query.shape[1], self.dim
        check_shape(f"query in {name}", matrices.query.shape, wanted)
        return matrices

    def points(self, layer: int) -> Array:
        """The states on the sphere: through the model's norm without gains, over their lengths.

        LayerNorm subtracts the mean of a token's coordinates, RMSNorm does not. A last state that
        is after the final norm is divided by its gains first.

        Parameters
        ----------
        layer : int
            0 <= layer <= L.

        Returns
        -------
        ndarray, shape (n, d)
            Unit rows.

        Raises
        ------
        ValueError
            If a token has no direction.
        """
        rows = self.state(layer)
        if layer == self.n_layers and self._is_normalised(rows):
            rows = _without_gains(rows, self._norm)
        return self._norm.directions(rows, f"states of layer {layer}")

    def scores(self, layer: int) -> Array:
        """Scores of a layer, from its states and matrices; the mask is not applied.

        Parameters
        ----------
        layer : int
            0 <= layer < L.

        Returns
        -------
        ndarray, shape (H, n, n)

        Raises
        ------
        ValueError
            If the matrices of the layer are not known.
        """
        matrices = self.matrices_at(layer)
        if matrices is None:
            raise ValueError(f"matrices of layer {layer} must be known for its scores, got none")
        return matrices.scores(matrices.inputs(self.state(layer), self._norm))

    def _is_normalised(self, rows: Array) -> bool:
        """Whether the last state is after the model's final norm, as `transformers` stores it.

        Then the root mean square of each row is 1, once the gains of `norm` are divided out; in the
        residual stream it is not. Without those gains it can't be seen.
        """
        if self._norm.kind == "none" or self._norm.position == "after":
            return False
        rows = _without_gains(rows, self._norm)
        means = rows.mean(axis=1) if self._norm.kind == "layer" else 0.0
        sizes = np.sqrt(np.einsum("ij,ij->i", rows, rows) / self.dim)
        deviation = np.maximum(np.abs(sizes - 1.0), np.abs(means))
        return bool(deviation.max() < _UNIT_TOLERANCE)

    def stage(self, layer: int) -> str:
        """The place of a state in the model, in words.

        Parameters
        ----------
        layer : int
            0 <= layer <= L.

        Returns
        -------
        str
        """
        layer = integer("layer", layer, low=0, high=self.n_layers)
        where = f"before layer {layer}" if layer < self.n_layers else f"after layer {layer - 1}"
        if self._norm.kind == "none":
            return f"state {where}"
        if self._norm.position == "after":
            return f"state after a norm, {where}"
        if layer == self.n_layers and self._is_normalised(self.state(layer)):
            return f"after the final norm, {where}"
        return f"residual stream {where}"

    def check(self) -> xr.Dataset:
        """Hold attention and residual stream against the matrices, layer by layer.

        Returns
        -------
        xarray.Dataset
            Over (layer, head): `attention_error`, the largest difference of the attention that is
            given from the one that states and matrices give, nan where one of them is missing. Over
            layer: `attention_rounding`, what storing float32 numbers may make of it;
            `residual_error`, the largest entry of the state after attention less the state before
            it and attention's output (through the norm, where that is after), and
            `residual_rounding`; `row_error`, how far sums of rows of the attention are from 1. Over
            state: `stage`, where in the model it is. Over finding: `finding`, sentences that say
            what agrees, what does not, and which convention would.

        Raises
        ------
        ValueError
            If a number is not finite, or the attention is none.
        """
        errors = np.full((self.n_layers, self.n_heads or 1), np.nan)
        numbers = np.full((4, self.n_layers), np.nan)
        findings: list[str] = []
        allowed, is_given = self.allowed, self._attention is not None
        unused = allowed if is_given else np.zeros(0, bool)
        for layer in range(self.n_layers):
            matrices = self.matrices_at(layer)
            for head in self.heads_at(layer):
                numbers[3, layer] = np.fmax(numbers[3, layer], np.abs(head.sum(1) - 1.0).max())
                unused = unused & (head == 0.0)
            if matrices is None:
                continue
            state, norm = self.state(layer), self._norm
            if is_given:
                gap = compare_attention(self.heads_at(layer), state, matrices, norm, allowed)
                errors[layer], numbers[0, layer] = gap.errors, gap.rounding
                if not gap.is_explained:
                    findings.append(f"attention of layer {layer}: {gap}")
            after = self.after_attention_at(layer)
            if after is None or matrices.value is None or matrices.output is None:
                continue
            scores = matrices.head_scores(matrices.inputs(state, norm))
            heads = (
                self.heads_at(layer) if is_given else (softmax(head, allowed) for head in scores)
            )
            gap = compare_residual(state, after, heads, matrices, norm)
            numbers[1:3, layer] = gap.errors, gap.rounding
            if not gap.is_explained:
                findings.append(f"state after attention of layer {layer}: {gap}")
        if unused.any():
            is_causal = np.array_equal(unused, allowed & ~np.tri(len(unused), dtype=bool))
            # the word alone would take padding for tokens
            is_padded = np.asarray(self._mask).shape[:1] == self._prompts != ()
            mask = "padding[:, None, :] & np.tri(n, dtype=bool)" if is_padded else "mask='causal'"
            remedy = f": {mask} forbids them" if is_causal else ""
            findings.append(
                f"mask allows {np.count_nonzero(unused)} entries of the attention that are 0 in "
                f"every layer and head{remedy}"
            )
        return _dataset(self, errors, numbers, findings)

    def _place(self) -> tuple[int, ...]:
        """Return the index of the prompt, which follows that of the layer."""
        if self.n_prompts > 1:
            raise ValueError(
                f"states must be of one prompt here, got {self.n_prompts}: take prompt(0)"
            )
        return (self._prompt,) if self._prompts else ()

    def _masks(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the mask of tokens, shape (n, n), and which of them are no padding, (n,)."""
        place, n = self._place(), self._n
        mask = np.asarray(self._mask)
        if mask.ndim == 0:
            square = np.tri(n, dtype=bool) if self._mask == "causal" else np.ones((n, n), bool)
            return square, np.ones(n, bool)
        if mask.shape == (n, n):
            return mask, np.ones(n, bool)
        square = np.broadcast_to(mask[place], (n, n))
        return square, square.diagonal()

    def _checked_mask(self, mask: ArrayLike | None) -> NDArray[np.bool_] | str | None:
        if mask is None or isinstance(mask, str):
            return None if mask is None else one_of("mask", mask, ("causal",))
        array, n = unmasked("mask", mask), self._n
        # n prompts of n tokens have masks that could be either
        shapes: list[tuple[int, ...]] = [(n, n)] if self._prompts != (n,) else []
        if self._prompts:
            shapes += [shape for shape in [(*self._prompts, n)] if shape != (n, n)]
            shapes.append((*self._prompts, n, n))
        if array.dtype != bool or array.shape not in shapes:
            raise ValueError(
                f"mask must be 'causal' or True and False of shape "
                f"{' or '.join(map(str, shapes))}, got {shown(array)}"
            )
        if array.shape == (n, n) and not array.any(axis=1).all():
            raise ValueError(
                f"mask must let each token see one, got a row of False in {shown(array)}"
            )
        tokens = array if array.ndim == 2 else np.diagonal(array, axis1=1, axis2=2)
        if not tokens.any(axis=1).all():
            raise ValueError(
                f"mask must leave each prompt a token, got one of padding alone in {shown(array)}"
            )
        return array

    def _rows(self, name: str, values: Stored, layer: int) -> Array:
        """Return states of one layer, without padding."""
        is_token = self._masks()[1]
        rows = values[(layer, *self._place())]
        return _finite(f"{name} of layer {layer}", rows if is_token.all() else rows[is_token])

    def _look_at_memory(self) -> None:
        """Check arrays that are in memory already.

        Their first error is raised before work starts.
        """
        for prompt in map(self.prompt, range(self.n_prompts)):
            for layer in range(self.n_layers):
                if self._after is not None and self._after.in_memory:
                    prompt.after_attention_at(layer)
                if self._attention is not None and self._attention.in_memory:
                    for _ in prompt.heads_at(layer):
                        pass
            if self._states.in_memory:
                for layer in range(self.n_layers + 1):
                    prompt.state(layer)
        if isinstance(self._matrices, (list, tuple)):
            for layer in range(self.n_layers):
                self.matrices_at(layer)


def _finite(name: str, values: AnyArray) -> Array:
    """Return the numbers as float64, or refuse them by the place where they are not finite."""
    try:
        return real_array(name, values, None)
    except ValueError as error:
        is_short = values.dtype == np.float16 and np.isinf(values).any()
        if not is_short:
            raise
        raise ValueError(f"{error}: float16 ends at 65504, store float32 or bfloat16") from None


def _check_attention(
    name: str, head: Array, mask: NDArray[np.bool_], tokens: NDArray[np.intp]
) -> None:
    """Refuse what no softmax under the mask (rows, columns) gives; rows are those of the tokens."""
    for wrong, allowed in ((head < 0.0, ">= 0"), ((head > 0.0) & ~mask, "0 where mask forbids")):
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"{name} must be {allowed}, got {head[row, column]:.3g} from token {tokens[row]} "
                f"to token {column}"
            )
    sums = head.sum(axis=1)
    wrong = np.abs(sums - 1.0) > _SUM_TOLERANCE
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{name} must have rows of sum 1 within {_SUM_TOLERANCE:.2g}, got {sums[row]:.6g} in "
            f"row {tokens[row]}"
        )


def _without_gains(rows: Array, norm: Norm) -> Array:
    """Return rows after the final norm without its shift and gains; a gain of 0 leaves 0."""
    if norm.shift is not None:
        rows = rows - norm.shift
    if norm.gain is None:
        return rows
    return np.divide(rows, norm.gain, out=np.zeros_like(rows), where=norm.gain != 0.0)


_ABOUT = {
    "attention_error": "largest difference of the attention from that of states and matrices",
    "attention_rounding": "what rounding to float32 may make of it",
    "residual_error": "largest difference of the state after attention from the residual identity",
    "residual_rounding": "what rounding to float32 may make of it",
    "row_error": "largest distance of the sum of a row of attention from 1",
    "stage": "where in the model a state is",
    "finding": "what agrees and what does not",
}


def _dataset(
    states: LayerStates, attention: Array, numbers: Array, findings: list[str]
) -> xr.Dataset:
    """Return the numbers of `check` with their names, and findings.

    The first two findings say what agrees.
    """
    agree = []
    for subject, errors, rounding in (
        ("attention", attention.max(axis=1), numbers[0]),
        ("the residual identity", numbers[1], numbers[2]),
    ):
        known = np.isfinite(errors)
        if known.any():
            good = int((errors[known] <= rounding[known]).sum())
            agree.append(
                f"{subject}: {good} of {counted(int(known.sum()), 'layer')} agree with the "
                f"matrices up to rounding; the largest difference is {errors[known].max():.2g}"
            )
        else:
            agree.append(f"{subject}: not checked, since no layer has all that it follows from")
    names = "attention_rounding", "residual_error", "residual_rounding", "row_error"
    ds = xr.Dataset(
        {
            "attention_error": (("layer", "head"), attention),
            **{name: ("layer", row) for name, row in zip(names, numbers, strict=True)},
            "stage": ("state", [states.stage(layer) for layer in range(states.n_layers + 1)]),
            "finding": ("finding", [*agree, *findings]),
        },
        coords={
            "layer": np.arange(states.n_layers),
            "head": np.arange(attention.shape[1]),
            "state": np.arange(states.n_layers + 1),
        },
    )
    for name, text in _ABOUT.items():
        ds[name].attrs |= {"long_name": text, "role": "check"}
    return ds
