"""
A distance with its proof
=========================

On S² without a common axis, W₁ is given as a bracket: a flow proves the upper bound, and a
1-Lipschitz potential proves the lower one. A bracket says whether its ends are proven. With a
common axis the exact distance is known; here it lies inside the bracket.
"""

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf

space = mf.Sphere(31)
north = mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0)
exact = mf.wasserstein(
    mf.Density(mf.Zonal(3, 63), north), mf.Density(mf.Zonal(3, 63), mf.Uniform(3))
)
angles = np.linspace(0.4, 3.0, 4)
brackets = []
for angle in angles:
    other = mf.VonMisesFisher([np.sin(angle), 0.0, np.cos(angle)], 5.0)
    brackets.append(mf.wasserstein(mf.Density(space, north), mf.Density(space, other)))

# %%
known = mf.wasserstein(
    mf.Density(space, mf.VonMisesFisher([0.6, 0.0, 0.8], 5.0)), mf.Density(space, mf.Uniform(3))
)
print(known, exact)
assert known.lower <= float(exact) <= known.upper
assert known.proved
assert all(bracket.proved for bracket in brackets)

figure = Figure(figsize=(4.5, 3.0), layout="constrained")
ax = figure.add_subplot()
values = np.array([[b.value, b.value - b.lower, b.upper - b.value] for b in brackets])
ax.errorbar(angles, values[:, 0], values[:, 1:].T, fmt="o", capsize=4, label="W₁ and its bracket")
ax.plot(angles, angles, color="0.6", label="the angle between the bumps")
ax.set(xlabel="angle", ylabel="W₁")
ax.legend(frameon=False)
