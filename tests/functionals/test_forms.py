"""Energies of attention with a symmetric matrix D, their extremisers and gradient flows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import special_ortho_group

import meanfield as mf
from meanfield.cli.text import closing
from meanfield.studies.extremisers import (
    SphereBasis,
    ZonalBasis,
    _basis,
    _certified,
    constant_preimage,
    four_points,
)
from tests.handmade import heads_of

EPS = np.finfo(float).eps
BENT = np.array([[1.0, 0.4], [0.4, -0.3]])
BENT_3 = np.array([[1.0, 0.4, 0.1], [0.4, -0.3, 0.2], [0.1, 0.2, 0.6]])


def rotation(dim, seed):
    return special_ortho_group.rvs(dim, random_state=seed)


def double_sum(points, weights, matrix, beta):
    kernel = np.exp(beta * points @ matrix @ points.T)
    return float(weights @ kernel @ weights) / (2 * beta)


def tokens(dim, n=30, seed=0):
    rng = np.random.default_rng(seed)
    return mf.Particles(mf.Uniform(dim).sample(n, rng), rng.uniform(0.5, 1.5, n), unit_mass=True)


def measures(axis):
    """One law in every representation: circle or S^2, off the axes."""
    law = mf.VonMisesFisher(axis, 3.0)
    space = mf.Circle(64) if len(axis) == 2 else mf.Sphere(31)
    return {"density": mf.Density(space, law), "tokens": mf.Particles.quantise(law, 2000)}


ANGLES = [[0.6, 0.8], [0.0, 0.6, 0.8]]


class TestEnergy:
    @pytest.mark.parametrize("beta", [0.0, 0.7, 5.0])
    @pytest.mark.parametrize("axis", ANGLES)
    def test_identity_is_the_plain_energy(self, axis, beta):
        for measure in measures(axis).values():
            plain = mf.energy(measure, beta)
            for form in 1.0, np.eye(len(axis)):
                # sums over a grid, whose terms are up to max f e^β: 1e2 roundings of the energy
                assert mf.energy(measure, heads_of(form, beta)) == pytest.approx(
                    plain, rel=1e2 * EPS
                )

    def test_a_factor_is_another_beta(self):
        """E_{β,cI} = c E_{cβ}."""
        law = mf.VonMisesFisher([0.6, 0.8], 3.0)
        for measure in mf.Density(mf.Circle(64), law), mf.FlowMap(law), tokens(4):
            assert mf.energy(measure, heads_of(1.7, 2.0)) == pytest.approx(
                1.7 * mf.energy(measure, 3.4), rel=1e2 * EPS
            )

    @pytest.mark.parametrize("beta", [0.7, 5.0])
    def test_double_sum(self, beta):
        for dim, matrix in (2, BENT), (3, BENT_3):
            given = tokens(dim)
            exact = double_sum(given.points, given.weights, matrix, beta)
            assert mf.energy(given, heads_of(matrix, beta)) == pytest.approx(exact, rel=1e2 * EPS)
            # λ times β in the exponent
            largest = 2.0 * beta * np.exp(-beta * np.linalg.eigvalsh(matrix)[-1])
            assert mf.energy_share(given, heads_of(matrix, beta)) == pytest.approx(
                exact * largest, rel=1e2 * EPS
            )

    @pytest.mark.parametrize("beta", [0.7, 5.0])
    def test_density_and_flow_map_on_the_circle(self, beta):
        """Against a double sum on an equispaced grid, which is exact for analytic densities."""
        law = mf.VonMisesFisher([0.6, 0.8], 3.0)
        angles = 2 * np.pi / 256 * np.arange(256)
        points = np.column_stack([np.cos(angles), np.sin(angles)])
        exact = double_sum(points, law.pdf(points) / 256, BENT, beta)
        for measure in mf.Density(mf.Circle(64), law), mf.FlowMap(law):
            assert mf.energy(measure, heads_of(BENT, beta)) == pytest.approx(exact, rel=1e3 * EPS)

    def test_density_that_concentrates(self):
        """Where f is sharper than the kernel only its low degrees count."""
        law = mf.VonMisesFisher([0.6, 0.8], 400.0)
        exact = mf.energy(mf.FlowMap(law), heads_of(BENT, 3.0))
        sharp = mf.Density(mf.Circle(512), law)
        assert mf.energy(sharp, heads_of(BENT, 3.0)) == pytest.approx(exact, rel=1e3 * EPS)

    @pytest.mark.slow
    def test_sharp_kernel(self):
        """e^{β<x,Dy>} is sharper than the law: a flow map's panels are split for it."""
        law, angles = mf.VonMisesFisher([0.6, 0.8], 0.5), 2 * np.pi / 1024 * np.arange(1024)
        points = np.column_stack([np.cos(angles), np.sin(angles)])
        exact = double_sum(points, law.pdf(points) / 1024, BENT, 300.0)
        # a sum of terms e^{300}, each with the rounding of its exponent
        assert mf.energy(mf.FlowMap(law), heads_of(BENT, 300.0)) == pytest.approx(exact, rel=1e-12)

    @pytest.mark.parametrize(("dim", "matrix"), [(2, BENT), (3, BENT_3)])
    def test_sums_in_linear_time(self, dim, matrix):
        given = tokens(dim, 800)
        ways = [
            mf.Particles(given.points, given.weights, sums=sums)
            for sums in ("direct", "transforms")
        ]
        energies = [mf.energy(one, heads_of(matrix, 3.0)) for one in ways]
        assert energies[1] == pytest.approx(energies[0], rel=1e-12)
        rates = [mf.dissipation(one, attention(matrix, 1, True)) for one in ways]
        assert rates[1] == pytest.approx(rates[0], rel=1e-12)

    def test_rotation(self):
        """E_{RDRᵀ}(R#mu) = E_D(mu)."""
        mean, by = np.array([0.0, 0.6, 0.8]), rotation(3, 2)
        ones = [mf.Density(mf.Sphere(23), mf.VonMisesFisher(m, 2.0)) for m in (mean, by @ mean)]
        energies = [
            mf.energy(one, heads_of(matrix, 2.0))
            for one, matrix in zip(ones, (BENT_3, by @ BENT_3 @ by.T), strict=True)
        ]
        assert energies[1] == pytest.approx(energies[0], rel=1e3 * EPS)
        assert abs(mf.energy(ones[1], heads_of(BENT_3, 2.0)) / energies[0] - 1) > 1e-3

    @pytest.mark.parametrize("dim", [2, 3, 6])
    def test_latitudes(self, dim):
        """Three representations about an axis, and on S^2 the one without."""
        axis = np.eye(dim)[-1]
        law, matrix = mf.VonMisesFisher(axis, 2.0), np.diag([0.5] * (dim - 1) + [-0.7])
        given = [mf.Density(mf.Zonal(dim, 31), law), mf.FlowMap(law)]
        if dim == 3:
            given.append(mf.Density(mf.Sphere(31), law))
        energies = [mf.energy(measure, heads_of(matrix, 3.0)) for measure in given]
        assert energies == pytest.approx([energies[0]] * len(given), rel=1e3 * EPS)
        assert abs(energies[0] / mf.energy(given[0], 3.0) - 1) > 0.1

    def test_beta_zero(self):
        given = tokens(2)
        mean = given.mean()
        assert mf.energy(given, heads_of(BENT, 0.0)) == pytest.approx(
            mean @ BENT @ mean / 2, rel=EPS
        )
        least = 1 / 2e-6 + mean @ BENT @ mean / 2
        assert mf.energy(given, heads_of(BENT, 1e-6)) == pytest.approx(least, rel=1e-11)


