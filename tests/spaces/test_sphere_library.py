"""Which library transforms on S^2: SHTns and ducc0 agree, repeat, and a run keeps its own."""

import os
import pickle
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

import meanfield as mf
from meanfield.spaces import available, sphere
from meanfield.spaces.sphere_fields import SphereFields
from tests.handmade import interrupted, stopped_by_checkpoint

EPS = np.finfo(float).eps
BUMP = mf.VonMisesFisher([0.0, 0.6, 0.8], 2.0)
needs_shtns = pytest.mark.skipif(available("shtns") != "shtns", reason="SHTns is not installed")


@pytest.fixture
def without_shtns(monkeypatch):
    monkeypatch.setattr(sphere, "_imported", lambda: None)


def series(space, seed):
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=(2, space.n_coefficients)).T.copy().view(complex)[:, 0]
    coefficients[: space.size + 1].imag = 0.0
    return coefficients


def everything(space, last):
    """All transforms of one series: f, Λf, ∇Λf, ∇·, ∫ f conj(Y)."""
    k = np.arange(space.size + 1)
    factors = np.where(k <= last, 1 / (1.0 + k), 0.0)
    transforms = space.transforms(factors, factors**2)
    transforms.evaluate(series(space, 1))
    transforms.flux[:] = np.random.default_rng(2).normal(size=transforms.flux.shape)
    flux = transforms.flux.copy()
    out = np.empty(space.n_coefficients, dtype=complex)
    transforms.weak_divergence(out)
    # what is measured of a step needs it afterwards
    assert np.array_equal(transforms.flux, flux)
    fields = SphereFields(space, last)
    low = np.array(series(mf.Sphere(max(last, 3), "ducc0"), 3)[: len(fields._multiplicity)])
    found = [transforms.values, transforms.gradient, transforms.potential, out]
    found += [space.synthesis(series(space, 4)), space.analysis(flux[0])]
    return [*found, fields.gradient(low), fields.values(low), fields.weak_divergence(flux)]


# 20: the least; 21 has an odd number of rings; 127: the largest
@pytest.mark.slow
@needs_shtns
@pytest.mark.parametrize(("lmax", "last"), [(20, 20), (21, 12), (63, 24), (127, 24)])
def test_both_libraries_agree(lmax, last):
    ducc0, shtns = mf.Sphere(lmax, "ducc0"), mf.Sphere(lmax, "shtns")
    assert type(ducc0._plan) is not type(shtns._plan)
    assert repr(ducc0) == repr(shtns)
    assert np.array_equal(ducc0.weights, shtns.weights)
    # roundings of a sum over the degrees after as many steps of a recurrence, of either library
    tolerance = 10 * lmax * EPS
    for one, other in zip(everything(ducc0, last), everything(shtns, last), strict=True):
        assert np.max(np.abs(one)) > 1e-3
        assert np.max(np.abs(one - other)) < tolerance * np.max(np.abs(one))


@pytest.mark.slow
@needs_shtns
def test_more_degrees_than_the_grid_resolves():
    """A sharper kernel's field on a coarse grid, which SHTns refuses."""
    coefficients = series(mf.Sphere(70, "ducc0"), 0)
    fields = [SphereFields(mf.Sphere(31, library), 70) for library in ("ducc0", "shtns")]
    one, other = (field.gradient(coefficients) for field in fields)
    assert np.abs(one).max() > 1.0
    assert np.array_equal(one, other)


@pytest.mark.slow
@needs_shtns
@pytest.mark.parametrize("lmax", [31, 127])
def test_results_repeat_to_the_bit(lmax):
    first = everything(mf.Sphere(lmax, "shtns"), 12)
    for again in everything(mf.Sphere(lmax, "shtns"), 12), everything_in_a_fork(lmax):
        for one, other in zip(first, again, strict=True):
            assert np.array_equal(one, other)


