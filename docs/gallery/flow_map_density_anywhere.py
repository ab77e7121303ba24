"""
The density at any place and time
=================================

A run of a flow map keeps the moments of each step. They determine the velocity at all times, so any
point can be followed back to t = 0. This gives f_t(x) at any place and time.
"""

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf

law = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
sol = mf.evolve(mf.FlowMap(law), mf.SA(beta=4.0), t_end=6.0)
angles = np.linspace(0.0, 2.0 * np.pi, 721)
points = np.column_stack([np.cos(angles), np.sin(angles)])
curves = {t: sol.pdf(points, t) for t in (0.0, 1.0, 2.0, 3.0)}

# %%
# Compared with a run of Fourier series at t = 2:

fourier = mf.evolve(mf.Density(mf.Circle(256), law), mf.SA(beta=4.0), t_end=2.0, save_at=1)
gap = np.abs(curves[2.0] - fourier.final.pdf(points)).max() / curves[2.0].max()
print(f"{gap:.1e}")
assert gap < 1e-7  # the Fourier run's tail may be 1e-8

figure = Figure(figsize=(5.5, 3.0), layout="constrained")
ax = figure.add_subplot()
for number, (t, curve) in enumerate(curves.items()):
    ax.semilogy(angles, curve, color=str(0.75 - 0.25 * number), label=f"t = {t:g}")
ax.set(xlabel="angle", ylabel="density over uniform")
ax.legend(frameon=False, ncols=2)
