"""Attention and residual stream against matrices, and which convention would agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from meanfield.trained.matrices import KINDS, PAIRINGS, LayerMatrices, Norm, Rotary, softmax
from meanfield.typing import Array, NDArray

# a number that is stored as float32 is rounded by this share of it
_UNIT = float(np.finfo(np.float32).eps) / 2.0
# so many rounding errors of a sum of products |q||k| come together, those of q and k included
_SUM = 8.0
# bfloat16 rounds so many times more than float32
_HALF = 2.0**16
# another convention explains a difference that it makes so many times smaller
_FAR = 10.0
# so many tokens are enough to tell conventions apart
_TOKENS = 64


class Difference(NamedTuple):
    """The largest difference of two ways to one array, and what rounding to float32 makes of it.

    Attributes
    ----------
    errors : ndarray
        For each head, or one number.
    rounding : float
    remedy : str
        What would agree, or "".
    """

    errors: Array
    rounding: float
    remedy: str

    def __str__(self) -> str:
        """The sentence for a difference that rounding to float32 does not explain."""
        error = float(np.max(self.errors))
        head = f" in head {int(np.argmax(self.errors))}" if self.errors.ndim else ""
        is_half = error <= self.rounding * _HALF / _SUM
        remedy = self.remedy or (
            "no other convention that is tried agrees"
            + (", rounding to bfloat16 may have made it" if is_half else "")
        )
        return (
            f"it differs{head} by {error:.2g} from that of states and matrices, rounding of "
            f"float32 explains {self.rounding:.2g}; {remedy}"
        )

    @property
    def is_explained(self) -> bool:
        """Whether rounding to float32 may have made all of it."""
        return bool(np.max(self.errors) <= self.rounding)


@dataclass(frozen=True)
class Change:
    """Another convention: what it is about, how it is said, and the arguments that it changes."""

    subject: str
    text: str
    of_norm: dict[str, Any] = field(default_factory=dict)
    of_matrices: dict[str, Any] = field(default_factory=dict)


def compare_attention(
    attention: Iterable[Array],
    states: Array,
    matrices: LayerMatrices,
    norm: Norm,
    allowed: NDArray[np.bool_],
) -> Difference:
    """Heads (n, n) of an attention against those of states (n, d) and matrices.

    Scores of float32 numbers are off by some 2⁻²⁴|q||k| times their scale, and attention by half
    of that at most.
    """
    inputs = matrices.inputs(states, norm)
    queries, keys = matrices.queries_and_keys(inputs)
    lengths = [np.sqrt(np.einsum("hnk,hnk->hn", rows, rows).max()) for rows in (queries, keys)]
    rounding = _UNIT * (1.0 + _SUM * matrices.scale * math.prod(lengths))
    errors, corners = [], []
    for head, scores in zip(attention, matrices.head_scores(inputs), strict=True):
        difference = softmax(scores, allowed)
        difference -= head
        errors.append(max(difference.max(), -difference.min()))
        corners.append(head[:_TOKENS, :_TOKENS].copy())
    is_off = max(errors) > rounding
    remedy = _remedy(np.array(corners), states, matrices, norm, allowed) if is_off else ""
    return Difference(np.array(errors), float(rounding), remedy)


def _remedy(
    wanted: Array, states: Array, matrices: LayerMatrices, norm: Norm, allowed: NDArray[np.bool_]
) -> str:
    """Name the one or two changes that agree best, on the first tokens.

    Softmax keeps their ratios.
    """
    seen_mask, rows = allowed[:_TOKENS, :_TOKENS], states[:_TOKENS]
    sums = wanted.sum(axis=-1, keepdims=True)
    is_seen = sums > 0.0
    np.divide(wanted, sums, out=wanted, where=is_seen)

    def error(changes: tuple[Change, ...]) -> float:
        new_norm, new_matrices = norm, matrices
        for change in changes:
            new_norm = replace(new_norm, **change.of_norm)
            new_matrices = replace(new_matrices, **change.of_matrices)
        scores = new_matrices.scores(new_matrices.inputs(rows, new_norm))
        return float(np.abs(np.where(is_seen, softmax(scores, seen_mask) - wanted, 0.0)).max())

    changes, present = list(_changes(norm, matrices)), error(())
    for count in (1, 2):
        sets = [s for s in combinations(changes, count) if len({c.subject for c in s}) == count]
        errors = [error(some) for some in sets]
        best = int(np.argmin(errors))
        if errors[best] < present / _FAR:
            said = " and ".join(change.text for change in sets[best])
            return f"with {said} it would be {errors[best]:.2g}"
    return ""


def _changes(norm: Norm, matrices: LayerMatrices) -> Iterator[Change]:
    """Yield conventions in which files and models differ, without the present ones."""
    heads, width, dim = matrices.query.shape
    groups, rotary = len(matrices.key), matrices.rotary
    if width % 2 == 0:
        for pairing in PAIRINGS:
            other_rotary = replace(rotary or Rotary(), pairing=pairing)
            if other_rotary != rotary:
                text = f"rotary pairs {pairing!r} of base {other_rotary.base:g}"
                yield Change("rotary", text, of_matrices={"rotary": other_rotary})
    if rotary is not None:
        yield Change("rotary", "no rotary angles", of_matrices={"rotary": None})
    for text, scale in (("1/√k", width**-0.5), ("1/√d", dim**-0.5), ("1/k", 1.0 / width), ("1", 1)):
        if scale != matrices.scale:
            yield Change("scale", f"a scale of {text}", of_matrices={"scale": scale})
    present = "none" if norm.position == "after" else norm.kind
    for kind, text in zip(KINDS, ("LayerNorm", "RMSNorm", "no norm"), strict=True):
        if kind != present:
            changes = {"kind": kind, "position": "before"}
            yield Change("norm", f"{text} before attention", of_norm=changes)
    if matrices.gain is not None:
        yield Change("gain", "no gains of the norm", of_matrices={"gain": None, "shift": None})
        yield Change("gain", "gains 1 + gain", of_matrices={"gain": 1.0 + matrices.gain})
    if matrices.query_bias is not None or matrices.key_bias is not None:
        no_biases = {"query_bias": None, "key_bias": None}
        yield Change("bias", "no biases of queries and keys", of_matrices=no_biases)
    if 1 < groups < heads:
        turn = np.arange(heads) % groups
        keys: dict[str, Array | None] = {"key": matrices.key[turn], "value": None}
        if matrices.key_bias is not None:
            keys |= {"key_bias": matrices.key_bias[turn]}
        yield Change("groups", "head h in group h mod G", of_matrices=keys | {"value_bias": None})
    if heads * width == dim and groups == heads:
        transposed = {
            name: getattr(matrices, name).reshape(dim, dim).T.reshape(heads, width, dim)
            for name in ("query", "key")
        }
        yield Change("axes", "matrices of queries and keys as (in, out)", of_matrices=transposed)


def compare_residual(
    before: Array, after: Array, attention: Iterable[Array], matrices: LayerMatrices, norm: Norm
) -> Difference:
    """The states (n, d) after attention against those before it and the output of attention.

    Where the norm is after the half layer and the matrices have no gains for it, they are fitted:
    two numbers for each of the d coordinates, of n tokens.
    """
    output = matrices.attend(attention, matrices.inputs(before, norm))
    total = before + output
    sizes = [float(np.abs(rows).max()) for rows in (before, after, output)]
    rounding = _UNIT * _SUM * max(sizes)
    step = after - before
    factor = float(np.vdot(step, output) / max(np.vdot(output, output), np.finfo(float).tiny))
    kind = "rms" if norm.kind == "none" else norm.kind
    norms = {name: Norm(name, "after", norm.eps) for name in (kind, *KINDS[:2])}
    remedies = {
        "that output added": total - after,
        f"that output times {factor:.4g}": factor * output - step,
    }
    for name, other_norm in norms.items():
        word = {"layer": "LayerNorm", "rms": "RMSNorm"}[name]
        remedies[f"{word} after the sum, its gains fitted,"] = _rest_of_fit(
            other_norm.normalise(total), after
        )
        remedies[f"{word} of that output, its gains fitted,"] = _rest_of_fit(
            other_norm.normalise(output), step
        )
    if norm.position == "before":
        present = total - after
    elif matrices.gain is not None or matrices.shift is not None:
        present = matrices.with_gains(norm.normalise(total)) - after
    else:
        present = _rest_of_fit(norm.normalise(total), after)
    error, remedy = float(np.abs(present).max()), ""
    if error > rounding:
        errors = {text: float(np.abs(rest).max()) for text, rest in remedies.items()}
        best = min(errors, key=lambda text: errors[text])
        if errors[best] < error / _FAR:
            remedy = f"with {best} it would be {errors[best]:.2g}"
    return Difference(np.array(error), rounding, remedy)


def _rest_of_fit(rows: Array, target: Array) -> Array:
    """Return the rest of the target after a gain and a shift for each coordinate."""
    centred, wanted = rows - rows.mean(axis=0), target - target.mean(axis=0)
    squares = np.einsum("ij,ij->j", centred, centred)
    gains = np.einsum("ij,ij->j", centred, wanted) / np.where(squares > 0.0, squares, 1.0)
    return np.asarray(wanted - centred * gains)
