"""Your own tokens, from an NPY file, beside their density."""

import numpy as np

import meanfield as mf

x = np.random.default_rng(0).normal([0.0, 0.0, 1.0], 1.0, (400, 3))  # in place of yours
np.save("tokens.npy", x / np.linalg.norm(x, axis=1, keepdims=True))
x = np.load("tokens.npy")
tokens = mf.evolve(mf.Particles(x), mf.SA(beta=4.0), t_end=1.0, save_at=4)
density = mf.Density(mf.Sphere(31), mf.PointCloud(x, bandwidth="likelihood"))
smooth = mf.evolve(density, mf.SA(beta=4.0), t_end=1.0, save_at=4)
for (t, cloud), (_, mu) in zip(tokens, smooth, strict=True):
    apart = mf.mmd(cloud, mu, beta=4.0, scaled=True)
    print(f"t = {t:.2f}: mmd {apart:.4f}", cloud.mean(), mu.mean())
