"""A dynamics from outside of the package moves measures, and a file says what it can't keep."""

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import meanfield as mf
from meanfield import theory
from meanfield.dynamics.own import adapt, describe
from meanfield.equations.output_on_grid import DensityOnGrid, ScaledSums
from meanfield.kernels.direct import point_log_moment
from meanfield.spaces.geometry import turn_about
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
    with pytest.raises(ValueError, match=r"or divergence\(measure, points\), for a flow map"):
        mf.evolve(mf.FlowMap(mf.Uniform(2)), Half(mf.SA(2.0)), 1.0, 1)


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
        (object(), r"or have name, noise and a kernel, heads\(\) or output"),
        (SimpleNamespace(name="nothing", noise=0.0), r"without a kernel, heads\(\) or output\(\)$"),
        (SimpleNamespace(name="loud", kernel=[0.0, 1.0]), "without noise$"),
        (
            SimpleNamespace(name="short", noise=0.0, output=lambda points: points),
            r"output of a dynamics must be output\(measure, points\), .*, got output\(points\)$",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tokens, dynamics, message):
    with np.errstate(invalid="ignore", divide="ignore"), pytest.raises(ValueError, match=message):
        mf.evolve(tokens, dynamics, 1.0)


def test_other_measures_are_refused():
    for measure, message in (
        (mf.FlowMap(mf.FourierSeries(cos=[0.5])), r"or divergence\(measure, points\)"),
        (
            mf.OscillatorDensity(mf.Circle(16), mf.Uniform(2), frequencies=[0.0, 1.0]),
            "must be a CircleInteraction",
        ),
    ):
        with pytest.raises(ValueError, match=message):
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


def second_moment(measure):
    """∫ y yᵀ dmu; about an axis points stand for their latitudes."""
    along = measure.points.T @ (measure.weights[:, None] * measure.points)
    if (a := measure.axis) is None:
        return along
    square = a @ along @ a
    across = (1.0 - square) / (len(a) - 1)
    return across * np.eye(len(a)) + (square - across) * np.outer(a, a)


@dataclass(frozen=True)
class Linear:
    """X = P_x ∫ (1 + c<x,y>) y dmu / ∫ (1 + c<x,y>) dmu, by two moments."""

    c: float = 0.5
    noise: float = 0.0
    name: str = "linear attention"

    def output(self, measure, points):
        m, second = measure.mean(), self.c * second_moment(measure)
        return (m + points @ second) / (1.0 + self.c * points @ m)[:, None]

    def divergence(self, measure, points):
        m, second = measure.mean(), self.c * second_moment(measure)
        v, g = self.output(measure, points), 1.0 + self.c * points @ m
        along = np.einsum("ij,ij->i", points, v)
        trace = np.trace(second) - np.einsum("ij,jk,ik->i", points, second, points)
        slope = self.c * (v @ m - along * (points @ m))
        return (trace - slope) / g - (points.shape[1] - 1) * along


BUMPS = mf.Mixture([mf.VonMisesFisher([1.0, 0.0], 2.0), mf.VonMisesFisher([-0.6, 0.8], 3.0)])
SLANTED = mf.VonMisesFisher([0.0, 0.6, 0.8], 2.0)
HIGHER = mf.VonMisesFisher([0.0, 0.0, 0.0, 0.6, 0.8], 2.0)
ABOUT = mf.Zonal(3, 32, axis=[0.0, 0.6, 0.8]), mf.Zonal(5, 32, axis=[0.0, 0.0, 0.0, 0.6, 0.8])
DENSITIES = [
    mf.Density(mf.Circle(48), BUMPS),
    mf.Density(mf.Sphere(24), SLANTED),
    mf.Density(ABOUT[0], SLANTED),
    mf.Density(ABOUT[1], HIGHER),
]
LINES = [mf.FlowMap(BUMPS), mf.FlowMap(SLANTED), mf.FlowMap(HIGHER)]
TOKENS = mf.Particles.sample(HIGHER, 20, np.random.default_rng(5))


