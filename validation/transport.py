"""W_p against POT and 30 digits of mpmath, and samples that come nearer to their law."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import ot
from matplotlib.figure import Figure
from mpmath import mp
from numpy.typing import NDArray
from scipy.optimize import brentq

import meanfield as mf
from validation.claims import Claim, main

Array = NDArray[np.float64]

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "empirical.png"
POWERS = 1.0, 1.5, 2.0, 3.0
# (κ, mean angle) of one and the other, the more concentrated one first
PAIRS = [
    ((3.0, 0.0), (0.5, 1.0)),
    ((20.0, 0.0), (3.0, 2.0)),
    ((20.0, 0.0), (0.5, 3.0)),
    ((0.5, 0.0), (0.5, 1.5)),
    ((3.0, 0.0), (3.0, 3.0)),
    ((20.0, 0.0), (20.0, 2.5)),
]
SPHERE_LAW = mf.VonMisesFisher([0.0, 0.0, 1.0], 2.0)


def tokens(turns: Array, masses: Array | None = None) -> mf.Particles:
    """Tokens on the circle at places in [0, 1)."""
    angles = 2.0 * np.pi * turns
    return mf.Particles(np.column_stack([np.cos(angles), np.sin(angles)]), masses, unit_mass=True)


# -- POT -------------------------------------------------------------------------------------------


def by_search(x: Array, y: Array, a: Array, b: Array, p: float) -> float:
    """W_p in radians by POT's search over cuts of the circle.

    Its search may end at a cut that is not the best, for 2 tokens against 30 at more than π: either
    order of the two costs a plan, and the lesser counts.
    """
    found = np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for pair in (x, y, a, b), (y, x, b, a):
            found = min(found, float(np.squeeze(ot.wasserstein_circle(*pair, p=p, eps=1e-12))))
    return 2.0 * np.pi * found ** (1.0 / p)


def by_simplex(x: Array, y: Array, a: Array, b: Array, p: float) -> float:
    """W_p in radians by POT's linear programme over all plans."""
    apart = np.abs(x[:, None] - y)
    costs = np.minimum(apart, 1.0 - apart) ** p
    return 2.0 * np.pi * float(ot.emd2(a, b, costs)) ** (1.0 / p)


def random_pair(rng: np.random.Generator, largest: int) -> tuple[Array, Array, Array, Array]:
    """Places in [0, 1) and masses of two clouds, every other time equal masses."""
    n, m = rng.integers(1, largest, 2)
    a, b = rng.random(n), rng.random(m)
    if rng.random() < 0.5:
        a, b = np.ones(n), np.ones(m)
    return rng.random(n), rng.random(m), a / a.sum(), b / b.sum()


def against_pot(count: int) -> list[Claim]:
    """The largest difference for each p."""
    rng = np.random.default_rng(0)
    pairs = [random_pair(rng, 60) for _ in range(count)]
    claims = []
    for name, way in ("wasserstein_circle", by_search), ("emd2", by_simplex):
        for p in POWERS:
            gap = max(
                abs(float(mf.wasserstein(tokens(x, a), tokens(y, b), p)) - way(x, y, a, b, p))
                for x, y, a, b in pairs
            )
            what = f"W_{p:g} of {count} pairs of clouds"
            claims.append(Claim(what, f"POT, {name}", gap, 1e-12, "sums of 120 terms"))
    return claims


# -- von Mises-Fisher laws ------------------------------------------------------------------------


