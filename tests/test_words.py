"""One thing, one word: docs/words.md against signatures, the schema, datasets and files."""

import inspect
import re
from pathlib import Path

import pytest
import xarray as xr

import meanfield as mf
from meanfield.cli import text
from meanfield.cli.case import json_schema
from meanfield.dynamics import KNOWN
from meanfield.typing import names_for_rooms
from tests.small_studies import SLOW, STUDIES, study
from tests.tiers import rows

ROOT = Path(__file__).parent.parent
BUMP = mf.FourierSeries(cos=[0.5])
ROUND = mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0)
# names that are gone for good, and stand in the changelog only
GONE = [
    *("cluster_radius", "density_at_nodes", "energy_unit", "form_extremisers", "form_maximiser"),
    *("form_minimiser", "fourier-series", "interaction_energy", "point-cloud", "random_heads"),
    *("realisations", "sinkhorn_energy", "von-mises-fisher", "zonal-series"),
]


def table(*sections: str) -> list[str]:
    """The words of some sections of the page."""
    text = (ROOT / "docs" / "words.md").read_text(encoding="utf-8")
    parts = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    rows = [row for name in sections or parts for row in parts[name].split("\n")]
    cells = [row.split("|")[1] for row in rows if row.startswith("| `")]
    return [word for cell in cells for word in re.findall("`([^`]+)`", cell)]


ARGUMENTS = "Arguments and keys of case files"
VARIABLES = "Numbers of a run, over `t`", "What else a file stores", "Studies"


GRID = "A density on a grid"


def signatures():
    """Each public function, class and method, with its name."""
    for room in (mf, mf.studies, mf.theory, mf.trained, mf.plot):
        for name in room.__all__:
            thing = getattr(room, name)
            if inspect.ismodule(thing):
                continue
            yield f"{room.__name__}.{name}", thing
            members = {*dir(thing)} - names_for_rooms(thing) if inspect.isclass(thing) else ()
            for member in sorted(members):
                own = getattr(thing, member)
                if not member.startswith("_") and (
                    inspect.isfunction(own) or inspect.ismethod(own)
                ):
                    yield f"{room.__name__}.{name}.{member}", own


def arguments() -> dict[str, str]:
    """Each word of a signature, and what the docstring there says of it."""
    found = {}
    for where, thing in signatures():
        if inspect.isclass(thing) and issubclass(thing, (BaseException, tuple)):
            continue
        parameters = inspect.signature(thing).parameters
        for_rooms = names_for_rooms(thing) if inspect.isclass(thing) else set()
        for word, parameter in parameters.items():
            is_one = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if is_one and word not in {"self", *for_rooms} and not word.startswith("_"):
                about = re.search(
                    rf"^{word} : .*\n((?:    .*\n?)+)", inspect.getdoc(thing) or "", re.MULTILINE
                )
                found[word] = " ".join(about[1].split()) if about else where
    return found


def keys(schema: dict) -> set[str]:
    """All keys of case files."""
    found = set(schema.get("properties", {}))
    for one in schema.get("$defs", {}).values():
        found |= keys(one)
    return found


# sections of case files, and what a table alone has
SECTIONS = {"law", "measure", "dynamics", "run", "monitors", "output", "type", "file"}


OBJECTS = [
    *(mf.SA(1.0), mf.SA(1.0) + mf.USA(1.0), mf.Attention(1.0, [mf.Head()]), mf.Kuramoto(1.0)),
    *(mf.FeedForward([[1.0], [0.0]], [[1.0, 0.0]]), mf.Schedule([0.0, 1.0], [1.0, 2.0]), mf.Head()),
    *(mf.Circle(8), mf.Sphere(3), mf.Zonal(4, 3), mf.Density(mf.Circle(8), mf.Uniform(2))),
    *(mf.FlowMap(BUMP), mf.Particles([[1.0, 0.0]])),
]


@pytest.mark.parametrize("thing", OBJECTS, ids=lambda thing: type(thing).__name__)
def test_completion_lists_what_users_need(thing):
    hidden = names_for_rooms(type(thing))
    assert hidden
    assert hidden - {*object.__dir__(thing)} == set()
    assert hidden & {*dir(thing)} == set()
    # fields of a user's object are never among them
    assert hidden & {*getattr(thing, "__match_args__", ())} == set()


def has_words(cls: type, name: str, part: object) -> bool:
    """Whether a member has a docstring, or stands under "Attributes" of a class that states it."""
    stated = re.compile(rf"^ +(\w+, )*{name}(, \w+)* : ", re.MULTILINE)
    return bool(inspect.getdoc(part)) or any(
        stated.search(base.__doc__ or "") for base in cls.__mro__
    )


def test_all_that_is_public_has_words_of_its_own_or_of_its_contract():
    """As D102 of ruff, which does not see that an override has those of the base."""
    kinds = [kind for kind in (getattr(mf, name) for name in mf.__all__) if inspect.isclass(kind)]
    without = {
        f"{kind.__name__}.{name}"
        for kind in kinds
        for name, part in inspect.getmembers(kind)
        if not name.startswith("_") and (inspect.isfunction(part) or isinstance(part, property))
        if not has_words(kind, name, part)
    }
    assert without == set()


