"""The explorer: its cases, what it draws of them, and its page in a browser."""

import base64
import queue
import re
import signal
import socket
import sys
import tomllib
import urllib.error
import urllib.request

import numpy as np
import pytest
from bokeh.document import Document
from children import MEANFIELD, child

import meanfield as mf
from meanfield.cli import explore
from meanfield.cli.commands import main
from meanfield.cli.explore import LEAST, Scene
from meanfield.plot.frames import BLUE

TURN = (0.7, 0.35)
# of the sliders that are seen: bumps, concentration, dimension, β
BETA = 3
SHORT = {"run.t_end": 0.4, "run.save_at": 4}


START = mf.Case(explore._part("case.toml"))


def case(dim, kind="Density", **keys):
    changes = {"measure": explore.measure_table(dim, kind)}
    changes |= {"law": explore.law_table(dim, 3, 4.0)}
    return START.replace(changes | SHORT | keys)


CASES = {
    f"{kind}, d = {dim}": case(dim, kind) for dim in (2, 3, 6) for kind in ("Density", "FlowMap")
}
LATE = {"law": {"type": "FourierSeries", "cos": [0, 0, 0.3]}, "run.t_end": 30.0}


@pytest.fixture(scope="module")
def scenes():
    return {name: Scene(one.run()) for name, one in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_every_case_runs_and_has_the_columns_of_the_page(name, scenes):
    scene = scenes[name]
    assert scene.sol.status == "finished"
    assert scene.is_globe == name.endswith("3")
    tokens = CASES[name].replace({"measure": {"type": "Particles", "n": 7}}).run()
    for pictures in (
        scene.whole(tokens),
        scene.at(2, tokens, TURN),
        scene.at(2, None, TURN),
    ):
        for glyph, columns in pictures.items():
            assert list(columns) == explore.GLYPHS[glyph][2].split()
            assert len({len(column) for column in columns.values()}) == 1


def test_the_curve_around_the_ring_is_the_density(scenes):
    scene = scenes["Density, d = 2"]
    curve = scene.at(3, None, TURN)["lines"]
    assert curve["line_color"] == ["#888888", BLUE, "#888888"]
    z = curve["xs"][1] + 1j * curve["ys"][1]
    drawn = scene.high * ((abs(z) - 1.0) / 0.55) ** 2
    points = np.column_stack([z.real, z.imag]) / abs(z)[:, None]
    exact = scene.sol.measures[3].pdf(points)
    assert exact.max() > 2.0
    np.testing.assert_allclose(drawn, exact, rtol=1e-11)
    # where the axis is, and that both sides of it are the same
    about = scenes["Density, d = 6"].at(0, None, TURN)["lines"]
    assert (about["xs"][1][0], about["ys"][1][0]) == pytest.approx((0.0, 1.0), abs=1e-12)
    np.testing.assert_allclose(about["xs"][1], -about["xs"][1][::-1], atol=1e-12)
    np.testing.assert_allclose(about["ys"][1], about["ys"][1][::-1], atol=1e-12)


@pytest.mark.parametrize(("name", "allowed"), [("Density", 0.01), ("FlowMap", 0.1)])
def test_the_globe_is_the_density(name, allowed, scenes):
    """The grid of three degrees is interpolated: its error is a hundredth of the peak."""
    scene = scenes[f"{name}, d = 3"]
    exact = scenes["Density, d = 3"].sol.measures[2]
    north = mf.evolve(mf.Particles([[0.0, 0.0, 1.0]]), mf.SA(1.0), 0.4, 4)
    pictures = scene.at(2, north, (0.7, 0.2))
    globe = pictures["globe"]["image"][0]
    front = [np.cos(0.2) * np.cos(0.7), np.cos(0.2) * np.sin(0.7), np.sin(0.2)]
    assert globe[139:141, 139:141].mean() == pytest.approx(exact.pdf([front])[0], rel=allowed)
    assert np.isnan(globe[0, 0])
    above = scene.at(2, north, (0.7, np.pi / 2))["globe"]["image"][0]
    pole = max(LEAST, exact.pdf([[0.0, 0.0, 1.0]])[0])
    assert above[139:141, 139:141].mean() == pytest.approx(pole, rel=allowed)
    # the north pole is above the middle
    assert pictures["tokens"]["x"] == pytest.approx([0.0], abs=1e-12)
    assert pictures["tokens"]["y"] == pytest.approx([1.5 * np.cos(0.2)])


def test_no_atom_is_missed():
    late = case(2, "FlowMap", **LATE, **{"dynamics.beta": 5.0}).run()
    assert len(late.final.atoms) == 3
    pictures = Scene(late).at(4, None, TURN)
    atoms = pictures["atoms"]
    angles = np.sort((np.arctan2(atoms["y"], atoms["x"]) + 1.0) % (2.0 * np.pi)) - 1.0
    np.testing.assert_allclose(angles, 2.0 * np.pi / 3.0 * np.arange(3), atol=1e-6)
    np.testing.assert_allclose(np.hypot(atoms["x"], atoms["y"]), 1.55, rtol=1e-12)
    np.testing.assert_allclose(atoms["size"], 20.0 / np.sqrt(3.0), rtol=1e-6)
    assert len(pictures["lines"]["xs"]) == 6


def test_what_can_not_be_drawn_is_refused():
    tokens = mf.evolve(mf.Particles(np.eye(5)), mf.SA(1.0), 0.1, 1)
    with pytest.raises(ValueError, match="measure must be on the circle, S"):
        Scene(tokens)


@pytest.fixture
def page(monkeypatch):
    """An explorer without a browser, and what its thread has done."""
    done = queue.Queue()
    monkeypatch.setattr(
        explore.Explorer, "_later", lambda self, do, *given: done.put((do.__name__, *given))
    )
    pages = []

    def make(one):
        pages.append(explore.Explorer(Document(), one))
        return pages[-1]

    make.done = done
    yield make
    for one in pages:
        one.asked.put(None)
        # what it does later would be another test's
        one.thread.join(60)
        assert not one.thread.is_alive()


def taken(page):
    """The next run of the thread that is whole: shown by itself, with tokens, and with clusters."""
    seen = []
    while len(seen) < 3:
        what, *given = page.done.get(timeout=600)
        assert "bad" not in given, given
        if what == "_take":
            seen = [*(one for one in seen if one is given[0]), given[0]]
    return given


def test_no_more_bumps_than_there_are_places(page, monkeypatch):
    """About an axis there are two, the poles; nothing is run."""
    monkeypatch.setattr(explore.Explorer, "_work", lambda _: None)
    explorer = page(None)
    bumps, dim = explorer.controls["law.bumps"], explorer.controls["measure.dim"]
    bumps.value = 6
    assert len(tomllib.loads(explorer.case.to_toml())["law"]["laws"]) == 6
    dim.value = 5
    assert (bumps.value, bumps.end) == (2, 2)
    assert len(tomllib.loads(explorer.case.to_toml())["law"]["laws"]) == 2
    dim.value = 3
    assert (bumps.value, bumps.end) == (2, 8)


def test_a_move_changes_the_case_and_its_run(page):
    explorer = page(case(2))
    first, _ = taken(page)
    explorer.controls["dynamics.beta"].value = 7.0
    second, tokens = taken(page)
    assert first.sol.dynamics == mf.SA(4.0)
    assert second.sol.dynamics == mf.SA(7.0)
    expected = mf.Case(explorer.case.to_toml()).run()
    for name in "energy", "energy_share", "mass":
        np.testing.assert_array_equal(second.sol.dataset[name], expected.dataset[name])
    found = [mf.clusters(measure).masses for measure in expected.measures]
    for one, other in zip(second.masses, found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(tokens.final) == 100
    # what is drawn of it
    explorer._take(second, tokens)
    explorer.time.value = 3
    np.testing.assert_array_equal(
        explorer.sources["energies"].data["ys"][0], expected.dataset.energy_share
    )
    assert f"<dd>{expected.dataset.energy_share.values[3]:.6f}</dd>" in explorer.numbers.text
    explorer._turn(type("Drag", (), {"delta_x": 20.0, "delta_y": 0.0}))
    assert explorer.turn == (0.6, 0.35)
    explorer._save(explorer.buttons[1])
    name, data, _ = explorer.buttons[1].tags
    assert (name, base64.b64decode(data)[:4]) == ("figure.pdf", b"%PDF")


def test_a_move_ends_what_takes_long(page, monkeypatch):
    """A flow map on S² to a Dirac takes minutes; it is dropped within one step."""
    monkeypatch.setattr(explore, "_GRACE", 0.0)
    explorer = page(case(3, "FlowMap", **{"run.t_end": 200.0}))
    assert page.done.get(timeout=600)[0] == "_say"
    explorer.controls["law.bumps"].value = 2
    explorer.controls["measure.dim"].value = 2
    explorer.controls["run.t_end"].value = 0.4
    scene, _ = taken(page)
    assert (scene.sol.final.dim, scene.sol.t[-1]) == (2, 0.4)


def test_a_case_of_its_own_and_its_kernel(page, tmp_path):
    own = mf.Interaction([1.0, 0.5, 0.25], noise=0.01)
    text = case(2).replace({"dynamics": {"type": "Interaction", "kernel": [1.0, 0.5, 0.25]}})
    path = tmp_path / "own.toml"
    path.write_text("# mine\n" + text.replace({"dynamics.noise": 0.01}).to_toml())
    explorer = page(mf.Case.from_file(path))
    assert explorer.controls["law.bumps"].value == 0
    assert not explorer.controls["law.kappa"].visible
    assert explorer.controls["dynamics.kernel"].value == "1.0, 0.5, 0.25"
    assert not explorer.controls["dynamics.beta"].visible
    # untouched it is the file itself
    explorer._save(explorer.buttons[0])
    assert base64.b64decode(explorer.buttons[0].tags[1]) == path.read_bytes()
    assert taken(page)[0].sol.dynamics == own
    explorer.controls["dynamics.kernel"].value = "1, 2"
    assert taken(page)[0].sol.dynamics == mf.Interaction([1.0, 2.0], noise=0.01)
    explorer.controls["dynamics.kernel"].value = "1, two"
    assert "dynamics.kernel must be" in explorer.said.text
    assert explorer.said.css_classes == ["bad"]
    explorer.controls["dynamics.kernel"].value = "1, 2"
    explorer.controls["law.bumps"].value = 2
    assert len(explorer.case._tables.law.laws) == 2
    explorer.controls["law.bumps"].value = 0
    assert explorer.case._tables.law == mf.Case.from_file(path)._tables.law


def test_progress_may_be_a_function():
    times = []
    measure = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    sol = mf.evolve(measure, mf.SA(1.0), 1.0, 2, progress=times.append)
    assert len(times) == sol.dataset.steps[-1]
    assert times == sorted(times)
    assert times[-1] == 1.0

    def stop(t):
        raise LookupError(t)

    with pytest.raises(LookupError):
        mf.evolve(measure, mf.SA(1.0), 1.0, 2, progress=stop)
    with pytest.raises(ValueError, match="progress must be True, False, 'lines' or a function"):
        mf.evolve(measure, mf.SA(1.0), 1.0, 2, progress=2)


def test_without_bokeh_the_command_says_what_to_install(monkeypatch, capsys):
    for name in [one for one in sys.modules if one.startswith("meanfield.cli.explore")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("meanfield.cli.explore", raising=False)
    monkeypatch.setitem(sys.modules, "bokeh", None)
    assert main(["explore"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "pip install 'meanfield-attention[explore]'" in err


# Tornado leaves the socket that it could not bind to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_port_that_is_taken(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["explore", "--no-browser", "--port", str(port)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"--port must be free, got {port}" in err


@pytest.fixture(scope="module")
def address():
    """The address of a page that is served by the command."""
    command = [*MEANFIELD, "explore", "--no-browser"]
    with child(command, stdout=-1, stderr=-1, text=True) as process:
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_bad_token_is_refused(address):
    assert re.match(r"http://localhost:\d+/\?bokeh-session-id=\w{20,}\.[\w-]{20,}$", address)
    place, _, token = address.partition("=")
    changed = ("A" if token[0] != "A" else "B") + token[1:]
    for bad in (place.partition("?")[0], f"{place}=", f"{place}={changed}", f"{place}=x.y"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(bad)
        assert caught.value.code == 403
        caught.value.close()
    with urllib.request.urlopen(address) as page:
        text = page.read().decode()
    # nothing comes from elsewhere
    assert not re.search(r'(src|href)="https?://(?!localhost)', text)


# whether a number is on the page
SHOWN = "one => Bokeh.documents[0].get_model_by_name('numbers').text.includes(`<dd>${one}<`)"


def test_the_page_in_a_browser(address, browser, tmp_path):
    with browser.open(address, ready="#state canvas") as view:
        numbers = view.tab.locator("#numbers dd")
        view.tab.wait_for_function(
            "() => Bokeh.documents[0].get_model_by_name('energy').renderers"
            "[0].data_source.data.ys?.length > 0"
        )
        numbers.nth(3).wait_for()
        before, picture = numbers.nth(1).inner_text(), view.tab.locator("#state").screenshot()
        handle = view.tab.locator("#controls .noUi-handle:visible").nth(BETA)
        box = handle.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        view.tab.mouse.move(x, y)
        view.tab.mouse.down()
        view.tab.mouse.move(x + 40, y, steps=8)
        # the picture moves while the slider is held
        view.tab.wait_for_function(
            f"one => !({SHOWN})(one)",
            arg=before,
        )
        view.tab.mouse.up()
        with view.tab.expect_download() as saved:
            view.tab.get_by_text("save as case").click()
        one = mf.Case.from_file(saved.value.path())
        assert one._tables.dynamics.beta > 4.5
        expected = one.run()
        share = expected.dataset.energy_share.values
        view.tab.wait_for_function(
            SHOWN,
            arg=f"{share[20]:.6f}",
        )
        numbers.nth(3).wait_for()
        found = mf.clusters(expected.measures[20])
        assert numbers.nth(2).inner_text() == str(len(found))
        assert numbers.nth(3).inner_text() == " ".join(f"{mass:.3f}" for mass in found.masses)
        drawn = view.tab.evaluate(
            "() => [...Bokeh.documents[0].get_model_by_name('energy').renderers"
            "[0].data_source.data.ys[0]]"
        )
        np.testing.assert_array_equal(drawn, share)
        assert view.tab.locator("#state").screenshot() != picture
        with view.tab.expect_download() as saved:
            view.tab.get_by_text("save as figure").click()
        assert saved.value.path().read_bytes().startswith(b"%PDF")
        assert (view.errors, view.overflows(), view.blanks()) == ([], [], [])


@pytest.mark.parametrize("options", [{"width": 390}, {"dark": True}, {"width": 390, "dark": True}])
def test_the_page_on_a_phone_and_in_the_dark(options, address, browser):
    with browser.open(address, ready="#state canvas", **options) as view:
        view.tab.locator("#numbers dd").nth(3).wait_for()
        assert (view.errors, view.overflows(), view.blanks()) == ([], [], [])
