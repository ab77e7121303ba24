"""
Heads, perceptrons and layers
=============================

A block of a Transformer: two heads with queries, keys and values, and then a feed-forward part. It
runs in discrete steps with normalisation, and as the flow to which these steps tend.
"""

import numpy as np

import meanfield as mf

rng = np.random.default_rng(0)
heads = [mf.Head(*rng.normal(size=(3, 8, 8)) / 3.0) for _ in range(2)]
block = [
    mf.Attention(1.0, heads),
    mf.FeedForward(rng.normal(size=(8, 16)) / 8.0, rng.normal(size=(16, 8)) / 2.0),
]
layers = mf.Layers(4 * block, step=0.5)
tokens = mf.Particles.sample(mf.Uniform(8), 200, rng)
flow = mf.evolve(tokens, layers, t_end=4.0)

# %%
# Discrete steps tend to the flow with first order: half the step, half the distance. Each
# layer of a `LayerMap` acts once, so thin layers are repeated.

gaps = []
for count in (10, 20):
    thin = mf.Layers([layer for layer in layers.layers for _ in range(count)])
    steps = mf.evolve(tokens, mf.LayerMap(thin, step=0.5 / count), t_end=4.0)
    gaps.append(np.abs(steps.final.points - flow.final.points).max())
print(gaps, gaps[0] / gaps[1])
assert 1.6 < gaps[0] / gaps[1] < 2.4  # relu has kinks, which tokens may cross

figure = mf.plot.solution(flow)
