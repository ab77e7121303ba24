"""The page of a run: whole, small and safe; how it looks is asked in test_browser.py."""

import json
import re
import sys
from dataclasses import replace
from html import escape

import numpy as np
import pytest

import meanfield as mf
from meanfield.cli import report
from meanfield.cli.commands import main
from meanfield.cli.report.document import _outcome, checks, measure_views
from meanfield.cli.report.measures import angles_view, eye, sphere_view, tokens_view
from meanfield.cli.text import table
from meanfield.evolution.system import System
from meanfield.plot.panels import look
from meanfield.spaces.geometry import circle_points
from tests.cli.pages import LAW, RUNS, SINGLE, SLANTED, data, numbers, page_of, solution_of, view
from tests.handmade import interrupted, tokens

START = mf.Density(mf.Circle(32), LAW)


@pytest.mark.parametrize(
    "name",
    ["circle", *(pytest.param(name, marks=pytest.mark.slow) for name in RUNS if name != "circle")],
)
def test_page_of_every_kind_of_run(name):
    sol, page = solution_of(name), page_of(name)
    assert 4e6 < len(page) < 1e7
    # nothing is fetched
    outside = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\b(src|href)\s*=\s*[\x27\"]?\s*(https?:|//)", outside)
    assert not re.search(r"<script[^>]*\bsrc", page)
    shown = data(page)
    np.testing.assert_array_equal(shown["t"], sol.t)
    assert len(view(shown, "measure0")["frames"]) == len(sol.t)
    assert len(shown["views"]) >= 3
    assert str(sol.message).split(";")[0][:40] in page


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_checks_hold_where_the_run_is_good(name):
    found = checks(solution_of(name))
    failed = [check.name for check in found if not check.passed]
    expected = ["status"] if name == "under-resolved" else []
    assert [each for each in failed if each != "tail"] == expected


def test_a_check_can_fail():
    ds = solution_of("circle").dataset
    wrong = ds.assign(balance_error=ds.balance_error + 1e-6, mass=ds.mass + 1e-6, energy=-ds.energy)
    bad = replace(solution_of("circle"), dataset=wrong)
    failed = [check.name for check in checks(bad) if not check.passed]
    assert len(failed) == 4


def test_terms_that_cancel_are_held_to_their_own_sizes():
    """Of 1 - 0.999 times one energy a thousandth is left, but the errors are those of each."""
    sol = mf.evolve(tokens(2, 10), mf.SA(2.0) - 0.999 * mf.SA(2.0), 0.1, 1)
    share = np.abs(sol.dataset.energy_share).max().item()
    assert share < 1e-3
    steps = sol.dataset.steps.values[-1]
    least = 2.0 * (steps + 1.0) * sol.dataset.attrs["rtol"]
    for error, passed in ((0.5 * least, True), (1.1 * least, False)):
        wrong = sol.dataset.assign(balance_error=sol.dataset.balance_error + error)
        bad = replace(
            sol, dataset=wrong.assign(term_balance_error=wrong.term_balance_error + error)
        )
        (found,) = [check for check in checks(bad) if check.name.startswith("balance")]
        assert found.passed == passed
        assert found.name.endswith("size of each term")


BENT = np.array([[1.0, 0.3], [0.3, -0.5]])


@pytest.mark.parametrize(
    ("dynamics", "t_end", "symbol"),
    [
        (mf.DoublyStochastic(2.0), 0.5, "E_DS"),
        (mf.Attention(1.5, [mf.Head(Q=BENT, V=-BENT)]), 0.5, "E_D"),
        (mf.Kuramoto(-1.3), 0.5, "F"),
        (mf.CircleInteraction([1.0, -0.5]), 0.5, "F"),
        (mf.SA(0.0, sign=-1), 0.5, "E_β"),
        (mf.SA(800.0), 1e-3, "E_β/E_β(δ)"),
    ],
    ids=str,
)
def test_an_energy_is_checked_by_its_own_name(dynamics, t_end, symbol):
    sol = mf.evolve(tokens(2, 40), dynamics, t_end, 4)
    found = {check.name: check.passed for check in checks(sol)}
    assert all(found.values())
    assert sum(name.startswith("balance error |") for name in found) == 1
    assert f"{symbol} between its bounds" in found
    way = "rises" if dynamics.energy_functional.sign > 0 else "falls"
    assert f"{symbol} {way}: largest step back" in found


