"""An argument is taken as it is meant or refused with its name, its value and what is allowed."""

import re
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import meanfield as mf
from meanfield import _checks

EPS = np.finfo(float).eps
# squares of smaller entries underflow, and with them the norm
length = st.floats(1e-100, 10.0)
entry = st.one_of(st.just(0.0), length, length.map(lambda x: -x))


@pytest.mark.parametrize(
    "value",
    [
        *(4, 4.0, Fraction(8, 2), np.float32(4), np.int64(4), np.float64(4), np.longdouble(4)),
        *(
            np.array(4),
            np.array(4.0),
            np.ma.array(4.0),
            xr.DataArray(4.0),
            xr.DataArray(np.int8(4)),
        ),
    ],
    ids=repr,
)
def test_number_is_a_float(value):
    number = _checks.number("beta", value, low=0, high=4)
    assert number == 4.0
    assert type(number) is float


@pytest.mark.parametrize(
    "value", [3, np.int8(3), np.uint64(3), np.array(3), xr.DataArray(3)], ids=type
)
def test_integer_is_an_int(value):
    integer = _checks.integer("dim", value, low=3, high=3)
    assert integer == 3
    assert type(integer) is int


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint32])
def test_real_array_is_a_copy(dtype):
    given_array = np.array([1, 2, 3], dtype=dtype)
    array = _checks.real_array("values", given_array, 1)
    assert array.dtype == np.float64
    assert array.tolist() == [1.0, 2.0, 3.0]
    array[0] = 7.0
    assert given_array[0] == 1


def test_what_is_right_is_taken():
    rng = np.random.default_rng(0)
    assert _checks.number("t_end", 1e-300, above=0) == 1e-300
    assert _checks.rows("z", [[3, 4], [0, 0]]).tolist() == [[3.0, 4.0], [0.0, 0.0]]
    assert _checks.unit_vector("axis", [0.6, 0.8]).tolist() == pytest.approx([0.6, 0.8], rel=EPS)
    assert _checks.weights("weights", None, 4).tolist() == [0.25] * 4
    assert _checks.generator("rng", rng) is rng


class Elsewhere:
    """An array of another library that numpy can't have, as one on another device."""

    def __init__(self, *shape):
        self.shape, self.ndim = shape, len(shape)

    def __array__(self, *_, **__):
        raise RuntimeError("it is elsewhere")


