"""A kernel of a user's own moves every measure, and all of them agree."""

import copy
import pickle
from dataclasses import dataclass, replace
from functools import cache
from math import factorial

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import meanfield as mf
from meanfield.dynamics.isotropic import KernelDynamics
from meanfield.equations.tendency import tendency
from meanfield.kernels.kernel import Sampled, kernel_of
from meanfield.spaces.gegenbauer import gauss_gegenbauer
from tests.handmade import interrupted, slow, stopped_by_checkpoint


def pole(t):
    return 1.0 / (1.5 - t)


def pole_slope(t):
    return 1.0 / (1.5 - t) ** 2


# s, S with S(0) = 0, and the dynamics
SQUARE = (
    lambda t: (1.0 + 0.5 * t) ** 2,
    lambda t: ((1.0 + 0.5 * t) ** 3 - 1.0) / 1.5,
    mf.Interaction([1.0, 1.0, 0.25], normalised=True),
)
STEEP = (
    lambda t: (1.0 + 2.0 * t) ** 2,
    lambda t: ((1.0 + 2.0 * t) ** 3 - 1.0) / 6.0,
    mf.Interaction([1.0, 4.0, 4.0]),
)
POLE = pole, lambda t: -np.log(1.0 - t / 1.5), mf.Interaction((pole, pole_slope), normalised=True)
REPELLING = (*POLE[:2], mf.Interaction((pole, pole_slope), sign=-1))
KINDS = {"square": SQUARE, "steep": STEEP, "pole": POLE, "repelling": REPELLING}
# where the means have moved by a tenth, and spaces that hold the start hold the end
END = {"square": 0.5, "steep": 0.2, "pole": 0.5, "repelling": 0.5}
TIGHT = {"rtol": 1e-11, "atol": 1e-13}


def direction(dim):
    return np.array([1.0, *np.zeros(dim - 1)]) if dim == 2 else np.eye(dim)[-1]


def law(dim):
    return mf.VonMisesFisher(direction(dim), 1.5)


@cache
def by_characteristics(name, dim):
    """Mean and energy at its end of 176 weighted angles about the axis, by code of this file alone.

    A density's integrals are those over its characteristics. Each latitude is a ring of Gauss
    points u, so that <x,y> = cos φ cos ψ + u sin φ sin ψ; on the circle the ring is two points.
    """
    s, primitive, dynamics = KINDS[name]
    cosines, shares = gauss_gegenbauer(dim, 176)
    masses = shares * np.exp(1.5 * cosines)
    masses /= masses.sum()
    u, w = (np.array([-1.0, 1.0]), np.array([0.5, 0.5]))
    if dim > 2:
        u, w = gauss_gegenbauer(dim - 1, 24)

    def pairs(angles):
        c, r = np.cos(angles), np.sin(angles)
        t = np.outer(c, c)[:, :, None] + np.outer(r, r)[:, :, None] * u
        return t, np.outer(c, r)[:, :, None] * u - np.outer(r, c)[:, :, None]

    def velocity(_, angles):
        t, along = pairs(angles)
        pull = np.einsum("ijk,j,k->i", s(t) * along, masses, w)
        if dynamics.normalised:
            pull /= np.einsum("ijk,j,k->i", s(t), masses, w)
        return dynamics.sign * pull

    end = solve_ivp(
        velocity, (0.0, END[name]), np.arccos(cosines), "DOP853", rtol=1e-12, atol=1e-13
    )
    angles = end.y[:, -1]
    energy = 0.5 * np.einsum("ijk,i,j,k->", primitive(pairs(angles)[0]), masses, masses, w)
    return masses @ np.cos(angles), energy


def measures(dim):
    spaces = {2: [mf.Circle(96)], 3: [mf.Sphere(32), mf.Zonal(3, 63)], 5: [mf.Zonal(5, 63)]}
    return [mf.Density(space, law(dim)) for space in spaces[dim]] + [mf.FlowMap(law(dim))]


@pytest.mark.parametrize("dim", [2, *map(slow, (3, 5))])
@pytest.mark.parametrize("name", KINDS)
def test_every_measure_agrees_with_characteristics(name, dim):
    mean, energy = by_characteristics(name, dim)
    for measure in measures(dim):
        sol = mf.evolve(measure, KINDS[name][2], END[name], 1, **TIGHT)
        assert sol.status == "finished"
        assert np.linalg.norm(sol.final.mean() - measure.mean()) > 0.05
        # the default tolerance of a flow map, and the same of the steps here
        assert sol.final.mean() @ direction(dim) == pytest.approx(mean, abs=1e-8)
        assert sol.dataset.energy.values[-1] == pytest.approx(energy, abs=1e-8)
        assert np.abs(sol.dataset.balance_error.values).max() < 1e-10


