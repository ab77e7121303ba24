"""Pictures of one measure show the numbers that they claim to show."""

import re

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

import meanfield as mf
from meanfield.plot import panels
from meanfield.spaces.geometry import circle_angles, circle_points, sphere_angles, sphere_points
from tests.handmade import POLE, PROJECTIONS, SERIES, bump, curve, texts
from tests.plot.drawn import TWO_BUMPS, PathCollection, flow, held, points, stems


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
    # an ellipse fills π/4 of its box
    assert inside.mean() > 0.77
    assert np.ptp(expected) > 1
    # angles of the projection have 1e-13 beside the rim, and f has slopes up to 50
    assert np.max(np.abs(values.ravel()[inside] - expected)) < 1e-10


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
    # pixels: the 50 brightest are a disc of radius 4, of which the grid of the map is as coarse
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


def test_curve_around_the_circle_passes_the_nodes():
    mu = flow()
    angles, heights = curve(mf.plot.density(mu)).get_data()
    expected = np.exp(mu.log_density)
    expected /= max(expected.max(), 2.0)
    assert np.ptp(expected) > 0.4
    assert np.interp(mu.angles, angles, heights) == pytest.approx(expected, abs=1e-13)


def test_a_thinned_curve_keeps_its_peak():
    """A bump of width 2e-3 between two of 300 places."""
    law = mf.VonMisesFisher(circle_points([2.001])[0], 2.5e5)
    exact = float(law.pdf(circle_points([2.001]))[0])
    for measure in (mf.Density(mf.Circle(4096), law), mf.FlowMap(law)):
        angles, values = panels.curve(measure, 300)
        assert (angles[0], angles[-1]) == (0.0, 2.0 * np.pi)
        assert (np.diff(angles) > 0.0).all()
        assert len(angles) <= 721 + 301
        # the nearest node is within half of 2π/4096, where f has lost 7 %
        assert values.max() == pytest.approx(exact, rel=0.1)
        assert angles[values.argmax()] == pytest.approx(2.001, abs=1e-3)


# the trapezoidal rule errs by the square of its steps: 2e-5 on equal ones of a density up to
# π/360; a flow map has nodes besides, and on its longer steps errs by 1e-3
@pytest.mark.parametrize("dim", [2, 3, 10, 200])
def test_profile_is_the_law_of_the_polar_angle(dim):
    axis = np.eye(dim)[0]
    mu = mf.Density(mf.Zonal(dim, 63, axis), mf.VonMisesFisher(axis, 5.0))
    angles, law = curve(mf.plot.density(mu)).get_data()
    assert np.trapezoid(law, angles) == pytest.approx(1.0, abs=1e-4)
    assert np.trapezoid(law * np.cos(angles), angles) == pytest.approx(mu.mean()[0], abs=1e-4)


@pytest.mark.parametrize("dim", [3, 10])
def test_profile_of_a_flow_map_is_that_of_its_density(dim):
    mu = flow(dim)
    angles, law = curve(mf.plot.density(mu)).get_data()
    assert np.trapezoid(law, angles) == pytest.approx(1.0, abs=1e-3)
    mean = np.trapezoid(law * np.cos(angles), angles)
    assert mean == pytest.approx(mu.mean() @ mu.axis, abs=1e-3)
    assert abs(mean) > 0.05
    density = mf.Density(mf.Zonal(dim, 63, mu.axis), mf.ZonalSeries(dim, [0.8]))
    theirs, drawn = curve(mf.plot.density(density)).get_data()
    # two linear interpolations, each with the error above
    assert np.interp(theirs, angles, law) == pytest.approx(drawn, abs=2e-3)


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_atoms_are_stems_at_their_angles_as_high_as_their_mass(dim):
    mu = held(dim)
    ax = mf.plot.density(mu)
    expected = np.array([[0.3, 2.5], mu.atom_masses])
    assert stems(ax) == pytest.approx(expected, abs=1e-12)
    assert pytest.approx(expected, abs=1e-12) == points(ax).T
    # mass 1 is the height of the scale: in a panel of a profile that of its axes
    height = ax.transData if dim == 2 else ax.get_xaxis_transform()
    (dots,) = ax.findobj(PathCollection)
    placed = dots.get_offset_transform().transform(expected.T)
    assert placed == pytest.approx(height.transform(expected.T))
    if dim > 2:
        assert [text for text in texts(ax) if text.startswith("atom")] == [
            f"atom {mass:.3g}" for mass in sorted(mu.atom_masses, reverse=True)
        ]


def test_tokens_as_atoms_and_atoms_that_look_alike():
    cloud = mf.PointCloud(circle_points([0.5, 0.5 + 1e-9, 2.0, 4.0]))
    ax = mf.plot.density(mf.FlowMap(cloud))
    assert stems(ax) == pytest.approx(np.array([[0.5, 2.0, 4.0], [0.5, 0.25, 0.25]]))