class Law:
    """e^{κ cos(θ - m)}/(2π I_0(κ)) in the precision of mpmath, and its cumulative function."""

    def __init__(self, kappa: float, mean: float) -> None:
        self.kappa, self.mean = mp.mpf(kappa), mp.mpf(mean)
        self.norm = 2 * mp.pi * mpmath.besseli(0, self.kappa)
        self.ratios: list[Any] = []
        while not self.ratios or self.ratios[-1] > mp.mpf(10) ** (-mp.dps - 3):
            k = len(self.ratios) + 1
            self.ratios.append(mpmath.besseli(k, self.kappa) / (mpmath.besseli(0, self.kappa) * k))

    def pdf(self, x: Any) -> Any:
        """With respect to dθ."""
        return mpmath.exp(self.kappa * mpmath.cos(x - self.mean)) / self.norm

    def waves(self, x: Any) -> Any:
        """F(x) - x/2π = Σ I_k/(I_0 π k) sin k(x - m), by Clenshaw's rule."""
        double, ahead, following = 2 * mpmath.cos(x - self.mean), mp.mpf(0), mp.mpf(0)
        for ratio in reversed(self.ratios):
            ahead, following = ratio + double * ahead - following, ahead
        return ahead * mpmath.sin(x - self.mean) / mp.pi

    def primitive(self, x: Any) -> Any:
        """∫ of the waves: -Σ I_k/(I_0 π k²) cos k(x - m)."""
        terms = (r / (k + 1) * mpmath.cos((k + 1) * (x - self.mean)) for k, r in self._numbered())
        return -mpmath.fsum(terms) / mp.pi

    def _numbered(self) -> Any:
        return enumerate(self.ratios)

    def cumulated(self, x: Any) -> Any:
        """F(x), F(x + 2π) = F(x) + 1."""
        return x / (2 * mp.pi) + self.waves(x)


def exact_w1(mu: Law, nu: Law) -> Any:
    """∫ |D - c|, D = F - G, c its median: D(a) = D(a + π) = c, and D > c between, or outside."""

    def difference(x: Any) -> Any:
        return mu.waves(x) - nu.waves(x)

    def primitive(x: Any) -> Any:
        return mu.primitive(x) - nu.primitive(x)

    def gap(x: Any) -> Any:
        return difference(x) - difference(x + mp.pi)

    ends = [mp.pi * k / 16 for k in range(17)]
    signs = [gap(x) for x in ends]
    low = next(k for k in range(16) if signs[k] * signs[k + 1] <= 0)
    a = mpmath.findroot(gap, (ends[low], ends[low + 1]), solver="anderson", tol=mp.eps**1.5)
    c = difference(a)
    for k in range(1, 128):
        # two crossings only
        inside = difference(a + mp.pi * k / 128) - c
        outside = difference(a - mp.pi * k / 128) - c
        if inside * outside >= 0:
            raise ArithmeticError(f"F - G crosses its median more than twice: {mu}, {nu}")
    return abs(2 * primitive(a + mp.pi) - primitive(a) - primitive(a + 2 * mp.pi))


def exact_w2(mu: Law, nu: Law, count: int) -> Any:
    """(∫ (x - y)² dmu)^{1/2} along F(x) + s = G(y), at the s where ∫ (y - x) dx = 0.

    The curve is taken at x + y = τ, where both are smooth functions of τ however steep one is over
    the other, by the trapezoidal rule on `count` nodes of the period 4π.
    """
    s = mp.mpf(_shift(mu, nu, 256))
    for _ in range(12):
        x, y, f, g = _curve(mu, nu, s, count)
        missed = mpmath.fsum((b - a) * q / (p + q) for a, b, p, q in zip(x, y, f, g, strict=True))
        rate = mpmath.fsum(1 / (p + q) for p, q in zip(f, g, strict=True))
        s -= missed / rate
        # C'' is twice the rate: what is left of the error is of second order
        if (missed / count) ** 2 < mp.mpf(10) ** -24 * rate / count:
            break
    else:
        raise ArithmeticError(f"no best shift for {mu}, {nu}: {missed} left")
    total = mpmath.fsum(
        (a - b) ** 2 * p * q / (p + q) for a, b, p, q in zip(x, y, f, g, strict=True)
    )
    return mpmath.sqrt(4 * mp.pi * total / count)


