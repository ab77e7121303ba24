"""A measure as the image of a law under a flow, carried by nodes that move."""

from __future__ import annotations

from typing import Any, ClassVar, Self, TypedDict

import numpy as np

from meanfield import _checks
from meanfield._checks import generator, integer, number, shown
from meanfield.kernels.sinkhorn import Balanced, latitude_sums, point_sums
from meanfield.laws.law import Law, check_law
from meanfield.laws.quantisation import quantised_points
from meanfield.measures.clusters import Clusters
from meanfield.measures.density import Density, SeriesLaw
from meanfield.measures.measure import Measure
from meanfield.spaces import Harmonics
from meanfield.typing import Array, ArrayLike, Coefficients, Rng

# to resolve a β or a radius, panels and patches are split into no more nodes than this
MOST_NODES = 4_000_000
# a squared norm is divided by, and so is taken as no less than this
_LEAST_POWER = 1e-300
_REMEDY = ": for tokens take mf.Particles(X), for their law mf.PointCloud(X)"


def _law_and_axis(law_or_density: object, axis: ArrayLike | None) -> tuple[Law, ArrayLike | None]:
    """Return the law and the axis of a flow map; a density gives its own law, or else its series.

    Raises
    ------
    ValueError
        If it is neither a law nor a density.
    """
    if isinstance(law_or_density, Density):
        _checks.check_measure("law", law_or_density)
        law = law_or_density.law or SeriesLaw(law_or_density)
        return law, law_or_density.axis if axis is None else axis
    remedy = "" if _checks.is_single(law_or_density) else _REMEDY
    if callable(law_or_density) and not isinstance(law_or_density, type):
        remedy = ": of a function f take mf.FlowMap(mf.Density(space, f))"
    return check_law("law", law_or_density, remedy), axis


def check_count(count: float, most: int, refusal: str) -> None:
    """Refuse what takes too many nodes; the message says how many these are, and the limit.

    Raises
    ------
    ValueError
        Beginning with the refusal.
    """
    if count > most:
        raise ValueError(f"{refusal} some {_checks.tell_apart(count, most)[0]} nodes > {most}")


class FlowLimits(TypedDict):
    """The limits of a run that moves a flow map."""

    max_nodes: int
    atom_radius: float


