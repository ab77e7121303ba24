"""Any attention: densities against SA, positive sums, heat flow, flow maps and tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import meanfield as mf
from validation._inside import GridTendency, OutputAtTokens, tendency
from validation.claims import Claim, main

Array = NDArray[np.float64]
PLACES = {2: [0.6, 0.8], 3: [0.48, 0.6, 0.64]}


def starts(dims: tuple[int, ...]) -> dict[str, mf.Density]:
    """One start on each kind of space, zonal in these dimensions."""
    spaces = [mf.Circle(64), mf.Sphere(31), *(mf.Zonal(d, 31) for d in dims)]
    found = {}
    for space in spaces:
        place = np.eye(space.dim)[-1] if isinstance(space, mf.Zonal) else PLACES[space.dim]
        found[repr(space)] = mf.Density(space, mf.VonMisesFisher(place, 1.0))
    return found


def heads(dim: int, score: float) -> list[mf.Head]:
    """Two heads of normal entries with |KᵀQ| = score."""
    rng, made = np.random.default_rng(5), []
    for _ in range(2):
        query, key, value = rng.normal(size=(3, dim, dim)) / np.sqrt(dim)
        query *= score / np.linalg.norm(key.T @ query, 2)
        made.append(mf.Head(query, key, value))
    return made


def identities(dims: tuple[int, ...]) -> list[Claim]:
    """One head of identities is SA or USA."""
    found = []
    for name, mu in starts(dims).items():
        worst_rate, worst_run = 0.0, 0.0
        for kind in mf.SA, mf.USA:
            for beta in 1.0, 9.0:
                plain, head = kind(beta), mf.Attention(beta, [mf.Head()], normalised=kind is mf.SA)
                rates = []
                for dynamics in plain, head:
                    rate = tendency(mu, dynamics)
                    rates.append(np.empty_like(rate.initial_state))
                    rate(rate.initial_state, rates[-1])
                off = np.abs(rates[0] - rates[1]).max() / np.abs(rates[0]).max()
                worst_rate = max(worst_rate, float(off))
            one, other = (
                mf.evolve(mu, dynamics, 0.1, 1).final
                # a matrix, which runs by its own sums, where a number runs as SA
                for dynamics in (
                    kind(2.0),
                    mf.Attention(2.0, [mf.Head(np.eye(mu.dim))], normalised=kind is mf.SA),
                )
            )
            worst_run = max(worst_run, float(np.abs(one.coefficients - other.coefficients).max()))
        what = f"{name}: one head of identities less SA and USA, df/dt at β = 1, 9, relative"
        found.append(Claim(what, "(2.3), (SA), (USA)", worst_rate, 1e-12, "rounding"))
        what = f"{name}: the same at t = 0.1, β = 2"
        found.append(Claim(what, "(2.3), (SA), (USA)", worst_run, 1e-12, "rounding"))
    return found


def fields(quick: bool) -> list[Claim]:
    """X on the grid against sums of positive terms over the grid."""
    found = []
    large = [(mf.Sphere(15), 12.0)] if quick else [(mf.Sphere(31), 25.0), (mf.Sphere(31), 80.0)]
    for space, score in [
        (mf.Circle(64), 3.0),
        (mf.Circle(64), 25.0),
        (mf.Circle(64), 100.0),
        *large,
    ]:
        mu = mf.Density(space, mf.VonMisesFisher(PLACES[space.dim], 0.5))
        mu = mf.Density.from_coefficients(space, mu.coefficients)
        dynamics = mf.Attention(1.0, heads(space.dim, score))
        rate = GridTendency(mu, dynamics)
        found_x, tangents = (
            rate.field(mu.coefficients, mu.values).velocity,
            space.tangent_frame(np.arange(len(mu.values))),
        )
        expected = np.einsum("cjr,jr->cj", tangents, dynamics.velocity(mu, at=space.points))
        off = float(np.abs(found_x - expected).max())
        what = f"{space}, two heads, |KᵀQ| = {score:g}: X less sums of positive terms"
        why = "1e-15 over 1e-6, the least share of G that is left to series"
        found.append(Claim(what, "(2.3), (2.7)", off, 3e-9, why))
    return found


def heat(dims: tuple[int, ...]) -> list[Claim]:
    """Heads without values and with noise: each degree decays by itself."""
    worst = 0.0
    for mu in starts(dims).values():
        final = mf.evolve(mu, mf.Attention(2.0, [mf.Head(V=0.0)], noise=0.2), 0.5, 1).final
        expected = np.exp(-0.1 * mu.space.laplacian) * mu.coefficients
        worst = max(worst, float(np.abs(final.coefficients - expected).max()))
    name = "V = 0, τ = 0.2, all spaces: coefficients at t = 0.5"
    return [Claim(name, "e^{-τ k(k+d-2) t}", worst, 1e-13, "rounding")]


def turned(t_end: float) -> list[Claim]:
    """A turned start under turned matrices, with noise."""
    found = []
    for space in mf.Circle(64), mf.Sphere(31):
        dim = space.dim
        turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(dim, dim)))
        given, place = heads(dim, 2.0), np.array(PLACES[dim])
        many = [mf.Head(h.Q @ turn.T, h.K @ turn.T, turn @ h.V @ turn.T) for h in given]
        one, other = (
            mf.evolve(
                mf.Density(space, mf.VonMisesFisher(at, 1.0)),
                mf.Attention(1.0, which, noise=0.05),
                t_end,
                1,
            ).final
            for at, which in ((place, given), (turn @ place, many))
        )
        points = mf.Uniform(dim).sample(50, np.random.default_rng(0))
        off = float(np.abs(one.pdf(points) - other.pdf(points @ turn.T)).max())
        name = f"{space}, τ = 0.05: f at t = {t_end:g} of a turned problem"
        found.append(Claim(name, "equivariance", off, 1e-7, "tail_tol = 1e-8"))
    return found


def tokens(quick: bool) -> list[Claim]:
    """Quantised tokens against the density: mean and G at unit vectors."""
    found = []
    for space, score in (mf.Circle(64), 3.0), (mf.Sphere(31), 2.0):
        n = 2000 if quick else 10**5
        law = mf.VonMisesFisher(PLACES[space.dim], 1.5)
        dynamics = mf.Attention(1.0, heads(space.dim, score))
        smooth = mf.evolve(mf.Density(space, law, tail_tol=1e-9), dynamics, 0.5, 1)
        cloud = mf.evolve(mf.Particles.quantise(law, n), dynamics, 0.5, 1, rtol=1e-8)
        points = mf.Uniform(space.dim).sample(50, np.random.default_rng(0))
        gaps = (
            smooth.final.mean() - cloud.final.mean(),
            smooth.final.moment(points)[0] - cloud.final.moment(points)[0],
        )
        off = max(float(np.abs(gap).max()) for gap in gaps)
        rounded = quick and space.dim == 3
        why = "n^{-1.3} on S²: 5e-5 for 2000" if rounded else "rtol = 1e-8, tail_tol = 1e-9"
        name = f"{space}, two heads, {n:g} tokens: mean and G at t = 0.5"
        limit = 2e-4 if rounded else 1e-6
        found.append(Claim(name, "mean-field limit", off, limit, why))
        mass = float(np.abs(1.0 - smooth.dataset.mass).max())
        found.append(Claim(f"{space}, two heads: mass", "∫ f dσ = 1", mass, 1e-14, "rounding"))
    return found


def flow_maps(quick: bool) -> list[Claim]:
    """Flow maps against densities: mean, G, and f itself, under heads and through layers."""
    found = []
    for space, tol in (mf.Circle(64), 1e-12), (mf.Sphere(31), 1e-9):
        law, dim = mf.VonMisesFisher(PLACES[space.dim], 1.5), space.dim
        attention = mf.Attention(1.0, heads(dim, 3.0 if dim == 2 else 2.0))
        rng = np.random.default_rng(7)
        smooth_layer = mf.FeedForward(
            rng.normal(size=(dim, 4)) / 3.0, rng.normal(size=(4, dim)), activation="tanh"
        )
        layers = mf.Layers([attention, smooth_layer, mf.SA(2.0), mf.USA(0.5)], step=0.125)
        # the layers hold these heads, too
        for dynamics in (layers,) if quick and dim == 3 else (attention, layers):
            start = mf.Density(space, law, tail_tol=1e-10)
            series = mf.evolve(start, dynamics, 0.5, 1, on_unresolved="stop").final
            moved = mf.evolve(mf.FlowMap(law, tol=tol), dynamics, 0.5, 1)
            points = mf.Uniform(dim).sample(50, np.random.default_rng(0))
            gaps = (
                series.mean() - moved.final.mean(),
                series.moment(points)[0] - moved.final.moment(points)[0],
            )
            off = max(float(np.abs(gap).max()) for gap in gaps)
            name = f"{space}, {dynamics.name}: flow map less density, mean and G at t = 0.5"
            why = "rtol = 1e-9 of the density" if dim == 2 else f"tol = {tol:g} of the flow map"
            limit = 1e-9 if dim == 2 else 3e-9
            found.append(Claim(name, "Φ_t # mu_0 = f_t σ", off, limit, why))
            off = float(np.abs(series.pdf(points) / moved.pdf(points, 0.5) - 1.0).max())
            name = f"{space}, {dynamics.name}: the same for f, relative"
            limit = 1e-7
            why = "tail_tol = 1e-10, over the least f"
            found.append(Claim(name, "f_t = f_0/det DΦ_t", off, limit, why))
    return found


def sums(quick: bool) -> list[Claim]:
    """Sums over tokens in O(n) against direct ones."""
    found = []
    cases = [(2, 3.0, 1e-13), (3, 30.0, 1e-9), (2, 90.0, 1e-12), (3, 3.0, 1e-12)]
    for dim, score, limit in cases[:2] if quick else cases:
        law, dynamics = mf.VonMisesFisher(PLACES[dim], 1.5), mf.Attention(1.0, heads(dim, score))
        clouds = [mf.Particles.quantise(law, 2000, sums=s) for s in ("transforms", "direct")]
        fast, slow = (OutputAtTokens(cloud, dynamics).output(cloud) for cloud in clouds)
        name = f"d = {dim}, |KᵀQ| = {score:g}: fast sums over 2000 tokens less direct ones"
        why = "rounding" if dim == 2 else "2e-13 of the largest G, over its share"
        found.append(Claim(name, "(2.3)", float(np.abs(fast - slow).max()), limit, why))
    return found


def check(quick: bool) -> list[Claim]:
    """All of the above; the quick form takes fewer dimensions, scores and tokens."""
    dims = (8,) if quick else (3, 4, 8)
    plain = [*identities(dims), *fields(quick), *heat(dims), *sums(quick)]
    return [*plain, *flow_maps(quick), *tokens(quick), *turned(0.1 if quick else 0.3)]


if __name__ == "__main__":
    main(check)
