"""A flow map of labels on a line: the density at its free nodes, and its atoms as stems."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from meanfield.measures import LineFlowMap
from meanfield.plot.frames import (
    BLUE,
    CAP,
    ORANGE,
    SMALL,
    height,
    log_law_of_angle,
    profile,
    ring,
)

Array = NDArray[np.float64]

_TURN = 2.0 * np.pi
# atoms nearer than this look like one
_ALIKE = 0.01
# area of the dot of an atom of mass 1, in points²
_AREA = 40.0
# stems of more atoms than these are thin
_FEW = 30
# masses are written beside so many atoms at most, this part of the panel's width apart
_MOST_NAMES = 4
_APART = 0.28


def log_curve(flow: LineFlowMap) -> tuple[Array, Array]:
    """Angles of the free nodes, ascending, and log f there, or of the law of the polar angle."""
    free = flow.owners < 0
    angles, log_f = flow.angles[free], flow.log_density[free]
    if flow.axis is None:
        angles = angles % _TURN
    else:
        angles = np.clip(angles, 0.0, np.pi)
        log_f = log_law_of_angle(log_f, angles, flow.dim)
    order = np.argsort(angles, kind="stable")
    return angles[order], log_f[order]


def extremes(flow: LineFlowMap) -> tuple[float, float]:
    """Smallest and largest of the curve, or twice the uniform one where that is more."""
    _, logs = log_curve(flow)
    equator = np.array([np.pi / 2])
    least = 0.0 if flow.axis is None else float(log_law_of_angle(np.zeros(1), equator, flow.dim)[0])
    with np.errstate(over="ignore", under="ignore"):
        lowest = float(np.exp(logs.min(initial=0.0)))
        return lowest, float(np.exp(logs.max(initial=least + np.log(2.0))))


def draw_ring(flow: LineFlowMap, ax: Any, scale: Normalize) -> None:
    """The curve around the circle and the atoms on stems across its scale."""
    around: Array = np.linspace(0.0, _TURN, 721)
    nodes, logs = log_curve(flow)
    angles, heights = around, np.zeros_like(around)
    if len(nodes):
        angles = np.union1d(around, nodes)
        heights = np.interp(angles, nodes, height(_exp(logs), scale), period=_TURN)
        ax.fill_between(angles, 0.0, heights, color=BLUE, alpha=0.25, linewidth=0.0)
        ax.plot(angles, heights, color=BLUE, linewidth=1.2)
    atoms, masses = gathered(flow.atoms % _TURN, flow.atom_masses)
    _stems(ax, atoms, masses, 0.0, 1.0)
    ring(ax, np.append(angles, atoms), np.append(heights, np.ones_like(atoms)), scale)
    if _is_cut(logs, scale):
        # the corner beside the circle
        ax.text(-0.1, -0.02, _cut(logs), transform=ax.transAxes, **_TEXT, va="top")


def draw_profile(flow: LineFlowMap, ax: Axes, scale: Normalize) -> None:
    """The law of the polar angle and the atoms, with their masses, on stems across the panel."""
    nodes, logs = log_curve(flow)
    angles: Array = np.union1d(np.linspace(0.0, np.pi, 361), nodes)
    # no mass lies beyond the outermost nodes
    law = np.interp(angles, nodes, _exp(logs), 0.0, 0.0) if len(nodes) else np.zeros_like(angles)
    profile(ax, angles, law, flow.dim, scale)
    names = list(zip(*gathered(np.clip(flow.atoms, 0.0, np.pi), flow.atom_masses), strict=True))
    bottom, top = ax.get_ylim()
    _stems(ax, *_columns(names), bottom, float(scale.vmax or top))
    cut = _is_cut(logs, scale)
    if cut:
        _beside(ax, float(nodes[np.argmax(logs)]), 0, _cut(logs))
    named: list[float] = []
    for atom, mass in sorted(names, key=lambda name: -name[1]):
        if len(named) < _MOST_NAMES and all(abs(atom - x) > _APART * np.pi for x in named):
            named.append(atom)
            _beside(ax, atom, int(cut) + len(named) - 1, f"atom {mass:.3g}")


_TEXT: dict[str, Any] = {"fontsize": SMALL, "color": "0.3"}


def _beside(ax: Axes, angle: float, line: int, text: str) -> None:
    """A line of text on the side of a stem where the panel is wider."""
    left = angle <= np.pi / 2
    ax.annotate(
        text,
        (angle, 0.95),
        xycoords=ax.get_xaxis_transform(),
        xytext=(5 if left else -5, -9 * line),
        textcoords="offset points",
        ha="left" if left else "right",
        va="center",
        **_TEXT,
    )


def _stems(ax: Any, atoms: Array, masses: Array, bottom: float, top: float) -> None:
    if len(atoms):
        few = len(atoms) <= _FEW
        ax.vlines(
            atoms,
            bottom,
            top,
            color=ORANGE,
            linewidth=0.9 if few else 0.4,
            alpha=None if few else 0.5,
            zorder=3,
        )
        area, tops = np.maximum(_AREA * masses, 2.0), np.full(len(atoms), top)
        ax.scatter(atoms, tops, s=area, color=ORANGE, linewidths=0.0, zorder=4, clip_on=False)


def gathered(atoms: Array, masses: Array) -> tuple[Array, Array]:
    """Atoms that look alike joined: the mean angle and the whole mass of each group."""
    groups: list[list[int]] = []
    for index in np.argsort(atoms):
        if groups and atoms[index] - atoms[groups[-1][0]] < _ALIKE:
            groups[-1].append(int(index))
        else:
            groups.append([int(index)])
    heavy = [np.maximum(masses[group], np.finfo(float).tiny) for group in groups]
    angles = [atoms[g] @ m / m.sum() for g, m in zip(groups, heavy, strict=True)]
    return np.array(angles), np.array([masses[group].sum() for group in groups])


def _columns(pairs: list[tuple[float, float]]) -> tuple[Array, Array]:
    table = np.reshape(np.array(pairs, dtype=np.float64), (-1, 2))
    return table[:, 0], table[:, 1]


def _exp(logs: Array) -> Array:
    """The densities, those far beyond the scale's end cut short of overflow."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(np.minimum(logs, np.log(1e3 * CAP))))


def _is_cut(logs: Array, scale: Normalize) -> bool:
    return bool(len(logs)) and scale.vmax == CAP and bool(logs.max() > np.log(CAP))


def _cut(logs: Array) -> str:
    """How far the curve goes beyond its panel, as a power of ten that may leave double range."""
    log10 = float(logs.max()) / np.log(10.0)
    if not np.isfinite(log10):
        return "to ∞ ↑"
    leading, exponent = round(10.0 ** (log10 % 1.0)), int(np.floor(log10))
    if leading == 10:
        leading, exponent = 1, exponent + 1
    return f"to {leading}e{exponent} ↑"
