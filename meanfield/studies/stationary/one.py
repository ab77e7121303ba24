"""One stationary state under noise, as a density."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import integer, plus_or_minus, shown, tell_apart, unit_vector
from meanfield.dynamics import SA, USA, Isotropic
from meanfield.harmonics import bandwidth
from meanfield.measures import Density
from meanfield.spaces import Zonal
from meanfield.studies.stationary.continuation import COMPLETE, Point, at_noise, follow
from meanfield.studies.stationary.equation import Equation
from meanfield.studies.stationary.states import equation_of
from meanfield.theory import critical_noise

Array = NDArray[np.float64]

# past the bifurcation point, in log τ
_BEYOND = 1e-3
# the spectral tail of a density that no further degree improves
_RESOLVED = 1e-14


def stationary_density(
    dynamics: Isotropic,
    dim: int,
    degree: int = 1,
    *,
    direction: int = 1,
    axis: ArrayLike | None = None,
) -> Density:
    """The stationary state on a branch of `stationary_states` at the dynamics' own noise.

    Of several on the branch the last, which under USA and degree 1 is the one of lowest free energy
    that is not uniform. By Newton's method, on as many nodes as leave no residual.

    Parameters
    ----------
    dynamics : SA or USA
        Attractive, with noise > 0.
    dim : int
        Ambient dimension d >= 2.
    degree : int
        k of the branch.
    direction : int
        Sign of ∫ P_k dmu, 1 or -1.
    axis : array_like, shape (d,), optional
        Unit vector; the last unit vector if omitted.

    Returns
    -------
    Density
        On a `Zonal` space; on the circle even about the axis.

    Raises
    ------
    ValueError
        If an argument is out of range, or the noise is too large for a state on this branch.
    ArithmeticError
        If the branch can't be followed down to this noise.

    Examples
    --------
    >>> mu = stationary_density(USA(1.0, noise=0.5), 2)
    >>> round(float(mu.mean()[-1]), 11)
    0.54382120316
    """
    dim = integer("dim", dim, low=2, high=1024)
    if not isinstance(dynamics, (SA, USA)) or dynamics.sign != 1 or dynamics.noise <= 0.0:
        raise ValueError(
            f"dynamics must be attractive SA or USA with noise > 0, got {shown(dynamics)}"
        )
    degree = integer("degree", degree, low=1, high=bandwidth(dynamics.beta, dim))
    direction = plus_or_minus("direction", direction)
    axis = None if axis is None else unit_vector("axis", axis, dim)
    equation = equation_of(dynamics, dim, degree)
    start = -float(np.log(equation.kappa[degree // equation.step - 1]))
    wanted = float(np.log(critical_noise(dynamics, dim)) - np.log(dynamics.noise))
    # a state at τ < τ_k ends the branch; others it has passed, if at all, when it is back at τ_k
    events = {"noise": lambda point: point.log_rho - wanted} if wanted <= start else {}
    last = wanted if wanted > start else start + _BEYOND
    branch = follow(equation, degree, direction, last, events)
    found = branch.at("noise" if wanted <= start else "end")
    if not found and branch.status != COMPLETE:
        raise ArithmeticError(f"the branch of degree {degree} is {branch.status} at {dynamics!r}")
    if not found:
        most = dynamics.noise * np.exp(wanted - min(point.log_rho for point in branch.points))
        got, least = tell_apart(dynamics.noise, most)
        raise ValueError(f"noise must be < {least} for a state of degree {degree}, got {got}")
    return _density(equation, at_noise(equation, found[-1], wanted), axis)


def _density(equation: Equation, point: Point, axis: Array | None) -> Density:
    """The state as a series, of more degrees than its moments need."""
    nodes = point.nodes
    while True:
        masses = equation.state(point.b, point.rho, equation.grid(nodes)).masses
        # this space has the grid of the state
        space = Zonal(equation.dim, 2 * nodes // 3 - 1, axis)
        density = Density.from_coefficients(space, masses @ space.basis)
        if density.tail < _RESOLVED or nodes >= 4 * point.nodes:
            return density
        nodes *= 2
