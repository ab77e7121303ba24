"""Good arguments of every public name, and values of wrong kinds, for test_bad_values.py.

Its docstring tells what else there is in this folder.
"""

import inspect
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, cast

import numpy as np
import pandas as pd
import xarray as xr

import meanfield as mf
from meanfield.cli.case import case_from_text
from meanfield.dynamics import KNOWN
from tests.handmade import CASE, run

CIRCLE = mf.Circle(16)
LAW = mf.FourierSeries(cos=[0.5])
DENSITY = mf.Density(CIRCLE, LAW)
EAST = np.array([[1.0, 0.0]])
TOKENS = mf.Particles(np.eye(3))
FREE = np.eye(3)
NAN = np.full((2, 2), np.nan)
LARGE = np.linspace(0.0, 9.0, 40_000).reshape(200, 200)

WRONG: dict[str, Any] = {
    "nothing": None,
    "a word": "words",
    "an integer": -7,
    "a number": -0.3,
    "nan": np.nan,
    "inf": np.inf,
    "a truth": True,
    "a large number": 10**400,
    "a large array": LARGE,
    "a long array": LARGE.ravel()[:3000],
    "an array of nan": NAN,
    "an empty array": np.zeros(0),
    "a nested list": [[1.0], [2.0, 3.0]],
    "a long list": list(range(2000)),
    "a tuple": (0.5, "b"),
    "a dict": {"a": 1.0},
    "a callable": lambda: None,
    "a class": mf.SA,
    "an object": object(),
    "a law": LAW,
    "a measure": DENSITY,
    "a dynamics": mf.SA(1.0),
    "a space": CIRCLE,
    "a dataset": xr.Dataset({"a": ("t", np.zeros(3))}),
    "words in an array": np.array(["a"] * 500),
    "a masked number": np.ma.masked,
    "a complex number": 1.0 + 0.0j,
    "a span of time": np.timedelta64(3, "s"),
    "a date": np.datetime64("2024-01-01"),
    "a masked array": np.ma.array([[1.0, 0.0]] * 3, mask=[[False, False]] * 2 + [[True, False]]),
    "masked rows": [np.ma.array([1.0, 0.0], mask=[False, True])] * 2,
    "a table with a gap": pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [0.5, 0.5]}),
    "an array of objects": np.array([1.0, None], dtype=object),
    "complex numbers": np.array([[1.0 + 0.0j, 0.0]]),
    "truths": np.array([[True, False]]),
    "dates": np.array(["2024-01-01"], dtype="datetime64[ns]"),
}


FLOW = mf.evolve(
    mf.FlowMap(LAW, tol=1e-4), mf.SA(1.0), 0.1, 1, monitors={"w1": mf.DistanceTo("uniform")}
)


MATRICES = mf.trained.LayerMatrices(np.ones((1, 2, 2)), np.ones((1, 2, 2)))
LAYERS: dict[str, Any] = {
    "states": np.arange(1.0, 9.0).reshape(2, 2, 2),
    "after_attention": np.ones((1, 2, 2)),
    "attention": np.array([[[[1.0, 0.0], [0.5, 0.5]]]]),
    "matrices": [MATRICES],
    "norm": mf.trained.Norm("rms"),
    "mask": "causal",
    "tokens": ["a", "b"],
}

FRAME = np.eye(3)
SYNTHETIC = mf.trained.synthetic_layers(
    mf.Particles.sample(mf.Uniform(3), 9, rng=0).points, 1, beta=1.0, step=0.1, rng=0
)
MEASURES = mf.trained.measure_layers(SYNTHETIC, beta=1.0, repeats=2, rng=0)
HEAD = {
    "attention": np.ones((3, 3)) / 3.0,
    "points": FRAME,
    "allowed": np.ones((3, 3), dtype=bool),
    "matrix": FRAME,
}


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def solution() -> mf.Solution:
    return run([mf.Density(CIRCLE, mf.VonMisesFisher([1.0, 0.0], kappa)) for kappa in (0.5, 1.0)])


