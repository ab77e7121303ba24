"""evolve_densities: each member is what its own run is, whatever happens to the others."""

import os
import signal
from functools import partial

import numpy as np
import pytest
from children import hearing_ctrl_c
from handmade import interrupted, unfinished

import meanfield as mf
from meanfield import harmonics
from meanfield.integrate import density_batch, density_lanes
from meanfield.integrate.explicit import ExplicitSteps
from meanfield.integrate.lockstep import Lockstep, first_steps
from meanfield.integrate.patience import Patience
from meanfield.measures.density import spectral_tail, spectral_tails
from meanfield.tendency import DensityBatch

RTOL, ATOL = 1e-9, 1e-12
SPACES = {"circle": mf.Circle(64), "zonal": mf.Zonal(6, 23)}
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=str)


def some_law(space, rng):
    """Low degrees at random, positive since their sizes sum to less than 1."""
    sizes = rng.uniform(-0.16, 0.16, 6)
    if space.name == "circle":
        return mf.FourierSeries(cos=sizes[:3], sin=sizes[3:])
    return mf.ZonalSeries(space.dim, sizes)


def many(space, count, seed):
    """Densities, and dynamics of either kind and sign with β from 0 to 5."""
    rng = np.random.default_rng(seed)
    densities = [mf.Density(space, some_law(space, rng)) for _ in range(count)]
    kinds = [(mf.SA, mf.USA)[i % 2](b, sign=1 - 2 * (i // 2 % 2)) for i, b in enumerate(betas(rng))]
    return densities, kinds[:count]


def betas(rng):
    return [0.0, 0.0, *rng.uniform(0.5, 5.0, 30)]


def growth(dynamics, space, t):
    """By how much a difference may grow; linear rates at uniform are the largest but for USA's."""
    rates = mf.theory.growth_rates(dynamics, space.dim, 40)
    spread = np.exp(dynamics.beta) if isinstance(dynamics, mf.USA) else 1.0 + dynamics.beta
    return np.exp(t * max(np.abs(rates).max(), 0.1 * spread))


def assert_same(found, i, alone, space, dynamics):
    """Both have local errors of the tolerance at each step; they grow as the flow spreads."""
    data = alone.dataset
    assert found.status[i] == alone.status
    assert found.message[i] == alone.message
    steps = float(data.steps[-1])
    size = np.abs(alone.final.coefficients).max()
    bound = 2 * steps * (RTOL * size + ATOL) * growth(dynamics, space, float(data.t[-1]))
    assert bound < 1e-4
    saves = len(data.t)
    for k, measure in enumerate(alone.measures):
        own = measure.coefficients
        kept = found.coefficients[i, k].values[: len(own)]
        assert np.abs(kept - own[: len(kept)]).max() < bound
    for name in ("energy", "work", "dissipation"):
        scale = np.abs(data[name].values).max()
        assert np.abs(found[name][i, :saves].values - data[name].values).max() < bound * scale
    assert np.array_equal(found["size"][i, :saves], data["size"])


# ---------------------------------------------------------------- members


@every_space
def test_members_are_what_each_is_alone(space):
    densities, dynamics = many(space, 9, seed=4)
    t_end = 0.4
    found = mf.evolve_densities(densities, dynamics, t_end, 3)
    assert found.sizes["member"] == 9
    assert set(found.status.values) == {"finished"}
    for i, (mu, each) in enumerate(zip(densities, dynamics, strict=True)):
        assert_same(found, i, mf.evolve(mu, each, t_end, 3), space, each)
    signs = np.array([each.sign for each in dynamics])
    gains = np.diff(found.energy.values, axis=1) * signs[:, None]
    assert gains.min() > 0.0
    gained = found.energy.values - found.energy.values[:, :1]
    # local errors of the work, which is of the size of the energy
    assert np.abs(gained - found.work.values).max() < 1e-8 * np.abs(gained).max()
    # the constant has no gradient; mass is summed over some hundred nodes
    assert np.abs(found.mass.values - 1.0).max() < 1e-13
    assert np.array_equal(found.beta, [each.beta for each in dynamics])
    last = mf.Density.from_coefficients(space, found.coefficients[0, -1].values)
    assert last.values.min() == pytest.approx(float(found.min_density[0, -1]), abs=1e-13)


def test_few_lanes_and_many_give_the_same(monkeypatch):
    space = SPACES["circle"]
    densities, dynamics = many(space, 11, seed=5)
    opened = []
    init = DensityBatch.__init__

    def noted(self, space, lanes, normalised):
        opened.append(lanes)
        init(self, space, lanes, normalised)

    monkeypatch.setattr(DensityBatch, "__init__", noted)
    whole = mf.evolve_densities(densities, dynamics, 0.3, 2)
    assert max(opened) > 3
    opened.clear()
    # lanes are given to others, and closed once there are no others
    monkeypatch.setattr(density_batch, "_CHUNK", 3 * 2 * (space.kmax + 1))
    parts = mf.evolve_densities(densities, dynamics, 0.3, 2)
    assert max(opened) == 3
    assert min(opened) == 1
    for name in ("energy", "work", "min_density", "tail"):
        # steps are the same, so that what differs is rounding of their sums
        assert np.abs(parts[name] - whole[name]).max() < 1e-12 * np.abs(whole[name]).max()
    assert np.array_equal(parts.steps, whole.steps)


def test_one_density_may_be_for_all_dynamics_and_one_dynamics_for_all_densities():
    mu, nu = (mf.Density(mf.Circle(16), mf.FourierSeries(cos=[a])) for a in (0.2, 0.4))
    fields = [mf.SA(1.0), mf.USA(0.5)]
    each = mf.evolve_densities(mu, fields, 0.2, 1).energy[:, -1].values
    assert each[0] == mf.evolve_densities([mu], fields[0], 0.2, 1).energy[0, -1]
    of_all = mf.evolve_densities([mu, nu], fields[0], 0.2, 1).energy[:, -1].values
    assert of_all[0] == each[0] < of_all[1]


def test_a_potential_that_loses_its_digits_is_summed_by_positive_terms():
    space, dynamics = mf.Circle(128), mf.SA(12.0)
    mu = mf.Density(space, mf.VonMisesFisher([0.0, 1.0], 40.0))
    log_g, _ = mu.log_moment(dynamics.beta * space.points)
    assert np.ptp(log_g) > -np.log(1e-7)
    broad = mf.Density(space, mf.FourierSeries(cos=[0.5]))
    found = mf.evolve_densities([mu, broad], dynamics, 0.01, 1)
    assert_same(found, 0, mf.evolve(mu, dynamics, 0.01, 1), space, dynamics)
    assert_same(found, 1, mf.evolve(broad, dynamics, 0.01, 1), space, dynamics)


# ---------------------------------------------------------------- endings


def what_happened(sol):
    return sol.message.partition("; try")[0]


def test_members_that_outgrow_their_space_go_on_in_larger_ones():
    """At t = 0 and later, to a space that holds them or to the largest."""
    narrow, broad = mf.VonMisesFisher([0.6, 0.8], 12.0), mf.FourierSeries(cos=[0.5])
    laws = [broad, mf.VonMisesFisher([1.0, 0.0], 3.0), narrow, broad]
    sizes = [16, 32, 32, 16]
    densities = [mf.Density(mf.Circle(n), law) for n, law in zip(sizes, laws, strict=True)]
    dynamics = [mf.SA(2.0, sign=-1), mf.SA(2.0), mf.SA(2.0), mf.USA(1.0)]
    found = unfinished(mf.evolve_densities, densities, dynamics, 1.0, 4, largest=128)
    assert list(found.status) == ["finished", "finished", "under-resolved", "finished"]
    grown = found["size"].values
    # the law is not resolved at t = 0, the others later
    assert grown[2, 0] == 64
    assert grown[0, 0] == grown[3, 0] == 16
    assert grown[0, -1] == grown[3, -1] == 64
    for i, (mu, each) in enumerate(zip(densities, dynamics, strict=True)):
        run = partial(unfinished, mf.evolve) if i == 2 else mf.evolve
        alone = run(mu, each, 1.0, 4, largest=128, on_unresolved="stop")
        # what to try is another thing for many
        assert str(found.message[i].values).partition("; try")[0] == what_happened(alone)
        assert found.reached[i] == pytest.approx(alone.t[-1], rel=1e-6)
        done = int(np.isfinite(found.energy[i]).sum())
        assert np.abs(found.energy[i, :done] - alone.dataset.energy[:done]).max() < 1e-9
        assert np.array_equal(grown[i, :done], alone.dataset["size"][:done])
        assert np.isnan(found.coefficients[i, done:].values).all()
    assert 0.0 < found.reached[2] < 1.0
    # what no space resolves is told at t = 0, and shown all the same
    given = densities[2], dynamics[2], 2.0, 4
    at_once = unfinished(mf.evolve_densities, *given, largest=32)
    alone = unfinished(mf.evolve, *given, largest=32, on_unresolved="stop")
    told, _, remedy = str(at_once.message[0].values).partition("; try")
    assert told == what_happened(alone)
    assert remedy.startswith(" `evolve`, where a flow map takes over, a larger `largest`")
    assert np.isfinite(at_once.energy[0, 0])
    assert np.isnan(at_once.energy[0, 1])


def test_degrees_that_are_not_kept_are_left_out_and_others_zero():
    densities = [mf.Density(mf.Circle(n), mf.FourierSeries(cos=[0.5])) for n in (32, 64)]
    found = mf.evolve_densities(densities, mf.SA(1.0), 0.05, 1)
    assert found.sizes["degree"] == 32
    assert (found.coefficients[0, :, 16:] == 0).all()
    assert (found.coefficients[1, 1, 16:] != 0).all()
    few = mf.evolve_densities(densities, mf.SA(1.0), 0.05, 1, degree=2)
    assert np.array_equal(few.coefficients, found.coefficients[..., :3])


def test_a_field_that_is_not_finite_ends_its_member_alone(monkeypatch):
    densities, dynamics = many(SPACES["circle"], 3, seed=6)
    dynamics = [mf.SA(1.0), mf.SA(2.0), mf.SA(3.0)]
    right = mf.evolve_densities(densities, dynamics, 0.5, 4)
    call = DensityBatch.__call__
    calls = []

    def faulty(self, states, out):
        call(self, states, out)
        calls.append(1)
        for lane, (factors, _) in self._factors.items():
            if len(calls) > 30 and factors.dynamics.beta == 2.0:
                out[lane, 3] = np.nan

    monkeypatch.setattr(DensityBatch, "__call__", faulty)
    found = unfinished(mf.evolve_densities, densities, dynamics, 0.5, 4)
    assert list(found.status) == ["finished", "failed", "finished"]
    assert "step size" in str(found.message[1].values)
    assert 0.0 < found.reached[1] < 0.5
    known = np.isfinite(found.energy[1].values)
    assert 0 < known.sum() < 5
    assert np.array_equal(found.energy[1, known], right.energy[1, known])
    for i in (0, 2):
        gap = np.abs(found.energy[i] - right.energy[i]).max()
        assert gap < 1e-13 * right.energy[i].max()


def test_a_start_that_has_no_finite_field_is_told(monkeypatch):
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    call = DensityBatch.__call__

    def faulty(self, states, out):
        call(self, states, out)
        out[0, 0] = np.inf

    monkeypatch.setattr(DensityBatch, "__call__", faulty)
    found = unfinished(mf.evolve_densities, mu, mf.SA(1.0), 0.5, 1)
    assert found.status[0] == "failed"
    assert "not finite" in str(found.message[0].values)


def test_a_number_that_is_not_finite_ends_its_member(monkeypatch):
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    tails = iter([0.0, np.nan])
    monkeypatch.setattr(density_lanes, "spectral_tails", lambda power: np.array([next(tails)]))
    found = unfinished(mf.evolve_densities, mu, mf.SA(1.0), 0.5, 1)
    assert found.message[0] == "failed at t = 0: tail is nan"


def test_a_field_that_is_refused_ends_its_member(monkeypatch):
    space = mf.Circle(128)
    mu = mf.Density(space, mf.VonMisesFisher([0.0, 1.0], 40.0))
    broad = mf.Density(space, mf.FourierSeries(cos=[0.5]))

    def refused(self, z):
        raise ValueError("there is no such grid")

    monkeypatch.setattr(mf.Density, "log_moment", refused)
    found = unfinished(mf.evolve_densities, [mu, broad], mf.SA(12.0), 0.01, 1)
    assert list(found.status) == ["failed", "finished"]
    assert "there is no such grid" in str(found.message[0].values)


def test_a_save_that_is_too_many_steps_away_is_told(monkeypatch):
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.1]))
    monkeypatch.setattr(density_lanes, "MOST_STEPS", -1.0)
    found = unfinished(mf.evolve_densities, mu, mf.USA(1.0), 1.0, 1)
    assert "steps away; USA runs in times" in str(found.message[0].values)
    assert 0.0 < found.reached[0] < 1.0


