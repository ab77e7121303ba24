"""d/dt of the nodes and atoms of a flow map, and the field of velocities that moves them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from meanfield.dynamics import CircleInteraction, MeanField
from meanfield.line_potential import CircleLine, Line, interpolation, line
from meanfield.measures import LineFlowMap
from meanfield.measures.flow.line import FREE
from meanfield.tendency.interaction import interaction_line

Array = NDArray[np.float64]

# below this share of its maximum a potential that is not right relative to its own size is lost
_SMALL = 1e-6
# a time step may leave a node of next to no mass in doubt by this angle
_COARSEST = 1e-6


class LineField:
    """X and div X of a dynamics at angles, from the potential of masses at angles.

    With G, S and L the sums of K, ∂K/β and ΔK/β (all scaled by e^{-β}): USA has X = e^β S and
    div X = e^β L; SA has X = S/G and div X = L/G - β (S/G)². Interactions have X = S, div X = L.

    Parameters
    ----------
    dynamics : SA, USA or CircleInteraction
    dim : int
    """

    def __init__(self, dynamics: MeanField, dim: int) -> None:
        self.dynamics = dynamics
        if isinstance(dynamics, CircleInteraction):
            self.line: Line = interaction_line(dynamics)
        else:
            self.line = line(dynamics.beta, dim)
        self._unit = dynamics.sign * (1.0 if dynamics.normalised else float(np.exp(dynamics.beta)))

    def velocity(self, sums: Array) -> tuple[Array, Array]:
        """X and div X from G, S and L, the rows of `sums`, shape (3, n)."""
        potential, slope, laplacian = sums
        if not self.dynamics.normalised:
            return self._unit * slope, self._unit * laplacian
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = slope / potential
            spread = laplacian / potential - self.dynamics.beta * pull * pull
        return self._unit * pull, self._unit * spread

    def from_charges(self, charges: Array, angles: Array) -> tuple[Array, Array]:
        """X and div X at angles, from charges gathered at the nodes of the line's cells."""
        return self.velocity((interpolation(self.line, angles) @ self.line.fields(charges)).T)


