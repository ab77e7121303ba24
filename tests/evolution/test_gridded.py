"""`Solution.to_dataset`: densities on grids, with coordinates that other tools understand."""

import re
from functools import cache

import numpy as np
import pytest
import xarray as xr
from numpy.polynomial import legendre

import meanfield as mf

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
EAST, NORTH = mf.VonMisesFisher([0.0, 1.0, 0.0], 3.0), mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0)
BUMPS = mf.Mixture([EAST, NORTH], [0.7, 0.3])
GAUSS, SHARES = legendre.leggauss(40)
RUNS = {
    "circle": lambda: mf.evolve(mf.Density(mf.Circle(64), LAW), mf.SA(4.0), 1.0, 2),
    "hand-over": lambda: mf.evolve(mf.Density(mf.Circle(16), LAW), mf.SA(4.0), 4.0, 4),
    "line": lambda: mf.evolve(mf.FlowMap(LAW), mf.SA(4.0), 1.0, 2),
    "S^2": lambda: mf.evolve(mf.Density(mf.Sphere(31), BUMPS), mf.SA(2.0), 0.5, 2),
    "mesh": lambda: mf.evolve(mf.FlowMap(BUMPS, tol=1e-6), mf.SA(2.0), 0.5, 1),
    "axis": lambda: mf.evolve(mf.Density(mf.Zonal(3, 63), NORTH), mf.SA(2.0), 0.5, 2),
    "polar": lambda: mf.evolve(mf.FlowMap(NORTH), mf.SA(2.0), 0.5, 2),
}


@cache
def run(name):
    """A run that tests share and do not change."""
    return RUNS[name]()


def mass(density: xr.DataArray) -> xr.DataArray:
    """∫ f dσ over t, by Gauss's rule over latitudes or cosines and the mean around."""
    if "angle" in density.dims:
        return density.mean("angle")
    over = "lat" if "lat" in density.dims else "cosine"
    return (density.mean("lon") if over == "lat" else density) @ xr.DataArray(
        SHARES / 2.0, dims=over
    )


def exact_grid(sol):
    dim = sol.final.dim
    if sol.final.axis is not None:
        return {"cosine": GAUSS}
    return 200 if dim == 2 else {"lat": np.degrees(np.arcsin(GAUSS)), "lon": 80}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n in ("circle", "axis", "S^2") else pytest.mark.slow)
        for n in RUNS
    ],
)
def test_densities_on_a_grid_are_those_at_its_points_with_mass_one(name):
    sol = run(name)
    ds = sol.to_dataset(exact_grid(sol))
    assert float(ds.density.max() - ds.density.min()) > 0.5
    # the tolerance of the mesh, or of the tail
    assert np.abs(mass(ds.density) - 1.0).max() < (1e-6 if name == "mesh" else 1e-8)
    if "lat" in ds.dims:
        lat, lon = (np.radians(one) for one in xr.broadcast(ds.lat, ds.lon))
        points = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
    elif "angle" in ds.dims:
        points = [np.cos(ds.angle), np.sin(ds.angle)]
    else:
        points = [np.sqrt(1.0 - ds.cosine**2), 0.0 * ds.cosine, ds.cosine]
    points = np.stack([one.values.ravel() for one in points], axis=1)
    for t in sol.t:
        there = sol.pdf(points, t).reshape(ds.density.shape[1:])
        # rounding of a series of some hundred terms
        assert np.abs(ds.density.sel(t=t) / there - 1.0).max() < 1e-11
    assert ds.energy.equals(sol.dataset.energy)


