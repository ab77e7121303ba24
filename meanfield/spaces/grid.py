"""What the spaces share: records whose tables are made once, by the constructor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meanfield._checks import Record
from meanfield.typing import Array, Integers


class Grid(Record):
    """A space of spectral coefficients and its grid; the subclasses say what each table is."""

    axis: Array | None = None

    if TYPE_CHECKING:
        size: int
        kmax: int
        exactness: int
        n_real: int
        n_coefficients: int
        weights: Array
        degrees: Integers
        laplacian: Array

    def _keep(self, **tables: Any) -> None:
        """Take up arguments as they were checked, and tables."""
        vars(self).update(tables)
