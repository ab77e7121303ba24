"""What a part of the study found."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

PROVED, HOLDS, OPEN, FAILS = "proved", "holds", "open", "fails"


@dataclass(frozen=True)
class Evidence:
    """The outcome of one part for one β.

    Attributes
    ----------
    part : str
    status : str
        'proved', 'holds' (within the error that the part states), 'open' (not decided) or 'fails'.
    finding : str
        A sentence with the numbers.
    data : xarray.Dataset
    """

    part: str
    status: str
    finding: str
    data: xr.Dataset
