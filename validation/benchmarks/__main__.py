"""Run benchmarks one after the other, each in a process of its own with one thread for products.

`python -m validation.benchmarks [names] [--list] [--quick] [--out DIR] [--all-threads] [--redraw]`
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import meanfield as mf
from validation.benchmarks.form import RESULTS, THREADS
from validation.runner import first_line

BENCHMARKS = [
    "right_hand_side",
    "densities",
    "batches",
    "tokens",
    "particles",
    "phase_diagram",
    "line_sums",
    "flow_map",
    "sphere_flow",
    "growth",
    "lax_friedrichs",
    "transport",
    "sphere_transport",
    "overheads",
]


def listing() -> str:
    """Every benchmark with the first line of what it shows."""
    folder = Path(__file__).parent
    width = max(map(len, BENCHMARKS))
    return "\n".join(f"{one:<{width}}  {first_line(folder / f'{one}.py')}" for one in BENCHMARKS)


def module(name: str) -> ModuleType:
    """A benchmark's script."""
    return importlib.import_module(f"validation.benchmarks.{name}")


def redraw(name: str, folder: Path) -> None:
    """Draw the figure of the tables that a benchmark has left in a folder."""
    path, draw = folder / f"{name}.json", getattr(module(name), "figure", None)
    if draw is None or not path.is_file():
        print(f"{name}: no figure" if draw is None else f"{name}: no {path}")
        return
    tables = json.loads(path.read_text("utf-8"))
    del tables["machine"]
    mf.plot.save(draw(tables), path.with_suffix(".png"))


def run(name: str, options: list[str], *, all_threads: bool = False) -> bool:
    """Whether a benchmark came to its end; what it prints goes to this terminal."""
    print(f"{name}\n{'=' * len(name)}", flush=True)
    command = [sys.executable, "-m", f"validation.benchmarks.{name}", *options]
    # several threads for products of matrices would measure the other processes of the machine
    names = () if all_threads else getattr(module(name), "ONE_THREAD", THREADS)
    one_thread = dict.fromkeys(names, "1")
    done = subprocess.run(command, env=one_thread | dict(os.environ), check=False)
    print(flush=True)
    return done.returncode == 0


def main() -> None:
    """Run those that are named, all if none is."""
    parser = argparse.ArgumentParser(prog="python -m validation.benchmarks")
    parser.add_argument("names", nargs="*", metavar="name", help="benchmarks, all if omitted")
    parser.add_argument("--list", action="store_true", help="name them and exit")
    parser.add_argument("--quick", action="store_true", help="short forms, which keep nothing")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the results in this folder")
    parser.add_argument(
        "--all-threads",
        action="store_true",
        help="threads as the libraries take them, which is what a single run of a user has",
    )
    parser.add_argument("--redraw", action="store_true", help="figures anew from kept tables")
    given = parser.parse_args()
    if given.list:
        print(listing())
        return
    if wrong := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"names must be among {', '.join(BENCHMARKS)}, got {', '.join(wrong)}")
    chosen = [name for name in BENCHMARKS if name in (given.names or BENCHMARKS)]
    if given.redraw:
        for name in chosen:
            redraw(name, given.out or RESULTS)
        return
    if given.all_threads and not (given.quick or given.out):
        parser.error("--all-threads must come with --quick or --out: kept results have one thread")
    options = ["--quick"] * given.quick + (["--out", str(given.out)] if given.out else [])
    ended = {name: run(name, options, all_threads=given.all_threads) for name in chosen}
    if lost := [name for name, whole in ended.items() if not whole]:
        sys.exit(f"ended with an error: {', '.join(lost)}")


if __name__ == "__main__":
    main()
