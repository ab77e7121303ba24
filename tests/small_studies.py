"""Each study on something small, run once for all tests that look at its dataset."""

from functools import cache

import numpy as np

import meanfield as mf

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])


@cache
def density_run():
    """A run of a density on the circle."""
    return mf.evolve(mf.Density(mf.Circle(64), LAW), mf.SA(2.0), 1.0, 4)


@cache
def flow_run():
    """A run of a flow map, with a monitor."""
    monitors = {"w1": mf.DistanceTo("uniform")}
    return mf.evolve(mf.FlowMap(LAW, tol=1e-4), mf.SA(4.0), 1.0, 4, monitors=monitors)


def phases(dynamics):
    """Four tokens on S^2 under several dynamics."""
    return mf.studies.phase_diagram(dynamics, 3, 4, 6.0, repeats=2, save_at=3)


# under the names of their functions
STUDIES = {
    "compare": lambda: mf.compare(density_run(), flow_run()),
    "mean_field_limit": lambda: mf.studies.mean_field_limit(
        LAW, mf.USA(0.5), 0.1, [4, 8], repeats=2, save_at=2
    ),
    "causal_limit": lambda: mf.studies.causal_limit(
        LAW, mf.SA(0.5, mask=mf.Causal()), 0.1, [16, 40], repeats=2, save_at=1
    ),
    "phase_diagram": lambda: phases([mf.SA(0.0), mf.SA(2.0), mf.SA(4.0)]),
    "metastability": lambda: mf.studies.metastability(mf.SA(5.0), t_end=2.0, save_at=10),
    "stationary_states": lambda: mf.studies.stationary_states([mf.USA(1.0)], 2),
    "proposition_3_4": lambda: mf.studies.proposition_3_4(1.0, 3, n_measures=20, repeats=1),
    "two_token_correlation": lambda: mf.studies.two_token_correlation(
        1.0, 4, 2.0, repeats=64, save_at=4, rng=0
    ),
    "energy_extremisers": lambda: mf.studies.energy_extremisers([np.diag([1.0, 2.0])], 1.0),
    "limits_without_normalisation": lambda: mf.studies.limits_without_normalisation(n=8, t_end=2.0),
}


@cache
def study(name):
    """The dataset of a study."""
    return STUDIES[name]()


# more than a second
SLOW = {"proposition_3_4"}
