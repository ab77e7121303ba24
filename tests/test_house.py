"""The tree is the theory: imports run downwards only, each library has its doors, files stay small.

The two tables are the house. A new room or a new door is a decision: it goes into
docs/decisions.md and then here.
"""

import ast
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "meanfield"
LONGEST_FILE = 300
LONGEST_FUNCTION = 50

TOP = "arguments", "harmonics", "geometry", "exponential_sums"
LINES = "panels", "patches", "kernels", "line_potential", "history"
SUMMING = "laws", "labels", "dynamics", "spaces", "bilinear", "token_sums", "sinkhorn"
MEASURING = (*TOP, *LINES, *SUMMING, "measures")
STEPPING = (*MEASURING, "collapse", "clustering", "tendency", "functionals")
RUNNING = (*STEPPING, "characteristics", "sphere_flow", "solution", "integrate")
KNOWING = (*RUNNING, "transport", "theory")

# From top to bottom, each room with the rooms that it may import.
ROOMS: dict[str, tuple[str, ...]] = {
    "arguments": (),
    "display": (),
    "harmonics": ("arguments",),
    "geometry": ("arguments",),
    "exponential_sums": ("arguments", "harmonics"),
    "panels": ("arguments",),
    "patches": ("arguments",),
    "kernels": ("arguments",),
    "line_potential": ("arguments", "kernels"),
    "history": ("arguments",),
    "laws": ("arguments", "harmonics", "geometry"),
    "labels": ("arguments", "harmonics", "geometry", "laws"),
    "dynamics": ("arguments", "geometry"),
    "spaces": TOP,
    "bilinear": TOP,
    "token_sums": (*TOP, "line_potential", "spaces", "bilinear"),
    "sinkhorn": (*TOP, "kernels", "line_potential", "spaces"),
    "measures": (
        *(*TOP, *LINES, "display", "laws", "labels", "spaces"),
        *("bilinear", "token_sums", "sinkhorn"),
    ),
    "collapse": (*TOP, "measures"),
    "clustering": (*TOP, "spaces", "measures"),
    "tendency": (
        *(*TOP, "kernels", "line_potential", "dynamics", "spaces"),
        *("bilinear", "token_sums", "sinkhorn", "measures"),
    ),
    "functionals": (*TOP, "panels", "patches", "dynamics", "spaces", "measures", "tendency"),
    "characteristics": (*TOP, "history", "labels", "dynamics", "tendency"),
    "sphere_flow": (
        *(*TOP, "patches", "history", "laws", "dynamics", "spaces"),
        *("bilinear", "tendency"),
    ),
    "solution": (*MEASURING, "display", "tendency", "characteristics", "sphere_flow"),
    "integrate": (*STEPPING, "sphere_flow", "solution"),
    "transport": (*TOP, "display", "laws", "spaces", "measures"),
    "theory": ("arguments", "harmonics", "dynamics"),
    "free_tokens": ("arguments",),
    "executors": ("dynamics",),
    "studies": (*KNOWING, "free_tokens", "executors"),
    "plot": KNOWING,
    "report": (*KNOWING, "plot"),
    "case": KNOWING,
    "sweeps": (*KNOWING, "executors", "case"),
    "cli": (*KNOWING, "executors", "studies", "plot", "report", "case", "sweeps"),
    "__main__": ("cli",),
    "__init__": (*KNOWING, "free_tokens", "studies", "plot", "report", "case", "sweeps"),
}

# Rooms that are folders of siblings, which do not know each other. Any other room, and a sibling,
# may grow into a folder too; its files are then parts of one thing and may import each other.
SIBLINGS = {"spaces", "measures", "studies"}

# What a room may import from below, but only inside a function or for types: where the user asks.
WHEN_ASKED = {"display": {"meanfield.plot", "matplotlib"}}

EVERYWHERE = {"numpy", "scipy"}
DOORS = {
    "pyfftw": {"spaces.circle"},
    "ducc0": {"spaces.sphere", "spaces.circle_at", "bilinear.sphere"},
    "shtns": {"spaces.sphere.shtns_plan"},
    "xarray": {"solution", "integrate", "studies", "sweeps"},
    "h5netcdf": {"solution", "integrate"},
    "h5py": {"solution"},
    "tqdm": {"integrate", "studies", "sweeps", "plot.movies"},
    "distributed": {"executors"},
    "mpi4py": {"executors"},
    "ot": {"transport.network"},
    "flint": {"studies.proposition.balls"},
    "matplotlib": {"plot", "report"},
    "plotly": {"report.library"},
    "pydantic": {"case"},
    "tomli_w": {"case"},
    "typer": {"cli"},
    "validation": {"cli.validate"},
}


