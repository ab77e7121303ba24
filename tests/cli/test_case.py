"""Case files: what they say is what is built, and the bundled one is a case."""

import copy
import pickle
import re
import tomllib
from dataclasses import fields

import numpy as np
import pytest

import meanfield as mf
from meanfield._checks import one_line
from meanfield.cli.case import case_from_text, default_case_text, read_case
from meanfield.cli.tables import TYPES
from meanfield.dynamics import KNOWN
from meanfield.evolution import solve
from meanfield.exceptions import CaseError
from meanfield.functionals.transport.distance import DistanceTo

ON_SPHERE = 'type = "Density"\nspace = {type = "Sphere", lmax = 15}'
ON_CIRCLE = 'type = "Density"\nspace = {type = "Circle", n = 64}'
REST = f"[measure]\n{ON_SPHERE}\n[dynamics]\nbeta = 2\n[run]\nt_end = 1\n"


def measure_of(law, rest=REST):
    return case_from_text(f"[law]\n{law}\n{rest}", "a.toml").build()[0]


def test_bundled_case():
    case = case_from_text(default_case_text(), "bundled")
    measure, dynamics, keywords = case.build()
    assert measure.space.kind == "sphere"
    assert measure.law.points.shape == (470, 3)
    assert measure.law.bandwidth == case.tables.law.bandwidth
    assert dynamics == mf.SA(4.0)
    monitors = keywords.pop("monitors")
    assert {name: monitor.to for name, monitor in monitors.items()} == {
        "w1_uniform": "uniform",
        "w1_centre": "centre",
    }
    about = {"source_sha256": case.digest()}
    own = {
        "t_end": case.tables.run.t_end,
        "save_at": 20,
        "case": default_case_text(),
        "about": about,
    }
    assert keywords == own
    assert case.tables.output.file == "run.nc"


def test_bundled_case_shows_every_key():
    """Each type of the template, uncommented, has the keys that are understood, and no others."""
    lines = [re.sub("^# ?", "", line) for line in default_case_text().splitlines()]
    inline = re.findall(r"^space = (\{.*?\})", "\n".join(lines), re.MULTILINE)
    shown: dict[str, set[str]] = {}
    for table in (tomllib.loads(f"space = {one}")["space"] for one in inline):
        shown.setdefault(table["type"], set()).update(table)
    kind = ""
    for line in lines:
        if found := re.match(r'type = "(\w+)"', line):
            kind = found[1]
            shown[kind] = set()
        elif line.startswith("["):
            kind = ""
        if kind and (found := re.match(r"(\w+) = ", line)):
            shown[kind].add(found[1])
    # those that take the keys of the first are named beside it
    assert TYPES.keys() - shown.keys() == {"USA", "DoublyStochastic"}
    common = set(TYPES["SA"].model_fields)
    for kind, keys in shown.items():
        allowed = set(TYPES[kind].model_fields)
        implied = common if kind in _DYNAMICS - {"SA"} else set()
        assert keys <= allowed, kind
        assert allowed - keys <= implied, kind


_DYNAMICS = {kind.__name__ for kind in KNOWN}


@pytest.mark.parametrize(
    ("table", "dynamics"),
    [
        ('type = "Kuramoto"\ncoupling = 2', mf.Kuramoto(2.0)),
        (
            'type = "CircleInteraction"\nsin = [1, 2]\nnoise = 0.1',
            mf.CircleInteraction([1.0, 2.0], noise=0.1),
        ),
    ],
)
def test_phases_of_a_case(table, dynamics):
    case = mf.Case(
        f'law.type = "Uniform"\n[measure]\n{ON_CIRCLE}\n[run]\nt_end = 1\n[dynamics]\n{table}\n'
    )
    assert case.build()[1] == dynamics


def test_whole_numbers_are_numbers():
    _, dynamics, keywords = case_from_text(f'[law]\ntype = "Uniform"\n{REST}', "a").build()
    assert dynamics.beta == 2.0
    assert isinstance(dynamics.beta, float)
    assert isinstance(keywords["t_end"], float)


