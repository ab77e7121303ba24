"""Cases as editors, options and result files see them."""

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.cli.case import (
    case_from_text,
    case_of,
    default_case_text,
    json_schema,
    json_schema_text,
    read_case,
    setting,
)
from meanfield.cli.commands import main
from meanfield.evolution import solve
from meanfield.exceptions import CaseError
from tests.cli import test_case
from tests.cli import test_commands as test_cli
from tests.handmade import CASE, stopped_by_checkpoint
from tests.refusals.bad_cases import BEYOND_A_SCHEMA, SECTIONS, SEVERAL, cases, toml

HEADS = """
[law]
type = "Uniform"
dim = 2
[measure]
type = "Particles"
n = 8
[dynamics]
type = "Attention"
beta = 2
heads = [{ Q = [[1, 0], [0, 2]], V = -1 }, { K = 0.5 }]
[run]
t_end = 0.5
save_at = 2
rng = 3
"""
LAYERS = """
[law]
type = "Uniform"
dim = 2
[measure]
type = "Particles"
n = 8
[run]
t_end = 1.0
[dynamics]
type = "LayerMap"
step = 0.25
[dynamics.dynamics]
type = "Layers"
step = 0.5
[[dynamics.dynamics.layers]]
beta = 1.5
[[dynamics.dynamics.layers]]
type = "FeedForward"
W = [[0.0], [1.0]]
A = [[2.0, 0.0]]
activation = "tanh"
[[dynamics.dynamics.layers]]
type = "Attention"
beta = 2.0
heads = [{ V = -1.0 }]
[[dynamics.dynamics.layers]]
type = "USA"
beta = 0.5
sign = -1
"""
NOISY = test_cli.PARTICLES.replace("beta = 1.0", "beta = 1.0\nnoise = 0.1")
MONITORED = f"{test_cli.CIRCLE}{test_case.MONITORS}"
CASES = {"heads": HEADS, "layers": LAYERS, "noise": NOISY, "monitors": MONITORED}
GOOD = CASES | test_cli.CASES | {"bundled": default_case_text()}


# numbers are looked at, and no pictures
pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def validator():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_command_prints_the_schema(capsys):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_the_schema_takes_what_the_code_takes(validator, text):
    case_from_text(text, "good").build()
    validator.validate(tomllib.loads(text))


def test_the_schema_refuses_what_one_key_is_enough_to_refuse(validator):
    def passed(cases):
        return [changes for changes, _ in cases if validator.is_valid(tomllib.loads(toml(changes)))]

    assert passed(cases(SECTIONS)) == []
    assert passed(cases(BEYOND_A_SCHEMA)) == [changes for changes, _ in cases(BEYOND_A_SCHEMA)]
    # the first has a number that is too large by itself
    assert passed(SEVERAL) == [changes for changes, _ in SEVERAL[1:]]


def objects(schema):
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def test_the_schema_tells_everything():
    """Every table is closed and described, and so is every key; nothing may be null."""
    found = list(objects(json_schema()))
    titles = {one["title"] for one in found}
    assert {"LayersTable", "FeedForwardTable", "AttentionTable", "SATable", "USATable"} < titles
    assert {"MixtureTable", "ParticlesTable", "RunTable", "DistanceToTable", "OutputTable"} < titles
    for one in found:
        assert one["additionalProperties"] is False, one["title"]
        assert one["description"]
        for key, about in one["properties"].items():
            assert about.get("description"), (one["title"], key)
    assert '"null"' not in json_schema_text()


LIMITS = [
    ("Uniform", "dynamics.beta", -1e-9, 0),
    ("Uniform", "dynamics.noise", -1e-9, 0.0),
    ("Uniform", "dynamics.sign", 0, -1),
    ("Uniform", "measure.space.lmax", 2, 3),
    ("Uniform", "measure.space.lmax", 2048, 15),
    ("Uniform", "run.t_end", 0, 1e-9),
    ("Uniform", "run.rtol", 2e-14, 3e-14),
    ("Uniform", "run.rtol", 1.1e-2, 1e-2),
    ("Uniform", "run.atol", 0, 1e-30),
    ("Uniform", "measure.tail_tol", 0.9e-15, 1e-15),
    ("Uniform", "measure.tail_tol", 1.1e-2, 1e-2),
    ("Uniform", "run.save_at", 0, 1),
]


