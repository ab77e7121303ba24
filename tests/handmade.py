"""Runs made by hand: with random numbers that need all their bits, and of bumps to look at."""

from contextlib import contextmanager

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.dynamics.facts import multiplied_out
from meanfield.equations.tendency import tendency
from meanfield.exceptions import Interrupted, UnfinishedWarning
from meanfield.functionals.energies import dissipation_in_unit
from meanfield.spaces.geometry import sphere_points

AXIS = np.array([0.48, -0.6, 0.64])
SPACES = {
    "circle": lambda size: mf.Circle(32 * size),
    "sphere": lambda size: mf.Sphere(16 * size - 1),
    "zonal": lambda size: mf.Zonal(3, 16 * size - 1, AXIS),
}


ABOUT = {
    name: {"long_name": name, "role": role, "symbol": "E_β"}
    for name, role in {
        "energy": "energy",
        "energy_share": "share",
        "dissipation": "rate",
        "mass": "mass",
    }.items()
}


def solution(measures, dynamics=None, **changes):
    """A run as evolve would leave it."""
    t = np.cumsum(1.0 / np.arange(3.0, 3.0 + len(measures)))
    numbers = {"energy": np.sqrt(1 + t), "dissipation": np.exp(-t), "mass": np.ones(len(t))}
    columns = {name: ("t", column, ABOUT[name]) for name, column in numbers.items()}
    if all(isinstance(measure, mf.Density) for measure in measures):
        about = {"long_name": "size"}
        columns["size"] = "t", [measure.space.size for measure in measures], about
    attributes = {"rtol": 1e-9, "tail_tol": 1e-8}
    given = {
        "t": t,
        "measures": measures,
        "dynamics": dynamics or mf.USA(beta=1 / 3, sign=-1),
        "status": "under-resolved",
        "message": "under-resolved at t = 1: β is σharp",
        "dataset": xr.Dataset(columns, coords={"t": ("t", t)}, attrs=attributes),
        "case": "# β\n[dynamics]\nbeta = 0.3\n" * 3000,
    }
    return mf.Solution(**given | changes)


def densities(kind, sizes=(1, 1, 2, 4)):
    """Random series of mass 1 on growing spaces."""
    rng = np.random.default_rng(7)
    found = []
    for size in sizes:
        space = SPACES[kind](size)
        coefficients = rng.normal(size=space.n_coefficients).astype(space.coefficient_type)
        if kind != "zonal":
            coefficients += 1j * rng.normal(size=space.n_coefficients)
        if kind == "sphere":
            coefficients[: space.size + 1].imag = 0.0
        coefficients[0] = 1.0
        found.append(mf.Density.from_coefficients(space, coefficients))
    return found


def particles(count=3):
    rng = np.random.default_rng(8)
    clouds = rng.normal(size=(count, 50, 7))
    clouds /= np.linalg.norm(clouds, axis=-1, keepdims=True)
    return [mf.Particles(cloud, rng.uniform(size=50), unit_mass=True) for cloud in clouds]


