"""Pages of runs and of the explorer in a browser, and what holds them against it.

One browser answers for all, and a page that is loaded stays open for all that is asked of it.
"""

from contextlib import ExitStack

import numpy as np
import pytest

import meanfield as mf
from tests.browser import pixels
from tests.cli.pages import PAIR, data, page_of, solution_of

# each needs Chromium
pytestmark = pytest.mark.slow

FRAME = "<!DOCTYPE html><html><head><link rel=icon href=data:,></head><body>{}</body></html>"
CANVAS = "<canvas width=40 height=30></canvas>"
FILLED = CANVAS + "<script>var c = document.querySelector('canvas').getContext('2d');{}</script>"


@pytest.fixture(scope="module")
def blank(browser, tmp_path_factory):
    path = tmp_path_factory.mktemp("blank") / "page.html"
    path.write_text(FRAME.format(""))
    with browser.open(path) as view:
        yield view


@pytest.fixture
def shown(blank):
    """Writes another body into an open page, and shows it on a wide screen or as it is asked."""

    def show(body, **options):
        blank.errors.clear()
        blank.turn(**options)
        blank.tab.set_content(FRAME.format(body))
        return blank

    return show


def test_a_good_page(shown):
    scrolls = "<div style='overflow-x: auto'><p style='width: 3000px'>long</p></div>"
    drawn = FILLED.format("c.fillRect(5, 5, 9, 9);")
    for options in ({}, {"width": 390}, {"dark": True}, {"printed": True}):
        view = shown(scrolls + drawn, **options)
        assert (view.errors, view.overflows(), view.blanks()) == ([], [], [])


@pytest.mark.parametrize(
    "fault",
    [
        "console.error('planted');",
        "throw new Error('planted');",
        "fetch('https://planted.example/').catch(() => 0);",
        "document.body.append(Object.assign(new Image(), {src: 'planted.png'}));",
    ],
)
def test_errors_are_heard(shown, fault):
    view = shown(f"<script>{fault}</script>")
    view.tab.wait_for_load_state("networkidle")
    assert len(view.errors) >= 1


def test_overflow_is_seen(shown):
    wide = "<p id=wide style='width: 500px'>x</p>"
    assert shown(wide, width=390).overflows() == ["p#wide."]
    assert shown(wide).overflows() == []


@pytest.mark.parametrize("fill", ["", "c.fillRect(0, 0, 40, 30);"])
def test_blank_canvases_are_seen(shown, fill):
    assert len(shown(FILLED.format(fill)).blanks()) == 1


# the last is on paper, where the figures of the screen are gone
WAYS = {
    "wide": {},
    "phone": {"width": 390},
    "dark": {"dark": True},
    "phone in the dark": {"width": 390, "dark": True},
    "print": {"width": 718, "printed": True},
}
# how each page is opened, before it is turned to the other ways
OPENED = {
    "circle": "wide",
    "flow map": "phone in the dark",
    "tokens in d = 8": "dark",
    "S^2": "phone",
    PAIR: "wide",
    "decades": "phone",
    "sum": "phone",
    "masked": "phone in the dark",
}
READY = "body[data-ready]"
# figures follow the width of the window a moment later
FITTED = """() => [...document.querySelectorAll(".js-plotly-plot")].every(
  (e) => !e.clientWidth || Math.abs(e._fullLayout.width - e.clientWidth) <= 1)"""
DARK = """() => ({
  page: getComputedStyle(document.body).backgroundColor,
  texts: [...document.querySelectorAll(".plot text")].map((e) => getComputedStyle(e).fill),
})"""
# a frame is a save, and two saves are farther apart
MOVED = "t => Math.abs(document.getElementById('energy').layout.shapes[0].x0 - t) < 1e-3"


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """The open page of a run, turned to one of the ways in which it may be seen."""
    views, folder = {}, tmp_path_factory.mktemp("pages")
    with ExitStack() as stack:

        def turned(name, way):
            if name not in views:
                path = folder / f"{len(views)}.html"
                path.write_text(page_of(name))
                opening = browser.open(path, **WAYS[OPENED[name]], ready=READY)
                views[name] = stack.enter_context(opening)
            views[name].turn(**WAYS[way])
            views[name].tab.wait_for_function(FITTED)
            return views[name]

        yield turned


