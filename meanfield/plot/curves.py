"""Numbers of a run over t: energy between its bounds, dissipation, distances, resolution."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import cycle
from textwrap import shorten
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from meanfield._checks import one_of, shown
from meanfield.dynamics import adapt
from meanfield.dynamics.facts import term_names
from meanfield.dynamics.schedule import TimeDependent, walk_fields
from meanfield.dynamics.with_energy import why_no_energy
from meanfield.evolution.arrays import TERM
from meanfield.evolution.recorder import LOWER, MOST_TERMS, PROVED, UPPER, with_role
from meanfield.evolution.solution import Solution
from meanfield.kernels.multipliers import log_eigenvalues
from meanfield.measures import Density, FlowMap, LineFlowMap
from meanfield.plot import frames
from meanfield.typing import Array, ArrayLike

Draw = Callable[[Solution, Axes | None], Axes]
# a bound is drawn if it is nearer to the energy than this part of the energy's range
_NEAR = 0.3
# an energy that moves by less than this part of itself is constant up to rounding
_STILL = 1e-12
# a range of t shorter than this part of the axis has no room for the name of a size
_ROOM = 0.2


def energy(sol: Solution, ax: Axes | None = None) -> Axes:
    """The energy of the run over t, its dynamics' own or the one asked for, between its bounds.

    E_β (3.5) lies between E_β(σ) = Λ_0/(2β) and E_β(δ) = e^β/(2β) (Proposition 3.4), E_DS between
    log Λ_0/(2β) and 1/2. Where it overflows, what is drawn is its share of that of a Dirac.

    The title has the bounds; one that is near is drawn dashed. Of a sum of up to six terms it is
    what the energy has gained since the start, which the title has, and a thin line is what the
    part of each term has, unless one is too large for float64.

    Parameters
    ----------
    sol : Solution
    ax : matplotlib Axes, optional
        Made on a new figure if omitted.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `sol` is no solution, or one without an energy, or `ax` no Axes.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> sol = mf.evolve(mu, mf.SA(1.0), 1.0, 4)
    >>> len(energy(sol).lines[0].get_xdata())
    5
    """
    check(sol)
    name = energy_name(sol)
    if name is None:
        reason = why_no_energy(sol.dynamics, sol.energy) or shown(sol)
        raise ValueError(f"sol must be of a dynamics with an energy, got {reason}")
    values, limits = sol.numbers[name].values, bounds(sol, name)
    of_terms = _over(sol, "t", TERM) if name == "energy" else []
    if "term_energy" in of_terms and sol.numbers["term_energy"].values.shape[1] <= MOST_TERMS:
        return _gains(sol, ax)
    ax = panel(sol, ax, frames.subscripts(bounded_title(sol, name), "$_{%s}$"))
    _curve(ax, sol, values)
    ax.set_ylim(*limits.window(values))
    for level in filter(np.isfinite, limits[:2]):
        ax.axhline(level, color=frames.GREY, linestyle="--", linewidth=0.8)
    return ax


def _gains(sol: Solution, ax: Axes | None) -> Axes:
    """Draw the gain of the energy of a sum, and of each term, since the start.

    The energies of terms may be far apart where they gain as much as each other.
    """
    totals, symbol = sol.numbers["energy"].values, sol.numbers["energy"].attrs["symbol"]
    ax = panel(sol, ax, f"energy {symbol}(t) - {symbol}(0), {symbol}(0) = {totals[0]:.4g}")
    _curve(ax, sol, totals - totals[0], label=f"{symbol}, the sum")
    terms = sol.numbers["term_energy"].values
    _draw_terms(ax, sol, terms - terms[0], 0.8)
    heights = np.concatenate([np.asarray(line.get_ydata()) for line in ax.lines])
    low, high = _UNKNOWN.window(heights)
    # the axis extends below the curves, where a legend has room
    share = _ENTRY * len(ax.lines)
    ax.set_ylim(low - share / (1.0 - share) * (high - low), high)
    ticks = np.asarray(MaxNLocator(4).tick_values(low, high))
    ax.set_yticks(ticks[(ticks >= low) & (ticks <= high)])
    ax.spines["left"].set_bounds(low, high)
    ax.legend(**frames.LEGEND, handlelength=1.4, labelspacing=0.2, loc="lower left")
    return ax


def energy_name(sol: Solution) -> str | None:
    """The variable of the run's energy, of its share where it overflows, None if it has none."""
    return next(iter(with_role(sol.numbers, "energy", "share")), None)


