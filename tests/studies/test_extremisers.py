"""Extremisers of the energy of a form, with bounds that hold, and searches that find no more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import special_ortho_group

import meanfield as mf
from meanfield.studies.extremisers import (
    SphereBasis,
    ZonalBasis,
    _basis,
    _certified,
    constant_preimage,
    four_points,
)
from tests.handmade import heads_of
from tests.properties import examples

EPS = np.finfo(float).eps
BENT = np.array([[1.0, 0.4], [0.4, -0.3]])


def rotation(dim, seed):
    return special_ortho_group.rvs(dim, random_state=seed)


def tokens(dim, n=30, seed=0):
    rng = np.random.default_rng(seed)
    return mf.Particles(mf.Uniform(dim).sample(n, rng), rng.uniform(0.5, 1.5, n), unit_mass=True)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(
    "values", [[1.0, 3.0], [3.0, 1.0, 1.0], [1.0, 1.0, 3.0], [1.0, 1.4, 1.2], [2.0] * 4 + [1.0]]
)
def test_constant_potential_and_energy(values, beta):
    """Its potential is constant and its energy is least, by sums in a turned frame."""
    by = rotation(len(values), 4)
    matrix = by @ np.diag(values) @ by.T
    least = mf.studies.energy_minimiser(matrix, beta)
    assert least.kind == "density"
    # rounding of f, times what e^{β<x,Dy>} varies by
    tolerance = 1e3 * EPS * np.exp(beta * np.ptp(values))
    assert least.residual < tolerance
    # less an allowance of eps for each of some thousand terms, four times
    assert least.energy * (1 - 1e-11) - 2 * tolerance < least.bound < least.energy
    energy = mf.energy(least.measure, heads_of(matrix, beta))
    assert energy == pytest.approx(least.energy, rel=tolerance)
    assert least.measure.values.min() > 0
    assert least.measure.mass() == pytest.approx(1, abs=1e2 * EPS)
    uniform = mf.Particles.sample(mf.Uniform(len(values)), 300, np.random.default_rng(0))
    assert mf.energy(uniform, heads_of(matrix, beta)) > least.energy


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_multiple_of_the_identity(dim):
    least = mf.studies.energy_minimiser(1.7 * np.eye(dim), 2.0)
    assert least.kind == "uniform"
    # a coefficient, the harmonic of degree 0 and their product are rounded
    assert np.all(least.measure.values == pytest.approx(1, abs=4 * EPS))
    exact = 1.7 * mf.theory.energy_uniform(3.4, dim)
    assert least.energy == pytest.approx(exact, rel=10 * EPS)


@pytest.mark.parametrize("dim", [2, 3, 7])
def test_nearly_the_identity(dim):
    """One eigenvalue off by little more than rounding: near uniform, and no division by 0."""
    matrix = np.eye(dim)
    matrix[0, 0] += 1e-9
    least = mf.studies.energy_minimiser(matrix)
    assert least.kind == "density"
    assert least.measure.values == pytest.approx(np.ones(len(least.measure.values)), abs=1e-7)


def test_the_minimiser_of_an_indefinite_form():
    """Jensen: E >= e^{βλ_min}/(2β), of a Dirac; random measures are above."""
    rng = np.random.default_rng(6)
    for dim in 2, 4:
        matrix = rng.normal(size=(dim, dim))
        matrix += matrix.T
        least = mf.studies.energy_minimiser(matrix, 1.3)
        lowest = np.linalg.eigvalsh(matrix)[0]
        assert lowest < 0
        assert least.kind == "dirac"
        assert least.energy == pytest.approx(np.exp(1.3 * lowest) / 2.6, rel=10 * EPS)
        energy = mf.energy(least.measure, heads_of(matrix, 1.3))
        assert energy == pytest.approx(least.energy, rel=1e2 * EPS)
        for seed in range(5):
            assert mf.energy(tokens(dim, 6, seed), heads_of(matrix, 1.3)) > least.energy


def test_four_points():
    """λ_1 tanh(βλ_1 x_1²) = λ_2 tanh(βλ_2 x_2²); above the least energy."""
    for last in (1.0, 2.0, 3.0, 5.0):
        share, energy = four_points(np.array([1.0, last]), 1.0)
        assert np.tanh(share) == pytest.approx(last * np.tanh(last * (1 - share)), rel=1e-13)
        corner = np.sqrt([share, 1 - share])
        points = corner * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
        value = mf.energy(mf.Particles(points), heads_of(np.diag([1.0, last]), 1.0))
        assert value == pytest.approx(energy, rel=10 * EPS)
        assert energy > mf.studies.energy_minimiser(np.diag([1.0, last])).energy


def turned_form(dim, values, seed):
    by = rotation(dim, seed)
    return by @ np.diag(values) @ by.T


# A bound is below every energy: of the measure that comes with it, and of any other.


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ([1.0, 3.0], ("density", "dirac")),
        ([2.0, 1.0, 1.0], ("density", "dirac")),
        ([1.7, 1.7, 1.7], ("uniform", "dirac")),
        ([-0.5, 1.0], ("dirac", "dirac")),
        ([-2.0, 0.3], ("dirac", "pair")),
        ([0.0, 1.0, 2.0], ("dirac", "dirac")),
    ],
)
def test_bounds_are_reached(values, kinds):
    """The measures that come with them reach them to some thousand roundings of terms."""
    matrix, beta = turned_form(len(values), values, 3), 1.3
    matrix = (matrix + matrix.T) / 2
    least = mf.studies.energy_minimiser(matrix, beta)
    most = mf.studies.energy_maximiser(matrix, beta)
    assert (least.kind, most.kind) == kinds
    assert least.energy * (1.0 - 1e-10) < least.bound < least.energy
    assert most.energy < most.bound < most.energy * (1.0 + 1e-12)
    for found in least, most:
        own = mf.energy(found.measure, heads_of(matrix, beta))
        assert own == pytest.approx(found.energy, rel=1e-10)


@pytest.mark.slow
def test_where_rounding_of_the_potential_was_above():
    least = mf.studies.energy_minimiser(np.diag([0.2, 5.0]), 1.0)
    assert least.energy * (1 - 1e-11) < least.bound < least.energy


@pytest.mark.slow
@examples(60)
@given(
    dim=st.sampled_from([2, 2, 3, 5]),
    values=st.lists(st.floats(-2.0, 1.5), min_size=3, max_size=3),
    beta=st.floats(-2.0, 0.5),
    signs=st.sampled_from([(1, 1), (1, 1), (1, 1), (1, -1), (-1, 1), (-1, -1)]),
    seed=st.integers(0, 5),
)
def test_random_forms(dim, values, beta, signs, seed):
    one, other = np.exp(values[:2]) * signs
    matrix = turned_form(dim, [one] * (dim - 1) + [other], seed)
    matrix = (matrix + matrix.T) / 2
    beta = float(np.exp(beta))
    most = mf.studies.energy_maximiser(matrix, beta)
    assert most.bound > most.energy
    rng = np.random.default_rng(seed)
    others = [
        mf.energy(mf.Particles(mf.Uniform(dim).sample(7, rng)), heads_of(matrix, beta)),
        mf.energy(mf.Particles(mf.Uniform(dim).sample(1, rng)), heads_of(matrix, beta)),
    ]
    assert max(others) < most.bound
    try:
        least = mf.studies.energy_minimiser(matrix, beta)
    except ValueError:
        # no density resolves every form
        return
    assert least.bound < min(least.energy, *others)
    assert least.bound > least.energy * (1 - 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("values", [[1.0, 3.0], [0.5, 0.5, 2.0], [1.0, 1.4, 1.2]])
def test_of_another_measure(values):
    """A bound holds whatever measure it is made from; one from a wrong measure is refused."""
    matrix = np.diag(values)
    exact = mf.studies.energy_minimiser(matrix, 1.0)
    vectors = np.linalg.eigh(matrix)[1]
    basis = _basis(np.sort(values), vectors, 40)
    right = constant_preimage(basis, matrix, 1.0)
    rng = np.random.default_rng(0)
    for size in (1e-9, 1e-8, 1e-7):
        wrong = right + size * rng.normal(size=len(right)) / (1 + basis.degrees) ** 2
        found = _certified(basis, wrong, matrix, 1.0)
        assert found.bound < exact.energy < found.energy * (1 + 1e-14)
        # the certificate knows by how much it may be off
        assert found.residual > 0.01 * size
        assert found.energy - found.bound > 0.1 * found.residual * found.energy
    with pytest.raises(ValueError, match="lets its potential vary by"):
        _certified(basis, np.eye(1, len(right))[0], matrix, 1.0)


@pytest.mark.parametrize("others", [[10.0, 10.0 + 1.8e-11], [10.0, 10.0, 10.0 + 1.8e-11]])
def test_eigenvalues_that_nearly_agree(others):
    """No bound is above the energy of a form that is the same but for a rotation."""
    found = [
        mf.studies.energy_minimiser(np.diag([*order, 20.0])) for order in (others, others[::-1])
    ]
    assert max(one.bound for one in found) < min(one.energy for one in found)
    assert all(one.bound > one.energy * (1 - 1e-9) for one in found)


@pytest.mark.parametrize("radius", [0.3, 0.05])
def test_covers(radius):
    """No point of the meridian, or of the octant, is farther from a cover than its radius."""
    axes = rotation(3, 0)
    points = mf.Uniform(3).sample(2000, np.random.default_rng(1))
    octant = np.abs(points) @ axes
    found = SphereBasis(axes, 4).cover(radius)
    gaps = np.arccos(np.clip(octant @ found.T, -1, 1)).min(axis=1)
    assert 0.5 * radius < gaps.max() <= radius
    zonal = ZonalBasis(axes[0], 4)
    meridian = zonal._meridian(np.cos(np.linspace(0, np.pi, 1001)))
    gaps = np.arccos(np.clip(meridian @ zonal.cover(radius).T, -1, 1)).min(axis=1)
    assert 0.5 * radius < gaps.max() <= radius


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3])
def test_search_finds_nothing_larger(dim):
    rng = np.random.default_rng(dim)
    forms = rng.normal(size=(8, dim, dim))
    forms = forms + forms.transpose(0, 2, 1) - 0.5 * np.eye(dim)
    ds = mf.studies.energy_extremisers(list(forms), 0.8, repeats=8, rng=rng)
    # of a stationary point, with |gradient| < 1e-10
    assert ds.searched_energy.values == pytest.approx(ds.largest_energy.values, rel=1e-9)
    assert np.all(ds.searched_energy <= ds.largest_energy * (1 + 1e2 * EPS))
    for form, kind, energy in zip(
        forms, ds.largest_kind.values, ds.largest_energy.values, strict=True
    ):
        most = mf.studies.energy_maximiser(form, 0.8)
        assert most.kind == kind
        own = mf.energy(most.measure, heads_of(form, 0.8))
        assert own == pytest.approx(float(energy), rel=1e2 * EPS)
    assert set(ds.largest_kind.values) == {"dirac", "pair"}


def test_the_maximiser_of_a_positive_definite_form():
    most = mf.studies.energy_maximiser(np.diag([1.0, 1.5]))
    assert 2 * most.energy == pytest.approx(np.exp(1.5), rel=2 * EPS)


@pytest.fixture(scope="module")
def ds():
    forms = [np.diag([1.0, 1.1]), BENT, np.diag([-1.0, 0.2]), np.array([[1.2, 0.1], [0.1, 1]])]
    return mf.studies.energy_extremisers(forms, 1.0, repeats=4, rng=np.random.default_rng(0))


def test_numbers_of_a_dataset(ds):
    assert ds.least_kind.values.tolist() == ["density", "dirac", "dirac", "density"]
    assert ds.largest_kind.values.tolist() == ["dirac", "dirac", "pair", "dirac"]
    # searches end where gradients are below 1e-10
    assert np.allclose(ds.searched_energy, ds.largest_energy, rtol=1e-9, atol=0)
    assert np.all(ds.least_energy_lower < ds.least_energy)
    assert np.all(ds.least_energy < ds.largest_energy)
    # in multiple precision, from validation/form_energies.py
    assert float(ds["cos"].sel(degree=2)[0]) == pytest.approx(0.198481812055411, abs=2e-15)
    for i in (0, 3):
        one = ds.isel(index=i)
        k, angle = one.degree.values[:, None], one.angle.values
        series = 1 + np.nansum(
            one["cos"].values[:, None] * np.cos(k * angle)
            + one["sin"].values[:, None] * np.sin(k * angle),
            axis=0,
        )
        assert series == pytest.approx(one.density.values, abs=1e2 * EPS)
        assert one.potential.values == pytest.approx(2 * float(one.least_energy), rel=1e2 * EPS)
    assert abs(float(ds["sin"].sel(degree=2)[3])) > 0.1
    assert np.isnan(ds.density.values[[1, 2]]).all()


def test_figure_of_extremisers(ds):
    figure = mf.plot.energy_extremisers(ds)
    upper, lower = figure.axes
    assert len(upper.lines) == 2
    assert np.array_equal(upper.lines[1].get_ydata(), ds.density.values[3])
    assert np.ptp(lower.lines[0].get_ydata()) < 1e-13 < np.ptp(lower.lines[1].get_ydata())
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts[0] == "D = diag(1, 1.1)"


def test_a_dataset_in_three_dimensions():
    ds = mf.studies.energy_extremisers(np.diag([1.0, 1.0, 1.1]))
    assert ds.sizes["index"] == 1
    assert "density" not in ds
    with pytest.raises(ValueError, match=r"on the circle with \['density'"):
        mf.plot.energy_extremisers(ds)


SKEW = np.array([[1.0, 0.5], [0.0, 1.0]])
MINIMISER, MAXIMISER = mf.studies.energy_minimiser, mf.studies.energy_maximiser


@pytest.mark.parametrize(
    ("functions", "matrix", "beta", "message"),
    [
        *(
            ((MINIMISER, MAXIMISER), matrix, 1.0, message)
            for matrix, message in (
                (SKEW, "matrix must be symmetric, got 0.5"),
                (np.ones((2, 3)), r"matrix must have shape \(d, d\) with d >= 2, got \(2, 3\)"),
                ([[1.0]], r"matrix must have shape \(d, d\) with d >= 2, got \(1, 1\)"),
                (400.0 * np.eye(2), r"beta \|matrix\| must be >= 1e-12 and <= 350, got 400"),
            )
        ),
        ((MINIMISER, MAXIMISER), np.eye(2), 0.0, "beta must be a finite number > 0"),
        ((MINIMISER,), np.diag([1.0, 300.0]), 1.0, "matrix must have eigenvalues in a smaller"),
        ((MINIMISER,), np.diag([1.0, 12.0]), 4.0, "beta or the ratio of matrix's eigenvalues"),
        ((MINIMISER,), np.diag([1.0, 2.0, 3.0, 4.0]), 1.0, "d <= 3, or two distinct eigenvalues"),
    ],
)
def test_forms_without_extremisers(functions, matrix, beta, message):
    for function in functions:
        with pytest.raises(ValueError, match=message):
            function(matrix, beta)


def test_what_has_no_dataset():
    extremisers = mf.studies.energy_extremisers
    with pytest.raises(ValueError, match=r"matrices\[1\] must be symmetric"):
        extremisers([np.eye(2), SKEW])
    for matrices in (2.0, [], [np.eye(2), np.eye(3)]):
        with pytest.raises(ValueError, match="matrices must be"):
            extremisers(matrices)
    with pytest.raises(ValueError, match=r"rng must be .* got None"):
        extremisers(np.eye(2), repeats=1, rng=None)
    with pytest.raises(ValueError, match="repeats must be an integer >= 0, got -1"):
        extremisers(np.eye(2), repeats=-1)
    with pytest.raises(ValueError, match=r"ds must be a Dataset of studies\.energy_extremisers"):
        mf.plot.energy_extremisers(3)
    with pytest.raises(ValueError, match="ds must have a matrix with a density"):
        mf.plot.energy_extremisers(extremisers(-np.eye(2)))
