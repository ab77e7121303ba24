"""Sums over pairs of tokens in float32 against float64, and against the error that is proven."""

import tracemalloc

import mpmath
import numpy as np
import pytest

import meanfield as mf
from meanfield.cli.commands import main
from meanfield.equations.tendency import tendency
from meanfield.exceptions import Interrupted
from meanfield.kernels import direct
from meanfield.kernels.direct import float32_error, log_moment, pull_of_others

LOOSE = {"rtol": 1e-6, "atol": 1e-6}


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def random(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    return unit(rng.normal(size=(n, dim))), rng.dirichlet(np.ones(n))


def one_sided(n, dim, seed=0):
    """Entries of one size whose float32 values are all too large, by nearly half a unit."""
    rng = np.random.default_rng(seed)
    size = np.float64(np.float32(dim**-0.5)) * (1.0 - 0.49 * 2.0**-23)
    signs = np.where(rng.random((n, dim)) < 0.02, -1.0, 1.0)
    return size * signs, np.full(n, 1.0 / n)


def antipodes(n, dim, seed=0):
    """Two heaps, one of nearly no mass, seen from both."""
    rng = np.random.default_rng(seed)
    pole = np.eye(1, dim) * np.where(np.arange(n) < n // 2, 1.0, -1.0)[:, None]
    masses = np.where(np.arange(n) < n // 2, 1.0, 1e-12)
    return unit(pole + 1e-3 * rng.normal(size=(n, dim))), masses / masses.sum()


CLOUDS = [random, one_sided, antipodes]


@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.__name__)
@pytest.mark.parametrize(("n", "dim"), [(40, 3), (1100, 20), (600, 300), (30, 1100)])
@pytest.mark.parametrize("beta", [0.5, 8.0, 100.0])
def test_errors_are_below_what_is_proven(cloud, n, dim, beta):
    """At the tokens and elsewhere; float64 is right to 1e-13 β beside it."""
    points, masses = cloud(n, dim)
    bound = float32_error(beta, dim, masses)
    z = beta * np.concatenate([random(40, dim, 1)[0], points[:40], -points[:40]])
    exact, found = (log_moment(points, masses, z, kind) for kind in (np.float64, np.float32))
    log_error = np.abs(found[0] - exact[0]).max()
    error = np.linalg.norm(found[1] - exact[1], axis=1).max()
    assert 1e-10 < max(log_error, error) < bound
    assert log_error < bound
    velocities = []
    for kind in (np.float64, np.float32):
        pull, log_unit, log_g = pull_of_others(points, masses, beta, kind)
        velocities.append(np.exp(log_unit - log_g)[:, None] * pull)
    assert np.linalg.norm(velocities[1] - velocities[0], axis=1).max() < bound


def test_against_mpmath():
    """Five terms at the largest |z| that is taken, between which float64 itself has an error."""
    points, masses = random(5, 4)
    beta = 4e3
    z = beta * np.concatenate([points, random(5, 4, 1)[0]])
    log_g, mean = log_moment(points, masses, z, np.float32)
    for row, found_log, found in zip(z, log_g, mean, strict=True):
        with mpmath.workdps(40):
            exponents = [mpmath.fdot(row.tolist(), y) for y in points.tolist()]
            terms = [m * mpmath.exp(s) for m, s in zip(masses.tolist(), exponents, strict=True)]
            total = mpmath.fsum(terms)
            exact = [float(mpmath.fdot(terms, column) / total) for column in points.T.tolist()]
            exact_log = float(mpmath.log(total))
        assert abs(found_log - exact_log) < float32_error(beta, 4, masses)
        assert np.linalg.norm(found - exact) < float32_error(beta, 4, masses)


@pytest.mark.parametrize("fault", ["half precision", "a block of its own"])
def test_what_is_beyond_what_is_proven(fault, monkeypatch):
    """The bound says no where scores have half precision, or are 1e-2 too large in one block."""
    points, masses = one_sided(600, 300)
    z = 8.0 * points[:20]
    exact = log_moment(points, masses, z)
    plain = direct._products
    faults = {
        "half precision": lambda x, y: plain(*(a.astype("f2").astype("f4") for a in (x, y))),
        "a block of its own": lambda x, y: plain(x, y) + np.float32(1e-2) * (len(y) < direct._SIDE),
    }
    monkeypatch.setattr(direct, "_products", faults[fault])
    found = log_moment(points, masses, z, np.float32)
    errors = [np.abs(a - b).max() for a, b in zip(found, exact, strict=True)]
    assert max(errors) > float32_error(8.0, 300, masses)


@pytest.mark.parametrize("dim", [2, 768])
def test_refused_where_no_error_is_proven(dim):
    """The largest |z| is inversely proportional to what products of d terms may lose."""
    low, high = 1.0, 1e9
    for _ in range(60):
        middle = 0.5 * (low + high)
        try:
            float32_error(middle, dim, np.ones(3))
            low = middle
        except ValueError:
            high = middle
    roundings = min(dim, 256) + -(-dim // 256) + 4
    assert low * roundings * 2.0**-24 == pytest.approx(0.005, rel=0.05)
    points, masses = random(4, dim)
    start = mf.Particles(points, masses, sums="float32")
    with pytest.raises(ValueError, match=rf"^β = .* too large for sums='float32' in d = {dim}:"):
        mf.evolve(start, mf.SA(1.01 * high), 1.0, **LOOSE)
    with pytest.raises(ValueError, match=r"no error <= 0\.01 is proven"):
        start.log_moment(1.01 * high * points)
    with pytest.raises(ValueError, match=r"no error <= 0\.01 is proven"):
        float32_error(1e300, dim, np.ones(3))


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_tolerances_are_no_less_than_rounding(name):
    start = mf.Particles(np.eye(4), sums="float32")
    with pytest.raises(ValueError, match=rf"{name} of tokens with sums='float32' must .*1e-06"):
        mf.evolve(start, mf.SA(1.0), 1.0, **LOOSE | {name: 9e-7})
    noisy = mf.SA(1.0, noise=0.1)
    assert mf.evolve(start, noisy, 0.1, 1, rng=0).dataset.attrs["sums"] == "float32"


def heads(dim):
    rng = np.random.default_rng(3)
    return [mf.Head(*rng.normal(size=(3, dim, dim)) / np.sqrt(dim)) for _ in range(2)]


DIM = 12
DYNAMICS = {
    "SA": (mf.SA(8.0), "float32"),
    "USA": (mf.USA(2.0, sign=-1), "float32"),
    "heads": (mf.Attention(2.0, heads(DIM)), "float32"),
    "number": (mf.Attention(2.0, [mf.Head(V=0.5)]), "float32"),
    "layers": (mf.Layers([mf.SA(3.0), mf.FeedForward(np.eye(DIM), np.eye(DIM))]), "float32"),
    "map": (mf.LayerMap(mf.SA(3.0), step=0.5), "float32"),
    "balanced": (mf.DoublyStochastic(2.0), "direct"),
    "interaction": (mf.Interaction([1.0, 1.0]), "direct"),
}


@pytest.mark.parametrize("name", DYNAMICS)
def test_runs(name):
    """Those of float64 to what steps may leave; what is said is what is done."""
    dynamics, said = DYNAMICS[name]
    points, _ = random(60, DIM)
    exact, found = (
        mf.evolve(mf.Particles(points, sums=sums), dynamics, 1.0, 2, **LOOSE)
        for sums in ("direct", "float32")
    )
    assert found.dataset.attrs["sums"] == said
    gap = np.abs(found.final.points - exact.final.points).max()
    assert gap < 1e-5
    assert (gap == 0.0) == (said == "direct")


def test_files_and_restarts_keep_it(tmp_path):
    points, masses = random(40, DIM)
    start, dynamics = mf.Particles(points, masses, sums="float32"), mf.SA(4.0)
    path = tmp_path / "run.nc"

    def stop(measure):
        if calls.append(measure) or len(calls) == 2:
            raise KeyboardInterrupt
        return measure.mass()

    calls = []
    whole = mf.evolve(start, dynamics, 1.0, 2, **LOOSE)
    with pytest.raises(Interrupted):
        mf.evolve(start, dynamics, 1.0, 2, monitors={"m": stop}, checkpoint=path, **LOOSE)
    assert mf.load(path).t[-1] < 1.0
    again = mf.resume(path, monitors={"m": mf.Particles.mass})
    assert again.final.sums == "float32"
    assert again.dataset.attrs["sums"] == "float32"
    assert np.array_equal(again.final.points, whole.final.points)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_no_more_than_a_block_of_pairs(kind):
    """Of 4000² pairs; what has n rows of d is three arrays at most."""
    n, dim = 4000, 260
    points, masses = random(n, dim)
    tracemalloc.start()
    try:
        pull_of_others(points, masses, 4.0, kind)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3.2 * points.nbytes + 6 * 8 * direct._SIDE**2 < 0.4 * 8 * n * n


def test_of_the_tendency():
    """One token alone stands still, and nobody is pulled by what has no mass."""
    points, _ = random(3, 300)
    for masses in ([1.0, 0.0, 0.0], [0.5, 0.5, 0.0]):
        rate = tendency(mf.Particles(points, masses, sums="float32"), mf.SA(4.0))
        out = np.empty_like(rate.initial_state)
        rate(rate.initial_state, out)
        moved = np.abs(out.reshape(3, 300)).max(axis=1) > 0.0
        assert moved.tolist() == [masses[1] > 0.0, True, True]


CASE = """
law = {{ type = "Uniform", dim = 12 }}
measure = {{ type = "Particles", n = 20, sums = "float32" }}
dynamics = {{ type = "SA", beta = 4.0 }}
run = {{ t_end = 0.5, save_at = 1, rtol = 1e-6, atol = {atol} }}
"""


def test_case_files(tmp_path, capsys):
    case, kept = tmp_path / "case.toml", tmp_path / "run.nc"
    case.write_text(CASE.format(atol=1e-6), "utf-8")
    assert main(["run", str(case), "-o", str(kept), "--quiet"]) == 0
    assert mf.load(kept).dataset.attrs["sums"] == "float32"
    case.write_text(CASE.format(atol=1e-9), "utf-8")
    assert main(["run", str(case), "-o", str(tmp_path / "other.nc")]) == 2
    assert "run.atol of tokens with sums='float32' must be" in capsys.readouterr().err