def title(sol: Solution, name: str) -> str:
    """The title of a variable, with the symbol of its energy if it has one."""
    attributes, name_in_words = sol.numbers[name].attrs, name.replace("_", " ")
    if attributes.get("role") in ("energy", "share"):
        return f"{name_in_words} {attributes['symbol']}{followed_beta(sol)}"
    # noise, and weights that vary in time, add parts of their own to dE/dt
    energy = sol.dynamics if sol.energy is None else sol.energy
    if attributes.get("role") != "rate" or sol.dynamics.noise > 0.0 or adapt(energy).varies:
        return name_in_words
    rate = f"d{attributes['symbol']}/dt"
    # dE/dt may have either sign if terms have metrics of their own, or along another flow
    has_both_signs = (sol.numbers[name].values < 0.0).any()
    return f"{name_in_words} {f'±{rate}' if has_both_signs else f'|{rate}|'}{followed_beta(sol)}"


def followed_beta(sol: Solution) -> str:
    """β of an energy that is not that of the dynamics, for a title; empty where there is none."""
    beta = getattr(sol.energy, "beta", None)
    if beta is None:
        return ""
    return " of β(t)" if isinstance(beta, TimeDependent) else f" of β = {beta:g}"


def bounded_title(sol: Solution, name: str) -> str:
    """The title of an energy, between its bounds if it has any."""
    low, high = (f"{end:.4g}" if np.isfinite(end) else "" for end in bounds(sol, name)[:2])
    attributes = sol.numbers[name].attrs
    if not low + high:
        return title(sol, name)
    symbol = "share" if attributes["role"] == "share" else attributes["symbol"]
    between = " ≤ ".join(part for part in (low, symbol, high) if part)
    return f"{name.replace('_', ' ')}{followed_beta(sol)}, {between}"


# the roles of speeds of a run; the first that it has is drawn
RATES = "order", "rate", "speed"


def dissipation(sol: Solution, ax: Axes | None = None) -> Axes:
    """|dE/dt| = ∫ |X|² G(βx) dmu (SA, (3.6)) or ∫ |X|² dmu (USA, Lemma 3.7) over t.

    Under DoublyStochastic |dE_DS/dt| = ∫ |X|² dmu. With noise, or where the energy has weights in
    time, it is what X alone does to E. For
    interactions on the circle it is the order parameter r, for other dynamics without such an
    identity the root mean square of the velocity |X|.

    Parameters
    ----------
    sol : Solution
    ax : matplotlib Axes, optional
        Made on a new figure if omitted.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `sol` is no solution, or has none of these, or `ax` no Axes.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> sol = mf.evolve(mu, mf.SA(1.0), 1.0, 4)
    >>> dissipation(sol).get_title(loc="left")
    'dissipation |dE$_{β}$/dt|'
    """
    check(sol)
    names = with_role(sol.numbers, *RATES)
    if not names:
        raise ValueError(f"sol must have a dissipation or a speed, got {list(sol.dataset)}")
    name = names[0]
    ax = panel(sol, ax, frames.subscripts(title(sol, name), "$_{%s}$"))
    values = sol.numbers[name].values
    _curve(ax, sol, values)
    _set_scale(ax, values)
    return ax


