"""A check before matplotlib is imported, which reads `matplotlibrc` of the present folder."""

from __future__ import annotations

import sys
from pathlib import Path

_SETTINGS = Path("matplotlibrc")

# a pipe or a device may never end
is_read = "matplotlib" not in sys.modules and _SETTINGS.exists() and not _SETTINGS.is_dir()
if is_read and not _SETTINGS.is_file():
    raise ValueError(
        f"{_SETTINGS} of the present folder, which matplotlib reads, must be a regular file, got "
        f"{_SETTINGS.stat().st_mode:o} as its mode"
    )
