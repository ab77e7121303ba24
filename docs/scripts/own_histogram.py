"""A histogram of your own as a density under SA."""

import numpy as np

import meanfield as mf

angles = np.random.default_rng(0).vonmises([0.5, 3.5], 4.0, (2000, 2)).ravel()  # or yours
counts, edges = np.histogram(angles % (2.0 * np.pi), bins=36, range=(0.0, 2.0 * np.pi))
law = mf.PointCloud.from_histogram(counts, edges)  # smoothed by one bin
sol = mf.evolve(mf.Density(mf.Circle(64), law), mf.SA(beta=4.0), t_end=2.0)
print(sol.message, "The density at angle 0.5 is", *law.pdf(0.5), "and then", *sol.pdf(0.5, t=2.0))
mf.plot.save(mf.plot.solution(sol), "own_histogram.png")
