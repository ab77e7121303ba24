"""README and the pages of docs/ run as they stand, each in an empty folder."""

import inspect
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import meanfield as mf
from meanfield.typing import names_for_rooms
from tests.handmade import slow
from tests.refusals.bad_calls import KINDS, good_arguments
from tests.tiers import rows

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

from benchmark_tables import benchmark_tables  # noqa: E402 (beside the pages)
from look import VIEWS, faults  # noqa: E402 (beside the pages)
from page_blocks import blocks, run_page  # noqa: E402 (beside the pages)
from reference import reference  # noqa: E402 (beside the pages)

PAGES = ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in DOCS.rglob("*.md"))]
PAGES = [page for page in PAGES if not page.startswith("docs/generated/")]
RUN = {"python", "console"}
# what is shown and not run: a shell, Slurm, Python on other machines (py), and files
SHOWN = {"bash", "py", "toml"}


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def has_code(page):
    return any(block.language in RUN for block in blocks(read(page)))


# a second of work at most
QUICK = "docs/howto/choosing_a_measure.md", "docs/howto/scripts.md"


@pytest.mark.parametrize("page", rows([page for page in PAGES if has_code(page)], *QUICK))
def test_page_runs(page, folder):
    names = run_page(read(page), page)
    check = CHECKS.get(page)
    if check:
        check(names, folder)


def check_tutorial(names, folder):
    for figure in ("bumps", "soft", "energies", "tokens"):
        assert (folder / f"{figure}.png").stat().st_size > 10_000
    # 500 tokens: a few standard errors of 1/sqrt(500)
    assert np.abs(names["sol"].final.mean() - names["cloud"].final.mean()).max() < 0.2
    with Image.open(folder / "bumps.gif") as movie:
        assert movie.n_frames == 4
    page = (folder / "bumps.html").read_text(encoding="utf-8")
    assert "SA" in page
    assert names["sweep"].final_energy.shape == (4,)


def check_choosing(names, folder):
    ends = [run.dataset.energy.values[-1] for run in names["runs"].values()]
    # 2000 quantised tokens; density and flow map to their own tolerances
    assert abs(ends[0] - ends[1]) < 1e-10
    assert abs(ends[0] - ends[2]) < 1e-5
    assert isinstance(names["sol"].final, mf.FlowMap)


def check_own_dynamics(names, folder):
    assert (folder / "bounded_confidence.png").stat().st_size > 10_000
    assert names["sol"].status == "finished"
    # of the dynamics with an energy, on a measure that needs its divergence
    data = mf.evolve(mf.FlowMap(names["law"]), names["Mean"](), 1.0, 2).dataset
    assert data.energy[-1] > 1.5 * data.energy[0]
    assert np.abs(data.balance_error).max() < 1e-10


def check_readme(names, folder):
    assert (folder / "two_bumps.png").stat().st_size > 10_000
    # 500 tokens: a few standard errors of 1/sqrt(500)
    assert np.abs(names["sol"].final.mean() - names["cloud"].final.mean()).max() < 0.2
    assert "atom at t = 300" in (folder / "final.svg").read_text(encoding="utf-8")
    assert (folder / "energy.png").stat().st_size > 10_000
    # energies of the Dirac at the end, to rounding
    late = names["late"]
    assert abs(float(late.dataset["energy"][-1]) - np.exp(4.0) / 8) < 1e-12
    assert late.status == "clustered"
    # a second cluster holds a third of the mass at t = 50
    assert mf.clusters(late.measures[10]).masses[0] == pytest.approx(0.661, abs=1e-3)


CHECKS = {
    "README.md": check_readme,
    "docs/tutorial.md": check_tutorial,
    "docs/howto/choosing_a_measure.md": check_choosing,
    "docs/howto/new_dynamics.md": check_own_dynamics,
}


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_run_or_known_not_to_be(page):
    text = read(page)
    for block in blocks(text):
        assert block.language in SHOWN | RUN, f"{page}, line {block.line}: {block.language!r}"
        assert bool(block.file) <= (block.language == "toml"), f"{page}, line {block.line}"