def attention(matrix, sign, normalised, beta=2.0):
    return mf.Attention(beta, [mf.Head(matrix, 1.0, sign * matrix)], normalised=normalised)


class TestGradientFlow:
    @pytest.mark.slow
    def test_balance_is_kept_in_files_and_told(self, tmp_path):
        sol = mf.evolve(tokens(2), attention(BENT, -1, True), 1.0, 2)
        sol.save(tmp_path / "run.nc")
        again = mf.load(tmp_path / "run.nc")
        assert again.dataset.energy.identical(sol.dataset.energy)
        assert again.dynamics._form.sign == -1
        (told,) = [line for line in closing(sol).splitlines() if "work" in line]
        # of the form's energy, not of E_β, which this is no gradient flow of
        assert float(told.split()[6].rstrip(",")) < 1e-8
        other = np.array([mf.energy(measure, 2.0) for measure in sol.measures])
        assert np.abs(other - other[0] - sol.dataset.work).max() > 1e-3

    def test_velocity_is_the_gradient_of_the_energy(self):
        """w_i X_i = ∂E/∂x_i along tangents, token by token."""
        given, h = tokens(3, n=5), 1e-5
        velocity = attention(BENT_3, 1, False).velocity(given, given.points)
        for i in range(5):
            for tangent in np.linalg.svd(given.points[i : i + 1])[2][1:]:
                energies = []
                for s in (1, -1):
                    points = given.points.copy()
                    points[i] = np.cos(h) * points[i] + s * np.sin(h) * tangent
                    moved = mf.Particles(points, given.weights)
                    energies.append(mf.energy(moved, heads_of(BENT_3, 2.0)))
                slope = (energies[0] - energies[1]) / (2 * h)
                # differences of E = O(1) lose 1e-16/h
                assert slope == pytest.approx(
                    given.weights[i] * velocity[i] @ tangent, abs=1e-10, rel=1e-8
                )

    @pytest.mark.parametrize("normalised", [True, False])
    def test_one_dissipation_in_every_representation(self, normalised):
        law = mf.VonMisesFisher([0.6, 0.8], 3.0)
        field = attention(BENT, -1, normalised)
        values = [
            mf.dissipation(measure, field)
            for measure in (mf.Density(mf.Circle(64), law), mf.FlowMap(law))
        ]
        assert values[1] == pytest.approx(values[0], rel=1e-13)
        # G in the denominator has no last degree
        sharp = attention(BENT, -1, normalised, beta=30.0)
        values_sharp = [
            mf.dissipation(measure, sharp)
            for measure in (mf.Density(mf.Circle(64), law), mf.FlowMap(law))
        ]
        assert values_sharp[1] == pytest.approx(values_sharp[0], rel=1e-12)
        # tokens at quantiles are the trapezoidal rule in labels
        many = mf.Particles.quantise(law, 4000)
        assert mf.dissipation(many, field) == pytest.approx(values[0], rel=1e-11)

    @pytest.mark.parametrize(("dynamics", "normalised"), [(mf.SA, True), (mf.USA, False)])
    def test_identity_is_sa_and_usa(self, dynamics, normalised):
        field = mf.Attention(2.0, [mf.Head(np.eye(3), V=-1.0)], normalised=normalised)
        given = tokens(3)
        assert mf.dissipation(given, field) == pytest.approx(
            mf.dissipation(given, dynamics(2.0)), rel=1e2 * EPS
        )
        own, plain = (mf.evolve(given, one, 1.0, 2) for one in (field, dynamics(2.0, sign=-1)))
        assert np.allclose(own.dataset.work, plain.dataset.work, atol=1e-9, rtol=0)
        assert np.allclose(own.dataset.energy, plain.dataset.energy, atol=1e-9, rtol=0)

    @pytest.mark.slow
    @pytest.mark.parametrize("normalised", [True, False])
    @pytest.mark.parametrize("sign", [1, -1])
    @pytest.mark.parametrize("space", [mf.Circle(64), mf.Sphere(23), mf.Zonal(4, 31)], ids=str)
    def test_densities_keep_the_balance(self, space, sign, normalised):
        matrix = {2: BENT, 3: BENT_3, 4: np.diag([0.5, 0.5, 0.5, 1.0])}[space.dim]
        law = mf.VonMisesFisher(np.eye(space.dim)[-1], 1.0)
        field = attention(matrix, sign, normalised, beta=1.0)
        start = mf.Density(space, law)
        data = mf.evolve(start, field, 0.5, 4).dataset
        gained = data.energy - data.energy[0]
        assert np.all(sign * np.diff(data.energy) > 0)
        assert abs(float(gained[-1])) > 1e-3
        # tolerances of the run are 1e-9
        assert np.abs(gained - data.work).max() < 1e-9
        if not normalised:
            squared = float(data.metric_speed[0]) ** 2
            assert mf.dissipation(start, field) == pytest.approx(squared, rel=1e-11)

    def test_which_attention_has_a_form(self):
        by = rotation(2, 3)
        factors = mf.Head(by, by @ BENT, BENT)
        assert np.allclose(mf.Attention(1.0, [factors])._form.matrix, BENT, atol=4 * EPS)
        assert mf.Attention(1.0, [mf.Head(BENT, 1.0, -BENT)])._form.sign == -1
        assert mf.Attention(1.0, [mf.Head(2.0, 1.5, -3.0)])._form[:2] == (3.0, -1)
        mixed = mf.Attention(1.0, [mf.Head(np.eye(2), 2.0, 2.0)])
        assert np.array_equal(mixed._form.matrix, 2.0 * np.eye(2))
        skew = np.array([[1.0, 0.5], [-0.5, 1.0]])
        for heads in [mf.Head(skew, 1.0, skew)], [mf.Head(BENT, 1.0, 1.0)], [mf.Head()] * 2:
            field = mf.Attention(1.0, heads)
            assert field._form is None
            assert "energy" not in mf.evolve(tokens(2), field, 0.1, 1).dataset
        noisy = mf.Attention(1.0, [mf.Head(np.eye(2))], noise=0.1)
        assert noisy._form is not None
        assert noisy._energy is None
        # its |X|² would leave double precision; the run goes on without a balance
        steep = mf.Attention(400.0, [mf.Head(np.eye(2))])
        assert "work" not in mf.evolve(tokens(2), steep, 1e-3, 1).dataset


