"""What test_bad_input.py feeds to `meanfield run`: wrong case files and wrong files of points."""

NORTH = "mean = [0.0, 0.0, 1.0]"


def on(space):
    """The table of a density on a space."""
    return f'type = "Density"\n[measure.space]\n{space}'


BASE = {
    "law": 'type = "FourierSeries"\ncos = [0.5]',
    "measure": on('type = "Circle"\nn = 32'),
    "dynamics": "beta = 1.0",
    "run": "t_end = 0.1\nsave_at = 2",
}
SPHERE = on('type = "Sphere"\nlmax = 7')
FOURIER = 'type = "FourierSeries"\n'
ZONAL = {"measure": on('type = "Zonal"\nkmax = 15'), "law": 'type = "Uniform"\ndim = 4'}
CSV = {"measure": 'type = "Particles"', "law": 'type = "PointCloud"\npoints = "tokens.csv"'}
TOKENS = 'type = "PointCloud"\npoints = "tokens-s2"'
BUMP = 'type = "VonMisesFisher"\n'

# name: the sections that differ from BASE, and what the line must say
CASES: dict[str, tuple[dict[str, str], str]] = {
    "beta negative": ({"dynamics": "beta = -1.0"}, "dynamics.beta must be a finite number >= 0"),
    "beta nan": ({"dynamics": "beta = nan"}, "dynamics.beta must be a finite number, got nan"),
    "beta inf": ({"dynamics": "beta = inf"}, "dynamics.beta must be a finite number, got inf"),
    "beta 1e999": ({"dynamics": "beta = 1e999"}, "dynamics.beta must be a finite number"),
    "beta a string": ({"dynamics": 'beta = "4"'}, "dynamics.beta must be a valid number, got '4'"),
    "beta a truth": ({"dynamics": "beta = true"}, "dynamics.beta must be a valid number, got True"),
    "beta missing": ({"dynamics": 'type = "SA"'}, "dynamics.beta is missing: it must be the inve"),
    "beta too large": ({"dynamics": 'type = "USA"\nbeta = 800.0'}, "dynamics.beta of USA"),
    "beta of tables": ({"dynamics": "beta = 2e5"}, "beta must be a finite number >= 0 and <= 1000"),
    "beta of tokens": (
        {"dynamics": "beta = 2e8", "measure": 'type = "Particles"\nn = 3'},
        "dynamics.beta must be a finite number >= 0 and <= 1e+08, got 200000000.0",
    ),
    "d huge": (
        {"law": 'type = "Uniform"\ndim = 4097', "measure": 'type = "Particles"\nn = 3'},
        "law.dim must be an integer >= 2 and <= 4096, got 4097",
    ),
    "tokens huge": (
        {"law": 'type = "Uniform"\ndim = 4096', "measure": 'type = "Particles"\nn = 70000'},
        "measure.n must be at most 65536 tokens of 4096 numbers each, got 70000",
    ),
    "saves huge": (
        {"run": "t_end = 1.0\nsave_at = 10000001"},
        "run.save_at must be an integer >= 1 and <= 10000000, got 10000001",
    ),
    "nodes huge": (
        {"measure": 'type = "FlowMap"\nmax_nodes = 10000001'},
        "measure.max_nodes must be an integer >= 1 and <= 10000000, got 10000001",
    ),
    "series huge": (
        {"law": f'type = "FourierSeries"\nsin = [{"0.0, " * 4097}]'},
        "law.sin must have at most 4096 entries, got 4097",
    ),
    "monitors huge": (
        {f"monitors.m{i}": 'to = "start"' for i in range(257)},
        "monitors must have at most 256 entries, got 257",
    ),
    "sign 0": ({"dynamics": "beta = 1\nsign = 0"}, "dynamics.sign must be +1 or -1, got 0"),
    "sign 0.5": ({"dynamics": "beta = 1\nsign = 0.5"}, "dynamics.sign must be a valid integer"),
    "noise negative": ({"dynamics": "beta = 1\nnoise = -0.1"}, "dynamics.noise must be a finite"),
    "noise nan": ({"dynamics": "beta = 1\nnoise = nan"}, "dynamics.noise must be a finite number"),
    "noise on a flow map": (
        {"dynamics": "beta = 1\nnoise = 0.1", "measure": 'type = "FlowMap"'},
        "dynamics.noise must be 0",
    ),
    "noise and a flow map to come": (
        {"dynamics": "beta = 1\nnoise = 0.1", "run": 't_end = 1.0\non_unresolved = "flow-map"'},
        "run.on_unresolved must be 'stop' with noise, got 'flow-map' and noise = 0.1",
    ),
    "dynamics unknown": (
        {"dynamics": 'type = "GPT"\nbeta = 1'},
        "dynamics.type must be one of SA, U",
    ),
    "dynamics not a table": ({"dynamics": ""}, "dynamics.beta is missing"),
    "d 1": (
        {"measure": on('type = "Zonal"\nkmax = 15\ndim = 1')},
        "measure.space.dim must be an integer >= 2",
    ),
    "d 0 of a law": (ZONAL | {"law": 'type = "Uniform"\ndim = 0'}, "dim must be an integer >= 2"),
    "d no integer": ({"law": 'type = "Uniform"\ndim = 2.0'}, "law.dim must be a valid integer"),
    "d nowhere": (
        {"measure": on('type = "Zonal"\nkmax = 15'), "law": 'type = "Uniform"'},
        "measure.space.dim is missing",
    ),
    "d nowhere, tokens": (
        {"measure": 'type = "Particles"\nn = 3', "law": 'type = "Uniform"'},
        "law.dim is missing: it must be an integer >= 2",
    ),
    "n odd": ({"measure": on('type = "Circle"\nn = 33')}, "measure.space.n must be even, got 33"),
    "n small": (
        {"measure": on('type = "Circle"\nn = 4')},
        "measure.space.n must be an integer >= 8",
    ),
    "n huge": (
        {"measure": on(f'type = "Circle"\nn = 1{"0" * 30}')},
        "measure.space.n must be an integer >= 8",
    ),
    "n a float": (
        {"measure": on('type = "Circle"\nn = 32.5')},
        "measure.space.n must be a valid integer",
    ),
    "lmax 0": (
        {"measure": on('type = "Sphere"\nlmax = 0')},
        "measure.space.lmax must be an integer >= 3",
    ),
    "kmax 0": (
        ZONAL | {"measure": on('type = "Zonal"\nkmax = 0')},
        "measure.space.kmax must be an integer",
    ),
    "kmax negative": (
        ZONAL | {"measure": on('type = "Zonal"\nkmax = -5')},
        "measure.space.kmax must be an int",
    ),
    "axis not of norm 1": (
        ZONAL | {"measure": on('type = "Zonal"\nkmax = 15\naxis = [1.0, 1.0, 0.0, 0.0]')},
        "measure.space.axis must have norm 1",
    ),
    "axis too short": (
        ZONAL | {"measure": on('type = "Zonal"\nkmax = 15\naxis = [0.0, 1.0]\ndim = 4')},
        "measure.space.axis must have length",
    ),
    "no tokens": (
        {"measure": 'type = "Particles"\nn = 0'},
        "measure.n must be greater than or equal to 1, got 0",
    ),
    "tokens not counted": ({"measure": 'type = "Particles"'}, "measure.n is missing"),
    "rng negative": ({"run": "t_end = 1\nrng = -1"}, "run.rng must be greater than or equal to 0"),
    "rng a float": ({"run": "t_end = 1\nrng = 1.0"}, "run.rng must be a valid integer, got 1.0"),
    "space unknown": (
        {"measure": on('type = "torus"')},
        "measure.space.type must be one of Circle, Sphere, Zon",
    ),
    "space without type": (
        {"measure": on("n = 32")},
        "measure.space.type is missing: it must be one of Circle, Sphere, Zonal",
    ),
    "space missing": (
        {"measure": 'type = "Density"'},
        "measure.space is missing: it must be a table, the space at t = 0",
    ),
    "space no table": (
        {"measure": 'type = "Density"\nspace = "Circle"'},
        "measure.space must be a table, got 'Circle'",
    ),
    "space without a size": ({"measure": on('type = "Circle"')}, "measure.space.n is missing: it"),
    "space for a measure": (
        {"space": 'type = "Circle"\nn = 32'},
        "keys here are law, measure, dynamics, run, output, monitors; did you mean measure.space?",
    ),
    "measure unknown": (
        {"measure": 'type = "Tabulated"'},
        "measure.type must be one of Density, FlowMap, Particles, got 'Tabulated'",
    ),
    "measure in another spelling": (
        {"measure": 'type = "flow-map"'},
        "one of Density, FlowMap, Particles, got 'flow-map'; did you mean FlowMap?",
    ),
    "a limit in another table": (
        {"run": "t_end = 1\ntail_tol = 1e-6"},
        "run.tail_tol is an unknown key: the keys here are t_end, save_at, ",
    ),
    "a limit in another table, where": (
        {"run": "t_end = 1\ntail_tol = 1e-6"},
        "; did you mean measure.tail_tol?",
    ),
    "law in another spelling": (
        {"law": 'type = "von-mises-fisher"\nmean = [0, 1]\nkappa = 1.0'},
        "got 'von-mises-fisher'; did you mean VonMisesFisher?",
    ),
    "points of no kind": (
        {"law": 'type = "PointCloud"\npoints = 3'},
        "law.points must be the name of a CSV, NPY or NPZ file or a list of equal rows of ",
    ),
    "points ragged": (
        {"law": 'type = "PointCloud"\npoints = [[1.0, 0.0], [1.0]]'},
        "file or a list of equal rows of numbers, got [[1.",
    ),
    "points not of norm 1": (
        {"law": 'type = "PointCloud"\npoints = [[1.0, 1.0]]\nbandwidth = 0.5'},
        "law.points must have rows of norm 1",
    ),
    "another space's key": (
        {"measure": f"{SPHERE}\nn = 3"},
        "measure.space.n is an unknown key: the keys he",
    ),
    "dims don't fit": ({"measure": SPHERE}, "law must have dim = 3 on Sphere(7)"),
    "axes don't fit": (
        {
            "measure": on('type = "Zonal"\nkmax = 15'),
            "law": f"{BUMP}mean = [1.0, 0.0, 0.0]\nkappa = 2.0",
        },
        "law must be axisymmetric about the axis",
    ),
    "series negative": (
        {"law": f"{FOURIER}cos = [1.5]"},
        "law.cos and sin must give a density >= 0",
    ),
    "series nan": ({"law": f"{FOURIER}sin = [0.1, nan]"}, "law.sin[1] must be a finite number"),
    "series a number": ({"law": f"{FOURIER}cos = 0.5"}, "law.cos must be a valid list, got 0.5"),
    "zonal series negative": (
        ZONAL | {"law": 'type = "ZonalSeries"\ndim = 4\ncoefficients = [1.1]'},
        "law.coefficients must give a density >= 0",
    ),
    "zonal series without": (
        ZONAL | {"law": 'type = "ZonalSeries"\ndim = 4'},
        "law.coefficients is missing: it must be the list a_1, a_2, … of numbers",
    ),
    "law unknown": (
        {"law": 'type = "cauchy"'},
        "law.type must be one of Uniform, VonMisesFisher",
    ),
    "law without type": ({"law": "dim = 2"}, "law.type is missing: it must be one of Uniform"),
    "kappa negative": (
        {"law": f"{BUMP}mean = [0, 1]\nkappa = -1"},
        "law.kappa must be a finite nu",
    ),
    "kappa missing": ({"law": f"{BUMP}mean = [0, 1]"}, "law.kappa is missing: it must be the conc"),
    "mean not of norm 1": (
        {"law": f"{BUMP}mean = [3, 4]\nkappa = 1"},
        "law.mean must have norm 1",
    ),
    "mean empty": ({"law": f"{BUMP}mean = []\nkappa = 1"}, "law.mean must be a non-empty array"),
    "mean nested": (
        {"law": f"{BUMP}mean = [[0, 1]]\nkappa = 1"},
        "law.mean must be an angle or a list of numbers, got [[0, 1]]",
    ),
    "not resolved": (
        {"measure": SPHERE, "law": f"{BUMP}{NORTH}\nkappa = 1e4"},
        "the density must have mass 1 within 1e-08 on Sphere(7)",
    ),
    "weights too many": (
        {"law": 'type = "Mixture"\nlaws = [{type = "Uniform"}]\nweights = [0.5, 0.5]'},
        "law.weights must have length 1, got 2",
    ),
    "weights negative": (
        {"law": 'type = "Mixture"\nlaws = [{type = "Uniform"}]\nweights = [-1.0]'},
        "law.weights must be >= 0, got -1",
    ),
    "weights zero": (
        {"law": 'type = "Mixture"\nlaws = [{type = "Uniform"}]\nweights = [0.0]'},
        "law.weights must have a positive sum",
    ),
    "mixture empty": (
        {"law": 'type = "Mixture"\nlaws = []'},
        "law.laws must be a non-empty sequence",
    ),
    "mixture of dims": (
        {"law": 'type = "Mixture"\nlaws = [{type="Uniform", dim=2}, {type="Uniform", dim=3}]'},
        "law.laws must have one dim, got dim = 2 at index 0",
    ),
    "mixture's key": (
        {"law": 'type = "Mixture"\nlaws = [{type = "Uniform"}, {type = "Uniform", kappa = 1}]'},
        "law.laws[1].kappa is an unknown key: the keys here are type, dim",
    ),
    "mixture's value": (
        {"law": 'type = "Mixture"\nlaws = [{type="VonMisesFisher", mean=[0, 1], kappa=-2}]'},
        "law.laws[0].kappa must be a finite number >= 0",
    ),
    "mixture's type": (
        {"law": 'type = "Mixture"\nlaws = [{type = "delta"}]'},
        "law.laws[0].type must be one of Uniform",
    ),
    "mixture of numbers": (
        {"law": 'type = "Mixture"\nlaws = [1]'},
        "law.laws[0] must be a table, got 1",
    ),
    "bandwidth 0": ({"law": f"{TOKENS}\nbandwidth = 0"}, "law.bandwidth must be a finite numbe"),
    "bandwidth tiny": (
        {"measure": SPHERE, "law": f"{TOKENS}\nbandwidth = 1e-9"},
        "law.bandwidth must be >= ",
    ),
    "no bandwidth": (
        {"measure": SPHERE, "law": TOKENS},
        "law.bandwidth must be a number > 0 for a density",
    ),
    "t_end 0": ({"run": "t_end = 0"}, "run.t_end must be a finite number > 0, got 0"),
    "t_end negative": ({"run": "t_end = -1.0"}, "run.t_end must be a finite number > 0, got -1"),
    "t_end nan": ({"run": "t_end = nan"}, "run.t_end must be a finite number, got nan"),
    "t_end a date": ({"run": "t_end = 2026-11-20"}, "run.t_end must be a valid number"),
    "t_end missing": ({"run": "save_at = 2"}, "run.t_end is missing: it must be the final time"),
    "save_at 0": ({"run": "t_end = 1\nsave_at = 0"}, "run.save_at must be an integer >= 1"),
    "save_at a float": ({"run": "t_end = 1\nsave_at = 2.5"}, "run.save_at must be an integer >= 1"),
    "save_at a string": (
        {"run": 't_end = 1\nsave_at = "2"'},
        "run.save_at must be an integer >= 1",
    ),
    "save_at late": ({"run": "t_end = 1\nsave_at = [2.0]"}, "run.save_at must be an integer >= 1"),
    "save_at late, no double": ({"run": "t_end = 0.5\nsave_at = [0.95]"}, "t_end = 0.5], got 0.95"),
    "save_at unordered": ({"run": "t_end = 1\nsave_at = [0.5, 0.2]"}, "run.save_at must be"),
    "save_at empty": ({"run": "t_end = 1\nsave_at = []"}, "run.save_at must be a non-empty"),
    "save_at nan": ({"run": "t_end = 1\nsave_at = [nan]"}, "run.save_at"),
    "rtol negative": ({"run": "t_end = 1\nrtol = -1e-9"}, "run.rtol must be a finite number >= "),
    "rtol large": ({"run": "t_end = 1\nrtol = 0.5"}, "run.rtol must be a finite number >= 3e-14"),
    "rtol a string": ({"run": 't_end = 1\nrtol = "1e-9"'}, "run.rtol must be a valid number"),
    "atol 0": ({"run": "t_end = 1\natol = 0"}, "run.atol must be a finite number > 0, got 0"),
    "tail_tol 1": (
        {"measure": f"tail_tol = 1\n{BASE['measure']}"},
        "measure.tail_tol must be a fin",
    ),
    "max_size below n": ({"measure": f"max_size = 16\n{BASE['measure']}"}, "measure.max_size must"),
    "key of run unknown": (
        {"run": "t_end = 1\nstride = 0.1"},
        "run.stride is an unknown key: the keys",
    ),
    "key of output unknown": ({"output": 'movie = "a.mp4"'}, "output.movie is an unknown key"),
    "section unknown": (
        {"plot": "style = 1"},
        "plot is an unknown key: the keys here are law, meas",
    ),
    "key with a line break": ({"run": '"a\\nb" = 1'}, "run.a b is an unknown key"),
    "monitor without to": (
        {"monitors.w": "p = 2"},
        "monitors.w.to is missing: it must be the uniform measure, a Dirac at the present mean",
    ),
    "monitor with a law": (
        {"monitors.w": 'to = "start"\nlaw = {type = "Uniform"}'},
        "monitors.w.law is an unknown key: the keys here are to, distance, p, gap, beta, s, every",
    ),
    "monitor to nowhere": (
        {"monitors.w": 'to = "north"'},
        "monitors.w.to must be 'uniform', 'centre', 'start' or a law, a table, got 'north'",
    ),
    "monitor's key": (
        {"monitors.w": "q = 2"},
        "monitors.w.q is an unknown key: the keys here are to, distance, p, gap, beta, s, every",
    ),
    "monitor's distance": (
        {"monitors.w": 'to = "start"\ndistance = "energy"'},
        "monitors.w.distance must be 'wasserstein', 'mmd' or 'sobolev', got 'energy'",
    ),
    "monitor's p": (
        {"monitors.w": 'to = "start"\np = 0.5'},
        "monitors.w.p must be a finite number >= 1 and <= 20, got 0.5",
    ),
    "monitor's p, another distance": (
        {"monitors.m": 'to = "start"\ndistance = "mmd"\np = 1'},
        "monitors.m.p must be left out for distance = 'mmd', as it is one of 'wasserstein', got 1",
    ),
    "monitor's beta": (
        {"monitors.m": 'to = "start"\ndistance = "mmd"\nbeta = -1'},
        "monitors.m.beta must be a finite number >= 0, got -1",
    ),
    "monitor's s": (
        {"monitors.h": 'to = "centre"\ndistance = "sobolev"\ns = 0'},
        "monitors.h.s must be < -(d-1)/2 = -0.5",
    ),
    "monitor's every": (
        {"monitors.w": 'to = "start"\nevery = 0'},
        "monitors.w.every must be an integer >= 1, got 0",
    ),
    "monitor's law": (
        {"monitors.w": 'to = {type = "VonMisesFisher", mean = [0, 1], kappa = -1}'},
        "monitors.w.to.kappa must be a finite number >= 0",
    ),
    "monitor's law, type": (
        {"monitors.w": 'to = {type = "delta"}'},
        "monitors.w.to.type must be one of Uniform, VonMisesFisher",
    ),
    "monitor's law, dim": (
        {"monitors.w": 'to = {type = "Uniform", dim = 3}'},
        "monitors.w.to must have dim = 2 as Density(Circle(32)",
    ),
    "monitor's law, a cloud": (
        {"monitors.w": 'to = {type = "PointCloud", points = "none.csv"}'},
        "monitors.w.to.points = 'none.csv': must be a CSV, NPY or NPZ file or 'tokens-s2', but",
    ),
    "monitor's name": (
        {"monitors.energy": 'to = "start"'},
        "monitors must have names of letters, digits and _ that are no variables of a run or bound",
    ),
    "monitor's name, blank": (
        {'monitors."a b"': 'to = "start"'},
        "monitors must have names of let",
    ),
    "monitor's name, a bound": (
        {"monitors.w": 'to = "start"', "monitors.w_upper": 'to = "start"'},
        "no variables of a run or bounds of another monitor, got 'w_upper'",
    ),
    "monitor no table": ({"monitors": "w = 3"}, "monitors.w must be a table, got 3"),
    "monitor that can't be had": (
        {
            "measure": 'type = "Particles"\nn = 9',
            "law": 'type = "Uniform"\ndim = 5',
            "monitors.w": 'to = "uniform"',
        },
        "monitors.w: mu and nu must ",
    ),
    "output a folder": ({"output": 'file = "there.nc"'}, "output.file must be a file name that e"),
    "output no .nc": (
        {"output": 'file = "run.h5"'},
        "output.file must be a file name that ends in",
    ),
    "output a number": ({"output": "file = 3"}, "output.file must be a valid string, got 3"),
    "output with a null": (
        {"output": 'file = "a\\u0000.nc"'},
        "output.file must be a file name th",
    ),
    "figure no picture": ({"output": 'figure = "a.txt"'}, "output.figure must be a file name that"),
    "figure nowhere": ({"output": 'figure = "no/a.png"'}, "output.figure must be a file name that"),
}

