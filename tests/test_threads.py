"""Objects that threads share answer as those that nobody shares, bit for bit.

Each question is first asked of an object of its own. Then threads ask one object all of its
questions, each in another order, and are interrupted a million times a second: what a call leaves
in the object, for as long as it runs or for ever, would be seen by the others.
"""

import copy
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property, partial
from inspect import getattr_static
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import sparse

import meanfield as mf
from meanfield.spaces import sphere
from meanfield.typing import names_for_rooms
from tests.handmade import CASE
from tests.refusals.bad_calls import KINDS, LAYERS, NAMES, call, called, good_arguments

BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 3.0), mf.VonMisesFisher([0.0, 0.8, -0.6], 2.0)], [0.6, 0.4]
)
WAVES = mf.FourierSeries(cos=[0.5, 0.1], sin=[0.0, 0.3])
RING = mf.ZonalSeries(4, [0.8, 0.2])
MATRIX = np.array([[0.6, 0.2, 0.0], [0.2, -0.3, 0.1], [0.0, 0.1, 0.4]])


def unit(dim: int, seed: int, n: int = 7) -> np.ndarray:
    """Unit rows."""
    return mf.Uniform(dim).sample(n, np.random.default_rng(seed))


def square(t: np.ndarray) -> np.ndarray:
    """A kernel (1 + t/2)²."""
    return (1.0 + 0.5 * t) ** 2


def slope(t: np.ndarray) -> np.ndarray:
    """Its derivative."""
    return 1.0 + 0.5 * t


@dataclass(frozen=True)
class Row:
    """A kind of object, what it is asked, how often by each thread, and by how many threads.

    Quick answers are asked for often, slow ones by two threads.
    """

    make: Callable[[], Any]
    questions: list[Callable[[Any], Any]]
    times: int = 1
    threads: int = 4


def of_law(law: Callable[[], Any], times: int = 40, *more: Callable[[Any], Any]) -> Row:
    """Densities and draws, and the axis."""
    asked = [lambda x, s=s: x.pdf(unit(x.dim, s)) for s in range(3)]
    drawn = [lambda x, s=s: x.sample(5, np.random.default_rng(s)) for s in range(3)]
    return Row(law, [*asked, *drawn, lambda x: x.symmetry_axis, repr, hash, *more], times)


def of_space(space: Callable[[], Any], times: int = 20) -> Row:
    """Transforms of random numbers, the grid, and what is made from a law."""

    def numbers(count: int, kind: type, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).random(count).astype(kind)

    forth = [lambda x, s=s: x.analysis(numbers(len(x.weights), float, s)) for s in range(4)]
    back = [
        lambda x, s=s: x.synthesis(numbers(x.n_coefficients, x.coefficient_type, s))
        for s in range(4)
    ]
    grid = [lambda x: x.points, lambda x: getattr(x, "angles", None), repr, hash]
    return Row(space, [*forth, *back, *grid, lambda x: mf.Density(x, mf.Uniform(x.dim))], times)


def of_measure(
    measure: Callable[[], Any], times: int = 2, *more: Callable[[Any], Any], threads: int = 4
) -> Row:
    """Numbers of a measure, fields over it, and its distances."""
    dynamics = mf.SA(2.0), mf.USA(9.0), mf.Interaction([1.0, 1.0, 0.25])
    asked: list[Callable[[Any], Any]] = [
        lambda x: (x.mass(), x.mean(), x.points, x.weights, len(x)),
        lambda x: (mf.clusters(x), mf.clusters(x).outside),
        lambda x: mf.sinkhorn_scaling(x, 2.0),
        *(lambda x, s=s: x.log_moment(9.0 * (s + 1) * unit(x.dim, s)) for s in range(3)),
        *(lambda x, s=s: x.moment((s + 1) * unit(x.dim, s)) for s in range(2)),
        *(lambda x, f=f: f.velocity(x, unit(x.dim, 1)) for f in dynamics),
        *(lambda x, f=f: (mf.energy(x, f), mf.dissipation(x, f)) for f in dynamics),
        *(lambda x, f=f: mf.metric_speed(x, f) for f in dynamics[:2]),
        *more,
    ]
    return Row(measure, asked, times, threads)


