"""Every validation script in its quick form, with its figure."""

import importlib

import pytest

from validation.__main__ import SCRIPTS
from validation.claims import Claim, table


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_claims_hold(name):
    module = importlib.import_module(f"validation.{name}")
    claims = module.check(True)
    assert claims
    assert [claim for claim in claims if not claim.holds] == []
    # of what has been run, which is kept: drawing it takes tenths of a second
    if hasattr(module, "figure"):
        assert all(ax.has_data() for ax in module.figure(True).axes if ax.axison)


@pytest.mark.parametrize("measured", [2.0, float("nan"), float("inf")])
def test_a_false_claim_is_seen(measured):
    claim = Claim("two is less than one", "nowhere", measured, 1.0, "it is not")
    assert not claim.holds
    assert "**NO**" in table([claim])


def test_the_benchmark_takes_no_arrays():
    """A right-hand side allocates less than one array over its grid, on every space."""
    import numpy as np

    import meanfield as mf
    from meanfield.equations.tendency import tendency
    from validation.benchmarks.right_hand_side import allocated

    for space in (mf.Circle(1024), mf.Sphere(63), mf.Zonal(10, 255)):
        law = mf.VonMisesFisher(np.eye(space.dim)[-1], 3.0)
        for dynamics in (mf.SA(4.0), mf.USA(4.0)):
            rate = tendency(mf.Density(space, law), dynamics)
            out = np.empty_like(rate.initial_state)
            peak = allocated(lambda r=rate, o=out: r(r.initial_state, o))
            assert peak < 8 * len(space.weights), (space, dynamics, peak)
