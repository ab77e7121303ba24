"""What `evolve` must be given: a start, and options that fit the measure and the dynamics."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.evolution import solve
from tests.handmade import tokens

TOKENS, DENSITY = tokens(3, 4), mf.Density(mf.Sphere(7), mf.Uniform(3))
FLOW = mf.FlowMap(mf.Uniform(2))
FIELD = mf.Attention(1.0, [mf.Head(np.eye(3))])
NOISY, RNG = mf.SA(1.0, noise=0.1), np.random.default_rng(0)
STEPS = mf.LayerMap(FIELD, step=0.1)
BAD = [
    (FLOW, mf.Layers([mf.DoublyStochastic(1.0)]), {}, "layers must be no DoublyStochastic for a f"),
    (FLOW, NOISY, {}, "noise must be 0 to evolve"),
    (DENSITY, mf.LayerMap(mf.SA(1.0), step=0.1), {}, "measure must be Particles under LayerMap"),
    (TOKENS, mf.SA(1.0), {"max_step": -1.0}, "max_step must be a finite number > 0"),
    (DENSITY, mf.SA(1.0), {"rng": -1}, "rng must be an integer >= 0 or a numpy.random.Generator"),
    (DENSITY, mf.SA(1.0), {"max_step": 0.0}, "max_step must be a finite number > 0"),
    (TOKENS, NOISY, {}, "rng, which noise needs, must be"),
    (TOKENS, NOISY, {"rng": "3"}, "rng must be an integer >= 0"),
    (
        *(TOKENS, mf.Attention(1.0, [mf.Head(np.eye(3))], noise=0.1)),
        *({"rng": RNG}, "max_step must be given for Attention"),
    ),
    (
        *(TOKENS, mf.LayerMap(FIELD, step=0.3)),
        *({}, "t_end must be a whole number of steps of 0.3, got 1"),
    ),
    (
        *(TOKENS, mf.LayerMap(mf.Layers([FIELD, FIELD], step=0.5), step=0.2)),
        *({}, "t_end must be <= 0.4, the depth of Layers"),
    ),
    (TOKENS, mf.Layers([FIELD], step=0.5), {}, "t_end must be <= 0.5, the depth of"),
    (tokens(5, 4), FIELD, {}, "measure must have dim = .*, that of .*, got one of dim 5"),
    (TOKENS, mf.SA(1.0), {"t_start": -0.5}, "t_start must be a finite number >= 0, got -0.5"),
    (TOKENS, mf.SA(1.0), {"t_start": 1.0}, "t_end must be a finite number > 1, got 1"),
    (
        *(TOKENS, mf.SA(1.0), {"t_start": 0.5, "save_at": [0.2]}),
        r"ascending times in \[0.5, t_end = 1\], got 0.2",
    ),
    (TOKENS, mf.LayerMap(mf.SA(1.0), step=0.2), {"t_start": 0.3}, "t_start must be a whole"),
]


@pytest.mark.parametrize(("measure", "dynamics", "options", "message"), BAD)
def test_what_does_not_fit_is_refused(measure, dynamics, options, message):
    with pytest.raises(ValueError, match=message):
        mf.evolve(measure, dynamics, 1.0, **options)


@pytest.mark.parametrize(
    ("measure", "dynamics"),
    [*((one, mf.SA(1.0)) for one in (DENSITY, FLOW, TOKENS)), (TOKENS, STEPS)],
)
def test_what_needs_neither_leaves_rng_and_max_step_aside(measure, dynamics):
    """So a loop over noise may begin at 0: the run is the same, and nothing is drawn."""
    rng = np.random.default_rng(5)
    given = mf.evolve(measure, dynamics, 0.2, 1, max_step=0.05, rng=rng)
    plain = mf.evolve(measure, dynamics, 0.2, 1)
    assert np.array_equal(given.final.points, plain.final.points)
    assert np.array_equal(given.final.weights, plain.final.weights)
    assert "max_step" not in given.dataset.attrs
    assert rng.random() == np.random.default_rng(5).random()


def test_a_keyword_that_evolve_lacks_is_refused_by_runs_that_warn_of_nothing():
    with pytest.raises(TypeError, match=r"keywords must be those .*, got max_steps, rtoll"):
        solve(TOKENS, mf.SA(1.0), 1.0, rtoll=1e-3, max_steps=5)
