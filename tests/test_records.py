"""Laws, spaces, heads and dynamics are their constructor calls; what is public is at home."""

import copy
import dataclasses
import inspect
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meanfield as mf
from meanfield._records import from_record, to_record
from meanfield.dynamics import KNOWN
from meanfield.laws import LAWS
from tests.refusals.bad_calls import KINDS, good_arguments

SPACES = (mf.Circle, mf.Sphere, mf.Zonal)
CLASSES = (*KNOWN, mf.Head, mf.Causal, *LAWS, *SPACES)

numbers = st.floats(0.0, 20.0)
signs, truths, steps = st.sampled_from([1, -1]), st.booleans(), st.floats(0.01, 2.0)
small = st.lists(st.floats(-0.1, 0.1), min_size=1, max_size=3)
dims = st.integers(2, 5)
noises = st.sampled_from([0.0, 0.25])


def arrays(*shape):
    one = st.floats(-1.0, 1.0)
    count = int(np.prod(shape))
    return st.lists(one, min_size=count, max_size=count).map(lambda x: np.reshape(x, shape))


def units(dim):
    """Unit vectors whose first entry is positive."""
    return arrays(dim).map(lambda x: x + 2.0 * np.eye(dim)[0]).map(lambda x: x / np.linalg.norm(x))


def heads(dim):
    values = numbers | arrays(dim, dim)
    scores = st.builds(mf.Head, numbers, numbers | arrays(dim, dim), values)
    return scores | st.builds(mf.Head, arrays(2, dim), arrays(2, dim), values)


@st.composite
def simple_laws(draw):
    dim = draw(dims)
    points = np.array(draw(st.lists(units(dim), min_size=1, max_size=3)))
    kinds = {
        "uniform": st.just(mf.Uniform(dim)),
        "von Mises-Fisher": st.builds(mf.VonMisesFisher, units(dim), numbers),
        "Fourier": st.builds(mf.FourierSeries, small, small),
        "zonal": st.builds(mf.ZonalSeries, st.just(dim), small, st.none() | units(dim)),
        "values": st.builds(
            mf.Tabulated,
            st.just(np.linspace(0.0, np.pi, 4)),
            st.lists(st.floats(1.0, 1.3), min_size=4, max_size=4),
            axis=units(dim),
            unit_mass=st.just(True),
        ),
        "tokens": st.builds(mf.PointCloud, st.just(points), bandwidth=st.sampled_from([None, 0.5])),
    }
    return draw(kinds[draw(st.sampled_from(list(kinds)))])


def mixtures(law):
    return st.builds(
        mf.Mixture,
        st.just([law, mf.Uniform(law.dim)]),
        st.sampled_from([None, [1, 3]]),
        unit_mass=st.just(True),
    )


laws = simple_laws() | simple_laws().flatmap(mixtures)
spaces = (
    st.builds(mf.Circle, st.sampled_from([8, 16]))
    | st.builds(mf.Sphere, st.integers(3, 8), st.sampled_from([None, "ducc0"]))
    | dims.flatmap(lambda d: st.builds(mf.Zonal, st.just(d), st.integers(3, 9), units(d)))
)
masks = st.none() | st.builds(mf.Causal, st.floats(0.0, 1e3))
isotropic = [
    *(st.builds(kind, numbers, sign=signs, noise=noises, mask=masks) for kind in (mf.SA, mf.USA)),
    st.builds(mf.DoublyStochastic, numbers, sign=signs, noise=noises),
]
still = [
    *(st.builds(kind, numbers, sign=signs) for kind in (mf.SA, mf.USA, mf.DoublyStochastic)),
    dims.flatmap(
        lambda d: st.builds(mf.Attention, numbers, st.lists(heads(d), min_size=1), mask=masks)
    ),
    st.builds(
        mf.FeedForward, arrays(3, 2), arrays(2, 3), activation=st.sampled_from(["relu", "tanh"])
    ),
]
layers = st.builds(mf.Layers, st.one_of(still).map(lambda one: [one]), step=steps)
DRAWN = {
    "Layers": layers
    | st.builds(
        mf.Layers.random,
        st.sampled_from(["values", "ginibre", "wigner-product"]),
        beta=numbers,
        dim=dims,
        n_layers=st.integers(1, 10**6),
        step=steps,
        rng=st.integers(0, 2**63 - 1),
        scale=st.none() | numbers,
    ),
    "LayerMap": st.builds(mf.LayerMap, st.one_of(*still, layers), step=steps),
    "Interaction": st.builds(
        mf.Interaction,
        st.just([2.0, 1.0, 0.5]),
        normalised=truths,
        sign=signs,
        noise=noises,
        mask=masks,
    ),
    "Alignment": st.builds(mf.Alignment, st.floats(0.0, 100.0), noise=noises),
    "CircleInteraction": st.builds(
        mf.CircleInteraction, small, small, coupling=steps, noise=noises
    ),
    "Kuramoto": st.builds(mf.Kuramoto, steps, noise=noises),
}
# a kind that is not drawn has its good arguments
made = [kind(**good_arguments(name)) for name, kind in KINDS.items() if name not in DRAWN]
dynamics = st.one_of(*isotropic, *still, *DRAWN.values(), st.sampled_from(made))


