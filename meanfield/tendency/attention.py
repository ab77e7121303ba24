"""d/dt of the spectral coefficients of a density under attention of any heads, or a perceptron."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import shown
from meanfield.dynamics import Attention, Dynamics, FeedForward
from meanfield.harmonics import eigenvalues_in_unit
from meanfield.measures import Density
from meanfield.spaces import Space
from meanfield.tendency.frames import Frame
from meanfield.tendency.score_fields import AnyScores, check_scores, scores_on
from meanfield.tendency.spectral import ROUNDING, LostDigitsError, SpectralTendency

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

# of a field, that rounding of the density may make
_LARGEST_SHARE = 1e-9


class AttentionTendency(SpectralTendency):
    """dc/dt = ∫ f X · ∇Y dσ for the coefficients c of f, with X of (2.3) or (2.7).

    G(Mx) and ∫ y e^{<Mx,y>} dmu, M = β KᵀQ, are linear in the moments of mu: on the circle and S^2
    through harmonics (`bilinear`), about an axis through latitudes. Where G of a softmax is below
    1e-6 of its scale, and its series has lost the digits, positive terms are summed instead, in
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

    def __init__(self, density: Density, dynamics: Attention | FeedForward) -> None:
        super().__init__(density)
        self.dynamics = dynamics
        # of values and the divergence only
        self._transforms = self.space.transforms(np.zeros(self.space.kmax + 1))
        self._velocity: HeadsOnGrid | _Drift
        self._speeds = np.zeros_like(self.space.weights)
        if isinstance(dynamics, Attention):
            self._velocity = HeadsOnGrid(density, dynamics)
        else:
            self._velocity = _Drift(density, dynamics)

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
        log_unit = eigenvalues_in_unit(self.dynamics.beta, self.space.dim, 0)[1]
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
    if isinstance(dynamics, Attention):
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


def _matrices(dynamics: Attention) -> Iterator[tuple[str, Any, Any]]:
    """Name, β KᵀQ and V of each head."""
    for i, (head, scores) in enumerate(zip(dynamics.heads, dynamics.scores, strict=True)):
        yield f"heads[{i}]", scores, head.V


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

    def __init__(self, density: Density, dynamics: Attention) -> None:
        self._space, self._normalise = density.space, dynamics.normalise
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
            kernel = scores_on(self._space, frame, matrix)
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

    def __init__(self, density: Density, dynamics: FeedForward) -> None:
        check_on_space(density.space, dynamics)
        frame = Frame(density.space)
        output = dynamics.output(density, density.space.points)
        self._components = np.einsum("cjr,jr->cj", frame.tangents, output)

    def __call__(self, coefficients: Coefficients) -> Array:  # noqa: ARG002 (as for heads)
        return np.asarray(self._components)
