"""Tokens of a trained Transformer, layer by layer, beside SA from its layer 0 (Figure 1).

Where they part: in the trained model inner products drift up by a third of the way and fall again
in the last layer, no two tokens ever meet, and the histogram grows a second hump; SA only rises,
and ends in one point.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

import meanfield as mf
from validation.claims import Claim, main

Array = NDArray[np.float64]

DATA = Path(__file__).parent / "data" / "minilm_tokens.npz"
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "real_tokens.png"
# the usual toy, and one sharp enough to form clusters on the way
BETAS = (1.0, 9.0)


def trained() -> list[mf.Particles]:
    """The tokens of layers 0 to 6."""
    with np.load(DATA) as data:
        hidden = data["hidden"].astype(float)
    return [mf.Particles(layer) for layer in hidden]


def pairs(tokens: mf.Particles) -> Array:
    """<x_i, x_j> for i < j."""
    gram = tokens.points @ tokens.points.T
    return np.asarray(gram[np.triu_indices(len(gram), 1)])


def run(start: mf.Particles, beta: float, t_end: float, saves: int) -> mf.Solution:
    """SA from the embeddings, to the accuracy of a histogram."""
    return mf.evolve(start, mf.SA(beta), t_end, saves, rtol=1e-6, atol=1e-8)


def matched(solution: mf.Solution, mean: float) -> mf.Particles:
    """The saved tokens whose mean inner product is nearest."""
    means = [pairs(tokens).mean() for tokens in solution.measures]
    return solution.measures[int(np.argmin(np.abs(np.array(means) - mean)))]


def claims_on_layers(layers: list[mf.Particles]) -> list[Claim]:
    """What the trained model does by itself."""
    products = [pairs(tokens) for tokens in layers]
    means = np.array([product.mean() for product in products])
    return [
        Claim(
            "trained: mean inner product rises from layer 0 to 5 (largest fall)",
            "Figure 1",
            float(max(0.0, -np.diff(means[:6]).min())),
            0.0,
            f"it goes {', '.join(f'{m:.3f}' for m in means[:6])}",
        ),
        Claim(
            "trained: and falls in layer 6 (rise)",
            "Figure 1",
            float(max(0.0, means[6] - means[5])),
            0.0,
            f"to {means[6]:.3f}: the toy model parts here",
        ),
        Claim(
            "trained: share of pairs with inner product ≥ 0.999 in any layer",
            "Figure 1",
            max(float(np.mean(product >= 0.999)) for product in products),
            1e-4,
            "no clusters of points",
        ),
    ]


def claims_on_sa(layers: list[mf.Particles], beta: float, t_end: float) -> list[Claim]:
    """What SA does from the trained model's embeddings."""
    solution = run(layers[0], beta, t_end, 40)
    means = np.array([pairs(tokens).mean() for tokens in solution.measures])
    rows = [
        Claim(
            f"SA, β = {beta:g}: the mean inner product never falls (largest fall)",
            "Figure 1",
            float(max(0.0, -np.diff(means).min())),
            1e-9,
            "the runs' tolerance; no theorem is known",
        ),
        Claim(
            f"SA, β = {beta:g}: 1 - least inner product at t = {t_end:g}",
            "Theorem 6.1",
            float(1.0 - pairs(solution.measures[-1]).min()),
            1e-3,
            "one cluster",
        ),
    ]
    apart = [
        wasserstein_distance(pairs(layer), pairs(matched(solution, pairs(layer).mean())))
        for layer in layers[1:]
    ]
    middle = ", ".join(f"{a:.3f}" for a in apart)
    rows.append(
        Claim(
            f"SA, β = {beta:g}: W_1 of its histogram from the trained one at equal means, layer 1",
            "Figure 1",
            apart[0],
            0.05,
            f"layers 1 to 6: {middle}",
        )
    )
    return rows


def draw(layers: list[mf.Particles]) -> None:
    """A row for the trained model, and one for SA at the times of equal means."""
    rows = {"trained": layers}
    for beta, t_end in zip(BETAS, (2.0, 6.0), strict=True):
        solution = run(layers[0], beta, t_end, 120)
        rows[f"SA, β = {beta:g}"] = [matched(solution, pairs(layer).mean()) for layer in layers]
    figure = mf.plot.inner_products(rows, [f"layer {i}" for i in range(len(layers))])
    mf.plot.save(figure, FIGURE)


def check(quick: bool) -> list[Claim]:
    """470 tokens in d = 384; the quick form runs every fourth, fewer than dimensions."""
    layers = trained()
    found = claims_on_layers(layers)
    few = [mf.Particles(layer.points[::4]) for layer in layers]
    found += claims_on_sa(few if quick else layers, 1.0, 8.0)
    if not quick:
        found += claims_on_sa(layers, 9.0, 20.0)
        draw(layers)
    return found


if __name__ == "__main__":
    main(check)
