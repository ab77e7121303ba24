"""The explorer: its cases, what its page shows of them, and the page in a browser."""

import json
import re
import signal
import socket
import struct
import sys
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import meanfield as mf
from meanfield.cli import explore
from meanfield.cli.commands import main
from meanfield.cli.explore import Explorer
from tests.cli.pages import SINGLE, numbers, view

SHORT = {"run.t_end": 0.4, "run.save_at": 4}
START = Explorer().base


def case(dim, kind="Density", **keys):
    changes = {"measure": explore.measure_table(dim, kind)}
    changes |= {"law": explore.law_table(dim, 3, 4.0)}
    return START.replace(changes | SHORT | keys)


CASES = {
    f"{kind}, d = {dim}": case(dim, kind) for dim in (2, 3, 6) for kind in ("Density", "FlowMap")
}


def told(explorer, **changed):
    """What the page is told of a run where these controls are moved."""
    lines = []
    explorer.run({key.replace("_", ".", 1): one for key, one in changed.items()}, lines.append, int)
    assert all("t = " in one["said"] for one in lines[1:-1])
    assert [one.get("done", False) for one in lines] == [False] * (len(lines) - 1) + [True]
    json.dumps(lines, allow_nan=False)
    return lines[0], lines[-1]


SLOW = {"FlowMap, d = 3", "Density, d = 3"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES]
)
def test_a_page_shows_what_the_run_has(name):
    expected = CASES[name].run()
    about, shown = told(Explorer(CASES[name]), run_n=7)
    assert mf.Case(about["toml"]) == CASES[name]
    assert (shown["said"], shown["bad"]) == (expected.message, False)
    np.testing.assert_array_equal(shown["t"], expected.t)
    shares = expected.dataset.energy_share.values
    energy = view(shown, "energy")["data"]
    assert [one["name"] for one in energy] == ["measure", "7 tokens"]
    np.testing.assert_array_equal(numbers(energy[0]["y"]), shares)
    tokens = CASES[name].replace({"measure": {"type": "Particles", "n": 7}}).run()
    np.testing.assert_array_equal(numbers(energy[1]["y"]), tokens.dataset.energy_share)
    found = [mf.clusters(measure).masses for measure in expected.measures]
    dots = view(shown, "clusters")["data"][0]
    np.testing.assert_array_equal(numbers(dots["x"]), np.repeat(expected.t, [*map(len, found)]))
    np.testing.assert_array_equal(numbers(dots["y"]), np.float32(np.concatenate(found)))
    told_of = [re.findall("<dd>(.*?)</dd>", one) for one in shown["numbers"]]
    listed = [" ".join(f"{mass:.3f}" for mass in some) for some in found]
    counts = [str(len(some)) for some in found]
    assert told_of == [
        list(one) for one in zip([f"{x:.6f}" for x in shares], counts, listed, strict=True)
    ]
    measure = view(shown, "measure0")
    assert len(measure["frames"]) == 5
    for frame, some in zip(measure["frames"], tokens.measures, strict=True):
        drawn = frame[len(measure["data"]) - 1]
        if "scene" in measure["layout"]:
            at = np.stack([numbers(drawn[name]) for name in "xyz"], axis=1)
            np.testing.assert_allclose(at, 1.012 * some.points, atol=SINGLE)
        elif some.dim == 2:
            angles = np.arctan2(*some.points.T[::-1]) % (2.0 * np.pi)
            np.testing.assert_allclose(numbers(drawn["x"]), angles, atol=SINGLE)
        else:
            heights = some.points @ expected.measures[0].axis
            np.testing.assert_allclose(np.cos(numbers(drawn["x"])), heights, atol=SINGLE)


def test_a_run_without_tokens_or_of_tokens_has_one_figure_of_them():
    for one, n in ((case(2), 0), (case(2, measure={"type": "Particles", "n": 9}), 30)):
        names = [each["name"] for each in told(Explorer(one), run_n=n)[1]["views"]]
        assert names == ["measure0", "energy", "clusters"]


def test_no_more_bumps_than_there_are_places():
    """About an axis there are two, the poles."""
    for dim, most in ((2, 8), (3, 8), (5, 2)):
        moved, about = Explorer().moved({"law.bumps": 6, "measure.dim": dim})
        assert about["bumps"] == most
        assert len(moved.tables.law.laws) == min(6, most)