def _set_scale(ax: Axes, values: Array, least: float = 0.0) -> None:
    """Use a logarithmic axis above the least value if values are far apart.

    Other values have a linear axis from 0.
    """
    if frames.is_wide(values, least):
        ax.set_yscale("log")
        ax.yaxis.set_minor_formatter(NullFormatter())
        return
    known = values[np.isfinite(values)]
    low, high = 1.1 * known.min(initial=0.0), 1.1 * known.max(initial=0.0)
    ax.set_ylim(low, high if high > low else 1.0)
    if low < 0.0:
        ax.axhline(0.0, color=frames.GREY, linestyle="--", linewidth=0.8)


def resolution(sol: Solution, ax: Axes | None = None) -> Axes:
    """The spectral tail of a density over t, its tolerance, and the size of the space.

    Parameters
    ----------
    sol : Solution
        A run of a density.
    ax : matplotlib Axes, optional
        Made on a new figure if omitted.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `sol` is no solution of densities, or `ax` no Axes.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> sol = mf.evolve(mu, mf.SA(1.0), 1.0, 4)
    >>> resolution(sol).get_yscale()
    'log'
    """
    ax = panel(sol, ax, "spectral tail")
    if not isinstance(sol.final, Density) or "tail" not in sol.numbers:
        raise ValueError(f"sol must hold densities and their tail, got {shown(sol)}")
    values = sol.numbers["tail"].values
    _curve(ax, sol, np.where(values > 0.0, values, np.nan))
    ax.set_yscale("log")
    if "tail_tol" in sol.numbers.attrs:
        _tolerance(ax, float(sol.numbers.attrs["tail_tol"]), values)
    _sizes(sol, ax, f"{sol.final.space.size_name} = ")
    return ax


def nodes(sol: Solution, ax: Axes | None = None) -> Axes:
    """The number of nodes of a flow map over t, and how far the flow has drawn them together.

    While clusters form, nodes come exponentially closer, and their number grows like t: like the
    logarithm of 1/distance, drawn dashed as log₁₀ of the largest contraction since t = 0,
    max(-∫ div X dt)/(d-1), where a series would need 1/distance many coefficients.

    Parameters
    ----------
    sol : Solution
        A run of flow maps, or of densities first and then of flow maps.
    ax : matplotlib Axes, optional
        Made on a new figure if omitted; gets a twin with the scale of the contraction, where the
        labels lie on a line.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `sol` is no solution of flow maps, or `ax` no Axes.

    Examples
    --------
    >>> import meanfield as mf
    >>> flow = mf.FlowMap(mf.FourierSeries(cos=[0.5]))
    >>> nodes(mf.evolve(flow, mf.SA(1.0), 1.0, 4)).get_xlabel()
    'time t'
    """
    ax = node_count(sol, ax)
    moving = [(t, m) for t, m in sol if isinstance(m, LineFlowMap)]
    if not moving:
        return ax
    contraction = [-float(m.expansion[m.weights > 0.0].min()) / (m.dim - 1) for _, m in moving]
    heights = np.array(contraction) / np.log(10.0)
    right = ax.twinx()
    right.plot([t for t, _ in moving], heights, "--", color=frames.ORANGE, linewidth=1.2)
    right.set_ylim(0.0, 1.1 * right.get_ylim()[1])
    right.set_ylabel("log₁₀ of contraction", fontsize=frames.NORMAL, color=frames.ORANGE)
    right.tick_params(labelsize=frames.SMALL, colors=frames.ORANGE)
    right.spines[["top", "left"]].set_visible(False)
    return ax