class TestMinimiser:
    @pytest.mark.slow
    @pytest.mark.parametrize("beta", [0.3, 1.0, 4.0])
    @pytest.mark.parametrize(
        "values", [[1.0, 3.0], [3.0, 1.0, 1.0], [1.0, 1.0, 3.0], [1.0, 1.4, 1.2], [2.0] * 4 + [1.0]]
    )
    def test_constant_potential_and_energy(self, values, beta):
        """What makes it the least, each time by sums over the measure in a turned frame."""
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
    def test_multiple_of_the_identity(self, dim):
        least = mf.studies.energy_minimiser(1.7 * np.eye(dim), 2.0)
        assert least.kind == "uniform"
        # a coefficient, the harmonic of degree 0 and their product are rounded
        assert np.all(least.measure.values == pytest.approx(1, abs=4 * EPS))
        exact = 1.7 * mf.theory.energy_uniform(3.4, dim)
        assert least.energy == pytest.approx(exact, rel=10 * EPS)

    @pytest.mark.parametrize("dim", [2, 3, 7])
    def test_nearly_the_identity(self, dim):
        """One eigenvalue off by little more than rounding: near uniform, and no division by 0."""
        matrix = np.eye(dim)
        matrix[0, 0] += 1e-9
        least = mf.studies.energy_minimiser(matrix)
        assert least.kind == "density"
        assert least.measure.values == pytest.approx(np.ones(len(least.measure.values)), abs=1e-7)

    def test_indefinite(self):
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

    def test_four_points(self):
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


