"""When tokens meet: a phase diagram over β and d, a panel for each d."""

import xarray as xr

import meanfield as mf

dynamics = [mf.SA(beta) for beta in (0.5, 1.0, 2.0, 4.0)]
found = [
    mf.studies.phase_diagram(dynamics, dim, n=16, t_end=8.0, repeats=8, rng=0) for dim in (2, 8, 32)
]
met = xr.concat(found, "dim")["probability"]  # that two tokens are together, over d, t and β
print(met.sel(t=8.0).to_pandas())
mf.plot.save(mf.plot.phase_diagram(found), "phase_diagram.png")
