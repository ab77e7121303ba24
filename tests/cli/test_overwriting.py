"""A command replaces what was made from the same case, and asks for --force where it was not."""

import json
import os
import re
import shutil
import signal
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.cli import runs
from meanfield.cli.case import Case, case_from_text, read_case
from meanfield.cli.commands import main
from meanfield.cli.sweeps import load_sweep
from meanfield.evolution import loop, netcdf, solve
from meanfield.evolution.files import is_made_from
from meanfield.evolution.run import Plan, Run
from tests.children import hearing_ctrl_c
from tests.handmade import CASE

OTHER = CASE.replace("t_end = 0.2", "t_end = 0.1")
REFUSED = r"meanfield: {} must be a new file or one of the same case, got '{}': --force .*\n"


@pytest.fixture
def folder(folder):
    Path("case.toml").write_text(CASE)
    Path("other.toml").write_text(OTHER)
    return folder


def evolved(case="case.toml"):
    measure, dynamics, keywords = read_case(case).build()
    return solve(measure, dynamics, **keywords)


def blank_figures(patch):
    from matplotlib.figure import Figure

    patch.setattr("meanfield.plot.solution", lambda solution, **_: Figure((1, 1)))


@pytest.fixture
def painted(monkeypatch):
    """Figures are blank ones, which are drawn in no time."""
    blank_figures(monkeypatch)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# what writes, what it is repeated as, and what it is another of
COMMANDS = {
    "run": (["run", "{case}.toml", "-o", "out.nc", "-q"], ["out.nc", "out.png"]),
    "plot": (["plot", "{case}.nc", "--figure", "out.svg"], ["out.svg"]),
    "plot pdf": (["plot", "{case}.nc", "--figure", "out.pdf"], ["out.pdf"]),
    "report": (["report", "{case}.nc", "--output", "out.html"], ["out.html"]),
    "movie": (["movie", "{case}.nc", "--figure", "out.gif", "--frames", "1"], ["out.gif"]),
    "sweep": (["sweep", "{case}.toml", "--grid", "dynamics.beta=1,2", "-o", "out.nc"], ["out.nc"]),
}


@pytest.mark.slow
@pytest.mark.usefixtures("painted")
@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_is_replaced_and_another_is_not(name, folder, capsys):
    command, written = COMMANDS[name]
    for case in "case", "other":
        evolved(f"{case}.toml").save(f"{case}.nc")

    def call(case, *more):
        return main([*(word.format(case=case) for word in command), *more])

    assert call("case") == 0
    made = contents(folder)
    assert set(written) <= set(made)
    source = read_case("case.toml").digest()
    if name != "sweep":
        assert all(is_made_from(Path(file), source) for file in written)
    assert call("case") == 0
    capsys.readouterr()
    before = contents(folder)
    assert call("other") == 2
    key = next(key for key in ("--figure", "--output") if key in [*command, "--output"])
    assert re.fullmatch(REFUSED.format(key, re.escape(written[0])), capsys.readouterr().err)
    assert contents(folder) == before
    assert call("other", "--force") == 0
    assert contents(folder)[written[0]] != before[written[0]]
    # a file of the user's own
    Path(written[-1]).write_text("mine")
    if len(written) > 1:
        # the other is of the case
        key = "the figure beside --output"
    assert call("other") == 2
    assert re.fullmatch(REFUSED.format(key, re.escape(written[-1])), capsys.readouterr().err)
    assert Path(written[-1]).read_text() == "mine"