# good arguments by their names, where a call below has no other
GOOD: dict[str, Any] = {
    "beta": 1.0,
    "noise": 0.1,
    "sign": 1,
    "n": 4,
    "dim": 3,
    "kmax": 4,
    "lmax": 7,
    "measure": DENSITY,
    "mu": DENSITY,
    "nu": DENSITY,
    "dynamics": mf.SA(1.0),
    "t_end": 0.1,
    "save_at": 2,
    "at": EAST,
    "z": EAST,
    "points": EAST,
    "law": LAW,
    "space": CIRCLE,
    "rng": rng(),
    "size": 32,
    "radius": 0.1,
    "path": "none.nc",
    "degree": 1,
    "A": np.eye(2),
    "W": np.eye(2),
    "coupling": 1.0,
    "heads": [mf.Head()],
    "kernel": [1.0, 1.0],
    "layers": [mf.SA(1.0)],
    "step": 0.1,
    "terms": [mf.SA(1.0), mf.USA(1.0)],
}
DRAWN: dict[str, Any] = {"beta": 1.0, "dim": 2, "n_layers": 3, "step": 0.1, "rng": 1, "scale": 2.0}
# the objects whose methods are called
OBJECTS: dict[str, Any] = {
    "Case": mf.Case(CASE),
    "Circle": CIRCLE,
    "Density": DENSITY,
    "FlowMap": mf.FlowMap(LAW, tol=1e-4),
    "FourierSeries": LAW,
    "LayerStates": mf.LayerStates(**LAYERS),
    "Schedule": mf.Schedule([0.0, 1.0], [1.0, 2.0]),
    "Mixture": mf.Mixture([LAW]),
    "Particles": mf.Particles(EAST),
    "PointCloud": mf.PointCloud(EAST, bandwidth=0.5),
    "Solution": solution(),
    "Sphere": mf.Sphere(7),
    "Uniform": mf.Uniform(2),
    "VonMisesFisher": mf.VonMisesFisher([1.0, 0.0], 1.0),
    "Zonal": mf.Zonal(3, 7),
    "ZonalSeries": mf.ZonalSeries(2, [0.1]),
}
# good arguments that are a call's own
OWN: dict[str, dict[str, Any]] = {
    "Causal": {"decay": 1.0},
    "Case": {"toml": CASE, "folder": ".", "name": "mine"},
    "Case.from_file": {"path": "none.toml"},
    "Case.replace": {"changes": {"dynamics.beta": 2.0}},
    "Case.run": {"progress": False},
    "Bracket": {"value": 0.5, "lower": 0.4, "upper": 0.6},
    "Circle": {"n": 16},
    "CircleInteraction": {"sin": [1.0], "cos": [0.5]},
    "Density": {"law_or_values": LAW},
    "Particles.from_angles": {"angles": [0.0, 1.0]},
    "Density.from_coefficients": {"coefficients": DENSITY.coefficients},
    "DistanceTo": {"to": "uniform"},
    "FeedForward": {"activation": "tanh"},
    "FeedForward.from_potential": {"coefficients": [1.0, 2.0], "A": np.eye(2)},
    "FlowMap": {"law_or_density": LAW, "tol": 1e-4},
    "FourierSeries": {"cos": [0.1], "sin": [0.1]},
    "Head": {"Q": np.eye(2)},
    "Layers.random": {"ensemble": "ginibre", **DRAWN},
    "Schedule": {"times": [0.0, 1.0], "values": [1.0, 2.0]},
    "Schedule.derivative": {"t": 0.5},
    "LayerStates": LAYERS,
    "LayerStates.from_file": {"path": "none.npz"},
    "LayerStates.from_mapping": {"arrays": {"states": LAYERS["states"]}},
    "LayerStates.prompt": {"index": 0},
    "trained.effective_beta": HEAD,
    "trained.measure_layers": {"states": SYNTHETIC, "beta": 1.0, "repeats": 2, "rng": 0},
    "trained.claims": {"ds": MEASURES},
    "plot.layers": {"ds": MEASURES, "name": "energy"},
    "VonMisesFisher.fit": {"points": [[1.0, 0.0], [0.0, 1.0]]},
    "trained.symmetric_form": {name: HEAD[name] for name in ("attention", "points", "allowed")},
    "trained.energy_shares": {"points": FRAME, "beta": 1.0},
    "trained.least_shares": {"beta": 1.0, "n": 3, "dim": 3},
    "trained.energy_gradient": {"points": FRAME, "beta": 1.0},
    "trained.attribute_energy": {"before": FRAME, "after": FRAME, "beta": 1.0},
    "trained.modes": {"points": FRAME, "beta": 1.0},
    "trained.inner_products": {"points": FRAME, "bins": 4},
    "trained.effective_rank": {"points": FRAME},
    "trained.couplings": {"before": FRAME, "after": FRAME},
    "trained.find_sinks": {"states": FRAME, "attention": np.ones((1, 3, 3)) / 3.0},
    "trained.shuffle_coordinates": {"points": FRAME, "rng": 0},
    "trained.drift_to_mean": {"points": FRAME, "cosine": 0.5},
    "trained.other_layers": {"n_layers": 2, "rng": 0},
    "trained.synthetic_layers": {
        "start": FRAME,
        "n_layers": 1,
        "beta": 1.0,
        "step": 0.1,
        "rng": 0,
        "mask": "causal",
        "matrices": np.eye(3)[None],
        "noise": 0.1,
    },
    **{
        f"LayerStates.{name}": {"layer": 0}
        for name in (
            *("state", "after_attention_at", "attention_at", "heads_at", "matrices_at"),
            *("points", "scores", "stage"),
        )
    },
    "Sum": {"weights": [1.0, 0.5]},
    "Mixture": {"laws": [LAW, LAW]},
    "OscillatorDensity": {"laws_or_values": [LAW], "frequencies": [0.0]},
    "Oscillators": {"angles": [0.0, 1.0], "frequencies": [0.0, 1.0]},
    "PointCloud": {"bandwidth": 0.5},
    "PointCloud.from_histogram": {"counts": [1, 2, 1]},
    "Tabulated": {"points": [0.0, 2.0, 4.0], "values": [1.0, 1.0, 1.0]},
    "Solution.at": {"t": 0.0},
    "Solution.pdf": {"t": 0.05},
    "Solution.to_dataset": {"grid": 16},
    "Solution.save": {"path": "no/such/folder.nc"},
    "VonMisesFisher": {"mean": [1.0, 0.0], "kappa": 1.0},
    "Zonal": {"kmax": 7},
    "ZonalSeries": {"coefficients": [0.1]},
    "mean_cosine": {"measure": TOKENS},
    "clusters": {"min_mass": 0.01},
    "compare": {"a": FLOW, "b": FLOW, "distances": ("mmd",)},
    "evolve": {"rtol": 1e-6, "atol": 1e-9, "on_unresolved": "stop"},
    "evolve_free": {"points": FREE, "rtol": 1e-6, "atol": 1e-9},
    "gaussian_frequencies": {"deviation": 1.0},
    "lorentzian_frequencies": {"width": 1.0},
    "plot.distances": {"sol": FLOW},
    "plot.inner_products": {"rows": {"a": [TOKENS]}},
    "plot.movie": {"path": "no/such/folder.gif"},
    "plot.nodes": {"sol": FLOW},
    "plot.save": {"path": "a.png"},
    "plot.solution": {"panels": 1},
    "sliced_wasserstein": {"mu": TOKENS, "nu": TOKENS, "planes": 4},
    "studies.causal_limit": {
        "dynamics": mf.SA(1.0, mask=mf.Causal()),
        "n": [4],
        "repeats": 2,
        "rtol": 1e-6,
    },
    "studies.energy_extremisers": {"matrices": [np.diag([1.0, 2.0])], "repeats": 1},
    "studies.energy_maximiser": {"matrix": np.eye(2)},
    "studies.energy_minimiser": {"matrix": np.eye(2)},
    "studies.mean_field_limit": {"n": [4], "repeats": 2, "rtol": 1e-6, "distances": ["mmd"]},
    "studies.metastability": {"dynamics": mf.USA(1.0), "t_start": 0.01, "save_at": 10},
    "studies.phase_diagram": {"repeats": 1, "save_at": 2},
    "studies.proposition_3_4": {"n_measures": 2, "repeats": 1, "parts": ("coefficients",)},
    "Head.random": {"ensemble": "ginibre"},
    "studies.stationary_density": {"dynamics": mf.USA(4.0, noise=0.5), "dim": 2},
    "studies.stationary_states": {"dim": 2},
    "studies.two_token_correlation": {"repeats": 64, "kmax": 2},
    "sweep": {
        "case_or_function": case_from_text(CASE, "my.toml"),
        "grid": {"dynamics.beta": [1.0]},
    },
    "theory.gaussian_critical_coupling": {"deviation": 1.0},
    "theory.kuramoto_critical_coupling": {"density_at_centre": 1.0},
    "theory.lorentzian_critical_coupling": {"width": 1.0},
    "theory.orthogonal_arrival": {"delta": 0.1},
    "theory.orthogonal_tokens": {"t": 1.0},
    "theory.ott_antonsen": {"coupling": 2.0, "start": 0.5, "t": [0.0, 1.0]},
    "transport_plan": {"mu": TOKENS, "nu": TOKENS},
}
# calls whose arguments have good ones by their names
PLAIN = """
Density.quantise Density.sample FourierSeries.logpdf Mixture.logpdf PointCloud.logpdf
Uniform.logpdf VonMisesFisher.fit VonMisesFisher.logpdf ZonalSeries.logpdf Density.pdf
Density.moment Density.plot Density.resize FlowMap.moment FlowMap.quantise FlowMap.sample
FourierSeries.pdf FourierSeries.sample Mixture.pdf Mixture.sample Particles Particles.moment
Particles.quantise Particles.sample PointCloud.pdf PointCloud.sample Solution.animate
Solution.plot Sphere Uniform Uniform.pdf Uniform.sample VonMisesFisher.pdf VonMisesFisher.sample
ZonalSeries.pdf ZonalSeries.sample dissipation energy resume load mean_cosine metric_speed mmd
order_parameter plot.animation plot.comparison plot.density plot.dissipation plot.energy
plot.energy_extremisers plot.limits_without_normalisation plot.mean_field_limit plot.causal_limit
plot.metastability plot.phase_diagram plot.proposition_3_4 plot.resolution plot.stationary_states
plot.two_token_correlation energy_share rms_velocity sinkhorn_scaling slope sobolev
studies.limits_without_normalisation theory.critical_noise theory.dobrushin_constant
theory.eigenvalues theory.energy_dirac theory.energy_uniform theory.growth_rates
theory.log_eigenvalues theory.transition_beta theory.wendel transport_map wasserstein
"""
# each public kind of dynamics, and its velocity: other tables of tests walk them, too
KINDS: dict[str, Any] = {kind.__name__: kind for kind in KNOWN if kind.__name__ in mf.__all__}
MOVING = [name for kind in KINDS for name in (kind, f"{kind}.velocity")]
NAMES = [*dict.fromkeys([*OWN, *MOVING, *PLAIN.split()])]


