"""Pages as a reader sees them: in Debian's Chromium, without a window and without a network."""

import io
import shutil
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--enable-unsafe-swiftshader",
]
LONGEST = 60_000  # milliseconds, a last resort
# what reaches beyond the right edge, unless something around it scrolls or hides it
OVERFLOWS = """() => {
  const width = document.documentElement.clientWidth;
  const isCut = (element) => {
    for (let e = element.parentElement; e && e !== document.body; e = e.parentElement) {
      const right = e.getBoundingClientRect().right;
      if (getComputedStyle(e).overflowX !== "visible" && right <= width + 1) return true;
    }
    return false;
  };
  return [...document.body.querySelectorAll("*")].filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && box.right > width + 1 && !isCut(e)
      && getComputedStyle(e).visibility !== "hidden";
  }).map((e) => `${e.tagName.toLowerCase()}#${e.id}.${e.className.baseVal ?? e.className}`);
}"""

# pictures in view and where on the page they are, without icons
PICTURES = """() => [...document.querySelectorAll("canvas, img, svg")].filter((e) => {
  const box = e.getBoundingClientRect();
  return e.checkVisibility({ opacityProperty: true, visibilityProperty: true })
    && Math.max(box.width, box.height) > 20;
}).map((e) => {
  const box = e.getBoundingClientRect();
  const place = [box.x + scrollX, box.y + scrollY, box.width, box.height].map(Math.round);
  return [e.outerHTML.slice(0, 120), place.map((length) => Math.max(length, 0))];
})"""


class View:
    """An open page; `tab` is the page of playwright, with everything that it can do.

    Attributes
    ----------
    errors : list of str
        What the console and the page complained of, and what was asked of a network.
    """

    def __init__(self, context):
        self.errors = []
        context.route("**/*", self._loopback_only)
        self.tab = context.new_page()
        self.tab.set_default_timeout(LONGEST)
        self.tab.on("console", self._hear)
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))

    def _hear(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def _loopback_only(self, route):
        address = urlsplit(route.request.url)
        if address.scheme in {"http", "https"} and address.hostname not in {
            "127.0.0.1",
            "localhost",
        }:
            self.errors.append(f"asks for {route.request.url}")
            route.abort()
        else:
            route.continue_()

    def turn(self, width=1400, *, height=900, dark=False, printed=False):
        """Show the page in a window of another size, in the dark or in light, or as on paper."""
        self.tab.emulate_media(
            media="print" if printed else "screen", color_scheme="dark" if dark else "light"
        )
        self.tab.set_viewport_size({"width": width, "height": height})

    def overflows(self):
        """The elements that reach beyond the right edge of the window."""
        return self.tab.evaluate(OVERFLOWS)

    def blanks(self):
        """The canvases, pictures and drawings in view that are of one colour."""
        page = pixels(self.tab, full_page=True)
        return [
            name
            for name, (x, y, width, height) in self.tab.evaluate(PICTURES)
            if np.ptp(page[y : y + height, x : x + width], (0, 1)).max(initial=0) == 0
        ]

    def screenshot(self, path):
        """The whole page as PNG."""
        self.tab.screenshot(path=path, full_page=True)


def pixels(shown, **options):
    """The pixels (rows, columns, 3) of what can be photographed: an element, or a whole tab."""
    from PIL import Image

    drawn = Image.open(io.BytesIO(shown.screenshot(**options))).convert("RGB")
    return np.asarray(drawn).astype(int)


class Browser:
    """Opens pages, each in a profile of its own."""

    def __init__(self, chromium):
        self._chromium = chromium

    @contextmanager
    def open(self, address, width=1400, *, height=900, dark=False, printed=False, ready=None):
        """A page at a path or URL; `ready` is a selector that is there once the page is."""
        context = self._chromium.new_context()
        view = View(context)
        try:
            view.turn(width, height=height, dark=dark, printed=printed)
            path = Path(address)
            view.tab.goto(path.resolve().as_uri() if path.exists() else str(address))
            if ready:
                view.tab.wait_for_selector(ready, state="attached")
            yield view
        finally:
            context.close()


@contextmanager
def started():
    """A Browser, or a skipped test where there is none."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as library:
        chromium = library.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield Browser(chromium)
        finally:
            chromium.close()
