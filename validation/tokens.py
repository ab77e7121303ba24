"""Tokens: sums in O(n), Gram matrices, published and closed forms, collapse, noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import meanfield as mf
from validation._inside import evolve_batch, log_moment, moment_sums
from validation.claims import Claim, main

Array = NDArray[np.float64]

FIVE = [
    (0.99806638, 0.06215705),
    (0.97712061, 0.21268594),
    (-0.24578194, 0.96932515),
    (-0.97354734, 0.2284854),
    (-0.99892629, -0.04632772),
]
# 2βE/e^β of the published run at these times
FIVE_ENERGIES = {
    1.0: 0.379763057930,
    10.0: 0.520323722601,
    50.0: 0.520351254946,
    100.0: 0.520398763668,
    200.0: 0.520601743896,
    400.0: 1.0,
}


def unit(points: Array) -> Array:
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def cloud(dim: int, kind: str, n: int) -> tuple[Array, Array]:
    """Tokens with some at the poles, some at one place, and masses over three decades."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(n, dim))
    if kind == "bump":
        points[:, 0] += 3.0
    if kind == "clusters":
        near = np.eye(dim)[rng.integers(0, dim, size=n)] + 1e-3 * points
        points = np.where(rng.random((n, 1)) < 0.9, near, points)
    points = unit(points)
    points[0], points[1], points[2] = np.eye(dim)[-1], -np.eye(dim)[-1], np.eye(dim)[-1]
    points[3] = points[4]
    masses = 10.0 ** rng.uniform(-3, 0, size=n)
    return points, masses / masses.sum()


def fast_sums(quick: bool) -> list[Claim]:
    """O(n) against all pairs, at the tokens and far from them."""
    found = []
    for dim in 2, 3:
        worst = far = 0.0
        for beta in (0.1, 25.0, 100.0) if quick else (0.0, 0.1, 1.0, 4.0, 9.0, 25.0, 50.0, 100.0):
            for shape in ("uniform", "bump", "clusters"):
                points, masses = cloud(dim, shape, 1000 if quick else 4000)
                exact = log_moment(points, masses, beta * points)
                fast = moment_sums(beta, dim).log_moment(points, masses, points)
                worst = max(
                    worst, *(float(np.abs(a - b).max()) for a, b in zip(exact, fast, strict=True))
                )
        rng = np.random.default_rng(1)
        axis = np.eye(dim)[0]
        tokens = mf.Particles.sample(mf.VonMisesFisher(axis, 300.0), 3000, rng)
        at = mf.VonMisesFisher(-axis, 200.0).sample(300, rng)
        direct = mf.Particles(tokens.points, sums="direct")
        for beta in (25.0, 100.0):
            slow, fast_one = (mf.SA(beta).velocity(m, at) for m in (direct, tokens))
            far = max(far, float(np.max(np.linalg.norm(fast_one - slow, axis=1))))
        name = {2: "circle", 3: "S^2"}[dim]
        found += [
            Claim(
                f"{name}: log G and ∇ log G in O(n), β to 100", "(3.1)", worst, 1e-12, "rounding"
            ),
            Claim(
                f"{name}: X of SA far from all tokens, β = 25 and 100",
                "G down to e^-200 of its maximum",
                far,
                1e-12,
                "positive sums, or cells relative to their own size",
            ),
        ]
    return found


def closed_forms(quick: bool) -> list[Claim]:
    """The published run and Theorem 6.8."""
    points = unit(np.array(FIVE))
    run = mf.evolve(mf.Particles(points), mf.SA(4.0), 400.0, list(FIVE_ENERGIES))
    shares = run.dataset.energy_share.values[1:]
    off = float(np.abs(shares - list(FIVE_ENERGIES.values())).max())
    layers = mf.evolve(mf.Particles(points), mf.LayerMap(mf.SA(4.0), step=0.1), 1.0, 1)
    euler = abs(float(layers.dataset.energy_share[-1]) - FIVE_ENERGIES[1.0])
    worst = 0.0
    for n in (2, 64) if quick else (2, 3, 8, 16, 32, 64):
        for dynamics in mf.SA(0.0), mf.SA(1.0), mf.SA(4.0), mf.USA(1.0), mf.USA(3.0):
            tokens = mf.Particles(np.eye(max(n, 3))[:n])
            solution = mf.evolve(tokens, dynamics, 1.0, 2, rtol=1e-12, atol=1e-14)
            gram = solution.final.points @ solution.final.points.T
            exact = mf.theory.orthogonal_tokens(dynamics, n, 1.0)
            worst = max(worst, float(np.abs(gram[~np.eye(n, dtype=bool)] - exact).max()))
    return [
        Claim("five tokens, SA, β = 4: 2βE/e^β at t = 1 … 400", "published run", off, 1e-9, "rtol"),
        Claim(
            "the same by Euler steps of 0.1: off at t = 1",
            "published scripts",
            euler,
            1e-2,
            "first order; this is what they lose",
        ),
        Claim("orthogonal tokens, n = 2 … 64", "(6.9), (6.10)", worst, 1e-10, "rtol = 1e-12"),
    ]