@pytest.mark.parametrize(("name", "key", "bad", "good"), LIMITS)
def test_ranges_of_the_schema_are_those_of_the_code(validator, name, key, bad, good):
    text = f'[law]\ntype = "{name}"\n{test_case.REST}'

    def run(value):
        case = case_from_text(text, "a.toml", settings={key: value})
        measure, dynamics, keywords = case.build()
        with case.errors("run"):
            solve(measure, dynamics, **keywords | {"t_end": min(1e-9, case.tables.run.t_end)})
        return tomllib.loads(case.to_toml())

    validator.validate(run(good))
    with pytest.raises(CaseError, match=f"{key} must be"):
        run(bad)
    raw = tomllib.loads(text)
    table, _, one = key.partition(".")
    raw[table][one] = bad
    assert not validator.is_valid(raw)


def test_layers_of_a_case():
    measure, dynamics, keywords = case_from_text(LAYERS, "a").build()
    layers = dynamics.dynamics.layers
    assert [layer.name for layer in layers] == ["SA", "FeedForward", "Attention", "USA"]
    assert (dynamics.step, dynamics.simplest.depth, layers[3].sign) == (0.25, 1.0, -1)
    feed = layers[1]
    assert (feed.activation, np.asarray(feed.W).tolist()) == ("tanh", [[0.0], [1.0]])
    sol = solve(measure, dynamics, **keywords)
    assert sol.status == "finished"
    same = mf.Layers(
        [
            mf.SA(1.5),
            mf.FeedForward([[0.0], [1.0]], [[2.0, 0.0]], activation="tanh"),
            mf.Attention(2.0, [mf.Head(V=-1.0)]),
            mf.USA(0.5, sign=-1),
        ],
        step=0.5,
    )
    assert dynamics == mf.LayerMap(same, step=0.25)
    other = mf.evolve(measure, mf.LayerMap(same, step=0.25), 1.0)
    assert np.array_equal(sol.final.points, other.final.points)


def leaves(table, path=()):
    for key, value in table.items() if isinstance(table, dict) else enumerate(table):
        if isinstance(key, str):
            yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*path, key))


def shown(path):
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


@pytest.mark.slow
def test_typos():
    """A letter lost in a key, or a value of another kind: file, key, value, what is allowed."""
    count = 0
    for text in GOOD.values():
        for path in list(leaves(tomllib.loads(text))):
            if path[0] == "monitors" and len(path) == 2:
                continue
            for typo in "key", "value":
                raw = tomllib.loads(text)
                here = raw
                for part in path[:-1]:
                    here = here[part]
                if typo == "key":
                    here[path[-1][:-1] + "_"] = here.pop(path[-1])
                else:
                    here[path[-1]] = 1.5 if isinstance(here[path[-1]], (str, dict)) else "odd"
                told = message_of(raw)
                assert told.startswith("typo.toml: "), told
                if typo == "key" and path[-1] != "type":
                    wrong = shown((*path[:-1], path[-1][:-1] + "_"))
                    assert f"{wrong} is an unknown key: the keys here are " in told, told
                    assert path[-1] in told.rpartition(" are ")[2]
                elif typo == "value":
                    assert f": {shown(path)} must be " in told, told
                    assert "got " in told
                else:
                    assert shown(path) in told or "unknown key" in told, told
                count += 1
    assert count >= 150


def message_of(raw):
    import tomli_w

    with pytest.raises(CaseError) as caught:
        case_from_text(tomli_w.dumps(raw), "typo.toml").build()
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=5", 5),
        ("a.b = 1e-3", 1e-3),
        ("a.b=true", True),
        ("a.b=SA", "SA"),
        ('a.b="SA"', "SA"),
        ("a.b=[1, 2]", [1, 2]),
        ("a.b={x = 1}", {"x": 1}),
        ("a.b=flow-map", "flow-map"),
        ("a.b=../my.csv", "../my.csv"),
        ("a.b='a=b'", "a=b"),
    ],
)
def test_settings(text, value):
    key, found = setting(text)
    assert key == "a.b"
    assert found == value
    assert type(found) is type(value)


