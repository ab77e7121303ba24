"""
How far, and how fast?
======================

Monitors record W₁ to the uniform measure, W₂ to the point where the measure gathers, and the speed
in W₂ at each save of a run.
"""

import numpy as np

import meanfield as mf

monitors = {"w1_uniform": mf.DistanceTo("uniform"), "w2_centre": mf.DistanceTo("centre", p=2)}
start = mf.Density(mf.Circle(128), mf.FourierSeries(cos=[0.5]))
sol = mf.evolve(start, mf.SA(beta=2.0), t_end=2.0, save_at=10, monitors=monitors)

# %%
# A curve is at least as long as the distance of its ends: the integral of the speed bounds W₂.

data = sol.dataset
length = np.trapezoid(data.metric_speed, data.t)
distance = mf.wasserstein(start, sol.final, p=2)
print(float(distance), "<=", length)
assert distance.upper <= length
assert np.all(np.diff(data.w1_uniform) > 0.0)

# %%
# The limit is known only at the end. Distances to it are computed then, from the saved measures.

to_the_end = [float(mf.wasserstein(mu, sol.final, p=2)) for mu in sol.measures]
print(to_the_end)
assert np.all(np.diff(to_the_end) < 0.0)

figure = mf.plot.solution(sol)
