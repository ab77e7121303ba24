"""A density of your own under USA: any function of points (n, d) with mass 1."""

import numpy as np

import meanfield as mf

mu = mf.Density(mf.Circle(64), lambda x: 1.0 + 0.5 * x[:, 0] + 0.3 * x[:, 0] * x[:, 1])
sol = mf.evolve(mu, mf.USA(beta=2.0), t_end=0.5)
print(sol.message, "with mean", sol.final.mean())
angles = np.linspace(0.0, 2.0 * np.pi, 100)
f = sol.pdf(np.column_stack([np.cos(angles), np.sin(angles)]), t=0.5)
print(f"the density is between {f.min():.3f} and {f.max():.3f}")
mf.plot.save(mf.plot.solution(sol), "own_density.png")
