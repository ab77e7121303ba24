"""Points, angles, tangents and geodesics on the sphere: identities, and no digits lost."""

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from meanfield.spaces import geometry

EPS = np.finfo(float).eps
dims = st.sampled_from([2, 3, 4, 10, 50])
seeds = st.integers(0, 2**32 - 1)
angles = st.floats(0.0, 2 * np.pi, exclude_max=True)


def unit_points(dim, n, seed):
    points = np.random.default_rng(seed).normal(size=(n, dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def inner(x, y):
    return np.einsum("...i,...i->...", x, y)


@given(dims, seeds, st.floats(1e-3, 1e3))
def test_projection(dim, seed, scale):
    """P_x is linear, symmetric, idempotent, kills x and keeps what is tangent."""
    x = unit_points(dim, 5, seed)
    v, w = scale * np.random.default_rng([seed, 1]).normal(size=(2, 5, dim))
    tangent = geometry.project(x, v)
    # a scalar product of length d, then one subtraction
    tolerance = 4 * dim * EPS * scale * np.sqrt(dim)
    assert np.max(np.abs(tangent - v)) > 0
    assert np.max(np.abs(inner(x, tangent))) < 4 * tolerance
    assert np.max(np.abs(geometry.project(x, x))) < 4 * dim * EPS
    assert np.max(np.abs(geometry.project(x, tangent) - tangent)) < 4 * tolerance
    assert np.max(np.abs(geometry.project(x, v - 2 * w) - tangent + 2 * geometry.project(x, w))) < (
        20 * tolerance
    )
    symmetric = inner(tangent, w) - inner(v, geometry.project(x, w))
    assert np.max(np.abs(symmetric)) < 20 * tolerance * scale * dim


@given(st.lists(angles, min_size=1, max_size=20))
def test_circle_angles_come_back(drawn):
    theta = np.array(drawn)
    points = geometry.circle_points(theta)
    assert points.shape == (len(drawn), 2)
    assert np.max(np.abs(inner(points, points) - 1)) < 4 * EPS
    found = geometry.circle_angles(points)
    assert np.all((found >= 0) & (found < 2 * np.pi))
    # the points are rounded at size 1, the angles at size 2π; 0 and 2π are one angle
    gap = np.abs(found - theta)
    assert np.max(np.minimum(gap, 2 * np.pi - gap)) < 2 * np.pi * EPS


def test_circle_angles_at_the_seam():
    """Just below the first axis θ is just below 2π, never 2π itself."""
    points = np.array([[1.0, 0.0], [1.0, -0.0], [1.0, -1e-300], [1.0, -1e-9], [-1.0, -0.0]])
    found = geometry.circle_angles(points)
    assert np.all((found >= 0) & (found < 2 * np.pi))
    assert found[3] == 2 * np.pi - 1e-9
    assert found[4] == np.pi


@given(st.one_of(st.just(0.0), st.floats(1e-300, np.pi)), angles)
def test_sphere_angles_come_back(colatitude, longitude):
    point = geometry.sphere_points([colatitude], [longitude])
    assert point.shape == (1, 3)
    assert abs(inner(point, point)[0] - 1) < 4 * EPS
    theta, phi = geometry.sphere_angles(point)
    # relative at the north pole; at the south pole π is rounded
    assert abs(theta[0] - colatitude) <= 4 * EPS * colatitude
    assert 0 <= phi[0] < 2 * np.pi
    if colatitude > 0:
        gap = abs(phi[0] - longitude)
        assert min(gap, 2 * np.pi - gap) < 4 * np.pi * EPS


@pytest.mark.parametrize("small", [1e-300, 1e-9, 1e-5])
def test_colatitude_near_the_poles(small):
    """arccos(z) would return 0 here: half the digits are lost where z rounds to 1."""
    assert np.arccos(np.cos(1e-9)) == 0.0
    theta, phi = geometry.sphere_angles(geometry.sphere_points([small, np.pi - small], [0.7, 4.0]))
    assert theta[0] == pytest.approx(small, rel=4 * EPS)
    assert abs(theta[1] - (np.pi - small)) < 4 * EPS
    assert phi[0] == pytest.approx(0.7, rel=4 * EPS)
    if small > EPS:
        # sin(π - small) is right to the rounding of π
        assert phi[1] == pytest.approx(4.0, rel=4 * EPS)


def test_angles_are_the_points_of_the_textbook():
    right = np.pi / 2
    points = geometry.sphere_points([0, right, right, np.pi], [1.0, 0, right, 2.0])
    expected = [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, -1]]
    assert np.max(np.abs(points - expected)) < 2 * EPS


@given(dims, seeds)
def test_distance_is_a_metric(dim, seed):
    x, y, z = unit_points(dim, 3, seed)
    xy, yz, xz = (geometry.geodesic_distance(a, b) for a, b in ((x, y), (y, z), (x, z)))
    assert 0 < xy < np.pi
    assert geometry.geodesic_distance(y, x) == xy
    assert xz <= xy + yz + 8 * EPS
    assert geometry.geodesic_distance(x, x) == 0.0
    assert geometry.geodesic_distance(x, -x) == np.pi
    # to the antipode: the rest of the half circle
    assert geometry.geodesic_distance(x, -y) == pytest.approx(np.pi - xy, abs=8 * EPS)
    # arccos has a condition number of 1/sin
    assert xy == pytest.approx(np.arccos(inner(x, y)), abs=4 * dim * EPS / np.sin(xy))


@pytest.mark.parametrize("dim", [2, 3, 10])
@pytest.mark.parametrize("gap", [1e-300, 1e-12, 1e-8, 1e-3])
def test_distance_near_zero_and_pi(dim, gap):
    x, y = np.zeros(dim), np.zeros(dim)
    x[0], y[0], y[1] = 1.0, np.cos(gap), np.sin(gap)
    # squares of numbers below 1e-154 underflow in the norm
    near = geometry.geodesic_distance(x, y)
    if gap > 1e-150:
        assert near == pytest.approx(gap, rel=4 * EPS)
        with mpmath.workdps(40):
            exact = float(mpmath.pi - gap)
        assert geometry.geodesic_distance(x, -y) == pytest.approx(exact, rel=2 * EPS)
    else:
        assert 0 <= near <= gap


def test_distance_broadcasts():
    x = unit_points(3, 4, 0)
    table = geometry.geodesic_distance(x[:, None], x[None])
    assert table.shape == (4, 4)
    assert np.array_equal(table, table.T)
    assert np.array_equal(table[0], geometry.geodesic_distance(x[0], x))


@given(dims, seeds, st.floats(0.0, np.pi))
def test_exponential_goes_the_right_way(dim, seed, distance):
    """exp_x(v) is on the sphere, at distance |v| from x, in the direction of v."""
    x = unit_points(dim, 3, seed)
    v = geometry.project(x, np.random.default_rng([seed, 1]).normal(size=x.shape))
    length = np.linalg.norm(v, axis=1, keepdims=True)
    assume(length.min() > 1e-6)
    # projected twice, since the first difference may cancel digits
    v = geometry.project(x, v / length)
    v *= distance / np.linalg.norm(v, axis=1, keepdims=True)
    y = geometry.exponential(x, v)
    tolerance = 4 * dim * EPS
    assert np.max(np.abs(np.linalg.norm(y, axis=1) - 1)) < tolerance
    # |x - y| is rounded at size 1, and so is |x + y|
    assert np.max(np.abs(geometry.geodesic_distance(x, y) - distance)) < 2 * tolerance
    assert np.max(np.abs(geometry.project(x, y) * distance - np.sin(distance) * v)) < 4 * tolerance


def test_exponential_of_nothing_and_of_little():
    x = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert np.array_equal(geometry.exponential(x, np.zeros_like(x)), x)
    v = np.array([[0.0, 1e-200, 0.0], [1e-9, 0.0, 0.0]])
    assert np.array_equal(geometry.exponential(x, v), x + v)


@given(dims, seeds)
def test_perpendicular(dim, seed):
    axis = unit_points(dim, 1, seed)[0]
    across = geometry.perpendicular(axis)
    assert abs(np.linalg.norm(across) - 1) < 4 * EPS
    # the start is at least 45° away from the axis, so at most one digit cancels
    assert abs(axis @ across) < 4 * dim * EPS


def test_perpendicular_on_the_circle_turns_left():
    across = geometry.perpendicular(geometry.circle_points([0.3])[0])
    assert np.max(np.abs(across - geometry.circle_points([0.3 + np.pi / 2])[0])) < 2 * EPS
    for axis in np.eye(4):
        assert abs(geometry.perpendicular(axis) @ axis) == 0.0


@pytest.mark.parametrize("gap", [1e-15, 1e-12, 1e-8, 1e-3])
def test_logarithm_beside_the_antipode_is_tangent(gap):
    """The way to y goes over P_x y, of length sin(gap), whose digits y - x would lose."""
    x = unit_points(3, 1, 0)
    across = np.cross(x, unit_points(3, 1, 1))
    y = gap * across / np.linalg.norm(across) - x
    y /= np.linalg.norm(y)
    velocity = geometry.logarithm(x, y)
    assert abs(inner(x, velocity)[0]) < 8 * EPS * np.pi
    assert np.max(np.abs(geometry.exponential(x, velocity) - y)) < 16 * EPS
