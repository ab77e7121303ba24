"""Pictures of flow maps and of metastability: curves, atoms and plateaus stand where they are."""

import re

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

import meanfield as mf
from meanfield.spaces.geometry import circle_points
from tests.handmade import SERIES, curve, run, texts

ORANGE = "#d55e00"


def flow(dim=2):
    law = mf.FourierSeries(cos=[0.5]) if dim == 2 else mf.ZonalSeries(dim, [0.8])
    return mf.FlowMap(law)


def held(dim=2, stretch=0.0):
    """The first panel held at 0.3, the last at 2.5 (or once around), f at the others e^stretch."""
    free = flow(dim)
    angles, owners = free.angles.copy(), free.owners.copy()
    angles[:16], angles[-16:] = 0.3, 2.5 + 2 * np.pi * (dim == 2)
    owners[:16], owners[-16:] = 0, 1
    expansion = np.where(owners < 0, -stretch, 0.0)
    atoms = np.array([angles[0], angles[-1]])
    return free._moved(angles=angles, owners=owners, atoms=atoms, expansion=expansion)


def stems(ax):
    """The angles of atoms and how high their stems are."""
    (found,) = ax.findobj(LineCollection)
    ends = np.array([segment[1] for segment in found.get_segments()])
    assert all(segment[0, 1] == 0.0 for segment in found.get_segments())
    return ends.T


def test_curve_around_the_circle_passes_the_nodes():
    mu = flow()
    angles, heights = curve(mf.plot.density(mu)).get_data()
    expected = np.exp(mu.log_density)
    expected /= max(expected.max(), 2.0)
    assert np.ptp(expected) > 0.4
    assert np.interp(mu.angles, angles, heights) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("dim", [3, 10])
def test_profile_of_a_flow_map_is_the_law_of_its_polar_angle(dim):
    mu = flow(dim)
    angles, law = curve(mf.plot.density(mu)).get_data()
    # the trapezoidal rule on steps up to π/360 errs by their square
    assert np.trapezoid(law, angles) == pytest.approx(1.0, abs=1e-3)
    mean = np.trapezoid(law * np.cos(angles), angles)
    assert mean == pytest.approx(mu.mean() @ mu.axis, abs=1e-3)
    assert abs(mean) > 0.05
    space = mf.Zonal(dim, 63, mu.axis)
    density = mf.Density(space, mf.ZonalSeries(dim, [0.8]))
    theirs, drawn = curve(mf.plot.density(density)).get_data()
    assert np.interp(theirs, angles, law) == pytest.approx(drawn, abs=2e-3)


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_atoms_are_stems_at_their_angles_as_high_as_their_mass(dim):
    mu = held(dim)
    ax = mf.plot.density(mu)
    expected = np.array([[0.3, 2.5], mu._atom_masses])
    assert stems(ax) == pytest.approx(expected, abs=1e-12)
    (dots,) = ax.findobj(PathCollection)
    assert pytest.approx(expected, abs=1e-12) == np.asarray(dots.get_offsets()).T
    # mass 1 is the height of the scale: in a panel of a profile that of its axes
    height = ax.transData if dim == 2 else ax.get_xaxis_transform()
    placed = dots.get_offset_transform().transform(expected.T)
    assert placed == pytest.approx(height.transform(expected.T))
    if dim > 2:
        assert [text for text in texts(ax) if text.startswith("atom")] == [
            f"atom {mass:.3g}" for mass in sorted(mu._atom_masses, reverse=True)
        ]


def test_tokens_as_atoms_and_atoms_that_look_alike():
    cloud = mf.PointCloud(circle_points([0.5, 0.5 + 1e-9, 2.0, 4.0]))
    ax = mf.plot.density(mf.FlowMap(cloud))
    assert stems(ax) == pytest.approx(np.array([[0.5, 2.0, 4.0], [0.5, 0.25, 0.25]]))


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3, 10])
@pytest.mark.parametrize("stretch", [4.0, 30.0, 230.0, 1e4, -1e4])
def test_the_scale_ends_and_says_so(dim, stretch):
    """Densities of 1e100 and more stay on the panel, which tells how far they go."""
    mu = held(dim, stretch)
    ax = mf.plot.density(mu)
    ax.figure.canvas.draw()
    values = curve(ax).get_ydata()
    assert np.isfinite(values).all()
    assert values.max() <= (1.0 if dim == 2 else 1e4)
    cut = [text for text in texts(ax) if "↑" in text]
    assert len(cut) == (stretch > 10)
    if cut and dim == 2:
        peak = mu.log_density[mu.owners < 0].max() / np.log(10)
        leading, exponent = re.fullmatch(r"to (\d)e(\d+) ↑", cut[0]).groups()
        assert np.log10(int(leading)) + int(exponent) == pytest.approx(peak, abs=0.18)


