"""Runs that have a page: each is solved, and its page written, once for all tests that ask."""

import base64
import json
import re
from functools import cache

import numpy as np

import meanfield as mf
from meanfield.cli import report
from tests.handmade import tokens, unfinished

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
SLANTED = mf.VonMisesFisher([0.0, 0.6, 0.8], 3.0)
SMALL = mf.Density(mf.Circle(32), LAW, max_size=64)
OUTGROWN = {"t_end": 6.0}
RUNS = {
    "circle": (mf.Density(mf.Circle(64), LAW), mf.SA(4.0), {"t_end": 1.0}),
    "S^2": (mf.Density(mf.Sphere(15), SLANTED), mf.USA(1.0), {"t_end": 0.3}),
    "zonal with noise": (
        mf.Density(mf.Zonal(8, 31), mf.ZonalSeries(8, [0.5])),
        mf.USA(2.0, noise=0.01),
        {"t_end": 0.5},
    ),
    "flow map": (mf.FlowMap(LAW), mf.SA(4.0), {"t_end": 15.0}),
    "flow map on S^2": (
        mf.FlowMap(mf.Mixture([SLANTED, mf.Uniform(3)]), tol=1e-5),
        mf.Attention(1.0, [mf.Head(V=np.diag([1.0, -1.0, 0.5]))]),
        {"t_end": 0.3},
    ),
    "hand-over": (SMALL, mf.SA(4.0), OUTGROWN | {"on_unresolved": "flow-map"}),
    "under-resolved": (SMALL, mf.SA(4.0), OUTGROWN | {"on_unresolved": "stop"}),
    "tokens on S^2": (tokens(3, 60), mf.SA(4.0), {"t_end": 1.0}),
    "Kuramoto": (mf.Density(mf.Circle(64), LAW), mf.Kuramoto(2.0, noise=0.1), {"t_end": 0.5}),
    "decades": (
        mf.FlowMap(LAW),
        mf.SA(9.0),
        {"t_end": 1e3, "save_at": np.geomspace(0.01, 1e3, 21)},
    ),
    "sum": (SMALL, mf.SA(4.0) + 0.5 * mf.USA(2.0) + mf.Kuramoto(0.5), {"t_end": 0.2}),
    "masked": (
        tokens(2, 60),
        mf.SA(4.0, mask=mf.Causal(1.0)),
        {"t_end": 1.0, "energy": 1.0},
    ),
    "tokens in d = 8": (tokens(8, 30), mf.DoublyStochastic(2.0), {"t_end": 1.0}),
}
PAIR = "two runs"
# a page has its numbers in single precision, to 6e-8 of lengths and angles up to 2π
SINGLE = 1e-6


@cache
def solution_of(name):
    """The run of this name."""
    start, dynamics, asked = RUNS[name]
    if name == "under-resolved":
        return unfinished(mf.evolve, start, dynamics, save_at=5, **asked)
    return mf.evolve(start, dynamics, **{"save_at": 5, **asked})


@cache
def page_of(name):
    """The page of a run, or that of two, which compares a series with its nodes."""
    if name != PAIR:
        return report.page(solution_of(name))
    nodes = mf.evolve(mf.FlowMap(LAW), mf.SA(4.0), 1.0, save_at=2)
    return report.page(solution_of("circle"), nodes, names=["series", "nodes"])


def data(page):
    """What the program of a page reads."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def view(shown, name):
    """The figure of this name."""
    (figure,) = (each for each in shown["views"] if each["name"] == name)
    return figure


def numbers(packed):
    """The numbers of an array in a page."""
    return np.frombuffer(base64.b64decode(packed["bdata"]), "<" + packed["dtype"])
