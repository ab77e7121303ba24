"""Two tokens of n from uniform starts (8.1): the exact start, exact cases, where closures break."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import exp1, expi, iv

import meanfield as mf
from validation._inside import evolve_batch
from validation.claims import Claim, main

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
CLOSURES = "independent", "cumulant", "kirkwood"


def study(beta: float, n: int, t_end: float, repeats: int, save_at: int | list[float] = 48):
    """The study at a fixed seed."""
    return mf.studies.two_token_correlation(
        beta,
        n,
        t_end,
        repeats=repeats,
        save_at=save_at,
        rng=8,
    )


def starts(cases: list[tuple[float, int]]) -> list[Claim]:
    """d/dt E cos k(θ_1 - θ_2) = (2/n) k² I_k(β)/β at t = 0, by closures and by tokens."""
    claims = []
    for beta, n in cases:
        step = 1e-4 * np.exp(-beta)
        ds = study(beta, n, 2 * step, 2, [0.0, step, 2 * step])
        k = ds.degree.values
        expected = 2 / n * k**2 * iv(k, beta) / beta
        # the second difference takes the term of step² away
        found = (4 * ds.closed[:, 1] - ds.closed[:, 2]).values / (2 * step)
        error = float(np.abs(found - expected).max() / expected.max())
        name = f"β = {beta:g}, n = {n}: initial slopes of three closures, over the largest"
        claims.append(Claim(name, "(2/n) k² I_k(β)/β", error, 1e-7, "differences, step²"))
        rng = np.random.default_rng(1)
        angles = rng.uniform(0.0, 2 * np.pi, (20_000, n))
        gaps = angles[:, :, None] - angles[:, None, :]
        speed = -(np.exp(beta * np.cos(gaps)) * np.sin(gaps)).mean(axis=2)
        apart, closing = angles[:, 0] - angles[:, 1], speed[:, 0] - speed[:, 1]
        rates = -k[:, None] * np.sin(k[:, None] * apart) * closing
        errors = rates.std(axis=1) / np.sqrt(len(angles))
        away = float(np.abs((rates.mean(axis=1) - expected) / errors).max())
        name = f"β = {beta:g}, n = {n}: of 20,000 starts, in standard errors"
        claims.append(Claim(name, "(2/n) k² I_k(β)/β", away, 5.0, "chance"))
    return claims


def pairs(cases: list[tuple[float, float]]) -> list[Claim]:
    """n = 2 has no third token: x' = -h(x), whose time is a sum of exponential integrals."""
    claims = []
    for beta, t in cases:
        ds = study(beta, 2, t, 2, 1)

        def clock(x: float, beta: float = beta) -> float:
            u = np.cos(x)
            near = np.exp(-beta) * expi(beta * (1 - u))
            return -0.5 * float(near + np.exp(beta) * exp1(beta * (1 + u)))

        ends = np.array(
            [
                brentq(
                    lambda x, a=a, t=t, clock=clock: clock(x) - clock(a) - t,
                    0.5 * a * np.exp(-np.exp(beta) * t),
                    a,
                    xtol=1e-15,
                )
                for a in np.pi / 400 * (np.arange(400) + 0.5)
            ]
        )
        expected = np.cos(ds.degree.values[:, None] * ends).mean(axis=1)
        error = float(np.abs(ds.closed.values[:, -1] - expected).max())
        name = f"n = 2, β = {beta:g}, t = {t:g}: E cos kx up to {expected.max():.3f}, k <= 6"
        claims.append(Claim(name, "characteristics, Ei and E₁", error, 1e-11, "steps of 1e-11"))
    return claims