def test_a_run_without_an_energy_is_checked_for_the_rest():
    turned = mf.Attention(1.0, [mf.Head(V=[[0.0, -1.0], [1.0, 0.0]])])
    sol = mf.evolve(mf.Density(mf.Circle(64), LAW), turned, 1.0, 5)
    assert [check.name for check in checks(sol)] == [*("status", "mass error |1 − ∫ dμ|", "tail")]
    assert "rms velocity" in report.page(sol)
    page = report.page(solution_of("circle"), sol)
    told = "<p>energy, energy_share, dissipation are missing: the second run followed no energy, "
    assert told in page
    assert "dissipation" not in table(sol)
    assert table(sol).split()[:3] == ["t", "rms_velocity", "1-mass"]


@pytest.mark.parametrize(
    "kind",
    ["density", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("flow map", "tokens"))],
)
def test_a_save_that_is_cut_short_fails_no_check_but_the_status(kind, monkeypatch):
    """Ctrl-C does not wait for the numbers of the last measure, which then lacks most."""
    start = {
        "density": mf.Density(mf.Circle(32), LAW),
        "flow map": mf.FlowMap(LAW),
        "tokens": mf.Particles.sample(LAW, 20, rng=0),
    }[kind]
    calls, balance = [], System._balance

    def struck(system, measure):
        calls.append(measure)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return balance(system, measure)

    monkeypatch.setattr(System, "_balance", struck)
    sol = interrupted(mf.evolve, start, mf.SA(1.0), 0.4, 4)
    assert np.isfinite(sol.dataset.energy).values.tolist() == [True, True, False]
    page = report.page(sol)
    assert [check.name for check in checks(sol) if not check.passed] == ["status"]
    first, last = sol.dataset.energy.values[:2]
    assert f"goes from {first:.4g} to {last:.4g}; its bounds are " in page


def test_a_flow_map_is_held_against_its_own_tolerance():
    start = mf.FlowMap(mf.FourierSeries(cos=[0.5]))
    loose = mf.evolve(start, mf.SA(4.0), 1.0, 2, rtol=1e-2)
    told = loose.dataset.attrs
    assert (told["tol"], "rtol" in told) == (start.tol, False)
    # an energy that is off by less than rtol, and by far more than tol
    error = loose.dataset["balance_error"].copy()
    error[2] += 1e-6
    bad = replace(loose, dataset=loose.dataset.assign(balance_error=error))
    assert [check.passed for check in checks(bad) if check.name.startswith("balance")] == [False]
    assert all(check.passed for check in checks(loose))


TAG = "<img src=x onerror=alert(1)>"


def test_distances_say_what_they_are_to_and_no_text_of_a_run_is_part_of_the_page():
    monitors = {
        "w2_far": mf.DistanceTo("uniform", p=2),
        f"w_{TAG}": lambda mu: mu.mass(),
    }
    sol = mf.evolve(START, mf.SA(4.0), 0.1, 2, monitors=monitors)
    texts = {"message": "</script><script>alert(1)</script>"}
    texts["case"] = f"</pre>{TAG}"
    page = report.page(replace(sol, **texts))
    assert "<script>alert(1)" not in page
    assert TAG[:10] not in page
    assert f"w_{escape(TAG)}</th>" in page
    curves = view(data(page), "distances")["data"]
    # bounds that are equal are not drawn
    assert [curve["name"] for curve in curves] == ["W<sub>2</sub> to σ", f"w_{TAG}"]


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="solution must be a Solution, got 3"):
        report.page(3)
    with pytest.raises(ValueError, match=r"path must end in \.html"):
        report.save(tmp_path / "a.pdf", solution_of("circle"))