BUMP = '{type = "VonMisesFisher", mean = [1, 0, 0], kappa = 2.0}'
LAWS = {
    "uniform": ('type = "Uniform"', mf.Uniform(3)),
    "von-mises-fisher": (
        'type = "VonMisesFisher"\nmean = [0, 1, 0]\nkappa = 3',
        mf.VonMisesFisher([0.0, 1.0, 0.0], 3.0),
    ),
    "zonal-series": (
        'type = "ZonalSeries"\ncoefficients = [0.5, 0.1]\naxis = [1, 0, 0]',
        mf.ZonalSeries(3, [0.5, 0.1], axis=[1.0, 0.0, 0.0]),
    ),
    "mixture": (
        (
            'type = "Mixture"\nweights = [1, 3]\nunit_mass = true\n'
            f'laws = [{{type = "Uniform"}}, {BUMP}]'
        ),
        mf.Mixture(
            [mf.Uniform(3), mf.VonMisesFisher([1.0, 0.0, 0.0], 2.0)], [1, 3], unit_mass=True
        ),
    ),
    "mixture, equal": (
        f'type = "Mixture"\nlaws = [{{type = "Uniform"}}, {BUMP}]',
        mf.Mixture(
            [mf.Uniform(3), mf.VonMisesFisher([1.0, 0.0, 0.0], 2.0)], [1, 1], unit_mass=True
        ),
    ),
}


@pytest.mark.parametrize(("text", "law"), LAWS.values(), ids=LAWS)
def test_laws(text, law):
    expected = mf.Density(mf.Sphere(15), law)
    assert np.array_equal(measure_of(text).values, expected.values)


def test_fourier_series_on_the_circle():
    rest = REST.replace(ON_SPHERE, ON_CIRCLE)
    measure = measure_of('type = "FourierSeries"\ncos = [0.5]\nsin = [0.0, 0.3]', rest)
    assert measure.space.size == 64
    assert measure.coefficients[1] == pytest.approx(0.25, abs=1e-15)
    assert measure.coefficients[2] == pytest.approx(-0.15j, abs=1e-15)


@pytest.mark.parametrize(
    ("law", "space"),
    [
        ('type = "ZonalSeries"\ndim = 7\ncoefficients = [0.5]', 'type = "Zonal", kmax = 15'),
        ('type = "ZonalSeries"\ncoefficients = [0.5]', 'type = "Zonal", kmax = 15, dim = 7'),
    ],
)
def test_one_table_settles_the_dimension(law, space):
    measure = measure_of(law, REST.replace('type = "Sphere", lmax = 15', space))
    assert (measure.dim, measure.space.kmax) == (7, 15)
    assert measure.mean()[-1] == pytest.approx(0.5 / 7, abs=1e-14)


def test_points_are_found_beside_the_case(folder):
    (folder / "sub").mkdir()
    points = mf.Uniform(4).sample(5, np.random.default_rng(1))
    header = "a,b,c,d"
    np.savetxt(folder / "sub" / "my.csv", points, delimiter=",", header=header, comments="")
    rest = REST.replace(ON_SPHERE, 'type = "Particles"')
    (folder / "sub" / "c.toml").write_text(f'[law]\ntype = "PointCloud"\npoints = "my.csv"\n{rest}')
    measure, _, _ = read_case("sub/c.toml").build()
    assert isinstance(measure, mf.Particles)
    assert np.abs(measure.points - points).max() < 1e-15


def test_tokens_are_drawn_by_rng():
    def drawn(rng):
        rest = REST.replace(ON_SPHERE, 'type = "Particles"\nn = 4')
        return measure_of(LAWS["mixture"][0], f"{rest}rng = {rng}").points

    assert np.array_equal(drawn(3), drawn(3))
    assert not np.array_equal(drawn(3), drawn(4))


