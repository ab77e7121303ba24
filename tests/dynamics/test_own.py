"""A dynamics from outside of the package moves tokens, and a file says what it can't keep of it."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

import meanfield as mf
from meanfield import theory
from meanfield.dynamics.own import adapt, describe
from tests.handmade import interrupted, stopped_by_checkpoint, unfinished


@dataclass(frozen=True)
class Bounded:
    """Krause's rule, Remark 2.1: tokens see those within a cap, and all of these alike."""

    cosine: float
    noise: float = 0.0
    name: str = "Bounded"
    dim: ClassVar[None] = None

    def output(self, measure, points):
        seen = (points @ measure.points.T >= self.cosine) * measure.weights
        return seen @ measure.points / seen.sum(axis=1, keepdims=True)


class Half:
    """Half of the field of another dynamics, which it hands on in all else."""

    name = "Half"

    def __init__(self, whole):
        self.whole = whole

    def __getattr__(self, name):
        return getattr(self.whole, name)

    def output(self, measure, points):
        return 0.5 * self.whole.output(measure, points)


@dataclass(frozen=True)
class Copied:
    """SA, asked of the measure by another class."""

    beta: float
    noise: float = 0.0
    name: str = "Copied"
    dim: ClassVar[None] = None

    def output(self, measure, points):
        return measure.log_moment(self.beta * points)[1]


@pytest.fixture
def tokens():
    return mf.Particles.sample(mf.Uniform(4), 30, np.random.default_rng(1))


@pytest.mark.parametrize("passed", [lambda field: field, partial(mf.LayerMap, step=0.1)])
def test_it_moves_tokens_as_the_same_field_of_the_package(tokens, passed):
    fields = Copied(3.0), mf.SA(3.0)
    own, known = (mf.evolve(tokens, passed(each), 2.0, 4, rtol=1e-10) for each in fields)
    assert np.abs(known.final.points - tokens.points).max() > 0.2
    # one field by two ways: rounding in discrete steps, tolerances of 1e-10 in continuous time
    np.testing.assert_allclose(own.final.points, known.final.points, atol=1e-8)
    energies = [mf.energy(measure, 3.0) for measure in own.measures]
    np.testing.assert_allclose(energies, known.dataset.energy, rtol=1e-8)
    assert own.status == "finished"
    assert not {"energy", "work"} & set(own.dataset)
    assert own.dataset.attrs["sums"] == "own"


def test_a_wrapper_moves_by_its_own_output(tokens):
    """It has all names of the dynamics within, its kernel too, and tells no facts by that."""
    halved = mf.evolve(tokens, Half(mf.SA(2.0)), 1.0, 1)
    whole = mf.evolve(tokens, mf.SA(2.0), 0.5, 1)
    assert np.max(np.abs(halved.final.points - tokens.points)) > 1e-2
    np.testing.assert_allclose(halved.final.points, whole.final.points, rtol=0, atol=1e-8)
    with pytest.raises(ValueError, match="which has an output only: a density or a flow map"):
        mf.evolve(mf.Density(mf.Circle(32), mf.Uniform(2)), Half(mf.SA(2.0)), 1.0, 1)


def test_a_part_of_ones_own_class_is_kept_by_its_name(tokens, tmp_path):
    class Mine(mf.Head):
        pass

    dynamics = mf.Attention(1.0, [Mine()])
    mf.evolve(tokens, dynamics, 0.1, 1).save(tmp_path / "run.nc")
    assert repr(mf.load(tmp_path / "run.nc").dynamics) == repr(dynamics)


def test_noise_takes_its_generator_and_step(tokens):
    own, known = (
        mf.evolve(tokens, each, 0.5, 2, rng=np.random.default_rng(0), max_step=0.05)
        for each in (Copied(3.0, 0.1), mf.SA(3.0, noise=0.1))
    )
    np.testing.assert_allclose(own.final.points, known.final.points, atol=1e-12)
    with pytest.raises(ValueError, match=r"max_step must be given for Copied"):
        mf.evolve(tokens, Copied(3.0, 0.1), 0.5, rng=np.random.default_rng(0))


def test_bounded_confidence_leaves_caps_that_do_not_see_each_other():
    angles = np.array([0.0, 0.1, 0.2, 2.0, 2.1])
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    sol = mf.evolve(mf.Particles(points), Bounded(np.cos(0.5)), 20.0, 2)
    # the middle of either cap, where each token feels the same pull from all in it
    ends = np.arctan2(sol.final.points[:, 1], sol.final.points[:, 0])
    np.testing.assert_allclose(ends, [0.1, 0.1, 0.1, 2.05, 2.05], atol=1e-6)


