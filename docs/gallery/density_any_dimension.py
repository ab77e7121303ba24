"""
Fifty dimensions at the price of one
====================================

If a density depends on ⟨x, e⟩ alone, it does so at all times. Gegenbauer polynomials represent it
in any dimension. The figure shows the law of the polar angle: nearly all of the sphere is near the
equator.
"""

import numpy as np

import meanfield as mf

dim = 50
law = mf.ZonalSeries(dim, [0.8])
sol = mf.evolve(mf.Density(mf.Zonal(dim, 31), law), mf.SA(beta=4.0), t_end=3.0)
print(sol.message)

# %%
# E(t) − E(0) against the integral of the dissipation, over the energy of a Dirac:

gap = np.abs(sol.dataset.balance_error).max().item()
print(f"{gap:.1e}")
assert gap < 1e-12

figure = mf.plot.solution(sol)