@pytest.fixture(scope="module", params=["circle", "zonal"])
def mixed(request):
    dim = 2 if request.param == "circle" else 10
    measures = [SERIES[request.param](kappa) for kappa in (0.5, 5.0)]
    # by hand a run starts with flow maps only where it has no tail
    sol = run([held(dim, 70.0), flow(dim), *measures[::-1]], status="clustered")
    sol.measures.reverse()
    for name in ("energy", "dissipation"):
        sol.dataset[name][:] = sol.dataset[name].values[::-1].copy()
    sol.dataset["tail"] = "t", np.full(4, 1e-12)
    sol.dataset["dissipation"][2] = np.nan
    return sol


@pytest.mark.slow
def test_a_run_from_density_to_flow_map(mixed):
    figure = mf.plot.solution(mixed)
    figure.canvas.draw()
    measures = figure.axes[:4]
    assert len(figure.axes) == 7
    assert len({ax.name for ax in measures}) == 1
    assert len({ax.get_ylim() for ax in measures}) == 1
    assert stems(measures[-1]).shape == (2, 2)
    assert "number of nodes" in [ax.get_title(loc="left") for ax in figure.axes]
    assert "clustered" in figure.get_suptitle()
    assert figure._suptitle.get_color() == "black"


@pytest.mark.slow
def test_numbers_that_a_time_does_not_have(mixed):
    _, y = curve(mf.plot.dissipation(mixed)).get_data()
    assert np.array_equal(np.isnan(y), [False, False, True, False])
    sol = run([flow(), flow(), held()])
    sol.dataset["energy"][1] = np.nan
    assert np.isfinite(mf.plot.energy(sol).get_ylim()).all()
    mf.plot.solution(sol).canvas.draw()


def test_nodes_are_those_of_the_flow_maps(mixed):
    ax = mf.plot.nodes(mixed)
    counts = [len(mixed.measures[2].angles), len(mixed.measures[3].angles)]
    assert list(curve(ax).get_ydata()[2:]) == counts
    assert np.isnan(curve(ax).get_ydata()[:2]).all()
    series = [measure.space.size for measure in mixed.measures[:2]]
    assert list(curve(ax, "0.45").get_ydata()) == series
    _, right = ax.figure.axes
    dim = mixed.final.dim
    assert right.lines[0].get_ydata() == pytest.approx([0.0, 70.0 / (dim - 1) / np.log(10)])
    given = Figure().add_subplot()
    assert mf.plot.nodes(mixed, given) is given


def study(**changes):
    """Two runs with three clusters, then two, then one; the second without any end."""
    t = np.geomspace(0.1, 1e3, 50)
    counts = np.where(t < 1, 0, np.where(t < 10, 3, np.where(t < 100, 2, 1)))
    cluster = np.arange(3)
    there = cluster < counts[:, None]
    mass = np.where(there, 1.0 / np.maximum(counts, 1)[:, None], np.nan)
    angle = np.where(there, 1.0 + 2.0 * cluster, np.nan)
    nan = np.nan
    by_run = {
        "growth_rate_predicted": [0.5, 0.7],
        "grown_degree": [3, 4],
        "predicted_degree": [3, 5],
        "largest_growth_rate": [0.5, 0.8],
    }
    return xr.Dataset(
        {
            "energy_share": (("run", "t"), np.stack([0.2 + 0.25 * counts, 0.1 + 0 * t])),
            "n_clusters": (("run", "t"), np.stack([counts, 0 * counts])),
            "cluster_angle": (("run", "t", "cluster"), np.stack([angle, nan * angle])),
            "cluster_mass": (("run", "t", "cluster"), np.stack([mass, nan * mass])),
            "plateau_start": (("run", "plateau"), [[1, 10, 100], 3 * [nan]]),
            "plateau_end": (("run", "plateau"), [[9, 90, 1000], 3 * [nan]]),
            "plateau_n_clusters": (("run", "plateau"), [[3, 2, 1], 3 * [nan]]),
            "merging_time": (("run", "merger"), [[10.0, 100.0], [nan, nan]]),
            **{name: ("run", values) for name, values in by_run.items()},
        },
        coords={"beta": ("run", [9.0, 16.0]), "dynamics": ("run", ["SA", "USA"]), "t": t},
    ).assign(changes)


