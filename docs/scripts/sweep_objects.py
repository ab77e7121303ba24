"""A sweep over Python objects, on all cores, into a pandas DataFrame."""

import meanfield as mf


def final_energy(dynamics: mf.SA | mf.USA, kappa: float) -> dict[str, float]:
    mu = mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], kappa))
    sol = mf.evolve(mu, dynamics, t_end=0.5)
    return {"energy": float(sol.dataset["energy"][-1]), "mean": float(sol.final.mean()[0])}


if __name__ == "__main__":
    fields = [mf.SA(1.0), mf.SA(4.0), mf.USA(1.0)]
    found = mf.sweep(final_energy, {"dynamics": fields, "kappa": [0.5, 2.0]}, workers=2)
    print(found.to_dataframe())
