"""Plateaus of metastable clusters: what grew, how many clusters formed, when they merged."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import meanfield as mf
from validation.metastability import surviving_atom


@pytest.fixture(scope="module")
def plateaus():
    with ThreadPoolExecutor(2) as pool:
        return mf.studies.metastability(
            [mf.SA(5.0), mf.USA(3.0)], save_at=60, t_end=100.0, executor=pool
        )


@pytest.mark.slow
def test_metastability_tells_what_grew(plateaus):
    for run, dynamics in enumerate([mf.SA(5.0), mf.USA(3.0)]):
        rates = mf.theory.growth_rates(dynamics, 2, 20)
        one = plateaus.isel(run=run)
        assert int(one.predicted_degree) == np.argmax(rates)
        assert float(one.largest_growth_rate) == pytest.approx(rates.max(), rel=1e-12)
        grown = int(one.grown_degree)
        assert abs(grown - np.argmax(rates)) <= 1
        assert float(one.growth_rate_predicted) == pytest.approx(rates[grown])
        # with several modes at work the largest is not yet alone
        assert float(one.growth_rate) == pytest.approx(rates[grown], rel=0.1)
        assert str(one.status.values) in {"finished", "clustered"}


@pytest.mark.slow
@pytest.mark.parametrize(("beta", "seed", "formed"), [(3.0, 2, 2), (8.0, 0, 4)])
def test_as_many_clusters_form_as_the_degree_that_grew(beta, seed, formed):
    """Several modes are near 0.1 at once: the largest of them is of degree 3 in all these runs."""
    dynamics = mf.SA(beta)
    ds = mf.studies.metastability(dynamics, rng=seed, t_start=2.0, t_end=20.0, save_at=60)
    one, rates = ds.isel(run=0), mf.theory.growth_rates(dynamics, 2, 10)
    assert int(one.grown_degree) == int(one.plateau_n_clusters[0]) == formed
    assert float(one.growth_rate_predicted) == pytest.approx(rates[formed])
    predicted = int(np.argmax(rates))
    title = mf.plot.metastability(ds).get_suptitle()
    for degree in (formed, predicted):
        assert f"(γ$_{{{degree}}}$ = {rates[degree]:.3g})" in title


@pytest.mark.slow
def test_metastability_tells_plateaus_and_mergers(plateaus):
    one = plateaus.isel(run=0)
    counts = one.plateau_n_clusters.values
    counts = counts[np.isfinite(counts)]
    # three stand before two of them meet
    assert counts.tolist() == [3, 2]
    start, end = one.plateau_start.values[0], one.plateau_end.values[0]
    assert 0 < start < end
    inside = (one.time >= start) & (one.time <= end)
    assert np.all(one.n_clusters.values[inside] == counts[0])
    assert np.all(np.diff(one.energy_share) > -1e-12)
    assert float(one.energy_share[-1]) <= 1
    for angles, masses in zip(one.cluster_angle.values, one.cluster_mass.values, strict=True):
        assert np.array_equal(np.isnan(angles), np.isnan(masses))
    mergers = one.merging_time.values[np.isfinite(one.merging_time.values)]
    assert len(mergers) >= len(counts) - 1


@pytest.mark.slow
def test_equal_clusters_from_one_mode():
    """Only degree 3 in the start: three equal clusters that stand still by symmetry."""
    ds = mf.studies.metastability(
        mf.SA(5.0), law=mf.FourierSeries(cos=[0, 0, 1e-3]), save_at=40, t_end=60.0
    )
    assert int(ds.grown_degree[0]) == 3
    assert ds.n_clusters.values[0, -1] == 3
    assert ds.cluster_mass.values[0, -1, :3] == pytest.approx([1 / 3] * 3, abs=1e-6)
    angles = np.sort(ds.cluster_angle.values[0, -1, :3])
    assert np.diff(angles) == pytest.approx([2 * np.pi / 3] * 2, abs=1e-9)
    rate = mf.theory.growth_rates(mf.SA(5.0), 2, 3)[3]
    assert float(ds.growth_rate[0]) == pytest.approx(rate, rel=2e-3)


def test_nothing_grows_in_time():
    ds = mf.studies.metastability(mf.SA(5.0), law=mf.Uniform(2), save_at=12, t_end=2.0)
    assert np.all(ds.n_clusters.values == 0)
    assert int(ds.grown_degree[0]) == 0
    assert ds.sizes["plateau"] == ds.sizes["merger"] == ds.sizes["cluster"] == 0
    assert np.allclose(ds.energy_share, ds.energy_share[0, 0])


def test_spread_at_the_antipode_keeps_its_digits():
    """e^{-2β} of the largest potential, where series and transforms have none left."""
    law = mf.FourierSeries(cos=[0.9])
    for beta in (99.0, 101.0, 150.0):
        _, spread = surviving_atom(mf.SA(beta), 1e-3, law)
        flow = mf.FlowMap(law)
        share = flow.weights * np.exp(beta * (np.cos(np.pi - flow.angles) - 1))
        share /= share.sum()
        apart = np.pi - flow.angles
        expected = share @ (beta * np.sin(apart) ** 2 - np.cos(apart))
        assert spread == pytest.approx(expected, abs=2e-2)
