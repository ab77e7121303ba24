"""Names of arrays: the package's own, Llama's, those of TransformerLens."""

import re

import numpy as np
import pytest

import meanfield as mf
from meanfield.trained import Norm, Rotary
from tests.real_layers import excerpt
from tests.trained.test_states import CAUSAL, D, H, L, N, model

WIDTH = D // H
ROTARY = Rotary(100.0, "halves", dim=2)
NORM = Norm("layer", eps=1e-3, gain=np.arange(1.0, D + 1), shift=np.ones(D))


def own_names(arguments):
    """As the how-to writes them from transformers: matrices (out, in)."""
    arrays = {k: arguments[k] for k in ("states", "after_attention", "attention")}
    arrays |= {"norm": "layer", "norm_eps": 1e-3, "norm_gain": NORM.gain, "norm_shift": NORM.shift}
    arrays |= {"mask": "causal", "rotary_base": 100.0, "rotary_dim": 2, "rotary_pairing": "halves"}
    arrays |= {"tokens": np.array(list("abcde"))}
    for l, layer in enumerate(arguments["matrices"]):
        for name in ("query", "key", "value"):
            arrays[f"{name}_{l}"] = getattr(layer, name).reshape(-1, D)
            arrays[f"{name}_bias_{l}"] = getattr(layer, f"{name}_bias").ravel()
        arrays[f"output_{l}"] = np.hstack(list(layer.output))
        arrays[f"output_bias_{l}"] = layer.output_bias
        arrays |= {f"gain_{l}": layer.gain, f"shift_{l}": layer.shift}
    return arrays


def names_of_transformer_lens(arguments):
    """With an axis of one prompt, and matrices (H, d, k) and (H, k, d)."""
    arrays = {"norm_eps": 1e-3, "rotary_base": 100.0, "rotary_dim": 2}
    for l, layer in enumerate(arguments["matrices"]):
        block = f"blocks.{l}."
        arrays[f"{block}hook_resid_pre"] = arguments["states"][l][None]
        arrays[f"{block}hook_resid_mid"] = arguments["after_attention"][l][None]
        arrays[f"{block}hook_resid_post"] = arguments["states"][l + 1][None]
        arrays[f"{block}attn.hook_pattern"] = arguments["attention"][l][None]
        arrays[f"{block}hook_mlp_out"] = np.full((1, N, D), np.nan)
        for name, letter in {"query": "Q", "key": "_K", "value": "_V", "output": "O"}.items():
            end = letter.strip("_")
            start = letter.removesuffix(end)
            arrays[f"{block}attn.{start}W_{end}"] = getattr(layer, name).swapaxes(1, 2)
            arrays[f"{block}attn.{start}b_{end}"] = getattr(layer, f"{name}_bias")
        arrays |= {f"{block}ln1.w": layer.gain, f"{block}ln1.b": layer.shift}
    return arrays | {"ln_final.w": NORM.gain, "ln_final.b": NORM.shift}


FAMILIES = {"own": own_names, "TransformerLens": names_of_transformer_lens}


