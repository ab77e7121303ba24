"""A kernel of your own on all three measures."""

import meanfield as mf

attraction = mf.Interaction([1.0, 1.0, 0.25])  # s(t) = (1 + t/2)²
law = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
density, flow_map = mf.Density(mf.Circle(64), law), mf.FlowMap(law)
for mu in (density, flow_map, mf.Particles.quantise(law, 500)):
    sol = mf.evolve(mu, attraction, t_end=1.0)
    print(f"{mf.energy(sol.final, attraction):.9f}", sol.final.mean(), sol.final)
