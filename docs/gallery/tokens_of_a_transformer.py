"""
Tokens of a trained Transformer
===============================

The 470 tokens that come with the package, projected to S² and not smoothed. They gather into a few
clusters, which then merge.
"""

from importlib.resources import files

import numpy as np

import meanfield as mf

path = str(files("meanfield") / "data" / "tokens_s2.csv")
tokens = mf.Particles(np.loadtxt(path, delimiter=",", skiprows=1))
sol = mf.evolve(tokens, mf.SA(beta=9.0), t_end=10.0)
found = mf.clusters(sol.final)
print(len(found.masses), "clusters with masses", np.round(found.masses, 3))

# %%
# Each token is in one cluster, and the energy never decreases:

assert abs(found.masses.sum() - 1.0) < 1e-12
assert np.all(np.diff(sol.dataset.energy) > 0.0)

figure = mf.plot.solution(sol)
