"""Proposition 3.4: the uniform measure minimises the energy, a Dirac maximises it."""

import meanfield as mf

ds = mf.studies.proposition_3_4(4.0, 3, parts=["coefficients", "identity"])
print(ds)
dynamics = mf.SA(beta=4.0)
low, high = mf.theory.energy_uniform(dynamics, 3), mf.theory.energy_dirac(dynamics)
for kappa in (0.0, 1.0, 10.0, 100.0):
    mu = mf.FlowMap(mf.VonMisesFisher([0.0, 0.0, 1.0], kappa))
    print(f"kappa = {kappa:g}: {low:.6f} <= {mf.energy(mu, dynamics):.6f} <= {high:.6f}")