def called(name: str) -> Callable[..., Any]:
    """The function, class or method of a name."""
    owner, _, last = name.rpartition(".")
    own = FLOW if name == "Solution.pdf" else OBJECTS.get(owner)
    return cast(Callable[..., Any], attrgetter(name)(mf) if own is None else getattr(own, last))


def call(name: str, arguments: dict[str, Any]) -> Any:
    """Call a public name with arguments by their names."""
    function, rest = called(name), dict(arguments)
    taken = inspect.signature(function).parameters.values()
    first = [rest.pop(one.name) for one in taken if one.kind is one.POSITIONAL_ONLY]
    return function(*first, **rest)


# good numbers and arrays for arguments that may be left out
OPTIONAL: dict[str, Any] = {
    "axis": [1.0, 0.0],
    "b": [0.1, 0.2],
    "bandwidth": 0.5,
    "beta": 0.5,
    "budget": 1000,
    "degree": 1,
    "edges": [0.0, 1.0, 2.0, 3.0],
    "frames": 1,
    "frequency_weights": [1.0],
    "gap": 0.1,
    "max_size": 64,
    "radius": 0.1,
    "s": 1.0,
    "save_at": 2,
    "tol": 1e-4,
    "weights": [0.5, 0.5],
    "widths": [0.0],
    "K": [[1.0, 0.0], [0.0, 2.0]],
    "V": [[1.0, 0.0], [0.0, 2.0]],
}
OPTIONAL_IN: dict[tuple[str, str], Any] = {
    ("FlowMap", "axis"): None,
    ("Particles", "weights"): [1.0],
    ("PointCloud", "weights"): [1.0],
    ("Tabulated", "axis"): [0.0, 0.0, 1.0],
    ("Zonal", "axis"): [0.0, 0.0, 1.0],
    ("studies.phase_diagram", "rtol"): 1e-6,
    ("studies.proposition_3_4", "kmax"): 4,
    ("evolve_free", "K"): np.diag([1.0, 2.0, 3.0]),
    ("evolve_free", "V"): np.diag([1.0, 2.0, 3.0]),
}


