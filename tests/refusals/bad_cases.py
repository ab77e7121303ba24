"""The table of wrong case files, by their sections, and of wrong files of points.

test_bad_input.py gives each of them to `meanfield run`, which must say in one line what is wrong.
"""

from collections.abc import Iterator

CIRCLE = '{type = "Circle", n = 32}'
ZONAL = 'type = "Zonal"\nkmax = 15'
SPHERE = 'type = "Sphere"\nlmax = 7'
FOURIER = 'type = "FourierSeries"\n'
MIXTURE = 'type = "Mixture"\nlaws = '
TOKENS = 'type = "PointCloud"\npoints = "tokens-s2"\nbandwidth = '
HEADS = 'type = "Attention"\nbeta = 2\nheads = '
DRAWN = 'type = "RandomLayers"\nensemble = "values"\nbeta = 1\ndim = 2\nstep = 0.1\nrng = 0\n'
LAYERS = 'type = "Layers"\nstep = 0.5\nlayers = '
PASSES = 'type = "LayerMap"\nstep = 0.25\ndynamics = '
NEURONS = 'type = "FeedForward", W = '
BUMP = 'type = "VonMisesFisher"\n'
# a right case, from which those below differ in a section or some
BASE = {
    "law": f"{FOURIER}cos = [0.5]",
    "measure": 'type = "Density"',
    "measure.space": 'type = "Circle"\nn = 32',
    "dynamics": "beta = 1.0",
    "run": "t_end = 0.1\nsave_at = 2",
}