BETA = "case.toml with --set dynamics.beta="
BAD_SETTINGS = [
    ("dynamics.beta", "--set dynamics.beta: setting must be KEY=VALUE, as dynamics.b"),
    ("dynamics.beta=", "--set dynamics.beta=: value must be one of TOML, as 5, true"),
    ("dynamics.beta=[1", "value must be one of TOML, as 5, true, [1, 2] or"),
    ("dynamics.beta=a b", "or a bare word, got 'a b'"),
    ("dynamics.beta=1\nb = 2", "value must be one of TOML"),
    ("=5", "key must be names with dots between, as dynamics.beta or"),
    ("dynamics..beta=5", "key must be names with dots between"),
    (
        "dynamics.bta=5",
        "case.toml with --set dynamics.bta=5: dynamics.bta is an unknown key: the k",
    ),
    ("dynamics.bta=5", "type, beta, sign, noise, mask; did you mean dynamics.beta?"),
    ("beta=4", "beta is an unknown key: the keys here are law, measure, dynamics, run, output, mo"),
    ("beta=4", "output, monitors; did you mean dynamics.beta?"),
    ("sav_at=4", "monitors; did you mean run.save_at?"),
    ("dynamic.beta=5", "dynamic is an unknown key: the keys here are law, me"),
    ("dynamics.beta=high", f'{BETA}"high": dynamics.beta must be a valid number, got'),
    ("dynamics.beta=-1", f"{BETA}-1: dynamics.beta must be a finite number >= 0 and <= "),
    ("run.t_end.x=1", "case.toml: run.t_end must be a table for run.t_end.x, got 0.2"),
    ("law.cos[3]=1", "case.toml: law.cos must be a list of more than 3 for law.cos[3]"),
    ("law.phases.0=1", "law.phases must be a list of more than 0 for law.phases.0, got none"),
    ("measure.space.kmax=9", "measure.space.kmax is an unknown key: the keys here are type, n"),
]


@pytest.mark.parametrize(("text", "message"), BAD_SETTINGS)
def test_bad_settings(folder, capsys, text, message):
    (folder / "case.toml").write_text(test_cli.CIRCLE)
    assert main(["run", "case.toml", "--set", text]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert message in said
    assert [path.name for path in folder.iterdir()] == ["case.toml"]


def test_a_key_is_set_once(folder, capsys):
    (folder / "case.toml").write_text(test_cli.CIRCLE)
    argv = ["run", "case.toml", "--set", "dynamics.beta=1", "--set", "dynamics.beta=2"]
    assert main(argv) == 2
    assert "--set must have each key once, got dynamics.beta twice" in capsys.readouterr().err


@pytest.mark.slow
def test_the_text_that_is_kept_is_the_one_that_was_run(folder):
    (folder / "case.toml").write_text(f"# mine\n{test_cli.CIRCLE}")
    options = ["--set", "dynamics.beta=2", "--set", "law.cos[0]=0.25", "--set", "run.rtol=1e-8"]
    options += ["--set", 'measure.space={type = "Circle", n = 64}', "--set", "dynamics.type=SA"]
    assert main(["run", "case.toml", "-q", *options]) == 0
    sol = mf.load("run.nc")
    raw = tomllib.loads(test_cli.CIRCLE)
    raw["dynamics"] |= {"beta": 2, "type": "SA"}
    raw["law"]["cos"] = [0.25]
    raw["run"]["rtol"] = 1e-8
    raw["measure"]["space"]["n"] = 64
    assert tomllib.loads(sol.case) == raw
    assert sol.dynamics == mf.SA(2.0)
    assert (sol.measures[0].space.size, sol.dataset.attrs["rtol"]) == (64, 1e-8)
    # without any the text is the file's own, comments and all
    assert main(["run", "case.toml", "-q", "--force"]) == 0
    assert mf.load("run.nc").case.startswith("# mine")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["case.toml", "run.nc"])
def test_limit_with_settings(folder, case):
    (folder / "case.toml").write_text(test_cli.CIRCLE)
    assert main(["run", "case.toml", "-q"]) == 0
    argv = ["study", "mean-field-limit", case, "--n", "20,40", "--repeats", "2", "-q"]
    assert main([*argv, "--set", "run.save_at=2"]) == 0
    with xr.open_dataset("mean-field-limit.nc", engine="h5netcdf") as found:
        assert found.sizes["t"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["circle", "particles", "noise", "heads", "layers", "cloud"])
def test_a_run_is_repeated_from_its_result(folder, capsys, name):
    text = (GOOD | {"cloud": CLOUD})[name]
    (folder / "case.toml").write_text(text)
    written_cloud(folder, 0)
    assert main(["run", "case.toml", "-q", "--set", "run.save_at=2"]) == 0
    (folder / "case.toml").unlink()
    assert main(["run", "run.nc"]) == 0
    said = capsys.readouterr().out
    assert "all numbers agree with the earlier run, bit for bit" in said
    assert "wrote run-again.nc, run-again.png" in said
    one, other = mf.load("run.nc"), mf.load("run-again.nc")
    assert one.dataset.identical(other.dataset)
    assert one.case == other.case
    for mu, nu in zip(one.measures, other.measures, strict=True):
        for array in "points", "weights", "coefficients":
            assert np.array_equal(getattr(mu, array, 0), getattr(nu, array, 0))
    # another seed is another run, and is said to be none of the same
    if name == "noise":
        assert main(["run", "run.nc", "-o", "c.nc", "--set", "run.rng=9"]) == 0
        assert "bit for bit" not in capsys.readouterr().out
        assert not np.array_equal(mf.load("c.nc").final.points, one.final.points)


