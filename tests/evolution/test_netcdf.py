"""Files as HDF5 has them: what xarray would write, whole or not at all."""

import os
import stat

import h5py
import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.evolution import netcdf
from tests.handmade import densities, names, solution


def test_files_have_what_xarray_would_write(tmp_path):
    """Numbers of all kinds, words, truth values, bare and shared coordinates, and attributes."""
    ds = xr.Dataset(
        {
            "double": (("t", "word"), np.array([[0.1, np.nan], [-0.0, np.inf]]), {"units": "1"}),
            "single": ("t", np.array([0.1, 2], "f4")),
            "small": ("t", np.array([-1, 2], "i2")),
            "holds": ("t", [True, False]),
            "said": ("t", np.array(["β\n", ""], dtype=object)),
            "none": ("empty", np.zeros(0)),
            "count": ((), 3),
            "name": ((), "one"),
        },
        coords={"t": [1, 2], "word": ["a", "b"], "label": ("t", ["p", "q"]), "at": ((), 0.5)},
        attrs={"title": "σ", "beta": 0.1, "axis": np.eye(3)[0], "version": 1, "case": ""},
    )
    encoding = {name: {"_FillValue": None, "zlib": True} for name in ds.variables if ds[name].ndim}
    encoding["at"] = {"_FillValue": None}
    ours, theirs = tmp_path / "ours.nc", tmp_path / "theirs.nc"
    netcdf.write(ds, ours)
    ds.to_netcdf(theirs, engine="h5netcdf", encoding=encoding)
    assert dump(ours) == dump(theirs)
    ours_read = xr.load_dataset(ours, engine="h5netcdf")
    xr.testing.assert_identical(ours_read, ds)
    assert ours_read.dtypes == xr.load_dataset(theirs, engine="h5netcdf").dtypes
    with pytest.raises(ValueError, match="z must hold numbers or words, got complex128"):
        netcdf.write(xr.Dataset({"z": ("t", [1j])}), ours)


def dump(path):
    """All that HDF5 keeps of a file, apart from where it keeps it."""
    with h5py.File(path, "r") as file:
        kept = {"": attributes(file)}
        for name, variable in file.items():
            plan = variable.id.get_create_plist()
            filters = [plan.get_filter(i) for i in range(plan.get_nfilters())]
            kind = (variable.dtype, variable.shape, variable.maxshape, variable.chunks, filters)
            kept[name] = repr((kind, variable.fillvalue, variable[()], attributes(variable)))
    return kept


def attributes(owner):
    """References are other ones in each file."""
    ids = {name: owner.attrs.get_id(name) for name in owner.attrs}
    is_list = {name: name in ("DIMENSION_LIST", "REFERENCE_LIST") for name in ids}
    return [
        (name, at.dtype.kind, at.shape, None if is_list[name] else repr(owner.attrs[name]))
        for name, at in ids.items()
    ]


def test_a_file_is_replaced_by_a_whole_one(tmp_path):
    path = tmp_path / "run.nc"
    path.write_text("the last good one")
    sol = solution(densities("circle"))
    sol.dataset["words"] = "t", list("abcd")
    with pytest.raises(ValueError, match="words must hold numbers, got <U1"):
        sol.save(path)
    assert path.read_text() == "the last good one"
    assert names(tmp_path) == ["run.nc"]
    solution(densities("circle")).save(path)
    assert mf.load(path).status == "under-resolved"
    assert names(tmp_path) == ["run.nc"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