# texts of a figure that lie on each other by more than the margin around their letters
OVERPRINTED = """() => [...document.querySelectorAll(".plot")].flatMap((figure) => {
  const texts = [...figure.querySelectorAll("text")].filter((e) => e.textContent.trim());
  const boxes = texts.map((e) => e.getBoundingClientRect());
  return texts.flatMap((one, i) => texts.slice(0, i).flatMap((other, j) => {
    const [a, b] = [boxes[i], boxes[j]];
    const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    return width > 2 && height > 4
      ? [`${figure.id}: ${one.textContent} on ${other.textContent}`] : [];
  }));
})"""


def complaints(view):
    return view.errors, view.overflows(), view.blanks()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OPENED)
def test_nothing_is_cut_or_blank_and_nothing_complains(name, way, opened):
    view = opened(name, way)
    assert complaints(view) == ([], [], [])
    seen = [view.tab.locator(each).first.is_visible() for each in ("#time", "#play", ".stills")]
    assert seen == ([False, False, True] if way == "print" else [True, True, False])
    assert view.tab.evaluate(OVERPRINTED) == []
    if "dark" in WAYS[way]:
        colours = view.tab.evaluate(DARK)
        assert colours["page"] == "rgb(22, 24, 27)"
        assert set(colours["texts"]) == {"rgb(228, 228, 228)"}
    if way == "print" and name != PAIR:
        # what scrolls on a screen is whole on paper
        (case,) = view.tab.locator("pre").all()
        assert case.evaluate("e => e.scrollHeight - e.clientHeight") == 0


def test_overprint_is_seen(shown):
    figure = "<div class=plot id=a><svg><text y=20 x={}>one</text><text y=20>two</text></svg></div>"
    assert shown(figure.format(8)).tab.evaluate(OVERPRINTED) == ["a: two on one"]
    assert shown(figure.format(80)).tab.evaluate(OVERPRINTED) == []


@pytest.mark.parametrize(
    ("name", "figure"), [("circle", "measure0"), ("S^2", "measure0"), ("masked", "positions0")]
)
def test_the_slider_moves_the_figures(name, figure, opened):
    sol, view = solution_of(name), opened(name, "wide")
    slider, now = view.tab.locator("#time"), view.tab.locator("#now")
    middle = float(now.inner_text().removeprefix("t = "))
    assert sol.t[0] < middle < sol.t[-1]
    first = pixels(view.tab.locator(f"#{figure}"))
    slider.focus()
    view.tab.keyboard.press("End")
    last = float(now.inner_text().removeprefix("t = "))
    # the page has five digits of it
    assert last == pytest.approx(sol.t[-1], rel=1e-4)
    assert slider.get_attribute("aria-valuetext") == now.inner_text()
    view.tab.wait_for_function(MOVED, arg=last)
    assert np.abs(pixels(view.tab.locator(f"#{figure}")) - first).max() > 20
    assert view.errors == []


def test_two_runs_share_their_time(opened):
    view = opened(PAIR, "wide")
    page = data(page_of(PAIR))
    first, second = page["views"][:2]
    # the times that both have saved
    assert page["t"] == [0.0, 1.0]
    assert [len(each["frames"]) for each in (first, second)] == [2, 2]
    assert first["layout"]["yaxis"]["range"] == second["layout"]["yaxis"]["range"]
    before = [pixels(view.tab.locator(f"#measure{i}")) for i in (0, 1)]
    view.tab.locator("#time").focus()
    view.tab.keyboard.press("Home")
    view.tab.wait_for_function(MOVED, arg=0.0)
    for i, drawn in enumerate(before):
        assert np.abs(pixels(view.tab.locator(f"#measure{i}")) - drawn).max() > 20
    assert view.tab.locator(".lead").inner_text().startswith("the same to")


def test_cases_of_two_runs_are_a_click_away_and_whole_on_paper(opened):
    view = opened(PAIR, "wide")
    cases = view.tab.locator("#checks pre")
    assert [case.is_visible() for case in cases.all()] == [False, False]
    view.tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    for way in WAYS:
        view = opened(PAIR, way)
        assert [case.is_visible() for case in cases.all()] == [True, True]
        assert complaints(view) == ([], [], [])