def good_value(name: str, argument: str) -> Any:
    """A good value of an argument that a call may leave out, its default if there is no other."""
    good = good_arguments(name)
    if argument in good:
        return good[argument]
    default = inspect.signature(called(name)).parameters[argument].default
    other = default if isinstance(default, (int, float)) else OPTIONAL.get(argument, default)
    return OPTIONAL_IN.get((name, argument), other)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray)) and np.asarray(value).dtype.kind in "if"


# checked after others of the call: a run's file, a study's dataset
LATE = {
    ("resume", "monitors"),
    ("resume", "law"),
    ("resume", "dynamics"),
    ("resume", "energy"),
    ("resume", "progress"),
    ("plot.metastability", "run"),
    ("plot.proposition_3_4", "index"),
    ("plot.stationary_states", "index"),
    ("studies.metastability", "executor"),
}


def good_arguments(name: str) -> dict[str, Any]:
    """Good arguments of a call, all that it must have and some that it may."""
    own = OWN.get(name, {})
    good = dict(own)
    for each, parameter in inspect.signature(called(name)).parameters.items():
        if each not in own and parameter.default is inspect.Parameter.empty:
            if each == "sol":
                good[each] = solution()
            elif each == "figure":
                good[each] = solution().plot().figure
            elif each != "ds":
                good[each] = GOOD[each]
    return good