def test_large_beta_has_a_clock_of_its_own():
    """Rates of e^250 beside rates of 1, in units that hold either."""
    mu = mf.Density(mf.Circle(128), mf.FourierSeries(cos=[0.01]))
    t_end = 0.02 * np.exp(-250.0)
    dynamics = [mf.USA(250.0), mf.SA(3.0)]
    found = mf.evolve_densities(mu, dynamics, t_end, 2)
    for i, each in enumerate(dynamics):
        alone = mf.evolve(mu, each, t_end, 2)
        assert found.status[i] == alone.status == "finished"
        assert np.allclose(found.energy[i], alone.dataset.energy, rtol=1e-9, atol=0.0)
        assert found.energy_unit[i] == alone.dataset.energy_unit
    assert found.energy[0, -1] > found.energy[0, 0]


def test_what_was_saved_before_an_interrupt_is_kept(monkeypatch):
    mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.3]))
    whole = mf.evolve_densities(mu, mf.SA(2.0), 1.0, 8)
    calls = []

    def check(self):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Patience, "check", check)
    found = interrupted(mf.evolve_densities, mu, mf.SA(2.0), 1.0, 8)
    assert found.status[0] == "interrupted"
    assert 0.0 < found.reached[0] < 1.0
    done = int(np.isfinite(found.energy[0]).sum())
    assert 1 < done < 9
    assert np.array_equal(found.energy[0, :done], whole.energy[0, :done])


