"""Sinks: by attention, by norm, and none where tokens are alike."""

import numpy as np
import pytest

from meanfield.trained.sinks import find_sinks
from meanfield.trained.synthetic import synthetic_layers
from tests.trained.layers import drawn

STATES = drawn(80, 16)


def sinking(to, share, heads, of=4):
    """Attention that is even, but for so many heads that give a share of each row to one token."""
    attention = np.full((of, 80, 80), 1.0 / 80)
    attention[:heads] *= 1.0 - share
    attention[:heads, :, to] += share
    return attention


def test_a_token_that_draws_attention_is_named():
    sinks = find_sinks(STATES, sinking(7, 0.2, 4))
    assert np.flatnonzero(sinks.is_sink).tolist() == [7]
    assert not sinks.by_norm.any()
    # what the 79 others give, of what all of them give to others
    each = 0.8 / 80
    expected = 79 * (0.2 + each) / (79 * (0.2 + 79 * each) + 79 * each)
    assert sinks.attention_share[7] == pytest.approx(expected, rel=1e-13)


def test_sinks_are_named_and_no_list_of_all_tokens():
    assert repr(find_sinks(STATES, sinking(7, 0.2, 4))) == "Sinks(tokens [7] of 80)"
    assert repr(find_sinks(STATES)) == "Sinks(tokens [] of 80)"


def test_a_minority_of_heads_makes_no_sink():
    assert not find_sinks(STATES, sinking(7, 0.9, 1)).is_sink.any()
    assert find_sinks(STATES, sinking(7, 0.9, 3)).is_sink[7]


def test_attention_to_oneself_draws_nobody():
    attention = np.tile(np.eye(80), (2, 1, 1))
    sinks = find_sinks(STATES, attention)
    assert (sinks.attention_share == 0.0).all()
    assert not sinks.is_sink.any()


def test_a_norm_that_stands_out_is_named():
    states = STATES.copy()
    states[[2, 5]] *= [[3.5], [2.5]]
    sinks = find_sinks(states)
    assert sinks.attention_share is None
    assert np.flatnonzero(sinks.by_norm).tolist() == np.flatnonzero(sinks.is_sink).tolist() == [2]
    assert sinks.norm_ratio[2] == pytest.approx(3.5)


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("n", [3, 10, 80])
def test_layers_of_the_paper_have_no_sinks(mask, n):
    """Few tokens share much each, and the first of a causal mask is seen by all."""
    layers = synthetic_layers(drawn(n, 16), 1, beta=[1.0, 2.0], step=0.1, rng=0, mask=mask)
    assert not find_sinks(layers.state(0), layers.attention_at(0)).is_sink.any()


@pytest.mark.parametrize(
    ("states", "attention", "message"),
    [
        (STATES, np.ones((2, 3, 3)), r"attention must have shape \(H, 80, 80\), got \(2, 3, 3\)"),
        (np.zeros((3, 2)), None, "states must have a median norm > 0, got 0"),
        (np.full((3, 2), np.nan), None, "states must be finite"),
    ],
)
def test_what_does_not_fit_is_refused(states, attention, message):
    with pytest.raises(ValueError, match=message):
        find_sinks(states, attention)
