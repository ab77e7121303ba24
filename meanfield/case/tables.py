"""The tables of a case file: which keys they have and of which type; ranges are the package's.

The ranges here are for editors, which read the JSON schema; a case is refused by what it is built
from, whose messages name the value.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from meanfield.case.faults import shown
from meanfield.case.schema import Table, told

_AXIS = "a unit vector, dim numbers; the last unit vector if left out"
_DIM = "the ambient dimension d, 2 to 1024; that of the other table if left out"
_LAW_DIM = "the ambient dimension d, 2 to 4096; that of the other table if left out"
LARGEST_DIM, LONGEST_LIST = 4096, 4096
MOST_MONITORS, MOST_SAVES = 256, 10**7
_LIST: dict[str, Any] = {"maxItems": LONGEST_LIST}


class UniformTable(Table):
    """The density 1."""

    type: Literal["uniform"] = Field(description="the density 1")
    dim: int | None = told(_LAW_DIM, minimum=2, maximum=LARGEST_DIM)


class VonMisesFisherTable(Table):
    """A density ∝ exp(kappa <mean, x>)."""

    type: Literal["von-mises-fisher"] = Field(description="a bump around a mean")
    mean: list[float] = Field(
        description="a unit vector, one number for each dimension",
        json_schema_extra={"minItems": 2, "maxItems": LARGEST_DIM},
    )
    kappa: float = Field(
        description="the concentration, a number >= 0", json_schema_extra={"minimum": 0}
    )


class FourierSeriesTable(Table):
    """1 + Σ cos_k cos kθ + sin_k sin kθ on the circle."""

    type: Literal["fourier-series"] = Field(description="1 + Σ cos_k cos kθ + sin_k sin kθ")
    cos: list[float] = Field(
        default_factory=list, description="cos_1, cos_2, …", json_schema_extra=_LIST
    )
    sin: list[float] = Field(
        default_factory=list, description="sin_1, sin_2, …", json_schema_extra=_LIST
    )


class ZonalSeriesTable(Table):
    """1 + Σ a_k P_k(<x, axis>) with P_k(1) = 1."""

    type: Literal["zonal-series"] = Field(description="1 + Σ a_k P_k(<x, axis>), P_k(1) = 1")
    dim: int | None = told(_LAW_DIM, minimum=2, maximum=LARGEST_DIM)
    coefficients: list[float] = Field(
        description="the list a_1, a_2, … of numbers", json_schema_extra=_LIST
    )
    axis: list[float] | None = told(_AXIS, minItems=2)


class PointCloudTable(Table):
    """Tokens from a CSV file, smoothed by the heat kernel if there is a bandwidth."""

    type: Literal["point-cloud"] = Field(description="tokens from a CSV file")
    file: str = Field(description='the name of a CSV file, or "tokens-s2"')
    bandwidth: float | None = told(
        "the time of the heat kernel that smooths the tokens, > 0", exclusiveMinimum=0
    )


class MixtureTable(Table):
    """Σ weights_i laws_i, equal weights if left out."""

    type: Literal["mixture"] = Field(description="Σ weights_i laws_i")
    laws: list[AnyLawTable] = Field(
        description="a list of tables, each of them a law",
        json_schema_extra={"minItems": 1} | _LIST,
    )
    weights: list[float] | None = told(
        "a number >= 0 for each law; equal if left out", items={"type": "number", "minimum": 0}
    )


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

    type: Literal["circle"] = Field(description="S^1: Fourier series")
    n: int = told(
        "the number of modes, even, 8 to 2^20", 256, minimum=8, maximum=2**20, multipleOf=2
    )


class SphereTable(Table):
    """Spherical harmonics of degree up to lmax."""

    type: Literal["sphere"] = Field(description="S^2: spherical harmonics")
    lmax: int = told("the largest degree, 3 to 2047", 63, minimum=3, maximum=2047)


class ZonalTable(Table):
    """Gegenbauer series of degree up to kmax about an axis."""

    type: Literal["zonal"] = Field(description="S^{d-1}: functions of <x, axis> alone")
    dim: int | None = told(_DIM, minimum=2, maximum=1024)
    kmax: int = told("the largest degree, 3 to 4095", 63, minimum=3, maximum=4095)
    axis: list[float] | None = told(_AXIS, minItems=2)


class ParticlesTable(Table):
    """n tokens of the law, by a seed for draws and noise; without n, those of a point cloud."""

    type: Literal["particles"] = Field(description="tokens instead of a density")
    n: int | None = Field(
        default=None, ge=1, le=10**7, description="how many are drawn; all of a cloud if left out"
    )
    seed: int = Field(default=0, ge=0, description="of draws and noise, >= 0")
    start: Literal["iid", "quantised"] = told("how they are drawn", "iid")
    sums: Literal["auto", "direct", "transforms", "gram"] = told("how they are summed", "auto")


class FlowMapTable(Table):
    """Nodes that move with the flow: the circle, or a law that is symmetric about an axis."""

    type: Literal["flow-map"] = Field(description="nodes that move with the flow")
    tol: float | None = told("the error in units of mass, > 0", exclusiveMinimum=0)
    axis: list[float] | None = told(
        "of the symmetry, where the law does not tell it: a unit vector", minItems=2
    )


SpaceTable = CircleTable | SphereTable | ZonalTable
AnySpaceTable = Annotated[SpaceTable | FlowMapTable | ParticlesTable, Field(discriminator="type")]


def _count_or_times(value: Any) -> Any:
    items, types = (value, (int, float)) if isinstance(value, list) else ([value], (int,))
    if any(isinstance(item, bool) or not isinstance(item, types) for item in items):
        raise ValueError(f"must be an integer >= 1 or a list of times, got {shown(value)}")
    return value


class RunTable(Table):
    """What `evolve` takes; what is left out is as evolve has it."""

    t_end: float = Field(
        description="the final time, a number > 0", json_schema_extra={"exclusiveMinimum": 0}
    )
    save_at: Annotated[int | list[float], BeforeValidator(_count_or_times)] = told(
        "that many equal intervals, at most 10^7, or a list of ascending times up to t_end",
        20,
        minimum=1,
        maximum=MOST_SAVES,
        minItems=1,
    )
    method: Literal["flow", "layers"] | None = told(
        'of tokens: "flow", the differential equation, or "layers", discrete steps'
    )
    step: float | None = told(
        'of tokens: of "layers", or the largest time step under noise, > 0', exclusiveMinimum=0
    )
    rtol: float | None = told(
        "the relative tolerance of a time step, 3e-14 to 1e-2", minimum=3e-14, maximum=1e-2
    )
    atol: float | None = told("the absolute tolerance of a time step, > 0", exclusiveMinimum=0)
    tail_tol: float | None = told(
        "the spectral tail beyond which the space doubles, 1e-15 to 1e-2",
        minimum=1e-15,
        maximum=1e-2,
    )
    largest: int | None = told("the largest n, lmax, kmax or number of nodes", minimum=1)
    cluster_radius: float | None = told(
        "the radius in radians at which a flow map's cluster becomes an atom, 0 to 1e-2",
        minimum=0,
        maximum=1e-2,
    )
    on_unresolved: Literal["stop", "flow-map"] | None = told(
        'what a density does that outgrows its space: "flow-map" goes on with nodes'
    )


class MonitorTable(Table):
    """A distance at the saves; p and gap, beta, and s are keys of one distance each."""

    distance: Literal["wasserstein", "mmd", "sobolev"] = told(
        "W_p, or in the attention kernel, or in the norm of H^s", "wasserstein"
    )
    p: float | None = told('of "wasserstein", 1 to 20', minimum=1, maximum=20)
    gap: float | None = told(
        'of "wasserstein": the relative width asked of a bracket, > 0', exclusiveMinimum=0
    )
    beta: float | None = told('of "mmd", >= 0; that of the dynamics if left out', minimum=0)
    s: float | None = told('of "sobolev", below -(d-1)/2; -1 if left out', exclusiveMaximum=0)
    to: Literal["uniform", "centre", "start"] | None = told(
        "the uniform measure, a Dirac at the present mean, or the start"
    )
    law: AnyLawTable | None = told("another law instead of `to`, a table")
    every: int = told("only every so many-th save, >= 1", 1, minimum=1)


class OutputTable(Table):
    """Where results go, relative to the present folder; the figure beside the file if left out."""

    file: str = told("the result, a name that ends in .nc", "run.nc", pattern=r"\.nc$")
    figure: str | None = told(
        "a name that ends in .png, .pdf or .svg; beside the file if left out",
        pattern=r"\.(png|pdf|svg)$",
    )