def test_ctrl_c_in_the_last_step_is_heard(monkeypatch):
    from meanfield.integrate import density_batch

    run = density_batch._run

    def strike(*given):
        run(*given)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(density_batch, "_run", strike)
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.3]))
    with hearing_ctrl_c():
        found = interrupted(mf.evolve_densities, mu, mf.SA(2.0), 0.1, 1)
    assert found.status[0] == "finished"


def test_progress_counts_runs_that_have_ended(capsys):
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.3]))
    mf.evolve_densities([mu, mu], mf.SA(2.0), 0.1, 1, progress=True)
    assert "2/2" in capsys.readouterr().err


# ---------------------------------------------------------------- parts


def test_steps_of_lanes_are_those_of_each_alone():
    """Four decays of their own rates and ends, in lanes and one by one."""
    rates, ends = np.array([1.0, 3.0, 0.5, 2.0]), np.array([1.0, 2.0, 3.0, 4.0])
    starts = np.random.default_rng(0).uniform(0.5, 2.0, (4, 5))

    def field(states, out, rate=rates[:, None]):
        np.multiply(-rate * states, 1 + 0.9 * np.sin(4 * states), out=out)

    lanes, atol = Lockstep(field, 4, 5, 1e-8), np.full(5, 1e-10)
    slopes = np.empty_like(starts)
    field(starts, slopes)
    steps = first_steps(field, starts, slopes, ends, (1e-8, np.full((4, 5), 1e-10)))
    for i in range(4):
        lanes.put(i, starts[i], slopes[i], atol, (0.0, steps[i], ends[i]))
    taken, rejected = np.zeros(4, dtype=int), 0
    with np.errstate(divide="ignore"):
        while (lanes.t < ends).any():
            good, running = lanes.attempt(), lanes.t < ends
            taken += good & running
            rejected += int((~good & running).sum())
            lanes.accept(good)
    assert rejected > 0
    for i in range(4):

        def one(t, y, out=None, i=i):
            out = np.empty_like(y) if out is None else out
            field(y, out, rates[i])
            return out

        solver = ExplicitSteps(one, 0.0, starts[i], ends[i], first_step=None, rtol=1e-8, atol=atol)
        assert steps[i] == pytest.approx(solver.h_abs, rel=1e-12)
        count = 0
        while solver.status == "running":
            solver.step()
            count += 1
        assert (count, solver.t) == (taken[i], lanes.t[i])
        assert np.allclose(lanes.states[i], solver.y, rtol=1e-13, atol=1e-15)