number = partial(_checks.number, low=0, high=4)
integer = partial(_checks.integer, low=3, high=4)
vector = partial(_checks.real_array, ndim=1)
rows = partial(_checks.rows, dim=3)
weights = partial(_checks.weights, n=2)
NO_NUMBERS = [-np.inf, True, np.True_, "4", None, [4.0], 4j, np.array([4.0]), 10**400]
NO_NUMBERS += [np.array("4"), np.array(True), np.array(4j), np.array(Fraction(4)), np.ma.masked]
NO_NUMBERS += [np.timedelta64(4, "s"), np.datetime64("2024-01-01"), Elsewhere()]
NO_NUMBERS += [xr.DataArray(True), xr.DataArray(np.array("2024", dtype="M8[ns]"))]
NO_INTEGERS = [2, 5, -3, 3.0, np.float64(3), True, np.True_, "3", None, np.nan, [3]]
NO_INTEGERS += [np.array(3.0), np.ma.masked, np.timedelta64(3, "s")]
UNIT = "rows of norm 1 (within 1e-06), got"
# a check, what it is given, and what is told
REFUSED = [
    *(
        (number, value, f"a finite number >= 0 and <= 4, got {repr(value)[:30]}")
        for value in (-1.0, 5, np.nan, np.inf, *NO_NUMBERS)
    ),
    (partial(_checks.number, above=0), 0, "a finite number > 0, got 0"),
    # a bound is told with all its digits
    (partial(_checks.number, low=0.6000000000000001), 0.6, "a finite number >= 0.6000000000000001"),
    *((integer, value, f"an integer >= 3 and <= 4, got {value!r}") for value in NO_INTEGERS),
    (vector, [1.0, np.nan], "finite, got nan at index (1,)"),
    (vector, [np.inf, 1.0], "finite, got inf at index (0,)"),
    (vector, [], "a non-empty array with 1 axes, got shape (0,)"),
    (vector, 1.0, "a non-empty array with 1 axes, got shape ()"),
    (vector, [[1.0]], "a non-empty array with 1 axes, got shape (1, 1)"),
    (vector, [1j], "an array of real numbers, got dtype complex128"),
    (vector, [True], "an array of real numbers, got dtype bool"),
    (vector, ["1"], "an array of real numbers, got dtype <U1"),
    (vector, [None], "an array of real numbers, got dtype object, None at index (0,)"),
    (vector, np.ma.array([1, 2], mask=[0, 1]), "no masked values, got one at index (1,)"),
    (vector, np.ma.array(1.0, mask=True), "no masked values, got one"),
    (vector, [1.0, np.ma.masked], "no masked values, got one at index (1,)"),
    (rows, [[0.0, 0.0, np.ma.masked]], "no masked values, got one at index (0, 2)"),
    (
        rows,
        [np.ma.array([1, 2, 3], mask=[0, 1, 0])] * 2,
        "no masked values, got one at index (0, 1)",
    ),
    (vector, pd.Series([1, None], dtype="Int64"), "finite, got nan at index (1,)"),
    (vector, pd.array([1.0, None], dtype="Float64"), "finite, got nan at index (1,)"),
    (vector, pd.Series([True, False], dtype="boolean"), "an array of real numbers, got dtype bool"),
    (vector, Elsewhere(2), "an array of numbers, got it is elsewhere"),
    (vector, np.array(["2024"], dtype="M8[ns]"), "an array of real numbers, got dtype datetime64"),
    (vector, [np.timedelta64(3, "s")], "an array of real numbers, got dtype timedelta64"),
    (vector, np.ma.zeros(2, dtype=[("a", float)]), "an array of real numbers, got dtype [('a'"),
    (vector, np.longdouble("1e4000") * np.ones(2), "finite, got inf at index (0,)"),
    (vector, [10**30], "an array of real numbers, got dtype object"),
    (vector, {1.0: 2.0}, "an array of real numbers, got dtype object"),
    (rows, [[3, 4]], "rows of length = 3, got shape (1, 2)"),
    (rows, np.ones((3, 500)), "rows of length = 3, got shape (3, 500): take x.T"),
    (_checks.rows, [[3], [4]], "rows of length >= 2, got shape (2, 1)"),
    (_checks.unit_rows, [[1.0, 0.0], [0.0, 2.0]], f"{UNIT} norm 2 in row 1"),
    (_checks.unit_rows, [[1.0, 0.0], [0.0, 0.0]], f"{UNIT} norm 0 in row 1"),
    (_checks.unit_rows, [[1 + 2e-6, 0.0]], f"{UNIT} norm 1.000002 in row 0"),
    (_checks.unit_rows, [[1e200, 0.0]], f"{UNIT} norm inf in row 0"),
    (_checks.unit_vector, [[0.6, 0.8]], "a non-empty array with 1 axes, got shape (1, 2)"),
    (_checks.unit_vector, [0.6, 0.7], "norm 1 (within 1e-06), got norm 0.922"),
    (partial(_checks.unit_vector, dim=2), [1.0], "length = 2, got shape (1,)"),
    (partial(_checks.unit_vector, dim=2), [0.6, 0.8, 0.0], "length = 2, got shape (3,)"),
    (weights, [1.0], "length 2, got 1"),
    (weights, [1.0, -1e-9], ">= 0, got -1e-09 at index 1"),
    (weights, [0.0, 0.0], "a positive sum, got 0"),
    (weights, [np.nan, 1.0], "finite, got nan"),
    (weights, [[0.5, 0.5]], "a non-empty array with 1 axes"),
    *(
        (_checks.generator, value, "an integer >= 0 or a numpy.random.Generator, got ")
        for value in (-1, 0.0, True, None, np.random.RandomState(0), np.random)
    ),
]


@pytest.mark.parametrize(("check", "value", "told"), REFUSED)
def test_what_is_wrong_is_refused(check, value, told):
    with pytest.raises(ValueError, match=rf"^x must (be|have) {re.escape(told)}") as refused:
        check("x", value)
    assert len(str(refused.value)) < 150


def test_numbers_in_lists_are_not_looked_at_one_by_one(monkeypatch):
    counted, masked_at = [], _checks._masked_at
    monkeypatch.setattr(_checks, "_masked_at", lambda v: counted.append(v) or masked_at(v))
    vector("x", [1.0] * 1000)
    # the list, and the array that is made of it
    assert len(counted) == 2


