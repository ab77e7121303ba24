"""A class made from one of the package is taken as what it is, or refused; never for its parent."""

import copy
import inspect
import pickle

import numpy as np
import pytest

import meanfield as mf
from meanfield.measures import LineFlowMap, SphereFlowMap
from tests.handmade import run
from tests.refusals.bad_calls import KINDS, good_arguments

EAST = mf.VonMisesFisher([1.0, 0.0], 1.0)
NORTH = mf.VonMisesFisher([0.0, 0.0, 1.0], 1.0)
CIRCLE = mf.Circle(16)


def at_module(made):
    """The class by its name in this module, where pickle looks for it."""
    globals()[made.__name__] = made
    return made


def made_from(kind):
    return at_module(type(f"My{kind.__name__}", (kind,), {"__module__": __name__}))


# a measure of each class, or of one made from it
MEASURES = {
    mf.Density: lambda kind: kind(CIRCLE, EAST),
    mf.Particles: lambda kind: kind(np.eye(2)),
    LineFlowMap: lambda kind: kind(EAST),
    SphereFlowMap: lambda kind: kind(NORTH, tol=1e-4),
    mf.Oscillators: lambda kind: kind([0.0, 1.0], [0.0, 1.0]),
    mf.OscillatorDensity: lambda kind: kind(CIRCLE, EAST, [0.0]),
}
SPACES = {mf.Circle: (16,), mf.Sphere: (7,), mf.Zonal: (3, 7)}
DYNAMICS = {
    kind: lambda kind, name=name: kind(**good_arguments(name)) for name, kind in KINDS.items()
}
LAWS = {
    mf.Uniform: lambda kind: kind(2),
    mf.VonMisesFisher: lambda kind: kind([1.0, 0.0], 1.0),
    mf.Mixture: lambda kind: kind([EAST]),
    mf.PointCloud: lambda kind: kind(np.eye(2), bandwidth=0.5),
    mf.Tabulated: lambda kind: kind([0.0, 2.0, 4.0], [1.0, 1.0, 1.0]),
    mf.FourierSeries: lambda kind: kind(cos=[0.5]),
    mf.ZonalSeries: lambda kind: kind(2, [0.5]),
}
# results of functions, which nothing makes again; and classes that tests below look at alone
RESULTS = {mf.Bracket, mf.Clusters, mf.FreeTokens, mf.SlicedDistance, mf.DistanceTo}
ALONE = {mf.Head, mf.Causal, mf.Schedule, mf.Case, mf.Solution, mf.FlowMap, mf.LayerStates}


def test_every_public_class_is_here():
    public = {getattr(mf, name) for name in mf.__all__}
    classes = {one for one in public if inspect.isclass(one)}
    known = {*MEASURES, *SPACES, *DYNAMICS, *LAWS, *RESULTS, *ALONE}
    assert classes == known - {LineFlowMap, SphereFlowMap}


def of(kinds, quick=None):
    """Tests of each kind, all of them quick or one."""
    return pytest.mark.parametrize(
        ("kind", "make"),
        [
            pytest.param(
                kind,
                make,
                id=kind.__name__,
                marks=() if quick in (None, kind) else pytest.mark.slow,
            )
            for kind, make in kinds.items()
        ],
    )


@of(MEASURES)
def test_measures(kind, make, tmp_path):
    mu, parent = make(made_from(kind)), make(kind)
    dynamics = mf.Kuramoto(1.0) if "Oscillator" in kind.__name__ else mf.SA(1.0)
    calls = {
        "evolve": lambda: mf.evolve(mu, dynamics, 0.1, 1),
        "save": lambda: run([mu]).save(tmp_path / "run.nc"),
        "energy": lambda: mf.energy(mu, 1.0),
        "velocity": lambda: dynamics.velocity(mu, np.eye(mu.dim)),
        "clusters": lambda: mf.clusters(mu),
        "distance": lambda: mf.wasserstein(parent, mu),
        "monitor": lambda: mf.DistanceTo(mu),
        "figure": lambda: mf.plot.density(mu),
    }
    if kind in (mf.Density, mf.OscillatorDensity):
        calls["resize"] = lambda: mu.resize(32)
    if kind is mf.Density:
        calls["flow map"] = lambda: mf.FlowMap(mu)
    for name, call in calls.items():
        message = (
            rf" must be a Density, FlowMap or Particles, not of .* of class My{kind.__name__}$"
        )
        with pytest.raises(ValueError, match=message):
            pytest.fail(f"{name} gave {call()}")
    assert not list(tmp_path.iterdir())
    for again in copy.copy(mu), copy.deepcopy(mu), pickle.loads(pickle.dumps(mu)):
        assert type(again) is type(mu)