def of_dynamics(dynamics: Callable[[], Any], measures: list[Any], times: int = 10) -> Row:
    """Its velocities under measures that are shared, too."""
    asked = [
        lambda x, m=m, s=s: x.velocity(m, unit(m.dim, s), t=0.1 * s)
        for m in measures
        for s in range(2)
    ]
    asked += [lambda x, m=m: (x.output(m, m.points), x.name) for m in measures]
    return Row(dynamics, asked, times)


def of_run(run: Callable[[], Any]) -> Row:
    """Between the saves, on a grid, and from a file.

    The run is done once, and copied before anything is asked of it.
    """
    done = cache(run)
    asked = [
        lambda x: x.at(0.15),
        lambda x: x.at(0.05),
        lambda x: x.pdf(unit(x.final.dim, 1), 0.12),
        lambda x: x.pdf(unit(x.final.dim, 2), 0.2),
        lambda x: x.to_dataset(grid=12),
        lambda x: x.to_dataset(),
        lambda x: (x.dataset, list(x), x[1], x.final, x.success, len(x), repr(x)),
        stored,
    ]
    return Row(lambda: copy.deepcopy(done()), asked)


def stored(sol: mf.Solution) -> mf.Solution:
    """What a file gives back of a run."""
    path = Path(f"{threading.get_ident()}.nc")
    sol.save(path)
    return mf.load(path)


def evolved(start: Any, **options: Any) -> mf.Solution:
    """A short run of a density or a flow map."""
    return mf.evolve(start, mf.SA(2.0), 0.2, 2, **options)


def tokens(law: Any, n: int, **how: Any) -> Callable[[], mf.Particles]:
    """Draws of a law."""
    return lambda: mf.Particles.sample(law, n, np.random.default_rng(1), **how)


CIRCULAR, SPHERICAL = tokens(WAVES, 400)(), tokens(BUMPS, 700)()
ON_CIRCLE = [CIRCULAR, mf.Density(mf.Circle(32), WAVES), mf.FlowMap(WAVES, tol=1e-6)]
ON_SPHERE = [SPHERICAL, mf.Density(mf.Sphere(15), BUMPS)]
ENVIRONMENT = mf.Particles(unit(2, 5, 5)), mf.Particles(unit(2, 6, 5))

