"""The house has no circle of imports, a door for each library, and runs apart from proofs.

A new door is a decision: it goes into docs/decisions.md and then into DOORS.
"""

import ast
import functools
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import meanfield as mf
from tests.children import ENVIRONMENT
from tests.tiers import rows

PACKAGE = Path(__file__).parent.parent / "meanfield"

# What runs are held against; nothing that computes a run may import it.
APART = "theory", "functionals.transport", "studies", "trained", "plot", "cli"

EVERYWHERE = {"numpy", "scipy"}
DOORS = {
    "lazy_loader": {"", "studies", "trained"},
    "pyfftw": {"spaces.circle"},
    "ducc0": {"spaces", "kernels.bilinear"},
    "shtns": {"spaces.sphere"},
    # `plot` names its types and imports nothing
    "xarray": {"evolution", "studies", "trained", "cli", "plot"},
    "h5netcdf": {"evolution.netcdf"},
    "h5py": {"evolution.netcdf"},
    "tqdm": {
        "evolution.progress",
        "functionals.transport.sphere",
        "studies",
        "trained.measure",
        "cli.sweeps",
        "plot.movies",
    },
    "dask": {"studies.executors"},
    "distributed": {"studies.executors"},
    "mpi4py": {"studies.executors"},
    "threadpoolctl": {"spaces.sphere", "studies.executors"},
    "ot": {"functionals.transport.clouds"},
    # the default of a type, for type checkers alone
    "typing_extensions": {"evolution.solution"},
    # `_shown` names its types and imports nothing
    "matplotlib": {"plot", "cli.report", "_shown"},
    "plotly": {"cli.report.document"},
    "pydantic": {"cli"},
    "tomli_w": {"cli"},
    "typer": {"cli"},
    "validation": {"cli.commands"},
}


@functools.cache
def modules(package: Path) -> dict[str, ast.Module]:
    """Every file of the package, by its dotted name below the package ("" is the package)."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
        stub = path.with_suffix(".pyi")
        # what a file that loads when asked will import
        if stub.is_file():
            found[name].body += ast.parse(stub.read_text(encoding="utf-8"), str(stub)).body
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


def door_fault(module: str, target: str, package: str) -> str | None:
    """Why `module` may not import `target` (an absolute name), or None."""
    root = target.partition(".")[0]
    if root in {package, *EVERYWHERE} or root in sys.stdlib_module_names:
        return None
    doors = DOORS.get(root, set())
    if any(f"{module}.".startswith(f"{door}.") for door in doors):
        return None
    return f"imports {root}, whose doors are {sorted(doors)}"


@functools.cache
def import_graph(package: Path) -> dict[str, dict[str, int]]:
    """What each file imports, inside functions and for types too, with a line where it does."""
    graph: dict[str, dict[str, int]] = {}
    for module, tree in modules(package).items():
        name = f"{package.name}.{module}".rstrip(".")
        graph[name] = dict(imports(module, tree, package))
    return graph


def import_faults(package: Path) -> list[str]:
    """Imports that go round in a circle, at any depth, or miss a library's door."""
    graph = import_graph(package)
    found = []
    for module, targets in graph.items():
        inside = module.partition(".")[2]
        for target, line in targets.items():
            fault = door_fault(inside, target, package.name)
            if fault:
                found.append(f"{inside or '__init__'}:{line} {fault}")
    # files first: where they go round, so may their rooms
    for parts, between in (graph, "imports"), (rooms_of(graph), "rooms"):
        try:
            graphlib.TopologicalSorter(parts).prepare()
        except graphlib.CycleError as error:
            found.append(f"{between} go round in a circle: {' '.join(error.args[1])}")
            break
    return found


def rooms_of(graph: dict[str, dict[str, int]]) -> dict[str, set[str]]:
    """Which rooms each room imports, by whatever file."""
    rooms: dict[str, set[str]] = {}
    for module, targets in graph.items():
        room = room_of(module.partition(".")[2])
        others = {room_of(t.partition(".")[2]) for t in targets if t in graph}
        rooms.setdefault(room, set()).update(others - {room})
    return rooms