def test_without_plotly_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ValueError, match="report"):
        report.page(solution_of("circle"))


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_command(capsys):
    for name in "run.nc", "again.nc":
        solution_of("Kuramoto").save(name)
    # a page of the same runs is replaced
    for _ in range(2):
        assert main(["report", "run.nc", "again.nc"]) == 0
        assert capsys.readouterr().out == "wrote run-again.html\n"
    assert main(["report", "again.nc", "-o", "run-again.html"]) == 2


@pytest.mark.slow
def test_two_runs_are_seen_at_the_same_times():
    """The second goes on where the first ends, and saves less often."""
    start = tokens(3, 20)
    short, long = (mf.evolve(start, mf.SA(4.0), t_end, 4) for t_end in (1.0, 2.0))
    page = report.page(short, long)
    assert data(page)["t"] == [0.0, 0.5, 1.0]
    assert "The slider has 3 of 5 saved times of b: both runs have them." in page
    for sol, figure in zip((short, long), data(page)["views"][:2], strict=True):
        assert len(figure["frames"]) == 3
        for t, frame in zip((0.0, 0.5, 1.0), figure["frames"], strict=True):
            drawn = [numbers(frame["3"][x]) for x in "xyz"]
            height = np.linalg.norm(drawn, axis=0)[0]
            points = sol.measures[list(sol.t).index(t)].points
            np.testing.assert_allclose(np.transpose(drawn), height * points, atol=SINGLE)


def test_tokens_under_a_mask_are_on_their_page_at_their_positions(monkeypatch):
    """Beside the measure, moved by its slider: angles, and of many tokens some."""
    sol = solution_of("masked")
    monkeypatch.setattr(report.measures, "_MOST_PLACED", 50)
    page = report.page(sol)
    figure = view(data(page), "positions0")
    kept = np.linspace(0, 59, 50).round().astype(int)
    positions = np.cumsum(sol.final.weights)[kept]
    np.testing.assert_allclose(numbers(figure["data"][0]["y"]), positions, atol=SINGLE)
    assert len(figure["frames"]) == len(sol)
    for frame, mu in zip(figure["frames"], sol.measures, strict=True):
        angles = np.exp(1j * numbers(frame["0"]["x"]))
        np.testing.assert_allclose(angles, mu.points[kept] @ [1, 1j], atol=SINGLE)
    assert "50 of 60 tokens are drawn at their positions." in page
    last = sol.final.weights @ np.arccos(np.clip(sol.final.points @ sol.final.points[0], -1, 1))
    assert (
        f"<td>{last:.8g}</td></tr></tbody>" in page.split('id="positions0"')[1].split("</table>")[0]
    )


@pytest.mark.slow
def test_two_masked_runs_have_one_principal_axis_and_an_unmasked_one_has_none():
    start = tokens(8, 20)
    masked, plain = (mf.SA(4.0, mask=mask) for mask in (mf.Causal(), None))
    sols = [mf.evolve(start, dynamics, 1.0, 2) for dynamics in (masked, plain)]
    shown = [each for each in data(report.page(*sols))["views"] if "positions" in each["name"]]
    assert [each["layout"]["title"]["text"] for each in shown] == ["a positions"]
    longer = mf.evolve(start, masked, 3.0, 6)
    shown = data(report.page(sols[0], longer))
    a, b = (view(shown, f"positions{i}") for i in (0, 1))
    assert a["layout"]["xaxis"] == b["layout"]["xaxis"]
    # they have the same tokens at the times that both have saved
    assert a["frames"] == b["frames"]
    assert len(a["frames"]) == 3


def sum_run():
    start = mf.Density(mf.Circle(32), LAW)
    return mf.evolve(start, mf.SA(4.0) + 0.5 * mf.Kuramoto(0.5), 0.2, 2)


