"""
Two bumps on S² become one cluster
==================================

A density under softmax self-attention. The energy grows by the time integral of the dissipation.
The two are computed separately, and every run checks that they agree.
"""

import numpy as np

import meanfield as mf

north, slanted = [0.0, 0.0, 1.0], [0.0, 0.8, -0.6]
law = mf.Mixture([mf.VonMisesFisher(north, 5.0), mf.VonMisesFisher(slanted, 3.0)], [0.6, 0.4])
sol = mf.evolve(mf.Density(mf.Sphere(31), law), mf.SA(beta=4.0), t_end=1.5)
print(sol.message)

# %%
# Energy against work:

data = sol.dataset
gap = np.abs(data.energy - data.energy[0] - data.work).max().item()
print(f"{gap:.1e}")
assert gap < 1e-11

figure = mf.plot.solution(sol)
