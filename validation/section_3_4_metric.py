"""Section 3.4: with QᵀK = V symmetric, attention climbs E_β in the metric weighted by Z_β.

For QᵀK = V symmetric let E_β(X) = (1/2β) Σ_ij e^{β⟨Vx_i, x_j⟩} and Z_i = Σ_j e^{β⟨Vx_i, x_j⟩}.
In the metric ⟨a, b⟩_X = Σ_i Z_i ⟨a_i, b_i⟩ (3.12) tokens under softmax attention move by
Ẋ = grad E_β(X), which (3.13)-(3.14) test with fields x → Bx, B skew: ⟨Ẋ, b⟩_X is the derivative
of E_β along b. For measures the metric is ∫ ⟨v, w⟩ Z_β dmu (3.15), and a length in it is the least
∫∫ |v_t|² Z dmu_t dt that moves mu_t as it moves (3.16).

Measured: the derivative of E_β as one token turns as e^{tB}x_i, for every i and every B of a basis
of skew matrices, by a complex step, which has no error of differences; it is held against the
velocity of the package in the metric, and both energies against each other. Then the gain of E_β
along a run against the integral of the squared speed, summed here by Gauss's rule on the times of
saves, for tokens, densities and flow maps. At last X against fields w with div(w mu) = 0: where
∫ ⟨X, w⟩ Z dmu = 0, no field that moves mu alike is shorter. If V is not QᵀK, or the weight Z is
left out, (3.13) has to fail; that it does is a claim, too.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
from matplotlib.figure import Figure
from numpy.polynomial import Legendre
from numpy.typing import NDArray

import meanfield as mf
from validation.claims import Claim, main
from validation.drawing import COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]
Measure = mf.Density | mf.FlowMap | mf.Particles

N = 7
DIMS = 2, 3, 5, 8
BETAS = 0.5, 2.0, 6.0
CIRCLE = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
BUMP = mf.VonMisesFisher([0.0, 0.6, 0.8], 1.0)
# far below the root of rounding, so that the square of the step is lost and the derivative is not
STEP = 1e-30
# sums of n d terms of either sign
ROUNDING = 1e-12
RUNS = (
    "7 tokens, QᵀK = V, d = 3",
    "density on the circle, SA",
    "flow map on the circle, SA",
)
GAUSS = np.polynomial.legendre.leggauss(16)


def tokens(dim: int, rng: np.random.Generator) -> Array:
    """Points that are not symmetric in any way."""
    return np.asarray(mf.Uniform(dim).sample(N, rng))


def matrices(dim: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Q, K and the symmetric QᵀK, of norm 1, that they make."""
    form = rng.normal(size=(dim, dim))
    form = form + form.T
    form /= np.linalg.norm(form, 2)
    q = np.eye(dim) + 0.3 * rng.normal(size=(dim, dim))
    return q, np.linalg.solve(q.T, form), form


def energy(x: NDArray[np.complex128], form: Array, beta: float) -> complex:
    """E_β(X), analytic in X."""
    return complex(np.exp(beta * x @ form @ x.T).sum() / (2.0 * beta))


def weights(x: Array, form: Array, beta: float) -> Array:
    """Z_i."""
    return np.asarray(np.exp(beta * x @ form @ x.T).sum(axis=1))


def turned(x: Array, i: int, pair: tuple[int, int]) -> Array:
    """B x_i for the token i, nothing for the others, B = e_a e_bᵀ - e_b e_aᵀ."""
    a, b = pair
    field = np.zeros_like(x)
    field[i, a], field[i, b] = x[i, b], -x[i, a]
    return field