def test_a_case_of_windows_is_read(tmp_path):
    text = f'[law]\r\ntype = "Uniform"\r\n{REST}'
    (tmp_path / "c.toml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_case(tmp_path / "c.toml").tables.run.t_end == 1.0


@pytest.mark.parametrize(
    ("text", "energy"),
    [
        ("energy = 3", 3.0),
        ('[run.energy]\ntype = "DoublyStochastic"\nbeta = 2.0', mf.DoublyStochastic(2.0)),
        ("energy = {beta = 2.0}", mf.SA(2.0)),
        (
            'energy = {type = "Sum", terms = [{beta = 1.0}, {type = "Kuramoto", coupling = 2.0}]}',
            mf.SA(1.0) + mf.Kuramoto(2.0),
        ),
    ],
)
def test_a_run_follows_the_energy_of_its_case(text, energy):
    law = 'type = "FourierSeries"\ncos = [0.5]'
    rest = REST.replace(ON_SPHERE, ON_CIRCLE).replace("beta = 2", 'type = "USA"\nbeta = 1')
    case = case_from_text(f"[law]\n{law}\n{rest}{text}", "a.toml")
    measure, dynamics, keywords = case.build()
    assert keywords["energy"] == energy
    sol = case.run()
    assert sol.energy == (mf.SA(3.0) if energy == 3.0 else energy)
    plain = mf.evolve(measure, dynamics, 1.0, energy=energy)
    assert np.array_equal(sol.dataset.energy, plain.dataset.energy)
    # a run of another energy is another run
    assert case.digest() != case.replace({"run.energy": 5.0}).digest()


def test_run_keywords_are_those_of_evolve():
    keys = {"rtol": 1e-7, "atol": 1e-10, "save_at": [0.5, 1.0], "on_unresolved": "stop"}
    text = "\n".join(f"{key} = {value!r}" for key, value in keys.items())
    limited = REST.replace(ON_SPHERE, f"{ON_SPHERE}\ntail_tol = 1e-6\nmax_size = 31")
    case = case_from_text(f'[law]\ntype = "Uniform"\n{limited}\n{text}', "a.toml")
    measure, dynamics, keywords = case.build()
    assert measure.run_limits == {"tail_tol": 1e-6, "max_size": 31}
    about = {"source_sha256": case.digest()}
    assert keywords == keys | {"t_end": 1.0, "case": case.to_toml(), "about": about}
    solution = solve(measure, dynamics, **keywords)
    assert solution.t.tolist() == [0.0, 0.5, 1.0]
    assert solution.case == case.to_toml()


MONITORS = """
[monitors.w1]
to = "uniform"
[monitors.w2]
to = "centre"
p = 2
every = 2
[monitors.wl]
to = { type = "VonMisesFisher", mean = [0, 1], kappa = 3 }
[monitors.m]
distance = "mmd"
to = "start"
[monitors.m9]
distance = "mmd"
beta = 9
to = "start"
[monitors.h]
distance = "sobolev"
to = "uniform"
[monitors.h2]
distance = "sobolev"
s = -2
[monitors.h2.to]
type = "Uniform"
"""


def test_mmd_without_any_beta_is_refused():
    """At β = 0 it is 0 between any two measures of one mean, which tells nothing."""
    circle = REST.replace(ON_SPHERE, ON_CIRCLE)
    circle = circle.replace("beta = 2", 'type = "Interaction"\nkernel = [1.0, 1.0]')
    monitor = '[monitors.m]\ndistance = "mmd"\nto = "start"\n'
    case = case_from_text(f'[law]\ntype = "Uniform"\n{circle}{monitor}', "a.toml")
    with pytest.raises(
        ValueError, match=r"monitors.m.beta must be given, as the dynamics has none, got None"
    ):
        case.build()


@pytest.mark.slow
def test_monitors():
    circle = REST.replace(ON_SPHERE, ON_CIRCLE)
    law = '[law]\ntype = "FourierSeries"\ncos = [0.5]\n'
    measure, dynamics, keywords = case_from_text(f"{law}{circle}{MONITORS}", "a.toml").build()
    sol = solve(measure, dynamics, **keywords | {"save_at": 3})
    start, final = sol.measures[0], sol.final
    uniform = mf.Density(mf.Circle(64), mf.Uniform(2))
    bump = mf.Density(mf.Circle(64), mf.VonMisesFisher([0, 1], 3))
    east = mf.Particles([[1, 0]])
    expected = {
        "w1": float(mf.wasserstein(final, uniform)),
        "w2": float(mf.wasserstein(sol.measures[2], east, 2)),
        "wl": float(mf.wasserstein(final, bump)),
        "m": mf.mmd(final, start, dynamics.beta),
        "m9": mf.mmd(final, start, 9.0),
        "h": mf.sobolev(final, uniform),
        "h2": mf.sobolev(final, uniform, -2.0),
    }
    for name, value in expected.items():
        kept = sol.dataset[name].values
        # bump and centre come by another way than here, each right to about 1e-13
        assert kept[np.isfinite(kept)][-1] == pytest.approx(value, abs=1e-12), name
        assert value > 0.01
    # tried on the start, and yet at its first call when the run starts
    assert np.isfinite(sol.dataset.w2).values.tolist() == [True, False, True, False]


def test_the_template_shows_monitors():
    """Every key of a monitor is there, and those of W_p are understood."""
    lines = default_case_text().splitlines()
    first = lines.index(next(line for line in lines if line.startswith("[monitors.w1_uniform]")))
    shown = [line.removeprefix("# ") for line in lines[first : first + 11]]
    keys = [line for line in shown if re.match(r"[a-z]+ = ", line)]
    table = tomllib.loads("\n".join(keys))
    assert set(table) == {field.name for field in fields(DistanceTo) if field.init}
    text = "\n".join(key for key in keys if not re.match("beta|s ", key))
    circle = REST.replace(ON_SPHERE, ON_CIRCLE)
    case = case_from_text(f'[law]\ntype = "Uniform"\n{circle}[monitors.w]\n{text}', "a.toml")
    assert case.tables.monitors["w"].model_fields_set == set(table) - {"beta", "s"}
    assert "monitors" in case.build()[2]


def test_errors_of_a_section():
    case = case_from_text(f'[law]\ntype = "Uniform"\n{REST}', "a.toml")
    with pytest.raises(CaseError, match=r"^a.toml: run: something is 3$"), case.errors("run"):
        raise ValueError(f"something is {3}")
    with pytest.raises(CaseError, match=r"^a.toml: dynamics.beta is 3$"), case.errors("run"):
        raise ValueError(f"beta is {3}")
    with pytest.raises(CaseError, match=r"^as it was$"), case.errors("run"):
        raise CaseError("as it was")


@pytest.mark.parametrize("text", ["a\nb", "a\r\n b", "a\u2028b", "a \x00 b\x1b[31m", "\n"])
def test_one_line(text):
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert line.isprintable()


def test_saves_must_fit_into_memory(monkeypatch):
    """20 saves of a space of 32 modes are 16 complex numbers each."""
    text = f"[law]\ntype = 'Uniform'\n{REST}".replace(ON_SPHERE, ON_CIRCLE.replace("64", "32"))
    case = case_from_text(text, "a.toml")
    size = 16 * 16
    monkeypatch.setattr("meanfield.cli.case.memory_of_machine", lambda: 2.0 * 20 * size)
    case.build()
    monkeypatch.setattr("meanfield.cli.case.memory_of_machine", lambda: 2.0 * 19 * size)
    with pytest.raises(CaseError, match=rf"a.toml: run.save_at must be at most 19 .* {size} bytes"):
        case.build()


def test_a_file_of_tokens_has_a_limit(tmp_path, monkeypatch):
    (tmp_path / "tokens.csv").write_text("x,y\n1.0,0.0\n")
    text = f"[law]\ntype = 'PointCloud'\npoints = 'tokens.csv'\n{REST}"
    case = case_from_text(text, "a.toml", tmp_path)
    monkeypatch.setattr("meanfield.cli.tables._LARGEST_CLOUD", 11)
    with pytest.raises(
        CaseError, match=r"must be a CSV, NPY or NPZ file of at most 11 bytes, but .* has 12"
    ):
        case.build()


def test_a_message_is_no_longer_than_a_line():
    with pytest.raises(CaseError, match=r"aaa …$") as caught:
        case_from_text(f"{'a' * 5000} = 1", "a.toml")
    assert len(str(caught.value)) == 1000


PUBLIC = f'[law]\ntype = "FourierSeries"\ncos = [0.5]\n{REST}'.replace(ON_SPHERE, ON_CIRCLE)


def test_a_case_is_read_changed_and_run(folder):
    (folder / "my.toml").write_text(f"# mine\n{PUBLIC}")
    case = mf.Case.from_file("my.toml")
    assert case.to_toml() == f"# mine\n{PUBLIC}"
    sol = case.replace({"dynamics.beta": np.float64(3.0), "run.save_at": np.array([0.5])}).run()
    start = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.5]))
    same = mf.evolve(start, mf.SA(3.0), 1.0, [0.5])
    assert sol.t.tolist() == [0.0, 0.5, 1.0]
    assert np.array_equal(sol.final.coefficients, same.final.coefficients)
    assert sol.final.coefficients[1].real > 0.26
    assert [path.name for path in folder.iterdir()] == ["my.toml"]
    case.run(checkpoint="my.nc")
    assert mf.load("my.nc").dynamics == mf.SA(2.0)