class TestBounds:
    """A bound is below every energy: of the measure that comes with it, and of any other."""

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
    def test_bounds_are_reached(self, values, kinds):
        """By the measures that come with them, to some thousand roundings of terms."""
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
    def test_where_rounding_of_the_potential_was_above(self):
        least = mf.studies.energy_minimiser(np.diag([0.2, 5.0]), 1.0)
        assert least.energy * (1 - 1e-11) < least.bound < least.energy

    @pytest.mark.slow
    @settings(max_examples=60)
    @given(
        dim=st.sampled_from([2, 2, 3, 5]),
        values=st.lists(st.floats(-2.0, 1.5), min_size=3, max_size=3),
        beta=st.floats(-2.0, 0.5),
        signs=st.sampled_from([(1, 1), (1, 1), (1, 1), (1, -1), (-1, 1), (-1, -1)]),
        seed=st.integers(0, 5),
    )
    def test_random_forms(self, dim, values, beta, signs, seed):
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
    def test_of_another_measure(self, values):
        """Whatever measure it is made from it holds; and from a wrong one it says so."""
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
    def test_eigenvalues_that_nearly_agree(self, others):
        """Of forms that are one but for a rotation no bound is above an energy of the other."""
        found = [
            mf.studies.energy_minimiser(np.diag([*order, 20.0])) for order in (others, others[::-1])
        ]
        assert max(one.bound for one in found) < min(one.energy for one in found)
        assert all(one.bound > one.energy * (1 - 1e-9) for one in found)

    @pytest.mark.parametrize("radius", [0.3, 0.05])
    def test_covers(self, radius):
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


class TestMaximiser:
    @pytest.mark.slow
    @pytest.mark.parametrize("dim", [2, 3])
    def test_search_finds_nothing_larger(self, dim):
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

    def test_positive_definite(self):
        most = mf.studies.energy_maximiser(np.diag([1.0, 1.5]))
        assert 2 * most.energy == pytest.approx(np.exp(1.5), rel=2 * EPS)


