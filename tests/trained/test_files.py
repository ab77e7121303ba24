"""Files of trained models: what is read of them, and how bad ones are refused."""

import io
import json
import pickle
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import meanfield as mf
from meanfield.trained.files import open_arrays
from tests.children import ENVIRONMENT

RNG = np.random.default_rng(0)
STATES = RNG.normal(size=(4, 5, 6))
KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def to_bfloat16(values):
    """The upper halves of float32 numbers, cut."""
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype("<u2")


def as_safetensors(arrays, words=None, header=None, tail=b""):
    """The bytes of a file of arrays by name, each with its dtype; or with another header."""
    about, numbers = {"__metadata__": words} if words else {}, b""
    for name, (dtype, values) in arrays.items():
        content = to_bfloat16(values) if dtype == "BF16" else np.asarray(values, KINDS[dtype])
        ends = [len(numbers), len(numbers) + content.nbytes]
        about[name] = {"dtype": dtype, "shape": list(content.shape), "data_offsets": ends}
        numbers += content.tobytes()
    text = json.dumps(about).encode() if header is None else header
    return struct.pack("<Q", len(text)) + text + numbers + tail


def written(path, content):
    path.write_bytes(content)
    return path


# of a number that is rounded to so many bits; bfloat16 is cut
PRECISIONS = {"F64": 0.0, "F32": 2.0**-24, "F16": 2.0**-11, "BF16": 2.0**-7}


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_safetensors_hold_numbers_of_every_precision(dtype, tmp_path):
    arrays = {"other": ("I64", [1, 2]), "states": (dtype, STATES)}
    words = {"norm": "rms", "norm_eps": "1e-6", "mask": "causal"}
    states = mf.LayerStates.from_file(
        written(tmp_path / "a.safetensors", as_safetensors(arrays, words))
    )
    assert repr(states.norm) == "Norm('rms', 'before', eps=1e-06)"
    assert not states.allowed[0, 1]
    for layer in range(4):
        error = np.abs(states.state(layer) / STATES[layer] - 1.0).max()
        assert error <= PRECISIONS[dtype]


@pytest.mark.parametrize("start", [b"PK", b"\x80\x02", b"\x80\x04"])
def test_the_length_of_a_header_may_look_like_another_format(start, tmp_path):
    about = {"states": {"dtype": "F32", "shape": [4, 5, 6], "data_offsets": [0, 480]}}
    header = json.dumps(about).encode().ljust(int.from_bytes(start, "little"))
    content = as_safetensors({}, header=header, tail=STATES.astype("<f4").tobytes())
    assert content.startswith(start)
    states = mf.LayerStates.from_file(written(tmp_path / "a", content))
    assert np.array_equal(states.state(3), STATES[3].astype("<f4"))


def test_bfloat16_is_read_to_the_bit(tmp_path):
    # sign, the least and the largest exponent, and the last bit of the mantissa
    values = np.array([1.0, -2.0, 1.0078125, 2.0**-126, -3.3895313892515355e38, 0.15625])
    content = as_safetensors({"a": ("BF16", values)})
    assert open_arrays(written(tmp_path / "a", content))["a"][()].tolist() == values.tolist()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, np.save])
def test_npz_and_npy_are_read_by_layer(save, order, tmp_path):
    array = np.asarray(STATES, order=order)
    path = tmp_path / ("a.npy" if save is np.save else "a.npz")
    save(path, array) if save is np.save else save(path, states=array, tokens=["a"] * 5)
    states = mf.LayerStates.from_file(path)
    for layer in (2, 0, 3, 1):
        assert np.array_equal(states.state(layer), STATES[layer])
    assert states.tokens == (None if save is np.save else ("a",) * 5)


def test_prompts_are_read_alone(tmp_path):
    array = RNG.normal(size=(3, 2, 4, 5))
    np.save(tmp_path / "a.npy", array)
    states = mf.LayerStates.from_file(tmp_path / "a.npy")
    assert np.array_equal(states.prompt(1).state(2), array[2, 1])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_heads_are_read_alone(save, order, tmp_path):
    attention = np.full((2, 3, 4, 5, 5), 0.2)
    attention += 0.01 * RNG.random((2, 3, 4, 5, 1)) * np.array([1.0, -1.0, 0.0, 2.0, -2.0])
    attention = np.asarray(attention, order=order)
    save(tmp_path / "a.npz", states=RNG.normal(size=(3, 3, 5, 6)), attention=attention)
    states = mf.LayerStates.from_file(tmp_path / "a.npz").prompt(2)
    assert np.array_equal(states.attention_at(1), attention[1, 2])
    for head, weights in enumerate(states.heads_at(1)):
        assert np.array_equal(weights, attention[1, 2, head])
    assert head == 3


