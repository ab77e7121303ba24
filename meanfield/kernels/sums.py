"""What equations ask of the sums of a kernel, however these are done."""

from typing import Protocol

from meanfield.typing import Array


class NodeSums(Protocol):
    """Sums over masses at nodes, at the nodes: `PairSums`, `SphereNodes` or `LineNodes`."""

    def potential(self, masses: Array) -> Array:
        """G = Σ_j k_ij m_j, shape (n,)."""

    def pull(self, masses: Array) -> tuple[Array, Array]:
        """G (n,) and P_x Σ_j k_ij m_j y_j, shape (n, d)."""


class TokenSums(Protocol):
    """Sums over tokens, at the tokens: a `PotentialKernel` over pairs, or `SphereSums`."""

    def pull_of_others(self, points: Array, masses: Array) -> tuple[Array, Array, Array]:
        """P_x Σ m_j s y_j (n, d) in units of e^{u_i}, u (n,), and log Σ m_j s (n,)."""