GOOD_ROWS = "x,y,z\n0,0,1\n"
# name: the text of tokens.csv, and what the line must say
CLOUDS: dict[str, tuple[str, str]] = {
    "not of norm 1": (f"{GOOD_ROWS}1,1,1\n", "points must have rows of norm 1 (within 1e-06), got"),
    "nan": (f"{GOOD_ROWS}nan,0,1\n", "points must be finite, got nan"),
    "inf": (f"{GOOD_ROWS}inf,0,1\n", "points must be finite, got inf"),
    "ragged": (f"{GOOD_ROWS}0,1\n", "line 3 must be 3 numbers with commas between, got '0,1'"),
    "words": (f"{GOOD_ROWS}0,one,0\n", "line 3 must be 3 numbers with commas between"),
    "no rows": ("x,y,z\n", "must have at least one row below the header 'x,y,z'"),
    "nothing": ("", "line 1 must be a header of d >= 2 names"),
    "no header": ("0,0,1\n0,1,0\n", "line 1 must be a header of d >= 2 names"),
    "one column": (
        "x\n1\n",
        "line 1 must be a header of d >= 2 names with commas between, got ['x']",
    ),
    "semicolons": ("x;y;z\n0;0;1\n", "line 1 must be a header of d >= 2 names"),
    "two dims in a sphere": ("x,y\n0,1\n", "law must have dim = 3 on Sphere(7)"),
    "latin": ("x,y,\xe9\n0,0,1\n", "must be a CSV file in UTF-8"),
}
