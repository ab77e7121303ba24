"""Seals of result files, and files that are too large or no files."""

import os
import re

import numpy as np
import pytest
from handmade import densities, solution

import meanfield as mf
from meanfield.evolution import netcdf

SOLUTION = solution(densities("circle"), case="[run]")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "good.nc"
    SOLUTION.save(path)
    return path.read_bytes()


def unsealed(content):
    return content[: -len(netcdf.seal(b""))]


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


def test_numbers_beyond_the_memory_are_refused(good, tmp_path, monkeypatch):
    path = tmp_path / "run.nc"
    path.write_bytes(good)
    monkeypatch.setattr(netcdf, "memory_of_machine", lambda: 1e4)
    assert re.search(r"it holds \d+ bytes of numbers, of which .* at most 2500", refusal(path))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "run.nc")
    assert "it must be a regular file" in refusal(tmp_path / "run.nc")
