"""
A transition with a jump
========================

Stationary states under noise, followed through their folds. Above β* = 2.447 on the circle the
transition has a jump and hysteresis.
"""

import meanfield as mf

ds = mf.studies.stationary_states(mf.USA(5.0), 2)
print(ds.nature.item(), "at a noise of", ds.transition_noise.item())

# %%
# As the noise decreases, a cluster has the lower free energy before the uniform state is unstable:

critical = mf.theory.critical_noise(mf.USA(5.0), dim=2)
print(ds.fold_noise.max().item(), ">", ds.transition_noise.item(), ">", critical)
assert ds.nature.item() == "first order"
assert ds.fold_noise.max() > ds.transition_noise > critical

figure = mf.plot.stationary_states(ds)
