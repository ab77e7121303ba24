"""A user's own dynamics of tokens, and what a file keeps of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import shown

Array = NDArray[np.float64]


@runtime_checkable
class OwnDynamics(Protocol):
    """dx_i/dt = P_x output(mu, x_i) for tokens, whatever the output asks of their measure.

    An object of any class that has these moves `Particles`: continuously, in discrete layers and
    with noise. It does not move densities and flow maps, which need the field's divergence, and to
    know how many modes or nodes resolve it.
    """

    @property
    def name(self) -> str:
        """A word for figures and files; none of the package's."""

    @property
    def dim(self) -> int | None:
        """Ambient dimension d, None if any fits."""

    @property
    def beta(self) -> float:
        """That of the energy E_β which a run records; 0 for |∫ x dmu|²/2."""

    @property
    def noise(self) -> float:
        """τ >= 0 of dx = X dt + sqrt(2τ) dB."""

    def output(self, measure: Any, points: Array) -> Array:
        """What is added to tokens at unit rows (n, d), shape (n, d); only P_x of it counts."""


@dataclass(frozen=True)
class ForgottenDynamics:
    """The dynamics of a file that could keep no more of it: one of a user's own class.

    Parameters
    ----------
    name : str
    text : str
        Its repr.
    beta, noise : float
    """

    name: str
    text: str
    beta: float
    noise: float

    dim: ClassVar[None] = None

    def __repr__(self) -> str:
        return self.text

    def output(self, measure: Any, points: Array) -> Array:
        """Refuse.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            f"dynamics {self.name!r} is not known any more on {shown(measure)} at {len(points)} "
            f"points: "
            f"the file could keep its name only"
        )
