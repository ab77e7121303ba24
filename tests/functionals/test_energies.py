"""Energies and dissipations: of forms, along gradient flows, and beyond double precision."""

import mpmath
import numpy as np
import pytest
from scipy.stats import special_ortho_group

import meanfield as mf
from meanfield.cli.text import closing, table
from meanfield.kernels.multipliers import eigenvalues_in_unit
from tests.functionals.drawn import exact_multiplier
from tests.handmade import heads_of, scaled_dissipation

EPS = np.finfo(float).eps
BENT = np.array([[1.0, 0.4], [0.4, -0.3]])
BENT_3 = np.array([[1.0, 0.4, 0.1], [0.4, -0.3, 0.2], [0.1, 0.2, 0.6]])


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


@pytest.mark.parametrize("beta", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("axis", ANGLES)
def test_identity_is_the_plain_energy(axis, beta):
    for measure in measures(axis).values():
        plain = mf.energy(measure, beta)
        for form in 1.0, np.eye(len(axis)):
            # sums over a grid, whose terms are up to max f e^β: 1e2 roundings of the energy
            assert mf.energy(measure, heads_of(form, beta)) == pytest.approx(plain, rel=1e2 * EPS)


def test_a_factor_is_another_beta():
    """E_{β,cI} = c E_{cβ}."""
    law = mf.VonMisesFisher([0.6, 0.8], 3.0)
    for measure in mf.Density(mf.Circle(64), law), mf.FlowMap(law), tokens(4):
        assert mf.energy(measure, heads_of(1.7, 2.0)) == pytest.approx(
            1.7 * mf.energy(measure, 3.4), rel=1e2 * EPS
        )


@pytest.mark.parametrize("beta", [0.7, 5.0])
def test_tokens_against_a_double_sum(beta):
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
def test_density_and_flow_map_on_the_circle(beta):
    """Against a double sum on an equispaced grid, which is exact for analytic densities."""
    law = mf.VonMisesFisher([0.6, 0.8], 3.0)
    angles = 2 * np.pi / 256 * np.arange(256)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    exact = double_sum(points, law.pdf(points) / 256, BENT, beta)
    for measure in mf.Density(mf.Circle(64), law), mf.FlowMap(law):
        assert mf.energy(measure, heads_of(BENT, beta)) == pytest.approx(exact, rel=1e3 * EPS)


def test_density_that_concentrates():
    """Only low degrees of f count where it is sharper than the kernel."""
    law = mf.VonMisesFisher([0.6, 0.8], 400.0)
    exact = mf.energy(mf.FlowMap(law), heads_of(BENT, 3.0))
    sharp = mf.Density(mf.Circle(512), law)
    assert mf.energy(sharp, heads_of(BENT, 3.0)) == pytest.approx(exact, rel=1e3 * EPS)


@pytest.mark.slow
def test_sharp_kernel():
    """e^{β<x,Dy>} is sharper than the law: a flow map's panels are split for it."""
    law, angles = mf.VonMisesFisher([0.6, 0.8], 0.5), 2 * np.pi / 1024 * np.arange(1024)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    exact = double_sum(points, law.pdf(points) / 1024, BENT, 300.0)
    # a sum of terms e^{300}, each with the rounding of its exponent
    assert mf.energy(mf.FlowMap(law), heads_of(BENT, 300.0)) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(("dim", "matrix"), [(2, BENT), (3, BENT_3)])
def test_sums_in_linear_time(dim, matrix):
    given = tokens(dim, 800)
    ways = [
        mf.Particles(given.points, given.weights, sums=sums) for sums in ("direct", "transforms")
    ]
    energies = [mf.energy(one, heads_of(matrix, 3.0)) for one in ways]
    assert energies[1] == pytest.approx(energies[0], rel=1e-12)
    rates = [mf.dissipation(one, attention(matrix, 1, True)) for one in ways]
    assert rates[1] == pytest.approx(rates[0], rel=1e-12)


def test_a_form_turned_with_the_measure():
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
def test_forms_about_an_axis(dim):
    """Three representations about an axis, and on S^2 the one without."""
    axis = np.eye(dim)[-1]
    law, matrix = mf.VonMisesFisher(axis, 2.0), np.diag([0.5] * (dim - 1) + [-0.7])
    given = [mf.Density(mf.Zonal(dim, 31), law), mf.FlowMap(law)]
    if dim == 3:
        given.append(mf.Density(mf.Sphere(31), law))
    energies = [mf.energy(measure, heads_of(matrix, 3.0)) for measure in given]
    assert energies == pytest.approx([energies[0]] * len(given), rel=1e3 * EPS)
    assert abs(energies[0] / mf.energy(given[0], 3.0) - 1) > 0.1


def test_forms_at_beta_zero():
    given = tokens(2)
    mean = given.mean()
    assert mf.energy(given, heads_of(BENT, 0.0)) == pytest.approx(mean @ BENT @ mean / 2, rel=EPS)
    least = 1 / 2e-6 + mean @ BENT @ mean / 2
    assert mf.energy(given, heads_of(BENT, 1e-6)) == pytest.approx(least, rel=1e-11)


def attention(matrix, sign, normalised, beta=2.0):
    return mf.Attention(beta, [mf.Head(matrix, 1.0, sign * matrix)], normalised=normalised)


def test_balance_is_kept_in_files_and_told(tmp_path):
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


def test_velocity_is_the_gradient_of_the_energy():
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
def test_one_dissipation_in_every_representation(normalised):
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
def test_identity_is_sa_and_usa(dynamics, normalised):
    field = mf.Attention(2.0, [mf.Head(np.eye(3), V=-1.0)], normalised=normalised)
    given = tokens(3)
    assert mf.dissipation(given, field) == pytest.approx(
        mf.dissipation(given, dynamics(2.0)), rel=1e2 * EPS
    )
    own, plain = (mf.evolve(given, one, 1.0, 2) for one in (field, dynamics(2.0, sign=-1)))
    # tolerances of both runs are 1e-9
    assert np.allclose(own.dataset.work, plain.dataset.work, atol=1e-9, rtol=0)
    assert np.allclose(own.dataset.energy, plain.dataset.energy, atol=1e-9, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("space", [mf.Circle(64), mf.Sphere(23), mf.Zonal(4, 31)], ids=str)
def test_densities_keep_the_balance(space, sign, normalised):
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


def test_which_attention_has_a_form():
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
    # as under SA, tokens with noise have an energy and no balance
    data = mf.evolve(tokens(2), noisy, 0.1, 1, max_step=0.05, rng=0).dataset
    assert "dissipation" in data
    assert "balance_error" not in data
    noisy = mf.Attention(2.0, [mf.Head(BENT, V=BENT)], noise=0.1)
    start = mf.Density(mf.Circle(64), mf.VonMisesFisher([0.6, 0.8], 3.0))
    # both sides are integrated by one rule, the energy by another
    assert np.abs(mf.evolve(start, noisy, 0.3, 2).dataset.balance_error).max() < 1e-10
    # noise is no part of X
    assert mf.dissipation(start, noisy) == mf.dissipation(start, attention(BENT, 1, True))
    # its |X|² would leave double precision; the run goes on without a balance
    steep = mf.Attention(400.0, [mf.Head(np.eye(2))])
    assert "work" not in mf.evolve(tokens(2), steep, 1e-3, 1).dataset


SKEW = np.array([[1.0, 0.5], [0.0, 1.0]])


PLANE = mf.Particles(np.eye(2)), mf.Density(mf.Circle(16), mf.Uniform(2))
ZONAL_LAW = mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0)
ABOUT_AXIS = mf.Density(mf.Zonal(3, 15), ZONAL_LAW), mf.FlowMap(ZONAL_LAW)


@pytest.mark.parametrize("number", [mf.energy, mf.dissipation])
@pytest.mark.parametrize(
    ("measures", "dynamics", "message"),
    [
        (PLANE, heads_of(SKEW), r"must have an energy, got .* KᵀQ = D = Dᵀ"),
        (PLANE, heads_of(np.eye(3)), r"measure must have dim = .*, that of .*, got one of"),
        (PLANE, mf.Attention(1.0, [mf.Head(BENT)]), "must have an energy, got .* one head with"),
        (PLANE, mf.Attention(1.0, [mf.Head()] * 2), "must have an energy, got .* one head with"),
        (PLANE, mf.FeedForward(np.eye(2)[::-1], np.eye(2)), "must have an energy, got"),
        (PLANE, mf.Layers([mf.Attention(2.0, [mf.Head(V=2.0)])]), "must have an energy, got"),
        (PLANE, mf.SA, "must be .*got <class"),
        (
            ABOUT_AXIS,
            heads_of(np.diag([1.0, 1.0 + 1e-9, 2.0])),
            "KᵀQ.* must .*(rotations|identity)",
        ),
    ],
)
def test_what_has_no_energy_is_refused(number, measures, dynamics, message):
    for measure in measures:
        with pytest.raises(ValueError, match=message):
            number(measure, dynamics)


@pytest.mark.parametrize("normalised", [True, False])
def test_a_coarse_density_dissipates_as_its_series_does(normalised):
    """Also where the series is negative: dense sums on a grid that resolves every product."""
    start, angles = mf.Density(mf.Circle(16), mf.VonMisesFisher([0.6, 0.8], 3.0)), np.arange(2048)
    points = np.column_stack([f(np.pi / 1024 * angles) for f in (np.cos, np.sin)])
    masses = start.pdf(points) / 2048
    kernel = np.exp(4.0 * points @ BENT @ points.T) * masses
    pull = kernel @ points @ BENT
    across = pull - points * np.sum(points * pull, axis=1)[:, None]
    squares = np.sum(across**2, axis=1) / (kernel.sum(axis=1) if normalised else 1.0)
    found = mf.dissipation(start, attention(BENT, 1, normalised, beta=4.0))
    assert found == pytest.approx(masses @ squares, rel=1e-13)


def test_a_form_that_is_too_large_has_no_dissipation():
    with pytest.raises(ValueError, match=r"beta \|D\| <= 350, got Attention\(beta=400"):
        mf.dissipation(PLANE[0], heads_of(np.eye(2), 400.0))


def test_energies_that_rounding_of_a_density_makes_are_refused():
    """D < 0 looks where a concentrated f is 1e-16 of its maximum, e^{2β|D|} times enlarged."""
    law = mf.VonMisesFisher([1.0, 0.0], 50.0)
    mu = mf.Density(mf.Circle(256), law)
    for call in (
        lambda: mf.energy(mu, heads_of(-1.0, 20.0)),
        lambda: mf.dissipation(mu, mf.Attention(20.0, [mf.Head(Q=-1.0, V=-1.0)])),
    ):
        with pytest.raises(ValueError, match=r"rounding of f.* makes .* FlowMap or Particles"):
            call()
    low = mf.energy(mu, heads_of(-1.0, 5.0))
    # rounding of f, up to e^{2β} = 2e4 times as large
    assert low == pytest.approx(mf.energy(mf.FlowMap(law), heads_of(-1.0, 5.0)), rel=1e-9)


@pytest.mark.parametrize("size", [128, 1024])
def test_energies_of_which_rounding_makes_a_millionth_are_refused(size):
    """On a grid of any size: at β = 15 rounding makes 7e-6 of the energy."""
    law = mf.VonMisesFisher([1.0, 0.0], 20.0)
    mu, flow = mf.Density(mf.Circle(size), law), mf.FlowMap(law)
    with pytest.raises(ValueError, match=r"rounding of f makes .* take a FlowMap or Particles"):
        mf.energy(mu, heads_of(-1.0, 15.0))
    low = mf.energy(mu, heads_of(-1.0, 10.0))
    # rounding of f, up to e^{2β} = 5e8 times as large
    assert low == pytest.approx(mf.energy(flow, heads_of(-1.0, 10.0)), rel=1e-7)


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
        # to the tolerance of a run, and to that of the mesh, whose nodes are a quadrature
        assert tell(flow.final, moving) == pytest.approx(told, rel=1e-9)
        assert tell(cloud, moving) == pytest.approx(told, rel=1e-7)


@pytest.mark.slow
def test_energy_of_a_form_goes_on_where_a_density_becomes_a_flow_map():
    start = mf.Density(mf.Sphere(15), BUMPS, max_size=24)
    sol = mf.evolve(start, mf.Attention(1.0, [mf.Head(Q=OVAL, V=OVAL)]), 0.5, 3)
    assert type(sol.final) is not mf.Density
    assert np.isfinite(sol.dataset.energy).all()
    assert np.abs(sol.dataset.balance_error).max() < 1e-8


def rotation(dim, seed):
    return special_ortho_group.rvs(dim, random_state=seed)


MANY = mf.ZonalSeries(1024, [0.5])
SPACE = mf.Zonal(1024, 8)


def test_eigenvalues_in_unit():
    for beta, dim in [(2.0, 3), (700.0, 1024), (1400.0, 1024), (1e4, 512)]:
        values, log_unit = eigenvalues_in_unit(beta, dim, 3)
        assert (log_unit == beta) == (beta <= 700.0)
        with mpmath.workdps(50):
            exact = [exact_multiplier(k, beta, dim) * mpmath.exp(-log_unit) for k in range(4)]
        # the logarithm of the unit has the rounding of some 1e4
        assert np.allclose(values, np.array(exact, dtype=float), rtol=5e-12, atol=0)


def test_energy_beyond_the_range_of_the_scaled_one():
    density = mf.Density(SPACE, MANY)
    with mpmath.workdps(50):
        first, second = (exact_multiplier(k, 1400, 1024) for k in range(2))
        exact = first + second * mpmath.mpf("0.25") / 1024
    power = density.power
    assert power[1] == pytest.approx(0.25 / 1024, rel=1e-12)
    assert mf.energy(density, 1400.0) == pytest.approx(float(exact / 2800), rel=1e-11)
    assert mf.energy_share(density, 1400.0) == 0.0
    uniform = mf.Density(mf.Zonal(512, 5), mf.Uniform(512))
    with pytest.raises(ValueError, match=r"energy fits float64, got SA.*: energy_share does"):
        mf.energy(uniform, 1e4)


def test_run_where_the_uniform_energy_is_far_below_a_diracs():
    """E rises from near Λ_0/(2β), by the work, at the rate that `dissipation` tells."""
    density, beta = mf.Density(SPACE, MANY), 1400.0
    run = mf.evolve(density, mf.SA(beta), 0.1, 4, rtol=1e-12, atol=1e-14)
    assert run.status == "finished"
    energies, rates = run.dataset.energy.values, run.dataset.dissipation.values
    assert energies[0] == pytest.approx(mf.energy(density, beta), rel=1e-11)
    assert rates[0] == pytest.approx(mf.dissipation(density, mf.SA(beta)), rel=1e-11)
    gained = energies - energies[0]
    assert gained[-1] > 1e-5 * energies[0]
    assert np.abs(gained - run.dataset.work.values).max() < 1e-10 * gained[-1]
    # Simpson's rule
    step = run.t[1]
    simpson = step / 3 * (rates[0] + 4 * rates[1] + 2 * rates[2] + 4 * rates[3] + rates[4])
    assert gained[-1] == pytest.approx(simpson, rel=1e-4, abs=0.0)


@pytest.mark.parametrize("sign", [1, -1])
def test_pictures_and_tables_of_such_a_run(sign):
    """Pictures and tables show a state at rest, too, with E(δ) beyond double precision."""
    for law in MANY, mf.Uniform(1024):
        run = mf.evolve(mf.Density(SPACE, law), mf.SA(1400.0, sign=sign), 0.1, 2)
        assert table(run).split()[:3] == ["t", "energy", "dissipation"]
        ax = mf.plot.energy(run)
        uniform = f"{mf.theory.energy_uniform(1400.0, 1024):.4g}"
        assert ax.get_title(loc="left") == f"energy, {uniform} ≤ E$_{{β}}$"
        low, high = ax.get_ylim()
        assert low < run.dataset.energy.min() <= run.dataset.energy.max() < high


@pytest.mark.parametrize("beta", [300.0, 500.0, 700.0])
def test_dissipation_of_usa_squares_no_large_velocity(beta):
    """Circle(64) against sums of positive terms on its grid; X alone is e^700."""
    density = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.9]))
    # e^{β cos} of 700 has no digit beyond degree 240
    angles = 2 * np.pi * np.arange(1024) / 1024
    apart = angles[:, None] - angles
    values = 1.0 + 0.9 * np.cos(angles)
    slope = -(np.exp(beta * (np.cos(apart) - 1.0)) * np.sin(apart)) @ values / len(angles)
    exact = np.mean(values * slope**2) * np.exp(beta)
    found = scaled_dissipation(density, mf.USA(beta))
    # e^β has the rounding of its exponent
    assert found == pytest.approx(exact, rel=1e-12 + 4 * beta * EPS)
    if beta > 360.0:
        with pytest.raises(ValueError, match="whose dissipation fits float64, got USA"):
            mf.dissipation(density, mf.USA(beta))


