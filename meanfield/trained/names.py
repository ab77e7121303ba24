"""What names of arrays stand for: the package's own, Llama's, those of TransformerLens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from meanfield._checks import number, one_of, real_array, shown, unmasked
from meanfield.trained.files import Stack, Stored
from meanfield.trained.matrices import KINDS, PAIRINGS, POSITIONS, LayerMatrices, Norm, Rotary
from meanfield.typing import Array, NDArray

Arrays = Mapping[str, Any]

# arrays of layer l in a file of the package's own names, and of Llama's in the format GGUF
_OWN = {name: f"{name}_{{}}" for name in ("query", "key", "value", "output", "gain", "shift")}
_OWN |= {f"{name}_bias": f"{name}_bias_{{}}" for name in ("query", "key", "value", "output")}
_LLAMA = {"query": "attn_q_{}", "key": "attn_k_{}", "value": "attn_v_{}"}
_LLAMA |= {"output": "attn_output_{}", "gain": "attn_norm_{}"}
# arrays of a block in TransformerLens; where groups share keys they have an underscore
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


class LayerwiseMatrices(Sequence[Any]):
    """The matrices of each layer, made when they are asked for; None where there are none."""

    def __init__(self, n_layers: int, make: Callable[[int], LayerMatrices | None]) -> None:
        self._n_layers, self._make = n_layers, make

    def __len__(self) -> int:
        return self._n_layers

    def __getitem__(self, layer: Any) -> Any:
        if not 0 <= layer < self._n_layers:
            raise IndexError(f"layer must be in [0, {self._n_layers}), got {layer}")
        return self._make(layer)


def arguments_from(arrays: Arrays) -> dict[str, Any]:
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


def _from_stacks(arrays: Arrays) -> dict[str, Any]:
    """The arguments in arrays whose first axis is that of layers."""
    gain, shift = (_whole(arrays, name) for name in ("norm_gain", "norm_shift"))
    names = "states", "after_attention", "attention"
    return {name: arrays.get(name) for name in names} | {
        "norm": _norm(arrays, gain, shift),
        "mask": _mask(arrays),
        "tokens": _words(arrays, "tokens"),
    }


def _from_layers(arrays: Arrays, names: Mapping[str, str]) -> dict[str, Any]:
    """The same with matrices (out, in) of each layer, heads one below the other."""
    attention, count = arrays.get("attention"), _number(arrays, "n_heads")
    if attention is not None:
        count = attention.shape[-3]
    if count is None:
        raise ValueError(
            f"arrays must have attention or n_heads where they have matrices, got {sorted(arrays)}"
        )
    heads, conventions = int(count), _conventions(arrays)

    def make(layer: int) -> LayerMatrices | None:
        parts: dict[str, Any] = {
            part: _whole(arrays, name.format(layer)) for part, name in names.items()
        }
        query, key = parts["query"], parts["key"]
        if query is None or key is None:
            return None
        width = len(query) // heads
        if not width or len(query) % heads or len(key) % width:
            raise ValueError(
                f"query and key of layer {layer} must have rows of {heads} heads, got shapes "
                f"{query.shape} and {key.shape}"
            )
        for part, array in parts.items():
            if array is not None and part.partition("_")[0] in ("query", "key", "value"):
                parts[part] = array.reshape(-1, width, *array.shape[1:])
        if parts["output"] is not None:
            parts["output"] = parts["output"].reshape(-1, heads, width).swapaxes(0, 1)
        return LayerMatrices(**parts, **conventions)

    n_layers = np.shape(arrays["states"])[0] - 1
    return _from_stacks(arrays) | {"matrices": LayerwiseMatrices(n_layers, make)}


def _from_lens(arrays: Arrays) -> dict[str, Any]:
    """The arguments in a cache of TransformerLens, with or without the weights of its model."""
    numbers = [re.match(r"blocks\.(\d+)\.", str(name)) for name in arrays]
    n_layers = 1 + max(int(number[1]) for number in numbers if number)
    blocks = [f"blocks.{layer}." for layer in range(n_layers)]
    wanted = [f"{block}hook_resid_pre" for block in blocks] + [f"{blocks[-1]}hook_resid_post"]
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise ValueError(f"arrays must have {missing[0]}, got {shown(list(arrays))}")

    def stack(name: str) -> Stack | None:
        layers = [arrays.get(block + name) for block in blocks]
        return None if any(layer is None for layer in layers) else Stack(layers)

    def make(layer: int) -> LayerMatrices | None:
        parts: dict[str, Any] = {
            part: next((_whole(arrays, blocks[layer] + n) for n in names if _has(layer, n)), None)
            for part, names in _LENS.items()
        }
        if parts["query"] is None or parts["key"] is None:
            return None
        for part in ("query", "key", "value", "output"):
            parts[part] = None if parts[part] is None else np.swapaxes(parts[part], 1, 2)
        return LayerMatrices(**parts, **conventions)

    def _has(layer: int, name: str) -> bool:
        return blocks[layer] + name in arrays

    conventions, words = _conventions(arrays), {"mask": "causal"} | dict(arrays)
    if _has(0, "ln1.w"):
        words = {"norm": "layer" if _has(0, "ln1.b") else "rms"} | words
    return {
        "states": Stack([arrays[name] for name in wanted]),
        "after_attention": stack("hook_resid_mid"),
        "attention": stack("attn.hook_pattern"),
        "matrices": LayerwiseMatrices(n_layers, make),
        "norm": _norm(words, _whole(arrays, "ln_final.w"), _whole(arrays, "ln_final.b")),
        "mask": _mask(words),
        "tokens": _words(arrays, "tokens"),
    }


def _norm(arrays: Arrays, gain: Array | None, shift: Array | None) -> Norm | None:
    kind = _word(arrays, "norm", KINDS)
    if kind is None:
        return None
    eps = _number(arrays, "norm_eps")
    return Norm(
        kind,
        _word(arrays, "norm_position", POSITIONS) or "before",
        1e-5 if eps is None else eps,
        gain,
        shift,
    )


def _conventions(arrays: Arrays) -> dict[str, Any]:
    """How scores are made: their scale, and the rotary angles if there are any."""
    base, dim = _number(arrays, "rotary_base"), _number(arrays, "rotary_dim")
    scale = _number(arrays, "scale") or 0.0
    if base is None:
        return {"scale": scale, "rotary": None}
    pairing = _word(arrays, "rotary_pairing", PAIRINGS) or "halves"
    rotary = Rotary(base, pairing, None if dim is None else int(dim))
    return {"scale": scale, "rotary": rotary}


def _mask(arrays: Arrays) -> Any:
    """A word or an array of True and False."""
    mask = arrays.get("mask")
    if mask is None or np.shape(mask):
        return mask[()] if isinstance(mask, Stored) else mask
    word = _word(arrays, "mask")
    return None if word == "none" else word


def _words(arrays: Arrays, name: str) -> NDArray[Any] | None:
    words = arrays.get(name)
    return words[()] if isinstance(words, Stored) else words


def _word(arrays: Arrays, name: str, allowed: Sequence[str] = ()) -> str | None:
    """A word, one of those that are allowed where there are any."""
    if (words := _words(arrays, name)) is None:
        return None
    word = str(unmasked(name, words)[()])
    return one_of(name, word, allowed) if allowed else word


def _number(arrays: Arrays, name: str) -> float | None:
    """A number, which the words of a safetensors file write out."""
    value = _words(arrays, name)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"{name} must be a number, got {shown(value)}") from None
    return None if value is None else number(name, value)


def _whole(arrays: Arrays, name: str) -> Array | None:
    """An array as float64."""
    values = _words(arrays, name)
    return None if values is None else real_array(name, values, None)