SHARE = "document.querySelector('#numbers dd').textContent"


def test_the_explorer(explorer, browser):
    with browser.open(explorer.address, ready=READY) as page:
        before, picture = page.tab.evaluate(SHARE), page.tab.locator("#measure0").screenshot()
        box = page.tab.locator("[name='dynamics.beta']").bounding_box()
        x, y = box["x"] + box["width"] / 3, box["y"] + box["height"] / 2
        page.tab.mouse.move(x, y)
        page.tab.mouse.down()
        page.tab.mouse.move(x + 60, y, steps=2)
        # the picture moves while the slider is held
        page.tab.wait_for_function(f"before => {SHARE} !== before", arg=before)
        page.tab.mouse.up()
        page.tab.wait_for_selector(READY, state="attached")
        with page.tab.expect_download() as saved:
            page.tab.get_by_text("Save as case").click()
        case = mf.Case.from_file(saved.value.path())
        assert case.tables.dynamics.beta > 4.5
        expected = case.run()
        share = expected.dataset.energy_share.values
        masses = mf.clusters(expected.measures[20]).masses
        assert page.tab.locator("#numbers dd").all_inner_texts() == [
            *(f"{share[20]:.6f}", str(len(masses))),
            " ".join(f"{mass:.3f}" for mass in masses),
        ]
        drawn = page.tab.evaluate("[...document.getElementById('energy')._fullData[0].y]")
        np.testing.assert_array_equal(drawn, share)
        assert page.tab.locator("#measure0").screenshot() != picture
        with page.tab.expect_download() as saved:
            page.tab.get_by_text("Save as figure").click()
        assert saved.value.path().read_bytes().startswith(b"%PDF")
        page.tab.locator("[name='dynamics.type']").select_option("Interaction")
        page.tab.locator("[name='dynamics.kernel']").fill("1, two")
        page.tab.locator("#said.bad").wait_for()
        assert "dynamics.kernel must be" in page.tab.locator("#said").inner_text()
        page.tab.locator("[name='dynamics.kernel']").fill("1, 1")
        page.tab.wait_for_selector(f"{READY} #said:not(.bad)")
        assert complaints(page) == ([], [], [])


def test_the_explorer_on_a_phone_and_in_the_dark(explorer, browser):
    """From the circle to S² and back: figures change their kind, and none is left over."""
    with browser.open(explorer.address, ready=READY, **WAYS["phone in the dark"]) as page:
        page.tab.locator("[name='run.t_end']").fill("0.4")
        for dim, is_sphere in (("3", "true"), ("2", "false")):
            page.tab.locator("[name='measure.dim']").fill(dim)
            page.tab.wait_for_function(
                "is => document.body.dataset.ready "
                "&& is === String('scene' in document.getElementById('measure0').layout)",
                arg=is_sphere,
            )
            for way in ("phone in the dark", "dark", "phone"):
                page.turn(**WAYS[way])
                page.tab.wait_for_function(FITTED)
                assert complaints(page) == ([], [], [])
        page.tab.locator("[name='run.n']").fill("0")
        page.tab.wait_for_function("document.getElementById('measure0').data.length === 4")


def slid(page, name, value, kind="input"):
    """A slider as a hand moves it, which does not let it go before the event is a change."""
    page.tab.locator(f"[name='{name}']").evaluate(
        "(one, [value, kind]) => { one.value = value; "
        "one.dispatchEvent(new Event(kind, { bubbles: true })); }",
        [value, kind],
    )


SCALE = "document.getElementById('measure0')._fullLayout.yaxis.type"


