"""All instruments on every layer and head of a model, and a verdict on each claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from scipy.special import stdtrit
from tqdm import tqdm

from meanfield import _checks
from meanfield._checks import counted
from meanfield.functionals.energies import mean_cosine
from meanfield.measures import Particles
from meanfield.measures.clusters import clusters
from meanfield.trained.clusters import couplings, effective_rank, inner_products, modes
from meanfield.trained.energy import attribute_energy, energy_shares, least_shares
from meanfield.trained.matrices import LayerMatrices, Norm
from meanfield.trained.nulls import drift_to_mean, other_layers, shuffle_coordinates
from meanfield.trained.sinks import sinks_of
from meanfield.trained.temperature import LEAST_R2, EffectiveBeta, effective_beta, symmetric_form
from meanfield.typing import Array, ArrayLike, Indices, NDArray, Rng

if TYPE_CHECKING:
    import xarray as xr

# energies are kept at these β, beside that of the model
BETAS = 1.0, 4.0, 16.0
SUBSETS = ("all tokens", "without sinks")
HEAD_NULLS = "shuffled tokens", "another layer"
# at least so many tokens are measured: a half of fewer tokens forms no clusters
_FEWEST = 8
_BINS = 80
# this share of the pairs of tokens has inner products below the upper cosine
_UPPER = 0.9

# variables by name have arrays alone, or the names of their axes, too
Numbers = dict[str, NDArray[np.number]]
Variables = dict[str, tuple[str | tuple[str, ...], ArrayLike]]
# for each variable: its role, its name on an axis, and its formula
VARIABLES = {
    "effective_beta": (
        *("temperature", "effective β"),
        "slope of log A_ij on <x_i, x_j> within rows; says nothing where r2 is below 0.1",
    ),
    "effective_beta_error": ("error", "standard error of β", "clustered by row"),
    "r2": ("fit", "R² of β", "share of the variance of log A within rows"),
    "off_diagonal_beta": (
        *("temperature", "effective β between different tokens"),
        "without what each token gives to itself, whose <x_i, x_i> = 1 weighs much in the fit",
    ),
    "off_diagonal_r2": ("fit", "R² of β between different tokens", "that of off_diagonal_beta"),
    "n_zero": ("count", "entries of attention that are 0", "where the mask allows more; left out"),
    "r2_null": ("null", "R² of β by chance", "of shuffled tokens, and of heads of another layer"),
    "r2_matrix": ("fit", "R² of KᵀQ", "of log A on <M x_i, x_j>, without angles and biases"),
    "r2_form": ("fit", "R² of the nearest symmetric form", "which its many parameters raise"),
    "r2_form_adjusted": (
        *("fit", "adjusted R² of the nearest symmetric form"),
        "0 on average for noise; nan where a form would fit any scores",
    ),
    "form_parameters": ("count", "parameters of a symmetric form", "on the span of the tokens"),
    "form_entries": ("count", "entries of attention within rows", "that a form is fitted to"),
    "energy_share": ("share", "energy E_β/E_β(δ)", "1/n² Σ_ij e^{β(<x_i,x_j> − 1)}"),
    "energy_share_lower": ("bound", "least energy E_β/E_β(δ)", "of so many tokens; the most is 1"),
    "n_modes": ("count", "number of modes of log G_β", "those that tokens reach by ascent"),
    "n_moving": ("count", "tokens on their way to a mode", "when the ascent ended; 0 is sound"),
    "near_pairs": ("share", "share of near pairs of tokens", "those with |x_i − x_j| <= 1/√β"),
    "n_clusters": ("count", "number of clusters", "on the scale 1/√β, 1 at most"),
    "mean_cosine": ("order", "mean cosine", "mean of <x_i, x_j> over pairs of tokens"),
    "upper_cosine": (
        "order",
        "upper cosine",
        "the 0.9 quantile of <x_i, x_j> over pairs of tokens",
    ),
    "effective_rank": ("order", "effective rank", "e^{S} of the singular values of the tokens"),
    "inner_products": ("count", "pairs of tokens", "by their inner product, Figure 1"),
    "energy_change": ("rate", "change of the energy E_β/E_β(δ)", "by each part of a layer"),
    "energy_residual": (
        *("error", "residual of the attribution"),
        "energy_change less the sum of token_energy: second order in the move",
    ),
    "token_energy": ("rate", "change of the energy by a token", "<∇_i E_β, Δx_i>/E_β(δ)"),
    "own_distance": ("distance", "distance that tokens moved", "(mean of dist(x_i, y_i)²)^{1/2}"),
    "optimal_distance": ("distance", "W_2 that tokens moved", "of the optimal coupling"),
    "attention_share": ("share", "share of attention that a token draws", "median over heads"),
    "norm_ratio": ("order", "norm of a token over the median", "of the states as they are"),
    "is_sink": ("sink", "whether a token is a sink", "of any layer, by attention or norm"),
}
# each number of `_figures` exists once for each of these
VARIANTS = {
    "": ("", "{}", ""),
    "_drift": (
        *("null", "{} of the drift to the mean"),
        "the first tokens, moved to their mean until they have the mean cosine",
    ),
    "_resampled": (
        "resampled",
        "{} of half of the tokens",
        "random halves, the same in all states",
    ),
    "_drift_resampled": (
        *("resampled", "{} of the drift of half of the tokens"),
        "the null of each half",
    ),
    "_shuffled": ("null", "{} of shuffled tokens", "coordinates exchanged between tokens"),
}
_REPEATED = "_resampled", "_drift_resampled", "_shuffled"
_UNITS = {"own_distance": "radian", "optimal_distance": "radian"}


@runtime_checkable
class Layered(Protocol):
    """The states that `measure_layers` measures: `LayerStates` and `SyntheticLayers` are some."""

    @property
    def n_layers(self) -> int:
        """How many layers L."""

    @property
    def n_heads(self) -> int | None:
        """How many heads H of each layer; None without attention."""

    @property
    def n_tokens(self) -> int:
        """How many tokens n."""

    @property
    def dim(self) -> int:
        """Ambient dimension d."""

    @property
    def norm(self) -> Norm | None:
        """The model's norm, with a `kind`, or None."""

    @property
    def tokens(self) -> Sequence[str] | None:
        """Words of the tokens, or None."""

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Which entries of attention the mask allows, shape (n, n)."""

    def state(self, layer: int) -> Array:
        """The states before a layer, or after the last, shape (n, d)."""

    def points(self, layer: int) -> Array:
        """The same on the sphere, unit rows."""

    def after_attention_at(self, layer: int) -> Array | None:
        """The states between the halves of a layer, shape (n, d), or None."""

    def heads_at(self, layer: int) -> Iterable[Array]:
        """The attention of a layer, shape (n, n) of each head; none if it is not known."""

    def matrices_at(self, layer: int) -> LayerMatrices | None:
        """The matrices of a layer, or None."""


def measure_layers(
    states: Layered,
    *,
    beta: float | ArrayLike | None = None,
    repeats: int = 16,
    max_tokens: int = 512,
    rng: Rng,
    progress: bool = False,
) -> xr.Dataset:
    """Measure every layer and head of a model by all instruments, with their errors and nulls.

    Parameters
    ----------
    states : LayerStates
        Or whatever answers as it does.
    beta : float or array_like, optional
        Ascending β > 0 for energies, modes and clusters. By default 1, 4 and 16, and that of the
        model: the median effective β of the heads whose R² is at least 0.1, if there are any.
    repeats : int
        How many random halves of the tokens (for errors) and shuffles (for nulls) are drawn.
    max_tokens : int
        If the model has more tokens, so many are measured, at least 8: all sinks and random
        others, the same in all layers. Sinks are looked for among all.
    rng : int or numpy Generator
    progress : bool
        Whether bars are shown over layers.

    Returns
    -------
    xarray.Dataset
        Over `state` (0 … L), `layer` (0 … L − 1), `head`, `beta`, `token`, `subset` (with all
        tokens, and without the sinks of any layer), `repeat`. Variables have a `role`, a
        `long_name` and a `comment`. The attribute `model_beta` is the β of the verdicts of `claims`
        if there is one.

    Raises
    ------
    ValueError
        If there are fewer than 8 tokens, or an argument is out of range.

    Notes
    -----
    A half of the tokens has about the standard deviation, against all of them, that all have
    against what they are drawn from (the delete-half jackknife). Tokens of a text hang together, so
    errors are rather too small.

    Scores are compared within rows, so heads have the same β on some of the tokens as on all.
    Energies of m tokens have a share 1/m of pairs of one token with itself; nulls have the same m.
    Memory is that of the states of a layer, n d numbers, of a few heads of attention, n² each, and
    of H arrays of m²; time grows as m³.

    Examples
    --------
    >>> from meanfield.trained.synthetic import synthetic_layers
    >>> start = np.random.default_rng(0).standard_normal((12, 3))
    >>> start /= np.linalg.norm(start, axis=1)[:, None]
    >>> layers = synthetic_layers(start, 2, beta=[2.0, 5.0], step=0.1, rng=0)
    >>> ds = measure_layers(layers, beta=4.0, repeats=2, rng=0)
    >>> ds["effective_beta"].sel(subset="all tokens").values.round(12)
    array([[2., 5.],
           [2., 5.]])
    """
    import xarray as xr

    _checks.check_type("states", states, Layered, "LayerStates")
    random, repeats = _checks.generator("rng", rng), _checks.integer("repeats", repeats, low=2)
    max_tokens = _checks.integer("max_tokens", max_tokens, low=_FEWEST)
    _checks.boolean("progress", progress)
    if states.n_tokens < _FEWEST:
        raise ValueError(f"states must have at least {_FEWEST} tokens, got {states.n_tokens}")
    betas = None
    if beta is not None:
        betas = _checks.ascending("beta", np.atleast_1d(_checks.real_array("beta", beta, None)))
        if betas[0] == 0.0:
            raise ValueError(f"beta must be > 0, got {betas[0]:g}")
    data, sink = _sinks(states, progress)
    ordinary = np.flatnonzero(~sink)
    if len(ordinary) < _FEWEST:
        raise ValueError(
            f"states must have at least {_FEWEST} tokens that are no sinks, got {len(ordinary)}"
        )
    if states.n_tokens > max_tokens:
        # if all tokens are measured, none is drawn
        count = max(_FEWEST, max_tokens - int(sink.sum()))
        ordinary = random.permutation(ordinary)[:count]
    sample = _Sample(states, np.sort(np.concatenate([np.flatnonzero(sink), ordinary])))
    # without sinks there is nothing to leave out, and all tokens are measured once
    members = [np.arange(len(sample.index))]
    members += [np.flatnonzero(~sink[sample.index])] if sink.any() else []
    fits: list[EffectiveBeta] = []
    if "attention_share" in data:
        fits, of_heads = _heads(sample, members, random, progress)
        data |= of_heads
    model = _model_beta(fits)
    if betas is None:
        betas = np.unique([*BETAS, *([] if model is None else [model])])
    data |= _states(sample, members, betas, repeats, random, progress)
    data |= _moves(sample, members, betas, progress)
    edges = np.linspace(-1.0, 1.0, _BINS + 1)
    coordinates: dict[str, object] = {
        "state": np.arange(states.n_layers + 1),
        "layer": np.arange(states.n_layers),
        "token": np.arange(states.n_tokens),
        "is_measured": ("token", np.isin(np.arange(states.n_tokens), sample.index)),
        "beta": betas,
        "subset": list(SUBSETS[: len(members)]),
        "cosine": 0.5 * (edges[1:] + edges[:-1]),
    }
    if states.tokens is not None:
        coordinates["word"] = ("token", list(states.tokens))
    if fits:
        coordinates |= {"head": np.arange(states.n_heads or 0), "head_null": list(HEAD_NULLS)}
    ds = xr.Dataset(data, coordinates)
    if len(members) == 1:
        ds = ds.isel(subset=[0, 0]).assign_coords(subset=list(SUBSETS))
    for name in ds.data_vars:
        ds[name].attrs = _about(str(name))
    ds.attrs = {
        "n_tokens": states.n_tokens,
        "n_measured": len(sample.index),
        "dim": states.dim,
        "repeats": repeats,
        "n_sinks": int(sink.sum()),
    }
    if model is not None:
        ds.attrs["model_beta"] = model
    return ds


@dataclass(frozen=True, eq=False)
class _Sample:
    """The tokens of a model that are measured; others are dropped from each layer."""

    states: Layered
    index: Indices

    @property
    def allowed(self) -> NDArray[np.bool_]:
        return self.states.allowed[np.ix_(self.index, self.index)]

    def points(self, state: int) -> Array:
        return np.asarray(self.states.points(state)[self.index])

    def points_after_attention(self, layer: int) -> Array | None:
        """The states between the halves of a layer as unit rows, as the model's norm has them."""
        rows, norm = self.states.after_attention_at(layer), self.states.norm or Norm("none")
        if rows is None:
            return None
        name = f"states after attention of layer {layer}"
        return np.asarray(norm.directions(np.array(rows), name)[self.index])

    def attention(self, layer: int) -> Array:
        heads = self.states.heads_at(layer)
        return np.array([head[self.index[:, None], self.index] for head in heads])


