"""What a run of a measure may do is the measure's own: it goes where the measure goes."""

import copy

import numpy as np
import pytest

import meanfield as mf

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0), mf.VonMisesFisher([0.0, 1.0, 0.0], 2.0)]
)
SERIES = {"tail_tol": 1e-6, "max_size": 256}
NODES = {"max_nodes": 5000, "atom_radius": 1e-6}
MEASURES = {
    "law": (mf.Density(mf.Circle(32), LAW, **SERIES), SERIES),
    "values": (mf.Density(mf.Circle(32), LAW.pdf(mf.Circle(32).points), **SERIES), SERIES),
    "oscillators": (mf.OscillatorDensity(mf.Circle(32), LAW, [0.0, 1.0], **SERIES), SERIES),
    "line": (mf.FlowMap(LAW, **NODES), NODES),
    "sphere": (mf.FlowMap(BUMPS, tol=1e-5, **NODES), NODES),
}


def limits(measure, expected):
    return {name: getattr(measure, name) for name in expected}


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURES)
def test_limits_survive(name, tmp_path):
    start, given = MEASURES[name]
    assert limits(copy.copy(start), given) == given
    if name in ("law", "values", "oscillators"):
        assert limits(start.resize(64), given) == given
        with pytest.raises(ValueError, match="size must be an integer >= 32 and <= 256, got 512"):
            start.resize(512)
    dynamics = mf.Kuramoto(1.0) if name == "oscillators" else mf.SA(1.0)
    sol = mf.evolve(start, dynamics, 0.2, 2)
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    for measure in (*sol.measures, *again.measures):
        assert limits(measure, given) == given
    for about in sol.dataset.attrs, again.dataset.attrs:
        assert {name: about[name] for name in given} == given


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tail_tol": 0.9e-15}, "tail_tol must be a finite number >= 1e-15 and <= 0.01"),
        ({"tail_tol": 1.1e-2}, "tail_tol must be a finite number >= 1e-15 and <= 0.01"),
        ({"max_size": 31}, "max_size must be an integer >= 32, got 31"),
    ],
)
def test_limits_of_a_density_are_checked(given, told):
    with pytest.raises(ValueError, match=told):
        mf.Density(mf.Circle(32), LAW, **given)


@pytest.mark.parametrize("law", [LAW, BUMPS], ids=["line", "sphere"])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"atom_radius": -1e-9}, "atom_radius must be a finite number >= 0 and <= 0.01"),
        ({"atom_radius": 1.1e-2}, "atom_radius must be a finite number >= 0 and <= 0.01"),
        ({"max_nodes": 1}, "max_nodes must be an integer >= "),
    ],
)
def test_limits_of_a_flow_map_are_checked(law, given, told):
    with pytest.raises(ValueError, match=told):
        mf.FlowMap(law, **given)


def test_a_density_of_a_function():
    space = mf.Zonal(5, 15)
    axis = space.axis
    mu = mf.Density(space, lambda x: 1.0 + 0.5 * x @ axis)
    assert mu.mean() == pytest.approx(0.1 * axis, abs=1e-14)
    with pytest.raises(ValueError, match="the density must have mass 1"):
        mf.Density(space, lambda x: np.full(len(x), 2.0))
    with pytest.raises(ValueError, match="values must be a non-empty array with 1 axes"):
        mf.Density(space, lambda x: x)
    with pytest.raises(ValueError, match=r"the function must return n values .* got one number"):
        mf.Density(space, lambda _: 1.0)
    with pytest.raises(ValueError, match="values must be"):
        mf.Density(space, mf.Uniform)


@pytest.mark.parametrize("space", [mf.Circle(64), mf.Zonal(4, 31)], ids=str)
def test_a_flow_map_of_a_density_is_that_of_its_law_or_series(space):
    law = LAW if space.dim == 2 else mf.ZonalSeries(4, [0.5])
    mu, points = mf.Density(space, law), mf.Uniform(space.dim).sample(9, np.random.default_rng(0))
    series = mf.Density.from_coefficients(space, mu.coefficients)
    exact = mf.FlowMap(law).log_moment(2.0 * points)[0]
    assert np.array_equal(mf.FlowMap(mu).log_moment(2.0 * points)[0], exact)
    assert mf.FlowMap(series).log_moment(2.0 * points)[0] == pytest.approx(exact, abs=1e-12)
