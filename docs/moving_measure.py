"""The picture of the landing page: a turning globe on which the tokens of a Transformer cluster."""

from importlib.resources import files
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LogNorm
from numpy.typing import NDArray
from PIL import Image

import meanfield as mf

Array = NDArray[np.float64]

FRAMES = 24
PIXELS = 240  # across the globe
COLOURS = 48  # few, so that the file is light
MILLISECONDS = 150  # a frame
TURNS = -0.9, 0.3  # of the globe, at the first and the last frame


def moving_measure(path: Path) -> None:
    """Write a GIF of SA, β = 4, from the bundled tokens, smoothed, to four clusters."""
    tokens = np.loadtxt(
        str(files("meanfield") / "data" / "tokens_s2.csv"), delimiter=",", skiprows=1
    )
    start = mf.Density(mf.Sphere(63), mf.PointCloud(tokens, bandwidth=0.03), tail_tol=1e-5)
    # for the eye: pixels tell percents of the density, not 1e-8
    sol = mf.evolve(start, mf.SA(4.0), 1.9, FRAMES - 1, rtol=1e-5)
    turns = np.linspace(*TURNS, FRAMES)
    densities = [mu for mu in sol.measures if isinstance(mu, mf.Density)]
    pictures = [frame(globe(mu, turn)) for mu, turn in zip(densities, turns, strict=True)]
    # the last stands for two seconds
    durations = [MILLISECONDS] * (FRAMES - 1) + [2000]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=durations, loop=0)


def frame(values: Array) -> Image.Image:
    """Colours by the logarithm of the density, from 1/50 of the uniform one to 50 times it."""
    colours = colormaps["viridis"](LogNorm(0.02, 50.0, clip=True)(values), bytes=True)
    colours[np.isnan(values)] = 255
    picture = Image.fromarray(colours[::-1, :, :3])
    return picture.quantize(COLOURS, dither=Image.Dither.NONE)


def globe(mu: mf.Density, turn: float) -> Array:
    """f on the half of S² that is seen from a place on the equator, 20° up; nan beside it."""
    x, y = np.meshgrid(*2 * [np.linspace(-1.0, 1.0, PIXELS)])
    seen = x**2 + y**2 < 1.0
    ahead = np.sqrt(1.0 - x[seen] ** 2 - y[seen] ** 2)
    up = np.radians(20.0)
    height = np.cos(up) * y[seen] + np.sin(up) * ahead
    depth = np.cos(up) * ahead - np.sin(up) * y[seen]
    east, south = np.cos(turn), np.sin(turn)
    points = np.column_stack(
        [east * depth - south * x[seen], south * depth + east * x[seen], height]
    )
    values = np.full(x.shape, np.nan)
    values[seen] = mu.pdf(points / np.linalg.norm(points, axis=1, keepdims=True))
    return values