def node_count(sol: Solution, ax: Axes | None = None) -> Axes:
    """The number of nodes alone; grey, the size of the space of densities before."""
    ax = panel(sol, ax, "number of nodes")
    if not _has_nodes(sol):
        raise ValueError(f"sol must hold flow maps, got {shown(sol)}")
    series = [measure.space for measure in sol.measures if isinstance(measure, Density)]
    # a run that has become a flow map stays one
    count = len(series)
    sizes = [space.size for space in series]
    counts = [len(flow.weights) for flow in sol.measures[count:]]
    _curve(ax, sol, np.append(np.full(count, np.nan), counts))
    if series:
        line = "-" if count > 1 else "."
        ax.plot(sol.t[:count], sizes, line, color=frames.GREY, linewidth=1.4)
        name = f"grey: series, {series[0].size_name}"
        frames.write(ax, name, (0.98, 0.03), ax.transAxes, ha="right")
    ax.set_ylim(0.0, 1.1 * max(sizes + counts))
    return ax


def _has_nodes(sol: Solution) -> bool:
    return isinstance(sol.final, FlowMap)


def _tolerance(ax: Axes, tolerance: float, values: Array) -> None:
    lowest = min(float(values[values > 0.0].min(initial=np.inf)), 0.1 * tolerance)
    # the axis extends above the tolerance, where its name and those of the sizes have room
    ax.set_ylim(0.5 * lowest, tolerance * (tolerance / lowest) ** 0.3)
    ax.axhline(tolerance, color=frames.GREY, linestyle="--", linewidth=0.8)
    frames.write(ax, "tolerance", (0.02, tolerance), ax.get_yaxis_transform())


def _sizes(sol: Solution, ax: Axes, name: str) -> None:
    """Draw bands of t, white and grey by turns, in which the space had one size."""
    sizes = sol.numbers["size"].values
    starts = np.flatnonzero(np.append(True, np.diff(sizes) != 0))
    ends = np.append(sol.t[starts[1:]], sol.t[-1])
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        first = sol.t[start]
        if number % 2:
            ax.axvspan(first, end, color="0.93", linewidth=0.0, zorder=0)
        left, right = along(ax, [first, end]) if len(sol.t) > 1 else (0.5, 0.5)
        if right - left >= _ROOM or len(sol.t) == 1:
            label, name = f"{name}{sizes[start]}", ""
            frames.write(ax, label, ((left + right) / 2, 0.97), ax.transAxes, ha="center", va="top")


def check(sol: Solution) -> None:
    """Check that this is a solution."""
    if not isinstance(sol, Solution):
        raise ValueError(f"sol must be a Solution, got {shown(sol)}")


def _curve(ax: Axes, sol: Solution, values: Array, label: str = "") -> None:
    line = "-" if len(sol.t) > 1 else "o"
    ax.plot(sol.t, values, line, color=frames.BLUE, linewidth=1.4, label=label)


def panel(sol: Solution, ax: Axes | None, title: str) -> Axes:
    """Axes over t with this title; new ones if omitted."""
    check(sol)
    ax = frames.new_axes() if ax is None else frames.check_axes(ax, set())
    frames.head(ax, title)
    frames.label_axes(ax, "time t")
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.get_offset_text().set_fontsize(frames.SMALL)
    if len(sol.t) > 1:
        ax.set_xlim(sol.t[0], sol.t[-1])
    if frames.is_decades(sol.t):
        ax.set(xscale="log", xlim=(sol.t[sol.t > 0.0][0], sol.t[-1]))
        ax.xaxis.set_major_locator(LogLocator(numticks=5))
        ax.xaxis.set_minor_formatter(NullFormatter())
    return ax


def along(ax: Axes, t: ArrayLike) -> Array:
    """The places of times on the axis of t, from 0 at its left end to 1; earlier ones at 0."""
    ends = np.array(ax.get_xlim())
    on_axis = np.log if ax.get_xscale() == "log" else np.asarray
    left, right = on_axis(ends)
    return np.asarray((on_axis(np.clip(t, *ends)) - left) / (right - left))


