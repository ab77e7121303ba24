"""
Clusters that wait
==================

At β = 9 the degree that grows fastest makes several clusters. They merge one after another, over
longer and longer times. Between two mergers the energy has a plateau.
"""

import numpy as np

import meanfield as mf

ds = mf.studies.metastability(mf.SA(9.0), t_end=1e3, save_at=100)
print("plateaus with", ds.plateau_n_clusters.values[0], "clusters")
print("mergers at t =", ds.merging_time.values[0])

# %%
# The energy, here as a share of that of a single point, never decreases:

share = ds.energy_share.isel(run=0).values
assert np.all(np.diff(share) > -1e-12)
assert share[-1] <= 1.0

figure = mf.plot.metastability(ds)
