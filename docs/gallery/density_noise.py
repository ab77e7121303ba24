"""
Noise against attraction on the circle
======================================

With noise τ > Λ₁/β the uniform density is stable. With less noise a cluster of finite width forms.
Diffusion is solved exactly, so it does not limit the time steps.
"""

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf

beta = 1.0
critical = mf.theory.critical_noise(mf.USA(beta), dim=2)
start = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.05]))
runs = {
    share: mf.evolve(start, mf.USA(beta, noise=share * critical), t_end=40.0)
    for share in (0.8, 1.2)
}

# %%
# Below the critical noise the measure gathers, above it spreads:

means = {share: np.linalg.norm(run.final.mean()) for share, run in runs.items()}
print(means)
assert means[0.8] > 0.3
assert means[1.2] < 0.025  # half of where it began

figure = Figure(figsize=(5.0, 3.0), layout="constrained")
ax = figure.add_subplot()
for share, run in runs.items():
    lengths = [np.linalg.norm(mu.mean()) for mu in run.measures]
    ax.plot(run.t, lengths, label=f"τ = {share} τ_c")
ax.set(xlabel="t", ylabel="|∫ x dμ|")
ax.legend(frameon=False)
