"""The measures of least and of largest energy E_{β,D}, for a symmetric matrix D."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import number, symmetric
from meanfield.harmonics import bandwidth
from meanfield.measures import Density, Particles
from meanfield.spaces import Circle, Space, Sphere, Zonal
from meanfield.studies.forms.basis import Basis, SphereBasis, ZonalBasis
from meanfield.studies.forms.eigenfunctions import eigenfunctions

Array = NDArray[np.float64]

# eigenvalues that differ by rounding only are one
_EQUAL = 1e-12
# beyond it e^{β|D|} squared leaves double precision
_LARGEST_EXPONENT = 350.0
_LEAST_EXPONENT = 1e-12
# eigenfunctions of one degree differ by (β|D|)² there: errors are 1e-16 over that
_LEAST_ON_SPHERE = 1e-3
# last coefficients of a complete series, and what a density may be below 0 by rounding
_COMPLETE, _ROUNDING = 1e-12, 1e-12
# variation of the potential beyond which rounding of the density is more than that
_LARGEST_RESIDUAL = 1e-6
_MOST_DEGREES = {"zonal": 1000, "sphere": 90}


@dataclass(frozen=True)
class Extremiser:
    """A measure of least or of largest energy, and why it is one.

    Attributes
    ----------
    measure : Density or Particles
    energy : float
        E_{β,D} = 1/(2β) ∬ e^{β<x,Dy>} dmu dmu.
    bound : float
        What no measure's energy can be below (above).
    residual : float
        What the potential ∫ e^{β<x,Dy>} dmu(y) varies by where it should be constant, relative.
    kind : str
        'density', 'uniform', 'dirac' or 'pair'.
    """

    measure: Density | Particles
    energy: float
    bound: float
    residual: float
    kind: str


def form_minimiser(form: ArrayLike, beta: float = 1.0) -> Extremiser:
    """The measure of least E_{β,D}, Burger et al., arXiv 2501.03096.

    D positive definite: E is strictly convex, and the least one has ∫ e^{β<x,Dy>} f(y) dσ(y) the
    same for all x, hence f = E Σ_n ψ_n <1,ψ_n>/λ_n in eigenfunctions of the kernel. They are found
    from the differential operator Δ + β²|Dx|², which commutes with the kernel, so the digits that
    the kernel's tiny eigenvalues would cost are kept. The bound is 2 min u - E for the potential u
    that the density has on a grid: E is above its least value by no more than 2(E - min u).

    λ_min <= 0: E >= e^{β<m,Dm>}/(2β) >= e^{βλ_min}/(2β) by Jensen's inequality, m = ∫ x dmu; a
    Dirac at an eigenvector has that energy. If λ_min = 0 others in the kernel of D have it too.

    Parameters
    ----------
    form : array_like, shape (d, d)
        D, symmetric. Positive definite ones on the circle, S^2, or, in more dimensions, with two
        distinct eigenvalues of which one is simple.
    beta : float
        β > 0.

    Returns
    -------
    Extremiser
        A 'density' on `Circle`, `Sphere` or `Zonal`, 'uniform' where D is a multiple of the
        identity, or a 'dirac'.

    Raises
    ------
    ValueError
        If D is not of that kind, β |D| > 350, or the ratio of D's eigenvalues is so large that the
        density needs more than 1000 degrees (90 on S^2 without symmetry), or β(λ_max - λ_min) is
        beyond some 20: where the density is least, by rounding, e^{β<x,Dx>} is largest.
    ArithmeticError
        If the solution is not positive, which no case has shown yet.

    Examples
    --------
    >>> least = form_minimiser([[1.0, 0.0], [0.0, 1.1]])
    >>> round(2 * least.energy, 12), round(2 * float(least.measure.coefficients[2].real), 12)
    (1.293037275191, 0.198481812055)
    """
    matrix, beta, values, vectors = _checked(form, beta)
    if values[0] <= _EQUAL * max(abs(values[0]), abs(values[-1])):
        least = float(np.exp(beta * min(values[0], 0.0))) / (2.0 * beta)
        return Extremiser(Particles(vectors[:, :1].T), least, least, 0.0, "dirac")
    if np.ptp(values) <= _EQUAL * values[-1]:
        uniform = Density.from_coefficients(*_uniform(len(values)))
        return _certified(uniform, matrix, beta, None, "uniform")
    return _positive_definite(matrix, beta, values, vectors)


def _uniform(dim: int) -> tuple[Space, Array]:
    space: Space = Circle(8) if dim == 2 else Sphere(3) if dim == 3 else Zonal(dim, 3)
    return space, np.eye(1, space.n_coefficients)[0]


def _positive_definite(matrix: Array, beta: float, values: Array, vectors: Array) -> Extremiser:
    basis = _basis(values, vectors, 2)
    if isinstance(basis, SphereBasis) and beta * values[-1] < _LEAST_ON_SPHERE:
        raise ValueError(
            f"beta |form| must be >= {_LEAST_ON_SPHERE:g} for three different eigenvalues, got "
            f"{beta * values[-1]:g}: below, functions of one degree can't be told apart"
        )
    most = _MOST_DEGREES["zonal" if isinstance(basis, ZonalBasis) else "sphere"]
    # coefficients of degree k fall like ratio^{k/2}, once past the kernel's bandwidth
    ratio = (values[-1] - values[0]) / (values[-1] + values[0])
    degree = 2.0 * np.log(_COMPLETE) / np.log(ratio)
    kmax = min(2 * int(0.5 * (degree + bandwidth(beta * values[-1], len(values)))), most)
    tail = np.inf
    while degree <= most:
        basis = _basis(values, vectors, kmax)
        coefficients, energy = eigenfunctions(basis, matrix, beta).constant_preimage()
        tail = float(np.linalg.norm(coefficients[basis.degrees > kmax - 4]))
        tail /= float(np.linalg.norm(coefficients))
        if tail <= _COMPLETE or kmax == most:
            break
        kmax = min(2 * kmax, most)
    if not tail <= _COMPLETE:
        raise ValueError(
            f"form must have eigenvalues in a smaller ratio for a density of up to {most} "
            f"degrees, got {values}"
        )
    density = basis.density(coefficients)
    least = _certified(density, matrix, beta, energy / (2.0 * beta), "density")
    lowest = float(density.values.min())
    if lowest < -_ROUNDING * float(density.values.max()):
        raise ArithmeticError(
            f"the measure of constant potential is not positive for {matrix}, beta = {beta:g}: "
            f"its least value is {lowest:.3g}"
        )
    return least


def _axis(values: Array, vectors: Array) -> Array | None:
    """The axis about which D is symmetric: of the eigenvalue that is alone, if all others are one.

    On the circle either.
    """
    for alone, others in ((0, slice(1, None)), (-1, slice(None, -1))):
        if np.ptp(values[others]) <= _EQUAL * values[-1]:
            return np.asarray(vectors[:, alone])
    return None


def _basis(values: Array, vectors: Array, kmax: int) -> Basis:
    axis = _axis(values, vectors)
    if axis is not None:
        return ZonalBasis(axis, kmax)
    if len(values) == 3:
        return SphereBasis(np.ascontiguousarray(vectors.T), kmax)
    raise ValueError(
        f"form must have d <= 3, or two distinct eigenvalues of which one is simple, got {values}"
    )


def _certified(
    density: Density, matrix: Array, beta: float, energy: float | None, kind: str
) -> Extremiser:
    """With the bound by the potential on the density's own grid, from sums of positive terms."""
    points = density.space.points
    log_g, _ = density.log_moment(beta * points @ matrix)
    potential = np.exp(log_g) / (2.0 * beta)
    if energy is None:
        energy = float(density.space.weights @ potential)
    residual = float(np.ptp(potential)) / energy
    if residual > _LARGEST_RESIDUAL:
        raise ValueError(
            f"beta or the ratio of form's eigenvalues must be smaller, got {beta:g} and {matrix}: "
            f"rounding of the density lets its potential vary by {residual:.1e}"
        )
    return Extremiser(density, energy, 2.0 * float(potential.min()) - energy, residual, kind)


