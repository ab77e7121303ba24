"""From the tables of a case to a measure and a dynamics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meanfield.case.clouds import read_points
from meanfield.case.dynamics_tables import (
    AttentionTable,
    DynamicsTable,
    FeedForwardTable,
    HeadTable,
    LayersTable,
    LayerTable,
)
from meanfield.case.faults import Fault, located, shown
from meanfield.case.tables import (
    CircleTable,
    FlowMapTable,
    FourierSeriesTable,
    LawTable,
    MixtureTable,
    ParticlesTable,
    PointCloudTable,
    SpaceTable,
    SphereTable,
    UniformTable,
    VonMisesFisherTable,
    ZonalSeriesTable,
    ZonalTable,
)
from meanfield.dynamics import (
    ISOTROPIC,
    AnyDynamics,
    Attention,
    FeedForward,
    Head,
    Layer,
    Layers,
)
from meanfield.laws import (
    FourierSeries,
    Law,
    Mixture,
    PointCloud,
    Uniform,
    VonMisesFisher,
    ZonalSeries,
)
from meanfield.measures import AnyMeasure, Density, FlowMap, Particles
from meanfield.spaces import Circle, Space, Sphere, Zonal

AnyTable = SpaceTable | FlowMapTable | ParticlesTable


def build_measure(law: LawTable, space: AnyTable, folder: Path) -> AnyMeasure:
    """The measure at t = 0; where one table leaves the dimension open, the other settles it.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    if isinstance(space, ParticlesTable):
        return _particles(law, space, folder)
    if isinstance(space, FlowMapTable):
        return _flow_map(law, space, folder)
    grid = _space(space, _law_dim(law))
    return Density(grid, law_from(law, "law", grid.dim, folder))


def build_law(law: LawTable, space: AnyTable, folder: Path) -> Law:
    """The law by itself.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    dim = _space(space, _law_dim(law)).dim if isinstance(space, SpaceTable) else None
    return law_from(law, "law", dim, folder)


def noise_rng(space: AnyTable) -> dict[str, np.random.Generator]:
    """The random numbers of a noisy run of tokens, apart from those of its start."""
    if not isinstance(space, ParticlesTable):
        return {}
    return {"rng": np.random.default_rng(np.random.SeedSequence(space.seed, spawn_key=(1,)))}


def build_dynamics(table: DynamicsTable) -> AnyDynamics:
    """The dynamics.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    if not isinstance(table, LayersTable):
        return _layer(table, "dynamics")
    layers = [_layer(one, f"dynamics.layers[{i}]") for i, one in enumerate(table.layers)]
    with located("dynamics", type(table).model_fields):
        return Layers(layers, table.step)


def _layer(table: LayerTable, where: str) -> Layer:
    with located(where, type(table).model_fields):
        if isinstance(table, AttentionTable):
            heads = _heads(table.heads, where)
            return Attention(table.beta, heads, table.normalise, table.noise)
        if isinstance(table, FeedForwardTable):
            return FeedForward(table.W, table.A, table.b, table.activation)
        kind = next(kind for kind in ISOTROPIC if kind.name == table.type)
        return kind(table.beta, sign=1 if table.sign is None else table.sign, noise=table.noise)


def _heads(tables: list[HeadTable], where: str) -> list[Head]:
    heads = []
    for i, head in enumerate(tables):
        with located(f"{where}.heads[{i}]", type(head).model_fields):
            heads.append(Head(head.Q, head.K, head.V))
    return heads


def _flow_map(law: LawTable, table: FlowMapTable, folder: Path) -> FlowMap:
    moving = law_from(law, "law", None, folder)
    with located("space", ("tol", "axis")):
        return FlowMap(moving, table.tol, axis=table.axis)


def _particles(law: LawTable, table: ParticlesTable, folder: Path) -> Particles:
    if table.n is not None:
        drawn_from, rng = law_from(law, "law", None, folder), np.random.default_rng(table.seed)
        start = Particles.sample if table.start == "iid" else Particles.quantised
        return start(drawn_from, table.n, rng, sums=table.sums)
    if isinstance(law, PointCloudTable) and law.bandwidth is None:
        return Particles(_points(law, "law", folder), sums=table.sums)
    raise Fault("space.n is missing: it must be the number of tokens to draw from the law, >= 1")


def _space(table: SpaceTable, dim: int | None) -> Space:
    with located("space", type(table).model_fields):
        match table:
            case CircleTable():
                return Circle(table.n)
            case SphereTable():
                return Sphere(table.lmax)
            case ZonalTable():
                return Zonal(_settled(table.dim, dim, "space"), table.kmax, axis=table.axis)


def _law_dim(table: LawTable) -> int | None:
    """The dimension that a law's table itself settles."""
    match table:
        case UniformTable() | ZonalSeriesTable():
            return table.dim
        case VonMisesFisherTable():
            return len(table.mean)
        case FourierSeriesTable():
            return 2
        case MixtureTable():
            return next((dim for law in table.laws if (dim := _law_dim(law)) is not None), None)
        case PointCloudTable():
            return None


def law_from(table: LawTable, where: str, dim: int | None, folder: Path) -> Law:
    """The law of the table `where`, in this dimension where the table leaves it open.

    Raises
    ------
    ValueError
        Naming key, value and what is allowed.
    """
    with located(where, type(table).model_fields):
        match table:
            case UniformTable():
                return Uniform(_settled(table.dim, dim, where))
            case VonMisesFisherTable():
                return VonMisesFisher(table.mean, table.kappa)
            case FourierSeriesTable():
                return FourierSeries(cos=table.cos, sin=table.sin)
            case ZonalSeriesTable():
                settled = _settled(table.dim, dim, where)
                return ZonalSeries(settled, table.coefficients, axis=table.axis)
            case PointCloudTable():
                return PointCloud(_points(table, where, folder), bandwidth=table.bandwidth)
            case MixtureTable():
                return _mixture(table, where, dim, folder)


def _mixture(table: MixtureTable, where: str, dim: int | None, folder: Path) -> Mixture:
    dim = _law_dim(table) if dim is None else dim
    parts = [law_from(law, f"{where}.laws[{i}]", dim, folder) for i, law in enumerate(table.laws)]
    weights = [1.0] * len(parts) if table.weights is None else table.weights
    return Mixture(parts, weights)


def _points(table: PointCloudTable, where: str, folder: Path) -> NDArray[np.float64]:
    try:
        return read_points(table.file, folder)
    except ValueError as error:
        raise Fault(f"{where}.file = {shown(table.file)}: {error}") from None


def _settled(own: int | None, other: int | None, where: str) -> int:
    settled = other if own is None else own
    if settled is None:
        raise Fault(f"{where}.dim is missing: it must be an integer >= 2")
    return settled