# section: its wrong texts, and what the line must say behind the section's name and a dot
Sections = dict[str, dict[str, str]]
# one key is enough to see it: the JSON schema of cases refuses it, too
SECTIONS: Sections = {
    "": {
        "plot = {style = 1}": "plot is an unknown key: the keys here are law, meas",
        'space = {type = "Circle"}': (
            "space is an unknown key: the keys here are law, measure, dynamics, run, output, "
            "monitors; did you mean measure.space?"
        ),
        "\n".join(f'monitors.m{i}.to = "start"' for i in range(257)): (
            "monitors must have at most 256 entries, got 257"
        ),
    },
    "dynamics": {
        "beta = -1.0": "beta must be a finite number >= 0",
        "beta = 1e999": "beta must be a finite number, got inf",
        'beta = "4"': "beta must be a valid number, got '4'",
        "beta = true": "beta must be a valid number, got True",
        "beta = {times = [0, 1], values = [1, 2]}": ("beta.type is missing: it must be 'Schedule'"),
        'type = "SA"': "beta is missing: it must be the inve",
        "beta = 1\nsign = 0": "sign must be +1 or -1, got 0",
        "beta = 1\nsign = 0.5": "sign must be a valid integer",
        "beta = 1\nnoise = -0.1": "noise must be a finite number >= 0",
        'type = "GPT"\nbeta = 1': "type must be one of SA, U",
        f"{HEADS}[{{W = 1}}]": "heads[0].W is an unknown key",
        f'{HEADS}[{{V = "a"}}]': "heads[0].V must be a number or a list",
        f"{HEADS}[{{V = []}}]": "heads[0].V must be a number or a list of equal",
        f"{HEADS}[{{V = 1}}]\nsign = 1": "sign is an unknown key: the keys",
        'type = "Attention"\nbeta = 2': "heads is missing: it must be a list of tables",
        'type = "SA"\nbeta = 1\nheads = []': "heads is an unknown key: the keys",
        f"{LAYERS}[{{beta = -1.5}}]": "layers[0].beta must be a finite number >= 0 and <=",
        f"{LAYERS}[{{bta = 1.5}}]": "layers[0].bta is an unknown key: the keys here are",
        f"{LAYERS}[{{noise = 0.1}}]": "layers[0].beta is missing: it must be the inverse",
        f'{LAYERS}[{{{NEURONS}[[0]], A = [[1]], activation = "elu"}}]': (
            "layers[0].activation must be 'relu', 'gelu' or 'tanh', got"
        ),
        f"{LAYERS}[{{{NEURONS}[0, [1]], A = [[1]]}}]": "layers[0].W[0] must be a valid list, got 0",
        f'{LAYERS}[{{type = "Attention", beta = 2, heads = [{{V = "x"}}]}}]': (
            "layers[0].heads[0].V must be a number or a list"
        ),
        f'{LAYERS}[{{type = "Layers"}}]': "layers[0].type must be one of SA, USA, Do",
        'type = "Layers"\nstep = 0\nlayers = [{beta = 1}]': "step must be a finite number > 0",
        f"{LAYERS}[{{beta = 1}}]\nbeta = 1": "beta is an unknown key: the keys here are type",
        f"{DRAWN}n_layers = 0": "n_layers must be an integer >= 1 and <= 1000000, got 0",
        f"{DRAWN}n_layers = 2.5": "n_layers must be a valid integer, got 2.5",
        f'{PASSES}{{type = "LayerMap"}}': "dynamics.type must be one of SA",
    },
    "measure": {
        'type = "FlowMap"\nmax_nodes = 10000001': (
            "max_nodes must be an integer >= 1 and <= 10000000, got 10000001"
        ),
        'type = "Particles"\nn = 0': "n must be greater than or equal to 1, got 0",
        'type = "Tabulated"': "type must be one of Density, FlowMap, Particles, got 'Tabulated'",
        'type = "flow-map"': (
            "type must be one of Density, FlowMap, Particles, got 'flow-map'; did you mean FlowMap?"
        ),
        f'type = "Density"\ntail_tol = 1\nspace = {CIRCLE}': "tail_tol must be a fin",
        'type = "Density"\nspace = "Circle"': "space must be a table, got 'Circle'",
        'type = "Density"': "space is missing: it must be a table, the space at t = 0",
    },
    "measure.space": {
        'type = "Circle"\nn = 33': "n must be even, got 33",
        'type = "Circle"\nn = 4': "n must be an integer >= 8",
        f'type = "Circle"\nn = 1{"0" * 30}': "n must be an integer >= 8",
        'type = "Circle"\nn = 32.5': "n must be a valid integer",
        'type = "Circle"': "n is missing: it",
        'type = "Sphere"\nlmax = 0': "lmax must be an integer >= 3",
        'type = "Sphere"\nlmax = 7\nn = 3': "n is an unknown key: the keys he",
        'type = "Zonal"\nkmax = 0\ndim = 4': "kmax must be an integer",
        'type = "Zonal"\nkmax = -5\ndim = 4': "kmax must be an int",
        f"{ZONAL}\ndim = 1": "dim must be an integer >= 2",
        'type = "torus"': "type must be one of Circle, Sphere, Zon",
        "n = 32": "type is missing: it must be one of Circle, Sphere, Zonal",
    },
    "law": {
        'type = "cauchy"': "type must be one of Uniform, VonMisesFisher",
        'type = "von-mises-fisher"\nmean = [0, 1]\nkappa = 1.0': (
            "type must be one of Uniform, VonMisesFisher, FourierSeries, ZonalSeries, PointCloud, "
            "Tabulated, Mixture, got 'von-mises-fisher'; did you mean VonMisesFisher?"
        ),
        "dim = 2": "type is missing: it must be one of Uniform",
        f"{FOURIER}sin = [{'0.0, ' * 4097}]": "sin must have at most 4096 entries, got 4097",
        f"{FOURIER}cos = 0.5": "cos must be a valid list, got 0.5",
        f"{BUMP}mean = [0, 1]\nkappa = -1": "kappa must be a finite nu",
        f"{BUMP}mean = [0, 1]": "kappa is missing: it must be the conc",
        f"{BUMP}mean = []\nkappa = 1": "mean must be a non-empty array",
        f"{BUMP}mean = [[0, 1]]\nkappa = 1": "mean must be an angle or a list of numbers, got [[0,",
        f'{MIXTURE}[{{type = "Uniform"}}]\nweights = [-1.0]': "weights must be >= 0, got -1",
        f"{MIXTURE}[]": "laws must be a non-empty sequence",
        f'{MIXTURE}[{{type = "Uniform"}}, {{type = "Uniform", kappa = 1}}]': (
            "laws[1].kappa is an unknown key: the keys here are type, dim"
        ),
        f'{MIXTURE}[{{type = "VonMisesFisher", mean = [0, 1], kappa = -2}}]': (
            "laws[0].kappa must be a finite number >= 0"
        ),
        f'{MIXTURE}[{{type = "delta"}}]': "laws[0].type must be one of Uniform",
        f"{MIXTURE}[1]": "laws[0] must be a table, got 1",
        f"{TOKENS}0": "bandwidth must be a finite numbe",
        'type = "PointCloud"\npoints = 3': "points must be the name of a CSV, NPY or NPZ file or a",
        'type = "Uniform"\ndim = 0': "dim must be an integer >= 2",
        'type = "Uniform"\ndim = 4097': "dim must be an integer >= 2 and <= 4096, got 4097",
        'type = "ZonalSeries"\ndim = 4': "coefficients is missing: it must be the list a_1, a_2, …",
    },
    "run": {
        "t_end = 0": "t_end must be a finite number > 0, got 0",
        "t_end = 2026-11-20": "t_end must be a valid number",
        "save_at = 2": "t_end is missing: it must be the final time",
        "t_end = 1\nsave_at = 0": "save_at must be an integer >= 1",
        "t_end = 1\nsave_at = 10000001": "save_at must be an integer >= 1 and <= 10000000, got 100",
        "t_end = 1\nsave_at = 2.5": "save_at must be an integer >= 1",
        't_end = 1\nsave_at = "2"': "save_at must be an integer >= 1",
        "t_end = 1\nsave_at = []": "save_at must be a non-empty",
        "t_end = 1\nrng = -1": "rng must be greater than or equal to 0",
        "t_end = 1\nrtol = -1e-9": "rtol must be a finite number >= 3e-14",
        "t_end = 1\nrtol = 0.5": "rtol must be a finite number >= 3e-14",
        "t_end = 1\natol = 0": "atol must be a finite number > 0, got 0",
        "t_end = 1\nenergy = -1": "energy must be a finite number >= 0 and <= 100000, got -1.0",
        't_end = 1\nenergy = "SA"': "energy must be a number beta or a table, a dynamics, got 'SA'",
        't_end = 1\nenergy = {type = "SA"}': "energy.beta is missing: it must be the inverse temp",
        't_end = 1\nenergy = {type = "Layers"}': "energy.type must be one of SA, USA, DoublySto",
        't_end = 1\nenergy = {type = "Kuramoto", coupling = "a"}': "energy.coupling must be",
        "t_end = 1\nstride = 0.1": "stride is an unknown key: the keys here are t_end, save_at, ",
        '"a\\nb" = 1': "a b is an unknown key",
        "t_end = 1\ntail_tol = 1e-6": (
            "tail_tol is an unknown key: the keys here are t_end, save_at, rtol, atol, max_step, "
            "on_unresolved, rng, energy; did you mean measure.tail_tol?"
        ),
    },
    "output": {
        'file = "run.h5"': "file must be a file name that ends in",
        "file = 3": "file must be a valid string, got 3",
        'figure = "a.txt"': "figure must be a file name that",
        'movie = "a.mp4"': "movie is an unknown key",
    },
    "monitors": {
        "w = 3": "w must be a table, got 3",
    },
    "monitors.w": {
        "p = 2": "to is missing: it must be the uniform measure, a Dirac at the present mean",
        'to = "start"\nlaw = {type = "Uniform"}': "law is an unknown key: the keys here are to, di",
        'to = "north"': "to must be 'uniform', 'centre', 'start' or a law, a table, got 'north'",
        'to = "start"\ndistance = "energy"': "distance must be 'wasserstein', 'mmd' or 'sobolev', ",
        'to = "start"\np = 0.5': "p must be a finite number >= 1 and <= 20, got 0.5",
        'to = "start"\ndistance = "mmd"\nbeta = -1': "beta must be a finite number >= 0, got -1",
        'to = "centre"\ndistance = "sobolev"\ns = 0': "s must be < -(d-1)/2 = -0.5",
        'to = "start"\nevery = 0': "every must be an integer >= 1, got 0",
        'to = {type = "VonMisesFisher", mean = [0, 1], kappa = -1}': "to.kappa must be a finite nu",
        'to = {type = "delta"}': "to.type must be one of Uniform, VonMisesFisher",
    },
}
# wrong in several keys, or in files, or where JSON can't say it: 2.0 is no 2, and there is no nan
BEYOND_A_SCHEMA: Sections = {
    "": {
        'monitors.energy.to = "start"': "monitors must have names of letters, digits and _ that ar",
        'monitors."a b".to = "start"': "monitors must have names of let",
        'monitors.w.to = "start"\nmonitors.w_upper.to = "start"': (
            "monitors must have names of letters, digits and _ that are no variables of a run or "
            "bounds of another monitor, got 'w_upper'"
        ),
    },
    "dynamics": {
        "beta = nan": "beta must be a finite number, got nan",
        'type = "USA"\nbeta = 800.0': "beta of USA",
        f"{HEADS}[{{V = [[1, 2], [3]]}}]": "heads[0].V must be a number or a list of equal",
        f"{HEADS}[{{V = [[1, 2]]}}]": "heads[0].Q and K must be (m, d) and V",
        f"{LAYERS}[{{beta = 1.5, noise = 0.1}}]": "layers must be dynamics but Layers",
        f"{LAYERS}[{{{NEURONS}[[0], [1]], A = [[2]]}}]": "layers[0].W must be (d, m), A (m, d)",
        "beta = 2e5": "beta must be a finite number >= 0 and <= 1000",
    },
    "measure": {
        'type = "Particles"': "n is missing",
        f'type = "Density"\nmax_size = 16\nspace = {CIRCLE}': "max_size must",
    },
    "measure.space": {
        f"{ZONAL}\naxis = [1.0, 1.0, 0.0, 0.0]\ndim = 4": "axis must have norm 1",
        f"{ZONAL}\naxis = [0.0, 1.0]\ndim = 4": "axis must have length",
    },
    "law": {
        'type = "Uniform"\ndim = 2.0': "dim must be a valid integer",
        f"{FOURIER}cos = [1.5]": "cos and sin must give a density >= 0",
        f"{FOURIER}sin = [0.1, nan]": "sin[1] must be a finite number",
        f"{BUMP}mean = [3, 4]\nkappa = 1": "mean must have norm 1",
        f'{MIXTURE}[{{type = "Uniform"}}]\nweights = [0.5, 0.5]': "weights must have length 1",
        f'{MIXTURE}[{{type = "Uniform"}}]\nweights = [0.0]': "weights must have a positive sum",
        f'{MIXTURE}[{{type = "Uniform", dim = 2}}, {{type = "Uniform", dim = 3}}]': (
            "laws must have one dim, got dim = 2 at index 0"
        ),
        'type = "PointCloud"\npoints = [[1.0, 0.0], [1.0]]': (
            "points must be the name of a CSV, NPY or NPZ file or a list of equal rows of numbers, "
            "got [[1."
        ),
        'type = "PointCloud"\npoints = [[1.0, 1.0]]\nbandwidth = 0.5': "points must have rows of n",
    },
    "run": {
        "t_end = 0.5\nsave_at = [0.95]": (
            "save_at must be an integer >= 1 or strictly ascending times in [0, t_end = 0.5], got "
            "0.95"
        ),
        "t_end = 1\nsave_at = [0.5, 0.2]": "save_at must be",
        "t_end = 1\nsave_at = [nan]": "save_at",
        "t_end = 1\nrng = 1.0": "rng must be a valid integer, got 1.0",
    },
    "output": {
        'file = "there.nc"': "file must be a file name that e",
        'file = "a\\u0000.nc"': "file must be a file name th",
        'figure = "no/a.png"': "figure must be a file name that",
    },
    "monitors.w": {
        'to = "start"\ndistance = "mmd"\np = 1': "p must be left out for distance = 'mmd', as it i",
        'to = {type = "Uniform", dim = 3}': "to must have dim = 2 as Density(Circle(32)",
        'to = {type = "PointCloud", points = "none.csv"}': "to.points = 'none.csv': must be a CSV,",
    },
}
# in several sections, and the whole of what the line must say; the first in one key, too
SEVERAL: list[tuple[dict[str, str], str]] = [
    (
        {"dynamics": "beta = 2e8", "measure": 'type = "Particles"\nn = 3'},
        "dynamics.beta must be a finite number >= 0 and <= 1e+08, got 200000000.0",
    ),
    (
        {"dynamics": "beta = 1\nnoise = 0.1", "measure": 'type = "FlowMap"'},
        "dynamics.noise must be 0",
    ),
    (
        {"dynamics": "beta = 1\nnoise = 0.1", "run": 't_end = 1.0\non_unresolved = "flow-map"'},
        "run.on_unresolved must be 'stop' with noise, got 'flow-map' and noise = 0.1",
    ),
    (
        {"law": 'type = "Uniform"\ndim = 4096', "measure": 'type = "Particles"\nn = 70000'},
        "measure.n must be at most 65536 tokens of 4096 numbers each, got 70000",
    ),
    (
        {"law": 'type = "Uniform"', "measure": 'type = "Particles"\nn = 3'},
        "law.dim is missing: it must be an integer >= 2",
    ),
    ({"law": 'type = "Uniform"', "measure.space": ZONAL}, "measure.space.dim is missing"),
    (
        {"law": 'type = "ZonalSeries"\ndim = 4\ncoefficients = [1.1]', "measure.space": ZONAL},
        "law.coefficients must give a density >= 0",
    ),
    (
        {"law": f"{BUMP}mean = [1.0, 0.0, 0.0]\nkappa = 2.0", "measure.space": ZONAL},
        "law must be axisymmetric about the axis",
    ),
    ({"measure.space": SPHERE}, "law must have dim = 3 on Sphere(7)"),
    (
        {"measure.space": SPHERE, "law": f"{BUMP}mean = [0.0, 0.0, 1.0]\nkappa = 1e4"},
        "the density must have mass 1 within 1e-08 on Sphere(7)",
    ),
    ({"measure.space": SPHERE, "law": f"{TOKENS}1e-9"}, "law.bandwidth must be >= "),
    (
        {"measure.space": SPHERE, "law": 'type = "PointCloud"\npoints = "tokens-s2"'},
        "law.bandwidth must be a number > 0 for a density",
    ),
    (
        {
            "measure": 'type = "Particles"\nn = 9',
            "law": 'type = "Uniform"\ndim = 5',
            "monitors.w": 'to = "uniform"',
        },
        "monitors.w: mu and nu must ",
    ),
]