@pytest.fixture(scope="module")
def ds():
    forms = [np.diag([1.0, 1.1]), BENT, np.diag([-1.0, 0.2]), np.array([[1.2, 0.1], [0.1, 1]])]
    return mf.studies.energy_extremisers(forms, 1.0, repeats=4, rng=np.random.default_rng(0))


class TestDataset:
    def test_numbers(self, ds):
        assert ds.least_kind.values.tolist() == ["density", "dirac", "dirac", "density"]
        assert ds.largest_kind.values.tolist() == ["dirac", "dirac", "pair", "dirac"]
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

    @pytest.mark.slow
    def test_figure(self, ds):
        figure = mf.plot.energy_extremisers(ds)
        upper, lower = figure.axes
        assert len(upper.lines) == 2
        assert np.array_equal(upper.lines[1].get_ydata(), ds.density.values[3])
        assert np.ptp(lower.lines[0].get_ydata()) < 1e-13 < np.ptp(lower.lines[1].get_ydata())
        texts = [text.get_text() for text in figure.legends[0].get_texts()]
        assert texts[0] == "D = diag(1, 1.1)"

    def test_three_dimensions(self):
        ds = mf.studies.energy_extremisers(np.diag([1.0, 1.0, 1.1]))
        assert ds.sizes["index"] == 1
        assert "density" not in ds
        with pytest.raises(ValueError, match=r"on the circle with \['density'"):
            mf.plot.energy_extremisers(ds)


NAN = np.array([[1.0, np.nan], [np.nan, 1.0]])
SKEW = np.array([[1.0, 0.5], [0.0, 1.0]])


class TestBadInput:
    def test_form_of_an_energy(self):
        for measure in (mf.Particles(np.eye(2)), mf.Density(mf.Circle(16), mf.Uniform(2))):
            with pytest.raises(ValueError, match=r"must have an energy, got .* KᵀQ = D = Dᵀ"):
                mf.energy(measure, heads_of(SKEW))
            with pytest.raises(
                ValueError, match=r"measure must have dim = .*, that of .*, got one of"
            ):
                mf.energy(measure, heads_of(np.eye(3)))

    @pytest.mark.parametrize(
        ("matrix", "message"),
        [
            (SKEW, "matrix must be symmetric, got 0.5"),
            (NAN, "matrix must be finite, got nan"),
            (np.ones((2, 3)), r"matrix must have shape \(d, d\) with d >= 2, got \(2, 3\)"),
            ([[1.0]], r"matrix must have shape \(d, d\) with d >= 2, got \(1, 1\)"),
            (2.0, "matrix must be a non-empty array with 2 axes"),
            (400.0 * np.eye(2), r"beta \|matrix\| must be >= 1e-12 and <= 350, got 400"),
        ],
    )
    def test_matrix_of_an_extremiser(self, matrix, message):
        for function in mf.studies.energy_minimiser, mf.studies.energy_maximiser:
            with pytest.raises(ValueError, match=message):
                function(matrix)

    def test_beta(self):
        for beta in (0.0, -1.0, np.nan, "1"):
            with pytest.raises(ValueError, match="beta must be a finite number > 0"):
                mf.studies.energy_minimiser(np.eye(2), beta)

    def test_matrices_that_no_density_resolves(self):
        with pytest.raises(ValueError, match="matrix must have eigenvalues in a smaller ratio"):
            mf.studies.energy_minimiser(np.diag([1.0, 300.0]))
        with pytest.raises(ValueError, match="beta or the ratio of matrix's eigenvalues must be"):
            mf.studies.energy_minimiser(np.diag([1.0, 12.0]), 4.0)
        with pytest.raises(
            ValueError, match="matrix must have d <= 3, or two distinct eigenvalues"
        ):
            mf.studies.energy_minimiser(np.diag([1.0, 2.0, 3.0, 4.0]))

    def test_dataset(self):
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
        with pytest.raises(
            ValueError, match=r"ds must be a Dataset of studies\.energy_extremisers"
        ):
            mf.plot.energy_extremisers(3)
        with pytest.raises(ValueError, match="ds must have a matrix with a density"):
            mf.plot.energy_extremisers(extremisers(-np.eye(2)))

    def test_axis(self):
        law = mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0)
        for measure in mf.Density(mf.Zonal(3, 15), law), mf.FlowMap(law):
            with pytest.raises(ValueError, match="KᵀQ must commute with rotations about the axis"):
                mf.energy(measure, heads_of(np.diag([1.0, 1.0 + 1e-9, 2.0]), 1.0))

    def test_dissipation(self):
        for heads in [mf.Head(BENT)], [mf.Head(), mf.Head()]:
            for number in mf.energy, mf.dissipation:
                with pytest.raises(ValueError, match=r"must have an energy, got .* one head with"):
                    number(tokens(2), mf.Attention(1.0, heads))
        with pytest.raises(ValueError, match=r"beta \|D\| <= 350, got Attention\(beta=400"):
            mf.dissipation(tokens(2), mf.Attention(400.0, [mf.Head(np.eye(2))]))


