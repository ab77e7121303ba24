"""Which clusters there are at each time, and in which of them each token is."""

import meanfield as mf

tokens = mf.Particles.sample(mf.Uniform(3), 100, rng=0)
sol = mf.evolve(tokens, mf.SA(beta=9.0), t_end=20.0, save_at=5)
for t, measure in sol:
    found = mf.clusters(measure)
    largest = found.masses[:5].round(2)
    print(f"t = {t:g}: {len(found)} clusters, {largest}, token 0 is in number {found.labels[0]}")