def test_a_case_is_a_value():
    case = mf.Case(PUBLIC)
    again = [pickle.loads(pickle.dumps(case)), copy.copy(case), copy.deepcopy(case)]
    assert all(one == case and hash(one) == hash(case) for one in again)
    assert [one.to_toml() for one in again] == [PUBLIC] * 3
    # what is left out is as good as its default
    assert case == mf.Case(PUBLIC.replace("beta", 'type = "SA"\nbeta'))
    assert case.replace({"run.rng": 0}) == case
    assert case.replace({"run.rng": 1}) != case
    assert case.replace({"output.file": "other.nc"}) != case


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dynamics.beta": -1.0}, "my.toml with dynamics.beta=-1.0: dynamics.beta must be a fini"),
        ({"dynamics.bta": 1.0}, "dynamics.bta is an unknown key: the keys here are type, beta, "),
        ({"space.n": 8}, "run, output, monitors; did you mean measure.space?"),
        ({"measure.n": 8}, "type, space, tail_tol, max_size; did you mean measure.space.n?"),
        (
            {"law.type": "Unifrm"},
            "PointCloud, Tabulated, Mixture, got 'Unifrm'; did you mean Uniform?",
        ),
        ({"measure.max_nodes": 100}, "the keys here are type, space, tail_tol, max_size"),
        ({"law.cos": None}, "law.cos must be a number, a word, a truth, or a list or mapping of"),
        ({3: 1.0}, "key must be names with dots between, as dynamics.beta or law.laws"),
        ("dynamics.beta", "changes must map keys to values, got 'dynamics.beta'"),
    ],
)
def test_changes_that_make_no_case(changes, message):
    case = mf.Case(PUBLIC, name="my.toml")
    with pytest.raises(ValueError, match=re.escape(message)):
        case.replace(changes).build()


