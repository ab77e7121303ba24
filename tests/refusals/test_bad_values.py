"""Bad values given to the Python names: a ValueError that says which, in one line.

This folder says what is refused, and with which message:

* bad_values.py: a table by public name; test_bad_values.py calls each row.
* bad_calls.py: good arguments of every public name, and values of wrong kinds; test_bad_values.py
  gives each argument of each name all kinds but those that are right for it.
* bad_cases.py: a table of wrong case files by section, and of files of points; test_bad_input.py
  gives them to the command line, and has the table of wrong command lines.
* test_arguments.py: the checks that all of these share, and what they take.
* test_solution_damaged.py, test_hostile_files.py: results and points that were damaged, or made by
  somebody else.
* test_subclasses.py: classes that are made from those of the package.
* test_errors.py: what no error in the source may lack.

A rule of one room, as where a series has no digits left, is tested in that room.
"""

import contextlib
import inspect
import re
import warnings
from operator import attrgetter

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.exceptions import UnfinishedWarning
from meanfield.typing import names_for_rooms
from tests.refusals.bad_calls import (
    INNER,
    NAMES,
    OTHER_NAMES,
    WRONG,
    accepted,
    arguments_of,
    call,
    good_arguments,
    good_value,
    is_number,
    is_numbers,
)
from tests.refusals.bad_values import REFUSED

CIRCLE = mf.Circle(16)
UNIFORM = mf.Density(CIRCLE, np.ones(24))

ROWS = [(name, changes, message) for name, rows in REFUSED.items() for changes, message in rows]


@pytest.mark.parametrize(
    ("name", "changes", "message"), ROWS, ids=[f"{row[0]}: {row[2]}"[:80] for row in ROWS]
)
def test_name_refuses(name, changes, message):
    arguments = good_arguments(name) | changes
    method = getattr(arguments.pop("self", None), name.rpartition(".")[2], None)
    with pytest.raises(ValueError, match=message) as refused, np.errstate(all="ignore"):
        method(**arguments) if method else call(name, arguments)
    assert len(str(refused.value).splitlines()) == 1


def public_names():
    """All that a user may call, but for the inner methods."""
    for name in mf.__all__:
        thing = getattr(mf, name)
        if thing is mf.typing:
            continue
        if inspect.ismodule(thing):
            yield from (f"{name}.{each}" for each in thing.__all__ if callable_here(thing, each))
        elif callable(thing):
            yield name
            members = {*dir(thing)} - names_for_rooms(thing) if inspect.isclass(thing) else ()
            for each in sorted(members):
                own = inspect.getattr_static(thing, each)
                own = own.__func__ if isinstance(own, (classmethod, staticmethod)) else own
                if not each.startswith("_") and inspect.isfunction(own) and each not in INNER:
                    yield f"{name}.{each}"


def callable_here(module, name):
    return callable(getattr(module, name)) and not inspect.isclass(getattr(module, name))


def test_every_public_name_is_called():
    seen = {name.rpartition(".")[2] for name in NAMES}
    takes = {
        name
        for name in public_names()
        if name not in INNER and set(inspect.signature(attrgetter(name)(mf)).parameters) - {"self"}
    }
    # a method that several classes share is called of one
    assert {name for name in takes if name.rpartition(".")[2] not in seen} == set()


@pytest.fixture(scope="module")
def empty_folder(tmp_path_factory):
    """The present folder has no files but those that calls here make."""
    with contextlib.chdir(tmp_path_factory.mktemp("empty")):
        yield


