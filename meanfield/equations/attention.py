"""d/dt of the coefficients of a density under attention of any heads, or a perceptron."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from meanfield._checks import shown
from meanfield.dynamics.facts import Dynamics
from meanfield.equations.density import ROUNDING, SMALL, LostDigitsError, SpectralTendency
from meanfield.kernels.bilinear import CircleBilinear, SphereBilinear, score_matrix
from meanfield.kernels.direct import latitude_rule
from meanfield.kernels.multipliers import bandwidth, eigenvalues_in_unit
from meanfield.measures.density import Density
from meanfield.spaces import Circle, Space, Sphere, SphereFields, Zonal
from meanfield.spaces.gegenbauer import gegenbauer, multiplicities
from meanfield.spaces.geometry import asymmetry, perpendicular
from meanfield.spaces.sphere import positions
from meanfield.typing import Array, Coefficients, NDArray


class Frame:
    """r coordinates in which the grid of a space lies: all d of them, or those of a meridian.

    On a `Zonal` space they are along the axis, across it and, for d = 3, east of the meridian.

    Parameters
    ----------
    space : Circle, Sphere or Zonal

    Attributes
    ----------
    basis : ndarray, shape (d, r)
        Unit vectors along the coordinates.
    points : ndarray, shape (N, r)
        The grid.
    tangents : ndarray, shape (c, N, r)
        Unit tangent vectors; the first ones are those along which a flux of the space has
        components.
    latitudes : Zonal or None
        The space, if it is one.

    Examples
    --------
    >>> frame = Frame(Zonal(5, 8))
    >>> frame.basis.shape, frame.points.shape, frame.tangents.shape
    ((5, 2), (14, 2), (1, 14, 2))
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self.latitudes: Zonal | None = None
        if isinstance(space, Zonal):
            across = perpendicular(space.axis)
            along = [space.axis, across]
            if space.dim == 3:
                along.append(np.cross(space.axis, across))
            self.latitudes, self.basis = space, np.stack(along, axis=1)
            self.points = np.zeros((len(space.nodes), self.basis.shape[1]))
            self.points[:, 0], self.points[:, 1] = space.nodes, space.sines
            self.tangents = np.zeros((self.basis.shape[1] - 1, *self.points.shape))
            self.tangents[0, :, 0], self.tangents[0, :, 1] = space.sines, -space.nodes
            self.tangents[1:, :, 2:] = 1.0
        else:
            self.basis, self.points = np.eye(space.dim), space.points
            self.tangents = space.frame(np.arange(len(space.weights)))

    def matrix(self, name: str, matrix: Any) -> Array:
        """A matrix, or a number for a multiple of the identity, in these coordinates.

        Raises
        ------
        ValueError
            If a matrix does not commute with rotations about the axis of a `Zonal` space.
        """
        if np.ndim(matrix) == 0:
            return score_matrix(matrix, self.basis.shape[1])
        space = self._space
        if space.axis is not None and (gap := asymmetry(matrix, space.axis)):
            others = "a Sphere or Particles" if space.dim == 3 else "Particles"
            raise ValueError(
                f"{name} must commute with rotations about the axis of {space}, got a matrix that "
                f"differs from all that do by {gap:.2g}: take {others}"
            )
        return np.asarray(self.basis.T @ matrix @ self.basis)


class CircleScores:
    """G(Mx) and ∫ y e^{<Mx,y>} dmu on the angles of a `Circle`.

    Parameters
    ----------
    space : Circle
    frame : Frame
        Of the space.
    matrix : ndarray, shape (2, 2)

    Attributes
    ----------
    log_unit : float
        What is returned is in units of e^{log_unit}.

    Examples
    --------
    >>> scores = CircleScores(space := Circle(8), Frame(space), np.eye(2))
    >>> fields, _ = scores(np.eye(1, 4, dtype=complex)[0])  # uniform: G = I_0(1)
    >>> bool(abs(fields[0, 0] * np.e - 1.2660658777520084) < 1e-14)
    True
    """

    def __init__(self, space: Circle, frame: Frame, matrix: Array) -> None:  # noqa: ARG002
        self._bilinear = CircleBilinear(matrix)
        self.log_unit = self._bilinear.log_unit
        self._count = len(space.angles)
        self._kept = min(space.kmax, self._bilinear.source_degree) + 1
        self._both = np.where(np.arange(self._bilinear.degree + 1) > 0, 2.0, 1.0) * self._count

    def __call__(self, coefficients: Coefficients) -> tuple[Array, NDArray[np.bool_]]:
        """Fields, shape (3, N), and where G has lost its digits."""
        moments = np.zeros(self._bilinear.source_degree + 1, dtype=np.complex128)
        moments[: self._kept] = coefficients[: self._kept]
        series = self._bilinear.coefficients(moments)
        folded = np.zeros((3, self._count), dtype=np.complex128)
        series = self._both * series
        # degrees that the grid does not tell from lower ones are added to these
        for start in range(0, series.shape[1], self._count):
            part = series[:, start : start + self._count]
            folded[:, : part.shape[1]] += part
        fields = np.fft.ifft(folded).real
        return fields, _lost(fields[0], self._bilinear.scale(moments))


