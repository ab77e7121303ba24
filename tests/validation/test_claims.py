"""Every validation script in its quick form, with its figure."""

import importlib
import re

import pytest

from validation.__main__ import SCRIPTS
from validation.claims import Claim, table
from validation.mutations import ROOT


@pytest.mark.parametrize("name", SCRIPTS)
def test_claims_hold(name):
    module = importlib.import_module(f"validation.{name}")
    claims = module.check(True)
    assert claims
    assert [claim for claim in claims if not claim.holds] == []
    # a script keeps what it has run, and drawing that takes tenths of a second
    if hasattr(module, "figure"):
        assert all(ax.has_data() for ax in module.figure(True).axes if ax.axison)


def test_every_script_has_its_quick_form_among_the_quick_tests():
    (mark,) = test_claims_hold.pytestmark
    assert mark.args == ("name", SCRIPTS)
    assert "pytestmark" not in globals()
    table = (ROOT / "validation" / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)` \| [^|`]", table, re.MULTILINE)
    assert len(named) > 25
    assert set(named) <= set(SCRIPTS)


@pytest.mark.parametrize("measured", [2.0, float("nan"), float("inf")])
def test_a_false_claim_is_seen(measured):
    claim = Claim("two is less than one", "nowhere", measured, 1.0, "it is not")
    assert not claim.holds
    assert "**NO**" in table([claim])


@pytest.mark.parametrize(
    ("measured", "tolerance", "ratio"),
    [(1.0, 2.0, 0.5), (0.0, 0.0, 0.0), (1.0, 0.0, float("inf")), (float("nan"), 0.0, float("inf"))],
)
def test_ratio(measured, tolerance, ratio):
    assert Claim("", "", measured, tolerance, "").ratio == ratio


def test_a_bar_ends_no_cell():
    assert "\\|x\\|" in table([Claim("|x|", "", 0.0, 0.0, "")])
