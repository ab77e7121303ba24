"""Layers of trained models: the reader against matrices, and each instrument where truth is known.

The excerpts beside this file are the first layers of two models. All their layers are two files,
minilm_layers.npz and smollm2_layers.npz, and README.md says where they may be; where they are
missing this is said, and what needs them is skipped.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

import meanfield as mf
from meanfield.trained import LayerStates
from validation.claims import Claim, main

Array = NDArray[np.float64]

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parent.parent
# README.md says where whole files may be
FOLDER = Path(os.environ.get("MEANFIELD_DATA", ROOT.parent / "shared" / "data"))
FIGURES = ROOT / "docs" / "figures"
MODELS = {"minilm": "MiniLM", "smollm2": "SmolLM2"}
SOURCE = "our own layers"
# rows of float32 numbers
ATTENTION = 1e-6


def whole_models() -> dict[str, Path]:
    """The files with all layers, those that are there; a line on standard error for the others."""
    files = {name: FOLDER / f"{name}_layers.npz" for name in MODELS}
    for file in files.values():
        if not file.is_file():
            print(f"skipped: there is no {file}, see validation/README.md", file=sys.stderr)
    return {name: file for name, file in files.items() if file.is_file()}


def tokens(n: int, dim: int) -> Array:
    """Uniform unit rows."""
    return np.asarray(mf.Particles.sample(mf.Uniform(dim), n, rng=0).points)


def claims_on_betas(quick: bool) -> list[Claim]:
    """What was put into causal heads comes back, and so does its error."""
    truth = np.array([0.5, 6.0, 20.0])
    start = tokens(48, 8)
    exact = mf.trained.synthetic_layers(start, 4, beta=truth, step=0.2, mask="causal", rng=0)
    fits = [
        mf.trained.effective_beta(exact.attention_at(layer), exact.points(layer), exact.allowed)
        for layer in range(4)
    ]
    noisy = mf.trained.synthetic_layers(
        *(start, 50 if quick else 400), beta=truth, step=0.01, mask="causal", noise=0.5, rng=1
    )
    inside = []
    for layer in range(noisy.n_layers):
        fit = mf.trained.effective_beta(
            noisy.attention_at(layer), noisy.points(layer), noisy.allowed
        )
        lower, upper = fit.interval()
        inside.append((lower <= truth) & (truth <= upper))
    hits, draws = int(np.sum(inside)), len(inside) * len(truth)
    # three standard errors of a share of 0.95
    room = 3.0 * np.sqrt(0.95 * 0.05 / draws)
    return [
        Claim(
            "β of causal heads of β = 0.5, 6, 20 comes back",
            SOURCE,
            float(max(np.abs(fit.beta - truth).max() for fit in fits)),
            1e-12,
            "logarithms and sums of numbers of order 10",
        ),
        Claim(
            "and has a standard error of 0",
            SOURCE,
            float(max(fit.standard_error.max() for fit in fits)),
            1e-12,
            "the same",
        ),
        Claim(
            f"share of {draws} intervals of 95 % that hold β under noise of the scores, off 0.95",
            SOURCE,
            abs(hits / draws - 0.95),
            float(room),
            "three standard errors of the share",
            found=f"{hits / draws:.3f}",
        ),
    ]


def claims_on_energies() -> list[Claim]:
    """What tokens did adds up to what the energy did, to first order; no coupling is below W_2."""
    start, beta = tokens(40, 5), 4.0
    steps = np.array([0.04, 0.02, 0.01, 0.005])
    rows = []
    for mask in ("none", "causal"):
        models = [
            mf.trained.synthetic_layers(start, 1, beta=beta, step=step, mask=mask, rng=0)
            for step in steps
        ]
        parts = [mf.trained.attribute_energy(start, m.points(1), beta) for m in models]
        slope = np.polyfit(np.log(steps), np.log([abs(part.residual) for part in parts]), 1)[0]
        moves = [mf.trained.couplings(start, m.points(1)) for m in models]
        rows += [
            Claim(
                f"mask {mask}: residual of the attribution falls as h^2 (slope off 2)",
                SOURCE,
                abs(float(slope) - 2.0),
                0.1,
                "the next order, at steps of 0.04 and less",
            ),
            Claim(
                f"mask {mask}: optimal coupling off the layer's own, at small steps",
                SOURCE,
                max(abs(each.gap) for each in moves),
                1e-12,
                "the same permutation: rounding of sums",
            ),
        ]
    shares = mf.trained.energy_shares(start, [1.0, beta])
    known = [mf.energy(mf.Particles(start), b) / (np.exp(b) / (2.0 * b)) for b in (1.0, beta)]
    rows.append(
        Claim(
            "shares of energies against E_β and E_β(δ) (relative)",
            "(3.5)",
            float(np.abs(shares / known - 1.0).max()),
            1e-13,
            "sums of 1,600 terms",
        )
    )
    return rows


def claims_on_verdicts() -> list[Claim]:
    """All claims hold of the paper's own flow; of a drift to the mean none beyond its null."""
    flow = mf.trained.synthetic_layers(tokens(40, 3), 12, beta=6.0, step=0.5, rng=0)
    told = mf.trained.claims(mf.trained.measure_layers(flow, beta=6.0, repeats=16, rng=0))
    rng = np.random.default_rng(0)
    start = np.eye(20)[0] + 0.5 * rng.standard_normal((40, 20))
    start /= np.linalg.norm(start, axis=1)[:, None]
    states = np.array([start, *(mf.trained.drift_to_mean(start, c) for c in (0.5, 0.7, 0.9))])
    drift = LayerStates(states)
    null = mf.trained.claims(mf.trained.measure_layers(drift, beta=3.0, repeats=6, rng=0))
    return [
        Claim(
            "claims that do not hold of SA with β = 6 on S^2",
            "Sections 3.3 and 6, Figure 1",
            float(sum(claim.verdict != "holds" for claim in told)),
            0.0,
            "by construction",
            found=f"{len(told)} hold",
        ),
        Claim(
            "claims that hold of a drift to the mean beyond their null",
            SOURCE,
            float(sum("no more than its null" not in claim.verdict for claim in null)),
            0.0,
            "it is its own null",
            found=f"{len(null)} do not",
        ),
    ]


