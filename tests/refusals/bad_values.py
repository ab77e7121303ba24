"""The table of refusals by public name: arguments that a call refuses, and how it says so.

A row has the arguments that differ from the good ones of bad_calls.py, and a pattern of the
message. That each argument refuses values of wrong kinds is not in it: test_bad_values.py asks
that of all of them.
"""

from typing import Any

import numpy as np

import meanfield as mf
from tests.handmade import tokens

EYE = np.eye(3)
FIRST = np.eye(4)[0]
UNIFORM = mf.Uniform(2)
ON_CIRCLE = mf.Density(mf.Circle(16), UNIFORM)
ON_SPHERE = mf.Density(mf.Sphere(7), mf.Uniform(3))
WAVE = np.cos(mf.Circle(16).angles)
EAST = mf.Particles([[1.0, 0.0]])
NORTH = mf.Particles([[0.0, 0.0, 1.0]])
TOKENS = tokens(3, 4)
RNG = np.random.default_rng(0)
OSCILLATORS = mf.Oscillators([0.0, 1.0], [0.0, 1.0])
WAVES = mf.OscillatorDensity(mf.Circle(64), mf.FourierSeries(cos=[0.5]), [0.0, 1.0])
WIDE = mf.OscillatorDensity(mf.Circle(64), mf.FourierSeries(cos=[0.5]), [0.0], widths=[0.5])
HEAD = mf.Attention(1.0, [mf.Head(EYE)])
WIDE_HEAD = mf.Attention(1.0, [mf.Head(np.eye(4))])
ODD = mf.CircleInteraction([1.0, 0.5])
EIGHT = np.arange(8) * np.pi / 4
STEPS = mf.LayerMap(mf.SA(1.0), step=0.1)
REPELLING = mf.SA(1.0, sign=-1)
NOISY = mf.SA(1.0, noise=0.1)
UPWARDS = r"save_at must be strictly ascending and in \[0, "
RNG_RULE = r"rng must be an integer >= 0 or a numpy\.random\.Generator"
ATTRACTIVE = "dynamics must be attractive SA, USA or DoublyStochastic without noise"
# why a law is no measure
WRAP = (
    r"must be a Density, FlowMap or Particles, got Uniform\(dim=2\), a law: wrap it as "
    r"Density\(space, law\), FlowMap\(law\) or Particles.sample\(law, n, rng\)$"
)


def bumps(dim: int) -> mf.Mixture:
    """A law without an axis of symmetry."""
    return mf.Mixture([mf.VonMisesFisher(mean, 1.0) for mean in np.eye(dim)[:2]])


def moved(measure: Any, dynamics: Any, **options: Any) -> dict[str, Any]:
    """Arguments of `evolve`, all of them: many go with one kind of measure or dynamics only."""
    alone = {"save_at": 1, "rtol": 1e-6, "atol": 1e-9, "on_unresolved": "stop"}
    return alone | {"measure": measure, "dynamics": dynamics, "t_end": 1.0} | options


REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "Circle": [
        ({"n": 9}, "n must be even, got 9"),
        ({"n": 6}, "n must be an integer >= 8 and <= 1048576, got 6"),
        ({"n": 2**20 + 2}, "n must be an integer >= 8 and <= 1048576, got 1048578"),
    ],
    "Sphere": [
        ({"lmax": 2}, "lmax must be an integer >= 3 and <= 2047, got 2"),
        ({"lmax": 2048}, "lmax must be an integer >= 3 and <= 2047, got 2048"),
    ],
    "Zonal": [
        ({"dim": 1}, "dim must be an integer >= 2 and <= 1024, got 1"),
        ({"dim": 1025}, "dim must be an integer >= 2 and <= 1024, got 1025"),
        ({"kmax": 2}, "kmax must be an integer >= 3 and <= 4095, got 2"),
        ({"kmax": 4096}, "kmax must be an integer >= 3 and <= 4095, got 4096"),
        ({"dim": 1024, "kmax": 400}, "kmax = 400 is too large for dim = 1024"),
        ({"axis": [0.0, 1.0]}, r"axis must have length = 3, got shape \(2,\)"),
        ({"axis": [0.0, 1.0, 1.0]}, "axis must have norm 1 .*, got norm 1.4"),
        ({"axis": [[0.0, 0.0, 1.0]]}, "axis must be a non-empty array with 1 axes"),
    ],
    "Uniform": [({"dim": 1}, "dim must be an integer >= 2, got 1")],
    "Uniform.pdf": [
        ({"points": 0.3, "self": mf.Uniform(3)}, "points must be a non-empty array with 2 axes")
    ],
    "VonMisesFisher": [
        ({"mean": [3, 4]}, "mean .* norm 1 .*, got norm 5"),
        ({"mean": [1.0]}, r"mean must have length >= 2, got shape \(1,\)$"),
        ({"mean": [1.0, 1.0]}, r"mean must have norm 1 .*, got norm 1.41$"),
        ({"mean": EYE}, r"mean .* 1 axes, got shape \(3, 3\)"),
        ({"kappa": 1e7}, r"kappa .* <= 1e\+06, got 10000000.0"),
        ({"mean": 3.0, "kappa": [0.0, 1.0]}, r"kappa .* >= 0 and <= 1e\+06, got \[0.0, 1.0\]"),
    ],
    "VonMisesFisher.fit": [
        ({"points": [[1.0, 0.0]] * 2}, r"points must be spread so that kappa <= 1e\+06, got one"),
        ({"points": [[1.0, 0.0], [-1.0, 0.0]]}, "points must have a mean that is longer than its"),
        ({"points": EYE, "weights": [1.0]}, "weights must have length 3, got 1"),
    ],
    "Mixture": [
        ({"laws": []}, r"laws must be a non-empty sequence .*, got \[\]"),
        ({"laws": UNIFORM}, r"laws must be .*, got Uniform\(dim=2\)"),
        ({"laws": "abc"}, "laws must be a non-empty sequence of laws, got 'abc'"),
        ({"laws": [UNIFORM, 3]}, "laws .*, got 3 at index 1"),
        ({"laws": [UNIFORM, mf.Uniform(3)]}, "laws .* got dim = 2 at index 0 and dim = 3 at"),
        ({"weights": [1.0]}, "weights must have length 2, got 1"),
        ({"weights": [1, -1]}, "weights must be >= 0, got -1 at index 1"),
        ({"weights": [0, 0]}, "weights .* positive sum, got 0"),
        ({"weights": [0.5, 0.6]}, r"weights must have sum 1 .* got 1\.1"),
    ],
    "FourierSeries": [
        ({"cos": [1.5], "sin": []}, r"cos and sin .* has the minimum -0\.5 at θ = 3\.14159"),
        ({"cos": [0, 1e308]}, r"cos must be <= 1e\+100 in absolute value, got 1e\+308 at index 1"),
        ({"cos": [1e90], "sin": []}, r"minimum -1e\+90 at θ = 3\.14159"),
    ],
    "ZonalSeries": [
        ({"dim": 4, "coefficients": [1.1]}, r"dim = 4 has the minimum -0\.1 at t = <x, axis> = -1"),
        ({"coefficients": [0, 3]}, r"minimum -0\.5 at t = <x, axis> = .*e-\d+"),
        ({"dim": 1}, "dim must be an integer >= 2, got 1"),
        ({"axis": [0, 1]}, r"axis .* = 3, got shape \(2,\)"),
        ({"axis": [0, 0, 2]}, "axis .* norm 1 .* got norm 2"),
    ],
    "PointCloud": [
        ({"points": [[0, 2]]}, "points .* norm 1 .*, got norm 2 in row 0"),
        ({"points": EYE, "weights": [1]}, "weights must have length 3, got 1"),
        ({"bandwidth": 0}, "bandwidth .* > 0, got 0"),
        (
            {"points": EYE, "bandwidth": 1e-6},
            r"bandwidth must be >= 1\.\d+e-05 .* dim = 3 .*, got 1e-06",
        ),
    ],
    "PointCloud.from_histogram": [
        ({"counts": [1, -1]}, "counts must be >= 0, got -1 at index 1"),
        ({"counts": [1, 1], "edges": [0, 9, 10]}, "edges must be 3 ascending angles"),
        ({"bandwidth": "likelihood"}, "bandwidth must be a finite number > 0, got 'likelihood'"),
    ],
    "PointCloud.pdf": [
        ({"self": mf.PointCloud(EYE), "points": EYE}, "bandwidth must be .* > 0 .*, got None")
    ],
    "Tabulated": [
        ({"values": [1, -1, 1]}, r"values must be >= 0, got -1 at index 1, at 2"),
        ({"values": [1, 1]}, "values must have length 3, one for each of points"),
        (
            {"points": EIGHT, "values": 8.0 * (EIGHT == 0.0)},
            r"series of degree 4 has the minimum -1\.55342 at θ = 1\.11005: take values at more",
        ),
        (
            {"points": EIGHT, "values": np.full(8, 2.0)},
            "got 2: divide by it, or set unit_mass=True",
        ),
        ({"values": [0, 0, 0], "unit_mass": True}, "values must have a mass > 0, got 0"),
        (
            {"points": np.arange(0.0, 360.0), "values": np.ones(360), "degree": 5},
            "points must be angles in radians, within one turn, got 0 to 359",
        ),
        ({"points": np.eye(4), "values": np.ones(4)}, "points must be angles, or unit rows on the"),
        ({"axis": [0, 0, 1]}, r"points must be angles to the axis"),
        ({"points": EIGHT, "values": np.ones(8), "degree": 5}, "degree must be .* <= 4, got 5"),
    ],
    "Density": [
        ({"law_or_values": 1 + 1.5 * WAVE}, "values must be >= 0, got -0.5"),
        ({"law_or_values": np.zeros(24)}, "the density must have mass 1 within 1e-0"),
        ({"law_or_values": np.ones(16)}, r"values must have shape \(24,\), one "),
        ({"law_or_values": np.full(24, 2.0)}, r"1e-08 on Circle\(16\), got mass 2: divide"),
        ({"law_or_values": 2.0 * (np.arange(24) < 12)}, "series misses 0.12 of their L² norm"),
        (
            {"space": UNIFORM, "law_or_values": mf.Circle(16)},
            r"space must be a Circle, Sphere or Zonal, got Uniform\(dim=2\): take Density\(space, ",
        ),
        ({"law_or_values": mf.Uniform(3)}, r"law must have dim = 2 on Circle\(16\)"),
        (
            {"space": mf.Circle(8), "law_or_values": mf.VonMisesFisher(0.0, 500.0)},
            r"density must have mass 1 within 1e-08 on Circle\(8\), got mass .*take a larger space",
        ),
        (
            {"space": mf.Zonal(3, 31), "law_or_values": mf.VonMisesFisher(EYE[0], 1.0)},
            r"law must be axisymmetric about",
        ),
        (
            {"space": mf.Zonal(2, 31), "law_or_values": mf.FourierSeries(sin=[0.0, 0.3])},
            r"law must be axisymmetric about the axis of Zonal\(2, 31\)",
        ),
    ],
    "Density.pdf": [({"points": [[1.0, 1.0]]}, "points must have rows of norm 1")],
    "Density.moment": [({"z": [[800.0, 0.0]]}, r"z must have rows with log G\(z\) <= 709, got")],
    "Particles": [
        ({"points": [[1.0]]}, "points must have rows of length >= 2"),
        ({"points": [[1.0, 0.0], [1.000002, 0.0]]}, "points .* got norm 1.000002 in row 1"),
        ({"points": [0.0, 1.0, 2.0]}, r"got shape \(3,\): of angles take Particles.from_angles"),
        ({"points": UNIFORM}, r"points .* numbers, got dtype object, which is Uniform\(dim=2\)"),
        ({"points": EYE[:, :2]}, r"norm 0 in row 2: columns of .* \(3, 2\) have it, take points.T"),
        ({"weights": [1.0, 1.0]}, "weights must have length 1, got 2"),
        ({"weights": [-1]}, "weights must be >= 0, got -1 at index 0"),
        ({"weights": [0]}, "weights must have a positive sum, got 0"),
        ({"weights": [4]}, "weights must have sum 1 .*, got 4: divide"),
    ],
    "Particles.sample": [
        ({"n": 0}, "n must be an integer >= 1, got 0"),
        ({"rng": -1}, f"{RNG_RULE}, got -1"),
        (
            {"law": 10, "n": UNIFORM},
            r"law must have .*, got 10: take Particles.sample\(law, n, rng\)",
        ),
    ],
    "Particles.quantise": [
        ({"law": mf.Uniform(4)}, "law must be one on the circle or S"),
        ({"n": 0}, "n must be an integer >= 1"),
        ({"rng": -3}, RNG_RULE),
    ],
    "FlowMap": [
        ({"law_or_density": mf.SA(1.0)}, "law must have dim, pdf and sample, got SA"),
        (
            {"law_or_density": np.eye(30)},
            r"law must .* array .*: for tokens take mf.Particles\(X\)",
        ),
        ({"tol": 1.0}, "tol must be .* got 1.0"),
        ({"axis": [1.0, 0.0]}, r"axis must be None on the circle, got \[1"),
        ({"law_or_density": bumps(4)}, r"law must have an axis .* beyond S\^2, got Mixture"),
        (
            {"law_or_density": mf.VonMisesFisher(np.eye(5)[0], 1.0), "axis": np.eye(5)[1]},
            r"axis must be .* got \[0",
        ),
        ({"law_or_density": mf.PointCloud(EYE)}, "law must .* got PointCloud"),
    ],
    "OscillatorDensity": [
        ({"space": mf.Sphere(7)}, "space must be a Circle"),
        ({"frequencies": [0.0, 1.0]}, "laws_or_values must be one, or 2 as .*, got 1"),
        ({"laws_or_values": mf.Uniform(3)}, "law must have dim = 2"),
        ({"laws_or_values": [1.0]}, "values must have shape"),
        ({"widths": [-1.0]}, "widths must be 1 numbers >= 0"),
        ({"frequency_weights": [1.0, 1.0]}, "weights must have length 1, got 2"),
    ],
    "Oscillators": [({"angles": [0.0]}, "frequencies must have length 1")],
    "Oscillators.sample": [({}, "law must be drawn from by Particles")],
    "SA": [({"beta": -1.0}, "beta must be a finite number >= 0")],
    "USA": [({"beta": 701.0}, "beta of USA.* got 701")],
    "Head": [
        ({"Q": np.ones((2, 3)), "K": np.ones((1, 3))}, "Q and K must"),
        ({"Q": np.ones((2, 3)), "K": np.ones((2, 4))}, "Q and K must"),
        ({"Q": 1.0, "K": np.ones((2, 3))}, "Q and K must"),
        ({"V": np.ones((2, 3))}, r"V \(d, d\)"),
        ({"Q": EYE, "K": EYE, "V": np.eye(4)}, r"V \(d, d\)"),
        ({"Q": np.ones(3)}, "Q must be a non-empty array with 2 axes"),
        ({"Q": np.ones((1, 1))}, "d >= 2"),
    ],
    "Head.random": [
        ({"ensemble": "x"}, "ensemble must be one of .* got 'x'"),
        ({"dim": 1}, "dim must be"),
    ],
    "Attention": [
        ({"heads": []}, "heads must be a sequence of at least one Head"),
        ({"heads": [EYE]}, "heads must be a sequence of at least one Head"),
        ({"heads": [mf.Head(EYE), mf.Head(np.eye(4))]}, r"must be of one dimension, got \[3, 4\]"),
        ({"beta": -1.0}, "beta must be a finite number >= 0"),
        ({"noise": -1}, "noise must be a finite number >= 0"),
        (
            {"beta": 300.0, "heads": [mf.Head(3.0 * EYE)], "normalised": False},
            r"beta \|KᵀQ\| \+ log Σ \|V\| must be <= 700 without normalised, got 900",
        ),
    ],
    "FeedForward": [
        ({"W": np.ones((3, 2)), "A": np.ones((3, 2))}, r"W must be \(d, m\)"),
        ({"W": EYE, "A": EYE, "b": np.ones(2)}, r"b \(m,\)"),
        ({"activation": "sin"}, "activation must be one"),
    ],
    "Schedule": [
        ({"times": [0.0]}, "times must be at least two and strictly ascending"),
        ({"times": [1.0, 0.0]}, "times must be at least two and strictly ascending"),
        ({"values": [1.0, 2.0, 3.0]}, "values must be numbers, vectors or matrices, one for each"),
        ({"values": np.ones((2, 1, 1, 1))}, "values must be numbers, vectors or matrices"),
    ],
    "Schedule.derivative": [({"t": 2.0}, r"t must be in \[0, 1\], the times of Schedule")],
    "Layers": [
        ({"layers": []}, "layers must hold at least one layer"),
        ({"layers": [NOISY]}, "layers must be dynamics but Layers"),
        ({"layers": [mf.Layers([HEAD])]}, "layers must be dynamics but Layers"),
        ({"layers": [HEAD, WIDE_HEAD]}, "layers must be of one dimension"),
        ({"step": 0.0}, "step must be a finite number > 0"),
    ],
    "Layers.random": [
        ({"ensemble": "goe"}, "ensemble must be one of .*'values'"),
        ({"beta": 1e101}, "beta must be a finite number >= 0 and <= 1e[+]100, got 1e[+]101"),
        ({"dim": 1}, "dim must be an integer >= 2, got 1"),
        ({"n_layers": 0}, "n_layers must be an integer >= 1 and <= 1000000, got 0"),
        ({"step": 0.0}, "step must be a finite number > 0, got 0"),
        ({"rng": 2**63}, "rng must be an integer >= 0 and <= 9223372036854775807, got 9223"),
        ({"scale": np.nan}, "scale must be a finite number"),
        ({"rng": 0.5}, "rng must be an integer >= 0 or a numpy.random.Generator, got 0.5"),
    ],
    "LayerMap": [
        (
            {"dynamics": mf.Layers.random("values", beta=1.0, dim=2, n_layers=3, step=0.1, rng=0)}
            | {"step": 0.2},
            "step must be that of the random layers, 0.1, .* got 0.2",
        ),
    ],
    "Alignment": [
        ({"exponent": -1.0}, "exponent must be a finite number >= 0 and <= 100, got -1"),
        ({"exponent": 101.0}, "exponent must be a finite number >= 0 and <= 100, got 101"),
    ],
    "Alignment.velocity": [
        ({"measure": mf.Particles([[1.0, 0.0], [-1.0, 0.0]])}, "measure must have a mean directi"),
    ],
    "Causal": [({"decay": -1.0}, "decay must be a finite number >= 0, got -1")],
    "CircleInteraction": [
        ({"sin": [], "cos": []}, "sin and cos must hold at least one"),
        ({"sin": [[1.0]]}, "sin must be a non-empty array with 1"),
    ],
    "Kuramoto": [({"noise": -1.0}, "noise must be a finite number >= 0, got -1")],
    "SA.velocity": [({"at": [[2.0, 0.0]]}, "at must have rows of norm 1")],
    "Kuramoto.velocity": [
        ({"measure": ON_SPHERE, "at": EYE}, "dim = 2, that of Kuramoto.*, got one of dim 3"),
    ],
    "Attention.velocity": [
        (
            {"self": HEAD, "measure": tokens(4, 3), "at": np.eye(4)},
            "dim = 3, that of .*, got one of dim 4",
        )
    ],
    "evolve": [
        ({"t_end": 0}, "t_end must be a finite number > 0, got 0"),
        ({"measure": UNIFORM}, f"measure {WRAP}"),
        ({"dynamics": "SA"}, "dynamics must be SA, USA, Dou"),
        ({"measure": EYE}, r"measure must be .*: wrap unit rows X as mf.Particles\(X\)"),
        (
            {"monitors": [mf.clusters]},
            r'monitors must map names .* {"name": monitor}, got \[<function clu',
        ),
        ({"t_end": 0.6, "save_at": [0.2, 0.6000001]}, r"in \[0, t_end = 0.6\], got 0.6000001"),
        (moved(WAVES, mf.SA(1.0)), "dynamics must be a CircleInter"),
        (moved(WAVES, mf.Kuramoto(1.0), energy=1.0), "energy must be None where phases have freq"),
        ({"energy": HEAD}, "energy must be beta >= 0 or a dynamics that has one"),
        ({"energy": -1}, "energy, if it is no dynamics, must be a finite number >= 0, got -1"),
        (moved(WIDE, mf.CircleInteraction([1.0, 0.5])), "widths must be 0 under an interac"),
        (moved(WAVES, mf.Kuramoto(1.0), on_unresolved="flow-map"), "'stop' for OscillatorDensity"),
        (
            moved(OSCILLATORS, mf.LayerMap(mf.Kuramoto(1.0), step=0.1)),
            "measure must be Particles under LayerMap",
        ),
        (moved(OSCILLATORS, mf.Kuramoto(1.0, noise=0.1)), "rng, which noise"),
        (moved(ON_SPHERE, ODD), "measure must have dim = "),
        (moved(mf.FlowMap(mf.Uniform(3)), ODD), "measure must have dim = 2, that of"),
        (moved(mf.Particles(EYE), ODD), "dim = 2, .* got one of dim 3"),
        (moved(mf.Density(mf.Zonal(2, 15), UNIFORM), ODD), "space must be a Circle for Circl"),
        (moved(mf.Particles(np.eye(2), sums="gram"), ODD), "'auto', 'direct' or 'transforms'"),
        (moved(mf.FlowMap(UNIFORM), mf.Kuramoto(1.0, noise=0.1)), "noise must be 0 to evolve Flo"),
        (
            moved(mf.FlowMap(UNIFORM), mf.Layers([mf.DoublyStochastic(1.0)])),
            "layers must be no DoublyStochastic for a flow map",
        ),
        (moved(mf.FlowMap(UNIFORM), NOISY), "noise must be 0 to evolve"),
        (moved(ON_SPHERE, STEPS), "measure must be Particles under LayerMap"),
        (moved(TOKENS, mf.SA(1.0), max_step=-1.0), "max_step must be a finite number > 0"),
        (moved(TOKENS, NOISY), "rng, which noise needs, must be"),
        (moved(TOKENS, NOISY, rng="3"), "rng must be an integer >= 0"),
        (
            moved(TOKENS, mf.Attention(1.0, [mf.Head(EYE)], noise=0.1), rng=RNG),
            "max_step must be given",
        ),
        (moved(TOKENS, mf.LayerMap(HEAD, step=0.3)), "t_end must be a whole number of steps"),
        (
            moved(TOKENS, mf.LayerMap(mf.Layers([HEAD, HEAD], step=0.5), step=0.2)),
            "t_end must be <= 0.4, the depth of Layers",
        ),
        (moved(TOKENS, mf.Layers([HEAD], step=0.5)), "t_end must be <= 0.5, the depth of"),
        (moved(tokens(5, 4), HEAD), "measure must have dim = .*, that of .*, got one of dim 5"),
    ],
    "DistanceTo": [
        ({"to": "north"}, r"to must be one of \('uniform', 'centre', 'start'\), a law or a meas"),
        ({"p": 0.5}, "p must be a finite number >= 1 and <= 20, got 0.5"),
        ({"p": 1000}, "p must be a finite number >= 1 and <= 20, got 1000"),
        ({"every": 0}, "every must be an integer >= 1, got 0"),
        ({"distance": "mmd"}, "beta must be a finite number >= 0 for distance = 'mmd', got None"),
        ({"distance": mf.mmd}, "distance must be one of .*'wasserstein', 'mmd', 'sobolev'"),
        ({"gap": 0}, "gap must be a finite number >= 1e-06 and <= 1, got 0"),
        ({"distance": "sobolev", "gap": 0.1}, "gap must be left out for distance = 'sobolev'"),
        ({"distance": "sobolev", "p": 2}, "p must be left out for .* of 'wasserstein', got 2"),
        ({"beta": 2.0}, "beta must be left out for distance = 'wasserstein'.* 'mmd'"),
        ({"distance": "mmd", "beta": 2.0, "s": -1}, "s must be left out for distance = 'mmd'"),
    ],
    "load": [({"path": "none.nc"}, "there is no file none.nc")],
    "clusters": [
        ({"radius": 0.0}, "radius must be .* got 0"),
        ({"radius": 2.0}, "radius must be .* got 2"),
        ({"measure": UNIFORM}, f"measure {WRAP}"),
    ],
    "mean_cosine": [
        ({"measure": ON_SPHERE}, "measure must be Particles, got"),
        ({"measure": EAST}, "measure must be at least 2 tokens with mass, got"),
    ],
    "order_parameter": [({"measure": ON_SPHERE}, "measure must have dim = 2, that of the")],
    "energy": [
        ({"measure": EAST, "dynamics": 800.0}, r"energy fits float64, got SA\(beta=800"),
        ({"measure": ON_SPHERE, "dynamics": ODD}, "measure must have dim = "),
        ({"measure": UNIFORM}, f"measure {WRAP}"),
    ],
    "dissipation": [
        ({"measure": ON_SPHERE, "dynamics": ODD}, "dim = 2, that of CircleInteraction"),
        ({"measure": UNIFORM}, f"measure {WRAP}"),
    ],
    "metric_speed": [({"measure": UNIFORM}, f"measure {WRAP}")],
    "rms_velocity": [({"measure": UNIFORM}, f"measure {WRAP}")],
    "plot.density": [({"measure": UNIFORM}, f"measure {WRAP}")],
    "wasserstein": [({"nu": UNIFORM}, f"nu {WRAP}")],
    "mmd": [
        ({"mu": UNIFORM}, f"mu {WRAP}"),
        ({"mu": NORTH}, "nu must have dim = 3"),
        ({"mu": NORTH, "nu": ON_SPHERE, "beta": 1e4}, "beta = 10000 makes the mmd overflow"),
        (
            {
                "mu": mf.Density(mf.Zonal(4, 3, FIRST), mf.ZonalSeries(4, [0.1], FIRST)),
                "nu": mf.Density(mf.Zonal(4, 3), mf.ZonalSeries(4, [0.1])),
            },
            "mu and nu must share an axis in d = 4",
        ),
    ],
    "sobolev": [
        ({"mu": NORTH, "nu": ON_SPHERE, "s": -1}, r"s must be < -\(d-1\)/2 = -1 .* got s = -1"),
        (
            {
                "mu": mf.FlowMap(mf.VonMisesFisher([0.0, 0.0, 1.0], 1e6)),
                "nu": mf.Density(mf.Zonal(3, 3), mf.Uniform(3)),
                "s": 0,
            },
            "s = 0 takes degrees beyond 2047",
        ),
    ],
    "transport_plan": [
        ({"mu": EAST, "nu": ON_CIRCLE}, "nu must be Particles to have a plan, got Density"),
        ({"mu": EAST, "nu": NORTH}, "nu must have dim"),
        ({"p": 0.5}, "p must be"),
        ({"p": 101}, "p must be"),
    ],
    "transport_map": [
        ({"mu": EAST, "nu": ON_CIRCLE}, "mu must have a density to have an optimal map"),
        ({"mu": ON_SPHERE, "nu": ON_SPHERE, "at": EYE}, "symmetric about one axis"),
        ({"at": [[1.0, 1.0]]}, "at must"),
    ],
    "sliced_wasserstein": [
        ({"mu": EAST, "nu": EAST}, "dim >= 3"),
        ({"planes": 1}, "planes must be an integer >= 2, got 1"),
        ({"p": 0.5}, "p must be"),
        ({"p": 101}, "p must be"),
    ],
    "evolve_free": [
        ({"points": [[1.0, 0.0]]}, "points must be at least 2 tokens"),
        ({"beta": -1.0}, "beta must be a finite number >= 0"),
        ({"t_end": 0.0}, "t_end must be a finite number > 0"),
        ({"attention": "linear"}, "attention must be one of"),
        ({"tie": "both"}, "tie must be one of"),
        ({"Q": np.ones((2, 4))}, "Q must have d = 3 columns"),
        ({"Q": np.ones((4, 3))}, r"Q and K must be \(m, 3\)"),
        ({"V": np.ones((4, 3))}, r"V \(3, 3\)"),
    ],
    "studies.limits_without_normalisation": [
        ({"n": 3}, "n must be an integer >= 4"),
        ({"beta": 0.0}, "beta must be a finite number > 0"),
        ({"t_end": -1.0}, "t_end must be a finite number > 0"),
    ],
    "studies.mean_field_limit": [
        ({"law": bumps(4), "distances": ["mmd"]}, "law must be symmetric about an axis in dim = 4"),
        ({"dynamics": mf.Attention(1.0, [mf.Head()])}, "dynamics must be SA or USA"),
        ({"dynamics": NOISY}, "dynamics must be .* without noise"),
        ({"n": [1, 2]}, "n must be an integer >= 2, got 1"),
        ({"n": []}, r"n must be one or a sequence of at least one, got \[\]"),
        ({"n": [20, 10]}, "n must ascend"),
        ({"workers": 0}, "workers must be an integer >= 1, got 0"),
        ({"repeats": 0}, "repeats must be an integer >= 1"),
        ({"distances": ["w3"]}, "distances must be among"),
        ({"law": bumps(3), "distances": ["w1"]}, r"distances must be among \('mmd', 'sob"),
        ({"start": "grid"}, "start must be one of"),
        ({"t_end": 0.0}, "t_end must be a finite number > 0"),
        ({"rtol": 1.0}, "rtol must be a finite number"),
    ],
    "studies.causal_limit": [
        ({"law": bumps(4)}, "law must be symmetric about an axis in dim = 4"),
        ({"dynamics": mf.SA(1.0)}, "dynamics must have a mask, or be a Sum of which a term has"),
        ({"dynamics": mf.SA(1.0, noise=0.1, mask=mf.Causal())}, "dynamics must be without noise"),
        ({"n": [1, 2]}, "n must be an integer >= 2, got 1"),
        ({"n": [20, 10]}, "n must ascend"),
        ({"repeats": 0}, "repeats must be an integer >= 1"),
        ({"t_end": 0.0}, "t_end must be a finite number > 0"),
        ({"rtol": 1.0}, "rtol must be a finite number"),
        ({"workers": 0}, "workers must be an integer >= 1, got 0"),
    ],
    "studies.metastability": [
        ({"dynamics": mf.SA(0.0)}, "dynamics must have"),
        ({"dynamics": REPELLING}, "dynamics must be attractive"),
        ({"dynamics": []}, r"dynamics must be .* got \[\]"),
        ({"law": mf.Uniform(3)}, "law must be one on the"),
        ({"dynamics": mf.SA(50.0), "amplitude": 0.1, "law": None}, "amplitude must be smaller"),
        ({"amplitude": -1.0}, "amplitude must be .* got -1.0"),
        ({"executor": "x"}, "executor must be .* got 'x'"),
        ({"save_at": 2}, "save_at must be .* got 2"),
        ({"t_end": 0.005}, "t_end must be .* got 0.005"),
    ],
    "studies.phase_diagram": [
        ({"dim": 1}, "dim must be an integer >= 2, got 1"),
        ({"n": 1}, "n must be an integer >= 2, got 1"),
        ({"dynamics": []}, r"dynamics must be one or a sequence of at least one, got \[\]"),
        ({"dynamics": [mf.SA(2.0), mf.SA(1.0)]}, "dynamics' beta must be strictly ascending"),
        ({"dynamics": [mf.SA(1.0)] * 2}, "dynamics' beta must be strictly ascending"),
        ({"dynamics": [mf.SA(1.0), mf.USA(2.0)]}, r"dynamics must be of one class, got \[SA"),
        ({"dynamics": [1.0]}, "dynamics must be SA, USA or Attention .* got 1.0"),
        ({"dynamics": mf.SA}, "dynamics must be SA, USA or Attention .* got <class"),
        ({"dynamics": WIDE_HEAD}, "dim must be that of Attention.*, got 3"),
        ({"dynamics": mf.USA(301.0)}, "dynamics must have beta <= 300 for USA, got 301"),
        ({"dynamics": NOISY}, "without noise, got SA"),
        ({"t_end": 0.0}, "t_end must be a finite number > 0, got 0"),
        ({"repeats": 0}, "repeats must be an integer >= 1, got 0"),
        ({"delta": 0.0}, r"delta must be in \[1e-9, 1\), got 0"),
        ({"delta": 1.0}, "delta must be in .* got 1"),
        ({"rtol": 0.0}, "rtol must be .* got 0"),
        ({"rtol": 1.0}, "rtol must be .* got 1"),
        ({"save_at": 0}, "save_at must be an integer >= 1, got 0"),
        ({"t_end": 1.0, "save_at": [0.5, 2.0]}, rf"{UPWARDS}1\], got"),
    ],
    "studies.proposition_3_4": [
        ({"beta": -1.0}, "beta must be a finite number >= 0 and <= 1000, got -1.0"),
        ({"beta": 1e4}, "beta must be .* got 10000.0"),
        ({"beta": (2.0, 1.0)}, "beta must be a finite number > 2 .* got 1.0"),
        ({"beta": (0.0, 1.0)}, "beta must be a finite number > 0 .* got 0.0"),
        ({"beta": (1.0, 2.0, 3.0)}, r"beta must be one number or two, .* got \(1.0, 2.0, 3.0\)"),
        ({"beta": None}, "beta must be .* got None"),
        ({"dim": 1}, "dim must be an integer >= 2 and <= 1024, got 1"),
        ({"dim": 2000}, "dim must be .* got 2000"),
        ({"kmax": 0}, "kmax must be .* got 0"),
        ({"n_measures": 0}, "n_measures must be .* got 0"),
        ({"repeats": 0}, "repeats must be .* got 0"),
        ({"parts": ["proof"]}, r"parts must be among .* got \['proof'\]"),
        ({"parts": []}, r"parts must be among .* got \[\]"),
        ({"beta": None, "potential": [1.0], "parts": ["flows"]}, "potential must not be constant"),
        (
            {"beta": None, "potential": [0.0, 1.0], "parts": ["flows"]},
            r"parts must have .* got .'flows'",
        ),
        ({"beta": None, "potential": lambda t: 1 / t}, r"t in \[-1, 1\], must be finite"),
        ({"beta": None, "potential": np.abs}, "potential must have no degrees beyond kmax = 4"),
        ({"beta": None, "potential": [0.0, 1e101]}, r"its largest value in .* 1e\+101"),
        ({"beta": None, "potential": lambda t: t[:3]}, "potential must give an array, a number"),
        ({"beta": None, "potential": lambda t: t.tolist()}, "potential must give an array, a num"),
        ({"potential": [0.0, 1.0]}, "beta must be None with a potential, .* got 1.0"),
        (
            {"beta": None, "potential": [0.0] * 257 + [1.0], "kmax": 256},
            "have at most 257 .* got 258",
        ),
        ({"beta": None, "potential": lambda t: 1.0 + 1e-14 * t}, "potential must not be constant"),
        ({"beta": None, "potential": lambda t: t + 1j}, r"\(t\), t in .* must be an array of real"),
    ],
    "studies.stationary_density": [
        ({"dynamics": mf.USA(1.0)}, "noise > 0, got USA"),
        ({"dynamics": mf.USA(1.0, noise=9.0), "dim": 3}, "noise must be < 0.3678.* got 9"),
        ({"dynamics": mf.USA(3.0, noise=1.34)}, "noise must be < 1.3328.* 1.34"),
        (
            {"dynamics": mf.USA(4.0, noise=0.6), "dim": 4, "degree": 2, "direction": -1},
            "noise must be < 0.4.* got 0.6",
        ),
        ({"dynamics": mf.SA(1.0, sign=-1, noise=1.0)}, "attractive .* got SA"),
        ({"degree": 99}, "degree must be .* got 99"),
        ({"direction": 2}, r"direction must be \+1 or -1, got 2"),
        ({"axis": [1.0]}, "axis"),
    ],
    "studies.stationary_states": [
        ({"dim": 1}, "dim must be .* got 1"),
        ({"dynamics": []}, r"dynamics must be one or a sequence .* got \[\]"),
        ({"dynamics": 1.0}, "dynamics must be .*SA or USA .*, got 1.0"),
        ({"dynamics": [mf.SA(1.0), mf.USA(1.0)]}, "all SA or all USA, got .SA"),
        ({"dynamics": mf.USA(1.0, sign=-1)}, "attractive .* got USA"),
        ({"dynamics": NOISY}, "without noise, got SA"),
        ({"kmax": 0}, "kmax must be .* got 0"),
        ({"dynamics": mf.USA(0.0), "kmax": 2}, "kmax must be <= 1, .* got 2"),
        ({"dynamics": mf.USA(1.0), "until": 1.0}, "until must be in .* got 1$"),
    ],
    "studies.two_token_correlation": [
        ({"beta": 301.0}, "beta must be .* got 301.0"),
        ({"n": 1}, "n must be an integer >= 2, got 1"),
        ({"t_end": 0.0}, "t_end must be .* > 0, got 0.0"),
        ({"repeats": 1}, "repeats must be .* >= 2, got 1"),
        ({"kmax": 0}, "kmax must be .* got 0"),
        ({"kmax": 257}, "kmax must be .* <= 256, got 257"),
        ({"save_at": 0}, "save_at must be .* got 0"),
        ({"t_end": 1, "save_at": [0.5, 0.2]}, rf"{UPWARDS}1\], got \[0.5 0.2\]"),
        ({"t_end": 1, "save_at": [0.5, 2.0]}, r"save_at must be .* got \[0.5 2. \]"),
        ({"save_at": [-0.5, 0.5]}, r"save_at must be .* got \[-0.5  0.5\]"),
    ],
    "lorentzian_frequencies": [({"width": 0.0}, "width must be a finite number > 0")],
    "gaussian_frequencies": [({"n": 181}, "n must be an integer >= 1 and <= 180")],
    "theory.critical_noise": [
        ({"degree": 0}, "degree must be an integer >= 1, got 0"),
        ({"dynamics": mf.USA(1.0, sign=-1)}, "attractive SA, USA or DoublyStochastic, got .*=-1"),
        ({"dynamics": ODD, "dim": 2}, "dynamics must be attractive SA, USA or D"),
    ],
    "theory.dobrushin_constant": [
        ({"dynamics": STEPS}, "must be SA or USA without noise, got LayerMap"),
        ({"dynamics": ODD}, "dynamics must be SA or USA witho"),
    ],
    "theory.energy_dirac": [
        ({"dynamics": 1e4}, "beta must be 0 or from 1e-307 to 709 .* got 10000"),
        ({"dynamics": mf.SA}, "must be a number or a dynamics, got <class"),
    ],
    "theory.energy_uniform": [
        ({"dim": 1}, "dim must be an integer >= 2, got 1"),
        ({"dynamics": 800.0}, "beta must be 0 or from 1e-307 to 709 .* got 800"),
    ],
    "theory.growth_rates": [
        ({"dim": 1}, "dim must be an integer >= 2, got 1"),
        ({"dim": 1, "dynamics": mf.SA(0.0)}, "dim must be an integer >= 2, got 1"),
        ({"kmax": -1}, "kmax must be an integer >= 0 .* got -1"),
        ({"dynamics": ODD}, "measure must have dim = 2, that of"),
        ({"dynamics": 4.0}, "dynamics must have a kernel, as SA, USA, DoublyStochastic, Int"),
    ],
    "theory.kuramoto_critical_coupling": [
        ({"density_at_centre": 0.0}, "density_at_centre must be a fin")
    ],
    "theory.lorentzian_critical_coupling": [({"noise": -1.0}, "noise must be a finite")],
    "theory.orthogonal_arrival": [
        ({"n": 1}, "n must be an integer >= 2"),
        ({"delta": 1.0}, "delta must be in .* got 1"),
        ({"delta": 0.0}, "delta must be in .* got 0"),
        ({"dynamics": REPELLING}, ATTRACTIVE),
    ],
    "theory.orthogonal_tokens": [
        ({"n": 1}, "n must be an integer >= 2, got 1"),
        *(
            ({"dynamics": dynamics}, rf"{ATTRACTIVE}, got {type(dynamics).__name__}")
            for dynamics in (REPELLING, NOISY, STEPS, ODD)
        ),
    ],
    "theory.ott_antonsen": [
        ({"start": 1.5}, "start must be a finite number >= 0"),
        ({"t": [-1.0]}, "t must be >= 0, got -1"),
    ],
    "theory.transition_beta": [({"dim": 1}, "dim must be .* got 1")],
    "theory.wendel": [
        ({"n": 0}, "n must be an integer >= 1, got 0"),
        ({"dim": 1}, "dim must be an integer >= 2, got 1"),
    ],
}
