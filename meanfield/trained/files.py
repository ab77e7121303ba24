"""Arrays of npz, npy and safetensors files, of which a layer is read when it is asked for."""

from __future__ import annotations

import json
import math
import os
import struct
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from meanfield._checks import shown, unmasked
from meanfield.evolution.netcdf import refusals
from meanfield.typing import ArrayLike, NDArray

# an array may have numbers or words of any type
AnyArray = NDArray[np.generic]
# a stream opens what has the numbers of an array: a file, or a member of an archive
Stream = Callable[[], AbstractContextManager[IO[bytes]]]


class Stored(ABC):
    """An array of which parts are read when they are asked for."""

    shape: tuple[int, ...]
    in_memory = False

    @abstractmethod
    def __getitem__(self, index: tuple[int, ...]) -> AnyArray:
        """The part at an index into the first axes; all of it at ``()``."""

    @abstractmethod
    def parts(self, index: tuple[int, ...]) -> Iterator[AnyArray]:
        """The parts along the axis behind an index, of which one is read after the other."""


class InMemory(Stored):
    """An array whose numbers are there already."""

    in_memory = True

    def __init__(self, values: AnyArray) -> None:
        self._values, self.shape = values, values.shape

    def __getitem__(self, index: tuple[int, ...]) -> AnyArray:
        return np.asarray(self._values[index])

    def parts(self, index: tuple[int, ...]) -> Iterator[AnyArray]:
        return iter(self._values[index])


def as_stored(name: str, values: Stored | ArrayLike) -> Stored:
    """An array of a file as it is, any other as one of numpy, if nothing in it is masked."""
    return values if isinstance(values, Stored) else InMemory(unmasked(name, values))


class Stack(Stored):
    """Arrays of one shape, one for each layer, as one array."""

    def __init__(self, layers: Sequence[Stored | AnyArray]) -> None:
        self._layers = layers
        self.shape = (len(layers), *map(int, layers[0].shape))
        for layer, part in enumerate(layers):
            if tuple(part.shape) != self.shape[1:]:
                raise ValueError(
                    f"layers must have one shape, got {self.shape[1:]} in layer 0 and "
                    f"{tuple(part.shape)} in layer {layer}"
                )

    def __getitem__(self, index: tuple[int, ...]) -> AnyArray:
        return unmasked(f"layer {index[0]}", self._layers[index[0]][index[1:]])

    def parts(self, index: tuple[int, ...]) -> Iterator[AnyArray]:
        """The parts of the layer that the index begins with."""
        layer = self._layers[index[0]]
        return layer.parts(index[1:]) if isinstance(layer, Stored) else iter(self[index])


@dataclass(frozen=True)
class FileArray(Stored):
    """An array in a file: where its numbers begin, and what they are.

    Parameters
    ----------
    path : Path
    name : str
    stream : callable
        Opens what has the numbers: the file, or a member of an archive.
    start : int
        Where they begin in it, in bytes.
    dtype : numpy.dtype
    shape : tuple of int
    by_column : bool
        Whether the first index varies fastest.
    is_bfloat16 : bool
        Whether each two bytes are the first half of a float32.
    """

    path: Path
    name: str
    stream: Stream
    start: int
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    by_column: bool = False
    is_bfloat16: bool = False

    def __getitem__(self, index: tuple[int, ...]) -> AnyArray:
        if self.by_column and index:
            return np.asarray(self[()][index])
        (part,) = self._read(index, 1)
        return part

    def parts(self, index: tuple[int, ...]) -> Iterator[AnyArray]:
        """The parts along an axis; a compressed member is unpacked once for all of them."""
        if self.by_column:
            return iter(self[index])
        return self._read((*index, 0), self.shape[len(index)])

    def _read(self, index: tuple[int, ...], count: int) -> Iterator[AnyArray]:
        """Yield so many parts one after another, the first of them at an index."""
        shape = self.shape[len(index) :]
        size = math.prod(shape) * self.dtype.itemsize
        place = 0
        for i, length in zip(index, self.shape, strict=False):
            place = place * length + i
        with refusals(self.path), self.stream() as file:
            file.seek(self.start + place * size)
            for _ in range(count):
                data = file.read(size)
                if len(data) != size:
                    raise ValueError(f"it is cut short within {self.name}")
                yield self._numbers(data).reshape(shape, order="F" if self.by_column else "C")

    def _numbers(self, data: bytes) -> AnyArray:
        array = np.frombuffer(data, self.dtype)
        if self.is_bfloat16:
            bits = array.astype(np.uint32)
            bits <<= 16
            array = bits.view(np.float32)
        return array