@pytest.mark.usefixtures("folder")
def test_a_page_that_is_wrong_is_told():
    with pytest.raises(ZeroDivisionError):
        run_page("```python\n1 / 0\n```\n", "page")
    with pytest.raises(AssertionError, match="ended with 2"):
        run_page("```console\n$ meanfield run none.toml\n```\n", "page")
    with pytest.raises(AssertionError, match="printed"):
        run_page("```console\n$ meanfield --version\nmeanfield 0.0\n```\n", "page")
    with pytest.raises(AssertionError, match="is no command"):
        run_page("```console\n$ rm run.nc\n```\n", "page")


def test_api_lists_every_public_name():
    listed = set(reference().split())
    modules = {"exceptions", "plot", "studies", "theory", "trained", "typing"}
    missing = set(mf.__all__) - modules - listed
    for module in (mf.exceptions, mf.plot, mf.studies, mf.theory, mf.trained):
        missing |= set(module.__all__) - listed
    assert not missing


@pytest.mark.parametrize("page", sorted((DOCS / "decisions").glob("*.md")), ids=lambda p: p.stem)
def test_decisions_stand_under_a_file_that_there_is(page):
    lines, room = page.read_text(encoding="utf-8").splitlines(), ROOT / "meanfield" / page.stem
    files = [line[3:] for line in lines if line.startswith("## ")]
    assert files
    assert [file for file in files if not (room / file).is_file()] in ([], ["The whole room"])
    assert f"docs/decisions/{page.name} says" in (room / "__init__.py").read_text(encoding="utf-8")


def test_each_public_callable_shows_an_example():
    """Doctest runs them; exceptions, and the protocols of `typing`, are named and not called."""
    found, without = 0, set()
    for room in (mf, mf.studies, mf.theory, mf.trained, mf.plot):
        for name in room.__all__:
            thing = getattr(room, name)
            makers = {
                f"{name}.{key}": part.__func__
                for key, part in (vars(thing).items() if inspect.isclass(thing) else ())
                if isinstance(part, classmethod)
                and key[0] != "_"
                and key not in names_for_rooms(thing)
            }
            for word, part in ({name: thing} | makers).items():
                if callable(part):
                    found += 1
                    # not getdoc, which would take a base's
                    without |= {word} if ">>> " not in (part.__doc__ or "") else set()
    assert found > 130
    assert without == set(), "docstrings without an example (>>>)"


def test_benchmarks_show_every_result_with_its_machine():
    results = ROOT / "validation" / "benchmarks" / "results"
    page = benchmark_tables(results)
    for path in sorted(results.glob("*.json")):
        assert f"`python -m validation.benchmarks {path.stem}`" in page
        content = json.loads(path.read_text(encoding="utf-8"))
        if "machine" in content:
            assert all(f"{name} {value}" in page for name, value in content["machine"].items())
    assert page.count("|---|") > page.count("\n## ")


def test_gallery_examples_are_short():
    found = sorted((DOCS / "gallery").glob("*.py"))
    assert found
    for path in found:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 60, path
        assert "assert " in text, path


def test_names_are_the_public_ones():
    """Nothing that importing needs is offered, and everything that is offered is there."""
    names = dir(mf)
    assert set(names) == {*mf.__all__, "__version__"}
    assert all(hasattr(mf, name) for name in names)


FAULTS = {
    "<canvas width=90 height=90></canvas>": "<canvas",
    "<script>console.error('oh')</script>": "oh",
    "<script src='https://example.org/a.js'></script>": "asks for https://example.org/a.js",
    "<div id='wide' style='width: 1600px; height: 9px'></div>": "div#wide",
}


@pytest.mark.slow
def test_faults_of_a_built_page_are_seen_in_every_view(browser, tmp_path):
    """All that is wrong with the one page, and nothing with the other."""
    for name, body in {"bad": "".join(FAULTS), "good": "<p>A page.</p>"}.items():
        page = f"<!doctype html><html><body>{body}</body></html>"
        (tmp_path / f"{name}.html").write_text(page, encoding="utf-8")
    seen = list(faults(browser, tmp_path))
    assert [line.partition(": ")[0] for line in seen] == [f"bad.html, {view}" for view in VIEWS]
    assert all(fault in line for line in seen for fault in FAULTS.values())


CIRCLE, BUMP = mf.FourierSeries(cos=[0.5]), mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0)
BUMPS = mf.Mixture([BUMP, mf.VonMisesFisher([0.0, 0.8, -0.6], 3.0)], [0.6, 0.4])
ZONAL = mf.VonMisesFisher(np.eye(5)[0], 2.0)


