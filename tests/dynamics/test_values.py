"""Dynamics and laws are values: equal, copied and recorded by what they are made of."""

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest

import meanfield as mf
from meanfield._records import from_record, to_record
from meanfield.dynamics import KNOWN
from meanfield.laws import LAWS
from tests.dynamics.weighted import heads

KINDS = (*KNOWN, mf.Head)
ALL = (*KINDS, *LAWS)


THINGS = [
    (mf.SA(2.0, sign=-1, noise=0.1), {"noise": 0.2}),
    (mf.Head(V=np.eye(3)), {"V": 2.0 * np.eye(3)}),
    (mf.Attention(1.0, heads(3, 2, 2), noise=0.2), {"heads": heads(3, 2, 2, seed=2)}),
    (mf.Attention(0.3, [mf.Head(V=-1.0)], normalised=False), {"normalised": True}),
    (mf.FeedForward(np.ones((3, 2)), np.eye(2, 3)), {"b": [0.0, 1.0]}),
    (mf.Layers([mf.Attention(1.0, heads(3, 2, 2))]), {"step": 2.0}),
    (mf.Uniform(3), {"dim": 2}),
    (mf.VonMisesFisher([0.0, 1.0], 2.0), {"kappa": 3.0}),
    (mf.FourierSeries([0.5]), {"sin": [0.3]}),
    (mf.ZonalSeries(3, [0.5]), {"axis": [1.0, 0.0, 0.0]}),
    (mf.PointCloud([[0.0, 1.0], [1.0, 0.0]], bandwidth=0.3), {"weights": [0.1, 0.9]}),
    (
        mf.Mixture([mf.Uniform(2), mf.FourierSeries([0.5])]),
        {"laws": [mf.Uniform(2), mf.FourierSeries([0.4])]},
    ),
]


@pytest.mark.parametrize(("thing", "change"), THINGS)
def test_equal_is_what_was_made_of_the_same(thing, change):
    record = json.loads(json.dumps(to_record(thing, ALL), default=np.ndarray.tolist))
    for again in (
        *(copy.copy(thing), copy.deepcopy(thing), dataclasses.replace(thing)),
        *(pickle.loads(pickle.dumps(thing)), from_record(to_record(thing, ALL), ALL)),
        from_record(record, ALL),
    ):
        assert again == thing
        assert hash(again) == hash(thing)
        assert repr(again) == repr(thing)
    other = dataclasses.replace(thing, **change)
    assert other != thing
    assert dataclasses.replace(other, **{name: getattr(thing, name) for name in change}) == thing
    assert thing != 1


NO_RECORDS = [
    (lambda: from_record({"type": "GPT"}, KINDS), r"record must be of SA, USA, .*, Head"),
    (
        lambda: from_record({"type": "FeedForward", "W": {"matrix": 7}}, KINDS),
        r"record must be of SA, .* and its arguments, got",
    ),
    (
        lambda: from_record({"type": "Head", "V": 2.0}, KNOWN, parts=[mf.Head]),
        r"record must be of SA, .*LayerMap and its arguments, got .*'Head'",
    ),
    (lambda: from_record("SA", KINDS), r"record must be of SA, .* got 'SA'"),
    (lambda: to_record(mf.Uniform(2), KINDS), r"a file keeps must be of SA, "),
]


@pytest.mark.parametrize(("call", "message"), NO_RECORDS)
def test_what_is_no_record_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