@pytest.mark.slow
def test_a_move_changes_the_case_and_its_run():
    explorer = Explorer(case(2))
    about, shown = told(explorer, dynamics_beta=7.0)
    changed = mf.Case(about["toml"])
    assert changed == case(2).replace({"dynamics.beta": 7.0})
    found = numbers(view(shown, "energy")["data"][0]["y"])
    np.testing.assert_array_equal(found, changed.run().dataset.energy_share)
    # the figure of a run that was shown is that of another only if it is asked for
    moved = {"dynamics.beta": 7.0}
    assert explorer.figure(moved, int).startswith(b"%PDF")
    assert explorer._last[0] == changed
    assert explorer.figure({"dynamics.beta": 2.0}, int).startswith(b"%PDF")
    assert explorer._last[0] == changed


def test_a_case_of_its_own_and_its_kernel(tmp_path):
    text = case(2).replace({"dynamics": {"type": "Interaction", "kernel": [1.0, 0.5, 0.25]}})
    path = tmp_path / "own.toml"
    path.write_text("# mine\n" + text.replace({"dynamics.noise": 0.01}).to_toml())
    explorer = Explorer(mf.Case.from_file(path))
    assert (explorer.start["law.bumps"], explorer.start["dynamics.kernel"]) == (0, "1.0, 0.5, 0.25")
    # untouched it is the file itself
    own, about = explorer.moved({})
    assert about["toml"] == path.read_text()
    assert own.build()[1] == mf.Interaction([1.0, 0.5, 0.25], noise=0.01)
    assert {*explore.CONTROLS} - {*about["used"]} == {
        *("law.kappa", "dynamics.beta", "dynamics.betas")
    }
    typed, _ = explorer.moved({"dynamics.kernel": "1, 2"})
    assert typed.build()[1] == mf.Interaction([1.0, 2.0], noise=0.01)
    assert typed.tables.law == own.tables.law
    lines = []
    explorer.run({"dynamics.kernel": "1, two"}, lines.append, int)
    assert lines[0]["bad"]
    assert "dynamics.kernel must be" in lines[0]["said"]
    both, _ = explorer.moved({"dynamics.kernel": "1, 2", "law.bumps": 2})
    assert len(both.tables.law.laws) == 2


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