@pytest.mark.parametrize("from_file", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_one_model_under_each_family_of_names(family, from_file, tmp_path):
    arguments = model(NORM, groups=1, rotary=ROTARY)
    arrays = FAMILIES[family](arguments)
    if from_file:
        np.savez(tmp_path / "a.npz", **arrays)
        states = mf.LayerStates.from_file(tmp_path / "a.npz")
    else:
        states = mf.LayerStates.from_mapping(arrays)
    assert (states.n_layers, states.n_heads, states.n_tokens) == (L, H, N)
    assert states.norm == NORM
    assert np.array_equal(states.allowed, CAUSAL)
    assert states.tokens == (tuple("abcde") if family == "own" else None)
    for l, layer in enumerate(arguments["matrices"]):
        assert states.matrices_at(l) == layer
        assert np.array_equal(states.state(l), arguments["states"][l])
        assert np.array_equal(states.after_attention_at(l), arguments["after_attention"][l])
        assert np.array_equal(states.attention_at(l), arguments["attention"][l])
    assert np.array_equal(states.state(L), arguments["states"][L])
    assert float(states.check().attention_error.max()) < 1e-12


def test_trained_rows_that_are_turned_into_halves_agree_as_halves():
    """Llama has halves in transformers and adjacent pairs in GGUF: rows in another order."""
    with np.load(excerpt("smollm2")) as file:
        arrays = dict(file)
    order = np.concatenate([np.arange(0, 64, 2), np.arange(1, 64, 2)])
    turned = {"norm": "rms", "norm_eps": arrays["rms_eps"], "norm_gain": arrays["final_norm"]}
    turned |= {"mask": "causal", "rotary_base": arrays["rope_base"], "rotary_pairing": "halves"}
    for name, other in {"q": "query", "k": "key"}.items():
        rows = arrays[f"attn_{name}_0"].reshape(-1, 64, 576)
        turned[f"{other}_0"] = rows[:, order].reshape(-1, 576)
    turned |= {"value_0": arrays["attn_v_0"], "output_0": arrays["attn_output_0"]}
    turned |= {"gain_0": arrays["attn_norm_0"]}
    turned |= {name: arrays[name] for name in ("states", "after_attention", "attention")}
    ds = mf.LayerStates.from_mapping(turned).check()
    assert float(ds.attention_error.max()) < 1e-6
    assert len(ds.finding) == 2
    wrong = mf.LayerStates.from_mapping(turned | {"rotary_pairing": "adjacent"}).check()
    assert float(wrong.attention_error.max()) > 0.1
    assert "with rotary pairs 'halves' of base 100000 it would be" in str(wrong.finding.values[-1])


def test_norms_of_the_families():
    states = np.ones((2, 3, 4))
    eye = np.eye(4)
    bert = {"states": states, "query_0": eye, "key_0": eye, "n_heads": 2}
    assert mf.LayerStates.from_mapping(bert).norm == Norm("layer", "after", 1e-12)
    llama = {"states": states, "attn_q_0": eye, "attn_k_0": eye[:2], "n_heads": 2, "rms_eps": 1e-6}
    read = mf.LayerStates.from_mapping(llama)
    assert read.norm == Norm("rms", "before", 1e-6)
    assert read.matrices_at(0).rotary == Rotary(10000.0, "adjacent")
    assert (read.matrices_at(0).query.shape, len(read.matrices_at(0).key)) == ((2, 2, 4), 1)
    assert mf.LayerStates.from_mapping({"states": states}).norm is None
    lens = {"blocks.0.hook_resid_pre": states[0], "blocks.0.hook_resid_post": states[1]}
    for more, kind in ({}, None), ({"ln1.w": eye[0]}, "rms"), ({"ln1.w": 1, "ln1.b": 1}, "layer"):
        norm = mf.LayerStates.from_mapping(
            lens | {f"blocks.0.{k}": a for k, a in more.items()}
        ).norm
        assert (norm and norm.kind) == kind
    assert mf.LayerStates.from_mapping(lens | {"mask": "none"}).allowed.all()
    assert not mf.LayerStates.from_mapping(lens).allowed.all()


LENS = names_of_transformer_lens(model())
EYES = {"states": np.ones((2, 3, 4)), "query_0": np.eye(4), "key_0": np.eye(4)}
WRONG = {
    "arrays must be a mapping of arrays by name, got [1]": [1],
    "arrays must have states, or blocks.0.hook_resid_pre … of TransformerLens, got ['hidden']": {
        "hidden": np.ones((2, 3, 4))
    },
    "arrays must have blocks.1.hook_resid_pre, got": {
        name: array for name, array in LENS.items() if name != "blocks.1.hook_resid_pre"
    },
    "layers must have one shape, got (1, 5, 8) in layer 0 and (1, 4, 8) in layer 1": LENS
    | {"blocks.1.hook_resid_pre": np.ones((1, 4, 8))},
    "arrays must have attention or n_heads where they have matrices": EYES,
    "query and key of layer 0 must have rows of 3 heads, got shapes (4, 4) and (4, 4)": EYES
    | {"n_heads": 3},
    "norm must be one of ('layer', 'rms', 'none'), got 'rns'; did you mean": EYES
    | {"n_heads": 2, "norm": "rns"},
    "norm_position must be one of ('before', 'after'), got 'behind'": EYES
    | {"n_heads": 2, "norm": "rms", "norm_position": "behind"},
    "norm_eps must be a number, got 'small'": EYES
    | {"norm": "rms", "n_heads": 2, "norm_eps": "small"},
    "rotary_base must be a finite number, got nan": EYES | {"n_heads": 2, "rotary_base": np.nan},
    "rotary_pairing must be one of ('adjacent', 'halves'), got 'half'": EYES
    | {"n_heads": 2, "rotary_base": 1e4, "rotary_pairing": "half"},
    "output must have shape (2, 4, 2), got (2, 5, 2)": EYES
    | {"n_heads": 2, "output_0": np.ones((5, 4))},
    "query_0 must be finite, got nan at index (0, 0)": EYES
    | {"n_heads": 2, "query_0": np.full((4, 4), np.nan)},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_missing_or_wrong_is_refused(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        mf.LayerStates.from_mapping(WRONG[message]).matrices_at(0)
