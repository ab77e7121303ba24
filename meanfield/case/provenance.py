"""Where a case comes from: its file, the tokens that it refers to, its seed and its commit."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from meanfield.case.clouds import BUNDLED
from meanfield.case.faults import Fault, shown
from meanfield.case.schema import Table, tables_in
from meanfield.case.tables import ParticlesTable, PointCloudTable

About = dict[str, str | int | float]
CLOUD_FILES = "token_files"
CASE_FILE = "case_file"
# what a case keeps when keys are set
ORIGIN = (CASE_FILE, "git_commit", "git_dirty")
_PATIENCE = 10.0


def clouds(case: Table) -> Iterator[tuple[str, str]]:
    """The keys and names of the token files that a case refers to, bundled ones left out."""
    for where, table in tables_in(case):
        if isinstance(table, PointCloudTable) and table.file not in BUNDLED:
            yield f"{where}.file", table.file


def provenance(case: Table, space: Any, file: Path | None, folder: Path) -> About:
    """Attributes of a dataset that tell where the case of a run comes from.

    `seed` of tokens; `case_file`; `token_files`, JSON of names and SHA-256; `git_commit` and
    `git_dirty` (0 or 1) where the case file lies in a work tree of git.
    """
    about: About = {"seed": space.seed} if isinstance(space, ParticlesTable) else {}
    digests = token_digests(case, folder)
    if digests:
        about[CLOUD_FILES] = json.dumps(digests)
    if file is not None:
        about |= {CASE_FILE: str(file.resolve()), **git_state(file.resolve())}
    return about


def token_digests(case: Table, folder: Path) -> dict[str, str]:
    """SHA-256 of each token file that can be read."""
    files = {name: folder / name for _, name in clouds(case)}
    return {name: _digest(path) for name, path in files.items() if path.is_file()}


def check_tokens(case: Table, folder: Path, recorded: dict[str, str]) -> None:
    """Make sure that token files are those of the run that is repeated.

    Raises
    ------
    Fault
        If one is gone or has changed.
    """
    for key, name in clouds(case):
        path = folder / name
        if not path.is_file():
            raise Fault(
                f"{key} = {shown(name)} must be the file that the run had, but {path} is gone: "
                f"put it there, or set {key} to where it is"
            )
        if name in recorded and _digest(path) != recorded[name]:
            raise Fault(
                f"{key} = {shown(name)} must be the file that the run had, of SHA-256 "
                f"{recorded[name]:.12}…, but {path} has {_digest(path):.12}…"
            )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git_state(file: Path) -> About:
    """The commit that a file lies in and whether the work tree differs; nothing without git.

    What git does not track counts only if it is the file itself: results lie beside cases.
    """
    commit = _git(file.parent, "rev-parse", "HEAD")
    if commit is None:
        return {}
    changed = _git(file.parent, "status", "--porcelain", "--untracked-files=no")
    tracked = _git(file.parent, "ls-files", "--error-unmatch", "--", file.name)
    return {"git_commit": commit, "git_dirty": int(changed != "" or tracked is None)}


def _git(folder: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    # a monitor that a repository names would be run, and locks would be in others' way
    command = [program, "-c", "core.fsmonitor=false", "-C", str(folder), *arguments]
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(  # noqa: S603 (a fixed program, and no shell)
            command, capture_output=True, text=True, timeout=_PATIENCE, env=environment, check=False
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