def test_who_is_put_in_a_lane_begins_anew():
    """Neither a refused step nor the error of another is remembered."""

    def field(states, out):
        np.multiply(states, states, out=out)

    state, atol = np.ones(2), np.full(2, 1e-12)
    used, fresh = Lockstep(field, 1, 2, 1e-9), Lockstep(field, 1, 2, 1e-9)
    used.put(0, 0.5 * state, 0.25 * state, atol, (0.0, 0.5, 10.0))
    assert not used.attempt()[0]
    for lanes in used, fresh:
        lanes.put(0, state, state, atol, (0.0, 0.01, 10.0))
        assert lanes.attempt()[0]
    assert used.h[0] == fresh.h[0] > 0.01


@pytest.mark.parametrize("dim", [2, 3, 10, 1024])
@pytest.mark.parametrize("kmax", [3, 31, 200])
def test_several_kernels_are_what_each_is(dim, kmax):
    """Products of ratios that are right to rounding, in the same order or with other exponents."""
    betas = np.array([0.0, 1e-310, 1e-8, 0.3, 4.0, 30.0, 1000.0])
    relative, first, widths = harmonics.several_kernels(betas, dim, kmax)
    for beta, *found, width in zip(betas, relative, first, widths, strict=True):
        alone = harmonics.relative_eigenvalues(beta, dim, kmax)
        tolerance = 2 * kmax * np.finfo(float).eps
        assert np.allclose(found[0], alone, rtol=tolerance, atol=1e-290)
        scaled = harmonics.scaled_eigenvalues(beta, dim, 0)[0]
        # a sum of some hundred positive terms; nothing where it would underflow
        expected = scaled if scaled > 1e-299 else 0.0
        assert found[1] == pytest.approx(expected, rel=1e-13, abs=0.0)
        assert width == min(kmax, harmonics.bandwidth(beta, dim))


