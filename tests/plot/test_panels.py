"""Pictures of one measure show the numbers that they claim to show; files and arguments."""

import re

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

import meanfield as mf
from meanfield.plot import panels
from meanfield.spaces.geometry import circle_angles, circle_points, sphere_angles, sphere_points
from tests.handmade import POLE, PROJECTIONS, SERIES, bump, curve, run


@pytest.mark.slow
def test_map_is_the_density():
    """Each pixel inside the rim has f at the place that matplotlib's own projection gives it."""
    mu = SERIES["sphere"](5.0)
    ax = mf.plot.density(mu)
    (image,) = ax.findobj(AxesImage)
    values = np.asarray(image.get_array())
    rows, columns = values.shape
    left, right, bottom, top = image.get_extent()
    x = left + (right - left) * (np.arange(columns) + 0.5) / columns
    y = bottom + (top - bottom) * (np.arange(rows) + 0.5) / rows
    x, y = (grid.ravel() for grid in np.meshgrid(x, y))
    inside = (x / right) ** 2 + (y / top) ** 2 < 0.999
    longitude, latitude = ax.transProjection.inverted().transform(np.column_stack([x, y])).T
    expected = mu.pdf(sphere_points(np.pi / 2 - latitude, longitude))[inside]
    assert inside.mean() > 0.77
    assert np.ptp(expected) > 1
    assert np.max(np.abs(values.ravel()[inside] - expected)) < 1e-10


@pytest.mark.slow
def test_map_is_drawn_where_the_axes_say():
    """The brightest spot of the rendered picture is the centre of the larger bump."""
    ax = mf.plot.density(SERIES["sphere"](30.0))
    canvas = ax.figure.canvas
    canvas.draw()
    light = np.asarray(canvas.buffer_rgba())[..., :3].sum(axis=-1).astype(float)
    box = ax.get_window_extent()
    row, column = np.indices(light.shape)
    places = np.stack([column + 0.5, light.shape[0] - row - 0.5], axis=-1)
    rim = (places - [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2]) / [box.width, box.height]
    light[np.sum(rim**2, axis=-1) > 0.24] = 0.0
    brightest = places[light >= np.sort(light, axis=None)[-50]].mean(axis=0)
    colatitude, longitude = sphere_angles(POLE[None])
    expected = ax.transData.transform((longitude[0] - 2 * np.pi, np.pi / 2 - colatitude[0]))
    assert np.hypot(*(brightest - expected)) < 6.0


@pytest.mark.parametrize("kappa", [2.0, 300.0])
def test_curve_around_the_circle_is_the_density(kappa):
    mu = mf.Density(mf.Circle(512), bump(2, kappa))
    angles, height = curve(mf.plot.density(mu)).get_data()
    values = mu.pdf(circle_points(angles))
    highest = mu.values.max()
    if kappa < 100:
        assert height == pytest.approx(values / highest)
    else:
        lifted = np.log(np.maximum(values, 0.1) / 0.1) / np.log(highest / 0.1)
        assert height == pytest.approx(lifted, abs=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 10, 200])
def test_profile_is_the_law_of_the_polar_angle(dim):
    axis = np.eye(dim)[0]
    mu = mf.Density(mf.Zonal(dim, 63, axis), mf.VonMisesFisher(axis, 5.0))
    angles, law = curve(mf.plot.density(mu)).get_data()
    assert np.trapezoid(law, angles) == pytest.approx(1.0, abs=1e-4)
    assert np.trapezoid(law * np.cos(angles), angles) == pytest.approx(mu.mean()[0], abs=1e-4)


@pytest.mark.slow
def test_tokens_are_where_they_are():
    cloud = SERIES["tokens d=3"](2.0)
    (dots,) = mf.plot.density(cloud).findobj(PathCollection)
    longitude, latitude = dots.get_offsets().T
    drawn = sphere_points(np.pi / 2 - latitude, longitude)
    assert np.max(np.abs(drawn - cloud.points)) < 1e-14
    cloud = SERIES["tokens d=2"](2.0)
    (dots,) = mf.plot.density(cloud).findobj(PathCollection)
    assert np.array_equal(dots.get_offsets()[:, 0], circle_angles(cloud.points))