def test_without_plotly_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    assert main(["explore"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "pip install 'meanfield-attention[report]'" in err


def test_a_port_that_is_taken(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["explore", "--no-browser", "--port", str(port)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"--port must be free, got {port}" in err


def asked(address, path, changed):
    data = json.dumps(changed).encode()
    return urllib.request.urlopen(address.replace("/?", f"/{path}?"), data)


@pytest.mark.slow
def test_a_bad_token_is_refused(explorer):
    address = explorer.address
    assert re.match(r"http://127.0.0.1:\d+/\?token=[\w-]{40,}$", address)
    place, _, token = address.partition("=")
    changed = ("A" if token[0] != "A" else "B") + token[1:]
    for bad in (place.partition("?")[0], f"{place}=", f"{place}={changed}", f"{place}=é"):
        for ask in (urllib.request.urlopen, lambda one: asked(one, "run", {})):
            with pytest.raises(urllib.error.HTTPError) as caught:
                ask(bad.replace("é", "%C3%A9"))
            assert caught.value.code in (403, 404 if "?" not in bad else 403)
            caught.value.close()
    with urllib.request.urlopen(address) as page:
        text = page.read().decode()
    # nothing comes from elsewhere
    outside = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r'(src|href)="(?!data:)', outside)


LONG = {"measure.dim": 3, "measure.type": "FlowMap", "run.t_end": 200.0}


def begun(answer):
    """Read an answer until the run itself has made a step after its preview."""
    assert any("refined now: t = " in json.loads(line).get("said", "") for line in answer)


@pytest.mark.slow
def test_a_page_that_moves_on_ends_its_run(explorer):
    """A flow map on S² to a Dirac takes minutes; it is dropped within one step."""
    with asked(explorer.address, "run", LONG) as answer:
        assert "FlowMap" in json.loads(answer.readline())["toml"]
        begun(answer)
    # runs are made one after the other
    with asked(explorer.address, "run", {"run.t_end": 0.4}) as answer:
        *_, last = map(json.loads, answer)
    assert last["t"][-1] == 0.4


def connected(address):
    place = urllib.parse.urlsplit(address)
    return socket.create_connection((place.hostname, place.port), 60.0)


def raw(address, content):
    """The first line of an answer to these bytes, "" where the connection is closed without one."""
    with connected(address) as connection:
        # an answer may be there, and the connection closed, before all is sent
        with suppress(OSError):
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            return connection.makefile("rb").readline().decode("latin-1")
        return ""


def post(address, content, length=None):
    length = len(content) if length is None else length
    query = address.partition("/?")[2]
    head = f"POST /run?{query} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n"
    return raw(address, head.encode() + content)


MALFORMED = {
    "no JSON": (b"{", None),
    "nothing": (b"", None),
    "a deep list": (b"[" * 10_000, None),
    "a negative length": (b"{}", -1),
    "no length": (b"{}", "many"),
    "a huge length": (b"{}", 10**12),
    "no UTF-8": (b"\xff\xfe\xfd\xfc\xfb", None),
}


@pytest.mark.slow
def test_requests_that_are_none_leave_no_trace_on_the_terminal(explorer):
    """With the token and without it."""
    address = explorer.address
    place, stranger = address.partition("?")[0], address[:-5]
    for what, (content, length) in MALFORMED.items():
        assert " 400 " in post(address, content, length), what
        refused = post(stranger, content, length)
        assert not refused or " 403 " in refused, what
    for line in (b"GET //[?token=x HTTP/1.1", b"\x16\x03\x01\x00", b"GET", b"PUT / HTTP/1.1"):
        assert "200" not in raw(place, line + b"\r\n\r\n")
    for where in (address, stranger):
        for content in (b"", b"P", b"GET / HTTP/1.1\r\nHost:"):
            raw(where, content)
        for path, method in (("/", "GET"), ("/run", "POST"), ("/figure", "POST")):
            target = f"{path}?{where.partition('?')[2]}"
            request = f"{method} {target} HTTP/1.1\r\nContent-Length: 2\r\n\r\n" + "{}"
            # what is not waited for
            with connected(where) as connection:
                abort = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, abort)
                connection.sendall(request.encode())
    # it still answers
    with asked(address, "run", {"run.t_end": 0.2}) as answer:
        *_, last = map(json.loads, answer)
    assert last["t"][-1] == 0.2
    assert explorer.errors.read_text() == ""


@pytest.mark.parametrize(
    ("changed", "told_so"),
    [
        ({"run.n": 10**9}, "run.n must be an integer >= 0 and <= 500, got 1000000000"),
        ({"run.n": -1}, "run.n must be"),
        ({"run.n": "9"}, "run.n must be"),
        ({"run.n": 2.5}, "run.n must be"),
        ({"measure.dim": 10**9}, "measure.dim must be an integer >= 2 and <= 16"),
        ({"law.bumps": "3"}, "law.bumps must be an integer >= 0 and <= 8"),
        ({"law.kappa": "3"}, "kappa"),
        ({"law.kappa": None}, "kappa"),
        ({"dynamics.type": "Kuramoto"}, "dynamics.type must be"),
        ({"dynamics.type": ["SA"]}, "dynamics.type must be"),
        ({"measure.type": {}}, "measure.type must be"),
        ({"dynamics.type": "Interaction", "dynamics.kernel": "x"}, "kernel"),
        ({"dynamics.beta": []}, "beta"),
        ({"run.t_end": {}}, "t_end"),
        ({"output.file": "there.nc"}, "controls must be law.bumps"),
        ({3: 4}, "controls must be"),
        ([], "controls must be"),
        ("law.bumps", "controls must be"),
        (None, "controls must be"),
    ],
)
def test_controls_that_no_page_has_are_refused(changed, told_so):
    explorer, lines = Explorer(), []
    explorer.run(changed, lines.append, int)
    assert lines[-1]["bad"]
    assert told_so in lines[-1]["said"]
    with pytest.raises(ValueError, match=re.escape(told_so)):
        explorer.figure(changed, int)


def test_a_case_of_tokens_moves_to_another_dimension():
    for n in (9, 700):
        explorer = Explorer(case(2, measure={"type": "Particles", "n": n}))
        for dim in (2, 3, 6):
            about, shown = told(explorer, measure_dim=dim, law_bumps=2)
            moved = mf.Case(about["toml"])
            assert not shown["bad"], shown
            start = moved.build()[0]
            assert start.points.shape == (n, dim)
    # a law of another dimension would stay where it is
    with pytest.raises(ValueError, match=r"law.bumps must be >= 1 in d = 3, .* of d = 2, got 0"):
        explorer.moved({"measure.dim": 3})


def test_a_cloud_of_tokens_moves_to_another_dimension(tmp_path):
    cloud = {"type": "PointCloud", "points": [[1.0, 0.0], [0.0, 1.0]]}
    own = START.replace({"law": cloud, "measure": {"type": "Particles"}} | SHORT)
    explorer = Explorer(own)
    assert len(explorer.moved({"dynamics.beta": 1.0})[0].build()[0].points) == 2
    _, shown = told(explorer, measure_dim=3, law_bumps=2)
    assert not shown["bad"], shown
    # bumps need a number of tokens
    assert explorer.moved({"law.bumps": 2})[0].build()[0].points.shape == (100, 2)


def test_the_token_is_not_in_the_command_line_of_the_browser(monkeypatch, capsys):
    """Other users of the machine see it, and not a file of this one."""
    seen = []

    def opened(address):
        seen.append(address)
        page = Path(urllib.request.url2pathname(urllib.parse.urlsplit(address).path))
        assert f'url={where}"' in page.read_text()
        assert page.stat().st_mode & 0o077 == 0
        assert page.parent.stat().st_mode & 0o077 == 0
        seen.append(page)

    where = "http://127.0.0.1:9/?token=SECRET"
    monkeypatch.setattr("webbrowser.open", opened)
    monkeypatch.setattr(explore, "serve", lambda case, port, ready: ready(where))
    assert main(["explore"]) == 0
    address, page = seen
    assert address.startswith("file:///")
    assert "SECRET" not in address
    assert where in capsys.readouterr().out
    # it is gone with the explorer
    assert not page.parent.exists()


def schedule(*values):
    return {"type": "Schedule", "times": [0.0, 1.0], "values": list(values)}


MANY_BETAS = {
    "a schedule": {"type": "SA", "beta": schedule(1.0, 2.0)},
    "a sum": {"type": "Sum", "terms": [{"type": "SA", "beta": 4.0}, {"type": "USA", "beta": 1.0}]},
    "layers": {
        "type": "Layers",
        "step": 0.2,
        "layers": [{"type": "SA", "beta": 2.0}, {"type": "USA", "beta": 1.0}],
    },
}
HALVED = {
    "a schedule": mf.SA(mf.Schedule([0.0, 1.0], [0.5, 1.0])),
    "a sum": mf.SA(2.0) + mf.USA(0.5),
    "layers": mf.Layers([mf.SA(1.0), mf.USA(0.5)], step=0.2),
}


@pytest.mark.parametrize("name", MANY_BETAS)
def test_one_slider_multiplies_every_beta(name):
    """A slider of β has one number, and a schedule or terms have many."""
    own = case(2, dynamics=MANY_BETAS[name])
    explorer = Explorer(own)
    assert explorer.start["dynamics.betas"] == 1
    about, shown = told(explorer, run_n=3)
    assert not shown["bad"], shown
    # there is a number of an energy only where there is one
    assert not any("nan" in one for one in shown["numbers"])
    assert "dynamics.betas" in about["used"]
    assert "dynamics.beta" not in about["used"]
    assert mf.Case(about["toml"]).build()[1] == own.build()[1]
    assert explorer.moved({"dynamics.betas": 0.5})[0].build()[1] == HALVED[name]
    # another dynamics has a β of its own
    other, used = explorer.moved({"dynamics.type": "USA", "dynamics.betas": 0.5})
    assert other.build()[1] == mf.USA(4.0)
    assert "dynamics.betas" not in used["used"]
    with pytest.raises(ValueError, match=r"dynamics\.betas must be .* >= 0, got -1"):
        explorer.moved({"dynamics.betas": -1})


def test_a_slider_of_beta_needs_no_factor():
    for own in (None, case(2, dynamics={"type": "Kuramoto", "coupling": 2.0})):
        assert "dynamics.betas" not in Explorer(own).moved({})[1]["used"]


@pytest.mark.parametrize("key", ["dynamics.beta", "law.kappa", "run.t_end", "law.bumps"])
def test_a_slider_that_comes_back_leaves_the_case(key):
    explorer = Explorer()
    assert explorer.moved({key: explorer.start[key]})[0] == explorer.moved({})[0]
    # and other sliders leave the law alone
    assert explorer.moved({"dynamics.noise": 0.1})[0].tables.law == START.tables.law
    away, back = {"measure.dim": 3}, {"measure.dim": 2, key: explorer.start[key]}
    assert explorer.moved(away)[0] != explorer.moved(back)[0] == START


@pytest.mark.slow
def test_a_preview_on_the_sphere_counts_its_work():
    """From the page's own start: each of the saves needs a step or two, of 12 evaluations."""
    explorer = Explorer()
    moved, nodes = (
        explorer.moved({"measure.dim": 3, "measure.type": kind})[0]
        for kind in ("Density", "FlowMap")
    )
    preview = explore.preview_of(moved)
    assert preview == explore.preview_of(nodes)
    sol = preview.solve(monitors=None)
    assert sol.success
    assert sol.dataset.evaluations[-1] <= 15 * len(sol.t)
    # nothing on the way costs more than the transforms of that degree
    assert max(measure.space.lmax for measure in sol.measures) <= 127
    # its steps have this tolerance
    exact = moved.solve(monitors=None).dataset.energy_share
    np.testing.assert_allclose(sol.dataset.energy_share, exact, rtol=1e-4)


def test_a_case_may_have_a_run_but_no_preview(monkeypatch):
    def refuse(*_):
        raise ValueError("planted")

    own, lines = case(3), []
    plain = own.replace({"run.save_at": 2})
    monkeypatch.setattr(explore, "preview_of", lambda _: plain)
    solved = explore._solved
    monkeypatch.setattr(
        explore, "_solved", lambda one, *how: refuse() if one == plain else solved(one, *how)
    )
    Explorer(own).run({"run.n": 0}, lines.append, int)
    assert (lines[-1]["said"], lines[-1]["bad"]) == (own.run().message, False)


def test_only_runs_on_the_sphere_have_a_preview():
    others = [case(2), case(6), case(2, "FlowMap"), case(3, measure={"type": "Particles", "n": 5})]
    assert [explore.preview_of(own) for own in others] == [None] * 4


def test_saves_are_shown_as_they_come(monkeypatch):
    """On S² at first those of a preview, then all of it, then the run."""
    monkeypatch.setattr(explore, "_BETWEEN_WORDS", 0.0)
    # a picture is due at every save
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    explorer, lines = Explorer(case(3)), []
    explorer.run({"run.n": 5}, lines.append, int)
    *early, preview, final = [one for one in lines if "views" in one]
    assert [len(one["t"]) for one in early] == [1, 2, 3, 4]
    for one in early:
        assert one["early"]
        assert one["said"] == f"preview, t = {one['t'][-1]:.3g} …"
        assert one["t"] == final["t"][: len(one["t"])]
        assert len(one["numbers"]) == len(one["t"]) < len(final["t"])
        # the axis of times stays
        assert view(one, "energy")["layout"]["xaxis"]["range"] == [0.0, 0.4]
    assert preview["said"] == "preview up to t = 0.4, refined now: …"
    assert preview["t"] == final["t"]
    assert final["done"]
    # once more it is drawn alone
    again = []
    explorer.run({"run.n": 5}, again.append, int)
    assert again == [lines[0], final]


def test_a_scale_is_held_where_that_is_asked():
    explorer = Explorer(case(2))
    for is_log, expected in ((None, False), (True, True), (False, False)):
        lines = []
        explorer.run({"run.n": 0}, lines.append, int, is_log)
        assert lines[-1]["log"] is expected
        axis = view(lines[-1], "measure0")["layout"]["yaxis"]
        assert (axis.get("type") == "log") is expected
    uniform = [mf.Density(mf.Circle(32), mf.Uniform(2))]
    scale = explore.look(uniform, uniform, True).scale
    assert 0.0 < scale.vmin < scale.vmax


def test_a_run_that_waits_says_so_and_can_leave():
    explorer, lines = Explorer(case(2)), []

    def leave():
        raise ConnectionAbortedError

    with explorer.lock, pytest.raises(ConnectionAbortedError):
        explorer.run({}, lines.append, leave)
    assert lines[-1]["said"] == "waits until a run before it ends …"
    assert not told(explorer)[1]["bad"]


def test_the_slider_of_tokens_is_that_of_a_case_of_tokens():
    explorer = Explorer(case(2, measure={"type": "Particles", "n": 9}))
    assert explorer.start["run.n"] == 9
    about, shown = told(explorer, run_n=20)
    assert mf.Case(about["toml"]).build()[0].points.shape == (20, 2)
    assert [one["name"] for one in view(shown, "energy")["data"]] == [""]
    # a cloud that is taken as it is has none
    cloud = {"type": "PointCloud", "points": [[1.0, 0.0], [0.0, 1.0]]}
    own = Explorer(START.replace({"law": cloud, "measure": {"type": "Particles"}} | SHORT))
    assert "run.n" not in own.moved({"run.n": 30})[1]["used"]
    assert own.moved({"run.n": 30})[0].build()[0].points.shape == (2, 2)


@pytest.mark.slow
def test_ctrl_c_ends_what_runs(explorer):
    """The last test of the program, which is over then."""
    with asked(explorer.address, "run", LONG) as answer:
        begun(answer)
        explorer.process.send_signal(signal.SIGINT)
        assert explorer.process.wait(60) == 0
    assert explorer.errors.read_text() == ""