def test_tails_of_rows_are_those_of_each():
    rng = np.random.default_rng(1)
    power = np.exp(-0.3 * np.arange(64)) * rng.uniform(0.5, 1.0, (6, 64))
    # all that there is are multiples of 7, of 13 and of 0
    for row, step in ((1, 7), (2, 13), (3, 64)):
        power[row, np.arange(64) % step != 0] = 0.0
    found = spectral_tails(power)
    assert np.allclose(found, [spectral_tail(row) for row in power], rtol=1e-14, atol=0.0)
    assert found[2] > 1e-5 > found[3]


# ---------------------------------------------------------------- what is refused

MU = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.3]))
ABOUT_X = mf.Density(mf.Zonal(3, 15, axis=[1.0, 0.0, 0.0]), mf.Uniform(3))
ABOUT_Z = mf.Density(mf.Zonal(3, 15), mf.Uniform(3))
ON_S2 = mf.Density(mf.Sphere(7), mf.Uniform(3))


@pytest.mark.parametrize(
    ("densities", "dynamics", "message"),
    [
        ([], mf.SA(1.0), "as many as each other, or one for all, got 0 and 1"),
        ([MU] * 3, [mf.SA(1.0)] * 2, "as many as each other, or one for all, got 3 and 2"),
        (mf.Particles([[1.0, 0.0]]), mf.SA(1.0), "densities must be Density .* got Particles"),
        (None, mf.SA(1.0), "densities must be Density .* got None"),
        (MU, 1.0, "dynamics must be SA or USA, got 1.0: take evolve"),
        (MU, mf.DoublyStochastic(1.0), "dynamics must be SA or USA, got Doubly"),
        ([MU, "law"], mf.SA(1.0), "densities must be Density .* got 'law'"),
        ([ON_S2], mf.SA(1.0), "densities must be Density on a Circle or a Zonal"),
        ([MU, ABOUT_X], mf.SA(1.0), "one kind of space"),
        ([ABOUT_Z, ABOUT_X], mf.SA(1.0), "one dim and axis"),
        (MU, [mf.SA(1.0), mf.DoublyStochastic(1.0)], "dynamics must be SA or USA, got Doubly"),
        (MU, mf.SA(1.0, noise=0.1), "noise must be 0 for a batch, got 0.1"),
        (MU, mf.SA(1e10), "beta must be at most 1e\\+09 for multipliers, got 1e\\+10"),
    ],
)
def test_what_does_not_fit_is_refused(densities, dynamics, message):
    with pytest.raises(ValueError, match=message):
        mf.evolve_densities(densities, dynamics, 1.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"t_end": 0.0}, "t_end must be"),
        ({"save_at": 0}, "save_at must be"),
        ({"largest": 8}, "largest must be .* got 8"),
        ({"degree": 0}, "degree must be"),
        ({"rtol": 1.0}, "rtol must be"),
    ],
)
def test_numbers_out_of_range_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        mf.evolve_densities(MU, mf.SA(1.0), **{"t_end": 1.0} | given)
