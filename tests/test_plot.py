"""Figures show what the numbers say."""

import numpy as np
import pytest
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

import meanfield as mf
from meanfield.plot.panels import colour_scale


def run(space, law, t_end=1.0):
    return mf.evolve(mf.Density(space, law), mf.SA(4.0), t_end, 8)


RUNS = {
    "circle": lambda: run(mf.Circle(32), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])),
    "sphere": lambda: run(mf.Sphere(15), mf.VonMisesFisher([0.0, 0.6, 0.8], 2.0), 0.3),
    "zonal": lambda: run(mf.Zonal(10, 31), mf.ZonalSeries(10, [0.8]), 3.0),
    "tokens": lambda: mf.evolve(
        mf.Particles.sample(mf.Uniform(5), 30, np.random.default_rng(0)), mf.SA(4.0), 1.0, 4
    ),
}


@pytest.fixture(scope="module", params=RUNS, ids=str)
def sol(request):
    return RUNS[request.param]()


def test_energy_curve_is_the_dataset(sol):
    ax = mf.plot.energy(sol)
    curve, low, high = ax.lines
    assert np.array_equal(curve.get_xdata(), sol.t)
    assert np.array_equal(curve.get_ydata(), sol.dataset["energy"])
    dim = sol.final.dim
    assert low.get_ydata()[0] == pytest.approx(mf.theory.energy_uniform(4.0, dim), rel=1e-12)
    assert high.get_ydata()[0] == pytest.approx(mf.theory.energy_dirac(4.0), rel=1e-12)
    # the bounds are in sight, and the energy between them
    bottom, top = ax.get_ylim()
    assert bottom < low.get_ydata()[0] < curve.get_ydata().min()
    assert curve.get_ydata().max() < high.get_ydata()[0] < top


def test_figure_has_first_and_last_time(sol):
    figure = mf.plot.solution(sol, times=3)
    titles = [ax.get_title() for ax in figure.axes]
    shown = [title for title in titles if title.startswith("t = ")]
    assert shown[0] == "t = 0"
    assert shown[-1] == f"t = {sol.t[-1]:.4g}"
    assert 2 <= len(shown) <= 3


def test_resolution_curve_is_the_dataset(sol):
    ax = mf.plot.resolution(sol)
    name = "tail" if "tail" in sol.dataset else "dissipation"
    shown = ax.lines[0].get_ydata()
    assert np.array_equal(shown, np.maximum(sol.dataset[name].values, 1e-17))


def test_saved_figure_is_a_picture(sol, tmp_path):
    for suffix, start in ((".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")):
        path = tmp_path / f"run{suffix}"
        mf.plot.save(mf.plot.solution(sol), path)
        assert path.read_bytes().startswith(start)


def test_polar_curve_is_the_density():
    mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]))
    ax = mf.plot.density(mu)
    theta, f = ax.lines[0].get_data()
    expected = 1 + 0.5 * np.cos(theta) + 0.3 * np.sin(2 * theta)
    assert np.max(np.abs(f - expected)) < 1e-13


def test_profile_is_the_density():
    mu = mf.Density(mf.Zonal(6, 15), mf.ZonalSeries(6, [0.8]))
    theta, f = mf.plot.density(mu).lines[0].get_data()
    assert np.max(np.abs(f - (1 + 0.8 * np.cos(theta)))) < 1e-13


def test_map_is_the_density():
    mu = mf.Density(mf.Sphere(15), mf.VonMisesFisher([0.0, 0.6, 0.8], 2.0))
    mesh = mf.plot.density(mu).collections[0]
    longitude, latitude = (mesh.get_coordinates()[..., i].ravel() for i in (0, 1))
    points = mf.geometry.sphere_points(np.pi / 2 - latitude, longitude)
    assert np.max(np.abs(np.asarray(mesh.get_array()).ravel() - mu.at(points))) < 1e-12


def test_tokens_are_where_they_are():
    points = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    longitude, latitude = mf.plot.density(mf.Particles(points)).lines[0].get_data()
    assert np.allclose(latitude, [np.pi / 2, 0, 0])
    assert np.allclose(longitude[1:], [0, -np.pi / 2])


def test_histogram_counts_pairs():
    cloud = mf.Particles.sample(mf.Uniform(8), 20, np.random.default_rng(0))
    bars = mf.plot.density(cloud).patches
    assert sum(bar.get_height() for bar in bars) == 20 * 19 / 2


def test_colours_are_logarithmic_only_where_the_range_is_wide():
    flat = mf.Density(mf.Sphere(7), mf.Uniform(3))
    sharp = mf.Density(mf.Sphere(31), mf.VonMisesFisher([0.0, 0.0, 1.0], 10.0))
    assert type(colour_scale([flat])) is Normalize
    scale = colour_scale([flat, sharp])
    assert isinstance(scale, LogNorm)
    assert scale.vmax == sharp.values.max()


def test_refusals(tmp_path):
    sol = RUNS["circle"]()
    with pytest.raises(ValueError, match=r"path must end in .png, .pdf, .svg, got .*run.xyz"):
        mf.plot.save(mf.plot.solution(sol), tmp_path / "run.xyz")
    with pytest.raises(ValueError, match="times must be an integer >= 1"):
        mf.plot.solution(sol, times=0)
    with pytest.raises(ValueError, match="ax must have projection 'polar'"):
        mf.plot.density(sol.final, Figure().add_subplot())
