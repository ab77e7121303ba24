"""Result files that lie about what they hold are refused before memory is taken; seals."""

import os
import re
import tracemalloc

import h5py
import numpy as np
import pytest
from handmade import densities, solution

import meanfield as mf
from meanfield.solution import headers, seals

SOLUTION = solution(densities("circle"), case="[run]")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "good.nc"
    SOLUTION.save(path)
    return path.read_bytes()


def unsealed(content):
    return content[: -len(seals.seal(b""))]


def refusal(path):
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        mf.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_flipped_bit_anywhere_is_seen(good, tmp_path):
    path, rng = tmp_path / "run.nc", np.random.default_rng(1)
    path.write_bytes(good)
    mf.load(path)
    length = len(good)
    of_seal = np.arange(length - 50, length)
    for place in [*rng.integers(length, size=150), *of_seal]:
        flipped = bytearray(good)
        flipped[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        assert re.search("damaged|no NetCDF-4 file", refusal(path))


def test_what_other_tools_write_anew_has_no_seal(good, tmp_path):
    path = tmp_path / "run.nc"
    path.write_bytes(unsealed(good))
    np.testing.assert_array_equal(mf.load(path).t, SOLUTION.t)
    # but nothing may stand where a seal was
    path.write_bytes(unsealed(good) + b"?")
    assert f"must end with a seal, or after {len(unsealed(good))} bytes" in refusal(path)
    path.write_bytes(good[:-1])
    assert "cut short or damaged" in refusal(path)


def _link(file):
    file["further"] = h5py.SoftLink("/t")


def _external(file):
    file["further"] = h5py.ExternalLink("/etc/hostname", "/")


def _elsewhere(file):
    file.create_dataset("further", (4,), "f8", external=[("secret.bin", 0, 32)])


def _virtual(file):
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource("secret.nc", "x", (4,))
    file.create_virtual_dataset("further", layout)


def _deep(file):
    group = file
    for _ in range(300):
        group = group.create_group("g")


def _kind(kind):
    return lambda file: file.create_dataset("further", (1,), kind)


def _about(name, value, kind=None):
    return lambda file: file.attrs.create(name, value, dtype=kind)


def _sparse(file):
    file.create_dataset("further", (10**4, 10**6), "f8", chunks=(1, 10**4))


def _chunks(file):
    file.create_dataset("further", (2,), "f8", chunks=(1 << 28,), maxshape=(None,))


def _axes(file):
    file.create_dataset("further", (1,) * 9, "f8")


def _filter(file):
    file.create_dataset("further", (64,), "f8", chunks=(8,), compression="lzf")


HOSTILE = {
    "soft link": (_link, "it must hold variables and nothing else, got further, a link to"),
    "external link": (_external, "nothing else, got further, a link to another place"),
    "external storage": (_elsewhere, "further must be in the file itself, got a part of another"),
    "virtual": (_virtual, "further must be in the file itself, got a part of another file"),
    "deep groups": (_deep, "it must hold variables and nothing else, got g, a group"),
    "a type": (lambda file: file.__setitem__("further", np.dtype("f8")), "further, a datatype"),
    "objects": (_kind(h5py.string_dtype()), "further must hold numbers, got object"),
    "lists": (_kind(h5py.vlen_dtype(np.float64)), "further must hold numbers, got object"),
    "references": (_kind(h5py.ref_dtype), "further must hold numbers, got object"),
    "records": (_kind([("a", "f8"), ("b", "i4")]), "further must hold numbers, got \\[\\("),
    "nothing": (_kind("V1000"), "further must hold numbers, got \\|V1000"),
    "never written": (_sparse, "further claims to hold 80000000000 bytes of numbers"),
    "huge chunks": (
        _chunks,
        "further must have chunks no larger than its 16 bytes, got 2147",
    ),
    "filters": (_filter, "further must be packed by deflate, .* got the filters \\[32000\\]"),
    "axes": (_axes, "further must have at most 8 axes, got \\(1, 1, 1"),
    "lists as attributes": (
        _about("x", np.array(["a", "b"], object), h5py.string_dtype()),
        "the attribute x of it must be a text or numbers, got 2 of object",
    ),
    "records as attributes": (
        _about("x", np.zeros(1, [("a", "f8")])),
        "the attribute x of it must be a text or numbers, got 1 of \\[\\(",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(name, good, tmp_path):
    change, message = HOSTILE[name]
    path = tmp_path / "run.nc"
    path.write_bytes(unsealed(good))
    with h5py.File(path, "a", track_order=False) as file:
        change(file)
    tracemalloc.start()
    try:
        assert re.search(message, refusal(path))
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
    assert [file.name for file in tmp_path.iterdir()] == ["run.nc"]


def test_numbers_beyond_the_memory_are_refused(good, tmp_path, monkeypatch):
    path = tmp_path / "run.nc"
    path.write_bytes(good)
    monkeypatch.setattr(headers, "memory_of_machine", lambda: 1e4)
    assert re.search(r"it holds \d+ bytes of numbers, of which .* at most 2500", refusal(path))


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("_MOST_VARIABLES", "it must have at most 1 variables, got"),
        ("_MOST_ATTRIBUTES", "it must have at most 1 attributes, got"),
        ("_LARGEST_ATTRIBUTE", "the attribute .* must have at most 1 bytes, got"),
    ],
)
def test_more_than_a_file_ever_has_is_refused(limit, message, good, tmp_path, monkeypatch):
    path = tmp_path / "run.nc"
    path.write_bytes(good)
    monkeypatch.setattr(headers, limit, 1)
    assert re.search(message, refusal(path))


@pytest.mark.parametrize(
    ("at", "text", "message"),
    [
        (8, b"\xff" * 8, r"the heap at byte \d+ must be in the file of \d+ bytes, got 1844"),
        (24, b"\xff" * 8, r"an object of the heap at byte \d+ claims 18446744073709551615 bytes"),
        (16, bytes(16), r"free space of the heap at byte \d+ must be \d+ bytes, got 0"),
    ],
)
def test_a_heap_that_does_not_advance_is_refused(at, text, message, good, tmp_path):
    """The last of these hangs HDF5."""
    content = bytearray(unsealed(good))
    start = content.find(b"GCOL") + at
    content[start : start + len(text)] = text
    path = tmp_path / "run.nc"
    path.write_bytes(content + seals.seal(bytes(content)))
    assert re.search(message, refusal(path))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "run.nc")
    assert "it must be a regular file" in refusal(tmp_path / "run.nc")