BUMPS = mf.Mixture(
    [mf.VonMisesFisher([1.0, 0.0, 0.0], 2.0), mf.VonMisesFisher([0.0, 0.6, 0.8], 3.0)], [0.4, 0.6]
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["square", "pole"])
def test_without_an_axis(name):
    """A density on S² and a flow map of nodes on it, whose law has no axis."""
    dynamics = KINDS[name][2]
    density = mf.evolve(mf.Density(mf.Sphere(32), BUMPS), dynamics, 0.3, 1, **TIGHT)
    flow = mf.evolve(mf.FlowMap(BUMPS), dynamics, 0.3, 1)
    # a mesh is laid to 1e-9 in mass, and to a thousand times that in the density
    np.testing.assert_allclose(density.final.mean(), flow.final.mean(), atol=1e-8)
    energies = [sol.dataset.energy.values[-1] for sol in (density, flow)]
    assert energies[0] == pytest.approx(energies[1], abs=1e-8)
    points = mf.Particles.sample(mf.Uniform(3), 20, np.random.default_rng(1)).points
    np.testing.assert_allclose(density.final.pdf(points), flow.pdf(points, 0.3), atol=1e-6)
    for sol in density, flow:
        assert np.abs(sol.dataset.balance_error.values).max() < 1e-10


@pytest.mark.parametrize("dim", [2, 3, 6])
@pytest.mark.parametrize("name", KINDS)
def test_tokens(name, dim):
    """By sums over all pairs of this file; energy and balance of the run."""
    s, primitive, dynamics = KINDS[name]
    tokens = mf.Particles.sample(law(dim), 30, np.random.default_rng(2))

    def velocity(_, state):
        x = state.reshape(30, dim)
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        weights = s(x @ x.T)
        pull = weights @ x / (weights.sum(axis=1, keepdims=True) if dynamics.normalised else 30)
        return dynamics.sign * (pull - (pull * x).sum(axis=1, keepdims=True) * x).ravel()

    end = solve_ivp(velocity, (0, 1), tokens.points.ravel(), "DOP853", rtol=1e-12, atol=1e-13)
    expected = end.y[:, -1].reshape(30, dim)
    expected /= np.linalg.norm(expected, axis=1)[:, None]
    sol = mf.evolve(tokens, dynamics, 1.0, 1, **TIGHT)
    np.testing.assert_allclose(sol.final.points, expected, atol=1e-9)
    inner = np.clip(expected @ expected.T, -1.0, 1.0)
    assert sol.dataset.energy.values[-1] == pytest.approx(0.5 * primitive(inner).mean(), abs=1e-10)
    assert np.abs(sol.dataset.balance_error.values).max() < 1e-10


@pytest.mark.parametrize("normalised", [slow(False), True], ids=["USA", "SA"])
@pytest.mark.parametrize(
    "measure",
    [
        mf.Density(mf.Circle(64), law(2)),
        mf.Density(mf.Sphere(24), BUMPS),
        mf.Density(mf.Zonal(4, 48), law(4)),
        mf.FlowMap(law(2)),
        mf.FlowMap(law(4)),
        mf.Particles.sample(law(4), 20, np.random.default_rng(3)),
    ],
    ids=repr,
)
def test_exponential_is_attention(measure, normalised):
    """s = e^{βt}: the numbers of USA and SA, whose energy is larger by 1/(2β)."""
    beta = 1.5
    known = mf.evolve(measure, (mf.SA if normalised else mf.USA)(beta), 0.5, 2).dataset
    functions = (lambda t: np.exp(beta * t), lambda t: beta * np.exp(beta * t))
    for kernel in [beta**j / factorial(j) for j in range(40)], functions:
        own = mf.evolve(measure, mf.Interaction(kernel, normalised=normalised), 0.5, 2).dataset
        np.testing.assert_allclose(own.energy + 0.5 / beta, known.energy, rtol=1e-11)
        # steps may differ, each to 1e-9
        for name in {"dissipation", "work", "metric_speed"} & set(known):
            np.testing.assert_allclose(own[name], known[name], rtol=1e-9, atol=1e-12)


def test_division_by_a_kernel_with_a_zero_is_refused():
    for kernel in [1.0, 4.0, 4.0], [0.0, 1.0], (np.sin, np.cos):
        with pytest.raises(ValueError, match=r"kernel must be positive .* normalised is True, got"):
            mf.Interaction(kernel, normalised=True)
        assert mf.Interaction(kernel).normalised is False