def test_the_terms_of_a_sum_are_on_its_page():
    """Gains of energy and dissipation, a curve for each term, add up to those of the sum."""
    sol = sum_run()
    page = report.page(sol)
    labels = ["the sum", "0: SA, β = 4", "1: 0.5 Kuramoto, K = 0.5"]
    for name in ("energy", "dissipation"):
        figure = view(data(page), name)
        assert [curve["name"] for curve in figure["data"]] == labels
        total, *terms = (numbers(curve["y"]) for curve in figure["data"])
        assert np.sum(terms, axis=0) == pytest.approx(total, rel=1e-12, abs=1e-15)
    assert "The terms are (SA, β = 4) and (0.5 Kuramoto, K = 0.5)." in page
    first, last = sol.dataset.term_energy.values[[0, -1], 1]
    told = f"energy {first:.12g} to {last:.12g}, balance error "
    assert told in re.search('<th scope="row">term 1</th><td>(.*?)</td>', page)[1]


def test_a_beta_in_time_and_a_mask_are_on_its_page():
    start, beta = mf.Particles.from_angles([0.0, 1.0]), mf.Schedule([0.0, 1.0], [1.0, 4.0])
    page = report.page(mf.evolve(start, mf.SA(beta, mask=mf.Causal(decay=2.0)), 1.0, 2))
    assert "<p>SA, β(t), causal mask with decay 2: 2 tokens on the circle" in page
    figure = view(data(page), "beta")
    assert numbers(figure["data"][0]["y"]).tolist() == [1.0, 2.5, 4.0]


def test_time_is_logarithmic_where_saves_span_decades():
    """And every axis of powers of ten has few enough numbers to be read."""
    page = report.page(solution_of("decades"))
    shown = data(page)
    curves = [each for each in shown["views"] if not each["frames"]]
    assert len(curves) == 4
    for each in curves:
        axis = each["layout"]["xaxis"]
        assert axis["type"] == "log"
        assert 10.0 ** np.array(axis["range"]) == pytest.approx([0.01, 1000.0])
    for each in shown["views"]:
        for axis in (each["layout"][name] for name in ("xaxis", "yaxis")):
            if axis.get("type") == "log":
                assert 2 <= len(axis["tickvals"]) <= 6
    even = view(data(page_of("circle")), "energy")["layout"]["xaxis"]
    assert even["range"] == [0.0, 1.0]
    assert "type" not in even


def test_masses_have_even_ticks():
    axis = view(data(report.page(solution_of("decades"))), "measure0")["layout"]["yaxis2"]
    assert (axis["tickmode"], axis["tick0"], axis["dtick"]) == ("linear", 0.0, 0.2)


def test_no_number_is_minus_zero():
    sol = solution_of("circle")
    ds = sol.dataset.assign(energy=-0.0 * sol.dataset.energy, dissipation=-0.0 * sol.dataset.mass)
    for name in ("energy", "dissipation"):
        ds[name].attrs = sol.dataset[name].attrs
    page = report.page(replace(sol, dataset=ds))
    outside = re.sub(r"<(script|style)[^>]*>.*?</\1>|<img[^>]*>", "", page, flags=re.DOTALL)
    assert re.findall(r".{20}(?<![\de])[-−]0(?![.\d]).{9}", outside) == []


def test_two_runs_must_be_on_one_sphere():
    with pytest.raises(ValueError, match="b must be on the sphere of a"):
        report.page(solution_of("circle"), solution_of("S^2"))


def test_every_figure_has_words_and_a_table_of_its_numbers():
    sol = solution_of("circle")
    page = report.page(sol)
    figures = re.findall("<figure>.*?</figure>", page, re.DOTALL)
    assert len(figures) == len(data(page)["views"])
    for figure in figures:
        assert re.search(r'role="img" aria-label="[^"]+ from t = 0 to 1: [^"]+"', figure)
    (energy,) = (figure for figure in figures if 'id="energy"' in figure)
    rows = re.findall("<tr>(?:<td>(.*?)</td>)(?:<td>(.*?)</td>)</tr>", energy)
    # the table has eight digits
    written = np.array(rows, float).T
    assert written == pytest.approx(np.array([sol.t, sol.dataset.energy]), rel=1e-7)