class Bounds(NamedTuple):
    """Between what an energy lies, what the two ends are called, and why it is so."""

    lower: float
    upper: float
    names: tuple[str, str]
    why: str

    def window(self, values: Array) -> tuple[float, float]:
        """From below the lowest value, or a bound that is near, to above the highest."""
        finite = values[np.isfinite(values)] if np.isfinite(values).any() else np.array(self[:2])
        low, high = float(finite.min()), float(finite.max())
        span, bound_gap = high - low, self.upper - self.lower
        # an energy that does not move has an axis from bound to bound
        is_still = span <= _STILL * abs(high) and np.isfinite(bound_gap)
        reach = 1.01 * bound_gap if is_still else _NEAR * span
        low = self.lower if low - self.lower <= reach else low
        high = self.upper if self.upper - high <= reach else high
        margin = 0.14 * (high - low) or 0.1 * abs(high) or 1.0
        return low - margin, high + margin


_UNKNOWN = Bounds(-np.inf, np.inf, ("min", "max"), "")


def bounds(sol: Solution, name: str) -> Bounds:
    """Between what an energy, or its share, lies; -inf and inf where that is not known, as of sums.

    E(σ) and E(δ). With a form D e^{±β|D|}/(2β), since |<x, Dy>| <= |D|; if D >= 0, each term
    <x, Dy>^m/m! of the exponential is a positive kernel, and the lower bound is 1/(2β).
    """
    adapted = adapt(sol.dynamics if sol.energy is None else sol.energy)
    energy, attributes = adapted.energy_functional, sol.numbers[name].attrs
    is_share = attributes.get("role") == "share"
    if energy is None or adapted.varies or not energy.has_bounds:
        return _UNKNOWN
    if not (is_share or attributes.get("symbol") == energy.symbol):
        return _UNKNOWN
    kernel, symbol = energy.kernel, "share" if is_share else energy.symbol
    names, beta = (f"{symbol}(σ)", f"{symbol}(δ)"), energy.beta
    if kernel is not None and kernel.growth is None:
        reason = "No pair of points, and no |m_k|², gives less or more."
        *limits, at_ends = kernel.energy_bounds()
        names = names if at_ends else ("min", "max")
        ends, logs = np.array(limits), np.zeros(2)
    elif energy.form is not None:
        reason, names = "|⟨x, Dy⟩| is at most the norm of D.", ("min", "max")
        spectrum = np.linalg.eigvalsh(np.atleast_2d(energy.form))
        sizes = float(np.abs(spectrum).max()) * np.array([-1.0 if spectrum[0] < 0.0 else 0.0, 1.0])
        half = 0.5 / (beta or 1.0)
        ends, logs = half * (sizes if beta == 0.0 else np.ones(2)), beta * sizes
    else:
        beta = kernel.growth if kernel is not None else beta
        half = 0.5 / (beta or 1.0)
        reason = "Uniform is the minimiser, Diracs are the maximisers (Proposition 3.4)."
        log_first = float(log_eigenvalues(beta, sol.final.dim, 0)[0])
        lower = (half * log_first, 0.0) if energy.entropic else (half * (beta > 0.0), log_first)
        ends, logs = np.transpose([lower, (energy.dirac, energy.log_dirac)])
    with np.errstate(over="ignore", under="ignore"):
        values = ends * np.exp(logs - (energy.log_dirac if is_share else 0.0))
    low, high = np.sort(values / energy.dirac) if is_share else values
    return Bounds(float(low), float(high), names, reason)


_NAME = re.compile(r"w(\d|_|$)")
# `DistanceTo` names its distance in these words
_WASSERSTEIN = re.compile(r"Wasserstein distance W_(\S+) to (.+)", re.DOTALL)
_TARGETS = {"uniform": "σ", "centre": "δ(mean)", "start": "the start"}
# curves with these dashes still show where they coincide
LINES = (frames.BLUE, "-"), (frames.ORANGE, "--"), (frames.GREEN, "-."), (frames.PINK, ":")
# terms have these lines, and the sum is blue
_TERM_LINES = *LINES[1:], (frames.SKY, "-"), (frames.GREY, "--"), ("black", "-.")
# the name of a term has at most so many characters
_LONGEST = 40
# an entry of a legend takes this share of the height of an energy
_ENTRY = 0.1
# a function of t is drawn at so many times, more than a run has saves
_SMOOTH = 400
# distances below this are rounding, and no reason for a logarithmic axis
_ROUNDING = 1e-12