@pytest.mark.slow
def test_coefficients_are_kept_and_functions_are_not(tmp_path):
    """A run by coefficients goes on from its file alone, one by functions with its dynamics."""
    density, path = mf.Density(mf.Circle(32), law(2)), tmp_path / "run.nc"
    for dynamics in mf.Interaction([1.0, 1.0]), mf.Interaction((pole, pole_slope)):
        whole, own = mf.evolve(density, dynamics, 0.2, 4), {}
        with stopped_by_checkpoint(0.04):
            interrupted(mf.evolve, density, dynamics, 0.2, 4, checkpoint=path)
        if isinstance(dynamics.kernel, Sampled):
            with pytest.raises(ValueError, match="dynamics must be that of the run, Interaction"):
                mf.resume(path)
            with pytest.raises(ValueError, match=r"must be that of the run, .*, got .*20.08"):
                mf.resume(path, dynamics=steep(3.0))
            own = {"dynamics": dynamics}
        else:
            assert mf.load(path).dynamics == dynamics
        resumed = mf.resume(path, **own)
        np.testing.assert_array_equal(resumed.final.coefficients, whole.final.coefficients)


def test_case_file():
    measure = 'measure = { type = "Density", space = { type = "Circle", n = 16 } }\n'
    dynamics = 'dynamics = { type = "Interaction", kernel = [1.0, 1.0, 0.25], normalised = true }\n'
    case = mf.Case(f'law.type = "Uniform"\nrun.t_end = 0.1\n{measure}{dynamics}')
    assert case.build()[1] == SQUARE[2]


def test_noise_adds_its_part_to_the_balance():
    """dE/dt = ∫ |X|² dmu + τ ∫ u Δf dσ, and the free energy falls."""
    dynamics = mf.Interaction([1.0, 1.0, 0.25], noise=0.2)
    sol = mf.evolve(mf.Density(mf.Circle(96), law(2)), dynamics, 0.5, 4, rtol=1e-9)
    assert np.abs(sol.dataset.balance_error.values).max() < 1e-8
    free = sol.dataset.free_energy.values
    assert (np.diff(free) < 0.0).all()
    np.testing.assert_allclose(free - free[0], sol.dataset.free_work.values, atol=1e-7)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("name", KINDS)
def test_sums_in_linear_time_are_those_over_pairs(name, dim):
    """Cells on the circle, harmonics on S²; from some number of tokens on by themselves."""
    points = mf.Particles.sample(law(dim), 60, np.random.default_rng(7)).points
    direct, fast = (
        mf.evolve(mf.Particles(points, sums=sums), KINDS[name][2], 0.5, 1, **TIGHT)
        for sums in ("direct", "transforms")
    )
    assert [sol.dataset.attrs["sums"] for sol in (direct, fast)] == ["direct", "transforms"]
    np.testing.assert_allclose(fast.final.points, direct.final.points, atol=1e-10)
    for variable in "energy", "dissipation", "work":
        np.testing.assert_allclose(fast.dataset[variable], direct.dataset[variable], rtol=1e-9)
    many = mf.Particles.sample(law(dim), 2000, np.random.default_rng(8))
    assert many.kernel_sums(KINDS[name][2].kernel) is not None
    few = mf.Particles.sample(law(4), 2000, np.random.default_rng(8))
    assert few.kernel_sums(KINDS[name][2].kernel) is None


@pytest.mark.slow
def test_where_a_potential_is_small_pairs_are_summed():
    """e^{30t} as a function, all tokens in a cap but one: G there is e^{-50} of its largest."""
    dynamics = mf.Interaction(
        (lambda t: np.exp(30.0 * t), lambda t: 30.0 * np.exp(30.0 * t)), normalised=True
    )
    points = mf.Particles.sample(
        mf.VonMisesFisher([0.0, 0.0, 1.0], 200.0), 50, np.random.default_rng(9)
    ).points
    points = np.vstack([points, [0.0, 0.6, -0.8]])
    direct, fast, known = (
        mf.evolve(mf.Particles(points, sums=sums), moved, 0.1, 1, **TIGHT).final.points
        for sums, moved in (
            ("direct", dynamics),
            ("transforms", dynamics),
            ("direct", mf.SA(30.0)),
        )
    )
    np.testing.assert_allclose(fast, direct, atol=1e-10)
    np.testing.assert_allclose(direct, known, atol=1e-10)


@pytest.mark.parametrize(
    "kernel", [[1.0, 1.0, 0.25], (pole, pole_slope)], ids=["powers", "function"]
)
def test_equal_by_value_and_copied(kernel):
    dynamics = mf.Interaction(kernel, normalised=True, noise=0.5)
    assert dynamics == mf.Interaction(tuple(kernel), normalised=True, noise=0.5)
    assert dynamics != mf.Interaction(kernel, noise=0.5)
    for same in (
        copy.copy(dynamics),
        copy.deepcopy(dynamics),
        pickle.loads(pickle.dumps(dynamics)),
        replace(replace(dynamics, noise=0.1), noise=0.5),
    ):
        assert same == dynamics
        assert hash(same) == hash(dynamics)
        t = np.linspace(-1.0, 1.0, 5)
        np.testing.assert_array_equal(same.kernel.primitive(t), dynamics.kernel.primitive(t))