def test_flow_maps_have_two_classes():
    with pytest.raises(ValueError, match=r"^FlowMap must not be the base of .*, got MyFlowMap$"):
        made_from(mf.FlowMap)(EAST)


@pytest.mark.parametrize("kind", SPACES)
def test_spaces(kind):
    space = made_from(kind)(*SPACES[kind])
    message = rf"^space must be a Circle, .*, not of .* of class My{kind.__name__}$"
    with pytest.raises(ValueError, match=message):
        mf.Density(space, mf.Uniform(space.dim))
    with pytest.raises(ValueError, match=message):
        mf.Density.from_coefficients(space, np.eye(1, space.n_coefficients)[0])
    with pytest.raises(ValueError, match=r"^space must be a Circle, "):
        mf.OscillatorDensity(space, mf.Uniform(space.dim), [0.0])
    assert space != kind(*SPACES[kind])
    for again in copy.copy(space), pickle.loads(pickle.dumps(space)):
        assert again == space
        assert type(again) is type(space)


def repelled(self, measure, points):
    return -points


def of_one_kind(dynamics, density):
    """Calls that take dynamics of the package only."""
    return [
        *(lambda f=f: f(density, dynamics) for f in (mf.energy, mf.dissipation, mf.slope)),
        lambda: mf.theory.growth_rates(dynamics, 2, 3),
        lambda: mf.theory.energy_dirac(dynamics),
        lambda: mf.theory.dobrushin_constant(dynamics),
        lambda: mf.theory.orthogonal_arrival(dynamics, 4, 0.1),
        lambda: mf.studies.phase_diagram([dynamics], 4, 3, t_end=0.1, rng=0, repeats=1),
        lambda: mf.studies.metastability(dynamics, rng=0, t_end=1.0),
        lambda: mf.studies.stationary_states(dynamics, dim=2),
        lambda: mf.studies.stationary_density(dynamics, dim=2),
    ]


@of(DYNAMICS)
def test_dynamics(kind, make):
    """One without an output of its own would run as its parent: it is refused."""
    dynamics = make(made_from(kind))
    tokens, density = mf.Particles(np.eye(2)), mf.Density(CIRCLE, EAST)
    calls = [
        *of_one_kind(dynamics, density),
        *(
            lambda mu=mu: mf.evolve(mu, dynamics, 0.1, 1)
            for mu in (tokens, density, mf.FlowMap(EAST))
        ),
        lambda: mf.metric_speed(tokens, dynamics),
        lambda: mf.LayerMap(dynamics, step=0.1),
        lambda: mf.Layers([dynamics]),
        lambda: mf.studies.mean_field_limit(EAST, dynamics, 0.1, n=[4], rng=0, repeats=1),
        lambda: mf.studies.causal_limit(EAST, dynamics, 0.1, n=[4], rng=0, repeats=1),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"^(dynamics|layers) must "):
            call()
    message = (
        f"^dynamics must not be of a class made from .* of class My{kind.__name__}: a class of"
    )
    with pytest.raises(ValueError, match=message):
        mf.evolve(tokens, dynamics, 0.1, 1)
    assert dynamics != make(kind)


@of(DYNAMICS)
def test_dynamics_with_an_output_of_their_own(kind, make):
    """They are a user's own: nothing of their parent counts."""
    changed = {"__module__": __name__, "output": repelled}
    dynamics = make(type(f"My{kind.__name__}", (kind,), changed))
    tokens, density = mf.Particles(np.eye(2)), mf.Density(CIRCLE, EAST)
    for call in of_one_kind(dynamics, density):
        with pytest.raises(ValueError, match=r"^(dynamics|layers) must "):
            call()
    if kind is not mf.LayerMap:
        with pytest.raises(ValueError, match="divergence"):
            mf.evolve(mf.FlowMap(EAST), dynamics, 0.1, 1)
        moved = mf.evolve(density, dynamics, 0.1, 1).final
        np.testing.assert_allclose(moved.pdf(tokens.points), EAST.pdf(tokens.points), atol=1e-12)
    for own in dynamics, mf.Layers([dynamics]) if kind is not mf.LayerMap else dynamics:
        moved = mf.evolve(tokens, own, 0.1, 1).final
        np.testing.assert_allclose(moved.points, tokens.points, atol=1e-14)
    # its own methods are its own
    if kind is mf.SA:
        assert np.abs(dynamics.velocity(tokens, [[1.0, 0.0]])).max() == 0.0