def beta_by_dummies(attention: Array, points: Array, allowed: NDArray[np.bool_]) -> float:
    """β of one head by least squares with a column for each row's constant: slow and plain."""
    rows, columns = np.nonzero(allowed & (attention > 0.0))
    scores = np.einsum("ij,ij->i", points[rows], points[columns])
    design = np.column_stack([scores, rows[:, None] == np.arange(len(points))]).astype(float)
    return float(np.linalg.lstsq(design, np.log(attention[rows, columns]), rcond=None)[0][0])


def claims_on_model(name: str, file: Path, heads: int | None = None) -> list[Claim]:
    """The reader against the matrices of a file, and β and W_2 against other ways to them."""
    states = LayerStates.from_file(file)
    checked = states.check()
    # the excerpt of one model lacks the matrices of values and outputs
    residual = (checked["residual_error"] / checked["residual_rounding"]).dropna("layer").values
    gaps, above = [], []
    for layer in range(states.n_layers):
        points, attention = states.points(layer), states.attention_at(layer)
        after = states.points(layer + 1)
        optimal = mf.trained.couplings(points, after).optimal
        above.append(abs(optimal / least_by_duality(points, after) - 1.0))
        assert attention is not None
        fit = mf.trained.effective_beta(attention, points, states.allowed)
        for head in range(states.n_heads or 0)[:heads]:
            plain = beta_by_dummies(attention[head], points, states.allowed)
            gaps.append(abs(fit.beta[head] - plain) / max(1.0, abs(plain)))
    recomputed = int(np.isfinite(checked["attention_error"].values).any(axis=1).sum())
    rows = [
        Claim(
            f"{name}: attention recomputed from states and matrices, {recomputed} layers",
            file.name,
            float(checked["attention_error"].max()),
            ATTENTION,
            "float32 numbers",
        ),
        Claim(
            f"{name}: β of {len(gaps)} heads off least squares with a constant for each row",
            file.name,
            max(gaps),
            1e-9,
            "columns that are nearly one another's sums",
        ),
        Claim(
            f"{name}: optimal coupling off what potentials allow, {len(above)} layers (relative)",
            file.name,
            max(above),
            1e-7,
            "what the solver of linear programmes leaves of its constraints",
        ),
    ]
    if len(residual):
        rows.append(
            Claim(
                f"{name}: residual identity, as a share of what rounding explains",
                file.name,
                float(residual.max()),
                1.0,
                "float32 numbers",
            ),
        )
    return rows


def least_by_duality(before: Array, after: Array) -> float:
    """W_2 of two sets of tokens from below: no plan costs less than any potentials u_i + v_j."""
    costs = np.arccos(np.clip(before @ after.T, -1.0, 1.0)) ** 2
    n = len(costs)
    rows = sparse.vstack(
        [sparse.kron(sparse.eye(n), np.ones((1, n))), sparse.hstack([sparse.eye(n)] * n)]
    )
    potentials = linprog(-np.ones(2 * n), rows.T, costs.ravel(), bounds=(None, None)).x
    # what the solver leaves of the constraints is taken off
    excess = max(0.0, float((rows.T @ potentials - costs.ravel()).max()))
    return float(np.sqrt(potentials.sum() / n - excess))


def measured(file: Path) -> xr.Dataset:
    """The measures of all layers of a model, as `meanfield layers` has them."""
    states = LayerStates.from_file(file)
    return mf.trained.measure_layers(states, rng=0).assign_attrs(file=file.name)


def claims_on_findings(name: str, ds: xr.Dataset) -> list[Claim]:
    """Energies between their bounds and balanced; the findings themselves, in words."""
    share = ds["energy_share"]
    outside = np.maximum(ds["energy_share_lower"] - share, share - 1.0).max()
    balance = ds["energy_change"].sum("half").transpose("layer", "subset", "beta").values
    findings = "; ".join(
        f"{claim.name}: {claim.verdict}"
        for claim in mf.trained.claims(ds)
        if claim.subset == "all tokens"
    )
    return [
        Claim(
            f"{name}: shares of energies beyond their bounds",
            "Proposition 3.4",
            max(0.0, float(outside)),
            0.0,
            findings,
        ),
        Claim(
            f"{name}: what halves of layers do to the energy, off its differences",
            name,
            float(np.abs(balance - share.diff("state").values).max()),
            1e-13,
            "rounding of sums",
        ),
    ]


def check(quick: bool) -> list[Claim]:
    """The quick form has fewer draws, the first layers of both models, and no figure."""
    rows = [*claims_on_betas(quick), *claims_on_energies(), *claims_on_verdicts()]
    for name, title in MODELS.items():
        rows += claims_on_model(f"{title}, layer 0", DATA / f"{name}_layer_0.npz", 2)
    for name, file in {} if quick else whole_models().items():
        rows += claims_on_model(MODELS[name], file, 2)
        ds = measured(file)
        rows += claims_on_findings(MODELS[name], ds)
        mf.plot.save(mf.plot.layers(ds), FIGURES / f"trained_{name}.png")
    return rows


if __name__ == "__main__":
    main(check)
