"""What all benchmarks share: a command line, tables that are printed and kept, a figure."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import meanfield as mf

Row = Mapping[str, Any]
Tables = Mapping[str, Sequence[Row]]
RESULTS = Path(__file__).parent / "results"
THREADS = "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"


def processor() -> str:
    """The model where the system tells it, else the architecture."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text("utf-8").splitlines() if told.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(models), platform.processor() or platform.machine())


def machine(packages: Sequence[str]) -> dict[str, Any]:
    """What the figures hold for: processor, cores, threads and versions."""
    found: dict[str, Any] = {"processor": processor(), "cores": os.cpu_count()}
    found |= {name: os.environ[name] for name in THREADS if name in os.environ}
    found |= {"python": platform.python_version(), "meanfield": mf.__version__}
    for name in ("numpy", "scipy", *packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def printed(tables: Tables) -> str:
    """The tables, aligned, each under its name."""
    return "\n\n".join(f"{name}\n{_aligned(rows)}".strip() for name, rows in tables.items() if rows)


def reached(tables: Tables) -> str:
    """How many of the ratios with a goal reach it, and which do not; empty if none has one."""
    rows = [row for part in tables.values() for row in part if row.get("goal") is not None]
    missed = [row for row in rows if not _is_reached(row)]
    if not rows:
        return ""
    lines = [f"{len(rows) - len(missed)} of {len(rows)} goals reached"]
    for row in missed:
        goal = f"{row.get('goal is', '')} {row['goal']:g}".strip()
        lines.append(f"not reached: ratio {row['ratio']:.3g}, goal {goal}: {_which(row)}")
    return "\n".join(lines)


def keep(
    stem: str, tables: Tables, packages: Sequence[str], figure: Figure | None, folder: Path
) -> None:
    """Write the tables as JSON, with the machine, and the figure beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(packages), **tables}
    text = json.dumps(content, indent=1, ensure_ascii=False, default=float) + "\n"
    (folder / f"{stem}.json").write_text(text, "utf-8")
    if figure is not None:
        mf.plot.save(figure, folder / f"{stem}.png")


def main(
    measure: Callable[[bool], Tables],
    figure: Callable[[Tables], Figure] | None = None,
    packages: Sequence[str] = (),
) -> None:
    """Measure, print, and keep what the full form has found, under the name of the script."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(inspect.getmodule(measure)))
    parser.add_argument("--quick", action="store_true", help="a short form, which keeps nothing")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the results in this folder")
    given = parser.parse_args()
    tables = measure(given.quick)
    found = ", ".join(f"{name} {value}" for name, value in machine(packages).items())
    print("\n\n".join(part for part in (printed(tables), reached(tables), found) if part))
    folder = given.out or (None if given.quick else RESULTS)
    if folder is not None:
        stem = Path(inspect.getfile(measure)).stem
        keep(stem, tables, packages, figure(tables) if figure else None, folder)


def _is_reached(row: Row) -> bool:
    # an overhead is to stay below its goal, a gain above
    ratio, goal = row["ratio"], row["goal"]
    return bool(ratio <= goal if row.get("goal is") == "at most" else ratio >= goal)


def _which(row: Row) -> str:
    """The words and whole numbers of a row, which tell it from others."""
    words = {name: value for name, value in row.items() if name not in ("goal", "goal is")}
    return ", ".join(
        value if isinstance(value, str) else f"{name} = {value}"
        for name, value in words.items()
        if isinstance(value, str | int)
    )


def _aligned(rows: Sequence[Row]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [columns, *([_cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
