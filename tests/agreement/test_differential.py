"""300 random cases: every pair of representations agrees to the errors that both may have."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import meanfield as mf
from tests.agreement import answers
from tests.agreement.answers import disagreements, noticed
from tests.agreement.differential import (
    DIMS,
    FORMS,
    KINDS,
    LAWS,
    SUMS,
    TOKENS,
    Case,
    for_each,
    representations,
)

# the first case of each kind is the quick form
CASES, FIRST, OTHERS = range(25), range(1), range(1, 25)
# relative, in G(βx)
PLANTED = 1e-6
DENSITIES = {"circle", "sphere", "zonal"}
FLOWS = {"flow", "mesh", "nodes"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("numbers", [FIRST, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=len)
def test_representations_agree(numbers, kind):
    seen = []

    def check(case):
        given = answers.answers(case)
        found = disagreements(given)
        assert not found, "\n".join(found)
        seen.append(noticed(given, "potential", PLANTED))

    for_each(kind, check, numbers)
    # bounds that anything would meet show nothing
    assert np.mean(seen) > 0.5


def test_cases_cover_everything():
    """Each law, dynamics and dimension, and every pair of representations that a case can have."""
    drawn = []
    for kind in KINDS:
        for_each(kind, drawn.append, CASES)
    assert len(drawn) == len(KINDS) * len(CASES) == 300
    assert {case.kind for case in drawn} == set(KINDS)
    assert {case.law_kind for case in drawn} == {*LAWS, TOKENS}
    assert {case.dim for case in drawn} == set(DIMS)
    ways = [representations(case) for case in drawn]
    assert min(map(len, ways)) >= 2
    pairs = {frozenset((a.name, b.name)) for w in ways for a, b in itertools.combinations(w, 2)}
    together = [DENSITIES | FLOWS, SUMS | {"flow"}]
    # of one dimension there is no other: a circle is no sphere, and atoms on S² have no flow map
    never = {frozenset(("circle", "sphere")), frozenset(("circle", "mesh"))}
    wanted = {frozenset(p) for t in together for p in itertools.combinations(sorted(t), 2)}
    assert wanted - never <= pairs
    formed = {(way.name, way.form) for w in ways for way in w if way.form}
    assert {form for _, form in formed} == set(FORMS)
    for form, names in ("heads", DENSITIES | FLOWS | SUMS - {"gram"}), ("tiny noise", DENSITIES):
        assert {name for name, which in formed if which == form} == names


CASE = Case(
    "SA",
    "VonMisesFisher",
    mf.VonMisesFisher([0.48, 0.6, 0.64], 2.0),
    np.array([0.48, 0.6, 0.64]),
    (mf.SA(3.0),),
    0.8,
    0,
)


def test_each_number_can_disagree():
    given = answers.answers(CASE)
    assert disagreements(given) == []
    assert {"density", "energy", "mass", "mean", "potential"} == set(given[0].numbers)
    for name, errors in given[0].errors.items():
        wrong = given[0].numbers | {name: given[1].numbers[name] + 3.0 * errors}
        wrong[name] = wrong[name] + 3.0 * given[1].errors[name]
        found = disagreements([replace(given[0], numbers=wrong), given[1]])
        assert [name in line for line in found] == [True]
        wrong[name] = np.nan * wrong[name]
        assert disagreements([replace(given[0], numbers=wrong), given[1]])


@pytest.mark.parametrize(
    ("choice", "form", "field"),
    [
        (0, "heads", mf.Attention(3.0 * (1.0 + 1e-7), [mf.Head()])),
        (0, "heads", mf.Attention(3.0, [mf.Head(V=1.0 - 1e-7)])),
        (2, "tiny noise", mf.SA(3.0, noise=1e-6)),
    ],
)
def test_a_form_that_is_slightly_wrong_disagrees(monkeypatch, choice, form, field):
    """β or V off by 1e-7, or a noise that is felt."""
    right = answers.same_field

    def wrong(which, case, name):
        return field if which == form else right(which, case, name)

    monkeypatch.setattr(answers, "same_field", wrong)
    lines = disagreements(answers.answers(replace(CASE, choice=choice)))
    assert lines
    assert all(form in line for line in lines)
