"""Laws by their values: series that come back, orders of convergence, turns, mass and refusals."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield._records import from_record, to_record
from meanfield.kernels.multipliers import scaled_eigenvalues
from meanfield.laws import LAWS
from meanfield.laws.tabulated import _CONDITION, _Whole
from meanfield.spaces.geometry import circle_points, line_points, sphere_points
from tests.laws.handmade import equispaced

SERIES = mf.FourierSeries(cos=[0.5, 0.1], sin=[0.0, 0.3])
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0), mf.VonMisesFisher([0.0, 0.8, -0.6], 1.0)], [0.6, 0.4]
)
ANGLES = np.random.default_rng(7).uniform(0.0, 2.0 * np.pi, 60)


def grid(n_lat, n_lon):
    """Points of a grid of latitudes and longitudes, both poles among them n_lon times."""
    colatitudes = np.linspace(0.0, np.pi, n_lat)
    longitudes = np.linspace(0.0, 2.0 * np.pi, n_lon)
    return sphere_points(np.repeat(colatitudes, n_lon), np.tile(longitudes, n_lat))


def spiral(n):
    i = np.arange(n) + 0.5
    return sphere_points(np.arccos(1.0 - 2.0 * i / n), np.pi * (1.0 + 5.0**0.5) * i)


def rotation(dim, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0]


ON_CIRCLE = {
    "as many as it has coefficients": equispaced(7, 0.2),
    "an even number": equispaced(8, -9.0),
    "with both ends": np.linspace(0.0, 2.0 * np.pi, 9),
    "in disorder, jittered": np.random.default_rng(0).permutation(
        equispaced(24) + np.random.default_rng(1).uniform(-0.1, 0.1, 24)
    ),
    "at random": np.random.default_rng(2).uniform(0.0, 2.0 * np.pi, 80),
    "in single precision": equispaced(32).astype(np.float32),
}


@pytest.mark.parametrize("angles", ON_CIRCLE.values(), ids=ON_CIRCLE)
def test_a_series_comes_back_from_its_values_on_the_circle(angles):
    points = circle_points(angles)
    for given_ in angles, points:
        law = mf.Tabulated(given_, SERIES.pdf(points))
        assert law.degree >= 2
        # the condition number 19 times rounding of values up to 2, and of their sums
        assert np.abs(law.pdf(circle_points(ANGLES)) - SERIES.pdf(circle_points(ANGLES))).max() < (
            1e-13
        )
        assert law.misfit < 1e-14


@pytest.mark.parametrize("dim", [2, 3, 5, 40])
@pytest.mark.parametrize("angles", [np.linspace(0, np.pi, 9), (np.arange(9) + 0.5) * np.pi / 9])
def test_a_zonal_series_comes_back(dim, angles):
    axis = rotation(dim, dim)[0]
    series = mf.ZonalSeries(dim, [0.4, -0.2, 0.1], axis)
    points = mf.Uniform(dim).sample(40, 0)
    for places in angles, line_points(angles, axis), np.r_[angles, 0.3, 1.0]:
        at = line_points(places, axis) if places.ndim == 1 else places
        law = mf.Tabulated(places, series.pdf(at), axis=axis)
        assert law.dim == dim
        assert np.abs(law.pdf(points) - series.pdf(points)).max() < 1e-13
    assert np.array_equal(mf.Density(mf.Zonal(dim, 15, axis), law).axis, axis)


ON_SPHERE = {
    "a grid": grid(16, 31),
    "a spiral": spiral(400),
    "at random": mf.Uniform(3).sample(600, 3),
    "its own grid": mf.Sphere(7).points,
}


@pytest.mark.parametrize("points", ON_SPHERE.values(), ids=ON_SPHERE)
def test_harmonics_come_back_from_their_values(points):
    rng, space = np.random.default_rng(0), mf.Sphere(6)
    coefficients = 0.02 * rng.normal(size=(space.n_coefficients, 2)) @ [1.0, 1.0j]
    coefficients[: space.n_real].imag = 0.0
    coefficients[0] = 1.0
    series = mf.Density.from_coefficients(space, coefficients)
    law = mf.Tabulated(points, series.pdf(points))
    assert law.degree >= 6
    found = mf.Density(mf.Sphere(law.degree), law)
    # transforms at the points are right to 1e-13 of the largest value, with a condition below 19
    assert np.abs(found.coefficients_on(space) - coefficients).max() < 1e-12
    assert np.abs(coefficients[1:]).max() > 0.03


@pytest.mark.parametrize("n", [12, 13, 16, 17, 24])
def test_interpolation_is_as_good_as_the_series_is_short(n):
    """The error is at most twice what the series has beyond n/2 (aliasing), and not far less."""
    law = mf.VonMisesFisher(0.3, 3.0)
    values = law.pdf(circle_points(equispaced(n)))
    multipliers = scaled_eigenvalues(3.0, 2, 60)
    beyond = 2.0 * (multipliers[(n + 1) // 2 :] / multipliers[0]).sum()
    fine = circle_points(equispaced(400, 0.01))
    error = np.abs(mf.Tabulated(equispaced(n), values, unit_mass=True).pdf(fine) - law.pdf(fine))
    # the mass is off by twice the coefficient n, far less than the first one beyond n/2
    assert 0.3 * beyond < error.max() < 2.2 * beyond + 1e-13


def test_least_squares_on_the_sphere_converges():
    """Twice the degree squares the error, while the error is above rounding."""
    probes, errors, degrees = mf.Uniform(3).sample(200, 0), [], []
    for n in 150, 600, 2400:
        points = mf.Uniform(3).sample(n, 1)
        law = mf.Tabulated(points, BUMPS.pdf(points), unit_mass=True)
        errors.append(np.abs(law.pdf(probes) - BUMPS.pdf(probes)).max())
        degrees.append(law.degree)
    assert degrees == [5, 11, 23]
    # Λ_6(2)/Λ_0(2), times 13 for its harmonics, and a condition below 19; then rounding
    assert 1e-4 < errors[0] < 0.05
    assert 1e-10 < errors[1] < errors[0] ** 2
    assert errors[2] < 1e-12


def test_many_samples_are_those_samples():
    rng = np.random.default_rng(0)
    values = 1.0 + 0.1 * np.cumsum(rng.normal(size=256)) / 16.0
    law = mf.Tabulated(equispaced(256), values, unit_mass=True)
    assert law.degree == 128
    assert np.abs(law.pdf(circle_points(equispaced(256))) - law.values).max() < 1e-13
    assert np.ptp(law.values) > 0.1


@given(st.floats(-7.0, 7.0), st.integers(3, 30), st.integers(0, 2**31), st.booleans())
def test_turning_angles_turns_the_law(turn, n, seed, jitter):
    rng = np.random.default_rng(seed)
    angles = equispaced(n) + jitter * rng.uniform(-0.2, 0.2, n) / n
    values = rng.uniform(1.0, 1.05, n)
    one, other = (
        mf.Tabulated(a, values, degree=1, unit_mass=True) for a in (angles, angles + turn)
    )
    # a turn rounds the angles, which moves values by 1e-15 times the condition number
    moved = other.pdf(circle_points(ANGLES + turn))
    assert np.allclose(one.pdf(circle_points(ANGLES)), moved, rtol=1e-12, atol=0.0)


@pytest.mark.slow
@given(st.integers(0, 2**31), st.integers(40, 200))
def test_turning_points_turns_the_law_on_the_sphere(seed, n):
    points, turn = spiral(n), rotation(3, seed)
    values = BUMPS.pdf(points)
    one, other = (
        mf.Tabulated(x, values, degree=2, unit_mass=True) for x in (points, points @ turn.T)
    )
    probes = mf.Uniform(3).sample(20, seed)
    # weights of the points are turned, too, up to the error of the transforms
    assert np.allclose(one.pdf(probes), other.pdf(probes @ turn.T), rtol=0.0, atol=1e-11)
    assert np.ptp(one.pdf(probes)) > 0.1


@given(st.lists(st.floats(1.0, 1.3), min_size=3, max_size=40), st.floats(1e-3, 1e3))
def test_mass_is_one(values, scale):
    law = mf.Tabulated(equispaced(len(values)), scale * np.array(values), unit_mass=True)
    fine = law.pdf(circle_points(equispaced(64)))
    assert abs(fine.mean() - 1.0) < 1e-14
    # what is scaled already is not scaled again: the law that a file keeps is the same to the bit
    again = mf.Tabulated(law.points, law.values, degree=law.degree)
    assert again == law
    assert np.array_equal(again.pdf(circle_points(ANGLES)), law.pdf(circle_points(ANGLES)))


@pytest.mark.parametrize(
    "law",
    [
        mf.Tabulated(equispaced(12), SERIES.pdf(circle_points(equispaced(12)))),
        mf.Tabulated(
            np.linspace(0.0, np.pi, 6), np.linspace(2.0, 1.0, 6), axis=np.eye(4)[1], unit_mass=True
        ),
        mf.Tabulated(spiral(300), BUMPS.pdf(spiral(300)), degree=7, unit_mass=True),
    ],
    ids=["circle", "axis", "sphere"],
)
def test_draws_and_files(law):
    draws = law.sample(20_000, 0)
    mean = mf.Density(mf.Sphere(9), law).mean() if law.dim == 3 else mf.FlowMap(law).mean()
    # five standard errors of the mean of unit vectors
    assert np.abs(draws.mean(axis=0) - mean).max() < 5.0 / np.sqrt(20_000)
    assert np.linalg.norm(mean) > 0.05
    for again in (
        pickle.loads(pickle.dumps(law)),
        from_record(to_record(law, LAWS), LAWS),
    ):
        assert again == law
        assert np.array_equal(again.pdf(draws[:50]), law.pdf(draws[:50]))


@pytest.mark.slow
def test_a_run_is_resumed_without_the_file(tmp_path):
    """The space doubles after the restart, from the law that the checkpoint has kept."""
    values = mf.VonMisesFisher(0.3, 2.0).pdf(circle_points(equispaced(40)))
    law = mf.Tabulated(equispaced(40), values, unit_mass=True)
    start = mf.Density(mf.Circle(32), law)

    def stop(mu):
        if np.linalg.norm(mu.mean()) > 0.72:
            raise KeyboardInterrupt
        return 0.0

    whole = mf.evolve(start, mf.SA(4.0), 0.5, 10, monitors={"stop": lambda _: 0.0})
    with pytest.raises(mf.exceptions.Interrupted):
        mf.evolve(start, mf.SA(4.0), 0.5, 10, monitors={"stop": stop}, checkpoint=tmp_path / "a.nc")
    again = mf.resume(tmp_path / "a.nc", monitors={"stop": lambda _: 0.0})
    assert again.final.space.size > 32
    assert np.array_equal(again.final.coefficients, whole.final.coefficients)


def test_points_that_leave_a_part_out_determine_low_degrees_only():
    points = mf.Uniform(3).sample(4000, 0)
    half = points[points[:, 2] > 0.0]
    whole, part = _Whole(points, np.ones(4000)), _Whole(half, np.ones(len(half)))
    assert whole.fit(20) is not None
    assert part.fit(20) is None
    assert np.isclose(_CONDITION, 19.0**2)
    with pytest.raises(
        ValueError, match=r"points must determine a series of degree 20, got \d+ that"
    ):
        mf.Tabulated(half, np.ones(len(half)), degree=20)


def test_a_misfit_is_told_and_a_large_one_where_a_degree_smooths():
    angles = np.r_[equispaced(40), 0.05]
    values = np.r_[np.ones(40), 1.5]
    with pytest.warns(RuntimeWarning, match=r"series of degree \d+ misses 0\.\d+ of the values"):
        found = mf.Tabulated(angles, values, unit_mass=True)
    assert found.misfit > 0.01
    assert mf.Tabulated(angles, values, degree=3, unit_mass=True).misfit > found.misfit
    # a degree may smooth noise, but not miss the density
    peak = mf.VonMisesFisher(0.0, 3.0).pdf(circle_points(equispaced(40)))
    with pytest.warns(RuntimeWarning, match=r"degree 1 misses 0\.\d+ .* or a larger degree"):
        mf.Tabulated(equispaced(40), 0.2 + peak + np.roll(peak, 20), degree=1, unit_mass=True)


def test_a_number_is_an_angle_where_one_point_of_the_circle_is_due():
    angle, point = 2.0, [np.cos(2.0), np.sin(2.0)]
    law = mf.VonMisesFisher(angle, 3.0)
    assert law == mf.VonMisesFisher(point, 3.0)
    assert np.array_equal(law.pdf(angle), law.pdf([point]))
    density, flow = mf.Density(mf.Circle(64), law), mf.FlowMap(law)
    assert np.array_equal(density.pdf(angle), density.pdf([point]))
    assert density.pdf(angle)[0] == pytest.approx(law.pdf(angle)[0], abs=1e-12)
    velocity = mf.SA(2.0).velocity(flow, at=angle + 0.5)
    assert velocity.shape == (1, 2)
    assert np.linalg.norm(velocity) > 0.1


def test_values_of_a_function_are_scaled_on_request():
    def hill(points):
        return np.exp(points[:, 0])

    with pytest.raises(
        ValueError, match=r"got mass 1\.266\d+: divide by it, or set unit_mass=True"
    ):
        mf.Density(mf.Circle(32), hill)
    mu = mf.Density(mf.Circle(32), hill, unit_mass=True)
    exact = mf.VonMisesFisher(0.0, 1.0)
    assert np.abs(mu.values - exact.pdf(mu.points)).max() < 1e-14
    assert np.abs(mf.FlowMap(mu).mean() - mu.mean()).max() < 1e-12