def _curve(mu: Law, nu: Law, s: Any, count: int) -> tuple[list[Any], ...]:
    """x, y, f(x), g(y) at equal steps of x + y, by Newton's method from the point before."""
    x, rows = mp.mpf(0), []
    step = 4 * mp.pi / count
    slope = mp.mpf(0)
    for k in range(count):
        tau, x = k * step, x + step * slope
        for _ in range(60):
            y = tau - x
            f, g = mu.pdf(x), nu.pdf(y)
            change = (mu.cumulated(x) + s - nu.cumulated(y)) / (f + g)
            x -= max(-mp.mpf(0.1), min(mp.mpf(0.1), change))
            if abs(change) < mp.mpf(10) ** (8 - mp.dps):
                break
        else:
            raise ArithmeticError(f"no point of the curve at x + y = {tau}")
        y = tau - x
        f, g = mu.pdf(x), nu.pdf(y)
        slope = g / (f + g)
        rows.append((x, y, f, g))
    return tuple(list(column) for column in zip(*rows, strict=True))


def _shift(mu: Law, nu: Law, count: int) -> float:
    """The best shift in double precision, a start."""
    tau = 4.0 * np.pi / count * np.arange(count)

    def missed(s: float) -> float:
        low, high = 0.5 * tau - 5.0, 0.5 * tau + 5.0
        for _ in range(60):
            x = 0.5 * (low + high)
            above = _float_cdf(mu, x) + s > _float_cdf(nu, tau - x)
            low, high = np.where(above, low, x), np.where(above, x, high)
        f, g = _float_pdf(mu, x), _float_pdf(nu, tau - x)
        return float(np.sum((tau - 2.0 * x) * g / (f + g)))

    return float(brentq(missed, -0.75, 0.75, xtol=1e-15))


def _float_pdf(law: Law, x: Array) -> Array:
    return np.exp(float(law.kappa) * np.cos(x - float(law.mean))) / float(law.norm)


def _float_cdf(law: Law, x: Array) -> Array:
    k = np.arange(1.0, len(law.ratios) + 1)
    ratios = np.array([float(r) for r in law.ratios])
    return np.asarray(x / (2 * np.pi) + np.sin(np.outer(x - float(law.mean), k)) @ ratios / np.pi)


def own_law(kappa: float, mean: float) -> mf.VonMisesFisher:
    """The same law as an argument of a measure."""
    return mf.VonMisesFisher([np.cos(mean), np.sin(mean)], kappa)


def in_thirty_digits(pairs: list[Any], counts: tuple[int, int]) -> list[Claim]:
    """W_1 and W_2 of densities and flow maps, the latter on so many nodes, and on more."""
    claims = []
    with mp.workdps(30):
        for one, other in pairs:
            mu, nu = Law(*one), Law(*other)
            exact = {1: exact_w1(mu, nu), 2: exact_w2(mu, nu, counts[0])}
            finer = exact_w2(mu, nu, counts[1])
            names = [f"κ = {kappa:g} at {mean:g}" for kappa, mean in (one, other)]
            for p, value in exact.items():
                dense = [mf.Density(mf.Circle(128), own_law(*law)) for law in (one, other)]
                flows = [mf.FlowMap(own_law(*law)) for law in (one, other)]
                gap = max(
                    abs(float(mf.wasserstein(*pair, p)) - float(value))
                    for pair in (dense, dense[::-1], flows, (dense[0], flows[1]))
                )
                claims.append(
                    Claim(
                        f"{names[0]}, {names[1]}: W_{p} = {mpmath.nstr(value, 16)}",
                        "mpmath, 30 digits",
                        gap,
                        1e-12,
                        "densities and flow maps",
                    )
                )
            claims.append(
                Claim(
                    f"{names[0]}, {names[1]}: W_2 by {counts[0]} nodes less that by {counts[1]}",
                    "trapezoidal rule",
                    float(abs(exact[2] - finer)),
                    1e-15,
                    "the reference is one",
                )
            )
    return claims


# -- samples of a law ------------------------------------------------------------------------------


def samples_on_circle(numbers: list[int], repeats: int) -> Array:
    """E W_1(mu_n, mu) for each n."""
    law, rng = own_law(1.0, 0.0), np.random.default_rng(1)
    density = mf.Density(mf.Circle(64), law)
    return np.array(
        [
            np.mean(
                [
                    float(mf.wasserstein(mf.Particles.sample(law, n, rng), density))
                    for _ in range(repeats)
                ]
            )
            for n in numbers
        ]
    )