class SphereScores:
    """G(Mx) and ∫ y e^{<Mx,y>} dmu on the grid of a `Sphere`.

    Parameters
    ----------
    space : Sphere
    frame : Frame
        Of the space.
    matrix : ndarray, shape (3, 3)

    Attributes
    ----------
    log_unit : float
        What is returned is in units of e^{log_unit}.

    Examples
    --------
    >>> scores = SphereScores(space := Sphere(3), Frame(space), np.eye(3))
    >>> fields, _ = scores(np.eye(1, 10, dtype=complex)[0])  # uniform: G = sinh(1)
    >>> bool(abs(fields[0, 0] * np.e - np.sinh(1.0)) < 1e-14)
    True
    """

    def __init__(self, space: Sphere, frame: Frame, matrix: Array) -> None:  # noqa: ARG002
        self._bilinear = SphereBilinear(matrix)
        self.log_unit = self._bilinear.log_unit
        self._fields = SphereFields(space, self._bilinear.degree)
        wide = self._bilinear.source_degree
        inside = space.degrees <= wide
        self._kept = np.flatnonzero(inside)
        self._places = positions(space.degrees[inside], space.orders[inside], wide)
        self._count = (wide + 1) * (wide + 2) // 2

    def __call__(self, coefficients: Coefficients) -> tuple[Array, NDArray[np.bool_]]:
        """Fields, shape (4, N), and where G has lost its digits."""
        moments = np.zeros(self._count, dtype=np.complex128)
        moments[self._places] = coefficients[self._kept]
        series = self._bilinear.coefficients(moments)
        fields = np.stack([self._fields.values(row) for row in series])
        return fields, _lost(fields[0], self._bilinear.scale(moments))


def _lost(potential: Array, scale: float) -> NDArray[np.bool_]:
    return np.asarray(potential < SMALL * max(float(potential.max()), scale))


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
        # of the density 1, against which rounding is judged
        self._masses = potential.sum(axis=1)

    def __call__(self, coefficients: Coefficients) -> tuple[Array, NDArray[np.bool_]]:
        """Fields, shape (1 + r, N), and where G has lost its digits."""
        values = self._at_sources @ coefficients
        potential, along, across = self._sums @ values
        lost = potential < SMALL * float(np.abs(values).max()) * self._masses
        return np.vstack([potential, along, across * self._across]), lost


def _exact_grid(space: Zonal, length: float) -> Zonal:
    size = space.exact_size(space.kmax + bandwidth(length, space.dim))
    try:
        return space.resized(size)
    except ValueError as error:
        raise ValueError(
            f"beta |KᵀQ| must be smaller on {space}, got {length:.6g}, which takes size {size}: "
            f"{error}"
        ) from error


AnyScores = CircleScores | SphereScores | ZonalScores
_SCORES: dict[str, Callable[..., AnyScores]] = {
    "circle": CircleScores,
    "sphere": SphereScores,
    "zonal": ZonalScores,
}


def check_scores(space: Space, frame: Frame, matrix: Array) -> None:
    """Refuse a matrix that is too large for the space, before anything is computed.

    Raises
    ------
    ValueError
        Naming the largest.
    """
    if frame.latitudes is not None:
        longest = float(np.linalg.norm(frame.points @ matrix.T, axis=1).max())
        _exact_grid(frame.latitudes, longest)
    else:
        (CircleBilinear if space.dim == 2 else SphereBilinear).checked_score(matrix)


# of a field, that rounding of the density may make
_LARGEST_SHARE = 1e-9