@pytest.mark.slow
@given(hnp.arrays(float, st.tuples(st.integers(1, 5), st.integers(2, 6)), elements=entry))
def test_unit_rows_are_of_norm_one(vectors):
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    assume(norms.min() > 0)
    near = vectors / norms * (1 + 9e-7)
    before = near.copy()
    unit = _checks.unit_rows("points", near)
    assert np.array_equal(near, before)
    # a norm of d squares, a root and a division: half an eps each, d <= 6
    assert np.max(np.abs(np.linalg.norm(unit, axis=1) - 1)) < 4 * EPS
    assert np.max(np.abs(unit - vectors / norms)) < 4 * EPS


def test_arrays_are_shown_by_shape_and_type():
    for value, text in (
        (np.zeros((500, 3)), "an array of shape (500, 3) and dtype float64"),
        (np.full(9, np.inf), "an array of shape (9,) and dtype float64, inf at index (0,)"),
        (np.array([1.0, 2.0]), "array([1., 2.])"),
        (list(range(1000)), "[0, 1, 2, 3, 4, 5, 6, 7, ...]"),
        ("4", "'4'"),
    ):
        assert _checks.shown(value) == text
    assert len(_checks.shown({str(i): "word" * 100 for i in range(100)})) <= 80


@given(st.lists(st.floats(0.0, 1.7e308), min_size=1, max_size=20))
def test_weights_are_shares(values):
    assume(max(values) > 0)
    shares = _checks.weights("weights", values, len(values), unit_mass=True)
    # rounding of a sum of n numbers of mean size 1/n
    assert abs(shares.sum() - 1) < len(values) * EPS
    exact = [Fraction(value) / sum(map(Fraction, values)) for value in values]
    for share, wanted in zip(shares, exact, strict=True):
        # n roundings in the sum, two in quotients; a share below 1e-308 is subnormal
        tolerance = Fraction((len(values) + 2) * EPS) * wanted + Fraction(1e-323)
        assert abs(Fraction(share) - wanted) <= tolerance


@given(limit=st.floats(1e-12, 1e12), share=st.floats(-1e-3, 1e-3))
def test_numbers_that_are_compared_show_which_is_larger(limit, share):
    value = limit * (1.0 + share)
    one, other = _checks.tell_apart(value, limit)
    assert (float(one) > float(other)) == (value > limit)
    assert (float(one) < float(other)) == (value < limit)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: mf.VonMisesFisher(90.0, 2.0), "mean"),
        (lambda: mf.VonMisesFisher(-7.0, 2.0), "mean"),
        (lambda: mf.Particles.from_angles([0.0, 90.0, -180.0]), "angles"),
        (lambda: mf.Particles.from_angles(np.float32([271.3, 12.75, 0.1])), "angles"),
        (lambda: mf.Uniform(2).pdf(90.0), "points"),
    ],
)
def test_angles_beyond_a_turn_are_warned_of(make, name):
    with pytest.warns(UserWarning, match=rf"{name} holds .* radians.*np\.deg2rad") as warned:
        make()
    assert warned[0].filename == __file__


def test_angles_of_a_turn_are_taken_without_a_word():
    turns = np.float32([-2.0 * np.pi, 2.0 * np.pi])
    points = mf.Particles.from_angles(turns).points
    np.testing.assert_allclose(points, [[1.0, 0.0]] * 2, atol=1e-6)
    # phases wind: they are taken up to whole turns, and are no degrees
    phases = np.cumsum(np.random.default_rng(0).uniform(0.0, 1.0, 200))
    for wound in (phases, np.float32(phases), phases[-1:]):
        points = mf.Particles.from_angles(wound).points
        np.testing.assert_allclose(points[-1, 0], np.cos(np.float64(wound[-1])), atol=1e-15)
    assert mf.Oscillators([90.0], [1.0]).angles[0] == 90.0 % (2.0 * np.pi)


@pytest.mark.parametrize(("name", "meant"), [("Circl", "Circle"), ("energy_shar", "energy_share")])
def test_a_misspelt_name_is_told_what_is_meant(name, meant):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean {meant}[?]$"):
        getattr(mf, name)
    with pytest.raises(AttributeError, match=r"no attribute 'xqz'$"):
        _ = mf.xqz
