"""Kernels of any matrix between harmonics, against sums over points."""

import numpy as np
import pytest

from meanfield.kernels.bilinear import CircleBilinear, SphereBilinear
from meanfield.spaces.circle import CircleAt
from meanfield.spaces.geometry import circle_angles
from meanfield.spaces.sphere_fields import Places, SphereAt

TURN = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
MATRICES = {
    "zero": np.zeros((3, 3)),
    "identity": 2.0 * np.eye(3),
    "minus": -3.0 * np.eye(3),
    "turned": 5.0 * TURN,
    "mirrored": 4.0 * TURN @ np.diag([1.0, 1.0, -1.0]),
    "one row": np.diag([6.0, 0.0, 0.0]) @ TURN,
    "small": np.array([[0.3, -1.0, 0.2], [0.8, 0.1, 1.1], [-0.4, 0.9, 0.5]]),
    "skew": np.array([[0.0, 9.0, -2.0], [-9.0, 0.0, 5.0], [2.0, -5.0, 0.0]]),
    "large": np.array([[20.0, 3.0, -7.0], [5.0, -11.0, 2.0], [1.0, 8.0, 14.0]]),
}


def unit(n: int, dim: int, seed: int) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(n, dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def places_of(points: np.ndarray) -> object:
    return circle_angles(points) if points.shape[1] == 2 else Places.of(points)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("name", MATRICES)
def test_series_are_the_sums_over_points(dim, name):
    matrix = MATRICES[name][:dim, :dim]
    bilinear = (CircleBilinear if dim == 2 else SphereBilinear)(matrix)
    at = CircleAt if dim == 2 else SphereAt
    sources, points = unit(40, dim, 0), unit(60, dim, 1)
    masses = np.random.default_rng(2).random(40) / 20.0
    moments = at(bilinear.source_degree).moments(places_of(sources), masses)
    series = bilinear.coefficients(moments)
    found = [at(bilinear.degree).values(row, places_of(points)) for row in series]
    terms = masses * np.exp(points @ matrix.T @ sources.T - bilinear.log_unit)
    expected = np.column_stack([terms.sum(axis=1), terms @ sources])
    assert np.abs(expected).max() > 1e-3
    # transforms at points keep 2e-13 of the largest value where series are short
    largest = np.abs(expected).max() + bilinear.mean_potential(moments)
    assert np.abs(np.transpose(found) - expected).max() < 3e-13 * largest


@pytest.mark.parametrize("dim", [2, 3])
def test_scale_of_a_dirac_mass_is_one(dim):
    bilinear = (CircleBilinear if dim == 2 else SphereBilinear)(MATRICES["large"][:dim, :dim])
    at = CircleAt if dim == 2 else SphereAt
    moments = at(bilinear.source_degree).moments(places_of(unit(1, dim, 3)), np.ones(1))
    assert abs(bilinear.mean_potential(moments) - 1.0) < 1e-12


@pytest.mark.parametrize(("made", "low"), [(CircleBilinear, 1e4), (SphereBilinear, 128.0)])
def test_what_is_no_matrix_is_refused(made, low):
    with pytest.raises(ValueError, match=r"matrix must be a number or .*got shape \(4, 4\)"):
        made(np.eye(4))
    with pytest.raises(ValueError, match=f"must be <= {low:g} .*got {1.01 * low:g}: take Part"):
        made(1.01 * low)
    with pytest.raises(ValueError, match="matrix"):
        made(np.full((made.dim, made.dim), np.nan))