@pytest.mark.parametrize("dim", [2, 3, 10])
@pytest.mark.parametrize("stretch", [4.0, 230.0, 1e4, -1e4])
def test_the_scale_ends_and_says_so(dim, stretch):
    """Densities of 1e100 and more stay on the panel, which tells how far they go."""
    mu = held(dim, stretch)
    ax = mf.plot.density(mu)
    ax.figure.draw_without_rendering()
    values = curve(ax).get_ydata()
    assert np.isfinite(values).all()
    assert values.max() <= (1.0 if dim == 2 else 1e4)
    cut = [text for text in texts(ax) if "↑" in text]
    assert len(cut) == (stretch > 10)
    if cut and dim == 2:
        peak = mu.log_density[mu.owners < 0].max() / np.log(10)
        leading, exponent = re.fullmatch(r"to (\d)e(\d+) ↑", cut[0]).groups()
        # one digit: 1.5 is told as 1 or 2
        assert np.log10(int(leading)) + int(exponent) == pytest.approx(peak, abs=0.18)


def test_tokens_are_where_they_are():
    cloud = SERIES["tokens d=3"](2.0)
    longitude, latitude = points(mf.plot.density(cloud)).T
    drawn = sphere_points(np.pi / 2 - latitude, longitude)
    assert np.max(np.abs(drawn - cloud.points)) < 1e-14
    cloud = SERIES["tokens d=2"](2.0)
    assert np.array_equal(points(mf.plot.density(cloud))[:, 0], circle_angles(cloud.points))


def test_tokens_beside_the_circle_bear_their_histogram():
    cloud = mf.Particles(circle_points([0.05, 0.06, 3.0]), [1.0, 1.0, 2.0], unit_mass=True)
    bars = [bar for bar in mf.plot.density(cloud).patches if bar.get_height() > 0]
    assert [round(bar.get_x() / (2 * np.pi / 90)) for bar in bars] == [0, 42]
    assert bars[0].get_height() == bars[1].get_height() == 1.0


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_tokens_are_drawn_by_their_weight(dim):
    """Areas are in proportion to weights, and weights make the plane that is seen."""
    rng = np.random.default_rng(6)
    places, weights = rng.normal(size=(12, dim)), rng.uniform(0.1, 1.0, 12)
    # of few coordinates much weight
    places[:6, 2:] *= 0.1
    weights[6:] *= 0.01
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    ax = mf.plot.density(mf.Particles(places, weights, unit_mass=True))
    sizes = ax.findobj(PathCollection)[0].get_sizes()
    np.testing.assert_allclose(sizes / sizes[0], weights / weights[0], rtol=1e-14)
    if dim == 5:
        shares, seen = weights / weights.sum(), points(ax)
        # the largest variance that a plane can have
        apart, spread = places - shares @ places, seen - shares @ seen
        most = np.linalg.eigvalsh((shares[:, None] * apart).T @ apart)[-2:].sum()
        assert shares @ np.sum(spread**2, axis=1) == pytest.approx(most, rel=1e-13)


def test_particles_are_drawn_by_their_mass():
    mu = mf.FlowMap(TWO_BUMPS, tol=1e-2)
    masses, logs = mu.weights.copy(), mu.log_density.copy()
    masses[-3:], logs[-3:] = [0.1, 0.2, 0.4], np.inf
    mu = mu.moved_to(1.0, points=mu.points, weights=masses, log_density=logs)
    sizes = mf.plot.density(mu).collections[-1].get_sizes()
    assert sizes / sizes[0] == pytest.approx([1.0, 2.0, 4.0])


@pytest.mark.slow
def test_nodes_on_the_sphere_have_the_colour_of_their_density():
    """In the panel of a run, too, which has a colour bar for them."""
    sol = mf.evolve(mf.FlowMap(TWO_BUMPS, tol=1e-3), mf.SA(4.0), 8.0, 1)
    mu = sol.final
    assert 0 < mu.n_nodes < len(mu.points)
    nodes, particles = mf.plot.density(mu).collections[-2:]
    assert np.allclose(nodes.get_array(), np.sort(np.exp(mu.log_density[: mu.n_nodes])))
    assert len(particles.get_offsets()) == len(mu.points) - mu.n_nodes
    figure = mf.plot.solution(sol, panels=1)
    (bar,) = (ax for ax in figure.axes if ax.get_ylabel() == "density f")
    dots = next(each for each in figure.axes[0].collections if each.get_array() is not None)
    assert bar.get_ylim() == pytest.approx((dots.norm.vmin, dots.norm.vmax))


@pytest.mark.parametrize("kind", SERIES)
def test_draws_into_given_axes(kind):
    ax = Figure().add_subplot(projection=PROJECTIONS[kind])
    children = len(ax.get_children())
    assert SERIES[kind](1.0).plot(ax) is ax
    assert len(ax.get_children()) > children


@pytest.mark.parametrize(
    ("measure", "wanted", "projection"),
    [
        *[(SERIES[kind](1.0), PROJECTIONS[kind], "hammer") for kind in SERIES],
        (flow(), "polar", "rectilinear"),
        (flow(3), "rectilinear", "mollweide"),
    ],
)
def test_axes_of_another_projection_are_refused(measure, wanted, projection):
    ax = Figure().add_subplot(projection=projection)
    message = f"ax must have projection '{wanted}' for {measure!r}"
    with pytest.raises(ValueError, match=re.escape(message[:60])):
        mf.plot.density(measure, ax)