@pytest.mark.parametrize("space", [mf.Sphere(15), mf.Zonal(3, 15), mf.Zonal(50, 15)], ids=str)
def test_dissipation_of_usa_on_other_spaces(space):
    """X = e^{-β} ∇u scales it by the square: at β = 300 both ways fit."""
    density = mf.Density(space, mf.ZonalSeries(space.dim, [0.5]))
    for beta in 300.0, 500.0, 700.0:
        multiplier = exact_multiplier(1, beta, space.dim)
        # u = 1 + c <x, e>, ∫ (1 - <x, e>²) (1 + 0.5 <x, e>) dσ = (d-1)/d
        slope = multiplier / beta / 2
        share = (space.dim - 1) / mpmath.mpf(space.dim)
        exact = float(slope**2 * share * mpmath.exp(-mpmath.mpf(beta)))
        found = scaled_dissipation(density, mf.USA(beta))
        assert found == pytest.approx(exact, rel=1e-11, abs=0.0)


@pytest.mark.parametrize("beta", [200.0, 400.0])
def test_usa_moves_a_narrow_law_in_high_dimension(beta):
    """X is of order e^β, which Λ_0 is far below: squares of X must not overflow on the way."""
    law = mf.VonMisesFisher(np.eye(200)[-1], 1500.0)
    start = mf.Density(mf.Zonal(200, 500), law, tail_tol=1e-2)
    t_end = 1e-3 * np.exp(-beta)
    run = mf.evolve(start, mf.USA(beta), t_end, 1)
    assert run.status == "finished", run.message
    speed = np.log(mf.metric_speed(start, mf.USA(beta)))
    assert speed > 0.8 * beta
    # ∫ |X|² dmu is left out where it overflows; e^β has the rounding of its exponent
    assert ("dissipation" in run.dataset) == (2.0 * speed < 709.0)
    found = np.log(scaled_dissipation(start, mf.USA(beta))) + beta
    if "dissipation" in run.dataset:
        found = np.log(run.dataset.dissipation.values[0])
    assert found == pytest.approx(2.0 * speed, rel=1e-13)


