"""The velocity of any dynamics on the grid of a density's space: that of a term, or a sum."""

from __future__ import annotations

from meanfield.dynamics.facts import Dynamics
from meanfield.equations.heads_on_grid import HeadsOnGrid, ScoreTables, check_heads
from meanfield.equations.kernel_on_grid import BalancedOnGrid, KernelOnGrid
from meanfield.equations.on_grid import FieldOnGrid
from meanfield.equations.output_on_grid import OutputOnGrid, check_symmetry
from meanfield.equations.rates import Rates, added
from meanfield.kernels.sinkhorn import working_grid
from meanfield.spaces import Space
from meanfield.typing import Array, Coefficients


class SumOnGrid(FieldOnGrid):
    """The weighted fields of several terms, on the finest grid that one of them asks for.

    Parameters
    ----------
    space : Circle, Sphere or Zonal
    dynamics : Dynamics
        With terms.
    """

    def __init__(self, space: Space, dynamics: Dynamics, tables: ScoreTables | None = None) -> None:
        grids = (_grid_of(space, weight, term) for weight, term in dynamics.weighted_terms)
        self.grid = max(grids, key=lambda grid: grid.size)
        self._parts = [
            (w, _field_on(self.grid, term, tables)) for w, term in dynamics.weighted_terms
        ]

    def __call__(self, coefficients: Coefficients, values: Array) -> Rates:
        """X and the gradients of the energies of all terms."""
        return added((weight, field(coefficients, values)) for weight, field in self._parts)

    def doubt(self, values: Array) -> float:
        """See `FieldOnGrid`."""
        return sum(weight * field.doubt(values) for weight, field in self._parts if weight)

    def forget(self) -> None:
        """Begin the next scalings from 1."""
        for _, field in self._parts:
            field.forget()


def _grid_of(space: Space, weight: float, term: Dynamics) -> Space:
    """Return the space, or a finer one if the field of a term or the energy of a form needs it."""
    is_wide = term.is_balanced or (weight == 0.0 and not term.is_isotropic)
    return working_grid(space, term.reach) if is_wide else space


def _field_on(grid: Space, term: Dynamics, tables: ScoreTables | None) -> FieldOnGrid:
    """Return the field of one term on a grid that is fine enough for it."""
    if term.is_balanced:
        return BalancedOnGrid(grid, term)
    if term.score_matrices and not term.is_isotropic:
        return HeadsOnGrid(grid, term, tables)
    return KernelOnGrid(grid, term) if term.is_isotropic else OutputOnGrid(grid, term)


def field_on_grid(
    space: Space, dynamics: Dynamics, tables: ScoreTables | None = None
) -> FieldOnGrid:
    """The field of a dynamics on a grid: that of its term, or the sum of several."""
    ((weight, term), *others) = dynamics.weighted_terms
    if others or weight != 1.0:
        return SumOnGrid(space, dynamics, tables)
    return _field_on(_grid_of(space, weight, term), term, tables)


def check_on_space(space: Space, dynamics: Dynamics) -> None:
    """Refuse what can't move a density on the space, before anything large is computed.

    Raises
    ------
    ValueError
        As `GridTendency`.
    """
    check = check_heads if dynamics.score_matrices else check_symmetry
    check(space, dynamics)