def open_arrays(path: str | os.PathLike[str]) -> dict[str, FileArray | str]:
    """The arrays of a file by their names, and its words; none is read yet.

    Parameters
    ----------
    path : str or path-like
        An npz file; an npy file, whose array is called "states"; or a safetensors file of float32,
        float16, bfloat16 or integers. The content says which of them it is.

    Raises
    ------
    ValueError
        If it is none of them, a pickle, or does not hold what its headers say.
    """
    try:
        path = Path(path)
    except TypeError:
        raise ValueError(f"path must be the name of a file, got {shown(path)}") from None
    with refusals(path):
        with path.open("rb") as file:
            head = file.read(9)
        if head.startswith(b"\x93NUMPY"):
            size = path.stat().st_size
            return {"states": _in_npy(path, "states", partial(_open, path), 0, size)}
        # safetensors comes before others, since the length of a header may begin with any bytes
        if head[8:] == b"{":
            return _in_safetensors(path)
        if head.startswith(b"PK"):
            return _in_npz(path)
        if head.startswith(b"\x80"):
            raise ValueError(f"it is a pickle, {_advice(path)}")
        raise ValueError(f"it is no npz, npy or safetensors file, and begins with {head!r}")


def _open(path: Path) -> IO[bytes]:
    return path.open("rb")


def _advice(path: Path) -> str:
    return (
        "which may run anything; what can be read is written by "
        f"np.savez({path.stem + '.npz'!r}, **{{name: tensor.float().numpy() for name, tensor in "
        f"torch.load({path.name!r}, weights_only=True).items()}})"
    )


@contextmanager
def _member(path: Path, name: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open(name) as file:
        yield file


def _in_npz(path: Path) -> dict[str, FileArray | str]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if any(member.filename.endswith(".pkl") for member in members):
        raise ValueError(f"it is a pickle, {_advice(path)}")
    arrays: dict[str, FileArray | str] = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        stream: Stream = partial(_member, path, member.filename)
        start = 0
        if member.compress_type == zipfile.ZIP_STORED:
            # an uncompressed member lies in the file as it is, so a layer is read without those
            # before it
            stream, start = partial(_open, path), _first_of(path, member.header_offset)
        arrays[name] = _in_npy(path, name, stream, start, member.file_size)
    return arrays


def _first_of(path: Path, header: int) -> int:
    """The first byte of the content of a member of an archive, after its name and extra fields."""
    with path.open("rb") as file:
        file.seek(header)
        name, extra = struct.unpack("<HH", file.read(30)[26:])
    return header + 30 + int(name) + int(extra)


_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _in_npy(path: Path, name: str, stream: Stream, first: int, size: int) -> FileArray:
    """Return the array of so many bytes, header included, after the first bytes of a stream."""
    with stream() as file:
        file.seek(first)
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"{name} is of version {version} of the npy format, not 1 or 2")
        shape, by_column, dtype = _HEADERS[version](file)
        start = file.tell()
    if dtype.kind not in "iufbU":
        raise ValueError(f"{name} must hold numbers or words, got dtype {dtype}")
    n_bytes = first + size - start
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != n_bytes:
        raise ValueError(
            f"{name} is said to be of shape {shape} and dtype {dtype}, but has {n_bytes} bytes"
        )
    return FileArray(path, name, stream, start, dtype, shape, by_column)


_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}
# the format allows no longer header
_LONGEST_HEADER = 100_000_000


def _in_safetensors(path: Path) -> dict[str, FileArray | str]:
    """The arrays that the header lists: its length in 8 bytes, a JSON object, and the numbers."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        start = 8 + length
        if length > min(_LONGEST_HEADER, size - 8):
            raise ValueError(f"its header is said to have {length} bytes, the file has {size}")
        try:
            header = json.loads(file.read(length), object_pairs_hook=_without_twins)
        except RecursionError:
            raise ValueError(f"its header of {length} bytes is nested too deep") from None
    arrays: dict[str, FileArray | str] = {}
    arrays.update(_words(header.pop("__metadata__", {})))
    place = 0
    for name, entry in sorted(header.items(), key=_first_byte):
        dtype, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if dtype not in _DTYPES:
            raise ValueError(f"{name} must be of one of {(*_DTYPES,)}, got {shown(dtype)}")
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"{name} must have a shape of integers >= 0, got {shown(shape)}")
        kind = np.dtype(_DTYPES[dtype])
        wanted = place + math.prod(shape) * kind.itemsize
        if (first, last) != (place, wanted):
            raise ValueError(
                f"{name} of shape {tuple(shape)} and dtype {dtype} must be bytes {place} to "
                f"{wanted} of the numbers, got {first} to {last}"
            )
        stream = partial(_open, path)
        arrays[name] = FileArray(
            path, name, stream, start + first, kind, tuple(shape), is_bfloat16=dtype == "BF16"
        )
        place = last
    if start + place != size:
        raise ValueError(f"its header is of {place} bytes of numbers, but {size - start} are there")
    return arrays


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = next(name for name, _ in pairs if sum(name == other for other, _ in pairs) > 1)
        raise ValueError(f"its header has a name twice, {shown(twice)}")
    return content


def _words(content: object) -> dict[str, str]:
    if not isinstance(content, dict) or not all(isinstance(v, str) for v in content.values()):
        raise ValueError(f"its __metadata__ must be words by name, got {shown(content)}")
    return content


def _first_byte(item: tuple[str, object]) -> int:
    name, entry = item
    match entry:
        case {"dtype": str(), "shape": _, "data_offsets": [int(first), int(last)]} if first <= last:
            # an empty array sorts before the array that begins at the same byte
            return 2 * first + (last > first)
    raise ValueError(f"{name} must have a dtype, a shape and two data_offsets, got {shown(entry)}")