def modules(package: Path) -> dict[str, ast.Module]:
    """Every file of the package, by its dotted name below the package ("" is the package)."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def room_of(module: str) -> str:
    return module.partition(".")[0] or "__init__"


def imports(module: str, tree: ast.Module, package: Path) -> Iterator[tuple[str, int]]:
    """What a file imports, at any depth, with absolute names, and the line where it does."""
    is_folder = (package / module.replace(".", "/")).is_dir()
    home = [package.name, *filter(None, module.split("."))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                base = home[: len(home) - node.level + is_folder] + base
            for alias in node.names:
                path = "/".join([*base[1:], alias.name])
                is_module = base[0] == package.name and (
                    (package / f"{path}.py").is_file() or (package / path).is_dir()
                )
                yield ".".join([*base, alias.name] if is_module else base), node.lineno
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in {"__import__", "import_module"}:
                literal = node.args and isinstance(node.args[0], ast.Constant)
                yield str(node.args[0].value) if literal else "what can't be seen", node.lineno


def waiting_lines(tree: ast.Module) -> set[int]:
    """Lines that importing the file does not run: bodies of functions, and what is for types."""
    found: set[int] = set()
    for node in ast.walk(tree):
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if is_for_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in node.body:
                found |= set(range(inner.lineno, (inner.end_lineno or inner.lineno) + 1))
    return found


def may_wait(module: str, target: str) -> bool:
    allowed = WHEN_ASKED.get(room_of(module), set())
    return any(f"{target}.".startswith(f"{name}.") for name in allowed)


def import_fault(module: str, target: str, package: str) -> str | None:
    """Why `module` may not import `target` (an absolute name), or None."""
    root, _, inside = target.partition(".")
    if root == package:
        return _inner_fault(module, inside)
    if root in sys.stdlib_module_names or root in EVERYWHERE:
        return None
    doors = DOORS.get(root, set())
    if any(f"{module}.".startswith(f"{door}.") for door in doors):
        return None
    return f"imports {root}, whose doors are {sorted(doors)}"


def _inner_fault(module: str, target: str) -> str | None:
    room, other = room_of(module), room_of(target)
    if room == other:
        parts, others = module.split("."), target.split(".")
        if room not in SIBLINGS or module == room or parts[1:2] == others[1:2]:
            return None
        return f"imports its sibling {target}"
    if other in ROOMS.get(room, ()):
        return None
    return f"imports {target or 'the whole package'}, which does not stand above it"


def import_faults(package: Path) -> list[str]:
    """Imports that go down or sideways, go round in a circle, or miss a library's door."""
    found = []
    graph: dict[str, set[str]] = {}
    for module, tree in modules(package).items():
        waiting = waiting_lines(tree)
        for target, line in imports(module, tree, package):
            if line in waiting and may_wait(module, target):
                continue
            fault = import_fault(module, target, package.name)
            if fault:
                found.append(f"{module or '__init__'}:{line} {fault}")
            graph.setdefault(f"{package.name}.{module}", set()).add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        found.append(f"imports go round in a circle: {' '.join(error.args[1])}")
    return found


def room_faults(package: Path) -> list[str]:
    """Files that are in no room of the house."""
    return [f"{m} is in no room" for m in modules(package) if room_of(m) not in ROOMS]


def size_faults(package: Path) -> list[str]:
    """Files, and functions without their docstrings, that are too long."""
    found = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        where = path.relative_to(package).as_posix()
        lines = len(text.splitlines())
        if lines > LONGEST_FILE:
            found.append(f"{where} has {lines} lines, more than {LONGEST_FILE}")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if ast.get_docstring(node) is not None:
                    doc = node.body[0]
                    length -= (doc.end_lineno or doc.lineno) - doc.lineno + 1
                if length > LONGEST_FUNCTION:
                    found.append(f"{where} {node.name} has {length} > {LONGEST_FUNCTION} lines")
    return found


def name_faults(package: Path) -> list[str]:
    """Files that bear the name of a public function of their folder: two things fight over it."""
    trees = modules(package)
    found = []
    for folder, tree in trees.items():
        if not (package / folder.replace(".", "/")).is_dir():
            continue
        files = {m.rpartition(".")[2] for m in trees if m and m.rpartition(".")[0] == folder}
        public = set()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                public.add(node.name)
            elif isinstance(node, ast.ImportFrom) and node.module != package.name:
                public |= {alias.asname or alias.name for alias in node.names if node.module}
        found += [f"{name} is a file and a public name" for name in sorted(files & public)]
    return found


CHECKS = [import_faults, room_faults, size_faults, name_faults]


@pytest.mark.parametrize("check", CHECKS)
def test_house(check):
    assert (PACKAGE / "__init__.py").is_file()
    assert check(PACKAGE) == []


def test_table_runs_downwards():
    order = list(ROOMS)
    for room, allowed in ROOMS.items():
        for other in allowed:
            assert order.index(other) < order.index(room), f"{room} may import {other}"


def test_nothing_that_computes_a_run_may_see_what_runs_are_held_against():
    for room in RUNNING:
        assert not {"theory", "transport", "studies"} & set(ROOMS[room])


def test_data_and_physics_meet_only_where_they_may():
    for room in "laws", "spaces", "measures":
        assert "dynamics" not in ROOMS[room]
    assert not {"laws", "spaces", "measures"} & set(ROOMS["dynamics"])


