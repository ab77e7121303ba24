"""Files that somebody else has made: one line for each, and none steers the terminal."""

import io
import struct
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

import meanfield as mf
from meanfield.cli.commands import main
from meanfield.cli.terminal import VisibleStream, visible, visible_output
from meanfield.evolution import netcdf
from meanfield.evolution.netcdf import Contents
from meanfield.evolution.solution import FORMAT, FORMAT_VERSION
from tests.refusals.bad_cases import CSV, toml

EVIL = "\x1b[2J\x9b1m\u202eevil\rover\nstatus  finished"
START = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))


def answer(capsys, *arguments):
    """The exit status of a command and all that it writes, which steers no terminal."""
    status = main([*arguments])
    written = "".join(capsys.readouterr())
    assert all(c.isprintable() or c in "\n\t" for c in written), repr(written)
    return status, written


@pytest.fixture
def good(folder):
    """The contents of a result, which `forge` writes changed under a checksum and a seal."""
    mf.evolve(START, mf.SA(1.0), 0.1, 2, monitors={"m": mf.Density.mass}).save("good.nc")
    with netcdf.opened(Path("good.nc"), FORMAT, FORMAT_VERSION) as stored:
        read = {n: one._replace(values=one.values[...]) for n, one in stored.variables.items()}
        return Contents(read, dict(stored.attrs))


def forge(good, variables=None, attrs=None):
    bad = Contents(good.variables | (variables or {}), good.attrs | (attrs or {}))
    bad.attrs["checksum"] = bad.checksum()
    netcdf.write(bad, Path("bad.nc"))


def test_what_is_written_to_a_terminal_can_be_seen():
    stream = io.StringIO()
    visible_stream = VisibleStream(stream)
    print(EVIL, "β …", file=visible_stream)
    visible_stream.writelines(["\x07", "a\tb\n"])
    assert stream.getvalue() == (
        "\\x1b[2J\\x9b1m\\u202eevil\\rover\nstatus  finished β …\n\\x07a\tb\n"
    )
    assert visible("\ud800\x7f") == "\\ud800\\x7f"


def test_a_bar_may_come_back_to_its_line():
    stream = io.StringIO()
    from tqdm import tqdm

    bars = [tqdm(total=2, file=VisibleStream(stream), position=place) for place in (0, 1)]
    bars[0].set_postfix_str("\x1b[31mred")
    for bar in bars:
        bar.close()
    moves = stream.getvalue().replace("\x1b[A", "").replace("\r", "")
    assert "\x1b[A" in stream.getvalue()
    assert "\x1b" not in moves
    assert "\\x1b[31mred" in moves


def test_output_is_as_it_was_after_a_command(capsys):
    before = sys.stdout, sys.stderr
    assert main(["--version"]) == 0
    assert (sys.stdout, sys.stderr) == before
    with visible_output():
        assert sys.stdout.fileno is not None
        sys.stderr.write("\x1b")
    assert capsys.readouterr().err == "\\x1b"


def test_info_shows_attributes_and_steers_nothing(good, capsys):
    """Lines of its own among them."""
    for name in ("source", "evil\x1b[1m\nstatus", "rtol"):
        forge(good, attrs={name: EVIL})
        status, written = answer(capsys, "info", "bad.nc")
        assert status == 0
        assert "\nstatus" not in written
        assert "\\x1b" in written
    forge(good, attrs={"message": EVIL})
    assert "evil over status finished" in answer(capsys, "info", "bad.nc")[1]


def test_the_text_of_a_case_steers_nothing(good, folder, capsys):
    (folder / "case.toml").write_text("# \x9b2J \u202e\n[law]\ntype = '\u202e\u0085'\n")
    assert answer(capsys, "run", "case.toml")[0] == 2
    forge(good, attrs={"case": "# \x9b2J \u202e\n"})
    assert answer(capsys, "run", "bad.nc", "--print-case")[0] in (0, 2)
    evil = folder / "\x1b[31m\u202e.nc"
    evil.write_bytes(b"nothing")
    for command in ("info", "plot", "report", "resume", "run"):
        status, written = answer(capsys, command, str(evil))
        assert (status, written.count("\n")) == (2, 1)