def head(beta, dim):
    """Attention by one head, of |KᵀQ| = 1, that keeps the first axis."""
    return mf.Attention(beta, [mf.Head(K=np.diag([1.0] + [0.5] * (dim - 1)))])


@pytest.mark.parametrize(
    ("row", "column", "start", "dynamics"),
    [
        ("`Density`: heads", 1, mf.Density(mf.Circle(16), CIRCLE), lambda b: head(b, 2)),
        ("`Density`: heads", 2, mf.Density(mf.Sphere(8), BUMPS), lambda b: head(b, 3)),
        ("`FlowMap`: `SA`", 2, mf.FlowMap(BUMPS), mf.SA),
        ("`FlowMap`: `SA`", 3, mf.FlowMap(ZONAL), mf.SA),
        ("`FlowMap`: heads", 1, mf.FlowMap(CIRCLE), lambda b: head(b, 2)),
        ("`FlowMap`: heads", 2, mf.FlowMap(BUMPS), lambda b: head(b, 3)),
        ("`FlowMap`: heads", 3, mf.FlowMap(ZONAL), lambda b: head(b, 5)),
    ],
)
def test_limits_are_those_of_the_page(row, column, start, dynamics):
    """Just above the β of the table of docs/limits.md a run is refused, which names that β."""
    limit = beta_limit(row, column)
    with pytest.raises(ValueError, match=f"must be <= {limit:g} "):
        mf.evolve(start, dynamics(1.001 * limit), 1e-9, 1)


@pytest.mark.parametrize(
    ("column", "law", "dynamics"),
    [(1, CIRCLE, mf.SA), (1, CIRCLE, lambda b: head(b, 2)), slow(2, BUMPS, mf.SA)],
)
def test_sums_in_linear_time_end_where_the_page_says(column, law, dynamics):
    tokens = mf.Particles(law.sample(20, rng=0), sums="transforms")
    limit = beta_limit("`Particles` in O(n)", column)
    for beta, sums in (limit, "transforms"), (1.01 * limit, "direct"):
        run = mf.evolve(tokens, dynamics(beta), 1e-9, 1)
        assert run.dataset.attrs["sums"] == sums


LAWS = {2: CIRCLE, 3: BUMPS, 4: mf.VonMisesFisher(np.eye(4)[0], 1.0)}
SPACES = {2: mf.Circle(16), 3: mf.Sphere(7), 4: mf.Zonal(4, 15, np.eye(4)[0])}
MEASURES = [
    lambda dim: mf.Density(SPACES[dim], LAWS[dim]),
    lambda dim: mf.FlowMap(LAWS[dim], tol=1e-3),
    lambda dim: mf.Particles(np.eye(dim)),
]
# where a measure is moved, of the circle, S^2 without an axis, and about an axis
WHERE = {
    (2, 3, 4): "yes",
    (2, 4): "not on S² without an axis",
    (2,): "on the circle",
    (): "no",
}


def is_moved(measure, dynamics):
    try:
        mf.evolve(measure, dynamics, t_end=getattr(dynamics, "step", 1e-9), save_at=1)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", sorted({*KINDS} - {"Sum"}))
def test_what_moves_what_is_what_the_page_says(name):
    """The first row of the table that has the name."""

    def dynamics(dim):
        # matrices that commute with turns about the axis
        first = np.eye(dim)[:1]
        matrices = {"W": first.T, "A": first} if name == "FeedForward" else {}
        return KINDS[name](**good_arguments(name) | matrices)

    cells = [
        WHERE[tuple(dim for dim in LAWS if is_moved(measure(dim), dynamics(dim)))]
        for measure in MEASURES
    ]
    lines = read("docs/howto/choosing_a_measure.md").splitlines()
    row = next((line for line in lines if line[:2] == "| " and f"`{name}`" in line), "none")
    end = f"| {' | '.join(cells)} |"
    assert row.endswith(end), f"a row for 'What moves what' of this page:\n| `{name}` {end}"


def beta_limit(row, column):
    """The first number in a cell of the first table of docs/limits.md."""
    lines = [line for line in read("docs/limits.md").splitlines() if line.startswith(f"| {row}")]
    cell = lines[0].split("|")[1 + column].split()[0].strip(";,")
    return float(cell.replace("10⁴", "1e4"))
