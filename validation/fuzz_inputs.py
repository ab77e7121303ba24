"""Case files and result files to try readers with: good ones, changed at random."""

from __future__ import annotations

import io
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tomli_w
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import meanfield as mf
from validation._inside import default_case_text, seal

GOOD = (
    """\
law = {type = "FourierSeries", cos = [0.5]}
measure = {type = "Density", space = {type = "Circle", n = 32}}
dynamics = {beta = 1.0}
run = {t_end = 0.5, save_at = 2}
monitors = {m = {to = "uniform"}}
""",
    """\
law = {type = "Mixture", laws = [{type = "Uniform"},
{type = "VonMisesFisher", mean = [0.0, 0.0, 1.0], kappa = 2.0}], weights = [0.4, 0.6]}
measure = {type = "Density", space = {type = "Sphere", lmax = 7}}
run = {t_end = 1.0}
dynamics = {type = "Attention", beta = 1.0, heads = [{Q = 1.0, V = -1.0}]}
""",
    """\
law = {type = "ZonalSeries", dim = 4, coefficients = [0.5]}
measure = {type = "Density", space = {type = "Zonal", kmax = 15}}
dynamics = {type = "USA", beta = 0.5, noise = 0.1}
run = {t_end = 1.0, rtol = 1e-6}
output = {file = "a.nc"}
""",
    """\
law = {type = "VonMisesFisher", mean = [0.6, 0.8], kappa = 3.0}
measure = {type = "Particles", n = 20}
run = {t_end = 1.0, rng = 3}
dynamics = {type = "LayerMap", step = 0.5, dynamics = {type = "Layers", layers = [{beta = 1.0},
{type = "FeedForward", W = [[1.0], [0.0]], A = [[0.0, 2.0]]}]}}
""",
)
# what numbers, words and keys are replaced by
_ODD: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 7, 1 << 31, 10**18, 10**40, -(10**30), True, False),
    *(0.0, -0.0, 1e-320, 1e-30, 0.5, 1e308, -1e308, float("inf"), float("nan")),
    *("", "uniform", "SA", "../../etc/passwd", "/dev/zero", "a\x00b", "β" * 300, "x.nc"),
    *([], {}, [[]], [1.0], [{}], [[1.0, 2.0], [3.0]], {"type": "Uniform"}),
)


