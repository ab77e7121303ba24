"""Layers of a trained model: effective β of heads, energies, clusters, inner products, moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from meanfield._checks import counted, one_of
from meanfield.plot import frames
from meanfield.trained.measure import SUBSETS, at_known_beta, subsets_of
from meanfield.trained.temperature import LEAST_R2

if TYPE_CHECKING:
    import xarray as xr

_ALL_TOKENS = SUBSETS[0]
_NULL: frames.Keywords = {"color": frames.GREY, "linestyle": ":"}
# histograms show at most so many states
_MOST_STATES = 6
# heads with β among this share of extremes have the colours at the ends of the scale
_ENDS = 0.05


def layers(ds: xr.Dataset, name: str | None = None) -> Figure:
    """The layers of a trained model: all panels on one figure, or one of them.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `trained.measure_layers`.
    name : str, optional
        One panel: 'heads' (effective β in colours, R² below 0.1 as a cross: no β describes these
        heads), 'fit' (R² of all heads by layer, and that of heads of another layer), 'energy'
        (between its bounds, with its drift to the mean), 'parts' (what attention and feed-forward
        do to it), 'clusters' (near pairs and modes), 'products' (histograms of inner products),
        'means' (mean and upper cosine), 'rank' or 'moves' (W_2 of the model's own coupling and of
        the optimal one). With all tokens lines are solid, without sinks dashed; nulls are dotted.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        If `ds` is no such dataset, or has no such panel.

    Examples
    --------
    >>> import meanfield as mf
    >>> start = mf.Particles.sample(mf.Uniform(3), 12, rng=0).points
    >>> model = mf.trained.synthetic_layers(start, 2, beta=4.0, step=0.3, rng=0)
    >>> ds = mf.trained.measure_layers(model, repeats=2, rng=0)
    >>> len(layers(ds, "energy").axes)
    1
    """
    needed = "energy_share", "near_pairs", "inner_products", "own_distance", "is_sink"
    frames.check_dataset(ds, "trained.measure_layers", needed, ("state", "layer", "subset"))
    panels = panels_of(ds)
    if name is not None:
        figure = frames.new_figure(4.4, 2.9)
        panels[one_of("name", name, sorted(panels))](figure.subplots(), ds)
        return figure
    figure, axes = frames.new_panels(len(panels), 3, (4.0, 2.7), (0.0, 0.0))
    for ax, draw in zip(axes.flat, panels.values(), strict=False):
        draw(ax, ds)
    title = f"{ds.attrs.get('file', 'Layers of a trained model')}: {ds.attrs['n_measured']} tokens"
    dashed = "dashed without sinks, " * (len(subsets_of(ds)) > 1)
    return frames.finish(figure, f"{title}; {dashed}dotted nulls")


# a function that draws a panel of a dataset
Draw = Callable[[Axes, "xr.Dataset"], None]


def panels_of(ds: xr.Dataset) -> dict[str, Draw]:
    """The panels that a dataset has numbers for: those of heads need attention."""
    of_heads: dict[str, Draw] = {"heads": _heads, "fit": _fit}
    return (of_heads if "effective_beta" in ds else {}) | {
        "energy": _energy,
        "parts": _parts,
        "clusters": _clusters,
        "products": _products,
        "means": _means,
        "rank": _rank,
        "moves": _moves,
    }


def _label(ax: Axes, x: str, y: str, title: str) -> None:
    frames.label_axes(ax, x, y)
    frames.head(ax, title)
    # layers are counted, so ticks are integers
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _curve(ax: Axes, at: xr.DataArray, values: xr.DataArray, **look: Any) -> None:
    """Draw a line over layers; a dot if there is only one."""
    ax.plot(at, values, marker="" if len(at) > 1 else ".", **{"linewidth": 1.2} | look)


def _lines(
    ax: Axes, ds: xr.Dataset, name: str, colour: str, label: str, over: str = "state"
) -> None:
    """A number over states or layers, with all tokens and, dashed, without sinks."""
    for subset, line, text in zip(subsets_of(ds), ("-", "--"), (label, ""), strict=False):
        values = ds[name].sel(subset=subset)
        _curve(ax, ds[over], values, color=colour, linestyle=line, label=text)


def _null(ax: Axes, ds: xr.Dataset, name: str, label: str) -> None:
    _curve(ax, ds["state"], ds[name].sel(subset=_ALL_TOKENS), label=label, **_NULL)


def _heads(ax: Axes, ds: xr.Dataset) -> None:
    """Draw effective β by layer and head, with a cross on heads that no β describes."""
    part = ds.sel(subset=_ALL_TOKENS)
    beta, is_described = part["effective_beta"].values, part["r2"].values >= LEAST_R2
    count = f"{int(is_described.sum())} of {counted(is_described.size, 'head')}"
    _label(ax, "head", "layer", f"effective β where R² ≥ {LEAST_R2:g}: {count}")
    described_betas = beta[is_described]
    end = float(np.quantile(np.abs(described_betas), 1.0 - _ENDS)) if len(described_betas) else 1.0
    described = np.where(is_described, beta, np.nan)
    image = ax.imshow(described, "RdBu_r", Normalize(-end, end), aspect="auto", zorder=1)
    ax.set_facecolor("0.94")
    layer, head = np.nonzero(~is_described)
    ax.plot(head, layer, "x", color="0.6", markersize=2.5, markeredgewidth=0.6)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.spines[["top", "right"]].set_visible(True)
    bar = ax.figure.colorbar(image, ax=ax, extend="both", aspect=25)
    frames.finish_bar(bar, "β; × no β describes the head")


def _fit(ax: Axes, ds: xr.Dataset) -> None:
    """Draw R² of each head by layer, and the means of the model and of its null."""
    _label(ax, "layer", "R²", "R² of log A on β⟨x, y⟩ + c, a dot for each head")
    part, layer = ds.sel(subset=_ALL_TOKENS), ds["layer"]
    r2 = part["r2"].values
    ax.plot(np.repeat(layer, r2.shape[1]), r2.ravel(), ".", color=frames.SKY, markersize=3)
    _lines(ax, ds.assign(r2=ds["r2"].mean("head")), "r2", frames.BLUE, "mean", "layer")
    null = part["r2_null"].sel(head_null="another layer").mean("head")
    # a single layer has no other layer to compare with
    if np.isfinite(null).any():
        _curve(ax, layer, null, label="heads of another layer", **_NULL)
    ax.axhline(LEAST_R2, color=frames.ORANGE, linewidth=0.8)
    frames.write(ax, "no β below", (1.0, LEAST_R2), ax.get_yaxis_transform(), ha="right")
    ax.set_ylim(0.0, max(3.0 * LEAST_R2, 1.05 * float(np.nanmax(r2, initial=0.0))))
    ax.legend(**frames.LEGEND)


def _energy(ax: Axes, ds: xr.Dataset) -> None:
    """Draw E_β over layers at each β between its bounds for this number of tokens.

    Draw its null.
    """
    _label(ax, "layer", "", "energy $E_β$ / $E_β$(δ), with the least that it can be")
    for beta, colour in zip(ds["beta"].values, frames.CYCLE, strict=False):
        part = ds.sel(beta=beta)
        of_model = " (of the model)" if beta == ds.attrs.get("model_beta") else ""
        _lines(ax, part, "energy_share", colour, f"β = {beta:.3g}{of_model}")
        values = part["energy_share_drift"].sel(subset=_ALL_TOKENS)
        _curve(ax, ds["state"], values, color=colour, linestyle=":", linewidth=1.0)
        least = float(part["energy_share_lower"].sel(subset=_ALL_TOKENS))
        ax.axhline(least, color=colour, linewidth=0.5, alpha=0.6)
    ax.set_yscale("log")
    # the axis ends at 1, and extends below the curves, where the legend has room
    ax.set_ylim(ax.get_ylim()[0] ** 1.4, 1.0)
    ax.legend(**frames.LEGEND, ncols=2, loc="lower left")


def _parts(ax: Axes, ds: xr.Dataset) -> None:
    """Draw the change of energy by each half of a layer, and the residual of first order."""
    part = at_known_beta(ds).sel(subset=_ALL_TOKENS)
    halves, beta = ds["half"].values.astype(str), float(part["beta"])
    title = f"change of $E_β$ / $E_β$(δ) by each half of a layer, β = {beta:.3g}"
    _label(ax, "layer", "", title)
    width = 0.8 / len(halves)
    for i, (half, colour) in enumerate(zip(halves, frames.CYCLE, strict=False)):
        row = part.sel(half=half)
        x = ds["layer"].values + (i - 0.5 * (len(halves) - 1)) * width
        ax.bar(x, row["energy_change"], width, color=colour, label=half)
        first_order = row["energy_change"] - row["energy_residual"]
        label = "" if i else "to first order"
        ax.plot(x, first_order, "_", color="black", markersize=4, markeredgewidth=0.8, label=label)
    ax.axhline(0.0, color="black", linewidth=0.6)
    # the axis extends above the bars, where the legend has room
    ax.margins(y=0.5)
    ax.legend(**frames.LEGEND, loc="upper left")


def _clusters(ax: Axes, ds: xr.Dataset) -> None:
    """Draw the share of near pairs and its null; the modes of log G_β have an axis of their own."""
    part = at_known_beta(ds)
    beta = float(part["beta"])
    _label(ax, "layer", "share", f"pairs within 1/√β, and modes, β = {beta:.3g}")
    _lines(ax, part, "near_pairs", frames.BLUE, "near pairs")
    _null(ax, part, "near_pairs_drift", "of the drift")
    modes = ax.twinx()
    _lines(modes, part, "n_modes", frames.ORANGE, "modes (right)")
    for axes in (ax, modes):
        # the axis extends above the curves, where the legend has room
        axes.set_ylim(0.0, 1.5 * axes.get_ylim()[1])
    modes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    modes.tick_params(labelsize=frames.SMALL, colors=frames.ORANGE)
    modes.spines["top"].set_visible(False)
    handles = [h for a in (ax, modes) for h in a.get_legend_handles_labels()[0]]
    ax.legend(handles=handles, **frames.LEGEND, loc="upper center", ncols=2)


def _products(ax: Axes, ds: xr.Dataset) -> None:
    """Draw histograms of inner products of some states, from dark to light (Figure 1)."""
    _label(ax, "⟨xᵢ, xⱼ⟩", "density", "inner products of pairs of tokens, by layer")
    states = frames.thinned(ds.sizes["state"], _MOST_STATES)
    cosines = ds["cosine"].values
    width = cosines[1] - cosines[0]
    colours = frames.COLOURS(np.linspace(0.1, 0.8, len(states)))
    for state, colour in zip(states.tolist(), colours, strict=True):
        counts = ds["inner_products"].sel(subset=_ALL_TOKENS).isel(state=state).values
        heights = counts / counts.sum() / width
        ax.step(cosines, heights, where="mid", color=colour, linewidth=1.0, label=str(state))
    ax.set_xlim(-1.0, 1.0)
    ax.set_ylim(bottom=0.0)
    ax.legend(**frames.LEGEND, title="layer", title_fontsize=frames.SMALL)


def _means(ax: Axes, ds: xr.Dataset) -> None:
    """Draw mean and 0.9 quantile of inner products, and those of the null."""
    _label(ax, "layer", "", "inner products: mean and 0.9 quantile over pairs")
    _lines(ax, ds, "mean_cosine", frames.BLUE, "mean")
    _lines(ax, ds, "upper_cosine", frames.ORANGE, "0.9 quantile")
    _null(ax, ds, "upper_cosine_drift", "0.9 quantile of the drift")
    ax.set_ylim(top=1.0)
    ax.legend(**frames.LEGEND)


def _rank(ax: Axes, ds: xr.Dataset) -> None:
    _label(ax, "layer", "", "effective rank of the tokens")
    _lines(ax, ds, "effective_rank", frames.BLUE, "model")
    _null(ax, ds, "effective_rank_drift", "drift to the mean")
    ax.set_ylim(0.0, 1.05 * ax.get_ylim()[1])
    ax.legend(**frames.LEGEND)


def _moves(ax: Axes, ds: xr.Dataset) -> None:
    """Draw how far each layer moves the tokens, by its own coupling and by the optimal one."""
    part = ds.sel(subset=_ALL_TOKENS)
    of_model, optimal = part["own_distance"].values, part["optimal_distance"].values
    title = f"$W_2$ between layers, own − optimal ≤ {float((of_model - optimal).max()):.2g}"
    _label(ax, "layer", "radian", title)
    ax.fill_between(ds["layer"], optimal, of_model, color=frames.BLUE, alpha=0.2, linewidth=0.0)
    _lines(ax, ds, "own_distance", frames.BLUE, "the model's own coupling", "layer")
    _lines(ax, ds, "optimal_distance", frames.GREEN, "the optimal coupling", "layer")
    ax.set_ylim(bottom=0.0)
    ax.legend(**frames.LEGEND)
