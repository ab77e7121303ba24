"""Measures of every kind, of laws in general position, as they stand or turned."""

import numpy as np

import meanfield as mf
from tests.handmade import unit_points

EPS = np.finfo(float).eps
SLANTED = np.array([0.48, 0.6, 0.64])


def bumps(dim, turn=None, axis=None):
    """Three bumps in general position, or on one axis; turned, if wanted."""
    means = unit_points(dim, 3, 17) if axis is None else np.array([axis, -axis, axis])
    means = means if turn is None else means @ turn.T
    kappas = [3.0, 2.0, 0.5]
    laws = [mf.VonMisesFisher(m, k) for m, k in zip(means, kappas, strict=True)]
    return mf.Mixture(laws, [0.5, 0.3, 0.2])


def tokens(dim, turn=None):
    """Nine tokens, masses over nine decades, two tokens at one place."""
    points = unit_points(dim, 9, 23)
    points[4] = points[7]
    points = points if turn is None else points @ turn.T
    return mf.Particles(points, weights=10.0 ** -np.arange(9), unit_mass=True)


def zonal(dim, kmax, axis, turn=None):
    axis = axis if turn is None else turn @ axis
    return mf.Density(mf.Zonal(dim, kmax, axis=axis), bumps(dim, axis=axis))


def flow(dim, axis, turn=None):
    return mf.FlowMap(bumps(dim, axis=axis if turn is None else turn @ axis))


def oscillators(turn=None):
    cloud = tokens(2, turn)
    angles = np.arctan2(cloud.points[:, 1], cloud.points[:, 0])
    return mf.Oscillators(angles, np.arange(9.0), cloud.weights)


# each takes a rotation, or None for the measure as it stands
MEASURES = {
    "circle": lambda turn=None: mf.Density(mf.Circle(64), bumps(2, turn)),
    "sphere": lambda turn=None: mf.Density(mf.Sphere(27), bumps(3, turn)),
    "zonal 2": lambda turn=None: zonal(2, 31, np.array([0.6, -0.8]), turn),
    "zonal 3": lambda turn=None: zonal(3, 31, SLANTED, turn),
    "zonal 10": lambda turn=None: zonal(10, 31, np.full(10, 10**-0.5), turn),
    "zonal 50": lambda turn=None: zonal(50, 15, np.eye(50)[-1], turn),
    "flow 2": lambda turn=None: mf.FlowMap(bumps(2, turn)),
    "flow 3": lambda turn=None: flow(3, SLANTED, turn),
    "flow 10": lambda turn=None: flow(10, np.full(10, 10**-0.5), turn),
    "flow 50": lambda turn=None: flow(50, np.eye(50)[-1], turn),
    "flow on S2": lambda turn=None: mf.FlowMap(bumps(3, turn), tol=1e-8),
    "tokens 2": lambda turn=None: tokens(2, turn),
    "tokens 3": lambda turn=None: tokens(3, turn),
    "tokens 10": lambda turn=None: tokens(10, turn),
    "oscillator density": lambda turn=None: mf.OscillatorDensity(
        mf.Circle(64), [bumps(2, turn), mf.Uniform(2)], [-1.0, 3.0], [3.0, 1.0], unit_mass=True
    ),
    "oscillators": lambda turn=None: oscillators(turn),
    "one token": lambda turn=None: mf.Particles(
        SLANTED[None] if turn is None else (turn @ SLANTED)[None]
    ),
}
BUILT = {name: make() for name, make in MEASURES.items()}
DENSITIES = {name: mu for name, mu in BUILT.items() if type(mu) is mf.Density}


def rounding(radius):
    """Exponents of size |z| are rounded by |z| eps; hundreds of positive terms are summed."""
    return 8 * (radius + 10) * EPS


def series_rounding(mu):
    """A rounding of each coefficient, of its norm's size, times sqrt(N_k): |Y| at its largest.

    In high dimension that is much, near the axis, where there is hardly any measure.
    """
    peaks = np.sqrt(mf.spaces.gegenbauer.multiplicities(mu.dim, mu.space.kmax))
    return 4 * EPS * np.sqrt(mu.power.sum()) * peaks.sum()