SOUND = {
    "__init__.py": "from meanfield import theory\nimportlib.import_module('meanfield.plot')\n",
    "arguments.py": "import math\nimport numpy as np\n",
    "display.py": (
        "if TYPE_CHECKING:\n    from matplotlib.axes import Axes\n"
        "class Shown:\n    def plot(self):\n        from meanfield import plot\n"
    ),
    "harmonics.py": "from scipy import special\nfrom meanfield.arguments import integer\n",
    "geometry.py": "",
    "laws.py": "from . import harmonics\nclass Uniform: pass\n",
    "dynamics.py": "",
    "spaces/__init__.py": "from meanfield.spaces.circle import Circle\n",
    "spaces/circle.py": "import pyfftw\nfrom ..harmonics import eigenvalues\n",
    "spaces/sphere.py": "import ducc0.sht\n",
    "theory.py": "from meanfield import harmonics\n",
    "integrate/__init__.py": "from meanfield.integrate.steps import step\n",
    "integrate/steps.py": "import xarray as xr\nfrom meanfield.integrate import refine\n",
    "integrate/refine.py": "from meanfield.laws import Uniform\n",
    "plot.py": "from matplotlib.figure import Figure\ndef energy(sol): ...\n",
}

PLANTED = [
    ("down", {"harmonics.py": "from meanfield.dynamics import SA"}, "does not stand above"),
    ("down, relative", {"laws.py": "from .spaces import Circle"}, "does not stand above"),
    ("down, as a module", {"laws.py": "from meanfield import spaces"}, "does not stand above"),
    ("down, plain", {"laws.py": "import meanfield.spaces.circle"}, "does not stand above"),
    ("down, in a function", {"laws.py": "def f():\n from . import plot"}, "does not stand above"),
    (
        "down, for types only",
        {"laws.py": "if TYPE_CHECKING:\n    from meanfield.spaces.circle import Circle"},
        "imports spaces.circle, which does not stand above",
    ),
    ("not waiting", {"display.py": "from meanfield import plot"}, "imports plot, which does not"),
    ("types at once", {"display.py": "import matplotlib.axes"}, "imports matplotlib, whose"),
    ("past its leave", {"display.py": "def f():\n from . import theory"}, "imports theory, which"),
    ("sideways", {"geometry.py": "from meanfield.harmonics import x"}, "does not stand above"),
    ("past the table", {"dynamics.py": "from meanfield.laws import x"}, "does not stand above"),
    ("the package", {"laws.py": "import meanfield as mf"}, "the whole package"),
    ("a public name", {"laws.py": "from meanfield import Density"}, "the whole package"),
    ("a sibling", {"spaces/circle.py": "from .sphere import Sphere"}, "sibling spaces.sphere"),
    ("its own folder", {"spaces/sphere.py": "from meanfield.spaces import x"}, "sibling spaces"),
    ("checked by itself", {"integrate/steps.py": "from ..theory import x"}, "does not stand"),
    ("a wrong door", {"laws.py": "import matplotlib.pyplot"}, "doors are ['plot', 'report']"),
    ("a sibling's door", {"spaces/sphere.py": "import pyfftw"}, "doors are ['spaces.circle']"),
    ("no door at all", {"cli.py": "import requests"}, "imports requests, whose doors are []"),
    ("called", {"laws.py": "import_module('meanfield.plot')"}, "imports plot, which does not"),
    ("hidden", {"laws.py": "importlib.import_module(name)"}, "imports what can't be seen"),
    ("a circle", {"integrate/refine.py": "from . import steps"}, "go round in a circle"),
    ("no room", {"utils.py": ""}, "utils is in no room"),
    ("no room, a folder", {"tools/text.py": ""}, "tools.text is in no room"),
    ("long file", {"laws.py": "x = 1\n" * 301}, "laws.py has 301 lines"),
    (
        "long function under a docstring",
        {"laws.py": 'def f():\n    """One.\n\n    Two."""\n' + "    x = 1\n" * 50},
        "f has 51 > 50",
    ),
    ("long function", {"laws.py": "def f():\n" + "    x = 1\n" * 50}, "f has 51 > 50"),
    (
        "long method",
        {"laws.py": "class A:\n    async def g(self):\n" + "        x = 1\n" * 50},
        "g has 51 > 50",
    ),
    (
        "two of a name",
        {"__init__.py": "from meanfield.integrate.steps import integrate"},
        "integrate is a file and a public name",
    ),
]


def build(folder: Path, files: dict[str, str]) -> Path:
    package = folder / "meanfield"
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    return package


def faults(package: Path) -> list[str]:
    return [fault for check in CHECKS for fault in check(package)]


def test_sound_house_is_passed(tmp_path):
    longest = {"report.py": "x = 1\n" * 300, "case.py": "def f():\n" + "    x = 1\n" * 49}
    assert faults(build(tmp_path, SOUND | longest)) == []


@pytest.mark.parametrize(
    ("files", "message"), [pytest.param(f, m, id=name) for name, f, m in PLANTED]
)
def test_planted_fault_is_seen(tmp_path, files, message):
    found = faults(build(tmp_path, SOUND | files))
    assert len(found) == 1, found
    assert message in found[0]
