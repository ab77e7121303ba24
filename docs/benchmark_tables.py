"""What the scripts of validation/benchmarks have left in their results, as Markdown tables."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from validation.benchmarks.__main__ import BENCHMARKS

# where a file's name does not do
TITLES = {
    "lax_friedrichs": "Lax–Friedrichs",
    "overheads": "Start-up, short runs and files",
    "right_hand_side": "Right-hand side",
    "sphere_flow": "Flow maps on S²",
    "sphere_transport": "Transport on S²",
    "transport": "Transport on the circle and about an axis",
}
# rows of a table on a page
LONGEST = 100


def benchmark_tables(results: Path) -> str:
    """A section for each result file, in the order in which benchmarks run.

    Raises
    ------
    ValueError
        If a file holds what is neither rows nor named rows.
    """
    paths = sorted(results.glob("*.json"), key=lambda path: BENCHMARKS.index(path.stem))
    return "\n\n".join(_section(path) for path in paths) + "\n"


def _section(path: Path) -> str:
    content = json.loads(path.read_text(encoding="utf-8"))
    machine = content.pop("machine", None) if isinstance(content, dict) else None
    title = TITLES.get(path.stem, path.stem.replace("_", " ").capitalize())
    lines = [f"## {title}", ""]
    lines += [_about(path.stem), ""]
    for name, rows in _tables(content, path):
        lines += [f"**{name}**", ""] * bool(name)
        is_short = len(rows) <= LONGEST
        lines += [*_table(rows), ""] if is_short else [f"{len(rows)} rows: see `{path.name}`.", ""]
    if path.with_suffix(".png").is_file():
        lines += [f"![{path.stem.replace('_', ' ')}](generated/benchmarks/{path.stem}.png)", ""]
    if machine:
        parts = (f"{name} {value}" for name, value in machine.items())
        lines.append(f"Measured with {', '.join(parts)}.")
    return "\n".join(lines)


def _about(stem: str) -> str:
    """What the script that wrote the file says of itself, and how to run it."""
    script = Path(__file__).parent.parent / "validation" / "benchmarks" / f"{stem}.py"
    command = f"`python -m validation.benchmarks {stem}`"
    if not script.is_file():
        return f"Written by {command}."
    paragraphs = script.read_text(encoding="utf-8").split('"""')[1].strip().split("\n\n")
    return "\n\n".join([*(" ".join(one.split()) for one in paragraphs), f"Measured by {command}."])


def _tables(content: Any, path: Path) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Tables of rows, with names where a file has several of them."""
    if isinstance(content, list):
        yield "", content
    elif isinstance(content, dict) and all(isinstance(v, Mapping) for v in content.values()):
        nested = [v for row in content.values() for v in row.values() if isinstance(v, Mapping)]
        if nested:
            for name, rows in content.items():
                yield name, _named(rows)
        else:
            yield "", _named(content)
    elif isinstance(content, dict):
        for name, part in content.items():
            if isinstance(part, list) and all(isinstance(row, Mapping) for row in part):
                yield "" if name == "rows" else name, part
            elif isinstance(part, Mapping):
                yield name, [part]
            else:
                yield "", [{name: part}]
    else:
        raise ValueError(f"{path} must hold rows or named rows, got {content!r:.80}")


def _named(rows: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        {"": name} | (dict(row) if isinstance(row, Mapping) else {"value": row})
        for name, row in rows.items()
    ]


def _table(rows: list[Mapping[str, Any]]) -> list[str]:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    head = "| " + " | ".join(name.replace("_", " ") for name in columns) + " |"
    body = ["| " + " | ".join(_cell(row.get(name)) for name in columns) + " |" for row in rows]
    return [head, "|" + "---|" * len(columns), *body]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value).replace("|", "\\|")