def test_the_setting_is_in_the_address(explorer, browser):
    with browser.open(explorer.address, ready=READY) as page:
        start = page.tab.evaluate(SHARE)
        for key, away, back in (("dynamics.beta", "7", "4"), ("measure.dim", "6", "2")):
            page.tab.locator(f"[name='{key}']").fill(away)
            page.tab.wait_for_selector(READY, state="attached")
            assert page.tab.evaluate(SHARE) != start
            assert page.tab.evaluate("location.hash") == f"#{key}={away}"
            page.tab.locator(f"[name='{key}']").fill(back)
            page.tab.wait_for_selector(READY, state="attached")
            assert page.tab.evaluate(SHARE) == start
            assert page.tab.evaluate("location.hash") == ""
        setting = "#dynamics.type=USA&dynamics.beta=1.5&run.t_end=0.4&measure.type=None"
        page.tab.evaluate("setting => { location.hash = setting; }", setting)
        page.tab.wait_for_function(f"{READ} === '1.5' && document.body.dataset.ready")
        page.tab.reload()
        page.tab.wait_for_selector(READY, state="attached")
        with page.tab.expect_download() as saved:
            page.tab.get_by_text("Save as case").click()
        case = mf.Case.from_file(saved.value.path())
        assert case.build()[1] == mf.USA(1.5)
        assert isinstance(case.build()[0], mf.Density)
        page.tab.get_by_text("Back to the start").click()
        page.tab.wait_for_function(f"start => {SHARE} === start", arg=start)
        assert page.errors == []


READ = "document.querySelector(\"[name='dynamics.beta']\").value"


def test_a_scale_stays_while_a_slider_is_held(explorer, browser):
    with browser.open(explorer.address, ready=READY) as page:
        assert page.tab.evaluate(SCALE) == "linear"
        slid(page, "run.t_end", "6")
        page.tab.wait_for_selector(READY, state="attached")
        assert page.tab.evaluate(SCALE) == "linear"
        slid(page, "run.t_end", "6", "change")
        page.tab.wait_for_function(f"{SCALE} === 'log'")
        page.tab.wait_for_selector(READY, state="attached")
        slid(page, "run.t_end", "3")
        page.tab.wait_for_selector(READY, state="attached")
        assert page.tab.evaluate(SCALE) == "log"
        slid(page, "run.t_end", "3", "change")
        page.tab.wait_for_function(f"{SCALE} === 'linear'")


MOVES_WHILE_DRAWN = """() => {
  const draw = Plotly.react, control = document.querySelector("[name='measure.dim']");
  Plotly.react = async (...given) => {
    const drawn = await draw(...given);
    Plotly.react = draw;
    control.value = "2";
    control.dispatchEvent(new Event("input", { bubbles: true }));
    return drawn;
  };
}"""


def test_a_picture_stays_dim_if_a_control_moves_while_it_is_drawn(explorer, browser):
    with browser.open(explorer.address, ready=READY) as page:
        asked = []

        def answer(route):
            asked.append(route)
            route.continue_() if len(asked) == 1 else route.abort()

        page.tab.route("**/run?*", answer)
        page.tab.evaluate(MOVES_WHILE_DRAWN)
        page.tab.locator("[name='measure.dim']").fill("3")
        page.tab.locator("#said.bad").wait_for()
        assert len(asked) == 2
        assert page.tab.evaluate("document.body.classList.contains('stale')")


def test_what_is_stale_is_dim_and_a_preview_comes_first(explorer, browser):
    dim = "getComputedStyle(document.getElementById('measure0')).opacity"
    with browser.open(explorer.address, ready=READY) as page:
        page.tab.locator("[name='measure.dim']").fill("3")
        assert page.tab.evaluate("document.body.classList.contains('stale')")
        page.tab.wait_for_function("'scene' in document.getElementById('measure0').layout")
        page.tab.wait_for_selector("body:not(.stale)")
        assert page.tab.locator("#said").inner_text().startswith("preview")
        page.tab.wait_for_function(f"{dim} === '1'")
        # nobody is there who answers
        page.tab.route("**/run?*", lambda route: route.abort())
        page.tab.locator("[name='measure.dim']").fill("2")
        page.tab.locator("#said.bad").wait_for()
        assert "does not answer. Start it again" in page.tab.locator("#said").inner_text()
        page.tab.wait_for_function(f"Number({dim}) < 0.5")
        # an answer that breaks off is none either
        page.tab.unroute("**/run?*")
        page.tab.route("**/run?*", lambda route: route.fulfill(body='{"said": "t = 1"}\n'))
        page.tab.locator("[name='measure.dim']").fill("4")
        page.tab.locator("#said", has_text="the run was cut off").wait_for()