def npz(**members):
    """The bytes of an archive of members, arrays or bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            content = content if isinstance(content, bytes) else npy(content)
            archive.writestr(name if "." in name else f"{name}.npy", content)
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


GOOD = npy(STATES)
TENSORS = as_safetensors({"states": ("F32", STATES)})
SHAPE = b"(4, 5, 6)"


def with_header(**changes):
    about = {"dtype": "F32", "shape": [4, 5, 6], "data_offsets": [0, 480]} | changes
    text = json.dumps({"states": about}).encode()
    return as_safetensors({}, header=text, tail=b"\0" * 480)


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("trapped"),)


BAD = {
    "an empty file": (b"", "it is no npz, npy or safetensors file"),
    "words": (b"states of a model", "it is no npz, npy or safetensors file"),
    "a pickle": (pickle.dumps(Trap(), 2), r"it is a pickle, .* np.savez\('bad.npz', \*\*{name: te"),
    "a pickle of protocol 5": (pickle.dumps(Trap(), 5), r"it is a pickle, which may run anything"),
    "a file of torch": (npz(**{"a/data.pkl": b"x"}), None),
    "objects": (npz(states=np.array([Trap()])), "states must hold numbers or words, got dtype obj"),
    "objects in an npy file": (npy(np.array([Trap()])), "states must hold numbers or words"),
    "complex numbers": (npy(STATES + 0j), "states must hold numbers or words, got dtype complex"),
    "an npy file cut short": (GOOD[:-8], r"of shape \(4, 5, 6\) and dtype float64, but has 952 b"),
    "an npy file that goes on": (GOOD + b"x", "but has 961 bytes"),
    "an npy header cut short": (GOOD[:40], "EOF: reading array header, expected"),
    "an npy header that lies": (
        GOOD.replace(SHAPE, b"(9, 5, 6)"),
        r"of shape \(9, 5, 6\) and dtype float64, but has 960",
    ),
    "a shape below 0": (GOOD.replace(SHAPE, b"(-4,5,-6)"), r"of shape \(-4, 5, -6\)"),
    "an npy header of code": (GOOD.replace(b"False", b"f(1) "), "malformed node|annot parse"),
    "another version": (GOOD.replace(b"NUMPY\x01", b"NUMPY\x09"), "states is of version"),
    "an archive cut short": (npz(states=STATES)[:-30], "it is damaged: File is not a zip file"),
    "a member that lies": (npz(states=GOOD.replace(SHAPE, b"(9, 5, 6)")), "but has 960 bytes"),
    "a member that is no array": (npz(states=b"words"), "magic string"),
    "no states": (npz(hidden=STATES), r"arrays must have states, or blocks.0.hook_resid_pre"),
    "a safetensors file cut short": (TENSORS[:-1], "480 bytes of numbers, but 479 are there"),
    "one that goes on": (TENSORS + b"\0", "its header is of 480 bytes of numbers, but 481"),
    "a header cut short": (TENSORS[:40], "its header is said to have"),
    "a header without end": (struct.pack("<Q", 2**63) + b"{}", "said to have 9223372036854775808"),
    "a header that is no JSON": (as_safetensors({}, header=b"{states}"), "Expecting property name"),
    "a header of bytes": (as_safetensors({}, header=b"{\xff\xff}"), "codec can't decode"),
    "a header nested deep": (
        as_safetensors({}, header=b'{"a":' + b"[" * 99_999 + b"]" * 99_999 + b"}"),
        "nested too deep|must have a dtype",
    ),
    "a name twice": (as_safetensors({}, header=b'{"a": 1, "a": 2}'), "has a name twice"),
    "metadata of numbers": (as_safetensors({}, words={"norm": 3}), "__metadata__ must be words"),
    "an unknown dtype": (
        with_header(dtype="F8_E4M3"),
        "states must be of one of .*, got 'F8_E4M3'",
    ),
    "a dtype that is no word": (with_header(dtype=[]), "states must have a dtype"),
    "too large a shape": (with_header(shape=[4, 5, 7]), "must be bytes 0 to 560 of the numbers"),
    "a huge shape": (with_header(shape=[2**62, 2**62]), "must be bytes 0 to"),
    "a shape of halves": (with_header(shape=[4, 5, 6.0]), "must have a shape of integers >= 0"),
    "a negative shape": (with_header(shape=[-4, -5, 6]), "must have a shape of integers >= 0"),
    "offsets that begin late": (with_header(data_offsets=[8, 488]), "got 8 to 488"),
    "offsets of too few bytes": (with_header(data_offsets=[8, 480]), "got 8 to 480"),
    "offsets the wrong way": (with_header(data_offsets=[480, 0]), "two data_offsets"),
    "no offsets": (with_header(data_offsets=None), "must have a dtype, a shape and two data_off"),
    "numbers that overlap": (
        as_safetensors(
            {},
            header=json.dumps(
                {n: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for n in "ab"}
            ).encode(),
            tail=b"\0" * 8,
        ),
        "b of shape .* must be bytes 8 to 16 of the numbers, got 0 to 8",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_refused_in_one_line(what, folder):
    content, message = BAD[what]
    written(folder / "bad", content)
    with pytest.raises(ValueError, match=message or "it is a pickle") as refused:
        mf.LayerStates.from_file("bad")
    text = str(refused.value)
    assert len(text.splitlines()) == 1
    assert text.startswith("can't read bad: ")
    assert [path.name for path in folder.iterdir()] == ["bad"]


def test_numbers_that_are_bad_are_refused_when_they_are_read(folder):
    states = STATES.astype(np.float16)
    states[2, 1, 3] = np.inf
    np.savez(folder / "a.npz", states=states)
    read = mf.LayerStates.from_file("a.npz")
    assert read.state(1).shape == (5, 6)
    message = r"^states of layer 2 must be finite, got inf at index \(1, 3\): float16 ends at 65504"
    with pytest.raises(ValueError, match=message):
        read.state(2)
    with pytest.raises(ValueError, match=message):
        read.points(2)


def test_a_file_that_is_cut_while_it_is_open_is_told(folder):
    written(folder / "a.safetensors", TENSORS)
    states = mf.LayerStates.from_file("a.safetensors")
    written(folder / "a.safetensors", TENSORS[:-8])
    with pytest.raises(ValueError, match=r"a\.safetensors: it is cut short within states$"):
        states.state(3)
    assert states.state(2).shape == (5, 6)


@pytest.mark.parametrize("path", [None, 3.0, ["a.npz"]])
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises(ValueError, match=r"^path must be the name of a file, got"):
        mf.LayerStates.from_file(path)


def test_a_file_that_is_not_there_is_told(folder):
    with pytest.raises(mf.exceptions.MissingFileError, match=r"^there is no file none\.npz$"):
        mf.LayerStates.from_file("none.npz")


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="Linux counts what is read")
@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.safetensors"])
def test_opening_reads_headers_alone(name, folder):
    """Of 16 MB of numbers no more than the buffers of files."""
    states = np.zeros((16, 64, 4096), np.float32)
    even = np.full((15, 32, 64, 64), 1.0 / 64.0)
    content = {
        "a.npz": lambda: npz(states=states, attention=even),
        "a.npy": lambda: npy(states),
        "a.safetensors": lambda: as_safetensors({"states": ("F32", states)}),
    }
    written(folder / name, content[name]())
    # what importing reads is not counted
    mf.LayerStates.from_file(name)
    before = bytes_read()
    read = mf.LayerStates.from_file(name)
    opened = bytes_read()
    read.state(9)
    after = bytes_read()
    assert opened - before < 100_000
    assert 1 << 20 <= after - opened < (1 << 20) + 200_000
    if read.n_heads:
        # of 1 MB of a layer a thirty-second
        next(read.heads_at(9))
        assert 1 << 15 <= bytes_read() - after < (1 << 15) + 20_000


def bytes_read():
    return int(re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())[1])


# in MiB; a layer is 47 as bfloat16, 188 as float64
LARGEST_PEAK = 600
LARGE = """
import re, sys
from pathlib import Path
import numpy as np
import meanfield as mf
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
def read():
    return int(Path("/proc/self/io").read_text().split()[1])
