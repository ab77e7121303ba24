"""Movies are the saved states, one a frame, in a whole file or none, on the axes that are given."""

import os
import stat

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.figure import Figure
from PIL import Image

import meanfield as mf
from meanfield.cli.commands import main
from meanfield.plot import movies
from tests.handmade import SERIES, names, run
from tests.plot.drawn import KINDS, animated, masked_run, points, position_panels
from tests.tiers import rows

KAPPAS = 0.5, 2.0, 5.0


def moved(measures):
    """A run through measures of any kind; the numbers over t are those of other ones."""
    sol = run([SERIES["circle"](kappa) for kappa in range(1, len(measures) + 1)])
    sol.measures = measures
    return sol


def frames(path):
    """The pictures of a movie, and how long each is shown."""
    with Image.open(path) as movie:
        for number in range(movie.n_frames):
            movie.seek(number)
            yield np.asarray(movie.convert("RGB"), dtype=int), movie.info["duration"]


@pytest.fixture(scope="module")
def sol():
    return run([SERIES["circle"](kappa) for kappa in KAPPAS])


# oscillators are tokens of the circle
@pytest.mark.parametrize("kind", rows(sorted({*KINDS} - {"tokens d=2"}), "circle", "patches"))
def test_every_kind_of_measure_moves(kind):
    moving = animated(moved([KINDS[kind](kappa) for kappa in (0.5, 5.0)]))
    bodies = []
    moving._fig.set_dpi(50)
    for number in (0, 1):
        moving._func(number)
        moving._fig.canvas.draw()
        image = np.asarray(moving._fig.canvas.buffer_rgba())[..., :3].astype(int)
        # the measure alone, without titles and energy
        bodies.append(image[len(image) // 6 : len(image) // 2])
    assert np.sum(np.abs(bodies[0] - bodies[1]).max(axis=2) > 50) > 20


def test_a_movie_has_its_frames_its_times_and_nothing_beside_it(sol, tmp_path):
    settings = dict(rcParams)
    mf.plot.movie(sol, tmp_path / "run.gif", fps=4.0)
    assert dict(rcParams) == settings
    images, durations = zip(*frames(tmp_path / "run.gif"), strict=True)
    assert durations == (250, 250, 250)
    assert len({image.shape for image in images}) == 1
    assert not np.array_equal(images[0], images[1])
    assert names(tmp_path) == ["run.gif"]


def test_the_mark_of_a_sum_is_on_its_curve():
    """The panel has what the sum gained, and not its energy."""
    mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    sol = mf.evolve(mu, mf.SA(1.0) + mf.USA(2.0), 0.2, save_at=2)
    moving = animated(sol)
    curve = moving._fig.axes[1]
    for number in range(len(sol.t)):
        moving._func(number)
        mark = curve.lines[-1].get_xydata()[0]
        gained = sol.dataset.energy.values[number] - sol.dataset.energy.values[0]
        assert mark.tolist() == [sol.t[number], gained]


def test_layout_and_scale_stand_still(sol):
    moving = animated(sol)
    figure = moving._fig
    panel, curve = figure.axes
    seen = []
    for number, t in enumerate(sol.t):
        moving._func(number)
        figure.draw_without_rendering()
        mark = curve.lines[-1].get_xydata()[0]
        assert mark == pytest.approx([t, sol.dataset.energy.values[number]])
        assert panel.get_title() == f"t = {t:.4g}"
        labels = [tick.get_text() for tick in panel.get_yticklabels()]
        seen.append((*panel.get_position().bounds, panel.get_rlabel_position(), *labels))
    assert len(set(seen)) == 1
    assert figure.get_suptitle() == "SA, β = 4"


@pytest.mark.parametrize("energy", [None, 1.0])
def test_tokens_under_a_mask_move_at_their_positions(energy):
    """Every frame has its tokens over their angles; on axes that are given, the measure alone."""
    sol = masked_run(2, energy)
    moving = animated(sol)
    (panel,) = position_panels(moving._fig)
    assert len(moving._fig.axes) == (2 if energy is None else 3)
    bounds = panel.get_position().bounds
    for number, (_, mu) in enumerate(sol):
        moving._func(number)
        angles, positions = points(panel).T
        np.testing.assert_allclose(np.exp(1j * angles), mu.points @ [1, 1j], rtol=0, atol=1e-14)
        np.testing.assert_allclose(positions, np.cumsum(mu.weights), rtol=0, atol=1e-15)
        moving._fig.draw_without_rendering()
        assert panel.get_position().bounds == bounds
    figure = Figure()
    animated(sol, figure.add_subplot(projection="polar"))
    assert len(figure.axes) == 1


def test_a_flow_map_that_takes_over_has_its_own_panel():
    law = mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0)
    sol = moved([mf.Density(mf.Sphere(31), law), mf.FlowMap(law, tol=1e-4)])
    moving = animated(sol)
    for number, shown in enumerate(({"mollweide", "bar"}, {"rectilinear"})):
        moving._func(number)
        upper = [ax for ax in moving._fig.axes if "energy" not in ax.get_title(loc="left")]
        names = {"bar" if ax.get_ylabel() == "density f" else ax.name: ax for ax in upper}
        assert {name for name, ax in names.items() if ax.get_visible()} == shown
    with pytest.raises(ValueError, match="ax must have projection 'mollweide and rectilinear'"):
        sol.animate(Figure().add_subplot())


def test_axes_that_are_given_are_drawn_on(sol):
    figure = Figure()
    ax, other = figure.add_subplot(121, projection="polar"), figure.add_subplot(122)
    other.plot([0.0, 1.0])
    moving = animated(sol, ax, frames=2, fps=5.0)
    assert moving._fig is figure
    assert figure.axes == [ax, other]
    moving._func(1)
    assert ax.get_title() == f"t = {sol.t[-1]:.4g}"
    assert len(other.lines) == 1
    assert (len(list(moving.new_frame_seq())), moving._interval) == (2, 200.0)


@pytest.mark.parametrize(
    ("asked", "frames", "fps"),
    [
        ({}, 21, 10.0),
        ({"frames": 5}, 5, 10.0),
        ({"seconds": 7.0}, 21, 3.0),
        ({"seconds": 7.0, "frames": 14}, 14, 2.0),
        ({"seconds": 2.0, "fps": 5.0}, 10, 5.0),
        ({"frames": 5, "fps": 50.0}, 5, 50.0),
    ],
)
def test_pace(asked, frames, fps):
    assert movies.pace(21, **asked, fastest=50.0) == (frames, fps)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"frames": 22}, "frames must be an integer >= 1 and <= 21, got 22"),
        ({"frames": 0}, "frames must be an integer >= 1 and <= 21, got 0"),
        ({"fps": 51.0}, "fps must be a finite number > 0 and <= 50, got 51"),
        ({"fps": 0.0}, "fps must be a finite number > 0 and <= 50, got 0"),
        ({"seconds": 0.0}, "seconds must be a finite number > 0, got 0"),
        ({"seconds": np.nan}, "seconds must be a finite number > 0, got nan"),
        ({"seconds": 0.1}, "seconds must be at least 0.42 for 21 frames"),
        ({"seconds": 5.0, "fps": 5.0}, "seconds must be at most 4.2 at fps = 5"),
        ({"seconds": 2.0, "fps": 5.0, "frames": 3}, "frames must be left out"),
    ],
)
def test_paces_that_are_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        movies.pace(21, **asked, fastest=50.0)


