"""The energy over time, and the balance that checks it."""

import meanfield as mf

dynamics = mf.SA(beta=4.0)
mu = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))
sol = mf.evolve(mu, dynamics, t_end=2.0, save_at=40)
print(sol.dataset[["energy", "dissipation", "work", "balance_error"]].to_pandas()[::8])
low, high = mf.theory.energy_uniform(dynamics, sol.final.dim), mf.theory.energy_dirac(dynamics)
print(f"{low:.6f} < {mf.energy(sol.final, dynamics):.6f} < {high:.6f}")
mf.plot.save(mf.plot.solution(sol), "energy.png")
