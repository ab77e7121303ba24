"""The table in docs/architecture.md of which dynamics moves which measure is what is checked."""

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import meanfield as mf
from meanfield.dynamics import KNOWN, CircleInteraction
from meanfield.equations.tendency import check_moved
from meanfield.measures import AnyMeasure

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
WAVE, BUMPS = (
    mf.FourierSeries(cos=[0.5]),
    mf.Mixture([mf.VonMisesFisher(np.eye(3)[i], 2.0) for i in range(2)]),
)
ZONAL = mf.ZonalSeries(3, [0.8, 0.2])
MEASURES = {
    "`Density` on a `Circle`": mf.Density(mf.Circle(16), WAVE),
    "on a `Sphere`": mf.Density(mf.Sphere(8), mf.Uniform(3)),
    "on a `Zonal`": mf.Density(mf.Zonal(3, 16, axis=ZONAL.axis), ZONAL),
    "`OscillatorDensity`": mf.OscillatorDensity(mf.Circle(16), WAVE, [-1.0, 1.0]),
    "`FlowMap` on the circle": mf.FlowMap(WAVE),
    "about an axis": mf.FlowMap(ZONAL),
    "on S²": mf.FlowMap(BUMPS, tol=1e-2),
    "`Particles` on the circle": mf.Particles(np.eye(2)),
    "beyond it": mf.Particles(np.eye(3)),
}


class Reader:
    """An output that reads the measure and tells no divergence."""

    name, noise = "reader", 0.0

    def output(self, measure, points):
        return 0.0 * points + measure.mean()


class Reading(Reader):
    """The same with its divergence."""

    def divergence(self, measure, points):
        return -(points.shape[1] - 1.0) * points @ measure.mean()


class Drift(Reading):
    """An output that reads no measure, with its divergence."""

    reads_measure = False

    def output(self, measure, points):
        return 0.0 * points

    def divergence(self, measure, points):
        return np.zeros(len(points))


class OwnKernel:
    """A kernel of a user's own."""

    name, noise, kernel = "square", 0.0, (1.0, 2.0, 1.0)


def neurons(dim):
    return mf.FeedForward(np.eye(dim)[:, -1:], np.eye(dim)[-1:])


# the rows of the table; some dynamics hang on the dimension
DYNAMICS = {
    "`SA`, `USA`, `DoublyStochastic`": lambda _: [
        mf.SA(1.0),
        mf.USA(1.0),
        mf.DoublyStochastic(1.0),
    ],
    "`Interaction`, or your own with a `kernel`": lambda _: [mf.Interaction([1.0]), OwnKernel()],
    "`Attention`": lambda _: [mf.Attention(1.0, [mf.Head()])],
    "`SA`, `USA`, `Interaction` or `Attention` under a mask": lambda _: [
        mf.SA(1.0, mask=mf.Causal()),
        mf.USA(1.0, mask=mf.Causal()),
        mf.Interaction([1.0], mask=mf.Causal()),
        mf.Attention(1.0, [mf.Head()], mask=mf.Causal()),
    ],
    "`FeedForward`": lambda dim: [neurons(dim)],
    "`Alignment`": lambda _: [mf.Alignment(1.0)],
    "`CircleInteraction`, `Kuramoto`": lambda _: [CircleInteraction([1.0]), mf.Kuramoto(1.0)],
    "an `output` of your own": lambda _: [Reader()],
    "with a `divergence`": lambda _: [Reading()],
    "that does not read the measure": lambda _: [Drift()],
    "`Sum`, `Layers`, `RandomLayers` of `SA`": lambda dim: [
        mf.Sum([mf.SA(1.0), mf.USA(1.0)]),
        mf.Layers([mf.SA(1.0), mf.USA(2.0)], step=1.0),
        mf.Layers.random("values", beta=1.0, dim=dim, n_layers=2, step=1.0, rng=1, scale=1.0),
    ],
    "of `SA` and an `output`": lambda _: [
        mf.Sum([mf.SA(1.0), Reader()]),
        mf.Layers([mf.SA(1.0), Reader()], step=1.0),
    ],
}


def table():
    """The cells of the page: dynamics by measure."""
    text = PAGE.read_text(encoding="utf-8").partition("## Which dynamics moves which measure")[2]
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    (_, *columns), _, *rows = ([c.strip() for c in line.strip("|").split("|")] for line in lines)
    return {label: dict(zip(columns, cells, strict=True)) for label, *cells in rows}


def is_moved(measure, dynamics):
    try:
        check_moved(measure, dynamics)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("label", DYNAMICS)
def test_a_dynamics_moves_what_the_page_says(label):
    row = table()[label]
    assert list(row) == list(MEASURES)
    for column, measure in MEASURES.items():
        moved = {is_moved(measure, dynamics) for dynamics in DYNAMICS[label](measure.dim)}
        assert moved == {row[column] == "yes"}, (label, column)
        assert row[column] in ("yes", "no")


def test_every_dynamics_has_a_row():
    assert list(table()) == list(DYNAMICS)
    named = set(re.findall(r"`(\w+)`", " ".join(DYNAMICS)))
    assert {kind.__name__ for kind in KNOWN} - named <= {"LayerMap"}
    measures = {kind.__name__ for kind in get_args(AnyMeasure)}
    assert measures <= set(re.findall(r"`(\w+)`", " ".join(MEASURES)))
