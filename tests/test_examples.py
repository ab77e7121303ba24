"""The README's Python runs as it stands."""

import re
from pathlib import Path

import numpy as np
from PIL import Image

import meanfield as mf

README = Path(__file__).parent.parent / "README.md"


def blocks():
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def run(code):
    scope = {}
    exec(compile(code, "README.md", "exec"), scope)
    return scope


def test_readme_runs_flow_maps(capsys):
    scope = run(blocks()[1])
    printed = capsys.readouterr().out
    assert "clustered at t = 300" in printed
    assert "0.661" in printed
    gap = float(scope["sol"].dataset["energy"][-1]) - np.exp(4.0) / 8
    assert abs(gap) < 1e-12


def test_readme(tmp_path, monkeypatch, capsys):
    assert len(blocks()) == 6
    monkeypatch.chdir(tmp_path)
    scope = run(blocks()[0])
    printed = capsys.readouterr().out
    assert "finished at t = 1.5" in printed
    assert (tmp_path / "two_bumps.png").stat().st_size > 10_000
    # 500 tokens: a few standard errors of 1/sqrt(500)
    assert abs(scope["sol"].final.mean() - scope["cloud"].final.mean()).max() < 0.2


def test_readme_runs_tokens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = run(blocks()[2])
    # Euler steps of 0.1 against the flow
    gap = np.abs(scope["flow"].final.points - scope["steps"].final.points).max()
    assert 1e-3 < gap < 0.5
    assert scope["noisy"].dynamics.noise == 0.05
    assert np.all(np.abs(scope["ds"]["rate"].sel(quantity="w1") + 0.5) < 0.1)
    assert (tmp_path / "limit.png").stat().st_size > 10_000


def test_readme_runs_heads(capsys):
    scope = run(blocks()[3])
    means = [
        [float(word) for word in line.strip("[] ").split()]
        for line in capsys.readouterr().out.splitlines()[:3]
    ]
    # printed digits; 5000 quantised tokens
    np.testing.assert_allclose(means[0], means[1], atol=2e-8)
    np.testing.assert_allclose(means[0], means[2], atol=2e-5)
    assert np.all(np.diff(scope["balanced"].dataset.sinkhorn_energy) > 0)


def test_readme_measures_distances(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scope = run(blocks()[4])
    printed = capsys.readouterr().out
    # W_1 of the bump, exact by its polar angles, lies in the bracket that is printed
    bracket = re.search(r"lower=([0-9.]+), upper=([0-9.]+)", printed)
    assert float(bracket[1]) <= 0.99430231356564 <= float(bracket[2])
    columns = scope["sol"].dataset
    assert np.all(np.diff(columns["w1"]) > 0)
    assert np.all(np.diff(columns["w2_centre"]) < 0)
    assert (tmp_path / "distances.png").stat().st_size > 10_000


def test_readme_looks_at_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(blocks()[5])
    assert "atoms" in (tmp_path / "final.svg").read_text(encoding="utf-8")
    assert (tmp_path / "energy.png").stat().st_size > 10_000
    with Image.open(tmp_path / "run.gif") as movie:
        assert movie.n_frames == 5


def test_names_are_the_public_ones():
    """Nothing that importing needs is offered, and everything that is offered is there."""
    names = dir(mf)
    assert set(names) == {*mf.__all__, "__version__"}
    assert all(hasattr(mf, name) for name in names)
