"""An argument is taken as it is meant or refused with its name, its value and what is allowed."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from meanfield import _checks

EPS = np.finfo(float).eps
# squares of smaller entries underflow, and with them the norm
length = st.floats(1e-100, 10.0)
entry = st.one_of(st.just(0.0), length, length.map(lambda x: -x))


@pytest.mark.parametrize(
    "value", [4, 4.0, np.float32(4), np.int64(4), np.float64(4), Fraction(8, 2)], ids=repr
)
def test_number_is_a_float(value):
    number = _checks.number("beta", value, low=0, high=4)
    assert number == 4.0
    assert type(number) is float


@pytest.mark.parametrize(
    "value",
    [
        -1.0,
        5,
        np.nan,
        np.inf,
        -np.inf,
        True,
        np.True_,
        "4",
        None,
        [4.0],
        4j,
        np.array(4.0),
        10**400,
    ],
    ids=lambda value: repr(value)[:20],
)
def test_number_is_refused(value):
    with pytest.raises(
        ValueError, match=r"^beta must be a finite number >= 0 and <= 4, got "
    ) as caught:
        _checks.number("beta", value, low=0, high=4)
    assert repr(value)[:30] in str(caught.value)
    assert len(str(caught.value)) < 150


def test_number_above_is_strict():
    assert _checks.number("t_end", 1e-300, above=0) == 1e-300
    with pytest.raises(ValueError, match=r"^t_end must be a finite number > 0, got 0$"):
        _checks.number("t_end", 0, above=0)


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)], ids=repr)
def test_integer_is_an_int(value):
    integer = _checks.integer("dim", value, low=3, high=3)
    assert integer == 3
    assert type(integer) is int


@pytest.mark.parametrize(
    "value", [2, 5, -3, 3.0, np.float64(3), True, np.True_, "3", None, np.nan, [3]], ids=repr
)
def test_integer_is_refused(value):
    with pytest.raises(ValueError, match=r"^dim must be an integer >= 3 and <= 4, got ") as caught:
        _checks.integer("dim", value, low=3, high=4)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint32])
def test_real_array_is_a_copy(dtype):
    given_array = np.array([1, 2, 3], dtype=dtype)
    array = _checks.real_array("values", given_array, 1)
    assert array.dtype == np.float64
    assert array.tolist() == [1.0, 2.0, 3.0]
    array[0] = 7.0
    assert given_array[0] == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, np.nan], "must be finite, got nan at index (1,)"),
        ([np.inf, 1.0], "must be finite, got inf at index (0,)"),
        ([], "must be a non-empty array with 1 axes, got shape (0,)"),
        (1.0, "must be a non-empty array with 1 axes, got shape ()"),
        ([[1.0]], "must be a non-empty array with 1 axes, got shape (1, 1)"),
        ([1j], "must be an array of real numbers, got dtype complex128"),
        ([True], "must be an array of real numbers, got dtype bool"),
        (["1"], "must be an array of real numbers, got dtype <U1"),
        ([None], "must be an array of real numbers, got dtype object"),
        ([10**30], "must be an array of real numbers, got dtype object"),
        ([[1.0], [1.0, 2.0]], "must be an array of real numbers, got "),
        ({1.0: 2.0}, "must be an array of real numbers, got dtype object"),
    ],
    ids=str,
)
def test_real_array_is_refused(values, message):
    with pytest.raises(ValueError, match=r"^values ") as caught:
        _checks.real_array("values", values, 1)
    assert message in str(caught.value)


def test_rows_of_any_length():
    assert _checks.rows("z", [[3, 4], [0, 0]]).tolist() == [[3.0, 4.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match=r"^z must have rows of length = 3, got shape \(1, 2\)$"):
        _checks.rows("z", [[3, 4]], 3)
    with pytest.raises(ValueError, match=r"^z must have rows of length >= 2, got shape \(2, 1\)$"):
        _checks.rows("z", [[3], [4]])


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


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1.0, 0.0], [0.0, 2.0]], "norm 2 in row 1"),
        ([[1.0, 0.0], [0.0, 0.0]], "norm 0 in row 1"),
        ([[1 + 2e-6, 0.0]], "norm 1.000002 in row 0"),
        (np.eye(3)[:, :2], "norm 0 in row 2: columns of shape (3, 2) have it, take points.T"),
        ([[1e200, 0.0]], "norm inf in row 0"),
    ],
    ids=str,
)
def test_unit_rows_are_refused(points, message):
    allowed = r"^points must have rows of norm 1 \(within 1e-06\), got "
    with pytest.raises(ValueError, match=allowed) as caught:
        _checks.unit_rows("points", points)
    assert message in str(caught.value)


def test_columns_for_rows():
    told = r"^z must have rows of length = 3, got shape \(3, 500\): take z.T$"
    with pytest.raises(ValueError, match=told):
        _checks.rows("z", np.ones((3, 500)), 3)


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


def test_unit_vector():
    assert _checks.unit_vector("axis", [0.6, 0.8]).tolist() == pytest.approx([0.6, 0.8], rel=EPS)
    for bad in ([[0.6, 0.8]], [0.6, 0.7], [1.0], [0.6, 0.8, 0.0]):
        with pytest.raises(ValueError, match=r"^axis must "):
            _checks.unit_vector("axis", bad, 2)


@given(st.lists(st.floats(0.0, 1.7e308), min_size=1, max_size=20))
def test_weights_are_shares(values):
    assume(max(values) > 0)
    shares = _checks.weights("weights", values, len(values))
    # rounding of a sum of n numbers of mean size 1/n
    assert abs(shares.sum() - 1) < len(values) * EPS
    exact = [Fraction(value) / sum(map(Fraction, values)) for value in values]
    for share, wanted in zip(shares, exact, strict=True):
        # n roundings in the sum, two in quotients; a share below 1e-308 is subnormal
        tolerance = Fraction((len(values) + 2) * EPS) * wanted + Fraction(1e-323)
        assert abs(Fraction(share) - wanted) <= tolerance


def test_equal_weights():
    assert _checks.weights("weights", None, 4).tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0], "must have length 2, got 1"),
        ([1.0, -1e-9], "must be >= 0, got -1e-09 at index 1"),
        ([0.0, 0.0], "must have a positive sum, got 0"),
        ([np.nan, 1.0], "must be finite, got nan"),
        ([[0.5, 0.5]], "must be a non-empty array with 1 axes"),
    ],
    ids=str,
)
def test_weights_are_refused(values, message):
    with pytest.raises(ValueError, match=r"^weights ") as caught:
        _checks.weights("weights", values, 2)
    assert message in str(caught.value)


def test_generator_is_numpys_own():
    rng = np.random.default_rng(0)
    assert _checks.generator("rng", rng) is rng
    for bad in (0, None, np.random.RandomState(0), np.random):
        with pytest.raises(ValueError, match=r"^rng must be a numpy.random.Generator, got "):
            _checks.generator("rng", bad)


@given(limit=st.floats(1e-12, 1e12), share=st.floats(-1e-3, 1e-3))
def test_numbers_that_are_compared_show_which_is_larger(limit, share):
    value = limit * (1.0 + share)
    one, other = _checks.tell_apart(value, limit)
    assert (float(one) > float(other)) == (value > limit)
    assert (float(one) < float(other)) == (value < limit)


@pytest.mark.parametrize(
    ("low", "value", "told"),
    [
        (0.6000000000000001, 0.6, "must be a finite number >= 0.6000000000000001, got 0.6"),
        (0.5, 0.25, "must be a finite number >= 0.5, got 0.25"),
    ],
)
def test_a_bound_is_told_with_all_its_digits(low, value, told):
    with pytest.raises(ValueError, match=f"t {told}$"):
        _checks.number("t", value, low=low)
