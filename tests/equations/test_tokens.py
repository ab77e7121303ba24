"""Tokens moved by points and through their Gram matrix, where their own terms outweigh all."""

import mpmath
import numpy as np
import pytest

import meanfield as mf
from tests.handmade import scaled_dissipation, slow

EPS = np.finfo(float).eps

# of a sum of few products, each rounded a few times
ROUNDING = 1e-13


def tokens(n, dim, weights=None, seed=0, sums="gram"):
    points = np.random.default_rng(seed).normal(size=(n, dim))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return mf.Particles(points, weights, sums=sums, unit_mass=True)


def exact_dissipation(particles, dynamics):
    """e^{-β} Σ w |X|² G (SA) or e^{-β} Σ w |X|² (USA), term by term with 400 digits."""
    with mpmath.workdps(400):
        points = [mpmath.matrix(row.tolist()) for row in particles.points]
        points = [x / mpmath.norm(x) for x in points]
        weights = [mpmath.mpf(w) for w in particles.weights.tolist()]
        total, beta = mpmath.mpf(0), mpmath.mpf(dynamics.beta)
        for x, weight in zip(points, weights, strict=True):
            cosines = [(x.T * y)[0] for y in points]
            masses = [w * mpmath.exp(beta * c) for w, c in zip(weights, cosines, strict=True)]
            terms = zip(masses, cosines, points, strict=True)
            pull = sum((m * (y - c * x) for m, c, y in terms), 0 * x)
            square = mpmath.norm(pull) ** 2
            total += weight * (square / mpmath.fsum(masses) if dynamics.normalised else square)
        return float(total * mpmath.exp(-beta))


def test_dissipation_of_four_tokens():
    rate = mf.dissipation(tokens(4, 16), mf.SA(30.0))
    assert rate == pytest.approx(2.40565997e-8, rel=1e-7, abs=0.0)
    assert rate == mf.dissipation(mf.Particles(tokens(4, 16).points), mf.SA(30.0))


@pytest.mark.parametrize("weights", [None, [1e-12, 1, 2, 1e-300, 0]], ids=["equal", "unequal"])
@pytest.mark.parametrize("dim", [3, slow(64)])
@pytest.mark.parametrize(
    "dynamics",
    [mf.SA(0.0), mf.SA(1.0), mf.SA(30.0), mf.SA(300.0), mf.USA(2.0), mf.USA(30.0), mf.USA(300.0)],
    ids=str,
)
def test_dissipation_keeps_its_digits(dynamics, dim, weights):
    """Also where e^β is 10^130 times what the other tokens pull with."""
    exact = exact_dissipation(tokens(5, dim, weights), dynamics)
    assert exact > 0.0
    # an exponent β<x,y> has an error of rounding times β, here in e^{2β<x,y>}
    bound = ROUNDING * max(1.0, dynamics.beta)
    for sums in "direct", "gram":
        rate = scaled_dissipation(tokens(5, dim, weights, sums=sums), dynamics)
        assert rate == pytest.approx(exact, rel=bound, abs=0.0)


def test_dissipation_late_in_a_run():
    """|X| falls like e^{-t}; errors of X, 1e-16, are squared, so it is seen down to 1e-26."""
    start = tokens(4, 16)
    run = mf.evolve(start, mf.SA(1.0), 24.0, [20.0, 22.0], rtol=1e-12, atol=1e-14)
    rates = run.dataset.dissipation.values
    for rate, measure in list(zip(rates, run.measures, strict=True))[1:]:
        gaps = measure.points - measure.mean()
        # near a cluster X = mean - x, and G = e^β
        limit = np.e * float(np.mean(np.sum(gaps**2, axis=1)))
        assert 1e-24 < limit < 1e-15
        assert rate == pytest.approx(limit, rel=1e-3, abs=0.0)
    # e^{-2t}, and errors of 1e-26 of the last rate
    assert np.log(rates[1] / rates[2]) == pytest.approx(4.0, rel=0.02)