ROWS: dict[str, Row] = {
    "Uniform": of_law(lambda: mf.Uniform(3)),
    "VonMisesFisher": of_law(lambda: mf.VonMisesFisher([0.0, 0.6, 0.8], 3.0)),
    "Mixture": of_law(lambda: mf.Mixture([mf.Uniform(2), WAVES])),
    "FourierSeries": of_law(lambda: mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])),
    "ZonalSeries": of_law(lambda: mf.ZonalSeries(4, [0.8, 0.2])),
    "PointCloud": of_law(
        lambda: mf.PointCloud(unit(3, 3), bandwidth=0.1), 5, lambda x: x.has_density
    ),
    "PointCloud of the circle": of_law(lambda: mf.PointCloud(unit(2, 3), bandwidth=0.1), 5),
    "PointCloud of many": Row(
        lambda: mf.PointCloud(unit(3, 3, 2000), bandwidth=0.1),
        [lambda x, s=s: x.pdf(unit(3, s, 1000)) for s in range(4)],
    ),
    "Tabulated": of_law(lambda: mf.Tabulated(np.linspace(0.0, 6.0, 16), np.ones(16)), 10),
    "Tabulated on S²": of_law(lambda: mf.Tabulated(unit(3, 3, 80), np.ones(80)), 1),
    "Circle": of_space(lambda: mf.Circle(64), 60),
    "Circle of many modes": of_space(lambda: mf.Circle(4096), 30),
    "Zonal": of_space(lambda: mf.Zonal(4, 15)),
    "Sphere": of_space(lambda: mf.Sphere(23)),
    "Sphere of ducc0": of_space(lambda: mf.Sphere(15, "ducc0")),
    "Density on the circle": of_measure(
        lambda: mf.Density(mf.Circle(32), WAVES),
        2,
        lambda x: (x.entropy(), x.tail, x.values, x.resize(64), x.pdf(unit(2, 1))),
        lambda x: (mf.order_parameter(x), mf.sobolev(x, CIRCULAR), mf.slope(x, mf.SA(1.0))),
        lambda x: (mf.wasserstein(x, ON_CIRCLE[1]), mf.wasserstein(x, ENVIRONMENT[0], 1)),
        lambda x: mf.Density.from_coefficients(x.space, x.coefficients).values,
    ),
    "Density about an axis": of_measure(lambda: mf.Density(mf.Zonal(4, 15), RING)),
    "Density on S²": of_measure(lambda: mf.Density(mf.Sphere(15), BUMPS), 1),
    "OscillatorDensity": Row(
        lambda: mf.OscillatorDensity(mf.Circle(32), WAVES, [-0.5, 0.5]),
        [
            lambda x: (x.entropy(), x.tail, x.values, x.resize(64), x.pdf(unit(2, 1))),
            lambda x: (mf.order_parameter(x), x.mean()),
            lambda x: mf.Kuramoto(1.0).velocity(x, unit(2, 1)),
            lambda x: mf.energy(x, mf.Kuramoto(1.0)),
        ],
        5,
    ),
    "FlowMap on the circle": of_measure(
        lambda: mf.FlowMap(WAVES, tol=1e-6),
        2,
        lambda x: (x.entropy(), x.tail, x.atoms, x.log_density),
        lambda x: (mf.wasserstein(x, ON_CIRCLE[2]), mf.wasserstein(x, ENVIRONMENT[0])),
        lambda x: mf.transport_map(x, ON_CIRCLE[1], unit(2, 1)),
    ),
    "FlowMap about an axis": of_measure(lambda: mf.FlowMap(RING, tol=1e-6), 1),
    "FlowMap on S²": of_measure(
        lambda: mf.FlowMap(BUMPS, tol=1e-4),
        1,
        lambda x: (x.entropy(), x.atoms, x.log_density),
        threads=2,
    ),
    "Particles on the circle": of_measure(
        tokens(WAVES, 400),
        2,
        lambda x: mf.transport_plan(mf.Particles(x.points[:5]), ENVIRONMENT[0]),
        lambda x: mf.wasserstein(x, CIRCULAR),
    ),
    "Particles on S²": of_measure(
        tokens(BUMPS, 100),
        1,
        lambda x: mf.wasserstein(x, mf.Particles(unit(3, 4, 9))),
        lambda x: mf.sliced_wasserstein(x, SPHERICAL, planes=3, rng=0),
        mf.mean_cosine,
    ),
    "Particles on S² by transforms": of_measure(tokens(BUMPS, 100, sums="transforms"), 1),
    "Particles on the circle by transforms": of_measure(tokens(WAVES, 100, sums="transforms"), 1),
    "Particles in many dimensions": of_measure(tokens(mf.Uniform(9), 50), 4),
    "Oscillators": Row(
        lambda: mf.Oscillators(np.arange(5.0), 0.1 * np.arange(5.0)),
        [
            lambda x: (x.points, x.angles, x.mean(), mf.order_parameter(x)),
            lambda x: mf.Kuramoto(1.0).velocity(x, unit(2, 1)),
            lambda x: x.log_moment(unit(2, 1)),
        ],
        10,
    ),
    "LayerStates": Row(
        lambda: mf.LayerStates(**LAYERS),
        [
            lambda x: [(x.state(l), x.points(l), x.stage(l)) for l in range(2)],
            lambda x: (
                x.attention_at(0),
                [*x.heads_at(0)],
                x.after_attention_at(0),
                x.scores(0),
                x.allowed,
            ),
            lambda x: (x.n_tokens, x.n_heads, x.tokens, x.matrices_at(0).query, repr(x)),
            lambda x: (x.check(), x.prompt(0).state(0)),
        ],
        3,
    ),
    "LayerStates of a mapping": Row(
        lambda: mf.LayerStates.from_mapping({"states": LAYERS["states"], "norm": "rms"}),
        [lambda x, l=l: x.points(l) for l in range(2)],
        20,
    ),
    "SA": of_dynamics(lambda: mf.SA(3.0), ON_CIRCLE),
    "USA": of_dynamics(lambda: mf.USA(3.0, sign=-1), ON_SPHERE, 2),
    "Interaction": of_dynamics(lambda: mf.Interaction([1.0, 1.0, 0.25]), ON_CIRCLE),
    "Interaction by functions": of_dynamics(
        lambda: mf.Interaction((square, slope), normalised=True), ON_CIRCLE
    ),
    "DoublyStochastic": of_dynamics(lambda: mf.DoublyStochastic(2.0), ON_CIRCLE, 4),
    "Attention": of_dynamics(lambda: mf.Attention(1.0, [mf.Head(MATRIX, MATRIX)]), ON_SPHERE, 2),
    "FeedForward": of_dynamics(lambda: mf.FeedForward(MATRIX, MATRIX, np.ones(3)), ON_SPHERE, 5),
    "Sum": of_dynamics(
        lambda: mf.DoublyStochastic(1.0) + mf.FeedForward.from_potential([0.3, 0.2], np.eye(2)),
        ON_CIRCLE,
    ),
    "Schedule": Row(
        lambda: mf.Schedule([0.0, 1.0, 2.0], [1.0, 3.0, 2.0]),
        [
            lambda x: x(0.5),
            lambda x: x.derivative(0.5),
            lambda x: (x.largest, x.shape, x.ndim),
            lambda x: (x.extrema, x.largest),
            repr,
        ],
        10,
    ),
    "Layers": of_dynamics(lambda: mf.Layers([mf.SA(2.0), mf.USA(0.5)], step=0.1), ON_CIRCLE),
    "RandomLayers": of_dynamics(
        lambda: mf.Layers.random("values", beta=2.0, dim=2, n_layers=3, step=0.1, rng=0), ON_CIRCLE
    ),
    "LayerMap": of_dynamics(lambda: mf.LayerMap(mf.SA(2.0), step=0.1), ON_CIRCLE[:1]),
    "Alignment": of_dynamics(lambda: mf.Alignment(2.0), ON_SPHERE, 2),
    "Causal": Row(
        lambda: mf.SA(3.0, mask=mf.Causal(1.0)),
        [
            lambda x: x.velocity(ENVIRONMENT[0], unit(2, 1), position=0.8),
            lambda x: mf.evolve(mf.Particles(unit(2, 5)), x, 0.1).final,
            repr,
            lambda x: mf.rms_velocity(mf.Particles(unit(2, 2, 40), sums="transforms"), x),
        ],
        3,
    ),
    "Head": Row(
        lambda: mf.Head(MATRIX),
        [lambda x: x.matrix, lambda x: mf.Head.random("ginibre", 3, rng=1), repr],
        10,
    ),
    "Case": Row(
        lambda: mf.Case(CASE),
        [
            lambda x: x.run(progress=False).final,
            lambda x: x.replace({"dynamics.beta": 2.0}).to_toml(),
        ],
    ),
    "DistanceTo": Row(
        lambda: mf.DistanceTo("uniform", every=2),
        [
            lambda x: x(ON_CIRCLE[1]),
            lambda x: x.begin(None, 0)(mf.Particles(unit(2, 1))),
            lambda x: (x.long_name, x.units),
        ],
        2,
    ),
    "Solution of a density": of_run(lambda: evolved(mf.Density(mf.Circle(32), WAVES))),
    "Solution of a density on S²": of_run(lambda: evolved(mf.Density(mf.Sphere(9), BUMPS))),
    "Solution of a flow map": of_run(lambda: evolved(mf.FlowMap(WAVES, tol=1e-6), rtol=1e-5)),
    "Solution of a mesh": of_run(lambda: evolved(mf.FlowMap(BUMPS, tol=1e-3), rtol=1e-4)),
    "runs of one start": Row(
        lambda: (mf.Density(mf.Circle(32), WAVES), CIRCULAR),
        [
            lambda x: evolved(x[0]),
            lambda x: evolved(x[1]),
            lambda x: mf.evolve(x[0], mf.DoublyStochastic(2.0), 0.1, 1),
            lambda x: mf.evolve(x[1], mf.Layers([mf.SA(2.0), mf.USA(0.5)], step=0.1), 0.1, 1),
            lambda x: mf.compare(evolved(x[0]), evolved(x[1]), distances=("mmd",), beta=2.0),
        ],
        1,
    ),
}