class AttentionTendency(SpectralTendency):
    """dc/dt = ∫ f X · ∇Y dσ for the coefficients c of f, with X of (2.3) or (2.7).

    G(Mx) and ∫ y e^{<Mx,y>} dmu, M = β KᵀQ, are linear in the moments of mu: on the circle and S^2
    through harmonics (`kernels.bilinear`), about an axis through latitudes. Where G of softmax is
    below 1e-6 of its scale, and its series has lost the digits, positive terms are summed, in
    O(N) for each point. X then has errors of 1e-9 at most, 1e-14 where G varies little. Mass is
    exact, since the test function 1 has no gradient.

    Heads may look where f is rounding, 1e-16 of its maximum: with negative scores opposite to a
    concentrated mass. Where that would change f X by more than 1e-9 the right-hand side is refused.

    The activation of `FeedForward` is evaluated on the grid. gelu and tanh are smooth; where relu
    has a kink f comes to jump, its series converge like size^{-1/2} in L², and a run ends as
    under-resolved unless `tail_tol` is large.

    Parameters
    ----------
    density : Density
        Any density on the space.
    dynamics : Attention or FeedForward
        Its noise is not part of the tendency.

    Raises
    ------
    ValueError
        If |M| is too large for the space (10000 on the circle, 128 on S^2), or M, V or a
        feed-forward layer does not commute with rotations about the axis of a `Zonal` space.
    """

    def __init__(self, density: Density, dynamics: Dynamics) -> None:
        super().__init__(density)
        self.dynamics = dynamics
        # of values and the divergence only
        self._transforms = self.space.transforms(np.zeros(self.space.kmax + 1))
        self._velocity = (HeadsOnGrid if dynamics.scores else _Drift)(density, dynamics)
        self._speeds = np.zeros_like(self.space.weights)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        transforms, coefficients = self._transforms, self._coefficients(state)
        transforms.evaluate(coefficients)
        velocity = self._velocity(coefficients)
        self._check_digits()
        flux = transforms.flux
        np.multiply(velocity[: len(flux)], transforms.values, out=flux)
        transforms.weak_divergence(self._coefficients(out))
        self._speeds = np.linalg.norm(velocity, axis=0)

    def _check_digits(self) -> None:
        """Refuse a field that rounding of f makes where f is.

        Raises
        ------
        LostDigitsError
            If f X is changed by more than 1e-9 of its maximum, or of f's.
        """
        values = np.maximum(self._transforms.values, 0.0)
        share = ROUNDING * self._velocity.doubt(values)
        if share > _LARGEST_SHARE:
            raise LostDigitsError(
                f"rounding of f, {ROUNDING:g} of its maximum, makes {share:.1e} of the field under "
                f"{self.dynamics!r}, whose scores are largest where f is least: take a FlowMap or "
                f"Particles"
            )

    def scaled_dissipation(self) -> float:
        """∫ |X|² dmu, of a softmax ∫ |X|² G(Mx) dmu, of one head, in units of e^β (or Λ_0)."""
        energy = self.dynamics.energy
        log_unit = eigenvalues_in_unit(energy.log_unit if energy else 0.0, self.space.dim, 0)[1]
        log_weights = self._velocity.log_weights - log_unit
        squares = self._speeds**2 * np.exp(log_weights) * self._transforms.values
        return float(self.space.weights @ squares)

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        # without softmax it may be too large to be squared
        unit = float(self._speeds.max()) or 1.0
        squares = (self._speeds / unit) ** 2 * self._transforms.values
        return unit * float(np.sqrt(max(float(self.space.weights @ squares), 0.0)))


def check_on_space(space: Space, dynamics: Dynamics) -> None:
    """Refuse what can't move a density on the space, before anything large is computed.

    Raises
    ------
    ValueError
        As `AttentionTendency`.
    """
    if dynamics.scores:
        frame = Frame(space)
        for name, scores, values in _matrices(dynamics):
            frame.matrix(f"V of {name}", values)
            check_scores(space, frame, frame.matrix(f"KᵀQ of {name}", scores))
    elif space.axis is not None:
        raise ValueError(
            f"dynamics must commute with rotations about the axis of {space}, got "
            f"{shown(dynamics)}: "
            f"take a Sphere, a Circle or Particles"
        )


