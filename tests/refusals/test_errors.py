"""An error shows what was wrong: each ValueError has the value in its message, each error a text.

Nothing is evaluated or unpickled either, and nothing is left to be written later.
"""

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "meanfield"

BUILTIN_ERRORS = {
    name
    for name, thing in vars(builtins).items()
    if isinstance(thing, type) and issubclass(thing, Exception)
}
UNPICKLERS = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def has_text(call: ast.Call) -> bool:
    """Whether some literal text, not only blanks, stands in the arguments of an exception."""
    texts = (n.value for a in call.args for n in ast.walk(a) if isinstance(n, ast.Constant))
    return any(isinstance(text, str) and text.strip() for text in texts)


def has_value(call: ast.Call) -> bool:
    """Whether a value is formatted into the message: f"...{x}..."."""
    nodes = (node for argument in call.args for node in ast.walk(argument))
    values = (node.value for node in nodes if isinstance(node, ast.FormattedValue))
    return any(not isinstance(value, ast.Constant) for value in values)


def raise_fault(node: ast.Raise) -> str | None:
    """Why this raise tells too little, or None. Raising again what was caught is fine."""
    error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if not isinstance(error, ast.Name) or error.id not in BUILTIN_ERRORS:
        return None
    if not isinstance(node.exc, ast.Call) or not has_text(node.exc):
        return f"{error.id} without a text"
    if issubclass(getattr(builtins, error.id), ValueError) and not has_value(node.exc):
        return f"{error.id} without the value"
    return None


def danger(node: ast.AST) -> str | None:
    """Why this makes code out of data, or a promise out of code; or None."""
    if isinstance(node, ast.Name) and node.id in {"eval", "exec", "compile"}:
        return f"uses {node.id}"
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return f"has a {name}" if name == "NotImplementedError" else None
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        roots = {name.partition(".")[0] for name in names}
        return f"imports {sorted(roots & UNPICKLERS)}" if roots & UNPICKLERS else None
    if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
        refused = isinstance(node.value, ast.Constant) and node.value.value is False
        return None if refused else "allows pickle"
    return None


def faults(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        fault = raise_fault(node) if isinstance(node, ast.Raise) else danger(node)
        if fault:
            yield f"line {getattr(node, 'lineno', '?')}: {fault}"


@pytest.mark.slow
def test_errors_tell():
    all_faults = {
        path: list(faults(path.read_text(encoding="utf-8"))) for path in PACKAGE.rglob("*.py")
    }
    assert len(all_faults) > 50
    assert {path: listed for path, listed in all_faults.items() if listed} == {}


SOUND = [
    'raise ValueError(f"beta must be >= 0, got {beta!r}")',
    'raise ValueError(f"beta must be >= 0, " + f"got {beta!r}") from None',
    'raise TypeError("a sentence will do")',
    'raise FileNotFoundError(2, "no such file", path)',
    "raise",
    "raise error",
    "raise error from None",
    'raise typer.BadParameter("x")',
    "raise SystemExit(2)",
    "np.load(path, allow_pickle=False)",
    "model.eval()",
    "re.compile(pattern)",
]


@pytest.mark.parametrize("source", SOUND)
def test_sound_line_is_passed(source):
    assert list(faults(source)) == []


PLANTED = [
    ('raise ValueError("beta must be >= 0")', "ValueError without the value"),
    ('raise ValueError(f"beta must be >= 0")', "ValueError without the value"),
    ('raise ValueError(f"beta must be >= {0}")', "ValueError without the value"),
    ('raise ValueError("beta must be {}".format())', "ValueError without the value"),
    ('raise UnicodeError("bad text")', "UnicodeError without the value"),
    ("raise ValueError(message)", "ValueError without a text"),
    ("raise ValueError(beta)", "ValueError without a text"),
    ('raise ValueError(f"{beta}")', "ValueError without a text"),
    ('raise ValueError("")', "ValueError without a text"),
    ("raise ValueError", "ValueError without a text"),
    ("def f():\n    if x:\n        raise KeyError()", "line 3: KeyError without a text"),
    ("raise RuntimeError from error", "RuntimeError without a text"),
    ("raise OSError(path)", "OSError without a text"),
    ('raise NotImplementedError("later")', "has a NotImplementedError"),
    ("def f():\n    return NotImplementedError", "has a NotImplementedError"),
    ("eval(text)", "uses eval"),
    ("run = exec", "uses exec"),
    ('compile(text, "", "exec")', "uses compile"),
    ("import pickle", "imports ['pickle']"),
    ("def f():\n    import numpy, pickle as p", "imports ['pickle']"),
    ("from marshal import loads", "imports ['marshal']"),
    ("np.load(path, allow_pickle=True)", "allows pickle"),
    ("np.load(path, allow_pickle=trusted)", "allows pickle"),
]


@pytest.mark.parametrize(("source", "message"), PLANTED)
def test_planted_fault_is_seen(source, message):
    (fault,) = faults(source)
    assert message in fault
