"""What a part of the study found."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

PROVED, HOLDS, OPEN = "proved", "holds", "open"
DIFFERS, FAILS = "differs", "fails"
# what numbers that differ say
FAULT = "a fault of this package or its libraries, not of the proposition"


@dataclass(frozen=True)
class Evidence:
    """The outcome of one part for one β.

    Attributes
    ----------
    part : str
    status : str
        'proved', 'holds' (within the error that the part states), 'open' (not decided), 'differs'
        (numbers that must agree do not, which says nothing of the proposition) or 'fails' (there is
        a witness).
    finding : str
        A sentence with the numbers.
    data : xarray.Dataset
    witness : str
        A measure with an energy beyond a bound, or at it, with the error; where 'fails'.
    note : str
        Beside a proof: what differs all the same.
    """

    part: str
    status: str
    finding: str
    data: xr.Dataset
    witness: str = ""
    note: str = ""
