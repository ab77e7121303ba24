"""The page of a trained model: claims with their nulls, figures, heads, sinks, checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

import numpy as np
import xarray as xr

from meanfield import plot
from meanfield._checks import check_type, counted
from meanfield.cli.layers import sinks_in_words, title_of
from meanfield.cli.report.document import as_html, filled, part_of_page, rows_as_html
from meanfield.evolution.files import SOURCE
from meanfield.evolution.solution import versions_of
from meanfield.plot.frames import image, to_bytes
from meanfield.plot.trained import panels_of
from meanfield.trained import Claim, claims
from meanfield.trained.measure import SUBSETS, at_known_beta, subsets_of
from meanfield.trained.temperature import LEAST_R2

# the page shows these captions below its panels
_CAPTIONS = {
    "heads": "Effective β of each head. A cross: R² is below 0.1, and no β describes the head.",
    "fit": "R²: how much of log A is explained by β⟨x, y⟩ of its layer, and of another layer.",
    "energy": "Energies rise along the paper's flow. Thin lines: the least that is possible.",
    "parts": "What attention and feed-forward do to the energy. Dashes: the estimate of first "
    "order, which is far from the bar where tokens move far.",
    "clusters": "The share of pairs of tokens within 1/√β, the kernel's width, and modes of log G.",
    "products": "Figure 1 of the paper: with each layer, inner products should come closer to 1.",
    "means": "The mean also rises if all tokens drift together, the quantile if some meet.",
    "rank": "e to the entropy of the singular values: 1 where all tokens lie on one axis.",
    "moves": "How far a layer moves tokens, and how little it takes to reach the same places. "
    "Along a gradient flow both are the same.",
}


def page_of_layers(ds: xr.Dataset) -> str:
    """One HTML page about the layers of a trained model.

    It opens with a verdict on each claim of the paper, with its number, error and null, for all
    tokens and without sinks. Then come figures over layers, numbers by layer, the effective β of
    each head with its error and R², sinks, the checks of the reader, and how it was measured.

    Parameters
    ----------
    ds : xarray.Dataset
        Of `meanfield layers`.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If it is none.
    """
    check_type("ds", ds, xr.Dataset, "a dataset of meanfield layers")
    name = str(ds.attrs.get("file", "a trained model"))
    checks = list(_checks(ds))
    is_good = all(good for _, good in checks)
    verdict = "the file has no matrices that its states and attention could be checked with"
    if checks:
        agree = "✓ states and attention agree" if is_good else "✗ states or attention do not agree"
        verdict = f"{agree} with the matrices of the file"
    head = "claim", "verdict", "number", "its null", "shuffled tokens", "finding"
    return filled(
        "report/layers.html",
        title=escape(f"Layers of {name}"),
        source=escape(str(ds.attrs.get(SOURCE, ""))),
        style=part_of_page("report/page.css"),
        lead=f"<p>{escape(title_of(ds))}. {escape(_tokens(ds))}</p>",
        verdict=verdict,
        state="good" if is_good else "bad",
        claims=_table(head, _claims(ds), "claims"),
        panels="".join(_panel(ds, panel) for panel in panels_of(ds)),
        numbers=_numbers(ds),
        heads=_heads(ds) if "effective_beta" in ds else "",
        sinks=_sinks(ds),
        checks="".join(row for row, _ in checks),
        findings="".join(f"<li>{as_html(str(text))}</li>" for text in ds["finding"].values),
        facts=_facts(ds),
    )


def _tokens(ds: xr.Dataset) -> str:
    betas = ", ".join(f"{beta:.4g}" for beta in ds["beta"].values)
    model_beta = ds.attrs.get("model_beta")
    of_model = "" if model_beta is None else f", of which {model_beta:.4g} is that of the model"
    return f"Energies and clusters are at β = {betas}{of_model}. Sinks: {sinks_in_words(ds)}."


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], kind: str = "") -> str:
    """Return a table as HTML; its cells are HTML already."""
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>'


def _claims(ds: xr.Dataset) -> Iterator[tuple[str, ...]]:
    for claim in claims(ds):
        difference = f"difference {claim.value - claim.null:+.3g} ± {claim.null_error:.2g}"
        yield (
            f"{as_html(claim.statement)}; {escape(claim.subset)}",
            f"<b>{escape(claim.verdict)}</b>",
            f"{claim.value:+.3g} ± {claim.error:.2g}",
            f"{claim.null:+.3g}, {escape(claim.null_name)}; {difference}",
            _shuffled(ds, claim),
            as_html(claim.sentence),
        )


# these variables of the last state are compared with those of shuffled tokens, for each claim
_NUMBERS = {"energy": "energy_share", "clusters": "near_pairs", "inner products": "upper_cosine"}


def _shuffled(ds: xr.Dataset, claim: Claim) -> str:
    """The statistic of a claim in the last state (of R² the mean) and of shuffled tokens."""
    part = at_known_beta(ds).sel(subset=claim.subset)
    if claim.name not in _NUMBERS:
        chance = part["r2_null"].sel(head_null="shuffled tokens").values
        return f"mean R² {np.nanmean(chance):.3g}, of the model {claim.value:.3g}"
    name = _NUMBERS[claim.name]
    mixed = part[f"{name}_shuffled"].isel(state=-1).values
    model = float(part[name][-1])
    return f"at the end {mixed.mean():.3g} ± {mixed.std(ddof=1):.2g}, of the model {model:.3g}"


def _panel(ds: xr.Dataset, name: str) -> str:
    svg = to_bytes(plot.layers(ds, name), format="svg")
    caption = _CAPTIONS[name]
    return f"<figure>{image(svg, 'svg+xml', caption)}<figcaption>{caption}</figcaption></figure>"


# headings of the variables of a state and of the next layer, at the β of the verdicts
_OF_STATES = {
    "energy_share": "E<sub>β</sub>",
    "near_pairs": "near pairs",
    "n_modes": "modes",
    "n_clusters": "clusters",
    "mean_cosine": "mean ⟨x, y⟩",
    "upper_cosine": "0.9 quantile",
    "effective_rank": "rank",
}
_OF_LAYERS = {"own_distance": "own W<sub>2</sub>", "optimal_distance": "optimal W<sub>2</sub>"}


def _numbers(ds: xr.Dataset) -> str:
    """Tables of the numbers of states: for all tokens, and without sinks if there are any."""
    at_beta, tables = at_known_beta(ds), []
    for subset in subsets_of(ds):
        part = at_beta.sel(subset=subset)
        columns = {"layer": part["state"].values, "state": part["stage"].values}
        columns |= {heading: part[name].values for name, heading in _OF_STATES.items()}
        changes = {
            f"ΔE<sub>β</sub> by {escape(str(half))}": part["energy_change"].sel(half=half).values
            for half in part["half"].values
        }
        changes["residual"] = part["energy_residual"].sum("half").values
        changes |= {heading: part[name].values for name, heading in _OF_LAYERS.items()}
        # no layer follows the last state
        columns |= {name: np.append(values, np.nan) for name, values in changes.items()}
        rows = zip(*(map(_cell, values) for values in columns.values()), strict=True)
        summary = f"{subset}, at β = {float(part['beta']):.4g}"
        tables.append(_folded(subset, summary, _table(columns, rows)))
    return "".join(tables)


def _folded(subset: str, summary: str, table: str) -> str:
    """A table below its summary, which opens at a click; that of all tokens is open."""
    opens = "open" if subset == SUBSETS[0] else ""
    below = f'<div class="wide">{table}</div>'
    return f"<details {opens}><summary>{escape(summary)}</summary>{below}</details>"


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.4g}" if np.isfinite(value) else ""


def _heads(ds: xr.Dataset) -> str:
    """Return tables of heads: effective β with its error, and R².

    Heads that no β describes have none.
    """
    tables = []
    for subset in subsets_of(ds):
        part = ds.sel(subset=subset)
        numbers = (part[name].values for name in ("effective_beta", "effective_beta_error", "r2"))
        cells = (
            [str(layer), *(_head(*head) for head in zip(*of_layer, strict=True))]
            for layer, *of_layer in zip(part["layer"].values, *numbers, strict=True)
        )
        head = ["layer", *(f"head {i}" for i in part["head"].values)]
        is_described = part["r2"].values >= LEAST_R2
        count = f"a β describes {int(is_described.sum())} of {counted(is_described.size, 'head')}"
        tables.append(_folded(subset, f"{subset}: {count}", _table(head, cells)))
    caption = f"β ± its standard error, clustered by row, with R². Where R² is below {LEAST_R2:g}"
    caption += " no β describes the head, and none is shown."
    return f'<section><h2>Effective β</h2><p class="notes">{caption}</p>{"".join(tables)}</section>'


def _head(beta: float, error: float, r2: float) -> str:
    if r2 >= LEAST_R2:
        return f"{beta:.3g} ± {error:.2g}<br>R² {r2:.2f}"
    return f'<span class="none">no β<br>R² {r2:.2f}</span>' if np.isfinite(r2) else ""


def _sinks(ds: xr.Dataset) -> str:
    """Return a table of sinks: the layer in which each draws the most attention, and its norm."""
    rows = []
    for token in ds["token"].values[ds["is_sink"].values.astype(bool)]:
        part = ds.sel(token=token)
        row = [str(token), escape(str(part["word"].values)) if "word" in ds else ""]
        if "attention_share" in ds:
            shares_drawn = part["attention_share"].values
            row.append(f"{shares_drawn.max():.3g} in layer {int(shares_drawn.argmax())}")
        ratios = part["norm_ratio"].values
        rows.append([*row, f"{ratios.max():.3g} before layer {int(ratios.argmax())}"])
    if not rows:
        return "<p>No token draws much of the attention, or has a norm that stands out.</p>"
    shares = ["largest share of the attention"] if "attention_share" in ds else []
    table = _table(["token", "word", *shares, "largest norm over the median"], rows)
    return f'<div class="wide">{table}</div>'


def _checks(ds: xr.Dataset) -> Iterator[tuple[str, bool]]:
    """Return rows on what was checked against the matrices, and whether each agrees."""
    attention = ds["attention_error"].max("head").values, ds["attention_rounding"].values
    residual = ds["residual_error"].values, ds["residual_rounding"].values
    names = "attention recomputed from states and matrices", "residual identity"
    for name, (largest, rounding) in zip(names, (attention, residual), strict=True):
        is_finite = np.isfinite(largest)
        if not is_finite.any():
            continue
        agree = largest[is_finite] <= rounding[is_finite]
        worst = int(np.flatnonzero(is_finite)[np.argmax(largest[is_finite] / rounding[is_finite])])
        mark, state = ("✓", "good") if agree.all() else ("✗", "bad")
        cells = (
            f'<span class="mark">{mark}</span>',
            name,
            f"{largest[worst]:.2g} in layer {worst}",
            f"{rounding[worst]:.2g}",
            f"{int(agree.sum())} of {counted(int(is_finite.sum()), 'layer')} with matrices agree",
        )
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        yield f'<tr class="{state}">{row}</tr>', bool(agree.all())


def _facts(ds: xr.Dataset) -> str:
    versions = versions_of(ds.attrs)
    unshown = {SOURCE, "format", "format_version", *(f"{name}_version" for name in versions)}
    shown = {str(name): f"{value}" for name, value in ds.attrs.items() if name not in unshown}
    facts = {name.replace("_", " "): text for name, text in shown.items()}
    return rows_as_html(facts | versions)