@pytest.mark.parametrize(
    "measure",
    [
        {"type": "Density", "space": {"type": "Sphere", "n": 8}},
        {"type": "Density", "space": {"type": "Sphere", "lmax": 8}, "n": 8},
        {"type": "Particles", "lmax": 8},
    ],
)
def test_no_key_is_offered_that_the_case_has_no_room_for(measure):
    with pytest.raises(ValueError, match="is an unknown key: the keys here are type, ") as caught:
        mf.Case(PUBLIC).replace({"measure": measure})
    assert "did you mean" not in str(caught.value)


def test_points_of_a_case_may_be_in_it():
    law = 'type = "PointCloud"\npoints = [[1, 0], [0.6, 0.8]]\nweights = [1, 3]\nunit_mass = true'
    measure = measure_of(law, REST.replace(ON_SPHERE, 'type = "Particles"'))
    assert measure.points.tolist() == [[1.0, 0.0], [0.6, 0.8]]
    assert measure.weights.tolist() == [0.25, 0.75]
    smooth = measure_of(f"{law}\nbandwidth = 0.5", REST.replace(ON_SPHERE, ON_CIRCLE))
    same = mf.PointCloud([[1, 0], [0.6, 0.8]], [1, 3], bandwidth=0.5, unit_mass=True)
    assert np.array_equal(smooth.values, mf.Density(mf.Circle(64), same).values)


ON_THE_CIRCLE = REST.replace(ON_SPHERE, ON_CIRCLE)
SAMPLES = 2.0 * np.pi * np.arange(12) / 12
HILL = 1.0 + 0.5 * np.cos(SAMPLES)


@pytest.mark.parametrize("kind", ["csv", "npy", "npz", "a list"])
def test_values_of_a_density_are_read(folder, kind):
    table, points = np.column_stack([SAMPLES, HILL]), f'"my.{kind}"'
    np.savetxt("my.csv", table, delimiter=",", header="angle,value", comments="")
    np.save("my.npy", table)
    np.savez("my.npz", points=SAMPLES, values=HILL)
    if kind == "a list":
        points = f"{SAMPLES.tolist()}\nvalues = {HILL.tolist()}"
    found = measure_of(f'type = "Tabulated"\npoints = {points}', ON_THE_CIRCLE)
    exact = mf.FourierSeries(cos=[0.5])
    assert np.abs(found.values - exact.pdf(found.points)).max() < 1e-14
    assert found.law.degree == 6
    # a file of a case is one that a repetition asks for
    assert (folder / "my.npz").is_file()


