"""Many densities that share one plan of transforms: each lane has the field of its own density."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.equations.density import DensityBatch, DensityTendency, Factors

SPACES = {"circle": mf.Circle(128), "zonal": mf.Zonal(6, 63)}


def some_law(space, rng):
    """Low degrees at random, positive since their sizes sum to less than 1."""
    sizes = rng.uniform(-0.16, 0.16, 6)
    if space.name == "circle":
        return mf.FourierSeries(cos=sizes[:3], sin=sizes[3:])
    return mf.ZonalSeries(space.dim, sizes)


@pytest.mark.parametrize("space", SPACES.values(), ids=str)
@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
def test_a_lane_has_the_field_of_its_density(space, kind):
    """Signs and β of its own; at β = 12 the series of G loses its digits beside a narrow bump."""
    rng = np.random.default_rng(4)
    bump = mf.VonMisesFisher(np.eye(space.dim)[-1], 40.0)
    densities = [mf.Density(space, some_law(space, rng)) for _ in range(5)]
    densities.append(mf.Density(space, bump))
    # without β nothing is divided
    betas = [0.25, 0.5, 1.0, 3.0, 5.0, 12.0]
    fields = [kind(beta, sign) for beta, sign in zip(betas, [1, -1] * 3, strict=True)]
    batch = DensityBatch(space, len(fields), normalised=kind is mf.SA)
    states = np.tile(batch.free_state, (len(fields), 1))
    expected = np.empty_like(states)
    for lane, (density, field) in enumerate(zip(densities, fields, strict=True)):
        batch.assign(lane, Factors.of(field, space.dim, space.kmax), time_unit=0.25)
        alone = DensityTendency(density, field)
        states[lane, :-1] = alone.initial_state
        alone(states[lane, :-1], expected[lane, :-1])
        expected[lane, -1] = alone.scaled_dissipation()
    found = np.full_like(states, np.nan)
    batch(states, found)
    if kind is mf.SA:
        log_g, _ = densities[-1].log_moment(12.0 * space.points)
        assert np.ptp(log_g) > -np.log(1e-7)
    scale = np.abs(expected).max(axis=1, keepdims=True)
    assert scale.min() > 0.0
    # sums of some hundred terms in another order
    assert np.abs(found / 0.25 - expected).max() < 1e-12 * scale.max()
    assert (np.abs(found / 0.25 - expected) / scale).max() < 1e-12
    assert batch.faults == {}


def test_a_field_that_is_refused_is_nan_in_its_lane_alone(monkeypatch):
    space, field = SPACES["circle"], mf.SA(12.0)
    narrow = mf.Density(space, mf.VonMisesFisher([0.0, 1.0], 40.0))
    broad = mf.Density(space, mf.FourierSeries(cos=[0.5]))
    batch = DensityBatch(space, 2, normalised=True)
    states = np.tile(batch.free_state, (2, 1))
    for lane, density in enumerate((narrow, broad)):
        batch.assign(lane, Factors.of(field, 2, space.kmax))
        states[lane, :-1] = DensityTendency(density, field).initial_state

    def refused(self, z):
        raise ValueError("there is no such grid")

    monkeypatch.setattr(mf.Density, "log_moment", refused)
    found = np.zeros_like(states)
    batch(states, found)
    assert batch.faults == {0: "there is no such grid"}
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()