def test_the_page_opens_with_what_came_out():
    page = page_of("flow map")
    clusters = [mf.clusters(measure) for measure in solution_of("flow map").measures]
    assert solution_of("flow map").dataset.n_clusters.values.tolist() == [*map(len, clusters)]
    first, second = clusters[-1].masses
    lead = "At the end there are 2 clusters on the scale of 0.1 radian, with"
    assert f"{lead} {100 * first:.3g} % and {100 * second:.3g} % of the mass." in page
    assert "whose density is f = 1 everywhere" in page
    assert 0 < data(page)["start"] < len(data(page)["t"]) - 1
    none = "At the end there is no cluster on the scale of 0.1 radian."
    flat = mf.evolve(mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.1])), mf.SA(1.0), 0.1, 2)
    assert _outcome(flat).endswith(none)
    many = mf.evolve(tokens(3, 60), mf.SA(4.0), 0.01, 2)
    assert ", 1.67 % and … of the mass." in _outcome(many)
    half = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[1.2, 0.4]))
    part = mf.evolve(half, mf.SA(4.0), 0.1, 2)
    inside = 100 * mf.clusters(part.final).masses[0]
    assert f"with {inside:.3g} % of the mass; {100 - inside:.3g} % of it is outside." in _outcome(
        part
    )
    apart = mf.evolve(tokens(30, 10), mf.SA(4.0), 0.01, 2)
    assert _outcome(apart).endswith("no two tokens are in one cluster on the scale of 0.1 radian.")


@pytest.mark.parametrize("mean", [[0.6, 0.8, 0.0], [-0.8, 0.0, 0.6], [0.0, 0.0, -1.0]])
def test_the_sphere_is_seen_from_the_side_of_the_mass(mean):
    side = np.array([*eye(mf.Density(mf.Sphere(15), mf.VonMisesFisher(mean, 4.0))).values()]) / 1.5
    # from a pole the sphere would have no up
    assert side @ mean > (0.5 if mean[2] == -1.0 else 0.9)


@pytest.mark.slow
def test_the_page_sees_the_sphere_from_there():
    camera = data(page_of("S^2"))["views"][0]["layout"]["scene"]["camera"]
    assert np.array([camera["eye"][axis] for axis in "xyz"]) / 1.5 @ SLANTED.mean > 0.9


def test_stems_are_as_high_as_the_mass_of_their_atoms():
    cloud = mf.PointCloud(circle_points([0.5, 2.0, 4.0]), [0.5, 0.2, 0.3])
    stems = data(report.page(mf.evolve(mf.FlowMap(cloud), mf.SA(1.0), 0.01, 2)))["views"][0]
    tops = stems["frames"][0]["3"]
    assert numbers(tops["x"]) == pytest.approx([0.5, 2.0, 4.0])
    assert numbers(tops["y"]) == pytest.approx([0.5, 0.2, 0.3])
    assert stems["data"][3]["yaxis"] == "y2"
    assert stems["layout"]["yaxis2"]["range"][0] == 0.0
    assert stems["layout"]["yaxis2"]["visible"]


POLE = np.eye(5)[4]


@pytest.mark.parametrize(
    ("start", "law"),
    [
        (mf.Density(mf.Circle(64), LAW), LAW),
        (mf.Density(mf.Zonal(5, 31), mf.VonMisesFisher(POLE, 3.0)), mf.VonMisesFisher(POLE, 3.0)),
        (mf.FlowMap(mf.VonMisesFisher(POLE[2:], 3.0)), mf.VonMisesFisher(POLE[2:], 3.0)),
    ],
    ids=["circle", "axis", "axis of S^2"],
)
def test_tokens_beside_a_density_have_its_form_axes_and_scale(start, law):
    """The histogram of many tokens is the curve of the density, to the error of sampling."""
    cloud = mf.Particles.sample(law, 20_000, rng=0)
    sols = [
        mf.evolve(start, mf.SA(1.0), 0.01, 1),
        # 20,000 tokens would take a while to move
        mf.evolve(cloud, mf.FeedForward(W=np.eye(start.dim), A=np.eye(start.dim)), 0.01, 1),
    ]
    _, (curve, bars) = measure_views(sols, ["density", "tokens"], sols[0].t)
    for name in ("xaxis", "yaxis"):
        for fact in ("range", "type", "title", "tickvals", "ticktext"):
            assert curve.layout[name].get(fact) == bars.layout[name].get(fact), (name, fact)
    density, histogram = curve.frames[0][1], bars.frames[0][1]
    assert bars.data[1]["type"] == "bar"
    middles, heights = (numbers(histogram[name]) for name in "xy")
    expected = np.interp(middles, *(numbers(density[name]) for name in "xy"))
    # five standard errors of a count in the fullest bar
    mass_of_bar = heights.max() / heights.sum()
    error = 5.0 * np.sqrt(1.0 / (20_000 * mass_of_bar)) * heights.max()
    assert np.abs(heights - expected).max() < error