def third_order() -> list[Claim]:
    """n = 3 from a grid of starts, which knows no chance: closures leave it at third order."""
    times = [0.0, 0.01, 0.02]
    grid = np.pi / 16 * np.arange(32)
    second, third = (angle.ravel() for angle in np.meshgrid(grid, grid))
    angles = np.column_stack([np.zeros(32**2), second, third])
    points = np.stack([np.cos(angles), np.sin(angles)], axis=2)
    gram = evolve_batch(points, mf.USA(1.0), times, rtol=1e-11, atol=1e-13)
    x = np.arccos(np.clip(gram[:, :, 0, 1], -1.0, 1.0))
    exact = np.cos(np.arange(1, 7) * x[:, :, None]).mean(axis=1)
    ds = study(1.0, 3, 0.02, 2, times)
    gaps = np.linalg.norm(ds.closed.values - exact, axis=2)
    claims = []
    for closure, row, order in zip(CLOSURES, gaps, (2, 3, 3), strict=True):
        found = float(np.log2(row[2] / row[1]))
        name = f"n = 3, β = 1, {closure}: order {found:.3f} in t at which it leaves, less {order}"
        claims.append(Claim(name, "a grid of starts", abs(found - order), 0.1, "t = 0.01, 0.02"))
    return claims


def mass(beta: float, n: int, t_end: float) -> list[Claim]:
    """∫ ψ dx = 1 while resolved, and ψ of kirkwood is positive."""
    ds = study(beta, n, t_end, 2, 8)
    total = 2 * np.trapezoid(ds.psi.values, ds.x.values, axis=2)
    least = float(ds.least_density.sel(closure="kirkwood").min())
    name = f"β = {beta:g}, n = {n}, t <= {t_end:g}"
    error = float(np.abs(total - 1.0).max())
    return [
        Claim(f"{name}: mass of ψ, three closures", "conservation", error, 1e-11, "145 places"),
        Claim(
            f"{name}: least ψ of kirkwood {least:.4f}; where negative", "ψ >= 0", -least, 0.0, "law"
        ),
    ]


def breaks(cases: list[tuple[float, int, int]]) -> list[Claim]:
    """Where closures part from tokens, in units of the time at which linear growth would end."""
    claims = []
    for beta, n, repeats in cases:
        end = np.log(n) / (2 * mf.theory.growth_rates(mf.USA(beta), 2, 16).max())
        ds = study(beta, n, 1.2 * end, repeats)
        words = []
        for closure in CLOSURES:
            one = ds.sel(closure=closure)
            time = float(one.breaks)
            if np.isnan(time):
                words.append(f"{closure} not up to {float(one.reached) / end:.2f}, where it ends")
            else:
                size = float(np.abs(ds.correlation.sel(t=time)).max())
                words.append(f"{closure} at {time / end:.2f}, correlation {size:.2f}")
        times = np.nan_to_num(ds.breaks.values, nan=np.inf)
        early = float(np.count_nonzero(times[1:] < times[0]))
        claims.append(
            Claim(
                f"β = {beta:g}, n = {n}: breaks over ln n/(2 max γ_k) = {end:.3f}: "
                f"{'; '.join(words)}; closures before independent",
                f"{repeats} repeats",
                early,
                0.0,
                "off by 0.02, and more than chance in one study of 10⁴",
            )
        )
        if (beta, n) == (1.0, 20):
            mf.plot.save(mf.plot.two_token_correlation(ds), FIGURES / "two_token_correlation.png")
    return claims


def check(quick: bool) -> list[Claim]:
    """The start, exact cases, mass, and where closures break; the figure in the full form only."""
    tokens = [(1.0, 5, 1024)]
    if not quick:
        tokens = [(b, n, 512 if n > 50 else 4096) for b in (1.0, 4.0) for n in (5, 20, 100)]
    return [
        *starts([(2.0, 5)] if quick else [(1.0, 3), (2.0, 5), (4.0, 20)]),
        *pairs([(1.0, 1.0)] if quick else [(1.0, 1.0), (2.0, 0.5), (4.0, 0.05)]),
        *third_order(),
        *mass(1.0, 20, 2.0),
        *breaks(tokens),
    ]


if __name__ == "__main__":
    main(check)
