"""Random cases, every representation that runs each, and how far two of them may disagree.

A case is a law, a dynamics, a dimension and a time, drawn by Hypothesis. Its representations are
measures (series on a space, flow maps, tokens at nodes of quadrature, sums over tokens of each
kind) under the dynamics or under another that is the same field (heads of identities, layers of
one field, a noise below rounding, an interaction of phases).

The time is a `stretch`, at most 1, over d - 1 times the rate of the field, its largest speed and
slope at the start. A representation can also be had more loosely, for the difference to itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

import meanfield as mf
from meanfield.measures import SphereFlowMap
from validation.circle_clusters import usa_as_interaction

RTOL = 1e-10
# of the exponential method, of order 4
NOISY_RTOL = 1e-8
FLOW_TOL, MESH_TOL = 1e-9, 1e-6
NO_NOISE = 1e-18
KINDS = (
    *("SA", "-SA", "USA", "-USA", "SA, noise", "USA, noise", "DoublyStochastic", "beta = 0"),
    *("heads", "FeedForward", "Layers", "Kuramoto"),
)
LAWS = (
    *("Mixture", "VonMisesFisher", "ZonalSeries", "on one axis", "PointCloud", "FourierSeries"),
    "Uniform",
)
TOKENS = "tokens"
DIMS = 2, 3, 5, 20
MATRICES = "heads", "FeedForward", "Layers"
SUMS = {"direct", "transforms", "gram"}
FORMS = "heads", "layers", "tiny noise", "interaction", "oscillators"
# of the spaces that runs start on; they double where a tail asks for it
SIZES = {"circle": 64, "zonal": 31, "sphere": 15}
# what a run may need, after doubling twice or thrice
LARGEST = {"circle": 512, "zonal": 255, "sphere": 95}


@dataclass(frozen=True)
class Case:
    """A law under one field, or under two in turn, until a time that follows from `stretch`."""

    kind: str
    law_kind: str
    law: Any
    axis: Any
    fields: tuple[Any, ...]
    stretch: float
    choice: int

    @property
    def dim(self) -> int:
        return int(self.law.dim)

    @property
    def beta(self) -> float:
        return float(getattr(self.fields[0], "beta", 0.0))

    @property
    def probes(self) -> np.ndarray:
        return mf.Uniform(self.dim).sample(12, np.random.default_rng(self.choice))

    def rate(self, measure: Any) -> float:
        """Per time, what tokens move and the field differs: at probes, and as it may come to."""
        points = self.probes
        near = points + 1e-3 * mf.Uniform(self.dim).sample(12, np.random.default_rng(1))
        near /= np.linalg.norm(near, axis=1)[:, None]
        rate = max(bound(one, self.dim) for one in self.fields)
        for one in self.fields:
            here, there = (one.velocity(measure, at=x) for x in (points, near))
            slope = np.linalg.norm(here - there, axis=1) / np.linalg.norm(points - near, axis=1)
            rate = max(rate, np.linalg.norm(here, axis=1).max(), slope.max())
        return float(rate)

    def t_end(self, rate: float) -> float:
        """The stretch over the rate at the start; densities grow d - 1 times as fast."""
        return self.stretch / (rate * (self.dim - 1))


def kernel_norm(beta: float, dim: int) -> float:
    """|e^{β<x,·>}|₂ = Λ_0(2β)^{1/2}."""
    return float(np.sqrt(mf.kernels.multipliers.eigenvalues(2.0 * beta, dim, 0)[0]))


def bound(field: Any, dim: int) -> float:
    """What |X| may come to where |f|₂ is 1: a field that is weak at the start may grow."""
    if isinstance(field, mf.CircleInteraction):
        return abs(field.coupling)
    if isinstance(field, mf.FeedForward):
        return 0.0
    heads = [(1.0, 1.0)]
    if isinstance(field, mf.Attention):
        heads = [
            (np.linalg.norm(np.atleast_2d(h.V), 2), np.linalg.norm(np.atleast_2d(h.matrix), 2))
            for h in field.heads
        ]
    beta = getattr(field, "beta", 0.0)
    norms = (1.0 if field.normalised else kernel_norm(beta * m, dim) for _, m in heads)
    return float(sum(v * norm for (v, _), norm in zip(heads, norms, strict=True)))


# ---------------------------------------------------------------- cases


def unit(rng: np.random.Generator, dim: int) -> np.ndarray:
    return mf.Uniform(dim).sample(1, rng)[0]


def a_law(kind: str, dim: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """A law and the axis about which it is symmetric, if any."""
    axis, kappas = unit(rng, dim), rng.uniform(0.3, 2.0, size=3)
    if kind == "Uniform":
        return mf.Uniform(dim), np.eye(dim)[-1]
    if kind == "VonMisesFisher":
        return mf.VonMisesFisher(axis, kappas[0]), axis
    if kind == "Mixture":
        bumps = [mf.VonMisesFisher(unit(rng, dim), kappa) for kappa in kappas]
        return mf.Mixture(bumps, rng.uniform(0.2, 1.0, size=3), unit_mass=True), None
    if kind == "on one axis":
        bumps = [mf.VonMisesFisher(s * axis, k) for s, k in zip((1, -1), kappas, strict=False)]
        return mf.Mixture(
            [*bumps, mf.Uniform(dim)], rng.uniform(0.2, 1.0, size=3), unit_mass=True
        ), axis
    shares = rng.uniform(-0.3, 0.3, size=3)
    if kind == "FourierSeries":
        even = bool(rng.integers(2))
        sin = [] if even else rng.uniform(-0.1, 0.1, size=2)
        return mf.FourierSeries(cos=shares, sin=sin), np.array([1.0, 0.0]) if even else None
    if kind == "ZonalSeries":
        return mf.ZonalSeries(dim, shares, axis=axis), axis
    points = mf.Uniform(dim).sample(6, rng)
    weights = rng.uniform(0.2, 1.0, size=6)
    return mf.PointCloud(
        points,
        weights,
        bandwidth=None if kind == TOKENS else rng.uniform(0.15, 0.4),
        unit_mass=True,
    ), None


def some_heads(dim: int, axis: Any, rng: np.random.Generator, beta: float) -> mf.Attention:
    """One or two heads; matrices that keep the axis, if there is one."""
    heads = []
    for _ in range(rng.integers(1, 3)):
        if axis is None:
            matrices = 0.5 * rng.normal(size=(3, dim, dim)) / np.sqrt(dim)
        else:
            a, b = rng.uniform(-0.7, 0.7, size=(2, 3, 1, 1))
            matrices = a * np.eye(dim) + b * np.outer(axis, axis)
        heads.append(mf.Head(*matrices))
    return mf.Attention(beta, heads, normalised=bool(rng.integers(2)))


def some_fields(kind: str, beta: float, dim: int, axis: Any, rng: np.random.Generator) -> tuple:
    """The field of a kind, or two of them."""
    sign = -1 if kind.startswith("-") else 1
    noise = rng.uniform(0.02, 0.3) if kind.endswith("noise") else 0.0
    if kind == "FeedForward":
        outer, inner = 0.5 * rng.normal(size=(2, dim, dim))
        return (mf.FeedForward(outer, inner, 0.3 * rng.normal(size=dim), activation="tanh"),)
    if kind == "heads":
        return (some_heads(dim, axis, rng, beta),)
    if kind == "Layers":
        return mf.SA(beta), some_heads(dim, axis, rng, beta)
    if kind == "Kuramoto":
        return (mf.Kuramoto(rng.choice([-1.5, 0.7, 2.0])),)
    if kind == "beta = 0":
        return (
            rng.choice([mf.SA, mf.USA, mf.DoublyStochastic])(0.0, sign=int(rng.choice([-1, 1]))),
        )
    name = kind.removeprefix("-").removesuffix(", noise")
    return (getattr(mf, name)(beta, sign=sign, noise=noise),)


def numbered(kind: str, number: int, draw: int) -> Case:
    """The case of this number."""
    rng = np.random.default_rng([zlib.crc32(kind.encode()), draw, number])
    dim = 2 if kind == "Kuramoto" else int(rng.choice(DIMS))
    laws = [law for law in LAWS if law != "FourierSeries" or dim == 2]
    if dim > 3:
        # series and flow maps need an axis there
        laws = [law for law in laws if law not in ("Mixture", "PointCloud")]
        laws = [] if kind == "FeedForward" else laws
    laws += [] if kind.endswith("noise") else [TOKENS]
    law_kind = str(rng.choice(laws))
    law, axis = a_law(law_kind, dim, rng)
    # matrices that do not keep it, half of the time
    if kind == "FeedForward" or (kind in MATRICES and dim <= 3 and rng.integers(2)):
        axis = None
    beta = rng.uniform(0.1, 1.5 if kind in MATRICES and dim == 3 else 4.0)
    fields = some_fields(kind, beta, dim, axis, rng)
    return Case(kind, law_kind, law, axis, fields, rng.uniform(0.2, 1.0), int(rng.integers(1000)))


def for_each(kind: str, act: Callable[[Case], Any], numbers: range, draw: int = 1) -> None:
    """Hand the cases of some numbers to `act`, the same ones whenever `draw` is the same.

    Hypothesis draws numbers of cases without repeats; what it draws beyond whole small ranges
    hangs on constants in the modules that happen to be imported.
    """

    @seed(draw)
    @settings(max_examples=len(numbers), phases=[Phase.generate, Phase.shrink])
    @given(st.sampled_from(numbers))
    def each(number: int) -> None:
        act(numbered(kind, number, draw))

    each()


# ---------------------------------------------------------------- representations


@dataclass(frozen=True)
class Representation:
    """How to run a case: a measure to start from, with tolerances times so much, and a form."""

    name: str
    measure: Callable[..., Any]
    form: str = ""

    def __str__(self) -> str:
        return f"{self.name}, {self.form}" if self.form else self.name


def plain(case: Case) -> list[Representation]:
    """Every measure that the dynamics moves, under the dynamics itself."""
    law, found = case.law, {}
    noisy, dim = case.fields[0].noise > 0.0, case.dim
    if case.law_kind == TOKENS:
        sums = ["direct"] + ["transforms"] * (dim <= 3 and case.kind != "Kuramoto")
        sums += ["gram"] * all(isinstance(f, (mf.SA, mf.USA, mf.Interaction)) for f in case.fields)
        found |= {s: lambda _=1, s=s: mf.Particles(law.points, law.weights, sums=s) for s in sums}
        if dim == 2:
            found["flow"] = lambda loose=1: flow_map(law, loose)
        return [Representation(name, made) for name, made in found.items()]
    if dim == 2:
        found["circle"] = lambda _=1: density("circle", mf.Circle, law)
    elif dim == 3 and (case.axis is None or case.choice % 2 == 1):
        # about an axis there are others, and this is the dearest
        found["sphere"] = lambda _=1: density("sphere", mf.Sphere, law)
    if case.axis is not None and case.kind != "Kuramoto":
        found["zonal"] = lambda _=1: density("zonal", partial(mf.Zonal, dim, axis=case.axis), law)
    if not noisy and (dim == 2 or case.axis is not None):
        found["flow"] = lambda loose=1: flow_map(law, loose)
    # on S² both are dear, and a few are enough
    if not noisy and dim == 3 and case.choice % 24 == 3:
        found["mesh"] = lambda loose=1: SphereFlowMap(law, tol=MESH_TOL * loose, atom_radius=0.0)
    if not noisy and (dim == 2 or (dim == 3 and case.choice % 3 == 0)):
        found["nodes"] = lambda _=1: nodes(law)
    return [Representation(name, made) for name, made in found.items()]


def density(name: str, space: Callable[[int], Any], law: Any) -> mf.Density:
    """On the space of this name; its tail counts like the tolerance."""
    return mf.Density(space(SIZES[name]), law, tail_tol=RTOL, max_size=LARGEST[name])


def flow_map(law: Any, loose: float) -> mf.FlowMap:
    """One whose clusters stay nodes."""
    return mf.FlowMap(law, tol=FLOW_TOL * loose, atom_radius=0.0)


def label_grid(dim: int) -> Any:
    return mf.Circle(SIZES["circle"]) if dim == 2 else mf.Sphere(15)


def nodes(law: Any) -> mf.Particles:
    """Tokens at the nodes of a quadrature, with the law's masses."""
    space = label_grid(law.dim)
    return mf.Particles(space.points, space.weights * law.pdf(space.points))