def test_every_word_of_a_signature_or_a_case_is_in_the_table():
    known, here = set(table(ARGUMENTS)), arguments()
    assert len(here) > 100
    missing = [f"| `{word}` | {here[word]} |" for word in here if word not in known]
    assert not missing, "\n".join(["rows for docs/words.md, if no word there will do:", *missing])
    assert keys(json_schema()) - known - SECTIONS == set()


def test_every_word_of_the_table_is_used():
    assert set(table(ARGUMENTS)) - set(arguments()) - keys(json_schema()) == set()
    listed = table(ARGUMENTS)
    assert sorted(listed) == sorted(set(listed))


RUNS = {
    "density": lambda: mf.evolve(mf.Density(mf.Circle(32), BUMP), mf.SA(1.0), 0.1, 1),
    "noise": lambda: mf.evolve(mf.Density(mf.Circle(32), BUMP), mf.SA(1.0, noise=0.1), 0.1, 1),
    "S^2": lambda: mf.evolve(mf.Density(mf.Sphere(15), ROUND), mf.SA(1.0), 0.1, 1),
    "line": lambda: mf.evolve(mf.FlowMap(BUMP), mf.SA(1.0), 0.1, 1),
    "mesh": lambda: mf.evolve(
        mf.FlowMap(mf.Mixture([ROUND, mf.VonMisesFisher([0.0, 0.6, 0.8], 1.0)]), tol=1e-6),
        mf.SA(1.0),
        0.05,
        1,
    ),
    "tokens": lambda: mf.evolve(mf.Particles.sample(ROUND, 9, rng=0), mf.SA(1.0), 0.1, 1),
    "oscillators": lambda: mf.evolve(
        mf.Oscillators([0.0, 1.0, 2.0], [0.0, 0.1, 0.2]), mf.Kuramoto(1.0), 0.1, 1
    ),
    "phases": lambda: mf.evolve(
        mf.OscillatorDensity(mf.Circle(16), BUMP, [0.0, 0.1]), mf.Kuramoto(1.0), 0.1, 1
    ),
}


@pytest.mark.parametrize("name", rows(RUNS, *{*RUNS} - {"mesh"}))
def test_variables_of_runs_and_files_are_in_the_table(name, tmp_path):
    sol, known = RUNS[name](), set(table(*VARIABLES[:2]))
    assert {*map(str, sol.dataset.variables), *map(str, sol.dataset.dims)} <= known
    assert {"t", "mass"} <= {*map(str, sol.dataset.variables)}
    sol.save(tmp_path / "run.nc")
    with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as stored:
        assert {*map(str, stored.variables), *map(str, stored.dims)} <= known
    if sol.final.has_density:
        ds = sol.to_dataset(16)
        assert {*map(str, ds.variables), *map(str, ds.dims)} <= {*known, *table(GRID)}


PRINTED = "What commands print"


@pytest.mark.parametrize("name", rows(RUNS, *{*RUNS} - {"mesh"}))
def test_what_a_run_prints_is_in_the_table(name, tmp_path):
    sol, known = RUNS[name](), set(table(PRINTED))
    # a variable or an attribute of the dataset stands under its own name
    variables = {str(word).replace("_", " ") for word in (*sol.dataset, *sol.dataset.attrs, "t")}
    heads = text.table(sol).splitlines()[0]
    for word in known | variables | {str(word) for word in sol.dataset}:
        heads = re.sub(rf"(?<!\S){re.escape(word)}(?!\S)", "", heads)
    assert heads.split() == []
    lines = {word.replace("_", " ") for word in text.summary(sol, tmp_path / "run.nc")}
    assert lines - variables <= known


@pytest.mark.parametrize("name", rows(STUDIES, *{*STUDIES} - SLOW))
def test_variables_of_studies_are_in_the_table(name):
    data = study(name)
    assert len(data.data_vars) > 1
    assert {*map(str, data.variables), *map(str, data.dims)} <= set(table(*VARIABLES))


def test_the_changelog_is_one_page():
    """It says what the release has; git has the rest."""
    assert len((ROOT / "CHANGELOG.md").read_bytes()) <= 6000


def test_names_that_are_gone_stand_nowhere():
    rooms = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / room for room in ("meanfield", "docs", "validation")),
    ]
    files = [path for room in rooms for path in ([room] if room.is_file() else room.rglob("*"))]
    texts = [p for p in files if p.suffix in {".py", ".md", ".toml", ".json"} and p.is_file()]
    assert len(texts) > 150
    pattern = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in GONE))
    found = {
        str(path.relative_to(ROOT)): pattern.findall(path.read_text(encoding="utf-8"))
        for path in texts
        if "results" not in path.parts and "generated" not in path.parts
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_few_names_are_public():
    """But for kinds of dynamics, and the arguments of each."""
    kinds = {kind.__name__ for kind in KNOWN}
    assert len({*mf.__all__} - kinds) <= 56
    members = set()
    for cls in (getattr(mf, name) for name in mf.__all__):
        bases = inspect.getmro(cls) if inspect.isclass(cls) else ()
        own = {
            base: {*vars(base), *vars(base).get("__annotations__", {})}
            for base in bases
            if base.__module__.startswith("meanfield")
        }
        names = {name for names in own.values() for name in names if name[0] != "_"}
        for name in names - names_for_rooms(cls) if bases else ():
            # an override is the same member
            definer = [base for base, names in own.items() if name in names][-1]
            members.add((definer.__qualname__, name))
    assert 100 < len([owner for owner, _ in members if owner not in kinds]) <= 163