CSV = {"measure": 'type = "Particles"', "law": 'type = "PointCloud"\npoints = "tokens.csv"'}
GOOD_ROWS = "x,y,z\n0,0,1\n"
HEADER = "line 1 must be a header of d >= 2 names"
# the text of tokens.csv, and what the line must say of it
CLOUDS: dict[str, str] = {
    f"{GOOD_ROWS}1,1,1\n": "points must have rows of norm 1 (within 1e-06), got",
    f"{GOOD_ROWS}nan,0,1\n": "points must be finite, got nan",
    f"{GOOD_ROWS}inf,0,1\n": "points must be finite, got inf",
    f"{GOOD_ROWS}0,1\n": "line 3 must be 3 numbers with commas between, got '0,1'",
    f"{GOOD_ROWS}0,one,0\n": "line 3 must be 3 numbers with commas between",
    "x,y,z\n": "must have at least one row below the header 'x,y,z'",
    "": HEADER,
    "0,0,1\n0,1,0\n": HEADER,
    "x\n1\n": f"{HEADER} with commas between, got ['x']",
    "x;y;z\n0;0;1\n": HEADER,
    "x,y,\xe9\n0,0,1\n": "must be a CSV file in UTF-8",
}


def toml(changes: dict[str, str]) -> str:
    """The text of a case that differs from `BASE` in these sections, of which "" is the top."""
    sections = BASE | changes
    if "measure" in changes:
        del sections["measure.space"]
    top = sections.pop("", "")
    return "\n".join((top, *(f"[{name}]\n{body}\n" for name, body in sections.items())))


def cases(table: Sections) -> Iterator[tuple[dict[str, str], str]]:
    """The sections of each case that differ from `BASE`, and what the line must say."""
    for section, texts in table.items():
        for text, message in texts.items():
            yield {section: text}, f"{section}.{message}" if section else message
