"""One problem turned, and as tokens: the answers agree. See also test_differential.py."""

import numpy as np
import pytest

import meanfield as mf

TIGHT = {"rtol": 1e-12, "atol": 1e-14, "tail_tol": 1e-11, "on_unresolved": "stop"}


def rotation(dim, seed=3):
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))
    q *= np.sign(np.diag(r))
    if np.linalg.det(q) < 0:
        q[:, 0] *= -1
    return q


def bumps(turn):
    means = np.array([[0.0, 0.0, 1.0], [0.8, 0.0, -0.6], [0.0, -0.96, 0.28]]) @ turn.T
    laws = [mf.VonMisesFisher(m, k) for m, k in zip(means, [5.0, 3.0, 4.0], strict=True)]
    return mf.Mixture(laws, [0.5, 0.3, 0.2])


@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
def test_rotation_on_the_circle(kind):
    angle = 1.234
    c, s = np.cos(angle), np.sin(angle)
    laws = [
        mf.Mixture([mf.VonMisesFisher(m, 3.0), mf.VonMisesFisher(n, 5.0)], [0.5, 0.5])
        for m, n in [([1.0, 0.0], [0.6, 0.8]), ([c, s], [0.6 * c - 0.8 * s, 0.6 * s + 0.8 * c])]
    ]
    first, second = (
        mf.evolve(mf.Density(mf.Circle(128), law), kind(2.0), 0.3, 2, **TIGHT) for law in laws
    )
    assert np.allclose(first.dataset.energy, second.dataset.energy, rtol=0, atol=1e-12)
    points = mf.geometry.circle_points(np.linspace(0, 6, 60))
    turned = points @ np.array([[c, s], [-s, c]])
    assert np.max(np.abs(first.final.at(points) - second.final.at(turned))) < 1e-11


def test_rotation_on_the_sphere():
    turn = rotation(3)
    first, second = (
        mf.evolve(mf.Density(mf.Sphere(63), bumps(t)), mf.SA(4.0), 0.5, 2, **TIGHT)
        for t in (np.eye(3), turn)
    )
    assert np.allclose(first.dataset.energy, second.dataset.energy, rtol=0, atol=1e-11)
    points = np.random.default_rng(1).normal(size=(300, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    assert np.max(np.abs(first.final.at(points) - second.final.at(points @ turn.T))) < 1e-11


@pytest.mark.parametrize("kind", [mf.SA, mf.USA])
def test_velocity_of_quadrature_nodes(kind):
    """A density and the tokens at its quadrature nodes exert the same velocity."""
    mu = mf.Density(mf.Sphere(31), bumps(np.eye(3)))
    tokens = mf.Particles(mu.space.points, weights=mu.space.weights * mu.values)
    at = np.eye(3)
    dynamics = kind(4.0)
    gap = np.abs(dynamics.velocity(mu, at=at) - dynamics.velocity(tokens, at=at))
    assert gap.max() < 1e-12 * np.abs(dynamics.velocity(mu, at=at)).max()


@pytest.mark.parametrize(
    ("space", "law"),
    [
        (mf.Circle(128), mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])),
        (mf.Sphere(63), bumps(np.eye(3))),
    ],
    ids=["circle", "sphere"],
)
@pytest.mark.parametrize(("dynamics", "t_end"), [(mf.SA(4.0), 1.0), (mf.USA(4.0), 0.04)], ids=str)
def test_tokens_follow_the_density(space, law, dynamics, t_end):
    """2,000 tokens: mean and energy within 5 standard errors of the continuum, at every save.

    The standard errors are those of the tokens' spread at that time (delta method for the energy,
    whose diagonal adds (E(δ) - E)/n on average).
    """
    n, beta = 2000, dynamics.beta
    density = mf.evolve(mf.Density(space, law), dynamics, t_end, 4, on_unresolved="stop")
    tokens = mf.evolve(
        mf.Particles.sample(law, n, np.random.default_rng(7)), dynamics, t_end, 4, rtol=1e-7
    )
    assert density.status == tokens.status == "finished"
    for mu, cloud in zip(density.measures, tokens.measures, strict=True):
        spread = cloud.points.std(axis=0) / np.sqrt(n)
        assert np.all(np.abs(cloud.mean() - mu.mean()) < 5 * spread)
        log_g, _ = cloud.log_moment(beta * cloud.points)
        influence = np.exp(log_g) / beta
        bias = (np.exp(beta) / (2 * beta) - mf.energy(mu, beta)) / n
        error = mf.energy(cloud, beta) - mf.energy(mu, beta) - bias
        assert abs(error) < 5 * influence.std() / np.sqrt(n)
