"""What a run keeps of its monitors, and which names and values they may have."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.functionals.transport import Bracket
from tests.handmade import tokens, unfinished

START = mf.Density(mf.Circle(64), mf.FourierSeries(cos=[0.5], sin=[0.2]))


def test_clouds_have_brackets():
    monitors = {"w": mf.DistanceTo("start", every=2)}
    sol = mf.evolve(tokens(3, 15), mf.SA(1.0), 1.0, 2, monitors=monitors)
    expected = mf.wasserstein(sol.final, sol.measures[0])
    assert isinstance(expected, Bracket)
    data = sol.dataset
    last = [float(data[name][-1]) for name in ("w", "w_lower", "w_upper")]
    assert last == [expected.value, expected.lower, expected.upper]
    assert last[0] > 0.05
    for name in "w", "w_lower", "w_upper":
        assert np.isfinite(data[name]).values.tolist() == [True, False, True]
    assert data.w.long_name == "Wasserstein distance W_1 to start"
    assert data.w_lower.long_name == "lower bound of Wasserstein distance W_1 to start"
    assert np.array_equal(data.w_proved, [expected.proved, np.nan, expected.proved], equal_nan=True)
    assert data.w_proved.long_name == "bounds of Wasserstein distance W_1 to start are proved"
    units = [data[name].attrs.get("units") for name in ("w", "w_lower", "w_proved")]
    assert units == ["radian", "radian", None]


def test_a_loaded_run_has_them_too(tmp_path):
    def bracketed(measure):
        size = float(np.linalg.norm(measure.mean()))
        return Bracket(size, 0.9 * size, 1.1 * size, size > 0.5) if size > 0.3 else None

    monitors = {"w": lambda measure: measure.mass(), "mine": bracketed}
    sol = mf.evolve(START, mf.SA(2.0), 2.0, 4, monitors=monitors)
    sol.save(tmp_path / "run.nc")
    loaded = mf.load(tmp_path / "run.nc").dataset
    names = {"w", "mine", "mine_lower", "mine_upper", "mine_proved"}
    assert names <= set(loaded)
    for name in names:
        assert np.array_equal(loaded[name], sol.dataset[name], equal_nan=True)
        assert loaded[name].attrs == sol.dataset[name].attrs
    assert np.isfinite(loaded.mine).values.tolist() == [False, True, True, True, True]
    assert loaded.mine_upper.long_name == "upper bound of mine"


class Open:
    """A bracket of which one end is missing."""

    def __init__(self, value, lower, upper):
        self.value, self.lower, self.upper = value, lower, upper

    def __float__(self):
        return self.value


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (float("nan"), "w is nan; is its monitor right?"),
        (float("inf"), "w is inf; is its monitor right?"),
        (Open(1.0, float("nan"), 2.0), "w_lower is nan; is its monitor right?"),
        (Open(1.0, 0.0, float("inf")), "w_upper is inf; is its monitor right?"),
        (Open(float("nan"), 0.0, 1.0), "w is nan; is its monitor right?"),
    ],
)
def test_what_is_no_number_ends_a_run(returned, message):
    sol = unfinished(mf.evolve, START, mf.SA(1.0), 1.0, 2, monitors={"w": lambda _: returned})
    assert sol.status == "failed"
    assert message in sol.message


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        ("far", "'far'"),
        ([1.0, 2.0], r"\[1.0, 2.0\]"),
        (np.array([0.1, 0.2]), r"array\(\[0.1, 0.2\]\)"),
        (1j, "1j"),
    ],
)
def test_a_monitor_that_returns_no_number_at_the_start_raises(returned, shown):
    """Before any step there is nothing to keep, and the note leads to the monitor."""
    must = "^the monitor w must return a number, a Bracket or None, got "
    with pytest.raises(ValueError, match=must + shown) as raised:
        mf.evolve(START, mf.SA(1.0), 1.0, 2, monitors={"w": lambda _: returned})
    (note,) = raised.value.__notes__
    assert note.startswith("in the monitor w at t = 0, for Density(Circle")


def test_a_monitor_that_raises_later_keeps_the_run():
    def late(measure):
        if np.hypot(*measure.mean()) > 0.3:
            raise RuntimeError("too far")
        return 1.0

    sol = unfinished(mf.evolve, START, mf.SA(1.0), 4.0, 40, monitors={"late": late})
    assert sol.status == "failed"
    assert "the monitor late raised RuntimeError('too far') for Density(" in sol.message
    assert 0.0 < sol.t[-1] < 4.0
    assert np.all(sol.dataset.late[:-1] == 1.0)


# names of variables, of dimensions, and of groups of variables or none, which files need
OF_FILES = ["resume_score", "record_dynamics", "points", "t", "energy"]
OF_FILES += ["point", "axis", "held", "panel", "frequency", "history_node", "collapse"]
OF_FILES += ["a/b", "/", ".", ""]
OF_BOUNDS = [("w", "w_lower"), ("w_upper", "w"), ("w", "w_proved")]


@pytest.mark.parametrize("names", [*((name,) for name in OF_FILES), *OF_BOUNDS], ids=str)
def test_names_that_are_taken_are_no_monitors(names):
    shown = f"'({'|'.join(names)})'" if len(names) > 1 else f"'{names[0]}'"
    message = f"monitors must map new names .* to callables, got {shown}"
    with pytest.raises(ValueError, match=message):
        mf.evolve(START, mf.SA(1.0), 1.0, monitors=dict.fromkeys(names, abs))