def same_field(form: str, case: Case, name: str) -> Any:
    """The dynamics in another form, None where there is none for this measure."""
    field, on_circle = case.fields[0], name in ("circle", "flow", "nodes", "direct")
    isotropic = isinstance(field, (mf.SA, mf.USA))
    if form == "layers":
        refused = isinstance(field, mf.DoublyStochastic) and name in ("flow", "mesh")
        refused |= isinstance(field, mf.CircleInteraction) or name == "gram"
        return None if refused or field.noise > 0.0 else field
    if len(case.fields) > 1:
        return None
    if form == "heads" and isotropic and name != "gram":
        # one head of a form is given its energy at every save, which on S² is a double sum
        heads = [mf.Head(V=field.sign)] if name != "sphere" else [mf.Head(V=field.sign / 2)] * 2
        return mf.Attention(field.beta, heads, normalised=field.normalised, noise=field.noise)
    if form == "heads" and isinstance(field, mf.Attention):
        halves = [replace(h, V=0.5 * np.asarray(h.V)) for h in field.heads for _ in range(2)]
        return replace(field, heads=halves)
    if form == "tiny noise" and not isinstance(field, mf.FeedForward):
        small = name in ("circle", "zonal", "sphere") and field.noise == 0.0
        # its many stages would take a scaling on S² each
        dear = name == "sphere" and isinstance(field, mf.DoublyStochastic)
        return replace(field, noise=NO_NOISE) if small and not dear else None
    if form in ("interaction", "oscillators") and case.dim == 2 and on_circle:
        if isinstance(field, mf.CircleInteraction):
            same = field
        elif isinstance(field, mf.USA) or (isotropic and field.beta == 0.0):
            same = replace(usa_as_interaction(field.beta, field.noise), coupling=field.sign)
        else:
            return None
        return same if form == "interaction" or name in ("circle", "direct") else None
    return None


def representations(case: Case) -> list[Representation]:
    """Every measure, and one form of the dynamics on one of the measures that take it.

    Few tokens are cheap: they take every form.
    """
    found = plain(case)
    able = {f: [r for r in found if same_field(f, case, r.name) is not None] for f in FORMS}
    forms = [form for form in FORMS if able[form]]
    if case.law_kind == TOKENS:
        found += [replace(way, form=form) for form in forms for way in able[form]]
    elif forms:
        form = forms[case.choice % len(forms)]
        ways = able[form]
        found.append(replace(ways[case.choice // 5 % len(ways)], form=form))
    return found
