"""Layers of a trained model on the command line: measured, kept in a file, and told in words."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from meanfield._checks import counted
from meanfield.cli.runs import check_variable
from meanfield.evolution import netcdf
from meanfield.evolution.solution import other_versions, versions, versions_of
from meanfield.trained import LayerStates, claims, measure_layers

LAYERS, LAYERS_VERSION = "meanfield-layers", 1
# figures and summaries need these variables with these dimensions; some exist only with attention
_NEEDED = {
    "state subset": "mean_cosine upper_cosine effective_rank mean_cosine_drift "
    "upper_cosine_drift effective_rank_drift",
    "state subset beta": "energy_share near_pairs n_modes n_clusters energy_share_drift "
    "near_pairs_drift",
    "subset beta": "energy_share_lower",
    "state subset repeat beta": "energy_share_shuffled near_pairs_shuffled",
    "state subset repeat": "upper_cosine_shuffled",
    "state subset cosine": "inner_products",
    "layer subset half beta": "energy_change energy_residual",
    "layer subset": "own_distance optimal_distance",
    "state token": "norm_ratio",
    "token": "is_sink is_measured",
    "layer head": "attention_error",
    "layer": "attention_rounding residual_error residual_rounding row_error",
    "state": "stage",
    "finding": "finding",
}
_OF_HEADS = {
    "layer subset head": "effective_beta effective_beta_error r2",
    "layer subset head_null head": "r2_null",
    "layer token": "attention_share",
}
_WORDS = "stage", "finding"


def digest_of(file: Path) -> str:
    """SHA-256 of what a file holds.

    Raises
    ------
    ValueError
        If it can't be read.
    """
    with netcdf.refusals(file):
        if file.exists() and not file.is_file():
            raise ValueError(f"it must be a regular file, got {file}")
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()


def checked_states(file: Path, prompt: int | None) -> tuple[LayerStates, xr.Dataset]:
    """The states in a file, and how they agree with its matrices.

    Parameters
    ----------
    file : Path
    prompt : int, optional
        Which of its prompts, where it has more than one.

    Raises
    ------
    ValueError
        If the file is none of layers, or has no such prompt.
    """
    states = LayerStates.from_file(file)
    last_prompt = states.n_prompts - 1
    if (0 if prompt is None and not last_prompt else prompt) not in range(last_prompt + 1):
        must = f"--prompt must be 0 to {last_prompt}, one of the prompts of {file}"
        raise ValueError(f"{must}, got {prompt}")
    states = states.prompt(prompt or 0)
    with netcdf.refusals(file):
        return states, states.check()


def check_states(file: Path, prompt: int | None) -> None:
    """Check all states in a file, which the instruments else do layer by layer.

    Raises
    ------
    ValueError
        If the file is none of layers, has no such prompt, or a state is not finite.
    """
    states, _ = checked_states(file, prompt)
    for layer in range(states.n_layers + 1):
        states.state(layer)


def measured(file: Path, prompt: int | None, **arguments: Any) -> xr.Dataset:
    """The measures of the layers in a file, with the checks of the reader and what they are from.

    Parameters
    ----------
    file, prompt
        See `checked_states`.
    **arguments
        Keywords of `measure_layers`.

    Raises
    ------
    ValueError
        If the file is none of layers, or an argument is out of range.
    """
    # the checks are cheaper than the instruments, and read all layers
    states, checks = checked_states(file, prompt)
    ds = measure_layers(states, **arguments).merge(checks)
    attributes = {"format": LAYERS, "format_version": LAYERS_VERSION, "file": file.name}
    return ds.assign_attrs(attributes | dict(_conventions(states)) | versions())


def _conventions(states: LayerStates) -> Iterator[tuple[str, str]]:
    """Name the conventions of the model: its norm, its mask, how its scores are made."""
    yield "norm", "none is known" if states.norm is None else repr(states.norm)
    allowed = states.allowed
    is_causal = np.array_equal(allowed, np.tri(len(allowed), dtype=bool))
    yield "mask", "causal" if is_causal else "none" if allowed.all() else "of its own"
    layers = map(states.matrices_at, range(states.n_layers))
    first = next((matrices for matrices in layers if matrices is not None), None)
    if first is not None:
        heads, groups = len(first.query), len(first.key)
        keys = "keys of its own" if heads == groups else f"one of {groups} groups of keys"
        rotary = "no rotary angles" if first.rotary is None else repr(first.rotary)
        yield "scores", f"scale {first.scale:.6g}, each head with {keys}, {rotary}"


def load_layers(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read the measures of layers from their file, in which nothing is executed.

    Raises
    ------
    ValueError
        If the file is missing, has no such measures, is of another version, cut short or damaged.
    """
    file = netcdf.file_path(path)
    with netcdf.refusals(file), netcdf.opened(file, LAYERS, LAYERS_VERSION) as stored:
        ds = stored.dataset()
        needed = _NEEDED | (_OF_HEADS if "effective_beta" in ds else {})
        for axes, names in needed.items():
            for name in names.split():
                check_variable(ds, name, axes.split(), has_words=name in _WORDS)
        # a fault in the file is reported here, not in the middle of a page
        claims(ds)
        return ds


def lines_of(ds: xr.Dataset) -> list[str]:
    """A line for each claim, for the sinks, and for each finding of the reader."""
    verdicts = [f"{c.name}, {c.subset}: {c.verdict}. {c.sentence}" for c in claims(ds)]
    return [*verdicts, f"sinks: {sinks_in_words(ds)}", *map(str, ds["finding"].values)]


def sinks_in_words(ds: xr.Dataset) -> str:
    """The tokens that are sinks, by their numbers and words.

    Examples
    --------
    >>> ds = xr.Dataset(
    ...     {"is_sink": ("token", [True, False])}, {"token": [0, 1], "word": ("token", ["a", "b"])}
    ... )
    >>> sinks_in_words(ds)
    "token 0 'a'"
    """
    sinks = ds["token"].values[ds["is_sink"].values.astype(bool)]
    words = dict(zip(ds["token"].values, ds["word"].values, strict=True)) if "word" in ds else {}
    names = [f"token {i}" + (f" {str(words[i])!r}" if words else "") for i in sinks]
    return ", ".join(names) or "none"


def title_of(ds: xr.Dataset) -> str:
    """How large the model is."""
    heads = f" of {counted(ds.sizes['head'], 'head')}" if "effective_beta" in ds else ""
    count = f"{counted(ds.attrs['n_tokens'], 'token')} in d = {ds.attrs['dim']}"
    if ds.attrs["n_measured"] < ds.attrs["n_tokens"]:
        count += f", of which {ds.attrs['n_measured']} are measured"
    return f"{counted(ds.sizes['layer'], 'layer')}{heads}, {count}"


def summary_of_layers(ds: xr.Dataset) -> dict[str, str]:
    """The measures of a model in a dozen entries."""
    facts = {"model": title_of(ds), "sinks": sinks_in_words(ds)}
    facts |= {f"{c.name}, {c.subset}": f"{c.verdict}. {c.sentence}" for c in claims(ds)}
    facts |= {f"check {i}": str(text) for i, text in enumerate(ds["finding"].values)}
    made_by = ", ".join(other_versions(versions_of(ds.attrs)))
    facts["made by"] = made_by or "this code, these libraries"
    return facts | {str(name): f"{value}" for name, value in ds.attrs.items()}