def test_studies_keep_the_rule(folder, capsys, monkeypatch):
    from matplotlib.figure import Figure

    found = xr.Dataset({"a": ("x", np.ones(2))}, attrs={"verdict": "proved", "statement": "it"})
    monkeypatch.setattr("meanfield.studies.mean_field_limit", lambda *_, **__: found)
    monkeypatch.setattr("meanfield.studies.proposition_3_4", lambda *_, **__: found)
    for name in "mean_field_limit", "proposition_3_4":
        monkeypatch.setattr(f"meanfield.plot.{name}", lambda _: Figure((1, 1)))
    limit = ["study", "mean-field-limit", "case.toml", "-q", "--n"]
    assert [main([*limit, ns]) for ns in ("10,20", "10,20", "10,30")] == [0, 0, 2]
    assert re.fullmatch(
        REFUSED.format("--output", r"mean-field-limit\.nc"), capsys.readouterr().err
    )
    assert main([*limit, "10,30", "--force"]) == 0
    Path("mean-field-limit.nc").unlink()
    assert main([*limit, "10,20"]) == 2
    assert "the figure beside --output must be a new file" in capsys.readouterr().err
    proposition = ["study", "proposition-3.4", "-q", "--beta"]
    assert [main([*proposition, beta]) for beta in ("1", "1", "2")] == [0, 0, 2]
    assert "--output must be a new file or one of the same case" in capsys.readouterr().err
    assert main([*proposition, "2", "--force"]) == 0


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        (lambda text: "# a comment\n" + text.replace("beta = 1.0", "beta = 1"), True),
        (lambda text: text + '[output]\nfile = "elsewhere.nc"\n', True),
        (lambda text: text.replace("beta = 1.0", 'beta = 1.0, type = "SA"'), True),
        (lambda text: text.replace("beta = 1.0", 'beta = 1.0, type = "USA"'), False),
        (lambda text: text.replace("beta = 1.0", "beta = 1.0, noise = 0.0"), True),
        (lambda text: text.replace("n = 32", "n = 64"), False),
        (lambda text: text + '[monitors.w]\nto = "start"\n', False),
    ],
)
def test_what_the_same_case_is(change, is_same):
    one, other = case_from_text(CASE, "one"), case_from_text(change(CASE), "other")
    assert (one.digest() == other.digest()) is is_same


def test_token_files_are_part_of_a_case(folder):
    text = CASE.replace('"FourierSeries", cos = [0.5]', '"PointCloud", points = "a.csv"')
    text = text.replace('"Density", space = {type = "Circle", n = 32}', '"Particles"')
    Path("a.csv").write_text("x,y\n1,0\n0,1\n")
    one = case_from_text(text, "one").digest()
    Path("a.csv").write_text("x,y\n1,0\n0,-1\n")
    assert case_from_text(text, "one").digest() != one


@pytest.mark.slow
def test_the_source_of_a_run_is_that_of_its_parts(folder):
    """Of one from a case, of one without, and after they went through a file."""
    with_case = evolved()
    assert with_case.source == read_case("case.toml").digest()
    sources = {with_case.source}
    for start, end in (
        (with_case.measures[0], 0.2),
        (with_case.measures[0], 0.1),
        (mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.4])), 0.2),
        (mf.FlowMap(mf.FourierSeries(cos=[0.5])), 0.2),
        (mf.Particles.sample(mf.Uniform(3), 5, np.random.default_rng(0)), 0.2),
    ):
        sol = mf.evolve(start, mf.SA(1.0), end, 2)
        sol.save("run.nc")
        loaded = mf.load("run.nc")
        assert loaded.source == sol.source
        assert re.fullmatch("[0-9a-f]{64}", sol.source)
        sources.add(sol.source)
    assert len(sources) == 6
    # what a file tells of itself must not fit every file
    sol.dataset.attrs["source_sha256"] = ""
    assert sol.source in sources


@pytest.mark.usefixtures("painted")
def test_a_run_without_a_case_is_drawn_again(folder):
    mf.evolve(mf.Density(mf.Circle(32), mf.Uniform(2)), mf.SA(1.0), 0.1, 1).save("a.nc")
    assert [main(["plot", "a.nc"]) for _ in range(2)] == [0, 0]


@pytest.mark.slow
@pytest.mark.usefixtures("painted")
def test_a_result_names_no_file_here(folder, capsys):
    """It may come from elsewhere; repeating it writes where the user says."""
    victim = folder / "victim.png"
    victim.write_text("precious")
    inside = folder / "inside"
    inside.mkdir()
    Path("case.toml").write_text(
        CASE + f"[output]\nfile = {json.dumps(str(folder / 'victim.nc'))}\n"
        f"figure = {json.dumps(str(victim))}\n"
    )
    assert main(["run", "case.toml", "-q", "--force"]) == 0
    shutil.move("victim.nc", inside / "result.nc")
    victim.write_text("precious")
    before = set(contents(folder))
    assert main(["run", "inside/result.nc", "-q", "--force"]) == 0
    assert main(["run", "inside/result.nc", "-q", "-o", "mine.nc", "--force"]) == 0
    assert main(["run", "inside/result.nc", "-q", "--set", "output.file=set.nc", "--force"]) == 0
    assert victim.read_text() == "precious"
    new = {"mine.nc", "mine.png", "set.nc", "set.png"}
    assert set(contents(folder)) - before == new
    assert set(contents(inside)) == {"result.nc", "result-again.nc", "result-again.png"}
    for command in "resume", "plot", "report":
        assert main([command, "inside/result.nc"]) == 0
    assert main(["sweep", "inside/result.nc", "--grid", "dynamics.beta=1", "-q"]) == 0
    assert victim.read_text() == "precious"
    assert not (folder / "victim.nc").exists()
    capsys.readouterr()


