"""Look at built pages in a browser: `python docs/look.py SITE`, with the extra `test` installed.

On a wide screen, on a phone in the dark and in print no page may be wider than its window, show an
empty picture, report an error, or ask for anything that is not on this machine.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from browser import CHROMIUM, Browser, started

VIEWS: dict[str, dict[str, Any]] = {
    "1400 px": {"width": 1400},
    "390 px, dark": {"width": 390, "dark": True},
    "print": {"width": 800, "printed": True},
}
# lists of pages that wait beyond the edge of a phone until they are asked for
DRAWERS = ".sidebar-drawer, .toc-drawer { display: none }"


def faults(browser: Browser, site: Path) -> Iterator[str]:
    """What is wrong with the pages of a site, a line for each page and view."""
    # pages of functions and of examples have one form: two stand for all; the results are one list
    left_out = {*site.glob("_static/**/*.html"), site / "results.html"}
    for room in "api", "gallery":
        left_out |= {*sorted(site.glob(f"generated/{room}/*.html"))[2:]}
    for page in sorted({*site.rglob("*.html")} - left_out):
        for name, asked in VIEWS.items():
            with browser.open(page, **asked) as view:
                view.tab.add_style_tag(content=DRAWERS)
                found = [
                    *view.overflows(),
                    *view.blanks(),
                    *view.errors,
                ]
            if found:
                yield f"{page.relative_to(site)}, {name}: {'; '.join(found)}"


if __name__ == "__main__":
    if CHROMIUM is None:
        print("The pages are not looked at: there is no Chromium")
        sys.exit()
    with started() as chromium:
        wrong = list(faults(chromium, Path(sys.argv[1])))
    sys.exit("\n".join(wrong) or None)
