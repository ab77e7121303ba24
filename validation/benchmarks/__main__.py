"""Run benchmarks one after the other, each in a process of its own with one thread for products.

`python -m validation.benchmarks [names] [--list] [--quick]`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from validation.benchmarks.form import THREADS
from validation.runner import first_line

BENCHMARKS = [
    "right_hand_side",
    "densities",
    "density_batches",
    "batches",
    "tokens",
    "particles",
    "phase_diagram",
    "line_sums",
    "flow_map",
    "growth",
    "lax_friedrichs",
    "transport",
    "sphere_transport",
]


def listing() -> str:
    """Every benchmark with the first line of what it shows."""
    folder = Path(__file__).parent
    width = max(map(len, BENCHMARKS))
    return "\n".join(f"{one:<{width}}  {first_line(folder / f'{one}.py')}" for one in BENCHMARKS)


def run(name: str, options: list[str]) -> bool:
    """Whether a benchmark came to its end; what it prints goes to this terminal."""
    print(f"{name}\n{'=' * len(name)}", flush=True)
    command = [sys.executable, "-m", f"validation.benchmarks.{name}", *options]
    # several threads for products of matrices would measure the other processes of the machine;
    # growth compares numbers of threads of transforms, which OpenMP's limit would hold to one
    one_thread = dict.fromkeys(THREADS[:1] if name == "growth" else THREADS, "1")
    done = subprocess.run(command, env=one_thread | dict(os.environ), check=False)
    print(flush=True)
    return done.returncode == 0


def main() -> None:
    """Run those that are named, all if none is."""
    parser = argparse.ArgumentParser(prog="python -m validation.benchmarks")
    parser.add_argument("names", nargs="*", metavar="name", help="benchmarks, all if omitted")
    parser.add_argument("--list", action="store_true", help="name them and exit")
    parser.add_argument("--quick", action="store_true", help="short forms, which keep nothing")
    given = parser.parse_args()
    if given.list:
        print(listing())
        return
    if wrong := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"names must be among {', '.join(BENCHMARKS)}, got {', '.join(wrong)}")
    chosen = [name for name in BENCHMARKS if name in (given.names or BENCHMARKS)]
    ended = {name: run(name, ["--quick"] * given.quick) for name in chosen}
    if lost := [name for name, whole in ended.items() if not whole]:
        sys.exit(f"ended with an error: {', '.join(lost)}")


if __name__ == "__main__":
    main()