def distances(sol: Solution, ax: Axes | None = None) -> Axes:
    """The monitors of a run that are named w, w1, w_start and so on, over t.

    If a monitor gave a bracket, a band reaches from its lower to its upper bound. δ(mean)
    is the point mass at the direction of the mean.

    Parameters
    ----------
    sol : Solution
    ax : matplotlib Axes, optional
        Made on a new figure if omitted.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `sol` is no solution or has no such monitors, or `ax` no Axes.

    Examples
    --------
    >>> import meanfield as mf
    >>> from meanfield.functionals.transport.distance import DistanceTo
    >>> mu, w1 = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5])), DistanceTo("uniform")
    >>> distances(mf.evolve(mu, mf.SA(1.0), 1.0, monitors={"w1": w1})).get_title(loc="left")
    'distances in radians'
    """
    check(sol)
    names = monitored(sol)
    if not names:
        raise ValueError(f"sol must have monitors named w…, got {list(sol.dataset.data_vars)}")
    ax = panel(sol, ax, distances_title(sol, names))
    heights: list[Array] = []
    for name, (colour, line) in zip(names, cycle(LINES)):
        values = sol.numbers[name].values
        is_finite = np.isfinite(values)
        t, values = sol.t[is_finite], values[is_finite]
        alone = "o" if len(t) == 1 else ""
        p, target = distance_to(sol, name)
        label = f"$W_{{{p}}}$ to {target}" if target else name
        ax.plot(t, values, line + alone, color=colour, linewidth=1.4, markersize=4, label=label)
        upper = values
        if (ends := ends_apart(sol, name)) is not None:
            low, upper = (end[is_finite] for end in ends)
            ax.fill_between(t, low, upper, color=colour, alpha=0.25, linewidth=0.0)
            upper = np.where(np.isfinite(upper), upper, values)
        heights += [values, upper]
    _set_scale(ax, np.concatenate(heights), _ROUNDING)
    ax.legend(**frames.LEGEND, handlelength=1.4)
    return ax


def ends_apart(sol: Solution, name: str) -> tuple[Array, Array] | None:
    """Lower and upper ends of the brackets of a monitor, None where all are as good as equal."""
    if f"{name}{LOWER}" not in sol.numbers:
        return None
    low, high = (sol.numbers[f"{name}{end}"].values for end in (LOWER, UPPER))
    return (low, high) if (high > low).any() else None


def monitored(sol: Solution) -> list[str]:
    """The variables of a run that are distances by their names, without their bounds."""
    bounds = {f"{name}{end}" for name in _over_t(sol) for end in (LOWER, UPPER, PROVED)}
    return [name for name in _over_t(sol) if _NAME.match(name) and name not in bounds]


def _over_t(sol: Solution) -> list[str]:
    return [name for name in _over(sol, "t") if name != "t"]


def _over(sol: Solution, *dims: str) -> list[str]:
    return [str(name) for name, variable in sol.numbers.variables.items() if variable.dims == dims]


def distance_to(sol: Solution, name: str) -> tuple[str, str]:
    """p of a Wasserstein distance and what it is to, in a word; empty where neither is known."""
    match = _WASSERSTEIN.fullmatch(str(sol.numbers[name].attrs.get("long_name", "")))
    return (match[1], _TARGETS.get(match[2], "")) if match else ("", "")


def distances_title(sol: Solution, names: list[str]) -> str:
    """Whether all are angles: Wasserstein distances are."""
    are_angles = all(sol.numbers[name].attrs.get("units") == "radian" for name in names)
    return "distances in radians" if are_angles else "distances"


