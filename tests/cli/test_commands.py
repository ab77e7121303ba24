"""The command line from a case file to a table, a NetCDF file and a figure."""

import os
import pty
import re
import signal
import termios
import threading
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from PIL import Image

import meanfield as mf
from meanfield.cli.case import case_from_text, default_case_text
from meanfield.cli.commands import STATUSES, app, main
from meanfield.cli.runs import FIGURE_SUFFIXES
from meanfield.evolution import solve
from meanfield.functionals.transport.distance import _Watch
from meanfield.plot.runs import SUFFIXES
from tests.children import handled
from tests.handmade import names

DYNAMICS = '[dynamics]\ntype = "USA"\nbeta = 1.0\n[run]\nt_end = 0.2\nsave_at = 4\n'
CIRCLE = f"""
[law]
type = "FourierSeries"
cos = [0.5]
[measure]
type = "Density"
space = {{ type = "Circle", n = 32 }}
{DYNAMICS}"""
SMALL = CIRCLE.replace("[measure]", "[measure]\nmax_size = 32")
SPHERE = f"""
[law]
type = "VonMisesFisher"
mean = [0.0, 0.6, 0.8]
kappa = 1.0
[measure]
type = "Density"
space = {{ type = "Sphere", lmax = 15 }}
{DYNAMICS}"""
ZONAL = f"""
[law]
type = "ZonalSeries"
coefficients = [0.8]
[measure]
type = "Density"
space = {{ type = "Zonal", dim = 10, kmax = 15 }}
{DYNAMICS}"""
PARTICLES = f"""
[law]
type = "Uniform"
dim = 4
[measure]
type = "Particles"
n = 20
{DYNAMICS}rng = 1
"""
CASES = {"circle": CIRCLE, "sphere": SPHERE, "zonal": ZONAL, "particles": PARTICLES}
SIZES = {"circle": ("n", 32), "sphere": ("lmax", 15), "zonal": ("kmax", 15)}
PNG = b"\x89PNG"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_run(name, folder, capsys, request):
    """One of them draws its figure; those of all kinds are in the tests of plots."""
    if name != "circle":
        request.getfixturevalue("undrawn")
    (folder / "case.toml").write_text(CASES[name])
    assert main(["run", "case.toml", "-o", "out.nc"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert lines[0].startswith("case.toml: USA(beta=1.0, sign=1, noise=0.0) on ")
    assert lines[0].endswith(" to t = 0.2")
    header = ["t", "energy", "dissipation", "1-mass"]
    if name in SIZES:
        header += ["min f", "tail", SIZES[name][0]]
    assert re.split(r"  +", lines[1].strip()) == header
    rows = [line.split() for line in lines[2:7]]
    assert [float(row[0]) for row in rows] == [0.0, 0.05, 0.1, 0.15, 0.2]
    assert len({len(line) for line in lines[1:7]}) == 1, "columns are aligned"
    if name in SIZES:
        assert int(rows[0][-1]) == SIZES[name][1]
    assert "finished at t = 0.2" in said.out
    assert re.search(r"\|E\(t\) - E\(0\) - work\|/\|E\(δ\)\| <= \d\.\de-1\d", said.out)
    assert lines[-1] == "wrote out.nc, out.png"
    assert names(folder) == ["case.toml", "out.nc", "out.png"]
    assert (folder / "out.png").read_bytes().startswith(PNG) is (name == "circle")
    solution = mf.load("out.nc")
    assert solution.status == "finished"
    assert solution.case == CASES[name]
    energies = solution.dataset["energy"].values
    # the table has ten digits
    assert [float(row[1]) for row in rows] == pytest.approx(energies, rel=1e-8)
    assert np.all(np.diff(energies) > 0.0)


@pytest.mark.usefixtures("undrawn")
def test_options_win_over_the_case(folder, capsys):
    """A quiet run says nothing."""
    (folder / "case.toml").write_text(f'{CIRCLE}[output]\nfile = "a.nc"\nfigure = "b.pdf"\n')
    assert main(["run", "case.toml", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["run", "case.toml", "-o", "c.nc", "--figure", "d.svg"]) == 0
    assert capsys.readouterr().out.endswith("wrote c.nc, d.svg\n")
    assert names(folder) == ["a.nc", "b.pdf", "c.nc", "case.toml", "d.svg"]


STOP = 'on_unresolved = "stop"'


@pytest.mark.slow
def test_a_run_that_outgrows_its_space_goes_on(folder, capsys):
    text = SMALL.replace("t_end = 0.2", "t_end = 4.0")
    (folder / "case.toml").write_text(text)
    assert main(["run", "case.toml"]) == 0
    assert "wrote run.nc, run.png" in capsys.readouterr().out
    solution = mf.load("run.nc")
    assert solution.status in {"finished", "clustered"}
    assert solution.t[-1] == 4.0
    assert isinstance(solution.final, mf.FlowMap)
    assert (folder / "run.png").read_bytes().startswith(PNG)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_sphere_whose_law_has_an_axis_goes_on_along_it(folder):
    text = SPHERE.replace("kappa = 1.0", "kappa = 8.0").replace(
        "[measure]", "[measure]\nmax_size = 15"
    )
    (folder / "case.toml").write_text(text)
    assert main(["run", "case.toml", "-q"]) == 0
    solution = mf.load("run.nc")
    assert solution.status == "finished"
    assert solution.final.axis is not None


@pytest.mark.usefixtures("undrawn")
def test_under_resolved_run_keeps_what_it_has(folder, capsys):
    text = SMALL.replace("t_end = 0.2", "t_end = 20.0\n" + STOP)
    (folder / "case.toml").write_text(text)
    assert main(["run", "case.toml"]) == 1
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1
    stopped = re.match(r"meanfield: under-resolved at t = ([0-9.]+)", said.err)
    assert stopped, said.err
    assert "try" in said.err
    assert "wrote run.nc, run.png" in said.out
    solution = mf.load("run.nc")
    assert solution.status == "under-resolved"
    # the line has six digits
    assert solution.t[-1] == pytest.approx(float(stopped[1]), rel=1e-5)
    assert 0.0 < solution.t[-1] < 20.0
    assert (folder / "run.png").is_file()


def test_print_case_is_the_bundled_case(folder, capsys):
    assert main(["run", "--print-case"]) == 0
    printed = capsys.readouterr().out
    assert printed == default_case_text()
    assert case_from_text(printed, "printed").tables.run.t_end > 0.0
    (folder / "case.toml").write_text(printed)
    assert main(["run", "case.toml", "--print-case"]) == 0
    assert capsys.readouterr().out == printed
    assert [path.name for path in folder.iterdir()] == ["case.toml"]


@pytest.fixture(scope="session")
def run_file(tmp_path_factory):
    case = case_from_text(CIRCLE, "circle")
    measure, dynamics, keywords = case.build()
    path = tmp_path_factory.mktemp("run") / "run.nc"
    solve(measure, dynamics, **keywords).save(path)
    return path


@pytest.mark.slow
def test_plot(run_file, folder, capsys):
    assert main(["plot", str(run_file), "--figure", "a.svg"]) == 0
    assert capsys.readouterr().out == "wrote a.svg\n"
    assert (folder / "a.svg").read_text().startswith("<?xml")
    assert main(["plot", str(run_file)]) == 0
    assert run_file.with_suffix(".png").read_bytes().startswith(PNG)


def test_info_of_a_run(run_file, capsys):
    assert main(["info", str(run_file)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    entries = dict(re.split(r"  +", line, maxsplit=1) for line in said.out.splitlines())
    assert entries["status"] == "finished"
    assert entries["dynamics"] == "USA(beta=1.0, sign=1, noise=0.0)"
    assert entries["times"] == "5 from 0 to 0.2"
    # the tolerance of a run that is asked for none
    assert float(entries["balance error"]) < 1e-9


def test_info_of_the_machine(capsys):
    assert main(["info"]) == 0
    said = capsys.readouterr().out
    for name in "meanfield", "python", "numpy", "ducc0", "cores", "threads":
        assert re.search(rf"^{name} +\S", said, re.MULTILINE)
    assert np.__version__ in said


def test_help(capsys):
    for argv in ["--help"], ["run", "--help"], ["plot", "-h"], ["study", "-h"], []:
        assert main(argv) == 0
        said = capsys.readouterr()
        assert said.out.startswith("Usage: meanfield")
        assert said.err == ""
        # no command's first sentence is cut short
        assert "..." not in said.out.partition("Commands:")[2]
    assert main(["--version"]) == 0
    assert re.fullmatch(r"meanfield \S+\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "found"),
    [("stu", "study"), ("study phase", "phase-diagram"), ("run --out", "--output")],
)
def test_shells_complete(words, found, capsys, monkeypatch):
    monkeypatch.setenv("_MEANFIELD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"meanfield {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    with pytest.raises(SystemExit, match="0"):
        main([])
    assert capsys.readouterr().out.split() == [found]


@pytest.mark.usefixtures("undrawn")
def test_terminal_sees_a_progress_bar(folder, capsys, monkeypatch):
    """Standard error is a terminal, standard output is not."""
    (folder / "case.toml").write_text(CIRCLE)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    shown = bytearray()

    def listen():
        try:
            while chunk := os.read(ours, 1024):
                shown.extend(chunk)
        except OSError:  # how Linux says that the other end is closed
            pass

    listener = threading.Thread(target=listen)
    listener.start()
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr("sys.stderr", terminal)
        assert main(["run", "case.toml"]) == 0
    listener.join()
    os.close(ours)
    assert b"t = 0.2/0.2" in shown
    assert "finished at t = 0.2" in capsys.readouterr().out


def test_checked_suffixes_are_those_of_plot():
    assert FIGURE_SUFFIXES == SUFFIXES


@pytest.mark.usefixtures("undrawn")
def test_unresolved_start_is_told(folder, capsys):
    """The law fits its space, with a tail above the tolerance, and nothing larger is allowed."""
    text = SPHERE.replace("kappa = 1.0", "kappa = 8.0").replace("t_end", f"{STOP}\nt_end")
    limits = "[measure]\nmax_size = 15\ntail_tol = 1e-12"
    (folder / "case.toml").write_text(text.replace("[measure]", limits))
    assert main(["run", "case.toml"]) == 1
    said = capsys.readouterr()
    assert re.fullmatch(r"meanfield: under-resolved at t = 0: .*\n", said.err)
    assert mf.load("run.nc").t.tolist() == [0.0]


@pytest.mark.filterwarnings("default")
def test_a_disk_that_fills_up_is_told(folder, capsys, monkeypatch):
    def full(_, path):
        raise OSError(f"can't write {path}: No space left on device")

    monkeypatch.setattr(mf.Solution, "save", full)
    (folder / "case.toml").write_text(CIRCLE)
    assert main(["run", "case.toml"]) == 1
    *warnings, last = capsys.readouterr().err.splitlines()
    assert last == "meanfield: can't write run.nc: No space left on device"
    assert warnings[0].startswith("meanfield: warning: no checkpoint at t = 0: can't write ")
    assert all(line.startswith("meanfield: warning: ") for line in warnings)
    assert [path.name for path in folder.iterdir()] == ["case.toml"]


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_flow_map_on_the_sphere_is_run_and_told(folder, capsys):
    law = """
[law]
type = "Mixture"
laws = [{ type = "VonMisesFisher", mean = [0.0, 0.0, 1.0], kappa = 3.0 }, { type = "Uniform" },
        { type = "VonMisesFisher", mean = [0.0, 1.0, 0.0], kappa = 3.0 }]
[measure]
type = "FlowMap"
tol = 1e-2
[dynamics]
beta = 2.0
[run]
t_end = 0.5
save_at = 2
"""
    (folder / "case.toml").write_text(law)
    assert main(["run", "case.toml"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"1-mass +nodes +clusters", said)
    assert "min f" not in said
    assert "nan" not in said
    assert mf.load("run.nc").final.dim == 3


@pytest.mark.usefixtures("undrawn")
def test_noisy_tokens_from_a_case(folder, capsys):
    text = PARTICLES.replace("beta = 1.0", "beta = 1.0\nnoise = 0.1")
    (folder / "noisy.toml").write_text(text)
    assert main(["run", "noisy.toml", "-o", "a.nc"]) == 0
    assert "energy identity" not in capsys.readouterr().out
    assert mf.load("a.nc").dynamics.noise == 0.1
    assert main(["info", "a.nc"]) == 0
    assert re.search(r"balance error +not available\n", capsys.readouterr().out)


@pytest.mark.usefixtures("undrawn")
def test_a_run_without_an_energy_says_why_and_what_to_do(folder, capsys):
    turned = 'dynamics={type = "Attention", beta = 1.0, heads = [{V = [[0, -1], [1, 0]]}]}'
    (folder / "case.toml").write_text(PARTICLES)
    settings = ["--set", turned, "--set", "law.dim=2"]
    assert main(["run", "case.toml", "-o", "a.nc", *settings]) == 0
    said = (
        r"no energy of Attention\(.*\): only attention .*; follow one with energy=, in a case run"
    )
    assert re.search(f"^{said}", capsys.readouterr().out, re.MULTILINE)
    assert main(["info", "a.nc"]) == 0
    assert re.search(f"balance error +not available, {said}", capsys.readouterr().out)
    assert main(["plot", "a.nc", "--name", "energy"]) == 2
    assert "; follow one with energy=" in capsys.readouterr().err


MASKED = """
law = {type = "FourierSeries", cos = [0.5]}
measure = {type = "Particles", n = 64}
dynamics = {type = "SA", beta = 4.0, mask = {type = "Causal", decay = 1.5}}
run = {t_end = 0.5, save_at = 4, rng = 0}
"""


@pytest.mark.parametrize("command", ["info", "compare", "sweep", "movie", "report"])
def test_tokens_under_a_mask_from_a_case(command, folder, capsys):
    """Every command takes the run, also beside the density without the mask."""
    (folder / "masked.toml").write_text(MASKED)
    assert main(["run", "masked.toml", "-q", "-o", "masked.nc"]) == 0
    sol, dynamics = mf.load("masked.nc"), mf.SA(4.0, mask=mf.Causal(1.5))
    assert sol.dynamics == dynamics
    (folder / "density.toml").write_text(CIRCLE.replace('"USA"\nbeta = 1.0', '"SA"\nbeta = 4.0'))
    assert main(["run", "density.toml", "-q", "-o", "density.nc", "--set", "run.t_end=0.5"]) == 0
    capsys.readouterr()
    if command == "info":
        assert main(["info", "masked.nc"]) == 0
        told = capsys.readouterr().out
        assert "dynamics            SA(beta=4.0, sign=1, noise=0.0, mask=Causal(decay=1.5))" in told
        assert "under a causal mask tokens do not act on those that act on them" in told
    elif command == "compare":
        assert main(["compare", "masked.nc", "density.nc", "-o", "both.nc"]) == 0
        assert "energy density" in capsys.readouterr().out
        with xr.open_dataset("both.nc", engine="h5netcdf") as ds:
            w1, energies = ds.w1.values, ds.energy.values
        pairs = zip(sol.measures, mf.load("density.nc").measures, strict=True)
        exact = [mf.wasserstein(mu, nu).value for mu, nu in pairs]
        np.testing.assert_allclose(w1, exact, rtol=1e-12)
        # the mask has no energy of its own
        assert np.isnan(energies).all(axis=1).tolist() == [True, False]
    elif command == "sweep":
        assert main(["sweep", "masked.toml", "--grid", "dynamics.mask.decay=0,1.5", "-q"]) == 0
        with xr.open_dataset("sweep.nc", engine="h5netcdf") as ds:
            assert ds["decay"].values.tolist() == [0.0, 1.5]
            velocities = ds["final_rms_velocity"].values
        undecayed = mf.evolve(sol.measures[0], mf.SA(4.0, mask=mf.Causal()), 0.5, 4)
        exact = [each.dataset["rms_velocity"].values[-1] for each in (undecayed, sol)]
        np.testing.assert_array_equal(velocities, exact)
        assert abs(exact[0] - exact[1]) > 1e-3
    elif command == "movie":
        assert main(["movie", "masked.nc", "--figure", "masked.gif"]) == 0
        with Image.open("masked.gif") as movie:
            assert movie.n_frames == len(sol)
    else:
        assert main(["report", "masked.nc", "density.nc"]) == 0
        page = Path("masked-density.html").read_text(encoding="utf-8")
        # tokens alone have positions
        assert re.findall(r'id="(positions\d)"', page) == ["positions0"]
        assert "SA, β = 4, causal mask with decay 1.5: 64 tokens on the circle" in page


@pytest.mark.usefixtures("undrawn")
def test_layers_from_a_case(folder, capsys):
    layers = 'type = "LayerMap"\nstep = 0.05\ndynamics = { beta = 1.0 }'
    text = PARTICLES.replace('type = "USA"\nbeta = 1.0', layers)
    (folder / "layers.toml").write_text(text.replace('"particles"', '"particles"\nsums = "direct"'))
    assert main(["run", "layers.toml"]) == 0
    assert "finished at t = 0.2 after 4 steps" in capsys.readouterr().out


def test_one_table_of_statuses(capsys):
    """In the help, and in the page that is read first."""
    assert main(["--help"]) == 0
    told, page = capsys.readouterr().out, Path(__file__).parents[2] / "README.md"
    for status in STATUSES:
        assert re.search(rf"^ +{status}  \S", told, re.MULTILINE)
        assert re.search(rf"^\| {status} \| \S", page.read_text("utf-8"), re.MULTILINE)


STUDIES = {
    *("phase-diagram", "metastability", "stationary-states", "two-token-correlation"),
    *("energy-extremisers", "limits-without-normalisation"),
}


def test_options_are_the_same_everywhere():
    """Whatever has them: one spelling, one meaning."""
    from typer.main import get_command

    def options(command):
        for one in getattr(command, "commands", {}).values():
            yield from options(one)
        yield from ((command.name, one) for one in command.params)

    found = {}
    for name, one in options(get_command(app)):
        for spelled in one.opts:
            found.setdefault(spelled, {})[name] = one
    assert found["--output"].keys() == found["-o"].keys() == {*DATASETS, *STUDIES, *PAGES}
    assert {"plot", "movie", "run", "resume", *STUDIES} <= found["--figure"].keys()
    for spelled in "--quiet", "--workers", "--executor", "--scheduler", "--force", "--rng":
        told = {one.help for name, one in found[spelled].items() if name != "validate"}
        assert len(told) == 1, spelled
    for gone in "--seed", "--jobs", "--ns", "--kernel", "--samples":
        assert gone not in found


# what has an output that no run is resumed from
PAGES = {"layers", "report"}
DATASETS = ["run", "sweep", "compare", "mean-field-limit", "causal-limit", "proposition-3.4"]


def test_a_command_that_is_interrupted_says_so(folder, capsys, monkeypatch):
    def strike(*_, **__):
        raise KeyboardInterrupt

    (folder / "case.toml").write_text(CIRCLE)
    monkeypatch.setattr(mf.studies, "mean_field_limit", strike)
    assert main(["study", "mean-field-limit", "case.toml", "--n", "20,40", "-o", "l.nc"]) == 130
    assert capsys.readouterr().err == "meanfield: interrupted\n"
    assert not Path("l.nc").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_run_that_is_interrupted_is_resumed(folder, capsys, monkeypatch):
    """With the monitors of its case."""
    (folder / "case.toml").write_text(CIRCLE + '[monitors.w1]\nto = "start"\nevery = 3\n')
    assert main(["run", "case.toml", "-q", "-o", "whole.nc"]) == 0
    distance = _Watch.__call__

    def interrupted(self, measure):
        if measure.mean()[0] > moved:
            raise KeyboardInterrupt
        return distance(self, measure)

    moved = mf.load("whole.nc").measures[1].mean()[0]
    with monkeypatch.context() as patch:
        patch.setattr(_Watch, "__call__", interrupted)
        assert main(["run", "case.toml", "-q"]) == 130
    assert capsys.readouterr().err.endswith("; meanfield resume run.nc continues it\n")
    assert mf.load("run.nc").status == "interrupted"
    assert main(["resume", "run.nc"]) == 0
    told = capsys.readouterr().out
    assert "finished at t = 0.2" in told
    assert told.endswith("wrote run.nc, run.png\n")
    whole, resumed = mf.load("whole.nc"), mf.load("run.nc")
    # the start has lost its law, not its values
    own = ["w1", "w1_lower", "w1_upper"]
    for name in own:
        np.testing.assert_allclose(resumed.dataset[name], whole.dataset[name], atol=1e-13)
    assert resumed.dataset.drop_vars(own).identical(whole.dataset.drop_vars(own))
    np.testing.assert_array_equal(resumed.final.coefficients, whole.final.coefficients)


@pytest.mark.usefixtures("undrawn")
def test_a_case_with_a_schedule_is_run_resumed_and_told(folder, capsys, monkeypatch):
    table = 'beta = { type = "Schedule", times = [0.0, 0.1, 0.3], values = [1.0, 2.0, 1.5] }'
    assert CIRCLE.count("beta = 1.0") == 1
    (folder / "case.toml").write_text(
        CIRCLE.replace("beta = 1.0", table) + '[monitors.w1]\nto = "start"\n'
    )
    assert main(["run", "case.toml", "-q", "-o", "whole.nc"]) == 0

    distance, moved = _Watch.__call__, mf.load("whole.nc").measures[1].mean()[0]

    def interrupted(self, measure):
        if measure.mean()[0] > moved:
            raise KeyboardInterrupt
        return distance(self, measure)

    with monkeypatch.context() as patch:
        patch.setattr(_Watch, "__call__", interrupted)
        assert main(["run", "case.toml", "-q"]) == 130
    assert main(["resume", "run.nc", "-q"]) == 0
    whole, resumed = mf.load("whole.nc"), mf.load("run.nc")
    beta = mf.Schedule([0.0, 0.1, 0.3], [1.0, 2.0, 1.5])
    assert whole.dynamics == resumed.dynamics == mf.USA(beta)
    np.testing.assert_array_equal(resumed.final.coefficients, whole.final.coefficients)
    capsys.readouterr()
    assert main(["info", "run.nc"]) == 0
    assert "Schedule(3 times in [0, 0.3], values in [1, 2.20417])" in capsys.readouterr().out


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("ending", ["finished", "under-resolved"])
def test_a_run_that_has_ended_is_left_as_it_is(ending, folder, capsys):
    is_good = ending == "finished"
    end = "t_end = 0.2" if is_good else f"t_end = 20.0\n{STOP}"
    measure, dynamics, keywords = case_from_text(SMALL.replace("t_end = 0.2", end), "c").build()
    solve(measure, dynamics, **keywords).save("run.nc")
    # a run that is killed between its last save and its figure leaves this, or the half of one
    (folder / ".run.png.writing-abc").mkdir()
    (folder / ".run.png.writing-abc" / "run.png").touch()
    before = (folder / "run.nc").stat()
    for has_figure in False, True:
        assert main(["resume", "run.nc"]) == (0 if is_good else 1)
        said = capsys.readouterr()
        assert re.match(r"run\.nc: .* on Density\(.* to t = (20|0\.2)\n", said.out)
        assert ("\nalready finished at t = 0.2" in said.out) is is_good
        assert ("under-resolved at t" in said.err) is not is_good
        assert ("nothing written" in said.out) is (is_good and has_figure)
        assert ("wrote run.png, which was missing" in said.out) is (is_good and not has_figure)
        assert names(folder) == ["run.nc", "run.png"]
        after = (folder / "run.nc").stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_time_of_no_length_is_refused_before_anything_is_printed(folder, capsys):
    (folder / "case.toml").write_text(CIRCLE)
    assert main(["run", "case.toml", "--set", "run.t_end=0"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("run.t_end must be a finite number > 0, got 0.0\n")


def test_what_can_not_be_computed_is_one_line(folder, capsys, monkeypatch):
    (folder / "case.toml").write_text(CIRCLE + '[monitors.w1]\nto = "start"\n')
    kinds = iter([ArithmeticError, ZeroDivisionError])

    def fail(self, measure):
        raise next(kinds)("the lower bound 2 is above the upper bound 1")

    monkeypatch.setattr(_Watch, "__call__", fail)
    assert main(["run", "case.toml", "-q"]) == 1
    said = "meanfield: the lower bound 2 is above the upper bound 1\n"
    assert capsys.readouterr().err == said
    # a mistake of the program's own keeps its traceback
    with pytest.raises(ZeroDivisionError):
        main(["run", "case.toml", "-q"])


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("number", "ctrl_c"),
    [
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_IGN),
    ],
)
def test_ctrl_c_and_a_polite_kill_end_a_run(number, ctrl_c, folder, capsys, monkeypatch):
    """After the step that they meet, also where Ctrl-C is ignored: in the background."""
    calls = []

    def killed(self, measure):
        calls.append(measure)
        if len(calls) == 3:
            os.kill(os.getpid(), number)
        return 1.0

    (folder / "case.toml").write_text(CIRCLE + '[monitors.w1]\nto = "start"\n')
    monkeypatch.setattr(_Watch, "__call__", killed)
    with handled(signal.SIGINT, ctrl_c):
        assert main(["run", "case.toml", "-q"]) == 130
        assert signal.getsignal(signal.SIGINT) is ctrl_c
    assert mf.load("run.nc").status == "interrupted"
    assert 0.0 < mf.load("run.nc").t[-1] < 0.2
    said = capsys.readouterr().err
    assert re.fullmatch(r"meanfield: interrupted at t = \S+: .*\n", said)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