def everything_in_a_fork(lmax):
    """By a process that was forked after threads had been at work, as pools do."""
    space = mf.Sphere(lmax, "shtns")
    here = everything(space, 12)
    source, target = os.pipe()
    with warnings.catch_warnings():
        # a process of several threads is forked: that is what is tried
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            # ends a child that hangs
            signal.alarm(60)
            os.close(source)
            # tables of its own: threads of the parent that made some would never answer
            sphere._made.cache_clear()
            again = everything(mf.Sphere(lmax, "shtns"), 12)
            with os.fdopen(target, "wb") as pipe:
                pipe.write(b"".join(np.asarray(part).tobytes() for part in again))
        finally:
            os._exit(0)
    os.close(target)
    with os.fdopen(source, "rb") as pipe:
        written = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    parts = np.cumsum([part.nbytes for part in here])
    assert len(written) == parts[-1]
    pieces = [written[end - part.nbytes : end] for end, part in zip(parts, here, strict=True)]
    return [
        np.frombuffer(piece, part.dtype).reshape(part.shape)
        for piece, part in zip(pieces, here, strict=True)
    ]


@pytest.mark.slow
@needs_shtns
def test_fields_may_lie_anywhere():
    """SHTns itself ends the process where an array lies between its vectors."""
    space = mf.Sphere(31, "shtns")
    field = space.synthesis(series(space, 0))
    moved = np.empty(len(field) + 1)[1:]
    moved[:] = field
    assert moved.ctypes.data % 16 == 8
    assert np.array_equal(space.analysis(moved), space.analysis(field))
    strided = np.repeat(field, 2)[::2]
    assert np.array_equal(space.analysis(strided), space.analysis(field))


@pytest.mark.slow
@needs_shtns
def test_spaces_keep_their_library():
    for library in "ducc0", "shtns":
        space = mf.Sphere(31, library)
        for other in space.double(), space.resize(47), pickle.loads(pickle.dumps(space)):
            assert other.library == library
    # a used one can be sent to another process, too
    used = mf.Sphere(31, "shtns")
    values = used.synthesis(series(used, 0))
    assert np.array_equal(pickle.loads(pickle.dumps(used)).synthesis(series(used, 0)), values)


@pytest.mark.slow
@needs_shtns
def test_import_says_nothing_and_waits():
    code = (
        "import sys, meanfield as mf\n"
        "assert 'shtns' not in sys.modules\n"
        "mf.Density(mf.Sphere(31), mf.Uniform(3))\n"
        "assert 'shtns' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b""


def test_an_unknown_library_is_refused():
    with pytest.raises(ValueError, match=r"library must be .*, got 'fftw'"):
        mf.Sphere(31, "fftw")
    with pytest.raises(ValueError, match=r'library must be "shtns" or "ducc0", got \'fftw\''):
        available("fftw")


@pytest.mark.usefixtures("without_shtns")
def test_without_shtns():
    assert mf.Sphere(31).library == "ducc0"
    with pytest.raises(ValueError, match=r"library must be .* got 'shtns': pip install"):
        mf.Sphere(31, "shtns")


def cut(library, path, after=0.0):
    """A run that Ctrl-C ends at its first checkpoint after a time, and how it would have ended."""
    start = mf.Density(mf.Sphere(23, library), BUMP)
    with stopped_by_checkpoint(after):
        interrupted(mf.evolve, start, mf.SA(1.0), 0.3, 3, checkpoint=path)
    return mf.evolve(start, mf.SA(1.0), 0.3, 3).final.coefficients


@pytest.mark.slow
@needs_shtns
@pytest.mark.parametrize("library", ["ducc0", "shtns"])
def test_a_resumed_run_uses_its_own_library(library, tmp_path):
    path = tmp_path / "run.nc"
    expected = cut(library, path)
    resumed = mf.resume(path)
    assert resumed.final.space.library == library
    assert np.array_equal(resumed.final.coefficients, expected)
    assert mf.load(path).final.space.library == library
    assert "shtns" in mf.load(path).versions


# interrupted at the first save and after it
@pytest.mark.slow
@needs_shtns
@pytest.mark.parametrize("after", [-1.0, 0.0])
def test_a_run_without_its_library_is_looked_at_but_not_resumed(after, tmp_path, request):
    path = tmp_path / "run.nc"
    cut("shtns", path, after)
    request.getfixturevalue("without_shtns")
    assert mf.load(path).final.space.library == "ducc0"
    with pytest.raises(ValueError, match=r"library of its transforms must be 'shtns'.* 'ducc0'"):
        mf.resume(path)