def cut_off(measure, dynamics, path):
    """A run to t = 1 that is interrupted at its second checkpoint."""
    with stopped_by_checkpoint(0.2):
        return interrupted(mf.evolve, measure, dynamics, 1.0, 4, checkpoint=path)


def test_files_keep_its_name_and_go_on_only_with_it(tokens, tmp_path):
    path, known = tmp_path / "run.nc", tmp_path / "known.nc"
    assert cut_off(tokens, Copied(2.0), path).status == "interrupted"
    read = mf.load(path)
    assert (read.dynamics.name, repr(read.dynamics)) == ("Copied", repr(Copied(2.0)))
    others = (
        (None, r"Copied\(beta=2\.0.*, got None"),
        (Copied(3.0), r".*which no file .*Copied\(beta=3"),
    )
    for other, message in others:
        with pytest.raises(ValueError, match=f"dynamics must be that of the run, {message}"):
            mf.resume(path, dynamics=other)
    with pytest.raises(ValueError, match="is not known any more"):
        read.dynamics.output(tokens, tokens.points)
    resumed, whole = mf.resume(path, dynamics=Copied(2.0)), mf.evolve(tokens, Copied(2.0), 1.0, 4)
    np.testing.assert_array_equal(resumed.final.points, whole.final.points)
    # of what is finished, too, nothing else is taken for it
    assert mf.resume(path, dynamics=Copied(2.0)).dynamics == Copied(2.0)
    with pytest.raises(ValueError, match=r"dynamics must be that of the run.*got .*Copied\(beta=3"):
        mf.resume(path, dynamics=Copied(3.0))
    cut_off(tokens, mf.SA(2.0), known)
    with pytest.raises(ValueError, match="dynamics must be None"):
        mf.resume(known, dynamics=Copied(2.0))


@pytest.mark.parametrize(
    ("dynamics", "message"),
    [
        (Copied(1.0, noise=-0.5), "noise of the dynamics must be"),
        (Copied(1.0, name="SA"), r"name of Copied.* must be a word but \['SA'"),
        (Copied(1.0, name=""), "got ''"),
        (Bounded(np.nan), "must be real, finite and of shape"),
        (object(), r"or an object with name, noise and a kernel, heads\(\) or output"),
    ],
)
def test_what_does_not_fit_is_refused(tokens, dynamics, message):
    with np.errstate(invalid="ignore", divide="ignore"), pytest.raises(ValueError, match=message):
        mf.evolve(tokens, dynamics, 1.0)


@pytest.mark.parametrize(
    "measure",
    [
        mf.Density(mf.Circle(16), mf.Uniform(2)),
        mf.FlowMap(mf.FourierSeries(cos=[0.5])),
        mf.Oscillators([0.0, 1.0], frequencies=[0.0, 1.0]),
    ],
)
def test_other_measures_are_refused(measure):
    with pytest.raises(ValueError, match="measure must be Particles under Copied"):
        mf.evolve(measure, Copied(1.0), 1.0)


@pytest.mark.parametrize(
    ("noise", "is_discrete", "how"),
    [
        (0.0, False, {}),
        (0.0, True, {}),
        (1e-6, False, {"max_step": 0.5, "rng": np.random.default_rng(2)}),
    ],
)
def test_an_output_that_stops_being_finite_ends_the_run(tokens, noise, is_discrete, how):
    @dataclass(frozen=True)
    class Breaking:
        name: str = "Breaking"
        beta: float = 0.0
        dim: None = None

        @property
        def noise(self):
            return noise

        def output(self, measure, points):
            spread = 1.0 - np.linalg.norm(measure.mean())
            return measure.mean() + np.where(spread > 0.5, 0.0, np.nan) * points

    moving = mf.LayerMap(Breaking(), step=0.5) if is_discrete else Breaking()
    sol = unfinished(mf.evolve, tokens, moving, 20.0, 20, **how)
    assert sol.status == "failed"
    assert "finite" in sol.message or "speed is nan" in sol.message
    assert np.isfinite(sol.final.points).all()
    assert 0.0 < sol.t[-1] < 20.0


@pytest.mark.slow
def test_figures_take_it(tokens, tmp_path):
    sol = mf.evolve(tokens, Bounded(0.0), 1.0, 2)
    mf.plot.save(mf.plot.solution(sol), tmp_path / "bounded.png")
    sol.save(tmp_path / "bounded.nc")
    assert mf.load(tmp_path / "bounded.nc").dynamics.name == "Bounded"


