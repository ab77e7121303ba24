"""The energy over time, and the balance that checks it."""

import meanfield as mf

mu = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))
sol = mf.evolve(mu, mf.SA(beta=4.0), t_end=2.0, save_at=40)
gained = sol.dataset["energy"] - sol.dataset["energy"][0]
print(f"energy gained {gained.values[-1]:.6f}, work done {sol.dataset['work'].values[-1]:.6f}")
print(f"largest balance error {abs(sol.dataset['balance_error']).values.max():.1e}")
print(f"{mf.energy(sol.final, mf.SA(beta=4.0)):.6f} of {mf.theory.energy_dirac(4.0):.6f}")
mf.plot.save(mf.plot.solution(sol), "energy.png")
