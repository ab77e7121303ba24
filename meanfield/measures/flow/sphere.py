"""A flow map on S^2 without symmetry: nodes of a mesh of patches, and particles for clusters."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import integer, number, shown, tell_apart
from meanfield.laws import Law, PointCloud
from meanfield.laws.protocol import checked_pdf
from meanfield.measures.flow.base import FlowMap
from meanfield.patches import ORDER, PER_LEAF, lay

Array = NDArray[np.float64]

_TOL = 1e-9
_LARGEST = 400_000
# a patch may extend over this angle / β: 10 Gauss nodes each way integrate e^{β<x,y>} across it
# with a relative error of 2 I_20(5) = 1e-10
_REACH = 10.0
_MOST = 1_000_000
# the level of patches from which on they are more
_DEEPEST = 6
_LEAF_SHARE = 0.1
_LEAST_DENSITY = 1e-300


class SphereFlowMap(FlowMap):
    """mu_t = Φ_t # mu_0 on S^2 for any law with a density.

    Nodes lie in patches of 10 × 10 Gauss points on the cubed sphere, a quadtree that is laid anew
    on the present density when the flow has stretched it. What has gathered in a small cluster is
    carried by particles with the same moments.

    Parameters
    ----------
    law : Law
        On S^2, with a density.
    tol : float, optional
        Error of the moments, in units of mass, that meshes and time steps are chosen for;
        default 1e-9.
    axis : None
        An axis makes the form a `LineFlowMap`.
    largest : int, optional
        The most nodes of a mesh; default 400000.

    Attributes
    ----------
    law : Law
    points : ndarray, shape (n, 3)
        Nodes and then particles.
    weights : ndarray, shape (n,)
    n_nodes : int
        How many of them are nodes of the mesh.
    density_at_nodes : ndarray, shape (n,)
        f_t at the nodes, of what they carry; inf for the particles.
    t : float
        Time since the law.

    Raises
    ------
    ValueError
        If an argument is out of range, or the law takes too many nodes.

    Examples
    --------
    >>> from meanfield.laws import Mixture, VonMisesFisher
    >>> bumps = [VonMisesFisher([0.0, 0.0, 1.0], 2.0), VonMisesFisher([0.0, 1.0, 0.0], 2.0)]
    >>> FlowMap(Mixture(bumps), tol=1e-6)
    FlowMap(dim=3, nodes=2400, particles=0)
    """

    def __init__(
        self,
        law: Law,
        tol: float | None = None,
        *,
        axis: ArrayLike | None = None,  # noqa: ARG002 (of the other form)
        largest: int | None = None,
    ) -> None:
        tol = number("tol", _TOL if tol is None else tol, low=1e-13, high=1e-2)
        largest = integer("largest", _LARGEST if largest is None else largest, low=6 * PER_LEAF)
        try:
            self._lay(law, tol, 1, largest)
        except ArithmeticError as error:
            raise ValueError(f"law {shown(law)} is not resolved: {error}") from error

    def _lay(self, law: Law, tol: float, coarsest: int, largest: int) -> None:
        mesh = lay(
            lambda x: checked_pdf(law, x), _LEAF_SHARE * tol, coarsest=coarsest, limit=largest
        )
        logs = np.log(np.maximum(mesh.values[0], _LEAST_DENSITY))
        masses = mesh.weights * mesh.values[0]
        self._set(law, tol, 0.0, points=mesh.points, weights=masses, log_density=logs)

    def _set(self, law: Law, tol: float, t: float, **arrays: Array) -> None:
        for array in arrays.values():
            array.flags.writeable = False
        self.law, self.tol, self.t, self.dim = law, tol, t, 3
        self.points, self.weights = arrays["points"], arrays["weights"]
        self.log_density = arrays["log_density"]
        self.n_nodes = int(np.isfinite(self.log_density).sum())
        self._finest: SphereFlowMap = self

    @classmethod
    def holds(cls, law: Law, axis: ArrayLike | None) -> bool:
        """Whether the law is on S^2 and has a density."""
        tokens = isinstance(law, PointCloud) and law.bandwidth is None
        return law.dim == 3 and axis is None and not tokens

    @classmethod
    def from_arrays(cls, law: Law, tol: float, t: float, **arrays: NDArray[Any]) -> SphereFlowMap:
        """The flow map with these points, weights and log_density, inf at particles."""
        flow = cls.__new__(cls)
        flow._set(law, tol, t, **arrays)
        return flow

    def resolving(self, beta: float) -> SphereFlowMap:
        """The same measure on patches that resolve e^{β<x,y>}; itself if they do.

        The law's patches are laid anew. Those of a later time can't be, and are made for the β of
        their run; so are the particles.

        Raises
        ------
        ValueError
            If the patches of a later time are too wide, or 10^6 nodes are too few for the law.
        """
        beta = number("beta", beta, low=0)
        if beta * self._finest.extent <= _REACH:
            return self._finest
        if self.t > 0.0:
            got, largest = tell_apart(beta, _REACH / self.extent)
            raise ValueError(
                f"beta, or the length of z, must be <= {largest} for {self} at t = {self.t:g}, "
                f"whose patches are no smaller, got {got}"
            )
        coarsest = int(np.ceil(np.log2(0.5 * np.pi * beta / _REACH)))
        finer = SphereFlowMap.__new__(SphereFlowMap)
        try:
            finer._lay(self.law, self.tol, min(coarsest, _DEEPEST), _MOST)
        except ArithmeticError as error:
            raise ValueError(
                f"beta, or the length of z, must be smaller for {self}, got {beta:g}: {error}; "
                f"try a Density on a Sphere"
            ) from error
        self._finest = finer
        return finer

    @cached_property
    def extent(self) -> float:
        """The widest patch with more mass than `tol`, the distance of opposite nodes."""
        grid = self.points[: self.n_nodes].reshape(-1, ORDER, ORDER, 3)
        along = np.linalg.norm(grid[:, -1] - grid[:, 0], axis=-1).max(axis=1)
        across = np.linalg.norm(grid[:, :, -1] - grid[:, :, 0], axis=-1).max(axis=1)
        counted = self.weights[: self.n_nodes].reshape(-1, PER_LEAF).sum(axis=1) > self.tol
        return float(np.max(np.maximum(along, across), where=counted, initial=1e-300))

    def entropy(self) -> float:
        """∫ log f_t dmu_t = ∫ f log f dσ, while nodes carry all of the mass.

        Raises
        ------
        ValueError
            If there are particles, at which f is not known.
        """
        if self.n_nodes < len(self.points):
            raise ValueError(
                f"measure must have no particles for its entropy to be known, got {self}"
            )
        return super().entropy()

    def __repr__(self) -> str:
        particles = len(self.points) - self.n_nodes
        return f"FlowMap(dim=3, nodes={self.n_nodes}, particles={particles})"