# the quick form of all kinds
FEW = {"nothing", "a word", "nan", "an array of nan", "an object", "a masked number"}


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(FEW, id="few"),
        pytest.param(WRONG.keys() - FEW, id="others", marks=pytest.mark.slow),
    ],
)
def test_wrong_kinds_are_refused(name, kinds):
    good = good_arguments(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*radians, more than a turn")
        for argument in arguments_of(name):
            names = "|".join((argument, *OTHER_NAMES.get(argument, ())))
            for kind in kinds.difference(accepted(name, argument)):
                with pytest.raises(ValueError, match=rf"\b({names})\b") as refused:
                    pytest.fail(f"{argument}, {kind}: {call(name, good | {argument: WRONG[kind]})}")
                message = str(refused.value)
                assert len(message) <= 300, (argument, kind, message)
                assert len(message.splitlines()) == 1, (argument, kind, message)


def good_values(name, is_kind):
    """The arguments of a call whose good values are of a kind, and these."""
    good = {argument: good_value(name, argument) for argument in arguments_of(name)}
    return {argument: value for argument, value in good.items() if is_kind(value)}


def outcome(name, arguments):
    """The result of a call, or its refusal for the sake of other arguments, as a text."""
    try:
        result = call(name, arguments)
    except ValueError as error:
        result = error
    except OSError as error:
        # nothing can be written there; names of files beside are random
        result = type(error)
    if name in ("Solution.animate", "plot.animation"):
        # else it warns that it was never drawn
        result._draw_was_started = True
    return re.sub(" at 0x[0-9a-f]+", "", repr(result))


def quick_arguments(name):
    # a run that is to end, and draws that are the same in each call
    ends = {"t_end": 0.1} if name == "studies.metastability" else {}
    good = good_arguments(name) | ends
    return good | {key: 5 for key in good if key == "rng"}


@pytest.mark.slow
@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("name", [name for name in NAMES if good_values(name, is_number)])
def test_a_number_in_an_array_is_that_number(name):
    """All numbers of a call at once; each alone if the call refuses them together."""
    good = quick_arguments(name)
    numbers = good_values(name, is_number)
    numbers |= {argument: good[argument] for argument in numbers.keys() & good.keys()}
    expected = outcome(name, good | numbers)
    together = [numbers]
    if expected.startswith("ValueError"):
        together = [{argument: value} for argument, value in numbers.items()]
    for some in together:
        expected = outcome(name, good | some) if len(together) > 1 else expected
        # an array without masked numbers, and a variable of a dataset
        for wrap in np.ma.array, xr.DataArray:
            wrapped = {argument: wrap(value) for argument, value in some.items()}
            assert outcome(name, good | wrapped) == expected, wrapped


@pytest.mark.slow
@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("name", [name for name in NAMES if good_values(name, is_numbers)])
def test_what_is_masked_is_refused(name):
    """Any value of a good array may be masked; where nothing is masked the array is taken."""
    good = quick_arguments(name)
    for argument, value in good_values(name, is_numbers).items():
        array = np.ma.array(np.asarray(value))
        expected = outcome(name, good | {argument: np.asarray(value)})
        assert outcome(name, good | {argument: array}) == expected
        names = "|".join((argument, *OTHER_NAMES.get(argument, ())))
        for index in np.ndindex(array.shape):
            masked = np.ma.array(array, mask=False)
            masked[index] = np.ma.masked
            rows = [list(masked)] if masked.ndim > 1 else []
            for wrong in (masked, *rows):
                pattern = rf"\b({names})\b.* (no masked values|got masked)"
                with pytest.raises(ValueError, match=pattern):
                    call(name, good | {argument: wrong})


POINTS = mf.Particles(np.eye(2))


class Law:
    """A law whose pdf gives what it is made with."""

    dim = 2

    def __init__(self, one_of_each):
        self.one_of_each = one_of_each

    def pdf(self, points):
        return self.one_of_each(points[:, 0])

    def sample(self, n, rng):
        return self.one_of_each(mf.Uniform(2).sample(n, rng))


class Output:
    name, noise = "own", 0.0

    def __init__(self, one_of_each):
        self.one_of_each = one_of_each

    def output(self, measure, points):
        return self.one_of_each(points)


def monitored(value):
    return mf.evolve(POINTS, mf.SA(1.0), 0.1, 1, monitors={"own": lambda _: value})


def masked(x):
    return np.ma.array(np.ones(x.shape), mask=np.arange(x.size).reshape(x.shape) == 1)


def complex_ones(x):
    return np.ones(x.shape, dtype=complex)


# results of functions and objects of a user's own, and how they are refused
RETURNED = {
    "a masked pdf": (lambda: mf.Density(CIRCLE, Law(masked)), "the pdf of law must have no masked"),
    "a complex pdf": (lambda: mf.Density(CIRCLE, Law(complex_ones)), "law must have a pdf of sha"),
    "a masked pdf of a flow map": (
        lambda: mf.FlowMap(Law(masked)),
        "the pdf of law must",
    ),
    "masked draws": (lambda: mf.Particles.sample(Law(masked), 3, 0), "points must have no masked"),
    "masked values": (lambda: mf.Density(CIRCLE, lambda x: masked(x[:, 0])), "values must have no"),
    "a masked kernel": (
        lambda: mf.Interaction((masked, np.ones_like)),
        "s of kernel must have no",
    ),
    "a masked output": (
        lambda: mf.evolve(POINTS, Output(masked), 0.1),
        "output of <.*> must have no masked values, got one",
    ),
    "a complex output": (
        lambda: mf.evolve(POINTS, Output(complex_ones), 0.1),
        "output of <.*> must be real, finite and of shape",
    ),
    "a masked number": (lambda: monitored(np.ma.masked), "the monitor own must return a number"),
    "a word": (lambda: monitored("3"), "the monitor own must return a number"),
    "a span of time": (lambda: monitored(np.timedelta64(3, "s")), "the monitor own must return a"),
    "truths as coefficients": (
        lambda: mf.Density.from_coefficients(CIRCLE, np.eye(1, 8)[0] == 1.0),
        "coefficients must be complex",
    ),
}


@pytest.mark.parametrize("what", RETURNED)
def test_what_is_returned_is_looked_at(what):
    call, message = RETURNED[what]
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


@pytest.mark.parametrize(
    "value", [2, np.array(2.0), xr.DataArray(2.0), np.float32(2), mf.Bracket(2.0, 1.0, 3.0)]
)
def test_a_monitor_may_return_any_number(value):
    assert monitored(value).dataset.own.values.tolist() == [2.0, 2.0]
    assert monitored(np.True_).dataset.own.values.tolist() == [1.0, 1.0]


@pytest.mark.usefixtures("folder")
def test_a_sweep_keeps_no_masked_number():
    with pytest.warns(UnfinishedWarning, match="b must have no masked values, got one"):
        ds = mf.sweep(lambda a: {"b": np.ma.masked if a else 1.0}, {"a": [0, 1]})
    assert ds.b[0] == 1.0
    assert np.isnan(ds.b[1])


def test_numbers_come_from_a_dataset_as_they_are():
    sol = mf.evolve(UNIFORM, mf.SA(1.0), 0.6, 3)
    assert sol.at(sol.dataset.t[-1]) is sol.final
    assert mf.SA(sol.dataset.t[-1]) == mf.SA(0.6)
    assert repr(mf.Bracket(np.array(1), 0, xr.DataArray(2.0))) == repr(mf.Bracket(1, 0, 2.0))


def test_times_that_miss_the_end_by_their_last_bit_are_taken():
    # 0.6000000000000001
    times = [0.2 * k for k in range(4)]
    assert times[-1] > 0.6
    sol = mf.evolve(UNIFORM, mf.SA(1.0), 0.6, times)
    assert sol.t.tolist() == [0.0, 0.2, 0.4, 0.6]
    below = mf.evolve(UNIFORM, mf.SA(1.0), 0.6, [0.2, np.nextafter(0.6, 0.0)])
    assert below.t.tolist() == [0.0, 0.2, 0.6]
