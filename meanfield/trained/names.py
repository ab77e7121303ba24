"""What names of arrays stand for: the package's own, Llama's, those of TransformerLens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from meanfield._checks import number, one_of, real_array, shown, unmasked
from meanfield.trained.files import Stack, Stored
from meanfield.trained.matrices import KINDS, PAIRINGS, POSITIONS, LayerMatrices, Norm, Rotary
from meanfield.typing import Array, ArrayLike

# values are words, or arrays of any library that numpy can read
Arrays = Mapping[str, Any]


class Arguments(TypedDict, total=False):
    """The arguments of `LayerStates` that a mapping of arrays has."""

    states: Stored | ArrayLike
    after_attention: Stored | ArrayLike | None
    attention: Stored | ArrayLike | None
    matrices: Sequence[LayerMatrices | None]
    norm: Norm | None
    mask: ArrayLike | None
    tokens: ArrayLike | None


# names of the arrays of layer l in a file of the package, and in files of Llama in the format GGUF
_OWN = {name: f"{name}_{{}}" for name in ("query", "key", "value", "output", "gain", "shift")}
_OWN |= {f"{name}_bias": f"{name}_bias_{{}}" for name in ("query", "key", "value", "output")}
_LLAMA = {"query": "attn_q_{}", "key": "attn_k_{}", "value": "attn_v_{}"}
_LLAMA |= {"output": "attn_output_{}", "gain": "attn_norm_{}"}
# names of the arrays of a block in TransformerLens; an underscore marks keys that groups of heads
# share
_LENS = {
    "query": ("attn.W_Q",),
    "key": ("attn._W_K", "attn.W_K"),
    "value": ("attn._W_V", "attn.W_V"),
    "output": ("attn.W_O",),
    "query_bias": ("attn.b_Q",),
    "key_bias": ("attn._b_K", "attn.b_K"),
    "value_bias": ("attn._b_V", "attn.b_V"),
    "output_bias": ("attn.b_O",),
    "gain": ("ln1.w",),
    "shift": ("ln1.b",),
}


class LayerwiseMatrices(Sequence[LayerMatrices | None]):
    """The matrices of each layer, made when they are asked for; None where there are none."""

    def __init__(self, n_layers: int, make: Callable[[int], LayerMatrices | None]) -> None:
        self._n_layers, self._make = n_layers, make

    def __len__(self) -> int:
        return self._n_layers

    def __getitem__(self, layer: Any) -> Any:
        if not 0 <= layer < self._n_layers:
            raise IndexError(f"layer must be in [0, {self._n_layers}), got {layer}")
        return self._make(layer)


def arguments_from(arrays: Arrays) -> Arguments:
    """The arguments of `LayerStates` in a mapping of arrays and words by name.

    Raises
    ------
    ValueError
        If it is no mapping, lacks an array, or has a word that is none of its kind.
    """
    if not isinstance(arrays, Mapping):
        raise ValueError(f"arrays must be a mapping of arrays by name, got {shown(arrays)}")
    if any(str(name).startswith("blocks.") for name in arrays):
        return _from_lens(arrays)
    if "states" not in arrays:
        raise ValueError(
            "arrays must have states, or blocks.0.hook_resid_pre … of TransformerLens, "
            f"got {shown(list(arrays))}"
        )
    if any(str(name).startswith("attn_q_") for name in arrays):
        llama = {
            "norm": "rms",
            "norm_eps": arrays.get("rms_eps", 1e-5),
            "norm_gain": arrays.get("final_norm"),
            "mask": "causal",
            "rotary_base": arrays.get("rope_base", 10000.0),
            "rotary_pairing": "adjacent",
        }
        return _from_layers(llama | dict(arrays), _LLAMA)
    if any(str(name).startswith("query_") for name in arrays):
        bert = {"norm": "layer", "norm_position": "after", "norm_eps": 1e-12}
        return _from_layers((bert if "norm" not in arrays else {}) | dict(arrays), _OWN)
    return _from_stacks(arrays)


def _from_stacks(arrays: Arrays) -> Arguments:
    """Return the arguments from arrays whose first axis is that of layers."""
    return {
        "states": arrays["states"],
        "after_attention": arrays.get("after_attention"),
        "attention": arrays.get("attention"),
        "norm": _norm(arrays, _whole(arrays, "norm_gain"), _whole(arrays, "norm_shift")),
        "mask": _mask(arrays),
        "tokens": _in_memory(arrays, "tokens"),
    }


def _from_layers(arrays: Arrays, names: Mapping[str, str]) -> Arguments:
    """Return the arguments from matrices (out, in) of each layer, heads one below the other."""
    attention, count = arrays.get("attention"), _number(arrays, "n_heads")
    if attention is not None:
        count = attention.shape[-3]
    if count is None:
        raise ValueError(
            f"arrays must have attention or n_heads where they have matrices, got {sorted(arrays)}"
        )
    heads, (scale, rotary) = int(count), _conventions(arrays)

    def make(layer: int) -> LayerMatrices | None:
        matrices = {part: _whole(arrays, name.format(layer)) for part, name in names.items()}
        query, key = matrices.pop("query"), matrices.pop("key")
        if query is None or key is None:
            return None
        width = len(query) // heads
        if not width or len(query) % heads or len(key) % width:
            raise ValueError(
                f"query and key of layer {layer} must have rows of {heads} heads, got shapes "
                f"{query.shape} and {key.shape}"
            )

        def by_head(rows: Array) -> Array:
            return rows.reshape(-1, width, *rows.shape[1:])

        for part, array in matrices.items():
            if array is not None and part in ("value", "query_bias", "key_bias", "value_bias"):
                matrices[part] = by_head(array)
        if (output := matrices["output"]) is not None:
            matrices["output"] = output.reshape(-1, heads, width).swapaxes(0, 1)
        return LayerMatrices(by_head(query), by_head(key), scale=scale, rotary=rotary, **matrices)

    n_layers = np.shape(arrays["states"])[0] - 1
    return _from_stacks(arrays) | {"matrices": LayerwiseMatrices(n_layers, make)}


def _from_lens(arrays: Arrays) -> Arguments:
    """The arguments from a cache of TransformerLens, with or without the weights of its model."""
    numbers = [re.match(r"blocks\.(\d+)\.", str(name)) for name in arrays]
    n_layers = 1 + max(int(match[1]) for match in numbers if match)
    blocks = [f"blocks.{layer}." for layer in range(n_layers)]
    wanted = [f"{block}hook_resid_pre" for block in blocks] + [f"{blocks[-1]}hook_resid_post"]
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise ValueError(f"arrays must have {missing[0]}, got {shown(list(arrays))}")

    def stack(name: str) -> Stack | None:
        layers = [arrays[block + name] for block in blocks if arrays.get(block + name) is not None]
        return Stack(layers) if len(layers) == n_layers else None

    def make(layer: int) -> LayerMatrices | None:
        matrices = {
            part: next((_whole(arrays, blocks[layer] + n) for n in names if _has(layer, n)), None)
            for part, names in _LENS.items()
        }
        query, key = matrices.pop("query"), matrices.pop("key")
        if query is None or key is None:
            return None
        for part in ("value", "output"):
            if (array := matrices[part]) is not None:
                matrices[part] = array.swapaxes(1, 2)
        query, key = query.swapaxes(1, 2), key.swapaxes(1, 2)
        return LayerMatrices(query, key, scale=scale, rotary=rotary, **matrices)

    def _has(layer: int, name: str) -> bool:
        return blocks[layer] + name in arrays

    (scale, rotary), words = _conventions(arrays), {"mask": "causal"} | dict(arrays)
    if _has(0, "ln1.w"):
        words = {"norm": "layer" if _has(0, "ln1.b") else "rms"} | words
    return {
        "states": Stack([arrays[name] for name in wanted]),
        "after_attention": stack("hook_resid_mid"),
        "attention": stack("attn.hook_pattern"),
        "matrices": LayerwiseMatrices(n_layers, make),
        "norm": _norm(words, _whole(arrays, "ln_final.w"), _whole(arrays, "ln_final.b")),
        "mask": _mask(words),
        "tokens": _in_memory(arrays, "tokens"),
    }


def _norm(arrays: Arrays, gain: Array | None, shift: Array | None) -> Norm | None:
    kind = _word(arrays, "norm", KINDS)
    if kind is None:
        return None
    position = _word(arrays, "norm_position", POSITIONS) or "before"
    eps = _number(arrays, "norm_eps")
    return Norm(kind, position, 1e-5 if eps is None else eps, gain, shift)


def _conventions(arrays: Arrays) -> tuple[float, Rotary | None]:
    """Return how scores are made: their scale, and the rotary angles if there are any."""
    base, dim = _number(arrays, "rotary_base"), _number(arrays, "rotary_dim")
    scale = _number(arrays, "scale") or 0.0
    if base is None:
        return scale, None
    pairing = _word(arrays, "rotary_pairing", PAIRINGS) or "halves"
    return scale, Rotary(base, pairing, None if dim is None else int(dim))


def _mask(arrays: Arrays) -> ArrayLike | None:
    """Return the mask: a word, or an array of True and False."""
    mask = _in_memory(arrays, "mask")
    if mask is not None and np.shape(mask):
        return mask
    word = _word(arrays, "mask")
    return None if word == "none" else word


def _in_memory(arrays: Arrays, name: str) -> ArrayLike | None:
    values = arrays.get(name)
    return values[()] if isinstance(values, Stored) else values


def _word(arrays: Arrays, name: str, allowed: Sequence[str] = ()) -> str | None:
    """A word, one of those that are allowed where there are any."""
    if (words := _in_memory(arrays, name)) is None:
        return None
    word = str(unmasked(name, words)[()])
    return one_of(name, word, allowed) if allowed else word


def _number(arrays: Arrays, name: str) -> float | None:
    """Return a number, which a safetensors file holds as text."""
    value = _in_memory(arrays, name)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"{name} must be a number, got {shown(value)}") from None
    return None if value is None else number(name, value)


def _whole(arrays: Arrays, name: str) -> Array | None:
    """Return an array as float64."""
    values = _in_memory(arrays, name)
    return None if values is None else real_array(name, values, None)