@of(LAWS, quick=mf.Uniform)
def test_laws_are_a_users_own(kind, make, tmp_path):
    """They have what a law has; of a class that a file can't name it keeps no law."""
    tilted = {"__module__": __name__, "_pdf": lambda self, x: 1.0 + 0.5 * x[:, 1]}
    law = make(at_module(type(f"My{kind.__name__}", (kind,), tilted)))
    assert law != make(kind)
    exact = mf.Density(CIRCLE, mf.FourierSeries(sin=[0.5]))
    assert mf.mmd(mf.Density(CIRCLE, law), exact, 1.0) < 1e-7
    flow = mf.FlowMap(law)
    assert mf.mmd(flow, exact, 1.0) < 1e-7
    monitor = mf.DistanceTo(law, distance="mmd", beta=1.0)
    sol = mf.evolve(flow, mf.SA(1.0), 0.1, 1, monitors={"far": monitor})
    assert sol.dataset.far[0] < 1e-7
    sol.save(tmp_path / "run.nc")
    assert repr(mf.load(tmp_path / "run.nc").final.law) == "ForgottenLaw(2)"
    object.__setattr__(law, "word", "own")
    for again in copy.copy(law), copy.deepcopy(law), pickle.loads(pickle.dumps(law)):
        assert type(again) is type(law)
        assert (again, again.word) == (law, "own")


@pytest.mark.parametrize("name", ["_pdf", "pdf"])
def test_an_axis_that_a_law_has_from_its_parent_is_looked_at(name):
    tilted = {"__module__": __name__, name: lambda self, x: 1.0 + 0.5 * np.asarray(x)[:, 0]}
    law = type("Tilted", (mf.Uniform,), tilted)(3)
    for call in (
        lambda: mf.FlowMap(law),
        lambda: mf.Particles.quantise(law, 10),
        lambda: mf.FlowMap(mf.Mixture([law, NORTH])),
    ):
        with pytest.raises(ValueError, match=r"^symmetry_axis of Tilted\(dim=3\) must be one"):
            call()
    law = type("Tilted", (mf.Uniform,), tilted | {"symmetry_axis": np.eye(3)[0]})(3)
    assert isinstance(mf.FlowMap(law), LineFlowMap)
    # ∫ x² dσ = 1/3
    assert mf.FlowMap(law).mean() == pytest.approx([0.5 / 3.0, 0.0, 0.0], abs=1e-9)


def test_a_law_may_have_a_call_of_its_own():
    class Narrow(mf.VonMisesFisher):
        def __init__(self, word):
            super().__init__([1.0, 0.0], 100.0)
            object.__setattr__(self, "word", word)

    law = Narrow("a")
    again = copy.deepcopy(law)
    assert (type(again), again, again.word) == (Narrow, law, "a")
    assert np.array_equal(again.pdf(np.eye(2)), law.pdf(np.eye(2)))


def test_heads_act_as_what_they_are(tmp_path):
    class Turned(mf.Head):
        @property
        def matrix(self):
            return -1.0

    tokens = mf.Particles.from_angles([0.0, 1.0])
    own, known = mf.Attention(1.0, [Turned()]), mf.Attention(1.0, [mf.Head(K=-1.0)])
    assert own != mf.Attention(1.0, [mf.Head()])
    for mu in tokens, mf.Density(CIRCLE, EAST), mf.FlowMap(EAST):
        sol, expected = (mf.evolve(mu, dynamics, 1.0, 1) for dynamics in (own, known))
        assert np.array_equal(sol.final.mean(), expected.final.mean())
    sol.save(tmp_path / "run.nc")
    assert type(mf.load(tmp_path / "run.nc").dynamics).__name__ == "ForgottenDynamics"


def test_cases_are_texts():
    with pytest.raises(TypeError, match=r"^Case can't be the base of a class, got MyCase$"):
        made_from(mf.Case)


def test_solutions(tmp_path):
    known = run([mf.Particles(np.eye(2))])
    sol = copy.copy(known)
    object.__setattr__(sol, "__class__", made_from(mf.Solution))
    with pytest.raises(ValueError, match=r"^a file keeps a Solution, .* of class MySolution$"):
        sol.save(tmp_path / "run.nc")
    assert not list(tmp_path.iterdir())


def test_layers_of_a_file_are_of_the_class_that_reads_it(tmp_path):
    np.save(tmp_path / "states.npy", np.ones((3, 2, 4)))
    kind = made_from(mf.LayerStates)
    states = kind.from_file(tmp_path / "states.npy")
    for again in states, states.prompt(0), copy.copy(states), pickle.loads(pickle.dumps(states)):
        assert type(again) is kind
        assert np.array_equal(again.points(2), np.full((2, 4), 0.5))
