"""Points from CSV files: a header of d names, then one token a row."""

from __future__ import annotations

import csv
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import shown, unit_rows

# as text and as lists of numbers it takes some ten times that in memory
_LARGEST_FILE = 1 << 28
BUNDLED = {"tokens-s2": "tokens_s2.csv"}


def read_points(file: str, folder: Path) -> NDArray[np.float64]:
    """The tokens of a CSV file, shape (n, d): unit rows; `file` may be a bundled name.

    Raises
    ------
    ValueError
        If there is no such file, it is no such table, or a row is no unit vector.
    """
    if file in BUNDLED:
        text = (files("meanfield") / "data" / BUNDLED[file]).read_text("utf-8")
    else:
        text = _text(folder / file)
    return unit_rows("points", _table(text))


def _text(path: Path) -> str:
    # a device or a pipe might never end
    if not path.is_file():
        state = "is no regular file" if path.exists() else "does not exist"
        raise ValueError(
            f"must be a CSV file or {' or '.join(map(repr, BUNDLED))}, but {path} {state}"
        )
    try:
        if (size := path.stat().st_size) > _LARGEST_FILE:
            raise ValueError(
                f"must be a CSV file of at most {_LARGEST_FILE} bytes, but {path} has {size}"
            )
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"must be a CSV file in UTF-8, but {path}: {error}") from None


def _table(text: str) -> NDArray[np.float64]:
    reader = csv.reader(text.splitlines())
    try:
        header = next(reader, [])
        if len(header) < 2 or _numbers(header) is not None:
            raise ValueError(
                f"line 1 must be a header of d >= 2 names with commas between, got {shown(header)}"
            )
        rows = []
        for row in reader:
            values = _numbers(row)
            if values is None or len(values) != len(header):
                raise ValueError(
                    f"line {reader.line_num} must be {len(header)} numbers with commas between, "
                    f"got {','.join(row)!r:.80}"
                )
            rows.append(values)
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} must be CSV, but {error}") from None
    if not rows:
        raise ValueError(f"must have at least one row below the header {','.join(header)!r:.80}")
    return np.array(rows)


def _numbers(row: list[str]) -> list[float] | None:
    try:
        return [float(field) for field in row]
    except ValueError:
        return None