def test_energies_that_rounding_of_a_density_makes_are_refused():
    """D < 0 looks where a concentrated f is 1e-16 of its maximum, e^{2β|D|} times enlarged."""
    law = mf.VonMisesFisher([1.0, 0.0], 50.0)
    mu = mf.Density(mf.Circle(256), law)
    for call in (
        lambda: mf.energy(mu, heads_of(-1.0, 20.0)),
        lambda: mf.dissipation(mu, mf.Attention(20.0, [mf.Head(Q=-1.0, V=-1.0)])),
    ):
        with pytest.raises(ValueError, match=r"rounding of f makes .* take a FlowMap or Particles"):
            call()
    low = mf.energy(mu, heads_of(-1.0, 5.0))
    assert low == pytest.approx(mf.energy(mf.FlowMap(law), heads_of(-1.0, 5.0)), rel=1e-9)


@pytest.mark.parametrize("size", [128, 1024])
def test_energies_of_which_rounding_makes_a_millionth_are_refused(size):
    """On a grid of any size: at β = 15 rounding makes 7e-6 of the energy."""
    law = mf.VonMisesFisher([1.0, 0.0], 20.0)
    mu, flow = mf.Density(mf.Circle(size), law), mf.FlowMap(law)
    with pytest.raises(ValueError, match=r"rounding of f makes .* take a FlowMap or Particles"):
        mf.energy(mu, heads_of(-1.0, 15.0))
    low = mf.energy(mu, heads_of(-1.0, 10.0))
    assert low == pytest.approx(mf.energy(flow, heads_of(-1.0, 10.0)), rel=1e-7)


# ------------------------------------------------------------------ a flow map on S^2, by harmonics

BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 3.0), mf.VonMisesFisher([0.0, 0.8, -0.6], 2.0)], [0.6, 0.4]
)
OVAL = np.array([[2.0, 0.3, 0.0], [0.3, 1.5, 0.0], [0.0, 0.0, -0.5]])


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("normalised", [True, False])
def test_flow_map_on_s2_keeps_the_balance_of_a_form(normalised, sign):
    """Its numbers are those of a density, of direct sums over its nodes, and they balance."""
    heads = [mf.Head(Q=OVAL, V=sign * OVAL)]
    moving = mf.Attention(1.5, heads, normalised=normalised)
    flow = mf.evolve(mf.FlowMap(BUMPS, tol=1e-8), moving, 0.1, 2)
    density = mf.evolve(mf.Density(mf.Sphere(47), BUMPS), moving, 0.1, 2)
    assert np.abs(flow.dataset.balance_error).max() < 1e-10
    assert abs(float(flow.dataset.work[-1])) > 1e-2
    for name in "energy", "dissipation", "work":
        # the density's tail is 1e-8
        np.testing.assert_allclose(flow.dataset[name], density.dataset[name], rtol=0, atol=1e-7)
    cloud = mf.Particles(flow.final.points, flow.final.weights, sums="direct", unit_mass=True)
    for tell, name in (mf.energy, "energy"), (mf.dissipation, "dissipation"):
        told = float(flow.dataset[name][-1])
        assert tell(flow.final, moving) == pytest.approx(told, rel=1e-9)
        assert tell(cloud, moving) == pytest.approx(told, rel=1e-7)


def test_energy_of_a_form_goes_on_where_a_density_becomes_a_flow_map():
    start = mf.Density(mf.Sphere(15), BUMPS, max_size=24)
    sol = mf.evolve(start, mf.Attention(1.0, [mf.Head(Q=OVAL, V=OVAL)]), 0.5, 3)
    assert type(sol.final) is not mf.Density
    assert np.isfinite(sol.dataset.energy).all()
    assert np.abs(sol.dataset.balance_error).max() < 1e-8
