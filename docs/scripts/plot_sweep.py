"""A sweep plotted: the energy share over β, and over β and the concentration at the start."""

import meanfield as mf


def share(beta: float, kappa: float) -> float:
    mu = mf.Density(mf.Circle(128), mf.VonMisesFisher([1.0, 0.0], kappa))
    return mf.energy_share(mf.evolve(mu, mf.SA(beta), t_end=0.5, save_at=1).final, beta)


ds = mf.sweep(share, {"beta": [1.0, 2.0, 4.0], "kappa": [0.5, 1.0, 2.0]})
print(ds["value"].to_pandas())
mf.plot.save(mf.plot.sweep(ds), "map.png")
mf.plot.save(mf.plot.sweep(ds.sel(kappa=1.0)), "curve.png")
