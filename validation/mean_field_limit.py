"""n tokens tend to the density like n^{-1/2}: circle and S^2, SA and USA; quantised ones faster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

import meanfield as mf
from validation.claims import Claim, main

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
CIRCLE = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)], [0.6, 0.4]
)
CASES = {
    "circle, SA, β = 2": (CIRCLE, mf.SA(2.0), 1.0),
    "circle, USA, β = 1": (CIRCLE, mf.USA(1.0), 0.5),
    "S^2, SA, β = 2": (BUMPS, mf.SA(2.0), 1.0),
    "S^2, USA, β = 1": (BUMPS, mf.USA(1.0), 0.5),
}
# either space and either dynamics
QUICK = ("circle, SA, β = 2", "S^2, USA, β = 1")


def of_w1(name: str, ds: xr.Dataset, quick: bool) -> list[Claim]:
    """The exponent of W_1 that the study has fitted, and the bound of Remark 3.3."""
    one = ds.sel(quantity="w1")
    worst = int(np.argmax(np.abs(one.rate.values + 0.5)))
    low, high = float(one.rate_lower[worst]), float(one.rate_upper[worst])
    excess = float((ds.w1.mean("repeat") / ds.dobrushin).max()) - 1.0
    return [
        Claim(
            f"{name}: exponent of w1 + 1/2, n = {int(ds.n[0])} … {int(ds.n[-1])}",
            "mean-field limit",
            float(np.abs(one.rate.values + 0.5).max()),
            0.1 if quick else 0.03,
            f"{ds.sizes['repeat']} repeats; all jointly 95 %: {low:.3f} … {high:.3f}",
        ),
        Claim(
            f"{name}: W_1 over e^(Ct) W_1(0), less 1",
            "Remark 3.3",
            excess,
            1e-12,
            f"C = {ds.attrs['dobrushin_constant']:.4g} is a bound",
        ),
    ]


def joint_rates(name: str, parts: list[xr.Dataset], quick: bool) -> list[Claim]:
    """Exponents over all n of studies with several numbers of repeats, each n with the weight of
    its repeats; the standard error follows from how the squares of the distances are spread."""
    n = np.concatenate([ds.n.values for ds in parts])
    repeats = np.concatenate([np.full(ds.sizes["n"], ds.sizes["repeat"]) for ds in parts])
    x = np.log(n / np.exp(np.average(np.log(n), weights=repeats)))
    found = []
    for quantity in [q for q in ("mmd", "sobolev") if q in parts[0]]:
        squares = [(ds[quantity] ** 2).transpose("n", "t", "repeat").values for ds in parts]
        means = np.concatenate([square.mean(axis=-1) for square in squares])
        exponents = np.polyfit(x, 0.5 * np.log(means), 1, w=np.sqrt(repeats))[0]
        spread = squares[0].var(axis=-1, ddof=1) / squares[0].mean(axis=-1) ** 2
        error = 0.5 * np.sqrt(spread.mean() / (repeats @ x**2))
        found.append(
            Claim(
                f"{name}: exponent of {quantity} + 1/2, n = {n[0]} … {n[-1]}",
                "mean-field limit",
                float(np.abs(exponents + 0.5).max()),
                0.1 if quick else 0.03,
                f"{', '.join(map(str, repeats))} repeats; standard error {error:.3f}",
            )
        )
    return found


def draw() -> None:
    """USA at β = 1, whose bound is not off the figure at once; and SA under a causal mask."""
    ds = mf.studies.mean_field_limit(CIRCLE, mf.USA(1.0), 0.5, [100, 1000, 10_000])
    mf.plot.save(mf.plot.mean_field_limit(ds), FIGURES / "mean_field_limit.png")
    causal = mf.SA(1.0, mask=mf.Causal())
    ds = mf.studies.causal_limit(CIRCLE, causal, 1.0, [256, 1024, 4096], repeats=32, save_at=1)
    mf.plot.save(mf.plot.causal_limit(ds), FIGURES / "causal_limit.png")


def check(quick: bool) -> list[Claim]:
    """Rates, Dobrushin's bound, quantised starts, and the figures."""
    # 10⁶ tokens take as long as all the others: few repeats, which weigh less
    # an n between the ends would weigh nothing in the slope of a line
    groups = [([20, 2000], 12)]
    if not quick:
        groups = [([100, 1000, 10_000, 100_000], 24), ([1_000_000], 4)]
    found: list[Claim] = []
    for name in QUICK if quick else CASES:
        law, dynamics, t_end = CASES[name]
        # norms of H^s on S^2 take degrees up to 1023
        distances = ["mmd"] if quick and law.dim == 3 else ["mmd", "sobolev"]
        distances += ["w1"] if quick and law.dim == 2 else []
        parts = [
            mf.studies.mean_field_limit(
                law,
                dynamics,
                t_end,
                n,
                repeats=repeats,
                distances=distances,
                save_at=1,
                rtol=1e-7,
                rng=rng,
            )
            for rng, (n, repeats) in enumerate(groups)
        ]
        found += joint_rates(name, parts, quick)
        if quick and law.dim == 2:
            found += of_w1(name, parts[0], quick)
        elif law.dim == 2:
            # the distance of 10⁶ tokens takes longer than their run
            ds = mf.studies.mean_field_limit(
                law, dynamics, t_end, groups[0][0], repeats=16, distances=["w1"], save_at=4
            )
            found += of_w1(name, ds, quick)
    if not quick:
        draw()
    ds = mf.studies.mean_field_limit(
        CIRCLE, mf.SA(2.0), 1.0, [8, 16, 32], repeats=3, save_at=1, start="quantise"
    )
    slope = float(ds.rate.sel(quantity="energy_error").max())
    found.append(
        Claim(
            f"circle, quantised starts: exponent {slope:.1f} of the energy error, over -2",
            "equal-mass points",
            slope + 2.0,
            0.0,
            "faster than any power: the trapezoidal rule in labels",
        )
    )
    return found


if __name__ == "__main__":
    main(check)
