"""The signs of the Λ_k of a kernel that takes the place of e^{βt}."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from meanfield.studies.proposition import witness
from meanfield.studies.proposition.evidence import FAILS, OPEN, Evidence
from meanfield.studies.proposition.kernels import Kernel

Array = NDArray[np.float64]


def signs(kernel: Kernel) -> Evidence:
    """Λ_k < 0 or Λ_k = 0 for some k >= 1 refutes: a polynomial has the latter beyond its degree.

    Of a polynomial exactly. Of a function beyond 1e-13 ∫ |W P_k| dσ; what is below it, and beyond
    kmax, may be 0, so that no function is shown to have Λ_k > 0 throughout.
    """
    kmax, exact = kernel.problem.kmax, kernel.exact
    finding, proof = (_of_polynomial if exact is not None else _of_function)(kernel)
    maximisers, other = witness.of_maximisers(kernel)
    data = xr.Dataset(
        {
            "eigenvalue": ("degree", kernel.values, {"long_name": "Λ_k of the kernel"}),
            "eigenvalue_rounding": ("degree", kernel.errors),
            "share_of_degree": ("degree", kernel.problem.weights),
        },
        coords={"degree": np.arange(kmax + 1)},
    )
    if kernel.unit != 1.0:
        for name in ("eigenvalue", "eigenvalue_rounding"):
            data[name].attrs["unit"] = kernel.unit
    found = "; ".join(one for one in (proof, other) if one)
    told = "; ".join(one for one in (finding, maximisers) if one)
    return Evidence("coefficients", FAILS if found else OPEN, told, data, witness=found)


def _of_polynomial(kernel: Kernel) -> tuple[str, str]:
    exact = kernel.exact or []
    degree = len(exact) - 1
    negative = [k for k in range(1, degree + 1) if exact[k] < 0]
    if negative:
        k = negative[0]
        return f"Λ_{k} = {_size(kernel, k)} < 0, exactly", witness.of_degree(kernel, k)
    zero = next((k for k in range(1, degree + 1) if exact[k] == 0), degree + 1)
    beyond = f"Λ_k = 0 for k > {degree}"
    told = beyond if zero > degree else f"Λ_{zero} = 0, and {beyond}"
    return f"{told}, exactly: the minimiser is not unique", witness.of_degree(kernel, zero)


def _of_function(kernel: Kernel) -> tuple[str, str]:
    values, errors, kmax = kernel.values, kernel.errors, kernel.problem.kmax
    degrees = np.arange(kmax + 1)
    negative = degrees[1:][values[1:] < -errors[1:]]
    if len(negative):
        k = int(negative[0])
        told = f"Λ_{k} = {_size(kernel, k)} < 0, beyond its rounding {errors[k]:.1g}"
        return told, witness.of_degree(kernel, k)
    hidden = degrees[1:][values[1:] <= errors[1:]]
    told = f"Λ_k > 0 for {kmax - len(hidden)} degrees k <= {kmax} in floating point"
    if len(hidden):
        told += f", |Λ_k| is below rounding for {len(hidden)}, k = {hidden[0]} the first"
    first = hidden[0] if len(hidden) else kmax + 1
    return f"{told}: where Λ_k = 0, as it may be for k = {first}, 1 + P_k has E = E(σ)", ""


def _size(kernel: Kernel, k: int) -> str:
    unit = "" if kernel.unit == 1.0 else f" · {kernel.unit:g}"
    return f"{kernel.values[k]:.6g}{unit}"
