"""A flow map on S^2 without symmetry: nodes in patches of a mesh, and particles."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np
import scipy

from meanfield._checks import freeze, number, shown, tell_apart
from meanfield.kernels.bilinear import SphereBilinear, largest_score
from meanfield.kernels.harmonics import SphereScoreSums
from meanfield.laws.law import Law, checked_logpdf, checked_pdf, has_density
from meanfield.measures.clusters import Clusters, grouped
from meanfield.measures.density import Density
from meanfield.measures.flow_map import MOST_NODES, FlowMap, check_count
from meanfield.measures.particles import Particles
from meanfield.spaces import Harmonics, Sphere, SphereAt, cubed_sphere, geometry
from meanfield.spaces.cubed_sphere import DRIFT_SHARE, LEAF_SHARES, ORDER, PER_LEAF, drift_missed
from meanfield.typing import Array, ArrayLike, Coefficients, Steepness

# a patch may extend over this angle / β: 10 Gauss nodes each way integrate e^{β<x,y>} across it
# with a relative error of 2 I_20(5) = 1e-10
_REACH = 10.0
_MOST_ON_SPHERE = 1_000_000
# a mesh of patches of this level has more nodes than that
_DEEPEST = 6
_LEAF_SHARE = 0.1
# a patch reaches from its centre at most this many times as far as its nodes do
_BEYOND_NODES = 1.2
# parts of patches extend over this many radii of a ball, so nodes are at most half a radius apart
_RADII = 3.0
# particles of one cluster are nearer to one another than this
_APART = 0.3
# with l h/2 in this range, on patches of side h, the error of a moment of degree l may become
# larger than the moment: it is 1e-12 to 1e-4
_MESH_WAVES = 3.8, 10.0
# a finite symmetry may leave up to five degrees in a row without power, as an icosahedron's does;
# so many degrees in a row are looked at together, one of which has power
_WINDOW = 6
# a density in place of a mesh has at most this degree, and may differ from it by this in W_1
_LARGEST_DEGREE, _COARSE = 255, 1e-3


def _mesh(
    law: Law, tol: float, coarsest: int, most: int, steepness: Steepness | None = None
) -> dict[str, Array]:
    """Return points, weights and log_density of a law's nodes on S^2."""
    share, pdf = _LEAF_SHARE * tol, partial(checked_pdf, law)
    mesh = cubed_sphere.lay(pdf, share, coarsest=coarsest, limit=most, steepness=steepness)
    values = mesh.values[0]
    logs = checked_logpdf(law, mesh.points)
    return {"points": mesh.points, "weights": mesh.weights * values, "log_density": logs}


