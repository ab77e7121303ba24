"""A sweep over Python objects, on all cores, into a pandas DataFrame."""

import meanfield as mf


def final_energy(dynamics: mf.SA | mf.USA, kappa: float) -> dict[str, float]:
    mu = mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], kappa))
    sol = mf.evolve(mu, dynamics, t_end=0.5)
    return {"energy": float(sol.dataset["energy"][-1]), "steps": float(len(sol))}


if __name__ == "__main__":
    grid = {"dynamics": [mf.SA(1.0), mf.SA(4.0), mf.USA(1.0)], "kappa": [0.5, 2.0]}
    print(mf.sweep(final_energy, grid, executor="processes").to_dataframe())