WORDS, OTHERS = ("b", np.array(["error", "x"], object)), ("c", np.array(["a"] * 3, object))
NO_SWEEPS = [
    {},
    {"status": WORDS},
    {"status": WORDS, "message": OTHERS},
    {"status": ("b", [1, 2]), "message": ("b", [1, 2])},
    {"status": WORDS, "message": WORDS, "final_energy": WORDS},
]


@pytest.mark.parametrize("variables", NO_SWEEPS)
def test_a_file_that_is_called_a_sweep_and_is_none(variables, folder, capsys):
    about = {"format": "meanfield-sweep", "format_version": 2}
    netcdf.write(xr.Dataset(variables, attrs=about), Path("sweep.nc"))
    with pytest.raises(ValueError, match=r"can't read sweep\.nc: \w+ must be there, "):
        load_sweep("sweep.nc")
    assert main(["info", "sweep.nc"]) == 2
    assert re.fullmatch(
        r"meanfield: can't read sweep\.nc: \w+ must be there, .*\n", capsys.readouterr().err
    )


@pytest.mark.slow
@pytest.mark.usefixtures("painted")
def test_a_result_that_is_repeated_stays(folder):
    """Whatever is said of its figure: the default name of a result may be its own."""
    assert main(["run", "case.toml", "-q", "-o", "run.nc"]) == 0
    before = contents(folder)
    assert main(["run", "run.nc", "-q", "--set", "output.figure=mine.png"]) == 0
    assert set(contents(folder)) - set(before) == {"run-again.nc", "mine.png"}
    assert contents(folder)["run.nc"] == before["run.nc"]


# a moment of a run that is to replace another: what is called then, for which time, and of which
# run the file is if it ends there
MOMENTS = {
    "before the case is read": ((runs, "chosen_case", 1), "earlier"),
    "building": ((Case, "build", 1), None),
    "making ready": ((Plan, "system", 1), None),
    "first save": ((Run, "save", 1), None),
    "first checkpoint": ((netcdf, "write", 1), None),
    "on the way": ((loop, "advance", 1), "new"),
    "between two checkpoints": ((netcdf, "write", 2), "new"),
    "at the end": ((netcdf, "write", 3), "new"),
}
REPLACING = ["run", "other.toml", "-q", "-o", "run.nc", "--force"]


