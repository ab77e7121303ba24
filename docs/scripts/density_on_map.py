"""A density on latitude × longitude in xarray, and in a file that any map viewer opens."""

import meanfield as mf

law = mf.Mixture([mf.VonMisesFisher(x, 4.0) for x in ([0.0, 0.6, 0.8], [0.8, -0.6, 0.0])])
sol = mf.evolve(mf.Density(mf.Sphere(31), law), mf.SA(beta=4.0), t_end=0.5, save_at=5)
ds = sol.to_dataset(grid=90)
print(ds.density.sel(t=0.5).max("lon").sel(lat=[-60, 0, 60], method="nearest").to_pandas())
ds.to_netcdf("density.nc")
print("between two saves, at t = 0.25, the mean is", sol.at(0.25).mean().round(6))
