"""What tests of pictures draw, and what they read from it."""

import re
from functools import cache

import numpy as np
from matplotlib.collections import LineCollection, PathCollection

import meanfield as mf
from tests.handmade import SERIES, bump, run, unit_points

LAWS = {
    "line": lambda kappa: mf.VonMisesFisher([1.0, 0.0], kappa),
    "axis": lambda kappa: mf.VonMisesFisher([0.0, 0.0, 0.0, 1.0], kappa),
    "patches": lambda kappa: bump(3, kappa),
}
# every kind of measure, of a concentration
KINDS = {
    **SERIES,
    **{name: lambda kappa, law=law: mf.FlowMap(law(kappa), tol=1e-4) for name, law in LAWS.items()},
    "oscillators": lambda kappa: mf.Oscillators(np.linspace(0.0, 3.0 / kappa, 40), np.ones(40)),
}
TWO_BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.0, 1.0, 0.0], 3.0)]
)


def flow(dim=2):
    """A flow map on the circle, or about the axis of a sphere."""
    law = mf.FourierSeries(cos=[0.5]) if dim == 2 else mf.ZonalSeries(dim, [0.8])
    return mf.FlowMap(law)


def held(dim=2, stretch=0.0):
    """The first panel held at 0.3, the last at 2.5 (or once around), f at the others e^stretch."""
    free = flow(dim)
    angles, owners = free.angles.copy(), free.owners.copy()
    angles[:16], angles[-16:] = 0.3, 2.5 + 2 * np.pi * (dim == 2)
    owners[:16], owners[-16:] = 0, 1
    expansion = np.where(owners < 0, -stretch, 0.0)
    atoms = np.array([angles[0], angles[-1]])
    return free.moved_to(angles=angles, owners=owners, atoms=atoms, expansion=expansion)


def mixed_run(dim):
    """Two densities, then a flow map, then one with atoms; no dissipation at the third time."""
    densities = [SERIES["circle" if dim == 2 else "zonal"](kappa) for kappa in (0.5, 5.0)]
    # by hand a run starts with flow maps only where it has no tail
    sol = run([held(dim, 70.0), flow(dim), *densities[::-1]], status="clustered")
    sol.measures.reverse()
    for name in ("energy", "dissipation"):
        sol.dataset[name][:] = sol.dataset[name].values[::-1].copy()
    sol.dataset["tail"] = "t", np.full(4, 1e-12)
    sol.dataset["dissipation"][2] = np.nan
    return sol


@cache
def masked_run(dim, energy=None):
    """Tokens of unequal weights under a causal mask."""
    start = mf.Particles(unit_points(dim, 40, 1), np.arange(40.0) + 1.0, unit_mass=True)
    return mf.evolve(start, mf.SA(4.0, mask=mf.Causal(1.0)), 2.0, 4, energy=energy)


def animated(sol, *asked, **named):
    """The animation of a run, which does not warn that it is never played."""
    moving = sol.animate(*asked, **named)
    moving._draw_was_started = True
    return moving


def points(ax):
    """Where the dots are, in the coordinates of the axes."""
    (dots,) = ax.findobj(PathCollection)
    return np.asarray(dots.get_offsets())


def stems(ax):
    """The angles of atoms and how high their stems are."""
    (lines,) = ax.findobj(LineCollection)
    segments = np.array(lines.get_segments())
    assert not segments[:, 0, 1].any()
    return segments[:, 1].T


def measure_panels(figure):
    """The panels of measures, which have letters."""
    return [ax for ax in figure.axes if re.match(r"\([a-l]\)", ax.get_title())]


def position_panels(figure):
    """The panels of tokens at their positions."""
    return [ax for ax in figure.axes if ax.get_yticks().tolist() == [0.0, 0.5, 1.0]]


def times(figure):
    """What the titles of the panels of measures say."""
    return [float(ax.get_title().split("=")[1]) for ax in measure_panels(figure)]


def titled(figure, start):
    """The panels whose title at the left begins so."""
    return [ax for ax in figure.axes if ax.get_title(loc="left").startswith(start)]