def form_maximiser(form: ArrayLike, beta: float = 1.0) -> Extremiser:
    """The measure of largest E_{β,D}: a Dirac at an eigenvector, or two opposite ones.

    Let N be the span of the eigenvectors of negative λ, R the reflection of N. Averaging mu with
    R#mu takes -∬ sinh(β<x_N,|D|y_N>) e^{β<x_P,Dy_P>} dmu dmu <= 0 away, so it raises E. Among
    measures that are symmetric under R, E is convex, so it is largest at pairs (δ_x + δ_Rx)/2:
    cosh(β<x_N,|D|x_N>) e^{β<x_P,Dx_P>}/(2β), whose log is convex in the squares of x's components,
    hence largest at an eigenvector. So the largest value is e^{βλ_max} or cosh(βλ_min), over 2β.

    Parameters
    ----------
    form : array_like, shape (d, d)
        D, symmetric, any d >= 2.
    beta : float
        β > 0.

    Returns
    -------
    Extremiser
        Of kind 'dirac' at an eigenvector of λ_max, or 'pair' at ± one of λ_min.

    Raises
    ------
    ValueError
        If an argument is not of that kind, or β |D| > 350.

    Examples
    --------
    >>> [form_maximiser([[-1.0, 0.0], [0.0, last]]).kind for last in (0.4, 0.5)]
    ['pair', 'dirac']
    """
    _, beta, values, vectors = _checked(form, beta)
    dirac = float(np.exp(beta * values[-1])) / (2.0 * beta)
    pair = float(np.cosh(beta * values[0])) / (2.0 * beta) if values[0] < 0.0 else 0.0
    if dirac >= pair:
        return Extremiser(Particles(vectors[:, -1:].T), dirac, dirac, 0.0, "dirac")
    ends = Particles(np.array([vectors[:, 0], -vectors[:, 0]]))
    return Extremiser(ends, pair, pair, 0.0, "pair")


def _checked(form: ArrayLike, beta: float) -> tuple[Array, float, Array, Array]:
    """D, β, and D's eigenvalues, ascending, with eigenvectors in columns."""
    matrix, beta = symmetric("form", form), number("beta", beta, above=0)
    values, vectors = np.linalg.eigh(matrix)
    largest = beta * float(np.abs(values).max())
    # below, all energies are 1/(2β) to rounding
    if not _LEAST_EXPONENT <= largest <= _LARGEST_EXPONENT:
        raise ValueError(
            f"beta |form| must be >= {_LEAST_EXPONENT:g} and <= {_LARGEST_EXPONENT:g}, got "
            f"{largest:g}"
        )
    return matrix, beta, values, vectors
