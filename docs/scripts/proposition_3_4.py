"""Proposition 3.4: the uniform measure minimises the energy, a Dirac maximises it."""

import meanfield as mf

ds = mf.studies.proposition_3_4(4.0, 3, parts=["coefficients", "identity"])
print(f"{ds.attrs['verdict']}: {ds.attrs['statement']}")
print(*ds["finding"].values.flat, sep="\n")
low, high = mf.theory.energy_uniform(4.0, 3), mf.theory.energy_dirac(4.0)
for kappa in (0.0, 1.0, 10.0, 100.0):
    mu = mf.FlowMap(mf.VonMisesFisher([0.0, 0.0, 1.0], kappa))
    print(f"kappa = {kappa:g}: {low:.6f} <= {mf.energy(mu, 4.0):.6f} <= {high:.6f}")