def gram(quick: bool) -> list[Claim]:
    """n tokens through their n × n matrix."""
    rng = np.random.default_rng(3)
    points = unit(rng.normal(size=(32, 128 if quick else 1024)))
    worst = 0.0
    for dynamics in mf.SA(3.0), mf.USA(2.0), mf.SA(3.0, sign=-1):
        ends = [
            mf.evolve(mf.Particles(points, sums=sums), dynamics, 3.0, 1, rtol=1e-12, atol=1e-14)
            for sums in ("direct", "gram")
        ]
        worst = max(worst, float(np.abs(ends[0].final.points - ends[1].final.points).max()))
    return [Claim("Gram matrix against points, n = 32", "design", worst, 1e-10, "rtol = 1e-12")]


def collapse(quick: bool) -> list[Claim]:
    """All random starts end in one cluster: Theorem 6.1 for d = 3, Theorem 4.1 for d = 2, β = 0."""
    starts = 100 if quick else 1000
    found = []
    for dim, beta, source in (
        (3, 0.0, "Theorem 6.1"),
        (3, 1.0, "Theorem 6.1"),
        (3, 3.0, "Theorem 6.1"),
        (2, 0.0, "Theorem 4.1"),
    ):
        rng = np.random.default_rng(8)
        points = unit(rng.normal(size=(starts, 16, dim)))

        def least(grams: Array) -> Array:
            return grams.min(axis=(1, 2))

        def is_settled(row: Array) -> bool:
            return bool(np.all(row > 1.0 - 1e-6))

        # a start near a saddle leaves it at a rate that falls with β, so late times are sparse
        times = np.geomspace(1.0, 3000.0, 24)
        last = evolve_batch(
            points, mf.SA(beta), times, rtol=1e-6, atol=1e-9, observe=least, settled=is_settled
        )[-1]
        apart = float(np.sum(last < 1.0 - 1e-6))
        name = f"d = {dim}, n = 16, β = {beta:g}: starts of {starts} not in one cluster"
        found.append(Claim(name, source, apart, 0.0, "almost every start"))
    return found


def kuramoto(t_end: float, noise: float, r0: float) -> float:
    """|∫ e^{iθ} dmu| of noisy Kuramoto (β = 0, d = 2) in the limit, by Fourier modes."""
    from scipy.integrate import solve_ivp

    k = np.arange(1, 41)

    def rate(_: float, c: Array) -> Array:
        before, after = np.append(1.0, c[:-1]), np.append(c[1:], 0.0)
        return 0.5 * k * c[0] * (before - after) - noise * k**2 * c

    start = np.zeros(40)
    start[0] = r0
    return float(solve_ivp(rate, (0, t_end), start, rtol=1e-10, atol=1e-12).y[0, -1])


def noise() -> list[Claim]:
    """Weak order 2 of the scheme with noise, on noisy Kuramoto."""
    n, seeds = 10**6, range(16)
    tokens = mf.Particles.quantise(mf.FourierSeries(cos=[0.9999]), n)
    exact, off = kuramoto(2.0, 0.1, 0.49995), []
    for step in (1.0, 0.5):
        ends = [
            mf.evolve(
                tokens,
                mf.SA(0.0, noise=0.1),
                2.0,
                1,
                max_step=step,
                rng=np.random.default_rng(seed),
            ).final.mean()
            for seed in seeds
        ]
        off.append(abs(float(np.mean(np.linalg.norm(ends, axis=1))) - exact))
    order = float(np.log2(off[0] / off[1]))
    return [
        Claim(
            f"order of the weak error, {order:.2f}, less 2; steps 1 and 1/2",
            "noise, design",
            abs(order - 2.0),
            0.3,
            f"so long steps come to 1.9, sampling {len(seeds)} runs of {n:g} tokens moves it by "
            f"{0.28 / len(seeds) ** 0.5:.2f}; errors {off[0]:.1e}, {off[1]:.1e}",
        )
    ]


def check(quick: bool) -> list[Claim]:
    """All of the above; the quick form leaves out the noise, which takes 10⁶ tokens to see."""
    claims = [*fast_sums(quick), *closed_forms(quick), *gram(quick), *collapse(quick)]
    return claims if quick else [*claims, *noise()]


if __name__ == "__main__":
    main(check)