@pytest.mark.slow
def test_other_numbers_are_told(folder, capsys, monkeypatch):
    (folder / "case.toml").write_text(test_cli.CIRCLE)
    assert main(["run", "case.toml", "-q"]) == 0
    sol = mf.load("run.nc")
    sol.dataset["energy"] = sol.dataset["energy"] * (1.0 + 1e-15)
    sol.save("run.nc")
    assert main(["run", "run.nc"]) == 0
    assert "numbers differ from those of the earlier run: energy" in capsys.readouterr().out


CLOUD = """
[law]
type = "PointCloud"
points = "my.csv"
bandwidth = 0.2
[measure]
type = "Density"
space = { type = "Sphere", lmax = 15 }
[dynamics]
beta = 1.0
[run]
t_end = 0.1
save_at = 2
"""


def written_cloud(folder, seed, name="my.csv"):
    points = mf.Uniform(3).sample(6, np.random.default_rng(seed))
    np.savetxt(folder / name, points, delimiter=",", header="x,y,z", comments="")


@pytest.mark.slow
def test_tokens_that_are_gone_or_changed(folder, capsys):
    (folder / "cases").mkdir()
    (folder / "cases" / "cloud.toml").write_text(CLOUD)
    written_cloud(folder / "cases", 0)
    assert main(["run", "cases/cloud.toml", "-q"]) == 0
    assert main(["run", "run.nc", "-q"]) == 0
    digests = json.loads(mf.load("run.nc").dataset.attrs["token_files"])
    assert list(digests) == ["my.csv"]
    assert len(digests["my.csv"]) == 64
    # beside the result it is found, too
    (folder / "cases" / "my.csv").rename(folder / "my.csv")
    assert main(["run", "run.nc", "-q"]) == 0
    written_cloud(folder, 1)
    assert main(["run", "run.nc", "-q"]) == 2
    said = capsys.readouterr().err
    assert "law.points = 'my.csv' must be the file that the run had, of SHA-256" in said
    (folder / "my.csv").unlink()
    assert main(["run", "run.nc", "-q"]) == 2
    said = capsys.readouterr().err
    assert (
        "the case in run.nc: law.points = 'my.csv' must be the file that the run had, but" in said
    )
    assert "is gone: put it there, or set law.points to where it is" in said
    assert len(said.splitlines()) == 1
    written_cloud(folder, 0, "moved.csv")
    moved = ["--set", f"law.points={folder / 'moved.csv'}"]
    assert main(["run", "run.nc", "-q", "--force", *moved]) == 0


def test_a_run_without_a_case_has_none():
    mu = mf.Density(mf.Circle(32), mf.Uniform(2))
    sol = mf.evolve(mu, mf.SA(1.0), 0.1, 1)
    with pytest.raises(CaseError, match="it must be of a run from a case file"):
        case_of(sol, Path("run.nc"))