@pytest.mark.parametrize("measure", [*DENSITIES, *LINES, TOKENS], ids=repr)
def test_an_output_moves_every_measure(measure):
    """As the kernel 1 + c t, to the rounding of a few steps of the same size."""
    known = mf.Interaction([1.0, 0.5], normalised=True)
    own, same = (mf.evolve(measure, dynamics, 1.0, 2) for dynamics in (Linear(), known))
    assert np.abs(same.final.mean() - measure.mean()).max() > 0.05
    np.testing.assert_allclose(own.final.mean(), same.final.mean(), atol=1e-10)
    for name in "rms_velocity", "mass":
        np.testing.assert_allclose(own.dataset[name], same.dataset[name], atol=1e-10)
    if isinstance(measure, mf.Density):
        np.testing.assert_allclose(own.final.values, same.final.values, atol=1e-10)
    else:
        np.testing.assert_allclose(own.final.points, same.final.points, atol=1e-10)
    if isinstance(measure, mf.FlowMap):
        np.testing.assert_allclose(own.dataset.entropy, same.dataset.entropy, atol=1e-10)


@pytest.mark.parametrize("pair", [(0, 0), (2, 1), (3, 2)])
def test_densities_and_flow_maps_of_an_output_agree(pair):
    """Mean and entropy to 1e-8: rtol is 1e-9 of densities, 1e-12 of flow maps."""
    both = [mf.evolve(mu, Linear(), 1.0, 2) for mu in (DENSITIES[pair[0]], LINES[pair[1]])]
    np.testing.assert_allclose(*(sol.final.mean() for sol in both), atol=1e-8)
    np.testing.assert_allclose(*(sol.final.entropy() for sol in both), atol=1e-8)


@pytest.mark.parametrize("density", DENSITIES, ids=repr)
def test_exponential_moments_on_the_grid_are_series(density, monkeypatch):
    """No sum over pairs of points is done, and SA comes out to rounding."""
    known, pairs = mf.evolve(density, mf.SA(3.0), 0.5, 1), []

    def counted(points, masses, z, axis):
        pairs.append(len(points) * len(z))
        return point_log_moment(points, masses, z, axis)

    start = mf.evolve(density, Copied(3.0), 0.1, 1)
    monkeypatch.setattr("meanfield.measures.measure.point_log_moment", counted)
    own = mf.evolve(start.measures[0], Copied(3.0), 0.5, 1)
    # the first question is about the measure as it is given, whose sums have all digits
    assert len(pairs) <= 2
    np.testing.assert_allclose(own.final.values, known.final.values, atol=1e-10)