@pytest.mark.slow
def test_a_map_is_one_that_geographers_know(tmp_path):
    sol = run("S^2")
    sol.to_dataset(grid=36).to_netcdf(tmp_path / "map.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "map.nc", engine="h5netcdf") as ds:
        assert ds.density.dims == ("t", "lat", "lon")
        assert ds.density.shape == (3, 36, 72)
        assert ds.attrs["Conventions"].startswith("CF-1")
        assert (ds.lat.standard_name, ds.lat.units) == ("latitude", "degrees_north")
        assert (ds.lon.standard_name, ds.lon.units) == ("longitude", "degrees_east")
        assert (ds.lat.axis, ds.lon.axis) == ("Y", "X")
        assert ds.density.units == ds.t.units == "1"
        assert np.allclose(ds.lat[[0, -1]], [-87.5, 87.5])
        assert np.allclose(ds.lon[[0, -1]], [0.0, 355.0])
        # the heavier bump is at longitude 90 of the equator, the other at the north pole
        heavier, other = (
            ds.density.isel(t=0).sel(lat=lat, lon=90, method="nearest") for lat in (0, 90)
        )
        assert float(heavier) > float(other) > 1.0
        assert abs(float(heavier.lat)) < 3.0
        far = ds.density.isel(t=0).sel(lat=0, lon=270, method="nearest")
        assert float(far) < 0.2
    with pytest.raises(ValueError, match="got none, as in a dataset of a study"):
        mf.load(tmp_path / "map.nc")


def test_a_measure_about_an_axis_has_a_map_too():
    sol = run("axis")
    ds = sol.to_dataset({"lat": [90.0, 0.0, -90.0], "lon": 8})
    assert float(ds.density.std("lon").max()) < 1e-12
    along = sol.to_dataset({"cosine": [1.0, 0.0, -1.0]}).density
    assert np.allclose(ds.density.isel(lon=0), along, rtol=1e-12)
    assert along.cosine.long_name == "⟨x, axis⟩"


@pytest.mark.slow
def test_mass_that_a_grid_misses_is_said():
    """Of FourierSeries under SA(4) the peak is between the angles at t = 15."""
    late = mf.evolve(mf.FlowMap(LAW), mf.SA(4.0), 15.0, 1)
    with pytest.warns(UserWarning, match=r"mass 1.82e-06 in place of 1 at t = 15"):
        ds = late.to_dataset(90)
    assert np.allclose(ds.grid_mass, ds.density.mean("angle"), rtol=1e-12)
    assert abs(ds.grid_mass[0] - 1.0) < 1e-12


@pytest.mark.parametrize("axis", [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
def test_the_mass_of_a_grid_is_of_second_order(axis):
    """In any order of its values, which end anywhere."""
    law = mf.VonMisesFisher(axis, 4.0)
    sol = mf.evolve(mf.Density(mf.Zonal(len(axis), 63), law), mf.SA(1.0), 0.1, 1)
    errors = [abs(float(sol.to_dataset(n).grid_mass[0]) - 1.0) for n in (50, 100)]
    assert 3.5 < errors[0] / errors[1] < 4.5
    assert errors[1] < 1e-3
    shuffled = np.random.default_rng(0).permutation(np.linspace(-1.0, 1.0, 100))
    given = sol.to_dataset({"cosine": shuffled})
    assert np.allclose(given.grid_mass, sol.to_dataset(100).grid_mass, rtol=1e-12)


def test_a_map_has_its_mass_wherever_longitudes_start():
    sol = run("axis")
    whole = sol.to_dataset(90).grid_mass
    assert np.abs(whole - 1.0).max() < 1e-3
    mapped = {"lat": 90, "lon": [170.0, -350.0, 95.0, 340.0, -180.0]}
    other = sol.to_dataset(mapped)
    assert np.abs(other.grid_mass - 1.0).max() < 1e-3
    # a meridian near a peak is not the sphere, and nobody is warned of it
    circle = run("circle")
    assert abs(float(circle.to_dataset({"angle": [0.0]}).grid_mass[0]) - 1.0) > 0.1


def test_without_a_grid_it_is_what_the_file_holds(tmp_path):
    sol = run("S^2")
    sol.save(tmp_path / "run.nc")
    with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as stored:
        xr.testing.assert_identical(sol.to_dataset(), stored.load())
    ds = sol.to_dataset()
    assert list(ds.coefficients.coords) == ["t", "degree", "order", "part"]
    real = float(ds.coefficients.sel(t=0.5, degree=1, order=0, part=0))
    # Y_10 = √3 x_3, orthonormal for σ
    assert abs(real - np.sqrt(3.0) * sol.final.mean()[2]) < 1e-12


@pytest.mark.parametrize("kind", ["S^2", "polar", "circle"])
def test_a_grid_that_memory_does_not_hold_is_refused(kind, monkeypatch):
    """Before a number of it is made, at any number of points; its neighbour is made."""
    sol = run(kind)
    too_many = r"grid must have at most (\d+) points for 3 saves, (\d+) bytes each, .* got (\d+),"
    for grid in (10**12, 10**15):
        with pytest.raises(ValueError, match=too_many):
            sol.to_dataset(grid)
    monkeypatch.setattr("meanfield.evolution.gridded.memory_of_machine", lambda: 1e6)
    with pytest.raises(ValueError, match=too_many) as refused:
        sol.to_dataset(10**4)
    most, size, count = map(int, re.search(too_many, str(refused.value)).groups())
    # the density at all saves, and the points
    assert size >= 8 * (3 + sol.final.dim)
    assert most * size <= 1e6
    assert count == (2 * 10**8 if kind == "S^2" else 10**4)
    names = {"S^2": ("lat", "lon"), "polar": ("cosine",), "circle": ("angle",)}[kind]
    last = int(most ** (1.0 / len(names)))
    assert sol.to_dataset(dict.fromkeys(names, last)).density[0].size <= most
    with pytest.raises(ValueError, match=too_many):
        sol.to_dataset(dict.fromkeys(names, np.linspace(0.0, 1.0, most + 1)))


def test_what_is_no_grid_is_refused():
    sol, line = run("S^2"), run("polar")
    for grid in (1, 2.5, "x", [1.0, 2.0]):
        with pytest.raises(ValueError, match="grid must be an integer >= 2, got"):
            sol.to_dataset(grid)
    for grid in ({"lat": 9}, {"cosine": 9}, {"lat": 9, "lon": 9, "angle": 9}, {1: 9}, {}):
        with pytest.raises(
            ValueError, match="grid must be an integer >= 2, or map 'lat' and 'lon'"
        ):
            sol.to_dataset(grid)
    with pytest.raises(
        ValueError, match=r"grid\['lat'\] must hold values in \[-90, 90\], got .*91"
    ):
        sol.to_dataset({"lat": [0.0, 91.0], "lon": 9})
    with pytest.raises(ValueError, match=r"grid\['lat'\] must be an array of numbers, got "):
        sol.to_dataset({"lat": [[1.0], [1.0, 2.0]], "lon": 9})
    with pytest.raises(ValueError, match=r"grid\['lon'\] must be finite, got nan"):
        sol.to_dataset({"lat": 9, "lon": [np.nan]})
    with pytest.raises(ValueError, match="map 'cosine' or 'lat' and 'lon' to integers or values"):
        line.to_dataset({"angle": 9})
    tokens = mf.evolve(mf.Particles.sample(BUMPS, 9, rng=0), mf.SA(1.0), 0.1, 1)
    with pytest.raises(ValueError, match=r"grid must be None for Particles.* which has no density"):
        tokens.to_dataset(90)
