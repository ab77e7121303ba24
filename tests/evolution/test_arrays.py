"""Measures in files: they come back to the bit, in parts as a whole, and other tools find them."""

import tracemalloc
from functools import cache

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.evolution import arrays, netcdf
from tests.handmade import SPACES, densities, names, particles, same_bits, solution


def stored(sol, folder):
    """What xarray finds in the file of a run."""
    sol.save(folder / "run.nc")
    return xr.load_dataset(folder / "run.nc", engine="h5netcdf")


@pytest.mark.parametrize("kind", SPACES)
def test_densities_come_back_to_the_bit(kind, tmp_path):
    sol = solution(densities(kind))
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    assert len({measure.space.size for measure in sol.measures}) == 3
    for a, b in zip(sol.measures, again.measures, strict=True):
        assert a.space == b.space
        assert np.ptp(a.values) > 1
        assert same_bits(a.coefficients, b.coefficients)
        assert same_bits(a.values, b.values)
        assert same_bits(a.pdf(np.eye(a.dim)), b.pdf(np.eye(a.dim)))
    assert again.measures[0].space is again.measures[1].space
    xr.testing.assert_identical(sol.dataset, again.dataset)
    assert same_bits(sol.t, again.t)
    assert sol.dynamics == again.dynamics
    assert (sol.status, sol.message, sol.case) == (again.status, again.message, again.case)
    assert repr(sol) == repr(again)


def test_particles_come_back_to_the_bit(tmp_path):
    sol = solution(particles(), mf.SA(beta=0.1, noise=0.2))
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    for a, b in zip(sol.measures, again.measures, strict=True):
        assert same_bits(a.points, b.points)
        assert same_bits(a.weights, b.weights)
        assert not b.points.flags.writeable
        assert not b.weights.flags.writeable
    xr.testing.assert_identical(sol.dataset, again.dataset)
    assert sol.dynamics == again.dynamics


def many(kind):
    """Some 10 MB of measures that do not repeat themselves, so that their file is as large."""
    rng = np.random.default_rng(3)
    if kind == "tokens":
        return [
            mf.Particles(x / np.linalg.norm(x, axis=1)[:, None])
            for x in rng.normal(size=(30, 6000, 7))
        ]
    space, series = mf.Sphere(127), []
    for _ in range(80):
        coefficients = 1e-3 * rng.normal(size=(2, space.n_coefficients)).T
        coefficients[space.orders == 0, 1] = 0.0
        coefficients[0] = 1.0, 0.0
        series.append(mf.Density.from_coefficients(space, coefficients.copy().view(complex)[:, 0]))
    return series


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "names"), [("tokens", ["points", "weights"]), ("sphere", ["coefficients"])]
)
def test_a_file_is_read_with_little_more_memory_than_its_own_size(kind, names, tmp_path):
    path = tmp_path / "run.nc"
    saved = solution(many(kind))
    saved.save(path)
    # libraries that are loaded once
    mf.load(path)
    tracemalloc.start()
    try:
        again = mf.load(path)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = path.stat().st_size
    # all is in memory, once, with one block of all arrays and one measure in the making
    assert size > 9e6
    assert size <= kept <= 1.25 * size
    assert peak <= 1.5 * size
    for a, b in zip(saved.measures, again.measures, strict=True):
        assert all(same_bits(getattr(a, name), getattr(b, name)) for name in names)
    assert again.dataset.energy.size == len(saved)


NODES = [-1.0, 0.0, 2.0]
BUMPS = mf.Mixture([mf.VonMisesFisher(v, 2.0) for v in np.eye(3)[:2]])
RUNS = {
    "tokens": lambda: solution(particles(7)),
    "densities": lambda: solution(densities("sphere")),
    "oscillators": lambda: solution([mf.Oscillators([0.0, 1.0, k], NODES) for k in range(5)]),
    "oscillator densities": lambda: solution(
        [mf.OscillatorDensity(mf.Circle(n), mf.FourierSeries(cos=[0.4]), NODES) for n in (16, 32)]
    ),
    "flow maps on a line": lambda: mf.evolve(mf.FlowMap(mf.Uniform(2)), mf.SA(1.0), 0.1, 3),
    "flow maps on S²": lambda: mf.evolve(mf.FlowMap(BUMPS, tol=1e-4), mf.SA(1.0), 0.1, 2),
    "density, then flow maps": lambda: mf.evolve(
        mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]), max_size=16),
        *(mf.SA(4.0), 2.0, 4),
        on_unresolved="flow-map",
    ),
}


@cache
def run(kind):
    return RUNS[kind]()


