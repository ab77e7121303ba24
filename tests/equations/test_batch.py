"""Many densities that share one plan of transforms: each row has the field of its own density."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.equations.density import DensityBatch, DensityTendency

SPACES = {"circle": mf.Circle(128), "zonal": mf.Zonal(6, 63)}


def some_law(space, rng):
    """Low degrees at random, positive since their sizes sum to less than 1."""
    sizes = rng.uniform(-0.16, 0.16, 6)
    if space._name == "circle":
        return mf.FourierSeries(cos=sizes[:3], sin=sizes[3:])
    return mf.ZonalSeries(space.dim, sizes)


@pytest.mark.parametrize("space", SPACES.values(), ids=str)
@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
def test_a_row_has_the_field_of_its_density(space, kind):
    """Signs and β of its own; at β = 12 the series of G loses its digits beside a narrow bump."""
    rng = np.random.default_rng(4)
    bump = mf.VonMisesFisher(np.eye(space.dim)[-1], 40.0)
    densities = [mf.Density(space, some_law(space, rng)) for _ in range(6)]
    densities.append(mf.Density(space, bump))
    betas = [0.0, 0.25, 0.5, 1.0, 3.0, 5.0, 12.0]
    fields = [kind(beta, sign=sign) for beta, sign in zip(betas, [-1, *[1, -1] * 3], strict=True)]
    batch = DensityBatch(space, fields)
    states = np.zeros(
        (len(fields), len(DensityTendency(densities[0], fields[0]).initial_state) + 1)
    )
    expected = np.empty_like(states)
    for row, (density, field) in enumerate(zip(densities, fields, strict=True)):
        alone = DensityTendency(density, field)
        states[row, :-1] = alone.initial_state
        alone(states[row, :-1], expected[row, :-1])
        expected[row, -1] = alone.scaled_dissipation()
    rates = np.full_like(states, np.nan)
    batch(states, rates)
    if kind is mf.SA:
        log_g, _ = densities[-1].log_moment(12.0 * space.points)
        assert np.ptp(log_g) > -np.log(1e-7)
    scale = np.abs(expected).max(axis=1, keepdims=True)
    assert scale.min() > 0.0
    # sums of some hundred terms in another order
    assert np.abs(rates - expected).max() < 1e-12 * scale.max()
    assert (np.abs(rates - expected) / scale).max() < 1e-12