def _about(name: str) -> dict[str, str]:
    """Return role, name on an axis, formula and unit of a variable."""
    base, (of_variant, pattern, how) = next(
        (name.removesuffix(suffix), VARIANTS[suffix])
        for suffix in sorted(VARIANTS, key=len, reverse=True)
        if name.endswith(suffix) and name.removesuffix(suffix) in VARIABLES
    )
    role, long_name, comment = VARIABLES[base]
    attributes = {
        "role": of_variant or role,
        "long_name": pattern.format(long_name),
        "comment": f"{comment}; {how}" if how else comment,
    }
    return attributes | ({"units": _UNITS[name]} if name in _UNITS else {})


def _sinks(states: Layered, progress: bool) -> tuple[Variables, NDArray[np.bool_]]:
    """Shares of attention, norms, and which tokens are sinks of any layer, these once more."""
    shares, ratios, sink = [], [], np.zeros(states.n_tokens, dtype=bool)
    for layer in tqdm(range(states.n_layers + 1), "sinks", disable=not progress):
        heads = states.heads_at(layer) if layer < states.n_layers else []
        sinks = sinks_of(states.state(layer), heads)
        ratios.append(sinks.norm_ratio)
        sink |= sinks.is_sink
        if sinks.attention_share is not None:
            shares.append(sinks.attention_share)
    data: Variables = {
        "norm_ratio": (("state", "token"), np.array(ratios)),
        "is_sink": ("token", sink),
    }
    if shares:
        data["attention_share"] = (("layer", "token"), np.array(shares))
    return data, sink