class Pole:
    """A kernel of a user's own, and nothing else."""

    name, noise = "pole", 0.0
    kernel = (lambda t: 1.0 / (1.5 - t), lambda t: 1.0 / (1.5 - t) ** 2)


@dataclass(frozen=True)
class TwoTemperatures:
    """The mean of two heads of the package, by their matrices."""

    cold: float = 4.0
    hot: float = 1.0
    noise: float = 0.0
    name: str = "two temperatures"

    def heads(self):
        return [mf.Head(K=beta, V=0.5) for beta in (self.cold, self.hot)]


OWN = {
    "kernel": (Pole(), mf.Interaction(Pole.kernel)),
    "heads": (TwoTemperatures(), mf.Attention(1.0, TwoTemperatures().heads())),
}
MEASURES = [
    mf.Density(mf.Circle(48), mf.VonMisesFisher([1.0, 0.0], 1.0)),
    mf.Density(mf.Sphere(24), mf.VonMisesFisher([0.0, 0.0, 1.0], 1.0)),
    mf.Density(mf.Zonal(4, 32), mf.VonMisesFisher([0.0, 0.0, 0.0, 1.0], 1.0)),
    mf.FlowMap(mf.VonMisesFisher([1.0, 0.0], 1.0)),
    mf.Particles.sample(mf.Uniform(3), 20, np.random.default_rng(5)),
]


@pytest.mark.parametrize("measure", MEASURES, ids=repr)
@pytest.mark.parametrize("kind", OWN)
def test_kernel_or_heads_move_every_measure(kind, measure):
    """As the package's own dynamics of the same kernel or heads, to the bit."""
    own, known = (mf.evolve(measure, dynamics, 0.5, 2) for dynamics in OWN[kind])
    assert own.dynamics is OWN[kind][0]
    for name in known.dataset:
        np.testing.assert_array_equal(own.dataset[name], known.dataset[name])
    np.testing.assert_array_equal(own.final.mean(), known.final.mean())


@pytest.mark.slow
@pytest.mark.parametrize("kind", OWN)
def test_flow_map_of_an_own_dynamics_goes_on(kind, tmp_path):
    """Its density anywhere comes from its history, and a run that was cut off is resumed."""
    flow, (own, known) = MEASURES[3], OWN[kind]
    whole, of_known = (mf.evolve(flow, dynamics, 1.0, 4) for dynamics in (own, known))
    points = flow.points[::7]
    np.testing.assert_array_equal(whole.pdf(points, 1.0), of_known.pdf(points, 1.0))
    cut_off(flow, own, tmp_path / "run.nc")
    resumed = mf.resume(tmp_path / "run.nc", dynamics=own)
    np.testing.assert_array_equal(resumed.final.points, whole.final.points)


class Repelling(Pole):
    sign, normalised = -1, True


class Misspelt(Pole):
    normalise = True


class SignedHeads(TwoTemperatures):
    sign = -1


class Otherwise(Pole):
    kernel = (lambda t: 1.0 / (2.5 - t), lambda t: 1.0 / (2.5 - t) ** 2)


def test_sign_and_division_are_handed_on():
    assert adapt(Repelling()) == mf.Interaction(Pole.kernel, sign=-1, normalised=True)


@pytest.mark.parametrize(
    ("dynamics", "message"),
    [
        (Misspelt(), "dynamics must give normalised, got .* with normalise = True"),
        (SignedHeads(), "dynamics must give the sign of V in its heads, got .* with sign = -1"),
    ],
)
def test_what_would_be_passed_over_is_refused(dynamics, message):
    with pytest.raises(ValueError, match=message):
        mf.evolve(MEASURES[0], dynamics, 0.1)


def test_growth_rates_take_a_kernel_of_a_users_own():
    """They are those of the package's own dynamics of the same kernel, to the bit."""
    rates = [
        theory.growth_rates(dynamics, 3, 6) for dynamics in (Pole(), mf.Interaction(Pole.kernel))
    ]
    assert np.array_equal(*rates)
    with pytest.raises(ValueError, match="must have a kernel"):
        theory.growth_rates(Pole, 3, 6)


@pytest.mark.slow
def test_files_tell_a_class_by_its_name_and_its_kernel(tmp_path):
    """Two classes whose functions have one name are not one dynamics."""
    sol = mf.evolve(MEASURES[0], Pole(), 0.1, 1)
    sol.save(tmp_path / "run.nc")
    text = repr(mf.load(tmp_path / "run.nc").dynamics)
    assert text.startswith("Pole(), that is Interaction(kernel=<<lambda> and <lambda>, 0.4, 0.666")
    assert describe(Pole()) == text != describe(Otherwise())
