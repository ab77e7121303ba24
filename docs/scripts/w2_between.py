"""W_2 between two clouds, and between the times of a run."""

import numpy as np

import meanfield as mf

law = mf.VonMisesFisher([0.0, 0.0, 1.0], kappa=3.0)
one, other = (mf.Particles.sample(law, 300, rng=seed) for seed in (0, 1))
found = mf.wasserstein(one, other, p=2)
print(f"W_2 = {found.value:.6f} in [{found.lower:.6f}, {found.upper:.6f}], proved: {found.proved}")
sol = mf.evolve(one, mf.SA(beta=4.0), t_end=2.0, save_at=4)
table = [[mf.wasserstein(mu, nu, p=2).value for mu in sol.measures] for nu in sol.measures]
print(np.round(table, 4))