@pytest.mark.slow
def test_metastability_shows_plateaus_clusters_and_mergers():
    ds = study()
    figure = mf.plot.metastability(ds)
    figure.canvas.draw()
    upper, lower = figure.axes
    assert figure.get_suptitle() == "SA, β = 9: degree 3 grew, as predicted (γ$_{3}$ = 0.5)"
    assert upper.get_xscale() == lower.get_xscale() == "log"
    assert texts(upper) == ["3 clusters", "2 clusters", "1 cluster"]
    assert [patch.get_x() for patch in upper.patches] == [1, 10, 100]
    assert [line.get_xdata()[0] for line in lower.lines] == [10, 100]
    assert np.array_equal(curve(upper).get_ydata(), ds.energy_share[0])
    (dots,) = lower.findobj(PathCollection)
    assert len(dots.get_offsets()) == ds.n_clusters[0].sum()
    assert set(np.round(dots.get_offsets()[:, 1], 12)) == {1.0, 3.0, 5.0}
    sizes = np.asarray(dots.get_sizes())
    assert sizes.max() - 0.8 == pytest.approx(3.0 * (sizes.min() - 0.8))


@pytest.mark.slow
def test_metastability_of_a_run_without_clusters():
    figure = mf.plot.metastability(study(status=("run", ["finished", "failed"])), 1)
    figure.canvas.draw()
    told = "degree 4 grew (γ$_{4}$ = 0.7), degree 5 predicted (γ$_{5}$ = 0.8)"
    assert figure.get_suptitle() == f"USA, β = 16, failed: {told}"
    assert figure._suptitle.get_color() == ORANGE
    assert texts(figure.axes[0]) == ["E(δ) ↑"]
    assert len(figure.axes[1].lines) == 0


def test_metastability_where_nothing_grew():
    rates = {"grown_degree": ("run", [0, 4]), "growth_rate_predicted": ("run", [0.0, 0.7])}
    title = mf.plot.metastability(study(**rates)).get_suptitle()
    assert title == "SA, β = 9: no degree grew, degree 3 predicted (γ$_{3}$ = 0.5)"


def test_metastability_is_drawn_over_the_time_of_its_run():
    times = np.stack([study().t, 7.0 * study().t])
    ax = mf.plot.metastability(study(time=(("run", "t"), times)), run=1).axes[0]
    assert ax.get_xlim() == pytest.approx((0.7, 7e3))


def test_arguments_are_checked():
    density = run([SERIES["circle"](1.0)])
    for message, call in {
        "with ['merging_time'], got <xarray": lambda: mf.plot.metastability(
            study().drop_vars("merging_time")
        ),
        "run must be an integer >= 0 and <= 1, got 2": lambda: mf.plot.metastability(study(), 2),
        "ds must have times t > 0 in run 0, got [": lambda: mf.plot.metastability(
            study().assign_coords(t=-study().t)
        ),
        "sol must hold flow maps, got Solution(finished": lambda: mf.plot.nodes(density),
        "ax must have projection 'polar' for FlowMap(dim=2": lambda: mf.plot.density(
            flow(), Figure().add_subplot()
        ),
        "ax must have projection 'rectilinear' for FlowMap(dim=3": lambda: mf.plot.density(
            flow(3), Figure().add_subplot(projection="mollweide")
        ),
    }.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            call()


def test_particles_are_drawn_by_their_mass():
    law = mf.Mixture(
        [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.0, 1.0, 0.0], 3.0)]
    )
    mu = mf.FlowMap(law, tol=1e-2)
    masses, logs = mu.weights.copy(), mu.log_density.copy()
    masses[-3:], logs[-3:] = [0.1, 0.2, 0.4], np.inf
    mu = mu._moved(1.0, points=mu.points, weights=masses, log_density=logs)
    sizes = mf.plot.density(mu).collections[-1].get_sizes()
    assert sizes / sizes[0] == pytest.approx([1.0, 2.0, 4.0])


@pytest.mark.slow
def test_nodes_on_the_sphere_have_the_colour_of_their_density():
    law = mf.Mixture(
        [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.0, 1.0, 0.0], 3.0)]
    )
    sol = mf.evolve(mf.FlowMap(law, tol=1e-5), mf.SA(4.0), 4.0, 1)
    flow = sol.final
    assert 0 < flow.n_nodes < len(flow.points)
    nodes, particles = mf.plot.density(flow).collections[-2:]
    assert np.allclose(nodes.get_array(), np.sort(np.exp(flow.log_density[: flow.n_nodes])))
    assert len(particles.get_offsets()) == len(flow.points) - flow.n_nodes
    assert len(mf.plot.solution(sol).axes) >= 5