def mismatch(dim: int, beta: float, skew: float = 0.0, weighted: bool = True) -> float:
    """Worst of (3.13) over tokens and skew B, as a share of the largest derivative.

    V = QᵀK plus a skew matrix, if any; without the weight the metric is the sum's mean one.
    """
    rng = np.random.default_rng(dim)
    x, (q, k, form) = tokens(dim, rng), matrices(dim, rng)
    noise = rng.normal(size=(dim, dim))
    attention = mf.Attention(beta, [mf.Head(q, k, form + skew * (noise - noise.T))])
    velocity = attention.velocity(mf.Particles(x), at=x)
    z = weights(x, form, beta)
    metric = z if weighted else np.full(N, z.mean())
    off, size = 0.0, 0.0
    for i in range(N):
        for pair in combinations(range(dim), 2):
            field = turned(x, i, pair)
            slope = energy(x + 1j * STEP * field, form, beta).imag / STEP
            off = max(off, abs(slope - float(metric @ np.sum(velocity * field, axis=1))))
            size = max(size, abs(slope))
    return off / size


def of_tokens(quick: bool) -> list[Claim]:
    """(3.12)-(3.14) and what they need."""
    dims, betas = (DIMS[:2], BETAS[:2]) if quick else (DIMS, BETAS)
    cases = [(dim, beta) for dim in dims for beta in betas]
    worst = max(mismatch(*case) for case in cases)
    count = N * sum(dim * (dim - 1) // 2 for dim, _ in cases)
    rng, gap = np.random.default_rng(0), 0.0
    for dim, beta in cases:
        x, (_, _, form) = tokens(dim, rng), matrices(dim, rng)
        ours = energy(x.astype(complex), form, beta).real / N**2
        gap = max(
            gap,
            abs(
                mf.energy(mf.Particles(x), mf.Attention(beta, [mf.Head(Q=form, V=form)])) / ours
                - 1.0
            ),
        )
    needed = {
        "skew part in V": min(mismatch(dim, 2.0, skew=0.2) for dim in dims),
        "metric without Z": min(mismatch(dim, 2.0, weighted=False) for dim in dims),
    }
    why = "as a share; a gradient would be off by rounding"
    return [
        Claim(
            f"⟨Ẋ, b⟩_X less the derivative of E_β along b, {count} rotations",
            "(3.13), (3.14)",
            worst,
            ROUNDING,
            "complex step; sums of n d terms",
        ),
        Claim("energy of tokens, relative", "section 3.4", gap, ROUNDING, "sums of n² terms"),
        *(
            Claim(f"{name}: 0.01 over what is then missing", "(3.13)", 0.01 / off, 1.0, why)
            for name, off in needed.items()
        ),
    ]


@cache
def along(name: str) -> tuple[Array, Array, Array]:
    """Times of a run, the energy gained, and the integral of the squared speed by Gauss's rule."""
    rng = np.random.default_rng(3)
    t_end, beta = 2.0, 2.0
    nodes, masses = 0.5 * t_end * (GAUSS[0] + 1.0), 0.5 * t_end * GAUSS[1]
    times = np.append(nodes, t_end)
    x, (q, k, form) = tokens(3, rng), matrices(3, rng)
    starts: dict[str, tuple[Measure, mf.SA | mf.Attention, Array]] = {
        RUNS[0]: (mf.Particles(x), mf.Attention(beta, [mf.Head(q, k, form)]), form),
        RUNS[1]: (mf.Density(mf.Circle(64), CIRCLE), mf.SA(beta), np.eye(2)),
        RUNS[2]: (mf.FlowMap(CIRCLE), mf.SA(beta), np.eye(2)),
    }
    start, model, matrix = starts[name]
    sol = mf.evolve(start, model, t_end, times, rtol=1e-12, atol=1e-14)
    energies = np.array([mf.energy(mu, model) for mu in sol.measures])
    speeds = np.array([squared_speed(mu, model, beta, matrix) for mu in sol.measures[1:-1]])
    gained = energies - energies[0]
    return np.asarray(sol.t), gained, np.append(speeds, masses @ speeds)


def squared_speed(mu: Measure, model: mf.SA | mf.Attention, beta: float, form: Array) -> float:
    """∫ |X|² Z dmu."""
    if isinstance(mu, mf.Density):
        points, mass = mu.space.points, mu.space.weights * mu.values
    else:
        points, mass = mu.points, mu.weights
    velocity = model.velocity(mu, at=points)
    z = mu.moment(beta * points @ form)[0]
    return float((mass * z) @ np.sum(velocity**2, axis=1))


def of_runs(quick: bool) -> list[Claim]:
    """dE/dt = ⟨X, X⟩ along runs; speed and slope."""
    claims = []
    for name in RUNS:
        _, gained, speeds = along(name)
        claims.append(
            Claim(
                f"{name}: E(2) - E(0) less ∫ of the squared speed",
                "(3.15)",
                float(abs(gained[-1] - speeds[-1]) / gained[-1]),
                1e-10,
                "rtol = 1e-12; 16 Gauss nodes in time",
                f"{gained[-1]:.12g}",
                f"{speeds[-1]:.12g}",
            )
        )
    measures: list[Measure] = [
        mf.Density(mf.Circle(64), CIRCLE),
        mf.Density(mf.Sphere(15), BUMP),
        mf.FlowMap(CIRCLE),
        mf.Particles.sample(BUMP, 200, np.random.default_rng(0)),
    ]
    off = 0.0
    for mu in measures:
        for beta in BETAS[:1] if quick else BETAS:
            speed = np.sqrt(mf.dissipation(mu, mf.SA(beta)))
            off = max(off, abs(speed / mf.slope(mu, mf.SA(beta)) - 1.0))
    name = "speed in the metric over the slope of E_β, less 1"
    claims.append(Claim(name, "(3.15)", off, 1e-11, "sums of 10³ nodes"))
    return claims


def tangled(beta: float, weighted: bool) -> float:
    """∫ ⟨X, w⟩ Z dmu over its parts' sizes, w = x × ∇ψ / f for ψ of degree 3, on S²."""
    mu = mf.Density(mf.Sphere(23), BUMP)
    model = mf.SA(beta) if weighted else mf.USA(beta)
    x, mass = mu.space.points, mu.space.weights
    rng, worst = np.random.default_rng(5), 0.0
    field = model.velocity(mu, at=x)
    if weighted:
        field = field * mu.moment(beta * x)[0][:, None]
    for _ in range(4):
        a, b, c = rng.normal(size=(3, 3))
        by_a, by_b, by_c = x @ a, x @ b, x @ c
        slope = np.outer(by_b * by_c, a) + np.outer(by_a * by_c, b) + np.outer(by_a * by_b, c)
        swirl = np.cross(x, slope)
        parts = np.sum(field * swirl, axis=1)
        worst = max(worst, abs(float(mass @ parts)) / float(mass @ np.abs(parts)))
    return worst


def of_fields(quick: bool) -> list[Claim]:
    """(3.16): X Z is a gradient, so no field that moves mu alike is shorter."""
    betas = BETAS[:1] if quick else BETAS
    worst = max(tangled(beta, weighted) for beta in betas for weighted in (True, False))
    name = "∫ ⟨X, w⟩ Z dmu for div(w mu) = 0 on S², as a share"
    return [Claim(name, "(3.16)", worst, 1e-12, "sums over 2000 nodes")]


def check(quick: bool) -> list[Claim]:
    """Tokens, runs and fields."""
    return [*of_tokens(quick), *of_runs(quick), *of_fields(quick)]


def figure(quick: bool) -> Figure:
    """dE_β/dt of runs beside the squared speed."""
    drawn, (ax,) = panels(1, "Attention climbs $E_\\beta$ in the weighted metric")
    fine = np.linspace(0.0, 2.0, 200)
    for name, colour, marker in zip(RUNS, COLOURS, MARKERS, strict=False):
        times, gained, speeds = along(name)
        # through all Gauss nodes, as the rule integrates it
        squared = Legendre.fit(times[1:-1], speeds[:-1], 15, domain=[0.0, 2.0])
        ax.plot(fine, squared.integ(lbnd=0.0)(fine), color=colour, linewidth=0.9)
        # a flow map's points lie on a density's
        faces = "none" if marker == MARKERS[2] else colour
        ax.plot(times, gained, marker, color=colour, ms=5, markerfacecolor=faces, label=name)
    title = "marks: energy gained; lines: $\\int\\!\\int |X|^2 Z\\,d\\mu\\,dt$"
    label(ax, "t", "$E_\\beta(t) - E_\\beta(0)$", title)
    return drawn


if __name__ == "__main__":
    main(check)