def unit_points(dim, n, seed):
    points = np.random.default_rng(seed).normal(size=(n, dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def slow(*values):
    """A row of a table of cases that `pytest` leaves out, as tests marked slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# of a case file, a run of a density on the circle
CASE = """
law = {type = "FourierSeries", cos = [0.5]}
measure = {type = "Density", space = {type = "Circle", n = 32}}
dynamics = {beta = 1.0}
run = {t_end = 0.2, save_at = 2}
"""
POLE = sphere_points([1.2], [-0.8])[0]


def bump(dim, kappa):
    if dim == 3:
        other = mf.VonMisesFisher(sphere_points([2.0], [1.5])[0], kappa)
        return mf.Mixture([mf.VonMisesFisher(POLE, kappa), other], [0.7, 0.3])
    return mf.VonMisesFisher(np.eye(dim)[-1], kappa)


SERIES = {
    "circle": lambda kappa: mf.Density(mf.Circle(128), bump(2, kappa)),
    "sphere": lambda kappa: mf.Density(mf.Sphere(47), bump(3, kappa)),
    "zonal": lambda kappa: mf.Density(mf.Zonal(10, 47), bump(10, kappa)),
    "tokens d=2": lambda kappa: sample(bump(2, kappa)),
    "tokens d=3": lambda kappa: sample(bump(3, kappa)),
    "tokens d=10": lambda kappa: sample(bump(10, kappa)),
}
DENSITIES = "circle", "sphere", "zonal"
PROJECTIONS = {"circle": "polar", "sphere": "mollweide", "zonal": "rectilinear"} | {
    "tokens d=2": "polar",
    "tokens d=3": "mollweide",
    "tokens d=10": "rectilinear",
}


def sample(law):
    return mf.Particles.sample(law, 200, np.random.default_rng(5))


def tokens(dim, n):
    return mf.Particles.sample(mf.Uniform(dim), n, np.random.default_rng(0))


def scaled_dissipation(measure, dynamics):
    """e^{-β} times the dissipation."""
    value, log_unit = dissipation_in_unit(measure, dynamics)
    return multiplied_out(value, log_unit - dynamics.beta)


def heads_of(form, beta=1.0):
    """Attention of one head with KᵀQ = V = D, whose energy is E_{β,D}."""
    return mf.Attention(beta, [mf.Head(Q=form, V=form)])


def run(measures, dynamics=None, **changes):
    """A run through these measures, with its numbers."""
    dynamics = dynamics or mf.SA(4.0)
    t = np.arange(len(measures)) / 4
    beta = dynamics.beta
    shares = np.array([mf.energy_share(measure, beta) for measure in measures])
    rates = np.array([scaled_dissipation(m, dynamics) for m in measures])
    rows = {"energy_share": shares}
    if beta <= 700:
        energies = 0.5 * np.exp(beta) / (beta or 1.0) * shares
        rows |= {"energy": energies, "dissipation": np.exp(beta) * rates}
    columns = {name: ("t", row, ABOUT[name]) for name, row in rows.items()}
    if isinstance(measures[0], mf.Density):
        columns["tail"] = "t", [measure.tail for measure in measures]
        columns["size"] = "t", [measure.space.size for measure in measures]
    attributes = {"tail_tol": 1e-8}
    given = {
        "t": t,
        "measures": measures,
        "dynamics": dynamics,
        "status": "finished",
        "message": "finished",
        "dataset": xr.Dataset(columns, coords={"t": t}, attrs=attributes),
    }
    return mf.Solution(**given | changes)


def curve(ax, color="#0072b2"):
    """The curve of this colour, blue is that of the run."""
    return next(line for line in ax.lines if line.get_color() == color)


def texts(ax):
    return [text.get_text() for text in ax.texts]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def previous(path):
    """Where the checkpoint before the last is."""
    return path.with_name(f".{path.name}.previous")


@contextmanager
def stopped_by_checkpoint(after):
    """Inside, Ctrl-C comes once, with the first checkpoint after a time that is written."""
    save, stopped = mf.Solution.save, []

    def strike(self, path):
        save(self, path)
        if not stopped and self.t[-1] > after:
            stopped.append(path)
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mf.Solution, "save", strike)
        yield


def interrupted(run, *given, **asked):
    """What a run has that Ctrl-C ends."""
    with pytest.raises(Interrupted) as stopped:
        run(*given, **asked)
    return stopped.value.solution


def unfinished(run, *given, **asked):
    """What a run has that ends before its time, of which there is one warning, told here."""
    with pytest.warns(UnfinishedWarning) as told:
        found = run(*given, **asked)
    assert [warning.filename for warning in told] == [__file__]
    return found


def free_energy(density, dynamics):
    """τ ∫ f log f dσ ∓ E of a noisy dynamics whose field is the gradient of E in W_2."""
    return dynamics.noise * density.entropy() - dynamics.sign * mf.energy(density, dynamics)


def free_dissipation(density, dynamics):
    """∫ |X - τ ∇ log f|² dmu, the rate at which the free energy falls."""
    rate = tendency(density, dynamics)
    root = rate.noisy_speed(rate.initial_state) * float(np.exp(-0.5 * dynamics.beta))
    return multiplied_out(root * root, dynamics.beta)
