"""The picture of the architecture: which room of the package imports which."""

import ast
from collections import Counter
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf

PACKAGE = Path(mf.__file__).parent
# as the paper is read; what is not among them serves all
ROOMS = {
    "spaces": "the sphere, and spectral grids on it",
    "kernels": "what is summed over a measure",
    "laws": "what is known at t = 0",
    "dynamics": "what moves a measure",
    "measures": "what answers the sums",
    "equations": "d/dt of each measure",
    "functionals": "numbers of one instant",
    "evolution": "how a run goes, and its file",
    "theory": "closed forms",
    "studies": "one question each",
    "trained": "layers of trained models",
    "plot": "what is seen",
    "cli": "how it is called",
}


def imports(room: str) -> Counter[str]:
    """How many files of a room import each other one."""
    folder = PACKAGE / room
    found: Counter[str] = Counter()
    for file in folder.rglob("*.py") if folder.is_dir() else [PACKAGE / f"{room}.py"]:
        names = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
        found.update({name.split(".")[1] for name in names if name.startswith("meanfield.")})
    return found


def rooms(path: Path) -> None:
    """Draw a row and a column for each room: how many files of the row import the column."""
    figure = Figure(figsize=(8.0, 5.2), layout="constrained")
    ax = figure.add_subplot()
    names = list(ROOMS)
    counts = np.zeros((len(names), len(names)))
    for row, room in enumerate(names):
        found = imports(room)
        for column, other in enumerate(names):
            counts[row, column] = found[other] if other != room else 0
    ax.imshow(np.where(counts > 0, np.sqrt(counts), np.nan), cmap="Blues", vmin=0.0, vmax=6.0)
    for row, column in np.argwhere(counts > 0):
        dark = counts[row, column] > 12
        colour = "white" if dark else "black"
        ax.text(column, row, f"{counts[row, column]:.0f}", ha="center", va="center", color=colour)
    for number in range(len(names)):
        ax.text(number, number, "■", ha="center", va="center", color="0.6")
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right")
    ax.set_yticks(range(len(names)), [f"{room}: {about}" for room, about in ROOMS.items()])
    ax.set_xlabel("is imported")
    ax.set_ylabel("imports")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    figure.savefig(path, dpi=150)