def steep(beta, **options):
    return mf.Interaction(
        (lambda t: np.exp(beta * t), lambda t: beta * np.exp(beta * t)), normalised=True, **options
    )


@pytest.mark.parametrize("space", [mf.Circle(256), mf.Sphere(47), mf.Zonal(3, 127)], ids=str)
def test_densities_where_the_series_has_no_digits(space):
    """G falls to e^{-40} of its largest beside a sharp density: positive terms are summed."""
    start = mf.Density(space, mf.VonMisesFisher(np.eye(space.dim)[-1], 40.0))
    rates = []
    for dynamics in steep(20.0), mf.SA(20.0):
        rate = tendency(start, dynamics)
        rates.append(np.empty_like(rate.initial_state))
        rate(rate.initial_state, rates[-1])
    assert np.abs(rates[0] - rates[1]).max() < 1e-10 * np.abs(rates[1]).max()


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3])
def test_clusters_become_atoms(dim):
    """Beyond the time at which a cluster is a point: the same measure as under SA."""
    flow = mf.FlowMap(law(dim), atom_radius=1e-4)
    own, known = (mf.evolve(flow, dynamics, 14.0, 4) for dynamics in (steep(4.0), mf.SA(4.0)))
    # a few ulps of β decide when nodes beside the heavy atom become small ones, and so how many
    # there are: 6 or 8 on the circle; each moves its mass by no more than the radius
    heaviest = [run.final.atoms.masses[0] for run in (own, known)]
    gap = mf.wasserstein(own.final, known.final, p=1)
    assert gap.upper <= flow.atom_radius * (1.0 - min(heaviest))
    np.testing.assert_allclose(own.final.mean(), known.final.mean(), atol=1e-9)
    np.testing.assert_allclose(own.dataset.n_clusters, known.dataset.n_clusters)
    np.testing.assert_allclose(own.dataset.energy + 0.125, known.dataset.energy, rtol=1e-9)


@dataclass(frozen=True)
class Bare(KernelDynamics):
    """What the steps of adding a dynamics ask for, and no more."""

    # as a file of the package would have it
    __module__ = KernelDynamics.__module__
    normalised: bool = False
    sign: int = 1
    noise: float = 0.0

    pair_kernel = kernel_of((pole, pole_slope))


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("sign", [slow(1), -1])
def test_a_kernel_tells_the_facts_of_its_dynamics(normalised, sign):
    """A dynamics of its own that gives a kernel moves as `Interaction` does, with its atoms."""
    whole = mf.Interaction((pole, pole_slope), normalised=normalised, sign=sign)
    bare = Bare(normalised, sign)
    assert (bare.has_kernel_unit, bare.keeps_clusters) == (
        whole.has_kernel_unit,
        whole.keeps_clusters,
    )
    assert (bare.has_kernel_unit, bare.keeps_clusters) == (not normalised, sign > 0)
    flow = mf.FlowMap(law(2), atom_radius=1e-3)
    own, known = (mf.evolve(flow, dynamics, 8.0, 1).final for dynamics in (bare, whole))
    np.testing.assert_allclose(own.mean(), known.mean(), atol=1e-9)
    assert len(own.atoms) == len(known.atoms) == (sign > 0)


@pytest.mark.slow
def test_nothing_is_held_where_neighbours_repel():
    """s(1) < 0: what comes near is no atom, though far tokens attract."""
    dynamics = mf.Interaction([1.0, -2.0])
    assert not dynamics.keeps_clusters
    final = mf.evolve(mf.FlowMap(law(2)), dynamics, 8.0, 1).final
    assert len(final.atoms) == 0


def test_share_where_a_dirac_has_no_energy():
    """S(1) = 0 but for rounding: there is no share, and the balance is in units of 1."""
    wave = 2.0 * np.pi
    dynamics = mf.Interaction((lambda t: np.cos(wave * t), lambda t: -wave * np.sin(wave * t)))
    assert dynamics.energy_functional.dirac == 0.0
    data = mf.evolve(mf.Density(mf.Circle(64), law(2)), dynamics, 0.5, 2, **TIGHT).dataset
    assert "energy_share" not in data
    gap = data.energy - data.energy[0] - data.work
    np.testing.assert_allclose(data.balance_error, gap, atol=1e-15)
    assert np.abs(gap).max() < 1e-10
