"""The synthetic model is the flow of the paper, and instruments get back what was put in."""

import numpy as np
import pytest
from scipy.stats import binom

import meanfield as mf
from meanfield.trained.energy import attribute_energy
from meanfield.trained.synthetic import synthetic_layers
from meanfield.trained.temperature import effective_beta
from tests.trained.layers import drawn

START = drawn(24, 6)


def test_a_layer_is_a_step_of_sa():
    layers = synthetic_layers(START, 2, beta=4.0, step=0.3, rng=0)
    for layer in range(2):
        points = layers.points(layer)
        moved = points + 0.3 * mf.SA(4.0).output(mf.Particles(points), points)
        moved /= np.linalg.norm(moved, axis=1)[:, None]
        assert np.abs(layers.points(layer + 1) - moved).max() < 1e-14
        assert np.array_equal(layers.after_attention_at(layer), layers.points(layer + 1))
    assert np.abs(layers.points(2) - START).max() > 0.1


def test_a_causal_layer_is_a_plain_loop():
    layers = synthetic_layers(START, 1, beta=[4.0, 1.0], step=0.3, rng=0, mask="causal")
    moved = START.copy()
    for i, point in enumerate(START):
        for beta in (4.0, 1.0):
            weights = np.exp(beta * START[: i + 1] @ point)
            moved[i] += 0.5 * 0.3 * weights @ START[: i + 1] / weights.sum()
        moved[i] /= np.linalg.norm(moved[i])
    assert np.abs(layers.points(1) - moved).max() < 1e-14


def test_a_model_says_how_large_it_is():
    layers = synthetic_layers(START, 2, beta=[4.0, 1.0], step=0.3, rng=0)
    assert repr(layers) == "SyntheticLayers(2 layers, 24 tokens of dimension 6, beta=[4.0, 1.0])"


def test_noise_is_that_of_the_scores():
    """Of 24·23 differences of two normal numbers of deviation 0.5 within rows."""
    noisy, plain = (
        synthetic_layers(START, 1, beta=4.0, step=0.1, rng=1, noise=noise).attention_at(0)[0]
        for noise in (0.5, 0.0)
    )
    rest = np.log(noisy) - np.log(plain)
    rest -= rest.mean(axis=1, keepdims=True)
    assert np.sqrt(np.sum(rest**2) / (24 * 23)) == pytest.approx(0.5, rel=0.12)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_betas_come_back_layer_by_layer(mask):
    """Within two standard errors as often as the normal law has it, at 1e-4 on either side."""
    truth = np.array([1.0, 6.0, -3.0, 0.0])
    layers = synthetic_layers(START, 25, beta=truth, step=0.02, rng=2, mask=mask, noise=0.6)
    inside = 0
    for layer in range(25):
        fit = effective_beta(layers.attention_at(layer), layers.points(layer), layers.allowed)
        inside += int((np.abs(fit.beta - truth) <= 2.0 * fit.standard_error).sum())
    low, high = binom.ppf([1e-4, 1.0 - 1e-4], 100, 0.9545)
    assert low <= inside <= high


def test_matrices_come_back():
    forms = np.random.default_rng(3).standard_normal((2, 6, 6))
    layers = synthetic_layers(START, 1, beta=[2.0, -1.0], step=0.1, rng=0, matrices=forms)
    fit = effective_beta(layers.attention_at(0), START, matrix=forms)
    assert fit.beta == pytest.approx([2.0, -1.0], abs=1e-12)


def test_feed_forward_is_told_from_attention():
    """Where one half does nothing, the whole change is the other's, token by token."""
    rng = np.random.default_rng(4)
    perceptron = mf.FeedForward(rng.standard_normal((6, 8)), rng.standard_normal((8, 6)))
    layers = synthetic_layers(START, 1, beta=2.0, step=1e-3, rng=0, feed_forward=perceptron)
    middle = layers.after_attention_at(0)
    moved = middle + 1e-3 * perceptron.velocity(mf.Particles(middle), middle)
    moved /= np.linalg.norm(moved, axis=1)[:, None]
    assert np.abs(layers.points(1) - moved).max() < 1e-14
    halves = attribute_energy(START, middle, 2.0), attribute_energy(middle, moved, 2.0)
    whole = attribute_energy(START, layers.points(1), 2.0)
    assert min(abs(half.change) for half in halves) > 1e-6
    # energies are of order 1, and their differences are right to rounding
    assert halves[0].change + halves[1].change == pytest.approx(whole.change, abs=1e-14)
    # SA climbs by its dissipation, and each token by its share: |P_i Σ_j A_ij x_j|² G_i
    plain = synthetic_layers(START, 1, beta=2.0, step=1e-3, rng=0)
    share = mf.dissipation(mf.Particles(START), mf.SA(2.0)) / mf.theory.energy_dirac(2.0)
    climb = attribute_energy(START, plain.points(1), 2.0)
    assert climb.of_tokens.sum() == pytest.approx(1e-3 * share, rel=5e-3)
    assert (climb.of_tokens > 0.0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": 0.0}, "step must be a finite number > 0"),
        ({"mask": "both"}, "mask must be one of"),
        ({"noise": -1.0}, "noise must be a finite number >= 0"),
        ({"matrices": np.ones((3, 6, 6))}, r"matrices must have shape \(1, 6, 6\)"),
        ({"beta": np.nan}, "beta must be a finite number"),
        ({"n_layers": 0}, "n_layers must be an integer >= 1"),
        ({"rng": -1}, "rng"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        synthetic_layers(**{"start": START, "n_layers": 1, "beta": 1, "step": 1, "rng": 0} | change)