class FlowMap(Measure):
    """mu_t = Φ_t # mu_0: nodes that carry the masses of a law along with the flow.

    A flow map can follow a measure through any concentration, since its nodes move with the
    mass. `FlowMap(law)` is a `LineFlowMap` on the circle and for laws that are symmetric
    about an axis, a `SphereFlowMap` for other laws on S^2.

    Parameters
    ----------
    law_or_density : Law or Density
        On the circle, on S^2, or symmetric about an axis in d >= 3. For a density it is the
        law that it was made from, or else its series.
    tol : float, optional
        Error of the nodes' positions, weighted by mass; 1e-12 if omitted, 1e-9 in the second form.
    axis : array_like, shape (d,), optional
        The axis of symmetry, if the law does not give it (d >= 3).
    max_nodes : int
        The most nodes that the law, and later a run, may take.
    atom_radius : float
        Radius in radians, 0 to 1e-2, at which a run holds a cluster as an atom; 0 for never. On
        S^2 without symmetry particles of the same moments carry a cluster, unless it is 0. For SA
        and USA: under other dynamics a cluster may part again, and its nodes stay nodes.

    Attributes
    ----------
    dim : int
    points : ndarray, shape (n, d)
        Φ_t(label) of every node.
    weights : ndarray, shape (n,)
        Masses of the nodes.
    atoms : Clusters
        Clusters that are held as points, the heaviest first. On S^2 without symmetry particles
        nearer than 0.3 to one another are one.
    max_nodes, atom_radius : int, float
    log_density : ndarray, shape (n,)
        log f_t at the points; inf where what they stand for has none.

    Raises
    ------
    ValueError
        If an argument is out of range, or the law has no form of flow map or too much detail.

    Examples
    --------
    >>> from meanfield.laws import FourierSeries
    >>> mu = FlowMap(FourierSeries(cos=[0.5]))
    >>> mu, mu.mean().round(14) + 0.0
    (FlowMap(dim=2, nodes=128, atoms=0), array([0.25, 0.  ]))
    """

    _for_rooms = "from_arrays", "node_density"

    tol: float
    max_nodes: int
    atom_radius: float
    atoms: Clusters
    log_density: Array
    # the default and the least tolerance, and the least number of nodes
    _tols: ClassVar[tuple[float, float]]
    _least_nodes: ClassVar[int]
    # draws of this law are draws of the measure
    _drawn_law: Law

    def __new__(
        cls,
        law_or_density: Law | Density | None = None,
        /,
        *,
        tol: float | None = None,  # noqa: ARG004 (of __init__)
        axis: ArrayLike | None = None,
        max_nodes: int = 200_000,  # noqa: ARG004 (of __init__)
        atom_radius: float = 1e-8,  # noqa: ARG004 (of __init__)
    ) -> FlowMap:
        """Make the form that holds the law; its own __init__ follows."""
        if cls._holds is not FlowMap._holds:
            return super().__new__(cls)
        if cls is not FlowMap:
            raise ValueError(f"FlowMap must not be the base of a class, got {cls.__name__}")
        law, axis = _law_and_axis(law_or_density, axis)
        # the forms are asked in the order of their definitions: the line comes first
        for form in FlowMap.__subclasses__():
            if form._holds(law, axis):
                return super().__new__(form)
        if law.dim == 3:
            raise ValueError(f"law must have a density on S^2, got {shown(law)}: take Particles")
        raise ValueError(
            f"law must have an axis of symmetry and a density beyond S^2, got {shown(law)}: "
            "take Particles"
        )

    def __init__(
        self,
        law_or_density: Law | Density,
        /,
        *,
        tol: float | None = None,
        axis: ArrayLike | None = None,
        max_nodes: int = 200_000,
        atom_radius: float = 1e-8,
    ) -> None:
        law, axis = _law_and_axis(law_or_density, axis)
        default, least = self._tols
        self.tol = number("tol", default if tol is None else tol, low=least, high=1e-2)
        self.max_nodes = integer("max_nodes", max_nodes, low=self._least_nodes)
        self.atom_radius = number("atom_radius", atom_radius, low=0, high=1e-2)
        self._begin(law, axis)

    @staticmethod
    def _holds(law: Law, axis: ArrayLike | None) -> bool:  # noqa: ARG004 (of its forms)
        """Whether this form of flow map holds a law, for which this axis is given."""
        return False

    def _begin(self, law: Law, axis: ArrayLike | None) -> None:
        """Lay the nodes of a law."""

    @classmethod
    def from_arrays(
        cls, law: object, *, tol: float, max_nodes: int, atom_radius: float, **arrays: object
    ) -> Self:
        """The flow map of a law, or its line, with the arrays of its form and nothing computed."""
        flow = object.__new__(cls)
        flow.tol, flow.max_nodes, flow.atom_radius = tol, max_nodes, atom_radius
        flow._set(law, **arrays)
        return flow

    def _set(self, *_: Any, **arrays: Any) -> None:
        """Store arguments and arrays; arrays become read-only."""

    @property
    def run_limits(self) -> FlowLimits:
        return FlowLimits(max_nodes=self.max_nodes, atom_radius=self.atom_radius)

    @property
    def node_density(self) -> Array:
        """f_t at the points, shape (n,); inf where it overflows."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp(self.log_density))

    def sample(self, n: int, rng: Rng) -> Array:
        """n independent draws, unit rows (n, d); `Particles.sample(mu, n, rng)` has tokens.

        They are the images of draws of the law under the flow, and atoms with their masses.

        Raises
        ------
        ValueError
            If n < 1, rng is neither an integer >= 0 nor a numpy Generator, or the flow map is one
            on S^2 without symmetry that has moved.

        Examples
        --------
        >>> import meanfield as mf
        >>> mu = mf.FlowMap(mf.FourierSeries([0.5]))
        >>> bool(np.abs(mu.sample(10_000, rng=0).mean(axis=0) - mu.mean()).max() < 0.04)
        True
        """
        return self._drawn_law.sample(integer("n", n, low=1), generator("rng", rng))

    def quantise(self, n: int, rng: Rng | None = None) -> Array:
        """n unit rows (n, d) with equal shares of the mass, on the circle or S^2.

        See `laws.quantised_points`; `Particles.quantise(mu, n)` has tokens.

        Raises
        ------
        ValueError
            If d > 3, n < 1, rng is neither an integer >= 0 nor a numpy Generator, or the flow map
            is one on S^2 without symmetry that has moved.

        Examples
        --------
        >>> import meanfield as mf
        >>> mf.FlowMap(mf.Uniform(2)).quantise(2).round(12) + 0.0
        array([[ 0.,  1.],
               [ 0., -1.]])
        """
        return quantised_points(self._drawn_law, n, rng)

    def entropy(self) -> float:
        """∫ log f_t dmu_t = ∫ f log f dσ, 0 for the uniform law."""
        counted = self.weights > 0.0
        return float(self.weights[counted] @ self.log_density[counted])

    def harmonic_moments(self, basis: Harmonics, multipliers: Array) -> tuple[Coefficients, float]:
        """∫ conj(Y) dmu for all Y of the basis, and what is left out: see `Measure.moments`."""
        smooth, last = self._smooth_moments(basis, multipliers)
        moments = basis.point_moments(*self.point_masses)
        moments += smooth
        return moments, last / max(float(multipliers @ basis.power(moments)), _LEAST_POWER)

    def _smooth_moments(self, basis: Harmonics, multipliers: Array) -> tuple[Coefficients, float]:  # noqa: ARG002
        """The moments of all but the atoms, and Σ multipliers · power of their last degrees."""
        return basis.point_moments(self.points, self.weights), 0.0

    def balance(self, beta: float) -> Balanced:
        """The measure u mu with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1, at nodes that resolve β.

        β <= 150 where nodes stand for latitudes.

        Raises
        ------
        ValueError
            If β is negative, not finite, or too large for the nodes.
        """
        flow, axis = self.resolve(number("beta", beta, low=0)), self.axis
        if axis is None:
            return Balanced.of(flow.points, flow.weights, beta, point_sums(flow.points, beta))
        sums = latitude_sums(flow.points, axis, beta)
        return Balanced.of(flow.points, flow.weights, beta, sums, axis)