# a kind of dynamics without a row above
ROWS |= {
    name: of_dynamics(lambda kind=kind, name=name: kind(**good_arguments(name)), ON_CIRCLE)
    for name, kind in KINDS.items()
    if name not in ROWS
}

# files, of which `stored` asks; what matplotlib draws, which is for one thread; runs of seconds
LEFT = {"resume", "load", "save", "from_file", "plot", "animate", "metastability"}
CALLS = [name for name in NAMES if not LEFT & set(name.split("."))]
SLOW = "FlowMap on S²", "Density on S²", "Particles on S²", "runs of one start", "all calls"
SLOW += "Solution of a mesh", "Solution of a flow map", "Solution of a density on S²"


def ask_as_usual(name: str) -> Any:
    """A call with good arguments, and with draws of its own."""
    given = good_arguments(name)
    drawn = "rng" in inspect.signature(called(name)).parameters and name != "evolve"
    return call(name, given | {"rng": 0} if drawn else given)


ROWS["all calls"] = Row(lambda: None, [lambda _, n=n: ask_as_usual(n) for n in CALLS], threads=2)


def bits(answer: Any) -> Any:
    """All that an answer is made of, such that `==` is equality to the bit."""
    if isinstance(answer, np.ndarray) and answer.dtype == object:
        return bits(answer.tolist())
    if isinstance(answer, np.ndarray):
        return answer.shape, str(answer.dtype), answer.tobytes()
    if isinstance(answer, float | np.floating):
        return float(answer).hex()
    if isinstance(answer, complex | np.complexfloating):
        return bits(answer.real), bits(answer.imag)
    if answer is None or isinstance(answer, str | int | np.integer):
        return answer
    if isinstance(answer, tuple | list):
        return [bits(part) for part in answer]
    if isinstance(answer, dict):
        return {name: bits(part) for name, part in answer.items()}
    if isinstance(answer, xr.Dataset):
        names = sorted(map(str, answer.variables))
        numbers = {name: answer[name].values for name in names if name != "wall_time"}
        return bits(numbers | {"attributes": repr(sorted(answer.attrs.items()))})
    if isinstance(answer, mf.Case):
        return answer.to_toml()
    if isinstance(answer, Iterator):
        return bits(list(answer))
    if sparse.issparse(answer):
        return bits(answer.toarray())
    if isinstance(answer, mf.Solution):
        return bits([answer.t, list(answer.measures), answer.dataset, answer.message])
    if isinstance(answer, mf.LayerStates):
        return bits([answer.state(layer) for layer in range(answer.n_layers + 1)])
    if hasattr(answer, "log_moment"):
        return bits([answer.points, answer.weights, repr(answer)])
    assert is_dataclass(answer), type(answer)
    return bits([getattr(answer, field.name) for field in fields(answer)])


