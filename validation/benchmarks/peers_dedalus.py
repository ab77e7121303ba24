"""Densities by Dedalus v3 in its strongest form, for the benchmark of densities.

A classical Runge-Kutta method of order 4 without allocations, around Dedalus' own evaluator of the
right-hand side, at dealias 3/2: its own time steppers solve for every mode at every stage, though
nothing here is implicit. The kernel is a multiplication of coefficients, by the multipliers that
we use. Dedalus does nothing besides: no monitors, no error estimate, no file.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import meanfield as mf
from validation._inside import circle_points, eigenvalues, relative_eigenvalues, sphere_points
from validation.benchmarks.timing import peer

Array = NDArray[np.float64]
Dynamics = mf.SA | mf.USA
DEALIAS = 1.5


def dedalus() -> Any:
    """The library, or None where it is not installed."""
    logging.getLogger("dedalus").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = peer("dedalus.public")
    # importing it set the levels of its loggers anew
    for name in ("dedalus", "subsystems", "solvers", "pencil", "matsolvers"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return found


def kernel(dynamics: Dynamics, dim: int, degrees: NDArray[np.intp]) -> tuple[Array, Array]:
    """Factors of u in X = ∇u (USA) or ∇u/w (SA), and of w, for coefficients of these degrees."""
    find = relative_eigenvalues if dynamics.normalised else eigenvalues
    multipliers = find(dynamics.beta, dim, int(degrees.max()))[degrees]
    return dynamics.sign / dynamics.beta * multipliers, multipliers


class DedalusRun:
    """f, and what its right-hand side is made of, as fields of Dedalus.

    Parameters
    ----------
    basis, distributor : Dedalus objects
    dynamics : SA or USA
    rate : callable
        The expression of the right-hand side from f, u and w, which is None where it is not wanted.

    Attributes
    ----------
    points : ndarray, shape (N, d)
        Where `run` gives the values of f.
    """

    points: Array

    def __init__(
        self, basis: Any, distributor: Any, dynamics: Dynamics, rate: Callable[..., Any]
    ) -> None:
        d3 = dedalus()
        self._coefficients = distributor.coeff_layout
        self._f, self._u, self._w = (distributor.Field(name=n, bases=basis) for n in "fuw")
        problem = d3.IVP([self._f], namespace={})
        potential = self._w if dynamics.normalised else None
        problem.add_equation((d3.dt(self._f), rate(self._f, self._u, potential)))
        coupling = [True] * distributor.dim
        solver = problem.build_solver(d3.RK443, matrix_coupling=coupling)
        self._evaluator, self._handlers = solver.evaluator, solver.evaluator.handlers
        self._rate = solver.F[0]
        self._normalised = dynamics.normalised

    def filtered(self, state: Array, u: Array, w: Array) -> None:
        """Fill the coefficients of u, and of w where it is wanted."""
        raise NotImplementedError

    def _evaluate(self, state: Array, out: Array) -> None:
        fields = (self._f, self._u, self._w) if self._normalised else (self._f, self._u)
        for field in fields:
            field.preset_layout(self._coefficients)
        self._f.data[...] = state
        self.filtered(state, self._u.data, self._w.data)
        self._evaluator.evaluate_handlers(self._handlers)
        out[...] = self._rate.data

    def start(self, law: Any) -> None:
        """Begin at the density of a law."""
        self._f.change_scales(1)
        self._f["g"] = law.pdf(self.points).reshape(self._f["g"].shape)
        self._start = np.array(self._f["c"])

    def run(self, t_end: float, steps: int) -> Array:
        """f at the points after so many equal steps to t_end."""
        state = self._start.copy()
        runge_kutta(self._evaluate, state, t_end / steps, steps)
        self._f.preset_layout(self._coefficients)
        self._f.data[...] = state
        self._f.change_scales(1)
        return np.array(self._f["g"]).ravel()


class CircleRun(DedalusRun):
    """A density on the circle by n Fourier modes.

    The coefficients are pairs a_k, b_k of f = Σ a_k cos kθ - b_k sin kθ = Re Σ (a_k + i b_k)
    e^{ikθ}: as complex numbers they are multiplied by ik for the gradient, so that Dedalus need
    not differentiate u.
    """

    def __init__(self, n: int, dynamics: Dynamics) -> None:
        d3 = dedalus()
        coordinate = d3.Coordinate("x")
        distributor = d3.Distributor(coordinate, dtype=np.float64)
        basis = d3.RealFourier(coordinate, size=n, bounds=(0.0, 2.0 * np.pi), dealias=DEALIAS)
        slope, self._potential = kernel(dynamics, 2, np.arange(n // 2))
        self._slope = 1j * np.arange(n // 2) * slope

        def rate(f: Any, pull: Any, w: Any) -> Any:
            return -d3.Differentiate(f * pull if w is None else f * pull / w, coordinate)

        super().__init__(basis, distributor, dynamics, rate)
        self.points = circle_points(np.ravel(distributor.local_grid(basis, scale=1)))

    def filtered(self, state: Array, u: Array, w: Array) -> None:
        """Fill the coefficients of the gradient, and of w."""
        modes = state.view(np.complex128)
        np.multiply(self._slope, modes, out=u.view(np.complex128))
        if self._normalised:
            np.multiply(self._potential, modes, out=w.view(np.complex128))


class SphereRun(DedalusRun):
    """A density on S^2 up to degree lmax."""

    def __init__(self, lmax: int, dynamics: Dynamics) -> None:
        d3 = dedalus()
        coordinates = d3.S2Coordinates("phi", "theta")
        distributor = d3.Distributor(coordinates, dtype=np.float64)
        shape = 2 * (lmax + 1), lmax + 2
        basis = d3.SphereBasis(
            coordinates, shape=shape, dtype=np.float64, dealias=DEALIAS, radius=1.0
        )

        def rate(f: Any, u: Any, w: Any) -> Any:
            return -d3.div(f * d3.grad(u) if w is None else f * d3.grad(u) / w)

        super().__init__(basis, distributor, dynamics, rate)
        self._slope, self._potential = kernel(dynamics, 3, self._degrees(distributor, basis, d3))
        phi, theta = distributor.local_grids(basis)
        longitudes, colatitudes = np.broadcast_arrays(phi, theta)
        self.points = sphere_points(colatitudes.ravel(), longitudes.ravel())

    @staticmethod
    def _degrees(distributor: Any, basis: Any, d3: Any) -> NDArray[np.intp]:
        """Degree of each coefficient, read off the Laplacian of ones."""
        ones = distributor.Field(bases=basis)
        ones.preset_layout(distributor.coeff_layout)
        ones.data[...] = 1.0
        laplacian = -d3.lap(ones).evaluate()["c"]
        return np.rint(np.sqrt(laplacian + 0.25) - 0.5).astype(np.intp)

    def filtered(self, state: Array, u: Array, w: Array) -> None:
        """Fill the coefficients of u and w."""
        np.multiply(self._slope, state, out=u)
        if self._normalised:
            np.multiply(self._potential, state, out=w)


def runge_kutta(rate: Callable[[Array, Array], None], state: Array, h: float, steps: int) -> None:
    """The classical method of order 4, in place."""
    slope, total, stage = (np.empty_like(state) for _ in range(3))
    for _ in range(steps):
        rate(state, slope)
        total[...] = slope
        # how far the next stage goes along the last slope, and the weight of the next one
        for share, weight in ((0.5, 2.0), (0.5, 2.0), (1.0, 1.0)):
            np.multiply(slope, share * h, out=stage)
            stage += state
            rate(stage, slope)
            np.multiply(slope, weight, out=stage)
            total += stage
        total *= h / 6.0
        state += total