def test_tokens_beside_the_circle_bear_their_histogram():
    cloud = mf.Particles(circle_points([0.05, 0.06, 3.0]), [1.0, 1.0, 2.0], unit_mass=True)
    bars = [bar for bar in mf.plot.density(cloud).patches if bar.get_height() > 0]
    assert [round(bar.get_x() / (2 * np.pi / 90)) for bar in bars] == [0, 42]
    assert bars[0].get_height() == bars[1].get_height() == 1.0


def test_tokens_in_many_dimensions_are_seen_from_their_principal_axes():
    """Two tight clusters span the plane that is seen: their distances stay."""
    rng = np.random.default_rng(2)
    turn, _ = np.linalg.qr(rng.normal(size=(10, 10)))
    angles = np.concatenate([rng.normal(0.0, 1e-3, 50), rng.normal(1.0, 1e-3, 50)])
    cloud = mf.Particles(circle_points(angles) @ turn[:2])
    (dots,) = mf.plot.density(cloud).findobj(PathCollection)
    seen = np.asarray(dots.get_offsets())
    assert seen @ seen.T == pytest.approx(cloud.points @ cloud.points.T)


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_tokens_are_drawn_by_their_weight(dim):
    """Areas are in proportion to weights, and weights make the plane that is seen."""
    rng = np.random.default_rng(6)
    points, weights = rng.normal(size=(12, dim)), rng.uniform(0.1, 1.0, 12)
    # of few coordinates much weight
    points[:6, 2:] *= 0.1
    weights[6:] *= 0.01
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    cloud = mf.Particles(points, weights, unit_mass=True)
    (dots,) = mf.plot.density(cloud).findobj(PathCollection)
    sizes = dots.get_sizes()
    np.testing.assert_allclose(sizes / sizes[0], weights / weights[0], rtol=1e-14)
    if dim == 5:
        shares = weights / weights.sum()
        seen = np.asarray(dots.get_offsets())
        # the largest variance that a plane can have
        apart, spread = points - shares @ points, seen - shares @ seen
        most = np.linalg.eigvalsh((shares[:, None] * apart).T @ apart)[-2:].sum()
        assert shares @ np.sum(spread**2, axis=1) == pytest.approx(most, rel=1e-13)


@pytest.mark.parametrize("kind", SERIES)
def test_draws_into_given_axes(kind):
    ax = Figure().add_subplot(projection=PROJECTIONS[kind])
    assert SERIES[kind](1.0).plot(ax) is ax
    assert len(ax.get_children()) > len(Figure().add_subplot(projection=ax.name).get_children())
    other = Figure().add_subplot(projection="hammer")
    with pytest.raises(ValueError, match=f"ax must have projection '{PROJECTIONS[kind]}' for"):
        mf.plot.density(SERIES[kind](1.0), other)


def test_a_suffix_may_be_in_capitals(folder):
    mf.plot.save(Figure(), "figure.SVG")
    assert (folder / "figure.SVG").read_bytes().startswith(b"<?xml")


def test_arguments_are_checked(tmp_path):
    sol = run([SERIES["circle"](1.0)])
    tokens = run([SERIES["tokens d=2"](1.0)])
    for message, call in {
        "panels must be an integer >= 1 and <= 12, got 0": lambda: mf.plot.solution(sol, panels=0),
        "panels must be an integer >= 1 and <= 12, got 2.5": lambda: mf.plot.solution(
            sol, panels=2.5
        ),
        "sol must hold densities and their tail": lambda: mf.plot.resolution(tokens),
        "path must end in .png, .pdf, .svg, got 'run.bmp'": lambda: mf.plot.save(
            Figure(), "run.bmp"
        ),
        "got 'run'": lambda: mf.plot.save(Figure(), "run"),
    }.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            call()
    with pytest.raises(OSError, match="No such file or directory"):
        mf.plot.save(Figure(), tmp_path / "no" / "run.png")


def test_a_thinned_curve_keeps_its_peak():
    """A bump of width 2e-3 between two of 300 places."""
    law = mf.VonMisesFisher(circle_points([2.001])[0], 2.5e5)
    exact = float(law.pdf(circle_points([2.001]))[0])
    for measure in (mf.Density(mf.Circle(4096), law), mf.FlowMap(law)):
        angles, values = panels.curve(measure, 300)
        assert (angles[0], angles[-1]) == (0.0, 2.0 * np.pi)
        assert (np.diff(angles) > 0.0).all()
        assert len(angles) <= 721 + 301
        assert values.max() == pytest.approx(exact, rel=0.1)
        assert angles[values.argmax()] == pytest.approx(2.001, abs=1e-3)