class SphereFlowMap(FlowMap):
    """mu_t = Φ_t # mu_0 on S^2 for any law with a density.

    Nodes lie in patches of 10 × 10 Gauss points on the cubed sphere, a quadtree that is made anew
    on the present density when the flow has stretched it. What has gathered in a small cluster is
    carried by particles with the same moments.

    Parameters
    ----------
    law_or_density : Law or Density
        On S^2, with a density.
    tol : float, optional
        Error of the moments, in units of mass, that meshes and time steps are chosen for;
        default 1e-9.
    axis : None
        An axis makes the form a `LineFlowMap`.
    max_nodes, atom_radius : int, float
        As of a `FlowMap`.

    Attributes
    ----------
    law : Law
    points : ndarray, shape (n, 3)
        Nodes and then particles.
    weights : ndarray, shape (n,)
    n_nodes : int
        How many of them are nodes of the mesh.
    log_density : ndarray, shape (n,)
        log f_t at the nodes, of what they carry; inf for the particles.
    t : float
        The time of the run at which it is; 0.0 while it is the law's own, which may be drawn from.

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

    law: Law
    _tols = 1e-9, 1e-13
    _least_nodes = 6 * PER_LEAF

    @staticmethod
    def _holds(law: Law, axis: ArrayLike | None) -> bool:  # noqa: ARG004 (of a line)
        return law.dim == 3 and has_density(law)

    def _begin(self, law: Law, axis: ArrayLike | None) -> None:  # noqa: ARG002 (of a line)
        try:
            self._set(law, 0.0, **_mesh(law, self.tol, 1, self.max_nodes))
        except ArithmeticError as error:
            raise ValueError(f"law {shown(law)} is not resolved: {error}") from error

    def _set(self, law: Law, t: float, **arrays: Array) -> None:
        freeze(self, **arrays)
        self.law, self.t, self.dim = law, t, 3
        self.n_nodes = int((~np.isposinf(self.log_density)).sum())
        self._finer: dict[int, SphereFlowMap] = {}

    def moved_to(self, t: float, **arrays: Array) -> SphereFlowMap:
        """The same law's flow map at t, with these arrays."""
        return SphereFlowMap.from_arrays(self.law, tol=self.tol, t=t, **self.run_limits, **arrays)

    def resolve(self, beta: float, steepness: Steepness | None = None) -> SphereFlowMap:
        """The same measure on patches that resolve e^{β<x,y>} and a drift; itself if they do.

        The law's patches are made anew. Those of a later time can't be, and are made for the β and
        the drift of their run; so are the particles.

        Raises
        ------
        ValueError
            If the patches of a later time are too wide, or 10^6 nodes are too few for the law.
        """
        beta, n = number("beta", beta, low=0), self.n_nodes
        nodes, allowed = (self.points[:n], self.weights[:n]), DRIFT_SHARE * self.tol
        if self.t > 0.0 or steepness is None or not len(drift_missed(steepness, allowed, *nodes)):
            steepness = None
            if beta <= self.largest_beta:
                return self
        if self.t > 0.0:
            beta_text, largest = tell_apart(beta, self.largest_beta)
            raise ValueError(
                f"beta, or the length of z, must be <= {largest} for {self} at t = {self.t:g}, "
                f"whose patches are no smaller, got {beta_text}"
            )
        halvings = int(np.ceil(np.log2(0.5 * np.pi * max(beta, 1.0) / _REACH)))
        coarsest = min(max(halvings, 1), _DEEPEST)
        if steepness is not None:
            return self._meshed(beta, coarsest, steepness)
        # one flow map is kept for each size of patches, so the answer depends on no earlier call
        if coarsest not in self._finer:
            self._finer[coarsest] = self._meshed(beta, coarsest)
        return self._finer[coarsest]

    def _meshed(
        self, beta: float, coarsest: int, steepness: Steepness | None = None
    ) -> SphereFlowMap:
        """Return the law on patches that are halved at least so often and resolve a drift.

        Raises
        ------
        ValueError
            If 10^6 nodes are too few, naming β.
        """
        try:
            mesh = _mesh(self.law, self.tol, coarsest, _MOST_ON_SPHERE, steepness)
        except ArithmeticError as error:
            raise ValueError(
                f"beta, the length of z, or the slope of a drift, must be smaller for {self}, got "
                f"{beta:g}: {error}; try a Density on a Sphere"
            ) from error
        return self.moved_to(0.0, **mesh)

    @property
    def _drawn_law(self) -> Law:  # type: ignore[override]
        """Return the law while the measure has not moved.

        Raises
        ------
        ValueError
            If it has moved, so that only nodes stand for it.
        """
        if self.t > 0.0:
            raise ValueError(
                f"law must have an axis of symmetry, or not have moved, to be drawn from, got "
                f"{self} at t = {self.t:g}: draw rows of its points with the probabilities weights"
            )
        return self.law

    def score_moment(self, points: Array, scores: Array) -> tuple[Array, Array]:
        """log G and ∇ log G at Mx for points x (m, 3), M = `scores` symmetric, in O(n + m)."""
        if largest_score(scores) > SphereBilinear.largest_score:
            return super().score_moment(points, scores)
        return SphereScoreSums([scores]).log_moments(self.points, self.weights, points)[0]

    def at_scale(self, radius: float) -> tuple[Array, Array]:
        """Nodes of parts of the patches that extend over no more than three radii, and particles.

        Parts have their nodes where the polynomials through the nodes of the patch take them.
        """
        n, reach = self.n_nodes, _RADII * radius
        points, masses = [self.points[n:]], [self.weights[n:]]
        counts = np.ceil(np.maximum(self._extents / reach, 1.0))
        refusal = f"radius must be larger for {self}, got {radius:g}, which takes"
        check_count(PER_LEAF * float((counts**2).sum()), MOST_NODES, refusal)
        patches = self.points[:n].reshape(-1, PER_LEAF, 3)
        weights = self.weights[:n].reshape(-1, PER_LEAF)
        for count in np.unique(counts):
            has_count = counts == count
            finer, shares = cubed_sphere.parts(patches[has_count], weights[has_count], int(count))
            finer = finer.reshape(-1, 3)
            points.append(finer / np.linalg.norm(finer, axis=1, keepdims=True))
            masses.append(shares.ravel())
        return np.concatenate(points), np.concatenate(masses)

    @cached_property
    def _extents(self) -> Array:
        """Return the distance of opposite nodes of each patch of more mass than `tol`, else 0."""
        grid = self.points[: self.n_nodes].reshape(-1, ORDER, ORDER, 3)
        along = np.linalg.norm(grid[:, -1] - grid[:, 0], axis=-1).max(axis=1)
        across = np.linalg.norm(grid[:, :, -1] - grid[:, :, 0], axis=-1).max(axis=1)
        counted = self.weights[: self.n_nodes].reshape(-1, PER_LEAF).sum(axis=1) > self.tol
        return np.where(counted, np.maximum(along, across), 0.0)

    @cached_property
    def largest_beta(self) -> float:
        """The β up to which the patches resolve e^{β<x,y>}."""
        return _REACH / float(self._extents.max(initial=1e-300))

    @cached_property
    def atoms(self) -> Clusters:  # type: ignore[override]
        """Clusters that are held as points, the heaviest first."""
        particles = np.flatnonzero(np.isposinf(self.log_density))
        return grouped(self.points, self.weights, particles, _APART)

    @property
    def point_masses(self) -> tuple[Array, Array]:
        """Points (n, 3) and masses (n,) of the particles."""
        is_particle = np.isposinf(self.log_density)
        return self.points[is_particle], self.weights[is_particle]

    def _smooth_moments(self, basis: Harmonics, multipliers: Array) -> tuple[Coefficients, float]:
        """Return the moments of the nodes, cut where their error dominates.

        A patch of 10 × 10 Gauss nodes and side h gives degree l with an error of 1e-24 (lh/2)^20.
        So from some degree on the power that is found grows; up to the least of it, in windows
        that no symmetry empties, it is the measure's.
        """
        free = ~np.isposinf(self.log_density)
        points, masses = self.points[free], self.weights[free]
        patches = points.reshape(-1, PER_LEAF, 3)
        counted = masses.reshape(-1, PER_LEAF).sum(axis=1) > self.tol
        if not counted.any():
            return basis.point_moments(points, masses), 0.0
        side = np.linalg.norm(patches[:, 0] - patches[:, -1], axis=1)[counted].max() / np.sqrt(2.0)
        first, last = (int(2.0 * waves / side) for waves in _MESH_WAVES)
        part = basis.resized(min(last + _WINDOW, basis.kmax))
        node_moments = part.point_moments(points, masses)
        power = part.power(node_moments)
        highest = max(len(power) - _WINDOW, 0)
        starts = np.arange(min(first, highest), highest + 1)
        windows = [power[start : start + _WINDOW].sum() / (start + 1.0) for start in starts]
        start = int(starts[np.argmin(windows)])
        # if the power never grows, all degrees belong to the measure
        cut = start if start + _WINDOW <= basis.kmax else basis.kmax
        moments = np.zeros(len(basis.degrees), dtype=np.complex128)
        moments[basis.degrees <= cut] = node_moments[part.degrees <= cut]
        weighted = multipliers[: len(power)] * power
        return moments, float(weighted[max(start, 1) : start + _WINDOW].sum())

    def for_transport(self, p: float) -> tuple[Density | Particles, float]:
        """A density, for W_1 where there is one; else the nodes."""
        if p == 1.0 and self._series is not None:
            return self._series
        return Particles(self.points, self.weights, unit_mass=True), self._spacing(p)

    def _spacing(self, p: float) -> float:
        """Return an estimate of W_p between the nodes and the measure.

        The mass of a node is spread over its share of the patch, and that of a particle no
        farther than to the next one of its cluster.
        """
        particles = self.points[self.n_nodes :]
        costs = np.zeros(len(self.points))
        costs[: self.n_nodes] = cubed_sphere.spreads(self.points[: self.n_nodes], p)
        if len(particles) > 1:
            distances = scipy.spatial.cKDTree(particles).query(particles, k=2)[0][:, 1]
            costs[self.n_nodes :] = np.where(distances < _APART, distances, 0.0) ** p
        return float((self.weights @ costs / self.weights.sum()) ** (1.0 / p))

    def unresolved_share(self, values: Array, kinks: Array) -> float:
        """An estimate of what sums over the nodes miss of ∫ values dmu, of values (n,) at them.

        Patches that may hold one of the points (k, 3) where a function has a kink miss no more
        than the tail of its polynomials. Particles have the moments of what they stand for, so a
        cluster of them misses what a polynomial does not meet.
        """
        places = self.points[: self.n_nodes].reshape(-1, PER_LEAF, 3)
        masses = self.weights[: self.n_nodes] * values[: self.n_nodes]
        integrand = masses.reshape(-1, PER_LEAF) / LEAF_SHARES
        centres = places.mean(axis=1)
        reach = _BEYOND_NODES * np.linalg.norm(places - centres[:, None], axis=2).max(axis=1)
        has_kink = np.linalg.norm(centres[:, None] - kinks, axis=2).min(axis=1) <= reach
        errors_of_smooth = cubed_sphere.quadrature_error(integrand)
        errors = np.where(has_kink, cubed_sphere.tails(integrand), errors_of_smooth)
        missed_sum = float(errors.sum()) + self.tol * float(np.abs(values).max())
        (particles, shares), costs = self.point_masses, values[self.n_nodes :]
        nearest = scipy.spatial.cKDTree(self.atoms.centres).query(particles)[1]
        for is_member in (nearest == index for index in np.unique(nearest)):
            missed_sum += _unmet(particles[is_member], shares[is_member], costs[is_member])
        return missed_sum

    @cached_property
    def _series(self) -> tuple[Density, float] | None:
        """Return the density of the nodes' moments, and an estimate of W_1 between both.

        W_1 is at most the norm of the difference in H^{-1}. Moments have errors of `tol`. The power
        falls beyond the last degree, window by window, beyond twice that there is next to none, and
        up to there the multipliers are half of that degree's on average. None where there are
        particles, or the density is known to less than 1e-3.
        """
        if self.n_nodes < len(self):
            return None
        basis = SphereAt(_LARGEST_DEGREE)
        degrees = np.arange(1.0, basis.kmax + 1)
        multipliers = np.append(0.0, 1.0 / (degrees * (degrees + 1.0)))
        moments, last = self._smooth_moments(basis, multipliers)
        cut = int(basis.degrees[np.flatnonzero(moments)].max())
        errors = ((2.0 * degrees + 1.0) * multipliers[1:])[:cut]
        error_in_w1 = float(np.sqrt(0.5 * cut / _WINDOW * last) + self.tol * np.sqrt(errors.sum()))
        if error_in_w1 > _COARSE:
            return None
        space = Sphere(max(cut, 3))
        return Density.from_coefficients(space, moments[basis.degrees <= space.size]), error_in_w1

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


def _unmet(points: Array, masses: Array, values: Array) -> float:
    """An estimate of what a cluster of particles misses of ∫ values, from values (n,) at (n, 3).

    Particles have the moments of the mass that they stand for, so only what a polynomial leaves of
    the values is missed: in the sum over them, and about as much in the integral. It has at most
    half as many coefficients as there are particles.
    """
    degree = 0
    while (degree + 2) * (degree + 3) <= len(points):
        degree += 1
    axis = geometry.perpendicular(points[0])
    local = points @ np.stack([axis, np.cross(points[0], axis)], axis=1)
    local -= local.mean(axis=0)
    local /= np.abs(local).max() or 1.0
    x, y = (np.vander(part, degree + 1, increasing=True) for part in local.T)
    roots = np.sqrt(masses)
    powers = [(j, k) for j in range(degree + 1) for k in range(degree + 1 - j)]
    terms = np.stack([roots * x[:, j] * y[:, k] for j, k in powers], axis=1)
    left = roots * values - terms @ np.linalg.lstsq(terms, roots * values, rcond=None)[0]
    return 2.0 * float(roots @ np.abs(left))
