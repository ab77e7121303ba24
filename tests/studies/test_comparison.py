"""`compare`: two runs at common times."""

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.cli.commands import main
from meanfield.cli.text import missing_of_comparison, table_of_comparison
from meanfield.studies import comparison

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
BETA = 2.0


def run(measure, dynamics=None, t_end=1.0, save_at=2, **asked):
    return mf.evolve(measure, dynamics or mf.SA(BETA), t_end, save_at, **asked)


DENSITY, FLOW = run(mf.Density(mf.Circle(64), LAW), save_at=4), run(mf.FlowMap(LAW))


def turned(diagonal):
    form = np.diag(diagonal)
    return mf.Attention(1.0, [mf.Head(Q=form, K=np.eye(2), V=form)])


def alone(angle, **asked):
    return run(mf.Particles.from_angles([angle]), **asked)


def test_two_representations_are_the_same():
    ds = mf.compare(DENSITY, FLOW)
    assert ds.t.values.tolist() == [0.0, 0.5, 1.0]
    assert ds.attrs["verdict"].startswith("the same to ")
    assert "3 times from t = 0 to 1" in ds.attrs["verdict"]
    assert float(ds.mmd.max()) < 1e-9
    assert float(ds.w1_upper.max()) < 1e-8
    assert np.abs(ds.energy_difference).max() < 1e-9
    assert ds.energy.sel(run="a").values.tolist() == DENSITY.dataset.energy.values[::2].tolist()
    assert ds.energy.sel(run="b").values.tolist() == FLOW.dataset.energy.values.tolist()
    assert ds["mean"].sel(run="b").values.tolist() == [mu.mean().tolist() for _, mu in FLOW]


def test_two_tokens_at_rest_are_as_far_apart_as_they_are():
    """W_1 = α, |x - y| = 2 sin(α/2), mmd² = 2 (1 - e^{β(cos α - 1)})."""
    alpha = 0.7
    ds = mf.compare(alone(0.3), alone(0.3 + alpha))
    assert np.allclose(ds.w1, alpha, rtol=1e-14)
    assert ds.w1_lower.equals(ds.w1.drop_attrs())
    assert ds.w1.units == "radian"
    assert np.allclose(ds.mean_difference, 2.0 * np.sin(alpha / 2.0), rtol=1e-14)
    squared = 2.0 * (1.0 - np.exp(BETA * (np.cos(alpha) - 1.0)))
    assert np.allclose(ds.mmd, np.sqrt(squared), rtol=1e-12)
    assert ds.mmd.attrs["beta"] == BETA
    told = "mmd up to 0.87 at 3 times from t = 0 to 1: W_1 0.7, distance of the means 0.69"
    assert ds.attrs["verdict"].startswith(told)
    other = mf.compare(alone(0.3), alone(0.3 + alpha), beta=1.0).mmd
    assert np.allclose(other, np.sqrt(2.0 * (1.0 - np.exp(np.cos(alpha) - 1.0))), rtol=1e-12)


@pytest.mark.slow
def test_times_that_were_not_saved_are_done_again():
    found = mf.compare(DENSITY, FLOW, save_at=5, distances=["mmd"])
    runs = (run(start, save_at=5) for start in (DENSITY[0], FLOW[0]))
    saved = mf.compare(*runs, distances=["mmd"])
    assert np.allclose(found.t, saved.t)
    for name in "energy", "energy_share", "dissipation", "mean":
        assert np.abs(found[name].values - saved[name].values).max() < 1e-9
        assert float(np.abs(saved[name]).max()) > 1e-3
    at_one = mf.compare(DENSITY, FLOW, save_at=[0.3], distances=["mmd"])
    assert at_one.t.values.tolist() == [0.0, 0.3, 1.0]
    # from the later start to the earlier end, and times that are one but for last bits
    late = run(mf.FlowMap(LAW), t_start=0.1, t_end=0.5, save_at=[0.1 + 0.2])
    early = run(mf.FlowMap(LAW), t_end=2.0, save_at=[0.1, 0.3])
    assert mf.compare(early, late, distances=["mmd"]).t.values.tolist() == [0.1, 0.3]
    assert np.allclose(mf.compare(early, late, save_at=2, distances=["mmd"]).t, [0.1, 0.3, 0.5])