OBJECTS |= {name: kind(**good_arguments(name)) for name, kind in KINDS.items()}


def arguments_of(name: str) -> Iterator[str]:
    """The parameters that a public name takes."""
    for argument in inspect.signature(called(name)).parameters:
        if (name, argument) not in LATE:
            yield argument


# inner methods, whose arguments were checked before: they run in loops
_INNER = """
Clusters FreeTokens SlicedDistance Solution analysis begin between coefficients_on combined embed
embedded field frame from_parts has_score_sums is_about kernel_sums log_moment matrices
mean moments node_sums output plan power queries refined score_moment sums_at synthesis
transforms
"""
INNER = set(_INNER.split())
# an argument's other names in messages
OTHER_NAMES = {
    # `energy` takes a number β for it
    "dynamics": ("dynamics", "beta"),
    "law_or_values": ("law", "values"),
    # bins are too narrow to be smoothed
    "counts": ("counts", "bandwidth"),
    "law_or_density": ("law",),
    "laws_or_values": ("laws", "law", "values"),
}

NUMBERS = ("an integer", "a number")
LISTS = ("a long array", "a long list")
# kinds that are right for an argument, wherever it is; it may be nothing if it may be left out
RIGHT: dict[str, tuple[str, ...]] = {
    "measure": ("a measure",),
    "mu": ("a measure",),
    "nu": ("a measure",),
    "densities": ("a measure",),
    "dynamics": ("a dynamics",),
    "energy": ("a dynamics",),
    "layers": ("a dynamics",),
    # a density is a law
    "law": ("a law", "a measure"),
    "law_or_values": ("a law", "a measure", "a callable"),
    "law_or_density": ("a law", "a measure"),
    "laws_or_values": ("a law", "a measure"),
    "space": ("a space",),
    "rng": ("a large number",),
    "progress": ("a truth",),
    "scaled": ("a truth",),
    "proved": ("a truth",),
    "unit_mass": ("a truth",),
    "at": NUMBERS,
    "normalised": ("a truth",),
    "coupling": NUMBERS,
    "centre": NUMBERS,
    "Q": (*NUMBERS, "a large array"),
    "K": NUMBERS,
    "V": NUMBERS,
    "scale": NUMBERS,
    "cos": ("an empty array",),
    "sin": ("an empty array",),
}
# and in some calls only
RIGHT_IN: dict[tuple[str, str], tuple[str, ...]] = {
    ("Bracket", "value"): (),
    ("Bracket", "lower"): NUMBERS,
    ("Bracket", "upper"): ("inf", "a large number"),
    ("Case", "toml"): ("a word",),
    ("Case", "folder"): ("a word",),
    ("Case", "name"): ("a word",),
    ("Case.from_file", "path"): ("a word",),
    ("Case.replace", "changes"): ("a dict", "a dataset"),
    ("Case.run", "checkpoint"): ("a word",),
    ("Case.run", "progress"): ("a truth", "a callable", "a class"),
    ("CircleInteraction", "sin"): (*LISTS, "an empty array"),
    ("CircleInteraction", "cos"): (*LISTS, "an empty array"),
    ("compare", "gap"): ("nothing",),
    ("DistanceTo", "to"): ("a law", "a measure"),
    ("LayerStates", "tokens"): ("words",),
    ("LayerStates.from_file", "path"): ("a word",),
    ("Particles.from_angles", "angles"): LISTS,
    **{(name, "points"): NUMBERS for name in NAMES if name.endswith("pdf")},
    ("VonMisesFisher", "mean"): NUMBERS,
    ("studies.stationary_density", "axis"): NUMBERS,
    ("Solution.save", "path"): ("a word",),
    ("ZonalSeries", "coefficients"): ("an empty array", "a long array"),
    ("evolve", "checkpoint"): ("a word",),
    ("evolve", "progress"): ("a truth", "a callable", "a class"),
    ("evolve_free", "points"): ("a large array",),
    ("resume", "path"): ("a word",),
    ("load", "path"): ("a word",),
    ("plot.save", "source"): ("a word",),
    ("sobolev", "s"): NUMBERS,
    ("studies.causal_limit", "save_at"): ("nothing",),
    ("studies.mean_field_limit", "save_at"): ("nothing",),
    ("sweep", "case_or_function"): ("a word", "a callable", "a class"),
    ("sweep", "folder"): ("a word",),
    ("sweep", "overrides"): ("a dict", "a dataset"),
    ("theory.eigenvalues", "beta"): ("a large array", *LISTS),
    ("theory.energy_dirac", "dynamics"): ("a dynamics", "a large array", *LISTS),
    ("theory.energy_uniform", "dynamics"): ("a dynamics", "a large array", *LISTS),
    ("theory.log_eigenvalues", "beta"): ("a large array", *LISTS),
    ("trained.energy_shares", "beta"): ("a dynamics", *LISTS),
    ("trained.find_sinks", "states"): ("a large array",),
    ("trained.least_shares", "beta"): LISTS,
    ("trained.drift_to_mean", "cosine"): NUMBERS,
    ("trained.synthetic_layers", "beta"): (*NUMBERS, *LISTS),
    ("theory.orthogonal_tokens", "t"): ("a large array", *LISTS),
    ("theory.ott_antonsen", "t"): ("a large array", *LISTS),
}


def accepted(name: str, argument: str) -> tuple[str, ...]:
    """The kinds in `WRONG` that are right for this argument."""
    right = RIGHT_IN.get((name, argument), RIGHT.get(argument, ()))
    is_optional = inspect.signature(called(name)).parameters[argument].default is None
    return (*right, "nothing") if is_optional else right