def samples_on_sphere(numbers: list[int], repeats: Callable[[int], int]) -> tuple[Array, float]:
    """E W_1(mu_n, nu_n) of independent samples for each n, and the widest bracket.

    E W_1(mu_n, mu) lies between half of it, by the triangle inequality, and all of it, since W_1
    is convex and mu is the mean of nu_n.
    """
    rng, width, means = np.random.default_rng(2), 0.0, []
    for n in numbers:
        found = []
        for _ in range(repeats(n)):
            pair = [mf.Particles.sample(SPHERE_LAW, n, rng) for _ in range(2)]
            bracket = mf.wasserstein(*pair)
            width = max(width, bracket.upper - bracket.lower)
            found.append(float(bracket))
        means.append(np.mean(found))
    return np.array(means), width


def _exponent(numbers: list[int], distances: Array) -> float:
    return float(np.polyfit(np.log(numbers), np.log(distances), 1)[0])


def samples(quick: bool) -> list[Claim]:
    """Exponents on the circle and on S^2, and the figure."""
    on_circle = [16, 1024] if quick else [64, 256, 1024, 4096, 16_384]
    on_sphere = [50, 400] if quick else [62, 125, 250, 500, 1000, 2000]
    repeats = 30 if quick else 80
    circle = samples_on_circle(on_circle, repeats)
    work = 4000 if quick else 12_000
    sphere, width = samples_on_sphere(on_sphere, lambda n: max(6, work // n))
    plain = _exponent(on_circle, circle)
    logarithm = np.sqrt(np.log(on_sphere))
    crossed = _exponent(on_sphere, sphere / logarithm)
    claims = [
        Claim(
            f"circle: exponent {plain:.3f} of E W_1(mu_n, mu), + 1/2",
            "1-D empirical measures",
            abs(plain + 0.5),
            0.05 if quick else 0.03,
            f"{repeats} draws of spread 1/3 at each n",
        ),
        Claim(
            f"S²: exponent {crossed:.3f} of E W_1(mu_n, nu_n)/sqrt(log n), + 1/2",
            "Ajtai, Komlós, Tusnády 1984",
            abs(crossed + 0.5),
            0.1 if quick else 0.05,
            "sqrt(log n) up to a constant beside log n",
        ),
        Claim("S²: width of brackets", "duality", width, 1e-11, "the network simplex is exact"),
    ]
    if not quick:
        _draw(on_circle, circle, on_sphere, sphere)
    return claims


def _draw(on_circle: list[int], circle: Array, on_sphere: list[int], sphere: Array) -> None:
    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    ax = figure.add_subplot()
    ax.loglog(on_circle, circle, "o-", color="#0072b2", ms=4, label="circle, vMF, κ = 1")
    guide = circle[0] * np.sqrt(on_circle[0] / np.array(on_circle))
    ax.loglog(on_circle, guide, ":", color="0.4", label="$n^{-1/2}$")
    ax.fill_between(on_sphere, 0.5 * sphere, sphere, color="#d55e00", alpha=0.25, lw=0)
    for bound, label in (sphere, "S², vMF, κ = 2: bounds from two samples"), (0.5 * sphere, None):
        ax.loglog(on_sphere, bound, "o-", color="#d55e00", ms=3, lw=1, label=label)
    n = np.array(on_sphere)
    guide = sphere[-1] * np.sqrt(np.log(n) / n * n[-1] / np.log(n[-1]))
    ax.loglog(n, guide, "--", color="0.4", label="$(\\log n / n)^{1/2}$")
    ax.set_xlabel("n")
    ax.set_ylabel("E $W_1(\\mu_n, \\mu)$")
    ax.set_title("Tokens drawn from a law, and the law", fontsize=10)
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, dpi=160)


def check(quick: bool) -> list[Claim]:
    """POT, 30 digits, samples; the figure in the full form only."""
    return [
        *against_pot(10 if quick else 200),
        *(in_thirty_digits(PAIRS[:1], (96, 128)) if quick else in_thirty_digits(PAIRS, (384, 512))),
        *samples(quick),
    ]


if __name__ == "__main__":
    main(check)