# the room is imported, and what it needs
mf.LayerStates(np.array([np.eye(2)] * 2), norm=mf.trained.Norm("layer")).points(0)
first, before = peak(), read()
states = mf.LayerStates.from_file(sys.argv[1])
opened = read()
points = states.points(40)
print(states, opened - before, peak() - first, *points[17, :3])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="files with holes, and the counts of Linux")
def test_a_layer_of_a_file_of_five_gigabytes_is_read_in_600_megabytes(tmp_path):
    layers, n, d, layer = 97, 6000, 4096, 40
    size = 2 * n * d
    about = {"dtype": "BF16", "shape": [layers, n, d], "data_offsets": [0, layers * size]}
    words = {"norm": "layer", "mask": "causal"}
    header = json.dumps({"__metadata__": words, "states": about}).encode()
    rows = to_bfloat16(np.random.default_rng(0).normal(size=(n, d)))
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.seek(layer * size, 1)
        file.write(rows.tobytes())
        file.truncate(8 + len(header) + layers * size)
    assert path.stat().st_size > 4.7e9
    command = [sys.executable, "-c", LARGE, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)
    *_, opened, peak, x, y, z = done.stdout.split()
    assert done.stdout.startswith("LayerStates(96 layers, 6000 tokens of dimension 4096)")
    # the header, once to look at and once to read
    assert int(opened) < 20_000
    assert float(peak) < LARGEST_PEAK
    row = (rows[17].astype(np.uint32) << 16).view(np.float32).astype(float)
    row -= row.mean()
    wanted = row / np.linalg.norm(row)
    assert np.abs(wanted[:3] - [float(x), float(y), float(z)]).max() < 1e-15