def _heads(
    sample: _Sample, kept: list[Indices], random: np.random.Generator, progress: bool
) -> tuple[list[EffectiveBeta], Variables]:
    """Return fits of all heads, with and without sinks, and of their nulls."""
    states = sample.states
    layer_of_null = other_layers(states.n_layers, random) if states.n_layers > 1 else None
    fits: list[EffectiveBeta] = []
    rows: list[Numbers] = []
    allowed = sample.allowed
    for layer in tqdm(range(states.n_layers), "heads", disable=not progress):
        points, attention = sample.points(layer), sample.attention(layer)
        null = None if layer_of_null is None else sample.attention(int(layer_of_null[layer]))
        fits_of_heads = []
        for tokens in kept:
            mask, x = allowed[np.ix_(tokens, tokens)], points[tokens]
            weights, is_pair = _part(attention, tokens), mask & ~np.eye(len(tokens), dtype=bool)
            fit = effective_beta(weights, x, mask)
            fits += [fit] if tokens is kept[0] else []
            between = effective_beta(np.where(is_pair, weights, 0.0), x, is_pair)
            shuffled = effective_beta(weights, shuffle_coordinates(x, random), mask)
            absent = np.full_like(fit.r2, np.nan)
            chance = absent if null is None else effective_beta(_part(null, tokens), x, mask).r2
            matrices = states.matrices_at(layer)
            numbers = {
                "effective_beta": fit.beta,
                "effective_beta_error": fit.standard_error,
                "r2": fit.r2,
                "off_diagonal_beta": between.beta,
                "off_diagonal_r2": between.r2,
                "n_zero": fit.n_zero,
                "r2_null": np.stack([shuffled.r2, chance]),
                "r2_matrix": _of_matrices(matrices, weights, x, mask, absent),
            }
            fits_of_heads.append(numbers | _forms(weights, x, mask))
        rows.append(_stacked(fits_of_heads))
    dims = {"r2_null": ("head_null", "head")}
    return fits, {
        name: (("layer", "subset", *dims.get(name, ("head",))), values)
        for name, values in _stacked(rows).items()
    }