def _paths(tree: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found = []
    for key, value in items:
        found.append((*here, key))
        if isinstance(value, (dict, list)):
            found += _paths(value, (*here, key))
    return found


def _changed(tree: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The tree with a value, a key or an entry changed."""
    paths = _paths(tree)
    if not paths:
        return tree
    *way, last = paths[rng.integers(len(paths))]
    here: Any = tree
    for key in way:
        here = here[key]
    which = rng.integers(4)
    if which == 0 and isinstance(here, dict):
        del here[last]
    elif which == 1 and isinstance(here, dict):
        here[str(_ODD[rng.integers(21, 29)])] = here.pop(last)
    elif which == 2 and isinstance(here[last], float):
        here[last] *= 10.0 ** rng.integers(-20, 21)
    else:
        here[last] = _ODD[rng.integers(len(_ODD))]
    return tree


def case_bytes(number: int) -> bytes:
    """A case file: bytes cut, flipped, doubled, put in."""
    rng = np.random.default_rng((1, number))
    text = bytearray((*GOOD, default_case_text())[rng.integers(5)].encode())
    for _ in range(rng.integers(1, 8)):
        a, b = sorted(rng.integers(len(text) + 1, size=2))
        b = min(b, a + int(rng.integers(1, 40)))
        which = rng.integers(4)
        if which == 0:
            del text[a:b]
        elif which == 1:
            text[a:a] = text[a:b] * int(rng.integers(1, 200))
        elif which == 2:
            text[a:a] = rng.integers(256, size=b - a, dtype=np.uint8).tobytes()
        else:
            text[a:b] = bytes(rng.choice(list(b'[]{}=.,"\n0e-#\\'), size=b - a).tolist())
    return bytes(text)


def case_tree(number: int) -> str:
    """A case with up to three values or keys changed, still TOML."""
    rng = np.random.default_rng((2, number))
    tree = tomllib.loads(GOOD[rng.integers(len(GOOD))])
    for _ in range(rng.integers(1, 4)):
        tree = _changed(tree, rng)
    try:
        return tomli_w.dumps(tree)
    except (TypeError, ValueError):
        return "none = 0"


_LEAVES = st.one_of(
    *(st.integers(), st.floats(), st.booleans(), st.text(max_size=8), st.sampled_from(_ODD[:21]))
)
_WORDS = st.sampled_from(["type", "law", "laws", "beta", "n", "dim", "heads", "t_end", "save_at"])
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=4),
    max_leaves=12,
)
_SECTIONS = st.sampled_from(["law", "measure", "dynamics", "run", "monitors", "output"])


@cache
def drawn_trees(count: int) -> list[str]:
    """Cases in which hypothesis puts trees of its own in place of tables."""
    found: list[str] = []

    @seed(1)
    @settings(
        max_examples=count, phases=[Phase.generate], database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.integers(0, len(GOOD) - 1), st.dictionaries(_SECTIONS, _TREES, min_size=1))
    def draw(which: int, tables: dict[str, Any]) -> None:
        try:
            found.append(tomli_w.dumps(tomllib.loads(GOOD[which]) | tables))
        except (TypeError, ValueError):
            found.append(GOOD[which])

    draw()
    return found


@cache
def results() -> tuple[bytes, ...]:
    """Result files of each kind, with and without what `resume` needs."""
    start = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    rng = np.random.default_rng(0)
    measures = (start, mf.FlowMap(mf.FourierSeries(cos=[0.5])), mf.Particles(np.eye(3)))
    heads = mf.Attention(1.0, [mf.Head(*rng.normal(size=(3, 3, 3)))])
    found = []
    place = Path(".fuzz-good.nc")
    for measure in measures:
        dynamics = heads if isinstance(measure, mf.Particles) else mf.SA(1.0)
        try:
            mf.evolve(measure, dynamics, 0.2, 2, monitors={"m": _Stop()})
        except mf.exceptions.Interrupted as stopped:
            stopped.solution.save(place)
        found.append(place.read_bytes())
    place.unlink()
    return tuple(found)


class _Stop:
    """A monitor that stands for Ctrl-C."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, measure: Any) -> float:
        self.calls += 1
        if self.calls > 2:
            raise KeyboardInterrupt
        return 1.0


def damaged(number: int) -> bytes:
    """A result file that is cut short, or has bytes flipped, swapped or lost."""
    rng = np.random.default_rng((3, number))
    good = results()[rng.integers(3)]
    content = _bytes_changed(bytearray(good), rng)
    if content == good:
        content[rng.integers(len(good))] ^= 1
    return bytes(content)


def _bytes_changed(content: bytearray, rng: np.random.Generator) -> bytearray:
    which = rng.integers(4)
    if which == 0:
        del content[rng.integers(len(content)) :]
    elif which == 1:
        a, b = sorted(rng.integers(len(content), size=2))
        content[a:b] = bytes(b - a)
    else:
        # metadata is at the start, and shorter than the numbers
        reach = len(content) if which == 2 else min(len(content), 1 << 13)
        for place in rng.integers(8, reach, size=rng.integers(1, 20)):
            content[place] = rng.integers(256)
    return content


def hostile(number: int) -> bytes:
    """A file of ours with attributes and variables changed by HDF5 itself, without a seal."""
    rng = np.random.default_rng((5, number))
    content = io.BytesIO(results()[rng.integers(3)][: -len(seal(b""))])
    with h5py.File(content, "r+") as file:
        for _ in range(rng.integers(1, 4)):
            _CHANGES[rng.integers(len(_CHANGES))](file, rng)
    return content.getvalue()


def _attribute(file: Any, rng: np.random.Generator) -> None:
    names = list(file.attrs)
    values = [*_ODD[:11], *_ODD[12:24], "{}", "[" * 5000, '{"a": NaN}', np.zeros(300), "NaN"]
    try:
        file.attrs[names[rng.integers(len(names))]] = values[rng.integers(len(values))]
    except (TypeError, ValueError, OverflowError):
        file.attrs["none"] = 1


def _json(file: Any, rng: np.random.Generator) -> None:
    """A number in what `resume` reads becomes another."""
    text = file.attrs.get("resumption")
    if not isinstance(text, str):
        return
    digits = [i for i, c in enumerate(text) if c.isdigit()]
    at = digits[rng.integers(len(digits))] if digits else 0
    put = ["9" * 30, "-1", "null", "1e999", '"a"', "{}", "[]", "NaN"][rng.integers(8)]
    file.attrs["resumption"] = text[:at] + put + text[at + 1 :]


def _numbers(file: Any, rng: np.random.Generator) -> None:
    name = list(file)[rng.integers(len(file))]
    one = file[name]
    if isinstance(one, h5py.Dataset) and one.size and one.dtype.kind in "if":
        values = one[...].ravel()
        odd = [0, -1, 1 << 30] if one.dtype.kind == "i" else [np.nan, np.inf, -1.0, 1e308, 0.0]
        values[rng.integers(values.size)] = odd[rng.integers(len(odd))]
        one[...] = values.reshape(one.shape)


def _shape(file: Any, rng: np.random.Generator) -> None:
    name = list(file)[rng.integers(len(file))]
    shape = tuple(int(n) for n in 10 ** rng.integers(0, 7, size=rng.integers(0, 4)))
    kind = ["f8", "i8", "f4", "S5", "u1", h5py.string_dtype(), "c16"][rng.integers(7)]
    del file[name]
    chunks = {"chunks": tuple(min(n, 50) for n in shape)} if shape else {}
    file.create_dataset(name, shape, kind, **chunks)


def _lost(file: Any, rng: np.random.Generator) -> None:
    del file[list(file)[rng.integers(len(file))]]


def _linked(file: Any, rng: np.random.Generator) -> None:
    links = (
        h5py.SoftLink("/t"), h5py.SoftLink("/none"), h5py.ExternalLink("/etc/hostname", "/"),
        h5py.ExternalLink("/dev/zero", "/t"), file, file[next(iter(file))],
    )  # fmt: skip
    name = ["further", "t", "size"][rng.integers(3)]
    if name in file:
        del file[name]
    file[name] = links[rng.integers(len(links))]


_CHANGES: tuple[Callable[[Any, np.random.Generator], None], ...] = (
    *(_attribute, _attribute, _json, _json, _numbers, _shape, _lost, _linked),
)
