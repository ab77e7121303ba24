"""Histograms of the inner products of tokens, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from meanfield._checks import shown
from meanfield.measures.particles import Particles
from meanfield.plot.frames import BLUE, NORMAL, ORANGE, SMALL, new_figure
from meanfield.typing import Array

_BINS = 80
_COLUMN, _ROW = 1.5, 1.35


def inner_products(
    rows: Mapping[str, Sequence[Particles]], titles: Sequence[str] | None = None
) -> Figure:
    """Histograms of <x_i, x_j>, i ≠ j: a row for each name, a column for each measure.

    The mean is marked. Figure 1 of the paper shows such histograms for a trained model.

    Parameters
    ----------
    rows : mapping of str to sequence of Particles
        Equally many in each row, of at least 2 tokens each; weights do not count.
    titles : sequence of str, optional
        Of the columns.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If a row is empty or of another length, or holds something else.

    Examples
    --------
    >>> import meanfield as mf
    >>> square = mf.Particles([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    >>> len(inner_products({"a square": [square]}).axes)
    1
    """
    if not isinstance(rows, Mapping) or not all(isinstance(r, Sequence) for r in rows.values()):
        raise ValueError(f"rows must map names to sequences of Particles, got {shown(rows)}")
    lengths = {len(measures) for measures in rows.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"rows must be of one length >= 1, got lengths {sorted(lengths)}")
    columns = lengths.pop()
    if titles is not None:
        words = isinstance(titles, Sequence) and not isinstance(titles, str)
        if not words or len(titles) != columns:
            raise ValueError(f"titles must be {columns}, one for each column, got {shown(titles)}")
    figure = new_figure(_COLUMN * columns + 0.6, _ROW * len(rows) + 0.3)
    axes = figure.subplots(len(rows), columns, squeeze=False, sharex=True)
    for line, (name, measures) in zip(axes, rows.items(), strict=True):
        for ax, measure in zip(line, measures, strict=True):
            values = _pairs(measure)
            ax.hist(values, bins=_BINS, range=(-1.0, 1.0), color=BLUE, density=True)
            ax.axvline(values.mean(), color=ORANGE, linewidth=1.0)
            ax.set_yticks([])
            ax.set_xlim(-1.0, 1.0)
            ax.tick_params(labelsize=SMALL)
            ax.set_title(f"mean {values.mean():.3f}", fontsize=SMALL, pad=2)
        line[0].set_ylabel(name, fontsize=NORMAL)
    for ax, title in zip(axes[0], titles or [], strict=False):
        ax.set_title(f"{title}\n{ax.get_title()}", fontsize=SMALL, pad=2)
    for ax in axes[-1]:
        ax.set_xlabel("⟨xᵢ, xⱼ⟩", fontsize=SMALL)
    return figure


def _pairs(measure: Particles) -> Array:
    """<x_i, x_j> for i < j."""
    if not isinstance(measure, Particles) or len(measure.points) < 2:
        raise ValueError(f"rows must hold Particles of at least 2 tokens, got {shown(measure)}")
    gram = measure.points @ measure.points.T
    return np.asarray(gram[np.triu_indices(len(gram), 1)])