def betas_in_time(sol: Solution) -> dict[str, TimeDependent]:
    """β(t) of the dynamics, or each of its terms, and of an energy that has another one."""
    varying: dict[int, tuple[str, TimeDependent]] = {}
    for whose, thing in ("", sol.dynamics), ("energy of ", sol.energy):
        for _, part in walk_fields(thing):
            if isinstance(beta := getattr(part, "beta", None), TimeDependent):
                varying.setdefault(id(beta), (f"{whose}{part.name}", beta))
    is_single = len(varying) == 1
    owners = enumerate(varying.values())
    return {"β" if is_single else f"{i}: {name}": beta for i, (name, beta) in owners}


def _betas(sol: Solution, ax: Axes | None = None) -> Axes:
    """Draw β over t, also between saves; a line for each term with a β of its own."""
    ax, t = panel(sol, ax, "β(t)"), np.linspace(sol.t[0], sol.t[-1], _SMOOTH)
    if not (betas := betas_in_time(sol)):
        raise ValueError(f"sol must be of a dynamics whose β varies in time, got {shown(sol)}")
    values = np.array([[beta(time) for time in t] for beta in betas.values()])
    for label, row, (colour, dash) in zip(betas, values, cycle(LINES), strict=False):
        ax.plot(t, row, dash, color=colour, linewidth=1.4, label=label)
    _set_scale(ax, values)
    if len(betas) > 1:
        ax.legend(**frames.LEGEND, handlelength=1.4)
    return ax


# the curves in the order of their panels, with functions that say whether a run has them
_CURVES: dict[str, tuple[Draw, Callable[[Solution], object]]] = {
    "energy": (energy, energy_name),
    "dissipation": (dissipation, lambda sol: with_role(sol.numbers, *RATES)),
    "nodes": (node_count, _has_nodes),
    "resolution": (resolution, lambda sol: "tail" in sol.numbers and not _has_nodes(sol)),
    "distances": (distances, monitored),
    "beta": (_betas, betas_in_time),
}


def drawable(sol: Solution) -> dict[str, Draw]:
    """The curves that a run has."""
    return {name: draw for name, (draw, is_there) in _CURVES.items() if is_there(sol)}


def curve(sol: Solution, name: str | None = None, ax: Axes | None = None) -> Axes:
    """The curve that has a picture of its own, else the variable of the dataset.

    Without a name it is the first of those with a picture. A number of the terms of a sum has a
    line for each.

    Raises
    ------
    ValueError
        If the run has no such number, or `ax` is no Axes.
    """
    check(sol)
    pictures, over_terms = drawable(sol), _over(sol, "t", TERM)
    name = next(iter(pictures), None) if name is None else name
    # drawing a curve that the run lacks raises an error with the reason
    if isinstance(name, str) and name in _CURVES:
        return _CURVES[name][0](sol, ax)
    name = one_of("name", name, sorted({*pictures, *_over_t(sol), *over_terms}))
    ax = panel(sol, ax, name)
    if name in over_terms:
        _draw_terms(ax, sol, sol.numbers[name].values)
        ax.legend(**frames.LEGEND, handlelength=1.4)
    else:
        line = "-" if len(sol.t) > 1 else "o"
        ax.plot(sol.t, sol.numbers[name].values, line, color=frames.BLUE)
    return ax


def _draw_terms(ax: Axes, sol: Solution, values: Array, width: float | None = None) -> None:
    """Draw a line for each term of values (t, term), with a label that names the term."""
    owner = sol.dynamics if sol.energy is None else sol.energy
    names = term_names(owner) or [""] * values.shape[1]
    for i, (row, term) in enumerate(zip(values.T, names, strict=False)):
        colour, dash = _TERM_LINES[i % len(_TERM_LINES)]
        line = dash if len(sol.t) > 1 else "o"
        label = shorten(f"{i}: {term}", _LONGEST, placeholder=" …")
        ax.plot(sol.t, row, line, color=colour, label=label, linewidth=width)
