"""What test_bad_values.py feeds to every public name: good arguments, and values of wrong kinds."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr
from handmade import run

import meanfield as mf
from meanfield.cli.case import case_from_text

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
}


CASE = """
law = {type = "fourier-series", cos = [0.5]}
space = {type = "circle", n = 16}
dynamics = {beta = 1.0}
run = {t_end = 0.1, save_at = 1}
"""
FLOW = mf.evolve(
    mf.FlowMap(LAW, 1e-4), mf.SA(1.0), 0.1, 1, monitors={"w1": mf.DistanceTo("uniform")}
)


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
}
Call = tuple[Callable[..., Any], dict[str, Any]]
# name: what is called, and the good arguments that are its own
BY_NAME: dict[str, Call] = {
    "Attention": (mf.Attention, {"heads": [mf.Head()], "normalise": True, "noise": 0.0}),
    "Attention.velocity": (mf.Attention(1.0, [mf.Head()]).velocity, {}),
    "Bracket": (mf.Bracket, {"value": 0.5, "lower": 0.4, "upper": 0.6, "proved": False}),
    "Circle": (mf.Circle, {"n": 16}),
    "Circle.exact_size": (CIRCLE.exact_size, {}),
    "Circle.resized": (CIRCLE.resized, {}),
    "CircleInteraction": (mf.CircleInteraction, {"sin": [1.0], "cos": [0.5], "coupling": 1.0}),
    "CircleInteraction.of_usa": (mf.CircleInteraction.of_usa, {}),
    "CircleInteraction.velocity": (mf.Kuramoto(1.0).velocity, {}),
    "Density": (mf.Density, {"law_or_values": LAW}),
    "Density.at": (DENSITY.at, {}),
    "Density.balanced": (DENSITY.balanced, {}),
    "Density.from_coefficients": (
        mf.Density.from_coefficients,
        {"coefficients": DENSITY.coefficients},
    ),
    "Density.moment": (DENSITY.moment, {}),
    "Density.plot": (DENSITY.plot, {"ax": None}),
    "Density.resized": (DENSITY.resized, {}),
    "Density.trigonometric_moments": (DENSITY.trigonometric_moments, {}),
    "DistanceTo": (mf.DistanceTo, {"to": "uniform", "p": 1, "every": 1, "gap": None}),
    "DoublyStochastic": (mf.DoublyStochastic, {}),
    "DoublyStochastic.velocity": (mf.DoublyStochastic(1.0).velocity, {}),
    "FeedForward": (
        mf.FeedForward,
        {"W": np.eye(2), "A": np.eye(2), "b": None, "activation": "tanh"},
    ),
    "FeedForward.divergence": (mf.FeedForward(np.eye(2), np.eye(2)).divergence, {}),
    "FeedForward.velocity": (mf.FeedForward(np.eye(2), np.eye(2)).velocity, {}),
    "FlowMap": (mf.FlowMap, {"law": LAW, "tol": 1e-4, "axis": None, "largest": None}),
    "FlowMap.resolving": (mf.FlowMap(LAW, 1e-4).resolving, {}),
    "FlowMap.moment": (mf.FlowMap(LAW, 1e-4).moment, {}),
    "FourierSeries": (mf.FourierSeries, {"cos": [0.1], "sin": [0.1]}),
    "FourierSeries.pdf": (LAW.pdf, {}),
    "FourierSeries.sample": (LAW.sample, {}),
    "Head": (mf.Head, {"Q": np.eye(2), "K": 1.0, "V": 1.0}),
    "Kuramoto": (mf.Kuramoto, {"coupling": 1.0}),
    "Layers": (mf.Layers, {"layers": [mf.SA(1.0)], "step": 1.0}),
    "Layers.velocity": (mf.Layers([mf.SA(1.0)]).velocity, {}),
    "Mixture": (mf.Mixture, {"laws": [LAW, LAW], "weights": None}),
    "Mixture.pdf": (mf.Mixture([LAW]).pdf, {}),
    "Mixture.sample": (mf.Mixture([LAW]).sample, {}),
    "OscillatorDensity": (
        mf.OscillatorDensity,
        {"laws_or_values": [LAW], "frequencies": [0.0], "weights": None, "widths": None},
    ),
    "Oscillators": (
        mf.Oscillators,
        {"angles": [0.0, 1.0], "frequencies": [0.0, 1.0], "weights": None},
    ),
    "Particles": (mf.Particles, {"weights": None, "sums": "auto"}),
    "Particles.moment": (mf.Particles(EAST).moment, {}),
    "Particles.quantised": (mf.Particles.quantised, {"sums": "auto"}),
    "Particles.sample": (mf.Particles.sample, {"sums": "auto"}),
    "Particles.trigonometric_moments": (mf.Particles(EAST).trigonometric_moments, {}),
    "PointCloud": (mf.PointCloud, {"weights": None, "bandwidth": 0.5}),
    "PointCloud.pdf": (mf.PointCloud(EAST, bandwidth=0.5).pdf, {}),
    "PointCloud.sample": (mf.PointCloud(EAST).sample, {}),
    "SA": (mf.SA, {}),
    "SA.velocity": (mf.SA(1.0).velocity, {}),
    "Solution.animate": (solution().animate, {"ax": None, "frames": None, "fps": 10.0}),
    "Solution.density": (FLOW.density, {"t": 0.05}),
    "Solution.plot": (solution().plot, {"name": "energy", "ax": None}),
    "Solution.save": (solution().save, {"path": "no/such/folder.nc"}),
    "Sphere": (mf.Sphere, {"library": None}),
    "Sphere.exact_size": (mf.Sphere(7).exact_size, {}),
    "Sphere.resized": (mf.Sphere(7).resized, {}),
    "USA": (mf.USA, {}),
    "USA.velocity": (mf.USA(1.0).velocity, {}),
    "Uniform": (mf.Uniform, {}),
    "Uniform.pdf": (mf.Uniform(2).pdf, {}),
    "Uniform.sample": (mf.Uniform(2).sample, {}),
    "VonMisesFisher": (mf.VonMisesFisher, {"mean": [1.0, 0.0], "kappa": 1.0}),
    "VonMisesFisher.pdf": (mf.VonMisesFisher([1.0, 0.0], 1.0).pdf, {}),
    "VonMisesFisher.sample": (mf.VonMisesFisher([1.0, 0.0], 1.0).sample, {}),
    "Zonal": (mf.Zonal, {"kmax": 7, "axis": None}),
    "Zonal.exact_size": (mf.Zonal(3, 7).exact_size, {}),
    "Zonal.resized": (mf.Zonal(3, 7).resized, {}),
    "ZonalSeries": (mf.ZonalSeries, {"coefficients": [0.1], "axis": None}),
    "ZonalSeries.pdf": (mf.ZonalSeries(2, [0.1]).pdf, {}),
    "ZonalSeries.sample": (mf.ZonalSeries(2, [0.1]).sample, {}),
    "clusters": (mf.clusters, {"min_mass": 0.01}),
    "dissipation": (mf.dissipation, {"scaled": False}),
    "energy": (mf.energy, {"form": None, "scaled": False}),
    "evolve": (
        mf.evolve,
        {
            "method": "flow",
            "step": None,
            "rng": None,
            "rtol": 1e-6,
            "atol": 1e-9,
            "tail_tol": 1e-6,
            "largest": None,
            "cluster_radius": 1e-8,
            "on_unresolved": "stop",
            "monitors": None,
            "progress": False,
            "checkpoint": None,
            "case": "",
            "about": None,
        },
    ),
    "resume": (
        mf.resume,
        {"monitors": None, "law": None, "dynamics": None, "progress": False},
    ),
    "evolve_free": (
        mf.evolve_free,
        {
            "points": FREE,
            "query": 1.0,
            "key": 1.0,
            "value": 1.0,
            "kernel": "rescaled",
            "tie": "average",
            "rtol": 1e-6,
            "atol": 1e-9,
        },
    ),
    "gaussian_frequencies": (mf.gaussian_frequencies, {"deviation": 1.0, "centre": 0.0}),
    "interaction_energy": (mf.interaction_energy, {"dynamics": mf.Kuramoto(1.0)}),
    "load": (mf.load, {}),
    "lorentzian_frequencies": (mf.lorentzian_frequencies, {"width": 1.0, "centre": 0.0}),
    "metric_speed": (mf.metric_speed, {"weighted": False, "scaled": False}),
    "mmd": (mf.mmd, {"scaled": False}),
    "order_parameter": (mf.order_parameter, {}),
    "plot.animation": (mf.plot.animation, {"ax": None, "frames": None, "fps": 10.0}),
    "plot.density": (mf.plot.density, {"ax": None}),
    "plot.dissipation": (mf.plot.dissipation, {"ax": None}),
    "plot.distances": (mf.plot.distances, {"sol": FLOW, "ax": None}),
    "plot.energy": (mf.plot.energy, {"ax": None}),
    "plot.form_extremisers": (mf.plot.form_extremisers, {}),
    "plot.inner_products": (mf.plot.inner_products, {"rows": {"a": [TOKENS]}, "titles": None}),
    "plot.limits_without_normalisation": (mf.plot.limits_without_normalisation, {}),
    "plot.mean_field_limit": (mf.plot.mean_field_limit, {}),
    "plot.metastability": (mf.plot.metastability, {"run": 0}),
    "plot.movie": (
        mf.plot.movie,
        {"path": "no/such/folder.gif", "frames": None, "seconds": None, "fps": None}
        | {"progress": False},
    ),
    "plot.nodes": (mf.plot.nodes, {"sol": FLOW, "ax": None}),
    "plot.phase_diagram": (mf.plot.phase_diagram, {}),
    "plot.proposition_3_4": (mf.plot.proposition_3_4, {"index": 0}),
    "plot.resolution": (mf.plot.resolution, {"ax": None}),
    "plot.save": (mf.plot.save, {"path": "a.png"}),
    "plot.solution": (mf.plot.solution, {"times": 1}),
    "plot.stationary_states": (mf.plot.stationary_states, {"index": 0}),
    "plot.two_token_correlation": (mf.plot.two_token_correlation, {}),
    "sinkhorn_energy": (mf.sinkhorn_energy, {}),
    "sinkhorn_scaling": (mf.sinkhorn_scaling, {}),
    "sliced_wasserstein": (
        mf.sliced_wasserstein,
        {"mu": TOKENS, "nu": TOKENS, "p": 2, "planes": 4},
    ),
    "slope": (mf.slope, {"scaled": False}),
    "sobolev": (mf.sobolev, {"s": -1.0}),
    "studies.form_extremisers": (
        mf.studies.form_extremisers,
        {"forms": [np.diag([1.0, 2.0])], "starts": 1, "rng": rng()},
    ),
    "studies.form_maximiser": (mf.studies.form_maximiser, {"form": np.eye(2)}),
    "studies.form_minimiser": (mf.studies.form_minimiser, {"form": np.eye(2)}),
    "studies.limits_without_normalisation": (mf.studies.limits_without_normalisation, {}),
    "studies.mean_field_limit": (
        mf.studies.mean_field_limit,
        {
            "ns": [4],
            "repeats": 2,
            "distances": None,
            "start": "iid",
            "seed": 0,
            "rtol": 1e-6,
            "executor": None,
            "progress": False,
        },
    ),
    "studies.metastability": (
        mf.studies.metastability,
        {
            "dynamics": mf.USA(1.0),
            "amplitude": 1e-3,
            "rng": rng(),
            "t_start": 0.01,
            "saves": 10,
            "executor": None,
            "progress": False,
        },
    ),
    "studies.phase_diagram": (
        mf.studies.phase_diagram,
        {
            "betas": [1.0],
            "realisations": 1,
            "delta": 1e-3,
            "dynamics": mf.SA,
            "times": 2,
            "rtol": None,
            "executor": None,
            "progress": False,
        },
    ),
    "studies.proposition_3_4": (
        mf.studies.proposition_3_4,
        {
            "kernel": None,
            "samples": 2,
            "starts": 1,
            "parts": ("coefficients",),
            "executor": None,
            "progress": False,
        },
    ),
    "studies.random_heads": (mf.studies.random_heads, {"kind": "ginibre"}),
    "studies.stationary_density": (
        mf.studies.stationary_density,
        {"dynamics": mf.USA(4.0, noise=0.5), "direction": 1, "axis": None, "dim": 2},
    ),
    "studies.stationary_states": (
        mf.studies.stationary_states,
        {"betas": [1.0], "dynamics": mf.USA, "degrees": 1, "until": 0.25}
        | {"executor": None, "progress": False, "dim": 2},
    ),
    "studies.two_token_correlation": (
        mf.studies.two_token_correlation,
        {"realisations": 64, "kmax": 2, "executor": None, "progress": False},
    ),
    "sweep": (
        mf.sweep,
        {
            "case": case_from_text(CASE, "my.toml"),
            "grid": {"dynamics.beta": [1.0]},
            "settings": None,
            "cells": None,
            "executor": None,
            "workers": None,
            "progress": False,
        },
    ),
    "theory.critical_noise": (mf.theory.critical_noise, {}),
    "theory.dobrushin_constant": (mf.theory.dobrushin_constant, {}),
    "theory.eigenvalues": (mf.kernels.multipliers.eigenvalues, {}),
    "theory.energy_dirac": (mf.theory.energy_dirac, {}),
    "theory.energy_uniform": (mf.theory.energy_uniform, {}),
    "theory.gaussian_critical_coupling": (mf.theory.gaussian_critical_coupling, {"deviation": 1.0}),
    "theory.growth_rates": (mf.theory.growth_rates, {}),
    "theory.kuramoto_critical_coupling": (
        mf.theory.kuramoto_critical_coupling,
        {"density_at_centre": 1.0},
    ),
    "theory.log_eigenvalues": (mf.kernels.multipliers.log_eigenvalues, {}),
    "theory.lorentzian_critical_coupling": (mf.theory.lorentzian_critical_coupling, {"width": 1.0}),
    "theory.orthogonal_arrival": (mf.theory.orthogonal_arrival, {"delta": 0.1}),
    "theory.orthogonal_tokens": (mf.theory.orthogonal_tokens, {"t": 1.0}),
    "theory.ott_antonsen": (
        mf.theory.ott_antonsen,
        {"coupling": 2.0, "start": 0.5, "t": [0.0, 1.0], "width": 0.0},
    ),
    "theory.sinkhorn_energy_dirac": (mf.theory.sinkhorn_energy_dirac, {}),
    "theory.sinkhorn_energy_uniform": (mf.theory.sinkhorn_energy_uniform, {}),
    "theory.transition_beta": (mf.theory.transition_beta, {}),
    "theory.wendel": (mf.theory.wendel, {}),
    "transport_map": (mf.transport_map, {"p": 1}),
    "transport_plan": (mf.transport_plan, {"mu": TOKENS, "nu": TOKENS, "p": 1}),
    "wasserstein": (mf.wasserstein, {"p": 1, "gap": None}),
}


# checked after others of the call: a run's file, a study's dataset
LATE = {
    ("resume", "monitors"),
    ("resume", "law"),
    ("resume", "dynamics"),
    ("resume", "progress"),
    ("plot.metastability", "run"),
    ("plot.proposition_3_4", "index"),
    ("plot.stationary_states", "index"),
    ("studies.metastability", "executor"),
}


def good_arguments(name: str) -> dict[str, Any]:
    """Good arguments of a call, all that it must have and some that it may."""
    call, own = BY_NAME[name]
    given = dict(own)
    for each, parameter in inspect.signature(call).parameters.items():
        if each not in own and parameter.default is inspect.Parameter.empty:
            if each == "sol":
                given[each] = solution()
            elif each == "figure":
                given[each] = solution().plot().figure
            elif each != "ds":
                given[each] = GOOD[each]
    return given


def arguments_of(name: str) -> Iterator[str]:
    """The parameters that a public name takes."""
    call, _ = BY_NAME[name]
    for argument in inspect.signature(call).parameters:
        if (name, argument) not in LATE:
            yield argument


# inner methods, whose arguments were checked before: they run in loops
INNER = {
    "Ending",
    "Clusters",
    "FreeTokens",
    "SlicedDistance",
    "Solution",
    "analysis",
    "between",
    "combined",
    "embed",
    "fast_score_sums",
    "fast_sums",
    "field",
    "frame",
    "from_parts",
    "holds",
    "log_moment",
    "matrices",
    "mean",
    "node_sums",
    "output",
    "plan",
    "power",
    "queries",
    "sums_at",
    "synthesis",
    "take_up",
    "transforms",
}
# an argument's other names in messages
OTHER_NAMES = {
    "law_or_values": ("law", "values"),
    "laws_or_values": ("laws", "law", "values"),
    "size": ("largest",),
}

NUMBERS = ("an integer", "a number")
LISTS = ("a long array", "a long list")
# what is right for an argument, wherever it is; what may be left out may also be nothing
RIGHT: dict[str, tuple[str, ...]] = {
    "measure": ("a measure",),
    "mu": ("a measure",),
    "nu": ("a measure",),
    "densities": ("a measure",),
    "dynamics": ("a dynamics",),
    "layers": ("a dynamics",),
    "law": ("a law",),
    "law_or_values": ("a law",),
    "laws_or_values": ("a law",),
    "space": ("a space",),
    "progress": ("a truth",),
    "scaled": ("a truth",),
    "weighted": ("a truth",),
    "proved": ("a truth",),
    "normalise": ("a truth",),
    "coupling": NUMBERS,
    "centre": NUMBERS,
    "query": NUMBERS,
    "key": NUMBERS,
    "value": NUMBERS,
    "Q": (*NUMBERS, "a large array"),
    "K": NUMBERS,
    "V": NUMBERS,
    "cos": ("an empty array",),
    "sin": ("an empty array",),
    "betas": LISTS,
}
# and in some calls only
RIGHT_IN: dict[tuple[str, str], tuple[str, ...]] = {
    ("Bracket", "value"): (),
    ("Bracket", "lower"): NUMBERS,
    ("Bracket", "upper"): ("inf", "a large number"),
    ("CircleInteraction", "sin"): (*LISTS, "an empty array"),
    ("CircleInteraction", "cos"): (*LISTS, "an empty array"),
    ("DistanceTo", "to"): ("a law", "a measure"),
    ("DistanceTo", "distance"): ("a callable", "a class"),
    ("Solution.save", "path"): ("a word",),
    ("ZonalSeries", "coefficients"): ("an empty array", "a long array"),
    ("energy", "form"): NUMBERS,
    ("evolve", "checkpoint"): ("a word",),
    ("evolve", "case"): ("a word",),
    ("evolve", "about"): ("a dict",),
    ("evolve_free", "points"): ("a large array",),
    ("resume", "path"): ("a word",),
    ("load", "path"): ("a word",),
    ("plot.save", "source"): ("a word",),
    ("sobolev", "s"): NUMBERS,
    # called with β, which is the caller's own affair
    ("studies.phase_diagram", "dynamics"): ("a class", "a callable"),
    ("studies.stationary_states", "dynamics"): ("a class", "a callable"),
    ("studies.mean_field_limit", "save_at"): ("nothing",),
    ("sweep", "case"): ("a word",),
    ("sweep", "cells"): ("a word",),
    ("sweep", "settings"): ("a dict", "a dataset"),
    ("theory.ott_antonsen", "t"): LISTS,
}


def accepted(name: str, argument: str) -> tuple[str, ...]:
    """The kinds in `WRONG` that are right for this argument."""
    found = RIGHT_IN.get((name, argument), RIGHT.get(argument, ()))
    is_optional = inspect.signature(BY_NAME[name][0]).parameters[argument].default is None
    return (*found, "nothing") if is_optional else found