def _part(attention: Array, tokens: Indices) -> Array:
    """Return the attention between some tokens, shape (H, m, m)."""
    return attention[:, tokens[:, None], tokens]


def _forms(weights: Array, points: Array, mask: NDArray[np.bool_]) -> Numbers:
    """Return the nearest symmetric form of each head.

    Numbers are nan where too many parameters would fit anything.
    """
    forms = [symmetric_form(head, points, mask) for head in weights]
    return {
        "r2_form": np.array([np.nan if f.r2 is None else f.r2 for f in forms]),
        "r2_form_adjusted": np.array(
            [np.nan if f.adjusted_r2 is None else f.adjusted_r2 for f in forms]
        ),
        "form_parameters": np.array([f.n_parameters for f in forms]),
        "form_entries": np.array([f.n_entries for f in forms]),
    }


def _of_matrices(
    matrices: LayerMatrices | None,
    weights: Array,
    points: Array,
    mask: NDArray[np.bool_],
    absent: Array,
) -> Array:
    """Return R² of <M x_i, x_j> for M = KᵀQ of each head, with the gains of the norm.

    R² is nan if the matrices are unknown.
    """
    if matrices is None:
        return absent
    gain = 1.0 if matrices.gain is None else matrices.gain
    keys = np.repeat(matrices.key, len(matrices.query) // len(matrices.key), axis=0) * gain
    forms = keys.swapaxes(1, 2) @ (matrices.query * gain)
    return effective_beta(weights, points, mask, matrix=forms).r2


def _model_beta(fits: list[EffectiveBeta]) -> float | None:
    """Return the median β > 0 of the heads that a β describes; None if there are none."""
    betas = [fit.beta[fit.describes & (fit.beta > 0.0)] for fit in fits]
    described = np.concatenate([np.zeros(0), *betas])
    return float(np.median(described)) if len(described) else None


def _figures(points: Array, betas: Array) -> Numbers:
    """Return the figures of some tokens."""
    measure = Particles(points)
    pairs = (points @ points.T)[np.triu_indices(len(points), 1)]
    return {
        "energy_share": energy_shares(points, betas),
        "near_pairs": np.array([(pairs >= 1.0 - 0.5 / beta).mean() for beta in betas]),
        "n_clusters": np.array([len(clusters(measure, min(1.0, beta**-0.5))) for beta in betas]),
        "mean_cosine": np.array(mean_cosine(measure)),
        "upper_cosine": np.array(np.quantile(pairs, _UPPER)),
        "effective_rank": np.array(effective_rank(points)),
        "inner_products": inner_products(points, _BINS)[0],
    }


def _modes(points: Array, betas: Array) -> Numbers:
    """The modes of tokens: an ascent costs as much as all other figures, so halves have none."""
    ascents = [modes(points, beta) for beta in betas]
    return {
        "n_modes": np.array([len(modes_of) for modes_of in ascents]),
        "n_moving": np.array([modes_of.n_moving for modes_of in ascents]),
    }


# the axes of figures and modes
_DIMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("energy_share", "n_modes", "n_moving", "near_pairs", "n_clusters"), ("beta",)),
    **dict.fromkeys(("mean_cosine", "upper_cosine", "effective_rank"), ()),
    "inner_products": ("cosine",),
}


