"""Where a case comes from: its file, the tokens that it refers to, its seed and its commit."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from meanfield.case.clouds import BUNDLED
from meanfield.case.faults import Fault, shown
from meanfield.case.tables import ParticlesTable, PointCloudTable, Table, tables_in

About = dict[str, str | int | float]
CLOUD_FILES = "token_files"
CASE_FILE = "case_file"
# what a case keeps when keys are set
ORIGIN = (CASE_FILE, "git_commit")
# of SHA-1 or SHA-256
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BRANCH, _ELSEWHERE = "ref: ", "gitdir: "
# bytes of a list of branches
_LARGEST_LIST = 1 << 24


def clouds(case: Table) -> Iterator[tuple[str, str]]:
    """The keys and names of the token files that a case refers to, bundled ones left out."""
    for where, table in tables_in(case):
        if isinstance(table, PointCloudTable) and table.file not in BUNDLED:
            yield f"{where}.file", table.file


def provenance(case: Table, space: Any, file: Path | None, folder: Path) -> About:
    """Attributes of a dataset that tell where the case of a run comes from.

    `seed` of tokens; `case_file`; `token_files`, JSON of names and SHA-256; `git_commit`
    where the case file lies in a work tree of git.
    """
    about: About = {"seed": space.seed} if isinstance(space, ParticlesTable) else {}
    digests = token_digests(case, folder)
    if digests:
        about[CLOUD_FILES] = json.dumps(digests)
    if file is not None:
        about[CASE_FILE] = str(file.resolve())
        if commit := git_commit(file.resolve()):
            about["git_commit"] = commit
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


def git_commit(file: Path) -> str:
    """The commit that the work tree of a file is at, "" where there is none.

    It is read from the files that git keeps. Git itself would run programs that a repository names
    in its settings, and a case may lie in a folder that somebody else has made.
    """
    for folder in file.parents:
        own = folder / ".git"
        elsewhere = _text(own)
        if own.is_dir() or elsewhere.startswith(_ELSEWHERE):
            return _head(folder / elsewhere.removeprefix(_ELSEWHERE) if elsewhere else own)
    return ""


def _head(own: Path) -> str:
    """The commit of a work tree whose own files are in `own`; branches may be in another."""
    head, shared = _text(own / "HEAD"), own / _text(own / "commondir")
    if head.startswith(_BRANCH):
        branch = head.removeprefix(_BRANCH)
        lines = _text(shared / "packed-refs").splitlines()
        packed = (line.partition(" ")[0] for line in lines if line.endswith(f" {branch}"))
        head = _text(own / branch) or _text(shared / branch) or next(packed, "")
    return head if _COMMIT.fullmatch(head) else ""


def _text(path: Path) -> str:
    """The text of a small file, "" where there is none."""
    try:
        # a device or a pipe might never end
        if not path.is_file() or path.stat().st_size > _LARGEST_LIST:
            return ""
        return path.read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""
