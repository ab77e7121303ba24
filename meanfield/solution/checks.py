"""What makes a file of numbers worth trusting: their kinds, and a checksum."""

from __future__ import annotations

import hashlib

import numpy as np
import xarray as xr

# the attributes that load makes something of
_READ = (
    *("dynamics", "beta", "sign", "noise", "space", "axis", "status", "message", "case"),
    *("flow_law", "flow_scale", "flow_tol", "flow_dim", "flow_axis"),
)
_READ_WHERE_PRESENT = ("dynamics_record", "particle_sums", "resumption")


def check_numbers(stored: xr.Dataset) -> None:
    """Check that all variables hold numbers.

    Raises
    ------
    ValueError
        If one does not.
    """
    for name, variable in stored.variables.items():
        if variable.dtype.kind not in "biuf":
            raise ValueError(f"{name} must hold numbers, got {variable.dtype}")


def checksum(stored: xr.Dataset) -> str:
    """SHA-256 of all that is read: a damaged index of a file can turn numbers into zeros."""
    digest = hashlib.sha256()
    for name in (*_READ, *(name for name in _READ_WHERE_PRESENT if name in stored.attrs)):
        digest.update(f"{name}: {np.ravel(stored.attrs.get(name, '')).tolist()}\n".encode())
    for name in sorted(map(str, stored.variables)):
        values = np.ascontiguousarray(stored[name].values)
        digest.update(f"{name}: {values.dtype} {values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()