def _matrices(dynamics: Dynamics) -> Iterator[tuple[str, Any, Any]]:
    """Name, β KᵀQ and V of each head."""
    for i, (scores, value) in enumerate(zip(dynamics.scores, dynamics.values, strict=True)):
        yield f"heads[{i}]", scores, value


class HeadsOnGrid:
    """X of attention on the grid of a density's space, as a function of coefficients.

    Parameters
    ----------
    density : Density
    dynamics : Attention

    Attributes
    ----------
    log_weights : ndarray, shape (N,), or float
        log G(Mx) of the last head under a softmax, else 0.

    Raises
    ------
    ValueError
        If a matrix is none for the space.
    """

    def __init__(self, density: Density, dynamics: Dynamics) -> None:
        self._space, self._normalise = density.space, dynamics.normalised
        self._frame = frame = Frame(self._space)
        self.log_weights: Array | float = 0.0
        self._heads: list[tuple[Array, AnyScores, Array]] = []
        # G of the uniform measure, and of the last one, on the grid, head by head
        self._uniform: list[Array] = []
        self._potentials: list[Array] = []
        one = Density(self._space, np.ones(len(self._space.weights))).coefficients
        for name, scores, values in _matrices(dynamics):
            matrix = frame.matrix(f"KᵀQ of {name}", scores)
            # what V leaves of a vector along each tangent
            along = frame.tangents @ frame.matrix(f"V of {name}", values)
            kernel = _SCORES[self._space.name](self._space, frame, matrix)
            self._heads.append((matrix, kernel, along))
            self._uniform.append(np.array(kernel(one)[0][0]))

    def __call__(self, coefficients: Coefficients) -> Array:
        """Components of X along the tangents of the frame, shape (c, N)."""
        velocity = np.zeros(self._frame.tangents.shape[:2])
        self._potentials = []
        for matrix, scores, values in self._heads:
            fields, lost = scores(coefficients)
            self._potentials.append(np.array(fields[0]))
            mean = fields[1:]
            if not self._normalise:
                mean *= np.exp(scores.log_unit)
            else:
                potential = np.where(lost, 1.0, fields[0])
                mean /= potential
                self.log_weights = np.log(potential) + scores.log_unit
                if lost.any():
                    self.log_weights[lost], mean[:, lost] = self._summed(coefficients, matrix, lost)
                    log_g = self.log_weights - scores.log_unit
                    with np.errstate(under="ignore"):
                        self._potentials[-1][lost] = np.exp(log_g[lost])
            velocity += np.einsum("cjr,rj->cj", values, mean)
        return velocity

    def doubt(self, values: Array) -> float:
        """What f X changes by, as a share, for each share of its maximum that f changes by.

        Of the last state, with f (N,) >= 0: such a change looks to heads like a uniform measure.
        """
        largest, worst = float(values.max()), 0.0
        for uniform, potential in zip(self._uniform, self._potentials, strict=True):
            if self._normalise:
                # X has the size of V, and f X is compared with max f
                counted = values > 0.0
                ratios = values[counted] * uniform[counted] / potential[counted]
                worst = max(worst, float(ratios.max(initial=0.0)))
            else:
                most = float((values * potential).max())
                worst = max(worst, largest * float((values * uniform).max()) / most)
        return worst

    def _summed(
        self, coefficients: Coefficients, matrix: Array, lost: NDArray[np.bool_]
    ) -> tuple[Array, Array]:
        """log G(Mx) (count,) and its gradient (r, count), by sums of positive terms."""
        density, basis = Density.from_coefficients(self._space, coefficients), self._frame.basis
        z = self._frame.points[lost] @ matrix.T @ basis.T
        log_g, mean = density.log_moment(z)
        return log_g, np.asarray((mean @ basis).T)


class _Drift:
    """X of a feed-forward layer on the grid, whatever the density is."""

    log_weights = 0.0

    def doubt(self, values: Array) -> float:  # noqa: ARG002 (as of heads)
        """No measure counts."""
        return 0.0

    def __init__(self, density: Density, dynamics: Dynamics) -> None:
        check_on_space(density.space, dynamics)
        frame = Frame(density.space)
        output = dynamics.output(density, density.space.points)
        self._components = np.einsum("cjr,jr->cj", frame.tangents, output)

    def __call__(self, coefficients: Coefficients) -> Array:  # noqa: ARG002 (as for heads)
        return np.asarray(self._components)