def reach(graph: dict[str, dict[str, int]], start: str) -> set[str]:
    """All that a file imports, and that its imports import."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph.get(waiting.pop(), {}):
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def apart_faults(package: Path) -> list[str]:
    """What is in `APART` and is reached by `evolution`, which computes runs."""
    reached = {
        m.partition(".")[2] for m in reach(import_graph(package), f"{package.name}.evolution")
    }
    return [
        f"evolution reaches {place}"
        for place in APART
        if any(f"{module}.".startswith(f"{place}.") for module in reached)
    ]


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


def face_faults(package: Path) -> list[str]:
    """Files that say twice what they offer: the second word would be the only one."""
    said = {
        module: sum(ast.unparse(node).startswith("__all__ =") for node in tree.body)
        for module, tree in modules(package).items()
    }
    return [f"{module} sets __all__ {count} times" for module, count in said.items() if count > 1]


CHECKS = [import_faults, apart_faults, name_faults, face_faults]


@pytest.mark.parametrize("check", CHECKS)
def test_house(check):
    assert (PACKAGE / "__init__.py").is_file()
    assert check(PACKAGE) == []


@pytest.mark.slow
def test_what_is_not_used_is_not_loaded(tmp_path):
    """In a fresh process: by the package, its help, a run, one function of a study, a figure."""
    script = """if True:
        import gc, sys, weakref
        import meanfield as mf

        def are_loaded(*names):
            return set(names) & set(sys.modules)

        rooms = "meanfield.plot", "meanfield.studies", "matplotlib"
        heavy = "scipy", "ducc0", "pyfftw", "xarray", "meanfield.evolution"
        assert not are_loaded(*rooms, *heavy, "pydantic", "typer")
        from meanfield.cli.commands import main
        assert main(["--help"]) == 0 and not are_loaded(*rooms, *heavy, "pydantic")
        # typer itself reads the words of a command with pydantic
        asked = [["run", "--help"], ["study", "metastability", "--help"], ["walk"]]
        assert [main(words) for words in asked] == [0, 0, 2]
        assert not are_loaded(*rooms, *heavy)

        import meanfield.cli.case
        law = mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0)
        sol = mf.evolve(mf.Density(mf.Sphere(31), law), mf.SA(1.0), 0.1, 1)
        transport = "meanfield.functionals.transport.sphere"
        others = "xarray", "tqdm", "pyfftw", "scipy.ndimage", "scipy.stats", transport
        assert not are_loaded(*rooms, *others)
        near = mf.Density(mf.Sphere(31), mf.Uniform(3))
        pair = mf.Particles([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        assert mf.wasserstein(pair, near).upper > 1.0 and are_loaded(transport)

        assert mf.evolve_free([[1.0, 0.0], [0.0, 1.0]], 1.0, 1).status == "finished"
        assert are_loaded(*rooms) == {"meanfield.studies"}
        asked = [name for name in sys.modules if name.startswith("meanfield.studies.")]
        assert asked == ["meanfield.studies.free_tokens"]
        assert mf.FreeTokens in vars(sys.modules[asked[0]]).values()

        # no figure is kept, and no window opens
        kept = []
        for _ in range(3):
            figure, ax = mf.plot.solution(sol, panels=1), near.plot()
            kept += [weakref.ref(figure), weakref.ref(ax.figure)]
        ax.plot([0.0, 1.0], [1.0, 1.0])
        ax.figure.savefig("mine.png")
        del figure, ax
        gc.collect()
        assert not any(each() for each in kept)
        assert not are_loaded("matplotlib.pyplot")
    """
    command = [sys.executable, "-c", script]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, env=ENVIRONMENT)
    with Image.open(tmp_path / "mine.png") as picture:
        assert picture.size == (680, 480)


CIRCLE, RNG = mf.FourierSeries(cos=[0.5]), np.random.default_rng(0)
BUMPS = mf.Mixture([mf.VonMisesFisher(np.eye(3)[i], 2.0) for i in range(2)])
# where the velocity of each measure is computed
VELOCITIES = {
    "KernelOnGrid.fill_flux": lambda: mf.Density(mf.Circle(32), CIRCLE),
    "PullOnLine.rates": lambda: mf.FlowMap(CIRCLE),
    "KernelOnSphere.rates": lambda: mf.FlowMap(BUMPS, tol=1e-2),
    "KernelAtTokens.__call__": lambda: mf.Particles.sample(mf.Uniform(5), 20, RNG),
    "KernelAtAngles.__call__": lambda: mf.Particles.sample(mf.Uniform(2), 2000, RNG),
}


@pytest.mark.parametrize("kind", rows([mf.SA, mf.USA], mf.SA))
@pytest.mark.parametrize("place", VELOCITIES)
def test_the_velocity_is_nine_frames_in_six_files_below_evolve(place, kind):
    # the function itself is loaded here, and not while its frames are noted
    measure, evolve, ways = VELOCITIES[place](), mf.evolve, []

    def note(frame, event, _):
        if event != "call" or frame.f_code.co_qualname != place:
            return
        way = []
        while frame is not None:
            way.append(frame.f_code)
            frame = frame.f_back
        if any(code.co_name == "step" for code in way):
            files = [code.co_filename for code in way]
            ways.append([file for file in files if str(PACKAGE) in file])

    sys.setprofile(note)
    try:
        evolve(measure, kind(2.0), 0.01, 1)
    finally:
        sys.setprofile(None)
    # of those on which a step asks for it; a save does from elsewhere
    assert ways
    assert max(map(len, ways)) <= 9
    assert max(len(set(way)) for way in ways) <= 6


def test_data_and_physics_meet_only_where_they_may():
    graph = import_graph(PACKAGE)
    reached = {m.partition(".")[2] for m in reach(graph, "meanfield.dynamics")}
    assert "_checks" in reached
    data = {module for module in reached if room_of(module) in {"laws", "measures"}}
    # how a dataclass is written down
    assert data <= set()
    for room in "laws", "spaces", "measures":
        rooms = {room_of(m.partition(".")[2]) for m in reach(graph, f"meanfield.{room}")}
        assert "dynamics" not in rooms


SOUND = {
    "__init__.py": "from . import spaces, theory\nimportlib.import_module('meanfield.plot')\n",
    "_checks.py": "import math\nimport numpy as np\n",
    "_shown.py": "if TYPE_CHECKING:\n    from matplotlib.axes import Axes\nclass Shown: pass\n",
    "kernels.py": "from scipy import special\nfrom meanfield.spaces.geometry import project\n",
    "laws.py": "from . import kernels\nclass Uniform: pass\n",
    "dynamics.py": "",
    "spaces/__init__.py": "from meanfield.spaces.circle import Circle\n",
    "spaces/circle.py": "import pyfftw\nfrom .geometry import project\n",
    "spaces/geometry.py": "from .._checks import integer\n",
    "spaces/sphere.py": "import ducc0.sht\n",
    "theory.py": "from meanfield import kernels\n",
    "evolution/__init__.py": "from meanfield.evolution.steppers import step\n",
    "evolution/steppers.py": "import xarray as xr\nfrom meanfield.evolution import refine\n",
    "evolution/refine.py": "from meanfield.laws import Uniform\n",
    "functionals/__init__.py": "from meanfield.functionals.energies import energy\n",
    "functionals/energies.py": "from ..spaces import Circle\n",
    "functionals/transport.py": "from ..spaces import Circle\n",
    "plot.py": "from matplotlib.figure import Figure\nfrom ._shown import Shown\n",
    "cli.py": "import typer\nfrom meanfield import plot\n",
}

PLANTED = [
    ("when asked", {"_shown.py": "def f():\n from meanfield import plot"}, "round in a circle"),
    ("in a function", {"kernels.py": "def f():\n from . import laws"}, "round in a circle"),
    (
        "for types only",
        {"kernels.py": "if TYPE_CHECKING:\n    from .laws import Uniform"},
        "go round in a circle",
    ),
    ("in a stub", {"kernels.pyi": "from .laws import Uniform"}, "go round in a circle"),
    ("the package", {"spaces/circle.py": "import meanfield as mf"}, "go round in a circle"),
    (
        "a public name",
        {"spaces/circle.py": "from meanfield import Density"},
        "go round in a circle",
    ),
    ("called", {"laws.py": "import_module('meanfield.evolution')"}, "go round in a circle"),
    ("within a folder", {"evolution/refine.py": "from . import steppers"}, "round in a circle"),
    ("checked by itself", {"evolution/steppers.py": "from ..theory import x"}, "reaches theory"),
    (
        "checked by its own",
        {"laws.py": "from meanfield.functionals import transport"},
        "reaches functionals.transport",
    ),
    ("two faces", {"dynamics.py": "__all__ = ['a']\n__all__ = ['b']"}, "sets __all__ 2 times"),
    (
        "rooms in a circle",
        {"spaces/symmetry.py": "from ..laws import Uniform"},
        "rooms go round in a circle",
    ),
    ("knows the roof", {"evolution/refine.py": "from ..plot import x"}, "reaches plot"),
    ("a wrong door", {"laws.py": "import matplotlib.pyplot"}, "imports matplotlib, whose doors"),
    ("a sibling's door", {"spaces/sphere.py": "import pyfftw"}, "doors are ['spaces.circle']"),
    ("no door at all", {"cli.py": "import requests"}, "imports requests, whose doors are []"),
    ("hidden", {"laws.py": "importlib.import_module(name)"}, "imports what can't be seen"),
    (
        "two of a name",
        {"__init__.py": "from meanfield.evolution.steppers import evolution"},
        "evolution is a file and a public name",
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
    assert faults(build(tmp_path, SOUND)) == []


@pytest.mark.parametrize(
    ("files", "message"), [pytest.param(f, m, id=name) for name, f, m in PLANTED]
)
def test_planted_fault_is_seen(tmp_path, files, message):
    found = faults(build(tmp_path, SOUND | files))
    assert len(found) == 1, found
    assert message in found[0]


def test_the_table_of_fields_names_what_there_is():
    """Each cell of the table in docs/architecture.md is a method in a file of its column."""
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Where each field is computed")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    columns = [re.findall(r"`(\w+)`", cell) for cell in rows[0][1:]]
    assert len(columns) == 4
    for _, *cells in rows[2:]:
        assert len(cells) == len(columns)
        for files, cell in zip(columns, cells, strict=True):
            names = re.findall(r"`(\w+)\.(\w+)`", cell)
            assert names or cell == "none"
            nodes = [n for file in files for n in modules(PACKAGE)[f"equations.{file}"].body]
            classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
            for owner, method in names:
                defined = {d.name for d in classes[owner].body if isinstance(d, ast.FunctionDef)}
                assert method in defined, (files, owner, method)
