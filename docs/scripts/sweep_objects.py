"""A sweep over Python objects, on all cores, into a pandas DataFrame."""

import meanfield as mf


def numbers(dynamics: mf.SA | mf.USA, kappa: float) -> dict[str, float]:
    sol = mf.evolve(mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], kappa)), dynamics, t_end=0.5)
    return {"share": sol.dataset["energy_share"].values[-1], "mean": sol.final.mean()[0]}


if __name__ == "__main__":
    dynamics = [mf.SA(1.0), mf.SA(4.0), mf.USA(1.0)]
    ds = mf.sweep(numbers, {"dynamics": dynamics, "kappa": [0.5, 2.0]}, executor="processes")
    print(ds.to_dataframe())
