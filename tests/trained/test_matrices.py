"""Norms, rotary angles and attention of one layer, each against its formula, entry by entry."""

import re

import numpy as np
import pytest

from meanfield.trained import LayerMatrices, Norm, Rotary
from meanfield.trained.matrices import softmax

RNG = np.random.default_rng(0)
# sums of some tens of products of numbers of size 10
ROUNDING = 1e-12


def rotated(vector, position, rotary):
    """A vector of one token, pair by pair."""
    dim, out = rotary.dim or len(vector), vector.copy()
    for i in range(dim // 2):
        angle = position * rotary.base ** (-2 * i / dim)
        a, b = (2 * i, 2 * i + 1) if rotary.pairing == "adjacent" else (i, i + dim // 2)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        out[[a, b]] = turn @ vector[[a, b]]
    return out


@pytest.mark.parametrize("dim", [None, 4, 2])
@pytest.mark.parametrize("pairing", ["adjacent", "halves"])
def test_rotary_angles_turn_pairs(pairing, dim):
    rotary, vectors = Rotary(50.0, pairing, dim), RNG.normal(size=(2, 5, 8))
    turned = rotary.turn(vectors)
    for head, position in np.ndindex(2, 5):
        wanted = rotated(vectors[head, position], position, rotary)
        assert np.abs(turned[head, position] - wanted).max() < ROUNDING


def test_only_differences_of_positions_count():
    rotary = Rotary(50.0, "halves", 4)
    same = np.tile(RNG.normal(size=(2, 1, 6)), (1, 7, 1))
    query, key = (rotary.turn(rows[None])[0] for rows in same)
    scores = query @ key.T
    assert np.abs(scores[1:, 1:] - scores[:-1, :-1]).max() < ROUNDING
    assert np.abs(scores - scores.T).max() > 0.1


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_scores_and_output_entry_by_entry(groups):
    heads, width, d, n = 4, 2, 6, 5
    shapes = {"query": (heads, width, d), "key": (groups, width, d), "value": (groups, width, d)}
    shapes |= {"output": (heads, d, width), "output_bias": (d,), "query_bias": (heads, width)}
    shapes |= {"key_bias": (groups, width), "value_bias": (groups, width)}
    parts = {name: RNG.normal(size=shape) for name, shape in shapes.items()}
    m = LayerMatrices(**parts, scale=0.3, rotary=Rotary(9.0))
    x = RNG.normal(size=(n, d))
    scores = m.scores(x)
    attention = softmax(scores, np.tri(n, dtype=bool))
    output = np.tile(m.output_bias, (n, 1))
    for h in range(heads):
        g = h // (heads // groups)
        for i, j in np.ndindex(n, n):
            query = rotated(m.query[h] @ x[i] + m.query_bias[h], i, m.rotary)
            key = rotated(m.key[g] @ x[j] + m.key_bias[g], j, m.rotary)
            assert abs(scores[h, i, j] - 0.3 * (query @ key)) < ROUNDING
            value = m.value[g] @ x[j] + m.value_bias[g]
            output[i] += attention[h, i, j] * (m.output[h] @ value)
    assert np.abs(m.attend(attention, x) - output).max() < ROUNDING


def test_softmax_of_scores_that_would_overflow():
    scores = np.array([[[5000.0, 5001.0, 9000.0], [-5000.0, -5001.0, 0.0], [0.0, 0.0, 0.0]]])
    attention = softmax(scores, np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1]], dtype=bool))
    share = 1.0 / (1.0 + np.e)
    wanted = [[share, 1.0 - share, 0.0], [1.0 - share, share, 0.0], [0.5, 0.0, 0.5]]
    assert np.abs(attention[0] - wanted).max() < 1e-15


def test_norms_without_gains():
    rows = 3.0 * RNG.normal(size=(4, 7)) + 2.0
    for kind, centred in (("layer", rows - rows.mean(axis=1, keepdims=True)), ("rms", rows)):
        wanted = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 0.5)
        assert np.abs(Norm(kind, eps=0.5).normalise(rows) - wanted).max() < ROUNDING
    assert np.array_equal(Norm("none").normalise(rows), rows)


EYE = np.ones((2, 2, 4))
WRONG = {
    "key must have shape (G, 2, 4) with G a divisor of 2, got (3, 2, 4)": lambda: LayerMatrices(
        EYE, np.ones((3, 2, 4))
    ),
    "key must have shape (G, 2, 4)": lambda: LayerMatrices(EYE, np.ones((2, 3, 4))),
    "value must have shape (1, 2, 4), got (2, 2, 4)": lambda: LayerMatrices(EYE, EYE[:1], EYE),
    "output_bias must have shape (4,), got (3,)": lambda: LayerMatrices(
        EYE, EYE, output_bias=np.ones(3)
    ),
    "query must be finite, got nan": lambda: LayerMatrices(np.full((1, 1, 1), np.nan), EYE),
    "scale must be a finite number >= 0, got -1": lambda: LayerMatrices(EYE, EYE, scale=-1),
    "rotary must turn at most 2 coordinates, got Rotary(": lambda: LayerMatrices(
        EYE, EYE, rotary=Rotary(dim=4)
    ),
    "rotary must be a Rotary, got 3": lambda: LayerMatrices(EYE, EYE, rotary=3),
    "rotary must turn an even number of coordinates, got 3": lambda: LayerMatrices(
        np.ones((1, 3, 4)), np.ones((1, 3, 4)), rotary=Rotary()
    ),
    "base must be a finite number > 0, got 0": lambda: Rotary(0),
    "pairing must be one of ('adjacent', 'halves'), got 'half'": lambda: Rotary(pairing="half"),
    "dim must be even, got 3": lambda: Rotary(dim=3),
    "kind must be one of ('layer', 'rms', 'none'), got 'batch'": lambda: Norm("batch"),
    "position must be one of ('before', 'after'), got 'pre'": lambda: Norm(position="pre"),
    "eps must be a finite number >= 0, got nan": lambda: Norm(eps=np.nan),
    "gain must be finite, got inf at index (1,)": lambda: Norm(gain=[1.0, np.inf]),
    "matrices must have value and output, got LayerMatrices": lambda: LayerMatrices(
        EYE, EYE
    ).attend(np.ones((2, 1, 1)), np.ones((1, 4))),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_does_not_fit_is_refused(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        WRONG[message]()


def test_layers_of_the_same_matrices_are_equal():
    assert LayerMatrices(EYE, EYE) == LayerMatrices(EYE.copy(), EYE, scale=2**-0.5)
    assert LayerMatrices(EYE, EYE) != LayerMatrices(EYE, 2.0 * EYE)
    assert hash(Norm(gain=[1.0])) == hash(Norm(gain=np.ones(1)))
    with pytest.raises(ValueError, match="read-only"):
        LayerMatrices(EYE, EYE).query[0] = 0.0
