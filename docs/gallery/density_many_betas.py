"""
Which degree comes first
========================

Near the uniform measure the degree k with the largest rate γ_k = k(k+d−2) Λ_k/(β Λ_0) dominates,
and k clusters form first. Here are 96 values of β, each from its own start.
"""

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf

betas, degrees, size = np.linspace(0.5, 40.0, 96), 12, 1e-6
space, rng = mf.Circle(64), np.random.default_rng(0)
# all degrees start alike, but for their phases
turns = size * np.exp(2j * np.pi * rng.random((len(betas), degrees)))
runs = []
for beta, row in zip(betas, turns, strict=True):
    start = mf.Density(space, mf.FourierSeries(cos=row.real, sin=row.imag))
    runs.append(mf.evolve(start, mf.SA(beta), t_end=1.5, save_at=1))
print({run.status for run in runs})

# %%
# The degree that is largest at the end is the one with the largest rate, for every β:

power = np.abs([run.final.coefficients[1 : degrees + 1] for run in runs])
largest = power.argmax(axis=1) + 1
rates = [mf.theory.growth_rates(mf.SA(beta), dim=2, kmax=degrees) for beta in betas]
predicted = np.argmax(rates, axis=1)
print(f"{np.sum(largest == predicted)} of {len(betas)} as predicted")
assert np.array_equal(largest, predicted)

figure = Figure(figsize=(5.0, 3.0), layout="constrained")
ax = figure.add_subplot()
ax.plot(betas, predicted, "-", color="0.6", drawstyle="steps-mid", label="largest γ_k")
ax.plot(betas, largest, ".", label="largest at t = 1.5")
ax.set(xlabel="β", ylabel="degree k", title="SA on the circle: which degree comes first")
ax.legend(frameon=False)
