"""The code of a page: which blocks it has, and running them as a reader would, top to bottom."""

import contextlib
import doctest
import io
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meanfield.cli.commands import main

_FENCE = re.compile(r"^```(?P<about>[^`\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_CAPTION = re.compile(r":caption: *(?P<file>\S+)\n\n?")


@dataclass(frozen=True)
class Block:
    """One block of a page: its language, its text, and the file that its caption names."""

    language: str
    text: str
    file: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of code on a page in Markdown, top to bottom."""
    for found in _FENCE.finditer(page):
        language, body = found["about"].removeprefix("{code-block}").strip(), found["body"]
        if language.startswith("{"):
            continue  # another directive than code
        caption = _CAPTION.match(body)
        text = body[caption.end() :] if caption else body
        line = page.count("\n", 0, found.start()) + 1
        yield Block(language, text, caption["file"] if caption else "", line)


def run_page(page: str, name: str) -> dict[str, Any]:
    """Run the Python and console blocks of a page in the present folder.

    A block with a caption is written to the file of that name. Python blocks share their names;
    commands are those of `meanfield`, and what they print is compared with what the page shows,
    where `...` stands for anything.

    Returns
    -------
    dict
        The names of the Python blocks.

    Raises
    ------
    AssertionError
        If a command fails or prints something else.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            # blank lines before it give errors the page's line numbers
            exec(compile("\n" * block.line + block.text, name, "exec"), names)
        elif block.language == "console":
            _console(block, f"{name}, line {block.line}")
    return names


def _console(block: Block, where: str) -> None:
    text = block.text.replace("\\\n", " ")
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        words = shlex.split(command)
        target = ""
        if ">" in words:
            target = words.pop()
            words.remove(">")
        assert words[0] == "meanfield", f"{where}: {command} is no command of meanfield"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = main(words[1:])
        assert status == 0, f"{where}: {command} ended with {status}: {printed.getvalue()}"
        if target:
            Path(target).write_text(printed.getvalue(), encoding="utf-8")
        elif shown.strip():
            _compare(shown, printed.getvalue(), f"{where}: {command}")


def _compare(shown: str, printed: str, where: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    same = doctest.OutputChecker().check_output(shown, printed, flags)
    assert same, f"{where} printed\n{printed}\nand not\n{shown}"


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """The folder as the present one."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
