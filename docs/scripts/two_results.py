"""Two results compared: a density and tokens of the same law."""

import meanfield as mf

law, dynamics = mf.VonMisesFisher([1.0, 0.0], 2.0), mf.SA(beta=4.0)
mf.evolve(mf.Density(mf.Circle(128), law), dynamics, t_end=1.5).save("density.nc")
mf.evolve(mf.Particles.sample(law, 2000, rng=0), dynamics, t_end=1.5).save("tokens.nc")
ds = mf.compare(mf.load("density.nc"), mf.load("tokens.nc"))
print(ds[["w1", "mmd", "mean_difference"]].to_pandas()[::5])
print(ds.attrs["verdict"])
mf.plot.save(mf.plot.comparison(ds), "compare.png")
