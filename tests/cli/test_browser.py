"""What holds pages against a browser sees what is wrong with them."""

import pytest

# each needs Chromium
pytestmark = pytest.mark.slow

FRAME = "<!DOCTYPE html><html><head><link rel=icon href=data:,></head><body>{}</body></html>"
CANVAS = "<canvas width=40 height=30></canvas>"
FILLED = CANVAS + "<script>const c = document.querySelector('canvas').getContext('2d');{}</script>"


@pytest.fixture
def opened(browser, tmp_path):
    def show(body, **options):
        path = tmp_path / "page.html"
        path.write_text(FRAME.format(body))
        return browser.open(path, **options)

    return show


def test_a_good_page(opened):
    scrolls = "<div style='overflow-x: auto'><p style='width: 3000px'>long</p></div>"
    drawn = FILLED.format("c.fillRect(5, 5, 9, 9);")
    for options in ({}, {"width": 390}, {"dark": True}, {"printed": True}):
        with opened(scrolls + drawn, **options) as view:
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
def test_errors_are_heard(opened, fault):
    with opened(f"<script>{fault}</script>", ready="body") as view:
        view.tab.wait_for_load_state("networkidle")
        assert len(view.errors) >= 1


def test_overflow_is_seen(opened):
    with opened("<p id=wide style='width: 500px'>x</p>", width=390) as view:
        assert view.overflows() == ["p#wide."]
    with opened("<p id=wide style='width: 500px'>x</p>") as view:
        assert view.overflows() == []


@pytest.mark.parametrize("fill", ["", "c.fillRect(0, 0, 40, 30);"])
def test_blank_canvases_are_seen(opened, fill):
    with opened(FILLED.format(fill)) as view:
        assert len(view.blanks()) == 1