def test_a_small_file_holds_few_words(good, folder, capsys, monkeypatch):
    """Nothing of them is read: fill values take no room in a file, and all time to be read."""
    forge(good)
    with h5py.File("bad.nc", "r+") as file:
        words = file.create_dataset(
            "words", (2 * 10**8,), dtype=h5py.string_dtype(), chunks=(10**6,), fillvalue="word"
        )
        words.dims[0].label = "words"
    assert Path("bad.nc").stat().st_size < 100_000
    monkeypatch.setattr(h5py.Dataset, "asstr", None)
    status, written = answer(capsys, "info", "bad.nc")
    assert (status, written.count("\n")) == (2, 1)
    with h5py.File("bad.nc", "r+") as file:
        # a larger file might hold them
        file.create_dataset("noise", data=np.random.default_rng(0).normal(size=500_000))
    status, written = answer(capsys, "info", "bad.nc")
    assert (status, written.count("\n")) == (2, 1)
    assert "at most 1000000 words" in written
    with h5py.File("bad.nc", "r+") as file:
        del file["words"], file["noise"]
        file.create_dataset("numbers", (10**8,), dtype=float, chunks=(10**6,))
    status, written = answer(capsys, "info", "bad.nc")
    assert (status, written.count("\n")) == (2, 1)


def packed(name="points.npy", how=zipfile.ZIP_DEFLATED):
    """An NPZ file of points with the bytes of its one stream."""
    content, stream = io.BytesIO(), io.BytesIO()
    np.save(stream, np.random.default_rng(0).normal(size=(300, 3)))
    with zipfile.ZipFile(content, "w", how) as file:
        file.writestr(name, stream.getvalue())
    return bytearray(content.getvalue())


def hostile_clouds():
    """Names and contents of files of points that can't be read."""
    whole = packed()
    rng = np.random.default_rng(0)
    for i in range(40):
        some = bytearray(whole)
        for at in rng.integers(0, len(some), size=rng.choice([1, 3, 30])):
            some[at] = rng.integers(0, 256)
        yield f"flipped{i}.npz", some
        yield f"cut{i}.npz", whole[: rng.integers(1, len(whole))]
    for how in (zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        some = packed(how=how)
        some[60:90] = bytes(30)
        yield f"stream{how}.npz", some
    # a way to pack that there is not, and a password
    for at, value in ((8, 99), (6, 1)):
        some = bytearray(whole)
        central = some.index(b"PK\x01\x02")
        some[at : at + 2] = some[central + at + 2 : central + at + 4] = struct.pack("<H", value)
        yield f"header{at}.npz", some
    yield "named.npy", whole
    yield "other.npz", packed("x.npy")
    yield "empty.npz", b""
    for i, header in enumerate(
        ("{" * 500, "(" * 5000, "{'descr': '<f8', 'shape': (1,)}", "\0" * 9)
    ):
        text = header.encode()
        yield f"header{i}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    yield (
        "objects.npy",
        b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (3, 3), }"
        + b" " * 60
        + b"\n"
        + b"x" * 72,
    )


def test_clouds_that_can_not_be_read_are_refused_in_a_line(folder, capsys):
    clouds = dict(hostile_clouds()) | {f"{'a' * 5000}.{kind}": None for kind in ("npz", "csv")}
    statuses = set()
    for name, content in clouds.items():
        if content is not None:
            (folder / name).write_bytes(content)
        cloud = f'type = "PointCloud"\npoints = "{name}"'
        (folder / "case.toml").write_text(toml(CSV | {"law": cloud}))
        status, written = answer(capsys, "run", "case.toml", "-q", "--force", "-o", "run.nc")
        statuses.add(status)
        # some flipped bits are in dates that nobody reads
        assert status == 2 or (name.startswith("flipped") and status == 0), name
        assert written.count("\n") == (status == 2), (name, written)
    assert 2 in statuses


def test_names_that_are_too_long(folder, capsys):
    name = f"{'a' * 5000}.nc"
    for command in (["info"], ["resume"], ["plot"], ["report"], ["run"], ["run", "-o"]):
        status, written = answer(capsys, *command, name)
        assert (status, written.count("\n")) == (2, 1), command
    with pytest.raises(ValueError, match="checkpoint must be the name of a file"):
        mf.evolve(START, mf.SA(1.0), 0.1, checkpoint=name)