def test_energies_of_one_kind_alone_are_subtracted():
    other = run(mf.FlowMap(LAW), mf.USA(BETA), t_end=1.0)
    gaps = np.abs(mf.compare(FLOW, other, distances=["mmd"]).energy_difference)
    assert float(gaps[0]) < 1e-14
    assert float(gaps[-1]) > 1e-2
    hotter = mf.compare(FLOW, run(mf.FlowMap(LAW), mf.SA(1.0)), distances=["mmd"])
    assert "energy_difference" not in hotter
    assert "E/E(δ)" not in hotter.attrs["verdict"]
    none = mf.compare(FLOW, run(mf.FlowMap(LAW), mf.FeedForward(W=np.eye(2)[::-1], A=np.eye(2))))
    assert np.isnan(none.energy.sel(run="b")).all()
    assert np.isfinite(none.energy.sel(run="a")).all()
    assert none.mmd.attrs["beta"] == BETA
    (hint,) = missing_of_comparison(none)
    told = "energy, energy_share, dissipation are missing: the second run followed no energy, Feed"
    assert hint.startswith(told)
    assert hint.endswith("follow one with energy=, in a case run.energy")
    legend = mf.plot.comparison(none).axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b has none"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (mf.Interaction([1.0, 1.0]), mf.Interaction([0.5, 2.0]), False),
        (mf.Interaction([1.0, 1.0]), mf.Interaction([1.0, 0.0, 1.5]), False),
        (mf.Interaction([2.0, 1.0]), mf.Interaction([2.0, 1.0], normalised=True, sign=-1), True),
        (mf.CircleInteraction([1.0, 1.0]), mf.CircleInteraction([0.5, 2.0]), False),
        (mf.DoublyStochastic(1.0), mf.DoublyStochastic(2.0), False),
        (turned([2.0, 1.0]), turned([2.0, 0.5]), False),
        (turned([2.0, 1.0]), turned([2.0, 1.0]), True),
    ],
)
def test_energies_that_agree_at_a_dirac_alone_are_not_subtracted(one, other, same):
    a, b = (run(mf.Particles.quantise(LAW, 5), each, 0.1, 1) for each in (one, other))
    at_dirac = [each.energy_functional.dirac for each in (one, other)]
    assert at_dirac[0] == pytest.approx(at_dirac[1])
    assert ("energy_difference" in mf.compare(a, b)) is same


@pytest.mark.parametrize("distances", [["mmd"], ("w1",)])
def test_distances_that_are_asked_for(distances):
    ds = mf.compare(DENSITY, FLOW, distances=distances)
    assert [name for name in ("mmd", "w1") if name in ds] == list(distances)


def test_a_distance_that_can_not_be_had_is_said():
    axis = mf.VonMisesFisher(np.eye(4)[0], 2.0)
    zonal = run(mf.Density(mf.Zonal(4, 31, np.eye(4)[0]), axis))
    tokens = run(mf.Particles.sample(axis, 20, rng=0))
    ds = mf.compare(zonal, tokens)
    assert "mmd" in ds
    assert not [name for name in ds if str(name).startswith("w1")]
    assert ds.attrs["w1_missing"].startswith("mu and nu must both lie on the circle")
    assert "W_1" not in ds.attrs["verdict"]


def test_without_w1_no_runs_are_called_the_same():
    """Neither an mmd that sees no degree but the first, nor means, tell these runs apart."""
    laws = mf.FourierSeries(cos=[0.0, 0.5]), mf.Uniform(2)
    # a turn by rounding of nothing has no potential
    at_rest = mf.FeedForward(W=1e-200 * np.eye(2)[::-1], A=np.eye(2))
    a, b = (run(mf.Density(mf.Circle(64), law), at_rest, 0.1, 1) for law in laws)
    small = mf.compare(a, b, beta=1e-7, distances=["mmd"])
    told = "no difference seen without W_1 at 2 times from t = 0 to 0.1: mmd 1.2e-08, distance of "
    assert small.attrs["verdict"].startswith(told)
    told = "the first run and the second run followed no energy, FeedForward("
    assert small.attrs["energy_missing"].startswith(told)
    none = mf.compare(a, b, beta=1e12, distances=["mmd"])
    assert none.attrs["verdict"].startswith("no difference seen without mmd and W_1 at ")
    assert none.attrs["mmd_missing"].startswith("beta must be at most 1e+09")
    apart = mf.compare(a, b, beta=1e-7)
    assert apart.attrs["verdict"].startswith("W_1 up to 0.16 at ")
    assert "energy_difference" not in apart
    # energies tell, too
    a, b = (run(mf.Density(mf.Circle(64), law), mf.SA(BETA, sign=-1), 0.1, 1) for law in laws)
    told = mf.compare(a, b, beta=1e-7, distances=["mmd"]).attrs["verdict"]
    assert told.startswith("difference of E/E(δ) up to 0.012 at ")


def test_a_distance_that_is_no_number_is_said(monkeypatch):
    name = "meanfield.studies.comparison.mmd_with_error"
    monkeypatch.setattr(name, lambda *_, **__: (np.nan, 0.0))
    ds = mf.compare(alone(0.3), alone(0.4))
    assert "mmd" not in ds
    assert ds.attrs["mmd_missing"].startswith("mmd at beta = 2 is nan of ")


