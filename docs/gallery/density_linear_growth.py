"""
Which degree grows first?
=========================

Near the uniform measure a harmonic of degree k grows at the rate γ_k = k(k+d−2) Λ_k/(β Λ_0) under
SA. A run from a tiny perturbation measures it.
"""

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf

beta, size = 9.0, 1e-6
rates = mf.theory.growth_rates(mf.SA(beta), dim=2, kmax=10)
measured = []
for k in range(1, 8):
    law = mf.FourierSeries(cos=[0.0] * (k - 1) + [size])
    sol = mf.evolve(mf.Density(mf.Circle(64), law), mf.SA(beta), t_end=0.5, save_at=1, atol=1e-16)
    growth = sol.final.coefficients[k].real / sol.measures[0].coefficients[k].real
    measured.append(np.log(growth) / 0.5)

# %%
# The rest is the square of the perturbation and the tolerance of a time step, 1e-9:

gap = np.abs(np.array(measured) - rates[1:8]).max()
print(f"{gap:.1e}; the fastest degree is {np.argmax(rates)}")
assert gap < 1e-8

figure = Figure(figsize=(5.0, 3.0), layout="constrained")
ax = figure.add_subplot()
ax.plot(rates, "-", color="0.6", label="γ_k")
ax.plot(range(1, 8), measured, "o", label="measured")
ax.set(xlabel="degree k", ylabel="rate", title="SA, β = 9, on the circle")
ax.legend(frameon=False)