def git(*arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *who, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_of_a_case_is_kept(folder, monkeypatch):
    (folder / "case.toml").write_text(test_cli.PARTICLES)

    def commit(file="case.toml"):
        return read_case(file).build()[2]["about"].get("git_commit", "")

    assert commit() == ""
    git("init")
    assert commit() == ""
    git("add", "case.toml")
    git("commit", "-m", "one")
    head = git("rev-parse", "HEAD")
    assert commit() == head
    assert main(["run", "case.toml", "-q"]) == 0
    about = mf.load("run.nc").dataset.attrs
    assert (about["git_commit"], about["rng"]) == (head, 1)
    (folder / "deep" / "down").mkdir(parents=True)
    shutil.copy("case.toml", "deep/down")
    assert commit("deep/down/case.toml") == head
    # what is repeated comes from where the first run came from
    git("commit", "--allow-empty", "-m", "two")
    assert main(["run", "run.nc", "-q"]) == 0
    assert mf.load("run-again.nc").dataset.attrs == about
    # branches in one list, no branch, and a second work tree
    git("branch", "a/b")
    git("pack-refs", "--all")
    assert commit() == git("rev-parse", "HEAD")
    git("checkout", "--detach", "HEAD~")
    assert commit() == head
    git("worktree", "add", "beside", "a/b")
    assert commit("beside/case.toml") == git("rev-parse", "a/b") != head
    git("-C", "beside", "commit", "--allow-empty", "-m", "three")
    assert commit("beside/case.toml") == git("rev-parse", "a/b")
    monkeypatch.setenv("PATH", "")
    assert commit() == head


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_repository_runs_nothing(folder, monkeypatch):
    """Its own settings name programs, which git runs where it looks for changes."""
    (folder / "case.toml").write_text(test_cli.PARTICLES)
    planted = folder / "planted"
    planted.write_text("#!/bin/sh\ntouch planted-was-run\ncat\n")
    planted.chmod(0o755)
    (folder / ".gitattributes").write_text("* filter=planted diff=planted\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    for key in (
        *("filter.planted.clean", "filter.planted.smudge", "filter.planted.process"),
        *("diff.planted.command", "diff.external", "core.fsmonitor", "core.pager"),
    ):
        git("config", key, str(planted))
    # a file that looks changed is put through its filter
    os.utime("case.toml", (0, 0))
    # as on Windows, where a program of the present folder comes first
    shutil.copy(planted, "git")
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.environ['PATH']}")
    assert main(["run", "case.toml", "-q"]) == 0
    assert len(mf.load("run.nc").dataset.attrs["git_commit"]) == 40
    assert not (folder / "planted-was-run").exists()


@pytest.mark.parametrize(
    "head",
    ["no commit", "ref: refs/heads/main", "ref: ../../secret", "\udc80".encode(errors="replace")],
)
def test_a_repository_that_tells_no_commit(head, folder):
    (folder / "case.toml").write_text(test_cli.PARTICLES)
    (folder / ".git").mkdir()
    head = head if isinstance(head, bytes) else head.encode()
    (folder / ".git" / "HEAD").write_bytes(head)
    (folder / "secret").write_text("private")
    assert "git_commit" not in read_case("case.toml").build()[2]["about"]


@pytest.mark.slow
def test_a_resumed_run_keeps_where_it_comes_from(folder):
    (folder / "case.toml").write_text(test_cli.PARTICLES)
    assert main(["run", "case.toml", "-q", "-o", "whole.nc"]) == 0
    with stopped_by_checkpoint(0.05):
        assert main(["run", "case.toml", "-q"]) == 130
    assert mf.load("run.nc").dataset.attrs["rng"] == 1
    assert main(["resume", "run.nc", "-q"]) == 0
    whole, resumed = mf.load("whole.nc").dataset, mf.load("run.nc").dataset
    assert resumed.attrs == whole.attrs


def test_about_is_words_and_numbers():
    mu = mf.Density(mf.Circle(32), mf.Uniform(2))
    with pytest.raises(ValueError, match="about must map names to words and numbers, got 'a': "):
        solve(mu, mf.SA(1.0), 0.1, about={"a": [1]})
    sol = solve(mu, mf.SA(1.0), 0.1, 1, about={"note": "mine", "t_end": 3})
    assert (sol.dataset.attrs["note"], sol.dataset.attrs["t_end"]) == ("mine", 0.1)


def test_a_table_that_gets_another_type_keeps_what_the_new_one_has():
    case = case_from_text(CASE, "a.toml", settings={"measure.type": "FlowMap"})
    assert tomllib.loads(case.to_toml())["measure"] == {"type": "FlowMap"}
    case = case_from_text(CASE, "a.toml", settings={"dynamics.type": "USA"})
    assert tomllib.loads(case.to_toml())["dynamics"] == {"type": "USA", "beta": 1.0}
    # what is set beside it is meant
    for settings in (
        {"measure.type": "FlowMap", "measure.n": 9},
        {"measure.n": 9, "measure.type": "FlowMap"},
    ):
        with pytest.raises(
            CaseError, match=r"measure\.n is an unknown key: the keys here are type, tol"
        ):
            case_from_text(CASE, "a.toml", settings=settings)


def test_a_list_of_laws_keeps_its_others():
    text = CASE.replace(
        'law = {type = "FourierSeries", cos = [0.5]}',
        'law.type = "Mixture"\nlaw.laws = [{type = "Uniform"}, {type = "Uniform", dim = 2}]',
    )
    case = case_from_text(text, "a.toml", settings={"law.laws[0].type": "FourierSeries"})
    found = tomllib.loads(case.to_toml())["law"]["laws"]
    assert found == [{"type": "FourierSeries"}, {"type": "Uniform", "dim": 2}]