@contextmanager
def often_interrupted() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def together(tasks: list[Callable[[], Any]]) -> None:
    """Do all at once, each in a thread of its own."""
    start = threading.Barrier(len(tasks))

    def begin(task: Callable[[], Any]) -> None:
        start.wait()
        task()

    threads = [threading.Thread(target=begin, args=(task,)) for task in tasks]
    with often_interrupted():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def disagreements(row: Row) -> list[str]:
    """What threads heard of one object, and not of objects of their own."""
    alone = [bits(question(row.make())) for question in row.questions]
    count, heard = len(alone), []

    def ask(shared: Any, first: int) -> None:
        for place in range(row.times * count):
            which = (place + first * count // row.threads) % count
            try:
                same = bits(row.questions[which](shared)) == alone[which]
            except Exception as error:
                heard.append(f"question {which}: {error!r}")
            else:
                heard.append("" if same else f"question {which}: another answer")

    shared = row.make()
    together([partial(ask, shared, first) for first in range(row.threads)])
    assert len(heard) == row.times * row.threads * count
    return [line for line in heard if line]


CASES = [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in ROWS]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", CASES)
def test_what_threads_share_answers_as_alone(name):
    assert disagreements(ROWS[name]) == []


class Board:
    """A thing with one buffer for all calls."""

    def __init__(self):
        self.buffer = np.zeros(6144)

    def sine(self, values):
        """The sines of the values."""
        np.sin(values, out=self.buffer)
        return self.buffer.copy()


def test_a_shared_buffer_is_seen():
    asked = [lambda x, s=s: x.sine(np.full(6144, float(s))) for s in range(8)]
    assert len(disagreements(Row(Board, asked, 30))) > 3


def test_an_answer_that_hangs_on_earlier_questions_is_seen():
    asked = [lambda x, s=s: x.setdefault("first", s) for s in range(8)]
    assert len(disagreements(Row(dict, asked))) == 7 * 4


# modules, and what functions answer with
OTHERS = {"exceptions", "trained", "typing", "Clusters", "FreeTokens", "SlicedDistance"}


def public_names() -> Iterator[str]:
    """Functions, classes, and what classes compute when they are asked."""
    yield from (*mf.__all__, *mf.theory.__all__, *mf.studies.__all__)
    computed = property, cached_property, classmethod, FunctionType
    for kind in filter(inspect.isclass, (getattr(mf, name) for name in mf.__all__)):
        for name in sorted({*dir(kind)} - names_for_rooms(kind)):
            if not name.startswith("_") and isinstance(getattr_static(kind, name), computed):
                yield name


def test_all_that_is_public_is_asked():
    functions = [f for row in ROWS.values() for f in (row.make, *row.questions)]
    names = {n for f in functions if isinstance(f, FunctionType) for n in f.__code__.co_names}
    names |= {part for name in CALLS for part in name.split(".")}
    assert sorted({*public_names()} - names - LEFT - OTHERS) == []


def test_threads_get_one_dataset():
    start, datasets = mf.Density(mf.Circle(32), WAVES), []
    for _ in range(10):
        sol, heard = evolved(start), []
        together([lambda sol=sol, heard=heard: heard.append(sol.dataset)] * 4)
        datasets.append(len({id(dataset) for dataset in heard}))
    assert datasets == [1] * 10


def test_threads_that_import_a_library_leave_the_output_as_it_was(monkeypatch, tmp_path, capsys):
    # SHTns prints a line when it is imported, which all threads that ask for it keep back
    (tmp_path / "shtns.py").write_text("import time\n\ntime.sleep(0.1)\nprint('hello')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shtns", raising=False)
    before = sys.stdout
    together([sphere._imported.__wrapped__] * 4)
    # monkeypatch would put it back for other tests
    del sys.modules["shtns"]
    assert sys.stdout is before
    assert capsys.readouterr().out == ""
