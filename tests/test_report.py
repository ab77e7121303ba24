"""The page of a run: whole, small, safe, and alive in a browser."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from children import LAST_RESORT, child
from handmade import tokens, unfinished

import meanfield as mf
from meanfield.cli import report
from meanfield.cli.commands import main
from meanfield.cli.report.document import checks
from meanfield.cli.text import table

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
SLANTED = mf.VonMisesFisher([0.0, 0.6, 0.8], 3.0)


START = mf.Density(mf.Circle(32), LAW)
SMALL = mf.Density(mf.Circle(32), LAW, max_size=64)
OUTGROWN = {"t_end": 6.0}
RUNS = {
    "circle": (mf.Density(mf.Circle(64), LAW), mf.SA(4.0), {"t_end": 1.0}),
    "S^2": (mf.Density(mf.Sphere(15), SLANTED), mf.USA(1.0), {"t_end": 0.3}),
    "zonal with noise": (
        mf.Density(mf.Zonal(8, 31), mf.ZonalSeries(8, [0.5])),
        mf.USA(2.0, noise=0.01),
        {"t_end": 0.5},
    ),
    "flow map": (mf.FlowMap(LAW), mf.SA(4.0), {"t_end": 15.0}),
    "flow map on S^2": (
        mf.FlowMap(mf.Mixture([SLANTED, mf.Uniform(3)]), tol=1e-5),
        mf.Attention(1.0, [mf.Head(V=np.diag([1.0, -1.0, 0.5]))]),
        {"t_end": 0.3},
    ),
    "hand-over": (SMALL, mf.SA(4.0), OUTGROWN | {"on_unresolved": "flow-map"}),
    "under-resolved": (SMALL, mf.SA(4.0), OUTGROWN | {"on_unresolved": "stop"}),
    "tokens on S^2": (tokens(3, 60), mf.SA(4.0), {"t_end": 1.0}),
    "Kuramoto": (mf.Density(mf.Circle(64), LAW), mf.Kuramoto(2.0, noise=0.1), {"t_end": 0.5}),
    "tokens in d = 8": (tokens(8, 30), mf.DoublyStochastic(2.0), {"t_end": 1.0}),
}


@pytest.fixture(scope="module")
def solutions():
    return {
        name: (partial(unfinished, mf.evolve) if name == "under-resolved" else mf.evolve)(
            start, dynamics, save_at=5, **asked
        )
        for name, (start, dynamics, asked) in RUNS.items()
    }


def data(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


@pytest.mark.parametrize("name", RUNS)
def test_page_of_every_kind_of_run(name, solutions):
    sol = solutions[name]
    page = report.page(sol)
    assert 4e6 < len(page) < 1e7
    # nothing is fetched
    outside = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\b(src|href)\s*=\s*[\x27\"]?\s*(https?:|//)", outside)
    assert not re.search(r"<script[^>]*\bsrc", page)
    given = data(page)
    np.testing.assert_array_equal(given["t"], sol.t)
    measure = next(view for view in given["views"] if view["name"] == "measure")
    assert len(measure["frames"]) == len(sol.t)
    assert len(given["views"]) >= 3
    assert str(sol.message).split(";")[0][:40] in page


@pytest.mark.parametrize("name", RUNS)
def test_checks_hold_where_the_run_is_good(name, solutions):
    found = checks(solutions[name])
    failed = [check.name for check in found if not check.passed]
    expected = ["status"] if name == "under-resolved" else []
    assert [each for each in failed if not each.startswith("resolution")] == expected


def test_distances_say_what_they_are_to():
    monitors = {"w2_far": mf.DistanceTo("uniform", p=2), "w_own": lambda mu: mu.mass()}
    page = report.page(mf.evolve(RUNS["circle"][0], mf.SA(4.0), 0.5, 2, monitors=monitors))
    (view,) = (v for v in data(page)["views"] if v["name"] == "distances")
    # bounds that are equal are not drawn
    assert [trace["name"] for trace in view["data"]] == ["W<sub>2</sub> to σ", "w_own"]


def test_a_check_can_fail(solutions):
    ds = solutions["circle"].dataset
    wrong = ds.assign(balance_error=ds.balance_error + 1e-6, mass=ds.mass + 1e-6, energy=-ds.energy)
    bad = replace(solutions["circle"], dataset=wrong)
    failed = [check.name for check in checks(bad) if not check.passed]
    assert len(failed) == 4


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
    assert sum(name.startswith("balance |") for name in found) == 1
    assert f"{symbol} between its bounds" in found
    way = "rises" if dynamics._energy.sign > 0 else "falls"
    assert f"{symbol} {way}: largest step back" in found


def test_a_run_without_an_energy_is_checked_for_the_rest():
    turned = mf.Attention(1.0, [mf.Head(V=[[0.0, -1.0], [1.0, 0.0]])])
    sol = mf.evolve(mf.Density(mf.Circle(64), LAW), turned, 0.5, 4)
    assert [check.name for check in checks(sol)] == [
        *("status", "mass |1 − ∫ dμ|", "resolution: tail")
    ]
    assert "metric speed" in report.page(sol)
    assert "dissipation" not in table(sol)
    assert table(sol).split()[:3] == ["t", "metric_speed", "1-mass"]


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


def test_a_case_can_not_write_into_the_page(solutions):
    texts = {"message": "</script><script>alert(1)</script>"}
    texts["_case"] = "</pre><img src=x onerror=alert(1)>"
    page = report.page(replace(solutions["circle"], **texts))
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page


def test_bad_input(tmp_path, solutions):
    with pytest.raises(ValueError, match="solution must be a Solution, got 3"):
        report.page(3)
    with pytest.raises(ValueError, match=r"path must end in \.html"):
        report.save(solutions["circle"], tmp_path / "a.pdf")


def test_without_plotly_the_extra_is_named(monkeypatch, solutions):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ValueError, match="report"):
        report.page(solutions["circle"])


@pytest.mark.usefixtures("folder")
def test_command(capsys, solutions):
    solutions["circle"].save("run.nc")
    assert main(["report", "run.nc"]) == 0
    assert capsys.readouterr().out == "wrote run.html\n"


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
LISTEN = """<script>
window.faults = [];
window.addEventListener("error", (event) => window.faults.push(String(event.message)));
console.error = (...words) => window.faults.push(words.join(" "));
</script>"""
TRY = """<script>
window.addEventListener("load", () => setTimeout(() => {
  const slider = document.getElementById("time");
  const first = document.getElementById("now").textContent;
  slider.value = slider.max;
  slider.dispatchEvent(new Event("input"));
  setTimeout(() => {
    const told = {first, last: document.getElementById("now").textContent, faults: window.faults,
      drawn: document.querySelectorAll(".js-plotly-plot").length};
    const note = document.createElement("div");
    note.id = "told";
    note.textContent = JSON.stringify(told);
    document.body.append(note);
  }, 1500);
}, 500));
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
@pytest.mark.parametrize("name", ["circle", "flow map", "tokens in d = 8", "S^2"])
def test_in_a_browser_the_slider_moves_and_nothing_complains(name, tmp_path, solutions):
    sol = solutions[name]
    page = report.page(sol)
    page = page.replace("<head>", "<head>" + LISTEN, 1).replace("</body>", TRY + "</body>", 1)
    assert LISTEN in page
    assert TRY in page
    path = tmp_path / "run.html"
    path.write_text(page, encoding="utf-8")
    options = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *("--enable-unsafe-swiftshader", f"--user-data-dir={tmp_path / 'profile'}"),
        *("--virtual-time-budget=20000", "--dump-dom"),
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with child([BROWSER, *options, path.as_uri()], **pipes) as browser:
        found, said = browser.communicate(timeout=LAST_RESORT)
    assert browser.returncode == 0, said
    told = json.loads(re.search(r'<div id="told">(.*?)</div>', found)[1])
    assert told["faults"] == []
    assert told["drawn"] == len(data(page)["views"])
    assert told["first"] == "t = 0.0000"
    assert float(told["last"].removeprefix("t = ")) == pytest.approx(sol.t[-1], rel=1e-4)


def test_a_page_that_can_not_be_written_leaves_the_old_one(solutions, tmp_path, monkeypatch):
    """As where a disk fills up; a link is replaced, and what it leads to stays."""
    sol, path, target = next(iter(solutions.values())), tmp_path / "run.html", tmp_path / "a.txt"
    target.write_text("precious")
    path.symlink_to(target)
    real = type(path).write_text

    def full(self, text, **more):
        real(self, text[:10], **more)
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "write_text", full)
        with pytest.raises(OSError, match="No space"):
            report.save(sol, path)
    assert path.read_text() == "precious"
    report.save(sol, path)
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert target.read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 2