def test_tokens_are_read_from_numpy_files(folder):
    points, weights = mf.Uniform(3).sample(5, 1), np.arange(1.0, 6.0)
    np.save(folder / "a.npy", points)
    np.savez(folder / "b.npz", points=points, weights=weights)
    tokens = REST.replace(ON_SPHERE, 'type = "Particles"')
    for file, expected in {"a.npy": np.full(5, 0.2), "b.npz": weights / 15.0}.items():
        law = f'type = "PointCloud"\npoints = "{file}"\nunit_mass = true'
        found = measure_of(law, tokens)
        assert np.abs(found.points - points).max() < 1e-15
        assert np.abs(found.weights - expected).max() < 1e-15
    with pytest.raises(CaseError, match=r"has weights: law\.weights must be left out"):
        measure_of('type = "PointCloud"\npoints = "b.npz"\nweights = [1.0]', tokens)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", b"no array", "'a.npy': must be an NPY file of numbers, but a.npy: "),
        ("a.npz", b"no archive", "'a.npz': must be an NPZ file of numbers, but a.npz: "),
        ("a.npy", np.ones(3), r"must hold a table of d >= 2 columns, but a.npy has shape \(3,\)"),
        ("a.npy", np.array([["a", "b"]]), "table must be an array of real numbers, got dtype <U1"),
        ("a.npy", np.array([[None, 1]]), "but a.npy: its dtype is object; numbers are allowed"),
        ("a.npz", np.ones(3), r"must hold an array points, but a.npz has \['arr_0'\]"),
        ("a.npy", np.ones((3, 2)), r"law.points = 'a.npy': points must have rows of norm 1 \(with"),
    ],
)
def test_numpy_files_that_are_none_are_refused(folder, name, content, message):
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)
    else:
        (np.save if name.endswith("y") else np.savez)(folder / name, content)
    with pytest.raises(CaseError, match=message):
        measure_of(f'type = "PointCloud"\npoints = "{name}"', ON_THE_CIRCLE)


def test_an_archive_holds_no_objects(folder):
    np.savez(folder / "a.npz", points=np.array([[None, 1]]))
    with pytest.raises(CaseError, match=r"NPZ file of numbers, but a\.npz: its dtype is object"):
        measure_of('type = "PointCloud"\npoints = "a.npz"', ON_THE_CIRCLE)


def test_an_archive_is_as_large_as_what_is_packed(folder, monkeypatch):
    np.savez_compressed(folder / "a.npz", points=np.zeros((1000, 2)))
    assert (folder / "a.npz").stat().st_size < 1000
    monkeypatch.setattr("meanfield.cli.tables._LARGEST_CLOUD", 10_000)
    with pytest.raises(CaseError, match=r"NPZ file of at most 10000 bytes, but a.npz has 16"):
        measure_of('type = "PointCloud"\npoints = "a.npz"', ON_THE_CIRCLE)


def test_a_density_by_values_needs_them():
    with pytest.raises(
        CaseError, match=r"law\.values is missing: it must be a number >= 0 for each"
    ):
        measure_of('type = "Tabulated"\npoints = [0.0, 2.0, 4.0]', ON_THE_CIRCLE)


@pytest.mark.parametrize("ending", ["safetensors", "pt", "h5", "zarr", "parquet", "txt"])
def test_files_of_points_that_are_not_read_are_named(ending, tmp_path):
    """Such a file was read as CSV, and its first bytes were said to be no header."""
    (tmp_path / f"tokens.{ending}").write_text("x,y\n1.0,0.0\n")
    text = f"[law]\ntype = 'PointCloud'\npoints = 'tokens.{ending}'\n{REST}"
    case = case_from_text(text, "a.toml", tmp_path)
    with pytest.raises(CaseError, match=r"with the ending \.csv, \.npy, \.npz: write") as caught:
        case.build()
    assert len(str(caught.value).splitlines()) == 1
    assert f"law.points = 'tokens.{ending}': must be a CSV" in str(caught.value)