@pytest.mark.slow
def test_a_kernel_that_has_ended_leaves_nothing_out():
    """A circle run that ends as a flow map, beside tokens: all degrees of the kernel are in.

    Their power does not fall where mass has gathered, and none beyond them counts.
    """
    beta, law = 9.0, mf.VonMisesFisher([1.0, 0.0], 2.0)
    a = mf.evolve(mf.Density(mf.Circle(64), law), mf.SA(beta), 10.0, 20)
    assert isinstance(a.final, mf.FlowMap)
    b = mf.evolve(mf.Particles.sample(law, 50, rng=0), mf.SA(beta), 10.0, 20)
    ds = mf.compare(a, b, distances=["mmd"])
    assert np.isfinite(ds.mmd).all()
    assert not ds.mmd_error.any()
    assert "mmd_missing" not in ds.attrs
    for mu, nu, found in zip(a.measures, b.measures, ds.mmd.values, strict=True):
        assert mf.mmd(mu, nu, beta, scaled=True) == found
    # by the double sum over nodes that resolve the kernel, of masses of both signs
    nodes, masses = a.final.resolve(beta).quadrature
    points = np.concatenate([nodes, b.final.points])
    signed = np.concatenate([masses, -b.final.weights])
    squared = signed @ np.exp(beta * (points @ points.T - 1.0)) @ signed
    # differences of sums of order 1, squared
    assert found**2 == pytest.approx(squared, abs=1e-12)
    assert found > 0.01


def out_of_reach(name, *_):
    raise ValueError(f"{name} is out of reach")