@pytest.mark.parametrize(
    "density",
    [
        mf.Density(mf.Circle(256), mf.VonMisesFisher([0.6, 0.8], 60.0)),
        mf.Density(mf.Sphere(60), mf.VonMisesFisher([0.0, 0.6, 0.8], 30.0)),
        mf.Density(mf.Zonal(4, 90), mf.VonMisesFisher([0.0, 0.0, 0.0, 1.0], 40.0)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("beta", [0.5, 20.0])
def test_moments_on_a_grid_keep_nine_digits(density, beta):
    """Where G is less than 1e-6 of its maximum positive terms are summed."""
    scaled = partial(ScaledSums, density.space)
    quick = DensityOnGrid(density.space, density.coefficients, scaled)
    # without its law, whose values have digits that no series has
    density = mf.Density.from_coefficients(density.space, density.coefficients)
    z = beta * density.points
    (log_g, mean), (log_exact, exact) = quick.log_moment(z), density.log_moment(z)
    assert np.ptp(log_exact) > (15.0 if beta > 1.0 else 0.5)
    np.testing.assert_allclose(log_g, log_exact, atol=1e-9)
    np.testing.assert_allclose(mean, exact, atol=1e-9)
    # other points have none
    np.testing.assert_allclose(quick.log_moment(z[::7])[0], log_exact[::7], atol=1e-9)


@dataclass(frozen=True)
class Push:
    """P_x v, v a vector, which does not read the measure."""

    vector: tuple
    reads_measure: bool = False
    noise: float = 0.0
    name: str = "push"

    def output(self, measure, points):
        assert (measure is None) != self.reads_measure
        return np.tile(self.vector, (len(points), 1))

    def divergence(self, measure, points):
        return -(points.shape[1] - 1) * (points @ self.vector)


# the rotation about the axis that is asked for keeps a direction of its own
KEPT = np.linalg.eig(turn_about(np.eye(4)[3]))[1][:, :3].real


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("vector", [np.eye(4)[0], np.eye(4)[1], *KEPT.T])
def test_what_has_no_axis_is_refused_about_one(vector, reads):
    law, push = mf.VonMisesFisher([0.0, 0.0, 0.0, 1.0], 1.0), Push(tuple(vector), reads)
    for measure in mf.Density(mf.Zonal(4, 16), law), mf.FlowMap(law):
        with pytest.raises(ValueError, match="must be symmetric about the axis") as refusal:
            mf.evolve(measure, push, 0.1)
        # no Sphere has d = 4
        assert "output of push must" in str(refusal.value)
        assert "whose points lie on one meridian" in str(refusal.value)
        assert str(refusal.value).endswith("between two meridians: take Particles")
    along = Push((0.0, 0.0, 0.0, 1.0), reads)
    both = [
        mf.evolve(mu, along, 0.5).final
        for mu in (mf.Density(mf.Zonal(4, 24), law), mf.FlowMap(law))
    ]
    np.testing.assert_allclose(*(mu.mean() for mu in both), atol=1e-8)


def test_turns_about_the_axis_are_symmetric_in_three_dimensions():
    """They move no mass; the axis of turns in d = 4 is none of the measure."""

    class Spin:
        name, noise = "spin", 0.0

        def output(self, measure, points):
            turned = np.zeros_like(points)
            turned[:, 0], turned[:, 1] = -points[:, 1], points[:, 0]
            return turned

    for dim, is_fine in ((3, True), (4, False)):
        density = mf.Density(mf.Zonal(dim, 16), mf.VonMisesFisher(np.eye(dim)[-1], 1.0))
        if is_fine:
            sol = mf.evolve(density, Spin(), 1.0, 1)
            np.testing.assert_allclose(sol.final.values, density.values, atol=1e-12)
            # (∫ sin² θ dmu)^{1/2}
            square = density.weights @ (1.0 - density.points[:, 2] ** 2)
            np.testing.assert_allclose(sol.dataset.rms_velocity, np.sqrt(square), rtol=1e-12)
        else:
            with pytest.raises(ValueError, match="must be symmetric about the axis"):
                mf.evolve(density, Spin(), 1.0, 1)


def test_flow_maps_on_s2_take_what_does_not_read_the_measure():
    """As the feed-forward layer of the same vector, with its density anywhere."""
    vector = (0.3, 0.0, 0.4)
    layer = mf.FeedForward(W=np.reshape(vector, (3, 1)), A=np.zeros((1, 3)), b=[1.0])
    flow = mf.FlowMap(mf.Mixture([SLANTED, mf.VonMisesFisher([1.0, 0.0, 0.0], 3.0)]), tol=1e-7)
    own, known = (mf.evolve(flow, dynamics, 0.5, 1) for dynamics in (Push(vector), layer))
    np.testing.assert_allclose(own.final.points, known.final.points, atol=1e-12)
    points = flow.points[::301]
    np.testing.assert_allclose(own.pdf(points, 0.4), known.pdf(points, 0.4), rtol=1e-12)
    with pytest.raises(ValueError, match=r"reads_measure = False, for a flow map on S\^2"):
        mf.evolve(flow, Push(vector, reads_measure=True), 0.5)
    # a law with an axis that the field does not share goes over to this form
    whole = mf.evolve(mf.FlowMap(SLANTED, tol=1e-7), Push(vector), 0.1, 1).final
    assert whole.axis is None


def test_pdf_between_nodes_needs_the_field_at_earlier_times():
    sol = mf.evolve(LINES[0], Linear(), 0.2, 1)
    with pytest.raises(ValueError, match="characteristics need the field at earlier times"):
        sol.pdf([[1.0, 0.0]], 0.1)
    drift = Push((1.0, 0.0))
    own, known = (
        mf.evolve(LINES[0], d, 0.2, 1)
        for d in (drift, mf.FeedForward(W=[[1.0], [0.0]], A=[[0.0, 0.0]], b=[1.0]))
    )
    points = LINES[0].points[::31]
    np.testing.assert_allclose(own.pdf(points, 0.1), known.pdf(points, 0.1), rtol=1e-12)


def test_an_output_alone_stops_where_a_divergence_hands_over():
    class Alone:
        name, noise = "alone", 0.0

        def output(self, measure, points):
            return Linear().output(measure, points)

    density = mf.Density(mf.Circle(8), mf.FourierSeries(cos=[0.5]))
    sol = unfinished(mf.evolve, density, Alone(), 12.0, 4)
    assert sol.status == "under-resolved"
    assert "the spectral tail reached" in sol.message or "that its grid misses" in sol.message
    with pytest.raises(ValueError, match="or divergence"):
        mf.evolve(density, Alone(), 1.0, on_unresolved="flow-map")
    own, flow = (mf.evolve(mu, Linear(), 12.0, 4) for mu in (density, mf.FlowMap(density.law)))
    assert (own.status, type(own.final)) == ("finished", type(flow.final))
    np.testing.assert_allclose(own.final.mean(), flow.final.mean(), atol=1e-8)


@pytest.mark.parametrize("measure", [DENSITIES[0], LINES[0], LINES[2]], ids=repr)
def test_a_run_by_an_output_goes_on_bit_for_bit(measure, tmp_path):
    path = tmp_path / "run.nc"
    whole = mf.evolve(measure, Linear(), 1.0, 4)
    assert cut_off(measure, Linear(), path).status == "interrupted"
    resumed = mf.resume(path, dynamics=Linear())
    for name in whole.dataset:
        np.testing.assert_array_equal(resumed.dataset[name], whole.dataset[name])
    np.testing.assert_array_equal(resumed.final.points, whole.final.points)


class Forgetful(Linear):
    """Its divergence is that of the output itself, not of P_x output."""

    def divergence(self, measure, points):
        along = np.einsum("ij,ij->i", points, self.output(measure, points))
        return super().divergence(measure, points) + (points.shape[1] - 1) * along


class Flat(Linear):
    def output(self, measure, points):
        return super().output(measure, points)[:, :1]


class Vectors(Linear):
    def divergence(self, measure, points):
        return self.output(measure, points)


@pytest.mark.parametrize(
    ("dynamics", "message"),
    [
        (Forgetful(), "divergence of Forgetful.* must be that of P_x output on the sphere"),
        (Flat(), r"output of Flat.* must be real, finite and of shape \(\d+, 2\)"),
        (Vectors(), r"divergence of Vectors.* must be real, finite and of shape \(3,\)"),
        (Push((0.0, np.nan)), "output of Push.* must be real, finite"),
        (Push((1.0, 0.0), reads_measure="no"), "reads_measure of Push.* must be"),
    ],
)
@pytest.mark.parametrize("measure", [DENSITIES[0], LINES[0]], ids=repr)
def test_answers_of_another_kind_are_refused(dynamics, message, measure):
    with pytest.raises(ValueError, match=message):
        mf.evolve(measure, dynamics, 0.1)


@dataclass(frozen=True)
class Hopfield:
    """X = P_x (1 + |m|²) m, the gradient in W_2 of |m|²/2 + |m|⁴/4, m = ∫ y dmu."""

    noise: float = 0.0
    name: str = "hopfield"

    def energy(self, measure):
        square = float(np.sum(measure.mean() ** 2))
        return 0.5 * square + 0.25 * square**2

    def energy_gradient(self, measure, points):
        m = measure.mean()
        return np.tile((1.0 + m @ m) * m, (len(points), 1))

    output = energy_gradient

    def divergence(self, measure, points):
        return -(points.shape[1] - 1) * np.vecdot(points, self.output(measure, points))


class Sized(Hopfield):
    energy_dirac = 0.75


@pytest.mark.parametrize("measure", [*DENSITIES, *LINES, TOKENS], ids=repr)
def test_an_energy_of_ones_own_has_a_balance(measure):
    """Relative to the largest value of the run; to 1e-10, tokens at rtol = 1e-11."""
    how = {"rtol": 1e-11} if isinstance(measure, mf.Particles) else {}
    sol, sized = (mf.evolve(measure, own, 1.0, 4, **how) for own in (Hopfield(), Sized()))
    data = sol.dataset
    assert data.energy[-1] > 1.5 * data.energy[0]
    np.testing.assert_allclose(data.dissipation, data.rms_velocity**2, rtol=1e-10)
    gained = data.energy - data.energy[0] - data.work
    np.testing.assert_allclose(data.balance_error, gained / data.energy, atol=1e-15)
    assert 0.0 <= np.abs(data.balance_error).max() < 1e-10
    np.testing.assert_allclose(sized.dataset.energy_share, data.energy / 0.75, rtol=1e-12)
    np.testing.assert_allclose(sized.dataset.balance_error, gained / 0.75, atol=1e-15)
    assert mf.energy(sol.final, Hopfield()) == pytest.approx(float(data.energy[-1]), rel=1e-14)
    here = mf.dissipation(sol.final, Hopfield())
    assert here == pytest.approx(float(data.dissipation[-1]), rel=1e-12)


@pytest.mark.parametrize("measure", [*DENSITIES[::2], LINES[1], TOKENS], ids=repr)
def test_a_term_of_ones_own_has_its_part_of_the_balance(measure):
    """Beside SA, which is no gradient flow in W_2; against a kernel in place of the own term."""
    how = {"rtol": 1e-11} if isinstance(measure, mf.Particles) else {}
    both = mf.Sum([mf.SA(2.0), Hopfield()], weights=[1.0, 0.5])
    data = mf.evolve(measure, both, 1.0, 4, **how).dataset
    assert np.abs(data.term_balance_error).max() < 1e-10
    assert data.term_work[-1, 1] > 0.05
    own, known = (
        mf.evolve(measure, mf.Sum([mf.SA(2.0), term], weights=[1.0, 0.5]), 1.0, 2, **how)
        for term in (Linear(), mf.Interaction([1.0, 0.5], normalised=True))
    )
    np.testing.assert_allclose(own.final.mean(), known.final.mean(), atol=1e-10)


def test_heat_changes_an_energy_of_ones_own():
    """By -τ ∫ <∇ δE/δmu, ∇f> dσ, (d-1) τ <m, (1 + |m|²) m> here."""
    density = DENSITIES[0]
    data = mf.evolve(density, Hopfield(0.05), 1.0, 4).dataset
    assert np.abs(data.balance_error).max() < 1e-10
    assert data.noise_work[-1] < -1e-3
    assert "free_energy" not in data


def test_what_has_no_metric_has_no_slope():
    for message, call in (
        ("one metric that is known", lambda: mf.slope(TOKENS, Hopfield())),
        ("a largest value at a Dirac mass", lambda: theory.energy_dirac(Hopfield())),
        (r"without energy\(measure\) and energy_grad", lambda: mf.energy(TOKENS, Linear())),
    ):
        with pytest.raises(ValueError, match=message):
            call()


class Infinite(Hopfield):
    def energy(self, measure):
        return np.inf


class ManyEnergies(Hopfield):
    def energy(self, measure):
        return measure.mean()


@pytest.mark.parametrize("kind", [Infinite, ManyEnergies])
def test_an_energy_is_a_finite_number(kind):
    for call in (mf.energy, lambda mu, own: mf.evolve(mu, own, 1.0)):
        with pytest.raises(
            ValueError, match=f"energy of {kind.__name__}.* must be a finite number"
        ):
            call(TOKENS, kind())


@pytest.mark.slow
def test_reports_and_figures_take_an_energy_of_ones_own(tmp_path):
    sol = mf.evolve(LINES[0], Sized(), 1.0, 4)
    mf.plot.save(mf.plot.solution(sol), tmp_path / "run.png")
    assert mf.compare(sol, sol).energy_difference.values.max() == 0.0
    sol.save(tmp_path / "run.nc")
    read = mf.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(read.dataset.balance_error, sol.dataset.balance_error)


KNOWN = mf.Interaction([1.0, 0.5], normalised=True)


def in_turn(dynamics):
    """A layer of its own, and one of a sum with it."""
    return mf.Layers([mf.SA(2.0), dynamics, mf.Sum([mf.SA(1.0), dynamics])], step=0.25)


@pytest.mark.parametrize("measure", [*DENSITIES[::3], *LINES[::2], TOKENS], ids=repr)
def test_own_dynamics_are_layers(measure, tmp_path):
    """As the kernel of the package in their place; a run goes on with them handed in."""
    own, known = (mf.evolve(measure, in_turn(each), 0.75, 3) for each in (Linear(), KNOWN))
    np.testing.assert_allclose(own.final.mean(), known.final.mean(), atol=1e-10)
    at = own.final.points[:3]
    fields = (in_turn(each).velocity(measure, at, t=0.3) for each in (Linear(), KNOWN))
    np.testing.assert_allclose(*fields, atol=1e-13)
    with stopped_by_checkpoint(0.2):
        how = {"checkpoint": tmp_path / "run.nc"}
        interrupted(mf.evolve, measure, in_turn(Linear()), 0.75, 3, **how)
    with pytest.raises(ValueError, match="dynamics must be that of the run"):
        mf.resume(tmp_path / "run.nc", dynamics=in_turn(Linear(0.25)))
    resumed = mf.resume(tmp_path / "run.nc", dynamics=in_turn(Linear()))
    np.testing.assert_array_equal(resumed.final.points, own.final.points)
    for name in own.dataset:
        np.testing.assert_array_equal(resumed.dataset[name], own.dataset[name])


def test_own_layers_are_passed_one_by_one():
    maps = (mf.LayerMap(in_turn(each), step=0.25) for each in (Linear(), KNOWN))
    ends = [mf.evolve(TOKENS, each, 0.75, 1).final.points for each in maps]
    assert np.abs(ends[0] - TOKENS.points).max() > 0.05
    np.testing.assert_allclose(*ends, atol=1e-13)


@pytest.mark.parametrize("bad", [mf.LayerMap(Linear(), step=1.0), Linear(noise=0.1), Linear])
def test_what_is_no_layer_is_refused(bad):
    with pytest.raises(ValueError, match="layers must be dynamics but Layers"):
        mf.Layers([bad])


class Gradual(mf.SA):
    """Made from a dynamics of the package, with an output of its own."""

    def output(self, measure, points):
        return 0.5 * super().output(measure, points)


class Same(mf.SA):
    """Made from one, without."""


@pytest.mark.parametrize("measure", [DENSITIES[0], TOKENS], ids=repr)
def test_a_class_made_from_one_of_ours_moves_by_an_output_of_its_own(measure):
    """Half as fast as its parent; as a term that repels, too."""
    own, known = mf.evolve(measure, Gradual(2.0), 1.0, 1), mf.evolve(measure, mf.SA(2.0), 0.5, 1)
    np.testing.assert_allclose(own.final.mean(), known.final.mean(), atol=1e-8)
    assert "energy" not in own.dataset
    back = mf.Sum([Gradual(2.0), mf.SA(2.0)], weights=[-1.0, 0.5])
    np.testing.assert_allclose(mf.evolve(measure, back, 1.0, 1).final.points, measure.points)
    with pytest.raises(ValueError, match=r"without an output of its own, got .* of class Same"):
        mf.evolve(measure, Same(2.0), 1.0)


def test_a_measure_at_rest_stays_on_its_grid():
    """X is rounding there, of which a finer grid sees another."""
    density = mf.Density(mf.Circle(16), mf.Uniform(2))
    for own in Copied(2.0), Linear(), Hopfield():
        sol = mf.evolve(density, own, 1.0, 1)
        assert (sol.status, sol.final.space) == ("finished", density.space)
        np.testing.assert_allclose(sol.final.values, 1.0, atol=1e-12)
