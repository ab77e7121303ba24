"""The tables of a case file: which keys they have and of which type; ranges are the package's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from meanfield.case.faults import shown
from meanfield.case.schema import Table


class UniformTable(Table):
    """The density 1."""

    type: Literal["uniform"]
    dim: int | None = None


class VonMisesFisherTable(Table):
    """A density ∝ exp(kappa <mean, x>)."""

    type: Literal["von-mises-fisher"]
    mean: list[float] = Field(description="a unit vector, one number for each dimension")
    kappa: float = Field(description="the concentration, a number >= 0")


class FourierSeriesTable(Table):
    """1 + Σ cos_k cos kθ + sin_k sin kθ on the circle."""

    type: Literal["fourier-series"]
    cos: list[float] = Field(default_factory=list)
    sin: list[float] = Field(default_factory=list)


class ZonalSeriesTable(Table):
    """1 + Σ a_k P_k(<x, axis>) with P_k(1) = 1."""

    type: Literal["zonal-series"]
    dim: int | None = None
    coefficients: list[float] = Field(description="the list a_1, a_2, … of numbers")
    axis: list[float] | None = None


class PointCloudTable(Table):
    """Tokens from a CSV file, smoothed by the heat kernel if there is a bandwidth."""

    type: Literal["point-cloud"]
    file: str = Field(description='the name of a CSV file, or "tokens-s2"')
    bandwidth: float | None = None


class MixtureTable(Table):
    """Σ weights_i laws_i, equal weights if left out."""

    type: Literal["mixture"]
    laws: list[AnyLawTable] = Field(description="a list of tables, each of them a law")
    weights: list[float] | None = None


LawTable = (
    UniformTable
    | VonMisesFisherTable
    | FourierSeriesTable
    | ZonalSeriesTable
    | PointCloudTable
    | MixtureTable
)
AnyLawTable = Annotated[LawTable, Field(discriminator="type")]
MixtureTable.model_rebuild()


class CircleTable(Table):
    """Fourier series of n modes."""

    type: Literal["circle"]
    n: int = 256


class SphereTable(Table):
    """Spherical harmonics of degree up to lmax."""

    type: Literal["sphere"]
    lmax: int = 63


class ZonalTable(Table):
    """Gegenbauer series of degree up to kmax about an axis."""

    type: Literal["zonal"]
    dim: int | None = None
    kmax: int = 63
    axis: list[float] | None = None


class ParticlesTable(Table):
    """n tokens of the law, by a seed for draws and noise; without n, those of a point cloud."""

    type: Literal["particles"]
    n: int | None = Field(default=None, ge=1, le=10**7)
    seed: int = Field(default=0, ge=0)
    start: Literal["iid", "quantised"] = "iid"
    sums: Literal["auto", "direct", "transforms", "gram"] = "auto"


class FlowMapTable(Table):
    """Nodes that move with the flow: the circle, or a law that is symmetric about an axis."""

    type: Literal["flow-map"]
    tol: float | None = None
    axis: list[float] | None = None


SpaceTable = CircleTable | SphereTable | ZonalTable
AnySpaceTable = Annotated[SpaceTable | FlowMapTable | ParticlesTable, Field(discriminator="type")]


def _number_or_matrix(value: Any) -> Any:
    rows = value if isinstance(value, list) else [[value]]
    are_rows = all(isinstance(row, list) for row in rows)
    entries = [entry for row in rows for entry in row] if are_rows else [None]
    if (
        any(isinstance(entry, bool) or not isinstance(entry, (int, float)) for entry in entries)
        or len({len(row) for row in rows}) != 1
    ):
        raise ValueError(f"must be a number or a list of equal rows of numbers, got {shown(value)}")
    return value


Matrix = Annotated[Any, BeforeValidator(_number_or_matrix)]


class HeadTable(Table):
    """One head; a number is that multiple of the identity."""

    Q: Matrix = 1.0
    K: Matrix = 1.0
    V: Matrix = 1.0


class DynamicsTable(Table):
    """SA, USA or DoublyStochastic with a sign, or Attention with heads, with softmax or without."""

    type: Literal["SA", "USA", "DoublyStochastic", "Attention"] = "SA"
    beta: float = Field(description="the inverse temperature, a number >= 0")
    sign: int | None = None
    noise: float = 0.0
    heads: list[HeadTable] | None = None
    normalise: bool | None = None


def _count_or_times(value: Any) -> Any:
    items, types = (value, (int, float)) if isinstance(value, list) else ([value], (int,))
    if any(isinstance(item, bool) or not isinstance(item, types) for item in items):
        raise ValueError(f"must be an integer >= 1 or a list of times, got {shown(value)}")
    return value


class RunTable(Table):
    """What `evolve` takes; what is left out is as evolve has it, but for `on_unresolved`."""

    t_end: float = Field(description="the final time, a number > 0")
    save_at: Annotated[int | list[float], BeforeValidator(_count_or_times)] = 20
    method: Literal["flow", "layers"] | None = None
    step: float | None = None
    rtol: float | None = None
    atol: float | None = None
    tail_tol: float | None = None
    largest: int | None = None
    cluster_radius: float | None = None
    on_unresolved: Literal["stop", "flow-map"] | None = None


class MonitorTable(Table):
    """A distance at the saves; p and gap, beta, and s are keys of one distance each."""

    distance: Literal["wasserstein", "mmd", "sobolev"] = "wasserstein"
    p: float | None = None
    gap: float | None = None
    beta: float | None = None
    s: float | None = None
    to: Literal["uniform", "centre", "start"] | None = None
    law: AnyLawTable | None = None
    every: int = 1


class OutputTable(Table):
    """Where results go, relative to the present folder; the figure beside the file if left out."""

    file: str = "run.nc"
    figure: str | None = None
