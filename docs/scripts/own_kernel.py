"""A kernel of one's own on all three measures."""

import meanfield as mf

attraction = mf.Interaction([1.0, 1.0, 0.25])  # s(t) = (1 + t/2)^2
law = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
density = mf.evolve(mf.Density(mf.Circle(64), law), attraction, t_end=1.0)
nodes = mf.evolve(mf.FlowMap(law), attraction, t_end=1.0)
tokens = mf.evolve(mf.Particles.quantise(law, 500), attraction, t_end=1.0)
for sol in (density, nodes, tokens):
    print(f"{sol.final}: energy {mf.energy(sol.final, attraction):.9f}, mean {sol.final.mean()}")