TWO_BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0, 0, 1], 1.0), mf.VonMisesFisher([1, 0, 0], 1.0)], [0.5, 0.5]
)


@pytest.mark.parametrize("dynamics", [mf.SA(1000.0), mf.USA(700.0)], ids=str)
def test_a_kernel_that_patches_do_not_resolve_is_refused(dynamics):
    with pytest.raises(ValueError, match=r"beta.* must be smaller .* try a Density on a Sphere"):
        mf.dissipation(mf.FlowMap(TWO_BUMPS), dynamics)


@pytest.mark.parametrize("dynamics", [mf.SA(30.0), mf.USA(30.0)], ids=str)
def test_dissipation_of_a_flow_map_on_the_sphere(dynamics):
    """Against velocities and G by sums of positive terms over the same nodes."""
    flow, beta = mf.FlowMap(TWO_BUMPS), dynamics.beta
    log_g, mean = flow.log_moment(beta * flow.points)
    pull = mean - np.einsum("ij,ij->i", mean, flow.points)[:, None] * flow.points
    log_share = log_g - beta if dynamics.normalised else 2.0 * log_g - beta
    exact = flow.weights @ (np.sum(pull**2, axis=1) * np.exp(log_share))
    # the series of X leaves out what is below rounding of its largest
    assert scaled_dissipation(flow, dynamics) == pytest.approx(exact, rel=1e-7, abs=0.0)