@pytest.mark.parametrize(
    "kind", ["space", "head", "dynamics", pytest.param("law", marks=pytest.mark.slow)]
)
@given(st.data())
def test_a_record_is_its_constructor_call(kind, data):
    drawn = {"law": laws, "space": spaces, "head": dims.flatmap(heads), "dynamics": dynamics}
    thing = data.draw(drawn[kind])
    names = [field.name for field in dataclasses.fields(thing) if field.init]
    # whether weights were divided by their sum is not told: they are
    parameters = inspect.signature(type(thing)).parameters
    assert names == [name for name in parameters if name != "unit_mass"]
    record = json.loads(json.dumps(to_record(thing, CLASSES), default=np.ndarray.tolist))
    assert record["type"] == type(thing).__name__
    for again in (
        *(copy.copy(thing), copy.deepcopy(thing), dataclasses.replace(thing)),
        *(pickle.loads(pickle.dumps(thing)), from_record(record, CLASSES)),
        type(thing)(**{name: getattr(thing, name) for name in names}),
    ):
        assert type(again) is type(thing)
        assert again == thing
        assert hash(again) == hash(thing)
        assert repr(again) == repr(thing)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(thing, names[0], getattr(thing, names[0]))


@given(spaces)
def test_a_space_of_another_process_transforms_alike(space):
    again = pickle.loads(pickle.dumps(space))
    values = 1.0 + 0.5 * space.points[:, 0]
    coefficients = space.analysis(values)
    assert np.abs(coefficients).max() > 0.5
    assert np.array_equal(again.analysis(values), coefficients)
    assert np.array_equal(again.synthesis(coefficients), space.synthesis(coefficients))


CHANGES = [
    (mf.Circle(16), {"n": 32}),
    (mf.Sphere(7), {"lmax": 8}),
    (mf.Zonal(3, 7), {"axis": [1.0, 0.0, 0.0]}),
    (mf.Kuramoto(2.0), {"coupling": 3.0}),
    (mf.LayerMap(mf.SA(1.0), step=0.1), {"dynamics": mf.USA(1.0)}),
]


@pytest.mark.parametrize(("thing", "change"), CHANGES)
def test_another_argument_makes_another(thing, change):
    other = dataclasses.replace(thing, **change)
    assert other != thing
    assert dataclasses.replace(other, **{name: getattr(thing, name) for name in change}) == thing


def test_kuramoto_is_a_kind_of_circle_interaction():
    assert isinstance(mf.Kuramoto(2.0), mf.CircleInteraction)
    assert repr(mf.Kuramoto(2.0)) == "Kuramoto(coupling=2.0, noise=0.0)"
    assert mf.Kuramoto(2.0) != mf.CircleInteraction([1.0], coupling=2.0)


POSITIONAL = {
    mf.SA: ["beta"],
    mf.USA: ["beta"],
    mf.DoublyStochastic: ["beta"],
    mf.Attention: ["beta", "heads"],
    mf.Interaction: ["kernel"],
    mf.Causal: ["decay"],
    mf.FeedForward: ["W", "A", "b"],
    mf.Alignment: ["exponent"],
    mf.Layers: ["layers"],
    mf.LayerMap: ["dynamics"],
    mf.PointCloud: ["points", "weights"],
    mf.CircleInteraction: ["sin", "cos"],
    mf.Kuramoto: ["coupling"],
}


@pytest.mark.parametrize("kind", POSITIONAL)
def test_all_but_the_nouns_are_keywords(kind):
    assert positional(kind) == POSITIONAL[kind]


@pytest.mark.parametrize("name", KINDS)
def test_options_of_a_dynamics_are_keywords(name):
    assert not {"sign", "normalised", "noise", "mask", "weights"} & {*positional(KINDS[name])}


def positional(kind):
    parameters = inspect.signature(kind).parameters.values()
    return [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]


def test_what_is_public_is_at_home():
    public = [getattr(mf, name) for name in mf.__all__]
    public = [thing for thing in public if not inspect.ismodule(thing)]
    assert len(public) > 40
    assert {thing.__module__ for thing in public} == {"meanfield"}
    for thing in public:
        assert pickle.loads(pickle.dumps(thing)) is thing


@pytest.mark.parametrize("name", mf.exceptions.__all__)
def test_what_may_be_caught_is_at_home(name):
    assert issubclass(getattr(mf.exceptions, name), BaseException)
    assert getattr(mf.exceptions, name).__module__ == "meanfield.exceptions"


def test_types_of_signatures_are_answered():
    assert isinstance(mf.Uniform(3), mf.typing.Law)
    assert isinstance(mf.SA(1.0), mf.typing.OwnDynamics)
    mu = mf.Density(mf.Circle(8), mf.Uniform(2))
    for thing, kind in (
        *((space, mf.typing.Space) for space in (mf.Circle(8), mf.Sphere(3), mf.Zonal(4, 3))),
        *((one, mf.typing.Dynamics) for one in (mf.SA(1.0), mf.LayerMap(mf.SA(1.0), step=1.0))),
        *((one, mf.typing.Measure) for one in (mu, mf.Particles([[1.0, 0.0]]))),
    ):
        asked = {name for name in vars(kind) if not name.startswith("_")}
        assert asked <= set(dir(thing))


def test_numbers_do_not_hang_on_how_an_array_lies_in_memory():
    """A file keeps rows, and sums over columns may round another way."""
    rng = np.random.default_rng(1)
    for shape in 12 * [(5, 3)]:
        made = mf.FeedForward.from_potential(np.ones(5), rng.normal(size=shape), activation="tanh")
        record = json.loads(json.dumps(to_record(made, KNOWN), default=np.ndarray.tolist))
        read = from_record(record, KNOWN)
        tokens = mf.Particles.sample(mf.Uniform(3), 12, rng)
        assert mf.energy(tokens, made) == mf.energy(tokens, read)
        assert np.array_equal(made.output(None, tokens.points), read.output(None, tokens.points))