def test_tokens_are_where_they_are_and_as_large_as_their_weights():
    """Angles on the circle, x, y and z on S^2; diameters grow with the root of the weight."""
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    flat = mf.Particles(circle_points([0.3, 2.0, 2.02, 4.0]), weights)
    data, _, (frame,), _ = angles_view([flat], look([flat], [flat]), None)
    assert numbers(frame[2]["x"]) == pytest.approx([0.3, 2.0, 2.02, 4.0])
    diameters = numbers(data[2]["marker"]["size"])
    assert diameters**2 / diameters[-1] ** 2 == pytest.approx(weights / 0.4, rel=SINGLE)
    # the histogram has the mass of each bar, as a density with respect to σ
    heights = numbers(frame[1]["y"])
    assert heights[heights > 0.0] / len(heights) == pytest.approx([0.1, 0.5, 0.4], rel=SINGLE)
    round_ = mf.Particles(mf.Uniform(3).sample(4, np.random.default_rng(1)), weights)
    _, _, (frame,), _ = sphere_view([round_], look([round_], [round_]))
    points = frame[3]
    place = np.column_stack([numbers(points[name]) for name in "xyz"])
    # just above the sphere
    lengths = np.linalg.norm(place, axis=1)
    assert np.all((lengths > 1.0) & (lengths < 1.05))
    assert place / lengths[:, None] == pytest.approx(round_.points, abs=SINGLE)
    diameters = numbers(points["marker.size"])
    assert diameters**2 / diameters[-1] ** 2 == pytest.approx(weights / 0.4, rel=SINGLE)
    high = mf.Particles(mf.Uniform(5).sample(4, np.random.default_rng(1)), weights)
    data, *_ = tokens_view([high], look([high], [high]))
    diameters = numbers(data[1]["marker"]["size"])
    assert diameters**2 / diameters[-1] ** 2 == pytest.approx(weights / 0.4, rel=SINGLE)


CASE = """# a template's comment
[law]
type = "PointCloud"
points = {points}  # another
bandwidth = 0.05
[measure]
type = "Density"
[measure.space]
type = "Circle"
n = 64
[dynamics]
type = "SA"
beta = 1.0
[run]
t_end = 0.1
"""


def test_a_page_names_no_folder_and_has_no_comments(folder):
    np.savetxt(folder / "tokens.csv", circle_points([0.5, 2.0, 4.0]), delimiter=",", header="x,y")
    (folder / "case.toml").write_text(CASE.format(points=json.dumps(str(folder / "tokens.csv"))))
    sol = mf.Case.from_file("case.toml").run()
    page = report.page(sol)
    assert str(folder) in sol.case
    assert str(folder) not in page
    assert "tokens.csv" in page
    assert "a template&#x27;s comment" not in page
    assert "another" not in re.search("<pre>(.*?)</pre>", page, re.DOTALL)[1]


@pytest.mark.slow
def test_a_page_that_can_not_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    """As where a disk fills up; a link is replaced, and what it leads to stays."""
    sol, path, target = solution_of("circle"), tmp_path / "run.html", tmp_path / "a.txt"
    target.write_text("precious")
    path.symlink_to(target)
    real = type(path).write_text

    def full(self, text, **more):
        real(self, text[:10], **more)
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "write_text", full)
        with pytest.raises(OSError, match="No space"):
            report.save(path, sol)
    assert path.read_text() == "precious"
    report.save(path, sol)
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert target.read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 2