@pytest.mark.slow
def test_kernel_that_no_space_of_many_dimensions_holds():
    """Its degrees end where their multiplicities leave double precision: 303 in d = 1024."""
    density = mf.Density(SPACE, MANY)
    with pytest.raises(
        ValueError, match=r"z must be shorter .* dim = 1024, got length 700, beta for SA and USA"
    ):
        mf.SA(700.0).velocity(density, np.eye(1024)[:2])
    tokens = mf.Particles([SPACE.axis])
    with pytest.raises(ValueError, match=r"beta must be smaller in dim = 1024 .* got 700"):
        mf.mmd(tokens, density, 700.0)


def test_a_potential_is_resolved_on_a_coarse_grid():
    """∫ v dmu and what X adds to it, where v is steeper than the density's own grid resolves."""
    steep = mf.FeedForward.from_potential([1.0], [[12.0, 3.0]], [4.0], activation="tanh")
    uniform = mf.Density(mf.Circle(8), mf.Uniform(2))
    angles = 2.0 * np.pi * np.arange(4096) / 4096
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    # the periodic trapezoidal rule of what is analytic
    height = np.log(np.cosh(points @ [12.0, 3.0] + 4.0)).mean()
    squares = (steep.velocity(uniform, points) ** 2).sum(axis=1).mean()
    assert mf.energy(uniform, steep) == pytest.approx(height, rel=1e-13)
    assert mf.dissipation(uniform, steep) == pytest.approx(squares, rel=1e-12)
    # under USA alone the uniform density stands still
    both = mf.USA(1.0) + steep
    assert mf.energy(uniform, both) == pytest.approx(mf.energy(uniform, 1.0) + height, rel=1e-13)
    assert mf.dissipation(uniform, both) == pytest.approx(squares, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dim", [2, 3, 768])
def test_the_mean_cosine_is_that_of_pairs(dim, weighted):
    """Rounding of |∫ x dmu|² is all that is lost, of some 1/n where directions are independent."""
    rng = np.random.default_rng(4)
    points = mf.Uniform(dim).sample(300, rng)
    weights = rng.uniform(size=300) if weighted else None
    tokens = mf.Particles(points, weights, unit_mass=True)
    pairs = np.outer(tokens.weights, tokens.weights)
    np.fill_diagonal(pairs, 0.0)
    exact = (pairs * (tokens.points @ tokens.points.T)).sum() / pairs.sum()
    assert abs(mf.mean_cosine(tokens) - exact) < 1e-14
    assert mf.mean_cosine(mf.Particles(tokens.points[[0, 0, 0]])) == pytest.approx(1.0, abs=1e-15)


def test_tokens_without_mass_make_no_pairs():
    points = np.eye(3)[[0, 1, 2]]
    assert mf.mean_cosine(mf.Particles(points, [0.5, 0.5, 0.0])) == pytest.approx(0.0, abs=1e-16)
    with pytest.raises(ValueError, match="at least 2 tokens with mass"):
        mf.mean_cosine(mf.Particles(points, [1.0, 0.0, 0.0]))
