"""
Through two clusters to the Dirac
=================================

No Fourier series can represent this density for long. The nodes of a flow map move with the flow,
gather into two clusters, and merge after a long time. The energy at the end is that of a point,
e^β/(2β), to rounding.
"""

import meanfield as mf

law = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
sol = mf.evolve(mf.FlowMap(law), mf.SA(beta=4.0), t_end=300.0, save_at=60)
print(sol.message)
print(mf.clusters(sol.measures[10]).masses, "at t =", sol.t[10])

# %%
gap = sol.dataset.energy.values[-1] - mf.theory.energy_dirac(4.0)
print(f"{gap:.1e}")
assert abs(gap) < 1e-12

figure = mf.plot.solution(sol)
