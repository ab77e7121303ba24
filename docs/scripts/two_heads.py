"""Two heads with matrices of your own."""

import numpy as np

import meanfield as mf

turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
heads = [mf.Head(Q=2.0, V=np.diag([1.0, 1.0, 0.5])), mf.Head(Q=turn, K=turn.T, V=-0.3)]
attention = mf.Attention(beta=2.0, heads=heads)
law = mf.VonMisesFisher([0.0, 0.6, 0.8], kappa=2.0)
density = mf.evolve(mf.Density(mf.Sphere(31), law), attention, t_end=1.0)
tokens = mf.evolve(mf.Particles.quantise(law, 2000), attention, t_end=1.0)
print("means", density.final.mean().round(5), tokens.final.mean().round(5))