def _with_nulls(
    points: Array,
    first: Array,
    halves: Sequence[Indices],
    betas: Array,
    random: np.random.Generator,
) -> Numbers:
    """Return figures of points (n, d), of their halves, and of the nulls of both: `VARIANTS`."""

    def drift(start: Array, reached: Numbers) -> Array:
        return drift_to_mean(start, float(reached["mean_cosine"]))

    figures, rest = _figures(points, betas), [_figures(points[half], betas) for half in halves]
    drifted = drift(first, figures)
    drifts = [
        _figures(drift(first[half], each), betas) for half, each in zip(halves, rest, strict=True)
    ]
    mixed = [_figures(shuffle_coordinates(points, random), betas) for _ in halves]
    parts = {
        "": figures | _modes(points, betas),
        "_drift": _figures(drifted, betas) | _modes(drifted, betas),
        "_resampled": _stacked(rest),
        "_drift_resampled": _stacked(drifts),
        "_shuffled": _stacked(mixed),
    }
    return {
        name + suffix: values for suffix, part in parts.items() for name, values in part.items()
    }


def _stacked(rows: Sequence[Numbers]) -> Numbers:
    """Return the arrays of several dictionaries with the same names, along a new first axis."""
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _states(
    sample: _Sample,
    kept: list[Indices],
    betas: Array,
    repeats: int,
    random: np.random.Generator,
    progress: bool,
) -> Variables:
    """Return the figures of every state, of halves of its tokens, and of its nulls."""
    halves = [
        [random.permutation(len(tokens))[: len(tokens) // 2] for _ in range(repeats)]
        for tokens in kept
    ]
    n_states = sample.states.n_layers + 1
    start, rows = sample.points(0), []
    for state in tqdm(range(n_states), "states", disable=not progress):
        points = sample.points(state)
        figures = [
            _with_nulls(points[tokens], start[tokens], half_members, betas, random)
            for tokens, half_members in zip(kept, halves, strict=True)
        ]
        rows.append(_stacked(figures))
    values, data = _stacked(rows), Variables()
    for name, dims in _DIMS.items():
        for suffix in VARIANTS:
            repeat = ("repeat",) if suffix in _REPEATED else ()
            if name + suffix in values:
                data[name + suffix] = (("state", "subset", *repeat, *dims), values[name + suffix])
    lower = [least_shares(betas, len(tokens), sample.states.dim) for tokens in kept]
    return data | {"energy_share_lower": (("subset", "beta"), np.array(lower))}


def _moves(sample: _Sample, kept: list[Indices], betas: Array, progress: bool) -> Variables:
    """The effect of each part of each layer on the energy, and how far it moved the tokens."""
    states = sample.states
    has_halves = states.after_attention_at(0) is not None
    names = ("change", "residual", "tokens", "own", "optimal")
    values: dict[str, list[object]] = {name: [] for name in names}
    for layer in tqdm(range(states.n_layers), "moves", disable=not progress):
        between = sample.points_after_attention(layer)
        stages = [sample.points(layer), *([] if between is None else [between])]
        stages.append(sample.points(layer + 1))
        moves = [
            [
                [attribute_energy(x[tokens], y[tokens], beta) for beta in betas]
                for x, y in pairwise(stages)
            ]
            for tokens in kept
        ]
        values["change"].append([[[b.change for b in half] for half in subset] for subset in moves])
        values["residual"].append(
            [[[b.residual for b in half] for half in subset] for subset in moves]
        )
        # tokens are attributed a change with all others, sinks among them
        of_tokens = np.full((len(moves[0]), len(betas), states.n_tokens), np.nan)
        of_tokens[..., sample.index] = [[b.of_tokens for b in half] for half in moves[0]]
        values["tokens"].append(of_tokens)
        moved = [couplings(stages[0][tokens], stages[-1][tokens]) for tokens in kept]
        values["own"].append([each.own for each in moved])
        values["optimal"].append([each.optimal for each in moved])
    by_half = "layer", "subset", "half", "beta"
    return {
        "half": ("half", ["attention", "feed-forward"] if has_halves else ["layer"]),
        "energy_change": (by_half, np.array(values["change"])),
        "energy_residual": (by_half, np.array(values["residual"])),
        "token_energy": (("layer", "half", "beta", "token"), np.array(values["tokens"])),
        "own_distance": (("layer", "subset"), np.array(values["own"])),
        "optimal_distance": (("layer", "subset"), np.array(values["optimal"])),
    }


@dataclass(frozen=True)
class Claim:
    """A claim of the paper held against a model: a number, its error, and the same of a null.

    Attributes
    ----------
    name : str
        'energy', 'clusters', 'inner products' or 'attention'.
    subset : str
        All tokens, or those without sinks.
    statement : str
        The claim, and what the number is.
    value, error : float
        The number and its standard error.
    null, null_error : float
        The number of the null, and the standard error of the difference.
    null_name : str
    verdict : str
        'holds', beyond its null; 'holds, but no more than its null'; 'undecided' within two
        standard errors; 'does not hold'. Of the energy, also whether it is 'from first to last
        only'.
    sentence : str
        The finding, with its numbers.

    Examples
    --------
    >>> from meanfield.trained import claims, measure_layers, synthetic_layers
    >>> start = np.random.default_rng(0).standard_normal((24, 3))
    >>> start /= np.linalg.norm(start, axis=1)[:, None]
    >>> layers = synthetic_layers(start, 8, beta=4.0, step=0.5, rng=0)
    >>> claim = claims(measure_layers(layers, beta=4.0, repeats=6, rng=0))[0]
    >>> claim.name, claim.subset
    ('energy', 'all tokens')
    """

    name: str
    subset: str
    statement: str
    value: float
    error: float
    null: float
    null_error: float
    null_name: str
    verdict: str
    sentence: str


HOLDS, AS_NULL = "holds", "holds, but no more than its null"
UNDECIDED, FAILS = "undecided", "does not hold"
# within two standard errors the normal law has this probability, from below
_TWO_ERRORS = 0.97725


def claims(ds: xr.Dataset) -> list[Claim]:
    """A verdict on each claim of the paper, each with its error and its null.

    With all tokens, and without sinks if there are any, at the model's β, or the middle one of
    `beta` where there is none:

    - energy: E_β rises from the first state to the last (Section 3.3); the sentence counts the
      layers in which it falls, and where there are any the verdict says so, for the paper's never
      does.
    - clusters: the share of pairs of tokens with |x_i − x_j| <= 1/√β rises: of k equal clusters it
      is 1/k. The sentence has the modes of log G_β, too.
    - inner products: they rise towards 1 (Figure 1), all of them: the 0.9 quantile over pairs.
    - attention: log A follows <x_i, x_j>: the mean R² over heads is above 0.1. The null are heads
      of another layer. It is there if attention is, of at least two layers.

    The null of the first three is the drift to the mean alone, of the same mean cosine: whatever
    tokens do in common makes all three numbers rise. A claim holds if its
    number is more than two standard errors above 0, and above that of its null; of few repeats, the
    more that Student's t has.

    Parameters
    ----------
    ds : xarray.Dataset
        Result of `measure_layers`.

    Returns
    -------
    list of Claim

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> from meanfield.trained.synthetic import synthetic_layers
    >>> start = np.random.default_rng(0).standard_normal((24, 3))
    >>> start /= np.linalg.norm(start, axis=1)[:, None]
    >>> layers = synthetic_layers(start, 8, beta=4.0, step=0.5, rng=0)
    >>> ds = measure_layers(layers, beta=4.0, repeats=6, rng=0)
    >>> verdicts = {claim.name: claim.verdict for claim in claims(ds)}
    >>> verdicts["energy"], verdicts["attention"]
    ('holds', 'holds')
    """
    import xarray as xr

    _checks.check_type("ds", ds, xr.Dataset, "a dataset of measure_layers")
    if "energy_share_drift_resampled" not in ds:
        raise ValueError(f"ds must be a dataset of measure_layers, got variables {list(ds)[:4]}")
    at_beta, verdicts = at_known_beta(ds), list[Claim]()
    for subset in subsets_of(ds):
        part = at_beta.sel(subset=subset)
        verdicts += [_energy(part), _gathering(part), _products(part)]
        if "r2" in ds and _has_null(part):
            verdicts.append(_attention(part))
    return verdicts


def subsets_of(ds: xr.Dataset) -> tuple[str, ...]:
    """The subsets of tokens that differ: all tokens, and those without sinks if there are any."""
    return SUBSETS if ds["is_sink"].any() else SUBSETS[:1]


def at_known_beta(ds: xr.Dataset) -> xr.Dataset:
    """A dataset of `measure_layers` at the β of verdicts: the model's, else the middle one."""
    betas = ds["beta"].values
    model_beta = ds.attrs.get("model_beta", betas[len(betas) // 2])
    return ds.sel(beta=model_beta, method="nearest")


def _verdict(value: float, error: float, excess: float, excess_error: float, repeats: int) -> str:
    """Return whether a number is above 0, and above that of its null, by more than two errors.

    Errors of few repetitions are themselves not known well: Student's t has more of them then.
    """
    quantile = float(stdtrit(repeats - 1, _TWO_ERRORS))
    if value < -quantile * error:
        return FAILS
    if value <= quantile * error:
        return UNDECIDED
    return HOLDS if excess > quantile * excess_error else AS_NULL


@dataclass(frozen=True)
class _Rise:
    """The gain of a number from the first state to the last, and that of the drift to the mean."""

    value: float
    error: float
    null: float
    null_error: float
    repeats: int

    @classmethod
    def of(cls, part: xr.Dataset, name: str) -> _Rise:
        model, drift, halves, drifts = (
            part[name + suffix].values
            for suffix in ("", "_drift", "_resampled", "_drift_resampled")
        )
        return cls(
            float(model[-1] - model[0]),
            float((halves[-1] - halves[0]).std(ddof=1)),
            float(drift[-1] - model[0]),
            float((halves[-1] - drifts[-1]).std(ddof=1)),
            halves.shape[1],
        )

    @property
    def verdict(self) -> str:
        excess = self.value - self.null
        return _verdict(self.value, self.error, excess, self.null_error, self.repeats)

    def claim(self, part: xr.Dataset, name: str, statement: str, verdict: str, text: str) -> Claim:
        return Claim(
            name,
            str(part["subset"].values),
            statement,
            *(self.value, self.error, self.null, self.null_error),
            "the drift to the mean alone",
            verdict,
            f"{text}. If tokens only drift to their mean, it rises by {self.null:.3g}: the model's "
            f"rise differs by {self.value - self.null:+.3g} ± {self.null_error:.2g}",
        )


def _energy(part: xr.Dataset) -> Claim:
    rise = _Rise.of(part, "energy_share")
    steps = np.diff(part["energy_share"].values)
    falls = int((steps < 0.0).sum())
    verdict = rise.verdict
    if verdict in (HOLDS, AS_NULL) and falls:
        verdict += ", from first to last only"
    return rise.claim(
        part,
        "energy",
        f"E_β/E_β(δ) rises, at β = {float(part['beta']):.3g}",
        verdict,
        f"From the first state to the last, E_β/E_β(δ) rises by {rise.value:.3g} ± "
        f"{rise.error:.2g}; it falls in {falls} of {counted(len(steps), 'layer')}",
    )


def _gathering(part: xr.Dataset) -> Claim:
    rise, counts = _Rise.of(part, "near_pairs"), part["n_modes"].values
    return rise.claim(
        part,
        "clusters",
        f"the share of pairs of tokens within 1/√β rises, at β = {float(part['beta']):.3g}",
        rise.verdict,
        f"Log G_β has {counted(counts[0], 'mode')} at first and {counts[-1]} at the end; the share "
        f"of pairs of tokens within 1/√β rises by {rise.value:.3g} ± {rise.error:.2g}, to "
        f"{float(part['near_pairs'][-1]):.3g}",
    )


def _products(part: xr.Dataset) -> Claim:
    rise, means = _Rise.of(part, "upper_cosine"), part["mean_cosine"].values
    return rise.claim(
        part,
        "inner products",
        "<x_i, x_j> rises towards 1, the 0.9 quantile over pairs",
        rise.verdict,
        f"The mean of <x_i, x_j> goes from {means[0]:.3g} to {means[-1]:.3g}; its 0.9 quantile "
        f"rises by {rise.value:.3g} ± {rise.error:.2g}, to {float(part['upper_cosine'][-1]):.3g}",
    )


def _has_null(part: xr.Dataset) -> bool:
    """Whether each of at least two layers has a head with an R², and one with that of its null."""
    numbers = part["r2"], part["r2_null"].sel(head_null="another layer")
    return part.sizes["layer"] > 1 and all(
        bool(np.isfinite(r2.values).any(axis=1).all()) for r2 in numbers
    )


def _attention(part: xr.Dataset) -> Claim:
    r2, null_r2 = part["r2"].values, part["r2_null"].sel(head_null="another layer").values
    # layers are the independent repetitions here
    of_layers, of_others = np.nanmean(r2, axis=1), np.nanmean(null_r2, axis=1)
    value, null = float(of_layers.mean()), float(of_others.mean())
    error, apart = (
        float(rows.std(ddof=1) / np.sqrt(len(rows))) for rows in (of_layers, of_layers - of_others)
    )
    described = r2 >= LEAST_R2
    betas = part["effective_beta"].values[described]
    middle = f", with a median β of {np.median(betas):.3g}" if len(betas) else ""
    return Claim(
        "attention",
        str(part["subset"].values),
        f"log A follows <x_i, x_j>: the mean R² over heads is above {LEAST_R2:g}",
        *(value, error, null, apart),
        "heads of another layer",
        _verdict(value - LEAST_R2, error, value - null, apart, len(of_layers)),
        f"The mean R² is {value:.3f} ± {error:.2g}, and {null:.3f} if heads are those of another "
        f"layer: it differs by {value - null:+.3f} ± {apart:.2g}. A β describes "
        f"{int(described.sum())} of {counted(described.size, 'head')}{middle}",
    )
