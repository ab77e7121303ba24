"""Attention with any heads on the grid of a density's space, and its sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.equations.on_grid import LOST, FieldOnGrid, Frame
from meanfield.equations.rates import Rates
from meanfield.kernels.bilinear import CircleBilinear, SphereBilinear
from meanfield.kernels.direct import latitude_rule
from meanfield.kernels.multipliers import bandwidth, eigenvalues_in_unit
from meanfield.measures.density import Density
from meanfield.spaces import Space, SphereFields, Zonal
from meanfield.spaces.gegenbauer import gegenbauer, multiplicities
from meanfield.typing import Array, Coefficients, Indices


class SeriesScores:
    """G(Mx) and ∫ y e^{<Mx,y>} dmu on the grid of a `Circle` or a `Sphere`, through harmonics.

    Parameters
    ----------
    space : Circle or Sphere
    matrix : ndarray, shape (d, d)

    Attributes
    ----------
    log_unit : float
        What is returned is in units of e^{log_unit}.

    Examples
    --------
    >>> from meanfield.spaces import Circle, Sphere
    >>> scores = SeriesScores(Circle(8), np.eye(2))
    >>> fields, _ = scores(np.eye(1, 4, dtype=complex)[0])  # uniform: G = I_0(1)
    >>> bool(abs(fields[0, 0] * np.e - 1.2660658777520084) < 1e-14)
    True
    >>> fields, _ = SeriesScores(Sphere(3), np.eye(3))(np.eye(1, 10, dtype=complex)[0])
    >>> bool(abs(fields[0, 0] * np.e - np.sinh(1.0)) < 1e-14)
    True
    """

    def __init__(self, space: Any, matrix: Array) -> None:
        self._space, self._bilinear = space, _BILINEAR[space.dim](matrix)
        self.log_unit = self._bilinear.log_unit
        # on the circle the degree may exceed that of the grid, so `_on_circle` sums the series
        self._fields = SphereFields(space, self._bilinear.degree) if space.dim == 3 else None

    def __call__(self, coefficients: Coefficients) -> tuple[Array, float]:
        """Fields, shape (1 + d, N), and what the errors of G are relative to."""
        moments = self._space.embed(coefficients, self._bilinear.sources)
        series = self._bilinear.coefficients(moments)
        if self._fields is None:
            fields = _on_circle(series, len(self._space.angles))
        else:
            fields = np.stack([self._fields.values(row) for row in series])
        return fields, max(float(fields[0].max()), self._bilinear.mean_potential(moments))


def _on_circle(series: Coefficients, count: int) -> Array:
    """Series (m, degree + 1) at so many equispaced angles, which may be fewer than they need."""
    folded = np.zeros((len(series), count), dtype=np.complex128)
    series = np.where(np.arange(series.shape[1]) > 0, 2.0, 1.0) * count * series
    # the grid can't tell a degree from the lower one that it aliases to, so both are added
    for start in range(0, series.shape[1], count):
        part = series[:, start : start + count]
        folded[:, : part.shape[1]] += part
    return np.asarray(np.fft.ifft(folded).real)


_BILINEAR: dict[int, type[CircleBilinear] | type[SphereBilinear]] = {
    2: CircleBilinear,
    3: SphereBilinear,
}


class ZonalScores:
    """G(Mx) and ∫ y e^{<Mx,y>} dmu on the meridian of a `Zonal` space.

    M commutes with rotations about the axis, so |Mx| and its part along the axis depend on the
    latitude of x only. The integral over each latitude of y is a Gauss sum, that over latitudes one
    on a grid that is exact for f e^{<Mx,y>}: a matrix of positive terms.

    Parameters
    ----------
    space : Zonal
    frame : Frame
        Of the space.
    matrix : ndarray, shape (r, r)
        M in the coordinates of the frame.

    Attributes
    ----------
    log_unit : ndarray, shape (N,)
        What is returned is in units of e^{log_unit}: |Mx|.

    Raises
    ------
    ValueError
        If no grid of the space is fine enough.
    """

    def __init__(self, space: Zonal, frame: Frame, matrix: Array) -> None:
        z = frame.points @ matrix.T
        self.log_unit = np.linalg.norm(z, axis=1)
        along, radius = z[:, 0], np.linalg.norm(z[:, 1:], axis=1)
        self._across = (z[:, 1:] / np.where(radius > 0.0, radius, 1.0)[:, None]).T
        grid = _exact_grid(space, float(self.log_unit.max()))
        polynomials = gegenbauer(space.dim, space.kmax, grid.nodes)
        polynomials *= np.sqrt(multiplicities(space.dim, space.kmax))[:, None]
        self._at_sources = np.ascontiguousarray(polynomials.T)
        potential, across = np.zeros((2, len(z), len(grid.nodes)))
        for u, share in zip(*latitude_rule(space.dim, float(radius.max())), strict=True):
            exponents = np.outer(along, grid.nodes) + np.outer(radius, u * grid.sines)
            with np.errstate(under="ignore"):
                terms = share * np.exp(exponents - self.log_unit[:, None])
            potential += terms
            across += u * terms
        potential *= grid.weights
        across *= grid.weights * grid.sines
        self._sums = np.stack([potential, potential * grid.nodes, across])
        # rounding is judged by comparison with the density 1
        self._masses = potential.sum(axis=1)

    def __call__(self, coefficients: Coefficients) -> tuple[Array, Array]:
        """Fields, shape (1 + r, N), and what the errors of each G are relative to."""
        values = self._at_sources @ coefficients
        potential, along, across = self._sums @ values
        scale = float(np.abs(values).max()) * self._masses
        return np.vstack([potential, along, across * self._across]), scale


def _exact_grid(space: Zonal, length: float) -> Zonal:
    size = space.exact_size(space.kmax + bandwidth(length, space.dim))
    try:
        return space.resize(size)
    except ValueError as error:
        raise ValueError(
            f"beta |KᵀQ| must be smaller on {space}, got {length:.6g}, which takes size {size}: "
            f"{error}"
        ) from error


def _matrices(frame: Frame, dynamics: Dynamics) -> Iterator[tuple[Array, Array]]:
    """β KᵀQ and V of each head in the coordinates of a frame.

    Raises
    ------
    ValueError
        If a matrix does not commute with rotations about the frame's axis.
    """
    pairs = zip(dynamics.score_matrices, dynamics.value_matrices, strict=True)
    for i, (scores, value) in enumerate(pairs):
        matrix = frame.matrix(f"KᵀQ of heads[{i}]", scores)
        yield matrix, frame.matrix(f"V of heads[{i}]", value)


def check_heads(space: Space, dynamics: Dynamics) -> None:
    """Refuse heads that a density on the space can't be moved by.

    Raises
    ------
    ValueError
        As `GridTendency`.
    """
    frame = Frame(space)
    for matrix, _ in _matrices(frame, dynamics):
        if frame.latitudes is None:
            _BILINEAR[space.dim].checked_score(matrix)
        else:
            longest = float(np.linalg.norm(frame.points @ matrix.T, axis=1).max())
            _exact_grid(frame.latitudes, longest)


# for the bytes of each matrix: the sums of a head on one grid, and G of the uniform measure
ScoreTables = dict[bytes, tuple[SeriesScores | ZonalScores, Array]]


class HeadsOnGrid(FieldOnGrid):
    """X of attention on the grid of a density's space, as a function of coefficients.

    Parameters
    ----------
    space : Circle, Sphere or Zonal
    dynamics : Attention

    Raises
    ------
    ValueError
        If a matrix is none for the space.
    """

    def __init__(self, space: Space, dynamics: Dynamics, tables: ScoreTables | None = None) -> None:
        self.grid, self._normalise = space, dynamics.normalised
        self._frame = frame = Frame(self.grid)
        self._heads: list[tuple[Array, SeriesScores | ZonalScores, Array]] = []
        sums: SeriesScores | ZonalScores
        # for each head on the grid: G of the uniform measure, and G of the last measure
        self._uniform: list[Array] = []
        self._potentials: list[Array] = []
        # a single head may have an energy; its gradient is a multiple of X, or of X times G
        self._energy = dynamics.energy_functional
        log_unit = self._energy.log_unit if self._energy else 0.0
        self._log_unit = eigenvalues_in_unit(log_unit, self.grid.dim, 0)[1]
        uniform_series = Density(self.grid, np.ones(len(self.grid.weights))).coefficients
        tables = {} if tables is None else tables
        for matrix, values in _matrices(frame, dynamics):
            if (key := matrix.tobytes()) not in tables:
                if frame.latitudes is None:
                    sums = SeriesScores(self.grid, matrix)
                else:
                    sums = ZonalScores(frame.latitudes, frame, matrix)
                tables[key] = sums, np.array(sums(uniform_series)[0][0])
            scores, uniform = tables[key]
            # V times a vector has these components along each tangent
            self._heads.append((matrix, scores, frame.tangents @ values))
            self._uniform.append(uniform)

    def __call__(self, coefficients: Coefficients, values: Array) -> Rates:  # noqa: ARG002 (of masses)
        """X and ∇ δE/δmu along the tangents of the frame."""
        velocity = np.zeros(self._frame.tangents.shape[:2])
        log_g: Array = np.zeros(velocity.shape[1])
        self._potentials = []
        for matrix, scores, along in self._heads:
            (potential, *gradient), scale = scores(coefficients)
            self._potentials.append(np.array(potential))
            mean = np.array(gradient)
            if not self._normalise:
                mean *= np.exp(scores.log_unit)
            else:
                small = LOST.settle(potential, scale, "sum", "scale")
                mean /= potential
                log_g = np.log(potential) + scores.log_unit
                if len(small):
                    log_g[small], mean[:, small] = self._summed(coefficients, matrix, small)
                    with np.errstate(under="ignore"):
                        self._potentials[-1][small] = np.exp((log_g - scores.log_unit)[small])
            velocity += np.einsum("cjr,rj->cj", along, mean)
        if self._energy is None:
            return Rates(velocity)
        # the gradient of the energy is ± X, or with softmax ± G X
        weights = self._energy.sign * np.exp(log_g - self._log_unit)
        return Rates(velocity, energy_gradients=(velocity * weights,))

    def doubt(self, values: Array) -> float:
        """See `FieldOnGrid`; such a change looks to heads like a uniform measure."""
        largest, worst = float(values.max()), 0.0
        for uniform, potential in zip(self._uniform, self._potentials, strict=True):
            if self._normalise:
                # f X is compared with max f, since X has the size of V
                counted = values > 0.0
                divisors = potential[counted]
                if not divisors.all():
                    # G has underflowed at a point that has mass
                    return np.inf
                ratios = values[counted] * uniform[counted] / divisors
                worst = max(worst, float(ratios.max(initial=0.0)))
            else:
                largest_product = float((values * potential).max())
                worst = max(worst, largest * float((values * uniform).max()) / largest_product)
        return worst

    def _summed(
        self, coefficients: Coefficients, matrix: Array, lost: Indices
    ) -> tuple[Array, Array]:
        """Return log G(Mx) (count,) and its gradient (r, count), by sums of positive terms."""
        density, basis = Density.from_coefficients(self.grid, coefficients), self._frame.basis
        z = self._frame.points[lost] @ matrix.T @ basis.T
        log_g, mean = density.log_moment(z)
        return log_g, np.asarray((mean @ basis).T)