def test_one_save_that_can_not_be_had_leaves_the_others(monkeypatch, tmp_path, capsys):
    real = comparison._distance

    def distance(name, mu, nu, beta, gap):
        if name == "mmd" and mu in (DENSITY.measures[1], DENSITY.measures[2]):
            raise ValueError(f"{name} is out of reach")
        return real(name, mu, nu, beta, gap)

    monkeypatch.setattr(comparison, "_distance", distance)
    ds = mf.compare(DENSITY, DENSITY)
    assert np.isnan(ds.mmd.values).tolist() == [False, True, True, False, False]
    assert np.isfinite(ds.w1).all()
    told = "at 2 of 5 times, from t = 0.25 to 0.5: mmd is out of reach"
    assert ds.attrs["mmd_missing"] == told
    assert "w1_missing" not in ds.attrs
    assert ds.attrs["verdict"].startswith("the same to 0 at 5 times")
    rows = table_of_comparison(ds).splitlines()
    column = rows[0].split("  ")
    assert "mmd" in " ".join(column)
    assert [row.split().count("-") for row in rows[1:]] == [0, 1, 1, 0, 0]
    DENSITY.save(tmp_path / "a.nc")
    loaded = mf.load(tmp_path / "a.nc")
    monkeypatch.setattr(comparison, "_distance", out_of_reach)
    loaded.save(tmp_path / "b.nc")
    assert main(["compare", str(tmp_path / "a.nc"), str(tmp_path / "b.nc")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "mmd is missing: mmd is out of reach" in printed
    assert "w1 is missing: w1 is out of reach" in printed
    assert printed[-1].startswith("no difference seen without mmd and W_1 at 5 times")


def test_w1_at_some_times_alone_tells_no_sameness(monkeypatch):
    real = comparison._distance

    def distance(name, mu, nu, beta, gap):
        if name == "w1" and mu is FLOW.measures[-1]:
            raise ValueError("out of reach")
        return real(name, mu, nu, beta, gap)

    monkeypatch.setattr(comparison, "_distance", distance)
    ds = mf.compare(FLOW, FLOW)
    assert np.isnan(ds.w1.values).tolist() == [False, False, True]
    assert ds.attrs["verdict"].startswith("no difference seen without W_1 at 3 times")


@pytest.mark.slow
def test_an_mmd_that_a_mesh_does_not_resolve_has_its_error():
    """A mesh for the kernel of its run, at a larger β: refused alone, with its error beside."""
    law = mf.Mixture(
        [mf.VonMisesFisher([0.0, 0.0, 1.0], 3.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 2.0)],
        [0.55, 0.45],
    )
    kernel = mf.Interaction([1.0, 1.0, 0.25], normalised=True)
    flow, density = run(mf.FlowMap(law), kernel), run(mf.Density(mf.Sphere(63), law), kernel)
    with pytest.raises(ValueError, match="nodes of a flow map do not resolve, so that the mmd is"):
        mf.mmd(flow.final, density.final, 40.0)
    ds = mf.compare(flow, density, beta=40.0, distances=["mmd"])
    assert "mmd_missing" not in ds.attrs
    # both follow the same law, so what is found is the error
    assert (ds.mmd <= ds.mmd_error + 1e-9).all()
    assert float(ds.mmd_error[-1]) > 1e-6
    # a distance that is larger than that by far is had
    away = run(mf.Density(mf.Sphere(63), mf.Uniform(3)), kernel)
    far = mf.mmd(flow.final, away.final, 40.0, scaled=True)
    truth = mf.mmd(density.final, away.final, 40.0, scaled=True)
    assert abs(far - truth) <= float(ds.mmd_error[-1]) < 1e-3 * truth
    # so has a monitor, whose run goes on
    monitors = {"to_start": mf.DistanceTo(density.final, distance="mmd", beta=40.0)}
    data = run(mf.FlowMap(law), kernel, monitors=monitors).dataset
    assert data.attrs.get("status", "finished") == "finished"
    assert (data.to_start_lower <= data.to_start).all()
    assert float(data.to_start_upper[-1] - data.to_start[-1]) > 0.0


@pytest.mark.slow
def test_measures_on_s2_have_brackets():
    law = mf.Mixture(
        [mf.VonMisesFisher([0.0, 0.0, 1.0], 3.0), mf.VonMisesFisher([0.0, 1.0, 0.0], 2.0)]
    )
    density = run(mf.Density(mf.Sphere(15), law), t_end=0.1, save_at=1)
    tokens = run(mf.Particles.sample(law, 30, rng=0), t_end=0.1, save_at=1)
    ds = mf.compare(density, tokens, gap=0.5)
    assert (ds.w1_lower < ds.w1_upper).all()
    assert (ds.w1_lower > 0.05).all()
    assert ds.w1_proved.values.tolist() == [1.0, 1.0]
    flow = run(mf.FlowMap(law, tol=1e-6), t_end=0.1, save_at=1)
    near = mf.compare(density, flow)
    # a density stands for the mesh, whose nodes are farther apart than the runs
    assert float(near.w1_upper.max()) < 1e-4
    assert near.w1_proved.values.tolist() == [0.0, 0.0]
    assert near.attrs["verdict"].startswith("the same to")
    # with an error of its moments that a figure shows it counts by them
    far = mf.compare(density, run(mf.FlowMap(law, tol=1e-3), t_end=0.1, save_at=1))
    assert "w1" not in far
    assert far.attrs["w1_missing"].startswith("W_1 of a flow map on S^2 that no series holds")
    assert far.attrs["verdict"].startswith("no difference seen without W_1 at 2 times")
    assert float(far.mmd.max()) < 1e-5


def test_what_can_not_be_compared_is_refused():
    sphere = run(mf.FlowMap(mf.VonMisesFisher([0.0, 0.0, 1.0], 1.0)))
    later = run(mf.FlowMap(LAW), t_start=2.0, t_end=3.0)
    for a, b, asked, message in [
        (FLOW, FLOW.final, {}, "b must be a Solution, got FlowMap"),
        ("a.nc", FLOW, {}, r"a must be a Solution, got 'a\.nc'"),
        (FLOW, sphere, {}, "b must be on the sphere of a, in dim = 2, got dim = 3"),
        (FLOW, later, {}, "a and b must have saved at common times after the start"),
        (FLOW, run(FLOW[0], t_end=1.5), {}, "with save_at=10 both are brought to ten times"),
        (FLOW, later, {"save_at": 2}, "a and b must cover a common time"),
        (FLOW, FLOW, {"save_at": [2.0]}, "save_at must be an integer >= 1 or strictly ascending"),
        (FLOW, FLOW, {"distances": "mmd"}, "distances must be among"),
        (FLOW, FLOW, {"beta": 0.0}, "beta must be a finite number > 0"),
        (FLOW, FLOW, {"progress": 1}, "progress must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            mf.compare(a, b, **asked)


def test_the_table_has_both_ends_of_a_bracket():
    columns = {"mmd": [0.1, 0.2], "w1": [0.1, 0.25], "w1_lower": [0.1, 0.2], "w1_upper": [0.1, 0.3]}
    ds = xr.Dataset({name: ("t", values) for name, values in columns.items()})
    rows = table_of_comparison(ds.assign_coords(t=[0.0, 1.0], run=["a", "b"])).splitlines()
    assert rows[1].split() == ["0", "1.000e-01", "1.000e-01"]
    assert rows[2].endswith("  2.000e-01 … 3.000e-01")


def test_a_file_beside_itself(folder, capsys):
    """Its runs are called a and b, as no file could tell them apart."""
    DENSITY.save("run.nc")
    assert main(["compare", "run.nc", "run.nc", "-o", "both.nc"]) == 0
    assert "the same to 0" in capsys.readouterr().out
    with xr.open_dataset("both.nc") as ds:
        assert ds.run.values.tolist() == ["a", "b"]