QUICK = "tokens", "densities", "flow maps on a line"
KINDS = [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in RUNS]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_in_parts_is_the_same(kind, tmp_path, monkeypatch):
    """Blocks of one time, of some, and with a remainder; the checksum has all that is written."""
    path, sol = tmp_path / "run.nc", run(kind)
    assert (kind == "density, then flow maps") == ("hand_over_t" in sol.dataset.attrs)
    checksum = sol._to_file().checksum()
    sol.save(path)
    assert mf.load(path)._to_file().checksum() == checksum
    monkeypatch.setattr(netcdf, "_SMALL", 0)
    for block in 1, 100, 3000:
        monkeypatch.setattr(netcdf, "_PACKED", max(1, block // 3))
        sol.save(path)
        for module in netcdf, arrays:
            monkeypatch.setattr(module, "BLOCK", block)
        parts = mf.load(path)
        assert len(parts) == len(sol) > 1
        assert parts._to_file().checksum() == checksum


def test_coefficients_are_found_by_degree_and_order(tmp_path):
    sol = solution(densities("sphere"))
    file = stored(sol, tmp_path)
    assert file.coefficients.dims == ("t", "degree", "order", "part")
    assert file.part.attrs["flag_meanings"] == "real imaginary"
    last = sol.final
    for degree, order in (2, 0), (7, 3), (63, 63):
        index = np.flatnonzero((last.space.degrees == degree) & (last.space.orders == order))
        written = file.coefficients.sel(degree=degree, order=order)[-1]
        (kept,) = last.coefficients[index]
        assert written.values.tolist() == [kept.real, kept.imag]
        assert kept.real != 0.0
    assert (file.coefficients.sel(degree=2, order=slice(3, None)) == 0.0).all()


def test_tokens_are_a_contiguous_ragged_array(tmp_path):
    """As the CF conventions have it; there may be another number of tokens at each time."""
    first, second, _ = particles()
    sol = solution([first, mf.Particles(second.points[:7], second.weights[:7], unit_mass=True)])
    file = stored(sol, tmp_path)
    assert file["count"].values.tolist() == [50, 7]
    assert file.points.dims == (file["count"].attrs["sample_dimension"], "axis")
    assert same_bits(file.points[50:], sol.final.points)
    assert same_bits(mf.load(tmp_path / "run.nc").final.weights, sol.final.weights)


def test_measures_of_two_kinds_are_not_saved(tmp_path):
    circle, zonal = densities("circle")[:1], densities("zonal")[:1]
    turned = mf.Density.from_coefficients(mf.Zonal(3, 15), zonal[0].coefficients)
    few = mf.Particles(np.eye(6)[:3])
    for mixed in (circle + zonal, [*zonal, turned], [*particles(1), few], zonal + particles(1)):
        with pytest.raises(ValueError, match=r"measures must .*, got "):
            solution(mixed).save(tmp_path / "run.nc")
    assert names(tmp_path) == []


def test_a_variable_of_the_files_own_name_is_not_lost(tmp_path):
    sol = solution(particles())
    sol.dataset["weights"] = sol.dataset.mass
    with pytest.raises(ValueError, match=r"variables \['weights'\]: rename them"):
        sol.save(tmp_path / "run.nc")


def heads(count):
    """A run of tokens under heads with matrices of 24 rows."""
    rng = np.random.default_rng(0)
    made = [mf.Head.random("ginibre", 24, rng) for _ in range(count)]
    points = mf.Uniform(24).sample(5, rng)
    return solution([mf.Particles(points)], mf.Attention(1.0, made))


def test_many_matrices_are_one_variable(tmp_path):
    """The text tells where each is: 60 characters or so for each, and none of its numbers."""
    sol = heads(100)
    file = stored(sol, tmp_path)
    assert file["record_dynamics"].shape == (100 * 3 * 24 * 24,)
    assert len(file.attrs["dynamics"].encode()) < 300 * 60
    assert len(file.data_vars) == len(stored(heads(1), tmp_path).data_vars)
    sol.save(tmp_path / "run.nc")
    again = mf.load(tmp_path / "run.nc")
    assert again.dynamics == sol.dynamics
    assert same_bits(again.dynamics.heads[99].V, sol.dynamics.heads[99].V)


@pytest.mark.parametrize(("n", "is_text"), [(333, True), (334, False)])
def test_a_law_of_many_points_is_kept_as_numbers(n, is_text, tmp_path):
    """Points and weights are 3 n numbers; of up to 1,000 they can be read in the text."""
    rng = np.random.default_rng(1)
    points, weights = mf.Uniform(2).sample(n, rng), rng.uniform(size=n)
    law = mf.PointCloud(points, weights, bandwidth=0.5, unit_mass=True)
    sol = mf.evolve(mf.FlowMap(law), mf.SA(1.0), 0.1, 1)
    file = stored(sol, tmp_path)
    assert ("record_measures" not in file) == is_text
    assert (len(file.attrs["measures"].encode()) < 1000) == (not is_text)
    again = mf.load(tmp_path / "run.nc")
    assert again.final.law == law
    assert same_bits(again.final.law.points, law.points)
    assert same_bits(again.pdf(np.eye(2), 0.05), sol.pdf(np.eye(2), 0.05))