@contextmanager
def struck(moment, strike):
    """Inside, this comes before what is called at a moment."""
    owner, name, at = MOMENTS[moment][0]
    original, calls = getattr(owner, name), []

    def call(*given, **named):
        calls.append(name)
        if len(calls) == at:
            strike()
        return original(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        yield


REPLACED = "finished", "interrupted"


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """What each moment leaves: copies of the folder, which nothing tidies up, as after a kill.

    What is replaced is a finished file, or the last two checkpoints of a run.
    """
    place, copies = tmp_path_factory.mktemp("replaced"), tmp_path_factory.mktemp("copies")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.chdir(place)
        blank_figures(patch)
        Path("case.toml").write_text(CASE)
        Path("other.toml").write_text(OTHER)
        for replaced in REPLACED:
            assert main(["run", "case.toml", "-q", "-o", "run.nc", "--force"]) == 0
            before = Path("run.nc").read_bytes()
            if replaced == "interrupted":
                shutil.copy("run.nc", ".run.nc.previous")
            for moment in MOMENTS:
                strike = partial(shutil.copytree, place, copies / f"{moment}, {replaced}")
                stack.enter_context(struck(moment, strike))
            assert main(REPLACING) == 0
            stack.close()
        return SimpleNamespace(copies=copies, before=before, new=evolved("other.toml"))


@pytest.mark.usefixtures("painted")
@pytest.mark.parametrize(
    "replaced", [REPLACED[0], pytest.param(REPLACED[1], marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_is_never_taken_for_the_one_that_it_replaces(
    moment, replaced, left, capsys, monkeypatch
):
    """A program that is killed in truth is in test_resume.py."""
    monkeypatch.chdir(left.copies / f"{moment}, {replaced}")
    name = MOMENTS[moment][1]
    is_earlier = name == "earlier"
    assert (Path("run.nc").exists() and Path("run.nc").read_bytes() == left.before) is is_earlier
    assert Path("run.png").exists() is is_earlier
    status = main(["resume", "run.nc"])
    said = capsys.readouterr()
    if name is None:
        assert (status, said.out) == (2, "")
        assert re.fullmatch(r"meanfield: there is no file run\.nc: .* run it again\n", said.err)
        assert main(["run", "other.toml", "-q", "-o", "run.nc"]) == 0
    else:
        assert status == 0, said.err
        header = said.out.partition("\n")[0]
        assert header.startswith("run.nc: SA(beta=1.0, ")
        assert header.endswith(f" to t = {0.2 if is_earlier else 0.1}")
        assert ("already finished at t = 0.2" in said.out) is is_earlier
    if not is_earlier:
        datasets = [sol.dataset.assign_attrs(case_file="") for sol in (mf.load("run.nc"), left.new)]
        assert datasets[0].identical(datasets[1])
        assert list(Path().glob(".*")) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_while_it_is_built_leaves_what_was_there(number, folder, capsys):
    evolved().save("run.nc")
    Path(".run.nc.previous").write_bytes(b"the checkpoint before")
    before = contents(folder)

    def strike():
        assert not Path("run.nc").exists()
        os.kill(os.getpid(), number)

    with struck("building", strike), hearing_ctrl_c():
        assert main(REPLACING) == 130
    said = "meanfield: interrupted before the run began: run.nc is as it was\n"
    assert capsys.readouterr().err == said
    assert contents(folder) == before


def test_a_case_that_can_not_be_built_costs_no_earlier_run(folder, capsys):
    evolved().save("run.nc")
    before = contents(folder)
    assert main(["run", "other.toml", "-o", "run.nc", "--force", "--set", "run.save_at=[5.0]"]) == 2
    assert "save_at must be" in capsys.readouterr().err
    assert contents(folder) == before
    assert list(folder.glob(".*")) == []


def test_a_monitor_that_fails_at_the_start_costs_no_earlier_run(folder):
    """It fails before there is a number of the new run."""
    earlier = evolved()
    earlier.save("run.nc")
    Path(".run.nc.previous").write_bytes(b"the checkpoint before")
    before = contents(folder)

    def fail(measure):
        assert contents(folder).keys() & {"run.nc", ".run.nc.previous"} == set()
        return measure.maen()

    with pytest.raises(AttributeError, match="maen"):
        mf.evolve(earlier.measures[0], mf.SA(2.0), 1.0, monitors={"m": fail}, checkpoint="run.nc")
    assert contents(folder) == before
    assert [path.name for path in folder.glob(".*")] == [".run.nc.previous"]


@pytest.mark.slow
def test_a_movie_without_ffmpeg_is_a_gif(folder, monkeypatch, capsys):
    evolved().save("run.nc")
    monkeypatch.setenv("PATH", str(folder))
    assert main(["movie", "run.nc", "--frames", "1"]) == 0
    assert capsys.readouterr().out == "wrote run.gif\n"
    assert Path("run.gif").read_bytes().startswith(b"GIF89a")


@pytest.mark.slow
def test_info_knows_a_sweep(folder, capsys):
    sweep = ["sweep", "case.toml", "--grid", "dynamics.beta=1,2", "--grid", "dynamics.type=SA,USA"]
    assert main([*sweep, "-q"]) == 0
    assert main(["info", "sweep.nc"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    entries = dict(re.split(r"  +", line, maxsplit=1) for line in said.out.splitlines())
    assert entries["status"] == "4 finished"
    assert entries["cells"].startswith("4, each a result file in sweep.nc.cells")
    assert entries["over dynamics.beta"] == "1, 2"
    assert entries["over dynamics.type"] == "SA, USA"
    with xr.open_dataset("sweep.nc", engine="h5netcdf") as found:
        low, high = entries["final energy"].split(" to ")
        # a summary has twelve digits
        assert float(low) == pytest.approx(float(found.final_energy.min()), rel=1e-11)
        assert float(high) == pytest.approx(float(found.final_energy.max()), rel=1e-11)
    content = bytearray(Path("sweep.nc").read_bytes())
    content[len(content) // 2] ^= 1
    Path("sweep.nc").write_bytes(content)
    assert main(["info", "sweep.nc"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("run.save_at=[5.0]", "run.save_at must"),
        ("dynamics.mask={type='Causal'}", "measure must be Particles, whose rows are in an order"),
    ],
)
def test_a_wrong_case_is_told_before_what_lies_at_its_output(setting, text, folder, capsys):
    Path("run.nc").write_text("mine")
    assert main(["run", "case.toml", "-q", "--set", setting]) == 2
    assert text in capsys.readouterr().err
    assert Path("run.nc").read_text() == "mine"