class FlowTendency:
    """dθ/dt = X[mu](θ) and d/dt ∫ div X for the nodes of a flow map, which its atoms move with.

    The state holds the angles of the nodes that stand at no atom and of the atoms, then ∫ div X
    for each of them.

    Parameters
    ----------
    flow : LineFlowMap
    dynamics : SA, USA or CircleInteraction
        Its noise is not part of the tendency.
    field : LineField, optional
        The field of this dynamics in this dimension, if there is one already.

    Attributes
    ----------
    initial_state : ndarray
    field : LineField
    """

    def __init__(
        self, flow: LineFlowMap, dynamics: MeanField, field: LineField | None = None
    ) -> None:
        self.flow, self.dynamics = flow, dynamics
        self.field = field or LineField(dynamics, flow.dim)
        self._free = np.flatnonzero(flow.owners == FREE)
        self._held = np.flatnonzero(flow.owners != FREE)
        self._atom_masses = flow.atom_masses
        self._masses = np.concatenate([flow.weights[self._free], self._atom_masses])
        self._count = len(self._masses)
        # on the circle atoms act on each other and on the nodes one by one, so that forces
        # between far clusters keep their digits beside the large ones within a cluster
        self._pairwise = isinstance(self.field.line, CircleLine)
        self.initial_state = np.concatenate(
            [
                flow.angles[self._free],
                flow.atoms,
                flow.expansion[self._free],
                np.zeros(len(flow.atoms)),
            ]
        )
        self._sums = np.zeros((3, self._count))
        self._speed = np.zeros(self._count)

    def measure(self, state: Array) -> LineFlowMap:
        """The flow map of a state."""
        flow, free, held = self.flow, self._free, self._held
        positions, expansions = state[: self._count], state[self._count :]
        angles, expansion = flow.angles.copy(), flow.expansion.copy()
        atoms = positions[len(free) :].copy()
        owners = flow.owners[held]
        angles[free], expansion[free] = positions[: len(free)], expansions[: len(free)]
        angles[held] += (atoms - flow.atoms)[owners]
        expansion[held] += expansions[len(free) :][owners]
        return flow.moved(angles=angles, expansion=expansion, atoms=atoms)

    def scale(self, state: Array) -> Array:  # noqa: ARG002 (as for every tendency)
        """What a tolerance for each entry is relative to.

        Errors of positions count by mass: with them, the tolerance bounds Σ mass · error.
        """
        share = self._count * np.maximum(self._masses, 1e-300)
        limit = _COARSEST / self.flow.tol
        angle = np.minimum(1.0 / share, limit)
        return np.concatenate([angle, np.maximum(np.minimum(10.0 * angle, limit), 100.0)])

    def spread(self, rate: Array) -> Array:
        """div X at the nodes that stand at no atom, from d/dt of the state."""
        return rate[self._count : self._count + len(self._free)]

    def charges(self, state: Array) -> Array:
        """The measure as charges at the nodes of the line's cells."""
        gathered: Array = interpolation(self.field.line, state[: self._count]).T @ self._masses
        return gathered

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        angles = state[: self._count]
        self._sums = self._summed(angles)
        self._speed, spread = self.field.velocity(self._sums)
        if self.dynamics.normalised and not self.field.line.relative:
            small = np.flatnonzero(self._sums[0] < _SMALL * self._sums[0].max())
            self._speed[small], spread[small] = self._far_away(angles, small)
        out[: self._count], out[self._count :] = self._speed, spread

    def _summed(self, angles: Array) -> Array:
        """G, S and L at the nodes and atoms, shape (3, count)."""
        cells, free = self.field.line, len(self._free)
        gathered = free if self._pairwise else len(angles)
        sums = np.zeros((3, self._count))
        if gathered:
            rows = interpolation(cells, angles)
            charges = rows[:gathered].T @ self._masses[:gathered]
            sums += (rows @ cells.fields(charges)).T
        if self._pairwise:
            for place, mass in zip(angles[free:], self._masses[free:], strict=True):
                sums += mass * cells.kernel(angles, place)
        return sums

    def _far_away(self, angles: Array, index: NDArray[np.intp]) -> tuple[Array, Array]:
        """X and div X of SA on the circle where G is small, as means under a softmax."""
        beta = self.dynamics.beta
        apart = angles[index][:, None] - angles
        with np.errstate(divide="ignore", under="ignore"):
            share = softmax(-2.0 * beta * np.sin(0.5 * apart) ** 2 + np.log(self._masses), axis=1)
            sine, cosine = np.sin(apart), np.cos(apart)
            pull = -(share * sine).sum(axis=1)
            spread = (share * (beta * (sine + pull[:, None]) ** 2 - cosine)).sum(axis=1)
        return self.dynamics.sign * pull, self.dynamics.sign * spread

    def scaled_dissipation(self) -> float:
        """e^{-β} ∫ |X|² dmu (USA), e^{-β} ∫ |X|² G(βx) dmu (SA), (3.6), at the last state."""
        if self.dynamics.normalised:
            return float(self._masses * self._speed**2 @ self._sums[0])
        # X = e^β S: its square alone may leave double precision
        return float(self._masses @ self._sums[1] ** 2 * np.exp(self.dynamics.beta))

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        # X of USA as a whole, since its square may leave double precision
        largest = float(np.abs(self._speed).max())
        if largest == 0.0:
            return 0.0
        return largest * float(np.sqrt(self._masses @ (self._speed / largest) ** 2))

    def scaled_energy(self, state: Array) -> float:
        """e^{-β} E_β(mu), (3.5); at β = 0 its limit without the constant."""
        beta = self.dynamics.beta
        if beta == 0.0:
            return 0.5 * float(np.sum(self.measure(state).mean() ** 2))
        return 0.5 / beta * float(self._masses @ self._summed(state[: self._count])[0])
