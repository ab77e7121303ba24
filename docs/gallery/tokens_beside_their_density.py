"""
Tokens beside their density
===========================

n random tokens differ from their density by n^{−1/2}, with any solver. The distance in the
attention kernel shows it at the start and at later times.
"""

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf

law = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
dynamics = mf.SA(beta=2.0)
density = mf.evolve(mf.Density(mf.Circle(128), law), dynamics, t_end=1.0, save_at=1)
sizes = [100, 1000, 10_000]
rng = np.random.default_rng(0)
gaps = np.empty((len(sizes), 8))
for row, n in enumerate(sizes):
    for repeat in range(8):
        tokens = mf.Particles.sample(law, n, rng)
        run = mf.evolve(tokens, dynamics, t_end=1.0, save_at=1, rtol=1e-5)
        gaps[row, repeat] = mf.mmd(run.final, density.final, beta=2.0)

# %%
means = np.sqrt((gaps**2).mean(axis=1))
rate = np.polyfit(np.log(sizes), np.log(means), 1)[0]
print(f"n^{rate:.2f}")
# 24 distances, each with a spread of about a half: the slope's error is some 0.05
assert abs(rate + 0.5) < 0.2

figure = Figure(figsize=(4.5, 3.2), layout="constrained")
ax = figure.add_subplot()
ax.loglog(np.repeat(sizes, 8), gaps.ravel(), "o", alpha=0.5)
ax.loglog(sizes, means[0] * np.sqrt(sizes[0] / np.array(sizes)), "k--", label="1/√n")
ax.set(xlabel="n", ylabel="distance in the attention kernel")
ax.legend(frameon=False)