def test_very_many_saves_are_thinned_from_the_first_to_the_last():
    chosen = movies._saves(2001, None)
    assert (len(chosen), chosen[0], chosen[-1]) == (500, 0, 2000)
    assert np.all(np.diff(chosen) > 0)
    assert movies._saves(2001, 1).tolist() == [2000]


def test_when_ffmpeg_fails_what_was_there_stays(sol, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ncat > /dev/null\necho 'Unknown encoder' >&2\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    path = tmp_path / "run.mp4"
    path.write_bytes(b"earlier")
    with pytest.raises(OSError, match="ffmpeg failed: Unknown encoder"):
        mf.plot.movie(sol, path, frames=1)
    assert path.read_bytes() == b"earlier"
    assert names(tmp_path) == ["bin", "run.mp4"]


@pytest.mark.slow
@pytest.mark.skipif(not movies.FFMpegWriter.isAvailable(), reason="ffmpeg is not installed")
def test_mp4(sol, tmp_path):
    path = tmp_path / "run.mp4"
    mf.plot.movie(sol, path, frames=2, fps=2.5)
    content = path.read_bytes()
    assert content[4:8] == b"ftyp"
    # the header of the whole movie: a clock, and how many of its ticks, milliseconds, it takes
    header = content.index(b"mvhd") + 16
    clock, ticks = (int.from_bytes(content[header + i : header + i + 4]) for i in (0, 4))
    assert ticks / clock == pytest.approx(2 / 2.5, abs=0.01)


@pytest.mark.slow
def test_command(sol, tmp_path, capsys):
    file, path = tmp_path / "run.nc", tmp_path / "a.gif"
    sol.save(file)
    # what a movie that was killed has left
    (tmp_path / ".a.gif.writing-abc").mkdir()
    command = ["movie", str(file), "--figure", str(path), "--frames", "1"]
    assert main(command) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    first = path.read_bytes()
    assert len(list(frames(path))) == 1
    path.write_bytes(b"earlier")
    assert main(command) == 2
    assert "--force replaces what is there" in capsys.readouterr().err
    assert path.read_bytes() == b"earlier"
    assert main([*command, "--force", "-q"]) == 0
    assert path.read_bytes() == first
    assert capsys.readouterr().out == ""
    assert names(tmp_path) == ["a.gif", "run.nc"]


def test_bad_input(sol, tmp_path):
    for call, message in (
        (lambda: mf.plot.movie(sol, "run.webm"), "path must end in .mp4 or .gif, got 'run.webm'"),
        (lambda: mf.plot.animation(sol, Figure().add_subplot()), "ax must have projection 'polar'"),
        (lambda: sol.animate(fps=121), "fps must be a finite number > 0 and <= 120, got 121"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(OSError, match="No such file or directory"):
        mf.plot.movie(sol, tmp_path / "no" / "run.gif")