def test_dissipation_of_a_tight_cluster():
    """Spread over 1e-9: half of the digits of X are left, and none of a difference of squares."""
    rng = np.random.default_rng(1)
    centre = rng.normal(size=50)
    points = centre / np.linalg.norm(centre) + 1e-9 * rng.normal(size=(5, 50))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    rate = mf.dissipation(mf.Particles(points, sums="gram"), mf.SA(1.0))
    exact = np.e * exact_dissipation(mf.Particles(points), mf.SA(1.0))
    assert rate == pytest.approx(exact, rel=1e-6, abs=0.0)


@pytest.mark.parametrize("beta", [3.0, 371.0, 400.0, 2000.0])
def test_tokens_without_mass_are_carried(beta):
    """A token of weight 0 is pulled by others alone, e^{β(<x,y> - 1)} as small as it may be."""
    points = np.zeros((3, 16))
    angles = np.array([0.0, 1e-3, 3.0])
    points[:, 0], points[:, 1] = np.cos(angles), np.sin(angles)
    runs = [
        mf.evolve(
            mf.Particles(points, [1.0, 1.0, 0.0], sums=sums, unit_mass=True), mf.SA(beta), 0.5, 1
        )
        for sums in ("direct", "gram")
    ]
    assert [run.status for run in runs] == ["finished", "finished"]
    direct, gram = (run.final.points for run in runs)
    # the default tolerance of two different states, which adds up over the run
    assert np.abs(direct - gram).max() < 1e-7
    assert np.abs(direct[2] - points[2]).max() > 0.01


@pytest.mark.parametrize("dynamics", [mf.SA(2.0), mf.USA(2.0)], ids=str)
def test_a_token_alone_rests(dynamics):
    for weights in [1.0], [1.0, 0.0]:
        particles = tokens(len(weights), 8, weights)
        assert mf.dissipation(particles, dynamics) == 0.0
        run = mf.evolve(particles, dynamics, 1.0, 1)
        assert np.abs(run.final.points[0] - particles.points[0]).max() < 1e-14


@pytest.mark.parametrize("sums", ["direct", "gram"])
@pytest.mark.parametrize("beta", [slow(150.0), 345.0, 355.0, slow(700.0)])
def test_two_tokens_under_usa_at_large_beta(beta, sums):
    """γ = <x_1, x_2> rises by γ' = (1 - γ²) e^{βγ}, in time e^{-βγ}/β: 40 orders of e^β apart."""
    start = 0.5
    points = np.zeros((2, 8))
    points[0, 0], points[1, :2] = 1.0, [start, np.sqrt(1.0 - start**2)]
    # γ' changes by β γ' dt: up to γ + h, e^{-βγ} = e^{-βγ_0} - β (1 - γ²) t but for 1 + O(h)
    t_end = 0.5 * np.exp(-beta * start) / beta
    run = mf.evolve(mf.Particles(points, sums=sums), mf.USA(beta), t_end, 2, rtol=1e-11)
    assert run.status == "finished"
    assert run.t[-1] == t_end
    gamma = run.final.points[0] @ run.final.points[1]
    grown = beta * (gamma - start)

    def passed(rise):
        with mpmath.workdps(30):
            end = mpmath.mpf(start) + mpmath.mpf(rise) / beta
            slowness = mpmath.quad(lambda g: mpmath.exp(-beta * g) / (1 - g * g), [start, end])
            return float(slowness / t_end)

    assert grown > 0.3
    # rounding of γ is that of β γ in the exponent
    assert passed(grown) == pytest.approx(1.0, rel=1e-8)
    gained = np.diff(run.dataset.energy.values).sum()
    # the energy of the tokens themselves, e^{β|x|²} against e^{β/2}, hides all that is gained: |x|²
    # is 1 but for 2 ε, at the start and at the end
    assert abs(gained) <= 4.0 * beta * EPS * run.dataset.energy.values[0]
    assert run.dataset.work.values[-1] > 0.0


def test_speed_of_usa_with_noise_squares_no_large_velocity():
    points = np.array([[1.0, 0.0], [np.cos(0.01), np.sin(0.01)]])
    rng = np.random.default_rng(0)
    noisy = mf.USA(700.0, noise=1e-9)
    run = mf.evolve(mf.Particles(points), noisy, 1e-310, 1, max_step=1e-310, rng=rng)
    fast = 0.5 * np.sin(0.01) * np.exp(700.0 * np.cos(0.01))
    assert run.dataset.metric_speed.values[0] == pytest.approx(fast, rel=1e-11)
