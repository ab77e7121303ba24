"""Any energy along any flow: its value, rate, work and balance, whatever moves the measure."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.cli.report.curves import monotone_energy
from meanfield.cli.report.document import checks
from meanfield.cli.text import summary
from meanfield.equations.density import unseen_share
from tests.handmade import interrupted, same_bits

# the axis of symmetry is the last one
NORTH = {2: [0.0, 1.0], 3: [0.0, 0.0, 1.0]}
BUMP = mf.FourierSeries(cos=[0.5, 0.2], sin=[0.1])
TWO = mf.Mixture([mf.VonMisesFisher(NORTH[3], 3.0), mf.VonMisesFisher([1.0, 0.0, 0.0], 2.0)])
ROUND = mf.VonMisesFisher(NORTH[3], 2.0)


def turn(dim, angle=0.5):
    """A rotation that leaves the last axis alone, if there are more than two."""
    cos, sin = np.cos(angle), np.sin(angle)
    whole = np.eye(dim)
    whole[:2, :2] = [[cos, -sin], [sin, cos]]
    return whole


SKEW = {
    2: [[1.0, 0.3], [0.0, 0.5]],
    3: [[1.0, 0.3, 0.0], [0.0, 0.5, 0.2], [0.1, 0.0, 0.4]],
}
ALONG = np.diag([0.4, 0.4, 1.0])
FORMS = {2: np.array([[1.0, 0.3], [0.3, -0.5]]), 3: np.diag([1.0, -0.5, 0.3]) + 0.1}


def heads(matrix, dim, **more):
    """Two heads that have no energy, of which one turns."""
    return mf.Attention(1.5, [mf.Head(V=turn(dim)), mf.Head(Q=matrix, V=-0.6 * turn(dim))], **more)


def form(matrix, beta=2.0):
    return mf.Attention(beta, [mf.Head(Q=matrix, V=matrix)])


def hill(rows):
    return mf.FeedForward.from_potential([0.4, -0.7], rows, [0.1, 0.2], activation="tanh")


def drift(rows):
    """A layer that is no gradient."""
    outer = np.array(rows).T @ [[0.3, 0.2], [0.1, -0.5]]
    return mf.FeedForward(W=outer, A=rows, b=[0.1, 0.2], activation="tanh")


ROWS = {2: [[1.0, 0.5], [-0.3, 1.0]], 3: [[1.0, 0.5, 0.2], [-0.3, 1.0, 0.4]]}
AXIAL = [[0.0, 0.0, 1.0], [0.0, 0.0, -0.5]]


def energies(matrix, rows):
    """What may be asked for: a number, and a dynamics of each kind that has an energy."""
    return {
        "beta": 4.0,
        "falls": mf.SA(3.0, sign=-1),
        "scaled": mf.DoublyStochastic(2.0),
        "form": form(matrix),
        "potential": hill(rows),
        "kernel": mf.Interaction([0.0, 1.0, 0.5]),
        "sum": mf.SA(2.0) + 0.5 * hill(rows) - mf.USA(1.0),
    }


def flows(matrix, rows, dim):
    """What moves the measure: none of it is the gradient flow of one of these energies."""
    return {
        "heads": heads(matrix, dim),
        "scaled": mf.DoublyStochastic(2.5),
        "drift": drift(rows),
        "layers": mf.Layers([heads(matrix, dim), mf.SA(2.0)], step=0.35),
    }


def tokens(law, n):
    return mf.Particles.sample(law, n, np.random.default_rng(1))


# of each measure a new one, whether it is symmetric about an axis, and its dimension
MEASURES = {
    "circle": (lambda: mf.Density(mf.Circle(64), BUMP), False, 2),
    "zonal": (lambda: mf.Density(mf.Zonal(3, 40, axis=NORTH[3]), ROUND), True, 3),
    "sphere": (lambda: mf.Density(mf.Sphere(23), TWO), False, 3),
    "flow map": (lambda: mf.FlowMap(BUMP), False, 2),
    "flow map about an axis": (lambda: mf.FlowMap(ROUND), True, 3),
    "flow map on S^2": (lambda: mf.FlowMap(TWO, tol=1e-7), False, 3),
    "tokens": (lambda: tokens(TWO, 30), False, 3),
    "tokens along the circle": (lambda: tokens(BUMP, 3000), False, 2),
}
LONG = ("sphere", "flow map on S^2")
FAST = ("circle", "flow map", "tokens")


def cases():
    """Each pair of a measure and a flow; the long ones are for the slow tier."""
    for name in MEASURES:
        for flow in ("heads", "scaled", "drift", "layers"):
            is_long = name in LONG or (name not in FAST and flow in ("drift", "scaled"))
            # sums over their pairs take a minute
            if (name, flow) != ("tokens along the circle", "scaled"):
                yield pytest.param(name, flow, marks=pytest.mark.slow if is_long else ())


def assert_balanced(sol, asked, least=1e-4):
    """Its energy is that of the saved measures, and its work what it gained."""
    data = sol.dataset
    own = [mf.energy(measure, asked) for measure in sol.measures]
    np.testing.assert_allclose(data.energy, own, rtol=1e-13, atol=1e-14)
    # steps have rtol = 1e-9 or less each; an energy of a pair sees twice their errors
    assert np.abs(data.balance_error).max() < 1e-9
    assert np.ptp(data.energy_share.values) > least


@pytest.mark.parametrize(("name", "flow"), list(cases()))
def test_an_energy_is_in_balance_along_a_flow_that_is_not_its_own(name, flow):
    make, is_axial, dim = MEASURES[name]
    matrix, rows = (ALONG, AXIAL) if is_axial else (SKEW[dim], ROWS[dim])
    symmetric = ALONG if is_axial else FORMS[dim]
    for kind, asked in energies(symmetric, rows).items():
        if (name, kind) == ("tokens along the circle", "scaled"):
            continue
        sol = mf.evolve(make(), flows(matrix, rows, dim)[flow], 0.7, 2, energy=asked)
        assert sol.status == "finished", kind
        assert_balanced(sol, asked)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ["circle", "zonal", "flow map", "tokens"])
def test_the_rate_is_that_of_the_velocity_along_the_gradient(name, sign):
    """∇ δE_β/δmu is the velocity of USA; `dissipation` counts what SA climbs, or falls."""
    make, is_axial, dim = MEASURES[name]
    field = heads(ALONG if is_axial else SKEW[dim], dim)
    asked = mf.SA(3.0, sign=sign)
    data = mf.evolve(make(), field, 0.3, 1, energy=asked).dataset
    measure = make()
    points, masses = measure.quadrature
    slopes = mf.USA(3.0).velocity(measure, points)
    rate = masses @ np.einsum("ij,ij->i", slopes, field.velocity(measure, points))
    assert data.dissipation.values[0] == pytest.approx(sign * rate, rel=1e-11)
    assert data.dissipation.attrs["comment"].startswith("± ∫ <∇ δE_β/δmu, X> dmu")
    assert data.energy.attrs["symbol"] == "E_β"


NOISY = {
    "SA": mf.SA(2.0, noise=0.1),
    "USA": mf.USA(1.5, noise=0.1),
    "scaled": mf.DoublyStochastic(2.0, noise=0.2),
    "heads": heads(SKEW[2], 2, noise=0.1),
    "Kuramoto": mf.Kuramoto(1.0, noise=0.2),
}


@pytest.mark.parametrize("flow", NOISY)
def test_what_noise_does_to_an_energy_is_part_of_its_work(flow):
    for asked in energies(FORMS[2], ROWS[2]).values():
        sol = mf.evolve(MEASURES["circle"][0](), NOISY[flow], 0.7, 2, energy=asked, rtol=1e-10)
        assert_balanced(sol, asked)
        # they are those of the dynamics' own energy
        assert not [name for name in sol.dataset if name.startswith("free_")]
        assert "noise_work" in sol.dataset


def test_a_density_and_a_flow_map_have_the_same_energies():
    field = heads(SKEW[2], 2)
    for asked in (4.0, mf.DoublyStochastic(2.0), form(FORMS[2])):
        one, other = (
            mf.evolve(MEASURES[name][0](), field, 0.7, 2, energy=asked).dataset
            for name in ("circle", "flow map")
        )
        for name in ("energy", "dissipation", "work"):
            np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["circle", "flow map", "tokens"])
def test_its_own_energy_is_what_a_run_has_without_being_asked(name):
    make, _, dim = MEASURES[name]
    own = [mf.SA(4.0), mf.USA(2.0, sign=-1), mf.DoublyStochastic(2.0), form(FORMS[dim])]
    own += [hill(ROWS[dim]), mf.SA(2.0) + 0.5 * hill(ROWS[dim])]
    for dynamics in own:
        alone, asked = (mf.evolve(make(), dynamics, 0.5, 2, energy=e) for e in (None, dynamics))
        assert (alone.energy, asked.energy) == (None, dynamics)
        for variable in ("energy", "energy_share", "dissipation", "work", "rms_velocity"):
            np.testing.assert_allclose(
                alone.dataset[variable], asked.dataset[variable], rtol=1e-13, atol=1e-15
            )


def test_the_measure_moves_as_it_does_alone():
    """What follows an energy has no part in the field, so tokens take the same steps."""
    for field in (heads(SKEW[3], 3), mf.Layers([mf.SA(1.0), drift(ROWS[3])], step=0.4)):
        alone, asked = (mf.evolve(tokens(TWO, 9), field, 0.7, 2, energy=e) for e in (None, 5.0))
        assert np.abs(alone.final.points - asked.final.points).max() < 1e-9
        assert "energy" not in alone.dataset


def test_fast_dynamics_keep_their_own_time():
    """USA at β = 300 runs in times of e^{-300}, and an energy of β = 700 keeps its own unit."""
    start = MEASURES["circle"][0]()
    assert_balanced(mf.evolve(start, mf.USA(300.0), 1e-128, 2, energy=4.0), 4.0)
    assert_balanced(mf.evolve(start, mf.SA(4.0), 0.3, 2, energy=700.0), 700.0)
    huge = mf.evolve(start, mf.SA(4.0), 0.3, 2, energy=1000.0).dataset
    assert "energy" not in huge
    assert np.abs(huge.balance_error).max() < 1e-9


@pytest.mark.parametrize("name", ["circle", "flow map"])
@pytest.mark.parametrize("beta", [40.0, 90.0])
def test_a_run_resolves_the_larger_reach_of_both(name, beta):
    make = {"circle": lambda: mf.Density(mf.Circle(32), BUMP), "flow map": MEASURES[name][0]}[name]
    for asked in (beta, form(FORMS[2], beta)):
        assert_balanced(mf.evolve(make(), mf.SA(1.0), 0.7, 2, energy=asked), asked, 1e-9)
    if name == "flow map":
        alone, asked = (
            mf.evolve(make(), mf.SA(1.0), 0.1, 1, energy=e).dataset["size"] for e in (None, 300.0)
        )
        assert asked[0] > 2 * alone[0]


def test_a_grid_sees_a_potential_that_is_narrower_than_the_density():
    steep = mf.FeedForward.from_potential([1.0], [[8.0, 0.0]], [2.0], activation="tanh")
    start = mf.Density(mf.Circle(16), BUMP)
    assert unseen_share(start, mf.SA(1.0)) == 0.0
    assert_balanced(mf.evolve(start, mf.SA(1.0), 0.7, 2, energy=steep), steep, 1e-3)


@pytest.mark.parametrize("asked", [4.0, mf.DoublyStochastic(2.0)])
def test_a_flow_map_takes_over_with_the_energy(asked):
    start = mf.Density(mf.Circle(16), BUMP, max_size=64)
    sol = mf.evolve(start, mf.SA(6.0), 4.0, 8, energy=asked)
    assert 0.0 < sol.dataset.attrs["hand_over_t"] < 4.0
    assert abs(sol.dataset.attrs["hand_over_energy_gap"]) < 1e-7 * sol.dataset.energy[-1]
    assert_balanced(sol, asked)


def test_tokens_of_discrete_layers_and_under_noise_have_values_and_rates():
    start = tokens(BUMP, 30)
    field = heads(SKEW[2], 2)
    layered = mf.evolve(
        start, mf.LayerMap(mf.Layers([field, mf.SA(2.0)]), step=0.1), 0.2, 2, energy=4.0
    )
    noisy = mf.evolve(start, mf.SA(2.0, noise=0.1), 0.2, 2, energy=4.0, rng=1)
    for sol in (layered, noisy):
        own = [mf.energy(measure, 4.0) for measure in sol.measures]
        np.testing.assert_allclose(sol.dataset.energy, own, rtol=1e-13)
        assert "work" not in sol.dataset
    # that of the layer that acted last
    for sol, save, acting in (
        (layered, 0, field),
        (layered, 1, field),
        (layered, 2, mf.SA(2.0)),
        (noisy, 0, mf.SA(2.0)),
    ):
        measure = sol[save]
        slopes = mf.USA(4.0).velocity(measure, measure.points)
        rate = np.einsum("ij,ij->i", slopes, acting.velocity(measure, measure.points)).mean()
        assert sol.dataset.dissipation.values[save] == pytest.approx(rate, rel=1e-12)


class Swirl:
    """A dynamics of which nothing is known but its output."""

    name, noise = "swirl", 0.0

    def output(self, measure, points):
        return points @ [[0.1, 0.3], [-0.3, 0.2]] + measure.mean()


class Square:
    """Another one, with a kernel."""

    name, noise, kernel = "square", 0.0, (1.0, 2.0, 1.0)


def test_dynamics_of_a_users_own_have_an_energy_that_is_asked_for():
    for n in (30, 3000):
        for asked in (4.0, mf.Interaction([1.0, 2.0, 1.0])):
            assert_balanced(mf.evolve(tokens(BUMP, n), Swirl(), 0.5, 2, energy=asked), asked)
    sol = mf.evolve(tokens(BUMP, 30), mf.SA(1.0), 0.5, 2, energy=Square())
    assert sol.energy == mf.Interaction([1.0, 2.0, 1.0])
    assert_balanced(sol, Square())


class Mean:
    """One whose energy |∫ x dmu|²/2 is that of β = 0, told by the measure that it reads."""

    name, noise, energy_dirac = "mean", 0.0, 0.5

    def output(self, measure, points):
        return np.broadcast_to(measure.mean(), points.shape)

    energy_gradient = output

    def divergence(self, measure, points):
        return (1 - points.shape[1]) * (points @ measure.mean())

    def energy(self, measure):
        return 0.5 * float(np.sum(measure.mean() ** 2))


class Unsized(Mean):
    energy_dirac = 0.0


def test_a_resumed_balance_is_relative_to_the_largest_value_of_the_whole_run(tmp_path):
    """The energy falls all the time, so that the first save has it."""
    path, start = tmp_path / "a.nc", tokens(BUMP, 12)

    def stop(t):
        if t > 0.6:
            raise KeyboardInterrupt

    asked = {"t_end": 1.0, "save_at": 4, "energy": Unsized(), "rtol": 1e-4}
    whole = mf.evolve(start, mf.SA(1.0, sign=-1), **asked)
    interrupted(mf.evolve, start, mf.SA(1.0, sign=-1), **asked, checkpoint=path, progress=stop)
    rest = mf.resume(path, energy=Unsized())
    values, errors = whole.dataset.energy.values, whole.dataset.balance_error.values
    np.testing.assert_allclose(errors * values[0], values - values[0] - whole.dataset.work)
    assert (np.diff(values) < 0.0).all()
    assert errors[-1] != 0.0
    assert same_bits(rest.dataset.balance_error, whole.dataset.balance_error)


@pytest.mark.parametrize("law", [BUMP, ROUND])
@pytest.mark.parametrize("dynamics", [mf.SA(2.0), mf.SA(2.0) + mf.DoublyStochastic(1.0)])
def test_an_own_energy_reads_the_flow_map_under_what_moments_fix(law, dynamics):
    own, known = (mf.evolve(mf.FlowMap(law), dynamics, 0.4, 2, energy=e) for e in (Mean(), 0.0))
    for name in ("energy", "work", "dissipation"):
        np.testing.assert_allclose(own.dataset[name], known.dataset[name], rtol=1e-12, atol=1e-14)
    assert np.abs(own.dataset.balance_error).max() < 1e-12
    # characteristics need X alone, which moments tell
    at = law.sample(5, np.random.default_rng(0))
    np.testing.assert_allclose(own.pdf(at, 0.3), known.pdf(at, 0.3), rtol=1e-11)


def exponential():
    return mf.Interaction((np.exp, np.exp))


def test_a_file_keeps_the_energy_that_was_asked_for(tmp_path):
    path, start = tmp_path / "a.nc", MEASURES["circle"][0]()
    asked = form(FORMS[2]) + mf.SA(1.0)
    sol = mf.evolve(start, heads(SKEW[2], 2), 0.5, 2, energy=asked)
    sol.save(path)
    back = mf.load(path)
    assert back.energy == asked
    assert back.dataset.identical(sol.dataset)
    assert same_bits(back.at(0.3).coefficients, sol.at(0.3).coefficients)
    # between saves the same run is done again
    again = mf.evolve(start, heads(SKEW[2], 2), 0.5, [0.1], energy=asked)[1]
    assert same_bits(sol.at(0.1).coefficients, again.coefficients)
    # a run of another energy is another run, and one that asked for none has no such attribute
    assert sol.source != mf.evolve(start, heads(SKEW[2], 2), 0.5, 2, energy=4.0).source
    mf.evolve(start, mf.SA(1.0), 0.5, 2).save(path)
    assert mf.load(path).energy is None
    assert "energy" not in mf.load(path)._to_file().attrs


def test_an_energy_that_no_file_can_keep_is_handed_in(tmp_path):
    path, start = tmp_path / "a.nc", tokens(BUMP, 12)

    def stop(t):
        if t > 0.3:
            raise KeyboardInterrupt

    asked = {"t_end": 0.5, "save_at": 4, "energy": exponential()}
    whole = mf.evolve(start, Swirl(), **asked)
    interrupted(mf.evolve, start, Swirl(), **asked, checkpoint=path, progress=stop)
    read = mf.load(path)
    assert read.plot() is not None
    assert monotone_energy(read) is None
    with pytest.raises(ValueError, match="energy must be that of the run, Interaction"):
        mf.resume(path, dynamics=Swirl())
    rest = mf.resume(path, dynamics=Swirl(), energy=exponential())
    assert rest.dataset.identical(whole.dataset)


def test_the_pdf_of_a_flow_map_is_that_of_its_flow():
    at = mf.Circle(16).points
    for asked in (4.0, mf.DoublyStochastic(2.0)):
        runs = [mf.evolve(mf.FlowMap(BUMP), mf.SA(3.0), 0.7, 2, energy=e) for e in (None, asked)]
        alone, followed = (run.pdf(at, 0.55) for run in runs)
        np.testing.assert_allclose(followed, alone, rtol=1e-10)


@pytest.mark.slow
def test_the_pdf_of_a_flow_map_on_s2_is_that_of_its_flow():
    at = TWO.sample(12, np.random.default_rng(2))
    for asked in (9.0, mf.DoublyStochastic(2.0)):
        runs = [
            mf.evolve(mf.FlowMap(TWO, tol=1e-7), mf.SA(3.0), 0.5, 1, energy=e)
            for e in (None, asked)
        ]
        alone, followed = (run.pdf(at, 0.4) for run in runs)
        np.testing.assert_allclose(followed, alone, rtol=1e-6)


def test_nothing_is_claimed_of_the_way_of_an_energy_that_is_only_followed(tmp_path):
    start = MEASURES["circle"][0]()
    sol = mf.evolve(start, mf.DoublyStochastic(2.0), 0.5, 4, energy=4.0)
    own = mf.evolve(start, mf.DoublyStochastic(2.0), 0.5, 4)
    assert monotone_energy(own) == ("energy", 1)
    assert monotone_energy(sol) is None
    named = [check.name for check in checks(sol)]
    assert "E_β between its bounds" in named
    assert all(check.passed for check in checks(sol))
    assert summary(sol, tmp_path / "a.nc")["energy of"] == repr(mf.SA(4.0))
    assert "energy of" not in summary(own, tmp_path / "a.nc")


def test_energies_of_two_runs_are_compared_where_they_are_the_same():
    start, field = MEASURES["circle"][0](), heads(SKEW[2], 2)
    followed, own = (
        mf.evolve(start, field, 0.6, 2, energy=4.0),
        mf.evolve(start, mf.SA(4.0), 0.6, 2),
    )
    ds = mf.compare(followed, own, save_at=4)
    middle = followed.at(0.15), own.at(0.15)
    np.testing.assert_allclose(ds.energy[:, 1], [mf.energy(m, 4.0) for m in middle], rtol=1e-12)
    points, masses = middle[0].quadrature
    slopes = mf.USA(4.0).velocity(middle[0], points)
    rate = masses @ np.einsum("ij,ij->i", slopes, field.velocity(middle[0], points))
    assert ds.dissipation.values[0, 1] == pytest.approx(rate, rel=1e-9)
    assert "energy_difference" in ds
    other = mf.compare(mf.evolve(start, field, 0.6, 2, energy=3.0), own)
    assert "energy_difference" not in other


REFUSED = {
    "a dynamics without one": (
        heads(SKEW[2], 2),
        "that has one for FlowMap.*only attention of one",
    ),
    "layers": (mf.Layers([mf.SA(1.0)]), "that has one for FlowMap.*each of its layers"),
    "cosines": (mf.CircleInteraction([1.0], [1.0]), "that has one for FlowMap.*with cosines"),
    "an output": (Swirl(), "that has one for FlowMap.*nothing is known of it but its output"),
    "another dim": (hill(ROWS[3]), "for FlowMap.*, got FeedForward.* of dim = 3$"),
    "a negative number": (-1.0, "energy, if it is no dynamics, must be a finite number >= 0"),
    "a word": ("SA", "energy, if it is no dynamics, must be a finite number >= 0, got 'SA'"),
    "a schedule": (
        mf.Schedule([0.0, 1.0], [1.0, 2.0]),
        r"take mf\.SA\(schedule\), or the dynamics",
    ),
    "a function of t": (lambda t: 1.0 + t, r"take mf\.SA\(schedule\), or the dynamics"),
    "a reach for more nodes": (2e6, "beta, or the length of z, must be smaller for FlowMap"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_energy_of_the_measure_is_refused(name):
    asked, text = REFUSED[name]
    with pytest.raises(ValueError, match=text):
        mf.evolve(mf.FlowMap(BUMP), mf.SA(1.0), 0.5, energy=asked)


def test_a_reach_beyond_what_a_measure_can_resolve_is_refused_at_the_start():
    for start, asked, text in (
        (mf.FlowMap(TWO, tol=1e-4), 41.0, "beta must be <= 40 for a flow map on S"),
        (mf.FlowMap(ROUND), 151.0, "beta must be <= 150 for flow maps about an axis"),
        (mf.FlowMap(BUMP), form(FORMS[2], 150.0), "must be <= 100 for a flow map in dim = 2"),
        (mf.Density(mf.Sphere(7), TWO), form(FORMS[3], 200.0), "must be <= 128 for series"),
        (mf.Density(mf.Zonal(3, 20, NORTH[3]), ROUND), form(FORMS[3]), "must commute with rota"),
        (mf.Density(mf.Zonal(3, 20, NORTH[3]), ROUND), hill(ROWS[3]), "must commute with rota"),
    ):
        with pytest.raises(ValueError, match=text):
            mf.evolve(start, mf.SA(1.0), 0.5, energy=asked)


def test_phases_with_frequencies_have_no_energy_to_follow():
    start = mf.Oscillators([0.1, 0.2], [1.0, 2.0])
    with pytest.raises(ValueError, match="energy must be None where phases have frequencies"):
        mf.evolve(start, mf.Kuramoto(1.0), 0.5, energy=4.0)


def test_an_energy_is_followed_along_random_layers():
    """More of them than are kept, and as along the same layers in a list."""
    layers = mf.Layers.random("values", beta=1.0, dim=2, n_layers=20, step=0.02, rng=1, scale=1.0)
    listed = mf.Layers(list(layers.all_layers), step=0.02)
    start = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.4]))
    runs = [mf.evolve(start, each, 0.4, 2, energy=2.0) for each in (layers, listed)]
    assert np.ptp(runs[0].dataset.energy.values) > 1e-3
    for name in "energy", "work", "dissipation", "balance_error":
        assert np.array_equal(*(run.dataset[name].values for run in runs))
    assert runs[0].dataset.balance_error.values[-1] < 1e-9
