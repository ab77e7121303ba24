"""A perturbation of degree k of the uniform density grows at γ_k = ± k(k+d-2) Λ_k/β [/Λ_0]."""

import numpy as np
import pytest

import meanfield as mf

SIZE = 1e-6
# coefficients of 1e-6 must be followed to 1e-9 of themselves
TIGHT = {"rtol": 1e-10, "atol": 1e-15}


def spaces(dim):
    found = [mf.Zonal(dim, 23)]
    if dim == 2:
        found.append(mf.Circle(48))
    if dim == 3:
        found.append(mf.Sphere(23))
    return found


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
@pytest.mark.parametrize("dim", [2, 3, 5, 20])
@pytest.mark.parametrize("degree", [1, 2, 6])
def test_linear_growth(dim, degree, kind, sign):
    dynamics = kind(beta=3.0 * np.sqrt(dim), sign=sign)
    rate = mf.theory.growth_rates(dynamics, dim, degree)[degree]
    law = mf.ZonalSeries(dim, [0.0] * (degree - 1) + [SIZE])
    t_end = 0.3 / abs(rate)
    for space in spaces(dim):
        mu = mf.Density(space, law)
        sol = mf.evolve(mu, dynamics, t_end, 1, **TIGHT)
        grown = np.sqrt(sol.final.power[degree] / sol.measures[0].power[degree])
        # the next term of the expansion is of order SIZE, relative
        assert np.log(grown) / t_end == pytest.approx(rate, rel=1e-5)
